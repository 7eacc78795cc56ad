//! The training run of ridge regression from its Gram matrix.

use super::exact;
use super::options::{Choice, LandmarkSource, Resources, TrainOptions, refuse_weights};
use super::pcg;
use super::plan::{Cut, RANK, cut, solve};
use super::prepare::{self, Prepared};
use super::trained::{Trained, explained};
use crate::certificate::{Certificate, CertificateState};
use crate::loo::Loo;
use crate::quadratic::Quadratic;
use crate::solver::FeatureFold;
use crate::surface::{FoldCoefficients, Surface};
use crate::{
    CvErrorFold, Error, Folds, GramState, Head, Result, RidgeFold, RidgeOptions, RidgeState, Targets, model::Basis,
    ridge, variance,
};
use kapprox::{FeatureMap, Real};
use kstore::{Pass, Plan, RowSource, Selected};

/// The memory plan of a run over these rows, stage by stage, and the cut of its passes. Reads no rows.
///
/// # Errors
/// Errors of opening the rows. A plan over the budget is no error here.
pub fn plan<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<(Cut, Vec<Plan>)> {
    let (t, folds) = prepare::assumed(selected, options);
    if options.map.is_exact() {
        return exact::plan::<T>(selected, options, resources, t);
    }
    let direct = plan_for::<T>(selected, options, resources, t, folds)?;
    match pcg::is_taken::<T>(selected, options, resources, &direct.1, t)? {
        true => pcg::plan::<T>(selected, options, resources, t),
        false => Ok(direct),
    }
}

fn plan_for<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    t: usize,
    folds: usize,
) -> Result<(Cut, Vec<Plan>)> {
    let shape = prepare::shape::<T>(selected, options, resources, t, folds)?;
    let ridge = ridge_options(options, options.ranks.clone(), vec![0.0; t]);
    let system = ridge.solve_bytes(shape.map.p);
    let last = |cut: Cut| {
        let plan = solve(&shape, resources.memory).term("system and its factor", system, RANK);
        let plan = match options.system.variance {
            true => plan.term("variances", Quadratic::making_bytes(shape.map.p, shape.map.p), "leave `std` out"),
            false => plan,
        };
        if !options.system.leave_one_out {
            return plan;
        }
        let row = shape.map.p * shape.element + shape.map.footprint.per_row;
        let tile = cut.gram_lanes * (cut.prefetch + 4) * cut.tile * (shape.d * shape.element + 8 * t + row);
        plan.term("features of a tile", tile, RANK).term(
            "leverages",
            Loo::scratch_bytes(shape.map.p, t, shape.threads),
            RANK,
        )
    };
    Ok(cut::<T>(&shape, &last, resources.memory))
}

fn ridge_options(options: &TrainOptions, ranks: Vec<usize>, target_centre: Vec<f64>) -> RidgeOptions {
    RidgeOptions { ranks, lambdas: options.lambdas.clone(), intercept: options.intercept, target_centre }
}

/// Learns ridge regression on a feature map.
///
/// Minimises (1/n) Σ (y_i − c − wᵀφ(x_i))² + lambda‖w‖² at the rank and lambda with the smallest cross-validated error.
///
/// The kernel itself (`exact`) and ranks whose Gram matrix does not fit are solved by conjugate gradient; see
/// [`crate::train::Method`].
///
/// *Passes*: statistics, candidates, Gram matrices; one more for the error of classes; one more per round of a scheme
/// that selects among all rows. *Flops*: n(2dp + 2p²), and p³/3 for each fold and lambda. *Bytes*: [`plan`].
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass where the plan does not fit; bad rows with their place; fewer than two
/// rows or classes; a kernel that is zero or not finite; a system that rounding made indefinite.
pub fn train<T: Real>(selected: &Selected, options: &TrainOptions, resources: &Resources<'_>) -> Result<Trained<T>> {
    options.check()?;
    if options.map.is_exact() {
        return exact::train(selected, options, resources);
    }
    let (t, folds) = prepare::assumed(selected, options);
    let (_, direct) = plan_for::<T>(selected, options, resources, t, folds)?;
    if pcg::is_taken::<T>(selected, options, resources, &direct, t)? {
        return pcg::train(selected, options, resources);
    }
    if matches!(&options.landmarks, LandmarkSource::Scheme(name) if name == "predictive") {
        refuse_weights(selected, "`landmarks` predictive", "take another scheme")?;
    }
    let plan = |t, folds| plan_for::<T>(selected, options, resources, t, folds);
    let prepared = prepare::prepare::<T>(selected, options, resources, &plan)?;
    let Prepared { survey, mapped, folds, targets, cut, .. } = &prepared;
    let (source, cut) = (prepared.source(), *cut);
    let weighted = selected.is_weighted();
    let run = Run { source, targets, folds, map: &*mapped.map, options, cut, resources, weighted };
    let sums = run.gram()?;
    let (ranks, tolerated) = run.ranks(sums.certificate.as_ref());
    let of = |rank: &usize| sums.certificate.as_ref().map(|state| Ok((*rank, state.sound(*rank)?)));
    let certificates: Vec<(usize, Certificate)> = ranks.iter().filter_map(of).collect::<Result<_>>()?;
    let ridge = ridge_options(options, ranks, targets.centre());
    let (surface, passes) = run.surface(&sums.gram, &ridge)?;
    let (rank, lambda) = run.choose(&surface, &ridge, &sums.gram)?;
    let (fit, quadratic) = {
        let _stage = resources.stages.stage("solve", None);
        let (fit, system) = ridge::factored(&sums.gram, rank, lambda, &ridge, resources.workers)?;
        let (map, projection, workers) = (&*mapped.map, sums.certificate.is_some(), resources.workers);
        let of = || {
            variance::of_fit(&system, sums.gram.rows(), &fit, lambda, &ridge, workers).expand(map, projection, workers)
        };
        let quadratic = options.system.variance.then(of);
        (fit, quadratic)
    };
    let left_out = match options.system.leave_one_out {
        true => Some(run.leave_one_out(&sums.gram, &ridge, rank, lambda)?),
        false => None,
    };
    surface.warnings.iter().for_each(|warning| resources.stages.warn(warning.clone()));
    if !tolerated {
        let certificate = sums.certificate.as_ref().map_or(f64::NAN, |c| c.certificate(rank).trace_error);
        resources.stages.warn(format!(
            "the tolerance was not reached: the relative trace error at rank {rank} is {certificate:.3e}; raise `rank`"
        ));
    }
    let train = train_score(&sums.gram, &fit.train_mse);
    let Head { weights, intercept } = fit.head;
    let passes = prepared.passes() + 1 + passes + u64::from(left_out.is_some());
    let certificate = certificates.iter().find(|(at, _)| *at == rank).map(|(_, certificate)| *certificate);
    let expansion = mapped.map.expand(weights.as_ref(), resources.workers);
    let wide = expansion.is_wide();
    let (basis, coefficients) = Basis::of(expansion, &*mapped.map);
    Ok(Trained {
        link: None,
        pairs: false,
        rows: survey.rows(),
        kernel: mapped.kernel.clone(),
        basis,
        coefficients,
        wide,
        intercept,
        rank,
        lambda: Some(lambda),
        certificate,
        certificates,
        surface,
        method: None,
        figures: Vec::new(),
        left_out,
        quadratic,
        train: Some(train),
        largest_rank: mapped.map.dims().1,
        landmarks: mapped.landmarks,
        passes,
        planned_bytes: prepared.planned_bytes,
        scaler: survey.scaler.clone(),
        classes: survey.classes.clone(),
    })
}

/// Mean squared error over targets, and the share of their variance that is explained.
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

/// The arguments that the passes of a run share.
struct Run<'a, T: Real> {
    source: &'a dyn RowSource<T>,
    targets: &'a Targets,
    folds: &'a Folds,
    map: &'a dyn FeatureMap<T>,
    options: &'a TrainOptions,
    cut: Cut,
    resources: &'a Resources<'a>,
    /// True where rows have weights.
    weighted: bool,
}

impl<T: Real> Run<'_, T> {
    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.cut.pass(self.cut.gram_lanes, self.resources, observer)
    }

    /// Position of the weight among a row's targets, behind the numeric ones; `None` without weights.
    fn weight(&self) -> Option<usize> {
        let targets = match self.targets {
            Targets::Numeric { centre } => centre.len(),
            Targets::Classes(_) => 0,
        };
        self.weighted.then_some(targets)
    }

    fn stored(&self) -> Option<u64> {
        let range = self.source.range();
        Some(range.end - range.start)
    }

    /// The pass that fills the Gram matrices.
    fn gram(&self) -> Result<RidgeState> {
        let fold = RidgeFold::new(self.map, self.folds, self.targets).with_bin(self.cut.tile).weighted(self.weight());
        let observer = self.resources.stages.stage("Gram matrix", self.stored());
        Ok(self.pass(&*observer).resume("Gram matrix", self.source, &fold)?.0)
    }

    /// The ranks of the surface that the map has; under a tolerance the one it chooses, and whether it was reached.
    fn ranks(&self, certificate: Option<&CertificateState>) -> (Vec<usize>, bool) {
        let largest = self.map.dims().1;
        if let Some(tolerance) = self.options.tolerance {
            let found = certificate.and_then(|state| state.rank_within(tolerance));
            return (vec![found.unwrap_or(largest)], found.is_some());
        }
        if !self.options.map.family().nested {
            return (vec![largest], true);
        }
        let mut ranks: Vec<usize> = self.options.ranks.iter().map(|rank| *rank.min(&largest)).collect();
        ranks.dedup();
        (ranks, true)
    }

    /// Computes the cross-validated errors, and returns the number of passes they took.
    fn surface(&self, gram: &GramState, ridge: &RidgeOptions) -> Result<(Surface, u64)> {
        let stage = self.resources.stages.stage("surface", None);
        let mut surface = Surface::compute(gram, ridge, self.resources.workers)?;
        if surface.folds < 2 || !matches!(self.targets, Targets::Classes(_)) {
            return Ok((surface, 0));
        }
        let scored = |cell: &&crate::Cell| cell.cv_mse.is_some();
        let cells: Vec<(usize, f64)> = match self.options.choice {
            Choice::Mse => surface.best_per_rank().iter().map(|cell| (cell.rank, cell.lambda)).collect(),
            Choice::Error => surface.cells.iter().filter(scored).map(|cell| (cell.rank, cell.lambda)).collect(),
        };
        if cells.is_empty() {
            return Ok((surface, 0));
        }
        let coefficients = FoldCoefficients::compute(gram, &cells, ridge, self.resources.workers)?;
        drop(stage);
        self.score(&mut surface, &coefficients)?;
        Ok((surface, 1))
    }

    /// Measures the share of held-out rows in the wrong class, for every cell that has coefficients: one pass.
    fn score(&self, surface: &mut Surface, coefficients: &FoldCoefficients) -> Result<()> {
        let fold = CvErrorFold::new(self.map, self.folds, self.targets, coefficients).with_bin(self.cut.tile);
        let fold = fold.weighted(self.weight());
        let observer = self.resources.stages.stage("held-out classes", self.stored());
        let wrong = self.pass(&*observer).resume("held-out classes", self.source, &fold)?.0;
        for (cell, (rank, lambda)) in coefficients.cells.iter().enumerate() {
            if let Some(error) = wrong.error(cell) {
                surface.set_error(*rank, *lambda, error);
            }
        }
        Ok(())
    }

    /// The mean squared leave-one-out error: one pass.
    fn leave_one_out(&self, gram: &GramState, ridge: &RidgeOptions, rank: usize, lambda: f64) -> Result<f64> {
        let loo = Loo::new(gram, rank, lambda, ridge, self.resources.workers)?;
        let fold = FeatureFold::new(self.map, self.folds, self.targets, self.cut.tile, &loo);
        let fold = fold.weighted(self.weight());
        let observer = self.resources.stages.stage("leave-one-out", self.stored());
        Ok(self.pass(&*observer).resume("leave-one-out", self.source, &fold)?.0.mse())
    }

    /// The rank and the lambda to fit on all rows.
    fn choose(&self, surface: &Surface, ridge: &RidgeOptions, gram: &GramState) -> Result<(usize, f64)> {
        if surface.folds < 2 {
            let rank = ridge.ranks.last().copied().unwrap_or(self.map.dims().1);
            let lambda = ridge.lambdas.last().copied();
            return lambda.map(|lambda| (rank, lambda)).ok_or(Error::NoCell { precision: gram.precision() });
        }
        let best = match self.options.choice {
            Choice::Mse => surface.best(),
            Choice::Error => surface.best_by_error().or_else(|| surface.best()),
        };
        best.map(|cell| (cell.rank, cell.lambda)).ok_or(Error::NoCell { precision: gram.precision() })
    }
}
