//! `kmill herd`: a few rows whose mean in feature space is that of all rows.

use crate::args::HerdArgs;
use crate::args::run::Run;
use crate::report::as_map;
use crate::table::{Table, count, number};
use crate::{Error, Result, convert, interrupt, output, pipeline, writer};
use kapprox::Real;
use ksolve::job::{Candidates, ElementType};
use ksolve::statistic::{Represented, StatisticOptions, represent};
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{Reading, Selected, Workers};
use std::fmt;
use std::path::{Path, PathBuf};

/// The report of `kmill herd`: the rows that were picked, and the costs.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HerdReport {
    /// The rows that were picked, their distances to the mean of all rows, and the kernel.
    #[serde(flatten)]
    pub picked: Represented,
    /// Number of features of a row.
    pub features: usize,
    /// Seconds of each stage, in the order of the stages.
    #[serde(serialize_with = "as_map")]
    pub seconds: Vec<(String, f64)>,
    /// Bytes read from storage over all passes.
    pub bytes_read: u64,
    /// Highest resident memory of the process; `None` where the system does not tell.
    pub peak_rss_bytes: Option<usize>,
    /// The memory budget, in bytes.
    pub memory_budget_bytes: usize,
    /// The warnings of the run, one sentence each.
    pub warnings: Vec<String>,
    /// The file that the rows were written to.
    #[serde(serialize_with = "kstore::lossy::path")]
    pub output: PathBuf,
}

/// Picks rows and writes them.
///
/// # Errors
/// All errors of picking and reading; nothing is written then.
pub fn run(args: &HerdArgs, run: &Run) -> Result<HerdReport> {
    convert::only_convert_keeps(args.data.missing)?;
    output::check(&args.output)?;
    let (table, _) = convert::open(&args.data.paths, &args.data.text.options(), &[])?;
    let selection = args.category.of(convert::selection(&args.data, &args.features, Vec::new()));
    let selected = pipeline::job(run).coded(&table.select(&selection)?)?;
    output::spare(&args.output, output::inputs(selected.table()))?;
    if selected.feature_names().iter().any(|name| name == ROW) && !writer::is_npy(&args.output) {
        let why = "the numbers of the rows are called so";
        return Err(Error::option("--features", ROW, why, "leave the column out, or write .npy"));
    }
    let picked = match args.precision {
        ElementType::F32 => pick::<f32>(args, &selected, run)?,
        ElementType::F64 => pick::<f64>(args, &selected, run)?,
    };
    write(&args.output, &selected, &picked.rows)?;
    Ok(HerdReport {
        features: selected.shape().features,
        seconds: run.progress.seconds(),
        bytes_read: selected.table().bytes_read(),
        peak_rss_bytes: kstore::budget::peak_rss(),
        memory_budget_bytes: run.memory,
        warnings: run.progress.warnings(),
        output: args.output.clone(),
        picked,
    })
}

/// Name of the column with the row numbers.
const ROW: &str = "row";

/// Runs `kmill herd` and prints its report.
pub(crate) fn main(args: &HerdArgs) -> Result<()> {
    let context = args.run.resolve();
    let report = run(args, &context)?;
    output::report(&report, context.json)
}

fn pick<T: Real>(args: &HerdArgs, selected: &Selected, run: &Run) -> Result<Represented> {
    let kernel = args.kernel.resolve_columns(&selected.feature_names())?;
    let options = StatisticOptions {
        scaling: args.scale,
        candidates: Candidates::of_rank(args.rank).rows(),
        rank: args.rank,
        permutations: 0,
        seed: args.seed,
        ..StatisticOptions::new(kernel)
    };
    let (scratch, workers) = (args.scratch.open()?, Workers::new(run.threads).heeding(interrupt::token()));
    let resources = run.resources(&workers, scratch.as_ref());
    Ok(represent::<T>(selected, &options, args.count, &resources)?)
}

/// Writes the picked rows with the values of the table, in the order of the picks.
fn write(path: &Path, selected: &Selected, rows: &[u64]) -> Result<()> {
    let found = selected.rows::<f64>(Reading::default())?.gather(rows)?;
    let names = selected.feature_names();
    let d = names.len();
    let numbers: Vec<i64> = rows.iter().map(|row| i64::try_from(*row).unwrap_or(i64::MAX)).collect();
    let values: Vec<Vec<f64>> = (0..d).map(|j| found.x().iter().skip(j).step_by(d).copied().collect()).collect();
    let named = (!writer::is_npy(path)).then(|| OutputColumn::new(ROW, OutputKind::I64));
    let columns = names.iter().map(|name| OutputColumn::new(name.as_str(), OutputKind::F64));
    let mut sink = sink::create(path, &named.iter().cloned().chain(columns).collect::<Vec<_>>())?;
    let first = named.iter().map(|_| Output::I64(&numbers));
    let batch: Vec<Output<'_>> = first.chain(values.iter().map(|column| Output::F64(column))).collect();
    sink.write(&batch)?;
    Ok(sink.finish()?)
}

impl fmt::Display for HerdReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Represented { rows, squared_distances, variance, among, kernel, rank, .. } = &self.picked;
        let picks = rows.len();
        writeln!(f, "{} of {} rows, {} features\n", count(picks as u64), count(*among), count(self.features as u64))?;
        let mut facts = Table::facts();
        facts.fact("kernel", kernel.as_str());
        facts.fact("features", format!("{} (nystrom)", count(*rank as u64)));
        let distance = squared_distances.last().copied().unwrap_or(f64::NAN);
        let random = number(variance / picks.max(1) as f64, 3);
        let text = format!("{} squared, of the means (as many rows at random: {random})", number(distance, 3));
        facts.fact("distance", text);
        facts.fact("rows", self.output.display().to_string());
        write!(f, "{facts}")
    }
}
