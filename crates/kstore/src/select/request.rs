//! Requests for the encoding of columns, and the progress of the encoding.

use super::Selection;
use crate::encoding::{Categories, Encoding, Entries, Lookups, NGrams, TimeFeatures, Weighting};
use crate::schema::Kind;
use crate::sparse::SparseShape;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A selection with its resolved categories and columns of counted texts.
pub(crate) struct ColumnRequest<'s> {
    pub(crate) selection: &'s Selection,
    pub(crate) counted_texts: Vec<(usize, NGrams)>,
    pub(crate) category_set: HashSet<usize>,
    pub(crate) category_columns: Vec<usize>,
}

impl ColumnRequest<'_> {
    pub(crate) fn encodes(&self, table: &Table, column: usize) -> bool {
        self.role(table, column) != Role::Number
    }

    /// Returns the entries of a column whose words are counted. Their words are not learned yet.
    pub(crate) fn counted_entries(&self, column: usize) -> Option<Entries> {
        let (_, grams) = self.counted_texts.iter().find(|(text_column, _)| *text_column == column)?;
        let default_weighting = if grams.is_value() { Weighting::None } else { Weighting::TfIdf };
        let weighting = self.selection.weighting.unwrap_or(default_weighting);
        Some(Entries::unlearned(SparseShape::default(), Some(grams.clone()), weighting))
    }

    pub(crate) fn role(&self, table: &Table, column: usize) -> Role {
        let Selection { categories, sparse, .. } = self.selection;
        let encodes_texts = matches!(categories, Categories::Few | Categories::All);
        // time columns become features, and text columns are inspected for times
        let encodes_times = self.selection.times != TimeFeatures::None;
        // without time features a text column of times is omitted, unless it is named as a category
        let detects_text_times = match categories {
            Categories::Few => true,
            categories => encodes_times && *categories != Categories::None,
        };
        match &table.schema().columns[column].kind {
            _ if self.category_set.contains(&column) => Role::Category,
            _ if self.counted_texts.iter().any(|(text_column, _)| *text_column == column) => Role::CountedText,
            Kind::Text if encodes_texts && detects_text_times => Role::TimeOrCategory,
            Kind::Text if encodes_texts => Role::Category,
            Kind::Text if detects_text_times => Role::Time,
            Kind::Time(_) if encodes_times => Role::Time,
            Kind::Sparse(_) if *sparse => Role::Sparse,
            _ => Role::Number,
        }
    }
}

/// What a feature column may turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Number,
    /// A number of which a few inspected rows suggest something else: a date, a time of day, or a
    /// row counter.
    Suspect,
    Category,
    Time,
    Sparse,
    CountedText,
    /// Text: times if every text is a time, otherwise categories.
    TimeOrCategory,
}

impl Role {
    pub(crate) fn has_values(self) -> bool {
        matches!(self, Self::Category | Self::TimeOrCategory)
    }

    pub(crate) fn has_times(self) -> bool {
        matches!(self, Self::Time | Self::TimeOrCategory)
    }
}

/// What is known about the encoding of the feature columns.
#[derive(Clone, Debug)]
pub(crate) enum EncodingState {
    /// All columns are numbers. The request is present if they may still be inspected.
    Numeric(Option<Arc<EncodingRequest>>),
    /// A search must find the values of some columns before rows can be read.
    Pending(Arc<EncodingRequest>),
    /// The encoding is known. For each column, a counter holds the number of values without a
    /// feature that were read.
    Encoded(Arc<Lookups>, Arc<[AtomicU64]>),
}

/// How the feature columns are to be encoded, before their values are known.
#[derive(Clone, Debug)]
pub(crate) struct EncodingRequest {
    /// The role of each feature column. The next field states whether the column was named.
    pub(crate) roles: Vec<Role>,
    pub(crate) is_named: Vec<bool>,
    pub(crate) times: TimeFeatures,
    pub(crate) hash_buckets: Option<u32>,
    pub(crate) max_categories: usize,
    pub(crate) categories: Categories,
    /// Columns of text whose words are counted as features, by their indices.
    pub(crate) counted_texts: Vec<(usize, Entries)>,
}

impl EncodingRequest {
    pub(crate) fn has_default_categories(&self) -> bool {
        self.categories == Categories::Few
    }
}

impl EncodingState {
    pub(crate) fn from_encoding(encoding: Encoding, table: &Table, features: &[usize]) -> Self {
        if encoding.is_numeric() {
            return Self::Numeric(None);
        }
        let unseen_counts = encoding.columns().iter().map(|_| AtomicU64::new(0)).collect();
        let kinds = features.iter().map(|column| &table.schema().columns[*column].kind);
        Self::Encoded(Arc::new(Lookups::new(encoding, kinds)), unseen_counts)
    }
}
