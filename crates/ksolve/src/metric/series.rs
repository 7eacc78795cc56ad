//! Detects tables whose rows form a series. Random K-fold cross-validation is too optimistic for a
//! series; contiguous (blocked) K-fold is not.

use crate::{FoldSpec, Folds, Result, Targets};
use kapprox::Real;
use kstore::{MemoryRows, RowBuf, RowSource};
use std::ops::Range;

/// Number of contiguous blocks that replace random folds.
pub(crate) const BLOCK_COUNT: usize = 6;

/// If more than this fraction of the target's variance lies between the means of blocks, the table
/// counts as sorted by its target. In a sorted table the targets of a held-out block differ from
/// all other targets, so that blocks cannot replace random folds.
const MAX_BETWEEN_BLOCKS: f64 = 0.5;

/// Number of leading rows examined.
const LEADING_ROWS: u64 = 5_000;

/// Minimum number of rows for an estimate of the correlation: with 200 independent rows, its
/// standard deviation is 0.07.
const MIN_SERIES_ROWS: usize = 200;

/// Correlation of consecutive targets above which random folds are too optimistic.
const MIN_CORRELATION: f64 = 0.5;

/// If the squared deviations from the mean are a smaller fraction of the squares than this, they
/// are rounding errors.
const ROUNDING_FRACTION: f64 = 1e-20;

/// Returns a warning if the folds are random and consecutive rows have similar targets.
pub(crate) fn series_warning<T: Real>(
    source: &dyn RowSource<T>,
    targets: &Targets,
    folds: &FoldSpec,
) -> Result<Option<String>> {
    if !matches!(folds, FoldSpec::Random(_) | FoldSpec::None) {
        return Ok(None);
    }
    Ok(target_correlation(source, targets)?.map(|correlation| {
        format!(
            "consecutive rows have similar targets (correlation {correlation:.2}): if the rows are a series or come from few subjects, random \
             folds underestimate the error on new rows or subjects; use `folds` blocks:6 or column:NAME"
        )
    }))
}

/// Returns the correlation of consecutive targets if random folds are too optimistic and contiguous
/// blocks can replace them; otherwise `None`.
pub(crate) fn series_correlation<T: Real>(
    source: &dyn RowSource<T>,
    sample: &MemoryRows<T>,
    range: &Range<u64>,
    targets: &Targets,
) -> Result<Option<f64>> {
    let Some(correlation) = target_correlation(source, targets)? else { return Ok(None) };
    let block_folds = Folds::new(&FoldSpec::Blocks(BLOCK_COUNT), 0, range.clone(), &[])?;
    Ok((variance_between_folds(sample, &block_folds, targets)? <= MAX_BETWEEN_BLOCKS).then_some(correlation))
}

#[doc(hidden)]
pub(crate) fn blocks_note(correlation: f64, folds: &FoldSpec) -> String {
    format!(
        "consecutive rows have similar targets (correlation {correlation:.2}), as in a series: folds are {BLOCK_COUNT} contiguous blocks of rows; \
         use `folds` {folds} for random folds, or column:NAME for one fold per value of a column"
    )
}

/// Calls `visitor` with the row number and the targets of each row.
fn for_each_row<T: Real>(
    source: &dyn RowSource<T>,
    range: Range<u64>,
    targets: &Targets,
    mut visitor: impl FnMut(u64, &[f64]) -> Result<()>,
) -> Result<()> {
    let (shape, mut y) = (source.shape(), Vec::new());
    let (mut cursor, mut tile) = (source.open(range)?, RowBuf::new(256));
    while cursor.next(&mut tile)? {
        let block = tile.block(&shape);
        for i in 0..block.len() {
            y.clear();
            targets.append_to(&block, i, &mut y)?;
            visitor(block.row_numbers[i], &y)?;
        }
    }
    Ok(())
}

/// Returns the correlation of consecutive rows' targets, over all target columns, if it is so large
/// that random folds are too optimistic; otherwise `None`.
fn target_correlation<T: Real>(source: &dyn RowSource<T>, targets: &Targets) -> Result<Option<f64>> {
    let (range, t, mut y) = (source.range(), targets.count(), Vec::new());
    for_each_row(source, range.start..range.end.min(range.start + LEADING_ROWS), targets, |_, targets_of_row| {
        y.extend_from_slice(targets_of_row);
        Ok(())
    })?;
    let n = y.len() / t.max(1);
    if n < MIN_SERIES_ROWS {
        return Ok(None);
    }
    // Σ_i e_i e_(i−1) / Σ_i e_i², where e_i is the deviation of row i from the mean
    let (mut lagged_sum, mut square_sum) = (0.0, 0.0);
    let uncentred_square_sum: f64 = y.iter().map(|y| y * y).sum();
    for j in 0..t {
        let mean = (0..n).map(|i| y[i * t + j]).sum::<f64>() / n as f64;
        let deviation = |i: usize| y[i * t + j] - mean;
        square_sum += (0..n).map(|i| deviation(i) * deviation(i)).sum::<f64>();
        lagged_sum += (1..n).map(|i| deviation(i) * deviation(i - 1)).sum::<f64>();
    }
    // the deviations of a constant target are rounding errors only
    let correlation = (square_sum > ROUNDING_FRACTION * uncentred_square_sum).then(|| lagged_sum / square_sum);
    Ok(correlation.filter(|correlation| *correlation > MIN_CORRELATION))
}

/// Returns the fraction of the targets' variance that lies between the means of folds, divided by
/// the largest fraction that is possible for classes.
fn variance_between_folds<T: Real>(sample: &MemoryRows<T>, folds: &Folds, targets: &Targets) -> Result<f64> {
    let (t, k) = (targets.count(), folds.count());
    let (mut target_sums, mut fold_sizes, mut square_sum) = (vec![0.0; k * t], vec![0.0; k], 0.0);
    for_each_row(sample, sample.range(), targets, |row, values| {
        let fold = folds.fold_of(row, 0)?;
        fold_sizes[fold] += 1.0;
        for (sum, value) in target_sums[fold * t..(fold + 1) * t].iter_mut().zip(values) {
            *sum += value;
            square_sum += value * value;
        }
        Ok(())
    })?;
    let n: f64 = fold_sizes.iter().sum();
    // Σ_f n_f (mean_f − mean)² = Σ_f (sum of fold f)²/n_f − n mean²
    let (mut total_squares, mut between_squares) = (square_sum, 0.0);
    for j in 0..t {
        let mean = (0..k).map(|fold| target_sums[fold * t + j]).sum::<f64>() / n.max(1.0);
        total_squares -= n * mean * mean;
        let fold_square = |fold: usize| target_sums[fold * t + j].powi(2) / f64::max(fold_sizes[fold], 1.0);
        between_squares += (0..k).map(fold_square).sum::<f64>() - n * mean * mean;
    }
    if total_squares <= 0.0 {
        return Ok(0.0);
    }
    // the codes are ±1, so Σ_j variance_j/4 = 1 − Σ_j p_j² for classes of fractions p_j. If the
    // rows are sorted by class and a fold has several classes, (k − 1) Σ_j p_j² lies between the k
    // folds
    let largest_fraction = match targets {
        Targets::Classes(_) if t > 1 => {
            let variance = total_squares / (4.0 * n);
            ((k as f64 - 1.0) * (1.0 - variance) / variance).min(1.0)
        }
        _ => 1.0,
    };
    Ok(between_squares / total_squares / largest_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Classes;
    use kstore::key::{Purpose, Stream};
    use kstore::{Label, MemoryRows};

    #[test]
    fn a_series_is_distinguished_from_shuffled_rows() {
        let warning_of = |y: Vec<f64>, folds: FoldSpec| {
            let rows = MemoryRows::new(vec![0.0f32; y.len()], 1).unwrap().with_targets(y, 1).unwrap();
            series_warning(&rows, &Targets::Numeric { centre: vec![0.3] }, &folds).unwrap()
        };
        let wave: Vec<f64> = (0..3000).map(|i| (f64::from(i) / 50.0).sin()).collect();
        let stream = Stream::new(3, Purpose::Data, 0);
        let noise: Vec<f64> = (0..3000).map(|i| stream.uniform(i)).collect();
        assert!(warning_of(wave.clone(), FoldSpec::Random(5)).unwrap().contains("correlation 1.00"));
        assert_eq!(warning_of(wave.clone(), FoldSpec::Blocks(6)), None);
        assert_eq!(warning_of(noise, FoldSpec::Random(5)), None);
        assert_eq!(warning_of(vec![2.0; 3000], FoldSpec::Random(5)), None);
        assert_eq!(warning_of(wave[..100].to_vec(), FoldSpec::None), None);
    }

    #[test]
    fn a_sorted_table_is_distinguished_from_a_series() {
        let fraction = |y: Vec<f64>| {
            let n = y.len() as u64;
            let rows = MemoryRows::new(vec![0.0f32; y.len()], 1).unwrap().with_targets(y, 1).unwrap();
            let folds = Folds::new(&FoldSpec::Blocks(BLOCK_COUNT), 0, 0..n, &[]).unwrap();
            variance_between_folds(&rows, &folds, &Targets::Numeric { centre: vec![1.0] }).unwrap()
        };
        // if the targets are 0, 1, 2, …, the six blocks explain 35/36 of the variance
        assert!((fraction((0..6000).map(f64::from).collect()) - 35.0 / 36.0).abs() < 1e-6);
        assert!(fraction((0..6000).map(|i| (f64::from(i) / 30.0).sin()).collect()) < 0.01);
        assert_eq!(fraction(vec![3.0; 600]), 0.0);
    }

    #[test]
    fn a_table_that_is_sorted_by_class_is_distinguished_from_a_series() {
        let class_count = 24;
        let labels: Vec<Label> = (0..class_count).map(|i| Label::Int(i.into())).collect();
        let targets = Targets::Classes(Classes::new(labels.clone()).unwrap());
        let fraction = |class_of: &dyn Fn(u32) -> u32| {
            let codes: Vec<u32> = (0..2_400).map(class_of).collect();
            let rows = MemoryRows::new(vec![0.0f32; codes.len()], 1).unwrap();
            let rows = rows.with_classes(codes, labels.clone().into()).unwrap();
            let folds = Folds::new(&FoldSpec::Blocks(BLOCK_COUNT), 0, 0..2_400, &[]).unwrap();
            variance_between_folds(&rows, &folds, &targets).unwrap()
        };
        // 100 rows of each class, one class after the other, so that each block has four classes
        // (with codes, the blocks explain only 5/23 of the variance)
        assert!((fraction(&|i| i / 100) - 1.0).abs() < 1e-12);
        // six subjects, each with ten rows of each class in turn
        assert!(fraction(&|i| i / 10 % class_count) < 0.05);
        // half of the classes are sorted
        let half = fraction(&|i| if i % 2 == 0 { i / 200 } else { 12 + i / 10 % 12 });
        assert!((0.3..0.6).contains(&half), "{half}");
    }
}
