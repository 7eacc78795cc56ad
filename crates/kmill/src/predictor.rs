//! Models and the tables they are used on, as the verbs name them.

use crate::args::data::SelectArgs;
use crate::args::run::Run;
use crate::{Result, convert};
use ksolve::predict::Predictor;
use kstore::{Plan, Selected, Selection};
use std::path::Path;

/// Loads a model, unless its file is larger than the memory budget and than the program itself. Smaller ones are planned with their
/// table, so that a refusal names a budget that has room for both.
pub(crate) fn load(path: &Path, run: &Run) -> Result<Predictor> {
    let bytes = std::fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
    let program = Plan::process("the model", run.memory, run.threads, 0);
    if bytes > run.memory.max(program.bytes()) {
        program.term("its file", bytes, "fit a model of lower `rank`").check()?;
    }
    Ok(Predictor::load(path)?)
}

/// Opens the files as one table and selects the columns that the model knows by name, and these targets, if any.
pub(crate) fn select(predictor: &Predictor, args: &SelectArgs, targets: &[String]) -> Result<Selected> {
    convert::only_convert_keeps(args.missing)?;
    let (table, targets) = convert::open(&args.paths, &args.text.options(), targets)?;
    Ok(predictor.select(&table, convert::selection(args, &predictor.card().features, targets))?)
}

/// Selects the columns `keep` of the rows of `selected`, which are only carried along.
pub(crate) fn kept(selected: &Selected, args: &SelectArgs, keep: &[String]) -> Result<Selected> {
    let all = Selection {
        keep: keep.to_vec(),
        without_features: true,
        missing: kstore::Missing::Mean,
        ..Selection::default()
    };
    Ok(selected.table().select(&Selection { rows: args.rows.clone(), filter: args.condition.clone(), ..all })?)
}
