//! Cross-validation of every rank and lambda from one Gram state.

use super::{RidgeGrid, gcv, head_at, squared_errors, system::RidgeSystem};
use crate::{Error, FoldGram, GramState, LinearHead, Result, SurfaceCell, solver::check_stop};
use kstore::{Workers, pass::Observer};
use std::ops::Range;

/// The surface: the cross-validated error of every rank and lambda.
///
/// *Cost*: one Cholesky factorisation at the largest rank for each fold and lambda, p³/3 flops, and
/// p² flops per rank and target for the held-out errors. Generalised cross-validation needs another
/// factorisation for each lambda, and p³/3 further flops. *Bytes*: [`RidgeGrid::solve_bytes`].
/// The computation needs no pass over the rows.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Surface {
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Lambdas, ascending.
    pub lambdas: Vec<f64>,
    /// Number of folds; 1 without cross-validation.
    #[serde(rename = "folds")]
    pub fold_count: usize,
    /// One cell per rank and lambda, rank by rank.
    pub cells: Vec<SurfaceCell>,
    /// Warnings about cells that could not be computed, and what to do.
    pub warnings: Vec<String>,
}

impl Surface {
    /// Computes every cell. Before every system, checks whether the observer requests a stop. If
    /// there is only one fold, every `cv_mse` is `None`.
    ///
    /// # Errors
    /// [`Error::UnsuitableFolds`] if a fold leaves fewer than two rows for training; the errors of
    /// the grid; [`kstore::Error::Interrupted`].
    pub fn compute(state: &GramState, grid: &RidgeGrid, workers: &Workers, observer: &dyn Observer) -> Result<Self> {
        let mut system = RidgeSystem::new(state.feature_count(), &grid.target_centre, grid.intercept);
        let mut surface = Self::cross_validate(state, grid, &mut system, 0..state.folds().len(), workers, observer)?;
        let scores = gcv::gcv_by_lambda(state, grid, &mut system, workers, observer)?;
        for (i, cell) in surface.cells.iter_mut().enumerate() {
            cell.gcv = scores[i % grid.lambdas.len()][i / grid.lambdas.len()];
        }
        // a cancelled factorisation looks like a failed factorisation
        workers.check()?;
        Ok(surface)
    }

    /// Computes the held-out errors of these folds alone, without generalised cross-validation.
    /// Overwrites `system`.
    ///
    /// # Errors
    /// As for [`Surface::compute`].
    pub fn cross_validate(
        state: &GramState,
        grid: &RidgeGrid,
        system: &mut RidgeSystem,
        held_out_folds: Range<usize>,
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Result<Self> {
        grid.check(state)?;
        let RidgeGrid { ranks, lambdas, .. } = grid;
        let folds = state.folds().len();
        // sums over rows and targets, cell by cell and fold by fold
        let mut error_sums = vec![None; ranks.len() * lambdas.len() * folds];
        if folds > 1 {
            check_folds(state)?;
            for fold in held_out_folds.filter(|fold| is_scored(state, *fold)) {
                system.assemble(state, Some(fold), workers)?;
                for (lambda_index, lambda) in lambdas.iter().enumerate() {
                    check_stop(observer)?;
                    let solution = system.solve(*lambda, ranks, workers);
                    let Some(last_index) = solution.solved_rank_count.checked_sub(1) else { continue };
                    let errors =
                        squared_errors(&state.folds()[fold], &solution, ranks[last_index], state.epsilon(), workers);
                    for (rank_index, errors) in
                        errors.chunks_exact(state.target_count()).enumerate().take(solution.solved_rank_count)
                    {
                        let sum: f64 = errors.iter().sum();
                        error_sums[(rank_index * lambdas.len() + lambda_index) * folds + fold] =
                            Some(sum).filter(|sum| sum.is_finite());
                    }
                }
            }
        }
        workers.check()?;
        let ranks_and_lambdas = ranks.iter().flat_map(|rank| lambdas.iter().map(move |lambda| (*rank, *lambda)));
        let cells = ranks_and_lambdas
            .zip(error_sums.chunks_exact(folds))
            .map(|((rank, lambda), sums)| build_cell(rank, lambda, sums, state));
        let (cells, warnings) = (cells.collect(), Vec::new());
        let mut surface = Self { ranks: ranks.clone(), lambdas: lambdas.clone(), fold_count: folds, cells, warnings };
        surface.warnings.extend(rounding_warning(&surface, state));
        Ok(surface)
    }

    /// Returns the cell of a rank and lambda, or `None` if the surface has no such cell.
    pub fn cell(&self, rank: usize, lambda: f64) -> Option<&SurfaceCell> {
        self.cells.iter().find(|cell| cell.rank == rank && cell.lambda == lambda)
    }

    /// Returns the cell with the smallest `cv_mse`. If several cells have the smallest value,
    /// returns the cell with the smallest rank, and among these the cell with the largest lambda.
    pub fn best(&self) -> Option<&SurfaceCell> {
        best_cell_by(self.cells.iter(), |cell| cell.cv_mse)
    }

    /// Returns the best cell of each rank; skips ranks whose cells have no error.
    pub fn best_per_rank(&self) -> Vec<&SurfaceCell> {
        let best_at_rank =
            |rank: &usize| best_cell_by(self.cells.iter().filter(|cell| cell.rank == *rank), |cell| cell.cv_mse);
        self.ranks.iter().filter_map(best_at_rank).collect()
    }

    /// Returns the cell with the smallest `cv_error`; skips cells without a `cv_error`.
    pub fn best_by_error(&self) -> Option<&SurfaceCell> {
        best_cell_by(self.cells.iter(), |cell| cell.cv_error)
    }

    /// Stores the measured error rate of a cell, and the error rates of the folds.
    pub fn set_cv_error(&mut self, rank: usize, lambda: f64, error: f64, fold_errors: &[Option<f64>]) {
        for cell in self.cells.iter_mut().filter(|cell| cell.rank == rank && cell.lambda == lambda) {
            cell.cv_error = Some(error);
            cell.fold_error = fold_errors.to_vec();
        }
    }
}

/// Returns the cell with the smallest score. Of several, returns the cell with the smallest rank,
/// and among these the cell with the largest lambda. Skips cells without a score.
fn best_cell_by<'a>(
    cells: impl Iterator<Item = &'a SurfaceCell>,
    score: impl Fn(&SurfaceCell) -> Option<f64>,
) -> Option<&'a SurfaceCell> {
    let scored_cells = cells.filter_map(|cell| score(cell).map(|score| (score, cell)));
    let order = |(x, a): &(f64, &SurfaceCell), (y, b): &(f64, &SurfaceCell)| {
        x.total_cmp(y).then(a.rank.cmp(&b.rank)).then(b.lambda.total_cmp(&a.lambda))
    };
    scored_cells.min_by(order).map(|(_, cell)| cell)
}

/// Returns true for a fold that has rows and that the fold rule holds out.
fn is_scored(state: &GramState, fold: usize) -> bool {
    state.fold_rule().is_held_out(fold) && state.folds()[fold].row_count > 0
}

/// Rejects folds that leave fewer than two rows for training.
fn check_folds(state: &GramState) -> Result<()> {
    let folds = || state.folds().iter().enumerate();
    let training_folds = |held_out_fold: usize| {
        folds().filter(move |(fold, _)| state.fold_rule().is_training(Some(held_out_fold), *fold))
    };
    let leaves_too_few =
        |held_out_fold: usize| training_folds(held_out_fold).map(|(_, fold)| fold.row_count).sum::<u64>() < 2;
    if !(0..state.folds().len()).any(|fold| is_scored(state, fold) && leaves_too_few(fold)) {
        return Ok(());
    }
    let why = "a fold leaves fewer than two rows for training; choose other folds or none";
    Err(Error::UnsuitableFolds { folds: state.folds().len().to_string(), why: why.to_string() })
}

fn build_cell(rank: usize, lambda: f64, error_sums: &[Option<f64>], state: &GramState) -> SurfaceCell {
    let t = state.target_count() as f64;
    // a fold that is not held out has no weight in the error
    let fold_weight =
        |(fold, gram): (usize, &FoldGram)| if state.fold_rule().is_held_out(fold) { gram.weight_sum } else { 0.0 };
    let fold_weights = || state.folds().iter().enumerate().map(fold_weight);
    let fold_mse: Vec<Option<f64>> = match error_sums.len() {
        1 => Vec::new(),
        _ => error_sums
            .iter()
            .zip(fold_weights())
            .map(|(sum, n)| sum.filter(|_| n > 0.0).map(|sum| sum / (n * t)))
            .collect(),
    };
    // a fold without rows has no error and does not make the cell incomplete
    let is_complete =
        error_sums.len() > 1 && error_sums.iter().zip(fold_weights()).all(|(sum, n)| sum.is_some() || n <= 0.0);
    let sum: f64 = error_sums.iter().flatten().sum();
    let total_weight: f64 = fold_weights().sum();
    SurfaceCell {
        rank,
        lambda,
        cv_mse: is_complete.then(|| sum / (total_weight * t)),
        gcv: None,
        cv_error: None,
        fold_error: Vec::new(),
        fold_mse,
    }
}

fn rounding_warning(surface: &Surface, state: &GramState) -> Option<String> {
    let missing_cells: Vec<&SurfaceCell> = surface.cells.iter().filter(|cell| cell.cv_mse.is_none()).collect();
    if surface.fold_count < 2 || missing_cells.is_empty() {
        return None;
    }
    let largest_lambda = missing_cells.iter().map(|cell| cell.lambda).fold(0.0, f64::max);
    let remedy = if state.precision() == "f32" { "raise `lambda` or use `precision` f64" } else { "raise `lambda`" };
    let small_lambda_count = surface.cells.iter().filter(|cell| cell.lambda <= largest_lambda).count();
    let scope = if small_lambda_count > missing_cells.len() { " at some ranks" } else { "" };
    let precision = state.precision();
    Some(format!(
        "lambda up to {largest_lambda:.2e} is too small for the rounding of {precision}{scope}, and was skipped; {remedy}"
    ))
}

/// Coefficients of some cells for every held-out fold, fitted to the rows of the other folds.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldCoefficients {
    /// The cells: rank and lambda.
    pub cells: Vec<(usize, f64)>,
    /// `heads[fold][cell]` is trained on the rows of the other folds. It is `None` if the fold has
    /// no rows or if the system has no solution.
    pub heads: Vec<Vec<Option<LinearHead>>>,
}

impl FoldCoefficients {
    /// Solves the cells again for every held-out fold, with one factorisation per fold and distinct
    /// lambda.
    ///
    /// *Bytes*: [`RidgeGrid::solve_bytes`], and 8·rank·t bytes of the result for every fold and
    /// cell.
    ///
    /// # Errors
    /// The errors of [`Surface::compute`].
    pub fn compute(
        state: &GramState,
        cells: &[(usize, f64)],
        grid: &RidgeGrid,
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (ranks, lambdas) = cells.iter().copied().unzip();
        RidgeGrid { ranks, lambdas, ..grid.clone() }.check(state)?;
        check_folds(state)?;
        let mut system = RidgeSystem::new(state.feature_count(), &grid.target_centre, grid.intercept);
        let mut heads = vec![vec![None; cells.len()]; state.folds().len()];
        for (fold, heads) in heads.iter_mut().enumerate().filter(|(fold, _)| is_scored(state, *fold)) {
            system.assemble(state, Some(fold), workers)?;
            for (lambda, positions) in positions_by_lambda(cells) {
                check_stop(observer)?;
                let ranks: Vec<usize> = positions.iter().map(|i| cells[*i].0).collect();
                let solution = system.solve(lambda, &ranks, workers);
                for (rank_index, cell_index) in positions.iter().enumerate().take(solution.solved_rank_count) {
                    heads[*cell_index] = Some(head_at(&solution, rank_index, ranks[rank_index], grid));
                }
            }
        }
        workers.check()?;
        Ok(Self { cells: cells.to_vec(), heads })
    }

    /// Returns the bytes of the coefficients of `cells` for `t` targets and the given number of
    /// folds.
    pub fn bytes(cells: &[(usize, f64)], t: usize, folds: usize) -> usize {
        8 * folds * cells.iter().map(|(rank, _)| (rank + 1) * t).sum::<usize>()
    }
}

/// Returns each distinct lambda with the positions of its cells, by ascending rank.
fn positions_by_lambda(cells: &[(usize, f64)]) -> Vec<(f64, Vec<usize>)> {
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for (i, (_, lambda)) in cells.iter().enumerate() {
        match groups.iter_mut().find(|(group_lambda, _)| group_lambda == lambda) {
            Some((_, positions)) => positions.push(i),
            None => groups.push((*lambda, vec![i])),
        }
    }
    groups.iter_mut().for_each(|(_, positions)| positions.sort_by_key(|i| cells[*i].0));
    groups
}
