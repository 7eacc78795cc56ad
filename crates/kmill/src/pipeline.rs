//! A fit of the command: opens the table, runs the job of the library and makes the report.

use crate::args::parse::{Landmarks, Metric};
use crate::args::run::{DiskArgs, EngineArgs, Run, ScratchArgs};
use crate::error::flags;
use crate::fit::FitOptions;
use crate::plan::PlanReport;
use crate::progress::Progress;
use crate::report::FitReport;
use crate::{Error, Result, columns, convert, inspect, output};
use ksolve::AnyModel;
use ksolve::job::{self, Checkpoint, Fit, Fitted};
use ksolve::metric::MetricSource;
use ksolve::train::{Forecast, LandmarkSource, Stages};
use kstore::checkpoint::Listener;
use kstore::pass::Observer;
use kstore::{Categories, Selected, Selection};
use std::path::{Path, PathBuf};

impl Stages for Progress {
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        self.watch(name, rows)
    }
    fn warn(&self, text: String) {
        Self::warn(self, flags(&text));
    }
    fn wants_plan(&self) -> bool {
        self.is_full()
    }
    fn planned(&self, forecast: &Forecast) {
        PlanReport(forecast.clone()).to_string().lines().for_each(|line| self.detail(line));
    }
}

impl Listener for Progress {
    fn note(&self, text: String) {
        Self::note(self, &format!("note: {}", flags(&text)));
    }
    fn warn(&self, text: String) {
        Self::warn(self, flags(&text));
    }
}

/// Fits a model, writes it to `path` and returns the report.
///
/// # Errors
/// All errors of the fit; nothing is written then.
pub fn fit(options: &FitOptions, run: &Run, path: &Path, args: &DiskArgs, engine: &EngineArgs) -> Result<FitReport> {
    let selected = select(options, run)?;
    output::spare(path, output::inputs(selected.table()).chain(options.files()))?;
    let fitted = learn(options, &selected, run, path, args, engine, |fit, job| fit.run_and_save(&selected, job, path))?;
    Ok(FitReport::new(fitted.report, run, selected.table(), Some(path)))
}

/// Fits a model and returns it with the report of the library. The checkpoint stands beside `path`.
///
/// # Errors
/// All errors of the fit.
pub(crate) fn fitted(
    options: &FitOptions,
    selected: &Selected,
    run: &Run,
    path: &Path,
    args: &DiskArgs,
    engine: &EngineArgs,
) -> Result<Fitted> {
    learn(options, selected, run, path, args, engine, |fit, job| fit.run(selected, job))
}

/// Calls `work` with the job of a fit, and with the resources and the checkpoint that it may use.
fn learn(
    options: &FitOptions,
    selected: &Selected,
    run: &Run,
    path: &Path,
    args: &DiskArgs,
    engine: &EngineArgs,
    work: impl FnOnce(&Fit, &job::Run<'_>) -> ksolve::Result<Fitted>,
) -> Result<Fitted> {
    let (fit, scratch) = (with_files(options, selected)?, args.scratch.open()?);
    let fit = match &options.combine {
        None => fit,
        Some(kernels) => {
            let found = fit.combined(kernels, selected, &scratch.iter().fold(job(run), job::Run::scratch))?;
            found.told().into_iter().for_each(|line| run.progress.note(&line));
            fit.kernel(found.kernel)
        }
    };
    let checkpoint = Checkpoint {
        folder: beside(path, ".checkpoint"),
        every: args.checkpoint_every,
        resume: args.resume,
        listener: &run.progress,
        notes: vec![("reading of text files".to_string(), options.text.to_string())],
    };
    let engine = engine.open()?;
    let job = job(run).checkpoint(checkpoint);
    let job = engine.iter().fold(job, |job, engine| job.engine(engine));
    let job = scratch.iter().fold(job, job::Run::scratch);
    work(&fit, &job).map_err(|error| in_terms_of_columns(error, selected))
}

/// The error of a kernel that is restricted to a column of the table which is no feature says why it is none.
fn in_terms_of_columns(error: ksolve::Error, selected: &Selected) -> Error {
    if let ksolve::Error::Approx(kapprox::Error::NoSuchFeature { kernel, name, .. }) = &error {
        let column = selected.table().schema().columns.iter().find(|column| column.name == *name);
        if let Some(column) = column.filter(|column| !column.kind.is_numeric()) {
            let why = format!("column {name} holds {} and is no feature", column.kind);
            let remedy = "make it one with --categories, or leave it out of the kernel";
            return Error::option("--kernel", format!("{kernel}(on={name})"), why, remedy);
        }
    }
    error.into()
}

/// The plan of a fit: the passes and memory of each of its stages.
///
/// # Errors
/// Files and columns that are not there, bad values among the rows that are tried.
pub fn plan(options: &FitOptions, run: &Run, scratch: &ScratchArgs) -> Result<PlanReport> {
    let selected = select(options, run)?;
    let (fit, scratch) = (with_files(options, &selected)?, scratch.open()?);
    let job = scratch.iter().fold(job(run), job::Run::scratch);
    Ok(PlanReport(match &options.combine {
        Some(kernels) => fit.plan_combined(kernels, &selected, &job)?,
        None => fit.plan(&selected, &job)?,
    }))
}

/// The memory, the threads and the progress display that the job may use.
pub(crate) fn job(run: &Run) -> job::Run<'_> {
    job::Run::new().memory(run.memory).threads(run.threads).cancel(crate::interrupt::token()).watch(&run.progress)
}

/// The path beside an output that ends in `ending`, such as the checkpoint `model.safetensors.checkpoint`.
pub(crate) fn beside(output: &Path, ending: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Opens the table, selects the rows and columns of the fit, and finds the values of its categories.
pub(crate) fn select(options: &FitOptions, run: &Run) -> Result<Selected> {
    let (table, targets) = convert::open(&options.paths, &options.text, &options.target)?;
    let selection = options.selection(targets)?;
    let asked = table.select(&selection)?;
    let selected = job(run).coded(&asked)?;
    columns::tell(options, &selection, (&asked, &selected), &run.progress);
    Ok(selected)
}

/// Opens a table of landmarks, or of a metric, and selects columns of it.
fn beside_rows(options: &FitOptions, path: &Path, columns: &Selection) -> Result<Selected> {
    let (table, _) = convert::open(&[path.to_path_buf()], &options.text, &[])?;
    Ok(table.select(columns)?)
}

/// The job with the landmarks and the metric that were asked for, of which both may be files with the columns of the features.
pub(crate) fn with_files(options: &FitOptions, selected: &Selected) -> Result<Fit> {
    let fit = options.fit.clone();
    let fit = match &options.landmarks {
        None => fit,
        Some(Landmarks::Scheme(name)) => fit.landmarks(LandmarkSource::Scheme(name.clone())),
        Some(Landmarks::File(path)) => {
            fit.landmarks(LandmarkSource::Rows(Box::new(beside_rows(options, path, &selected.same_features())?)))
        }
    };
    Ok(match &options.metric {
        None | Some(Metric::None) => fit,
        Some(Metric::Learned(form)) => fit.metric(MetricSource::Learned(*form)),
        Some(Metric::Found(metric)) => fit.metric(MetricSource::of(metric.clone())),
        Some(Metric::File(path)) if inspect::is_model(path) => {
            fit.metric(MetricSource::of_model(&AnyModel::load(path)?, &selected.feature_names())?)
        }
        Some(Metric::File(path)) => {
            // a number for every feature, those of categories too
            let features = selected.feature_names();
            let columns = Selection { features, categories: Categories::None, ..Selection::default() };
            fit.metric(MetricSource::of_table(&beside_rows(options, path, &columns)?)?)
        }
    })
}

/// Names of the targets, or of the class column.
pub(crate) fn target_names(selected: &Selected) -> Vec<String> {
    match selected.class_name() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}
