//! Tables whose rows are a series: for them random K-fold is too optimistic, and contiguous
//! (blocked) K-fold is not.

use crate::{FoldSpec, Folds, Result, Targets};
use kapprox::Real;
use kstore::{MemoryRows, RowBuf, RowSource};
use std::ops::Range;

/// Number of contiguous blocks that replace random folds.
pub const BLOCKS: usize = 6;

/// Fraction of the variance that lies between the means of blocks, above which a table counts as
/// sorted by its target: the targets of a held-out block would differ from all others.
const SORTED: f64 = 0.5;

/// Number of leading rows examined.
const ROWS: u64 = 5_000;

const FEWEST_ROWS: usize = 200;

/// Correlation of consecutive targets above which random folds are too optimistic.
const ALIKE: f64 = 0.5;

/// Fraction of the squares below which differences from the mean are rounding.
const ROUNDING: f64 = 1e-20;

/// Returns a warning if the folds are random and consecutive rows have similar targets.
pub fn warning<T: Real>(source: &dyn RowSource<T>, targets: &Targets, folds: &FoldSpec) -> Result<Option<String>> {
    if !matches!(folds, FoldSpec::Hash(_) | FoldSpec::None) {
        return Ok(None);
    }
    Ok(alike(source, targets)?.map(|correlation| {
        format!(
            "consecutive rows have similar targets (correlation {correlation:.2}): if the rows are a series or come from few subjects, random \
             folds underestimate the error on new rows or subjects; use `folds` blocks:6 or column:NAME"
        )
    }))
}

/// Returns the correlation of consecutive targets, if random folds are too optimistic and blocks
/// can replace them.
pub fn series<T: Real>(
    source: &dyn RowSource<T>,
    (sample, range): (&MemoryRows<T>, &Range<u64>),
    targets: &Targets,
) -> Result<Option<f64>> {
    let Some(correlation) = alike(source, targets)? else { return Ok(None) };
    let blocks = Folds::new(&FoldSpec::Blocks(BLOCKS), 0, range.clone(), &[])?;
    Ok((between(sample, &blocks, targets)? <= SORTED).then_some(correlation))
}

#[doc(hidden)]
pub fn told_of_blocks(correlation: f64, given: &FoldSpec) -> String {
    format!(
        "consecutive rows have similar targets (correlation {correlation:.2}), as in a series: folds are {BLOCKS} contiguous blocks of rows; \
         use `folds` {given} for random folds, or column:NAME for one fold per value of a column"
    )
}

/// Calls `visit` with the number of each row and its targets.
fn each_row<T: Real>(
    source: &dyn RowSource<T>,
    range: Range<u64>,
    targets: &Targets,
    mut see: impl FnMut(u64, &[f64]) -> Result<()>,
) -> Result<()> {
    let (shape, mut y) = (source.shape(), Vec::new());
    let (mut cursor, mut tile) = (source.open(range)?, RowBuf::new(256));
    while cursor.next(&mut tile)? {
        let block = tile.block(&shape);
        for i in 0..block.len() {
            y.clear();
            targets.push(&block, i, &mut y)?;
            see(block.rows[i], &y)?;
        }
    }
    Ok(())
}

/// Returns the correlation of consecutive targets, over all targets, if it is so large that random
/// folds are too optimistic.
fn alike<T: Real>(source: &dyn RowSource<T>, targets: &Targets) -> Result<Option<f64>> {
    let (range, t, mut y) = (source.range(), targets.count(), Vec::new());
    each_row(source, range.start..range.end.min(range.start + ROWS), targets, |_, row| {
        y.extend_from_slice(row);
        Ok(())
    })?;
    let n = y.len() / t.max(1);
    if n < FEWEST_ROWS {
        return Ok(None);
    }
    let (mut shared, mut own) = (0.0, 0.0);
    let squares: f64 = y.iter().map(|y| y * y).sum();
    for j in 0..t {
        let mean = (0..n).map(|i| y[i * t + j]).sum::<f64>() / n as f64;
        let off = |i: usize| y[i * t + j] - mean;
        own += (0..n).map(|i| off(i) * off(i)).sum::<f64>();
        shared += (1..n).map(|i| off(i) * off(i - 1)).sum::<f64>();
    }
    // a constant target leaves only rounding
    let correlation = (own > ROUNDING * squares).then(|| shared / own);
    Ok(correlation.filter(|correlation| *correlation > ALIKE))
}

/// Returns the fraction of the targets' variance that lies between the means of folds.
fn between<T: Real>(sample: &MemoryRows<T>, folds: &Folds, targets: &Targets) -> Result<f64> {
    let (t, k) = (targets.count(), folds.count());
    let (mut sums, mut sizes, mut squares) = (vec![0.0; k * t], vec![0.0; k], 0.0);
    each_row(sample, sample.range(), targets, |row, values| {
        let fold = folds.fold_of(row, 0)?;
        sizes[fold] += 1.0;
        for (sum, value) in sums[fold * t..(fold + 1) * t].iter_mut().zip(values) {
            *sum += value;
            squares += value * value;
        }
        Ok(())
    })?;
    let n: f64 = sizes.iter().sum();
    let (mut total, mut explained) = (squares, 0.0);
    for j in 0..t {
        let mean = (0..k).map(|fold| sums[fold * t + j]).sum::<f64>() / n.max(1.0);
        total -= n * mean * mean;
        let of = |fold: usize| sums[fold * t + j].powi(2) / f64::max(sizes[fold], 1.0);
        explained += (0..k).map(of).sum::<f64>() - n * mean * mean;
    }
    Ok(if total > 0.0 { explained / total } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::MemoryRows;
    use kstore::key::{Purpose, Stream};

    #[test]
    fn a_series_is_told_from_rows_in_any_order() {
        let told = |y: Vec<f64>, folds: FoldSpec| {
            let rows = MemoryRows::new(vec![0.0f32; y.len()], 1).unwrap().with_targets(y, 1).unwrap();
            warning(&rows, &Targets::Numeric { centre: vec![0.3] }, &folds).unwrap()
        };
        let wave: Vec<f64> = (0..3000).map(|i| (f64::from(i) / 50.0).sin()).collect();
        let stream = Stream::new(3, Purpose::Data, 0);
        let noise: Vec<f64> = (0..3000).map(|i| stream.uniform(i)).collect();
        assert!(told(wave.clone(), FoldSpec::Hash(5)).unwrap().contains("correlation 1.00"));
        assert_eq!(told(wave.clone(), FoldSpec::Blocks(6)), None);
        assert_eq!(told(noise, FoldSpec::Hash(5)), None);
        assert_eq!(told(vec![2.0; 3000], FoldSpec::Hash(5)), None);
        assert_eq!(told(wave[..100].to_vec(), FoldSpec::None), None);
    }

    #[test]
    fn a_sorted_table_is_told_from_a_series() {
        let share = |y: Vec<f64>| {
            let n = y.len() as u64;
            let rows = MemoryRows::new(vec![0.0f32; y.len()], 1).unwrap().with_targets(y, 1).unwrap();
            let folds = Folds::new(&FoldSpec::Blocks(BLOCKS), 0, 0..n, &[]).unwrap();
            between(&rows, &folds, &Targets::Numeric { centre: vec![1.0] }).unwrap()
        };
        // for numbers in order, blocks explain all but 1/36
        assert!((share((0..6000).map(f64::from).collect()) - 35.0 / 36.0).abs() < 1e-6);
        assert!(share((0..6000).map(|i| (f64::from(i) / 30.0).sin()).collect()) < 0.01);
        assert_eq!(share(vec![3.0; 600]), 0.0);
    }
}
