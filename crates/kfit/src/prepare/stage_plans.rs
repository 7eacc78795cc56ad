//! The pass shape of a training run, and the memory plans of its stages.
//!
//! A tile is a block of consecutive rows, and a segment a fixed number of tiles. Both are functions
//! of the problem size, and define the order of every sum. Lanes (parallel workers) and prefetch
//! depend on the memory budget, and do not change results.

use crate::certificate::CertificateState;
use crate::features::{self, FeatureTier, GRAM_PASS};
use crate::gram::{GramScratch, GramState};
use crate::request::{FitRequest, LandmarkSource, MEDIAN_ROWS, PassShape, ProblemSize, Resources, Stage, tile_rows};
use kapprox::landmark::{RpCholesky, SelectionCost};
use kapprox::{NystromMap, map::nystrom::STRIP_ROWS};
use kstore::MemoryPlan;

/// Number of tiles per segment if every thread has its own lane. It is small enough that all lanes
/// end at about the same time. Each segment (at most 36,864 rows) allocates one state and merges
/// it. This moves 24 bytes per entry of the state, about 1 % of the time to compute the segment's
/// sums.
const TILES_PER_SEGMENT: usize = 16;

/// Number of tiles per segment if one lane fills the Gram matrix with all threads, chosen.
const TILES_PER_LARGE_SEGMENT: usize = 32;

/// Number of features up to which a state is small enough (512 KiB) that every thread gets its own
/// lane. With more features, one lane with all threads inside the products is as fast, and needs
/// fewer states.
const MAX_FEATURES_FOR_LANES: usize = 256;

/// Returns the pass shape with the most lanes whose plans fit in the budget, and these plans.
/// `plan_last_stage(pass_shape)` returns the plan of the solver's last stage. If no shape fits,
/// returns the shape with the least memory; the caller's check then rejects its plans.
pub fn select_pass_shape(
    size: &ProblemSize,
    plan_last_stage: &dyn Fn(PassShape) -> MemoryPlan,
    budget: usize,
) -> (PassShape, Vec<MemoryPlan>) {
    let tile_rows = tile_rows(size.d, size.map.p, size.element_bytes);
    let (gram_lanes, segment_tiles) = match size.map.p <= MAX_FEATURES_FOR_LANES {
        true => (size.threads, TILES_PER_SEGMENT),
        false => (1, TILES_PER_LARGE_SEGMENT),
    };
    let segment_rows = (tile_rows * segment_tiles) as u64;
    let full_shape = PassShape { tile_rows, segment_rows, scan_lanes: size.threads, gram_lanes, prefetch_tiles: 2 };
    let smallest_shape = PassShape { scan_lanes: 1, gram_lanes: 1, prefetch_tiles: 1, ..full_shape };
    for pass_shape in [
        full_shape,
        PassShape { gram_lanes: 1, ..full_shape },
        PassShape { scan_lanes: 1, gram_lanes: 1, ..full_shape },
    ] {
        let plans = stage_plans(size, plan_last_stage, pass_shape, budget);
        if plans.iter().all(|plan| plan.bytes() <= budget) {
            return (pass_shape, plans);
        }
    }
    (smallest_shape, stage_plans(size, plan_last_stage, smallest_shape, budget))
}

/// Returns the plan of the solver's last stage, and where its features are stored.
/// `add_solver_terms` adds the solver's own memory to a plan.
pub fn plan_last_stage(
    size: &ProblemSize,
    add_solver_terms: &dyn Fn(MemoryPlan, PassShape) -> MemoryPlan,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, MemoryPlan) {
    match size.stores_features {
        true => FeatureTier::select(
            add_solver_terms(plan_feature_pass("solve", size, pass_shape, resources.memory), pass_shape),
            size,
            resources,
        ),
        false => {
            (FeatureTier::Recomputed, add_solver_terms(plan_solve(size, pass_shape, resources.memory), pass_shape))
        }
    }
}

/// Returns the stages of a run on features: statistics, landmarks, map, the solver's first pass
/// over the features, and the later steps of the solver. `add_solver_terms` adds the solver's own
/// memory to the plan of the last stage. `solver_passes` are the numbers of passes that the solver
/// makes before and after its first pass over the features.
pub(crate) fn feature_stages(
    request: &FitRequest<'_>,
    add_solver_terms: &dyn Fn(MemoryPlan, PassShape) -> MemoryPlan,
    solver_passes: [u64; 2],
) -> (PassShape, Vec<Stage>) {
    let (pass_shape, plans) = select_pass_shape(
        &request.size,
        &|pass_shape| plan_last_stage(&request.size, add_solver_terms, pass_shape, request.resources).1,
        request.resources.memory,
    );
    (pass_shape, stages_with_passes(request, plans, solver_passes))
}

pub(crate) fn stages_with_passes(
    request: &FitRequest<'_>,
    plans: Vec<MemoryPlan>,
    [passes_before, passes_after]: [u64; 2],
) -> Vec<Stage> {
    let [selection_passes, map_passes] = request.options.map_passes();
    let passes = [1, selection_passes, map_passes, 1 + passes_before, passes_after];
    plans.into_iter().zip(passes).map(|(plan, passes)| Stage { plan, passes }).collect()
}

/// Returns the memory plan of each stage. `plan_last_stage` plans the solver's work after its first
/// pass.
pub fn stage_plans(
    size: &ProblemSize,
    plan_last_stage: &dyn Fn(PassShape) -> MemoryPlan,
    pass_shape: PassShape,
    budget: usize,
) -> Vec<MemoryPlan> {
    vec![
        plan_scan(size, pass_shape, budget),
        plan_pivoted_selection(size, pass_shape, budget),
        plan_map(size, budget),
        if size.stores_features {
            plan_feature_pass("features", size, pass_shape, budget)
        } else {
            plan_gram(size, pass_shape, budget)
        },
        plan_last_stage(pass_shape),
    ]
}

const REMEDY_FEWER_COLUMNS: &str = "read fewer columns (`features`)";
pub const REMEDY_LOWER_RANK: &str = "lower `rank`";
const REMEDY_NO_TARGET_KERNEL: &str = "leave `target_kernel` out";
const REMEDY_UNIFORM_LANDMARKS: &str = "choose `landmarks` uniform or lower `rank`";

/// Names of the stages of solvers that do not form the Gram matrix.
pub(crate) const ITERATION_STAGE: &str = "conjugate gradient";
pub(crate) const FACTOR_STAGE: &str = "Cholesky factor";

/// Returns a plan with the terms of every stage: the process with its threads, and the metadata of
/// the open files.
pub fn base_plan(stage_name: &str, size: &ProblemSize, budget: usize) -> MemoryPlan {
    MemoryPlan::for_process(stage_name, budget, size.threads, size.open_file_bytes)
}

/// Adds the decoders and tiles of a pass to the plan, for numbers of `element_bytes` bytes.
pub fn add_row_terms(
    plan: MemoryPlan,
    size: &ProblemSize,
    pass_shape: PassShape,
    lane_count: usize,
    element_bytes: usize,
) -> MemoryPlan {
    let row_bytes = size.d * element_bytes + (size.t + 2) * 8;
    plan.term("decoders", lane_count * size.cursor_footprint.bytes_for(pass_shape.tile_rows), REMEDY_FEWER_COLUMNS)
        .term(
            "tiles of rows",
            lane_count * (pass_shape.prefetch_tiles + 2) * pass_shape.tile_rows * row_bytes,
            REMEDY_FEWER_COLUMNS,
        )
}

/// Returns the bytes of the f64 feature strips, which only f32 rows need.
fn strip_bytes(size: &ProblemSize) -> usize {
    if size.element_bytes == 8 {
        0
    } else {
        size.threads * STRIP_ROWS * (size.map.p.max(size.map.landmark_count.unwrap_or(0)) + size.d) * 8
    }
}

/// Returns the plan of the pass for the scaling statistics, which reads all input columns in f64.
pub fn plan_scan(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let size = &ProblemSize { d: size.input_columns, ..size.clone() };
    // scan_lanes + 2: each lane and the merged state hold a sample of rows, with 40 bytes per row
    // for its key, weight, slot and row numbers; the medians need one more copy of the values
    let scaling_median_bytes = (pass_shape.scan_lanes + 2) * size.median_row_count * (size.d * 8 + 40);
    add_row_terms(base_plan("scaling statistics", size, budget), size, pass_shape, pass_shape.scan_lanes, 8).term(
        "rows for medians",
        scaling_median_bytes,
        REMEDY_FEWER_COLUMNS,
    )
}

pub(crate) fn plan_pivoted_selection(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    plan_landmark_selection(size, pass_shape, budget, true, REMEDY_LOWER_RANK)
}

/// Plans landmark selection. `needs_factor` is true if the scheme factorises the kernel matrix of
/// the landmarks; `remedy` tells users how to reduce this matrix.
fn plan_landmark_selection(
    size: &ProblemSize,
    pass_shape: PassShape,
    budget: usize,
    needs_factor: bool,
    remedy: &'static str,
) -> MemoryPlan {
    let (element_bytes, n) = (size.element_bytes, usize::try_from(size.n).unwrap_or(usize::MAX));
    let plan = add_row_terms(
        base_plan("landmark selection", size, budget),
        size,
        pass_shape,
        pass_shape.scan_lanes,
        element_bytes,
    );
    let length_scale_rows = MEDIAN_ROWS.min(n);
    let sample_rows =
        size.candidate_count.filter(|_| size.map.landmark_count.is_some()).unwrap_or(0).max(MEDIAN_ROWS).min(n);
    let plan = plan
        // two copies, each with 40 bytes per row for its key, weight, slot and row numbers: the
        // collected rows stay in memory while the sample copies them in order
        .term("candidate rows", sample_rows.saturating_mul(2 * (size.d * element_bytes + 40)), "lower `candidates`")
        .term(
            "distances for the length scale",
            length_scale_rows * 8 * (size.d + length_scale_rows),
            REMEDY_FEWER_COLUMNS,
        );
    let Some(m) = size.map.landmark_count else { return plan };
    let plan = match size.scheme_bytes {
        0 => plan,
        bytes => plan.term("columns of the landmark scheme", bytes, "lower `candidates`"),
    };
    let add_product_term =
        |plan: MemoryPlan| plan.term("products of the threads", size.threads * (4 << 20), "lower `threads`");
    if !needs_factor {
        return add_product_term(plan);
    }
    let plan = plan.term("factor of the landmarks", m * m * (3 * 8 + element_bytes), remedy).term(
        "features of a tile",
        pass_shape.scan_lanes * pass_shape.tile_rows * (m * element_bytes + 8) + strip_bytes(size),
        remedy,
    );
    add_product_term(plan).term(
        "proposals",
        RpCholesky::proposal_bytes(m, size.d, element_bytes, pass_shape.scan_lanes),
        remedy,
    )
}

/// Returns the pass shape of solvers that form no Gram matrix: one Gram lane, with all threads
/// inside the products. The scan of the rows still uses one lane per thread.
pub(crate) fn single_gram_lane_shape(size: &ProblemSize) -> PassShape {
    let tile_rows = tile_rows(size.d, size.map.p, size.element_bytes);
    PassShape {
        tile_rows,
        segment_rows: 32 * tile_rows as u64,
        scan_lanes: size.threads,
        gram_lanes: 1,
        prefetch_tiles: 2,
    }
}

/// Returns the stages of a solver that uses the landmarks and no feature map: statistics,
/// landmarks, and the solver itself. `add_solver_terms` adds the memory of the solver to the plan
/// of its stage.
pub(crate) fn landmark_stages(
    request: &FitRequest<'_>,
    add_solver_terms: &dyn Fn(MemoryPlan, PassShape) -> MemoryPlan,
) -> (PassShape, Vec<Stage>) {
    let (size, budget) = (&request.size, request.resources.memory);
    let (pass_shape, [selection_passes, _]) = (single_gram_lane_shape(size), request.options.map_passes());
    let landmark_count = size.map.landmark_count.unwrap_or_default();
    let landmark_bytes = landmark_count.saturating_mul(size.d * size.element_bytes + 8);
    let solve_plan = base_plan("solve", size, budget).term("landmarks", landmark_bytes, REMEDY_LOWER_RANK);
    let solve_plan = add_solver_terms(solve_plan, pass_shape);
    let selection_plan = plan_scheme_selection(size, pass_shape, &request.options.landmarks, budget).term(
        "landmarks",
        landmark_bytes,
        REMEDY_LOWER_RANK,
    );
    let stages = [(plan_scan(size, pass_shape, budget), 1), (selection_plan, selection_passes), (solve_plan, 0)];
    (pass_shape, stages.map(|(plan, passes)| Stage { plan, passes }).into())
}

/// Plans landmark selection by the scheme of `landmarks`. Only the pivoted Cholesky schemes
/// factorise the kernel matrix of the landmarks.
pub(crate) fn plan_scheme_selection(
    size: &ProblemSize,
    pass_shape: PassShape,
    landmarks: &LandmarkSource,
    budget: usize,
) -> MemoryPlan {
    let needs_factor = landmarks.scheme().is_some_and(|scheme| scheme.cost == SelectionCost::Factor);
    plan_landmark_selection(size, pass_shape, budget, needs_factor, REMEDY_UNIFORM_LANDMARKS)
}

fn plan_map(size: &ProblemSize, budget: usize) -> MemoryPlan {
    base_plan("feature map", size, budget).term("the map", size.map.footprint.fixed, REMEDY_LOWER_RANK).term(
        "matrices to build the map",
        size.map.build_bytes,
        REMEDY_LOWER_RANK,
    )
}

fn plan_gram(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let (p, t, moment_columns, lanes) = (size.map.p, size.t, size.moment_columns, pass_shape.gram_lanes);
    let state_count = kstore::pass::state_count(lanes, size.n.div_ceil(pass_shape.segment_rows));
    let gram_count = size.fold_count * size.moment_class_count;
    let state_bytes = GramState::bytes(p, moment_columns, gram_count) + CertificateState::bytes(p);
    let fold_buffer_bytes = pass_shape.tile_rows * (size.d * size.element_bytes + t * 8);
    let feature_bytes = size.map.footprint.bytes_for(pass_shape.tile_rows) - size.map.footprint.fixed
        + pass_shape.tile_rows * (p * size.element_bytes + 8);
    let plan = add_row_terms(base_plan(GRAM_PASS, size, budget), size, pass_shape, lanes, size.element_bytes);
    let copies_text = if state_count == 1 { "one lane".to_string() } else { format!("{lanes} lanes and their sums") };
    let (name, remedy) = gram_term(size, &copies_text);
    plan.term(name, state_count * state_bytes, remedy)
        .term("feature map", size.map.footprint.fixed, REMEDY_LOWER_RANK)
        .term("features of a tile", lanes * feature_bytes + strip_bytes(size), REMEDY_LOWER_RANK)
        .term("buffered rows of each fold", lanes * gram_count * fold_buffer_bytes, "lower `folds`")
        .term("panels", lanes * gram_panel_bytes(size, pass_shape), REMEDY_LOWER_RANK)
        .term(
            "features of the target",
            if moment_columns == t { 0 } else { 8 * lanes * pass_shape.tile_rows * moment_columns },
            REMEDY_NO_TARGET_KERNEL,
        )
        .term("map of the target", target_map_bytes(size), REMEDY_NO_TARGET_KERNEL)
        .term("products of the threads", size.threads * (4 << 20), "lower `threads`")
}

/// Returns the bytes of the map from targets to target features, or 0 if the solver has no kernel
/// on the targets.
fn target_map_bytes(size: &ProblemSize) -> usize {
    match size.moment_columns == size.t {
        true => 0,
        false => NystromMap::<f64>::bytes(size.moment_columns, size.t),
    }
}

/// Returns the bytes of one lane's panels in the pass that fills the Gram matrix.
fn gram_panel_bytes(size: &ProblemSize, pass_shape: PassShape) -> usize {
    let bytes = if size.element_bytes == 4 { GramScratch::<f32>::bytes } else { GramScratch::<f64>::bytes };
    bytes(size.map.p, size.moment_columns, pass_shape.tile_rows, size.threads)
}

/// Plans a pass that stores the features or reads stored features: two tiles of features, and the
/// map.
pub fn plan_feature_pass(stage_name: &str, size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let weight_count = if size.has_weights { usize::try_from(size.n).unwrap_or(usize::MAX) } else { 0 };
    base_plan(stage_name, size, budget)
        .term("weights of all rows", weight_count.saturating_mul(8) + features::row_values_bytes(weight_count, 8), "")
        .term(
            "tiles of rows and of features",
            features::pass_bytes(size, pass_shape) + strip_bytes(size),
            REMEDY_LOWER_RANK,
        )
        .term("feature map", size.map.footprint.fixed, REMEDY_LOWER_RANK)
        .term("products of the threads", size.threads * (4 << 20), "lower `threads`")
}

/// Plans the pass that describes `k` clusters by the columns of their rows, which are read in f64.
pub(crate) fn plan_cluster_profiles(size: &ProblemSize, pass_shape: PassShape, k: usize, budget: usize) -> MemoryPlan {
    let (p, columns, lanes) = (size.map.p, size.input_columns, pass_shape.gram_lanes);
    let table_size = &ProblemSize { d: columns, ..size.clone() };
    let state_count = kstore::pass::state_count(lanes, size.n.div_ceil(pass_shape.segment_rows));
    let feature_bytes = size.map.footprint.bytes_for(pass_shape.tile_rows) - size.map.footprint.fixed
        + pass_shape.tile_rows * ((p + columns + size.d) * size.element_bytes + 8 * (2 * k + 1));
    add_row_terms(base_plan("cluster profiles", size, budget), table_size, pass_shape, lanes, 8)
        .term("feature map", size.map.footprint.fixed, REMEDY_LOWER_RANK)
        .term("features of a tile", lanes * feature_bytes + strip_bytes(size), REMEDY_LOWER_RANK)
        .term("features of a strip", size.threads * STRIP_ROWS * 8 * p, REMEDY_LOWER_RANK)
        .term("functions of the clusters", 3 * 8 * 2 * k * p, "lower `clusters`")
        .term("sums of the columns", state_count * 8 * (2 * k + 1) * (columns + 4), "lower `clusters`")
        .term("products of the threads", size.threads * (4 << 20), "lower `threads`")
}

/// Returns the name and the remedy of the plan's term for the Gram matrices. The name mentions the
/// folds (or classes) only if there are several.
fn gram_term(size: &ProblemSize, copies: &str) -> (String, &'static str) {
    match (size.fold_count, size.moment_class_count) {
        (0 | 1, 1) => (format!("Gram matrix ({copies})"), REMEDY_LOWER_RANK),
        (0 | 1, class_count) => {
            (format!("Gram matrices ({class_count} classes, {copies})"), "use `within` pooled or lower `rank`")
        }
        (fold_count, 2..) => (
            format!("Gram matrices of each class ({fold_count} folds, {copies})"),
            "use `within` pooled or lower `rank`",
        ),
        (fold_count, _) => (format!("Gram matrices ({fold_count} folds, {copies})"), "lower `rank` or `folds`"),
    }
}

/// Plans the stage that solves from the moments of an earlier pass with shape `pass_shape`. The
/// plan contains the moments and the map.
pub fn plan_solve(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let (name, remedy) = gram_term(size, "their sum");
    base_plan("solve", size, budget)
        .term(
            name,
            GramState::bytes(size.map.p, size.moment_columns, size.fold_count * size.moment_class_count),
            remedy,
        )
        .term("map of the target", target_map_bytes(size), REMEDY_NO_TARGET_KERNEL)
        .term("feature map", size.map.footprint.fixed, REMEDY_LOWER_RANK)
        .term("products of the threads", size.threads * (4 << 20), "lower `threads`")
        .term("panels that the allocator keeps", gram_panel_bytes(size, pass_shape), REMEDY_LOWER_RANK)
}
