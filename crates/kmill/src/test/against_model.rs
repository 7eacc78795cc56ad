//! `kmill test mmd MODEL NEW`: compares new rows with the training rows of a model.

use super::{By, DEFAULT_PERMUTATIONS, TestArgs};
use crate::args::{RunSettings, SelectArgs};
use crate::{Error, Result, open, output};
use kapprox::{Kernel, map::MapSpec};
use kreport::statistic::TestReport;
use kreport::table::percent;
use ksolve::AnyModel;
use ksolve::job;
use ksolve::predict::{Extras, Predictor};
use ksolve::statistic;
use kstore::{Missing, Selection};
use std::path::Path;

/// Rejects options that the model determines.
fn check_model_options(args: &TestArgs) -> Result<()> {
    let default_kernel = Kernel::parse("gaussian(sigma=median)")?;
    let options = [
        ("--features", !args.features.is_empty()),
        ("--with", !args.with.is_empty()),
        ("--given", args.given.first_set_option().is_some()),
        ("--scale", args.scale.is_some()),
        ("--kernel", args.kernel != default_kernel),
        ("--aggregate", args.aggregate),
        ("--map", args.map != MapSpec::default()),
        ("--rank", args.rank.is_some()),
        ("--landmarks", args.landmarks.is_some()),
        ("--candidates", args.candidates.is_some()),
        ("--permutations", args.permutations != DEFAULT_PERMUTATIONS),
    ];
    let why =
        "the model determines the columns, the scaling, the kernel and the map, and permutations need the old rows";
    if let Some((option, _)) = options.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Error::option(option, "", why, "omit it"));
    }
    match (&args.by, &args.statistic[..]) {
        (Some(By::Condition(by)), _) => {
            let why = "with a model, it names the column of the groups";
            Err(Error::option("--by", by, why, "select rows by --where, or name a column"))
        }
        (_, "mmd") => Ok(()),
        (_, other) => Err(Error::option("STATISTIC", other, "only mmd compares rows with a model", "use mmd")),
    }
}

/// Missed fraction of the trace of the new rows from which a test may overlook differences.
const MIN_MISSED: f64 = 0.1;
/// Odds of the missed fraction over the odds at the fit from which the landmarks, and not the
/// kernel, are the reason.
const MIN_ODDS_RATIO: f64 = 2.0;

/// Warns if the landmarks represent the new rows much less than the training rows. `new` and `fit`
/// are the relative trace errors.
fn missed_rows_warning(new: f64, fit: f64) -> Option<String> {
    let odds = |fraction: f64| fraction / (1.0 - fraction).max(f64::EPSILON);
    (new >= MIN_MISSED && odds(new) > MIN_ODDS_RATIO * odds(fit)).then(|| {
        format!(
            "the landmarks miss {} of the new rows (relative trace error), and {} of the training rows: mmd may overlook \
             differences; trust the tests of single columns, or test the old rows instead of the model",
            percent(new),
            percent(fit)
        )
    })
}

/// Compares the rows of a table with the training rows of a model of `mean`.
pub(super) fn compare_with_model(model: &Path, args: &TestArgs, run: &RunSettings) -> Result<TestReport> {
    check_model_options(args)?;
    let select_args = SelectArgs { paths: args.data.paths[1..].to_vec(), ..args.data.clone() };
    if select_args.paths.is_empty() {
        return Err(Error::option("DATA", "", "a model is compared with new rows", "name a table after the model"));
    }
    let mut predictor = Predictor::load_within_budget(model, &run.job_run())?;
    let solver = &predictor.metadata().solver;
    if solver != "mean" {
        let why = format!("a model of {solver} does not store the mean of its training rows");
        return Err(Error::option("MODEL", model.display(), why, "fit mean on the old rows"));
    }
    let group = args.by.as_ref().and_then(|by| if let By::Column(name) = by { Some(name.clone()) } else { None });
    let roles = Selection { group: group.clone(), ..Selection::default() };
    let selected = open::select_for_model(&mut predictor, &select_args, &[], roles, Extras::default(), run)?;
    let outputs = args.report.iter().chain(&args.output);
    output::protect_inputs(outputs, output::table_files(selected.table()).chain([model]))?;
    let scratch = args.scratch.open()?;
    let job_run = scratch.iter().fold(run.job_run(), job::Run::scratch);
    let comparison = statistic::compare_with_model(AnyModel::load(model)?, &selected, &job_run.resources())?;
    if let Some(output) = &args.output {
        let ungrouped =
            open::select_for_model(&mut predictor, &select_args, &[], Selection::default(), Extras::default(), run)?;
        let kept = open::copied_columns(&ungrouped, &select_args, group.as_slice())?;
        let witness = Predictor::new(comparison.witness)?;
        witness.write(&ungrouped, kept.as_ref(), Extras::default(), output, &job_run)?;
    }
    let fit_certificate =
        predictor.metadata().certificate.filter(|_| comparison.outcome.statistic.certificate.is_some());
    let certificates = comparison.outcome.statistic.certificate.zip(fit_certificate);
    let warning = certificates.and_then(|(new, fit)| missed_rows_warning(new.trace_error, fit.trace_error));
    warning.into_iter().for_each(|text| run.progress.warn(text));
    let stored = selected.range().end - selected.range().start;
    let is_dropped = selected.missing() == Missing::Drop && args.data.condition.is_none();
    Ok(TestReport {
        statistic: "mmd",
        resources: run.resource_report(selected.table().bytes_read()),
        dropped: is_dropped.then(|| stored.saturating_sub(comparison.outcome.rows[1])),
        groups: comparison.groups,
        output: args.output.clone(),
        sample_names: vec!["training rows".to_string(), "new rows".to_string()],
        table_columns: super::table_columns(&selected),
        fit_certificate,
        sparse_columns: None,
        sparse_set: None,
        columns: vec![predictor.metadata().features.clone()],
        outcome: comparison.outcome,
        permutations: 0,
        map: MapSpec::default().to_string(),
        precision: "f64",
        verbosity: run.progress.verbosity(),
    })
}
