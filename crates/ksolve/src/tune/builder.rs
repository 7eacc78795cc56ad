//! The description of a search by its caller, and the defaults for all options that the caller did
//! not specify.

use super::options::DEFAULT_MEMBERS;
use super::{
    ANY_SOLVER, ModelSelection, Score, SearchJournal, SearchListener, SearchPart, SearchWork, SelectionResult,
    SolverMeasure, TimeBudget, TuneOptions,
};
use super::{MAX_METRIC_FEATURES, likely_classes};
use crate::job::{ElementType, Fit, Fitted, Run};
use crate::request::{LandmarkSource, MetricForm, MetricSource, Scaling, StageObserver};
use crate::solver::parameter;
use crate::{Error, Result, Task};
use kapprox::{Kernel, Real};
use kstore::{Missing, SelectedTable, Selection, Table, TextOptions, schema::Kind};
use std::time::Duration;

/// The parts of the fit of a [`Tune`] that the caller specified. The search chooses all other
/// parts.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedParts {
    /// True if the caller specified the kernel: no other kernel is tried.
    pub kernel: bool,
    /// True if the caller specified the metric.
    pub metric: bool,
    /// True if the caller specified a landmark scheme, or landmarks from a table.
    pub landmarks: bool,
    /// True if the caller specified the scaling.
    pub scaling: bool,
}

/// A search for a model of a table: kernels, metrics, solvers and regularisation parameters are
/// compared on a sample of the rows, and the best combination is fitted on all rows.
///
/// Rust, the command and Python share the same defaults:
///
/// * a **metric** of each kernel is learned if errors are compared (`score` cv or gcv), no factors
///   of length scales are given, and the rows have at most [`MAX_METRIC_FEATURES`] features;
/// * if a metric is learned, the **landmarks** are uniform: a learned metric leaves few directions,
///   so schemes that minimise the kernel residual take longer and predict no better;
/// * the **scalings** asinh and quantile are tried in addition to standard scaling if a metric is
///   learned and `score` is cv, and no scaling if most features have the same range, such as
///   pixels;
/// * **missing values** become an indicator feature;
/// * with a **time** limit, the fit uses the exact kernel if this fit is predicted to finish in
///   time, otherwise the largest rank whose fit is predicted to finish in time.
///
/// ```
/// use ksolve::{predict::Predictor, tune::{SearchWork, Tune}};
/// # let x: Vec<f64> = (0..1200).map(|i| f64::from(i) / 100.0).collect();
/// # let y: Vec<f64> = x.chunks(2).map(|x| (x[0] + x[1]).sin()).collect();
/// let table = kstore::Table::from_rows(&x, 2, &y)?; // or Table::open(&["data/*.parquet"])?
/// // or .time(Duration::from_secs(300)) instead of .work
/// let best = Tune::any().work("4,3".parse::<SearchWork>()?).rank(60).fit(&table, "y")?;
/// assert!(best.report.train.unwrap().mse < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tune {
    solver: String,
    fit: Fit,
    fixed: FixedParts,
    kernels: Option<Vec<Kernel>>,
    factors: Option<String>,
    score: Score,
    measure: Option<SolverMeasure>,
    member_count: usize,
    sample_rows: usize,
    time_limit: Option<Duration>,
    work: Option<SearchWork>,
}

/// A listener that checks the time and forwards warnings to the observer of the run.
struct BudgetListener<'a> {
    time_budget: &'a TimeBudget,
    stage_observer: &'a dyn StageObserver,
}

impl SearchListener for BudgetListener<'_> {
    fn is_late(&self, part: SearchPart, next: Duration) -> bool {
        self.time_budget.is_exceeded(part, next)
    }

    fn warn(&self, text: &str) {
        self.stage_observer.warn(text.to_string());
    }
}

impl Tune {
    /// Returns a search that also chooses the solver. Numeric targets use ridge regression. For
    /// classes the search compares logistic regression, ridge regression and support vector
    /// machines.
    pub fn any() -> Self {
        Self::new(ANY_SOLVER, Fit::ridge())
    }

    /// Returns a search for the kernel and the regularisation parameter of a supervised solver.
    ///
    /// # Errors
    /// An unknown solver name.
    pub fn solver(name: &str) -> Result<Self> {
        Ok(Self::new(name, Fit::solver(name)?))
    }

    /// Returns a search that completes `fit`. If the solver is [`ANY_SOLVER`], `fit` is a ridge
    /// regression.
    pub fn new(solver: &str, fit: Fit) -> Self {
        let (solver, score) = (solver.to_string(), Score::default());
        let (fixed, kernels, factors, measure) = (FixedParts::default(), None, None, None);
        Self {
            solver,
            fit,
            fixed,
            kernels,
            factors,
            score,
            measure,
            member_count: DEFAULT_MEMBERS,
            sample_rows: 20_000,
            time_limit: None,
            work: None,
        }
    }

    /// Sets which parts of the fit the search must not change.
    #[doc(hidden)]
    #[must_use]
    pub fn keep_fixed(self, parts: FixedParts) -> Self {
        Self { fixed: parts, ..self }
    }

    /// Sets the kernels to compare.
    #[must_use]
    pub fn kernels(self, kernels: Vec<Kernel>) -> Self {
        Self { kernels: Some(kernels), ..self }
    }

    /// Sets the factors of the length scale of each kernel: `0.5,1,2`, or `0.25..4` for 0.25, 0.5,
    /// 1, 2 and 4.
    #[must_use]
    pub fn factors(self, factors: &str) -> Self {
        Self { factors: Some(factors.to_string()), ..self }
    }

    /// Sets the score by which kernels are compared.
    #[must_use]
    pub fn score(self, score: Score) -> Self {
        Self { score, ..self }
    }

    /// Sets the measure by which solvers are compared.
    #[must_use]
    pub fn measure(self, measure: SolverMeasure) -> Self {
        Self { measure: Some(measure), ..self }
    }

    /// Sets the number of exact-kernel fits whose mean a search for regression also tries: 1 for a
    /// single fit, and 3 by default.
    #[doc(hidden)]
    #[must_use]
    pub fn members(self, member_count: usize) -> Self {
        Self { member_count: member_count.max(1), ..self }
    }

    /// Sets the number of rows of the sample.
    #[must_use]
    pub fn sample(self, sample_rows: usize) -> Self {
        Self { sample_rows, ..self }
    }

    /// Sets the rank of the fit. If no work is set, the trials have the same rank.
    #[must_use]
    pub fn rank(self, rank: usize) -> Self {
        Self { fit: self.fit.rank(rank), ..self }
    }

    /// Sets the time limit of the search and the fit together.
    #[must_use]
    pub fn time(self, time: Duration) -> Self {
        Self { time_limit: Some(time), ..self }
    }

    /// Sets the work of the search (numbers of steps) instead of its time. The result is then
    /// bit-identical on every machine with the same instruction set.
    #[must_use]
    pub fn work(self, work: SearchWork) -> Self {
        Self { work: Some(work), ..self }
    }

    /// Chooses a model of the column `target` and fits it with the default resources.
    ///
    /// # Errors
    /// The errors of [`Tune::run`].
    pub fn fit(&self, table: &Table, target: &str) -> Result<Fitted> {
        Ok(self.run(table, target, &Run::new())?.0)
    }

    /// Chooses a model of the column `target` and fits it. Text and Boolean values are classes. If
    /// the solver is [`ANY_SOLVER`], integers that look like classes ([`likely_classes`]) are
    /// classes too.
    ///
    /// # Errors
    /// The errors of the rows, the trials and the fit.
    pub fn run(&self, table: &Table, target: &str, run: &Run<'_>) -> Result<(Fitted, SelectionResult)> {
        let default_fit = self.fit_with_defaults();
        let targets = vec![target.to_string()];
        let selection = default_fit.requested_selection();
        // an indicator costs one feature, and only in columns with missing values
        let missing = if selection.missing == Missing::Fitted { Missing::Indicator } else { selection.missing };
        let selection = Selection { targets, missing, ..selection };
        let target_index = table.schema().position(target);
        let kind = target_index.map(|position| &table.schema().columns[position].kind);
        let infers_task = default_fit.family().reads(&parameter::TASK) && !default_fit.has_option(parameter::TASK.name);
        let classification_fit = default_fit.clone().set(parameter::TASK.name, Task::Classification);
        let has_classes = infers_task
            && match kind {
                Some(Kind::Bool | Kind::Text) => true,
                Some(Kind::Int { .. }) if self.solver == ANY_SOLVER => {
                    likely_classes(&table.select(&classification_fit.complete_selection(selection.clone())?)?, run)?
                        .is_some()
                }
                _ => false,
            };
        let fit = if has_classes { classification_fit } else { default_fit };
        let selected = run.resolve_categories(&table.select(&fit.complete_selection(selection)?)?)?;
        let (base, time_budget) = (self.with_metric_for(fit, &selected), TimeBudget::new(self.time_limit));
        match base.requested_precision() {
            ElementType::F32 => self.run_typed::<f32>(&base, &time_budget, &selected, run),
            ElementType::F64 => self.run_typed::<f64>(&base, &time_budget, &selected, run),
        }
    }

    fn run_typed<T: Real>(
        &self,
        base: &Fit,
        time_budget: &TimeBudget,
        selected: &SelectedTable,
        run: &Run<'_>,
    ) -> Result<(Fitted, SelectionResult)> {
        let options = self.options(base, selected)?;
        let listener = BudgetListener { time_budget, stage_observer: run.resources().stage_observer };
        let build_final_fit = |selection_result: &SelectionResult| {
            self.final_fit(selection_result, Some(time_budget), selected, run, &Ok).map(|(fit, _)| fit)
        };
        let model_selection = self.model_selection(base, &options, selected, run, &listener, &build_final_fit);
        let selection_result = model_selection.run::<T>(&mut SearchJournal::open(None)?)?;
        Ok((selection_result.fit.run(selected, run)?, selection_result))
    }

    fn learns_metric(&self) -> bool {
        match self.fixed.metric {
            true => matches!(self.fit.metric_source(), MetricSource::Learned(_)),
            false => self.score != Score::Alignment && self.factors.is_none(),
        }
    }

    /// Returns the fit that selects the rows, with the default metric and landmarks. If the work is
    /// set, the fit has no ranks: the search that reported this work ran without ranks, and its
    /// repetition must run in the same way.
    #[doc(hidden)]
    pub fn fit_with_defaults(&self) -> Fit {
        let mut fit = self.fit.clone();
        if self.learns_metric() && !self.fixed.metric {
            fit = fit.metric(MetricSource::Learned(MetricForm::DiagonalOrFull));
        }
        if self.learns_metric() && !self.fixed.landmarks && !fit.requested_map().is_data_independent() {
            fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string()));
        }
        if self.work.is_some() { fit.without_rank_parameters() } else { fit }
    }

    /// Returns true if no metric is learned, although it is the default, because the rows are
    /// sparse or have too many features.
    #[doc(hidden)]
    pub fn omits_metric(&self, selected: &SelectedTable) -> bool {
        let is_unsuitable = selected.sparse_shape().is_some() || selected.shape().input_count > MAX_METRIC_FEATURES;
        self.learns_metric() && !self.fixed.metric && is_unsuitable
    }

    /// Returns `fit` for these rows: without metric learning if [`Self::omits_metric`] is true.
    #[doc(hidden)]
    pub fn with_metric_for(&self, fit: Fit, selected: &SelectedTable) -> Fit {
        if self.omits_metric(selected) { fit.metric(MetricSource::None) } else { fit }
    }

    /// Returns the options that open the table of the search. Rows with few nonzeros stay sparse,
    /// unless the metric, the kernel or the scaling was set to one that needs dense rows.
    #[doc(hidden)]
    pub fn text_options_for(&self, fit: &Fit, selection: &Selection, options: TextOptions) -> TextOptions {
        let fit = if self.fixed.metric { fit.clone() } else { fit.clone().metric(MetricSource::None) };
        fit.text_options_for(selection, options)
    }

    /// Returns the options of the search for a prepared fit whose files are open.
    ///
    /// # Errors
    /// Factors in addition to a learned metric, which finds its own length scale; the errors of
    /// [`TuneOptions::new`].
    #[doc(hidden)]
    pub fn options(&self, base: &Fit, selected: &SelectedTable) -> Result<TuneOptions> {
        if let Some(factors) = self.factors.as_ref().filter(|_| self.learns_metric()) {
            let why = "the metric determines the length scales; leave it out, or set `metric` none";
            return Err(Error::option("factors", factors, why));
        }
        if let MetricSource::Learned(form @ (MetricForm::Likelihood | MetricForm::Linear)) = self.fit.metric_source() {
            let why = "the search learns no metric of this form; leave it out, or fit with it without a search";
            return Err(Error::option("metric", form, why));
        }
        let learns_metric = self.learns_metric() && !self.omits_metric(selected);
        let base_kernels = [base.requested_kernel().clone()];
        let uses_base_kernel = self.fixed.kernel || !learns_metric;
        let kernels = self.kernels.as_deref().or(uses_base_kernel.then_some(&base_kernels[..]));
        let mut options = TuneOptions::new(base, self.score, kernels, self.sample_rows, selected)?;
        if let Some(factors) = &self.factors {
            options.factors = crate::grids::parse_factors(factors)?;
        }
        options.measure = self.measure;
        options.member_count = self.member_count;
        Ok(options)
    }

    /// Returns the model selection with these defaults.
    #[doc(hidden)]
    pub fn model_selection<'a>(
        &'a self,
        base: &'a Fit,
        options: &'a TuneOptions,
        selected: &'a SelectedTable,
        run: &'a Run<'a>,
        listener: &'a dyn SearchListener,
        final_fit: &'a dyn Fn(&SelectionResult) -> Result<Fit>,
    ) -> ModelSelection<'a> {
        let learns_metric = matches!(base.metric_source(), MetricSource::Learned(_));
        let tries_scalings = learns_metric
            && !self.fixed.scaling
            && self.score == Score::Cv
            && !base.requested_map().is_data_independent();
        let scalings: &[Scaling] =
            if tries_scalings { &[Scaling::Asinh, Scaling::Quantile, Scaling::None] } else { &[] };
        let allows_exact = self.time_limit.is_some() && !self.fixed.landmarks;
        ModelSelection {
            solver: &self.solver,
            base,
            options,
            scalings,
            selected,
            work: self.work,
            allows_exact,
            run,
            listener,
            final_fit,
        }
    }

    /// Returns the final fit of a model selection. If there is a time limit and a `time_budget`,
    /// the fit has the ranks that are predicted to finish in time; the function then also returns
    /// the command-line options that repeat this fit on any machine. `open_files` returns a fit
    /// with its files opened.
    ///
    /// # Errors
    /// The errors of [`TimeBudget::feasible_fit`] and of `open_files`.
    #[doc(hidden)]
    pub fn final_fit(
        &self,
        selection_result: &SelectionResult,
        time_budget: Option<&TimeBudget>,
        selected: &SelectedTable,
        run: &Run<'_>,
        open_files: &dyn Fn(Fit) -> Result<Fit>,
    ) -> Result<(Fit, Option<String>)> {
        let fit = selection_result.fit.clone().scaling(selection_result.search.scaling);
        let fit = match (&selection_result.metric, fit.metric_source()) {
            (Some(metric), _) => fit.metric(MetricSource::from_metric(metric.clone())),
            // the fit learns its kernel from all rows
            (None, MetricSource::Learned(MetricForm::Likelihood)) => fit,
            (None, _) => fit.metric(MetricSource::None),
        };
        let reads_rank = self.work.is_some() && !fit.requested_map().is_exact_kernel();
        let fit = if reads_rank { fit.with_rank_parameters_of(&self.fit) } else { fit };
        let Some(time_budget) = time_budget.filter(|_| self.time_limit.is_some()) else { return Ok((fit, None)) };
        let feasible_fit = time_budget.feasible_fit(&open_files(fit.clone())?, selection_result, selected, run)?;
        let repeat = feasible_fit
            .as_ref()
            .map_or_else(|| format!("--map {}", fit.requested_map()), |feasible| feasible.command_options(&fit));
        let fit = if let Some(feasible) = feasible_fit { feasible.apply_to(fit) } else { fit };
        let members = selection_result.member_count.map_or(String::new(), |count| format!(" --members {count}"));
        Ok((fit, Some(format!("--work {} {repeat}{members}", selection_result.work))))
    }
}
