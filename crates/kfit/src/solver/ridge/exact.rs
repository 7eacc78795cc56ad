//! Exact kernel ridge regression (`map` exact). With the linear kernel on sparse rows, the solver
//! learns one weight per column instead ([`super::linear`]).
//!
//! The rows are read into memory once and stay there, because they are part of the model. See
//! [`super::iterative::exact`] for the problem and both methods. A resumed run recomputes its
//! preconditioner and continues after its last iteration.

use super::iterative::cg::{self, CgSolution, Until};
use super::iterative::constant::Constant;
use super::iterative::exact::{self, Dual, ExactProblem};
use super::iterative::low_rank::LowRank;
use super::linear::LinearSystem;
use super::{DIRECT_ROWS, Ridge, RidgeMethod, pcg};
use crate::linalg::kernel_tiles::Tiles;
use crate::linalg::sparse_matrix::{SparseMatrix, functions};
use crate::model::{Basis, Intercept};
use crate::prepare::landmarks::Mapping;
use crate::prepare::{plan, whole};
use crate::request::{FitRequest, LandmarkSource, PassShape, ProblemSize, Resources, Stage, TrainOptions};
use crate::solver::{Found, Solved, explained, refuse};
use crate::{Error, Result, features::FitData};
use faer::{Mat, MatRef};
use kapprox::landmark::NO_ROW;
use kapprox::{Kernel, Real};
use kstore::{MemoryRows, Plan, Reading, RowSource, pass::Observer};

const REMEDY: &str = "raise `lambda`, raise `rank` for a better preconditioner, or use `method` direct";
const ROWS: &str = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";

/// Returns the stages of the fit. The first stage reads the statistics of the columns. The direct
/// method then has one stage, the factorisation. The iterative method has three: landmarks,
/// preconditioner, and iteration.
pub(super) fn stages<T: Real>(ridge: &Ridge, work: &FitRequest<'_>) -> (PassShape, Vec<Stage>) {
    let (shape, budget) = (&work.shape, work.resources.memory);
    let cut = whole::cut(shape);
    let scan = Stage { plan: plan::scan(shape, cut, budget), passes: 1 };
    if let Some(width) = linear(ridge, &work.options.kernel) {
        let (n, t) = (shape.n as usize, shape.t);
        let plan = whole::plan(plan::ITERATION, shape, budget)
            .term("entries of the rows", SparseMatrix::bytes(n, shape.d), ROWS)
            .term("vectors, and weights of the columns", cg::bytes(n, t) + 8 * (t + 2) * width, ROWS);
        return (cut, vec![scan, Stage { plan, passes: 1 }]);
    }
    if method(ridge, shape, budget) == RidgeMethod::Direct {
        return (cut, vec![scan, Stage { plan: direct_plan(shape, budget), passes: 1 }]);
    }
    let stages = iterative_plans::<T>(shape, cut, &work.options, budget).into_iter().zip([1, 0, 0]);
    (cut, std::iter::once(scan).chain(stages.map(|(plan, passes)| Stage { plan, passes })).collect())
}

/// Returns the number of columns if the solver learns one weight per column, otherwise `None`. It
/// does so for the linear kernel on sparse rows, unless the direct method or leave-one-out is
/// requested.
fn linear(ridge: &Ridge, kernel: &Kernel) -> Option<usize> {
    kernel.linear_on_sparse().filter(|_| !ridge.leave_one_out && ridge.method != RidgeMethod::Direct)
}

fn method(ridge: &Ridge, shape: &ProblemSize, budget: usize) -> RidgeMethod {
    match ridge.method {
        // leave-one-out errors need the Cholesky factor
        RidgeMethod::Auto if ridge.leave_one_out => RidgeMethod::Direct,
        RidgeMethod::Auto if shape.n <= DIRECT_ROWS as u64 && direct_plan(shape, budget).bytes() <= budget => {
            RidgeMethod::Direct
        }
        RidgeMethod::Auto => RidgeMethod::Pcg,
        given => given,
    }
}

fn direct_plan(shape: &ProblemSize, budget: usize) -> Plan {
    let bytes = exact::direct_bytes(shape.n as usize, shape.d, shape.t, shape.threads);
    whole::plan(plan::FACTOR, shape, budget).term("kernel matrix and its factor", bytes, "use `method` pcg")
}

fn iterative_plans<T: Real>(shape: &ProblemSize, cut: PassShape, options: &TrainOptions, budget: usize) -> [Plan; 3] {
    let (n, k) = (shape.n as usize, shape.map.p);
    let rank = "lower `rank`";
    let mut choose = plan::landmarks(shape, cut, budget);
    if matches!(options.landmarks, LandmarkSource::Scheme(_)) {
        let row = shape.d * shape.element + 8 * (shape.t + 1);
        choose = choose.term("rows, which the model stores", n * row, ROWS);
    }
    let made = whole::plan("preconditioner", shape, budget)
        .term("feature map", shape.map.footprint.fixed, rank)
        .term("matrices to build it", shape.map.making, rank)
        .term("features and their factors", LowRank::<T>::bytes(n, k), rank)
        .term("features in f64", LowRank::<T>::making_bytes(k, shape.threads), rank);
    let (solve, room) = solving::<T>(shape, budget);
    [choose, made, solve.term("stored kernel values", room, "")]
}

/// Returns the plan of the iteration without stored kernel values, and the number of bytes for
/// kernel values: enough for all of them, or what remains of `budget`.
fn solving<T: Real>(shape: &ProblemSize, budget: usize) -> (Plan, usize) {
    let n = shape.n as usize;
    let plan = whole::plan(plan::ITERATION, shape, budget)
        .term("features and their factors", LowRank::<T>::bytes(n, shape.map.p), "lower `rank`")
        .term("vectors", exact::iterative_bytes(n, shape.d, shape.t, shape.threads), ROWS);
    let room = Tiles::<T>::all_bytes(n).min(budget.saturating_sub(plan.bytes()));
    (plan, room)
}

pub(super) fn fit<T: Real>(
    ridge: &Ridge,
    data: &FitData<'_, T>,
    rows: &MemoryRows<T>,
    shape: &ProblemSize,
    reading: &Reading,
) -> Result<Found<T>> {
    let (n, centre) = (rows.len(), data.targets.centre());
    let free = ridge.intercept == Intercept::Free;
    // the stored targets are centred, which is valid only for a free intercept; otherwise the mean
    // is added back
    let shift = |j: usize| if free { 0.0 } else { centre[j] };
    let y = Mat::from_fn(n, centre.len(), |i, j| rows.y()[i * centre.len() + j] + shift(j));
    let lambda = ridge.lambda::<T>()?;
    let mu = lambda * n as f64;
    let constant = Constant::new(ridge.intercept, n, mu);
    let problem = ExactProblem { y: y.as_ref(), mu, constant, workers: data.resources.workers };
    let exact = Exact { ridge, data, reading, rows, shape, problem };
    let (dual, method, basis) = match linear(ridge, data.kernel) {
        Some(width) => exact.linear(width)?,
        None => {
            let (dual, solved) = match method(ridge, shape, data.resources.memory) {
                RidgeMethod::Direct => exact.direct(None)?,
                _ => exact.iterated()?,
            };
            let rows_of = (0..n).map(|i| rows.row(i)).collect();
            (dual, solved, Basis::Landmarks { points: rows.x().to_vec(), rows: rows_of })
        }
    };
    if let Some(found) = &dual.found {
        found.check(REMEDY)?;
        let remedy = "raise `rank` for a better preconditioner, or raise `lambda`";
        pcg::warn_of_residual(found, ridge.tolerated::<T>(), remedy, data.resources);
    }
    Ok(Found {
        basis: Some(basis),
        intercept: dual.intercept.iter().zip(&centre).map(|(c, centre)| if free { c + centre } else { *c }).collect(),
        lambda: Some(lambda),
        method: Some(method),
        figures: dual.found.as_ref().map_or(Vec::new(), CgSolution::figures),
        left_out: dual.left_out,
        train: Some(score(dual.errors.as_ref(), y.as_ref())),
        weights: dual.coefficients,
        ..Found::default()
    })
}

/// Rejects landmark schemes that read targets: the preconditioner depends on the kernel alone.
pub(super) fn check(work: &FitRequest<'_>) -> Result<()> {
    let Some(scheme) = work.options.landmarks.scheme() else { return Ok(()) };
    let remedy = "the preconditioner of the exact kernel does not read the target; choose another scheme";
    refuse(scheme.needs_targets, "landmarks", scheme.name, remedy)
}

fn score(errors: MatRef<'_, f64>, y: MatRef<'_, f64>) -> (f64, Option<f64>) {
    let n = y.nrows().max(1) as f64;
    let variance = y.col_iter().map(|y| {
        let mean = y.iter().sum::<f64>() / n;
        y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n
    });
    explained(errors.squared_norm_l2() / n, variance.sum(), y.ncols())
}

struct Exact<'a, T: Real> {
    ridge: &'a Ridge,
    data: &'a FitData<'a, T>,
    reading: &'a Reading,
    rows: &'a MemoryRows<T>,
    shape: &'a ProblemSize,
    problem: ExactProblem<'a>,
}

impl<T: Real> Exact<'_, T> {
    fn x(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(self.rows.x(), self.rows.len(), RowSource::<T>::shape(self.rows).features)
    }

    fn until<'u>(&'u self, observer: &'u dyn Observer) -> Until<'u> {
        Until { tolerance: self.ridge.tolerated::<T>(), observer, journal: self.data.resources.journal }
    }

    /// Solves by conjugate gradient. If this fails, falls back to the direct method, provided that
    /// the method is `auto` and the factor fits the memory budget.
    fn iterated(&self) -> Result<(Dual, Solved)> {
        let (dual, solved) = self.iterative()?;
        let memory = self.data.resources.memory;
        match dual.found.as_ref().and_then(|found| found.check(REMEDY).err()) {
            Some(why)
                if self.ridge.method == RidgeMethod::Auto && direct_plan(self.shape, memory).bytes() <= memory =>
            {
                drop(dual);
                self.direct(Some(why))
            }
            _ => Ok((dual, solved)),
        }
    }

    /// Solves by a Cholesky factor. The argument is the error of conjugate gradient if it failed
    /// before.
    fn direct(&self, since: Option<Error>) -> Result<(Dual, Solved)> {
        let n = self.rows.len();
        let _stage = self.data.resources.stages.stage(plan::FACTOR, None);
        let kernel = self.data.kernel.build()?.typed::<f64>();
        kapprox::kernel::require_positive_definite(&*kernel, "exact kernel ridge regression")?;
        let wide: Vec<f64> = self.rows.x().iter().map(|v| v.to_f64()).collect();
        let x = MatRef::from_row_major_slice(&wide, n, self.x().ncols());
        let dual = self.problem.direct(&*kernel, x, self.ridge.leave_one_out)?;
        let why = match (self.ridge.method, since) {
            (_, Some(Error::NoSolution { residual, iterations, .. })) => format!(
                "a Cholesky factor of all {n} rows, because conjugate gradient reached only a relative residual of {residual:.1e} in {iterations} iterations"
            ),
            (RidgeMethod::Auto, _) => {
                format!(
                    "a Cholesky factor of all {n} rows: it fits `memory`; `method` pcg selects conjugate gradient instead"
                )
            }
            _ => format!("a Cholesky factor of all {n} rows, as requested"),
        };
        Ok((dual, Solved { name: "direct", why }))
    }

    fn linear(&self, width: usize) -> Result<(Dual, Solved, Basis<T>)> {
        let (resources, d) = (self.data.resources, self.x().ncols());
        let matrix = SparseMatrix::of(self.rows.x(), d, width);
        let observer = resources.stages.stage(plan::ITERATION, None);
        let mut system = LinearSystem { matrix: &matrix, problem: self.problem };
        let dual = system.solve(self.until(&*observer))?;
        let weights: Vec<Vec<f64>> = dual.coefficients.col_iter().map(|a| system.weights(a)).collect();
        let (points, coefficients) = functions(&weights, d);
        let basis = Basis::Landmarks { points, rows: vec![NO_ROW; coefficients.nrows()] };
        let why = format!("conjugate gradient for weights of the {width} columns of sparse rows");
        Ok((Dual { coefficients, ..dual }, Solved { name: "linear", why }, basis))
    }

    fn iterative(&self) -> Result<(Dual, Solved)> {
        let FitData { options, cut, resources, .. } = *self.data;
        let (n, ExactProblem { mu, constant, workers, .. }) = (self.rows.len(), self.problem);
        let (map, kernel) = (kapprox::MapSpec::default(), self.data.kernel.clone());
        let options = TrainOptions { map, kernel, candidates: None, ..options.clone() };
        // without a journal, because it stores passes over the table and this pass reads memory
        let here = Resources { journal: None, ..*resources };
        let (source, reading, n_all) = (self.rows, self.reading, n as u64);
        let mapped = Mapping { source, n: n_all, reading, options: &options, cut, resources: &here }.map()?;
        let k = mapped.map.dims().1;
        let preconditioner = {
            let _stage = resources.stages.stage("preconditioner", None);
            let mut phi = Mat::<T>::zeros(n, k);
            mapped.map.apply(self.x(), phi.as_mut(), workers);
            LowRank::new(phi, mu, constant, workers)?
        };
        drop(mapped.map);
        let observer = resources.stages.stage(plan::ITERATION, None);
        let any = mapped.kernel.build()?;
        let (kernel, exact) = (any.typed::<T>(), any.typed::<f64>());
        let (_, room) = solving::<T>(self.shape, resources.memory);
        let dual =
            self.problem.iterative((&*kernel, &*exact), self.x(), &preconditioner, room, self.until(&*observer))?;
        let why = match self.ridge.method {
            RidgeMethod::Auto if n > DIRECT_ROWS => format!("more than {DIRECT_ROWS} rows"),
            RidgeMethod::Auto => "the Cholesky factor does not fit `memory`".to_string(),
            _ => "as requested".to_string(),
        };
        let why = format!("conjugate gradient, preconditioned by {k} landmarks ({}): {why}", options.landmarks);
        Ok((dual, Solved { name: "pcg", why }))
    }
}
