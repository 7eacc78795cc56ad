//! Encodes label columns as codes into a dictionary.

use crate::rows::{Coded, Label};
use crate::source::{Positions, Values, View};
use crate::statistics::TEXT_BYTES;
use std::{collections::HashMap, sync::Arc};

/// Encodes labels. A new label gets the next code or, if the dictionary is fixed,
/// [`Coded::UNKNOWN`].
#[derive(Debug)]
pub(crate) struct Coder {
    labels: Arc<Vec<Label>>,
    integers: HashMap<i64, u32>,
    texts: HashMap<Arc<str>, u32>,
    truths: [Option<u32>; 2],
    fixed: bool,
    limit: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A fraction, or a number too large for an integer.
    Fraction(f64),
    /// More labels than this limit, or more text than these labels may have.
    TooMany(usize),
}

/// The largest float that represents one integer only: above it, neighbouring integers share a
/// float.
const LARGEST_WHOLE: f64 = (1u64 << 53) as f64;

impl Coder {
    /// Returns a coder with a fixed dictionary or, without one, a coder that adds up to `limit`
    /// labels.
    pub(crate) fn new(dictionary: Option<&Arc<Vec<Label>>>, limit: usize) -> Self {
        let labels = dictionary.map_or_else(Arc::default, Arc::clone);
        let (integers, texts) = (HashMap::new(), HashMap::new());
        let mut coder =
            Self { labels, integers, texts, truths: [None; 2], fixed: dictionary.is_some(), limit, bytes: 0 };
        let known = Arc::clone(&coder.labels);
        (0..).zip(known.iter()).for_each(|(code, label)| coder.note(label.clone(), code));
        coder
    }

    fn note(&mut self, label: Label, code: u32) {
        match label {
            Label::Bool(v) => self.truths[usize::from(v)] = Some(code),
            Label::Int(v) => _ = self.integers.insert(v, code),
            Label::Text(v) => _ = self.texts.insert(v, code),
        }
    }

    pub(crate) fn labels(&self) -> Arc<Vec<Label>> {
        Arc::clone(&self.labels)
    }

    /// Appends the codes of `count` rows without nulls. On a fault, returns its row in the chunk.
    pub(crate) fn code(
        &mut self,
        view: &View<'_>,
        at: Positions<'_>,
        count: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), (usize, Fault)> {
        for i in 0..count {
            let row = at.get(i);
            out.push(self.one(view, row).map_err(|fault| (row, fault))?);
        }
        Ok(())
    }

    fn one(&mut self, view: &View<'_>, row: usize) -> Result<u32, Fault> {
        let (known, label): (_, &dyn Fn() -> Label) = if let Values::Bool(values) = view.values {
            let value = values.value(row);
            (self.truths[usize::from(value)], &move || Label::Bool(value))
        } else if let Some(text) = view.text(row) {
            (self.texts.get(text).copied(), &move || Label::Text(text.into()))
        } else {
            let value = integer(view, row)?;
            (self.integers.get(&value).copied(), &move || Label::Int(value))
        };
        match known {
            Some(code) => Ok(code),
            None if self.fixed => Ok(Coded::UNKNOWN),
            None => self.add(label()),
        }
    }

    fn add(&mut self, label: Label) -> Result<u32, Fault> {
        self.bytes += label.text_bytes();
        if self.labels.len() >= self.limit || self.bytes > TEXT_BYTES * self.limit {
            return Err(Fault::TooMany(self.limit));
        }
        let code = self.labels.len() as u32;
        // copies the dictionary while buffers still share the old one; new labels are rare
        Arc::make_mut(&mut self.labels).push(label.clone());
        self.note(label, code);
        Ok(code)
    }
}

/// Returns a number as an integer, or a fault if it is not an integer of 64 bits.
pub(crate) fn integer(view: &View<'_>, row: usize) -> Result<i64, Fault> {
    if let Some(whole) = view.integer(row) {
        return i64::try_from(whole).map_err(|_| Fault::Fraction(whole as f64));
    }
    let value = view.number(row);
    whole_number(value).ok_or(Fault::Fraction(value))
}

/// Converts a float to an integer; `None` for fractions and for floats that represent several
/// integers.
pub(crate) fn whole_number(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= LARGEST_WHOLE).then_some(value as i64)
}
