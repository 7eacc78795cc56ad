//! `kmill evaluate`: a model's scores on a table that has the target.

mod page;
mod report;

pub(crate) use report::EvaluateReport;

use crate::args::EvaluateArgs;
use crate::args::run::Run;
use crate::{Error, Result, output, pipeline, predictor};
use ksolve::Task;

/// Scores a model.
///
/// # Errors
/// Files that cannot be read or do not fit the model.
pub(crate) fn run(args: &EvaluateArgs, run: &Run) -> Result<EvaluateReport> {
    if let Some(page) = &args.report {
        output::check_page(page, &args.model)?;
    }
    let predictor = predictor::load(&args.model, run)?;
    let predictor = match args.threshold {
        Some(threshold) => predictor.above(threshold)?,
        None => predictor,
    };
    let card = predictor.card();
    let novelty = card.task == Task::Novelty;
    if novelty && args.target.is_empty() {
        let why = "the column that is 0 for usual rows and 1 for unusual ones: --target label";
        return Err(Error::Missing { option: "--target", solver: format!("evaluate with {}", card.solver), why });
    }
    if args.top.is_some() && !novelty {
        let why = "only models of oneclass and mean rank rows by how unusual they are";
        return Err(Error::option("--top", "", why, "leave it out"));
    }
    if !card.task.has_target() && !novelty {
        let why = format!("a model of {} has no truth to be compared with", card.task);
        return Err(Error::option("MODEL", args.model.display(), why, "use kmill predict"));
    }
    let names = if args.target.is_empty() { card.targets.clone() } else { args.target.clone() };
    let selected = predictor::select(&predictor, &args.data, &names)?;
    let (report, details) = if novelty {
        let (scores, details) = predictor.novelty(&selected, args.top.map(|top| top as u64), &pipeline::job(run))?;
        (EvaluateReport::Novelty(scores), details)
    } else {
        let (scores, details) = predictor.evaluate(&selected, &pipeline::job(run))?;
        (EvaluateReport::Target(scores), details)
    };
    if let Some(page) = &args.report {
        page::page(&report, &details, &args.model).write(page)?;
    }
    Ok(report)
}

pub(crate) fn main(args: &EvaluateArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}
