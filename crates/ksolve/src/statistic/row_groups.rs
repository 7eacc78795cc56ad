//! Groups of rows by the values of a column.

use crate::{Error, Result};
use kstore::{Label, SelectedTable};
use std::collections::BTreeMap;

/// Maximum number of groups.
const MAX_GROUPS: usize = 10_000;

/// The groups of the new rows: the labels of the group column or, for dates and times, their days.
pub(super) struct RowGroups {
    /// Group of each label.
    pub(super) group_of_label: Vec<usize>,
    /// Name and number of rows of each group.
    pub(super) groups: Vec<(String, u64)>,
}

impl RowGroups {
    /// Returns the groups of ascending labels with their numbers of rows.
    pub(super) fn new(selected: &SelectedTable, label_counts: &[(Label, u64)]) -> Result<Self> {
        let column = selected.group_column().unwrap_or_default();
        let names: Option<Vec<String>> =
            label_counts.iter().map(|(label, _)| selected.table().day_of(column, label)).collect();
        let names =
            names.unwrap_or_else(|| label_counts.iter().map(|(label, _)| label.to_string()).collect::<Vec<_>>());
        let mut result = Self { group_of_label: Vec::new(), groups: Vec::new() };
        let mut position_of_name: BTreeMap<String, usize> = BTreeMap::new();
        for (name, (_, rows)) in names.into_iter().zip(label_counts) {
            let next = position_of_name.len();
            let position = *position_of_name.entry(name.clone()).or_insert(next);
            match result.groups.get_mut(position) {
                Some((_, group_rows)) => *group_rows += rows,
                None => result.groups.push((name, *rows)),
            }
            result.group_of_label.push(position);
        }
        if result.groups.len() > MAX_GROUPS {
            let why = format!("the column has {} values, and at most {MAX_GROUPS} are compared", result.groups.len());
            return Err(Error::option("by", column, why));
        }
        Ok(result)
    }
}
