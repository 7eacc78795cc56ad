//! `kmill prepare`, `stats`, `merge` and `solve`: a fit in parts, on several machines or at several times.

use crate::args::shards::{MergeArgs, PrepareArgs, SolveArgs, StatsArgs};
use crate::fit::FitOptions;
use crate::report::FitReport;
use crate::table::{Table, count};
use crate::{Error, Result, convert, output, pipeline};
use ksolve::job::shards::{Merged, PreparedJob, merge};
use kstore::Selection;
use std::fmt;
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ShardReport {
    /// The file.
    #[serde(serialize_with = "kstore::lossy::path")]
    pub output: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Shards that begin and end at multiples of so many rows are states, and others keep rows beside; absent from a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_rows: Option<u64>,
    /// What was merged; absent from a job and from the statistics of a shard.
    #[serde(flatten)]
    pub merged: Option<Merged>,
}

impl ShardReport {
    fn new(output: &Path, segment_rows: Option<u64>, merged: Option<Merged>) -> Self {
        let bytes = std::fs::metadata(output).map_or(0, |metadata| metadata.len());
        Self { output: output.to_path_buf(), bytes, segment_rows, merged }
    }
}

impl fmt::Display for ShardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::facts();
        if let Some(rows) = self.segment_rows {
            facts
                .fact("segment", format!("{} rows: of one that a shard has a part of, its rows are kept", count(rows)));
        }
        if let Some(Merged { states, rows, begun, next, missing, .. }) = &self.merged {
            facts.fact("statistics", format!("of {} rows in {} states", count(*rows - begun), count(*states as u64)));
            if *begun > 0 {
                facts.fact("rows", format!("{} of segments that others complete", count(*begun)));
            }
            facts.fact("next row", count(*next));
            let missing: Vec<String> = missing.iter().map(|rows| format!("{}..{}", rows.start, rows.end)).collect();
            facts.fact("missing", if missing.is_empty() { "no row".to_string() } else { missing.join(", ") });
        }
        let size = kstore::budget::bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        facts.fact("written", format!("{} ({size})", self.output.display()));
        write!(f, "{facts}")
    }
}

/// `kmill prepare`.
pub(crate) fn prepare(args: &PrepareArgs) -> Result<()> {
    let context = args.run.resolve();
    let options = FitOptions::new(&args.solver, &args.data, &args.learn)?;
    output::check(&args.output)?;
    let (table, selection) = options.open()?;
    output::spare(&args.output, output::inputs(&table).chain(options.fit.files()))?;
    let selected = pipeline::job(&context).coded(&table.select(&selection)?)?;
    let fit = options.job(&selected)?;
    let Selection { features, categories, encoding, .. } = selected.same_features();
    let selection = Selection { features, categories, encoding, ..selection };
    let job = fit.prepare(&table, &selection, &pipeline::job(&context), &args.output)?;
    output::report(&ShardReport::new(&args.output, Some(job.segment_rows()), None), context.json)
}

/// `kmill stats`.
pub(crate) fn stats(args: &StatsArgs) -> Result<()> {
    let context = args.run.resolve();
    let job = PreparedJob::open(&args.job)?;
    output::check(&args.output)?;
    let (table, _) = convert::open(&args.paths, &args.text.options(), &args.target)?;
    let read = [Some(args.job.as_path()), args.after.as_deref()];
    output::spare(&args.output, output::inputs(&table).chain(read.into_iter().flatten()))?;
    let after = args.after.as_ref().map(|statistics| job.after(statistics)).transpose()?;
    let (first, length) = (args.first_row.or(after), table.stored_rows());
    let there = first.unwrap_or(0)..first.unwrap_or(0).saturating_add(length);
    let whole = there.end.max(job.stored_rows());
    let table = first.map_or(Ok(table.clone()), |first| table.part_of(whole, first))?;
    let part = args.part.map(|(part, parts)| job.part(part, parts, whole)).transpose()?;
    let rows = part.or(args.rows.clone()).unwrap_or(there.clone());
    let rows = rows.start..rows.end.min(whole);
    if rows.start < there.start || rows.end > there.end {
        let why = format!("the shard holds rows {}..{} of the table", there.start, there.end);
        return Err(Error::option("--rows", format!("{}..{}", rows.start, rows.end), why, "ask for rows within"));
    }
    job.statistics(&table, rows, &pipeline::job(&context), &args.output)?;
    output::report(&ShardReport::new(&args.output, Some(job.segment_rows()), None), context.json)
}

/// `kmill merge`.
pub(crate) fn merged(args: &MergeArgs) -> Result<()> {
    output::check(&args.output)?;
    output::spare(&args.output, args.files.iter().map(PathBuf::as_path))?;
    let merged = merge(&args.files, &args.without, &args.output)?;
    output::report(&ShardReport::new(&args.output, None, Some(merged)), args.json)
}

/// `kmill solve`.
pub(crate) fn solve(args: &SolveArgs) -> Result<()> {
    let context = args.run.resolve();
    output::check_model(&args.output)?;
    output::spare(&args.output, [args.job.as_path(), args.statistics.as_path()])?;
    let fitted = PreparedJob::open(&args.job)?.solve(&args.statistics, &pipeline::job(&context))?;
    fitted.save(&args.output)?;
    let nothing = kstore::Table::absent(kstore::Schema::default(), 0);
    output::report(&FitReport::new(fitted.report, &context, &nothing, Some(&args.output)), context.json)
}
