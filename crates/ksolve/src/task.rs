//! What is learned, and classes as numbers: one-against-rest codes of ±1.

use crate::{Error, Result};
use kstore::Label;

/// What is learned, and so what the functions of a model mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// One or several numbers for each row: the values of the functions.
    #[default]
    Regression,
    /// A label for each row: the class of the largest score, or the sign of the only one.
    Classification,
    /// Coordinates of the rows, with no target.
    Components,
    /// A group for each row, with no target: that of the largest score.
    Clusters,
    /// A score for each row, with no target: negative for rows unlike those of the fit.
    Novelty,
}

/// How the scores of a classification become probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Scores are logarithms of odds: the logistic function of the only one, else the softmax.
    Logit,
}

impl Link {
    /// Probabilities of the classes of a row with these scores, one for each class: two where there is one score.
    pub fn probabilities(self, scores: &[f64], out: &mut Vec<f64>) {
        let Self::Logit = self;
        out.clear();
        // one score is that of the second of two classes; the first has score 0
        out.extend((scores.len() == 1).then_some(0.0));
        out.extend_from_slice(scores);
        let largest = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        out.iter_mut().for_each(|score| *score = (*score - largest).exp());
        let sum: f64 = out.iter().sum();
        out.iter_mut().for_each(|score| *score /= sum);
    }

    /// −ln of the probability of `class`, from the scores themselves: finite however small it is.
    pub fn log_loss(self, scores: &[f64], class: usize) -> f64 {
        let Self::Logit = self;
        let zero = (scores.len() == 1).then_some(&0.0);
        let all = || zero.into_iter().chain(scores);
        let largest = all().copied().fold(f64::NEG_INFINITY, f64::max);
        let own = all().nth(class).map_or(f64::NAN, |score| score - largest);
        all().map(|score| (score - largest).exp()).sum::<f64>().ln() - own
    }
}

impl Task {
    /// True where a target is learned from.
    pub fn has_target(self) -> bool {
        matches!(self, Self::Regression | Self::Classification)
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Regression => "regression",
            Self::Classification => "classification",
            Self::Components => "components",
            Self::Clusters => "clusters",
            Self::Novelty => "novelty",
        })
    }
}

/// The classes of a classification, as targets for a regression and back.
///
/// Two classes are one target, +1 for the second label and −1 for the first. k > 2 classes are k targets, +1 in the
/// class's own and −1 in the others. The decision is the largest score; of equal scores the first wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    labels: Vec<Label>,
}

impl Classes {
    /// The classes in the order of their codes.
    ///
    /// # Errors
    /// [`Error::TooFewClasses`] for fewer than two.
    pub fn new(labels: Vec<Label>) -> Result<Self> {
        if labels.len() < 2 {
            return Err(Error::TooFewClasses { classes: labels.len() });
        }
        Ok(Self { labels })
    }

    /// The labels, by code.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Number of regression targets: 1 for two classes, else their number.
    pub fn targets(&self) -> usize {
        if self.labels.len() == 2 { 1 } else { self.labels.len() }
    }

    /// The target `j` of a row of class `code`: +1 or −1. `None` for a class that is not among the labels.
    pub fn code(&self, code: u32, j: usize) -> Option<f64> {
        let code = code as usize;
        let own = if self.labels.len() == 2 { 1 } else { j };
        (code < self.labels.len()).then_some(if code == own { 1.0 } else { -1.0 })
    }

    /// The class of a row with these scores, one per target.
    pub fn decide(&self, scores: impl IntoIterator<Item = f64>) -> usize {
        let mut best = (0, f64::NEG_INFINITY);
        for (j, score) in scores.into_iter().enumerate() {
            if self.labels.len() == 2 {
                return usize::from(score > 0.0);
            }
            if score > best.1 {
                best = (j, score);
            }
        }
        best.0
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
        assert_eq!(two.targets(), 1);
        assert_eq!((two.code(0, 0), two.code(1, 0), two.code(2, 0)), (Some(-1.0), Some(1.0), None));
        assert_eq!([0.3, -0.3, 0.0].map(|score| two.decide([score])), [1, 0, 0]);
    }

    #[test]
    fn more_classes_are_one_against_the_rest() {
        let three = classes(3);
        assert_eq!(three.targets(), 3);
        assert_eq!((0..3).map(|j| three.code(1, j).unwrap()).collect::<Vec<_>>(), [-1.0, 1.0, -1.0]);
        assert_eq!(three.code(kstore::Coded::UNKNOWN, 0), None);
        assert_eq!(three.decide([-1.0, 0.2, 0.1]), 1);
        assert_eq!(three.decide([0.5, 0.2, 0.5]), 0, "the first of equal scores wins");
        assert_eq!(three.decide([-3.0, -2.0, -2.0]), 1);
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
    fn one_class_is_no_classification() {
        assert!(matches!(Classes::new(vec![Label::Bool(true)]), Err(Error::TooFewClasses { classes: 1 })));
    }
}
