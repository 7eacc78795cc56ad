//! Exact SVMs of all rows with rough kernels and short length scales, for two classes that hardly
//! overlap.
//!
//! The time of an exact SVM grows with the number of its support vectors. If the classes hardly
//! overlap, these are few, so an exact SVM of hundreds of thousands of rows takes seconds. A
//! feature map of such a table needs a large rank, because the boundary between the classes has
//! details that only kernels with short length scales represent. More rows show more of them.
//! Therefore this search compares kernels and values of C on growing numbers of rows of a larger
//! sample, at last on all of its rows:
//!
//! | stage | training rows | candidates |
//! |---|---|---|
//! | gate | 10,000 | one |
//! | kernels | 10,000 | every kernel with three length scales, C 10; the best two with C 1, 100 |
//! | more rows | 40,000 | the best three, and the best with half its length scale |
//! | all rows | all | the best two |
//!
//! The search ends after the gate if the error rate is not far below the fraction of the rarer
//! class, and after the second stage if it is twice the winner's on the same rows.
//!
//! Candidates are compared by the error rate on the validation rows, and equal error rates by the
//! area under the ROC curve. Neither needs probabilities, whose calibration takes a fit per fold.
//! At last, the best candidate is compared with the winner among feature maps, on the same 40,000
//! rows and in the measure of the search. The larger sample keeps the test fold of the search
//! apart.
//!
//! *Cost*: some 15 trials. A stage starts only if its trials, the tests and the final fit are
//! predicted to end within the time. *Bytes*: as a search with a sample of [`MAX_ROWS`] rows.

use super::contenders::{ANY_SOLVER, has_probabilities};
use super::contenders::{Contender, ContenderReport};
use super::contest::TRIAL_RANK;
use super::model_selection::{ModelSelection, get_or_compute_timed};
use super::selection_result::SearchPart;
use super::{HeldOutScore, KernelSearchResult, SearchJournal, SolverMeasure, TuneOptions, options};
use super::{history::SearchLog, trial::Trials};
use crate::job::Fit;
use crate::prepare::{map_builder::resolve_length_scale, survey::survey};
use crate::request::{MetricSource, TrainOptions};
use crate::solver::parameter;
use crate::{Error, Folds, Result, Task, metric};
use kapprox::{Real, kernel::Kernel, map::MapSpec};
use std::time::Duration;

const SOLVER_NAME: &str = "svm";

/// Maximum number of rows of the larger sample. Chosen: the rows of a trial are copied several
/// times.
const MAX_ROWS: usize = 300_000;

/// Numbers of training rows of the first two stages, and minimum growth of a stage.
const STAGE_ROWS: [usize; 2] = [10_000, 40_000];
const MIN_GROWTH: f64 = 1.2;

/// Minimum number of rows of the search. With fewer rows, the error rates of separable classes rest
/// on a handful of validation rows.
const MIN_ROWS: usize = 5_000;

/// The classes count as separable if the error rate of the first trial is below this limit, and
/// below this fraction of the rarer class. Chosen: with larger error rates the number of support
/// vectors grows in proportion to the rows.
const MAX_ERROR: f64 = 0.03;
const MAX_ERROR_FRACTION: f64 = 0.25;

/// Factors of the median length scale, and the values of C. The gate uses the first of both.
const LENGTH_FACTORS: [f64; 3] = [0.4, 0.15, 1.0];
const C_VALUES: [f64; 3] = [10.0, 1.0, 100.0];

/// Numbers of candidates that are tried with other values of C, with more rows, and with all rows.
const C_CANDIDATES: usize = 2;
const MORE_ROWS_CANDIDATES: usize = 3;
const ALL_ROWS_CANDIDATES: usize = 2;

/// Likely number of trials, for progress displays.
const LIKELY_TRIALS: u64 = 18;

/// The search ends if the error rate of the best candidate of the first stage exceeds this multiple
/// of the winner's on the same rows. Chosen: more rows help rough kernels more than feature maps.
const MAX_ERROR_RATIO: f64 = 2.0;

/// Exponent of the number of rows in the predicted time of a fit. Measured on a table with .3 %
/// errors: .96 from 10,000 to 40,000 rows, and 1.2 to 1.4 from 40,000 to 119,000 rows.
const TIME_EXPONENT: f64 = 1.25;

/// Number of fits on the sample after the trials: the test, and a test on other kinds of rows.
const TESTS: f64 = 2.0;

/// Time of a fit with probabilities, relative to a fit without: one more fit for each of five
/// folds.
const PROBABILITIES_COST: f64 = 4.7;

/// The result of the search.
pub(super) enum SvmSearch<T> {
    /// The best SVM, the reason why it replaces the winner, and the larger sample.
    Better(Box<Contender>, String, Box<Trials<T>>),
    /// The search does not apply, or the winner is at least as good.
    NotBetter,
    /// The final fit would be late.
    TooLate,
}

/// The result of the search without the larger sample, as in [`SvmSearch`].
enum Outcome {
    Better(Box<Contender>, String),
    NotBetter,
    TooLate,
}

/// A candidate and its score on the validation rows.
#[derive(Clone)]
struct Candidate {
    kernel: Kernel,
    c: f64,
    /// Error rate, then 1 − area under the ROC curve.
    score: (f64, f64),
    /// Time of its last trial divided by a power of the rows.
    unit_seconds: f64,
}

impl Candidate {
    fn name(&self) -> String {
        format!("svm on the exact kernel, C {}", self.c)
    }
}

struct Search<'w, 'l, 'm, 'j, T> {
    model_selection: &'w ModelSelection<'w>,
    trials: &'w Trials<T>,
    /// Fold of the validation rows.
    fold: usize,
    /// SVM on the exact kernel, with probabilities if the final fit has them.
    fit: Fit,
    log: &'w mut SearchLog<'l>,
    journal: &'m mut SearchJournal<'j>,
    /// Number of rows of the table.
    row_count: u64,
    /// Time of the final fit relative to a trial on as many rows; `None` if it may take any time.
    final_cost: Option<f64>,
    /// Predicted time of a fit of the winner in the comparison with the best candidate.
    winner_time: Duration,
    /// True after the end of the time or of the work budget; no further candidate is tried.
    is_late: bool,
}

impl ModelSelection<'_> {
    /// Searches for an exact SVM that is better than `winner`.
    ///
    /// # Errors
    /// The errors of the listener and of reading the rows. Failed fits rank last.
    pub(super) fn search_separating_svm<T: Real>(
        &self,
        base: &Fit,
        winner: &Contender,
        search_result: &KernelSearchResult,
        trials: &Trials<T>,
        measure: SolverMeasure,
        log: &mut SearchLog<'_>,
        journal: &mut SearchJournal<'_>,
    ) -> Result<SvmSearch<T>> {
        let Some(fold) = trials.scored_folds().next().filter(|_| self.may_separate(search_result, trials)) else {
            return Ok(SvmSearch::NotBetter);
        };
        log.part = SearchPart::ExactFits;
        let fit = if base.family().name == SOLVER_NAME { base.clone() } else { base.for_solver(SOLVER_NAME)? };
        let fit = fit.with_exact_kernel()?.without_rank_parameters().metric(MetricSource::None);
        let calibrates = has_probabilities(&fit)? || self.solver == ANY_SOLVER && measure.needs_probabilities();
        let fit = if calibrates { fit.set(parameter::PROBABILITIES.name, true) } else { fit };
        let cost = if calibrates { PROBABILITIES_COST } else { 1.0 };
        let final_cost = Some(cost).filter(|_| !self.base.requested_map().is_exact_kernel());
        let (kernels, row_count) = (self.rough_kernels(trials)?, search_result.rows);
        let mut search = Search {
            model_selection: self,
            trials,
            fold,
            fit,
            log,
            journal,
            row_count,
            final_cost,
            winner_time: Duration::ZERO,
            is_late: false,
        };
        if search.is_over(Duration::ZERO)? {
            return Ok(SvmSearch::NotBetter);
        }
        self.listener.begin(SearchPart::ExactFits, LIKELY_TRIALS);
        let gate = search.try_candidate(kernels[0].clone(), C_VALUES[0], STAGE_ROWS[0])?;
        let is_separable = gate.score.0 < MAX_ERROR.min(MAX_ERROR_FRACTION * trials.rarer_fraction());
        let larger_trials = match is_separable && search.fit_of(&gate).plan(self.selected, self.run)?.fits() {
            true => self.larger_trials(search_result, trials)?,
            false => None,
        };
        let result = match larger_trials {
            None => SvmSearch::NotBetter,
            Some(larger_trials) => {
                let mut search = Search { trials: &larger_trials, ..search };
                match search.run(winner, gate, &kernels, measure)? {
                    Outcome::Better(contender, why) => SvmSearch::Better(contender, why, Box::new(larger_trials)),
                    Outcome::NotBetter => SvmSearch::NotBetter,
                    Outcome::TooLate => SvmSearch::TooLate,
                }
            }
        };
        self.listener.end();
        Ok(result)
    }

    /// Returns true if the search applies: two classes with enough rows, and nothing set that these
    /// SVMs would change.
    fn may_separate<T: Real>(&self, search_result: &KernelSearchResult, trials: &Trials<T>) -> bool {
        let map = self.base.requested_map();
        search_result.classes == 2
            && trials.search_row_count() >= MIN_ROWS
            && !trials.has_sparse_rows()
            && (map.is_exact_kernel() || self.allows_exact && *map == MapSpec::default())
            && !self.base.sets_regularisation()
            && !self.options.rough_kernels.is_empty()
            && (self.solver == ANY_SOLVER || self.solver == SOLVER_NAME)
    }

    /// Returns the kernels with their length scales, the one of the gate first.
    fn rough_kernels<T: Real>(&self, trials: &Trials<T>) -> Result<Vec<Kernel>> {
        let (sample, seed) = (trials.sample(), self.options.train_options.seed);
        let mut kernels = Vec::new();
        for kernel in &self.options.rough_kernels {
            let median = resolve_length_scale(kernel, &sample, seed)?;
            for factor in LENGTH_FACTORS {
                kernels.push(median.with_scaled_lengths(factor)?);
            }
        }
        Ok(kernels)
    }

    /// Returns a sample of up to [`MAX_ROWS`] rows with the folds of the search, or `None` if it
    /// exceeds the memory. Three passes over the table.
    fn larger_trials<T: Real>(
        &self,
        search_result: &KernelSearchResult,
        trials: &Trials<T>,
    ) -> Result<Option<Trials<T>>> {
        let resources = self.run.resources();
        let train_options = TrainOptions {
            folds: search_result.folds.clone(),
            scaling: search_result.scaling,
            metric: MetricSource::None,
            ..self.options.train_options.clone()
        };
        let options = TuneOptions { train_options, max_sample_rows: MAX_ROWS, ..self.options.clone() };
        let pass_shape = match options::plan::<T>(self.selected, &options, &resources) {
            Ok((pass_shape, ..)) => pass_shape,
            Err(Error::Store(kstore::Error::OverBudget { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        let train_options = &options.train_options;
        let survey = survey(self.selected, train_options, pass_shape, &resources)?;
        let source = self.selected.rows::<T>(survey.read_settings())?;
        let (seed, stage) = (train_options.seed, "sampling rows");
        let (rows, _) =
            metric::draw_sample(&source, survey.row_count(), MAX_ROWS, seed, stage, pass_shape, &resources)?;
        let folds = Folds::new(&train_options.folds, seed, self.selected.range(), &survey.group_labels)?;
        let larger = Trials::new(rows, survey.weight_unit(), self.selected, &folds, trials.test_fold().is_some())?;
        Ok(Some(trials.test_fold().into_iter().fold(larger, Trials::with_test_fold)))
    }
}

impl<T: Real> Search<'_, '_, '_, '_, T> {
    /// Compares the candidates, and the best of them with `winner`.
    fn run(
        &mut self,
        winner: &Contender,
        gate: Candidate,
        kernels: &[Kernel],
        measure: SolverMeasure,
    ) -> Result<Outcome> {
        let candidates = self.compare_kernels(gate, kernels)?;
        let rows = self.stage_rows(0);
        let rank = TRIAL_RANK.min(self.model_selection.options.train_options.rank);
        let winner_fit = winner.fit.clone().with_single_rank(rank);
        let winner_name = &winner.report.solver;
        let winner_score = self.score(format!("{winner_name}, {rows} rows"), &winner_fit, rows)?;
        let is_close = |best: &&Candidate| match &winner_score {
            Some((score, _)) => best.score.0 <= MAX_ERROR_RATIO * score.error,
            None => true,
        };
        if candidates.first().filter(is_close).is_none() {
            return Ok(Outcome::NotBetter);
        }
        // the time of a feature map grows in proportion to the rows
        let growth = self.stage_rows(1) as f64 / rows.max(1) as f64;
        let winner_seconds = winner_score.as_ref().map_or(0.0, |(_, seconds)| seconds * growth);
        self.winner_time = Duration::from_secs_f64(winner_seconds.clamp(0.0, 1e9));
        let candidates = self.compare_on_more_rows(candidates)?;
        let Some(best) = candidates.first().filter(|best| best.score.0.is_finite()) else {
            return Ok(Outcome::NotBetter);
        };
        if self.final_cost.is_some() && self.log.is_fit_late(self.later_time(best.unit_seconds), self.journal)? {
            return Ok(Outcome::TooLate);
        }
        let (fit, rows) = (self.fit_of(best), self.stage_rows(1));
        let svm_score = self.score(format!("{}, {rows} rows", best.name()), &fit, rows)?;
        let winner_score = match growth > 1.0 {
            true => self.score(format!("{winner_name}, {rows} rows"), &winner_fit, rows)?,
            false => winner_score,
        };
        let error = |score: Option<(HeldOutScore, f64)>| score.and_then(|(score, _)| score.measure(measure));
        let (svm_error, winner_error) = (error(svm_score), error(winner_score).unwrap_or(f64::INFINITY));
        let Some(svm_error) = svm_error.filter(|svm_error| *svm_error < winner_error) else {
            return Ok(Outcome::NotBetter);
        };
        let report = ContenderReport::new(best.name(), &best.kernel, "none");
        let report = ContenderReport { errors: vec![svm_error], mean: Some(svm_error), ..report };
        let rows = kstore::display::format_count(rows as u64);
        let [svm_error, winner_error] =
            [svm_error, winner_error].map(|error| measure.describe(Task::Classification, error));
        let why = format!("{svm_error}, against {winner_error} for {winner_name}, learned from the same {rows} rows");
        Ok(Outcome::Better(Box::new(Contender { name: best.name(), fit, trial_fit: None, lambda: None, report }), why))
    }

    /// Returns the candidates of the first stage, the best first.
    fn compare_kernels(&mut self, gate: Candidate, kernels: &[Kernel]) -> Result<Vec<Candidate>> {
        let (first_rows, mut candidates) = (self.stage_rows(0), Vec::new());
        // a trial without a predecessor takes about as long as the trial before it
        let mut last_unit = gate.unit_seconds;
        for kernel in kernels {
            // the first trial has no fallback, so it only has to end in time itself
            let later_time = if candidates.is_empty() { Duration::ZERO } else { self.later_time(last_unit) };
            if self.is_over(predicted_time(last_unit, first_rows) + later_time)? {
                break;
            }
            let candidate = self.try_candidate(kernel.clone(), C_VALUES[0], first_rows)?;
            last_unit = candidate.unit_seconds;
            candidates.push(candidate);
        }
        sort_by_score(&mut candidates);
        for candidate in candidates.iter().take(C_CANDIDATES).cloned().collect::<Vec<_>>() {
            for c in &C_VALUES[1..] {
                let unit = candidate.unit_seconds;
                if self.is_over(predicted_time(unit, first_rows) + self.later_time(unit))? {
                    break;
                }
                candidates.push(self.try_candidate(candidate.kernel.clone(), *c, first_rows)?);
            }
        }
        sort_by_score(&mut candidates);
        Ok(candidates)
    }

    /// Returns the best candidates of the last stage that the time allows, the best first.
    fn compare_on_more_rows(&mut self, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
        for (stage, count) in [(1, MORE_ROWS_CANDIDATES), (2, ALL_ROWS_CANDIDATES)] {
            let rows = self.stage_rows(stage);
            if (rows as f64) < MIN_GROWTH * self.stage_rows(stage - 1) as f64 {
                continue;
            }
            let mut tried = Vec::new();
            for Candidate { kernel, c, unit_seconds, .. } in next_stage(&candidates, count, stage == 1)? {
                let trial_time = predicted_time(unit_seconds, rows);
                if self.is_over(trial_time + self.later_time(unit_seconds))? {
                    break;
                }
                tried.push(self.try_candidate(kernel, c, rows)?);
            }
            // the scores of earlier stages are not comparable
            if tried.is_empty() {
                break;
            }
            candidates = tried;
            sort_by_score(&mut candidates);
        }
        Ok(candidates)
    }

    /// Returns the number of training rows of a stage.
    fn stage_rows(&self, stage: usize) -> usize {
        let all = self.trials.training_rows(self.fold, usize::MAX).len();
        STAGE_ROWS.get(stage).map_or(all, |rows| all.min(*rows))
    }

    /// Returns the predicted time after the trials: the comparison with the winner, the tests and
    /// the final fit.
    fn later_time(&self, unit_seconds: f64) -> Duration {
        let test_time = predicted_time(unit_seconds, self.trials.search_row_count());
        let fit_time = predicted_time(unit_seconds, self.row_count as usize);
        self.winner_time + (fit_time + test_time.mul_f64(TESTS)).mul_f64(self.final_cost.unwrap_or(1.0))
    }

    /// Returns true if the work budget is used up, or if the final fit would be late after
    /// `duration`; then later steps are not counted.
    fn is_over(&mut self, duration: Duration) -> Result<bool> {
        if self.is_late {
            return Ok(true);
        }
        self.is_late = match self.log.remaining_steps() {
            Some(steps) => steps == 0,
            None => self.final_cost.is_some() && self.log.is_fit_late(duration, self.journal)?,
        };
        if self.is_late {
            self.log.mark_late();
        }
        Ok(self.is_late)
    }

    fn fit_of(&self, candidate: &Candidate) -> Fit {
        self.fit.clone().kernel(candidate.kernel.clone()).set(parameter::C.name, candidate.c)
    }

    /// Fits a candidate to `rows` training rows, and scores it on the validation rows.
    fn try_candidate(&mut self, kernel: Kernel, c: f64, rows: usize) -> Result<Candidate> {
        let candidate = Candidate { kernel, c, score: (f64::INFINITY, f64::INFINITY), unit_seconds: 0.0 };
        let fit = self.fit_of(&candidate).set(parameter::PROBABILITIES.name, false);
        let what = format!("{}, {}, {rows} rows", candidate.name(), candidate.kernel);
        let Some((score, seconds)) = self.score(what, &fit, rows)? else { return Ok(candidate) };
        let unit_seconds = seconds / (score.training_rows.max(1) as f64).powf(TIME_EXPONENT);
        Ok(Candidate { score: (score.error, score.auc.map_or(1.0, |auc| 1.0 - auc)), unit_seconds, ..candidate })
    }

    /// Returns the scores of a fit to `rows` training rows, and its time in seconds; `None` if the
    /// fit fails.
    fn score(&mut self, what: String, fit: &Fit, rows: usize) -> Result<Option<(HeldOutScore, f64)>> {
        let Self { model_selection, trials, fold, journal, .. } = self;
        self.log.run_trial(what, || {
            get_or_compute_timed(journal, || match trials.validation_score(fit, *fold, rows, model_selection.run) {
                Ok(score) => Ok(score),
                Err(error) if error.is_interrupted() => Err(error),
                Err(_) => Ok(None),
            })
        })
    }
}

fn predicted_time(unit_seconds: f64, rows: usize) -> Duration {
    Duration::from_secs_f64((unit_seconds * (rows as f64).powf(TIME_EXPONENT)).clamp(0.0, 1e9))
}

/// Returns the candidates of the next stage: the best, and if `halves_length` is true, the best
/// with half its length scale, because more rows show smaller details.
fn next_stage(candidates: &[Candidate], count: usize, halves_length: bool) -> Result<Vec<Candidate>> {
    let mut next: Vec<Candidate> = candidates.iter().take(count).cloned().collect();
    if let Some(best) = candidates.first().filter(|_| halves_length) {
        let shorter = best.kernel.with_scaled_lengths(0.5)?;
        if next.iter().all(|other| other.kernel != shorter || other.c != best.c) {
            next.push(Candidate { kernel: shorter, ..best.clone() });
        }
    }
    Ok(next)
}

/// Sorts candidates by their scores, the best first; ties keep the order.
fn sort_by_score(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| a.score.0.total_cmp(&b.score.0).then(a.score.1.total_cmp(&b.score.1)));
}
