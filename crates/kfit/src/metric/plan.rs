//! Memory plan and settings of metric learning.

use super::likelihood;
use crate::prepare::plan::{plans, solve};
use crate::request::{
    FitRequest, LandmarkSource, MetricSource, PassShape, ProblemSize, Stage, TrainOptions, tile_rows,
};
use crate::solver::outer_products::{OuterProducts, Products};
use crate::{FoldSpec, Folds, Intercept, Result, RidgeOptions};
use kapprox::Real;
use kapprox::map::{MapRequest, MapSpec};
use kstore::Plan;

/// Number of landmarks of the fits, for any rank of the model; gradients need fewer landmarks than
/// predictions.
pub const RANK: usize = 512;

/// Number of landmarks with which a search relearns the metrics of its best kernels; gradients of a
/// better fit give a better metric. Rounds that started from the metric of fewer landmarks ended
/// with an error 25 % larger on pol, and 1 % larger on elevators.
pub const REFINED: usize = 2_000;

/// Regularisation parameters of the fits, ascending.
pub(super) const LAMBDAS: [f64; 7] = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3];

/// Number of folds if the main fit has none.
const FOLDS: usize = 5;

/// Maximum number of sampled rows for the rounds, twenty times the landmarks; metrics from more
/// rows were no better.
const SAMPLED: usize = 10_000;

/// Maximum number of values in the sample, which therefore has fewer rows if there are more than
/// 400 inputs.
const NUMBERS: usize = 4_000_000;

/// Numbers of rows and landmarks of the fits that compare length scales.
const LENGTH_ROWS: usize = 1_000;
const LENGTH_RANK: usize = 200;

/// Returns the settings of the linear systems of the fits, at one rank, for centred targets.
pub(super) fn ridge(rank: usize, lambdas: &[f64], target_centre: Vec<f64>) -> RidgeOptions {
    RidgeOptions { ranks: vec![rank], lambdas: lambdas.to_vec(), intercept: Intercept::default(), target_centre }
}

/// Returns the options of the fits. At these ranks uniform landmarks predict as well as selected
/// ones, and cost nothing.
pub(super) fn options(options: &TrainOptions, rank: usize) -> TrainOptions {
    let folds = match &options.folds {
        FoldSpec::None => FoldSpec::Hash(FOLDS),
        folds => folds.clone(),
    };
    TrainOptions {
        map: MapSpec::default(),
        landmarks: LandmarkSource::Scheme("uniform".to_string()),
        candidates: None,
        rank,
        tolerance: None,
        ranks: vec![rank],
        folds,
        metric: MetricSource::None,
        ..options.clone()
    }
}

/// Returns the folds of the fits on n rows, if the main fit has none.
pub fn folds(seed: u64, n: u64) -> Result<Folds> {
    Folds::new(&FoldSpec::Hash(FOLDS), seed, 0..n, &[])
}

/// Returns the pass shape of the fits, which does not depend on the options: one lane, with all
/// threads inside the products.
pub(super) fn cut_of<T: Real>(d: usize) -> PassShape {
    let tile = tile_rows(d, RANK, size_of::<T>());
    PassShape { tile, segment: (16 * tile) as u64, scan_lanes: 1, gram_lanes: 1, prefetch: 1 }
}

#[doc(hidden)]
pub fn stage<T: Real>(work: &FitRequest<'_>) -> Result<Option<Stage>> {
    let MetricSource::Learned(_) = work.options.metric else { return Ok(None) };
    let plan = plan::<T>(&work.options, RANK, &work.shape, work.resources.memory)?;
    let held = sampled(work.shape.n, work.shape.columns);
    Ok(Some(Stage { plan, passes: if held as u64 == work.shape.n { 2 } else { 7 } }))
}

#[doc(hidden)]
pub fn plan<T: Real>(training: &TrainOptions, rank: usize, outer: &ProblemSize, budget: usize) -> Result<Plan> {
    let ProblemSize { n, columns: d, t, element, threads, .. } = *outer;
    let folds = outer.folds.max(FOLDS);
    let shape = ProblemSize { folds, d, ..fits_of(&options(training, rank), outer, n)? };
    let fewer = "read fewer columns (`features`), or give `metric` none";
    let held = sampled(n, d);
    Ok(largest("metric", &shape, cut_of::<T>(d), budget)
        .term("sampled rows", held.saturating_mul(3 * (d * element + 40) + 16 * (t + 1)), fewer)
        .term("gradients", OuterProducts::scratch_bytes(shape.map.p, d, threads), fewer)
        .term("products of gradients", 8 * Products::bytes(d), fewer)
        .term("marginal likelihood", likelihood::bytes(held, d, t), fewer))
}

fn fits_of(inner: &TrainOptions, outer: &ProblemSize, n: u64) -> Result<ProblemSize> {
    let (ProblemSize { d, element, t, .. }, rows) = (outer.clone(), usize::try_from(n).unwrap_or(usize::MAX));
    let map = inner.map.shape(MapRequest { d, rank: inner.rank, rows, element })?;
    let sizes = ProblemSize { n, moment_columns: t, map, folds: 1, classes: 1, ranks: 1, ..outer.clone() };
    Ok(ProblemSize { candidates: None, scheme: 0, keeps: false, ..sizes })
}

/// Returns the plan of the largest stage of fits of these sizes.
fn largest(what: &str, shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let ridge = ridge(shape.map.p, &LAMBDAS, vec![0.0; shape.t]);
    let systems = format!("systems of the {what}");
    let last = |cut: PassShape| solve(shape, cut, budget).term(&systems, ridge.solve_bytes(shape.map.p), "");
    let most = plans(shape, &last, cut, budget).into_iter().max_by_key(Plan::bytes);
    Plan { what: what.to_string(), ..most.unwrap_or_else(|| last(cut)) }
}

/// Returns the stage that determines the length scale; `None` if the kernel needs no search.
pub fn length_stage(work: &FitRequest<'_>, cut: PassShape) -> Result<Option<Stage>> {
    let (options, outer) = (&*work.options, &work.shape);
    if !options.finds_length() {
        return Ok(None);
    }
    // the size of the sample is random; ten standard deviations above its mean do not occur
    let held = length_rows(outer.n, outer.d);
    let held = held + 10 * held.isqrt();
    let shape = fits_of(&length_options(options, held), outer, held as u64)?;
    let row = 3 * (outer.d * outer.element + 40) + 16 * (outer.t + 1);
    let plan = largest("length scale", &shape, PassShape { gram_lanes: 1, ..cut }, work.resources.memory).term(
        "sampled rows",
        held.saturating_mul(row),
        "give the length scale of the `kernel`, such as gaussian(sigma=2)",
    );
    Ok(Some(Stage { plan, passes: 1 }))
}

/// Returns the options of the fits that compare length scales on this many rows.
pub(super) fn length_options(training: &TrainOptions, rows: usize) -> TrainOptions {
    let rank = training.rank.min(LENGTH_RANK).min(rows.div_ceil(2));
    TrainOptions { rank, ranks: vec![rank], folds: FoldSpec::None, ..options(training, RANK) }
}

pub(super) fn length_rows(n: u64, d: usize) -> usize {
    sampled(n, d).min(LENGTH_ROWS)
}

#[doc(hidden)]
pub fn sampled(n: u64, d: usize) -> usize {
    let most = SAMPLED.min(NUMBERS / d.max(1)).max(1);
    usize::try_from(n).unwrap_or(usize::MAX).min(most)
}
