//! Prediction intervals and prediction sets of rows, from the functions of the folds.

use super::forecast_paths::ForecastIntervals;
use super::{AnyPreparedModel, Extras, NOISE_VARIANCE, Predictor, PreparedModel, Scores, standard_deviation};
use crate::intervals::{Intervals, ScoreDistribution};
use crate::model::{AnyModel, Model, match_precision};
use crate::rank_sketch::{RankSketch, RankedRow};
use crate::run::{NoStageObserver, Run};
use crate::{Error, Folds, Link, Result, Task};
use kapprox::Real;
use kstore::{Label, SelectedTable, budget::MemoryTerm};
use std::{ops::Range, sync::Arc};

/// The folds of the training rows of a model whose intervals are computed.
#[derive(Debug)]
pub struct TrainingFolds {
    /// The fold of every row.
    pub folds: Folds,
    /// Labels of the fold column, sorted; empty without a fold column.
    pub group_labels: Vec<Label>,
    /// The folds whose functions the model has, in the order of the functions.
    pub scored_folds: Vec<usize>,
    /// The number by which the fit divided the row weights.
    pub weight_unit: f64,
}

/// Everything that intervals of rows need except the functions of the folds.
#[derive(Clone, Debug)]
pub(super) struct IntervalRule {
    intervals: Arc<Intervals>,
    rule: ScoreRule,
    /// Intervals of the later steps of a forecast.
    forecast: Option<Arc<ForecastIntervals>>,
}

/// How scores of held-out rows are computed from the outputs of a fold's functions.
#[derive(Clone, Debug)]
struct ScoreRule {
    /// Number of outputs of each fold's functions.
    output_count: usize,
    /// Number of outputs of each target, whose first and last are the ends of an interval.
    outputs_per_target: usize,
    /// Noise variance of each target, if the model has standard deviations.
    noise_variances: Vec<f64>,
    /// Link to probabilities and number of classes, for classes.
    classes: Option<(Link, usize)>,
}

impl ScoreRule {
    fn score_count(&self) -> usize {
        if self.classes.is_some() { 1 } else { self.output_count / self.outputs_per_target }
    }

    /// Returns the factor of the scores of a target for a row with this variance.
    fn scale(&self, target: usize, variance: Option<f64>) -> f64 {
        let deviation = self.noise_variances.get(target).zip(variance);
        let deviation = deviation.map(|(noise, variance)| standard_deviation(*noise, variance + NOISE_VARIANCE));
        // a fit without errors has no noise
        deviation.filter(|deviation| *deviation > 0.0).unwrap_or(1.0)
    }

    /// Sorts the quantiles of each target, so that the ends of intervals do not cross.
    fn sort_quantiles(&self, fold_outputs: &mut [f64]) {
        fold_outputs
            .chunks_exact_mut(self.outputs_per_target)
            .for_each(|quantiles| quantiles.sort_unstable_by(f64::total_cmp));
    }
}

impl IntervalRule {
    pub(super) fn levels(&self) -> &[f64] {
        &self.intervals.levels
    }

    /// Returns whether scores are multiples of the standard deviation of a row.
    pub(super) fn needs_variances(&self) -> bool {
        !self.rule.noise_variances.is_empty()
    }

    pub(super) fn scale(&self, target: usize, variance: Option<f64>) -> f64 {
        self.rule.scale(target, variance)
    }

    pub(super) fn pooled_scores(&self, target: usize) -> ScoreDistribution {
        self.intervals.pooled_scores(target, self.rule.score_count())
    }

    /// Returns the number of values of a row: two ends for each level and target, or, for each
    /// level and class, 1 if the set contains the class and otherwise 0.
    pub(super) fn value_count(&self) -> usize {
        let per_level = self.rule.classes.as_ref().map_or(2 * self.rule.score_count(), |(_, classes)| *classes);
        self.intervals.levels.len() * per_level
    }

    /// Returns the values of some rows, row-major.
    pub(super) fn values(&self, scores: &Scores, rows: Range<usize>) -> Vec<f64> {
        let width = scores.components.len() / scores.row_numbers.len().max(1);
        let mut values = Vec::with_capacity(rows.len() * self.value_count());
        let mut fold_outputs = Vec::new();
        for row in rows {
            if let Some(ends) = self.forecast.as_ref().and_then(|forecast| forecast.ends(scores.row_numbers[row])) {
                values.extend_from_slice(ends);
                continue;
            }
            fold_outputs.clear();
            fold_outputs.extend_from_slice(&scores.components[row * width..(row + 1) * width]);
            match &self.rule.classes {
                Some((link, _)) => self.append_set(link, &fold_outputs, &mut values),
                None => {
                    self.rule.sort_quantiles(&mut fold_outputs);
                    self.append_ends(&fold_outputs, scores.quadratic.get(row).copied(), &mut values);
                }
            }
        }
        values
    }

    fn append_ends(&self, fold_outputs: &[f64], variance: Option<f64>, values: &mut Vec<f64>) {
        let (target_count, per_target) = (self.rule.score_count(), self.rule.outputs_per_target);
        for level in &self.intervals.levels {
            for target in 0..target_count {
                let fold_ends = |end: usize, sign: f64| -> Vec<f64> {
                    let ends = fold_outputs.iter().skip(target * per_target + end).step_by(self.rule.output_count);
                    ends.map(|value| sign * value).collect()
                };
                let (position, scale) = ((target, target_count), self.rule.scale(target, variance));
                let end = |centres: Vec<f64>| self.intervals.upper_end(*level, position, &centres, scale);
                // the lower end is the upper end of the negated target
                let (lower, upper) = (-end(fold_ends(0, -1.0)), end(fold_ends(per_target - 1, 1.0)));
                // quantiles far outside the level may move past each other: the interval is a point
                let middle = 0.5 * lower + 0.5 * upper;
                values.extend(if lower <= upper { [lower, upper] } else { [middle; 2] });
            }
        }
    }

    fn append_set(&self, link: &Link, fold_outputs: &[f64], values: &mut Vec<f64>) {
        let mut probabilities = Vec::new();
        let fold_probabilities: Vec<Vec<f64>> = fold_outputs
            .chunks_exact(self.rule.output_count)
            .map(|outputs| {
                link.probabilities(outputs, &mut probabilities);
                probabilities.clone()
            })
            .collect();
        let class_count = self.rule.classes.as_ref().map_or(0, |(_, classes)| *classes);
        for level in &self.intervals.levels {
            for class in 0..class_count {
                let scores = fold_probabilities.iter().map(|probabilities| 1.0 - probabilities[class]);
                values.push(f64::from(u8::from(self.intervals.contains(*level, scores))));
            }
        }
    }
}

impl Predictor {
    fn score_rule(&self) -> ScoreRule {
        let metadata = self.metadata();
        let is_regression = metadata.task == Task::Regression;
        let noise_variances =
            self.quadratic().filter(|_| is_regression).map(|quadratic| quadratic.output_scales.clone());
        let classes = metadata.link.clone().filter(|_| !metadata.classes.is_empty());
        ScoreRule {
            output_count: self.output_count(),
            outputs_per_target: metadata.outputs_per_target(),
            noise_variances: noise_variances.unwrap_or_default(),
            classes: classes.map(|link| (link, metadata.classes.len())),
        }
    }

    pub(super) fn interval_rule(&self) -> Option<IntervalRule> {
        let intervals = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.intervals.clone())?;
        Some(IntervalRule { intervals, rule: self.score_rule(), forecast: self.forecast_intervals.clone() })
    }

    /// Returns the levels of the prediction intervals or sets, ascending; empty for models without
    /// them.
    #[doc(hidden)]
    pub fn interval_levels(&self) -> &[f64] {
        let intervals = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.intervals.as_ref());
        intervals.map_or(&[], |intervals| &intervals.levels)
    }

    /// Returns the prediction intervals of the rows of `scores`, row-major: the lower and the upper
    /// end for each level and target. For classes, returns the prediction sets: for each level and
    /// class, 1 if the set contains the class and otherwise 0. Empty unless [`Extras::intervals`]
    /// is set.
    #[doc(hidden)]
    pub fn intervals(&self, scores: &Scores) -> Vec<f64> {
        let rule = self.interval_rule().filter(|_| !scores.components.is_empty());
        rule.map_or(Vec::new(), |rule| rule.values(scores, 0..scores.row_numbers.len()))
    }

    /// Returns the bytes of the held-out scores during [`Predictor::into_model_with_intervals`].
    #[doc(hidden)]
    pub fn held_out_score_bytes(rows: usize, fold_count: usize, target_count: usize) -> usize {
        fold_count * target_count * RankSketch::bytes(rows.div_ceil(fold_count.max(1)).saturating_mul(2))
    }

    /// Returns the model with the scores of the held-out rows, from which prediction intervals or
    /// sets of these levels are computed. The components of the model must be the functions of the
    /// folds. Makes one pass over the training rows.
    ///
    /// # Errors
    /// Too few rows for the highest level; errors of [`Predictor::score_table`].
    #[doc(hidden)]
    pub fn into_model_with_intervals(
        self,
        selected: &SelectedTable,
        training_folds: &TrainingFolds,
        levels: Vec<f64>,
        run: &Run<'_>,
    ) -> Result<AnyModel> {
        let TrainingFolds { folds, group_labels, scored_folds, weight_unit } = training_folds;
        let (rule, extras) = (self.score_rule(), Extras { intervals: true, ..Extras::default() });
        let score_count = rule.score_count();
        let mut sketches = vec![RankSketch::default(); scored_folds.len() * score_count];
        let rows = selected.row_count_if_known().map_or(usize::MAX, |rows| rows as usize);
        let bytes = Self::held_out_score_bytes(rows, scored_folds.len(), score_count);
        let terms = vec![MemoryTerm::new("held-out scores", bytes, "use fewer folds")];
        let (width, mut probabilities) = (rule.output_count, Vec::new());
        let add_rows = |scores: &Scores| {
            let fold_outputs = scores.components.chunks_exact(width * scored_folds.len());
            for (i, (row_outputs, row)) in fold_outputs.zip(&scores.row_numbers).enumerate() {
                let group = scores.groups.get(i).and_then(|label| group_labels.binary_search(label).ok());
                let group = group.map_or(kstore::LabelCodes::UNKNOWN, |group| group as u32);
                let fold = folds.fold_of(*row, group)?;
                let Some(position) = scored_folds.iter().position(|scored| *scored == fold) else { continue };
                let mut outputs = row_outputs[position * width..(position + 1) * width].to_vec();
                let weight = scores.weights.get(i) / weight_unit;
                let mut push = |target: usize, score: f64| {
                    sketches[position * score_count + target].push(RankedRow { key: score, weight, sums: [0.0; 2] });
                };
                if let Some((link, _)) = &rule.classes {
                    link.probabilities(&outputs, &mut probabilities);
                    let probability = scores.classes.get(i).and_then(|code| probabilities.get(*code as usize));
                    push(0, 1.0 - probability.ok_or(Error::UnknownClass { row: *row })?);
                    continue;
                }
                rule.sort_quantiles(&mut outputs);
                for (target, ends) in outputs.chunks_exact(rule.outputs_per_target).enumerate() {
                    let y = scores.y[i * score_count + target];
                    let distance = (ends[0] - y).max(y - ends[ends.len() - 1]);
                    push(target, distance / rule.scale(target, scores.quadratic.get(i).copied()));
                }
            }
            Ok(())
        };
        // the passes of the fit have given the warnings about these rows
        let run = run.clone().observer(&NoStageObserver);
        let lane_count = run.workers().threads();
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.score_table(selected, extras, self.explanation_target(), lane_count, terms, &run, add_rows))?;
        let intervals = Some(Arc::new(Intervals::new(levels, sketches, score_count)?));
        Ok(match_precision!(AnyPreparedModel to AnyModel: self.model, prepared => with_intervals(prepared, intervals)))
    }
}

fn with_intervals<T: Real>(prepared: Arc<PreparedModel<T>>, intervals: Option<Arc<Intervals>>) -> Model<T> {
    let model = Arc::try_unwrap(prepared).map_or_else(|shared| shared.model.clone(), |prepared| prepared.model);
    Model { intervals, ..model }
}
