//! Choosing a kernel by successive halving on growing samples of rows.
//!
//! Every kernel is measured on a small uniform sample of the rows, then the better half of the
//! kernels on twice as many rows, and so on until one kernel remains. Each comparison is a
//! **rung**. The samples are nested: each sample consists of the rows with the largest random keys.
//! One pass over the sample gives the errors of a kernel at every rank and regularisation parameter
//! lambda (its surface). Therefore only kernels compete, each with its best rank and lambda. The
//! winner is then fitted on all rows like any other kernel, and the surface is computed again.
//!
//! | score | definition | linear systems |
//! |---|---|---|
//! | cv | squared error on validation rows, least over ranks and lambdas | per fold and lambda |
//! | gcv | generalised cross-validation, least over ranks and lambdas | per lambda |
//! | alignment | centred kernel-target alignment, largest over ranks | none |
//!
//! Alignment is the cosine of the angle between two centred matrices: the kernel matrix, and the
//! matrix of the products of targets. It favours kernels with few large eigenvalues. It can select
//! a length scale, but hardly distinguishes families of kernels.
//!
//! If metrics are learned in rounds ([`crate::metric`]), every kernel competes with the metric and
//! the length scale of its best round. With cv, the scores are the errors of the rounds, all on the
//! same sample and at the same rank. So the lowest error of all rounds wins, and more rounds never
//! increase the error of the winner. With gcv, or with maps other than Nyström, the kernels with
//! their metrics are then measured on the sample. The best kernel may compete again with features
//! scaled by asinh, because a metric cannot learn this scaling ([`ModelSelection`]).
//!
//! *Passes over the table*: three, for the statistics, the sample, and the targets of the sample.
//! *Cost*: every rung takes about as long as the last rung, which measures two kernels on the whole
//! sample: earlier rungs have more kernels and fewer rows. *Bytes*: three times the sample, plus
//! the memory of ridge regression.
//!
//! Reference: Jamieson, Talwalkar, "Non-stochastic best arm identification and hyperparameter
//! optimization", AISTATS 2016.

mod builder;
mod contenders;
mod contest;
mod exact_search;
mod group_sample;
mod history;
mod journal;
mod kernel_ensemble;
mod model_selection;
mod neighbours;
mod options;
mod outer_folds;
mod refine;
mod rung;
mod scalings;
mod selection_result;
mod separating_svm;
mod series_kernel;
mod shifted_rows;
mod time_budget;
mod trial;

pub use builder::{FixedParts, Tune};
#[doc(hidden)]
pub use contenders::ANY_SOLVER;
#[doc(hidden)]
pub use contenders::ContenderReport;
#[doc(hidden)]
pub use journal::SearchJournal;
#[doc(hidden)]
pub use model_selection::ModelSelection;
pub use options::{Score, SolverMeasure};
#[doc(hidden)]
pub use options::{TuneOptions, ridge_surrogate};
#[doc(hidden)]
pub use rung::{KernelSearchResult, Rung, RungEntry, TuneCell};
pub use selection_result::SearchWork;
#[doc(hidden)]
pub use selection_result::{HistoryEntry, SearchListener, SearchPart, SelectionResult, WinnerTest};
#[doc(hidden)]
pub use shifted_rows::ShiftScore;
#[doc(hidden)]
pub use time_budget::{FeasibleFit, TimeBudget};
#[doc(hidden)]
pub use trial::HeldOutScore;

use crate::folds::FoldSpec;
use crate::job::Run;
use crate::metric::{self, LearnedMetric, MetricRequest, RoundReport, RoundRequest, select_rows};
use crate::prepare::candidates;
use crate::prepare::survey::{MAX_CLASS_INTEGERS, Survey, survey, warn_of_classes};
use crate::request::{MetricSource, PassShape, Resources, TrainOptions};
use crate::{Error, Folds, Result, Targets, Task, prepare::target_counts};
use kapprox::Real;
use kapprox::kernel::Kernel;
use kapprox::landmark::RowSample;
use kapprox::map::MapSpec;
use kstore::{MemoryRows, Pass, RowSource, SelectedTable};
use rung::{HALVING, initial_candidates, rung_sizes};
use trial::Trials;

/// A search that proceeds kernel by kernel, so that the caller can show progress.
#[doc(hidden)]
pub struct KernelSearch<'a, T: Real> {
    options: &'a TuneOptions,
    resources: Resources<'a>,
    pass_shape: PassShape,
    planned_bytes: usize,
    survey: Survey,
    fold_spec: FoldSpec,
    /// Correlation of consecutive targets, if it caused contiguous folds to replace random folds;
    /// otherwise `None`.
    target_correlation: Option<f64>,
    folds: Folds,
    targets: Targets,
    /// Sample, including the test rows.
    trials: Trials<T>,
    /// Sample without test rows, largest keys first: every rung takes a prefix.
    sample: RowSample<T>,
    /// Rows of `sample` in table order, with targets.
    sample_rows: MemoryRows<T>,
    passes: u64,
    /// Kernels whose metric is not learned yet, the next one last.
    unlearned: Vec<Kernel>,
    learned_rounds: Vec<RoundReport>,
    candidates: Vec<LearnedMetric>,
    /// True if the best kernels are to be refined.
    refines: bool,
    /// Candidates that are not refined yet, the next one last.
    unrefined: Vec<usize>,
    rung_sizes: Vec<usize>,
    finished_rungs: Vec<Rung>,
    /// Candidates of the current rung, as indices in `candidates`.
    alive: Vec<usize>,
    /// Scores of the candidates of the current rung that were measured so far, in the order of
    /// `alive`.
    entries: Vec<RungEntry>,
    rung_rows: MemoryRows<T>,
}

impl<T: Real> std::fmt::Debug for KernelSearch<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelSearch")
            .field("candidates", &self.candidates)
            .field("sizes", &self.rung_sizes)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Real> KernelSearch<'a, T> {
    /// Starts a search: plans, scales, draws the sample and resolves the kernels. Three passes over
    /// the table.
    ///
    /// # Errors
    /// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the memory. An
    /// invalid row (the error names its position); options that a search does not support.
    pub fn open(selected: &SelectedTable, options: &'a TuneOptions, resources: &'a Resources<'a>) -> Result<Self> {
        options::check(options, selected.shape().input_count)?;
        let resources = Resources { journal: None, scratch: None, ..*resources };
        let train_options = &options.train_options;
        let (pass_shape, planned_bytes, refines) = options::plan::<T>(selected, options, &resources)?;
        let survey = survey(selected, train_options, pass_shape, &resources)?;
        let targets = survey.regression_targets();
        let folds = |spec: &FoldSpec| Folds::new(spec, train_options.seed, selected.range(), &survey.group_labels);
        folds(&train_options.folds)?;
        let source = selected.rows::<T>(survey.read_settings())?;
        let range = source.range();
        let row_count = survey.row_count();
        let group_sample = if options.samples_whole_groups {
            group_sample::draw(&source, &survey, options.max_sample_rows, train_options.seed, pass_shape, &resources)?
        } else {
            None
        };
        let draw_random = || {
            let (sample_rows, seed) = (options.max_sample_rows, train_options.seed);
            metric::draw_sample(&source, row_count, sample_rows, seed, "sampling rows", pass_shape, &resources)
        };
        let (all_rows, sample) = group_sample.map_or_else(draw_random, Ok)?;
        if let (Some(measure @ SolverMeasure::Auc), Targets::Classes(classes)) = (options.measure, &targets)
            && classes.labels().len() != 2
        {
            let why =
                format!("expected two classes, but the target has {}; use log-loss or error", classes.labels().len());
            return Err(Error::option("measure", measure, why));
        }
        let may_replace_folds = options.may_use_blocks && matches!(train_options.folds, FoldSpec::Random(_));
        let target_correlation =
            if may_replace_folds { metric::series_correlation(&source, &all_rows, &range, &targets)? } else { None };
        let fold_spec =
            target_correlation.map_or(train_options.folds.clone(), |_| FoldSpec::Blocks(metric::BLOCK_COUNT));
        let warning = match target_correlation {
            Some(correlation) => Some(metric::blocks_note(correlation, &train_options.folds)),
            None => metric::series_warning(&source, &targets, &train_options.folds)?,
        };
        warning.into_iter().for_each(|text| resources.stage_observer.warn(text));
        let folds = folds(&fold_spec)?;
        let holds_out_test_rows = options.score != Score::Alignment;
        let trials = Trials::new(all_rows, survey.weight_unit(), selected, &folds, holds_out_test_rows)?;
        let trials = options.test_fold.into_iter().fold(trials, Trials::with_test_fold);
        let sample = trials.without_test_rows(&sample);
        let sorted_rows = candidates::sort_by_row_number(sample.clone())?;
        let sample_rows = candidates::with_targets(
            sorted_rows,
            trials.rows(),
            Pass::new(pass_shape.tile_rows, pass_shape.segment_rows, resources.workers),
        )?;
        let (unlearned, candidates) = match &train_options.metric {
            MetricSource::Learned(_) => (options.kernels.iter().rev().cloned().collect(), Vec::new()),
            metric_source => (Vec::new(), initial_candidates(options, &sample, metric_source, &survey)?),
        };
        // kernels with learned metrics have a single rung, because their metrics are learned on the
        // same rows
        let round_row_count = metric::sample_size(sample.len() as u64, sample.d);
        let rung_sizes = match unlearned.is_empty() {
            true => rung_sizes(candidates.len(), sample.len()),
            false if competes_by_rounds(options) => vec![round_row_count],
            false => vec![sample.len()],
        };
        let alive = (0..candidates.len().max(unlearned.len())).collect();
        let mut search = Self {
            options,
            resources,
            pass_shape,
            planned_bytes,
            survey,
            fold_spec,
            target_correlation,
            folds,
            targets,
            trials,
            sample,
            sample_rows,
            passes: 3,
            unlearned,
            learned_rounds: Vec::new(),
            candidates,
            refines,
            unrefined: Vec::new(),
            rung_sizes,
            finished_rungs: Vec::new(),
            alive,
            entries: Vec::new(),
            rung_rows: MemoryRows::default(),
        };
        search.load_rung_rows()?;
        Ok(search)
    }

    /// Warns if a numeric target may hold classes, or if a ranking has few pairs.
    pub(super) fn warn_of_target(&self, selected: &SelectedTable, task: Task) -> Result<()> {
        warn_of_classes(selected, &self.survey.statistics, task, self.resources.stage_observer);
        let warning = if task == Task::Ranking { self.trials.check_pairs()? } else { None };
        warning.into_iter().for_each(|text| self.resources.stage_observer.warn(text));
        Ok(())
    }

    /// Returns the number of metrics to learn and of kernels to measure over all rungs.
    pub fn step_count(&self) -> usize {
        let mut alive = self.alive.len();
        let mut next_rung_size = || {
            let rung_size = alive;
            alive = alive.div_ceil(HALVING);
            rung_size
        };
        let measured_count =
            if competes_by_rounds(self.options) { 0 } else { self.rung_sizes.iter().map(|_| next_rung_size()).sum() };
        self.unlearned.len() + measured_count
    }

    /// Returns the kernel that the next step measures, or whose metric it learns, and the number of
    /// rows of the step; `None` at the end.
    pub fn upcoming(&self) -> Option<(&Kernel, usize)> {
        let row_count = self.rung_sizes.get(self.finished_rungs.len())?;
        let next_kernel =
            self.unlearned.last().or_else(|| Some(&self.candidates[self.alive[self.entries.len()]].kernel));
        next_kernel.map(|kernel| (kernel, *row_count))
    }

    /// Returns the best score so far: a held-out error of a metric, or the score of a kernel on the
    /// current rows.
    pub fn best_score(&self) -> Option<f64> {
        let round_errors = self.learned_rounds.iter().map(|round| round.cv_mse);
        let scores = self.finished_rungs.last().into_iter().flat_map(|rung| &rung.entries).chain(&self.entries);
        let mut scores: Vec<f64> = scores.filter_map(|entry| entry.score).collect();
        if scores.is_empty() {
            scores = round_errors.collect();
        }
        scores.into_iter().min_by(|a, b| self.options.score.order(*a, *b))
    }

    /// Ends the search early, with the kernels that have been learned or measured: drops the
    /// kernels whose metric is not learned yet, if there is another; or else the candidates that
    /// the current rung has not measured, and all later rungs. Returns true if anything was
    /// dropped.
    pub(crate) fn end_early(&mut self) -> Result<bool> {
        if !self.unlearned.is_empty() && !self.candidates.is_empty() {
            self.unlearned.clear();
            self.alive = (0..self.candidates.len()).collect();
            if competes_by_rounds(self.options) {
                self.promote()?;
            }
            return Ok(true);
        }
        if !self.unlearned.is_empty() || self.upcoming().is_none() {
            return Ok(false);
        }
        let finished_count = self.finished_rungs.len();
        if !self.entries.is_empty() {
            self.alive.truncate(self.entries.len());
            self.rung_sizes.truncate(finished_count + 1);
            self.promote()?;
            return Ok(true);
        }
        if let Some(rung) = self.finished_rungs.last() {
            // `alive` has the kept candidates of this rung, in the same order
            let kept_scores =
                rung.entries.iter().filter(|entry| entry.kept).map(|entry| entry.score.unwrap_or(f64::NAN));
            let best = kept_scores.zip(&self.alive).min_by(|(a, _), (b, _)| self.options.score.order(*a, *b));
            self.alive = best.into_iter().map(|(_, candidate)| *candidate).collect();
            self.rung_sizes.truncate(finished_count);
        }
        Ok(finished_count > 0)
    }

    fn learn(
        &self,
        kernel: Kernel,
        round_request: RoundRequest<'_>,
        is_enough: &dyn Fn(usize) -> bool,
    ) -> Result<LearnedMetric> {
        let train_options = TrainOptions { kernel, ..self.options.train_options.clone() };
        let sample = select_rows(&self.sample, 0..metric::sample_size(self.sample.len() as u64, self.sample.d));
        let memory_rows = self.with_targets(&sample)?;
        let request = MetricRequest {
            source: &memory_rows,
            survey: &self.survey,
            targets: &self.targets,
            options: &train_options,
            resources: &self.resources,
            is_enough,
        };
        // `gcv` and `alignment` have no folds, but rounds are scored by held-out errors
        let metric_folds = metric::default_folds(train_options.seed, memory_rows.len() as u64)?;
        let folds = if self.folds.count() > 1 { &self.folds } else { &metric_folds };
        request.learn_on_sample(&memory_rows, &sample, folds, round_request)
    }

    /// Measures the next kernel, or learns its metric in rounds. After each round, `is_enough` is
    /// called with the number of rounds; if it returns true, no more rounds follow. If `journal`
    /// has the result of this step, reads it instead. Returns the number of steps: 1, or the number
    /// of rounds.
    ///
    /// # Errors
    /// Errors of the map; [`Error::NoCell`] if no kernel of a rung has a score;
    /// [`kstore::Error::Interrupted`].
    pub fn step(&mut self, journal: &mut SearchJournal<'_>, is_enough: &dyn Fn(usize) -> bool) -> Result<usize> {
        if let (MetricSource::Learned(form), Some(kernel)) = (&self.options.train_options.metric, self.unlearned.pop())
        {
            let (rank, scored_rank) = (metric::ROUND_RANK, self.options.train_options.rank);
            let round_request =
                RoundRequest { form: *form, rank, scored_rank, incumbent: None, refits_on_all_rows: false };
            let mut learned = journal.get_or_compute(|| self.learn(kernel, round_request, is_enough))?;
            if competes_by_rounds(self.options) {
                self.entries.push(RungEntry::from_rounds(&learned, self.options.train_options.scaling));
            }
            let round_count = learned.rounds.len();
            self.learned_rounds.append(&mut learned.rounds);
            self.candidates.push(learned);
            if self.unlearned.is_empty() && competes_by_rounds(self.options) {
                self.promote()?;
            }
            return Ok(round_count);
        }
        if self.upcoming().is_none() {
            return Ok(0);
        }
        let candidate = &self.candidates[self.alive[self.entries.len()]];
        let context = rung::RungContext {
            options: self.options,
            resources: &self.resources,
            pass_shape: self.pass_shape,
            folds: &self.folds,
            targets: &self.targets,
            read_settings: &self.survey.read_settings(),
            rows: &self.rung_rows,
        };
        let workers = self.resources.workers;
        // an interrupted step is not stored
        let entry = journal.get_or_compute(|| {
            context.measure_candidate(candidate).and_then(|entry| Ok(workers.check().map(|()| entry)?))
        })?;
        self.entries.push(entry);
        if self.entries.len() == self.alive.len() {
            self.promote()?;
        }
        Ok(1)
    }

    /// Ends the current rung: keeps the better half of its candidates, or the best after the last
    /// rung, and loads the rows of the next rung.
    fn promote(&mut self) -> Result<()> {
        let is_last_rung = self.finished_rungs.len() + 1 == self.rung_sizes.len();
        let survivor_count = if is_last_rung { 1 } else { self.alive.len().div_ceil(HALVING) };
        let mut order: Vec<usize> = (0..self.entries.len()).filter(|i| self.entries[*i].score.is_some()).collect();
        if order.is_empty() {
            return Err(Error::NoCell { precision: T::NAME });
        }
        // stable sort: ties keep the order in which the kernels are named
        let score = |i: usize| self.entries[i].score.unwrap_or(f64::NAN);
        order.sort_by(|a, b| self.options.score.order(score(*a), score(*b)));
        if is_last_rung && self.refines {
            self.unrefined = order.iter().take(refine::REFINED_KERNELS).rev().map(|i| self.alive[*i]).collect();
        }
        order.truncate(survivor_count);
        order.sort_unstable();
        for i in &order {
            self.entries[*i].kept = true;
        }
        self.alive = order.iter().map(|i| self.alive[*i]).collect();
        let (rows, mut entries) = (self.rung_rows.len() as u64, std::mem::take(&mut self.entries));
        if competes_by_rounds(self.options) {
            // report the best kernel without a metric too, as in a fit without a search
            let best_plain_round = rung::best_without_metric(&self.learned_rounds);
            let plain_entry =
                best_plain_round.map(|round| RungEntry::from_round(round, self.options.train_options.scaling));
            entries.extend(plain_entry.filter(|plain| entries.iter().all(|entry| !entry.is_same_candidate(plain))));
        }
        self.finished_rungs.push(Rung { rows, entries });
        if is_last_rung { Ok(()) } else { self.load_rung_rows() }
    }

    /// Loads the rows of the current rung: a prefix of the sample, in table order.
    fn load_rung_rows(&mut self) -> Result<()> {
        let Some(size) = self.rung_sizes.get(self.finished_rungs.len()) else { return Ok(()) };
        self.rung_rows = self.with_targets(&select_rows(&self.sample, 0..*size))?;
        Ok(())
    }

    /// Returns some rows of the sample with their targets, in table order.
    fn with_targets(&self, sample: &RowSample<T>) -> Result<MemoryRows<T>> {
        let PassShape { tile_rows: tile, segment_rows: segment, .. } = self.pass_shape;
        let sorted_rows = candidates::sort_by_row_number(sample.clone())?;
        candidates::with_targets(sorted_rows, &self.sample_rows, Pass::new(tile, segment, self.resources.workers))
    }

    /// Returns the entry of the best kernel so far.
    fn winner(&self) -> Option<&RungEntry> {
        self.finished_rungs.iter().flat_map(|rung| &rung.entries).rfind(|entry| entry.kept)
    }

    /// Returns the best kernel as the caller named it; returns the first kernel if no comparison
    /// was made.
    fn requested_kernel(&self) -> Kernel {
        // every kernel has the same number of length scales; with a learned metric this number is 1
        let candidates_per_kernel = self.candidates.len().div_ceil(self.options.kernels.len()).max(1);
        self.options.kernels.get(self.alive[0] / candidates_per_kernel).cloned().unwrap_or_default()
    }

    /// Ends the search and returns its result: the first kernel if there was nothing to compare.
    pub fn finish(self) -> KernelSearchResult {
        self.finish_with_rows().0
    }

    fn finish_with_rows(mut self) -> (KernelSearchResult, Trials<T>) {
        let requested_kernel = self.requested_kernel();
        let has_optimistic_metrics = self.has_optimistic_metrics();
        let LearnedMetric { kernel, metric, form, spread, .. } = self.candidates.swap_remove(self.alive[0]);
        let search_result = KernelSearchResult {
            kernel,
            requested_kernel,
            scaling: self.options.train_options.scaling,
            metric,
            form,
            spread,
            rows: self.survey.row_count(),
            folds: self.fold_spec,
            target_correlation: self.target_correlation,
            classes: if let Targets::Classes(classes) = &self.targets { classes.labels().len() } else { 0 },
            has_optimistic_metrics,
            learned_rounds: self.learned_rounds,
            rungs: self.finished_rungs,
            passes: self.passes,
            planned_bytes: self.planned_bytes,
        };
        (search_result, self.trials)
    }
}

/// Maximum number of features for which a metric is learned by default. With more features, rows
/// are too few and the outer products take gigabytes.
#[doc(hidden)]
pub const MAX_METRIC_FEATURES: usize = 10_000;

/// Minimum number of rows per value of a target that is treated as classes. Chosen: a target with
/// fewer rows per value may be a quantity that happens to have integer values.
const MIN_CLASS_ROWS: u64 = 20;

/// If the values of the target are likely to be classes (2 to 20 integers, each in at least 20
/// rows), returns the number of distinct values; otherwise `None`. Reads only the target column.
///
/// # Errors
/// The errors of reading the column.
pub fn likely_classes(selected: &SelectedTable, run: &Run<'_>) -> Result<Option<usize>> {
    let Some(labels) = selected.labels_only() else { return Ok(None) };
    let target_counts = match target_counts::count_labels(&labels, &run.resources()) {
        Err(Error::Store(kstore::Error::TooManyLabels { .. })) => return Ok(None),
        result => result?,
    };
    let counts = target_counts.classes.sorted_counts();
    let has_enough_rows = counts.iter().all(|(_, rows)| *rows >= MIN_CLASS_ROWS);
    Ok(Some(counts.len()).filter(|count| has_enough_rows && (2..=MAX_CLASS_INTEGERS).contains(count)))
}

/// Returns true if kernels compete by the errors of the rounds that learned their metrics.
fn competes_by_rounds(options: &TuneOptions) -> bool {
    let TrainOptions { metric, map, .. } = &options.train_options;
    matches!(metric, MetricSource::Learned(_)) && options.score == Score::Cv && *map == MapSpec::default()
}
