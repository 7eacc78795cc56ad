//! Maximal covariance: the pairs of directions in two views with the largest covariance.
//!
//! Let C_xy be the covariance matrix of the features of the two views, as the parent module
//! defines. The pairs (a, b) maximise aᵀ C_xy b with ‖a‖ = ‖b‖ = 1, where each a and each b is
//! orthogonal to the earlier ones. They are the singular vectors of C_xy. The method needs no
//! regularisation. Unlike canonical correlation analysis, it prefers directions of large variance.
//! With linear kernels it is scikit-learn's `PLSSVD(scale=False)`.
//!
//! Reference: Shawe-Taylor, Cristianini, "Kernel Methods for Pattern Analysis", Cambridge 2004,
//! section 6.5.

use super::{DirectionPairs, ViewMoments};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::parameter::{COMPONENTS, EMBEDDING_COMPONENTS, FOLDS, SECOND_KERNEL, SECOND_VIEW, TOLERANCE};
use crate::solver::{NamedValues, Settings, Solution, Solver, SolverFamily, SolverProperties};
use crate::{Result, Task, features::FitData};
use kapprox::{Real, decompose::thin_svd};
use kstore::MemoryPlan;

pub(in crate::solver) const FAMILY: SolverFamily = SolverFamily::new(
    "covariance",
    "maximal covariance: the directions of two sets of columns with the largest covariance",
    Task::Components,
    &[SECOND_VIEW, SECOND_KERNEL, EMBEDDING_COMPONENTS, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(MaximalCovariance::new(settings)?)),
);

#[derive(Clone, Debug)]
struct MaximalCovariance {
    component_count: usize,
}

impl MaximalCovariance {
    fn new(settings: &Settings) -> Result<Self> {
        super::require_second_view(settings)?;
        Ok(Self { component_count: settings.required(&COMPONENTS, Settings::count) })
    }

    fn pairs(&self, moments: &ViewMoments, epsilon: f64) -> Result<DirectionPairs> {
        let (u, singular_values, v) = thin_svd(moments.xy.as_ref())?;
        let min_singular_value =
            super::ROUNDING_UNITS * epsilon * (super::trace(&moments.xx) * super::trace(&moments.yy)).max(0.0).sqrt();
        let pair_count =
            singular_values.iter().take(self.component_count).take_while(|value| **value > min_singular_value).count();
        Ok(DirectionPairs::with_signs(
            u.subcols(0, pair_count),
            v.subcols(0, pair_count),
            singular_values[..pair_count].to_vec(),
        ))
    }
}

impl<T: Real> Solver<T> for MaximalCovariance {
    fn properties(&self) -> SolverProperties {
        SolverProperties { uses_validation_rows: true, dense_only: true, ..SolverProperties::default() }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        super::check(request)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        super::plan(plan, size, 1)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let gram = data.moments_by_fold()?.gram;
        let _stage = data.resources.stage_observer.start_stage("singular vectors", None);
        let (mut correlation_sums, mut row_count) = (vec![0.0; self.component_count], 0.0);
        super::for_each_fold(&gram, data.second_feature_count, |train, validation| {
            let fold_correlations = validation.correlations(&self.pairs(train, gram.epsilon())?, gram.epsilon());
            correlation_sums
                .iter_mut()
                .zip(fold_correlations)
                .for_each(|(sum, correlation)| *sum += correlation * validation.row_count as f64);
            row_count += validation.row_count as f64;
            Ok(())
        })?;
        let moments = ViewMoments::from_moments(gram.training_moments(None), data.second_feature_count)?;
        let pairs = self.pairs(&moments, gram.epsilon())?;
        super::reject_missing_pairs(&moments, &pairs, gram.epsilon(), self.component_count)?;
        let squared_norm = moments.xy.squared_norm_l2();
        let mut figures = vec![
            NamedValues { name: "covariance", values: pairs.values.clone() },
            NamedValues {
                name: "share of the covariance",
                values: pairs.values.iter().map(|v| v * v / squared_norm).collect(),
            },
            NamedValues { name: "correlation", values: moments.correlations(&pairs, gram.epsilon()) },
        ];
        if row_count > 0.0 {
            figures.push(NamedValues {
                name: "held-out correlation",
                values: correlation_sums.iter().map(|sum| sum / row_count).collect(),
            });
        }
        Ok(super::solution(data, &moments, &pairs, self.component_count, figures))
    }
}
