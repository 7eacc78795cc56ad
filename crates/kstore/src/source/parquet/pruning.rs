//! Row groups of a Parquet file that a condition rules out.
//!
//! A writer stores the least and the greatest value of a column for each row group. Missing values and NaN are not
//! among them, and fulfil no condition. Bounds that are absent, are NaN, or come from writers that compared wrongly
//! (PARQUET-251: `min` and `max` before format 2.4 compared bytes as signed) rule nothing out.

use crate::{condition::Bound, source::plain};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::{basic::Type, file::metadata::RowGroupMetaData};
use std::ops::Range;

/// Which row groups may hold a row whose value in column `root` fulfils the condition; `None` where nothing is known.
pub(super) fn row_groups(metadata: &ArrowReaderMetadata, root: Option<usize>, condition: &Bound) -> Option<Vec<bool>> {
    let groups = metadata.metadata().row_groups();
    let (schema, field) = (metadata.schema(), metadata.schema().field(root?));
    let converter = StatisticsConverter::try_new(field.name(), schema, metadata.parquet_schema()).ok()?;
    let leaf = converter.parquet_column_index()?;
    let least = plain::plain(&converter.row_group_mins(groups).ok()?).ok()?;
    let greatest = plain::plain(&converter.row_group_maxes(groups).ok()?).ok()?;
    let (least, greatest) = (plain::view(&least)?, plain::view(&greatest)?);
    let keep =
        |(row, group): (usize, &RowGroupMetaData)| !trusted(group, leaf) || condition.may_hold(&least, &greatest, row);
    Some(groups.iter().enumerate().map(keep).collect())
}

fn trusted(group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = group.column(leaf);
    let ordered = |statistics: &parquet::file::statistics::Statistics| {
        !statistics.is_min_max_deprecated() || statistics.is_min_max_backwards_compatible()
    };
    column.column_type() != Type::INT96 && column.statistics().is_some_and(ordered)
}

/// The rows of the groups that are kept; neighbours together.
pub(super) fn ranges(groups: &[RowGroupMetaData], kept: &[bool]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut start = 0;
    for (group, kept) in groups.iter().zip(kept) {
        let end = start + group.num_rows() as u64;
        match ranges.last_mut().filter(|last| last.end == start) {
            _ if !kept => {}
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
        start = end;
    }
    ranges
}
