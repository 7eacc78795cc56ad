//! The complete search: kernels and metrics, the scaling, solvers with their regularisation
//! parameters, then the test of the winner.

use super::contenders::{ANY_SOLVER, contenders, has_probabilities, properties};
use super::contest::Contest;
use super::{
    ContenderReport, HeldOutScore, KernelSearch, Score, SearchJournal, SearchListener, SearchPart, SearchWork,
    SelectionResult, SolverMeasure,
};
use super::{KernelSearchResult, TuneOptions, WinnerTest, separating_svm::SvmSearch};
use super::{history::SearchLog, refine::CLEAR_IMPROVEMENT_RATIO, time_budget::needs_half_rank, trial::Trials};
use crate::job::{Fit, Run};
use crate::request::{MetricForm, MetricSource, Resources, Scaling, TrainOptions};
use crate::solver::SolverProperties;
use crate::{Error, Result};
use kapprox::Real;
use kstore::SelectedTable;
use std::time::{Duration, Instant};

/// A model selection: the base fit, the candidates, the rows and the resources.
#[derive(Clone, Copy)]
pub struct ModelSelection<'a> {
    /// Name of a solver, or [`super::ANY_SOLVER`].
    pub solver: &'a str,
    /// Fit that the search completes.
    pub base: &'a Fit,
    /// Kernels, and the options of their comparison.
    pub options: &'a TuneOptions,
    /// Scalings that are tried with the best kernel, after the scaling of the options.
    pub scalings: &'a [Scaling],
    /// Rows and columns of the table.
    pub selected: &'a SelectedTable,
    /// Maximum number of steps of each part. If set, it replaces the time limit of the listener,
    /// and the result does not depend on the speed of the machine.
    pub work: Option<SearchWork>,
    /// True if the fit may use the exact kernel instead of a feature map. The exact kernel is used
    /// only if the memory suffices and the listener does not report a lack of time. A base fit with
    /// an exact map always uses the exact kernel.
    pub allows_exact: bool,
    /// Resources of the run. Its observer receives the stages of every step. Checkpoints are not
    /// read.
    pub run: &'a Run<'a>,
    /// Listener that is called at each step.
    pub listener: &'a dyn SearchListener,
    /// Function that returns the final fit. It is called once, at the end of the search. The ranks
    /// of the final fit may differ from the rank of the trials.
    pub final_fit: &'a dyn Fn(&SelectionResult) -> Result<Fit>,
}

impl std::fmt::Debug for ModelSelection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSelection")
            .field("solver", &self.solver)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ModelSelection<'_> {
    /// Runs the search. Results that are in `journal` are not computed again.
    ///
    /// # Errors
    /// The errors of [`KernelSearch::open`], of [`KernelSearch::step`], of the fits, and of the
    /// listener.
    pub fn run<T: Real>(&self, journal: &mut SearchJournal<'_>) -> Result<SelectionResult> {
        let mut log = SearchLog::new(self.listener, self.work);
        let properties = properties(self.base)?;
        self.check_measure(properties)?;
        let (search_result, trials) = self.search_scalings::<T>(&mut log, journal)?;
        let (measure, rarer_fraction) = self.select_measure(properties, &search_result, &trials);
        let (base, rank) =
            (&self.base.clone().scaling(search_result.scaling).with_approximate_map(), self.options.train_options.rank);
        let selection_result = SelectionResult {
            fit: base.clone().kernel(search_result.kernel.clone()),
            rank,
            metric: search_result.metric.clone(),
            form: search_result.form.clone(),
            measure,
            rarer_fraction,
            contenders: Vec::new(),
            test: None,
            default_score: None,
            outer_score: None,
            random_fold_score: None,
            shift_scores: Vec::new(),
            work: log.work(),
            member_count: None,
            history: Vec::new(),
            search: search_result,
        };
        if self.options.score == Score::Alignment {
            let selection_result = SelectionResult { history: log.history, ..selection_result };
            return Ok(SelectionResult { fit: (self.final_fit)(&selection_result)?, ..selection_result });
        }
        let search_result = &selection_result.search;
        // compare solvers and regularisation parameters
        let series_kernels = match self.base.metric_source() {
            MetricSource::Learned(MetricForm::DiagonalOrFull) => {
                trials.series_kernels(&self.options.kernels, search_result, self.options.train_options.seed)?
            }
            _ => Vec::new(),
        };
        log.part = SearchPart::Solvers;
        let kernel_sum = self.learn_kernel_sum(properties, &trials, &mut log, journal)?;
        let contenders = contenders(self.solver, base, search_result, series_kernels, kernel_sum, measure)?;
        let mut contest = Contest::new(&trials, measure, contenders, rank);
        self.listener.begin(SearchPart::Solvers, contest.remaining_trials() as u64);
        while let Some(what) = contest.upcoming().map(|contender| contender.report.solver.clone()) {
            log.run_trial(what, || contest.step(self.run, journal))?;
            if log.is_late(journal)? && contest.end_early() {
                self.listener
                    .warn("the search ended early: not every solver was tried on every fold; raise `time` or `work`");
            }
        }
        self.listener.end();
        let (mut winner, tried) = contest.finish();
        // an exact solver replaces the winner if its error is lower
        let svm_search =
            self.search_separating_svm(base, &winner, search_result, &trials, measure, &mut log, journal)?;
        let (exact_contender, trials) = match svm_search {
            SvmSearch::Better(contender, why, larger_trials) => (Some((*contender, Some(why))), *larger_trials),
            SvmSearch::TooLate => (None, trials),
            SvmSearch::NotBetter => {
                let exact =
                    self.search_exact::<T>(&winner, &tried, search_result, &trials, measure, &mut log, journal)?;
                (exact, trials)
            }
        };
        let mut contenders: Vec<ContenderReport> = tried.into_iter().map(|contender| contender.report).collect();
        let plain_contender = if exact_contender.is_some() { None } else { winner.without_metric(search_result)? };
        winner =
            exact_contender.map_or(winner.clone(), |(exact, why)| exact.replace_winner(&winner, &mut contenders, why));
        // all trials after this line are tests, which do not count as work of the search
        let work = log.work();
        let (mut test, tests_half) = (None, plain_contender.is_some());
        let tests_shifts = self.options.may_use_blocks && !self.options.samples_whole_groups;
        let optional_steps =
            [plain_contender.is_some(), search_result.target_correlation.is_some(), tests_shifts].map(u64::from);
        self.listener.begin(SearchPart::Solvers, 1 + optional_steps.iter().sum::<u64>());
        if let Some(plain_contender) = plain_contender {
            let mut tests = [&winner, &plain_contender].into_iter().map(|contender| {
                let what = format!("test rows, metric {}", contender.report.metric);
                log.run_trial(what, || get_or_compute_timed(journal, || trials.half_scores(&contender.fit, self.run)))
            });
            // lazily: an error in the first test ends the search before `journal` stores the second
            // result in the position of the first
            let with_metric = tests.next().transpose()?.flatten();
            let without_metric = tests.next().transpose()?.flatten();
            drop(tests);
            if let (Some(((tuned_score, tuned_test), seconds)), Some(((plain_score, plain_test), plain_seconds))) =
                (with_metric, without_metric)
            {
                // half of the test rows is a small sample: the cross-validated winner stays
                // unless the difference is clear
                let error_of = |score: &HeldOutScore| score.measure(measure).unwrap_or(f64::INFINITY);
                let (tuned_error, plain_error) = (error_of(&tuned_score), error_of(&plain_score));
                let drops_metric = plain_error < CLEAR_IMPROVEMENT_RATIO * tuned_error;
                if drops_metric {
                    let why = format!(
                        "on test rows, the error is {tuned_error:.4e} with the metric and {plain_error:.4e} with the best kernel without a metric"
                    );
                    self.listener.warn(&format!("{why}: the metric is discarded"));
                    winner = plain_contender.replace_winner(&winner, &mut contenders, Some(why));
                }
                test = Some(if drops_metric { (plain_test, plain_seconds) } else { (tuned_test, seconds) });
            }
        } else {
            let what = "test rows".to_string();
            test =
                log.run_trial(what, || get_or_compute_timed(journal, || trials.test_score(&winner.fit, self.run)))?;
        }
        // the time at half the rank shows how the time depends on the rank; a fit after
        // `Duration::MAX` is late exactly if there is a time limit
        let needs_half_rank_test =
            test.is_some() && needs_half_rank(&winner.fit) && log.is_fit_late(Duration::MAX, journal)?;
        let half_rank_test = match needs_half_rank_test {
            true => {
                let half_rank_fit = winner.fit.clone().with_single_rank(rank / 2);
                log.run_trial(format!("rank {}", rank / 2), || {
                    get_or_compute_timed(journal, || trials.test_score(&half_rank_fit, self.run))
                })?
            }
            false => None,
        };
        // errors on further rows, which choose nothing, are left out if the time is over
        let test_time = test.as_ref().map_or(Duration::ZERO, |(_, seconds)| Duration::from_secs_f64(*seconds));
        let has_time = !log.is_fit_late(test_time, journal)?;
        // if contiguous folds replaced random folds, report what random folds would have shown
        let random_fold_score = match search_result.target_correlation {
            Some(_) if has_time => {
                let (seed, what) = (self.options.train_options.seed, "random rows".to_string());
                log.run_trial(what, || {
                    journal.get_or_compute(|| trials.random_fold_score(&winner.fit, seed, self.run))
                })?
            }
            _ => None,
        };
        let shift_scores = match &test {
            Some((test_score, _)) if tests_shifts && has_time => {
                let (seed, what) = (self.options.train_options.seed, "rows that differ from the table".to_string());
                let compute_scores = || trials.shift_scores(&winner.fit, self.selected, seed, self.run);
                let scores = log.run_trial(what, || journal.get_or_compute(compute_scores))?;
                scores
                    .iter()
                    .filter_map(|kind| kind.warning(test_score.error))
                    .for_each(|text| self.listener.warn(&text));
                scores
            }
            _ => Vec::new(),
        };
        self.listener.end();
        journal.save();
        let tested_lambda = test.as_ref().and_then(|(test_score, _)| test_score.lambda);
        let tested_fit = winner.fit.clone();
        let winner = winner.rescale_lambda(trials.search_row_count() as u64, search_result.rows, tested_lambda);
        let (metric, form, fit) = (winner.metric().cloned(), winner.report.metric, winner.fit);
        let (half_rank_seconds, lambdas) = (half_rank_test.map(|(_, seconds)| seconds), self.options.lambdas.len());
        let test = test.map(|(test_score, seconds)| WinnerTest {
            score: test_score,
            seconds,
            seconds_at_half_rank: half_rank_seconds,
            lambdas,
        });
        let (history, member_count) = (std::mem::take(&mut log.history), log.member_count);
        let mut selection_result = SelectionResult {
            fit,
            metric,
            form,
            contenders,
            test,
            random_fold_score,
            shift_scores,
            work,
            member_count,
            history,
            ..selection_result
        };
        selection_result.fit = (self.final_fit)(&selection_result)?;
        // if the final rank is lower than the rank of the trials, the error is larger, so the test
        // is repeated. A higher rank mostly has a smaller error, and its test would take too long
        let lower_rank_score = journal.get_or_compute(|| {
            match selection_result.fit.train_options(self.selected)?.rank
                < tested_fit.train_options(self.selected)?.rank
            {
                true => trials.test_score(&tested_fit.clone().with_rank_parameters_of(&selection_result.fit), self.run),
                false => Ok(None),
            }
        })?;
        let tests_lower_rank = lower_rank_score.is_some();
        if let (Some(test), Some(repeated_score)) = (&mut selection_result.test, lower_rank_score) {
            test.score = repeated_score;
        }
        // an outer search only reports its error
        if self.options.test_fold.is_some() {
            return Ok(selection_result);
        }
        let is_quick = |test: &WinnerTest| test.seconds < QUICK_TEST_SECONDS;
        if selection_result.test.is_some()
            && (selection_result.test.as_ref().is_some_and(is_quick) || !log.is_late(journal)?)
        {
            let rank_source = if tests_lower_rank { &selection_result.fit } else { &tested_fit };
            let default_fit = self.default_fit().with_rank_parameters_of(rank_source);
            let tests_half = tests_half && !tests_lower_rank;
            selection_result.default_score =
                journal.get_or_compute(|| self.score_default_fit(&default_fit, &trials, tests_half))?;
            journal.save();
        }
        if let Some(test) = selection_result.test.as_ref().filter(|_| !tests_lower_rank) {
            let (score, time) = (&test.score, Duration::from_secs_f64(test.seconds));
            let outer_score = self.outer_score(&selection_result.search, &trials, score, time, &mut log, journal)?;
            selection_result.outer_score = outer_score;
            selection_result.history.append(&mut log.history);
        }
        Ok(selection_result)
    }

    /// Returns the fit that `fit` makes without a search: without a learned metric.
    fn default_fit(&self) -> Fit {
        let fit = self.base.clone().with_approximate_map();
        if let MetricSource::Learned(_) = fit.metric_source() { fit.metric(MetricSource::None) } else { fit }
    }

    /// Returns the error of the default fit on the test rows, or on their second half.
    fn score_default_fit<T: Real>(
        &self,
        fit: &Fit,
        trials: &Trials<T>,
        tests_half: bool,
    ) -> Result<Option<HeldOutScore>> {
        let score = match tests_half {
            true => trials.half_scores(fit, self.run).map(|halves| halves.map(|(_, second)| second)),
            false => trials.test_score(fit, self.run),
        };
        match score {
            Err(error) if error.is_interrupted() => Err(error),
            // this score informs the user; the search does not depend on it
            score => Ok(score.ok().flatten()),
        }
    }

    /// Rejects a requested measure that the models of a named solver do not have.
    fn check_measure(&self, properties: SolverProperties) -> Result<()> {
        let Some(measure) = self.options.measure else { return Ok(()) };
        if measure == SolverMeasure::Loss && !properties.scores_own_loss {
            let why = "these models have no loss of their own, as quantile and glm have; use error";
            return Err(Error::option("measure", measure, why));
        }
        if measure.needs_probabilities() && self.solver != ANY_SOLVER && !has_probabilities(self.base)? {
            let why =
                format!("the scores of {} are not probabilities; use auc or error, or tune {ANY_SOLVER}", self.solver);
            return Err(Error::option("measure", measure, why));
        }
        Ok(())
    }

    /// Returns the measure that compares solvers. Also returns the fraction of the rarer class if
    /// this fraction determines the measure. A model that never predicts a class of 3 % of the rows
    /// has an error rate of 3 %, so the error rate is uninformative for rare classes.
    fn select_measure<T: Real>(
        &self,
        properties: SolverProperties,
        search_result: &KernelSearchResult,
        trials: &Trials<T>,
    ) -> (SolverMeasure, Option<f64>) {
        if let Some(measure) = self.options.measure.or(properties.scores_own_loss.then_some(SolverMeasure::Loss)) {
            return (measure, None);
        }
        let rarer_fraction = if search_result.classes == 2 { trials.rarer_fraction() } else { 1.0 };
        match rarer_fraction < RARE_FRACTION && rarer_fraction * trials.search_row_count() as f64 >= MIN_RARE_ROWS {
            // all solvers tried by `ANY_SOLVER` predict probabilities; a named solver may not
            // predict probabilities
            true => (
                if self.solver == ANY_SOLVER { SolverMeasure::LogLoss } else { SolverMeasure::Auc },
                Some(rarer_fraction),
            ),
            false => (SolverMeasure::Error, None),
        }
    }

    /// Returns the search with the scaling of the options. If another scaling reduces the held-out
    /// error below the fraction [`CLEAR_IMPROVEMENT_RATIO`] of the error with this scaling, returns
    /// the search with the other scaling. A nonlinear scaling is not a metric, so rounds of metric
    /// learning cannot find it. No scaling is tried only if most features have the same range.
    fn search_scalings<T: Real>(
        &self,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<(KernelSearchResult, Trials<T>)> {
        let resources = self.run.resources();
        let mut best_search = self.search_kernels::<T>(self.options, &resources, log, journal)?;
        let has_common_range = best_search.has_common_range();
        let scalings = self.scalings.iter().filter(|scaling| **scaling != Scaling::None || has_common_range);
        let other_options = scalings.map(|scaling| {
            let train_options = TrainOptions { scaling: *scaling, ..self.options.train_options.clone() };
            TuneOptions { train_options, kernels: vec![best_search.requested_kernel()], ..self.options.clone() }
        });
        let other_options: Vec<TuneOptions> = other_options.collect();
        for options in &other_options {
            if log.is_late(journal)? {
                break;
            }
            let other_search = self.search_kernels::<T>(options, &resources, log, journal)?;
            best_search = best_search.or_better(other_search);
        }
        self.refine(&mut best_search, log, journal)?;
        Ok(best_search.finish_with_rows())
    }

    /// Learns the metrics of the best kernels again at a higher rank, while time remains.
    fn refine<T: Real>(
        &self,
        search: &mut KernelSearch<'_, T>,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<()> {
        if search.refinement_count() == 0 || log.is_late(journal)? {
            return Ok(());
        }
        self.listener.begin(SearchPart::Search, search.refinement_count() as u64);
        while let Some((kernel, rank)) = search.upcoming_refinement() {
            if log.is_late(journal)? {
                break;
            }
            let (what, should_stop) = (format!("{kernel} at rank {rank}"), log.stop_condition());
            log.run_step(what, || {
                search.refine(journal, &should_stop).map(|step_count| (step_count, search.best_score()))
            })?;
        }
        self.listener.end();
        Ok(())
    }

    fn search_kernels<'s, T: Real>(
        &self,
        options: &'s TuneOptions,
        resources: &'s Resources<'s>,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<KernelSearch<'s, T>> {
        let mut search = KernelSearch::<T>::open(self.selected, options, resources)?;
        search.warn_of_target(self.selected, self.base.task()?)?;
        self.listener.begin(SearchPart::Search, search.step_count() as u64);
        let scaling = options.train_options.scaling;
        while let Some((kernel, rows)) = search.upcoming() {
            let what = match scaling == self.options.train_options.scaling {
                true => format!("{kernel} on {rows} rows"),
                false => format!("{kernel} on {rows} rows, scale {scaling}"),
            };
            let should_stop = log.stop_condition();
            log.run_step(what, || {
                search.step(journal, &should_stop).map(|step_count| (step_count, search.best_score()))
            })?;
            if log.is_late(journal)? && search.end_early()? {
                self.listener
                    .warn("the search ended early: not every kernel was tried; raise `time`, or name fewer `kernels`");
            }
        }
        self.listener.end();
        Ok(search)
    }
}

/// Returns the result of `test` and its time in seconds, or both from `journal`.
pub(super) fn get_or_compute_timed<V: serde::Serialize + serde::de::DeserializeOwned>(
    journal: &mut SearchJournal<'_>,
    test: impl FnOnce() -> Result<Option<V>>,
) -> Result<Option<(V, f64)>> {
    journal.get_or_compute(|| {
        let started = Instant::now();
        Ok(test()?.map(|outcome| (outcome, started.elapsed().as_secs_f64())))
    })
}

/// If the test of the winner takes less time than this, the default fit is tested even if no time
/// is left.
const QUICK_TEST_SECONDS: f64 = 2.0;

/// A class is rare if its fraction of the rows is below `RARE_FRACTION`: a model that never
/// predicts the class then has an error rate below 10 %. If a rare class has at least
/// `MIN_RARE_ROWS` rows, [`ModelSelection::select_measure`] replaces the error rate.
const RARE_FRACTION: f64 = 0.1;
const MIN_RARE_ROWS: f64 = 30.0;
