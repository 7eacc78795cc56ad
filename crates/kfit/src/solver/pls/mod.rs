//! Partial least squares: finds the components of the features with the largest covariance with the
//! targets, and computes the regression of the targets on these components.
//!
//! With centred features φ̃ = φ − μ and centred targets ỹ = y − ȳ, the method needs only the
//! moments G = Σ φ̃φ̃ᵀ and B = Σ φ̃ỹᵀ from one pass. For each component it computes
//!
//! ```text
//! w = first left singular vector of B      direction of largest covariance with residual targets
//! r = w − Σ_j (p_jᵀ w) r_j                 makes the scores φ̃ᵀr uncorrelated
//! τ = rᵀG r,   p = G r/τ,   c = Bᵀ r/τ,   B ← B − τ p cᵀ
//! ```
//!
//! With R = (r_1, …, r_q) and C = (c_1, …, c_q), the predictions are ȳ + (φ − μ)ᵀ R Cᵀ, and the
//! components of a row are (φ − μ)ᵀ R. The first q components do not depend on later components,
//! and the components at a rank need only the leading block of G. So one pass is enough for every
//! rank, number of components and fold.
//!
//! If all rows are landmarks, this is kernel partial least squares. With a linear kernel it is
//! scikit-learn's `PLSRegression(scale=False)`. Classes are represented by their ±1 codes. Signs:
//! the largest entry of each r is positive.
//!
//! *Passes*: one. *Flops*: the flops of the map, np² for the moments, and 2p² for each component,
//! fold and rank. *Bytes*: three p x p matrices.
//!
//! References: Rosipal, Trejo, "Kernel partial least squares regression in reproducing kernel
//! Hilbert space", JMLR 2, 2001; Dayal, MacGregor, "Improved PLS algorithms", Journal of
//! Chemometrics 11, 1997.

mod components;

use super::parameter::{COMPONENTS, FOLDS, RANKS, Settings, TASK, TOLERANCE};
use super::{
    NamedValues, Solution, Solver, SolverFamily, SolverProperties, centred_moments::CentredMoments, reject_if,
};
use crate::features::{FitData, GRAM_PASS};
use crate::request::{FitRequest, PassShape, ProblemSize, TrainOptions};
use crate::{FoldSpec, GramState, LinearHead, Result, Task, solver::mse_and_r2};
use components::Components;
use kapprox::Real;
use kstore::MemoryPlan;
use std::borrow::Cow;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "pls",
    "partial least squares: regression or classification by components that covary with the target",
    Task::Regression,
    &[TASK, COMPONENTS, RANKS, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(PartialLeastSquares { component_count: settings.required(&COMPONENTS, Settings::count) })),
);

#[derive(Clone, Copy, Debug)]
struct PartialLeastSquares {
    /// Number of components q. If there are folds, it is the maximum, and cross-validation chooses
    /// the number.
    component_count: usize,
}

struct HeldOutErrors {
    rank: usize,
    /// Mean squared error over the held-out rows and the targets, for 1, 2, … components.
    mse: Vec<f64>,
}

impl HeldOutErrors {
    fn best_component_count(&self) -> Option<(usize, f64)> {
        let finite_errors = self.mse.iter().copied().enumerate().filter(|(_, mse)| mse.is_finite());
        finite_errors.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, mse)| (index + 1, mse))
    }
}

impl PartialLeastSquares {
    /// Returns the held-out errors of every rank and number of components, summed over the folds.
    fn held_out_errors(&self, gram: &GramState, ranks: &[usize]) -> Result<Vec<HeldOutErrors>> {
        let (folds, row_count) = (gram.folds(), gram.row_count() as f64);
        let mut errors_by_rank: Vec<HeldOutErrors> =
            ranks.iter().map(|rank| HeldOutErrors { rank: *rank, mse: vec![0.0; self.component_count] }).collect();
        for (held_out_fold, fold) in folds.iter().enumerate().filter(|(_, fold)| fold.row_count > 0) {
            let training_moments = CentredMoments::from_moments(gram.training_moments(Some(held_out_fold)))?;
            let validation = CentredMoments::with_means(
                Cow::Borrowed(fold),
                training_moments.feature_mean.clone(),
                training_moments.target_mean.clone(),
            );
            for rank_errors in &mut errors_by_rank {
                let components =
                    Components::new(&training_moments, rank_errors.rank, self.component_count, gram.epsilon())?;
                let errors = components.squared_errors(&validation);
                // if the iteration ended early, larger numbers of components have the error of the
                // last one
                let last_error = errors.last().copied().unwrap_or(f64::NAN);
                let errors = errors.into_iter().chain(std::iter::repeat(last_error));
                rank_errors
                    .mse
                    .iter_mut()
                    .zip(errors)
                    .for_each(|(sum, error)| *sum += error / row_count / gram.target_count() as f64);
            }
        }
        Ok(errors_by_rank)
    }
}

impl<T: Real> Solver<T> for PartialLeastSquares {
    fn properties(&self) -> SolverProperties {
        SolverProperties { uses_validation_rows: true, ..SolverProperties::default() }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        let rank_count = request.options.ranks.len();
        let why = "they cannot be compared without folds; add `folds` 5, or give one `rank`";
        let lacks_folds = rank_count > 1 && request.options.folds == FoldSpec::None;
        reject_if(lacks_folds, "ranks", format!("{rank_count} ranks"), why)
    }

    fn single_pass_name(&self, _: &TrainOptions) -> Result<&'static str, &'static str> {
        Ok(GRAM_PASS)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (p, t) = (size.map.p, size.t);
        let q = self.component_count.min(p);
        plan.term("centred moments of the folds", 2 * 8 * p * (p + t), "lower `rank`").term(
            "components",
            8 * (4 * p * q + 2 * p * t + q * (q + 2 * t)),
            "lower `components`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let state = data.moments_by_fold()?;
        let stage_observer = data.resources.stage_observer;
        let stage = stage_observer.start_stage("components", None);
        let (gram, p) = (&state.gram, data.map.dims().1);
        let mut ranks: Vec<usize> = data.options.ranks.iter().map(|rank| *rank.min(&p)).collect();
        ranks.dedup();
        let rank_errors = if gram.folds().len() > 1 { self.held_out_errors(gram, &ranks)? } else { Vec::new() };
        let best = rank_errors
            .iter()
            .filter_map(|errors| Some((errors, errors.best_component_count()?)))
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let (rank, q) = best.map_or((p, self.component_count), |(rank_errors, (q, _))| (rank_errors.rank, q));
        let moments = CentredMoments::from_moments(gram.training_moments(None))?;
        let components = Components::new(&moments, rank, q, gram.epsilon())?;
        let component_count = components.component_count();
        let why = "no target covaries with the features; check the target and the kernel";
        reject_if(component_count == 0, COMPONENTS.name, q, why)?;
        drop(stage);
        data.warn_of_fewer_components(q, component_count, "the remaining features covary with no target");
        let mut figures = vec![
            NamedValues::single("components", component_count as f64),
            NamedValues { name: "explained share of the targets", values: components.explained_fractions(&moments) },
        ];
        if let Some((best_errors, _)) = best {
            figures.push(NamedValues { name: "held-out mse of 1, 2, … components", values: best_errors.mse.clone() });
        }
        if ranks.len() > 1 {
            let best_mse_by_rank = rank_errors.iter().filter_map(|errors| Some(errors.best_component_count()?.1));
            figures.push(NamedValues { name: "least held-out mse at each rank", values: best_mse_by_rank.collect() });
        }
        let (mse, variance) = components.train_mse_and_variance(&moments);
        let LinearHead { weights, intercept } = components.regression(&moments, &data.targets.centre());
        let component_head = LinearHead { intercept: components.offsets(&moments), weights: components.rotations };
        Ok(Solution {
            weights,
            intercept,
            components: Some(component_head),
            certificate: state.certificate,
            certified_ranks: ranks,
            train_score: Some(mse_and_r2(mse, variance, gram.target_count())),
            figures,
            passes: 1,
            ..Solution::default()
        })
    }
}
