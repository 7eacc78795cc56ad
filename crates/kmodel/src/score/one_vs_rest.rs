//! The rows ranked for each of several classes, against the rows of all other classes.

use super::roc::RankedScores;
use super::{ClassScores, ClassificationScores, MacroMeans, OneVsRestScores};
use crate::{Classes, Link};

/// Scores of the rows for each class of more than two. *Bytes*: [`RankedScores::bytes_of_several`].
#[derive(Clone, Debug)]
pub(crate) struct OneVsRest {
    link: Option<Link>,
    ranked_scores: Vec<RankedScores>,
    /// Scores of the last row, stored to reuse the allocation.
    class_scores: Vec<f64>,
}

/// The ranking of a class against the other classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassRanking {
    pub(crate) scores: OneVsRestScores,
    /// False and true positive rates at descending thresholds.
    pub(crate) roc: Option<Vec<(f64, f64)>>,
}

impl OneVsRest {
    pub(crate) fn new(class_count: usize, link: Option<Link>) -> Self {
        Self { link, ranked_scores: RankedScores::several(class_count), class_scores: Vec::new() }
    }

    /// Adds a row of the class `truth` with its scores and weight.
    pub(crate) fn push(&mut self, classes: &Classes, scores: &[f64], truth: usize, weight: f64) {
        match &self.link {
            Some(link) => link.log_odds(scores, &mut self.class_scores),
            None => classes.class_scores(scores, &mut self.class_scores),
        }
        let ranks = self.ranked_scores.iter_mut().zip(&self.class_scores).enumerate();
        ranks.for_each(|(class, (ranks, score))| ranks.push(*score, class == truth, weight));
    }

    /// Returns the ranking of each class, with curves of about `max_points` points.
    pub(crate) fn rankings(&self, max_points: usize) -> Vec<ClassRanking> {
        let class_ranking = |ranked_scores: &RankedScores| {
            let ranking = ranked_scores.ranking();
            let auc = ranking.auc();
            let scores = OneVsRestScores {
                auc: auc.map(|auc| auc.value),
                auc_within: auc.map(|auc| auc.max_error).filter(|within| *within > 0.0),
                average_precision: ranking.average_precision(),
            };
            ClassRanking { scores, roc: ranking.roc_curve(max_points) }
        };
        self.ranked_scores.iter().map(class_ranking).collect()
    }
}

impl ClassificationScores {
    /// Adds the rankings of more than two classes, and the means over the classes.
    pub(crate) fn with_class_rankings(mut self, class_rankings: &[ClassRanking]) -> Self {
        for (class, ranking) in self.by_class.iter_mut().zip(class_rankings) {
            class.one_vs_rest = Some(ranking.scores);
        }
        self.macro_means = (!class_rankings.is_empty()).then(|| MacroMeans::of(&self.by_class));
        self
    }
}

impl MacroMeans {
    fn of(by_class: &[ClassScores]) -> Self {
        // F1 is defined for the classes that occur in the data or the predictions
        let occurring = || by_class.iter().filter(|class| class.f1.is_some());
        let ranked = || by_class.iter().filter_map(|class| class.one_vs_rest);
        Self {
            precision: mean_of(occurring().map(|class| class.precision.unwrap_or(0.0))),
            recall: mean_of(occurring().map(|class| class.recall.unwrap_or(0.0))),
            f1: mean_of(occurring().filter_map(|class| class.f1)),
            auc: mean_of(ranked().filter_map(|scores| scores.auc)),
            average_precision: mean_of(ranked().filter_map(|scores| scores.average_precision)),
        }
    }
}

/// Returns the mean of some values; `None` without values.
pub(super) fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}

#[cfg(test)]
mod tests {
    use super::super::ClassificationSums;
    use super::*;
    use kstore::Label;

    /// Scores of three classes, and the class of the row.
    const ROWS: [([f64; 3], u32); 8] = [
        ([2.0, 0.5, -1.0], 0),
        ([0.3, 0.2, 0.1], 0),
        ([1.5, 1.5, -0.5], 1),
        ([-1.0, 0.75, 0.5], 1),
        ([0.0, 2.0, 1.0], 1),
        ([0.25, -0.5, 3.0], 2),
        ([-2.0, 1.0, 1.25], 2),
        ([1.0, 0.0, 0.5], 0),
    ];

    fn scores(link: Option<Link>, rows: &[([f64; 3], u32)]) -> ClassificationScores {
        let classes = Classes::new((0..3).map(Label::Int).collect()).unwrap();
        let mut sums = ClassificationSums::new(&classes, link, 1);
        rows.iter().for_each(|(scores, code)| sums.push(scores, *code, 1.0, None));
        let class_rankings = sums.class_rankings(60);
        sums.scores(None, None, None).with_class_rankings(&class_rankings)
    }

    fn assert_near(got: Option<f64>, expected: f64) {
        assert!((got.unwrap() - expected).abs() < 1e-12, "{got:?} {expected}");
    }

    /// Golden values of scikit-learn 1.9: `roc_auc_score` and `average_precision_score` of the
    /// indicators of the classes, and `classification_report`.
    #[test]
    fn classes_against_the_rest_equal_scikit_learn() {
        let by_scores = ([13.0 / 15.0, 14.0 / 15.0, 1.0], [29.0 / 36.0, 11.0 / 12.0, 1.0]);
        let by_probabilities = ([14.0 / 15.0, 1.0, 1.0], [11.0 / 12.0, 1.0, 1.0]);
        for (link, (areas, precisions)) in [(None, by_scores), (Some(Link::Logit), by_probabilities)] {
            let got = scores(link, &ROWS);
            for ((class, auc), average_precision) in got.by_class.iter().zip(areas).zip(precisions) {
                let of_class = class.one_vs_rest.unwrap();
                assert_near(of_class.auc, auc);
                assert_near(of_class.average_precision, average_precision);
                assert_eq!(of_class.auc_within, None);
            }
            let means = got.macro_means.unwrap();
            assert_near(means.precision, 0.9166666666666666);
            assert_near(means.recall, 0.8888888888888888);
            assert_near(means.f1, 0.8857142857142857);
            assert_near(means.auc, areas.iter().sum::<f64>() / 3.0);
            assert_near(means.average_precision, precisions.iter().sum::<f64>() / 3.0);
            let json = serde_json::to_value(got).unwrap();
            assert_eq!(json["by_class"][2]["auc"], 1.0, "{json}");
            assert!(json.get("auc").is_none() && json["macro"]["auc"].as_f64() < Some(1.0), "{json}");
        }
    }

    #[test]
    fn a_class_without_rows_has_no_area_and_does_not_count() {
        let got = scores(None, &ROWS[..5]);
        let [of_last, of_first] = [2, 0].map(|class: usize| got.by_class[class].one_vs_rest.unwrap());
        assert_eq!((of_last.auc, of_last.average_precision), (None, None));
        let means = got.macro_means.unwrap();
        assert_near(means.auc, (of_first.auc.unwrap() + got.by_class[1].one_vs_rest.unwrap().auc.unwrap()) / 2.0);
        // class 2 does not occur in the data or the predictions: precisions 2/3 and 1
        assert_near(means.precision, 5.0 / 6.0);
        let missing_curves = scores(None, &[]).macro_means.unwrap();
        assert_eq!(missing_curves, MacroMeans::default());
    }
}
