//! The seam between a pass and the processes that share its rows.
//!
//! Every process runs the same job, with the same options on the same rows, as in an allreduce. What lies between passes
//! is pure and is computed by each of them, with the same bits. In a pass that has a name
//! ([`Pass::resume`](super::Pass::resume)) a process folds its own segments only, gives their states to the [`Engine`],
//! takes those of all segments from it, in their order, and merges them along the fixed [tree](super::STRETCH). So no
//! fold is ever sent, only states are, and every process has the total that one process would have, bit for bit.
//!
//! A **node** of the tree is a stretch that lies whole in the share of a process, or a single segment of a stretch that
//! does not: [`nodes`] cuts a share into them. Whoever takes a node need not know how others were cut.
//!
//! *Memory*: a process holds one state more than its sums while it merges, in the place of those of its lanes, which have
//! ended: the plan of a pass holds with an engine and without.

use super::run::{Delivery, run};
use super::tree::{Tree, merge};
use super::{Fold, Merge, Observer, Pass, PassReport, STRETCH};
use crate::checkpoint::{Cut, Persist};
use crate::{Real, Result, RowSource};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

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

/// Segments whose states are one: a whole stretch, or a segment of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Numbers of the segments among all of the stored rows.
    pub segments: Range<u64>,
    /// Rows that were folded; a node without rows has no state.
    pub rows: u64,
}

/// What a process folds of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Everything, without an exchange; the engine hears of the total.
    Whole,
    /// These segments; none, where it is empty.
    Segments(Range<u64>),
}

/// Divides the passes of a run among processes and brings their states together.
///
/// The law: after every process has given the nodes of its share, [`Engine::take`] gives each of them the same nodes, and
/// the shares of all processes are all segments, each once.
pub trait Engine: Sync {
    /// Begins the job that `mark` names: a text that is equal in processes that compute the same. Called once, before the
    /// first pass.
    ///
    /// # Errors
    /// Where the other processes do another job.
    fn join(&self, _mark: &str) -> Result<()> {
        Ok(())
    }
    /// Begins the next pass: its key, and what this process folds of it.
    ///
    /// # Errors
    /// Where there is no such pass in the run.
    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)>;
    /// Takes over a node of this process's share; without a state where no row was folded.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()>;
    /// Waits for the node that begins at `segment`, and reads its state into `state`, which is that of no rows.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] where the observer wants a stop; those of the medium; a process that has gone.
    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Node>;
    /// Hears the total of a pass that this process folded whole.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn total(&self, _pass: &PassKey, _rows: u64, _state: &dyn Persist) -> Result<()> {
        Ok(())
    }
    /// Ends the job; `done` where it has succeeded.
    fn leave(&self, _done: bool) {}
}

/// The nodes of a share: stretches of the pass over the segments `all` that lie whole in `own`, other segments singly.
pub fn nodes(own: &Range<u64>, all: &Range<u64>) -> Vec<Range<u64>> {
    let (mut nodes, mut at) = (Vec::new(), own.start);
    while at < own.end {
        let stretch = at / STRETCH * STRETCH;
        let whole = stretch.max(all.start)..(stretch + STRETCH).min(all.end);
        let end = if whole.start == at && whole.end <= own.end { whole.end } else { at + 1 };
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
        let range = source.range();
        let cut = Cut { tile: self.tile, segment: self.segment, start: range.start, end: range.end };
        let (key, share) = engine.begin(name, cut)?;
        let all = cut.segments();
        let Share::Segments(own) = share else {
            let (state, report) = self.fold(source, fold)?;
            engine.total(&key, report.rows, &state)?;
            return Ok((state, report));
        };
        let mut report = self.give(engine, &key, &own, source, fold)?;
        report.rows = 0;
        let (mut tree, mut at) = (Tree::default(), all.start);
        while at < all.end {
            let mut state = fold.init();
            let node = engine.take(&key, at, &mut state, self.observer)?;
            if node.rows > 0 {
                tree.add(at, state);
            }
            if !own.contains(&at) {
                self.observer.advance(node.rows);
            }
            report.rows += node.rows;
            at = node.segments.end.max(at + 1);
        }
        Ok((tree.finish().unwrap_or_else(|| fold.init()), report))
    }

    /// Folds the segments of this process and gives their states away, node by node.
    fn give<T, F>(
        &self,
        engine: &dyn Engine,
        key: &PassKey,
        own: &Range<u64>,
        source: &dyn RowSource<T>,
        fold: &F,
    ) -> Result<PassReport, F::Error>
    where
        T: Real,
        F: Fold<T>,
        F::State: Merge + Persist,
    {
        let all = key.cut.segments();
        let own = own.start.max(all.start)..own.end.min(all.end);
        if own.is_empty() {
            return Ok(PassReport::default());
        }
        let nodes = nodes(&own, &all).into();
        let mut giving = Giving { engine, key, nodes, rows: 0, state: None };
        let part = own.start - all.start..own.end - all.start;
        let report = run(self, source, fold, part, |Delivery { segment, folded, state, .. }| {
            Ok(giving.add(segment, folded, state)?)
        })?;
        while !giving.nodes.is_empty() {
            giving.close()?;
        }
        Ok(report)
    }
}

/// The nodes of this process that are still to be given, and the state of the first.
struct Giving<'e, S> {
    engine: &'e dyn Engine,
    key: &'e PassKey,
    nodes: VecDeque<Range<u64>>,
    rows: u64,
    state: Option<S>,
}

impl<S: Merge + Persist> Giving<'_, S> {
    /// Takes in the state of a segment.
    fn add(&mut self, segment: u64, rows: u64, state: S) -> Result<()> {
        while self.nodes.front().is_some_and(|node| node.end <= segment) {
            self.close()?;
        }
        self.rows += rows;
        merge(&mut self.state, state);
        Ok(())
    }

    /// Gives the first node away.
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
    fn whole_stretches_are_one_node_and_parts_are_segments() {
        assert_eq!(nodes(&(0..3), &(0..40)), [0..1, 1..2, 2..3]);
        assert_eq!(nodes(&(30..66), &(0..90)), [30..31, 31..32, 32..64, 64..65, 65..66]);
        // the pass begins and ends within a stretch: its part of that is whole
        assert_eq!(nodes(&(5..70), &(5..70)), [5..32, 32..64, 64..70]);
        assert!(nodes(&(7..7), &(5..70)).is_empty());
    }
}
