//! Files of one table whose columns differ: each is read as if it had the columns of all, found by their names.
//!
//! | in one file | in another | in the table |
//! |---|---|---|
//! | whole numbers | whole numbers of another width | the wider ones |
//! | whole numbers or floats | floats | float64 |
//! | dates, times | the same in another unit | the finer unit |
//! | no value at all | anything | what the other file holds |
//! | no such column | anything | what the other file holds; missing in the first |
//! | anything | what cannot be joined with it | a column that cannot be read |

use super::{
    Added, BoxedCursor, Extended, Facts, FileCursor, Positions, TableFile, TextReading, View, by_extension, missing,
    plain,
};
use crate::arrow::array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use crate::arrow::datatypes::DataType;
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result, condition::Bound, dates};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most bytes of a column in the chunk of a file of one column: see `positioned::chunk_bytes`.
const CHUNK_BYTES: usize = 256 << 10;

/// A column of the table, as the files so far have it.
struct Joined<'a> {
    column: Column,
    /// The first file that has a value there.
    first: Option<&'a Path>,
    files: usize,
}

/// The columns of several files as those of one table, and what to say of the files that differ; `None` if none does.
///
/// Files without rows have no say unless all are so.
///
/// # Errors
/// [`Error::SchemaMismatch`] for columns that are known by their places, as those of arrays are or `by_place` says, if files have different
/// numbers of them.
pub(crate) fn union(files: &[(&Path, &Arc<dyn TableFile>)], by_place: bool) -> Result<(Schema, Option<String>)> {
    let some = files.iter().any(|(_, file)| file.facts().rows > 0);
    let files: Vec<_> = files.iter().filter(|(_, file)| !some || file.facts().rows > 0).collect();
    let (mut columns, mut places, mut row_labels) = (Vec::<Joined<'_>>::new(), HashMap::new(), Vec::new());
    let (mut notes, mut label) = (Vec::new(), None);
    for (path, file) in &files {
        let schema = file.facts().schema;
        let matrix = by_extension(path).is_some_and(|format| format.is_matrix() || format.is_labelled());
        let (own, others) = (schema.columns.len(), columns.len());
        if own != others && others > 0 && (by_place || matrix || !file.is_named()) {
            let difference = format!(
                "it has {own} columns instead of {others}, and they are known by their places; give both as many (`width` in svmlight files)"
            );
            let (first, second) = (files[0].0.to_path_buf(), path.to_path_buf());
            return Err(Error::SchemaMismatch { first, second, difference });
        }
        for (at, (key, new)) in keyed(schema).enumerate() {
            let place = *places.entry(key).or_insert(columns.len());
            if place == columns.len() {
                columns.push(Joined { column: new.clone(), first: None, files: 0 });
            }
            let Joined { column: Column { name, kind }, first, files } = &mut columns[place];
            *files += 1;
            if schema.row_labels.contains(&at) && !row_labels.contains(&place) {
                row_labels.push(place);
            }
            if schema.label == Some(at) {
                label = Some(place);
            }
            if file.is_blank(at) {
                continue;
            }
            let Some(first) = first else {
                (*kind, *first) = (new.kind.clone(), Some(*path));
                continue;
            };
            *kind = wider(kind, &new.kind).unwrap_or_else(|| {
                let what = format!("{kind} in {} and {} in {}", first.display(), new.kind, path.display());
                notes.push(format!("column {name} cannot be read: it holds {what}"));
                Kind::Other(what)
            });
        }
    }
    for Joined { column: Column { name, kind }, files: with, .. } in &mut columns {
        let (all, without) = (files.len(), files.len() - *with);
        match kind {
            _ if without == 0 => continue,
            // a sparse row has no missing value to stand for the others
            Kind::Sparse(_) => *kind = Kind::Other("sparse rows in some files and nothing in others".to_string()),
            _ => {}
        }
        notes.push(format!("files without column {name}: {without} of {all}; it is missing in their rows"));
    }
    let more = notes.len().saturating_sub(1);
    let note = notes.into_iter().next().map(|first| match more {
        0 => first,
        more => format!("{first}; other columns that differ between the files: {more}"),
    });
    Ok((Schema { columns: columns.into_iter().map(|joined| joined.column).collect(), row_labels, label }, note))
}

/// The columns of a schema, each with its name and the number of columns before it that have the same name.
fn keyed(schema: &Schema) -> impl Iterator<Item = ((&str, usize), &Column)> {
    let mut times = HashMap::<&str, usize>::new();
    schema.columns.iter().map(move |column| {
        let before = times.entry(&column.name).or_default();
        *before += 1;
        ((column.name.as_str(), *before - 1), column)
    })
}

/// The kind that holds the values of both; `None` if there is none.
fn wider(a: &Kind, b: &Kind) -> Option<Kind> {
    Some(match (a, b) {
        _ if a == b => a.clone(),
        // what cannot be read stays so
        (Kind::Other(_), _) => a.clone(),
        (Kind::Sparse(a), Kind::Sparse(b)) => Kind::Sparse(a.both(*b)),
        (Kind::Float { .. }, Kind::Float { .. } | Kind::Int { .. }) | (Kind::Int { .. }, Kind::Float { .. }) => {
            Kind::Float { bits: 64 }
        }
        (Kind::Int { bits: a, signed }, Kind::Int { bits: b, signed: other }) if signed == other => {
            Kind::Int { bits: *a.max(b), signed: *signed }
        }
        (Kind::Int { signed: false, bits }, Kind::Int { .. })
        | (Kind::Int { .. }, Kind::Int { signed: false, bits })
            if *bits < 64 =>
        {
            Kind::Int { bits: 64, signed: true }
        }
        (Kind::Time(a), Kind::Time(b)) if are_alike(a, b) => {
            Kind::Time(if dates::per_day(a) < dates::per_day(b) { b.clone() } else { a.clone() })
        }
        _ => return None,
    })
}

/// True for times of one nature that differ in their unit.
fn are_alike(a: &DataType, b: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match (a, b) {
        (Timestamp(_, zone), Timestamp(_, other)) => zone == other,
        (Date32, Timestamp(_, zone)) | (Timestamp(_, zone), Date32) => zone.is_none(),
        (Date32 | Date64, Date32 | Date64) | (Duration(_), Duration(_)) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        _ => false,
    }
}

/// A file as a part of a table that has more columns, others, or in another order.
#[derive(Debug)]
pub(crate) struct United {
    path: PathBuf,
    /// With the columns that it lacks behind its own.
    file: Extended,
    schema: Arc<Schema>,
    /// For each column of the table its place in the file.
    places: Vec<usize>,
}

impl United {
    /// The file with the columns of `schema`, which is a union that it took part in; the file itself if it has just these.
    pub(crate) fn of(path: &Path, file: &Arc<dyn TableFile>, schema: &Arc<Schema>) -> Arc<dyn TableFile> {
        let own = file.facts().schema;
        let same = |(own, column): (&Column, &Column)| own.name == column.name && is_same(&own.kind, &column.kind);
        if own.columns.len() == schema.columns.len() && own.columns.iter().zip(&schema.columns).all(same) {
            return Arc::clone(file);
        }
        let known: HashMap<_, usize> = keyed(own).map(|(key, _)| key).zip(0..).collect();
        let (mut places, mut lacking) = (Vec::new(), Vec::new());
        for (key, column) in keyed(schema) {
            places.push(known.get(&key).copied().unwrap_or_else(|| {
                lacking.push((column.name.clone(), Added::Missing(column.kind.clone())));
                own.columns.len() + lacking.len() - 1
            }));
        }
        let file = Extended::with(Arc::clone(file), lacking);
        Arc::new(Self { path: path.to_path_buf(), file, schema: Arc::clone(schema), places })
    }

    /// The kind of a column in the file, if it is another than that of the table.
    fn from(&self, column: usize) -> Option<&Kind> {
        let own = &self.file.facts().schema.columns[self.places[column]].kind;
        (!is_same(own, &self.schema.columns[column].kind)).then_some(own)
    }
}

/// True for kinds whose values are read alike.
fn is_same(own: &Kind, table: &Kind) -> bool {
    own == table || matches!((own, table), (Kind::Sparse(_), Kind::Sparse(_)))
}

impl TableFile for United {
    fn facts(&self) -> Facts<'_> {
        Facts { schema: &self.schema, ..self.file.facts() }
    }

    fn note(&self) -> Option<String> {
        self.file.note()
    }

    fn reading(&self) -> TextReading {
        self.file.reading()
    }

    fn is_named(&self) -> bool {
        self.file.is_named()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.file.line(row)
    }

    fn held(&self) -> usize {
        self.file.held()
    }

    fn footprint(&self, columns: &[usize]) -> usize {
        let places: Vec<usize> = columns.iter().map(|column| self.places[*column]).collect();
        let made = columns.iter().filter(|column| self.from(**column).is_some()).count();
        // a column of bytes has as many rows in a chunk as bytes, and each value becomes at most a view
        let chunk = CHUNK_BYTES.max(columns.len() * (16 << 10)).saturating_mul(size_of::<u128>());
        self.file.footprint(&places) + chunk * made / columns.len().max(1)
    }

    fn candidates(&self, column: usize, condition: &Bound) -> Vec<Range<u64>> {
        match self.from(column) {
            None => self.file.candidates(self.places[column], condition),
            Some(_) => std::iter::once(0..self.facts().rows).collect(),
        }
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let places: Vec<usize> = columns.iter().map(|column| self.places[*column]).collect();
        let (row, made) = (rows.start, vec![None; columns.len()]);
        Ok(Box::new(UnitedCursor {
            of: self,
            file: self.file.open(&places, rows, read)?,
            columns: columns.to_vec(),
            made,
            row,
        }))
    }
}

struct UnitedCursor<'a> {
    of: &'a United,
    file: BoxedCursor<'a>,
    columns: Vec<usize>,
    /// The columns of the chunk that have another kind in the file.
    made: Vec<Option<ArrayRef>>,
    /// Behind the last row of the chunk.
    row: u64,
}

impl FileCursor for UnitedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.file.advance()?;
        // at the end a file has no column to look at
        for (index, (column, made)) in self.columns.iter().zip(&mut self.made).enumerate().filter(|_| rows > 0) {
            let Some(from) = self.of.from(*column) else { continue };
            let Column { name, kind } = &self.of.schema.columns[*column];
            *made = Some(converted(&self.file.view(index)?, rows, from, kind).map_err(|at| {
                let (path, row) = (self.of.path.clone(), self.row + at as u64);
                let (line, column) = (self.of.line(row), name.clone());
                let value = format!("a value that does not fit {kind}, which other files hold there");
                let remedy = "write the column of all files in one type, or leave it out with `features`";
                Error::BadValue { path, row, line, column, value, remedy }
            })?);
        }
        self.row += rows as u64;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let made = self.made[index].as_ref().and_then(|array| plain::view(array.as_ref()));
        made.map_or_else(|| self.file.view(index), Ok)
    }
}

/// The rows of a column as values of another kind, which is wider or holds what a column without values might have; the first row
/// that does not fit as an error.
fn converted(view: &View<'_>, rows: usize, from: &Kind, to: &Kind) -> Result<ArrayRef, usize> {
    let nulls = view.nulls.map(|nulls| nulls.slice(0, rows));
    let factor = match (from, to) {
        (Kind::Float { .. } | Kind::Int { .. }, Kind::Float { .. }) => {
            let mut numbers = vec![0.0; rows];
            view.load(Positions::From(0), &mut numbers);
            return Ok(Arc::new(Float64Array::new(numbers.into(), nulls)));
        }
        (Kind::Int { .. }, Kind::Int { .. }) => 1,
        (Kind::Time(from), Kind::Time(to)) => i128::from(dates::per_day(to) / dates::per_day(from)),
        _ => {
            let value = (0..rows).find(|row| !view.is_null(*row));
            return value.map_or_else(|| Ok(missing(rows, to)), Err);
        }
    };
    let whole = |row: usize| if view.is_null(row) { Some(0) } else { view.integer(row)?.checked_mul(factor) };
    if let Kind::Int { signed: false, .. } = to {
        let value = |row: usize| whole(row).and_then(|whole| u64::try_from(whole).ok()).ok_or(row);
        let values = (0..rows).map(value).collect::<Result<Vec<u64>, usize>>()?;
        return Ok(Arc::new(UInt64Array::new(values.into(), nulls)));
    }
    let value = |row: usize| whole(row).and_then(|whole| i64::try_from(whole).ok()).ok_or(row);
    let values = (0..rows).map(value).collect::<Result<Vec<i64>, usize>>()?;
    Ok(Arc::new(Int64Array::new(values.into(), nulls)))
}
