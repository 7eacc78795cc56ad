//! Learns the weights of a sum of kernels, and a length scale per column for each part of the sum,
//! by maximum marginal likelihood.
//!
//! The model is y = f(x) + noise, where f is a Gaussian process. Its kernel is the sum of the parts
//! of an expression, such as `matern(nu=1.5) + laplacian()`. Each part has a weight and one length
//! scale for each column that it uses. [L-BFGS](crate::linalg::lbfgs) minimises F, the function of
//! [`super::dense_likelihood`], over the logarithms of the length scales, of the weights and of the
//! noise variance. Irrelevant columns get long length scales. A part that is not a single kernel of
//! the registry with a length scale, such as `linear()` or a product, keeps its parameters, and
//! only its weight is learned. (Rasmussen, Williams, *Gaussian Processes for Machine Learning*,
//! 2006, sections 5.1 and 5.4.1.)
//!
//! F has several local minima. The search therefore starts twice, at the length scales of the
//! expression and at a fraction of them. If the sample is large, both starts use a third of its
//! rows, and the search on the whole sample starts from the better minimum. In this start, long
//! length scales are shortened, and small weights and a small noise are raised, because a third of
//! the rows misses columns and parts that more rows show. The sample has at most
//! [`sample::MAX_ROWS`] rows, which are chosen at equal steps in the order of the first target:
//! they cover the range of this target more evenly than random rows.

use super::dense_likelihood::{self, Part, Sample};
use super::sample::{self, MIN_STAGED_ROWS, SampledRows, Stage};
use crate::linalg::lbfgs::{LbfgsLimits, Minimum, minimise};
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::Kernel;
use kstore::Workers;
use kstore::pass::Observer;
use serde::{Deserialize, Serialize};
use std::fmt;

#[cfg(test)]
mod tests;

/// Limits at the start on the whole sample: the largest length scale, as a factor of its initial
/// value; the smallest weight, as a fraction of the sum of the weights or of 1; the smallest noise.
/// On 1,200 rows of pol and of elevators, with `matern(nu=1.5) + laplacian()`, they raise the
/// log-likelihood by 5 and by 4 nats.
const WARM_MAX_LENGTH_FACTOR: f64 = 2.0;
const WARM_MIN_WEIGHT_FRACTION: f64 = 0.2;
const WARM_MIN_NOISE: f64 = 0.01;
const CONTINUED_LENGTH_RATIO: f64 = 10.0;
/// The search starts once for each of these factors, which multiply the initial length scales.
const START_FACTORS: [f64; 2] = [1.0, 0.25];
/// Range of a length scale, as factors of its initial value in the expression.
const LENGTH_RANGE: (f64, f64) = (1e-3, 1e4);
/// Range of a weight times the mean of k(x, x), in units of the variance of the targets.
const WEIGHT_RANGE: (f64, f64) = (1e-6, 1e5);
/// Range of the noise, and its initial value, in the same unit.
const NOISE_RANGE: (f64, f64) = (1e-6, 10.0);
const INITIAL_NOISE: f64 = 0.1;
/// A part is left out if its weight is below this fraction of the noise variance. Another part may
/// have a weight of thousands of variances of the targets, because long length scales make it
/// nearly a polynomial, so a fraction of the sum of the weights says nothing: on 540 rows of
/// friedman1, `matern(nu=1.5) + laplacian()` lost its second part by such a rule, and had three
/// times the error.
const MIN_WEIGHT_PER_NOISE: f64 = 1e-4;
/// The search ends if a step lowers F by less than this number, in nats per row and target.
const MIN_DECREASE: f64 = 1e-6;
/// Maximum change of a logarithm in the first trial of a step.
const MAX_LOG_STEP: f64 = 2.0;

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LikelihoodReport {
    /// Number of rows of the sample.
    pub rows: u64,
    /// Number of parameters: length scales, weights, and the noise variance.
    pub parameters: usize,
    /// Logarithm of the marginal likelihood of the targets, in nats, where the targets are centred
    /// and have mean variance 1.
    pub log_likelihood: f64,
    /// Noise variance as a fraction of the mean variance of the targets.
    pub noise: f64,
    /// Noise variance divided by the factor of the kernel, whose weights sum to 1. On n rows,
    /// lambda is this number over n.
    pub regularisation: f64,
}

impl LikelihoodReport {
    /// Returns Akaike's information criterion, twice the number of parameters minus twice the
    /// log-likelihood. Among kernels on the same rows, the one with the smallest number is best.
    pub fn aic(&self) -> f64 {
        2.0 * (self.parameters as f64 - self.log_likelihood)
    }
}

impl fmt::Display for LikelihoodReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, parameters, log_likelihood, noise, .. } = self;
        let (rows, aic) = (kstore::display::format_count(*rows), self.aic());
        write!(f, "{log_likelihood:.1} nats on {rows} rows, {parameters} parameters, aic {aic:.1}, noise {noise:.2e}")
    }
}

/// Returns `kernel` with the learned weights and length scales, and the report, for rows `x` (n x
/// d, scaled) with `weights` (empty if all are equal) and targets `y` (n x t). Every length scale
/// of the kernel must be resolved. The weights of the parts sum to 1. If all targets are constant,
/// the kernel does not change and there is no report.
///
/// If every length scale of the kernel is a list, the search continues from these length scales,
/// and from the weights of the sum, in units of the variance of the targets. Every evaluation of F
/// checks the observer's stop signal.
///
/// *Cost*: some 50 evaluations of `Sample::likelihood` on a third of the rows for each start, and
/// some 70 on all rows of the sample. The result is bit-identical for any number of threads.
pub fn learn(
    kernel: &Kernel,
    x: MatRef<'_, f64>,
    y: MatRef<'_, f64>,
    weights: &[f64],
    observer: &dyn Observer,
    workers: &Workers,
) -> Result<(Kernel, Option<LikelihoodReport>)> {
    let Some(rows) = SampledRows::new(x, y, weights)? else {
        KernelSum::new(kernel, x)?;
        return Ok((kernel.clone(), None));
    };
    let mut sum = KernelSum::new(kernel, rows.x)?;
    for stage in sum.stages(rows.row_count()) {
        sum.best = sum.learn_stage(&rows, stage, observer, workers)?;
    }
    sum.result().map(|(kernel, report)| (kernel, Some(report)))
}

/// Returns the bytes that the search needs for a sample of this many rows with d columns. Each
/// rescaled part of `kernel` has a copy of the columns.
pub fn bytes(rows: usize, kernel: &Kernel, d: usize, t: usize, threads: usize) -> usize {
    let (n, scaled) = (rows.min(sample::MAX_ROWS), kernel.terms().iter().filter(|term| term.rescales_inputs()).count());
    let inputs = d * (1 + scaled);
    dense_likelihood::bytes(n, inputs, t, threads) + 8 * (2 * n * (inputs + t) + rows * (d + 2 * t + 2 * d * scaled))
}

/// A sum of kernels whose weights and length scales are learned in stages, on more and more rows.
#[derive(Debug)]
pub struct KernelSum {
    /// Terms of the expression.
    terms: Vec<Kernel>,
    parts: Vec<Part>,
    /// Rescaled inputs of parts with their own scaling, n x the number of these inputs.
    scaled_inputs: Mat<f64>,
    /// Weights of the expression, in units of the variance of the targets, if the search continues
    /// from its length scales.
    continued_weights: Option<Vec<f64>>,
    best: Option<StageResult>,
}

/// The minimum of a stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageResult {
    /// Logarithms of the length scales of each part, of the weights and of the noise.
    theta: Vec<f64>,
    /// F in nats per row and target.
    value: f64,
    rows: usize,
    targets: usize,
}

impl KernelSum {
    /// Returns the search for the weights and length scales of `kernel` on the rows `x`. Every
    /// length scale of the kernel must be resolved.
    pub fn new(kernel: &Kernel, x: MatRef<'_, f64>) -> Result<Self> {
        let (terms, mut parts, mut scaled) = (kernel.terms(), Vec::new(), Vec::new());
        let mut input_count = x.ncols();
        let weights = kernel.term_weights();
        let continues = kernel.has_length_lists() && weights.iter().all(|weight| *weight > 0.0);
        for term in &terms {
            let (kernel, inputs) = match term.on_scaled_inputs(x) {
                Some((kernel, inputs)) => {
                    scaled.push(inputs);
                    let count = scaled.last().map_or(0, Mat::ncols);
                    input_count += count;
                    (kernel, input_count - count..input_count)
                }
                None => (term.clone(), 0..x.ncols()),
            };
            let mut length_scales = kernel.column_lengths(inputs.len()).unwrap_or_default();
            if continues {
                shorten_long_lengths(&mut length_scales);
            }
            parts.push(Part { kernel, inputs, length_scales });
        }
        if parts.iter().all(|part| part.length_scales.is_empty()) {
            let expected =
                "expected a kernel with a length scale, or a sum of such kernels, as in matern(nu=1.5) + laplacian()";
            return Err(Error::option("kernel", kernel, expected));
        }
        let kernel_function = kernel.build()?.typed::<f64>();
        kapprox::kernel::require_positive_definite(&*kernel_function, "the marginal likelihood")?;
        dense_likelihood::check_gradients(&parts)?;
        let mut scaled_inputs = Mat::zeros(x.nrows(), input_count - x.ncols());
        let mut first = 0;
        for inputs in &scaled {
            scaled_inputs.subcols_mut(first, inputs.ncols()).copy_from(inputs);
            first += inputs.ncols();
        }
        let least = smallest_warm_weight(weights.iter().copied());
        let continued_weights = continues.then(|| weights.iter().map(|weight| weight.max(least)).collect());
        Ok(Self { terms, parts, scaled_inputs, continued_weights, best: None })
    }

    /// Returns the stages of a search on a sample of `rows` rows.
    fn stages(&self, rows: usize) -> Vec<Stage> {
        match self.continued_weights {
            Some(_) => vec![Stage::last(rows)],
            None if rows >= MIN_STAGED_ROWS => vec![Stage::first(rows), Stage::last(rows)],
            None => vec![Stage::first(rows)],
        }
    }

    /// Sets the result of the last stage, from which the next stage starts.
    pub fn set_result(&mut self, result: Option<StageResult>) {
        self.best = result;
    }

    /// Minimises F on the rows of a stage. The first stage starts from the length scales of the
    /// expression, later stages from the result of the stage before. Returns `None` if F is not
    /// finite.
    pub fn learn_stage(
        &self,
        rows: &SampledRows<'_>,
        stage: Stage,
        observer: &dyn Observer,
        workers: &Workers,
    ) -> Result<Option<StageResult>> {
        let n = stage.rows().min(rows.row_count());
        let (y, weights) = rows.targets_and_weights(n);
        let inputs = self.gather_inputs(rows, n);
        let x = MatRef::from_row_major_slice(&inputs, n, rows.x.ncols() + self.scaled_inputs.ncols());
        let sample = Sample { x, y: y.as_ref(), weights: &weights, parts: &self.parts, workers };
        let starts = match &self.best {
            Some(best) => vec![self.warm_start(best)],
            None if self.continued_weights.is_some() => vec![self.initial_parameters(1.0)],
            None => START_FACTORS.into_iter().map(|factor| self.initial_parameters(factor)).collect(),
        };
        let minima = starts.iter().map(|start| self.minimise(&sample, start, stage.max_steps(), observer));
        let minima = minima.collect::<Result<Vec<_>>>()?.into_iter();
        let best = minima.min_by(|a, b| a.value.total_cmp(&b.value)).filter(|best| best.value.is_finite());
        Ok(best.map(|best| StageResult { theta: best.x, value: best.value, rows: n, targets: y.ncols() }))
    }

    /// Returns the inputs of all parts for the first `count` rows of the sample, row-major.
    fn gather_inputs(&self, rows: &SampledRows<'_>, count: usize) -> Vec<f64> {
        let row = |i: &usize| {
            let scaled = (0..self.scaled_inputs.ncols()).map(|k| self.scaled_inputs[(*i, k)]);
            (0..rows.x.ncols()).map(|k| rows.x[(*i, k)]).chain(scaled).collect::<Vec<_>>()
        };
        rows.positions(count).iter().flat_map(row).collect()
    }

    fn minimise(
        &self,
        sample: &Sample<'_>,
        start: &[f64],
        max_steps: usize,
        observer: &dyn Observer,
    ) -> Result<Minimum> {
        let value_count = (sample.y.nrows() * sample.y.ncols()) as f64;
        let limits = LbfgsLimits { max_steps, max_change: MAX_LOG_STEP, tolerance: MIN_DECREASE };
        let best = minimise(start, &self.bounds(), limits, &mut |theta, gradient| {
            if observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let value = sample.likelihood(theta, gradient)?;
            gradient.iter_mut().for_each(|g| *g /= value_count);
            Ok::<f64, Error>(value / value_count)
        })?;
        observer.advance(sample.y.nrows() as u64);
        Ok(best)
    }

    fn initial_parameters(&self, factor: f64) -> Vec<f64> {
        let lengths = self.parts.iter().flat_map(|part| &part.length_scales).map(|(_, length)| (factor * length).ln());
        let weights = match &self.continued_weights {
            Some(weights) => weights.iter().map(|weight| weight.ln()).collect(),
            None => vec![-(self.parts.len() as f64).ln(); self.parts.len()],
        };
        lengths.chain(weights).chain([INITIAL_NOISE.ln()]).collect()
    }

    /// Returns the start of a search on more rows: the minimum on fewer rows, with the limits
    /// `WARM_MAX_LENGTH_FACTOR`, `WARM_MIN_WEIGHT_FRACTION` and `WARM_MIN_NOISE`.
    fn warm_start(&self, best: &StageResult) -> Vec<f64> {
        let (mut start, first_weight) = (best.theta.clone(), best.theta.len() - 1 - self.parts.len());
        let (lengths, scales) = start.split_at_mut(first_weight);
        let (weights, noise) = scales.split_at_mut(self.parts.len());
        lengths
            .iter_mut()
            .zip(self.initial_parameters(WARM_MAX_LENGTH_FACTOR))
            .for_each(|(length, most)| *length = length.min(most));
        let least = smallest_warm_weight(weights.iter().map(|v| v.exp()));
        weights.iter_mut().for_each(|weight| *weight = weight.max(least.ln()));
        noise.iter_mut().for_each(|noise| *noise = noise.max(WARM_MIN_NOISE.ln()));
        start
    }

    fn bounds(&self) -> Vec<(f64, f64)> {
        let range = |length: f64, (least, most): (f64, f64)| ((length * least).ln(), (length * most).ln());
        let lengths = self.parts.iter().flat_map(|part| &part.length_scales);
        let lengths = lengths.map(|(_, length)| range(*length, LENGTH_RANGE));
        lengths.chain(self.parts.iter().map(|_| range(1.0, WEIGHT_RANGE))).chain([range(1.0, NOISE_RANGE)]).collect()
    }

    /// Returns the kernel of the last stage, whose weights sum to 1, and its report.
    pub fn result(&self) -> Result<(Kernel, LikelihoodReport)> {
        let Some(StageResult { theta, value, rows, targets }) = &self.best else {
            let remedy = "check targets and features for extreme values, or choose another kernel";
            return Err(Error::NotFinite { what: "the marginal likelihood", remedy });
        };
        let (lengths, scales) = theta.split_at(theta.len() - 1 - self.parts.len());
        let (weights, noise) = (&scales[..self.parts.len()], scales[self.parts.len()].exp());
        let weight_sum: f64 = weights.iter().map(|v| v.exp()).sum();
        let mut remaining_lengths = lengths.iter();
        let terms = self.parts.iter().zip(&self.terms).zip(weights).filter_map(|((part, term), weight)| {
            let lengths: Vec<f64> = remaining_lengths
                .by_ref()
                .take(part.length_scales.len())
                .map(|v| round_to_four_digits(v.exp()))
                .collect();
            let weight_fraction = weight.exp() / weight_sum;
            let kernel = if lengths.is_empty() { term.clone() } else { term.with_column_lengths(&lengths) };
            (weight.exp() >= MIN_WEIGHT_PER_NOISE * noise).then(|| (round_to_four_digits(weight_fraction), kernel))
        });
        let kernel = Kernel::weighted_sum(terms);
        let report = LikelihoodReport {
            rows: *rows as u64,
            parameters: theta.len(),
            log_likelihood: -value * (rows * targets) as f64,
            noise,
            regularisation: noise / weight_sum,
        };
        Ok((kernel, report))
    }
}

/// Returns the smallest weight at the start of a search that continues.
fn smallest_warm_weight(weights: impl Iterator<Item = f64>) -> f64 {
    WARM_MIN_WEIGHT_FRACTION * weights.sum::<f64>().min(1.0)
}

/// Shortens the length scales of a learned part to at most `CONTINUED_LENGTH_RATIO` times the
/// shortest of them. More rows may show that a column matters, but F is flat at long length scales.
fn shorten_long_lengths(length_scales: &mut [(usize, f64)]) {
    let shortest = length_scales.iter().map(|(_, length)| *length).fold(f64::INFINITY, f64::min);
    length_scales.iter_mut().for_each(|(_, length)| *length = length.min(CONTINUED_LENGTH_RATIO * shortest));
}

/// Returns a positive number with four significant digits: further digits of a length scale change
/// no prediction noticeably, and the expression stays short.
#[doc(hidden)]
pub fn round_to_four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
