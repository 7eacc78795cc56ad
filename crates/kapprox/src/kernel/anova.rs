//! The ANOVA kernel, (Σ exp(−(x − z)² / (2σ²)))^degree, a sum over features.
//!
//! kernlab's `anovadot` with its sigma = 1/(2σ²). Positive definite: a whole power of a sum of kernels (Stitson et al.,
//! *Support Vector ANOVA Decomposition*, 1997, in this form: Karatzoglou, Smola, Hornik, Zeileis, *kernlab*, JSS 11, 2004).
//! Costs an exponential for each feature of each pair.
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("anova(sigma=1, degree=2)").is_ok());
//! ```

use super::registry::{Domain, Family, Parameter, Range, Value};
use super::sweep::{Features, swept};
use crate::Real;
use std::f64::consts::LN_2;

/// The family of kernels `anova(sigma=1, degree=2)`.
pub(super) const FAMILY: Family = Family {
    name: "anova",
    formula: "(sum exp(-(x-z)^2 / (2 sigma^2)))^degree",
    parameters: &[
        Parameter {
            name: "sigma",
            default: Value::Number(1.0),
            range: Range::Positive,
            reason: "it is a length that differences are divided by",
        },
        Parameter {
            name: "degree",
            default: Value::Number(2.0),
            range: Range::Whole { from: 1, to: 31 },
            reason: "a positive-definite power is a whole one, and higher ones overflow",
        },
    ],
    metric: None,
    positive_definite: true,
    domain: Domain::Any,
    example: "anova(sigma=0.5, degree=2)",
    // in units of √(2 ln 2) σ the Gaussian is 2^−r²
    build: |text, values| swept(text, values[0] * (2.0 * LN_2).sqrt(), Anova { degree: values[1] as u32 }),
    each: None,
};

#[derive(Debug)]
struct Anova {
    degree: u32,
}

impl Features for Anova {
    const START: f64 = 0.0;

    fn next<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        #[inline(always)]
        |value: T, difference: T| value + (difference * difference).halvings()
    }

    fn last<T: Real>(&self) -> impl Fn(T) -> T + Copy {
        let degree = self.degree;
        #[inline(always)]
        move |value: T| value.power(degree)
    }
}
