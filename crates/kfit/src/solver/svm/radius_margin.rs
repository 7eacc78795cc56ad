//! The margin of an SVM, the radius of the rows, and a bound of the leave-one-out errors by both.
//!
//! The margin of an SVM is 1/‖w‖. R is the radius of a ball that contains the features φ_i of all
//! rows, ξ_i = max(0, 1 − y_i f_i) is the slack of row i, c_i its cost and β_i its multiplier. If
//! the SVM without row i errs on this row, then
//!
//! ```text
//! free intercept     4R²β_i + ξ_i ≥ 1         (Joachims 2000: inner products around the
//!                                             centre of the ball are between −R² and R²)
//! no free intercept  (R² + κ)β_i + ξ_i ≥ 1    (Jaakkola, Haussler 1999: ball around the origin;
//!                                             κ is 1 for a penalised intercept, otherwise 0)
//! ```
//!
//! The number of leave-one-out errors is therefore at most the sum of the left sides. At the
//! optimum Σ β_i = ‖w‖² + Σ c_i ξ_i. With the objective P = ½‖w‖² + Σ c_i ξ_i, the smallest cost c,
//! and a = 4R² or R² + κ, the sum is at most
//!
//! ```text
//! hinge          a (P + ½‖w‖²) + (P − ½‖w‖²)/c
//! squared hinge  (a + 1/c) 2P
//! ```
//!
//! The squared hinge has no slack for features with one more coordinate, 1/√(2c_i), per row. For
//! separable rows and a free intercept, both tend to (2R)²‖w‖²: squared diameter over squared
//! margin. A penalised intercept counts as a weight.
//!
//! If the intercept is free, R is the smaller radius of two balls: around the mean of the features,
//! and around the origin. It is at most twice the radius of the smallest enclosing ball, and takes
//! two passes instead of a solver's.
//!
//! The bound is often above 1 and does not follow the error: it must not choose parameters.
//!
//! References: Joachims, "Estimating the generalization performance of an SVM efficiently", ICML
//! 2000; Jaakkola, Haussler, "Probabilistic kernel regression models", AISTATS 1999; Vapnik,
//! *Statistical Learning Theory*, 1998; Hofmann, Schölkopf, Smola, "Kernel methods in machine
//! learning", Annals of Statistics 36, 2008.

use super::workspace::CertifiedPoint;
use crate::features::StoredFeatures;
use crate::request::StageObserver;
use crate::solver::NamedValues;
use crate::{Intercept, Result};
use kapprox::Real;
use kstore::Merge;

/// Number of passes of [`enclosing_radius`].
pub(super) const PASSES: u64 = 2;

/// The largest squared distances of the rows from the mean of the features, and from the origin.
#[derive(Clone, Debug)]
struct SquaredRadii(Vec<f64>);

impl Merge for SquaredRadii {
    fn merge(&mut self, later: &Self) {
        self.0.iter_mut().zip(&later.0).for_each(|(largest, value)| *largest = largest.max(*value));
    }
}

kstore::persist!(SquaredRadii { fill "squared radii": 0 });

/// Returns the radius of a ball that contains the features of all rows: two passes.
pub(super) fn enclosing_radius<T: Real>(
    features: &StoredFeatures<'_, T>,
    intercept: Intercept,
    stage_observer: &dyn StageObserver,
) -> Result<f64> {
    let sums = features.sum_features("mean of the features")?;
    let observer = stage_observer.start_stage("radius of the features", Some(features.n as u64));
    let mean: Vec<f64> = sums.iter().map(|sum| sum / features.n.max(1) as f64).collect();
    let init = || SquaredRadii(vec![0.0; 2]);
    let SquaredRadii(radii) = features.reduce("radius of the features", &*observer, &init, |radii, tile| {
        for i in 0..tile.row_count() {
            let (mut from_mean, mut from_origin) = (0.0, 0.0);
            for (value, mean) in tile.row(i).iter().zip(&mean) {
                let value = value.to_f64();
                from_mean += (value - mean) * (value - mean);
                from_origin += value * value;
            }
            radii.merge(&SquaredRadii(vec![from_mean, from_origin]));
        }
        Ok(())
    })?;
    let squared_radius = if intercept == Intercept::Free { radii[0].min(radii[1]) } else { radii[1] };
    Ok(squared_radius.sqrt())
}

/// An SVM, with its loss and rows.
pub(super) struct BoundedSvm<'s> {
    pub(super) solution: &'s CertifiedPoint,
    pub(super) row_count: usize,
    /// Smallest cost of a row.
    pub(super) min_cost: f64,
}

/// Returns the figures of the SVMs; none if an SVM is constant and has no margin.
pub(super) fn figures(
    svms: &[BoundedSvm<'_>],
    radius: f64,
    intercept: Intercept,
    uses_squared_hinge: bool,
) -> Vec<NamedValues> {
    let squared_norm = |svm: &BoundedSvm<'_>| svm.solution.w.iter().map(|w| w * w).sum::<f64>();
    if svms.iter().any(|svm| squared_norm(svm) <= 0.0 || svm.min_cost <= 0.0 || svm.row_count == 0) {
        return Vec::new();
    }
    let kappa = if intercept == Intercept::Penalised { 1.0 } else { 0.0 };
    let reach = if intercept == Intercept::Free { 4.0 * radius * radius } else { radius * radius + kappa };
    let bound = |svm: &BoundedSvm<'_>| {
        let (objective, b) = (svm.solution.primal, svm.solution.b);
        let half_norm = 0.5 * (squared_norm(svm) + kappa * b * b);
        let errors = match uses_squared_hinge {
            true => 2.0 * objective * (reach + 1.0 / svm.min_cost),
            false => reach * (objective + half_norm) + (objective - half_norm).max(0.0) / svm.min_cost,
        };
        (errors / svm.row_count as f64).min(1.0)
    };
    vec![
        NamedValues { name: "margin", values: svms.iter().map(|svm| squared_norm(svm).sqrt().recip()).collect() },
        NamedValues::single("radius", radius),
        NamedValues { name: "leave-one-out bound", values: svms.iter().map(bound).collect() },
    ]
}
