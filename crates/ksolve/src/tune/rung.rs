//! The measurement of one candidate on the rows of a rung, and what a search found.

use super::{Score, TuneOptions};
use crate::metric::alignment::centred_alignments;
use crate::metric::{Learned, RoundReport, Rows, as_text, behind};
use crate::prepare::landmarks::settle;
use crate::prepare::survey::Survey;
use crate::request::{MetricSource, PassShape, Resources, Scaling, TrainOptions};
use crate::{FoldSpec, Folds, GramState, Result, RidgeOptions, Surface, Targets};
use kapprox::metric::Metric;
use kapprox::{Real, kernel::Kernel, landmark::RowSample};
use kstore::{MemoryRows, Reading};
use std::sync::Arc;

/// One of so many kernels stays after a comparison: the better half.
pub(super) const HALVING: usize = 2;

/// Fewest rows of a rung, where there are so many: on fewer, scores are mostly noise.
const FEWEST_ROWS: usize = 500;

/// Every kernel at every length scale, each once, behind a metric that is known.
pub(super) fn candidates_of<T: Real>(
    options: &TuneOptions,
    sample: &RowSample<T>,
    source: &MetricSource,
    survey: &Survey,
) -> Result<Vec<Learned>> {
    let metric = source.known_for(&survey.scaler)?;
    let mut candidates: Vec<Learned> = Vec::new();
    for kernel in &options.kernels {
        let seed = options.training.seed;
        let settled = match &metric {
            None => settle(kernel, sample, seed)?,
            Some(metric) => settle(kernel, &behind(sample, metric), seed)?,
        };
        for factor in &options.factors {
            let (kernel, metric, form) = (settled.stretched(*factor)?, metric.clone(), source.to_string());
            let candidate = Learned { metric, kernel, form, ..Learned::default() };
            if !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        }
    }
    Ok(candidates)
}

/// The result of a search: the best kernel, and all scores.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Tuned {
    /// The best kernel, every parameter a number.
    #[serde(serialize_with = "as_text")]
    pub kernel: Kernel,
    /// The kernel as it was asked for.
    #[serde(skip)]
    pub named: Kernel,
    /// The scaling of the features before the metric.
    #[serde(serialize_with = "as_text")]
    pub scaling: Scaling,
    /// The metric before it; `None` where there is none.
    #[serde(skip)]
    pub metric: Option<Arc<Metric>>,
    /// The form of that metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// The deviation of each feature's share in the metric over folds; `None` where none was learned.
    pub spread: Option<Vec<f64>>,
    /// Rows of the table.
    pub rows: u64,
    /// The folds by which kernels were compared.
    #[serde(serialize_with = "as_text")]
    pub folds: FoldSpec,
    /// The correlation of the targets of rows that follow each other, where blocks of rows took the place of random folds for it.
    pub alike: Option<f64>,
    /// Number of classes; 0 for a regression.
    pub classes: usize,
    /// The rounds in which the metric of each kernel was learned.
    pub learned: Vec<RoundReport>,
    /// The rungs of the search, each with the scores of its kernels.
    pub rungs: Vec<Rung>,
    /// Number of passes over the table.
    pub passes: u64,
    /// Bytes of memory that were planned: those of the stage that needs most.
    pub planned_bytes: usize,
}

impl Tuned {
    /// The best metric for a fit whose features are scaled as those of the search.
    pub fn source(&self) -> MetricSource {
        self.metric.clone().map_or(MetricSource::None, MetricSource::of)
    }

    /// The kernel of the round with the least error among those without a metric.
    pub(super) fn best_without_metric(&self) -> Option<&str> {
        best_without_metric(&self.learned).map(|round| round.kernel.as_str())
    }
}

pub(super) fn best_without_metric(rounds: &[RoundReport]) -> Option<&RoundReport> {
    let plain = rounds.iter().filter(|round| round.form == "none");
    plain.min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse))
}

/// A rung: the kernels that were measured on one sample of rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Rung {
    /// Number of rows of the sample.
    pub rows: u64,
    /// Every kernel that was measured, in the order in which they are named.
    pub entries: Vec<Entry>,
}

/// The scores of a kernel on a rung.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Entry {
    /// The kernel, every parameter a number.
    pub kernel: String,
    /// The metric before it: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// The scaling of the features before that.
    pub scale: String,
    /// The score of its best cell; `None` where no cell has one.
    pub score: Option<f64>,
    /// Rank of that cell.
    pub rank: Option<usize>,
    /// Lambda of that cell; `None` for an alignment.
    pub lambda: Option<f64>,
    /// True where the kernel went on, or won.
    pub kept: bool,
    /// The scores at all ranks and lambdas.
    pub cells: Vec<TuneCell>,
}

/// The scores of a rank and lambda.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TuneCell {
    /// The rank: number of leading features.
    pub rank: usize,
    /// Penalty; `None` for an alignment.
    pub lambda: Option<f64>,
    /// Cross-validated squared error.
    pub cv_mse: Option<f64>,
    /// Generalised cross-validation.
    pub gcv: Option<f64>,
    /// Centred kernel-target alignment.
    pub alignment: Option<f64>,
}

impl Entry {
    /// The entry of a metric that was learned: the error of its best round.
    pub(super) fn of_rounds(learned: &Learned, scaling: Scaling) -> Self {
        let best = learned.rounds.iter().min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse));
        best.map_or_else(|| Self::new(learned, scaling, None, Vec::new()), |best| Self::of_round(best, scaling))
    }

    pub(super) fn of_round(round: &RoundReport, scaling: Scaling) -> Self {
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

    /// True if both are of the same kernel, metric and scaling.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (&self.kernel, &self.metric, &self.scale) == (&other.kernel, &other.metric, &other.scale)
    }

    /// The entry of a candidate with the score of its best cell.
    fn new(of: &Learned, scaling: Scaling, best: Option<(f64, TuneCell)>, cells: Vec<TuneCell>) -> Self {
        Self {
            kernel: of.kernel.to_string(),
            metric: of.form.clone(),
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

pub(super) struct RungMeasure<'a, T: Real> {
    pub(super) options: &'a TuneOptions,
    pub(super) resources: &'a Resources<'a>,
    pub(super) cut: PassShape,
    pub(super) folds: &'a Folds,
    pub(super) targets: &'a Targets,
    pub(super) reading: &'a Reading,
    pub(super) rows: &'a MemoryRows<T>,
}

impl<T: Real> RungMeasure<'_, T> {
    pub(super) fn entry(&self, candidate: &Learned) -> Result<Entry> {
        let Learned { kernel, metric, .. } = candidate;
        // candidates would be copies of rows that are in memory anyway
        let known = metric.clone().map_or(MetricSource::None, MetricSource::of);
        let training = TrainOptions { metric: known, candidates: None, ..self.options.training.clone() };
        // held-out rows are of no use to the scores that need none
        let folds = if self.options.score == Score::Cv { self.folds } else { &Folds::None };
        let Self { rows: source, reading, targets, cut, resources, .. } = *self;
        let n = source.len() as u64;
        let rows = Rows { source, n, reading, targets, folds, options: &training, cut, resources };
        let (mapped, gram, observer) = rows.moments(metric.as_ref(), kernel)?;
        drop(observer);
        let p = mapped.map.dims().1;
        let mut ranks: Vec<usize> = match training.map.family().nested {
            true => training.ranks.iter().map(|rank| *rank.min(&p)).collect(),
            false => vec![p],
        };
        ranks.dedup();
        let cells = match self.options.score {
            Score::Alignment => self.alignments(&gram, &ranks)?,
            Score::Cv | Score::Gcv => self.surface(&gram, ranks)?,
        };
        Ok(self.best(candidate, cells))
    }

    fn alignments(&self, gram: &GramState, ranks: &[usize]) -> Result<Vec<TuneCell>> {
        let classes = matches!(self.targets, Targets::Classes(_));
        let alignments = centred_alignments(gram, ranks, classes)?;
        let cell = |(rank, alignment): (&usize, _)| TuneCell { rank: *rank, alignment, ..TuneCell::default() };
        Ok(ranks.iter().zip(alignments).map(cell).collect())
    }

    fn surface(&self, gram: &GramState, ranks: Vec<usize>) -> Result<Vec<TuneCell>> {
        let TuneOptions { lambdas, intercept, .. } = self.options;
        let (lambdas, target_centre) = (lambdas.clone(), self.targets.centre());
        let ridge = RidgeOptions { ranks, lambdas, intercept: *intercept, target_centre };
        let stage = self.resources.stages.stage("surface", None);
        let surface = Surface::compute(gram, &ridge, self.resources.workers, &*stage)?;
        let cell = |cell: &crate::Cell| TuneCell {
            rank: cell.rank,
            lambda: Some(cell.lambda),
            cv_mse: cell.cv_mse,
            gcv: cell.gcv,
            alignment: None,
        };
        Ok(surface.cells.iter().map(cell).collect())
    }

    /// Makes the entry of a kernel with its best cell: of equal ones the smaller rank, then the larger lambda.
    fn best(&self, candidate: &Learned, cells: Vec<TuneCell>) -> Entry {
        let score = self.options.score;
        let scored = cells.iter().filter_map(|cell| Some((cell.score(score).filter(|s| s.is_finite())?, cell)));
        let best = scored.min_by(|(x, a), (y, b)| {
            let lambda = |cell: &TuneCell| cell.lambda.unwrap_or(0.0);
            score.order(*x, *y).then(a.rank.cmp(&b.rank)).then(lambda(b).total_cmp(&lambda(a)))
        });
        Entry::new(candidate, self.options.training.scaling, best.map(|(score, cell)| (score, *cell)), cells)
    }
}

/// Number of rows of every rung: twice as many each time, up to the whole sample; none where there is nothing to
/// choose.
pub(super) fn sizes(kernels: usize, sample: usize) -> Vec<usize> {
    let (mut alive, mut rungs) = (kernels, 0);
    while alive > 1 {
        (alive, rungs) = (alive.div_ceil(HALVING), rungs + 1);
    }
    let size = |rung: usize| (sample / HALVING.pow(rung as u32)).max(FEWEST_ROWS.min(sample));
    let mut sizes: Vec<usize> = (0..rungs).rev().map(size).collect();
    // the same rows again would tell nothing new
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_double_up_to_the_whole_sample() {
        assert_eq!(sizes(1, 1000), [] as [usize; 0]);
        assert_eq!(sizes(2, 1000), [1000]);
        assert_eq!(sizes(5, 20_000), [5_000, 10_000, 20_000]);
        assert_eq!(sizes(9, 2_000), [500, 1_000, 2_000]);
        assert_eq!(sizes(3, 200), [200]);
    }
}
