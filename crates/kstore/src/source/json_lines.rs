//! JSON lines: an object on every line, `{"city": "Ulm", "x": 1.5}`.
//!
//! The columns are the keys, in the order in which they first appear; a key that a line leaves out, and null, are missing values. A column holds truths,
//! whole numbers, numbers or text; another mixture, lists and objects are errors with their line. The file is read twice when it is opened, once for the
//! columns and once to write the rows as an Arrow file without a name (see [`super::spool`]), which is read from then on. Rows are counted without empty
//! lines.

use super::spool::{Spooled, gathering, length, unnamed};
use super::{TableFile, TextOptions, ipc::IpcFile};
use crate::arrow::array::{ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder};
use crate::arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use crate::arrow::ipc::writer::FileWriter;
use crate::{BadLine, Error, Result};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

/// Name of the format.
const FORMAT: &str = "JSON lines";

/// Rows written at a time.
const BATCH: usize = 4096;

/// Most bytes of a line: a longer one is no row.
const LINE_LIMIT: u64 = 16 << 20;

/// Opens a file of JSON lines.
pub(super) fn open(path: &Path, file: File, _: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let bytes = length(path, &file)?;
    let mut lines = Lines { path, reader: BufReader::with_capacity(1 << 20, file), line: 0, row: 0, text: Vec::new() };
    let columns = Columns::of(&mut lines)?;
    lines.rewind()?;
    let inner = IpcFile::of(path, columns.write(&mut lines)?)?;
    Ok(Arc::new(Spooled { inner: Arc::new(inner), format: Some(FORMAT), bytes }))
}

/// The pairs of an object, in their order.
struct Pairs(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// The lines of a file.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    /// Number of lines, and of rows, that were read.
    line: u64,
    row: u64,
    text: Vec<u8>,
}

impl Lines<'_> {
    fn rewind(&mut self) -> Result<()> {
        (self.line, self.row) = (0, 0);
        self.reader.rewind().map_err(Error::io("read", self.path))
    }

    /// The next object; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<(String, Value)>>> {
        loop {
            self.text.clear();
            let limited = (&mut self.reader).take(LINE_LIMIT).read_until(b'\n', &mut self.text);
            if limited.map_err(Error::io("read", self.path))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.text.len() as u64 == LINE_LIMIT {
                return Err(self.bad(
                    None,
                    "a line of at most 16 MiB",
                    "a longer one",
                    "is it one object on each line?",
                ));
            }
            if self.text.trim_ascii().is_empty() {
                continue;
            }
            self.row += 1;
            return match serde_json::from_slice::<Pairs>(&self.text) {
                Ok(pairs) => Ok(Some(pairs.0)),
                Err(error) => {
                    let found = format!("something else ({error})");
                    Err(self.bad(None, "an object such as {\"x\": 1.5}", &found, "correct the line, or remove it"))
                }
            };
        }
    }

    /// The error of the line that was read last.
    fn bad(&self, column: Option<&str>, expected: &str, found: &str, remedy: &str) -> Error {
        BadLine {
            path: self.path.to_path_buf(),
            row: self.row.saturating_sub(1),
            line: self.line,
            column: column.map(str::to_string),
            expected: expected.to_string(),
            found: found.to_string(),
            remedy: remedy.to_string(),
        }
        .into()
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Nothing yet but missing values.
    Nothing,
    Truths,
    Integers,
    Numbers,
    Text,
}

impl Holds {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Nothing),
            Value::Bool(_) => Some(Self::Truths),
            Value::Number(number) if number.is_i64() => Some(Self::Integers),
            Value::Number(_) => Some(Self::Numbers),
            Value::String(_) => Some(Self::Text),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// What holds both; `None` where nothing does.
    fn with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (one, two) if one == two => Some(one),
            (Self::Nothing, other) | (other, Self::Nothing) => Some(other),
            (Self::Integers, Self::Numbers) | (Self::Numbers, Self::Integers) => Some(Self::Numbers),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "null",
            Self::Truths => "true or false",
            Self::Integers | Self::Numbers => "a number",
            Self::Text => "text",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Truths => DataType::Boolean,
            Self::Integers => DataType::Int64,
            Self::Nothing | Self::Numbers => DataType::Float64,
            Self::Text => DataType::Utf8,
        }
    }
}

/// The columns of a file.
struct Columns {
    names: Vec<String>,
    holds: Vec<Holds>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Finds the columns: one pass.
    fn of(lines: &mut Lines<'_>) -> Result<Self> {
        let mut found = Self { names: Vec::new(), holds: Vec::new(), places: HashMap::new() };
        while let Some(pairs) = lines.next()? {
            for (name, value) in pairs {
                let Some(new) = Holds::of(&value) else {
                    let remedy = "write its parts as columns of their own, or leave it out";
                    return Err(lines.bad(
                        Some(&name),
                        "a number, text, true, false or null",
                        "a list or an object",
                        remedy,
                    ));
                };
                let place = match found.places.get(&name) {
                    Some(place) => *place,
                    None => {
                        found.places.insert(name.clone(), found.names.len());
                        found.names.push(name.clone());
                        found.holds.push(Holds::Nothing);
                        found.names.len() - 1
                    }
                };
                let before = found.holds[place];
                found.holds[place] = before.with(new).ok_or_else(|| {
                    lines.bad(Some(&name), before.name(), new.name(), "write the values of a column in one type")
                })?;
            }
            if found.names.len() > super::text::COLUMN_LIMIT {
                let most = format!("at most {} columns", super::text::COLUMN_LIMIT);
                return Err(lines.bad(None, &most, "more", "write dense rows, or hash the keys"));
            }
        }
        match found.names.is_empty() {
            true => {
                Err(Error::Malformed { path: lines.path.to_path_buf(), format: FORMAT, detail: "it is empty".into() })
            }
            false => Ok(found),
        }
    }

    /// Writes the rows as an Arrow file: one pass.
    fn write(&self, lines: &mut Lines<'_>) -> Result<File> {
        let failed = |error: crate::arrow::error::ArrowError| match error {
            crate::arrow::error::ArrowError::IoError(_, error) => Error::io("write", std::env::temp_dir())(error),
            other => Error::Malformed { path: lines.path.to_path_buf(), format: FORMAT, detail: other.to_string() },
        };
        let fields = self.names.iter().zip(&self.holds).map(|(name, holds)| Field::new(name, holds.data_type(), true));
        let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
        let mut out = FileWriter::try_new(gathering(unnamed()?), &schema).map_err(failed)?;
        let (mut row, mut rows) = (vec![Value::Null; self.names.len()], Vec::new());
        loop {
            let pairs = lines.next()?;
            let last = pairs.is_none();
            for (name, value) in pairs.into_iter().flatten() {
                if let Some(place) = self.places.get(&name) {
                    row[*place] = value;
                }
            }
            if !last {
                rows.push(std::mem::replace(&mut row, vec![Value::Null; self.names.len()]));
            }
            if rows.len() == BATCH || (last && !rows.is_empty()) {
                let arrays =
                    self.holds.iter().enumerate().map(|(j, holds)| array(*holds, rows.iter().map(|row| &row[j])));
                let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect()).map_err(failed)?;
                out.write(&batch).map_err(failed)?;
                rows.clear();
            }
            if last {
                let file = out.into_inner().map_err(failed)?;
                return file.into_inner().map_err(|error| Error::io("write", std::env::temp_dir())(error.into_error()));
            }
        }
    }
}

/// Values as a column.
fn array<'v>(holds: Holds, values: impl Iterator<Item = &'v Value>) -> ArrayRef {
    match holds {
        Holds::Truths => {
            let mut out = BooleanBuilder::new();
            values.for_each(|value| out.append_option(value.as_bool()));
            Arc::new(out.finish())
        }
        Holds::Integers => {
            let mut out = Int64Builder::new();
            values.for_each(|value| out.append_option(value.as_i64()));
            Arc::new(out.finish())
        }
        Holds::Nothing | Holds::Numbers => {
            let mut out = Float64Builder::new();
            values.for_each(|value| out.append_option(value.as_f64()));
            Arc::new(out.finish())
        }
        Holds::Text => {
            let mut out = StringBuilder::new();
            values.for_each(|value| out.append_option(value.as_str()));
            Arc::new(out.finish())
        }
    }
}
