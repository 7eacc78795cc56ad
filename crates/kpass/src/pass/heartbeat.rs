//! Heartbeats of the processes that share a run.

use crate::checkpoint::Medium;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{collections::BTreeMap, thread::JoinHandle};

/// Time between two heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Number of heartbeat intervals for which an unknown process is watched: a running process writes
/// a heartbeat in this time.
const WATCH_INTERVALS: u32 = 3;

const HEARTBEAT_SUFFIX: &str = ".alive";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heartbeat {
    /// Counter of heartbeats.
    #[serde(rename = "beat")]
    counter: u64,
    #[serde(rename = "ended")]
    has_ended: bool,
}

impl Heartbeat {
    /// Returns the name of the process whose heartbeat is the item `name`; `None` for other items.
    pub(super) fn process_name(name: &str) -> Option<String> {
        name.strip_suffix(HEARTBEAT_SUFFIX).map(str::to_string)
    }
}

/// The heartbeat of this process, which a thread rewrites at regular intervals.
pub(super) struct HeartbeatWriter {
    writer_state: Arc<WriterState>,
    thread_handle: Mutex<Option<JoinHandle<()>>>,
}

struct WriterState {
    medium: Arc<dyn Medium>,
    name: String,
    beat_count: AtomicU64,
    has_ended: AtomicBool,
}

impl WriterState {
    fn write(&self, is_last: bool) -> Result<()> {
        let heartbeat = Heartbeat { counter: self.beat_count.fetch_add(1, Ordering::Relaxed), has_ended: is_last };
        let text = serde_json::to_vec(&heartbeat).unwrap_or_default();
        self.medium.replace(&format!("{}{HEARTBEAT_SUFFIX}", self.name), &text)
    }

    fn run(&self) {
        while !self.has_ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(HEARTBEAT_INTERVAL);
            if !self.has_ended.load(Ordering::Relaxed) {
                // ignored: the next heartbeat may succeed; if none does, the other processes regard
                // this process as gone
                let _ = self.write(false);
            }
        }
    }
}

impl HeartbeatWriter {
    /// Returns the heartbeat of this process, under a unique name that begins with the digest of
    /// its job.
    pub(super) fn new(medium: Arc<dyn Medium>, job_digest: &str) -> Self {
        static WRITER_COUNT: AtomicU64 = AtomicU64::new(0);
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (process_id, writer_index) = (std::process::id(), WRITER_COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("{job_digest}-{nanoseconds:x}-{process_id:x}-{writer_index}");
        let inner = WriterState { medium, name, beat_count: AtomicU64::new(0), has_ended: AtomicBool::new(false) };
        Self { writer_state: Arc::new(inner), thread_handle: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.writer_state.name
    }

    /// Writes the first heartbeat, and starts the thread that rewrites it.
    pub(super) fn start(&self) -> Result<()> {
        self.writer_state.write(false)?;
        let inner = Arc::clone(&self.writer_state);
        let handle = std::thread::Builder::new().spawn(move || inner.run());
        let handle = handle.map_err(Error::io("start", "a thread for the heartbeat"))?;
        *self.thread_handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }

    /// Writes the last heartbeat; returns false if there was no first heartbeat, or if the last
    /// heartbeat was written already.
    pub(super) fn end(&self) -> bool {
        self.writer_state.has_ended.store(true, Ordering::Relaxed);
        let handle = self.thread_handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(handle) = handle else { return false };
        handle.thread().unpark();
        // ignored: the thread may have panicked, and the medium may be unreachable
        let _ = handle.join();
        let _ = self.writer_state.write(true);
        true
    }
}

/// The heartbeats of the other processes, as this process last read them.
pub(super) struct HeartbeatMonitor {
    medium: Arc<dyn Medium>,
    pub(super) heartbeat_timeout: Duration,
    /// Last heartbeat of each process, and the time at which it was first read.
    last_heartbeats: Mutex<BTreeMap<String, (Option<Heartbeat>, Instant)>>,
}

impl HeartbeatMonitor {
    pub(super) fn new(medium: Arc<dyn Medium>, heartbeat_timeout: Duration) -> Self {
        Self { medium, heartbeat_timeout, last_heartbeats: Mutex::default() }
    }

    /// Reads the heartbeat of a process. Returns it with the time since which it has not changed.
    fn update_heartbeat(&self, process: &str) -> Result<(Option<Heartbeat>, Instant)> {
        let text = self.medium.read(&format!("{process}{HEARTBEAT_SUFFIX}"))?;
        let heartbeat = text.and_then(|text| serde_json::from_slice::<Heartbeat>(&text).ok());
        let mut last_heartbeats = self.last_heartbeats.lock().unwrap_or_else(PoisonError::into_inner);
        let last_heartbeat =
            last_heartbeats.entry(process.to_string()).or_insert_with(|| (heartbeat.clone(), Instant::now()));
        if heartbeat.is_some() && heartbeat != last_heartbeat.0 {
            *last_heartbeat = (heartbeat, Instant::now());
        }
        Ok(last_heartbeat.clone())
    }

    /// Returns true if a process no longer runs: it has ended, or its heartbeat has not changed
    /// within `heartbeat_timeout`.
    pub(super) fn has_left(&self, process: &str) -> Result<bool> {
        let (heartbeat, unchanged_since) = self.update_heartbeat(process)?;
        let has_ended = heartbeat.is_some_and(|heartbeat| heartbeat.has_ended);
        Ok(has_ended || unchanged_since.elapsed() > self.heartbeat_timeout)
    }

    /// Returns true if one of the processes is running: watches for a few intervals whether a
    /// heartbeat changes.
    pub(super) fn is_any_running(&self, processes: &[String]) -> Result<bool> {
        let read_text = |process: &String| self.medium.read(&format!("{process}{HEARTBEAT_SUFFIX}"));
        let first_texts = processes.iter().map(read_text).collect::<Result<Vec<_>>>()?;
        let is_running = |text: &Option<Vec<u8>>| {
            let heartbeat = text.as_deref().and_then(|text| serde_json::from_slice::<Heartbeat>(text).ok());
            heartbeat.is_some_and(|heartbeat| !heartbeat.has_ended)
        };
        let running_processes: Vec<_> =
            processes.iter().zip(&first_texts).filter(|(_, text)| is_running(text)).collect();
        let start = Instant::now();
        while !running_processes.is_empty() && start.elapsed() < WATCH_INTERVALS * HEARTBEAT_INTERVAL {
            for (process, text) in &running_processes {
                if read_text(process)? != **text {
                    return Ok(true);
                }
            }
            std::thread::sleep(HEARTBEAT_INTERVAL / 20);
        }
        Ok(false)
    }
}
