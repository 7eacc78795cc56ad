//! The replay engine of prepared jobs: it reads the results of passes from files.
//!
//! A prepared job stores the totals of all passes before the shared pass (the pass over the
//! features). A fit that starts from these totals reads no rows. It recomputes the steps between
//! the passes, with bit-identical results. It therefore reaches the shared pass with the same
//! scaler, kernel, landmarks and folds on every machine.

use super::extent::is_row_state;
use super::growth::RowResiduals;
use crate::linalg::strips::lock;
use kmodel::growth::ResidualSums;
use kstore::checkpoint::{Cut, Persist, RowsKey, StateFile, StateKey, StateWriter};
use kstore::pass::{Engine, LotRows, Node, NodeOutcome, Observer, PartialRows, PassKey, ReductionMode};
use kstore::{Error, Result, RowDigests};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The task of a fit at the shared pass.
pub(super) enum Role {
    /// Ends before the pass with this name, and writes the totals of the earlier passes. `digests`
    /// is closed when the first pass has read all rows.
    Prepare {
        shared_pass_name: &'static str,
        out: Mutex<Option<StateWriter>>,
        shared_pass: Mutex<Option<PassKey>>,
        digests: Arc<RowDigests>,
    },
    /// Computes the states of these work units (runs of segments), each claimed by one worker,
    /// writes the states, and ends. For segments that the shard covers only partly, listed in
    /// `partial_rows`, it writes the rows.
    /// Without `out` it only inspects the states.
    Reduce {
        work_units: Mutex<VecDeque<Range<u64>>>,
        partial_rows: Vec<Range<u64>>,
        out: Mutex<Option<StateWriter>>,
        residuals: Mutex<Vec<RowResiduals>>,
    },
    /// Reads the stored states, keyed by the first segment of each state. If a segment is stored as
    /// rows, computes its state from the rows.
    Solve { states: Mutex<StateFile>, state_indices: BTreeMap<u64, usize>, row_tiles: BTreeMap<u64, RowTiles> },
}

/// Tiles of the rows of a segment. Each tile has its index in [`StateFile::row_keys`].
type RowTiles = Vec<(usize, RowsKey)>;

impl Role {
    /// Returns the role that reduces a shard with segments of `segment_rows` rows.
    pub(super) fn reduce(
        complete_segments: Range<u64>,
        partial_rows: Vec<Range<u64>>,
        segment_rows: u64,
        out: Option<StateWriter>,
    ) -> Self {
        let segment_range = |rows: &Range<u64>| segment_of(rows, segment_rows)..segment_of(rows, segment_rows) + 1;
        let work_units = std::iter::once(complete_segments)
            .filter(|range| !range.is_empty())
            .chain(partial_rows.iter().map(segment_range))
            .collect();
        Self::Reduce {
            work_units: Mutex::new(work_units),
            partial_rows,
            out: Mutex::new(out),
            residuals: Mutex::default(),
        }
    }

    /// Returns the role that combines the contents of a file with segments of `segment_rows` rows.
    pub(super) fn solve(states: StateFile, segment_rows: u64) -> Self {
        let row_states = states.state_keys().iter().enumerate().filter(|(_, state)| is_row_state(state));
        let state_indices = row_states.map(|(i, state)| (state.node.segments.start, i)).collect();
        let mut row_tiles: BTreeMap<u64, RowTiles> = BTreeMap::new();
        for (i, key) in states.row_keys().iter().enumerate() {
            row_tiles.entry(segment_of(&key.stored_range, segment_rows)).or_default().push((i, key.clone()));
        }
        row_tiles.values_mut().for_each(|tiles| tiles.sort_by_key(|(_, key)| key.stored_range.start));
        Self::Solve { states: Mutex::new(states), state_indices, row_tiles }
    }
}

fn segment_of(rows: &Range<u64>, segment_rows: u64) -> u64 {
    rows.start / segment_rows.max(1)
}

/// The passes of a prepared job.
struct PreparedPasses {
    /// Totals of the passes before the shared pass.
    totals: Mutex<StateFile>,
    shared_pass: PassKey,
}

/// The engine of a fit that prepares, reduces or solves a job.
pub(super) struct Replay {
    /// `None` if the fit prepares a job.
    prepared: Option<PreparedPasses>,
    role: Role,
    next_pass_number: AtomicU64,
    is_done: AtomicBool,
}

impl Replay {
    pub(super) fn for_preparation(name: &'static str, out: StateWriter, digests: &Arc<RowDigests>) -> Self {
        let digests = Arc::clone(digests);
        let role = Role::Prepare {
            shared_pass_name: name,
            out: Mutex::new(Some(out)),
            shared_pass: Mutex::new(None),
            digests,
        };
        Self { prepared: None, role, next_pass_number: AtomicU64::new(1), is_done: AtomicBool::new(false) }
    }

    pub(super) fn open(job: &Path, shared_pass: PassKey, role: Role) -> Result<Self> {
        let totals = Mutex::new(StateFile::open(job)?);
        let prepared = Some(PreparedPasses { totals, shared_pass });
        Ok(Self { prepared, role, next_pass_number: AtomicU64::new(1), is_done: AtomicBool::new(false) })
    }

    /// Returns true if the fit was ended because its role is complete.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Returns the pass before which a preparing fit ended.
    pub(super) fn shared_pass(&self) -> Option<PassKey> {
        match &self.role {
            Role::Prepare { shared_pass, .. } => lock(shared_pass).clone(),
            Role::Reduce { .. } | Role::Solve { .. } => None,
        }
    }

    pub(super) fn into_writer(self) -> Option<StateWriter> {
        match self.role {
            Role::Prepare { out, .. } | Role::Reduce { out, .. } => lock(&out).take(),
            Role::Solve { .. } => None,
        }
    }

    /// Returns the residuals of the rows that the fit reduced, segment by segment.
    pub(super) fn residuals(&self) -> Vec<RowResiduals> {
        match &self.role {
            Role::Reduce { residuals, .. } => lock(residuals).clone(),
            Role::Prepare { .. } | Role::Solve { .. } => Vec::new(),
        }
    }

    fn record_residuals(&self, rows: Range<u64>, state: &dyn Persist) {
        if let Role::Reduce { residuals, .. } = &self.role {
            lock(residuals).extend(ResidualSums::of_state(state).map(|sums| (rows, sums)));
        }
    }

    /// Marks the role as complete and returns the error that ends the fit.
    fn complete(&self) -> Error {
        self.is_done.store(true, Ordering::Relaxed);
        Error::Interrupted
    }

    fn write(&self, pass: &PassKey, node: Node, state: Option<&dyn Persist>) -> Result<()> {
        match &self.role {
            Role::Prepare { out, .. } | Role::Reduce { out, .. } => match &mut *lock(out) {
                Some(out) => out.push(StateKey { pass: pass.clone(), node }, state),
                None => Ok(()),
            },
            Role::Solve { .. } => Ok(()),
        }
    }
}

fn load(states: &Mutex<StateFile>, index: usize, state: &mut dyn Persist) -> Result<NodeOutcome> {
    Ok(NodeOutcome::Received(lock(states).load(index, state)?))
}

impl Engine for Replay {
    fn begin_pass(&self, name: &str, cut: Cut) -> Result<(PassKey, ReductionMode)> {
        let pass_number = self.next_pass_number.fetch_add(1, Ordering::Relaxed);
        let key = PassKey { number: pass_number, name: name.to_string(), cut };
        let Some(PreparedPasses { totals, shared_pass }) = &self.prepared else {
            return match &self.role {
                Role::Prepare { shared_pass_name: shared_name, shared_pass, .. } if name == *shared_name => {
                    *lock(shared_pass) = Some(key);
                    Err(self.complete())
                }
                _ => Ok((key, ReductionMode::Whole)),
            };
        };
        let totals = lock(totals);
        let is_this_pass = |pass: &PassKey| pass.number == pass_number && pass.name == name;
        let has_same_shape =
            |pass: &PassKey| (pass.cut.tile_rows, pass.cut.segment_rows) == (cut.tile_rows, cut.segment_rows);
        // rows may have been appended after the preparation, so the end of the rows is not
        // compared; the totals remain the totals of the prepared rows
        let stored_pass = totals.state_keys().iter().map(|state| &state.pass).find(|pass| is_this_pass(pass));
        let detail = match stored_pass.or(Some(shared_pass).filter(|pass| is_this_pass(pass))) {
            Some(pass) if has_same_shape(pass) => {
                let key = if is_this_pass(shared_pass) { key } else { pass.clone() };
                return Ok((key, ReductionMode::Lots));
            }
            Some(_) => "it was prepared on fewer rows than its rank; prepare it again on more rows".to_string(),
            None => {
                format!("the fit makes a pass \"{name}\" that is not in the job; prepare it again with this version")
            }
        };
        Err(Error::Damaged { path: totals.path().to_path_buf(), detail })
    }

    fn partial_rows(&self) -> Option<&dyn PartialRows> {
        Some(self)
    }

    fn claim_lot(&self, pass: &PassKey, _: &dyn Observer) -> Result<Option<Range<u64>>> {
        Ok(match (&self.prepared, &self.role) {
            (Some(prepared), Role::Reduce { work_units, .. }) if pass.number == prepared.shared_pass.number => {
                lock(work_units).pop_front()
            }
            _ => None,
        })
    }

    fn inspect_segment(&self, segment: u64, state: &dyn Persist) {
        let Some(prepared) = &self.prepared else { return };
        let segment_rows = prepared.shared_pass.cut.segment_rows.max(1);
        self.record_residuals(segment * segment_rows..(segment + 1) * segment_rows, state);
    }

    fn store_node(&self, _: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()> {
        match (&self.prepared, PartialRows::lot_rows(self, &node.segments)) {
            // the state is written with the key of the prepared pass, so that statistics of one job
            // are interchangeable
            (Some(prepared), LotRows::Whole) => self.write(&prepared.shared_pass, node.clone(), state),
            _ => Ok(()),
        }
    }

    fn wait_for_node(
        &self,
        pass: &PassKey,
        segment: u64,
        state: &mut dyn Persist,
        observer: &dyn Observer,
    ) -> Result<NodeOutcome> {
        let Some(PreparedPasses { totals, shared_pass }) = &self.prepared else {
            unreachable!("a fit that prepares a job executes its passes completely")
        };
        if observer.should_stop() {
            return Err(Error::Interrupted);
        }
        if pass.number != shared_pass.number {
            let index = lock(totals).state_keys().iter().position(|state| state.pass == *pass);
            return load(totals, index.unwrap_or(usize::MAX), state);
        }
        match &self.role {
            Role::Solve { row_tiles, .. } if row_tiles.contains_key(&segment) => {
                Ok(NodeOutcome::Local(segment..segment + 1))
            }
            Role::Solve { states, state_indices, .. } => {
                load(states, state_indices.get(&segment).copied().unwrap_or(usize::MAX), state)
            }
            Role::Prepare { .. } | Role::Reduce { .. } => Err(self.complete()),
        }
    }

    fn store_total(&self, pass: &PassKey, rows: u64, state: &dyn Persist) -> Result<()> {
        let Role::Prepare { digests, .. } = &self.role else { return Ok(()) };
        // the first pass reads every row
        digests.close();
        self.write(pass, Node { segments: pass.cut.segments(), row_count: rows }, Some(state).filter(|_| rows > 0))
    }
}

impl PartialRows for Replay {
    fn lot_rows(&self, lot: &Range<u64>) -> LotRows {
        let Some(prepared) = &self.prepared else { return LotRows::Whole };
        let segment_rows = prepared.shared_pass.cut.segment_rows;
        match &self.role {
            Role::Prepare { .. } => LotRows::Whole,
            Role::Reduce { partial_rows, .. } => {
                let covered_rows = partial_rows
                    .iter()
                    .find(|rows| segment_of(rows, segment_rows) == lot.start && lot.end == lot.start + 1);
                covered_rows.map_or(LotRows::Whole, |rows| LotRows::Partial(rows.clone()))
            }
            Role::Solve { row_tiles, .. } => {
                row_tiles.get(&lot.start).map_or(LotRows::Whole, |tiles| LotRows::Stored(tiles.clone()))
            }
        }
    }

    fn store(&self, key: RowsKey, tile: &[u8]) -> Result<()> {
        let Role::Reduce { out, .. } = &self.role else { unreachable!("only a reduction stores rows") };
        lock(out).as_mut().map_or(Ok(()), |out| out.push_rows(key, tile))
    }

    fn load(&self, index: usize) -> Result<Vec<u8>> {
        let Role::Solve { states, .. } = &self.role else { unreachable!("only a solve loads rows") };
        lock(states).load_rows(index)
    }

    fn inspect(&self, stored_range: &Range<u64>, state: &dyn Persist) {
        self.record_residuals(stored_range.clone(), state);
    }
}
