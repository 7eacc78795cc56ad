//! Many texts, or many strings of bytes, in one piece of memory.

use std::ops::Range;

/// Strings of bytes one after the other, and where each ends: 8 bytes each beside what they hold.
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
        let (first, before) = (other.start(rows.start), self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes[first..other.start(rows.end)]);
        self.ends.extend(other.ends[rows].iter().map(|end| end - first + before));
    }

    /// Makes room for so many bytes more, exactly: what is kept is counted.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// The bytes of string `row`.
    pub fn bytes(&self, row: usize) -> &[u8] {
        &self.bytes[self.start(row)..self.ends[row]]
    }

    /// String `row` as text; empty where its bytes are no UTF-8.
    pub fn text(&self, row: usize) -> &str {
        std::str::from_utf8(self.bytes(row)).unwrap_or_default()
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no strings.
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
        let mut all = Self::default();
        strings.into_iter().for_each(|string| all.push(string.as_ref()));
        all
    }
}
