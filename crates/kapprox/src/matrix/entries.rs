//! Matrices given by their entries.

use crate::{Error, Real, Result};
use faer::{MatMut, MatRef};
use std::{fmt::Debug, ops::Range};

/// A symmetric positive semi-definite matrix K, n x n, whose entries are computed on request.
///
/// An error of these functions stops the computation and is returned to the caller. Implementations
/// can therefore return an error to cancel the computation.
pub trait PsdMatrix: Sync {
    /// Returns the number of rows, n.
    fn order(&self) -> u64;
    /// Computes `out[i]` = K(i, i) for every row.
    ///
    /// # Errors
    /// An error that prevents the computation of an entry.
    fn diagonal(&self, out: &mut [f64]) -> Result<()>;
    /// Computes `out[(i, j)]` = K(`rows.start` + i, `columns[j]`). Several threads may call it at
    /// the same time.
    ///
    /// # Errors
    /// An error that prevents the computation of an entry.
    fn block(&self, rows: Range<u64>, columns: &[u64], out: MatMut<'_, f64>) -> Result<()>;
    /// Returns the relative error of an entry. If this error can explain a residual, the residual
    /// counts as rounding error.
    fn rounding(&self) -> f64 {
        f64::EPSILON
    }
}

/// A matrix whose entries are a function of the row and the column, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct FnEntries<F> {
    /// Number of rows.
    pub n: u64,
    /// Entry in row i and column j.
    pub entry: F,
}

impl<F: Fn(u64, u64) -> f64 + Sync> PsdMatrix for FnEntries<F> {
    fn order(&self) -> u64 {
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

/// A matrix in memory or mapped from a file, e.g. by `MatRef::from_row_major_slice`. Only the
/// diagonal and the columns of pivots, candidates and checks are read.
impl<T: Real> PsdMatrix for MatRef<'_, T> {
    fn order(&self) -> u64 {
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
                // the matrix is symmetric, so a column is read as a row if rows are contiguous
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
