//! Deviances of the Tweedie family with power variance: Poisson, Gamma, and compounds of the two.
//!
//! For a value y and its expectation μ, the unit deviance of power p is
//!
//! ```text
//! p = 1 (Poisson)   2 (y ln(y/μ) − y + μ)
//! 1 < p < 2         2 (y^(2−p)/((1−p)(2−p)) − y μ^(1−p)/(1−p) + μ^(2−p)/(2−p))
//! p = 2 (Gamma)     2 (ln(μ/y) + y/μ − 1)
//! ```
//!
//! The variance of y is proportional to μ^p. The link is logarithmic: μ = e^η. Half the deviance is
//! then convex in η, with derivatives μ^(2−p) − y μ^(1−p) and (2−p) μ^(2−p) + (p−1) y μ^(1−p).
//!
//! References: McCullagh, Nelder, *Generalized Linear Models*, 1989; Jørgensen, *The Theory of
//! Dispersion Models*, 1997.

/// The unit deviance of a power between 1 and 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviance {
    /// The power p of the variance.
    pub power: f64,
}

impl Deviance {
    /// Returns the name of the distribution.
    pub fn name(self) -> &'static str {
        match self.power {
            1.0 => "poisson",
            2.0 => "gamma",
            _ => "tweedie",
        }
    }

    /// Returns half the unit deviance of y at μ = e^η, and its first and second derivative by η.
    pub fn derivatives(self, y: f64, eta: f64) -> [f64; 3] {
        let p = self.power;
        // y μ^(1−p) is 0 for y = 0, whatever μ
        let (expected, observed) = (((2.0 - p) * eta).exp(), if y == 0.0 { 0.0 } else { y * ((1.0 - p) * eta).exp() });
        let half_deviance = match p {
            1.0 if y == 0.0 => expected,
            1.0 => y * (y.ln() - eta) - y + expected,
            2.0 => eta - y.ln() + observed - 1.0,
            _ => y.powf(2.0 - p) / ((1.0 - p) * (2.0 - p)) - observed / (1.0 - p) + expected / (2.0 - p),
        };
        [half_deviance, expected - observed, (2.0 - p) * expected + (p - 1.0) * observed]
    }

    /// Returns the unit deviance of y at the prediction μ.
    pub fn value(self, y: f64, mu: f64) -> f64 {
        // rounding can make a deviance near 0 negative
        (2.0 * self.derivatives(y, mu.max(f64::MIN_POSITIVE).ln())[0]).max(0.0)
    }

    /// Returns true if the distribution has this value: 0 or more, and for Gamma more than 0.
    pub fn accepts(self, y: f64) -> bool {
        y.is_finite() && (y > 0.0 || y == 0.0 && self.power < 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values by scikit-learn 1.9: `mean_tweedie_deviance([y], [mu], power=p)`.
    #[test]
    fn deviances_equal_those_of_scikit_learn() {
        let golden = [
            (1.0, 3.0, 2.0, 0.4327906486489863),
            (1.0, 0.0, 0.5, 1.0),
            (1.5, 2.0, 3.0, 0.23329688480775346),
            (1.5, 0.0, 0.25, 2.0),
            (1.9, 4.0, 1.5, 1.4721039924617223),
            (2.0, 0.5, 2.0, 1.2725887222397811),
        ];
        for (p, y, mu, expected) in golden {
            let got = Deviance { power: p }.value(y, mu);
            assert!((got - expected).abs() < 1e-12 * expected.max(1.0), "{p} {y} {mu}: {got} {expected}");
        }
    }

    #[test]
    fn derivatives_are_those_of_differences() {
        for (power, y, eta) in [(1.0, 3.0, 0.4), (1.0, 0.0, -0.3), (1.5, 2.0, 1.2), (1.3, 0.0, 0.5), (2.0, 0.7, -0.8)] {
            let deviance = Deviance { power };
            let (h, [_, first, second]) = (1e-5, deviance.derivatives(y, eta));
            let [up, down] = [eta + h, eta - h].map(|eta| deviance.derivatives(y, eta));
            assert!(((up[0] - down[0]) / (2.0 * h) - first).abs() < 1e-8, "{power} {y}");
            assert!(((up[1] - down[1]) / (2.0 * h) - second).abs() < 1e-8, "{power} {y}");
        }
    }
}
