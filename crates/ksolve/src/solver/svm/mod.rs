//! Support vector machines: classes, values and novelty by few rows.
//!
//! ```text
//! svm        (1/n) Σ a_i max(0, 1 − y_i f_i) + lambda ‖w‖², or its square (`loss` squared-hinge)
//! svr        (1/n) Σ max(0, |y_i − f_i| − epsilon) + lambda ‖w‖²
//! oneclass   ½‖w‖² + 1/(nu n) Σ max(0, −f_i) + b;   the score f is negative for novel rows
//! ```
//!
//! are minimised over w and b, with f = wᵀφ + b: by one problem for two classes, by one against the rest for more, and by
//! one for each target of svr. Several penalties, pairs of classes and probabilities are those of `classes.rs`.
//!
//! Divided by 2 lambda the first two are LIBSVM's ½‖w‖² + C Σ a_i loss_i with C = 1/(2n lambda). Its bias is free, the default
//! here; LIBLINEAR's is penalised. LIBSVM's one-class machine is scaled by nu n. a_i is 1, or the weight of the row's class.
//!
//! All are solved by the method of `lagrangian.rs`, in passes over kept features, up to a relative duality gap, which is
//! measured at every step: the objective is never more than that above the optimum. What is reported is the gap of the machine that is
//! returned, computed from it in f64; where the rounding of f32 hides what is left, the steps go on in f64.
//!
//! The targets of svr are centred where the constant is free, which takes the shift: the machine is that of the centred targets.
//!
//! *Bytes*: the features, 24 for every row and problem, 8p² and p/2 rows for every problem of a group. Problems do not
//! depend on each other; so many make a group as the shape allows, never the memory.

mod classes;
mod group;
mod lagrangian;
mod loss;
mod newton;
mod one_class;
mod passes;
mod sample;
mod search;

pub use classes::Svm;
pub(super) use one_class::ONE_CLASS;
pub use one_class::OneClass;

use super::held_out::{self, Function, HeldOut};
use super::kept::{Kept, Wanted};
use super::parameter::{
    CLASS_WEIGHT, COSTS, FOLDS, GAP, INTERCEPT, Interval, LAMBDAS, Parameter, ParameterKind, STEPS, TOLERANCE,
};
use super::{Features, Figure, Fitted, Penalty, Settings, Solver, SolverFamily};
use crate::gram::PANEL;
use crate::train::{Cut, Shape};
use crate::{Intercept, Result, Task};
use faer::Mat;
use group::{Outcome, Space, Watch, begin, prove, solve_group};
use kapprox::Real;
use kstore::Plan;
use lagrangian::{Best, Problem, Rows, Terms};
use loss::{Loss, Row};
use sample::Sample;

/// The description of the solver `svm`.
pub(super) const SVM: SolverFamily = SolverFamily {
    name: "svm",
    about: "support vector machine: classes by the widest margin",
    task: Task::Classification,
    parameters: &[LAMBDAS, COSTS, PAIRS, PROBABILITIES, FOLDS, INTERCEPT, CLASS_WEIGHT, LOSS, GAP, STEPS, TOLERANCE],
    make: |settings| Ok(Box::new(Svm::new(settings)?)),
};

/// The description of the solver `svr`.
pub(super) const SVR: SolverFamily = SolverFamily {
    name: "svr",
    about: "support vector regression: values; small errors cost nothing",
    task: Task::Regression,
    parameters: &[LAMBDAS, COSTS, FOLDS, INTERCEPT, EPSILON, GAP, STEPS, TOLERANCE],
    make: |settings| Ok(Box::new(Svr::new(settings)?)),
};

/// The parameter `pairs`: a machine for every two classes.
pub(super) const PAIRS: Parameter = Parameter {
    name: "pairs",
    kind: ParameterKind::Flag,
    default: None,
    about: "A machine for every pair of classes, not one for each class against the rest",
};

/// The parameter `probabilities`: they are learned from rows held out.
pub(super) const PROBABILITIES: Parameter = Parameter {
    name: "probabilities",
    kind: ParameterKind::Flag,
    default: None,
    about: "Learn probabilities from rows held out, for predict `probabilities`",
};

/// The parameter `loss`: hinge or squared-hinge.
pub(super) const LOSS: Parameter = Parameter {
    name: "loss",
    kind: ParameterKind::Word(&["hinge", "squared-hinge"]),
    default: Some("hinge"),
    about: "Loss: hinge or squared-hinge",
};

/// The parameter `epsilon`: half the width of the tube.
const EPSILON: Parameter = Parameter {
    name: "epsilon",
    kind: ParameterKind::Number(Interval::NotNegative),
    default: Some("0.1"),
    about: "Errors below this cost nothing, in the unit of the target",
};

/// Bytes of Newton's equations of the problems that are solved together, and of their multipliers and values.
const EQUATIONS: usize = 240 << 20;
const MULTIPLIERS: usize = 256 << 20;

/// Bytes of a number of the proof, and of the multiplier and the values of a row in it.
const WIDE: usize = size_of::<f64>();
const ROW: usize = 3 * WIDE;

/// Steps in f32 that do not lower the gap, before f64 goes on. In f64 a gap stands still for up to 40 on hard problems.
const PATIENCE: usize = 30;

/// Support vector regression.
#[derive(Clone, Debug)]
pub struct Svr {
    /// The penalties, as lambda or C, strongest first; among several one is chosen by rows held out.
    pub penalties: Vec<Penalty>,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// Half the width of the tube, in the unit of the target.
    pub epsilon: f64,
    /// Relative duality gap at which a problem is solved.
    pub gap: f64,
    /// Most steps of a problem.
    pub steps: usize,
}

impl Svr {
    fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            penalties: settings.compared()?,
            intercept: settings.intercept(),
            epsilon: settings.number(&EPSILON).unwrap_or_default(),
            gap: settings.number(&GAP).unwrap_or_default(),
            steps: settings.count(&STEPS).unwrap_or_default(),
        })
    }

    /// The function of target `j` from the rows outside a fold, or from all, at the cost C.
    fn machine<T: Real>(
        &self,
        kept: &Kept<'_, T>,
        data: &Features<'_, T>,
        j: usize,
        held: Option<(&[u16], u16)>,
        cost: f64,
    ) -> Result<Solved> {
        let t = data.targets.count();
        let seen = |i: &usize| held.is_none_or(|(folds, fold)| folds[*i] != fold);
        // the deviation of the target is the unit that its envelope is measured in
        let (mean, deviation) = moments((0..kept.n).filter(seen).map(|i| kept.y[i * t + j]));
        let shift = if self.intercept == Intercept::Free { mean } else { 0.0 };
        let unit = if deviation > 0.0 { deviation } else { 1.0 };
        let loss = Loss::Insensitive { epsilon: self.epsilon };
        let (intercept, gap) = (self.intercept, self.gap);
        let terms = Terms { loss, intercept, total: 0.0, cost: cost / unit, gap, patience: usize::MAX };
        let mut solved = solve(kept, data, terms, self.steps, vec![Valued { y: &kept.y, j, t, shift, cost, held }])?;
        solved.best.iter_mut().for_each(|best| best.b += shift);
        Ok(solved)
    }

    /// Learns from the rows outside every fold at every penalty, and scores the rows of the fold.
    fn held_out<T: Real>(&self, kept: &Kept<'_, T>, data: &Features<'_, T>) -> Result<HeldOut<T>> {
        let t = data.targets.count();
        let mut found = HeldOut::new(kept.n, t, self.penalties.len());
        for fold in 0..data.folds.count() as u16 {
            let rows = held_out::rows_outside(kept, fold);
            for (at, penalty) in self.penalties.iter().enumerate() {
                for j in 0..t {
                    let solved = self.machine(kept, data, j, Some((&kept.folds, fold)), penalty.c(rows))?;
                    found.passes += solved.passes;
                    let functions: Vec<Function<'_>> = solved.best.iter().map(|best| (&best.w[..], best.b)).collect();
                    let stage = data.resources.stages.stage("held-out rows", None);
                    found.score(kept, at, j, &functions, fold, &*stage)?;
                }
            }
        }
        Ok(found)
    }
}

/// The rows of the problem for target `j` of t.
struct Valued<'a> {
    y: &'a [f64],
    j: usize,
    t: usize,
    /// The number that is subtracted from the target.
    shift: f64,
    cost: f64,
    /// Folds of the rows, and the one that is held out.
    held: Option<(&'a [u16], u16)>,
}

impl Rows for Valued<'_> {
    #[inline(always)]
    fn row(&self, i: usize) -> Row {
        let held = self.held.is_some_and(|(folds, fold)| folds[i] == fold);
        Row { y: self.y[i * self.t + self.j] - self.shift, c: if held { 0.0 } else { self.cost } }
    }
}

/// Number of problems that are solved together: as many as the shape allows.
fn group(n: usize, p: usize, problems: usize) -> usize {
    let (equations, multipliers) = (newton::bytes(p), n.saturating_mul(ROW).max(1));
    (EQUATIONS / equations).min(MULTIPLIERS / multipliers).clamp(1, problems.max(1))
}

/// Adds the memory for solving so many problems to the plan, with `targets` bytes of targets for each row.
fn plan(plan: Plan, shape: &Shape, cut: Cut, targets: usize, problems: usize) -> Plan {
    let (n, p, t) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p, problems.max(1));
    let (e, together) = (shape.element, group(n, shape.map.p, problems));
    let panels = shape.threads * WIDE * p * PANEL.min(p);
    plan.term("targets of all rows", n.saturating_mul(targets), "")
        .term("multipliers and values of all rows", n.saturating_mul(ROW * together), "")
        .term("features of a sample", sample::rows(n, p) * (p * e + 8), "lower `rank`")
        .term("Newton's equations", together * newton::bytes(p) + 8 * p * p + panels, "lower `rank`")
        .term("products of a tile", 5 * cut.tile * together * WIDE + 8 * 12 * p * t, "lower `rank`")
}

/// The solutions of some problems, with their gaps and costs.
#[derive(Default)]
struct Solved {
    /// The best point of each problem.
    best: Vec<Best>,
    /// The largest gap of all problems before every step.
    gaps: Vec<f64>,
    /// Number of passes over the features.
    passes: u64,
    /// The most steps that a problem took.
    steps: usize,
}

impl Solved {
    /// Adds the solutions of other problems.
    fn add(&mut self, other: Self) {
        self.gaps.resize(self.gaps.len().max(other.gaps.len()), 0.0);
        self.gaps.iter_mut().zip(&other.gaps).for_each(|(largest, gap)| *largest = largest.max(*gap));
        self.best.extend(other.best);
        self.passes += other.passes;
        self.steps = self.steps.max(other.steps);
    }
}

/// Solves a problem for each of `rows`, and warns of those that ran out of steps.
fn solve<T: Real, R: Rows + Send>(
    kept: &Kept<'_, T>,
    data: &Features<'_, T>,
    terms: Terms,
    steps: usize,
    rows: Vec<R>,
) -> Result<Solved> {
    let stage = data.resources.stages.stage("newton", None);
    let watch = Watch { observer: &*stage, journal: data.resources.journal };
    let solved = solve_all(kept, terms, steps, rows, &mut Space::new(kept.p), watch)?;
    warn_of_gap(&solved.best, solved.steps, terms, data, "");
    Ok(solved)
}

/// Solves a problem for each of `rows`, in groups, on a sample of the rows first.
fn solve_all<T: Real, R: Rows + Send>(
    kept: &Kept<'_, T>,
    terms: Terms,
    steps: usize,
    rows: Vec<R>,
    space: &mut Space<T>,
    watch: Watch<'_>,
) -> Result<Solved> {
    let terms = Terms { patience: patience::<T>(), ..terms };
    let together = group(kept.n, kept.p, rows.len());
    let (mut sample, mut solved) = (None, Solved::default());
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
        let best = problems.into_iter().map(Problem::into_best).collect();
        solved.add(Solved { best, gaps, passes: passes + proof.passes + sampled, steps });
    }
    Ok(solved)
}

/// Number of steps without progress after which a problem ends, in type `T`: few in f32, since f64 goes on from there.
fn patience<T>() -> usize {
    if size_of::<T>() < size_of::<f64>() { PATIENCE } else { usize::MAX }
}

/// Warns of problems that ran out of steps.
fn warn_of_gap<'b, T: Real>(
    best: impl IntoIterator<Item = &'b Best>,
    steps: usize,
    terms: Terms,
    data: &Features<'_, T>,
    whose: &str,
) {
    let open = best.into_iter().map(Best::gap).fold(0.0, f64::max);
    if open > terms.gap {
        let asked = terms.gap;
        data.resources.stages.warn(format!(
            "the relative duality gap{whose} is {open:.1e}, above the {asked:.1e} asked for, after {steps} steps; raise \
             `steps` or `gap`"
        ));
    }
}

/// The head of some solved problems; objectives are multiplied by `unit`.
fn fitted<T>(
    Solved { best, gaps, passes, steps }: Solved,
    unit: f64,
    lambda: Option<f64>,
    certificate: Option<crate::CertificateState>,
) -> Fitted<T> {
    let each = |value: &dyn Fn(&Best) -> f64| best.iter().map(value).collect::<Vec<f64>>();
    let figures = vec![
        Figure { name: "objective", values: each(&|best| unit * best.primal) },
        Figure { name: "duality gap", values: each(&Best::gap) },
        Figure { name: "support vectors", values: each(&|best| best.support as f64) },
        Figure { name: "steps", values: vec![steps as f64] },
        Figure { name: "largest gap by step", values: gaps },
    ];
    let p = best.first().map_or(0, |best| best.w.len());
    Fitted {
        weights: Mat::from_fn(p, best.len(), |i, j| best[j].w[i]),
        intercept: best.iter().map(|best| best.b).collect(),
        certificate,
        lambda,
        figures,
        passes: 1 + passes,
        ..Fitted::default()
    }
}

impl<T: Real> Solver<T> for Svr {
    fn keeps(&self) -> bool {
        true
    }

    fn holds_out(&self) -> bool {
        true
    }

    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan {
        let plan = self::plan(plan, shape, cut, 10 * shape.t, 1);
        held_out::plan(plan, shape, shape.t, self.penalties.len())
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted<T>> {
        let (kept, gathered) = Kept::gather(data, Wanted::default())?;
        let held_out = match data.folds.count() {
            1 => None,
            _ => {
                let (found, t) = (self.held_out(&kept, data)?, data.targets.count());
                let square = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
                    let squares = scores.zip(&kept.y[i * t..]).map(|(score, y)| (score - y) * (score - y));
                    squares.sum::<f64>() / t as f64
                };
                let errors = found.errors(square);
                Some((held_out::choose(&self.penalties, data.rows, errors, "held-out mse at each"), found.passes))
            }
        };
        let penalty = self.penalties[held_out.as_ref().map_or(0, |(chosen, _)| chosen.at)];
        let lambda = penalty.lambda(data.rows);
        let mut all = Solved::default();
        for j in 0..data.targets.count() {
            all.add(self.machine(&kept, data, j, None, penalty.c(data.rows))?);
        }
        let mut fitted = fitted(all, 2.0 * lambda, Some(lambda), gathered.certificate);
        if let Some((chosen, passes)) = held_out {
            fitted.passes += passes;
            fitted.figures.extend(chosen.figures);
        }
        Ok(fitted)
    }
}

/// Mean and population standard deviation, by two passes over the values.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares = values.map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / n).sqrt())
}
