//! Folders that name the values of a column, as Hive, Spark and DuckDB write them: `sales/year=2026/city=Ulm/part-0.parquet`.
//!
//! Every `name=value` among the folders of a path is a column of that file's rows, behind the columns of the file; a column that the file has itself counts
//! instead. The column holds whole numbers where all values of all files are some, else text. `%2F` in a value stands for the letter with that code, and
//! `__HIVE_DEFAULT_PARTITION__` for a missing value.

use super::{Element, FileCursor, TableFile, Values, View};
use crate::Result;
use crate::arrow::array::StringViewArray;
use crate::arrow::buffer::NullBuffer;
use crate::condition::Bound;
use crate::schema::{Column, Kind, Schema};
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The value that stands for a missing one.
const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// Most rows of a chunk that readers hand out, for the plan of memory.
const CHUNK_ROWS: usize = 256 << 10;

/// The names and values in the folders of a path; `None` for a missing value.
pub(crate) fn values(path: &Path) -> Vec<(String, Option<String>)> {
    let folders = path.parent().into_iter().flat_map(Path::components).filter_map(|component| match component {
        Component::Normal(name) => name.to_str()?.split_once('='),
        _ => None,
    });
    let pair = |(name, value): (&str, &str)| (name.to_string(), (value != MISSING).then(|| decoded(value)));
    folders.filter(|(name, _)| !name.is_empty()).map(pair).collect()
}

/// A text with `%20` and its like as the letters they stand for.
fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let code =
            bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(letter) => {
                out.push(letter);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// The values of the files as columns: for each file those that its folders name, in the type that suits the values of all files.
pub(crate) fn constants(files: &[Vec<(String, Option<String>)>]) -> Vec<Vec<Constant>> {
    let whole = |name: &str| {
        let mut values =
            files.iter().flatten().filter(|(other, _)| other == name).filter_map(|(_, value)| value.as_ref());
        values.all(|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == *value))
    };
    let constant = |(name, value): &(String, Option<String>)| {
        let value = match whole(name) {
            true => Value::Integer(value.as_ref().and_then(|value| value.parse().ok())),
            false => Value::Text(value.clone()),
        };
        Constant { name: name.clone(), value }
    };
    files.iter().map(|values| values.iter().map(constant).collect()).collect()
}

/// A column with one value.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    name: String,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
}

/// A file with columns that its path names.
#[derive(Debug)]
pub(crate) struct Partitioned {
    file: Arc<dyn TableFile>,
    constants: Vec<Constant>,
    schema: Schema,
}

impl Partitioned {
    /// Adds the columns that the file does not have itself.
    pub(crate) fn new(file: Arc<dyn TableFile>, constants: Vec<Constant>) -> Self {
        let mut schema = file.schema().clone();
        let constants: Vec<Constant> =
            constants.into_iter().filter(|constant| schema.position(&constant.name).is_none()).collect();
        schema.columns.extend(constants.iter().map(|constant| Column {
            name: constant.name.clone(),
            kind: match constant.value {
                Value::Integer(_) => Kind::Int { bits: 64, signed: true },
                Value::Text(_) => Kind::Text,
            },
        }));
        Self { file, constants, schema }
    }

    /// Number of columns of the file itself.
    fn own(&self) -> usize {
        self.schema.columns.len() - self.constants.len()
    }
}

impl TableFile for Partitioned {
    fn format(&self) -> &'static str {
        self.file.format()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.file.rows()
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn scanned(&self) -> u64 {
        self.file.scanned()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.file.line(row)
    }

    fn held(&self) -> usize {
        self.file.held()
    }

    fn footprint(&self, columns: &[usize]) -> usize {
        let (own, constants): (Vec<usize>, Vec<usize>) = columns.iter().partition(|column| **column < self.own());
        self.file.footprint(&own) + constants.len() * 16 * CHUNK_ROWS
    }

    /// A condition on a value of the path rules out the whole file, or nothing.
    fn candidates(&self, column: usize, condition: &Bound) -> Vec<Range<u64>> {
        let Some(constant) = column.checked_sub(self.own()).map(|at| &self.constants[at]) else {
            return self.file.candidates(column, condition);
        };
        let (repeated, mut found) = (Repeated::of(constant, 1), Vec::new());
        condition.select(&repeated.view(), 1, &mut found);
        if found.is_empty() { Vec::new() } else { std::iter::once(0..self.rows()).collect() }
    }

    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        let mut own = Vec::new();
        let place = |column: &usize| match column.checked_sub(self.own()) {
            Some(constant) => Place::Constant(&self.constants[constant], None),
            None => {
                own.push(*column);
                Place::Own(own.len() - 1)
            }
        };
        let places = columns.iter().map(place).collect();
        Ok(Box::new(PartitionedCursor { file: self.file.open(&own, rows, read)?, places }))
    }
}

/// The same value many times.
enum Repeated {
    Integers(Vec<i64>, Option<NullBuffer>),
    Texts(StringViewArray),
}

impl Repeated {
    fn of(constant: &Constant, rows: usize) -> Self {
        match &constant.value {
            Value::Integer(value) => {
                let nulls = value.is_none().then(|| NullBuffer::new_null(rows));
                Self::Integers(vec![value.unwrap_or_default(); rows], nulls)
            }
            Value::Text(value) => Self::Texts(std::iter::repeat_n(value.as_deref(), rows).collect()),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Integers(values, _) => values.len(),
            Self::Texts(values) => crate::arrow::array::Array::len(values),
        }
    }

    fn view(&self) -> View<'_> {
        match self {
            Self::Integers(values, nulls) => View { values: Values::I64(values), nulls: nulls.as_ref() },
            Self::Texts(values) => {
                let nulls = crate::arrow::array::Array::nulls(values).filter(|nulls| nulls.null_count() > 0);
                View { values: Values::Text(values), nulls }
            }
        }
    }
}

/// Where a column that was asked for comes from.
enum Place<'a> {
    /// The column of the file at this place.
    Own(usize),
    Constant(&'a Constant, Option<Repeated>),
}

struct PartitionedCursor<'a> {
    file: Box<dyn FileCursor + 'a>,
    places: Vec<Place<'a>>,
}

impl PartitionedCursor<'_> {
    /// Repeats the constants for a chunk of so many rows. Views may be longer than the chunk.
    fn repeat(&mut self, rows: usize) {
        for place in &mut self.places {
            if let Place::Constant(constant, repeated) = place
                && repeated.as_ref().is_none_or(|repeated| repeated.rows() < rows)
            {
                *repeated = Some(Repeated::of(constant, rows));
            }
        }
    }
}

impl FileCursor for PartitionedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.file.advance()?;
        self.repeat(rows);
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let own = self.places.iter().take(columns).all(|place| matches!(place, Place::Own(_)));
        let rows = if own { self.file.advance_into(element, columns, x)? } else { None };
        if let Some(rows) = rows {
            self.repeat(rows);
        }
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        match &self.places[index] {
            Place::Own(place) => self.file.view(*place),
            Place::Constant(_, Some(repeated)) => Ok(repeated.view()),
            // asked for before the first chunk: a chunk of no rows
            Place::Constant(..) => Ok(View { values: Values::I64(&[]), nulls: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_values() {
        let found = values(Path::new("a=1/sales/year=2026/city=Neu%20Ulm/kind=__HIVE_DEFAULT_PARTITION__/b=c.parquet"));
        let text = |value: &str| Some(value.to_string());
        let expected = [("a", text("1")), ("year", text("2026")), ("city", text("Neu Ulm")), ("kind", None)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value)));
        assert_eq!(decoded("50%"), "50%");
        assert_eq!(decoded("%zz%41"), "%zzA");
    }

    #[test]
    fn a_column_is_of_whole_numbers_where_all_values_are() {
        let file = |path: &str| values(Path::new(path));
        let found = constants(&[file("year=2026/code=07/a.npy"), file("year=-1/code=7/a.npy")]);
        assert!(found.iter().all(|file| matches!(file[0].value, Value::Integer(Some(_)))), "{found:?}");
        assert!(found.iter().all(|file| matches!(file[1].value, Value::Text(_))), "07 is no number: {found:?}");
    }
}
