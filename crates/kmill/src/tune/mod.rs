//! `kmill tune`: the kernel of a fit by successive halving on growing samples, and then the fit.

mod outputs;
mod report;

pub use report::TuneReport;

use crate::args::TuneArgs;
use crate::args::parse::{Landmarks, Metric};
use crate::args::run::Run;
use crate::curve::Watch;
use crate::fit::FitOptions;
use crate::{Error, Result, interrupt, output, pipeline};
use kapprox::Spec;
use ksolve::job::ElementType;
use ksolve::metric::Form;
use ksolve::solver::ridge::Ridge;
use ksolve::train::Resources;
use ksolve::tune::{Score, Search, TuneOptions, Tuned};
use kstore::{Selected, Workers};
use outputs::Outputs;
use std::time::{Duration, Instant};

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
    let mut options = FitOptions::new(&args.solver, &args.data, &args.learn)?;
    if learns(args) && options.metric.is_none() {
        options.metric = Some(Metric::Learned(Form::Best));
    }
    // behind a metric few directions matter: schemes that look for what is left of the kernel search long for it, and predict no better
    if learns(args) && options.landmarks.is_none() && !args.learn.map.is_without_rows() {
        options.landmarks = Some(Landmarks::Scheme("uniform".to_string()));
    }
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

/// Ranks that `--time` chooses among.
const RANKS: [usize; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// The kernels that are tried where none is named: smooth, and rough in two degrees.
const KERNELS: [&str; 3] = ["gaussian()", "exponential()", "matern(nu=1.5)"];

/// Factors of the length scales, where no metric is learned with them.
const FACTORS: &str = "0.25..4";

/// The kernels to try: those of `--kernels`, or the one of `--kernel`.
fn kernels(args: &TuneArgs) -> Result<Vec<Spec>> {
    let named = args.learn.kernel != Spec::default();
    match &args.kernels {
        Some(_) if named => {
            let why = "--kernels names all that are tried";
            Err(Error::option("--kernel", &args.learn.kernel, why, "add it there, and leave --kernel out"))
        }
        Some(kernels) => Ok(kernels.0.clone()),
        None if named || !learns(args) => Ok(vec![args.learn.kernel.clone()]),
        None => Ok(KERNELS
            .iter()
            .map(|kernel| Spec::parse(kernel))
            .collect::<Result<_, _>>()
            .map_err(ksolve::Error::from)?),
    }
}

/// True where the metric of every kernel is learned: unless another one was asked for, whenever errors are compared.
fn learns(args: &TuneArgs) -> bool {
    match &args.learn.metric {
        Some(metric) => matches!(metric, Metric::Learned(_)),
        None => args.score != Score::Alignment && args.factors.is_none(),
    }
}

/// The factors of the length scales.
fn factors(args: &TuneArgs) -> Result<Vec<f64>> {
    match &args.factors {
        Some(factors) if learns(args) => {
            let why = "length scales are found with the metric";
            Err(Error::option("--factors", factors, why, "leave it out, or add --metric none"))
        }
        factors => Ok(ksolve::grid::factors(factors.as_deref().unwrap_or(FACTORS))?),
    }
}

fn tune<T: kapprox::Real>(
    args: &TuneArgs,
    options: FitOptions,
    kernels: &[Spec],
    run: &Run,
    outputs: &Outputs,
) -> Result<TuneReport> {
    let (score, started) = (args.score, Instant::now());
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
        factors: factors(args)?,
        score,
        sample: args.sample,
    };
    let tuned = searched::<T>(&search, &selected, run)?;
    let fit = match outputs.model() {
        Some(path) => {
            let fit = options.fit.clone().kernel(tuned.kernel.clone());
            let metric = tuned.metric.clone().map(Metric::Found).or(Some(Metric::None));
            let options = FitOptions { fit, metric, ..options };
            let options = match args.time {
                Some(time) => in_time(options, &selected, time.saturating_sub(started.elapsed()), run)?,
                None => options,
            };
            Some(pipeline::fit(&options, run, path, &args.disk, &args.engine)?)
        }
        None => None,
    };
    Ok(TuneReport::new(args.solver.clone(), score, tuned, fit, run, &selected))
}

/// The fit at the largest rank that is likely to end in time and fits the memory, with all smaller ones in its surface. Which that is
/// depends on the machine; `--ranks` with the ranks of the report gives the same bits on any.
fn in_time(options: FitOptions, selected: &Selected, time: Duration, run: &Run) -> Result<FitOptions> {
    let rows = usize::try_from(selected.known_rows().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut found: Option<(FitOptions, Vec<usize>)> = None;
    for rank in RANKS.into_iter().filter(|rank| *rank <= rows.max(RANKS[0])) {
        let mut ranks = found.as_ref().map_or(Vec::new(), |(_, ranks)| ranks.clone());
        ranks.push(rank);
        let list = ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let fit = match options.fit.family().name {
            "ridge" => options.fit.clone().set("ranks", list),
            _ => options.fit.clone().rank(rank),
        };
        let tried = FitOptions { fit, ..options.clone() };
        let forecast = pipeline::with_files(&tried, selected)?.plan(selected, &pipeline::job(run))?;
        let late = forecast.seconds().is_some_and(|seconds| seconds > time.as_secs_f64());
        if found.is_some() && (late || !forecast.fits()) {
            break;
        }
        found = Some((tried, ranks));
    }
    Ok(found.map_or(options, |(found, _)| found))
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
