//! Linear SVMs on sparse rows: dual coordinate descent that maintains the weights of the columns.
//!
//! With w = Σ β_i x_i the values are f_i = w·x_i, so that a step on a multiplier costs the entries
//! of its row, and no kernel value is computed. A sweep minimises the dual along each multiplier,
//! in a random order. Until the next certificate it skips rows that are optimal at the end of a
//! piece by a margin above the largest violation of the previous sweep.
//!
//! With a free intercept, Σβ must be s: the method of multipliers. A sweep minimises with ρ/2 (b −
//! b₀)² added to the objective, which makes b = b₀ + (Σβ − s)/ρ, and b₀ follows b. Before a
//! certificate the remaining Σβ − s is subtracted from multipliers that may move.
//!
//! *Cost per sweep*: four flops per entry. *Bytes*: 12 per entry; for each SVM being solved 48 per
//! row and 8 per column.
//!
//! References: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
//! large-scale linear SVM", ICML 2008; Bertsekas, "Constrained optimization and Lagrange multiplier
//! methods", 1982.

use super::super::loss::{Loss, Row};
use super::dual::{Dual, SolvedMachine};
use crate::Intercept;
use crate::linalg::sparse_matrix::SparseMatrix;
use kstore::key::{Purpose, Stream};

/// Sweeps between two certificates.
const SWEEPS: usize = 10;

/// Fraction of the violation in the first sweep after a certificate at which the next certificate
/// is computed.
const LEFT: f64 = 0.1;

/// Maximum number of pieces of a conjugate that a step may cross.
const PIECES: usize = 3;

/// Returns the bytes of the weights and rows of an SVM being solved.
pub(super) fn bytes(n: usize, width: usize) -> usize {
    8 * width + 48 * n
}

/// The state that SVMs on the same rows use one after the other.
pub(super) struct Weights<'m> {
    matrix: &'m SparseMatrix,
    /// Rows of the matrix.
    at: &'m [usize],
    w: Vec<f64>,
    squares: Vec<f64>,
    order: Vec<u32>,
    sweeps: u64,
    seed: u64,
}

/// The intercept of an SVM while its multipliers move.
#[derive(Clone, Copy)]
struct Constant {
    b: f64,
    /// Change of `b` per unit of a multiplier.
    by: f64,
}

impl<'m> Weights<'m> {
    pub(super) fn new(matrix: &'m SparseMatrix, at: &'m [usize], seed: u64) -> Self {
        let squares = at.iter().map(|i| matrix.square(*i)).collect();
        Self { matrix, at, w: vec![0.0; matrix.width], squares, order: Vec::new(), sweeps: 0, seed }
    }

    /// Makes at most this many sweeps until the gap is small enough, or `stop` returns true.
    pub(super) fn solve(&mut self, dual: &mut Dual, most: usize, stop: &(dyn Fn() -> bool + Sync)) -> SolvedMachine {
        let (free, penalised) = (dual.terms.intercept == Intercept::Free, dual.terms.intercept == Intercept::Penalised);
        let mean = self.squares.iter().sum::<f64>() / self.at.len().max(1) as f64;
        let by = match dual.terms.intercept {
            Intercept::Free => mean,
            Intercept::Penalised => 1.0,
            Intercept::None => 0.0,
        };
        let (mut gaps, mut sweeps, mut centre) = (Vec::new(), 0, None);
        let at = loop {
            if free {
                self.balance(dual);
            }
            self.values(dual, penalised);
            let at = dual.certificate();
            gaps.push(at.gap());
            if at.gap() <= dual.terms.gap || sweeps >= most || stop() {
                break at;
            }
            let sum = |dual: &Dual| dual.beta.iter().sum::<f64>();
            let mut constant = Constant { b: if free { *centre.get_or_insert(at.b) } else { by * sum(dual) }, by };
            self.order = (0..self.at.len() as u32).collect();
            let (mut first, mut limit) = (0.0, f64::INFINITY);
            for sweep in 0..SWEEPS.min(most - sweeps) {
                limit = self.sweep(dual, &mut constant, limit);
                sweeps += 1;
                if free {
                    centre = Some(constant.b);
                    constant.b += by * (sum(dual) - dual.terms.total);
                }
                first = if sweep == 0 { limit } else { first };
                if limit <= LEFT * first || stop() {
                    break;
                }
            }
        };
        let b = if penalised { dual.beta.iter().sum() } else { at.b };
        let (beta, weights) = (dual.beta.clone(), self.w.clone());
        SolvedMachine { beta, weights, b, primal: at.primal, dual: at.dual, gaps, rounds: sweeps }
    }

    /// Computes f at all rows.
    fn values(&self, dual: &mut Dual, penalised: bool) {
        let constant = if penalised { dual.beta.iter().sum() } else { 0.0 };
        dual.f.iter_mut().zip(self.at).for_each(|(f, i)| *f = self.matrix.dot(*i, &self.w) + constant);
    }

    /// Minimises along each multiplier of the active rows; returns the largest violation. Removes
    /// rows that are optimal by a margin above `limit`.
    fn sweep(&mut self, dual: &mut Dual, constant: &mut Constant, limit: f64) -> f64 {
        let Self { matrix, at, w, squares, order, .. } = self;
        let stream = Stream::new(self.seed, Purpose::Permutations, self.sweeps);
        self.sweeps += 1;
        for k in (1..order.len()).rev() {
            order.swap(k, stream.below(k as u64, k as u64 + 1) as usize);
        }
        let (mut largest, mut k) = (0.0f64, 0);
        while let Some(i) = order.get(k).map(|i| *i as usize) {
            let (row, loss) = (dual.rows[i], dual.terms.loss);
            let f = matrix.dot(at[i], w) + constant.b;
            let piece = loss.piece(dual.beta[i], row);
            let (rise, fall) = (f + piece.rise, f + piece.fall);
            if rise > limit && fall < -limit {
                order.swap_remove(k);
                continue;
            }
            k += 1;
            if rise < 0.0 || fall > 0.0 {
                largest = largest.max(-rise).max(fall);
                let to = minimum(loss, row, dual.beta[i], f, squares[i] + constant.by);
                let moved = to - dual.beta[i];
                dual.beta[i] = to;
                constant.b += constant.by * moved;
                matrix.add(at[i], moved, w);
            }
        }
        largest
    }

    /// Subtracts the excess of Σβ over s from multipliers strictly within their pieces, and then,
    /// if necessary, from others.
    fn balance(&mut self, dual: &mut Dual) {
        let mut above = dual.beta.iter().sum::<f64>() - dual.terms.total;
        for inside in [true, false] {
            for i in 0..dual.beta.len() {
                let (row, loss) = (dual.rows[i], dual.terms.loss);
                let (mut piece, beta) = (loss.piece(dual.beta[i], row), dual.beta[i]);
                if above == 0.0 || inside && !(piece.below < beta && beta < piece.above) {
                    continue;
                }
                if !inside {
                    (piece.below, piece.above) = (loss.piece(-1.0, row).below, loss.piece(1.0, row).above);
                }
                let moved = (beta - above).clamp(piece.below.min(beta), piece.above.max(beta)) - beta;
                dual.beta[i] += moved;
                above += moved;
                self.matrix.add(self.at[i], moved, &mut self.w);
            }
        }
    }
}

/// Returns the minimiser β⁺ of h(β⁺) + f (β⁺ − β) + q (β⁺ − β)²/2.
fn minimum(loss: Loss, row: Row, beta: f64, f: f64, q: f64) -> f64 {
    let (mut at, mut f) = (beta, f);
    let curvature = q + loss.curvature(row);
    for _ in 0..PIECES {
        let piece = loss.piece(at, row);
        let (rise, fall) = (f + piece.rise, f + piece.fall);
        let to = match () {
            () if rise < 0.0 => (at - rise / curvature).min(piece.above),
            () if fall > 0.0 => (at - fall / curvature).max(piece.below),
            () => return at,
        };
        f += q * (to - at);
        at = to;
    }
    at
}
