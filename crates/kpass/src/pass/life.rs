//! Signs of life of the processes that share a run.

use super::medium::Medium;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{collections::BTreeMap, thread::JoinHandle};

/// Time between two signs of life.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// Beats for which an unknown process is watched: one that is at work gives a sign meanwhile.
const WATCH: u32 = 3;

const SUFFIX: &str = ".alive";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    /// Grows by one with every sign.
    beat: u64,
    ended: bool,
}

impl Life {
    /// The process whose sign lies under a name.
    pub(super) fn process(name: &str) -> Option<String> {
        name.strip_suffix(SUFFIX).map(str::to_string)
    }
}

/// This process's sign of life, which a thread renews.
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
                // the next sign may find the place again; if none does, the other processes take this one for gone
                let _ = self.say(false);
            }
        }
    }
}

impl Sign {
    /// The sign of a process with a name of its own, which begins with the mark of its job.
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

    /// Gives the first sign, and renews it from now on.
    pub(super) fn begin(&self) -> Result<()> {
        self.inner.say(false)?;
        let inner = Arc::clone(&self.inner);
        let heart = std::thread::Builder::new().spawn(move || inner.beat());
        let heart = heart.map_err(Error::io("start", "a thread for the signs of life"))?;
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some(heart);
        Ok(())
    }

    /// Gives the last sign; false where none was given before, or the last one was.
    pub(super) fn end(&self) -> bool {
        self.inner.ended.store(true, Ordering::Relaxed);
        let heart = self.heart.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(heart) = heart else { return false };
        heart.thread().unpark();
        // a heart that panicked has nothing left to say, and without the place nobody hears it
        let _ = heart.join();
        let _ = self.inner.say(true);
        true
    }
}

/// What was seen of the other processes.
pub(super) struct Lives {
    medium: Arc<dyn Medium>,
    pub(super) patience: Duration,
    /// The last sign of each, and when it was new.
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

    /// True where a process does no work any more: it has ended, or has given no sign for the time of patience.
    pub(super) fn is_gone(&self, process: &str) -> Result<bool> {
        let (life, since) = self.look(process)?;
        let ended = life.is_some_and(|life| life.ended);
        Ok(ended || since.elapsed() > self.patience)
    }

    /// True where one of the processes is at work: it is watched for a few beats, and its sign changes.
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
