//! `kmill prepare`, `stats`, `merge` and `solve`: a sharded fit, on several machines or at several
//! times.

use crate::args::{JobArgs, RunArgs, RunSettings, TextArgs, parse};
use crate::{Error, Result, open, output, pipeline, pipeline::FitOptions};
use clap::Args;
use kreport::fit::FitReport;
use kreport::growth::growth_lines;
use kreport::table::{facts, format_count, join_with_commas};
use ksolve::growth::{Growth, GrowthReport};
use ksolve::shards::{MergeSummary, PreparedJob, growth, merge};
use kstore::Selection;
use std::path::{Path, PathBuf};
use std::{fmt, ops::Range};

#[derive(Debug, Args)]
#[command(after_help = "Example, a table in two parts:\n  \
    kmill prepare ridge parts/ --target y -o job.safetensors\n  \
    kmill stats job.safetensors parts/ --part 1/2 -o a.safetensors   (on one machine)\n  \
    kmill stats job.safetensors parts/ --part 2/2 -o b.safetensors   (on another)\n  \
    kmill merge a.safetensors b.safetensors -o all.safetensors\n  \
    kmill solve job.safetensors all.safetensors -o model.safetensors\n\n\
    For rows that arrive later, with the scaling, landmarks and folds of the job:\n  \
    kmill stats job.safetensors tuesday.parquet --after all.safetensors -o tuesday.safetensors\n\n\
    stats, merge and solve compare rows that arrived later with the prepared rows: how much of \
    them the landmarks miss, which ranges moved, and when to prepare the job anew.\n\n\
    The model is bit-identical to that of `kmill fit ridge parts/ --target y`. The solver must fit in \
    one pass: ridge, kpca or fisher.")]
pub(crate) struct PrepareArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Output file of the job, which every shard reads
    #[arg(short, long, value_name = "JOB", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Job file written by `kmill prepare`
    #[arg(value_name = "JOB")]
    pub(crate) job: PathBuf,
    /// Files, folders or globs: the whole table, or a part of it with --first-row or --after
    #[arg(value_name = "DATA", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Stored rows of the whole table to process, half-open [default: all rows of DATA]
    #[arg(long, value_name = "A..B", value_parser = parse::rows, allow_hyphen_values = true)]
    pub(crate) rows: Option<Range<u64>>,
    /// Process part I of K of the whole table, I from 1 to K: parts of about equal size
    #[arg(long, value_name = "I/K", value_parser = parse::part, conflicts_with_all = ["rows", "first_row", "after"])]
    pub(crate) part: Option<(u64, u64)>,
    /// DATA is the part of the whole table that begins at this stored row
    #[arg(long, value_name = "N", value_parser = parse::parse_integer)]
    pub(crate) first_row: Option<u64>,
    /// DATA continues the rows of these statistics, such as the merged statistics of the day before
    #[arg(long, value_name = "STATS", conflicts_with = "first_row")]
    pub(crate) after: Option<PathBuf>,
    /// File FILE.npy with the target of .npy tables
    #[arg(long, value_name = "FILE.npy", value_parser = parse::name)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// Output file of the statistics
    #[arg(short, long, value_name = "STATS", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Statistics files of one job, in any order
    #[arg(value_name = "STATS", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Stored rows to remove, as if they had never been present; several ranges, comma-separated
    #[arg(long, value_name = "A..B", value_delimiter = ',', value_parser = parse::rows)]
    pub(crate) without: Vec<Range<u64>>,
    /// Output file of the merged statistics
    #[arg(short, long, value_name = "STATS", help_heading = "Run")]
    pub(crate) output: PathBuf,
    /// Print one JSON object to stdout, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no warnings to stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SolveArgs {
    /// Job file written by `kmill prepare`
    #[arg(value_name = "JOB")]
    pub(crate) job: PathBuf,
    /// Statistics file of all rows of the job
    #[arg(value_name = "STATS")]
    pub(crate) statistics: PathBuf,
    /// Output file of the model: a name that ends with .safetensors, or one without an extension
    #[arg(short, long, value_name = "MODEL", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ShardReport {
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub(crate) output: PathBuf,
    pub(crate) bytes: u64,
    /// Number of rows of a segment, the unit in which rows are summed. The statistics of a shard
    /// that begins and ends at multiples of this number consist of sums only; the statistics of
    /// other shards also contain rows. `None` for a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) segment_rows: Option<u64>,
    /// Contents of merged statistics; `None` for a job and for the statistics of a shard.
    #[serde(flatten)]
    pub(crate) merged: Option<MergeSummary>,
    /// Rows that were added after `prepare`, compared with the prepared rows; `None` if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) growth: Option<GrowthReport>,
}

impl ShardReport {
    fn new(output: &Path, segment_rows: Option<u64>, merged: Option<MergeSummary>, growth: Option<&Growth>) -> Self {
        let bytes = std::fs::metadata(output).map_or(0, |metadata| metadata.len());
        let growth = growth.map(|growth| growth.report(NEW_JOB_REMEDY));
        Self { output: output.to_path_buf(), bytes, segment_rows, merged, growth }
    }
}

/// How to replace an outgrown job.
pub(crate) const NEW_JOB_REMEDY: &str = "prepare the job anew on all rows (kmill prepare), then stats, merge and solve";

impl fmt::Display for ShardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segment_note = "rows; a shard stores the rows of incomplete segments";
        let mut lines =
            Vec::from_iter(self.segment_rows.map(|rows| ("segment", format!("{} {segment_note}", format_count(rows)))));
        if let Some(MergeSummary { states, rows, deferred_rows, next_row, missing, .. }) = &self.merged {
            let (summed_rows, states) = (format_count(*rows - deferred_rows), format_count(*states as u64));
            lines.push(("statistics", format!("of {summed_rows} rows in {states} states")));
            let deferred_rows = Some(deferred_rows).filter(|deferred_rows| **deferred_rows > 0);
            lines.extend(deferred_rows.map(|deferred_rows| {
                ("rows", format!("{} of segments that other shards complete", format_count(*deferred_rows)))
            }));
            lines.push(("next row", format_count(*next_row)));
            let ranges = join_with_commas(missing.iter().map(|rows| format!("{}..{}", rows.start, rows.end)));
            lines.push(("missing", if missing.is_empty() { "none".to_string() } else { ranges }));
        }
        lines.extend(self.growth.iter().flat_map(growth_lines));
        let size = kstore::budget::format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        lines.push(("written", format!("{} ({size})", self.output.display())));
        write!(f, "{}", facts(lines))
    }
}

pub(crate) fn prepare(args: &PrepareArgs, run: &RunSettings) -> Result<ShardReport> {
    let mut options = FitOptions::new(&args.job)?;
    options.check_importance()?;
    output::check_writable(&args.output)?;
    let (table, selection) = options.open()?;
    output::protect_inputs([&args.output], output::table_files(&table).chain(options.fit.files()))?;
    let selected = run.job_run().resolve_categories(&table.select(&selection)?)?;
    let fit = options.fit_with_open_files(&selected)?;
    let Selection { features, categories, encoding, .. } = selected.same_features();
    let selection = Selection { features, categories, encoding, ..selection };
    let job = PreparedJob::prepare(&fit, &table, &selection, &run.job_run(), &args.output)?;
    Ok(ShardReport::new(&args.output, Some(job.segment_rows()), None, None))
}

pub(crate) fn stats(args: &StatsArgs, run: &RunSettings) -> Result<ShardReport> {
    let job = PreparedJob::open(&args.job)?;
    output::check_writable(&args.output)?;
    let text = job.text_options(args.text.text_options());
    let (table, _) = open::table(&args.paths, &text, &args.target)?;
    let inputs = [Some(args.job.as_path()), args.after.as_deref()];
    output::protect_inputs([&args.output], output::table_files(&table).chain(inputs.into_iter().flatten()))?;
    let next_row = args.after.as_ref().map(|statistics| job.next_row(statistics)).transpose()?;
    let (first_row, row_count) = (args.first_row.or(next_row), table.stored_rows());
    let stored_range = first_row.unwrap_or(0)..first_row.unwrap_or(0).saturating_add(row_count);
    let table_rows = stored_range.end.max(job.stored_rows());
    let table = first_row.map_or(Ok(table.clone()), |first| table.part_of(table_rows, first))?;
    let part = args.part.map(|(part, parts)| job.part(part, parts, table_rows)).transpose()?;
    let rows = part.or(args.rows.clone()).unwrap_or(stored_range.clone());
    let rows = rows.start..rows.end.min(table_rows);
    if rows.start < stored_range.start || rows.end > stored_range.end {
        let why = format!("DATA contains rows {}..{} of the table", stored_range.start, stored_range.end);
        return Err(Error::option("--rows", format!("{}..{}", rows.start, rows.end), why, "choose rows in this range"));
    }
    job.statistics(&table, rows, &run.job_run(), &args.output)?;
    let growth = growth(&args.output, args.after.as_deref())?;
    Ok(ShardReport::new(&args.output, Some(job.segment_rows()), None, growth.as_ref()))
}

pub(crate) fn merge_shards(args: &MergeArgs) -> Result<()> {
    output::check_writable(&args.output)?;
    output::protect_inputs([&args.output], args.files.iter().map(PathBuf::as_path))?;
    let merged = merge(&args.files, &args.without, &args.output)?;
    let growth = growth(&args.output, None)?;
    output::print_report(&ShardReport::new(&args.output, None, Some(merged), growth.as_ref()), args.json)
}

pub(crate) fn solve(args: &SolveArgs, run: &RunSettings) -> Result<FitReport> {
    output::check_model(&args.output)?;
    output::protect_inputs([&args.output], [args.job.as_path(), args.statistics.as_path()])?;
    let fitted = PreparedJob::open(&args.job)?.solve(&args.statistics, &run.job_run())?;
    fitted.save(&args.output)?;
    let no_table = kstore::Table::absent(kstore::Schema::default(), 0);
    let growth = fitted.model.metadata().growth.as_ref().map(|growth| growth.report(NEW_JOB_REMEDY));
    Ok(FitReport { growth, ..pipeline::fit_report(fitted.report, run, &no_table, Some(&args.output)) })
}
