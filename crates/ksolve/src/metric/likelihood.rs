//! Learns one scale factor per input by maximising the marginal likelihood on a sample of rows.
//!
//! The method is automatic relevance determination. The model is y = f(x) + noise. Here f is a
//! Gaussian process with the kernel s² k(a ∘ x, a ∘ x'), a holds one factor per input, ∘ is the
//! elementwise product, and the noise has variance τ². [L-BFGS](crate::linalg::lbfgs) minimises
//! F(a, s², τ²), an upper bound on the negative log marginal likelihood (see [`super::marginal`]),
//! over log a, log s² and log τ². Irrelevant inputs get small factors, but never 0. (Rasmussen,
//! Williams, *Gaussian Processes for Machine Learning*, 2006, sections 5.1 and 5.4.1.)
//!
//! F has several local minima. The fit therefore runs in stages on growing samples. Each stage
//! starts from the factors of the previous stage; factors far below the largest factor are first
//! raised to `MIN_START_FRACTION` times the largest. If the noise τ² at the end of a stage is
//! almost the whole variance of the targets, the stage is repeated with all factors set to each of
//! `RETRY_SCALES`, and the smallest F wins.

use super::marginal::Sample;
use crate::linalg::lbfgs::{LbfgsLimits, Minimum, minimise};
use crate::{Error, Result};
use faer::MatRef;
use kapprox::kernel::{AnyKernel, KernelFunction, require_positive_definite};
use kmodel::likelihood::{check_sample, standardise};
use kstore::Workers;
use kstore::pass::Observer;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Each factor lies between 1 / `MAX_FACTOR` and `MAX_FACTOR`.
const MAX_FACTOR: f64 = 1e4;
/// Range of the amplitude s², in units of the variance of the targets divided by the mean of k(x,
/// x).
const AMPLITUDE_RANGE: (f64, f64) = (1e-4, 1e4);
/// Range of the noise τ², in units of the variance of the targets.
const NOISE_RANGE: (f64, f64) = (1e-5, 10.0);
/// Initial noise τ², in the same unit.
const INITIAL_NOISE: f64 = 0.3;
/// A stage that ends with more noise τ² than this, in the same unit, has failed.
const FAILURE_NOISE: f64 = 0.9;
/// A failed stage is repeated once for each of these values, from a start with all factors equal to
/// the value.
const RETRY_SCALES: [f64; 3] = [0.5, 0.25, 2.0];
/// Minimum of the initial factors of a stage, as a fraction of the largest initial factor. With
/// 0.05 instead of 0.3, fewer relevant inputs were found.
const MIN_START_FRACTION: f64 = 0.3;
/// The iteration stops if a step reduces F by less than this, in nats per row and target.
const MIN_DECREASE: f64 = 1e-5;
/// Maximum change of log a, log s² and log τ² from the start of a line search to its first trial
/// point.
const MAX_LOG_STEP: f64 = 2.0;

/// A stage: the part of the sample that it uses, and its maximum number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleStage {
    /// Number of rows. The stage uses the first rows of the sample; if the sample has fewer rows,
    /// all of them.
    pub(crate) row_count: usize,
    /// Number of landmarks. They are the first rows of the sample.
    pub(crate) landmark_count: usize,
    pub(crate) max_steps: usize,
}

/// Stages that suit most tables. The first stage stops after few steps, because the minimum on its
/// 500 rows misses inputs that only matter together with others.
pub(crate) const DEFAULT_STAGES: [SampleStage; 3] = [
    SampleStage { row_count: 500, landmark_count: 250, max_steps: 15 },
    SampleStage { row_count: 1500, landmark_count: 500, max_steps: 40 },
    SampleStage { row_count: MAX_ROWS, landmark_count: 500, max_steps: 20 },
];

/// Maximum number of rows of the last stage.
pub(crate) const MAX_ROWS: usize = 2500;

/// Learns the factors a, one per input, of the kernel k(a ∘ x, a ∘ x') from rows `x` (n x d,
/// scaled, in random order) and targets `y` (n x t). The targets are centred here. They must be
/// similar in scale, because they share s² and τ².
///
/// Every evaluation of F checks the observer's stop signal, and each stage reports its rows when it
/// ends. If all targets are constant or k(x, x) is 0 for all rows, the factors are 1.
///
/// *Cost*: each step of a stage evaluates [`Sample::likelihood`] once, and rarely twice. The result
/// is bit-identical for any number of threads.
pub(crate) fn learn_factors(
    x: MatRef<'_, f64>,
    y: MatRef<'_, f64>,
    kernel: &Arc<dyn AnyKernel>,
    (stages, observer): (&[SampleStage], &dyn Observer),
    workers: &Workers,
) -> Result<Vec<f64>> {
    check_sample(x, y)?;
    let kernel = kernel.typed::<f64>();
    require_positive_definite(&*kernel, "the marginal likelihood")?;
    let (variance, targets) = standardise(y);
    let mean_diag = mean_diagonal(&*kernel, x);
    if variance == 0.0 || mean_diag == 0.0 {
        return Ok(vec![1.0; x.ncols()]);
    }
    let (y, bounds) = (targets.as_ref(), log_parameter_bounds(x.ncols(), mean_diag));
    let best =
        StagedMinimiser { x, y, kernel: &*kernel, observer, workers, bounds }.minimise_stages(stages, mean_diag)?;
    Ok(best.x[..x.ncols()].iter().map(|v| v.exp()).collect())
}

/// Returns the memory of [`learn_factors`] in bytes, for a sample of `rows` rows with d inputs and
/// t targets.
pub(super) fn bytes(rows: usize, d: usize, t: usize) -> usize {
    let max_landmarks = DEFAULT_STAGES.iter().map(|stage| stage.landmark_count).max().unwrap_or(0);
    let (n, m) = (rows.min(MAX_ROWS), max_landmarks.min(rows));
    // n × d and n × t arrays (4 each), n × m and m × m kernel matrices and their gradients, and the
    // L-BFGS history (24 d)
    8 * (n * (4 * d + 4 * t + 8 * m) + 10 * m * m + 24 * d)
}

fn mean_diagonal(kernel: &dyn KernelFunction<f64>, x: MatRef<'_, f64>) -> f64 {
    let (n, d) = (x.nrows(), x.ncols());
    let rows: Vec<f64> = (0..n).flat_map(|i| x.row(i).iter().copied()).collect();
    let mut diag = vec![0.0; n];
    kernel.diag(MatRef::from_row_major_slice(&rows, n, d), &mut diag);
    diag.iter().sum::<f64>() / n as f64
}

/// Returns the bounds of (log a, log s², log τ²) for targets of variance 1.
fn log_parameter_bounds(d: usize, mean_diag: f64) -> Vec<(f64, f64)> {
    let mut bounds = vec![(-MAX_FACTOR.ln(), MAX_FACTOR.ln()); d];
    bounds.push(((AMPLITUDE_RANGE.0 / mean_diag).ln(), (AMPLITUDE_RANGE.1 / mean_diag).ln()));
    bounds.push((NOISE_RANGE.0.ln(), NOISE_RANGE.1.ln()));
    bounds
}

struct StagedMinimiser<'a> {
    x: MatRef<'a, f64>,
    /// Targets, n x t, centred, with variance 1.
    y: MatRef<'a, f64>,
    kernel: &'a dyn KernelFunction<f64>,
    observer: &'a dyn Observer,
    workers: &'a Workers,
    bounds: Vec<(f64, f64)>,
}

impl StagedMinimiser<'_> {
    /// Returns the minimum of the last stage, with F in nats per row and target.
    fn minimise_stages(&self, stages: &[SampleStage], mean_diag: f64) -> Result<Minimum> {
        let d = self.x.ncols();
        let uniform_start = |scale: f64| {
            let mut start = vec![scale.ln(); d];
            start.extend([-mean_diag.ln(), INITIAL_NOISE.ln()]);
            start
        };
        let mut last: Option<(Minimum, SampleStage)> = None;
        for stage in stages {
            let stage = self.clamp_to_sample(*stage);
            if last.as_ref().is_some_and(|(_, previous)| {
                (previous.row_count, previous.landmark_count) == (stage.row_count, stage.landmark_count)
            }) {
                continue;
            }
            let start = last.as_ref().filter(|(best, _)| explains_targets(best)).map(|(best, _)| warm_start(best, d));
            let mut minimum = self.minimise_stage(&start.unwrap_or_else(|| uniform_start(1.0)), stage)?;
            if !explains_targets(&minimum) {
                for scale in RETRY_SCALES {
                    let retry_minimum = self.minimise_stage(&uniform_start(scale), stage)?;
                    if retry_minimum.value < minimum.value {
                        minimum = retry_minimum;
                    }
                }
            }
            self.observer.advance(stage.row_count as u64);
            last = Some((minimum, stage));
        }
        let (best, _) = last.ok_or_else(|| Error::option("stages", "", "expected at least one stage"))?;
        if best.value.is_finite() {
            return Ok(best);
        }
        let remedy = "check targets and features for extreme values, or choose another kernel";
        Err(Error::NotFinite { what: "the marginal likelihood", remedy })
    }

    fn clamp_to_sample(&self, stage: SampleStage) -> SampleStage {
        let rows = stage.row_count.clamp(2, self.x.nrows());
        SampleStage { row_count: rows, landmark_count: stage.landmark_count.clamp(1, rows), ..stage }
    }

    fn minimise_stage(&self, start: &[f64], stage: SampleStage) -> Result<Minimum> {
        let sample = Sample {
            x: self.x.subrows(0, stage.row_count),
            y: self.y.subrows(0, stage.row_count),
            landmark_count: stage.landmark_count,
            kernel: self.kernel,
            workers: self.workers,
        };
        let target_value_count = stage.row_count as f64 * self.y.ncols() as f64;
        let limits = LbfgsLimits { max_steps: stage.max_steps, max_change: MAX_LOG_STEP, tolerance: MIN_DECREASE };
        minimise(start, &self.bounds, limits, &mut |theta, gradient| {
            if self.observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let value = sample.negative_log_likelihood_bound(theta, gradient)?;
            gradient.iter_mut().for_each(|g| *g /= target_value_count);
            Ok(value / target_value_count)
        })
    }
}

fn explains_targets(minimum: &Minimum) -> bool {
    minimum.value.is_finite() && minimum.x.last().is_some_and(|log_noise| log_noise.exp() < FAILURE_NOISE)
}

/// Returns the start of the next stage: the minimum of this stage, with each factor raised to at
/// least `MIN_START_FRACTION` times the largest factor.
fn warm_start(minimum: &Minimum, d: usize) -> Vec<f64> {
    let mut start = minimum.x.clone();
    let max_log_factor = start[..d].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    start[..d].iter_mut().for_each(|v| *v = v.max(max_log_factor + MIN_START_FRACTION.ln()));
    start
}
