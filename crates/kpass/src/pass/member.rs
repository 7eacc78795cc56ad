//! A process of a job that is shared through a medium: its heartbeat, and the names of its items
//! there.
//!
//! Every name begins with the mark of the job, a digest of its options and its files. A run
//! therefore reads, replaces and removes only items of its own job, and never other files in the
//! folder or items of another job.

use super::life::{Life, Lives, Sign};
use super::medium::Medium;
use crate::checkpoint::{Manifest, PassKey};
use crate::{Error, Result, digest::Digest};
use std::sync::Arc;

const JOB: &str = "-job";

/// This process as a member of a job.
pub(super) struct Member {
    pub(super) mark: String,
    pub(super) sign: Sign,
}

impl Member {
    /// Joins the processes of the job, and writes the first heartbeat. Fails if processes of
    /// another job are running there, or with an error of the medium.
    pub(super) fn join(medium: &Arc<dyn Medium>, lives: &Lives, job: &Manifest) -> Result<Self> {
        let mark = job.mark();
        let name = format!("{mark}{JOB}");
        if !medium.has(&name)? {
            refuse_others(&**medium, lives, job)?;
            medium.create(&name, &serde_json::to_vec(job).unwrap_or_default())?;
        }
        let sign = Sign::new(Arc::clone(medium), &mark);
        sign.begin()?;
        Ok(Self { mark, sign })
    }

    pub(super) fn owns(&self, name: &str) -> bool {
        name.strip_prefix(&self.mark).is_some_and(|rest| rest.starts_with('-'))
    }

    pub(super) fn total(&self, pass: &PassKey) -> String {
        format!("{}-{:06}.total", self.mark, pass.number)
    }

    pub(super) fn state(&self, pass: &PassKey, segment: u64) -> String {
        format!("{}-{:06}-{}", self.mark, pass.number, at(segment))
    }

    pub(super) fn claim(&self, pass: &PassKey, what: &str, generation: u64) -> String {
        format!("{}-{:06}-{what}.{generation}", self.mark, pass.number)
    }
}

/// Returns the name of the node, or of the lot, that begins at a segment.
pub(super) fn at(segment: u64) -> String {
    format!("{segment:09}")
}

/// Rejects a medium in which processes of another job are running: most likely one of the two jobs
/// was started with wrong options, and the processes would share no work.
fn refuse_others(medium: &dyn Medium, lives: &Lives, job: &Manifest) -> Result<()> {
    let names = medium.names()?;
    for name in names.iter().filter(|name| Digest::behind(name) == Some(JOB)) {
        let mark = name.trim_end_matches(JOB);
        let processes = names.iter().filter(|name| name.starts_with(mark)).filter_map(|name| Life::process(name));
        if let Ok(Some(text)) = medium.read(name)
            && let Ok(other) = serde_json::from_slice::<Manifest>(&text)
            && let Some(difference) = job.other_job(&other)
            && lives.is_any_seen(&processes.collect::<Vec<_>>())?
        {
            let why = format!(
                "another job is running here: {difference}; start every process with the same options and rows, or choose \
                 another folder"
            );
            return Err(Error::Engine { folder: medium.place(), why });
        }
    }
    Ok(())
}
