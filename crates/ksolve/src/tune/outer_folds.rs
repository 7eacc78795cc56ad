//! The error of a search on small tables, by outer folds.
//!
//! The test rows of a small table are few, so their error has a large standard error. While time
//! remains, the whole search is therefore repeated with each of the other folds as test rows
//! (nested cross-validation). No search uses its test rows, so the mean of the errors is the error
//! of the procedure. Its standard error is computed from the errors of all rows. The searches
//! choose their own kernels and solvers; the model of the first search does not change.
//!
//! Reference: Varma, Simon, "Bias in error estimation when using cross-validation for model
//! selection", BMC Bioinformatics 7, 2006.

use super::history::SearchLog;
use super::trial::Trials;
use super::{HeldOutScore, KernelSearchResult, ModelSelection, SearchJournal, SearchListener, SearchPart, TuneOptions};
use crate::{Result, Task};
use kapprox::Real;
use std::time::{Duration, Instant};

/// Maximum number of rows of a table whose search is repeated. Chosen: a fifth of more rows gives a
/// small standard error.
const MAX_ROWS: u64 = 5_000;

/// Likely and maximum time of an outer search, relative to the first search, and time that is
/// reserved for the final fit, relative to the test of the winner. The maximum is larger, because a
/// search ends when the predicted time of its fits exceeds it, and these predictions are cautious.
const LIKELY_TIME_RATIO: f64 = 2.0;
const MAX_TIME_RATIO: f64 = 4.0;
const FINAL_FIT_RATIO: f64 = 4.0;

/// A listener that ends an outer search after a given time, and before the time of the final fit;
/// it shows nothing.
struct OuterListener<'a> {
    started: Instant,
    max_time: Duration,
    final_fit_time: Duration,
    listener: &'a dyn SearchListener,
}

impl SearchListener for OuterListener<'_> {
    fn is_late(&self, _: SearchPart, next: Duration) -> bool {
        self.started.elapsed().saturating_add(next) > self.max_time
            || self.listener.is_late(SearchPart::Fit, next.saturating_add(self.final_fit_time))
    }
}

impl ModelSelection<'_> {
    /// Repeats the search with each other fold as test rows, as far as the time allows it, and
    /// returns the pooled score; `None` if no search was repeated. `test_score` is the score of the
    /// first search, whose test took `test_time`.
    pub(super) fn outer_score<T: Real>(
        &self,
        search_result: &KernelSearchResult,
        trials: &Trials<T>,
        test_score: &HeldOutScore,
        test_time: Duration,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<Option<HeldOutScore>> {
        let is_suitable = self.options.test_fold.is_none()
            && search_result.rows <= MAX_ROWS
            && search_result.target_correlation.is_none()
            && !trials.has_block_folds()
            && self.base.task()? != Task::Ranking;
        // a fit after `Duration::MAX` is late exactly if there is a time limit
        if !is_suitable || !log.is_fit_late(Duration::MAX, journal)? {
            return Ok(None);
        }
        let (search_time, final_fit_time) = (log.elapsed(), test_time.mul_f64(FINAL_FIT_RATIO));
        let (likely_time, max_time) = (search_time.mul_f64(LIKELY_TIME_RATIO), search_time.mul_f64(MAX_TIME_RATIO));
        let mut scores = vec![test_score.clone()];
        for fold in trials.scored_folds() {
            if log.is_fit_late(likely_time + final_fit_time, journal)? {
                break;
            }
            let options = TuneOptions { test_fold: Some(fold), may_use_blocks: false, ..self.options.clone() };
            let (started, listener) = (Instant::now(), self.listener);
            let listener = OuterListener { started, max_time, final_fit_time, listener };
            let (listener, final_fit) = (&listener, &|result: &super::SelectionResult| Ok(result.fit.clone()));
            let outer = ModelSelection { options: &options, listener, final_fit, ..*self };
            let what = format!("search without outer fold {}", fold + 1);
            let score = log.run_trial(what, || {
                journal.get_or_compute(|| {
                    let result = outer.run::<T>(&mut SearchJournal::open(None)?)?;
                    Ok(result.test.map(|test| test.score))
                })
            })?;
            scores.extend(score);
        }
        Ok((scores.len() > 1).then(|| pooled(&scores)))
    }
}

/// Returns the mean of some scores, weighted by their numbers of rows.
fn pooled(scores: &[HeldOutScore]) -> HeldOutScore {
    let rows: u64 = scores.iter().map(|score| score.rows).sum();
    let fraction = |score: &HeldOutScore| score.rows as f64 / rows.max(1) as f64;
    let mean = |value: &dyn Fn(&HeldOutScore) -> Option<f64>| {
        scores.iter().map(|score| Some(fraction(score) * value(score)?)).sum::<Option<f64>>()
    };
    // the errors of the folds are independent, up to the rows that their searches share
    let standard_error = |value: &dyn Fn(&HeldOutScore) -> Option<f64>| {
        let squares = scores.iter().map(|score| Some((fraction(score) * value(score)?).powi(2)));
        squares.sum::<Option<f64>>().map(f64::sqrt)
    };
    let first = scores.first().cloned().unwrap_or_default();
    let mae = mean(&|score| Some(score.mae?[0])).zip(standard_error(&|score| Some(score.mae?[1])));
    HeldOutScore {
        rows,
        outer_folds: Some(scores.len() as u64),
        error: mean(&|score| Some(score.error)).unwrap_or(first.error),
        standard_error: standard_error(&|score| score.standard_error),
        mae: mae.map(|(mae, error)| [mae, error]),
        r2: mean(&|score| score.r2),
        auc: mean(&|score| score.auc),
        average_precision: mean(&|score| score.average_precision),
        log_loss: mean(&|score| score.log_loss),
        brier: mean(&|score| score.brier),
        ..first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_pooled_by_their_rows() {
        let score = |rows, error, standard_error, r2| HeldOutScore {
            rows,
            error,
            standard_error: Some(standard_error),
            r2,
            ..HeldOutScore::default()
        };
        let pooled = pooled(&[score(100, 2.0, 0.3, Some(0.5)), score(300, 4.0, 0.1, None)]);
        assert_eq!((pooled.rows, pooled.error, pooled.outer_folds, pooled.r2), (400, 3.5, Some(2), None));
        let expected = (0.25f64 * 0.3).hypot(0.75 * 0.1);
        assert!((pooled.standard_error.unwrap() - expected).abs() < 1e-15);
    }
}
