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
use super::history::SearchLog;
use super::neighbours::COMPARISON_STEPS;
use super::selection_result::SearchPart;
use super::{ModelSelection, SearchJournal, trial::Trials};
use crate::job::Run;
use crate::metric::{KernelSum, LikelihoodStage, MIN_STAGED_ROWS, SampledRows, likelihood_bytes};
use crate::prepare::map_builder::resolve_length_scale;
use crate::request::{MetricForm, MetricSource};
use crate::solver::SolverProperties;
use crate::{Result, Task};
use faer::{Mat, MatRef};
use kapprox::{Kernel, Real, landmark::RowSample};
use kmodel::likelihood::Logarithms;
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
        let all_kernels: Vec<&Kernel> = kernels.iter().collect();
        if !likelihood_fits_memory(&all_kernels, trials, &sample, y.ncols(), self.model_selection.run) {
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
            let mut candidate = Candidate::new(kernel, sample, x, seed)?;
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
        candidate.learn_stage(rows, stage, self.model_selection.run, self.log, self.journal)
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

impl ModelSelection<'_> {
    /// Returns the sum of kernels with the best likelihood on training rows of the first fold, for
    /// a regression other than ridge regression, whose sums compete in
    /// [`ExactSearch::try_kernel_ensemble`]. All sums are learned on the first stage, and the best
    /// on the second, unless the search is late. With a logarithmic link, the first sum is learned
    /// from the targets and from their logarithms, and all other sums from the likelier of them.
    pub(super) fn learn_kernel_sum<T: Real>(
        &self,
        properties: SolverProperties,
        trials: &Trials<T>,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<Option<Kernel>> {
        let kernels: Vec<&Kernel> = self.options.kernel_sums.iter().filter(|sum| sum.terms().len() > 1).collect();
        let fold = trials.scored_folds().next();
        let is_other_regression = self.base.task()? == Task::Regression && self.base.family().name != "ridge";
        let Some(fold) = fold.filter(|_| is_other_regression && !trials.has_sparse_rows()) else { return Ok(None) };
        let positions = trials.training_rows(fold, MAX_TRIAL_ROWS);
        let (sample, y) = (trials.sample_at(&positions), trials.targets_at(&positions));
        if kernels.is_empty() || !likelihood_fits_memory(&kernels, trials, &sample, y.ncols(), self.run) {
            return Ok(None);
        }
        let x = Mat::from_fn(sample.len(), sample.d, |i, j| sample.x[i * sample.d + j].to_f64());
        let Some(mut rows) = SampledRows::new(x.as_ref(), y.as_ref(), &sample.weights)? else { return Ok(None) };
        let (first_stage, seed) = (LikelihoodStage::first(rows.row_count()), self.options.train_options.seed);
        let candidate = |kernel: &Kernel| Candidate::new(kernel, &sample, x.as_ref(), seed);
        self.listener.begin(SearchPart::Solvers, (kernels.len() + 1 + usize::from(properties.has_log_link)) as u64);
        let mut best: Option<Candidate> = None;
        let logarithms = Logarithms::new(y.as_ref()).filter(|_| properties.has_log_link);
        let log_rows = logarithms
            .as_ref()
            .map(|logarithms| SampledRows::new(x.as_ref(), logarithms.values.as_ref(), &sample.weights))
            .transpose()?
            .flatten();
        for kernel in kernels {
            if log.is_late(journal)? {
                break;
            }
            let mut learned = candidate(kernel)?;
            learned.learn_stage(&rows, first_stage, self.run, log, journal)?;
            if best.is_none()
                && let (Some(logarithms), Some(log_rows)) = (&logarithms, &log_rows)
            {
                let mut from_logarithms = candidate(kernel)?;
                from_logarithms.learn_stage(log_rows, first_stage, self.run, log, journal)?;
                let is_finite = from_logarithms.aic.is_finite();
                if is_finite && logarithms.report_of_targets(from_logarithms.sum.result()?.1).aic() < learned.aic {
                    (learned, rows) = (from_logarithms, log_rows.clone());
                }
            }
            if learned.aic < best.as_ref().map_or(f64::INFINITY, |best| best.aic) {
                best = Some(learned);
            }
        }
        let second_stage = LikelihoodStage::later(rows.row_count()).next();
        if let (Some(best), Some(stage)) = (&mut best, second_stage)
            && !log.is_late(journal)?
        {
            best.learn_stage(&rows, stage, self.run, log, journal)?;
        }
        self.listener.end();
        best.map(|best| Ok(best.sum.result()?.0)).transpose()
    }
}

impl Candidate {
    fn new<T: Real>(kernel: &Kernel, sample: &RowSample<T>, x: MatRef<'_, f64>, seed: u64) -> Result<Self> {
        let sum = KernelSum::new(&resolve_length_scale(kernel, sample, seed)?, x)?;
        let (expression, cost) = (kernel.to_string(), learning_cost(kernel));
        Ok(Self { expression, cost, sum, aic: f64::INFINITY })
    }

    fn learn_stage(
        &mut self,
        rows: &SampledRows<'_>,
        stage: LikelihoodStage,
        run: &Run<'_>,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<()> {
        let (what, sum) = (format!("{} by likelihood, {} rows", self.expression, stage.rows()), &self.sum);
        let result = log.run_trial(what, || {
            journal.get_or_compute(|| {
                let resources = run.resources();
                let observer = resources.stage_observer.start_stage("length scales by likelihood", None);
                sum.learn_stage(rows, stage, &*observer, resources.workers)
            })
        })?;
        if let Some(result) = result {
            self.sum.set_result(Some(result));
            self.aic = self.sum.result()?.1.aic();
        }
        Ok(())
    }
}

fn likelihood_fits_memory<T: Real>(
    kernels: &[&Kernel],
    trials: &Trials<T>,
    sample: &RowSample<T>,
    t: usize,
    run: &Run<'_>,
) -> bool {
    let (rows, d) = (sample.len(), sample.d);
    let bytes = kernels.iter().map(|kernel| likelihood_bytes(rows, kernel, d, t, run.workers().threads())).max();
    // the inputs of all candidates stay in memory
    let scaled_inputs = kernels.iter().flat_map(|kernel| kernel.terms()).filter(Kernel::rescales_inputs).count();
    let stored_bytes = 8 * rows * (d * (2 + scaled_inputs) + t);
    trials.bytes() + bytes.unwrap_or_default() + stored_bytes <= run.memory_budget()
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
