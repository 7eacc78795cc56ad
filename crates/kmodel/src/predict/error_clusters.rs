//! The clusters of test rows over which standard errors of scores are computed.

use crate::Result;
use crate::run::Run;
use crate::score::ClusterReport;
use kstore::{Label, SelectedTable, Statistics, TestRows, TestSpec};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Number of blocks of consecutive rows. Chosen: with 30 blocks a standard error has a relative
/// error of 13 %, and blocks of a thirtieth of the rows are mostly longer than their dependence.
const BLOCK_COUNT: u64 = 30;

/// Assigns rows to clusters.
pub(super) struct ErrorClusters {
    /// What a cluster is, for the report.
    description: String,
    pub(super) count: usize,
    rule: ClusterRule,
}

enum ClusterRule {
    /// The cluster of each label of the group column.
    Labels(HashMap<Label, usize>),
    /// Blocks of equal length in a range of stored rows.
    RowBlocks(Range<u64>),
}

impl ErrorClusters {
    /// Returns the clusters of selected test rows, and the selection with the column that defines
    /// them. Test rows that are whole groups have a cluster for each group. The last rows have
    /// blocks of consecutive rows. Returns `None` for other rows, and for a column without labels,
    /// such as a column of fractions.
    ///
    /// *Cost*: one pass over the column. *Bytes*: the labels of the column.
    ///
    /// # Errors
    /// An interruption; the evaluation reports other errors of reading.
    pub(super) fn of<'a>(selected: &'a SelectedTable, run: &Run<'_>) -> Result<Option<(Cow<'a, SelectedTable>, Self)>> {
        match selected.test_rows().map(|test_rows: &TestRows| &test_rows.spec) {
            Some(TestSpec::Last { column: None, .. }) => {
                let range = selected.range();
                let count = BLOCK_COUNT.min((range.end - range.start) / 2) as usize;
                let clusters = Self {
                    description: "blocks of consecutive rows".to_string(),
                    count,
                    rule: ClusterRule::RowBlocks(range),
                };
                Ok((count > 1).then_some((Cow::Borrowed(selected), clusters)))
            }
            Some(TestSpec::Last { column: Some(column), .. }) => {
                let Some((rows, statistics)) = group_statistics(selected, column, run)? else { return Ok(None) };
                let labels = statistics.groups.sorted_counts();
                let count = BLOCK_COUNT.min(labels.len() as u64).min(statistics.rows / 2) as usize;
                let clusters = Self {
                    description: format!("blocks of consecutive {column}"),
                    count,
                    rule: ClusterRule::Labels(blocks_of_labels(labels, statistics.rows, count)),
                };
                Ok((count > 1).then_some((Cow::Owned(rows), clusters)))
            }
            Some(TestSpec::Groups { column, .. }) => {
                let Some((rows, statistics)) = group_statistics(selected, column, run)? else { return Ok(None) };
                let labels = statistics.groups.sorted_counts().into_iter().enumerate();
                let codes: HashMap<Label, usize> = labels.map(|(code, (label, _))| (label, code)).collect();
                let clusters = Self {
                    description: format!("groups of {column}"),
                    count: codes.len(),
                    rule: ClusterRule::Labels(codes),
                };
                Ok((clusters.count > 1).then_some((Cow::Owned(rows), clusters)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the description of the clusters, given the number of clusters with rows.
    pub(super) fn report(self, count: Option<u64>) -> Option<ClusterReport> {
        Some(ClusterReport { clusters: self.description, count: count? })
    }

    /// Returns the cluster of a row.
    pub(super) fn cluster_of(&self, row: u64, label: Option<&Label>) -> usize {
        match &self.rule {
            // the pass that counted the labels has read the same rows
            ClusterRule::Labels(codes) => label.and_then(|label| codes.get(label)).copied().unwrap_or(0),
            ClusterRule::RowBlocks(range) => {
                let position = u128::from(row.saturating_sub(range.start));
                let length = u128::from((range.end - range.start).max(1));
                ((position * self.count as u128 / length) as usize).min(self.count - 1)
            }
        }
    }
}

/// Assigns each of the sorted labels to a block, so that the blocks have about equally many rows.
fn blocks_of_labels(labels: Vec<(Label, u64)>, row_count: u64, block_count: usize) -> HashMap<Label, usize> {
    let mut rows_before = 0;
    let block_of_label = |(label, rows): (Label, u64)| {
        let middle = 2 * u128::from(rows_before) + u128::from(rows);
        rows_before += rows;
        let block = middle * block_count as u128 / (2 * u128::from(row_count.max(1)));
        (label, (block as usize).min(block_count.saturating_sub(1)))
    };
    labels.into_iter().map(block_of_label).collect()
}

/// Returns the selection with a group column, and the numbers of rows of its labels; `None` if the
/// column has no labels.
fn group_statistics(
    selected: &SelectedTable,
    column: &str,
    run: &Run<'_>,
) -> Result<Option<(SelectedTable, Statistics)>> {
    let Ok(rows) = selected.with_group_column(column) else { return Ok(None) };
    let Some(label_rows) = rows.labels_only() else { return Ok(None) };
    match run.statistics_in("test rows", &label_rows) {
        Err(error) if error.is_interrupted() => Err(error),
        Ok(statistics) if statistics.check_label_counts("", column).is_ok() => Ok(Some((rows, statistics))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_divided_into_blocks_of_equal_rows() {
        let labels = [10, 10, 20, 5, 5, 30].into_iter().zip(0..).map(|(rows, label)| (Label::Int(label), rows));
        let blocks = blocks_of_labels(labels.collect(), 80, 4);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|label| blocks[&Label::Int(label)]), [0, 0, 1, 2, 2, 3]);
    }
}
