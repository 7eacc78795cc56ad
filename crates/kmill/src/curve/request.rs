//! The request of a curve, built from the command line: its rows, its options, and the manifest
//! that identifies its cells.

use crate::args::parse::Methods;
use crate::args::{DataArgs, EngineArgs, RunArgs, RunSettings, kernel_help, parse};
use crate::{Error, Result, open, output};
use clap::Args;
use kapprox::{Kernel, instruction_set, landmark::Scheme};
use kreport::table::join_with_commas;
use ksolve::curve::{CurveOptions, CurveRun, Method};
use ksolve::job::{self, ElementType, Scaling};
use ksolve::train::target_names;
use ksolve::{Intercept, Task};
use kstore::{SelectedTable, Selection, Table, checkpoint::Manifest, condition::Condition, sink::OutputKind};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill curve train.parquet -o curve.html\n  \
    kmill curve all.parquet --target y --test-where 'fold == 0' --methods uniform,kmeans,rpcholesky,fourier \\\n    \
        --ranks 50..2000 --repeats 10 -o curve.html -o curve.csv\n  \
    kmill curve train.parquet -o figure.svg\n\n\
    Seconds, passes, kernel evaluations and bytes read are the costs of choosing landmarks, building \
    the map and computing the features of every row once. Schemes with nested landmarks run once for \
    all ranks. An interrupted curve keeps its finished cells in OUT.cells.json; the same command \
    continues it.")]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Test rows of a ridge regression: 'fold == 0'. Without --where, all other rows are the
    /// training rows
    #[arg(long, value_name = "CONDITION", value_parser = parse::condition, help_heading = "Table")]
    pub(crate) test_where: Option<Condition>,
    /// Measure on a uniform sample of this many rows, held in memory [default: all rows]
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, help_heading = "Table")]
    pub(crate) sample: Option<usize>,
    /// Landmark schemes and maps, comma-separated (a scheme uses the map nystrom); fit --help lists
    /// them [default: uniform,kmeans,greedy,rpcholesky; without kmeans for sparse rows]
    #[arg(long, value_name = "LIST", value_parser = parse::methods, help_heading = "Comparison")]
    pub(crate) methods: Option<Methods>,
    /// Ranks to compare: 250,500,1000 or 50..2000 (doubling)
    #[arg(long, value_name = "LIST", value_parser = parse::ranks, default_value = "50..1000", help_heading = "Comparison")]
    pub(crate) ranks: String,
    /// Number of seeds, starting at --seed; a method without random choices runs once
    #[arg(long, value_name = "N", value_parser = parse::repeats, default_value = "5", help_heading = "Comparison")]
    pub(crate) repeats: u64,
    /// Landmark scheme of the maps among --methods that need landmarks [default: rpcholesky]
    #[arg(long, value_name = "SCHEME", value_parser = parse::scheme, help_heading = "Comparison")]
    pub(crate) landmarks: Option<&'static Scheme>,
    /// Scaling learned from the rows: standard, minmax, robust (for outliers), asinh (for long
    /// tails), quantile (by rank) or none; for sparse rows tf-idf, unit, maxabs or none [default:
    /// standard; none for sparse rows]
    #[arg(long, value_parser = parse::word::<Scaling>, value_name = "SCALE", help_heading = "Comparison")]
    pub(crate) scale: Option<Scaling>,
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Comparison")]
    pub(crate) kernel: Kernel,
    /// Task of the test error: regression or classification [default: regression]
    #[arg(long, requires = "test_where", value_parser = parse::word::<Task>, value_name = "TASK", help_heading = "Comparison")]
    pub(crate) task: Option<Task>,
    /// Regularisation parameter of the test error, per row: (1/n) sum loss + lambda |w|^2
    #[arg(long, requires = "test_where", value_name = "LAMBDA", value_parser = parse::lambda, default_value = "1e-6", allow_hyphen_values = true,
        help_heading = "Comparison")]
    pub(crate) lambda: String,
    /// Intercept of the test error: free, penalised or none
    #[arg(long, requires = "test_where", value_parser = parse::word::<Intercept>, default_value_t, value_name = "INTERCEPT", help_heading = "Comparison")]
    pub(crate) intercept: Intercept,
    /// First seed
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0, help_heading = "Comparison")]
    pub(crate) seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Comparison")]
    pub(crate) precision: ElementType,
    /// Width and height of the picture in pixels of 1/96 inch; a PNG has twice as many pixels
    /// [default: 400x310 for each chart]
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = parse::picture_size, help_heading = "Run")]
    pub(crate) size: Option<(f64, f64)>,
    #[arg(short, long, help = format!("Output file of the curve: {}; can be repeated", output_extensions()), value_name = "OUT", help_heading = "Run")]
    pub(crate) output: Vec<PathBuf>,
    /// Continue with the finished cells of an interrupted curve, next to the first output, and
    /// reject the cells of another curve; without the option the same command continues too
    #[arg(long, help_heading = "Run")]
    pub(crate) resume: bool,
    /// Start from the beginning, and replace the cells of an interrupted curve
    #[arg(long, conflicts_with = "resume", help_heading = "Run")]
    pub(crate) fresh: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) options: CurveOptions,
    pub(super) train: SelectedTable,
    pub(super) test: Option<SelectedTable>,
    pub(super) test_where: Option<Condition>,
    pub(super) train_where: Option<Condition>,
    /// Identifies the curve to which stored cells belong. The number of repeats is not part of it,
    /// because a curve with more repeats can use the cells of the first ones.
    pub(super) manifest: Manifest,
    /// Width and height of a picture; `None` for the default.
    pub(super) picture_size: Option<(f64, f64)>,
}

pub(super) fn output_extensions() -> String {
    format!(".html, .svg, .pdf, .png, .json, {}", output::extensions(OutputKind::Text))
}

impl Request {
    /// Opens the table, and checks options that depend on each other.
    pub(super) fn new(args: &CurveArgs, run: &RunSettings) -> Result<Self> {
        let (progress, job) = (&run.progress, &run.job_run());
        let data = &args.data;
        if args.test_where.is_some() && data.target.is_empty() {
            let why = "a test error needs a target; name its column: --target y";
            return Err(Error::Missing { option: "--target", solver: "--test-where".to_string(), why });
        }
        if args.test_where.is_none() && !data.target.is_empty() {
            progress.note(
                "note: without --test-where the target is excluded from the features, and no test error is computed",
            );
        }
        let task = args.task.unwrap_or_default();
        if !task.has_target() {
            return Err(Error::option(
                "--task",
                task,
                "a test error needs a target",
                "choose regression or classification",
            ));
        }
        let landmark_method = args.landmarks.map(Method::Scheme);
        let supports_sparse = args.methods.iter().flatten().chain(&landmark_method).all(Method::supports_sparse);
        let text = job::text_options_for(
            &table_selection(args),
            &args.kernel,
            args.scale,
            supports_sparse,
            data.select.text.text_options(),
        );
        let (table, targets) = open::table(&data.select.paths, &text, &data.target)?;
        let (train, test, train_where) = select_rows(args, job, &table, &targets, task)?;
        let lambda = match kmodel::grids::parse_regularisation("lambda", &args.lambda)?[..] {
            [lambda] => lambda,
            _ => {
                return Err(Error::option(
                    "--lambda",
                    &args.lambda,
                    "a curve has one regularisation parameter",
                    "choose one number",
                ));
            }
        };
        let methods = methods(args, &train)?;
        let options = CurveOptions {
            landmark_scheme: landmark_scheme(args.landmarks, &methods, train.sparse_shape().is_some())?,
            methods,
            ranks: kmodel::grids::parse_ranks(&args.ranks)?,
            repeats: args.repeats,
            sample_rows: args.sample,
            scaling: job::scaling_for(args.scale, &train)?,
            kernel: job::kernel_for(&args.kernel, &train)?,
            task,
            lambda,
            intercept: args.intercept,
            seed: args.seed,
        };
        let condition = |condition: Option<&Condition>| condition.map_or("none".into(), ToString::to_string);
        let checked = &options;
        let settings: [(&str, String); 18] = [
            ("--methods", join_with_commas(&checked.methods)),
            ("--ranks", join_with_commas(&checked.ranks)),
            ("--landmarks", checked.landmark_scheme.name.to_string()),
            ("--sample", checked.sample_rows.map_or("all".to_string(), |rows| rows.to_string())),
            ("--scale", checked.scaling.to_string()),
            ("--kernel", checked.kernel.to_string()),
            ("--task", checked.task.to_string()),
            ("--lambda", checked.lambda.to_string()),
            ("--intercept", checked.intercept.to_string()),
            ("--seed", checked.seed.to_string()),
            ("--precision", args.precision.to_string()),
            ("features", join_with_commas(train.feature_names())),
            ("target", join_with_commas(target_names(&train))),
            (
                "--rows",
                data.select.rows.as_ref().map_or("all".to_string(), |rows| format!("{}..{}", rows.start, rows.end)),
            ),
            ("--where", condition(train_where.as_ref())),
            ("--test-where", condition(args.test_where.as_ref())),
            ("--missing", data.select.missing.unwrap_or_default().name().to_string()),
            ("reading of text files", text.to_string()),
        ];
        let manifest = Manifest {
            version: env!("CARGO_PKG_VERSION").to_string(),
            instruction_set: instruction_set(),
            options: settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            files: train.table().identities(),
        };
        Ok(Self {
            options,
            train,
            test,
            test_where: args.test_where.clone(),
            train_where,
            manifest,
            picture_size: args.size,
        })
    }

    /// Returns the manifest that processes must have in common to share the `remaining` runs.
    pub(super) fn shared_manifest(&self, remaining: &[CurveRun]) -> Manifest {
        let mut manifest = self.manifest.clone();
        let remaining: Vec<String> = remaining.iter().map(ToString::to_string).collect();
        manifest.options.insert("runs that are left".to_string(), remaining.join("; "));
        manifest
    }
}

/// Methods that a curve compares by default.
const DEFAULT_METHODS: &str = "uniform,kmeans,greedy,rpcholesky";

/// Returns the methods of `--methods`, or the default methods that support the rows.
fn methods(args: &CurveArgs, train: &SelectedTable) -> Result<Methods> {
    let is_sparse = train.sparse_shape().is_some();
    match &args.methods {
        Some(methods) => match methods.iter().find(|method| is_sparse && !method.supports_sparse()) {
            Some(method) => {
                let remedy = "omit it, or use uniform, greedy or rpcholesky";
                Err(Error::option("--methods", method, "it does not support sparse rows", remedy))
            }
            None => Ok(methods.clone()),
        },
        None => {
            let mut methods = DEFAULT_METHODS.split(',').map(str::parse).collect::<ksolve::Result<Methods>>()?;
            methods.retain(|method: &Method| !is_sparse || method.supports_sparse());
            Ok(methods)
        }
    }
}

/// Returns the selection of the table, without conditions, targets and encoding.
fn table_selection(args: &CurveArgs) -> Selection {
    let weighting = args.scale.and_then(Scaling::weighting);
    let sparse = args.data.category.text.is_empty();
    Selection { sparse, weighting, ..open::training_selection(&args.data) }
}

/// Returns the landmark scheme for maps with landmarks. Rejects `requested_scheme` if no map uses
/// landmarks, or if it does not support the rows.
fn landmark_scheme(
    requested_scheme: Option<&'static Scheme>,
    methods: &[Method],
    is_sparse: bool,
) -> Result<&'static Scheme> {
    let needs_landmarks = |method: &Method| matches!(method, Method::Map(spec) if !spec.is_data_independent());
    match requested_scheme {
        Some(scheme) if !methods.iter().any(needs_landmarks) => {
            let why = "no map among --methods uses landmarks of another scheme";
            Err(Error::option("--landmarks", scheme.name, why, "omit it, or compare a map such as eigen"))
        }
        Some(scheme) if is_sparse && !Method::Scheme(scheme).supports_sparse() => {
            let remedy = "choose rpcholesky, or another scheme";
            Err(Error::option("--landmarks", scheme.name, "its points are not sparse rows", remedy))
        }
        Some(scheme) => Ok(scheme),
        None => Ok(kapprox::landmark::default_scheme()),
    }
}

/// Returns the rows whose kernel matrix is approximated, the test rows, and the condition that
/// selects the approximated rows (by default all rows except the test rows).
fn select_rows(
    args: &CurveArgs,
    job: &ksolve::job::Run<'_>,
    table: &Table,
    targets: &[String],
    task: Task,
) -> Result<(SelectedTable, Option<SelectedTable>, Option<Condition>)> {
    let condition = args.data.select.condition.clone().or_else(|| args.test_where.as_ref().map(Condition::complement));
    let class_target = task == Task::Classification && args.test_where.is_some();
    let (targets, filter) = (targets.to_vec(), condition.clone());
    let selection = Selection { targets, class_target, filter, ..table_selection(args) };
    let all_features_table = table.select(&selection)?;
    let Some(test) = &args.test_where else {
        return Ok((job.resolve_categories(&all_features_table)?, None, condition));
    };
    // the column that splits the rows is not a feature, unless it is requested
    let mut features = all_features_table.feature_columns();
    if args.data.features.is_empty() {
        features.retain(|name| *name != test.column);
    }
    let selection = Selection { features, ..selection };
    let train = job.resolve_categories(&table.select(&selection)?)?;
    // encode the test rows like the training rows
    let Selection { features, categories, encoding, .. } = train.same_features();
    let test_selection = Selection { features, categories, encoding, filter: Some(test.clone()), ..selection };
    Ok((train, Some(table.select(&test_selection)?), condition))
}
