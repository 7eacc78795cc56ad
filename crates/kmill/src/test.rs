//! `kmill test`: tests whether two samples have the same distribution, or whether two sets of
//! columns are independent.

mod against_model;
mod column_sets;
mod separating;
mod two_samples;

use crate::args::{CategoryArgs, RunArgs, RunSettings, ScratchArgs, SelectArgs, kernel_help, parse, with_descriptions};
use crate::{Error, Result, open, output, progress::Progress};
use clap::{Args, builder::PossibleValuesParser};
use column_sets::GivenArgs;
use kapprox::{Kernel, map::MapSpec};
use kfit::request::TrainOptions;
use kreport::statistic::TestReport;
use ksolve::Task;
use ksolve::job::{self, Candidates, ElementType};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::statistic::{self, Conditioning, SampleKind, StatisticFamily, TestInput};
use kstore::{Missing, SelectedTable, Selection, condition::Condition};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill test mmd january.parquet july.parquet\n  \
    kmill test mmd all.parquet --by 'station == 3' --features 'x*' --rank 200\n  \
    kmill test mmd january.parquet july.parquet --aggregate\n  \
    kmill test mmd a.npy b.npy --map exact --permutations 200\n  \
    kmill test hsic all.parquet --features 'x*' --with y --json\n  \
    kmill test hsic all.parquet --features a --with b --given 'c*'\n  \
    kmill test mmd old.safetensors new.parquet --by day --report drift.html\n\n\
    A p-value is the probability of a statistic at least as large under the null hypothesis of equal \
    distributions, or of independence. Three are reported: by permutations, which is exact, by the \
    limit distribution, and by a gamma distribution. With --given the null hypothesis is independence \
    given these columns, and no p-value is by permutations.")]
pub(crate) struct TestArgs {
    #[arg(value_name = "STATISTIC", hide_possible_values = true, help = statistics_help(), value_parser = statistics())]
    pub(crate) statistic: String,
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Columns to compare, as names or globs, comma-separated [default: every numeric or text
    /// column except those of --by, --with and --given]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) features: Vec<String>,
    #[command(flatten)]
    pub(crate) category: CategoryArgs,
    /// First sample of mmd: rows with 'column == value' (== != < <= > >=); the second sample is all
    /// other rows; --where selects the rows of both samples; with a model, the column whose values
    /// divide the new rows into groups; dates and times are grouped by day
    #[arg(long, value_name = "CONDITION|COLUMN", value_parser = parse_by, help_heading = "Table")]
    pub(crate) by: Option<By>,
    /// Columns to compare with --features by hsic, as names or globs, comma-separated
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) with: Vec<String>,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    /// Scaling learned from all rows of the test: standard, minmax, robust (for outliers), asinh
    /// (for long tails), quantile (by rank) or none; for sparse rows tf-idf, unit, maxabs or none
    /// [default: standard; none for sparse rows]
    #[arg(long, value_parser = parse::word::<Scaling>, value_name = "SCALE", help_heading = "Test")]
    pub(crate) scale: Option<Scaling>,
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Test")]
    pub(crate) kernel: Kernel,
    /// Compare two samples with ten kernels instead of one: Gaussian and Laplacian, with length
    /// scales of 1/8 to 2 times the median distance; the p-value is corrected for their number
    #[arg(long, conflicts_with = "kernel", help_heading = "Test")]
    pub(crate) aggregate: bool,
    /// Kernel on the columns of --with [default: --kernel]
    #[arg(long, value_name = "EXPR", value_parser = parse::kernel, requires = "with", help_heading = "Test")]
    pub(crate) with_kernel: Option<Kernel>,
    /// Feature map, as listed by fit --help; exact for the exact kernel (mmd, some thousand rows)
    #[arg(long, value_name = "MAP", default_value = "nystrom", value_parser = parse::map, help_heading = "Test")]
    pub(crate) map: MapSpec,
    /// Number of features of each map [default: 300; 100 with --aggregate]
    #[arg(long, value_name = "M", value_parser = parse::positive_integer, help_heading = "Test")]
    pub(crate) rank: Option<usize>,
    /// Landmark scheme, as listed by fit --help; or FILE, a table of landmarks (mmd) [default:
    /// rpcholesky]
    #[arg(long, value_parser = parse::LandmarksParser, value_name = "SCHEME|FILE", help_heading = "Test")]
    pub(crate) landmarks: Option<LandmarkSource>,
    /// Number of random rows among which landmarks are chosen, or all [default: max(20 * rank,
    /// 50000)]
    #[arg(long, value_name = "N|all", value_parser = parse::word::<Candidates>, help_heading = "Test")]
    pub(crate) candidates: Option<Candidates>,
    /// Number of random permutations of the rows; 0 for the limit distributions only
    #[arg(long, value_name = "N", value_parser = parse::permutations, default_value_t = DEFAULT_PERMUTATIONS, help_heading = "Test")]
    pub(crate) permutations: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0, help_heading = "Test")]
    pub(crate) seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Test")]
    pub(crate) precision: ElementType,
    /// With a model: file of the witness function of each new row, negative for rows that are more
    /// typical of the new rows
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub(crate) output: Option<PathBuf>,
    /// Also write an HTML page: p-values, and histograms of the columns that differ most
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// What divides the rows: a condition or, for new rows that are compared with a model, a column.
#[derive(Clone, Debug)]
pub(crate) enum By {
    Condition(Condition),
    Column(String),
}

fn parse_by(text: &str) -> std::result::Result<By, String> {
    match text.contains(['=', '<', '>', '!']) {
        true => parse::condition(text).map(By::Condition),
        false => parse::name(text).map(By::Column),
    }
}

fn statistics() -> PossibleValuesParser {
    PossibleValuesParser::new(ksolve::statistic::registry().into_iter().map(|family| family.name))
}

fn statistics_help() -> String {
    let entries = ksolve::statistic::registry().into_iter().map(|family| (family.name, family.about));
    format!("Statistic: {}", with_descriptions(entries))
}

const DEFAULT_PERMUTATIONS: u64 = 1000;

/// Default number of features of each map. 300 suffice, because few eigenvalues of the covariance
/// of the features matter to a test.
const DEFAULT_RANK: usize = 300;

/// Default number of features of each of the ten maps of an aggregated test.
const DEFAULT_AGGREGATED_RANK: usize = 100;

/// Kernels of an aggregated test, each with several length scales.
const AGGREGATED_KERNELS: [&str; 2] = ["gaussian(sigma=median)", "laplacian(sigma=median)"];

/// Two samples with the same columns, or one sample with two sets of columns.
struct TestSamples {
    samples: Vec<SelectedTable>,
    /// Columns of each kernel: one set of two samples; the columns A and B of one sample, and the
    /// columns C on which the test conditions.
    columns: Vec<Vec<String>>,
    /// The set that is a column of sparse rows.
    sparse_set: Option<usize>,
}

impl TestSamples {
    fn as_test_input<'a>(
        &'a self,
        conditioning: Option<&'a Conditioning>,
        aggregated_kernels: Option<&'a [Kernel]>,
    ) -> TestInput<'a> {
        match (&self.samples[..], conditioning) {
            ([first, second], _) => match aggregated_kernels {
                Some(kernels) => TestInput::Aggregated(first, second, kernels),
                None => TestInput::Samples(first, second),
            },
            (rows, None) => TestInput::Columns(&rows[0]),
            (rows, Some(conditioning)) => TestInput::Conditional(&rows[0], conditioning),
        }
    }

    /// Returns the bytes read from storage so far. Bytes of a file that two samples share are
    /// counted once.
    fn bytes_read(&self) -> u64 {
        self.samples.iter().map(|rows| rows.table().bytes_read()).sum()
    }
}

pub(crate) fn run(args: &TestArgs, run: &RunSettings) -> Result<TestReport> {
    let family = statistic::by_name(&args.statistic);
    let family = family.expect("the parser accepts only the names of registered statistics");
    let model = args.data.paths.first().filter(|path| ksolve::job::is_model_file(path));
    check_landmarks(args)?;
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    if let (None, Some(output)) = (model, &args.output) {
        let why = "only a test against a model writes a file of its rows";
        return Err(Error::option("--output", output.display(), why, "omit it, or name a model of fit mean first"));
    }
    check_aggregation(args)?;
    let report = match (model, args.precision) {
        (Some(model), _) => against_model::compare_with_model(model, args, run),
        (None, ElementType::F32) => run_test::<f32>(family, args, run),
        (None, ElementType::F64) => run_test::<f64>(family, args, run),
    }?;
    if let Some(page) = &args.report {
        report.page().write(page)?;
    }
    Ok(report)
}

/// Rejects aggregated kernels of a test that cannot have them.
fn check_aggregation(args: &TestArgs) -> Result<()> {
    let why = match &args.statistic[..] {
        _ if !args.aggregate => return Ok(()),
        "mmd" if args.map.is_exact_kernel() => "several kernels need feature maps, and --map exact has none",
        "mmd" if args.permutations == 0 => "several kernels are compared by permutations, and --permutations is 0",
        "mmd" => return Ok(()),
        _ => "it compares sets of columns, not samples",
    };
    Err(Error::option("--aggregate", "", why, "omit one of the two"))
}

/// Returns the kernels of an aggregated test on the rows of the samples.
fn aggregated_kernels(args: &TestArgs, samples: &TestSamples) -> Result<Option<Vec<Kernel>>> {
    let kernel_for = |expression: &&str| -> Result<Kernel> {
        Ok(job::kernel_for(&Kernel::parse(expression)?, &samples.samples[0])?)
    };
    args.aggregate.then(|| AGGREGATED_KERNELS.iter().map(kernel_for).collect()).transpose()
}

fn run_test<T: kapprox::Real>(family: &StatisticFamily, args: &TestArgs, run: &RunSettings) -> Result<TestReport> {
    let samples = match family.sample_kind {
        SampleKind::Samples => two_samples::two_samples(args, &run.job_run())?,
        SampleKind::Columns => column_sets::column_sets(args, &run.job_run())?,
    };
    let files = samples.samples.iter().flat_map(|sample| output::table_files(sample.table()));
    output::protect_inputs(&args.report, files)?;
    let options = train_options(args, &samples, &run.progress)?;
    let aggregated_kernels = aggregated_kernels(args, &samples)?;
    let conditioning = column_sets::conditioning(args, &samples)?;
    let scratch = args.scratch.open()?;
    let job_run = scratch.iter().fold(run.job_run(), job::Run::scratch);
    let permutation_count = if conditioning.is_some() { 0 } else { args.permutations };
    let permutations = usize::try_from(permutation_count).unwrap_or(usize::MAX);
    let outcome = statistic::measure::<T>(
        family,
        samples.as_test_input(conditioning.as_ref(), aggregated_kernels.as_deref()),
        &options,
        permutations,
        &job_run.resources(),
    )?;
    let warning = conditioning
        .as_ref()
        .and_then(|conditioning| column_sets::reliability_warning(&outcome.statistic, &outcome.ranks, conditioning));
    warning.into_iter().for_each(|text| run.progress.warn(text));
    let separating = separating::warning(&outcome.column_tests, &samples.samples[0], &args.features);
    separating.into_iter().for_each(|text| run.progress.warn(text));
    Ok(TestReport {
        statistic: family.name,
        sparse_columns: samples.samples[0].sparse_features().map(|(_, shape)| shape.column_count),
        sparse_set: samples.sparse_set,
        table_columns: if samples.columns.len() == 1 { table_columns(&samples.samples[0]) } else { None },
        fit_certificate: None,
        resources: run.resource_report(samples.bytes_read()),
        dropped: dropped_rows(args, &samples.samples, &outcome.rows),
        groups: Vec::new(),
        output: None,
        sample_names: sample_names(args),
        columns: samples.columns,
        outcome,
        permutations: permutation_count,
        map: args.map.to_string(),
        precision: T::NAME,
        verbosity: run.progress.verbosity(),
    })
}

/// Returns the number of columns of a selection if they have several features.
fn table_columns(selected: &SelectedTable) -> Option<usize> {
    let columns = selected.feature_columns().len();
    (selected.sparse_shape().is_none() && columns != selected.feature_names().len()).then_some(columns)
}

/// Returns the number of rows that were skipped because of missing values. Returns `None` if
/// `--where` selects the rows, because their number is then unknown.
fn dropped_rows(args: &TestArgs, samples: &[SelectedTable], row_counts: &[u64]) -> Option<u64> {
    if samples[0].missing() != Missing::Drop || args.data.condition.is_some() {
        return None;
    }
    // `--by` divides the rows of one table
    let tables = &samples[..if args.by.is_some() { 1 } else { samples.len() }];
    let stored: u64 = tables.iter().map(|table| table.range().end - table.range().start).sum();
    Some(stored.saturating_sub(row_counts.iter().sum()))
}

/// Returns the names of two samples: the condition and its opposite, or the names of the tables.
fn sample_names(args: &TestArgs) -> Vec<String> {
    match &args.by {
        Some(By::Condition(by)) => vec![by.to_string(), by.complement().to_string()],
        _ => args.data.paths.iter().map(|path| path.display().to_string()).collect(),
    }
}

/// Returns the selection of these columns of the requested rows, which may be sparse.
fn sample_selection(args: &TestArgs, features: &[String]) -> Selection {
    let weighting = args.scale.and_then(Scaling::weighting);
    // the words of texts are columns: mmd tests them one by one
    let sparse = args.category.text.is_empty();
    Selection { sparse, weighting, ..selection(args, features) }
}

/// Returns the selection of these columns of the requested rows.
fn selection(args: &TestArgs, features: &[String]) -> Selection {
    args.category.apply_to(open::selection(&args.data, features, Vec::new()))
}

/// Rejects a map or a landmark scheme that does not support sparse rows. Next to other columns, a
/// map needs landmarks.
fn check_sparse_rows(args: &TestArgs) -> Result<()> {
    let (is_next_to_columns, supports_sparse) = (!args.with.is_empty(), args.map.family().supports_sparse);
    if is_next_to_columns && (!supports_sparse || args.map.is_data_independent()) {
        let (why, remedy) = ("sparse rows next to other columns need a map on landmarks", "choose nystrom");
        return Err(Error::option("--map", &args.map, why, remedy));
    }
    if !supports_sparse {
        let (why, remedy) = ("it does not support sparse rows", "choose nystrom, fourier or exact");
        return Err(Error::option("--map", &args.map, why, remedy));
    }
    match args.landmarks.as_ref().filter(|landmarks| landmarks.computes_distances()) {
        Some(landmarks) => {
            let (why, remedy) = ("its points are not sparse rows", "choose rpcholesky, or another scheme");
            Err(Error::option("--landmarks", landmarks, why, remedy))
        }
        None => Ok(()),
    }
}

/// Rejects landmarks, and candidates for landmarks, if the map has no landmarks.
fn check_landmarks(args: &TestArgs) -> Result<()> {
    if !args.map.is_data_independent() && !args.map.is_exact_kernel() {
        return Ok(());
    }
    let why = format!("--map {} has no landmarks", args.map.family().name);
    let remedy = "omit it, or choose a map with landmarks, such as nystrom";
    match (&args.landmarks, args.candidates) {
        (Some(landmarks), _) => Err(Error::option("--landmarks", landmarks, why, remedy)),
        (None, Some(candidates)) => Err(Error::option("--candidates", candidates, why, remedy)),
        (None, None) => Ok(()),
    }
}

fn train_options(args: &TestArgs, samples: &TestSamples, progress: &Progress) -> Result<TrainOptions> {
    let rank = args.rank.unwrap_or(if args.aggregate { DEFAULT_AGGREGATED_RANK } else { DEFAULT_RANK });
    let (rows, text) = (&samples.samples[0], args.data.text.text_options());
    let text = if samples.sparse_set.is_some() { text.sparse() } else { text };
    let with_kernel = args.with_kernel.as_ref().unwrap_or(&args.kernel);
    let has_two_kernels = samples.columns.len() > 1 && *with_kernel != args.kernel;
    for kernel in
        std::iter::once(&args.kernel).chain(has_two_kernels.then_some(with_kernel)).filter(|k| !k.is_characteristic())
    {
        progress.warn(format!(
            "the kernel {kernel} is not known to be characteristic: different distributions may have the same mean in its feature space, \
             and the test cannot detect such a difference; gaussian() detects every difference"
        ));
    }
    let on_set = |kernel: &Kernel, set: usize| samples.kernel_on_set(kernel, set);
    let (first_kernel, second_kernel) = match samples.columns.len() {
        2 => (on_set(&args.kernel, 0)?, on_set(with_kernel, 1)?),
        3 => (on_set(&args.kernel, 0)? * on_set(&args.kernel, 2)?, on_set(with_kernel, 1)?),
        _ => (job::kernel_for(&args.kernel, rows)?, job::kernel_for(&args.kernel, rows)?),
    };
    let scaling = match samples.sparse_set {
        Some(_) if samples.columns.len() > 1 => column_sets::scaling_next_to_sparse_rows(args.scale),
        _ => job::scaling_for(args.scale, rows)?,
    };
    Ok(TrainOptions {
        scaling,
        second_kernel: Some(second_kernel),
        map: args.map.clone(),
        landmarks: args.landmarks.clone().unwrap_or_default().open(rows, &text)?,
        candidates: args.candidates.unwrap_or(Candidates::default_for_rank(rank)).row_count(),
        seed: args.seed,
        ..TrainOptions::new(Task::Components, first_kernel, rank)
    })
}
