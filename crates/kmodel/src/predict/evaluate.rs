//! Scores of a model on a table with true values.

use super::{Extras, Predictor, anomalous_rows::Smallest, error_clusters::ErrorClusters};
use crate::score::roc::{MAX_EXACT_ROWS, RankedScores};
use crate::score::{
    CalibrationBin, ClassificationScores, ClassificationSums, IntervalSums, LossSums, RankingRows, RankingScores,
    RegressionMetrics, RegressionScores, RegressionSums, SetSums, ThresholdScores, orient_score, serialize_count,
    serialize_optional_count,
};
use crate::{
    Classes, Error, RegressionLoss, Result, Task,
    run::{Run, StageObserver},
};
use kstore::key::{Purpose, Stream};
use kstore::{SelectedTable, budget::MemoryTerm, display};
use std::{borrow::Cow, collections::HashMap};

/// Scores of a model on rows with true values.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Evaluation {
    /// Scores of a model that predicts numbers.
    Regression(RegressionScores),
    /// Scores of a model that predicts labels.
    Classification(ClassificationScores),
}

/// Scores of a novelty detector on rows with known outliers.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct NoveltyScores {
    /// Number of rows scored. If rows have weights, all numbers of rows here are sums of weights.
    #[serde(serialize_with = "serialize_count")]
    pub rows: f64,
    /// Number of true outliers.
    #[serde(rename = "unusual", serialize_with = "serialize_count")]
    pub outliers: f64,
    /// Number of rows with a negative score; `None` for kernel PCA, whose reconstruction errors
    /// have no threshold.
    #[serde(rename = "negative", skip_serializing_if = "Option::is_none", serialize_with = "serialize_optional_count")]
    pub negative_scores: Option<f64>,
    /// Fraction of true outliers among the rows with a negative score.
    pub precision: Option<f64>,
    /// Fraction of the true outliers that have a negative score.
    pub recall: Option<f64>,
    /// Probability that an outlier has a lower score than a normal row; null if there are no
    /// outliers or no normal rows.
    pub auc: Option<f64>,
    /// Standard error of `auc` over rows.
    #[doc(hidden)]
    pub auc_standard_error: Option<f64>,
    /// Average precision of the rows by ascending score: the area under the precision-recall curve.
    pub average_precision: Option<f64>,
    /// Number of rows over which `precision_at` is computed: as requested, or else the number of
    /// outliers.
    #[serde(serialize_with = "serialize_count")]
    pub top: f64,
    /// Fraction of outliers among the `top` rows with the lowest scores.
    pub precision_at: Option<f64>,
}

/// Points of the charts of a report page.
#[derive(Clone, Debug, Default)]
pub struct ChartData {
    /// Prediction and truth of the first target, for a sample of the rows.
    pub points: Vec<(f64, f64)>,
    /// False and true positive rates at descending thresholds, for two classes.
    pub roc: Option<Vec<(f64, f64)>>,
    /// The same rates for each of more than two classes against the other classes, in the order of
    /// the labels; empty if a class has none.
    #[doc(hidden)]
    pub roc_by_class: Vec<Vec<(f64, f64)>>,
    /// Recall and precision at descending thresholds, for two classes and for novelty detection.
    pub precision: Option<Vec<(f64, f64)>>,
    /// Fraction of the rows, and of the positives among them, at descending thresholds, for two
    /// classes and for novelty detection.
    #[doc(hidden)]
    pub gains: Option<Vec<(f64, f64)>>,
    /// Scores at some thresholds between two classes: the decision threshold, some probabilities,
    /// and, if costs were specified, the cheapest threshold.
    pub thresholds: Vec<ThresholdScores>,
    /// Predicted probabilities and observed fractions, by ascending probability, for models with
    /// probabilities. For two classes these are probabilities of the positive class, for more
    /// classes of the predicted class.
    pub calibration: Option<Vec<CalibrationBin>>,
}

/// Maximum number of points in a residual plot; more points would overlap.
const MAX_CHART_POINTS: usize = 2_000;

/// Number of standard deviations around the mean that contain 95 % of a normal distribution.
const NORMAL_95: f64 = 1.959_964;

/// Maximum number of points of a ROC or precision-recall curve in the charts.
const MAX_CURVE_POINTS: usize = 60;

/// Probabilities marked on the curves.
const MARKED_PROBABILITIES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// Number of rows with the largest errors that a warning names.
const WORST_ROWS: usize = 3;
/// Minimum number of rows of a table for this warning.
const MIN_ROWS_TO_WARN: u64 = 300;
/// Minimum fraction of the squared error that the named rows must cause for this warning.
const MIN_ERROR_FRACTION: f64 = 0.25;

/// Default number of scored places per group, for rankings.
const DEFAULT_TOP: u64 = 10;

/// Random key and index of a row, with the bits of its prediction and of its true value.
type SamplePoint = (u64, u64, [u64; 2]);

impl Predictor {
    /// Scores the model on selected rows with its targets, or its label column. Standard errors of
    /// scores treat the rows as independent, except for test rows that are whole groups or the last
    /// rows: these have standard errors over groups, or over blocks of consecutive rows.
    ///
    /// *Cost*: one pass, with one prediction per row. *Bytes*: as [`Predictor::score_table`] and,
    /// for classes, the scores, which are sorted for ROC curves.
    ///
    /// # Errors
    /// A model without a target; too few or too many targets; errors of [`Predictor::score_table`];
    /// scores that overflow.
    pub fn evaluate(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<(Evaluation, ChartData)> {
        let metadata = self.metadata();
        if !metadata.task.has_target() {
            let why = format!("a model of {} has no true values to compare with; use predict", metadata.task);
            return Err(Error::option("model", "", why));
        }
        let (selected, clusters) = match ErrorClusters::of(selected, run)? {
            Some((selected, clusters)) => (selected, Some(clusters)),
            None => (Cow::Borrowed(selected), None),
        };
        match self.decision_classes() {
            None => self.evaluate_regression(&selected, clusters, run),
            Some(classes) => self.evaluate_classification(&selected, &classes, clusters, run),
        }
    }

    /// Scores a novelty detector on rows with a column that is 0 for normal rows. `precision_at` is
    /// computed over the `top` rows with the lowest scores, by default as many as there are
    /// outliers. The score of kernel PCA is minus the reconstruction error.
    ///
    /// *Cost*: one pass. *Bytes*: as [`Predictor::score_table`], and the scores that are sorted.
    ///
    /// # Errors
    /// A model of another task, several columns, errors of [`Predictor::score_table`].
    pub fn evaluate_novelty(
        &self,
        selected: &SelectedTable,
        top: Option<u64>,
        run: &Run<'_>,
    ) -> Result<(NoveltyScores, ChartData)> {
        let names = selected.target_names();
        if !self.scores_anomalies() || names.len() != 1 {
            let why = "expected a model of oneclass or mean, or of kpca with `novelty`, and one target column: 0 for normal \
                       rows, 1 for outliers";
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut ranked_scores, mut scores) = (RankedScores::new(MAX_EXACT_ROWS), NoveltyScores::default());
        let has_threshold = self.metadata().task == Task::Novelty;
        let extras = Extras { novelty: !has_threshold, ..Extras::default() };
        let (mut negative_scores, mut true_positives) = (0.0, 0.0);
        self.score_table(selected, extras, vec![ranking_term(selected, 2)], run, |block| {
            let (values, sign) = if has_threshold { (&block.scores, 1.0) } else { (&block.quadratic, -1.0) };
            for (i, (value, truth)) in values.iter().zip(&block.y).enumerate() {
                let score = sign * value;
                let (is_outlier, is_negative, weight) = (*truth != 0.0, score < 0.0, block.weights.get(i));
                let weight_if = |condition: bool| if condition { weight } else { 0.0 };
                ranked_scores.push(-score, is_outlier, weight);
                scores.rows += weight;
                scores.outliers += weight_if(is_outlier);
                negative_scores += weight_if(is_negative);
                true_positives += weight_if(is_outlier && is_negative);
            }
            Ok(())
        })?;
        let fraction_of = |total: f64| (has_threshold && total > 0.0).then(|| true_positives / total);
        (scores.precision, scores.recall) = (fraction_of(negative_scores), fraction_of(scores.outliers));
        scores.negative_scores = has_threshold.then_some(negative_scores);
        let ranking = ranked_scores.ranking();
        (scores.auc, scores.average_precision) = (ranking.auc().map(|auc| auc.value), ranking.average_precision());
        scores.auc_standard_error = ranking.auc_standard_error();
        scores.top = top.map_or(scores.outliers, |top| top as f64);
        scores.precision_at = ranking.precision_at(scores.top);
        let (roc, precision) = (ranking.roc_curve(MAX_CURVE_POINTS), ranking.precision_curve(MAX_CURVE_POINTS));
        Ok((scores, ChartData { roc, precision, gains: ranking.gains_curve(MAX_CURVE_POINTS), ..ChartData::default() }))
    }

    /// Compares the order in which a model with one output ranks the rows of every group of
    /// `selected` with the grades in the target column. Scores the first `top` places of each
    /// group, by default 10. Without a group column, all rows are one group.
    ///
    /// *Cost*: one pass, with one prediction per row, and n ln n steps to sort the n scores.
    /// *Bytes*: as [`Predictor::score_table`], and 60 bytes per row.
    ///
    /// # Errors
    /// A model with several outputs, or with classes; several targets; row weights; errors of
    /// [`Predictor::score_table`].
    pub fn evaluate_ranking(&self, selected: &SelectedTable, top: Option<u64>, run: &Run<'_>) -> Result<RankingScores> {
        let names = selected.target_names();
        if !self.metadata().task.has_target()
            || self.output_count() != 1
            || self.classes().is_some()
            || names.len() != 1
        {
            let why = "expected a model with one number per row, and one column of grades; use another model, or evaluate without groups";
            return Err(Error::option("target", names.join(","), why));
        }
        if selected.is_weighted() {
            let why = "pairs of rows are scored, and pairs have no weights; evaluate without weights";
            return Err(Error::option("weights", "", why));
        }
        let range = selected.range();
        let row_count = selected.row_count_if_known().unwrap_or(range.end - range.start);
        let plan_term = MemoryTerm::new(
            "rows to rank",
            RankingRows::bytes(usize::try_from(row_count).unwrap_or(usize::MAX)),
            "evaluate fewer rows at a time",
        );
        // identify groups by 64-bit digests of their labels, which may be long. The probability
        // that two of a million labels have the same digest is one in thirty million
        let (mut ranking_rows, mut codes) = (RankingRows::default(), HashMap::<u64, u32>::new());
        self.score_table(selected, Extras::default(), vec![plan_term], run, |block| {
            for (i, (score, grade)) in block.scores.iter().zip(&block.y).enumerate() {
                let next_code = codes.len() as u32;
                let group = block.groups.get(i).map_or(0, |label| *codes.entry(label.digest()).or_insert(next_code));
                ranking_rows.push(group, *score, *grade);
            }
            Ok(())
        })?;
        Ok(ranking_rows.scores(top.unwrap_or(DEFAULT_TOP), run.workers()))
    }

    /// Returns the power 2 − p of exposures; `None` without exposures. A model with exposures e
    /// predicts rates μ: the deviance of a count y at its mean eμ is e^(2−p) times the deviance of
    /// the rate y/e at μ.
    pub(super) fn exposure_power(&self, selected: &SelectedTable) -> Option<f64> {
        match (&self.metadata().loss, self.metadata().exposure_column()) {
            (Some(RegressionLoss::Deviance(power)), Some(_)) if selected.is_weighted() => Some(2.0 - power),
            _ => None,
        }
    }

    fn evaluate_regression(
        &self,
        selected: &SelectedTable,
        clusters: Option<ErrorClusters>,
        run: &Run<'_>,
    ) -> Result<(Evaluation, ChartData)> {
        let (output_count, names) = (self.output_count(), selected.target_names());
        let mut loss_sums = self.metadata().loss.clone().map(|loss| LossSums::new(loss, output_count));
        // quantiles are also scored as predictions, by the level nearest to ½
        let central_outputs: Vec<usize> =
            loss_sums.as_ref().map_or((0..output_count).collect(), |sums| sums.central_outputs().collect());
        let t = central_outputs.len();
        if names.len() != t {
            let why = format!("the model predicts {t} targets; name the same number, in the order of the fit");
            return Err(Error::option("target", names.join(","), why));
        }
        let cluster_count = clusters.as_ref().map(|clusters| clusters.count);
        let mut regression_sums = cluster_count.into_iter().fold(RegressionSums::new(t), RegressionSums::with_clusters);
        let stream = Stream::new(0, Purpose::Quality, 0);
        // a uniform sample of the rows: those with the smallest random keys
        let (mut sample, mut row_index) = (Smallest::<SamplePoint>::new(MAX_CHART_POINTS), 0);
        let interval_levels = self.interval_levels();
        let mut interval_sums = IntervalSums::new(interval_levels, t);
        let extras =
            Extras { std: self.quadratic().is_some(), intervals: !interval_levels.is_empty(), ..Extras::default() };
        let row_count = selected.row_count_if_known().map_or(usize::MAX, |rows| rows as usize);
        let interval_bytes = IntervalSums::bytes(interval_levels.len(), t, row_count);
        let cluster_bytes = RegressionSums::cluster_bytes(t, cluster_count.unwrap_or(0));
        let bytes = RegressionSums::bytes(t, row_count) + interval_bytes + cluster_bytes;
        let plan_term = MemoryTerm::new("errors to rank", bytes, "");
        let (mut covered_weight, mut worst_rows) = (0.0, Smallest::<(u64, u64)>::new(WORST_ROWS));
        let (mut squared_error_sum, mut prediction) = (0.0, Vec::new());
        let exposure_power = self.exposure_power(selected);
        self.score_table(selected, extras, vec![plan_term], run, |scores| {
            let is_covered =
                |((deviation, prediction), truth): (_, &f64)| f64::abs(truth - prediction) <= NORMAL_95 * deviation;
            let deviations = self.standard_deviations(scores);
            let scored_rows = deviations.iter().zip(&scores.scores).zip(&scores.y).enumerate();
            covered_weight += scored_rows
                .filter(|(_, row)| is_covered(*row))
                .map(|(index, _)| scores.weights.get(index / t))
                .sum::<f64>();
            let (intervals, ends_per_row) = (self.intervals(scores), 2 * t * interval_levels.len());
            let rows = scores.scores.chunks_exact(output_count).zip(scores.y.chunks_exact(t)).zip(&scores.row_numbers);
            for (i, ((outputs, truth), row_number)) in rows.enumerate() {
                let (mut weight, mut truth) = (scores.weights.get(i), Cow::Borrowed(truth));
                if let Some(power) = exposure_power {
                    truth.to_mut().iter_mut().for_each(|y| *y /= weight);
                    weight = weight.powf(power);
                }
                let truth = &truth[..];
                if let Some(loss_sums) = &mut loss_sums {
                    loss_sums.push(outputs, truth, weight);
                }
                prediction.clear();
                prediction.extend(central_outputs.iter().map(|k| outputs[*k]));
                regression_sums.push(&prediction, truth, weight);
                if let Some(clusters) = &clusters {
                    let cluster = clusters.cluster_of(*row_number, scores.groups.get(i));
                    regression_sums.push_to_cluster(cluster, &prediction, truth, weight);
                }
                interval_sums.push(&intervals[i * ends_per_row..(i + 1) * ends_per_row], &prediction, truth, weight);
                let squared_error = weight * prediction.iter().zip(truth).map(|(p, y)| (p - y).powi(2)).sum::<f64>();
                squared_error_sum += squared_error;
                // floats that are not negative compare like the integers with the same bits
                worst_rows.push((u64::MAX - squared_error.to_bits(), *row_number));
                sample.push((stream.word(row_index), row_index, [prediction[0].to_bits(), truth[0].to_bits()]));
                row_index += 1;
            }
            Ok(())
        })?;
        let mut scores = regression_sums.scores(names.clone());
        scores.error_clusters = clusters.and_then(|clusters| clusters.report(regression_sums.cluster_count()));
        scores.loss = loss_sums.map(|sums| sums.scores(&names));
        scores.intervals = interval_sums.scores(&names);
        let all_scores = std::iter::once(&scores.scores).chain(scores.by_target.iter().map(|target| &target.scores));
        all_scores.into_iter().try_for_each(|target_scores| check_finite(target_scores, row_index))?;
        let value_count = scores.rows * t as f64;
        scores.coverage = (extras.std && value_count > 0.0).then(|| covered_weight / value_count);
        warn_worst_rows(&worst_rows.into_sorted_vec(), squared_error_sum, row_index, run);
        let mut sample_points = sample.into_sorted_vec();
        sample_points.sort_unstable_by_key(|(_, row, _)| *row);
        let points = sample_points.into_iter().map(|(_, _, [prediction, truth])| (prediction, truth));
        let points = points.map(|(prediction, truth)| (f64::from_bits(prediction), f64::from_bits(truth))).collect();
        Ok((Evaluation::Regression(scores), ChartData { points, ..ChartData::default() }))
    }

    fn evaluate_classification(
        &self,
        selected: &SelectedTable,
        classes: &Classes,
        clusters: Option<ErrorClusters>,
        run: &Run<'_>,
    ) -> Result<(Evaluation, ChartData)> {
        let sums = ClassificationSums::new(classes, self.metadata().link.clone(), self.rule.positive_class);
        let cluster_count = clusters.as_ref().map(|clusters| clusters.count);
        let mut classification_sums = cluster_count.into_iter().fold(sums, ClassificationSums::with_clusters);
        let (class_count, interval_levels) = (classes.labels().len(), self.interval_levels());
        let row_count = selected.row_count_if_known().map_or(usize::MAX, |rows| rows as usize);
        let cluster_bytes =
            cluster_count.map_or(0, |count| ClassificationSums::cluster_bytes(class_count, count, row_count));
        let plan_terms =
            vec![ranking_term(selected, class_count), MemoryTerm::new("clusters of the rows", cluster_bytes, "")];
        let mut set_sums = SetSums::new(interval_levels, class_count);
        let extras = Extras { intervals: !interval_levels.is_empty(), ..Extras::default() };
        self.score_table(selected, extras, plan_terms, run, |scores| {
            let rows = scores.scores.chunks_exact(classes.target_count()).zip(&scores.classes).enumerate();
            rows.for_each(|(i, (row, code))| {
                let cluster = clusters.as_ref().zip(scores.row_numbers.get(i));
                let cluster = cluster.map(|(clusters, row)| clusters.cluster_of(*row, scores.groups.get(i)));
                classification_sums.push(row, *code, scores.weights.get(i), cluster);
            });
            let sets = self.intervals(scores);
            let sets_of_rows = sets.chunks_exact((class_count * interval_levels.len()).max(1)).zip(&scores.classes);
            sets_of_rows.enumerate().for_each(|(i, (set, code))| {
                set_sums.push(set, *code as usize, scores.weights.get(i));
            });
            Ok(())
        })?;
        let (ranking, class_rankings) =
            (classification_sums.ranking(), classification_sums.class_rankings(MAX_CURVE_POINTS));
        let mut marked_scores = vec![self.rule.threshold];
        marked_scores.extend(
            MARKED_PROBABILITIES
                .into_iter()
                .filter_map(|p| self.score_at(p).filter(|_| self.metadata().link.is_some())),
        );
        marked_scores.extend(ranking.as_ref().zip(self.rule.costs).and_then(|(ranking, costs)| {
            Some(orient_score(ranking.cheapest_threshold(costs)?, self.rule.positive_class))
        }));
        let threshold_scores = |ranking| {
            marked_scores
                .iter()
                .map(|score| {
                    classification_sums.threshold_scores(ranking, orient_score(*score, self.rule.positive_class))
                })
                .collect()
        };
        let chart_data = ChartData {
            points: Vec::new(),
            thresholds: ranking.as_ref().map_or(Vec::new(), threshold_scores),
            roc: ranking.as_ref().and_then(|ranking| ranking.roc_curve(MAX_CURVE_POINTS)),
            roc_by_class: class_rankings.iter().map(|ranking| ranking.roc.clone().unwrap_or_default()).collect(),
            precision: ranking.as_ref().and_then(|ranking| ranking.precision_curve(MAX_CURVE_POINTS)),
            gains: ranking.as_ref().and_then(|ranking| ranking.gains_curve(MAX_CURVE_POINTS)),
            calibration: classification_sums.calibration(),
        };
        let cluster_report = clusters.and_then(|clusters| clusters.report(classification_sums.cluster_count()));
        let scores = classification_sums.scores(ranking.as_ref(), self.rule.costs, self.rule.top);
        let mut scores = scores.with_class_rankings(&class_rankings);
        scores.error_clusters = cluster_report;
        scores.sets = set_sums.scores();
        Ok((Evaluation::Classification(scores), chart_data))
    }
}

fn warn_worst_rows(worst_rows: &[(u64, u64)], squared_error_sum: f64, row_count: u64, run: &Run<'_>) {
    let worst_error_sum = worst_rows.iter().map(|(bits, _)| f64::from_bits(u64::MAX - bits)).sum::<f64>();
    if row_count >= MIN_ROWS_TO_WARN
        && squared_error_sum > 0.0
        && worst_error_sum >= MIN_ERROR_FRACTION * squared_error_sum
    {
        // without separators of thousands, which would look like further rows
        let row_numbers: Vec<String> = worst_rows.iter().map(|(_, row)| row.to_string()).collect();
        run.stage_recorder().warn(format!(
            "{} of {} rows cause {:.0} % of the squared error: rows {} (counted from 0); check them for wrong values",
            worst_rows.len(),
            display::format_count(row_count),
            100.0 * (worst_error_sum / squared_error_sum),
            row_numbers.join(", ")
        ));
    }
}

/// Returns the memory of the scores that are stored to be ranked.
fn ranking_term(selected: &SelectedTable, class_count: usize) -> MemoryTerm {
    let rows = selected.row_count_if_known().map_or(usize::MAX, |rows| rows as usize);
    MemoryTerm::new("scores to rank", ClassificationSums::ranking_bytes(class_count, rows), "")
}

fn check_finite(scores: &RegressionMetrics, rows: u64) -> Result<()> {
    let not_finite = |(what, value): (_, Option<f64>)| Some((what, value.filter(|value| !value.is_finite())?));
    match scores.named_values().into_iter().find_map(not_finite) {
        Some((what, value)) => Err(Error::ScoreOverflow { what, rows, value }),
        None => Ok(()),
    }
}
