//! The features of all rows, for solvers that read them many times.
//!
//! If the memory plan has room for the features, they are stored in memory. If not, but the limit
//! of the scratch folder permits, they are stored there. If neither has room, every pass recomputes
//! them. In all three cases a solver reads bit-identical tiles (blocks of consecutive rows) in the
//! same order, because the map always computes the features of the same tiles.
//!
//! Let n be the number of rows and p the number of features. *Bytes*: n·p elements in memory or on
//! disk, and two tiles of features. *Cost of a pass*: nothing if the features are in memory, one
//! read of the features if they are on disk, and one application of the map if they are recomputed.

mod context;
mod fit_data;
mod gather;
mod reduction;
mod row_selection;
mod stored;
mod tier;
mod tile;

use context::{FeatureBuffers, VisitContext};
pub(crate) use fit_data::FEWER_DIRECTIONS;
pub use fit_data::{FitData, GRAM_PASS, SectionPoints};
pub use gather::{GatherOptions, GatheredSums};
pub use reduction::{RowValues, Sums};
pub(crate) use row_selection::selection_bytes;
use stored::FeatureStore;
pub use stored::StopOnlyObserver;
pub use tier::FeatureTier;
pub use tier::STATES_PER_REDUCTION;
pub(crate) use tier::row_values_bytes;
pub use tile::Tile;
use tile::{CONVERTED_ROWS, ConvertedFeatures, TileVisitor};
pub(crate) use tile::{SparseColumn, panel_columns};

use crate::request::{PassShape, ProblemSize};
use crate::row_weights::RowWeights;
use crate::{Error, Result};
use kapprox::{FeatureMap, Real};
use kstore::pass::Observer;
use kstore::{RowBlock, RowSource, Workers};
use std::ops::Range;

/// The features of all rows, by the place where they are stored.
enum PhiSource<'a, T: Real> {
    Stored(FeatureStore<'a, T>),
    /// Copies of selected rows, n x p row-major.
    Copied(Vec<T>),
    /// Rows of other features, selected by ascending positions. Every visit extracts these rows
    /// again.
    Positions(&'a StoredFeatures<'a, T>, Vec<usize>),
    /// Features stored in another element type, which every visit converts.
    Converted(&'a dyn ConvertedFeatures<T>),
}

/// The features of all rows, and their targets.
pub struct StoredFeatures<'a, T: Real> {
    context: VisitContext<'a>,
    phi: PhiSource<'a, T>,
    /// Number of rows, n.
    pub n: usize,
    /// Number of features of a row, p.
    pub p: usize,
    /// Codes of the classes of the rows, n numbers; empty for numeric targets.
    pub class_codes: Vec<u32>,
    /// Numeric targets, n x t row-major, as in the table.
    pub y: Vec<f64>,
    /// Codes of the groups of the rows, n numbers; empty if not requested.
    pub group_codes: Vec<u32>,
    /// Folds of the rows, n numbers; empty if there is only one fold.
    pub row_folds: Vec<u16>,
    /// Weights of the rows.
    pub weights: RowWeights,
    /// Positions of the first row of every tile, then n.
    tile_starts: Vec<usize>,
    /// The nonempty segments, in row order.
    segments: Vec<SegmentStart>,
    range: Range<u64>,
    /// True if these are all rows of the run, false for selected rows.
    has_all_rows: bool,
}

/// Where a segment starts.
#[derive(Clone, Copy)]
struct SegmentStart {
    /// Position of the first row of the segment.
    position: usize,
    /// The number of the segment among all segments of the stored rows.
    number: u64,
}

impl<T: Real> std::fmt::Debug for StoredFeatures<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredFeatures").field("n", &self.n).field("p", &self.p).finish_non_exhaustive()
    }
}

/// Returns the bytes of a pass over the features: the decoded rows or the stored features, two
/// tiles of features, and the part of a tile that is converted to f64.
pub(crate) fn pass_bytes(size: &ProblemSize, pass_shape: PassShape) -> usize {
    let row_bytes = (size.d.max(size.map.p)) * size.element_bytes + (size.t + 2) * 8;
    let feature_bytes = 2 * size.map.p * size.element_bytes + 8;
    let map_bytes = size.map.footprint.bytes_for(pass_shape.tile_rows) - size.map.footprint.fixed;
    let f64_tile_bytes = 8 * CONVERTED_ROWS * size.map.p;
    size.cursor_footprint.bytes_for(pass_shape.tile_rows)
        + (pass_shape.prefetch_tiles + 2) * pass_shape.tile_rows * row_bytes
        + pass_shape.tile_rows * feature_bytes
        + map_bytes
        + f64_tile_bytes
}

impl<'a, T: Real> StoredFeatures<'a, T> {
    /// Returns features without classes, targets, groups, folds and weights.
    fn without_targets(
        context: VisitContext<'a>,
        phi: PhiSource<'a, T>,
        (n, p): (usize, usize),
        range: Range<u64>,
        has_all_rows: bool,
    ) -> Self {
        Self {
            context,
            phi,
            n,
            p,
            class_codes: Vec::new(),
            y: Vec::new(),
            group_codes: Vec::new(),
            row_folds: Vec::new(),
            weights: RowWeights::default(),
            tile_starts: Vec::new(),
            segments: Vec::new(),
            range,
            has_all_rows,
        }
    }

    /// Calls `visitor` with every tile of features, in row order.
    ///
    /// # Errors
    /// Errors of reading the rows, of the scratch folder and of `visitor`;
    /// [`kstore::Error::Interrupted`].
    pub fn visit(
        &self,
        observer: &dyn Observer,
        mut visitor: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        self.visit_unit(None, observer, &mut visitor)
    }

    /// Visits the segments of `unit`, a range of consecutive segments, or all segments if it is
    /// `None`. If the rows were selected by positions, all of them are visited. This function is
    /// not generic, so that it is compiled only once.
    fn visit_unit(
        &self,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        match &self.phi {
            PhiSource::Stored(store) => self.visit_stored(store, unit, observer, visitor),
            PhiSource::Copied(phi) => {
                let positions =
                    unit.map_or(0..self.n, |unit| self.segment_start(unit.start)..self.segment_start(unit.end));
                self.visit_memory(positions, observer, visitor, |rows| {
                    Some(&phi[rows.start * self.p..rows.end * self.p])
                })
            }
            PhiSource::Positions(features, positions) => features.visit_selected_locally(positions, observer, visitor),
            PhiSource::Converted(features) => features.visit_converted(unit, observer, visitor),
        }
    }

    /// Visits the features of the rows of the run. If this process lacks features that it should
    /// store, it first computes them.
    fn visit_stored(
        &self,
        store: &FeatureStore<'_, T>,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        let unit = unit.map_or_else(|| store.cut.segments(), Range::clone);
        store.compute_missing(&unit, &self.context, observer)?;
        match store.tier() {
            FeatureTier::Memory => {
                let positions = self.segment_start(unit.start)..self.segment_start(unit.end);
                self.visit_memory(positions, observer, visitor, |rows| self.features_in_memory(store, rows))
            }
            FeatureTier::Scratch => store
                .cached_segments(&unit)
                .into_iter()
                .try_for_each(|part| self.visit_rows(&*part.cache, None, &part.segments, observer, visitor)),
            FeatureTier::Recomputed => self.visit_rows(store.source, Some(store.map), &unit, observer, visitor),
        }
    }

    /// Returns the features of some rows of one segment, or `None` if this process does not have
    /// them in memory.
    fn features_in_memory<'s>(&self, store: &'s FeatureStore<'_, T>, rows: Range<usize>) -> Option<&'s [T]> {
        let segment_number = self.segment_of(rows.start);
        let segment_start = self.segment_start(segment_number);
        store
            .segment_in_memory(segment_number)?
            .get((rows.start - segment_start) * self.p..(rows.end - segment_start) * self.p)
    }

    /// Visits the rows of a source. The rows of the source are stored features, or inputs that
    /// `map` maps to features.
    fn visit_rows(
        &self,
        source: &dyn RowSource<T>,
        map: Option<&dyn FeatureMap<T>>,
        unit: &Range<u64>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        let (mut buffers, mut first_row) = (FeatureBuffers::default(), self.segment_start(unit.start));
        let pass = self.context.pass(observer);
        let visit_block = |block: &RowBlock<'_, T>| {
            let phi = match map {
                Some(map) => {
                    buffers.compute_features(map, block, self.workers());
                    &buffers.row_major[..]
                }
                None => block.x,
            };
            visitor(&Tile { first_row, phi, p: self.p })?;
            first_row += block.len();
            Ok(())
        };
        pass.visit_lot(source, unit, visit_block).map(drop)
    }

    /// Visits the tiles of rows in memory. `features_of(rows)` returns the features of the rows at
    /// these positions, or `None` if this process does not have them.
    fn visit_memory<'s>(
        &self,
        positions: Range<usize>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
        features_of: impl Fn(Range<usize>) -> Option<&'s [T]>,
    ) -> Result<()> {
        for bounds in self.tile_starts.windows(2).filter(|bounds| positions.contains(&bounds[0])) {
            if observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let (first_row, end) = (bounds[0], bounds[1]);
            let phi = features_of(first_row..end).ok_or(Error::Shape {
                what: "features",
                expected: end - first_row,
                got: 0,
            })?;
            visitor(&Tile { first_row, phi, p: self.p })?;
            observer.advance((end - first_row) as u64);
        }
        Ok(())
    }

    /// Returns true if this process has the features of all rows in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        match &self.phi {
            PhiSource::Stored(store) => store.tier() == FeatureTier::Memory && !self.shares_passes(),
            PhiSource::Copied(_) => true,
            PhiSource::Positions(..) | PhiSource::Converted(_) => false,
        }
    }

    /// Returns true if a solver should visit some rows in a second visit when it needs them, and
    /// not in every pass. Features in another type certify a result, and their rows are rarely
    /// needed. Processes that share a run exchange the rows in a second visit anyway.
    pub(crate) fn is_second_visit_cheap(&self) -> bool {
        self.is_in_memory() || self.shares_passes() || matches!(self.phi, PhiSource::Converted(_))
    }

    /// Returns the features of a row, or `None` if this process does not have them in memory.
    pub fn row(&self, i: usize) -> Option<&[T]> {
        match &self.phi {
            PhiSource::Stored(store) => self.features_in_memory(store, i..i + 1),
            PhiSource::Copied(phi) => phi.get(i * self.p..(i + 1) * self.p),
            PhiSource::Positions(..) | PhiSource::Converted(_) => None,
        }
    }

    /// Returns the total weight of the rows outside a fold, or of all rows for `None`. If rows have
    /// no weights, each row counts 1.
    pub(crate) fn weight_outside(&self, excluded_fold: Option<u16>) -> f64 {
        self.weights.weight_sum((0..self.n).filter(|i| excluded_fold.is_none_or(|fold| self.row_folds[*i] != fold)))
    }

    /// Returns the mean weight of the rows outside a fold, or of all rows for `None`.
    pub(crate) fn mean_weight(&self, excluded_fold: Option<u16>) -> f64 {
        let excluded_rows = self.row_folds.iter().filter(|fold| excluded_fold == Some(**fold)).count();
        self.weight_outside(excluded_fold) / (self.n - excluded_rows).max(1) as f64
    }

    /// Returns the seed of random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.context.seed
    }

    /// Returns the pool of threads.
    pub fn workers(&self) -> &'a Workers {
        self.context.resources.workers
    }
}

#[cfg(test)]
mod tests {
    use kstore::TableShape;
    use kstore::scratch::Cache;

    #[test]
    fn a_scratch_row_has_the_planned_size() {
        let shape = TableShape { stored_rows: 0, input_count: 10, target_count: 0, has_weights: false };
        assert_eq!((Cache::<f32>::row_bytes(&shape), Cache::<f64>::row_bytes(&shape)), (10 * 4 + 16, 10 * 8 + 16));
    }
}
