//! Processes that share the passes of a run through a medium, such as a folder.
//!
//! A pass is cut into lots (work units of segments, see [`pass`](crate::pass)), which depend only
//! on its rows. A process claims a lot by creating a text under the lot's name, which succeeds only
//! once, and stores the states of the lot's [nodes](crate::checkpoint::Node). In the next pass over
//! the same rows, a process starts with the lots that it reduced before, because it may have cached
//! values of these rows. For some time, it does not claim a lot that another process reduced
//! before, because that process may only be slower. One process claims the merging, stores the
//! total and removes the other states and the claims. The other processes wait for the total, so
//! that each state is read only once. The names of lots, states and totals do not depend on the
//! processes. Therefore a process may join late and read the totals, and an interrupted run can
//! continue. After a process has left, only the lots that it had claimed are reduced again.
//!
//! MARK is a digest of the job and its files. Every name begins with MARK and every state contains
//! MARK, so that several jobs can share one medium.
//!
//! ```text
//! MARK-job                 the manifest: what all processes compute
//! MARK-NAME.alive          the heartbeat of a process; NAME is unique
//! MARK-000007.total        the total of pass 7
//! MARK-000007-000000032.0  the process that reduces the lot of pass 7 that begins at segment 32;
//!                          .1 is the claim of the process that took the lot over from a process
//!                          that had left
//! MARK-000007-000000032    the state of the node that begins there
//! MARK-000007-merge.0      the process that merges the states
//! ```

use super::heartbeat::{HEARTBEAT_INTERVAL, Heartbeat, HeartbeatMonitor};
use super::member::{Member, segment_name};
use super::shared_pass::nodes;
use super::{Observer, STRETCH_SEGMENTS};
use crate::checkpoint::{
    Cut, Engine, Manifest, Node, NodeOutcome, PassKey, Persist, ReductionMode, StateFile, StateKey, put_state,
};
use crate::checkpoint::{Folder, Medium};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum interval between two checks for a missing state; the first intervals are shorter.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time without a heartbeat after which a process counts as having left: network file systems may
/// show a replaced file up to a minute late.
const DEFAULT_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(90);

/// Minimum number of lots of a pass that has at least this many segments. With small lots, no
/// process waits long for the slowest process.
const MIN_LOTS: u64 = 32;

/// An engine that shares the passes of a run through a [`Medium`].
///
/// Every process runs the same job on the same rows. Any number of processes may run at a time, and
/// each may start and end at any time.
pub struct SharedEngine {
    medium: Arc<dyn Medium>,
    heartbeats: HeartbeatMonitor,
    member: OnceLock<Member>,
    next_pass_number: AtomicU64,
    schedule: Mutex<LotSchedule>,
}

impl std::fmt::Debug for SharedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedEngine({})", self.medium.location().display())
    }
}

/// The lots of the current pass, as this process sees them.
#[derive(Default)]
struct LotSchedule {
    cut: Option<Cut>,
    /// First segments of the lots that this process reduced in the previous pass, if that pass had
    /// the same cut: the process may have cached values of their rows.
    reduced_before: BTreeSet<u64>,
    /// First segments of the lots that this process has claimed in this pass.
    claimed_lots: BTreeSet<u64>,
    /// First segments of the lots that this process has not tried to claim yet. The lots of
    /// `reduced_before` come first.
    unclaimed_lots: VecDeque<u64>,
    /// Start of the pass, the time that the lots of `reduced_before` took, and the longest such
    /// time of the previous passes: an estimate of the cost of recomputing the values that another
    /// process has cached.
    pass_start: Option<Instant>,
    own_lots_time: Option<Duration>,
    longest_own_lots_time: Duration,
    /// Number of times that each claim was taken over from a process that had left.
    generations: BTreeMap<String, u64>,
    /// True if this process merges the states.
    is_merger: bool,
}

/// Returns the number of segments of a lot: a power of two, at most a stretch.
fn segments_per_lot(cut: Cut) -> u64 {
    let all_segments = cut.segments();
    let lot_segments = ((all_segments.end - all_segments.start) / MIN_LOTS).clamp(1, STRETCH_SEGMENTS);
    1 << lot_segments.ilog2()
}

/// Returns the lot of a segment; lots are cut at multiples of their length, as stretches are.
fn lot_at(cut: Cut, segment: u64) -> Range<u64> {
    let (all_segments, lot_segments) = (cut.segments(), segments_per_lot(cut));
    let start = segment / lot_segments * lot_segments;
    start.max(all_segments.start)..(start + lot_segments).min(all_segments.end)
}

fn lot_starts(cut: Cut) -> impl Iterator<Item = u64> {
    let all_segments = cut.segments();
    std::iter::successors(Some(all_segments.start), move |start| Some(lot_at(cut, *start).end))
        .take_while(move |start| *start < all_segments.end)
}

impl LotSchedule {
    /// Returns true if a lot is still left to the process that reduced it before. After it has
    /// reduced its own lots, this process waits as long as these lots took in this pass or in a
    /// previous pass, whichever is longer, but at most `heartbeat_timeout`.
    fn is_left_to_others(&mut self, start: u64, heartbeat_timeout: Duration) -> bool {
        if self.reduced_before.is_empty() || self.reduced_before.contains(&start) {
            return false;
        }
        let elapsed = self.pass_start.map_or(Duration::ZERO, |began| began.elapsed());
        let own_time = *self.own_lots_time.get_or_insert(elapsed);
        elapsed < own_time + own_time.max(self.longest_own_lots_time).min(heartbeat_timeout)
    }
}

/// Name of the claim to merge the states.
const MERGE_CLAIM: &str = "merge";

impl SharedEngine {
    /// Returns the engine of a process that shares the passes of a run through a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self {
            heartbeats: HeartbeatMonitor::new(Arc::clone(&medium), DEFAULT_HEARTBEAT_TIMEOUT),
            member: OnceLock::new(),
            next_pass_number: AtomicU64::new(1),
            schedule: Mutex::default(),
            medium,
        }
    }

    /// Returns an engine that uses a folder, on this machine or a network file system; creates it
    /// if it does not exist.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn in_folder(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self::new(Arc::new(Folder::open(path)?)))
    }

    /// Sets the time after which a process without a heartbeat counts as having left.
    #[must_use]
    pub fn with_heartbeat_timeout(mut self, heartbeat_timeout: Duration) -> Self {
        self.heartbeats = HeartbeatMonitor::new(Arc::clone(&self.medium), heartbeat_timeout);
        self
    }

    fn lock_schedule(&self) -> MutexGuard<'_, LotSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine_error(&self, why: impl Into<String>) -> Error {
        Error::Engine { folder: self.medium.location(), why: why.into() }
    }

    fn member(&self) -> Result<&Member> {
        self.member.get().ok_or_else(|| self.engine_error("no job has been joined; join one before the first pass"))
    }

    /// Reads the state under a name; `None` if there is none, or if it was just removed.
    fn load_state(&self, pass: &PassKey, name: &str, state: &mut dyn Persist) -> Result<Option<Node>> {
        let Some(file) = self.medium.get(name)? else { return Ok(None) };
        let mut file = match StateFile::open(file.path()) {
            Err(_) if !file.path().exists() => return Ok(None),
            file => file?,
        };
        let mismatch = |stored: &str, expected: &str| {
            Err(self.engine_error(format!(
                "{name} belongs to the {stored} instead of the {expected}; remove it and start again"
            )))
        };
        let (stored_digest, job_digest) = (file.metadata().as_str().unwrap_or("unknown"), &self.member()?.job_digest);
        if stored_digest != job_digest {
            return mismatch(&format!("job {stored_digest}"), &format!("job {job_digest}"));
        }
        let [StateKey { pass: stored_pass, node }] = file.state_keys() else {
            return Err(
                self.engine_error(format!("{name} does not contain exactly one state; remove it and start again"))
            );
        };
        if stored_pass != pass {
            return mismatch(&format!("pass \"{}\"", stored_pass.name), &format!("pass \"{}\"", pass.name));
        }
        let node = node.clone();
        file.load(0, state)?;
        Ok(Some(node))
    }

    /// Claims an item that is unclaimed or whose owner has left; returns false if another process
    /// has it.
    fn take_over(&self, pass: &PassKey, item: &str) -> Result<bool> {
        let member = self.member()?;
        let mut generation = self.lock_schedule().generations.get(item).copied().unwrap_or(0);
        if let Some(owner) = self.medium.read(&member.claim_name(pass, item, generation))? {
            if !self.heartbeats.has_left(&String::from_utf8_lossy(&owner))? {
                return Ok(false);
            }
            generation += 1;
        } else if self.medium.contains(&member.total_name(pass))? {
            // the claims were removed after the total was stored
            return Ok(false);
        }
        self.lock_schedule().generations.insert(item.to_string(), generation);
        self.medium.create(&member.claim_name(pass, item, generation), member.heartbeat.name().as_bytes())
    }

    /// Returns the state of the node that begins at `segment`, or the total, if one of them is
    /// stored. If `checks_others` is true, also checks whether other processes have left, and may
    /// return a lot that this process must reduce.
    fn find_state(
        &self,
        pass: &PassKey,
        segment: u64,
        state: &mut dyn Persist,
        checks_others: bool,
    ) -> Result<Option<NodeOutcome>> {
        let member = self.member()?;
        if let Some(node) = self.load_state(pass, &member.total_name(pass), state)? {
            return Ok(Some(NodeOutcome::Received(node)));
        }
        if checks_others && !self.lock_schedule().is_merger {
            let is_merger = self.take_over(pass, MERGE_CLAIM)?;
            self.lock_schedule().is_merger = is_merger;
        }
        if !self.lock_schedule().is_merger {
            return Ok(None);
        }
        if let Some(node) = self.load_state(pass, &member.state_name(pass, segment), state)? {
            return Ok(Some(NodeOutcome::Received(node)));
        }
        let lot = lot_at(pass.cut, segment);
        if !checks_others || !self.take_over(pass, &segment_name(lot.start))? {
            return Ok(None);
        }
        self.lock_schedule().claimed_lots.insert(lot.start);
        Ok(Some(NodeOutcome::Lost(lot)))
    }

    /// Returns a lot that this process has reduced, if one of its states is missing although there
    /// is no total: another program has removed the state.
    fn find_removed_lot(&self, pass: &PassKey) -> Result<Option<Range<u64>>> {
        let (member, all_segments) = (self.member()?, pass.cut.segments());
        let names: BTreeSet<String> = self.medium.names()?.into_iter().collect();
        let claimed_lots = self.lock_schedule().claimed_lots.clone();
        for lot in claimed_lots.into_iter().map(|start| lot_at(pass.cut, start)) {
            for name in nodes(&lot, &all_segments).iter().map(|node| member.state_name(pass, node.start)) {
                // the listing may be outdated, and states are removed once the total is stored
                if !names.contains(&name)
                    && !self.medium.contains(&name)?
                    && !self.medium.contains(&member.total_name(pass))?
                {
                    return Ok(Some(lot));
                }
            }
        }
        Ok(None)
    }
}

impl Engine for SharedEngine {
    fn join(&self, job: &Manifest) -> Result<()> {
        let member = Member::join(&self.medium, &self.heartbeats, job)?;
        self.member
            .set(member)
            .map_err(|_| self.engine_error("this engine has joined a job already; create another engine"))
    }

    fn begin_pass(&self, name: &str, cut: Cut) -> Result<(PassKey, ReductionMode)> {
        let number = self.next_pass_number.fetch_add(1, Ordering::Relaxed);
        let mut schedule = self.lock_schedule();
        let previous = std::mem::take(&mut *schedule);
        let has_same_cut = previous.cut == Some(cut);
        let longest_own_time = previous.longest_own_lots_time.max(previous.own_lots_time.unwrap_or_default());
        let (reduced_before, longest_own_time) =
            if has_same_cut { (previous.claimed_lots, longest_own_time) } else { (BTreeSet::new(), Duration::ZERO) };
        let (own_lots, other_lots): (Vec<u64>, Vec<u64>) =
            lot_starts(cut).partition(|start| reduced_before.contains(start));
        let unclaimed_lots = own_lots.into_iter().chain(other_lots).collect();
        *schedule = LotSchedule {
            cut: Some(cut),
            reduced_before,
            unclaimed_lots,
            pass_start: Some(Instant::now()),
            longest_own_lots_time: longest_own_time,
            ..LotSchedule::default()
        };
        drop(schedule);
        Ok((PassKey { number, name: name.to_string(), cut }, ReductionMode::Lots))
    }

    fn claim_lot(&self, pass: &PassKey, observer: &dyn Observer) -> Result<Option<Range<u64>>> {
        let (member, mut poll_interval) = (self.member()?, Duration::from_millis(1));
        while !self.medium.contains(&member.total_name(pass))? {
            let Some(start) = self.lock_schedule().unclaimed_lots.front().copied() else { break };
            let name = member.claim_name(pass, &segment_name(start), 0);
            if self.lock_schedule().is_left_to_others(start, self.heartbeats.heartbeat_timeout)
                && !self.medium.contains(&name)?
            {
                if observer.should_stop() {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(poll_interval);
                poll_interval = (2 * poll_interval).min(POLL_INTERVAL);
                continue;
            }
            self.lock_schedule().unclaimed_lots.pop_front();
            if self.medium.create(&name, member.heartbeat.name().as_bytes())? {
                self.lock_schedule().claimed_lots.insert(start);
                return Ok(Some(lot_at(pass.cut, start)));
            }
        }
        let mut schedule = self.lock_schedule();
        schedule.unclaimed_lots.clear();
        let elapsed = schedule.pass_start.map_or(Duration::ZERO, |began| began.elapsed());
        schedule.own_lots_time.get_or_insert(elapsed);
        Ok(None)
    }

    fn store_node(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()> {
        let (member, key) = (self.member()?, StateKey { pass: pass.clone(), node: node.clone() });
        put_state(&*self.medium, &member.state_name(pass, node.segments.start), &member.job_digest, key, state)
    }

    fn wait_for_node(
        &self,
        pass: &PassKey,
        segment: u64,
        state: &mut dyn Persist,
        observer: &dyn Observer,
    ) -> Result<NodeOutcome> {
        let (mut poll_interval, mut last_check) = (Duration::from_millis(1), None::<Instant>);
        loop {
            let (is_first, is_late) =
                (last_check.is_none(), last_check.is_some_and(|checked_at| checked_at.elapsed() > HEARTBEAT_INTERVAL));
            if is_first || is_late {
                last_check = Some(Instant::now());
            }
            if let Some(outcome) = self.find_state(pass, segment, state, is_first || is_late)? {
                return Ok(outcome);
            }
            if is_late && let Some(lot) = self.find_removed_lot(pass)? {
                return Ok(NodeOutcome::Lost(lot));
            }
            if observer.should_stop() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(poll_interval);
            poll_interval = (2 * poll_interval).min(POLL_INTERVAL);
        }
    }

    fn store_total(&self, pass: &PassKey, rows: u64, state: &dyn Persist) -> Result<()> {
        let (member, all_segments) = (self.member()?, pass.cut.segments());
        let name = member.total_name(pass);
        if self.medium.contains(&name)? {
            return Ok(());
        }
        let key = StateKey { pass: pass.clone(), node: Node { segments: all_segments.clone(), row_count: rows } };
        put_state(&*self.medium, &name, &member.job_digest, key, Some(state).filter(|_| rows > 0))?;
        let generations = std::mem::take(&mut self.lock_schedule().generations);
        let remove_claims = |item: &str| {
            let last_generation = generations.get(item).copied().unwrap_or(0);
            (0..=last_generation)
                .try_for_each(|generation| self.medium.remove(&member.claim_name(pass, item, generation)))
        };
        remove_claims(MERGE_CLAIM)?;
        lot_starts(pass.cut).try_for_each(|start| {
            remove_claims(&segment_name(start))?;
            let nodes = nodes(&lot_at(pass.cut, start), &all_segments);
            nodes.iter().try_for_each(|node| self.medium.remove(&member.state_name(pass, node.start)))
        })
    }

    fn leave(&self, is_final: bool) {
        let Some(member) = self.member.get() else { return };
        if !member.heartbeat.end() || !is_final {
            return;
        }
        let Ok(mut names) = self.medium.names() else { return };
        names.retain(|name| member.owns_item(name));
        // a process that cannot be checked may be running
        let has_left = |name: String| self.heartbeats.has_left(&name).unwrap_or(false);
        if names.iter().filter_map(|name| Heartbeat::process_name(name)).all(has_left) {
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
            let cut = Cut { tile_rows: 1, segment_rows: 1, start_row: start, end_row: end };
            let (all_segments, mut segment, mut count) = (cut.segments(), start, 0);
            while segment < all_segments.end {
                let lot = lot_at(cut, segment);
                assert!(lot.start == segment && lot.end > segment, "{lot:?} at {segment}");
                (segment, count) = (lot.end, count + 1);
            }
            assert!(count >= MIN_LOTS.min(end - start), "{count} lots of {all_segments:?}");
        }
        assert_eq!(lot_at(Cut { tile_rows: 1, segment_rows: 1, start_row: 100, end_row: 5000 }, 100), 100..128);
    }
}
