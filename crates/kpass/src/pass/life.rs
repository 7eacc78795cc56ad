//! Heartbeats of the processes that share a run.

use super::medium::Medium;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{collections::BTreeMap, thread::JoinHandle};

/// Time between two heartbeats.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// Number of heartbeat intervals for which an unknown process is watched: a running process writes
/// a heartbeat in this time.
const WATCH: u32 = 3;

const SUFFIX: &str = ".alive";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    /// Counter of heartbeats.
    beat: u64,
    ended: bool,
}

impl Life {
    /// Returns the name of the process whose heartbeat is the item `name`.
    pub(super) fn process(name: &str) -> Option<String> {
        name.strip_suffix(SUFFIX).map(str::to_string)
    }
}

/// The heartbeat of this process, which a thread rewrites at regular intervals.
pub(super) struct Sign {
    inner: Arc<Inner>,
    heart: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    medium: Arc<dyn Medium>,
    name: String,
    beat: AtomicU64,
    ended: AtomicBool,
}

impl Inner {
    fn say(&self, ended: bool) -> Result<()> {
        let life = Life { beat: self.beat.fetch_add(1, Ordering::Relaxed), ended };
        let text = serde_json::to_vec(&life).unwrap_or_default();
        self.medium.replace(&format!("{}{SUFFIX}", self.name), &text)
    }

    fn beat(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(BEAT);
            if !self.ended.load(Ordering::Relaxed) {
                // ignored: the next heartbeat may succeed; if none does, the other processes regard
                // this process as gone
                let _ = self.say(false);
            }
        }
    }
}

impl Sign {
    /// Returns the heartbeat of this process, under a unique name that begins with the digest of
    /// its job.
    pub(super) fn new(medium: Arc<dyn Medium>, mark: &str) -> Self {
        static PROCESSES: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (process, number) = (std::process::id(), PROCESSES.fetch_add(1, Ordering::Relaxed));
        let name = format!("{mark}-{since:x}-{process:x}-{number}");
        let inner = Inner { medium, name, beat: AtomicU64::new(0), ended: AtomicBool::new(false) };
        Self { inner: Arc::new(inner), heart: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.inner.name
    }

    /// Writes the first heartbeat, and starts the thread that rewrites it.
    pub(super) fn begin(&self) -> Result<()> {
        self.inner.say(false)?;
        let inner = Arc::clone(&self.inner);
        let heart = std::thread::Builder::new().spawn(move || inner.beat());
        let heart = heart.map_err(Error::io("start", "a thread for the heartbeat"))?;
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some(heart);
        Ok(())
    }

    /// Writes the last heartbeat; returns false if there was no first one, or if the last was
    /// written already.
    pub(super) fn end(&self) -> bool {
        self.inner.ended.store(true, Ordering::Relaxed);
        let heart = self.heart.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(heart) = heart else { return false };
        heart.thread().unpark();
        // ignored: the thread may have panicked, and the medium may be unreachable
        let _ = heart.join();
        let _ = self.inner.say(true);
        true
    }
}

/// The heartbeats of the other processes, as this process last read them.
pub(super) struct Lives {
    medium: Arc<dyn Medium>,
    pub(super) patience: Duration,
    /// Last heartbeat of each process, and the time at which it was first read.
    seen: Mutex<BTreeMap<String, (Option<Life>, Instant)>>,
}

impl Lives {
    pub(super) fn new(medium: Arc<dyn Medium>, patience: Duration) -> Self {
        Self { medium, patience, seen: Mutex::default() }
    }

    fn look(&self, process: &str) -> Result<(Option<Life>, Instant)> {
        let text = self.medium.read(&format!("{process}{SUFFIX}"))?;
        let life = text.and_then(|text| serde_json::from_slice::<Life>(&text).ok());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.entry(process.to_string()).or_insert_with(|| (life.clone(), Instant::now()));
        if life.is_some() && life != last.0 {
            *last = (life, Instant::now());
        }
        Ok(last.clone())
    }

    /// Returns true if a process no longer runs: it has ended, or its heartbeat has not changed
    /// within `patience`.
    pub(super) fn is_gone(&self, process: &str) -> Result<bool> {
        let (life, since) = self.look(process)?;
        let ended = life.is_some_and(|life| life.ended);
        Ok(ended || since.elapsed() > self.patience)
    }

    /// Returns true if one of the processes is running: watches for a few intervals whether a
    /// heartbeat changes.
    pub(super) fn is_any_seen(&self, processes: &[String]) -> Result<bool> {
        let look = |process: &String| self.medium.read(&format!("{process}{SUFFIX}"));
        let first = processes.iter().map(look).collect::<Result<Vec<_>>>()?;
        let working = |text: &Option<Vec<u8>>| {
            let life = text.as_deref().and_then(|text| serde_json::from_slice::<Life>(text).ok());
            life.is_some_and(|life| !life.ended)
        };
        let watched: Vec<_> = processes.iter().zip(&first).filter(|(_, text)| working(text)).collect();
        let began = Instant::now();
        while !watched.is_empty() && began.elapsed() < WATCH * BEAT {
            for (process, text) in &watched {
                if look(process)? != **text {
                    return Ok(true);
                }
            }
            std::thread::sleep(BEAT / 20);
        }
        Ok(false)
    }
}
