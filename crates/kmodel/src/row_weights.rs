//! Row weights: a row of weight 2 counts as two identical rows.

use crate::{Error, Result};
use kstore::RowBlock;

/// Row weights by position; empty if all weights are 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowWeights(pub Vec<f64>);

impl RowWeights {
    /// Returns the weight of a row; 1 without weights.
    #[inline(always)]
    pub fn get(&self, i: usize) -> f64 {
        self.0.get(i).copied().unwrap_or(1.0)
    }

    /// Returns the sum of the weights of these rows, or their number without weights.
    pub fn weight_sum(&self, rows: impl Iterator<Item = usize>) -> f64 {
        rows.map(|i| self.get(i)).sum()
    }

    /// Returns the weights of the rows at these positions; empty if all weights are 1.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self(rows.iter().filter_map(|i| self.0.get(*i)).copied().collect())
    }
}

/// Returns the weights of the rows of a block; `None` if its rows have no weights.
///
/// # Errors
/// [`Error::InvalidWeight`].
pub fn block_weights<T>(block: &RowBlock<'_, T>) -> Result<Option<Vec<f64>>> {
    (0..block.len()).map(|i| block_weight(block, i)).collect()
}

/// Returns the weight of row `i` of a block, if its rows have weights.
///
/// # Errors
/// [`Error::InvalidWeight`] for a weight that is negative or NaN.
pub fn block_weight<T>(block: &RowBlock<'_, T>, i: usize) -> Result<Option<f64>> {
    match block.weight(i) {
        Some(weight) if weight.is_nan() || weight < 0.0 => {
            Err(Error::InvalidWeight { row: block.row_numbers[i], weight })
        }
        weight => Ok(weight),
    }
}
