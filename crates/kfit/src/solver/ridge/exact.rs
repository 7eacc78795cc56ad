//! Exact kernel ridge regression (`map` exact). For the linear kernel on sparse rows, the solver
//! learns one weight per column instead ([`super::linear`]).
//!
//! The rows are read into memory once and stay there, because they are part of the model. The
//! module [`super::iterative::dual_problem`] describes the problem and its two solution methods,
//! Cholesky factorisation (`method` direct) and preconditioned conjugate gradient (`method` pcg).
//! After an interruption, a resumed run of conjugate gradient recomputes the preconditioner and
//! continues after the last stored iteration.

use super::iterative::centring::Centring;
use super::iterative::cg::{self, CgSolution, StoppingRule};
use super::iterative::dual_problem::{self, DualSolution, ExactProblem};
use super::iterative::low_rank::LowRankInverse;
use super::linear::LinearSystem;
use super::{MAX_DIRECT_ROWS, Ridge, RidgeMethod, pcg};
use crate::linalg::kernel_tiles::KernelTiles;
use crate::linalg::sparse_matrix::{SparseMatrix, as_inner_products};
use crate::model::{Basis, Intercept};
use crate::prepare::map_builder::MapBuilder;
use crate::prepare::{exact_rows, stage_plans};
use crate::request::{FitRequest, LandmarkSource, PassShape, ProblemSize, Resources, Stage, TrainOptions};
use crate::solver::{Solution, SolveMethod, mse_and_r2, reject_if};
use crate::{Error, Result, features::FitData};
use faer::{Mat, MatRef};
use kapprox::landmark::NO_ROW;
use kapprox::{Kernel, Real};
use kstore::{MemoryPlan, MemoryRows, ReadSettings, RowSource, pass::Observer};

const RESIDUAL_REMEDY: &str = "raise `lambda`, raise `rank` for a better preconditioner, or use `method` direct";
const ROWS_REMEDY: &str = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";

/// Returns the stages of the fit. The first stage reads the statistics of the columns. Then the
/// direct method has one stage, the factorisation; the linear method has one, the iteration; and
/// conjugate gradient has three: landmarks, preconditioner, and iteration.
pub(super) fn stages<T: Real>(ridge: &Ridge, request: &FitRequest<'_>) -> (PassShape, Vec<Stage>) {
    let (size, budget) = (&request.size, request.resources.memory);
    let pass_shape = exact_rows::exact_pass_shape(size);
    let scan_stage = Stage { plan: stage_plans::plan_scan(size, pass_shape, budget), passes: 1 };
    if let Some(column_count) = linear_column_count(ridge, &request.options.kernel) {
        let (n, t) = (size.n as usize, size.t);
        let plan = exact_rows::exact_plan(stage_plans::ITERATION_STAGE, size, budget)
            .term("entries of the rows", SparseMatrix::bytes(n, size.d), ROWS_REMEDY)
            .term("vectors, and weights of the columns", cg::bytes(n, t) + 8 * (t + 2) * column_count, ROWS_REMEDY);
        return (pass_shape, vec![scan_stage, Stage { plan, passes: 1 }]);
    }
    if resolve_method(ridge, size, budget) == RidgeMethod::Direct {
        return (pass_shape, vec![scan_stage, Stage { plan: direct_plan(size, budget), passes: 1 }]);
    }
    let stages = pcg_plans::<T>(size, pass_shape, &request.options, budget).into_iter().zip([1, 0, 0]);
    (pass_shape, std::iter::once(scan_stage).chain(stages.map(|(plan, passes)| Stage { plan, passes })).collect())
}

/// Returns the number of columns if the solver learns one weight per column, otherwise `None`. The
/// solver does so if the kernel is linear, the rows are sparse, and neither the direct method nor
/// leave-one-out is requested.
fn linear_column_count(ridge: &Ridge, kernel: &Kernel) -> Option<usize> {
    kernel.sparse_linear_columns().filter(|_| !ridge.computes_loo && ridge.method != RidgeMethod::Direct)
}

fn resolve_method(ridge: &Ridge, size: &ProblemSize, budget: usize) -> RidgeMethod {
    match ridge.method {
        // leave-one-out errors need the Cholesky factor
        RidgeMethod::Auto if ridge.computes_loo => RidgeMethod::Direct,
        RidgeMethod::Auto if size.n <= MAX_DIRECT_ROWS as u64 && direct_plan(size, budget).bytes() <= budget => {
            RidgeMethod::Direct
        }
        RidgeMethod::Auto => RidgeMethod::Pcg,
        method => method,
    }
}

fn direct_plan(size: &ProblemSize, budget: usize) -> MemoryPlan {
    let bytes = dual_problem::direct_bytes(size.n as usize, size.d, size.t, size.threads);
    exact_rows::exact_plan(stage_plans::FACTOR_STAGE, size, budget).term(
        "kernel matrix and its factor",
        bytes,
        "use `method` pcg",
    )
}

fn pcg_plans<T: Real>(
    size: &ProblemSize,
    pass_shape: PassShape,
    options: &TrainOptions,
    budget: usize,
) -> [MemoryPlan; 3] {
    let (n, p) = (size.n as usize, size.map.p);
    let remedy = "lower `rank`";
    let mut landmark_plan = stage_plans::plan_pivoted_selection(size, pass_shape, budget);
    if matches!(options.landmarks, LandmarkSource::Scheme(_)) {
        let row_bytes = size.d * size.element_bytes + 8 * (size.t + 1);
        landmark_plan = landmark_plan.term("rows, which the model stores", n * row_bytes, ROWS_REMEDY);
    }
    let preconditioner_plan = exact_rows::exact_plan("preconditioner", size, budget)
        .term("feature map", size.map.footprint.fixed, remedy)
        .term("matrices to build it", size.map.build_bytes, remedy)
        .term("features and their factors", LowRankInverse::<T>::bytes(n, p), remedy)
        .term("features in f64", LowRankInverse::<T>::build_bytes(p, size.threads), remedy);
    let (iteration_plan, kernel_bytes) = iteration_plan::<T>(size, budget);
    [landmark_plan, preconditioner_plan, iteration_plan.term("stored kernel values", kernel_bytes, "")]
}

/// Returns the memory plan of the iteration without stored kernel values, and the bytes in which
/// kernel values may be stored: enough for all values, or else the rest of `budget`.
fn iteration_plan<T: Real>(size: &ProblemSize, budget: usize) -> (MemoryPlan, usize) {
    let n = size.n as usize;
    let plan = exact_rows::exact_plan(stage_plans::ITERATION_STAGE, size, budget)
        .term("features and their factors", LowRankInverse::<T>::bytes(n, size.map.p), "lower `rank`")
        .term("vectors", dual_problem::iterative_bytes(n, size.d, size.t, size.threads), ROWS_REMEDY);
    let kernel_bytes = KernelTiles::<T>::full_cache_bytes(n).min(budget.saturating_sub(plan.bytes()));
    (plan, kernel_bytes)
}

pub(super) fn fit<T: Real>(
    ridge: &Ridge,
    data: &FitData<'_, T>,
    rows: &MemoryRows<T>,
    size: &ProblemSize,
    read_settings: &ReadSettings,
) -> Result<Solution<T>> {
    let (n, target_centre) = (rows.len(), data.targets.centre());
    let has_free_intercept = ridge.intercept == Intercept::Free;
    // the targets in memory are centred, which only a free intercept can undo; for another
    // intercept, add the mean back
    let target_shift = |j: usize| if has_free_intercept { 0.0 } else { target_centre[j] };
    let y = Mat::from_fn(n, target_centre.len(), |i, j| rows.y()[i * target_centre.len() + j] + target_shift(j));
    let lambda = match data.options.relative_noise {
        Some(noise) if ridge.lambdas.len() != 1 => noise / n as f64,
        _ => ridge.single_lambda::<T>()?,
    };
    let mu = lambda * n as f64;
    let centring = Centring::new(ridge.intercept, n, mu);
    let problem = ExactProblem { y: y.as_ref(), mu, centring, workers: data.resources.workers };
    let exact_fit = ExactFit { ridge, data, read_settings, rows, size, problem };
    let (dual, method, basis) = match linear_column_count(ridge, data.kernel) {
        Some(column_count) => exact_fit.solve_linear(column_count)?,
        None => {
            let (dual, method) = match resolve_method(ridge, size, data.resources.memory) {
                RidgeMethod::Direct => exact_fit.solve_direct(None)?,
                _ => exact_fit.solve_with_fallback()?,
            };
            let row_numbers = (0..n).map(|i| rows.row_number(i)).collect();
            (dual, method, Basis::Landmarks { points: rows.x().to_vec(), row_numbers })
        }
    };
    if let Some(cg_solution) = &dual.cg_solution {
        cg_solution.check(RESIDUAL_REMEDY)?;
        let remedy = "raise `rank` for a better preconditioner, or raise `lambda`";
        pcg::warn_of_residual(cg_solution, ridge.residual_tolerance::<T>(), remedy, data.resources);
    }
    Ok(Solution {
        basis: Some(basis),
        intercept: dual
            .intercept
            .iter()
            .zip(&target_centre)
            .map(|(c, centre)| if has_free_intercept { c + centre } else { *c })
            .collect(),
        lambda: Some(lambda),
        method: Some(method),
        figures: dual.cg_solution.as_ref().map_or(Vec::new(), CgSolution::figures),
        loo_mse: dual.loo_mse,
        train_score: Some(train_score(dual.residuals.as_ref(), y.as_ref())),
        weights: dual.coefficients,
        ..Solution::default()
    })
}

/// Rejects landmark schemes that read targets: the preconditioner depends on the kernel alone.
pub(super) fn check_landmark_scheme(request: &FitRequest<'_>) -> Result<()> {
    let Some(scheme) = request.options.landmarks.scheme() else { return Ok(()) };
    let why = "the preconditioner of the exact kernel does not read the target; choose another scheme";
    reject_if(scheme.needs_targets, "landmarks", scheme.name, why)
}

fn train_score(errors: MatRef<'_, f64>, y: MatRef<'_, f64>) -> (f64, Option<f64>) {
    let n = y.nrows().max(1) as f64;
    let variances = y.col_iter().map(|y| {
        let mean = y.iter().sum::<f64>() / n;
        y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n
    });
    mse_and_r2(errors.squared_norm_l2() / n, variances.sum(), y.ncols())
}

struct ExactFit<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
    read_settings: &'a ReadSettings,
    rows: &'a MemoryRows<T>,
    size: &'a ProblemSize,
    problem: ExactProblem<'a>,
}

impl<T: Real> ExactFit<'_, T> {
    fn x(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(self.rows.x(), self.rows.len(), RowSource::<T>::shape(self.rows).input_count)
    }

    fn stopping_rule<'u>(&'u self, observer: &'u dyn Observer) -> StoppingRule<'u> {
        StoppingRule { tolerance: self.ridge.residual_tolerance::<T>(), observer, journal: self.data.resources.journal }
    }

    /// Solves by conjugate gradient. If this fails, falls back to the direct method, provided that
    /// `method` is `auto` and the Cholesky factor fits the memory budget.
    fn solve_with_fallback(&self) -> Result<(DualSolution, SolveMethod)> {
        let (dual, method) = self.solve_iterative()?;
        let budget = self.data.resources.memory;
        match dual.cg_solution.as_ref().and_then(|solution| solution.check(RESIDUAL_REMEDY).err()) {
            Some(cg_error)
                if self.ridge.method == RidgeMethod::Auto && direct_plan(self.size, budget).bytes() <= budget =>
            {
                drop(dual);
                self.solve_direct(Some(cg_error))
            }
            _ => Ok((dual, method)),
        }
    }

    /// Solves by Cholesky factorisation. If conjugate gradient was tried before and failed,
    /// `cg_error` is its error, for the report.
    fn solve_direct(&self, cg_error: Option<Error>) -> Result<(DualSolution, SolveMethod)> {
        let n = self.rows.len();
        let _stage = self.data.resources.stage_observer.start_stage(stage_plans::FACTOR_STAGE, None);
        let kernel = self.data.kernel.build()?.typed::<f64>();
        kapprox::kernel::require_positive_definite(&*kernel, "exact kernel ridge regression")?;
        let x_f64: Vec<f64> = self.rows.x().iter().map(|v| v.to_f64()).collect();
        let x = MatRef::from_row_major_slice(&x_f64, n, self.x().ncols());
        let dual = self.problem.solve_direct(&*kernel, x, self.ridge.computes_loo)?;
        let why = match (self.ridge.method, cg_error) {
            (_, Some(Error::NotConverged { residual, iterations, .. })) => format!(
                "a Cholesky factor of all {n} rows, because conjugate gradient reached only a relative residual of {residual:.1e} in {iterations} iterations"
            ),
            (RidgeMethod::Auto, _) => {
                format!(
                    "a Cholesky factor of all {n} rows: it fits `memory`; `method` pcg selects conjugate gradient instead"
                )
            }
            _ => format!("a Cholesky factor of all {n} rows, as requested"),
        };
        Ok((dual, SolveMethod { name: "direct", why }))
    }

    /// Solves for one weight per column of sparse rows, and represents each weight vector by a few
    /// points whose inner products with a row give its prediction.
    fn solve_linear(&self, column_count: usize) -> Result<(DualSolution, SolveMethod, Basis<T>)> {
        let (resources, d) = (self.data.resources, self.x().ncols());
        let matrix = SparseMatrix::from_rows(self.rows.x(), d, column_count);
        let observer = resources.stage_observer.start_stage(stage_plans::ITERATION_STAGE, None);
        let mut system = LinearSystem { matrix: &matrix, problem: self.problem };
        let dual = system.solve(self.stopping_rule(&*observer))?;
        let weights: Vec<Vec<f64>> = dual.coefficients.col_iter().map(|a| system.weights(a)).collect();
        let (points, coefficients) = as_inner_products(&weights, d);
        let basis = Basis::Landmarks { points, row_numbers: vec![NO_ROW; coefficients.nrows()] };
        let why = format!("conjugate gradient for weights of the {column_count} columns of sparse rows");
        Ok((DualSolution { coefficients, ..dual }, SolveMethod { name: "linear", why }, basis))
    }

    /// Builds the preconditioner from landmarks, then solves by conjugate gradient.
    fn solve_iterative(&self) -> Result<(DualSolution, SolveMethod)> {
        let FitData { options, pass_shape, resources, .. } = *self.data;
        let (n, ExactProblem { mu, centring, workers, .. }) = (self.rows.len(), self.problem);
        let (map, kernel) = (kapprox::MapSpec::default(), self.data.kernel.clone());
        let options = TrainOptions { map, kernel, candidates: None, ..options.clone() };
        // no journal: a journal stores passes over the table, and this pass reads memory
        let resources_without_journal = Resources { journal: None, ..*resources };
        let (source, read_settings, row_count) = (self.rows, self.read_settings, n as u64);
        let built_map = MapBuilder {
            source,
            n: row_count,
            read_settings,
            options: &options,
            pass_shape,
            resources: &resources_without_journal,
        }
        .build()?;
        let p = built_map.map.dims().1;
        let preconditioner = {
            let _stage = resources.stage_observer.start_stage("preconditioner", None);
            let mut phi = Mat::<T>::zeros(n, p);
            built_map.map.apply(self.x(), phi.as_mut(), workers);
            LowRankInverse::new(phi, mu, centring, workers)?
        };
        drop(built_map.map);
        let observer = resources.stage_observer.start_stage(stage_plans::ITERATION_STAGE, None);
        let any_kernel = built_map.kernel.build()?;
        let (kernel, f64_kernel) = (any_kernel.typed::<T>(), any_kernel.typed::<f64>());
        let (_, kernel_bytes) = iteration_plan::<T>(self.size, resources.memory);
        let dual = self.problem.solve_iterative(
            &*kernel,
            &*f64_kernel,
            self.x(),
            &preconditioner,
            kernel_bytes,
            self.stopping_rule(&*observer),
        )?;
        let why = match self.ridge.method {
            RidgeMethod::Auto if n > MAX_DIRECT_ROWS => format!("more than {MAX_DIRECT_ROWS} rows"),
            RidgeMethod::Auto => "the Cholesky factor does not fit `memory`".to_string(),
            _ => "as requested".to_string(),
        };
        let why = format!("conjugate gradient, preconditioned by {p} landmarks ({}): {why}", options.landmarks);
        Ok((dual, SolveMethod { name: "pcg", why }))
    }
}
