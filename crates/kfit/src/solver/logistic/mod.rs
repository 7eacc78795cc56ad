//! Logistic regression, binary and multinomial.
//!
//! ```text
//! minimise over W, c   F = (1/n) Σ_i a_i ℓ(Wᵀφ_i + c; y_i) + lambda ‖W‖²
//! ```
//!
//! with ℓ the negative logarithm of the softmax of the true class (of the logistic function for two
//! classes, one column), a_i = 1 or the weight of the row, times the weight of its class, n the sum
//! of the row weights, and the intercept c free, penalised or absent. C of scikit-learn is 1/(2n
//! lambda).
//!
//! Newton's method with conjugate gradients (`../newton.rs`): every step solves H d = −∇F with
//! products H·V, one pass over the features each, and no matrix of order pk. Far from the solution
//! all classes share the preconditioner γ ΦᵀΦ/n + 2 lambda I with γ the mean of p(1 − p); the pass
//! that stores the features sums its Gram matrix. Near the solution, if there are enough rows, each
//! class has its own preconditioner (`../hessian_blocks.rs`). Then a few iterations are enough,
//! whatever the condition number of the kernel.
//!
//! *Cost*: the map, np² for the Gram matrix, 4kp³ per Newton step, and 4npk flops per pass.
//! *Bytes*: the features, n·k probabilities, kp² numbers in f64.
//!
//! References: Lin, Weng, Keerthi, "Trust region Newton method for large-scale logistic
//! regression", JMLR 9, 2008; Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for
//! ill-conditioned generalized self-concordant losses", NeurIPS 2019; Nocedal, Wright, *Numerical
//! Optimization* (2006), algorithm 7.1.

mod loss;

use super::parameter::{CLASS_WEIGHT, COMPARED_LAMBDAS, COSTS, FOLDS, INTERCEPT, STEPS, Settings, TOLERANCE, WEIGHTS};
use super::{ClassWeight, Figure, Found, Penalty, Solver, SolverFacts, SolverFamily, held_out, hessian_blocks, newton};
use crate::features::{self, FitData, StoredFeatures, Wanted};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, GramState, Intercept, Link, Result, Task};
use kapprox::Real;
use kstore::Plan;
use loss::{Labels, Loss, link};

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "logistic",
    "logistic regression: probabilities of two or more classes",
    Task::Classification,
    &[COMPARED_LAMBDAS, COSTS, FOLDS, INTERCEPT, CLASS_WEIGHT, STEPS, TOLERANCE, WEIGHTS],
    |settings| {
        Ok(Box::new(Logistic {
            penalties: settings.compared()?,
            intercept: settings.intercept(),
            class_weight: settings.class_weight(),
            steps: settings.required(&STEPS, Settings::count),
        }))
    },
);

#[derive(Clone, Debug)]
struct Logistic {
    /// Regularisation parameters, as lambda or C, strongest first; validation rows choose among
    /// several.
    penalties: Vec<Penalty>,
    intercept: Intercept,
    class_weight: ClassWeight,
    /// Maximum number of Newton steps at the requested lambda.
    steps: usize,
}

impl<T: Real> Solver<T> for Logistic {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, holds_out: true, weights: true, ..SolverFacts::default() }
    }

    fn has_probabilities(&self) -> bool {
        true
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        let plan = held_out::plan(plan, shape, shape.t, self.penalties.len());
        let (n, p, k) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p, shape.t);
        plan.term(
            "classes and probabilities of all rows",
            n.saturating_mul(5 + shape.element * k) + features::values_bytes(n, 6),
            "",
        )
        .term(
            "Gram matrix and the preconditioner's factor",
            GramState::bytes(p, 0, 1) + (8 * (p + 1) * (p + 1)).max((features::STATES - 1) * GramState::bytes(p, 0, 1)),
            RANK,
        )
        .term(
            "Hessians of the classes",
            hessian_blocks::bytes(n, p, if k == 2 { 1 } else { k }, shape.element).unwrap_or(0),
            RANK,
        )
        .term("scores of a tile", 3 * cut.tile * k * size_of::<f64>(), "")
        .term("coefficients and directions", (9 + features::STATES) * 8 * (p + 1) * k, RANK)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let Some(named) = data.classes() else { return Err(Error::TooFewClasses { classes: 0 }) };
        let classes = named.labels().len();
        let (kept, gathered) = StoredFeatures::gather(data, Wanted { moments: true, ..Wanted::default() })?;
        let weight = self.class_weight.of(&kept.codes, &kept.weights, named)?;
        let columns = if classes == 2 { 1 } else { classes };
        let moments = gathered.moments.as_ref().map(|state| &state.folds()[0]);
        let moments = moments.ok_or(Error::Shape { what: "moments", expected: 1, got: 0 })?;
        let mut f = vec![0.0; columns];
        let loss = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
            f.iter_mut().zip(scores).for_each(|(f, score)| *f = score);
            link(&mut f, kept.codes[i] as usize)
        };
        let labels = Labels { codes: &kept.codes, weight: &weight, rows: &kept.weights, held: None };
        let found = || {
            let stage = data.resources.stages.stage("held-out rows", None);
            let loss = |fold| {
                let labels = Labels { held: Some((&kept.folds, fold)), ..labels };
                let loss = Loss::new(&kept, labels, columns, self.intercept, &*stage);
                let n = loss.n;
                Ok((loss, n))
            };
            held_out::by_newton(&kept, data, (&self.penalties, self.steps), (columns, moments), &*stage, loss)
        };
        let compared =
            held_out::compare(&self.penalties, data, &kept.weights, "held-out log-loss at each", found, loss)?;
        let lambda = compared.penalty.lambda(kept.weight_outside(None));
        let stage = data.resources.stages.stage("newton", None);
        let (loss, wide) = (Loss::new(&kept, labels, columns, self.intercept, &*stage), kept.wide());
        let proof = || Loss::new(&wide, labels, columns, self.intercept, &*stage).alone();
        let (mut fitted, _, loss) =
            newton::fit("logistic regression", data, loss, proof, (moments, lambda, self.steps))?;
        fitted.figures.insert(0, Figure::of("log-loss", loss));
        if !compared.scores.is_empty() {
            let rows = compared.scores.chunks_exact(columns).zip(&kept.codes).enumerate();
            let wrong = |(i, (row, code)): (usize, (&[T], &u32))| {
                (named.decide(row.iter().map(|f| f.to_f64())) != *code as usize).then_some(i)
            };
            let error = kept.weights.total(rows.filter_map(wrong)) / kept.weight_outside(None);
            fitted.figures.push(Figure::of("held-out error", error));
        }
        fitted.figures.extend(compared.figures);
        fitted.passes += compared.passes;
        Ok(Found { link: Some(Link::Logit), certificate: gathered.certificate, ..fitted })
    }
}

const RANK: &str = "lower `rank`";
