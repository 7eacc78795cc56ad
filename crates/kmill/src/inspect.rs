//! `kmill inspect`: shows the columns of a table, or the contents of a model.

use crate::args::{RunArgs, RunSettings, TextArgs};
use crate::{Result, columns::is_next_name, error::with_option_names, output};
use clap::Args;
use kreport::fit::{DISTANCE_DESCRIPTION, describe_certificate, describe_neighbours};
use kreport::importance::{bars, describe_metric, importance};
use kreport::table::{
    self, Align, AlignedTable, MISSING_VALUE, facts, format_count, optional_number, rounded_kernel, short_lambda,
};
use ksolve::{ModelMetadata, job::MetricReport};
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
    kmill inspect model.safetensors --json")]
pub(crate) struct InspectArgs {
    /// Files, folders or globs of one table, or one model
    #[arg(value_name = "DATA|MODEL", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Compute the minimum, mean, maximum and missing values of every column in one pass [default:
    /// only for tables of up to a million values]
    #[arg(long)]
    pub(crate) stats: bool,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Maximum number of values of a table whose statistics are computed by default. They take a
/// fraction of a second.
const MAX_DEFAULT_VALUES: u64 = 1_000_000;

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct TableReport {
    pub(crate) format: &'static str,
    #[serde(serialize_with = "kstore::display::lossy_paths")]
    pub(crate) files: Vec<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) columns: Vec<ColumnReport>,
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
            return write!(f, "{}", self.type_table());
        }
        let headings = ["column", "type", "min", "mean", "sd", "max", "missing"];
        let alignment = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        let mut table = AlignedTable::new(headings.iter().enumerate().map(|(i, head)| (*head, alignment(i))));
        for column in &self.columns {
            table.push_row([column.name.clone(), column.type_label()].into_iter().chain(column.statistic_cells()));
        }
        write!(f, "{table}")?;
        let hints = self.columns.iter().filter_map(|column| Some((&column.name, column.looks.as_ref()?)));
        hints
            .enumerate()
            .try_for_each(|(i, (name, looks))| writeln!(f, "{}column {name} {looks}", if i == 0 { "\n" } else { "" }))
    }
}

impl TableReport {
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
    run: &RunSettings,
) -> Result<TableReport> {
    let table = Table::open_with(paths, text)?;
    table.note().iter().for_each(|note| run.progress.note(note));
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
    let report = columns.iter().map(|column| {
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
    Ok(TableReport {
        format: table.format(),
        files: table.files().map(PathBuf::from).collect(),
        bytes: table.file_bytes(),
        rows: table.stored_rows(),
        columns: report.collect(),
    })
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

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ModelReport {
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub(crate) model: PathBuf,
    pub(crate) bytes: u64,
    #[serde(flatten)]
    pub(crate) metadata: ModelMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metric: Option<MetricReport>,
    /// Number of components in addition to the predictions.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) components: usize,
    /// For a graph model, the number of its nodes, and the number of nearest nodes from which the
    /// coordinates of a row are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<(usize, usize)>,
    /// Number of leaves with an exact kernel, and total number of their rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leaves: Option<(usize, usize)>,
    pub(crate) lambda_convention: &'static str,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.metadata;
        let size = format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        writeln!(
            f,
            "{}: {} model for {}, {size}\n",
            display::escape_path(&self.model),
            metadata.solver,
            metadata.task
        )?;
        let mut lines = Vec::from_iter(self.nodes.is_none().then(|| ("kernel", rounded_kernel(&metadata.kernel))));
        lines.extend(metadata.second_view.iter().map(|view| ("with kernel", rounded_kernel(&view.kernel))));
        lines.extend(metadata.members.iter().map(|member| ("mean with", rounded_kernel(&member.kernel))));
        lines.extend(self.metric.iter().map(|metric| ("metric", describe_metric(metric))));
        match self.nodes {
            Some((nodes, k)) => {
                let by = metadata.landmarks.as_ref().map_or(String::new(), |scheme| format!(" by {scheme}"));
                lines.push(("distances", DISTANCE_DESCRIPTION.to_string()));
                lines.push(("nodes", format!("{}{by}, {}", format_count(nodes as u64), describe_neighbours(k))));
            }
            None => {
                lines.push(("map", format!("{}, {} features", metadata.map, format_count(metadata.rank as u64))));
                lines.extend(metadata.landmarks.iter().map(|scheme| ("landmarks", format!("by {scheme}"))));
            }
        }
        lines.extend(self.leaves.map(|(leaves, rows)| {
            let (leaves, rows) = (format_count(leaves as u64), format_count(rows as u64));
            ("leaves", format!("{leaves}, exact solvers on {rows} rows"))
        }));
        lines.extend(metadata.certificate.iter().map(|certificate| ("certificate", describe_certificate(certificate))));
        lines.extend(metadata.lambda.map(|lambda| ("lambda", short_lambda(lambda))));
        lines.push(("intercept", metadata.intercept.to_string()));
        lines.push(("precision", metadata.precision.clone()));
        lines.push(("trained on", format!("{} rows, seed {}", format_count(metadata.rows), metadata.seed)));
        lines.extend(metadata.test_rows().map(|test_rows| {
            let spec = &test_rows.spec;
            ("test rows", format!("--test {spec}; evaluate --test same selects them in the table of the fit"))
        }));
        lines.extend(
            (metadata.online_rows > 0)
                .then(|| ("learned since", format!("{} rows, by update", format_count(metadata.online_rows)))),
        );
        lines.extend((!metadata.targets.is_empty()).then(|| ("target", metadata.targets.join(", "))));
        lines.extend((!metadata.classes.is_empty()).then(|| ("classes", shorten(&metadata.classes))));
        lines.extend(
            (self.components > 0).then(|| ("components", format!("{}, by predict --components", self.components))),
        );
        lines.extend(metadata.encoding.iter().map(|encoding| {
            let columns = encoding.columns().iter().map(|column| format!("{} ({column})", column.name));
            ("columns", shorten(&columns.collect::<Vec<_>>()))
        }));
        let features = match metadata.sparse_shape() {
            Some(shape) => {
                format!(
                    "{}, at most {} per row",
                    format_count(shape.column_count as u64),
                    format_count(shape.max_row_entries as u64)
                )
            }
            None => format!("{}: {}", metadata.features.len(), shorten(&metadata.features)),
        };
        lines.push(("features", features));
        write!(f, "{}", facts(lines))?;
        metadata.lambda.map_or(Ok(()), |_| writeln!(f, "\n{}", self.lambda_convention))?;
        match &self.metric {
            Some(metric) => {
                let columns = metadata.encoding.iter().flat_map(|encoding| encoding.columns());
                let coded_columns: Vec<&str> = columns.map(|column| &column.name[..]).collect();
                write!(f, "\n{}", bars("importance", &importance(metric, &coded_columns)))
            }
            None => Ok(()),
        }
    }
}

/// Formats the first dozen names in one line, with the total number.
fn shorten(names: &[impl ToString]) -> String {
    const MAX_LISTED_NAMES: usize = 12;
    let listed = table::join_with_commas(names.iter().take(MAX_LISTED_NAMES).map(ToString::to_string));
    if names.len() > MAX_LISTED_NAMES { format!("{listed}, … ({})", names.len()) } else { listed }
}

pub(crate) fn main(args: &InspectArgs) -> Result<()> {
    let run = args.run.resolve();
    if let [path] = &args.paths[..]
        && ksolve::job::is_model_file(path)
    {
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
        let report = ModelReport { model, bytes, metadata, metric, components, nodes, leaves, lambda_convention };
        return output::print_report(&report, run.json);
    }
    output::print_report(&inspect_table(&args.paths, &args.text.text_options(), args.stats, &run)?, run.json)
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
