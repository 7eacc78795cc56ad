//! What is computed for every row beside its scores.

/// What is computed for every row beside its scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The scores that classes are decided by, of models that have classes.
    pub scores: bool,
    /// Probabilities of the classes, of models that have them.
    pub probabilities: bool,
    /// Coordinates along the components that the model holds beside its predictions, of fisher fitted with `components`.
    pub components: bool,
    /// Standard deviations, of ridge regression fitted with `std`.
    pub std: bool,
    /// Squared distances from the components, of kpca fitted with `novelty`.
    pub novelty: bool,
    /// Pre-images, of kpca fitted with `novelty`.
    pub preimages: bool,
    /// The coordinate outside the span of the features, of `features` by a projection.
    pub residual: bool,
}

impl Extras {
    pub(super) fn has_quadratic(self) -> bool {
        self.std || self.novelty
    }
}
