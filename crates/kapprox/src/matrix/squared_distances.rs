//! Inner products of points from their squared distances.

use super::{PartialCholesky, PsdMatrix};
use crate::{Error, Result};
use faer::{MatMut, prelude::ReborrowMut};
use std::ops::Range;

/// Inner products of points, computed from their squared distances D (n x n). The first point is
/// the origin: K(i, j) = (D(i, 0) + D(0, j) − D(i, j))/2.
///
/// If D are squared Euclidean distances in a space of any dimension, K is positive semi-definite.
/// After centring ([`PartialCholesky::centred`]), K is the matrix −½HDH of classical scaling with
/// H = I − 11ᵀ/n. Computing HDH directly would need the means of D, and therefore all n² entries.
///
/// References: Schoenberg, "Remarks to Maurice Fréchet's article", Annals of Mathematics 36, 1935;
/// Schölkopf, "The kernel trick for distances", NIPS 2000.
#[derive(Clone, Debug)]
pub struct SquaredDistances<E> {
    squared_distances: E,
    /// D(i, 0) of every row.
    origin_distances: Vec<f64>,
}

impl<E: PsdMatrix> SquaredDistances<E> {
    /// Reads the first column of D.
    ///
    /// # Errors
    /// [`Error::Indefinite`] if a point has a nonzero distance from itself; errors of the entries.
    pub fn new(distances: E) -> Result<Self> {
        let n = distances.order();
        let row_count = usize::try_from(n).unwrap_or(usize::MAX);
        let (mut diagonal, mut origin_distances) = (vec![0.0; row_count], vec![0.0; row_count]);
        distances.diagonal(&mut diagonal)?;
        if let Some((row, value)) = (0..).zip(&diagonal).find(|(_, value)| **value != 0.0) {
            return Err(Error::Indefinite {
                row,
                why: format!("the distance of the point from itself is {value}, not 0"),
            });
        }
        if row_count > 0 {
            distances.block(0..n, &[0], MatMut::from_column_major_slice_mut(&mut origin_distances, row_count, 1))?;
        }
        Ok(Self { squared_distances: distances, origin_distances })
    }

    /// Returns D(i, 0) of every row.
    pub fn origin_distances(&self) -> &[f64] {
        &self.origin_distances
    }
}

impl<E: PsdMatrix> PsdMatrix for SquaredDistances<E> {
    fn order(&self) -> u64 {
        self.squared_distances.order()
    }

    fn diagonal(&self, out: &mut [f64]) -> Result<()> {
        out.copy_from_slice(&self.origin_distances);
        Ok(())
    }

    fn block(&self, rows: Range<u64>, columns: &[u64], mut out: MatMut<'_, f64>) -> Result<()> {
        self.squared_distances.block(rows.clone(), columns, out.rb_mut())?;
        for (j, column) in columns.iter().enumerate() {
            for (i, row) in rows.clone().enumerate() {
                let sum = self.origin_distances[row as usize] + self.origin_distances[*column as usize];
                out[(i, j)] = 0.5 * (sum - out[(i, j)]);
            }
        }
        Ok(())
    }

    fn rounding(&self) -> f64 {
        self.squared_distances.rounding()
    }
}

impl PartialCholesky {
    /// Returns the approximation with F minus the mean of its rows, and this mean. The rows of the
    /// new F are the coordinates of the points relative to their centre.
    ///
    /// The approximated matrix is then HKH with H = I − 11ᵀ/n. Its residuals are at most the
    /// residuals of K, so the trace and the trace error become bounds.
    #[doc(hidden)]
    #[must_use]
    pub fn centred(mut self) -> (Self, Vec<f64>) {
        let n = self.factor.nrows();
        let mut means = Vec::with_capacity(self.factor.ncols());
        let mut explained_trace = 0.0;
        for mut column in self.factor.col_iter_mut() {
            let mean = column.rb_mut().sum() / n.max(1) as f64;
            column.rb_mut().iter_mut().for_each(|value| *value -= mean);
            explained_trace += column.squared_norm_l2();
            means.push(mean);
        }
        let residual_sum: f64 = self.residuals.iter().map(|residual| residual.max(0.0)).sum();
        self.trace = explained_trace + residual_sum;
        self.trace_error = if self.trace > 0.0 { residual_sum / self.trace } else { 0.0 };
        (self, means)
    }
}
