//! Memory plan and settings of metric learning.

use super::{likelihood, likelihood_bytes};
use crate::prepare::stage_plans::{plan_solve, stage_plans};
use crate::request::{
    FitRequest, LandmarkSource, MetricForm, MetricSource, PassShape, ProblemSize, Stage, TrainOptions, tile_rows,
};
use crate::solver::gradient_products::{OuterProductReduction, OuterProductSums};
use crate::{FoldSpec, Folds, Intercept, Result, RidgeGrid};
use kapprox::map::{MapRequest, MapSpec};
use kapprox::{Kernel, Real};
use kstore::MemoryPlan;

/// Number of landmarks of the fits, whatever the rank of the model. Gradients need fewer landmarks
/// than predictions.
pub(crate) const ROUND_RANK: usize = 512;

/// Number of landmarks with which a search learns the metrics of its best kernels again. The
/// gradients of a more accurate fit give a better metric. When the new rounds started from the
/// metric learned with fewer landmarks, their error was 25 % larger on pol, and 1 % larger on
/// elevators.
pub(crate) const REFINED_RANK: usize = 2_000;

/// Regularisation parameters of the fits, ascending.
pub(super) const LAMBDAS: [f64; 7] = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3];

/// Number of folds if the main fit has no folds.
const DEFAULT_FOLDS: usize = 5;

/// Maximum number of sampled rows for the rounds, about twenty times the number of landmarks.
/// Metrics learned from more rows were no better.
const MAX_SAMPLE_ROWS: usize = 10_000;

/// Maximum number of values in the sample. If there are more than 400 inputs, this limit reduces
/// the number of rows.
const MAX_SAMPLE_VALUES: usize = 4_000_000;

/// Numbers of rows and landmarks of the fits that compare length scales.
const LENGTH_SCALE_ROWS: usize = 1_000;
const LENGTH_SCALE_RANK: usize = 200;

/// Returns the settings of the linear systems of the fits, at one rank, for centred targets.
pub(super) fn ridge_grid(rank: usize, lambdas: &[f64], target_centre: Vec<f64>) -> RidgeGrid {
    RidgeGrid { ranks: vec![rank], lambdas: lambdas.to_vec(), intercept: Intercept::default(), target_centre }
}

/// Returns the options of the fits. At the ranks of these fits, uniform landmarks predict as well
/// as landmarks chosen by a scheme, and their choice costs nothing.
pub(super) fn round_options(options: &TrainOptions, rank: usize) -> TrainOptions {
    let folds = match &options.folds {
        FoldSpec::None => FoldSpec::Random(DEFAULT_FOLDS),
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

/// Returns the folds of the fits on n rows for a main fit that has no folds.
pub(crate) fn default_folds(seed: u64, n: u64) -> Result<Folds> {
    Folds::new(&FoldSpec::Random(DEFAULT_FOLDS), seed, 0..n, &[])
}

/// Returns the pass shape of the fits: one lane, with all threads inside the products. The shape
/// does not depend on the options.
pub(super) fn pass_shape_of<T: Real>(d: usize) -> PassShape {
    let tile = tile_rows(d, ROUND_RANK, size_of::<T>());
    PassShape { tile_rows: tile, segment_rows: (16 * tile) as u64, scan_lanes: 1, gram_lanes: 1, prefetch_tiles: 1 }
}

#[doc(hidden)]
pub(crate) fn learning_stage<T: Real>(request: &FitRequest<'_>) -> Result<Option<Stage>> {
    let MetricSource::Learned(form) = request.options.metric else { return Ok(None) };
    if form == MetricForm::Linear {
        return Ok(None);
    }
    let sample_rows = sample_size(request.size.n, request.size.input_columns);
    if form == MetricForm::Likelihood {
        let plan = likelihood_plan(&request.size, &request.options.kernel, request.resources.memory);
        return Ok(Some(Stage { plan, passes: 2 }));
    }
    let plan = learning_plan::<T>(&request.options, ROUND_RANK, &request.size, request.resources.memory)?;
    // two passes draw the sample; the round over all rows takes five more
    Ok(Some(Stage { plan, passes: if sample_rows as u64 == request.size.n { 2 } else { 7 } }))
}

fn likelihood_plan(size: &ProblemSize, kernel: &Kernel, budget: usize) -> MemoryPlan {
    let ProblemSize { n, input_columns: d, t, element_bytes, threads, .. } = *size;
    let (rows, remedy) = (sample_size(n, d), "read fewer columns (`features`), or give `metric` none");
    MemoryPlan::for_process("likelihood", budget, threads, 0)
        .term("sampled rows", rows.saturating_mul(3 * (d * element_bytes + 40) + 16 * (t + 1)), remedy)
        .term("marginal likelihood", likelihood_bytes(rows, kernel, d, t, threads), remedy)
}

#[doc(hidden)]
pub(crate) fn learning_plan<T: Real>(
    train_options: &TrainOptions,
    rank: usize,
    size: &ProblemSize,
    budget: usize,
) -> Result<MemoryPlan> {
    let ProblemSize { n, input_columns: d, t, element_bytes, threads, .. } = *size;
    let fold_count = size.fold_count.max(DEFAULT_FOLDS);
    let fit_size = ProblemSize { fold_count, d, ..fit_problem_size(&round_options(train_options, rank), size, n)? };
    let remedy = "read fewer columns (`features`), or give `metric` none";
    let sample_rows = sample_size(n, d);
    Ok(largest_plan("metric", &fit_size, pass_shape_of::<T>(d), budget)
        .term("sampled rows", sample_rows.saturating_mul(3 * (d * element_bytes + 40) + 16 * (t + 1)), remedy)
        .term("gradients", OuterProductReduction::scratch_bytes(fit_size.map.p, d, threads), remedy)
        .term("products of gradients", 8 * OuterProductSums::bytes(d), remedy)
        .term("marginal likelihood", likelihood::bytes(sample_rows, d, t), remedy))
}

fn fit_problem_size(options: &TrainOptions, size: &ProblemSize, n: u64) -> Result<ProblemSize> {
    let (ProblemSize { d, element_bytes, t, .. }, row_count) = (size.clone(), usize::try_from(n).unwrap_or(usize::MAX));
    let map = options.map.shape(MapRequest { d, rank: options.rank, candidate_count: row_count, element_bytes })?;
    let fit_size =
        ProblemSize { n, moment_columns: t, map, fold_count: 1, moment_class_count: 1, rank_count: 1, ..size.clone() };
    Ok(ProblemSize { candidate_count: None, scheme_bytes: 0, stores_features: false, ..fit_size })
}

/// Returns the plan with the most memory among the stages of a fit of these sizes.
fn largest_plan(stage_name: &str, fit_size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let ridge_grid = ridge_grid(fit_size.map.p, &LAMBDAS, vec![0.0; fit_size.t]);
    let systems = format!("systems of the {stage_name}");
    let last_plan = |pass_shape: PassShape| {
        plan_solve(fit_size, pass_shape, budget).term(&systems, ridge_grid.solve_bytes(fit_size.map.p), "")
    };
    let largest_stage = stage_plans(fit_size, &last_plan, pass_shape, budget).into_iter().max_by_key(MemoryPlan::bytes);
    MemoryPlan { stage: stage_name.to_string(), ..largest_stage.unwrap_or_else(|| last_plan(pass_shape)) }
}

/// Returns the stage that determines the length scale; `None` if the kernel needs no search.
pub(crate) fn length_scale_stage(request: &FitRequest<'_>, pass_shape: PassShape) -> Result<Option<Stage>> {
    let (options, size) = (&*request.options, &request.size);
    if !options.searches_length_scale() {
        return Ok(None);
    }
    // the size of the sample is random, so plan for ten standard deviations above its mean
    let sample_rows = length_scale_rows(size.n, size.d);
    let sample_rows = sample_rows + 10 * sample_rows.isqrt();
    let fit_size = fit_problem_size(&length_scale_options(options, sample_rows), size, sample_rows as u64)?;
    let row_bytes = 3 * (size.d * size.element_bytes + 40) + 16 * (size.t + 1);
    let plan =
        largest_plan("length scale", &fit_size, PassShape { gram_lanes: 1, ..pass_shape }, request.resources.memory)
            .term(
                "sampled rows",
                sample_rows.saturating_mul(row_bytes),
                "give the length scale of the `kernel`, such as gaussian(sigma=2)",
            );
    Ok(Some(Stage { plan, passes: 1 }))
}

/// Returns the options of the fits that compare length scales on this many rows.
pub(super) fn length_scale_options(train_options: &TrainOptions, rows: usize) -> TrainOptions {
    let rank = train_options.rank.min(LENGTH_SCALE_RANK).min(rows.div_ceil(2));
    TrainOptions { rank, ranks: vec![rank], folds: FoldSpec::None, ..round_options(train_options, ROUND_RANK) }
}

pub(super) fn length_scale_rows(n: u64, d: usize) -> usize {
    sample_size(n, d).min(LENGTH_SCALE_ROWS)
}

#[doc(hidden)]
pub(crate) fn sample_size(n: u64, d: usize) -> usize {
    let max_rows = MAX_SAMPLE_ROWS.min(MAX_SAMPLE_VALUES / d.max(1)).max(1);
    usize::try_from(n).unwrap_or(usize::MAX).min(max_rows)
}
