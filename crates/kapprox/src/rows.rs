//! Rows that are approximated, and landmarks: the rows, or other points, that stand for them.

use crate::Real;
use faer::MatRef;
use kpass::{Pass, RowSource};

/// A table and how to pass over it.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a, T: Real> {
    /// The table.
    pub source: &'a dyn RowSource<T>,
    /// How a pass over it is made: tiles, lanes, threads, progress.
    pub pass: Pass<'a>,
    /// Number of selected rows, n.
    pub count: u64,
}

/// The row number of a landmark that is no row of the table.
pub const NO_ROW: u64 = u64::MAX;

/// Landmarks in the order they were chosen: the first r of them are the scheme's choice for rank r.
#[derive(Clone, Debug, PartialEq)]
pub struct LandmarkSet<T> {
    /// m x d, row-major.
    pub points: Vec<T>,
    /// Stored row number of each landmark, [`NO_ROW`] for points that are no rows.
    pub rows: Vec<u64>,
    /// Number of features.
    pub d: usize,
    /// Passes over the rows it took.
    pub passes: u64,
    /// Kernel evaluations it took, diagonal included.
    pub evaluations: u64,
}

impl<T: Real> LandmarkSet<T> {
    /// Number of landmarks, m.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// True where nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// The landmarks at positions `kept`.
    #[must_use]
    pub fn keep(&self, kept: &[usize]) -> Self {
        let points = kept.iter().flat_map(|i| &self.points[i * self.d..(i + 1) * self.d]).copied().collect();
        Self { points, rows: kept.iter().map(|i| self.rows[*i]).collect(), ..*self }
    }
    /// These landmarks, followed by `more`.
    #[must_use]
    pub fn followed_by(mut self, more: Self) -> Self {
        self.points.extend(more.points);
        self.rows.extend(more.rows);
        Self { passes: self.passes + more.passes, evaluations: self.evaluations + more.evaluations, ..self }
    }
    /// The points, m x d, row-major.
    pub fn as_mat(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.points, self.len(), self.d)
    }
}
