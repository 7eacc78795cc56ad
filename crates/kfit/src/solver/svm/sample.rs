//! A sample of the rows, on which problems are solved first.
//!
//! In the first steps of a cold start most rows are free and cost p² flops each. A sample of an
//! eighth of the rows, or of a few rows per feature, makes these steps cheap. Its solution is near
//! enough to that of all rows that few rows are free in the steps that follow.

use super::group::{NAME, Watch, solve_group};
use super::lagrangian::{Problem, Rows, Terms};
use super::loss::Row;
use super::space::{Best, Space};
use crate::{Result, features::StoredFeatures};
use kapprox::Real;
use kstore::{checkpoint::Steps, pass::Observer};

/// Maximum number of sampled rows per feature.
const MOST: usize = 8;

/// Minimum number of rows of a sample, or p if there are fewer features.
const LEAST: usize = 256;

/// Minimum number of table rows per sampled row; with fewer the sample would not be much cheaper.
const SHARE: usize = 8;

/// Relative gap and maximum number of steps for a sample; the sampling error exceeds this gap.
const GAP: f64 = 1e-2;
const STEPS: usize = 50;

/// Returns the number of sampled rows for n rows and p features; 0 if no sample is drawn.
pub(crate) fn rows(n: usize, p: usize) -> usize {
    let rows = (n / SHARE).min(MOST.saturating_mul(p));
    if rows >= LEAST.min(p) { rows } else { 0 }
}

/// Returns the number of passes to draw a sample, 0 or 1, which is also the number of passes to
/// start at its solution. A pass that a checkpoint avoids counts too.
pub(crate) fn passes(n: usize, p: usize) -> u64 {
    u64::from(rows(n, p) > 0)
}

/// Features of a sample and the positions of its rows.
pub(super) struct Sample<'a, T: Real> {
    kept: StoredFeatures<'a, T>,
    at: Vec<usize>,
    /// Number of table rows per sampled row.
    scale: f64,
}

impl<'a, T: Real> Sample<'a, T> {
    /// Draws a sample if there are enough rows: one pass.
    fn draw(kept: &StoredFeatures<'a, T>, observer: &dyn Observer) -> Result<Option<Self>> {
        let m = rows(kept.n, kept.p);
        if m == 0 {
            return Ok(None);
        }
        let scale = kept.n as f64 / m as f64;
        let (kept, at) = kept.sample(m, observer)?;
        Ok(Some(Self { kept, at, scale }))
    }

    /// Solves some problems on a sample, which is drawn at its first use. Returns nothing without a
    /// sample, or if the problems continue from a checkpoint.
    pub(super) fn starts<R: Rows>(
        sample: &mut Option<Self>,
        kept: &StoredFeatures<'a, T>,
        rows: &[R],
        terms: Terms,
        space: &mut Space<T>,
        watch: Watch<'_>,
    ) -> Result<Vec<Best>> {
        if Steps::is_waiting(watch.journal, NAME) {
            return Ok(Vec::new());
        }
        if sample.is_none() {
            *sample = Self::draw(kept, watch.observer)?;
        }
        sample.as_ref().map_or(Ok(Vec::new()), |sample| sample.solve(rows, terms, space, watch.observer))
    }

    fn solve<R: Rows>(
        &self,
        rows: &[R],
        terms: Terms,
        space: &mut Space<T>,
        observer: &dyn Observer,
    ) -> Result<Vec<Best>> {
        let terms = Terms { cost: self.scale * terms.cost, gap: GAP.max(terms.gap), ..terms };
        let (at, scale) = (&self.at[..], self.scale);
        // the sampled rows together have the total cost of all rows
        let sampled = rows.iter().map(|rows| {
            move |i: usize| {
                let row = rows(at[i]);
                Row { c: scale * row.c, ..row }
            }
        });
        let mut problems: Vec<_> = sampled.map(|rows| Problem::new(rows, terms, self.kept.n, space)).collect();
        solve_group(&self.kept, &mut problems, STEPS, space, Watch { observer, journal: None })?;
        Ok(problems.into_iter().map(|problem| problem.end(space)).collect())
    }
}
