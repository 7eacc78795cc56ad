//! Kernel mean embedding: the distance of a row from the mean of the training rows in feature
//! space, as an anomaly score.
//!
//! Let φ_i be the features of the training row x_i, and μ = (1/n) Σ_i φ_i their mean. The squared
//! distance of a row x from the mean is
//!
//! ```text
//! d²(x) = ‖k(x, ·) − μ‖² = k(x, x) − 2 μᵀφ(x) + ‖μ‖²
//!       = k(x, x) − (2/n) Σ_i k(x, x_i) + (1/n²) Σ_ij k(x_i, x_j)
//! ```
//!
//! The score is c − d². The number c is chosen such that d² exceeds c for a fraction nu of the
//! training rows. So the score is negative for outliers. If k(x, x) is constant, the score is twice
//! the mean of the values k(x, x_i), minus a constant. The score is then a density estimate
//! (Parzen's, if the kernel is a density), and orders rows like the one-class support vector
//! machine at nu = 1. If k(x, x) is not constant, for example for polynomials, a large μᵀφ(x) may
//! come from the norm of the row instead of its distance from other rows.
//!
//! If a map is not a projection onto a subspace, such as random Fourier features, ‖φ(x)‖² replaces
//! k(x, x).
//!
//! *Passes*: one for the features, two over the stored features. *Flops*: the flops of the map, and
//! 4np. *Bytes*: the features, and 32n.
//!
//! Reference: Smola, Gretton, Song, Schölkopf, "A Hilbert space embedding for distributions",
//! ALT 2007.

use super::parameter::{NU, Settings, TOLERANCE};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{self, FitData, GatherOptions, RowValues, StoredFeatures};
use crate::request::{PassShape, ProblemSize};
use crate::{Result, Task, quadratic::Quadratic};
use faer::Mat;
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "mean",
    "kernel mean embedding: the squared distance from the mean of all rows, and a score that is \
        negative for outliers",
    Task::Novelty,
    &[NU, TOLERANCE],
    |settings| Ok(Box::new(MeanEmbedding { nu: settings.required(&NU, Settings::number) })),
);

#[derive(Clone, Copy, Debug)]
struct MeanEmbedding {
    nu: f64,
}

impl<T: Real> Solver<T> for MeanEmbedding {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, stores_distributions: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let n = usize::try_from(size.n).unwrap_or(usize::MAX);
        plan.term(
            "distances of the rows",
            n.saturating_mul(8).saturating_add(features::row_values_bytes(n, 8)),
            "learn from fewer rows (`rows`)",
        )
        .term("mean of the features", 8 * (1 + features::STATES_PER_REDUCTION) * size.map.p, "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (features, gathered) =
            StoredFeatures::gather(data, GatherOptions { needs_squared_norms: true, ..GatherOptions::default() })?;
        let n = features.n as f64;
        let mut mean = features.sum_features("mean")?;
        mean.iter_mut().for_each(|sum| *sum /= n);
        let squared_norm: f64 = mean.iter().map(|v| v * v).sum();
        let mut squared_distances = gathered.squared_norms;
        let observer = data.resources.stage_observer.start_stage("distances", Some(data.n));
        let RowValues(projections) =
            features.reduce("distances", &*observer, &RowValues::<f64>::default, |values, tile| {
                let projection =
                    |i: usize| tile.row(i).iter().zip(&mean).map(|(v, mean)| v.to_f64() * mean).sum::<f64>();
                values.0.extend((0..tile.row_count()).map(projection));
                Ok(())
            })?;
        squared_distances
            .iter_mut()
            .zip(projections)
            .for_each(|(squared_distance, projection)| *squared_distance += squared_norm - 2.0 * projection);
        let variance = squared_distances.iter().sum::<f64>() / n;
        let outlier_count = ((self.nu * n) as usize).min(features.n - 1);
        let threshold = *squared_distances.select_nth_unstable_by(features.n - 1 - outlier_count, f64::total_cmp).1;
        let figures = vec![
            NamedValues::single("squared norm of the mean", squared_norm),
            NamedValues::single("variance", variance.max(0.0)),
            NamedValues::single("threshold of the squared distance", threshold),
        ];
        let weights = Mat::from_fn(features.p, 1, |i, _| 2.0 * mean[i]);
        let passes = if data.tier == features::FeatureTier::Recomputed { 3 } else { 1 };
        Ok(Solution {
            weights,
            intercept: vec![threshold],
            quadratic: Some(Quadratic::kernel_diagonal(features.p, squared_norm)),
            certificate: gathered.certificate,
            figures,
            passes,
            ..Solution::default()
        })
    }
}
