//! The kernel of leaves that have a kernel of their own: its inputs, and the rows from which its
//! length scales are learned.

use super::leaves::{ReducedFit, is_random_validation_row};
use super::tree::{self, Tree};
use crate::features::FitData;
use crate::{LinearHead, Result};
use faer::{Mat, MatRef};
use kapprox::metric::Metric;
use kapprox::{Kernel, Real};
use kmodel::likelihood;
use kstore::{LabelCodes, RowBlock};
use std::borrow::Cow;

/// The kernel is learned from this number of ranges of consecutive rows, and from this number of
/// rows of each range. Neighbours in a series are often neighbours in the table; rows at equal
/// steps would have neither near nor distant pairs.
const WINDOWS: usize = 60;
const WINDOW_ROWS: usize = 25;
/// Maximum number of rows that learn the kernel.
pub(super) const MAX_ROWS: usize = WINDOWS * WINDOW_ROWS;

/// The inputs of the leaves' own kernel: the features before a metric that is a square matrix, so
/// that the kernel has a length scale for each feature. See [`crate::model::Leaves::points`].
pub(super) struct LeafInputs {
    inverse_metric: Option<Metric>,
}

impl LeafInputs {
    pub(super) fn new<T: Real>(data: &FitData<'_, T>) -> Result<Self> {
        let inverse_metric = data.options.metric.provided().map(|metric| metric.pseudo_inverse()).transpose()?;
        Ok(Self { inverse_metric: inverse_metric.flatten() })
    }

    /// Returns the inputs of the rows of a block, d numbers each.
    pub(super) fn of<'a, T: Real>(&self, block: &RowBlock<'a, T>) -> Cow<'a, [T]> {
        let Some(inverse) = &self.inverse_metric else { return Cow::Borrowed(block.x) };
        let mut x = block.x.to_vec();
        inverse.apply(block.x, &mut x);
        Cow::Owned(x)
    }
}

/// Learns the length scales of `kernel` from the residuals of `head`, the fit of the features, at
/// rows that are not validation rows. Also grows a tree of the kernel's inputs, divided by their
/// length scales: then the rows of a leaf are near each other for this kernel. One pass.
pub(super) fn learn<T: Real>(
    kernel: &Kernel,
    inputs: &LeafInputs,
    data: &FitData<'_, T>,
    head: &LinearHead,
    reduced_fit: &ReducedFit,
    leaf_count: usize,
) -> Result<(Kernel, Tree)> {
    let (n, t) = (data.n as usize, data.targets.count());
    let window_count = WINDOWS.min(n / WINDOW_ROWS).max(1);
    let (mut sample, mut x, mut residuals) = (Vec::new(), Vec::new(), Vec::new());
    let (mut position, mut window_sizes) = (0, vec![0; window_count]);
    tree::visit_features(data, "rows that learn the kernel of the leaves", |block, phi| {
        let block_inputs = inputs.of(block);
        let phi = Mat::from_fn(block.len(), head.weights.nrows(), |i, j| phi[(i, j)].to_f64());
        let fitted = tree::scores(phi.as_ref(), head);
        for (i, row) in block.row_numbers.iter().enumerate() {
            let z = || block_inputs[i * block.d..(i + 1) * block.d].iter().map(|v| v.to_f64());
            if tree::is_sampled(data, leaf_count, *row) {
                sample.push(z().collect::<Vec<f64>>());
            }
            let window_size = &mut window_sizes[(position * window_count / n).min(window_count - 1)];
            position += 1;
            let group_code = block.groups.as_ref().map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
            let is_held_out = data.folds.fold_of(*row, group_code)? == reduced_fit.held_out_fold;
            if *window_size == WINDOW_ROWS || is_held_out || is_random_validation_row(data, *row) {
                continue;
            }
            *window_size += 1;
            x.extend(z());
            for j in 0..t {
                residuals.push(tree::target(data, block, i, j)? - fitted[(i, j)]);
            }
        }
        Ok(())
    })?;
    let row_count = residuals.len() / t;
    let matrix = |values: &[f64]| MatRef::from_row_major_slice(values, row_count, values.len() / row_count).to_owned();
    let stage = data.resources.stage_observer.start_stage("kernel of the leaves", None);
    let (x, residuals) = (matrix(&x), matrix(&residuals));
    let workers = data.resources.workers;
    let kernel = likelihood::learn_from_consecutive_rows(kernel, x, residuals.as_ref(), &*stage, workers)?;
    let tree = Tree::grow(sample, &shortest_lengths(&kernel, data.map.dims().0), leaf_count)?;
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
