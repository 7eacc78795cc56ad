//! Predictions in the type of the targets.

use crate::Classes;
use faer::Mat;
use kstore::Label;
use std::fmt::Debug;

/// The predictions of a model in memory: numbers, labels, or a row of numbers for each row.
pub trait Predictions: Sized {
    /// Returns the predictions from the scores of n rows, n x t row-major, and the classes of the
    /// model.
    #[doc(hidden)]
    fn collect(scores: ScoreMatrix, classes: Option<&Classes>) -> Self;
}

/// Scores of n rows, t per row, row-major.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct ScoreMatrix {
    pub(super) n: usize,
    pub(super) scores: Vec<f64>,
}

impl ScoreMatrix {
    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.scores.chunks_exact((self.scores.len() / self.n.max(1)).max(1))
    }

    pub(super) fn matrix(&self) -> Mat<f64> {
        let t = self.scores.len() / self.n.max(1);
        Mat::from_fn(self.n, t, |i, j| self.scores[i * t + j])
    }
}

impl Predictions for Vec<f64> {
    fn collect(scores: ScoreMatrix, _: Option<&Classes>) -> Self {
        scores.scores
    }
}

impl Predictions for Mat<f64> {
    fn collect(scores: ScoreMatrix, _: Option<&Classes>) -> Self {
        scores.matrix()
    }
}

/// The index of the largest score of each row, such as its cluster.
impl Predictions for Vec<usize> {
    fn collect(scores: ScoreMatrix, _: Option<&Classes>) -> Self {
        let argmax = |row: &[f64]| (0..row.len()).fold(0, |best, j| if row[j] > row[best] { j } else { best });
        scores.rows().map(argmax).collect()
    }
}

impl<L: OwnedLabel> Predictions for Vec<L> {
    fn collect(scores: ScoreMatrix, classes: Option<&Classes>) -> Self {
        let classes = classes.expect("a classification has classes");
        let label = |row: &[f64]| L::from_label(&classes.labels()[classes.decide(row.iter().copied())]);
        scores.rows().map(label).collect()
    }
}

/// The type of a predicted label.
#[doc(hidden)]
pub trait OwnedLabel: Clone + Debug + PartialEq {
    fn from_label(label: &Label) -> Self;
}

impl OwnedLabel for String {
    fn from_label(label: &Label) -> Self {
        label.to_string()
    }
}

impl OwnedLabel for bool {
    fn from_label(label: &Label) -> Self {
        *label == Label::Bool(true)
    }
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl OwnedLabel for $type {
            fn from_label(label: &Label) -> Self {
                match label {
                    Label::Int(value) => Self::try_from(*value).expect("the labels of the fit had this type"),
                    _ => unreachable!("the labels of the fit were integers"),
                }
            }
        })*
    };
}

integers!(i8, i16, i32, i64, u8, u16, u32);

impl OwnedLabel for Label {
    fn from_label(label: &Label) -> Self {
        label.clone()
    }
}
