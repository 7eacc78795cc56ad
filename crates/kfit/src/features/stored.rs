//! Storage of features, segment by segment.
//!
//! A segment is a fixed number of consecutive stored rows. A process stores the features of the
//! segments that it reduces. In a shared run, a process may visit a segment that another process
//! reduced: at the first such visit it computes and stores the features of the segment.

use super::context::{FeatureBuffers, VisitContext};
use super::{fit_data::FitData, tier::FeatureTier};
use crate::{Result, linalg::strips::lock};
use kapprox::{FeatureMap, Real};
use kstore::scratch::{Cache, CacheWriter, ScratchFolder};
use kstore::{RowBlock, RowSource, TableShape, Workers, checkpoint::Cut, pass::Observer};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// The stored features of this process, and their source.
pub(super) struct FeatureStore<'a, T: Real> {
    pub(super) source: &'a dyn RowSource<T>,
    pub(super) map: &'a dyn FeatureMap<T>,
    pub(super) cut: Cut,
    storage: Storage<'a, T>,
}

/// The features, by storage tier.
enum Storage<'a, T: Real> {
    /// Features of each segment of the stored rows, row-major. An entry is unset if the features of
    /// its segment are missing.
    Memory(Vec<OnceLock<Vec<T>>>),
    /// Segments in the scratch folder, in the order of writing.
    Scratch(&'a ScratchFolder, Mutex<Vec<CachedSegments<T>>>),
    Recomputed,
}

/// Consecutive segments, and their file in the scratch folder.
pub(super) struct CachedSegments<T> {
    pub(super) segments: Range<u64>,
    pub(super) cache: Arc<Cache<T>>,
}

impl<'a, T: Real> FeatureStore<'a, T> {
    pub(super) fn new(data: &'a FitData<'a, T>) -> Self {
        let Range { start, end } = data.source.range();
        let cut = Cut {
            tile_rows: data.pass_shape.tile_rows,
            segment_rows: data.pass_shape.segment_rows,
            start_row: start,
            end_row: end,
        };
        let segments = cut.segments();
        let storage = match (data.tier, data.resources.scratch) {
            (FeatureTier::Memory, _) => Storage::Memory(segments.map(|_| OnceLock::new()).collect()),
            (FeatureTier::Scratch, Some(scratch)) => Storage::Scratch(scratch, Mutex::default()),
            _ => Storage::Recomputed,
        };
        Self { source: data.source, map: data.map, cut, storage }
    }

    pub(super) fn segment_in_memory(&self, segment: u64) -> Option<&[T]> {
        match &self.storage {
            Storage::Memory(segments) => Some(segments.get((segment - self.cut.segments().start) as usize)?.get()?),
            Storage::Scratch(..) | Storage::Recomputed => None,
        }
    }

    /// Returns the segments of `unit` that are in the scratch folder, in ascending order.
    pub(super) fn cached_segments(&self, unit: &Range<u64>) -> Vec<CachedSegments<T>> {
        let Storage::Scratch(_, caches) = &self.storage else { return Vec::new() };
        let clip_to_unit = |CachedSegments { segments, cache }: &CachedSegments<T>| CachedSegments {
            segments: segments.start.max(unit.start)..segments.end.min(unit.end),
            cache: Arc::clone(cache),
        };
        let mut clipped_segments: Vec<CachedSegments<T>> =
            lock(caches).iter().map(clip_to_unit).filter(|part| !part.segments.is_empty()).collect();
        clipped_segments.sort_by_key(|part| part.segments.start);
        clipped_segments
    }

    pub(super) fn tier(&self) -> FeatureTier {
        match self.storage {
            Storage::Memory(_) => FeatureTier::Memory,
            Storage::Scratch(..) => FeatureTier::Scratch,
            Storage::Recomputed => FeatureTier::Recomputed,
        }
    }

    /// Computes and stores the features of the segments of `unit` that this process has not stored
    /// yet, because another process reduced them.
    pub(super) fn compute_missing(
        &self,
        unit: &Range<u64>,
        context: &VisitContext<'_>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut buffers = FeatureBuffers::default();
        for missing_range in self.missing_segments(unit) {
            let mut writer = self.writer(missing_range.clone())?;
            context.pass(&StopOnlyObserver(observer)).visit_lot(self.source, &missing_range, |block| {
                writer.add(block, &mut buffers, context.resources.workers)
            })?;
            writer.finish()?;
        }
        Ok(())
    }

    /// Returns the ranges of consecutive segments of `unit` that are not stored yet. If features
    /// are always recomputed, returns no ranges.
    fn missing_segments(&self, unit: &Range<u64>) -> Vec<Range<u64>> {
        let stored_ranges: Vec<Range<u64>> = match &self.storage {
            Storage::Memory(_) => unit
                .clone()
                .filter(|segment| self.segment_in_memory(*segment).is_some())
                .map(|segment| segment..segment + 1)
                .collect(),
            Storage::Scratch(..) => self.cached_segments(unit).into_iter().map(|part| part.segments).collect(),
            Storage::Recomputed => return Vec::new(),
        };
        let (mut missing_ranges, mut next_segment) = (Vec::new(), unit.start);
        for stored_range in stored_ranges.into_iter().chain(std::iter::once(unit.end..unit.end)) {
            if next_segment < stored_range.start {
                missing_ranges.push(next_segment..stored_range.start);
            }
            next_segment = stored_range.end;
        }
        missing_ranges
    }

    pub(super) fn writer(&self, unit: Range<u64>) -> Result<FeatureWriter<'_, T>> {
        let shape =
            TableShape { input_count: self.map.dims().1, target_count: 0, has_weights: false, ..self.source.shape() };
        let cache = match &self.storage {
            Storage::Scratch(scratch, _) => Some(scratch.create_cache(shape, self.row_range(&unit))?),
            Storage::Memory(_) | Storage::Recomputed => None,
        };
        Ok(FeatureWriter { store: self, unit, open_segment: None, cache })
    }

    fn row_range(&self, segments: &Range<u64>) -> Range<u64> {
        let Cut { segment_rows: segment, start_row: start, end_row: end, .. } = self.cut;
        (segments.start * segment).max(start)..segments.end.saturating_mul(segment).min(end)
    }
}

pub(super) struct FeatureWriter<'s, T: Real> {
    store: &'s FeatureStore<'s, T>,
    unit: Range<u64>,
    open_segment: Option<OpenSegment<T>>,
    cache: Option<CacheWriter<T>>,
}

/// The segment in memory that blocks are added to.
struct OpenSegment<T> {
    number: u64,
    /// Features; zeros after `filled_len`.
    phi: Vec<T>,
    filled_len: usize,
}

impl<T: Real> FeatureWriter<'_, T> {
    /// Computes and stores the features of a block; blocks arrive in row order. After the call,
    /// `buffers.column_major` contains the features too.
    pub(super) fn add(
        &mut self,
        block: &RowBlock<'_, T>,
        buffers: &mut FeatureBuffers<T>,
        workers: &Workers,
    ) -> Result<()> {
        let FeatureStore { map, storage, cut, .. } = self.store;
        let p = map.dims().1;
        let Storage::Memory(_) = storage else {
            buffers.compute_features(*map, block, workers);
            if let Some(cache) = &mut self.cache {
                let x = &buffers.row_major[..];
                cache.push(&RowBlock {
                    x,
                    d: p,
                    y: &[],
                    t: 0,
                    weights: None,
                    classes: None,
                    groups: None,
                    ..*block
                })?;
            }
            return Ok(());
        };
        let segment_number = block.row_numbers[0] / cut.segment_rows;
        if self.open_segment.as_ref().is_none_or(|segment| segment.number != segment_number) {
            self.close_segment();
            let Range { start, end } = self.store.row_range(&(segment_number..segment_number + 1));
            // the zeroed pages are allocated when they are first written: the thread that fills a
            // page allocates it near its core
            let phi = vec![T::ZERO; (end - start) as usize * p];
            self.open_segment = Some(OpenSegment { number: segment_number, phi, filled_len: 0 });
        }
        if let Some(OpenSegment { phi, filled_len, .. }) = &mut self.open_segment {
            let end = *filled_len + block.len() * p;
            buffers.fill_into(&mut phi[*filled_len..end], *map, block, workers);
            *filled_len = end;
        }
        Ok(())
    }

    /// Stores the segment in memory. An existing copy stays, because it is bit-identical.
    fn close_segment(&mut self) {
        let (Some(segment), Storage::Memory(segments)) = (self.open_segment.take(), &self.store.storage) else {
            return;
        };
        let OpenSegment { number, mut phi, filled_len } = segment;
        phi.truncate(filled_len);
        drop(segments[(number - self.store.cut.segments().start) as usize].set(phi));
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.close_segment();
        match (&self.store.storage, self.cache) {
            (Storage::Memory(segments), _) => {
                let first_segment = self.store.cut.segments().start;
                let unit = (self.unit.start - first_segment) as usize..(self.unit.end - first_segment) as usize;
                // mark segments without rows as stored
                segments[unit].iter().for_each(|segment| drop(segment.set(Vec::new())));
            }
            (Storage::Scratch(_, caches), Some(cache)) => {
                lock(caches).push(CachedSegments { segments: self.unit, cache: Arc::new(cache.finish()?) });
            }
            _ => {}
        }
        Ok(())
    }
}

/// An observer for a pass over rows whose progress was already reported: it ignores the progress
/// and only forwards the stop signal.
#[expect(missing_debug_implementations, reason = "an observer is not debug")]
pub struct StopOnlyObserver<'o>(pub &'o dyn Observer);

impl Observer for StopOnlyObserver<'_> {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0.should_stop()
    }
}
