//! The features of the map themselves, for other learners: phi(x) with phi(x)·phi(x') ≈ k(x, x').
//!
//! A model of them is a fitted map in a file: prediction gives phi, and a linear learner on phi is a kernel learner. Nothing is
//! learned but the scaling, the kernel's length scale and the landmarks; the certificate is that of all rows.
//!
//! *Passes*: one, for the certificate. *Flops*: the map and np². *Bytes*: about 3p² numbers in f64.

use super::parameter::TOLERANCE;
use super::{Family, Features, Fitted, Settings, Solver};
use crate::train::{Cut, Shape};
use crate::{Result, Task};
use faer::Mat;
use kapprox::Real;
use kstore::Plan;

/// The name of the solver.
pub const FEATURES: &str = "features";

/// The description of the solver `features`.
pub(super) const FAMILY: Family = Family {
    name: FEATURES,
    about: "the features of the map themselves, for other learners",
    task: Task::Components,
    parameters: &[TOLERANCE],
    make: |settings| Ok(Box::new(MapFeatures::new(settings))),
};

/// The solver that leaves the features as they are.
#[derive(Clone, Copy, Debug)]
pub struct MapFeatures;

impl MapFeatures {
    fn new(_: &Settings) -> Self {
        Self
    }
}

impl<T: Real> Solver<T> for MapFeatures {
    fn plan(&self, plan: Plan, shape: &Shape, _: Cut) -> Plan {
        let (p, m) = (shape.map.p, shape.map.landmarks.unwrap_or(shape.map.p));
        plan.term("coefficients of the features", 8 * p * (p + 2 * m), "lower `rank`")
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted<T>> {
        let certificate = data.moments()?.certificate;
        let p = data.map.dims().1;
        let (weights, intercept) = (Mat::identity(p, p), vec![0.0; p]);
        Ok(Fitted { weights, intercept, certificate, passes: 1, ..Fitted::default() })
    }
}
