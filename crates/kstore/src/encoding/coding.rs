//! Which columns are wanted as categories, and what is known of their values.

use super::{Encoding, Entries, Grams, Lookups, Times, Weighing};
use crate::schema::Kind;
use crate::select::Selection;
use crate::sparse::SparseShape;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Which columns are taken as categories; as text a list of names and patterns, or `all` or `none` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum Categories {
    /// The columns of text with up to 1,000 values; those with more become effects on the target.
    #[default]
    Few,
    /// All columns of text, with up to [`LABEL_LIMIT`](crate::statistics::LABEL_LIMIT) values each.
    All,
    /// None: features are numbers and times; columns of text are not read, not even for times.
    None,
    /// The columns of these names and patterns, of whole numbers and truth values too, with up to [`LABEL_LIMIT`](crate::statistics::LABEL_LIMIT) values each; no other column of text.
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

/// A selection, with the columns that it names as categories or counts texts of.
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

    /// The entries of a column whose words are counted; nothing is learned of them yet.
    pub(super) fn entries(&self, column: usize) -> Option<Entries> {
        let (_, grams) = self.counted.iter().find(|(text, _)| *text == column)?;
        let usual = if grams.is_value() { Weighing::None } else { Weighing::TfIdf };
        let weighing = self.selection.weighing.unwrap_or(usual);
        Some(Entries::unlearned(SparseShape::default(), Some(grams.clone()), weighing))
    }

    pub(super) fn role(&self, table: &Table, column: usize) -> Role {
        let Selection { categories, sparse, .. } = self.selection;
        let text = matches!(categories, Categories::Few | Categories::All);
        // columns of times become features, and those of text are looked at for times
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

/// What a column of the features may turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Number,
    /// A number that looks as if it were something else by a few rows: a date, a time of day, or the number of the row.
    Odd,
    Category,
    Time,
    Sparse,
    Counted,
    /// Text: times where all of it reads as such, else categories.
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
    /// All columns are numbers; what was asked of them, where they may be looked at.
    Plain(Option<Arc<Asked>>),
    Asked(Arc<Asked>),
    /// The values are known; the counts are of those that were read and no feature stands for, by columns.
    Known(Arc<Lookups>, Arc<[AtomicU64]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// For each column of the features, what it may be, and true where it was named.
    pub(crate) roles: Vec<Role>,
    pub(crate) named: Vec<bool>,
    pub(crate) times: Times,
    pub(crate) hash: Option<u32>,
    pub(crate) limit: usize,
    pub(super) wanted: Categories,
    /// Columns of text whose words are features beside the others, by their places.
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
