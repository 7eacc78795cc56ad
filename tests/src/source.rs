//! The simplest row source: points in memory.

use kstore::{Float, Footprint, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::ops::Range;

/// Points in memory; point i is stored row i.
#[derive(Clone, Debug)]
pub struct Points<T> {
    /// Features, n × d, row-major.
    pub x: Vec<T>,
    /// Number of features.
    pub d: usize,
    /// One target per row, or empty.
    pub y: Vec<f64>,
}

impl<T: Float> Points<T> {
    /// Creates points without targets from rows of f64.
    pub fn new(rows: &[Vec<f64>]) -> Self {
        Self { d: rows[0].len(), x: rows.iter().flatten().map(|v| T::from_f64(*v)).collect(), y: Vec::new() }
    }
    /// Sets the target of each row to the sum of its features.
    #[must_use]
    pub fn with_sums(self) -> Self {
        let y = self.x.chunks(self.d).map(|row| row.iter().map(|v| v.to_f64()).sum()).collect();
        Self { y, ..self }
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.x.len() / self.d
    }
    /// Returns true if the number of rows is 0.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }
}

impl<T: Float> RowSource<T> for Points<T> {
    fn shape(&self) -> TableShape {
        TableShape {
            stored_rows: self.len() as u64,
            input_count: self.d,
            target_count: usize::from(!self.y.is_empty()),
            has_weights: false,
        }
    }
    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        Ok(Box::new(Cursor { points: self, at: segment.start as usize, end: segment.end as usize }))
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

struct Cursor<'a, T> {
    points: &'a Points<T>,
    at: usize,
    end: usize,
}

impl<T: Float> RowCursor<T> for Cursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        let to = (self.at + buf.capacity).min(self.end);
        let d = self.points.d;
        buf.clear();
        buf.row_numbers.extend(self.at as u64..to as u64);
        buf.x.extend_from_slice(&self.points.x[self.at * d..to * d]);
        if !self.points.y.is_empty() {
            buf.y.extend_from_slice(&self.points.y[self.at..to]);
        }
        let any = to > self.at;
        self.at = to;
        Ok(any)
    }
}
