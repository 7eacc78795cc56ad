//! `kmill predict`: writes the predictions of a model for a table, in row order.

use crate::args::{RunArgs, RunSettings, SelectArgs, parse};
use crate::{Error, Result, open, output, writer};
use clap::Args;
use kreport::fit::Verbosity;
use kreport::table::{Align, AlignedTable, format_count, format_duration, number};
use ksolve::predict::{AnomalousRow, Extras, Predictor};
use ksolve::{Link, Task};
use kstore::{Selection, display};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill predict model.safetensors new.parquet -o predictions.parquet\n  \
    kmill predict model.safetensors new.csv --keep id,time -o predictions.csv\n  \
    kmill predict leaving.safetensors customers.csv --top 50 --keep id -o calls.csv\n  \
    kmill predict rent.safetensors new.csv --reasons 3 --keep id -o explained.csv\n  \
    kmill predict anomalies.safetensors new.csv --top 100 --keep '*' -o strange.csv\n\n\
    Columns are matched by name; the target may be absent. Rows keep their order. A model fitted with \
    --missing drop writes an empty prediction for a row with a missing value; predict --missing drop \
    skips the row.")]
pub(crate) struct PredictArgs {
    /// Model file written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Also write the scores that decide the class: `score_<label>` for each class, the largest
    /// wins; `score` for two classes, positive for the second in the order of `inspect`;
    /// `score_<a>_<b>` for each pair (fit svm --multiclass one-vs-one), positive for b
    #[arg(long, help_heading = "Run")]
    pub(crate) scores: bool,
    /// Also write the class probabilities, as `probability_<label>` (models of logistic, and of svm
    /// --probabilities)
    #[arg(long, help_heading = "Run")]
    pub(crate) probabilities: bool,
    /// Also write the coordinates along the components, as `component_0`, … (models of fit pls, fit
    /// fisher --components)
    #[arg(long, help_heading = "Run")]
    pub(crate) components: bool,
    /// Also write standard deviations: `std` of a new observation and `std_mean` of the prediction
    /// itself (models of fit --std)
    #[arg(long, help_heading = "Run")]
    pub(crate) std: bool,
    /// Also write prediction intervals, as `lower` and `upper`, or for classes prediction sets, as
    /// `in_set_<label>` (models of fit --interval)
    #[arg(long, help_heading = "Run")]
    pub(crate) interval: bool,
    /// Also write the N columns that contribute most to each prediction, with their values and
    /// contributions, as text `reasons`; for classes, contributions to the score of the predicted
    /// class, of two always to the score of the positive one
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, conflicts_with = "top", help_heading = "Run")]
    pub(crate) reasons: Option<usize>,
    /// Also write the contribution of every column to each prediction, as `contribution_<column>`,
    /// and the mean prediction of the background, as `background`: they sum to the prediction
    /// (Shapley values)
    #[arg(long, conflicts_with = "top", help_heading = "Run")]
    pub(crate) contributions: bool,
    /// Table with the rows that contributions are relative to; 64 of them are drawn [default: 64
    /// landmarks of the model, or 64 rows of DATA if it has none in the units of the table]
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(crate) background: Option<PathBuf>,
    /// Also write the squared distance of each row from the span of the components, as `novelty`
    /// (models of fit kpca --novelty)
    #[arg(long, help_heading = "Run")]
    pub(crate) novelty: bool,
    /// Also write the pre-image of each row's projection onto the components, as
    /// `preimage_<feature>`: denoised rows (kernels with a gradient, models of fit kpca --novelty)
    #[arg(long, help_heading = "Run")]
    pub(crate) preimage: bool,
    /// Also write the norm of the component outside the span of the features, sqrt(k(x, x) -
    /// |phi|^2), as `residual` (models of features or of fit features)
    #[arg(long, help_heading = "Run")]
    pub(crate) residual: bool,
    /// Class, of two, that is predicted above --threshold, and by whose score --top orders rows
    /// [default: the second in the order of
    /// `inspect`]
    #[arg(long, value_name = "LABEL", value_parser = parse::label, help_heading = "Run")]
    pub(crate) positive: Option<String>,
    /// Predict the positive class, of two, above this probability, or above this score if the model
    /// has no probabilities
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, allow_negative_numbers = true, help_heading = "Run")]
    pub(crate) threshold: Option<f64>,
    /// Write only the N rows with the highest scores of the positive class, of two, or the N most
    /// anomalous rows (oneclass, mean, kpca --novelty), in this order, with their index as `row`;
    /// of the first 1,000 anomalous rows also the columns that make them anomalous, as `reasons`
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, help_heading = "Run")]
    pub(crate) top: Option<usize>,
    /// Columns to copy to the output, before the predictions: names or globs, comma-separated;
    /// !NAME excludes a column
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) keep: Vec<String>,
    #[arg(short, long, help = output::help("predictions, as column `prediction`"), value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Maximum number of anomalous rows that the terminal shows.
const MAX_SHOWN_ROWS: usize = 20;

#[derive(serde::Serialize)]
struct PredictReport<'a> {
    #[serde(flatten)]
    written: writer::WrittenFiles<'a>,
    #[serde(rename = "strange", skip_serializing_if = "Option::is_none")]
    anomalies: Option<&'a [AnomalousRow]>,
}

/// The rows of --top, and the positive class if the model has two classes.
#[derive(Default)]
pub(crate) struct TopRows {
    rows: Vec<AnomalousRow>,
    positive_label: Option<String>,
}

/// Writes the predictions of a model. Returns the number of rows written and the rows of --top.
pub(crate) fn run(args: &PredictArgs, run: &RunSettings) -> Result<(u64, TopRows)> {
    output::check_writable(&args.output)?;
    if args.positive.is_some() && args.threshold.is_none() && args.top.is_none() {
        let why = "it names the class of --threshold or of --top";
        return Err(Error::option("--positive", "", why, "add --threshold 0.5 or --top 100, or omit it"));
    }
    let mut predictor = open::load_predictor(&args.model, args.positive.as_deref(), args.threshold, run)?;
    let extras = extras(args);
    let selected = open::select_for_model(&mut predictor, &args.data, &[], Selection::default(), extras, run)?;
    if let Some(background) = &args.background {
        if args.reasons.is_none() && !args.contributions {
            let why = "it has the rows that contributions are relative to";
            return Err(Error::option("--background", "", why, "add --reasons 5 or --contributions, or omit it"));
        }
        let data = SelectArgs { paths: vec![background.clone()], rows: None, condition: None, ..args.data.clone() };
        let mut reader = predictor.clone();
        let background = open::select_for_model(&mut reader, &data, &[], Selection::default(), Extras::default(), run)?;
        predictor = predictor.with_background_table(&background)?;
    } else if (args.reasons.is_some() || args.contributions) && !predictor.has_background() {
        let why =
            "contributions are relative to 64 rows of this table, because the model has no landmarks in its units";
        run.progress.note(&format!("{why}; --background names other rows"));
        predictor = predictor.with_background_or(&selected)?;
    }
    if args.contributions || args.reasons.is_some() {
        run.progress.note(&format!("contributions are {}", contribution_unit(&predictor)));
        let rows = selected.row_count_if_known().filter(|_| run.progress.verbosity() != Verbosity::Quiet);
        if let Some(rows) = rows {
            let threads = run.job_run().workers().threads();
            let estimate = explanation_estimate(predictor.explanation_time()?, rows, threads);
            estimate.into_iter().for_each(|text| run.progress.note(&text));
        }
    }
    // keep rows with missing values, even if the fit dropped them, unless --missing is given
    let keeps_incomplete_rows = args.data.missing.is_none() && args.top.is_none();
    let selected = if keeps_incomplete_rows { selected.with_incomplete_rows() } else { selected };
    let copied = open::copied_columns(&selected, &args.data, &args.keep)?;
    output::protect_inputs([&args.output], output::table_files(selected.table()).chain([args.model.as_path()]))?;
    if let Some(top) = args.top {
        let rows = predictor.write_top(&selected, copied.as_ref(), top, &args.output, &run.job_run())?;
        let positive_label =
            predictor.positive_label().map(|label| display::escape_line(&label.to_string()).to_string());
        return Ok((rows.len() as u64, TopRows { rows, positive_label }));
    }
    let written = predictor.write(&selected, copied.as_ref(), extras, &args.output, &run.job_run())?;
    if written.unconverged > 0 {
        let (unconverged, rows) = (format_count(written.unconverged), format_count(written.rows));
        run.progress.warn(format!("the pre-images of {unconverged} of {rows} rows did not converge"));
    }
    Ok((written.rows, TopRows::default()))
}

/// Returns the outputs in addition to predictions.
fn extras(args: &PredictArgs) -> Extras {
    let PredictArgs { scores, probabilities, components, std, interval: intervals, .. } = *args;
    let PredictArgs { novelty, preimage: preimages, residual, contributions, .. } = *args;
    Extras {
        scores,
        probabilities,
        components,
        std,
        intervals,
        novelty,
        preimages,
        residual,
        reasons: args.reasons.unwrap_or(0),
        contributions,
        ..Extras::default()
    }
}

/// Minimum time of all explanations for which the run estimates it.
const MIN_ESTIMATED_TIME: Duration = Duration::from_secs(10);

/// Returns a note about the time of the explanations of all rows, from the time of one row on one
/// thread; `None` if they are fast.
fn explanation_estimate(row_time: Duration, rows: u64, threads: usize) -> Option<String> {
    let total = row_time.mul_f64(rows as f64 / threads.max(1) as f64);
    (total >= MIN_ESTIMATED_TIME).then(|| {
        let [total, row_time] = [total, row_time].map(format_duration);
        let rows = format_count(rows);
        format!(
            "explaining {rows} rows takes about {total} ({row_time} a row and thread); --rows or --where selects fewer"
        )
    })
}

/// Describes the unit of the contributions of a model.
fn contribution_unit(predictor: &Predictor) -> String {
    let metadata = predictor.metadata();
    match (metadata.task, &metadata.link) {
        (Task::Classification, Some(Link::Logit)) => format!("log-odds of {}", explained_class(predictor)),
        (Task::Classification, _) => {
            format!("parts of the {} score (--scores) of {}", metadata.solver, explained_class(predictor))
        }
        (Task::Regression, _) => {
            format!("in the unit of the target {}", display::escape_line(&metadata.targets.join(", ")))
        }
        _ => "in the unit of the prediction".to_string(),
    }
}

/// Names the class that the contributions of a row belong to.
fn explained_class(predictor: &Predictor) -> String {
    match predictor.positive_label() {
        Some(label) => {
            let label = label.to_string();
            let label = display::escape_line(&label);
            format!("the class {label}, also in rows predicted otherwise: a positive contribution speaks for {label}")
        }
        None => "the predicted class of each row".to_string(),
    }
}

/// Returns a table of the rows of --top, up to one terminal page.
fn top_rows_table(top: &TopRows) -> AlignedTable {
    let has_reasons = top.rows.iter().any(|row| !row.reasons.is_empty());
    // the scores in the file belong to the second class
    let score_name = top.positive_label.as_ref().map_or("score".to_string(), |label| format!("score of {label}"));
    let headings = [("row", Align::Right), (&score_name, Align::Right)];
    let mut table = AlignedTable::new(headings.into_iter().chain(has_reasons.then_some(("reasons", Align::Left))));
    for AnomalousRow { row, score, reasons } in top.rows.iter().take(MAX_SHOWN_ROWS) {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        let cells = [row.to_string(), number(*score, 4)].into_iter();
        table.push_row(cells.chain(has_reasons.then(|| reasons.join("; "))));
    }
    table
}

pub(crate) fn main(args: &PredictArgs) -> Result<()> {
    let settings = args.run.resolve();
    let (rows, top) = run(args, &settings)?;
    if settings.json {
        let shown_anomalies = args.top.map(|_| &top.rows[..]);
        return output::print_json(&PredictReport {
            written: writer::WrittenFiles { rows, files: std::slice::from_ref(&args.output) },
            anomalies: shown_anomalies,
        });
    }
    // the rows themselves may already be on stdout
    if !top.rows.is_empty() && args.output.as_os_str() != kstore::sink::STDOUT {
        output::print_text(top_rows_table(&top))?;
    }
    settings.progress.note(&format!("{} predictions in {}", format_count(rows), args.output.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_explanations_are_announced() {
        let text = explanation_estimate(Duration::from_millis(2048), 586, 2).unwrap();
        assert_eq!(
            text,
            "explaining 586 rows takes about 10 min 00 s (2.0 s a row and thread); --rows or --where selects fewer"
        );
        assert_eq!(explanation_estimate(Duration::from_millis(1), 586, 2), None);
    }
}
