//! Pictures of rows alone: columns of a table, such as predictions, or components of a model,
//! coloured by a column.

use super::points::{MAX_DRAWN_ROWS, Points, row_keys};
use super::{DRAWING_BYTES, PageDescription, Plot, PlotReport, describe_model, picture::Picture, write};
use ksolve::job::Run;
use ksolve::predict::{Extras, Predictor};
use ksolve::{Error, Result, Task};
use kstore::{Kind, Table, budget::MemoryTerm};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of the names of component columns in predictions.
const COMPONENT_PREFIX: &str = "component_";

const PREDICTION_COLUMN: &str = "prediction";

pub(super) fn write_table_plot(plot: &Plot, output: &Path, run: &Run) -> Result<PlotReport> {
    let paths: Vec<_> = std::iter::once(&plot.model).chain(&plot.data).cloned().collect();
    let table = plot.open_table(&paths, &plot.text, output)?;
    let colour = colour_column(&table, plot);
    let axes = axis_columns(&table, plot, colour.as_deref())?;
    let terms = vec![MemoryTerm::new("drawing", DRAWING_BYTES, "")];
    let points = Points::read_coloured_by(&table, plot, &axes, colour.as_deref(), terms, run)?;
    let name = plot.model.display().to_string();
    write_scatter(axes, &points, colour, (name.clone(), vec![("table", name)]), plot, output)
}

/// Returns the column that colours the rows of a table; by default, predicted labels.
fn colour_column(table: &Table, plot: &Plot) -> Option<String> {
    let is_label_kind = |kind: &Kind| matches!(kind, Kind::Int { .. } | Kind::Text | Kind::Bool);
    let is_axis = [&plot.x, &plot.y].into_iter().flatten().any(|name| name == PREDICTION_COLUMN);
    let has_predictions =
        table.schema().columns.iter().any(|column| column.name == PREDICTION_COLUMN && is_label_kind(&column.kind));
    plot.colour.clone().or((has_predictions && !is_axis).then(|| PREDICTION_COLUMN.to_string()))
}

/// Returns the columns along the axes: components if the table has them, otherwise the first two
/// numeric columns.
fn axis_columns(table: &Table, plot: &Plot, colour: Option<&str>) -> Result<[String; 2]> {
    let columns = table.schema().columns.iter().filter(|column| column.kind.is_direct_feature());
    let requested = [plot.x.as_deref(), plot.y.as_deref()];
    let is_free = |name: &&str| Some(*name) != colour && *name != PREDICTION_COLUMN && !requested.contains(&Some(name));
    let mut names: Vec<&str> = columns.map(|column| column.name.as_str()).filter(is_free).collect();
    names.sort_by_key(|name| !name.starts_with(COMPONENT_PREFIX));
    let mut names = names.into_iter();
    let [Some(x), Some(y)] = requested.map(|name| name.or_else(|| names.next()).map(String::from)) else {
        let why = "the table has fewer than two numeric columns for the axes; write predictions with the columns of \
            their rows: kmill predict --keep '*'";
        return Err(Error::option("x", "", why));
    };
    Ok([x, y])
}

/// Returns the two requested components, which are requested by their names in predictions. If none
/// is requested, returns the first two components, provided that the model has more than two
/// features or a colour is requested.
pub(super) fn requested_components(predictor: &Predictor, plot: &Plot) -> Option<[usize; 2]> {
    let (metadata, output_count) = (predictor.metadata(), predictor.output_count());
    let component_index = |name: &Option<String>| {
        let name = name.as_ref().filter(|name| !metadata.features.contains(name))?;
        name.strip_prefix(COMPONENT_PREFIX)?.parse().ok().filter(|component| *component < output_count)
    };
    match (metadata.task, component_index(&plot.x), component_index(&plot.y)) {
        (Task::Components, Some(x), Some(y)) => Some([x, y]),
        (Task::Components, ..)
            if plot.x.is_none() && plot.y.is_none() && plot.component.is_none() && output_count > 1 =>
        {
            (metadata.features.len() > 2 || plot.colour.is_some()).then_some([0, 1])
        }
        _ => None,
    }
}

/// Draws the rows of a table by two components of a model.
pub(super) fn write_component_plot(
    predictor: &Predictor,
    [x, y]: [usize; 2],
    plot: &Plot,
    output: &Path,
    run: &Run,
) -> Result<PlotReport> {
    let table = plot.open_table(&plot.data, &plot.text, output)?;
    let colour = plot.colour.as_deref();
    let mut points =
        Points::read_coloured_by(&table, plot, &[], colour, vec![predictor.plan_term(DRAWING_BYTES)], run)?;
    let scores = scores_by_key(predictor, plot, run)?;
    points
        .drawn_rows
        .retain_mut(|drawn| scores.get(&drawn.key).map(|scores| drawn.coordinates = [scores[x], scores[y]]).is_some());
    points.set_ranges_from_drawn_rows();
    let axes = [x, y].map(|component| format!("{COMPONENT_PREFIX}{component}"));
    write_scatter(axes, &points, plot.colour.clone(), describe_model(predictor.metadata(), plot), plot, output)
}

/// Returns the scores of the rows that are drawn, by row key.
pub(super) fn scores_by_key(predictor: &Predictor, plot: &Plot, run: &Run) -> Result<BTreeMap<u64, Vec<f64>>> {
    let table = Table::open_with(&plot.data, &predictor.text_options(plot.text.clone()))?;
    let table = predictor.with_lags(table, run)?;
    let predictor = predictor.clone().with_capacity_for(&table)?;
    let selected = predictor.select(&table, plot.selection(&predictor.metadata().features, Vec::new()))?;
    let (mut scores, keys, t) = (BTreeMap::new(), row_keys(), predictor.output_count().max(1));
    let memory_term = MemoryTerm::new("scores and drawing", 8 * (MAX_DRAWN_ROWS + 1) * (t + 8) + DRAWING_BYTES, "");
    predictor.score_table(&selected, Extras::default(), vec![memory_term], run, |block| {
        for (row, row_scores) in block.row_numbers.iter().zip(block.scores.chunks_exact(t)) {
            scores.insert(keys.word(*row), row_scores.to_vec());
            if scores.len() > MAX_DRAWN_ROWS {
                scores.pop_last();
            }
        }
        Ok(())
    })?;
    Ok(scores)
}

fn write_scatter(
    axis_names: [String; 2],
    points: &Points,
    colour: Option<String>,
    description: PageDescription,
    plot: &Plot,
    output: &Path,
) -> Result<PlotReport> {
    let quantity = colour.unwrap_or_default();
    let picture =
        Picture { bounds: points.padded_ranges(), quantity, ..Picture::new(&axis_names, points, plot.layout()?) };
    write(&picture, description, output)?;
    Ok(PlotReport::new(axis_names, points, Vec::new(), output))
}
