//! The targets that an estimator learns.

use super::inputs::{InMemory, InTable, Rows};
use super::predictions::{OwnedLabel, Predictions};
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::Points;
use kstore::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use kstore::{Label, Table};
use std::sync::Arc;

/// Numeric targets for regression, one or several per row, for rows of `Kind`.
pub trait NumberTarget<Kind> {
    /// The type of the predictions: `Vec<f64>` for one target, `Mat<f64>` for several.
    type Predicted: Predictions;

    /// Returns the table of the rows with these targets, and the names of the target columns.
    ///
    /// # Errors
    /// The number of targets differs from the number of rows.
    #[doc(hidden)]
    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)>;
}

/// Labels for classification, one per row, for rows of `Kind`.
pub trait LabelTarget<Kind> {
    /// The type of the predictions.
    type Predicted: Predictions;

    /// Returns the table of the rows with these labels, and the name of their column.
    ///
    /// # Errors
    /// The number of labels differs from the number of rows.
    #[doc(hidden)]
    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)>;
}

/// The type of a label in memory.
pub trait LabelValue: Sized {
    /// The type of a predicted label: `String` for `&str`.
    type Owned: OwnedLabel;

    /// Returns the labels as a column.
    #[doc(hidden)]
    fn column(labels: &[Self]) -> ArrayRef;
}

/// Name of the target column that is added to the columns `x0`, `x1`, … of rows in memory.
const TARGET: &str = "y";

/// Adds target columns to rows in memory. Returns the table and the names of the target columns.
fn join_columns(rows: Rows, columns: Vec<ArrayRef>) -> Result<(Table, Vec<String>)> {
    let (expected, got) = (rows.count().unwrap_or(0), columns.first().map_or(0, |column| column.len()));
    if got != expected {
        return Err(Error::Shape { what: "targets, one for each row", expected, got });
    }
    let names: Vec<String> = match columns.len() {
        1 => vec![TARGET.to_string()],
        several => (0..several).map(|j| format!("{TARGET}{j}")).collect(),
    };
    let table = rows.table(names.iter().cloned().zip(columns).collect())?;
    Ok((table, names))
}

fn join_numbers<P: Points + ?Sized>(targets: &P, rows: Rows) -> Result<(Table, Vec<String>)> {
    let (values, t) = targets.row_major()?;
    let column =
        |j: usize| -> ArrayRef { Arc::new(Float64Array::from_iter_values(values[j..].iter().step_by(t).copied())) };
    join_columns(rows, (0..t).map(column).collect())
}

macro_rules! numbers {
    ($([$($generics:tt)*] $type:ty => $predicted:ty),* $(,)?) => {
        $(impl<$($generics)*> NumberTarget<InMemory> for $type {
            type Predicted = $predicted;

            fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
                join_numbers(self, rows)
            }
        })*
    };
}

numbers!(
    [] [f64] => Vec<f64>,
    [] [f32] => Vec<f64>,
    [] Vec<f64> => Vec<f64>,
    [] Vec<f32> => Vec<f64>,
    [const N: usize] [f64; N] => Vec<f64>,
    [const T: usize] [[f64; T]] => Mat<f64>,
    [const T: usize] Vec<[f64; T]> => Mat<f64>,
    [] Mat<f64> => Mat<f64>,
    [] MatRef<'_, f64> => Mat<f64>,
);

impl NumberTarget<InTable> for str {
    type Predicted = Vec<f64>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        Ok((rows.table(Vec::new())?, vec![self.to_string()]))
    }
}

impl NumberTarget<InTable> for [&str] {
    type Predicted = Mat<f64>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        Ok((rows.table(Vec::new())?, self.iter().map(ToString::to_string).collect()))
    }
}

impl<const T: usize> NumberTarget<InTable> for [&str; T] {
    type Predicted = Mat<f64>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        NumberTarget::<InTable>::attach(self.as_slice(), rows)
    }
}

impl<L: LabelValue> LabelTarget<InMemory> for [L] {
    type Predicted = Vec<L::Owned>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        join_columns(rows, vec![L::column(self)])
    }
}

impl<L: LabelValue> LabelTarget<InMemory> for Vec<L> {
    type Predicted = Vec<L::Owned>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        self.as_slice().attach(rows)
    }
}

impl<L: LabelValue, const N: usize> LabelTarget<InMemory> for [L; N] {
    type Predicted = Vec<L::Owned>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        self.as_slice().attach(rows)
    }
}

impl LabelTarget<InTable> for str {
    type Predicted = Vec<Label>;

    fn attach(&self, rows: Rows) -> Result<(Table, Vec<String>)> {
        Ok((rows.table(Vec::new())?, vec![self.to_string()]))
    }
}

/// Defines how a label type is stored as a column, and how a predicted label is converted back.
macro_rules! label {
    ($type:ty => $owned:ty, $labels:ident => $column:expr) => {
        impl LabelValue for $type {
            type Owned = $owned;

            fn column($labels: &[Self]) -> ArrayRef {
                Arc::new($column)
            }
        }
    };
}

label!(&str => String, labels => StringArray::from_iter_values(labels));
label!(String => String, labels => StringArray::from_iter_values(labels));
label!(bool => bool, labels => BooleanArray::from(labels.to_vec()));
label!(i64 => i64, labels => Int64Array::from(labels.to_vec()));

macro_rules! integer_label {
    ($($type:ty),*) => {
        $(label!($type => $type, labels => Int64Array::from_iter_values(labels.iter().map(|label| i64::from(*label))));)*
    };
}

integer_label!(i8, i16, i32, u8, u16, u32);
