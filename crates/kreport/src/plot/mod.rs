//! A picture of a model's predictions over two of its features, with the rows of a table; or of
//! the rows alone.
//!
//! The model is evaluated on a grid over the two features; all other features are set to their
//! means over the training rows. Classes are drawn as regions, with the lines on which two classes
//! have equal scores. Numbers and components are drawn as shades, with contour lines. A model with
//! one feature is drawn as a line. Clusters are drawn as the colours of the rows; if the model has
//! no other features, they are also drawn as regions.

mod contour;
mod legend;
mod line;
mod picture;
mod points;
mod scatter;

use crate::drawing::{self, Drawing, Point, Svg};
use crate::output;
use crate::page::{self, Axis, Edges, Page, Section, extent};
use crate::table::{format_count, rounded_kernel};
use contour::FunctionGrid;
use ksolve::job::{Run, StageObserver};
use ksolve::{Error, ModelMetadata, Result, Task, predict::Predictor};
use kstore::{Condition, Missing, Selection, Table, TextOptions, budget::MemoryTerm, display};
use picture::Picture;
use points::Points;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a picture shows: a model with rows of a table, or rows alone.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Model file, or a table whose rows are drawn.
    pub model: PathBuf,
    /// Files whose rows are drawn with the model, or in addition to the rows of the table.
    pub data: Vec<PathBuf>,
    /// Options for reading text files.
    pub text: TextOptions,
    /// Stored rows that are drawn; `None` selects all.
    pub rows: Option<Range<u64>>,
    /// Condition on the rows that are drawn.
    pub filter: Option<Condition>,
    /// Missing values; `None` selects the setting of the fit, except that rows without a
    /// coordinate are dropped.
    pub missing: Option<Missing>,
    /// Feature, component or column on the horizontal axis; `None` selects the first of two.
    pub x: Option<String>,
    /// Feature, component or column on the vertical axis; `None` selects the second of two.
    pub y: Option<String>,
    /// Output that is drawn, from 1; `None` selects the first.
    pub component: Option<usize>,
    /// Column that colours the rows of a table, or of two components. `None` selects the predicted
    /// labels if the table has them; otherwise the rows have no colours.
    pub colour: Option<String>,
    /// Width and height of the picture in pixels of 1/96 inch (a PNG has twice as many pixels);
    /// `None` selects 760 x 520.
    pub size: Option<(f64, f64)>,
}

/// Default width and height of a picture.
const PICTURE_SIZE: Point = (760.0, 520.0);

/// Smallest and largest width or height of a picture.
const SIZE_RANGE: (f64, f64) = (240.0, 5000.0);

/// Baseline of the name of the vertical axis, which runs upwards.
const Y_NAME_BASELINE: f64 = 16.0;

/// Largest font size of a picture, on a page on a narrow screen.
const MAX_PICTURE_FONT_SIZE: f64 = 19.0;

/// Width and height of a picture, and the edges of its plot area.
#[derive(Clone, Copy, Debug)]
struct Layout {
    size: Point,
    edges: Edges,
}

impl Layout {
    fn new(size: Point) -> Self {
        let (width, height) = size;
        // the legend is to the right of the plot area, the title above it
        Self { size, edges: Edges { left: 76.0, right: width - 134.0, top: 34.0, bottom: height - 60.0 } }
    }

    /// Returns the layout with room for the labels of a vertical axis.
    fn with_room_for(self, y: &Axis) -> Self {
        Self { edges: self.edges.with_room_for(y, Y_NAME_BASELINE, MAX_PICTURE_FONT_SIZE), ..self }
    }

    /// Returns the centre of the title of a standalone picture.
    fn title_position(&self) -> Point {
        ((self.edges.left + self.edges.right) / 2.0, self.edges.top - 14.0)
    }
}

/// Number of grid points along the two features; a cell is about three pixels wide.
const GRID_SIZE: (usize, usize) = (200, 150);

/// The report of a picture.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct PlotReport {
    /// Name of the horizontal axis.
    pub x: String,
    /// Name of the vertical axis.
    pub y: String,
    /// Number of selected rows.
    pub rows: u64,
    /// Number of rows that are drawn.
    pub drawn: usize,
    /// Smallest and largest score on the grid, per output.
    pub scores: Vec<(f64, f64)>,
    /// File of the picture.
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub output: PathBuf,
}

impl PlotReport {
    fn new([x, y]: [String; 2], points: &Points, scores: Vec<(f64, f64)>, output: &Path) -> Self {
        Self { x, y, rows: points.row_count, drawn: points.drawn_rows.len(), scores, output: output.to_path_buf() }
    }
}

impl std::fmt::Display for PlotReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { x, y, output, .. } = self;
        let (output, x, y) = (display::escape_path(output), display::escape_line(x), display::escape_line(y));
        writeln!(
            f,
            "{output}: {y} against {x}, {} of {} rows",
            format_count(self.drawn as u64),
            format_count(self.rows)
        )
    }
}

/// The two features of a picture.
struct Axes {
    names: [String; 2],
    /// Indices among the features of the model.
    indices: [usize; 2],
}

impl Plot {
    /// Draws the picture and writes it to a file that ends with .png, .svg, .pdf or .html.
    ///
    /// *Cost*: one pass over the rows, and a prediction of each grid point.
    ///
    /// # Errors
    /// An axis, component or colour that the model or table does not have; an output file that is
    /// also an input; errors of reading, of the memory plan and of writing.
    pub fn write(&self, output: &Path, run: &Run) -> Result<PlotReport> {
        self.layout()?;
        if !ksolve::job::is_model_file(&self.model) {
            return scatter::write_table_plot(self, output, run);
        }
        let predictor = Predictor::load_within_budget(&self.model, run)?;
        if let Some(components) = scatter::requested_components(&predictor, self) {
            return scatter::write_component_plot(&predictor, components, self, output, run);
        }
        if let Some(colour) = &self.colour {
            let why = "in a picture of this model colours show its predictions; omit this option, or draw a table: \
                kmill predict --keep '*', then kmill plot PREDICTIONS";
            return Err(Error::option("colour", colour, why));
        }
        if let [feature] = &predictor.metadata().features[..] {
            return line::write_line_plot(&predictor, feature, self, output, run);
        }
        let axes = resolve_axes(predictor.metadata(), self)?;
        let terms = vec![predictor.plan_term(0), picture_term(&predictor)];
        let mut points = Points::read_for_model(predictor.metadata(), self, output, &axes.names, terms, run)?;
        if predictor.metadata().task == Task::Clusters {
            points.colour_by_cluster(&scatter::scores_by_key(&predictor, self, run)?, predictor.output_count());
        }
        write_grid_plot(&predictor, axes, &points, self, output, run)
    }

    /// Returns the layout of the picture, and rejects sizes that leave no room for it.
    fn layout(&self) -> Result<Layout> {
        let size = self.size.unwrap_or(PICTURE_SIZE);
        let is_valid = |length: f64| (SIZE_RANGE.0..=SIZE_RANGE.1).contains(&length);
        if !(is_valid(size.0) && is_valid(size.1)) {
            let why = format!("width and height are numbers of pixels from {} to {}", SIZE_RANGE.0, SIZE_RANGE.1);
            return Err(Error::option("size", format!("{}x{}", size.0, size.1), format!("{why}; for example 800x500")));
        }
        Ok(Layout::new(size))
    }

    /// Opens the table whose rows are drawn, and rejects a picture that would replace it.
    fn open_table(&self, paths: &[PathBuf], text: &TextOptions, output: &Path) -> Result<Table> {
        let table = Table::open_with(paths, text)?;
        output::protect_inputs([output], output::table_files(&table).chain([self.model.as_path()]))?;
        Ok(table)
    }

    /// Returns the selected rows with these features and targets.
    fn selection(&self, features: &[String], targets: Vec<String>) -> Selection {
        Selection {
            features: features.to_vec(),
            targets,
            rows: self.rows.clone(),
            filter: self.filter.clone(),
            missing: self.missing.unwrap_or_default(),
            ..Selection::default()
        }
    }
}

fn resolve_axes(metadata: &ModelMetadata, plot: &Plot) -> Result<Axes> {
    if metadata.sparse_shape().is_some() {
        let why = "the model has sparse rows, whose columns cannot be axes; draw a table of its predictions (kmill predict --keep)";
        return Err(Error::option("x", "", why));
    }
    let position = |name: &String| metadata.features.iter().position(|feature| feature == name);
    // the features that separate the clusters best, without the feature of the other axis
    let separating = |default: usize| {
        let other = if default == 0 { &plot.y } else { &plot.x };
        let mut free = metadata.cluster_axes.iter().filter(|name| other.as_ref() != Some(*name));
        let index = if other.is_some() { 0 } else { default };
        free.nth(index).and_then(position)
    };
    let feature_index = |option: &'static str, requested: &Option<String>, default: usize| match requested {
        None if metadata.features.len() == 2 => Ok(default),
        None if separating(default).is_some() => Ok(separating(default).unwrap_or(default)),
        None => {
            let why = format!("the model has {} features, and a picture shows two", metadata.features.len());
            let example_text =
                metadata.features.first().map_or(String::new(), |name| format!(", such as `{option}` {name}"));
            Err(Error::option(
                option,
                "",
                format!("{why}; name one of them{example_text} (kmill inspect MODEL lists them)"),
            ))
        }
        Some(name) => position(name).ok_or_else(|| {
            Error::option(option, name, "the model has no such feature; kmill inspect MODEL lists them")
        }),
    };
    let indices = [feature_index("x", &plot.x, 0)?, feature_index("y", &plot.y, 1)?];
    if indices[0] == indices[1] {
        return Err(Error::option(
            "y",
            &metadata.features[indices[1]],
            "this feature is already `x`; choose another one",
        ));
    }
    let is_binary_feature = metadata.encoding.as_ref().map_or(Vec::new(), |encoding| encoding.binary_mask());
    if let Some((option, i)) =
        ["x", "y"].into_iter().zip(indices).find(|(_, i)| is_binary_feature.get(*i) == Some(&true))
    {
        let why = "this feature is 0 or 1, but an axis needs a numeric column; choose a numeric column";
        return Err(Error::option(option, &metadata.features[i], why));
    }
    Ok(Axes { names: indices.map(|i| metadata.features[i].clone()), indices })
}

fn write_grid_plot(
    predictor: &Predictor,
    axes: Axes,
    points: &Points,
    plot: &Plot,
    output: &Path,
    run: &Run,
) -> Result<PlotReport> {
    let (output_count, component) = (predictor.output_count(), component_index(predictor, plot)?);
    let bounds = points.padded_ranges();
    let stage_recorder = run.stage_recorder();
    let stage = stage_recorder.start_stage("grid", None);
    let scores = evaluate_grid(predictor, &axes, bounds)?;
    drop(stage);
    let output_values = |j: usize| scores.iter().skip(j).step_by(output_count).copied().collect();
    let grids: Vec<FunctionGrid> = (0..output_count)
        .map(|j| FunctionGrid { width: GRID_SIZE.0, height: GRID_SIZE.1, values: output_values(j) })
        .collect();
    let metadata = predictor.metadata();
    let regions = match (predictor.classes(), metadata.task) {
        (Some(classes), _) => {
            Some(scores.chunks(output_count).map(|row| classes.decide(row.iter().copied())).collect())
        }
        // regions are evaluated at the mean of the other features, and would not show the clusters
        // of the rows
        (None, Task::Clusters) if metadata.features.len() == 2 => {
            Some(scores.chunks(output_count).map(argmax).collect())
        }
        _ => None,
    };
    let drawn_grids = if regions.is_none() && metadata.task == Task::Clusters { &[][..] } else { &grids };
    let quantity = quantity_name(metadata, component, output_count);
    let boundary = (metadata.task == Task::Novelty).then_some(0.0);
    let base_picture = Picture::new(&axes.names, points, plot.layout()?);
    let picture = Picture { bounds, grids: drawn_grids, regions, component, quantity, boundary, ..base_picture };
    write(&picture, describe_model(metadata, plot), output)?;
    let score_ranges = grids.iter().map(|grid| extent(grid.values.iter().copied())).collect();
    Ok(PlotReport::new(axes.names, points, score_ranges, output))
}

/// Returns the index of the largest score: the cluster of a row.
fn argmax(scores: &[f64]) -> usize {
    (0..scores.len()).reduce(|best, i| if scores[i] > scores[best] { i } else { best }).unwrap_or(0)
}

/// Returns the index of the output that is drawn, from 0.
fn component_index(predictor: &Predictor, plot: &Plot) -> Result<usize> {
    let (output_count, component) = (predictor.output_count(), plot.component.unwrap_or(1));
    if component > output_count {
        let why = format!("the model has {output_count} outputs; choose a number from 1 to {output_count}");
        return Err(Error::option("component", component, why));
    }
    Ok(component - 1)
}

/// Describes what is drawn: the name of the target, or which score or component.
fn quantity_name(metadata: &ModelMetadata, component: usize, output_count: usize) -> String {
    match (metadata.task, &metadata.targets[..]) {
        (Task::Regression | Task::Classification, targets) => {
            let target = targets.get(component / metadata.outputs_per_target()).or(targets.first());
            let name = target.unwrap_or(&metadata.solver);
            level_name(metadata, component).map_or(name.clone(), |level| format!("{name}, {level}"))
        }
        (Task::Ranking | Task::Novelty, _) => format!("{}: score", metadata.solver),
        (Task::Clusters, _) => format!("clusters of {}", metadata.solver),
        (Task::Components, _) => format!("{}: component {} of {output_count}", metadata.solver, component + 1),
    }
}

/// Returns `quantile 0.1` or `expectile 0.1` for an output of a model of these; `None` for other
/// models.
fn level_name(metadata: &ModelMetadata, component: usize) -> Option<String> {
    let loss = metadata.loss.as_ref()?;
    let kind = if loss.name() == "expectile" { "expectile" } else { "quantile" };
    loss.levels().get(component % metadata.outputs_per_target()).map(|level| format!("{kind} {level}"))
}

/// Memory of a drawing: its pixels or its text, and the encoded file, in bytes.
const DRAWING_BYTES: usize = 8 << 20;

/// Returns the memory term of the picture: the scores of the grid twice, a line of the grid, and
/// the drawing.
fn picture_term(predictor: &Predictor) -> MemoryTerm {
    let line_bytes = 2 * 8 * GRID_SIZE.0 * predictor.feature_count() + predictor.scratch_bytes();
    MemoryTerm::new(
        "grid and drawing",
        2 * 8 * GRID_SIZE.0 * GRID_SIZE.1 * predictor.output_count() + line_bytes + DRAWING_BYTES,
        "",
    )
}

/// Returns the scores of the model at every grid point, row-major, one row per point. The other
/// features have their means over the training rows.
fn evaluate_grid(predictor: &Predictor, axes: &Axes, bounds: [(f64, f64); 2]) -> Result<Vec<f64>> {
    let (d, t) = (predictor.feature_count(), predictor.output_count());
    let mut x: Vec<f64> = (0..GRID_SIZE.0).flat_map(|_| predictor.means()).copied().collect();
    let mut scores = vec![0.0; GRID_SIZE.0 * GRID_SIZE.1 * t];
    for (grid_row, scores) in scores.chunks_mut(GRID_SIZE.0 * t).enumerate() {
        for (i, row) in x.chunks_mut(d).enumerate() {
            let fraction = [i as f64 / (GRID_SIZE.0 - 1) as f64, grid_row as f64 / (GRID_SIZE.1 - 1) as f64];
            for ((column, (low, high)), fraction) in axes.indices.iter().zip(bounds).zip(fraction) {
                row[*column] = low + fraction * (high - low);
            }
        }
        predictor.predict(&x, scores)?;
    }
    Ok(scores)
}

/// The description of a picture on a page: a line below its title, and facts.
type PageDescription = (String, Vec<(&'static str, String)>);

fn describe_model(metadata: &ModelMetadata, plot: &Plot) -> PageDescription {
    let kernel = rounded_kernel(&metadata.kernel);
    let title = format!("{} by {kernel}", metadata.solver);
    (title, vec![("model", plot.model.display().to_string()), ("kernel", kernel)])
}

fn write(picture: &dyn Drawing, (subtitle, facts): PageDescription, path: &Path) -> Result<()> {
    if !output::is_html(path) {
        return Ok(drawing::write(picture, path)?);
    }
    let mut drawing = Svg::new("picture", &picture.title(), picture.size(), "");
    picture.draw(&mut drawing);
    let caption = format!("<figcaption>{}</figcaption>", drawing::escape_html(&picture.title()));
    let body = format!("<div class=\"charts\"><figure class=\"chart\">{caption}{}</figure></div>", drawing.finish());
    let page = Page {
        title: picture.title(),
        subtitle,
        sections: vec![Section::new("Picture", body), page::run_section(true, facts, &[])],
        ..Page::default()
    };
    Ok(page.write(path)?)
}
