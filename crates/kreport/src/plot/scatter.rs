//! Pictures of rows alone: columns of a table, such as predictions, or components of a model,
//! coloured by a column.

use super::points::{DRAWN, Points, keys};
use super::{About, DRAWING, Plot, PlotReport, about, picture::Picture, write};
use ksolve::job::Run;
use ksolve::predict::{Extras, Predictor};
use ksolve::{Error, Result, Task};
use kstore::{Kind, Table, budget::Term};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of the names of component columns in predictions.
const COMPONENT: &str = "component_";

const PREDICTION: &str = "prediction";

pub(super) fn table(plot: &Plot, output: &Path, run: &Run) -> Result<PlotReport> {
    let paths: Vec<_> = std::iter::once(&plot.model).chain(&plot.data).cloned().collect();
    let table = plot.open(&paths, &plot.text, output)?;
    let colour = colour_of(&table, plot);
    let axes = axes(&table, plot, colour.as_deref())?;
    let terms = vec![Term::new("drawing", DRAWING, "")];
    let points = Points::coloured(&table, plot, &axes, colour.as_deref(), terms, run)?;
    let name = plot.model.display().to_string();
    drawn(axes, &points, colour, (name.clone(), vec![("table", name)]), output)
}

/// Returns the column that colours the rows of a table; by default, predicted labels.
fn colour_of(table: &Table, plot: &Plot) -> Option<String> {
    let label = |kind: &Kind| matches!(kind, Kind::Int { .. } | Kind::Text | Kind::Bool);
    let is_axis = [&plot.x, &plot.y].into_iter().flatten().any(|name| name == PREDICTION);
    let predicted = table.schema().columns.iter().any(|column| column.name == PREDICTION && label(&column.kind));
    plot.colour.clone().or((predicted && !is_axis).then(|| PREDICTION.to_string()))
}

/// Returns the columns along the axes: components, otherwise the first two numeric columns.
fn axes(table: &Table, plot: &Plot, colour: Option<&str>) -> Result<[String; 2]> {
    let columns = table.schema().columns.iter().filter(|column| column.kind.is_feature());
    let given = [plot.x.as_deref(), plot.y.as_deref()];
    let free = |name: &&str| Some(*name) != colour && *name != PREDICTION && !given.contains(&Some(name));
    let mut names: Vec<&str> = columns.map(|column| column.name.as_str()).filter(free).collect();
    names.sort_by_key(|name| !name.starts_with(COMPONENT));
    let mut names = names.into_iter();
    let [Some(x), Some(y)] = given.map(|name| name.or_else(|| names.next()).map(String::from)) else {
        let why = "the table has fewer than two numeric columns for the axes; write predictions with the columns of \
            their rows: kmill predict --keep '*'";
        return Err(Error::option("x", "", why));
    };
    Ok([x, y])
}

/// Returns the two requested components, by their names in predictions; by default the first two,
/// for a model with more than two features or if a colour is requested.
pub(super) fn components(predictor: &Predictor, plot: &Plot) -> Option<[usize; 2]> {
    let (card, outputs) = (predictor.card(), predictor.outputs());
    let number = |name: &Option<String>| {
        let name = name.as_ref().filter(|name| !card.features.contains(name))?;
        name.strip_prefix(COMPONENT)?.parse().ok().filter(|at| *at < outputs)
    };
    match (card.task, number(&plot.x), number(&plot.y)) {
        (Task::Components, Some(x), Some(y)) => Some([x, y]),
        (Task::Components, ..) if plot.x.is_none() && plot.y.is_none() && plot.component.is_none() && outputs > 1 => {
            (card.features.len() > 2 || plot.colour.is_some()).then_some([0, 1])
        }
        _ => None,
    }
}

/// Draws the rows of a table by two components of a model.
pub(super) fn of_components(
    predictor: &Predictor,
    [x, y]: [usize; 2],
    plot: &Plot,
    output: &Path,
    run: &Run,
) -> Result<PlotReport> {
    let table = plot.open(&plot.data, &plot.text, output)?;
    let colour = plot.colour.as_deref();
    let mut points = Points::coloured(&table, plot, &[], colour, vec![predictor.term(DRAWING)], run)?;
    let scores = scores(predictor, plot, run)?;
    points
        .drawn
        .retain_mut(|drawn| scores.get(&drawn.key).map(|scores| drawn.place = [scores[x], scores[y]]).is_some());
    points.measure();
    let axes = [x, y].map(|at| format!("{COMPONENT}{at}"));
    drawn(axes, &points, plot.colour.clone(), about(predictor.card(), plot), output)
}

/// Returns the scores of the rows that are drawn, by row key.
pub(super) fn scores(predictor: &Predictor, plot: &Plot, run: &Run) -> Result<BTreeMap<u64, Vec<f64>>> {
    let table = Table::open_with(&plot.data, &predictor.reading(plot.text.clone()))?;
    let predictor = predictor.clone().fitting(&table)?;
    let selected = predictor.select(&table, plot.selection(&predictor.card().features, Vec::new()))?;
    let (mut found, keys, t) = (BTreeMap::new(), keys(), predictor.outputs().max(1));
    let held = Term::new("scores and drawing", 8 * (DRAWN + 1) * (t + 8) + DRAWING, "");
    predictor.scores(&selected, Extras::default(), vec![held], run, |segment| {
        for (row, own) in segment.rows.iter().zip(segment.scores.chunks_exact(t)) {
            found.insert(keys.word(*row), own.to_vec());
            if found.len() > DRAWN {
                found.pop_last();
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn drawn(
    names: [String; 2],
    points: &Points,
    colour: Option<String>,
    about: About,
    output: &Path,
) -> Result<PlotReport> {
    let what = colour.unwrap_or_default();
    let picture = Picture { bounds: points.bounds(), what, ..Picture::new(&names, points) };
    write(&picture, about, output)?;
    Ok(PlotReport::new(names, points, Vec::new(), output))
}
