//! `kmill predict`: a model's predictions for a table, in the order of its rows.

use crate::args::PredictArgs;
use crate::args::run::Run;
use crate::table::count;
use crate::{Result, output, pipeline, predictor, writer};
use ksolve::predict::Extras;

/// Writes the predictions of a model and returns the number of rows.
///
/// # Errors
/// Files that cannot be read or do not fit the model; then nothing is written.
pub fn run(args: &PredictArgs, run: &Run) -> Result<u64> {
    output::check(&args.output)?;
    let predictor = predictor::load(&args.model, run)?;
    let predictor = match args.threshold {
        Some(threshold) => predictor.above(threshold)?,
        None => predictor,
    };
    let selected = predictor::select(&predictor, &args.data, &[])?;
    let kept = match args.keep.is_empty() {
        true => None,
        false => Some(predictor::kept(&selected, &args.data, &args.keep)?),
    };
    output::spare(&args.output, output::inputs(selected.table()).chain([args.model.as_path()]))?;
    let PredictArgs { scores, probabilities, components, std, novelty, preimage: preimages, residual, .. } = *args;
    if let Some(top) = args.top {
        return Ok(predictor.write_top(&selected, kept.as_ref(), top, &args.output, &pipeline::job(run))?.rows);
    }
    let extras = Extras { scores, probabilities, components, std, novelty, preimages, residual };
    let written = predictor.write(&selected, kept.as_ref(), extras, &args.output, &pipeline::job(run))?;
    if written.unsettled > 0 {
        let (unsettled, rows) = (count(written.unsettled), count(written.rows));
        run.progress.warn(format!("the pre-images of {unsettled} of {rows} rows did not settle"));
    }
    Ok(written.rows)
}

/// Runs `kmill predict` and prints its report.
pub(crate) fn main(args: &PredictArgs) -> Result<()> {
    let context = args.run.resolve();
    let rows = run(args, &context)?;
    if context.json {
        return output::json(&writer::Written { rows, files: std::slice::from_ref(&args.output) });
    }
    context.progress.note(&format!("{} predictions in {}", count(rows), args.output.display()));
    Ok(())
}
