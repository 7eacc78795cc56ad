//! Matrices without vectors: a positive semi-definite matrix approximated from a few of its columns.
//!
//! ```text
//! K ≈ F Fᵀ   with   F = K_nS L⁻ᵀ (n x r),   L Lᵀ = K_SS,   r_i = K_ii − ‖F_i‖²
//! ```
//!
//! K is whatever [`Entries`] are: a function of two row numbers, an array in memory or mapped from a file. There need be no
//! vectors behind it. F Fᵀ is the projection on the columns of the pivots S: it has those columns exactly, and what is left,
//! K − F Fᵀ, is positive semi-definite again. So the sum of its diagonal bounds every other norm of the error:
//! [`PartialCholesky::trace_error`] is measured, not estimated.
//!
//! A diagonal of zeros leaves nothing of a positive semi-definite matrix, but may leave much of another one: a few columns are checked at the end.
//!
//! For r pivots of n rows: n(r + 9) entries of K, and for each block of pivots those between its candidates (a few per cent of
//! n r where n is much larger than r); n r² flops; 8 n r bytes for F and 16 n beside. Results do not depend on threads.
//!
//! ```
//! use kapprox::matrix::{self, Function};
//! use kpass::Workers;
//!
//! // the covariance of Brownian motion at the times 1, 2, …, 500
//! let k = Function { n: 500, entry: |i: u64, j: u64| (i.min(j) + 1) as f64 };
//! let found = matrix::rpcholesky(&k, 40, 0.0, 0, &Workers::new(2))?;
//! assert_eq!(found.factor.ncols(), 40);
//! assert!(found.trace_error < 0.05);
//! # Ok::<(), kapprox::Error>(())
//! ```
//!
//! References: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv 2207.06503; Epperly, Tropp, Webber,
//! "Embrace rejection", arXiv 2410.03969; Fine, Scheinberg, JMLR 2, 2001.

mod distances;
mod entries;
mod growing;
mod left;
mod pool;

pub use distances::SquaredDistances;
pub use entries::{Entries, Function};
pub(crate) use growing::GrowingFactor;
pub(crate) use pool::{POOL, Pool, largest};

use crate::map::factor::PIVOT_FLOOR;
use crate::{Error, Result};
use faer::Mat;
use kpass::Workers;
use kpass::key::{Purpose, Stream};
use std::collections::BTreeSet;

/// A projection of a positive semi-definite matrix on some of its columns.
#[derive(Clone, Debug)]
pub struct PartialCholesky {
    /// The rows chosen, in order: the first s of them, with the first s columns of the factor, are the approximation of rank s.
    pub pivots: Vec<u64>,
    /// F, n x r.
    pub factor: Mat<f64>,
    /// What the approximation leaves of each diagonal entry.
    pub residual: Vec<f64>,
    /// The sum of the diagonal entries.
    pub trace: f64,
    /// The sum of what is left of them as a share of their sum.
    pub trace_error: f64,
    /// Entries of the matrix that were asked for, the diagonal included.
    pub evaluations: u64,
}

impl PartialCholesky {
    /// L, the rows of F at the pivots: r x r, lower triangular.
    ///
    /// A new point with the kernel values `k` at the pivots has the coordinates L⁻¹k, as row i of F is those of row i.
    pub fn lower(&self) -> Mat<f64> {
        let r = self.pivots.len();
        Mat::from_fn(r, r, |i, j| if i >= j { self.factor[(self.pivots[i] as usize, j)] } else { 0.0 })
    }

    /// Looks at all n² entries of the matrix for one of which more is left than the diagonal allows, and than `tolerance` times its largest entry: 2n²r flops.
    ///
    /// # Errors
    /// [`Error::Indefinite`] for such an entry: the matrix is not positive semi-definite.
    pub fn check(&self, matrix: &dyn Entries, tolerance: f64, workers: &Workers) -> Result<()> {
        let mut diagonal = vec![0.0; self.residual.len()];
        matrix.diagonal(&mut diagonal)?;
        let slack = matrix.rounding().max(tolerance);
        let all: Vec<u64> = (0..matrix.size()).collect();
        all.chunks(COLUMNS).try_for_each(|columns| self.check_columns(matrix, (&diagonal, slack), columns, workers))
    }
}

/// Randomly pivoted Cholesky: each pivot is drawn in proportion to what the earlier ones leave of the diagonal.
///
/// Takes `rank` pivots; fewer where the trace error comes down to `tolerance` with fewer, or where what is left is rounding. Entries may be off by
/// `tolerance` times the largest diagonal entry. Proposals come in blocks and are accepted or rejected so that the law is that of one at a time, see
/// [`RpCholesky`](crate::landmark::RpCholesky).
///
/// # Errors
/// [`Error::Indefinite`] for a negative diagonal entry, or columns that no positive semi-definite matrix has;
/// [`Error::NotFinite`]; an error of the entries, which so can stop the work.
pub fn rpcholesky(
    matrix: &dyn Entries,
    rank: usize,
    tolerance: f64,
    seed: u64,
    workers: &Workers,
) -> Result<PartialCholesky> {
    let mut grown = Grown::new(matrix, (rank, tolerance), workers)?;
    let mut empty = 0;
    for round in 0.. {
        if grown.is_done(tolerance) || empty > EMPTY_ROUNDS {
            break;
        }
        let taken = grown.draw(seed, round)?;
        empty = if taken == 0 { empty + 1 } else { 0 };
    }
    grown.finish(tolerance, seed)
}

/// Greedy pivoted Cholesky: each pivot is the row of which the earlier ones leave most, the first where several are equal.
///
/// Takes `rank` pivots; fewer where the trace error comes down to `tolerance` with fewer, or where what is left is rounding.
///
/// # Errors
/// [`Error::Indefinite`], [`Error::NotFinite`] and the errors of the entries, as for [`rpcholesky`].
pub fn greedy(matrix: &dyn Entries, rank: usize, tolerance: f64, workers: &Workers) -> Result<PartialCholesky> {
    let mut grown = Grown::new(matrix, (rank, tolerance), workers)?;
    let mut capacity = POOL.0;
    while !grown.is_done(tolerance) {
        let taken = grown.take_largest(capacity.min(grown.most_candidates()))?;
        if taken == 0 {
            break;
        }
        capacity = (4 * taken).clamp(POOL.0, POOL.1);
    }
    grown.finish(tolerance, 0)
}

/// Proposals of a round, least and most: their products with each other are cheap beside the columns of those accepted.
const BLOCK: (usize, usize) = (16, 128);

/// Columns that are checked at the end, and at a time where all are.
const CHECKED: u64 = 8;
const COLUMNS: usize = 64;

/// The number of rounds in which every proposal may be rejected before what is left counts as rounding.
const EMPTY_ROUNDS: usize = 3;

struct Grown<'a> {
    matrix: &'a dyn Entries,
    workers: &'a Workers,
    diagonal: Vec<f64>,
    grown: GrowingFactor,
    /// How far what is left may be off, as a share of the largest diagonal entry: rounding, and what is tolerated.
    slack: f64,
    /// What rounding may leave of each row; infinite for rows that are never to be chosen again.
    floors: Vec<f64>,
    pivots: Vec<u64>,
    evaluations: u64,
}

impl<'a> Grown<'a> {
    fn new(matrix: &'a dyn Entries, (rank, tolerance): (usize, f64), workers: &'a Workers) -> Result<Self> {
        let rows = matrix.size();
        let most = usize::MAX as u64 / 16;
        let n = usize::try_from(rows.min(most)).unwrap_or(usize::MAX);
        if rows > most {
            return Err(Error::TooManyRows { what: "a factor", rows, most });
        }
        let mut diagonal = vec![0.0; n];
        matrix.diagonal(&mut diagonal)?;
        for (row, value) in (0..).zip(&diagonal) {
            if !value.is_finite() {
                return Err(not_finite(row));
            }
            if *value < 0.0 {
                return Err(Error::Indefinite { row, why: format!("the diagonal entry is {value}") });
            }
        }
        let floor = PIVOT_FLOOR / f64::EPSILON * matrix.rounding();
        let floors = diagonal.iter().map(|value| floor * value).collect();
        let grown = GrowingFactor::new(diagonal.clone(), rank.min(n));
        let slack = matrix.rounding().max(tolerance);
        Ok(Self { matrix, workers, diagonal, grown, slack, floors, pivots: Vec::new(), evaluations: rows })
    }

    fn trace_error(&self) -> f64 {
        let trace: f64 = self.diagonal.iter().sum();
        let left: f64 = self.grown.residual.iter().map(|residual| residual.max(0.0)).sum();
        if trace > 0.0 { left / trace } else { 0.0 }
    }

    fn is_done(&self, tolerance: f64) -> bool {
        self.pivots.len() == self.grown.factor.ncols() || self.trace_error() <= tolerance
    }

    /// Most candidates of a round: the entries between them are a quarter of a column.
    fn most_candidates(&self) -> usize {
        (self.grown.residual.len().isqrt() / 2).max(1)
    }

    /// What may still be chosen of row i.
    fn open(&self, i: usize) -> f64 {
        if self.grown.residual[i] > self.floors[i] { self.grown.residual[i] } else { 0.0 }
    }

    /// One round of proposals; the number of pivots it found.
    fn draw(&mut self, seed: u64, round: u64) -> Result<usize> {
        let wanted = self.grown.factor.ncols() - self.pivots.len();
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..self.grown.residual.len())
            .map(|i| {
                sum += self.open(i);
                sum
            })
            .collect();
        let (draws, coins) =
            (Stream::new(seed, Purpose::Proposals, round), Stream::new(seed, Purpose::Acceptance, round));
        let block = (self.grown.factor.ncols() / 8).clamp(BLOCK.0, BLOCK.1).min(2 * wanted + BLOCK.0);
        let block = block.min(self.most_candidates()) as u64;
        let pick = |draw| sums.partition_point(|known| *known <= draws.uniform(draw) * sum).min(sums.len() - 1);
        let proposed: Vec<usize> = (0..block).map(pick).collect();
        let mut rows = proposed.clone();
        rows.sort_unstable();
        rows.dedup();
        let mut pool = self.pool(&rows)?;
        let mut taken = Taken::default();
        for (draw, row) in (0..).zip(proposed) {
            let Ok(i) = rows.binary_search(&row) else { continue };
            match pool.residual(i) {
                None => self.floors[row] = f64::INFINITY,
                Some(now) if taken.rows.len() < wanted && coins.uniform(draw) * self.grown.residual[row] < now => {
                    taken.take(&mut pool, i);
                }
                Some(_) => {}
            }
        }
        self.extend(taken)
    }

    /// The rows of which most is left, as long as those are known without looking at others; how many they are.
    fn take_largest(&mut self, capacity: usize) -> Result<usize> {
        let wanted = self.grown.factor.ncols() - self.pivots.len();
        let open: Vec<f64> = (0..self.grown.residual.len()).map(|i| self.open(i)).collect();
        let best = largest(&open, capacity).1;
        let outside = best.get(capacity - 1).map_or(0.0, |i| open[*i]);
        let mut pool = self.pool(&best)?;
        let mut taken = Taken::default();
        while let Some((i, residual)) = pool.largest()
            && taken.rows.len() < wanted
            && (residual >= outside || taken.rows.is_empty())
        {
            taken.take(&mut pool, i);
        }
        self.extend(taken)
    }

    /// What the pivots leave of some rows, each of them once.
    fn pool(&mut self, rows: &[usize]) -> Result<Pool> {
        let b = rows.len();
        let numbers: Vec<u64> = rows.iter().map(|row| *row as u64).collect();
        let mut kernel = Mat::zeros(b, b);
        for (i, row) in numbers.iter().enumerate() {
            self.matrix.block(*row..*row + 1, &numbers, kernel.as_mut().subrows_mut(i, 1))?;
        }
        self.evaluations += (b * b) as u64;
        let phi = self.grown.rows(rows, self.pivots.len());
        let floors = rows.iter().map(|row| self.floors[*row]).collect();
        Ok(Pool::new(numbers, Vec::new(), phi, kernel, floors))
    }

    /// Adds the columns of new pivots; how many they are.
    fn extend(&mut self, Taken { rows, lower }: Taken) -> Result<usize> {
        let (n, s, t) = (self.grown.residual.len(), self.pivots.len(), rows.len());
        if t == 0 {
            return Ok(0);
        }
        let lower = Mat::from_fn(t, s + t, |i, j| lower[i].get(j).copied().unwrap_or(0.0));
        let matrix = self.matrix;
        self.grown.extend(lower.as_ref(), self.workers, |strip, out| {
            matrix.block(strip.start as u64..strip.end as u64, &rows, out)
        })?;
        self.evaluations += (n * t) as u64;
        for row in &rows {
            // exactly nothing: the row is spanned by itself
            (self.grown.residual[*row as usize], self.floors[*row as usize]) = (0.0, f64::INFINITY);
        }
        self.pivots.extend(rows);
        self.check()?;
        Ok(t)
    }

    /// Refuses residuals that lie further below 0 than rounding takes them.
    fn check(&self) -> Result<()> {
        let (rounding, largest) = (self.matrix.rounding(), self.diagonal.iter().copied().fold(0.0, f64::max));
        for (row, (residual, diagonal)) in (0..).zip(self.grown.residual.iter().zip(&self.diagonal)) {
            if residual.is_nan() {
                return Err(not_finite(row));
            }
            // an entry that is a difference has the rounding of the largest
            if *residual < -rounding.sqrt() * diagonal - self.slack * largest {
                let why = format!("the columns of the pivots leave {residual:e} of the diagonal entry {diagonal:e}");
                return Err(Error::Indefinite { row, why });
            }
        }
        Ok(())
    }

    /// The result, without the last pivots where the trace error is small enough without them.
    fn finish(mut self, tolerance: f64, seed: u64) -> Result<PartialCholesky> {
        let trace: f64 = self.diagonal.iter().sum();
        while let Some(last) = self.pivots.len().checked_sub(1) {
            let column = self.grown.factor.col(last);
            let before: Vec<f64> =
                self.grown.residual.iter().zip(column.iter()).map(|(r, value)| r + value * value).collect();
            if before.iter().map(|residual| residual.max(0.0)).sum::<f64>() > tolerance * trace {
                break;
            }
            self.grown.residual = before;
            self.pivots.pop();
        }
        let (n, draws) = (self.grown.residual.len(), Stream::new(seed, Purpose::Quality, 0));
        let columns: BTreeSet<u64> = (0..CHECKED.min(n as u64)).map(|draw| draws.below(draw, n as u64)).collect();
        self.grown.factor.truncate(n, self.pivots.len());
        let (trace_error, evaluations) = (self.trace_error(), self.evaluations + (n * columns.len()) as u64);
        let Self { matrix, workers, diagonal, slack, pivots, grown: GrowingFactor { factor, residual }, .. } = self;
        let found = PartialCholesky { pivots, factor, residual, trace, trace_error, evaluations };
        found.check_columns(matrix, (&diagonal, slack), &Vec::from_iter(columns), workers)?;
        Ok(found)
    }
}

fn not_finite(row: u64) -> Error {
    let remedy = "look at what computes the entries, or at the array that holds them".to_string();
    Error::NotFinite { what: format!("row {row} (counted from 0) of the matrix"), remedy }
}

#[derive(Default)]
struct Taken {
    rows: Vec<u64>,
    /// Their rows of L, up to the diagonal.
    lower: Vec<Vec<f64>>,
}

impl Taken {
    fn take(&mut self, pool: &mut Pool, i: usize) {
        self.rows.push(pool.rows[i]);
        self.lower.push(pool.lower_row(i).collect());
        pool.eliminate(i);
    }
}
