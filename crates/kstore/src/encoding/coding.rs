//! Requests for the encoding of columns, and the state of their encoding.

use super::{Encoding, Entries, Grams, Lookups, Times, Weighing};
use crate::schema::Kind;
use crate::select::Selection;
use crate::sparse::SparseShape;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Columns that are categories; as text a list of names and patterns, or `all` or `none` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum Categories {
    /// Text columns with up to 1,000 values; columns with more become effects on the target.
    #[default]
    Few,
    /// All columns of text, with up to [`LABEL_LIMIT`](crate::statistics::LABEL_LIMIT) values each.
    All,
    /// No categories: features are numbers and times, and text columns are not read, not even for
    /// times.
    None,
    /// Columns with these names and patterns, including integers and booleans, with up to
    /// [`LABEL_LIMIT`](crate::statistics::LABEL_LIMIT) values each; no other text column.
    Named(Vec<String>),
}

impl From<Vec<String>> for Categories {
    fn from(names: Vec<String>) -> Self {
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Self::default(),
            ["all"] => Self::All,
            ["none"] => Self::None,
            _ => Self::Named(names),
        }
    }
}

impl From<Categories> for Vec<String> {
    fn from(categories: Categories) -> Self {
        match categories {
            Categories::Few => Self::new(),
            Categories::All => vec!["all".to_string()],
            Categories::None => vec!["none".to_string()],
            Categories::Named(names) => names,
        }
    }
}

/// A selection with its resolved categories and columns of counted texts.
pub(crate) struct Wanted<'s> {
    pub(crate) selection: &'s Selection,
    pub(super) counted: Vec<(usize, Grams)>,
    pub(super) named: HashSet<usize>,
    pub(crate) columns: Vec<usize>,
}

impl Wanted<'_> {
    pub(crate) fn takes(&self, table: &Table, column: usize) -> bool {
        self.role(table, column) != Role::Number
    }

    /// Returns the unlearned entries of a column whose words are counted.
    pub(super) fn entries(&self, column: usize) -> Option<Entries> {
        let (_, grams) = self.counted.iter().find(|(text, _)| *text == column)?;
        let usual = if grams.is_value() { Weighing::None } else { Weighing::TfIdf };
        let weighing = self.selection.weighing.unwrap_or(usual);
        Some(Entries::unlearned(SparseShape::default(), Some(grams.clone()), weighing))
    }

    pub(super) fn role(&self, table: &Table, column: usize) -> Role {
        let Selection { categories, sparse, .. } = self.selection;
        let text = matches!(categories, Categories::Few | Categories::All);
        // time columns become features, and text columns are searched for times
        let times = self.selection.times != Times::None;
        let text_times = times && *categories != Categories::None;
        match &table.schema().columns[column].kind {
            _ if self.named.contains(&column) => Role::Category,
            _ if self.counted.iter().any(|(text, _)| *text == column) => Role::Counted,
            Kind::Text if text && text_times => Role::Either,
            Kind::Text if text => Role::Category,
            Kind::Text if text_times => Role::Time,
            Kind::Time(_) if times => Role::Time,
            Kind::Sparse(_) if *sparse => Role::Sparse,
            _ => Role::Number,
        }
    }
}

/// What a feature column may turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Number,
    /// A number whose first rows suggest something else: a date, a time of day, or a row counter.
    Odd,
    Category,
    Time,
    Sparse,
    Counted,
    /// Text: times if every text is one, otherwise categories.
    Either,
}

impl Role {
    pub(crate) fn has_values(self) -> bool {
        matches!(self, Self::Category | Self::Either)
    }

    pub(crate) fn has_times(self) -> bool {
        matches!(self, Self::Time | Self::Either)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Coding {
    /// All columns are numbers. The request is present if they may still be inspected.
    Plain(Option<Arc<Asked>>),
    Asked(Arc<Asked>),
    /// The encoding is known. The counters hold, for each column, the number of values without a
    /// feature that were read.
    Known(Arc<Lookups>, Arc<[AtomicU64]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// For each feature column, its role, and whether it was named.
    pub(crate) roles: Vec<Role>,
    pub(crate) named: Vec<bool>,
    pub(crate) times: Times,
    pub(crate) hash: Option<u32>,
    pub(crate) limit: usize,
    pub(super) wanted: Categories,
    /// Columns of text whose words are counted as features, by their indices.
    pub(super) counted: Vec<(usize, Entries)>,
}

impl Asked {
    pub(crate) fn is_usual(&self) -> bool {
        self.wanted == Categories::Few
    }
}

impl Coding {
    pub(crate) fn known(encoding: Encoding, table: &Table, features: &[usize]) -> Self {
        if encoding.is_plain() {
            return Self::Plain(None);
        }
        let counts = encoding.columns().iter().map(|_| AtomicU64::new(0)).collect();
        let kinds = features.iter().map(|column| &table.schema().columns[*column].kind);
        Self::Known(Arc::new(Lookups::new(encoding, kinds)), counts)
    }
}
