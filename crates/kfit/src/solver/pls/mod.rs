//! Partial least squares: components of the features with the largest covariance with the targets,
//! and regression on them.
//!
//! With centred features φ̃ and targets ỹ, the method needs only the moments G = Σ φ̃φ̃ᵀ and
//! B = Σ φ̃ỹᵀ from one pass. For each component
//!
//! ```text
//! w = first left singular vector of B      direction of largest covariance with residual targets
//! r = w − Σ_j (p_jᵀ w) r_j                 on φ̃, with scores uncorrelated with earlier ones
//! τ = rᵀG r,   p = G r/τ,   c = Bᵀ r/τ,   B ← B − τ p cᵀ
//! ```
//!
//! and with R = (r_1, …, r_q) and C = (c_1, …, c_q) predictions are ȳ + (φ − μ)ᵀ R Cᵀ, and the
//! components of a row (φ − μ)ᵀ R. The first q components do not depend on later ones, and the
//! components of a rank need only the leading block of G: one pass serves every rank, number of
//! components and fold.
//!
//! With all rows as landmarks this is kernel partial least squares, and with a linear kernel
//! scikit-learn's `PLSRegression(scale=False)`. Classes are learned by their ±1 codes. Signs: the
//! largest entry of each r is positive.
//!
//! *Passes*: one. *Flops*: the map and np² for the moments, 2p² for each component, fold and rank.
//! *Bytes*: three p x p matrices.
//!
//! References: Rosipal, Trejo, "Kernel partial least squares regression in reproducing kernel
//! Hilbert space", JMLR 2, 2001; Dayal, MacGregor, "Improved PLS algorithms", Journal of
//! Chemometrics 11, 1997.

mod components;

use super::parameter::{COMPONENTS, FOLDS, RANKS, Settings, TASK, TOLERANCE};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily, centred::Centred, refuse};
use crate::features::{FitData, GRAM};
use crate::request::{FitRequest, PassShape, ProblemSize, TrainOptions};
use crate::{FoldSpec, GramState, Head, Result, Task, solver::explained};
use components::Components;
use kapprox::Real;
use kstore::Plan;
use std::borrow::Cow;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "pls",
    "partial least squares: regression or classification by components that covary with the target",
    Task::Regression,
    &[TASK, COMPONENTS, RANKS, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(PartialLeastSquares { components: settings.required(&COMPONENTS, Settings::count) })),
);

#[derive(Clone, Copy, Debug)]
struct PartialLeastSquares {
    /// Number of components q; with folds the maximum, below which cross-validation chooses.
    components: usize,
}

struct Held {
    rank: usize,
    /// Mean squared error over the held-out rows and the targets, for 1, 2, … components.
    mse: Vec<f64>,
}

impl Held {
    fn best(&self) -> Option<(usize, f64)> {
        let each = self.mse.iter().copied().enumerate().filter(|(_, mse)| mse.is_finite());
        each.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, mse)| (at + 1, mse))
    }
}

impl PartialLeastSquares {
    /// Returns the held-out errors of every rank and number of components, summed over the folds.
    fn held_out(&self, gram: &GramState, ranks: &[usize]) -> Result<Vec<Held>> {
        let (folds, rows) = (gram.folds(), gram.rows() as f64);
        let mut found: Vec<Held> =
            ranks.iter().map(|rank| Held { rank: *rank, mse: vec![0.0; self.components] }).collect();
        for (left_out, fold) in folds.iter().enumerate().filter(|(_, fold)| fold.rows > 0) {
            let own = Centred::of(gram.sum(Some(left_out)))?;
            let new = Centred::about(Cow::Borrowed(fold), own.mean.clone(), own.target_mean.clone());
            for held in &mut found {
                let components = Components::of(&own, held.rank, self.components, gram.epsilon())?;
                let errors = components.errors(&new);
                // if there are fewer components, the error of all of them applies to larger numbers
                let last = errors.last().copied().unwrap_or(f64::NAN);
                let errors = errors.into_iter().chain(std::iter::repeat(last));
                held.mse.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error / rows / gram.targets() as f64);
            }
        }
        Ok(found)
    }
}

impl<T: Real> Solver<T> for PartialLeastSquares {
    fn facts(&self) -> SolverFacts {
        SolverFacts { holds_out: true, ..SolverFacts::default() }
    }

    fn check(&self, work: &FitRequest<'_>) -> Result<()> {
        let several = work.options.ranks.len();
        let why = "they cannot be compared without folds; add `folds` 5, or give one `rank`";
        let unchosen = several > 1 && work.options.folds == FoldSpec::None;
        refuse(unchosen, "ranks", format!("{several} ranks"), why)
    }

    fn only_pass(&self, _: &TrainOptions) -> Result<&'static str, &'static str> {
        Ok(GRAM)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let (p, t) = (shape.map.p, shape.t);
        let q = self.components.min(p);
        plan.term("centred moments of the folds", 2 * 8 * p * (p + t), "lower `rank`").term(
            "components",
            8 * (4 * p * q + 2 * p * t + q * (q + 2 * t)),
            "lower `components`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let state = data.moments_of_folds()?;
        let stages = data.resources.stages;
        let stage = stages.stage("components", None);
        let (gram, p) = (&state.gram, data.map.dims().1);
        let mut ranks: Vec<usize> = data.options.ranks.iter().map(|rank| *rank.min(&p)).collect();
        ranks.dedup();
        let held = if gram.folds().len() > 1 { self.held_out(gram, &ranks)? } else { Vec::new() };
        let best = held.iter().filter_map(|held| Some((held, held.best()?))).min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let (rank, q) = best.map_or((p, self.components), |(held, (q, _))| (held.rank, q));
        let own = Centred::of(gram.sum(None))?;
        let found = Components::of(&own, rank, q, gram.epsilon())?;
        let there = found.count();
        let why = "no target covaries with the features; check the target and the kernel";
        refuse(there == 0, COMPONENTS.name, q, why)?;
        drop(stage);
        data.warn_of_fewer(q, there, "the remaining features covary with no target");
        let mut figures = vec![
            Figure::of("components", there as f64),
            Figure { name: "explained share of the targets", values: found.explained(&own) },
        ];
        if let Some((chosen, _)) = best {
            figures.push(Figure { name: "held-out mse of 1, 2, … components", values: chosen.mse.clone() });
        }
        if ranks.len() > 1 {
            let of_rank = held.iter().filter_map(|held| Some(held.best()?.1));
            figures.push(Figure { name: "least held-out mse at each rank", values: of_rank.collect() });
        }
        let (mse, variance) = found.train(&own);
        let Head { weights, intercept } = found.regression(&own, &data.targets.centre());
        let components = Head { intercept: found.offsets(&own), weights: found.functions };
        Ok(Found {
            weights,
            intercept,
            components: Some(components),
            certificate: state.certificate,
            ranks,
            train: Some(explained(mse, variance, gram.targets())),
            figures,
            passes: 1,
            ..Found::default()
        })
    }
}
