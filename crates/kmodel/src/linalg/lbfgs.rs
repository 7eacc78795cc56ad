//! Minimisation of a smooth function on a box by limited-memory BFGS.
//!
//! The direction comes from the two-loop recursion of Nocedal (1980), the step length from a
//! bisection for the weak Wolfe conditions (Nocedal, Wright, *Numerical Optimization*, 2006,
//! sections 3.1 and 7.2; Lewis, Overton, 2013, for the bisection). A variable on a bound stays
//! fixed for the step if the descent would cross the bound, and trial points are projected on the
//! box. A trial with an infinite or NaN value counts as too long. Sequential, hence bitwise
//! reproducible.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Pairs of steps and gradient changes that model the curvature.
const PAIRS: usize = 10;
/// Smallest fraction of the predicted decrease that a step must reach (Armijo condition).
const DECREASE: f64 = 1e-4;
/// Largest fraction of the slope that may remain after a step (curvature condition).
const SLOPE: f64 = 0.9;
const TRIALS: usize = 16;
/// A pair is discarded if the cosine between its step and gradient change is below this number.
const CURVED: f64 = 1e-10;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub steps: usize,
    /// Largest change of a variable in the first trial of a step.
    pub reach: f64,
    /// The search ends after a step that lowers the function by at most this, or at a point whose
    /// gradient has no larger component.
    pub flat: f64,
}

#[derive(Clone, Debug)]
pub struct Minimum {
    pub at: Vec<f64>,
    /// Value of the function at `at`; infinite if it or its gradient is not finite at the start.
    pub value: f64,
    pub steps: usize,
}

struct Point {
    at: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

impl Point {
    fn of<E>(at: Vec<f64>, function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>) -> Result<Self, E> {
        let mut gradient = vec![0.0; at.len()];
        let value = function(&at, &mut gradient)?;
        let sound = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        Ok(Self { at, value: if sound { value } else { f64::INFINITY }, gradient })
    }
}

/// Minimises `function` from `start`, with each variable in its interval of `bounds`. `function`
/// writes its gradient.
pub fn minimise<E>(
    start: &[f64],
    bounds: &[(f64, f64)],
    limits: Limits,
    function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
) -> Result<Minimum, E> {
    let start = start.iter().zip(bounds).map(|(v, (least, most))| v.clamp(*least, *most)).collect();
    let mut here = Point::of(start, function)?;
    let (mut pairs, mut steps) = (VecDeque::with_capacity(PAIRS), 0);
    while steps < limits.steps && here.value.is_finite() {
        let slope = inward(&here, bounds);
        if slope.iter().all(|g| g.abs() <= limits.flat) {
            break;
        }
        let direction = direction(&slope, &pairs, limits.reach);
        let Some(next) = search(&here, &direction, bounds, function)? else {
            if pairs.is_empty() {
                break;
            }
            pairs.clear();
            continue;
        };
        let gained = here.value - next.value;
        remember(&mut pairs, &here, &next);
        (here, steps) = (next, steps + 1);
        if gained <= limits.flat {
            break;
        }
    }
    Ok(Minimum { at: here.at, value: here.value, steps })
}

/// Returns the gradient, with zeros for variables whose descent would leave the box.
fn inward(here: &Point, bounds: &[(f64, f64)]) -> Vec<f64> {
    let leaves = |at: f64, g: f64, (least, most): (f64, f64)| (at <= least && g > 0.0) || (at >= most && g < 0.0);
    let each = here.at.iter().zip(&here.gradient).zip(bounds);
    each.map(|((at, g), bound)| if leaves(*at, *g, *bound) { 0.0 } else { *g }).collect()
}

/// Returns −H·slope, scaled down to at most `reach` in any variable; H is the inverse curvature of
/// the pairs.
fn direction(slope: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>, reach: f64) -> Vec<f64> {
    let mut direction: Vec<f64> = slope.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for (step, change) in pairs.iter().rev() {
        let share = dot(step, &direction) / dot(step, change);
        add(&mut direction, change, -share);
        shares.push(share);
    }
    if let Some((step, change)) = pairs.back() {
        let unit = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|v| *v *= unit);
    }
    for ((step, change), share) in pairs.iter().zip(shares.iter().rev()) {
        let back = dot(change, &direction) / dot(step, change);
        add(&mut direction, step, share - back);
    }
    direction.iter_mut().zip(slope).filter(|(_, g)| **g == 0.0).for_each(|(v, _)| *v = 0.0);
    let longest = direction.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    // without pairs, the norm of the gradient gives no scale for the step
    let most = if pairs.is_empty() { reach / 2.0 } else { reach };
    if longest > most {
        direction.iter_mut().for_each(|v| *v *= most / longest);
    }
    direction
}

/// Returns a point along the projected direction that satisfies the weak Wolfe conditions, or the
/// longest trial with sufficient decrease; `None` if no trial has it.
fn search<E>(
    here: &Point,
    direction: &[f64],
    bounds: &[(f64, f64)],
    function: &mut impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
) -> Result<Option<Point>, E> {
    let (mut short, mut long, mut length, mut best) = (0.0, f64::INFINITY, 1.0, None);
    for _ in 0..TRIALS {
        let each = here.at.iter().zip(direction).zip(bounds);
        let at: Vec<f64> = each.map(|((v, d), (least, most))| (v + length * d).clamp(*least, *most)).collect();
        let moved: Vec<f64> = at.iter().zip(&here.at).map(|(to, from)| to - from).collect();
        let promised = dot(&here.gradient, &moved);
        if promised.is_nan() || promised >= 0.0 {
            break;
        }
        let trial = Point::of(at, function)?;
        if trial.value > here.value + DECREASE * promised {
            long = length;
        } else {
            let enough = dot(&trial.gradient, &moved) >= SLOPE * promised;
            (short, best) = (length, Some(trial));
            if enough {
                break;
            }
        }
        length = if long.is_finite() { 0.5 * (short + long) } else { 2.0 * length };
    }
    Ok(best)
}

/// Stores the pair of a step and its gradient change if the function has positive curvature along
/// it.
fn remember(pairs: &mut VecDeque<(Vec<f64>, Vec<f64>)>, from: &Point, to: &Point) {
    let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    let (step, change) = (less(&to.at, &from.at), less(&to.gradient, &from.gradient));
    if dot(&step, &change) > CURVED * (dot(&step, &step) * dot(&change, &change)).sqrt() {
        if pairs.len() == PAIRS {
            pairs.pop_front();
        }
        pairs.push_back((step, change));
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], from: &[f64], times: f64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += times * from);
}
