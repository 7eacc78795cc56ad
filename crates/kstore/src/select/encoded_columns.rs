//! The columns of a resolved selection as features, before and after their values are known.

use super::{EncodingRequest, EncodingState, SelectedTable, Selection};
use crate::encoding::{Categories, ColumnEncoding, Encoding, Entries, Lookups, Weighting};
use crate::missing::Missing;
use crate::sparse::SparseShape;
use crate::{Error, Result, Scaler};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl SelectedTable {
    /// Returns the request for the encoding if a pass must still find the values of some columns.
    /// Returns `None` if the rows can be read.
    pub(crate) fn pending_request(&self) -> Option<&EncodingRequest> {
        match &self.encoding_state {
            EncodingState::Pending(request) => Some(request),
            _ => None,
        }
    }

    /// Returns whether the values of the columns still have to be inspected.
    #[doc(hidden)]
    pub fn is_uninspected(&self) -> bool {
        matches!(self.encoding_state, EncodingState::Numeric(Some(_)) | EncodingState::Pending(_))
    }

    /// Returns how columns become features. Returns `None` if all features are numeric columns, or
    /// if the values of some columns are not known yet.
    #[doc(hidden)]
    pub fn encoding(&self) -> Option<&Encoding> {
        self.lookups().map(|lookups| &lookups.encoding)
    }

    pub(crate) fn lookups(&self) -> Option<&Arc<Lookups>> {
        match &self.encoding_state {
            EncodingState::Encoded(lookups, _) => Some(lookups),
            _ => None,
        }
    }

    /// Returns the shape of the selected rows if they are sparse.
    #[doc(hidden)]
    pub fn sparse_shape(&self) -> Option<SparseShape> {
        self.encoding()?.sparse_shape()
    }

    /// Returns the features that hold sparse rows, and the shape of these rows: all features, or
    /// the features of one column next to features of other columns.
    #[doc(hidden)]
    pub fn sparse_features(&self) -> Option<(Range<usize>, SparseShape)> {
        self.encoding()?.sparse_features()
    }

    /// Returns the selection with room for sparse rows of this shape. Other rows are unchanged.
    ///
    /// # Errors
    /// The errors of a selection with a known encoding.
    #[doc(hidden)]
    pub fn with_sparse_capacity(&self, shape: SparseShape) -> Result<Self> {
        match (self.encoding(), self.sparse_shape()) {
            (Some(encoding), Some(own_shape)) if own_shape != own_shape.union(shape) => {
                self.with_encoding(self.features.clone(), encoding.clone().with_capacity_for(&[shape]))
            }
            _ => Ok(self.clone()),
        }
    }

    /// Returns the selection with each entry of sparse rows multiplied by the factor of its column,
    /// as [`Encoding::with_entry_factors`] does. Other rows are unchanged.
    ///
    /// # Errors
    /// The errors of a selection with a known encoding.
    #[doc(hidden)]
    pub fn with_entry_factors(&self, factors: &[f64], unseen_factor: f64) -> Result<Self> {
        match self.encoding().filter(|encoding| encoding.sparse_shape().is_some()) {
            Some(encoding) => {
                self.with_encoding(self.features.clone(), encoding.clone().with_entry_factors(factors, unseen_factor))
            }
            None => Ok(self.clone()),
        }
    }

    /// Returns the weighting of the entries of the selected rows if they are sparse.
    #[doc(hidden)]
    pub fn weighting(&self) -> Weighting {
        match self.encoding().and_then(|encoding| encoding.columns().first()).map(|column| &column.encoding) {
            Some(ColumnEncoding::Entries(entries)) => entries.weighting(),
            _ => Weighting::None,
        }
    }

    /// Returns how missing values are treated.
    #[doc(hidden)]
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Returns whether a condition, or a choice of test rows, selects rows.
    #[doc(hidden)]
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some() || self.part.is_some()
    }

    /// Returns the names of the columns from which the features are computed, in the order of the
    /// features.
    #[doc(hidden)]
    pub fn feature_columns(&self) -> Vec<String> {
        self.names(&self.features)
    }

    /// Returns the names of the features that are computed from the columns that match names and
    /// patterns, in the order of the columns.
    ///
    /// # Errors
    /// Names of columns that do not exist; patterns that match no feature column.
    #[doc(hidden)]
    pub fn features_of(&self, columns: &[String]) -> Result<Vec<String>> {
        let (names, index_by_name) = (self.feature_names(), self.table.schema().index_by_name());
        let column_of_feature = self.encoding().map_or_else(|| (0..names.len()).collect(), Encoding::column_of_feature);
        let mut matching = Vec::new();
        for column in self.table.matching_columns(columns)? {
            let index = self
                .features
                .iter()
                .position(|feature_column| index_by_name.get(column.as_str()) == Some(feature_column));
            let name_if_matching =
                |(name, column_index): (&String, &usize)| (Some(*column_index) == index).then(|| name.clone());
            matching.extend(names.iter().zip(&column_of_feature).filter_map(name_if_matching));
        }
        if matching.is_empty() { Err(self.table.no_such_column_error(&columns.join(","))) } else { Ok(matching) }
    }

    /// Returns a selection of the same features for other rows. It has the same columns and, if
    /// their values are known, the same values.
    #[doc(hidden)]
    pub fn same_features(&self) -> Selection {
        let features = self.feature_columns();
        let encoded_selection = |encoding| Selection {
            features: features.clone(),
            categories: Categories::None,
            encoding: Some(Arc::new(encoding)),
            ..Selection::default()
        };
        match &self.encoding_state {
            EncodingState::Numeric(_) => encoded_selection(Encoding::numeric(&features)),
            EncodingState::Encoded(lookups, _) => encoded_selection(lookups.encoding.clone().for_new_rows()),
            EncodingState::Pending(request) => {
                let text =
                    |(index, entries): &(usize, Entries)| Some(format!("{}:{}", features[*index], entries.grams()?));
                let (text, first_counted_text) =
                    (request.counted_texts.iter().filter_map(text).collect(), request.counted_texts.first());
                let weighting = first_counted_text.map(|(_, entries)| entries.weighting());
                let (categories, hash, times) = (request.categories.clone(), request.hash_buckets, request.times);
                Selection { features, categories, hash, times, text, weighting, ..Selection::default() }
            }
        }
    }

    /// Returns the columns that had values without a feature, each with the number of rows with a
    /// value of this kind, over all passes since the selection was made.
    #[doc(hidden)]
    pub fn unseen_value_counts(&self) -> Vec<(String, u64)> {
        let EncodingState::Encoded(lookups, unseen_counts) = &self.encoding_state else { return Vec::new() };
        let counts = unseen_counts.iter().map(|count| count.load(Ordering::Relaxed));
        let columns = lookups.encoding.columns().iter().map(|column| column.name.clone()).zip(counts);
        columns.filter(|(_, count)| *count > 0).collect()
    }

    /// Sets the scaling of 0/1 features and of effects so that these features stay unchanged.
    #[doc(hidden)]
    pub fn exempt_unscaled_features(&self, scaler: &mut Scaler) {
        let unscaled_mask = self.encoding().map_or(Vec::new(), Encoding::unscaled_mask);
        unscaled_mask
            .iter()
            .enumerate()
            .filter(|(_, is_unscaled)| **is_unscaled)
            .for_each(|(i, _)| scaler.set_identity(i));
    }

    /// Returns the selection with these feature columns and their encoding.
    pub(crate) fn with_encoding(&self, features: Vec<usize>, encoding: Encoding) -> Result<Self> {
        if let Some(fault) = encoding.fault() {
            return Err(Error::Malformed { path: self.table.first_path(), format: "one table", detail: fault });
        }
        let encoding_state = EncodingState::from_encoding(encoding, &self.table, &features);
        Ok(Self { features, encoding_state, ..self.clone() })
    }

    /// Returns the selection of these features and kept columns, for a search for values. With
    /// [`Missing::Drop`], rows with a missing value in any of these columns are skipped. Otherwise
    /// targets and labels are not read, and missing numbers are treated as `missing` says.
    pub(crate) fn for_search(&self, features: Vec<usize>, keep: Vec<usize>, missing: Missing) -> Self {
        if self.missing == Missing::Drop {
            return Self { features, kept_required: vec![true; keep.len()], keep, ..self.without_encoding() };
        }
        // a row that is dropped for a missing target must not count either
        let rows = if self.drops_missing_targets() {
            Self { group: None, ..self.without_encoding() }
        } else {
            self.features_only()
        };
        Self { features, kept_required: vec![false; keep.len()], keep, missing, ..rows }
    }

    pub(crate) fn without_encoding(&self) -> Self {
        Self { encoding_state: EncodingState::Numeric(None), ..self.clone() }
    }

    /// Returns the selection without targets, labels and kept columns, before any values are known.
    /// Weights stay, because rows with weight 0 do not count.
    pub(crate) fn features_only(&self) -> Self {
        let (keep, kept_required) = Default::default();
        let targets = Vec::new();
        Self { targets, keep, kept_required, class: None, group: None, ..self.without_encoding() }
    }

    pub(crate) fn column_name(&self, index: usize) -> String {
        self.table.schema().columns[self.features[index]].name.clone()
    }

    #[cold]
    pub(crate) fn bad_category_error(&self, index: usize, row: u64, value: &str, remedy: &'static str) -> Error {
        let parts = self.table.parts();
        let part = parts.iter().find(|part| row < part.end()).or(parts.last());
        let (path, row) = part.map_or_else(Default::default, |part| (part.path.clone(), row - part.first_row));
        let line = part.and_then(|part| part.file.line_of_row(row));
        Error::BadValue { path, row, line, column: self.column_name(index), value: value.to_string(), remedy }
    }
}
