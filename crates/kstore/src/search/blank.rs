//! Leaves out features that have no value in any row, and from which nothing can be learned.

use super::ColumnNote;
use crate::missing::Missing;
use crate::select::{EncodingRequest, EncodingState, Role, SelectedTable};
use std::sync::Arc;

impl SelectedTable {
    /// Returns the selection without the features that have no value in any selected row, and a
    /// note about these features. A feature that was selected by name is kept.
    ///
    /// *Cost*: reads the first rows of all columns and, of the columns without a value in these
    /// rows, all rows.
    pub(super) fn without_blank_columns(&self) -> (Self, Option<ColumnNote>) {
        let (EncodingState::Numeric(Some(request)) | EncodingState::Pending(request)) = &self.encoding_state else {
            return (self.clone(), None);
        };
        // a text or time column without a value produces no feature, even if it is named, and every
        // row would be dropped
        let yields_no_feature = |index: usize| self.missing == Missing::Drop && request.roles[index] != Role::Number;
        let may_be_omitted = |index: &usize| !request.is_named[*index] || yields_no_feature(*index);
        let columns: Vec<usize> =
            (0..self.features.len()).filter(may_be_omitted).map(|index| self.features[index]).collect();
        // an error of this inspection is ignored: the next pass reports it
        let blank_columns = self.table.blank_columns_among(&self.row_range, columns).unwrap_or_default();
        let remaining_indices: Vec<usize> =
            (0..self.features.len()).filter(|index| !blank_columns.contains(&self.features[*index])).collect();
        if blank_columns.is_empty() || remaining_indices.is_empty() {
            return (self.clone(), None);
        }
        let role_and_named = |index: &usize| (request.roles[*index], request.is_named[*index]);
        let (roles, is_named) = remaining_indices.iter().map(role_and_named).unzip();
        let counted_texts = request.counted_texts.iter().filter_map(|(index, entries)| {
            Some((remaining_indices.iter().position(|other| other == index)?, entries.clone()))
        });
        let request = Arc::new(EncodingRequest {
            roles,
            is_named,
            counted_texts: counted_texts.collect(),
            ..(**request).clone()
        });
        let encoding_state = match self.encoding_state {
            EncodingState::Numeric(_) => EncodingState::Numeric(Some(request)),
            _ => EncodingState::Pending(request),
        };
        let blank_columns: Vec<usize> =
            self.features.iter().copied().filter(|column| blank_columns.contains(column)).collect();
        let note = ColumnNote::Blank { columns: self.names(&blank_columns) };
        let features = remaining_indices.into_iter().map(|index| self.features[index]).collect();
        (Self { features, encoding_state, blank_columns, ..self.clone() }, Some(note))
    }
}
