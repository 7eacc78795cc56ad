//! Preconditioners of Nyström ridge regression: the Cholesky factor of a matrix P near A = (H
//! K_nm)ᵀ(H K_nm) + μ K_mm. As in [`super::nystrom`], K_nm contains the kernel values between the n
//! rows and the m landmarks, K_mm the kernel values between landmarks, H subtracts a fraction of
//! the mean from each column, and μ = lambda·n.
//!
//! * **KRILL**: P = (S H K_nm)ᵀ(S H K_nm) + μ K_mm, where S is a random matrix of 8m rows. S H K_nm
//!   is called the sketch. With eight rows per landmark, the sketch distorts norms by factors of
//!   about 1 ± 1/√8, so the condition number of P⁻¹A is about ((1 + .35)/(1 − .35))² = 4.4 for any
//!   spectrum of A, and an iteration multiplies the error by about .35. S is a sparse sign matrix:
//!   every row of the table is added to 4 rows of the sketch, with random signs, divided by 2.
//!   (Díaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for kernel ridge
//!   regression", arXiv 2304.12465, 2023, section 3.) If n ≤ 8m, all rows of the table replace the
//!   sketch.
//! * **FALKON**: P = (n/m) K_mmᵀ K_mm + μ K_mm, as if the landmarks were a uniform sample of the
//!   rows. Landmarks of another scheme would need importance weights; P has none, so it is then a
//!   worse preconditioner. (Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel
//!   method", NeurIPS 2017.)
//!
//! The sketch is never stored as a whole. A random key assigns every row of the table to one of g
//! groups, and each group has its own 8m/g rows of the sketch. A visit of the rows of a few groups
//! computes their part of the sketch, adds its Gram matrix to P, and discards it. Groups do not
//! make the sketch less accurate, because the probability that two rows of the table are added to
//! the same row of the sketch is the same with and without groups. Kernel values in memory are
//! reused. If some kernel values are not in memory, each visit takes a pass over the table.
//!
//! P is summed and factored in f64, in place: 4m² bytes. *Flops*: nm kernel values, 4nm additions,
//! 8m·m² for the Gram matrix, m³/3 for the factor.

use super::blocks::{KernelBlocks, MIN_CALL_ROWS};
use super::nystrom::NystromProblem;
use crate::linalg::kernel_rows::compute_kernel_rows;
use crate::linalg::packed::PackedLower;
use crate::{
    Error, Result,
    linalg::strips::{BufferPool, for_each_strip},
};
use faer::{MatRef, prelude::*};
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::{Workers, pass::Observer};

/// Number of rows of the sketch per landmark. With 4 rows instead of 8, the Gram matrix takes half
/// of the time, but there are 1.4 times as many iterations.
const ROWS_PER_LANDMARK: usize = 8;

/// Number of sketch rows to which each row of the table is added. The KRILL paper has 8; with 4,
/// the number of iterations was the same, and the additions took half of the time.
const SIGNS_PER_ROW: usize = 4;

/// Maximum number of sketch rows in a group. A strip of columns of a group stays in the L2 cache.
const MAX_GROUP_ROWS: usize = 512;

/// Number of groups whose sketch rows are in memory at a time.
const GROUPS_PER_VISIT: usize = 4;

/// Number of rows of K_nm or K_mm that are added to P at a time without a sketch.
const UNSKETCHED_STRIP_ROWS: usize = 512;

/// The jitter: the number added to the diagonal of P, in units of ε√m times the largest diagonal
/// entry of P. If P stays indefinite, the jitter is multiplied by 100, at most
/// [`MAX_JITTER_RAISES`] times. P needs little accuracy, because it only accelerates conjugate
/// gradient.
const JITTER: f64 = 4.0;
const MAX_JITTER_RAISES: usize = 3;

/// The matrix P near A that preconditions conjugate gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preconditioner {
    /// The matrix of a random sketch of K_nm (KRILL).
    #[default]
    Krill,
    /// The matrix of the landmarks, as if they were a sample of the rows (FALKON).
    Falkon,
}

kmodel::enum_of_words!(Preconditioner, "preconditioner", "krill" => Krill, "falkon" => Falkon);

/// Returns the number of groups, and the number of sketch rows in each group. Returns `None` if the
/// table has at most as many rows as the sketch.
fn sketch_groups(n: usize, m: usize) -> Option<(usize, usize)> {
    let sketch_row_count = ROWS_PER_LANDMARK * m;
    let mut group_count = sketch_row_count.div_ceil(MAX_GROUP_ROWS);
    if group_count > GROUPS_PER_VISIT {
        // all visits have the same number of groups
        group_count = group_count.next_multiple_of(GROUPS_PER_VISIT);
    }
    (sketch_row_count < n).then(|| (group_count, sketch_row_count.div_ceil(group_count)))
}

/// Returns the number of visits of the rows that compute the sketch. Returns `None` if the table
/// has at most as many rows as the sketch.
pub(crate) fn sketch_visits(n: usize, m: usize) -> Option<usize> {
    sketch_groups(n, m).map(|(group_count, _)| group_count.div_ceil(GROUPS_PER_VISIT))
}

/// Returns the bytes that the computation of the factor takes, in addition to the factor.
pub(crate) fn build_bytes(m: usize, tile_rows: usize, threads: usize) -> usize {
    // the terms of the sum: the sketch, or the rows of the table that replace it; for each thread,
    // a strip for the transposition of the sketch; the signs, row numbers and row slices of a call;
    // the last two are vectors that grow by doubling
    let entry_bytes = size_of::<RowSigns>() + 2 * (size_of::<u64>() + size_of::<&[f64]>());
    let entry_buffer_bytes = (MIN_CALL_ROWS + tile_rows) * entry_bytes;
    let visit_rows = GROUPS_PER_VISIT * MAX_GROUP_ROWS;
    8 * m.next_multiple_of(SKETCH_STRIP_COLUMNS) * visit_rows.max(UNSKETCHED_STRIP_ROWS)
        + threads * 8 * SKETCH_STRIP_COLUMNS * visit_rows
        + entry_buffer_bytes
        + PackedLower::scratch_bytes(threads)
}

impl Preconditioner {
    /// Computes the factor of P. Also returns the number of passes over the table.
    ///
    /// # Errors
    /// The rows cannot be read; [`Error::Indefinite`] if no jitter makes P definite.
    pub(crate) fn factor<T: Real>(
        self,
        problem: NystromProblem<'_>,
        seed: u64,
        blocks: &mut KernelBlocks<'_, T>,
        observer: &dyn Observer,
    ) -> Result<(PackedLower, u64)> {
        let (m, workers) = (blocks.landmark_count(), blocks.pass.workers);
        let (mut jitter, mut passes) = (JITTER * f64::EPSILON * (m as f64).sqrt(), 0);
        for _ in 0..=MAX_JITTER_RAISES {
            let mut p = problem.regularisation_matrix(workers);
            match self {
                Self::Krill => passes += problem.add_sketch(&mut p, seed, blocks, observer)?,
                Self::Falkon => problem.add_landmarks(&mut p, workers),
            }
            p.add_diagonal(jitter * p.largest_diagonal());
            if p.factor(workers).is_ok() {
                return Ok((p, passes));
            }
            jitter *= 100.0;
        }
        let lambda = problem.mu / problem.moments.row_count as f64;
        Err(Error::Indefinite { rank: m, lambda, precision: T::NAME })
    }
}

impl NystromProblem<'_> {
    /// Computes μ K_mm.
    fn regularisation_matrix(&self, workers: &Workers) -> PackedLower {
        let mut p = PackedLower::zeros(self.z.nrows());
        p.fill(workers, |row, column, mut out| {
            self.kernel.block(self.z.subrows(row, out.nrows()), self.z.subrows(column, out.ncols()), out.rb_mut());
            out.col_iter_mut().for_each(|column| column.iter_mut().for_each(|k| *k *= self.mu));
        });
        p
    }

    /// Returns the vector whose subtraction from each row of K_nm gives H K_nm: θ times the mean
    /// row, m numbers.
    fn row_shift(&self) -> Vec<f64> {
        self.moments.column_means.iter().map(|mean| self.centring.theta * mean).collect()
    }

    /// Adds `scale` (K − 1 shiftᵀ)ᵀ(K − 1 shiftᵀ) to P, for some rows K of K_nm or K_mm.
    fn add_centred(p: &mut PackedLower, mut k: Vec<f64>, shift: &[f64], scale: f64, workers: &Workers) {
        k.chunks_exact_mut(shift.len()).for_each(|k| k.iter_mut().zip(shift).for_each(|(k, shift)| *k -= shift));
        p.add_gram(MatRef::from_row_major_slice(&k, k.len() / shift.len(), shift.len()), scale, workers);
    }

    /// Adds (n/m) K_mmᵀ K_mm, centred as K_nm, to P.
    fn add_landmarks(&self, p: &mut PackedLower, workers: &Workers) {
        let (m, shift) = (self.z.nrows(), self.row_shift());
        for first_row in (0..m).step_by(UNSKETCHED_STRIP_ROWS) {
            let x = self.z.subrows(first_row, UNSKETCHED_STRIP_ROWS.min(m - first_row));
            let mut k = vec![0.0; x.nrows() * m];
            compute_kernel_rows(self.kernel, x, self.z, &mut k, workers);
            Self::add_centred(p, k, &shift, self.moments.row_count as f64 / m as f64, workers);
        }
    }

    /// Adds the Gram matrix of the sketch to P. If no sketch is needed, adds the Gram matrix of H
    /// K_nm instead. Returns the number of passes over the table.
    fn add_sketch<T: Real>(
        &self,
        p: &mut PackedLower,
        seed: u64,
        blocks: &mut KernelBlocks<'_, T>,
        observer: &dyn Observer,
    ) -> Result<u64> {
        let (m, shift, workers) = (blocks.landmark_count(), self.row_shift(), blocks.pass.workers);
        let Some((group_count, group_rows)) = sketch_groups(self.moments.row_count, m) else {
            return blocks.visit(observer, &mut |k, _| {
                for k in k.k.chunks(UNSKETCHED_STRIP_ROWS * m) {
                    let k_f64 = k.iter().map(|k| kstore::Float::to_f64(*k)).collect();
                    Self::add_centred(p, k_f64, &shift, 1.0, workers);
                }
            });
        };
        let assignment = SketchAssignment::new(seed, group_count as u64, group_rows as u64);
        let (mut sketch, mut passes) = (Sketch::new(GROUPS_PER_VISIT.min(group_count) * group_rows, shift), 0);
        for first_group in (0..group_count).step_by(GROUPS_PER_VISIT) {
            let groups = first_group..group_count.min(first_group + GROUPS_PER_VISIT);
            let is_selected = |row: u64| groups.contains(&assignment.group(row));
            passes += blocks.visit_rows(observer, is_selected, &mut |row_numbers, k| {
                for group in groups.clone() {
                    let first_row = (group - first_group) * group_rows;
                    let rows_of_group = row_numbers.iter().zip(k).filter(|(row, _)| assignment.group(**row) == group);
                    let (row_signs, k): (Vec<RowSigns>, Vec<&[T]>) =
                        rows_of_group.map(|(row, k)| (assignment.row_signs(*row, first_row), *k)).unzip();
                    sketch.add_rows(&row_signs, &k, workers);
                }
            })?;
            sketch.transpose(workers);
            let sketch_rows = sketch.row_count;
            p.add_gram(
                MatRef::from_column_major_slice(&sketch.matrix[..sketch_rows * m], sketch_rows, m),
                1.0,
                workers,
            );
            sketch.matrix.fill(0.0);
        }
        Ok(passes)
    }
}

/// The (sketch row, sign) pairs of a row of the table.
type RowSigns = [(usize, f64); SIGNS_PER_ROW];

/// Random assignment of the table's rows to groups, and to the sketch rows of their group.
#[derive(Clone, Copy, Debug)]
struct SketchAssignment {
    group_and_sign_streams: [Stream; 2],
    group_count: u64,
    group_rows: u64,
}

impl SketchAssignment {
    fn new(seed: u64, group_count: u64, group_rows: u64) -> Self {
        let group_and_sign_streams = [0, 1].map(|round| Stream::new(seed, Purpose::Sketch, round));
        Self { group_and_sign_streams, group_count, group_rows }
    }

    fn group(&self, row: u64) -> usize {
        self.group_and_sign_streams[0].uniform_below(row, self.group_count) as usize
    }

    /// Returns the sketch rows to which a row of the table is added, with the signs. The sketch
    /// rows of its group begin at `first_row`. They are distinct if the group has at least
    /// [`SIGNS_PER_ROW`] sketch rows.
    fn row_signs(&self, row: u64, first_row: usize) -> RowSigns {
        let mut entries = [(0, 0.0); SIGNS_PER_ROW];
        let (mut entry_count, mut draw) = (0, 0u64);
        while entry_count < SIGNS_PER_ROW {
            let key = self.group_and_sign_streams[1].word(row.wrapping_mul(1 << 16).wrapping_add(draw));
            let sketch_row = first_row + ((u128::from(key) * u128::from(self.group_rows)) >> 64) as usize;
            draw += 1;
            if self.group_rows >= SIGNS_PER_ROW as u64
                && entries[..entry_count].iter().any(|(other, _)| *other == sketch_row)
            {
                continue;
            }
            // the high bits of the key determine the sketch row, the lowest bit the sign
            entries[entry_count] = (sketch_row, if key & 1 == 0 { 1.0 } else { -1.0 });
            entry_count += 1;
        }
        entries
    }
}

/// Number of columns of the sketch to which one thread adds at a time. 64 columns of the 512 rows
/// of a group take a quarter of a megabyte, which stays in the L2 cache. With 16 columns, the rows
/// of the table would be read in pieces that are too short.
const SKETCH_STRIP_COLUMNS: usize = 64;

/// Number of table rows whose values in one strip of columns are loaded together. The rows are far
/// apart in memory, so each separate load would wait. Loading them together more than halves the
/// measured time of the additions.
const FETCH_ROWS: usize = 64;

/// The rows of the sketch S H K_nm that belong to the groups of a visit.
///
/// While rows are added, every strip of columns is row-major, so that the additions are vectorised.
/// At the end, `transpose` transposes each strip in place, and `matrix` is then column-major. The
/// last strip is padded with columns of zeros.
struct Sketch {
    row_count: usize,
    matrix: Vec<f64>,
    shift: Vec<f64>,
}

impl Sketch {
    fn new(row_count: usize, mut shift: Vec<f64>) -> Self {
        shift.resize(shift.len().next_multiple_of(SKETCH_STRIP_COLUMNS), 0.0);
        Self { row_count, matrix: vec![0.0; row_count * shift.len()], shift }
    }

    /// Adds rows `k` of K_nm to the rows of the sketch that `row_signs` selects.
    fn add_rows<T: Real>(&mut self, row_signs: &[RowSigns], k: &[&[T]], workers: &Workers) {
        let (shift, _) = self.shift.as_chunks();
        for_each_strip(workers, &mut self.matrix, self.row_count * SKETCH_STRIP_COLUMNS, |strip, b| {
            kapprox::vectorised!(scatter(row_signs, k, strip * SKETCH_STRIP_COLUMNS, &shift[strip], b));
        });
    }

    /// Transposes the strips into the column-major matrix.
    fn transpose(&mut self, workers: &Workers) {
        let (row_count, buffers) = (self.row_count, BufferPool::<Vec<f64>>::default());
        for_each_strip(workers, &mut self.matrix, row_count * SKETCH_STRIP_COLUMNS, |_, b| {
            buffers.with_buffer(Vec::new, |row_major| {
                row_major.clear();
                row_major.extend_from_slice(b);
                for (j, column) in b.chunks_exact_mut(row_count).enumerate() {
                    column
                        .iter_mut()
                        .zip(row_major[j..].iter().step_by(SKETCH_STRIP_COLUMNS))
                        .for_each(|(to, from)| *to = *from);
                }
            });
        });
    }
}

/// Adds ±(k − shift)/√8 for each table row k to the sketch rows of its signs. `matrix` is the strip
/// of the sketch that begins at `first_column`.
#[inline(always)]
fn scatter<T: Real>(
    row_signs: &[RowSigns],
    k: &[&[T]],
    first_column: usize,
    shift: &[f64; SKETCH_STRIP_COLUMNS],
    matrix: &mut [f64],
) {
    let (scale, (matrix_rows, _)) =
        (1.0 / (SIGNS_PER_ROW as f64).sqrt(), matrix.as_chunks_mut::<SKETCH_STRIP_COLUMNS>());
    let mut loaded_rows = [[T::ZERO; SKETCH_STRIP_COLUMNS]; FETCH_ROWS];
    for (k, entries) in k.chunks(FETCH_ROWS).zip(row_signs.chunks(FETCH_ROWS)) {
        for (to, k) in loaded_rows.iter_mut().zip(k) {
            *to = k[first_column..].first_chunk().copied().unwrap_or_else(|| pad_with_zeros(&k[first_column..]));
        }
        for (k, entries) in loaded_rows.iter().zip(entries) {
            let mut values = [0.0; SKETCH_STRIP_COLUMNS];
            for c in 0..SKETCH_STRIP_COLUMNS {
                values[c] = (k[c].to_f64() - shift[c]) * scale;
            }
            // the pattern copies row and sign: behind a reference, the compiler would reload them
            // after every write
            for &(sketch_row, sign) in entries {
                let row = &mut matrix_rows[sketch_row];
                for c in 0..SKETCH_STRIP_COLUMNS {
                    row[c] = sign.mul_add(values[c], row[c]);
                }
            }
        }
    }
}

/// Pads fewer than [`SKETCH_STRIP_COLUMNS`] numbers with zeros.
#[cold]
#[inline(never)]
fn pad_with_zeros<T: Real>(k: &[T]) -> [T; SKETCH_STRIP_COLUMNS] {
    std::array::from_fn(|c| k.get(c).copied().unwrap_or(T::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_group_and_keeps_its_length() {
        let (groups, rows) = sketch_groups(100_000, 3000).unwrap();
        assert_eq!((groups, rows, sketch_visits(100_000, 3000)), (48, 500, Some(12)));
        let assignment = SketchAssignment::new(1, groups as u64, rows as u64);
        let mut counts = vec![0usize; groups];
        for row in 0..48_000 {
            counts[assignment.group(row)] += 1;
            let mut sketch_rows = assignment.row_signs(row, 7).map(|entry| entry.0);
            sketch_rows.sort_unstable();
            assert!(
                sketch_rows[0] >= 7
                    && sketch_rows.windows(2).all(|w| w[0] < w[1])
                    && sketch_rows[SIGNS_PER_ROW - 1] < 7 + rows,
                "{sketch_rows:?}"
            );
        }
        // 1,000 each, within five standard deviations
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 158), "{counts:?}");
        assert!(super::sketch_groups(24_000, 3000).is_none());
    }

    #[test]
    fn a_sketch_is_the_sum_of_signed_rows_with_the_same_bits_on_any_threads() {
        // sizes around a strip of columns and around the rows that are loaded together
        for (n, m) in [(3, 1), (64, 64), (150, 67)] {
            let (rows, keys) = (40, SketchAssignment::new(2, 1, 40));
            let k: Vec<f32> = (0..n * m).map(|i| (i as f32 * 0.618).sin()).collect();
            let (k, entries): (Vec<&[f32]>, Vec<RowSigns>) =
                (k.chunks(m).collect(), (0..n as u64).map(|row| keys.row_signs(row, 0)).collect());
            let shift: Vec<f64> = (0..m).map(|j| (j as f64 * 0.377).cos()).collect();
            let sketched = |workers: &Workers| {
                let mut sketch = Sketch::new(rows, shift.clone());
                sketch.add_rows(&entries, &k, workers);
                sketch.transpose(workers);
                sketch.matrix
            };
            let sketch = sketched(&Workers::sequential());
            assert!(sketch == sketched(&Workers::new(3)), "{n} x {m}");
            for (j, column) in sketch.chunks(rows).enumerate().take(m) {
                for (sketch_row, value) in column.iter().enumerate() {
                    let signs = entries.iter().map(|entries| entries.iter().find(|entry| entry.0 == sketch_row));
                    let values = signs.zip(&k).filter_map(|(entry, k)| Some(entry?.1 * (f64::from(k[j]) - shift[j])));
                    let expected = values.sum::<f64>() / (SIGNS_PER_ROW as f64).sqrt();
                    assert!(
                        (value - expected).abs() < 1e-13 * n as f64,
                        "{n} x {m}: {sketch_row}, {j}: {value} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn signs_are_fair_and_independent_of_the_row() {
        let keys = SketchAssignment::new(3, 1, 64);
        let (mut sum, mut by_half) = (0.0, [0.0f64; 2]);
        for row in 0..10_000 {
            for (sketch_row, sign) in keys.row_signs(row, 0) {
                sum += sign;
                by_half[usize::from(sketch_row >= 32)] += sign;
            }
        }
        // 40,000 signs: five standard deviations are 1,000
        assert!(f64::abs(sum) < 1000.0 && by_half.iter().all(|sum| sum.abs() < 707.0), "{sum} {by_half:?}");
    }
}
