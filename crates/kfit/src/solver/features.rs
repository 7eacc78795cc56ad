//! The features of the map, for other learners: phi(x) with phi(x)·phi(x') ≈ k(x, x').
//!
//! The model is a fitted map in a file: it predicts phi, and a linear learner on phi is a kernel
//! learner. Only the scaling, the kernel's length scale and the landmarks are learned. The
//! certificate covers all rows.
//!
//! *Passes*: one for the certificate, none for a map without one. *Flops*: the map. *Bytes*: about
//! 3p² numbers in f64 for the coefficients of the model; no Gram matrix.

use super::{Found, Solver, SolverFamily, parameter::TOLERANCE};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{Result, Task, certificate::Residuals, features::FitData, model::FEATURES, prepare::plan};
use faer::Mat;
use kapprox::Real;
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    FEATURES,
    "the features of the map, as input for other learners",
    Task::Components,
    &[TOLERANCE],
    |_| Ok(Box::new(MapFeatures)),
);

#[derive(Clone, Copy, Debug)]
struct MapFeatures;

impl<T: Real> Solver<T> for MapFeatures {
    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let (p, m) = (shape.map.p, shape.map.landmarks.unwrap_or(shape.map.p));
        plan.term("coefficients of the features", 8 * p * (p + 2 * m), "lower `rank`")
    }

    fn stages(&self, _: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        // no pass sums moments, so the plan is that of stored features
        let (shape, budget) = (ProblemSize { keeps: true, ..work.shape.clone() }, work.resources.memory);
        let last =
            |cut: PassShape| Solver::<T>::plan(self, plan::pass_features("solve", &shape, cut, budget), &shape, cut);
        let (cut, plans) = plan::cut(&shape, &last, budget);
        Ok((cut, plan::featured(work, plans, [0, 0])))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let residuals = Residuals { map: data.map, tile: data.cut.tile };
        let certificate = if residuals.exist() { Some(data.fold("certificate", &residuals)?) } else { None };
        let (p, passes) = (data.map.dims().1, u64::from(certificate.is_some()));
        let (weights, intercept) = (Mat::identity(p, p), vec![0.0; p]);
        Ok(Found { weights, intercept, certificate, passes, ..Found::default() })
    }
}
