//! Tiles and segments of a training run, and the memory of its stages.
//!
//! Tiles and segments are functions of the problem size and define the order of every sum. Lanes
//! and prefetch depend on the memory budget and do not change results.

use crate::certificate::CertificateState;
use crate::features::{self, FeatureTier, GRAM};
use crate::gram::{GramScratch, GramState};
use crate::request::{FitRequest, LandmarkSource, MEDIAN_ROWS, PassShape, ProblemSize, Resources, Stage, tile_rows};
use kapprox::landmark::{Effort, RpCholesky};
use kapprox::{NystromMap, map::nystrom::STRIP};
use kstore::Plan;

/// Number of tiles per segment if every thread has a lane: small enough that lanes end together.
/// Each segment allocates and merges one state: 24 bytes of traffic per entry and fold for 36,864
/// rows, about 1 % of the work per fold.
const TILES_PER_SEGMENT: usize = 16;

const TILES_PER_LARGE_SEGMENT: usize = 32;

/// Number of features up to which a state is small enough (512 KiB) for one lane per thread. Above
/// it, one lane with all threads inside the products is as fast and needs fewer states.
const LANE_FEATURES: usize = 256;

/// Returns the pass shape with the most lanes that fit in the budget, and its plans. If no shape
/// fits, returns the smallest, which the caller's check rejects.
pub fn cut(shape: &ProblemSize, last: &dyn Fn(PassShape) -> Plan, budget: usize) -> (PassShape, Vec<Plan>) {
    let tile = tile_rows(shape.d, shape.map.p, shape.element);
    let (gram_lanes, tiles) = match shape.map.p <= LANE_FEATURES {
        true => (shape.threads, TILES_PER_SEGMENT),
        false => (1, TILES_PER_LARGE_SEGMENT),
    };
    let segment = (tile * tiles) as u64;
    let full = PassShape { tile, segment, scan_lanes: shape.threads, gram_lanes, prefetch: 2 };
    let tight = PassShape { scan_lanes: 1, gram_lanes: 1, prefetch: 1, ..full };
    for cut in [full, PassShape { gram_lanes: 1, ..full }, PassShape { scan_lanes: 1, gram_lanes: 1, ..full }] {
        let plans = plans(shape, last, cut, budget);
        if plans.iter().all(|plan| plan.bytes() <= budget) {
            return (cut, plans);
        }
    }
    (tight, plans(shape, last, tight, budget))
}

/// Returns the plan of the solver's last stage, and where its features are stored.
pub(crate) fn last(
    shape: &ProblemSize,
    add: &dyn Fn(Plan, PassShape) -> Plan,
    cut: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, Plan) {
    match shape.keeps {
        true => FeatureTier::choose(add(pass_features("solve", shape, cut, resources.memory), cut), shape, resources),
        false => (FeatureTier::Recomputed, add(solve(shape, cut, resources.memory), cut)),
    }
}

/// Returns the stages of a run on features: statistics, landmarks, map, the solver's first pass
/// over the features, and the rest of the solver. `add` adds the solver's memory to the last plan;
/// `solver_passes` are the solver's numbers of passes before and after its first pass.
pub(crate) fn on_features(
    work: &FitRequest<'_>,
    add: &dyn Fn(Plan, PassShape) -> Plan,
    own: [u64; 2],
) -> (PassShape, Vec<Stage>) {
    let (cut, plans) = cut(&work.shape, &|cut| last(&work.shape, add, cut, work.resources).1, work.resources.memory);
    (cut, featured(work, plans, own))
}

pub(crate) fn featured(work: &FitRequest<'_>, plans: Vec<Plan>, [before, after]: [u64; 2]) -> Vec<Stage> {
    let [choosing, making] = work.options.passes_of_map();
    let passes = [1, choosing, making, 1 + before, after];
    plans.into_iter().zip(passes).map(|(plan, passes)| Stage { plan, passes }).collect()
}

/// Returns the memory plan of each stage; `last_plan` plans the solver's work after its first pass.
pub(crate) fn plans(shape: &ProblemSize, last: &dyn Fn(PassShape) -> Plan, cut: PassShape, budget: usize) -> Vec<Plan> {
    vec![
        scan(shape, cut, budget),
        landmarks(shape, cut, budget),
        map(shape, budget),
        if shape.keeps { pass_features("features", shape, cut, budget) } else { gram(shape, cut, budget) },
        last(cut),
    ]
}

const DATA: &str = "read fewer columns (`features`)";
pub const RANK: &str = "lower `rank`";
const TARGET_FEATURES: &str = "leave `target_kernel` out";
const UNIFORM: &str = "choose `landmarks` uniform or lower `rank`";

/// Names of the stages of solvers that do not form the Gram matrix.
pub(crate) const ITERATION: &str = "conjugate gradient";
pub const FACTOR: &str = "Cholesky factor";

pub fn base(what: &str, shape: &ProblemSize, budget: usize) -> Plan {
    Plan::process(what, budget, shape.threads, shape.held)
}

/// Adds the decoders and tiles of a pass to the plan, for numbers of `element` bytes.
pub fn rows(plan: Plan, shape: &ProblemSize, cut: PassShape, lanes: usize, element: usize) -> Plan {
    let row = shape.d * element + (shape.t + 2) * 8;
    plan.term("decoders", lanes * shape.cursor.at(cut.tile), DATA).term(
        "tiles of rows",
        lanes * (cut.prefetch + 2) * cut.tile * row,
        DATA,
    )
}

/// Returns the bytes of the f64 feature strips, which only f32 rows need.
fn strips(shape: &ProblemSize) -> usize {
    if shape.element == 8 {
        0
    } else {
        shape.threads * STRIP * (shape.map.p.max(shape.map.landmarks.unwrap_or(0)) + shape.d) * 8
    }
}

pub fn scan(shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let shape = &ProblemSize { d: shape.columns, ..shape.clone() };
    // the rows with the smallest keys of every lane and of the merge, and a copy of the values
    let medians = (cut.scan_lanes + 2) * shape.medians * (shape.d * 8 + 40);
    rows(base("scaling statistics", shape, budget), shape, cut, cut.scan_lanes, 8).term(
        "rows for medians",
        medians,
        DATA,
    )
}

pub(crate) fn landmarks(shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    selection(shape, cut, budget, true, RANK)
}

/// Plans landmark selection; `factor` is true if the scheme factorises the landmarks' kernel
/// matrix, whose size `remedy` reduces.
fn selection(shape: &ProblemSize, cut: PassShape, budget: usize, factor: bool, remedy: &'static str) -> Plan {
    let (e, n) = (shape.element, usize::try_from(shape.n).unwrap_or(usize::MAX));
    let plan = rows(base("landmark selection", shape, budget), shape, cut, cut.scan_lanes, e);
    let few = MEDIAN_ROWS.min(n);
    let drawn = shape.candidates.filter(|_| shape.map.landmarks.is_some()).unwrap_or(0).max(MEDIAN_ROWS).min(n);
    let plan = plan
        // two copies: while the smallest keys are collected, and while the rows are sorted
        .term("candidate rows", drawn.saturating_mul(2 * (shape.d * e + 40)), "lower `candidates`")
        .term("distances for the length scale", few * 8 * (shape.d + few), DATA);
    let Some(m) = shape.map.landmarks else { return plan };
    let plan = match shape.scheme {
        0 => plan,
        bytes => plan.term("columns of the landmark scheme", bytes, "lower `candidates`"),
    };
    let products = |plan: Plan| plan.term("products of the threads", shape.threads * (4 << 20), "lower `threads`");
    if !factor {
        return products(plan);
    }
    let plan = plan.term("factor of the landmarks", m * m * (3 * 8 + e), remedy).term(
        "features of a tile",
        cut.scan_lanes * cut.tile * (m * e + 8) + strips(shape),
        remedy,
    );
    products(plan).term("proposals", RpCholesky::proposal_bytes(m, shape.d, e, cut.scan_lanes), remedy)
}

/// Returns the shape of passes that do not sum features: one lane, with all threads inside the
/// products.
pub(crate) fn one_lane(shape: &ProblemSize) -> PassShape {
    let tile = tile_rows(shape.d, shape.map.p, shape.element);
    PassShape { tile, segment: 32 * tile as u64, scan_lanes: shape.threads, gram_lanes: 1, prefetch: 2 }
}

/// Returns the stages of a solver that uses only the landmarks: statistics, landmarks, and the
/// solver, to whose plan `add` adds the solver's memory.
pub(crate) fn landmark_stages(work: &FitRequest<'_>, add: &dyn Fn(Plan, PassShape) -> Plan) -> (PassShape, Vec<Stage>) {
    let (shape, memory) = (&work.shape, work.resources.memory);
    let (cut, [rounds, _]) = (one_lane(shape), work.options.passes_of_map());
    let count = shape.map.landmarks.unwrap_or_default();
    let held = count.saturating_mul(shape.d * shape.element + 8);
    let solve = add(base("solve", shape, memory).term("landmarks", held, RANK), cut);
    let choose = choosing(shape, cut, &work.options.landmarks, memory).term("landmarks", held, RANK);
    let stages = [(scan(shape, cut, memory), 1), (choose, rounds), (solve, 0)];
    (cut, stages.map(|(plan, passes)| Stage { plan, passes }).into())
}

/// Plans landmark selection; only pivoted Cholesky schemes have a factor.
pub(crate) fn choosing(shape: &ProblemSize, cut: PassShape, landmarks: &LandmarkSource, budget: usize) -> Plan {
    let factor = landmarks.scheme().is_some_and(|scheme| scheme.effort == Effort::Factor);
    selection(shape, cut, budget, factor, UNIFORM)
}

fn map(shape: &ProblemSize, budget: usize) -> Plan {
    base("feature map", shape, budget).term("the map", shape.map.footprint.fixed, RANK).term(
        "matrices to build the map",
        shape.map.making,
        RANK,
    )
}

fn gram(shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let (m, t, columns, lanes) = (shape.map.p, shape.t, shape.moment_columns, cut.gram_lanes);
    let states = kstore::pass::states(lanes, shape.n.div_ceil(cut.segment));
    let parts = shape.folds * shape.classes;
    let state = GramState::bytes(m, columns, parts) + CertificateState::bytes(m);
    let bin = cut.tile * (shape.d * shape.element + t * 8);
    let features = shape.map.footprint.at(cut.tile) - shape.map.footprint.fixed + cut.tile * (m * shape.element + 8);
    let plan = rows(base(GRAM, shape, budget), shape, cut, lanes, shape.element);
    let copies = if states == 1 { "one lane".to_string() } else { format!("{lanes} lanes and their sums") };
    let (name, remedy) = gram_term(shape, &copies);
    plan.term(name, states * state, remedy)
        .term("feature map", shape.map.footprint.fixed, RANK)
        .term("features of a tile", lanes * features + strips(shape), RANK)
        .term("buffered rows of each fold", lanes * parts * bin, "lower `folds`")
        .term("panels", lanes * panels(shape, cut), RANK)
        .term("features of the target", if columns == t { 0 } else { 8 * lanes * cut.tile * columns }, TARGET_FEATURES)
        .term("map of the target", target_map(shape), TARGET_FEATURES)
        .term("products of the threads", shape.threads * (4 << 20), "lower `threads`")
}

/// Returns the bytes of the map from targets to target features; 0 without such a map.
fn target_map(shape: &ProblemSize) -> usize {
    match shape.moment_columns == shape.t {
        true => 0,
        false => NystromMap::<f64>::bytes(shape.moment_columns, shape.t),
    }
}

/// Returns the bytes of one lane's panels in the pass that fills the Gram matrix.
fn panels(shape: &ProblemSize, cut: PassShape) -> usize {
    let bytes = if shape.element == 4 { GramScratch::<f32>::bytes } else { GramScratch::<f64>::bytes };
    bytes(shape.map.p, shape.moment_columns, cut.tile, shape.threads)
}

/// Plans the pass that stores the features, or any pass over them: two tiles of features, and the
/// map.
pub fn pass_features(what: &str, shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let weighted = if shape.weighted { usize::try_from(shape.n).unwrap_or(usize::MAX) } else { 0 };
    base(what, shape, budget)
        .term("weights of all rows", weighted.saturating_mul(8) + features::values_bytes(weighted, 8), "")
        .term("tiles of rows and of features", features::pass_bytes(shape, cut) + strips(shape), RANK)
        .term("feature map", shape.map.footprint.fixed, RANK)
        .term("products of the threads", shape.threads * (4 << 20), "lower `threads`")
}

/// Returns name and remedy of the term for the Gram matrices; mentions folds only if there are
/// several.
fn gram_term(shape: &ProblemSize, copies: &str) -> (String, &'static str) {
    match (shape.folds, shape.classes) {
        (0 | 1, 1) => (format!("Gram matrix ({copies})"), RANK),
        (0 | 1, classes) => {
            (format!("Gram matrices ({classes} classes, {copies})"), "use `within` pooled or lower `rank`")
        }
        (folds, 2..) => {
            (format!("Gram matrices of each class ({folds} folds, {copies})"), "use `within` pooled or lower `rank`")
        }
        (folds, _) => (format!("Gram matrices ({folds} folds, {copies})"), "lower `rank` or `folds`"),
    }
}

/// Plans a stage that solves from the moments gathered by a pass of this shape: moments and map.
pub fn solve(shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let (name, remedy) = gram_term(shape, "their sum");
    base("solve", shape, budget)
        .term(name, GramState::bytes(shape.map.p, shape.moment_columns, shape.folds * shape.classes), remedy)
        .term("map of the target", target_map(shape), TARGET_FEATURES)
        .term("feature map", shape.map.footprint.fixed, RANK)
        .term("products of the threads", shape.threads * (4 << 20), "lower `threads`")
        .term("panels that the allocator keeps", panels(shape, cut), RANK)
}
