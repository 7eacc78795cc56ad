//! The run of Nyström ridge regression by conjugate gradient: `--method pcg`, and `auto` where the Gram matrix does not fit.
//!
//! See [`crate::iterative::nystrom`] for the problem. There is one rank and one lambda, and no certificate: it would need the
//! features that this run avoids. A run that is resumed computes its kernel blocks and its preconditioner anew, and goes on
//! behind its last iteration.

use super::cached;
use super::exact::{check_leave_one_out, figures};
use super::landmarks::{self, Selection};
use super::options::{LandmarkSource, Method, Resources, TrainOptions, refuse_weights};
use super::plan::{self, Cut, RANK, Shape};
use super::prepare::{self, check};
use super::survey::survey;
use super::trained::{Solved, Trained, explained, needs_wide_for};
use crate::iterative::blocks::{Blocks, READ_AHEAD, Room};
use crate::iterative::cg::{self, Norm, Until};
use crate::iterative::constant::Constant;
use crate::iterative::nystrom::{Normal, Sums, squared_errors};
use crate::iterative::packed::PackedLower;
use crate::iterative::rows::Rows;
use crate::iterative::sketch::{self, Making, Preconditioner};
use crate::iterative::tiles::Tiles;
use crate::model::Basis;
use crate::{Error, Intercept, Result, Surface};
use faer::{Mat, MatRef};
use kapprox::Real;
use kstore::pass::{Observer, Unobserved};
use kstore::scratch::{Cache, Scratch};
use kstore::{Pass, Plan, RowSource, Selected, TableRows, TableShape};

const UNIFORM: &str = "choose --landmarks uniform or lower --rank";

/// What the run would hold; see [`super::plan`].
pub(super) fn plan<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    t: usize,
) -> Result<(Cut, Vec<Plan>)> {
    let (cut, plans, _) = planned::<T>(selected, options, resources, t)?;
    Ok((cut, plans))
}

/// Where kernel blocks are, by rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiers {
    pub(super) memory: usize,
    pub(super) scratch: usize,
    pub(super) computed: usize,
}

/// The plan, and where kernel blocks are by it.
pub(super) fn planned<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    t: usize,
) -> Result<(Cut, Vec<Plan>, Tiers)> {
    let shape = prepare::shape::<T>(selected, options, resources, t, 1)?;
    let cut = cut(&shape);
    let mut plans = vec![plan::scan(&shape, cut, resources.memory), choosing(&shape, cut, options, resources.memory)];
    let (solving, tiers) = solving::<T>(&shape, cut, resources);
    plans.extend(solving);
    Ok((cut, plans, tiers))
}

/// One lane with all threads inside the products.
fn cut(shape: &Shape) -> Cut {
    let tile = plan::tile_rows(shape.d, shape.map.p, shape.element);
    Cut { tile, segment: 32 * tile as u64, scan_lanes: shape.threads, gram_lanes: 1, prefetch: 2 }
}

/// Landmark selection: schemes that are no pivoted Cholesky make no factor.
fn choosing(shape: &Shape, cut: Cut, options: &TrainOptions, budget: usize) -> Plan {
    let plan = plan::landmarks(shape, cut, budget);
    let factors = match &options.landmarks {
        LandmarkSource::Scheme(name) => !matches!(name.as_str(), "uniform" | "kmeans"),
        LandmarkSource::Rows(_) => false,
    };
    let needed =
        |name: &str| factors || !["factor of the landmarks", "features of a tile", "proposals"].contains(&name);
    let terms = plan.terms.into_iter().filter(|term| needed(&term.name));
    let remedy = |term: kstore::budget::Term| match term.remedy {
        RANK => kstore::budget::Term { remedy: UNIFORM, ..term },
        _ => term,
    };
    Plan { terms: terms.map(remedy).collect(), ..plan }
}

/// What the products with the kernel's blocks need, kept blocks aside.
fn products<T: Real>(what: &str, shape: &Shape, cut: Cut, budget: usize) -> Plan {
    let (m, e) = (shape.map.p, shape.element);
    plan::rows(plan::base(what, shape, budget), shape, cut, 1, e)
        .term("landmarks", m * shape.d * (2 * e + 8), RANK)
        .term("preconditioner", PackedLower::bytes(m), RANK)
        .term("kernel block of a tile", cut.tile * (m * e + 16 * shape.t), RANK)
        .term("sums of its strips", Rows::<T>::bytes(cut.tile, m, shape.t + 1), RANK)
}

/// The preconditioner and the iteration, both with as many kernel blocks as there is room for.
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
        let reads = |plan: &Plan| plan.clone().term("kernel rows from scratch", reading, "leave --scratch out");
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
    Cache::<T>::row_bytes(&TableShape { stored: 0, features, targets: shape.t }) as u64
}

/// Rows whose kernel blocks fit so many bytes of scratch.
fn on_disk<T: Real>(bytes: u64, shape: &Shape) -> usize {
    usize::try_from(bytes / row_on_disk::<T>(shape.map.p, shape)).unwrap_or(usize::MAX)
}

/// True where `auto` comes to this run: there is one system, its direct solution does not fit, and this does.
pub(super) fn is_taken<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    direct: &[Plan],
    t: usize,
) -> Result<bool> {
    let fits = |plans: &[Plan]| plans.iter().all(|plan| plan.bytes() <= plan.budget);
    Ok(match options.system.method {
        Method::Pcg => true,
        Method::Direct => false,
        Method::Auto
            if fits(direct) || selected.is_weighted() || !options.is_one_cell() || options.system.leave_one_out =>
        {
            false
        }
        Method::Auto => fits(&plan::<T>(selected, options, resources, t)?.1),
    })
}

/// Learns Nyström ridge regression without its Gram matrix.
///
/// *Passes*: statistics, candidates, sums; and, where not all kernel blocks are in memory, one for every 2,048 rows of the
/// sketch, and where they are not in scratch either, one for every iteration and one for the training error.
///
/// # Errors
/// Those of [`super::train`].
pub(super) fn train<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    options.check()?;
    refuse_weights(selected, "--method pcg", "take --method direct")?;
    check_leave_one_out(options)?;
    let (t, _) = prepare::assumed(selected, options);
    let (cut, plans) = plan::<T>(selected, options, resources, t)?;
    check(plans)?;
    let survey = survey(selected, options, cut, resources)?;
    let targets = survey.targets_of_regression();
    let (_, plans, tiers) = planned::<T>(selected, options, resources, targets.count())?;
    let shape = prepare::shape::<T>(selected, options, resources, targets.count(), 1)?;
    let planned_bytes = check(plans)?;
    let rows: TableRows<T> = selected.rows(survey.reading())?;
    let cache = cached::rows(&rows, cut, resources)?;
    let source: &dyn RowSource<T> = cache.as_ref().map_or(&rows, |cache| cache);
    let chosen = landmarks::select(source, survey.rows(), &survey.reading(), options, cut, resources)?;
    let Selection { set, kernel, among, passes } = chosen;
    let any = kernel.build()?;
    let (own, exact) = (any.typed::<T>(), any.typed::<f64>());
    kapprox::kernel::require_positive_definite(&*exact, "Nyström ridge regression")?;
    let workers = resources.workers;
    let pass = Pass { journal: None, ..cut.pass(1, resources, &Unobserved) };
    let behind = |scratch: &Scratch| (on_disk::<T>(scratch.left(), &shape) as u64).min(survey.rows());
    let scratch = resources.scratch.filter(|_| tiers.scratch > 0).map(|scratch| (scratch, behind(scratch)));
    let room = Room { memory: tiers.memory, scratch };
    let mut blocks = Blocks::new(source, &targets, &*own, set.as_mat(), pass, room);
    let stored = source.range().end - source.range().start;
    let mut sums = Sums::of(&mut blocks, &*resources.stages.stage("kernel blocks", Some(stored)))?;
    let centre = targets.centre();
    let free = options.intercept == Intercept::Free;
    // the penalty on the constant, or its absence, is that of the targets as they were
    let shift: Vec<f64> = centre.iter().map(|centre| if free { 0.0 } else { *centre }).collect();
    sums.shifted(&shift);
    let lambda = options.lambdas.first().copied().ok_or(Error::NoCell { precision: <T as kstore::Real>::NAME })?;
    let mu = lambda * sums.rows as f64;
    let constant = Constant::new(options.intercept, sums.rows, mu);
    let wide: Vec<f64> = set.points.iter().map(|v| v.to_f64()).collect();
    let z = MatRef::from_row_major_slice(&wide, set.len(), set.d);
    let kind = options.system.preconditioner;
    let (factor, sketched) = {
        let observer = resources.stages.stage("preconditioner", None);
        let precision = std::marker::PhantomData::<T>;
        let (sums, exact, seed, observer) = (&sums, &*exact, options.seed, &*observer);
        Making { kind, sums, constant, mu, seed, exact, z, observer, precision }.factor(&mut blocks)?
    };
    let (kept, stored) = blocks.kept_rows();
    let observer = resources.stages.stage(plan::ITERATION, None);
    let (until, right) = (until::<T>(options, resources, &*observer), sums.right(constant));
    let k_mm = Tiles::new(&*exact, z, workers);
    let (means, factor) = (&sums.means[..], &factor);
    let mut normal = Normal { blocks: &mut blocks, k_mm, means, constant, mu, factor, observer: &*observer, passes: 0 };
    let mut found = cg::solve(&mut normal, right.as_ref(), Norm::Preconditioned, until)?;
    let iterated = normal.passes;
    let narrow = size_of::<T>() < size_of::<f64>();
    found.check(if narrow {
        "use --precision f64, raise --lambda, or take --method direct"
    } else {
        "raise --lambda, or take --method direct"
    })?;
    let remedy = if narrow { "use --precision f64, or raise --lambda" } else { "raise --lambda" };
    warn_of_residual(&found, options.system.residual::<T>(), remedy, resources);
    let a = std::mem::replace(&mut found.x, Mat::new());
    let mean = |j: usize| sums.mean_y[j] - a.col(j).iter().zip(means).map(|(a, mean)| a * mean).sum::<f64>();
    let intercept: Vec<f64> = (0..a.ncols()).map(|j| constant.gamma * mean(j)).collect();
    let (errors, last) = squared_errors(&mut blocks, a.as_ref(), &intercept, &shift, &*observer)?;
    drop(observer);
    let m = set.len();
    let deviations: Vec<f64> = (0..a.ncols()).map(|j| variance(&sums, j).sqrt()).collect();
    Ok(Trained {
        link: None,
        pairs: false,
        rows: survey.rows(),
        scaler: survey.scaler.clone(),
        classes: survey.classes.clone(),
        kernel,
        wide: needs_wide_for::<T>(a.as_ref(), &deviations),
        basis: Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() },
        coefficients: a,
        intercept: intercept.iter().zip(&centre).map(|(c, centre)| if free { c + centre } else { *c }).collect(),
        rank: m,
        lambda: Some(lambda),
        certificate: None,
        certificates: Vec::new(),
        surface: Surface::default(),
        method: Some(why(options, kind, [kept, stored], sums.rows)),
        figures: figures(&found),
        left_out: None,
        quadratic: None,
        train: Some(score(&errors, &sums)),
        largest_rank: m,
        landmarks: Some((m, among)),
        passes: 2 + u64::from(cache.is_some()) + passes + sketched + iterated + last,
        planned_bytes,
    })
}

/// Tells of a residual above the one that was asked for.
pub(super) fn warn_of_residual(found: &cg::Found, asked: f64, remedy: &str, resources: &Resources<'_>) {
    if !found.converged {
        resources.stages.warn(format!(
            "conjugate gradient ended at a relative residual of {:.1e}, above the {asked:.1e} asked for; {remedy}",
            found.residual()
        ));
    }
}

/// How far the iteration goes.
pub(super) fn until<'a, T: Real>(
    options: &TrainOptions,
    resources: &Resources<'a>,
    observer: &'a dyn Observer,
) -> Until<'a> {
    Until { tolerance: options.system.residual::<T>(), observer, journal: resources.journal }
}

/// Variance of a target.
fn variance(sums: &Sums, j: usize) -> f64 {
    (sums.squares[j] / sums.rows as f64 - sums.mean_y[j] * sums.mean_y[j]).max(0.0)
}

/// Mean squared error over targets, and the share of their variance that is explained.
fn score(errors: &[f64], sums: &Sums) -> (f64, Option<f64>) {
    let variance = (0..errors.len()).map(|j| variance(sums, j)).sum();
    explained(errors.iter().sum::<f64>() / sums.rows as f64, variance, errors.len())
}

fn why(options: &TrainOptions, kind: Preconditioner, [kept, stored]: [usize; 2], n: usize) -> Solved {
    let name = match kind {
        Preconditioner::Krill => "krill",
        Preconditioner::Falkon => "falkon",
    };
    let blocks = match (stored, n - kept - stored) {
        (0, 0) => "of all rows in memory".to_string(),
        (0, rest) => format!("of {kept} rows in memory, of {rest} computed each time"),
        (_, 0) => format!("of {kept} rows in memory, of {stored} in scratch"),
        (_, rest) => format!("of {kept} rows in memory, of {stored} in scratch, of {rest} computed each time"),
    };
    let why = match options.system.method {
        Method::Auto => "the Gram matrix does not fit --memory",
        _ => "as asked for",
    };
    Solved { name: "pcg", why: format!("conjugate gradient ({name}), kernel blocks {blocks}: {why}") }
}
