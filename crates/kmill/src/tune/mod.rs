//! `kmill tune`: chooses the kernel by successive halving on growing samples, and the solver by
//! trials; then fits.

mod search_stages;

use crate::args::parse::Kernels;
use crate::args::{DataArgs, LagArgs, MapArgs, PersistenceArgs, RunArgs, RunSettings, SolverArgs, TestRowsArgs, parse};
use crate::output::{self, FileKind, Outputs};
use crate::{Error, Result, allocator, open, pipeline, pipeline::FitOptions};
use clap::{Args, builder::PossibleValuesParser};
use kapprox::Kernel;
use kreport::fit::FitReport;
use kreport::table::{format_count, join_with_commas};
use kreport::tune::{COLUMNS, TuneReport};
use ksolve::job::{Checkpoint, ElementType, Fit};
use ksolve::tune::{
    ANY_SOLVER, FixedParts, Score, SearchJournal, SearchWork, SelectionResult, SolverMeasure, TimeBudget, Tune,
    TuneOptions, ridge_surrogate,
};
use kstore::{Missing, Selection, checkpoint::Journal, sink::OutputKind};
use search_stages::SearchStages;
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
    #[command(flatten)]
    pub(crate) lags: LagArgs,
    #[command(flatten)]
    pub(crate) test_rows: TestRowsArgs,
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
    /// Score by which solvers are compared: error (error rate, or squared error), loss (of quantile
    /// and glm: the loss that they minimise), auc, log-loss or brier [default: error; for quantile
    /// and glm loss; if the rarer of two classes has less than 10 % of the rows, log-loss,
    /// or auc if a solver is named]
    #[arg(long, value_parser = parse::word::<SolverMeasure>, value_name = "MEASURE", help_heading = "Search")]
    pub(crate) measure: Option<SolverMeasure>,
    /// Number of fits in the mean that a regression with the exact kernel tries: fits with the sums
    /// of kernels whose length scales per column have the best likelihood; 1 tries a single fit
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, default_value = "3", help_heading = "Search")]
    pub(crate) members: usize,
    /// Number of rows of the last comparison, between two kernels; each earlier comparison has half
    /// as many
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, default_value = "20000", help_heading = "Search")]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) map_args: MapArgs,
    #[command(flatten)]
    pub(crate) parameters: SolverArgs,
    #[arg(short, long, help = format!("Output file of the model (.safetensors), or of the table of the search: {}; can be repeated. \
        Without a model, nothing is fitted", table_extensions()), value_name = "MODEL|OUT", required = true, help_heading = "Run")]
    pub(crate) output: Vec<PathBuf>,
    /// Also write an HTML page: the kernels, the solvers and the fit
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: PersistenceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Returns clap's parser for the names of the supervised solvers and the word `any`.
fn solvers() -> PossibleValuesParser {
    let families = kfit::solver::registry().into_iter().filter(|family| family.task.has_target());
    PossibleValuesParser::new(families.map(|family| family.name).chain([ksolve::tune::ANY_SOLVER]))
}

/// Searches, fits, and writes the outputs.
pub(crate) fn run(args: &TuneArgs, run: &RunSettings) -> Result<TuneReport> {
    let outputs = check_outputs(&args.output)?;
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    let checkpoint_flags = [("--resume", args.disk.resume), ("--fresh", args.disk.fresh)];
    if let Some((option, _)) = checkpoint_flags.iter().find(|(_, is_set)| *is_set).filter(|_| outputs.model().is_none())
    {
        let why = "only the fit keeps a checkpoint, and without a model nothing is fitted";
        return Err(Error::option(option, "", why, "omit it, or name a model with -o"));
    }
    if args.disk.engine.shared_folder.is_some() && outputs.model().is_none() {
        let why = "processes share the passes of the fit, and without a model nothing is fitted";
        return Err(Error::option("--states", "", why, "omit it, or name a model with -o"));
    }
    if let Some(spec) = args.test_rows.test.as_ref().filter(|_| outputs.model().is_none()) {
        let why = "the fitted model is tested, and without a model nothing is fitted";
        return Err(Error::option("--test", spec, why, "omit it, or name a model with -o"));
    }
    let is_any_solver = args.solver == ANY_SOLVER;
    let select = &args.data.select;
    let selection = Selection { sparse: true, ..open::training_selection(&args.data) };
    let solver = if is_any_solver { "ridge" } else { &args.solver };
    let mut options =
        FitOptions::for_solver(solver, selection, select, &args.map_args, args.parameters.options.clone())?;
    options.is_solver_undecided = is_any_solver;
    options.is_search = true;
    // the default is an indicator, one more feature for each column with missing values, because
    // the alternatives lose rows, or lose the information that a value is missing
    options.missing_if_dense = select.missing.or(Some(Missing::Indicator));
    options = options.with_lags(&args.lags).with_test_rows(args.test_rows.test.as_ref(), args.map_args.seed);
    let search = build_search(args, options.fit.clone())?;
    options.fit = search.fit_with_defaults();
    let report = match options.fit.requested_precision() {
        ElementType::F32 => search_and_fit::<f32>(args, &search, options, run, &outputs),
        ElementType::F64 => search_and_fit::<f64>(args, &search, options, run, &outputs),
    }?;
    for (path, kind) in &outputs.files {
        match kind {
            FileKind::Json => output::json_file(path, &report)?,
            FileKind::Table => output::write_table(path, &COLUMNS, &report.rows)?,
            // the fit has already written the model
            _ => {}
        }
    }
    if let Some(page) = &args.report {
        report.page().write(page)?;
    }
    Ok(report)
}

fn table_extensions() -> String {
    format!(".json, {}", output::extensions(OutputKind::Text))
}

/// Checks the output files, which may include at most one model.
fn check_outputs(paths: &[PathBuf]) -> Result<Outputs> {
    let remedy = format!("choose a name that ends with .safetensors for the model, or with {}", table_extensions());
    let why = "its extension is neither that of a model nor that of a table";
    let outputs = Outputs::new(paths, &[FileKind::Json, FileKind::Table, FileKind::Model], why, &remedy)?;
    if let Some((path, _)) = outputs.files.iter().filter(|(_, kind)| *kind == FileKind::Model).nth(1) {
        let why = "a model is already named, and this is not the name of a table";
        let remedy = format!("choose a name that ends with {}", table_extensions());
        return Err(Error::option("-o", path.display(), why, remedy));
    }
    Ok(outputs)
}

/// Builds the search from the options.
fn build_search(args: &TuneArgs, fit: Fit) -> Result<Tune> {
    let MapArgs { kernel, metric, landmarks, scale, .. } = &args.map_args;
    let has_kernel = *kernel != Kernel::default();
    if args.kernels.is_some() && has_kernel {
        let why = "--kernels lists all candidates";
        return Err(Error::option("--kernel", kernel, why, "add it to --kernels, and omit --kernel"));
    }
    let fixed_parts = FixedParts {
        kernel: has_kernel,
        metric: metric.is_some(),
        landmarks: landmarks.is_some(),
        scaling: scale.is_some(),
    };
    let search = Tune::new(&args.solver, fit).keep_fixed(fixed_parts).score(args.score);
    let mut search = search.sample(args.sample).members(args.members);
    if let Some(kernels) = &args.kernels {
        search = search.kernels(kernels.clone());
    }
    if let Some(factors) = &args.factors {
        search = search.factors(factors);
    }
    if let Some(measure) = args.measure {
        search = search.measure(measure);
    }
    if let Some(work) = args.work {
        search = search.work(work);
    }
    if let Some(time) = args.time {
        search = search.time(time);
    }
    Ok(search)
}

fn search_and_fit<T: kapprox::Real>(
    args: &TuneArgs,
    search: &Tune,
    mut options: FitOptions,
    run: &RunSettings,
    outputs: &Outputs,
) -> Result<TuneReport> {
    let time_budget = TimeBudget::new(args.time);
    allocator::keep_freed_memory(run.memory);
    let selection = options.fit.requested_selection();
    options.text_options = search.text_options_for(&options.fit, &selection, options.text_options);
    let selected = pipeline::select(&mut options, run)?;
    if search.omits_metric(&selected) {
        let what = match selected.sparse_shape() {
            Some(_) => "the rows are sparse".to_string(),
            None => format!("there are {} features", format_count(selected.shape().input_count as u64)),
        };
        run.progress.note(&format!("{what}, so no metric is learned: kernels are compared without one"));
    }
    options.fit = search.with_metric_for(options.fit, &selected);
    let inputs = output::table_files(selected.table()).chain(options.fit.files());
    output::protect_inputs(outputs.files.iter().map(|(path, _)| path).chain(&args.report), inputs)?;
    let base_fit = options.fit_with_open_files(&selected)?;
    let tune_options = search.options(&base_fit, &selected)?;
    let checkpoint = outputs.model().map(|model| Checkpoint {
        folder: model.with_added_extension("search"),
        save_interval: args.disk.checkpoint_every,
        resume_mode: args.disk.resume_mode(),
        listener: &run.progress,
        identifying_values: vec![("search".to_string(), search_identity(args, &tune_options, &options))],
    });
    let surrogate = ridge_surrogate(&options.fit, args.score)?;
    let journal = checkpoint
        .as_ref()
        .map(|checkpoint| surrogate.open_checkpoint(checkpoint, &selected, &tune_options.train_options))
        .transpose()?;
    let mut search_journal = SearchJournal::open(journal.as_ref())?;
    let search_stages = SearchStages::new(run, &time_budget);
    let job_run = run.job_run().observer(&search_stages);
    let (open_files, repeat_options) =
        (|fit: Fit| fit.with_open_files(&selected, &options.text_options), OnceCell::new());
    let final_fit = |selection_result: &SelectionResult| {
        let fit_budget = outputs.model().map(|_| &time_budget);
        let (fit, options) = search.final_fit(selection_result, fit_budget, &selected, &run.job_run(), &open_files)?;
        options.into_iter().for_each(|options| drop(repeat_options.set(options)));
        Ok(fit)
    };
    let model_selection =
        search.model_selection(&base_fit, &tune_options, &selected, &job_run, &search_stages, &final_fit);
    let selection_result = model_selection.run::<T>(&mut search_journal).map_err(|error| {
        search_journal.save();
        match (&checkpoint, &journal) {
            (Some(checkpoint), Some(journal)) => checkpoint.interruption_error(journal, error),
            _ => error,
        }
    })?;
    let fit = match outputs.model() {
        Some(path) => {
            let options = FitOptions { fit: selection_result.fit.clone(), ..options.clone() };
            let fitted = pipeline::fit_model(&options, &selected, run, path, true, &args.disk)?;
            let is_for_page = args.report.is_some();
            let test_set = options.evaluate_test_rows((fitted.model, &fitted.report), &selected, is_for_page, run)?;
            let fit_report = pipeline::fit_report(fitted.report, run, selected.table(), Some(path));
            Some(FitReport { test_set, ..fit_report })
        }
        None => None,
    };
    drop(search_journal);
    journal.into_iter().for_each(Journal::finish);
    let bytes_read = selected.table().bytes_read() + fit.as_ref().map_or(0, |fit| fit.resources.bytes_read);
    let mut report =
        TuneReport::new(args.score, selection_result, fit, run.resource_report(bytes_read), selected.feature_names());
    report.repeat = repeat_options.into_inner();
    Ok(report)
}

/// Describes everything that distinguishes this search from other searches with the same fit, so
/// that a checkpoint is used only by the search that wrote it.
fn search_identity(args: &TuneArgs, search: &TuneOptions, options: &FitOptions) -> String {
    let TuneOptions {
        kernels,
        kernel_sums: sums,
        member_count,
        factors,
        score,
        measure,
        max_sample_rows: sample_rows,
        may_use_blocks,
        lambdas,
        intercept,
        ..
    } = search;
    let measure_note = measure.map_or(String::new(), |measure| format!("; measure {measure}"));
    let sums = if sums.is_empty() {
        String::new()
    } else {
        format!("; mean of {member_count} sums {}", join_with_commas(sums))
    };
    let (kernels, factors, lambdas) = (join_with_commas(kernels), join_with_commas(factors), join_with_commas(lambdas));
    format!(
        "{} with {}; kernels {kernels}{sums}; factors {factors}; score {score}; {sample_rows} rows; blocks {may_use_blocks}; lambdas {lambdas}; \
        intercept {intercept}{measure_note}; text files {}; map {}",
        args.solver,
        args.parameters.options,
        options.text_options,
        options.fit.requested_map()
    )
}
