//! Preconditioners of Nyström ridge regression: the factor of a matrix near A = (H K_nm)ᵀ(H K_nm) + μ K_mm.
//!
//! * **KRILL**: P = (S H K_nm)ᵀ(S H K_nm) + μ K_mm with a sketch S of 4m rows. Whatever the spectrum, the condition number of
//!   P⁻¹A is then about ((1 + ½)/(1 − ½))² = 9, and an iteration halves the error. S is a sparse sign matrix: every row of the
//!   table is added to 8 rows of the sketch, with random signs, over √8. (Díaz, Epperly, Frangella, Tropp, Webber, "Robust,
//!   randomized preconditioning for kernel ridge regression", arXiv 2304.12465, 2023, section 3.) With n ≤ 4m the sketch is
//!   the table itself.
//! * **FALKON**: P = (n/m) K_mmᵀ K_mm + μ K_mm, as if the landmarks were a sample of the rows, which uniform landmarks are.
//!   Others need importance weights and make it worse. (Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel
//!   method", NeurIPS 2017.)
//!
//! The sketch is never held as a whole. Every row of the table belongs, by a random key, to one of g groups with its own
//! 4m/g rows of the sketch; a pass over the table for each group makes them, adds their Gram matrix to P, and forgets them.
//! Two rows meet in the sketch as often as without groups, so nothing is lost.
//!
//! P is summed and factored in f64, in place: 4m² bytes. *Flops*: nm kernel values, 8nm additions, 4m·m² for the Gram
//! matrix, m³/3 for the factor.

use super::constant::Constant;
use super::nystrom::{Blocks, Sums, Visited, kernel_block};
use super::packed::{PackedLower, widened};
use crate::strips::for_each_strip;
use crate::{Error, Result};
use faer::prelude::*;
use faer::{Mat, MatRef};
use kapprox::{Kernel, Real};
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use kstore::{Fold, Pass, RowBlock, Workers};
use std::sync::{Mutex, PoisonError};

/// Rows of the sketch for each landmark.
const RATIO: usize = 4;

/// Rows of the sketch that a row of the table is added to, the value of the paper.
const ENTRIES: usize = 8;

/// Most rows of the sketch that are held.
const HELD: usize = 2048;

/// Rows of the table in f64 at a time, where there is no sketch.
const ROWS: usize = 512;

/// What is added to the diagonal of P for each unit of rounding of its largest entry; and how often it is raised a
/// hundredfold where that does not do. P needs no more accuracy than conjugate gradient needs help.
const JITTER: f64 = 4.0;
const RAISES: usize = 3;

/// Which matrix takes the place of A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preconditioner {
    /// That of a sketch of the kernel's columns.
    #[default]
    Krill,
    /// That of the landmarks, taken for a sample of the rows.
    Falkon,
}

/// Groups of the rows, and rows of the sketch in each; `None` where the table is no longer than the sketch.
fn groups(n: usize, m: usize) -> Option<(usize, usize)> {
    let rows = RATIO * m;
    let groups = rows.div_ceil(HELD);
    (rows < n).then(|| (groups, rows.div_ceil(groups)))
}

/// Passes over the table.
pub(crate) fn passes(preconditioner: Preconditioner, n: usize, m: usize) -> u64 {
    match preconditioner {
        Preconditioner::Krill => groups(n, m).map_or(1, |(groups, _)| groups as u64),
        Preconditioner::Falkon => 0,
    }
}

/// Bytes beside the factor while it is made.
pub(crate) fn making_bytes(m: usize, threads: usize) -> usize {
    8 * m * HELD.max(ROWS) + PackedLower::scratch_bytes(threads)
}

/// What a preconditioner is made of.
pub(crate) struct Making<'m, T: Real> {
    pub(crate) kind: Preconditioner,
    pub(crate) sums: &'m Sums,
    pub(crate) constant: Constant,
    pub(crate) mu: f64,
    pub(crate) seed: u64,
    /// The kernel in f64, and the landmarks.
    pub(crate) exact: &'m dyn Kernel<f64>,
    pub(crate) z: MatRef<'m, f64>,
    pub(crate) observer: &'m dyn Observer,
    pub(crate) precision: std::marker::PhantomData<T>,
}

impl<T: Real> Making<'_, T> {
    /// The factor of P.
    ///
    /// # Errors
    /// Those of the rows; [`Error::Indefinite`] where no jitter makes P definite.
    pub(crate) fn factor(&self, blocks: &mut Blocks<'_, T>) -> Result<PackedLower> {
        let (m, workers) = (blocks.landmarks(), blocks.pass.workers);
        let mut jitter = JITTER * f64::EPSILON * (m as f64).sqrt();
        for _ in 0..=RAISES {
            let mut p = self.regulariser(m, workers);
            match self.kind {
                Preconditioner::Krill => self.krill(&mut p, blocks)?,
                Preconditioner::Falkon => self.falkon(&mut p, workers),
            }
            p.add_diagonal(jitter * p.largest_diagonal());
            if p.factor(workers).is_ok() {
                return Ok(p);
            }
            jitter *= 100.0;
        }
        let lambda = self.mu / self.sums.rows as f64;
        Err(Error::Indefinite { rank: m, lambda, precision: <T as kstore::Real>::NAME })
    }

    /// μ K_mm.
    fn regulariser(&self, m: usize, workers: &Workers) -> PackedLower {
        let mut p = PackedLower::zeros(m);
        p.fill(workers, |row, column, mut out| {
            self.exact.block(self.z.subrows(row, out.nrows()), self.z.subrows(column, out.ncols()), out.rb_mut());
            out.col_iter_mut().for_each(|column| column.iter_mut().for_each(|k| *k *= self.mu));
        });
        p
    }

    /// Rows of K_nm less θ times their mean.
    fn centre(&self, rows: &mut Mat<f64>) {
        for (column, mean) in rows.col_iter_mut().zip(&self.sums.means) {
            let shift = self.constant.theta * mean;
            column.iter_mut().for_each(|k| *k -= shift);
        }
    }

    fn falkon(&self, p: &mut PackedLower, workers: &Workers) {
        let m = self.z.nrows();
        for first in (0..m).step_by(ROWS) {
            let x = self.z.subrows(first, ROWS.min(m - first));
            let mut rows = Mat::zeros(x.nrows(), m);
            kernel_block(self.exact, x, self.z, rows.as_mut(), workers);
            self.centre(&mut rows);
            p.add_gram(rows.as_ref(), self.sums.rows as f64 / m as f64, workers);
        }
    }

    fn krill(&self, p: &mut PackedLower, blocks: &mut Blocks<'_, T>) -> Result<()> {
        let (m, workers) = (blocks.landmarks(), blocks.pass.workers);
        let Some((groups, rows)) = groups(self.sums.rows, m) else {
            blocks.visit(self.observer, &mut |k, _| {
                for first in (0..k.nrows()).step_by(ROWS) {
                    let mut rows = widened(k.subrows(first, ROWS.min(k.nrows() - first)));
                    self.centre(&mut rows);
                    p.add_gram(rows.as_ref(), 1.0, workers);
                }
            })?;
            return Ok(());
        };
        let shift = self.sums.means.iter().map(|mean| self.constant.theta * mean).collect();
        let sketch = Mutex::new(Sketch { b: Mat::zeros(rows, m), entries: Vec::new(), shift });
        for group in 0..groups {
            let keys = Keys::new(self.seed, groups as u64, group as u64, rows as u64);
            let pass = Pass { observer: self.observer, lanes: 1, journal: None, ..blocks.pass };
            let (kernel, z) = (blocks.kernel, blocks.z);
            pass.fold(blocks.source, &Sketching { sketch: &sketch, keys, kernel, z })?;
            let mut held = sketch.lock().unwrap_or_else(PoisonError::into_inner);
            p.add_gram(held.b.as_ref(), 1.0, workers);
            held.b.fill(0.0);
        }
        Ok(())
    }
}

/// Where the rows of the table go in the sketch.
#[derive(Clone, Copy, Debug)]
struct Keys {
    stream: [Stream; 2],
    groups: u64,
    group: u64,
    rows: u64,
}

impl Keys {
    fn new(seed: u64, groups: u64, group: u64, rows: u64) -> Self {
        let stream = [0, 1].map(|round| Stream::new(seed, Purpose::Sketch, round));
        Self { stream, groups, group, rows }
    }

    fn takes(&self, row: u64) -> bool {
        self.stream[0].below(row, self.groups) == self.group
    }

    /// The rows of the sketch that a row is added to, different ones, and the signs.
    fn entries(&self, row: u64) -> [(usize, f64); ENTRIES] {
        let mut entries = [(0, 0.0); ENTRIES];
        let (mut found, mut draw) = (0, 0u64);
        while found < ENTRIES {
            let key = self.stream[1].word(row.wrapping_mul(1 << 16).wrapping_add(draw));
            let place = ((u128::from(key) * u128::from(self.rows)) >> 64) as usize;
            draw += 1;
            if self.rows >= ENTRIES as u64 && entries[..found].iter().any(|(taken, _)| *taken == place) {
                continue;
            }
            // the place is made of the high bits, the sign of the lowest
            entries[found] = (place, if key & 1 == 0 { 1.0 } else { -1.0 });
            found += 1;
        }
        entries
    }
}

/// A group's rows of S H K_nm.
struct Sketch {
    b: Mat<f64>,
    entries: Vec<[(usize, f64); ENTRIES]>,
    shift: Vec<f64>,
}

struct Sketching<'s, T: Real> {
    sketch: &'s Mutex<Sketch>,
    keys: Keys,
    kernel: &'s dyn Kernel<T>,
    z: MatRef<'s, T>,
}

/// Columns of the sketch that one thread adds to.
const COLUMNS: usize = 16;

impl<T: Real> Fold<T> for Sketching<'_, T> {
    type State = Visited;
    type Scratch = Vec<T>;
    type Error = Error;

    fn init(&self) -> Visited {
        Visited
    }

    fn scratch(&self) -> Vec<T> {
        Vec::new()
    }

    fn step(&self, _: &mut Visited, x: &mut Vec<T>, block: &RowBlock<'_, T>, workers: &Workers) -> Result<()> {
        let mut sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
        let Sketch { b, entries, shift } = &mut *sketch;
        x.clear();
        entries.clear();
        for (i, row) in block.rows.iter().enumerate().filter(|(_, row)| self.keys.takes(**row)) {
            x.extend_from_slice(&block.x[i * block.d..][..block.d]);
            entries.push(self.keys.entries(*row));
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut k = Mat::<T>::zeros(entries.len(), self.z.nrows());
        kernel_block(self.kernel, MatRef::from_row_major_slice(x, entries.len(), block.d), self.z, k.as_mut(), workers);
        let mut columns: Vec<(usize, &mut [f64])> = Vec::with_capacity(b.ncols());
        for (j, column) in b.col_iter_mut().enumerate() {
            columns.extend(column.try_as_col_major_mut().map(|column| (j, column.as_slice_mut())));
        }
        let scale = 1.0 / (ENTRIES as f64).sqrt();
        for_each_strip(workers, &mut columns, COLUMNS, |_, columns| {
            for (j, column) in columns {
                for (value, entries) in k.col(*j).iter().zip(&*entries) {
                    let value = (kstore::Real::to_f64(*value) - shift[*j]) * scale;
                    entries.iter().for_each(|(place, sign)| column[*place] += sign * value);
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_group_and_keeps_its_length() {
        let (groups, rows) = groups(100_000, 3000).unwrap();
        assert_eq!((groups, rows), (6, 2000));
        let mut counts = vec![0usize; groups];
        for row in 0..6000 {
            let of: Vec<u64> =
                (0..groups as u64).filter(|g| Keys::new(1, groups as u64, *g, rows as u64).takes(row)).collect();
            assert_eq!(of.len(), 1, "{row}");
            counts[of[0] as usize] += 1;
            let mut places: Vec<usize> =
                Keys::new(1, groups as u64, of[0], rows as u64).entries(row).iter().map(|entry| entry.0).collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|w| w[0] < w[1]) && places[ENTRIES - 1] < rows, "{places:?}");
        }
        // 1,000 each, within five standard deviations
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
        assert!(super::groups(12_000, 3000).is_none());
    }

    #[test]
    fn signs_are_fair_and_independent_of_the_place() {
        let keys = Keys::new(3, 1, 0, 64);
        let (mut sum, mut by_half) = (0.0, [0.0f64; 2]);
        for row in 0..10_000 {
            for (place, sign) in keys.entries(row) {
                sum += sign;
                by_half[usize::from(place >= 32)] += sign;
            }
        }
        // 80,000 signs: five standard deviations are 1,414
        assert!(f64::abs(sum) < 1414.0 && by_half.iter().all(|sum| sum.abs() < 1000.0), "{sum} {by_half:?}");
    }
}
