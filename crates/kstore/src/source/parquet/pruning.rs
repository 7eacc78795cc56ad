//! Excludes row groups of a Parquet file by a condition.
//!
//! A writer stores the minimum and the maximum of a column for each row group. Missing values and
//! NaN are not included in them, and satisfy no condition. Bounds that are absent or NaN exclude
//! nothing. The same holds for bounds whose writer compared values wrongly (PARQUET-251: before
//! format 2.4, `min` and `max` compared bytes as signed numbers).

use crate::{condition::BoundCondition, source::arrow_values};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::{basic::Type, file::metadata::RowGroupMetaData};
use std::ops::Range;

/// Returns, for each row group, whether it may contain a row whose value in column `root` satisfies
/// the condition. Returns `None` if nothing is known.
pub(super) fn may_match(
    metadata: &ArrowReaderMetadata,
    root: Option<usize>,
    condition: &BoundCondition,
) -> Option<Vec<bool>> {
    let groups = metadata.metadata().row_groups();
    let (schema, field) = (metadata.schema(), metadata.schema().field(root?));
    let converter = StatisticsConverter::try_new(field.name(), schema, metadata.parquet_schema()).ok()?;
    let leaf = converter.parquet_column_index()?;
    let minima = arrow_values::to_viewable(&converter.row_group_mins(groups).ok()?).ok()?;
    let maxima = arrow_values::to_viewable(&converter.row_group_maxes(groups).ok()?).ok()?;
    let (minima, maxima) = (arrow_values::array_view(&minima)?, arrow_values::array_view(&maxima)?);
    let group_may_match = |(group_index, group): (usize, &RowGroupMetaData)| {
        !has_trusted_bounds(group, leaf) || condition.may_hold(&minima, &maxima, group_index)
    };
    Some(groups.iter().enumerate().map(group_may_match).collect())
}

fn has_trusted_bounds(group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = group.column(leaf);
    let has_correct_order = |statistics: &parquet::file::statistics::Statistics| {
        !statistics.is_min_max_deprecated() || statistics.is_min_max_backwards_compatible()
    };
    column.column_type() != Type::INT96 && column.statistics().is_some_and(has_correct_order)
}

/// Returns the rows of the kept groups, with adjacent groups merged.
pub(super) fn kept_ranges(groups: &[RowGroupMetaData], is_kept: &[bool]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut start = 0;
    for (group, is_kept) in groups.iter().zip(is_kept) {
        let end = start + group.num_rows() as u64;
        match ranges.last_mut().filter(|last| last.end == start) {
            _ if !is_kept => {}
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
        start = end;
    }
    ranges
}
