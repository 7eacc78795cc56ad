//! Folders that name the values of a column, as Hive, Spark and DuckDB write them: `sales/year=2026/city=Ulm/part-0.parquet`.
//!
//! Every `name=value` among the folders of a path is a column of that file's rows, behind the columns of the file; a column that the file has itself counts
//! instead. The column holds whole numbers where all values of all files are some, else text. `%2F` in a value stands for the letter with that code, and
//! `__HIVE_DEFAULT_PARTITION__` for a missing value.

use super::extended::Added;
use std::path::{Component, Path};

const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

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
    let mut parts = text.split('%');
    let mut out = Vec::from(parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(b'%'));
        out.extend_from_slice(&part.as_bytes()[if code.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

/// The values of the files as columns: for each file those that its folders name, in the type that suits the values of all files.
pub(crate) fn constants(files: &[Vec<(String, Option<String>)>]) -> Vec<Vec<(String, Added)>> {
    let whole = |name: &str| {
        let mut values =
            files.iter().flatten().filter(|(other, _)| other == name).filter_map(|(_, value)| value.as_ref());
        values.all(|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == *value))
    };
    let constant = |(name, value): &(String, Option<String>)| {
        let value = match whole(name) {
            true => Added::Integer(value.as_ref().and_then(|value| value.parse().ok())),
            false => Added::Text(value.clone()),
        };
        (name.clone(), value)
    };
    files.iter().map(|values| values.iter().map(constant).collect()).collect()
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
        assert!(found.iter().all(|file| matches!(file[0].1, Added::Integer(Some(_)))), "{found:?}");
        assert!(found.iter().all(|file| matches!(file[1].1, Added::Text(_))), "07 is no number: {found:?}");
    }
}
