//! A fit of the command: opens the table, runs the job of the library and makes the report.

use crate::args::run::{DiskArgs, EngineArgs, Run, ScratchArgs};
use crate::error::flags;
use crate::fit::FitOptions;
use crate::plan::PlanReport;
use crate::progress::Progress;
use crate::report::FitReport;
use crate::{Error, Result, columns, output};
use ksolve::job::{self, Checkpoint, Fitted};
use ksolve::request::{Forecast, Stages};
use kstore::Selected;
use kstore::checkpoint::Listener;
use kstore::pass::Observer;
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
pub(crate) fn fit(
    options: &FitOptions,
    run: &Run,
    path: &Path,
    args: &DiskArgs,
    engine: &EngineArgs,
) -> Result<FitReport> {
    let selected = select(options, run)?;
    output::spare(path, output::inputs(selected.table()).chain(options.fit.files()))?;
    let fitted = fitted(options, &selected, run, (path, true), args, engine)?;
    Ok(FitReport::new(fitted.report, run, selected.table(), Some(path)))
}

/// Fits a model and returns it with the report of the library. The checkpoint stands beside a path, to which the model goes if it is to be
/// saved.
pub(crate) fn fitted(
    options: &FitOptions,
    selected: &Selected,
    run: &Run,
    (path, save): (&Path, bool),
    args: &DiskArgs,
    engine: &EngineArgs,
) -> Result<Fitted> {
    let (fit, scratch) = (options.job(selected)?, args.scratch.open()?);
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
    let fitted = if save { fit.run_and_save(selected, &job, path) } else { fit.run(selected, &job) };
    fitted.map_err(|error| in_terms_of_columns(error, selected))
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
pub(crate) fn plan(options: &FitOptions, run: &Run, scratch: &ScratchArgs) -> Result<PlanReport> {
    let selected = select(options, run)?;
    let (fit, scratch) = (options.job(&selected)?, scratch.open()?);
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
    let (table, selection) = options.open()?;
    let asked = table.select(&selection)?;
    let selected = job(run).coded(&asked)?;
    columns::tell(&selection, (&asked, &selected), &run.progress);
    Ok(selected)
}

/// Names of the targets, or of the class column.
pub(crate) fn target_names(selected: &Selected) -> Vec<String> {
    match selected.class_name() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}
