//! Estimates of Shapley values from random orders of the columns, for any model.
//!
//! For a background row b and an order of the columns, the columns of b get the values of x one
//! after the other. The change of the prediction is assigned to the replaced column. The mean over
//! all orders and background rows is the Shapley value. Each background row has one random order
//! and its reverse, whose errors partly cancel.
//!
//! Reference: Štrumbelj, Kononenko, "Explaining prediction models and individual predictions with
//! feature contributions", 2014; reversed orders: Mitchell and others, "Sampling permutations for
//! Shapley value estimation", JMLR 23, 2022.

use super::ShapleyExplainer;
use crate::Result;
use kapprox::Real;
use kstore::key::{Purpose, Stream};

/// Number of rows that are predicted together.
const BATCH_ROWS: usize = 1024;

/// Returns the bytes of the buffers of one thread.
pub(super) fn scratch_bytes<T: Real>(explainer: &ShapleyExplainer<'_, T>) -> usize {
    let model = &explainer.prepared.model;
    let (d, t, column_count) = (model.scaler.input_count(), model.dims().2, explainer.columns.len());
    let order_rows = 2 * column_count.saturating_sub(1);
    let batch_rows = BATCH_ROWS.max(order_rows);
    batch_rows * (d * size_of::<T>() + t * size_of::<f64>()) + explainer.prepared.scratch_bytes()
}

/// Returns a random order of `count` columns for a background row. It does not depend on x.
fn random_order(background_row: usize, count: usize) -> Vec<usize> {
    let stream = Stream::new(0, Purpose::Permutations, background_row as u64);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, stream.uniform_below(last as u64, last as u64 + 1) as usize);
    }
    order
}

/// Writes the contributions for the rows of `x` to `values`, and their standard errors to
/// `standard_errors`; both are rows x columns x t. `scores` are the predictions of the rows.
pub(super) fn estimate<T: Real>(
    explainer: &ShapleyExplainer<'_, T>,
    x: &[T],
    scores: &[f64],
    values: &mut [f64],
    standard_errors: &mut [f64],
) -> Result<()> {
    let (d, t) = (explainer.prepared.model.scaler.input_count(), explainer.prepared.model.dims().2);
    let width = explainer.values_per_row();
    let rows = x.chunks_exact(d).zip(scores.chunks_exact(t));
    let outputs = values.chunks_exact_mut(width).zip(standard_errors.chunks_exact_mut(width));
    for ((x, score), (values, errors)) in rows.zip(outputs) {
        estimate_row(explainer, x, score, values, errors)?;
    }
    Ok(())
}

fn estimate_row<T: Real>(
    explainer: &ShapleyExplainer<'_, T>,
    x: &[T],
    score: &[f64],
    values: &mut [f64],
    standard_errors: &mut [f64],
) -> Result<()> {
    let (d, t, column_count) = (x.len(), score.len(), explainer.columns.len());
    let background_count = explainer.background.len() / d;
    // the first row of an order is a background row, and the last one is x: both are predicted
    let order_rows = 2 * column_count.saturating_sub(1);
    let batch_orders = (BATCH_ROWS / order_rows.max(1)).max(1);
    let (mut rows, mut predictions) = (Vec::new(), Vec::new());
    for first in (0..background_count).step_by(batch_orders) {
        let batch = first..(first + batch_orders).min(background_count);
        rows.clear();
        for background_row in batch.clone() {
            let order = random_order(background_row, column_count);
            let background = &explainer.background[background_row * d..][..d];
            push_replaced_rows(explainer, order.iter().copied(), background, x, &mut rows);
            push_replaced_rows(explainer, order.iter().rev().copied(), background, x, &mut rows);
        }
        predictions.clear();
        predictions.resize(rows.len() / d * t, 0.0);
        explainer.prepared.score_scaled_rows(&rows, &mut predictions)?;
        for (i, background_row) in batch.enumerate() {
            let order = random_order(background_row, column_count);
            let background_score = &explainer.background_scores[background_row * t..][..t];
            let predictions = &predictions[i * order_rows * t..][..order_rows * t];
            let (forward, backward) = predictions.split_at(order_rows / 2 * t);
            for j in 0..t {
                let output = |predictions: &[f64]| {
                    let between = predictions.iter().skip(j).step_by(t).copied();
                    let path: Vec<f64> =
                        std::iter::once(background_score[j]).chain(between).chain([score[j]]).collect();
                    path.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<f64>>()
                };
                let (forward, backward) = (output(forward), output(backward));
                for (position, column) in order.iter().enumerate() {
                    let (a, b) = (forward[position], backward[column_count - 1 - position]);
                    values[column * t + j] += (a + b) / 2.0 / background_count as f64;
                    // half of the difference estimates the error of the mean of the pair; the
                    // errors of the two orders mostly have opposite signs, so the estimate is 1.5
                    // to 3 times too large (measured against all subsets)
                    let error = (a - b) / 2.0 / background_count as f64;
                    standard_errors[column * t + j] += error * error;
                }
            }
        }
    }
    standard_errors.iter_mut().for_each(|error| *error = error.sqrt());
    Ok(())
}

/// Appends the rows between the background row and x. In each of them, the first columns of `order`
/// have the values of x.
fn push_replaced_rows<T: Real>(
    explainer: &ShapleyExplainer<'_, T>,
    order: impl ExactSizeIterator<Item = usize>,
    background: &[T],
    x: &[T],
    rows: &mut Vec<T>,
) {
    let (mut row, inner_count) = (background.to_vec(), order.len().saturating_sub(1));
    for column in order.take(inner_count) {
        let features = explainer.features[column].clone();
        row[features.clone()].copy_from_slice(&x[features]);
        rows.extend_from_slice(&row);
    }
}
