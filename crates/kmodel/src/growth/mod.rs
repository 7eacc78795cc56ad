//! Whether a fit that grows still represents its rows: the part of the new rows' kernel that the
//! landmarks miss, and values outside the ranges of the fit.
//!
//! A fit that learns rows after its landmarks were chosen keeps its landmarks and its scaling. Let
//! φ(x) be the features of a row, and r(x) = k(x, x) − ‖φ(x)‖² its residual: the squared norm of
//! the part of k(x, ·) outside the span of the landmarks, on which no prediction depends. The
//! **missed fraction** of some rows is Σ r(x) / Σ k(x, x).
//!
//! The certificate, the missed fraction of the rows of the fit, is too small for a comparison with
//! new rows: the landmarks are rows of the fit and have the residual 0, and a scheme chooses
//! landmarks where residuals would be large. The comparison therefore counts every landmark with
//! the residual that the other landmarks would leave of it, 1/(K⁻¹)_ii for the kernel matrix K of
//! the landmarks. This is the leave-one-out estimate of the missed fraction of new rows: exact if
//! the scheme would choose the other landmarks also without this row. (Measured on 8 tables of 300
//! to 1,000 rows with 50 to 300 landmarks: new rows of the same distribution have 0.8 to 1.4 times
//! the odds of this estimate, and 1.1 to 28 times the odds of the mean over the other rows.)
//!
//! The odds of a missed fraction m are m/(1 − m): the missed part for each unit of the part that
//! the features represent. A fit is **outgrown** if the odds of the new rows, at a missed fraction
//! that is lower by three standard errors, are at least twice the odds of the rows of the fit, and
//! if this lower missed fraction is at least 0.01. Under the same distribution this happens about
//! once in a thousand times because of the standard error alone, and less often because of the
//! factor. The standard error assumes independent rows; the factor leaves room for dependent rows.
//!
//! **Ranges**: let n rows of the fit and N new rows be exchangeable. k or more new rows exceed the
//! largest value of the fit with probability ∏_{i<k} (N − i)/(N + n − i) at most, whatever the
//! distribution. A range has **moved** if this probability, for one side of the range and times
//! the number of sides of all columns, is below 0.001.
//!
//! *Memory*: some numbers for each column. *Time*: a few operations per feature of a row.

mod ranges;
mod report;
mod residuals;

pub use ranges::MovedRange;
#[doc(hidden)]
pub use ranges::{OutsideCounts, RangeReduction, moved_ranges};
pub use report::{GrowthReport, MissedTrace, RangeReport, UnseenReport, Verdict};
pub(crate) use residuals::inverse_squared_norms;
#[doc(hidden)]
pub use residuals::{ResidualSums, landmark_residual_bytes, landmark_residual_sum};

use kstore::Merge;
use serde::{Deserialize, Serialize};

/// The rows that a fit has learned since its landmarks were chosen, compared with the rows of the
/// fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Number of new rows.
    pub rows: u64,
    /// Number of rows of the fit.
    pub fit_rows: u64,
    /// Missed fraction of the rows of the fit, by leave-one-out for the landmarks; `None` if the
    /// map is not a projection, or if the rows of the fit are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit_missed: Option<f64>,
    /// Residuals of the new rows; `None` if the map is not a projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub residuals: Option<ResidualSums>,
    /// Number of columns with a range; 0 if the model stores no ranges.
    pub columns: usize,
    /// Columns with new rows outside the range of the fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<MovedRange>,
    /// Columns with values that did not occur in the fit, and the number of rows with such a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<(String, u64)>,
}

impl Growth {
    /// Returns the missed fraction of the rows of a fit by leave-one-out: `missed` is their missed
    /// fraction with landmarks of residual 0, `trace` is Σ k(x, x), and `landmark_residuals` is the
    /// result of [`landmark_residual_sum`].
    #[doc(hidden)]
    pub fn leave_one_out_fraction(missed: f64, trace: f64, landmark_residuals: f64) -> f64 {
        let added = if trace > 0.0 { landmark_residuals / trace } else { 0.0 };
        (missed + added).clamp(0.0, 1.0)
    }

    /// Returns the comparison with its sums rounded to six significant digits, so that the order in
    /// which rows were summed has no effect.
    #[doc(hidden)]
    #[must_use]
    pub fn rounded(self) -> Self {
        let residuals = self.residuals.map(|residuals| residuals.rounded());
        Self { residuals, fit_missed: self.fit_missed.map(residuals::rounded), ..self }
    }

    /// Returns the range of a feature in the rows of the fit, if `range` is the current range of
    /// the model, which includes the new rows.
    pub(crate) fn fit_range(&self, column: &str, range: [f64; 2]) -> [f64; 2] {
        self.ranges.iter().find(|moved| moved.column == column).map_or(range, |moved| moved.fit_range)
    }
}

impl Merge for Growth {
    /// Adds further new rows of the same fit.
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.fit_missed = later.fit_missed.or(self.fit_missed);
        (self.fit_rows, self.columns) = (self.fit_rows.max(later.fit_rows), self.columns.max(later.columns));
        match (&mut self.residuals, &later.residuals) {
            (Some(residuals), Some(later)) => residuals.merge(later),
            (residuals, later) => *residuals = residuals.or(*later),
        }
        for later in &later.ranges {
            match self.ranges.iter_mut().find(|moved| moved.column == later.column) {
                Some(moved) => {
                    (moved.below, moved.above) = (moved.below + later.below, moved.above + later.above);
                    moved.range = [moved.range[0].min(later.range[0]), moved.range[1].max(later.range[1])];
                }
                None => self.ranges.push(later.clone()),
            }
        }
        for (column, rows) in &later.unseen {
            match self.unseen.iter_mut().find(|(known, _)| known == column) {
                Some((_, count)) => *count += rows,
                None => self.unseen.push((column.clone(), *rows)),
            }
        }
        // the order in which rows were merged has no effect
        self.ranges.sort_by(|a, b| a.column.cmp(&b.column));
        self.unseen.sort();
    }
}
