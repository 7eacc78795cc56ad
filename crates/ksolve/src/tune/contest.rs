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

use super::contenders::{Contender, ContenderReport};
use super::{Kernel, SolverMeasure, journal::SearchJournal, trial::Trials};
use crate::job::{Fit, Run};
use crate::{Error, Result, request::MetricSource};
use kapprox::Real;
use std::cmp::Ordering;

/// Maximum rank of a trial: sufficient to compare regularisation parameters and solvers, and fast.
pub(super) const TRIAL_RANK: usize = 500;

/// Maximum number of folds on which a contender is tried. Chosen: each fold costs one more fit.
const CONTEST_FOLDS: usize = 3;

/// Minimum number of contenders that continue. Chosen: a single fold ranks contenders only roughly.
const MIN_CONTENDERS: usize = 3;

/// Errors below this ratio to the lowest error are considered equal.
const TIE_RATIO: f64 = 1.005;

/// Minimum number of trials, even if no time is left: the first solver with and without the metric.
const MIN_TRIALS: usize = 2;

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
        let preferred = self.preferred_in_tie();
        let winner = &mut self.contenders[preferred.as_ref().map_or(self.alive[0], |(index, _)| *index)];
        winner.report.chosen = true;
        winner.report.why = match preferred {
            Some((_, why)) => Some(why.to_string()),
            None => (mean(winner) > lowest_mean).then(|| {
                "the means cover different numbers of folds; on the shared folds, this one is the lowest".into()
            }),
        };
        (winner.clone(), self.contenders)
    }

    /// Returns a contender that is preferred to the winner because their errors are about equal,
    /// and the reason.
    ///
    /// * By the loss of the models: the same fit with a larger lambda. The low rank of a trial
    ///   regularises too, so that small lambdas make no difference; at the rank of the model they
    ///   do. On hourly departures and bike counts, the lambdas from 1e-7 to 1e-5 had about equal
    ///   losses at rank 500, and 1e-5 had the lowest loss of them at ranks 2,000 and 4,000.
    /// * By the error rate: a solver with probabilities instead of one without.
    fn preferred_in_tie(&self) -> Option<(usize, &'static str)> {
        let winner = &self.contenders[self.alive[0]];
        let is_tie = |contender: &Contender| {
            let [a, b] = shared_fold_means(&[&contender.report, &winner.report])[..] else { return false };
            a[0].is_finite() && a[0] <= TIE_RATIO * b[0]
        };
        let ties =
            (0..self.contenders.len()).filter(|i| is_tie(&self.contenders[*i])).map(|i| (i, &self.contenders[i]));
        match self.measure {
            SolverMeasure::Loss => {
                let is_same_fit = |(_, other): &(usize, &Contender)| {
                    (&other.name, &other.report.kernel, &other.report.metric)
                        == (&winner.name, &winner.report.kernel, &winner.report.metric)
                };
                let largest = ties.filter(is_same_fit).filter(|(_, other)| other.lambda > winner.lambda);
                let largest =
                    largest.max_by(|(_, a), (_, b)| a.lambda.partial_cmp(&b.lambda).unwrap_or(Ordering::Equal));
                largest.map(|(index, _)| (index, "the largest lambda within 0.5 % of the lowest loss"))
            }
            SolverMeasure::Error if winner.report.log_losses.is_empty() => {
                let log_loss = |contender: &Contender| shared_fold_means(&[&contender.report])[0][1];
                let with_probabilities = ties.filter(|(_, other)| !other.report.log_losses.is_empty());
                let best = with_probabilities.min_by(|(_, a), (_, b)| log_loss(a).total_cmp(&log_loss(b)));
                best.map(|(index, _)| (index, "within 0.5 % of the lowest error rate, and with probabilities"))
            }
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoldSpec, Folds};
    use kstore::{MemoryRows, Selection, Table};

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
    fn in_a_tie_a_larger_lambda_or_probabilities_are_preferred() {
        let rows = MemoryRows::new(vec![0.0f64; 9], 1).unwrap().with_targets(vec![0.0; 9], 1).unwrap();
        let selected = Table::from_rows(&[0.0; 9], 1, &[0.0; 9]).unwrap().select(&Selection::default()).unwrap();
        let folds = Folds::new(&FoldSpec::Random(3), 0, 0..9, &[]).unwrap();
        let trials = Trials::new(rows, 1.0, &selected, &folds, false).unwrap();
        let winner = |measure, errors: [(&str, f64, f64, Option<f64>); 3]| {
            let contender = |(name, lambda, error, log_loss): (&str, f64, f64, Option<f64>)| {
                let mut report = ContenderReport { solver: format!("{name} {lambda:e}"), ..ContenderReport::default() };
                report.add_error(error, log_loss);
                let fit = Fit::solver("svm").unwrap();
                Contender { name: name.to_string(), fit, trial_fit: None, lambda: Some(lambda), report }
            };
            let mut contest = Contest::new(&trials, measure, errors.map(contender).to_vec(), 10);
            contest.sort_alive();
            let report = contest.finish().0.report;
            (report.solver, report.why.is_some())
        };
        // 0.4019 is within 0.5 % of 0.4, and 0.4021 is not
        let losses = |largest| [("glm", 1e-6, 0.4, None), ("glm", 1e-5, 0.401, None), ("glm", 1e-4, largest, None)];
        assert_eq!(winner(SolverMeasure::Loss, losses(0.4019)), ("glm 1e-4".to_string(), true));
        assert_eq!(winner(SolverMeasure::Loss, losses(0.4021)), ("glm 1e-5".to_string(), true));
        assert_eq!(winner(SolverMeasure::Error, losses(0.4019)), ("glm 1e-6".to_string(), false));
        // a larger lambda of another solver does not win
        let others = [("glm", 1e-6, 0.4, None), ("svr", 1e-4, 0.4001, None), ("glm", 1e-5, 0.5, None)];
        assert_eq!(winner(SolverMeasure::Loss, others), ("glm 1e-6".to_string(), false));
        let rates = |error| {
            [("ridge", 1e-6, 0.2, None), ("logistic", 1e-6, error, Some(0.5)), ("logistic", 1e-5, error, Some(0.4))]
        };
        assert_eq!(winner(SolverMeasure::Error, rates(0.2005)), ("logistic 1e-5".to_string(), true));
        assert_eq!(winner(SolverMeasure::Error, rates(0.21)), ("ridge 1e-6".to_string(), false));
    }
}
