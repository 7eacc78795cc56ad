//! Ridge regression from Gram matrices: one pass computes the whole rank x lambda x fold surface,
//! and the certificate of every rank.
//!
//! *Flops*: n(2dp + 2p²), and p³/3 for each fold and lambda. *Bytes*: the Gram matrix of each fold,
//! and one system.

use super::leaves::{self, Local};
use super::{Criterion, Ridge, loo::Loo, variance};
use crate::prepare::plan::RANK;
use crate::quadratic::Quadratic;
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::mistakes::Mistakes;
use crate::solver::normal_equations::{self, FoldCoefficients, RidgeFit, RidgeOptions, Surface, system::System};
use crate::solver::{Figure, Found, explained, gradients};
use crate::{Error, FeatureFold, GramState, Head, Result, RidgeState, Targets, features::FitData};
use kapprox::Real;
use kstore::Plan;

/// Rejects row weights if the landmark scheme learns from the targets.
pub(super) fn check(work: &FitRequest<'_>) -> Result<()> {
    match work.options.landmarks.scheme() {
        Some(scheme) if scheme.needs_targets => {
            work.refuse_weights(&format!("`landmarks` {}", scheme.name), "choose another scheme")
        }
        _ => Ok(()),
    }
}

/// Adds the memory of the system and of the requested options to a plan.
pub(super) fn plan(ridge: &Ridge, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
    let (p, t) = (shape.map.p, shape.t);
    let plan = plan
        .term("system and its factor", System::bytes(p, t, shape.ranks, ridge.intercept), RANK)
        .term_if(ridge.is_shortest(), "eigenvectors", 5 * 8 * p * p, RANK)
        .term("columns of an inverse", System::inverse_bytes(p, shape.threads), RANK)
        .term_if(ridge.variance, "variances", Quadratic::making_bytes(p, p), "leave `std` out");
    let plan = if ridge.importance { gradients::plan(plan, shape, cut, t) } else { plan };
    let plan = ridge.local.into_iter().fold(plan, |plan, rows| leaves::plan(plan, rows, shape));
    let row = p * shape.element + shape.map.footprint.per_row;
    let tile = cut.gram_lanes * (cut.prefetch + 4) * cut.tile * (shape.d * shape.element + 8 * t + row);
    plan.term_if(ridge.leave_one_out, "features of a tile", tile, RANK).term_if(
        ridge.leave_one_out,
        "leverages",
        Loo::scratch_bytes(p, t, shape.threads),
        RANK,
    )
}

pub(super) fn fit<T: Real>(ridge: &Ridge, data: &FitData<'_, T>) -> Result<Found<T>> {
    let run = Direct { ridge, data };
    let sums = data.moments_of_folds()?;
    let ranks = run.ranks();
    // reject a map that is not a projection before computing the surface
    sums.certificate.iter().try_for_each(|state| ranks.iter().try_for_each(|rank| state.sound(*rank).map(drop)))?;
    let RidgeState { gram, certificate } = sums;
    let left_out_of = |rank: &usize| certificate.as_ref().map_or(0.0, |state| state.left_out(*rank));
    let outside: Vec<f64> = ranks.iter().map(left_out_of).collect();
    let (lambdas, target_centre) = (ridge.lambdas.clone(), data.targets.centre());
    let options = RidgeOptions { ranks, lambdas, intercept: ridge.intercept, target_centre };
    let (stages, workers) = (data.resources.stages, data.resources.workers);
    let fitted = |RidgeFit { head: Head { weights, intercept }, train_mse, .. }: RidgeFit, lambda: f64| Found {
        weights,
        intercept,
        certificate,
        ranks: options.ranks.clone(),
        lambda: Some(lambda),
        train: Some(train_score(&gram, &train_mse)),
        passes: 1,
        ..Found::default()
    };
    if ridge.is_shortest() {
        let (rank, stage) = (options.ranks.last().copied().unwrap_or_default(), stages.stage("eigenvectors", None));
        let (fit, directions) = normal_equations::shortest(&gram, rank, &options, workers)?;
        drop(stage);
        if directions < rank {
            let left = rank - directions;
            stages.warn(format!(
                "with `lambda` 0, {left} of {rank} directions of the features are dropped: their eigenvalues are below rounding"
            ));
        }
        let figures = vec![Figure::of("directions", directions as f64)];
        return Ok(Found { figures, ..fitted(fit, 0.0) });
    }
    let (surface, scoring) = run.surface(&gram, &options)?;
    let (rank, lambda) = run.choose(&surface, &options, &gram)?;
    let (fit, quadratic) = {
        let _stage = stages.stage("solve", None);
        let (fit, system) = normal_equations::factored(&gram, rank, lambda, &options, workers)?;
        let place = options.ranks.iter().position(|known| *known == rank);
        let typical = place.map_or(0.0, |place| outside[place]);
        let of_fit = || variance::of_fit((&system, gram.rows()), typical, &fit, lambda, &options, workers);
        let quadratic = ridge.variance.then(of_fit);
        (fit, quadratic)
    };
    let left_out = ridge.leave_one_out.then(|| run.leave_one_out(&gram, &options, rank, lambda)).transpose()?;
    let products = || gradients::products(data, gradients::kernel(data)?, fit.head.weights.as_ref());
    let slopes = ridge.importance.then(products).transpose()?.map(|products| gradients::slopes(&products));
    let local = ridge.local.map(|rows| {
        let unseen = leaves::without_fold(&gram, (rank, lambda), &options, workers)?;
        leaves::fit(data, rows, (&fit.head, unseen), lambda)
    });
    let local_passes = 2 * u64::from(local.is_some());
    let Local { leaves, figures, train_mse } = local.transpose()?.unwrap_or_default();
    // leaves that dropped rows have no training error of all rows
    let train = match &leaves {
        Some(_) => train_mse.map(|mse| train_score(&gram, &mse)),
        None => Some(train_score(&gram, &fit.train_mse)),
    };
    surface.warnings.iter().for_each(|warning| stages.warn(warning.clone()));
    let passes = 1 + scoring + u64::from(left_out.is_some()) + u64::from(slopes.is_some()) + local_passes;
    Ok(Found { quadratic, surface, left_out, slopes, leaves, figures, passes, train, ..fitted(fit, lambda) })
}

fn train_score(gram: &GramState, mse: &[f64]) -> (f64, Option<f64>) {
    let n = gram.weight();
    let variance: f64 = (0..mse.len())
        .map(|j| {
            let (sum, squares) = gram.folds().iter().fold((0.0, 0.0), |(s, q), fold| (s + fold.sy[j], q + fold.yy[j]));
            (squares / n - (sum / n) * (sum / n)).max(0.0)
        })
        .sum();
    explained(mse.iter().sum(), variance, mse.len())
}

struct Direct<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
}

impl<T: Real> Direct<'_, T> {
    fn ranks(&self) -> Vec<usize> {
        let (largest, options) = (self.data.map.dims().1, self.data.options);
        if !options.map.family().nested {
            return vec![largest];
        }
        let mut ranks: Vec<usize> = options.ranks.iter().map(|rank| *rank.min(&largest)).collect();
        ranks.dedup();
        ranks
    }

    /// Returns the cross-validated errors, and the number of passes they took.
    fn surface(&self, gram: &GramState, ridge: &RidgeOptions) -> Result<(Surface, u64)> {
        let workers = self.data.resources.workers;
        let stage = self.data.resources.stages.stage("surface", None);
        let mut surface = Surface::compute(gram, ridge, workers, &*stage)?;
        if surface.folds < 2 || !matches!(self.data.targets, Targets::Classes(_)) {
            return Ok((surface, 0));
        }
        let scored = |cell: &&crate::Cell| cell.cv_mse.is_some();
        let cells: Vec<(usize, f64)> = match self.ridge.choice {
            Criterion::Mse => surface.best_per_rank().iter().map(|cell| (cell.rank, cell.lambda)).collect(),
            Criterion::Error => surface.cells.iter().filter(scored).map(|cell| (cell.rank, cell.lambda)).collect(),
        };
        if cells.is_empty() {
            return Ok((surface, 0));
        }
        let coefficients = FoldCoefficients::compute(gram, &cells, ridge, workers, &*stage)?;
        drop(stage);
        // error rates on held-out rows
        let FitData { map, folds, targets, cut, .. } = *self.data;
        let fold = FeatureFold::over(map, folds, targets, Mistakes(&coefficients)).with_bin(cut.tile);
        let wrong = self.data.fold("held-out classes", &fold)?;
        for (cell, (rank, lambda)) in cells.iter().enumerate() {
            if let Some(error) = wrong.error(cell) {
                surface.set_error(*rank, *lambda, error);
            }
        }
        Ok((surface, 1))
    }

    /// Computes the leave-one-out mean squared error: one pass.
    fn leave_one_out(&self, gram: &GramState, ridge: &RidgeOptions, rank: usize, lambda: f64) -> Result<f64> {
        let FitData { map, folds, targets, cut, .. } = *self.data;
        let loo = Loo::new(gram, rank, lambda, ridge, self.data.resources.workers)?;
        let fold = FeatureFold::over(map, folds, targets, &loo).with_bin(cut.tile);
        Ok(self.data.fold("leave-one-out", &fold)?.mse())
    }

    fn choose(&self, surface: &Surface, ridge: &RidgeOptions, gram: &GramState) -> Result<(usize, f64)> {
        let none = || Error::NoCell { precision: gram.precision() };
        if surface.folds < 2 {
            let rank = ridge.ranks.last().copied().unwrap_or(self.data.map.dims().1);
            return ridge.lambdas.last().map(|lambda| (rank, *lambda)).ok_or_else(none);
        }
        let best = match self.ridge.choice {
            Criterion::Mse => surface.best(),
            Criterion::Error => surface.best_by_error().or_else(|| surface.best()),
        };
        best.map(|cell| (cell.rank, cell.lambda)).ok_or_else(none)
    }
}
