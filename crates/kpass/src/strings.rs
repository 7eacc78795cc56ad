//! Many texts, or many byte strings, in one allocation.

use std::ops::Range;

/// Byte strings one after the other, with the end of each: 8 bytes per string in addition to its
/// content.
///
/// ```
/// let cities: kpass::Strings = ["Ulm", "", "Bonn"].into_iter().collect();
/// assert_eq!((cities.len(), cities.text(2), cities.bytes(0)), (3, "Bonn", &b"Ulm"[..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// Appends a string.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn extend_from(&mut self, other: &Self, rows: Range<usize>) {
        let (first_byte, old_len) = (other.start(rows.start), self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes[first_byte..other.start(rows.end)]);
        self.ends.extend(other.ends[rows].iter().map(|end| end - first_byte + old_len));
    }

    /// Reserves room for exactly this many more bytes, because the allocated bytes count towards
    /// the memory budget.
    pub fn reserve(&mut self, additional_bytes: usize) {
        self.bytes.reserve_exact(additional_bytes);
    }

    /// Returns the bytes of string `row`.
    pub fn bytes(&self, row: usize) -> &[u8] {
        &self.bytes[self.start(row)..self.ends[row]]
    }

    /// Returns string `row` as text; empty if its bytes are not UTF-8.
    pub fn text(&self, row: usize) -> &str {
        std::str::from_utf8(self.bytes(row)).unwrap_or_default()
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all strings and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] }
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut result = Self::default();
        strings.into_iter().for_each(|string| result.push(string.as_ref()));
        result
    }
}
