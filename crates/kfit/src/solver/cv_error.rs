//! Cross-validated error rates of classifiers that are fitted from moments.

use crate::bins::Bins;
use crate::feature_reduction::BinReduction;
use crate::linalg::strips::{Pool, for_each_strip};
use crate::{FoldCoefficients, LinearHead, Result};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::Real;
use kstore::Workers;

/// Rows that one thread scores at once: 256 x 4,000 features in f64 are 8 MB.
const STRIP_ROWS: usize = 256;

/// A pass that counts the classification errors on held-out rows for
/// [`SurfaceCell::cv_error`](crate::SurfaceCell). A
/// [`FeatureReduction`](crate::FeatureReduction) provides the features of every row. The
/// coefficients that classify a row were fitted without the fold of the row.
///
/// *Cost per row*: the map, and 2rt flops for each cell of rank r and t targets.
#[derive(Debug)]
pub struct CvErrorReduction<'a>(pub &'a FoldCoefficients);

/// Buffers that a worker lane reuses from block to block.
#[derive(Debug, Default)]
pub struct CvErrorScratch(Pool<Vec<f64>>);

/// Numbers of rows and of classification errors, per cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CvErrorState {
    /// Number of scored rows, per cell.
    pub rows: Vec<u64>,
    /// Number of misclassified rows, per cell.
    pub errors: Vec<u64>,
}

impl CvErrorState {
    /// Returns the error rate of a cell; `None` if no row was scored.
    pub fn error_rate(&self, cell: usize) -> Option<f64> {
        (self.rows[cell] > 0).then(|| self.errors[cell] as f64 / self.rows[cell] as f64)
    }
}

kstore::summed!(CvErrorState { fill "rows": rows, fill "wrong": errors });

impl<T: Real> BinReduction<T> for CvErrorReduction<'_> {
    type State = CvErrorState;
    type Scratch = CvErrorScratch;

    fn init(&self) -> CvErrorState {
        let cells = self.0.cells.len();
        CvErrorState { rows: vec![0; cells], errors: vec![0; cells] }
    }

    fn add_bin(
        &self,
        state: &mut CvErrorState,
        CvErrorScratch(wide): &mut CvErrorScratch,
        fold: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        let (filled, heads, buffers) = (bins.mapped_bin(fold), &self.0.heads[fold], &*wide);
        let rows = filled.phi.nrows();
        let mut wrong = vec![0u64; rows.div_ceil(STRIP_ROWS) * heads.len()];
        for_each_strip(workers, &mut wrong, heads.len().max(1), |strip, wrong| {
            let (first, rows) = (strip * STRIP_ROWS, STRIP_ROWS.min(rows - strip * STRIP_ROWS));
            let (phi, y) = (filled.phi.subrows(first, rows), filled.y.subrows(first, rows));
            buffers.with(Vec::new, |phi_f64| count_errors(phi, y, heads, phi_f64, wrong));
        });
        for (i, wrong) in wrong.iter().enumerate() {
            state.errors[i % heads.len()] += wrong;
        }
        for (cell, _) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            state.rows[cell] += rows as u64;
        }
        Ok(())
    }
}

/// Counts the errors of each cell's linear head on these rows, one number per cell.
fn count_errors<T: Real>(
    phi: MatRef<'_, T>,
    y: MatRef<'_, f64>,
    heads: &[Option<LinearHead>],
    buffer: &mut Vec<f64>,
    wrong: &mut [u64],
) {
    let (rows, p) = (phi.nrows(), phi.ncols());
    buffer.resize(buffer.len().max(STRIP_ROWS * p), 0.0);
    crate::linalg::dot_products::copy_as_f64(phi, &mut buffer[..rows * p]);
    let phi = MatRef::from_column_major_slice(&buffer[..rows * p], rows, p);
    for (head, wrong) in heads.iter().zip(wrong) {
        let Some(head) = head else { continue };
        let mut scores = Mat::from_fn(rows, head.intercept.len(), |_, j| head.intercept[j]);
        let phi = phi.subcols(0, head.weights.nrows());
        matmul(scores.as_mut(), Accum::Add, phi, head.weights.as_ref(), 1.0, Par::Seq);
        *wrong = (0..rows).filter(|i| is_wrong(scores.as_ref(), y, *i)).count() as u64;
    }
}

/// Returns true if the class decided by the scores differs from the class that the ±1 codes encode.
fn is_wrong(scores: MatRef<'_, f64>, codes: MatRef<'_, f64>, i: usize) -> bool {
    let largest =
        |m: MatRef<'_, f64>| (0..m.ncols()).fold(0, |best, j| if m[(i, j)] > m[(i, best)] { j } else { best });
    match codes.ncols() {
        1 => (scores[(i, 0)] > 0.0) != (codes[(i, 0)] > 0.0),
        _ => largest(scores) != largest(codes),
    }
}
