//! The rows of a table that a map approximates, and its landmarks: rows or other points that
//! represent these rows.

use crate::Real;
use faer::MatRef;
use kpass::{Pass, RowSource};

/// A table and how to pass over it.
#[derive(Clone, Copy, Debug)]
pub struct TableScan<'a, T: Real> {
    /// Table.
    pub source: &'a dyn RowSource<T>,
    /// How to pass over the table: tiles, lanes, threads, progress.
    pub pass: Pass<'a>,
    /// Number of selected rows, n.
    pub row_count: u64,
}

/// The row number of a landmark that is not a row of the table.
pub const NO_ROW: u64 = u64::MAX;

/// Landmarks in the order of selection. If the scheme is nested, the first r landmarks are its
/// selection for rank r.
#[derive(Clone, Debug, PartialEq)]
pub struct LandmarkSet<T> {
    /// Landmarks, m x d, row-major.
    pub points: Vec<T>,
    /// Row number of each landmark; [`NO_ROW`] for points that are not rows.
    pub row_numbers: Vec<u64>,
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
        self.row_numbers.len()
    }
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.row_numbers.is_empty()
    }
    /// Returns the landmarks at positions `positions`.
    #[must_use]
    pub fn subset(&self, positions: &[usize]) -> Self {
        let points = positions.iter().flat_map(|i| &self.points[i * self.d..(i + 1) * self.d]).copied().collect();
        Self { points, row_numbers: positions.iter().map(|i| self.row_numbers[*i]).collect(), ..*self }
    }
    /// Returns these landmarks, followed by `other`.
    #[must_use]
    pub fn concat(mut self, other: Self) -> Self {
        self.points.extend(other.points);
        self.row_numbers.extend(other.row_numbers);
        Self { passes: self.passes + other.passes, evaluations: self.evaluations + other.evaluations, ..self }
    }
    /// Returns the points, m x d, row-major.
    pub fn as_mat(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.points, self.len(), self.d)
    }
}
