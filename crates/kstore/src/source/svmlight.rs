//! The text format of SVM-light and LIBSVM, one row a line: `label index:value index:value … # comment`.
//!
//! Rows become dense: columns `x0` … `x{d-1}` of float64, zero where a row does not name them, and `y`, the label. d is
//! the largest index in the file, or [`TextOptions::width`], which files that belong together need: a test set may lack
//! the last features of its training set. Indices start at 1, at 0 with [`TextOptions::zero_based`]; they ascend, so
//! that none comes twice. `qid:n`, which groups rows for ranking, is passed over. Empty lines and lines of comment are
//! no rows.
//!
//! Format: T. Joachims, SVM-light (svmlight.joachims.org); C.-C. Chang and C.-J. Lin, "LIBSVM: a library for support
//! vector machines", ACM Transactions on Intelligent Systems and Technology 2:3 (2011), 27.

use super::positioned::Positioned;
use super::text::{COLUMN_LIMIT, Place, Places, Records, Scanner, TextOptions};
use super::{Element, FileCursor, Strided, TableFile, Values, View};
use crate::schema::{Column, Kind, Schema};
use crate::{BadLine, Error, Result};
use memchr::memchr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most rows decoded at once.
const BATCH_ROWS: usize = 4096;
/// Bytes of dense rows decoded at once, which makes chunks of wide tables shorter.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of a value.
const SIZE: usize = size_of::<f64>();
const FORMAT: &str = "svmlight";

/// Finds lines that hold more than blanks and comment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineScanner {
    in_comment: bool,
}

impl Scanner for LineScanner {
    fn begin(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\n' => (self.in_comment, *line) = (false, *line + 1),
                _ if self.in_comment => at += memchr(b'\n', &bytes[at..])? - 1,
                b'#' => self.in_comment = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => return Some(at),
            }
            at += 1;
        }
        None
    }

    fn end(&mut self, bytes: &[u8], _line: &mut u64) -> Option<usize> {
        memchr(b'\n', bytes)
    }

    fn may_end(&self) -> bool {
        true
    }
}

/// An error in a line: what was expected, what was found, and the advice.
pub(super) type Wrong = (String, String, &'static str);

/// Parses a line: returns the label, and hands out places, counted from 0 and ascending, with their values.
pub(super) fn parse<'a>(
    line: &'a [u8],
    zero_based: bool,
    mut entry: impl FnMut(u64, &'a [u8]) -> Result<(), Wrong>,
) -> Result<&'a [u8], Wrong> {
    let line = &line[..memchr(b'#', line).unwrap_or(line.len())];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let label = words.next().unwrap_or_default();
    let mut last = None;
    for word in words {
        let (index, value) = word.split_at(memchr(b':', word).unwrap_or(word.len()));
        if index == b"qid" {
            continue;
        }
        let wrong = || ("index:value".to_string(), shown(word), "correct the line");
        let index = whole(index).ok_or_else(wrong)?;
        let value = value.get(1..).filter(|value| !value.is_empty()).ok_or_else(wrong)?;
        let Some(place) = index.checked_sub(u64::from(!zero_based)) else {
            let remedy = "if indices start at 0, say `zero_based`";
            return Err(("indices from 1 on".to_string(), "0".to_string(), remedy));
        };
        if let Some(last) = last.filter(|last| *last >= index) {
            let found = format!("{index} after {last}");
            return Err(("ascending indices".to_string(), found, "sort the line's entries and remove duplicates"));
        }
        last = Some(index);
        entry(place, value)?;
    }
    Ok(label)
}

/// A number without sign.
fn whole(digits: &[u8]) -> Option<u64> {
    // parse would take a plus sign too
    digits.first()?.is_ascii_digit().then(|| number(digits))?
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn float(text: &[u8]) -> Result<f64, Wrong> {
    number(text).ok_or_else(|| ("a number".to_string(), shown(text), "correct the line"))
}

/// The beginning of a word, short enough for a message.
fn shown(word: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&word[..word.len().min(40)]))
}

/// An open svmlight file.
#[derive(Debug)]
pub struct SvmlightFile {
    path: PathBuf,
    file: Positioned,
    zero_based: bool,
    schema: Schema,
    places: Places,
}

impl SvmlightFile {
    /// Reads an open file once, to find its rows and its largest index; the path is for messages.
    pub fn of(path: &Path, file: std::fs::File, options: &TextOptions) -> Result<Self> {
        let file = Positioned::of(file).map_err(Error::io("read", path))?;
        let (path, zero_based) = (path.to_path_buf(), options.zero_based);
        let mut svmlight = Self { path, file, zero_based, schema: Schema::default(), places: Places::new() };
        let most = options.width.unwrap_or(COLUMN_LIMIT);
        if most > COLUMN_LIMIT {
            let expected = format!("at most {COLUMN_LIMIT}, because rows become dense");
            return Err(Error::Syntax { what: "`width`", text: most.to_string(), expected });
        }
        let widest = svmlight.index(most)?;
        let column = |name| Column { name, kind: Kind::Float { bits: 64 } };
        let features = (0..options.width.unwrap_or(widest)).map(|i| column(format!("x{i}")));
        let columns = features.chain([column(super::TARGET.to_string())]);
        svmlight.schema = Schema { columns: columns.collect(), ..Schema::default() };
        Ok(svmlight)
    }

    /// The one pass that finds the rows, and the number of features; an error if it is more than `most`.
    fn index(&mut self, most: usize) -> Result<usize> {
        let start = Place { offset: 0, line: 1 };
        let mut records = Records::new(self.file.clone(), LineScanner::default(), start);
        let mut width = 0;
        loop {
            let row = self.places.rows();
            let record = records.next().map_err(|fault| fault.error(&self.path, FORMAT, row))?;
            let Some(record) = record else { return Ok(width) };
            let parsed = parse(record.bytes, self.zero_based, |place, _| {
                let within = usize::try_from(place).ok().filter(|place| *place < most);
                width = width.max(1 + within.ok_or_else(|| too_wide(most, place))?);
                Ok(())
            });
            // a file of another kind is told by its labels here, not after an hour
            let parsed = parsed.and_then(float);
            parsed.map_err(|wrong| self.bad_line(row, record.place.line, wrong))?;
            self.places.add(&record);
        }
    }

    #[cold]
    fn bad_line(&self, row: u64, line: u64, (expected, found, remedy): Wrong) -> Error {
        let (path, remedy) = (self.path.clone(), remedy.to_string());
        BadLine { path, row, line, column: None, expected, found, remedy }.into()
    }

    fn batch_rows(columns: usize) -> usize {
        (BATCH_BYTES / (SIZE * columns.max(1))).clamp(1, BATCH_ROWS)
    }
}

fn too_wide(most: usize, place: u64) -> Wrong {
    let remedy = "raise `width`, leave it out, or leave out the features that are rarely set: rows become dense";
    (format!("at most {most} features"), format!("feature {} of the row", place.saturating_add(1)), remedy)
}

impl TableFile for SvmlightFile {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.places.rows()
    }

    fn bytes(&self) -> u64 {
        self.file.length()
    }

    fn scanned(&self) -> u64 {
        self.file.length()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.places.line(&self.file, LineScanner::default(), row)
    }

    /// Bytes of a block of text, the dense rows, and the places of the columns.
    fn footprint(&self, columns: &[usize]) -> usize {
        let rows = Self::batch_rows(columns.len());
        self.places.footprint() + rows * columns.len() * SIZE + self.schema.columns.len() * size_of::<Option<usize>>()
    }

    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        let records = self.places.records(self.file.counting(read), LineScanner::default(), rows.start);
        let (mut wanted, mut width) = (vec![None; self.schema.columns.len()], 0);
        let slot = |column: &usize| {
            *wanted[*column].get_or_insert_with(|| {
                width += 1;
                width - 1
            })
        };
        let slots = columns.iter().map(slot).collect();
        let records = records.map_err(|fault| fault.error(&self.path, FORMAT, rows.start))?;
        Ok(Box::new(SvmlightCursor { svmlight: self, records, wanted, slots, width, dense: Vec::new(), left: rows }))
    }
}

struct SvmlightCursor<'a> {
    svmlight: &'a SvmlightFile,
    records: Records<LineScanner>,
    /// For each column of the file, its place in a dense row.
    wanted: Vec<Option<usize>>,
    /// For each column asked for, its place in a dense row.
    slots: Vec<usize>,
    width: usize,
    /// Rows of `width` float64, little-endian.
    dense: Vec<u8>,
    left: Range<u64>,
}

impl FileCursor for SvmlightCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let svmlight = self.svmlight;
        let rows = (self.left.end - self.left.start).min(SvmlightFile::batch_rows(self.width) as u64) as usize;
        let stride = self.width * SIZE;
        self.dense.clear();
        self.dense.resize(rows * stride, 0);
        for i in 0..rows {
            let row = self.left.start;
            let record = self.records.next().map_err(|fault| fault.error(&svmlight.path, FORMAT, row))?;
            let Some(record) = record else {
                let detail = format!("it changed while being read: it had {} rows, now {row}", svmlight.rows());
                return Err(Error::Malformed { path: svmlight.path.clone(), format: FORMAT, detail });
            };
            let dense = &mut self.dense[i * stride..(i + 1) * stride];
            let mut set = |slot: usize, value: f64| {
                dense[slot * SIZE..(slot + 1) * SIZE].copy_from_slice(&value.to_le_bytes());
            };
            let (features, target) = self.wanted.split_at(self.wanted.len() - 1);
            let label = parse(record.bytes, svmlight.zero_based, |place, value| {
                match usize::try_from(place).ok().and_then(|place| features.get(place)) {
                    Some(Some(slot)) => set(*slot, float(value)?),
                    Some(None) => {}
                    // opening has seen the largest
                    None => return Err(too_wide(features.len(), place)),
                }
                Ok(())
            });
            let label = label.and_then(|label| match target {
                [Some(slot)] => float(label).map(|value| set(*slot, value)),
                _ => Ok(()),
            });
            label.map_err(|wrong| svmlight.bad_line(row, record.place.line, wrong))?;
            self.left.start += 1;
        }
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let offset = self.slots[index] * SIZE;
        let strided = Strided { bytes: &self.dense, element: Element::F64, offset, stride: self.width * SIZE };
        Ok(View { values: Values::Strided(strided), nulls: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, zero_based: bool) -> Result<(String, Vec<(u64, String)>), String> {
        let mut entries = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let label = parse(line.as_bytes(), zero_based, |place, value| {
            entries.push((place, text(value)));
            Ok(())
        });
        label.map(|label| (text(label), entries)).map_err(|(expected, found, _)| format!("{expected}, {found}"))
    }

    #[test]
    fn lines_are_taken_apart() {
        let entries = |list: &[(u64, &str)]| list.iter().map(|(i, v)| (*i, v.to_string())).collect::<Vec<_>>();
        assert_eq!(parsed("+1 1:0.5  3:-2e-3 # 9:9", false), Ok(("+1".into(), entries(&[(0, "0.5"), (2, "-2e-3")]))));
        assert_eq!(parsed("-1\t0:1\t7:2\r", true), Ok(("-1".into(), entries(&[(0, "1"), (7, "2")]))));
        assert_eq!(parsed("3 qid:17 2:1", false), Ok(("3".into(), entries(&[(1, "1")]))));
        assert_eq!(parsed("2.5", false), Ok(("2.5".into(), entries(&[]))));
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (line, part) in [
            ("1 0:1", "indices from 1 on, 0"),
            ("1 3:1 3:2", "ascending indices, 3 after 3"),
            ("1 3:1 2:2", "ascending indices, 2 after 3"),
            ("1 a:1", "index:value, \"a:1\""),
            ("1 +2:1", "index:value"),
            ("1 -2:1", "index:value"),
            ("1 2:", "index:value"),
            ("1 2", "index:value"),
            ("1 :2", "index:value"),
            ("1 99999999999999999999:2", "index:value"),
        ] {
            let wrong = parsed(line, false).unwrap_err();
            assert!(wrong.contains(part), "{line}: {wrong}");
        }
    }

    #[test]
    fn rows_are_found_whatever_the_pieces() {
        let text = b"# head\n\n1 1:2 # tail\n  \n\t-1 2:3\r\n#\n# end\n5";
        for piece in 1..text.len() {
            let (mut scanner, mut line, mut inside, mut found) = (LineScanner::default(), 1, false, Vec::new());
            for (chunk, mut bytes) in text.chunks(piece).enumerate() {
                let mut base = chunk * piece;
                while !bytes.is_empty() {
                    let edge = match inside {
                        true => scanner.end(bytes, &mut line),
                        false => scanner.begin(bytes, &mut line),
                    };
                    if let (Some(at), false) = (edge, inside) {
                        found.push((base + at, line));
                    }
                    inside ^= edge.is_some();
                    let used = edge.unwrap_or(bytes.len());
                    (bytes, base) = (&bytes[used..], base + used);
                }
            }
            assert_eq!(found, [(8, 3), (25, 5), (41, 8)], "{piece}");
        }
    }
}
