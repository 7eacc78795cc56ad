//! On-line regression: predicts each row in turn, then learns it.
//!
//! φ are the features of a row, followed by a 1 for the intercept c, and e = y − wᵀφ is its error
//! before it is learned. Two rules update w:
//!
//! ```text
//! rls:  w += Pφ e / (f + φᵀPφ),   P = (P − PφφᵀP / (f + φᵀPφ)) / f
//!       initially w = 0, P = I / (n lambda)
//! lms:  w += rate (e φ − lambda w) / (‖φ‖² + lambda)
//! ```
//!
//! After i rows, the w of recursive least squares minimises Σ_j f^(i−j) (y_j − wᵀφ_j)² + f^i n
//! lambda ‖w‖². With f = 1 (`forgetting`), one pass ends at the coefficients of ridge regression.
//! With f < 1, the weights of past rows decay, w depends on about the last 1/(1 − f) rows, and
//! follows a target that changes. Normalised least mean squares (Widrow, Hoff) makes a step for the
//! current row only. With `rate` 1 and lambda 0, the updated w predicts the row exactly; a rate up
//! to 1 is stable for any scale of the features. Lambda does not regularise the intercept; rls
//! regularises it by a billionth of a row with target 0. Several `passes` have the effect of a
//! table that repeats its rows.
//!
//! The report contains the mean of e² over the rows of each pass, the running mse. In the first
//! pass it is an error on rows not seen before.
//!
//! Rls learns blocks of rows at once. With `std` it stores P in the model, for standard deviations
//! and for further learning: see `linalg::recursion`.
//!
//! *Passes*: one that stores the features, then `passes`. *Flops* a row: rls 3p², lms 6pt. *Bytes*:
//! rls 24p², lms 16pt, and 24t a row. *Errors*: [`Error::Option`] if P exceeds the range of f64.
//!
//! ```
//! use ksolve::job::{Fit, Run};
//! use kstore::Table;
//! let x: Vec<f64> = (0..300).map(|i| (i as f64 * 0.37).sin()).collect();
//! let y: Vec<f64> = x.iter().map(|x| 3.0 * x + 1.0).collect();
//! let fit = Fit::solver("online")?.rank(20).set("lambda", 1e-8);
//! let fitted = fit.on(&Table::from_rows(&x, 1, &y)?, &["y"], &Run::new())?;
//! assert!(fitted.report.figures[0].values[0] < 0.1, "{:?}", fitted.report.figures);
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! References: Widrow, Hoff, "Adaptive switching circuits", IRE WESCON 1960; Haykin, Adaptive
//! Filter Theory, chapters 6 and 10; Kivinen, Smola, Williamson, "Online learning with kernels",
//! IEEE Trans. Signal Processing 52, 2004.

use super::parameter::{CONSTANT, Interval, LAMBDA, Parameter, ParameterKind, STD, Settings, TOLERANCE};
use super::sweeps::{Swept, score, sweep};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily, refuse};
use crate::features::{FitData, StoredFeatures, Wanted, values_bytes};
use crate::linalg::recursion::{BLOCK, Recursion, functions};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, Task, linalg::strips::Pool, quadratic::Quadratic};
use kapprox::Real;
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "online",
    "regression, learned row by row: each row is predicted before it is learned",
    Task::Regression,
    &[RULE, LAMBDA, RATE, FORGETTING, PASSES, STD, CONSTANT, TOLERANCE],
    |settings| Ok(Box::new(Online::new(settings)?)),
);

/// Regularisation of the intercept, as a number of rows with target 0. It changes predictions by
/// 1e-8 of the target if the features are nearly constant; a smaller value would lose more digits
/// to rounding.
const FREE: f64 = 1e-9;

const RULE: Parameter = Parameter {
    name: "rule",
    kind: ParameterKind::Word(&["rls", "lms"]),
    default: Some("rls"),
    about: "Update rule: rls or lms; rls is recursive least squares, whose result is ridge \
        regression; lms is least mean squares, whose step costs as much as a prediction",
};

const RATE: Parameter = Parameter {
    name: "rate",
    kind: ParameterKind::Number(Interval::Share),
    default: None,
    about: "Step size of lms, as a fraction of the step to the target of the row; smaller steps \
        average over more rows [default: 0.1]",
};

const FORGETTING: Parameter = Parameter {
    name: "forgetting",
    kind: ParameterKind::Number(Interval::Share),
    default: None,
    about: "Forgetting factor of rls: every new row multiplies the weights of earlier rows by it, \
        such as 0.999 for about the last 1,000 rows [default: 1]",
};

const PASSES: Parameter = Parameter {
    name: "passes",
    kind: ParameterKind::Count { most: 1_000_000, reason: "further passes change the result by no more than rounding" },
    default: Some("1"),
    about: "Number of passes over the rows, in their order",
};

#[derive(Clone, Copy, Debug)]
struct Online {
    /// True for recursive least squares, false for least mean squares.
    recursive: bool,
    lambda: f64,
    rate: f64,
    forgetting: f64,
    passes: usize,
    variance: bool,
    /// The constant feature of the intercept: 1, or 0 without an intercept.
    one: f64,
}

impl Online {
    fn new(settings: &Settings) -> Result<Self> {
        let recursive = settings.word(&RULE) == Some("rls");
        let (unread, other) = if recursive { (&RATE, "lms") } else { (&FORGETTING, "rls") };
        if let Some(value) = settings.number(unread) {
            let why = format!("only `rule` {other} reads it; use that rule, or leave it out");
            return Err(Error::option(unread.name, value, why));
        }
        let variance = settings.flag(&STD);
        let why = "only `rule` rls computes standard deviations; use that rule, or leave it out";
        refuse(variance && !recursive, STD.name, "", why)?;
        Ok(Self {
            recursive,
            variance,
            lambda: settings.penalty().lambda(1.0),
            rate: settings.number(&RATE).unwrap_or(0.1),
            forgetting: settings.number(&FORGETTING).unwrap_or(1.0),
            passes: settings.required(&PASSES, Settings::count),
            one: f64::from(u8::from(settings.word(&CONSTANT) != Some("none"))),
        })
    }

    /// Returns the initial state of recursive least squares for n rows.
    fn recursion(&self, dims: (usize, usize), n: f64) -> Recursion {
        Recursion::new(dims, self.one, 1.0 / (n * self.lambda), 1.0 / FREE)
    }

    /// Returns the error for an inverse of the moments that exceeds the range of f64.
    fn beyond(&self) -> Error {
        let (option, given, more) = match self.forgetting < 1.0 {
            true => (FORGETTING.name, self.forgetting.to_string(), ", raise `lambda`"),
            false => (LAMBDA.name, format!("{:e}", self.lambda), ""),
        };
        let why = format!(
            "the inverse of the second moments of the features exceeds the range of f64; raise it{more}, or lower `rank`"
        );
        Error::option(option, given, why)
    }

    /// Learns rows one by one by least mean squares; returns the sum of their squared errors. `y`
    /// has t numbers for each row.
    fn approach<T: Real>(&self, w: &mut [f64], (p, t): (usize, usize), phi: &[T], y: &[f64]) -> f64 {
        let mut squares = 0.0;
        for (phi, y) in phi.chunks_exact(p).zip(y.chunks_exact(t)) {
            let length = phi.iter().map(|v| kstore::Real::to_f64(*v).powi(2)).sum::<f64>() + self.one;
            let step = self.rate / (length + self.lambda);
            for (w, y) in w.chunks_exact_mut(p + 1).zip(y) {
                let error = y - score(w, phi);
                squares += error * error;
                let change =
                    |(w, v): (&mut f64, &T)| *w += step * (error * kstore::Real::to_f64(*v) - self.lambda * *w);
                w.iter_mut().zip(phi).for_each(change);
                w[p] += step * error * self.one;
            }
        }
        squares
    }
}

impl<T: Real> Solver<T> for Online {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let (n, q) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p + 1);
        let inverse = Recursion::bytes(q - 1, shape.t, shape.threads);
        plan.term("targets of all rows", values_bytes(n.saturating_mul(shape.t), 8), "")
            .term("coefficients", 3 * 8 * q * shape.t, "lower `rank`")
            .term_if(self.recursive, "inverse of the moments", inverse, "use `rule` lms or lower `rank`")
            .term_if(self.variance, "variances", Quadratic::making_bytes(q, q), "leave `std` out")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let (p, t) = (kept.p, data.targets.count());
        let (panels, n) = (Pool::default(), data.rows as f64);
        let fresh = || match self.recursive {
            true => State { w: Vec::new(), recursion: Some(self.recursion((p, t), n)) },
            false => State { w: vec![0.0; (p + 1) * t], recursion: None },
        };
        let Swept { state, losses } = sweep(
            &kept,
            data,
            fresh,
            |losses| losses.len() < self.passes,
            |State { w, recursion }, tile| {
                let y = &kept.y[tile.first * t..][..tile.rows() * t];
                let mut blocks = tile.phi.chunks(BLOCK * p).zip(y.chunks(BLOCK * t));
                blocks.try_fold(0.0, |sum, (phi, y)| match recursion {
                    Some(recursion) => {
                        let learned = recursion.learn((phi, y), self.forgetting, &panels, kept.workers());
                        Ok(sum + learned.ok_or_else(|| self.beyond())?)
                    }
                    None => Ok(sum + self.approach(w, (p, t), phi, y)),
                })
            },
        )?;
        let running = losses.iter().map(|loss| loss / (kept.n * t) as f64).collect();
        let typical = gathered.certificate.as_ref().map_or(0.0, |state| state.left_out(p));
        let residual = 1.0 / (self.lambda * n + typical);
        let quadratic = |of: &Recursion| of.variance(residual, typical).ok_or_else(|| self.beyond());
        let quadratic = state.recursion.as_ref().filter(|_| self.variance).map(quadratic).transpose()?;
        let (weights, intercept) = match &state.recursion {
            Some(recursion) => recursion.functions(),
            None => functions(&state.w, (p, t)),
        };
        Ok(Found {
            weights,
            intercept,
            quadratic,
            certificate: gathered.certificate,
            lambda: Some(self.lambda),
            passes: 1 + losses.len() as u64,
            figures: vec![Figure { name: "running mse of each pass", values: running }],
            ..Found::default()
        })
    }
}

/// The state of the learning. For lms, `w` contains the functions one after another, each followed
/// by its intercept.
#[derive(Clone)]
struct State {
    w: Vec<f64>,
    recursion: Option<Recursion>,
}

kstore::persist!(State { fill "w": w, some "recursion": recursion });
