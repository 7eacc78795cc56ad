//! `kmill plan`: reports the resources that a fit would need, without running it. `kmill fit
//! --verbose` prints the same before it starts.

use crate::args::{JobArgs, LagArgs, RunArgs, RunSettings, ScratchArgs, parse};
use crate::pipeline::{self, FitOptions};
use crate::{Result, output};
use clap::Args;
use kreport::fit::{PlanReport, Verbosity};
use ksolve::job::{self, Fit};

/// Rank of a fit without `--rank`.
const DEFAULT_RANK: usize = 1000;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    kmill plan ridge train.parquet --target y --rank 4000 --memory 512MiB\n\n\
    Exit code 1: the fit needs more than the memory budget. Passes are passes over the table. \
    -v lists all parts of the memory.")]
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
    Ok(report.forecast.check()?)
}

fn run(args: &PlanArgs, run: &RunSettings) -> Result<PlanReport> {
    let mut options = FitOptions::new(&args.job)?.with_lags(&args.lags).with_combination(args.combine.as_ref());
    let selected = pipeline::select(&mut options, run)?;
    let (fit, scratch) = (options.fit_with_open_files(&selected)?, args.scratch.open()?);
    let job_run = scratch.iter().fold(run.job_run(), job::Run::scratch);
    let forecast_of = |fit: &Fit| match &options.kernels_to_combine {
        Some(kernels) => fit.plan_combination(kernels, &selected, &job_run),
        None => fit.plan(&selected, &job_run),
    };
    let forecast = forecast_of(&fit)?;
    let fits_at = |rank: usize| forecast_of(&fit.clone().with_single_rank(rank)).is_ok_and(|forecast| forecast.fits());
    let lists_all_parts = run.progress.verbosity() == Verbosity::Verbose;
    let map_args = &args.job.map_args;
    let has_rank = !forecast.fits() && !map_args.map.is_exact_kernel();
    let fitting_rank =
        if has_rank { largest_fitting_rank(map_args.rank.unwrap_or(DEFAULT_RANK), fits_at) } else { None };
    Ok(PlanReport { forecast, lists_all_parts, fitting_rank })
}

/// Returns the largest rank below `rank` that fits, to two digits; `None` if no rank fits.
fn largest_fitting_rank(rank: usize, fits_at: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut fitting, mut exceeding) = (1, rank);
    if !fits_at(fitting) {
        return None;
    }
    while exceeding - fitting > (fitting / 20).max(1) {
        let middle = fitting + (exceeding - fitting) / 2;
        *(if fits_at(middle) { &mut fitting } else { &mut exceeding }) = middle;
    }
    let unit = 10usize.pow(fitting.ilog10().saturating_sub(1));
    Some(fitting / unit * unit)
}
