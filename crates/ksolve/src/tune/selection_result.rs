//! The parts of a search, its listener, and its result.

use super::{ContenderReport, HeldOutScore, KernelSearchResult, ShiftScore, SolverMeasure};
use crate::Result;
use crate::job::Fit;
use kapprox::metric::Metric;
use std::sync::Arc;
use std::time::Duration;

/// A part of a model selection; progress displays show its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPart {
    /// Comparison of kernels.
    Search,
    /// Trials of solvers, and the test of the winner on the test rows.
    Solvers,
    /// Trials of exact solvers.
    ExactFits,
    /// The final fit on all rows.
    Fit,
}

kmodel::enum_of_words!(SearchPart, "part", "search" => Search, "solvers" => Solvers, "machines" => ExactFits, "fit" => Fit);

/// An entry in the history of a search: the step, and the best score of a kernel so far.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Seconds since the start of the search.
    pub seconds: f64,
    /// Kernel or solver that was tried.
    #[serde(rename = "what")]
    pub step: String,
    /// Best score of a kernel so far; `None` before the first.
    pub best: Option<f64>,
}

/// The number of steps in each part of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SearchWork {
    /// Number of rounds of metric learning, and of kernels measured.
    pub kernels: usize,
    /// Number of trials of solvers.
    pub solvers: usize,
    /// Number of trials of exact solvers; `None` if there were no such trials. As a limit, `None`
    /// means no limit.
    #[serde(rename = "machines", skip_serializing_if = "Option::is_none")]
    pub exact_fits: Option<usize>,
}

impl std::fmt::Display for SearchWork {
    /// Writes the numbers of steps as the command accepts them: `4,12`, or `4,12,9` with exact
    /// solvers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.kernels, self.solvers)?;
        self.exact_fits.map_or(Ok(()), |exact_fits| write!(f, ",{exact_fits}"))
    }
}

impl std::str::FromStr for SearchWork {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let counts: std::result::Result<Vec<usize>, _> = text.split(',').map(|count| count.trim().parse()).collect();
        match counts.as_deref() {
            Ok(&[kernels, solvers]) => Ok(Self { kernels, solvers, exact_fits: None }),
            Ok(&[kernels, solvers, exact_fits]) => Ok(Self { kernels, solvers, exact_fits: Some(exact_fits) }),
            _ => {
                Err("expected numbers of kernel steps and solver trials, such as 4,12, or also of exact fits, such as 4,12,9"
                    .to_string())
            }
        }
    }
}

/// Observes the steps of a model selection; may end a part early or stop the search.
pub trait SearchListener: Sync {
    /// Is called when a part begins, with the likely number of its steps.
    fn begin(&self, _part: SearchPart, _steps: u64) {}
    /// Is called before each step. An error stops the search.
    fn begin_step(&self, _what: &str) -> Result<()> {
        Ok(())
    }
    /// Is called after each step.
    fn end_step(&self, _what: &str, _took: Duration) {}
    /// Is called when the part ends.
    fn end(&self) {}
    /// Returns true if this part should end with the best result so far, because the next step,
    /// which takes `_next`, would be late. Called after every round of a metric, every kernel and
    /// every trial, and with [`SearchPart::Fit`] before an exact fit. An implementation that reads
    /// the clock is not reproducible across machines. To repeat its result, pass
    /// [`SelectionResult::work`] as [`super::ModelSelection::work`].
    fn is_late(&self, _part: SearchPart, _next: Duration) -> bool {
        false
    }
    /// Receives a warning for the user.
    fn warn(&self, _text: &str) {}
}

/// A listener that ignores all events.
impl SearchListener for () {}

/// The error of the winner on the test rows, fitted on the rows that the search used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WinnerTest {
    /// Error on the test rows.
    pub score: HeldOutScore,
    /// Time of the fit and its test, in seconds.
    pub seconds: f64,
    /// Time of a fit at half the rank, in seconds; `None` for ridge regression, and if the listener
    /// has no time limit.
    pub seconds_at_half_rank: Option<f64>,
    /// Number of regularisation parameters that ridge regression compared.
    pub lambdas: usize,
}

/// The result of a model selection.
#[derive(Debug)]
#[non_exhaustive]
pub struct SelectionResult {
    /// Comparison of the kernels.
    pub search: KernelSearchResult,
    /// Fit for the whole table.
    pub fit: Fit,
    /// Rank of the trials.
    pub rank: usize,
    /// Metric of the fit; `None` if it has no metric.
    pub metric: Option<Arc<Metric>>,
    /// Form of the metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// Measure by which solvers and regularisation parameters were compared.
    pub measure: SolverMeasure,
    /// Fraction of the rarer of two classes, if this fraction is so small that it determined
    /// `measure`; otherwise `None`.
    pub rarer_fraction: Option<f64>,
    /// Solvers and regularisation parameters (contenders) that were compared. A single contender is
    /// not tried.
    pub contenders: Vec<ContenderReport>,
    /// Test of the winner; `None` without test rows.
    pub test: Option<WinnerTest>,
    /// Error, on the same test rows, of the fit without a search: the default kernel, without a
    /// metric. `None` without test rows, and if no time was left.
    #[doc(hidden)]
    pub default_score: Option<HeldOutScore>,
    /// Error of the search on small tables, over several outer folds; `None` if the time did not
    /// suffice for a second search.
    #[doc(hidden)]
    pub outer_score: Option<HeldOutScore>,
    /// If contiguous folds replaced random folds, the error of the winner, refitted and tested on
    /// random rows.
    pub random_fold_score: Option<HeldOutScore>,
    /// Errors of the winner, refitted, on kinds of new rows that differ from the rows of the table.
    /// Empty if the caller specified folds.
    pub shift_scores: Vec<ShiftScore>,
    /// Number of steps; passed as [`super::ModelSelection::work`] they repeat this model selection.
    pub work: SearchWork,
    /// Number of fits in the mean of fits that was tried, if the time did not suffice for the
    /// requested number; otherwise `None`.
    #[doc(hidden)]
    pub member_count: Option<usize>,
    /// Steps of the search in chronological order, each with the best score so far.
    pub history: Vec<HistoryEntry>,
}
