//! Digests of the values of rows, computed as the rows are read.
//!
//! The digest of a row starts from a sum of products, one product for each column. The value has 64
//! bits and the column has a key of 64 bits. Each half of the value is added to one half of the
//! key, and the two sums, of 32 bits each, are multiplied (the NH hash: Black, Halevi, Krawczyk,
//! Krovetz, Rogaway, "UMAC", CRYPTO 1999). The sum of the products is mixed with the row number.
//! The digest of several rows is the sum of their digests: it does not depend on chunks or on the
//! order of reading, and digests of parts can be added. A digest detects changes, but does not
//! protect against forgery.

use crate::checkpoint::{Arrays, Persist, StoredArrays};
use crate::view::{ColumnView, RowIndices, Values};
use crate::{Digest, Result, convert::CONVERT_TILE_ROWS, key::mix, sparse::SparseRows, vectorised};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of stored rows in a piece; a piece has one digest of 8 bytes. Chosen: smaller pieces
/// would locate a changed row more precisely, and need more memory.
const PIECE_ROWS: u64 = 1024;

/// The digests of the selected rows of a table: 8 bytes for each 1,024 stored rows.
#[derive(Debug)]
pub struct RowDigests {
    row_count: u64,
    piece_sums: Vec<AtomicU64>,
    is_closed: AtomicBool,
}

impl RowDigests {
    /// Returns digests for the first `row_count` stored rows, to which no row has been added yet.
    pub fn new(row_count: u64) -> Self {
        let piece_sums = (0..row_count.div_ceil(PIECE_ROWS)).map(|_| AtomicU64::new(0)).collect();
        Self { row_count, piece_sums, is_closed: AtomicBool::new(false) }
    }

    /// Closes the digests after all rows were read, so that later rows are ignored. If no row was
    /// added yet, the digests stay open.
    pub fn close(&self) {
        let has_rows = self.piece_sums.iter().any(|sum| sum.load(Ordering::Relaxed) != 0);
        self.is_closed.store(has_rows, Ordering::Relaxed);
    }

    /// Returns the stored rows of a piece.
    pub fn piece_rows(&self, piece: u64) -> Range<u64> {
        piece.saturating_mul(PIECE_ROWS).min(self.row_count)
            ..(piece.saturating_add(1).saturating_mul(PIECE_ROWS)).min(self.row_count)
    }

    /// Returns the pieces that overlap a range of stored rows. Each piece comes with the digest of
    /// its rows that were read so far.
    pub fn piece_digests_in(&self, rows: &Range<u64>) -> Vec<(u64, u64)> {
        let end = rows.end.min(self.row_count);
        if rows.start >= end {
            return Vec::new();
        }
        let pieces = rows.start / PIECE_ROWS..end.div_ceil(PIECE_ROWS);
        pieces.map(|piece| (piece, self.piece_digest(piece))).collect()
    }

    /// Returns the digest of a piece; 0 for a piece that does not exist.
    pub fn piece_digest(&self, piece: u64) -> u64 {
        let index = usize::try_from(piece).ok();
        index.and_then(|i| self.piece_sums.get(i)).map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// Adds at most one tile of rows. The rows have the numbers `row_numbers`, and are at the
    /// positions `row_indices` of a chunk; `views` and `keys` belong to the columns of the chunk.
    pub(crate) fn add(&self, views: &[ColumnView<'_>], keys: &[u64], row_indices: RowIndices<'_>, row_numbers: &[u64]) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let (mut values, mut sums) = ([0.0; CONVERT_TILE_ROWS], [0; CONVERT_TILE_ROWS]);
        let (values, sums) = (&mut values[..row_numbers.len()], &mut sums[..row_numbers.len()]);
        for (view, key) in views.iter().zip(keys) {
            load_values(view, row_indices, values);
            add_products(values, *key, sums);
        }
        let (rows_in_table, mut sums) =
            (&row_numbers[..row_numbers.partition_point(|row| *row < self.row_count)], sums.iter());
        for piece in rows_in_table.chunk_by(|a, b| a / PIECE_ROWS == b / PIECE_ROWS) {
            let rows_and_sums = piece.iter().zip(&mut sums);
            let sum = rows_and_sums.fold(0u64, |total, (row, sum)| total.wrapping_add(mix(sum ^ mix(*row))));
            self.piece_sums[(piece[0] / PIECE_ROWS) as usize].fetch_add(sum, Ordering::Relaxed);
        }
    }
}

/// Adds the product of each value of a column to the digest of its row.
fn add_products(values: &[f64], key: u64, sums: &mut [u64]) {
    let (low, high) = (key as u32, (key >> 32) as u32);
    vectorised!({
        for (sum, value) in sums.iter_mut().zip(values) {
            let bits = value.to_bits();
            let (a, b) = ((bits as u32).wrapping_add(low), ((bits >> 32) as u32).wrapping_add(high));
            *sum = sum.wrapping_add(u64::from(a).wrapping_mul(u64::from(b)));
        }
    });
}

/// Reads values as numbers. A text or sparse row is read as its digest, and every missing value as
/// the same NaN.
fn load_values(view: &ColumnView<'_>, row_indices: RowIndices<'_>, values: &mut [f64]) {
    if let Values::Sparse(rows) = view.values {
        return values
            .iter_mut()
            .enumerate()
            .for_each(|(i, value)| *value = f64::from_bits(sparse_row_digest(&rows, row_indices.get(i))));
    }
    view.load(row_indices, values);
    for (i, value) in values.iter_mut().enumerate().filter(|(_, value)| value.is_nan()) {
        let row = row_indices.get(i);
        *value = match view.bytes(row).filter(|_| !view.is_null(row)) {
            Some(text) => f64::from_bits(Digest::u64_of(text)),
            None => f64::NAN,
        };
    }
}

fn sparse_row_digest(rows: &SparseRows<'_>, row: usize) -> u64 {
    let (indices, values) = rows.row(row);
    indices.iter().zip(values).fold(0, |digest, (index, value)| mix(mix(digest ^ u64::from(*index)) ^ value.to_bits()))
}

pub(crate) fn column_key(column: &str) -> u64 {
    mix(Digest::u64_of(column.as_bytes()))
}

impl Persist for RowDigests {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_owned("sums", self.piece_sums.iter().map(|sum| sum.load(Ordering::Relaxed)).collect());
    }

    fn load(&mut self, arrays: &mut StoredArrays<'_>) -> Result<()> {
        let mut sums = vec![0; self.piece_sums.len()];
        arrays.fill("sums", &mut sums)?;
        self.piece_sums = sums.into_iter().map(AtomicU64::new).collect();
        Ok(())
    }
}
