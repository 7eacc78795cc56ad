//! Ridge regression from Gram matrices. One pass gives the surface (the error of every rank, lambda
//! and fold) and the certificate (the relative trace error of the map at every rank).
//!
//! *Flops*: n(2dp + 2p²) for n rows of d columns and p features, and p³/3 for each fold and lambda.
//! *Bytes*: the Gram matrix of each fold, and the matrix of one linear system.

use super::leaves::{self, LeafFit};
use super::{Criterion, Ridge, loo::LooReduction, variance};
use crate::prepare::stage_plans::REMEDY_LOWER_RANK;
use crate::quadratic::Quadratic;
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::cv_error::CvErrorReduction;
use crate::solver::normal_equations::{self, FoldCoefficients, RidgeFit, RidgeGrid, Surface, system::RidgeSystem};
use crate::solver::{EFFECTIVE_DIMENSION, FoldFunctions, NamedValues, Solution, gradients, mse_and_r2};
use crate::{Error, FeatureReduction, GramState, LinearHead, MomentState, Result, Targets, features::FitData};
use kapprox::Real;
use kstore::MemoryPlan;

/// Rejects row weights if the landmark scheme learns from the targets.
pub(super) fn check(request: &FitRequest<'_>) -> Result<()> {
    match request.options.landmarks.scheme() {
        Some(scheme) if scheme.needs_targets => {
            request.reject_weights(&format!("`landmarks` {}", scheme.name), "choose another scheme")
        }
        _ => Ok(()),
    }
}

/// Adds to a plan the memory of the linear system, and of the requested extras: variances,
/// importances, leaves, leave-one-out errors.
pub(super) fn plan(ridge: &Ridge, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
    let (p, t) = (size.map.p, size.t);
    let plan = plan
        .term("system and its factor", RidgeSystem::bytes(p, t, size.rank_count, ridge.intercept), REMEDY_LOWER_RANK)
        .term_if(ridge.is_min_norm(), "eigenvectors", 5 * 8 * p * p, REMEDY_LOWER_RANK)
        .term("columns of an inverse", RidgeSystem::inverse_bytes(p, size.threads), REMEDY_LOWER_RANK)
        .term_if(ridge.stores_variance, "variances", Quadratic::expansion_bytes(p, p), "leave `std` out");
    let interval_bytes = FoldFunctions::bytes(size, t, 1);
    let plan = plan.term_if(ridge.stores_fold_functions, "prediction intervals", interval_bytes, "use fewer folds");
    let plan = if ridge.computes_importance { gradients::plan(plan, size, pass_shape, t) } else { plan };
    let plan = ridge
        .max_leaf_rows
        .into_iter()
        .fold(plan, |plan, leaf_rows| leaves::plan(plan, leaf_rows, ridge.leaf_kernel.as_ref(), size));
    let feature_bytes = p * size.element_bytes + size.map.footprint.per_row;
    let tile_bytes = pass_shape.gram_lanes
        * (pass_shape.prefetch_tiles + 4)
        * pass_shape.tile_rows
        * (size.d * size.element_bytes + 8 * t + feature_bytes);
    plan.term_if(ridge.computes_loo, "features of a tile", tile_bytes, REMEDY_LOWER_RANK).term_if(
        ridge.computes_loo,
        "leverages",
        LooReduction::scratch_bytes(p, t, size.threads),
        REMEDY_LOWER_RANK,
    )
}

/// Computes the Gram matrices, the surface, and the best cell of it, then the fit to all rows at
/// this cell and the requested extras.
pub(super) fn fit<T: Real>(ridge: &Ridge, data: &FitData<'_, T>) -> Result<Solution<T>> {
    let direct_fit = DirectFit { ridge, data };
    let ridge_state = data.moments_by_fold()?;
    let ranks = direct_fit.grid_ranks();
    // before the surface is computed, reject a map whose features have a larger norm than the
    // kernel allows at one of the ranks: such a map is not a projection
    ridge_state
        .certificate
        .iter()
        .try_for_each(|state| ranks.iter().try_for_each(|rank| state.checked_certificate(*rank).map(drop)))?;
    let MomentState { gram, certificate } = ridge_state;
    let residual_at = |rank: &usize| certificate.as_ref().map_or(0.0, |state| state.mean_residual(*rank));
    let mean_residuals: Vec<f64> = ranks.iter().map(residual_at).collect();
    let (lambdas, target_centre) = (ridge.lambdas.clone(), data.targets.centre());
    let grid = RidgeGrid { ranks, lambdas, intercept: ridge.intercept, target_centre };
    let (stage_observer, workers) = (data.resources.stage_observer, data.resources.workers);
    let solution_of =
        |RidgeFit { head: LinearHead { weights, intercept }, train_mse, .. }: RidgeFit, lambda: f64| Solution {
            weights,
            intercept,
            certificate,
            certified_ranks: grid.ranks.clone(),
            lambda: Some(lambda),
            train_score: Some(train_score(&gram, &train_mse)),
            passes: 1,
            ..Solution::default()
        };
    if ridge.is_min_norm() {
        let (rank, stage) =
            (grid.ranks.last().copied().unwrap_or_default(), stage_observer.start_stage("eigenvectors", None));
        let (fit, numerical_rank) = normal_equations::min_norm_fit(&gram, rank, &grid, workers)?;
        drop(stage);
        if numerical_rank < rank {
            let dropped_count = rank - numerical_rank;
            stage_observer.warn(format!(
                "with `lambda` 0, {dropped_count} of {rank} directions of the features are dropped: their eigenvalues are below rounding"
            ));
        }
        let figures = vec![NamedValues::single("directions", numerical_rank as f64)];
        return Ok(Solution { figures, ..solution_of(fit, 0.0) });
    }
    let (surface, scoring_passes) = direct_fit.surface(&gram, &grid)?;
    let (rank, lambda) = direct_fit.select_cell(&surface, &grid, &gram)?;
    let (fit, quadratic, effective_dimension) = {
        let _stage = stage_observer.start_stage("solve", None);
        let (fit, system) = normal_equations::fit_with_system(&gram, rank, lambda, &grid, workers)?;
        let rank_index = grid.ranks.iter().position(|candidate| *candidate == rank);
        let mean_residual = rank_index.map_or(0.0, |i| mean_residuals[i]);
        let variance_of_fit =
            || variance::predictive_variance(&system, gram.row_count(), mean_residual, &fit, lambda, &grid, workers);
        let quadratic = ridge.stores_variance.then(variance_of_fit);
        (fit, quadratic, system.effective_dimension(lambda, rank, workers))
    };
    let loo_mse = ridge.computes_loo.then(|| direct_fit.leave_one_out(&gram, &grid, rank, lambda)).transpose()?;
    let fold_functions = ridge.stores_fold_functions.then(|| direct_fit.fold_functions(&gram, &grid, rank, lambda));
    let fold_functions = fold_functions.transpose()?;
    let outer_products =
        || gradients::outer_products(data, gradients::differentiable_kernel(data)?, fit.head.weights.as_ref());
    let slopes =
        ridge.computes_importance.then(outer_products).transpose()?.map(|products| gradients::rms_slopes(&products));
    let leaf_fit = ridge.max_leaf_rows.map(|leaf_rows| {
        let prefers_last = ridge.leaf_kernel.is_some();
        let reduced_fit = leaves::fit_without_fold(&gram, rank, lambda, &grid, prefers_last, workers)?;
        leaves::fit(data, leaf_rows, ridge.leaf_kernel.as_ref(), &fit.head, &reduced_fit, lambda)
    });
    let leaf_passes = 2 * u64::from(leaf_fit.is_some());
    let LeafFit { leaves, leaf_kernel, mut figures, train_mse } = leaf_fit.transpose()?.unwrap_or_default();
    figures.insert(0, NamedValues::single(EFFECTIVE_DIMENSION, effective_dimension));
    // with leaves, the training error is known only if the leaves cover all rows
    let final_train_score = match &leaves {
        Some(_) => train_mse.map(|mse| train_score(&gram, &mse)),
        None => Some(train_score(&gram, &fit.train_mse)),
    };
    surface.warnings.iter().for_each(|warning| stage_observer.warn(warning.clone()));
    let passes = 1 + scoring_passes + u64::from(loo_mse.is_some()) + u64::from(slopes.is_some()) + leaf_passes;
    Ok(Solution {
        quadratic,
        surface,
        loo_mse,
        fold_functions,
        slopes,
        leaves,
        leaf_kernel,
        figures,
        passes,
        train_score: final_train_score,
        ..solution_of(fit, lambda)
    })
}

/// Returns the mean squared error, averaged over the targets, and R², from the mean squared error
/// of each target.
fn train_score(gram: &GramState, mse: &[f64]) -> (f64, Option<f64>) {
    let n = gram.weight_sum();
    let variance: f64 = (0..mse.len())
        .map(|j| {
            let (sum, squares) = gram.folds().iter().fold((0.0, 0.0), |(s, q), fold| (s + fold.sy[j], q + fold.yy[j]));
            (squares / n - (sum / n) * (sum / n)).max(0.0)
        })
        .sum();
    mse_and_r2(mse.iter().sum(), variance, mse.len())
}

struct DirectFit<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
}

impl<T: Real> DirectFit<'_, T> {
    fn grid_ranks(&self) -> Vec<usize> {
        let (largest_rank, options) = (self.data.map.dims().1, self.data.options);
        if !options.map.family().is_nested {
            return vec![largest_rank];
        }
        let mut ranks: Vec<usize> = options.ranks.iter().map(|rank| *rank.min(&largest_rank)).collect();
        ranks.dedup();
        ranks
    }

    /// Returns the surface of cross-validated errors, and the number of additional passes: one to
    /// count the misclassified validation rows, if there are classes and folds.
    fn surface(&self, gram: &GramState, grid: &RidgeGrid) -> Result<(Surface, u64)> {
        let workers = self.data.resources.workers;
        let stage = self.data.resources.stage_observer.start_stage("surface", None);
        let mut surface = Surface::compute(gram, grid, workers, &*stage)?;
        if surface.fold_count < 2 || !matches!(self.data.targets, Targets::Classes(_)) {
            return Ok((surface, 0));
        }
        let is_solved = |cell: &&crate::SurfaceCell| cell.cv_mse.is_some();
        let cells: Vec<(usize, f64)> = match self.ridge.criterion {
            Criterion::Mse => surface.best_per_rank().iter().map(|cell| (cell.rank, cell.lambda)).collect(),
            Criterion::Error => surface.cells.iter().filter(is_solved).map(|cell| (cell.rank, cell.lambda)).collect(),
        };
        if cells.is_empty() {
            return Ok((surface, 0));
        }
        let coefficients = FoldCoefficients::compute(gram, &cells, grid, workers, &*stage)?;
        drop(stage);
        let FitData { map, folds, targets, pass_shape, .. } = *self.data;
        let reduction = FeatureReduction::with_bin_reduction(map, folds, targets, CvErrorReduction(&coefficients))
            .with_bin_rows(pass_shape.tile_rows);
        let cv_errors = self.data.reduce("held-out classes", &reduction)?;
        for (cell_index, (rank, lambda)) in cells.iter().enumerate() {
            let counted = CvErrorReduction(&coefficients);
            if let Some(error) = counted.error_rate(&cv_errors, cell_index) {
                surface.set_cv_error(*rank, *lambda, error, &counted.fold_error_rates(&cv_errors, cell_index));
            }
        }
        Ok((surface, 1))
    }

    /// Returns the fits without each fold, for prediction intervals.
    fn fold_functions(&self, gram: &GramState, grid: &RidgeGrid, rank: usize, lambda: f64) -> Result<FoldFunctions> {
        let stage = self.data.resources.stage_observer.start_stage("fits without a fold", None);
        let workers = self.data.resources.workers;
        let FoldCoefficients { heads, .. } =
            FoldCoefficients::compute(gram, &[(rank, lambda)], grid, workers, &*stage)?;
        let solved_folds =
            heads.into_iter().enumerate().filter_map(|(fold, heads)| Some((fold, heads.into_iter().next()??)));
        let (folds, heads): (Vec<usize>, Vec<LinearHead>) = solved_folds.unzip();
        if heads.is_empty() {
            let why = "no fold has both training rows and held-out rows; choose other folds".to_string();
            return Err(Error::UnsuitableFolds { folds: self.data.options.folds.to_string(), why });
        }
        Ok(FoldFunctions { heads, folds })
    }

    /// Computes the leave-one-out mean squared error: one pass.
    fn leave_one_out(&self, gram: &GramState, grid: &RidgeGrid, rank: usize, lambda: f64) -> Result<f64> {
        let FitData { map, folds, targets, pass_shape, .. } = *self.data;
        let loo = LooReduction::new(gram, rank, lambda, grid, self.data.resources.workers)?;
        let reduction =
            FeatureReduction::with_bin_reduction(map, folds, targets, &loo).with_bin_rows(pass_shape.tile_rows);
        Ok(self.data.reduce("leave-one-out", &reduction)?.mse())
    }

    fn select_cell(&self, surface: &Surface, grid: &RidgeGrid, gram: &GramState) -> Result<(usize, f64)> {
        let no_cell_error = || Error::NoCell { precision: gram.precision() };
        if surface.fold_count < 2 {
            let rank = grid.ranks.last().copied().unwrap_or(self.data.map.dims().1);
            return grid.lambdas.last().map(|lambda| (rank, *lambda)).ok_or_else(no_cell_error);
        }
        let best = match self.ridge.criterion {
            Criterion::Mse => surface.best(),
            Criterion::Error => surface.best_by_error().or_else(|| surface.best()),
        };
        best.map(|cell| (cell.rank, cell.lambda)).ok_or_else(no_cell_error)
    }
}
