//! Encodes label columns as codes into a dictionary.

use crate::rows::{Label, LabelCodes};
use crate::statistics::LABEL_TEXT_BYTES;
use crate::view::{ColumnView, RowIndices, Values};
use std::{collections::HashMap, sync::Arc};

/// Encodes labels as codes. A new label gets the next code; if the dictionary is fixed, it gets
/// [`LabelCodes::UNKNOWN`].
#[derive(Debug)]
pub(crate) struct LabelEncoder {
    labels: Arc<Vec<Label>>,
    integers: HashMap<i64, u32>,
    texts: HashMap<Arc<str>, u32>,
    booleans: [Option<u32>; 2],
    fixed: bool,
    limit: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LabelFault {
    /// A fraction, or a number too large for an integer.
    Fraction(f64),
    /// More labels than this limit, or longer texts than this number of labels may have.
    TooMany(usize),
}

/// The largest float up to which each integer has its own float. Above it, neighbouring integers
/// share a float.
const MAX_EXACT_INTEGER: f64 = (1u64 << 53) as f64;

impl LabelEncoder {
    /// Returns an encoder with a fixed dictionary. Without a dictionary, returns an encoder that
    /// adds new labels, up to `limit` labels.
    pub(crate) fn new(dictionary: Option<&Arc<Vec<Label>>>, limit: usize) -> Self {
        let labels = dictionary.map_or_else(Arc::default, Arc::clone);
        let (integers, texts) = (HashMap::new(), HashMap::new());
        let mut encoder =
            Self { labels, integers, texts, booleans: [None; 2], fixed: dictionary.is_some(), limit, bytes: 0 };
        let known_labels = Arc::clone(&encoder.labels);
        (0..).zip(known_labels.iter()).for_each(|(code, label)| encoder.register(label.clone(), code));
        encoder
    }

    fn register(&mut self, label: Label, code: u32) {
        match label {
            Label::Bool(v) => self.booleans[usize::from(v)] = Some(code),
            Label::Int(v) => _ = self.integers.insert(v, code),
            Label::Text(v) => _ = self.texts.insert(v, code),
        }
    }

    pub(crate) fn labels(&self) -> Arc<Vec<Label>> {
        Arc::clone(&self.labels)
    }

    /// Appends the codes of `count` rows without nulls. If a label is invalid, returns its row in
    /// the chunk.
    pub(crate) fn encode(
        &mut self,
        view: &ColumnView<'_>,
        row_indices: RowIndices<'_>,
        count: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), (usize, LabelFault)> {
        for i in 0..count {
            let row = row_indices.get(i);
            out.push(self.encode_row(view, row).map_err(|fault| (row, fault))?);
        }
        Ok(())
    }

    fn encode_row(&mut self, view: &ColumnView<'_>, row: usize) -> Result<u32, LabelFault> {
        let (existing, label): (_, &dyn Fn() -> Label) = if let Values::Bool(values) = view.values {
            let value = values.value(row);
            (self.booleans[usize::from(value)], &move || Label::Bool(value))
        } else if let Some(text) = view.text(row) {
            (self.texts.get(text).copied(), &move || Label::Text(text.into()))
        } else {
            let value = integer(view, row)?;
            (self.integers.get(&value).copied(), &move || Label::Int(value))
        };
        match existing {
            Some(code) => Ok(code),
            None if self.fixed => Ok(LabelCodes::UNKNOWN),
            None => self.add_label(label()),
        }
    }

    fn add_label(&mut self, label: Label) -> Result<u32, LabelFault> {
        self.bytes += label.text_bytes();
        if self.labels.len() >= self.limit || self.bytes > LABEL_TEXT_BYTES * self.limit {
            return Err(LabelFault::TooMany(self.limit));
        }
        let code = self.labels.len() as u32;
        // if buffers still share the dictionary, this copies it; new labels are rare
        Arc::make_mut(&mut self.labels).push(label.clone());
        self.register(label, code);
        Ok(code)
    }
}

/// Returns a number as an integer. Returns a fault if it is not an integer of 64 bits.
pub(crate) fn integer(view: &ColumnView<'_>, row: usize) -> Result<i64, LabelFault> {
    if let Some(integer) = view.integer(row) {
        return i64::try_from(integer).map_err(|_| LabelFault::Fraction(integer as f64));
    }
    let value = view.number(row);
    exact_integer(value).ok_or(LabelFault::Fraction(value))
}

/// Converts a float to an integer. Returns `None` for a fraction, and for a float so large that
/// several integers share it.
pub(crate) fn exact_integer(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER).then_some(value as i64)
}
