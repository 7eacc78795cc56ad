//! Support vector machines with the exact kernel (`map` exact).
//!
//! Solves the duals of the problems of [`super`] over the whole reproducing kernel Hilbert space,
//! with f(x) = Σ_i β_i k(x_i, x) + b. The method is rounds of sequential minimal optimisation
//! ([`dual`], [`smo`]). The rows stay in memory. Kernel values are stored if they fit, and
//! otherwise recomputed with bit-identical results. The model stores the support vectors: the rows
//! with a nonzero multiplier in any SVM.
//!
//! For the linear kernel on sparse rows, dual coordinate descent needs no kernel values, and the
//! model stores no rows.
//!
//! A kernel that is not positive definite, such as the sigmoid, is accepted if the multipliers are
//! bounded, as in LIBSVM. If the problem is not convex along a step, the step ends at the end of
//! the current quadratic piece of the objective. P and D are the primal and dual objectives of
//! [`dual`]. For any kernel, P − D is 0 at points that satisfy the optimality conditions and
//! positive elsewhere, because each loss_i(f_i) + h_i(β_i) is at least −β_i f_i. But only if the
//! kernel is positive definite, P − D bounds the distance of P from its minimum.
//!
//! One-vs-one SVMs have few rows each, so each thread solves one SVM at a time. SVMs that share all
//! rows are solved one after another; they reuse the kernel values, and each uses all threads.
//!
//! *Cost*: about n^1.5 to n² steps in total. The number of steps grows with the number of support
//! vectors. An SVM on at most 4,096 rows computes its kernel matrix once. *Bytes*: the rows. For
//! each SVM being solved, 64 per row, and the kernel matrix or 1,152 rows of the kernel matrix.

mod coordinate_descent;
mod dual;
mod kernel_cache;
mod smo;
mod solvers;

use super::lagrangian::ProblemOptions;
use super::loss::Row;
use super::workspace::CertifiedPoint;
use super::{SolvedProblems, cross_validation, solution_of};
use crate::features::FitData;
use crate::features::SectionPoints::Rows;
use crate::linalg::kernel_rows::{KernelBlock, compute_kernel_rows};
use crate::linalg::sparse_matrix::{SparseMatrix, as_inner_products};
use crate::linalg::strips::Pool;
use crate::model::{Basis, needs_f64_for};
use crate::prepare::{exact_rows, stage_plans};
use crate::request::{FitRequest, PassShape, Stage};
use crate::row_weights::RowWeights;
use crate::solver::{Solution, check_stop};
use crate::{Intercept, Result};
use coordinate_descent::CoordinateDescent;
use dual::{Dual, SolvedSvm};
use faer::{Mat, MatRef};
use kapprox::landmark::NO_ROW;
use kapprox::{KernelFunction, Real};
use kernel_cache::{Gram, KernelPoints};
use kstore::pass::Observer;
use kstore::{MemoryRows, Workers};
use std::sync::Arc;

/// Rows per part of a matrix that is computed in parts.
const PART_ROWS: usize = 512;

/// Rows that are scored together.
const SCORED_ROWS: usize = 256;

struct ExactProblem<'a, T: Real> {
    data: &'a FitData<'a, T>,
    rows: &'a MemoryRows<T>,
    d: usize,
    kernel: Arc<dyn KernelFunction<T>>,
    wide_kernel: Arc<dyn KernelFunction<f64>>,
    /// Fold of every row; empty with a single fold.
    folds: Vec<u16>,
    weights: RowWeights,
    /// The rows if the kernel is the inner product of sparse rows, otherwise `None`.
    sparse: Option<SparseMatrix>,
    /// Memory of finished SVMs' matrices, for reuse.
    spare_matrices: Pool<Vec<T>>,
}

/// SVMs on the same rows.
struct SvmSet<'m, T> {
    positions: Vec<usize>,
    /// Number of rows of each part. The next field contains the kernel matrices of parts for which
    /// they are already computed.
    part_sizes: Vec<usize>,
    part_matrices: Vec<Option<&'m [T]>>,
    count: usize,
    /// Returns target and cost of a row. The arguments are the SVM, the index of the regularisation
    /// parameter, and the position of the row.
    row: Box<dyn Fn(usize, usize, usize) -> Row + Sync + Send + 'm>,
}

impl<'m, T> SvmSet<'m, T> {
    fn new(positions: Vec<usize>, count: usize, row: impl Fn(usize, usize, usize) -> Row + Sync + Send + 'm) -> Self {
        let n = positions.len();
        let part_sizes = (0..n).step_by(PART_ROWS).map(|first| PART_ROWS.min(n - first)).collect();
        Self { positions, part_sizes, part_matrices: Vec::new(), count, row: Box::new(row) }
    }
}

#[derive(Clone, Copy)]
struct SolveOptions<'s> {
    terms: &'s [ProblemOptions],
    /// Maximum number of sweeps. In the rounds of one sweep, as many rows enter the working set as
    /// the SVM has rows.
    max_sweeps: usize,
    /// True for SVMs of the final model, whose gaps are verified in f64.
    verify: bool,
}

/// For each SVM on the same rows, the solution at each regularisation parameter.
type Paths = Vec<Vec<SolvedSvm>>;

/// Functions of some SVMs in terms of their support vectors, or of their weights.
struct Expansion<T> {
    points: Vec<T>,
    rows: Vec<u64>,
    coefficients: Mat<f64>,
    intercept: Vec<f64>,
}

impl<'a, T: Real> ExactProblem<'a, T> {
    /// Reads rows and kernel from `data`; `None` if `data` has features of a map instead of rows.
    fn new(data: &'a FitData<'a, T>) -> Result<Option<Self>> {
        let Rows(rows, size, _) = &data.points else { return Ok(None) };
        let any = data.kernel.build()?;
        let (kernel, wide_kernel) = (any.typed::<T>(), any.typed::<f64>());
        if !wide_kernel.positive_definite() {
            data.resources.stage_observer.warn(format!(
                "the kernel {} may have negative eigenvalues: the dual problem may then have several minima, and the \
                 solver finds one of them; its gap is 0 but does not bound the distance from the optimum",
                wide_kernel.spec()
            ));
        }
        let mut folds = Vec::new();
        if data.folds.count() > 1 {
            for i in 0..rows.len() {
                let group = rows.group_codes().map_or(kstore::LabelCodes::UNKNOWN, |groups| groups[i]);
                // there are at most a thousand folds
                folds.push(data.folds.fold_of(rows.row(i), group)? as u16);
            }
        }
        let weights = RowWeights(rows.weights().map(<[f64]>::to_vec).unwrap_or_default());
        let width = data.kernel.sparse_linear_columns();
        let sparse = width.map(|width| SparseMatrix::from_rows(rows.x(), size.d, width));
        Ok(Some(Self {
            data,
            rows,
            d: size.d,
            kernel,
            wide_kernel,
            folds,
            sparse,
            weights,
            spare_matrices: Pool::default(),
        }))
    }

    fn x(&self) -> MatRef<'_, T> {
        let d = self.d;
        MatRef::from_row_major_slice(self.rows.x(), self.rows.len(), d)
    }

    /// Returns the positions of the rows outside a fold, or of all rows.
    fn positions_outside(&self, held_fold: Option<u16>) -> Vec<usize> {
        (0..self.rows.len()).filter(|i| held_fold.is_none_or(|fold| self.folds.get(*i) != Some(&fold))).collect()
    }

    /// Copies some rows to a matrix in `U`, row-major.
    fn copy_rows<U: Real>(&self, positions: &[usize]) -> Vec<U> {
        let d = self.d;
        let rows = positions.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]);
        rows.map(|value| U::from_f64(value.to_f64())).collect()
    }

    /// If the matrices fit the memory, computes the kernel matrix of the rows of every class.
    /// One-vs-one SVMs reuse these matrices.
    fn class_matrices(&self, classes: &[Vec<usize>], intercept: Intercept) -> Vec<Option<Vec<T>>> {
        let bytes: usize = classes.iter().map(|positions| positions.len() * positions.len() * size_of::<T>()).sum();
        if bytes > self.data.spare_bytes {
            return vec![None; classes.len()];
        }
        let d = self.d;
        let mut matrices = vec![None; classes.len()];
        self.data.resources.workers.for_each(classes.iter().zip(&mut matrices).collect(), |(positions, matrix)| {
            let x = self.copy_rows::<T>(positions);
            let points = self.points(MatRef::from_row_major_slice(&x, positions.len(), d), intercept);
            let mut k = Vec::new();
            kernel_cache::fill_matrix(points, &[positions.len()], &[], &mut k, &Workers::sequential());
            *matrix = Some(k);
        });
        matrices
    }

    fn points<'p>(&'p self, x: MatRef<'p, T>, intercept: Intercept) -> KernelPoints<'p, T> {
        let shift = if intercept == Intercept::Penalised { T::ONE } else { T::ZERO };
        KernelPoints { kernel: &*self.kernel, x, shift }
    }

    /// Solves all SVMs. Each thread solves one set of SVMs at a time. If there are fewer sets than
    /// threads, the sets are solved one after another, each by all threads.
    fn solve(&self, sets: &[SvmSet<'_, T>], options: SolveOptions<'_>, observer: &dyn Observer) -> Result<Vec<Paths>> {
        let workers = self.data.resources.workers;
        let mut paths: Vec<Paths> = sets.iter().map(|_| Vec::new()).collect();
        let mut tasks: Vec<_> = sets.iter().zip(&mut paths).collect();
        // largest first, so that threads finish at about the same time
        tasks.sort_by_key(|(set, _)| std::cmp::Reverse(set.positions.len()));
        match sets.len() >= workers.threads() {
            true => workers.for_each(tasks, |(set, solved)| {
                let sequential = Workers::sequential();
                let cache_bytes = self.data.spare_bytes / workers.threads();
                *solved = self.spare_matrices.with(Vec::new, |memory| {
                    self.solve_on_rows(set, options, (memory, cache_bytes), &sequential, observer)
                });
            }),
            false => tasks.into_iter().for_each(|(set, solved)| {
                *solved = self.solve_on_rows(set, options, (&mut Vec::new(), self.data.spare_bytes), workers, observer);
            }),
        }
        workers.check()?;
        check_stop(observer)?;
        Ok(paths)
    }

    fn stops(&self, observer: &dyn Observer) -> bool {
        self.data.resources.workers.is_cancelled() || observer.should_stop()
    }

    /// Solves the SVMs on some rows. `memory` holds their kernel matrix. If the matrix is not
    /// stored, a cache of `cache_bytes` bytes holds some of its rows.
    fn solve_on_rows(
        &self,
        set: &SvmSet<'_, T>,
        options: SolveOptions<'_>,
        (memory, cache_bytes): (&mut Vec<T>, usize),
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let (n, d, Some(first_terms)) = (set.positions.len(), self.d, options.terms.first()) else {
            return Vec::new();
        };
        if let Some(sparse) = &self.sparse {
            return self.solve_on_sparse_rows(sparse, set, options, workers, observer);
        }
        let x = self.copy_rows::<T>(&set.positions);
        let points = self.points(MatRef::from_row_major_slice(&x, n, d), first_terms.intercept);
        let has_total = first_terms.total != 0.0;
        let wide_rows = if options.verify || has_total { self.copy_rows::<f64>(&set.positions) } else { Vec::new() };
        let shift = points.shift.to_f64();
        let wide_points =
            || KernelPoints { kernel: &*self.wide_kernel, x: MatRef::from_row_major_slice(&wide_rows, n, d), shift };
        let mut gram =
            Gram::new(points, (&set.part_sizes, &set.part_matrices), std::mem::take(memory), cache_bytes, workers);
        let stop = || self.stops(observer);
        let solve_path = |machine: usize| {
            let rows =
                |penalty: usize| set.positions.iter().map(|i| (set.row)(machine, penalty, *i)).collect::<Vec<Row>>();
            let mut dual = Dual::new(rows(0), *first_terms);
            if has_total {
                dual.initialise(wide_points(), workers, &stop);
            }
            let mut path = Vec::new();
            for (penalty, terms) in options.terms.iter().enumerate() {
                if penalty > 0 {
                    dual.set_costs(rows(penalty), *terms);
                }
                let max_rounds = options.max_sweeps.saturating_mul(kernel_cache::rounds_per_sweep(n));
                path.push(dual.solve(&mut gram, options.verify.then(wide_points), max_rounds, workers, &stop));
            }
            observer.advance(1);
            path
        };
        let paths = (0..set.count).map(solve_path).collect();
        *memory = gram.into_memory();
        paths
    }

    /// Solves the linear SVMs on some sparse rows, one per thread.
    fn solve_on_sparse_rows(
        &self,
        sparse: &SparseMatrix,
        set: &SvmSet<'_, T>,
        options: SolveOptions<'_>,
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let mut paths: Paths = vec![Vec::new(); set.count];
        workers.for_each(paths.iter_mut().enumerate().collect(), |(svm, path)| {
            let rows = |penalty: usize| set.positions.iter().map(|i| (set.row)(svm, penalty, *i)).collect::<Vec<Row>>();
            let mut weights = CoordinateDescent::new(sparse, &set.positions, self.data.options.seed);
            let mut dual = Dual::new(rows(0), options.terms[0]);
            for (penalty, terms) in options.terms.iter().enumerate() {
                dual.set_costs(rows(penalty), *terms);
                let mut solved = weights.solve(&mut dual, options.max_sweeps, &|| self.stops(observer));
                solved.rounds *= kernel_cache::rounds_per_sweep(set.positions.len());
                path.push(solved);
            }
            observer.advance(1);
        });
        paths
    }

    /// Returns the support vectors of some SVMs, in row order, and their dual coefficients. For
    /// linear SVMs on sparse rows, returns the weights.
    fn expansion<'f>(&self, svms: impl Iterator<Item = (&'f [usize], &'f SolvedSvm)> + Clone) -> Expansion<T> {
        if self.sparse.is_some() {
            let weights: Vec<Vec<f64>> = svms.clone().map(|(_, solved)| solved.weights.clone()).collect();
            let (points, coefficients) = as_inner_products(&weights, self.d);
            let rows = vec![NO_ROW; coefficients.nrows()];
            return Expansion { points, rows, coefficients, intercept: svms.map(|(_, found)| found.b).collect() };
        }
        let mut support_index = vec![usize::MAX; self.rows.len()];
        let each = |(positions, solved): (&'f [usize], &'f SolvedSvm)| {
            positions.iter().copied().zip(solved.beta.iter().copied())
        };
        svms.clone().flat_map(each).filter(|(_, beta)| *beta != 0.0).for_each(|(i, _)| support_index[i] = 0);
        let support: Vec<usize> = (0..support_index.len()).filter(|i| support_index[*i] == 0).collect();
        support.iter().enumerate().for_each(|(j, i)| support_index[*i] = j);
        let mut coefficients = Mat::zeros(support.len(), svms.clone().count());
        for (j, svm) in svms.clone().enumerate() {
            let support = each(svm).filter(|(_, beta)| *beta != 0.0);
            support.for_each(|(i, beta)| coefficients[(support_index[i], j)] = beta);
        }
        let (points, rows) = (self.copy_rows::<T>(&support), support.iter().map(|i| self.rows.row(*i)).collect());
        Expansion { points, rows, coefficients, intercept: svms.map(|(_, solved)| solved.b).collect() }
    }

    /// Scores the rows of a fold: the closure receives the position of a row and its scores.
    fn score(&self, fold: u16, functions: &Expansion<T>, mut write: impl FnMut(usize, &[f64])) {
        let (d, t) = (self.d, functions.intercept.len());
        let (workers, m) = (self.data.resources.workers, functions.rows.len());
        let fold_rows: Vec<usize> = (0..self.rows.len()).filter(|i| self.folds[*i] == fold).collect();
        let z = MatRef::from_row_major_slice(&functions.points, m, d);
        let (mut k, mut scores) = (Vec::new(), Vec::new());
        for batch in fold_rows.chunks(SCORED_ROWS) {
            scores.clear();
            scores.resize(batch.len() * t, 0.0);
            if m > 0 {
                let x = self.copy_rows::<T>(batch);
                k.resize(batch.len() * m, T::ZERO);
                compute_kernel_rows(
                    &*self.kernel,
                    MatRef::from_row_major_slice(&x, batch.len(), d),
                    z,
                    &mut k,
                    workers,
                );
                let rows = KernelBlock { k: &k[..batch.len() * m], m };
                rows.multiply(functions.coefficients.as_ref(), &mut scores, workers);
            }
            for (i, scores) in batch.iter().zip(scores.chunks_exact_mut(t)) {
                scores.iter_mut().zip(&functions.intercept).for_each(|(score, b)| *score += b);
                write(*i, scores);
            }
        }
    }

    /// Builds the result from solved SVMs. `deviations` are the standard deviations of the targets.
    fn solution<'f>(
        &self,
        svms: impl Iterator<Item = (&'f [usize], &'f SolvedSvm)> + Clone,
        (unit, lambda): (f64, Option<f64>),
        deviations: &[f64],
    ) -> Solution<T> {
        let Expansion { points, rows, coefficients, .. } = self.expansion(svms.clone());
        let (mut problems, mut is_support) = (SolvedProblems::default(), vec![false; self.rows.len()]);
        for (j, (positions, solved)) in svms.enumerate() {
            let w: Vec<f64> = coefficients.col(j).iter().copied().collect();
            positions.iter().zip(&solved.beta).for_each(|(i, beta)| is_support[*i] |= *beta != 0.0);
            let support = solved.beta.iter().filter(|beta| **beta != 0.0).count();
            let best =
                CertifiedPoint { w, b: solved.b, primal: solved.primal, dual: solved.dual, support_vectors: support };
            let steps = solved.rounds.div_ceil(kernel_cache::rounds_per_sweep(solved.beta.len()));
            problems.append(SolvedProblems { best: vec![best], gaps: solved.gaps.clone(), passes: 0, steps });
        }
        let n = self.rows.len();
        let (support, is_linear) = (is_support.iter().filter(|is| **is).count(), self.sparse.is_some());
        let algorithm = if is_linear { "dual coordinate descent" } else { "sequential minimal optimisation" };
        let why = format!("{algorithm}; {support} of {n} rows are support vectors");
        Solution {
            needs_f64: self.sparse.is_none() && needs_f64_for::<T>(coefficients.as_ref(), deviations),
            basis: Some(Basis::Landmarks { points, rows }),
            method: Some(crate::solver::SolveMethod { name: "exact", why }),
            passes: 0,
            ..solution_of(problems, unit, lambda, None)
        }
    }
}

/// Returns two stages: the statistics of the columns, and the solution of the SVMs. `at_once` SVMs
/// are solved at the same time, each on at most all rows.
pub(super) fn stages(
    request: &FitRequest<'_>,
    problems: usize,
    at_once: usize,
    penalties: usize,
) -> (PassShape, Vec<Stage>) {
    let (size, budget) = (&request.size, request.resources.memory);
    let (n, d, e) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.d, size.element_bytes);
    let pass_shape = exact_rows::exact_pass_shape(size);
    let remedy = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";
    let each = |bytes: usize| n.saturating_mul(bytes).saturating_mul(at_once);
    let plan = exact_rows::exact_plan("SVMs", size, budget);
    let plan = match request.options.kernel.sparse_linear_columns() {
        Some(width) => {
            let (weight_bytes, at_a_time) = (coordinate_descent::bytes(n, width), size.threads.min(problems));
            plan.term("entries of the rows", SparseMatrix::bytes(n, d), remedy)
                .term("weights and multipliers of the SVMs", at_a_time.saturating_mul(weight_bytes), remedy)
                .term(
                    "weights of all SVMs",
                    (problems * penalties + problems).saturating_mul(8 * width + 8 * n),
                    remedy,
                )
        }
        None => plan
            .term("rows of an SVM", each(d * (e + 8)), remedy)
            .term("multipliers and values of its rows", each(96), remedy)
            .term("kernel values between its rows", at_once * kernel_cache::bytes(n, d, e), remedy)
            .term("dual coefficients of all SVMs", n.saturating_mul(8 * problems * (2 + penalties)), remedy),
    };
    let plan = plan.term("rows that are scored", SCORED_ROWS.saturating_mul(n * e + 8 * problems), remedy);
    let plan = cross_validation::plan(plan, size, problems, penalties);
    (
        pass_shape,
        vec![Stage { plan: stage_plans::plan_scan(size, pass_shape, budget), passes: 1 }, Stage { plan, passes: 1 }],
    )
}
