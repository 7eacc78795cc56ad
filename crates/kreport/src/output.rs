//! Files of reports: written atomically, and never over an input.

use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{AtomicFile, Error, KeptColumn, Result, Strings};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns the files of a table.
pub fn table_files(table: &kstore::Table) -> impl Iterator<Item = &Path> {
    table.files().chain(table.target_file())
}

/// Rejects outputs that would replace an input or another output. Every subcommand that reads files
/// calls this function for all of its outputs.
///
/// # Errors
/// [`Error::Output`] for the first such output.
pub fn protect_inputs<'o, 'i, O: AsRef<Path> + ?Sized + 'o>(
    outputs: impl IntoIterator<Item = &'o O>,
    inputs: impl IntoIterator<Item = &'i Path>,
) -> Result<()> {
    let inputs: Vec<PathBuf> = inputs.into_iter().filter_map(|input| input.canonicalize().ok()).collect();
    let mut earlier_outputs: Vec<&Path> = Vec::new();
    for path in outputs.into_iter().map(AsRef::as_ref) {
        let why = match path.canonicalize() {
            Ok(output) if inputs.contains(&output) => "it is also an input, which would be overwritten",
            _ if earlier_outputs.iter().any(|earlier| is_same_file(earlier, path)) => {
                "another output has the same path"
            }
            _ => {
                earlier_outputs.push(path);
                continue;
            }
        };
        let (path, why) = (path.to_path_buf(), why.to_string());
        return Err(Error::Output { path, why, remedy: "choose another name for the output" });
    }
    Ok(())
}

/// The type of a column, with the function that reads the value of the column from a row.
#[derive(Debug)]
pub enum Column<R> {
    /// A text; `None` is missing.
    Text(fn(&R) -> Option<&str>),
    /// An integer.
    Integer(fn(&R) -> u64),
    /// A number; `None` is missing.
    Number(fn(&R) -> Option<f64>),
}

/// Writes a table with these columns, in the format of the file name's extension.
///
/// # Errors
/// The errors of [`sink::create`]; the file cannot be written.
pub fn write_table<R>(path: &Path, columns: &[(&str, Column<R>)], rows: &[R]) -> Result<()> {
    enum Values {
        Text(Strings),
        Integer(Vec<i64>),
        Number(KeptColumn),
    }
    let values_of = |(_, column): &(&str, Column<R>)| match column {
        Column::Text(getter) => Values::Text(rows.iter().map(|row| getter(row).unwrap_or_default()).collect()),
        Column::Integer(getter) => {
            Values::Integer(rows.iter().map(|row| getter(row).try_into().unwrap_or(i64::MAX)).collect())
        }
        Column::Number(getter) => {
            Values::Number(KeptColumn::from_options(&rows.iter().map(getter).collect::<Vec<_>>()))
        }
    };
    let output_column = |(name, column): &(&str, Column<R>)| match column {
        Column::Text(_) => OutputColumn::new(*name, OutputKind::Text),
        Column::Integer(_) => OutputColumn::new(*name, OutputKind::I64),
        Column::Number(_) => OutputColumn::new(*name, OutputKind::F64).nullable(),
    };
    let values: Vec<Values> = columns.iter().map(values_of).collect();
    let outputs = values.iter().map(|values| match values {
        Values::Text(values) => OutputValues::Text(values),
        Values::Integer(values) => OutputValues::I64(values),
        Values::Number(values) => OutputValues::Kept(values),
    });
    let mut sink = sink::create(path, &columns.iter().map(output_column).collect::<Vec<_>>())?;
    sink.write(&outputs.collect::<Vec<_>>())?;
    sink.finish()
}

/// Writes a file atomically.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.commit()
}

/// Returns the extension without its dot, in lower case.
pub fn extension(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
}

/// Returns true if the file name has the extension of an HTML page.
pub fn is_html(path: &Path) -> bool {
    matches!(extension(path).as_deref(), Some("html" | "htm"))
}

/// Returns true if both names refer to one file, which need not exist yet.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (AtomicFile::destination(one), AtomicFile::destination(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
