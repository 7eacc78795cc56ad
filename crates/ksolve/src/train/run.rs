//! The run of every solver: one list of stages, one sequence of passes.

use super::forecast;
use super::options::{Resources, TrainOptions};
use super::plan::{self, Cut, Shape};
use super::prepare::{self, Prepared};
use super::stage::{Stage, View, Work, plans};
use super::trained::{Trained, needs_wide_for};
use crate::metric;
use crate::model::{Basis, Form, SecondView};
use crate::solver::{FeatureTier, Fitted, Solver};
use crate::{Certificate, Error, FoldSpec, Head, Result};
use faer::Mat;
use kapprox::Real;
use kstore::{Plan, Selected};
use std::borrow::Cow;

/// The folds are those of solvers that hold rows out; for others there are none.
pub(super) fn own_folds<'a, T: Real>(options: &'a TrainOptions, solver: &dyn Solver<T>) -> Cow<'a, TrainOptions> {
    match solver.holds_out() || options.folds == FoldSpec::None {
        true => Cow::Borrowed(options),
        false => Cow::Owned(TrainOptions { folds: FoldSpec::None, ..options.clone() }),
    }
}

/// The stages of a run: those of the solver, and behind the statistics the learning of a metric, where one is learned.
pub(super) fn all_stages<T: Real>(solver: &dyn Solver<T>, view: View, work: &Work<'_>) -> Result<(Cut, Vec<Stage>)> {
    let (cut, mut stages) = solver.stages(view, work)?;
    let metric = metric::stage::<T>(work)?;
    stages.splice(1..1, metric);
    Ok((cut, stages))
}

/// What the solver's last stage holds, and where its features are kept.
pub(super) fn last(
    shape: &Shape,
    add: &dyn Fn(Plan, Cut) -> Plan,
    cut: Cut,
    resources: &Resources<'_>,
) -> (FeatureTier, Plan) {
    match shape.keeps {
        true => FeatureTier::choose(add(plan::features("solve", shape, cut, resources.memory), cut), shape, resources),
        false => (FeatureTier::Recomputed, add(plan::solve(shape, cut, resources.memory), cut)),
    }
}

/// Learns with a solver.
///
/// *Passes*: over the labels alone, where there are some; statistics; candidates where landmarks are chosen among some, or one for each round of a scheme that selects among all
/// rows; those of the solver. *Bytes*: those of [`super::forecast()`].
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass where the plan does not fit; bad rows with their place; fewer than two
/// rows or classes; a kernel that is zero or not finite; those of the solver.
pub fn train<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    options.check()?;
    let options = &*own_folds(options, solver);
    let work = |known| Work::new::<T>(selected, options, resources, known, solver);
    // what contradicts itself is refused before a row is read
    solver.check(&work((1, 1))?)?;
    let planned = work(prepare::known(selected, options, resources)?)?;
    let view = solver.view(&planned)?;
    let (cut, stages) = all_stages(solver, view, &planned)?;
    forecast::announce(selected, solver, view, &planned)?;
    let mut prepared = prepare::prepare::<T>(selected, &planned.options, view, resources, (cut, plans(stages)))?;
    let work = work((prepared.targets.count(), prepared.folds.count()))?;
    let add = |plan, cut| solver.plan(plan, &work.shape, cut);
    let (keep, plan) = match view {
        View::Rows => (FeatureTier::Recomputed, largest(plans(all_stages(solver, view, &work)?.1), resources.memory)),
        View::Features | View::Landmarks => last(&work.shape, &add, prepared.cut, resources),
    };
    if solver.keeps() && view == View::Features {
        keep.warning(&work.shape).into_iter().for_each(|text| resources.stages.warn(text));
    }
    let fit = |prepared: &Prepared<T>| {
        let points = prepared.points(&work.shape);
        let fitted = solver.fit(&prepared.features(keep, &plan, points.as_ref(), resources))?;
        let certificates = certified(view, &fitted)?;
        Ok((fitted, certificates))
    };
    let (asked, mut again) = (prepared.mapped.map.dims().1, 0);
    let (mut fitted, certificates) = loop {
        match fit(&prepared) {
            // rounding makes the features exceed the kernel: once more, more accurately
            Err(Error::Overshoot { .. }) if prepared.mapped.map.widen() => again += 1,
            found => break found?,
        }
    };
    let kept = prepared.mapped.map.dims().1;
    if kept < asked {
        let why = "the features beyond are mostly rounding";
        resources.stages.warn(format!("rank reduced from {asked} to {kept}: {why}"));
    }
    fitted.passes += prepared.passes() + again;
    assemble(prepared, view, fitted, certificates, resources)
}

/// The plan that holds most.
fn largest(plans: Vec<Plan>, budget: usize) -> Plan {
    plans.into_iter().max_by_key(Plan::bytes).unwrap_or_else(|| Plan::new("", budget))
}

/// The certificates of the ranks that are of interest.
fn certified<T>(view: View, fitted: &Fitted<T>) -> Result<Vec<(usize, Certificate)>> {
    let rank = fitted.weights.nrows();
    match (view, &fitted.certificate) {
        // nothing is approximated
        (View::Rows, _) => Ok(vec![(rank, Certificate { trace_error: 0.0, overshoot: 0.0, floor: 0.0 })]),
        (_, None) => Ok(Vec::new()),
        (_, Some(state)) => {
            let ranks = if fitted.ranks.is_empty() { &[rank][..] } else { &fitted.ranks };
            ranks.iter().map(|rank| Ok((*rank, state.sound(*rank)?))).collect()
        }
    }
}

/// Functions of the rows from functions of the features.
fn assemble<T: Real>(
    prepared: Prepared<T>,
    view: View,
    fitted: Fitted<T>,
    certificates: Vec<(usize, Certificate)>,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    let Prepared { survey, mapped, planned_bytes, .. } = &prepared;
    let (map, rank) = (&*mapped.map, fitted.weights.nrows());
    // a projection is learned from all features of the map, and keeps none of them
    let rank = if fitted.projection.is_some() { map.dims().1 } else { rank };
    let certificate = certificates.iter().find(|(at, _)| *at == rank).map(|(_, certificate)| *certificate);
    let (basis, coefficients, wide) = match fitted.basis {
        Some(basis) => (basis, fitted.weights, fitted.wide),
        None => {
            let expansion = map.expand(fitted.weights.as_ref(), resources.workers);
            let wide = expansion.is_wide();
            let (basis, coefficients) = Basis::of(expansion, map);
            (basis, coefficients, wide)
        }
    };
    let on_landmarks = matches!(basis, Basis::Landmarks { .. });
    let errors = fitted.train.map_or(Vec::new(), |(mse, _)| vec![mse.sqrt(); coefficients.ncols()]);
    let wide = wide || on_landmarks && needs_wide_for::<T>(coefficients.as_ref(), &errors);
    let components = fitted.components.map(|Head { weights, intercept }| {
        let (_, weights) = Basis::of(map.expand(weights.as_ref(), resources.workers), map);
        Head { weights, intercept }
    });
    let form = match fitted.form {
        // the degree is a function of the features too
        Form::OverDegree { coefficients, floor } => {
            let weights = Mat::from_fn(coefficients.len(), 1, |i, _| coefficients[i]);
            let (_, weights) = Basis::of(map.expand(weights.as_ref(), resources.workers), map);
            Form::OverDegree { coefficients: weights.col_as_slice(0).to_vec(), floor }
        }
        form => form,
    };
    Ok(Trained {
        components,
        form,
        rows: survey.rows(),
        scaler: survey.scaler.clone(),
        classes: survey.classes.clone().filter(|_| fitted.task.is_none()),
        task: fitted.task,
        kernel: mapped.kernel.clone(),
        with: mapped
            .with
            .as_ref()
            .map(|with| SecondView { kernel: with.kernel.to_string(), functions: with.functions }),
        largest_rank: if view == View::Features { map.dims().1 } else { rank },
        spread: prepared.learned.as_ref().and_then(|learned| learned.spread.clone()),
        metric: fitted.projection.as_ref().map(|found| &found.metric).or(prepared.options.metric.known()).cloned(),
        importance: fitted.projection.map(|found| found.importance),
        slopes: fitted.slopes,
        learned: prepared.learned.as_ref().map_or(Vec::new(), |learned| learned.rounds.clone()),
        basis,
        coefficients,
        wide,
        intercept: fitted.intercept,
        rank,
        link: fitted.link,
        pairs: fitted.pairs,
        lambda: fitted.lambda,
        certificate,
        certificates,
        surface: fitted.surface,
        method: fitted.method,
        figures: fitted.figures,
        left_out: fitted.left_out,
        quadratic: fitted.quadratic.map(|q| q.expand(map, certificate.is_some(), resources.workers)),
        train: fitted.train,
        landmarks: mapped.landmarks,
        passes: fitted.passes,
        planned_bytes: *planned_bytes,
    })
}
