//! Quantile scores as ONNX operations.

use super::asinh;
use super::graph::Value;
use super::kernels::row_sums;
use kstore::quantiles::{self, KNOTS_PER_INPUT};

/// Replaces the d columns of a matrix (N x d) by their quantile scores. `knots` has
/// [`KNOTS_PER_INPUT`] numbers for each column. Needs N x d x K numbers.
///
/// For distinct knots q_0 < … < q_L with scores s_k, the score of a value v is
///
/// ```text
/// s_0 + asinh(min(v − q_0, 0)) + Σ_k c_k clip(v − q_k, 0, q_(k+1) − q_k) + asinh(max(v − q_L, 0)),
/// c_k = (s_(k+1) − s_k)/(q_(k+1) − q_k)
/// ```
pub(super) fn quantile_scores<'g>(x: &Value<'g>, knots: &[f64]) -> Value<'g> {
    let columns: Vec<Vec<(f64, f64)>> = knots.chunks_exact(KNOTS_PER_INPUT).map(quantiles::distinct_knots).collect();
    let piece_count = columns.iter().map(|knots| knots.len() - 1).max().unwrap_or(0);
    let (mut starts, mut widths, mut slopes) = (Vec::new(), Vec::new(), Vec::new());
    for knots in &columns {
        let pieces = knots.windows(2).map(|ends| (ends[0], ends[1]));
        // a piece of width 0 adds nothing
        let padding = std::iter::repeat(((0.0, 0.0), (0.0, 0.0)));
        for ((start, start_score), (end, end_score)) in pieces.chain(padding).take(piece_count) {
            starts.push(start);
            widths.push(end - start);
            slopes.push(if end > start { (end_score - start_score) / (end - start) } else { 0.0 });
        }
    }
    let (graph, shape) = (x.graph, [1, columns.len(), piece_count]);
    let row =
        |value: fn(&[(f64, f64)]) -> f64| graph.row(&columns.iter().map(|knots| value(knots)).collect::<Vec<_>>());
    let (first_knots, first_scores) = (row(|knots| knots[0].0), row(|knots| knots[0].1));
    let last_knots = row(|knots| knots[knots.len() - 1].0);
    let lower_tail = asinh(&x.apply_binary("Sub", &first_knots).apply_number("Min", 0.0));
    let upper_tail = asinh(&x.apply_binary("Sub", &last_knots).apply_number("Max", 0.0));
    let tails = lower_tail.apply_binary("Add", &upper_tail).apply_binary("Add", &first_scores);
    if piece_count == 0 {
        return tails;
    }
    let differences =
        x.apply_binary("Unsqueeze", &graph.integers(&[2])).apply_binary("Sub", &graph.numbers(&shape, &starts));
    let clipped = differences.apply_number("Max", 0.0).apply_binary("Min", &graph.numbers(&shape, &widths));
    let pieces = clipped.apply_binary("Mul", &graph.numbers(&shape, &slopes));
    tails.apply_binary("Add", &row_sums(&pieces, 2, false))
}
