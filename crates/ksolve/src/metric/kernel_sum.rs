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
//! the rows misses columns and parts that more rows show. The sample has at most [`MAX_ROWS`] rows,
//! which are chosen at equal steps in the order of the first target: they cover the range of this
//! target more evenly than random rows.

use super::dense_likelihood::{self, Part, Sample};
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

/// Maximum number of rows of the sample: with 1,500 rows, the factorisations of an evaluation of F
/// take 6·10⁹ flops.
pub(crate) const MAX_ROWS: usize = 1_500;
/// Minimum number of rows of a sample whose first stage uses only a third of the rows.
const MIN_STAGED_ROWS: usize = 750;
const FIRST_STAGE_DIVISOR: usize = 3;
/// Maximum number of steps on a third of the rows, and on all rows of the sample.
const MAX_STEPS: (usize, usize) = (40, 60);
/// Limits at the start on the whole sample: the largest length scale, as a factor of its initial
/// value; the smallest weight, as a fraction of the sum of the weights; the smallest noise. On
/// 1,200 rows of pol and of elevators, with `matern(nu=1.5) + laplacian()`, they raise the
/// log-likelihood by 5 and by 4 nats.
const WARM_MAX_LENGTH_FACTOR: f64 = 2.0;
const WARM_MIN_WEIGHT_FRACTION: f64 = 0.2;
const WARM_MIN_NOISE: f64 = 0.01;
/// The search starts once for each of these factors, which multiply the initial length scales.
const START_FACTORS: [f64; 2] = [1.0, 0.25];
/// Range of a length scale, as factors of its initial value in the expression.
const LENGTH_RANGE: (f64, f64) = (1e-3, 1e4);
/// Range of a weight times the mean of k(x, x), in units of the variance of the targets.
const WEIGHT_RANGE: (f64, f64) = (1e-6, 1e5);
/// Range of the noise, and its initial value, in the same unit.
const NOISE_RANGE: (f64, f64) = (1e-6, 10.0);
const INITIAL_NOISE: f64 = 0.1;
/// A part is left out if its weight is below this fraction of the sum of the weights.
const MIN_WEIGHT_FRACTION: f64 = 1e-5;
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
/// Every evaluation of F checks the observer's stop signal.
///
/// *Cost*: some 50 evaluations of [`Sample::likelihood`] on a third of the rows for each start, and
/// some 70 on all rows of the sample. The result is bit-identical for any number of threads.
pub(super) fn learn(
    kernel: &Kernel,
    x: MatRef<'_, f64>,
    y: MatRef<'_, f64>,
    weights: &[f64],
    observer: &dyn Observer,
    workers: &Workers,
) -> Result<(Kernel, Option<LikelihoodReport>)> {
    super::likelihood::check_sample(x, y)?;
    let terms = kernel.terms().into_iter();
    let parts: Vec<Part> = terms
        .map(|kernel| Part { length_scales: kernel.column_lengths(x.ncols()).unwrap_or_default(), kernel })
        .collect();
    if parts.iter().all(|part| part.length_scales.is_empty()) {
        let expected =
            "expected a kernel with a length scale, or a sum of such kernels, as in matern(nu=1.5) + laplacian()";
        return Err(Error::option("kernel", kernel, expected));
    }
    let kernel_function = kernel.build()?.typed::<f64>();
    kapprox::kernel::require_positive_definite(&*kernel_function, "the marginal likelihood")?;
    dense_likelihood::check_gradients(&parts)?;
    let order = evenly_spaced_rows(y);
    let (variance, y) = super::likelihood::standardise(y);
    if variance == 0.0 {
        return Ok((kernel.clone(), None));
    }
    let search = Search { x, y: y.as_ref(), weights, sample_order: &order, parts: &parts, observer, workers };
    let (best, rows) = search.minimise()?;
    if !best.value.is_finite() {
        let remedy = "check targets and features for extreme values, or choose another kernel";
        return Err(Error::NotFinite { what: "the marginal likelihood", remedy });
    }
    Ok(search.result(&best, rows))
}

/// Returns the bytes that the search needs, for a sample of this many rows.
pub(super) fn bytes(rows: usize, d: usize, t: usize, threads: usize) -> usize {
    let n = rows.min(MAX_ROWS);
    dense_likelihood::bytes(n, d, t, threads) + 8 * (2 * n * (d + t) + rows * (d + 2 * t))
}

/// Returns at most [`MAX_ROWS`] rows at equal steps in the order of the first target. The rows are
/// returned in an order whose first third has equal steps, too.
fn evenly_spaced_rows(y: MatRef<'_, f64>) -> Vec<usize> {
    let (n, count) = (y.nrows(), y.nrows().min(MAX_ROWS));
    let mut by_target: Vec<usize> = (0..n).collect();
    by_target.sort_by(|a, b| y[(*a, 0)].total_cmp(&y[(*b, 0)]).then(a.cmp(b)));
    let chosen: Vec<usize> = (0..count).map(|i| by_target[(2 * i + 1) * n / (2 * count)]).collect();
    let every_third = |first: usize| chosen.iter().skip(first).step_by(FIRST_STAGE_DIVISOR).copied();
    [1, 0, 2].into_iter().flat_map(every_third).collect()
}

struct Search<'a> {
    x: MatRef<'a, f64>,
    /// Targets, n x t, centred, with variance 1.
    y: MatRef<'a, f64>,
    weights: &'a [f64],
    sample_order: &'a [usize],
    parts: &'a [Part],
    observer: &'a dyn Observer,
    workers: &'a Workers,
}

impl Search<'_> {
    /// Returns the minimum, with F in nats per row and target, and its number of rows.
    fn minimise(&self) -> Result<(Minimum, usize)> {
        let rows = self.sample_order.len();
        let (is_staged, last_max_steps) = (rows >= MIN_STAGED_ROWS, MAX_STEPS.1);
        let (first_rows, first_steps) = match is_staged {
            true => (rows.div_ceil(FIRST_STAGE_DIVISOR), MAX_STEPS.0),
            false => (rows, MAX_STEPS.0 + MAX_STEPS.1),
        };
        let first_stage = self.gather(first_rows);
        let starts = START_FACTORS
            .into_iter()
            .map(|factor| first_stage.minimise(self, &self.initial_parameters(factor), first_steps));
        let starts = starts.collect::<Result<Vec<_>>>()?.into_iter();
        let best = starts.min_by(|a, b| a.value.total_cmp(&b.value));
        let best = best.ok_or_else(|| Error::option("starts", "", "expected at least one start"))?;
        if !is_staged || !best.value.is_finite() {
            return Ok((best, rows));
        }
        Ok((self.gather(rows).minimise(self, &self.warm_start(&best), last_max_steps)?, rows))
    }

    fn gather(&self, rows: usize) -> SampledRows {
        let (order, d) = (&self.sample_order[..rows], self.x.ncols());
        let mut y = Mat::from_fn(rows, self.y.ncols(), |i, t| self.y[(order[i], t)]);
        for j in 0..y.ncols() {
            let mean = y.col(j).iter().sum::<f64>() / rows as f64;
            y.col_mut(j).iter_mut().for_each(|v| *v -= mean);
        }
        let weights: Vec<f64> = order.iter().filter_map(|i| self.weights.get(*i)).copied().collect();
        let mean = weights.iter().sum::<f64>() / rows as f64;
        SampledRows {
            x: order.iter().flat_map(|i| (0..d).map(|k| self.x[(*i, k)])).collect(),
            y,
            weights: weights.into_iter().map(|weight| weight / mean).collect(),
        }
    }

    fn initial_parameters(&self, factor: f64) -> Vec<f64> {
        let lengths = self.parts.iter().flat_map(|part| &part.length_scales).map(|(_, length)| (factor * length).ln());
        let weight = -(self.parts.len() as f64).ln();
        let weights = self.parts.iter().map(|_| weight);
        lengths.chain(weights).chain([INITIAL_NOISE.ln()]).collect()
    }

    /// Returns the start of the search on the whole sample: the best minimum on a third of the
    /// rows, with the limits `WARM_MAX_LENGTH_FACTOR`, `WARM_MIN_WEIGHT_FRACTION` and
    /// `WARM_MIN_NOISE`.
    fn warm_start(&self, best: &Minimum) -> Vec<f64> {
        let (mut start, first_weight) = (best.x.clone(), best.x.len() - 1 - self.parts.len());
        let (lengths, scales) = start.split_at_mut(first_weight);
        let (weights, noise) = scales.split_at_mut(self.parts.len());
        lengths
            .iter_mut()
            .zip(self.initial_parameters(WARM_MAX_LENGTH_FACTOR))
            .for_each(|(length, most)| *length = length.min(most));
        let weight_sum: f64 = weights.iter().map(|v| v.exp()).sum();
        weights.iter_mut().for_each(|weight| *weight = weight.max((WARM_MIN_WEIGHT_FRACTION * weight_sum).ln()));
        noise.iter_mut().for_each(|noise| *noise = noise.max(WARM_MIN_NOISE.ln()));
        start
    }

    fn bounds(&self) -> Vec<(f64, f64)> {
        let range = |length: f64, (least, most): (f64, f64)| ((length * least).ln(), (length * most).ln());
        let lengths = self.parts.iter().flat_map(|part| &part.length_scales);
        let lengths = lengths.map(|(_, length)| range(*length, LENGTH_RANGE));
        lengths.chain(self.parts.iter().map(|_| range(1.0, WEIGHT_RANGE))).chain([range(1.0, NOISE_RANGE)]).collect()
    }

    fn result(&self, best: &Minimum, rows: usize) -> (Kernel, Option<LikelihoodReport>) {
        let (lengths, scales) = best.x.split_at(best.x.len() - 1 - self.parts.len());
        let (weights, noise) = (&scales[..self.parts.len()], scales[self.parts.len()].exp());
        let weight_sum: f64 = weights.iter().map(|v| v.exp()).sum();
        let mut remaining_lengths = lengths.iter();
        let terms = self.parts.iter().zip(weights).filter_map(|(part, weight)| {
            let lengths: Vec<f64> = remaining_lengths
                .by_ref()
                .take(part.length_scales.len())
                .map(|v| round_to_four_digits(v.exp()))
                .collect();
            let weight_fraction = weight.exp() / weight_sum;
            (weight_fraction >= MIN_WEIGHT_FRACTION)
                .then(|| (round_to_four_digits(weight_fraction), part.with_length_scales(&lengths)))
        });
        let kernel = Kernel::weighted_sum(terms);
        let report = LikelihoodReport {
            rows: rows as u64,
            parameters: best.x.len(),
            log_likelihood: -best.value * (rows * self.y.ncols()) as f64,
            noise,
            regularisation: noise / weight_sum,
        };
        (kernel, Some(report))
    }
}

/// The rows of a stage.
struct SampledRows {
    x: Vec<f64>,
    y: Mat<f64>,
    weights: Vec<f64>,
}

impl SampledRows {
    fn minimise(&self, search: &Search<'_>, start: &[f64], steps: usize) -> Result<Minimum> {
        let (n, d) = (self.y.nrows(), search.x.ncols());
        let x = MatRef::from_row_major_slice(&self.x, n, d);
        let (y, weights) = (self.y.as_ref(), &self.weights[..]);
        let sample = Sample { x, y, weights, parts: search.parts, workers: search.workers };
        let value_count = (n * y.ncols()) as f64;
        let limits = LbfgsLimits { max_steps: steps, max_change: MAX_LOG_STEP, tolerance: MIN_DECREASE };
        let best = minimise(start, &search.bounds(), limits, &mut |theta, gradient| {
            if search.observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let value = sample.likelihood(theta, gradient)?;
            gradient.iter_mut().for_each(|g| *g /= value_count);
            Ok::<f64, Error>(value / value_count)
        })?;
        search.observer.advance(n as u64);
        Ok(best)
    }
}

/// Returns a positive number with four significant digits: further digits of a length scale change
/// no prediction noticeably, and the expression stays short.
fn round_to_four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
