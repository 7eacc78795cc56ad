//! Sparse rows: most values are 0, and only the nonzero values are stored.
//!
//! Files and chunks store lists of entries ([`SparseRows`], as in a compressed sparse row matrix).
//! In blocks, samples and landmarks, every row has room for as many entries as the longest row of
//! the table has (the ELLPACK format). A row consists of its column indices, padded with
//! [`NO_INDEX`], followed by its values, padded with 0. Like a dense row, a sparse row is then a
//! fixed number of values, and code that moves rows treats both alike. Only kernels, which compute
//! with the values, distinguish them.
//!
//! (Format: Grimes, Kincaid, Young, "ITPACK 2.0 user's guide", University of Texas at Austin,
//! CNA-150, 1979.)

use crate::Float;
use serde::{Deserialize, Serialize};

/// Column index of an unused entry (padding).
pub const NO_INDEX: f64 = -1.0;

/// Maximum number of columns whose indices are exact in `f32`.
pub const MAX_F32_COLUMNS: usize = 1 << 24;

/// Maximum number of columns of a dense text file. A line with more columns is damaged, or its data
/// should be stored as sparse rows.
pub const MAX_DENSE_COLUMNS: usize = 100_000;

/// Maximum number of columns of sparse rows.
pub const MAX_COLUMNS: usize = u32::MAX as usize;

/// The size of sparse rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseShape {
    /// Number of columns.
    #[serde(rename = "width")]
    pub column_count: usize,
    /// Maximum number of entries of a row.
    #[serde(rename = "longest")]
    pub max_row_entries: usize,
}

impl SparseShape {
    /// Returns the smallest shape that has room for the rows of both shapes.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            column_count: self.column_count.max(other.column_count),
            max_row_entries: self.max_row_entries.max(other.max_row_entries),
        }
    }

    /// Returns true if sparse rows take less memory and time than dense rows: at least a thousand
    /// columns, and no row has entries in more than an eighth of them.
    pub fn prefers_sparse(self) -> bool {
        self.column_count >= 1_000 && self.max_row_entries <= self.column_count / 8
    }

    /// Returns true if the rows cannot be stored as dense rows, because they would have too many
    /// columns.
    pub fn must_be_sparse(self) -> bool {
        self.column_count > MAX_DENSE_COLUMNS
    }

    /// Returns true if the shape is consistent and within the limits.
    pub fn is_valid(self) -> bool {
        self.column_count <= MAX_COLUMNS && self.max_row_entries <= self.column_count
    }

    /// Returns the number of values of a row in a block.
    pub fn values_per_row(self) -> usize {
        2 * self.max_row_entries.max(1)
    }
}

/// Bytes of a stored entry: its column index and its value.
pub const ENTRY_BYTES: usize = size_of::<u32>() + size_of::<f64>();

/// Sparse rows of a chunk, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a> {
    /// Index of the first entry of each row, followed by the number of all entries.
    pub starts: &'a [usize],
    /// Column indices of the entries, ascending within a row.
    pub indices: &'a [u32],
    /// Values of the entries.
    pub values: &'a [f64],
}

impl<'a> SparseRows<'a> {
    /// Returns the entries of a row.
    pub fn row(&self, row: usize) -> (&'a [u32], &'a [f64]) {
        let entries = self.starts[row]..self.starts[row + 1];
        (&self.indices[entries.clone()], &self.values[entries])
    }

    /// Returns the value of a row that is furthest from 0; NaN if the row has a NaN.
    #[inline]
    pub fn largest_magnitude(&self, row: usize) -> f64 {
        let larger = |a: f64, b: &f64| if b.is_nan() || b.abs() > a.abs() { *b } else { a };
        self.row(row).1.iter().fold(0.0, larger)
    }

    /// Writes a row in the layout of a block, without entries that are 0. Returns false if a value
    /// is not finite in `T`, or if the row has too many entries for `out`.
    pub fn pack<T: Float>(&self, row: usize, out: &mut [T]) -> bool {
        let (indices, values) = self.row(row);
        let max_entries = out.len() / 2;
        let (out_indices, out_values) = out.split_at_mut(max_entries);
        let (mut entry_count, mut all_finite) = (0, true);
        for (index, value) in indices.iter().zip(values).filter(|(_, value)| **value != 0.0) {
            let Some((to_index, to_value)) = out_indices.get_mut(entry_count).zip(out_values.get_mut(entry_count))
            else {
                return false;
            };
            (*to_index, *to_value) = (T::from_f64(f64::from(*index)), T::from_f64(*value));
            all_finite &= to_value.is_finite();
            entry_count += 1;
        }
        out_indices[entry_count..].fill(T::from_f64(NO_INDEX));
        out_values[entry_count..].fill(T::default());
        all_finite
    }
}

/// A column that owns its sparse rows, in the layout of [`SparseRows`].
#[derive(Clone, Debug, PartialEq)]
pub struct SparseColumn {
    shape: SparseShape,
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl SparseColumn {
    /// Returns an empty column for rows of this shape.
    pub fn new(shape: SparseShape) -> Self {
        Self { shape, starts: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Returns the shape of its rows.
    pub fn shape(&self) -> SparseShape {
        self.shape
    }

    /// Returns the rows.
    pub fn rows(&self) -> SparseRows<'_> {
        SparseRows { starts: &self.starts, indices: &self.indices, values: &self.values }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether the column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all rows and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.starts.truncate(1);
        self.indices.clear();
        self.values.clear();
    }

    /// Appends some rows of a chunk.
    pub fn extend(&mut self, chunk: &SparseRows<'_>, rows: impl Iterator<Item = usize>) {
        for (indices, values) in rows.map(|row| chunk.row(row)) {
            self.indices.extend_from_slice(indices);
            self.values.extend_from_slice(values);
            self.end_row();
        }
    }

    /// Reserves room for exactly this many more entries, because the allocated bytes count towards
    /// the memory budget.
    pub fn reserve(&mut self, additional_entries: usize) {
        self.indices.reserve_exact(additional_entries);
        self.values.reserve_exact(additional_entries);
    }

    /// Appends an entry to the current row, which [`SparseColumn::end_row`] ends.
    #[inline]
    pub fn push_entry(&mut self, index: u32, value: f64) {
        self.indices.push(index);
        self.values.push(value);
    }

    /// Ends a row.
    #[inline]
    pub fn end_row(&mut self) {
        self.starts.push(self.indices.len());
    }

    /// Appends a row from the indices and values of a file. `index_at` returns the column index of
    /// the entry at a position, or `None` if the index is missing. The positions of the row begin
    /// at `first_position`. If `needs_sorting` is true, the entries are sorted by their column
    /// indices.
    ///
    /// # Errors
    /// A description of the row, if it has too many entries, or if an index is missing, repeated,
    /// out of order or not below the number of columns.
    pub fn push_row(
        &mut self,
        index_at: impl Fn(usize) -> Option<i128>,
        values: &[f64],
        first_position: usize,
        needs_sorting: bool,
    ) -> Result<(), String> {
        let start = self.indices.len();
        for (position, value) in (first_position..).zip(values) {
            let index = index_at(position).ok_or("a row with a missing index")?;
            let column = u32::try_from(index).ok().filter(|column| (*column as usize) < self.shape.column_count);
            let max_index = self.shape.column_count.saturating_sub(1);
            let column = column.ok_or_else(|| format!("a row with index {index} (expected 0 to {max_index})"))?;
            self.push_entry(column, *value);
        }
        if needs_sorting && self.indices[start..].windows(2).any(|pair| pair[1] < pair[0]) {
            self.sort(start);
        }
        if let Some(pair) = self.indices[start..].windows(2).find(|pair| pair[1] <= pair[0]) {
            let (index, previous) = (pair[1], pair[0]);
            return Err(format!("a row with index {index} after {previous} (indices must increase strictly)"));
        }
        if values.len() > self.shape.max_row_entries {
            return Err(format!("a row of {} entries (expected at most {})", values.len(), self.shape.max_row_entries));
        }
        self.end_row();
        Ok(())
    }

    fn sort(&mut self, start: usize) {
        let entries = self.indices[start..].iter().copied().zip(self.values[start..].iter().copied());
        let mut entries: Vec<(u32, f64)> = entries.collect();
        entries.sort_by_key(|(index, _)| *index);
        let sorted_slots = self.indices[start..].iter_mut().zip(&mut self.values[start..]);
        sorted_slots.zip(entries).for_each(|((index, value), entry)| (*index, *value) = entry);
    }
}

/// Returns the column indices and the values of the entries of a row in a block, without padding.
pub fn entries<T: Float>(row: &[T]) -> (&[T], &[T]) {
    let (indices, values) = row.split_at(row.len() / 2);
    let count = indices.partition_point(|index| index.to_f64() >= 0.0);
    (&indices[..count], &values[..count])
}

/// Returns the rows, each padded from `row_len` to `new_row_len` values; `new_row_len` must not be
/// smaller.
pub fn widen_rows<T: Float>(rows: &[T], row_len: usize, new_row_len: usize) -> Vec<T> {
    let mut widened = Vec::with_capacity(rows.len() / row_len.max(1) * new_row_len);
    for row in rows.chunks_exact(row_len.max(1)) {
        let (indices, values) = entries(row);
        let padding = new_row_len / 2 - indices.len();
        widened.extend_from_slice(indices);
        widened.extend(std::iter::repeat_n(T::from_f64(NO_INDEX), padding));
        widened.extend_from_slice(values);
        widened.extend(std::iter::repeat_n(T::default(), padding));
    }
    widened
}
