//! Options for memory, threads, output and files on disk; they do not change a result.

use super::parse;
use crate::progress::Progress;
use crate::{Result, interrupt};
use clap::Args;
use kreport::fit::ResourceReport;
use ksolve::job;
use kstore::{Workers, checkpoint::ResumeMode, pass::SharedEngine, scratch::ScratchFolder};
use std::{path::PathBuf, time::Duration};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunArgs {
    /// Memory budget of the whole process, such as 512MiB or 2GiB [default: half of the memory that
    /// the machine, the control group or ulimit -v allows]
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub(crate) memory: Option<usize>,
    /// Number of threads [default: number of cores]; fewer start if ulimit -v or ulimit -u leaves
    /// no room for them
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object to stdout, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no warnings to stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print the plan, every stage with its time, and complete tables
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The options for files that a fit keeps on disk in addition to its model, and for processes that
/// share its passes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct PersistenceArgs {
    /// Continue from the checkpoint MODEL.checkpoint of an interrupted fit, and reject the
    /// checkpoint of another fit; without the option the same command continues too, and a
    /// different one replaces the checkpoint. The model is bit-identical to that of an
    /// uninterrupted fit
    #[arg(long, conflicts_with = "states")]
    pub(crate) resume: bool,
    /// Start from the beginning, and replace the checkpoint of an interrupted fit
    #[arg(long, conflicts_with_all = ["states", "resume"])]
    pub(crate) fresh: bool,
    /// Time between two saves of the checkpoint; 0s saves after every segment of rows
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "30s")]
    pub(crate) checkpoint_every: Duration,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

impl PersistenceArgs {
    pub(crate) fn resume_mode(&self) -> ResumeMode {
        resume_mode(self.resume, self.fresh)
    }
}

/// Converts `--resume` and `--fresh`, which are mutually exclusive.
pub(crate) fn resume_mode(resume: bool, fresh: bool) -> ResumeMode {
    match (resume, fresh) {
        (true, _) => ResumeMode::Required,
        (_, true) => ResumeMode::Never,
        _ => ResumeMode::IfSame,
    }
}

/// Processes that share the passes of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct EngineArgs {
    /// Folder in which processes with the same command share the passes over the rows: any number
    /// of processes, on any number of machines; the model is bit-identical to that of one process
    #[arg(id = "states", long = "states", value_name = "DIR")]
    pub(crate) shared_folder: Option<PathBuf>,
    /// Time without a heartbeat after which another process counts as dead and its part is repeated
    #[arg(id = "patience", long = "patience", value_name = "TIME", value_parser = parse::duration, default_value = "90s", requires = "states", hide_short_help = true)]
    pub(crate) heartbeat_timeout: Duration,
}

impl EngineArgs {
    pub(crate) fn open(&self) -> Result<Option<SharedEngine>> {
        let open = |folder| Ok(SharedEngine::in_folder(folder)?.with_heartbeat_timeout(self.heartbeat_timeout));
        self.shared_folder.as_ref().map(open).transpose()
    }
}

/// The options for the scratch folder, which keeps rows and numbers that are read many times and do
/// not fit in memory.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct ScratchArgs {
    /// Folder on a fast disk for decoded rows, features and kernel values that do not fit in
    /// --memory; nothing remains there
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Maximum size of the files in the scratch folder [default: half of the free space of the
    /// disk]
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes, requires = "scratch")]
    pub(crate) scratch_limit: Option<usize>,
}

impl ScratchArgs {
    pub(crate) fn open(&self) -> Result<Option<ScratchFolder>> {
        let Some(folder) = self.scratch.as_deref() else { return Ok(None) };
        let default_limit = || kstore::scratch::free_bytes(folder).map_or(u64::MAX, |free| free / 2);
        let limit = self.scratch_limit.map_or_else(default_limit, |limit| limit as u64);
        Ok(Some(ScratchFolder::open(folder, limit)?))
    }
}

/// [`RunArgs`] with their defaults filled in.
#[derive(Debug)]
pub(crate) struct RunSettings {
    pub(crate) memory: usize,
    pub(crate) threads: usize,
    /// Worker threads of all jobs of the run.
    pub(crate) workers: Workers,
    /// True to print one JSON object instead of tables.
    pub(crate) json: bool,
    /// Stages with their times, and the warnings so far.
    pub(crate) progress: Progress,
}

impl RunArgs {
    pub(crate) fn resolve(&self) -> RunSettings {
        let core_count = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let verbosity = crate::progress::verbosity(self.quiet, self.verbose);
        let (memory, progress) = (self.memory.unwrap_or_else(kstore::budget::default_memory), Progress::new(verbosity));
        if let Some(available) = kstore::budget::available_memory().filter(|bytes| memory > *bytes) {
            let (requested, available_text) =
                (kstore::budget::format_bytes(memory), kstore::budget::format_bytes(available));
            progress.warn(format!(
                "--memory {requested} exceeds the {available_text} available to this process, beyond which the system may end it; lower --memory"
            ));
        }
        let threads = self.threads.unwrap_or_else(core_count);
        RunSettings { memory, threads, workers: Workers::new(threads), json: self.json, progress }
    }
}

impl RunSettings {
    /// Returns the resources of a job: the memory, the threads and the progress display of the run.
    pub(crate) fn job_run(&self) -> job::Run<'_> {
        let job_run = job::Run::new().memory(self.memory).with_workers(self.workers.clone());
        job_run.cancel_token(interrupt::cancel_token()).observer(&self.progress)
    }

    /// Returns the resources that the run has used; `bytes_read` is counted by its tables.
    pub(crate) fn resource_report(&self, bytes_read: u64) -> ResourceReport {
        ResourceReport {
            seconds: self.progress.seconds(),
            bytes_read,
            peak_rss_bytes: kstore::budget::peak_rss(),
            memory_budget_bytes: self.memory,
            warnings: self.progress.warnings(),
        }
    }
}
