//! Opens the tables and models that the command line names.

use crate::args::{DataArgs, RunSettings, SelectArgs};
use crate::{Result, writer};
use kreport::table::format_count;
use ksolve::predict::{Extras, ForecastSummary, LaterIntervals, Predictor};
use kstore::{Missing, SelectedTable, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};

/// Opens the files as one table. A target `FILE.npy` becomes column `y`. Also returns the names of
/// the target columns.
pub(crate) fn table(paths: &[PathBuf], text: &TextOptions, target: &[String]) -> Result<(Table, Vec<String>)> {
    let table = Table::open_with(paths, text)?;
    match target {
        [file] if writer::is_matrix(Path::new(file)) => {
            let table = table.with_target_file(Path::new(file))?;
            Ok((table, vec![kstore::source::TARGET_COLUMN.to_string()]))
        }
        names => {
            let names = table.join_names(names);
            Ok((table, names))
        }
    }
}

/// Returns the selection of rows and columns that the command line requests.
pub(crate) fn selection(select: &SelectArgs, features: &[String], targets: Vec<String>) -> Selection {
    Selection {
        features: features.to_vec(),
        targets,
        rows: select.rows.clone(),
        filter: select.condition.clone(),
        missing: select.missing.unwrap_or_default(),
        ..Selection::default()
    }
}

pub(crate) fn training_selection(data: &DataArgs) -> Selection {
    let base_selection = selection(&data.select, &data.features, data.target.clone());
    data.category.apply_to(Selection { missing_target: Some(data.missing_target.missing_target), ..base_selection })
}

/// Loads a model, and sets its positive class and decision threshold if they are requested.
pub(crate) fn load_predictor(
    path: &Path,
    positive: Option<&str>,
    threshold: Option<f64>,
    run: &RunSettings,
) -> Result<Predictor> {
    let predictor = positive
        .into_iter()
        .try_fold(Predictor::load_within_budget(path, &run.job_run())?, Predictor::with_positive_class)?;
    Ok(threshold.into_iter().try_fold(predictor, Predictor::with_threshold)?)
}

/// Opens the files as one table and selects the columns of the model by name, the targets, and the
/// group, weight, `missing_target` and `part` of `roles`. A model of sparse rows reserves memory
/// for the rows of the table. If `targets` is empty, rows after the last target of a series of lags
/// are forecast; `extras` are the outputs of the prediction.
pub(crate) fn select_for_model(
    predictor: &mut Predictor,
    args: &SelectArgs,
    targets: &[String],
    roles: Selection,
    extras: Extras,
    run: &RunSettings,
) -> Result<SelectedTable> {
    let text = predictor.text_options(args.text.text_options());
    let is_forecast = targets.is_empty();
    let (mut table, targets) = table(&args.paths, &text, targets)?;
    if is_forecast {
        let (forecaster, forecast_table, summary) = predictor.with_forecast(table, extras, &run.job_run())?;
        summary.into_iter().for_each(|summary| describe_forecast(summary, run));
        (*predictor, table) = (forecaster, forecast_table);
    } else {
        table = predictor.with_lags(table, &run.job_run())?;
    }
    *predictor = predictor.clone().with_capacity_for(&table)?;
    let Selection { group, weight, missing_target, part, .. } = roles;
    let selection =
        Selection { group, weight, missing_target, part, ..selection(args, &predictor.metadata().features, targets) };
    Ok(predictor.select(&table, selection)?)
}

/// Selects the columns `keep` of the same rows as `selected`, to copy them to the output. Returns
/// `None` if `keep` is empty.
pub(crate) fn copied_columns(
    selected: &SelectedTable,
    args: &SelectArgs,
    keep: &[String],
) -> Result<Option<SelectedTable>> {
    let base_selection = selection(args, &[], Vec::new());
    let copied_selection =
        Selection { keep: keep.to_vec(), without_features: true, missing: Missing::Mean, ..base_selection };
    Ok((!keep.is_empty()).then(|| selected.table().select(&copied_selection)).transpose()?)
}

/// Notes the rows of a forecast, and where the intervals of its later steps come from.
fn describe_forecast(summary: ForecastSummary, run: &RunSettings) {
    let ForecastSummary { rows, steps, known_steps, later_intervals } = summary;
    let count = |number: usize| format_count(number as u64);
    let intervals = match later_intervals {
        LaterIntervals::Paths(paths) => {
            format!("; the intervals after step {} are quantiles of {} sample paths", count(known_steps), count(paths))
        }
        LaterIntervals::None | LaterIntervals::OneStep => String::new(),
    };
    run.progress.note(&format!(
        "{} rows after the last target of their series are forecast, up to {} steps: missing past values of the target are \
         predictions of earlier rows{intervals}",
        format_count(rows),
        count(steps)
    ));
    if later_intervals == LaterIntervals::OneStep {
        run.progress.warn(format!(
            "the intervals hold for one step, and are too narrow after step {}: sample paths need a model of the mean or median, \
             and past values of the target that are numbers",
            count(known_steps)
        ));
    }
}
