//! Learning tasks, and the ±1 targets of classes.

use crate::{Error, Result};
use kstore::Label;

/// The task of a solver, which defines the meaning of a model's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// One or several numbers per row: the values of the model's functions.
    #[default]
    Regression,
    /// A label per row: the class with the largest score, or the sign of a single score.
    Classification,
    /// Coordinates of the rows, without a target.
    Components,
    /// A cluster per row, without a target: the cluster with the largest score.
    Clusters,
    /// A score per row, learned from grades: within a group, rows with larger scores come first.
    Ranking,
    /// A score per row, without a target: negative for outliers.
    Novelty,
}

/// The link function from classification scores to probabilities.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Scores are log odds: the probabilities are the logistic function of a single score, or the
    /// softmax of several scores.
    Logit,
    /// Platt scaling: the probability 1/(1 + exp(a f + b)) of a score f, with an a and b for each
    /// score. If there are several scores, their probabilities are divided by their sum.
    Platt {
        /// The slopes a, one per score; negative if the score is informative.
        a: Vec<f64>,
        /// The offsets b, one per score.
        b: Vec<f64>,
    },
}

impl Link {
    /// Writes the class probabilities of a row with these scores to `out`: two for a single score.
    #[doc(hidden)]
    pub fn probabilities(&self, scores: &[f64], out: &mut Vec<f64>) {
        self.log_probabilities(scores, out);
        let max_log_probability = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        out.iter_mut().for_each(|score| *score = (*score - max_log_probability).exp());
        let sum: f64 = out.iter().sum();
        out.iter_mut().for_each(|score| *score /= sum);
    }

    /// Returns the score at which the second of two classes has this probability, between 0 and 1;
    /// `None` if no single score has it, or if the probability does not grow with the score.
    pub(crate) fn score_at(&self, probability: f64) -> Option<f64> {
        let log_odds = (probability / (1.0 - probability)).ln();
        let score = match self {
            Self::Logit => log_odds,
            Self::Platt { a, b } => match (&a[..], &b[..]) {
                ([a], [b]) if *a < 0.0 => (-log_odds - b) / a,
                _ => return None,
            },
        };
        score.is_finite().then_some(score)
    }

    /// Writes the log odds ln(p / (1 − p)) of the probability p of each class to `out`.
    /// They order rows like the probabilities, and also distinguish probabilities that round to 1.
    pub(crate) fn log_odds(&self, scores: &[f64], out: &mut Vec<f64>) {
        self.log_probabilities(scores, out);
        let largest = (0..out.len()).fold(0, |best, k| if out[k] > out[best] { k } else { best });
        let others = || (0..scores.len()).filter(move |k| *k != largest);
        let next = others().map(|k| out[k]).fold(f64::NEG_INFINITY, f64::max);
        let max = out.get(largest).copied().unwrap_or_default();
        // the sum over all classes but the largest, relative to the largest of them: at least 1
        let rest = others().map(|k| (out[k] - next).exp()).sum::<f64>();
        let rest_of_max = rest * (next - max).exp();
        for (k, log_probability) in out.iter_mut().enumerate() {
            *log_probability -= match k == largest {
                true => next + rest.ln(),
                // the largest class is in the sum, so it does not vanish
                false => max + (1.0 + (rest_of_max - (*log_probability - max).exp()).max(0.0)).ln(),
            };
        }
    }

    /// Returns −ln of the probability of `class`. It is computed from the scores, so it is finite
    /// even if the probability underflows.
    #[doc(hidden)]
    pub fn log_loss(&self, scores: &[f64], class: usize) -> f64 {
        let mut log_probabilities = Vec::new();
        self.log_probabilities(scores, &mut log_probabilities);
        let max_log_probability = log_probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let class_score = log_probabilities.get(class).map_or(f64::NAN, |score| score - max_log_probability);
        log_probabilities.iter().map(|score| (score - max_log_probability).exp()).sum::<f64>().ln() - class_score
    }

    /// Writes the logarithms of the probabilities to `out`, up to a common constant.
    fn log_probabilities(&self, scores: &[f64], out: &mut Vec<f64>) {
        out.clear();
        match (self, scores) {
            // a single score is the score of the second of two classes; the first has score 0
            (Self::Logit, [score]) => out.extend([0.0, *score]),
            (Self::Logit, _) => out.extend_from_slice(scores),
            (Self::Platt { a, b }, [score]) => {
                let z = a.first().zip(b.first()).map_or(0.0, |(a, b)| a * score + b);
                out.extend([0.0, -z]);
            }
            (Self::Platt { a, b }, _) => {
                let z = scores.iter().zip(a.iter().zip(b)).map(|(score, (a, b))| a * score + b);
                // −ln(1 + exp(z)), without overflow
                out.extend(z.map(|z| if z > 0.0 { -z - (-z).exp().ln_1p() } else { -z.exp().ln_1p() }));
            }
        }
    }
}

impl Task {
    /// Returns true if the task learns from a target.
    pub fn has_target(self) -> bool {
        matches!(self, Self::Regression | Self::Classification | Self::Ranking)
    }
}

crate::enum_of_words!(
    Task,
    "task",
    "regression" => Regression,
    "classification" => Classification,
    "components" => Components,
    "clusters" => Clusters,
    "ranking" => Ranking,
    "novelty" => Novelty,
);

/// The classes of a classification, and their encoding as regression targets.
///
/// Two classes are one target, +1 for the second label and −1 for the first. k > 2 classes are k
/// targets (one-vs-rest), +1 for the class itself and −1 for the other classes. The decision is the
/// class with the largest score. If several classes have the largest score, the decision is the
/// first of these classes.
///
/// [One-vs-one](Classes::one_vs_one()) classes have a score for every pair, in the order of
/// [`Classes::pairs()`]: positive for the second class of the pair. The decision is the class that
/// wins the most pairs; the first class wins ties.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    labels: Vec<Label>,
    one_vs_one: bool,
    /// The score above which a row belongs to the second of two classes.
    threshold: f64,
}

impl Classes {
    /// Makes the classes from their labels; the code of a label is its position.
    ///
    /// # Errors
    /// [`Error::TooFewClasses`] for fewer than two.
    pub fn new(labels: Vec<Label>) -> Result<Self> {
        if labels.len() < 2 {
            return Err(Error::TooFewClasses { classes: labels.len() });
        }
        Ok(Self { labels, one_vs_one: false, threshold: 0.0 })
    }

    /// Returns the classes with a score for every pair (one-vs-one).
    #[must_use]
    pub fn one_vs_one(self) -> Self {
        Self { one_vs_one: self.labels.len() > 2, ..self }
    }

    /// Sets the score above which a row belongs to the second of two classes; ignored for more than
    /// two classes.
    #[must_use]
    pub fn with_threshold(self, threshold: f64) -> Self {
        Self { threshold, ..self }
    }

    pub(crate) fn is_one_vs_one(&self) -> bool {
        self.one_vs_one
    }

    /// Returns all pairs of codes below `k` in the order of their scores: (0, 1), (0, 2), …
    pub fn pairs(k: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..k).flat_map(move |a| (a + 1..k).map(move |b| (a, b)))
    }

    /// Returns the labels, by code.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Returns the number of scores: 1 for two classes, otherwise the number of classes or of
    /// pairs.
    pub fn target_count(&self) -> usize {
        match (self.labels.len(), self.one_vs_one) {
            (2, _) => 1,
            (k, false) => k,
            (k, true) => k * (k - 1) / 2,
        }
    }

    /// Returns target `j` of a row with class code `code`: +1 or −1; `None` if the class has no
    /// label, or is not in pair `j` of one-vs-one classes.
    pub fn target_value(&self, code: u32, j: usize) -> Option<f64> {
        let code = code as usize;
        if self.one_vs_one {
            let (first_class, second_class) = Self::pairs(self.labels.len()).nth(j)?;
            return (code == first_class || code == second_class).then_some(if code == second_class {
                1.0
            } else {
                -1.0
            });
        }
        let positive_class = if self.labels.len() == 2 { 1 } else { j };
        (code < self.labels.len()).then_some(if code == positive_class { 1.0 } else { -1.0 })
    }

    /// Writes a score for each of several classes to `out`, from the scores of a row.
    ///
    /// A one-vs-one class scores the number w of pairs that it wins. Its margins m, with the sum s,
    /// order rows with equally many wins: the score is w + s / (3 (|s| + 1)), as in scikit-learn.
    pub(crate) fn class_scores(&self, scores: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if !self.one_vs_one {
            return out.extend_from_slice(scores);
        }
        let k = self.labels.len();
        let mut wins = vec![0.0; k];
        out.resize(k, 0.0);
        for ((a, b), score) in Self::pairs(k).zip(scores) {
            wins[if *score > 0.0 { b } else { a }] += 1.0;
            out[a] -= score;
            out[b] += score;
        }
        out.iter_mut().zip(wins).for_each(|(sum, wins)| *sum = wins + *sum / (3.0 * (sum.abs() + 1.0)));
    }

    /// Returns the class of a row with these scores, one per target.
    pub fn decide(&self, scores: impl IntoIterator<Item = f64>) -> usize {
        if self.one_vs_one {
            let k = self.labels.len();
            let mut wins = vec![0usize; k];
            for ((a, b), score) in Self::pairs(k).zip(scores) {
                wins[if score > 0.0 { b } else { a }] += 1;
            }
            return (0..k).fold(0, |best, class| if wins[class] > wins[best] { class } else { best });
        }
        let (mut best_class, mut best_score) = (0, f64::NEG_INFINITY);
        for (j, score) in scores.into_iter().enumerate() {
            if self.labels.len() == 2 {
                return usize::from(score > self.threshold);
            }
            if score > best_score {
                (best_class, best_score) = (j, score);
            }
        }
        best_class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(k: i64) -> Classes {
        Classes::new((0..k).map(Label::Int).collect()).unwrap()
    }

    #[test]
    fn two_classes_are_one_column() {
        let two = classes(2);
        assert_eq!(two.target_count(), 1);
        assert_eq!(
            (two.target_value(0, 0), two.target_value(1, 0), two.target_value(2, 0)),
            (Some(-1.0), Some(1.0), None)
        );
        assert_eq!([0.3, -0.3, 0.0].map(|score| two.decide([score])), [1, 0, 0]);
    }

    #[test]
    fn more_classes_are_one_against_the_rest() {
        let three = classes(3);
        assert_eq!(three.target_count(), 3);
        assert_eq!((0..3).map(|j| three.target_value(1, j).unwrap()).collect::<Vec<_>>(), [-1.0, 1.0, -1.0]);
        assert_eq!(three.target_value(kstore::LabelCodes::UNKNOWN, 0), None);
        assert_eq!(three.decide([-1.0, 0.2, 0.1]), 1);
        assert_eq!(three.decide([0.5, 0.2, 0.5]), 0, "the first of equal scores wins");
        assert_eq!(three.decide([-3.0, -2.0, -2.0]), 1);
    }

    /// Golden values of scikit-learn 1.9, `_ovr_decision_function`.
    #[test]
    fn classes_of_pairs_score_their_wins_and_margins() {
        let three = classes(3).one_vs_one();
        let pairs = [[0.5, -1.0, 0.25], [-0.5, 2.0, 0.125], [1.0, 1.0, -3.0]];
        let expected = [
            [1.1111111111111112, 1.0666666666666667, 0.8571428571428572],
            [0.8, -0.1282051282051282, 2.2266666666666666],
            [-0.2222222222222222, 2.2666666666666666, 0.7777777777777778],
        ];
        let mut got = vec![9.0];
        for (scores, expected) in pairs.iter().zip(expected) {
            three.class_scores(scores, &mut got);
            assert!(got.len() == 3 && got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{got:?}");
        }
        classes(3).class_scores(&[3.0, 1.0, 2.0], &mut got);
        assert_eq!(got, [3.0, 1.0, 2.0]);
    }

    #[test]
    fn log_odds_are_the_logarithms_of_the_odds_and_stay_finite() {
        let platt = Link::Platt { a: vec![-1.0, -2.0, -0.5], b: vec![0.0, 0.5, 1.0] };
        let (mut odds, mut probabilities) = (Vec::new(), Vec::new());
        for link in [Link::Logit, platt] {
            for scores in [[0.1, -2.0, 1.5], [3.0, 3.0, -1.0], [0.0; 3]] {
                link.log_odds(&scores, &mut odds);
                link.probabilities(&scores, &mut probabilities);
                let expected = probabilities.iter().map(|p| (p / (1.0 - p)).ln());
                assert!(odds.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{odds:?} {probabilities:?}");
            }
        }
        Link::Logit.log_odds(&[900.0, -900.0, 0.0], &mut odds);
        assert!(odds.iter().zip([900.0, -1800.0, -900.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{odds:?}");
    }

    #[test]
    fn pairs_vote() {
        let three = classes(3).one_vs_one();
        assert_eq!(three.target_count(), 3);
        assert_eq!(Classes::pairs(4).collect::<Vec<_>>(), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        assert_eq!((0..3).map(|j| three.target_value(1, j)).collect::<Vec<_>>(), [Some(1.0), None, Some(-1.0)]);
        // 1 beats 0, 0 beats 2, 1 beats 2
        assert_eq!(three.decide([0.1, -9.0, -0.1]), 1);
        // each class wins once: the first is chosen
        assert_eq!(three.decide([1.0, -1.0, 1.0]), 0);
        assert_eq!(three.decide([-1.0, 2.0, 2.0]), 2);
        assert_eq!(classes(2).one_vs_one(), classes(2));
        assert_eq!(classes(5).one_vs_one().target_count(), 10);
    }

    #[test]
    fn the_score_of_a_probability_has_that_probability() {
        for link in [Link::Logit, Link::Platt { a: vec![-1.7], b: vec![0.4] }] {
            for probability in [0.01, 0.5, 0.9] {
                let (score, mut out) = (link.score_at(probability).unwrap(), Vec::new());
                link.probabilities(&[score], &mut out);
                assert!((out[1] - probability).abs() < 1e-12, "{link:?} {probability} {out:?}");
            }
            assert_eq!((link.score_at(0.0), link.score_at(1.0)), (None, None));
        }
        assert_eq!(Link::Platt { a: vec![0.3], b: vec![0.0] }.score_at(0.5), None);
        let two = Classes::new(vec![Label::Int(0), Label::Int(1)]).unwrap().with_threshold(0.4);
        assert_eq!([0.3, 0.4, 0.5].map(|score| two.decide([score])), [0, 0, 1]);
    }

    #[test]
    fn platt_probabilities_equal_their_formula() {
        let mut out = Vec::new();
        let two = Link::Platt { a: vec![-2.0], b: vec![0.5] };
        two.probabilities(&[1.5], &mut out);
        let p = 1.0 / (1.0 + (-2.0f64 * 1.5 + 0.5).exp());
        assert!((out[1] - p).abs() < 1e-15 && (out[0] + p - 1.0).abs() < 1e-15, "{out:?}");
        assert!((two.log_loss(&[1.5], 0) + (1.0 - p).ln()).abs() < 1e-14);
        let three = Link::Platt { a: vec![-1.0, -2.0, -3.0], b: vec![0.0, 0.1, 0.2] };
        let scores = [0.3, -0.4, 900.0];
        three.probabilities(&scores, &mut out);
        let each = [(-1.0f64, 0.0), (-2.0, 0.1), (-3.0, 0.2)].map(|(a, b)| (a, b));
        let each: Vec<f64> = each.iter().zip(scores).map(|((a, b), f)| 1.0 / (1.0 + (a * f + b).exp())).collect();
        let sum: f64 = each.iter().sum();
        assert!(out.iter().zip(&each).all(|(got, p)| (got - p / sum).abs() < 1e-14), "{out:?} {each:?}");
        assert!(three.log_loss(&[-900.0, -900.0, -900.0], 0).is_finite());
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(text, r#"{"platt":{"a":[-2.0],"b":[0.5]}}"#);
        assert_eq!(serde_json::from_str::<Link>(r#""logit""#).unwrap(), Link::Logit);
    }

    #[test]
    fn probabilities_of_scores() {
        let mut out = Vec::new();
        Link::Logit.probabilities(&[2.0], &mut out);
        let sigma = 1.0 / (1.0 + (-2.0f64).exp());
        assert!((out[1] - sigma).abs() < 1e-15 && (out[0] + out[1] - 1.0).abs() < 1e-15);
        assert!((Link::Logit.log_loss(&[2.0], 1) + sigma.ln()).abs() < 1e-15);
        assert_eq!(Link::Logit.log_loss(&[-900.0], 1), 900.0);
        Link::Logit.probabilities(&[1.0, 800.0, -800.0], &mut out);
        assert_eq!(out, [0.0, 1.0, 0.0]);
        assert_eq!(Link::Logit.log_loss(&[1.0, 800.0, -800.0], 2), 1600.0);
    }

    #[test]
    fn one_class_is_rejected() {
        assert!(matches!(Classes::new(vec![Label::Bool(true)]), Err(Error::TooFewClasses { classes: 1 })));
    }
}
