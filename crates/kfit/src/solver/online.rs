//! Online regression: predicts each row in turn, then learns it.
//!
//! Let φ be the p features of a row, followed by a 1 for the intercept, let y be its target, and
//! let e be its error y − wᵀφ before it is learned. With n rows and the regularisation parameter
//! lambda, one of two rules then updates w. Rule `rls` has a forgetting factor f and a symmetric
//! matrix P of order p + 1; rule `lms` has a relative step size `rate`:
//!
//! ```text
//! rls:  w += Pφ e / (f + φᵀPφ),   P = (P − PφφᵀP / (f + φᵀPφ)) / f
//!       initially w = 0, P = I / (n lambda)
//! lms:  w += rate (e φ − lambda w) / (‖φ‖² + lambda)
//! ```
//!
//! Rule `rls` is recursive least squares. After i rows, its w minimises Σ_{j≤i} f^(i−j) (y_j −
//! wᵀφ_j)² + f^i n lambda ‖w‖². With f = 1 (`forgetting`), one pass ends at the coefficients of
//! ridge regression. With f < 1, the weights of past rows decay: w depends on about the last 1/(1 −
//! f) rows, and follows a target that changes over time. Rule `lms` is normalised least mean
//! squares (Widrow, Hoff), and makes a step for the current row only. With `rate` 1 and lambda 0,
//! the updated w predicts this row exactly. A rate up to 1 is stable for any scale of the features.
//!
//! Lambda does not regularise the intercept. To keep P finite, `rls` starts as if it had already
//! learned a row with features 0 and target 0, of weight 1e-9. Several `passes` have the same
//! effect as one pass over a table that repeats its rows.
//!
//! The report contains the running mean squared error: the mean of e² over the rows of each pass.
//! In the first pass it is an error on rows not seen before.
//!
//! Recursive least squares learns blocks of rows at once. With `std` it stores P in the model, for
//! standard deviations and for further learning: see `recursive_least_squares`.
//!
//! *Passes*: one that stores the features, then the number of passes in the parameter `passes`.
//! *Flops per row*: 3p² for `rls`, 6pt for `lms` with t targets. *Bytes*: 24p² for `rls`, 16pt for
//! `lms`, and 24t per row. *Errors*: [`Error::Option`] if P exceeds the range of f64.
//!
//! ```
//! use ksolve::job::{Fit, Run};
//! use kstore::Table;
//! let x: Vec<f64> = (0..300).map(|i| (i as f64 * 0.37).sin()).collect();
//! let y: Vec<f64> = x.iter().map(|x| 3.0 * x + 1.0).collect();
//! let fit = Fit::solver("online")?.rank(20).set("lambda", 1e-8);
//! let fitted = fit.fit_table(&Table::from_rows(&x, 1, &y)?, &["y"], &Run::new())?;
//! assert!(fitted.report.figures[0].values[0] < 0.1, "{:?}", fitted.report.figures);
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! References: Widrow, Hoff, "Adaptive switching circuits", IRE WESCON 1960; Haykin, Adaptive
//! Filter Theory, chapters 6 and 10; Kivinen, Smola, Williamson, "Online learning with kernels",
//! IEEE Trans. Signal Processing 52, 2004.

use super::parameter::{Interval, LAMBDA, ONLINE_INTERCEPT, Parameter, ParameterKind, STD, Settings, TOLERANCE};
use super::sweeps::{SweepState, run_sweeps, score};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties, reject_if};
use crate::features::{FitData, GatherOptions, StoredFeatures, row_values_bytes};
use crate::recursive_least_squares::{BLOCK_ROWS, RecursiveLeastSquares, split_weights};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, Task, linalg::strips::BufferPool, quadratic::Quadratic};
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "online",
    "regression, learned row by row: each row is predicted before it is learned",
    Task::Regression,
    &[RULE, LAMBDA, RATE, FORGETTING, PASSES, STD, ONLINE_INTERCEPT, TOLERANCE],
    |settings| Ok(Box::new(Online::new(settings)?)),
);

/// Regularisation of the intercept: the weight of a row with features 0 and target 0. If the
/// features are nearly constant, this weight changes predictions by 1e-8 of the target. A smaller
/// weight would lose more digits to rounding.
const INTERCEPT_ROWS: f64 = 1e-9;

const RULE: Parameter = Parameter {
    name: "rule",
    kind: ParameterKind::Choice(&["rls", "lms"]),
    default: Some("rls"),
    help: "Update rule: rls or lms; rls is recursive least squares, whose result is ridge \
        regression; lms is least mean squares, whose step costs as much as a prediction",
};

const RATE: Parameter = Parameter {
    name: "rate",
    kind: ParameterKind::Number(Interval::PositiveUpToOne),
    default: None,
    help: "Step size of lms, as a fraction of the step to the target of the row; smaller steps \
        average over more rows [default: 0.1]",
};

const FORGETTING: Parameter = Parameter {
    name: "forgetting",
    kind: ParameterKind::Number(Interval::PositiveUpToOne),
    default: None,
    help: "Forgetting factor of rls: every new row multiplies the weights of earlier rows by it, \
        such as 0.999 for about the last 1,000 rows [default: 1]",
};

const PASSES: Parameter = Parameter {
    name: "passes",
    kind: ParameterKind::Count { max: 1_000_000, reason: "further passes change the result by no more than rounding" },
    default: Some("1"),
    help: "Number of passes over the rows, in their order",
};

#[derive(Clone, Copy, Debug)]
struct Online {
    /// True for recursive least squares, false for least mean squares.
    uses_rls: bool,
    lambda: f64,
    rate: f64,
    forgetting: f64,
    pass_count: usize,
    stores_variance: bool,
    /// The constant feature of the intercept: 1, or 0 without an intercept.
    constant_feature: f64,
}

impl Online {
    fn new(settings: &Settings) -> Result<Self> {
        let uses_rls = settings.word(&RULE) == Some("rls");
        let (unused_parameter, other_rule) = if uses_rls { (&RATE, "lms") } else { (&FORGETTING, "rls") };
        if let Some(value) = settings.number(unused_parameter) {
            let why = format!("only `rule` {other_rule} reads it; use that rule, or leave it out");
            return Err(Error::option(unused_parameter.name, value, why));
        }
        let stores_variance = settings.flag(&STD);
        let why = "only `rule` rls computes standard deviations; use that rule, or leave it out";
        reject_if(stores_variance && !uses_rls, STD.name, "", why)?;
        Ok(Self {
            uses_rls,
            stores_variance,
            lambda: settings.strongest_regularisation().lambda(1.0),
            rate: settings.number(&RATE).unwrap_or(0.1),
            forgetting: settings.number(&FORGETTING).unwrap_or(1.0),
            pass_count: settings.required(&PASSES, Settings::count),
            constant_feature: f64::from(u8::from(settings.word(&ONLINE_INTERCEPT) != Some("none"))),
        })
    }

    /// Returns the initial state of recursive least squares for n rows.
    fn initial_recursion(&self, dims: (usize, usize), n: f64) -> RecursiveLeastSquares {
        RecursiveLeastSquares::new(dims, self.constant_feature, 1.0 / (n * self.lambda), 1.0 / INTERCEPT_ROWS)
    }

    /// Returns the error for an inverse of the moments that exceeds the range of f64.
    fn overflow_error(&self) -> Error {
        let (option, value, extra_remedy) = match self.forgetting < 1.0 {
            true => (FORGETTING.name, self.forgetting.to_string(), ", raise `lambda`"),
            false => (LAMBDA.name, format!("{:e}", self.lambda), ""),
        };
        let why = format!(
            "the inverse of the second moments of the features exceeds the range of f64; raise it{extra_remedy}, or lower `rank`"
        );
        Error::option(option, value, why)
    }

    /// Learns rows one by one by least mean squares, and returns the sum of their squared errors,
    /// each measured before its row is learned. `phi` contains p numbers for each row, `y` t
    /// numbers; `w` is laid out as in [`OnlineState`].
    fn learn_by_lms<T: Real>(&self, w: &mut [f64], (p, t): (usize, usize), phi: &[T], y: &[f64]) -> f64 {
        let mut squared_errors = 0.0;
        for (phi, y) in phi.chunks_exact(p).zip(y.chunks_exact(t)) {
            let squared_norm =
                phi.iter().map(|v| kstore::Float::to_f64(*v).powi(2)).sum::<f64>() + self.constant_feature;
            let step_size = self.rate / (squared_norm + self.lambda);
            for (w, y) in w.chunks_exact_mut(p + 1).zip(y) {
                let error = y - score(w, phi);
                squared_errors += error * error;
                let update =
                    |(w, v): (&mut f64, &T)| *w += step_size * (error * kstore::Float::to_f64(*v) - self.lambda * *w);
                w.iter_mut().zip(phi).for_each(update);
                w[p] += step_size * error * self.constant_feature;
            }
        }
        squared_errors
    }
}

impl<T: Real> Solver<T> for Online {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (n, q) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.map.p + 1);
        let inverse = RecursiveLeastSquares::bytes(q - 1, size.t, size.threads);
        plan.term("targets of all rows", row_values_bytes(n.saturating_mul(size.t), 8), "")
            .term("coefficients", 3 * 8 * q * size.t, "lower `rank`")
            .term_if(self.uses_rls, "inverse of the moments", inverse, "use `rule` lms or lower `rank`")
            .term_if(self.stores_variance, "variances", Quadratic::expansion_bytes(q, q), "leave `std` out")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let (p, t) = (features.p, data.targets.count());
        let (panel_buffers, n) = (BufferPool::default(), data.n as f64);
        let initial = || match self.uses_rls {
            true => OnlineState { w: Vec::new(), recursion: Some(self.initial_recursion((p, t), n)) },
            false => OnlineState { w: vec![0.0; (p + 1) * t], recursion: None },
        };
        let SweepState { state, losses } = run_sweeps(
            &features,
            data,
            initial,
            |losses| losses.len() < self.pass_count,
            |OnlineState { w, recursion }, tile| {
                let y = &features.y[tile.first_row * t..][..tile.row_count() * t];
                let mut blocks = tile.phi.chunks(BLOCK_ROWS * p).zip(y.chunks(BLOCK_ROWS * t));
                blocks.try_fold(0.0, |sum, (phi, y)| match recursion {
                    Some(recursion) => {
                        let loss = recursion.learn(phi, y, self.forgetting, &panel_buffers, features.workers());
                        Ok(sum + loss.ok_or_else(|| self.overflow_error())?)
                    }
                    None => Ok(sum + self.learn_by_lms(w, (p, t), phi, y)),
                })
            },
        )?;
        let running_mse = losses.iter().map(|loss| loss / (features.n * t) as f64).collect();
        let mean_residual = gathered.certificate.as_ref().map_or(0.0, |state| state.mean_residual(p));
        let residual_factor = 1.0 / (self.lambda * n + mean_residual);
        let quadratic = |recursion: &RecursiveLeastSquares| {
            recursion.variance(residual_factor, mean_residual).ok_or_else(|| self.overflow_error())
        };
        let quadratic = state.recursion.as_ref().filter(|_| self.stores_variance).map(quadratic).transpose()?;
        let (weights, intercept) = match &state.recursion {
            Some(recursion) => recursion.weights_and_intercepts(),
            None => split_weights(&state.w, (p, t)),
        };
        Ok(Solution {
            weights,
            intercept,
            quadratic,
            certificate: gathered.certificate,
            lambda: Some(self.lambda),
            passes: 1 + losses.len() as u64,
            figures: vec![NamedValues { name: "running mse of each pass", values: running_mse }],
            ..Solution::default()
        })
    }
}

/// The state of the learning. For rule `lms`, `w` contains the p weights of each target, followed
/// by its intercept, target after target, and `recursion` is `None`. For rule `rls`, `w` is empty.
#[derive(Clone)]
struct OnlineState {
    w: Vec<f64>,
    recursion: Option<RecursiveLeastSquares>,
}

kstore::persist!(OnlineState { fill "w": w, some "recursion": recursion });
