//! The kernel of leaves that have a kernel of their own, and the tree of its inputs.

use super::leaves::{self, ReducedFit};
use super::tree::{self, Tree};
use crate::features::FitData;
use crate::{Error, LinearHead, Result};
use faer::{Mat, MatRef};
use kapprox::{Kernel, Real};
use kmodel::likelihood;
use kstore::{LabelCodes, Pass, RowBlock};

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
    let (mut sample, mut x, mut y) = (Vec::new(), Vec::new(), Vec::new());
    let (mut position, random_rows) = (0, leaves::random_rows(data));
    let range = data.scaled_source.range();
    let name = "rows that learn the kernel of the leaves";
    let observer = data.resources.stage_observer.start_stage(name, Some(range.end - range.start));
    let pass = Pass { journal: None, ..data.pass_shape.pass(1, data.resources, &*observer) };
    pass.visit(data.scaled_source, |block: &RowBlock<'_, T>| {
        for (i, row) in block.row_numbers.iter().enumerate() {
            let z = &block.x[i * block.d..(i + 1) * block.d];
            if tree::is_sampled(data, leaf_count, *row) {
                sample.push(z.iter().map(|v| v.to_f64()).collect::<Vec<f64>>());
            }
            position += 1;
            let group_code = block.groups.as_ref().map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
            let is_held_out = data.folds.fold_of(*row, group_code)? == reduced_fit.held_out_fold;
            if !is_in_window(position - 1) || is_held_out || leaves::is_validation_row(random_rows, *row) {
                continue;
            }
            x.extend_from_slice(z);
            for j in 0..t {
                y.push(tree::target(data, block, i, j)?);
            }
        }
        Ok::<(), Error>(())
    })?;
    drop(observer);
    let row_count = y.len() / t;
    if row_count < 2 {
        return Err(Error::TooFewRows { rows: row_count as u64 });
    }
    let residuals = MatRef::from_row_major_slice(&y, row_count, t) - fitted_values(&x, row_count, data, head);
    let x = Mat::from_fn(row_count, x.len() / row_count, |i, j| x[i * (x.len() / row_count) + j].to_f64());
    let stage = data.resources.stage_observer.start_stage("kernel of the leaves", None);
    let workers = data.resources.workers;
    let kernel = likelihood::learn_from_consecutive_rows(kernel, x, residuals.as_ref(), &*stage, workers)?;
    let tree = Tree::grow(sample, &shortest_lengths(&kernel, data.scaled_source.shape().input_count), leaf_count)?;
    Ok((kernel, tree))
}

/// Computes the values of `head` at n scaled rows, before the metric.
fn fitted_values<T: Real>(scaled_rows: &[T], n: usize, data: &FitData<'_, T>, head: &LinearHead) -> Mat<f64> {
    let (inputs, p) = data.map.dims();
    let mut basis_rows = scaled_rows.to_vec();
    if let Some(metric) = data.options.metric.provided() {
        basis_rows.resize(n * inputs, T::default());
        metric.apply(scaled_rows, &mut basis_rows);
    }
    let mut phi = Mat::<T>::zeros(n, p);
    data.map.apply(MatRef::from_row_major_slice(&basis_rows, n, inputs), phi.as_mut(), data.resources.workers);
    let phi = Mat::from_fn(n, head.weights.nrows(), |i, j| phi[(i, j)].to_f64());
    tree::scores(phi.as_ref(), head)
}

/// Returns the shortest length scale of each feature over the terms of the kernel.
fn shortest_lengths(kernel: &Kernel, d: usize) -> Vec<f64> {
    let mut shortest = vec![f64::INFINITY; d];
    for (j, length) in kernel.terms().iter().filter_map(|term| term.column_lengths(d)).flatten() {
        shortest[j] = length.min(shortest[j]);
    }
    shortest
}
