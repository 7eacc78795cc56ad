//! Tables whose rows are a series: folds of random rows flatter there, and blocks of rows tell the truth.

use super::TuneOptions;
use crate::folds::FoldSpec;
use crate::{Folds, Result, Targets, metric};
use kapprox::Real;
use kstore::{MemoryRows, RowBuf, RowSource};
use std::ops::Range;

/// Number of blocks.
pub(super) const BLOCKS: usize = 6;

/// Share of the variance between the means of blocks from which on the table is sorted by its target: a block that is held out would
/// have targets that no other has.
const SORTED: f64 = 0.5;

/// The folds of a search, and what is told of them. Where random folds flatter, and may be replaced, these are blocks of rows.
pub(super) fn folds<T: Real>(
    source: &dyn RowSource<T>,
    (sample, range): (&MemoryRows<T>, &Range<u64>),
    targets: &Targets,
    options: &TuneOptions,
) -> Result<(FoldSpec, Option<String>)> {
    let given = &options.training.folds;
    if !options.blocks || !matches!(given, FoldSpec::Hash(_)) {
        return Ok((given.clone(), metric::warning_of_neighbours(source, targets, given)?));
    }
    let Some(correlation) = metric::alike(source, targets)? else { return Ok((given.clone(), None)) };
    let blocks = FoldSpec::Blocks(BLOCKS);
    if between(sample, &Folds::new(&blocks, 0, range.clone(), &[])?, targets)? > SORTED {
        return Ok((given.clone(), None));
    }
    let text = format!(
        "rows that follow each other have like targets (correlation {correlation:.2}), as in a series: folds are {BLOCKS} blocks of rows; \
         `folds` {given} takes rows at random, and `folds` column:NAME the values of a column"
    );
    Ok((blocks, Some(text)))
}

/// The share of the variance of the targets that lies between the means of folds.
fn between<T: Real>(sample: &MemoryRows<T>, folds: &Folds, targets: &Targets) -> Result<f64> {
    let (t, k, shape) = (targets.count(), folds.count(), sample.shape());
    let (mut sums, mut sizes, mut squares) = (vec![0.0; k * t], vec![0.0; k], 0.0);
    let (mut cursor, mut tile) = (sample.open(sample.range())?, RowBuf::new(256));
    while cursor.next(&mut tile)? {
        let block = tile.block(&shape);
        for i in 0..block.len() {
            let fold = folds.fold_of(block.rows[i], 0)?;
            sizes[fold] += 1.0;
            for j in 0..t {
                let value = targets.value(&block, i, j)?;
                sums[fold * t + j] += value;
                squares += value * value;
            }
        }
    }
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

    #[test]
    fn a_sorted_table_is_told_from_a_series() {
        let share = |y: Vec<f64>| {
            let n = y.len() as u64;
            let rows = MemoryRows::new(vec![0.0f32; y.len()], 1).unwrap().with_targets(y, 1).unwrap();
            let folds = Folds::new(&FoldSpec::Blocks(BLOCKS), 0, 0..n, &[]).unwrap();
            between(&rows, &folds, &Targets::Numeric { centre: vec![1.0] }).unwrap()
        };
        // of numbers in order, blocks explain all but 1/36
        assert!((share((0..6000).map(f64::from).collect()) - 35.0 / 36.0).abs() < 1e-6);
        assert!(share((0..6000).map(|i| (f64::from(i) / 30.0).sin()).collect()) < 0.01);
        assert_eq!(share(vec![3.0; 600]), 0.0);
    }
}
