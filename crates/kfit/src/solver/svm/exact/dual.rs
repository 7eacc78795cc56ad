//! The dual of an SVM with kernel matrix K, solved in rounds for its multipliers β, and the
//! certificate of β: the relative duality gap (P − D)/max(|P|, |D|) of the objectives below.
//!
//! If the whole kernel matrix K is stored, a round minimises over all multipliers β, otherwise over
//! the multipliers of a working set. The working set contains the rows that violate the optimality
//! conditions most. Half of the previous working set stays in the next one, or more if few rows
//! violate the conditions. A round ends with the update of the values f = Kβ at all rows, and of
//! the primal and dual objectives:
//!
//! ```text
//! P = ½βᵀf + Σ_i loss_i(f_i + b) + s b,     D = −½βᵀf − Σ_i h_i(β_i),     b minimises P
//! ```
//!
//! where h_i is the conjugate of loss_i, and s the value that Σβ must have if the intercept b is
//! free. An SVM is solved when the gap is small enough. Then f is recomputed with kernel values in
//! f64, and if the gap is now too large, the rounds continue. So the reported gap is the gap of the
//! returned SVM, without rounding errors of kernel values.
//!
//! *Cost per round*: the steps of `smo.rs`, 2·q·n flops to update f for a working set of q rows,
//! and the kernel values of rows that are not in memory.
//!
//! References: Joachims, "Making large-scale SVM learning practical", in *Advances in Kernel
//! Methods*, MIT Press 1999 (working sets); Wen, Shi, Li, He, Chen, "ThunderSVM: a fast SVM library
//! on GPUs and CPUs", JMLR 19, 2018 (large working sets; half of a working set stays).

use super::super::lagrangian::ProblemOptions;
use super::super::loss::TargetAndCost;
use super::super::workspace::relative_gap;
use super::kernel_cache::{KernelPoints, RowCache, StoredKernel, WORKING_SET};
use super::smo::{SmoProblem, add_scaled};
use crate::Intercept;
use crate::linalg::strips::{BufferPool, for_each_strip};
use faer::{MatMut, MatRef};
use kapprox::Real;
use kstore::Workers;

/// A round ends when the largest violation of the optimality conditions has fallen to this fraction
/// of that before the round.
const ROUND_TOLERANCE: f64 = 0.2;

/// Maximum number of steps in a round for each row of the working set.
const STEPS_PER_ROW: usize = 64;

/// Number of entries of f that a thread updates at a time.
const STRIP_ROWS: usize = 4096;

/// Number of rows, and of support vectors, whose kernel values in f64 are computed together.
const BLOCK_SIDE: usize = 256;

/// Maximum number of times that f is recomputed in f64.
const MAX_VERIFICATIONS: usize = 6;

/// Number of evaluations of P in the golden-section search for b. Together they narrow the bracket
/// by a factor of a billion.
const SEARCH_STEPS: usize = 44;

#[derive(Clone, Debug, Default)]
pub(super) struct SolvedSvm {
    pub(super) beta: Vec<f64>,
    /// Weights of the columns, for a linear SVM on sparse rows.
    pub(super) weights: Vec<f64>,
    pub(super) b: f64,
    pub(super) primal: f64,
    pub(super) dual: f64,
    /// Relative gap before every round, and at the end.
    pub(super) gaps: Vec<f64>,
    pub(super) round_count: usize,
}

/// Multipliers of an SVM, and the values f = Kβ.
pub(super) struct Dual {
    pub(super) rows: Vec<TargetAndCost>,
    pub(super) problem_options: ProblemOptions,
    pub(super) beta: Vec<f64>,
    pub(super) f: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Certificate {
    pub(super) b: f64,
    pub(super) primal: f64,
    pub(super) dual: f64,
    /// Least slope of rising of all rows: the least derivative of the dual objective as a
    /// multiplier rises.
    least_rise: f64,
    /// Highest slope of falling of all rows.
    highest_fall: f64,
}

impl Certificate {
    pub(super) fn gap(&self) -> f64 {
        relative_gap(self.primal, self.dual)
    }
}

impl Dual {
    pub(super) fn new(rows: Vec<TargetAndCost>, problem_options: ProblemOptions) -> Self {
        let n = rows.len();
        Self { rows, problem_options, beta: vec![0.0; n], f: vec![0.0; n] }
    }

    /// Sets the multipliers of the first rows to their costs until the sum is s, and computes f.
    pub(super) fn initialise(
        &mut self,
        f64_points: KernelPoints<'_, f64>,
        workers: &Workers,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        let mut remaining = self.problem_options.multiplier_sum;
        for (beta, row) in self.beta.iter_mut().zip(&self.rows) {
            *beta = row.c.min(remaining);
            remaining -= *beta;
        }
        self.recompute_values(f64_points, workers, stop);
    }

    /// Sets other costs. The current multipliers must be feasible for them.
    pub(super) fn set_costs(&mut self, rows: Vec<TargetAndCost>, problem_options: ProblemOptions) {
        (self.rows, self.problem_options) = (rows, problem_options);
    }

    /// Makes at most `max_rounds` rounds. Stops earlier if the gap is small enough or `stop`
    /// returns true. If `f64_points` is present, verifies the gap with kernel values in f64.
    pub(super) fn solve<T: Real>(
        &mut self,
        stored_kernel: &mut StoredKernel<'_, T>,
        f64_points: Option<KernelPoints<'_, f64>>,
        max_rounds: usize,
        workers: &Workers,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> SolvedSvm {
        let (mut gaps, mut round_count, mut working_set, mut verification_count) = (Vec::new(), 0, Vec::new(), 0);
        let mut certificate = self.certificate();
        loop {
            let rounds_before = round_count;
            while certificate.gap() > self.problem_options.gap_tolerance && round_count < max_rounds && !stop() {
                gaps.push(certificate.gap());
                let violation = self.violation(&certificate);
                if violation <= 0.0 || violation.is_nan() {
                    break;
                }
                let step_count = self.solve_round(
                    stored_kernel,
                    &mut working_set,
                    &certificate,
                    ROUND_TOLERANCE * violation,
                    workers,
                    stop,
                );
                round_count += 1;
                certificate = self.certificate();
                if step_count == 0 {
                    // no step lowers the objective: the rest of the gap is rounding
                    break;
                }
            }
            let Some(f64_points) = f64_points.filter(|_| {
                verification_count == 0 || (round_count > rounds_before && verification_count < MAX_VERIFICATIONS)
            }) else {
                break;
            };
            self.recompute_values(f64_points, workers, stop);
            verification_count += 1;
            certificate = self.certificate();
            if certificate.gap() <= self.problem_options.gap_tolerance || stop() {
                break;
            }
        }
        gaps.push(certificate.gap());
        let b =
            if self.problem_options.intercept == Intercept::Penalised { self.beta.iter().sum() } else { certificate.b };
        SolvedSvm {
            beta: self.beta.clone(),
            weights: Vec::new(),
            b,
            primal: certificate.primal,
            dual: certificate.dual,
            gaps,
            round_count,
        }
    }

    fn has_fixed_sum(&self) -> bool {
        self.problem_options.intercept == Intercept::Free
    }

    fn violation(&self, certificate: &Certificate) -> f64 {
        if self.has_fixed_sum() {
            certificate.highest_fall - certificate.least_rise
        } else {
            certificate.highest_fall.max(-certificate.least_rise)
        }
    }

    fn slopes(&self, i: usize) -> (f64, f64) {
        let piece = self.problem_options.loss.piece(self.beta[i], self.rows[i]);
        (self.f[i] + piece.rise, self.f[i] + piece.fall)
    }

    /// Computes P, D, the intercept, and the extreme slopes.
    pub(super) fn certificate(&self) -> Certificate {
        let (mut least_rise, mut highest_fall, mut beta_dot_f, mut conjugate_sum) =
            (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for (i, row) in self.rows.iter().enumerate() {
            let (rise, fall) = self.slopes(i);
            (least_rise, highest_fall) = (least_rise.min(rise), highest_fall.max(fall));
            beta_dot_f += self.beta[i] * self.f[i];
            conjugate_sum += self.problem_options.loss.conjugate(self.beta[i], *row);
        }
        let loss = |b: f64| {
            let values = self.rows.iter().zip(&self.f).map(|(row, f)| self.problem_options.loss.value(f + b, *row));
            values.sum::<f64>() + self.problem_options.multiplier_sum * b
        };
        let b = match self.has_fixed_sum() {
            // at the optimum, every intercept between these two has the same P: take the middle, as
            // LIBSVM does
            true if least_rise.is_finite() && highest_fall.is_finite() && highest_fall <= least_rise => {
                -0.5 * (least_rise + highest_fall)
            }
            // P decreases below this interval and increases above it, so its minimiser is in the
            // interval
            true if least_rise.is_finite() && highest_fall.is_finite() => {
                golden_section(-highest_fall, -least_rise, &loss)
            }
            true => -if least_rise.is_finite() { least_rise } else { highest_fall.max(f64::MIN) },
            false => 0.0,
        };
        let primal = 0.5 * beta_dot_f + loss(b);
        Certificate { b, primal, dual: -0.5 * beta_dot_f - conjugate_sum, least_rise, highest_fall }
    }

    /// Minimises over the multipliers of a working set until the violation is at most `tolerance`.
    /// Returns the number of steps.
    fn solve_round<T: Real>(
        &mut self,
        stored_kernel: &mut StoredKernel<'_, T>,
        working_set: &mut Vec<usize>,
        certificate: &Certificate,
        tolerance: f64,
        workers: &Workers,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        let (loss, has_fixed_sum) = (self.problem_options.loss, self.has_fixed_sum());
        match stored_kernel {
            StoredKernel::Matrix(k) => {
                let (rows, beta, f) = (&self.rows[..], &mut self.beta[..], &mut self.f[..]);
                let max_steps = STEPS_PER_ROW * rows.len();
                SmoProblem { k, rows, loss, has_fixed_sum, beta, f }.solve(tolerance, max_steps, stop)
            }
            StoredKernel::Cache(cache) => {
                self.select_working_set(working_set, certificate);
                self.solve_working_set(cache, working_set, tolerance, workers, stop)
            }
        }
    }

    fn solve_working_set<T: Real>(
        &mut self,
        cache: &mut RowCache<'_, T>,
        working_set: &[usize],
        tolerance: f64,
        workers: &Workers,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        if !cache.load(working_set, workers, stop) {
            return 0;
        }
        let k = cache.submatrix(working_set, workers);
        let gather = |values: &[f64]| working_set.iter().map(|i| values[*i]).collect::<Vec<f64>>();
        let rows: Vec<TargetAndCost> = working_set.iter().map(|i| self.rows[*i]).collect();
        let (mut beta, mut f) = (gather(&self.beta), gather(&self.f));
        let (loss, has_fixed_sum) = (self.problem_options.loss, self.has_fixed_sum());
        let problem = SmoProblem { k: &k, rows: &rows, loss, has_fixed_sum, beta: &mut beta, f: &mut f };
        let step_count = problem.solve(tolerance, STEPS_PER_ROW * working_set.len(), stop);
        let changes = working_set.iter().zip(&beta).map(|(i, beta)| (*i, beta - self.beta[*i]));
        let changes: Vec<(usize, f64)> = changes.filter(|(_, change)| *change != 0.0).collect();
        for_each_strip(workers, &mut self.f, STRIP_ROWS, |strip, f| {
            for (row, change) in &changes {
                add_scaled(f, &cache.row(*row)[strip * STRIP_ROWS..], *change);
            }
        });
        working_set.iter().zip(beta).for_each(|(i, beta)| self.beta[*i] = beta);
        step_count
    }

    /// Sets `working_set` to the rows of the next round. First come new rows: in turn those with
    /// the least slopes of rising and those with the highest slopes of falling. Then come rows of
    /// the previous working set, the newest first.
    fn select_working_set(&self, working_set: &mut Vec<usize>, certificate: &Certificate) {
        let stay_count = working_set.len().min(WORKING_SET / 2);
        let mut is_selected = vec![false; self.rows.len()];
        working_set[..stay_count].iter().for_each(|i| is_selected[*i] = true);
        let (rise_limit, fall_limit) =
            if self.has_fixed_sum() { (certificate.highest_fall, certificate.least_rise) } else { (0.0, 0.0) };
        let (mut rising, mut falling) = (Vec::new(), Vec::new());
        for i in (0..self.rows.len()).filter(|i| !is_selected[*i]) {
            let (rise, fall) = self.slopes(i);
            if rise < rise_limit {
                rising.push((rise, i));
            }
            if fall > fall_limit {
                falling.push((-fall, i));
            }
        }
        let new_count = WORKING_SET - stay_count;
        let mut new_working_set = Vec::with_capacity(WORKING_SET);
        let (rising, falling) = (smallest_indices(rising, new_count), smallest_indices(falling, new_count));
        for order_index in 0..new_count {
            for i in [rising.get(order_index), falling.get(order_index)].into_iter().flatten() {
                if new_working_set.len() < new_count && !is_selected[*i] {
                    is_selected[*i] = true;
                    new_working_set.push(*i);
                }
            }
        }
        let free_places = WORKING_SET - new_working_set.len();
        new_working_set.extend(working_set.iter().take(stay_count.min(free_places)).copied());
        // if there are few new rows, more of the previous rows stay
        let free_places = WORKING_SET - new_working_set.len();
        new_working_set
            .extend(working_set.iter().skip(stay_count).filter(|i| !is_selected[**i]).take(free_places).copied());
        *working_set = new_working_set;
    }

    /// Recomputes f with kernel values in f64. If `stop` returns true, the computation ends early
    /// and f is invalid.
    fn recompute_values(
        &mut self,
        KernelPoints { kernel, x, shift }: KernelPoints<'_, f64>,
        workers: &Workers,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        let (d, support_indices): (usize, Vec<usize>) =
            (x.ncols(), (0..self.beta.len()).filter(|i| self.beta[*i] != 0.0).collect());
        let z: Vec<f64> = support_indices.iter().flat_map(|i| x.row(*i).iter().copied()).collect();
        let beta: Vec<f64> = support_indices.iter().map(|i| self.beta[*i]).collect();
        let (z, buffers) =
            (MatRef::from_row_major_slice(&z, support_indices.len(), d), BufferPool::<Vec<f64>>::default());
        let shift_sum = shift * beta.iter().sum::<f64>();
        for_each_strip(workers, &mut self.f, BLOCK_SIDE, |strip, f| {
            let (b, x) = (f.len(), x.subrows(strip * BLOCK_SIDE, f.len()));
            f.fill(shift_sum);
            if stop() {
                return;
            }
            buffers.with_buffer(
                || vec![0.0; BLOCK_SIDE * BLOCK_SIDE],
                |values| {
                    for (block, beta) in beta.chunks(BLOCK_SIDE).enumerate() {
                        let (values, z) = (&mut values[..b * beta.len()], z.subrows(block * BLOCK_SIDE, beta.len()));
                        kernel.block(x, z, MatMut::from_column_major_slice_mut(values, b, beta.len()));
                        values.chunks_exact(b).zip(beta).for_each(|(column, beta)| add_scaled(f, column, *beta));
                    }
                },
            );
        });
    }
}

/// Returns the indices of the `count` smallest numbers, smallest first. Equal numbers are ordered
/// by index.
fn smallest_indices(mut candidates: Vec<(f64, usize)>, count: usize) -> Vec<usize> {
    let by_value_then_index = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if candidates.len() > count && count > 0 {
        candidates.select_nth_unstable_by(count - 1, by_value_then_index);
        candidates.truncate(count);
    }
    candidates.sort_unstable_by(by_value_then_index);
    candidates.into_iter().map(|(_, i)| i).collect()
}

/// Returns the minimiser of a convex function between two points, by golden-section search.
fn golden_section(mut low: f64, mut high: f64, objective: &dyn Fn(f64) -> f64) -> f64 {
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut objective_at_left, mut objective_at_right) = (objective(left), objective(right));
    for _ in 0..SEARCH_STEPS {
        if objective_at_left <= objective_at_right {
            (high, right, objective_at_right) = (right, left, objective_at_left);
            left = high - golden * (high - low);
            objective_at_left = objective(left);
        } else {
            (low, left, objective_at_left) = (left, right, objective_at_right);
            right = low + golden * (high - low);
            objective_at_right = objective(right);
        }
    }
    if objective_at_left <= objective_at_right { left } else { right }
}

#[cfg(test)]
mod tests;
