//! `kmill plot`: a picture of a model's predictions over two of its features, with the rows of a
//! table; or of the rows alone.
//!
//! The model is evaluated on a grid over the two features; all others are set to their means over
//! the training rows. Classes are drawn as regions, with the line of equal scores; numbers and
//! components as shades, with contour lines. A model with one feature is drawn as a line. Clusters
//! are the colours of the rows, and regions if the model has no other features.

mod contour;
mod legend;
mod line;
mod picture;
mod points;
mod scatter;

use crate::args::{Run, RunArgs, SelectArgs, parse};
use crate::drawing::{self, Drawing, Point, Svg};
use crate::output::{self, Kind};
use crate::page::{self, Edges, Page, Section, extent};
use crate::table::{count, rounded};
use crate::{Error, Result, open, usage};
use clap::Args;
use contour::FunctionGrid;
use ksolve::{Card, Task, predict::Predictor};
use kstore::{Table, budget::Term, shown};
use picture::Picture;
use points::Points;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(mut_arg("paths", |arg| arg.required(false)), after_help = "Examples:\n  \
    kmill plot model.safetensors moons.parquet -o moons.svg\n  \
    kmill plot model.safetensors all.parquet --x x3 --y x7 -o picture.html\n  \
    kmill plot kpca.safetensors all.parquet --colour city -o components.png\n  \
    kmill plot predictions.parquet --x size --y price --colour prediction -o picture.svg\n\n\
    Classes are drawn as regions; numbers and components as shades with contour lines. Features that \
    are not drawn are set to their mean over the training rows. A model with one feature is drawn as \
    a line. Clusters are drawn as colours of the rows. Two components, and a table without a model, \
    are drawn as scatter plots. A page (.html) can save the picture as PNG.")]
pub(crate) struct PlotArgs {
    /// Model file written by `kmill fit`, or a table whose rows are drawn, such as predictions
    #[arg(value_name = "MODEL|DATA")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Feature on the horizontal axis, or component_0, component_1, …; for a table, a column
    /// [default: the first of two]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub(crate) x: Option<String>,
    /// Feature, component or column on the vertical axis [default: the second of two]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub(crate) y: Option<String>,
    /// Output to draw, from 1: a target, or a component of kpca [default: 1]
    #[arg(long, value_name = "K", value_parser = parse::rank, help_heading = "Picture")]
    pub(crate) component: Option<usize>,
    /// Column that colours the rows of a table, or of two components [default: prediction, if it
    /// holds labels]
    #[arg(long, alias = "color", value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub(crate) colour: Option<String>,
    /// Output file of the picture: .png, .svg, or .html for a page
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Width and height of a picture, and the edges of the plot area.
const SIZE: Point = (760.0, 520.0);
const PLANE: Edges = Edges { left: 76.0, right: 626.0, top: 34.0, bottom: 460.0 };

/// Centre of the title of a standalone picture.
const HEADING: Point = ((PLANE.left + PLANE.right) / 2.0, PLANE.top - 14.0);

/// Number of grid points along the two features; a cell is about three pixels wide.
const GRID: (usize, usize) = (200, 150);

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct PlotReport {
    pub x: String,
    pub y: String,
    pub rows: u64,
    pub drawn: usize,
    /// Smallest and largest score on the grid, per output.
    pub scores: Vec<(f64, f64)>,
    #[serde(serialize_with = "kstore::shown::lossy_path")]
    pub output: std::path::PathBuf,
}

impl PlotReport {
    fn new([x, y]: [String; 2], points: &Points, scores: Vec<(f64, f64)>, args: &PlotArgs) -> Self {
        Self { x, y, rows: points.rows, drawn: points.drawn.len(), scores, output: args.output.clone() }
    }
}

impl std::fmt::Display for PlotReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { x, y, output, .. } = self;
        let (output, x, y) = (shown::path(output), shown::line(x), shown::line(y));
        writeln!(f, "{output}: {y} against {x}, {} of {} rows", count(self.drawn as u64), count(self.rows))
    }
}

/// The two features of a picture.
struct Axes {
    names: [String; 2],
    /// Indices among the features of the model.
    at: [usize; 2],
}

pub(crate) fn run(args: &PlotArgs, run: &Run) -> Result<PlotReport> {
    output::check(&args.output)?;
    kind(args)?;
    if !ksolve::job::is_model(&args.model) {
        return scatter::table(args, run);
    }
    if args.data.paths.is_empty() {
        return Err(Error::option("DATA", "", "a picture of a model shows rows", "name the table behind the model"));
    }
    let predictor = open::load(&args.model, run)?;
    if let Some(components) = scatter::components(&predictor, args) {
        return scatter::of_components(&predictor, components, args, run);
    }
    if let Some(colour) = &args.colour {
        let why = "in a picture of this model colours are what it predicts";
        let remedy = "leave it out, or draw a table: kmill predict --keep '*', then kmill plot PREDICTIONS";
        return Err(Error::option("--colour", colour, why, remedy));
    }
    if let [feature] = &predictor.card().features[..] {
        return line::run(&predictor, feature, args, run);
    }
    let axes = axes(predictor.card(), args)?;
    let held = vec![predictor.term(0), picture_term(&predictor)];
    let mut points = Points::read(predictor.card(), args, &axes.names, held, run)?;
    if predictor.card().task == Task::Clusters {
        points.group(&scatter::scores(&predictor, args, run)?, predictor.outputs());
    }
    draw(&predictor, axes, &points, args, run)
}

/// Opens the table whose rows are drawn, and rejects a picture that would replace it.
fn opened(paths: &[PathBuf], args: &PlotArgs) -> Result<Table> {
    let (table, _) = open::table(paths, &args.data.text.options(), &[])?;
    output::spare([&args.output], output::inputs(&table).chain([args.model.as_path()]))?;
    Ok(table)
}

/// Draws the same picture as `kmill plot` with these arguments, for callers in other languages.
///
/// # Errors
/// The errors of the command.
pub fn picture(words: &[String]) -> Result<()> {
    let words = ["plot"].into_iter().chain(words.iter().map(String::as_str));
    let args: PlotArgs =
        usage::parsed(words).map_err(|error| Error::option("plot", "", error.to_string(), "see kmill plot --help"))?;
    run(&args, &args.run.resolve()).map(drop)
}

fn axes(card: &Card, args: &PlotArgs) -> Result<Axes> {
    let place = |option: &'static str, given: &Option<String>, default: usize| match given {
        None if card.features.len() == 2 => Ok(default),
        None => {
            let why = format!("the model has {} features, and a picture shows two", card.features.len());
            let first = card.features.first().map_or(String::new(), |name| format!(", such as {option} {name}"));
            Err(Error::option(option, "", why, format!("name one of them{first} (kmill inspect MODEL lists them)")))
        }
        Some(name) => card.features.iter().position(|feature| feature == name).ok_or_else(|| {
            Error::option(option, name, "the model has no such feature", "kmill inspect MODEL lists them")
        }),
    };
    let at = [place("--x", &args.x, 0)?, place("--y", &args.y, 1)?];
    if at[0] == at[1] {
        return Err(Error::option("--y", &card.features[at[1]], "this is --x already", "name another feature"));
    }
    let flags = card.encoding.as_ref().map_or(Vec::new(), |encoding| encoding.flags());
    if let Some((option, i)) = ["--x", "--y"].into_iter().zip(at).find(|(_, i)| flags.get(*i) == Some(&true)) {
        let why = "it is 0 or 1, and an axis is a column of numbers";
        return Err(Error::option(option, &card.features[i], why, "name a column of numbers"));
    }
    Ok(Axes { names: at.map(|i| card.features[i].clone()), at })
}

fn draw(predictor: &Predictor, axes: Axes, points: &Points, args: &PlotArgs, run: &Run) -> Result<PlotReport> {
    let (outputs, component) = (predictor.outputs(), component(predictor, args)?);
    let bounds = points.bounds();
    let stage = run.progress.stage("grid", None);
    let scores = evaluate(predictor, &axes, bounds)?;
    stage.finish();
    let values = |j: usize| scores.iter().skip(j).step_by(outputs).copied().collect();
    let grids: Vec<FunctionGrid> =
        (0..outputs).map(|j| FunctionGrid { width: GRID.0, height: GRID.1, values: values(j) }).collect();
    let card = predictor.card();
    let regions = match (predictor.classes(), card.task) {
        (Some(classes), _) => Some(scores.chunks(outputs).map(|row| classes.decide(row.iter().copied())).collect()),
        // a slice through the mean of other features says nothing about a cluster
        (None, Task::Clusters) if card.features.len() == 2 => Some(scores.chunks(outputs).map(largest).collect()),
        _ => None,
    };
    let shown = if regions.is_none() && card.task == Task::Clusters { &[][..] } else { &grids };
    let what = what(card, component, outputs);
    let border = (card.task == Task::Novelty).then_some(0.0);
    let rows = Picture::new(&axes.names, points);
    let picture = Picture { bounds, grids: shown, regions, component, what, border, ..rows };
    write(&picture, about(card, args), args)?;
    let scores = grids.iter().map(|grid| extent(grid.values.iter().copied())).collect();
    Ok(PlotReport::new(axes.names, points, scores, args))
}

/// Returns the index of the largest score: the cluster of a row.
fn largest(scores: &[f64]) -> usize {
    (0..scores.len()).reduce(|best, at| if scores[at] > scores[best] { at } else { best }).unwrap_or(0)
}

/// Returns the index of the output that is drawn, from 0.
fn component(predictor: &Predictor, args: &PlotArgs) -> Result<usize> {
    let (outputs, component) = (predictor.outputs(), args.component.unwrap_or(1));
    if component > outputs {
        let why = format!("the model has {outputs}");
        return Err(Error::option("--component", component, why, "give a smaller number"));
    }
    Ok(component - 1)
}

/// Describes what is drawn: the name of the target, or which score or component.
fn what(card: &Card, component: usize, outputs: usize) -> String {
    match (card.task, &card.targets[..]) {
        (Task::Regression | Task::Classification, targets) => match targets.get(component).or(targets.first()) {
            Some(target) => target.clone(),
            None => card.solver.clone(),
        },
        (Task::Ranking | Task::Novelty, _) => format!("{}: score", card.solver),
        (Task::Clusters, _) => format!("groups of {}", card.solver),
        (Task::Components, _) => format!("{}: component {} of {outputs}", card.solver, component + 1),
    }
}

/// Memory of a drawing: its pixels or its text, and the encoded file, in bytes.
const DRAWING: usize = 8 << 20;

/// Returns the memory term of the picture: the scores of the grid twice, a line of it, and the
/// drawing.
fn picture_term(predictor: &Predictor) -> Term {
    let line = 2 * 8 * GRID.0 * predictor.features() + predictor.scratch_bytes();
    Term::new("grid and drawing", 2 * 8 * GRID.0 * GRID.1 * predictor.outputs() + line + DRAWING, "")
}

/// Returns the scores of the model at every grid point, row-major, one row per point. The other
/// features have their means over the training rows.
fn evaluate(predictor: &Predictor, axes: &Axes, bounds: [(f64, f64); 2]) -> Result<Vec<f64>> {
    let (d, t) = (predictor.features(), predictor.outputs());
    let mut x: Vec<f64> = (0..GRID.0).flat_map(|_| predictor.means()).copied().collect();
    let mut scores = vec![0.0; GRID.0 * GRID.1 * t];
    for (line, scores) in scores.chunks_mut(GRID.0 * t).enumerate() {
        for (i, row) in x.chunks_mut(d).enumerate() {
            let share = [i as f64 / (GRID.0 - 1) as f64, line as f64 / (GRID.1 - 1) as f64];
            for ((at, (low, high)), share) in axes.at.iter().zip(bounds).zip(share) {
                row[*at] = low + share * (high - low);
            }
        }
        predictor.predict(&x, scores)?;
    }
    Ok(scores)
}

/// The description of a picture on a page: a line below its title, and facts.
type About = (String, Vec<(&'static str, String)>);

fn about(card: &Card, args: &PlotArgs) -> About {
    let kernel = rounded(&card.kernel);
    let title = format!("{} by {kernel}", card.solver);
    (title, vec![("model", args.model.display().to_string()), ("kernel", kernel)])
}

fn kind(args: &PlotArgs) -> Result<Kind> {
    let why = "its extension names no kind of picture";
    Kind::of(&args.output, &[Kind::Picture, Kind::Page], why, "end it with .png, .svg or .html")
}

fn write(picture: &dyn Drawing, (subtitle, facts): About, args: &PlotArgs) -> Result<()> {
    if kind(args)? == Kind::Picture {
        return drawing::write(picture, &args.output);
    }
    let mut drawing = Svg::new("picture", &picture.name(), picture.size(), "");
    picture.draw(&mut drawing);
    let caption = format!("<figcaption>{}</figcaption>", drawing::text(&picture.name()));
    let body = format!("<div class=\"charts\"><figure class=\"chart\">{caption}{}</figure></div>", drawing.finish());
    let page = Page {
        title: picture.name(),
        subtitle,
        sections: vec![Section::new("Picture", body), page::run(true, facts, &[])],
        ..Page::default()
    };
    page.write(&args.output)
}
