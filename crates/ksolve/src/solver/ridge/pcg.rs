//! Nyström ridge regression by conjugate gradient: `method` pcg, and `auto` where the Gram matrix does not fit.
//!
//! See [`super::iterative::nystrom`] for the problem. There is one rank and one lambda, and no certificate: it would need the
//! features that this way avoids. A run that is resumed computes its kernel blocks and its preconditioner anew, and goes on
//! behind its last iteration.
//!
//! *Passes*: sums; and, where not all kernel blocks are in memory, one for every 2,048 rows of the sketch, and where they are not
//! in scratch either, one for every iteration and one for the training error. *Time*: kernel blocks, 4m rows of a sketch for the
//! preconditioner, and a reading of the blocks in every iteration, of which there are as many as halvings of the residual.

use super::exact::figures;
use super::iterative::blocks::{Blocks, READ_AHEAD, Room};
use super::iterative::cg::{self, Norm, Until};
use super::iterative::constant::Constant;
use super::iterative::nystrom::{Normal, Sums, squared_errors};
use super::iterative::packed::PackedLower;
use super::iterative::rows::Rows;
use super::iterative::sketch::{self, Making, Preconditioner};
use super::iterative::tiles::Tiles;
use super::{Intercept, Ridge, RidgeMethod};
use crate::model::Basis;
use crate::solver::{Features, Fitted, Points};
use crate::train::plan::{self, Cut, RANK};
use crate::train::{Costs, Resources, Shape, Solved, Stage, Work, explained, needs_wide_for};
use crate::{Result, Targets};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::landmark::LandmarkSet;
use kapprox::{Kernel, Real};
use kstore::pass::{Observer, Unobserved};
use kstore::scratch::{Cache, Scratch};
use kstore::{Pass, Plan, RowBlock, RowSource, TableShape};

/// Time of f64 products for that of f32; of adding a row to eight rows of a sketch for that of a sweep: as measured. Bytes
/// per second from scratch: between a disk and the system's cache of it.
const DOUBLE: f64 = 2.5;
const SCATTER: f64 = 5.0;
const SCRATCH: f64 = 4e9;

/// The numbers of rows whose kernel blocks are in memory and in scratch.
#[derive(Clone, Copy, Debug)]
struct Tiers {
    memory: usize,
    scratch: usize,
    computed: usize,
}

/// The stages: statistics, landmarks, preconditioner, iteration.
pub(super) fn stages<T: Real>(ridge: &Ridge, work: &Work<'_>) -> (Cut, Vec<Stage>) {
    let (shape, memory) = (&work.shape, work.resources.memory);
    let (cut, costs) = (plan::one_lane(shape), Costs::new(work).of_surface(work, 1));
    let ([make, solve], tiers) = solving::<T>(shape, cut, work.resources);
    let choose = plan::choosing(shape, cut, &work.options.landmarks, memory);
    let [made, iterated] = Time { costs, tiers, preconditioner: ridge.preconditioner }.of::<T>(make, solve, ridge);
    (cut, vec![costs.scan(plan::scan(shape, cut, memory)), costs.choose(choose, cut), made, iterated])
}

/// What the time of the preconditioner and of the iteration depends on.
#[derive(Clone, Copy)]
struct Time {
    costs: Costs,
    tiers: Tiers,
    preconditioner: Preconditioner,
}

impl Time {
    /// The share of all rows that `rows` are.
    fn share(&self, rows: usize) -> f64 {
        rows as f64 / (self.tiers.memory + self.tiers.scratch + self.tiers.computed).max(1) as f64
    }

    /// The stages of these plans.
    fn of<T: Real>(self, make: Plan, solve: Plan, ridge: &Ridge) -> [Stage; 2] {
        let Self { costs, tiers, preconditioner } = self;
        let computed = u64::from(tiers.computed > 0);
        // passes, rows that are added to a sketch, rows whose kernel values are computed again, rows of the Gram matrix
        let (groups, sketched, again, added) = match (preconditioner, sketch::groups_of(costs.rows as usize, costs.m)) {
            (Preconditioner::Falkon, _) => (0, 0.0, 0.0, costs.m as f64),
            (Preconditioner::Krill, None) => (computed, 0.0, self.share(tiers.computed), costs.rows),
            (Preconditioner::Krill, Some(groups)) => {
                let elsewhere = 1.0 - self.share(tiers.memory);
                (if elsewhere > 0.0 { groups } else { 0 }, 1.0, elsewhere, 4.0 * costs.m as f64)
            }
        };
        // as many iterations as halvings; a product more where the true residual is taken, and one for the training error
        let visits = (-ridge.tolerated::<T>().clamp(f64::EPSILON, 0.5).log2()).ceil() + 3.0;
        let m = costs.m as f64;
        let made = costs.stage(make, 1 + groups, move |rates| {
            let scale = costs.scale(rates);
            let (kernel, sweep, rows) = (scale * rates.linear, scale * rates.sweep, costs.rows * rates.selected);
            let gram = added * scale * scale * rates.gram * DOUBLE;
            let first = (costs.rows * rates.decode).max(rows * kernel);
            first + rows * (sketched * SCATTER * sweep + again * kernel) + gram + scale.powi(3) * rates.system
        });
        let iterated = costs.stage(solve, computed * visits as u64, move |rates| {
            let scale = costs.scale(rates);
            let (kernel, sweep, rows) = (scale * rates.linear, scale * rates.sweep, costs.rows * rates.selected);
            let read = m * size_of::<T>() as f64 / SCRATCH;
            let again = (costs.rows * rates.decode).max(rows * self.share(tiers.computed) * kernel);
            let visit =
                rows * (sweep + self.share(tiers.scratch) * read) + if tiers.computed > 0 { again } else { 0.0 };
            // K_mm in f64, half of it
            visits * (visit + m / 2.0 * kernel * DOUBLE)
        });
        [made, iterated]
    }
}

/// The plan of a stage of products with the kernel's blocks, without the blocks that are kept.
fn products<T: Real>(what: &str, shape: &Shape, cut: Cut, budget: usize) -> Plan {
    let (m, e) = (shape.map.p, shape.element);
    plan::rows(plan::base(what, shape, budget), shape, cut, 1, e)
        .term("landmarks", m * shape.d * (2 * e + 8), RANK)
        .term("preconditioner", PackedLower::bytes(m), RANK)
        .term("kernel block of a tile", cut.tile * (m * e + 16 * shape.t), RANK)
        .term("sums of its strips", Rows::<T>::bytes(cut.tile, m, shape.t + 1), RANK)
}

/// The plans of the preconditioner and of the iteration, both with as many kernel blocks as there is room for.
fn solving<T: Real>(shape: &Shape, cut: Cut, resources: &Resources<'_>) -> ([Plan; 2], Tiers) {
    let (m, threads, budget) = (shape.map.p, shape.threads, resources.memory);
    let sums = 8 * m * (2 * shape.t + 2);
    let mut make = products::<T>("preconditioner", shape, cut, budget)
        .term("sketch", sketch::making_bytes(m, cut.tile, threads), RANK)
        .term("vectors", sums, RANK);
    // the sums of the first pass, the products of the iteration
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
        // a run that fits without scratch fits with it
        if left > 0 && more_make.bytes().max(more_solve.bytes()) <= budget {
            kept = room(&more_make, &more_solve);
            stored = left.min(n - kept);
            (make, solve) = (more_make, more_solve);
        }
    }
    let rest = n - kept - stored;
    let name = match (stored, rest) {
        (0, 0) => "kernel blocks, all kept".to_string(),
        (_, 0) => format!("kernel blocks of {kept} rows; those of the others are in scratch"),
        (0, _) => format!("kernel blocks of {kept} rows; those of the others are computed in every iteration"),
        _ => format!("kernel blocks of {kept} rows; of {stored} in scratch, of {rest} computed in every iteration"),
    };
    let tiers = Tiers { memory: kept, scratch: stored, computed: rest };
    ([make, solve].map(|plan| plan.term(name.clone(), kept * row, "")), tiers)
}

/// Bytes in scratch of a row of so many features.
fn row_on_disk<T: Real>(features: usize, shape: &Shape) -> u64 {
    Cache::<T>::row_bytes(&TableShape { stored: 0, features, targets: shape.t, weighted: false }) as u64
}

/// Rows whose kernel blocks fit so many bytes of scratch.
fn on_disk<T: Real>(bytes: u64, shape: &Shape) -> usize {
    usize::try_from(bytes / row_on_disk::<T>(shape.map.p, shape)).unwrap_or(usize::MAX)
}

/// Learns without the Gram matrix.
pub(super) fn fit<T: Real>(
    ridge: &Ridge,
    data: &Features<'_, T>,
    points: &Points<'_, T>,
    set: &LandmarkSet<T>,
) -> Result<Fitted<T>> {
    let Features { source, targets, cut, resources, .. } = *data;
    let shape = points.shape;
    let (_, tiers) = solving::<T>(shape, cut, resources);
    let any = data.kernel.build()?;
    let (own, exact) = (any.typed::<T>(), any.typed::<f64>());
    kapprox::kernel::require_positive_definite(&*exact, "Nyström ridge regression")?;
    let workers = resources.workers;
    let pass = Pass { journal: None, ..cut.pass(1, resources, &Unobserved) };
    let behind = |scratch: &Scratch| (on_disk::<T>(scratch.left(), shape) as u64).min(data.rows);
    let scratch = resources.scratch.filter(|_| tiers.scratch > 0).map(|scratch| (scratch, behind(scratch)));
    let room = Room { memory: tiers.memory, scratch };
    let mut blocks = Blocks::new(source, targets, &*own, set.as_mat(), pass, room);
    let stored = source.range().end - source.range().start;
    let mut sums = Sums::of(&mut blocks, &*resources.stages.stage("kernel blocks", Some(stored)))?;
    let centre = targets.centre();
    let free = ridge.intercept == Intercept::Free;
    // the penalty on the constant, or its absence, is that of the targets as they were
    let shift: Vec<f64> = centre.iter().map(|centre| if free { 0.0 } else { *centre }).collect();
    sums.shifted(&shift);
    let lambda = ridge.lambda::<T>()?;
    let mu = lambda * sums.rows as f64;
    let constant = Constant::new(ridge.intercept, sums.rows, mu);
    let wide: Vec<f64> = set.points.iter().map(|v| v.to_f64()).collect();
    let z = MatRef::from_row_major_slice(&wide, set.len(), set.d);
    let (factor, sketched) = {
        let observer = resources.stages.stage("preconditioner", None);
        let (precision, kind, seed) = (std::marker::PhantomData::<T>, ridge.preconditioner, data.options.seed);
        let (sums, exact, observer) = (&sums, &*exact, &*observer);
        Making { kind, sums, constant, mu, seed, exact, z, observer, precision }.factor(&mut blocks)?
    };
    let (kept, stored) = blocks.kept_rows();
    let observer = resources.stages.stage(plan::ITERATION, None);
    let (until, right) = (until::<T>(ridge, resources, &*observer), sums.right(constant));
    let k_mm = Tiles::new(&*exact, z, workers);
    let (means, factor) = (&sums.means[..], &factor);
    let mut normal = Normal { blocks: &mut blocks, k_mm, means, constant, mu, factor, observer: &*observer, passes: 0 };
    let mut found = cg::solve(&mut normal, right.as_ref(), Norm::Preconditioned, until)?;
    let iterated = normal.passes;
    let narrow = size_of::<T>() < size_of::<f64>();
    found.check(if narrow {
        "use `precision` f64, raise `lambda`, or take `method` direct"
    } else {
        "raise `lambda`, or take `method` direct"
    })?;
    let remedy = if narrow { "use `precision` f64, or raise `lambda`" } else { "raise `lambda`" };
    warn_of_residual(&found, ridge.tolerated::<T>(), remedy, resources);
    let a = std::mem::replace(&mut found.x, Mat::new());
    let mean = |j: usize| sums.mean_y[j] - a.col(j).iter().zip(means).map(|(a, mean)| a * mean).sum::<f64>();
    let intercept: Vec<f64> = (0..a.ncols()).map(|j| constant.gamma * mean(j)).collect();
    let deviations: Vec<f64> = (0..a.ncols()).map(|j| variance(&sums, j).sqrt()).collect();
    let wide = needs_wide_for::<T>(a.as_ref(), &deviations);
    let (errors, last) = match wide {
        false => squared_errors(&mut blocks, a.as_ref(), &intercept, &shift, &*observer)?,
        // the model predicts with kernel values in f64, and so its error is told
        true => {
            drop(blocks);
            let model = Wide { kernel: &*exact, z, a: a.as_ref(), intercept: &intercept, shift: &shift };
            (model.squared_errors(source, targets, &Pass { observer: &*observer, ..pass })?, 1)
        }
    };
    drop(observer);
    Ok(Fitted {
        wide,
        basis: Some(Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() }),
        weights: a,
        intercept: intercept.iter().zip(&centre).map(|(c, centre)| if free { c + centre } else { *c }).collect(),
        lambda: Some(lambda),
        method: Some(why(ridge, [kept, stored], sums.rows)),
        figures: figures(&found),
        train: Some(score(&errors, &sums)),
        passes: 1 + sketched + iterated + last,
        ..Fitted::default()
    })
}

/// A model whose kernel values are computed in f64, whatever the type of the rows.
struct Wide<'a> {
    kernel: &'a dyn Kernel<f64>,
    z: MatRef<'a, f64>,
    a: MatRef<'a, f64>,
    intercept: &'a [f64],
    /// The numbers that are added to the targets.
    shift: &'a [f64],
}

/// Rows whose kernel values in f64 one thread holds.
const WIDE_ROWS: usize = 128;

impl Wide<'_> {
    /// Computes Σ (y − c − K a)² over the rows, for every target: one pass.
    fn squared_errors<T: Real>(
        &self,
        source: &dyn RowSource<T>,
        targets: &Targets,
        pass: &Pass<'_>,
    ) -> Result<Vec<f64>> {
        let (t, mut sums) = (self.a.ncols(), vec![0.0; self.a.ncols()]);
        pass.visit(source, |block| {
            let mut parts = vec![0.0; block.len().div_ceil(WIDE_ROWS) * t];
            let work: Vec<(usize, &mut [f64])> = parts.chunks_mut(t).enumerate().collect();
            pass.workers.each(work, |(strip, part)| self.add_strip(block, targets, strip * WIDE_ROWS, part));
            parts.chunks(t).for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            Ok::<(), crate::Error>(())
        })?;
        Ok(sums)
    }

    /// Adds the squared errors of the rows from `first` on, as many as a strip has.
    fn add_strip<T: Real>(&self, block: &RowBlock<'_, T>, targets: &Targets, first: usize, sums: &mut [f64]) {
        let rows = WIDE_ROWS.min(block.len() - first);
        let x: Vec<f64> = block.x[first * block.d..][..rows * block.d].iter().map(|v| v.to_f64()).collect();
        let mut k = Mat::<f64>::zeros(rows, self.z.nrows());
        self.kernel.block(MatRef::from_row_major_slice(&x, rows, block.d), self.z, k.as_mut());
        let mut f = Mat::<f64>::zeros(rows, self.a.ncols());
        matmul(f.as_mut(), Accum::Replace, k.as_ref(), self.a, 1.0, Par::Seq);
        for (j, sum) in sums.iter_mut().enumerate() {
            for i in 0..rows {
                // a row whose class is not known was refused by the pass before
                let y = targets.value(block, first + i, j).unwrap_or(f64::NAN) + self.shift[j];
                *sum += (y - self.intercept[j] - f[(i, j)]).powi(2);
            }
        }
    }
}

/// Warns of a residual above the one that was asked for.
pub(super) fn warn_of_residual(found: &cg::Found, asked: f64, remedy: &str, resources: &Resources<'_>) {
    if !found.converged {
        resources.stages.warn(format!(
            "conjugate gradient ended at a relative residual of {:.1e}, above the {asked:.1e} asked for; {remedy}",
            found.residual()
        ));
    }
}

/// How far the iteration goes.
pub(super) fn until<'a, T: Real>(ridge: &Ridge, resources: &Resources<'a>, observer: &'a dyn Observer) -> Until<'a> {
    Until { tolerance: ridge.tolerated::<T>(), observer, journal: resources.journal }
}

/// Variance of target `j`.
fn variance(sums: &Sums, j: usize) -> f64 {
    (sums.squares[j] / sums.rows as f64 - sums.mean_y[j] * sums.mean_y[j]).max(0.0)
}

/// Mean squared error over targets, and the share of their variance that is explained.
fn score(errors: &[f64], sums: &Sums) -> (f64, Option<f64>) {
    let variance = (0..errors.len()).map(|j| variance(sums, j)).sum();
    explained(errors.iter().sum::<f64>() / sums.rows as f64, variance, errors.len())
}

fn why(ridge: &Ridge, [kept, stored]: [usize; 2], n: usize) -> Solved {
    let name = match ridge.preconditioner {
        Preconditioner::Krill => "krill",
        Preconditioner::Falkon => "falkon",
    };
    let blocks = match (stored, n - kept - stored) {
        (0, 0) => "of all rows in memory".to_string(),
        (0, rest) => format!("of {kept} rows in memory, of {rest} computed each time"),
        (_, 0) => format!("of {kept} rows in memory, of {stored} in scratch"),
        (_, rest) => format!("of {kept} rows in memory, of {stored} in scratch, of {rest} computed each time"),
    };
    let why = match ridge.method {
        RidgeMethod::Auto => "the Gram matrix does not fit `memory`",
        _ => "as asked for",
    };
    Solved { name: "pcg", why: format!("conjugate gradient ({name}), kernel blocks {blocks}: {why}") }
}
