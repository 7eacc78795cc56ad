//! The memory plan and the pass shape of a run.

use super::{CurveOptions, EXACT_ROWS, MAX_SPECTRUM_ROWS, Method, SAMPLED_COLUMNS, SPECTRAL_ROWS};
use crate::prepare::stage_plans::{self, REMEDY_LOWER_RANK, base_plan, select_pass_shape};
use crate::request::{LandmarkSource, PassShape, ProblemSize, Resources, TrainOptions, map_shape};
use crate::{GramScratch, GramState, Result, RidgeGrid, features::GRAM_PASS};
use kapprox::{Real, quality::SpectralOptions};
use kstore::{MemoryPlan, SelectedTable};

/// Number of columns of a Krylov block of [`kapprox::quality`].
const KRYLOV_BLOCK_COLUMNS: usize = 8;

pub(super) fn build_train_options(options: &CurveOptions, method: &Method, rank: usize) -> TrainOptions {
    let scheme = match method {
        Method::Scheme(scheme) => scheme.name,
        Method::Map(_) => options.landmark_scheme.name,
    };
    TrainOptions {
        scaling: options.scaling,
        map: method.map_spec(),
        landmarks: LandmarkSource::Scheme(scheme.to_string()),
        seed: options.seed,
        ..TrainOptions::new(options.task, options.kernel.clone(), rank)
    }
}

/// Returns the options of the ridge regression whose errors on the test rows are reported.
pub(super) fn ridge_grid(options: &CurveOptions, ranks: Vec<usize>, target_centre: Vec<f64>) -> RidgeGrid {
    RidgeGrid { ranks, lambdas: vec![options.lambda], intercept: options.intercept, target_centre }
}

/// Returns the pass shape and the plans of a run at its largest rank; `t` is the number of test
/// targets, `None` without test rows.
pub(super) fn plan<T: Real>(
    selected: &SelectedTable,
    options: &CurveOptions,
    method: &Method,
    rank: usize,
    t: Option<usize>,
    resources: &Resources<'_>,
) -> Result<(PassShape, Vec<MemoryPlan>)> {
    let train_options = build_train_options(options, method, rank);
    let mut size =
        ProblemSize::from_selected::<T>(selected, &train_options, resources.workers.threads(), t.unwrap_or(0), 1)?;
    let table_rows = size.n;
    let sample_rows = options.sample_rows.map(|rows| (rows as u64).min(table_rows));
    size.n = sample_rows.unwrap_or(table_rows);
    size.map = map_shape::<T>(&train_options, size.d, size.n)?;
    let budget = resources.memory;
    let ridge_grid = ridge_grid(options, options.ranks.clone(), vec![0.0; t.unwrap_or(0)]);
    let plan_solver = |pass_shape: PassShape| {
        stage_plans::plan_solve(&size, pass_shape, budget)
            .term("system and its factor", ridge_grid.solve_bytes(size.map.p), REMEDY_LOWER_RANK)
            .term("columns of an inverse", ridge_grid.dimension_bytes(size.map.p, size.threads), REMEDY_LOWER_RANK)
    };
    let (pass_shape, mut plans) = select_pass_shape(&size, &plan_solver, budget);
    // the measuring pass computes the Gram matrix, and without test rows nothing is learned
    let solver_plan = if t.is_some() { plans.last().cloned() } else { None };
    plans.truncate(plans.iter().position(|plan| plan.stage == GRAM_PASS).unwrap_or(plans.len()));
    plans.push(plan_errors::<T>(&size, options, pass_shape, t, budget));
    plans.extend(solver_plan);
    plans.push(plan_spectrum(&size, options, budget));
    if let Some(row_count) = sample_rows {
        // while sampling, there are two copies of the rows in key order; then one copy in row
        // order, and the targets
        let sample_bytes =
            3 * row_count as usize * (size.d * size.element_bytes + 40) + 8 * row_count as usize * size.t;
        plans = plans.into_iter().map(|plan| plan.term("sampled rows", sample_bytes, "lower `sample`")).collect();
    }
    Ok((pass_shape, plans))
}

pub(super) fn sampled_column_count(n: u64) -> usize {
    if n <= EXACT_ROWS { n as usize } else { SAMPLED_COLUMNS }
}

/// Returns the number of rows whose spectrum gives the minimum errors: four times the largest rank,
/// so that a sample is informative at this rank, but at least 2,000 and at most
/// [`MAX_SPECTRUM_ROWS`].
pub(super) fn spectrum_rows(n: u64, options: &CurveOptions) -> usize {
    let requested_rows = options.ranks.last().copied().unwrap_or(1).saturating_mul(4);
    usize::try_from(n).unwrap_or(usize::MAX).min(requested_rows.clamp(2_000, MAX_SPECTRUM_ROWS))
}

/// Returns the plan of the measuring pass and of the spectral errors after it. The memory holds the
/// Gram matrix (if there are targets), the sampled columns with their features, sums over these
/// columns, and a tile of features in both precisions.
fn plan_errors<T: Real>(
    size: &ProblemSize,
    options: &CurveOptions,
    pass_shape: PassShape,
    t: Option<usize>,
    budget: usize,
) -> MemoryPlan {
    let (p, d, c, rank_count) = (size.map.p, size.d, sampled_column_count(size.n), options.ranks.len());
    // the spectral errors store all rows, or two copies of their sample
    let (spectral_rows, stored_rows) =
        if size.n <= EXACT_ROWS { (size.n as usize, size.n as usize) } else { (SPECTRAL_ROWS, 2 * SPECTRAL_ROWS) };
    // the memory has a Krylov space and its image for each rank and for K, and copies of the spaces
    // that still grow
    let krylov_columns =
        2 * KRYLOV_BLOCK_COLUMNS * SpectralOptions::default().max_steps * (rank_count + 1 + size.threads);
    let tile_bytes =
        pass_shape.tile_rows * (p * (size.element_bytes + 8) + 8 * (d + rank_count + 1)) + size.map.footprint.per_row;
    let plan = stage_plans::add_row_terms(base_plan("errors", size, budget), size, pass_shape, 1, size.element_bytes)
        .term("feature map", size.map.footprint.fixed, REMEDY_LOWER_RANK)
        .term("columns of the kernel matrix", 8 * c * (d + 2 * p + 4 * rank_count + 2), REMEDY_LOWER_RANK)
        .term("features of a tile", tile_bytes, REMEDY_LOWER_RANK)
        .term("Krylov spaces", 8 * (stored_rows * (d + 2 * p) + spectral_rows * krylov_columns), "name fewer `ranks`");
    match t {
        Some(t) => plan
            .term("Gram matrix (one lane and a sum)", 2 * GramState::bytes(p, t, 1), REMEDY_LOWER_RANK)
            .term("panels", GramScratch::<T>::bytes(p, t, pass_shape.tile_rows, size.threads), REMEDY_LOWER_RANK),
        None => plan,
    }
}

/// Returns the plan of the minimum errors: a kernel matrix and its eigendecomposition.
fn plan_spectrum(size: &ProblemSize, options: &CurveOptions, budget: usize) -> MemoryPlan {
    let sample_rows = spectrum_rows(size.n, options);
    base_plan("floor", size, budget).term(
        "kernel matrix of a sample",
        3 * 8 * sample_rows * sample_rows,
        "lower `ranks`",
    )
}
