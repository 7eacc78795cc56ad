//! Scores of predictions: sums over pairs of prediction and true value.

mod calibration;
mod class_scores;
mod classification;
pub(crate) mod clusters;
mod column_effects;
mod intervals;
mod median;
mod naive_forecast;
mod one_vs_rest;
mod output_loss;
mod ranking;
pub(crate) mod roc;
pub(crate) mod standard_error;

pub use class_scores::{
    CalibrationBin, ClassScores, ClassificationErrors, ClassificationScores, CostScores, ThresholdScores, TopScores,
};
#[doc(hidden)]
pub use class_scores::{MacroMeans, OneVsRestScores};
pub(crate) use classification::{ClassificationSums, orient_score};
#[doc(hidden)]
pub use clusters::ClusterReport;
pub(crate) use clusters::ClusterSums;
#[doc(hidden)]
pub use column_effects::{ColumnEffect, ColumnEffects, DependencePoint, PredictionSpread};
pub use intervals::{DecileScores, PredictionIntervalScores, PredictionSetScores};
pub(crate) use intervals::{IntervalSums, SetSums};
#[doc(hidden)]
pub use naive_forecast::NaiveForecast;
pub(crate) use output_loss::LossSums;
pub use output_loss::{IntervalScores, LossScores, OutputLoss};
pub(crate) use ranking::RankingRows;
pub use ranking::RankingScores;

use median::RunningMedian;
use serde::{Serialize, Serializer};
use standard_error::{R2Moments, RowMean, of_root};
use std::ops::Range;

/// A number of rows, or a sum of their weights; integral values become JSON integers.
struct RowCount(f64);

impl Serialize for RowCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.fract() == 0.0 {
            true => serializer.serialize_u64(self.0 as u64),
            false => serializer.serialize_f64(self.0),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(crate) fn serialize_count<S: Serializer>(rows: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    RowCount(*rows).serialize(serializer)
}

pub(crate) fn serialize_optional_count<S: Serializer>(rows: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    rows.map(RowCount).serialize(serializer)
}

fn serialize_counts<S: Serializer>(matrix: &[Vec<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(matrix.iter().map(|row| row.iter().map(|rows| RowCount(*rows)).collect::<Vec<_>>()))
}

/// Weighted sums for one target y with errors e = y − prediction: Σ|e|, Σe², Σ(e/y)² and Σ|e/y|,
/// the median of |e|, the mean ȳ, and Σ(y − ȳ)².
#[derive(Clone, Debug, Default)]
struct TargetSums {
    absolute_errors: f64,
    squared_errors: f64,
    squared_relative_errors: f64,
    absolute_relative_errors: f64,
    median_error: RunningMedian,
    has_zero_truth: bool,
    weight_sum: f64,
    truth_mean: f64,
    centred_square_sum: f64,
    first_truth: Option<f64>,
    has_distinct_truths: bool,
    /// Squared and absolute errors by row.
    row_errors: RowErrors,
    r2_moments: R2Moments,
}

/// Squared and absolute errors by row, averaged over the targets of the row.
#[derive(Clone, Debug, Default)]
struct RowErrors {
    squared: RowMean,
    absolute: RowMean,
}

impl RowErrors {
    /// Returns the standard errors of mse, rmse and mae.
    fn standard_errors(&self) -> RegressionErrors {
        let mse = self.squared.standard_error();
        let rmse = mse.zip(self.squared.mean()).and_then(|(error, mean)| of_root(mean, error));
        RegressionErrors { mse, rmse, mae: self.absolute.standard_error(), r2: None }
    }
}

impl TargetSums {
    fn push(&mut self, prediction: f64, truth: f64, weight: f64) {
        let error = truth - prediction;
        self.absolute_errors += weight * error.abs();
        self.squared_errors += weight * (error * error);
        self.has_zero_truth |= truth == 0.0;
        self.squared_relative_errors += weight * (error / truth).powi(2);
        self.absolute_relative_errors += weight * (error / truth).abs();
        self.median_error.push(error.abs(), weight);
        self.has_distinct_truths |= *self.first_truth.get_or_insert(truth) != truth;
        // Welford's update: no cancellation for targets far from zero
        self.weight_sum += weight;
        let deviation = truth - self.truth_mean;
        self.truth_mean += weight * deviation / self.weight_sum;
        self.centred_square_sum += weight * deviation * (truth - self.truth_mean);
        self.row_errors.squared.push(error * error, weight);
        self.row_errors.absolute.push(error.abs(), weight);
        self.r2_moments.push(error, truth, weight);
    }

    fn standard_errors(&self) -> RegressionErrors {
        let r2 = self.scores().r2;
        let variance = self.centred_square_sum / self.weight_sum;
        let r2 = r2.and_then(|r2| self.r2_moments.standard_error(r2, variance));
        RegressionErrors { r2, ..self.row_errors.standard_errors() }
    }

    fn scores(&self) -> RegressionMetrics {
        let mean = |sum: f64| if self.weight_sum > 0.0 { Some(sum / self.weight_sum) } else { None };
        let mse = mean(self.squared_errors);
        RegressionMetrics {
            mse,
            rmse: mse.map(f64::sqrt),
            mae: mean(self.absolute_errors),
            median_error: self.median_error.median(),
            mape: mean(self.absolute_relative_errors).filter(|_| !self.has_zero_truth),
            r2: (self.has_distinct_truths && self.centred_square_sum > 0.0)
                .then(|| 1.0 - self.squared_errors / self.centred_square_sum),
            relative_error: mean(self.squared_relative_errors).filter(|_| !self.has_zero_truth).map(f64::sqrt),
        }
    }
}

/// Scores of one target, or averages over targets.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RegressionMetrics {
    /// Mean squared error.
    pub mse: Option<f64>,
    /// Root of the mean squared error.
    pub rmse: Option<f64>,
    /// Mean absolute error.
    pub mae: Option<f64>,
    /// Median of the absolute errors: exact for up to 65,536 rows, and within 0.1 % for more rows.
    pub median_error: Option<f64>,
    /// Mean absolute percentage error as a fraction, mean |e/y|; null if any y is 0.
    pub mape: Option<f64>,
    /// Coefficient of determination, 1 − Σe²/Σ(y − ȳ)²; null for a constant target.
    pub r2: Option<f64>,
    /// Root mean squared percentage error as a fraction, √mean((e/y)²); null if any y is 0.
    pub relative_error: Option<f64>,
}

impl RegressionMetrics {
    /// Returns the scores with their names: first the errors in the units of the target.
    pub fn named_values(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("rmse", self.rmse),
            ("mae", self.mae),
            ("median error", self.median_error),
            ("r2", self.r2),
            ("mape", self.mape),
            ("rmspe", self.relative_error),
            ("mse", self.mse),
        ]
    }
}

/// Standard errors over rows, of scores of one target or of averages over targets. `None` for fewer
/// than two rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct RegressionErrors {
    /// Standard error of the mean squared error.
    pub mse: Option<f64>,
    /// Standard error of its root.
    pub rmse: Option<f64>,
    /// Standard error of the mean absolute error.
    pub mae: Option<f64>,
    /// Standard error of the coefficient of determination; `None` for averages over targets.
    pub r2: Option<f64>,
}

impl RegressionErrors {
    /// Returns the standard error of a score with this name; `None` if it has none.
    pub fn of(&self, name: &str) -> Option<f64> {
        match name {
            "mse" => self.mse,
            "rmse" => self.rmse,
            "mae" => self.mae,
            "r2" => self.r2,
            _ => None,
        }
    }
}

/// Scores of a regression, averaged over targets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RegressionScores {
    /// Number of rows scored, or the sum of their weights.
    #[serde(serialize_with = "serialize_count")]
    pub rows: f64,
    /// Averages over targets; `rmse` and `relative_error` are roots of averaged squares.
    #[serde(flatten)]
    pub scores: RegressionMetrics,
    /// Standard errors of the scores over rows, or over clusters.
    #[doc(hidden)]
    pub standard_errors: RegressionErrors,
    /// Clusters of the standard errors; `None` if rows are treated as independent.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_clusters: Option<ClusterReport>,
    /// Scores of each target, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_target: Vec<TargetScores>,
    /// Fraction of the true values within 1.96 standard deviations of the prediction, 0.95 if the
    /// standard deviations are right; only for models with standard deviations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// Losses of quantiles, expectiles or robust means; the other scores are scores of the level
    /// nearest to ½.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub loss: Option<LossScores>,
    /// Coverage and width of the prediction intervals, for each level and target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub intervals: Vec<PredictionIntervalScores>,
    /// Error of the naive forecast on the same rows; `None` without lags of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub naive_forecast: Option<NaiveForecast>,
    /// Importance and partial dependence of the columns on a sample of the rows; `None` unless
    /// requested.
    #[serde(rename = "importance", skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub effects: Option<ColumnEffects>,
}

/// Scores of one of several targets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TargetScores {
    /// Name of the target column.
    pub target: String,
    /// Scores of the target.
    #[serde(flatten)]
    pub scores: RegressionMetrics,
    /// Standard errors of the scores over rows.
    #[doc(hidden)]
    pub standard_errors: RegressionErrors,
}

/// Sums over rows with t predictions each.
#[derive(Clone, Debug)]
pub(crate) struct RegressionSums {
    rows: f64,
    row_errors: RowErrors,
    target_sums: Vec<TargetSums>,
    /// Sums by cluster: weights and, for each target, e², |e|, y − y₀ and (y − y₀)², where y₀ is
    /// the first true value. `None` for independent rows.
    clusters: Option<ClusterSums>,
}

/// Number of sums by cluster for each target.
const CLUSTER_SUMS: usize = 4;

impl RegressionSums {
    pub(crate) fn new(t: usize) -> Self {
        let target_sums = vec![TargetSums::default(); t];
        Self { rows: 0.0, row_errors: RowErrors::default(), target_sums, clusters: None }
    }

    /// Returns the sums with standard errors over clusters; rows are also added by
    /// [`Self::push_to_cluster`].
    pub(crate) fn with_clusters(self, cluster_count: usize) -> Self {
        let columns = 1 + CLUSTER_SUMS * self.target_sums.len();
        Self { clusters: Some(ClusterSums::new(cluster_count, columns)), ..self }
    }

    /// Returns the memory in bytes of the sums over clusters.
    pub(crate) fn cluster_bytes(t: usize, cluster_count: usize) -> usize {
        ClusterSums::bytes(cluster_count, 1 + CLUSTER_SUMS * t)
    }

    /// Adds a row, which was also pushed, to a cluster.
    pub(crate) fn push_to_cluster(&mut self, cluster: usize, prediction: &[f64], truth: &[f64], weight: f64) {
        let rows = prediction.iter().zip(truth).zip(&self.target_sums);
        let sums = rows.flat_map(|((prediction, truth), sums)| {
            let (error, shifted) = (truth - prediction, truth - sums.first_truth.unwrap_or(*truth));
            [error * error, error.abs(), shifted, shifted * shifted]
        });
        if let Some(clusters) = &mut self.clusters {
            clusters.push(cluster, std::iter::once(1.0).chain(sums), weight);
        }
    }

    /// Returns the standard errors over clusters of the averages over these targets.
    fn cluster_errors(&self, clusters: &ClusterSums, targets: Range<usize>) -> RegressionErrors {
        let t = targets.len() as f64;
        let mean_error = |offset: usize| {
            let targets = targets.clone();
            let sum = move |sums: &[f64]| targets.clone().map(|k| sums[1 + CLUSTER_SUMS * k + offset]).sum::<f64>() / t;
            let (total, weight) = (clusters.total(&sum), clusters.total(|sums| sums[0]));
            clusters.standard_error(|sums| (sum(sums) - total / weight * sums[0]) / weight)
        };
        let r2 = match self.target_sums.get(targets.clone()) {
            Some([target_sums]) => self.cluster_error_of_r2(clusters, target_sums, 1 + CLUSTER_SUMS * targets.start),
            _ => None,
        };
        let mse = mean_error(0);
        let squared_errors = self.target_sums[targets.clone()].iter().map(|sums| sums.squared_errors).sum::<f64>();
        let rmse = mse.and_then(|error| of_root(squared_errors / t / self.rows, error));
        RegressionErrors { mse, rmse, mae: mean_error(1), r2 }
    }

    /// Returns the standard error of r2, with the influence function of [`R2Moments`]. `first` is
    /// the first column of the sums of the target.
    fn cluster_error_of_r2(&self, clusters: &ClusterSums, target_sums: &TargetSums, first: usize) -> Option<f64> {
        let ratio = 1.0 - target_sums.scores().r2?;
        let (weight, shifted) = (clusters.total(|sums| sums[0]), clusters.total(|sums| sums[first + 2]));
        let (mean, squares) = (shifted / weight, target_sums.centred_square_sum);
        clusters.standard_error(|sums| {
            let cluster_squares = sums[first + 3] - 2.0 * mean * sums[first + 2] + mean * mean * sums[0];
            (ratio * cluster_squares - sums[first]) / squares
        })
    }

    /// Returns the peak memory in bytes of the sums of t targets on a number of rows, mostly the
    /// errors stored for their median.
    pub(crate) fn bytes(t: usize, rows: usize) -> usize {
        t.saturating_mul(RunningMedian::bytes(rows))
    }

    pub(crate) fn push(&mut self, prediction: &[f64], truth: &[f64], weight: f64) {
        self.rows += weight;
        if self.target_sums.len() > 1 {
            let errors = || prediction.iter().zip(truth).map(|(prediction, truth)| truth - prediction);
            let t = self.target_sums.len() as f64;
            self.row_errors.squared.push(errors().map(|error| error * error).sum::<f64>() / t, weight);
            self.row_errors.absolute.push(errors().map(f64::abs).sum::<f64>() / t, weight);
        }
        for ((sums, prediction), truth) in self.target_sums.iter_mut().zip(prediction).zip(truth) {
            sums.push(*prediction, *truth, weight);
        }
    }

    /// Returns the number of clusters with rows; `None` for independent rows.
    pub(crate) fn cluster_count(&self) -> Option<u64> {
        self.clusters.as_ref().map(|clusters| clusters.cluster_count() as u64)
    }

    /// Returns the scores of all rows so far; `names` are the names of the targets.
    pub(crate) fn scores(&self, names: Vec<String>) -> RegressionScores {
        let metrics: Vec<RegressionMetrics> = self.target_sums.iter().map(TargetSums::scores).collect();
        let mean = |score: &dyn Fn(&RegressionMetrics) -> Option<f64>| {
            let values: Option<Vec<f64>> = metrics.iter().map(score).collect();
            values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
        };
        let mse = mean(&|r| r.mse);
        let scores = match metrics.as_slice() {
            [single] => single.clone(),
            _ => RegressionMetrics {
                mse,
                rmse: mse.map(f64::sqrt),
                mae: mean(&|r| r.mae),
                median_error: mean(&|r| r.median_error),
                mape: mean(&|r| r.mape),
                r2: mean(&|r| r.r2),
                relative_error: mean(&|r| r.relative_error.map(|e| e * e)).map(f64::sqrt),
            },
        };
        let has_several_targets = metrics.len() > 1;
        let t = self.target_sums.len();
        let target_errors: Vec<RegressionErrors> = match &self.clusters {
            Some(clusters) => (0..t).map(|k| self.cluster_errors(clusters, k..k + 1)).collect(),
            None => self.target_sums.iter().map(TargetSums::standard_errors).collect(),
        };
        let standard_errors = match (target_errors.as_slice(), &self.clusters) {
            ([single], _) => *single,
            (_, Some(clusters)) => self.cluster_errors(clusters, 0..t),
            (_, None) => self.row_errors.standard_errors(),
        };
        let by_target = names.into_iter().zip(metrics).zip(target_errors);
        let by_target =
            by_target.map(|((target, scores), standard_errors)| TargetScores { target, scores, standard_errors });
        let by_target = by_target.filter(|_| has_several_targets).collect();
        RegressionScores {
            rows: self.rows,
            scores,
            standard_errors,
            error_clusters: None,
            by_target,
            coverage: None,
            loss: None,
            intervals: Vec::new(),
            naive_forecast: None,
            effects: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(rows: &[(f64, f64)]) -> RegressionScores {
        let mut score = RegressionSums::new(1);
        rows.iter().for_each(|(prediction, truth)| score.push(&[*prediction], &[*truth], 1.0));
        score.scores(vec!["y".to_string()])
    }

    #[test]
    fn regression_by_hand() {
        // The errors e = y − prediction are 1, −1, 2 on the truths y = 2, 4, 4: Σe² = 6,
        // Σ|e| = 4, Σ(y − ȳ)² = 8/3, Σ(e/y)² = 1/4 + 1/16 + 1/4.
        let got = score(&[(1.0, 2.0), (5.0, 4.0), (2.0, 4.0)]);
        assert_eq!((got.rows, got.scores.mse, got.scores.rmse), (3.0, Some(2.0), Some(2f64.sqrt())));
        assert_eq!(got.scores.mae, Some(4.0 / 3.0));
        assert!((got.scores.r2.unwrap() - (1.0 - 6.0 / (8.0 / 3.0))).abs() < 1e-14);
        assert!((got.scores.relative_error.unwrap() - (0.5625f64 / 3.0).sqrt()).abs() < 1e-14);
        // e² is 1, 1 and 4: s² = 3, so that s/√n = 1, and 1/(2√2) for the root
        assert!((got.standard_errors.mse.unwrap() - 1.0).abs() < 1e-14);
        assert!((got.standard_errors.rmse.unwrap() - 0.5 / 2f64.sqrt()).abs() < 1e-14);
        // |e| is 1, 1 and 2: s² = 1/3
        assert!((got.standard_errors.mae.unwrap() - 1.0 / 3.0).abs() < 1e-14);
        let json = serde_json::to_value(&got).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            ["mae", "mape", "median_error", "mse", "r2", "relative_error", "rmse", "rows", "standard_errors"]
        );
        // |e/y| is 1/2, 1/4 and 1/2; |e| is 1, 1 and 2
        assert!((got.scores.mape.unwrap() - 1.25 / 3.0).abs() < 1e-14 && got.scores.median_error == Some(1.0));
    }

    #[test]
    fn clusters_of_single_rows_change_no_standard_error() {
        let rows: Vec<(f64, f64)> = (0..200).map(|i| (1e4 + f64::from(i % 7), 1e4 + f64::from(i % 5))).collect();
        let mut sums = RegressionSums::new(1).with_clusters(rows.len());
        for (i, (prediction, truth)) in rows.iter().enumerate() {
            sums.push(&[*prediction], &[*truth], 1.0);
            sums.push_to_cluster(i, &[*prediction], &[*truth], 1.0);
        }
        let (got, expected) = (sums.scores(vec!["y".to_string()]).standard_errors, score(&rows).standard_errors);
        for name in ["mse", "rmse", "mae", "r2"] {
            let (got, expected) = (got.of(name).unwrap(), expected.of(name).unwrap());
            assert!((got / expected - 1.0).abs() < 1e-9, "{name}: {got} {expected}");
        }
    }

    #[test]
    fn constant_targets_have_no_r2_and_zeros_no_relative_error() {
        let constant = score(&[(1.0, 0.1), (2.0, 0.1), (2.0, 0.1)]).scores;
        assert_eq!((constant.r2, constant.relative_error.is_some()), (None, true));
        let zero = score(&[(1.0, 0.0), (2.0, 3.0)]).scores;
        assert_eq!((zero.r2.is_some(), zero.relative_error, zero.mape), (true, None, None));
        let none = score(&[]).scores;
        assert_eq!((none.mse, none.r2, none.relative_error), (None, None, None));
    }

    #[test]
    fn r2_is_accurate_far_from_zero() {
        let rows: Vec<(f64, f64)> = (0..1000).map(|i| (1e8 + f64::from(i % 7), 1e8 + f64::from(i % 5))).collect();
        let scores = score(&rows).scores;
        assert!((scores.r2.unwrap() - (1.0 - scores.mse.unwrap() / 2.0)).abs() < 1e-6, "i mod 5 has variance 2");
    }

    #[test]
    fn several_targets_are_averaged_and_listed() {
        let mut score = RegressionSums::new(2);
        score.push(&[0.0, 1.0], &[1.0, 1.0], 1.0);
        score.push(&[0.0, 2.0], &[3.0, 5.0], 1.0);
        let got = score.scores(["a", "b"].map(String::from).to_vec());
        let each = got.by_target.iter().map(|target_scores| (target_scores.target.as_str(), target_scores.scores.mse));
        assert_eq!(each.collect::<Vec<_>>(), [("a", Some(5.0)), ("b", Some(4.5))]);
        assert_eq!(got.scores.mse, Some(4.75));
    }
}
