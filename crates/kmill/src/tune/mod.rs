//! `kmill tune`: the kernel of a fit by successive halving on growing samples, and then the fit.

mod outputs;
mod report;

pub use report::TuneReport;

use crate::args::TuneArgs;
use crate::args::run::Run;
use crate::curve::Watch;
use crate::fit::FitOptions;
use crate::{Error, Result, interrupt, output, pipeline};
use kapprox::Spec;
use ksolve::job::ElementType;
use ksolve::solver::ridge::Ridge;
use ksolve::train::Resources;
use ksolve::tune::{Score, Search, TuneOptions, Tuned};
use kstore::{Selected, Workers};
use outputs::Outputs;
use std::time::Instant;

/// Searches, fits, and writes the outputs.
///
/// # Errors
/// Options that contradict each other, and all errors of the search and the fit; nothing is written then.
pub fn run(args: &TuneArgs, run: &Run) -> Result<TuneReport> {
    let outputs = Outputs::new(&args.output)?;
    if args.disk.resume && outputs.model().is_none() {
        let why = "only the fit keeps a checkpoint, and without a model nothing is fitted";
        return Err(Error::option("--resume", "", why, "leave it out, or name a model with -o"));
    }
    if args.engine.engine.is_some() && outputs.model().is_none() {
        let why = "processes share the passes of the fit, and without a model nothing is fitted";
        return Err(Error::option("--engine", "", why, "leave it out, or name a model with -o"));
    }
    let options = FitOptions::new(&args.solver, &args.data, &args.learn)?;
    let kernels = kernels(args)?;
    let report = match options.fit.element_type() {
        ElementType::F32 => tune::<f32>(args, options, &kernels, run, &outputs),
        ElementType::F64 => tune::<f64>(args, options, &kernels, run, &outputs),
    }?;
    outputs.write(&report)?;
    Ok(report)
}

/// Runs `kmill tune` and prints its report.
pub(crate) fn main(args: &TuneArgs) -> Result<()> {
    let context = args.run.resolve();
    let report = run(args, &context)?;
    output::report(&report, context.json)
}

/// The kernels to try: those of `--kernels`, or the one of `--kernel`.
fn kernels(args: &TuneArgs) -> Result<Vec<Spec>> {
    match &args.kernels {
        Some(_) if args.learn.kernel != Spec::default() => {
            let why = "--kernels names all that are tried";
            Err(Error::option("--kernel", &args.learn.kernel, why, "add it there, and leave --kernel out"))
        }
        Some(kernels) => Ok(kernels.0.clone()),
        None => Ok(vec![args.learn.kernel.clone()]),
    }
}

fn tune<T: kapprox::Real>(
    args: &TuneArgs,
    options: FitOptions,
    kernels: &[Spec],
    run: &Run,
    outputs: &Outputs,
) -> Result<TuneReport> {
    let score = args.score;
    if args.solver != "ridge" && score != Score::Alignment {
        let why = format!("the search would solve for ridge regression, not for {}", args.solver);
        return Err(Error::option("--score", score, why, "take --score alignment, which solves nothing"));
    }
    let selected = pipeline::select(&options, &run.progress)?;
    outputs.spare(selected.table())?;
    let ridge = Ridge::new(&options.fit.settings()?);
    let search = TuneOptions {
        training: pipeline::with_files(&options, &selected)?.training(&selected)?,
        lambdas: ridge.lambdas,
        intercept: ridge.intercept,
        kernels: kernels.iter().map(|kernel| resolved(kernel, &selected)).collect::<Result<_>>()?,
        factors: ksolve::grid::factors(&args.factors)?,
        score,
        sample: args.sample,
    };
    let tuned = searched::<T>(&search, &selected, run)?;
    let fit = match outputs.model() {
        Some(path) => {
            let options = FitOptions { fit: options.fit.clone().kernel(tuned.kernel.clone()), ..options };
            Some(pipeline::fit(&options, run, path, &args.disk, &args.engine)?)
        }
        None => None,
    };
    Ok(TuneReport::new(args.solver.clone(), score, tuned, fit, run, &selected))
}

fn resolved(kernel: &Spec, selected: &Selected) -> Result<Spec> {
    Ok(kernel.resolve_columns(&selected.feature_names())?)
}

/// The search, kernel by kernel.
fn searched<T: kapprox::Real>(options: &TuneOptions, selected: &Selected, run: &Run) -> Result<Tuned> {
    let (watch, workers) = (Watch::new(&run.progress), Workers::new(run.threads));
    let resources = Resources { stages: &watch, ..run.resources(&workers, None) };
    let mut search = Search::<T>::open(selected, options, &resources)?;
    watch.silence();
    let work = run.progress.work("search", search.runs() as u64);
    while let Some(what) = search.upcoming().map(|(kernel, rows)| format!("{kernel} on {rows} rows")) {
        interrupt::check()?;
        work.begin(&what, None);
        let started = Instant::now();
        search.step()?;
        work.end(&what, started.elapsed(), None);
    }
    work.finish();
    Ok(search.finish())
}
