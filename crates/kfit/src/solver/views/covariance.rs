//! Maximal covariance: the directions of two views with the largest covariance.
//!
//! max aᵀ C_xy b with ‖a‖ = ‖b‖ = 1, each further pair orthogonal to the earlier ones: the singular
//! vectors of C_xy. No regularisation is needed. Compared with canonical correlation, the method
//! prefers directions of large variance. With linear kernels it is scikit-learn's
//! `PLSSVD(scale=False)`.
//!
//! Reference: Shawe-Taylor, Cristianini, "Kernel Methods for Pattern Analysis", Cambridge 2004,
//! section 6.5.

use super::{Moments, Pairs};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::parameter::{COMPONENTS, EMBEDDED, FOLDS, TOLERANCE, WITH, WITH_KERNEL};
use crate::solver::{Figure, Found, Settings, Solver, SolverFacts, SolverFamily};
use crate::{Result, Task, features::FitData};
use kapprox::{Real, decompose::singular};
use kstore::Plan;

pub(in crate::solver) const FAMILY: SolverFamily = SolverFamily::new(
    "covariance",
    "maximal covariance: the directions of two sets of columns with the largest covariance",
    Task::Components,
    &[WITH, WITH_KERNEL, EMBEDDED, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(MaximalCovariance::new(settings)?)),
);

#[derive(Clone, Debug)]
struct MaximalCovariance {
    components: usize,
}

impl MaximalCovariance {
    fn new(settings: &Settings) -> Result<Self> {
        super::require_two(settings)?;
        Ok(Self { components: settings.required(&COMPONENTS, Settings::count) })
    }

    fn pairs(&self, moments: &Moments, epsilon: f64) -> Result<Pairs> {
        let (u, values, v) = singular(moments.xy.as_ref())?;
        let floor = super::NOISE * epsilon * (super::trace(&moments.xx) * super::trace(&moments.yy)).max(0.0).sqrt();
        let kept = values.iter().take(self.components).take_while(|value| **value > floor).count();
        Ok(Pairs::signed(u.subcols(0, kept), v.subcols(0, kept), values[..kept].to_vec()))
    }
}

impl<T: Real> Solver<T> for MaximalCovariance {
    fn facts(&self) -> SolverFacts {
        SolverFacts { holds_out: true, dense: true, ..SolverFacts::default() }
    }

    fn check(&self, work: &FitRequest<'_>) -> Result<()> {
        super::check(work)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        super::plan(plan, shape, 1)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let gram = data.moments_of_folds()?.gram;
        let _stage = data.resources.stages.stage("singular vectors", None);
        let (mut held, mut rows) = (vec![0.0; self.components], 0.0);
        super::held_out(&gram, data.second, |own, new| {
            let found = new.correlations(&self.pairs(own, gram.epsilon())?, gram.epsilon());
            held.iter_mut().zip(found).for_each(|(sum, correlation)| *sum += correlation * new.rows as f64);
            rows += new.rows as f64;
            Ok(())
        })?;
        let moments = Moments::of(gram.sum(None), data.second)?;
        let pairs = self.pairs(&moments, gram.epsilon())?;
        super::require_pairs(&moments, &pairs, gram.epsilon(), self.components)?;
        let total = moments.xy.squared_norm_l2();
        let mut figures = vec![
            Figure { name: "covariance", values: pairs.values.clone() },
            Figure { name: "share of the covariance", values: pairs.values.iter().map(|v| v * v / total).collect() },
            Figure { name: "correlation", values: moments.correlations(&pairs, gram.epsilon()) },
        ];
        if rows > 0.0 {
            figures.push(Figure { name: "held-out correlation", values: held.iter().map(|sum| sum / rows).collect() });
        }
        Ok(super::fitted(data, &moments, &pairs, self.components, figures))
    }
}
