//! Folder names with column values, as Hive, Spark and DuckDB write them:
//! `sales/year=2026/city=Ulm/part-0.parquet`.
//!
//! Every folder of a path whose name has the form `name=value` adds a column to the rows of the
//! file, after the file's own columns. If the file has a column of the same name, the file's column
//! is used. An added column holds integers if all its values in all files are integers, otherwise
//! text. In a value, `%2F` stands for the character with this hexadecimal code, and
//! `__HIVE_DEFAULT_PARTITION__` for a missing value.

use super::extended_file::AddedColumn;
use std::path::{Component, Path};

const MISSING_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the names and values in the folders of a path; `None` for a missing value.
pub(crate) fn partition_values(path: &Path) -> Vec<(String, Option<String>)> {
    let folders = path.parent().into_iter().flat_map(Path::components).filter_map(|component| match component {
        Component::Normal(name) => name.to_str()?.split_once('='),
        _ => None,
    });
    let named_value =
        |(name, value): (&str, &str)| (name.to_string(), (value != MISSING_VALUE).then(|| percent_decode(value)));
    folders.filter(|(name, _)| !name.is_empty()).map(named_value).collect()
}

/// Decodes `%20` and similar codes to characters.
fn percent_decode(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut decoded_bytes = Vec::from(pieces.next().unwrap_or_default());
    for part in pieces {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded_bytes.push(code.unwrap_or(b'%'));
        decoded_bytes.extend_from_slice(&part.as_bytes()[if code.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8(decoded_bytes).unwrap_or_else(|_| text.to_string())
}

/// Returns, for each file, the columns that its folders add. The type of a column fits its values
/// in all files.
pub(crate) fn partition_columns(files: &[Vec<(String, Option<String>)>]) -> Vec<Vec<(String, AddedColumn)>> {
    let is_integer_column = |name: &str| {
        let mut values =
            files.iter().flatten().filter(|(column, _)| column == name).filter_map(|(_, value)| value.as_ref());
        values.all(|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == *value))
    };
    let added_column = |(name, value): &(String, Option<String>)| {
        let value = match is_integer_column(name) {
            true => AddedColumn::Integer(value.as_ref().and_then(|value| value.parse().ok())),
            false => AddedColumn::Text(value.clone()),
        };
        (name.clone(), value)
    };
    files.iter().map(|values| values.iter().map(added_column).collect()).collect()
}
