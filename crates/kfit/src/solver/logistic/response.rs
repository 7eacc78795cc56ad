//! What the scores predict: classes, or numbers with a logarithmic link.

use crate::features::{FitData, StoredFeatures};
use crate::solver::cross_validation::ErrorNames;
use crate::solver::{ClassWeight, Solution};
use crate::{Classes, Deviance, Error, Intercept, Link, RegressionLoss, Result};
use kapprox::Real;

/// The response, as requested.
#[derive(Clone, Debug)]
pub(super) enum Response {
    Classes(ClassWeight),
    /// Numbers, with the deviance that is minimised.
    Numbers {
        deviance: Deviance,
        /// True if the weights of the rows are their exposures.
        has_exposure: bool,
    },
}

/// The response on given rows.
pub(super) enum Targets<'a> {
    Classes {
        labels: &'a Classes,
        class_weights: Vec<f64>,
    },
    Numbers {
        deviance: Deviance,
        /// Number that is added to the scores: the logarithm of the mean if the intercept is free,
        /// so that the iteration starts at the mean.
        offset: f64,
    },
}

/// The loss of a row as a function of its k scores. Its *link values* are the numbers from which
/// its second derivatives are computed.
#[derive(Clone, Copy)]
pub(super) enum RowLoss<'a> {
    /// Cross-entropy. The link values are the class probabilities.
    Classes {
        /// Class code of every row.
        codes: &'a [u32],
        /// Weight of every class.
        class_weights: &'a [f64],
    },
    /// Half the deviance, whose logarithmic link has one score. The link value is the second
    /// derivative.
    Deviance {
        /// True value of every row.
        y: &'a [f64],
        /// The deviance.
        deviance: Deviance,
        /// Number that is added to the score.
        offset: f64,
    },
}

impl RowLoss<'_> {
    /// Returns the loss of row `i` with these scores. Replaces the scores by link values, and
    /// writes the derivatives by the scores to `derivatives`.
    pub(super) fn link(&self, i: usize, scores: &mut [f64], derivatives: &mut [f64]) -> f64 {
        match *self {
            RowLoss::Classes { codes, .. } => {
                let (code, k) = (codes[i] as usize, scores.len());
                let loss = apply_link(scores, code);
                for (j, (derivative, probability)) in derivatives.iter_mut().zip(&*scores).enumerate() {
                    let is_class = if k == 1 { code == 1 } else { code == j };
                    *derivative = probability - f64::from(u8::from(is_class));
                }
                loss
            }
            RowLoss::Deviance { y, deviance, offset } => {
                let [loss, first, second] = deviance.derivatives(y[i], scores[0] + offset);
                (derivatives[0], scores[0]) = (first, second);
                loss
            }
        }
    }

    /// Returns the second derivative by a score with this link value.
    pub(super) fn curvature(&self, link_value: f64) -> f64 {
        match self {
            RowLoss::Classes { .. } => link_value * (1.0 - link_value),
            RowLoss::Deviance { .. } => link_value,
        }
    }
}

impl Response {
    /// Checks the targets. If the rows have exposures e, replaces the values y by the rates y/e,
    /// and the exposures by weights: the deviance of y at eμ is e^(2−p) times the deviance of y/e
    /// at μ.
    pub(super) fn resolve<'a, T: Real>(
        &self,
        features: &mut StoredFeatures<'_, T>,
        data: &'a FitData<'_, T>,
        intercept: Intercept,
    ) -> Result<Targets<'a>> {
        match (self, data.classes()) {
            (Self::Classes(class_weight), Some(labels)) => {
                let class_weights = class_weight.weights_by_code(&features.class_codes, &features.weights, labels)?;
                Ok(Targets::Classes { labels, class_weights })
            }
            (Self::Classes(_), None) => Err(Error::TooFewClasses { classes: 0 }),
            (Self::Numbers { deviance, has_exposure }, _) => {
                let count = data.targets.count();
                if count != 1 {
                    return Err(Error::option(
                        "target",
                        format!("{count} columns"),
                        "glm learns one target; name one column",
                    ));
                }
                if let Some(y) = features.y.iter().find(|y| !deviance.accepts(**y)) {
                    let (name, least) = (deviance.name(), if deviance.power < 2.0 { "0 or more" } else { "above 0" });
                    let why = format!(
                        "the {name} distribution has values of {least}; select rows with `where`, or choose another `family`"
                    );
                    return Err(Error::option("target", format!("with the value {y}"), why));
                }
                if *has_exposure {
                    features.y.iter_mut().zip(&features.weights.0).for_each(|(y, exposure)| *y /= exposure);
                    features.weights.0.iter_mut().for_each(|weight| *weight = weight.powf(2.0 - deviance.power));
                }
                let weighted_sum: f64 = features.y.iter().enumerate().map(|(i, y)| features.weights.get(i) * y).sum();
                let mean = weighted_sum / features.weight_outside(None);
                if !(mean.is_finite() && mean > 0.0) {
                    let why = "the sum of its values must be positive and finite; check the column";
                    return Err(Error::option("target", format!("with the mean {mean}"), why));
                }
                let offset = if intercept == Intercept::Free { mean.ln() } else { 0.0 };
                Ok(Targets::Numbers { deviance: *deviance, offset })
            }
        }
    }
}

impl Targets<'_> {
    /// Returns the number of scores of a row.
    pub(super) fn score_count(&self) -> usize {
        match self {
            Self::Classes { labels, .. } => labels.target_count(),
            Self::Numbers { .. } => 1,
        }
    }

    pub(super) fn row_loss<'f, T: Real>(&'f self, features: &'f StoredFeatures<'_, T>) -> RowLoss<'f> {
        match self {
            Self::Classes { class_weights, .. } => RowLoss::Classes { codes: &features.class_codes, class_weights },
            Self::Numbers { deviance, offset } => {
                RowLoss::Deviance { y: &features.y, deviance: *deviance, offset: *offset }
            }
        }
    }

    /// Returns the factor of the loss in reports: the minimised loss is half the deviance.
    pub(super) fn loss_unit(&self) -> f64 {
        if matches!(self, Self::Classes { .. }) { 1.0 } else { 2.0 }
    }

    pub(super) fn train_loss_name(&self) -> &'static str {
        if matches!(self, Self::Classes { .. }) { "train log-loss" } else { "train deviance" }
    }

    pub(super) fn error_names(&self) -> ErrorNames {
        let (chosen, at_each) = match self {
            Self::Classes { .. } => ("cv log-loss", "held-out log-loss at each"),
            Self::Numbers { .. } => ("cv deviance", "held-out deviance at each"),
        };
        ErrorNames { chosen, at_each }
    }

    pub(super) fn method_name(&self) -> &'static str {
        if matches!(self, Self::Classes { .. }) { "logistic regression" } else { "glm" }
    }

    /// Adds the link of the scores to a solution.
    pub(super) fn add_to<T>(&self, mut solution: Solution<T>) -> Solution<T> {
        match self {
            Self::Classes { .. } => Solution { link: Some(Link::Logit), ..solution },
            Self::Numbers { deviance, offset } => {
                solution.intercept.iter_mut().for_each(|intercept| *intercept += offset);
                Solution { loss: Some(RegressionLoss::Deviance(deviance.power)), ..solution }
            }
        }
    }
}

/// Replaces the scores of a row by probabilities, and returns −ln of the probability of the true
/// class. If there is a single score, it is the score of class 1 of two classes.
fn apply_link(scores: &mut [f64], class: usize) -> f64 {
    if let [f] = scores {
        let margin = if class == 1 { *f } else { -*f };
        // ln(1 + e^−m) without overflow, and σ(f) for its derivative without cancellation
        let loss = (-margin).max(0.0) + (-margin.abs()).exp().ln_1p();
        let tail = (-f.abs()).exp() / (1.0 + (-f.abs()).exp());
        *f = if *f >= 0.0 { 1.0 - tail } else { tail };
        return loss;
    }
    let max_score = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let true_score = scores[class] - max_score;
    scores.iter_mut().for_each(|f| *f = (*f - max_score).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|f| *f /= sum);
    sum.ln() - true_score
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_losses_do_not_overflow() {
        let mut one = [0.5];
        assert!((apply_link(&mut one, 1) - (1.0 + (-0.5f64).exp()).ln()).abs() < 1e-15);
        assert!((one[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-15);
        let mut far = [-800.0];
        assert_eq!((apply_link(&mut far, 1), far[0]), (800.0, 0.0));
        // softmax with two columns equals the logistic function with one column
        let mut two = [1.25, -0.5];
        assert!((apply_link(&mut two, 0) - (1.0 + (-1.75f64).exp()).ln()).abs() < 1e-15);
        assert!((two[0] + two[1] - 1.0).abs() < 1e-15);
        let mut scores = [1000.0, -1000.0, 0.0];
        assert_eq!((apply_link(&mut scores, 1), scores), (2000.0, [1.0, 0.0, 0.0]));
    }
}
