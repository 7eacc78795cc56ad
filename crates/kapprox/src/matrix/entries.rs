//! What a matrix without vectors is: something that can be asked for its entries.

use crate::{Error, Real, Result};
use faer::{MatMut, MatRef};
use std::{fmt::Debug, ops::Range};

/// A symmetric positive semi-definite matrix, n x n, that tells its entries.
///
/// An error stops the work and is handed on; that is also the way to cancel it.
pub trait Entries: Sync {
    /// The number of rows, n.
    fn size(&self) -> u64;
    /// `out[i]` = K(i, i) of every row.
    ///
    /// # Errors
    /// Whatever keeps an entry from being known.
    fn diagonal(&self, out: &mut [f64]) -> Result<()>;
    /// `out[(i, j)]` = K(i-th of `rows`, `columns[j]`). Several threads ask at once.
    ///
    /// # Errors
    /// Whatever keeps an entry from being known.
    fn block(&self, rows: Range<u64>, columns: &[u64], out: MatMut<'_, f64>) -> Result<()>;
    /// How far an entry may be off, as a share of it: residuals that are smaller than this explains are rounding.
    fn rounding(&self) -> f64 {
        f64::EPSILON
    }
}

/// A matrix whose entries are a function of the row and the column, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct Function<F> {
    /// The number of rows.
    pub n: u64,
    /// The entry in row i and column j.
    pub entry: F,
}

impl<F: Fn(u64, u64) -> f64 + Sync> Entries for Function<F> {
    fn size(&self) -> u64 {
        self.n
    }
    fn diagonal(&self, out: &mut [f64]) -> Result<()> {
        (0..).zip(out).for_each(|(i, value)| *value = (self.entry)(i, i));
        Ok(())
    }
    fn block(&self, rows: Range<u64>, columns: &[u64], mut out: MatMut<'_, f64>) -> Result<()> {
        for (j, column) in columns.iter().enumerate() {
            for (i, row) in rows.clone().enumerate() {
                out[(i, j)] = (self.entry)(row, *column);
            }
        }
        Ok(())
    }
}

/// An array in memory, or mapped from a file: `MatRef::from_row_major_slice` of its numbers. Only the diagonal and the columns
/// of pivots and candidates are read.
impl<T: Real> Entries for MatRef<'_, T> {
    fn size(&self) -> u64 {
        self.nrows() as u64
    }
    fn diagonal(&self, out: &mut [f64]) -> Result<()> {
        if self.nrows() != self.ncols() {
            let row = self.nrows().min(self.ncols()) as u64;
            return Err(Error::Indefinite {
                row,
                why: format!("an array of shape {:?} has no diagonal entry", self.shape()),
            });
        }
        out.iter_mut().enumerate().for_each(|(i, value)| *value = self[(i, i)].to_f64());
        Ok(())
    }
    fn block(&self, rows: Range<u64>, columns: &[u64], mut out: MatMut<'_, f64>) -> Result<()> {
        for (j, column) in columns.iter().enumerate() {
            for (i, row) in rows.clone().enumerate() {
                // the matrix is symmetric: columns are read as rows where those are contiguous
                let (a, b) = if self.row_stride() == 1 { (row, *column) } else { (*column, row) };
                out[(i, j)] = self[(a as usize, b as usize)].to_f64();
            }
        }
        Ok(())
    }
    fn rounding(&self) -> f64 {
        T::EPSILON
    }
}
