//! Passes of processes that share the rows of a run through an [`Engine`].

use super::begun::{self, Kept};
use super::run::{Delivery, run};
use super::tree::{Tree, merge};
use super::{Fold, Merge, Observer, Pass, PassReport, STRETCH};
use crate::checkpoint::{Cut, Engine, LotRows, Node, PassKey, Persist, Share, Taken};
use crate::{Error, Real, Result, RowSource};
use std::{collections::VecDeque, ops::Range, time::Duration};

/// Returns the nodes of a lot in a pass over the segments `all`: each stretch that begins in the
/// lot, up to the end of the lot, and every other segment by itself.
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
    pub(super) fn share<T: Real, F: Fold<T, State: Merge + Persist>>(
        &self,
        engine: &dyn Engine,
        name: &str,
        source: &dyn RowSource<T>,
        fold: &F,
    ) -> Result<(F::State, PassReport), F::Error> {
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

/// A receiver of segment states: the number of the segment, its number of rows, and its state.
pub type Deliver<'d, S, E> = &'d mut (dyn FnMut(u64, u64, S) -> Result<(), E> + Send);

/// A function that folds the segments of a lot and delivers their states in order. It may skip
/// segments without rows.
pub type FoldLot<'f, S, E> = &'f mut dyn FnMut(Range<u64>, Deliver<'_, S, E>) -> Result<(), E>;

/// Folds segments into one state along the fixed [tree](STRETCH), together with other processes if
/// there is an engine. Returns the state and the number of rows.
///
/// Use this function for passes over values that the process has computed from the rows.
///
/// # Errors
/// Errors of the fold and of the engine.
pub fn fold_lots<S: Merge + Persist, E: From<Error>>(
    engine: Option<&dyn Engine>,
    (name, cut): (&str, Cut),
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    lot: FoldLot<'_, S, E>,
) -> Result<(S, u64), E> {
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

/// Folds the lots that this process claims, and merges the states of all lots.
fn together<S: Merge + Persist, E: From<Error>>(
    engine: &dyn Engine,
    key: &PassKey,
    observer: &dyn Observer,
    init: &dyn Fn() -> S,
    fold: FoldLot<'_, S, E>,
) -> Result<(S, u64), E> {
    let all = key.cut.segments();
    // rows already reported to the observer
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
            // another process has computed the total meanwhile: it replaces the states merged here
            (tree, rows) = (Tree::default(), 0);
        }
        if node.rows > 0 {
            tree.add(node.segments.start, state);
        }
        rows += node.rows;
        // rows that this process folded were reported at that time, and `rows` includes them
        observer.advance(rows.saturating_sub(heard));
        heard = heard.max(rows);
        at = node.segments.end.max(at + 1);
    }
    let state = tree.finish().unwrap_or_else(init);
    engine.total(key, rows, &state)?;
    Ok((state, rows))
}

/// The nodes of a lot that were not passed to the engine yet, and the state of the first of them.
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
        // the pass begins and ends within a stretch: its part of that stretch is one node
        assert_eq!(nodes(&(5..70), &(5..70)), [5..32, 32..64, 64..70]);
        assert!(nodes(&(7..7), &(5..70)).is_empty());
    }
}
