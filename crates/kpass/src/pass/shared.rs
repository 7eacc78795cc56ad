//! Processes that share the passes of a run through a medium, such as a folder.
//!
//! A pass is cut into lots, which are functions of its rows. A process claims a lot by a text under the lot's name, which
//! is put there once, and gives the states of its nodes. In the next pass over the same rows it begins with the lots that it folded before, of which
//! it may have kept what it made, and leaves those of the others to them as long as they may just be slower. One process claims the merging, puts the total there and removes
//! the rest; the others wait for the total, so that each state is read once. So names tell what a thing is, whatever the
//! processes: a process may come late, and finds totals; a process that has gone costs what it had claimed; and a run that
//! was broken off goes on.
//!
//! MARK is a digest of the job and its files. It begins every name and stands in every state, so that jobs in one place have nothing in common.
//!
//! ```text
//! MARK-job                 the manifest: what all processes compute
//! MARK-NAME.alive          a process, and that it is at work; NAME is made up
//! MARK-000007.total        the total of pass 7
//! MARK-000007-000000032.0  who folds the lot of pass 7 that begins at segment 32; .1 whoever took it over from a process that had gone
//! MARK-000007-000000032    the state of the node that begins there
//! MARK-000007-merge.0      who merges the states
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

/// Time between two looks for a state that is not there yet; the first look comes sooner.
const POLL: Duration = Duration::from_millis(20);

/// Without a sign of life for so long a process counts as gone: network file systems may show a file that was replaced
/// up to a minute late.
const PATIENCE: Duration = Duration::from_secs(90);

/// Lots of a pass, at least, where it has as many segments: so the last of many processes to end waits little for another.
const LOTS: u64 = 32;

/// The passes of a run, shared through a [`Medium`].
///
/// Every process has the same job on the same rows. Any number of them may work at a time, and each may start and end when
/// it likes.
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

/// What this process knows of the lots of the pass.
#[derive(Default)]
struct Lots {
    cut: Option<Cut>,
    /// The first segments of the lots that this process folded when rows were last cut like this: it may have kept what it made of them.
    own: BTreeSet<u64>,
    /// Those of the lots that it folds now.
    folded: BTreeSet<u64>,
    /// First segments of the lots that it has not tried to claim, its own before the others.
    open: VecDeque<u64>,
    /// When it began, how long its own lots took, and the longest time that they took in a pass so far: what it would cost to make anew
    /// what another process has kept.
    began: Option<Instant>,
    busy: Option<Duration>,
    longest: Duration,
    /// How often a claim was taken over from a process that had gone, by what was claimed.
    generations: BTreeMap<String, u64>,
    /// True where this process merges the states.
    merges: bool,
}

/// Segments of a lot: a power of two up to a stretch.
fn length(cut: Cut) -> u64 {
    let all = cut.segments();
    let length = ((all.end - all.start) / LOTS).clamp(1, STRETCH);
    1 << length.ilog2()
}

/// The lot of a segment: cut at multiples of its length, as stretches are.
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
    /// Hears that a lot is to be claimed: true for that of another process, which is left to it for as long as this process's own lots took, now
    /// or at the most, but not beyond the patience.
    fn is_left_to_others(&mut self, start: u64, patience: Duration) -> bool {
        if self.own.is_empty() || self.own.contains(&start) {
            return false;
        }
        let time = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        let busy = *self.busy.get_or_insert(time);
        time < busy + busy.max(self.longest).min(patience)
    }
}

/// The merging of the states, among the things that are claimed.
const MERGE: &str = "merge";

impl SharedEngine {
    /// A process that shares the passes of a run through a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self {
            lives: Lives::new(Arc::clone(&medium), PATIENCE),
            member: OnceLock::new(),
            next: AtomicU64::new(1),
            lots: Mutex::default(),
            medium,
        }
    }

    /// [`SharedEngine::new`] through a folder, on this machine or a network file system, which is made where it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn folder(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self::new(Arc::new(Folder::open(path)?)))
    }

    /// Another time after which a process without a sign of life counts as gone.
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
        self.member.get().ok_or_else(|| self.refused("no job was joined; join one before the first pass"))
    }

    /// Reads the state under a name; `None` where there is none, or it has been removed this moment.
    fn load(&self, pass: &PassKey, name: &str, state: &mut dyn Persist) -> Result<Option<Node>> {
        let Some(file) = self.medium.get(name)? else { return Ok(None) };
        let mut file = match StateFile::open(file.path()) {
            Err(_) if !file.path().exists() => return Ok(None),
            file => file?,
        };
        let other = |there: &str, wanted: &str| {
            Err(self
                .refused(format!("{name} is of the {there} where the {wanted} is wanted; remove it and start again")))
        };
        let (there, mark) = (file.about().as_str().unwrap_or("unknown"), &self.member()?.mark);
        if there != mark {
            return other(&format!("job {there}"), &format!("job {mark}"));
        }
        let [StateKey { pass: there, node }] = file.states() else {
            return Err(self.refused(format!("{name} does not hold one state; remove it and start again")));
        };
        if there != pass {
            return other(&format!("pass \"{}\"", there.name), &format!("pass \"{}\"", pass.name));
        }
        let node = node.clone();
        file.load(0, state)?;
        Ok(Some(node))
    }

    /// Claims what nobody has claimed, or whoever claimed it has gone; false where another process has it.
    fn take_over(&self, pass: &PassKey, what: &str) -> Result<bool> {
        let member = self.member()?;
        let mut generation = self.lots().generations.get(what).copied().unwrap_or(0);
        if let Some(owner) = self.medium.read(&member.claim(pass, what, generation))? {
            if !self.lives.is_gone(&String::from_utf8_lossy(&owner))? {
                return Ok(false);
            }
            generation += 1;
        } else if self.medium.has(&member.total(pass))? {
            // the claims went when the total came
            return Ok(false);
        }
        self.lots().generations.insert(what.to_string(), generation);
        self.medium.create(&member.claim(pass, what, generation), member.sign.name().as_bytes())
    }

    /// The state of the node that begins at `segment`, or the total, if they are there; this process's node to fold, if it is
    /// `time` to look after the others.
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

    /// A lot that this process has given, of which a state is gone though there is no total: somebody has removed it.
    fn vanished(&self, pass: &PassKey) -> Result<Option<Range<u64>>> {
        let (member, all) = (self.member()?, pass.cut.segments());
        let there: BTreeSet<String> = self.medium.names()?.into_iter().collect();
        let given = self.lots().folded.clone();
        for lot in given.into_iter().map(|start| lot(pass.cut, start)) {
            for name in nodes(&lot, &all).iter().map(|node| member.state(pass, node.start)) {
                // a listing may be older than the states, which go when the total has come
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
        self.member.set(member).map_err(|_| self.refused("a job was joined already; take another engine"))
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
        // a process that cannot be asked may be at work
        let gone = |name: String| self.lives.is_gone(&name).unwrap_or(false);
        if names.iter().filter_map(|name| Life::process(name)).all(gone) {
            // another process that ends this moment removes them too
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
