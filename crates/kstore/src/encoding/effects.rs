//! Target encoding of text columns with many values: one feature for each output, instead of one
//! feature for each of thousands of values.
//!
//! The effect of a value is a difference of two means of the target: its mean over the rows with
//! this value, minus its mean over all rows. The difference is divided by the standard deviation of
//! the target, and shrunk towards 0 if few rows have the value (Micci-Barreca, "A preprocessing
//! scheme for high-cardinality categorical attributes", SIGKDD Explorations 3, 2001). The amount of
//! shrinkage is estimated from the variance between values and the variance within values, as for a
//! random effect in one-way analysis of variance (Searle, Casella, McCulloch, "Variance
//! components", 1992, section 3.6). Effects are not rescaled afterwards: a feature with standard
//! deviation 0.1 keeps this standard deviation in the kernel, so an uninformative column has little
//! influence.
//!
//! The effect in a training row must not use the row's own target. Each row is therefore assigned
//! to a fold by its row number, and gets the effects that are estimated from the rows of the other
//! folds (out-of-fold encoding, the cross-fitting of scikit-learn's `TargetEncoder`). New rows get
//! the effects that are estimated from all rows.

use crate::key::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// Number of folds of the rows; 5 is also the default of scikit-learn's `TargetEncoder`.
pub(crate) const FOLD_COUNT: usize = 5;

/// The effects of the values of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Suffix of the column's name for each output: empty for a single output, otherwise the
    /// target's name or the label of the class.
    pub(crate) outputs: Vec<String>,
    /// Digests of the texts of the values, in ascending order.
    pub(crate) values: Vec<u64>,
    /// Effect of each value on each output, row-major.
    pub(crate) effects: Vec<f64>,
    /// For each fold, the effects that are estimated without the rows of the fold. They are for the
    /// training rows, and are not stored in a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) folds: Vec<Vec<f64>>,
}

impl Effects {
    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.effects.len() + self.folds.iter().map(Vec::len).sum::<usize>();
        8 * numbers + 32 * self.values.len()
    }

    /// Returns the effects of a value on all outputs, for the stored row `row`. For a training row,
    /// the effects are estimated without the rows of its fold.
    pub(crate) fn for_row(&self, value_index: usize, row: u64) -> &[f64] {
        let t = self.outputs.len();
        let effects = self.folds.get(fold_of_row(row)).unwrap_or(&self.effects);
        &effects[value_index * t..][..t]
    }

    pub(crate) fn is_valid(&self) -> bool {
        let effect_count = self.outputs.len() * self.values.len();
        let are_finite =
            |effects: &Vec<f64>| effects.len() == effect_count && effects.iter().all(|effect| effect.is_finite());
        self.values.windows(2).all(|pair| pair[0] < pair[1])
            && are_finite(&self.effects)
            && self.folds.iter().all(are_finite)
            && [0, FOLD_COUNT].contains(&self.folds.len())
    }
}

pub(crate) fn fold_of_row(row: u64) -> usize {
    Stream::new(0, Purpose::TargetEncoding, 0).uniform_below(row, FOLD_COUNT as u64) as usize
}
