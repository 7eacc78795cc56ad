//! Scores of a classification.

use super::PredictionSetScores;
use kstore::Label;

/// Scores of a classification.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ClassificationScores {
    /// Number of rows scored. With row weights, all row counts here are sums of weights.
    #[serde(serialize_with = "super::serialize_count")]
    pub rows: f64,
    /// Fraction of rows with the right class.
    pub accuracy: Option<f64>,
    /// Error rate: fraction of rows with the wrong class.
    pub error: Option<f64>,
    /// Labels, in the order of the confusion matrix.
    pub classes: Vec<Label>,
    /// The positive class, for two classes: the second unless another is specified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive: Option<Label>,
    /// Confusion matrix: numbers of rows by true class (row) and predicted class (column).
    #[serde(serialize_with = "super::serialize_counts")]
    pub confusion: Vec<Vec<f64>>,
    /// Mean recall over the classes that have rows.
    pub balanced_accuracy: Option<f64>,
    /// F1 score 2 tp / (2 tp + fp + fn). For two classes it is the score of the positive class; for
    /// more classes, the mean over all classes that occur in the data or the predictions (macro
    /// average).
    pub f1: Option<f64>,
    /// Scores of each class, in the order of `classes`.
    pub by_class: Vec<ClassScores>,
    /// Means of the scores of the classes, for more than two classes.
    #[doc(hidden)]
    #[serde(rename = "macro", skip_serializing_if = "Option::is_none")]
    pub macro_means: Option<MacroMeans>,
    /// Matthews correlation coefficient of truth and prediction: 1 for perfect predictions, 0 for
    /// predictions that are independent of the truth. For more than two classes it is the
    /// coefficient R_K of Gorodkin, "Comparing two K-category assignments by a K-category
    /// correlation coefficient", 2004.
    pub matthews: Option<f64>,
    /// Area under the ROC curve, for two classes; null if one of them has no rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<Option<f64>>,
    /// Largest possible error of `auc`, if it is computed from a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_within: Option<f64>,
    /// Average precision of the positive class, for two classes: the area under the
    /// precision-recall curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// Brier score, only for models with probabilities. For two classes it is the mean squared
    /// difference between the probability of the second class and the indicator of this class (1 or
    /// 0). For more classes it is the mean of the sum of these squares over all classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
    /// Mean of −ln of the probability of the true class, over the rows of known classes; only for
    /// models with probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Costs of mistakes and the threshold with the least cost, if costs were specified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Box<CostScores>>,
    /// Scores of the rows with the highest scores of the positive class, if their number was
    /// specified.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<TopScores>,
    /// Coverage and size of the prediction sets, for each level.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<PredictionSetScores>,
    /// Standard errors of the scores over rows, or over clusters.
    #[doc(hidden)]
    pub standard_errors: ClassificationErrors,
    /// Clusters of the standard errors; `None` if rows are treated as independent.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_clusters: Option<super::ClusterReport>,
    /// Number of rows whose label the model does not know: they count as errors, and are not in the
    /// confusion matrix.
    #[serde(skip_serializing_if = "crate::model::is_zero", serialize_with = "super::serialize_count")]
    pub unknown: f64,
    /// Importance and partial dependence of the columns on a sample of the rows; `None` unless
    /// requested.
    #[serde(rename = "importance", skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub effects: Option<super::ColumnEffects>,
}

/// The rows with the highest scores of the positive class, as the result of a search for positives.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct TopScores {
    /// Number k of these rows.
    #[serde(serialize_with = "super::serialize_count")]
    pub rows: f64,
    /// Fraction of positives among these rows. If rows at the end have equal scores, they count in
    /// proportion. `None` if the table has fewer rows.
    pub precision: Option<f64>,
    /// Fraction of all positives that are among these rows.
    pub recall: Option<f64>,
    /// Precision divided by the fraction of positives among all rows.
    pub lift: Option<f64>,
}

/// Standard errors of the scores of a classification over rows; `None` if undefined.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct ClassificationErrors {
    /// Standard error of the error rate, and of the accuracy.
    pub error: Option<f64>,
    /// Standard error of the log-loss.
    pub log_loss: Option<f64>,
    /// Standard error of the Brier score.
    pub brier: Option<f64>,
    /// Standard error of the area under the ROC curve, by DeLong, DeLong, Clarke-Pearson,
    /// "Comparing the areas under two or more correlated receiver operating characteristic curves",
    /// 1988.
    pub auc: Option<f64>,
}

/// Scores of a class; `None` if undefined.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ClassScores {
    /// Number of rows of the class.
    #[serde(serialize_with = "super::serialize_count")]
    pub rows: f64,
    /// Fraction of the rows predicted as the class that belong to it.
    pub precision: Option<f64>,
    /// Fraction of the rows of the class that were predicted as the class.
    pub recall: Option<f64>,
    /// 2 tp / (2 tp + fp + fn).
    pub f1: Option<f64>,
    /// The rows ranked by their score for the class; `None` for two classes, whose ranking is in
    /// [`ClassificationScores`].
    #[doc(hidden)]
    #[serde(flatten)]
    pub one_vs_rest: Option<OneVsRestScores>,
}

/// A class against all other classes: the rows ranked by the probability of the class, or by its
/// score if the model has no probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct OneVsRestScores {
    /// Area under the ROC curve: the probability that a row of the class ranks above a row of
    /// another class. `None` if all rows or no rows belong to the class.
    pub auc: Option<f64>,
    /// Largest possible error of `auc`, if it is computed from a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_within: Option<f64>,
    /// Average precision: the area under the precision-recall curve. `None` without rows of the
    /// class.
    pub average_precision: Option<f64>,
}

/// Unweighted means of the scores of several classes (macro averages).
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MacroMeans {
    /// Mean precision of the classes that occur in the data or the predictions; a class that is
    /// never predicted counts 0.
    pub precision: Option<f64>,
    /// Mean recall of these classes; a class without rows counts 0.
    pub recall: Option<f64>,
    /// Mean F1 score of these classes.
    pub f1: Option<f64>,
    /// Mean area under the ROC curve of one class against the rest.
    pub auc: Option<f64>,
    /// Mean average precision of one class against the rest.
    pub average_precision: Option<f64>,
}

/// A threshold between two classes, and its effect on the scored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct ThresholdScores {
    /// Probability of the positive class above which a row is called positive; the score, if the
    /// model has no probabilities.
    pub threshold: f64,
    /// Number of negative rows called positive.
    #[serde(serialize_with = "super::serialize_count")]
    pub false_alarms: f64,
    /// Number of positive rows called negative.
    #[serde(rename = "missed", serialize_with = "super::serialize_count")]
    pub misses: f64,
    /// Fraction of the negative rows called positive.
    pub false_positive_rate: f64,
    /// Fraction of the positive rows called positive.
    pub recall: f64,
    /// Fraction of the rows called positive that are positive.
    pub precision: Option<f64>,
}

/// Costs of mistakes on the scored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct CostScores {
    /// Cost of a false alarm.
    pub false_alarm: f64,
    /// Cost of a missed positive row.
    pub miss: f64,
    /// Mean cost per row of the model's decisions.
    #[serde(rename = "now")]
    pub current: f64,
    /// Mean cost per row at the best threshold.
    #[serde(rename = "least")]
    pub minimum: f64,
    /// Threshold with the least cost on these rows.
    #[serde(rename = "best")]
    pub best_threshold: ThresholdScores,
}

/// Rows with nearly the same predicted probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationBin {
    /// Mean predicted probability.
    pub predicted: f64,
    /// Fraction of the rows in the class.
    pub observed: f64,
    /// Number of rows.
    pub rows: f64,
    /// Interval of 95 % for the probability of the class, from the rows of the bin.
    #[doc(hidden)]
    pub interval: (f64, f64),
}
