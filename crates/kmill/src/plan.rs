//! `kmill plan`: reports the resources that a fit would need, without running it. `kmill fit
//! --verbose` prints the same before it starts.

use crate::args::{JobArgs, LagArgs, RunArgs, RunSettings, ScratchArgs, parse};
use crate::pipeline::{self, FitOptions};
use crate::{Result, output};
use clap::Args;
use kreport::fit::PlanReport;
use ksolve::job;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    kmill plan ridge train.parquet --target y --rank 4000 --memory 512MiB\n\n\
    Exit code 1: the fit needs more than the memory budget. Passes are passes over the table.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) lags: LagArgs,
    /// Learn the weights of a sum of kernels from the target, instead of --kernel: comma-separated
    /// expressions
    #[arg(long, value_name = "EXPRS", value_parser = parse::kernels, conflicts_with = "kernel", help_heading = "Learning")]
    pub(crate) combine: Option<parse::Kernels>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
}

/// Prints the memory and the passes of a fit, and fails if they exceed the budget.
pub(crate) fn main(args: &PlanArgs) -> Result<()> {
    let run = args.run.resolve();
    let report = self::run(args, &run)?;
    output::print_report(&report, run.json)?;
    Ok(report.forecast.stages.into_iter().try_for_each(|stage| stage.plan.check().map(drop))?)
}

fn run(args: &PlanArgs, run: &RunSettings) -> Result<PlanReport> {
    let mut options = FitOptions::new(&args.job)?.with_lags(&args.lags).with_combination(args.combine.as_ref());
    let selected = pipeline::select(&mut options, run)?;
    let (fit, scratch) = (options.fit_with_open_files(&selected)?, args.scratch.open()?);
    let job_run = scratch.iter().fold(run.job_run(), job::Run::scratch);
    let forecast = match &options.kernels_to_combine {
        Some(kernels) => fit.plan_combination(kernels, &selected, &job_run)?,
        None => fit.plan(&selected, &job_run)?,
    };
    Ok(PlanReport { forecast })
}
