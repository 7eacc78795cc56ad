//! Support vector machines with the exact kernel: `map` exact.
//!
//! The problems of [`super`] are solved in their duals over the whole space of the kernel, with
//! f(x) = Σ β_i k(x_i, x) + b, by rounds of sequential minimal optimisation ([`dual`], [`smo`]).
//! The rows stay in memory; kernel values are stored if they fit and otherwise recomputed,
//! bit-identically. The model stores the support vectors: the rows with a nonzero multiplier in any
//! SVM.
//!
//! For the linear kernel on sparse rows, dual coordinate descent needs no kernel values, and the
//! model stores no rows.
//!
//! A kernel that is not positive definite, such as the sigmoid, is accepted, as in LIBSVM, if
//! multipliers are bounded: steps along which the problem is not convex end at the end of their
//! piece. P − D is 0 at points that satisfy the optimality conditions and positive elsewhere, for
//! any kernel (each loss_i(f_i) + h_i(β_i) is at least −β_i f_i), but it bounds the distance of P
//! from its minimum only for a definite kernel.
//!
//! One-vs-one SVMs have few rows each, and each thread solves one at a time. SVMs that share all
//! rows are solved one after the other and reuse the kernel values, and all threads work on each.
//!
//! *Cost*: about n^1.5 to n² steps in total, growing with the number of support vectors; an SVM on
//! at most 4,096 rows computes its kernel matrix once. *Bytes*: the rows; for each SVM being solved
//! 64 per row and its kernel matrix, or 1,152 rows of it.

mod dual;
mod gram;
mod linear;
mod smo;
mod solvers;

use super::lagrangian::Terms;
use super::loss::Row;
use super::space::Best;
use super::{Solutions, fitted, held_out};
use crate::features::FitData;
use crate::features::Points::Rows;
use crate::linalg::kernel_rows::{KernelBlock, kernel_rows};
use crate::linalg::sparse_matrix::{SparseMatrix, functions};
use crate::linalg::strips::Pool;
use crate::model::{Basis, needs_wide_for};
use crate::prepare::{plan, whole};
use crate::request::{FitRequest, PassShape, Stage};
use crate::row_weights::RowWeights;
use crate::solver::{Found, heed};
use crate::{Intercept, Result};
use dual::{Dual, SolvedMachine};
use faer::{Mat, MatRef};
use gram::{Gram, KernelPoints};
use kapprox::landmark::NO_ROW;
use kapprox::{KernelFunction, Real};
use kstore::pass::Observer;
use kstore::{MemoryRows, Workers};
use linear::Weights;
use std::sync::Arc;

/// Rows per part of a matrix that is computed in parts.
const PART: usize = 512;

/// Rows that are scored together.
const SCORED: usize = 256;

struct Exact<'a, T: Real> {
    data: &'a FitData<'a, T>,
    rows: &'a MemoryRows<T>,
    d: usize,
    kernel: Arc<dyn KernelFunction<T>>,
    wide: Arc<dyn KernelFunction<f64>>,
    /// Fold of every row; empty with a single fold.
    folds: Vec<u16>,
    weights: RowWeights,
    /// The rows, if the kernel is the inner product of sparse rows.
    sparse: Option<SparseMatrix>,
    /// Memory of finished SVMs' matrices, for reuse.
    spare: Pool<Vec<T>>,
}

/// SVMs on the same rows.
struct Machines<'m, T> {
    at: Vec<usize>,
    /// Number of rows of each part; below, the kernel matrices of parts that were already computed.
    parts: Vec<usize>,
    known: Vec<Option<&'m [T]>>,
    count: usize,
    /// Target and cost of a row, by SVM, index of the regularisation parameter, and position of the
    /// row.
    row: Box<dyn Fn(usize, usize, usize) -> Row + Sync + Send + 'm>,
}

impl<'m, T> Machines<'m, T> {
    fn new(at: Vec<usize>, count: usize, row: impl Fn(usize, usize, usize) -> Row + Sync + Send + 'm) -> Self {
        let n = at.len();
        let parts = (0..n).step_by(PART).map(|first| PART.min(n - first)).collect();
        Self { at, parts, known: Vec::new(), count, row: Box::new(row) }
    }
}

#[derive(Clone, Copy)]
struct SolveOptions<'s> {
    terms: &'s [Terms],
    /// Maximum number of sweeps; one sweep is as many rounds as bring all rows into the working
    /// set.
    steps: usize,
    /// True for SVMs of the final model, whose gaps are verified in f64.
    prove: bool,
}

/// For each SVM on the same rows, the solution at each regularisation parameter.
type Paths = Vec<Vec<SolvedMachine>>;

/// Functions of some SVMs in terms of their support vectors, or of their weights.
struct Expansion<T> {
    points: Vec<T>,
    rows: Vec<u64>,
    coefficients: Mat<f64>,
    intercept: Vec<f64>,
}

impl<'a, T: Real> Exact<'a, T> {
    /// Reads rows and kernel from `data`; `None` if `data` has features of a map instead of rows.
    fn new(data: &'a FitData<'a, T>) -> Result<Option<Self>> {
        let Rows(rows, shape, _) = &data.points else { return Ok(None) };
        let any = data.kernel.build()?;
        let (kernel, wide) = (any.typed::<T>(), any.typed::<f64>());
        if !wide.positive_definite() {
            data.resources.stages.warn(format!(
                "the kernel {} may have negative eigenvalues: the dual problem may then have several minima, and the \
                 solver finds one of them; its gap is 0 but does not bound the distance from the optimum",
                wide.spec()
            ));
        }
        let mut folds = Vec::new();
        if data.folds.count() > 1 {
            for i in 0..rows.len() {
                let group = rows.group_codes().map_or(kstore::Coded::UNKNOWN, |groups| groups[i]);
                // there are at most a thousand folds
                folds.push(data.folds.fold_of(rows.row(i), group)? as u16);
            }
        }
        let weights = RowWeights(rows.weights().map(<[f64]>::to_vec).unwrap_or_default());
        let width = data.kernel.linear_on_sparse();
        let sparse = width.map(|width| SparseMatrix::of(rows.x(), shape.d, width));
        Ok(Some(Self { data, rows, d: shape.d, kernel, wide, folds, sparse, weights, spare: Pool::default() }))
    }

    fn x(&self) -> MatRef<'_, T> {
        let d = self.d;
        MatRef::from_row_major_slice(self.rows.x(), self.rows.len(), d)
    }

    /// Returns the positions of the rows outside a fold, or of all rows.
    fn outside(&self, held: Option<u16>) -> Vec<usize> {
        (0..self.rows.len()).filter(|i| held.is_none_or(|fold| self.folds.get(*i) != Some(&fold))).collect()
    }

    /// Copies some rows to a matrix in `U`, row-major.
    fn copied<U: Real>(&self, at: &[usize]) -> Vec<U> {
        let d = self.d;
        let rows = at.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]);
        rows.map(|value| U::from_f64(value.to_f64())).collect()
    }

    /// Computes the kernel matrix of every class's rows, if they fit, for reuse by one-vs-one SVMs.
    fn within(&self, classes: &[Vec<usize>], intercept: Intercept) -> Vec<Option<Vec<T>>> {
        let bytes: usize = classes.iter().map(|at| at.len() * at.len() * size_of::<T>()).sum();
        if bytes > self.data.spare {
            return vec![None; classes.len()];
        }
        let d = self.d;
        let mut found = vec![None; classes.len()];
        self.data.resources.workers.each(classes.iter().zip(&mut found).collect(), |(at, found)| {
            let x = self.copied::<T>(at);
            let points = self.points(MatRef::from_row_major_slice(&x, at.len(), d), intercept);
            let mut k = Vec::new();
            gram::whole(points, &[at.len()], &[], &mut k, &Workers::sequential());
            *found = Some(k);
        });
        found
    }

    fn points<'p>(&'p self, x: MatRef<'p, T>, intercept: Intercept) -> KernelPoints<'p, T> {
        let shift = if intercept == Intercept::Penalised { T::ONE } else { T::ZERO };
        KernelPoints { kernel: &*self.kernel, x, shift }
    }

    /// Solves all SVMs: one set per thread, or one set after the other by all threads if there are
    /// fewer sets than threads.
    fn solve(&self, sets: &[Machines<'_, T>], asked: SolveOptions<'_>, observer: &dyn Observer) -> Result<Vec<Paths>> {
        let workers = self.data.resources.workers;
        let mut found: Vec<Paths> = sets.iter().map(|_| Vec::new()).collect();
        let mut work: Vec<_> = sets.iter().zip(&mut found).collect();
        // largest first, so that threads finish at about the same time
        work.sort_by_key(|(set, _)| std::cmp::Reverse(set.at.len()));
        match sets.len() >= workers.threads() {
            true => workers.each(work, |(set, found)| {
                let alone = Workers::sequential();
                let room = self.data.spare / workers.threads();
                *found = self.spare.with(Vec::new, |memory| self.of_rows(set, asked, (memory, room), &alone, observer));
            }),
            false => work.into_iter().for_each(|(set, found)| {
                *found = self.of_rows(set, asked, (&mut Vec::new(), self.data.spare), workers, observer);
            }),
        }
        workers.check()?;
        heed(observer)?;
        Ok(found)
    }

    fn stops(&self, observer: &dyn Observer) -> bool {
        self.data.resources.workers.is_cancelled() || observer.stop()
    }

    /// Solves the SVMs on some rows, with `memory` for their kernel matrix, or this many bytes for
    /// a cache of its rows.
    fn of_rows(
        &self,
        set: &Machines<'_, T>,
        asked: SolveOptions<'_>,
        (memory, room): (&mut Vec<T>, usize),
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let (n, d, Some(first)) = (set.at.len(), self.d, asked.terms.first()) else {
            return Vec::new();
        };
        if let Some(sparse) = &self.sparse {
            return self.of_sparse_rows(sparse, set, asked, workers, observer);
        }
        let x = self.copied::<T>(&set.at);
        let points = self.points(MatRef::from_row_major_slice(&x, n, d), first.intercept);
        let starts = first.total != 0.0;
        let exact = if asked.prove || starts { self.copied::<f64>(&set.at) } else { Vec::new() };
        let shift = points.shift.to_f64();
        let exactly = || KernelPoints { kernel: &*self.wide, x: MatRef::from_row_major_slice(&exact, n, d), shift };
        let mut gram = Gram::new(points, (&set.parts, &set.known), std::mem::take(memory), room, workers);
        let stop = || self.stops(observer);
        let machine = |machine: usize| {
            let rows = |at: usize| set.at.iter().map(|i| (set.row)(machine, at, *i)).collect::<Vec<Row>>();
            let mut dual = Dual::new(rows(0), *first);
            if starts {
                dual.fill(exactly(), workers, &stop);
            }
            let mut path = Vec::new();
            for (at, terms) in asked.terms.iter().enumerate() {
                if at > 0 {
                    dual.again(rows(at), *terms);
                }
                let most = asked.steps.saturating_mul(gram::rounds(n));
                path.push(dual.solve(&mut gram, asked.prove.then(exactly), most, workers, &stop));
            }
            observer.advance(1);
            path
        };
        let paths = (0..set.count).map(machine).collect();
        *memory = gram.end();
        paths
    }

    /// Solves the linear SVMs on some sparse rows, one per thread.
    fn of_sparse_rows(
        &self,
        sparse: &SparseMatrix,
        set: &Machines<'_, T>,
        asked: SolveOptions<'_>,
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let mut paths: Paths = vec![Vec::new(); set.count];
        workers.each(paths.iter_mut().enumerate().collect(), |(machine, path)| {
            let rows = |at: usize| set.at.iter().map(|i| (set.row)(machine, at, *i)).collect::<Vec<Row>>();
            let mut weights = Weights::new(sparse, &set.at, self.data.options.seed);
            let mut dual = Dual::new(rows(0), asked.terms[0]);
            for (at, terms) in asked.terms.iter().enumerate() {
                dual.again(rows(at), *terms);
                let mut solved = weights.solve(&mut dual, asked.steps, &|| self.stops(observer));
                solved.rounds *= gram::rounds(set.at.len());
                path.push(solved);
            }
            observer.advance(1);
        });
        paths
    }

    /// Returns the support vectors of some SVMs, in row order, and their dual coefficients; the
    /// weights of linear SVMs on sparse rows.
    fn expansion<'f>(&self, machines: impl Iterator<Item = (&'f [usize], &'f SolvedMachine)> + Clone) -> Expansion<T> {
        if self.sparse.is_some() {
            let weights: Vec<Vec<f64>> = machines.clone().map(|(_, found)| found.weights.clone()).collect();
            let (points, coefficients) = functions(&weights, self.d);
            let rows = vec![NO_ROW; coefficients.nrows()];
            return Expansion { points, rows, coefficients, intercept: machines.map(|(_, found)| found.b).collect() };
        }
        let mut place = vec![usize::MAX; self.rows.len()];
        let each = |(at, found): (&'f [usize], &'f SolvedMachine)| at.iter().copied().zip(found.beta.iter().copied());
        machines.clone().flat_map(each).filter(|(_, beta)| *beta != 0.0).for_each(|(i, _)| place[i] = 0);
        let support: Vec<usize> = (0..place.len()).filter(|i| place[*i] == 0).collect();
        support.iter().enumerate().for_each(|(j, i)| place[*i] = j);
        let mut coefficients = Mat::zeros(support.len(), machines.clone().count());
        for (j, machine) in machines.clone().enumerate() {
            let support = each(machine).filter(|(_, beta)| *beta != 0.0);
            support.for_each(|(i, beta)| coefficients[(place[i], j)] = beta);
        }
        let (points, rows) = (self.copied::<T>(&support), support.iter().map(|i| self.rows.row(*i)).collect());
        Expansion { points, rows, coefficients, intercept: machines.map(|(_, found)| found.b).collect() }
    }

    /// Scores the rows of a fold: the closure receives the position of a row and its scores.
    fn score(&self, fold: u16, functions: &Expansion<T>, mut to: impl FnMut(usize, &[f64])) {
        let (d, t) = (self.d, functions.intercept.len());
        let (workers, m) = (self.data.resources.workers, functions.rows.len());
        let held: Vec<usize> = (0..self.rows.len()).filter(|i| self.folds[*i] == fold).collect();
        let z = MatRef::from_row_major_slice(&functions.points, m, d);
        let (mut k, mut scores) = (Vec::new(), Vec::new());
        for some in held.chunks(SCORED) {
            scores.clear();
            scores.resize(some.len() * t, 0.0);
            if m > 0 {
                let x = self.copied::<T>(some);
                k.resize(some.len() * m, T::ZERO);
                kernel_rows(&*self.kernel, MatRef::from_row_major_slice(&x, some.len(), d), z, &mut k, workers);
                let rows = KernelBlock { k: &k[..some.len() * m], m };
                rows.times(functions.coefficients.as_ref(), &mut scores, workers);
            }
            for (i, scores) in some.iter().zip(scores.chunks_exact_mut(t)) {
                scores.iter_mut().zip(&functions.intercept).for_each(|(score, b)| *score += b);
                to(*i, scores);
            }
        }
    }

    /// Builds the result from solved SVMs. `deviations` are the standard deviations of the targets.
    fn fitted<'f>(
        &self,
        machines: impl Iterator<Item = (&'f [usize], &'f SolvedMachine)> + Clone,
        (unit, lambda): (f64, Option<f64>),
        deviations: &[f64],
    ) -> Found<T> {
        let Expansion { points, rows, coefficients, .. } = self.expansion(machines.clone());
        let (mut all, mut supporting) = (Solutions::default(), vec![false; self.rows.len()]);
        for (j, (at, found)) in machines.enumerate() {
            let w: Vec<f64> = coefficients.col(j).iter().copied().collect();
            at.iter().zip(&found.beta).for_each(|(i, beta)| supporting[*i] |= *beta != 0.0);
            let support = found.beta.iter().filter(|beta| **beta != 0.0).count();
            let best = Best { w, b: found.b, primal: found.primal, dual: found.dual, support };
            let steps = found.rounds.div_ceil(gram::rounds(found.beta.len()));
            all.add(Solutions { best: vec![best], gaps: found.gaps.clone(), passes: 0, steps });
        }
        let n = self.rows.len();
        let (support, by) = (supporting.iter().filter(|is| **is).count(), self.sparse.is_some());
        let by = if by { "dual coordinate descent" } else { "sequential minimal optimisation" };
        let why = format!("{by}; {support} of {n} rows are support vectors");
        Found {
            wide: self.sparse.is_none() && needs_wide_for::<T>(coefficients.as_ref(), deviations),
            basis: Some(Basis::Landmarks { points, rows }),
            method: Some(crate::solver::Solved { name: "exact", why }),
            passes: 0,
            ..fitted(all, unit, lambda, None)
        }
    }
}

/// Returns the stages: statistics; then the rows and their SVMs, `at_once` at a time, each on at
/// most all rows.
pub(super) fn stages(
    work: &FitRequest<'_>,
    problems: usize,
    at_once: usize,
    penalties: usize,
) -> (PassShape, Vec<Stage>) {
    let (shape, budget) = (&work.shape, work.resources.memory);
    let (n, d, e) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.d, shape.element);
    let cut = whole::cut(shape);
    let fewer = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";
    let each = |bytes: usize| n.saturating_mul(bytes).saturating_mul(at_once);
    let plan = whole::plan("SVMs", shape, budget);
    let plan = match work.options.kernel.linear_on_sparse() {
        Some(width) => {
            let (weights, together) = (linear::bytes(n, width), shape.threads.min(problems));
            plan.term("entries of the rows", SparseMatrix::bytes(n, d), fewer)
                .term("weights and multipliers of the SVMs", together.saturating_mul(weights), fewer)
                .term("weights of all SVMs", (problems * penalties + problems).saturating_mul(8 * width + 8 * n), fewer)
        }
        None => plan
            .term("rows of an SVM", each(d * (e + 8)), fewer)
            .term("multipliers and values of its rows", each(96), fewer)
            .term("kernel values between its rows", at_once * gram::bytes(n, d, e), fewer)
            .term("dual coefficients of all SVMs", n.saturating_mul(8 * problems * (2 + penalties)), fewer),
    };
    let plan = plan.term("rows that are scored", SCORED.saturating_mul(n * e + 8 * problems), fewer);
    let plan = held_out::plan(plan, shape, problems, penalties);
    (cut, vec![Stage { plan: plan::scan(shape, cut, budget), passes: 1 }, Stage { plan, passes: 1 }])
}
