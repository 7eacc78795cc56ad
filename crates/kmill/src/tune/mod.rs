//! `kmill tune`: chooses the kernel by successive halving on growing samples and the solver by
//! trials, then fits.

mod search;

use crate::args::parse::Kernels;
use crate::args::{DataArgs, DiskArgs, MapArgs, Run, RunArgs, SolverArgs, parse};
use crate::output::{self, Kind, Outputs};
use crate::{Error, Result, open, pipeline, pipeline::FitOptions};
use clap::{Args, builder::PossibleValuesParser};
use kapprox::Kernel;
use kreport::table::{count, joined};
use kreport::tune::{COLUMNS, TuneReport};
use ksolve::job::{Checkpoint, ElementType, Fit};
use ksolve::tune::{ANY, Chosen, Given, Memory, Pace, Score, SearchWork, Select, Tune, TuneOptions, stand_in};
use kstore::{Missing, Selection, checkpoint::Journal, sink::OutputKind};
use search::SearchStages;
use std::{cell::OnceCell, path::PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill tune any train.parquet --target y --time 1min -o model.safetensors\n  \
    kmill tune ridge train.parquet --target y --kernels 'gaussian(),laplacian(),matern(nu=1.5)' \\\n    \
        --factors 0.25..4 --ranks 100..800 -o model.safetensors -o search.csv\n  \
    kmill tune svm train.parquet --target label --score alignment -o model.safetensors\n\n\
    A metric and a length scale are learned for every kernel on a sample of the rows, and the kernels \
    are compared on this sample. With --metric none every kernel is measured at every factor on a \
    small sample, the better half on twice as many rows, and so on. The winner is fitted on all rows \
    as by `kmill fit`, over all --ranks and --lambda.")]
pub(crate) struct TuneArgs {
    /// Supervised solver that uses the chosen kernel, or any, which compares ridge, svm and
    /// logistic on validation rows
    #[arg(value_name = "SOLVER", hide_possible_values = true, value_parser = solvers())]
    pub(crate) solver: String,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Kernels to compare, comma-separated [default: gaussian, exponential, matern and laplacian,
    /// or only --kernel]
    #[arg(long, value_name = "LIST", value_parser = parse::kernels, help_heading = "Search")]
    pub(crate) kernels: Option<Kernels>,
    /// Factors of the length scale of each kernel: 0.5,1,2 or 0.25..4 (doubling); a learned metric
    /// has its own length scale [default: 0.25..4]
    #[arg(long, value_name = "LIST", value_parser = parse::factors, help_heading = "Search")]
    pub(crate) factors: Option<String>,
    /// Time budget of the search and the fit; the fit uses the exact kernel (--map exact), or ranks
    /// 500, 1000, 2000, … as far as it is predicted to finish in time
    #[arg(long, value_name = "TIME", value_parser = parse::duration, conflicts_with_all = ["rank", "ranks"], help_heading = "Search")]
    pub(crate) time: Option<std::time::Duration>,
    /// Work budget of the search, instead of --time: numbers of kernel steps (rounds of metric
    /// learning, and measured kernels), of solver trials, and of trials of exact solvers. The
    /// report of a search with --time shows its work and the map or ranks that it chose; these give
    /// the same model on any machine
    #[arg(long, value_name = "STEPS,TRIALS[,MACHINES]", conflicts_with = "time", help_heading = "Search")]
    pub(crate) work: Option<SearchWork>,
    /// Score by which kernels are compared: cv (cross-validated error), gcv (generalised
    /// cross-validation, no folds) or alignment (kernel-target alignment, solves nothing; compares
    /// length scales, not families of kernels)
    #[arg(long, value_parser = parse::word::<Score>, default_value_t, value_name = "SCORE", help_heading = "Search")]
    pub(crate) score: Score,
    /// Score by which solvers are compared: error (error rate, or squared error), auc, log-loss or
    /// brier [default: error; if the rarer of two classes has less than 10 % of the rows, log-loss,
    /// or auc if a solver is named]
    #[arg(long, value_parser = parse::word::<Select>, value_name = "MEASURE", help_heading = "Search")]
    pub(crate) measure: Option<Select>,
    /// Number of rows of the last comparison, between two kernels; each earlier comparison has half
    /// as many
    #[arg(long, value_name = "N", value_parser = parse::rank, default_value = "20000", help_heading = "Search")]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) learn: MapArgs,
    #[command(flatten)]
    pub(crate) given: SolverArgs,
    #[arg(short, long, help = format!("Output file of the model (.safetensors), or of the table of the search: {}; can be repeated. \
        Without a model, nothing is fitted", tables()), value_name = "MODEL|OUT", required = true, help_heading = "Run")]
    pub(crate) output: Vec<PathBuf>,
    /// Also write an HTML page: the kernels, the solvers and the fit
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: DiskArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Returns the names of supervised solvers, as values for clap.
fn solvers() -> PossibleValuesParser {
    let families = kfit::solver::registry().into_iter().filter(|family| family.task.has_target());
    PossibleValuesParser::new(families.map(|family| family.name).chain([ksolve::tune::ANY]))
}

/// Searches, fits, and writes the outputs.
pub(crate) fn run(args: &TuneArgs, run: &Run) -> Result<TuneReport> {
    let outputs = outputs(&args.output)?;
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    let asked = [("--resume", args.disk.resume), ("--fresh", args.disk.fresh)];
    if let Some((option, _)) = asked.iter().find(|(_, asked)| *asked).filter(|_| outputs.model().is_none()) {
        let why = "only the fit keeps a checkpoint, and without a model nothing is fitted";
        return Err(Error::option(option, "", why, "omit it, or name a model with -o"));
    }
    if args.disk.engine.states.is_some() && outputs.model().is_none() {
        let why = "processes share the passes of the fit, and without a model nothing is fitted";
        return Err(Error::option("--states", "", why, "omit it, or name a model with -o"));
    }
    let any = args.solver == ANY;
    let select = &args.data.select;
    // an indicator costs one feature, only in columns with missing values; the alternatives lose
    // rows, or the information in a missing value
    let missing = select.missing.unwrap_or(Missing::Indicator);
    let rows = Selection { missing, ..open::learned_from(&args.data) };
    let solver = if any { "ridge" } else { &args.solver };
    let mut options = FitOptions::with(solver, (rows, select), &args.learn, args.given.0.clone())?;
    options.any = any;
    let search = search(args, options.fit.clone())?;
    options.fit = search.prepared();
    let report = match options.fit.element_type() {
        ElementType::F32 => tune::<f32>(args, (&search, options), run, &outputs),
        ElementType::F64 => tune::<f64>(args, (&search, options), run, &outputs),
    }?;
    for (path, kind) in &outputs.0 {
        match kind {
            Kind::Json => output::json_file(path, &report)?,
            Kind::Table => output::table(path, &COLUMNS, &report.rows)?,
            // the fit has already written it
            _ => {}
        }
    }
    if let Some(page) = &args.report {
        report.page().write(page)?;
    }
    Ok(report)
}

fn tables() -> String {
    format!(".json, {}", output::extensions(OutputKind::Text))
}

/// Checks the output files, which may include at most one model.
fn outputs(paths: &[PathBuf]) -> Result<Outputs> {
    let remedy = format!("choose a name that ends with .safetensors for the model, or with {}", tables());
    let why = "its extension is neither that of a model nor that of a table";
    let outputs = Outputs::new(paths, &[Kind::Json, Kind::Table, Kind::Model], why, &remedy)?;
    if let Some((path, _)) = outputs.0.iter().filter(|(_, kind)| *kind == Kind::Model).nth(1) {
        let why = "a model is already named, and this is not the name of a table";
        let remedy = format!("choose a name that ends with {}", tables());
        return Err(Error::option("-o", path.display(), why, remedy));
    }
    Ok(outputs)
}

/// Returns the search that the options describe.
fn search(args: &TuneArgs, fit: Fit) -> Result<Tune> {
    let MapArgs { kernel, metric, landmarks, scale, .. } = &args.learn;
    let has_kernel = *kernel != Kernel::default();
    if args.kernels.is_some() && has_kernel {
        let why = "--kernels lists all candidates";
        return Err(Error::option("--kernel", kernel, why, "add it to --kernels, and omit --kernel"));
    }
    let given = Given {
        kernel: has_kernel,
        metric: metric.is_some(),
        landmarks: landmarks.is_some(),
        scaling: scale.is_some(),
    };
    let search = Tune::new(&args.solver, fit).given(given).score(args.score).sample(args.sample);
    let search = args.kernels.iter().cloned().fold(search, Tune::kernels);
    let search = args.factors.iter().fold(search, |search, factors| search.factors(factors));
    let search = args.measure.into_iter().fold(search, Tune::measure);
    let search = args.work.into_iter().fold(search, Tune::work);
    Ok(args.time.into_iter().fold(search, Tune::time))
}

fn tune<T: kapprox::Real>(
    args: &TuneArgs,
    (search, mut options): (&Tune, FitOptions),
    run: &Run,
    outputs: &Outputs,
) -> Result<TuneReport> {
    let pace = Pace::new(args.time);
    let selected = pipeline::select(&mut options, run)?;
    let features = selected.shape().features;
    if search.is_too_wide(features) {
        run.progress.note(&format!(
            "{} features are too many to learn a metric: kernels are compared without one, on dense rows; fit svm, logistic and \
             ridge keep sparse rows sparse",
            count(features as u64)
        ));
    }
    options.fit = search.for_features(options.fit, features);
    let inputs = output::inputs(selected.table()).chain(options.fit.files());
    output::protect_inputs(outputs.0.iter().map(|(path, _)| path).chain(&args.report), inputs)?;
    let base = options.job(&selected)?;
    let compared = search.options(&base, &selected)?;
    let checkpoint = outputs.model().map(|model| Checkpoint {
        folder: model.with_added_extension("search"),
        every: args.disk.checkpoint_every,
        resume: args.disk.resume(),
        listener: &run.progress,
        notes: vec![("search".to_string(), described(args, &compared, &options))],
    });
    let stand_in = stand_in(&options.fit, args.score)?;
    let journal =
        checkpoint.as_ref().map(|kept| stand_in.open_checkpoint(kept, &selected, &compared.training)).transpose()?;
    let mut memory = Memory::open(journal.as_ref())?;
    let watch = SearchStages::new(run, &pace);
    let job = pipeline::job(run).watch(&watch);
    let (opened, repeat) = (|fit: Fit| fit.opened(&selected, &options.text), OnceCell::new());
    let written = |found: &Chosen| {
        let pace = outputs.model().map(|_| &pace);
        let (fit, options) = search.written(found, pace, &selected, &pipeline::job(run), &opened)?;
        options.into_iter().for_each(|options| drop(repeat.set(options)));
        Ok(fit)
    };
    let choice = search.choice((&base, &compared), (&selected, &job), &watch, &written);
    let found = choice.make::<T>(&mut memory).map_err(|error| {
        memory.keep();
        match (&checkpoint, &journal) {
            (Some(checkpoint), Some(journal)) => checkpoint.kept(journal, error),
            _ => error,
        }
    })?;
    let fit = match outputs.model() {
        Some(path) => {
            let options = FitOptions { fit: found.fit.clone(), ..options.clone() };
            let fitted = pipeline::fitted(&options, &selected, run, (path, true), &args.disk)?;
            Some(pipeline::report(fitted.report, run, selected.table(), Some(path)))
        }
        None => None,
    };
    drop(memory);
    journal.into_iter().for_each(Journal::finish);
    let read = selected.table().bytes_read() + fit.as_ref().map_or(0, |fit| fit.spent.bytes_read);
    let mut report = TuneReport::new(args.score, found, fit, run.spent(read), selected.feature_names());
    report.repeat = repeat.into_inner();
    Ok(report)
}

/// Describes everything that distinguishes this search from others of the same fit.
fn described(args: &TuneArgs, search: &TuneOptions, options: &FitOptions) -> String {
    let TuneOptions { kernels, factors, score, select, sample, blocks, lambdas, intercept, .. } = search;
    let select = select.map_or(String::new(), |by| format!("; measure {by}"));
    let (kernels, factors, lambdas) = (joined(kernels), joined(factors), joined(lambdas));
    format!(
        "{} with {}; kernels {kernels}; factors {factors}; score {score}; {sample} rows; blocks {blocks}; lambdas {lambdas}; \
        intercept {intercept}{select}; text files {}; map {}",
        args.solver,
        args.given.0,
        options.text,
        options.fit.map_spec()
    )
}
