//! A sample of the rows, on which problems are solved first.
//!
//! If the iteration starts from 0, most rows are free in the first steps (their multipliers are
//! strictly between the bounds), and each free row costs p² flops. A sample of an eighth of the
//! rows, or of 8p rows if that is fewer, makes these steps cheap. Its solution is so near to the
//! solution on all rows that few rows are free in the later steps.

use super::lagrangian::{Problem, ProblemOptions, RowFn};
use super::loss::TargetAndCost;
use super::problem_group::{JOURNAL_NAME, SolveContext, solve_group};
use super::workspace::{CertifiedPoint, Workspace};
use crate::{Result, features::StoredFeatures};
use kapprox::Real;
use kstore::{checkpoint::Steps, pass::Observer};

/// Maximum number of sampled rows per feature.
const MAX_ROWS_PER_FEATURE: usize = 8;

/// Minimum number of rows of a sample, or p if there are fewer features.
const MIN_SAMPLE_ROWS: usize = 256;

/// Number of table rows per sampled row, at least. With fewer, the sample would not be much cheaper
/// than the table.
const MIN_ROWS_PER_SAMPLED_ROW: usize = 8;

/// Relative gap to which problems are solved on a sample. The sampling error exceeds this gap.
const SAMPLE_GAP: f64 = 1e-2;
/// Maximum number of steps on a sample.
const MAX_SAMPLE_STEPS: usize = 50;

/// Returns the number of sampled rows for n rows and p features; 0 if no sample is drawn.
pub(crate) fn sample_row_count(n: usize, p: usize) -> usize {
    let sample_rows = (n / MIN_ROWS_PER_SAMPLED_ROW).min(MAX_ROWS_PER_FEATURE.saturating_mul(p));
    if sample_rows >= MIN_SAMPLE_ROWS.min(p) { sample_rows } else { 0 }
}

/// Returns the number of passes that draw a sample, 0 or 1. To move to the solution on the sample
/// takes as many again. Passes that a checkpoint makes unnecessary are counted too.
pub(crate) fn passes(n: usize, p: usize) -> u64 {
    u64::from(sample_row_count(n, p) > 0)
}

/// The features of a sample of the rows, and the indices of these rows.
pub(super) struct FeatureSample<'a, T: Real> {
    features: StoredFeatures<'a, T>,
    row_indices: Vec<usize>,
    /// Number of table rows per sampled row.
    rows_per_sampled_row: f64,
}

impl<'a, T: Real> FeatureSample<'a, T> {
    /// Draws a sample if there are enough rows: one pass.
    fn draw(features: &StoredFeatures<'a, T>, observer: &dyn Observer) -> Result<Option<Self>> {
        let m = sample_row_count(features.n, features.p);
        if m == 0 {
            return Ok(None);
        }
        let rows_per_sampled = features.n as f64 / m as f64;
        let (features, positions) = features.sample(m, observer)?;
        Ok(Some(Self { features, row_indices: positions, rows_per_sampled_row: rows_per_sampled }))
    }

    /// Solves the problems of `rows` on a sample, and returns their solutions. Draws the sample if
    /// `sample` is `None`. Returns no points if the table is too small for a sample, or if the
    /// problems continue from a checkpoint.
    pub(super) fn starting_points<R: RowFn>(
        sample: &mut Option<Self>,
        features: &StoredFeatures<'a, T>,
        problems: &[(R, ProblemOptions)],
        workspace: &mut Workspace<T>,
        context: SolveContext<'_>,
    ) -> Result<Vec<CertifiedPoint>> {
        if Steps::has_saved_state(context.journal, JOURNAL_NAME) {
            return Ok(Vec::new());
        }
        if sample.is_none() {
            *sample = Self::draw(features, context.observer)?;
        }
        sample.as_ref().map_or(Ok(Vec::new()), |sample| sample.solve(problems, workspace, context.observer))
    }

    fn solve<R: RowFn>(
        &self,
        problems: &[(R, ProblemOptions)],
        workspace: &mut Workspace<T>,
        observer: &dyn Observer,
    ) -> Result<Vec<CertifiedPoint>> {
        let (positions, scale) = (&self.row_indices[..], self.rows_per_sampled_row);
        // scale the costs so that the sampled rows have the same total cost as all rows
        let sampled_problems = problems.iter().map(|(rows, problem_options)| {
            let row_fn = move |i: usize| {
                let row = rows(positions[i]);
                TargetAndCost { c: scale * row.c, ..row }
            };
            let problem_options = ProblemOptions {
                typical_cost: scale * problem_options.typical_cost,
                gap_tolerance: SAMPLE_GAP.max(problem_options.gap_tolerance),
                ..*problem_options
            };
            Problem::new(row_fn, problem_options, self.features.n, workspace)
        });
        let mut problems: Vec<_> = sampled_problems.collect();
        solve_group(
            &self.features,
            &mut problems,
            MAX_SAMPLE_STEPS,
            workspace,
            SolveContext { observer, journal: None },
        )?;
        Ok(problems.into_iter().map(|problem| problem.into_best(workspace)).collect())
    }
}
