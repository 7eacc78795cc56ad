//! Support vector machines: classification, regression and anomaly detection with few support
//! vectors; and quantiles, expectiles and robust means by the same methods.
//!
//! The four solvers minimise, over w and b with f_i = wᵀφ_i + b,
//!
//! ```text
//! svm        (1/n) Σ a_i max(0, 1 − y_i f_i) + lambda ‖w‖²
//! svr        (1/n) Σ a_i max(0, |y_i − f_i| − epsilon) + lambda ‖w‖²
//! quantile   (1/n) Σ a_i loss(y_i − f_i) + lambda ‖w‖²
//! oneclass   ½‖w‖² + 1/(nu n) Σ a_i max(0, −f_i) + b;   the score f is negative for novel rows
//! ```
//!
//! a_i is the weight of row i (1 if rows have no weights) times the weight of its class; n is the
//! sum of the row weights. With `loss` squared-hinge, max(0, 1 − y_i f_i) is squared. Two classes
//! need one problem, more classes one problem per class (one-vs-rest), svr one problem per target,
//! and quantile one problem per target and level (its losses: `regression.rs`). Classification also
//! supports cross-validation of regularisation parameters, one-vs-one SVMs and probabilities.
//!
//! Divided by 2 lambda, the first two objectives are LIBSVM's ½‖w‖² + C Σ a_i loss_i with C = 1/(2n
//! lambda). LIBSVM's intercept is free, as it is by default here; LIBLINEAR's intercept is
//! penalised. LIBSVM's one-class objective is this one multiplied by nu n.
//!
//! The module `exact` solves the duals for the exact kernel (`map` exact). On features,
//! `lagrangian.rs` solves all problems in passes over stored features, up to a relative duality
//! gap. The gap is measured at every step, and bounds how far the objective is above the optimum.
//! The reported gap is computed in f64 from the returned SVM. If f32 rounding prevents a smaller
//! gap, the steps continue in f64.
//!
//! If the intercept is free, the targets of svr and quantile are centred, and the intercept absorbs
//! the shift. The reported objective is then the objective for the centred targets.
//!
//! *Bytes*: the features, 24 per row and problem, and 8p² and p/2 rows of features for each problem
//! of a group (problems that are solved together). The size of a group depends on n and p, never on
//! the available memory.

mod classification;
mod exact;
mod lagrangian;
mod line_search;
mod loss;
mod newton_equations;
mod one_class;
mod passes;
mod problem_group;
mod quantile;
mod radius_margin;
mod regression;
mod sample;
mod svr;
mod target_scale;
mod workspace;

pub(super) use one_class::ONE_CLASS;
pub(super) use quantile::QUANTILE;
pub(super) use svr::SVR;

use super::parameter::{
    C_GRID, CLASS_WEIGHT, FOLDS, GAP, INTERCEPT, INTERVAL, LAMBDA_GRID, PROBABILITIES, Parameter, ParameterKind, STEPS,
    TOLERANCE, WEIGHTS,
};
use super::{NamedValues, Solution, Solver, SolverFamily, cross_validation};
use crate::features::{self, FitData, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{Result, Task, prepare::stage_plans};
use classification::Svm;
use faer::Mat;
use kapprox::{Real, gram::GramBuffers};
use kstore::MemoryPlan;
use lagrangian::{Problem, ProblemOptions, RowFn};
use problem_group::{GroupOutcome, SolveContext, certify_in_f64, solve_group, start_at};
use sample::FeatureSample;
use workspace::{CertifiedPoint, Workspace};

pub(super) const SVM: SolverFamily = SolverFamily::new(
    "svm",
    "support vector machine: classification with the largest margin",
    Task::Classification,
    &[
        LAMBDA_GRID,
        C_GRID,
        MULTICLASS,
        PROBABILITIES,
        FOLDS,
        INTERCEPT,
        CLASS_WEIGHT,
        LOSS,
        GAP,
        STEPS,
        TOLERANCE,
        INTERVAL,
        WEIGHTS,
    ],
    |settings| Ok(Box::new(Svm::new(settings)?)),
);

#[doc(hidden)]
pub const MULTICLASS: Parameter = Parameter {
    name: "multiclass",
    kind: ParameterKind::Choice(&["one-vs-rest", ONE_VS_ONE]),
    default: Some("one-vs-rest"),
    help: "With more than two classes: one-vs-rest trains an SVM per class, one-vs-one an SVM per pair of classes",
};

#[doc(hidden)]
pub const ONE_VS_ONE: &str = "one-vs-one";

pub(super) const LOSS: Parameter = Parameter {
    name: "loss",
    kind: ParameterKind::Choice(&["hinge", "squared-hinge"]),
    default: Some("hinge"),
    help: "Loss: hinge or squared-hinge (svm), squared-hinge or logistic (ranking), pinball, \
        expectile or huber (quantile)",
};

/// Maximum bytes of Newton's equations of a group of problems.
const MAX_EQUATION_BYTES: usize = 240 << 20;
/// Maximum bytes of the multipliers and values of a group of problems.
const MAX_MULTIPLIER_BYTES: usize = 256 << 20;

/// Bytes of a number in the f64 verification.
const F64_BYTES: usize = size_of::<f64>();
/// Bytes of a row's multiplier and its two values.
const ROW_BYTES: usize = 3 * F64_BYTES;

/// Number of steps in f32 without progress after which the steps continue in f64. (In f64 the gap
/// of hard problems may stay constant for up to 40 steps.)
const MAX_IDLE_STEPS: usize = 30;

/// Returns the number of problems that are solved together, which depends on n and p only.
fn group_size(n: usize, p: usize, problem_count: usize) -> usize {
    let (equation_bytes, multiplier_bytes) = (newton_equations::bytes(p), n.saturating_mul(ROW_BYTES).max(1));
    (MAX_EQUATION_BYTES / equation_bytes).min(MAX_MULTIPLIER_BYTES / multiplier_bytes).clamp(1, problem_count.max(1))
}

/// Adds to a plan the memory to solve `problem_count` problems. `target_bytes` is the bytes of
/// targets per row.
fn plan(
    plan: MemoryPlan,
    size: &ProblemSize,
    pass_shape: PassShape,
    target_bytes: usize,
    problem_count: usize,
) -> MemoryPlan {
    let (n, p, t) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.map.p, problem_count.max(1));
    let (element_bytes, problems_per_group) = (size.element_bytes, group_size(n, size.map.p, problem_count));
    let panel_bytes = size.threads * GramBuffers::<f64>::bytes(p);
    plan.term("targets of all rows", n.saturating_mul(target_bytes) + features::row_values_bytes(n, target_bytes), "")
        .term("multipliers and values of all rows", n.saturating_mul(ROW_BYTES * problems_per_group), "")
        .term("features of a sample", sample::sample_row_count(n, p) * (p * element_bytes + 8), "lower `rank`")
        .term("Newton's equations", problems_per_group * newton_equations::bytes(p) + panel_bytes, "lower `rank`")
        .term(
            "products of a tile",
            5 * pass_shape.tile_rows * problems_per_group * F64_BYTES + 8 * 12 * p * t,
            "lower `rank`",
        )
        .term(
            "sums and values of segments",
            8 * 2 * features::STATES_PER_REDUCTION * p * problems_per_group
                + features::row_values_bytes(n * problems_per_group, element_bytes),
            "lower `rank`",
        )
}

#[derive(Default)]
struct SolvedProblems {
    best_points: Vec<CertifiedPoint>,
    /// Largest gap of all problems before every step.
    gaps: Vec<f64>,
    passes: u64,
    step_count: usize,
}

impl SolvedProblems {
    fn append(&mut self, other: Self) {
        self.gaps.resize(self.gaps.len().max(other.gaps.len()), 0.0);
        self.gaps.iter_mut().zip(&other.gaps).for_each(|(largest, gap)| *largest = largest.max(*gap));
        self.best_points.extend(other.best_points);
        self.passes += other.passes;
        self.step_count = self.step_count.max(other.step_count);
    }
}

/// Solves some problems, and warns about problems that ran out of steps.
fn solve<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    max_steps: usize,
    problems: Vec<(R, ProblemOptions)>,
) -> Result<SolvedProblems> {
    let stage = data.resources.stage_observer.start_stage("newton", None);
    let context = SolveContext { observer: &*stage, journal: data.resources.journal };
    let gap_tolerance = problems.first().map_or(f64::INFINITY, |(_, options)| options.gap_tolerance);
    let solved_problems = solve_all(features, max_steps, problems, &mut Workspace::new(features.p), context)?;
    warn_of_gap(&solved_problems.best_points, solved_problems.step_count, gap_tolerance, data, "");
    Ok(solved_problems)
}

/// Solves the problems, in groups. Each group is first solved on a sample of the
/// rows, and finally certified in f64.
fn solve_all<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    max_steps: usize,
    problems: Vec<(R, ProblemOptions)>,
    workspace: &mut Workspace<T>,
    context: SolveContext<'_>,
) -> Result<SolvedProblems> {
    let problems_per_group = group_size(features.n, features.p, problems.len());
    let (mut sample, mut solved_problems) = (None, SolvedProblems::default());
    let sample_passes = sample::passes(features.n, features.p);
    solved_problems.passes += sample_passes;
    let limit_idle_steps =
        |(rows, options)| (rows, ProblemOptions { max_idle_steps: max_idle_steps::<T>(), ..options });
    let mut remaining_problems = problems.into_iter().map(limit_idle_steps).peekable();
    while remaining_problems.peek().is_some() {
        let group: Vec<(R, ProblemOptions)> = remaining_problems.by_ref().take(problems_per_group).collect();
        let start_points = FeatureSample::starting_points(&mut sample, features, &group, workspace, context)?;
        let problems = group.into_iter().map(|(rows, options)| Problem::new(rows, options, features.n, workspace));
        let mut problems: Vec<Problem<T, R>> = problems.collect();
        start_at(features, &mut problems, &start_points, context.observer)?;
        let GroupOutcome { mut gaps, passes } = solve_group(features, &mut problems, max_steps, workspace, context)?;
        let (problems, f64_outcome) = certify_in_f64(features, problems, max_steps, workspace, context)?;
        gaps.extend(f64_outcome.gaps);
        let step_count = problems.iter().map(|problem| problem.step_count).max().unwrap_or(0);
        let best_points = problems.into_iter().map(|problem| problem.best).collect();
        let passes = passes + f64_outcome.passes + sample_passes;
        solved_problems.append(SolvedProblems { best_points, gaps, passes, step_count });
    }
    Ok(solved_problems)
}

/// Solves some problems on the rows outside a fold, at every regularisation parameter. Also returns
/// the number of passes. `problems_at` returns the problems at the parameter with this index,
/// strongest first. Each parameter starts from the multipliers for the parameter before it. They
/// are feasible, because a weaker parameter has wider bounds. `sample` is a sample of the same
/// rows.
fn solve_path<'k, T: Real, R: RowFn>(
    features: &StoredFeatures<'k, T>,
    sample: &mut Option<FeatureSample<'k, T>>,
    data: &FitData<'_, T>,
    penalty_count: usize,
    problems_at: impl Fn(usize) -> Vec<(R, ProblemOptions)>,
    max_steps: usize,
    workspace: &mut Workspace<T>,
    context: SolveContext<'_>,
) -> Result<(Vec<Vec<CertifiedPoint>>, u64)> {
    // solves the problems on the sample before the problems of all rows are allocated, so that the
    // Newton equations of both are never in memory together
    let first_problems = problems_at(0);
    let start_points = FeatureSample::starting_points(sample, features, &first_problems, workspace, context)?;
    let mut passes = sample::passes(features.n, features.p);
    let first_problems =
        first_problems.into_iter().map(|(rows, options)| Problem::new(rows, options, features.n, workspace));
    let mut problems: Vec<_> = first_problems.collect();
    start_at(features, &mut problems, &start_points, context.observer)?;
    let mut path = Vec::new();
    for penalty_index in 0..penalty_count {
        if penalty_index > 0 {
            problems
                .iter_mut()
                .zip(problems_at(penalty_index))
                .for_each(|(problem, (rows, options))| problem.restart(rows, options));
        }
        passes += solve_group(features, &mut problems, max_steps, workspace, context)?.passes;
        let best_points: Vec<CertifiedPoint> = problems.iter().map(|problem| problem.best.clone()).collect();
        let gap_tolerance = problems.iter().map(Problem::gap_tolerance).fold(f64::INFINITY, f64::min);
        warn_of_gap(&best_points, max_steps, gap_tolerance, data, FITTED_WITHOUT_FOLD);
        path.push(best_points);
    }
    problems.into_iter().for_each(|problem| drop(problem.into_best(workspace)));
    Ok((path, passes))
}

/// Returns the number of steps without progress after which a problem in type `T` ends. The number
/// is small in f32, because the steps then continue in f64.
fn max_idle_steps<T>() -> usize {
    if size_of::<T>() < size_of::<f64>() { MAX_IDLE_STEPS } else { usize::MAX }
}

/// Part of a warning about the gap of a problem that was solved without a fold.
const FITTED_WITHOUT_FOLD: &str = " of a problem that leaves out a fold";

/// Warns if the largest gap exceeds the tolerance. `which_svms` completes the message.
fn warn_of_gap<'b, T: Real>(
    best_points: impl IntoIterator<Item = &'b CertifiedPoint>,
    step_count: usize,
    gap_tolerance: f64,
    data: &FitData<'_, T>,
    which_svms: &str,
) {
    let largest_gap = best_points.into_iter().map(CertifiedPoint::gap).fold(0.0, f64::max);
    if largest_gap > gap_tolerance {
        data.resources.stage_observer.warn(format!(
            "the relative duality gap{which_svms} is {largest_gap:.1e} after {step_count} steps, above the requested {gap_tolerance:.1e}; raise \
             `steps` or `gap`"
        ));
    }
}

/// Builds the result from solved problems. `lambdas` are the regularisation parameters of the
/// levels, and problem j has the level j mod the number of levels. The reported objectives are the
/// mean loss plus lambda ‖w‖²; without `lambdas`, they are reported unchanged.
fn solution_of<T>(
    SolvedProblems { best_points, gaps, passes, step_count }: SolvedProblems,
    lambdas: &[f64],
    certificate: Option<crate::CertificateState>,
) -> Solution<T> {
    let values_of = |value: &dyn Fn(&CertifiedPoint) -> f64| best_points.iter().map(value).collect::<Vec<f64>>();
    let factors: Vec<f64> = if lambdas.is_empty() { vec![1.0] } else { lambdas.iter().map(|l| 2.0 * l).collect() };
    let objectives = best_points.iter().zip(factors.iter().cycle()).map(|(best, factor)| factor * best.primal);
    let figures = vec![
        NamedValues { name: "objective", values: objectives.collect() },
        NamedValues { name: "duality gap", values: values_of(&CertifiedPoint::gap) },
        NamedValues { name: "support vectors", values: values_of(&|best| best.support_vectors as f64) },
        NamedValues::single("steps", step_count as f64),
        NamedValues { name: "largest gap by step", values: gaps },
    ];
    let p = best_points.first().map_or(0, |best| best.w.len());
    Solution {
        weights: Mat::from_fn(p, best_points.len(), |i, j| best_points[j].w[i]),
        intercept: best_points.iter().map(|best| best.b).collect(),
        certificate,
        lambda: lambdas.first().copied().filter(|first| lambdas.iter().all(|lambda| lambda == first)),
        figures,
        passes: 1 + passes,
        ..Solution::default()
    }
}

/// Returns the stages of a fit on features, or with the exact kernel. `concurrent_problem_count` is
/// the number of problems that are solved at the same time.
fn stages<T: Real>(
    solver: &dyn Solver<T>,
    access: RowAccess,
    request: &FitRequest<'_>,
    (problem_count, concurrent_problem_count, penalty_count): (usize, usize, usize),
) -> (PassShape, Vec<Stage>) {
    match access {
        RowAccess::Rows => exact::stages(request, problem_count, concurrent_problem_count, penalty_count),
        _ => stage_plans::feature_stages(
            request,
            &|plan, pass_shape| solver.plan(plan, &request.size, pass_shape),
            solver.further_passes(request),
        ),
    }
}
