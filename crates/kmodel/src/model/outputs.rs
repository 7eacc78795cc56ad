//! The outputs of some rows, and the sums that give them.

use super::{PANEL, STRIP};
use crate::linalg::strips::row_strips;
use crate::{linalg::dots, quadratic};
use faer::{Mat, MatMut, MatRef};
use kapprox::Real;

/// The outputs of b rows; those that are not wanted have no column.
pub(crate) struct Outputs<'a> {
    /// b x t.
    pub(crate) scores: MatMut<'a, f64>,
    /// The coordinates beside the predictions, b x q.
    pub(crate) components: MatMut<'a, f64>,
    /// The quadratic function, b x 1.
    pub(crate) quadratic: MatMut<'a, f64>,
}

/// No columns for b rows.
pub(crate) fn none<'a>(rows: usize) -> MatMut<'a, f64> {
    MatMut::from_row_major_slice_mut(&mut [], rows, 0)
}

impl<'a> Outputs<'a> {
    pub(super) fn of_scores(scores: MatMut<'a, f64>) -> Self {
        let rows = scores.nrows();
        Self { scores, components: none(rows), quadratic: none(rows) }
    }

    pub(super) fn strips(self) -> Vec<(usize, Self)> {
        let [scores, components, quadratic] =
            [self.scores, self.components, self.quadratic].map(|output| row_strips(output, STRIP).into_iter());
        let all = scores.zip(components).zip(quadratic);
        all.map(|(((first, scores), (_, components)), (_, quadratic))| (first, Self { scores, components, quadratic }))
            .collect()
    }
}

/// `scores` (b x t column-major) = k·α + c for basis values `k` (b x m), function after function.
///
/// The loop runs along rows, so every row is summed in the order of the functions whatever its neighbours; a
/// matrix product picks its kernel, and with it the order, by the number of rows.
pub(super) fn combine<T: Real>(
    coefficients: &Mat<f64>,
    intercept: &[f64],
    k: MatRef<'_, T>,
    wide: &mut Vec<f64>,
    scores: &mut Vec<f64>,
) {
    let (rows, m) = (k.nrows(), k.ncols());
    scores.clear();
    // a sum that begins at −0 would keep its sign where all products are left out
    intercept.iter().for_each(|c| scores.extend(std::iter::repeat_n(*c + 0.0, rows)));
    wide.resize(STRIP * PANEL, 0.0);
    for first in (0..m).step_by(PANEL) {
        let width = PANEL.min(m - first);
        dots::widen(k.subcols(first, width), &mut wide[..rows * width]);
        for (j, scores) in scores.chunks_exact_mut(rows).enumerate() {
            add_products(scores, &wide[..rows * width], &coefficients.col_as_slice(j)[first..first + width]);
        }
    }
}

/// `scores` += `panel`·`alpha` for a column-major panel, column after column. Coefficients that are 0 are left out: a machine for two
/// classes has no others for the vectors of the other classes.
fn add_products(scores: &mut [f64], panel: &[f64], alpha: &[f64]) {
    kapprox::vectorised!({
        for (column, alpha) in panel.chunks_exact(scores.len()).zip(alpha).filter(|(_, alpha)| **alpha != 0.0) {
            scores.iter_mut().zip(column).for_each(|(score, k)| *score += k * alpha);
        }
    });
}

#[derive(Debug, Default)]
pub(super) struct Buffers<T> {
    pub(super) basis: Vec<T>,
    pub(super) wide: Vec<f64>,
    pub(super) sums: Vec<f64>,
    pub(super) scratch: quadratic::Scratch,
}
