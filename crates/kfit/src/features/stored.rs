//! Storage of features, segment by segment.
//!
//! A process stores the features of the segments that it folds. In a shared run it computes and
//! stores the features of other processes' segments when it first visits them.

use super::context::{Buffers, VisitContext};
use super::{fit_data::FitData, tier::FeatureTier};
use crate::{Result, linalg::strips::lock};
use kapprox::{FeatureMap, Real};
use kstore::scratch::{Cache, CacheWriter, Scratch};
use kstore::{RowBlock, RowSource, TableShape, Workers, checkpoint::Cut, pass::Observer};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// The stored features of this process, and their source.
pub(super) struct Stored<'a, T: Real> {
    pub(super) source: &'a dyn RowSource<T>,
    pub(super) map: &'a dyn FeatureMap<T>,
    pub(super) cut: Cut,
    held: Held<'a, T>,
}

/// The features, by storage tier.
enum Held<'a, T: Real> {
    /// Features of every segment of the stored rows, row-major; unset if missing.
    Memory(Vec<OnceLock<Vec<T>>>),
    /// Segments in the scratch folder, in the order of writing.
    Scratch(&'a Scratch, Mutex<Vec<CachedSegments<T>>>),
    Nowhere,
}

/// Consecutive segments, and their file in the scratch folder.
type CachedSegments<T> = (Range<u64>, Arc<Cache<T>>);

impl<'a, T: Real> Stored<'a, T> {
    pub(super) fn new(data: &'a FitData<'a, T>) -> Self {
        let Range { start, end } = data.source.range();
        let cut = Cut { tile: data.cut.tile, segment: data.cut.segment, start, end };
        let all = cut.segments();
        let held = match (data.keep, data.resources.scratch) {
            (FeatureTier::Memory, _) => Held::Memory(all.map(|_| OnceLock::new()).collect()),
            (FeatureTier::Scratch, Some(scratch)) => Held::Scratch(scratch, Mutex::default()),
            _ => Held::Nowhere,
        };
        Self { source: data.source, map: data.map, cut, held }
    }

    pub(super) fn memory(&self, segment: u64) -> Option<&[T]> {
        match &self.held {
            Held::Memory(segments) => Some(segments.get((segment - self.cut.segments().start) as usize)?.get()?),
            Held::Scratch(..) | Held::Nowhere => None,
        }
    }

    pub(super) fn scratch(&self, lot: &Range<u64>) -> Vec<CachedSegments<T>> {
        let Held::Scratch(_, runs) = &self.held else { return Vec::new() };
        let part = |(segments, cache): &CachedSegments<T>| {
            (segments.start.max(lot.start)..segments.end.min(lot.end), Arc::clone(cache))
        };
        let mut parts: Vec<CachedSegments<T>> =
            lock(runs).iter().map(part).filter(|(part, _)| !part.is_empty()).collect();
        parts.sort_by_key(|(part, _)| part.start);
        parts
    }

    pub(super) fn place(&self) -> FeatureTier {
        match self.held {
            Held::Memory(_) => FeatureTier::Memory,
            Held::Scratch(..) => FeatureTier::Scratch,
            Held::Nowhere => FeatureTier::Recomputed,
        }
    }

    /// Computes and stores the features of a work unit that another process folded.
    pub(super) fn fill(&self, lot: &Range<u64>, context: &VisitContext<'_>, observer: &dyn Observer) -> Result<()> {
        let mut buffers = Buffers::default();
        for run in self.missing(lot) {
            let mut writer = self.writer(run.clone())?;
            context
                .pass(&Quiet(observer))
                .visit_lot(self.source, &run, |block| writer.add(block, &mut buffers, context.resources.workers))?;
            writer.finish()?;
        }
        Ok(())
    }

    /// Returns the runs of segments of a work unit that are not stored yet; empty if features are
    /// always recomputed.
    fn missing(&self, lot: &Range<u64>) -> Vec<Range<u64>> {
        let there: Vec<Range<u64>> = match &self.held {
            Held::Memory(_) => lot.clone().filter(|at| self.memory(*at).is_some()).map(|at| at..at + 1).collect(),
            Held::Scratch(..) => self.scratch(lot).into_iter().map(|(part, _)| part).collect(),
            Held::Nowhere => return Vec::new(),
        };
        let (mut missing, mut at) = (Vec::new(), lot.start);
        for part in there.into_iter().chain(std::iter::once(lot.end..lot.end)) {
            if at < part.start {
                missing.push(at..part.start);
            }
            at = part.end;
        }
        missing
    }

    pub(super) fn writer(&self, lot: Range<u64>) -> Result<Writer<'_, T>> {
        let shape = TableShape { features: self.map.dims().1, targets: 0, weighted: false, ..self.source.shape() };
        let cache = match &self.held {
            Held::Scratch(scratch, _) => Some(scratch.cache(shape, self.rows(&lot))?),
            Held::Memory(_) | Held::Nowhere => None,
        };
        Ok(Writer { stored: self, lot, open: None, cache })
    }

    fn rows(&self, segments: &Range<u64>) -> Range<u64> {
        let Cut { segment, start, end, .. } = self.cut;
        (segments.start * segment).max(start)..segments.end.saturating_mul(segment).min(end)
    }
}

pub(super) struct Writer<'s, T: Real> {
    stored: &'s Stored<'s, T>,
    lot: Range<u64>,
    /// The current segment: its number, its features, and their count so far.
    open: Option<(u64, Vec<T>, usize)>,
    cache: Option<CacheWriter<T>>,
}

impl<T: Real> Writer<'_, T> {
    /// Computes and stores the features of a block, in row order. The column buffers keep a copy
    /// for the caller.
    pub(super) fn add(&mut self, block: &RowBlock<'_, T>, buffers: &mut Buffers<T>, workers: &Workers) -> Result<()> {
        let Stored { map, held, cut, .. } = self.stored;
        let p = map.dims().1;
        let Held::Memory(_) = held else {
            buffers.fill(*map, block, workers);
            if let Some(cache) = &mut self.cache {
                let x = &buffers.rows[..];
                cache.push(&RowBlock { x, d: p, y: &[], t: 0, weight: None, classes: None, groups: None, ..*block })?;
            }
            return Ok(());
        };
        let number = block.rows[0] / cut.segment;
        if self.open.as_ref().is_none_or(|(at, ..)| *at != number) {
            self.close();
            let Range { start, end } = self.stored.rows(&(number..number + 1));
            // zeroed pages are not allocated yet: the thread that fills a page allocates it near
            // its core
            self.open = Some((number, vec![T::ZERO; (end - start) as usize * p], 0));
        }
        if let Some((_, phi, at)) = &mut self.open {
            let end = *at + block.len() * p;
            buffers.fill_into(&mut phi[*at..end], *map, block, workers);
            *at = end;
        }
        Ok(())
    }

    /// Stores the segment in memory. An existing copy stays, because it is bit-identical.
    fn close(&mut self) {
        let (Some((number, mut phi, at)), Held::Memory(segments)) = (self.open.take(), &self.stored.held) else {
            return;
        };
        phi.truncate(at);
        drop(segments[(number - self.stored.cut.segments().start) as usize].set(phi));
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.close();
        match (&self.stored.held, self.cache) {
            (Held::Memory(segments), _) => {
                let first = self.stored.cut.segments().start;
                let lot = (self.lot.start - first) as usize..(self.lot.end - first) as usize;
                // mark segments without rows as stored
                segments[lot].iter().for_each(|segment| drop(segment.set(Vec::new())));
            }
            (Held::Scratch(_, runs), Some(cache)) => lock(runs).push((self.lot, Arc::new(cache.finish()?))),
            _ => {}
        }
        Ok(())
    }
}

/// An observer for rows that were already counted: it ignores progress and only forwards the stop
/// signal.
pub(crate) struct Quiet<'o>(pub(crate) &'o dyn Observer);

impl Observer for Quiet<'_> {
    fn advance(&self, _: u64) {}
    fn stop(&self) -> bool {
        self.0.stop()
    }
}
