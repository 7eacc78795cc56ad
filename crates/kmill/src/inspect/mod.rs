//! `kmill inspect`: shows the columns of a table and what stands out in them, or the contents of a
//! model.

mod model;

use self::model::ModelReport;
use crate::args::{RunArgs, RunSettings, TextArgs, parse};
use crate::shards::NEW_JOB_REMEDY;
use crate::update::command_of_new_fit;
use crate::{Result, columns::is_next_name, error::with_option_names, output};
use clap::Args;
use kreport::inspect::{Finding, TablePage, TableSample, draw_sample, findings};
use kreport::table::{Align, AlignedTable, MISSING_VALUE, format_count, optional_number};
use kstore::budget::format_bytes;
use kstore::pass::lanes::{self, LaneMemory};
use kstore::search::ColumnSummary;
use kstore::statistics::ColumnMoments;
use kstore::{
    Kind, MemoryPlan, Missing, Selection, Statistics, StatisticsReduction, Table, TextOptions, Workers, display,
};
use std::path::{Path, PathBuf};
use std::{collections::HashMap, fmt};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill inspect train.parquet --stats\n  \
    kmill inspect train.parquet --target y\n  \
    kmill inspect train.parquet --target y --report page.html\n  \
    kmill inspect model.safetensors --json")]
pub(crate) struct InspectArgs {
    /// Files, folders or globs of one table, or one model
    #[arg(value_name = "DATA|MODEL", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Compute the minimum, mean, maximum and missing values of every column in one pass [default:
    /// only for tables of up to a million values]
    #[arg(long)]
    pub(crate) stats: bool,
    /// Column to be predicted: shows its classes, columns that give it away, and whether
    /// neighbouring rows are alike
    #[arg(long, value_name = "COLUMN", value_parser = parse::name)]
    pub(crate) target: Option<String>,
    /// Also write an HTML page of a table: what stands out, classes, missing values, a histogram of
    /// each column
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Maximum number of values of a table whose statistics are computed by default. They take a
/// fraction of a second.
const MAX_DEFAULT_VALUES: u64 = 1_000_000;

/// The sample of rows for the findings takes at most the memory budget divided by this number.
const MAX_SAMPLE_FRACTION: usize = 8;

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct TableReport {
    pub(crate) format: &'static str,
    #[serde(serialize_with = "kstore::display::lossy_paths")]
    pub(crate) files: Vec<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) columns: Vec<ColumnReport>,
    /// Number of rows that were read for the findings.
    pub(crate) sampled_rows: usize,
    pub(crate) findings: Vec<Finding>,
    /// Value of `--features` that excludes all columns which the findings propose to exclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) features: Option<String>,
}

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ColumnReport {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Number of distinct values of a text column, such as `12` or `more than 1000`; `None` if not
    /// counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<String>,
    /// First and last date or time, in ISO 8601; `None` if the column has no times or was not
    /// examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<(String, String)>,
    /// What the values appear to be (such as times), and the option that reads them as such; `None`
    /// without a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) looks: Option<String>,
    /// Number of rows without a value; `None` if not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<u64>,
    /// Statistics of the numbers, from one pass over the table; `None` if no pass was made.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) statistics: Option<ColumnStatistics>,
}

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct ColumnStatistics {
    pub(crate) min: Option<f64>,
    pub(crate) mean: Option<f64>,
    /// Population standard deviation.
    pub(crate) sd: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl ColumnStatistics {
    fn new(moments: &ColumnMoments) -> Self {
        let if_counted = |value: f64| (moments.count > 0).then_some(value);
        Self {
            min: if_counted(moments.min),
            mean: if_counted(moments.mean),
            sd: if_counted(moments.deviation()),
            max: if_counted(moments.max),
        }
    }
}

impl ColumnReport {
    /// Returns the type, and for text its contents: `text (12 values)`, `text (times)`.
    fn type_label(&self) -> String {
        match (&self.values, &self.range) {
            (Some(values), None) => format!("{} ({values} values)", self.kind),
            (Some(_), Some(_)) => format!("{} (times)", self.kind),
            (None, _) => self.kind.clone(),
        }
    }

    /// Returns the cells of the report's columns min, mean, sd, max and missing.
    fn statistic_cells(&self) -> [String; 5] {
        let [min, mean, sd, max] = match (&self.range, &self.statistics) {
            (Some((first, last)), _) => [&first[..], MISSING_VALUE, MISSING_VALUE, last].map(String::from),
            (None, Some(s)) => [s.min, s.mean, s.sd, s.max].map(optional_number),
            (None, None) => Default::default(),
        };
        let missing = self.missing.filter(|missing| *missing > 0).map_or_else(String::new, format_count);
        [min, mean, sd, max, missing]
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        let files = match &self.files[..] {
            [file] => display::escape_path(file),
            files => format!("{} files", files.len()),
        };
        let columns = self.columns.len() as u64;
        writeln!(
            f,
            "{files}: {}, {} rows, {} columns, {size}\n",
            self.format,
            format_count(self.rows),
            format_count(columns)
        )?;
        if self.columns.iter().all(|column| column.missing.is_none()) {
            write!(f, "{}", self.type_table())?;
            return self.write_findings(f);
        }
        let headings = HEADINGS;
        let alignment = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        let mut table = AlignedTable::new(headings.iter().enumerate().map(|(i, head)| (*head, alignment(i))));
        for column in &self.columns {
            table.push_row([column.name.clone(), column.type_label()].into_iter().chain(column.statistic_cells()));
        }
        write!(f, "{table}")?;
        let hints = self.columns.iter().filter_map(|column| Some((&column.name, column.looks.as_ref()?)));
        hints.enumerate().try_for_each(|(i, (name, looks))| {
            writeln!(f, "{}column {name} {looks}", if i == 0 { "\n" } else { "" })
        })?;
        self.write_findings(f)
    }
}

/// Headings of the table of columns.
const HEADINGS: [&str; 7] = ["column", "type", "min", "mean", "sd", "max", "missing"];

impl TableReport {
    /// Returns the page of the table.
    fn table_page<'a>(
        &'a self,
        sample: &'a TableSample,
        target: Option<&'a str>,
        warnings: Vec<String>,
    ) -> TablePage<'a> {
        let row = |column: &ColumnReport| {
            [column.name.clone(), column.type_label()].into_iter().chain(column.statistic_cells()).collect()
        };
        let files: Vec<String> = self.files.iter().map(|file| display::escape_path(file).to_string()).collect();
        let bytes = format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        TablePage {
            files: files.join(", "),
            facts: vec![
                ("format", self.format.to_string()),
                ("rows", format_count(self.rows)),
                ("columns", format_count(self.columns.len() as u64)),
                ("size", bytes),
            ],
            columns: (HEADINGS.to_vec(), self.columns.iter().map(row).collect()),
            findings: &self.findings,
            sample,
            target,
            warnings,
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }

    fn write_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", Finding::table(&self.findings))?;
        if (self.sampled_rows as u64) < self.rows {
            let (sampled, rows) = (format_count(self.sampled_rows as u64), format_count(self.rows));
            writeln!(f, "\nseen in {sampled} of {rows} rows, in blocks spread over the table")?;
        }
        Ok(())
    }

    /// Returns a table of names and types. Consecutively numbered columns of one type, such as x0 …
    /// x89, share a line.
    fn type_table(&self) -> AlignedTable {
        let mut table = AlignedTable::new([("column", Align::Left), ("type", Align::Left)]);
        let runs = self.columns.chunk_by(|a, b| a.kind == b.kind && is_next_name(&a.name, &b.name));
        for run in runs {
            match run {
                [first, .., last] if run.len() > 2 => {
                    let names = format!("{} … {} ({})", first.name, last.name, run.len());
                    table.push_row([names, first.kind.clone()]);
                }
                _ => run.iter().for_each(|column| table.push_row([column.name.clone(), column.type_label()])),
            }
        }
        table
    }
}

/// Opens a table and reports its columns. If statistics are requested or cheap, also computes them,
/// and searches text and time columns. Fails if files cannot be read, or if the budget is too small
/// for one tile (a block of rows).
pub(crate) fn inspect_table<P: AsRef<Path>>(
    paths: &[P],
    text: &TextOptions,
    computes_statistics: bool,
    target: Option<&str>,
    run: &RunSettings,
) -> Result<(TableReport, TableSample)> {
    let table = Table::open_with(paths, text)?;
    if let Some(name) = target {
        // rejects a name that the table does not have
        table.select(&Selection { keep: vec![name.to_string()], without_features: true, ..Selection::default() })?;
    }
    table.note().iter().for_each(|note| run.progress.note(&with_option_names(note)));
    let columns = &table.schema().columns;
    let line_bytes = columns.len() * 2 * size_of::<ColumnReport>();
    let plan = MemoryPlan::for_process("inspection", run.memory, run.threads, table.metadata_bytes());
    plan.term("lines of the report", line_bytes, "").check()?;
    let numeric_count = columns.iter().filter(|column| column.kind.is_direct_feature()).count() as u64;
    let is_cheap = |column_count: u64| {
        computes_statistics || table.stored_rows().saturating_mul(column_count) <= MAX_DEFAULT_VALUES
    };
    let needs_pass = |column_count: u64| is_cheap(column_count) && column_count > 0 && table.stored_rows() > 0;
    let statistics = needs_pass(numeric_count).then(|| compute_statistics(&table, run)).transpose()?;
    let searched_count = columns.iter().filter(|column| is_searched(&column.kind)).count() as u64;
    let summaries = if needs_pass(searched_count) { search_values(&table, run)? } else { HashMap::new() };
    let mut moments = statistics.iter().flat_map(|statistics| &statistics.inputs).peekable();
    let column_reports = columns.iter().map(|column| {
        let summary = summaries.get(&column.name);
        let moments = moments.by_ref().next_if(|_| column.kind.is_direct_feature());
        let missing = statistics.as_ref().zip(moments).map(|(statistics, moments)| statistics.rows - moments.count);
        ColumnReport {
            name: column.name.clone(),
            kind: column.kind.to_string(),
            values: summary
                .filter(|_| column.kind == Kind::Text)
                .map(|column_content| column_content.distinct_values.to_string()),
            range: summary.and_then(|column_content| column_content.time_range.clone()),
            looks: match summary.and_then(|column_content| column_content.resemblance.as_ref()) {
                Some(looks) => Some(with_option_names(&looks.to_string())),
                None => moments
                    .filter(|_| matches!(column.kind, Kind::Int { .. }))
                    .and_then(|moments| time_hint(moments, &column.name)),
            },
            missing: missing.or(summary.map(|column_content| column_content.missing_count)),
            statistics: moments.map(ColumnStatistics::new),
        }
    });
    let sample = draw_sample(&table, run.memory / MAX_SAMPLE_FRACTION)?;
    let findings = findings(&sample, target);
    let report = TableReport {
        format: table.format(),
        files: table.files().map(PathBuf::from).collect(),
        bytes: table.file_bytes(),
        rows: table.stored_rows(),
        columns: column_reports.collect(),
        sampled_rows: sample.row_numbers.len(),
        features: Finding::proposed_features(&findings),
        findings,
    };
    Ok((report, sample))
}

/// Returns a hint if the integers of a column look like times since 1970: if all of them are
/// between 2001 and 2099 in one of the usual units.
fn time_hint(moments: &ColumnMoments, name: &str) -> Option<String> {
    let fits_unit = |unit: f64| moments.count > 1 && moments.min >= 1e9 * unit && moments.max < 4.1e9 * unit;
    let [seconds, millis, micros, nanos] = [1.0, 1e3, 1e6, 1e9].map(fits_unit);
    let units = [("seconds", seconds), ("milliseconds", millis), ("microseconds", micros), ("nanoseconds", nanos)];
    let (unit, _) = units.into_iter().find(|(_, fits)| *fits)?;
    Some(format!("looks like {unit} since 1970; --types {name}=date reads dates in .csv"))
}

/// Returns true for columns whose values or times are searched for.
fn is_searched(kind: &Kind) -> bool {
    matches!(kind, Kind::Text | Kind::Time(_))
}

fn column_names(table: &Table, is_included: impl Fn(&Kind) -> bool) -> Vec<String> {
    let columns = table.schema().columns.iter().filter(|column| is_included(&column.kind));
    columns.map(|column| column.name.clone()).collect()
}

/// Computes the statistics of every numeric column, in file order.
fn compute_statistics(table: &Table, run: &RunSettings) -> Result<Statistics> {
    // no scaler replaces missing values here; they stay NaN, which the moments skip and count
    let features = column_names(table, Kind::is_direct_feature);
    let selection = Selection { features, missing: Missing::Mean, ..Selection::default() };
    let selected = table.select(&selection)?;
    let source = selected.rows::<f64>(kstore::ReadSettings::default())?;
    let reduction = StatisticsReduction::new(selected.shape());
    let lane = LaneMemory {
        tile_rows: lanes::TILE_ROWS,
        name: "statistics",
        bytes: reduction.state_bytes(),
        shared_terms: Vec::new(),
    };
    let lane_count = lanes::fitting_lanes("inspection", &source, &lane, run.memory, run.threads)?.count;
    let stage = run.progress.stage("statistics", Some(table.stored_rows()));
    let (statistics, _) =
        lanes::default_pass(lane_count, &Workers::sequential(), &stage).reduce(&source, &reduction)?;
    stage.finish();
    Ok(statistics)
}

/// Returns the contents of text and time columns, by name.
fn search_values(table: &Table, run: &RunSettings) -> Result<HashMap<String, ColumnSummary>> {
    let features = column_names(table, is_searched);
    let selected = table.select(&Selection { features, missing: Missing::Indicator, ..Selection::default() })?;
    let Some(search) = selected.column_search() else { return Ok(HashMap::new()) };
    let search_result = run.job_run().run_search(&search, &selected)?;
    Ok(search.columns().into_iter().zip(search_result.columns()).collect())
}

pub(crate) fn main(args: &InspectArgs) -> Result<()> {
    let run = args.run.resolve();
    if let [path] = &args.paths[..]
        && ksolve::job::is_model_file(path)
    {
        if let Some(page) = &args.report {
            let why = "a model has no page of its own";
            let remedy = "omit it; fit and evaluate write a page with --report";
            return Err(crate::Error::option("--report", page.display(), why, remedy));
        }
        let bytes = std::fs::metadata(path).map_err(kstore::Error::io("read", path))?.len();
        // three copies: the file, the model, and the basis functions built from it
        let model_bytes = 3 * usize::try_from(bytes).unwrap_or(usize::MAX / 3);
        let plan = MemoryPlan::for_process("inspection", run.memory, run.threads, 0);
        plan.term("the model", model_bytes, "fit a model of lower `rank`").check()?;
        let predictor = ksolve::predict::Predictor::load_within_budget(path, &run.job_run())?;
        let (metadata, metric, components) =
            (predictor.metadata().clone(), predictor.metric(), predictor.component_count());
        let (model, nodes, leaves) = (path.clone(), predictor.graph_size(), predictor.leaf_counts());
        let lambda_convention = ksolve::job::convention_of(&metadata.solver);
        let remedy = match metadata.online_rows {
            0 => NEW_JOB_REMEDY.to_string(),
            _ => command_of_new_fit(&metadata),
        };
        let new_rows = metadata.growth.as_ref().map(|growth| growth.report(&remedy));
        let report =
            ModelReport { model, bytes, metadata, metric, components, nodes, leaves, lambda_convention, new_rows };
        return output::print_report(&report, run.json);
    }
    let target = args.target.as_deref();
    // the page shows the statistics of every column
    let computes_statistics = args.stats || args.report.is_some();
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    let (report, sample) = inspect_table(&args.paths, &args.text.text_options(), computes_statistics, target, &run)?;
    if let Some(page) = &args.report {
        output::protect_inputs([page], report.files.iter().map(PathBuf::as_path))?;
        report.table_page(&sample, target, run.progress.warnings()).page().write(page)?;
    }
    output::print_report(&report, run.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(statistics: bool) -> TableReport {
        let statistics =
            statistics.then(|| ColumnStatistics { min: Some(-1.5), mean: Some(0.25), sd: Some(1.0), max: Some(2.0) });
        let column = |name: &str, kind: &str| ColumnReport {
            name: name.to_string(),
            kind: kind.to_string(),
            values: None,
            range: None,
            looks: None,
            missing: statistics.map(|_| 3),
            statistics: statistics.filter(|_| kind != "text"),
        };
        let columns = ["x8", "x9", "x10", "x11"].map(|name| column(name, "float32"));
        TableReport {
            format: "Parquet",
            files: vec![PathBuf::from("a.parquet")],
            bytes: 2048,
            rows: 1234,
            columns: columns.into_iter().chain([column("station", "text")]).collect(),
            sampled_rows: 1234,
            findings: Vec::new(),
            features: None,
        }
    }

    #[test]
    fn columns_that_count_up_are_one_line() {
        let expected = "\
a.parquet: Parquet, 1,234 rows, 5 columns, 2.0 KiB

  column        type
  x8 … x11 (4)  float32
  station       text
";
        assert_eq!(report(false).to_string(), expected);
    }

    #[test]
    fn statistics_line_up() {
        let text = report(true).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "  column   type        min    mean     sd    max  missing");
        assert_eq!(lines[3], "  x8       float32  -1.500  0.2500  1.000  2.000        3");
        assert_eq!(lines[7], format!("{:<56}3", "  station  text"));
        let json = serde_json::to_value(report(true)).unwrap();
        assert_eq!(json["columns"][0]["mean"], 0.25);
        assert_eq!(json["columns"][4].as_object().unwrap().len(), 3);
    }
}
