//! Approximates a positive semi-definite matrix that is given by its entries, without points, from
//! a few of its columns.
//!
//! ```text
//! K ≈ F Fᵀ   with   F = K_nS L⁻ᵀ (n x r),   L Lᵀ = K_SS,   r_i = K_ii − ‖F_i‖²
//! ```
//!
//! K (n x n) is any [`PsdMatrix`]: a function of two row numbers, or an array in memory or mapped
//! from a file. S is the set of r rows chosen as pivots, K_nS contains the columns of K at the
//! pivots, K_SS their kernel matrix, F_i is row i of F, and r_i is the residual of row i. F Fᵀ
//! reproduces the columns at the pivots exactly, and the residual matrix K − F Fᵀ is positive
//! semi-definite. Therefore the sum of its diagonal, Σ r_i, is at least its Frobenius norm and its
//! spectral norm. [`PartialCholesky::trace_error`] is measured, not estimated.
//!
//! If K is positive semi-definite and the diagonal of the residual matrix is zero, the whole
//! residual matrix is zero. For an indefinite K this is not true. Therefore a few columns of the
//! residual matrix are checked at the end.
//!
//! *Cost* for r pivots of n rows: n(r + 9) entries of K (r columns, the diagonal, and 8 checked
//! columns), n r² flops, 8 n r bytes for F and 16 n bytes in addition. Each block of pivots also
//! needs the entries of K between its candidates; if n is much larger than r, these are a few per
//! cent of n r. Results do not depend on the number of threads.
//!
//! ```
//! use kapprox::matrix::{self, FnEntries};
//! use kpass::Workers;
//!
//! // the covariance of Brownian motion at the times 1, 2, …, 500
//! let k = FnEntries { n: 500, entry: |i: u64, j: u64| (i.min(j) + 1) as f64 };
//! let approximation = matrix::rpcholesky(&k, 40, 0.0, 0, &Workers::new(2))?;
//! assert_eq!(approximation.factor.ncols(), 40);
//! assert!(approximation.trace_error < 0.05);
//! # Ok::<(), kapprox::Error>(())
//! ```
//!
//! References: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv 2207.06503;
//! Epperly, Tropp, Webber, "Embrace rejection", arXiv 2410.03969; Fine, Scheinberg, JMLR 2, 2001.

mod check;
mod entries;
mod growing_factor;
mod pool;
mod positive_part;
mod squared_distances;

pub use entries::{FnEntries, PsdMatrix};
pub(crate) use growing_factor::GrowingFactor;
pub(crate) use pool::{CandidatePool, MAX_POOL_ROWS, MIN_POOL_ROWS, sum_and_largest};
#[doc(hidden)]
pub use positive_part::{PositivePart, SpectrumSummary};
pub use squared_distances::SquaredDistances;

use crate::map::factor::PIVOT_FLOOR;
use crate::{Error, Result};
use faer::Mat;
use kpass::Workers;
use kpass::key::{Purpose, Stream};
use std::collections::BTreeSet;

/// An approximation F Fᵀ of a positive semi-definite matrix: its projection onto the span of some
/// of its columns.
#[derive(Clone, Debug)]
pub struct PartialCholesky {
    /// Pivot rows, in the order in which they were chosen. For every s, the first s pivots and the
    /// first s columns of the factor are an approximation of rank s.
    pub pivots: Vec<u64>,
    /// F, n x r.
    pub factor: Mat<f64>,
    /// Residual of each diagonal entry.
    pub residuals: Vec<f64>,
    /// Sum of the diagonal entries.
    pub trace: f64,
    /// Sum of the residuals as a fraction of the trace.
    pub trace_error: f64,
    /// Number of entries of the matrix that were computed, including the diagonal.
    pub evaluations: u64,
}

impl PartialCholesky {
    /// Returns L, the rows of F at the pivots: r x r, lower triangular.
    ///
    /// Row i of F contains the coordinates of row i of the matrix. A new point whose kernel values
    /// with the pivots are `k` has the coordinates L⁻¹k.
    #[doc(hidden)]
    pub fn lower(&self) -> Mat<f64> {
        let r = self.pivots.len();
        Mat::from_fn(r, r, |i, j| if i >= j { self.factor[(self.pivots[i] as usize, j)] } else { 0.0 })
    }

    /// Checks the residuals of all n² entries of the matrix. Costs 2n²r flops.
    ///
    /// # Errors
    /// [`Error::Indefinite`] if the matrix is not positive semi-definite, because an entry R_ij of
    /// R = K − F Fᵀ exceeds √(R_ii R_jj) by more than rounding and `tolerance` times the largest
    /// diagonal entry allow.
    pub fn check(&self, matrix: &dyn PsdMatrix, tolerance: f64, workers: &Workers) -> Result<()> {
        let mut diagonal = vec![0.0; self.residuals.len()];
        matrix.diagonal(&mut diagonal)?;
        let slack = matrix.rounding().max(tolerance);
        let all_columns: Vec<u64> = (0..matrix.order()).collect();
        all_columns
            .chunks(COLUMNS_PER_CHECK)
            .try_for_each(|columns| self.check_columns(matrix, &diagonal, slack, columns, workers))
    }
}

/// Approximates a matrix by randomly pivoted Cholesky: each pivot is drawn with probabilities
/// proportional to the diagonal of the residual matrix.
///
/// Takes `rank` pivots, or fewer if the trace error reaches `tolerance` earlier, or if all
/// residuals are rounding errors. The entries of the matrix may have errors of up to `tolerance`
/// times the largest diagonal entry. Pivots are proposed in blocks, and accepted or rejected such
/// that they have the same distribution as single draws; see
/// [`RpCholesky`](crate::landmark::RpCholesky).
///
/// # Errors
/// [`Error::Indefinite`] for a negative diagonal entry, or for columns that a positive
/// semi-definite matrix cannot have; [`Error::NotFinite`] if an entry is not finite; the errors
/// that `matrix` returns.
pub fn rpcholesky(
    matrix: &dyn PsdMatrix,
    rank: usize,
    tolerance: f64,
    seed: u64,
    workers: &Workers,
) -> Result<PartialCholesky> {
    let mut state = CholeskyState::new(matrix, rank, tolerance, workers)?;
    let mut empty_round_count = 0;
    for round in 0.. {
        if state.is_done(tolerance) || empty_round_count > MAX_EMPTY_ROUNDS {
            break;
        }
        let new_pivot_count = state.run_round(seed, round)?;
        empty_round_count = if new_pivot_count == 0 { empty_round_count + 1 } else { 0 };
    }
    state.finish(tolerance, seed)
}

/// Approximates a matrix by greedy pivoted Cholesky: each pivot is the row with the largest
/// residual. If residuals are equal, it is the first of these rows.
///
/// Takes `rank` pivots, or fewer if the trace error reaches `tolerance` earlier, or if all
/// residuals are rounding errors.
///
/// # Errors
/// [`Error::Indefinite`], [`Error::NotFinite`] and the errors of the entries, as for
/// [`rpcholesky`].
pub fn greedy(matrix: &dyn PsdMatrix, rank: usize, tolerance: f64, workers: &Workers) -> Result<PartialCholesky> {
    let mut state = CholeskyState::new(matrix, rank, tolerance, workers)?;
    let mut capacity = MIN_POOL_ROWS;
    while !state.is_done(tolerance) {
        let new_pivot_count = state.select_largest(capacity.min(state.max_candidates()))?;
        if new_pivot_count == 0 {
            break;
        }
        capacity = (4 * new_pivot_count).clamp(MIN_POOL_ROWS, MAX_POOL_ROWS);
    }
    state.finish(tolerance, 0)
}

/// Minimum number of proposals of a round. Between the minimum and the maximum, the entries of the
/// matrix between proposals are cheap compared with the columns at the accepted proposals.
const MIN_PROPOSALS: usize = 16;
/// Maximum number of proposals of a round.
const MAX_PROPOSALS: usize = 128;

/// Number of columns checked at the end, chosen.
const CHECKED_COLUMNS: u64 = 8;
/// Number of columns checked at a time if all are checked, chosen.
const COLUMNS_PER_CHECK: usize = 64;

/// Number of consecutive rounds that may reject every proposal before all residuals count as
/// rounding errors.
const MAX_EMPTY_ROUNDS: usize = 3;

struct CholeskyState<'a> {
    matrix: &'a dyn PsdMatrix,
    workers: &'a Workers,
    diagonal: Vec<f64>,
    growing_factor: GrowingFactor,
    /// Allowed error of residuals, as a fraction of the largest diagonal entry: the rounding error
    /// of entries or the tolerance, whichever is larger.
    slack: f64,
    /// For each row, the largest residual that may be rounding error; infinite for rows that must
    /// not be chosen again.
    floors: Vec<f64>,
    pivots: Vec<u64>,
    evaluations: u64,
}

impl<'a> CholeskyState<'a> {
    fn new(matrix: &'a dyn PsdMatrix, rank: usize, tolerance: f64, workers: &'a Workers) -> Result<Self> {
        let row_count = matrix.order();
        let max_rows = usize::MAX as u64 / 16;
        let n = usize::try_from(row_count.min(max_rows)).unwrap_or(usize::MAX);
        if row_count > max_rows {
            return Err(Error::TooManyRows { what: "a factor", row_count, max_count: max_rows });
        }
        let mut diagonal = vec![0.0; n];
        matrix.diagonal(&mut diagonal)?;
        for (row, value) in (0..).zip(&diagonal) {
            if !value.is_finite() {
                return Err(not_finite(row));
            }
            if *value < 0.0 {
                return Err(Error::Indefinite { row, why: format!("the diagonal entry {value} is negative") });
            }
        }
        let relative_floor = PIVOT_FLOOR / f64::EPSILON * matrix.rounding();
        let floors = diagonal.iter().map(|value| relative_floor * value).collect();
        let growing_factor = GrowingFactor::new(diagonal.clone(), rank.min(n));
        let slack = matrix.rounding().max(tolerance);
        Ok(Self {
            matrix,
            workers,
            diagonal,
            growing_factor,
            slack,
            floors,
            pivots: Vec::new(),
            evaluations: row_count,
        })
    }

    fn trace_error(&self) -> f64 {
        let trace: f64 = self.diagonal.iter().sum();
        let residual_sum: f64 = self.growing_factor.residuals.iter().map(|residual| residual.max(0.0)).sum();
        if trace > 0.0 { residual_sum / trace } else { 0.0 }
    }

    fn is_done(&self, tolerance: f64) -> bool {
        self.pivots.len() == self.growing_factor.factor.ncols() || self.trace_error() <= tolerance
    }

    /// Returns the maximum number of candidates of a round, √n/2. The number of entries between
    /// √n/2 candidates is a quarter of the length of a column.
    fn max_candidates(&self) -> usize {
        (self.growing_factor.residuals.len().isqrt() / 2).max(1)
    }

    /// Returns the residual of row i, or 0 if the row must not be chosen.
    fn available_residual(&self, i: usize) -> f64 {
        if self.growing_factor.residuals[i] > self.floors[i] { self.growing_factor.residuals[i] } else { 0.0 }
    }

    /// Makes one round of proposals and returns the number of new pivots.
    fn run_round(&mut self, seed: u64, round: u64) -> Result<usize> {
        let remaining_pivot_count = self.growing_factor.factor.ncols() - self.pivots.len();
        let mut cumulative_sum = 0.0;
        let cumulative_sums: Vec<f64> = (0..self.growing_factor.residuals.len())
            .map(|i| {
                cumulative_sum += self.available_residual(i);
                cumulative_sum
            })
            .collect();
        let (proposal_stream, acceptance_stream) =
            (Stream::new(seed, Purpose::Proposals, round), Stream::new(seed, Purpose::Acceptance, round));
        let proposal_count = (self.growing_factor.factor.ncols() / 8)
            .clamp(MIN_PROPOSALS, MAX_PROPOSALS)
            .min(2 * remaining_pivot_count + MIN_PROPOSALS);
        let proposal_count = proposal_count.min(self.max_candidates()) as u64;
        let draw_row = |draw| {
            cumulative_sums
                .partition_point(|cumulative| *cumulative <= proposal_stream.uniform(draw) * cumulative_sum)
                .min(cumulative_sums.len() - 1)
        };
        let proposed_rows: Vec<usize> = (0..proposal_count).map(draw_row).collect();
        let mut distinct_rows = proposed_rows.clone();
        distinct_rows.sort_unstable();
        distinct_rows.dedup();
        let mut pool = self.build_pool(&distinct_rows)?;
        let mut accepted = AcceptedPivots::default();
        for (draw, row) in (0..).zip(proposed_rows) {
            let Ok(i) = distinct_rows.binary_search(&row) else { continue };
            // accept with probability (current residual)/(residual at the start of the round)
            match pool.residual(i) {
                None => self.floors[row] = f64::INFINITY,
                Some(residual)
                    if accepted.row_numbers.len() < remaining_pivot_count
                        && acceptance_stream.uniform(draw) * self.growing_factor.residuals[row] < residual =>
                {
                    accepted.accept(&mut pool, i);
                }
                Some(_) => {}
            }
        }
        self.add_pivots(accepted)
    }

    /// Makes the row of the pool with the largest residual a pivot, repeatedly, as long as no row
    /// outside the pool can have a larger residual. Returns the number of new pivots.
    fn select_largest(&mut self, capacity: usize) -> Result<usize> {
        let remaining_pivot_count = self.growing_factor.factor.ncols() - self.pivots.len();
        let available_residuals: Vec<f64> =
            (0..self.growing_factor.residuals.len()).map(|i| self.available_residual(i)).collect();
        let best_rows = sum_and_largest(&available_residuals, capacity).1;
        let outside_bound = best_rows.get(capacity - 1).map_or(0.0, |i| available_residuals[*i]);
        let mut pool = self.build_pool(&best_rows)?;
        let mut accepted = AcceptedPivots::default();
        while let Some((i, residual)) = pool.largest_residual()
            && accepted.row_numbers.len() < remaining_pivot_count
            && (residual >= outside_bound || accepted.row_numbers.is_empty())
        {
            accepted.accept(&mut pool, i);
        }
        self.add_pivots(accepted)
    }

    /// Returns a pool of distinct rows with their residuals.
    fn build_pool(&mut self, positions: &[usize]) -> Result<CandidatePool> {
        let b = positions.len();
        let row_numbers: Vec<u64> = positions.iter().map(|row| *row as u64).collect();
        let mut candidate_entries = Mat::zeros(b, b);
        for (i, row) in row_numbers.iter().enumerate() {
            self.matrix.block(*row..*row + 1, &row_numbers, candidate_entries.as_mut().subrows_mut(i, 1))?;
        }
        self.evaluations += (b * b) as u64;
        let phi = self.growing_factor.factor_rows(positions, self.pivots.len());
        let floors = positions.iter().map(|row| self.floors[*row]).collect();
        Ok(CandidatePool::new(row_numbers, Vec::new(), phi, candidate_entries, floors))
    }

    /// Adds the columns of new pivots and returns their number.
    fn add_pivots(&mut self, AcceptedPivots { row_numbers, factor_rows }: AcceptedPivots) -> Result<usize> {
        let (n, s, t) = (self.growing_factor.residuals.len(), self.pivots.len(), row_numbers.len());
        if t == 0 {
            return Ok(0);
        }
        let new_factor_rows = Mat::from_fn(t, s + t, |i, j| factor_rows[i].get(j).copied().unwrap_or(0.0));
        let matrix = self.matrix;
        self.growing_factor.add_columns(new_factor_rows.as_ref(), self.workers, |strip_rows, out| {
            matrix.block(strip_rows.start as u64..strip_rows.end as u64, &row_numbers, out)
        })?;
        self.evaluations += (n * t) as u64;
        for row in &row_numbers {
            // the residual is exactly zero, because the row is a pivot
            (self.growing_factor.residuals[*row as usize], self.floors[*row as usize]) = (0.0, f64::INFINITY);
        }
        self.pivots.extend(row_numbers);
        self.check_diagonal()?;
        Ok(t)
    }

    /// Returns an error if a residual is further below 0 than rounding can explain.
    fn check_diagonal(&self) -> Result<()> {
        let (rounding, largest_diagonal) = (self.matrix.rounding(), self.diagonal.iter().copied().fold(0.0, f64::max));
        for (row, (residual, diagonal)) in (0..).zip(self.growing_factor.residuals.iter().zip(&self.diagonal)) {
            if residual.is_nan() {
                return Err(not_finite(row));
            }
            // an entry that was computed as a difference has the rounding error of the largest
            // entry
            if *residual < -rounding.sqrt() * diagonal - self.slack * largest_diagonal {
                let why = format!("the residual {residual:e} of the diagonal entry {diagonal:e} is negative");
                return Err(Error::Indefinite { row, why });
            }
        }
        Ok(())
    }

    /// Returns the result. Drops the last pivots if the trace error is small enough without them.
    fn finish(mut self, tolerance: f64, seed: u64) -> Result<PartialCholesky> {
        let trace: f64 = self.diagonal.iter().sum();
        while let Some(last) = self.pivots.len().checked_sub(1) {
            let column = self.growing_factor.factor.col(last);
            let previous_residuals: Vec<f64> =
                self.growing_factor.residuals.iter().zip(column.iter()).map(|(r, value)| r + value * value).collect();
            if previous_residuals.iter().map(|residual| residual.max(0.0)).sum::<f64>() > tolerance * trace {
                break;
            }
            self.growing_factor.residuals = previous_residuals;
            self.pivots.pop();
        }
        let (n, column_stream) = (self.growing_factor.residuals.len(), Stream::new(seed, Purpose::Quality, 0));
        let checked_columns: BTreeSet<u64> =
            (0..CHECKED_COLUMNS.min(n as u64)).map(|draw| column_stream.uniform_below(draw, n as u64)).collect();
        self.growing_factor.factor.truncate(n, self.pivots.len());
        let (trace_error, evaluations) = (self.trace_error(), self.evaluations + (n * checked_columns.len()) as u64);
        let Self {
            matrix, workers, diagonal, slack, pivots, growing_factor: GrowingFactor { factor, residuals }, ..
        } = self;
        let approximation = PartialCholesky { pivots, factor, residuals, trace, trace_error, evaluations };
        approximation.check_columns(matrix, &diagonal, slack, &Vec::from_iter(checked_columns), workers)?;
        Ok(approximation)
    }
}

fn not_finite(row: u64) -> Error {
    let remedy = "check the function or the array that provides the entries".to_string();
    Error::NotFinite { what: format!("row {row} (counted from 0) of the matrix"), remedy }
}

#[derive(Default)]
struct AcceptedPivots {
    row_numbers: Vec<u64>,
    /// Rows of L at these pivots, up to the diagonal.
    factor_rows: Vec<Vec<f64>>,
}

impl AcceptedPivots {
    fn accept(&mut self, pool: &mut CandidatePool, i: usize) {
        self.row_numbers.push(pool.row_numbers[i]);
        self.factor_rows.push(pool.lower_row(i).collect());
        pool.eliminate(i);
    }
}
