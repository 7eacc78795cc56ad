//! A sample of the rows, on which the loss is minimised first.
//!
//! The Newton steps from 0 to the region of the solution need most of the iterations. On the sample
//! they cost little, and few steps remain on all rows. The sample is stratified: rows of sorted
//! tables are drawn in proportion. The second moments of its features replace the moments of all
//! rows, which cost as much as ridge regression, in the shared preconditioner.

use super::loss::{Loss, Rows};
use super::response::Targets;
use crate::features::{StopOnlyObserver, StoredFeatures};
use crate::linalg::strips::BufferPool;
use crate::solver::hessian_blocks::{self, SampledBlock};
use crate::solver::newton::{self, Start, Target};
use crate::{FoldGram, Intercept, Result};
use kapprox::Real;
use kstore::pass::Observer;

/// Maximum number of sampled rows per feature.
const MAX_ROWS_PER_FEATURE: usize = 16;

/// Minimum number of sampled rows per feature. The solution on fewer rows is far from the solution
/// on all rows.
const MIN_ROWS_PER_FEATURE: usize = 2;

/// Minimum number of table rows per sampled row; with fewer the sample would not be much cheaper.
const MIN_ROWS_PER_SAMPLED_ROW: usize = 16;

/// Relative gradient norm at which the steps on a sample of m rows end, times √m. At the solution
/// on the sample, the relative gradient norm on all rows is about 1/√m: the sampling error.
const SAMPLE_TOLERANCE: f64 = 0.5;

/// The blocks of the Hessian on m sampled rows cost about p²/m passes over the sample. The steps on
/// the sample share them, and together save about this many passes.
const PASSES_SAVED_BY_BLOCKS: usize = 64;

/// Returns the number of sampled rows for n rows and p features; 0 if no sample is drawn.
pub(super) fn sample_row_count(n: usize, p: usize) -> usize {
    let sample_rows = (n / MIN_ROWS_PER_SAMPLED_ROW).min(MAX_ROWS_PER_FEATURE.saturating_mul(p));
    if sample_rows >= MIN_ROWS_PER_FEATURE.saturating_mul(p) { sample_rows } else { 0 }
}

/// Returns the bytes of a sample for n rows, p features and k scores.
pub(super) fn bytes(n: usize, p: usize, k: usize, element_bytes: usize) -> usize {
    sample_row_count(n, p).saturating_mul(element_bytes * (p + k) + 24)
}

/// Features, targets and weights of a sample.
pub(super) struct FeatureSample<'a, T: Real> {
    features: StoredFeatures<'a, T>,
    pub(super) moments: FoldGram,
    /// Number of all rows.
    n: usize,
}

impl<'a, T: Real> FeatureSample<'a, T> {
    /// Draws a sample of `m` rows in one pass.
    pub(super) fn draw(features: &StoredFeatures<'a, T>, m: usize, observer: &dyn Observer) -> Result<Self> {
        let (workers, (mut sampled, positions)) = (features.workers(), features.sample(m, observer)?);
        sampled.class_codes = positions.iter().filter_map(|i| features.class_codes.get(*i)).copied().collect();
        sampled.y = positions.iter().filter_map(|i| features.y.get(*i)).copied().collect();
        sampled.weights = features.weights.select(&positions);
        let (mut block, panels) = (SampledBlock::new(features.p), BufferPool::default());
        sampled.visit(&StopOnlyObserver(observer), |tile| {
            tile.phi.chunks_exact(features.p).for_each(|phi| block.push(phi, 1.0, &panels, workers));
            Ok(())
        })?;
        block.flush(features.p, &panels, workers);
        block.moments.row_count = sampled.n as u64;
        Ok(Self { features: sampled, moments: block.moments, n: features.n })
    }

    /// Returns W and the intercepts near the minimum of the loss on the sample.
    pub(super) fn solve(
        &self,
        targets: &Targets<'_>,
        intercept: Intercept,
        (lambda, max_steps): (f64, usize),
        observer: &dyn Observer,
    ) -> Result<Vec<f64>> {
        let features = &self.features;
        let k = targets.score_count();
        let rows = Rows { loss: targets.row_loss(features), row_weights: &features.weights, held_out_fold: None };
        let stop_only = StopOnlyObserver(observer);
        let mut loss = Loss::new(features, rows, k, intercept, &stop_only);
        // the memory plan has room for blocks only if the steps on all rows use them
        let blocks_fit = hessian_blocks::passes(self.n, features.p, k, size_of::<T>()).is_some();
        let are_worthwhile = features.p.saturating_mul(features.p) <= PASSES_SAVED_BY_BLOCKS.saturating_mul(features.n);
        loss.block_passes = (blocks_fit && are_worthwhile).then_some(0);
        let tolerance = (SAMPLE_TOLERANCE / (features.n as f64).sqrt()).max(newton::gradient_tolerance::<T>());
        let target = Target { lambda, max_steps, tolerance };
        Ok(newton::minimise(&mut loss, &self.moments, target, None, Start::Zero)?.w)
    }
}
