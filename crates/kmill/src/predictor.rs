//! A model at work: rows in, scores out, in row order.

use crate::passes::{self, Lane};
use crate::args::run::Run;
use crate::{Error, Result};
use faer::{Mat, MatMut, MatRef};
use kapprox::{Kernel, Real};
use kstore::{Coded, Fold, RowBlock, RowSource, Workers};
use std::ops::Range;

/// f(x) = Σ_j k(x, z_j) a_j + c.
///
/// The coefficients belong to the kernel functions themselves (`Nystrom::dual` of a head), so that a row costs its m
/// kernel values and no triangular solve.
#[derive(Debug)]
pub struct Predictor<'a, T: Real> {
    /// The kernel.
    pub kernel: &'a dyn Kernel<T>,
    /// Landmarks, m x d, row-major, scaled like the rows.
    pub z: &'a [T],
    /// a, m x t.
    pub dual: Mat<f64>,
    /// c, t.
    pub intercept: Vec<f64>,
}

/// Rows whose kernel values are held at once: 2,000 landmarks take 2 MiB in f32 and stay in the second-level cache.
const STRIP: usize = 256;

/// Scores of the rows of a segment, and what the file says about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// Stored row numbers.
    pub rows: Vec<u64>,
    /// Scores, row-major, t per row.
    pub scores: Vec<f64>,
    /// Numeric targets of the table, row-major.
    pub y: Vec<f64>,
    /// Codes of the class column; empty where there is none.
    pub classes: Vec<u32>,
}

impl<T: Real> Predictor<'_, T> {
    /// Number of targets, t.
    pub fn targets(&self) -> usize {
        self.intercept.len()
    }

    /// Writes the scores of `rows` rows (`x` row-major, b x d) to `out` (row-major, b x t).
    fn score(&self, x: &[T], d: usize, block: &mut Vec<T>, out: &mut [f64]) {
        let (m, t) = (self.dual.nrows(), self.targets());
        let z = MatRef::from_row_major_slice(self.z, m, d);
        for (x, out) in x.chunks(STRIP * d).zip(out.chunks_mut(STRIP * t)) {
            let b = x.len() / d;
            block.resize(b * m, T::default());
            self.kernel.block(
                MatRef::from_row_major_slice(x, b, d),
                z,
                MatMut::from_column_major_slice_mut(&mut block[..b * m], b, m),
            );
            for row in out.chunks_exact_mut(t) {
                row.copy_from_slice(&self.intercept);
            }
            // landmark by landmark, always in the same order: the bits of a row do not depend on its neighbours
            for (j, column) in block.chunks_exact(b).enumerate() {
                for c in 0..t {
                    let a = self.dual[(j, c)];
                    for (value, out) in column.iter().zip(out[c..].iter_mut().step_by(t)) {
                        *out += value.to_f64() * a;
                    }
                }
            }
        }
    }
}

impl<T: Real> Fold<T> for Predictor<'_, T> {
    type State = Scores;
    type Scratch = Vec<T>;
    type Error = Error;

    fn init(&self) -> Scores {
        Scores::default()
    }

    fn scratch(&self) -> Vec<T> {
        Vec::new()
    }

    fn step(&self, state: &mut Scores, scratch: &mut Vec<T>, block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        let (start, t) = (state.scores.len(), self.targets());
        state.scores.resize(start + block.len() * t, 0.0);
        self.score(block.x, block.d, scratch, &mut state.scores[start..]);
        state.rows.extend(block.rows);
        state.y.extend(block.y);
        state.classes.extend(block.classes.iter().flat_map(|Coded { codes, .. }| *codes));
        Ok(())
    }
}

/// Scores every selected row and hands the segments to `deliver`, in row order. Gives the number of rows.
///
/// # Errors
/// Those of the source and of `deliver`, and a budget that does not hold one lane.
pub fn predict<T: Real>(
    predictor: &Predictor<'_, T>,
    source: &dyn RowSource<T>,
    known: Option<u64>,
    run: &Run,
    mut deliver: impl FnMut(&Scores) -> Result<()> + Send,
) -> Result<u64> {
    let (m, t) = (predictor.dual.nrows(), predictor.targets());
    let shape = source.shape();
    let row = size_of::<u64>() + (t + shape.targets) * size_of::<f64>() + size_of::<u32>();
    let lane = Lane {
        name: "kernel values and scores",
        bytes: STRIP * m * size_of::<T>() + passes::SEGMENT as usize * row,
        shared: size_of_val(predictor.z) + m * t * size_of::<f64>(),
    };
    let lanes = passes::lanes("prediction", source, lane, run)?;
    let stage = run.progress.stage("predict", known);
    let workers = Workers::sequential();
    let pass = passes::pass(lanes, &workers, &stage);
    let report = pass.segments(source, predictor, |_: Range<u64>, scores| deliver(&scores))?;
    stage.finish();
    Ok(report.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_sum_over_the_landmarks() {
        let kernel = kapprox::Spec::parse("gaussian(sigma=1.5)").unwrap().build().unwrap();
        let (d, m, t, n) = (2, 3, 2, 600);
        let z: Vec<f64> = (0..m * d).map(|i| (i as f64).sin()).collect();
        let x: Vec<f64> = (0..n * d).map(|i| (0.7 * i as f64).cos()).collect();
        let dual = Mat::from_fn(m, t, |j, c| 1.0 + j as f64 - 2.0 * c as f64);
        let predictor = Predictor { kernel: &*kernel as &dyn Kernel<f64>, z: &z, dual, intercept: vec![0.5, -1.0] };
        let mut out = vec![0.0; n * t];
        predictor.score(&x, d, &mut Vec::new(), &mut out);
        for i in 0..n {
            for c in 0..t {
                let terms = (0..m).map(|j| {
                    let squared = (0..d).map(|a| (x[i * d + a] - z[j * d + a]).powi(2)).sum::<f64>();
                    (-squared / (2.0 * 1.5 * 1.5)).exp() * predictor.dual[(j, c)]
                });
                let expected = predictor.intercept[c] + terms.sum::<f64>();
                assert!((out[i * t + c] - expected).abs() < 1e-12, "row {i}, target {c}");
            }
        }
    }
}
