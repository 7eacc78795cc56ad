//! Encodes label columns as codes into a dictionary.

use crate::Digest;
use crate::rows::{Label, LabelCodes};
use crate::statistics::LABEL_TEXT_BYTES;
use crate::view::{ColumnView, RowIndices, Values};
use std::{collections::HashMap, sync::Arc};

/// Encodes labels as codes. A new label gets the next code; if the dictionary is fixed, it gets
/// [`LabelCodes::UNKNOWN`].
#[derive(Debug)]
pub(crate) struct LabelEncoder {
    labels: Arc<Vec<Label>>,
    integer_codes: HashMap<i64, u32>,
    text_codes: HashMap<Arc<str>, u32>,
    bool_codes: [Option<u32>; 2],
    is_fixed: bool,
    max_labels: usize,
    text_bytes: usize,
}

/// A reason why a value cannot be encoded as a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LabelFault {
    /// A fraction, or a number too large for an integer.
    NotAnInteger(f64),
    /// More labels than this maximum number, or texts that are longer in total than this number of
    /// labels may have.
    TooMany(usize),
}

/// The largest float up to which each integer has its own float. Above it, neighbouring integers
/// share a float.
const MAX_EXACT_INTEGER: f64 = (1u64 << 53) as f64;

impl LabelEncoder {
    /// Returns an encoder with a fixed dictionary. Without a dictionary, returns an encoder that
    /// adds new labels, up to `max_labels` labels.
    pub(crate) fn new(dictionary: Option<&Arc<Vec<Label>>>, max_labels: usize) -> Self {
        let labels = dictionary.map_or_else(Arc::default, Arc::clone);
        let (integers, texts) = (HashMap::new(), HashMap::new());
        let mut encoder = Self {
            labels,
            integer_codes: integers,
            text_codes: texts,
            bool_codes: [None; 2],
            is_fixed: dictionary.is_some(),
            max_labels,
            text_bytes: 0,
        };
        let known_labels = Arc::clone(&encoder.labels);
        (0..).zip(known_labels.iter()).for_each(|(code, label)| encoder.register(label.clone(), code));
        encoder
    }

    fn register(&mut self, label: Label, code: u32) {
        match label {
            Label::Bool(v) => self.bool_codes[usize::from(v)] = Some(code),
            Label::Int(v) => _ = self.integer_codes.insert(v, code),
            Label::Text(v) => _ = self.text_codes.insert(v, code),
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
        let (existing_code, label): (_, &dyn Fn() -> Label) = if let Values::Bool(values) = view.values {
            let value = values.value(row);
            (self.bool_codes[usize::from(value)], &move || Label::Bool(value))
        } else if let Some(text) = view.text(row) {
            (self.text_codes.get(text).copied(), &move || Label::Text(text.into()))
        } else {
            let value = integer_at(view, row)?;
            (self.integer_codes.get(&value).copied(), &move || Label::Int(value))
        };
        match existing_code {
            Some(code) => Ok(code),
            None if self.is_fixed => Ok(LabelCodes::UNKNOWN),
            None => self.add_label(label()),
        }
    }

    fn add_label(&mut self, label: Label) -> Result<u32, LabelFault> {
        self.text_bytes += label.text_bytes();
        if self.labels.len() >= self.max_labels || self.text_bytes > LABEL_TEXT_BYTES * self.max_labels {
            return Err(LabelFault::TooMany(self.max_labels));
        }
        let code = self.labels.len() as u32;
        // if buffers still share the dictionary, this copies it; new labels are rare
        Arc::make_mut(&mut self.labels).push(label.clone());
        self.register(label, code);
        Ok(code)
    }
}

/// Returns the digest of the label in a row, as [`Label::digest`] does; `None` if the value is
/// missing or is not a label.
pub(crate) fn digest_at(view: &ColumnView<'_>, row: usize) -> Option<u64> {
    if view.is_null(row) {
        return None;
    }
    if let Values::Bool(values) = view.values {
        return Some(Label::Bool(values.value(row)).digest());
    }
    match view.text(row) {
        Some(text) => Some(Digest::u64_of(text.as_bytes())),
        None => integer_at(view, row).ok().map(|value| Label::Int(value).digest()),
    }
}

/// Returns a number as an integer. Returns a fault if it is not an integer of 64 bits.
pub(crate) fn integer_at(view: &ColumnView<'_>, row: usize) -> Result<i64, LabelFault> {
    if let Some(integer) = view.integer(row) {
        return i64::try_from(integer).map_err(|_| LabelFault::NotAnInteger(integer as f64));
    }
    let value = view.number(row);
    exact_integer(value).ok_or(LabelFault::NotAnInteger(value))
}

/// Converts a float to an integer. Returns `None` for a fraction, and for a float so large that
/// several integers share it.
pub(crate) fn exact_integer(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER).then_some(value as i64)
}
