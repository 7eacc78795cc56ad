//! The `kmill` command: kernel machines on tables larger than memory.
//!
//! One verb a file; [`args`] has the options of all verbs, [`report`] that of a fit. Results go to stdout, everything
//! else (progress, stage times, warnings, errors) to stderr. Exit code 0: done; 1: it failed, and one sentence says
//! why; 2: wrong usage.

#![allow(missing_docs, reason = "options are documented by their help; beside it this is a command, not a library")]

pub mod allocator;
pub mod args;
mod colour;
mod columns;
pub mod convert;
mod curve;
mod demo;
mod drawing;
mod error;
mod evaluate;
mod export;
mod features;
mod fit;
pub mod generate;
pub mod generators;
mod herd;
mod importance;
pub mod inspect;
pub mod interrupt;
pub mod machine;
mod manual;
mod output;
pub mod page;
mod pipeline;
mod plan;
mod plot;
mod predict;
mod predictor;
pub mod progress;
pub mod report;
mod shards;
pub mod table;
mod test;
mod tune;
mod usage;
mod which;
pub mod writer;

pub use error::{Error, Result};

use args::{Cli, Command};
use clap::FromArgMatches;
use std::process::ExitCode;

/// Reads the command line, runs the verb, and returns the exit code.
pub fn run() -> ExitCode {
    allocator::configure();
    allocator::outlive_long_files();
    silence_decoders();
    reach_stores();
    let words = usage::words(std::env::args_os().collect());
    let parsed = args::command(&words).try_get_matches_from(&words);
    let parsed = parsed.and_then(usage::one_output);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(answer) => return usage::answer(&answer, &words),
    };
    interrupt::install();
    let outcome = match &cli.command {
        Command::Fit(args) => fit::main(args),
        Command::Predict(args) => predict::main(args),
        Command::Evaluate(args) => evaluate::main(args),
        Command::Inspect(args) => inspect::main(args),
        Command::Plan(args) => plan::main(args),
        Command::Plot(args) => plot::main(args),
        Command::Generate(args) => generate::main(args),
        Command::Convert(args) => convert::main(args),
        Command::Curve(args) => curve::main(args),
        Command::Tune(args) => tune::main(args),
        Command::Export(args) => export::main(args),
        Command::Herd(args) => herd::main(args),
        Command::Features(args) => features::main(args),
        Command::Test(args) => test::main(args),
        Command::Prepare(args) => shards::prepare(args),
        Command::Stats(args) => shards::stats(args),
        Command::Merge(args) => shards::merged(args),
        Command::Solve(args) => shards::solve(args),
        Command::Demo(args) => demo::main(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::pages(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // whoever reads our output has seen enough: `kmill inspect … | head`
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            progress::say(&format!("error: {error}"));
            if error.is_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Makes addresses such as `s3://bucket/rows.parquet` known in this process, in a build with the feature `cloud`.
pub fn reach_stores() {
    #[cfg(feature = "cloud")]
    if let Err(error) = kcloud::register() {
        progress::say(&format!("warning: {error}"));
    }
}

/// Suppresses the messages of decoders that panic on damaged files; the error that follows says what is wrong.
fn silence_decoders() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !kstore::source::is_decoding() {
            usual(panic);
        }
    }));
}
