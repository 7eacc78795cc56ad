//! The run of any solver: one list of stages, one sequence of passes.

use super::forecast::{self, all_stages, own_folds};
use super::trained::{Parts, Trained};
use crate::request::{FitRequest, Resources, RowAccess, TrainOptions, plans};
use crate::solver::{Found, Solver};
use crate::train::prepared::{self, Prepared};
use crate::{Certificate, Error, Result, features::FeatureTier, prepare::plan::last};
use kapprox::Real;
use kstore::{Plan, Selected};

/// Learns with a solver.
///
/// *Passes*: one over the labels alone, if there are any; statistics; candidates, or one pass per
/// round of a landmark scheme on all rows; the solver's passes. *Bytes*: as planned by
/// [`super::forecast()`].
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the budget; invalid rows
/// with their position; fewer than two rows or classes; a kernel that is zero or not finite; errors
/// of the solver.
pub fn train<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    options.check()?;
    let own = &*own_folds(options, solver)?;
    let work = |known| FitRequest::new::<T>(selected, own, resources, known, solver);
    // reject contradictory options before reading a row
    let unread = work((1, 1))?;
    if !solver.facts().weights {
        unread.refuse_weights("the solver", "ridge, svm, svr, logistic, oneclass, kmeans and kpca do")?;
    }
    solver.check(&unread)?;
    let planned = work(prepared::known(selected, own, resources)?)?;
    let view = solver.view(&planned)?;
    let (cut, stages) = all_stages(solver, view, &planned)?;
    forecast::announce(selected, solver, view, &planned)?;
    let mut prepared = prepared::prepare::<T>(selected, &planned.options, view, resources, (cut, plans(stages)))?;
    prepared.hold_out(solver.facts(), resources);
    let work = work((prepared.targets.count(), prepared.folds.count()))?;
    let add = |plan, cut| solver.plan(plan, &work.shape, cut);
    let (keep, plan) = match view {
        RowAccess::Rows => {
            (FeatureTier::Recomputed, largest(plans(all_stages(solver, view, &work)?.1), resources.memory))
        }
        RowAccess::Features | RowAccess::Landmarks => last(&work.shape, &add, prepared.cut, resources),
    };
    if solver.facts().keeps && view == RowAccess::Features {
        keep.warning(&work.shape).into_iter().for_each(|text| resources.stages.warn(text));
    }
    let fit = |prepared: &Prepared<T>| {
        let fitted = solver.fit(&prepared.features(keep, &plan, prepared.points(&work.shape), resources))?;
        let certificates = certified(view, &fitted)?;
        Ok((fitted, certificates))
    };
    let (asked, mut again) = (prepared.mapped.map.dims().1, 0);
    let (mut fitted, certificates) = loop {
        match fit(&prepared) {
            // because of rounding the features exceed the kernel: repeat with a more accurate map
            Err(Error::Overshoot { .. }) if prepared.mapped.map.widen() => again += 1,
            found => break found?,
        }
    };
    let kept = prepared.mapped.map.dims().1;
    if kept < asked {
        let why = "more would add only rounding errors";
        resources.stages.warn(format!("rank reduced from {asked} to {kept}: {why}"));
    }
    fitted.passes += prepared.passes() + again;
    Ok(Parts { selected, options, prepared: &prepared, view, fitted, certificates }.assemble(resources.workers))
}

fn largest(plans: Vec<Plan>, budget: usize) -> Plan {
    plans.into_iter().max_by_key(Plan::bytes).unwrap_or_else(|| Plan::new("", budget))
}

fn certified<T>(view: RowAccess, fitted: &Found<T>) -> Result<Vec<(usize, Certificate)>> {
    let rank = fitted.weights.nrows();
    match (view, &fitted.certificate) {
        // an exact kernel is not approximated
        (RowAccess::Rows, _) => Ok(vec![(rank, Certificate { trace_error: 0.0, overshoot: 0.0, floor: 0.0 })]),
        (_, None) => Ok(Vec::new()),
        (_, Some(state)) => {
            let ranks = if fitted.ranks.is_empty() { &[rank][..] } else { &fitted.ranks };
            ranks.iter().map(|rank| Ok((*rank, state.sound(*rank)?))).collect()
        }
    }
}
