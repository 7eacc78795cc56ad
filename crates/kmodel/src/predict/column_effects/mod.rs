//! Importance and partial dependence of the columns of a model, on a sample of rows.
//!
//! The importance of a column is the mean increase of the loss if the values of the column are
//! exchanged between the rows. The partial dependence of a column is the mean prediction of the
//! rows if the column has one value in all of them; the quantiles over the rows show whether the
//! column has the same effect in every row (individual conditional expectations). The features of a
//! column, such as the levels of a category, change together.
//!
//! Both describe the model, not the world: rows with exchanged values may be impossible.
//!
//! References: Breiman, "Random forests", 2001; Friedman, "Greedy function approximation", 2001;
//! Goldstein et al., "Peeking inside the black box", 2015.

mod curve;
mod sample;

use super::Predictor;
use crate::run::{Run, StageObserver};
use crate::score::{ColumnEffect, ColumnEffects};
use crate::{Classes, Link, RegressionLoss, Result, Task};
use kstore::SelectedTable;
use sample::EffectSample;
use std::ops::Range;

/// Maximum number of rows.
const MAX_ROWS: usize = 2_000;
/// Maximum number of rows of the partial dependence, which predicts each row at up to 120 values.
#[doc(hidden)]
pub const MAX_DEPENDENCE_ROWS: usize = 200;
/// Minimum number of rows: fewer rows say little about a column.
const MIN_ROWS: usize = 30;
/// Maximum number of predictions for the importance of all columns.
const MAX_PREDICTIONS: usize = 200_000;
/// Number of exchanges between the rows.
const EXCHANGES: usize = 3;
/// Number of columns with a partial dependence: the most important ones.
const MAX_DEPENDENCE_COLUMNS: usize = 6;
/// Maximum number of classes with a partial dependence: more lines cannot be told apart.
const MAX_SHOWN_CLASSES: usize = 7;

/// The number that a prediction is reduced to: for the loss, and for the partial dependence.
struct Outcome<'a> {
    predictor: &'a Predictor,
    classes: Option<Classes>,
    link: Option<&'a Link>,
    /// Loss of the fit, for quantiles, expectiles, robust means and deviances.
    regression_loss: Option<&'a RegressionLoss>,
    /// Output of the first target that the partial dependence shows.
    output: usize,
    /// Classes that the partial dependence shows; empty for numbers.
    shown_classes: Vec<usize>,
}

impl Outcome<'_> {
    /// Returns the loss of a prediction: the loss of the fit averaged over the outputs of the first
    /// target, the squared error, the log-loss, or 1 for the wrong class.
    fn loss(&self, scores: &[f64], truth: f64) -> f64 {
        match (self.predicts_numbers(), self.regression_loss, self.link) {
            (true, Some(loss), _) => loss.mean(&scores[..loss.outputs_per_target()], &[truth]),
            (true, None, _) => (scores[self.output] - truth).powi(2),
            (false, _, Some(link)) => link.log_loss(scores, truth as usize),
            (false, _, None) => {
                let decided = self.classes.as_ref().map(|classes| classes.decide(scores.iter().copied()));
                if decided == Some(truth as usize) { 0.0 } else { 1.0 }
            }
        }
    }

    /// Returns the name of the loss, in the words of the report of an evaluation.
    fn loss_name(&self) -> &'static str {
        match (self.predicts_numbers(), self.regression_loss) {
            (true, None) => "rmse",
            (true, Some(RegressionLoss::Pinball(_))) => "pinball loss",
            (true, Some(RegressionLoss::Expectile(_))) => "expectile loss",
            (true, Some(RegressionLoss::Huber(_))) => "huber loss",
            (true, Some(RegressionLoss::Deviance(1.0))) => "poisson deviance",
            (true, Some(RegressionLoss::Deviance(2.0))) => "gamma deviance",
            (true, Some(RegressionLoss::Deviance(_))) => "tweedie deviance",
            (false, _) if self.link.is_some() => "log-loss",
            (false, _) => "error rate",
        }
    }

    fn predicts_numbers(&self) -> bool {
        self.shown_classes.is_empty()
    }

    /// Adds the numbers that the partial dependence shows, one per class, to the lists of the
    /// classes. Returns `None` for scores of pairs of classes.
    fn push_shown(&self, scores: &[f64], probabilities: &mut Vec<f64>, shown: &mut [Vec<f64>]) -> Option<()> {
        if self.predicts_numbers() {
            shown[0].push(*scores.get(self.output)?);
            return Some(());
        }
        if let Some(link) = self.link {
            link.probabilities(scores, probabilities);
        }
        for (class, shown) in self.shown_classes.iter().zip(shown) {
            shown.push(match self.link {
                Some(_) => *probabilities.get(*class)?,
                None if scores.len() == 1 => crate::score::orient_score(scores[0], *class),
                None if self.predictor.metadata().one_vs_one => return None,
                None => *scores.get(*class)?,
            });
        }
        Some(())
    }

    /// Converts a mean loss, and its standard error, to the reported unit.
    fn in_units(&self, mean: f64, standard_error: f64) -> (f64, f64) {
        match self.predicts_numbers() && self.regression_loss.is_none() {
            true => (mean.sqrt(), if mean > 0.0 { standard_error / (2.0 * mean.sqrt()) } else { 0.0 }),
            false => (mean, standard_error),
        }
    }
}

impl Predictor {
    /// Returns why the model has no importance of columns; `None` if it has.
    #[doc(hidden)]
    pub fn lacks_column_effects(&self) -> Option<String> {
        let metadata = self.metadata();
        let column_count = self.columns_of_features().0.len();
        match metadata.task {
            Task::Regression | Task::Classification if metadata.sparse_shape().is_some() => {
                Some("the rows are sparse; it needs columns".to_string())
            }
            Task::Regression | Task::Classification if self.effect_rows() < MIN_ROWS => Some(format!(
                "the model has {column_count} columns, and exchanging the values of more than {} is not supported; select \
                 fewer `features`",
                MAX_PREDICTIONS / (EXCHANGES * MIN_ROWS)
            )),
            Task::Regression | Task::Classification => None,
            task => Some(format!("it is the increase of the mean loss of a row, and {task} has no loss of a row")),
        }
    }

    /// Returns the maximum number of rows of the sample, so that the predictions take little time.
    fn effect_rows(&self) -> usize {
        MAX_ROWS.min(MAX_PREDICTIONS / (EXCHANGES * self.columns_of_features().0.len().max(1)))
    }

    /// Computes importance and partial dependence of the columns from a sample of the selected
    /// rows, which have the target. The loss of several targets is the loss of the first one.
    /// `None` if [`Predictor::lacks_column_effects`] has a reason, or for fewer than 30 rows.
    ///
    /// *Cost*: one pass over the rows, and at most 230,000 predictions. *Bytes*: the rows of the
    /// sample, twice per thread, and the model.
    ///
    /// # Errors
    /// A sample that exceeds the memory budget; errors of reading and of predictions.
    #[doc(hidden)]
    pub fn column_effects(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Option<ColumnEffects>> {
        let metadata = self.metadata();
        if self.lacks_column_effects().is_some() {
            return Ok(None);
        }
        let ((names, features), max_rows) = (self.columns_of_features(), self.effect_rows());
        let sample = EffectSample::read(self, selected, max_rows, run)?;
        if sample.rows() < MIN_ROWS {
            return Ok(None);
        }
        let outcome = Outcome {
            predictor: self,
            classes: self.decision_classes(),
            link: metadata.link.as_ref(),
            regression_loss: metadata.loss.as_ref(),
            output: self.first_target_output(),
            shown_classes: self.shown_classes(&sample),
        };
        let recorder = run.stage_recorder();
        let stage = recorder.start_stage("column effects", None);
        let mut scores = vec![0.0; sample.rows() * self.output_count()];
        self.predict_changes(&sample.x, &mut scores)?;
        let losses = sample.losses(&outcome, &scores);
        let (loss, _) = outcome.in_units(sample.mean(&losses), 0.0);
        let mut effects: Vec<_> = features.iter().map(|range| (range.clone(), Ok((0.0, 0.0)))).collect();
        run.workers().for_each(effects.iter_mut().collect(), |(range, effect)| {
            *effect = sample.importance(self, &outcome, range.clone(), &losses);
        });
        let mut columns = Vec::new();
        for ((range, effect), name) in effects.into_iter().zip(names) {
            let (increase, standard_error) = effect?;
            columns.push((range, ColumnEffect { column: name, increase, standard_error, dependence: Vec::new() }));
        }
        columns.sort_by(|a, b| b.1.increase.total_cmp(&a.1.increase).then_with(|| a.1.column.cmp(&b.1.column)));
        for (range, column) in columns.iter_mut().take(MAX_DEPENDENCE_COLUMNS) {
            column.dependence = curve::dependence(self, &outcome, &sample, range.clone())?;
        }
        drop(stage);
        Ok(Some(ColumnEffects {
            rows: sample.rows(),
            exchanges: EXCHANGES,
            loss_name: outcome.loss_name(),
            loss,
            classes: outcome.shown_classes.iter().filter_map(|class| metadata.classes.get(*class).cloned()).collect(),
            columns: columns.into_iter().map(|(_, column)| column).collect(),
        }))
    }

    /// Returns the classes whose scores are shown: the positive one of two, otherwise the most
    /// frequent classes of the sample. Empty for a regression.
    fn shown_classes(&self, sample: &EffectSample) -> Vec<usize> {
        let class_count = self.metadata().classes.len();
        if self.metadata().task != Task::Classification {
            return Vec::new();
        }
        if class_count == 2 {
            return vec![self.rule.positive_class];
        }
        let count = |class: usize| sample.truths.iter().filter(|truth| **truth == class as f64).count();
        let mut classes: Vec<usize> = (0..class_count).collect();
        classes.sort_by_key(|class| std::cmp::Reverse(count(*class)));
        classes.truncate(MAX_SHOWN_CLASSES);
        classes.sort_unstable();
        classes
    }
}

/// The features of one column within a row.
type FeatureRange = Range<usize>;
