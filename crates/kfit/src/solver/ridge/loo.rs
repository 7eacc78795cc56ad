//! Leave-one-out: the error of every row under the fit to all other rows, without computing these
//! fits.
//!
//! A ridge fit is linear in its targets: let h_i be the weight of the target of row i in the fitted
//! value f(x_i). The function f₋ᵢ is fitted to the other rows, at the same μ = lambda·n. Its error
//! at row i is
//!
//! ```text
//! y_i − f₋ᵢ(x_i) = (y_i − f(x_i)) / (1 − h_i),     h_i = (φ_i − μ_φ)ᵀ (A + μI)⁻¹ (φ_i − μ_φ) + 1/n
//! ```
//!
//! where μ_φ is the mean of the features, and A their centred Gram matrix. This holds exactly for a
//! free intercept. Without a free intercept, nothing is centred and the term 1/n is absent. If rows
//! have weights, w·h replaces h for a row of weight w, and n is the sum of the weights. *Cost*: one
//! pass, with p² flops per row for the triangular solve.
//!
//! Reference: Allen, "The relationship between variable selection and data augmentation and a
//! method for prediction", Technometrics 16, 1974.

use crate::solver::normal_equations::{head_at, system::RidgeSystem};
use crate::{
    BinReduction, Error, GramState, LinearHead, Result, RidgeGrid, bins::Bins, linalg::dot_products::to_f64_matrix,
    linalg::strips::for_each_strip,
};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kapprox::Real;
use kstore::Workers;

/// Number of rows whose leverages h one thread computes at a time.
const LEVERAGE_STRIP_ROWS: usize = 288;

/// Lower bound on 1 − h. A smaller 1 − h is only rounding: the row alone determines its fitted
/// value. 64 ulps of 1 are chosen.
const MIN_COMPLEMENT: f64 = 64.0 * f64::EPSILON;

/// A pass that sums the squared leave-one-out errors of a fit, from the factor and the coefficients
/// of the fit.
pub(crate) struct LooReduction {
    system: RidgeSystem,
    head: LinearHead,
    /// Number subtracted from each target, t numbers.
    target_centre: Vec<f64>,
    rank: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LooState {
    /// Number of rows, or the sum of their weights.
    total_weight: f64,
    /// Sum of squared errors over rows, for each of t targets.
    squared_errors: Vec<f64>,
}

impl LooState {
    pub(crate) fn mse(&self) -> f64 {
        self.squared_errors.iter().sum::<f64>()
            / (self.total_weight.max(f64::MIN_POSITIVE) * self.squared_errors.len().max(1) as f64)
    }
}

kstore::summed!(LooState { one "rows": total_weight, fill "squares": squared_errors });

impl LooReduction {
    /// Fits all rows at a rank and lambda, and keeps the factor.
    pub(crate) fn new(
        state: &GramState,
        rank: usize,
        lambda: f64,
        grid: &RidgeGrid,
        workers: &Workers,
    ) -> Result<Self> {
        let mut system = RidgeSystem::new(state.feature_count(), &grid.target_centre, grid.intercept);
        system.assemble(state, None, workers)?;
        let solution = system.solve(lambda, &[rank], workers);
        if solution.solved_rank_count == 0 {
            return Err(Error::Indefinite { rank, lambda, precision: state.precision() });
        }
        Ok(Self { head: head_at(&solution, 0, rank, grid), system, target_centre: grid.target_centre.clone(), rank })
    }

    /// Returns the bytes of the buffers of a pass on this many threads, without the system.
    pub(crate) fn scratch_bytes(p: usize, t: usize, threads: usize) -> usize {
        threads.max(1) * LEVERAGE_STRIP_ROWS * 8 * (2 * p + t + 1)
    }
}

impl<T: Real> BinReduction<T> for &LooReduction {
    type State = LooState;
    type Scratch = ();

    fn init(&self) -> LooState {
        LooState { total_weight: 0.0, squared_errors: vec![0.0; self.target_centre.len()] }
    }

    fn add_bin(
        &self,
        state: &mut LooState,
        (): &mut (),
        bin_index: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        let mapped_bin = bins.mapped_bin(bin_index);
        let (bin_rows, t) = (mapped_bin.phi.nrows(), self.target_centre.len());
        let mut strip_sums = vec![0.0; bin_rows.div_ceil(LEVERAGE_STRIP_ROWS) * t];
        for_each_strip(workers, &mut strip_sums, t, |strip, sums| {
            let (first_row, strip_rows) =
                (strip * LEVERAGE_STRIP_ROWS, LEVERAGE_STRIP_ROWS.min(bin_rows - strip * LEVERAGE_STRIP_ROWS));
            let phi = to_f64_matrix(mapped_bin.phi.submatrix(first_row, 0, strip_rows, self.rank));
            let mut fitted_values = Mat::<f64>::zeros(strip_rows, t);
            matmul(fitted_values.as_mut(), Accum::Replace, phi.as_ref(), self.head.weights.as_ref(), 1.0, Par::Seq);
            let mut leverages = vec![0.0; strip_rows];
            self.system.leverages(phi, &mut leverages);
            for (j, sum) in sums.iter_mut().enumerate() {
                let centred_intercept = self.head.intercept[j] - self.target_centre[j];
                for (i, h) in leverages.iter().enumerate() {
                    let weight = mapped_bin.w.map_or(1.0, |w| w[first_row + i]);
                    let loo_error = (mapped_bin.y[(first_row + i, j)] - centred_intercept - fitted_values[(i, j)])
                        / (1.0 - weight * h).max(MIN_COMPLEMENT);
                    *sum += weight * loo_error * loo_error;
                }
            }
        });
        state.total_weight += mapped_bin.w.map_or(bin_rows as f64, |w| w.iter().sum());
        for sums in strip_sums.chunks_exact(t.max(1)) {
            state.squared_errors.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        Ok(())
    }
}
