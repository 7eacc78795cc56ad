//! A fit whose passes are found in files: the engine behind prepared jobs.
//!
//! A prepared job holds the totals of all passes before the one that is shared. A fit that finds them there reads no
//! row, computes what lies between them anew, with the same bits, and comes to the shared pass with the same scaler,
//! kernel, landmarks and folds on every machine.

use kstore::checkpoint::{Cut, Persist, StateFile, StateKey, StateWriter};
use kstore::pass::{Engine, Node, Observer, PassKey, Share, Taken};
use kstore::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a fit does when it comes to the shared pass.
pub(super) enum Role {
    /// Ends before the pass of this name; the totals of those before it are written.
    Prepare { name: &'static str, out: Mutex<Option<StateWriter>>, found: Mutex<Option<PassKey>> },
    /// Folds these segments, which are claimed once, writes their states, and ends.
    Fold { own: Mutex<Option<Range<u64>>>, out: Mutex<Option<StateWriter>> },
    /// Reads the states of all segments, by the first of each node, and goes on.
    Solve { states: Mutex<StateFile>, places: BTreeMap<u64, usize> },
}

/// The engine.
pub(super) struct Replay {
    /// The totals of the passes before, and the shared pass.
    job: Option<(Mutex<StateFile>, PassKey)>,
    role: Role,
    next: AtomicU64,
    done: AtomicBool,
}

impl Replay {
    pub(super) fn preparing(name: &'static str, out: StateWriter) -> Self {
        let role = Role::Prepare { name, out: Mutex::new(Some(out)), found: Mutex::new(None) };
        Self { job: None, role, next: AtomicU64::new(1), done: AtomicBool::new(false) }
    }

    pub(super) fn of(job: &Path, pass: PassKey, role: Role) -> Result<Self> {
        let job = Some((Mutex::new(StateFile::open(job)?), pass));
        Ok(Self { job, role, next: AtomicU64::new(1), done: AtomicBool::new(false) })
    }

    /// True once the fit has done its part and was ended.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// The pass that a preparing fit ended before.
    pub(super) fn found(&self) -> Option<PassKey> {
        match &self.role {
            Role::Prepare { found, .. } => lock(found).clone(),
            Role::Fold { .. } | Role::Solve { .. } => None,
        }
    }

    /// What was written.
    pub(super) fn written(self) -> Option<StateWriter> {
        match self.role {
            Role::Prepare { out, .. } | Role::Fold { out, .. } => lock(&out).take(),
            Role::Solve { .. } => None,
        }
    }

    /// Ends the fit: what it was for is done.
    fn end(&self) -> Error {
        self.done.store(true, Ordering::Relaxed);
        Error::Interrupted
    }

    fn write(&self, pass: &PassKey, node: Node, state: Option<&dyn Persist>) -> Result<()> {
        match &self.role {
            Role::Prepare { out, .. } | Role::Fold { out, .. } => match &mut *lock(out) {
                Some(out) => out.push(StateKey { pass: pass.clone(), node }, state),
                None => Ok(()),
            },
            Role::Solve { .. } => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the state at a place.
fn load(states: &Mutex<StateFile>, place: usize, state: &mut dyn Persist) -> Result<Taken> {
    let mut states = lock(states);
    let node = states.states().get(place).map(|key| key.node.clone());
    states.load(place, state)?;
    node.map(Taken::State).ok_or(Error::Worker)
}

impl Engine for Replay {
    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = PassKey { number, name: name.to_string(), cut };
        let Some((job, shared)) = &self.job else {
            return match &self.role {
                Role::Prepare { name: until, found, .. } if name == *until => {
                    *lock(found) = Some(key);
                    Err(self.end())
                }
                _ => Ok((key, Share::Whole)),
            };
        };
        let job = lock(job);
        if key == *shared || job.states().iter().any(|state| state.pass == key) {
            return Ok((key, Share::Lots));
        }
        let why =
            format!("the fit makes a pass \"{name}\" that the job does not hold: prepare it anew with this version");
        Err(Error::Damaged { path: job.path().to_path_buf(), detail: why })
    }

    fn claim(&self, pass: &PassKey, _: &dyn Observer) -> Result<Option<Range<u64>>> {
        Ok(match (&self.job, &self.role) {
            (Some((_, shared)), Role::Fold { own, .. }) if pass == shared => lock(own).take(),
            _ => None,
        })
    }

    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()> {
        self.write(pass, node.clone(), state)
    }

    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Taken> {
        let Some((job, shared)) = &self.job else { return Err(Error::Worker) };
        if observer.stop() {
            return Err(Error::Interrupted);
        }
        if pass != shared {
            let place = lock(job).states().iter().position(|state| state.pass == *pass);
            return load(job, place.unwrap_or(usize::MAX), state);
        }
        match &self.role {
            Role::Solve { states, places } => load(states, places.get(&segment).copied().unwrap_or(usize::MAX), state),
            Role::Prepare { .. } | Role::Fold { .. } => Err(self.end()),
        }
    }

    fn total(&self, pass: &PassKey, rows: u64, state: &dyn Persist) -> Result<()> {
        if self.job.is_some() {
            return Ok(());
        }
        self.write(pass, Node { segments: pass.cut.segments(), rows }, Some(state).filter(|_| rows > 0))
    }
}
