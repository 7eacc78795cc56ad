//! Why a row is strange: the columns that make it so, and the values that usual rows like it have there.
//!
//! The column is changed whose change to another value brings the row nearest to usual, then a second one, and a third, until the row is usual
//! or little is gained. Values are those of the landmarks. The search asks nothing of kernel, map or solver but their scores: a gradient says
//! only which way is up, which is nothing far from all rows, and the nearest point by fixed-point iteration, which Gaussians have, changes all
//! columns at once.
//!
//! *Cost*: for a row 32d predictions for each reason.
//!
//! Reference: Wachter, Mittelstadt, Russell, "Counterfactual explanations without opening the black box", 2017: the nearest row that is decided
//! otherwise.

use super::typed::{SeenRows, TILE, Typed};
use crate::{Result, Task};
use kapprox::{Kernel, Real};
use std::sync::Arc;

/// Most reasons of a row, most values of a column that are tried, and the share of the gain so far below which no more is changed.
pub(super) const REASONS: usize = 3;
const VALUES: usize = 32;
const LITTLE: f64 = 0.1;

const FAR: f64 = 3.0;

/// Values in the place of those of landmarks, where there are none: so many deviations from the mean, in eighths.
const EIGHTHS: std::ops::RangeInclusive<i32> = -16..=16;

/// A column that makes a row strange.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Reason {
    /// The name of the feature.
    pub feature: String,
    /// Its value.
    pub value: f64,
    /// The value that makes the row most usual.
    pub expected: f64,
}

impl std::fmt::Display for Reason {
    /// Writes numbers with four digits: `load 74, expected 60`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |value: f64| format!("{value:.3e}").parse().unwrap_or(value);
        write!(f, "{} {}, expected {}", self.feature, short(self.value), short(self.expected))
    }
}

/// The reasons in words: `load 74, expected 60; flow 3, expected 2.5`.
pub(super) fn told(reasons: &[Reason]) -> String {
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
}

pub(super) struct ReasonSearch<'a, T: Real> {
    typed: &'a Typed<T>,
    kernel: Arc<dyn Kernel<T>>,
    /// The values of every column that are tried.
    values: Vec<Vec<f64>>,
}

impl<'a, T: Real> ReasonSearch<'a, T> {
    pub(super) fn new(typed: &'a Typed<T>) -> Result<Self> {
        let d = typed.model.scaler.features();
        let landmarks = typed.model.basis.landmarks().filter(|_| typed.model.metric.is_none());
        let values = |j: usize| {
            let mut values: Vec<f64> = match landmarks {
                Some((rows, _)) => rows.iter().skip(j).step_by(d).map(|v| v.to_f64()).collect(),
                None => EIGHTHS.map(|step| f64::from(step) / 8.0).collect(),
            };
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            let (n, most) = (values.len(), values.len().min(VALUES));
            (0..most).map(|i| typed.model.scaler.invert(j, values[(2 * i + 1) * n / (2 * most)])).collect()
        };
        Ok(Self { typed, kernel: typed.model.kernel()?, values: (0..d).map(values).collect() })
    }

    /// How usual rows are: their scores, or how near to the span of the components they are.
    fn usual(&self, x: &[f64]) -> Result<Vec<f64>> {
        let (typed, n) = (self.typed, x.len() / self.values.len().max(1));
        let mut out = vec![0.0; n];
        if typed.model.card.task == Task::Novelty {
            typed.predict(x, &mut out)?;
            return Ok(out);
        }
        typed.each_seen(x, TILE, &mut SeenRows::default(), |rows, first| {
            let out = &mut out[first..first + rows.nrows()];
            let workers = kstore::Workers::sequential();
            typed.model.predict_quadratic(&*typed.functions, &*self.kernel, rows, out, &workers)
        })?;
        out.iter_mut().for_each(|square| *square = -*square);
        Ok(out)
    }

    pub(super) fn of(&self, x: &[f64]) -> Result<Vec<Reason>> {
        let (mut row, mut found) = (x.to_vec(), Vec::new());
        let mut usual = self.usual(x)?.first().copied().unwrap_or(0.0);
        let (start, mut changed) = (usual, vec![false; row.len()]);
        while found.len() < REASONS && (found.is_empty() || usual < 0.0) {
            let free = (0..row.len()).filter(|j| !changed[*j]);
            let tried: Vec<(usize, f64)> = free.flat_map(|j| self.values[j].iter().map(move |v| (j, *v))).collect();
            let rows = tried.iter().flat_map(|(j, value)| {
                let mut row = row.clone();
                row[*j] = *value;
                row
            });
            let scores = self.usual(&rows.collect::<Vec<_>>())?;
            let Some((best, score)) = scores.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            if score - usual <= (LITTLE * (usual - start)).max(f64::from(f32::EPSILON) * usual.abs()) {
                break;
            }
            let (j, expected) = tried[best];
            found.push(Reason { feature: self.typed.model.card.features[j].clone(), value: row[j], expected });
            (row[j], changed[j], usual) = (expected, true, score);
        }
        Ok(if found.is_empty() { self.far(x) } else { found })
    }

    /// The columns that are farthest from their means, of a row that is so far from all others that no change of one column is felt.
    fn far(&self, x: &[f64]) -> Vec<Reason> {
        let (scaler, features) = (&self.typed.model.scaler, &self.typed.model.card.features);
        let off = |j: usize| scaler.apply(j, x[j]).abs();
        let mut far: Vec<usize> = (0..x.len()).filter(|j| off(*j) > FAR).collect();
        far.sort_by(|a, b| off(*b).total_cmp(&off(*a)));
        let reason = |j: usize| Reason { feature: features[j].clone(), value: x[j], expected: scaler.mean[j] };
        far.into_iter().take(REASONS).map(reason).collect()
    }
}
