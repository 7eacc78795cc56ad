//! The outputs of a block of rows, and the sums from which they are computed.

use super::{PANEL_FUNCTIONS, STRIP_ROWS};
use crate::linalg::strips::row_strips;
use crate::{linalg::dot_products, quadratic};
use faer::{Mat, MatMut, MatRef};
use kapprox::Real;

/// The outputs of b rows. An output that is not requested has no columns.
pub(crate) struct Outputs<'a> {
    /// Scores, b x t.
    pub(crate) scores: MatMut<'a, f64>,
    /// Components in addition to predictions, b x q.
    pub(crate) components: MatMut<'a, f64>,
    /// Values of the quadratic function, b x 1.
    pub(crate) quadratic: MatMut<'a, f64>,
}

/// Returns a matrix of `row_count` rows without columns.
pub(crate) fn empty_matrix<'a>(row_count: usize) -> MatMut<'a, f64> {
    MatMut::from_row_major_slice_mut(&mut [], row_count, 0)
}

impl<'a> Outputs<'a> {
    pub(super) fn from_scores(scores: MatMut<'a, f64>) -> Self {
        let row_count = scores.nrows();
        Self { scores, components: empty_matrix(row_count), quadratic: empty_matrix(row_count) }
    }

    pub(super) fn strips(self) -> Vec<(usize, Self)> {
        let [scores, components, quadratic] =
            [self.scores, self.components, self.quadratic].map(|output| row_strips(output, STRIP_ROWS).into_iter());
        let strips = scores.zip(components).zip(quadratic);
        strips
            .map(|(((first, scores), (_, components)), (_, quadratic))| (first, Self { scores, components, quadratic }))
            .collect()
    }
}

/// Computes `scores` (b x t column-major) = k·α + c for basis values `k` (b x m), coefficients α
/// and intercepts c. `panel_f64` is a buffer.
///
/// The products are added one basis function after the other, in an inner loop over the rows. So
/// the sum of a row is always in the order of the functions, whatever the other rows are. A matrix
/// product would choose its algorithm, and with it the order of summation, by the number of rows.
pub(super) fn linear_scores<T: Real>(
    coefficients: &Mat<f64>,
    intercept: &[f64],
    k: MatRef<'_, T>,
    panel_f64: &mut Vec<f64>,
    scores: &mut Vec<f64>,
) {
    let (row_count, m) = (k.nrows(), k.ncols());
    scores.clear();
    // `+ 0.0` turns −0 into 0; otherwise a sum that starts at −0 would stay −0 if all products are
    // skipped
    intercept.iter().for_each(|c| scores.extend(std::iter::repeat_n(*c + 0.0, row_count)));
    panel_f64.resize(STRIP_ROWS * PANEL_FUNCTIONS, 0.0);
    for first_function in (0..m).step_by(PANEL_FUNCTIONS) {
        let panel_columns = PANEL_FUNCTIONS.min(m - first_function);
        dot_products::copy_as_f64(
            k.subcols(first_function, panel_columns),
            &mut panel_f64[..row_count * panel_columns],
        );
        for (j, scores) in scores.chunks_exact_mut(row_count).enumerate() {
            add_products(
                scores,
                &panel_f64[..row_count * panel_columns],
                &coefficients.col_as_slice(j)[first_function..first_function + panel_columns],
            );
        }
    }
}

/// Adds `panel`·`alpha` to `scores`, column by column, for a column-major panel. Skips coefficients
/// that are 0, because a one-vs-one SVM has zeros for the support vectors of all other classes.
fn add_products(scores: &mut [f64], panel: &[f64], alpha: &[f64]) {
    kapprox::vectorised!({
        for (column, alpha) in panel.chunks_exact(scores.len()).zip(alpha).filter(|(_, alpha)| **alpha != 0.0) {
            scores.iter_mut().zip(column).for_each(|(score, k)| *score += k * alpha);
        }
    });
}

#[derive(Debug, Default)]
pub(super) struct StripBuffers<T> {
    pub(super) basis_values: Vec<T>,
    pub(super) panel_f64: Vec<f64>,
    pub(super) sums: Vec<f64>,
    pub(super) scratch: quadratic::QuadraticScratch,
}
