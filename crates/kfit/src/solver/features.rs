//! The solver `features`: computes the features φ(x) of the map for other learners. The features
//! satisfy φ(x)ᵀφ(x') ≈ k(x, x').
//!
//! The model is a fitted map in a file and predicts φ(x). A linear learner on these features is a
//! kernel learner. The fit learns only the scaling, the kernel's length scale and the landmarks.
//! The certificate (the exact relative trace error of the map) covers all rows.
//!
//! *Passes*: one for the certificate; none if the map has no certificate. *Flops*: the flops of the
//! map. *Bytes*: about 3p² numbers in f64 for the coefficients of the model, where p is the number
//! of features. The fit needs no Gram matrix.

use super::{Solution, Solver, SolverFamily, parameter::TOLERANCE};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{
    Result, Task, certificate::CertificateReduction, features::FitData, model::FEATURES_SOLVER, prepare::stage_plans,
};
use faer::Mat;
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    FEATURES_SOLVER,
    "the features of the map, as input for other learners",
    Task::Components,
    &[TOLERANCE],
    |_| Ok(Box::new(MapFeatures)),
);

#[derive(Clone, Copy, Debug)]
struct MapFeatures;

impl<T: Real> Solver<T> for MapFeatures {
    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (p, m) = (size.map.p, size.map.landmark_count.unwrap_or(size.map.p));
        plan.term("coefficients of the features", 8 * p * (p + 2 * m), "lower `rank`")
    }

    fn stages(&self, _: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        // no pass sums moments, so the memory plan is the plan for stored features
        let (size, budget) = (ProblemSize { stores_features: true, ..request.size.clone() }, request.resources.memory);
        let solve_plan = |pass_shape: PassShape| {
            Solver::<T>::plan(
                self,
                stage_plans::plan_feature_pass("solve", &size, pass_shape, budget),
                &size,
                pass_shape,
            )
        };
        let (pass_shape, plans) = stage_plans::select_pass_shape(&size, &solve_plan, budget);
        Ok((pass_shape, stage_plans::stages_with_passes(request, plans, [0, 0])))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let reduction = CertificateReduction { map: data.map, tile_rows: data.pass_shape.tile_rows };
        let certificate =
            if reduction.has_certificate() { Some(data.reduce("certificate", &reduction)?) } else { None };
        let (p, passes) = (data.map.dims().1, u64::from(certificate.is_some()));
        let (weights, intercept) = (Mat::identity(p, p), vec![0.0; p]);
        Ok(Solution { weights, intercept, certificate, passes, ..Solution::default() })
    }
}
