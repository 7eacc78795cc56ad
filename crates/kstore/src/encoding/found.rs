//! The values that a search finds in a column: distinct values, missing values, and what the texts
//! look like.

use super::{numerals::Numerals, time::TimesFound};
use crate::{Digest, Label, missing, shown, source};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Maximum average bytes of the texts of a column's values: longer texts are not names of
/// categories.
pub(super) const TEXT_PER_VALUE: usize = 256;

/// Minimum number of values of a text column that may be an identifier.
const FEWEST_NAMES: usize = 50;

/// The number of distinct values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// Exactly this many.
    Exactly(usize),
    /// More than a limit, or values that are too long.
    More {
        /// The limit.
        than: usize,
        /// False if nearly every row has a value of its own.
        repeat: bool,
    },
}

impl std::fmt::Display for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(values) => f.write_str(&shown::count(*values as u64)),
            Self::More { than, .. } => write!(f, "more than {}", shown::count(*than as u64)),
        }
    }
}

/// An estimate of the number of distinct texts from their smallest digests: the k-th smallest of d
/// distinct digests is near the fraction k / d of the range (Bar-Yossef, Jayram, Kumar, Sivakumar,
/// Trevisan, "Counting distinct elements in a data stream", RANDOM 2002). Merging two estimates
/// gives the estimate of all their rows, so that the order of rows does not matter.
#[derive(Clone, Debug, Default)]
pub(super) struct LeastDigests(BTreeSet<u64>);

impl LeastDigests {
    /// Maximum number of digests: the estimate has a standard error of 3 %.
    const MOST: usize = 1024;

    /// Maximum bytes, including the nodes of the tree.
    pub(super) const BYTES: usize = Self::MOST * 16;

    fn see(&mut self, digest: u64) {
        if self.0.len() < Self::MOST {
            self.0.insert(digest);
        } else if self.0.last().is_some_and(|last| digest < *last) && self.0.insert(digest) {
            self.0.pop_last();
        }
    }

    fn estimate(&self) -> f64 {
        match self.0.last() {
            Some(last) if self.0.len() == Self::MOST => (Self::MOST - 1) as f64 / (*last as f64 / u64::MAX as f64),
            _ => self.0.len() as f64,
        }
    }
}

/// What a text column looks like other than categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Numbers that are written with a currency, a unit or another mark, such as this one.
    Numbers(String),
    /// A word among its values that may mean a missing value.
    Word(&'static str),
}

impl std::fmt::Display for Looks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers(number) => write!(
                f,
                "is read as text but looks like numbers with a unit or another mark, such as {number:?}; `types` reads them as numbers in .csv if all have the same mark"
            ),
            Self::Word(word) => write!(
                f,
                "has the value {word:?}, which is a category; `missing_words` {word} reads it as missing in .csv and .jsonl"
            ),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) values: HashSet<Label>,
    pub(super) texts: HashSet<Arc<str>>,
    pub(super) bytes: usize,
    pub(super) more: bool,
    digests: LeastDigests,
    /// Whether any text is neither a number nor a word for a missing value.
    other: bool,
    /// The smallest text that is a number with a unit or another mark, and the smallest word for a
    /// missing value.
    marked: Option<Arc<str>>,
    word: Option<&'static str>,
    all_bytes: u64,
    pub(super) times: TimesFound,
    pub(super) numerals: Numerals,
    pub(super) missing: u64,
    /// The first row with a missing value, which is an error for a category but not for a time.
    pub(super) missing_at: Option<u64>,
}

impl Found {
    pub(super) fn text(&mut self, text: &str, limit: usize) {
        self.digests.see(Digest::word_of(text.as_bytes()));
        self.all_bytes += text.len() as u64;
        self.look(text);
        self.add(text, limit);
    }

    fn look(&mut self, text: &str) {
        if let Some(word) = missing::WORDS.into_iter().find(|word| *word == text) {
            self.word = self.word.into_iter().chain([word]).min();
        } else if !self.other {
            match source::is_marked_number(text) {
                true if self.marked.as_deref().is_none_or(|marked| text < marked) => self.marked = Some(text.into()),
                marked => self.other = !marked && text.trim().parse::<f64>().is_err(),
            }
        }
    }

    /// Returns what the texts look like other than categories, or `None`.
    pub(super) fn looks(&self) -> Option<Looks> {
        let marked = self.marked.as_ref().filter(|_| !self.other).map(|text| Looks::Numbers(text.to_string()));
        marked.or(self.word.map(Looks::Word))
    }

    fn add(&mut self, text: &str, limit: usize) {
        if !self.more && !self.texts.contains(text) {
            self.bytes += text.len();
            self.texts.insert(text.into());
            self.clear_beyond(limit);
        }
    }

    pub(super) fn value(&mut self, value: Label, limit: usize) {
        if !self.more {
            self.values.insert(value);
            self.clear_beyond(limit);
        }
    }

    fn clear_beyond(&mut self, limit: usize) {
        if self.values.len() + self.texts.len() > limit || self.bytes > limit * TEXT_PER_VALUE {
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
        }
    }

    pub(super) fn merge(&mut self, later: &Self, limit: usize) {
        self.missing += later.missing;
        self.missing_at = self.missing_at.into_iter().chain(later.missing_at).min();
        self.times.merge(&later.times);
        self.numerals.merge(&later.numerals);
        self.all_bytes += later.all_bytes;
        self.other |= later.other;
        self.word = self.word.into_iter().chain(later.word).min();
        self.marked = self.marked.take().into_iter().chain(later.marked.clone()).min();
        later.digests.0.iter().for_each(|digest| self.digests.see(*digest));
        if later.more {
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
            return;
        }
        later.texts.iter().for_each(|text| self.add(text, limit));
        later.values.iter().for_each(|value| self.value(value.clone(), limit));
    }

    pub(super) fn sorted(&self) -> Vec<Label> {
        let texts = self.texts.iter().map(|text| Label::Text(Arc::clone(text)));
        let mut values: Vec<Label> = self.values.iter().cloned().chain(texts).collect();
        values.sort_unstable();
        values
    }

    pub(super) fn distinct(&self, limit: usize, rows: u64) -> Distinct {
        match self.more {
            true => Distinct::More { than: limit, repeat: !self.is_identifier(rows) },
            false => Distinct::Exactly(self.values.len() + self.texts.len()),
        }
    }

    /// Returns whether nearly every row has a text of its own, as in an identifier or a comment: no
    /// row says anything about another.
    pub(super) fn is_identifier(&self, rows: u64) -> bool {
        let values = if self.more { self.digests.estimate() } else { self.texts.len() as f64 };
        values >= FEWEST_NAMES as f64 && 10.0 * values > 9.0 * self.rows(rows) as f64
    }

    pub(super) fn is_long(&self, rows: u64) -> bool {
        self.all_bytes > TEXT_PER_VALUE as u64 * self.rows(rows)
    }

    fn rows(&self, rows: u64) -> u64 {
        rows.saturating_sub(self.missing)
    }
}
