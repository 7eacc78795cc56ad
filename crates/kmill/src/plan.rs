//! `kmill plan`: what a fit would need, without running it.

use crate::args::PlanArgs;
use crate::args::run::Run;
use crate::fit::FitOptions;
use crate::report::PlanReport;
use crate::{Result, output, pipeline};

/// Lowers the options and adds up what a fit would hold.
///
/// # Errors
/// Options that contradict each other, and files that cannot be opened. A plan over the budget is an answer here.
pub fn run(args: &PlanArgs, run: &Run) -> Result<PlanReport> {
    let options = FitOptions::new(args.solver, &args.data, &args.learn)?;
    pipeline::plan(&options, run)
}

/// `kmill plan`.
pub(crate) fn main(args: &PlanArgs) -> Result<()> {
    let context = args.run.resolve();
    let report = run(args, &context)?;
    output::report(&report, context.json)
}
