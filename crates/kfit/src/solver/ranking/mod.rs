//! Ranking: a score that orders the rows of each group by grade.
//!
//! ```text
//! minimise over w   F = (1/P) Σ ℓ(wᵀφ_i − wᵀφ_j) + lambda ‖w‖²
//! ```
//!
//! over the P pairs of rows i, j of one group (`group`) with grade y_i > y_j; ℓ(z) is
//! max(0, 1 − z)² or ln(1 + e^−z). Only the order of the grades matters, and an intercept would
//! cancel: scores are comparable only within a group. Preferences, one row before another, are
//! groups of two rows with grades 1 and 0.
//!
//! Newton's method with conjugate gradients (`../newton.rs`), preconditioned by the second moments
//! of the features or, near the solution, of pairs drawn by their second derivatives. Products with
//! the Hessian are sums over pairs; for m rows of a group they take m ln m steps with the squared
//! hinge loss (`crate::ranked`) and m² with the logistic loss.
//!
//! *Cost*: the map, np² for the moments, p³ a Newton step, two passes of 2np flops an iteration.
//! *Bytes*: the features, 150 a row, 8p². *Errors*: [`Error::Option`] if no two rows of a group
//! have different grades, or a group is too large for the logistic loss.
//!
//! ```
//! use ksolve::job::{Fit, Run};
//! use kstore::Table;
//! let x: Vec<f64> = (0..300).map(|i| (i as f64 * 0.37).sin()).collect();
//! let grades: Vec<f64> = x.iter().map(|x| (2.0 * x).round()).collect();
//! let fit = Fit::solver("ranking")?.rank(20).set("lambda", 1e-6);
//! let fitted = fit.on(&Table::from_rows(&x, 1, &grades)?, &["y"], &Run::new())?;
//! let wrong = fitted
//!     .report
//!     .figures
//!     .iter()
//!     .find(|figure| figure.name == "share of pairs in the wrong order")
//!     .unwrap();
//! assert!(wrong.values[0] < 0.01, "{wrong:?}");
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! References: Herbrich, Graepel, Obermayer, "Large margin rank boundaries for ordinal regression",
//! Advances in Large Margin Classifiers, 2000; Joachims, "Optimizing search engines using
//! clickthrough data", KDD 2002; Chapelle, Keerthi, "Efficient algorithms for ranking with SVMs",
//! Information Retrieval 13, 2010.

mod loss;

use super::parameter::{COMPARED_LAMBDAS, FOLDS, GROUP, Parameter, ParameterKind, STEPS, TOLERANCE};
use super::{
    Figure, Found, Penalty, Settings, Solver, SolverFacts, SolverFamily, held_out, hessian_blocks, newton, refuse,
};
use crate::features::{self, FitData, StoredFeatures, Wanted};
use crate::ranked::{self, Groups};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, FoldGram, GramState, Result, Task};
use kapprox::Real;
use kstore::Plan;
use loss::{Loss, PairLoss};
use std::borrow::Cow;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "ranking",
    "the order of rows within groups, learned from the grades of pairs of rows (RankSVM)",
    Task::Ranking,
    &[GROUP, LOSS, COMPARED_LAMBDAS, FOLDS, STEPS, TOLERANCE],
    |settings| Ok(Box::new(Ranking::new(settings)?)),
);

const LOSS: Parameter = Parameter {
    name: "loss",
    kind: ParameterKind::Word(&["squared-hinge", "logistic"]),
    default: Some("squared-hinge"),
    about: "Loss: hinge or squared-hinge (svm), squared-hinge or logistic (ranking)",
};

/// Maximum number of rows of a group whose pairs are visited one by one: fifty million pairs.
const VISITED: usize = 10_000;

/// Bytes of a row: its score, its terms, and the sums over its pairs.
const ROW: usize = 150;

#[derive(Clone, Debug)]
struct Ranking {
    /// The regularisation parameters, the largest first; if several, cross-validation chooses one.
    penalties: Vec<Penalty>,
    pair_loss: PairLoss,
    grouped: bool,
    steps: usize,
}

impl Ranking {
    fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            penalties: settings.compared()?,
            pair_loss: settings.choice(&LOSS),
            grouped: settings.column(&GROUP).is_some(),
            steps: settings.required(&STEPS, Settings::count),
        })
    }

    /// Returns the groups of the selected rows, and the number of their pairs.
    fn groups<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        takes: impl Fn(usize) -> bool,
        group: impl Fn(usize) -> u32,
    ) -> Result<(Groups, f64)> {
        let groups = Groups::new(kept.n, takes, group, |row| kept.y[row]);
        let pairs = groups.count_pairs();
        if pairs == 0.0 {
            return Err(ranked::without_pairs());
        }
        let largest = kstore::shown::count(groups.largest() as u64);
        let why = format!(
            "it visits every pair of rows, and a group has {largest} rows; use squared-hinge, or smaller groups (`group`)"
        );
        let refused = self.pair_loss == PairLoss::Logistic && groups.largest() > VISITED;
        refuse(refused, LOSS.name, self.pair_loss, why)?;
        Ok((groups, pairs))
    }

    /// Returns the regularisation parameter with the best order of held-out rows, the figures of
    /// the cross-validation, and its number of passes.
    fn choose<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        (moments, pairs): (&FoldGram, f64),
    ) -> Result<(Penalty, Vec<Figure>, u64)> {
        if data.folds.count() == 1 {
            return Ok((self.penalties[0], Vec::new(), 0));
        }
        let stage = data.resources.stages.stage("held-out rows", None);
        let loss = |fold| {
            let (groups, pairs) = self.groups(kept, |row| kept.folds[row] != fold, |row| group_of(kept, row))?;
            Ok((Loss::new(kept, (Cow::Owned(groups), pairs), self.pair_loss, &*stage), pairs))
        };
        let found = held_out::by_newton(kept, data, (&self.penalties, self.steps), (1, moments), &*stage, loss)?;
        drop(stage);
        // rows of different folds are scored by different functions
        let most = 1 + kept.groups.iter().max().copied().unwrap_or(0);
        let group = |row: usize| u32::from(kept.folds[row]) * most + group_of(kept, row);
        let (groups, _) = self.groups(kept, |_| true, group)?;
        let wrong = |scores: &Vec<T>| {
            let scores = groups.gather(|row| scores[row].to_f64());
            groups.order(&scores, kept.workers()).share_wrong().unwrap_or(f64::NAN)
        };
        let errors = found.scores.iter().map(wrong).collect();
        let (at, figures) =
            held_out::choose(&self.penalties, pairs, errors, "held-out share of pairs in the wrong order at each");
        Ok((self.penalties[at], figures.into(), found.passes))
    }
}

fn group_of<T: Real>(kept: &StoredFeatures<'_, T>, row: usize) -> u32 {
    kept.groups.get(row).copied().unwrap_or(0)
}

impl<T: Real> Solver<T> for Ranking {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, holds_out: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        let plan = held_out::plan(plan, shape, 1, self.penalties.len());
        let (n, p) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p);
        let rows = Groups::bytes(n).saturating_add(n.saturating_mul(ROW));
        let moments = GramState::bytes(p, 0, 1);
        plan.term("grades, groups and pairs of all rows", rows + features::values_bytes(n, 8 + shape.element), "")
            .term(
                "Gram matrix and the preconditioner's factor",
                moments + (8 * p * p).max((features::STATES - 1) * moments),
                "lower `rank`",
            )
            .term(
                "pairs of the preconditioner",
                hessian_blocks::bytes(n, p, 1, shape.element).unwrap_or(0) + loss::pairs_bytes(p, shape.element),
                "lower `rank`",
            )
            .term("scores of a tile", 2 * cut.tile * size_of::<f64>(), "")
            .term("coefficients and directions", (9 + features::STATES) * 8 * (p + 1), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let wanted = Wanted { moments: true, groups: self.grouped, ..Wanted::default() };
        let (kept, gathered) = StoredFeatures::gather(data, wanted)?;
        let moments = gathered.moments.as_ref().map(|state| &state.folds()[0]);
        let moments = moments.ok_or(Error::Shape { what: "moments", expected: 1, got: 0 })?;
        let (groups, pairs) = self.groups(&kept, |_| true, |row| group_of(&kept, row))?;
        let (penalty, chosen, compared) = self.choose(&kept, data, (moments, pairs))?;
        let lambda = penalty.lambda(pairs);
        let stage = data.resources.stages.stage("newton", None);
        let (borrowed, wide) = ((Cow::Borrowed(&groups), pairs), kept.wide());
        let loss = Loss::new(&kept, borrowed.clone(), self.pair_loss, &*stage);
        let proof = || Loss::new(&wide, borrowed, self.pair_loss, &*stage);
        let (mut fitted, proof, _) = newton::fit("ranking", data, loss, proof, (moments, lambda, self.steps))?;
        let wrong = groups.order(&proof.scores, kept.workers()).share_wrong();
        let order =
            [Figure::of("share of pairs in the wrong order", wrong.unwrap_or_default()), Figure::of("pairs", pairs)];
        fitted.figures.splice(..0, order);
        fitted.figures.extend(chosen);
        fitted.passes += 1 + compared;
        Ok(Found { certificate: gathered.certificate, ..fitted })
    }
}
