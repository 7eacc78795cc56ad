//! The value of a category in a row.

use crate::Digest;
use crate::source::View;

/// The text of a value that a truth value and its text share.
pub(super) fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

pub(super) enum Value<'a> {
    Text(&'a str),
    Int(i64),
}

/// The value in a row; `None` for a fraction, which is the value of no category.
pub(super) fn value<'a>(view: &View<'a>, row: usize) -> Option<Value<'a>> {
    if let Some(text) = view.text(row) {
        return Some(Value::Text(text));
    }
    if let crate::source::Values::Bool(values) = view.values {
        return Some(Value::Text(truth(values.value(row))));
    }
    crate::labels::integer(view, row).ok().map(Value::Int)
}

impl Value<'_> {
    /// The digest of its text.
    pub(super) fn digest(&self) -> u64 {
        match self {
            Self::Text(text) => Digest::word_of(text.as_bytes()),
            Self::Int(whole) => Digest::word_of(whole.to_string().as_bytes()),
        }
    }
}
