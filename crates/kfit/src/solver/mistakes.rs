//! Cross-validated error rates of classifiers that are fitted from moments.

use crate::bins::Bins;
use crate::feature_fold::Take;
use crate::linalg::strips::{Pool, for_each_strip};
use crate::{FoldCoefficients, Head, Result};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::Real;
use kstore::Workers;

/// Rows that one thread scores at once: 256 x 4,000 features in f64 are 8 MB.
const STRIP: usize = 256;

/// A fold that counts the held-out classification errors for [`Cell::cv_error`](crate::Cell).
/// [`FeatureFold`](crate::FeatureFold) passes it the features of every row, which it classifies by
/// the coefficients that were fitted without the row's fold.
///
/// *Cost per row*: the map, and 2·rank·t flops for each cell.
#[derive(Debug)]
pub struct Mistakes<'a>(pub &'a FoldCoefficients);

/// Buffers that a worker lane reuses from bin to bin.
#[derive(Debug, Default)]
pub struct CvErrorScratch(Pool<Vec<f64>>);

/// Numbers of rows and of classification errors, per cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CvErrorState {
    /// Number of scored rows, per cell.
    pub rows: Vec<u64>,
    /// Number of misclassified rows, per cell.
    pub wrong: Vec<u64>,
}

impl CvErrorState {
    /// Returns the error rate of a cell; `None` if no row was scored.
    pub fn error(&self, cell: usize) -> Option<f64> {
        (self.rows[cell] > 0).then(|| self.wrong[cell] as f64 / self.rows[cell] as f64)
    }
}

kstore::summed!(CvErrorState { fill "rows": rows, fill "wrong": wrong });

impl<T: Real> Take<T> for Mistakes<'_> {
    type State = CvErrorState;
    type Scratch = CvErrorScratch;

    fn init(&self) -> CvErrorState {
        let cells = self.0.cells.len();
        CvErrorState { rows: vec![0; cells], wrong: vec![0; cells] }
    }

    fn take(
        &self,
        state: &mut CvErrorState,
        CvErrorScratch(wide): &mut CvErrorScratch,
        fold: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        let (filled, heads, wide) = (bins.filled(fold), &self.0.heads[fold], &*wide);
        let rows = filled.phi.nrows();
        let mut wrong = vec![0u64; rows.div_ceil(STRIP) * heads.len()];
        for_each_strip(workers, &mut wrong, heads.len().max(1), |strip, wrong| {
            let (first, rows) = (strip * STRIP, STRIP.min(rows - strip * STRIP));
            let (phi, y) = (filled.phi.subrows(first, rows), filled.y.subrows(first, rows));
            wide.with(Vec::new, |wide| count_wrong(phi, y, heads, wide, wrong));
        });
        for (i, wrong) in wrong.iter().enumerate() {
            state.wrong[i % heads.len()] += wrong;
        }
        for (cell, _) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            state.rows[cell] += rows as u64;
        }
        Ok(())
    }
}

/// Counts the errors of each cell's linear head on these rows, one number per cell.
fn count_wrong<T: Real>(
    phi: MatRef<'_, T>,
    y: MatRef<'_, f64>,
    heads: &[Option<Head>],
    wide: &mut Vec<f64>,
    wrong: &mut [u64],
) {
    let (rows, p) = (phi.nrows(), phi.ncols());
    wide.resize(wide.len().max(STRIP * p), 0.0);
    crate::linalg::dots::widen(phi, &mut wide[..rows * p]);
    let phi = MatRef::from_column_major_slice(&wide[..rows * p], rows, p);
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
