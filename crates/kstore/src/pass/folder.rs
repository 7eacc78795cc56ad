//! Processes that share the passes of a run through a folder.

use super::engine::{Engine, Node, PassKey, Share};
use super::{Observer, STRETCH};
use crate::atomic::is_temporary;
use crate::checkpoint::{Cut, Persist, StateFile, StateKey, write_one};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks for a state that is not there yet: nothing beside a pass over rows.
const POLL: Duration = Duration::from_millis(20);

/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);

/// Without a sign of life for so long a process counts as gone: network file systems may show a file that was replaced
/// up to a minute late.
const PATIENCE: Duration = Duration::from_secs(90);

/// Stretches for each process from which on whole stretches are shared out: below, the largest share could be twice the
/// smallest, and segments are divided.
const STRETCHES: u64 = 8;

/// The processes of one run, each with a folder in common: on one machine, or on a network file system.
///
/// Every process has the same job and the same rows, and a number of its own. Each folds a range of the segments of a
/// pass, writes their states to the folder, and reads those of all. Files of passes that all processes have behind them
/// are removed, and the last process to end leaves the folder empty.
///
/// The folder must be new or empty: what a broken run left there would be taken for this one's.
pub struct FolderEngine {
    folder: PathBuf,
    worker: u64,
    workers: u64,
    patience: Duration,
    next: AtomicU64,
    /// Names of the files this process wrote, with the number of their pass.
    written: Mutex<Vec<(u64, PathBuf)>>,
    others: Mutex<Vec<Seen>>,
    sign: Arc<Sign>,
    heart: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for FolderEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { folder, worker, workers, .. } = self;
        write!(f, "FolderEngine({}, {worker}/{workers})", folder.display())
    }
}

/// What a process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    /// Grows by one with every sign.
    beat: u64,
    /// The job.
    mark: String,
    workers: u64,
    /// The pass it has begun.
    pass: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    AtWork,
    Done,
    Failed,
}

/// This process's sign of life.
struct Sign {
    path: PathBuf,
    temporary: PathBuf,
    life: Mutex<Life>,
    ended: AtomicBool,
}

impl Sign {
    /// Changes what is said, and says it.
    fn say(&self, change: impl FnOnce(&mut Life)) -> Result<()> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut life);
        life.beat += 1;
        let text = serde_json::to_vec(&*life).unwrap_or_default();
        let written = std::fs::write(&self.temporary, text).and_then(|()| std::fs::rename(&self.temporary, &self.path));
        written.map_err(Error::io("write", &self.path))
    }

    fn beat(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(BEAT);
            if !self.ended.load(Ordering::Relaxed) {
                // the next sign may find the folder again; if none does, the other processes say so
                let _ = self.say(|_| ());
            }
        }
    }
}

/// The last sign of another process, and when it was new.
struct Seen {
    life: Option<Life>,
    since: Instant,
}

impl FolderEngine {
    /// Process `worker` of `workers`, counted from 0, in `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// [`Error::Syntax`] for a number beyond the processes; those of the file system.
    pub fn new(folder: impl Into<PathBuf>, worker: u64, workers: u64) -> Result<Self> {
        let folder = folder.into();
        if worker >= workers {
            let expected = format!("the number of a process, from 0, and how many there are: 0/{}", workers.max(1));
            return Err(Error::Syntax { what: "`worker`", text: format!("{worker}/{workers}"), expected });
        }
        std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let sign = Arc::new(Sign {
            path: life_path(&folder, worker),
            temporary: folder.join(format!(".kmill-{worker}.tmp")),
            life: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let seen = |_| Seen { life: None, since: Instant::now() };
        Ok(Self {
            worker,
            workers,
            patience: PATIENCE,
            next: AtomicU64::new(1),
            written: Mutex::default(),
            others: Mutex::new((0..workers).map(seen).collect()),
            sign,
            heart: Mutex::new(None),
            folder,
        })
    }

    /// Another time after which a process without a sign of life counts as gone.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The segments of a process: ranges of about equal length.
    fn share_of(&self, worker: u64, all: &Range<u64>) -> Range<u64> {
        let (first, end) = (all.start / STRETCH, all.end.div_ceil(STRETCH));
        let stretches = if all.is_empty() { 0 } else { end - first };
        let cut =
            |worker: u64, count: u64| u64::try_from(u128::from(worker) * u128::from(count) / u128::from(self.workers));
        let at = |worker: u64| match stretches >= STRETCHES * self.workers {
            true => (first + cut(worker, stretches).unwrap_or(stretches)) * STRETCH,
            false => all.start + cut(worker, all.end - all.start).unwrap_or(0),
        };
        at(worker).clamp(all.start, all.end)..at(worker + 1).clamp(all.start, all.end)
    }

    fn path(&self, pass: &PassKey, segment: u64) -> PathBuf {
        self.folder.join(format!("{:06}-{segment:09}.safetensors", pass.number))
    }

    fn refused(&self, text: impl Into<String>) -> Error {
        Error::Engine { folder: self.folder.clone(), why: text.into() }
    }

    /// Looks at another process.
    ///
    /// # Errors
    /// Where it has gone, or does another job.
    fn look(&self, worker: u64) -> Result<Option<Life>> {
        let text = std::fs::read(life_path(&self.folder, worker)).ok();
        let life = text.and_then(|text| serde_json::from_slice::<Life>(&text).ok());
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut others[worker as usize];
        if life.is_some() && life != seen.life {
            *seen = Seen { life: life.clone(), since: Instant::now() };
        }
        let Some(life) = &seen.life else { return Ok(None) };
        let mine = self.sign.life.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if (&life.mark, life.workers) != (&mine.mark, mine.workers) {
            let of = if life.workers == mine.workers {
                "runs another job".into()
            } else {
                format!("is one of {}", life.workers)
            };
            return Err(self.refused(format!(
                "process {worker} {of}; start every process with the same options, rows and number of processes"
            )));
        }
        let gone = match life.state {
            State::Done => None,
            State::Failed => Some("has failed; see what it says".to_string()),
            State::AtWork if seen.since.elapsed() > self.patience => {
                Some(format!("has given no sign of life for {} s", self.patience.as_secs()))
            }
            State::AtWork => None,
        };
        match gone {
            Some(how) => {
                let all = self.workers;
                Err(self.refused(format!("process {worker} of {all} {how}; empty the folder and start all again")))
            }
            None => Ok(Some(life.clone())),
        }
    }

    /// Removes this process's files of passes that every process has behind it.
    fn tidy(&self) -> Result<()> {
        let mut behind = u64::MAX;
        for worker in (0..self.workers).filter(|worker| *worker != self.worker) {
            behind = behind.min(self.look(worker)?.map_or(0, |life| life.pass));
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|(pass, path)| {
            // a process that has begun a pass has read all of those before
            let kept = *pass >= behind;
            kept || std::fs::remove_file(path).is_err()
        });
        Ok(())
    }

    /// True where every other process is done.
    fn is_last(&self) -> bool {
        let done = |worker| matches!(self.look(worker), Ok(Some(Life { state: State::Done, .. })));
        (0..self.workers).filter(|worker| *worker != self.worker).all(done)
    }

    fn clear(&self) {
        let ours = |name: &str| name.ends_with(".safetensors") || name.ends_with(".alive") || is_temporary(name);
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten().filter(|entry| ours(&entry.file_name().to_string_lossy())) {
            // another process that ends this moment removes them too
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn life_path(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("{worker}.alive"))
}

impl Engine for FolderEngine {
    fn join(&self, mark: &str) -> Result<()> {
        if self.sign.path.exists() {
            let worker = self.worker;
            return Err(self.refused(format!(
                "process {worker} is there already, or a broken run has left it; name an empty folder, and number the processes apart"
            )));
        }
        self.sign.say(|life| (life.mark, life.workers) = (mark.to_string(), self.workers))?;
        let sign = Arc::clone(&self.sign);
        let heart = std::thread::spawn(move || sign.beat());
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some(heart);
        Ok(())
    }

    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.sign.say(|life| life.pass = number)?;
        self.tidy()?;
        let own = self.share_of(self.worker, &cut.segments());
        Ok((PassKey { number, name: name.to_string(), cut }, Share::Segments(own)))
    }

    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()> {
        let path = self.path(pass, node.segments.start);
        write_one(&path, serde_json::Value::Null, StateKey { pass: pass.clone(), node: node.clone() }, state)?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push((pass.number, path));
        Ok(())
    }

    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Node> {
        let (path, all) = (self.path(pass, segment), pass.cut.segments());
        let owner = (0..self.workers).find(|worker| self.share_of(*worker, &all).contains(&segment)).unwrap_or(0);
        let mut looked = Instant::now();
        while !path.exists() {
            if observer.stop() {
                return Err(Error::Interrupted);
            }
            if owner != self.worker && looked.elapsed() > BEAT {
                looked = Instant::now();
                let done = self.look(owner)?.is_some_and(|life| life.state == State::Done);
                if done && !path.exists() {
                    let name = &pass.name;
                    return Err(
                        self.refused(format!("process {owner} has ended without \"{name}\"; it ran another job"))
                    );
                }
            }
            std::thread::sleep(POLL);
        }
        let mut file = StateFile::open(&path)?;
        match file.states() {
            [StateKey { pass: there, node }] if there == pass => {
                let node = node.clone();
                file.load(0, state)?;
                Ok(node)
            }
            _ => Err(self.refused(format!("{} is of another pass than \"{}\"", path.display(), pass.name))),
        }
    }

    fn leave(&self, done: bool) {
        self.sign.ended.store(true, Ordering::Relaxed);
        let heart = self.heart.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(heart) = heart else { return };
        heart.thread().unpark();
        // a heart that panicked has nothing left to say
        let _ = heart.join();
        // without the folder nobody hears it
        let _ = self.sign.say(|life| life.state = if done { State::Done } else { State::Failed });
        if done && self.is_last() {
            self.clear();
        }
    }
}

impl Drop for FolderEngine {
    fn drop(&mut self) {
        self.leave(false);
    }
}
