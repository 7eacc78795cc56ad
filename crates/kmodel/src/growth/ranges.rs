//! Values of new rows outside the ranges of the rows of a fit.

use kstore::statistics::ColumnMoments;
use kstore::statistics::StatisticsScratch;
use kstore::{Error, Merge, Reduction, Result, RowBlock, Statistics, StatisticsReduction, TableShape, Workers};
use serde::{Deserialize, Serialize};

/// The values of a column in new rows that lie outside the range of the rows of the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MovedRange {
    /// Name of the feature.
    pub column: String,
    /// Range in the rows of the fit, in the units of the table.
    #[serde(rename = "fit")]
    pub fit_range: [f64; 2],
    /// Range in the rows of the fit and the new rows together.
    pub range: [f64; 2],
    /// Number of new rows with a value below the range of the fit.
    pub below: u64,
    /// Number of new rows with a value above the range of the fit.
    pub above: u64,
}

/// Numbers of values below and above the range of the fit, for each column; and the number of new
/// rows.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct OutsideCounts {
    /// Number of new rows.
    pub rows: u64,
    /// Numbers of values below and above the range, for each column.
    pub counts: Vec<[u64; 2]>,
}

impl Merge for OutsideCounts {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        for (counts, later) in self.counts.iter_mut().zip(&later.counts) {
            (0..2).for_each(|side| counts[side] += later[side]);
        }
    }
}

/// A reduction that computes the statistics of rows, and counts values of new rows outside ranges.
///
/// *Bytes of a state*: 16 per column in addition to the statistics.
#[derive(Debug)]
#[doc(hidden)]
pub struct RangeReduction<'a> {
    statistics: StatisticsReduction,
    /// Ranges of the columns in the rows of the fit; empty if values are not counted.
    ranges: &'a [[f64; 2]],
    /// Stored rows from this number on are new.
    first_new_row: u64,
}

impl<'a> RangeReduction<'a> {
    /// Returns a reduction of rows of this shape; stored rows from `first_new_row` on are new.
    pub fn new(shape: TableShape, ranges: &'a [[f64; 2]], first_new_row: u64) -> Self {
        Self { statistics: StatisticsReduction::new(shape), ranges, first_new_row }
    }

    /// Returns the bytes of a state without labels.
    pub fn state_bytes(&self) -> usize {
        self.statistics.state_bytes() + size_of::<OutsideCounts>() + self.ranges.len() * size_of::<[u64; 2]>()
    }
}

impl Reduction<f64> for RangeReduction<'_> {
    type State = (Statistics, OutsideCounts);
    type Scratch = StatisticsScratch;
    type Error = Error;

    fn init(&self) -> Self::State {
        let counts = vec![[0; 2]; self.ranges.len()];
        (Reduction::<f64>::init(&self.statistics), OutsideCounts { rows: 0, counts })
    }

    fn scratch(&self) -> StatisticsScratch {
        StatisticsScratch::default()
    }

    fn step(
        &self,
        (statistics, outside): &mut Self::State,
        scratch: &mut StatisticsScratch,
        block: &RowBlock<'_, f64>,
        workers: &Workers,
    ) -> Result<()> {
        self.statistics.step(statistics, scratch, block, workers)?;
        let is_new = |row: &&u64| **row >= self.first_new_row;
        outside.rows += block.row_numbers.iter().filter(is_new).count() as u64;
        if self.ranges.is_empty() {
            return Ok(());
        }
        let rows = block.x.chunks_exact(self.ranges.len()).zip(block.row_numbers);
        for (row, _) in rows.filter(|(_, row_number)| is_new(row_number)) {
            for ((value, [low, high]), counts) in row.iter().zip(self.ranges).zip(&mut outside.counts) {
                // comparisons with NaN are false
                counts[0] += u64::from(value < low);
                counts[1] += u64::from(value > high);
            }
        }
        Ok(())
    }
}

/// Returns the columns with values outside their ranges, from the counts and the statistics of the
/// rows.
#[doc(hidden)]
pub fn moved_ranges(
    names: &[String],
    ranges: &[[f64; 2]],
    inputs: &[ColumnMoments],
    outside: &OutsideCounts,
) -> Vec<MovedRange> {
    let columns = names.iter().zip(ranges).zip(inputs).zip(&outside.counts);
    let moved_columns = columns.filter(|(_, [below, above])| below + above > 0);
    moved_columns
        .map(|(((name, range), moments), [below, above])| MovedRange {
            column: name.clone(),
            fit_range: *range,
            range: [range[0].min(moments.min), range[1].max(moments.max)],
            below: *below,
            above: *above,
        })
        .collect()
}
