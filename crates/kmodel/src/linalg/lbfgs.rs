//! Minimisation of a smooth function on a box by limited-memory BFGS.
//!
//! The direction comes from the two-loop recursion of Nocedal (1980), the step length from a
//! bisection for the weak Wolfe conditions (Nocedal, Wright, *Numerical Optimization*, 2006,
//! sections 3.1 and 7.2; Lewis, Overton, 2013, for the bisection). A variable on a bound, which a
//! descent step would move out of the box, stays fixed in this step. Trial points are projected
//! onto the box. If the function is infinite or NaN at a trial point, the step counts as too long.
//! The method runs on one thread, so it is bitwise reproducible.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Maximum number of stored pairs (step, change of the gradient), which model the curvature.
const MAX_PAIRS: usize = 10;
/// Minimum fraction of the predicted decrease that a step must reach (Armijo condition).
const SUFFICIENT_DECREASE: f64 = 1e-4;
/// Maximum fraction of the slope that may remain after a step (curvature condition).
const WOLFE_CURVATURE: f64 = 0.9;
const MAX_LINE_SEARCH_TRIALS: usize = 16;
/// A pair is discarded if the cosine between its step and gradient change is below this number.
const MIN_CURVATURE_COSINE: f64 = 1e-10;

#[derive(Clone, Copy, Debug)]
pub struct LbfgsLimits {
    pub max_steps: usize,
    /// Maximum change of a variable in the first trial of a step.
    pub max_change: f64,
    /// The search ends after a step that lowers the function by at most this number, or at a point
    /// whose gradient has no component larger than this number.
    pub tolerance: f64,
}

#[derive(Clone, Debug)]
pub struct Minimum {
    pub x: Vec<f64>,
    /// Value of the function at `x`; infinite if the function or its gradient is not finite at the
    /// start.
    pub value: f64,
    pub step_count: usize,
}

struct Point {
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

impl Point {
    fn evaluate<E>(x: Vec<f64>, function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>) -> Result<Self, E> {
        let mut gradient = vec![0.0; x.len()];
        let value = function(&x, &mut gradient)?;
        let is_finite = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        Ok(Self { x, value: if is_finite { value } else { f64::INFINITY }, gradient })
    }
}

/// Minimises `function` from `start`, with each variable in its interval of `bounds`. `function(x,
/// gradient)` must return its value at x and write its gradient there.
///
/// # Errors
/// The first error of `function`.
pub fn minimise<E>(
    start: &[f64],
    bounds: &[(f64, f64)],
    limits: LbfgsLimits,
    function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
) -> Result<Minimum, E> {
    let start = start.iter().zip(bounds).map(|(v, (min, max))| v.clamp(*min, *max)).collect();
    let mut current = Point::evaluate(start, function)?;
    let (mut pairs, mut step_count) = (VecDeque::with_capacity(MAX_PAIRS), 0);
    while step_count < limits.max_steps && current.value.is_finite() {
        let gradient = projected_gradient(&current, bounds);
        if gradient.iter().all(|g| g.abs() <= limits.tolerance) {
            break;
        }
        let direction = direction(&gradient, &pairs, limits.max_change);
        let Some(next) = line_search(&current, &direction, bounds, function)? else {
            if pairs.is_empty() {
                break;
            }
            pairs.clear();
            continue;
        };
        let decrease = current.value - next.value;
        store_pair(&mut pairs, &current, &next);
        (current, step_count) = (next, step_count + 1);
        if decrease <= limits.tolerance {
            break;
        }
    }
    Ok(Minimum { x: current.x, value: current.value, step_count })
}

/// Returns the gradient, with zeros for variables that a descent step would move out of the box.
fn projected_gradient(current: &Point, bounds: &[(f64, f64)]) -> Vec<f64> {
    let leaves_box = |x: f64, g: f64, (min, max): (f64, f64)| (x <= min && g > 0.0) || (x >= max && g < 0.0);
    let coordinates = current.x.iter().zip(&current.gradient).zip(bounds);
    coordinates.map(|((x, g), bound)| if leaves_box(*x, *g, *bound) { 0.0 } else { *g }).collect()
}

/// Returns −H·`gradient`, scaled down so that no variable changes by more than `max_change`. H is
/// the approximation of the inverse Hessian by the stored pairs (step, change of the gradient).
fn direction(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>, max_change: f64) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut alphas = Vec::with_capacity(pairs.len());
    for (step, gradient_change) in pairs.iter().rev() {
        let alpha = dot(step, &direction) / dot(step, gradient_change);
        axpy(&mut direction, gradient_change, -alpha);
        alphas.push(alpha);
    }
    if let Some((step, gradient_change)) = pairs.back() {
        let inverse_curvature = dot(step, gradient_change) / dot(gradient_change, gradient_change);
        direction.iter_mut().for_each(|v| *v *= inverse_curvature);
    }
    for ((step, gradient_change), alpha) in pairs.iter().zip(alphas.iter().rev()) {
        let beta = dot(gradient_change, &direction) / dot(step, gradient_change);
        axpy(&mut direction, step, alpha - beta);
    }
    direction.iter_mut().zip(gradient).filter(|(_, g)| **g == 0.0).for_each(|(v, _)| *v = 0.0);
    let largest_entry = direction.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
    // without pairs, the gradient does not tell the scale of a good step, so start carefully
    let max_change = if pairs.is_empty() { max_change / 2.0 } else { max_change };
    if largest_entry > max_change {
        direction.iter_mut().for_each(|v| *v *= max_change / largest_entry);
    }
    direction
}

/// Returns a point along the projected direction that satisfies the weak Wolfe conditions, or else
/// the longest trial with sufficient decrease. Returns `None` if no trial has sufficient decrease.
fn line_search<E>(
    current: &Point,
    direction: &[f64],
    bounds: &[(f64, f64)],
    function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
) -> Result<Option<Point>, E> {
    let (mut lower, mut upper, mut step_length, mut best) = (0.0, f64::INFINITY, 1.0, None);
    for _ in 0..MAX_LINE_SEARCH_TRIALS {
        let coordinates = current.x.iter().zip(direction).zip(bounds);
        let x: Vec<f64> = coordinates.map(|((v, d), (min, max))| (v + step_length * d).clamp(*min, *max)).collect();
        let step: Vec<f64> = x.iter().zip(&current.x).map(|(to, from)| to - from).collect();
        let predicted_change = dot(&current.gradient, &step);
        if predicted_change.is_nan() || predicted_change >= 0.0 {
            break;
        }
        let trial = Point::evaluate(x, function)?;
        if trial.value > current.value + SUFFICIENT_DECREASE * predicted_change {
            upper = step_length;
        } else {
            let meets_curvature = dot(&trial.gradient, &step) >= WOLFE_CURVATURE * predicted_change;
            (lower, best) = (step_length, Some(trial));
            if meets_curvature {
                break;
            }
        }
        step_length = if upper.is_finite() { 0.5 * (lower + upper) } else { 2.0 * step_length };
    }
    Ok(best)
}

/// Stores the pair (step, change of the gradient), if the function has positive curvature along the
/// step. Discards the oldest pair if there are too many.
fn store_pair(pairs: &mut VecDeque<(Vec<f64>, Vec<f64>)>, previous: &Point, next: &Point) {
    let difference = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    let (step, gradient_change) = (difference(&next.x, &previous.x), difference(&next.gradient, &previous.gradient));
    if dot(&step, &gradient_change)
        > MIN_CURVATURE_COSINE * (dot(&step, &step) * dot(&gradient_change, &gradient_change)).sqrt()
    {
        if pairs.len() == MAX_PAIRS {
            pairs.pop_front();
        }
        pairs.push_back((step, gradient_change));
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn axpy(to: &mut [f64], from: &[f64], factor: f64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}
