//! The augmented Lagrangian method with semismooth Newton steps, for one or several support vector
//! problems at a time.
//!
//! Row i has features φ_i, target y_i and cost c_i; loss_i is its loss times the cost, and h_i the
//! conjugate of loss_i. s is a given constant: 1 for the one-class SVM, otherwise 0. The primal
//! problem in w and b, the dual problem in the multipliers β, and their relation are
//!
//! ```text
//! primal   P = ½‖w‖² + Σ_i loss_i(f_i) + s b,     f_i = wᵀφ_i + b
//! dual     D = −½‖Σ_i β_i φ_i‖² − Σ_i h_i(β_i),     Σ_i β_i = s   (if b is free)
//! w = Σ_i β_i φ_i
//! ```
//!
//! At the current multipliers β, the method replaces each loss by its Moreau envelope of width 1/σ.
//! The derivative of the envelope at f_i is −β⁺_i(f_i), where β⁺ are the next multipliers. P with
//! these envelopes is called the inner problem; it is smooth. Its gradient is w − Σ_i β⁺_i φ_i. Its
//! generalised Hessian is I + σ Σ φ_i φ_iᵀ, summed over the **free** rows: the rows whose β⁺_i is
//! strictly between its bounds. Below, the slope of a row is −dβ⁺_i/df_i: σ for a free row (2c_i
//! with the squared hinge), and 0 for all others. Steps are cheap because few rows are free. A step
//! consists of
//!
//! 1. the b that minimises the inner problem for this w, by a safeguarded Newton iteration over the
//!    n values f. Then Σ β⁺ = s holds to rounding, so β⁺ is feasible and D(β⁺) a true lower bound;
//! 2. a pass over the features for Σ β⁺φ, which gives P and D, the certificate of this point;
//! 3. Newton's equations of the free rows for the direction d, unless the gap is small enough, and
//!    a pass for the values Φd of the rows. If the features are not in memory, the pass for Σ β⁺φ
//!    also gathers the free rows;
//! 4. a line search over the n values. If its step is nearly whole, β is set to β⁺ and σ grows.
//!    After several short steps in a row, σ decreases.
//!
//! A search over b, or over the length of a step, reads all rows once. Because the multipliers are
//! monotone along the search, a row with the same multiplier at both ends of an interval is
//! constant on it. So the search then reads only the other rows.
//!
//! The rows contribute only to sums, so their order does not matter, and a table may be sorted by
//! class. Every P is an upper bound and every D a lower bound of the optimum, so the best P and the
//! best D of all steps enclose it.
//!
//! *Cost per step*: 2np flops, 2p for each support vector and, with r free rows, r²p + r³/3 or
//! min(r, 8p)p² + p³/3. *Bytes*: 8 and two feature elements per row and problem, and 8p² and
//! p/2 rows of features per problem.
//!
//! References: Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm
//! in convex programming", Mathematics of Operations Research 1, 1976; Li, Sun, Toh, "A highly
//! efficient semismooth Newton augmented Lagrangian method for solving Lasso problems", SIAM J.
//! Optim. 28, 2018; Yan, Li, "An efficient augmented Lagrangian method for support vector machine",
//! Optimization Methods and Software 35, 2020. The smooth squared hinge uses Newton's method of
//! Keerthi, DeCoste, "A modified finite Newton method for fast solution of large scale linear
//! SVMs", JMLR 6, 2005.

use super::line_search::{self, Derivatives};
use super::loss::{Loss, TargetAndCost};
use super::newton_equations::{NewtonEquations, SAMPLED_ROWS_PER_FEATURE};
use super::workspace::{CertifiedPoint, Workspace};
use crate::features::{SparseColumn, Tile};
use crate::{Intercept, linalg::strips::BufferPool};
use kapprox::{Real, gram::GramBuffers};
use kstore::Workers;
use kstore::checkpoint::{Arrays, Persist, StoredArrays};
use kstore::key::{Purpose, Stream};

/// σ of the first step, divided by the typical cost. With 0.1, the envelopes are ten units wide, so
/// the inner problem is nearly as smooth as ridge regression.
const INITIAL_SIGMA: f64 = 0.1;

/// σ of the first step if the start is the solution of a sample, divided by the typical cost.
/// Measured on 427,500 rows of `dsa` (1,000 features, 19 classes, C = 1): the value 1 takes 28 s,
/// 10 takes 26 s, 100 takes 38 s.
const WARM_SIGMA: f64 = 10.0;

/// Factor by which σ grows when the multipliers are updated. Measured on 20,000 rows of `dsa` (300
/// features, lambda 1e-4 and 1e-6): with the factor 1.5, a gap of 1e-3 takes 16 to 27 steps, and a
/// gap of 1e-6 up to 32 steps. With the factor 3, these gaps take up to 30 and 42 steps, and more
/// from some starts.
const SIGMA_GROWTH: f64 = 1.5;

/// Maximum of σ, divided by the typical cost. At this maximum, the envelope is a millionth of a
/// unit wide; with a narrower envelope, its sums would lose their digits by cancellation.
const MAX_SIGMA: f64 = 1e6;

/// Tolerance for Σ β − s, as a fraction of the total cost. A smaller difference counts as 0. The
/// tolerance is larger than the rounding error of the sum.
const SUM_TOLERANCE: f64 = 1e-13;

/// If the step t along the direction is at least this, the inner problem counts as solved, and the
/// multipliers are updated.
const FULL_STEP: f64 = 0.7;

/// Half the width of the window around the intercept in which a search reads only the rows that
/// vary, divided by the width 1/σ of the envelopes.
const WINDOW: f64 = 2.0;

/// Number of consecutive short steps after which σ is multiplied by [`SIGMA_SHRINK`]. If the cost
/// is far above the multipliers, as on separable rows, the envelope is too narrow. Steps then end
/// at the next kink, and the multipliers would never be updated.
const MAX_SHORT_STEPS: usize = 3;
const SIGMA_SHRINK: f64 = 0.25;

/// Relative gap above which Newton's equations contain a sample of the free rows. On 100,000 rows
/// of a noisy table (1,000 features, 10 classes), 13 steps with samples reach a gap of 1e-3, and 6
/// steps without samples.
const MAX_EXACT_GAP: f64 = 0.1;

/// Rows of one problem: a function from the index of a row to its target and cost.
pub(super) trait RowFn: Fn(usize) -> TargetAndCost + Sync + Send {}

impl<F: Fn(usize) -> TargetAndCost + Sync + Send> RowFn for F {}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProblemOptions {
    pub(super) loss: Loss,
    pub(super) intercept: Intercept,
    /// The sum s of the multipliers if the intercept is free.
    pub(super) multiplier_sum: f64,
    /// Typical cost c of a row, divided by the unit of f. It is the unit of σ.
    pub(super) typical_cost: f64,
    /// Relative gap at which a problem is solved.
    pub(super) gap_tolerance: f64,
    /// Number of steps without progress after which a problem ends, because rounding in the element
    /// type of the features may prevent a smaller gap.
    pub(super) max_idle_steps: usize,
}

impl ProblemOptions {
    /// Returns the options of a problem with s = 0, typical cost 1, and no limit on idle steps.
    pub(super) fn new(loss: Loss, intercept: Intercept, gap_tolerance: f64) -> Self {
        Self { loss, intercept, multiplier_sum: 0.0, typical_cost: 1.0, gap_tolerance, max_idle_steps: usize::MAX }
    }
}

/// A step makes progress if it reduces the gap below this fraction of the gap at the last step that
/// made progress.
const GAP_PROGRESS: f64 = 0.9;

pub(super) struct Problem<T, R> {
    rows: R,
    problem_options: ProblemOptions,
    w: Vec<f64>,
    pub(super) b: f64,
    /// Multipliers β, n numbers.
    beta: Vec<f64>,
    /// Values Φw of the rows, n numbers.
    f: Vec<T>,
    /// Values Φd of the direction at the rows, n numbers.
    pub(super) direction_values: Vec<T>,
    sigma: f64,
    /// Sums Σ β⁺φ, p numbers, and Σ β⁺.
    pub(super) beta_sum: Vec<f64>,
    total: f64,
    /// Probability that a free row is drawn for Newton's equations, divided by its slope.
    draw_rate: f64,
    /// True if a few of many free rows may be drawn.
    draws_rows: bool,
    /// Newton's equations of the free rows.
    pub(super) newton_equations: NewtonEquations<T>,
    pub(super) direction: Direction,
    pub(super) best: CertifiedPoint,
    pub(super) step_count: usize,
    /// Gap at the last step that made progress.
    least_gap: f64,
    /// Number of steps since the last step that made progress.
    idle_steps: usize,
    /// Number of short steps since the multipliers or σ last changed.
    short_steps: usize,
    /// True if the problem is neither solved nor out of steps.
    pub(super) is_open: bool,
}

/// The direction (d, δ) of a step, or a point (w, b) to move to.
pub(super) struct Direction {
    /// d, the direction of w, p numbers.
    pub(super) w: Vec<f64>,
    /// δ, the direction of the intercept.
    pub(super) b: f64,
}

/// State that must be restored before a step is repeated.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    b: f64,
    least_gap: f64,
    idle_steps: usize,
    is_open: bool,
}

impl<T: Real, R: RowFn> Problem<T, R> {
    pub(super) fn new(rows: R, problem_options: ProblemOptions, n: usize, workspace: &mut Workspace<T>) -> Self {
        let p = workspace.p;
        Self {
            rows,
            problem_options,
            w: vec![0.0; p],
            b: 0.0,
            beta: vec![0.0; n],
            f: vec![T::ZERO; n],
            direction_values: vec![T::ZERO; n],
            sigma: INITIAL_SIGMA * problem_options.typical_cost,
            beta_sum: vec![0.0; p],
            total: 0.0,
            draw_rate: f64::INFINITY,
            draws_rows: true,
            newton_equations: workspace.spare_equations.pop().unwrap_or_else(|| NewtonEquations::new(p)),
            direction: Direction { w: vec![0.0; p], b: 0.0 },
            best: CertifiedPoint {
                w: vec![0.0; p],
                b: 0.0,
                primal: f64::INFINITY,
                dual: f64::NEG_INFINITY,
                support_vectors: 0,
            },
            step_count: 0,
            least_gap: f64::INFINITY,
            idle_steps: 0,
            short_steps: 0,
            is_open: true,
        }
    }

    /// Converts the problem to f64, with its multipliers and its best point. In f64, steps without
    /// progress do not end it.
    pub(super) fn into_f64(self, workspace: &mut Workspace<f64>) -> Problem<f64, R> {
        let problem_options = ProblemOptions { max_idle_steps: usize::MAX, ..self.problem_options };
        let (new_problem, best) =
            (Problem::new(self.rows, problem_options, self.beta.len(), workspace), self.best.without_certificate());
        Problem {
            w: self.w,
            b: self.b,
            beta: self.beta,
            sigma: self.sigma,
            direction: Direction { w: best.w.clone(), b: best.b },
            best,
            step_count: self.step_count,
            draws_rows: false,
            ..new_problem
        }
    }

    /// Sets the next point to the best point. The caller must then recompute the values of the rows
    /// and P. D is kept, because it was computed from the features in f64 and bounds P at every
    /// point. A problem that ended for lack of progress is certified but makes no further step.
    pub(super) fn return_to_best(&mut self) {
        self.best.primal = f64::INFINITY;
        self.direction = Direction { w: self.best.w.clone(), b: self.best.b };
        match self.idle_steps > self.problem_options.max_idle_steps {
            true => self.problem_options.max_idle_steps = 0,
            false => self.least_gap = f64::INFINITY,
        }
        (self.idle_steps, self.is_open) = (0, true);
    }

    /// Ends the problem, returns its best point, and leaves its buffers in `workspace` for the next
    /// problem.
    pub(super) fn into_best(self, workspace: &mut Workspace<T>) -> CertifiedPoint {
        workspace.spare_equations.push(self.newton_equations);
        self.best
    }

    pub(super) fn gap_tolerance(&self) -> f64 {
        self.problem_options.gap_tolerance
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { b: self.b, least_gap: self.least_gap, idle_steps: self.idle_steps, is_open: self.is_open }
    }

    /// Restores a snapshot, so that the step can be repeated.
    pub(super) fn restore(&mut self, Snapshot { b, least_gap, idle_steps, is_open }: Snapshot) {
        (self.b, self.least_gap, self.idle_steps, self.is_open) = (b, least_gap, idle_steps, is_open);
    }

    /// Sets the next point to w and b of `start`. The caller must then compute the values of the
    /// rows at this point, and call [`Self::move_to_start`].
    pub(super) fn set_start(&mut self, start: &CertifiedPoint) {
        self.direction = Direction { w: start.w.clone(), b: start.b };
        if self.problem_options.loss.has_kink() {
            self.sigma = WARM_SIGMA * self.problem_options.typical_cost;
        }
    }

    /// Moves to the point in `direction`. `direction_values` must contain the values of the rows at
    /// this point.
    pub(super) fn move_to_start(&mut self) {
        self.w.copy_from_slice(&self.direction.w);
        self.b = self.direction.b;
        self.f.copy_from_slice(&self.direction_values);
    }

    /// Sets new costs and restarts at the multipliers and the point of the previous solution. The
    /// new costs must be at least as large as the previous costs.
    pub(super) fn restart(&mut self, rows: R, problem_options: ProblemOptions) {
        (self.rows, self.problem_options, self.sigma) =
            (rows, problem_options, INITIAL_SIGMA * problem_options.typical_cost);
        self.best = self.best.without_certificate();
        (self.step_count, self.least_gap, self.idle_steps, self.is_open) = (0, f64::INFINITY, 0, true);
    }

    /// Returns the maximum σ: above it, rounding of f would change β by a thousandth of its range.
    fn max_sigma(&self) -> f64 {
        (1e-3 / T::EPSILON).min(MAX_SIGMA) * self.problem_options.typical_cost
    }

    /// Returns β⁺ and slope of row `i` at value `f`.
    #[inline(always)]
    fn proximal_step(&self, i: usize, f: f64) -> (f64, f64) {
        self.problem_options.loss.proximal_step(f, (self.rows)(i), self.beta[i], self.sigma)
    }

    /// Sets b to the minimiser of the inner problem for the current w. `varying_rows` is a buffer
    /// of row indices.
    pub(super) fn minimise_intercept(&mut self, varying_rows: &mut Vec<u32>) {
        if self.problem_options.intercept != Intercept::Free {
            return;
        }
        let (start, width) = (self.b, self.problem_options.typical_cost / self.sigma);
        let step_at = |i: usize, b: f64| self.proximal_step(i, self.f[i].to_f64() + b);
        let sum = |(beta, slope): (f64, f64), (b, s): (f64, f64)| (beta + b, slope + s);
        // β⁺ is monotone in b, so a row with the same β⁺ at both ends of the window is constant in
        // it
        let (low, high) = (start - WINDOW * width, start + WINDOW * width);
        let mut constant = 0.0;
        varying_rows.clear();
        for i in 0..self.f.len() {
            let beta = step_at(i, low).0;
            if beta == step_at(i, high).0 { constant += beta } else { varying_rows.push(i as u32) }
        }
        let derivative = |b: f64| {
            let (beta, slope) = match (low..=high).contains(&b) {
                true => varying_rows.iter().map(|i| step_at(*i as usize, b)).fold((constant, 0.0), sum),
                false => (0..self.f.len()).map(|i| step_at(i, b)).fold((0.0, 0.0), sum),
            };
            Derivatives { slope: self.problem_options.multiplier_sum - beta, curvature: slope }
        };
        let tolerance = SUM_TOLERANCE * self.problem_options.typical_cost * self.f.len() as f64;
        self.b = line_search::increasing_root(start, width, tolerance, derivative);
    }

    /// Computes P and D at the current point, for which `sums` must contain Σ β⁺φ. Ends the problem
    /// if its gap is small enough, or if it has made `max_steps` steps or too many idle steps.
    pub(super) fn certify(&mut self, max_steps: usize, varying_rows: &mut Vec<u32>) {
        let (loss, mut primal, mut conjugate_sum, mut support_count) = (self.problem_options.loss, 0.0, 0.0, 0);
        let mut total = 0.0;
        for (i, f) in self.f.iter().enumerate() {
            let (f, row) = (f.to_f64() + self.b, (self.rows)(i));
            let (beta, _) = loss.proximal_step(f, row, self.beta[i], self.sigma);
            primal += loss.value(f, row);
            conjugate_sum += loss.conjugate(beta, row);
            total += beta;
            support_count += usize::from(beta != 0.0);
        }
        self.total = total;
        let half_squared_norm = |v: &[f64]| 0.5 * v.iter().map(|v| v * v).sum::<f64>();
        primal += half_squared_norm(&self.w) + self.problem_options.multiplier_sum * self.b;
        let mut dual = -conjugate_sum - half_squared_norm(&self.beta_sum);
        if self.problem_options.intercept == Intercept::Penalised {
            primal += 0.5 * self.b * self.b;
            dual -= 0.5 * total * total;
        }
        self.best.support_vectors = support_count;
        self.best.dual = self.best.dual.max(dual);
        let is_best = primal < self.best.primal;
        if is_best {
            (self.best.primal, self.best.b) = (primal, self.b);
            self.best.w.copy_from_slice(&self.w);
        }
        let gap = self.best.gap();
        let makes_progress = gap < GAP_PROGRESS * self.least_gap;
        (self.least_gap, self.idle_steps) =
            if makes_progress { (gap, 0) } else { (self.least_gap, self.idle_steps + 1) };
        self.is_open = gap > self.problem_options.gap_tolerance
            && self.step_count < max_steps
            && self.idle_steps <= self.problem_options.max_idle_steps;
        if is_best && !self.is_open {
            self.centre_intercept(varying_rows);
        }
    }

    /// Moves the intercept of the best point, which must be the current point, as LIBSVM does. If
    /// no multiplier is strictly between its bounds, all intercepts of an interval minimise P for
    /// this w, and the steps may end anywhere in the interval. The new intercept is the middle of
    /// the interval.
    fn centre_intercept(&mut self, varying_rows: &mut Vec<u32>) {
        if self.problem_options.intercept != Intercept::Free || !self.problem_options.loss.has_kink() {
            return;
        }
        let loss = self.problem_options.loss;
        let values_and_rows = || self.f.iter().enumerate().map(|(i, f)| (f.to_f64(), (self.rows)(i)));
        let width = self.problem_options.typical_cost / self.sigma;
        // slopes are monotone in b, so a row with the same slope at both ends of the window is
        // constant in it
        let (low, high) = (self.b - WINDOW * width, self.b + WINDOW * width);
        let mut constant = self.problem_options.multiplier_sum;
        varying_rows.clear();
        for (i, (f, row)) in values_and_rows().enumerate() {
            let slope = loss.slope(f + low, row);
            if slope == loss.slope(f + high, row) { constant += slope } else { varying_rows.push(i as u32) }
        }
        let slope_of = |i: usize, b: f64| loss.slope(self.f[i].to_f64() + b, (self.rows)(i));
        let slope = |b: f64| match (low..=high).contains(&b) {
            true => varying_rows.iter().fold(constant, |sum, i| sum + slope_of(*i as usize, b)),
            false => {
                self.problem_options.multiplier_sum
                    + values_and_rows().map(|(f, row)| loss.slope(f + b, row)).sum::<f64>()
            }
        };
        let tolerance = SUM_TOLERANCE * self.problem_options.typical_cost * self.f.len() as f64;
        let Some(b) = line_search::middle_of_zeros(self.b, width, tolerance, slope) else {
            return;
        };
        let objective = |b: f64| {
            values_and_rows().map(|(f, row)| loss.value(f + b, row)).sum::<f64>()
                + self.problem_options.multiplier_sum * b
        };
        let decrease = objective(self.b) - objective(b);
        (self.best.primal, self.best.b) = (self.best.primal - decrease, b);
    }

    /// Computes the direction from Newton's equations, with the negative gradient g of w and the
    /// gradient e of the intercept.
    pub(super) fn solve_direction(&mut self, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
        let intercept = self.problem_options.intercept;
        let e = if intercept == Intercept::Penalised { self.b - self.total } else { 0.0 };
        let g = self.beta_sum.iter().zip(&self.w).map(|(v, w)| v - w).collect();
        let (w, b) = self.newton_equations.solve(g, intercept, e, panels, workers);
        self.direction = Direction { w, b };
    }

    /// Moves along the direction to the minimum of the inner problem. If the step is nearly whole,
    /// updates the multipliers.
    pub(super) fn advance(&mut self, varying_rows: &mut Vec<u32>) {
        let Direction { w: d, b: delta } = &self.direction;
        let kappa = f64::from(u8::from(self.problem_options.intercept == Intercept::Penalised));
        let wd: f64 = self.w.iter().zip(d).map(|(w, d)| w * d).sum::<f64>() + kappa * self.b * delta;
        let dd: f64 = d.iter().map(|d| d * d).sum::<f64>() + kappa * delta * delta;
        let step_at = |i: usize, t: f64| {
            let q = self.direction_values[i].to_f64() + delta;
            let (beta, slope) = self.proximal_step(i, self.f[i].to_f64() + self.b + t * q);
            (q, beta, slope)
        };
        // β⁺ is monotone in t, so a row with the same β⁺ at t = 0 and t = 1 is constant between
        // them
        let mut constant = 0.0;
        varying_rows.clear();
        for i in 0..self.f.len() {
            let (q, beta, _) = step_at(i, 0.0);
            if beta == step_at(i, 1.0).1 { constant -= beta * q } else { varying_rows.push(i as u32) }
        }
        let derivative = |t: f64| {
            let (slope, curvature) = (wd + t * dd + self.problem_options.multiplier_sum * delta, dd);
            let add = |(slope, curvature): (f64, f64), (q, beta, row_slope): (f64, f64, f64)| {
                (slope - beta * q, curvature + row_slope * q * q)
            };
            let (slope, curvature) = match t <= 1.0 {
                true => varying_rows.iter().map(|i| step_at(*i as usize, t)).fold((slope + constant, curvature), add),
                false => (0..self.f.len()).map(|i| step_at(i, t)).fold((slope, curvature), add),
            };
            Derivatives { slope, curvature }
        };
        let step_length = line_search::descent_step(derivative);
        self.w.iter_mut().zip(d).for_each(|(w, d)| *w += step_length * d);
        self.b += step_length * delta;
        self.f
            .iter_mut()
            .zip(&self.direction_values)
            .for_each(|(f, q)| *f = T::from_f64(f.to_f64() + step_length * q.to_f64()));
        self.step_count += 1;
        if !self.problem_options.loss.has_kink() {
            return;
        }
        self.short_steps += 1;
        // a step of 0 means that the rest of the gradient is rounding
        if step_length >= FULL_STEP || step_length == 0.0 {
            for i in 0..self.beta.len() {
                self.beta[i] = self.proximal_step(i, self.f[i].to_f64() + self.b).0;
            }
            (self.sigma, self.short_steps) = ((SIGMA_GROWTH * self.sigma).min(self.max_sigma()), 0);
        } else if self.short_steps == MAX_SHORT_STEPS {
            (self.sigma, self.short_steps) = (SIGMA_SHRINK * self.sigma, 0);
        }
    }

    /// Clears Newton's equations, and decides with which probability a free row is drawn.
    pub(super) fn start_equations(&mut self) {
        self.newton_equations.clear();
        let slope = |i: usize| self.proximal_step(i, self.f[i].to_f64() + self.b).1;
        let slopes = (0..self.f.len()).map(slope).filter(|slope| *slope > 0.0);
        let (free_count, total_slope) = slopes.fold((0, 0.0), |(count, total), slope| (count + 1, total + slope));
        let draw_count = SAMPLED_ROWS_PER_FEATURE * self.w.len() as f64;
        let is_sampled = self.draws_rows && self.least_gap > MAX_EXACT_GAP && f64::from(free_count) > draw_count;
        self.draw_rate = if is_sampled { draw_count / total_slope } else { f64::INFINITY };
    }

    /// Returns the slope of a row in Newton's equations: 0 if the row is not free or not drawn.
    pub(super) fn drawn_slope(&self, row: usize, draws: Stream) -> f64 {
        let slope = self.proximal_step(row, self.f[row].to_f64() + self.b).1;
        if slope <= 0.0 {
            return 0.0;
        }
        let probability = (slope * self.draw_rate).min(1.0);
        if probability >= 1.0 || draws.uniform(row as u64) < probability { slope / probability } else { 0.0 }
    }

    /// Returns the random numbers that draw free rows in this step.
    pub(super) fn draws(&self, seed: u64) -> Stream {
        Stream::new(seed, Purpose::Sketch, self.step_count as u64)
    }

    /// Writes the nonzero β⁺ of a tile to a column.
    pub(super) fn add_multipliers(&self, tile: &Tile<'_, T>, multipliers: &mut SparseColumn<T>) {
        multipliers.clear();
        for i in 0..tile.row_count() {
            let row = tile.first_row + i;
            let beta = T::from_f64(self.proximal_step(row, self.f[row].to_f64() + self.b).0);
            if beta != T::ZERO {
                multipliers.push((i as u32, beta));
            }
        }
    }

    /// Adds the drawn free rows among `rows` to Newton's equations. A row is a position and its
    /// features.
    pub(super) fn add_free_rows<'t>(
        &mut self,
        rows: impl Iterator<Item = (usize, &'t [T])>,
        draws: Stream,
        panels: &BufferPool<GramBuffers<T>>,
        workers: &Workers,
    ) {
        for (row, phi) in rows {
            let slope = self.drawn_slope(row, draws);
            if slope > 0.0 {
                self.newton_equations.push(phi, slope, panels, workers);
            }
        }
    }
}

impl<T: Real, R> Persist for Problem<T, R> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        let best = &self.best;
        out.put("w", &self.w);
        out.put("beta", &self.beta);
        out.put("f", &self.f);
        out.put("best", &best.w);
        out.put_owned("scalars", vec![self.b, self.sigma, best.b, best.primal, best.dual, self.least_gap]);
        let counts =
            [best.support_vectors, self.step_count, usize::from(self.is_open), self.idle_steps, self.short_steps];
        out.put_owned("counts", counts.map(|count| count as u64).to_vec());
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        let (mut scalars, mut counts) = ([0.0; 6], [0u64; 5]);
        from.fill("w", &mut self.w)?;
        from.fill("beta", &mut self.beta)?;
        from.fill("f", &mut self.f)?;
        from.fill("best", &mut self.best.w)?;
        from.fill("scalars", &mut scalars)?;
        from.fill("counts", &mut counts)?;
        [self.b, self.sigma, self.best.b, self.best.primal, self.best.dual, self.least_gap] = scalars;
        (self.best.support_vectors, self.step_count) = (counts[0] as usize, counts[1] as usize);
        (self.is_open, self.idle_steps, self.short_steps) = (counts[2] != 0, counts[3] as usize, counts[4] as usize);
        Ok(())
    }
}
