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
//! bounded, as in LIBSVM. If the dual objective is not convex along a step, the step ends at the
//! end of the objective's current quadratic piece. Let P and D be the primal and dual objectives of
//! [`dual`]. For any kernel, P − D is 0 at points that satisfy the optimality conditions and
//! positive elsewhere, because each loss_i(f_i) + h_i(β_i) is at least −β_i f_i. But P − D bounds
//! the distance of P from its minimum only if the kernel is positive definite.
//!
//! One-vs-one SVMs have few rows each, so each thread solves one of them at a time. SVMs on the
//! same rows are solved one after another; they reuse the kernel values, and each uses all threads.
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
use super::loss::{Loss, TargetAndCost};
use super::workspace::CertifiedPoint;
use super::{SolvedProblems, cross_validation, solution_of};
use crate::features::FitData;
use crate::features::SectionPoints::Rows;
use crate::linalg::kernel_rows::{KernelBlock, compute_kernel_rows};
use crate::linalg::sparse_matrix::{SparseMatrix, as_inner_products};
use crate::linalg::strips::BufferPool;
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
use kernel_cache::{KernelPoints, StoredKernel};
use kstore::pass::Observer;
use kstore::{MemoryRows, Workers};
use std::sync::Arc;

/// Number of rows per part, if a kernel matrix is computed in parts.
const PART_ROWS: usize = 512;

/// Number of rows that are scored together.
const SCORED_ROWS: usize = 256;

struct ExactSvmProblem<'a, T: Real> {
    data: &'a FitData<'a, T>,
    rows: &'a MemoryRows<T>,
    d: usize,
    kernel: Arc<dyn KernelFunction<T>>,
    f64_kernel: Arc<dyn KernelFunction<f64>>,
    /// Fold of every row; empty without cross-validation.
    folds: Vec<u16>,
    weights: RowWeights,
    /// The rows if the kernel is the inner product of sparse rows, otherwise `None`.
    sparse_rows: Option<SparseMatrix>,
    /// Matrix buffers of finished SVMs, for reuse.
    matrix_pool: BufferPool<Vec<T>>,
}

/// SVMs on the same rows.
struct SvmSet<'m, T> {
    /// Index, among all rows, of each row of the SVMs.
    positions: Vec<usize>,
    /// Number of rows of each part; a part is a range of `positions`.
    part_sizes: Vec<usize>,
    /// Kernel matrix of each part, if it is already computed; may be empty.
    part_matrices: Vec<Option<&'m [T]>>,
    svm_count: usize,
    /// Loss of each SVM; empty if all SVMs have the loss of their options.
    losses: Vec<Loss>,
    /// Returns target and cost of a row. Its arguments are the index of the SVM, the index of the
    /// regularisation parameter, and the index of the row among all rows.
    row_fn: Box<dyn Fn(usize, usize, usize) -> TargetAndCost + Sync + Send + 'm>,
}

impl<'m, T> SvmSet<'m, T> {
    fn new(
        positions: Vec<usize>,
        svm_count: usize,
        row: impl Fn(usize, usize, usize) -> TargetAndCost + Sync + Send + 'm,
    ) -> Self {
        let n = positions.len();
        let part_sizes = (0..n).step_by(PART_ROWS).map(|first| PART_ROWS.min(n - first)).collect();
        Self { positions, part_sizes, part_matrices: Vec::new(), svm_count, losses: Vec::new(), row_fn: Box::new(row) }
    }

    fn with_losses(self, losses: Vec<Loss>) -> Self {
        Self { losses, ..self }
    }

    /// Returns the options of an SVM, with its own loss if it has one.
    fn problem_options(&self, svm_index: usize, problem_options: &ProblemOptions) -> ProblemOptions {
        ProblemOptions { loss: *self.losses.get(svm_index).unwrap_or(&problem_options.loss), ..*problem_options }
    }
}

#[derive(Clone, Copy)]
struct SolveOptions<'s> {
    problem_options: &'s [ProblemOptions],
    /// Maximum number of sweeps; see [`kernel_cache::rounds_per_sweep`].
    max_sweeps: usize,
    /// True for SVMs of the final model, whose gaps are verified in f64.
    verifies_gap: bool,
}

/// For each SVM on the same rows, the solution at each regularisation parameter.
type Paths = Vec<Vec<SolvedSvm>>;

/// The functions of some SVMs, as dual coefficients of their support vectors. For linear SVMs on
/// sparse rows, the points instead represent the weights of the columns.
struct SvmExpansion<T> {
    points: Vec<T>,
    row_numbers: Vec<u64>,
    coefficients: Mat<f64>,
    intercept: Vec<f64>,
}

impl<'a, T: Real> ExactSvmProblem<'a, T> {
    /// Reads rows and kernel from `data`. Returns `None` if `data` has features of a map instead of
    /// rows.
    fn new(data: &'a FitData<'a, T>) -> Result<Option<Self>> {
        let Rows(rows, size, _) = &data.points else { return Ok(None) };
        let any_kernel = data.kernel.build()?;
        let (kernel, f64_kernel) = (any_kernel.typed::<T>(), any_kernel.typed::<f64>());
        if !f64_kernel.is_positive_definite() {
            data.resources.stage_observer.warn(format!(
                "the kernel {} may have negative eigenvalues: the dual problem may then have several minima, and the \
                 solver finds one of them; its gap is 0 but does not bound the distance from the optimum",
                f64_kernel.spec()
            ));
        }
        let mut folds = Vec::new();
        if data.folds.count() > 1 {
            for i in 0..rows.len() {
                let group = rows.group_codes().map_or(kstore::LabelCodes::UNKNOWN, |groups| groups[i]);
                // there are at most a thousand folds
                folds.push(data.folds.fold_of(rows.row_number(i), group)? as u16);
            }
        }
        let weights = RowWeights(rows.weights().map(<[f64]>::to_vec).unwrap_or_default());
        let column_count = data.kernel.sparse_linear_columns();
        let sparse_rows = column_count.map(|width| SparseMatrix::from_rows(rows.x(), size.d, width));
        Ok(Some(Self {
            data,
            rows,
            d: size.d,
            kernel,
            f64_kernel,
            folds,
            sparse_rows,
            weights,
            matrix_pool: BufferPool::default(),
        }))
    }

    fn x(&self) -> MatRef<'_, T> {
        let d = self.d;
        MatRef::from_row_major_slice(self.rows.x(), self.rows.len(), d)
    }

    /// Returns the indices of the rows outside a fold, or of all rows if `held_out_fold` is `None`.
    fn positions_outside(&self, held_out_fold: Option<u16>) -> Vec<usize> {
        (0..self.rows.len()).filter(|i| held_out_fold.is_none_or(|fold| self.folds.get(*i) != Some(&fold))).collect()
    }

    /// Copies the rows at these indices to a row-major matrix in `U`.
    fn copy_rows<U: Real>(&self, positions: &[usize]) -> Vec<U> {
        let d = self.d;
        let rows = positions.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]);
        rows.map(|value| U::from_f64(value.to_f64())).collect()
    }

    /// If they fit in the spare memory, computes the kernel matrices of the rows of every class,
    /// which one-vs-one SVMs share. `classes` contains the row indices of each class.
    fn class_matrices(&self, classes: &[Vec<usize>], intercept: Intercept) -> Vec<Option<Vec<T>>> {
        let bytes: usize = classes.iter().map(|positions| positions.len() * positions.len() * size_of::<T>()).sum();
        if bytes > self.data.spare_bytes {
            return vec![None; classes.len()];
        }
        let d = self.d;
        let mut matrices = vec![None; classes.len()];
        self.data.resources.workers.for_each(classes.iter().zip(&mut matrices).collect(), |(positions, matrix)| {
            let x = self.copy_rows::<T>(positions);
            let points = self.kernel_points(MatRef::from_row_major_slice(&x, positions.len(), d), intercept);
            let mut k = Vec::new();
            kernel_cache::fill_matrix(points, &[positions.len()], &[], &mut k, &Workers::sequential());
            *matrix = Some(k);
        });
        matrices
    }

    fn kernel_points<'p>(&'p self, x: MatRef<'p, T>, intercept: Intercept) -> KernelPoints<'p, T> {
        let shift = if intercept == Intercept::Penalised { T::ONE } else { T::ZERO };
        KernelPoints { kernel: &*self.kernel, x, shift }
    }

    /// Solves all SVMs. If there are at least as many sets as threads, each thread solves one set
    /// at a time. Otherwise the sets are solved one after another, each by all threads.
    fn solve(&self, sets: &[SvmSet<'_, T>], options: SolveOptions<'_>, observer: &dyn Observer) -> Result<Vec<Paths>> {
        let workers = self.data.resources.workers;
        let mut paths: Vec<Paths> = sets.iter().map(|_| Vec::new()).collect();
        let mut tasks: Vec<_> = sets.iter().zip(&mut paths).collect();
        // largest first, so that threads finish at about the same time
        tasks.sort_by_key(|(set, _)| std::cmp::Reverse(set.positions.len()));
        match sets.len() >= workers.threads() {
            true => workers.for_each(tasks, |(set, set_paths)| {
                let sequential = Workers::sequential();
                let cache_bytes = self.data.spare_bytes / workers.threads();
                *set_paths = self.matrix_pool.with_buffer(Vec::new, |matrix_buffer| {
                    self.solve_on_rows(set, options, (matrix_buffer, cache_bytes), &sequential, observer)
                });
            }),
            false => tasks.into_iter().for_each(|(set, set_paths)| {
                *set_paths =
                    self.solve_on_rows(set, options, (&mut Vec::new(), self.data.spare_bytes), workers, observer);
            }),
        }
        workers.check()?;
        check_stop(observer)?;
        Ok(paths)
    }

    fn should_stop(&self, observer: &dyn Observer) -> bool {
        self.data.resources.workers.is_cancelled() || observer.should_stop()
    }

    /// Solves the SVMs of a set, one after another. `matrix_buffer` receives the kernel matrix of
    /// their rows. If the matrix is too large to store, a cache of `cache_bytes` bytes stores some
    /// of its rows.
    fn solve_on_rows(
        &self,
        set: &SvmSet<'_, T>,
        options: SolveOptions<'_>,
        (matrix_buffer, cache_bytes): (&mut Vec<T>, usize),
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let (n, d, Some(first_problem_options)) = (set.positions.len(), self.d, options.problem_options.first()) else {
            return Vec::new();
        };
        if let Some(sparse) = &self.sparse_rows {
            return self.solve_on_sparse_rows(sparse, set, options, workers, observer);
        }
        let x = self.copy_rows::<T>(&set.positions);
        let points = self.kernel_points(MatRef::from_row_major_slice(&x, n, d), first_problem_options.intercept);
        let has_multiplier_sum = first_problem_options.multiplier_sum != 0.0;
        let x_f64 =
            if options.verifies_gap || has_multiplier_sum { self.copy_rows::<f64>(&set.positions) } else { Vec::new() };
        let shift = points.shift.to_f64();
        let f64_points =
            || KernelPoints { kernel: &*self.f64_kernel, x: MatRef::from_row_major_slice(&x_f64, n, d), shift };
        let mut stored_kernel = StoredKernel::new(
            points,
            (&set.part_sizes, &set.part_matrices),
            std::mem::take(matrix_buffer),
            cache_bytes,
            workers,
        );
        let stop = || self.should_stop(observer);
        let solve_path = |svm_index: usize| {
            let rows = |penalty_index: usize| {
                set.positions.iter().map(|i| (set.row_fn)(svm_index, penalty_index, *i)).collect::<Vec<TargetAndCost>>()
            };
            let mut dual = Dual::new(rows(0), set.problem_options(svm_index, first_problem_options));
            if has_multiplier_sum {
                dual.initialise(f64_points(), workers, &stop);
            }
            let mut path = Vec::new();
            for (penalty, problem_options) in options.problem_options.iter().enumerate() {
                if penalty > 0 {
                    dual.set_costs(rows(penalty), set.problem_options(svm_index, problem_options));
                }
                let max_rounds = options.max_sweeps.saturating_mul(kernel_cache::rounds_per_sweep(n));
                path.push(dual.solve(
                    &mut stored_kernel,
                    options.verifies_gap.then(f64_points),
                    max_rounds,
                    workers,
                    &stop,
                ));
            }
            observer.advance(1);
            path
        };
        let paths = (0..set.svm_count).map(solve_path).collect();
        *matrix_buffer = stored_kernel.into_matrix_buffer();
        paths
    }

    /// Solves the linear SVMs of a set on sparse rows. Each thread solves one SVM at a time.
    fn solve_on_sparse_rows(
        &self,
        sparse: &SparseMatrix,
        set: &SvmSet<'_, T>,
        options: SolveOptions<'_>,
        workers: &Workers,
        observer: &dyn Observer,
    ) -> Paths {
        let mut paths: Paths = vec![Vec::new(); set.svm_count];
        workers.for_each(paths.iter_mut().enumerate().collect(), |(svm_index, path)| {
            let rows = |penalty_index: usize| {
                set.positions.iter().map(|i| (set.row_fn)(svm_index, penalty_index, *i)).collect::<Vec<TargetAndCost>>()
            };
            let mut descent = CoordinateDescent::new(sparse, &set.positions, self.data.options.seed);
            let mut dual = Dual::new(rows(0), set.problem_options(svm_index, &options.problem_options[0]));
            for (penalty, problem_options) in options.problem_options.iter().enumerate() {
                dual.set_costs(rows(penalty), set.problem_options(svm_index, problem_options));
                let mut solved = descent.solve(&mut dual, options.max_sweeps, &|| self.should_stop(observer));
                solved.round_count *= kernel_cache::rounds_per_sweep(set.positions.len());
                path.push(solved);
            }
            observer.advance(1);
        });
        paths
    }

    /// Returns the support vectors of the SVMs, in row order, and their dual coefficients. `svms`
    /// yields the row indices and the solution of each SVM.
    fn expansion<'f>(&self, svms: impl Iterator<Item = (&'f [usize], &'f SolvedSvm)> + Clone) -> SvmExpansion<T> {
        if self.sparse_rows.is_some() {
            let weights: Vec<Vec<f64>> = svms.clone().map(|(_, solved)| solved.weights.clone()).collect();
            let (points, coefficients) = as_inner_products(&weights, self.d);
            let row_numbers = vec![NO_ROW; coefficients.nrows()];
            return SvmExpansion {
                points,
                row_numbers,
                coefficients,
                intercept: svms.map(|(_, solved)| solved.b).collect(),
            };
        }
        let mut support_index = vec![usize::MAX; self.rows.len()];
        let positions_and_betas = |(positions, solved): (&'f [usize], &'f SolvedSvm)| {
            positions.iter().copied().zip(solved.beta.iter().copied())
        };
        svms.clone()
            .flat_map(positions_and_betas)
            .filter(|(_, beta)| *beta != 0.0)
            .for_each(|(i, _)| support_index[i] = 0);
        let support: Vec<usize> = (0..support_index.len()).filter(|i| support_index[*i] == 0).collect();
        support.iter().enumerate().for_each(|(j, i)| support_index[*i] = j);
        let mut coefficients = Mat::zeros(support.len(), svms.clone().count());
        for (j, svm) in svms.clone().enumerate() {
            let support = positions_and_betas(svm).filter(|(_, beta)| *beta != 0.0);
            support.for_each(|(i, beta)| coefficients[(support_index[i], j)] = beta);
        }
        let (points, row_numbers) =
            (self.copy_rows::<T>(&support), support.iter().map(|i| self.rows.row_number(*i)).collect());
        SvmExpansion { points, row_numbers, coefficients, intercept: svms.map(|(_, solved)| solved.b).collect() }
    }

    /// Scores the rows of a fold. Calls `visitor(row index, scores)` for each row.
    fn score_fold(&self, fold: u16, expansion: &SvmExpansion<T>, mut visitor: impl FnMut(usize, &[f64])) {
        let (d, t) = (self.d, expansion.intercept.len());
        let (workers, m) = (self.data.resources.workers, expansion.row_numbers.len());
        let fold_rows: Vec<usize> = (0..self.rows.len()).filter(|i| self.folds[*i] == fold).collect();
        let z = MatRef::from_row_major_slice(&expansion.points, m, d);
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
                let kernel_block = KernelBlock { k: &k[..batch.len() * m], m };
                kernel_block.multiply(expansion.coefficients.as_ref(), &mut scores, workers);
            }
            for (i, scores) in batch.iter().zip(scores.chunks_exact_mut(t)) {
                scores.iter_mut().zip(&expansion.intercept).for_each(|(score, b)| *score += b);
                visitor(*i, scores);
            }
        }
    }

    /// Builds the result from solved SVMs. `svms` is as for [`Self::expansion`], and `lambdas` as
    /// for [`solution_of`]. `deviations` are the standard deviations of the targets.
    fn solution<'f>(
        &self,
        svms: impl Iterator<Item = (&'f [usize], &'f SolvedSvm)> + Clone,
        lambdas: &[f64],
        deviations: &[f64],
    ) -> Solution<T> {
        let SvmExpansion { points, row_numbers: rows, coefficients, .. } = self.expansion(svms.clone());
        let (mut solved_problems, mut is_support) = (SolvedProblems::default(), vec![false; self.rows.len()]);
        for (j, (positions, solved)) in svms.enumerate() {
            let w: Vec<f64> = coefficients.col(j).iter().copied().collect();
            positions.iter().zip(&solved.beta).for_each(|(i, beta)| is_support[*i] |= *beta != 0.0);
            let support_count = solved.beta.iter().filter(|beta| **beta != 0.0).count();
            let best = CertifiedPoint {
                w,
                b: solved.b,
                primal: solved.primal,
                dual: solved.dual,
                support_vectors: support_count,
            };
            let step_count = solved.round_count.div_ceil(kernel_cache::rounds_per_sweep(solved.beta.len()));
            solved_problems.append(SolvedProblems {
                best_points: vec![best],
                gaps: solved.gaps.clone(),
                passes: 0,
                step_count,
            });
        }
        let n = self.rows.len();
        let (support_row_count, is_linear) = (is_support.iter().filter(|is| **is).count(), self.sparse_rows.is_some());
        let algorithm = if is_linear { "dual coordinate descent" } else { "sequential minimal optimisation" };
        let why = format!("{algorithm}; {support_row_count} of {n} rows are support vectors");
        Solution {
            needs_f64: self.sparse_rows.is_none() && needs_f64_for::<T>(coefficients.as_ref(), deviations),
            basis: Some(Basis::Landmarks { points, row_numbers: rows }),
            method: Some(crate::solver::SolveMethod { name: "exact", why }),
            passes: 0,
            ..solution_of(solved_problems, lambdas, None)
        }
    }
}

/// Returns the two stages of the fit: the statistics of the columns, and the solution of the SVMs.
/// `concurrent_problem_count` is the number of SVMs that are solved at the same time; for linear
/// SVMs on sparse rows, it is the number of threads instead.
pub(super) fn stages(
    request: &FitRequest<'_>,
    problem_count: usize,
    concurrent_problem_count: usize,
    penalty_count: usize,
) -> (PassShape, Vec<Stage>) {
    let (size, budget) = (&request.size, request.resources.memory);
    let (n, d, element_bytes) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.d, size.element_bytes);
    let pass_shape = exact_rows::exact_pass_shape(size);
    let remedy = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";
    let bytes_of_rows = |bytes: usize| n.saturating_mul(bytes).saturating_mul(concurrent_problem_count);
    let plan = exact_rows::exact_plan("SVMs", size, budget);
    let plan = match request.options.kernel.sparse_linear_columns() {
        Some(column_count) => {
            let (weight_bytes, concurrent_svms) =
                (coordinate_descent::bytes(n, column_count), size.threads.min(problem_count));
            plan.term("entries of the rows", SparseMatrix::bytes(n, d), remedy)
                .term("weights and multipliers of the SVMs", concurrent_svms.saturating_mul(weight_bytes), remedy)
                .term(
                    "weights of all SVMs",
                    (problem_count * penalty_count + problem_count).saturating_mul(8 * column_count + 8 * n),
                    remedy,
                )
        }
        None => plan
            .term("rows of an SVM", bytes_of_rows(d * (element_bytes + 8)), remedy)
            .term("multipliers and values of its rows", bytes_of_rows(96), remedy)
            .term(
                "kernel values between its rows",
                concurrent_problem_count * kernel_cache::bytes(n, d, element_bytes),
                remedy,
            )
            .term("dual coefficients of all SVMs", n.saturating_mul(8 * problem_count * (2 + penalty_count)), remedy)
            .optional_term(
                "further kernel values",
                concurrent_problem_count.saturating_mul(kernel_cache::optional_bytes(n, element_bytes)),
            ),
    };
    let plan =
        plan.term("rows that are scored", SCORED_ROWS.saturating_mul(n * element_bytes + 8 * problem_count), remedy);
    let plan = cross_validation::plan(plan, size, problem_count, penalty_count);
    (
        pass_shape,
        vec![Stage { plan: stage_plans::plan_scan(size, pass_shape, budget), passes: 1 }, Stage { plan, passes: 1 }],
    )
}
