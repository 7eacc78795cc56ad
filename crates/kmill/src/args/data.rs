//! Options that select files, and rows and columns of their table.

use super::parse;
use clap::Args;
use kreport::table::join_with_commas;
use kstore::condition::Condition;
use kstore::encoding::TimeFeatures;
use kstore::{ColumnType, Lags, Missing, MissingTarget, RowsBack, Selection, TestSpec, TextOptions};
use std::ops::Range;
use std::path::PathBuf;

/// How text files are read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Text files")]
pub(crate) struct TextArgs {
    /// Field separator of .csv: one character, or tab [default: detected from the first lines]
    #[arg(long, value_name = "CHAR", value_parser = parse::delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Decimal mark of .csv: . or , [default: a point; a comma if ; separates the fields and the
    /// numbers contain commas]
    #[arg(long, value_name = "CHAR", value_parser = parse::decimal)]
    pub(crate) decimal: Option<u8>,
    /// The first line of .csv is a row, not a header; the columns are named x0, x1, …
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Number of lines to skip at the beginning of .csv
    #[arg(long, value_name = "N", value_parser = parse::parse_integer)]
    pub(crate) skip_lines: Option<u64>,
    /// Read quotation marks in .csv as ordinary characters [default: fields may be quoted]
    #[arg(long)]
    pub(crate) no_quotes: bool,
    /// Fill .csv rows that have too few fields with missing values [default: such a row is an
    /// error]
    #[arg(long)]
    pub(crate) pad_rows: bool,
    /// Number of .csv rows that determine the types of the columns, or all [default: 10000]
    #[arg(long, value_name = "N", value_parser = parse::infer_rows)]
    pub(crate) infer_rows: Option<u64>,
    /// Types of .csv columns, comma-separated, such as zip=text,day=date: text, number or date,
    /// which also reads seconds since 1970 [default: detected from the first rows; integers with a
    /// leading 0 are text; with a model, the setting of its fit]
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',', value_parser = parse::column_type)]
    pub(crate) types: Vec<(String, ColumnType)>,
    /// Words that mean a missing value in .csv and .jsonl, comma-separated, also in text columns
    /// [default: none in text columns; in others NA, N/A, null, None, ?, - and similar; with a
    /// model, the setting of its fit]
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = parse::name, allow_hyphen_values = true)]
    pub(crate) missing_words: Vec<String>,
    /// Indices in .svm, .svmlight and .libsvm start at 0 instead of 1
    #[arg(long)]
    pub(crate) zero_based: bool,
    /// Number of features of .svm, .svmlight and .libsvm [default: the largest index]
    #[arg(long, value_name = "D", value_parser = parse::positive_integer)]
    pub(crate) width: Option<usize>,
    /// Keep the rows of .svm, .svmlight and .libsvm sparse, like those of .npz and of lists and
    /// maps in .parquet and .arrow; for kernels of inner products and distances [default: fits that
    /// support sparse rows keep rows with 1,000 or more features and few entries sparse; with a
    /// model, the setting of its fit]
    #[arg(long)]
    pub(crate) sparse: bool,
}

impl TextArgs {
    pub(crate) fn text_options(&self) -> TextOptions {
        let mut options = TextOptions::default()
            .infer_rows(self.infer_rows.unwrap_or(TextOptions::INFER_ROWS))
            .types(self.types.iter().cloned().collect())
            .missing_words(self.missing_words.clone());
        if let Some(delimiter) = self.delimiter {
            options = options.delimiter(delimiter);
        }
        if let Some(mark) = self.decimal {
            options = options.decimal(mark);
        }
        if let Some(count) = self.skip_lines {
            options = options.skip_lines(count);
        }
        if let Some(width) = self.width {
            options = options.width(width);
        }
        if self.no_header {
            options = options.without_header();
        }
        if self.no_quotes {
            options = options.without_quotes();
        }
        if self.pad_rows {
            options = options.pad_rows();
        }
        if self.zero_based {
            options = options.zero_based();
        }
        if self.sparse { options.sparse() } else { options }
    }
}

/// The treatment of rows without a target.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct MissingTargetArgs {
    /// Rows without a target: drop skips them and reports their number, error stops
    #[arg(long, value_name = "HOW", value_parser = parse::missing_target, default_value = "drop")]
    pub(crate) missing_target: MissingTarget,
}

/// The files of a table, and the selection of its rows.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct SelectArgs {
    #[arg(help = paths_help(), value_name = "DATA", required = true, help_heading = None::<&str>)]
    pub(crate) paths: Vec<PathBuf>,
    /// Stored rows to use, half-open: 0..463715, ..1000 or 1000..
    #[arg(long, value_name = "A..B", value_parser = parse::rows, allow_hyphen_values = true)]
    pub(crate) rows: Option<Range<u64>>,
    /// Condition on one column: 'fold != 3' (== != < <= > >=)
    #[arg(long = "where", value_name = "CONDITION", value_parser = parse::condition)]
    pub(crate) condition: Option<Condition>,
    /// Missing values: error, drop, mean or indicator; NaN and infinity are missing too; drop skips
    /// the row, mean fills in the mean of the training rows, indicator also adds a feature that
    /// marks missing values [default: error; indicator in tune; with a model, the setting of its
    /// fit]
    #[arg(long, value_parser = parse::missing, value_name = "HOW")]
    pub(crate) missing: Option<Missing>,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

fn paths_help() -> String {
    let formats = join_with_commas(kstore::source::formats().iter().map(|format| format!(".{}", format.extensions[0])));
    format!("Files ({formats}), folders or globs, read as one table in sorted path order")
}

/// The encoding of text, category and time columns as features.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct CategoryArgs {
    /// Count the words of a text column as features: NAME for words, NAME:word(1,2) for n-grams of
    /// one and two words, NAME:char(3,5) for n-grams of characters, NAME:spectrum(5) for n-grams of
    /// five characters without normalisation, NAME:value for the whole text; features=N or hash=N
    /// inside the parentheses limits or hashes the features; repeat the option for several columns
    #[arg(long, value_name = "NAME[:GRAMS]", value_parser = parse::name)]
    pub(crate) text: Vec<String>,
    /// Categorical columns, with a feature for each value: names or globs, comma-separated; all
    /// (every text column), or none [default: text columns with up to 1,000 values; text columns
    /// with more are target-encoded]
    #[arg(long, value_name = "NAMES|all|none", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) categories: Vec<String>,
    /// Hash each text column that has too many values for categories into this many features,
    /// instead of target encoding
    #[arg(long, value_name = "BUCKETS", value_parser = parse::positive_integer)]
    pub(crate) hash: Option<usize>,
    /// Features of dates and times: position (days since 1970), cyclic (also the hour, the weekday
    /// and the day of the year, if the rows cover the whole cycle) or none [default: cyclic]
    #[arg(long, value_name = "HOW", value_parser = parse::times)]
    pub(crate) times: Option<TimeFeatures>,
}

impl CategoryArgs {
    pub(crate) fn apply_to(&self, selection: Selection) -> Selection {
        let hash = self.hash.map(|buckets| u32::try_from(buckets).unwrap_or(u32::MAX));
        let (times, text) = (self.times.unwrap_or_default(), self.text.clone());
        Selection { categories: self.categories.clone().into(), hash, times, text, ..selection }
    }
}

/// Past values of columns as further columns.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct LagArgs {
    /// Values of earlier rows of the same series as features: count:1,24 for the values of count 1
    /// and 24 rows earlier, also if it is the target; repeat the option for several columns
    #[arg(long, value_name = "NAME:ROWS", value_parser = parse::rows_back)]
    lags: Vec<RowsBack>,
    /// Means over earlier rows of the same series as features: count:24,168 for the means over the
    /// last 24 and 168 rows before a row; repeat the option for several columns
    #[arg(long, value_name = "NAME:ROWS", value_parser = parse::rows_back)]
    rolling: Vec<RowsBack>,
    /// Columns whose values name the series of --lags and --rolling, comma-separated [default: the
    /// table is one series]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name)]
    by: Vec<String>,
    /// Column of times or numbers that increases within each series of --lags and --rolling; a row
    /// out of order is an error [default: the order of the rows]
    #[arg(long, value_name = "NAME", value_parser = parse::name)]
    order: Option<String>,
    /// For a series with a trend: learn the change of the target since an earlier row, and add it
    /// to the value of this row. count:1 is the last value, and count:7 for days the value of a
    /// week ago. Lags and means of the target are then relative to this value
    #[arg(long, value_name = "NAME:ROWS", value_parser = parse::rows_back)]
    difference: Option<RowsBack>,
}

impl LagArgs {
    pub(crate) fn lags(&self) -> Option<Lags> {
        let Self { lags, rolling, by, order, difference } = self.clone();
        Some(Lags { lags, rolling, by, order, difference }).filter(|lags| *lags != Lags::default())
    }
}

/// A table to learn from.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct DataArgs {
    /// Target columns, comma-separated; FILE.npy for .npy and .npz tables. Unsupervised solvers
    /// take none
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) missing_target: MissingTargetArgs,
    /// Feature columns as names or globs, comma-separated; !NAME excludes a column: '*,!id'
    /// [default: every numeric, text or time column except the target]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) features: Vec<String>,
    #[command(flatten)]
    pub(crate) category: CategoryArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// The rows on which a fitted model is tested.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct TestRowsArgs {
    /// Rows to test the model on, which nothing learns from: 20% (random rows; of classes, 20 % of
    /// each), 20%:COLUMN (of each value of a column), last:15% (the last rows), last:15%:COLUMN
    /// (the latest values of a column), groups:20%:COLUMN (whole groups) or 'where fold == 9'; the
    /// folds follow last: and groups:, unless --folds is given; the report ends with the errors on
    /// these rows
    #[arg(long, value_name = "SPEC", value_parser = parse::test_spec)]
    pub(crate) test: Option<TestSpec>,
}

const MISSING_HELP: &str = "Missing, NaN or infinite values: keep, error or drop (the row) [default: keep]";

/// A table to rewrite.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Table", mut_arg("missing", |arg| arg.value_parser(parse::missing_of_conversion).help(MISSING_HELP)))]
pub(crate) struct ConvertDataArgs {
    /// Target columns, comma-separated; in .npy a file of their own, in .svm the label; FILE.npy
    /// for .npy and .npz tables
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) target: Vec<String>,
    /// Columns other than the target, as names or globs, comma-separated [default: all]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) features: Vec<String>,
    /// Columns to exclude, as names or globs, comma-separated, such as columns that the output
    /// format does not support
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name)]
    pub(crate) drop: Vec<String>,
    #[command(flatten)]
    pub(crate) lags: LagArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}
