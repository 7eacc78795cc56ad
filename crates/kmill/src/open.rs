//! Opens the tables and models given on the command line.

use crate::args::{DataArgs, Run, SelectArgs};
use crate::{Result, pipeline, writer};
use ksolve::predict::Predictor;
use kstore::{Missing, Selected, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};

/// Opens the files; a target `FILE.npy` becomes column `y`. Also returns the names of the target
/// columns.
pub(crate) fn table(paths: &[PathBuf], text: &TextOptions, target: &[String]) -> Result<(Table, Vec<String>)> {
    let table = Table::open_with(paths, text)?;
    match target {
        [file] if writer::is_npy(Path::new(file)) => {
            let table = table.with_target_file(Path::new(file))?;
            Ok((table, vec![kstore::source::TARGET.to_string()]))
        }
        names => {
            let names = table.names(names);
            Ok((table, names))
        }
    }
}

/// Returns the selection of rows and columns given on the command line.
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

pub(crate) fn learned_from(data: &DataArgs) -> Selection {
    let rows = selection(&data.select, &data.features, data.target.clone());
    data.category.of(Selection { missing_target: Some(data.missing_target.missing_target), ..rows })
}

/// Loads a model with the given positive class and decision threshold.
pub(crate) fn deciding(path: &Path, positive: Option<&str>, threshold: Option<f64>, run: &Run) -> Result<Predictor> {
    let predictor =
        positive.into_iter().try_fold(Predictor::load_within(path, &pipeline::job(run))?, Predictor::positive)?;
    Ok(threshold.into_iter().try_fold(predictor, Predictor::above)?)
}

/// Opens the files as one table and selects the columns of the model by name, the targets, and the
/// group, weight and `missing_target` of `roles`. A model of sparse rows reserves memory for the
/// rows of the table.
pub(crate) fn select(
    predictor: &mut Predictor,
    args: &SelectArgs,
    targets: &[String],
    roles: Selection,
) -> Result<Selected> {
    let text = predictor.reading(args.text.options());
    let (table, targets) = table(&args.paths, &text, targets)?;
    *predictor = predictor.clone().fitting(&table)?;
    let Selection { group, weight, missing_target, .. } = roles;
    let selection = Selection { group, weight, missing_target, ..selection(args, &predictor.card().features, targets) };
    Ok(predictor.select(&table, selection)?)
}

/// Selects the columns `keep` of the rows of `selected`, which are copied to the output; `None` if
/// `keep` is empty.
pub(crate) fn kept(selected: &Selected, args: &SelectArgs, keep: &[String]) -> Result<Option<Selected>> {
    let all = selection(args, &[], Vec::new());
    let carried = Selection { keep: keep.to_vec(), without_features: true, missing: Missing::Mean, ..all };
    Ok((!keep.is_empty()).then(|| selected.table().select(&carried)).transpose()?)
}
