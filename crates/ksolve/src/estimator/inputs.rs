//! The rows that an estimator accepts.

use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::Points;
use kstore::Table;
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use std::sync::Arc;

/// Marks rows in memory, whose columns are identified by position.
#[derive(Clone, Copy, Debug)]
pub struct InMemory;

/// Marks tables, whose columns have names.
#[derive(Clone, Copy, Debug)]
pub struct InTable;

/// Rows: either columns of numbers named `x0`, `x1`, …, or a table.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Rows {
    Columns(Vec<(String, ArrayRef)>),
    Table(Table),
}

impl Rows {
    /// Returns the number of rows in memory; `None` for a table.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Self::Columns(columns) => columns.first().map(|(_, column)| column.len()),
            Self::Table(_) => None,
        }
    }

    /// Returns a table of these rows, with `extra_columns` if the rows are in memory.
    pub(super) fn table(self, extra_columns: Vec<(String, ArrayRef)>) -> Result<Table> {
        match self {
            Self::Table(table) => Ok(table),
            Self::Columns(mut columns) => {
                columns.extend(extra_columns);
                let batch =
                    RecordBatch::try_from_iter(columns).map_err(|error| Error::option("x", "", error.to_string()))?;
                Ok(Table::from_batches(vec![batch])?)
            }
        }
    }
}

/// Rows that an estimator fits or predicts; see [the list of types](crate::estimator).
pub trait Inputs {
    /// [`InMemory`] or [`InTable`]: determines which target types the rows accept.
    type Kind;

    /// Returns the rows; values in memory are copied.
    ///
    /// # Errors
    /// Rows of different lengths, or no rows.
    #[doc(hidden)]
    fn rows(&self) -> Result<Rows>;
}

fn rows_of_points<P: Points + ?Sized>(points: &P) -> Result<Rows> {
    let (values, d) = points.row_major()?;
    let column =
        |j: usize| -> ArrayRef { Arc::new(Float64Array::from_iter_values(values[j..].iter().step_by(d).copied())) };
    Ok(Rows::Columns((0..d).map(|j| (format!("x{j}"), column(j))).collect()))
}

// a blanket implementation for `Points` would overlap with the one for tables
macro_rules! in_memory {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {
        $(impl<$($generics)*> Inputs for $type {
            type Kind = InMemory;

            fn rows(&self) -> Result<Rows> {
                rows_of_points(self)
            }
        })*
    };
}

in_memory!(
    [] [f64],
    [] [f32],
    [] Vec<f64>,
    [] Vec<f32>,
    [] [Vec<f64>],
    [] [Vec<f32>],
    [] Vec<Vec<f64>>,
    [] Vec<Vec<f32>>,
    [const D: usize] [[f64; D]],
    [const D: usize] [[f32; D]],
    [const D: usize] Vec<[f64; D]>,
    [const D: usize] Vec<[f32; D]>,
    [const N: usize] [f64; N],
    [const N: usize] [f32; N],
    [const N: usize, const D: usize] [[f64; D]; N],
    [const N: usize, const D: usize] [[f32; D]; N],
    [] Mat<f64>,
    [] Mat<f32>,
    [] MatRef<'_, f64>,
    [] MatRef<'_, f32>,
);

#[cfg(feature = "ndarray")]
in_memory!(
    [S: ndarray::Data<Elem = f64>] ndarray::ArrayBase<S, ndarray::Ix2>,
);

impl Inputs for Table {
    type Kind = InTable;

    fn rows(&self) -> Result<Rows> {
        Ok(Rows::Table(self.clone()))
    }
}

impl Inputs for RecordBatch {
    type Kind = InTable;

    fn rows(&self) -> Result<Rows> {
        Ok(Rows::Table(Table::from_batches(vec![self.clone()])?))
    }
}
