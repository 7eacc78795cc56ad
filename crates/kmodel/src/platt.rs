//! Probabilities from decision values: Platt scaling.
//!
//! P(y = 1 | f) = 1/(1 + exp(a f + b)), where a and b minimise the cross-entropy on the decision
//! values f of held-out rows. The targets are not 1 and 0 but (n₊ + 1)/(n₊ + 2) for the n₊ rows of
//! the class and 1/(n₋ + 2) for the n₋ other rows. So the probabilities do not reach 0 or 1 if rows
//! are few or separable. Newton's method with step halving solves this convex problem in two
//! variables. The probability must not fall as the decision value rises. If the minimiser has a >
//! 0, which is possible on held-out rows, a is set to 0, and the cross-entropy is minimised over b
//! alone.
//!
//! *Cost*: a few tens of flops per row and step. References: Platt, "Probabilistic outputs for
//! support vector machines", 1999; Lin, Lin, Weng, "A note on Platt's probabilistic outputs for
//! support vector machines", Machine Learning 68, 2007.

/// Maximum number of Newton steps.
const MAX_STEPS: usize = 100;
/// Step length below which the search along a Newton direction stops.
const MIN_STEP_LENGTH: f64 = 1e-10;
/// Gradient per unit of row weight at which the fit stops.
const GRADIENT_TOLERANCE: f64 = 1e-10;

/// Number that each row adds to the diagonal of the Hessian, so that it is definite even if all
/// values are equal.
const HESSIAN_RIDGE: f64 = 1e-12;

/// Returns a and b. A row consists of its decision value, a flag that is true if it belongs to the
/// class, and its weight.
pub fn fit(rows: impl Iterator<Item = (f64, bool, f64)> + Clone) -> (f64, f64) {
    let (mut positive_weight, mut negative_weight, mut scale) = (0.0, 0.0, 0.0f64);
    for (f, is_positive, weight) in rows.clone() {
        if is_positive {
            positive_weight += weight
        } else {
            negative_weight += weight
        }
        scale = scale.max(f.abs());
    }
    // scale the decision values to at most 1 in magnitude
    let scale = if scale > 0.0 { scale } else { 1.0 };
    let target = |is_positive: bool| {
        if is_positive { (positive_weight + 1.0) / (positive_weight + 2.0) } else { 1.0 / (negative_weight + 2.0) }
    };
    let rows = rows.map(|(f, is_positive, weight)| (f / scale, target(is_positive), weight));
    let loss = |a: f64, b: f64| rows.clone().map(|(f, t, weight)| weight * cross_entropy(a * f + b, t)).sum::<f64>();
    let (mut a, mut b) = (0.0, f64::ln((negative_weight + 1.0) / (positive_weight + 1.0)));
    let mut current_loss = loss(a, b);
    let weight_sum = positive_weight + negative_weight;
    for _ in 0..MAX_STEPS {
        let (mut gradient, mut hessian) = ([0.0; 2], [HESSIAN_RIDGE * weight_sum, 0.0, HESSIAN_RIDGE * weight_sum]);
        for (f, t, weight) in rows.clone() {
            let p = logistic(-(a * f + b));
            let (first_derivative, second_derivative) = (weight * (t - p), weight * p * (1.0 - p));
            gradient[0] += f * first_derivative;
            gradient[1] += first_derivative;
            hessian[0] += f * f * second_derivative;
            hessian[1] += f * second_derivative;
            hessian[2] += second_derivative;
        }
        if gradient.iter().all(|g| g.abs() <= GRADIENT_TOLERANCE * weight_sum.max(1.0)) {
            break;
        }
        let determinant = hessian[0] * hessian[2] - hessian[1] * hessian[1];
        if determinant <= 0.0 {
            break;
        }
        let direction = [
            -(hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
            -(hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
        ];
        let slope = gradient[0] * direction[0] + gradient[1] * direction[1];
        let mut step_length = 1.0;
        let has_decreased = loop {
            let (next_a, next_b) = (a + step_length * direction[0], b + step_length * direction[1]);
            let next_loss = loss(next_a, next_b);
            if next_loss < current_loss + 1e-4 * step_length * slope {
                (a, b, current_loss) = (next_a, next_b, next_loss);
                break true;
            }
            step_length /= 2.0;
            if step_length < MIN_STEP_LENGTH {
                break false;
            }
        };
        if !has_decreased {
            break;
        }
    }
    if a > 0.0 {
        let mean_target = rows.map(|(_, t, weight)| weight * t).sum::<f64>() / weight_sum;
        return (0.0, ((1.0 - mean_target) / mean_target).ln());
    }
    (a / scale, b)
}

/// Returns 1/(1 + exp(−z)), without overflow.
fn logistic(z: f64) -> f64 {
    if z >= 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) }
}

/// Returns −t ln p − (1 − t) ln(1 − p) for p = 1/(1 + exp(z)), without overflow.
fn cross_entropy(z: f64, t: f64) -> f64 {
    if z >= 0.0 { t * z + (-z).exp().ln_1p() } else { (t - 1.0) * z + z.exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_vanishes_and_probabilities_are_calibrated() {
        let stream = kstore::key::Stream::new(4, kstore::key::Purpose::Data, 0);
        let uniform = |i: u64| stream.uniform(i);
        for (size, slope, shift) in [(1.0, -2.0, 0.5), (1e6, -3.0, -1.0), (1e-4, -1.0, 2.0)] {
            let rows: Vec<(f64, bool)> = (0..20_000)
                .map(|i| {
                    let f = 4.0 * uniform(2 * i) - 2.0;
                    (size * f, uniform(2 * i + 1) < logistic(-(slope * f + shift)))
                })
                .collect();
            let (a, b) = fit(rows.iter().map(|(f, is)| (*f, *is, 1.0)));
            // the standard deviations of a and of b are about 0.03 here
            assert!((a * size - slope).abs() < 0.15 && (b - shift).abs() < 0.15, "{size}: {a} {b}");
            let (positives, negatives) =
                rows.iter().fold((0.0, 0.0), |(o, r), (_, is)| if *is { (o + 1.0, r) } else { (o, r + 1.0) });
            let gradient = |factor: &dyn Fn(f64) -> f64| {
                let each = rows.iter().map(|(f, is)| {
                    let t = if *is { (positives + 1.0) / (positives + 2.0) } else { 1.0 / (negatives + 2.0) };
                    factor(*f) * (t - logistic(-(a * f + b)))
                });
                each.sum::<f64>() / 20_000.0
            };
            assert!(gradient(&|f| f / size).abs() < 1e-8 && gradient(&|_| 1.0).abs() < 1e-8, "{size}");
        }
    }

    #[test]
    fn separable_and_constant_values_stay_finite() {
        let separable: Vec<(f64, bool)> = (0..100).map(|i| (f64::from(i) - 49.5, i >= 50)).collect();
        let (a, b) = fit(separable.iter().map(|(f, is)| (*f, *is, 1.0)));
        assert!(a < 0.0 && a.is_finite() && b.is_finite(), "{a} {b}");
        // the targets of 50 rows in each class are 51/52 and 1/52, the largest certainty
        let p = logistic(-(a * 49.5 + b));
        assert!(p > 0.97 && p < 1.0, "{p}");
        let (a, b) = fit([(0.0, true, 1.0), (0.0, false, 2.0)].into_iter());
        assert!((logistic(-b) - (2.0 / 3.0 + 2.0 * 0.25) / 3.0).abs() < 1e-6 && a.is_finite(), "{a} {b}");
        assert_eq!(fit(std::iter::empty()), (0.0, 0.0));
    }

    #[test]
    fn probabilities_do_not_fall_as_scores_rise() {
        let reversed = [(1.0, false, 1.0), (0.5, false, 2.0), (-0.5, true, 1.0), (-1.0, true, 2.0), (-2.0, true, 1.0)];
        let (a, b) = fit(reversed.into_iter());
        // weight 4 of 7 is in the class: (4 · 5/6 + 3 · 1/5)/7
        let mean = (4.0 * 5.0 / 6.0 + 3.0 / 5.0) / 7.0;
        assert!(a == 0.0 && (logistic(-b) - mean).abs() < 1e-14, "{a} {b}");
    }
}
