//! What is found of the values of a column.

use super::{numerals::Numerals, time::TimesFound};
use crate::{Label, shown};
use std::{collections::HashSet, sync::Arc};

/// Bytes of the texts of a column's values, for each value that it may have: longer texts are no names of categories.
pub(super) const TEXT_PER_VALUE: usize = 256;

/// Fewest values of a column of text that may be an identifier.
const FEWEST_NAMES: usize = 50;

/// How many values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// So many.
    Exactly(usize),
    /// More than a limit, or too long ones.
    More {
        /// The limit.
        than: usize,
        /// False where all that was seen before the limit was passed was different.
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

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) values: HashSet<Label>,
    pub(super) texts: HashSet<Arc<str>>,
    pub(super) bytes: usize,
    pub(super) more: bool,
    pub(super) repeat: bool,
    /// The texts of its values are too long for names.
    pub(super) long: bool,
    pub(super) times: TimesFound,
    pub(super) numerals: Numerals,
    pub(super) missing: u64,
    /// The first row without a value that a category must have and a time need not.
    pub(super) missing_at: Option<u64>,
}

impl Found {
    pub(super) fn text(&mut self, text: &str, limit: usize) {
        if self.more {
            return;
        }
        if self.texts.contains(text) {
            self.repeat = true;
            return;
        }
        self.bytes += text.len();
        self.texts.insert(text.into());
        self.settle(limit);
    }

    pub(super) fn value(&mut self, value: Label, limit: usize) {
        if !self.more {
            self.repeat |= !self.values.insert(value);
            self.settle(limit);
        }
    }

    /// Drops the values where there are too many.
    fn settle(&mut self, limit: usize) {
        let long = self.bytes > limit * TEXT_PER_VALUE;
        if self.values.len() + self.texts.len() > limit || long {
            self.long |= long;
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
        }
    }

    pub(super) fn merge(&mut self, later: &Self, limit: usize) {
        self.missing += later.missing;
        self.missing_at = self.missing_at.into_iter().chain(later.missing_at).min();
        self.times.merge(&later.times);
        self.numerals.merge(&later.numerals);
        self.repeat |= later.repeat;
        self.long |= later.long;
        if later.more {
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
            return;
        }
        later.texts.iter().for_each(|text| self.text(text, limit));
        later.values.iter().for_each(|value| self.value(value.clone(), limit));
    }

    pub(super) fn sorted(&self) -> Vec<Label> {
        let texts = self.texts.iter().map(|text| Label::Text(Arc::clone(text)));
        let mut values: Vec<Label> = self.values.iter().cloned().chain(texts).collect();
        values.sort_unstable();
        values
    }

    pub(super) fn distinct(&self, limit: usize) -> Distinct {
        match self.more {
            true => Distinct::More { than: limit, repeat: self.repeat },
            false => Distinct::Exactly(self.values.len() + self.texts.len()),
        }
    }

    /// True for text in which nearly every one of so many rows has a value of its own, as an identifier or a comment has: no row tells
    /// anything of another.
    pub(super) fn is_identifier(&self, rows: u64) -> bool {
        let (values, rows) = (self.texts.len(), rows.saturating_sub(self.missing));
        !self.more && values >= FEWEST_NAMES && 10 * values as u64 > 9 * rows
    }
}
