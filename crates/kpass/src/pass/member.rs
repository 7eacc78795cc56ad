//! A process of a job that is shared through a medium: its heartbeat, and the names of its items
//! there.
//!
//! Every name begins with MARK, a digest of the options and the files of the job. A run
//! therefore reads, replaces and removes only items of its own job, and never other files in the
//! folder or items of another job.

use super::heartbeat::{Heartbeat, HeartbeatMonitor, HeartbeatWriter};
use crate::checkpoint::Medium;
use crate::checkpoint::{Manifest, PassKey};
use crate::{Error, Result, digest::Digest};
use std::sync::Arc;

const JOB_SUFFIX: &str = "-job";

/// This process as a member of a job.
pub(super) struct Member {
    pub(super) job_digest: String,
    pub(super) heartbeat: HeartbeatWriter,
}

impl Member {
    /// Joins the processes of the job, and writes the first heartbeat. Fails if processes of
    /// another job are running there, or with an error of the medium.
    pub(super) fn join(medium: &Arc<dyn Medium>, heartbeats: &HeartbeatMonitor, job: &Manifest) -> Result<Self> {
        let job_digest = job.job_digest();
        let job_name = format!("{job_digest}{JOB_SUFFIX}");
        if !medium.contains(&job_name)? {
            reject_other_jobs(&**medium, heartbeats, job)?;
            medium.create(&job_name, &serde_json::to_vec(job).unwrap_or_default())?;
        }
        let heartbeat = HeartbeatWriter::new(Arc::clone(medium), &job_digest);
        heartbeat.start()?;
        Ok(Self { job_digest, heartbeat })
    }

    pub(super) fn owns_item(&self, name: &str) -> bool {
        name.strip_prefix(&self.job_digest).is_some_and(|suffix| suffix.starts_with('-'))
    }

    pub(super) fn total_name(&self, pass: &PassKey) -> String {
        format!("{}-{:06}.total", self.job_digest, pass.number)
    }

    pub(super) fn state_name(&self, pass: &PassKey, segment: u64) -> String {
        format!("{}-{:06}-{}", self.job_digest, pass.number, segment_name(segment))
    }

    pub(super) fn claim_name(&self, pass: &PassKey, item: &str, generation: u64) -> String {
        format!("{}-{:06}-{item}.{generation}", self.job_digest, pass.number)
    }
}

/// Returns the name of the node, or of the lot, that begins at a segment.
pub(super) fn segment_name(segment: u64) -> String {
    format!("{segment:09}")
}

/// Rejects a medium in which processes of another job are running: most likely one of the two jobs
/// was started with wrong options, and the processes would share no work.
fn reject_other_jobs(medium: &dyn Medium, heartbeats: &HeartbeatMonitor, job: &Manifest) -> Result<()> {
    let names = medium.names()?;
    for name in names.iter().filter(|name| Digest::strip_digest(name) == Some(JOB_SUFFIX)) {
        let other_digest = name.trim_end_matches(JOB_SUFFIX);
        let processes =
            names.iter().filter(|name| name.starts_with(other_digest)).filter_map(|name| Heartbeat::process_name(name));
        if let Ok(Some(text)) = medium.read(name)
            && let Ok(other_job) = serde_json::from_slice::<Manifest>(&text)
            && let Some(difference) = job.job_difference(&other_job)
            && heartbeats.is_any_running(&processes.collect::<Vec<_>>())?
        {
            let why = format!(
                "another job is running here: {difference}; start every process with the same options and rows, or choose \
                 another folder"
            );
            return Err(Error::Engine { folder: medium.location(), why });
        }
    }
    Ok(())
}
