//! The `kmill` command: kernel machines on tables larger than memory.
//!
//! Each subcommand has its own file. [`args`] contains the options that several subcommands share,
//! and the crate `kreport` the reports. Results go to stdout; progress, stage times, warnings and
//! errors go to stderr. The exit code is 0 for success, 1 for a failure (with one sentence that
//! states the reason), 2 for a usage error, and 130 after Ctrl-C or SIGTERM.

mod allocator;
pub mod args;
mod columns;
mod convert;
mod coordinates;
mod curve;
mod demo;
mod error;
mod evaluate;
mod export;
mod features;
mod fit;
mod generate;
pub mod generators;
mod herd;
mod inspect;
mod interrupt;
mod manual;
mod open;
mod output;
mod pipeline;
mod plan;
mod plot;
mod predict;
mod progress;
mod shards;
mod terminal;
mod test;
mod topics;
mod tune;
mod update;
mod usage;
mod which;
mod writer;

pub use error::{Error, Result};

use args::{RunArgs, RunSettings};
use clap::{FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use std::{fmt::Display, process::ExitCode};

/// Kernel machines on tables larger than memory.
#[derive(Debug, Parser)]
#[command(
    name = "kmill",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = format!("{}\n\nStart with kmill demo, or:\n  \
        kmill generate friedman1 --rows 1e6 -o train.parquet\n  \
        kmill fit ridge train.parquet --target y --rank 500 -o model.safetensors\n  \
        kmill evaluate model.safetensors train.parquet", topics::list())
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Defines the subcommands, from their help, options and functions: the enum of the parsed
/// subcommand, and its `run`. A function marked `reports` returns the report to print; a function
/// marked `runs` prints its own output.
macro_rules! subcommands {
    (@reports $args:ident $run:path) => { run_and_report(&$args.run, |run| $run($args, run)) };
    (@runs $args:ident $main:path) => { $main($args) };
    ($($(#[$about:meta])* $verb:ident($args:ty) => $how:ident $main:path,)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$about])* $verb($args),)*
        }

        impl Command {
            fn run(&self) -> Result<()> {
                match self {
                    $(Self::$verb(args) => subcommands!(@$how args $main),)*
                }
            }
        }
    };
}

subcommands! {
    /// Fit a model to a table
    Fit(fit::FitArgs) => reports fit::run,
    /// Write a model's predictions for a table
    Predict(predict::PredictArgs) => runs predict::main,
    /// Score a model on a table with the target
    Evaluate(evaluate::EvaluateArgs) => reports evaluate::run,
    /// Show the contents of a table or a model
    Inspect(inspect::InspectArgs) => runs inspect::main,
    /// Report the memory and the passes that a fit needs, without running it
    Plan(plan::PlanArgs) => runs plan::main,
    /// Draw the predictions of a model, or rows by cluster, component or column
    Plot(plot::PlotArgs) => reports plot::run,
    /// Write a synthetic table of any size
    Generate(generate::GenerateArgs) => runs generate::main,
    /// Rewrite a table in another format
    Convert(convert::ConvertArgs) => runs convert::main,
    /// Compare landmark schemes and maps: error against rank, and costs
    Curve(curve::CurveArgs) => reports curve::run,
    /// Find a good model: choose kernel, rank and regularisation on samples of the rows, and fit
    Tune(tune::TuneArgs) => reports tune::run,
    /// Write a model as an ONNX file, for other runtimes
    Export(export::ExportArgs) => runs export::main,
    /// Continue learning: predict each row of a table, then learn it
    Update(update::UpdateArgs) => reports update::run,
    /// Select a few rows that represent all rows
    Herd(herd::HerdArgs) => reports herd::run,
    /// Write the features of a map for every row, as input for any linear method
    Features(features::FeaturesArgs) => reports features::run,
    /// Write coordinates of objects given by a matrix of distances or kernel values
    Coordinates(coordinates::CoordinatesArgs) => reports coordinates::run,
    /// Test whether two samples differ, or whether two sets of columns are dependent
    Test(test::TestArgs) => reports test::run,
    /// Start a fit in shards (parts of the table): write what every shard needs
    Prepare(shards::PrepareArgs) => reports shards::prepare,
    /// Read the rows of a shard and write their statistics
    Stats(shards::StatsArgs) => reports shards::stats,
    /// Merge the statistics of shards, or remove rows from them
    Merge(shards::MergeArgs) => runs shards::merge_shards,
    /// Compute the model of a job from the statistics of its shards
    Solve(shards::SolveArgs) => reports shards::solve,
    /// Generate data, fit, evaluate and explain: a first example
    Demo(demo::DemoArgs) => runs demo::main,
    /// Print the completion script of a shell
    Completions(manual::CompletionsArgs) => runs manual::completions,
    /// Write the manual pages
    Man(manual::ManArgs) => runs manual::pages,
}

fn run_and_report<R: Serialize + Display>(
    args: &RunArgs,
    subcommand: impl FnOnce(&RunSettings) -> Result<R>,
) -> Result<()> {
    let run = args.resolve();
    output::print_report(&subcommand(&run)?, run.json)
}

/// Stack size of the thread that runs the command, in bytes. It does not depend on `ulimit -s`.
const STACK_BYTES: usize = 8 << 20;

/// Parses the command line, runs the subcommand, and returns the exit code.
pub fn run() -> ExitCode {
    allocator::configure();
    match std::thread::Builder::new().name("main".to_string()).stack_size(STACK_BYTES).spawn(run_command) {
        // a panic of the thread has already printed its message
        Ok(command) => command.join().unwrap_or(ExitCode::from(101)),
        // the system cannot start another thread
        Err(_) => run_command(),
    }
}

fn run_command() -> ExitCode {
    // by default, faer's decompositions would use a thread per core, regardless of --threads
    faer::set_global_parallelism(faer::Par::Seq);
    silence_decoders();
    register_storage();
    let arguments = usage::normalise(std::env::args_os().collect());
    let matches = args::command(&arguments).try_get_matches_from(&arguments);
    let matches = matches.and_then(usage::check_stdout);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(answer) => return usage::reply(&answer, &arguments),
    };
    interrupt::install();
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        // the reader of stdout has closed the pipe, as in `kmill inspect … | head`
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            let is_interrupted = matches!(error.as_store_error(), Some(kstore::Error::Interrupted));
            terminal::print_line(&format!(
                "error: {}",
                if is_interrupted { interrupt::interruption_message() } else { error.to_string() }
            ));
            if let Some(files) = interrupt::written_files().filter(|_| !is_interrupted) {
                terminal::print_line(&format!("note: {files} was written before the error"));
            }
            if error.is_usage() {
                ExitCode::from(2)
            } else if interrupt::is_requested() {
                ExitCode::from(interrupt::EXIT_CODE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Registers the storage behind addresses such as `s3://bucket/rows.parquet`, in a build with the
/// feature `cloud`, and makes remote reads stop at an interruption.
fn register_storage() {
    kstore::source::remote::stop_when(interrupt::is_requested);
    #[cfg(feature = "cloud")]
    if let Err(error) = kcloud::register() {
        terminal::print_line(&format!("warning: {error}"));
    }
}

/// Suppresses the panic messages of decoders that panic on damaged files. The error that follows
/// describes the problem.
fn silence_decoders() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !kstore::source::is_decoding() {
            default_hook(panic);
        }
    }));
}
