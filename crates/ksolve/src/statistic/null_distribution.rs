//! Weighted sums of chi-squared variables. Under the null hypothesis, the squared norm of a mean of
//! features has such a distribution.
//!
//! ```text
//! Q = Σ_l w_l χ²(m_l),     E exp(−pQ) = Π_l (1 + 2 w_l p)^(−m_l/2)
//! ```
//!
//! Here w_l > 0 are the weights, χ²(m_l) are independent variables with m_l degrees of freedom, and
//! E exp(−pQ) is the Laplace transform of the distribution of Q. If the weights are eigenvalues of
//! a covariance, all m_l are 1. A single term with any m_l > 0 is a gamma variable. The
//! distribution function is computed from the transform by one of two quadratures, with errors
//! below 1e-9 over the range of the tests:
//!
//! * if there are few effective terms ((Σw)²/Σw² up to 30): the Bromwich integral. All
//!   singularities of the integrand lie on the real axis at or below 0, so the contour is a
//!   parabola around this half-axis. The error falls as 8^−N with N points (Weideman, Trefethen,
//!   "Parabolic and hyperbolic contours for computing the Bromwich integral", Mathematics of
//!   Computation 76, 2007);
//! * if there are more terms: the trapezoidal rule for the inversion integral of the characteristic
//!   function, which then falls fast along the real line. The rule computes a periodic sum of the
//!   distribution; the period is so long that values beyond it have a probability below 1e-12
//!   (Davies, "Numerical inversion of a characteristic function", Biometrika 60, 1973).

use std::f64::consts::PI;

/// Points on the upper half of the parabola, N. Rounding errors are at most about ε exp(πN/12),
/// 1e-13 for 24 points. The truncation error 8^−N is negligible for few terms, but grows with the
/// number of terms: with 30 equal terms, the error measured is 1e-9 for 16 points and 4e-14 for 24.
const PARABOLA_POINTS: usize = 24;

/// Number of effective terms up to which the integral along the parabola is accurate to about
/// 1e-13; with 100 terms its error would be about 1e-8.
const MAX_EFFECTIVE_TERMS_FOR_PARABOLA: f64 = 30.0;

/// Modulus of the characteristic function below which the sum ends.
const MIN_MODULUS: f64 = 1e-14;

/// Maximum number of points of the trapezoidal rule; a few hundred are typical.
const MAX_LINE_POINTS: usize = 1 << 16;

/// Smallest probability that is returned. Smaller probabilities would be differences of numbers
/// near 1, with rounding errors of about 1e-13.
pub(super) const MIN_PROBABILITY: f64 = 1e-12;

/// The distribution of a weighted sum Q = Σ w_l χ²(m_l).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChiSquaredSum {
    terms: Vec<ChiSquaredTerm>,
}

/// A term w χ²(m) of the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ChiSquaredTerm {
    /// w, positive.
    weight: f64,
    /// Degrees of freedom, m.
    degrees_of_freedom: f64,
}

impl ChiSquaredSum {
    /// Returns the distribution with one degree of freedom per weight. A weight is dropped if it is
    /// at the rounding level of the largest weight.
    pub(super) fn from_weights(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut weights: Vec<f64> = weights.into_iter().filter(|weight| weight.is_finite()).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        let floor = weights.first().map_or(0.0, |largest| largest.max(0.0) * f64::EPSILON);
        weights.retain(|weight| *weight > floor);
        Self { terms: weights.into_iter().map(|weight| ChiSquaredTerm { weight, degrees_of_freedom: 1.0 }).collect() }
    }

    /// Returns the gamma distribution with this mean and variance. If the mean or the variance is
    /// not positive, the result has no terms.
    pub(super) fn gamma(mean: f64, variance: f64) -> Self {
        let terms = if mean > 0.0 && variance > 0.0 && variance.is_finite() {
            vec![ChiSquaredTerm { weight: variance / (2.0 * mean), degrees_of_freedom: 2.0 * mean * mean / variance }]
        } else {
            Vec::new()
        };
        Self { terms }
    }

    /// Returns P(Q ≥ x), between [`MIN_PROBABILITY`] and 1; `None` if the sum has no terms.
    pub(super) fn survival(&self, x: f64) -> Option<f64> {
        let (mean, half_variance) = self.terms.iter().fold(
            (0.0, 0.0),
            |(mean, half_variance), ChiSquaredTerm { weight: w, degrees_of_freedom: m }| {
                (mean + w * m, half_variance + w * w * m)
            },
        );
        if self.terms.is_empty() || !x.is_finite() {
            return None;
        }
        if x <= 0.0 {
            return Some(1.0);
        }
        let tail = if mean * mean / half_variance <= MAX_EFFECTIVE_TERMS_FOR_PARABOLA {
            self.survival_by_parabola(x)
        } else {
            self.survival_by_trapezoidal_rule(x)
        };
        Some(tail.clamp(MIN_PROBABILITY, 1.0))
    }

    /// Computes P(Q ≥ x) by the integral along the parabola z(u) = μ(1 + iu)²; by symmetry only the
    /// upper half is evaluated.
    fn survival_by_parabola(&self, x: f64) -> f64 {
        let n = PARABOLA_POINTS as f64;
        // step and scale of Weideman and Trefethen: h = 3/N, μ = πN/(12x)
        let (h, mu) = (3.0 / n, PI * n / (12.0 * x));
        let sum: f64 = (0..PARABOLA_POINTS)
            .map(|k| {
                let u = (k as f64 + 0.5) * h;
                let (re, im) = (mu * (1.0 - u * u), 2.0 * mu * u);
                let (mut log_modulus, mut angle) = (re * x, im * x);
                for ChiSquaredTerm { weight: w, degrees_of_freedom: m } in &self.terms {
                    let (a, b) = (1.0 + 2.0 * w * re, 2.0 * w * im);
                    log_modulus -= 0.25 * m * (a * a + b * b).ln();
                    angle -= 0.5 * m * b.atan2(a);
                }
                // the integrand is e^{zx} F(z) z'(u)/z(u), with the Laplace transform F of the
                // distribution and z'(u)/z(u) = 2i / (1 + iu)
                let (derivative_modulus, modulus) = (2.0 / (1.0 + u * u), log_modulus.exp());
                modulus * derivative_modulus * (u * angle.sin() + angle.cos())
            })
            .sum();
        1.0 - h / PI * sum
    }

    /// Computes P(Q ≥ x) as 1/2 + Σ_k sin θ_k / (π (k + 1/2) ρ_k). Here e^{iθ_k}/ρ_k = φ(u_k) e^{−i
    /// u_k x} with the characteristic function φ of Q and u_k = (k + 1/2) 2π/T. The period T is so
    /// large that values of Q above T have a negligible probability.
    fn survival_by_trapezoidal_rule(&self, x: f64) -> f64 {
        let max_weight = self.terms.iter().fold(0.0f64, |max, term| max.max(term.weight));
        // Chernoff's bound P(Q > T) ≤ E exp(sQ) exp(−sT) at half of the largest s, 1 / (2 max w);
        // 28 = −ln 7e-13
        let chernoff_rate = 0.25 / max_weight;
        let log_moment: f64 = self
            .terms
            .iter()
            .map(|term| -0.5 * term.degrees_of_freedom * (-2.0 * chernoff_rate * term.weight).ln_1p())
            .sum();
        let period = ((log_moment + 28.0) / chernoff_rate).max(x) + x;
        let mut tail = 0.5;
        for k in 0..MAX_LINE_POINTS {
            let u = (k as f64 + 0.5) * 2.0 * PI / period;
            let (mut angle, mut negative_log_modulus) = (-u * x, 0.0);
            for ChiSquaredTerm { weight: w, degrees_of_freedom: m } in &self.terms {
                let v = 2.0 * w * u;
                angle += 0.5 * m * v.atan();
                negative_log_modulus += 0.25 * m * (v * v).ln_1p();
            }
            tail += angle.sin() / (PI * (k as f64 + 0.5)) * (-negative_log_modulus).exp();
            if (-negative_log_modulus).exp() < MIN_MODULUS {
                break;
            }
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survival(weights: &[f64], x: f64) -> f64 {
        ChiSquaredSum::from_weights(weights.iter().copied()).survival(x).unwrap()
    }

    /// P(χ²(2k) > x), a Poisson sum.
    fn chi_squared_survival(half_freedom: usize, x: f64) -> f64 {
        let mut term = (-x / 2.0).exp();
        let mut sum = term;
        for i in 1..half_freedom {
            term *= x / 2.0 / i as f64;
            sum += term;
        }
        sum
    }

    #[test]
    fn equal_weights_are_a_chi_squared_variable() {
        // scipy.stats.chi2.sf
        assert!((survival(&[1.0], 3.841_458_820_694_124) - 0.05).abs() < 1e-12);
        assert!((survival(&[2.0; 3], 2.0 * 7.814_727_903_251_178) - 0.05).abs() < 1e-12);
        for k in [1, 2, 5, 14, 15, 20, 60, 250] {
            let sd = (4.0 * k as f64).sqrt();
            for z in [-1.5, -0.5, 0.0, 1.0, 3.0, 6.0] {
                let x = 2.0 * k as f64 + z * sd;
                if x > 0.0 {
                    let computed = survival(&vec![0.3; 2 * k], 0.3 * x);
                    assert!(
                        (computed - chi_squared_survival(k, x)).abs() < 1e-9,
                        "{k} {z}: {computed} and {}",
                        chi_squared_survival(k, x)
                    );
                    let gamma = ChiSquaredSum::gamma(2.0 * k as f64, 4.0 * k as f64).survival(x).unwrap();
                    assert!((gamma - chi_squared_survival(k, x)).abs() < 1e-9, "{k} {z}: {gamma}");
                }
            }
        }
    }

    #[test]
    fn pairs_of_weights_are_a_mixture_of_exponentials() {
        // each weight occurs twice, so that Q = Σ 2 w_l E_l with exponential variables E_l, and
        // P(Q > x) = Σ_l exp(−x/2w_l) Π_{k≠l} w_l/(w_l − w_k)
        let w: [f64; 4] = [1.0, 0.4, 0.11, 0.003];
        let exact = |x: f64| -> f64 {
            let coefficient = |l: usize| (0..4).filter(|k| *k != l).map(|k| w[l] / (w[l] - w[k])).product::<f64>();
            (0..4).map(|l| (-x / (2.0 * w[l])).exp() * coefficient(l)).sum()
        };
        let doubled: Vec<f64> = w.iter().flat_map(|w| [*w, *w]).collect();
        for x in [0.1, 0.5, 1.0, 3.0, 10.0, 30.0] {
            assert!((survival(&doubled, x) - exact(x)).abs() < 1e-11, "{x}");
        }
    }

    #[test]
    fn both_quadratures_agree_where_both_are_exact() {
        let mixture = ChiSquaredSum::from_weights((1..300).map(|l| 1.0 / f64::from(l)));
        for x in [2.0, 5.0, 9.0, 15.0] {
            assert!((mixture.survival_by_parabola(x) - mixture.survival_by_trapezoidal_rule(x)).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn no_positive_weight_has_no_survival() {
        assert_eq!(ChiSquaredSum::from_weights([0.0, -1.0]).survival(1.0), None);
        assert_eq!(ChiSquaredSum::gamma(0.0, 1.0).survival(1.0), None);
        assert_eq!(ChiSquaredSum::from_weights([1.0]).survival(-1.0), Some(1.0));
    }
}
