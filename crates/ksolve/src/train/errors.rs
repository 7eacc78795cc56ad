//! The pass that counts how many held-out rows the folds' models put in the wrong class.

use super::bins::{Bins, Mapped, Targets};
use crate::folds::Folds;
use crate::gram::widen;
use crate::surface::FoldCoefficients;
use crate::{Classes, Error, Head, Result};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::{FeatureMap, Real};
use kstore::{Fold, Merge, RowBlock, Workers};

/// Rows scored by one thread at a time.
const STRIP: usize = 256;

/// The fold: held-out rows to wrong decisions, for every cell.
///
/// A row costs p² flops for its features and 2p per cell and target for its scores, which are summed in f64.
#[derive(Debug)]
pub(super) struct ErrorFold<'a, T: Real> {
    map: &'a dyn FeatureMap<T>,
    folds: &'a Folds,
    classes: &'a Classes,
    bin: usize,
    /// For each fold: p x (cells · t) weights, zero beyond a cell's rank, and the intercepts.
    heads: Vec<Option<(Mat<f64>, Vec<f64>)>>,
    cells: usize,
}

/// Wrong decisions per cell, and rows.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) wrong: Vec<u64>,
    pub(super) rows: u64,
}

impl Merge for Wrong {
    fn merge(&mut self, later: &Self) {
        self.wrong.iter_mut().zip(&later.wrong).for_each(|(mine, theirs)| *mine += theirs);
        self.rows += later.rows;
    }
}

impl<'a, T: Real> ErrorFold<'a, T> {
    /// Scores the cells that every fold has a solution for; the others are reported as wrong everywhere.
    pub(super) fn new(
        map: &'a dyn FeatureMap<T>,
        folds: &'a Folds,
        classes: &'a Classes,
        coefficients: &FoldCoefficients,
        bin: usize,
    ) -> Self {
        let p = map.dims().1;
        let heads = coefficients.heads.iter().map(|heads| stack(heads, p, classes.targets())).collect();
        Self { map, folds, classes, bin, heads, cells: coefficients.cells.len() }
    }

    fn count(&self, state: &mut Wrong, rows: &Mapped<'_, T>, workers: &Workers) {
        state.rows += rows.classes.len() as u64;
        let Some((weights, intercept)) = &self.heads[rows.fold] else { return };
        let strips: Vec<usize> = (0..rows.classes.len()).step_by(STRIP).collect();
        let counts: Vec<std::sync::Mutex<Vec<u64>>> = strips.iter().map(|_| std::sync::Mutex::default()).collect();
        workers.run(strips.len(), |s| {
            let (from, b) = (strips[s], STRIP.min(rows.classes.len() - strips[s]));
            let wrong = self.strip(rows.phi.subrows(from, b), &rows.classes[from..from + b], weights, intercept);
            *counts[s].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = wrong;
        });
        for count in counts {
            let count = count.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            state.wrong.iter_mut().zip(count).for_each(|(sum, part)| *sum += part);
        }
    }

    fn strip(&self, phi: MatRef<'_, T>, classes: &[u32], weights: &Mat<f64>, intercept: &[f64]) -> Vec<u64> {
        let (b, p, t) = (phi.nrows(), phi.ncols(), self.classes.targets());
        let mut wide = vec![0.0; b * p];
        widen(phi, &mut wide);
        let mut scores = Mat::<f64>::zeros(b, weights.ncols());
        let phi = MatRef::from_column_major_slice(&wide, b, p);
        matmul(scores.as_mut(), Accum::Replace, phi, weights.as_ref(), 1.0, Par::Seq);
        (0..self.cells)
            .map(|cell| {
                let decide = |i: usize| {
                    let columns = cell * t..(cell + 1) * t;
                    self.classes.decide(columns.map(|column| scores[(i, column)] + intercept[column]))
                };
                classes.iter().enumerate().filter(|(i, class)| decide(*i) != **class as usize).count() as u64
            })
            .collect()
    }
}

/// The heads of one fold side by side. `None` for a fold without rows.
fn stack(heads: &[Option<Head>], p: usize, t: usize) -> Option<(Mat<f64>, Vec<f64>)> {
    heads.iter().any(Option::is_some).then(|| {
        let mut weights = Mat::zeros(p, heads.len() * t);
        let mut intercept = vec![f64::NAN; heads.len() * t];
        for (cell, head) in heads.iter().enumerate().filter_map(|(cell, head)| head.as_ref().map(|head| (cell, head))) {
            for j in 0..t {
                intercept[cell * t + j] = head.intercept[j];
                for i in 0..head.weights.nrows() {
                    weights[(i, cell * t + j)] = head.weights[(i, j)];
                }
            }
        }
        (weights, intercept)
    })
}

impl<T: Real> Fold<T> for ErrorFold<'_, T> {
    type State = Wrong;
    type Scratch = Bins<T>;
    type Error = Error;

    fn init(&self) -> Wrong {
        Wrong { wrong: vec![0; self.cells], rows: 0 }
    }

    fn scratch(&self) -> Bins<T> {
        Bins::new(self.folds.count(), self.bin, self.map, 0)
    }

    fn step(
        &self,
        state: &mut Wrong,
        bins: &mut Bins<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        bins.push(block, self.folds, Targets::Numbers(&[]), self.map, workers, &mut |rows| {
            self.count(state, &rows, workers);
            Ok(())
        })
    }

    fn flush(&self, state: &mut Wrong, bins: &mut Bins<T>, workers: &Workers) -> Result<()> {
        bins.flush(self.map, workers, &mut |rows| {
            self.count(state, &rows, workers);
            Ok(())
        })
    }
}
