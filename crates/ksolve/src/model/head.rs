//! Linear functions of the features, and how their constant is treated.

use faer::Mat;

/// How the constant is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intercept {
    /// Fitted without a penalty.
    #[default]
    Free,
    /// The coefficient of a constant feature 1, penalised like the others.
    Penalised,
    /// No constant.
    None,
}

crate::error::enum_of_words!(Intercept, "intercept", "free" => Free, "penalised" => Penalised, "none" => None);

impl Intercept {
    /// Number of constant features that go first: 0 or 1.
    pub(crate) fn lead(self) -> usize {
        usize::from(self == Self::Penalised)
    }
}

/// Linear functions of the features, f(x) = wᵀφ(x) + c, one for each target.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Coefficients w of the leading r features, r x t.
    pub weights: Mat<f64>,
    /// Intercepts c, t numbers, for the targets as they were before any shift.
    pub intercept: Vec<f64>,
}
