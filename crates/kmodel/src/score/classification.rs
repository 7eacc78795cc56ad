//! Sums for the scores of a classification: confusion matrix, ranking of two classes, and
//! probabilities.

use super::calibration::CalibrationSums;
use super::clusters::ClusterSums;
use super::one_vs_rest::{ClassRanking, OneVsRest, mean_of};
use super::roc::{ClassWeights, MAX_EXACT_ROWS, RankedScores, Ranking};
use super::standard_error::RowMean;
use super::{CalibrationBin, ClassScores, ClassificationErrors, ClassificationScores, CostScores, ThresholdScores};
use crate::{Classes, Link};

/// Sums over the rows of known classes, for models with probabilities.
#[derive(Clone, Debug)]
struct ProbabilitySums {
    link: Link,
    log_loss: RowMean,
    brier: RowMean,
    calibration: CalibrationSums,
    /// Probabilities of the last row, stored to reuse the allocation.
    probabilities: Vec<f64>,
}

impl ProbabilitySums {
    /// Returns the log loss and the squared error of a row, and stores its probabilities.
    fn losses(&mut self, scores: &[f64], class: usize) -> [f64; 2] {
        let probabilities = &mut self.probabilities;
        self.link.probabilities(scores, probabilities);
        let squared_error = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == class))).powi(2);
        // two classes have the same squared difference, so only the second is counted
        let counted = probabilities.iter().enumerate().skip(usize::from(probabilities.len() == 2));
        [self.link.log_loss(scores, class), counted.map(squared_error).sum()]
    }

    fn push(&mut self, scores: &[f64], class: usize, positive_class: usize, weight: f64) {
        let [log_loss, brier] = self.losses(scores, class);
        self.log_loss.push(log_loss, weight);
        self.brier.push(brier, weight);
        let probabilities = &self.probabilities;
        let argmax = || {
            (0..probabilities.len()).fold(0, |best, k| if probabilities[k] > probabilities[best] { k } else { best })
        };
        let binned_class = if probabilities.len() == 2 { positive_class } else { argmax() };
        let Some(probability) = probabilities.get(binned_class) else { return };
        self.calibration.push(*probability, class == binned_class, weight);
    }
}

/// Sums over rows with k classes. *Bytes*: 8·k² and [`ClassificationSums::ranking_bytes`].
#[derive(Clone, Debug)]
pub(crate) struct ClassificationSums<'a> {
    classes: &'a Classes,
    /// Sums of row weights, as `confusion[true][predicted]`.
    confusion: Vec<Vec<f64>>,
    /// Sums of row weights by predicted class, for rows of unknown classes.
    unknown_counts: Vec<f64>,
    /// Scores of the rows, for two classes.
    ranked_scores: Option<RankedScores>,
    /// Scores of the rows, for more than two classes.
    one_vs_rest: Option<OneVsRest>,
    /// Code of the positive class, for two classes.
    positive_class: usize,
    error_rate: RowMean,
    probabilities: Option<ProbabilitySums>,
    clusters: Option<ClassificationClusters>,
}

/// Sums by cluster, for standard errors over clusters.
#[derive(Clone, Debug)]
struct ClassificationClusters {
    /// Sums of the columns [`ERROR`], [`ROWS`], [`LOG_LOSS`], [`BRIER`] and [`KNOWN_ROWS`].
    sums: ClusterSums,
    /// Clusters of the ranked rows, in the order of the rows.
    ranked_rows: Vec<u32>,
}

/// Columns of the sums by cluster: wrong rows, all rows, the losses of the rows of known classes,
/// and the number of these rows.
const ERROR: usize = 0;
const ROWS: usize = 1;
const LOG_LOSS: usize = 2;
const BRIER: usize = 3;
const KNOWN_ROWS: usize = 4;
const CLUSTER_COLUMNS: usize = 5;

impl<'a> ClassificationSums<'a> {
    pub(crate) fn new(classes: &'a Classes, link: Option<Link>, positive_class: usize) -> Self {
        let k = classes.labels().len();
        let one_vs_rest = (k > 2).then(|| OneVsRest::new(k, link.clone()));
        let probability_sums = |link| ProbabilitySums {
            link,
            log_loss: RowMean::default(),
            brier: RowMean::default(),
            calibration: CalibrationSums::new(),
            probabilities: Vec::new(),
        };
        Self {
            classes,
            confusion: vec![vec![0.0; k]; k],
            unknown_counts: vec![0.0; k],
            ranked_scores: (k == 2).then(|| RankedScores::new(MAX_EXACT_ROWS)),
            one_vs_rest,
            positive_class,
            error_rate: RowMean::default(),
            probabilities: link.map(probability_sums),
            clusters: None,
        }
    }

    /// Returns the sums with standard errors over clusters; every row has a cluster.
    pub(crate) fn with_clusters(self, cluster_count: usize) -> Self {
        let sums = ClusterSums::new(cluster_count, CLUSTER_COLUMNS);
        Self { clusters: Some(ClassificationClusters { sums, ranked_rows: Vec::new() }), ..self }
    }

    /// Returns the memory in bytes of the scores that are stored to be ranked.
    pub(crate) fn ranking_bytes(class_count: usize, rows: usize) -> usize {
        match class_count {
            2 => RankedScores::bytes(rows.min(MAX_EXACT_ROWS)),
            _ => RankedScores::bytes_of_several(class_count, rows),
        }
    }

    /// Returns the memory in bytes of the sums over clusters, and of the clusters of ranked rows.
    pub(crate) fn cluster_bytes(class_count: usize, cluster_count: usize, rows: usize) -> usize {
        let ranked_rows = if class_count == 2 { 8 * rows.min(MAX_EXACT_ROWS + 1) } else { 0 };
        ClusterSums::bytes(cluster_count, CLUSTER_COLUMNS) + ranked_rows
    }

    /// Returns the number of clusters with rows; `None` for independent rows.
    pub(crate) fn cluster_count(&self) -> Option<u64> {
        self.clusters.as_ref().map(|clusters| clusters.sums.cluster_count() as u64)
    }

    fn push_to_cluster(&mut self, cluster: usize, scores: &[f64], predicted: usize, truth: usize, weight: f64) {
        let Some(clusters) = &mut self.clusters else { return };
        let [is_wrong, is_known] =
            [predicted != truth, truth < self.confusion.len()].map(|condition| if condition { 1.0 } else { 0.0 });
        let losses = self.probabilities.as_mut().filter(|_| is_known > 0.0).map(|sums| sums.losses(scores, truth));
        let [log_loss, brier] = losses.unwrap_or_default();
        clusters.sums.push(cluster, [is_wrong, 1.0, log_loss, brier, is_known], weight);
        if is_known > 0.0 && self.ranked_scores.is_some() && clusters.ranked_rows.len() <= MAX_EXACT_ROWS {
            clusters.ranked_rows.push(cluster as u32);
        }
    }

    /// Adds a row with its scores, class code and weight, and with its cluster if there are
    /// clusters. The model may not know the class.
    pub(crate) fn push(&mut self, scores: &[f64], code: u32, weight: f64, cluster: Option<usize>) {
        let (predicted, truth) = (self.classes.decide(scores.iter().copied()), code as usize);
        self.error_rate.push(if predicted == truth { 0.0 } else { 1.0 }, weight);
        cluster.into_iter().for_each(|cluster| self.push_to_cluster(cluster, scores, predicted, truth, weight));
        let Some(true_class_row) = self.confusion.get_mut(truth) else {
            self.unknown_counts[predicted] += weight;
            return;
        };
        true_class_row[predicted] += weight;
        let (positive_class, oriented_score) = (self.positive_class, orient_score(scores[0], self.positive_class));
        self.ranked_scores.iter_mut().for_each(|ranks| ranks.push(oriented_score, truth == positive_class, weight));
        self.one_vs_rest.iter_mut().for_each(|sums| sums.push(self.classes, scores, truth, weight));
        self.probabilities.iter_mut().for_each(|sums| sums.push(scores, truth, positive_class, weight));
    }

    /// Returns the rows by descending scores; `None` unless there are two classes.
    pub(crate) fn ranking(&self) -> Option<Ranking> {
        self.ranked_scores.as_ref().map(RankedScores::ranking)
    }

    /// Returns the ranking of each of more than two classes, with curves of about `max_points`
    /// points; empty for two classes.
    pub(crate) fn class_rankings(&self, max_points: usize) -> Vec<ClassRanking> {
        self.one_vs_rest.as_ref().map_or(Vec::new(), |sums| sums.rankings(max_points))
    }

    /// Returns predicted probabilities and observed fractions; `None` if the model has no
    /// probabilities.
    pub(crate) fn calibration(&self) -> Option<Vec<CalibrationBin>> {
        let sums = self.probabilities.as_ref().filter(|sums| sums.log_loss.mean().is_some())?;
        Some(sums.calibration.bins())
    }

    /// Returns the effect of a threshold `score` (larger towards the positive class) on the rows of
    /// a ranking.
    pub(crate) fn threshold_scores(&self, ranking: &Ranking, score: f64) -> ThresholdScores {
        let ClassWeights { positive: true_positives, negative: false_alarms } = ranking.weights_above(score);
        let link = self.probabilities.as_ref().map(|sums| &sums.link);
        let [negative_weight, positive_weight] =
            [1 - self.positive_class, self.positive_class].map(|class| weight_sum(&self.confusion[class]));
        let rate = |part: f64, whole: f64| ratio(part, whole).unwrap_or(0.0);
        ThresholdScores {
            threshold: link.map_or(score, |link| probability(link, score, self.positive_class)),
            false_alarms,
            misses: positive_weight - true_positives,
            false_positive_rate: rate(false_alarms, negative_weight),
            recall: rate(true_positives, positive_weight),
            precision: ratio(true_positives, true_positives + false_alarms),
        }
    }

    fn cost(&self, ranking: &Ranking, [false_alarm, miss]: [f64; 2]) -> Option<Box<CostScores>> {
        let best_threshold = self.threshold_scores(ranking, ranking.cheapest_threshold([false_alarm, miss])?);
        let rows = self.confusion.iter().flatten().sum::<f64>();
        let mean = |alarms: f64, misses: f64| (false_alarm * alarms + miss * misses) / rows;
        let [negative, positive] = [1 - self.positive_class, self.positive_class];
        let current_cost = mean(self.confusion[negative][positive], self.confusion[positive][negative]);
        Some(Box::new(CostScores {
            false_alarm,
            miss,
            current: current_cost,
            minimum: mean(best_threshold.false_alarms, best_threshold.misses),
            best_threshold,
        }))
    }

    fn cluster_errors(&self, clusters: &ClassificationClusters, ranking: Option<&Ranking>) -> ClassificationErrors {
        let has_losses = self.probabilities.is_some();
        let loss_error = |column: usize| clusters.sums.ratio_standard_error(column, KNOWN_ROWS).filter(|_| has_losses);
        let ranked = ranking.zip(self.ranked_scores.as_ref());
        ClassificationErrors {
            error: clusters.sums.ratio_standard_error(ERROR, ROWS),
            log_loss: loss_error(LOG_LOSS),
            brier: loss_error(BRIER),
            auc: ranked.and_then(|(ranking, scores)| scores.clustered_auc_error(ranking, &clusters.ranked_rows)),
        }
    }

    /// Returns the scores of all rows so far. `ranking` ranks these rows; `costs` are the costs of
    /// a false alarm and of a missed row; `top` is a number of rows with the highest scores.
    pub(crate) fn scores(
        self,
        ranking: Option<&Ranking>,
        costs: Option<[f64; 2]>,
        top: Option<u64>,
    ) -> ClassificationScores {
        let cost = ranking.zip(costs).and_then(|(ranking, costs)| self.cost(ranking, costs));
        let rows: f64 = self.confusion.iter().flatten().chain(&self.unknown_counts).sum();
        let correct: f64 = self.confusion.iter().enumerate().map(|(class, row)| row[class]).sum();
        let [log_loss, brier] = match &self.probabilities {
            Some(sums) => [Some(&sums.log_loss), Some(&sums.brier)],
            None => [None, None],
        };
        let auc = ranking.map(Ranking::auc);
        let standard_errors = match &self.clusters {
            Some(clusters) => self.cluster_errors(clusters, ranking),
            None => ClassificationErrors {
                error: self.error_rate.standard_error(),
                log_loss: log_loss.and_then(RowMean::standard_error),
                brier: brier.and_then(RowMean::standard_error),
                auc: ranking.and_then(Ranking::auc_standard_error),
            },
        };
        let [log_loss, brier] = [log_loss, brier].map(|sums| sums.and_then(RowMean::mean));
        let by_class = scores_by_class(&self.confusion, &self.unknown_counts);
        let [balanced_accuracy, matthews] = balanced_accuracy_and_matthews(&self.confusion);
        let f1 = match by_class.len() {
            2 => by_class[self.positive_class].f1,
            _ => mean_of(by_class.iter().filter_map(|class| class.f1)),
        };
        ClassificationScores {
            rows,
            accuracy: ratio(correct, rows),
            error: ratio(rows - correct, rows),
            classes: self.classes.labels().to_vec(),
            positive: ranking.and_then(|_| self.classes.labels().get(self.positive_class).cloned()),
            confusion: self.confusion,
            balanced_accuracy,
            f1,
            by_class,
            macro_means: None,
            matthews,
            auc: auc.map(|auc| auc.map(|auc| auc.value)),
            auc_within: auc.flatten().map(|auc| auc.max_error).filter(|within| *within > 0.0),
            average_precision: ranking.and_then(Ranking::average_precision),
            brier,
            log_loss,
            cost,
            top: ranking.zip(top).map(|(ranking, top)| ranking.top_scores(top as f64)),
            sets: Vec::new(),
            standard_errors,
            error_clusters: None,
            unknown: self.unknown_counts.iter().sum(),
            effects: None,
        }
    }
}

/// Converts the score of two classes to a score that is larger for the positive class, and back.
pub(crate) fn orient_score(score: f64, positive_class: usize) -> f64 {
    if positive_class == 1 { score } else { -score }
}

/// Returns the probability of the positive class at a score that is larger for the positive class.
fn probability(link: &Link, score: f64, positive_class: usize) -> f64 {
    let mut probabilities = Vec::new();
    link.probabilities(&[orient_score(score, positive_class)], &mut probabilities);
    probabilities.get(positive_class).copied().unwrap_or(f64::NAN)
}

fn weight_sum(weights: &[f64]) -> f64 {
    // an empty `sum` would be −0
    weights.iter().fold(0.0, |sum, rows| sum + rows)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Returns precision, recall and F1 of each class of a confusion matrix,
/// `confusion[true][predicted]`. Predictions for rows of unknown classes are false positives.
fn scores_by_class(confusion: &[Vec<f64>], unknown_counts: &[f64]) -> Vec<ClassScores> {
    let class_scores = |class: usize| {
        let (rows, correct) = (weight_sum(&confusion[class]), confusion[class][class]);
        let predicted_weight =
            confusion.iter().map(|row| row[class]).sum::<f64>() + unknown_counts.get(class).copied().unwrap_or(0.0);
        let (precision, recall, f1) =
            (ratio(correct, predicted_weight), ratio(correct, rows), ratio(2.0 * correct, rows + predicted_weight));
        ClassScores { rows, precision, recall, f1, one_vs_rest: None }
    };
    (0..confusion.len()).map(class_scores).collect()
}

/// Returns balanced accuracy and the Matthews coefficient of a confusion matrix,
/// `confusion[true][predicted]`; `None` if undefined.
///
/// The coefficient is (c s − Σ_k t_k p_k) / √((s² − Σ_k t_k²)(s² − Σ_k p_k²)), where c of s rows
/// are correct, t_k rows belong to class k, and p_k rows are predicted as class k.
fn balanced_accuracy_and_matthews(confusion: &[Vec<f64>]) -> [Option<f64>; 2] {
    let k = confusion.len();
    let true_counts: Vec<f64> = confusion.iter().map(|row| weight_sum(row)).collect();
    let predicted_counts: Vec<f64> = (0..k).map(|j| confusion.iter().map(|row| row[j]).sum()).collect();
    let correct = |class: usize| confusion[class][class];
    let recalls = (0..k).filter(|class| true_counts[*class] > 0.0).map(|class| correct(class) / true_counts[class]);
    let total_weight: f64 = true_counts.iter().sum();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let variance_product = (total_weight * total_weight - dot(&true_counts, &true_counts))
        * (total_weight * total_weight - dot(&predicted_counts, &predicted_counts));
    let covariance = (0..k).map(correct).sum::<f64>() * total_weight - dot(&true_counts, &predicted_counts);
    [mean_of(recalls), (variance_product > 0.0).then(|| covariance / variance_product.sqrt())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::Label;

    fn is_near(got: Option<f64>, expected: f64) -> bool {
        got.is_some_and(|got| (got - expected).abs() < 1e-12)
    }

    #[test]
    fn two_classes_by_the_textbook() {
        let (tp, tn, fp, fne) = (30.0, 900.0, 20.0, 50.0);
        let counts = [vec![900.0, 20.0], vec![50.0, 30.0]];
        let [accuracy, matthews] = balanced_accuracy_and_matthews(&counts);
        let scores = |unknown: &[f64]| scores_by_class(&counts, unknown).swap_remove(1);
        assert!(is_near(accuracy, (tp / 80.0 + tn / 920.0) / 2.0));
        assert!(is_near(scores(&[0.0, 0.0]).f1, 2.0 * tp / (2.0 * tp + fp + fne)));
        assert!(
            is_near(scores(&[0.0, 0.0]).precision, tp / (tp + fp))
                && is_near(scores(&[0.0, 0.0]).recall, tp / (tp + fne))
        );
        let root: f64 = (50.0f64 * 80.0 * 920.0 * 950.0).sqrt();
        assert!(is_near(matthews, (tp * tn - fp * fne) / root));
        // every row of an unknown class that is predicted as the second class adds one false
        // positive
        assert!(is_near(scores(&[3.0, 10.0]).f1, 60.0 / 140.0));
    }

    #[test]
    fn three_classes_by_their_definitions() {
        let counts = [vec![5.0, 1.0, 0.0], vec![2.0, 3.0, 1.0], vec![0.0, 2.0, 8.0]];
        let [accuracy, matthews] = balanced_accuracy_and_matthews(&counts);
        let f1 = mean_of(scores_by_class(&counts, &[0.0; 3]).iter().filter_map(|class| class.f1));
        assert!(is_near(accuracy, (5.0 / 6.0 + 0.5 + 0.8) / 3.0));
        assert!(is_near(f1, (10.0 / 13.0 + 6.0 / 12.0 + 16.0 / 19.0) / 3.0));
        // the correlation of the indicators by definition: sums of covariances over the classes
        let counts = [[5.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 2.0, 8.0f64]];
        let (t, p) = ([6.0, 6.0, 10.0], [7.0, 6.0, 9.0f64]);
        let covariance = |joint: f64, a: f64, b: f64| joint / 22.0 - a / 22.0 * (b / 22.0);
        let sum = |term: &dyn Fn(usize) -> f64| (0..3).map(term).sum::<f64>();
        let covariance_sum = sum(&|c| covariance(counts[c][c], t[c], p[c]));
        let variances = sum(&|c| covariance(t[c], t[c], t[c])) * sum(&|c| covariance(p[c], p[c], p[c]));
        assert!(is_near(matthews, covariance_sum / variances.sqrt()));
    }

    #[test]
    fn undefined_scores_are_none() {
        assert_eq!(balanced_accuracy_and_matthews(&[vec![7.0, 0.0], vec![0.0; 2]]), [Some(1.0), None]);
        assert_eq!(balanced_accuracy_and_matthews(&[vec![0.0; 2], vec![0.0; 2]]), [None; 2]);
        assert_eq!(scores_by_class(&[vec![7.0, 0.0], vec![0.0; 2]], &[0.0; 2])[1], ClassScores::default());
    }

    fn scores(k: i64, rows: &[(&[f64], u32)]) -> ClassificationScores {
        let classes = Classes::new((0..k).map(Label::Int).collect()).unwrap();
        let mut sums = ClassificationSums::new(&classes, None, 1);
        rows.iter().for_each(|(scores, code)| sums.push(scores, *code, 1.0, None));
        let ranking = sums.ranking();
        sums.scores(ranking.as_ref(), None, None)
    }

    #[test]
    fn classification_by_hand() {
        let (a, b, c): (&[f64], &[f64], &[f64]) = (&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]);
        let got = scores(3, &[(a, 0), (b, 0), (c, 2), (b, kstore::LabelCodes::UNKNOWN), (a, 7)]);
        assert_eq!((got.rows, got.accuracy, got.error), (5.0, Some(0.4), Some(0.6)));
        assert_eq!(
            (&got.confusion[..], got.unknown),
            (&[vec![1.0, 1.0, 0.0], vec![0.0; 3], vec![0.0, 0.0, 1.0]][..], 2.0)
        );
        assert!(
            serde_json::to_value(&got).unwrap().get("auc").is_none(),
            "three classes have an AUC each, and no common one"
        );
    }

    #[test]
    fn clusters_of_single_rows_change_the_standard_errors_by_their_degrees_of_freedom() {
        let classes = Classes::new((0..2).map(Label::Int).collect()).unwrap();
        let link = Some(Link::Logit);
        let rows: Vec<(f64, u32)> = (0..400).map(|i| (f64::from(i % 23) / 9.0 - 1.0, u32::from(i % 5 < 2))).collect();
        let (mut sums, n) = (ClassificationSums::new(&classes, link.clone(), 1), rows.len());
        let mut clustered = ClassificationSums::new(&classes, link, 1).with_clusters(n);
        for (i, (score, code)) in rows.iter().enumerate() {
            sums.push(&[*score], *code, 1.0, None);
            clustered.push(&[*score], *code, 1.0, Some(i));
        }
        let [got, expected] = [clustered, sums].map(|sums| {
            let ranking = sums.ranking();
            sums.scores(ranking.as_ref(), None, None).standard_errors
        });
        let is_near = |got: Option<f64>, expected: Option<f64>, tolerance: f64| {
            (got.unwrap() / expected.unwrap() - 1.0).abs() < tolerance
        };
        assert!(is_near(got.error, expected.error, 1e-12) && is_near(got.log_loss, expected.log_loss, 1e-12));
        assert!(is_near(got.brier, expected.brier, 1e-12));
        // DeLong divides by p − 1 and n − 1
        assert!(is_near(got.auc, expected.auc, 5e-3), "{:?} {:?}", got.auc, expected.auc);
    }

    #[test]
    fn two_classes_have_an_auc() {
        // of the 4 pairs (positive, negative), .9 wins both, .4 wins one and ties in one: 3.5 of 4
        let json = serde_json::to_value(scores(2, &[(&[0.9], 1), (&[0.4], 0), (&[0.4], 1), (&[-0.2], 0)])).unwrap();
        assert_eq!((json["auc"].as_f64(), json["accuracy"].as_f64()), (Some(0.875), Some(0.75)));
        assert!(serde_json::to_value(scores(2, &[])).unwrap()["auc"].is_null());
    }
}
