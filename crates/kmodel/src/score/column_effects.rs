//! Importance and partial dependence of the columns of a model, as results.

use kstore::Label;

/// How the predictions of a model depend on each column, on a sample of rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ColumnEffects {
    /// Number of rows of the sample.
    pub rows: usize,
    /// Number of exchanges of the values of each column between rows.
    pub exchanges: usize,
    /// Name of the loss, such as `rmse`, `pinball loss`, `log-loss` or `error rate`.
    #[serde(rename = "score")]
    pub loss_name: &'static str,
    /// Loss on the rows of the sample.
    #[serde(rename = "value")]
    pub loss: f64,
    /// Classes whose probabilities or scores the partial dependence shows: the positive one of two,
    /// or the most frequent ones, in the order of the model. Empty for numbers.
    #[serde(skip)]
    pub classes: Vec<Label>,
    /// The columns by descending importance.
    pub columns: Vec<ColumnEffect>,
}

/// The effect of one column.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ColumnEffect {
    /// Name of the column.
    pub column: String,
    /// Increase of the loss if the values of the column are exchanged between rows.
    pub increase: f64,
    /// Standard error of the increase over rows.
    pub standard_error: f64,
    /// Partial dependence, by ascending value or by level; empty for columns of little importance,
    /// and for columns without a single value, such as dates.
    #[serde(skip)]
    pub dependence: Vec<DependencePoint>,
}

/// Predictions if a column has one value in all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct DependencePoint {
    /// Value of the column; the number of the level, for a category.
    pub value: f64,
    /// Level of a category; `None` for a number.
    pub level: Option<String>,
    /// The predictions for each of [`ColumnEffects::classes`]; a single entry for numbers.
    pub predictions: Vec<PredictionSpread>,
}

/// The predictions of the rows, as their mean and deciles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionSpread {
    /// Mean prediction of the rows.
    pub mean: f64,
    /// Lower and upper decile of the predictions over the rows.
    pub deciles: (f64, f64),
}
