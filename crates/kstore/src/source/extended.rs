//! Files as a table takes them: with further columns behind their own, unpacked from what lies on the disk, or somewhere else.

use super::{BoxedCursor, Element, Facts, FileCursor, Positions, TableFile, TextReading, Values, View, plain};
use crate::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray};
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result, condition::Bound};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Name of the column that a target file brings.
pub const TARGET: &str = "y";

/// Name of the column of groups of the formats whose rows begin with one.
pub const QUERY: &str = "qid";

/// Most rows of a chunk that readers hand out, for the plan of memory.
const CHUNK_ROWS: usize = 256 << 10;

/// Values of a column that a file does not hold itself.
#[derive(Clone, Debug)]
pub(crate) enum Added {
    /// The same whole number, or text, in every row; `None` for a missing one.
    Integer(Option<i64>),
    Text(Option<String>),
    /// No value in any row.
    Missing(Kind),
    /// The numbers of a file of one column, from row `start` on. Whatever their type there, they are handed out as f64.
    Numbers {
        file: Arc<dyn TableFile>,
        path: PathBuf,
        start: u64,
    },
}

impl Added {
    fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Int { bits: 64, signed: true },
            Self::Text(_) => Kind::Text,
            Self::Missing(kind) => kind.clone(),
            Self::Numbers { .. } => Kind::Float { bits: 64 },
        }
    }

    /// The same value in so many rows; `None` where rows differ.
    fn repeated(&self, rows: usize) -> Option<ArrayRef> {
        match self {
            Self::Integer(value) => Some(Arc::new(std::iter::repeat_n(*value, rows).collect::<Int64Array>())),
            Self::Text(value) => {
                Some(Arc::new(std::iter::repeat_n(value.as_deref(), rows).collect::<StringViewArray>()))
            }
            Self::Missing(kind) => Some(missing(rows, kind)),
            Self::Numbers { .. } => None,
        }
    }

    fn footprint(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Text(_) | Self::Missing(_) => 16 * CHUNK_ROWS,
            Self::Numbers { file, .. } => file.footprint(&[0]),
        }
    }
}

/// Rows without a value.
pub(super) fn missing(rows: usize, kind: &Kind) -> ArrayRef {
    match kind {
        Kind::Float { .. } => Arc::new(Float64Array::new_null(rows)),
        Kind::Bool | Kind::Int { .. } | Kind::Time(_) => Arc::new(Int64Array::new_null(rows)),
        _ => Arc::new(StringViewArray::new_null(rows)),
    }
}

/// A file with columns behind its own.
#[derive(Debug)]
pub(crate) struct Extended {
    file: Arc<dyn TableFile>,
    added: Vec<Added>,
    schema: Schema,
    /// Bytes on the disk of a file that was unpacked.
    packed: Option<u64>,
}

impl Extended {
    /// Adds the columns that the file does not have itself.
    pub(crate) fn new(file: Arc<dyn TableFile>, columns: Vec<(String, Added)>) -> Self {
        let own = |(name, _): &(String, Added)| file.facts().schema.position(name).is_some();
        let columns = columns.into_iter().filter(|column| !own(column)).collect();
        Self::with(file, columns)
    }

    /// Adds columns, whatever their names.
    pub(super) fn with(file: Arc<dyn TableFile>, columns: Vec<(String, Added)>) -> Self {
        let (mut schema, mut added) = (file.facts().schema.clone(), Vec::new());
        for (name, values) in columns {
            schema.columns.push(Column { name, kind: values.kind() });
            added.push(values);
        }
        Self { file, added, schema, packed: None }
    }

    /// A file of which `bytes` lie on the disk.
    #[cfg(feature = "compressed")]
    pub(super) fn unpacked(file: Arc<dyn TableFile>, bytes: u64) -> Self {
        Self { packed: Some(bytes), ..Self::new(file, Vec::new()) }
    }

    fn own(&self) -> usize {
        self.schema.columns.len() - self.added.len()
    }
}

impl TableFile for Extended {
    fn facts(&self) -> Facts<'_> {
        let own = self.file.facts();
        let (bytes, scanned) = self.packed.map_or((own.bytes, own.scanned), |packed| (packed, packed + own.scanned));
        Facts { schema: &self.schema, bytes, scanned, ..own }
    }

    fn note(&self) -> Option<String> {
        self.file.note()
    }

    fn is_blank(&self, column: usize) -> bool {
        match column.checked_sub(self.own()) {
            None => self.file.is_blank(column),
            Some(at) => matches!(self.added[at], Added::Integer(None) | Added::Text(None) | Added::Missing(_)),
        }
    }

    fn reading(&self) -> TextReading {
        self.file.reading()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.file.line(row)
    }

    fn held(&self) -> usize {
        self.file.held()
    }

    fn footprint(&self, columns: &[usize]) -> usize {
        let (own, added): (Vec<usize>, Vec<usize>) = columns.iter().partition(|column| **column < self.own());
        self.file.footprint(&own)
            + added.iter().map(|column| self.added[column - self.own()].footprint()).sum::<usize>()
    }

    /// A condition on a value that all rows share rules out the whole file, or nothing.
    fn candidates(&self, column: usize, condition: &Bound) -> Vec<Range<u64>> {
        let Some(added) = column.checked_sub(self.own()).map(|at| &self.added[at]) else {
            return self.file.candidates(column, condition);
        };
        let mut found = Vec::new();
        if let Some(view) = added.repeated(1).as_deref().and_then(plain::view) {
            condition.select(&view, 1, &mut found);
            if found.is_empty() {
                return Vec::new();
            }
        }
        std::iter::once(0..self.facts().rows).collect()
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let (mut own, mut added, mut places) = (Vec::new(), Vec::<(usize, AddedColumn<'_>)>::new(), Vec::new());
        for column in columns {
            places.push(match column.checked_sub(self.own()) {
                None => {
                    own.push(*column);
                    Place::Own(own.len() - 1)
                }
                Some(at) => Place::Added(match added.iter().position(|(other, _)| *other == at) {
                    Some(place) => place,
                    None => {
                        added.push((at, AddedColumn::open(&self.added[at], &rows, read)?));
                        added.len() - 1
                    }
                }),
            });
        }
        let added = added.into_iter().map(|(_, reading)| reading).collect();
        Ok(Box::new(ExtendedCursor { file: self.file.open(&own, rows, read)?, added, places }))
    }
}

/// The place of a column that was asked for: among the file's own, or the added ones.
#[derive(Clone, Copy)]
enum Place {
    Own(usize),
    Added(usize),
}

/// An added column of the chunk at hand.
enum AddedColumn<'a> {
    /// The same value in as many rows as the longest chunk so far.
    Repeated(&'a Added, Option<ArrayRef>),
    /// Numbers, and of the chunk that they come from the rows used up and all rows.
    Numbers { cursor: BoxedCursor<'a>, path: &'a Path, values: Vec<f64>, used: usize, rows: usize },
}

impl<'a> AddedColumn<'a> {
    fn open(added: &'a Added, rows: &Range<u64>, read: &Arc<AtomicU64>) -> Result<Self> {
        let Added::Numbers { file, path, start } = added else {
            return Ok(Self::Repeated(added, added.repeated(0)));
        };
        let cursor = file.open(&[0], rows.start + start..rows.end + start, read)?;
        Ok(Self::Numbers { cursor, path, values: Vec::new(), used: 0, rows: 0 })
    }

    /// Gets the values of the next `chunk` rows.
    fn advance(&mut self, chunk: usize) -> Result<()> {
        match self {
            Self::Repeated(added, array) => {
                if array.as_ref().is_none_or(|array| array.len() < chunk) {
                    *array = added.repeated(chunk);
                }
            }
            Self::Numbers { cursor, path, values, used, rows } => {
                values.clear();
                while values.len() < chunk {
                    if used == rows {
                        (*used, *rows) = (0, cursor.advance()?);
                        if *rows == 0 {
                            let detail = "it ended before the table it belongs to";
                            return Err(Error::malformed(path, "target file", detail));
                        }
                    }
                    let (have, take) = (values.len(), (chunk - values.len()).min(*rows - *used));
                    values.resize(have + take, 0.0);
                    cursor.view(0)?.load(Positions::From(*used), &mut values[have..]);
                    *used += take;
                }
            }
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        let none = View { values: Values::of::<f64>(&[]), nulls: None };
        match self {
            Self::Repeated(_, array) => array.as_deref().and_then(plain::view).unwrap_or(none),
            Self::Numbers { values, .. } => View { values: Values::of(values), nulls: None },
        }
    }
}

struct ExtendedCursor<'a> {
    file: BoxedCursor<'a>,
    added: Vec<AddedColumn<'a>>,
    places: Vec<Place>,
}

impl FileCursor for ExtendedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.file.advance()?;
        self.added.iter_mut().try_for_each(|added| added.advance(rows))?;
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let own = self.places.iter().take(columns).all(|place| matches!(place, Place::Own(_)));
        let rows = if own { self.file.advance_into(element, columns, x)? } else { None };
        self.added.iter_mut().try_for_each(|added| rows.map_or(Ok(()), |rows| added.advance(rows)))?;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        match self.places[index] {
            Place::Own(place) => self.file.view(place),
            Place::Added(place) => Ok(self.added[place].view()),
        }
    }
}

/// The rest of a table of which a shard is here: a stand-in that knows its columns and how many rows it would have.
#[derive(Debug)]
pub(crate) struct Absent {
    schema: Schema,
    /// Their numbers in the whole table.
    rows: Range<u64>,
}

impl Absent {
    pub(crate) fn new(schema: Schema, rows: Range<u64>) -> Self {
        Self { schema, rows }
    }
}

impl TableFile for Absent {
    fn facts(&self) -> Facts<'_> {
        let rows = self.rows.end - self.rows.start;
        Facts { format: "absent", schema: &self.schema, rows, bytes: 0, scanned: 0 }
    }

    fn footprint(&self, _: &[usize]) -> usize {
        0
    }

    fn open(&self, _: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let number = |row: u64| self.rows.start + row;
        Err(Error::Elsewhere { rows: number(rows.start)..number(rows.end) })
    }
}
