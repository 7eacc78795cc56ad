//! The values that a search finds in a column: the distinct values, the missing values, and what
//! the texts resemble.

use super::integer_forms::IntegerForms;
use crate::encoding::time::TimeSpans;
use crate::{Digest, Label, display, missing, source};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Maximum mean bytes of a column's texts, over the rows that have a text. Longer texts are not
/// names of categories.
pub(super) const MAX_MEAN_TEXT_BYTES: usize = 256;

/// Minimum number of distinct values of a text column that may be an identifier. Chosen: in a short
/// table, the values of a category may also all differ.
const MIN_IDENTIFIER_VALUES: usize = 50;

/// The number of distinct values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctCount {
    /// Exactly this many.
    Exactly(usize),
    /// More distinct values than a limit, or values that are too long to be categories.
    More {
        /// The limit.
        limit: usize,
        /// False if nearly every row has its own value.
        has_repeats: bool,
    },
}

impl std::fmt::Display for DistinctCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(values) => f.write_str(&display::format_count(*values as u64)),
            Self::More { limit, .. } => write!(f, "more than {}", display::format_count(*limit as u64)),
        }
    }
}

/// An estimate of the number of distinct texts from the k smallest of their digests. If d distinct
/// digests are spread over a range, the k-th smallest is near the fraction k / d of the range
/// (Bar-Yossef, Jayram, Kumar, Sivakumar, Trevisan, "Counting distinct elements in a data stream",
/// RANDOM 2002). Merging the estimates of two sets of rows gives the estimate of their union, so
/// the order of the rows does not matter.
#[derive(Clone, Debug, Default)]
pub(super) struct SmallestDigests {
    digests: BTreeSet<u64>,
}

impl SmallestDigests {
    /// Maximum number of digests, k. With this number the estimate has a standard error of 3 %.
    const MAX_DIGESTS: usize = 1024;

    /// Maximum bytes, including the nodes of the tree.
    pub(super) const BYTES: usize = Self::MAX_DIGESTS * 16;

    fn insert(&mut self, digest: u64) {
        if self.digests.len() < Self::MAX_DIGESTS {
            self.digests.insert(digest);
        } else if self.digests.last().is_some_and(|last| digest < *last) && self.digests.insert(digest) {
            self.digests.pop_last();
        }
    }

    fn estimate(&self) -> f64 {
        match self.digests.last() {
            Some(last) if self.digests.len() == Self::MAX_DIGESTS => {
                // (k − 1) / u, where u is the k-th smallest digest as a fraction of the range
                (Self::MAX_DIGESTS - 1) as f64 / (*last as f64 / u64::MAX as f64)
            }
            _ => self.digests.len() as f64,
        }
    }
}

/// What the texts of a column resemble, if they do not look like categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resemblance {
    /// Numbers that are written with a currency, a unit or another mark. The text is an example
    /// from the column.
    MarkedNumbers(String),
    /// A word among the values of the column that may mean a missing value.
    MissingWord(&'static str),
}

impl Resemblance {
    fn observation(&self) -> String {
        match self {
            Self::MarkedNumbers(number) => {
                format!("is read as text but looks like numbers with a unit or another mark, such as {number:?}")
            }
            Self::MissingWord(word) => format!("has the value {word:?}, which is a category"),
        }
    }

    /// Describes the column of a table that no option reads differently, such as a table in memory.
    pub(super) fn describe_without_options(&self) -> String {
        let remedy = match self {
            Self::MarkedNumbers(_) => "convert them to numbers first",
            Self::MissingWord(_) => "if it means a missing value, replace it by one, such as None",
        };
        format!("{}; {remedy}", self.observation())
    }
}

impl std::fmt::Display for Resemblance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let observation = self.observation();
        match self {
            Self::MarkedNumbers(_) => {
                write!(f, "{observation}; `types` reads them as numbers in .csv if all have the same mark")
            }
            Self::MissingWord(word) => {
                write!(f, "{observation}; `missing_words` {word} reads it as missing in .csv and .jsonl")
            }
        }
    }
}

/// What a search has found in a column so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnValues {
    pub(super) labels: HashSet<Label>,
    pub(super) texts: HashSet<Arc<str>>,
    pub(super) distinct_text_bytes: usize,
    pub(super) has_too_many_values: bool,
    digests: SmallestDigests,
    /// Whether any text is neither a number nor a word for a missing value.
    has_plain_text: bool,
    /// The alphabetically first text that is a number with a unit or another mark. The next field
    /// is the alphabetically first word for a missing value. The first ones do not depend on the
    /// order of the rows.
    marked_number: Option<Arc<str>>,
    missing_word: Option<&'static str>,
    total_text_bytes: u64,
    pub(super) times: TimeSpans,
    pub(super) integer_forms: IntegerForms,
    pub(super) missing_count: u64,
    /// The first row with a missing value, which is an error for a category but not for a time.
    pub(super) first_missing_row: Option<u64>,
}

impl ColumnValues {
    pub(super) fn add_text(&mut self, text: &str, max_values: usize) {
        self.digests.insert(Digest::u64_of(text.as_bytes()));
        self.total_text_bytes += text.len() as u64;
        self.update_resemblance(text);
        self.insert_text(text, max_values);
    }

    fn update_resemblance(&mut self, text: &str) {
        if let Some(word) = missing::MISSING_WORDS.into_iter().find(|word| *word == text) {
            self.missing_word = self.missing_word.into_iter().chain([word]).min();
        } else if !self.has_plain_text {
            match source::is_marked_number(text) {
                true if self.marked_number.as_deref().is_none_or(|marked| text < marked) => {
                    self.marked_number = Some(text.into())
                }
                marked => self.has_plain_text = !marked && text.trim().parse::<f64>().is_err(),
            }
        }
    }

    /// Returns what the texts resemble, if they do not look like categories.
    pub(super) fn resemblance(&self) -> Option<Resemblance> {
        let marked = self
            .marked_number
            .as_ref()
            .filter(|_| !self.has_plain_text)
            .map(|text| Resemblance::MarkedNumbers(text.to_string()));
        marked.or(self.missing_word.map(Resemblance::MissingWord))
    }

    fn insert_text(&mut self, text: &str, max_values: usize) {
        if !self.has_too_many_values && !self.texts.contains(text) {
            self.distinct_text_bytes += text.len();
            self.texts.insert(text.into());
            self.clear_if_over_limit(max_values);
        }
    }

    pub(super) fn insert_value(&mut self, value: Label, max_values: usize) {
        if !self.has_too_many_values {
            self.labels.insert(value);
            self.clear_if_over_limit(max_values);
        }
    }

    fn clear_if_over_limit(&mut self, max_values: usize) {
        if self.labels.len() + self.texts.len() > max_values
            || self.distinct_text_bytes > max_values * MAX_MEAN_TEXT_BYTES
        {
            (self.has_too_many_values, self.labels, self.texts) = (true, HashSet::new(), HashSet::new());
        }
    }

    pub(super) fn merge(&mut self, later: &Self, max_values: usize) {
        self.missing_count += later.missing_count;
        self.first_missing_row = self.first_missing_row.into_iter().chain(later.first_missing_row).min();
        self.times.merge(&later.times);
        self.integer_forms.merge(&later.integer_forms);
        self.total_text_bytes += later.total_text_bytes;
        self.has_plain_text |= later.has_plain_text;
        self.missing_word = self.missing_word.into_iter().chain(later.missing_word).min();
        self.marked_number = self.marked_number.take().into_iter().chain(later.marked_number.clone()).min();
        later.digests.digests.iter().for_each(|digest| self.digests.insert(*digest));
        if later.has_too_many_values {
            (self.has_too_many_values, self.labels, self.texts) = (true, HashSet::new(), HashSet::new());
            return;
        }
        later.texts.iter().for_each(|text| self.insert_text(text, max_values));
        later.labels.iter().for_each(|value| self.insert_value(value.clone(), max_values));
    }

    pub(super) fn sorted_values(&self) -> Vec<Label> {
        let texts = self.texts.iter().map(|text| Label::Text(Arc::clone(text)));
        let mut values: Vec<Label> = self.labels.iter().cloned().chain(texts).collect();
        values.sort_unstable();
        values
    }

    pub(super) fn distinct_count(&self, max_values: usize, row_count: u64) -> DistinctCount {
        match self.has_too_many_values {
            true => DistinctCount::More { limit: max_values, has_repeats: !self.is_identifier(row_count) },
            false => DistinctCount::Exactly(self.labels.len() + self.texts.len()),
        }
    }

    /// Returns whether nearly every row has its own text (more than 90 % of the rows with a value),
    /// as in an identifier or a comment. Such a text says nothing about other rows.
    pub(super) fn is_identifier(&self, row_count: u64) -> bool {
        let distinct_count = if self.has_too_many_values { self.digests.estimate() } else { self.texts.len() as f64 };
        distinct_count >= MIN_IDENTIFIER_VALUES as f64
            && 10.0 * distinct_count > 9.0 * self.present_row_count(row_count) as f64
    }

    pub(super) fn has_long_texts(&self, row_count: u64) -> bool {
        self.total_text_bytes > MAX_MEAN_TEXT_BYTES as u64 * self.present_row_count(row_count)
    }

    fn present_row_count(&self, row_count: u64) -> u64 {
        row_count.saturating_sub(self.missing_count)
    }
}
