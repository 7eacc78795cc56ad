//! Whether rows that follow each other have like targets, so that random folds flatter.

use crate::{FoldSpec, Result, Targets};
use kapprox::Real;
use kstore::{RowBuf, RowSource};

/// Rows that are looked at, the first ones.
const ROWS: u64 = 5_000;

/// Fewest of them.
const FEWEST: usize = 200;

/// Correlation of a row's target with the next one's from which on it is told.
const ALIKE: f64 = 0.5;

/// Share of the squares below which differences from the mean are rounding.
const ROUNDING: f64 = 1e-20;

/// A warning where the folds are random and rows that follow each other have like targets.
///
/// # Errors
/// Errors of reading the rows.
pub(crate) fn warning<T: Real>(
    source: &dyn RowSource<T>,
    targets: &Targets,
    folds: &FoldSpec,
) -> Result<Option<String>> {
    if !matches!(folds, FoldSpec::Hash(_) | FoldSpec::None) {
        return Ok(None);
    }
    Ok(alike(source, targets)?.map(|correlation| {
        format!(
            "rows that follow each other have like targets (correlation {correlation:.2}): where they are a series or come from few \
             subjects, random folds flatter, and what is learned by them may be worse on new ones; give `folds` blocks:6, or a column"
        )
    }))
}

/// The correlation of the targets of rows that follow each other, where it is so large that random folds flatter.
///
/// # Errors
/// Errors of reading the rows.
pub(crate) fn alike<T: Real>(source: &dyn RowSource<T>, targets: &Targets) -> Result<Option<f64>> {
    Ok(correlation(source, targets)?.filter(|correlation| *correlation > ALIKE))
}

/// The correlation of the targets of rows that follow each other, over all targets; `None` where they do not vary.
fn correlation<T: Real>(source: &dyn RowSource<T>, targets: &Targets) -> Result<Option<f64>> {
    let (range, shape, t) = (source.range(), source.shape(), targets.count());
    let mut cursor = source.open(range.start..range.end.min(range.start + ROWS))?;
    let (mut tile, mut y) = (RowBuf::new(256), Vec::new());
    while cursor.next(&mut tile)? {
        let block = tile.block(&shape);
        for i in 0..block.len() {
            for j in 0..t {
                y.push(targets.value(&block, i, j)?);
            }
        }
    }
    let n = y.len() / t.max(1);
    if n < FEWEST {
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
    // what is left of a constant is rounding
    Ok((own > ROUNDING * squares).then(|| shared / own))
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
}
