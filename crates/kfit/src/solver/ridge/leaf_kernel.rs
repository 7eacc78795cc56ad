//! The kernel of leaves that have a kernel of their own, and the tree of its inputs.

use super::leaves::{ReducedFit, is_random_validation_row};
use super::tree::{self, Tree};
use crate::features::FitData;
use crate::{Error, LinearHead, Result};
use faer::{Mat, MatRef};
use kapprox::{Kernel, Real};
use kmodel::likelihood;
use kstore::LabelCodes;

/// The kernel is learned from this number of ranges of rows, evenly spaced in the table, and from
/// at most this number of rows of each range.
const WINDOWS: usize = 60;
const WINDOW_ROWS: usize = 32;
/// The steps between the rows of a range, in turn. In a series the distance in time grows with the
/// distance in the table, and the likelihood needs pairs of rows at all distances in time.
const STEPS: [usize; 5] = [1, 4, 16, 64, 256];
/// Maximum number of rows that learn the kernel.
pub(super) const MAX_ROWS: usize = WINDOWS * WINDOW_ROWS;

/// Learns the length scales of `kernel` from the residuals of `head`, the fit of the features, at
/// rows that are not validation rows. The inputs of the kernel are the scaled rows before the
/// metric. Also grows a tree of these inputs, divided by their length scales: then the rows of a
/// leaf are near each other for this kernel. One pass.
pub(super) fn learn<T: Real>(
    kernel: &Kernel,
    data: &FitData<'_, T>,
    head: &LinearHead,
    reduced_fit: &ReducedFit,
    leaf_count: usize,
) -> Result<(Kernel, Tree)> {
    let (n, t) = (data.n as usize, data.targets.count());
    let window_count = WINDOWS.min(n / WINDOW_ROWS).max(1);
    let is_in_window = |position: usize| {
        let offset = |k: usize| position.checked_sub(k * n / window_count);
        let is_in = |k: usize, step: usize| offset(k).is_some_and(|o| o % step == 0 && o / step < WINDOW_ROWS);
        (0..window_count).any(|k| is_in(k, STEPS[k % STEPS.len()]))
    };
    let (mut sample, mut x, mut residuals) = (Vec::new(), Vec::new(), Vec::new());
    let mut position = 0;
    tree::visit_features(data, "rows that learn the kernel of the leaves", true, |block, phi| {
        let phi = Mat::from_fn(block.len(), head.weights.nrows(), |i, j| phi[(i, j)].to_f64());
        let fitted = tree::scores(phi.as_ref(), head);
        for (i, row) in block.row_numbers.iter().enumerate() {
            let z = || block.x[i * block.d..(i + 1) * block.d].iter().map(|v| v.to_f64());
            if tree::is_sampled(data, leaf_count, *row) {
                sample.push(z().collect::<Vec<f64>>());
            }
            position += 1;
            let group_code = block.groups.as_ref().map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
            let is_held_out = data.folds.fold_of(*row, group_code)? == reduced_fit.held_out_fold;
            if !is_in_window(position - 1) || is_held_out || is_random_validation_row(data, *row) {
                continue;
            }
            x.extend(z());
            for j in 0..t {
                residuals.push(tree::target(data, block, i, j)? - fitted[(i, j)]);
            }
        }
        Ok(())
    })?;
    let row_count = residuals.len() / t;
    if row_count < 2 {
        return Err(Error::TooFewRows { rows: row_count as u64 });
    }
    let matrix = |values: &[f64]| MatRef::from_row_major_slice(values, row_count, values.len() / row_count).to_owned();
    let stage = data.resources.stage_observer.start_stage("kernel of the leaves", None);
    let (x, residuals) = (matrix(&x), matrix(&residuals));
    let workers = data.resources.workers;
    let kernel = likelihood::learn_from_consecutive_rows(kernel, x, residuals.as_ref(), &*stage, workers)?;
    let tree = Tree::grow(sample, &shortest_lengths(&kernel, data.scaled_source.shape().input_count), leaf_count)?;
    Ok((kernel, tree))
}

/// Returns the shortest length scale of each feature over the terms of the kernel.
fn shortest_lengths(kernel: &Kernel, d: usize) -> Vec<f64> {
    let mut shortest = vec![f64::INFINITY; d];
    for (j, length) in kernel.terms().iter().filter_map(|term| term.column_lengths(d)).flatten() {
        shortest[j] = length.min(shortest[j]);
    }
    shortest
}
