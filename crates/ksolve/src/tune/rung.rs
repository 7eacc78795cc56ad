//! The measurement of one candidate on the rows of a rung (a comparison of the successive halving),
//! and the result of a search.

use super::{Score, TuneOptions};
use crate::metric::{LearnedMetric, RoundData, RoundReport, apply_metric, as_text};
use crate::prepare::map_builder::resolve_length_scale;
use crate::prepare::survey::Survey;
use crate::request::{MetricSource, PassShape, Resources, Scaling, TrainOptions};
use crate::{FoldSpec, Folds, GramState, Result, RidgeGrid, Surface, Targets};
use kapprox::metric::Metric;
use kapprox::{Real, kernel::Kernel, landmark::RowSample};
use kmodel::alignment::centred_alignments;
use kstore::{MemoryRows, ReadSettings};
use std::sync::Arc;

/// Reduction factor of a comparison: the better half of the kernels continues.
pub(super) const HALVING: usize = 2;

/// Minimum number of rows of a rung; fewer only if the sample is smaller. On fewer rows, scores are
/// mostly noise.
const MIN_RUNG_ROWS: usize = 500;

/// Returns every kernel with every length scale, without duplicates. If the caller provides a
/// metric, every kernel has this metric.
pub(super) fn initial_candidates<T: Real>(
    options: &TuneOptions,
    sample: &RowSample<T>,
    metric_source: &MetricSource,
    survey: &Survey,
) -> Result<Vec<LearnedMetric>> {
    let metric = metric_source.provided_for(&survey.scaler)?;
    let mut candidates: Vec<LearnedMetric> = Vec::new();
    for kernel in &options.kernels {
        let seed = options.train_options.seed;
        let resolved_kernel = match &metric {
            None => resolve_length_scale(kernel, sample, seed)?,
            Some(metric) => resolve_length_scale(kernel, &apply_metric(sample, metric), seed)?,
        };
        for factor in &options.factors {
            let (kernel, metric, form) =
                (resolved_kernel.with_scaled_lengths(*factor)?, metric.clone(), metric_source.to_string());
            let candidate = LearnedMetric { metric, kernel, form, ..LearnedMetric::default() };
            if !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        }
    }
    Ok(candidates)
}

/// The result of a search: the best kernel, and all scores.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct KernelSearchResult {
    /// Best kernel, with numeric parameters.
    #[serde(serialize_with = "as_text")]
    pub kernel: Kernel,
    /// Best kernel as the caller named it.
    #[serde(skip)]
    pub requested_kernel: Kernel,
    /// Scaling of the features before the metric.
    #[serde(serialize_with = "as_text")]
    pub scaling: Scaling,
    /// Metric; `None` if the kernel uses the features without a metric.
    #[serde(skip)]
    pub metric: Option<Arc<Metric>>,
    /// Form of the metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// Standard deviation over folds of each feature's weight in the metric; `None` if no metric
    /// was learned.
    pub spread: Option<Vec<f64>>,
    /// Number of rows of the table.
    pub rows: u64,
    /// Folds by which kernels were compared.
    #[serde(serialize_with = "as_text")]
    pub folds: FoldSpec,
    /// Correlation of consecutive targets, if it caused contiguous folds to replace random folds;
    /// otherwise `None`.
    #[serde(rename = "alike")]
    pub target_correlation: Option<f64>,
    /// True if the errors of the rounds are far below the errors on new rows, because the metrics
    /// fit the noise of few rows.
    #[doc(hidden)]
    #[serde(skip)]
    pub has_optimistic_metrics: bool,
    /// Number of classes; 0 for a regression.
    pub classes: usize,
    /// Rounds of metric learning of each kernel.
    #[serde(rename = "learned")]
    pub learned_rounds: Vec<RoundReport>,
    /// Rungs of the search, each with the scores of its kernels.
    pub rungs: Vec<Rung>,
    /// Number of passes over the table.
    pub passes: u64,
    /// Planned memory of the largest stage, in bytes.
    pub planned_bytes: usize,
}

impl KernelSearchResult {
    /// Returns the best metric, for a fit with the same feature scaling as the search.
    pub fn metric_source(&self) -> MetricSource {
        self.metric.clone().map_or(MetricSource::None, MetricSource::from_metric)
    }

    /// Returns the kernel of the lowest-error round without a metric.
    pub(super) fn best_without_metric(&self) -> Option<&str> {
        best_without_metric(&self.learned_rounds).map(|round| round.kernel.as_str())
    }
}

pub(super) fn best_without_metric(rounds: &[RoundReport]) -> Option<&RoundReport> {
    let plain = rounds.iter().filter(|round| round.form == "none");
    plain.min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse))
}

/// A rung: the kernels that were measured on one sample of rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Rung {
    /// Number of rows of the sample.
    pub rows: u64,
    /// Measured kernels, in the order in which they are named.
    pub entries: Vec<RungEntry>,
}

/// The scores of a kernel on a rung.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct RungEntry {
    /// Kernel, with numeric parameters.
    pub kernel: String,
    /// Metric: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Scaling of the features before the metric.
    pub scale: String,
    /// Score of the best cell (a rank and a lambda); `None` if no cell has a score.
    pub score: Option<f64>,
    /// Rank of the best cell.
    pub rank: Option<usize>,
    /// Lambda of the best cell; `None` for an alignment.
    pub lambda: Option<f64>,
    /// True if the kernel continued or won.
    pub kept: bool,
    /// Scores at all ranks and lambdas.
    pub cells: Vec<TuneCell>,
}

/// The scores at one rank and lambda.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct TuneCell {
    /// Rank: number of leading features.
    pub rank: usize,
    /// Regularisation parameter; `None` for an alignment.
    pub lambda: Option<f64>,
    /// Cross-validated squared error.
    pub cv_mse: Option<f64>,
    /// Generalised cross-validation.
    pub gcv: Option<f64>,
    /// Centred kernel-target alignment.
    pub alignment: Option<f64>,
}

impl RungEntry {
    /// Returns the entry of a learned metric: the error of its best round.
    pub(super) fn from_rounds(learned: &LearnedMetric, scaling: Scaling) -> Self {
        let best = learned.rounds.iter().min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse));
        best.map_or_else(|| Self::new(learned, scaling, None, Vec::new()), |best| Self::from_round(best, scaling))
    }

    pub(super) fn from_round(round: &RoundReport, scaling: Scaling) -> Self {
        let (lambda, cv_mse) = (Some(round.lambda), Some(round.cv_mse));
        let cell = TuneCell { rank: round.rank, lambda, cv_mse, ..TuneCell::default() };
        Self {
            kernel: round.kernel.clone(),
            metric: round.form.clone(),
            scale: scaling.to_string(),
            score: cv_mse.filter(|score| score.is_finite()),
            rank: Some(round.rank),
            lambda,
            kept: false,
            cells: vec![cell],
        }
    }

    /// Returns true if both entries have the same kernel, metric and scaling.
    pub(super) fn is_same_candidate(&self, other: &Self) -> bool {
        (&self.kernel, &self.metric, &self.scale) == (&other.kernel, &other.metric, &other.scale)
    }

    /// Returns the entry of a candidate with the score of its best cell.
    fn new(candidate: &LearnedMetric, scaling: Scaling, best: Option<(f64, TuneCell)>, cells: Vec<TuneCell>) -> Self {
        Self {
            kernel: candidate.kernel.to_string(),
            metric: candidate.form.clone(),
            scale: scaling.to_string(),
            score: best.map(|(score, _)| score),
            rank: best.map(|(_, cell)| cell.rank),
            lambda: best.and_then(|(_, cell)| cell.lambda),
            kept: false,
            cells,
        }
    }
}

impl TuneCell {
    fn score(&self, score: Score) -> Option<f64> {
        match score {
            Score::Cv => self.cv_mse,
            Score::Gcv => self.gcv,
            Score::Alignment => self.alignment,
        }
    }
}

/// The rows of a rung, and the options by which kernels are measured on them.
pub(super) struct RungContext<'a, T: Real> {
    pub(super) options: &'a TuneOptions,
    pub(super) resources: &'a Resources<'a>,
    pub(super) pass_shape: PassShape,
    pub(super) folds: &'a Folds,
    pub(super) targets: &'a Targets,
    pub(super) read_settings: &'a ReadSettings,
    pub(super) rows: &'a MemoryRows<T>,
}

impl<T: Real> RungContext<'_, T> {
    pub(super) fn measure_candidate(&self, candidate: &LearnedMetric) -> Result<RungEntry> {
        let LearnedMetric { kernel, metric, .. } = candidate;
        // no candidates are sampled: they would be copies of the rows, which are already in memory
        let metric_source = metric.clone().map_or(MetricSource::None, MetricSource::from_metric);
        let train_options =
            TrainOptions { metric: metric_source, candidates: None, ..self.options.train_options.clone() };
        // only cross-validation needs validation rows
        let folds = if self.options.score == Score::Cv { self.folds } else { &Folds::None };
        let Self { rows: source, read_settings, targets, pass_shape, resources, .. } = *self;
        let n = source.len() as u64;
        let round_data =
            RoundData { source, n, read_settings, targets, folds, options: &train_options, pass_shape, resources };
        let (built_map, gram, observer) = round_data.moments(metric.as_ref(), kernel)?;
        drop(observer);
        let p = built_map.map.dims().1;
        let mut ranks: Vec<usize> = match train_options.map.family().is_nested {
            true => train_options.ranks.iter().map(|rank| *rank.min(&p)).collect(),
            false => vec![p],
        };
        ranks.dedup();
        let cells = match self.options.score {
            Score::Alignment => self.alignments(&gram, &ranks)?,
            Score::Cv | Score::Gcv => self.surface(&gram, ranks)?,
        };
        Ok(self.best_entry(candidate, cells))
    }

    fn alignments(&self, gram: &GramState, ranks: &[usize]) -> Result<Vec<TuneCell>> {
        let has_classes = matches!(self.targets, Targets::Classes(_));
        let alignments = centred_alignments(gram, ranks, has_classes)?;
        let tune_cell = |(rank, alignment): (&usize, _)| TuneCell { rank: *rank, alignment, ..TuneCell::default() };
        Ok(ranks.iter().zip(alignments).map(tune_cell).collect())
    }

    fn surface(&self, gram: &GramState, ranks: Vec<usize>) -> Result<Vec<TuneCell>> {
        let TuneOptions { lambdas, intercept, .. } = self.options;
        let (lambdas, target_centre) = (lambdas.clone(), self.targets.centre());
        let ridge = RidgeGrid { ranks, lambdas, intercept: *intercept, target_centre };
        let observer = self.resources.stage_observer.start_stage("surface", None);
        let surface = Surface::compute(gram, &ridge, self.resources.workers, &*observer)?;
        let tune_cell = |cell: &crate::SurfaceCell| TuneCell {
            rank: cell.rank,
            lambda: Some(cell.lambda),
            cv_mse: cell.cv_mse,
            gcv: cell.gcv,
            alignment: None,
        };
        Ok(surface.cells.iter().map(tune_cell).collect())
    }

    /// Returns the entry of a kernel with its best cell; ties go to the smaller rank, then to the
    /// larger lambda.
    fn best_entry(&self, candidate: &LearnedMetric, cells: Vec<TuneCell>) -> RungEntry {
        let score = self.options.score;
        let scored = cells.iter().filter_map(|cell| Some((cell.score(score).filter(|s| s.is_finite())?, cell)));
        let best = scored.min_by(|(x, a), (y, b)| {
            let lambda = |cell: &TuneCell| cell.lambda.unwrap_or(0.0);
            score.order(*x, *y).then(a.rank.cmp(&b.rank)).then(lambda(b).total_cmp(&lambda(a)))
        });
        RungEntry::new(candidate, self.options.train_options.scaling, best.map(|(score, cell)| (score, *cell)), cells)
    }
}

/// Returns the number of rows of every rung. The numbers double from rung to rung, and the last
/// number is the whole sample; no rung has fewer than [`MIN_RUNG_ROWS`] rows. Returns an empty list
/// if there is at most one kernel.
pub(super) fn rung_sizes(kernel_count: usize, sample_rows: usize) -> Vec<usize> {
    let (mut alive, mut rung_count) = (kernel_count, 0);
    while alive > 1 {
        (alive, rung_count) = (alive.div_ceil(HALVING), rung_count + 1);
    }
    let size = |rung: usize| (sample_rows / HALVING.pow(rung as u32)).max(MIN_RUNG_ROWS.min(sample_rows));
    let mut sizes: Vec<usize> = (0..rung_count).rev().map(size).collect();
    // the same rows again would add no information
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_double_up_to_the_whole_sample() {
        assert_eq!(rung_sizes(1, 1000), [] as [usize; 0]);
        assert_eq!(rung_sizes(2, 1000), [1000]);
        assert_eq!(rung_sizes(5, 20_000), [5_000, 10_000, 20_000]);
        assert_eq!(rung_sizes(9, 2_000), [500, 1_000, 2_000]);
        assert_eq!(rung_sizes(3, 200), [200]);
    }
}
