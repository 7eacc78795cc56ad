//! Linear SVMs on sparse rows: coordinate descent on the dual ½βᵀKβ + Σ_i h_i(β_i) of
//! [`super::dual`], which maintains the weights w of the columns.
//!
//! With w = Σ_i β_i x_i the values of the rows are f_i = w·x_i. So a step on a multiplier β_i costs
//! as many operations as row x_i has nonzero entries, and no kernel value is computed. A sweep
//! minimises the dual objective along each multiplier, in a random order. Along a multiplier, the
//! objective is piecewise quadratic. If the multiplier is at the end of a piece, the objective may
//! rise on both sides, with slopes above 0. Sweeps skip a row if both slopes exceed the largest
//! violation of the optimality conditions in the previous sweep, until the next certificate is
//! computed.
//!
//! If the intercept b is free, Σβ must equal a constant s. The method of multipliers ensures this:
//! a sweep minimises the objective plus ρ/2 (b − b₀)². This makes b = b₀ + (Σβ − s)/ρ, and after
//! the sweep b₀ moves to b. Before a certificate is computed, the remaining difference Σβ − s is
//! subtracted from the multipliers, first from those that are not at a bound.
//!
//! *Cost per sweep*: four flops per nonzero entry. *Bytes*: 12 per nonzero entry. For each SVM
//! being solved, 48 per row and 8 per column.
//!
//! References: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
//! large-scale linear SVM", ICML 2008; Bertsekas, "Constrained optimization and Lagrange multiplier
//! methods", 1982.

use super::super::loss::{Loss, TargetAndCost};
use super::dual::{Dual, SolvedSvm};
use crate::Intercept;
use crate::linalg::sparse_matrix::SparseMatrix;
use kstore::key::{Purpose, Stream};

/// Maximum number of sweeps between two certificates.
const SWEEPS_PER_CERTIFICATE: usize = 10;

/// The next certificate is computed when the largest violation of a sweep has fallen to this
/// fraction of that of the first sweep after the last certificate.
const VIOLATION_FRACTION: f64 = 0.1;

/// Maximum number of pieces of the conjugate h of a loss that a step may cross. No loss has more.
const MAX_PIECES: usize = 3;

/// Returns the bytes of the weights and rows of an SVM being solved.
pub(super) fn bytes(n: usize, column_count: usize) -> usize {
    8 * column_count + 48 * n
}

/// The state of the sweeps. The solution for one regularisation parameter is the start for the
/// next.
pub(super) struct CoordinateDescent<'m> {
    matrix: &'m SparseMatrix,
    /// Row of the matrix for each multiplier.
    row_indices: &'m [usize],
    w: Vec<f64>,
    squared_norms: Vec<f64>,
    active_rows: Vec<u32>,
    sweep_count: u64,
    seed: u64,
}

/// The intercept b of an SVM during a sweep.
#[derive(Clone, Copy)]
struct RunningIntercept {
    b: f64,
    /// Change of `b` per unit of a multiplier.
    per_multiplier: f64,
}

impl<'m> CoordinateDescent<'m> {
    pub(super) fn new(matrix: &'m SparseMatrix, row_indices: &'m [usize], seed: u64) -> Self {
        let squared_norms = row_indices.iter().map(|i| matrix.squared_norm(*i)).collect();
        Self {
            matrix,
            row_indices,
            w: vec![0.0; matrix.column_count],
            squared_norms,
            active_rows: Vec::new(),
            sweep_count: 0,
            seed,
        }
    }

    /// Makes at most `max_sweeps` sweeps. Stops earlier if the gap is small enough or `stop`
    /// returns true.
    pub(super) fn solve(&mut self, dual: &mut Dual, max_sweeps: usize, stop: &(dyn Fn() -> bool + Sync)) -> SolvedSvm {
        let (is_free, is_penalised) =
            (dual.problem_options.intercept == Intercept::Free, dual.problem_options.intercept == Intercept::Penalised);
        let mean_squared_norm = self.squared_norms.iter().sum::<f64>() / self.row_indices.len().max(1) as f64;
        let per_multiplier = match dual.problem_options.intercept {
            Intercept::Free => mean_squared_norm,
            Intercept::Penalised => 1.0,
            Intercept::None => 0.0,
        };
        let (mut gaps, mut sweep_count, mut b0) = (Vec::new(), 0, None);
        let certificate = loop {
            if is_free {
                self.restore_sum(dual);
            }
            self.update_values(dual, is_penalised);
            let certificate = dual.certificate();
            gaps.push(certificate.gap());
            if certificate.gap() <= dual.problem_options.gap_tolerance || sweep_count >= max_sweeps || stop() {
                break certificate;
            }
            let sum = |dual: &Dual| dual.beta.iter().sum::<f64>();
            let mut intercept = RunningIntercept {
                b: if is_free { *b0.get_or_insert(certificate.b) } else { per_multiplier * sum(dual) },
                per_multiplier,
            };
            self.active_rows = (0..self.row_indices.len() as u32).collect();
            let (mut first_violation, mut violation_limit) = (0.0, f64::INFINITY);
            for sweep in 0..SWEEPS_PER_CERTIFICATE.min(max_sweeps - sweep_count) {
                violation_limit = self.sweep(dual, &mut intercept, violation_limit);
                sweep_count += 1;
                if is_free {
                    b0 = Some(intercept.b);
                    intercept.b += per_multiplier * (sum(dual) - dual.problem_options.multiplier_sum);
                }
                first_violation = if sweep == 0 { violation_limit } else { first_violation };
                if violation_limit <= VIOLATION_FRACTION * first_violation || stop() {
                    break;
                }
            }
        };
        let b = if is_penalised { dual.beta.iter().sum() } else { certificate.b };
        let (beta, weights) = (dual.beta.clone(), self.w.clone());
        SolvedSvm {
            beta,
            weights,
            b,
            primal: certificate.primal,
            dual: certificate.dual,
            gaps,
            round_count: sweep_count,
        }
    }

    /// Computes f at all rows from w.
    fn update_values(&self, dual: &mut Dual, is_penalised: bool) {
        let intercept = if is_penalised { dual.beta.iter().sum() } else { 0.0 };
        dual.f.iter_mut().zip(self.row_indices).for_each(|(f, i)| *f = self.matrix.dot(*i, &self.w) + intercept);
    }

    /// Minimises along the multiplier of each active row, and returns the largest violation. A row
    /// whose objective rises on both sides with slopes above `violation_limit` becomes inactive.
    fn sweep(&mut self, dual: &mut Dual, intercept: &mut RunningIntercept, violation_limit: f64) -> f64 {
        let Self { matrix, row_indices: positions, w, squared_norms, active_rows: order, .. } = self;
        let stream = Stream::new(self.seed, Purpose::Permutations, self.sweep_count);
        self.sweep_count += 1;
        for k in (1..order.len()).rev() {
            order.swap(k, stream.uniform_below(k as u64, k as u64 + 1) as usize);
        }
        let (mut max_violation, mut k) = (0.0f64, 0);
        while let Some(i) = order.get(k).map(|i| *i as usize) {
            let (row, loss) = (dual.rows[i], dual.problem_options.loss);
            let f = matrix.dot(positions[i], w) + intercept.b;
            let piece = loss.piece(dual.beta[i], row);
            let (rise, fall) = (f + piece.rise, f + piece.fall);
            if rise > violation_limit && fall < -violation_limit {
                order.swap_remove(k);
                continue;
            }
            k += 1;
            if rise < 0.0 || fall > 0.0 {
                max_violation = max_violation.max(-rise).max(fall);
                let new_beta =
                    minimise_coordinate(loss, row, dual.beta[i], f, squared_norms[i] + intercept.per_multiplier);
                let change = new_beta - dual.beta[i];
                dual.beta[i] = new_beta;
                intercept.b += intercept.per_multiplier * change;
                matrix.add_scaled_row(positions[i], change, w);
            }
        }
        max_violation
    }

    /// Subtracts the excess of Σβ over s from the multipliers: first from multipliers strictly
    /// within their pieces, then, if necessary, from all other multipliers.
    fn restore_sum(&mut self, dual: &mut Dual) {
        let mut excess = dual.beta.iter().sum::<f64>() - dual.problem_options.multiplier_sum;
        for is_interior in [true, false] {
            for i in 0..dual.beta.len() {
                let (row, loss) = (dual.rows[i], dual.problem_options.loss);
                let (mut piece, beta) = (loss.piece(dual.beta[i], row), dual.beta[i]);
                if excess == 0.0 || is_interior && !(piece.lower < beta && beta < piece.upper) {
                    continue;
                }
                if !is_interior {
                    (piece.lower, piece.upper) = (loss.piece(-1.0, row).lower, loss.piece(1.0, row).upper);
                }
                let change = (beta - excess).clamp(piece.lower.min(beta), piece.upper.max(beta)) - beta;
                dual.beta[i] += change;
                excess += change;
                self.matrix.add_scaled_row(self.row_indices[i], change, &mut self.w);
            }
        }
    }
}

/// Returns the minimiser β⁺ of h(β⁺) + f (β⁺ − β) + q (β⁺ − β)²/2, where h is the conjugate of the
/// loss, f the value of the row, and q its squared norm.
fn minimise_coordinate(loss: Loss, row: TargetAndCost, beta: f64, f: f64, q: f64) -> f64 {
    let (mut multiplier, mut f) = (beta, f);
    for _ in 0..MAX_PIECES {
        let curvature = q + loss.curvature(multiplier, row);
        let piece = loss.piece(multiplier, row);
        let (rise, fall) = (f + piece.rise, f + piece.fall);
        let new_multiplier = match () {
            () if rise < 0.0 => (multiplier - rise / curvature).min(piece.upper),
            () if fall > 0.0 => (multiplier - fall / curvature).max(piece.lower),
            () => return multiplier,
        };
        f += q * (new_multiplier - multiplier);
        multiplier = new_multiplier;
    }
    multiplier
}
