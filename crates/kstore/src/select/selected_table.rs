//! What a resolved selection says about its columns and rows.

use super::{SelectedTable, TestRows};
use crate::encoding::Encoding;
use crate::lags::Lags;
use crate::missing::{Missing, MissingTarget};
use crate::rows::TableShape;
use crate::schema::Kind;
use crate::source::TextReadOptions;
use crate::table::Table;
use crate::{OutputColumn, RowDigests, Statistics};
use std::ops::Range;
use std::sync::Arc;

impl SelectedTable {
    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns a copy with its own counter of bytes read. It is for inspections that are not part
    /// of the main work.
    #[must_use]
    #[doc(hidden)]
    pub fn with_new_byte_counter(&self) -> Self {
        Self { table: self.table.with_new_byte_counter(), ..self.clone() }
    }

    /// Returns the names of the features, in the order of the columns of `x`. Before a pass has
    /// found the categories of text columns, returns the names of the columns instead.
    pub fn feature_names(&self) -> Vec<String> {
        self.lookups().map_or_else(|| self.names(&self.features), |lookups| lookups.feature_names.clone())
    }

    /// Returns the names of the columns that were omitted because they have no value in any row.
    #[doc(hidden)]
    pub fn blank_columns(&self) -> Vec<String> {
        self.names(&self.blank_columns)
    }

    /// Returns the rule of the test rows if they are the selected rows.
    #[doc(hidden)]
    pub fn test_rows(&self) -> Option<&TestRows> {
        self.test_rows.as_deref()
    }

    /// Returns a copy with another group column.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchColumn`] if the table lacks the column.
    #[doc(hidden)]
    pub fn with_group_column(&self, name: &str) -> crate::Result<Self> {
        Ok(Self { group: Some(self.table.column_index(name)?), ..self.clone() })
    }

    /// Returns a copy that keeps the values of these columns.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchColumn`] if the table lacks a column.
    #[doc(hidden)]
    pub fn with_kept_columns<'a>(&self, names: impl Iterator<Item = &'a String>) -> crate::Result<Self> {
        let keep: Vec<usize> = names.map(|name| self.table.column_index(name)).collect::<crate::Result<_>>()?;
        Ok(Self { kept_required: vec![false; keep.len()], keep, ..self.clone() })
    }

    /// Returns the names of the numeric targets. The change of a column has the name of the column.
    pub fn target_names(&self) -> Vec<String> {
        let mut names = self.names(&self.targets);
        if let Some((column, change)) = self.table.lags().and_then(Lags::change) {
            names.iter_mut().filter(|name| **name == change).for_each(|name| *name = column.to_string());
        }
        names
    }

    /// Returns whether rows have weights.
    pub fn is_weighted(&self) -> bool {
        self.weight.is_some()
    }

    /// Returns the index of the weights in [`decoded_columns`](Self::decoded_columns). Without
    /// weights, returns the index that they would have.
    pub(crate) fn weight_slot(&self) -> usize {
        self.features.len() + self.targets.len()
    }

    /// Returns the index of the class in [`decoded_columns`](Self::decoded_columns). Without a
    /// class, returns the index that it would have.
    pub(crate) fn class_slot(&self) -> usize {
        self.weight_slot() + usize::from(self.is_weighted())
    }

    /// Returns whether there is a target: a number or a class.
    pub(crate) fn has_target(&self) -> bool {
        self.class.is_some() || !self.targets.is_empty()
    }

    /// Returns the name of the class column.
    #[doc(hidden)]
    pub fn class_column(&self) -> Option<&str> {
        self.class.map(|column| self.table.schema().columns[column].name.as_str())
    }

    /// Returns the name of the group column.
    #[doc(hidden)]
    pub fn group_column(&self) -> Option<&str> {
        self.group.map(|column| self.table.schema().columns[column].name.as_str())
    }

    /// Returns the names and types of the kept columns for a sink. uint64 stays uint64, and every
    /// other integer type becomes int64.
    #[doc(hidden)]
    pub fn kept_columns(&self) -> Vec<OutputColumn> {
        let columns = self.keep.iter().map(|column| &self.table.schema().columns[*column]);
        columns.map(|column| OutputColumn::for_kind(&column.name, &column.kind)).collect()
    }

    /// Returns whether a kept column holds text, bytes or sparse rows. The length of their values
    /// is not known in advance.
    #[doc(hidden)]
    pub fn keeps_variable_size_columns(&self) -> bool {
        self.kept_columns().iter().any(|column| column.kind.is_variable_size())
    }

    /// Returns the bytes per row of the kept columns, without the bytes of texts: a value and a
    /// validity flag for each column.
    #[doc(hidden)]
    pub fn kept_bytes_per_row(&self) -> usize {
        self.kept_columns().iter().map(|column| 1 + column.kind.bytes_per_value()).sum()
    }

    /// Marks the integer columns in statistics of these rows.
    #[doc(hidden)]
    pub fn mark_integers(&self, statistics: &mut Statistics) {
        let holds_integers = |column: &usize| {
            matches!(self.table.schema().columns[*column].kind, Kind::Int { .. } | Kind::Bool | Kind::Time(_))
        };
        let holds_times = |index: usize| self.lookups().is_some_and(|lookups| lookups.time_reader(index).is_some());
        let columns = self.encoding().map_or_else(|| (0..self.features.len()).collect(), Encoding::column_of_feature);
        let features = statistics.inputs.iter_mut().zip(columns);
        features.for_each(|(moments, index)| {
            moments.is_integer = !holds_times(index) && holds_integers(&self.features[index])
        });
        let targets = statistics.targets.iter_mut().zip(&self.targets);
        let weights = statistics.weights.iter_mut().zip(&self.weight);
        targets.chain(weights).for_each(|(moments, column)| moments.is_integer = holds_integers(column));
        let binary_mask = self.encoding().map_or(Vec::new(), Encoding::binary_mask);
        statistics.inputs.iter_mut().zip(binary_mask).for_each(|(moments, is_binary)| moments.is_integer |= is_binary);
    }

    /// Returns a copy that keeps the rows that [`Missing::Drop`] would drop; a missing value is
    /// NaN. Sparse rows with a missing value are still dropped.
    #[must_use]
    #[doc(hidden)]
    pub fn with_incomplete_rows(self) -> Self {
        let keeps_incomplete = self.missing == Missing::Drop && self.sparse_shape().is_none();
        let missing = if keeps_incomplete { Missing::Keep } else { self.missing };
        Self { missing, ..self }
    }

    /// Returns the range of stored rows that can be selected.
    pub fn range(&self) -> Range<u64> {
        self.row_range.clone()
    }

    /// Returns the shape of the rows: the number of stored rows of the whole table, the numbers of
    /// features and of numeric targets, and whether rows have weights.
    #[doc(hidden)]
    pub fn shape(&self) -> TableShape {
        TableShape {
            stored_rows: self.table.stored_rows(),
            input_count: self.lookups().map_or(self.features.len(), |lookups| lookups.feature_names.len()),
            target_count: self.targets.len(),
            has_weights: self.is_weighted(),
        }
    }

    /// Returns how the features, the targets and the column of the test rows are read from text
    /// files, as far as it differs from the default.
    #[doc(hidden)]
    pub fn text_read_options(&self) -> TextReadOptions {
        let names = [
            self.feature_columns(),
            self.target_names(),
            self.class_column().into_iter().map(str::to_string).collect(),
            self.names(&self.part_column().into_iter().collect::<Vec<_>>()),
        ];
        self.table.text_read_options().restrict_to(&names.concat())
    }

    pub(crate) fn drops_missing_targets(&self) -> bool {
        self.has_target() && self.missing_target == MissingTarget::Drop
    }

    /// Returns the number of selected rows, including rows without a target. Returns `None` if the
    /// number is not known without reading: if there is a condition, if rows have weights, or if
    /// rows with missing features are dropped.
    #[doc(hidden)]
    pub fn row_count_if_known(&self) -> Option<u64> {
        self.selects_all_rows().then_some(self.row_range.end - self.row_range.start)
    }

    /// Returns whether every stored row of the range is selected, except rows without a target. If
    /// rows have weights, returns false, because rows with weight 0 are skipped.
    pub(crate) fn selects_all_rows(&self) -> bool {
        self.filter.is_none() && self.part.is_none() && self.missing != Missing::Drop && !self.is_weighted()
    }

    /// Returns a copy that is restricted to a range of stored rows.
    #[must_use]
    #[doc(hidden)]
    pub fn restrict_to(&self, rows: &Range<u64>) -> Self {
        let Range { start, end } = self.row_range;
        Self { row_range: rows.start.clamp(start, end)..rows.end.clamp(start, end), ..self.clone() }
    }

    /// Returns a copy that adds its rows to `digests` as they are read, until the digests are
    /// closed.
    #[must_use]
    #[doc(hidden)]
    pub fn with_digests(&self, digests: &Arc<RowDigests>) -> Self {
        Self { table: self.table.with_digests(digests), ..self.clone() }
    }

    /// Returns a selection of the class and group columns only, with the row range and the
    /// condition of this selection. Returns `None` if there is neither a class nor a group column.
    /// The rows of the new selection are not added to digests, because a digest covers a whole row.
    #[doc(hidden)]
    pub fn labels_only(&self) -> Option<Self> {
        let Self { class, group, .. } = *self;
        let label_selection = || {
            let selection = Self {
                table: self.table.without_digests(),
                features: Vec::new(),
                class,
                group,
                ..self.features_only()
            };
            // the targets are needed to skip rows without a target
            if self.drops_missing_targets() { Self { targets: self.targets.clone(), ..selection } } else { selection }
        };
        (class.is_some() || group.is_some()).then(label_selection)
    }

    /// Returns the columns to decode: features, targets, weights, class, group, kept, filter,
    /// part.
    pub(crate) fn decoded_columns(&self) -> Vec<usize> {
        let mut decoded_columns = self.features.clone();
        decoded_columns.extend(&self.targets);
        decoded_columns.extend(self.weight);
        decoded_columns.extend(self.class);
        decoded_columns.extend(self.group);
        decoded_columns.extend(&self.keep);
        decoded_columns.extend(self.filter.iter().map(|(column, _)| *column));
        decoded_columns.extend(self.part_column());
        decoded_columns
    }

    /// Returns the column that decides whether a row is a test row.
    pub(crate) fn part_column(&self) -> Option<usize> {
        self.part.as_ref()?.column
    }

    pub(crate) fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|column| self.table.schema().columns[*column].name.clone()).collect()
    }
}
