//! The text format of SVM-light and LIBSVM, one row a line: `label index:value index:value … # comment`.
//!
//! Rows become dense: columns `x0` … `x{d-1}` of float64, zero where a row does not name them, and `y`, the label. d is
//! the largest index in the file, or [`TextOptions::width`], which files that belong together need: a test set may lack
//! the last features of its training set. With [`TextOptions::sparse`], and where d is more than 100,000, they stay as they are: one
//! column `x` of [sparse rows](crate::sparse), beside `y`. Indices start at 1, at 0 with [`TextOptions::zero_based`]; they ascend, so
//! that none comes twice. `qid:n`, which groups rows for ranking, is a column `qid` where every row has it, and is passed over where some rows
//! lack it. Empty lines and lines of comment are no rows.
//!
//! Format: T. Joachims, SVM-light (svmlight.joachims.org); C.-C. Chang and C.-J. Lin, "LIBSVM: a library for support
//! vector machines", ACM Transactions on Intelligent Systems and Technology 2:3 (2011), 27.

use super::text::{
    CHUNK_BYTES, CHUNK_ROWS, LineScanner, TextChunk, TextFormat, TextOptions, TextTable, Wrong, number, shown, slots,
};
use super::{Element, Format, QUERY, Strided, TableFile, Values, View};
use crate::schema::{Column, Kind};
use crate::sink::svmlight as sink;
use crate::sparse::{MOST_COLUMNS, SparseColumn, SparseShape};
use crate::{Error, Result};
use memchr::memchr;
use std::{path::Path, sync::Arc};

/// Bytes of dense rows decoded at once, which makes chunks of wide tables shorter.
const BATCH_BYTES: usize = 1 << 20;
const VALUE_BYTES: usize = size_of::<f64>();

pub(super) const FORMAT: Format =
    Format::new(&["svm", "svmlight", "libsvm"], open).text().labelled().written(sink::holds, sink::create);

/// Reads an open file once, to find its rows and its largest index; the path is for messages.
fn open(path: &Path, file: std::fs::File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let zero_based = options.zero_based;
    let mut table = TextTable::new(path, file, Svmlight { zero_based, lacking: None })?;
    let most = options.width.unwrap_or(MOST_COLUMNS);
    if most > MOST_COLUMNS {
        let expected = format!("at most {MOST_COLUMNS}");
        return Err(Error::Syntax { what: "`width`", text: most.to_string(), expected });
    }
    let (mut shape, mut lacking, mut grouped) = (SparseShape::default(), None, false);
    table.index(0, |row, line| {
        let mut entries = 0;
        let line = parse(line, zero_based, |place, _| {
            let within = usize::try_from(place).ok().filter(|place| *place < most);
            let width = 1 + within.ok_or_else(|| too_wide(most, place))?;
            entries += 1;
            shape = shape.both(SparseShape { width, longest: entries });
            Ok(())
        });
        // a file of another kind is told by its labels here, not after an hour
        let line = line?;
        match line.query {
            Some(_) => (_, grouped) = (line.query()?, true),
            None => _ = lacking.get_or_insert(row),
        }
        float(line.label)?;
        Ok(true)
    })?;
    table.format.lacking = lacking.filter(|_| grouped);
    let roles = [Some(QUERY).filter(|_| grouped && lacking.is_none()), Some(super::TARGET)].into_iter().flatten();
    let roles = roles.map(|name| (name.to_string(), Kind::Float { bits: 64 }));
    shape.width = options.width.unwrap_or(shape.width);
    if options.keeps(shape) {
        let rows = std::iter::once(("x".to_string(), Kind::Sparse(shape)));
        let lacking = table.format.lacking;
        let table = table.read_as(SparseLines { zero_based, shape, lacking }).with_columns(rows.chain(roles));
        return Ok(Arc::new(table));
    }
    let features = (0..shape.width).map(|i| (format!("x{i}"), Kind::Float { bits: 64 }));
    Ok(Arc::new(table.with_columns(features.chain(roles))))
}

/// What a line holds beside the entries.
#[derive(Debug, Default)]
struct Line<'a> {
    label: &'a [u8],
    query: Option<&'a [u8]>,
}

impl Line<'_> {
    /// The group, of a file in which every row has one.
    fn query(&self) -> Result<f64, Wrong> {
        let found = self.query.unwrap_or_default();
        let wrong = || Wrong::new("qid: and a whole number of 53 bits", shown(found), "correct the line");
        number::<i64>(found).filter(|query| query.unsigned_abs() <= 1 << 53).map(|query| query as f64).ok_or_else(wrong)
    }
}

/// Parses a line, and hands out places, counted from 0 and ascending, with their values.
fn parse<'a>(
    line: &'a [u8],
    zero_based: bool,
    mut entry: impl FnMut(u64, &'a [u8]) -> Result<(), Wrong>,
) -> Result<Line<'a>, Wrong> {
    let line = &line[..memchr(b'#', line).unwrap_or(line.len())];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut found = Line { label: words.next().unwrap_or_default(), query: None };
    let mut last = None;
    for word in words {
        let (index, value) = word.split_at(memchr(b':', word).unwrap_or(word.len()));
        if index == QUERY.as_bytes() {
            if found.query.is_some() {
                return Err(Wrong::new("one qid of a row", shown(word), "correct the line"));
            }
            found.query = value.get(1..);
            continue;
        }
        let wrong = || Wrong::new("index:value", shown(word), "correct the line");
        let index = whole(index).ok_or_else(wrong)?;
        let value = value.get(1..).filter(|value| !value.is_empty()).ok_or_else(wrong)?;
        let Some(place) = index.checked_sub(u64::from(!zero_based)) else {
            let remedy = "if indices start at 0, say `zero_based`";
            return Err(Wrong::new("indices from 1 on", "0", remedy));
        };
        if let Some(last) = last.filter(|last| *last >= index) {
            let found = format!("{index} after {last}");
            return Err(Wrong::new("ascending indices", found, "sort the line's entries and remove duplicates"));
        }
        last = Some(index);
        entry(place, value)?;
    }
    Ok(found)
}

/// What is said of a file in which some rows have a group, and one has none.
fn told(lacking: Option<u64>) -> Option<String> {
    lacking.map(|row| format!("there is no column {QUERY}: row {row} has none, and others have"))
}

/// True where the columns of a file have groups, just before the labels.
fn is_grouped(columns: &[Column]) -> bool {
    columns.iter().rev().nth(1).is_some_and(|column| column.name == QUERY)
}

/// A number without sign.
fn whole(digits: &[u8]) -> Option<u64> {
    // parse would take a plus sign too
    digits.first()?.is_ascii_digit().then(|| number(digits))?
}

fn float(text: &[u8]) -> Result<f64, Wrong> {
    number(text).ok_or_else(|| Wrong::new("a number", shown(text), "correct the line"))
}

fn too_wide(most: usize, place: u64) -> Wrong {
    let found = format!("feature {} of the row", place.saturating_add(1));
    let remedy = "raise `width`, or leave it out";
    Wrong::new(format!("at most {most} features"), found, remedy)
}

#[derive(Debug)]
struct Svmlight {
    zero_based: bool,
    /// The first row without a group, where others have one.
    lacking: Option<u64>,
}

fn chunk_rows(columns: usize) -> usize {
    (BATCH_BYTES / (VALUE_BYTES * columns.max(1))).clamp(1, CHUNK_ROWS)
}

impl TextFormat for Svmlight {
    const NAME: &'static str = "svmlight";
    const UNENDED: &'static str = "is it one row on each line?";
    type Scanner = LineScanner;
    type Chunk<'a> = Dense;

    fn scanner(&self) -> LineScanner {
        LineScanner::new(Some(b'#'))
    }

    fn note(&self, _: &[Column]) -> Option<String> {
        told(self.lacking)
    }

    fn chunk(&self, columns: &[Column], wanted: &[usize]) -> Dense {
        let slots = slots(columns.len(), wanted);
        let grouped = is_grouped(columns);
        Dense { zero_based: self.zero_based, slots, grouped, width: wanted.len(), rows: Vec::new(), filled: 0 }
    }

    fn chunk_bytes(&self, columns: &[&Column], _longest: usize) -> usize {
        chunk_rows(columns.len()) * columns.len() * VALUE_BYTES
    }
}

/// Rows of `width` float64, little-endian.
struct Dense {
    zero_based: bool,
    /// For each column of the file, its place in a row.
    slots: Vec<Option<usize>>,
    grouped: bool,
    width: usize,
    rows: Vec<u8>,
    filled: usize,
}

impl TextChunk for Dense {
    fn begin(&mut self, rows: usize) -> usize {
        let rows = rows.min(chunk_rows(self.width));
        self.rows.clear();
        self.rows.resize(rows * self.width * VALUE_BYTES, 0);
        self.filled = 0;
        rows
    }

    fn push(&mut self, _row: u64, line: &[u8]) -> Result<(), Wrong> {
        let stride = self.width * VALUE_BYTES;
        let row = &mut self.rows[self.filled * stride..][..stride];
        let mut set = |slot: usize, value: f64| {
            row[slot * VALUE_BYTES..(slot + 1) * VALUE_BYTES].copy_from_slice(&value.to_le_bytes())
        };
        let (features, roles) = self.slots.split_at(self.slots.len() - 1 - usize::from(self.grouped));
        let line = parse(line, self.zero_based, |place, value| {
            match usize::try_from(place).ok().and_then(|place| features.get(place)) {
                Some(Some(slot)) => set(*slot, float(value)?),
                Some(None) => {}
                // opening has seen the largest
                None => return Err(too_wide(features.len(), place)),
            }
            Ok(())
        })?;
        if let [.., Some(slot)] = roles {
            set(*slot, float(line.label)?);
        }
        if let [Some(slot), _] = roles {
            set(*slot, line.query()?);
        }
        self.filled += 1;
        Ok(())
    }

    fn view(&self, slot: usize) -> Option<View<'_>> {
        let (offset, stride) = (slot * VALUE_BYTES, self.width * VALUE_BYTES);
        let strided = Strided { bytes: &self.rows, element: Element::F64, offset, stride };
        Some(View { values: Values::Strided(strided), nulls: None })
    }
}

/// The format for rows that stay sparse, of so many columns.
#[derive(Debug)]
struct SparseLines {
    zero_based: bool,
    shape: SparseShape,
    lacking: Option<u64>,
}

/// Fewest bytes of an entry in a line.
const ENTRY_BYTES: usize = b"1:1 ".len();

impl TextFormat for SparseLines {
    const NAME: &'static str = Svmlight::NAME;
    const UNENDED: &'static str = Svmlight::UNENDED;
    type Scanner = LineScanner;
    type Chunk<'a> = Sparse;

    fn scanner(&self) -> LineScanner {
        LineScanner::new(Some(b'#'))
    }

    fn note(&self, _: &[Column]) -> Option<String> {
        told(self.lacking)
    }

    fn chunk(&self, columns: &[Column], wanted: &[usize]) -> Sparse {
        let part = |column: &usize| match (column, is_grouped(columns)) {
            (0, _) => Part::Rows,
            (1, true) => Part::Queries,
            _ => Part::Labels,
        };
        let (rows, wanted) = (SparseColumn::new(self.shape), wanted.iter().map(part).collect());
        Sparse { zero_based: self.zero_based, wanted, rows, labels: Vec::new(), queries: Vec::new() }
    }

    fn chunk_bytes(&self, _columns: &[&Column], longest: usize) -> usize {
        let entries = (CHUNK_BYTES + longest) / ENTRY_BYTES;
        // a vector that grows may have twice the room, and once more while it moves
        3 * (entries * (size_of::<u32>() + VALUE_BYTES) + CHUNK_ROWS * (size_of::<usize>() + 2 * VALUE_BYTES))
    }
}

/// The entries of rows, and their labels.
struct Sparse {
    zero_based: bool,
    wanted: Vec<Part>,
    rows: SparseColumn,
    labels: Vec<f64>,
    /// The groups, where they are wanted.
    queries: Vec<f64>,
}

/// A column of a file whose rows stay sparse.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Rows,
    Queries,
    Labels,
}

impl TextChunk for Sparse {
    fn begin(&mut self, rows: usize) -> usize {
        self.rows.clear();
        self.labels.clear();
        self.queries.clear();
        rows
    }

    fn push(&mut self, _row: u64, line: &[u8]) -> Result<(), Wrong> {
        let width = self.rows.shape().width;
        let rows = &mut self.rows;
        let line = parse(line, self.zero_based, |place, value| {
            let within = u32::try_from(place).ok().filter(|place| (*place as usize) < width);
            // opening has seen the largest
            rows.add(within.ok_or_else(|| too_wide(width, place))?, float(value)?);
            Ok(())
        })?;
        rows.end_row();
        self.labels.push(float(line.label)?);
        if self.wanted.contains(&Part::Queries) {
            self.queries.push(line.query()?);
        }
        Ok(())
    }

    fn view(&self, slot: usize) -> Option<View<'_>> {
        let values = match self.wanted.get(slot)? {
            Part::Rows => Values::Sparse(self.rows.rows()),
            Part::Queries => Values::of(&self.queries),
            Part::Labels => Values::of(&self.labels),
        };
        Some(View { values, nulls: None })
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
        label.map(|line| (text(line.label), entries)).map_err(|wrong| format!("{}, {}", wrong.expected, wrong.found))
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
}
