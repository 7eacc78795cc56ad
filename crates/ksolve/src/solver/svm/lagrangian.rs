//! The augmented Lagrangian method with semismooth Newton steps, for one or several support vector problems at a time.
//!
//! With costs c_i the problem, its dual, and what joins them are
//!
//! ```text
//! primal   P = ½‖w‖² + Σ c_i loss_i(f_i) + s b,     f_i = wᵀφ_i + b
//! dual     D = −½‖Σ β_i φ_i‖² − Σ h_i(β_i),         Σ β_i = s   (free b; s = 0, and 1 for the one-class machine)
//! w = Σ β_i φ_i
//! ```
//!
//! Around multipliers β the loss is replaced by its Moreau envelope of width 1/σ, whose derivative is −β⁺(f). The inner
//! problem is then smooth: gradient w − Σ β⁺_i φ_i, generalised Hessian I + σ Σ_free φ_i φ_iᵀ over the rows whose β⁺ is
//! strictly between its bounds. Few rows are: that is what makes a step cheap. A step is
//!
//! 1. b that minimises the inner problem for this w, by a safeguarded Newton iteration over the n values f: Σ β⁺ = s then
//!    holds to rounding, so β⁺ is feasible and D(β⁺) a true lower bound;
//! 2. a pass over the features: Σ β⁺φ, the Hessian; with them P and D, the certificate of this point;
//! 3. Cholesky, and a pass for the values Φd of the direction;
//! 4. a line search over the n values, and where its step is nearly whole β ← β⁺ and σ grows.
//!
//! The rows enter by sums only: their order does not matter, sorted or shuffled, and blocks of one class do no harm.
//! P is convex and the envelope's minima approach its own from below, so the best P and the best D of all steps bound the
//! optimum from both sides.
//!
//! *Cost of a step*: 6np flops, p² for every free row, p³/3. *Bytes*: 8 and two elements for every row and problem, 8p² for
//! every problem.
//!
//! References: Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm in convex
//! programming", Mathematics of Operations Research 1, 1976; Li, Sun, Toh, "A highly efficient semismooth Newton augmented
//! Lagrangian method for solving Lasso problems", SIAM J. Optim. 28, 2018; Yan, Li, "An efficient augmented Lagrangian method
//! for support vector machine", Optimization Methods and Software 35, 2020. The squared hinge, smooth itself, is Newton's
//! method of Keerthi, DeCoste, "A modified finite Newton method for fast solution of large scale linear SVMs", JMLR 6, 2005.

use super::loss::{Loss, Row};
use super::passes;
use super::search::{self, Curve};
use crate::gram;
use crate::solver::kept::{Kept, Tile};
use crate::strips::Pool;
use crate::{Intercept, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::triangular_solve as triangular;
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef, Par, Spec};
use kapprox::Real;
use kstore::Workers;
use kstore::pass::Observer;

/// σ of the first step, as a share of the cost: envelopes ten units wide, as smooth as ridge regression.
const FIRST: f64 = 0.1;

/// What σ grows by. Measured on 20,000 rows of `dsa` (300 features, lambda 1e-4 and 1e-6): 1.5 takes 16 to 27 steps to
/// a gap of 1e-3 and up to 32 to 1e-6; 3 takes up to 30 and 42, and more from some starts.
const GROWTH: f64 = 1.5;

/// σ at most, as a share of the cost: the envelope is then a millionth of a unit wide, and its sums cancel.
const STEEPEST: f64 = 1e6;

/// The least step at which the inner problem counts as solved: then the multipliers move.
const WHOLE: f64 = 0.7;

/// Free rows gathered before their products are added to the Hessian.
pub(super) const BIN: usize = 512;

/// Keeps the Hessian definite along the constant feature, which it is not exactly.
const DEFINITE: f64 = 1.0 - 1e-6;

/// One problem: the rows as it sees them.
pub(super) trait Rows: Sync {
    /// Target and cost of row `i`.
    fn row(&self, i: usize) -> Row;
}

/// What all problems share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) loss: Loss,
    pub(super) intercept: Intercept,
    /// s: what the dual variables add up to.
    pub(super) total: f64,
    /// The cost that σ is measured by, in the unit of f.
    pub(super) cost: f64,
    /// Relative gap at which a problem is solved.
    pub(super) gap: f64,
}

/// A problem on its way.
pub(super) struct Problem<T, R> {
    rows: R,
    terms: Terms,
    w: Vec<f64>,
    b: f64,
    /// Multipliers β, n.
    beta: Vec<f64>,
    /// Φw, n.
    f: Vec<T>,
    /// Φd, n.
    pub(super) q: Vec<T>,
    sigma: f64,
    /// Σ β⁺φ and Σ slope φ, p each.
    pub(super) sums: [Vec<f64>; 2],
    /// Σ slope φφᵀ, p x p column-major, the lower triangle.
    pub(super) hessian: Vec<f64>,
    /// Rows √slope φ that wait for their products.
    bin: Vec<T>,
    /// d and its constant.
    pub(super) direction: (Vec<f64>, f64),
    pub(super) best: Best,
    pub(super) steps: usize,
    /// Neither solved nor out of steps.
    open: bool,
}

/// The best point so far and its certificate.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) w: Vec<f64>,
    pub(super) b: f64,
    /// Smallest P.
    pub(super) primal: f64,
    /// Largest D.
    pub(super) dual: f64,
    /// Rows with β⁺ ≠ 0 at the last step.
    pub(super) support: usize,
}

impl Best {
    /// (P − D)/max(|P|, |D|): what P may be above the optimum at most.
    pub(super) fn gap(&self) -> f64 {
        let scale = self.primal.abs().max(self.dual.abs()).max(f64::MIN_POSITIVE);
        let known = self.primal.is_finite() && self.dual.is_finite();
        if known { ((self.primal - self.dual) / scale).max(0.0) } else { f64::INFINITY }
    }
}

impl<T: Real, R: Rows> Problem<T, R> {
    pub(super) fn new(rows: R, terms: Terms, n: usize, p: usize) -> Self {
        Self {
            rows,
            terms,
            w: vec![0.0; p],
            b: 0.0,
            beta: vec![0.0; n],
            f: vec![T::ZERO; n],
            q: vec![T::ZERO; n],
            sigma: FIRST * terms.cost,
            sums: [vec![0.0; p], vec![0.0; p]],
            hessian: vec![0.0; p * p],
            bin: Vec::with_capacity(BIN * p),
            direction: (vec![0.0; p], 0.0),
            best: Best { w: vec![0.0; p], b: 0.0, primal: f64::INFINITY, dual: f64::NEG_INFINITY, support: 0 },
            steps: 0,
            open: true,
        }
    }

    /// The same machine at other costs, no lower ones: begins at the multipliers and the point of the last.
    pub(super) fn again(&mut self, rows: R, terms: Terms) {
        (self.rows, self.terms, self.sigma) = (rows, terms, FIRST * terms.cost);
        let (primal, dual) = (f64::INFINITY, f64::NEG_INFINITY);
        self.best = Best { primal, dual, ..self.best.clone() };
        (self.steps, self.open) = (0, true);
    }

    /// σ beyond which the rounding of f would move β by a thousandth of its range.
    fn largest_sigma(&self) -> f64 {
        (1e-3 / <T as kstore::Real>::EPSILON).min(STEEPEST) * self.terms.cost
    }

    /// β⁺ and slope of row `i` at value `f`.
    #[inline(always)]
    fn at(&self, i: usize, f: f64) -> (f64, f64) {
        self.terms.loss.step(f, self.rows.row(i), self.beta[i], self.sigma)
    }

    /// b that minimises the inner problem for this w.
    fn balance(&mut self) {
        if self.terms.intercept != Intercept::Free {
            return;
        }
        let derivative = |b: f64| {
            let each = (0..self.f.len()).map(|i| self.at(i, self.f[i].to_f64() + b));
            let (beta, slope) = each.fold((0.0, 0.0), |(beta, slope), (b, s)| (beta + b, slope + s));
            Curve { slope: self.terms.total - beta, curvature: slope }
        };
        // far below what the costs add up to, and above the rounding of their sum
        let enough = 1e-13 * self.terms.cost * self.f.len() as f64;
        self.b = search::root(self.b, self.terms.cost / self.sigma, enough, derivative);
    }

    /// P and D at this point; `v` = Σ β⁺φ is there.
    fn certify(&mut self, most: usize) {
        let (loss, mut primal, mut conjugate, mut total, mut support) = (self.terms.loss, 0.0, 0.0, 0.0, 0);
        for (i, f) in self.f.iter().enumerate() {
            let (f, row) = (f.to_f64() + self.b, self.rows.row(i));
            let beta = loss.step(f, row, self.beta[i], self.sigma).0;
            primal += loss.value(f, row);
            conjugate += loss.conjugate(beta, row);
            total += beta;
            support += usize::from(beta != 0.0);
        }
        let square = |v: &[f64]| 0.5 * v.iter().map(|v| v * v).sum::<f64>();
        primal += square(&self.w) + self.terms.total * self.b;
        let mut dual = -conjugate - square(&self.sums[0]);
        if self.terms.intercept == Intercept::Penalised {
            primal += 0.5 * self.b * self.b;
            dual -= 0.5 * total * total;
        }
        self.best.support = support;
        self.best.dual = self.best.dual.max(dual);
        if primal < self.best.primal {
            (self.best.primal, self.best.b) = (primal, self.b);
            self.best.w.copy_from_slice(&self.w);
        }
        self.open = self.best.gap() > self.terms.gap && self.steps < most;
    }

    /// Solves H d = −gradient, the constant eliminated.
    fn solve(&mut self, factor: &mut Mat<f64>, workers: &Workers) {
        let (p, [v, s]) = (self.w.len(), &self.sums);
        // Σ slope and Σ β⁺ belong to the constant feature
        let each = (0..self.f.len()).map(|i| self.at(i, self.f[i].to_f64() + self.b));
        let (total, mut weight) = each.fold((0.0, 0.0), |(beta, slope), (b, t)| (beta + b, slope + t));
        let (mut constant, mut keep) = (0.0, 0.0);
        match self.terms.intercept {
            Intercept::None => {}
            Intercept::Free => keep = DEFINITE,
            Intercept::Penalised => (weight, constant, keep) = (weight + 1.0, self.b - total, 1.0),
        }
        let share = if weight > 0.0 { keep / weight } else { 0.0 };
        let trace: f64 = (0..p).map(|j| self.hessian[j * p + j]).sum();
        let mut shift = 1.0;
        loop {
            for j in 0..p {
                for i in j..p {
                    factor[(i, j)] = self.hessian[j * p + i] - share * s[i] * s[j];
                }
                factor[(j, j)] += shift;
            }
            // what rounding has made indefinite is damped; the direction still descends
            if cholesky(factor, workers) || shift > trace.max(1.0) {
                break;
            }
            shift = (10.0 * shift).max(f64::EPSILON * trace);
        }
        let right = (0..p).map(|i| v[i] - self.w[i] + share * s[i] * constant);
        let mut direction: Vec<f64> = right.collect();
        let mut column = MatMut::from_column_major_slice_mut(&mut direction, p, 1);
        triangular::solve_lower_triangular_in_place(factor.as_ref(), column.rb_mut(), Par::Seq);
        triangular::solve_upper_triangular_in_place(factor.transpose(), column, Par::Seq);
        let along: f64 = s.iter().zip(&direction).map(|(s, d)| s * d).sum();
        let bias = if weight > 0.0 && keep > 0.0 { -(constant + along) / weight } else { 0.0 };
        self.direction = (direction, bias);
    }

    /// Walks along the direction to the minimum of the inner problem; moves the multipliers where the step is whole.
    fn advance(&mut self) {
        let (d, bias) = &self.direction;
        let penalised = f64::from(u8::from(self.terms.intercept == Intercept::Penalised));
        let wd: f64 = self.w.iter().zip(d).map(|(w, d)| w * d).sum::<f64>() + penalised * self.b * bias;
        let dd: f64 = d.iter().map(|d| d * d).sum::<f64>() + penalised * bias * bias;
        let derivative = |t: f64| {
            let (mut slope, mut curvature) = (wd + t * dd + self.terms.total * bias, dd);
            for (i, (f, q)) in self.f.iter().zip(&self.q).enumerate() {
                let q = q.to_f64() + bias;
                let (beta, steep) = self.at(i, f.to_f64() + self.b + t * q);
                slope -= beta * q;
                curvature += steep * q * q;
            }
            Curve { slope, curvature }
        };
        let step = search::descend(derivative);
        self.w.iter_mut().zip(d).for_each(|(w, d)| *w += step * d);
        self.b += step * bias;
        self.f.iter_mut().zip(&self.q).for_each(|(f, q)| *f = T::from_f64(f.to_f64() + step * q.to_f64()));
        self.steps += 1;
        // no step at all: what is left of the gradient is rounding
        if (step >= WHOLE || step == 0.0) && self.terms.loss.has_kink() {
            for i in 0..self.beta.len() {
                self.beta[i] = self.at(i, self.f[i].to_f64() + self.b).0;
            }
            self.sigma = (GROWTH * self.sigma).min(self.largest_sigma());
        }
    }

    /// The waiting rows go into the Hessian.
    pub(super) fn flush(&mut self, panels: &Pool<Vec<T>>, workers: &Workers) {
        let p = self.w.len();
        let rows = self.bin.len() / p;
        if rows > 0 {
            let phi = MatRef::from_row_major_slice(&self.bin, rows, p);
            gram::add_gram(&mut self.hessian, phi, panels, workers);
            self.bin.clear();
        }
    }

    /// Takes in a tile: β⁺ and slope of every row into `pairs`; free rows into the Hessian.
    pub(super) fn take(&mut self, tile: &Tile<'_, T>, pairs: &mut [T], panels: &Pool<Vec<T>>, workers: &Workers) {
        for (i, pair) in pairs.chunks_exact_mut(2).enumerate() {
            let row = tile.first + i;
            let (beta, slope) = self.at(row, self.f[row].to_f64() + self.b);
            (pair[0], pair[1]) = (T::from_f64(beta), T::from_f64(slope));
            if slope > 0.0 {
                let root = T::from_f64(slope.sqrt());
                self.bin.extend(tile.row(i).iter().map(|value| *value * root));
                if self.bin.len() >= BIN * self.w.len() {
                    self.flush(panels, workers);
                }
            }
        }
    }
}

/// The lower triangle becomes its factor; false where it is not positive definite.
fn cholesky(matrix: &mut Mat<f64>, workers: &Workers) -> bool {
    let order = matrix.nrows();
    workers.install(|| {
        let (params, par) = (Spec::default(), kapprox::map::par(workers));
        let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(order, par, params));
        let stack = MemStack::new(&mut memory);
        let done = llt::cholesky_in_place(matrix.as_mut(), Default::default(), par, stack, params).is_ok();
        done && (0..order).all(|i| matrix[(i, i)].is_finite())
    })
}

/// What a run of several problems leaves.
pub(super) struct Outcome {
    /// The largest gap of all problems before every step, and at the end.
    pub(super) gaps: Vec<f64>,
    /// Passes over the features.
    pub(super) passes: u64,
}

/// Solves all problems, by common passes over the features; `most` steps each.
///
/// # Errors
/// Those of the rows.
pub(super) fn solve<T: Real, R: Rows + Send>(
    kept: &Kept<'_, T>,
    problems: &mut [Problem<T, R>],
    most: usize,
    observer: &dyn Observer,
) -> Result<Outcome> {
    let workers = kept.workers();
    let mut outcome = Outcome { gaps: Vec::new(), passes: 0 };
    let mut factor = Mat::zeros(kept.p, kept.p);
    loop {
        let mut open: Vec<&mut Problem<T, R>> = problems.iter_mut().filter(|problem| problem.open).collect();
        workers.each(open.iter_mut().collect(), |problem| problem.balance());
        passes::gather(kept, &mut open, observer)?;
        workers.each(open.iter_mut().collect(), |problem| problem.certify(most));
        outcome.passes += 1;
        outcome.gaps.push(problems.iter().map(|problem| problem.best.gap()).fold(0.0, f64::max));
        let mut open: Vec<&mut Problem<T, R>> = problems.iter_mut().filter(|problem| problem.open).collect();
        if open.is_empty() {
            return Ok(outcome);
        }
        open.iter_mut().for_each(|problem| problem.solve(&mut factor, workers));
        passes::values(kept, &mut open, observer)?;
        outcome.passes += 1;
        workers.each(open.iter_mut().collect(), |problem| problem.advance());
    }
}
