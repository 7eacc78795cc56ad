//! Rows to approximate, and landmarks: rows or other points that represent them.

use crate::Real;
use faer::MatRef;
use kpass::{Pass, RowSource};

/// A table and how to pass over it.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a, T: Real> {
    /// Table.
    pub source: &'a dyn RowSource<T>,
    /// How to pass over the table: tiles, lanes, threads, progress.
    pub pass: Pass<'a>,
    /// Number of selected rows, n.
    pub count: u64,
}

/// The row number of a landmark that is not a row of the table.
pub const NO_ROW: u64 = u64::MAX;

/// Landmarks in the order of selection. For a nested scheme, the first r of them are the selection
/// of rank r.
#[derive(Clone, Debug, PartialEq)]
pub struct LandmarkSet<T> {
    /// Landmarks, m x d, row-major.
    pub points: Vec<T>,
    /// Row number of each landmark; [`NO_ROW`] for points that are not rows.
    pub rows: Vec<u64>,
    /// Number of inputs of a landmark.
    pub d: usize,
    /// Number of passes over the rows.
    pub passes: u64,
    /// Number of kernel evaluations, including the diagonal.
    pub evaluations: u64,
}

impl<T: Real> LandmarkSet<T> {
    /// Returns the number of landmarks, m.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Returns the landmarks at positions `kept`.
    #[must_use]
    pub fn keep(&self, kept: &[usize]) -> Self {
        let points = kept.iter().flat_map(|i| &self.points[i * self.d..(i + 1) * self.d]).copied().collect();
        Self { points, rows: kept.iter().map(|i| self.rows[*i]).collect(), ..*self }
    }
    /// Returns these landmarks, followed by `more`.
    #[must_use]
    pub fn followed_by(mut self, more: Self) -> Self {
        self.points.extend(more.points);
        self.rows.extend(more.rows);
        Self { passes: self.passes + more.passes, evaluations: self.evaluations + more.evaluations, ..self }
    }
    /// Returns the points, m x d, row-major.
    pub fn as_mat(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.points, self.len(), self.d)
    }
}
