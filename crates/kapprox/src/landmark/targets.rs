//! Targets of the rows, for schemes that look at them.

use super::Scan;
use crate::{Error, Real, Result};
use faer::Mat;
use kstore::{Coded, Fold, Merge, RowBlock, Workers};

/// Numeric targets less their means, or ±1 codes of the classes (one column for each class): n x t. One pass.
///
/// # Errors
/// The errors of the source. A table without targets gives no column.
pub(super) fn targets<T: Real>(data: &Scan<'_, T>) -> Result<Mat<f64>> {
    let found = data.pass.fold(data.source, &ReadTargets)?.0;
    let n = found.rows;
    if found.classes > 0 {
        return Ok(Mat::from_fn(n, found.classes, |i, j| if found.codes[i] as usize == j { 1.0 } else { -1.0 }));
    }
    let t = found.y.len().checked_div(n).unwrap_or(0);
    let mean: Vec<f64> = (0..t).map(|j| found.y.iter().skip(j).step_by(t).sum::<f64>() / n as f64).collect();
    Ok(Mat::from_fn(n, t, |i, j| found.y[i * t + j] - mean[j]))
}

struct ReadTargets;

#[derive(Default)]
struct TargetsRead {
    rows: usize,
    y: Vec<f64>,
    codes: Vec<u32>,
    classes: usize,
}

impl Merge for TargetsRead {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.y.extend_from_slice(&later.y);
        self.codes.extend_from_slice(&later.codes);
        self.classes = self.classes.max(later.classes);
    }
}

impl<T: Real> Fold<T> for ReadTargets {
    type State = TargetsRead;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> TargetsRead {
        TargetsRead::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut TargetsRead, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        state.rows += block.len();
        match block.classes {
            Some(Coded { codes, labels }) => {
                state.codes.extend_from_slice(codes);
                state.classes = labels.len();
            }
            None => state.y.extend_from_slice(block.y),
        }
        Ok(())
    }
}
