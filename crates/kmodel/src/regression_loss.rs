//! Losses of quantile, expectile and Huber regression, and deviances, by which models are fitted,
//! chosen and scored.
//!
//! For an error e = y − f and the weight a(e) = τ for e ≥ 0, 1 − τ for e < 0:
//!
//! ```text
//! pinball    a(e) |e|     least for the quantile of level τ
//! expectile  a(e) e²      least for the expectile of level τ; the mean for τ = ½
//! huber      ½ e² for |e| ≤ delta, delta (|e| − ½ delta) for larger errors
//! ```
//!
//! References: Koenker, Bassett, "Regression quantiles", Econometrica 46, 1978; Newey, Powell,
//! "Asymmetric least squares estimation and testing", Econometrica 55, 1987; Huber, "Robust
//! estimation of a location parameter", Annals of Mathematical Statistics 35, 1964; Chernozhukov,
//! Fernández-Val, Galichon, "Quantile and probability curves without crossing", Econometrica 78,
//! 2010.

use crate::Deviance;

/// The loss of a model whose outputs are quantiles, expectiles, or robust means.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegressionLoss {
    /// Quantiles of these ascending levels; each target has an output per level.
    Pinball(Vec<f64>),
    /// Expectiles of these ascending levels; each target has an output per level.
    Expectile(Vec<f64>),
    /// The largest error with a quadratic loss, for each target.
    Huber(Vec<f64>),
    /// The [deviance](Deviance) of this power. The outputs are exponentials of the scores.
    Deviance(f64),
}

impl RegressionLoss {
    /// Returns the name of the loss.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pinball(_) => "pinball",
            Self::Expectile(_) => "expectile",
            Self::Huber(_) => "huber",
            Self::Deviance(power) => Deviance { power: *power }.name(),
        }
    }

    /// Returns the levels of the outputs of a target; empty for other losses than quantiles and
    /// expectiles.
    pub fn levels(&self) -> &[f64] {
        match self {
            Self::Pinball(levels) | Self::Expectile(levels) => levels,
            Self::Huber(_) | Self::Deviance(_) => &[],
        }
    }

    /// Returns the number of outputs of each target.
    pub fn outputs_per_target(&self) -> usize {
        self.levels().len().max(1)
    }

    /// Returns true if the numbers are finite and in their ranges, and there is a number for each
    /// output of `target_count` targets.
    pub(crate) fn is_valid(&self, target_count: usize) -> bool {
        match self {
            Self::Pinball(levels) | Self::Expectile(levels) => {
                !levels.is_empty()
                    && levels.iter().all(|level| *level > 0.0 && *level < 1.0)
                    && levels.is_sorted_by(|a, b| a < b)
            }
            Self::Deviance(power) => (1.0..=2.0).contains(power),
            Self::Huber(deltas) => deltas.len() == target_count && deltas.iter().all(|d| d.is_finite() && *d > 0.0),
        }
    }

    /// Returns the loss of the output f for the true value y.
    pub fn value(&self, output: usize, y: f64, f: f64) -> f64 {
        let error = y - f;
        let side = |level: f64| if error < 0.0 { 1.0 - level } else { level };
        match self {
            Self::Pinball(levels) => side(levels[output % levels.len()]) * error.abs(),
            Self::Expectile(levels) => side(levels[output % levels.len()]) * error * error,
            Self::Huber(deltas) => {
                let (delta, size) = (deltas[output], error.abs());
                size.min(delta) * (size - 0.5 * size.min(delta))
            }
            Self::Deviance(power) => Deviance { power: *power }.value(y, f),
        }
    }

    /// Returns the mean loss over the outputs of a row with the true values `y` of the targets.
    pub fn mean(&self, outputs: &[f64], y: &[f64]) -> f64 {
        let per_target = self.outputs_per_target();
        let losses = outputs.iter().enumerate().map(|(k, f)| self.value(k, y[k / per_target], *f));
        losses.sum::<f64>() / outputs.len().max(1) as f64
    }

    /// Sorts the outputs of each target of a row, so that no quantile is below a quantile of a
    /// lower level. This rearrangement never increases the loss. It does not allocate.
    pub fn sort_outputs(&self, outputs: &mut [f64]) {
        for levels in outputs.chunks_mut(self.outputs_per_target()) {
            levels.sort_unstable_by(f64::total_cmp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_by_hand() {
        let pinball = RegressionLoss::Pinball(vec![0.1, 0.9]);
        assert!((pinball.value(0, 2.0, 0.0) - 0.2).abs() < 1e-15 && (pinball.value(1, 2.0, 0.0) - 1.8).abs() < 1e-15);
        assert!((pinball.value(2, -2.0, 0.0) - 1.8).abs() < 1e-15 && (pinball.value(3, -2.0, 0.0) - 0.2).abs() < 1e-15);
        let expectile = RegressionLoss::Expectile(vec![0.25]);
        assert_eq!((expectile.value(0, 2.0, 0.0), expectile.value(0, -2.0, 0.0)), (1.0, 3.0));
        let huber = RegressionLoss::Huber(vec![1.0, 3.0]);
        assert_eq!((huber.value(0, 2.0, 0.0), huber.value(1, -2.0, 0.0), huber.value(0, 0.5, 0.0)), (1.5, 2.0, 0.125));
        assert!((huber.mean(&[1.0, 1.0], &[3.0, -1.0]) - 1.75).abs() < 1e-15);
        assert!((pinball.mean(&[1.0, 1.0], &[3.0]) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn outputs_are_sorted_within_each_target() {
        let loss = RegressionLoss::Pinball(vec![0.2, 0.5, 0.8]);
        let mut outputs = [3.0, 1.0, 2.0, -1.0, -3.0, 5.0];
        loss.sort_outputs(&mut outputs);
        assert_eq!(outputs, [1.0, 2.0, 3.0, -3.0, -1.0, 5.0]);
        let mut two = [3.0, 1.0];
        RegressionLoss::Huber(vec![1.0, 1.0]).sort_outputs(&mut two);
        assert_eq!(two, [3.0, 1.0]);
    }

    #[test]
    fn damaged_numbers_are_recognised() {
        assert!(RegressionLoss::Pinball(vec![0.1, 0.9]).is_valid(3));
        for levels in [vec![], vec![0.9, 0.1], vec![0.0, 0.5], vec![f64::NAN], vec![0.5, 1.0]] {
            assert!(!RegressionLoss::Expectile(levels).is_valid(1));
        }
        assert!(RegressionLoss::Huber(vec![2.0]).is_valid(1) && !RegressionLoss::Huber(vec![2.0]).is_valid(2));
        assert!(!RegressionLoss::Huber(vec![-1.0]).is_valid(1));
        let text = serde_json::to_string(&RegressionLoss::Pinball(vec![0.5])).unwrap();
        assert_eq!(text, r#"{"pinball":[0.5]}"#);
    }
}
