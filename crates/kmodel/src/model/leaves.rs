//! Local models with the exact kernel in the leaves of a tree, added to a model of all rows.
//!
//! ```text
//! f(x) = f₀(x) + Σ_l w_l(x) Σ_{i in leaf l} α_i k(x_i, x)
//! ```
//!
//! f₀ is the model of all rows, with basis functions b(x); w_l(x) is the weight of leaf l of L, and
//! x_i and α_i are the rows of the leaf and their dual coefficients. Node j of a complete binary
//! tree has a function s_j(x) = a_jᵀb(x) + c_j and a half-width h_j. The node passes the fraction
//! (1 + s_j/h_j)/2 of a row, clipped to [0, 1], to the second child 2j + 2 and the remaining
//! fraction to the first child 2j + 1. The weight w_l is the product of the fractions on the path
//! to leaf l. The weights of a row sum to 1, most rows are in one leaf, and f is continuous. If the
//! leaves have their own kernel, s_j(x) = a_jᵀx + c_j is a function of the inputs of this kernel.
//!
//! *Flops* per row: the flops of f₀; 2m per node for m basis functions; and the flops of the kernel
//! values, with the rows of the leaves of positive weight. *Bytes*: the rows of all leaves.

use super::clipped_basis::ClippedBasis;
use super::outputs::{StripBuffers, linear_scores};
use super::{LinearHead, Model, STRIP_ROWS, needs_f64_for, predict::has_overflow};
use crate::{Result, linalg::strips::BufferPool};
use faer::{Mat, MatMut, MatRef};
use kapprox::landmark::{LandmarkSet, NO_ROW};
use kapprox::map::KernelSections;
use kapprox::{FeatureMap, Real};
use kstore::Workers;
use std::ops::{Deref, Range};

/// The tree and its local models.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaves<T> {
    /// Functions of the nodes: m x (L − 1) weights on the basis of the model, or d x (L − 1)
    /// weights on the inputs of the leaves' own kernel; and L − 1 intercepts.
    pub splits: LinearHead,
    /// Half-widths of the nodes, length L − 1.
    pub half_widths: Vec<f64>,
    /// Number of rows of each of the L leaves.
    pub row_counts: Vec<usize>,
    /// Rows of all leaves, leaf by leaf, scaled and transformed by the metric. The inputs of the
    /// leaves' own kernel are the scaled rows before the metric, and new rows are not clipped for
    /// it: far from the training rows the leaves add nothing.
    pub points: Vec<T>,
    /// Dual coefficients α of the rows in `points`, one row each, with t columns.
    pub coefficients: Mat<f64>,
}

impl<T: Real> Leaves<T> {
    /// Returns the range of each leaf's rows.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let row_ranges = self.row_counts.iter().scan(0, |start, count| {
            *start += count;
            Some(*start - count..*start)
        });
        row_ranges.into_iter()
    }

    /// Returns true if the leaves need kernel values in f64, for targets with the root mean squared
    /// errors `errors`.
    pub fn needs_f64(&self, errors: &[f64]) -> bool {
        let leaf_coefficients = |rows: Range<usize>| self.coefficients.as_ref().subrows(rows.start, rows.len());
        self.ranges().any(|rows| needs_f64_for::<T>(leaf_coefficients(rows), errors))
    }

    pub(super) fn into_f64(self) -> Leaves<f64> {
        let Self { splits, half_widths: widths, row_counts: counts, points, coefficients } = self;
        let points = points.into_iter().map(kstore::Float::to_f64).collect();
        Leaves { splits, half_widths: widths, row_counts: counts, points, coefficients }
    }

    pub(super) fn bytes(&self) -> usize {
        let f64_count = self.splits.weights.nrows() * self.half_widths.len() + 2 * self.half_widths.len();
        size_of::<T>() * self.points.len() + 8 * (f64_count + self.coefficients.nrows() * self.coefficients.ncols())
    }

    /// Computes the values of the node functions at inputs `x` (b x d) of the leaves' own kernel,
    /// b x (L − 1), row-major.
    fn node_values(&self, x: MatRef<'_, T>) -> Vec<f64> {
        let LinearHead { weights, intercept } = &self.splits;
        let value = |i: usize, j: usize| {
            let products = weights.col(j).iter().zip(x.row(i).iter()).map(|(weight, x)| weight * x.to_f64());
            intercept[j] + products.sum::<f64>()
        };
        (0..x.nrows()).flat_map(|i| (0..intercept.len()).map(move |j| (i, j))).map(|(i, j)| value(i, j)).collect()
    }

    /// Calls `visitor(leaf, weight)` for every leaf that has a positive weight for a row.
    /// `node_values` are the values s_j of the node functions at the row.
    pub fn for_each_leaf_weight(half_widths: &[f64], node_values: &[f64], mut visitor: impl FnMut(usize, f64)) {
        let mut stack = vec![(0, 1.0)];
        while let Some((node, weight)) = stack.pop() {
            let Some(half_width) = half_widths.get(node) else {
                visitor(node - half_widths.len(), weight);
                continue;
            };
            let second_fraction = match *half_width > 0.0 {
                true => (0.5 + 0.5 * node_values[node] / half_width).clamp(0.0, 1.0),
                false => f64::from(u8::from(node_values[node] > 0.0)),
            };
            let children = [(2 * node + 2, weight * second_fraction), (2 * node + 1, weight * (1.0 - second_fraction))];
            stack.extend(children.into_iter().filter(|(_, child_weight)| *child_weight > 0.0));
        }
    }
}

/// The basis functions of a model, and the kernel functions of every leaf. [`Model::functions`]
/// returns them.
#[derive(Debug)]
pub struct BasisFunctions<T: Real> {
    basis: Box<dyn FeatureMap<T>>,
    leaves: Vec<Box<dyn FeatureMap<T>>>,
}

impl<T: Real> BasisFunctions<T> {
    /// Returns the bytes of the basis and of the leaves, without the buffers for rows.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves.iter().chain([&self.basis]).map(|part| part.footprint().fixed).sum()
    }
}

impl<T: Real> Deref for BasisFunctions<T> {
    type Target = dyn FeatureMap<T>;

    fn deref(&self) -> &Self::Target {
        &*self.basis
    }
}

/// The rows with a positive weight for a leaf.
#[derive(Default)]
struct LeafRows {
    leaf: usize,
    /// Index and weight of each row.
    weighted_rows: Vec<(usize, f64)>,
    /// Scores of these rows in the leaf.
    scores: Vec<f64>,
}

impl<T: Real> Model<T> {
    pub(super) fn with_leaves(&self, basis: Box<dyn FeatureMap<T>>) -> Result<BasisFunctions<T>> {
        let Some(leaves) = &self.leaves else {
            return Ok(BasisFunctions { basis, leaves: Vec::new() });
        };
        let d = self.row_length();
        let kernel = match &self.metadata.leaf_kernel {
            Some(kernel) => self.metadata.parse_kernel(kernel)?.build()?,
            None => self.any_kernel()?,
        };
        let leaf_functions = |rows: Range<usize>| -> Box<dyn FeatureMap<T>> {
            let points = leaves.points[rows.start * d..rows.end * d].to_vec();
            let landmarks = LandmarkSet { points, row_numbers: vec![NO_ROW; rows.len()], d, passes: 0, evaluations: 0 };
            Box::new(KernelSections::new(&kernel, landmarks))
        };
        let leaf_functions = leaves.ranges().map(leaf_functions).collect();
        if self.metadata.leaf_kernel.is_none() {
            return Ok(BasisFunctions { basis, leaves: leaf_functions });
        }
        let (ranges, metric, rounds_to_f32) = (self.scaled_ranges(), self.metric.clone(), self.rounds_to_f32());
        let basis = ClippedBasis { basis, ranges, metric, rounds_to_f32, input_count: d };
        Ok(BasisFunctions { basis: Box::new(basis), leaves: leaf_functions })
    }

    /// Adds the weighted scores of the leaves to `scores` (b x t). `x` contains the b rows, and
    /// `node_values` the values of the L − 1 node functions (b x (L − 1), row-major), unless the
    /// leaves have their own kernel. The sum of a row does not depend on the other rows.
    pub(crate) fn add_leaves(
        &self,
        functions: &BasisFunctions<T>,
        x: MatRef<'_, T>,
        node_values: &[f64],
        mut scores: MatMut<'_, f64>,
        workers: &Workers,
    ) {
        let Some(leaves) = &self.leaves else { return };
        let (node_count, t, d) = (leaves.half_widths.len(), scores.ncols(), x.ncols());
        let own_node_values = self.metadata.leaf_kernel.is_some().then(|| leaves.node_values(x));
        let node_values = own_node_values.as_deref().unwrap_or(node_values);
        let mut leaf_rows: Vec<LeafRows> =
            (0..=node_count).map(|leaf| LeafRows { leaf, ..LeafRows::default() }).collect();
        for i in 0..x.nrows() {
            let row_values = &node_values[i * node_count..(i + 1) * node_count];
            Leaves::<T>::for_each_leaf_weight(&leaves.half_widths, row_values, |leaf, weight| {
                leaf_rows[leaf].weighted_rows.push((i, weight))
            });
        }
        leaf_rows.retain(|rows| !rows.weighted_rows.is_empty() && leaves.row_counts[rows.leaf] > 0);
        let (ranges, pool): (Vec<_>, _) = (leaves.ranges().collect(), BufferPool::default());
        let zeros = vec![0.0; t];
        workers.for_each(leaf_rows.iter_mut().collect(), |LeafRows { leaf, weighted_rows, scores: leaf_scores }| {
            let (leaf_functions, range) = (&functions.leaves[*leaf], ranges[*leaf].clone());
            let alpha = leaves.coefficients.as_ref().subrows(range.start, range.len()).to_owned();
            pool.with_buffer(
                StripBuffers::default,
                |StripBuffers { basis_values: block, panel_f64: block_f64, sums, .. }: &mut StripBuffers<T>| {
                    for rows in weighted_rows.chunks(STRIP_ROWS) {
                        let leaf_x: Vec<T> = rows.iter().flat_map(|(i, _)| x.row(*i).iter().copied()).collect();
                        block.resize(STRIP_ROWS * range.len(), T::default());
                        let block = &mut block[..rows.len() * range.len()];
                        let k = MatMut::from_column_major_slice_mut(block, rows.len(), range.len());
                        let leaf_x = MatRef::from_row_major_slice(&leaf_x, rows.len(), d);
                        leaf_functions.apply(leaf_x, k, &Workers::sequential());
                        let k = MatRef::from_column_major_slice(block, rows.len(), range.len());
                        linear_scores(&alpha, &zeros, k, block_f64, sums);
                        for i in 0..rows.len() {
                            let overflows = has_overflow(k.row(i).iter().copied());
                            let sums = (0..t).map(|j| if overflows { f64::INFINITY } else { sums[j * rows.len() + i] });
                            leaf_scores.extend(sums);
                        }
                    }
                },
            );
        });
        for LeafRows { weighted_rows, scores: leaf_scores, .. } in leaf_rows {
            for ((i, weight), row_scores) in weighted_rows.into_iter().zip(leaf_scores.chunks_exact(t)) {
                row_scores.iter().enumerate().for_each(|(j, score)| scores[(i, j)] += weight * score);
            }
        }
    }
}
