//! Errors about data, disk and memory, each with the place and a remedy.

use std::path::{Path, PathBuf};

/// Result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about data, disk or memory. The message says what to do.
///
/// Rows are counted from 0 and lines from 1, both within their file; sizes are in bytes. A `hint`
/// begins with "; " or is empty, and a `remedy` is advice, such as a parameter to lower.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// A file that does not exist, or a glob without a match.
    #[error("no such file: {path}{}", hint_or_default(hint, "; check the path"), path = path.display())]
    NotFound { path: PathBuf, hint: String },
    /// An error of the operating system.
    #[error("cannot {action} {path}: {}; {}", crate::system_error::cause_and_remedy(source).0, crate::system_error::cause_and_remedy(source).1, path = path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    /// A path that a file must not replace, or at which no file can be created.
    #[error("{path} cannot be written: {why}; {remedy}", path = path.display())]
    Output { path: PathBuf, why: String, remedy: &'static str },
    /// A file that is damaged or does not have the expected format.
    #[error("{path} cannot be read as {format}: {}{}", crate::display::collapse_whitespace(detail), repair_advice(detail), path = path.display())]
    Malformed { path: PathBuf, format: &'static str, detail: String },
    /// A pipe, a device or a folder instead of a file.
    #[error("{path} is not a regular file; kmill reads a table several times and from any offset: save it as a file, or pass it on standard input, whose name is -", path = path.display())]
    NotAFile { path: PathBuf },
    /// A kind of file without a reader or writer.
    #[error("{path}: unknown file format; kmill reads {known}: choose one of these formats", path = path.display())]
    UnknownFormat { path: PathBuf, known: String },
    /// Two files of one table with different columns.
    #[error("{second} does not match {first}: {difference}", first = first.display(), second = second.display())]
    SchemaMismatch { first: PathBuf, second: PathBuf, difference: String },
    /// A column name or pattern that matches nothing.
    #[error("{path} has no column {name:?}{hint}", path = path.display())]
    NoSuchColumn { path: PathBuf, name: String, hint: String },
    /// A column without numbers where numbers are needed.
    #[error("column {column:?} of {path} holds {got}, but {expected}", path = path.display())]
    WrongType { path: PathBuf, column: String, got: String, expected: String },
    /// A missing, NaN or infinite value.
    #[error("{path}: {position}, column {column:?} is {value}; {remedy}", path = path.display(), position = row_position(*row, *line))]
    BadValue { path: PathBuf, row: u64, line: Option<u64>, column: String, value: String, remedy: &'static str },
    /// A row whose texts exceed the budget.
    #[error("{path}: row {row} (counted from 0), column {column:?} raises the size of the row's texts to {bytes}, but the budget has room for {available}; exclude the column or raise `memory` to {needed}",
        path = path.display(), bytes = crate::display::format_bytes(*bytes), available = crate::display::format_bytes(*available), needed = crate::display::format_bytes_up(*needed))]
    LargeRow { path: PathBuf, row: u64, column: String, bytes: usize, available: usize, needed: usize },
    /// A list whose length differs from the lists of the other rows.
    #[error("{path}: row {row} (counted from 0), list column {column:?} has {got} instead of {expected} values; {remedy}", path = path.display())]
    ListLength { path: PathBuf, row: u64, column: String, expected: usize, got: usize, remedy: &'static str },
    /// A line of a text file that does not fit the table.
    #[error("{0}")]
    BadLine(Box<BadLine>),
    /// A label column with too many distinct labels, which is most likely a measurement.
    #[error(
        "column {column:?} has more than {limit} distinct labels, or texts that are too long for labels; choose a column with short names of classes or groups, or regression for a quantity"
    )]
    TooManyLabels { column: String, limit: usize },
    /// A categorical column with more values than supported.
    #[error("column {column:?} has more than {} distinct values, too many for one input per value; set `hash` to 256 to hash its text, or exclude the column", crate::display::format_count(*limit as u64))]
    TooManyValues { column: String, limit: usize },
    /// A request for rows before the values of a categorical column were collected.
    #[error(
        "the categories of column {column:?} are not known yet; collect them first (`Run::resolve_categories`, or `SelectedTable::column_search`), or set `categories` to none"
    )]
    UnknownCategories { column: String },
    /// Two files that belong together, with different numbers of rows.
    #[error("{second} has {second_rows} rows, {first} has {first_rows}; both need the same number of rows", first = first.display(), second = second.display())]
    RowCount { first: PathBuf, first_rows: u64, second: PathBuf, second_rows: u64 },
    /// A text that could not be parsed.
    #[error("cannot understand {what} {text:?}: {expected}")]
    Syntax { what: &'static str, text: String, expected: String },
    /// A table or a selection without rows, or without inputs.
    #[error("{what}: {why}")]
    Empty { what: String, why: String },
    /// A plan that exceeds the budget.
    #[error("{what} needs {needs}, the budget is {budget} (`memory`): the largest part is {largest} with {largest_bytes}; {remedy}{or}raise `memory` to {up}",
        needs = crate::display::format_bytes(*needed), budget = crate::display::format_bytes(*budget), largest_bytes = crate::display::format_bytes(*largest_bytes),
        or = if remedy.is_empty() { "" } else { " or " }, up = crate::display::format_bytes_up(*needed))]
    OverBudget {
        what: String,
        needed: usize,
        budget: usize,
        largest: String,
        largest_bytes: usize,
        remedy: &'static str,
    },
    /// A cache larger than the remaining space for caches.
    #[error("a cache in {folder} needs {needed}, but only {left} of the scratch limit is left; raise the limit or run without a scratch folder",
        folder = folder.display(), needed = format_u64_bytes(*needed), left = format_u64_bytes(*left))]
    OverScratch { folder: PathBuf, needed: u64, left: u64 },
    /// A full disk of the scratch folder.
    #[error("the disk of {folder} is full: a cache there needs {needed}{free}; free some space or choose another `scratch` folder",
        folder = folder.display(), needed = format_u64_bytes(*needed), free = free.map_or(String::new(), |free| format!(", {} are free", format_u64_bytes(free))))]
    ScratchFull { folder: PathBuf, needed: u64, free: Option<u64> },
    /// A file that changed since it was opened.
    #[error("{path} changed while it was read: {change}; run again when no other process writes to it", path = path.display())]
    FileChanged { path: PathBuf, change: String },
    /// A file that kmill wrote, with contents that contradict each other.
    #[error("{path} is damaged: {detail}", path = path.display())]
    Damaged { path: PathBuf, detail: String },
    /// A checkpoint from which this run cannot continue.
    #[error("{path} is the checkpoint of another run: {difference}; continue with the command of that run, or start over with `fresh`", path = path.display())]
    OtherCheckpoint { path: PathBuf, difference: String },
    /// A folder at the path of the checkpoint that contains other files.
    #[error("{path} is the folder for the checkpoint, but {found} is not part of a checkpoint; move it away or choose another name for the output", path = path.display(), found = found.display())]
    NotACheckpoint { path: PathBuf, found: PathBuf },
    /// A conflict between processes that share a run.
    #[error("{folder}: {why}", folder = folder.display())]
    Engine { folder: PathBuf, why: String },
    /// Rows of a table that are not in this shard.
    #[error("rows {}..{} are not in this shard; name files that contain them", rows.start, rows.end)]
    NotInShard { rows: std::ops::Range<u64> },
    /// A run that was asked to stop.
    #[error("interrupted: nothing was written")]
    Interrupted,
    /// A thread of a pass ended without a result: a bug.
    #[error("a worker thread panicked; this is a bug in kmill, please report it")]
    WorkerPanicked,
    /// A name that cannot be registered.
    #[error("the {what} {name:?} cannot be registered: {why}")]
    Register { what: &'static str, name: &'static str, why: &'static str },
}

impl Error {
    /// Wraps an operating-system error with the attempted action and the file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound if action == "read" => Self::NotFound { path, hint: String::new() },
            _ => Self::Io { action, path, source },
        }
    }

    /// Returns the error of a file that is damaged, or has another format.
    pub fn malformed(path: &Path, format: &'static str, detail: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_path_buf(), format, detail: detail.into() }
    }

    /// Returns the error of a column with values of a wrong type.
    pub fn wrong_type(path: &Path, column: &str, got: impl Into<String>, expected: impl Into<String>) -> Self {
        let (path, column) = (path.to_path_buf(), column.to_string());
        Self::WrongType { path, column, got: got.into(), expected: expected.into() }
    }

    /// Returns the value of a file operation, or `None` if the file does not exist.
    ///
    /// # Errors
    /// Every other error of the operation, as [`Error::io`].
    #[doc(hidden)]
    pub fn none_if_absent<V>(result: std::io::Result<V>, action: &'static str, path: &Path) -> Result<Option<V>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Self::io(action, path)(error)),
        }
    }

    /// Returns true for errors that depend neither on the job nor on its rows, such as a stop
    /// request or a full disk. The same job may succeed later.
    #[doc(hidden)]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Io { .. }
                | Self::Engine { .. }
                | Self::OverBudget { .. }
                | Self::OverScratch { .. }
                | Self::ScratchFull { .. }
        )
    }

    /// Corrects an error of a stage whose budget was reduced by `reserved_bytes` that another part
    /// uses. The message then names the whole budget, and the budget that both need.
    #[doc(hidden)]
    #[must_use]
    pub fn with_reserved(mut self, reserved_bytes: usize) -> Self {
        match &mut self {
            Self::OverBudget { needed, budget, .. } => {
                (*needed, *budget) = (needed.saturating_add(reserved_bytes), budget.saturating_add(reserved_bytes));
            }
            Self::LargeRow { needed, .. } => *needed = needed.saturating_add(reserved_bytes),
            _ => {}
        }
        self
    }
}

fn format_u64_bytes(bytes: u64) -> String {
    crate::display::format_bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Returns the position of a row in words, which say that rows are counted from 0.
fn row_position(row: u64, line: Option<u64>) -> String {
    let line = line.map_or(String::new(), |line| format!(", line {line}"));
    format!("row {row} (counted from 0){line}")
}

/// An error in a line of a text file: the expected and the actual text, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the parts of the message")]
pub struct BadLine {
    pub path: PathBuf,
    pub row: u64,
    pub line: u64,
    pub column: Option<String>,
    pub expected: String,
    pub found: String,
    pub remedy: String,
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let column = self.column.as_ref().map_or(String::new(), |column| format!(", column {column:?}"));
        let (path, position) = (self.path.display(), row_position(self.row, Some(self.line)));
        write!(f, "{path}: {position}{column}: expected {}, found {}; {}", self.expected, self.found, self.remedy)
    }
}

fn hint_or_default<'a>(hint: &'a str, default_hint: &'a str) -> &'a str {
    if hint.is_empty() { default_hint } else { hint }
}

/// Returns advice on a damaged file; empty if `detail` contains some already.
fn repair_advice(detail: &str) -> &'static str {
    if detail.contains("; ") { "" } else { "; copy it again, or write it anew" }
}
