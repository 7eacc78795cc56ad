//! Generalised cross-validation: an estimate of the error on unseen rows without validation rows.
//!
//! Let df be the trace of the matrix that maps targets to fitted values, and n the sum of the row
//! weights. Then
//!
//! ```text
//! GCV = (1/n) Σ_i (y_i − f(x_i))² / (1 − df/n)²
//! ```
//!
//! averaged over the targets. This is the leave-one-out error with the leverage of every row
//! replaced by the mean leverage. The moments of all rows give GCV for every rank and lambda. For
//! each lambda, one factorisation and one triangular inverse serve all ranks, because the inverse
//! of a leading block of a triangular matrix is the leading block of the inverse. They take 2p³/3
//! flops.
//!
//! Reference: Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good
//! ridge parameter", Technometrics 21, 1979.

use super::{RidgeGrid, squared_errors, system::RidgeSystem};
use crate::{GramState, Result, solver::check_stop};
use kstore::{Workers, pass::Observer};

/// Computes GCV at every rank, with one vector per lambda. An entry is `None` if the system cannot
/// be solved, or has as many degrees of freedom as rows. Overwrites `system`.
pub(super) fn gcv_by_lambda(
    state: &GramState,
    grid: &RidgeGrid,
    system: &mut RidgeSystem,
    workers: &Workers,
    observer: &dyn Observer,
) -> Result<Vec<Vec<Option<f64>>>> {
    system.assemble(state, None, workers)?;
    let (n, t) = (state.weight_sum(), state.target_count());
    let at_lambda = |lambda: &f64| {
        check_stop(observer)?;
        let solution = system.solve(*lambda, &grid.ranks, workers);
        let ranks = &grid.ranks[..solution.solved_rank_count];
        let mut gcv_by_rank = vec![None; grid.ranks.len()];
        let Some(largest_rank) = ranks.last() else { return Ok(gcv_by_rank) };
        let mut errors = vec![0.0; solution.weights.ncols()];
        for fold in state.folds() {
            let fold_errors = squared_errors(fold, &solution, *largest_rank, state.epsilon(), workers);
            errors.iter_mut().zip(fold_errors).for_each(|(sum, part)| *sum += part);
        }
        let degrees_of_freedom = system.degrees_of_freedom(*lambda, ranks, workers);
        for (rank_index, df) in degrees_of_freedom.iter().enumerate() {
            let mse = errors[rank_index * t..(rank_index + 1) * t].iter().sum::<f64>() / (n * t.max(1) as f64);
            let residual_fraction = 1.0 - df / n;
            gcv_by_rank[rank_index] = (residual_fraction > 0.0)
                .then(|| mse / (residual_fraction * residual_fraction))
                .filter(|score| score.is_finite());
        }
        Ok(gcv_by_rank)
    };
    grid.lambdas.iter().map(at_lambda).collect()
}
