//! The rows from which a sum of kernels is learned, and the stages of the search.

use crate::Result;
use faer::{Mat, MatRef};

/// Maximum number of rows of the sample: with 1,500 rows, the factorisations of an evaluation of F
/// take 6·10⁹ flops.
pub(super) const MAX_ROWS: usize = 1_500;
/// Minimum number of rows of a sample whose first stage uses only a third of the rows.
pub const MIN_STAGED_ROWS: usize = 750;
const STAGE_COUNT: usize = 3;
/// Maximum number of steps on a third of the rows, and on all rows of the sample.
const MAX_STEPS: (usize, usize) = (40, 60);

/// Returns at most [`MAX_ROWS`] rows at equal steps in the order of the first target. The rows are
/// returned in an order whose first third has equal steps, too.
pub(super) fn evenly_spaced_rows(y: MatRef<'_, f64>) -> Vec<usize> {
    let (n, count) = (y.nrows(), y.nrows().min(MAX_ROWS));
    let mut by_target: Vec<usize> = (0..n).collect();
    by_target.sort_by(|a, b| y[(*a, 0)].total_cmp(&y[(*b, 0)]).then(a.cmp(b)));
    let chosen: Vec<usize> = (0..count).map(|i| by_target[(2 * i + 1) * n / (2 * count)]).collect();
    let every_third = |first: usize| chosen.iter().skip(first).step_by(STAGE_COUNT).copied();
    [1, 0, 2].into_iter().flat_map(every_third).collect()
}

/// Rows and targets from which kernels are learned.
#[derive(Clone, Debug)]
pub struct SampledRows<'a> {
    /// All rows, n x d.
    pub x: MatRef<'a, f64>,
    /// Targets, n x t, centred, with variance 1.
    y: Mat<f64>,
    weights: &'a [f64],
    /// The rows of the sample.
    order: Vec<usize>,
}

impl<'a> SampledRows<'a> {
    /// Returns a sample of the rows `x` (n x d, scaled) with `weights` (empty if all are equal) and
    /// targets `y` (n x t), or `None` if all targets are constant.
    pub fn new(x: MatRef<'a, f64>, y: MatRef<'_, f64>, weights: &'a [f64]) -> Result<Option<Self>> {
        super::check_sample(x, y)?;
        let order = evenly_spaced_rows(y);
        let (variance, y) = super::standardise(y);
        Ok((variance > 0.0).then_some(Self { x, y, weights, order }))
    }

    /// Returns the positions of the first `count` rows of the sample among all rows.
    pub(super) fn positions(&self, count: usize) -> &[usize] {
        &self.order[..count]
    }

    /// Returns the number of rows of the sample.
    pub fn row_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the first `count` rows of the sample: their targets, centred, and their weights,
    /// with mean 1.
    pub(super) fn targets_and_weights(&self, count: usize) -> (Mat<f64>, Vec<f64>) {
        let order = &self.order[..count];
        let mut y = Mat::from_fn(count, self.y.ncols(), |i, t| self.y[(order[i], t)]);
        for j in 0..y.ncols() {
            let mean = y.col(j).iter().sum::<f64>() / count as f64;
            y.col_mut(j).iter_mut().for_each(|v| *v -= mean);
        }
        let weights: Vec<f64> = order.iter().filter_map(|i| self.weights.get(*i)).copied().collect();
        let mean = weights.iter().sum::<f64>() / count as f64;
        (y, weights.into_iter().map(|weight| weight / mean).collect())
    }
}

/// A stage of the search for a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Number of rows, a prefix of the sample.
    rows: usize,
    max_steps: usize,
}

impl Stage {
    /// Returns the first stage for a sample of `rows` rows: a third of the rows if they are many.
    pub fn first(rows: usize) -> Self {
        match rows >= MIN_STAGED_ROWS {
            true => Self { rows: rows.div_ceil(STAGE_COUNT), max_steps: MAX_STEPS.0 },
            false => Self { rows, max_steps: MAX_STEPS.0 + MAX_STEPS.1 },
        }
    }

    /// Returns the stages after the first one: on two thirds of the rows, and on all of them.
    pub fn later(rows: usize) -> impl Iterator<Item = Self> {
        let stages = 2..=if rows >= MIN_STAGED_ROWS { STAGE_COUNT } else { 0 };
        stages.map(move |stage| Self { rows: (stage * rows).div_ceil(STAGE_COUNT), max_steps: MAX_STEPS.1 })
    }

    /// Returns the stage on all rows.
    pub(super) fn last(rows: usize) -> Self {
        Self { rows, max_steps: MAX_STEPS.1 }
    }

    /// Returns the number of rows of the stage.
    pub fn rows(self) -> usize {
        self.rows
    }

    pub(super) fn max_steps(self) -> usize {
        self.max_steps
    }
}
