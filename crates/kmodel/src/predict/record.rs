//! Predictions of one row whose values are named.

use super::{Extras, Predictor};
use crate::run::Run;
use crate::{Error, Result};
use kstore::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use kstore::{Selection, Table};
use std::sync::Arc;

/// A value of a named column, for [`Predictor::predict_record`].
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum FieldValue {
    Number(f64),
    Integer(i64),
    Bool(bool),
    /// A category, a text, or a date such as 2026-11-30.
    Text(String),
    Missing,
}

macro_rules! field_value_from {
    ($($source:ty => $variant:ident),*) => {
        $(impl From<$source> for FieldValue {
            fn from(value: $source) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
field_value_from!(f64 => Number, f32 => Number, i64 => Integer, i32 => Integer, bool => Bool, &str => Text, String => Text);

impl FieldValue {
    fn to_array(&self) -> ArrayRef {
        match self {
            Self::Number(value) => Arc::new(Float64Array::from_iter_values([*value])),
            Self::Integer(value) => Arc::new(Int64Array::from_iter_values([*value])),
            Self::Bool(value) => Arc::new(BooleanArray::from(vec![*value])),
            Self::Text(value) => Arc::new(StringArray::from_iter_values([value])),
            Self::Missing => Arc::new(Float64Array::from_iter([None::<f64>])),
        }
    }
}

impl Predictor {
    /// Returns the scores of one row, as [`Predictor::predict`] computes them. The row has the
    /// values of the table's columns by name, in any order; categories, texts, dates and missing
    /// values are encoded as in the fit. Columns that the model does not use are ignored.
    ///
    /// *Cost*: some hundred microseconds, because the row becomes a table. For numeric features,
    /// [`Predictor::predict_with_scratch`] takes microseconds.
    ///
    /// ```
    /// use ksolve::job::{Fit, Run};
    /// use ksolve::predict::Predictor;
    /// # use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
    /// # use std::sync::Arc;
    /// # let cities = StringArray::from_iter_values((0..60).map(|i| ["Ulm", "Bonn"][i % 2]));
    /// # let rooms = Float64Array::from_iter_values((0..60).map(|i| (i / 2 % 5) as f64));
    /// # let rent = |i: usize| (i / 2 % 5) as f64 + 10.0 * (i % 2) as f64;
    /// # let rents = Float64Array::from_iter_values((0..60).map(rent));
    /// # let batch = RecordBatch::try_from_iter([
    /// #     ("city", Arc::new(cities) as ArrayRef),
    /// #     ("rooms", Arc::new(rooms)),
    /// #     ("rent", Arc::new(rents)),
    /// # ])?;
    /// let table = kstore::Table::from_batches(vec![batch])?; // columns city, rooms and rent
    /// let fitted = Fit::ridge().rank(20).fit_table(&table, &["rent"], &Run::new())?;
    /// let predictor = Predictor::new(fitted.model)?;
    /// let rent = predictor.predict_record(&[("city", "Bonn".into()), ("rooms", 3.0.into())])?;
    /// assert!((rent[0] - 13.0).abs() < 0.1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A column of the model without a value; two values for a column; a value of the wrong type;
    /// a missing value, if the fit has no treatment for it; the errors of [`Predictor::predict`].
    pub fn predict_record(&self, record: &[(&str, FieldValue)]) -> Result<Vec<f64>> {
        let repeated = (1..record.len()).find(|i| record[..*i].iter().any(|(name, _)| *name == record[*i].0));
        if let Some(i) = repeated {
            return Err(Error::option("record", record[i].0, "the column has two values; give one"));
        }
        let batch = RecordBatch::try_from_iter(record.iter().map(|(name, value)| (*name, value.to_array())))
            .map_err(|error| Error::option("record", "", error.to_string()))?;
        let table = Table::from_batches(vec![batch])?;
        let run = Run::new().threads(1);
        let mut row_scores = Vec::new();
        self.score_table(&self.select(&table, Selection::default())?, Extras::default(), Vec::new(), &run, |block| {
            row_scores.extend_from_slice(&block.scores);
            Ok(())
        })?;
        Ok(row_scores)
    }
}
