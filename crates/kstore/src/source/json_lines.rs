//! JSON lines: an object on every line, `{"city": "Ulm", "x": 1.5}`.
//!
//! The columns are the keys, in the order of their first appearance. An absent key and a null are
//! missing values. A column holds booleans, 64-bit integers, numbers or text; a column with any
//! other mixture of values is an error, which names the line. A column with lists or objects cannot
//! be read. Fractions are rounded correctly. Opening reads the file once, to find its rows and
//! columns. Empty lines are not rows.

use super::text::{
    CONVERT_TO_UTF8, ColumnBuilder, ColumnBuilders, ColumnType, InferredType, LineScanner, RowError, TextChunk,
    TextFormat, TextOptions, TextReadOptions, TextTable,
};
use super::{ColumnView, Format, TableFile};
use crate::schema::{Column, Kind};
use crate::{Result, sparse::MAX_DENSE_COLUMNS};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::{borrow::Cow, collections::HashMap, fs::File, path::Path, sync::Arc};

pub(super) const FORMAT: Format = Format::new(&["jsonl", "ndjson"], open).text();

/// Reads an open file of JSON lines once, to find its rows and the types of its columns; the path
/// is for messages.
fn open(path: &Path, file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let mut table = TextTable::new(path, file, JsonLines { missing_words: options.missing_words.clone() })?;
    let (first_bytes, start) = table.first_block()?;
    if first_bytes[start.offset as usize..].trim_ascii_start().starts_with(b"[") {
        let detail = "it is one JSON array; write each object on a separate line: jq -c '.[]' FILE | kmill … -";
        return Err(table.file.malformed_error(detail));
    }
    drop(first_bytes);
    let (mut columns, mut index_by_name) = (Vec::<(String, InferredType)>::new(), HashMap::<String, usize>::new());
    table.index_rows(start, |_, line| {
        for (name, value) in parse_object(line)? {
            let value_type = infer_type(&value, &options.missing_words);
            let index = index_by_name.get(&*name).copied().unwrap_or_else(|| {
                index_by_name.insert(name.to_string(), columns.len());
                columns.push((name.to_string(), InferredType::Missing));
                columns.len() - 1
            });
            let previous_type = columns[index].1;
            columns[index].1 = previous_type.common_type(value_type).ok_or_else(|| {
                let remedy = "write all values of a column with one type";
                RowError::new(type_name(previous_type), type_name(value_type), remedy).in_column(&name)
            })?;
        }
        match columns.len() > MAX_DENSE_COLUMNS {
            true => {
                let expected = format!("at most {MAX_DENSE_COLUMNS} columns");
                Err(RowError::new(expected, "more", "write dense rows, or hash the keys").into())
            }
            false => Ok(true),
        }
    })?;
    match columns.is_empty() {
        true => Err(table.file.malformed_error("it is empty")),
        false => {
            let all_missing = columns.iter().map(|(_, inferred)| *inferred == InferredType::Missing).collect();
            // if a column has no values, a model may know its type
            let named_kind = |(name, inferred): (String, InferredType)| {
                let is_text = inferred == InferredType::Missing && options.type_of(&name) == Some(ColumnType::Text);
                (name, if is_text { Kind::Text } else { inferred.kind() })
            };
            Ok(Arc::new(table.with_columns(columns.into_iter().map(named_kind)).with_all_missing(all_missing)))
        }
    }
}

/// A key, which is copied only if it is escaped.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

fn parse_object(line: &[u8]) -> Result<Vec<(Cow<'_, str>, Value)>, RowError> {
    struct PairsInOrder;
    impl<'de> Visitor<'de> for PairsInOrder {
        type Value = Vec<(Cow<'de, str>, Value)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some((Key(name), value)) = map.next_entry()? {
                pairs.push((name, value));
            }
            Ok(pairs)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let pairs = deserializer.deserialize_map(PairsInOrder).and_then(|pairs| deserializer.end().map(|()| pairs));
    pairs.map_err(|error| {
        let found = format!("something else: {}", crate::display::json_error(&error));
        let remedy = match str::from_utf8(line) {
            Err(_) => CONVERT_TO_UTF8,
            Ok(_) if error.is_eof() => "write each object on a separate line, as jq -c does, or correct the line",
            Ok(_) => "correct the line, or remove it",
        };
        RowError::new("an object such as {\"x\": 1.5}", found, remedy)
    })
}

/// Returns the type of a value. Integers beyond uint64 are read as float64.
fn infer_type(value: &Value, missing_words: &[String]) -> InferredType {
    match value {
        Value::Null => InferredType::Missing,
        Value::String(text) if missing_words.contains(text) => InferredType::Missing,
        Value::Bool(_) => InferredType::Bool,
        Value::Number(number) => match (number.as_i64(), number.is_u64()) {
            (Some(..0), _) => InferredType::SignedInt,
            (Some(_), _) => InferredType::NonNegativeInt,
            (None, true) => InferredType::UInt64,
            (None, false) => InferredType::Float,
        },
        Value::String(_) => InferredType::Text,
        Value::Array(_) | Value::Object(_) => InferredType::Nested,
    }
}

fn type_name(inferred: InferredType) -> &'static str {
    match inferred {
        InferredType::Missing => "null",
        InferredType::Bool => "true or false",
        InferredType::NonNegativeInt | InferredType::SignedInt | InferredType::UInt64 | InferredType::Float => {
            "a number"
        }
        InferredType::Text => "text",
        InferredType::Nested => "a list or an object",
    }
}

#[derive(Debug)]
struct JsonLines {
    missing_words: Vec<String>,
}

impl TextFormat for JsonLines {
    const NAME: &'static str = "JSON lines";
    const ROW_REMEDY: &'static str = "check that each line contains one object";
    type Scanner = LineScanner;
    type Chunk<'a> = JsonChunk<'a>;

    fn reading(&self) -> TextReadOptions {
        TextReadOptions { missing_words: self.missing_words.clone(), ..TextReadOptions::default() }
    }

    fn scanner(&self) -> LineScanner {
        LineScanner::new(None)
    }

    fn chunk<'a>(&'a self, columns: &'a [Column], requested: &[usize]) -> JsonChunk<'a> {
        let slot_by_name = requested.iter().enumerate().map(|(slot, column)| (columns[*column].name.as_str(), slot));
        JsonChunk {
            slot_by_name: slot_by_name.collect(),
            missing_words: &self.missing_words,
            row_values: vec![Value::Null; requested.len()],
            builders: ColumnBuilders::new(columns, requested),
        }
    }

    /// Bytes of a row after parsing, and of the columns of a chunk.
    fn chunk_bytes(&self, columns: &[&Column], longest_row: usize) -> usize {
        // the shortest pair of a key and a value, `"a":1,` (6 bytes), becomes a name and a value of
        // 56 bytes: less than 10 times its length
        10 * longest_row
            + columns.len() * 2 * size_of::<Value>()
            + ColumnBuilders::max_chunk_bytes(columns, longest_row)
    }
}

struct JsonChunk<'a> {
    /// Index of each requested column among the builders.
    slot_by_name: HashMap<&'a str, usize>,
    missing_words: &'a [String],
    row_values: Vec<Value>,
    builders: ColumnBuilders,
}

impl TextChunk for JsonChunk<'_> {
    fn begin_chunk(&mut self, rows: usize) -> usize {
        self.builders.clear();
        rows
    }

    fn push_row(&mut self, _row: u64, line: &[u8]) -> Result<(), RowError> {
        for (name, value) in parse_object(line)? {
            if let Some(slot) = self.slot_by_name.get(&*name) {
                let is_missing = value.as_str().is_some_and(|text| self.missing_words.iter().any(|word| word == text));
                self.row_values[*slot] = if is_missing { Value::Null } else { value };
            }
        }
        for (value, column) in self.row_values.iter_mut().zip(&mut self.builders.columns) {
            append_value(column, &std::mem::take(value))?;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        self.builders.finish();
    }

    fn view(&self, column: usize) -> Option<ColumnView<'_>> {
        self.builders.view(column)
    }
}

fn append_value(column: &mut ColumnBuilder, value: &Value) -> Result<(), RowError> {
    match (column, value) {
        (ColumnBuilder::Bool(values), Value::Null | Value::Bool(_)) => values.append_option(value.as_bool()),
        (ColumnBuilder::Text(values), Value::Null | Value::String(_)) => values.append_option(value.as_str()),
        (ColumnBuilder::Int(values), value) if value.is_null() || value.is_i64() => {
            values.append_option(value.as_i64())
        }
        (ColumnBuilder::Unsigned(values), value) if value.is_null() || value.is_u64() => {
            values.append_option(value.as_u64())
        }
        (ColumnBuilder::Float(values), Value::Null | Value::Number(_)) => values.append_option(value.as_f64()),
        _ => {
            let remedy = "the file changed while it was read: read it again";
            return Err(RowError::new("values of one type in a column", "another type", remedy));
        }
    }
    Ok(())
}
