//! The background rows of contributions.

use crate::model::{Model, match_precision};
use crate::predict::anomalous_rows::Smallest;
use crate::predict::explanation::unscale;
use crate::predict::{AnyPreparedModel, Predictor};
use crate::{Error, Result};
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::{ReadSettings, RowBuf, RowSource, SelectedTable};
use std::sync::Arc;

/// Maximum number of background rows: the cost of contributions is proportional to it.
pub(super) const MAX_BACKGROUND_ROWS: usize = 64;

/// Returns the landmarks of a model, row-major, if they are scaled rows. After a metric they have
/// other units.
pub(super) fn landmarks_of_table<T: Real>(model: &Model<T>) -> Option<&[T]> {
    model.basis.landmarks().filter(|_| model.metric.is_none()).map(|(points, _)| points)
}

/// Minimum number of predicted rows that can replace the landmarks as background: a row among few
/// would be compared with itself.
const MIN_PREDICTED_ROWS: usize = 16;

impl Predictor {
    /// Sets the background of contributions: `rows` in the units of the table, row-major. The cost
    /// of contributions is proportional to the number of rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if `rows` are not whole rows; no row.
    #[doc(hidden)]
    pub fn with_background(self, rows: &[f64]) -> Result<Self> {
        let d = self.feature_count().max(1);
        Error::check_dimension("numbers of whole rows", rows.len().div_ceil(d) * d, rows.len())?;
        if rows.is_empty() {
            return Err(Error::option("background", "", "the background has no rows"));
        }
        Ok(Self { background: Some(rows.into()), ..self })
    }

    /// Returns true if contributions have a background: rows that were set, or landmarks in the
    /// units of the table.
    #[doc(hidden)]
    pub fn has_background(&self) -> bool {
        let has_landmarks =
            match_precision!(AnyPreparedModel: &self.model, prepared => landmarks_of_table(&prepared.model).is_some());
        self.background.is_some() || has_landmarks
    }

    /// Sets the background of contributions to a uniform sample of 64 rows of a table, or to all
    /// rows if there are fewer. Reads the table once.
    ///
    /// # Errors
    /// Errors of reading the table; no row.
    #[doc(hidden)]
    pub fn with_background_table(self, selected: &SelectedTable) -> Result<Self> {
        self.with_sampled_background(selected, 0)
    }

    /// Returns the predictor with a background: its own, or else a uniform sample of 64 of the rows
    /// that are to be predicted.
    ///
    /// # Errors
    /// The same as [`with_background_table`](Self::with_background_table); fewer than 16 rows.
    #[doc(hidden)]
    pub fn with_background_or(self, predicted: &SelectedTable) -> Result<Self> {
        if self.has_background() { Ok(self) } else { self.with_sampled_background(predicted, MIN_PREDICTED_ROWS) }
    }

    fn with_sampled_background(self, selected: &SelectedTable, min_rows: usize) -> Result<Self> {
        let scaler = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.scaler.clone());
        // the scaler imputes missing values
        let settings = ReadSettings { scaler: Some(Arc::new(scaler.clone())), ..ReadSettings::default() };
        let source = selected.rows::<f64>(settings)?;
        let stream = Stream::new(0, Purpose::Background, 0);
        let (mut cursor, mut buffer) = (source.open(source.range())?, RowBuf::new(1024));
        let mut sample = Smallest::new(MAX_BACKGROUND_ROWS);
        while cursor.next(&mut buffer)? {
            buffer.row_numbers.iter().for_each(|row| sample.push((stream.word(*row), *row)));
        }
        let row_numbers: Vec<u64> = sample.into_sorted_vec().into_iter().map(|(_, row)| row).collect();
        if row_numbers.len() < min_rows {
            let why = format!(
                "the model has no landmarks in the units of the table, and {} predicted rows are too few to replace them; add `background` \
                 with typical rows",
                row_numbers.len()
            );
            return Err(Error::option("reasons", "", why));
        }
        if row_numbers.is_empty() {
            return self.with_background(&[]);
        }
        let d = self.feature_count().max(1);
        let rows = source.gather(&row_numbers)?;
        let unscaled = rows.x().iter().enumerate().map(|(i, value)| unscale(&scaler, i % d, *value, f64::EPSILON));
        self.with_background(&unscaled.collect::<Vec<_>>())
    }
}
