//! The report of a search: JSON, the rows of the table of kernels, and text.

mod page;
mod text;

use crate::fit::{FitReport, ResourceReport};
use crate::output::Column::{self, Integer, Number, Text};
use ksolve::job::{MetricSource, RowShift};
use ksolve::metric::RoundReport;
use ksolve::tune::{
    ContenderReport, HeldOutScore, HistoryEntry, Score, SearchWork, SelectionResult, ShiftScore, SolverMeasure,
    TuneCell,
};
use ksolve::{Task, job::MetricReport};

/// A row of the table of the search: the scores of a kernel at one rank and lambda, on one sample.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TuneRow {
    /// Index of the comparison (rung of successive halving), from 0.
    pub rung: usize,
    /// Number of rows of the sample.
    pub rows: u64,
    /// Kernel, with numeric parameters.
    pub kernel: String,
    /// Metric: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Scaling of the features before the metric: standard, asinh.
    pub scale: String,
    /// Rank, regularisation parameter and scores.
    #[serde(flatten)]
    pub cell: TuneCell,
    /// True for the cell by which the kernel was compared.
    pub best: bool,
    /// True if the kernel continued or won.
    pub kept: bool,
}

/// Columns of the table, with the names and order of the JSON fields.
pub static COLUMNS: [(&str, Column<TuneRow>); 12] = [
    ("rung", Integer(|row| row.rung as u64)),
    ("rows", Integer(|row| row.rows)),
    ("kernel", Text(|row| Some(&row.kernel))),
    ("metric", Text(|row| Some(&row.metric))),
    ("scale", Text(|row| Some(&row.scale))),
    ("rank", Integer(|row| row.cell.rank as u64)),
    ("lambda", Number(|row| row.cell.lambda)),
    ("cv_mse", Number(|row| row.cell.cv_mse)),
    ("gcv", Number(|row| row.cell.gcv)),
    ("alignment", Number(|row| row.cell.alignment)),
    ("best", Integer(|row| row.best.into())),
    ("kept", Integer(|row| row.kept.into())),
];

/// The report of a search.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct TuneReport {
    /// Name of the solver. If the solver was `any`, name of the winning solver.
    pub solver: String,
    /// Score by which kernels are compared.
    pub score: Score,
    /// Winning kernel, with numeric parameters.
    pub kernel: String,
    /// Metric of the winner: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Scaling of the features before the metric: standard, asinh.
    pub scale: String,
    /// Rounds of metric learning of each kernel.
    #[serde(rename = "learned", skip_serializing_if = "Vec::is_empty")]
    pub learned_rounds: Vec<RoundReport>,
    /// Folds of the cross-validation.
    pub folds: String,
    /// Why the folds are not random, if they hold out rows like the test rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_for_folds: Option<String>,
    /// Correlation of consecutive targets, if it caused contiguous folds to replace random folds;
    /// otherwise `None`.
    #[serde(rename = "alike", skip_serializing_if = "Option::is_none")]
    pub target_correlation: Option<f64>,
    /// True if the scalings were compared by kernels without a metric.
    #[serde(skip)]
    pub has_optimistic_metrics: bool,
    /// Error of the winner on random rows; `None` if `target_correlation` is `None`.
    #[serde(rename = "at_random", skip_serializing_if = "Option::is_none")]
    pub random_fold_score: Option<HeldOutScore>,
    /// Errors of the winner on kinds of new rows that differ from the rows of the table.
    #[serde(rename = "elsewhere", skip_serializing_if = "Vec::is_empty")]
    pub shift_scores: Vec<ShiftScore>,
    /// Measure by which the winner is chosen.
    #[serde(rename = "select")]
    pub measure: SolverMeasure,
    /// Fraction of the rarer of two classes, if this fraction determined `measure`; otherwise
    /// `None`.
    #[serde(rename = "rarer", skip_serializing_if = "Option::is_none")]
    pub rarer_fraction: Option<f64>,
    /// Task, which determines the meaning of an error.
    #[serde(skip)]
    pub task: Task,
    /// All cells of all comparisons.
    pub rows: Vec<TuneRow>,
    /// Solvers and regularisation parameters (contenders) that were compared, with their errors on
    /// the folds. A single contender is not tried.
    pub contenders: Vec<ContenderReport>,
    /// Error of the winner on the test rows of the sample, after a fit on the other rows of the
    /// sample; `None` if there are fewer than three folds.
    pub test: Option<HeldOutScore>,
    /// Error of the fit without a search on the same test rows; `None` without test rows, and if no
    /// time was left.
    #[serde(rename = "default_test", skip_serializing_if = "Option::is_none")]
    pub default_score: Option<HeldOutScore>,
    /// Error of the search over several outer folds, each tested by a search without its rows;
    /// absent if no search was repeated.
    #[serde(rename = "outer_test", skip_serializing_if = "Option::is_none")]
    pub outer_score: Option<HeldOutScore>,
    /// Number of steps of the search and of trials of solvers.
    pub work: SearchWork,
    /// Options that give this model on any machine instead of `--time`; absent without `--time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// Steps of the search in order of time, each with the lowest error so far.
    pub history: Vec<HistoryEntry>,
    /// Fit on all rows; `None` if no model was requested.
    pub fit: Option<FitReport>,
    /// Passes of the search over the table; the fit counts its own.
    pub passes: u64,
    /// Resources used by the run, and its warnings.
    #[serde(flatten)]
    pub resources: ResourceReport,
    /// Planned memory of the search, in bytes.
    pub planned_bytes: usize,
}

impl TuneReport {
    /// Returns the report of a search whose table has these features; `resources` has the bytes
    /// read by the search and the fit.
    pub fn new(
        score: Score,
        selection_result: SelectionResult,
        fit: Option<FitReport>,
        resources: ResourceReport,
        features: Vec<String>,
    ) -> Self {
        let SelectionResult {
            search: search_result,
            fit: winner,
            metric,
            form,
            measure,
            rarer_fraction,
            contenders,
            test,
            default_score,
            outer_score,
            random_fold_score,
            shift_scores,
            work,
            history,
            ..
        } = selection_result;
        let fit = fit.map(|mut fit| {
            // to the fit, the metric of the search is fixed: only the search knows its spread
            if let (Some(metric), Some(report), Some(spread)) = (&metric, &mut fit.fit.metric, &search_result.spread) {
                let (source, rounds) = (report.source.clone(), report.rounds.clone());
                let fractions = features.into_iter().zip(metric.importance()).collect();
                *report = MetricReport::new(source, metric.output_count(), fractions, spread, rounds);
            }
            fit
        });
        let mut rows = Vec::new();
        for (rung_index, rung) in search_result.rungs.iter().enumerate() {
            for entry in &rung.entries {
                rows.extend(entry.cells.iter().map(|cell| TuneRow {
                    rung: rung_index,
                    rows: rung.rows,
                    kernel: entry.kernel.clone(),
                    metric: entry.metric.clone(),
                    scale: entry.scale.clone(),
                    cell: *cell,
                    best: (Some(cell.rank), cell.lambda) == (entry.rank, entry.lambda),
                    kept: entry.kept,
                }));
            }
        }
        Self {
            solver: winner.family().name.to_string(),
            score,
            kernel: winner.requested_kernel().to_string(),
            metric: metric.map_or(MetricSource::None.to_string(), |_| form),
            scale: search_result.scaling.to_string(),
            learned_rounds: search_result.learned_rounds,
            folds: search_result.folds.to_string(),
            reason_for_folds: RowShift::of(&winner.requested_selection())
                .filter(|shift| shift.is_matched_by(&search_result.folds))
                .map(|shift| shift.to_string()),
            target_correlation: search_result.target_correlation,
            has_optimistic_metrics: search_result.has_optimistic_metrics,
            random_fold_score,
            shift_scores,
            measure,
            rarer_fraction,
            task: winner.task().unwrap_or_default(),
            rows,
            contenders,
            test: test.map(|test| test.score),
            default_score,
            outer_score,
            work,
            repeat: None,
            history,
            passes: search_result.passes,
            resources,
            planned_bytes: search_result.planned_bytes,
            fit,
        }
    }
}
