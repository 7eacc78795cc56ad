//! Ranking: a score that orders the rows of each group by grade.
//!
//! ```text
//! minimise over w   F = (1/P) Σ ℓ(wᵀφ_i − wᵀφ_j) + lambda ‖w‖²
//! ```
//!
//! The sum is over the P pairs of rows i, j of one group (`group`) with grades y_i > y_j. The loss
//! ℓ(z) is max(0, 1 − z)² (the squared hinge) or ln(1 + e^−z) (the logistic loss). Only the order
//! of the grades matters. An intercept would cancel, so scores are comparable only within a group.
//! To express that one row is preferred to another, give the two rows a group of their own, with
//! grades 1 and 0.
//!
//! The method is Newton's, with conjugate gradients (`../newton`). The preconditioner contains
//! the second moments of the features. Near the solution, it contains instead the second moments of
//! the feature differences of a sample of pairs. Products with the Hessian are sums over pairs. For
//! a group of m rows they take m ln m operations with the squared hinge loss
//! (`crate::ranking_pairs`), and m² operations with the logistic loss.
//!
//! *Flops* for n rows and p features: the flops of the map, np² for the moments, p³ per Newton
//! step, and two passes of 2np per iteration of conjugate gradients. *Bytes*: the features, 150 per
//! row, and 8p². *Errors*: [`Error::Option`] if no two rows of a group have different grades, or if
//! a group is too large for the logistic loss.
//!
//! ```
//! use ksolve::job::{Fit, Run};
//! use kstore::Table;
//! let x: Vec<f64> = (0..300).map(|i| (i as f64 * 0.37).sin()).collect();
//! let grades: Vec<f64> = x.iter().map(|x| (2.0 * x).round()).collect();
//! let fit = Fit::solver("ranking")?.rank(20).set("lambda", 1e-6);
//! let fitted = fit.fit_table(&Table::from_rows(&x, 1, &grades)?, &["y"], &Run::new())?;
//! let wrong = fitted
//!     .report
//!     .figures
//!     .iter()
//!     .find(|figure| figure.name == "train share of pairs in the wrong order")
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

use super::parameter::{DEFAULT_LAMBDA_GRID, FOLDS, GROUP, Parameter, ParameterKind, STEPS, TOLERANCE};
use super::{
    NamedValues, Regularisation, Settings, Solution, Solver, SolverFamily, SolverProperties, cross_validation,
    hessian_blocks, newton, reject_if,
};
use crate::features::{self, FitData, GatherOptions, StoredFeatures};
use crate::ranking_pairs::{self, Groups};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, FoldGram, GramState, Result, Task};
use kapprox::Real;
use kstore::MemoryPlan;
use loss::{PairLoss, RankingLoss};
use std::borrow::Cow;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "ranking",
    "the order of rows within groups, learned from the grades of pairs of rows (RankSVM)",
    Task::Ranking,
    &[GROUP, LOSS, DEFAULT_LAMBDA_GRID, FOLDS, STEPS, TOLERANCE],
    |settings| Ok(Box::new(Ranking::new(settings)?)),
);

const LOSS: Parameter = Parameter {
    name: "loss",
    kind: ParameterKind::Choice(&["squared-hinge", "logistic"]),
    default: Some("squared-hinge"),
    help: "Loss: hinge or squared-hinge (svm), squared-hinge or logistic (ranking), pinball, \
        expectile or huber (quantile)",
};

/// Maximum number of rows of a group for the logistic loss, which visits all pairs of the group.
/// 10,000 rows have about fifty million pairs.
const MAX_LOGISTIC_ROWS: usize = 10_000;

/// Bytes per row of the score, the [`loss`] terms, and the sums over the pairs of the row.
const BYTES_PER_ROW: usize = 150;

#[derive(Clone, Debug)]
struct Ranking {
    /// The regularisation parameters, the largest first; if there are several, cross-validation
    /// chooses one.
    penalties: Vec<Regularisation>,
    pair_loss: PairLoss,
    has_groups: bool,
    max_steps: usize,
}

impl Ranking {
    fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            penalties: settings.regularisation_grid()?,
            pair_loss: settings.enum_value(&LOSS),
            has_groups: settings.column(&GROUP).is_some(),
            max_steps: settings.required(&STEPS, Settings::count),
        })
    }

    /// Returns the groups of the selected rows, and the number of their pairs.
    fn groups_and_pair_count<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        is_selected: impl Fn(usize) -> bool,
        group_of_row: impl Fn(usize) -> u32,
    ) -> Result<(Groups, f64)> {
        let groups = Groups::new(features.n, is_selected, group_of_row, |row| features.y[row]);
        let pair_count = groups.count_pairs();
        if pair_count == 0.0 {
            return Err(ranking_pairs::no_pairs_error());
        }
        let max_row_count = kstore::display::format_count(groups.max_group_rows() as u64);
        let why = format!(
            "it visits every pair of rows, and a group has {max_row_count} rows; use squared-hinge, or smaller groups (`group`)"
        );
        let is_too_large = self.pair_loss == PairLoss::Logistic && groups.max_group_rows() > MAX_LOGISTIC_ROWS;
        reject_if(is_too_large, LOSS.name, self.pair_loss, why)?;
        Ok((groups, pair_count))
    }

    /// Returns the regularisation parameter that orders the held-out rows best, the report entries
    /// of the cross-validation, and the number of passes.
    fn select_penalty<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        moments: &FoldGram,
        pair_count: f64,
    ) -> Result<(Regularisation, Vec<NamedValues>, u64)> {
        if data.folds.count() == 1 {
            return Ok((self.penalties[0], Vec::new(), 0));
        }
        let progress = cross_validation::HeldOutFits::start(data, &self.penalties, 1);
        let loss_without_fold = |fold| {
            let (groups, training_pair_count) = self.groups_and_pair_count(
                features,
                |row| features.row_folds[row] != fold,
                |row| group_of(features, row),
            )?;
            let loss = RankingLoss::new(features, Cow::Owned(groups), training_pair_count, self.pair_loss, &progress);
            Ok((loss, training_pair_count))
        };
        let held_out_scores = cross_validation::scores_by_newton(
            features,
            data,
            &self.penalties,
            self.max_steps,
            1,
            moments,
            &progress,
            false,
            loss_without_fold,
        )?;
        drop(progress);
        // compare only rows of one fold: rows of different folds are scored by different functions
        let group_count = 1 + features.group_codes.iter().max().copied().unwrap_or(0);
        let group = |row: usize| u32::from(features.row_folds[row]) * group_count + group_of(features, row);
        let (groups, _) = self.groups_and_pair_count(features, |_| true, group)?;
        let pair_error_rate = |scores: &Vec<T>| {
            let scores = groups.gather(|row| scores[row].to_f64());
            groups.pair_counts(&scores, features.workers()).error_rate().unwrap_or(f64::NAN)
        };
        let errors = held_out_scores.scores.iter().map(pair_error_rate).collect();
        let (index, figures) = cross_validation::select_penalty(
            &self.penalties,
            pair_count,
            errors,
            cross_validation::ErrorNames {
                chosen: "cv share of pairs in the wrong order",
                at_each: "held-out share of pairs in the wrong order at each",
            },
        );
        Ok((self.penalties[index], figures.into(), held_out_scores.passes))
    }
}

fn group_of<T: Real>(features: &StoredFeatures<'_, T>, row: usize) -> u32 {
    features.group_codes.get(row).copied().unwrap_or(0)
}

impl<T: Real> Solver<T> for Ranking {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, uses_validation_rows: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let plan = cross_validation::plan(plan, size, 1, self.penalties.len());
        let (n, p) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.map.p);
        let row_bytes = Groups::bytes(n).saturating_add(n.saturating_mul(BYTES_PER_ROW));
        let moment_bytes = GramState::bytes(p, 0, 1);
        plan.term(
            "grades, groups and pairs of all rows",
            row_bytes + features::row_values_bytes(n, 8 + size.element_bytes),
            "",
        )
        .term(
            "Gram matrix and the preconditioner's factor",
            moment_bytes + (8 * p * p).max((features::STATES_PER_REDUCTION - 1) * moment_bytes),
            "lower `rank`",
        )
        .term(
            "pairs of the preconditioner",
            hessian_blocks::bytes_if_affordable(n, p, 1, size.element_bytes).unwrap_or(0)
                + loss::pair_feature_bytes(p, size.element_bytes),
            "lower `rank`",
        )
        .term("scores of a tile", 2 * pass_shape.tile_rows * size_of::<f64>(), "")
        .term(
            "coefficients and directions",
            (9 + features::STATES_PER_REDUCTION) * 8 * (p + 1),
            "lower `rank`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let gather_options =
            GatherOptions { needs_moments: true, needs_groups: self.has_groups, ..GatherOptions::default() };
        let (features, gathered) = StoredFeatures::gather(data, gather_options)?;
        let moments = gathered.moments.as_ref().map(|state| &state.folds()[0]);
        let moments = moments.ok_or(Error::Shape { what: "moments", expected: 1, got: 0 })?;
        let (groups, pair_count) = self.groups_and_pair_count(&features, |_| true, |row| group_of(&features, row))?;
        let (penalty, selection_figures, selection_passes) =
            self.select_penalty(&features, data, moments, pair_count)?;
        let lambda = penalty.lambda(pair_count);
        let stage = data.resources.stage_observer.start_stage("newton", None);
        let f64_features = features.as_f64();
        let loss = RankingLoss::new(&features, Cow::Borrowed(&groups), pair_count, self.pair_loss, &*stage);
        let f64_loss = || RankingLoss::new(&f64_features, Cow::Borrowed(&groups), pair_count, self.pair_loss, &*stage);
        let target = newton::Target::new::<T>(lambda, self.max_steps);
        let (mut solution, f64_loss, _) =
            newton::fit("ranking", data, loss, f64_loss, moments, target, newton::Start::Zero)?;
        let pair_error_rate = groups.pair_counts(&f64_loss.scores, features.workers()).error_rate();
        let order_figures = [
            NamedValues::single("train share of pairs in the wrong order", pair_error_rate.unwrap_or_default()),
            NamedValues::single("pairs", pair_count),
        ];
        solution.figures.splice(..0, order_figures);
        solution.figures.extend(selection_figures);
        solution.passes += 1 + selection_passes;
        Ok(Solution { certificate: gathered.certificate, ..solution })
    }
}
