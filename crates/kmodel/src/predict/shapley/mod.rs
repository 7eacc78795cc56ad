//! Shapley values: the contribution of each column of the table to one prediction.
//!
//! Let G be the set of columns, f the prediction, and b_1, …, b_B rows of a background. For a
//! subset S of the columns, v(S) is the mean over the background of f at the row that has the
//! columns of S from x and the other columns from b_i. The contribution of a column g is
//!
//! ```text
//! φ_g = Σ_{S ⊆ G∖g} |S|! (|G| − |S| − 1)! / |G|!  (v(S ∪ g) − v(S))
//! ```
//!
//! The contributions of all columns sum to f(x) − mean_i f(b_i). A column with several features,
//! such as a date or a category, has one contribution.
//!
//! The module [`product_game`] computes φ exactly if the model is linear in kernel functions that
//! are sums of products over the columns. For all other models, [`permutations`] estimates φ from
//! random orders of the columns, with a standard error; the sum of the contributions is exact.
//!
//! References: Lundberg, Lee, "A unified approach to interpreting model predictions", NeurIPS 2017;
//! Mohammadi, Chau, Muandet, "Computing exact Shapley values in polynomial time for product-kernel
//! methods", 2025.

mod background;
mod output;
mod permutations;
mod product_game;

pub(super) use output::ExplanationTarget;

use super::prepared_model::PreparedModel;
use crate::linalg::strips::BufferPool;
use crate::{Error, Result};
use background::{MAX_BACKGROUND_ROWS, landmarks_of_table};
use kapprox::Real;
use kstore::Workers;
use product_game::ProductGame;
use std::ops::Range;

/// Number of rows of x that one thread explains at a time.
const STRIP_ROWS: usize = 8;

/// Computes contributions for the rows of one model and one background.
pub(super) struct ShapleyExplainer<'a, T: Real> {
    prepared: &'a PreparedModel<T>,
    columns: Vec<String>,
    /// Features of each column.
    features: Vec<Range<usize>>,
    /// Background rows, scaled, B x d row-major.
    background: Vec<T>,
    /// Predictions of the background rows, B x t row-major.
    background_scores: Vec<f64>,
    product_game: Option<ProductGame<T>>,
    /// Factor of the scores: see [`ExplanationTarget`].
    sign: f64,
}

impl<'a, T: Real> ShapleyExplainer<'a, T> {
    pub(super) fn new(prepared: &'a PreparedModel<T>, target: ExplanationTarget<'_>) -> Result<Self> {
        let (model, d) = (&prepared.model, prepared.model.scaler.input_count());
        if model.metadata.sparse_shape().is_some() {
            return Err(Error::option("reasons", "", "sparse rows have no reasons; omit the option"));
        }
        let (columns, features) = columns_of_features(prepared);
        let mut background_rows = Vec::new();
        match (target.background, landmarks_of_table(model)) {
            (Some(rows), _) => prepared.scale_rows(rows, 0, &mut background_rows)?,
            (None, Some(points)) => {
                let (row_count, kept) = (points.len() / d.max(1), MAX_BACKGROUND_ROWS.min(points.len() / d.max(1)));
                let position = |i: usize| (2 * i + 1) * row_count / (2 * kept);
                background_rows.extend((0..kept).flat_map(|i| &points[position(i) * d..][..d]));
            }
            (None, None) => {
                let why = "the model has no landmarks in the units of the table; add `background` with typical rows";
                return Err(Error::option("reasons", "", why));
            }
        }
        let t = model.dims().2;
        let mut background_scores = vec![0.0; background_rows.len() / d.max(1) * t];
        prepared.score_scaled_rows(&background_rows, &mut background_scores)?;
        let product_game = ProductGame::new(model, &features);
        Ok(Self {
            prepared,
            columns,
            features,
            background: background_rows,
            background_scores,
            product_game,
            sign: target.sign,
        })
    }

    pub(super) fn is_exact(&self) -> bool {
        self.product_game.is_some()
    }

    /// Returns the mean prediction of the background.
    pub(super) fn background_means(&self) -> Vec<f64> {
        let (scores, t) = (&self.background_scores, self.prepared.model.dims().2);
        let row_count = (scores.len() / t.max(1)).max(1) as f64;
        (0..t).map(|j| scores.iter().skip(j).step_by(t).sum::<f64>() / row_count).collect()
    }

    /// Returns the number of contributions of a row: columns times outputs.
    pub(super) fn values_per_row(&self) -> usize {
        self.columns.len() * self.prepared.model.dims().2
    }

    /// Returns the number of rows of a tile: few, because a row may take seconds, and a run reports
    /// its progress and reacts to an interruption after each tile.
    pub(super) fn tile_rows(&self, threads: usize) -> usize {
        STRIP_ROWS * threads.max(1)
    }

    /// Returns the bytes of the buffers of one thread.
    pub(super) fn scratch_bytes(&self) -> usize {
        match &self.product_game {
            Some(game) => game.scratch_bytes(self.background_scores.len() / self.prepared.model.dims().2.max(1)),
            None => permutations::scratch_bytes(self),
        }
    }

    /// Writes the contributions for the rows of `x` (scaled, row-major) to `values`, row-major with
    /// [`values_per_row`](Self::values_per_row) numbers for each row. `scores` are the predictions
    /// of the rows. If the contributions are estimates, also writes their standard errors to
    /// `standard_errors`; otherwise it must be empty.
    ///
    /// The bits of a row do not depend on the other rows.
    pub(super) fn explain(
        &self,
        x: &[T],
        scores: &[f64],
        values: &mut [f64],
        standard_errors: &mut [f64],
        workers: &Workers,
    ) -> Result<()> {
        let (d, t, width) =
            (self.prepared.model.scaler.input_count(), self.prepared.model.dims().2, self.values_per_row());
        if width == 0 {
            return Ok(());
        }
        let strips =
            x.chunks(STRIP_ROWS * d).zip(scores.chunks(STRIP_ROWS * t)).zip(values.chunks_mut(STRIP_ROWS * width));
        match &self.product_game {
            Some(game) => {
                let pool = BufferPool::default();
                workers.for_each(strips.collect(), |((x, _), values)| {
                    pool.with_buffer(Default::default, |buffers| game.add_values(x, &self.background, values, buffers));
                });
                Ok(())
            }
            None => {
                let strips = strips.zip(standard_errors.chunks_mut(STRIP_ROWS * width)).collect();
                workers.try_for_each(strips, |(((x, scores), values), errors)| {
                    permutations::estimate(self, x, scores, values, errors)
                })
            }
        }
    }
}

/// Returns the columns of the table, and the range of each column's features.
fn columns_of_features<T: Real>(prepared: &PreparedModel<T>) -> (Vec<String>, Vec<Range<usize>>) {
    let metadata = &prepared.model.metadata;
    let Some(encoding) = &metadata.encoding else {
        let features = &metadata.features;
        return (features.clone(), (0..features.len()).map(|j| j..j + 1).collect());
    };
    let mut first = 0;
    let ranges = encoding.columns().iter().map(|column| {
        first += column.feature_count();
        first - column.feature_count()..first
    });
    let ranges = ranges.collect();
    (encoding.columns().iter().map(|column| column.name.clone()).collect(), ranges)
}
