//! A measured number and its uncertainty.

/// The meaning of the interval of a [`Measure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// The value is exact, up to the rounding of its arithmetic.
    Exact,
    /// The number lies in the interval with certainty; the value is the lower end.
    Bounds,
    /// The number lies in the interval with this probability over the random choices of the
    /// measurement.
    Confidence(f64),
}

/// A number with an interval and the evidence for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Best estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; infinite if no bound is known.
    pub high: f64,
    /// Meaning of the interval.
    pub evidence: Evidence,
}

impl Measure {
    pub(super) fn exact(value: f64) -> Self {
        Self { value, low: value, high: value, evidence: Evidence::Exact }
    }

    /// Returns a number known only by certain bounds. If rounding has made `low` exceed
    /// `high`, `high` is set to `low`.
    pub(super) fn bounds(low: f64, high: f64) -> Self {
        Self { value: low, low, high: high.max(low), evidence: Evidence::Bounds }
    }

    /// Returns the measure with its interval cut to the certain bounds `low` and `high`.
    pub(super) fn clip_interval(self, low: f64, high: f64) -> Self {
        match self.evidence {
            Evidence::Exact => self,
            _ => Self { low: self.low.max(low), high: self.high.min(high).max(self.low.max(low)), ..self },
        }
    }

    /// Returns this measure divided by `denominator`, which has an interval of its own; 0/0 is 0.
    #[doc(hidden)]
    pub fn relative_to(self, denominator: Self) -> Self {
        let evidence = match (self.evidence, denominator.evidence) {
            (Evidence::Confidence(a), Evidence::Confidence(b)) => Evidence::Confidence((a + b - 1.0).max(0.0)),
            (Evidence::Confidence(a), _) | (_, Evidence::Confidence(a)) => Evidence::Confidence(a),
            (Evidence::Exact, Evidence::Exact) => Evidence::Exact,
            _ => Evidence::Bounds,
        };
        Self {
            value: quotient(self.value, denominator.value),
            low: quotient(self.low, denominator.high),
            high: quotient(self.high, denominator.low),
            evidence,
        }
    }
}

/// Returns numerator/denominator, or 0 if both are 0, because the approximation of a kernel that is
/// zero everywhere has no error.
pub(super) fn quotient(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else if numerator > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}
