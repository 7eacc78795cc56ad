//! Passes of processes that share the rows of a run through an [`Engine`].

use super::executor::{Delivery, run_pass};
use super::partial_rows::{self, StoredRows};
use super::tree::{Tree, merge_into};
use super::{Merge, Observer, Pass, PassReport, Reduction, STRETCH_SEGMENTS};
use crate::checkpoint::{Cut, Engine, LotRows, Node, NodeOutcome, PassKey, Persist, ReductionMode};
use crate::{Error, Float, Result, RowSource};
use std::{collections::VecDeque, ops::Range, time::Duration};

/// Returns the nodes of a lot in a pass over `all_segments`: each stretch that begins in the
/// lot, up to the end of the lot, and every other segment by itself.
pub fn nodes(lot: &Range<u64>, all_segments: &Range<u64>) -> Vec<Range<u64>> {
    let (mut nodes, mut segment) = (Vec::new(), lot.start);
    while segment < lot.end {
        let stretch_start = segment / STRETCH_SEGMENTS * STRETCH_SEGMENTS;
        let end = if segment == stretch_start.max(all_segments.start) {
            (stretch_start + STRETCH_SEGMENTS).min(lot.end)
        } else {
            segment + 1
        };
        nodes.push(segment..end);
        segment = end;
    }
    nodes
}

impl Pass<'_> {
    /// Reduces the rows with other processes.
    pub(super) fn reduce_shared<T: Float, F: Reduction<T, State: Merge + Persist>>(
        &self,
        engine: &dyn Engine,
        name: &str,
        source: &dyn RowSource<T>,
        reduction: &F,
    ) -> Result<(F::State, PassReport), F::Error> {
        let cut = self.cut(&source.range());
        let (all_segments, mut decoder_wait) = (cut.segments(), Duration::ZERO);
        let mut reduce_lot = |lot: Range<u64>, deliver: Deliver<'_, F::State, F::Error>| {
            let stored_rows;
            let (source, positions): (&dyn RowSource<T>, _) =
                match engine.partial_rows().map(|store| (store, store.lot_rows(&lot))) {
                    Some((store, LotRows::Partial(stored_range))) => {
                        return partial_rows::store_rows(self, source, reduction, store, stored_range);
                    }
                    Some((store, LotRows::Stored(tiles))) => {
                        stored_rows = StoredRows::new(source, store, tiles)?;
                        (&stored_rows, 0..u64::MAX)
                    }
                    Some((_, LotRows::Whole)) | None => {
                        (source, lot.start - all_segments.start..lot.end - all_segments.start)
                    }
                };
            let report = run_pass(
                self,
                source,
                reduction,
                positions,
                |Delivery { segment, row_count: reduced_rows, state, .. }| deliver(segment, reduced_rows, state),
            )?;
            decoder_wait += report.decoder_wait;
            Ok(())
        };
        let (state, rows) = reduce_lots(Some(engine), name, cut, self.observer, &|| reduction.init(), &mut reduce_lot)?;
        Ok((state, PassReport { rows, decoder_wait }))
    }
}

/// A receiver of segment states: the number of the segment, its number of rows, and its state.
pub type Deliver<'d, S, E> = &'d mut (dyn FnMut(u64, u64, S) -> Result<(), E> + Send);

/// A function that reduces the segments of a lot and delivers their states in order. It may skip
/// segments without rows.
pub type LotReduction<'f, S, E> = &'f mut dyn FnMut(Range<u64>, Deliver<'_, S, E>) -> Result<(), E>;

/// Reduces segments to one state along the fixed [tree](STRETCH_SEGMENTS), together with other
/// processes if there is an engine. `init` returns the state before any row. Returns the state of
/// all rows, and the number of rows.
///
/// Use this function for passes over values that the process has computed from the rows.
///
/// # Errors
/// Errors of the reduction and of the engine.
pub fn reduce_lots<S: Merge + Persist, E: From<Error>>(
    engine: Option<&dyn Engine>,
    name: &str,
    cut: Cut,
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    reduce_lot: LotReduction<'_, S, E>,
) -> Result<(S, u64), E> {
    let begun_pass = engine.map(|engine| Ok::<_, E>((engine, engine.begin_pass(name, cut)?))).transpose()?;
    if let Some((engine, (key, ReductionMode::Lots))) = &begun_pass {
        return reduce_with_others(*engine, key, observer, init, reduce_lot);
    }
    let (mut tree, mut rows) = (Tree::default(), 0);
    reduce_lot(cut.segments(), &mut |segment, reduced_rows, state| {
        tree.add(segment, state);
        rows += reduced_rows;
        Ok(())
    })?;
    let state = tree.finish().unwrap_or_else(init);
    if let Some((engine, (key, _))) = begun_pass {
        engine.store_total(&key, rows, &state)?;
    }
    Ok((state, rows))
}

/// Reduces the lots that this process claims, and merges the states of all lots.
fn reduce_with_others<S: Merge + Persist, E: From<Error>>(
    engine: &dyn Engine,
    key: &PassKey,
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    reduce_lot: LotReduction<'_, S, E>,
) -> Result<(S, u64), E> {
    let all_segments = key.cut.segments();
    // number of rows that were already reported to the observer
    let mut reported_rows = 0;
    let reduce_one_lot = |reduce_lot: LotReduction<'_, S, E>, lot: Range<u64>| -> Result<u64, E> {
        let lot = lot.start.max(all_segments.start)..lot.end.min(all_segments.end);
        if lot.is_empty() {
            return Ok(0);
        }
        let mut sender =
            NodeSender { engine, key, nodes: nodes(&lot, &all_segments).into(), row_count: 0, state: None };
        let mut rows = 0;
        reduce_lot(lot, &mut |segment, reduced_rows, state| {
            rows += reduced_rows;
            Ok(sender.add_segment(segment, reduced_rows, state)?)
        })?;
        while !sender.nodes.is_empty() {
            sender.send_node()?;
        }
        Ok(rows)
    };
    while let Some(lot) = engine.claim_lot(key, observer)? {
        reported_rows += reduce_one_lot(reduce_lot, lot)?;
    }
    let (mut tree, mut next_segment, mut rows) = (Tree::default(), all_segments.start, 0);
    while next_segment < all_segments.end {
        let mut state = init();
        let node = match engine.wait_for_node(key, next_segment, &mut state, observer)? {
            NodeOutcome::Lost(lot) => {
                drop(state);
                reported_rows += reduce_one_lot(reduce_lot, lot)?;
                continue;
            }
            NodeOutcome::Local(lot) => {
                drop(state);
                next_segment = lot.end.max(next_segment + 1);
                reduce_lot(lot, &mut |segment, reduced_rows, state| {
                    tree.add(segment, state);
                    (rows, reported_rows) = (rows + reduced_rows, reported_rows + reduced_rows);
                    Ok(())
                })?;
                continue;
            }
            NodeOutcome::Received(node) => node,
        };
        if node.segments.start < next_segment {
            // another process has computed the total meanwhile: it replaces the states merged here
            (tree, rows) = (Tree::default(), 0);
        }
        if node.row_count > 0 {
            tree.add(node.segments.start, state);
        }
        rows += node.row_count;
        // `rows` includes the rows that this process reduced, which were reported already
        observer.advance(rows.saturating_sub(reported_rows));
        reported_rows = reported_rows.max(rows);
        next_segment = node.segments.end.max(next_segment + 1);
    }
    let state = tree.finish().unwrap_or_else(init);
    engine.store_total(key, rows, &state)?;
    Ok((state, rows))
}

/// The nodes of a lot that were not passed to the engine yet, and the state of the first of them.
struct NodeSender<'e, S> {
    engine: &'e dyn Engine,
    key: &'e PassKey,
    nodes: VecDeque<Range<u64>>,
    row_count: u64,
    state: Option<S>,
}

impl<S: Merge + Persist> NodeSender<'_, S> {
    fn add_segment(&mut self, segment: u64, row_count: u64, state: S) -> Result<()> {
        while self.nodes.front().is_some_and(|node| node.end <= segment) {
            self.send_node()?;
        }
        self.row_count += row_count;
        self.engine.inspect_segment(segment, &state);
        merge_into(&mut self.state, state);
        Ok(())
    }

    fn send_node(&mut self) -> Result<()> {
        let (rows, state) = (std::mem::take(&mut self.row_count), self.state.take());
        let Some(segments) = self.nodes.pop_front() else { return Ok(()) };
        let state = state.as_ref().map(|state| state as &dyn Persist);
        self.engine.store_node(self.key, &Node { segments, row_count: rows }, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lot_is_cut_into_stretches_and_single_segments() {
        assert_eq!(nodes(&(0..3), &(0..40)), std::slice::from_ref(&(0..3)));
        assert_eq!(nodes(&(30..66), &(0..90)), [30..31, 31..32, 32..64, 64..66]);
        // the pass begins and ends within a stretch: its part of that stretch is one node
        assert_eq!(nodes(&(5..70), &(5..70)), [5..32, 32..64, 64..70]);
        assert!(nodes(&(7..7), &(5..70)).is_empty());
    }
}
