//! The search for a metric, in rounds.

use super::round::{Round, RoundData, importance_spread, metric_root};
use super::{likelihood, settings::LAMBDAS};
use crate::{Error, Result, prepare::map_builder, request::MetricForm};
use faer::Mat;
use kapprox::{Kernel, Real, landmark::RowSample, metric::Metric};
use kstore::pass::Observer;
use std::sync::Arc;

/// Maximum number of rounds of a form of the metric.
const MAX_ROUNDS: usize = 6;

/// A form of the metric is abandoned after this many consecutive rounds without a smaller error.
const MAX_IDLE_ROUNDS: usize = 2;

/// Factors by which the kernel's length scales are multiplied in the fits without a metric.
const LENGTH_SCALE_FACTORS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Number of rows for the median distance in each round; their 45,000 pairs determine it within 2
/// %.
const ROUND_MEDIAN_ROWS: usize = 300;

/// Maximum number of steps when one of several length scales is searched. Each step doubles or
/// halves the length scale; the search starts at the median distance.
const MAX_SCALE_STEPS: usize = 7;

/// From its second round on, a form is abandoned if its error exceeds this factor times the error
/// of another form in the same round.
const MAX_ERROR_RATIO: f64 = 1.25;

/// Factors by which the length scales are multiplied after the metric is found.
const FINAL_FACTORS: [f64; 2] = [0.5, 2.0];

pub use kmodel::model::RoundReport;

/// The length scales of the kernel: fixed numbers, or the median distance on the sample times a
/// factor.
pub(super) struct LengthScales<'a, T> {
    kernel: Kernel,
    sample: &'a RowSample<T>,
    seed: u64,
    /// A separate factor for each length scale.
    factors: Vec<f64>,
}

impl<'a, T: Real> LengthScales<'a, T> {
    pub(super) fn new(kernel: &Kernel, sample: &'a RowSample<T>, seed: u64) -> Result<Self> {
        let kernel = kernel.with_auto_length_scales()?;
        Ok(Self { factors: vec![1.0; kernel.auto_count()], kernel, sample, seed })
    }

    fn has_auto_scales(&self) -> bool {
        !self.factors.is_empty()
    }

    fn kernel(&self, metric: Option<&Metric>, factor: f64) -> Result<Kernel> {
        if !self.has_auto_scales() {
            return Ok(self.kernel.clone());
        }
        let RowSample { row_numbers, x, d, weights } = self.sample;
        let row_count = row_numbers.len().min(ROUND_MEDIAN_ROWS);
        let weights = weights.iter().take(row_count).copied().collect();
        let median_sample = RowSample {
            row_numbers: row_numbers[..row_count].to_vec(),
            x: x[..row_count * d].to_vec(),
            d: *d,
            weights,
        };
        let median_sample = metric.map_or_else(|| median_sample.clone(), |metric| apply_metric(&median_sample, metric));
        let factors = self.factors.iter().map(|scale_factor| scale_factor * factor).collect();
        Ok(map_builder::resolve_length_scales(&self.kernel, &median_sample, self.seed, &[factors])?.swap_remove(0))
    }
}

#[doc(hidden)]
pub(crate) fn apply_metric<T: Real>(sample: &RowSample<T>, metric: &Metric) -> RowSample<T> {
    let mut x = vec![T::default(); sample.len() * metric.output_count()];
    metric.apply(&sample.x, &mut x);
    RowSample { row_numbers: sample.row_numbers.clone(), x, d: metric.output_count(), weights: sample.weights.clone() }
}

/// The best round so far, with its form and length scale factor.
pub(super) struct BestRound<T> {
    pub(super) round: Round<T>,
    pub(super) form: Option<MetricForm>,
    factor: f64,
}

pub(super) struct MetricSearch<'a, T: Real> {
    /// Mean variance of a target, the reference for errors.
    target_variance: f64,
    length_scales: LengthScales<'a, T>,
    rounds: Vec<RoundReport>,
    best: Option<BestRound<T>>,
    /// Index of the last round's lambda.
    near_lambda_index: usize,
    is_enough: &'a dyn Fn(usize) -> bool,
    is_stopped: bool,
}

impl<'a, T: Real> MetricSearch<'a, T> {
    pub(super) fn new(
        target_variance: f64,
        length_scales: LengthScales<'a, T>,
        is_enough: &'a dyn Fn(usize) -> bool,
    ) -> Result<Self> {
        let (rounds, near_lambda_index) = (Vec::new(), LAMBDAS.len() / 2);
        let search = Self {
            target_variance,
            length_scales,
            rounds,
            best: None,
            near_lambda_index,
            is_enough,
            is_stopped: false,
        };
        search.check_gradient()?;
        Ok(search)
    }

    pub(super) fn into_results(self) -> (Option<BestRound<T>>, Vec<RoundReport>) {
        (self.best, self.rounds)
    }

    fn fit(
        &mut self,
        data: &RoundData<'_, T>,
        form: Option<MetricForm>,
        round_number: usize,
        metric: Option<Arc<Metric>>,
        factor: f64,
    ) -> Result<Round<T>> {
        let kernel = self.length_scales.kernel(metric.as_deref(), factor)?;
        self.fit_kernel(data, form, round_number, metric, &kernel)
    }

    /// Fits a kernel whose length scales are numbers.
    pub(super) fn fit_kernel(
        &mut self,
        data: &RoundData<'_, T>,
        form: Option<MetricForm>,
        round_number: usize,
        metric: Option<Arc<Metric>>,
        kernel: &Kernel,
    ) -> Result<Round<T>> {
        let round = data.fit(metric, kernel, self.near_lambda_index)?;
        self.near_lambda_index = round.lambda_index;
        self.rounds.push(RoundReport {
            form: form.map_or("none".to_string(), |form| form.to_string()),
            round: round_number,
            kernel: round.kernel.to_string(),
            rows: data.n,
            rank: round.scored_rank,
            lambda: round.scored_lambda,
            cv_mse: round.error,
            cv_r2: (self.target_variance > 0.0).then(|| 1.0 - round.error / self.target_variance),
        });
        // `is_enough` is called exactly once for each number of rounds: if its answer depends only
        // on this number, the search is reproducible
        self.is_stopped = self.is_stopped || (self.is_enough)(self.rounds.len());
        Ok(round)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn keep_if_better(&mut self, round: Round<T>, form: Option<MetricForm>, factor: f64) {
        if self.best.as_ref().is_none_or(|best| round.error < best.round.error) {
            self.best = Some(BestRound { round, form, factor });
        }
    }

    fn check_gradient(&self) -> Result<()> {
        let kernel = self.length_scales.kernel(None, 1.0)?;
        match kernel.build()?.typed::<f64>().is_differentiable() {
            true => Ok(()),
            false => {
                let why = format!(
                    "the kernel {kernel} has no gradient, which learning a metric needs; use gaussian, exponential or matern"
                );
                Err(Error::option("metric", "", why))
            }
        }
    }

    /// Fits without a metric at several length scales.
    pub(super) fn fit_without_metric(&mut self, data: &RoundData<'_, T>) -> Result<()> {
        self.fit_length_scales(data, None, None)?;
        let scale_count = if self.length_scales.factors.len() > 1 { self.length_scales.factors.len() } else { 0 };
        for index in (0..scale_count).chain(0..scale_count) {
            if !self.step_length_scale(data, index, 0.5)? {
                self.step_length_scale(data, index, 2.0)?;
            }
        }
        Ok(())
    }

    /// Multiplies one of several length scales by `step_factor` repeatedly, as long as the error
    /// falls. Returns true if the error fell at least once.
    fn step_length_scale(&mut self, data: &RoundData<'_, T>, index: usize, step_factor: f64) -> Result<bool> {
        for completed_steps in 0..MAX_SCALE_STEPS {
            let Some(best) = self.best.as_ref().filter(|_| !self.is_stopped) else { return Ok(completed_steps > 0) };
            let (error_before, factor) = (best.round.error, best.factor);
            self.length_scales.factors[index] *= step_factor;
            let round = self.fit(data, None, 0, None, factor)?;
            let is_better = round.error < error_before;
            self.keep_if_better(round, None, factor);
            if !is_better {
                self.length_scales.factors[index] /= step_factor;
                return Ok(completed_steps > 0);
            }
        }
        Ok(true)
    }

    pub(super) fn explained_fraction(&self) -> f64 {
        let error = self.best.as_ref().map_or(f64::INFINITY, |best| best.round.error);
        if self.target_variance > 0.0 { 1.0 - error / self.target_variance } else { 1.0 }
    }

    /// Learns a factor for each input by maximum marginal likelihood, and fits with this metric.
    pub(super) fn fit_likelihood_factors(&mut self, data: &RoundData<'_, T>, observer: &dyn Observer) -> Result<()> {
        let sample = self.length_scales.sample;
        let (n, t) = (sample.len().min(likelihood::MAX_ROWS), data.targets.count());
        let x = Mat::from_fn(n, sample.d, |i, j| sample.x[i * sample.d + j].to_f64());
        let targets = data.targets_of(&sample.row_numbers[..n])?;
        let y = Mat::from_fn(n, t, |i, j| targets[i * t + j]);
        let kernel = self.length_scales.kernel(None, 1.0)?.build()?;
        let (stages, workers) = (&likelihood::DEFAULT_STAGES, data.resources.workers);
        let factors = likelihood::learn_factors(x.as_ref(), y.as_ref(), &kernel, (stages, observer), workers)?;
        let metric = Arc::new(Metric::diagonal(factors)?);
        self.fit_length_scales(data, Some(MetricForm::Diagonal), Some(metric))
    }

    /// Fits with a metric. If the length scales are not fixed numbers, fits at several of them.
    fn fit_length_scales(
        &mut self,
        data: &RoundData<'_, T>,
        form: Option<MetricForm>,
        metric: Option<Arc<Metric>>,
    ) -> Result<()> {
        for factor in if self.length_scales.has_auto_scales() { &LENGTH_SCALE_FACTORS[..] } else { &[1.0] } {
            let round = self.fit(data, form, 0, metric.clone(), *factor)?;
            self.keep_if_better(round, form, *factor);
            if self.is_stopped {
                break;
            }
        }
        Ok(())
    }

    /// Returns the length scale factor of the best round, and the average outer product of its
    /// gradients.
    pub(super) fn best_products(&self, data: &RoundData<'_, T>) -> Result<(f64, Mat<f64>)> {
        let best = self.best.as_ref().ok_or(Error::NoCell { precision: T::NAME })?;
        Ok((best.factor, data.gradient_products(&best.round)?))
    }

    /// Runs the rounds of a form. The first round starts from `products`, the average outer product
    /// of the gradients of the best fit so far.
    pub(super) fn run_rounds(
        &mut self,
        data: &RoundData<'_, T>,
        form: MetricForm,
        factor: f64,
        products: &Mat<f64>,
    ) -> Result<()> {
        let (mut products, mut smallest_error, mut idle_rounds) = (products.clone(), f64::INFINITY, 0);
        for round_number in 1..=MAX_ROUNDS {
            if self.is_stopped {
                break;
            }
            let Some(metric) = metric_root(&products, form)? else { return Ok(()) };
            let round = self.fit(data, Some(form), round_number, Some(Arc::new(metric)), factor)?;
            idle_rounds = if round.error < smallest_error { 0 } else { idle_rounds + 1 };
            smallest_error = smallest_error.min(round.error);
            let is_last = idle_rounds >= MAX_IDLE_ROUNDS
                || round_number == MAX_ROUNDS
                || self.is_stopped
                || self.is_hopeless(form, round_number, round.error);
            if !is_last {
                products = data.gradient_products(&round)?;
            }
            self.keep_if_better(round, Some(form), factor);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn is_hopeless(&self, form: MetricForm, round_number: usize, error: f64) -> bool {
        let mut other_form_rounds =
            self.rounds.iter().filter(|other| other.round == round_number && other.form != form.to_string());
        round_number > 1 && other_form_rounds.any(|other| error > MAX_ERROR_RATIO * other.cv_mse)
    }

    /// Tries other length scales for the best metric as long as they reduce the error.
    pub(super) fn refine_length_scales(&mut self, data: &RoundData<'_, T>) -> Result<()> {
        if !self.length_scales.has_auto_scales() {
            return Ok(());
        }
        for step in FINAL_FACTORS {
            while let Some(BestRound { round, form: Some(form), factor }) =
                self.best.as_ref().filter(|_| !self.is_stopped)
            {
                let (error_before, form, factor, metric) = (round.error, *form, factor * step, round.metric.clone());
                let round = self.fit(data, Some(form), 0, metric, factor)?;
                let is_better = round.error < error_before;
                self.keep_if_better(round, Some(form), factor);
                if !is_better {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns, for the best round, the standard deviation of each input's contribution between the
    /// folds; `None` if the best round has no metric.
    pub(super) fn importance_spread(&self, data: &RoundData<'_, T>) -> Result<Option<Vec<f64>>> {
        let best = self.best.as_ref().filter(|best| best.form.is_some());
        best.map_or(Ok(None), |best| importance_spread(data, &best.round))
    }

    /// Fits on all rows with the best metric, then with the metric that follows from the gradients
    /// of this fit. Returns the number of passes over the table.
    pub(super) fn refit_on_all_rows(&mut self, data: &RoundData<'_, T>) -> Result<u64> {
        // errors on the sample and on all rows are not comparable
        let Some(BestRound { round, form: Some(form), factor }) = self.best.take_if(|best| best.form.is_some()) else {
            return Ok(0);
        };
        let refit = self.fit(data, Some(form), MAX_ROUNDS + 1, round.metric, factor)?;
        let products = data.gradient_products(&refit)?;
        let mut passes = refit.passes + 1;
        self.keep_if_better(refit, Some(form), factor);
        if let Some(metric) = metric_root(&products, form)? {
            let final_round = self.fit(data, Some(form), MAX_ROUNDS + 2, Some(Arc::new(metric)), factor)?;
            passes += final_round.passes;
            self.keep_if_better(final_round, Some(form), factor);
        }
        Ok(passes)
    }
}
