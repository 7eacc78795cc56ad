//! Diagonal blocks of a Hessian, one per class, from a sample of the rows: preconditioners of
//! Newton steps.
//!
//! Let p be the probability of a class at a row. Near the solution most rows have p(1 − p) ≈ 0, and
//! only the few rows near the boundary of the class contribute to the Hessian of the class. A row
//! of weight a is drawn with a probability π that is proportional to a p(1 − p), and its outer
//! product has the weight a p(1 − p)/π in the block. So the blocks are unbiased, and a few rows per
//! feature are enough for a preconditioner.
//!
//! Reference: Roosta-Khorasani, Mahoney, "Sub-sampled Newton methods", Mathematical Programming
//! 174, 2019; non-uniform sampling after Xu, Yang, Roosta-Khorasani, Ré, Mahoney, "Sub-sampled
//! Newton methods with non-uniform sampling", NIPS 2016.

use crate::{FoldGram, gram, linalg::strips::BufferPool};
use faer::MatRef;
use kapprox::{Real, gram::GramBuffers};
use kstore::Workers;

/// Number of rows that are drawn for each class and feature. If a block is a sum over m rows per
/// feature, the preconditioned Hessian has a condition number of about ((1 + √(1/m))/(1 −
/// √(1/m)))², which is 9 for m = 4.
pub(super) const ROWS_PER_FEATURE: f64 = 4.0;

/// Number of rows that are added to the moments at once, chosen.
const BUFFERED_ROWS: usize = 256;

/// Maximum bytes of the blocks of all classes. If the blocks need more, all classes share one
/// preconditioner.
const MAX_BLOCK_BYTES: usize = 256 << 20;

/// Maximum cost of blocks, in passes: the maximum number of iterations of a Newton step.
const MAX_PASSES: usize = 200;

/// Returns the bytes of k blocks for n rows with p features, or `None` if the solver never uses
/// blocks. This decision depends only on the problem size.
pub(super) fn bytes_if_affordable(n: usize, p: usize, k: usize, element_bytes: usize) -> Option<usize> {
    let bytes = k.saturating_mul(8 * p * p + BUFFERED_ROWS * p * element_bytes);
    (bytes <= MAX_BLOCK_BYTES && p.saturating_mul(p) <= n.saturating_mul(MAX_PASSES)).then_some(bytes)
}

/// Returns the cost of k blocks in passes, about p²/n; `None` if the solver never uses blocks.
pub(super) fn passes(n: usize, p: usize, k: usize, element_bytes: usize) -> Option<usize> {
    bytes_if_affordable(n, p, k, element_bytes).map(|_| p * p / n.max(1))
}

/// Weighted sums of second moments of the sampled rows.
pub(super) struct SampledBlock<T> {
    pub(super) moments: FoldGram,
    /// Rows √(weight) φ that are not added to the moments yet.
    buffered_rows: Vec<T>,
}

impl<T: Real> SampledBlock<T> {
    pub(super) fn new(p: usize) -> Self {
        Self { moments: FoldGram::new(p, 0), buffered_rows: Vec::with_capacity(BUFFERED_ROWS * p) }
    }

    /// Adds a row with the features `phi`, whose outer product has the given weight in the block.
    pub(super) fn push(&mut self, phi: &[T], weight: f64, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
        let weight_root = T::from_f64(weight.sqrt());
        self.buffered_rows.extend(phi.iter().map(|value| *value * weight_root));
        self.moments.s.iter_mut().zip(phi).for_each(|(s, value)| *s += weight * value.to_f64());
        self.moments.weight_sum += weight;
        if self.buffered_rows.len() == BUFFERED_ROWS * phi.len() {
            self.flush(phi.len(), panels, workers);
        }
    }

    /// Adds the buffered rows to the moments.
    pub(super) fn flush(&mut self, p: usize, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
        let row_count = self.buffered_rows.len() / p;
        if row_count > 0 {
            let phi = MatRef::from_row_major_slice(&self.buffered_rows, row_count, p);
            gram::add_gram(&mut self.moments.g, phi, panels, workers);
            self.buffered_rows.clear();
        }
    }
}
