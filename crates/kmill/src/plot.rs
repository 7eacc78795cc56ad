//! `kmill plot`: draws a model's predictions over two of its features, with the rows of a table; or
//! the rows alone.

use crate::Error;
use crate::args::{RunArgs, RunSettings, SelectArgs, parse};
use crate::output::{self, FileKind};
use clap::Args;
use kreport::plot::{Plot, PlotReport};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(mut_arg("paths", |arg| arg.required(false)), after_help = "Examples:\n  \
    kmill plot model.safetensors moons.parquet -o moons.svg\n  \
    kmill plot model.safetensors all.parquet --x x3 --y x7 -o picture.html\n  \
    kmill plot kpca.safetensors all.parquet --colour city -o components.png\n  \
    kmill plot model.safetensors moons.parquet --size 480x320 -o figure.pdf\n  \
    kmill plot predictions.parquet --x size --y price --colour prediction -o picture.svg\n\n\
    Classes are drawn as regions; numbers and components as shades with contour lines. Features that \
    are not drawn are set to their mean over the training rows. The model is pale where no drawn row is near. A model with one feature is drawn as \
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
    #[arg(long, value_name = "K", value_parser = parse::positive_integer, help_heading = "Picture")]
    pub(crate) component: Option<usize>,
    /// Column that colours the rows of a table, or of two components [default: prediction, if it
    /// holds labels]
    #[arg(long, alias = "color", value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub(crate) colour: Option<String>,
    /// Width and height of the picture in pixels of 1/96 inch; a PNG has twice as many pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = parse::picture_size, default_value = "760x520", help_heading = "Picture")]
    pub(crate) size: (f64, f64),
    /// Output file of the picture: .png, .svg, .pdf, or .html for a page
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(crate) fn run(args: &PlotArgs, run: &RunSettings) -> crate::Result<PlotReport> {
    let PlotArgs { model, data, x, y, component, colour, size, output, .. } = args;
    output::check_writable(output)?;
    let why = "its extension is not that of a picture";
    FileKind::from_path(
        output,
        &[FileKind::Picture, FileKind::Page],
        why,
        "choose a name that ends with .png, .svg, .pdf or .html",
    )?;
    if ksolve::job::is_model_file(model) && data.paths.is_empty() {
        return Err(Error::option("DATA", "", "a picture of a model also shows rows", "name a table after the model"));
    }
    let plot = Plot {
        model: model.clone(),
        data: data.paths.clone(),
        text: data.text.text_options(),
        rows: data.rows.clone(),
        filter: data.condition.clone(),
        missing: data.missing,
        x: x.clone(),
        y: y.clone(),
        component: *component,
        colour: colour.clone(),
        size: Some(*size),
    };
    Ok(plot.write(output, &run.job_run())?)
}
