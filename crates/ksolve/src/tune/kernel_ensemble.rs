//! The mean of exact fits whose kernels are sums with a length scale per column.
//!
//! Every expression of a list is a kernel or a sum of kernels, each with its own scaling of the
//! inputs. Its length scales, weights and noise maximise the marginal likelihood of the training
//! rows of the first fold ([`KernelSum`]). All expressions are learned on a third of the sample;
//! those with the smallest values of Akaike's information criterion are the members, and are
//! learned further on two thirds and on the whole sample, as far as the time allows. The mean of
//! the exact fits with the members competes with the best exact fit on the validation rows of the
//! folds.
//!
//! If the training rows are few, every fit of the mean learns the members again from its own rows,
//! and starts from what was learned here. Otherwise the kernels stay, only the first fold compares
//! the mean with the best exact fit, and the regularisation parameter times the number of rows is
//! the noise of the likelihood. Kernel k of the members is multiplied by the noise of the first
//! member over the noise of member k, so that all fits have the same parameter.
//!
//! *Cost*: a stage is some 50 to 100 evaluations of the likelihood, (5/3)n³ flops each.

use super::exact_search::{ExactFit, ExactSearch, MAX_TRIAL_ROWS};
use super::neighbours::COMPARISON_STEPS;
use crate::Result;
use crate::metric::{KernelSum, LikelihoodStage, MIN_STAGED_ROWS, SampledRows, likelihood_bytes};
use crate::prepare::map_builder::resolve_length_scale;
use crate::request::{MetricForm, MetricSource};
use faer::{Mat, MatRef};
use kapprox::{Kernel, Real, landmark::RowSample};
use std::time::Duration;

/// Number of fits after the trials: the test, the final fit, and a test on other kinds of rows; and
/// this number divided by the number of the first two.
const FITS_AFTER_TRIALS: f64 = 3.0;
const FITS_AFTER_TRIALS_RATIO: f64 = 1.5;

/// Time of learning a kernel again, relative to its first stage: one start instead of two, with at
/// most 60 steps instead of 100.
const RELEARNING_RATIO: f64 = 0.3;

/// Time of learning the kernel of leaves from 1,500 rows, relative to the first stage of a kernel
/// with one term on a third of them: a matrix takes 27 times as long, with half as many steps.
const LEAF_LEARNING_RATIO: f64 = 13.0;

/// An expression, its learned kernel and its criterion.
struct Candidate {
    expression: String,
    /// Time of a fit, in units of the time of a fit with one kernel.
    cost: f64,
    sum: KernelSum,
    aic: f64,
}

/// Predicted time of a member of the mean after its first stage.
struct MemberTime {
    /// Time of its fits.
    fit_time: Duration,
    /// Cost of learning it again from the rows of each fit ([`learning_cost`]).
    learning_cost: f64,
}

impl<T: Real> ExactSearch<'_, '_, '_, '_, T> {
    /// Learns `kernels`, and tries the mean of the best of them, of fewer if the time does not
    /// suffice for the requested number. If the time or the memory does not suffice for a further
    /// fit, the best exact fit stays. If `is_series` is true, time and steps for
    /// [`ExactSearch::fit_for_neighbours`] are reserved before further stages of learning.
    pub(super) fn try_kernel_ensemble(&mut self, kernels: &[Kernel], is_series: bool) -> Result<()> {
        let (fit_time, trials) = (self.log.last_duration, self.trials);
        let Some(fold) = self.folds.first().filter(|_| !trials.has_sparse_rows() && !kernels.is_empty()) else {
            return Ok(());
        };
        let positions = trials.training_rows(*fold, MAX_TRIAL_ROWS);
        let (sample, y) = (trials.sample_at(&positions), trials.targets_at(&positions));
        if !self.likelihood_fits_memory(kernels, &sample, y.ncols()) {
            return Ok(());
        }
        let x = Mat::from_fn(sample.len(), sample.d, |i, j| sample.x[i * sample.d + j].to_f64());
        let Some(rows) = SampledRows::new(x.as_ref(), y.as_ref(), &sample.weights)? else { return Ok(()) };
        let max_cost = kernels.iter().map(learning_cost).fold(1.0, f64::max);
        let cost = FITS_AFTER_TRIALS_RATIO * self.final_cost.unwrap_or_default() + 1.0;
        let relearns = positions.len() < MIN_STAGED_ROWS;
        let relearning_cost =
            if relearns { RELEARNING_RATIO * (self.folds.len() as f64 + FITS_AFTER_TRIALS) * max_cost } else { 0.0 };
        let member = MemberTime { fit_time: fit_time.mul_f64(max_cost * cost), learning_cost: relearning_cost };
        let Some(mut members) = self.learn_candidates(kernels, &sample, x.as_ref(), &rows, member)? else {
            return Ok(());
        };
        // a single fold compares kernels that were learned from rows of the other folds
        let repeats_best = !relearns && self.folds.len() > 1;
        let mut trial_count = 1 + usize::from(repeats_best);
        let mean_cost: f64 = members.iter().map(|member| member.cost).sum();
        let mut later_time = fit_time.mul_f64(mean_cost * cost);
        // half of these fits are means, the others single fits
        let comparison_time = fit_time.mul_f64((mean_cost + 1.0) * 0.5 * COMPARISON_STEPS as f64);
        // if the mean does not win, leaves learn their own kernel
        let last_cost = kernels.last().map_or(1.0, learning_cost);
        let leaf_time = self.log.last_duration.mul_f64(LEAF_LEARNING_RATIO / last_cost);
        let reserved_time = later_time + comparison_time + leaf_time;
        let compares = is_series && self.has_time_for(trial_count + COMPARISON_STEPS, reserved_time)?;
        if compares {
            trial_count += COMPARISON_STEPS;
            later_time = reserved_time;
        }
        self.skips_stage = if is_series && !compares {
            true
        } else {
            self.learn_members(&mut members, &rows, later_time, trial_count)?
        };
        if self.log.remaining_steps().is_some_and(|steps| steps < trial_count) {
            return Ok(());
        }
        let candidate = mean_of_fits(&members, positions.len(), relearns)?;
        if repeats_best {
            self.folds.truncate(1);
            if let Some(best) = self.best.clone() {
                let error = self.candidate_error(&best)?;
                self.best = Some(ExactFit { error, ..best });
            }
        }
        let error = self.candidate_error(&candidate)?;
        let ensemble = ExactFit { error, ..candidate };
        if self.best.as_ref().is_none_or(|best| error < best.error) {
            self.best = Some(ensemble.clone());
        }
        if compares {
            self.ensemble = Some(ensemble);
        } else if self.skips_stage {
            self.log.mark_late();
        }
        Ok(())
    }

    /// Returns true if the work allows this number of steps, or the time allows fits that take
    /// `time`.
    fn has_time_for(&mut self, step_count: usize, time: Duration) -> Result<bool> {
        Ok(match self.log.remaining_steps() {
            Some(steps) => steps >= step_count,
            None => self.final_cost.is_none() || !self.log.is_fit_late(time, self.journal)?,
        })
    }

    fn likelihood_fits_memory(&self, kernels: &[Kernel], sample: &RowSample<T>, t: usize) -> bool {
        let (rows, d, run) = (sample.len(), sample.d, self.model_selection.run);
        let bytes = kernels.iter().map(|kernel| likelihood_bytes(rows, kernel, d, t, run.workers().threads())).max();
        // the inputs of all candidates stay in memory
        let scaled_inputs = kernels.iter().flat_map(Kernel::terms).filter(Kernel::rescales_inputs).count();
        let stored_bytes = 8 * rows * (d * (2 + scaled_inputs) + t);
        self.trials.bytes() + bytes.unwrap_or_default() + stored_bytes <= run.memory_budget()
    }

    /// Returns the largest number of members, at most `count`, for which the time suffices to learn
    /// at `learning_cost` and then to fit, or `None` if it does not suffice for a single member.
    fn feasible_members(
        &mut self,
        count: usize,
        member: &MemberTime,
        unit_time: Duration,
        learning_cost: f64,
    ) -> Result<Option<usize>> {
        let mut feasible = count;
        // without a prediction of the final fit, it may take any time
        while self.final_cost.is_some() {
            let fit_time = member.fit_time.mul_f64(feasible as f64);
            self.log.later_time = Some(fit_time);
            let learning_cost = learning_cost + member.learning_cost * feasible as f64;
            if !self.log.is_fit_late(fit_time + unit_time.mul_f64(learning_cost), self.journal)? {
                break;
            }
            if feasible == 1 {
                self.log.mark_late();
                return Ok(None);
            }
            feasible -= 1;
        }
        if feasible < count {
            self.log.member_count = Some(feasible);
        }
        Ok(if self.log.is_late(self.journal)? { None } else { Some(feasible) })
    }

    /// Learns all expressions on the first stage, and returns the best by ascending criterion: as
    /// many as requested, or as many as the time allows. Returns `None` if the time does not
    /// suffice for a single one.
    fn learn_candidates(
        &mut self,
        kernels: &[Kernel],
        sample: &RowSample<T>,
        x: MatRef<'_, f64>,
        rows: &SampledRows<'_>,
        member: MemberTime,
    ) -> Result<Option<Vec<Candidate>>> {
        let seed = self.model_selection.options.train_options.seed;
        let mut member_count = self.model_selection.options.member_count.min(kernels.len());
        let (mut candidates, mut unit_time) = (Vec::new(), Duration::ZERO);
        for (k, kernel) in kernels.iter().enumerate() {
            let remaining_cost = kernels[k..].iter().map(learning_cost).sum::<f64>();
            match self.feasible_members(member_count, &member, unit_time, remaining_cost)? {
                Some(count) => member_count = count,
                None => return Ok(None),
            }
            let sum = KernelSum::new(&resolve_length_scale(kernel, sample, seed)?, x)?;
            let (expression, cost) = (kernel.to_string(), learning_cost(kernel));
            let mut candidate = Candidate { expression, cost, sum, aic: f64::INFINITY };
            self.learn_stage(&mut candidate, rows, LikelihoodStage::first(rows.row_count()))?;
            unit_time = unit_time.max(self.log.last_duration.div_f64(learning_cost(kernel)));
            candidates.push(candidate);
        }
        candidates.retain(|candidate| candidate.aic.is_finite());
        candidates.sort_by(|a, b| a.aic.total_cmp(&b.aic));
        candidates.truncate(member_count);
        Ok((!candidates.is_empty()).then_some(candidates))
    }

    fn learn_stage(&mut self, candidate: &mut Candidate, rows: &SampledRows<'_>, stage: LikelihoodStage) -> Result<()> {
        let what = format!("{} by likelihood, {} rows", candidate.expression, stage.rows());
        let (run, sum, journal) = (self.model_selection.run, &candidate.sum, &mut *self.journal);
        let result = self.log.run_trial(what, || {
            journal.get_or_compute(|| {
                let resources = run.resources();
                let observer = resources.stage_observer.start_stage("length scales by likelihood", None);
                sum.learn_stage(rows, stage, &*observer, resources.workers)
            })
        })?;
        if let Some(result) = result {
            candidate.sum.set_result(Some(result));
            candidate.aic = candidate.sum.result()?.1.aic();
        }
        Ok(())
    }

    /// Learns the members on the later stages, as far as the time or the work allows a stage and
    /// then `trial_count` trials. Returns true if a stage was skipped.
    fn learn_members(
        &mut self,
        members: &mut [Candidate],
        rows: &SampledRows<'_>,
        later_time: Duration,
        trial_count: usize,
    ) -> Result<bool> {
        let (mut last_time, mut last_rows) = (self.log.last_duration, LikelihoodStage::first(rows.row_count()).rows());
        for stage in LikelihoodStage::later(rows.row_count()) {
            let growth = (stage.rows() as f64 / last_rows as f64).powi(3);
            let stage_time = last_time.mul_f64(members.len() as f64 * growth);
            if !self.has_time_for(members.len() + trial_count, later_time + stage_time)? {
                return Ok(true);
            }
            for member in &mut *members {
                self.learn_stage(member, rows, stage)?;
            }
            (last_time, last_rows) = (self.log.last_duration, stage.rows());
        }
        members.sort_by(|a, b| a.aic.total_cmp(&b.aic));
        Ok(false)
    }
}

/// Returns the time to learn a kernel, or to fit with it, in units of the time for a kernel with
/// one term. The factor of the kernel matrix takes about half of the latter, whatever the number of
/// terms.
fn learning_cost(kernel: &Kernel) -> f64 {
    0.5 * (1.0 + kernel.terms().len() as f64)
}

/// Returns the mean of the fits with the learned kernels of `members`, for trials with this many
/// training rows.
fn mean_of_fits(members: &[Candidate], training_rows: usize, relearns: bool) -> Result<ExactFit> {
    let learned = members.iter().map(|member| member.sum.result()).collect::<Result<Vec<_>>>()?;
    let noise = learned.first().map_or(0.0, |(_, report)| report.regularisation);
    let kernels = learned.into_iter().map(|(kernel, report)| {
        // a fit that learns again starts from weights in units of the variance of the targets
        let factor = if relearns { report.noise } else { noise } / report.regularisation;
        let weights = kernel.term_weights().into_iter().map(|weight| weight * factor);
        Kernel::weighted_sum(weights.zip(kernel.terms()))
    });
    let mut kernels = kernels;
    let kernel = kernels.next().unwrap_or_default();
    let metric = if relearns { MetricSource::Learned(MetricForm::Likelihood) } else { MetricSource::None };
    Ok(ExactFit {
        kernel,
        members: kernels.collect(),
        metric,
        form: MetricForm::Likelihood.to_string(),
        lambda: (!relearns).then_some(noise / training_rows as f64),
        error: f64::INFINITY,
    })
}
