//! Searches over one variable. Bracketed Newton steps on the derivative minimise a convex piecewise
//! quadratic function. Bisection finds the middle of the minima of a convex piecewise linear
//! function.

/// The derivative `slope` of a convex function at a point, and its second derivative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Derivatives {
    pub(super) slope: f64,
    pub(super) curvature: f64,
}

/// Maximum number of evaluations. After this many, the bracket has shrunk to the rounding error of
/// its ends.
const MAX_EVALUATIONS: usize = 100;

/// A line search ends when the slope has fallen to this fraction of its initial value.
const SLOPE_FRACTION: f64 = 0.01;

/// A line search stops once the slope is still negative at a step of this length. Chosen: it ends
/// the search on a nearly linear objective.
const MAX_STEP: f64 = 64.0;

/// Returns the next point between `low` and `high`: the Newton point of `x`, where the function has
/// these `derivatives`, if it is between them, and otherwise the middle.
fn safeguarded_newton(low: f64, high: f64, x: f64, derivatives: Derivatives) -> f64 {
    let newton_point = x - derivatives.slope / derivatives.curvature;
    let margin = 0.01 * (high - low);
    let is_inside = newton_point.is_finite() && newton_point > low && newton_point < high;
    if !is_inside {
        return 0.5 * (low + high);
    }
    // keep a small distance from both ends; otherwise one end of the bracket might never move
    newton_point.clamp(low + margin.min(0.5 * (newton_point - low)), high - margin.min(0.5 * (high - newton_point)))
}

/// Returns the zero of an increasing function: the `slope` that `derivatives_at(x)` returns with
/// its derivative, `curvature`. The search ends if the function is 0 up to `tolerance`, or if the
/// bracket has shrunk to rounding. It starts at `start`, with steps of `initial_step`.
pub(super) fn increasing_root(
    start: f64,
    initial_step: f64,
    tolerance: f64,
    derivatives_at: impl Fn(f64) -> Derivatives,
) -> f64 {
    let mut derivatives = derivatives_at(start);
    if derivatives.slope.abs() <= tolerance {
        return start;
    }
    let (mut low, mut high) = (start, start);
    let (mut step, mut x) = (initial_step.max(f64::MIN_POSITIVE), start);
    // move outwards until the sign changes
    let root_is_above = derivatives.slope < 0.0;
    for _ in 0..MAX_EVALUATIONS {
        (low, high) = if root_is_above { (high, high + step) } else { (low - step, low) };
        x = if root_is_above { high } else { low };
        derivatives = derivatives_at(x);
        // a derivative near 0 counts as a sign change
        if derivatives.slope.abs() <= tolerance || (derivatives.slope < 0.0) != root_is_above {
            break;
        }
        step *= 2.0;
    }
    for _ in 0..MAX_EVALUATIONS {
        if derivatives.slope.abs() <= tolerance {
            return x;
        }
        x = safeguarded_newton(low, high, x, derivatives);
        if x <= low || x >= high {
            break;
        }
        derivatives = derivatives_at(x);
        if derivatives.slope < 0.0 { low = x } else { high = x }
    }
    x
}

/// Returns a step t near the minimum of the objective along a descent direction.
/// `derivatives_at(t)` must return its derivatives along the direction. Returns 0 if the slope at
/// t = 0 is not negative.
pub(super) fn descent_step(derivatives_at: impl Fn(f64) -> Derivatives) -> f64 {
    let derivatives_at_zero = derivatives_at(0.0);
    if derivatives_at_zero.slope >= 0.0 {
        // the rest of the gradient is rounding
        return 0.0;
    }
    let tolerance = SLOPE_FRACTION * derivatives_at_zero.slope.abs();
    let (mut low, mut high, mut x) = (0.0, f64::INFINITY, 1.0);
    for _ in 0..MAX_EVALUATIONS {
        let derivatives = derivatives_at(x);
        if derivatives.slope.abs() <= tolerance {
            return x;
        }
        (low, high) = if derivatives.slope < 0.0 { (x, high) } else { (low, x) };
        if low >= MAX_STEP {
            return low;
        }
        x = if high.is_finite() { safeguarded_newton(low, high, x, derivatives) } else { 2.0 * low };
        if x <= low || x >= high {
            break;
        }
    }
    if low > 0.0 { low } else { x }
}

/// Returns the middle of the interval on which an increasing step function, `derivative`, is 0 up
/// to `tolerance`. If the interval is unbounded on one side, returns its other end. If it is
/// unbounded on both sides, returns `None`. The search starts at `start`, with steps of
/// `initial_step`.
pub(super) fn middle_of_zeros(
    start: f64,
    initial_step: f64,
    tolerance: f64,
    derivative: impl Fn(f64) -> f64,
) -> Option<f64> {
    let low = find_threshold(start, initial_step, |x| derivative(x) >= -tolerance);
    let high = find_threshold(start, initial_step, |x| derivative(x) > tolerance);
    low.zip(high).map(|(low, high)| 0.5 * low + 0.5 * high).or(low).or(high)
}

/// Returns the point, up to rounding, above which a monotone condition holds. Returns `None` if no
/// such point is found.
fn find_threshold(start: f64, initial_step: f64, is_satisfied: impl Fn(f64) -> bool) -> Option<f64> {
    let (is_above, mut step) = (!is_satisfied(start), initial_step.max(f64::MIN_POSITIVE));
    let (mut low, mut high) = (start, start);
    let mut remaining_attempts = MAX_EVALUATIONS;
    while remaining_attempts > 0 {
        (low, high) = if is_above { (high, high + step) } else { (low - step, low) };
        if is_satisfied(if is_above { high } else { low }) == is_above {
            break;
        }
        (step, remaining_attempts) = (2.0 * step, remaining_attempts - 1);
    }
    if remaining_attempts == 0 || !low.is_finite() || !high.is_finite() {
        return None;
    }
    loop {
        let x = 0.5 * low + 0.5 * high;
        if x <= low || x >= high {
            return Some(high);
        }
        if is_satisfied(x) { high = x } else { low = x }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ a |x − k| with kinks k. If the number of kinks is even, all points between the two middle
    /// kinks are minima. If it is odd, the middle kink is the minimum.
    #[test]
    fn middles_of_medians() {
        for (kinks, expected) in [
            (&[(1.0, -3.0), (1.0, 2.0), (1.0, 7.0), (1.0, 1e3)][..], 4.5),
            (&[(1.0, -3.0), (1.0, 2.0), (1.0, 7.0)], 2.0),
            (&[(0.1, 1e-9), (0.2, 3e-9), (0.3, 5e-9)], 4e-9),
            (&[(1e8, -2.0)], -2.0),
        ] {
            for (start, width) in [(0.0, 1.0), (-1e6, 1e-3), (50.0, 1e3)] {
                let total: f64 = kinks.iter().map(|(a, _)| a).sum();
                let slope = |x: f64| kinks.iter().map(|(a, k)| if x < *k { -a } else { *a }).sum::<f64>();
                let minimum = middle_of_zeros(start, width, 1e-13 * total, slope).unwrap();
                assert!((minimum - expected).abs() <= 1e-15 * expected.abs(), "{kinks:?}: {minimum}");
            }
        }
        // a function that only falls has no minimum; for an interval that is unbounded on one side,
        // the search returns its end
        assert_eq!(middle_of_zeros(0.0, 1.0, 1e-13, |_| -1.0), None);
        assert_eq!(middle_of_zeros(0.0, 1.0, 1e-13, |x| if x < 3.0 { -1.0 } else { 0.0 }), Some(3.0));
        assert_eq!(middle_of_zeros(0.0, 1.0, 1e-13, |x| if x <= 3.0 { 0.0 } else { 1.0 }), Some(3f64.next_up()));
    }

    /// Σ a max(0, x − k)²/2 − slope x, whose derivative is piecewise linear.
    fn curve(pieces: &[(f64, f64)], slope: f64) -> impl Fn(f64) -> Derivatives + '_ {
        move |x| Derivatives {
            slope: pieces.iter().map(|(a, k)| a * (x - k).max(0.0)).sum::<f64>() - slope,
            curvature: pieces.iter().filter(|(_, k)| x > *k).map(|(a, _)| a).sum(),
        }
    }

    #[test]
    fn roots_of_piecewise_linear_functions() {
        let pieces = [(1.0, 0.0), (1e6, 3.0), (2.0, -7.0)];
        for (slope, start, width) in [(0.5, 0.0, 1.0), (20.0, 50.0, 1e-3), (1e5, -30.0, 4.0), (1e-9, 2.0, 1.0)] {
            let derivative = curve(&pieces, slope);
            let x = increasing_root(start, width, 1e-12 * slope, &derivative);
            assert!(derivative(x).slope.abs() <= 1e-9 * slope.max(1.0), "{slope}: {x}, {:?}", derivative(x));
        }
    }

    #[test]
    fn line_searches_descend() {
        let pieces = [(1.0, 0.0), (1e6, 3.0)];
        for slope in [1e-3, 0.5, 2.9, 4.0, 1e6] {
            let derivative = curve(&pieces, slope);
            let x = descent_step(&derivative);
            assert!(x > 0.0 && derivative(x).slope.abs() <= 0.01 * slope, "{slope}: {x}");
        }
        assert_eq!(descent_step(curve(&pieces, 0.0)), 0.0);
    }
}
