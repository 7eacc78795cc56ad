//! A run of any solver of the registry.

use super::options::{Resources, TrainOptions, refuse_weights};
use super::plan::{self, Cut, Shape, cut};
use super::prepare::{self, Prepared};
use super::trained::Trained;
use crate::model::Basis;
use crate::solver::{Place, Solver};
use crate::{FoldSpec, Result, Surface};
use kapprox::Real;
use kstore::{Plan, Selected};

/// The memory plan of a run of `solver`, and the cut of its passes; see [`super::plan`].
///
/// # Errors
/// Errors of opening the rows.
pub fn plan_solve<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<(Cut, Vec<Plan>)> {
    let options = &own_folds(options, solver);
    let (t, folds) = prepare::assumed(selected, options);
    plan_for(selected, options, solver, resources, t, folds)
}

fn plan_for<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
    t: usize,
    folds: usize,
) -> Result<(Cut, Vec<Plan>)> {
    let shape = shape(selected, options, solver, resources, t, folds)?;
    Ok(cut::<T>(&shape, &|cut| last(&shape, solver, cut, resources).1, resources.memory))
}

fn shape<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
    t: usize,
    folds: usize,
) -> Result<Shape> {
    Ok(Shape { keeps: solver.keeps(), ..prepare::shape::<T>(selected, options, resources, t, folds)? })
}

/// The options of a run: without folds for solvers that hold no rows out.
fn own_folds<T: Real>(options: &TrainOptions, solver: &dyn Solver<T>) -> TrainOptions {
    let folds = if solver.holds_out() { options.folds.clone() } else { FoldSpec::None };
    TrainOptions { folds, ..options.clone() }
}

/// The place where the features are kept, and the memory plan of the solver's stage.
fn last<T: Real>(shape: &Shape, solver: &dyn Solver<T>, cut: Cut, resources: &Resources<'_>) -> (Place, Plan) {
    if solver.keeps() {
        return Place::choose(
            solver.plan(plan::features("solve", shape, cut, resources.memory), shape, cut),
            shape,
            resources,
        );
    }
    (Place::Recomputed, solver.plan(plan::solve(shape, resources.memory), shape, cut))
}

/// Learns with a solver on a feature map: no surface; folds where the solver chooses by them.
///
/// *Passes*: statistics, candidates where landmarks are chosen among some, and those of the solver.
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass where the plan does not fit; bad rows with their place; errors
/// of the map and of the solver.
pub fn solve<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    refuse_weights(selected, "the solver", "only ridge does")?;
    let options = &own_folds(options, solver);
    let plan = |t, folds| plan_for(selected, options, solver, resources, t, folds);
    let prepared = prepare::prepare::<T>(selected, options, resources, &plan)?;
    let Prepared { survey, folds, mapped, cut, .. } = &prepared;
    let shape = shape(selected, options, solver, resources, survey.targets(), folds.count())?;
    let (keep, plan) = last(&shape, solver, *cut, resources);
    if solver.keeps() {
        keep.warning(&shape).into_iter().for_each(|text| resources.stages.warn(text));
    }
    let features = prepared.features(keep, &plan, resources, options.seed);
    let mut fitted = solver.fit(&features)?;
    let quadratic = fitted.quadratic.take();
    let rank = fitted.weights.nrows();
    let expansion = mapped.map.expand(fitted.weights.as_ref(), resources.workers);
    let wide = expansion.is_wide();
    let (basis, coefficients) = Basis::of(expansion, &*mapped.map);
    let certificate = fitted.certificate.as_ref().map(|state| state.sound(rank)).transpose()?;
    Ok(Trained {
        rows: survey.rows(),
        scaler: survey.scaler.clone(),
        classes: survey.classes.clone(),
        kernel: mapped.kernel.clone(),
        basis,
        coefficients,
        wide,
        intercept: fitted.intercept,
        rank,
        link: fitted.link,
        pairs: fitted.pairs,
        lambda: fitted.lambda,
        certificate,
        certificates: certificate.map(|certificate| (rank, certificate)).into_iter().collect(),
        surface: Surface::default(),
        method: None,
        figures: fitted.figures,
        left_out: None,
        quadratic: quadratic.map(|q| q.expand(&*mapped.map, certificate.is_some(), resources.workers)),
        train: None,
        largest_rank: mapped.map.dims().1,
        landmarks: mapped.landmarks,
        passes: prepared.passes() + fitted.passes,
        planned_bytes: prepared.planned_bytes,
    })
}
