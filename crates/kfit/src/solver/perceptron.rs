//! The kernel perceptron and its averaged form.
//!
//! The solver sweeps over the rows in order; only a misclassified row changes the functions:
//!
//! ```text
//! two classes:  y (wᵀφ + c) ≤ 0         →  w += yφ, c += y
//! more:         f_j ≥ f_class, j ≠ class  →  w_class += φ, w_j −= φ at the largest f_j; same for c
//! ```
//!
//! With `intercept` none, c stays 0. If a function with margin γ > 0 separates the rows and
//! ‖φ‖ ≤ R, there are at most (R/γ)² mistakes in total (Novikoff 1962), and a sweep without a
//! mistake ends the iteration. Otherwise w keeps changing. Its average over all rows seen is stable
//! and predicts better, and is the result unless `last` is set.
//!
//! *Passes*: one that stores the features, then one for each sweep. *Flops*: 2pk a row. *Bytes*:
//! 2(p + 1)k numbers in f64.
//!
//! References: Rosenblatt 1958; Freund, Schapire, "Large margin classification using the perceptron
//! algorithm", Machine Learning 37, 1999; Crammer, Singer, "Ultraconservative online algorithms for
//! multiclass problems", JMLR 3, 2003.

use super::parameter::{CONSTANT, Parameter, STEPS, Settings, TOLERANCE};
use super::sweeps::{Swept, score, sweep};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily};
use crate::features::{FitData, StoredFeatures, Wanted};
use crate::linalg::recursion::functions;
use crate::request::{PassShape, ProblemSize};
use crate::{Result, Task};
use kapprox::Real;
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "perceptron",
    "averaged kernel perceptron",
    Task::Classification,
    &[STEPS, LAST, CONSTANT, TOLERANCE],
    |settings| {
        Ok(Box::new(Perceptron {
            sweeps: settings.required(&STEPS, Settings::count),
            averaged: !settings.flag(&LAST),
            constant: settings.word(&CONSTANT) != Some("none"),
        }))
    },
);

const LAST: Parameter = Parameter::flag("last", "Use the last weights instead of their average over all steps");

#[derive(Clone, Copy, Debug)]
struct Perceptron {
    sweeps: usize,
    /// True for the average of w over the rows seen, false for the last w.
    averaged: bool,
    constant: bool,
}

impl<T: Real> Solver<T> for Perceptron {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
        plan.term("classes of all rows", n.saturating_mul(4), "").term(
            "coefficients and their sum",
            4 * 8 * (shape.map.p + 1) * shape.t,
            "lower `rank`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let columns = data.targets.count();
        let fresh = || State::new(kept.p, columns, self.constant);
        let goes_on = |mistakes: &[f64]| mistakes.len() < self.sweeps && mistakes.last() != Some(&0.0);
        let Swept { state, losses: mistakes } = sweep(&kept, data, fresh, goes_on, |state, tile| {
            let mistaken = |i: &usize| state.learn(tile.row(*i), kept.codes[tile.first + i] as usize);
            Ok((0..tile.rows()).filter(mistaken).count() as f64)
        })?;
        if let Some(last) = mistakes.last().filter(|last| **last > 0.0 && !self.averaged) {
            data.resources.stages.warn(format!(
                "the last of {} sweeps still made {last} mistakes: no function separates the rows, or `steps` is too small",
                mistakes.len()
            ));
        }
        let (w, p) = (if self.averaged { state.average() } else { state.w }, kept.p);
        let (weights, intercept) = functions(&w, (p, columns));
        Ok(Found {
            weights,
            intercept,
            certificate: gathered.certificate,
            passes: 1 + mistakes.len() as u64,
            figures: vec![Figure { name: "mistakes of each sweep", values: mistakes }],
            ..Found::default()
        })
    }
}

/// The state of the iteration. The vectors contain the functions one after another, each followed
/// by its intercept.
#[derive(Clone)]
struct State {
    p: usize,
    /// The constant feature of the intercept: 1, or 0 without an intercept.
    one: f64,
    w: Vec<f64>,
    /// Σ (rows seen before a change) · (the change): the sum of w over T rows is T w minus this.
    late: Vec<f64>,
    seen: u64,
}

kstore::persist!(State { fill "w": w, fill "late": late, one "seen": seen });

impl State {
    fn new(p: usize, columns: usize, constant: bool) -> Self {
        let zeros = || vec![0.0; (p + 1) * columns];
        let one = f64::from(u8::from(constant));
        Self { p, one, w: zeros(), late: zeros(), seen: 0 }
    }

    /// Learns a row; returns true if it was misclassified before.
    fn learn<T: Real>(&mut self, phi: &[T], class: usize) -> bool {
        let scores: Vec<f64> = self.w.chunks_exact(self.p + 1).map(|w| score(w, phi)).collect();
        let mistaken = if let [score] = scores[..] {
            let sign = if class == 1 { 1.0 } else { -1.0 };
            let mistaken = sign * score <= 0.0;
            if mistaken {
                self.change(0, phi, sign);
            }
            mistaken
        } else {
            let others = (0..scores.len()).filter(|j| *j != class);
            let rival = others.fold(None, |best: Option<usize>, j| match best {
                Some(best) if scores[best] >= scores[j] => Some(best),
                _ => Some(j),
            });
            let rival = rival.filter(|rival| scores[*rival] >= scores[class]);
            if let Some(rival) = rival {
                self.change(class, phi, 1.0);
                self.change(rival, phi, -1.0);
            }
            rival.is_some()
        };
        self.seen += 1;
        mistaken
    }

    /// Adds `sign` φ to function j.
    fn change<T: Real>(&mut self, j: usize, phi: &[T], sign: f64) {
        let (q, late) = (self.p + 1, sign * self.seen as f64);
        let (w, sum) = (&mut self.w[j * q..(j + 1) * q], &mut self.late[j * q..(j + 1) * q]);
        for ((w, sum), v) in w.iter_mut().zip(sum.iter_mut()).zip(phi) {
            let v = kstore::Real::to_f64(*v);
            *w += sign * v;
            *sum += late * v;
        }
        w[q - 1] += sign * self.one;
        sum[q - 1] += late * self.one;
    }

    /// Returns the average, over the rows seen, of w after each row.
    fn average(&self) -> Vec<f64> {
        let seen = self.seen.max(1) as f64;
        self.w.iter().zip(&self.late).map(|(w, late)| w - late / seen).collect()
    }
}
