//! Sums and products of kernels, which are kernels again (Aronszajn, *Theory of Reproducing
//! Kernels*, 1950, sections 6 and 8).
//!
//! The first operand writes its values to the block. Each further operand is computed one panel at
//! a time and combined with the values in the block, so no second block is needed.

use super::fixed_kernel::{FixedKernel, MAX_FEW_ROWS, PreparedPoints};
use super::points::{fill_column, index_chunks, row_slice};
use super::{AnyKernel, KernelFunction, Spectrum, assert_shapes, gradient::WeightedPairs};
use crate::{Real, vectorised};
use faer::{Mat, MatMut, MatRef, prelude::*};
use std::sync::Arc;

/// Number of rows of a panel of an operand after the first. With [`PANEL_COLUMNS`], a panel takes
/// at most 1 MiB.
const PANEL_ROWS: usize = 1024;
/// Number of columns of a panel.
const PANEL_COLUMNS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Sum,
    Product,
}

impl Operation {
    #[inline(always)]
    fn apply<T: Real>(self, a: T, b: T) -> T {
        match self {
            Self::Sum => (a + b).saturate(),
            Self::Product => (a * b).saturate(),
        }
    }
}

/// The kernel Σ k_i or Π k_i, entry by entry.
#[derive(Debug)]
pub(super) struct CombinedKernel {
    pub(super) text: String,
    pub(super) operation: Operation,
    /// At least two kernels.
    pub(super) kernels: Vec<Arc<dyn AnyKernel>>,
}

impl CombinedKernel {
    fn typed<T: Real>(&self) -> Vec<Arc<dyn KernelFunction<T>>> {
        self.kernels.iter().map(|kernel| kernel.typed()).collect()
    }
}

impl<T: Real> KernelFunction<T> for CombinedKernel {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn is_positive_definite(&self) -> bool {
        self.typed::<T>().iter().all(|kernel| kernel.is_positive_definite())
    }

    fn spectrum(&self) -> Option<Spectrum> {
        let parts = self.typed::<T>().iter().map(|kernel| kernel.spectrum()).collect::<Option<Vec<_>>>()?;
        Some(match self.operation {
            Operation::Sum => Spectrum::sum(parts),
            Operation::Product => Spectrum::product(parts),
        })
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        let mut panel = Mat::zeros(PANEL_ROWS.min(x.nrows()), PANEL_COLUMNS.min(z.nrows()));
        let kernels = self.typed::<T>();
        let [first, others @ ..] = &kernels[..] else { return };
        first.block(x, z, out.rb_mut());
        for other in others {
            for (i, rows) in index_chunks(x.nrows(), PANEL_ROWS) {
                for (j, columns) in index_chunks(z.nrows(), PANEL_COLUMNS) {
                    let mut panel = panel.as_mut().submatrix_mut(0, 0, rows, columns);
                    other.block(x.subrows(i, rows), z.subrows(j, columns), panel.rb_mut());
                    combine_blocks(self.operation, out.rb_mut().submatrix_mut(i, j, rows, columns), panel.rb());
                }
            }
        }
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        let kernels = self.typed::<T>();
        let (first, others) = kernels.split_first()?;
        let panels = |kernel: &Arc<dyn KernelFunction<T>>| {
            let kernel = kernel.clone();
            index_chunks(z.nrows(), PANEL_COLUMNS)
                .map(move |(j, columns)| FixedKernel::new(kernel.clone(), z.subrows(j, columns)))
        };
        let (first, others) = (FixedKernel::new(first.clone(), z), others.iter().flat_map(panels).collect());
        Some(Box::new(CombinedColumns { operation: self.operation, first_operand: first, other_operands: others }))
    }

    fn is_differentiable(&self) -> bool {
        self.typed::<T>().iter().all(|kernel| kernel.is_differentiable())
    }

    /// The gradient of a factor is weighted with the values of all other factors.
    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        let pairs = WeightedPairs::new(x, z, weights, &out);
        if !KernelFunction::<T>::is_differentiable(self) {
            return false;
        }
        let kernels = self.typed::<T>();
        match self.operation {
            Operation::Sum => kernels.iter().for_each(|kernel| {
                kernel.gradient(x, z, weights, out.rb_mut());
            }),
            Operation::Product => pairs.row_tiles().for_each(|(i, strip)| {
                let mut out = out.rb_mut().subrows_mut(i, strip.x.nrows());
                strip.column_tiles().for_each(|(_, pairs)| product_gradient(&kernels, pairs, out.rb_mut()));
            }),
        }
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        let (kernels, mut operand_diagonal) = (self.typed::<T>(), vec![0.0; out.len()]);
        let [first, others @ ..] = &kernels[..] else { return };
        first.diag(x, out);
        for other in others {
            other.diag(x, &mut operand_diagonal);
            for (out, &operand_value) in out.iter_mut().zip(&operand_diagonal) {
                *out = self.operation.apply(*out, operand_value);
            }
        }
    }
}

/// Adds the gradient of the product of `kernels` for a tile of pairs.
fn product_gradient<T: Real>(
    kernels: &[Arc<dyn KernelFunction<T>>],
    pairs: WeightedPairs<'_, T>,
    mut out: MatMut<'_, T>,
) {
    let WeightedPairs { x, z, weights } = pairs;
    let compute_block = |kernel: &Arc<dyn KernelFunction<T>>| {
        let mut values = Mat::zeros(x.nrows(), z.nrows());
        kernel.block(x, z, values.as_mut());
        values
    };
    let blocks: Vec<_> = kernels.iter().map(compute_block).collect();
    for (factor_index, kernel) in kernels.iter().enumerate() {
        let mut weights = weights.to_owned();
        for (_, block) in blocks.iter().enumerate().filter(|(block_index, _)| *block_index != factor_index) {
            combine_blocks(Operation::Product, weights.as_mut(), block.as_ref());
        }
        kernel.gradient(x, z, weights.as_ref(), out.rb_mut());
    }
}

/// Fixed points, prepared as a whole for the first operand and panel by panel for the other
/// operands, as [`CombinedKernel`] does in its blocks. A kernel subtracts the mean of the points of
/// a call, so another split of the points would change the bits.
struct CombinedColumns<T: Real> {
    operation: Operation,
    first_operand: FixedKernel<T>,
    other_operands: Vec<FixedKernel<T>>,
}

impl<T: Real> PreparedPoints<T> for CombinedColumns<T> {
    fn scratch_len(&self) -> usize {
        let operand_scratch =
            self.other_operands.iter().chain([&self.first_operand]).map(PreparedPoints::scratch_len).max();
        MAX_FEW_ROWS * PANEL_COLUMNS + operand_scratch.unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        self.other_operands.iter().chain([&self.first_operand]).map(PreparedPoints::bytes).sum()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (b, m) = (x.nrows(), z.nrows());
        let (panel, scratch) = scratch.split_at_mut(MAX_FEW_ROWS * PANEL_COLUMNS);
        self.first_operand.compute_rows(x, z, out, scratch);
        for (other, (j, columns)) in self.other_operands.iter().zip(index_chunks(m, PANEL_COLUMNS).cycle()) {
            let panel = &mut panel[..b * columns];
            other.compute_rows(x, z.subrows(j, columns), panel, scratch);
            for (out, panel) in out.chunks_exact_mut(m).zip(panel.chunks_exact(columns)) {
                combine_slices(self.operation, &mut out[j..j + columns], panel);
            }
        }
    }
}

fn combine_slices<T: Real>(operation: Operation, out: &mut [T], panel: &[T]) {
    vectorised!({
        for (out, &panel) in out.iter_mut().zip(panel) {
            *out = operation.apply(*out, panel);
        }
    });
}

fn combine_blocks<T: Real>(operation: Operation, out: MatMut<'_, T>, panel: MatRef<'_, T>) {
    let mut out_buffer = Vec::new();
    let mut panel_buffer = Vec::new();
    for (out, panel) in out.col_iter_mut().zip(panel.col_iter()) {
        let panel = row_slice(panel.as_mat().transpose(), 0, &mut panel_buffer);
        fill_column(out, &mut out_buffer, |out| combine_slices(operation, out, panel));
    }
}
