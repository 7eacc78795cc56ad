//! Nyström ridge regression by conjugate gradient: `method` pcg, and `auto` if the Gram matrix does
//! not fit.
//!
//! See [`super::iterative::nystrom`] for the problem. There is one rank and one lambda, and no
//! certificate, which would need the features that this method avoids. A resumed run recomputes its
//! kernel blocks and its preconditioner, and continues after its last iteration.
//!
//! *Passes*: one for the sums. If some kernel blocks are not in memory, one for every 2,048 rows of
//! the sketch; if some are not in scratch either, one per iteration and one for the training error.
//! *Time*: kernel blocks, 4m rows of a sketch for the preconditioner, and one read of the blocks
//! per iteration. An iteration halves the residual.

use super::iterative::blocks::{Blocks, READ_AHEAD, Room};
use super::iterative::cg::{self, Norm, Until};
use super::iterative::constant::Constant;
use super::iterative::nystrom::{FirstMoments, Normal, NystromProblem, squared_errors};
use super::iterative::packed::PackedLower;
use super::iterative::sketch::{self, Preconditioner};
use super::iterative::wide::WideRows;
use super::{Ridge, RidgeMethod};
use crate::linalg::kernel_rows::KernelBlock;
use crate::linalg::kernel_tiles::Tiles;
use crate::model::{Basis, Intercept, needs_wide_for};
use crate::prepare::plan::{self, RANK};
use crate::request::{FitRequest, PassShape, ProblemSize, Resources, Stage};
use crate::solver::{Found, Solved};
use crate::{Result, features::FitData};
use faer::MatRef;
use kapprox::{Real, kernel::AnyKernel, landmark::LandmarkSet};
use kstore::pass::Unobserved;
use kstore::scratch::{Cache, Scratch};
use kstore::{Pass, Plan, RowSource, TableShape};
use std::sync::Arc;

/// Numbers of rows whose kernel blocks are in memory, in scratch, and recomputed.
#[derive(Clone, Copy, Debug)]
struct Tiers {
    memory: usize,
    scratch: usize,
    computed: usize,
}

/// Returns the stages: statistics, landmarks, preconditioner, iteration.
pub(super) fn stages<T: Real>(ridge: &Ridge, work: &FitRequest<'_>) -> (PassShape, Vec<Stage>) {
    let (shape, memory) = (&work.shape, work.resources.memory);
    let cut = plan::one_lane(shape);
    let ([make, solve], tiers) = solving::<T>(shape, cut, work.resources);
    let choose = plan::choosing(shape, cut, &work.options.landmarks, memory);
    let (computed, n) = (u64::from(tiers.computed > 0), usize::try_from(shape.n).unwrap_or(usize::MAX));
    // passes of the sketch over the rows whose blocks are not in memory
    let again = match (ridge.preconditioner.unwrap_or_default(), sketch::groups(n, work.options.rank.min(n).max(1))) {
        (Preconditioner::Falkon, _) => 0,
        (Preconditioner::Krill, None) => computed,
        (Preconditioner::Krill, Some((groups, _))) => groups as u64 * u64::from(tiers.scratch + tiers.computed > 0),
    };
    // an iteration halves the residual; one more product gives the true residual, and one the
    // training error
    let visits = (-ridge.tolerated::<T>().clamp(f64::EPSILON, 0.5).log2()).ceil() + 3.0;
    let [choosing, _] = work.options.passes_of_map();
    let passes = [1, choosing, 1 + again, computed * visits as u64];
    let plans = [plan::scan(shape, cut, memory), choose, make, solve];
    (cut, plans.into_iter().zip(passes).map(|(plan, passes)| Stage { plan, passes }).collect())
}

/// Returns the plan of a stage that multiplies by kernel blocks, without the stored blocks.
fn products<T: Real>(what: &str, shape: &ProblemSize, cut: PassShape, budget: usize) -> Plan {
    let (m, e) = (shape.map.p, shape.element);
    plan::rows(plan::base(what, shape, budget), shape, cut, 1, e)
        // room for landmarks and a tile of rows in f32 and f64, because a second solution may use
        // f64
        .term("landmarks", m * shape.d * 3 * size_of::<f64>(), RANK)
        .term("rows of a tile", cut.tile * shape.d * size_of::<f64>() / 2, "read fewer columns (`features`)")
        .term("preconditioner", PackedLower::bytes(m), RANK)
        .term("kernel block of a tile", cut.tile * (m * e + 16 * shape.t), RANK)
        .term("partial sums of a tile", KernelBlock::<T>::bytes(cut.tile, m, shape.t + 1), RANK)
}

/// Returns the plans of the preconditioner and of the iteration, both with the maximum number of
/// kernel blocks that fits, and where the kernel blocks are stored.
fn solving<T: Real>(shape: &ProblemSize, cut: PassShape, resources: &Resources<'_>) -> ([Plan; 2], Tiers) {
    let (m, threads, budget) = (shape.map.p, shape.threads, resources.memory);
    let sums = 8 * m * (2 * shape.t + 2);
    let mut make = products::<T>("preconditioner", shape, cut, budget)
        .term("sketch", sketch::making_bytes(m, cut.tile, threads), RANK)
        .term("vectors", sums, RANK);
    // the sums of the first pass, and the products of the iteration
    let vectors = cg::bytes(m, shape.t) + sums + Tiles::<f64>::bytes(threads, shape.t);
    let mut solve = products::<T>(plan::ITERATION, shape, cut, budget).term("vectors", vectors, RANK);
    let row = Blocks::<T>::row_bytes(m, shape.t);
    let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
    let room = |make: &Plan, solve: &Plan| (budget.saturating_sub(make.bytes().max(solve.bytes())) / row).min(n);
    let (mut kept, mut stored) = (room(&make, &solve), 0);
    if let Some(scratch) = resources.scratch.filter(|_| kept < n) {
        let decoded = shape.n.saturating_mul(row_on_disk::<T>(shape.d, shape));
        let left = on_disk::<T>(scratch.left().saturating_sub(decoded), shape);
        let reading = (READ_AHEAD + 2) * cut.tile * row;
        let reads = |plan: &Plan| plan.clone().term("kernel rows from scratch", reading, "leave `scratch` out");
        let [more_make, more_solve] = [&make, &solve].map(reads);
        // a run that fits without scratch must fit with it
        if left > 0 && more_make.bytes().max(more_solve.bytes()) <= budget {
            kept = room(&more_make, &more_solve);
            stored = left.min(n - kept);
            (make, solve) = (more_make, more_solve);
        }
    }
    let rest = n - kept - stored;
    let name = match (stored, rest) {
        (0, 0) => "kernel blocks of all rows".to_string(),
        (_, 0) => format!("kernel blocks of {kept} rows; the others are in scratch"),
        (0, _) => format!("kernel blocks of {kept} rows; the others are recomputed in every iteration"),
        _ => format!(
            "kernel blocks of {kept} rows; {stored} rows are in scratch, {rest} are recomputed in every iteration"
        ),
    };
    let tiers = Tiers { memory: kept, scratch: stored, computed: rest };
    ([make, solve].map(|plan| plan.term(name.clone(), kept * row, "")), tiers)
}

fn row_on_disk<T: Real>(features: usize, shape: &ProblemSize) -> u64 {
    Cache::<T>::row_bytes(&TableShape { stored: 0, features, targets: shape.t, weighted: false }) as u64
}

/// Returns the number of rows whose kernel blocks fit into this many bytes of scratch.
fn on_disk<T: Real>(bytes: u64, shape: &ProblemSize) -> usize {
    usize::try_from(bytes / row_on_disk::<T>(shape.map.p, shape)).unwrap_or(usize::MAX)
}

/// Learns without the Gram matrix: from kernel values in `T`, and again from values in f64 if the
/// precision of `T` is insufficient.
///
/// Errors of kernel values act like additional features of size ε that are almost unpenalised. If
/// the coefficients are so large that these errors are noticeable compared with the error of the
/// fit, the iteration solves a different problem, even if its residual is small.
pub(super) fn fit<T: Real>(
    ridge: &Ridge,
    data: &FitData<'_, T>,
    set: &LandmarkSet<T>,
    shape: &ProblemSize,
) -> Result<Found<T>> {
    let FitData { source, cut, resources, .. } = *data;
    let kernel = data.kernel.build()?;
    kapprox::kernel::require_positive_definite(&*kernel.typed::<f64>(), "Nyström ridge regression")?;
    let wide: Vec<f64> = set.points.iter().map(|v| v.to_f64()).collect();
    let z = MatRef::from_row_major_slice(&wide, set.len(), set.d);
    let centre = data.targets.centre();
    let free = ridge.intercept == Intercept::Free;
    // the intercept of the original targets is penalised or absent, so the shift is undone
    let shift: Vec<f64> = centre.iter().map(|centre| if free { 0.0 } else { *centre }).collect();
    let run = NystromFit { ridge, data, kernel: &kernel, z, shift: &shift, lambda: ridge.lambda::<T>()? };
    let mut solved = run.solve(source, set.as_mat(), shape, cut)?;
    let wide = solved.needs_wide::<T>();
    if wide {
        let passes = solved.passes;
        // with half the rows per tile, kernel values in f64 need the same number of bytes
        let shape = ProblemSize { element: size_of::<f64>(), ..shape.clone() };
        let cut = PassShape { tile: cut.tile.div_ceil(2), ..cut };
        solved = run.solve(&WideRows(source), z, &shape, cut)?;
        solved.passes += passes;
    }
    let NystromSolution { found, intercept, errors, sums, kept, passes } = solved;
    found.check("raise `lambda`, or use `method` direct")?;
    warn_of_residual(&found, ridge.tolerated::<T>(), "raise `lambda`", resources);
    Ok(Found {
        basis: Some(Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() }),
        intercept: intercept.iter().zip(&centre).map(|(c, centre)| if free { c + centre } else { *c }).collect(),
        lambda: Some(run.lambda),
        method: Some(why(ridge, kept, sums.rows, wide)),
        figures: found.figures(),
        train: Some(sums.score(&errors)),
        passes: 1 + passes,
        weights: found.x,
        ..Found::default()
    })
}

struct NystromFit<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
    kernel: &'a Arc<dyn AnyKernel>,
    z: MatRef<'a, f64>,
    /// Numbers that are added to the targets.
    shift: &'a [f64],
    lambda: f64,
}

/// A solution, whose coefficients are in the result of conjugate gradient.
struct NystromSolution {
    found: cg::CgSolution,
    intercept: Vec<f64>,
    /// Σ (y − f)² over the rows, for every target.
    errors: Vec<f64>,
    sums: FirstMoments,
    /// Numbers of rows whose kernel values were in memory and in scratch.
    kept: [usize; 2],
    passes: u64,
}

impl NystromSolution {
    /// Returns true if kernel values in `T` are insufficient: their rounding is noticeable, or
    /// prevents convergence.
    fn needs_wide<T: Real>(&self) -> bool {
        let mse = self.errors.iter().sum::<f64>() / (self.sums.rows * self.errors.len()).max(1) as f64;
        size_of::<T>() < size_of::<f64>()
            && (!self.found.converged
                || needs_wide_for::<T>(self.found.x.as_ref(), &vec![mse.sqrt(); self.errors.len()]))
    }
}

impl<N: Real> NystromFit<'_, N> {
    /// Solves from kernel values in `T`, between rows and landmarks of that type.
    fn solve<T: Real>(
        &self,
        source: &dyn RowSource<T>,
        landmarks: MatRef<'_, T>,
        shape: &ProblemSize,
        cut: PassShape,
    ) -> Result<NystromSolution> {
        let FitData { targets, rows, resources, options, .. } = *self.data;
        let (own, exact) = (self.kernel.typed::<T>(), self.kernel.typed::<f64>());
        let (_, tiers) = solving::<T>(shape, cut, resources);
        let pass = Pass { journal: None, ..cut.pass(1, resources, &Unobserved) };
        let behind = |scratch: &Scratch| (on_disk::<T>(scratch.left(), shape) as u64).min(rows);
        let scratch = resources.scratch.filter(|_| tiers.scratch > 0).map(|scratch| (scratch, behind(scratch)));
        let mut blocks = Blocks::new(source, targets, &*own, landmarks, pass, Room { memory: tiers.memory, scratch });
        let stored = source.range().end - source.range().start;
        let mut sums = FirstMoments::of(&mut blocks, &*resources.stages.stage("kernel blocks", Some(stored)))?;
        sums.shifted(self.shift);
        let mu = self.lambda * sums.rows as f64;
        let constant = Constant::new(self.ridge.intercept, sums.rows, mu);
        let problem = NystromProblem { kernel: &*exact, z: self.z, sums: &sums, mu, constant };
        let (factor, sketched) = {
            let observer = resources.stages.stage("preconditioner", None);
            self.ridge.preconditioner.unwrap_or_default().factor(problem, options.seed, &mut blocks, &*observer)?
        };
        let (in_memory, in_scratch) = blocks.kept_rows();
        let observer = resources.stages.stage(plan::ITERATION, None);
        let (tolerance, right) = (self.ridge.tolerated::<N>(), problem.right());
        let until = Until { tolerance, observer: &*observer, journal: resources.journal };
        let k_mm = Tiles::new(&*exact, self.z, resources.workers);
        let mut normal =
            Normal { problem, blocks: &mut blocks, k_mm, factor: &factor, observer: &*observer, passes: 0 };
        let found = cg::solve(&mut normal, right.as_ref(), Norm::Preconditioned, until)?;
        let (iterated, intercept) = (normal.passes, problem.intercept(found.x.as_ref()));
        let (errors, last) = squared_errors(&mut blocks, found.x.as_ref(), &intercept, self.shift, &*observer)?;
        let (kept, passes) = ([in_memory, in_scratch], sketched + iterated + last);
        Ok(NystromSolution { found, intercept, errors, sums, kept, passes })
    }
}

pub(super) fn warn_of_residual(found: &cg::CgSolution, asked: f64, remedy: &str, resources: &Resources<'_>) {
    if !found.converged {
        resources.stages.warn(format!(
            "conjugate gradient did not converge: its relative residual is {:.1e}, above the requested {asked:.1e}; {remedy}",
            found.residual()
        ));
    }
}

fn why(ridge: &Ridge, [kept, stored]: [usize; 2], n: usize, wide: bool) -> Solved {
    let blocks = match (stored, n - kept - stored) {
        (0, 0) => "of all rows in memory".to_string(),
        (0, rest) => format!("of {kept} rows in memory, {rest} recomputed in every iteration"),
        (_, 0) => format!("of {kept} rows in memory, {stored} in scratch"),
        (_, rest) => format!("of {kept} rows in memory, {stored} in scratch, {rest} recomputed in every iteration"),
    };
    let why = match ridge.method {
        RidgeMethod::Auto => "the Gram matrix does not fit `memory`",
        _ => "as requested",
    };
    let wide = if wide { " in f64, because f32 is too coarse for the coefficients," } else { "" };
    Solved {
        name: "pcg",
        why: format!(
            "conjugate gradient ({}), kernel blocks{wide} {blocks}: {why}",
            ridge.preconditioner.unwrap_or_default()
        ),
    }
}
