//! Selection of kernel, length scale and regularisation parameter for the exact kernel, by fits on
//! a few thousand rows.
//!
//! A map with few features needs a large length scale, because small length scales need many
//! landmarks. An exact solver often has its smallest error at a smaller length scale or, if the
//! target has steps, with a rougher kernel. Therefore the search chooses again: first the kernel,
//! with the learned metric, then the length scale of the best kernel, then the regularisation
//! parameter. Length scale and parameter are changed as long as the held-out error falls. The fit
//! on all n rows has the same length scale as the trials, and the same lambda·n, the noise variance
//! of the target.
//!
//! For regression, the mean of fits with learned sums of kernels competes with the result
//! (`kernel_ensemble`).
//!
//! *Cost*: about ten exact fits on [`MAX_TRIAL_ROWS`] rows; for small tables, about ten exact fits
//! per fold.

use super::contenders::{Contender, ContenderReport};
use super::contenders::{LIKELIHOOD_FORM, solver_label};
use super::contest::TRIAL_RANK;
use super::model_selection::ModelSelection;
use super::refine::CLEAR_IMPROVEMENT_RATIO;
use super::selection_result::SearchPart;
use super::{KernelSearchResult, SearchJournal, SolverMeasure, history::SearchLog, trial::Trials};
use crate::job::{Fit, Run};
use crate::metric::apply_metric;
use crate::prepare::map_builder::resolve_length_scale;
use crate::request::MetricSource;
use crate::solver::{parameter, svm};
use crate::{Error, Result, Task};
use kapprox::{Real, kernel::Kernel, map::MapSpec};
use kstore::SelectedTable;

/// Maximum number of training rows of a trial. If a table is smaller, it is tried on several folds,
/// and this is the maximum for all folds together.
pub(super) const MAX_TRIAL_ROWS: usize = 5_000;

/// Regularisation parameters with which every kernel is tried. 1e-3 is for noisy targets, and is
/// tried only if the trials have fewer than [`MAX_TRIAL_ROWS`] rows. The second value suits small
/// length scales, the third large length scales. [`MIN_LAMBDA`] is the smallest value that the
/// later search tries.
const EXACT_LAMBDAS: [f64; 3] = [1e-3, 1e-5, 1e-7];
const MIN_LAMBDA: f64 = 1e-9;

/// A smaller regularisation parameter wins only if it reduces the error below this fraction of the
/// previous error, because it needs more iterations.
const MAX_LAMBDA_ERROR_RATIO: f64 = 0.995;

/// Maximum number of steps of the length scale in one direction, each by a factor of 2. Chosen:
/// each step costs one more fit.
const MAX_LENGTH_STEPS: usize = 3;

/// Exponent of the number of rows in the time of an exact fit. Measured times of ridge regression,
/// relative to 5,000 rows: 32 for 36,000 rows x 8, 39 to 75 for 41,157 x 9, and 137 for 57,248 rows
/// x 27 features. A one-vs-one classifier sees few of the rows: the relative time was 27 for 60,000
/// x 784 with ten classes.
const TIME_EXPONENT: f64 = 1.9;
const ONE_VS_ONE_TIME_EXPONENT: f64 = 1.5;

/// A kernel, a metric and a regularisation parameter for the exact kernel, with the error of their
/// fit. With further members, the fit is the mean of fits with all kernels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExactFit {
    pub(super) kernel: Kernel,
    pub(super) members: Vec<Kernel>,
    pub(super) metric: MetricSource,
    pub(super) form: String,
    pub(super) lambda: Option<f64>,
    pub(super) error: f64,
}

impl ExactFit {
    /// Returns the number of members in words; empty for a single fit.
    fn members_label(&self) -> String {
        match self.members.len() {
            0 => String::new(),
            further => format!(", mean of {} fits", further + 1),
        }
    }
}

/// A coordinate search over exact fits.
pub(super) struct ExactSearch<'w, 'l, 'm, 'j, T> {
    pub(super) model_selection: &'w ModelSelection<'w>,
    pub(super) trials: &'w Trials<T>,
    pub(super) measure: SolverMeasure,
    pub(super) folds: Vec<usize>,
    /// Name of the solver, and its fit without kernel, metric and regularisation parameter.
    name: String,
    pub(super) fit: Fit,
    /// Time of the final fit and its test, in units of the time of one trial. `None` if the exact
    /// map was requested: the fit may then take any time.
    pub(super) final_cost: Option<f64>,
    pub(super) log: &'w mut SearchLog<'l>,
    pub(super) journal: &'m mut SearchJournal<'j>,
    pub(super) best: Option<ExactFit>,
    /// Mean of fits by likelihood, if it was tried, and steps were reserved for its comparison in a
    /// series.
    pub(super) ensemble: Option<ExactFit>,
    /// True if a stage of learning was skipped.
    pub(super) skips_stage: bool,
    /// Message of the last fit that failed.
    problem: Option<String>,
}

impl ModelSelection<'_> {
    /// Returns the best exact fit, and the reason why it replaces the winner. The solver is the
    /// exact solver of the winner; if the winner has no exact solver, it is the exact solver of the
    /// best contender that has one.
    ///
    /// Returns `None` if the fit should use a map. The reasons are: exact fits are not allowed;
    /// lambda or the map is set; no contender has an exact solver; memory or time do not suffice;
    /// the rows are too few to compare error rates; the winner with a map is better on the same
    /// number of rows.
    ///
    /// # Errors
    /// Errors of the listener; if the exact map was requested, the reason why no exact fit
    /// succeeded.
    pub(super) fn search_exact<T: Real>(
        &self,
        winner: &Contender,
        tried: &[Contender],
        search_result: &KernelSearchResult,
        trials: &Trials<T>,
        measure: SolverMeasure,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<Option<(Contender, Option<String>)>> {
        let is_requested = self.base.requested_map().is_exact_kernel();
        if !is_requested
            && (!self.allows_exact
                || self.base.sets_regularisation()
                || *self.base.requested_map() != MapSpec::default())
        {
            return Ok(None);
        }
        log.part = SearchPart::ExactFits;
        if !is_requested && log.is_late(journal)? {
            return Ok(None);
        }
        let Some((name, fit, fits_memory)) =
            exact_solver(tried, !self.base.sets_regularisation(), self.selected, self.run)?
        else {
            let why = "none of the tried solvers supports the exact kernel; leave `map` out";
            return if is_requested { Err(Error::option("map", "exact", why)) } else { Ok(None) };
        };
        let has_few_rows = search_result.classes > 0 && trials.search_row_count() < MAX_TRIAL_ROWS;
        if !is_requested && (!fits_memory || has_few_rows) {
            return Ok(None);
        }
        let folds: Vec<usize> =
            trials.scored_folds().take((MAX_TRIAL_ROWS / trials.search_row_count().max(1)).max(1)).collect();
        let trial_rows = folds.first().map_or(0, |fold| trials.training_rows(*fold, MAX_TRIAL_ROWS).len()).max(1);
        let lambdas = match self.base.sets_regularisation() {
            true => vec![None],
            false => EXACT_LAMBDAS.into_iter().skip(usize::from(trial_rows == MAX_TRIAL_ROWS)).map(Some).collect(),
        };
        let search_rows = trials.search_row_count() as u64;
        let time_exponent = if fit.option(svm::MULTICLASS.name) == Some(svm::ONE_VS_ONE) {
            ONE_VS_ONE_TIME_EXPONENT
        } else {
            TIME_EXPONENT
        };
        let relative_time = |rows: u64| (rows as f64 / trial_rows as f64).powf(time_exponent);
        // the final fit, and the test before it
        let final_cost = (relative_time(search_result.rows) + relative_time(search_rows)) / folds.len().max(1) as f64;
        let (model_selection, best, ensemble, problem, skips_stage) = (self, None, None, None, false);
        let final_cost = (!is_requested).then_some(final_cost);
        let mut search = ExactSearch {
            model_selection,
            trials,
            measure,
            folds,
            name,
            fit,
            final_cost,
            log,
            journal,
            best,
            ensemble,
            skips_stage,
            problem,
        };
        let kernel_sums = if search.tries_kernel_sums()? { &self.options.kernel_sums[..] } else { &[] };
        let step_count = lambdas.len() * (self.options.kernels.len() + 1) + 2 * MAX_LENGTH_STEPS + kernel_sums.len();
        self.listener.begin(SearchPart::ExactFits, step_count as u64);
        let is_in_time = search.run(winner, tried, search_result, &lambdas)? && search.is_in_time(0)?;
        if is_in_time {
            search.try_kernel_ensemble(kernel_sums, search_result.target_correlation.is_some())?;
        }
        self.listener.end();
        if !is_in_time {
            return Ok(None);
        }
        let rival_error = if is_requested { None } else { search.rival_error(winner)? };
        if is_requested && search.ensemble.is_some() {
            search.log.count_steps(1);
        }
        // in a series, leaves with their own kernel may improve a fit with a map, but no exact fit
        let max_ratio = if search_result.target_correlation.is_some() { CLEAR_IMPROVEMENT_RATIO } else { 1.0 };
        let winner_stays = !is_requested
            && search.best.as_ref().is_none_or(|best| rival_error.is_some_and(|rival| best.error >= max_ratio * rival));
        let task = search.fit.task()?;
        let mut why = rival_error.zip(search.best.as_ref()).map(|(rival, best)| {
            let [rival, error] = [rival, best.error].map(|error| measure.describe(task, error));
            let rows = kstore::display::format_count(trial_rows as u64);
            format!("{error}, against {rival} for {} with a feature map, on the same {rows} rows", winner.report.solver)
        });
        let best = match search.best.as_ref().filter(|_| !winner_stays) {
            Some(best) => (search.fit_of(best), "the best single fit"),
            None => (winner.fit.clone().with_single_rank(TRIAL_RANK), &winner.report.solver[..]),
        };
        let chosen = search.fit_for_neighbours(&best.0, best.1, !winner_stays)?;
        if search.ensemble.is_some() && search.skips_stage {
            search.log.mark_late();
        }
        if let Some((ensemble, reason)) = chosen {
            (search.best, why) = (Some(ensemble), Some(reason));
        } else if winner_stays {
            return Ok(None);
        }
        let ExactSearch { name, fit, best, problem, .. } = search;
        let Some(best) = best.filter(|best| best.error.is_finite()) else {
            let why = problem.unwrap_or("no exact fit succeeded".to_string());
            return if is_requested { Err(Error::option("map", "exact", why)) } else { Ok(None) };
        };
        let solver = solver_label(&format!("{name}{}", best.members_label()), best.lambda);
        let report = ContenderReport::new(solver, &best.kernel, &best.form);
        let report = ContenderReport { errors: vec![best.error], mean: Some(best.error), ..report };
        let fit = fit.kernel(best.kernel).with_members(best.members).metric(best.metric);
        let fit = Contender { name, fit, trial_fit: None, lambda: best.lambda, report };
        Ok(Some((fit.rescale_lambda(trial_rows as u64, search_rows, None), why)))
    }
}

/// Returns the name of an exact solver, its fit, and true if the fit fits the memory. The solver is
/// the exact solver of the winner or, if the winner has no exact solver, of the best contender that
/// has one. If `is_lambda_free` is true, the regularisation parameter of the solver is not chosen
/// yet.
fn exact_solver(
    tried: &[Contender],
    is_lambda_free: bool,
    selected: &SelectedTable,
    run: &Run<'_>,
) -> Result<Option<(String, Fit, bool)>> {
    let mut by_error: Vec<&Contender> = tried.iter().collect();
    let mean = |contender: &Contender| contender.report.mean.unwrap_or(f64::INFINITY);
    by_error.sort_by(|a, b| b.report.chosen.cmp(&a.report.chosen).then(mean(a).total_cmp(&mean(b))));
    for Contender { name, fit, .. } in by_error {
        let fit = fit.clone().with_exact_kernel()?;
        let planned_fit =
            if is_lambda_free { fit.clone().set(parameter::LAMBDA.name, EXACT_LAMBDAS[1]) } else { fit.clone() };
        if let Ok(plan) = planned_fit.plan(selected, run) {
            return Ok(Some((format!("{name} on the exact kernel"), fit, plan.fits())));
        }
    }
    Ok(None)
}

impl<T: Real> ExactSearch<'_, '_, '_, '_, T> {
    /// Searches for the best exact solver, as far as the time allows further trials. Returns false
    /// if the first trial predicts that the final fit exceeds the time.
    fn run(
        &mut self,
        winner: &Contender,
        tried: &[Contender],
        search_result: &KernelSearchResult,
        lambdas: &[Option<f64>],
    ) -> Result<bool> {
        let kernels = self.kernels(winner, tried, search_result)?;
        for candidate in kernels {
            for lambda in lambdas {
                let is_first = self.best.is_none();
                self.try_fit(ExactFit { lambda: *lambda, ..candidate.clone() }, 1.0)?;
                if is_first && !self.is_in_time(lambdas.len())? {
                    return Ok(false);
                }
            }
        }
        for factor in [0.5, 2.0] {
            let mut step_count = 0;
            while let Some(best) = self.best.clone().filter(|_| step_count < MAX_LENGTH_STEPS) {
                step_count += 1;
                if !self.try_fit(ExactFit { kernel: best.kernel.with_scaled_lengths(factor)?, ..best }, 1.0)? {
                    break;
                }
            }
            // if half the length scale is better, twice the length scale is not
            if step_count > 1 {
                break;
            }
        }
        for (factor, max_ratio) in [(0.1, MAX_LAMBDA_ERROR_RATIO), (10.0, 1.0)] {
            let mut is_better = true;
            while let Some((best, lambda)) =
                self.best.clone().filter(|_| is_better).and_then(|b| Some((b.clone(), b.lambda?)))
            {
                let lambda = lambda * factor;
                is_better = (MIN_LAMBDA..1.0).contains(&lambda)
                    && self.try_fit(ExactFit { lambda: Some(lambda), ..best }, max_ratio)?;
            }
        }
        Ok(true)
    }

    /// Returns true if the solver is ridge regression for a numeric target, and lambda is not set:
    /// the marginal likelihood determines lambda too.
    fn tries_kernel_sums(&self) -> Result<bool> {
        let is_lambda_free = !self.model_selection.base.sets_regularisation() && self.fit.solver_family.name == "ridge";
        Ok(is_lambda_free && self.fit.task()? == Task::Regression)
    }

    /// Returns true if the final fit is likely to end in time after `trial_count` trials.
    fn is_in_time(&mut self, trial_count: usize) -> Result<bool> {
        let Some(cost) = self.final_cost else { return Ok(true) };
        Ok(!self.log.is_fit_late(self.log.last_duration.mul_f64(cost + trial_count as f64), self.journal)?)
    }

    /// Returns the error of the winner on the same number of rows; `None` if the fit fails.
    fn rival_error(&mut self, winner: &Contender) -> Result<Option<f64>> {
        self.error(&winner.fit.clone().with_single_rank(TRIAL_RANK), winner.report.solver.clone())
    }

    /// Returns the initial kernels: the winning kernel, all other kernels with the metric of the
    /// winner, the best kernel without a metric, and the sum of kernels that was learned by
    /// likelihood.
    fn kernels(
        &self,
        winner: &Contender,
        tried: &[Contender],
        search_result: &KernelSearchResult,
    ) -> Result<Vec<ExactFit>> {
        let initial_fit = |kernel: Kernel, contender: &Contender| {
            let (metric, form) = (contender.fit.metric_source().clone(), contender.report.metric.clone());
            ExactFit { kernel, members: Vec::new(), metric, form, lambda: None, error: f64::INFINITY }
        };
        let mut sample = self.trials.sample();
        if let Some(metric) = winner.metric() {
            sample = apply_metric(&sample, metric);
        }
        let mut candidates = vec![initial_fit(winner.fit.requested_kernel().clone(), winner)];
        for kernel in
            self.model_selection.options.kernels.iter().filter(|kernel| **kernel != search_result.requested_kernel)
        {
            candidates.push(initial_fit(
                resolve_length_scale(kernel, &sample, self.model_selection.options.train_options.seed)?,
                winner,
            ));
        }
        if let Some(plain) = winner.without_metric(search_result)? {
            candidates.push(initial_fit(plain.fit.requested_kernel().clone(), &plain));
        }
        let is_sum = |contender: &&Contender| contender.report.metric == LIKELIHOOD_FORM;
        if let Some(sum) = tried.iter().find(is_sum).filter(|_| winner.report.metric != LIKELIHOOD_FORM) {
            candidates.push(initial_fit(sum.fit.requested_kernel().clone(), sum));
        }
        Ok(candidates)
    }

    /// Tries an exact fit, unless this part of the search is late. If the error of the fit is below
    /// `max_ratio` times the best error, the fit becomes the best fit, and the function returns
    /// true.
    pub(super) fn try_fit(&mut self, candidate: ExactFit, max_ratio: f64) -> Result<bool> {
        // after this trial, the best fit is compared with the winner
        if self.best.is_some() && (self.log.is_late(self.journal)? || !self.is_in_time(2)?) {
            self.log.mark_late();
            return Ok(false);
        }
        let error = self.candidate_error(&candidate)?;
        let is_better = self.best.as_ref().is_none_or(|best| error < max_ratio * best.error);
        if is_better {
            self.best = Some(ExactFit { error, ..candidate });
        }
        Ok(is_better)
    }

    /// Returns the mean error of a candidate over the folds; infinite if its fit fails.
    pub(super) fn candidate_error(&mut self, candidate: &ExactFit) -> Result<f64> {
        let ExactFit { kernel, members, lambda, .. } = candidate;
        let what = match members.is_empty() {
            true => format!("{}, {kernel}", self.name),
            false => format!("{}{}", self.name, candidate.members_label()),
        };
        let what = solver_label(&what, *lambda);
        let fit = self.fit_of(candidate);
        Ok(self.error(&fit, what)?.unwrap_or(f64::INFINITY))
    }

    pub(super) fn fit_of(&self, candidate: &ExactFit) -> Fit {
        let ExactFit { kernel, members, metric, lambda, .. } = candidate.clone();
        let fit = self.fit.clone().kernel(kernel).with_members(members).metric(metric);
        lambda.iter().fold(fit, |fit, lambda| fit.set(parameter::LAMBDA.name, lambda))
    }

    /// Returns the mean error of a fit over the folds; `None` if the fit fails.
    fn error(&mut self, fit: &Fit, what: String) -> Result<Option<f64>> {
        let Self { model_selection, trials, measure, folds, journal, .. } = self;
        let sum_errors = || {
            folds
                .iter()
                .map(|fold| trials.validation_error(fit, *fold, *measure, MAX_TRIAL_ROWS, model_selection.run))
                .map(|result| result.map(|(error, _)| error))
                .sum::<Result<f64>>()
        };
        let (error, problem) = self.log.run_trial(what, || {
            journal.get_or_compute(|| match sum_errors() {
                Ok(sum) => Ok((Some(sum / folds.len().max(1) as f64), None)),
                Err(error) if error.is_interrupted() => Err(error),
                Err(error) => Ok((None, Some(error.to_string()))),
            })
        })?;
        self.problem = problem.or(self.problem.take());
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::{Selection, Table};

    #[test]
    fn a_winner_without_an_exact_solver_is_replaced_by_the_best_with_one() {
        let contender = |name: &str, mean: f64, chosen: bool| {
            let fit = Fit::solver(name).unwrap().kernel(Kernel::parse("gaussian(sigma=1)").unwrap());
            let fit = if name == "ridge" { fit.set("task", "classification") } else { fit };
            let report = ContenderReport { mean: Some(mean), chosen, ..ContenderReport::default() };
            Contender { name: name.to_string(), fit, trial_fit: None, lambda: None, report }
        };
        let x: Vec<f64> = (0..200).map(f64::from).collect();
        let y: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        let selection = Selection { targets: vec!["y".to_string()], class_target: true, ..Selection::default() };
        let selected = Table::from_rows(&x, 1, &y).unwrap().select(&selection).unwrap();
        let first =
            |tried: &[Contender]| exact_solver(tried, true, &selected, &Run::new()).unwrap().map(|solver| solver.0);
        let contenders =
            |svm: f64| [contender("logistic", 0.1, true), contender("svm", svm, false), contender("ridge", 0.2, false)];
        assert_eq!(first(&contenders(0.15)).as_deref(), Some("svm on the exact kernel"));
        assert_eq!(first(&contenders(0.25)).as_deref(), Some("ridge on the exact kernel"));
        // the winner is first, even if its mean is higher
        let won = [contender("svm", 0.3, true), contender("ridge", 0.2, false)];
        assert_eq!(first(&won).as_deref(), Some("svm on the exact kernel"));
        assert_eq!(first(&contenders(0.15)[..1]), None);
    }
}
