//! The background rows of contributions.

use crate::model::match_precision;
use crate::predict::anomalous_rows::Smallest;
use crate::predict::explanation::unscale;
use crate::predict::{AnyPreparedModel, Predictor};
use crate::{Error, Result};
use kstore::key::{Purpose, Stream};
use kstore::{ReadSettings, RowBuf, RowSource, SelectedTable};
use std::sync::Arc;

/// Maximum number of background rows: the cost of contributions is proportional to it.
pub(super) const MAX_BACKGROUND_ROWS: usize = 64;

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

    /// Sets the background of contributions to a uniform sample of 64 rows of a table, or to all
    /// rows if there are fewer. Reads the table once.
    ///
    /// # Errors
    /// Errors of reading the table; no row.
    #[doc(hidden)]
    pub fn with_background_table(self, selected: &SelectedTable) -> Result<Self> {
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
        if row_numbers.is_empty() {
            return self.with_background(&[]);
        }
        let d = self.feature_count().max(1);
        let rows = source.gather(&row_numbers)?;
        let unscaled = rows.x().iter().enumerate().map(|(i, value)| unscale(&scaler, i % d, *value, f64::EPSILON));
        self.with_background(&unscaled.collect::<Vec<_>>())
    }
}
