//! The seam between a pass and the processes that share its rows.
//!
//! Every process runs the same job, with the same options on the same rows, as in an allreduce. What lies between passes
//! is pure and is computed by each of them, with the same bits. In a pass that has a name
//! ([`Pass::resume`](super::Pass::resume)) a process claims lots of segments from the [`Engine`] for as long as there are
//! any, folds them, and gives their states. Then it takes the states of all segments in their order, and merges them along
//! the fixed [tree](super::STRETCH). So no fold is ever sent, only states are, and every process has the total that one
//! process would have, bit for bit. Processes may come and go: a lot of a process that has gone is claimed by another.
//!
//! A **node** of the tree is the part of a stretch from its beginning on that lies in a lot, or a single segment of a stretch that the
//! lot does not begin: [`nodes`] cuts a lot into them. Whoever takes a node need not know how others were cut.
//!
//! *Memory*: a process holds one state more than its sums while it merges, in the place of those of its lanes, which have
//! ended: the plan of a pass holds with an engine and without.

use super::begun::{self, BegunRows, Kept, LotRows};
use super::run::{Delivery, run};
use super::tree::{Tree, merge};
use super::{Fold, Merge, Observer, Pass, PassReport, STRETCH};
use crate::checkpoint::{Cut, Manifest, Persist};
use crate::{Error, Real, Result, RowSource};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// What tells a pass from every other of a run; equal in all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassKey {
    /// Number among the shared passes of the run, from 1.
    pub number: u64,
    /// What it finds.
    pub name: String,
    /// How it is cut.
    pub cut: Cut,
}

/// Segments whose states are one: a stretch, from its beginning on, or a segment of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Numbers of the segments among all of the stored rows.
    pub segments: Range<u64>,
    /// Rows that were folded; a node without rows has no state.
    pub rows: u64,
}

/// How a pass is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Everything by this process, without an exchange; the engine hears of the total.
    Whole,
    /// Lot by lot, as they are claimed.
    Lots,
}

/// What [`Engine::take`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The state of a node. One of all segments is the total, also where it begins before the segment that was asked for.
    State(Node),
    /// Whoever claimed these segments has gone: they are this process's to fold now.
    Lost(Range<u64>),
    /// The rows of these segments, which begin with the one that was asked for, are at hand ([`BegunRows`]): they are to be folded here and
    /// given to nobody.
    Here(Range<u64>),
}

/// Divides the passes of a run among processes and brings their states together.
///
/// The law: every segment is claimed by some process, and [`Engine::take`] gives each process the states that they gave.
pub trait Engine: Sync {
    /// Begins the job that the manifest describes. Called once, before the first pass.
    ///
    /// # Errors
    /// Where the other processes do another job.
    fn join(&self, _job: &Manifest) -> Result<()> {
        Ok(())
    }
    /// Begins the next pass: its key, and how it is folded.
    ///
    /// # Errors
    /// Where there is no such pass in the run.
    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)>;
    /// Claims segments that nobody has claimed; `None` where there are none. It may wait for a process that had them before.
    ///
    /// # Errors
    /// Errors of the medium that carries the states; [`crate::Error::Interrupted`] where the observer wants a stop.
    fn claim(&self, pass: &PassKey, observer: &dyn Observer) -> Result<Option<Range<u64>>>;
    /// Takes over a node of what this process has claimed; without a state where no row was folded.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()>;
    /// Waits for the node that begins at `segment`, and reads its state into `state`, which is that of no rows.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] where the observer wants a stop; those of the medium.
    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Taken>;
    /// Hears the total of a pass, from every process that has it.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn total(&self, _pass: &PassKey, _rows: u64, _state: &dyn Persist) -> Result<()> {
        Ok(())
    }
    /// The rows of segments of which a process holds a part, where such are kept.
    fn begun(&self) -> Option<&dyn BegunRows> {
        None
    }
    /// Ends the job; `over` where nothing that was found is needed any more: it has succeeded, or fails again in whatever process.
    fn leave(&self, _over: bool) {}
}

/// The nodes of a lot of a pass over the segments `all`: a stretch that begins in the lot as far as it lies in it, other segments singly.
pub fn nodes(lot: &Range<u64>, all: &Range<u64>) -> Vec<Range<u64>> {
    let (mut nodes, mut at) = (Vec::new(), lot.start);
    while at < lot.end {
        let stretch = at / STRETCH * STRETCH;
        let end = if at == stretch.max(all.start) { (stretch + STRETCH).min(lot.end) } else { at + 1 };
        nodes.push(at..end);
        at = end;
    }
    nodes
}

impl Pass<'_> {
    /// Folds the rows with other processes.
    pub(super) fn share<T, F>(
        &self,
        engine: &dyn Engine,
        name: &str,
        source: &dyn RowSource<T>,
        fold: &F,
    ) -> Result<(F::State, PassReport), F::Error>
    where
        T: Real,
        F: Fold<T>,
        F::State: Merge + Persist,
    {
        let cut = self.cut(&source.range());
        let (all, mut starved) = (cut.segments(), Duration::ZERO);
        let mut lot = |lot: Range<u64>, deliver: Deliver<'_, F::State, F::Error>| {
            let kept;
            let (source, part): (&dyn RowSource<T>, _) = match engine.begun().map(|rows| (rows, rows.of(&lot))) {
                Some((rows, LotRows::Begun(stored))) => return begun::keep(self, source, fold, rows, stored),
                Some((rows, LotRows::Kept(tiles))) => {
                    kept = Kept::new(source, rows, tiles)?;
                    (&kept, 0..u64::MAX)
                }
                Some((_, LotRows::Whole)) | None => (source, lot.start - all.start..lot.end - all.start),
            };
            let report = run(self, source, fold, part, |Delivery { segment, folded, state, .. }| {
                deliver(segment, folded, state)
            })?;
            starved += report.starved;
            Ok(())
        };
        let (state, rows) = fold_lots(Some(engine), (name, cut), self.observer, &|| fold.init(), &mut lot)?;
        Ok((state, PassReport { rows, starved }))
    }
}

/// What takes the state of a segment: its number, its rows, and its state.
pub type Deliver<'d, S, E> = &'d mut (dyn FnMut(u64, u64, S) -> Result<(), E> + Send);

/// What folds the segments of a lot, and delivers their states in their order; segments without rows may be left out.
pub type FoldLot<'f, S, E> = &'f mut dyn FnMut(Range<u64>, Deliver<'_, S, E>) -> Result<(), E>;

/// Folds segments into one state along the fixed [tree](STRETCH), with other processes where there is an engine: for passes over what a process made of
/// the rows. Returns the state, and the number of rows.
///
/// # Errors
/// Those of the fold and of the engine.
pub fn fold_lots<S, E>(
    engine: Option<&dyn Engine>,
    (name, cut): (&str, Cut),
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    lot: FoldLot<'_, S, E>,
) -> Result<(S, u64), E>
where
    S: Merge + Persist,
    E: From<Error>,
{
    let begun = engine.map(|engine| Ok::<_, E>((engine, engine.begin(name, cut)?))).transpose()?;
    if let Some((engine, (key, Share::Lots))) = &begun {
        return together(*engine, key, observer, init, lot);
    }
    let (mut tree, mut rows) = (Tree::default(), 0);
    lot(cut.segments(), &mut |segment, folded, state| {
        tree.add(segment, state);
        rows += folded;
        Ok(())
    })?;
    let state = tree.finish().unwrap_or_else(init);
    if let Some((engine, (key, _))) = begun {
        engine.total(&key, rows, &state)?;
    }
    Ok((state, rows))
}

/// Folds the lots that this process claims, and merges the states of all.
fn together<S, E>(
    engine: &dyn Engine,
    key: &PassKey,
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    fold: FoldLot<'_, S, E>,
) -> Result<(S, u64), E>
where
    S: Merge + Persist,
    E: From<Error>,
{
    let all = key.cut.segments();
    // rows that the observer has heard of
    let mut heard = 0;
    let work = |fold: FoldLot<'_, S, E>, lot: Range<u64>| -> Result<u64, E> {
        let lot = lot.start.max(all.start)..lot.end.min(all.end);
        if lot.is_empty() {
            return Ok(0);
        }
        let mut giving = Giving { engine, key, nodes: nodes(&lot, &all).into(), rows: 0, state: None };
        let mut rows = 0;
        fold(lot, &mut |segment, folded, state| {
            rows += folded;
            Ok(giving.add(segment, folded, state)?)
        })?;
        while !giving.nodes.is_empty() {
            giving.close()?;
        }
        Ok(rows)
    };
    while let Some(lot) = engine.claim(key, observer)? {
        heard += work(fold, lot)?;
    }
    let (mut tree, mut at, mut rows) = (Tree::default(), all.start, 0);
    while at < all.end {
        let mut state = init();
        let node = match engine.take(key, at, &mut state, observer)? {
            Taken::Lost(lot) => {
                drop(state);
                heard += work(fold, lot)?;
                continue;
            }
            Taken::Here(lot) => {
                drop(state);
                at = lot.end.max(at + 1);
                fold(lot, &mut |segment, folded, state| {
                    tree.add(segment, state);
                    (rows, heard) = (rows + folded, heard + folded);
                    Ok(())
                })?;
                continue;
            }
            Taken::State(node) => node,
        };
        if node.segments.start < at {
            // the total, which another process has found meanwhile, stands for what was merged here
            (tree, rows) = (Tree::default(), 0);
        }
        if node.rows > 0 {
            tree.add(node.segments.start, state);
        }
        rows += node.rows;
        // rows of this process are heard of when they are folded, and are among those that are taken
        observer.advance(rows.saturating_sub(heard));
        heard = heard.max(rows);
        at = node.segments.end.max(at + 1);
    }
    let state = tree.finish().unwrap_or_else(init);
    engine.total(key, rows, &state)?;
    Ok((state, rows))
}

/// The nodes of a lot that are still to be given, and the state of the first.
struct Giving<'e, S> {
    engine: &'e dyn Engine,
    key: &'e PassKey,
    nodes: VecDeque<Range<u64>>,
    rows: u64,
    state: Option<S>,
}

impl<S: Merge + Persist> Giving<'_, S> {
    fn add(&mut self, segment: u64, rows: u64, state: S) -> Result<()> {
        while self.nodes.front().is_some_and(|node| node.end <= segment) {
            self.close()?;
        }
        self.rows += rows;
        merge(&mut self.state, state);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let (rows, state) = (std::mem::take(&mut self.rows), self.state.take());
        let Some(segments) = self.nodes.pop_front() else { return Ok(()) };
        let state = state.as_ref().map(|state| state as &dyn Persist);
        self.engine.give(self.key, &Node { segments, rows }, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_from_their_beginning_are_one_node_and_other_parts_segments() {
        assert_eq!(nodes(&(0..3), &(0..40)), std::slice::from_ref(&(0..3)));
        assert_eq!(nodes(&(30..66), &(0..90)), [30..31, 31..32, 32..64, 64..66]);
        // the pass begins and ends within a stretch: its part of that is whole
        assert_eq!(nodes(&(5..70), &(5..70)), [5..32, 32..64, 64..70]);
        assert!(nodes(&(7..7), &(5..70)).is_empty());
    }
}
