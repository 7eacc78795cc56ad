//! Kernel values between the rows of an SVM: the whole matrix, or the rows of the working set.
//!
//! The values are bit-identical for any cache size: a row of the matrix is always computed between
//! its row and all rows of the SVM.

use crate::{linalg::kernel_rows::kernel_rows, linalg::strips::for_each_strip};
use faer::{MatMut, MatRef, prelude::*};
use kapprox::{KernelFunction, Real};
use kstore::Workers;
use std::ops::Range;

/// Maximum number of rows with a stored whole matrix: 67 MB in f32. With more rows of `dsa` the
/// working sets are faster.
pub(super) const WHOLE: usize = 4096;

/// Size of the working set without a whole matrix.
pub(super) const WORKING: usize = 1024;

/// Side of the square blocks by which a matrix is mirrored.
const SQUARE: usize = 64;

/// Rows whose kernel values are computed together.
const MADE: usize = 128;

pub(super) enum Gram<'a, T: Real> {
    Whole(Vec<T>),
    /// The most recently used rows of the matrix.
    Some(RowCache<'a, T>),
}

#[derive(Clone, Copy)]
pub(super) struct KernelPoints<'a, T: Real> {
    pub(super) kernel: &'a dyn KernelFunction<T>,
    /// n x d.
    pub(super) x: MatRef<'a, T>,
    /// Number added to every kernel value: 1 for a penalised intercept, else 0.
    pub(super) shift: T,
}

/// Returns the minimum bytes of the kernel values of an SVM on n rows.
pub(super) fn bytes(n: usize, d: usize, element: usize) -> usize {
    match n <= WHOLE {
        true => n * n * element,
        false => element * ((WORKING + MADE) * n + WORKING * WORKING + MADE * d) + 16 * n,
    }
}

/// Returns the number of rounds in a sweep, in which as many rows enter the working set as the SVM
/// has.
pub(super) fn rounds(n: usize) -> usize {
    if n <= WHOLE { 1 } else { n.div_ceil(WORKING / 2) }
}

impl<'a, T: Real> Gram<'a, T> {
    /// Builds the matrix of the rows in `memory`, or a cache of its rows with this many bytes.
    /// The rows come in consecutive parts of the given sizes, with the kernel matrices of the parts
    /// that were already computed.
    pub(super) fn new(
        points: KernelPoints<'a, T>,
        (parts, known): (&[usize], &[Option<&[T]>]),
        mut memory: Vec<T>,
        room: usize,
        workers: &Workers,
    ) -> Self {
        let n = points.x.nrows();
        match n <= WHOLE {
            true => {
                whole(points, parts, known, &mut memory, workers);
                Self::Whole(memory)
            }
            false => Self::Some(RowCache::new(points, room / (n * size_of::<T>()))),
        }
    }

    /// Returns the memory of the matrix for the next SVM: the system would have to clear the pages
    /// of new memory.
    pub(super) fn end(self) -> Vec<T> {
        match self {
            Self::Whole(memory) => memory,
            Self::Some(_) => Vec::new(),
        }
    }
}

/// Computes the n x n kernel matrix `k` between the rows, which come in parts of the given sizes:
/// evaluated below the diagonal, mirrored above it.
pub(super) fn whole<T: Real>(
    KernelPoints { kernel, x, shift }: KernelPoints<'_, T>,
    parts: &[usize],
    known: &[Option<&[T]>],
    k: &mut Vec<T>,
    workers: &Workers,
) {
    let n = x.nrows();
    k.resize(n * n, T::ZERO);
    let (mut columns, mut rest) = (Vec::new(), &mut k[..]);
    let ends = parts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end - count..*end)
    });
    let parts: Vec<Range<usize>> = ends.collect();
    for (j, part) in parts.iter().enumerate() {
        let (own, after) = rest.split_at_mut(part.len() * n);
        columns.push((part, known.get(j).copied().flatten(), own));
        rest = after;
    }
    workers.each(columns, |(part, known, columns)| {
        let mut out = MatMut::from_column_major_slice_mut(columns, n, part.len());
        let z = x.subrows(part.start, part.len());
        let below = match known {
            Some(known) => {
                let own = MatRef::from_column_major_slice(known, part.len(), part.len());
                out.rb_mut().subrows_mut(part.start, part.len()).copy_from(own);
                part.end
            }
            None => part.start,
        };
        let mut made = out.subrows_mut(below, n - below);
        kernel.block(x.subrows(below, n - below), z, made.rb_mut());
        if shift != T::ZERO {
            made.col_iter_mut().for_each(|column| column.iter_mut().for_each(|value| *value += shift));
        }
    });
    for (j, part) in parts.iter().enumerate() {
        let known = known.get(j).is_some_and(Option::is_some);
        mirror(k, n, part, if known { part.end } else { part.start });
    }
}

/// Copies the entries below the diagonal of some columns of a column-major matrix, from row `top`,
/// above it.
fn mirror<T: Copy>(k: &mut [T], n: usize, columns: &Range<usize>, top: usize) {
    for left in columns.clone().step_by(SQUARE) {
        for top in (top..n).step_by(SQUARE) {
            for j in left..columns.end.min(left + SQUARE) {
                for i in top.max(j + 1)..n.min(top + SQUARE) {
                    k[i * n + j] = k[j * n + i];
                }
            }
        }
    }
}

/// The most recently used rows of an SVM's kernel matrix.
pub(super) struct RowCache<'a, T: Real> {
    points: KernelPoints<'a, T>,
    most: usize,
    /// Stored rows, n numbers each.
    kept: Vec<Vec<T>>,
    /// Index of each stored row, and the time of its last use.
    held: Vec<(usize, u64)>,
    place: Vec<Option<u32>>,
    now: u64,
}

impl<'a, T: Real> RowCache<'a, T> {
    pub(super) fn new(points: KernelPoints<'a, T>, most: usize) -> Self {
        let n = points.x.nrows();
        let most = most.clamp(WORKING, n);
        Self { points, most, kept: Vec::new(), held: Vec::new(), place: vec![None; n], now: 0 }
    }

    /// Loads the rows of a working set into the cache; returns false if `stop` ended this early.
    pub(super) fn bring(&mut self, rows: &[usize], workers: &Workers, stop: &dyn Fn() -> bool) -> bool {
        self.now += 1;
        for row in rows {
            if let Some(place) = self.place[*row] {
                self.held[place as usize].1 = self.now;
            }
        }
        let missing: Vec<usize> = rows.iter().copied().filter(|row| self.place[*row].is_none()).collect();
        let n = self.points.x.nrows();
        let mut old: Vec<usize> = (0..self.held.len()).filter(|place| self.held[*place].1 < self.now).collect();
        // the least recently used row last
        old.sort_by_key(|place| std::cmp::Reverse(self.held[*place].1));
        let (mut made, mut x) = (Vec::new(), Vec::new());
        for some in missing.chunks(MADE) {
            if stop() {
                return false;
            }
            x.clear();
            some.iter().for_each(|row| x.extend(self.points.x.row(*row).iter().copied()));
            made.resize(some.len() * n, T::ZERO);
            let of = MatRef::from_row_major_slice(&x, some.len(), self.points.x.ncols());
            rows_of(self.points, of, &mut made, workers);
            for (row, values) in some.iter().zip(made.chunks_exact(n)) {
                let place = if self.held.len() < self.most {
                    self.kept.push(values.to_vec());
                    self.held.push((*row, self.now));
                    self.held.len() - 1
                } else {
                    let Some(place) = old.pop() else { continue };
                    self.place[self.held[place].0] = None;
                    self.kept[place].copy_from_slice(values);
                    self.held[place] = (*row, self.now);
                    place
                };
                self.place[*row] = Some(place as u32);
            }
        }
        true
    }

    pub(super) fn row(&self, row: usize) -> &[T] {
        self.place[row].map_or(&[], |place| &self.kept[place as usize])
    }

    /// Returns the matrix between some rows in the cache.
    pub(super) fn among(&self, rows: &[usize], workers: &Workers) -> Vec<T> {
        let mut k = vec![T::ZERO; rows.len() * rows.len()];
        for_each_strip(workers, &mut k, rows.len(), |i, values| {
            let row = self.row(rows[i]);
            values.iter_mut().zip(rows).for_each(|(to, j)| *to = row[*j]);
        });
        k
    }
}

/// Computes the b x n kernel values between some points and all rows. Threads process strips of the
/// points.
pub(super) fn rows_of<T: Real>(points: KernelPoints<'_, T>, of: MatRef<'_, T>, made: &mut [T], workers: &Workers) {
    let (KernelPoints { kernel, x, shift }, n) = (points, points.x.nrows());
    let height = of.nrows().div_ceil(workers.threads()).max(1);
    for_each_strip(workers, made, height * n, |strip, made| {
        let of = of.subrows(strip * height, made.len() / n);
        kernel_rows(kernel, of, x, made, &Workers::sequential());
        if shift != T::ZERO {
            made.iter_mut().for_each(|value| *value += shift);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(n: usize) -> Vec<f64> {
        (0..n * 3).map(|i| ((i * 37 % 101) as f64 * 0.618).sin()).collect()
    }

    #[test]
    fn a_matrix_of_parts_is_the_kernel_between_its_rows_and_symmetric() {
        let kernel = kapprox::Kernel::parse("gaussian(sigma=1.5)").unwrap().build().unwrap().typed::<f64>();
        let (n, all) = (150, points(150));
        let x = MatRef::from_row_major_slice(&all, n, 3);
        let of = |shift: f64, x| KernelPoints { kernel: &*kernel, x, shift };
        let (mut own, mut k) = (Vec::new(), vec![f64::NAN; 7]);
        whole(of(1.0, x.subrows(0, 70)), &[70], &[], &mut own, &Workers::sequential());
        whole(of(1.0, x), &[70, 80], &[Some(&own), None], &mut k, &Workers::new(2));
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let square: f64 = (0..3).map(|c| (x[(i, c)] - x[(j, c)]).powi(2)).sum();
            assert!((k[i * n + j] - 1.0 - (-square / 4.5).exp()).abs() < 1e-14, "{i}, {j}");
            assert_eq!(k[i * n + j], k[j * n + i]);
        }
    }

    #[test]
    fn a_cache_that_is_too_small_gives_the_rows_of_one_that_holds_all() {
        let kernel = kapprox::Kernel::parse("gaussian(sigma=1.5)").unwrap().build().unwrap().typed::<f64>();
        let (n, all) = (WORKING + 300, points(WORKING + 300));
        let points = KernelPoints { kernel: &*kernel, x: MatRef::from_row_major_slice(&all, n, 3), shift: 0.0 };
        let (mut small, mut large) = (RowCache::new(points, 0), RowCache::new(points, n));
        for (first, step, count) in [(0, 1, WORKING), (300, 1, WORKING), (1, 3, 400), (0, 1, WORKING)] {
            let rows: Vec<usize> = (0..count).map(|i| first + i * step).collect();
            assert!(small.bring(&rows, &Workers::sequential(), &|| false));
            assert!(large.bring(&rows, &Workers::new(2), &|| false));
            assert!(small.held.len() <= WORKING);
            for row in &rows {
                assert_eq!((small.row(*row).len(), small.row(*row)), (n, large.row(*row)), "{row}");
            }
            let k = small.among(&rows[..5], &Workers::sequential());
            assert_eq!(k[7], large.row(rows[1])[rows[2]]);
        }
    }
}
