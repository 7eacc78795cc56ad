//! Compares solvers and regularisation parameters, the contenders, by complete fits on the rows of
//! a search (successive halving over folds).
//!
//! In the first round, every contender is fitted on all folds except one and scored on the
//! remaining fold. The better half, at least [`MIN_CONTENDERS`], continues on a second fold, and so
//! on for up to [`CONTEST_FOLDS`] folds. The lowest mean error wins. Classifiers are compared by a
//! [`SolverMeasure`], but the search chose the kernel and its metric by squared error. Therefore
//! the best kernel without a metric competes, too. It is tried first, because it is close to the
//! default fit.
//!
//! *Cost*: one fit per contender on the first fold, one more fit for each contender of the better
//! half, and so on. Each fit has rank [`TRIAL_RANK`] and uses the rows of the sample.

use super::{Kernel, KernelSearchResult, SolverMeasure, journal::SearchJournal, trial::Trials};
use crate::job::{Fit, Run};
use crate::solver::parameter;
use crate::{Error, Result, grids::half_decade, request::MetricSource};
use kapprox::{Real, metric::Metric};
use std::sync::Arc;

/// Maximum rank of a trial: sufficient to compare regularisation parameters and solvers, and fast.
pub(super) const TRIAL_RANK: usize = 500;

/// Maximum number of folds on which a contender is tried. Chosen: each fold costs one more fit.
const CONTEST_FOLDS: usize = 3;

/// Minimum number of contenders that continue. Chosen: a single fold ranks contenders only roughly.
const MIN_CONTENDERS: usize = 3;

/// Minimum number of trials, even if no time is left: the first solver with and without the metric.
const MIN_TRIALS: usize = 2;

/// Numbers of half decades by which the grid of regularisation parameters extends below and above
/// the likely range.
const STEPS_BELOW: i64 = 2;
const STEPS_ABOVE: i64 = 1;

/// Exponent of the smallest regularisation parameter in a grid, in half decades: −18 stands for
/// 1e-9.
const MIN_LAMBDA_STEP: i64 = -18;

/// Exponent of a regularisation parameter for which a Cholesky factor in f32 usually exists, in
/// half decades: −12 stands for 1e-6.
const SAFE_LAMBDA_STEP: i64 = -12;

/// A solver with a regularisation parameter that competes in a contest.
#[derive(Clone)]
pub(super) struct Contender {
    /// Solver without its regularisation parameter: `svm, one-vs-one`.
    pub(super) name: String,
    /// Fit at the requested ranks.
    pub(super) fit: Fit,
    /// Fit that learns the metric for the trials, each from its own training rows; `None` if the
    /// trials use the metric of `fit`.
    pub(super) trial_fit: Option<Fit>,
    /// Regularisation parameter of this contender; `None` for solvers that compare several
    /// themselves.
    pub(super) lambda: Option<f64>,
    pub(super) report: ContenderReport,
}

/// The report of a contender.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ContenderReport {
    /// Solver with the parameters that were tried: `svm, lambda 1e-5`.
    pub solver: String,
    /// Kernel with numeric parameters.
    pub kernel: String,
    /// Metric: none, given, full, diagonal, low-rank(5); or half diagonal, for a series.
    pub metric: String,
    /// Errors on the folds, in the compared measure; lower is better.
    pub errors: Vec<f64>,
    /// Log-losses on the same folds if the solver has probabilities.
    #[serde(skip)]
    pub(super) log_losses: Vec<f64>,
    /// Mean of the errors; `None` if a fit failed.
    pub mean: Option<f64>,
    /// Standard deviation of the errors over folds; `None` for a single fold.
    pub spread: Option<f64>,
    /// Reason of a failed fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True for the winner.
    pub chosen: bool,
    /// Reason why the contender won although its mean is not the lowest; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Contender {
    pub(super) fn metric(&self) -> Option<&Arc<Metric>> {
        self.fit.metric.provided()
    }

    /// Returns the contender with its regularisation parameter converted from trials on
    /// `trial_rows` rows to a fit on `fit_rows` rows.
    ///
    /// With a feature map, lambda is proportional to 1/√n. This is the optimal rate for a function
    /// in the reproducing kernel Hilbert space (Caponnetto, De Vito, "Optimal rates for the
    /// regularized least-squares algorithm", 2007). With the exact kernel, lambda·n stays constant:
    /// it is the noise variance of a Gaussian process.
    ///
    /// If the contender cross-validates its own lambdas, it gets a small grid around
    /// `tested_lambda`, the best lambda of the test fit, instead of the full grid: each lambda
    /// costs a factorisation in every fold. An exact fit without lambda learns it by likelihood.
    pub(super) fn rescale_lambda(self, trial_rows: u64, fit_rows: u64, tested_lambda: Option<f64>) -> Self {
        let row_fraction = (trial_rows.max(1) as f64 / fit_rows.max(1) as f64).min(1.0);
        let factor = if self.fit.requested_map().is_exact_kernel() { row_fraction } else { row_fraction.sqrt() };
        let lambda = self.lambda.map(|lambda| lambda * factor);
        let lambda_grid = tested_lambda
            .filter(|_| !self.fit.sets_regularisation() && !self.fit.requested_map().is_exact_kernel())
            .map(|tested| lambda_grid_around(tested, row_fraction));
        let fit = match lambda.map(format_lambda).or(lambda_grid) {
            Some(lambdas) => self.fit.set(parameter::LAMBDA.name, lambdas),
            None => self.fit,
        };
        Self { fit, lambda, ..self }
    }

    /// Returns the same solver and regularisation parameter with the best kernel without a metric;
    /// `None` if no metric was learned.
    pub(super) fn without_metric(&self, search_result: &KernelSearchResult) -> Result<Option<Self>> {
        let has_metric = self.fit.metric.provided().is_some();
        let Some(kernel) = search_result.best_without_metric().filter(|_| has_metric) else { return Ok(None) };
        let kernel = Kernel::parse(kernel)?;
        let report = ContenderReport::new(self.report.solver.clone(), &kernel, "none");
        let fit = self.fit.clone().kernel(kernel).metric(MetricSource::None);
        Ok(Some(Self { name: self.name.clone(), fit, trial_fit: None, lambda: self.lambda, report }))
    }

    /// Makes this contender the winner instead of `previous_winner`, and records it and `why` in
    /// the reports.
    pub(super) fn replace_winner(
        mut self,
        previous_winner: &Self,
        reports: &mut Vec<ContenderReport>,
        why: Option<String>,
    ) -> Self {
        for report in reports.iter_mut().filter(|report| **report == previous_winner.report) {
            (report.chosen, report.why) = (false, None);
        }
        (self.report.chosen, self.report.why) = (true, why.clone());
        let is_same = |report: &&mut ContenderReport| {
            (&report.solver, &report.kernel, &report.metric)
                == (&self.report.solver, &self.report.kernel, &self.report.metric)
        };
        match reports.iter_mut().find(is_same) {
            Some(report) => {
                (report.chosen, report.why) = (true, why);
                self.report = report.clone();
            }
            None => reports.push(self.report.clone()),
        }
        self
    }
}

impl ContenderReport {
    pub(super) fn new(solver: String, kernel: &Kernel, metric: &str) -> Self {
        Self { solver, kernel: kernel.to_string(), metric: metric.to_string(), ..Self::default() }
    }

    /// Returns false if the search ended before this contender was tried.
    pub fn was_tried(&self) -> bool {
        !self.errors.is_empty() || self.problem.is_some()
    }

    fn add_error(&mut self, error: f64, log_loss: Option<f64>) {
        self.errors.push(error);
        self.log_losses.extend(log_loss);
        let n = self.errors.len() as f64;
        let mean = self.errors.iter().sum::<f64>() / n;
        let squared_deviation_sum: f64 = self.errors.iter().map(|error| (error - mean).powi(2)).sum();
        self.mean = Some(mean);
        self.spread = (self.errors.len() > 1).then(|| (squared_deviation_sum / (n - 1.0)).sqrt());
    }
}

/// A comparison that proceeds trial by trial.
pub(super) struct Contest<'a, T> {
    trials: &'a Trials<T>,
    measure: SolverMeasure,
    contenders: Vec<Contender>,
    max_rank: usize,
    /// Folds on which the contenders are tried, one per round.
    folds: Vec<usize>,
    round: usize,
    /// Indices of the contenders that are tried in the current round.
    alive: Vec<usize>,
    /// Number of contenders of `alive` that were tried on the current fold.
    tried_in_round: usize,
    /// A fold, with the kernel and the metric that were learned from its training rows.
    learned: Option<(usize, Kernel, MetricSource)>,
}

impl<'a, T: Real> Contest<'a, T> {
    /// Returns a contest between these fits; the trials use at most rank `max_rank`. A single fit
    /// wins without a trial.
    pub(super) fn new(
        trials: &'a Trials<T>,
        measure: SolverMeasure,
        contenders: Vec<Contender>,
        max_rank: usize,
    ) -> Self {
        let folds = if contenders.len() > 1 { trials.scored_folds().take(CONTEST_FOLDS).collect() } else { Vec::new() };
        let alive = (0..contenders.len()).collect();
        Self {
            trials,
            measure,
            contenders,
            max_rank: max_rank.min(TRIAL_RANK),
            folds,
            round: 0,
            alive,
            tried_in_round: 0,
            learned: None,
        }
    }

    /// Returns the maximum number of remaining trials.
    pub(super) fn remaining_trials(&self) -> usize {
        let round_sizes = std::iter::successors(Some(self.alive.len()), |alive| Some(survivor_count(*alive)));
        round_sizes.take(self.folds.len() - self.round).sum::<usize>() - self.tried_in_round
    }

    /// Returns the contender that is tried next; `None` at the end.
    pub(super) fn upcoming(&self) -> Option<&Contender> {
        (self.round < self.folds.len()).then(|| &self.contenders[self.alive[self.tried_in_round]])
    }

    /// Tries the next contender, or reads its error from `journal`. A failed fit ranks last.
    pub(super) fn step(&mut self, run: &Run<'_>, journal: &mut SearchJournal<'_>) -> Result<()> {
        let Some(fold) = self.folds.get(self.round).copied() else { return Ok(()) };
        let index = self.alive[self.tried_in_round];
        let may_exceed_memory = self.contenders[index].trial_fit.is_some();
        let outcome = journal.get_or_compute(|| {
            let error = self
                .trial_fit(index, fold, run)
                .and_then(|fit| self.trials.validation_error(&fit, fold, self.measure, usize::MAX, run));
            match error {
                Ok(error) => Ok((Some(error), None)),
                Err(error)
                    if error.is_interrupted()
                        || !may_exceed_memory && matches!(error, Error::Store(kstore::Error::OverBudget { .. })) =>
                {
                    Err(error)
                }
                Err(error) => Ok((None, Some(error.to_string()))),
            }
        })?;
        let contender = &mut self.contenders[index];
        match outcome {
            (Some((error, log_loss)), _) => contender.report.add_error(error, log_loss),
            (None, problem) => (contender.report.mean, contender.report.problem) = (None, problem),
        }
        self.tried_in_round += 1;
        if self.tried_in_round == self.alive.len() {
            (self.tried_in_round, self.round) = (0, self.round + 1);
            self.sort_alive();
            self.alive.truncate(survivor_count(self.alive.len()));
        }
        Ok(())
    }

    /// Returns the fit of a trial. If it learns a metric from its training rows, the metric is
    /// learned once for all contenders with a single lambda. A solver that compares several learns
    /// the metric itself, because it compares them by metrics that are learned without each fold.
    fn trial_fit(&mut self, index: usize, fold: usize, run: &Run<'_>) -> Result<Fit> {
        let Contender { fit, trial_fit, lambda, .. } = &self.contenders[index];
        let rank = self.max_rank;
        // the learned kernel would name its columns by the features of the rows in memory
        let shares = lambda.is_some() && !fit.requested_kernel().restricts_columns();
        let Some(learning_fit) = trial_fit.as_ref().filter(|_| shares) else {
            return Ok(trial_fit.as_ref().unwrap_or(fit).clone().with_single_rank(rank));
        };
        let fit = fit.clone().with_single_rank(rank);
        let (kernel, metric) = match &self.learned {
            Some((learned_fold, kernel, metric)) if *learned_fold == fold => (kernel.clone(), metric.clone()),
            _ => {
                let learning_fit = learning_fit.clone().with_single_rank(rank);
                let (kernel, metric) = self.trials.learned_metric(&learning_fit, fold, run)?;
                self.learned = Some((fold, kernel.clone(), metric.clone()));
                (kernel, metric)
            }
        };
        Ok(fit.kernel(kernel).metric(metric))
    }

    /// If at least [`MIN_TRIALS`] trials were made and trials are left, ends the contest and
    /// returns true. Otherwise returns false.
    pub(super) fn end_early(&mut self) -> bool {
        let is_unfinished = self.round < self.folds.len() && (self.round > 0 || self.tried_in_round >= MIN_TRIALS);
        if is_unfinished && self.round == 0 {
            self.alive.truncate(self.tried_in_round);
        }
        if is_unfinished {
            self.sort_alive();
            (self.tried_in_round, self.round) = (0, self.folds.len());
        }
        is_unfinished
    }

    /// Sorts the remaining contenders by mean error over the folds on which all of them were tried.
    /// Equal errors, which are frequent on few rows, are sorted by log-loss; solvers without
    /// probabilities follow, in the order of the contenders. Failed fits are last.
    fn sort_alive(&mut self) {
        let reports: Vec<&ContenderReport> = self.alive.iter().map(|index| &self.contenders[*index].report).collect();
        self.alive = order_of_means(&shared_fold_means(&reports)).into_iter().map(|i| self.alive[i]).collect();
    }

    /// Ends the contest and returns the winner and all contenders.
    pub(super) fn finish(mut self) -> (Contender, Vec<Contender>) {
        let mean = |contender: &Contender| contender.report.mean.unwrap_or(f64::INFINITY);
        let lowest_mean = self.contenders.iter().map(mean).fold(f64::INFINITY, f64::min);
        let winner = &mut self.contenders[self.alive[0]];
        winner.report.chosen = true;
        winner.report.why = (mean(winner) > lowest_mean)
            .then(|| "the means cover different numbers of folds; on the shared folds, this one is the lowest".into());
        (winner.clone(), self.contenders)
    }
}

/// Returns the mean error and the mean log-loss of each contender on the folds that all contenders
/// were tried on; both are infinite for a failed fit, and the log-loss without probabilities.
fn shared_fold_means(reports: &[&ContenderReport]) -> Vec<[f64; 2]> {
    let complete = reports.iter().filter(|report| report.mean.is_some());
    let shared_fold_count = complete.map(|report| report.errors.len()).min().unwrap_or(0);
    let mean = |values: &[f64]| {
        let shared = values.get(..shared_fold_count);
        shared.map_or(f64::INFINITY, |values| values.iter().sum::<f64>() / shared_fold_count.max(1) as f64)
    };
    let means = |report: &&ContenderReport| match report.mean {
        Some(_) => [mean(&report.errors), mean(&report.log_losses)],
        None => [f64::INFINITY; 2],
    };
    reports.iter().map(means).collect()
}

/// Returns the positions of the means, the lowest mean error first, and of equal errors the lowest
/// log-loss.
fn order_of_means(means: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|i, j| means[*i][0].total_cmp(&means[*j][0]).then(means[*i][1].total_cmp(&means[*j][1])));
    order
}

fn survivor_count(alive: usize) -> usize {
    alive.div_ceil(2).max(MIN_CONTENDERS).min(alive)
}

/// Returns a grid of likely regularisation parameters for all rows, two per decade, given that
/// `lambda` was best on the fraction `row_fraction` of the rows. The best lambda is proportional to
/// 1/√n or to 1/n, and the grid covers both cases. The grid extends further down than up, because
/// the higher rank of the final fit tends to need a smaller lambda.
fn lambda_grid_around(lambda: f64, row_fraction: f64) -> String {
    let nearest_half_decade = |lambda: f64| (2.0 * lambda.max(f64::MIN_POSITIVE).log10()).round() as i64;
    // below `MIN_LAMBDA_STEP`, the factorisation in f32 fails, and it often fails at
    // `MIN_LAMBDA_STEP` itself
    let min_step = (nearest_half_decade(lambda * row_fraction) - STEPS_BELOW).max(MIN_LAMBDA_STEP);
    let max_step = (nearest_half_decade(lambda * row_fraction.sqrt()) + STEPS_ABOVE).max(SAFE_LAMBDA_STEP);
    format!("{}..{}", format_lambda(half_decade(min_step)), format_lambda(half_decade(max_step)))
}

/// Returns a regularisation parameter in scientific notation: `1e-5`.
pub(super) fn format_lambda(lambda: f64) -> String {
    format!("{lambda:e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::ridge::Ridge;

    #[test]
    fn errors_are_compared_on_the_folds_that_all_were_tried_on() {
        let tried = |errors: &[f64], log_losses: &[f64]| {
            let mut report = ContenderReport::default();
            for (fold, error) in errors.iter().enumerate() {
                report.add_error(*error, log_losses.get(fold).copied());
            }
            report
        };
        // the second fold is harder than the first, and the third contender was not tried on it
        let reports = [
            tried(&[0.2, 0.6], &[]),
            tried(&[0.3, 0.5], &[0.75, 0.9]),
            tried(&[0.25], &[0.5]),
            ContenderReport::default(),
        ];
        let none = f64::INFINITY;
        assert_eq!(shared_fold_means(&reports.each_ref()), [[0.2, none], [0.3, 0.75], [0.25, 0.5], [none, none]]);
        let means = shared_fold_means(&[&reports[0], &reports[1]]);
        assert_eq!(means, [[0.4, none], [0.4, 0.825]]);
        // of equal errors, the one with probabilities is first
        assert_eq!(order_of_means(&means), [1, 0]);
        assert_eq!(order_of_means(&[[0.4, 0.9], [0.3, none], [0.4, 0.8], [none, none]]), [1, 2, 0, 3]);
    }

    #[test]
    fn lambda_falls_with_the_root_of_the_row_count() {
        let fit = Fit::solver("svm").unwrap();
        let contender_of = |fit: Fit, lambda| Contender {
            name: String::new(),
            fit,
            trial_fit: None,
            lambda,
            report: ContenderReport::default(),
        };
        let rescaled_regularisation = |fit_rows: u64| {
            contender_of(fit.clone(), Some(1e-4))
                .rescale_lambda(100, fit_rows, None)
                .fit
                .settings()
                .unwrap()
                .strongest_regularisation()
        };
        assert_eq!(rescaled_regularisation(10_000), crate::solver::Regularisation::Lambda(1e-5));
        // it does not rise for fewer rows
        assert_eq!(rescaled_regularisation(25), crate::solver::Regularisation::Lambda(1e-4));
        // with the exact kernel it falls in proportion to the rows
        let exact = contender_of(fit.clone().with_exact_kernel().unwrap(), Some(1e-4)).rescale_lambda(100, 200, None);
        assert_eq!(exact.lambda, Some(5e-5));
        assert_eq!(
            exact.fit.settings().unwrap().strongest_regularisation(),
            crate::solver::Regularisation::Lambda(5e-5)
        );
        // a cross-validated grid covers both rules, plus one decade below and half a decade above
        let ridge = contender_of(Fit::solver("ridge").unwrap(), None).rescale_lambda(100, 10_000, Some(1e-4));
        let lambdas = Ridge::new(ridge.fit.settings().unwrap()).lambdas;
        assert_eq!((lambdas.len(), lambdas[0], lambdas[5]), (6, 1e-7, 3.1622776601683795e-5));
        let with_c = contender_of(fit.clone().set("C", 3), None);
        assert_eq!(
            with_c.rescale_lambda(100, 10_000, None).fit.settings().unwrap().strongest_regularisation(),
            crate::solver::Regularisation::C(3.0)
        );
    }
}
