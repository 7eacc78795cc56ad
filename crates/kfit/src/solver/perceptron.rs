//! The kernel perceptron and its averaged form.
//!
//! The solver sweeps over the rows in order. Let φ be the features of a row. The functions are
//! wᵀφ + c, with y = ±1, for two classes, and f_j = w_jᵀφ + c_j for more classes. Only a
//! misclassified row changes the functions:
//!
//! ```text
//! two classes:  y (wᵀφ + c) ≤ 0         →  w += yφ, c += y
//! more:         f_j ≥ f_class, j ≠ class  →  w_class += φ, w_j −= φ at the largest f_j; same for c
//! ```
//!
//! With `intercept` none, c stays 0. If a function with margin γ > 0 separates the rows, and ‖φ‖ ≤
//! R for all rows, the solver makes at most (R/γ)² mistakes in total (Novikoff 1962). A sweep
//! without a mistake ends the iteration. If no function separates the rows, w keeps changing. The
//! average of w over all rows seen is stable and predicts better than the last w. The average is
//! the result unless `last` is set.
//!
//! *Passes*: one that stores the features, then one for each sweep. *Flops*: 2pk per row for k
//! functions of p features. *Bytes*: 2(p + 1)k numbers in f64.
//!
//! References: Rosenblatt 1958; Freund, Schapire, "Large margin classification using the perceptron
//! algorithm", Machine Learning 37, 1999; Crammer, Singer, "Ultraconservative online algorithms for
//! multiclass problems", JMLR 3, 2003.

use super::parameter::{ONLINE_INTERCEPT, Parameter, STEPS, Settings, TOLERANCE};
use super::sweeps::{SweepState, run_sweeps, score};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::recursive_least_squares::split_weights;
use crate::request::{PassShape, ProblemSize};
use crate::{Result, Task};
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "perceptron",
    "averaged kernel perceptron",
    Task::Classification,
    &[STEPS, LAST, ONLINE_INTERCEPT, TOLERANCE],
    |settings| {
        Ok(Box::new(Perceptron {
            max_sweeps: settings.required(&STEPS, Settings::count),
            uses_average: !settings.flag(&LAST),
            has_intercept: settings.word(&ONLINE_INTERCEPT) != Some("none"),
        }))
    },
);

const LAST: Parameter = Parameter::flag("last", "Use the last weights instead of their average over all steps");

#[derive(Clone, Copy, Debug)]
struct Perceptron {
    max_sweeps: usize,
    /// True for the average of w over the rows seen, false for the last w.
    uses_average: bool,
    has_intercept: bool,
}

impl<T: Real> Solver<T> for Perceptron {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let n = usize::try_from(size.n).unwrap_or(usize::MAX);
        plan.term("classes of all rows", n.saturating_mul(4), "").term(
            "coefficients and their sum",
            4 * 8 * (size.map.p + 1) * size.t,
            "lower `rank`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let function_count = data.targets.count();
        let initial = || PerceptronState::new(features.p, function_count, self.has_intercept);
        let continues = |mistakes: &[f64]| mistakes.len() < self.max_sweeps && mistakes.last() != Some(&0.0);
        let SweepState { state, losses: mistakes } = run_sweeps(&features, data, initial, continues, |state, tile| {
            let is_mistake = |i: &usize| state.learn(tile.row(*i), features.class_codes[tile.first_row + i] as usize);
            Ok((0..tile.row_count()).filter(is_mistake).count() as f64)
        })?;
        if let Some(last) = mistakes.last().filter(|last| **last > 0.0 && !self.uses_average) {
            data.resources.stage_observer.warn(format!(
                "the last of {} sweeps still made {last} mistakes: no function separates the rows, or `steps` is too small",
                mistakes.len()
            ));
        }
        let (w, p) = (if self.uses_average { state.average() } else { state.w }, features.p);
        let (weights, intercept) = split_weights(&w, (p, function_count));
        Ok(Solution {
            weights,
            intercept,
            certificate: gathered.certificate,
            passes: 1 + mistakes.len() as u64,
            figures: vec![NamedValues { name: "mistakes of each sweep", values: mistakes }],
            ..Solution::default()
        })
    }
}

/// The state of the iteration. The vectors contain the functions one after another, each followed
/// by its intercept.
#[derive(Clone)]
struct PerceptronState {
    p: usize,
    /// The constant feature of the intercept: 1, or 0 without an intercept.
    constant_feature: f64,
    w: Vec<f64>,
    /// Σ s Δ over all changes Δ of w, where s is the number of rows seen before the change. The sum
    /// of w over T rows is T w minus this sum.
    weighted_changes: Vec<f64>,
    rows_seen: u64,
}

kstore::persist!(PerceptronState { fill "w": w, fill "late": weighted_changes, one "seen": rows_seen });

impl PerceptronState {
    fn new(p: usize, function_count: usize, has_intercept: bool) -> Self {
        let zeros = || vec![0.0; (p + 1) * function_count];
        let constant_feature = f64::from(u8::from(has_intercept));
        Self { p, constant_feature, w: zeros(), weighted_changes: zeros(), rows_seen: 0 }
    }

    /// Learns a row. Returns true if the row was misclassified before.
    fn learn<T: Real>(&mut self, phi: &[T], class: usize) -> bool {
        let scores: Vec<f64> = self.w.chunks_exact(self.p + 1).map(|w| score(w, phi)).collect();
        let is_mistake = if let [score] = scores[..] {
            let sign = if class == 1 { 1.0 } else { -1.0 };
            let is_mistake = sign * score <= 0.0;
            if is_mistake {
                self.update(0, phi, sign);
            }
            is_mistake
        } else {
            let other_classes = (0..scores.len()).filter(|j| *j != class);
            let rival = other_classes.fold(None, |best: Option<usize>, j| match best {
                Some(best) if scores[best] >= scores[j] => Some(best),
                _ => Some(j),
            });
            let rival = rival.filter(|rival| scores[*rival] >= scores[class]);
            if let Some(rival) = rival {
                self.update(class, phi, 1.0);
                self.update(rival, phi, -1.0);
            }
            rival.is_some()
        };
        self.rows_seen += 1;
        is_mistake
    }

    /// Adds `sign` φ to the weights of function j, and `sign` times the constant feature to its
    /// intercept.
    fn update<T: Real>(&mut self, j: usize, phi: &[T], sign: f64) {
        let (q, weighted_sign) = (self.p + 1, sign * self.rows_seen as f64);
        let (w, sum) = (&mut self.w[j * q..(j + 1) * q], &mut self.weighted_changes[j * q..(j + 1) * q]);
        for ((w, sum), v) in w.iter_mut().zip(sum.iter_mut()).zip(phi) {
            let v = kstore::Float::to_f64(*v);
            *w += sign * v;
            *sum += weighted_sign * v;
        }
        w[q - 1] += sign * self.constant_feature;
        sum[q - 1] += weighted_sign * self.constant_feature;
    }

    /// Returns the average, over the rows seen, of w after each row.
    fn average(&self) -> Vec<f64> {
        let row_count = self.rows_seen.max(1) as f64;
        self.w.iter().zip(&self.weighted_changes).map(|(w, weighted_change)| w - weighted_change / row_count).collect()
    }
}
