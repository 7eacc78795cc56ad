//! Errors about data, disk and memory, each with the place and a remedy.

use std::path::PathBuf;

/// Result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about data, disk or memory. The text is one sentence a person can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No file is there, or a glob matched none.
    #[error("no such file: {path}{}", or_else(hint, "; check the path"), path = path.display())]
    NotFound {
        /// The path or pattern as it was given.
        path: PathBuf,
        /// A suggestion of another name, starting with "; ", or nothing.
        hint: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {}; {}", crate::system_error::plain(source).0, crate::system_error::plain(source).1, path = path.display())]
    Io {
        /// The action that failed: "read", "write", "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The path names something that no file may replace, or a place where no file can be made.
    #[error("{path} cannot be written: {why}; {remedy}", path = path.display())]
    Output {
        /// The path as it was given.
        path: PathBuf,
        /// Why the file cannot be written.
        why: String,
        /// Advice on what to do.
        remedy: &'static str,
    },
    /// The file is not of the format it was opened as, or is damaged.
    #[error("{path} cannot be read as {format}: {}{}", crate::shown::words(detail), repair(detail), path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// "Parquet", ".npy", …
        format: &'static str,
        /// The expected and the found content, in words.
        detail: String,
    },
    /// A pipe, a device or a folder where a file is needed.
    #[error("{path} is no regular file; kmill reads a table several times and in any place: save it as a file first, or give it as standard input, whose name is -", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// No reader or writer for this kind of file.
    #[error("{path}: unknown kind of file; kmill reads {known}: name one of these", path = path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Extensions that are known.
        known: String,
    },
    /// Two files of one table have different columns.
    #[error("{second} does not continue {first}: {difference}; files of one table need the same columns and types", first = first.display(), second = second.display())]
    SchemaMismatch {
        /// First file of the table.
        first: PathBuf,
        /// The file that differs.
        second: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// A column name or pattern that matches nothing.
    #[error("{path} has no column {name:?}{hint}", path = path.display())]
    NoSuchColumn {
        /// First file of the table.
        path: PathBuf,
        /// The name or pattern as given.
        name: String,
        /// "; did you mean …?" or the columns there are.
        hint: String,
    },
    /// A column that holds no numbers where numbers are needed.
    #[error("column {column:?} of {path} holds {got}, but {expected}", path = path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The type that was found.
        got: String,
        /// The type that is needed, and advice on what to do.
        expected: String,
    },
    /// A missing, NaN or infinite value.
    #[error("{path}: {place}, column {column:?} is {value}; {remedy}", path = path.display(), place = place(*row, *line))]
    BadValue {
        /// The file.
        path: PathBuf,
        /// Row within that file, from 0.
        row: u64,
        /// Line of a text file, from 1.
        line: Option<u64>,
        /// The column.
        column: String,
        /// "NaN", "missing", "infinite", or a number that does not fit.
        value: String,
        /// Advice on what to do.
        remedy: &'static str,
    },
    /// A row whose texts are longer than the budget has room for.
    #[error("{path}: row {row} (counted from 0), column {column:?} brings the row's texts to {bytes}, and the budget has room for {room}; leave the column out or raise `memory` to {needed}",
        path = path.display(), bytes = crate::shown::bytes(*bytes), room = crate::shown::bytes(*room), needed = crate::shown::bytes_up(*needed))]
    LargeRow {
        /// The file.
        path: PathBuf,
        /// Row within that file, from 0.
        row: u64,
        /// The column with the longest text.
        column: String,
        /// Bytes of the row's texts together.
        bytes: usize,
        /// Bytes allowed for the texts of a row.
        room: usize,
        /// The budget in bytes with which the row would fit.
        needed: usize,
    },
    /// A list that is not as long as the lists of the other rows.
    #[error("{path}: row {row} (counted from 0), list column {column:?} has {got} instead of {expected} values; {remedy}", path = path.display())]
    ListLength {
        /// The file.
        path: PathBuf,
        /// Row within that file, from 0.
        row: u64,
        /// The column, as the file calls it.
        column: String,
        /// Length of the lists, from the column's type or its first row.
        expected: usize,
        /// Length of the list that was found.
        got: usize,
        /// Advice on what to do.
        remedy: &'static str,
    },
    /// A line of a text file that does not fit the table.
    #[error("{0}")]
    BadLine(Box<BadLine>),
    /// A label column with so many distinct labels that it is surely a measurement.
    #[error(
        "column {column:?} has more than {limit} distinct labels; for a quantity choose `task` regression, for folds a column with few values"
    )]
    TooManyLabels {
        /// The column.
        column: String,
        /// Most distinct labels that are allowed.
        limit: usize,
    },
    /// A column that was named as categories, with more values than are taken.
    #[error("column {column:?} has more than {} values, too many for a feature of each; give `hash` 256 for features of its text, or leave the column out", crate::shown::count(*limit as u64))]
    TooManyValues {
        /// The column.
        column: String,
        /// Most values that are taken.
        limit: usize,
    },
    /// Rows were asked for while the values of a column of categories are not known.
    #[error(
        "the values of column {column:?} are not known yet; find them first (`Run::coded`, or `Selected::search`), or set `categories` none"
    )]
    Uncoded {
        /// The first such column.
        column: String,
    },
    /// Two files that belong together have different numbers of rows.
    #[error("{second} has {second_rows} rows, {first} has {first_rows}; they need one row for each other", first = first.display(), second = second.display())]
    RowCount {
        /// The table.
        first: PathBuf,
        /// Number of rows of the table.
        first_rows: u64,
        /// The file that should go with it.
        second: PathBuf,
        /// Number of rows of that file.
        second_rows: u64,
    },
    /// A text that could not be parsed.
    #[error("cannot understand {what} {text:?}: {expected}")]
    Syntax {
        /// Name of the text: a parameter in backquotes, such as "`where`", or a noun, such as "size".
        what: &'static str,
        /// The text as it was given.
        text: String,
        /// A description of a correct text.
        expected: String,
    },
    /// A table or a selection without rows, or without features.
    #[error("{what}: {why}")]
    Empty {
        /// The table or the selection.
        what: String,
        /// Why nothing is in it, and what to do.
        why: String,
    },
    /// The plan does not fit the budget.
    #[error("{what} needs {needs}, the budget is {budget} (`memory`): the largest part is {largest} with {largest_bytes}; {remedy}{or}raise `memory` to {up}",
        needs = crate::shown::bytes(*needed), budget = crate::shown::bytes(*budget), largest_bytes = crate::shown::bytes(*largest_bytes),
        or = if remedy.is_empty() { "" } else { " or " }, up = crate::shown::bytes_up(*needed))]
    OverBudget {
        /// Name of the planned stage.
        what: String,
        /// Bytes needed.
        needed: usize,
        /// Bytes allowed.
        budget: usize,
        /// Name of the largest term.
        largest: String,
        /// Bytes of the largest term.
        largest_bytes: usize,
        /// The parameter to lower; empty where only more memory helps.
        remedy: &'static str,
    },
    /// A cache larger than what is left of the space allowed for caches.
    #[error("a cache in {folder} needs {needed}, and {left} of what scratch may take is left; allow more or do without",
        folder = folder.display(), needed = size(*needed), left = size(*left))]
    OverScratch {
        /// The scratch folder.
        folder: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes left of the limit.
        left: u64,
    },
    /// The disk of the scratch folder is full.
    #[error("the disk of {folder} is full: a cache there needs {needed}{free}; free some space or choose another `scratch` folder",
        folder = folder.display(), needed = size(*needed), free = free.map_or(String::new(), |free| format!(", {} are free", size(free))))]
    ScratchFull {
        /// The scratch folder.
        folder: PathBuf,
        /// Bytes the cache needs in all.
        needed: u64,
        /// Bytes free beside what the cache has taken; `None` where the system does not tell.
        free: Option<u64>,
    },
    /// A file that is not what it was when it was opened.
    #[error("{path} changed while it was read: {change}; run again when nobody writes to it", path = path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The change, in words.
        change: String,
    },
    /// A file that kmill wrote, with contents that contradict each other.
    #[error("{path} is damaged: {detail}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        detail: String,
    },
    /// A checkpoint that this run cannot go on from.
    #[error("{path} is the checkpoint of another run: {difference}; go on as that run began, or leave `resume` out and start afresh", path = path.display())]
    OtherCheckpoint {
        /// The folder of the checkpoint.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// A folder where the checkpoint would be, with something else in it.
    #[error("{path} is where the checkpoint goes, but {found} is no part of one; move it away or name the output otherwise", path = path.display(), found = found.display())]
    NotACheckpoint {
        /// The folder.
        path: PathBuf,
        /// A file in it.
        found: PathBuf,
    },
    /// Processes that share a run and do not get on.
    #[error("{folder}: {why}", folder = folder.display())]
    Engine {
        /// What they share.
        folder: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Rows of a table that are somewhere else.
    #[error("rows {}..{} are not here: this is a shard; name files that hold them", rows.start, rows.end)]
    Elsewhere {
        /// The rows that were asked for.
        rows: std::ops::Range<u64>,
    },
    /// The run was asked to stop.
    #[error("interrupted: nothing was written")]
    Interrupted,
    /// A thread of a pass ended without a result: a bug.
    #[error("a worker thread panicked; this is a bug in kmill, please report it")]
    Worker,
    /// A name that cannot be registered.
    #[error("the {what} {name:?} cannot be registered: {why}")]
    Register {
        /// Kernel, landmark scheme, solver or generator.
        what: &'static str,
        /// Its name.
        name: &'static str,
        /// What is wrong with the name.
        why: &'static str,
    },
}

impl Error {
    /// Wraps an operating-system error with what was attempted on which file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound if action == "read" => Self::NotFound { path, hint: String::new() },
            _ => Self::Io { action, path, source },
        }
    }

    /// True for what is neither in the job nor in its rows, such as a wish to stop or a full disk: the same job may succeed later.
    pub fn may_pass(&self) -> bool {
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

    /// The error of work that had the budget less so many bytes, which something else holds: names the whole budget, and one that
    /// has room for both.
    #[must_use]
    pub fn beside(mut self, bytes: usize) -> Self {
        match &mut self {
            Self::OverBudget { needed, budget, .. } => {
                (*needed, *budget) = (needed.saturating_add(bytes), budget.saturating_add(bytes));
            }
            Self::LargeRow { needed, .. } => *needed = needed.saturating_add(bytes),
            _ => {}
        }
        self
    }
}

fn size(bytes: u64) -> String {
    crate::shown::bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The place of a row in words, which say that rows are counted from 0.
fn place(row: u64, line: Option<u64>) -> String {
    let line = line.map_or(String::new(), |line| format!(", line {line}"));
    format!("row {row} (counted from 0){line}")
}

/// An error in a line of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The file.
    pub path: PathBuf,
    /// Row within that file, from 0.
    pub row: u64,
    /// The line on which the row begins, from 1.
    pub line: u64,
    /// The column with the error, where one is known.
    pub column: Option<String>,
    /// The expected content, in words.
    pub expected: String,
    /// The content that was found, in words.
    pub found: String,
    /// Advice on what to do.
    pub remedy: String,
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let column = self.column.as_ref().map_or(String::new(), |column| format!(", column {column:?}"));
        let (path, place) = (self.path.display(), place(self.row, Some(self.line)));
        write!(f, "{path}: {place}{column}: expected {}, found {}; {}", self.expected, self.found, self.remedy)
    }
}

impl From<BadLine> for Error {
    fn from(line: BadLine) -> Self {
        Self::BadLine(Box::new(line))
    }
}

fn or_else<'a>(hint: &'a str, usual: &'a str) -> &'a str {
    if hint.is_empty() { usual } else { hint }
}

/// Advice on a damaged file; empty where its detail gives some already.
fn repair(detail: &str) -> &'static str {
    if detail.contains("; ") { "" } else { "; copy it again, or write it anew" }
}
