//! The text format of SVM-light and LIBSVM, one row per line: `label index:value index:value … #
//! comment`.
//!
//! Rows become dense: columns `x0` … `x{d-1}` of float64, zero if a row does not name them, and
//! `y`, the label. d is the largest index in the file, or [`TextOptions::width`], which related
//! files need: a test set may lack the last features of its training set. With
//! [`TextOptions::sparse`], or if d exceeds 100,000, rows stay sparse: one column `x` of [sparse
//! rows](crate::sparse), and `y`. Indices start at 1, or at 0 with [`TextOptions::zero_based`];
//! they ascend without duplicates. `qid:n`, which groups rows for ranking, becomes a column `qid`
//! if every row has it, and is ignored if some rows lack it. Empty lines and comment lines are not
//! rows.
//!
//! Format: T. Joachims, SVM-light (svmlight.joachims.org); C.-C. Chang and C.-J. Lin, "LIBSVM: a
//! library for support vector machines", ACM Transactions on Intelligent Systems and Technology 2:3
//! (2011), 27.

use super::text::{
    CHUNK_BYTES, CHUNK_ROWS, LineScanner, TextChunk, TextFormat, TextOptions, TextTable, Wrong, number, shown, slots,
};
use super::{Element, Format, QUERY, Strided, TableFile, Values, View};
use crate::rows::grow;
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
    let mut table = TextTable::new(path, file, Svmlight { zero_based, lacking: None, sparse: None })?;
    let most = options.width.unwrap_or(MOST_COLUMNS);
    if most > MOST_COLUMNS {
        let expected = format!("at most {MOST_COLUMNS}");
        return Err(Error::Syntax { what: "`width`", text: most.to_string(), expected });
    }
    let (mut shape, mut lacking, mut grouped) = (SparseShape::default(), None, false);
    let (_, start) = table.beginning()?;
    table.index(start, |row, line| {
        let mut entries = 0;
        let line = parse(line, zero_based, |place, _| {
            let within = usize::try_from(place).ok().filter(|place| *place < most);
            let width = 1 + within.ok_or_else(|| too_wide(most, place))?;
            entries += 1;
            shape = shape.both(SparseShape { width, longest: entries });
            Ok(())
        });
        // parsing the labels detects a file of another format now, not in a pass an hour later
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
    table.format.sparse = Some(shape).filter(|shape| options.keeps(*shape));
    let features: Vec<_> = match table.format.sparse {
        Some(shape) => vec![("x".to_string(), Kind::Sparse(shape))],
        None => (0..shape.width).map(|i| (format!("x{i}"), Kind::Float { bits: 64 })).collect(),
    };
    Ok(Arc::new(table.with_columns(features.into_iter().chain(roles)).labelled()))
}

#[derive(Debug, Default)]
struct Line<'a> {
    label: &'a [u8],
    query: Option<&'a [u8]>,
}

impl Line<'_> {
    /// Returns the group, in a file in which every row has one.
    fn query(&self) -> Result<f64, Wrong> {
        let found = self.query.unwrap_or_default();
        let wrong = || Wrong::new("qid: and an integer of at most 53 bits", shown(found), "correct the line");
        number::<i64>(found).filter(|query| query.unsigned_abs() <= 1 << 53).map(|query| query as f64).ok_or_else(wrong)
    }
}

/// Parses a line, and calls `entry` with ascending indices, counted from 0, and their values.
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
                return Err(Wrong::new("one qid per row", shown(word), "correct the line"));
            }
            found.query = value.get(1..);
            continue;
        }
        let wrong = || Wrong::new("index:value", shown(word), "correct the line");
        let index = whole(index).ok_or_else(wrong)?;
        let value = value.get(1..).filter(|value| !value.is_empty()).ok_or_else(wrong)?;
        let Some(place) = index.checked_sub(u64::from(!zero_based)) else {
            let remedy = "if indices start at 0, set `zero_based`";
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

fn whole(digits: &[u8]) -> Option<u64> {
    // parse would also accept a plus sign
    digits.first()?.is_ascii_digit().then(|| number(digits))?
}

fn float(text: &[u8]) -> Result<f64, Wrong> {
    number(text).ok_or_else(|| Wrong::new("a number", shown(text), "correct the line"))
}

fn too_wide(most: usize, place: u64) -> Wrong {
    let found = format!("feature {} of the row", place.saturating_add(1));
    let remedy = "raise `width`, or omit it to use the largest index of the file";
    Wrong::new(format!("at most {most} features"), found, remedy)
}

#[derive(Debug)]
struct Svmlight {
    zero_based: bool,
    /// The first row without a group if other rows have one.
    lacking: Option<u64>,
    /// Shape of the rows if they stay sparse.
    sparse: Option<SparseShape>,
}

fn chunk_rows(columns: usize) -> usize {
    (BATCH_BYTES / (VALUE_BYTES * columns.max(1))).clamp(1, CHUNK_ROWS)
}

/// Minimum bytes of an entry in a line.
const ENTRY_BYTES: usize = b"1:1 ".len();

impl TextFormat for Svmlight {
    const NAME: &'static str = "svmlight";
    const UNENDED: &'static str = "check that each line contains one row";
    type Scanner = LineScanner;
    type Chunk<'a> = Lines;

    fn scanner(&self) -> LineScanner {
        LineScanner::new(Some(b'#'))
    }

    fn note(&self, _: &[Column]) -> Option<String> {
        self.lacking.map(|row| format!("column {QUERY} is ignored: row {row} has none, and others have"))
    }

    fn chunk(&self, columns: &[Column], wanted: &[usize]) -> Lines {
        let grouped = columns.iter().rev().nth(1).is_some_and(|column| column.name == QUERY);
        let first = columns.len() - 1 - usize::from(grouped);
        let features: Vec<usize> = wanted.iter().copied().filter(|column| *column < first).collect();
        let features = match self.sparse {
            Some(shape) => Features::Sparse(SparseColumn::new(shape)),
            None => Features::Dense { width: features.len(), slots: slots(first, &features), rows: Vec::new() },
        };
        let roles = (first..columns.len()).map(|column| wanted.contains(&column).then(Vec::new)).collect();
        Lines { zero_based: self.zero_based, first, wanted: wanted.len(), features, roles }
    }

    fn chunk_bytes(&self, columns: &[&Column], longest: usize) -> usize {
        if self.sparse.is_none() {
            return chunk_rows(columns.len()) * columns.len() * VALUE_BYTES;
        }
        let entries = (CHUNK_BYTES + longest) / ENTRY_BYTES;
        // a growing vector may have twice the capacity, and a copy while it is reallocated
        3 * (entries * (size_of::<u32>() + VALUE_BYTES) + CHUNK_ROWS * (size_of::<usize>() + 2 * VALUE_BYTES))
    }
}

struct Lines {
    zero_based: bool,
    /// Number of feature columns, which come before the group and the label.
    first: usize,
    wanted: usize,
    features: Features,
    /// The groups, if the file has them, and the labels; `None` if they are not requested.
    roles: Vec<Option<Vec<f64>>>,
}

enum Features {
    /// Rows of `width` numbers, and the index in a row of each column of the file.
    Dense {
        width: usize,
        slots: Vec<Option<usize>>,
        rows: Vec<f64>,
    },
    Sparse(SparseColumn),
}

impl TextChunk for Lines {
    fn begin(&mut self, mut most: usize) -> usize {
        match &mut self.features {
            Features::Sparse(rows) => rows.clear(),
            Features::Dense { width, rows, .. } => {
                most = most.min(chunk_rows(self.wanted));
                rows.clear();
                rows.reserve_exact(most * *width);
            }
        }
        for role in self.roles.iter_mut().flatten() {
            role.clear();
            role.reserve_exact(most);
        }
        most
    }

    fn push(&mut self, _row: u64, line: &[u8]) -> Result<(), Wrong> {
        // opening has already read the largest index
        let line = match &mut self.features {
            Features::Sparse(rows) => {
                let width = rows.shape().width;
                let line = parse(line, self.zero_based, |place, value| {
                    let within = u32::try_from(place).ok().filter(|place| (*place as usize) < width);
                    rows.add(within.ok_or_else(|| too_wide(width, place))?, float(value)?);
                    Ok(())
                })?;
                rows.end_row();
                line
            }
            Features::Dense { width, slots, rows } => {
                let own = grow(rows, *width);
                parse(line, self.zero_based, |place, value| {
                    let slot = usize::try_from(place).ok().and_then(|place| slots.get(place));
                    if let Some(slot) = slot.ok_or_else(|| too_wide(slots.len(), place))? {
                        own[*slot] = float(value)?;
                    }
                    Ok(())
                })?
            }
        };
        if let [.., Some(labels)] = &mut self.roles[..] {
            labels.push(float(line.label)?);
        }
        if let [Some(groups), _] = &mut self.roles[..] {
            groups.push(line.query()?);
        }
        Ok(())
    }

    fn view(&self, column: usize) -> Option<View<'_>> {
        let values = match (column.checked_sub(self.first), &self.features) {
            (Some(role), _) => Values::of(self.roles.get(role)?.as_ref()?),
            (None, Features::Sparse(rows)) => Values::Sparse(rows.rows()),
            (None, Features::Dense { width, slots, rows }) => {
                let (offset, stride) = (slots[column]? * VALUE_BYTES, width * VALUE_BYTES);
                Values::Strided(Strided { bytes: bytemuck::cast_slice(rows), element: Element::F64, offset, stride })
            }
        };
        Some(View { values, nulls: None })
    }
}
