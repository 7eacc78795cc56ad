//! The headers of a Parquet column's pages.
//!
//! The Parquet crate tells how many rows a page has and not how many bytes, unless it unpacks the page. What is needed
//! here is a few numbers of a structure in Thrift's compact protocol.
//!
//! Reference: "Parquet format", `PageHeader` in `parquet.thrift` (<https://github.com/apache/parquet-format>), and
//! "Thrift compact protocol".

use crate::source::positioned::Positioned;
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;

/// The numbers of a page's header that are needed here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Whether the page holds the values of the dictionary.
    pub(super) dictionary: bool,
    /// Number of values, missing ones included.
    pub(super) values: usize,
    /// Bytes of the page once it is decompressed.
    pub(super) size: usize,
    /// Whether each value is stored as its difference from the one before it.
    pub(super) prefixed: bool,
}

/// Page headers are about 30 to 100 bytes, longer with statistics of long texts.
const GUESS: usize = 256;
/// A header longer than this is damage.
const LONGEST: usize = 1 << 20;

/// The headers of a column chunk; `None` where they cannot be read, or lie at a distance.
pub(super) fn headers(file: &Positioned, column: &ColumnChunkMetaData) -> Option<Vec<PageHeader>> {
    // at a distance a request for each page would take longer than the pages
    if file.object().is_some() {
        return None;
    }
    let (start, length) = column.byte_range();
    let (mut at, end) = (start, start.checked_add(length)?.min(file.length()));
    let mut pages = Vec::new();
    while at < end {
        let (header, length) = one(file, at, end)?;
        pages.push(header);
        at = at.checked_add(length)?;
    }
    Some(pages)
}

/// The header at `at`, and the bytes of it and its page.
fn one(file: &Positioned, at: u64, end: u64) -> Option<(PageHeader, u64)> {
    let mut length = GUESS;
    loop {
        let room = length.min(usize::try_from(end - at).ok()?);
        let mut bytes = vec![0; room];
        let got = file.read_at(&mut bytes, at).ok()?;
        match parse(&bytes[..got]) {
            Some((header, stored, used)) => return Some((header, (used as u64).checked_add(stored)?)),
            None if got < length || length >= LONGEST => return None,
            None => length *= 4,
        }
    }
}

/// A header, the bytes of its page in the file, and its own; `None` where these bytes hold no whole header.
fn parse(bytes: &[u8]) -> Option<(PageHeader, u64, usize)> {
    let (mut header, mut stored, mut compact) = (PageHeader::default(), None, Compact { bytes, at: 0 });
    compact.structure(0, 0, &mut |within, field, value| {
        let size = || usize::try_from(value).unwrap_or(usize::MAX);
        let prefixed = value == Encoding::DELTA_BYTE_ARRAY as i64;
        match (within, field) {
            (0, 2) => header.size = size(),
            (0, 3) => stored = u64::try_from(value).ok(),
            (7, 1) => (header.dictionary, header.values) = (true, size()),
            (5 | 8, 1) => header.values = size(),
            (5, 2) | (8, 4) => header.prefixed = prefixed,
            _ => {}
        }
    })?;
    Some((header, stored?, compact.at))
}

/// Most structures within each other; a page header has two.
const DEEPEST: usize = 8;

/// A reader of Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(count).ok()?)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Reads a structure that is field `within` of the outermost one, and tells the whole numbers in it.
    fn structure(&mut self, within: i64, depth: usize, found: &mut dyn FnMut(i64, i64, i64)) -> Option<()> {
        let mut field = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = if head >> 4 == 0 { self.signed()? } else { field + i64::from(head >> 4) };
            match head & 0x0f {
                4..=6 => found(within, field, self.signed()?),
                12 if depth == 0 => self.structure(field, 1, found)?,
                kind => self.pass(kind, depth)?,
            }
        }
    }

    /// Skips a value that is not asked for.
    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1 | 2 => Some(()),
            3 => self.skip(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.unsigned()?;
                self.skip(length)
            }
            12 if depth < DEEPEST => self.structure(-1, depth + 1, &mut |_, _, _| {}),
            // page headers have no lists
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// type 0, size 1000, stored 40, and a data page of 7 values in encoding 7 with statistics of 300 bytes.
    fn header(statistics: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x00, 0x15, 0xd0, 0x0f, 0x15, 80, 0x2c, 0x15, 14, 0x15, 14, 0x15, 6, 0x15, 6];
        bytes.extend([0x1c, 0x18, (statistics & 0x7f) as u8 | 0x80, (statistics >> 7) as u8]);
        bytes.extend(vec![0; statistics]);
        bytes.extend([0, 0, 0]);
        bytes
    }

    #[test]
    fn the_numbers_of_a_header_are_found() {
        let bytes = header(300);
        let (page, stored, used) = parse(&[&bytes[..], b"page"].concat()).unwrap();
        assert_eq!((page.values, page.size, page.dictionary, page.prefixed), (7, 1000, false, true));
        assert_eq!((stored, used), (40, bytes.len()));
    }

    #[test]
    fn what_is_no_header_is_told_and_nothing_panics() {
        let bytes = header(300);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_none());
        }
        for (i, bit) in (0..bytes.len()).flat_map(|i| (0..8).map(move |bit| (i, bit))) {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1 << bit;
            let _ = parse(&damaged);
        }
        assert!(parse(&[0x1c; 4000]).is_none());
    }
}
