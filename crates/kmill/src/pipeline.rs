//! The pipeline of `kmill fit`: opens the table, runs the job of the library and builds the report.

use crate::args::{IMPORTANCE, JobArgs, LagArgs, MapArgs, PersistenceArgs, RunSettings, SelectArgs, parse};
use crate::error::with_option_names;
use crate::progress::Progress;
use crate::{Error, Result, columns, interrupt, open, output};
use kapprox::Kernel;
use kfit::request::MetricSource;
use kfit::solver::{Options, SolverFamily, parameter};
use kreport::fit::{FitReport, ModelFile, TestPart, TestSetReport};
use kreport::inspect::warn_of_group_features;
use kreport::row_names::name_typical_rows;
use ksolve::job::Combination;
use ksolve::job::StageObserver;
use ksolve::job::{self, Checkpoint, Fit, Fitted};
use ksolve::predict::Predictor;
use ksolve::tune::likely_classes;
use ksolve::{AnyModel, Task};
use kstore::pass::Observer;
use kstore::schema::Kind;
use kstore::{Missing, SelectedTable, Selection, Table, TestSpec, TextOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A fit as the library describes it, with the files of its table.
#[derive(Clone, Debug)]
pub(crate) struct FitOptions {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) text_options: TextOptions,
    /// Kernels whose weights in a sum are learned; `None` if no weights are learned.
    pub(crate) kernels_to_combine: Option<Vec<Kernel>>,
    /// Treatment of missing values in dense rows; `None` for the treatment in the selection of the
    /// fit, which is also that of sparse rows.
    pub(crate) missing_if_dense: Option<Missing>,
    /// True if the solver is not chosen yet (by `tune`). A text target then means classification.
    pub(crate) is_solver_undecided: bool,
    /// True for a search, which compares on folds even if the fit itself has nothing to compare.
    pub(crate) is_search: bool,
    /// True if the importance of the columns is requested. With test rows it is measured on them;
    /// otherwise the solver must compute slopes.
    pub(crate) reports_importance: bool,
    /// The fit. Its target may be a `.npy` file.
    pub(crate) fit: Fit,
    /// Requested test rows, and the seed of their choice.
    pub(crate) test_request: Option<(TestSpec, u64)>,
    /// Chosen test rows, once the table is open.
    pub(crate) test_part: Option<TestPart>,
}

impl FitOptions {
    pub(crate) fn new(job: &JobArgs) -> Result<Self> {
        let selection = Selection { sparse: true, ..open::training_selection(&job.data) };
        Self::for_solver(&job.solver, selection, &job.data.select, &job.map_args, job.parameters.options.clone())
    }

    /// Returns the options of a fit with these solver parameters, on the rows and columns of
    /// `selection`.
    pub(crate) fn for_solver(
        solver: &str,
        selection: Selection,
        select: &SelectArgs,
        map_args: &MapArgs,
        parameters: Options,
    ) -> Result<Self> {
        let lacks_target = selection.targets.is_empty();
        let fit = Fit::solver(solver)?;
        let family = fit.family();
        let reports_importance = parameters.get(IMPORTANCE).is_some();
        if reports_importance && !fit.task()?.has_target() {
            let why = format!("{solver} learns without a target, so that its predictions have no error");
            return Err(Error::option("--importance", "", why, "omit it"));
        }
        let computes_slopes = family.parameters.iter().any(|known| known.name == IMPORTANCE);
        let parameters = if computes_slopes { parameters } else { parameters.without(IMPORTANCE) };
        let mut fit = fit
            .with_options(parameters)
            .with_selection(selection)
            .clip(!map_args.no_clip)
            .metric(map_args.metric.clone().unwrap_or_default())
            .kernel(map_args.kernel.clone())
            .map(map_args.map.clone())
            .seed(map_args.seed)
            .precision(map_args.precision);
        if let Some(landmarks) = &map_args.landmarks {
            fit = fit.landmarks(landmarks.clone());
        }
        if let Some(scaling) = map_args.scale {
            fit = fit.scaling(scaling);
        }
        if let Some(rank) = map_args.rank {
            fit = fit.rank(rank);
        }
        if let Some(candidates) = map_args.candidates {
            fit = fit.candidates(candidates);
        }
        if fit.task()?.has_target() && lacks_target {
            let why = "it learns from a target; name its column: --target y";
            return Err(Error::Missing { option: "--target", solver: solver.to_string(), why });
        }
        Ok(Self {
            paths: select.paths.clone(),
            text_options: select.text.text_options(),
            kernels_to_combine: None,
            missing_if_dense: None,
            is_solver_undecided: false,
            is_search: false,
            reports_importance,
            fit,
            test_request: None,
            test_part: None,
        })
    }

    /// Sets the past values that are features.
    #[must_use]
    pub(crate) fn with_lags(self, lags: &LagArgs) -> Self {
        let selection = Selection { lags: lags.lags(), ..self.fit.requested_selection() };
        Self { fit: self.fit.with_selection(selection), ..self }
    }

    /// Sets the kernels whose weights are to be learned.
    #[must_use]
    pub(crate) fn with_combination(self, kernels: Option<&parse::Kernels>) -> Self {
        Self { kernels_to_combine: kernels.cloned(), ..self }
    }

    /// Sets the test rows, which the fit does not read.
    #[must_use]
    pub(crate) fn with_test_rows(self, spec: Option<&TestSpec>, seed: u64) -> Self {
        // the test rows measure the importance, so that slopes are not needed
        let fit = if spec.is_some() { self.fit.without_option(IMPORTANCE) } else { self.fit };
        Self { test_request: spec.map(|spec| (spec.clone(), seed)), fit, ..self }
    }

    /// Rejects a request of importance that neither the solver nor test rows can answer.
    pub(crate) fn check_importance(&self) -> Result<()> {
        let SolverFamily { name, parameters, .. } = self.fit.family();
        let computes_slopes = parameters.iter().any(|known| known.name == IMPORTANCE);
        if !self.reports_importance || computes_slopes || self.test_request.is_some() {
            return Ok(());
        }
        let why = format!("{name} measures the importance of the columns on test rows");
        let remedy = "add --test 25%, or use kmill evaluate --importance on other rows";
        Err(Error::option("--importance", "", why, remedy))
    }

    /// Chooses the test rows, if they are requested, and returns the selection of all other rows.
    fn without_test_rows(&mut self, table: &Table, selection: Selection, run: &RunSettings) -> Result<Selection> {
        let Some((spec, seed)) = &self.test_request else { return Ok(selection) };
        if !self.fit.task()?.has_target() {
            let why = format!("{} learns without a target, so that there is no test error", self.fit.family().name);
            return Err(Error::option(
                "--test",
                spec,
                why,
                "omit it; kmill convert --split writes both parts as files",
            ));
        }
        let test_part = TestPart::choose(table, &selection, spec, *seed, &run.job_run())?;
        let requested = test_part.without_test_rows(self.fit.requested_selection());
        self.fit = self.fit.clone().with_selection(requested);
        let training_selection = test_part.without_test_rows(selection);
        self.test_part = Some(test_part);
        Ok(training_selection)
    }

    /// Returns the scores of a fitted model on the test rows; `None` if there are none. For a page,
    /// and if importance is requested, also computes the effects of the columns.
    pub(crate) fn evaluate_test_rows(
        &self,
        (model, report): (AnyModel, &job::FitReport),
        selected: &SelectedTable,
        is_for_page: bool,
        run: &RunSettings,
    ) -> Result<Option<TestSetReport>> {
        let Some(test_part) = &self.test_part else { return Ok(None) };
        let predictor = Predictor::new(model)?;
        let lacks_importance = predictor.lacks_column_effects().filter(|_| self.reports_importance);
        lacks_importance.into_iter().for_each(|why| run.progress.warn(format!("--importance: {why}")));
        let computes_effects = is_for_page || self.reports_importance;
        Ok(Some(test_part.evaluate(predictor, report, selected.table(), computes_effects, &run.job_run())?))
    }

    /// Opens the table, and returns it with the requested selection of rows and columns. A Boolean
    /// target means classification, unless `task` is set.
    pub(crate) fn open(&mut self) -> Result<(Table, Selection)> {
        let selection = self.fit.requested_selection();
        // with kernels to combine, whether they support sparse rows is not known yet
        let text = match self.kernels_to_combine {
            None => self.fit.text_options_for(&selection, self.text_options.clone()),
            Some(_) => self.text_options.clone(),
        };
        let (table, targets) = open::table(&self.paths, &text, &selection.targets)?;
        let mut selection = selection;
        if table.schema().has_sparse() {
            // then read a file of landmarks as sparse rows, too
            self.text_options = self.text_options.clone().sparse();
        } else if let Some(missing) = self.missing_if_dense {
            selection.missing = missing;
            self.fit = self.fit.clone().with_selection(selection.clone());
        }
        let is_decided = !self.fit.family().reads(&parameter::TASK) || self.fit.has_option(parameter::TASK.name);
        let kind = targets.first().and_then(|name| Some(&table.schema().columns[table.schema().position(name)?].kind));
        let target_has_labels =
            matches!((kind, self.is_solver_undecided), (Some(Kind::Bool), _) | (Some(Kind::Text), true));
        if !is_decided && targets.len() == 1 && target_has_labels {
            self.fit = self.fit.clone().set(parameter::TASK.name, Task::Classification);
        }
        Ok((table, self.fit.complete_selection(Selection { targets, ..selection })?))
    }

    /// Rejects options that do not support sparse rows, before any pass. A search leaves out the
    /// metric of a fit of sparse rows.
    fn check_sparse_rows(&self, table: &Table, selection: &Selection) -> Result<()> {
        if !table.schema().has_sparse() {
            return Ok(());
        }
        table.check_lagged_features(selection)?;
        if selection.lags.is_some() {
            // no feature is sparse, and features may be lags, which are not computed yet
            return Ok(());
        }
        let fit = if self.is_search { self.fit.clone().metric(MetricSource::None) } else { self.fit.clone() };
        Ok(fit.check_sparse_rows(&table.select(selection)?)?)
    }

    /// Returns the selection, in which a target with few distinct integers becomes a class if the
    /// solver is not chosen yet.
    fn detect_classes(&mut self, table: &Table, selection: Selection, run: &RunSettings) -> Result<Selection> {
        let kind = |name: &String| Some(&table.schema().columns[table.schema().position(name)?].kind);
        let is_decided =
            !self.is_solver_undecided || self.fit.has_option(parameter::TASK.name) || selection.targets.len() != 1;
        if is_decided || !matches!(selection.targets.first().and_then(kind), Some(Kind::Int { .. })) {
            return Ok(selection);
        }
        let fit = self.fit.clone().set(parameter::TASK.name, Task::Classification);
        let classes = fit.complete_selection(selection.clone())?;
        let Some(class_count) = likely_classes(&table.select(&classes)?, &run.job_run())? else { return Ok(selection) };
        run.progress.note(&format!(
            "the target has {class_count} distinct integer values, each in many rows, and is treated as categorical (classification); --task regression treats it as numeric"
        ));
        self.fit = fit;
        Ok(classes)
    }

    /// Returns the job with its additional files opened.
    pub(crate) fn fit_with_open_files(&self, selected: &SelectedTable) -> Result<Fit> {
        Ok(self.fit.clone().with_open_files(selected, &self.text_options)?)
    }
}

/// Builds the command's report of a fit from the report of the library.
pub(crate) fn fit_report(mut fit: job::FitReport, run: &RunSettings, table: &Table, model: Option<&Path>) -> FitReport {
    if let Some(method) = &mut fit.method {
        method.why = with_option_names(&method.why);
    }
    let (resource_report, verbosity) = (run.resource_report(table.bytes_read()), run.progress.verbosity());
    FitReport { model: model.map(ModelFile::from_path), verbosity, ..FitReport::new(fit, resource_report, run.threads) }
}

/// Shows the stages of a run until the first of its longer steps begins. From then on the caller
/// shows the steps, and the stages within them are hidden.
pub(crate) struct FirstStages<'a> {
    progress: &'a Progress,
    ended: AtomicBool,
}

impl<'a> FirstStages<'a> {
    pub(crate) fn new(progress: &'a Progress) -> Self {
        Self { progress, ended: AtomicBool::new(false) }
    }

    /// Hides all later stages, because the steps begin.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

impl StageObserver for FirstStages<'_> {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        if self.have_ended() { Box::new(SilentObserver) } else { StageObserver::start_stage(self.progress, name, rows) }
    }
    fn warn(&self, text: String) {
        StageObserver::warn(self.progress, text);
    }
}

/// An observer that shows nothing, but forwards interruptions.
struct SilentObserver;

impl Observer for SilentObserver {
    fn advance(&self, _rows: u64) {}
    fn should_stop(&self) -> bool {
        interrupt::is_requested()
    }
}

/// Fits a model and saves it. Does not write the report to `page`, but checks that it does not
/// replace an input.
pub(crate) fn fit_and_save(
    options: &FitOptions,
    run: &RunSettings,
    path: &PathBuf,
    page: Option<&PathBuf>,
    args: &PersistenceArgs,
) -> Result<FitReport> {
    let mut options = options.clone();
    let selected = select(&mut options, run)?;
    output::protect_inputs(
        [path].into_iter().chain(page),
        output::table_files(selected.table()).chain(options.fit.files()),
    )?;
    let (mut fitted, combination) = fit_with_combination(&options, &selected, run, path, true, args)?;
    name_typical_rows(&mut fitted.report, &selected)?;
    let test_set = options.evaluate_test_rows((fitted.model, &fitted.report), &selected, page.is_some(), run)?;
    Ok(FitReport { combination, test_set, ..fit_report(fitted.report, run, selected.table(), Some(path)) })
}

/// Fits a model, and returns it with the report of the library. Stores the checkpoint next to
/// `path`, and, if `saves_model` is true, the model in `path`.
pub(crate) fn fit_model(
    options: &FitOptions,
    selected: &SelectedTable,
    run: &RunSettings,
    path: &Path,
    saves_model: bool,
    args: &PersistenceArgs,
) -> Result<Fitted> {
    Ok(fit_with_combination(options, selected, run, path, saves_model, args)?.0)
}

/// Fits a model as [`fit_model`] does, and also returns the learned combination of kernels.
fn fit_with_combination(
    options: &FitOptions,
    selected: &SelectedTable,
    run: &RunSettings,
    path: &Path,
    saves_model: bool,
    args: &PersistenceArgs,
) -> Result<(Fitted, Option<Combination>)> {
    let (fit, scratch) = (options.fit_with_open_files(selected)?, args.scratch.open()?);
    let learn_combination = |kernels: &Vec<Kernel>| {
        fit.learn_combination(kernels, selected, &scratch.iter().fold(run.job_run(), job::Run::scratch))
    };
    let combination = options.kernels_to_combine.as_ref().map(learn_combination).transpose()?;
    combination.iter().flat_map(Combination::report_lines).for_each(|line| run.progress.note(&line));
    let fit = combination.iter().fold(fit, |fit, combined| fit.kernel(combined.kernel.clone()));
    let checkpoint = Checkpoint {
        folder: path.with_added_extension("checkpoint"),
        save_interval: args.checkpoint_every,
        resume_mode: args.resume_mode(),
        listener: &run.progress,
        identifying_values: vec![("reading of text files".to_string(), options.text_options.to_string())],
    };
    let engine = args.engine.open()?;
    let job_run = run.job_run().checkpoint(checkpoint);
    let job = engine.iter().fold(job_run, |job, engine| job.engine(engine));
    let job = scratch.iter().fold(job, job::Run::scratch);
    let fitted = if saves_model { fit.run_and_save(selected, &job, path) } else { fit.run(selected, &job) };
    let mut fitted = fitted.map_err(|error| explain_column_error(error, selected))?;
    fitted.report.passes += u64::from(selected.table().lags().is_some());
    fitted.report.passes += combination.as_ref().map_or(0, |combined| combined.passes);
    Ok((fitted, combination))
}

/// Adds to an error about a kernel the reason why a column that the kernel names is not a feature.
/// Returns other errors unchanged.
fn explain_column_error(error: ksolve::Error, selected: &SelectedTable) -> Error {
    if let ksolve::Error::Approx(kapprox::Error::NoSuchFeature { kernel, name, .. }) = &error {
        let column = selected.table().schema().columns.iter().find(|column| column.name == *name);
        if let Some(column) = column.filter(|column| !column.kind.is_numeric()) {
            let why = format!("column {name} is {} and not a feature", column.kind);
            let remedy = "encode it with --categories, or remove it from the kernel";
            return Error::option("--kernel", format!("{kernel}(on={name})"), why, remedy);
        }
    }
    error.into()
}

/// Opens the table, selects the rows and columns of the fit, and finds the values of its
/// categorical columns.
pub(crate) fn select(options: &mut FitOptions, run: &RunSettings) -> Result<SelectedTable> {
    options.check_importance()?;
    let (table, selection) = options.open()?;
    options.check_sparse_rows(&table, &selection)?;
    let table = run.job_run().with_lags_of(table, &selection)?;
    if let Some(lags) = table.lags() {
        let tested =
            if options.test_request.is_some() { ", also of test rows: the test error is that of one step" } else { "" };
        run.progress.note(&format!("past values: {lags}; they are true values of earlier rows{tested}"));
    }
    let selection = options.detect_classes(&table, selection, run)?;
    let selection = options.without_test_rows(&table, selection, run)?;
    let (fit, selection) =
        options.fit.clone().with_default_folds(&table, selection, options.is_search, &run.job_run())?;
    options.fit = fit;
    let requested_table = table.select(&selection)?;
    let selected = run.job_run().resolve_categories(&requested_table)?;
    columns::report_columns(&selection, &requested_table, &selected, &run.progress);
    warn_of_group_features(&selection, &selected, &run.job_run());
    Ok(selected)
}
