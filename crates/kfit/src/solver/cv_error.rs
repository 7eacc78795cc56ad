//! Cross-validated error rates of classifiers that are fitted from moments.

use crate::bins::Bins;
use crate::feature_reduction::BinReduction;
use crate::linalg::strips::{BufferPool, for_each_strip};
use crate::{FoldCoefficients, LinearHead, Result};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::Real;
use kstore::Workers;

/// Number of rows that one thread scores at once: 256 x 4,000 features in f64 are 8 MB.
const SCORED_STRIP_ROWS: usize = 256;

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
pub struct CvErrorScratch(BufferPool<Vec<f64>>);

/// Numbers of rows and of classification errors: for each cell, one number per fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CvErrorState {
    /// Number of scored rows.
    pub row_counts: Vec<u64>,
    /// Number of misclassified rows.
    pub error_counts: Vec<u64>,
}

impl CvErrorReduction<'_> {
    /// Returns the error rate of a cell, or `None` if no row was scored.
    pub fn error_rate(&self, state: &CvErrorState, cell: usize) -> Option<f64> {
        let [rows, errors] = self.counts(state, cell).map(|counts| counts.iter().sum());
        ratio(rows, errors)
    }

    /// Returns the error rates of a cell for each fold; `None` for a fold without scored rows.
    #[doc(hidden)]
    pub fn fold_error_rates(&self, state: &CvErrorState, cell: usize) -> Vec<Option<f64>> {
        let [rows, errors] = self.counts(state, cell);
        rows.iter().zip(errors).map(|(rows, errors)| ratio(*rows, *errors)).collect()
    }

    /// Returns the numbers of rows and of errors of a cell, one per fold.
    #[doc(hidden)]
    pub fn counts<'s>(&self, state: &'s CvErrorState, cell: usize) -> [&'s [u64]; 2] {
        let folds = self.0.heads.len();
        [&state.row_counts, &state.error_counts].map(|counts| &counts[cell * folds..(cell + 1) * folds])
    }
}

fn ratio(rows: u64, errors: u64) -> Option<f64> {
    (rows > 0).then(|| errors as f64 / rows as f64)
}

kstore::summed!(CvErrorState { fill "rows": row_counts, fill "wrong": error_counts });

impl<T: Real> BinReduction<T> for CvErrorReduction<'_> {
    type State = CvErrorState;
    type Scratch = CvErrorScratch;

    fn init(&self) -> CvErrorState {
        let count = self.0.cells.len() * self.0.heads.len();
        CvErrorState { row_counts: vec![0; count], error_counts: vec![0; count] }
    }

    fn add_bin(
        &self,
        state: &mut CvErrorState,
        CvErrorScratch(phi_pool): &mut CvErrorScratch,
        fold: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        let (mapped_bin, heads, buffers) = (bins.mapped_bin(fold), &self.0.heads[fold], &*phi_pool);
        let (bin_row_count, fold_count) = (mapped_bin.phi.nrows(), self.0.heads.len());
        let mut strip_errors = vec![0u64; bin_row_count.div_ceil(SCORED_STRIP_ROWS) * heads.len()];
        for_each_strip(workers, &mut strip_errors, heads.len().max(1), |strip, error_counts| {
            let (first_row, strip_rows) =
                (strip * SCORED_STRIP_ROWS, SCORED_STRIP_ROWS.min(bin_row_count - strip * SCORED_STRIP_ROWS));
            let (phi, y) = (mapped_bin.phi.subrows(first_row, strip_rows), mapped_bin.y.subrows(first_row, strip_rows));
            buffers.with_buffer(Vec::new, |phi_f64| count_errors(phi, y, heads, phi_f64, error_counts));
        });
        for (i, error_count) in strip_errors.iter().enumerate() {
            state.error_counts[i % heads.len() * fold_count + fold] += error_count;
        }
        for (cell, _) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            state.row_counts[cell * fold_count + fold] += bin_row_count as u64;
        }
        Ok(())
    }
}

/// Counts the errors of each cell's linear head on these rows, one number per cell.
fn count_errors<T: Real>(
    phi: MatRef<'_, T>,
    y: MatRef<'_, f64>,
    heads: &[Option<LinearHead>],
    phi_buffer: &mut Vec<f64>,
    error_counts: &mut [u64],
) {
    let (rows, p) = (phi.nrows(), phi.ncols());
    phi_buffer.resize(phi_buffer.len().max(SCORED_STRIP_ROWS * p), 0.0);
    crate::linalg::dot_products::copy_as_f64(phi, &mut phi_buffer[..rows * p]);
    let phi = MatRef::from_column_major_slice(&phi_buffer[..rows * p], rows, p);
    for (head, error_count) in heads.iter().zip(error_counts) {
        let Some(head) = head else { continue };
        let mut scores = Mat::from_fn(rows, head.intercept.len(), |_, j| head.intercept[j]);
        let phi = phi.subcols(0, head.weights.nrows());
        matmul(scores.as_mut(), Accum::Add, phi, head.weights.as_ref(), 1.0, Par::Seq);
        *error_count = (0..rows).filter(|i| is_misclassified(scores.as_ref(), y, *i)).count() as u64;
    }
}

/// Returns true if the class decided by the scores differs from the class that the ±1 codes encode.
fn is_misclassified(scores: MatRef<'_, f64>, codes: MatRef<'_, f64>, i: usize) -> bool {
    let argmax = |m: MatRef<'_, f64>| (0..m.ncols()).fold(0, |best, j| if m[(i, j)] > m[(i, best)] { j } else { best });
    match codes.ncols() {
        1 => (scores[(i, 0)] > 0.0) != (codes[(i, 0)] > 0.0),
        _ => argmax(scores) != argmax(codes),
    }
}
