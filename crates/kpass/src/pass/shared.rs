//! Processes that share the passes of a run through a medium, such as a folder.
//!
//! A pass is cut into lots, which depend only on its rows. A process claims a lot by creating a
//! text under the lot's name, which succeeds only once, and stores the states of the lot's nodes.
//! In the next pass over the same rows it starts with the lots that it folded before, because it
//! may have cached values of their rows. It leaves the lots of other processes to them as long as
//! those processes may just be slower. One process claims the merging, stores the total and removes
//! the other states and the claims; the other processes wait for the total, so that each state is
//! read once. The names do not depend on the processes. A process may therefore join late and read
//! the totals; after a process has left, only the lots that it had claimed are folded again; and an
//! interrupted run can continue.
//!
//! MARK is a digest of the job and its files. Every name begins with it and every state contains
//! it, so that several jobs can share one medium.
//!
//! ```text
//! MARK-job                 the manifest: what all processes compute
//! MARK-NAME.alive          the heartbeat of a process; NAME is unique
//! MARK-000007.total        the total of pass 7
//! MARK-000007-000000032.0  the process that folds the lot of pass 7 that begins at segment 32;
//!                          .1 is the claim of the process that took the lot over from a process
//!                          that had left
//! MARK-000007-000000032    the state of the node that begins there
//! MARK-000007-merge.0      the process that merges the states
//! ```

use super::engine::nodes;
use super::life::{BEAT, Life, Lives};
use super::medium::{Folder, Medium};
use super::member::{Member, at};
use super::{Observer, STRETCH};
use crate::checkpoint::{Cut, Engine, Manifest, Node, PassKey, Persist, Share, StateFile, StateKey, Taken, put_one};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum interval between two checks for a missing state; the first intervals are shorter.
const POLL: Duration = Duration::from_millis(20);

/// Time without a heartbeat after which a process counts as having left: network file systems may
/// show a replaced file up to a minute late.
const PATIENCE: Duration = Duration::from_secs(90);

/// Minimum number of lots of a pass that has at least this many segments. With small lots, no
/// process waits long for the slowest one.
const LOTS: u64 = 32;

/// An engine that shares the passes of a run through a [`Medium`].
///
/// Every process runs the same job on the same rows. Any number of processes may run at a time, and
/// each may start and end at any time.
pub struct SharedEngine {
    medium: Arc<dyn Medium>,
    lives: Lives,
    member: OnceLock<Member>,
    next: AtomicU64,
    lots: Mutex<Lots>,
}

impl std::fmt::Debug for SharedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedEngine({})", self.medium.place().display())
    }
}

/// The lots of the current pass, as this process sees them.
#[derive(Default)]
struct Lots {
    cut: Option<Cut>,
    /// First segments of the lots that this process folded in the previous pass, if that pass had
    /// the same cut: the process may have cached values of their rows.
    own: BTreeSet<u64>,
    /// First segments of the lots that it has claimed in this pass.
    folded: BTreeSet<u64>,
    /// First segments of the lots that it has not tried to claim yet, its own before the others.
    open: VecDeque<u64>,
    /// Start of the pass, the time that its own lots took, and the longest such time of the
    /// previous passes: an estimate of the cost of recomputing the values that another process has
    /// cached.
    began: Option<Instant>,
    busy: Option<Duration>,
    longest: Duration,
    /// Number of times that each claim was taken over from a process that had left.
    generations: BTreeMap<String, u64>,
    /// True if this process merges the states.
    merges: bool,
}

/// Returns the number of segments of a lot: a power of two, at most a stretch.
fn length(cut: Cut) -> u64 {
    let all = cut.segments();
    let length = ((all.end - all.start) / LOTS).clamp(1, STRETCH);
    1 << length.ilog2()
}

/// Returns the lot of a segment; lots are cut at multiples of their length, as stretches are.
fn lot(cut: Cut, segment: u64) -> Range<u64> {
    let (all, length) = (cut.segments(), length(cut));
    let start = segment / length * length;
    start.max(all.start)..(start + length).min(all.end)
}

fn starts(cut: Cut) -> impl Iterator<Item = u64> {
    let all = cut.segments();
    std::iter::successors(Some(all.start), move |start| Some(lot(cut, *start).end))
        .take_while(move |start| *start < all.end)
}

impl Lots {
    /// Returns true if a lot is still left to the process that folded it before. After its own
    /// lots, this process waits as long again as they took, or took in a previous pass if that was
    /// longer, but at most `patience`.
    fn is_left_to_others(&mut self, start: u64, patience: Duration) -> bool {
        if self.own.is_empty() || self.own.contains(&start) {
            return false;
        }
        let time = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        let busy = *self.busy.get_or_insert(time);
        time < busy + busy.max(self.longest).min(patience)
    }
}

/// Name of the claim to merge the states.
const MERGE: &str = "merge";

impl SharedEngine {
    /// Returns the engine of a process that shares the passes of a run through a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self {
            lives: Lives::new(Arc::clone(&medium), PATIENCE),
            member: OnceLock::new(),
            next: AtomicU64::new(1),
            lots: Mutex::default(),
            medium,
        }
    }

    /// Returns an engine that uses a folder, on this machine or a network file system; creates it
    /// if it does not exist.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn folder(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self::new(Arc::new(Folder::open(path)?)))
    }

    /// Sets the time after which a process without a heartbeat counts as having left.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.lives = Lives::new(Arc::clone(&self.medium), patience);
        self
    }

    fn lots(&self) -> MutexGuard<'_, Lots> {
        self.lots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, why: impl Into<String>) -> Error {
        Error::Engine { folder: self.medium.place(), why: why.into() }
    }

    fn member(&self) -> Result<&Member> {
        self.member.get().ok_or_else(|| self.refused("no job has been joined; join one before the first pass"))
    }

    /// Reads the state under a name; `None` if there is none, or if it was just removed.
    fn load(&self, pass: &PassKey, name: &str, state: &mut dyn Persist) -> Result<Option<Node>> {
        let Some(file) = self.medium.get(name)? else { return Ok(None) };
        let mut file = match StateFile::open(file.path()) {
            Err(_) if !file.path().exists() => return Ok(None),
            file => file?,
        };
        let other = |there: &str, wanted: &str| {
            Err(self
                .refused(format!("{name} belongs to the {there} instead of the {wanted}; remove it and start again")))
        };
        let (there, mark) = (file.about().as_str().unwrap_or("unknown"), &self.member()?.mark);
        if there != mark {
            return other(&format!("job {there}"), &format!("job {mark}"));
        }
        let [StateKey { pass: there, node }] = file.states() else {
            return Err(self.refused(format!("{name} does not contain exactly one state; remove it and start again")));
        };
        if there != pass {
            return other(&format!("pass \"{}\"", there.name), &format!("pass \"{}\"", pass.name));
        }
        let node = node.clone();
        file.load(0, state)?;
        Ok(Some(node))
    }

    /// Claims an item that is unclaimed or whose owner has left; returns false if another process
    /// has it.
    fn take_over(&self, pass: &PassKey, what: &str) -> Result<bool> {
        let member = self.member()?;
        let mut generation = self.lots().generations.get(what).copied().unwrap_or(0);
        if let Some(owner) = self.medium.read(&member.claim(pass, what, generation))? {
            if !self.lives.is_gone(&String::from_utf8_lossy(&owner))? {
                return Ok(false);
            }
            generation += 1;
        } else if self.medium.has(&member.total(pass))? {
            // the claims were removed after the total was stored
            return Ok(false);
        }
        self.lots().generations.insert(what.to_string(), generation);
        self.medium.create(&member.claim(pass, what, generation), member.sign.name().as_bytes())
    }

    /// Returns the state of the node that begins at `segment`, or the total, if one of them is
    /// stored. With the flag, also checks whether other processes have left, and may return a lot
    /// that this process must fold.
    fn look(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, time: bool) -> Result<Option<Taken>> {
        let member = self.member()?;
        if let Some(node) = self.load(pass, &member.total(pass), state)? {
            return Ok(Some(Taken::State(node)));
        }
        if time && !self.lots().merges {
            let merges = self.take_over(pass, MERGE)?;
            self.lots().merges = merges;
        }
        if !self.lots().merges {
            return Ok(None);
        }
        if let Some(node) = self.load(pass, &member.state(pass, segment), state)? {
            return Ok(Some(Taken::State(node)));
        }
        let lot = lot(pass.cut, segment);
        if !time || !self.take_over(pass, &at(lot.start))? {
            return Ok(None);
        }
        self.lots().folded.insert(lot.start);
        Ok(Some(Taken::Lost(lot)))
    }

    /// Returns a lot that this process has folded, if one of its states is missing although there
    /// is no total: another program has removed the state.
    fn vanished(&self, pass: &PassKey) -> Result<Option<Range<u64>>> {
        let (member, all) = (self.member()?, pass.cut.segments());
        let there: BTreeSet<String> = self.medium.names()?.into_iter().collect();
        let given = self.lots().folded.clone();
        for lot in given.into_iter().map(|start| lot(pass.cut, start)) {
            for name in nodes(&lot, &all).iter().map(|node| member.state(pass, node.start)) {
                // the listing may be outdated, and states are removed once the total is stored
                if !there.contains(&name) && !self.medium.has(&name)? && !self.medium.has(&member.total(pass))? {
                    return Ok(Some(lot));
                }
            }
        }
        Ok(None)
    }
}

impl Engine for SharedEngine {
    fn join(&self, job: &Manifest) -> Result<()> {
        let member = Member::join(&self.medium, &self.lives, job)?;
        self.member.set(member).map_err(|_| self.refused("this engine has joined a job already; create another engine"))
    }

    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut lots = self.lots();
        let last = std::mem::take(&mut *lots);
        let again = last.cut == Some(cut);
        let longest = last.longest.max(last.busy.unwrap_or_default());
        let (own, longest) = if again { (last.folded, longest) } else { (BTreeSet::new(), Duration::ZERO) };
        let (mine, others): (Vec<u64>, Vec<u64>) = starts(cut).partition(|start| own.contains(start));
        let open = mine.into_iter().chain(others).collect();
        *lots = Lots { cut: Some(cut), own, open, began: Some(Instant::now()), longest, ..Lots::default() };
        drop(lots);
        Ok((PassKey { number, name: name.to_string(), cut }, Share::Lots))
    }

    fn claim(&self, pass: &PassKey, observer: &dyn Observer) -> Result<Option<Range<u64>>> {
        let (member, mut wait) = (self.member()?, Duration::from_millis(1));
        while !self.medium.has(&member.total(pass))? {
            let Some(start) = self.lots().open.front().copied() else { break };
            let name = member.claim(pass, &at(start), 0);
            if self.lots().is_left_to_others(start, self.lives.patience) && !self.medium.has(&name)? {
                if observer.stop() {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(wait);
                wait = (2 * wait).min(POLL);
                continue;
            }
            self.lots().open.pop_front();
            if self.medium.create(&name, member.sign.name().as_bytes())? {
                self.lots().folded.insert(start);
                return Ok(Some(lot(pass.cut, start)));
            }
        }
        let mut lots = self.lots();
        lots.open.clear();
        let time = lots.began.map_or(Duration::ZERO, |began| began.elapsed());
        lots.busy.get_or_insert(time);
        Ok(None)
    }

    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()> {
        let (member, key) = (self.member()?, StateKey { pass: pass.clone(), node: node.clone() });
        put_one(&*self.medium, &member.state(pass, node.segments.start), &member.mark, key, state)
    }

    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Taken> {
        let (mut wait, mut looked) = (Duration::from_millis(1), None::<Instant>);
        loop {
            let (first, late) = (looked.is_none(), looked.is_some_and(|looked| looked.elapsed() > BEAT));
            if first || late {
                looked = Some(Instant::now());
            }
            if let Some(taken) = self.look(pass, segment, state, first || late)? {
                return Ok(taken);
            }
            if late && let Some(lot) = self.vanished(pass)? {
                return Ok(Taken::Lost(lot));
            }
            if observer.stop() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(wait);
            wait = (2 * wait).min(POLL);
        }
    }

    fn total(&self, pass: &PassKey, rows: u64, state: &dyn Persist) -> Result<()> {
        let (member, all) = (self.member()?, pass.cut.segments());
        let name = member.total(pass);
        if self.medium.has(&name)? {
            return Ok(());
        }
        let key = StateKey { pass: pass.clone(), node: Node { segments: all.clone(), rows } };
        put_one(&*self.medium, &name, &member.mark, key, Some(state).filter(|_| rows > 0))?;
        let generations = std::mem::take(&mut self.lots().generations);
        let remove = |what: &str| {
            let last = generations.get(what).copied().unwrap_or(0);
            (0..=last).try_for_each(|generation| self.medium.remove(&member.claim(pass, what, generation)))
        };
        remove(MERGE)?;
        starts(pass.cut).try_for_each(|start| {
            remove(&at(start))?;
            let nodes = nodes(&lot(pass.cut, start), &all);
            nodes.iter().try_for_each(|node| self.medium.remove(&member.state(pass, node.start)))
        })
    }

    fn leave(&self, over: bool) {
        let Some(member) = self.member.get() else { return };
        if !member.sign.end() || !over {
            return;
        }
        let Ok(mut names) = self.medium.names() else { return };
        names.retain(|name| member.owns(name));
        // a process that cannot be checked may be running
        let gone = |name: String| self.lives.is_gone(&name).unwrap_or(false);
        if names.iter().filter_map(|name| Life::process(name)).all(gone) {
            // another process that ends at the same time removes them too
            names.iter().for_each(|name| drop(self.medium.remove(name)));
        }
    }
}

impl Drop for SharedEngine {
    fn drop(&mut self) {
        self.leave(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_cover_the_segments_once_and_are_whole_stretches_of_long_passes() {
        for (start, end) in [(0, 3), (0, 35), (5, 70), (7, 700), (100, 5000)] {
            let cut = Cut { tile: 1, segment: 1, start, end };
            let (all, mut at, mut count) = (cut.segments(), start, 0);
            while at < all.end {
                let lot = lot(cut, at);
                assert!(lot.start == at && lot.end > at, "{lot:?} at {at}");
                (at, count) = (lot.end, count + 1);
            }
            assert!(count >= LOTS.min(end - start), "{count} lots of {all:?}");
        }
        assert_eq!(lot(Cut { tile: 1, segment: 1, start: 100, end: 5000 }, 100), 100..128);
    }
}
