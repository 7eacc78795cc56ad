//! Scores of quantiles, expectiles and robust means: the loss by which they were fitted, and the
//! coverage of the interval between the outermost quantiles.

use crate::RegressionLoss;

/// Losses of the outputs of a model, and the interval between its outermost quantiles.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LossScores {
    /// Name of the loss: `pinball`, `expectile` or `huber`; of a deviance `poisson`, `gamma` or
    /// `tweedie`.
    pub name: &'static str,
    /// Mean loss over all rows and outputs.
    pub mean: f64,
    /// Loss of each output, target by target.
    pub outputs: Vec<OutputLoss>,
    /// Interval between the lowest and the highest quantile; only for several quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalScores>,
}

/// Loss of one output.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OutputLoss {
    /// Name of the target.
    pub target: String,
    /// Level of the quantile or expectile; absent for the Huber loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// Mean loss.
    pub mean: f64,
    /// Fraction of the true values at or below the prediction: the level, for a right quantile.
    pub below: f64,
}

/// Coverage and width of prediction intervals.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct IntervalScores {
    /// Requested fraction of the true values in the interval.
    pub level: f64,
    /// Fraction of the true values in the interval.
    pub coverage: f64,
    /// Mean width of the interval, in the unit of the target.
    pub width: f64,
}

/// Sums over rows for [`LossScores`].
#[derive(Clone, Debug)]
pub(crate) struct LossSums {
    loss: RegressionLoss,
    weight: f64,
    losses: Vec<f64>,
    below: Vec<f64>,
    covered: f64,
    width: f64,
}

impl LossSums {
    pub(crate) fn new(loss: RegressionLoss, output_count: usize) -> Self {
        let zeros = vec![0.0; output_count];
        Self { loss, weight: 0.0, losses: zeros.clone(), below: zeros, covered: 0.0, width: 0.0 }
    }

    /// Returns the output of each target by which errors are scored: the level nearest to ½, the
    /// lower of two equally near levels.
    pub(crate) fn central_outputs(&self) -> impl Iterator<Item = usize> {
        let levels = self.loss.levels();
        let distance = |k: usize| levels.get(k).map_or(0.0, |level| (level - 0.5).abs());
        let per_target = self.loss.outputs_per_target();
        let central = (1..per_target).fold(0, |best, k| if distance(k) < distance(best) { k } else { best });
        (central..self.losses.len()).step_by(per_target)
    }

    pub(crate) fn push(&mut self, outputs: &[f64], truth: &[f64], weight: f64) {
        let per_target = self.loss.outputs_per_target();
        self.weight += weight;
        for (k, output) in outputs.iter().enumerate() {
            let error = truth[k / per_target] - output;
            self.losses[k] += weight * self.loss.value(k, truth[k / per_target], *output);
            self.below[k] += if error <= 0.0 { weight } else { 0.0 };
        }
        for (outputs, y) in outputs.chunks(per_target).zip(truth) {
            let (lower, upper) = (outputs[0], outputs[per_target - 1]);
            self.covered += if *y >= lower && *y <= upper { weight } else { 0.0 };
            self.width += weight * (upper - lower);
        }
    }

    /// Returns the scores of all rows so far; `names` are the names of the targets.
    pub(crate) fn scores(&self, names: &[String]) -> LossScores {
        let per_target = self.loss.outputs_per_target();
        let weight = self.weight.max(f64::MIN_POSITIVE);
        let of_output = |(k, (loss, below)): (usize, (&f64, &f64))| OutputLoss {
            target: names.get(k / per_target).cloned().unwrap_or_default(),
            level: self.loss.levels().get(k % per_target).copied(),
            mean: loss / weight,
            below: below / weight,
        };
        let value_weight = weight * names.len().max(1) as f64;
        let interval = match &self.loss {
            RegressionLoss::Pinball(levels) if per_target > 1 => Some(IntervalScores {
                level: levels[per_target - 1] - levels[0],
                coverage: self.covered / value_weight,
                width: self.width / value_weight,
            }),
            _ => None,
        };
        LossScores {
            name: self.loss.name(),
            mean: self.losses.iter().sum::<f64>() / (weight * self.losses.len().max(1) as f64),
            outputs: self.losses.iter().zip(&self.below).enumerate().map(of_output).collect(),
            interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let mut sums = LossSums::new(RegressionLoss::Pinball(vec![0.25, 0.5, 0.75]), 3);
        assert_eq!(sums.central_outputs().collect::<Vec<_>>(), [1]);
        sums.push(&[0.0, 1.0, 2.0], &[1.0], 1.0);
        sums.push(&[0.0, 1.0, 2.0], &[6.0], 3.0);
        let scores = sums.scores(&["y".to_string()]);
        // losses of level ¼: ¼ · 1 and 3 · ¼ · 6
        assert_eq!(scores.outputs[0].mean, (0.25 + 4.5) / 4.0);
        assert_eq!(scores.outputs.iter().map(|output| output.below).collect::<Vec<_>>(), [0.0, 0.25, 0.25]);
        let interval = scores.interval.unwrap();
        assert_eq!((interval.level, interval.coverage, interval.width), (0.5, 0.25, 2.0));
        let two = LossSums::new(RegressionLoss::Expectile(vec![0.1, 0.9]), 4);
        assert_eq!(two.central_outputs().collect::<Vec<_>>(), [0, 2]);
        assert!(two.scores(&["a".to_string(), "b".to_string()]).interval.is_none());
    }
}
