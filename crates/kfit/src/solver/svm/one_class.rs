//! One-class SVM: a region that contains most rows.

use super::lagrangian::ProblemOptions;
use super::loss::{Loss, TargetAndCost};
use super::{solution_of, solve, stages};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::parameter::{GAP, NU, STEPS, TOLERANCE, WEIGHTS};
use crate::solver::{Settings, Solution, Solver, SolverFamily, SolverProperties};
use crate::{Intercept, Result, Targets, Task};
use kapprox::Real;
use kstore::MemoryPlan;

pub(in crate::solver) const ONE_CLASS: SolverFamily = SolverFamily::new(
    "oneclass",
    "one-class support vector machine: a score that is negative for outliers",
    Task::Novelty,
    &[NU, GAP, STEPS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(OneClass::new(settings))),
);

#[derive(Clone, Copy, Debug)]
pub(super) struct OneClass {
    /// Upper bound on the fraction of rows outside the region, and lower bound on the fraction of
    /// rows that are support vectors.
    pub(super) nu: f64,
    pub(super) gap_tolerance: f64,
    pub(super) max_steps: usize,
}

impl OneClass {
    fn new(settings: &Settings) -> Self {
        Self {
            nu: settings.required(&NU, Settings::number),
            gap_tolerance: settings.required(&GAP, Settings::number),
            max_steps: settings.required(&STEPS, Settings::count),
        }
    }
}

impl<T: Real> Solver<T> for OneClass {
    fn properties(&self) -> SolverProperties {
        SolverProperties {
            stores_features: true,
            accepts_row_weights: true,
            supports_exact_kernel: true,
            ..SolverProperties::default()
        }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        super::plan(plan, size, pass_shape, 0, 1)
    }

    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        Ok(stages::<T>(self, access, request, (1, 1, 1)))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        if let Some(solution) = self.fit_exact_kernel(data)? {
            return Ok(solution);
        }
        debug_assert!(matches!(data.targets, Targets::Numeric { centre } if centre.is_empty()));
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let cost = 1.0 / (self.nu * features.weight_outside(None));
        // the diagonal of the kernel is the unit of the values f
        let diagonal = gathered.certificate.as_ref().map_or(1.0, |state| state.mean_residual(0));
        let unit = if diagonal > 0.0 { diagonal } else { 1.0 };
        let problem_options = ProblemOptions {
            multiplier_sum: 1.0,
            ..ProblemOptions::new(Loss::OneSided, Intercept::Free, self.gap_tolerance)
        };
        let problem_options =
            ProblemOptions { typical_cost: cost * features.mean_weight(None) / unit, ..problem_options };
        let weights = &features.weights;
        let row_fn = move |i: usize| TargetAndCost { y: 0.0, c: cost * weights.get(i) };
        let solved_problems = solve(&features, data, self.max_steps, vec![(row_fn, problem_options)])?;
        Ok(solution_of(solved_problems, &[], gathered.certificate))
    }
}
