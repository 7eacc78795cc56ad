//! The error of the naive forecast of a series.

/// The error of the naive forecast on the rows on which a model is scored.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct NaiveForecast {
    /// Number of rows between a row and the earlier row of its series whose target predicts it: the
    /// lag of the target in the fit that has the smallest error.
    pub lag: usize,
    /// Number of scored rows whose lag is known.
    pub rows: u64,
    /// Root mean squared error on these rows.
    pub rmse: f64,
}
