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
    fn one_class_is_no_classification() {
        assert!(matches!(Classes::new(vec![Label::Bool(true)]), Err(Error::TooFewClasses { classes: 1 })));
    }
}
