//! Choice of a fit for rows between the rows of a series, among fits that predict its later rows
//! about equally well.
//!
//! If consecutive rows have similar targets, contiguous folds compare the fits. A kernel that is
//! best for the rows of another block is smooth. A sum of kernels with a length scale per column,
//! learned by likelihood, may also have a part with short length scales, which predicts rows
//! between the rows of the table from their neighbours. Far from all rows this part adds nothing.
//! Therefore the mean of such fits wins if two conditions hold: its error on contiguous folds
//! exceeds the error of the best fit by at most one standard error of the difference, and its error
//! on random rows is clearly lower. The random rows are in ranges of consecutive rows, so that
//! neighbours stay.
//!
//! *Cost*: two fits on each of [`MAX_FOLDS`] folds, and two fits on other rows.

use super::exact_search::{ExactFit, ExactSearch, MAX_TRIAL_ROWS};
use super::refine::CLEAR_IMPROVEMENT_RATIO;
use super::trial::Trials;
use crate::Result;
use crate::job::{Fit, Run};
use kapprox::Real;
use kstore::key::{Purpose, Stream};

/// Maximum number of contiguous folds on which the two fits are compared.
const MAX_FOLDS: usize = 5;

/// Maximum number of fits of a comparison: the winner with a map on the trial rows, two fits on
/// each fold, and two on other rows.
pub(super) const COMPARISON_STEPS: usize = 1 + 2 * (MAX_FOLDS + 1);

/// Number of ranges of consecutive rows, if the rows are too many for a trial, and the fraction of
/// their rows that is held out.
const RANGES: usize = 10;
const HELD_OUT_FRACTION: f64 = 0.2;

impl<T: Real> ExactSearch<'_, '_, '_, '_, T> {
    /// Returns the mean of fits by likelihood and the reason for it, if it predicts the rows
    /// between the rows of a series better than `best`, the best fit by contiguous folds, and other
    /// blocks about as well. Returns `None` if no steps were reserved for this comparison. If
    /// `is_exact_best` is true, `best` is the fit in `self.best`.
    pub(super) fn fit_for_neighbours(
        &mut self,
        best: &Fit,
        best_name: &str,
        is_exact_best: bool,
    ) -> Result<Option<(ExactFit, String)>> {
        let Some(ensemble) = self.ensemble.clone() else { return Ok(None) };
        let compared_folds = self.trials.scored_folds().take(MAX_FOLDS).count();
        if is_exact_best && self.best.as_ref() == Some(&ensemble) {
            self.log.count_steps(COMPARISON_STEPS - 1);
            return Ok(None);
        }
        self.log.count_steps(2 * (MAX_FOLDS - compared_folds));
        let fits = [self.fit_of(&ensemble), best.clone()];
        let names = ["mean of fits by likelihood", best_name];
        let seed = self.model_selection.options.train_options.seed;
        let mut differences = Vec::new();
        for fold in self.trials.scored_folds().take(MAX_FOLDS) {
            let (measure, run) = (self.measure, self.model_selection.run);
            let [error, best_error] =
                self.errors_of_both(&fits, &names, &format!("fold {}", fold + 1), |trials, fit| {
                    Ok(trials.validation_error(fit, fold, measure, MAX_TRIAL_ROWS, run)?.0)
                })?;
            differences.push(error - best_error);
        }
        let run = self.model_selection.run;
        let [error, best_error] = self.errors_of_both(&fits, &names, "rows between other rows", |trials, fit| {
            trials.error_between_rows(fit, seed, run)
        })?;
        let is_chosen = error < CLEAR_IMPROVEMENT_RATIO * best_error && is_within_standard_error(&differences);
        let task = self.fit.task()?;
        let [error, best_error] = [error, best_error].map(|error| self.measure.describe(task, error));
        let why = format!(
            "on contiguous folds, its error is at most a standard error above that of {best_name}; \
             between the rows of the table it has {error}, against {best_error}"
        );
        Ok(is_chosen.then_some((ensemble, why)))
    }

    /// Returns the errors of both fits; infinite if a fit fails.
    fn errors_of_both(
        &mut self,
        fits: &[Fit; 2],
        names: &[&str; 2],
        rows: &str,
        error_of: impl Fn(&Trials<T>, &Fit) -> Result<f64>,
    ) -> Result<[f64; 2]> {
        let mut errors = [f64::INFINITY; 2];
        for ((fit, name), error) in fits.iter().zip(names).zip(&mut errors) {
            let (trials, journal) = (self.trials, &mut *self.journal);
            let outcome = self.log.run_trial(format!("{name}, {rows}"), || {
                journal.get_or_compute(|| match error_of(trials, fit) {
                    Ok(error) => Ok(Some(error)),
                    Err(error) if error.is_interrupted() => Err(error),
                    Err(_) => Ok(None),
                })
            })?;
            *error = outcome.unwrap_or(f64::INFINITY);
        }
        Ok(errors)
    }
}

impl<T: Real> Trials<T> {
    /// Fits on four fifths of some rows of the search, and returns the mean squared error on the
    /// others.
    fn error_between_rows(&self, fit: &Fit, seed: u64, run: &Run<'_>) -> Result<f64> {
        let positions: Vec<usize> = (0..self.len()).filter(|position| self.is_search_row(*position)).collect();
        let max_rows = (MAX_TRIAL_ROWS as f64 / (1.0 - HELD_OUT_FRACTION)) as usize;
        let (range_count, range_rows) =
            if positions.len() <= max_rows { (1, positions.len()) } else { (RANGES, max_rows / RANGES) };
        let first_row = |k: usize| k * positions.len() / range_count;
        let chosen: Vec<usize> =
            (0..range_count).flat_map(|k| positions[first_row(k)..first_row(k) + range_rows].iter().copied()).collect();
        let stream = Stream::new(seed, Purpose::Folds, 1);
        let is_held_out = |i: usize| stream.uniform(self.rows().row_number(i)) < HELD_OUT_FRACTION;
        let is_chosen = |i: usize| chosen.binary_search(&i).is_ok();
        let is_training = |i: usize| is_chosen(i) && !is_held_out(i);
        let scores = self.fit_and_score(fit, &is_training, &[&|i| is_chosen(i) && is_held_out(i)], run)?;
        Ok(scores.first().map_or(f64::INFINITY, |score| score.error))
    }
}

/// Returns true if the mean of the differences is at most their standard error.
fn is_within_standard_error(differences: &[f64]) -> bool {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
    differences.len() > 1 && mean <= (squares / (n - 1.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_difference_of_at_most_a_standard_error_is_accepted() {
        // mean 1, standard deviation 2, standard error 2/√4 = 1
        let differences = [1.0 - 3f64.sqrt(), 1.0 + 3f64.sqrt(), 1.0 + 3f64.sqrt(), 1.0 - 3f64.sqrt()];
        assert!(is_within_standard_error(&differences));
        let shifted: Vec<f64> = differences.iter().map(|difference| difference + 0.1).collect();
        assert!(!is_within_standard_error(&shifted));
        assert!(is_within_standard_error(&[-1.0, -1.0]));
        assert!(!is_within_standard_error(&[-1.0]));
    }
}
