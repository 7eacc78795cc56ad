//! Outputs in addition to predictions, and which models have them.

use super::Predictor;
use crate::{Error, Result, Task};

/// Further outputs for every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Class scores, for models with classes.
    pub scores: bool,
    /// Class probabilities, for models that have them.
    pub probabilities: bool,
    /// Components in addition to predictions, for fisher fitted with `components`.
    pub components: bool,
    /// Standard deviations, for ridge regression fitted with `std`.
    pub std: bool,
    /// Prediction intervals or sets, for models fitted with `interval`.
    #[doc(hidden)]
    pub intervals: bool,
    /// Squared distances from the components, for kpca fitted with `novelty`.
    pub novelty: bool,
    /// Pre-images, for kpca fitted with `novelty`.
    pub preimages: bool,
    /// Norm of the part of k(x, ·) outside the span of the features, for a `features` model whose
    /// map is a projection.
    pub residual: bool,
    /// k(x, x) instead of the residual: together with cluster scores it gives the distances from
    /// the cluster centres. It is not written to files.
    #[doc(hidden)]
    pub squares: bool,
    /// Number of columns with the largest contributions to the prediction, as text; 0 for none.
    #[doc(hidden)]
    pub reasons: usize,
    /// Contribution of each column to the prediction.
    #[doc(hidden)]
    pub contributions: bool,
}

impl Extras {
    pub(super) fn has_quadratic(self) -> bool {
        self.std || self.novelty
    }

    pub(super) fn needs_explainer(self) -> bool {
        self.reasons > 0 || self.contributions
    }

    pub(super) fn needs_diagonal(self) -> bool {
        self.residual || self.squares
    }
}

impl Predictor {
    /// Rejects outputs that the model does not have.
    pub(super) fn check_extras(&self, extras: Extras) -> Result<()> {
        let metadata = self.metadata();
        if extras.probabilities && metadata.link.is_none() {
            let why = format!(
                "the scores of {} are not probabilities; omit the option, or fit logistic, or svm with `probabilities`",
                metadata.solver
            );
            return Err(Error::option("probabilities", "", why));
        }
        if extras.scores && self.classes().is_none() {
            let why = "the model has no classes, so its predictions are its scores; omit the option";
            return Err(Error::option("scores", "", why));
        }
        if extras.intervals && self.interval_levels().is_empty() {
            let why = "the model was fitted without it; fit ridge, svr, quantile, logistic or svm with `interval`, or omit the option";
            return Err(Error::option("interval", "", why));
        }
        if extras.components && self.component_count() == 0 {
            return Err(match metadata.task {
                Task::Components => {
                    Error::option("components", "", "the predictions of this model are its components; omit the option")
                }
                _ => Error::NoComponents,
            });
        }
        if extras.residual && !(metadata.has_feature_outputs() && metadata.certificate.is_some()) {
            let why = "only the features of a projection have a residual; fit features with a map on landmarks, or omit the option";
            return Err(Error::option("residual", "", why));
        }
        if extras.preimages && metadata.sparse_shape().is_some() {
            return Err(Error::option("preimage", "", "sparse rows have no pre-images; omit the option"));
        }
        self.check_reasons(extras)?;
        let requirements = [
            ("std", extras.std, "ridge with `std`", Task::Regression),
            ("novelty", extras.novelty, "kpca with `novelty`", Task::Components),
            ("preimage", extras.preimages, "kpca with `novelty`", Task::Components),
        ];
        let has_quadratic = self.quadratic().is_some();
        match requirements
            .into_iter()
            .find(|(_, is_requested, _, task)| *is_requested && (!has_quadratic || metadata.task != *task))
        {
            Some((option, _, required_fit, _)) => {
                let why = format!("the model was fitted without it; fit {required_fit}, or omit the option");
                Err(Error::option(option, "", why))
            }
            None => Ok(()),
        }
    }
}
