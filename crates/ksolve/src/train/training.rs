//! Runs any solver: plans its stages, prepares the rows and the map, and calls the solver.

use super::cluster_profile::cluster_profiles;
use super::column_sample::column_distributions;
use super::forecast::{self, all_stages, resolve_folds};
use super::trained::{ModelAssembly, TrainedModel};
use crate::metric::linear;
use crate::prepare::target_counts;
use crate::request::{FitRequest, Resources, RowAccess, TrainOptions, memory_plans};
use crate::solver::{Solution, Solver};
use crate::train::prepared::{self, PreparedFit};
use crate::{Certificate, Error, Result, features::FeatureTier, prepare::stage_plans::plan_last_stage};
use kapprox::Real;
use kmodel::growth::landmark_residual_sum;
use kstore::{MemoryPlan, SelectedTable};

/// Trains a model with a solver.
///
/// *Passes*: if there are labels, one over the label columns; one for the statistics; one for the
/// candidates or, for a landmark scheme on all rows, one per round; then the passes of the solver.
/// *Bytes*: as planned by [`super::forecast()`].
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the budget. An invalid
/// row (the error names its position); fewer than two rows or classes; a kernel that is zero or not
/// finite; errors of the solver.
pub fn train<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<TrainedModel<T>> {
    options.check()?;
    let selected = &linear::with_unit_factors(selected, options)?;
    let solver_options = &*resolve_folds(options, solver)?;
    let request_for = |t, fold_count| FitRequest::new::<T>(selected, solver_options, resources, t, fold_count, solver);
    // reject contradictory options before reading a row
    let unread_request = request_for(1, 1)?;
    if !solver.properties().accepts_row_weights {
        unread_request
            .reject_weights("the solver", "ridge, svm, svr, quantile, logistic, glm, oneclass, kmeans and kpca do")?;
    }
    solver.check(&unread_request)?;
    let (t, fold_count) = target_counts::count_targets_and_folds(selected, solver_options, resources)?;
    let planned_request = request_for(t, fold_count)?;
    let access = solver.access(&planned_request)?;
    let (pass_shape, stages) = all_stages(selected, solver, access, &planned_request)?;
    forecast::report_forecast(selected, solver, access, &planned_request)?;
    let mut prepared = prepared::prepare::<T>(
        selected,
        &planned_request.options,
        access,
        resources,
        pass_shape,
        memory_plans(stages),
        solver.properties(),
    )?;
    prepared.hold_out_unseen(solver.properties(), resources);
    if resources.stage_observer.wants_landmark_residuals() {
        // the job ends before its pass over the features, whose plan covers this memory
        let sum = landmark_residual_sum(&*prepared.built_map.map, resources.workers);
        sum.into_iter().for_each(|sum| resources.stage_observer.report_landmark_residuals(sum));
    }
    let request = request_for(prepared.targets.count(), prepared.folds.count())?;
    let plan_solver = |plan, pass_shape| solver.plan(plan, &request.size, pass_shape);
    let (tier, plan) = match access {
        RowAccess::Rows => (
            FeatureTier::Recomputed,
            largest_plan(memory_plans(all_stages(selected, solver, access, &request)?.1), resources.memory),
        ),
        RowAccess::Features | RowAccess::Landmarks => {
            plan_last_stage(&request.size, &plan_solver, prepared.pass_shape, resources)
        }
    };
    if solver.properties().stores_features && access == RowAccess::Features {
        tier.warning(&request.size).into_iter().for_each(|text| resources.stage_observer.warn(text));
    }
    let fit = |prepared: &PreparedFit<T>| {
        let solution = solver.fit(&prepared.features(tier, &plan, prepared.points(&request.size), resources))?;
        let certificates = rank_certificates(access, &solution)?;
        Ok((solution, certificates))
    };
    let (requested_rank, mut extra_passes) = (prepared.built_map.map.dims().1, 0);
    let (mut solution, certificates) = loop {
        match fit(&prepared) {
            // because of rounding, the features have a larger norm than the kernel permits: repeat
            // with a more accurate map
            Err(Error::Overshoot { .. }) if prepared.built_map.map.raise_precision() => extra_passes += 1,
            result => break result?,
        }
    };
    let is_exact = |(_, certificate): &(usize, Certificate)| certificate.trace_error <= certificate.floor;
    let is_expected = options.is_default_rank && certificates.last().is_some_and(is_exact);
    let rank_warning = prepared.rank_warning.take().filter(|_| !is_expected);
    rank_warning.into_iter().for_each(|text| resources.stage_observer.warn(text));
    let rank = prepared.built_map.map.dims().1;
    if rank < requested_rank && !is_expected {
        let why = "more would add only rounding errors";
        resources.stage_observer.warn(format!("rank reduced from {requested_rank} to {rank}: {why}"));
    }
    let selected = &prepared.selected;
    let clusters = cluster_profiles(selected, &prepared, &solution, resources)?;
    let distributions = match solver.properties().stores_distributions {
        true => column_distributions(selected, &prepared.survey.statistics, options.seed, pass_shape, resources)?,
        false => Vec::new(),
    };
    solution.passes += prepared.passes()
        + extra_passes
        + u64::from(!clusters.profiles.is_empty())
        + u64::from(!distributions.is_empty());
    Ok(ModelAssembly {
        selected,
        options,
        prepared: &prepared,
        access,
        solution,
        certificates,
        clusters,
        distributions,
    }
    .into_trained_model(resources.workers))
}

fn largest_plan(plans: Vec<MemoryPlan>, budget: usize) -> MemoryPlan {
    plans.into_iter().max_by_key(MemoryPlan::bytes).unwrap_or_else(|| MemoryPlan::new("", budget))
}

fn rank_certificates<T>(access: RowAccess, solution: &Solution<T>) -> Result<Vec<(usize, Certificate)>> {
    let rank = solution.weights.nrows();
    match (access, &solution.certificate) {
        // the exact kernel has no approximation error
        (RowAccess::Rows, _) => Ok(vec![(rank, Certificate { trace_error: 0.0, overshoot: 0.0, floor: 0.0 })]),
        (_, None) => Ok(Vec::new()),
        (_, Some(state)) => {
            let ranks = if solution.certified_ranks.is_empty() { &[rank][..] } else { &solution.certified_ranks };
            ranks.iter().map(|rank| Ok((*rank, state.checked_certificate(*rank)?))).collect()
        }
    }
}
