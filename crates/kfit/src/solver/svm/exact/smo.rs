//! Sequential minimal optimisation: the dual of an SVM on a dense kernel matrix, one or two
//! multipliers at a time.
//!
//! Minimises ½βᵀKβ + Σ_i h_i(β_i) over the multipliers β of q rows with kernel matrix K, where Σβ
//! is fixed or free. h_i is the conjugate of the loss of row i, a convex piecewise quadratic
//! function. Let f = Kβ, and let h′₊ and h′₋ be the right and left derivatives of h_i at β_i. If
//! the multiplier of row i rises, the objective has the slope f_i + h′₊ (the slope of rising); if
//! it falls, the objective has the slope f_i + h′₋ (the slope of falling). If Σβ is fixed, β is
//! optimal if no slope of falling exceeds a slope of rising, over all pairs of rows. If Σβ is free,
//! β is optimal if no slope of rising is below 0 and no slope of falling is above 0. The
//! **violation** is the largest amount by which a pair of slopes, or a slope, violates these
//! conditions.
//!
//! If Σβ is fixed, a step raises β_i and lowers β_j by the same amount. Row i has the least slope
//! of rising. Let the excess of a row j be its slope of falling minus the slope of rising of row i.
//! Among the rows with positive excess, row j is the row whose step lowers the objective most, by
//! excess²/(2(K_ii + K_jj − 2K_ij + h″_i + h″_j)). If Σβ is free, a step changes a single
//! multiplier: that whose step lowers the objective most. A step ends at the minimum, or at the end
//! of a quadratic piece of h.
//!
//! *Cost per step*: reading two rows of K, 10q flops. *Bytes*: 24q.
//!
//! References: Platt, "Fast training of support vector machines using sequential minimal
//! optimization", in *Advances in Kernel Methods*, MIT Press 1999; Fan, Chen, Lin, "Working set
//! selection using second order information for training support vector machines", JMLR 6, 2005.

use super::super::loss::{Loss, TargetAndCost};
use kapprox::Real;
use std::array::from_fn;

/// Number of values that are compared together: an AVX-512 register of f64.
const LANES: usize = 8;

/// Minimum second derivative along a step, relative to the second derivatives along the
/// multipliers. It replaces smaller ones, which are only rounding.
const MIN_CURVATURE: f64 = 1e-12;

/// Number of steps between two calls of `stop`.
const STOP_INTERVAL: usize = 512;

/// The dual of an SVM on q rows.
pub(super) struct SmoProblem<'a, T> {
    /// Kernel matrix, q x q.
    pub(super) k: &'a [T],
    pub(super) rows: &'a [TargetAndCost],
    pub(super) loss: Loss,
    /// True if Σβ is fixed.
    pub(super) has_fixed_sum: bool,
    pub(super) beta: &'a mut [f64],
    /// Values f = Kβ, updated with every step.
    pub(super) f: &'a mut [f64],
}

/// One-sided derivatives h′₊ (`rise`) and h′₋ (`fall`) at the multipliers, and the curvatures
/// K_ii + h″_i.
struct Slopes {
    rise: Vec<f64>,
    fall: Vec<f64>,
    curvature: Vec<f64>,
}

impl<'a, T: Real> SmoProblem<'a, T> {
    /// Makes at most `max_steps` steps. Stops earlier if the violation is at most `tolerance` or
    /// `stop` returns true. Returns the number of steps.
    pub(super) fn solve(mut self, tolerance: f64, max_steps: usize, stop: &dyn Fn() -> bool) -> usize {
        let q = self.rows.len();
        let mut slopes = Slopes { rise: vec![0.0; q], fall: vec![0.0; q], curvature: vec![0.0; q] };
        for i in 0..q {
            self.update_slopes(&mut slopes, i);
        }
        match self.has_fixed_sum {
            true => self.take_pair_steps(&mut slopes, tolerance, max_steps, stop),
            false => self.take_single_steps(&mut slopes, tolerance, max_steps, stop),
        }
    }

    fn row(&self, i: usize) -> &'a [T] {
        let q = self.rows.len();
        &self.k[i * q..(i + 1) * q]
    }

    fn update_slopes(&self, slopes: &mut Slopes, i: usize) {
        let piece = self.loss.piece(self.beta[i], self.rows[i]);
        (slopes.rise[i], slopes.fall[i]) = (piece.rise, piece.fall);
        let diagonal = self.k[i * self.rows.len() + i].to_f64();
        slopes.curvature[i] = diagonal + self.loss.curvature(self.beta[i], self.rows[i]);
    }

    fn take_pair_steps(
        &mut self,
        slopes: &mut Slopes,
        tolerance: f64,
        max_steps: usize,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        let (mut i, mut least_slope) = least_rise(self.f, &slopes.rise);
        for step in 0..max_steps {
            let (j, highest_fall) = best_partner(self.f, slopes, self.row(i), i, least_slope);
            let excess = highest_fall - least_slope;
            if excess <= tolerance || excess.is_nan() || (step % STOP_INTERVAL == STOP_INTERVAL - 1 && stop()) {
                return step;
            }
            let (ki, kj) = (self.row(i), self.row(j));
            let (curvature_i, curvature_j) = (slopes.curvature[i], slopes.curvature[j]);
            let min_curvature = MIN_CURVATURE * (curvature_i.abs() + curvature_j.abs());
            let curvature =
                (curvature_i + curvature_j - 2.0 * ki[j].to_f64()).max(min_curvature).max(f64::MIN_POSITIVE);
            let excess = self.f[j] + slopes.fall[j] - least_slope;
            let (rising, falling) =
                (self.loss.piece(self.beta[i], self.rows[i]), self.loss.piece(self.beta[j], self.rows[j]));
            let step_limits = (rising.upper - self.beta[i], self.beta[j] - falling.lower);
            let t = (excess / curvature).min(step_limits.0).min(step_limits.1);
            // a multiplier at the end of a piece must equal it exactly
            let (new_beta_i, new_beta_j) = (
                if t >= step_limits.0 { rising.upper } else { self.beta[i] + t },
                if t >= step_limits.1 { falling.lower } else { self.beta[j] - t },
            );
            (self.beta[i], self.beta[j]) = (new_beta_i, new_beta_j);
            self.update_slopes(slopes, i);
            self.update_slopes(slopes, j);
            (i, least_slope) = move_pair(self.f, &slopes.rise, ki, kj, t);
        }
        max_steps
    }

    fn take_single_steps(
        &mut self,
        slopes: &mut Slopes,
        tolerance: f64,
        max_steps: usize,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        for step in 0..max_steps {
            let (i, violation) = steepest_row(self.f, slopes);
            if violation <= tolerance || (step % STOP_INTERVAL == STOP_INTERVAL - 1 && stop()) {
                return step;
            }
            let piece = self.loss.piece(self.beta[i], self.rows[i]);
            let (rise, fall) = (self.f[i] + piece.rise, self.f[i] + piece.fall);
            let curvature = slopes.curvature[i].max(f64::MIN_POSITIVE);
            let old_beta = self.beta[i];
            let (new_beta, bound) = if rise < 0.0 {
                ((old_beta - rise / curvature).min(piece.upper), piece.upper)
            } else {
                ((old_beta - fall / curvature).max(piece.lower), piece.lower)
            };
            self.beta[i] = if (new_beta - bound).abs() == 0.0 { bound } else { new_beta };
            self.update_slopes(slopes, i);
            add_scaled(self.f, self.row(i), self.beta[i] - old_beta);
        }
        max_steps
    }
}

/// Returns the index and the value of the least slope of rising; the first, if several are equal.
fn least_rise(f: &[f64], rise: &[f64]) -> (usize, f64) {
    let rise_slopes = f.iter().zip(rise).map(|(f, rise)| f + rise).enumerate();
    rise_slopes.fold((0, f64::INFINITY), |best, (i, value)| if value < best.1 { (i, value) } else { best })
}

/// Updates f += t(k_i − k_j) for rows k_i and k_j of K, and returns the index and the value of the
/// least slope of rising. If several slopes are equal, the choice among them is deterministic.
fn move_pair<T: Real>(f: &mut [f64], rise: &[f64], ki: &[T], kj: &[T], t: f64) -> (usize, f64) {
    let mut best = LaneMaxima::new();
    kapprox::vectorised!({
        let (f, tail) = f.as_chunks_mut::<LANES>();
        let (rise, rise_tail) = rise.as_chunks::<LANES>();
        let (ki, i_tail) = ki.as_chunks::<LANES>();
        let (kj, j_tail) = kj.as_chunks::<LANES>();
        for (c, (((f, rise), ki), kj)) in f.iter_mut().zip(rise).zip(ki).zip(kj).enumerate() {
            // compute all lanes before storing any: a store between two loads would prevent
            // vectorisation
            *f = from_fn(|l| t.mul_add(ki[l].to_f64() - kj[l].to_f64(), f[l]));
            best.update(c, from_fn(|l| -(f[l] + rise[l])));
        }
        for (l, f) in tail.iter_mut().enumerate() {
            *f = t.mul_add(i_tail[l].to_f64() - j_tail[l].to_f64(), *f);
            best.update_lane(ki.len(), l, -(*f + rise_tail[l]));
        }
    });
    let (index, value) = best.argmax();
    (index, -value)
}

/// Returns the row j whose step together with row i lowers the objective most, and the highest
/// slope of falling of all rows.
fn best_partner<T: Real>(f: &[f64], slopes: &Slopes, ki: &[T], i: usize, least_slope: f64) -> (usize, f64) {
    let (mut best, mut highest) = (LaneMaxima::new(), [f64::NEG_INFINITY; LANES]);
    let curvature_i = slopes.curvature[i];
    let min_curvature = (MIN_CURVATURE * curvature_i.abs()).max(f64::MIN_POSITIVE);
    // a row without positive excess has gain 0
    let gain = |value: f64, curvature: f64, k: f64| {
        let excess = (value - least_slope).max(0.0);
        excess * excess / (curvature_i + curvature - 2.0 * k).max(min_curvature)
    };
    kapprox::vectorised!({
        let (f, tail) = f.as_chunks::<LANES>();
        let (fall, fall_tail) = slopes.fall.as_chunks::<LANES>();
        let (curvature, curvature_tail) = slopes.curvature.as_chunks::<LANES>();
        let (k, k_tail) = ki.as_chunks::<LANES>();
        for (c, (((f, fall), curvature), k)) in f.iter().zip(fall).zip(curvature).zip(k).enumerate() {
            let mut value = [0.0; LANES];
            for l in 0..LANES {
                let slope = f[l] + fall[l];
                highest[l] = if slope > highest[l] { slope } else { highest[l] };
                value[l] = gain(slope, curvature[l], k[l].to_f64());
            }
            best.update(c, value);
        }
        for (l, f) in tail.iter().enumerate() {
            let slope = f + fall_tail[l];
            highest[l] = if slope > highest[l] { slope } else { highest[l] };
            best.update_lane(k.len(), l, gain(slope, curvature_tail[l], k_tail[l].to_f64()));
        }
    });
    (best.argmax().0, highest.into_iter().fold(f64::NEG_INFINITY, f64::max))
}

/// Returns the row whose step on its own multiplier lowers the objective most, and the largest
/// violation of all rows.
fn steepest_row(f: &[f64], slopes: &Slopes) -> (usize, f64) {
    let (mut best, mut highest) = (LaneMaxima::new(), [0.0; LANES]);
    kapprox::vectorised!({
        let whole_chunks = f.len() / LANES;
        let parts = f.chunks(LANES).zip(slopes.rise.chunks(LANES)).zip(slopes.fall.chunks(LANES));
        for (c, (((f, rise), fall), curvature)) in parts.zip(slopes.curvature.chunks(LANES)).enumerate() {
            let mut value = [f64::NEG_INFINITY; LANES];
            let lane_count = if c < whole_chunks { LANES } else { f.len() };
            for l in 0..lane_count {
                let violation = (-(f[l] + rise[l])).max(f[l] + fall[l]).max(0.0);
                highest[l] = if violation > highest[l] { violation } else { highest[l] };
                value[l] = violation * violation / curvature[l].max(f64::MIN_POSITIVE);
            }
            best.update(c, value);
        }
    });
    (best.argmax().0, highest.into_iter().fold(0.0, f64::max))
}

/// Updates f += t k.
pub(super) fn add_scaled<T: Real>(f: &mut [f64], k: &[T], t: f64) {
    kapprox::vectorised!(f.iter_mut().zip(k).for_each(|(f, k)| *f = t.mul_add(k.to_f64(), *f)));
}

/// Running argmax of a sequence in chunks of [`LANES`] values: for every lane, its largest value
/// and the chunk that contains it.
struct LaneMaxima {
    values: [f64; LANES],
    chunks: [u64; LANES],
}

impl LaneMaxima {
    #[inline(always)]
    fn new() -> Self {
        Self { values: [f64::NEG_INFINITY; LANES], chunks: [0; LANES] }
    }

    #[inline(always)]
    fn update(&mut self, chunk: usize, value: [f64; LANES]) {
        for (value, (best, best_chunk)) in value.into_iter().zip(self.values.iter_mut().zip(&mut self.chunks)) {
            let is_better = value > *best;
            *best = if is_better { value } else { *best };
            *best_chunk = if is_better { chunk as u64 } else { *best_chunk };
        }
    }

    #[inline(always)]
    fn update_lane(&mut self, chunk: usize, l: usize, value: f64) {
        if value > self.values[l] {
            (self.values[l], self.chunks[l]) = (value, chunk as u64);
        }
    }

    fn argmax(&self) -> (usize, f64) {
        let lane = (1..LANES).fold(0, |best, l| if self.values[l] > self.values[best] { l } else { best });
        (self.chunks[lane] as usize * LANES + lane, self.values[lane])
    }
}
