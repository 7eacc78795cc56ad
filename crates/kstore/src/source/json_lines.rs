//! JSON lines: an object on every line, `{"city": "Ulm", "x": 1.5}`.
//!
//! The columns are the keys, in the order of their first appearance; an absent key and null are
//! missing values. A column holds booleans, 64-bit integers, numbers or text; any other mixture is
//! an error with its line. A column with lists or objects cannot be read. Fractions are rounded
//! correctly. Opening reads the file once, to find its rows and columns. Empty lines do not count
//! as rows.

use super::text::{
    Builder, Builders, ColumnType, Guess, LineScanner, NOT_UTF8, TextChunk, TextFormat, TextOptions, TextReading,
    TextTable, Wrong,
};
use super::{Format, TableFile, View};
use crate::schema::{Column, Kind};
use crate::{Result, sparse::COLUMN_LIMIT};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::{borrow::Cow, collections::HashMap, fs::File, path::Path, sync::Arc};

pub(super) const FORMAT: Format = Format::new(&["jsonl", "ndjson"], open).text();

/// Reads an open file of JSON lines once, to find its rows and the types of its columns; the path
/// is for messages.
fn open(path: &Path, file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let mut table = TextTable::new(path, file, JsonLines(options.missing_words.clone()))?;
    let (first, start) = table.beginning()?;
    if first[start.offset as usize..].trim_ascii_start().starts_with(b"[") {
        let detail = "it is one JSON array; write each object on a separate line: jq -c '.[]' FILE | kmill … -";
        return Err(table.file.malformed(detail));
    }
    drop(first);
    let (mut columns, mut places) = (Vec::<(String, Guess)>::new(), HashMap::<String, usize>::new());
    table.index(start, |_, line| {
        for (name, value) in pairs(line)? {
            let new = guess(&value, &options.missing_words);
            let place = places.get(&*name).copied().unwrap_or_else(|| {
                places.insert(name.to_string(), columns.len());
                columns.push((name.to_string(), Guess::Missing));
                columns.len() - 1
            });
            let before = columns[place].1;
            columns[place].1 = before.with(new).ok_or_else(|| {
                let remedy = "write all values of a column with one type";
                Wrong::new(named(before), named(new), remedy).of_column(&name)
            })?;
        }
        match columns.len() > COLUMN_LIMIT {
            true => {
                let most = format!("at most {COLUMN_LIMIT} columns");
                Err(Wrong::new(most, "more", "write dense rows, or hash the keys").into())
            }
            false => Ok(true),
        }
    })?;
    match columns.is_empty() {
        true => Err(table.file.malformed("it is empty")),
        false => {
            let blank = columns.iter().map(|(_, guess)| *guess == Guess::Missing).collect();
            // a model may know the type of a column without values
            let kind = |(name, guess): (String, Guess)| {
                let is_text = guess == Guess::Missing && options.type_of(&name) == Some(ColumnType::Text);
                (name, if is_text { Kind::Text } else { guess.kind() })
            };
            Ok(Arc::new(table.with_columns(columns.into_iter().map(kind)).with_blank(blank)))
        }
    }
}

/// A key, which is copied only if it is escaped.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

fn pairs(line: &[u8]) -> Result<Vec<(Cow<'_, str>, Value)>, Wrong> {
    struct InOrder;
    impl<'de> Visitor<'de> for InOrder {
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
    let mut from = serde_json::Deserializer::from_slice(line);
    let pairs = from.deserialize_map(InOrder).and_then(|pairs| from.end().map(|()| pairs));
    pairs.map_err(|error| {
        let found = format!("something else: {}", crate::shown::json(&error));
        let remedy = match str::from_utf8(line) {
            Err(_) => NOT_UTF8,
            Ok(_) if error.is_eof() => "write each object on a separate line, as jq -c does, or correct the line",
            Ok(_) => "correct the line, or remove it",
        };
        Wrong::new("an object such as {\"x\": 1.5}", found, remedy)
    })
}

/// Returns the type of a value. Integers beyond uint64 are read as float64.
fn guess(value: &Value, words: &[String]) -> Guess {
    match value {
        Value::Null => Guess::Missing,
        Value::String(text) if words.contains(text) => Guess::Missing,
        Value::Bool(_) => Guess::Bool,
        Value::Number(number) => match (number.as_i64(), number.is_u64()) {
            (Some(..0), _) => Guess::Signed,
            (Some(_), _) => Guess::Int,
            (None, true) => Guess::Large,
            (None, false) => Guess::Float,
        },
        Value::String(_) => Guess::Text,
        Value::Array(_) | Value::Object(_) => Guess::Nested,
    }
}

fn named(guess: Guess) -> &'static str {
    match guess {
        Guess::Missing => "null",
        Guess::Bool => "true or false",
        Guess::Int | Guess::Signed | Guess::Large | Guess::Float => "a number",
        Guess::Text => "text",
        Guess::Nested => "a list or an object",
    }
}

#[derive(Debug)]
struct JsonLines(Vec<String>);

impl TextFormat for JsonLines {
    const NAME: &'static str = "JSON lines";
    const UNENDED: &'static str = "check that each line contains one object";
    type Scanner = LineScanner;
    type Chunk<'a> = JsonChunk<'a>;

    fn reading(&self) -> TextReading {
        TextReading { missing_words: self.0.clone(), ..TextReading::default() }
    }

    fn scanner(&self) -> LineScanner {
        LineScanner::new(None)
    }

    fn chunk<'a>(&'a self, columns: &'a [Column], wanted: &[usize]) -> JsonChunk<'a> {
        let slots = wanted.iter().enumerate().map(|(slot, column)| (columns[*column].name.as_str(), slot));
        JsonChunk {
            slots: slots.collect(),
            words: &self.0,
            row: vec![Value::Null; wanted.len()],
            builders: Builders::new(columns, wanted),
        }
    }

    /// Bytes of a row as values, and of the columns.
    fn chunk_bytes(&self, columns: &[&Column], longest: usize) -> usize {
        // the shortest pair, `"a":1,`, becomes a name and a value of 56 bytes
        10 * longest + columns.len() * 2 * size_of::<Value>() + Builders::bytes(columns, longest)
    }
}

struct JsonChunk<'a> {
    /// Index of each requested column among the builders.
    slots: HashMap<&'a str, usize>,
    words: &'a [String],
    row: Vec<Value>,
    builders: Builders,
}

impl TextChunk for JsonChunk<'_> {
    fn begin(&mut self, rows: usize) -> usize {
        self.builders.clear();
        rows
    }

    fn push(&mut self, _row: u64, line: &[u8]) -> Result<(), Wrong> {
        for (name, value) in pairs(line)? {
            if let Some(slot) = self.slots.get(&*name) {
                let is_missing = value.as_str().is_some_and(|text| self.words.iter().any(|word| word == text));
                self.row[*slot] = if is_missing { Value::Null } else { value };
            }
        }
        for (value, column) in self.row.iter_mut().zip(&mut self.builders.columns) {
            append(column, &std::mem::take(value))?;
        }
        Ok(())
    }

    fn end(&mut self) {
        self.builders.finish();
    }

    fn view(&self, column: usize) -> Option<View<'_>> {
        self.builders.view(column)
    }
}

fn append(column: &mut Builder, value: &Value) -> Result<(), Wrong> {
    match (column, value) {
        (Builder::Bool(values), Value::Null | Value::Bool(_)) => values.append_option(value.as_bool()),
        (Builder::Text(values), Value::Null | Value::String(_)) => values.append_option(value.as_str()),
        (Builder::Int(values), value) if value.is_null() || value.is_i64() => values.append_option(value.as_i64()),
        (Builder::Large(values), value) if value.is_null() || value.is_u64() => values.append_option(value.as_u64()),
        (Builder::Float(values), Value::Null | Value::Number(_)) => values.append_option(value.as_f64()),
        _ => {
            let remedy = "the file changed while it was read: read it again";
            return Err(Wrong::new("values of one type in a column", "another type", remedy));
        }
    }
    Ok(())
}
