//! Support vector machines: classification, regression and novelty detection with few support
//! vectors.
//!
//! ```text
//! svm        (1/n) Σ a_i max(0, 1 − y_i f_i) + lambda ‖w‖², or its square (`loss` squared-hinge)
//! svr        (1/n) Σ a_i max(0, |y_i − f_i| − epsilon) + lambda ‖w‖²
//! oneclass   ½‖w‖² + 1/(nu n) Σ a_i max(0, −f_i) + b;   the score f is negative for novel rows
//! ```
//!
//! are minimised over w and b, with f = wᵀφ + b. Two classes need one problem, more classes
//! one-vs-rest problems, and svr one problem per target. Classification also cross-validates
//! regularisation parameters, fits one-vs-one classifiers and calibrates probabilities.
//!
//! Divided by 2 lambda the first two are LIBSVM's ½‖w‖² + C Σ a_i loss_i with C = 1/(2n lambda).
//! LIBSVM's bias is free, the default here; LIBLINEAR's is penalised. LIBSVM's one-class SVM is
//! scaled by nu n. a_i is 1, or the weight of the row, times the weight of its class; n is the sum
//! of the row weights.
//!
//! `exact` solves the duals for the exact kernel (`map` exact). On features `lagrangian.rs` solves
//! all problems, in passes over stored features, up to a relative duality gap, which is measured at
//! every step and bounds how far the objective is above the optimum. The reported gap is computed
//! in f64 from the returned SVM; if f32 rounding prevents a smaller gap, the steps continue in f64.
//!
//! A free intercept centres the targets of svr and absorbs the shift: the objective is that of the
//! centred targets.
//!
//! *Bytes*: the features, 24 per row and problem, 8p² and p/2 rows per problem of a group. Problems
//! are independent; the size of a group depends on n and p, never on the available memory.

mod classes;
mod exact;
mod group;
mod lagrangian;
mod loss;
mod newton;
mod one_class;
mod passes;
mod sample;
mod search;
mod space;
mod svr;

pub(super) use one_class::ONE_CLASS;
pub(super) use svr::SVR;

use super::parameter::{
    CLASS_WEIGHT, COSTS, FOLDS, GAP, INTERCEPT, LAMBDAS, PROBABILITIES, Parameter, ParameterKind, STEPS, TOLERANCE,
    WEIGHTS,
};
use super::{Figure, Found, Solver, SolverFamily, held_out};
use crate::features::{self, FitData, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{Result, Task, prepare::plan};
use classes::Svm;
use faer::Mat;
use group::{Outcome, Watch, begin, prove, solve_group};
use kapprox::{Real, gram::Panels};
use kstore::Plan;
use lagrangian::{Problem, Rows, Terms};
use sample::Sample;
use space::{Best, Space};

pub(super) const SVM: SolverFamily = SolverFamily::new(
    "svm",
    "support vector machine: classification with the largest margin",
    Task::Classification,
    &[LAMBDAS, COSTS, PAIRS, PROBABILITIES, FOLDS, INTERCEPT, CLASS_WEIGHT, LOSS, GAP, STEPS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(Svm::new(settings)?)),
);

#[doc(hidden)]
pub const PAIRS: Parameter =
    Parameter::flag("pairs", "Train one SVM per pair of classes (one-vs-one) instead of one per class (one-vs-rest)");

pub(super) const LOSS: Parameter = Parameter {
    name: "loss",
    kind: ParameterKind::Word(&["hinge", "squared-hinge"]),
    default: Some("hinge"),
    about: "Loss: hinge or squared-hinge (svm), squared-hinge or logistic (ranking)",
};

/// Maximum bytes of Newton's equations of a group of problems, and of their multipliers and values.
const EQUATIONS: usize = 240 << 20;
const MULTIPLIERS: usize = 256 << 20;

/// Bytes of a number in the f64 verification, and of a row's multiplier and values in it.
const WIDE: usize = size_of::<f64>();
const ROW: usize = 3 * WIDE;

/// Steps in f32 without a smaller gap after which the steps continue in f64. In f64 the gap of hard
/// problems may stay constant for up to 40 steps.
const PATIENCE: usize = 30;

/// Returns the number of problems that are solved together, which depends on n and p only.
fn group_size(n: usize, p: usize, problems: usize) -> usize {
    let (equations, multipliers) = (newton::bytes(p), n.saturating_mul(ROW).max(1));
    (EQUATIONS / equations).min(MULTIPLIERS / multipliers).clamp(1, problems.max(1))
}

/// Adds the memory to solve this many problems to the plan, with this many bytes of targets per
/// row.
fn plan(plan: Plan, shape: &ProblemSize, cut: PassShape, targets: usize, problems: usize) -> Plan {
    let (n, p, t) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p, problems.max(1));
    let (e, together) = (shape.element, group_size(n, shape.map.p, problems));
    let panels = shape.threads * Panels::<f64>::bytes(p);
    plan.term("targets of all rows", n.saturating_mul(targets) + features::values_bytes(n, targets), "")
        .term("multipliers and values of all rows", n.saturating_mul(ROW * together), "")
        .term("features of a sample", sample::rows(n, p) * (p * e + 8), "lower `rank`")
        .term("Newton's equations", together * newton::bytes(p) + 8 * p * p + panels, "lower `rank`")
        .term("products of a tile", 5 * cut.tile * together * WIDE + 8 * 12 * p * t, "lower `rank`")
        .term(
            "sums and values of segments",
            8 * 2 * features::STATES * p * together + features::values_bytes(n * together, e),
            "lower `rank`",
        )
}

#[derive(Default)]
struct Solutions {
    best: Vec<Best>,
    /// Largest gap of all problems before every step.
    gaps: Vec<f64>,
    passes: u64,
    steps: usize,
}

impl Solutions {
    fn add(&mut self, other: Self) {
        self.gaps.resize(self.gaps.len().max(other.gaps.len()), 0.0);
        self.gaps.iter_mut().zip(&other.gaps).for_each(|(largest, gap)| *largest = largest.max(*gap));
        self.best.extend(other.best);
        self.passes += other.passes;
        self.steps = self.steps.max(other.steps);
    }
}

/// Solves a problem for each of `rows`, and warns about problems that ran out of steps.
fn solve<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    terms: Terms,
    steps: usize,
    rows: Vec<R>,
) -> Result<Solutions> {
    let stage = data.resources.stages.stage("newton", None);
    let watch = Watch { observer: &*stage, journal: data.resources.journal };
    let solved = solve_all(kept, terms, steps, rows, &mut Space::new(kept.p), watch)?;
    warn_of_gap(&solved.best, solved.steps, terms, data, "");
    Ok(solved)
}

/// Solves a problem for each of `rows`, in groups, first on a sample of the rows.
fn solve_all<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    terms: Terms,
    steps: usize,
    rows: Vec<R>,
    space: &mut Space<T>,
    watch: Watch<'_>,
) -> Result<Solutions> {
    let terms = Terms { patience: patience::<T>(), ..terms };
    let together = group_size(kept.n, kept.p, rows.len());
    let (mut sample, mut solved) = (None, Solutions::default());
    let sampled = sample::passes(kept.n, kept.p);
    solved.passes += sampled;
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<R> = rows.by_ref().take(together).collect();
        let starts = Sample::starts(&mut sample, kept, &some, terms, space, watch)?;
        let problems = some.into_iter().map(|rows| Problem::new(rows, terms, kept.n, space));
        let mut problems: Vec<Problem<T, R>> = problems.collect();
        begin(kept, &mut problems, &starts, watch.observer)?;
        let Outcome { mut gaps, passes } = solve_group(kept, &mut problems, steps, space, watch)?;
        let wide = Terms { patience: usize::MAX, ..terms };
        let (problems, proof) = prove(kept, problems, wide, steps, space, watch)?;
        gaps.extend(proof.gaps);
        let steps = problems.iter().map(|problem| problem.steps).max().unwrap_or(0);
        let best = problems.into_iter().map(|problem| problem.best).collect();
        solved.add(Solutions { best, gaps, passes: passes + proof.passes + sampled, steps });
    }
    Ok(solved)
}

/// Returns the number of steps without progress after which a problem ends in type `T`: few in f32,
/// because the steps continue in f64.
fn patience<T>() -> usize {
    if size_of::<T>() < size_of::<f64>() { PATIENCE } else { usize::MAX }
}

/// Part of a warning about the gap of an SVM fitted without its held-out rows.
const HELD_OUT: &str = " of an SVM fitted without a fold";

fn warn_of_gap<'b, T: Real>(
    best: impl IntoIterator<Item = &'b Best>,
    steps: usize,
    terms: Terms,
    data: &FitData<'_, T>,
    whose: &str,
) {
    let open = best.into_iter().map(Best::gap).fold(0.0, f64::max);
    if open > terms.gap {
        let asked = terms.gap;
        data.resources.stages.warn(format!(
            "the relative duality gap{whose} is {open:.1e} after {steps} steps, above the requested {asked:.1e}; raise \
             `steps` or `gap`"
        ));
    }
}

/// Builds the result from some solved problems; objectives are multiplied by `unit`.
fn fitted<T>(
    Solutions { best, gaps, passes, steps }: Solutions,
    unit: f64,
    lambda: Option<f64>,
    certificate: Option<crate::CertificateState>,
) -> Found<T> {
    let each = |value: &dyn Fn(&Best) -> f64| best.iter().map(value).collect::<Vec<f64>>();
    let figures = vec![
        Figure { name: "objective", values: each(&|best| unit * best.primal) },
        Figure { name: "duality gap", values: each(&Best::gap) },
        Figure { name: "support vectors", values: each(&|best| best.support as f64) },
        Figure::of("steps", steps as f64),
        Figure { name: "largest gap by step", values: gaps },
    ];
    let p = best.first().map_or(0, |best| best.w.len());
    Found {
        weights: Mat::from_fn(p, best.len(), |i, j| best[j].w[i]),
        intercept: best.iter().map(|best| best.b).collect(),
        certificate,
        lambda,
        figures,
        passes: 1 + passes,
        ..Found::default()
    }
}

/// Returns the stages of a fit on features, or with the exact kernel. The numbers are those of all
/// problems, of the problems solved at once, and of the regularisation parameters.
fn stages<T: Real>(
    solver: &dyn Solver<T>,
    view: RowAccess,
    work: &FitRequest<'_>,
    (problems, at_once, penalties): (usize, usize, usize),
) -> (PassShape, Vec<Stage>) {
    match view {
        RowAccess::Rows => exact::stages(work, problems, at_once, penalties),
        _ => plan::on_features(work, &|plan, cut| solver.plan(plan, &work.shape, cut), solver.own_passes(work)),
    }
}
