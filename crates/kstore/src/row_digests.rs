//! Digests of the values of rows, taken as they are read.
//!
//! A row's digest is a sum of products, two halves of a value each plus a key of its column, 32 bits by 32 (the NH hash: Black,
//! Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", CRYPTO 1999), mixed with the number of the row. That of some rows is the sum of theirs, so
//! that neither chunks nor order of reading count, and parts can be put together. It notices change and is no protection against forgery.

use crate::checkpoint::{Arrays, Persist, Stored};
use crate::source::{Positions, Values, View};
use crate::{Digest, Result, convert::TILE, key::mix, sparse::SparseRows, vectorised};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stored rows that have a digest of their own.
const PIECE: u64 = 1024;

/// The digests of the selected rows of a table, for each 1,024 stored rows: 8 bytes each.
#[derive(Debug)]
pub struct RowDigests {
    rows: u64,
    sums: Vec<AtomicU64>,
    closed: AtomicBool,
}

impl RowDigests {
    /// Digests of the first `rows` stored rows, none of which was read yet.
    pub fn new(rows: u64) -> Self {
        let sums = (0..rows.div_ceil(PIECE)).map(|_| AtomicU64::new(0)).collect();
        Self { rows, sums, closed: AtomicBool::new(false) }
    }

    /// Takes in no more rows: they have all been read. Digests that took in none so far stay open.
    pub fn close(&self) {
        let taken = self.sums.iter().any(|sum| sum.load(Ordering::Relaxed) != 0);
        self.closed.store(taken, Ordering::Relaxed);
    }

    /// The stored rows of a piece.
    pub fn piece(&self, number: u64) -> Range<u64> {
        number.saturating_mul(PIECE).min(self.rows)..(number.saturating_add(1).saturating_mul(PIECE)).min(self.rows)
    }

    /// The pieces that some stored rows have a part of, with the digests of that part, as far as it was read.
    pub fn of(&self, rows: &Range<u64>) -> Vec<(u64, u64)> {
        let end = rows.end.min(self.rows);
        if rows.start >= end {
            return Vec::new();
        }
        let pieces = rows.start / PIECE..end.div_ceil(PIECE);
        pieces.map(|piece| (piece, self.sum(piece))).collect()
    }

    /// The digest of a piece; 0 for one that is not there.
    pub fn sum(&self, piece: u64) -> u64 {
        let place = usize::try_from(piece).ok();
        place.and_then(|place| self.sums.get(place)).map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// Takes in `rows`, which are at places `at` of a chunk with these columns, [`TILE`] at the most.
    pub(crate) fn add(&self, views: &[View<'_>], keys: &[u64], at: Positions<'_>, rows: &[u64]) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let (mut values, mut sums) = ([0.0; TILE], [0; TILE]);
        let (values, sums) = (&mut values[..rows.len()], &mut sums[..rows.len()]);
        for (view, key) in views.iter().zip(keys) {
            load(view, at, values);
            take(values, *key, sums);
        }
        let (own, mut sums) = (&rows[..rows.partition_point(|row| *row < self.rows)], sums.iter());
        for piece in own.chunk_by(|a, b| a / PIECE == b / PIECE) {
            let rows = piece.iter().zip(&mut sums);
            let sum = rows.fold(0u64, |all, (row, sum)| all.wrapping_add(mix(sum ^ mix(*row))));
            self.sums[(piece[0] / PIECE) as usize].fetch_add(sum, Ordering::Relaxed);
        }
    }
}

/// Adds the products of a column's values to the digests of their rows.
fn take(values: &[f64], key: u64, sums: &mut [u64]) {
    let (low, high) = (key as u32, (key >> 32) as u32);
    vectorised!({
        for (sum, value) in sums.iter_mut().zip(values) {
            let bits = value.to_bits();
            let (a, b) = ((bits as u32).wrapping_add(low), ((bits >> 32) as u32).wrapping_add(high));
            *sum = sum.wrapping_add(u64::from(a).wrapping_mul(u64::from(b)));
        }
    });
}

/// The values as numbers: of texts a digest, and one number for all that are missing.
fn load(view: &View<'_>, at: Positions<'_>, values: &mut [f64]) {
    if let Values::Sparse(rows) = view.values {
        return values.iter_mut().enumerate().for_each(|(i, value)| *value = f64::from_bits(digest(&rows, at.get(i))));
    }
    view.load(at, values);
    for (i, value) in values.iter_mut().enumerate().filter(|(_, value)| value.is_nan()) {
        let row = at.get(i);
        *value = match view.bytes(row).filter(|_| !view.is_null(row)) {
            Some(text) => f64::from_bits(Digest::word_of(text)),
            None => f64::NAN,
        };
    }
}

fn digest(rows: &SparseRows<'_>, row: usize) -> u64 {
    let (places, values) = rows.row(row);
    places.iter().zip(values).fold(0, |digest, (place, value)| mix(mix(digest ^ u64::from(*place)) ^ value.to_bits()))
}

pub(crate) fn key(column: &str) -> u64 {
    mix(Digest::word_of(column.as_bytes()))
}

impl Persist for RowDigests {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.own("sums", self.sums.iter().map(|sum| sum.load(Ordering::Relaxed)).collect());
    }

    fn load(&mut self, from: &mut Stored<'_>) -> Result<()> {
        let mut sums = vec![0; self.sums.len()];
        from.fill("sums", &mut sums)?;
        self.sums = sums.into_iter().map(AtomicU64::new).collect();
        Ok(())
    }
}
