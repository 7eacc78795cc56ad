//! The memory plan of a search.

use super::series::BLOCKS;
use super::{Score, TuneOptions};
use crate::metric::{self, MetricSource};
use crate::train::plan::{Cut, RANK, cut, solve};
use crate::train::{Resources, TrainOptions, prepare};
use crate::{Result, RidgeOptions};
use kapprox::Real;
use kstore::{Plan, Selected};

/// The cut of passes over the largest sample, and the bytes of the largest stage; an error where it does not fit.
pub(super) fn plan<T: Real>(
    selected: &Selected,
    options: &TuneOptions,
    resources: &Resources<'_>,
) -> Result<(Cut, usize)> {
    let (t, folds) = prepare::known(selected, &options.training, resources)?;
    let folds = if options.blocks { folds.max(BLOCKS) } else { folds };
    let folds = if options.score == Score::Cv { folds } else { 1 };
    let training = TrainOptions { candidates: Some(options.sample), ..options.training.clone() };
    let mut shape = prepare::shape::<T>(selected, &training, resources, t, folds)?;
    // every row of the sample is a candidate, and they are in memory anyway
    shape.candidates = None;
    let rows = usize::try_from(shape.n).unwrap_or(usize::MAX).min(options.sample);
    let ridge = RidgeOptions {
        ranks: training.ranks.clone(),
        lambdas: options.lambdas.clone(),
        intercept: options.intercept,
        target_centre: vec![0.0; t],
    };
    shape.n = rows as u64;
    let last = |cut: Cut| {
        solve(&shape, cut, resources.memory).term("system and its factor", ridge.solve_bytes(shape.map.p), RANK)
    };
    let (cut, mut plans) = cut::<T>(&shape, &last, resources.memory);
    if let MetricSource::Learned(_) = training.metric {
        plans.push(metric::planned::<T>(&training, &shape, resources.memory)?);
    }
    // the sample with the rows kept apart; without them by keys, in the order of its rows, and that of a rung; as a table of a trial
    let bytes = rows.saturating_mul(5 * (shape.d * shape.element + 40) + 40 * (t + 1));
    let plans: Vec<Plan> = plans.into_iter().map(|plan| plan.term("sampled rows", bytes, "lower `sample`")).collect();
    Ok((cut, prepare::check(plans)?))
}
