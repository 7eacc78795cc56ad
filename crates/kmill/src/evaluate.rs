//! `kmill evaluate`: the scores of a model on a table that has the target.

use crate::args::{MissingTargetArgs, RunArgs, RunSettings, SelectArgs, parse};
use crate::{Error, Result, open, output};
use clap::Args;
use kreport::evaluate::EvaluateReport;
use ksolve::Task;
use ksolve::predict::{Extras, Predictor};
use kstore::{Part, Selection, TestRows};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill evaluate model.safetensors all.parquet --rows 427500..\n  \
    kmill evaluate model.safetensors all.parquet --test same\n  \
    kmill evaluate model.safetensors kin40k.parquet --where 'fold == 0' --json\n  \
    kmill evaluate leaving.safetensors customers.csv --importance\n  \
    kmill evaluate leaving.safetensors customers.csv --positive yes --cost 1:20\n  \
    kmill evaluate leaving.safetensors customers.csv --positive yes --top 50\n  \
    kmill evaluate anomalies.safetensors test.parquet --target is_fraud --top 100\n  \
    kmill evaluate search.safetensors queries.parquet --group query --top 5\n\n\
    A model of oneclass or mean, or of kpca with --novelty, needs --target: a column that is 0 for normal rows and 1 for outliers.")]
pub(crate) struct EvaluateArgs {
    /// Model file written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Target columns, if they have other names than at the fit; FILE.npy for .npy tables
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) target: Vec<String>,
    /// Only the test rows of the model, if it was fitted with --test: same
    #[arg(long, value_name = "same", value_parser = parse::same_test_rows, help_heading = "Table")]
    pub(crate) test: Option<()>,
    #[command(flatten)]
    pub(crate) missing_target: MissingTargetArgs,
    /// Column of row weights: weight 2 counts a row twice [default: equal weights]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Table")]
    pub(crate) weights: Option<String>,
    /// Positive class, of two [default: the second in the order of `inspect`]
    #[arg(long, value_name = "LABEL", value_parser = parse::label, help_heading = "Run")]
    pub(crate) positive: Option<String>,
    /// Costs of a false positive and of a false negative, such as 1:20; also finds the threshold of
    /// least cost
    #[arg(long, value_name = "ALARM:MISS", value_parser = parse::costs, help_heading = "Run")]
    pub(crate) cost: Option<[f64; 2]>,
    /// Predict the positive class, of two, above this probability, or above this score if the model
    /// has no probabilities
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, allow_negative_numbers = true, help_heading = "Run")]
    pub(crate) threshold: Option<f64>,
    /// Column of groups: score the order of the rows within each group, with the target as grades
    /// [default: the group column of a ranking model]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Run")]
    pub(crate) group: Option<String>,
    /// Score the N rows with the highest scores of the positive class (two classes: precision,
    /// recall and lift), the N most anomalous rows (oneclass, mean, kpca), or the first N rows of
    /// every group (ranking) [default: none; the number of outliers in the target; 10 per group]
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, help_heading = "Run")]
    pub(crate) top: Option<usize>,
    /// Report the importance of each column: the increase of the loss if the values of the column
    /// are exchanged between rows, on at most 2,000 random rows
    #[arg(long, help_heading = "Run")]
    pub(crate) importance: bool,
    /// Also write an HTML page: residuals, or the confusion matrix, the ROC curve and the
    /// calibration; importance and partial dependence of the columns
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Returns the part of the table to evaluate; `None` for all rows.
fn test_part(args: &EvaluateArgs, test_rows: Option<TestRows>, run: &RunSettings) -> Result<Option<Part>> {
    match (test_rows, args.test) {
        (Some(test_rows), Some(())) => Ok(Some(Part::Test(Arc::new(test_rows)))),
        (None, Some(())) => {
            let why = "the model was fitted without --test, so that it has no test rows";
            Err(Error::option("--test", "same", why, "select rows with --rows or --where, or fit with --test 20%"))
        }
        (Some(test_rows), None) => {
            if args.data.rows.is_none() && args.data.condition.is_none() {
                run.progress.note(&format!(
                    "the model has test rows (--test {}), and all rows of the table are scored; if it is the table of the fit, \
                     --test same scores the test rows alone",
                    test_rows.spec
                ));
            }
            Ok(None)
        }
        (None, None) => Ok(None),
    }
}

pub(crate) fn run(args: &EvaluateArgs, run: &RunSettings) -> Result<EvaluateReport> {
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    let predictor = open::load_predictor(&args.model, args.positive.as_deref(), args.threshold, run)?;
    let mut predictor = args.cost.into_iter().try_fold(predictor, Predictor::with_costs)?;
    let metadata = predictor.metadata().clone();
    let is_novelty = predictor.scores_anomalies();
    if is_novelty && args.target.is_empty() {
        let why = "name the column that is 0 for normal rows and 1 for outliers: --target label; without such a column, kmill predict \
                   --top 20 lists the rows with the lowest scores";
        return Err(Error::Missing { option: "--target", solver: format!("evaluate with {}", metadata.solver), why });
    }
    let options = &metadata.options["solver_options"];
    let group = args.group.clone().or_else(|| options["group"].as_str().map(str::to_string));
    let is_ranking = group.is_some() || metadata.task == Task::Ranking;
    if let Some(top) = args.top.filter(|_| !is_novelty && !is_ranking) {
        if metadata.classes.len() != 2 {
            let why = "it applies to models of two classes, of oneclass, mean and kpca with --novelty, and to rankings of rows in groups";
            return Err(Error::option("--top", "", why, "omit it, or name the column of groups with --group"));
        }
        predictor = predictor.with_top(top as u64)?;
    }
    if !metadata.task.has_target() && !is_novelty {
        let why = format!("a model for {} has no target to compare with", metadata.task);
        let remedy = match &metadata.solver[..] {
            "kpca" => "use kmill predict, or fit kpca with --novelty to score outliers",
            _ => "use kmill predict",
        };
        return Err(Error::option("MODEL", args.model.display(), why, remedy));
    }
    if let Some(why) = predictor.lacks_column_effects().filter(|_| args.importance) {
        return Err(Error::option("--importance", "", why, "omit it"));
    }
    let names = if args.target.is_empty() { metadata.targets.clone() } else { args.target.clone() };
    let missing_target = Some(args.missing_target.missing_target);
    let part = test_part(args, metadata.test_rows(), run)?;
    let weight = args.weights.clone().or_else(|| metadata.exposure_column().map(str::to_string));
    let roles = Selection { group, weight, missing_target, part, ..Selection::default() };
    let selected = open::select_for_model(&mut predictor, &args.data, &names, roles, Extras::default(), run)?;
    output::protect_inputs(&args.report, output::table_files(selected.table()).chain([args.model.as_path()]))?;
    let top = args.top.map(|top| top as u64);
    let computes_effects = args.importance || args.report.is_some();
    let (report, chart_data) = EvaluateReport::compute(&predictor, &selected, top, computes_effects, &run.job_run())?;
    if args.importance && report.effects().is_none() {
        run.progress
            .warn("--importance: fewer than 30 rows say too little about a column, or the rows are ranked in groups");
    }
    if let Some(page) = &args.report {
        report.page(&chart_data, &args.model, run.progress.warnings()).write(page)?;
    }
    Ok(report)
}
