//! Learns a kernel from ranges of consecutive rows of a table.

use super::learn;
use crate::Result;
use faer::{Mat, MatRef};
use kapprox::Kernel;
use kstore::{Workers, pass::Observer};

/// A feature follows the order of the rows if its rank correlation with the position of the row is
/// at least this number, or at most its negative.
const MIN_RANK_CORRELATION: f64 = 0.98;
/// Initial length scale of such a feature, relative to the initial length scales of the others. The
/// likelihood often has a minimum in which another feature, such as the season, tells the rows of
/// several times apart; then the kernel would change the prediction of later rows with the same
/// season. In the minimum from this start it hardly does, and the likelihood is about as large.
const ORDERED_LENGTH: f64 = 0.01;

/// Returns `kernel` with length scales, one for each feature, that maximise the marginal likelihood
/// of the targets `y` (n x t) of rows `x` (n x d). The rows are ranges of consecutive rows of a
/// table, in its order. Every term of the kernel must have a length scale.
///
/// Before the search, each feature is divided by its standard deviation: a metric may have made
/// some features much smaller than others, and a search that starts with the same length scale for
/// all features would not find the short length scales of the former.
///
/// # Errors
/// The errors of [`learn`].
pub fn learn_from_consecutive_rows(
    kernel: &Kernel,
    mut x: Mat<f64>,
    y: MatRef<'_, f64>,
    observer: &dyn Observer,
    workers: &Workers,
) -> Result<Kernel> {
    let mut scales: Vec<f64> = (0..x.ncols()).map(|j| standard_deviation(x.as_ref(), j)).collect();
    divide_columns(&mut x, &scales);
    let kernel = kernel.resolve_median(x.as_ref())?;
    let orders = (0..x.ncols()).map(|j| if is_ordered(x.as_ref(), j) { ORDERED_LENGTH } else { 1.0 });
    let orders: Vec<f64> = orders.collect();
    divide_columns(&mut x, &orders);
    scales.iter_mut().zip(orders).for_each(|(scale, order)| *scale *= order);
    let (kernel, _) = learn(&kernel, x.as_ref(), y, &[], observer, workers)?;
    let terms = kernel.terms().into_iter().map(|term| {
        let lengths = term.column_lengths(x.ncols()).unwrap_or_default();
        let lengths: Vec<f64> = lengths.iter().map(|(j, length)| length * scales[*j]).collect();
        term.with_column_lengths(&lengths)
    });
    Ok(Kernel::weighted_sum(kernel.term_weights().into_iter().zip(terms)))
}

/// Returns the standard deviation of a column; 1 for a constant column.
fn standard_deviation(x: MatRef<'_, f64>, j: usize) -> f64 {
    let n = x.nrows().max(1) as f64;
    let mean = x.col(j).iter().sum::<f64>() / n;
    let deviation = (x.col(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation > f64::EPSILON.sqrt() * mean.abs() { deviation } else { 1.0 }
}

fn divide_columns(x: &mut Mat<f64>, divisors: &[f64]) {
    for (j, divisor) in divisors.iter().enumerate() {
        x.col_mut(j).iter_mut().for_each(|v| *v /= divisor);
    }
}

/// Returns true if feature j follows the order of the rows. A rank correlation is robust against
/// rounding, which moves values that a full metric has mixed and its inverse has separated again.
fn is_ordered(x: MatRef<'_, f64>, j: usize) -> bool {
    let values: Vec<f64> = x.col(j).iter().copied().collect();
    rank_correlation_with_order(&values).abs() >= MIN_RANK_CORRELATION
}

/// Returns Spearman's correlation of some values with their positions; 0 if all values are equal.
fn rank_correlation_with_order(values: &[f64]) -> f64 {
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; n];
    // equal values share the mean of their ranks
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let first = order.partition_point(|i| values[*i] < values[group[0]]);
        group.iter().for_each(|i| ranks[*i] = first as f64 + 0.5 * (group.len() - 1) as f64);
    }
    let mean = 0.5 * (n.max(1) - 1) as f64;
    let (mut products, mut squares, mut position_squares) = (0.0, 0.0, 0.0);
    for (i, rank) in ranks.iter().enumerate() {
        let position = i as f64 - mean;
        products += position * (rank - mean);
        squares += (rank - mean).powi(2);
        position_squares += position * position;
    }
    if squares > 0.0 { products / (squares * position_squares).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ordered_and_circles_and_constants_are_not() {
        let column = |value: &dyn Fn(usize) -> f64| Mat::from_fn(400, 1, |i, _| value(i));
        let ordered = |x: &Mat<f64>| is_ordered(x.as_ref(), 0);
        // three rows have the same time, and some are rounded
        assert!(ordered(&column(&|i| (i / 3) as f64)));
        assert!(ordered(&column(&|i| (i / 3) as f64 + 0.3 * (i % 2) as f64)));
        assert!(ordered(&column(&|i| -(i as f64))));
        assert!(!ordered(&column(&|i| (i as f64 / 20.0).sin())));
        assert!(!ordered(&column(&|_| 3.0)));
        // only the first half is in order
        assert!(!ordered(&column(&|i| if i < 200 { i as f64 } else { (i * 77 % 200) as f64 })));
        assert_eq!(rank_correlation_with_order(&[1.0, 2.0, 2.0, 3.0]), 4.5 / (4.5f64 * 5.0).sqrt());
    }

    #[test]
    fn columns_are_divided_by_their_deviation_unless_they_are_constant() {
        let x = Mat::from_fn(4, 2, |i, j| if j == 0 { 5.0 } else { 2.0 * (i % 2) as f64 });
        assert_eq!((standard_deviation(x.as_ref(), 0), standard_deviation(x.as_ref(), 1)), (1.0, 1.0));
        let mut scaled = x.clone();
        divide_columns(&mut scaled, &[5.0, 2.0]);
        assert_eq!((scaled[(0, 0)], scaled[(3, 1)]), (1.0, 1.0));
    }
}
