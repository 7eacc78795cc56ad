//! `kmill plot`: a picture of a model's predictions over two of its features, with the rows of a table.
//!
//! The model is evaluated on a grid over the two features; all others stand at their mean over the training rows. Classes
//! are regions, with the line where the scores are equal; numbers and components are shades, with lines of equal value.

mod canvas;
mod contour;
mod ink;
mod letters;
mod picture;
mod pixels;
mod points;
mod svg;

use crate::args::PlotArgs;
use crate::args::run::Run;
use crate::page::{self, Page, Section};
use crate::{Error, Result, machine, output, passes, predictor};
use canvas::Canvas;
use contour::Grid;
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Real};
use ksolve::{AnyModel, Card, Classes, Model};
use kstore::budget::Term;
use kstore::{AtomicFile, Scaler, Workers, shown};
use picture::{Picture, SIZE};
use pixels::Pixels;
use points::Points;
use std::io::Write;
use std::path::Path;
use svg::Svg;

/// Grid points along the two features: a cell is some three pixels wide.
const GRID: (usize, usize) = (200, 150);

/// The report of `kmill plot`: the features, rows and scores of the picture.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PlotReport {
    /// The feature along the horizontal axis.
    pub x: String,
    /// The feature along the vertical axis.
    pub y: String,
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of rows that are drawn.
    pub drawn: usize,
    /// Smallest and largest score on the grid, for each output.
    pub scores: Vec<(f64, f64)>,
    /// The path of the picture.
    #[serde(serialize_with = "kstore::lossy::path")]
    pub output: std::path::PathBuf,
}

impl std::fmt::Display for PlotReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { x, y, output, .. } = self;
        let (output, x, y) = (shown::path(output), shown::line(x), shown::line(y));
        writeln!(f, "{output}: {y} against {x}, {} of {} rows", self.drawn, crate::table::count(self.rows))
    }
}

/// The names and the places of the two features of a picture.
struct Axes {
    names: [String; 2],
    /// Their places among the features of the model.
    at: [usize; 2],
}

/// Draws a model, writes the picture and returns the report.
///
/// # Errors
/// Columns that the model or the table does not have, and errors of reading them.
pub fn run(args: &PlotArgs, run: &Run) -> Result<PlotReport> {
    output::check(&args.output)?;
    let kind = kind(&args.output)?;
    match predictor::load(&args.model, run)? {
        AnyModel::F32(model) => draw(&model, kind, args, run),
        AnyModel::F64(model) => draw(&model, kind, args, run),
    }
}

/// The kinds of pictures, by the extensions of their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Png,
    Svg,
    Page,
}

fn kind(path: &Path) -> Result<Kind> {
    match output::extension(path).as_deref() {
        Some("png") => Ok(Kind::Png),
        Some("svg") => Ok(Kind::Svg),
        Some("html" | "htm") => Ok(Kind::Page),
        _ => {
            let why = "its extension names no kind of picture";
            Err(Error::option("-o", path.display(), why, "end it with .png, .svg or .html"))
        }
    }
}

/// Runs `kmill plot` and prints its report.
pub(crate) fn main(args: &PlotArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}

fn axes(card: &Card, args: &PlotArgs) -> Result<Axes> {
    let place = |option: &'static str, given: &Option<String>, default: usize| match given {
        None if card.features.len() == 2 => Ok(default),
        None => {
            let why = format!("the model has {} features", card.features.len());
            Err(Error::option(option, "", why, "name one of them"))
        }
        Some(name) => card.features.iter().position(|feature| feature == name).ok_or_else(|| {
            Error::option(option, name, "the model has no such feature", "kmill inspect MODEL lists them")
        }),
    };
    let at = [place("--x", &args.x, 0)?, place("--y", &args.y, 1)?];
    if at[0] == at[1] {
        return Err(Error::option("--y", &card.features[at[1]], "this is --x already", "name another feature"));
    }
    Ok(Axes { names: at.map(|i| card.features[i].clone()), at })
}

fn draw<T: Real>(model: &Model<T>, kind: Kind, args: &PlotArgs, run: &Run) -> Result<PlotReport> {
    let axes = axes(&model.card, args)?;
    let functions = model.functions()?;
    let held = vec![predictor::model_term(model, &*functions, 0), picture_term(model, run.threads)];
    let points = Points::read(&model.card, args, &axes.names, held, run)?;
    let outputs = model.dims().2;
    let component = args.component.unwrap_or(1);
    if component > outputs {
        let why = format!("the model has {outputs}");
        return Err(Error::option("--component", component, why, "give a smaller number"));
    }
    let bounds = points.bounds();
    let stage = run.progress.stage("grid", None);
    let scores = evaluate(model, &*functions, &axes, bounds, &Workers::new(run.threads))?;
    stage.finish();
    let classes = crate::predictor::classes(&model.card)?;
    let grids: Vec<Grid> =
        (0..outputs).map(|j| Grid { width: GRID.0, height: GRID.1, values: scores.col_as_slice(j).to_vec() }).collect();
    let regions = classes.as_ref().map(|classes| regions(classes, &scores));
    let picture =
        Picture { names: &axes.names, bounds, points: &points, grids: &grids, regions, component: component - 1 };
    match kind {
        Kind::Png => save(&args.output, &png(&picture).map_err(kstore::Error::io("write", &args.output))?)?,
        Kind::Svg => save(&args.output, svg(&picture, true).as_bytes())?,
        Kind::Page => page(&picture, &model.card, args).write(&args.output)?,
    }
    let range = |grid: &Grid| {
        grid.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
    };
    let [x, y] = axes.names;
    let (rows, drawn, scores) = (points.rows, points.drawn.len(), grids.iter().map(range).collect());
    Ok(PlotReport { x, y, rows, drawn, scores, output: args.output.clone() })
}

/// Bytes of a drawing: its pixels or its text, and the file made of it.
const DRAWING: usize = 8 << 20;

/// The term of the plan for the picture: the scores of the grid twice, a line of it, and the drawing.
fn picture_term<T: Real>(model: &Model<T>, threads: usize) -> Term {
    let (_, d, t) = model.dims();
    let line = GRID.0 * d * size_of::<T>() + 8 * d + model.scratch_bytes(threads);
    passes::term("grid and drawing", 2 * 8 * GRID.0 * GRID.1 * t + line + DRAWING, "lower --threads")
}

/// The scores of the model at every grid point, one row a point.
fn evaluate<T: Real>(
    model: &Model<T>,
    functions: &dyn FeatureMap<T>,
    axes: &Axes,
    bounds: [(f64, f64); 2],
    workers: &Workers,
) -> Result<Mat<f64>> {
    let (_, d, t) = model.dims();
    let scaler = Scaler { centre: model.centre.clone(), scale: model.scale.clone(), mean: model.mean.clone() };
    let mean: Vec<f64> = (0..d).map(|i| scaler.apply(i, scaler.mean[i])).collect();
    let (mut x, mut scores) = (Vec::with_capacity(GRID.0 * d), Mat::zeros(GRID.0 * GRID.1, t));
    for line in 0..GRID.1 {
        x.clear();
        for i in 0..GRID.0 {
            let share = [i as f64 / (GRID.0 - 1) as f64, line as f64 / (GRID.1 - 1) as f64];
            let mut row = mean.clone();
            for ((at, (low, high)), share) in axes.at.iter().zip(bounds).zip(share) {
                row[*at] = scaler.apply(*at, low + share * (high - low));
            }
            x.extend(row.into_iter().map(<T as kstore::Real>::from_f64));
        }
        let out = scores.subrows_mut(line * GRID.0, GRID.0);
        model.predict(functions, MatRef::from_row_major_slice(&x, GRID.0, d), out, workers)?;
    }
    Ok(scores)
}

/// The class at every grid point.
fn regions(classes: &Classes, scores: &Mat<f64>) -> Vec<usize> {
    (0..scores.nrows()).map(|i| classes.decide(scores.row(i).iter().copied())).collect()
}

/// The picture as SVG; where it stands alone, with its own rules and background.
fn svg(picture: &Picture<'_>, alone: bool) -> String {
    let mut svg = Svg::new(&picture.name(), alone);
    if alone {
        svg.rectangle("paper", (0.0, 0.0), SIZE);
    }
    picture.draw(&mut svg);
    svg.finish()
}

fn png(picture: &Picture<'_>) -> std::io::Result<Vec<u8>> {
    let mut pixels = Pixels::new();
    pixels.rectangle("paper", (0.0, 0.0), SIZE);
    picture.draw(&mut pixels);
    pixels.png()
}

fn page(picture: &Picture<'_>, card: &Card, args: &PlotArgs) -> Page {
    let facts =
        [("model", args.model.display().to_string()), ("kernel", card.kernel.clone()), ("machine", machine::machine())];
    let caption = format!("<figcaption>{}</figcaption>", page::text(&picture.name()));
    let drawing = svg(picture, false);
    let body = format!("<div class=\"charts\"><figure class=\"chart\">{caption}{drawing}</figure></div>");
    let run = format!("{}{}", page::command(&machine::command()), page::facts(facts));
    let [x, y] = picture.names;
    Page {
        title: format!("{} over {x} and {y}", card.solver),
        subtitle: card.kernel.clone(),
        sections: vec![Section::new("Picture", body), Section::new("Run", run)],
        style: picture::page_style(),
        ..Page::default()
    }
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(kstore::Error::io("write", path))?;
    Ok(file.commit()?)
}
