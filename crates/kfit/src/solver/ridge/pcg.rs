//! Nyström ridge regression by conjugate gradient: used if `method` is pcg, or if `method` is auto
//! and the Gram matrix does not fit.
//!
//! The module [`super::iterative::nystrom`] describes the problem. There is one rank m and one
//! lambda. There is no certificate, because a certificate needs the features that this method
//! avoids. After an interruption, a resumed run recomputes the kernel blocks and the
//! preconditioner, and continues after the last stored iteration.
//!
//! *Passes*: one for the first moments. If some kernel blocks are not in memory, one more pass for
//! every 2,048 rows of the sketch. If some kernel blocks are neither in memory nor in the scratch
//! folder, one more pass per iteration, and one for the training error. *Time*: to compute the
//! kernel blocks and a sketch of 8m rows for the preconditioner, and one read of the blocks per
//! iteration. An iteration multiplies the residual by about .35.

use super::iterative::blocks::{KernelBlocks, READ_AHEAD_TILES, ScratchLimit, StorageLimits};
use super::iterative::centring::Centring;
use super::iterative::cg::{self, Norm, StoppingRule};
use super::iterative::f64_rows::F64Rows;
use super::iterative::nystrom::{FirstMoments, NormalMatrix, NystromProblem, squared_errors};
use super::iterative::sketch::{self, Preconditioner};
use super::{Ridge, RidgeMethod};
use crate::linalg::kernel_rows::KernelBlock;
use crate::linalg::kernel_tiles::KernelTiles;
use crate::linalg::packed::PackedLower;
use crate::model::{Basis, Intercept, needs_f64_for};
use crate::prepare::stage_plans::{self, REMEDY_LOWER_RANK};
use crate::request::{FitRequest, PassShape, ProblemSize, Resources, Stage};
use crate::solver::{Solution, SolveMethod};
use crate::{Result, features::FitData};
use faer::MatRef;
use kapprox::{Real, kernel::AnyKernel, landmark::LandmarkSet};
use kstore::pass::NoObserver;
use kstore::scratch::{Cache, ScratchFolder};
use kstore::{MemoryPlan, Pass, RowSource, TableShape};
use std::sync::Arc;

/// Number of rows whose kernel blocks are in memory, in the scratch folder, and recomputed at every
/// visit.
#[derive(Clone, Copy, Debug)]
struct RowTiers {
    memory_rows: usize,
    scratch_rows: usize,
    recomputed_rows: usize,
    /// Bytes of the stored kernel values between landmarks: of all of them, or 0.
    landmark_bytes: usize,
}

/// Returns the stages of the fit: statistics, landmarks, preconditioner, iteration.
pub(super) fn stages<T: Real>(ridge: &Ridge, request: &FitRequest<'_>) -> (PassShape, Vec<Stage>) {
    let (size, budget) = (&request.size, request.resources.memory);
    let pass_shape = stage_plans::single_gram_lane_shape(size);
    let ([preconditioner_plan, iteration_plan], tiers) = iteration_plans::<T>(size, pass_shape, request.resources);
    let landmark_plan = stage_plans::plan_scheme_selection(size, pass_shape, &request.options.landmarks, budget);
    let (passes_per_visit, n) = (u64::from(tiers.recomputed_rows > 0), usize::try_from(size.n).unwrap_or(usize::MAX));
    // one pass for each visit of the sketch, unless all blocks are in memory
    let sketch_passes = match (
        ridge.preconditioner.unwrap_or_default(),
        sketch::sketch_visits(n, request.options.rank.min(n).max(1)),
    ) {
        (Preconditioner::Falkon, _) => 0,
        (Preconditioner::Krill, None) => passes_per_visit,
        (Preconditioner::Krill, Some(visits)) => {
            visits as u64 * u64::from(tiers.scratch_rows + tiers.recomputed_rows > 0)
        }
    };
    // an iteration multiplies the residual by .35 (FALKON: more), and ln(.35) = -1.05: a visit for
    // each iteration, two for true residuals, and one for the training error
    let block_visits = (-ridge.residual_tolerance::<T>().clamp(f64::EPSILON, 0.5).ln() / 1.05).ceil() + 3.0;
    let [landmark_passes, _] = request.options.map_passes();
    let passes = [1, landmark_passes, 1 + sketch_passes, passes_per_visit * block_visits as u64];
    let plans = [stage_plans::plan_scan(size, pass_shape, budget), landmark_plan, preconditioner_plan, iteration_plan];
    (pass_shape, plans.into_iter().zip(passes).map(|(plan, passes)| Stage { plan, passes }).collect())
}

/// Returns the memory plan of a stage that multiplies by kernel blocks, without the stored blocks.
fn product_plan<T: Real>(stage: &str, size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let (m, element_bytes) = (size.map.p, size.element_bytes);
    stage_plans::add_row_terms(stage_plans::base_plan(stage, size, budget), size, pass_shape, 1, element_bytes)
        // landmarks and a tile of rows in both f32 and f64, because a second solution may use f64
        .term("landmarks", m * size.d * 3 * size_of::<f64>(), REMEDY_LOWER_RANK)
        .term("rows of a tile", pass_shape.tile_rows * size.d * size_of::<f64>() / 2, "read fewer columns (`features`)")
        .term("preconditioner", PackedLower::bytes(m), REMEDY_LOWER_RANK)
        .term("kernel block of a tile", pass_shape.tile_rows * (m * element_bytes + 16 * size.t), REMEDY_LOWER_RANK)
        .term(
            "partial sums of a tile",
            KernelBlock::<T>::sum_bytes(pass_shape.tile_rows, m, size.t + 1),
            REMEDY_LOWER_RANK,
        )
}

/// Returns the memory plans of the preconditioner and of the iteration, and how many rows have
/// their kernel blocks in memory and in the scratch folder: as many as fit in both plans.
fn iteration_plans<T: Real>(
    size: &ProblemSize,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> ([MemoryPlan; 2], RowTiers) {
    let (m, threads, budget) = (size.map.p, size.threads, resources.memory);
    let sum_bytes = 8 * m * (2 * size.t + 2);
    let mut preconditioner_plan = product_plan::<T>("preconditioner", size, pass_shape, budget)
        .term("sketch", sketch::build_bytes(m, pass_shape.tile_rows, threads), REMEDY_LOWER_RANK)
        .term("vectors", sum_bytes, REMEDY_LOWER_RANK);
    // the vectors of conjugate gradient, the first moments, and the buffers of products with K_mm
    let vector_bytes = cg::bytes(m, size.t) + sum_bytes + KernelTiles::<f64>::buffer_bytes(threads, size.t);
    let mut iteration_plan = product_plan::<T>(stage_plans::ITERATION_STAGE, size, pass_shape, budget).term(
        "vectors",
        vector_bytes,
        REMEDY_LOWER_RANK,
    );
    let row_bytes = KernelBlocks::<T>::row_bytes(m, size.t);
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let fitting_rows = |build_plan: &MemoryPlan, solve_plan: &MemoryPlan| {
        (budget.saturating_sub(build_plan.bytes().max(solve_plan.bytes())) / row_bytes).min(n)
    };
    let (mut memory_rows, mut scratch_rows) = (fitting_rows(&preconditioner_plan, &iteration_plan), 0);
    if let Some(scratch) = resources.scratch.filter(|_| memory_rows < n) {
        let decoded_bytes = size.n.saturating_mul(scratch_row_bytes::<T>(size.d, size));
        let scratch_capacity = scratch_row_capacity::<T>(scratch.remaining().saturating_sub(decoded_bytes), size);
        let read_buffer_bytes = (READ_AHEAD_TILES + 2) * pass_shape.tile_rows * row_bytes;
        let with_read_buffer =
            |plan: &MemoryPlan| plan.clone().term("kernel rows from scratch", read_buffer_bytes, "leave `scratch` out");
        let [scratch_preconditioner_plan, scratch_iteration_plan] =
            [&preconditioner_plan, &iteration_plan].map(with_read_buffer);
        // a run that fits without scratch must fit with it
        if scratch_capacity > 0 && scratch_preconditioner_plan.bytes().max(scratch_iteration_plan.bytes()) <= budget {
            memory_rows = fitting_rows(&scratch_preconditioner_plan, &scratch_iteration_plan);
            scratch_rows = scratch_capacity.min(n - memory_rows);
            (preconditioner_plan, iteration_plan) = (scratch_preconditioner_plan, scratch_iteration_plan);
        }
    }
    let recomputed_rows = n - memory_rows - scratch_rows;
    let name = match (scratch_rows, recomputed_rows) {
        (0, 0) => "kernel blocks of all rows".to_string(),
        (_, 0) => format!("kernel blocks of {memory_rows} rows; the others are in scratch"),
        (0, _) => format!("kernel blocks of {memory_rows} rows; the others are recomputed in every iteration"),
        _ => format!(
            "kernel blocks of {memory_rows} rows; {scratch_rows} rows are in scratch, {recomputed_rows} are recomputed in every iteration"
        ),
    };
    let landmark_bytes = KernelTiles::<f64>::full_cache_bytes(m);
    let free_bytes = budget.saturating_sub(iteration_plan.bytes() + memory_rows * row_bytes);
    let landmark_bytes = if landmark_bytes <= free_bytes { landmark_bytes } else { 0 };
    iteration_plan = iteration_plan.term("kernel values between landmarks", landmark_bytes, "");
    let tiers = RowTiers { memory_rows, scratch_rows, recomputed_rows, landmark_bytes };
    ([preconditioner_plan, iteration_plan].map(|plan| plan.term(name.clone(), memory_rows * row_bytes, "")), tiers)
}

fn scratch_row_bytes<T: Real>(column_count: usize, size: &ProblemSize) -> u64 {
    Cache::<T>::row_bytes(&TableShape {
        stored_rows: 0,
        input_count: column_count,
        target_count: size.t,
        has_weights: false,
    }) as u64
}

/// Returns the number of rows whose kernel blocks fit in this many bytes of the scratch folder.
fn scratch_row_capacity<T: Real>(bytes: u64, size: &ProblemSize) -> usize {
    usize::try_from(bytes / scratch_row_bytes::<T>(size.map.p, size)).unwrap_or(usize::MAX)
}

/// Learns without the Gram matrix, from kernel values in `T`. If the precision of `T` is
/// insufficient, learns again from kernel values in f64.
///
/// Rounding errors of kernel values act like additional features of size ε that are almost
/// unpenalised. If the coefficients are large, these errors may be noticeable compared with the
/// error of the fit. The result then solves a different problem, even if its residual is small.
pub(super) fn fit<T: Real>(
    ridge: &Ridge,
    data: &FitData<'_, T>,
    landmarks: &LandmarkSet<T>,
    size: &ProblemSize,
) -> Result<Solution<T>> {
    let FitData { source, pass_shape, resources, .. } = *data;
    let kernel = data.kernel.build()?;
    kapprox::kernel::require_positive_definite(&*kernel.typed::<f64>(), "Nyström ridge regression")?;
    let z_f64: Vec<f64> = landmarks.points.iter().map(|v| v.to_f64()).collect();
    let z = MatRef::from_row_major_slice(&z_f64, landmarks.len(), landmarks.d);
    let target_centre = data.targets.centre();
    let has_free_intercept = ridge.intercept == Intercept::Free;
    // the stored targets are centred, which only a free intercept can undo; for another intercept,
    // add the centre back
    let target_shift: Vec<f64> =
        target_centre.iter().map(|centre| if has_free_intercept { 0.0 } else { *centre }).collect();
    let nystrom_fit = NystromFit {
        ridge,
        data,
        kernel: &kernel,
        z,
        target_shift: &target_shift,
        lambda: ridge.single_lambda::<T>()?,
    };
    let mut solution = nystrom_fit.solve(source, landmarks.as_mat(), size, pass_shape)?;
    let needs_f64 = solution.needs_f64::<T>();
    if needs_f64 {
        let passes = solution.passes;
        // with half the rows per tile, kernel values in f64 need the same number of bytes
        let size = ProblemSize { element_bytes: size_of::<f64>(), ..size.clone() };
        let pass_shape = PassShape { tile_rows: pass_shape.tile_rows.div_ceil(2), ..pass_shape };
        solution = nystrom_fit.solve(&F64Rows { source }, z, &size, pass_shape)?;
        solution.passes += passes;
    }
    let NystromSolution { cg_solution, intercept, squared_error_sums, moments, cached_row_counts, passes } = solution;
    cg_solution.check("raise `lambda`, or use `method` direct")?;
    warn_of_residual(&cg_solution, ridge.residual_tolerance::<T>(), "raise `lambda`", resources);
    Ok(Solution {
        basis: Some(Basis::Landmarks { points: landmarks.points.clone(), row_numbers: landmarks.row_numbers.clone() }),
        intercept: intercept
            .iter()
            .zip(&target_centre)
            .map(|(c, centre)| if has_free_intercept { c + centre } else { *c })
            .collect(),
        lambda: Some(nystrom_fit.lambda),
        method: Some(describe_method(ridge, cached_row_counts, moments.row_count, needs_f64)),
        figures: cg_solution.figures(),
        train_score: Some(moments.train_score(&squared_error_sums)),
        passes: 1 + passes,
        weights: cg_solution.x,
        ..Solution::default()
    })
}

struct NystromFit<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
    kernel: &'a Arc<dyn AnyKernel>,
    z: MatRef<'a, f64>,
    /// Constants that are added to the stored targets, t numbers.
    target_shift: &'a [f64],
    lambda: f64,
}

/// A solution. Its coefficients are `cg_solution.x`.
struct NystromSolution {
    cg_solution: cg::CgSolution,
    intercept: Vec<f64>,
    /// Σ (y − f)² over the rows, for every target.
    squared_error_sums: Vec<f64>,
    moments: FirstMoments,
    /// Number of rows whose kernel blocks were in memory, and in the scratch folder.
    cached_row_counts: [usize; 2],
    passes: u64,
}

impl NystromSolution {
    /// Returns true if kernel values in `T` are insufficient: their rounding errors are noticeable
    /// in the fitted values, or prevent convergence.
    fn needs_f64<T: Real>(&self) -> bool {
        let mse = self.squared_error_sums.iter().sum::<f64>()
            / (self.moments.row_count * self.squared_error_sums.len()).max(1) as f64;
        size_of::<T>() < size_of::<f64>()
            && (!self.cg_solution.has_converged
                || needs_f64_for::<T>(self.cg_solution.x.as_ref(), &vec![mse.sqrt(); self.squared_error_sums.len()]))
    }
}

impl<N: Real> NystromFit<'_, N> {
    /// Solves with kernel values in `T`, between rows and landmarks of type `T`.
    fn solve<T: Real>(
        &self,
        source: &dyn RowSource<T>,
        landmarks: MatRef<'_, T>,
        size: &ProblemSize,
        pass_shape: PassShape,
    ) -> Result<NystromSolution> {
        let FitData { targets, n, resources, options, .. } = *self.data;
        let (kernel, f64_kernel) = (self.kernel.typed::<T>(), self.kernel.typed::<f64>());
        let (_, tiers) = iteration_plans::<T>(size, pass_shape, resources);
        let pass = Pass { journal: None, ..pass_shape.pass(1, resources, &NoObserver) };
        let scratch_limit =
            |folder: &ScratchFolder| (scratch_row_capacity::<T>(folder.remaining(), size) as u64).min(n);
        let scratch = resources
            .scratch
            .filter(|_| tiers.scratch_rows > 0)
            .map(|folder| ScratchLimit { folder, max_rows: scratch_limit(folder) });
        let mut blocks = KernelBlocks::new(
            source,
            targets,
            &*kernel,
            landmarks,
            pass,
            StorageLimits { memory_rows: tiers.memory_rows, scratch },
        );
        let stored_row_count = source.range().end - source.range().start;
        let mut moments = FirstMoments::compute(
            &mut blocks,
            &*resources.stage_observer.start_stage("kernel blocks", Some(stored_row_count)),
        )?;
        moments.shift_targets(self.target_shift);
        let mu = self.lambda * moments.row_count as f64;
        let centring = Centring::new(self.ridge.intercept, moments.row_count, mu);
        let problem = NystromProblem { kernel: &*f64_kernel, z: self.z, moments: &moments, mu, centring };
        let (factor, sketch_passes) = {
            let observer = resources.stage_observer.start_stage("preconditioner", None);
            self.ridge.preconditioner.unwrap_or_default().factor(problem, options.seed, &mut blocks, &*observer)?
        };
        let (memory_rows, scratch_rows) = blocks.cached_row_counts();
        let observer = resources.stage_observer.start_stage(stage_plans::ITERATION_STAGE, None);
        let (tolerance, right) = (self.ridge.residual_tolerance::<N>(), problem.right_sides());
        let stopping_rule = StoppingRule { tolerance, observer: &*observer, journal: resources.journal };
        let k_mm = KernelTiles::new(&*f64_kernel, self.z, resources.workers).with_cache(tiers.landmark_bytes);
        let mut normal_matrix = NormalMatrix {
            problem,
            blocks: &mut blocks,
            k_mm,
            preconditioner: &factor,
            observer: &*observer,
            passes: 0,
        };
        let cg_solution = cg::solve(&mut normal_matrix, right.as_ref(), Norm::Preconditioned, stopping_rule)?;
        let (iteration_passes, intercept) = (normal_matrix.passes, problem.intercepts(cg_solution.x.as_ref()));
        let (squared_error_sums, error_passes) =
            squared_errors(&mut blocks, cg_solution.x.as_ref(), &intercept, self.target_shift, &*observer)?;
        let (cached_row_counts, passes) =
            ([memory_rows, scratch_rows], sketch_passes + iteration_passes + error_passes);
        Ok(NystromSolution { cg_solution, intercept, squared_error_sums, moments, cached_row_counts, passes })
    }
}

pub(super) fn warn_of_residual(cg_solution: &cg::CgSolution, tolerance: f64, remedy: &str, resources: &Resources<'_>) {
    if !cg_solution.has_converged {
        resources.stage_observer.warn(format!(
            "conjugate gradient did not converge: its relative residual is {:.1e}, above the requested {tolerance:.1e}; {remedy}",
            cg_solution.max_residual()
        ));
    }
}

fn describe_method(ridge: &Ridge, [memory_rows, scratch_rows]: [usize; 2], n: usize, needs_f64: bool) -> SolveMethod {
    let block_description = match (scratch_rows, n - memory_rows - scratch_rows) {
        (0, 0) => "of all rows in memory".to_string(),
        (0, recomputed_rows) => {
            format!("of {memory_rows} rows in memory, {recomputed_rows} recomputed in every iteration")
        }
        (_, 0) => format!("of {memory_rows} rows in memory, {scratch_rows} in scratch"),
        (_, recomputed_rows) => format!(
            "of {memory_rows} rows in memory, {scratch_rows} in scratch, {recomputed_rows} recomputed in every iteration"
        ),
    };
    let why = match ridge.method {
        RidgeMethod::Auto => "the Gram matrix does not fit `memory`",
        _ => "as requested",
    };
    let precision_note = if needs_f64 { " in f64, because f32 is too coarse for the coefficients," } else { "" };
    SolveMethod {
        name: "pcg",
        why: format!(
            "conjugate gradient ({}), kernel blocks{precision_note} {block_description}: {why}",
            ridge.preconditioner.unwrap_or_default()
        ),
    }
}
