//! The tree that splits rows into leaves, and the pass that assigns each row to its leaves. The
//! tree is grown from a sample of the rows. The same pass computes the residuals of the ridge
//! regression on features.

use super::leaves::ReducedFit;
use crate::features::FitData;
use crate::model::Leaves;
use crate::{LinearHead, Result, Targets};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::{Real, decompose::symmetric_eigen};
use kstore::key::{Purpose, Stream};
use kstore::{LabelCodes, Pass, RowBlock};

/// Fraction of a node's rows that belong to both children.
const OVERLAP: f64 = 0.06;

/// Minimum number of rows of the sample from which the tree is grown.
const MIN_TREE_SAMPLE_ROWS: usize = 20_000;
/// Number of rows of the sample per leaf, if this gives more rows.
const SAMPLE_ROWS_PER_LEAF: usize = 400;
/// Maximum number of leading features from which the tree is grown.
const LEADING_FEATURES: usize = 256;

/// Calls `visitor` with every block of b rows, in order, and with its features (b x p). With
/// `before_metric` the blocks have the scaled rows before the metric.
pub(super) fn visit_features<T: Real>(
    data: &FitData<'_, T>,
    name: &str,
    before_metric: bool,
    mut visitor: impl FnMut(&RowBlock<'_, T>, MatRef<'_, T>) -> Result<()> + Send,
) -> Result<()> {
    let source = if before_metric { data.scaled_source } else { data.source };
    let metric = data.options.metric.provided().filter(|_| before_metric);
    let range = source.range();
    let observer = data.resources.stage_observer.start_stage(name, Some(range.end - range.start));
    let pass = Pass { journal: None, ..data.pass_shape.pass(1, data.resources, &*observer) };
    let p = data.map.dims().1;
    let (mut phi, mut after_metric) = (Vec::new(), Vec::new());
    pass.visit(source, |block: &RowBlock<'_, T>| {
        let b = block.len();
        phi.resize(b * p, T::default());
        let inputs = match metric {
            Some(metric) => {
                after_metric.resize(b * metric.output_count(), T::default());
                metric.apply(block.x, &mut after_metric);
                &after_metric[..]
            }
            None => block.x,
        };
        let x = MatRef::from_row_major_slice(inputs, b, data.map.dims().0);
        data.map.apply(x, MatMut::from_column_major_slice_mut(&mut phi, b, p), data.resources.workers);
        visitor(block, MatRef::from_column_major_slice(&phi, b, p))
    })?;
    Ok(())
}

/// Returns true for rows of the sample from which a tree with `leaf_count` leaves is grown.
pub(super) fn is_sampled<T: Real>(data: &FitData<'_, T>, leaf_count: usize, row: u64) -> bool {
    let sample_size = MIN_TREE_SAMPLE_ROWS.max(SAMPLE_ROWS_PER_LEAF * leaf_count) as f64;
    Stream::new(data.options.seed, Purpose::PartitionTree, 0).uniform(row) * data.n as f64 <= sample_size
}

/// Returns the leading features of the sample from which a tree with `leaf_count` leaves is grown.
pub(super) fn sample_features<T: Real>(data: &FitData<'_, T>, r: usize, leaf_count: usize) -> Result<Vec<Vec<f64>>> {
    let mut sample = Vec::new();
    if leaf_count == 1 {
        return Ok(sample);
    }
    let q = LEADING_FEATURES.min(r);
    visit_features(data, "tree of the leaves", false, |block, phi| {
        let rows = block.row_numbers.iter().enumerate().filter(|(_, row)| is_sampled(data, leaf_count, **row));
        sample.extend(rows.map(|(i, _)| (0..q).map(|j| phi[(i, j)].to_f64()).collect()));
        Ok(())
    })?;
    Ok(sample)
}

/// Computes the scores X W + c of some rows X (b x r), b x t.
pub(super) fn scores(x: MatRef<'_, f64>, LinearHead { weights, intercept }: &LinearHead) -> Mat<f64> {
    let mut scores = Mat::from_fn(x.nrows(), intercept.len(), |_, j| intercept[j]);
    matmul(scores.as_mut(), Accum::Add, x, weights.as_ref(), 1.0, Par::Seq);
    scores
}

/// Returns target j of row i of a block.
pub(super) fn target<T: Real>(data: &FitData<'_, T>, block: &RowBlock<'_, T>, i: usize, j: usize) -> Result<f64> {
    match data.targets {
        Targets::Numeric { .. } => Ok(block.y[i * block.t + j]),
        classes @ Targets::Classes(_) => classes.value(block, i, j),
    }
}

/// A complete binary tree on q coordinates of the rows: the leading features, or the inputs of the
/// leaves' own kernel. Node j sends a row z to its left child if `directions[j]`ᵀz +
/// `intercepts[j]` < 0; within ± `half_widths[j]` of 0, a row belongs to both children.
#[derive(Default)]
pub(super) struct Tree {
    /// Vectors of q numbers, one for each node, level by level.
    directions: Vec<Vec<f64>>,
    intercepts: Vec<f64>,
    pub(super) half_widths: Vec<f64>,
}

impl Tree {
    /// Splits the rows of `sample`, q coordinates each, into `leaf_count` leaves. Each node splits
    /// its rows along the leading principal component of the coordinates, divided by `scales`.
    pub(super) fn grow(mut sample: Vec<Vec<f64>>, scales: &[f64], leaf_count: usize) -> Result<Self> {
        let mut tree = Self::default();
        for row in &mut sample {
            row.iter_mut().zip(scales).for_each(|(z, scale)| *z /= scale);
        }
        let mut node_rows: Vec<Vec<usize>> = vec![(0..sample.len()).collect()];
        while tree.directions.len() < leaf_count - 1 {
            // nodes of a level, from first to last
            let mut next_level = Vec::with_capacity(2 * node_rows.len());
            for row_indices in node_rows {
                let mut direction = leading_component(&sample, &row_indices)?;
                let score = |i: usize| sample[i].iter().zip(&direction).map(|(v, a)| v * a).sum::<f64>();
                let mut scores: Vec<(usize, f64)> = row_indices.into_iter().map(|i| (i, score(i))).collect();
                scores.sort_by(|a, b| a.1.total_cmp(&b.1));
                let (threshold, half_width) = median_split(&scores);
                direction.iter_mut().zip(scales).for_each(|(a, scale)| *a /= scale);
                tree.directions.push(direction);
                tree.intercepts.push(-threshold);
                tree.half_widths.push(half_width);
                let middle = scores.len() / 2;
                next_level.push(scores[..middle].iter().map(|(i, _)| *i).collect());
                next_level.push(scores[middle..].iter().map(|(i, _)| *i).collect());
            }
            node_rows = next_level;
        }
        Ok(tree)
    }

    /// Returns the functions of the nodes, with weights for `count` ≥ q coordinates.
    pub(super) fn splits(&self, count: usize) -> LinearHead {
        let weight = |i: usize, j: usize| self.directions[j].get(i).copied().unwrap_or(0.0);
        LinearHead { weights: Mat::from_fn(count, self.directions.len(), weight), intercept: self.intercepts.clone() }
    }

    /// Collects the rows of every leaf, with their residuals under two fits of the features: `head`
    /// and `reduced_fit`. If the leaves have their own kernel, the coordinates of the tree are the
    /// scaled rows, or else the features.
    pub(super) fn assign_rows<T: Real>(
        &self,
        data: &FitData<'_, T>,
        head: &LinearHead,
        reduced_fit: &ReducedFit,
        has_own_kernel: bool,
        leaf_rows: usize,
    ) -> Result<Vec<Leaf<T>>> {
        let (t, r, node_count) = (data.targets.count(), head.weights.nrows(), self.half_widths.len());
        let mut leaves: Vec<Leaf<T>> = (0..=node_count).map(|_| Leaf { t, ..Leaf::default() }).collect();
        let splits = self.splits(self.directions.first().map_or(0, Vec::len));
        visit_features(data, "rows of the leaves", has_own_kernel, |block, phi| {
            let (b, d) = (block.len(), block.d);
            let phi = Mat::from_fn(b, r, |i, j| phi[(i, j)].to_f64());
            let fitted_values = [head, &reduced_fit.head].map(|head| scores(phi.as_ref(), head));
            let coordinate_count = splits.weights.nrows();
            let coordinates = match has_own_kernel {
                true => Mat::from_fn(b, coordinate_count, |i, j| block.x[i * d + j].to_f64()),
                false => phi.subcols(0, coordinate_count).to_owned(),
            };
            let node_scores = scores(coordinates.as_ref(), &splits);
            for i in 0..b {
                let mut residuals = [vec![0.0; t], vec![0.0; t]];
                for j in 0..t {
                    let y = target(data, block, i, j)?;
                    for (residuals, fitted) in residuals.iter_mut().zip(&fitted_values) {
                        residuals[j] = y - fitted[(i, j)];
                    }
                }
                let group_code = block.groups.as_ref().map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
                let fold = data.folds.fold_of(block.row_numbers[i], group_code)?;
                let node_values: Vec<f64> = node_scores.row(i).iter().copied().collect();
                Leaves::<T>::for_each_leaf_weight(&self.half_widths, &node_values, |leaf, weight| {
                    leaves[leaf].x.extend_from_slice(&block.x[i * d..(i + 1) * d]);
                    leaves[leaf].residuals.extend_from_slice(&residuals[0]);
                    leaves[leaf].reduced_residuals.extend_from_slice(&residuals[1]);
                    leaves[leaf].weights.push(weight);
                    leaves[leaf].row_numbers.push(block.row_numbers[i]);
                    leaves[leaf].is_held_out.push(fold == reduced_fit.held_out_fold);
                });
            }
            Ok(())
        })?;
        leaves.iter_mut().for_each(|leaf| leaf.subsample(MAX_ROW_RATIO * leaf_rows));
        Ok(leaves)
    }
}

/// Computes the leading principal component of some rows of the sample, q numbers.
fn leading_component(sample: &[Vec<f64>], row_indices: &[usize]) -> Result<Vec<f64>> {
    let (n, q) = (row_indices.len().max(1) as f64, sample.first().map_or(0, Vec::len));
    let mut mean = vec![0.0; q];
    row_indices.iter().for_each(|i| mean.iter_mut().zip(&sample[*i]).for_each(|(mean, v)| *mean += v / n));
    let centred = Mat::from_fn(row_indices.len(), q, |i, j| sample[row_indices[i]][j] - mean[j]);
    let mut covariance = Mat::zeros(q, q);
    matmul(covariance.as_mut(), Accum::Replace, centred.transpose(), centred.as_ref(), 1.0 / n, Par::Seq);
    let (_, vectors) = symmetric_eigen(covariance.as_ref())?;
    Ok(vectors.col(q - 1).iter().copied().collect())
}

/// Returns the median of ascending scores, and half the width of the band around it that contains
/// the fraction [`OVERLAP`] of the scores.
fn median_split(scores: &[(usize, f64)]) -> (f64, f64) {
    let quantile = |fraction: f64| {
        let index = (fraction * scores.len() as f64) as usize;
        scores.get(index.min(scores.len().saturating_sub(1))).map_or(0.0, |(_, score)| *score)
    };
    (quantile(0.5), 0.5 * (quantile(0.5 + 0.5 * OVERLAP) - quantile(0.5 - 0.5 * OVERLAP)).max(0.0))
}

/// Maximum number of rows of a leaf, as a multiple of the requested number.
pub(super) const MAX_ROW_RATIO: usize = 2;

#[derive(Default)]
pub(super) struct Leaf<T> {
    /// Rows as the kernel reads them, d numbers each.
    pub(super) x: Vec<T>,
    /// Residuals of the fit of the features, t numbers per row.
    pub(super) residuals: Vec<f64>,
    /// Residuals of the fit of the features to the rows outside the held-out fold, t numbers per
    /// row.
    pub(super) reduced_residuals: Vec<f64>,
    /// Weight of the leaf in the prediction of each row.
    pub(super) weights: Vec<f64>,
    /// Stored row numbers.
    pub(super) row_numbers: Vec<u64>,
    /// True for rows of the held-out fold.
    pub(super) is_held_out: Vec<bool>,
    pub(super) t: usize,
}

impl<T: Real> Leaf<T> {
    pub(super) fn len(&self) -> usize {
        self.row_numbers.len()
    }

    /// Reduces the leaf to at most `max_rows` evenly spaced rows. A leaf may be larger than
    /// requested, because a node never separates equal rows.
    pub(super) fn subsample(&mut self, max_rows: usize) {
        let (n, d) = (self.len(), self.x.len() / self.len().max(1));
        if n <= max_rows {
            return;
        }
        let indices: Vec<usize> = (0..max_rows).map(|i| i * n / max_rows).collect();
        self.x = indices.iter().flat_map(|i| &self.x[i * d..(i + 1) * d]).copied().collect();
        for residuals in [&mut self.residuals, &mut self.reduced_residuals] {
            *residuals = indices.iter().flat_map(|i| &residuals[i * self.t..(i + 1) * self.t]).copied().collect();
        }
        self.weights = indices.iter().map(|i| self.weights[*i]).collect();
        self.row_numbers = indices.iter().map(|i| self.row_numbers[*i]).collect();
        self.is_held_out = indices.iter().map(|i| self.is_held_out[*i]).collect();
    }

    /// Returns the m rows whose index passes `is_selected` (d x m), and their entries of
    /// `residuals` (m x t).
    pub(crate) fn selected_rows(&self, is_selected: impl Fn(usize) -> bool, residuals: &[f64]) -> (Mat<f64>, Mat<f64>) {
        let (d, indices) =
            (self.x.len() / self.len().max(1), (0..self.len()).filter(|i| is_selected(*i)).collect::<Vec<_>>());
        let x = Mat::from_fn(d, indices.len(), |j, i| self.x[indices[i] * d + j].to_f64());
        let leaf_residuals = Mat::from_fn(indices.len(), self.t, |i, j| residuals[indices[i] * self.t + j]);
        (x, leaf_residuals)
    }
}
