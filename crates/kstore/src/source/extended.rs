//! Wrappers of files: a file with other columns than it stores, a decompressed file, and a
//! placeholder for rows that this process does not have.

use super::positioned::BLOCK_BYTES;
use super::united::{converted, is_same, keyed};
use super::{BoxedCursor, Element, Facts, FileCursor, Positions, TableFile, TextReading, Values, View, plain};
use crate::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray};
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result, condition::Bound};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Name of the column of a target file.
pub const TARGET: &str = "y";

/// Name of the group column in formats whose rows begin with a group.
pub const QUERY: &str = "qid";

/// Maximum rows of a chunk that readers return, for the memory plan.
const CHUNK_ROWS: usize = 256 << 10;

#[derive(Clone, Debug)]
pub(crate) enum Added {
    /// The same integer or text in every row; `None` for a missing value.
    Integer(Option<i64>),
    Text(Option<String>),
    /// Missing in every row.
    Missing(Kind),
    /// The numbers of a file with one column, from row `start` on, converted to f64.
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

    /// Returns the same value for this many rows; `None` if rows differ.
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

pub(super) fn missing(rows: usize, kind: &Kind) -> ArrayRef {
    match kind {
        Kind::Float { .. } => Arc::new(Float64Array::new_null(rows)),
        Kind::Bool | Kind::Int { .. } | Kind::Time(_) => Arc::new(Int64Array::new_null(rows)),
        _ => Arc::new(StringViewArray::new_null(rows)),
    }
}

/// The source of the values of a column.
#[derive(Debug)]
enum Origin {
    /// A column of the file; `Converted` if the table has another kind.
    Own(usize),
    Converted(usize),
    Added(Added),
}

/// A file with other columns than it stores: some added, in another order, or converted to the kind
/// in other files.
#[derive(Debug)]
pub(crate) struct Extended {
    path: PathBuf,
    file: Arc<dyn TableFile>,
    schema: Arc<Schema>,
    origins: Vec<Origin>,
    /// Bytes on disk of the compressed file, if the file was unpacked.
    packed: Option<u64>,
}

impl Extended {
    /// Adds the columns that the file does not have itself.
    pub(crate) fn new(path: &Path, file: Arc<dyn TableFile>, columns: Vec<(String, Added)>) -> Self {
        let mut schema = file.facts().schema.clone();
        let mut origins: Vec<_> = (0..schema.columns.len()).map(Origin::Own).collect();
        for (name, added) in columns.into_iter().filter(|(name, _)| file.facts().schema.position(name).is_none()) {
            schema.columns.push(Column { name, kind: added.kind() });
            origins.push(Origin::Added(added));
        }
        Self { path: path.to_path_buf(), file, schema: Arc::new(schema), origins, packed: None }
    }

    /// Returns an unpacked file whose compressed size on disk is `bytes`.
    #[cfg(feature = "compressed")]
    pub(super) fn unpacked(path: &Path, file: Arc<dyn TableFile>, bytes: u64) -> Self {
        Self { packed: Some(bytes), ..Self::new(path, file, Vec::new()) }
    }

    /// Returns the file with the columns of `schema`, a union that includes it; the file itself if
    /// its columns are the same.
    pub(crate) fn united(path: &Path, file: &Arc<dyn TableFile>, schema: &Arc<Schema>) -> Arc<dyn TableFile> {
        let own = &file.facts().schema.columns;
        let known: HashMap<_, usize> = keyed(file.facts().schema).map(|(key, _)| key).zip(0..).collect();
        let origin = |(key, column): (_, &Column)| match known.get(&key) {
            None => Origin::Added(Added::Missing(column.kind.clone())),
            Some(at) if is_same(&own[*at].kind, &column.kind) => Origin::Own(*at),
            Some(at) => Origin::Converted(*at),
        };
        let origins: Vec<Origin> = keyed(schema).map(origin).collect();
        let in_order = origins.iter().enumerate().all(|(at, origin)| matches!(origin, Origin::Own(own) if *own == at));
        if in_order && origins.len() == own.len() {
            return Arc::clone(file);
        }
        let (path, file, schema) = (path.to_path_buf(), Arc::clone(file), Arc::clone(schema));
        Arc::new(Self { path, file, schema, origins, packed: None })
    }

    /// Returns the file's columns that some columns need.
    fn own(&self, columns: &[usize]) -> Vec<usize> {
        let own = |column: &usize| match self.origins[*column] {
            Origin::Own(at) | Origin::Converted(at) => Some(at),
            Origin::Added(_) => None,
        };
        columns.iter().filter_map(own).collect()
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

    fn is_named(&self) -> bool {
        self.file.is_named()
    }

    fn is_blank(&self, column: usize) -> bool {
        match &self.origins[column] {
            Origin::Own(at) | Origin::Converted(at) => self.file.is_blank(*at),
            Origin::Added(added) => {
                matches!(added, Added::Integer(None) | Added::Text(None) | Added::Missing(_))
            }
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
        // a chunk of one-byte values has as many rows as bytes, and each value may become a text
        let chunk = BLOCK_BYTES.max(columns.len() * (16 << 10)).saturating_mul(3 * size_of::<u128>());
        let more = |column: &usize| match &self.origins[*column] {
            Origin::Own(_) => 0,
            Origin::Converted(_) => chunk / columns.len(),
            Origin::Added(added) => added.footprint(),
        };
        self.file.footprint(&self.own(columns)) + columns.iter().map(more).sum::<usize>()
    }

    /// A condition on a value that all rows share excludes the whole file, or nothing.
    fn candidates(&self, column: usize, condition: &Bound) -> Vec<Range<u64>> {
        let all = std::iter::once(0..self.facts().rows).collect();
        let added = match &self.origins[column] {
            Origin::Own(at) => return self.file.candidates(*at, condition),
            Origin::Converted(_) => return all,
            Origin::Added(added) => added.repeated(1),
        };
        let mut found = Vec::new();
        added.as_deref().and_then(plain::view).iter().for_each(|view| condition.select(view, 1, &mut found));
        if added.is_some() && found.is_empty() { Vec::new() } else { all }
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let mut own = 0..;
        let mut opened = |column: &usize| {
            let mut next = || own.next().unwrap_or_default();
            Ok(match &self.origins[*column] {
                Origin::Own(_) => OpenColumn::Own(next()),
                Origin::Converted(at) => OpenColumn::Converted { own: (next(), *at), column: *column, made: None },
                Origin::Added(Added::Numbers { file, path, start }) => {
                    let cursor = file.open(&[0], rows.start + start..rows.end + start, read)?;
                    OpenColumn::Numbers { cursor, path, values: Vec::new(), used: 0, rows: 0 }
                }
                Origin::Added(added) => OpenColumn::Repeated(added, added.repeated(0)),
            })
        };
        let columns_open = columns.iter().map(&mut opened).collect::<Result<_>>()?;
        let row = rows.start;
        let file = self.file.open(&self.own(columns), rows, read)?;
        Ok(Box::new(ExtendedCursor { of: self, file, columns: columns_open, row }))
    }
}

enum OpenColumn<'a> {
    /// A column of the file, by its index in the file's cursor.
    Own(usize),
    /// `position`: index in the file's cursor and in the file; `array`: the values of the chunk,
    /// converted to the kind of the table's column.
    Converted { own: (usize, usize), column: usize, made: Option<ArrayRef> },
    /// The same value, for as many rows as the longest chunk so far.
    Repeated(&'a Added, Option<ArrayRef>),
    /// Numbers of another file: the first `used` of the `rows` rows of its chunk were returned.
    Numbers { cursor: BoxedCursor<'a>, path: &'a Path, values: Vec<f64>, used: usize, rows: usize },
}

impl OpenColumn<'_> {
    /// Reads the values of the next `chunk` rows, which start at row `first`.
    fn advance(&mut self, of: &Extended, file: &BoxedCursor<'_>, chunk: usize, first: u64) -> Result<()> {
        match self {
            // at the end, the file has no column to view
            Self::Converted { own: (place, at), column, made } if chunk > 0 => {
                let Column { name, kind } = &of.schema.columns[*column];
                // the kind of a column without values is a guess and must not convert values that
                // appear later
                let from = if of.file.is_blank(*at) { &Kind::Text } else { &of.file.facts().schema.columns[*at].kind };
                *made = Some(converted(&file.view(*place)?, chunk, from, kind).map_err(|at| {
                    let (path, row) = (of.path.clone(), first + at as u64);
                    let (line, column) = (of.line(row), name.clone());
                    let value = format!("a value that does not fit {kind}, the type of the column in other files");
                    let remedy = "write the column with the same type in all files, or exclude it with `features`";
                    Error::BadValue { path, row, line, column, value, remedy }
                })?);
            }
            Self::Own(_) | Self::Converted { .. } => {}
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
                            let detail = "it has fewer rows than the table it belongs to";
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
}

struct ExtendedCursor<'a> {
    of: &'a Extended,
    file: BoxedCursor<'a>,
    columns: Vec<OpenColumn<'a>>,
    /// Row after the last row of the chunk.
    row: u64,
}

impl ExtendedCursor<'_> {
    fn others(&mut self, rows: usize) -> Result<()> {
        let Self { of, file, columns, row } = self;
        columns.iter_mut().try_for_each(|column| column.advance(of, file, rows, *row))?;
        *row += rows as u64;
        Ok(())
    }
}

impl FileCursor for ExtendedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.file.advance()?;
        self.others(rows)?;
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        if !self.columns.iter().take(columns).all(|column| matches!(column, OpenColumn::Own(_))) {
            return Ok(None);
        }
        let rows = self.file.advance_into(element, columns, x)?;
        rows.map_or(Ok(()), |rows| self.others(rows))?;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let array = match &self.columns[index] {
            OpenColumn::Own(place) => return self.file.view(*place),
            OpenColumn::Numbers { values, .. } => return Ok(View { values: Values::of(values), nulls: None }),
            OpenColumn::Converted { made, .. } => made,
            OpenColumn::Repeated(_, array) => array,
        };
        let none = View { values: Values::of::<f64>(&[]), nulls: None };
        Ok(array.as_deref().and_then(plain::view).unwrap_or(none))
    }
}

/// Placeholder for the rows of a table that are not in this shard: it has their columns and row
/// numbers, but no values.
#[derive(Debug)]
pub(crate) struct Absent {
    schema: Schema,
    /// Row numbers in the whole table.
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
