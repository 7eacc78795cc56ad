//! The features of all rows, for solvers that read them many times.
//!
//! The features are stored in memory if the memory plan has room for them. Otherwise they are
//! stored in a scratch folder if its limit permits, and otherwise every pass recomputes them. In
//! all three cases a solver reads bit-identical tiles (blocks of consecutive rows) in the same
//! order, because the map always computes the features of the same tiles.
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
pub use stored::StopOnly;
pub use tier::FeatureTier;
pub use tier::STATES_PER_FOLD;
pub(crate) use tier::values_bytes;
pub use tile::Tile;
use tile::{TileVisitor, WIDEN_ROWS, Widen};

use crate::request::{PassShape, ProblemSize};
use crate::row_weights::RowWeights;
use crate::{Error, Result};
use kapprox::{FeatureMap, Real};
use kstore::pass::Observer;
use kstore::{RowBlock, RowSource, Workers};
use std::ops::Range;

/// The features of all rows, by the place where they are stored.
enum Phi<'a, T: Real> {
    Stored(FeatureStore<'a, T>),
    /// Copies of selected rows, n x p row-major.
    Copied(Vec<T>),
    /// Rows of other features, selected by ascending positions. Every visit extracts these rows
    /// again.
    Positions(&'a StoredFeatures<'a, T>, Vec<usize>),
    /// Features stored in another element type, which every visit converts.
    Wide(&'a dyn Widen<T>),
}

/// The features of all rows, and their targets.
pub struct StoredFeatures<'a, T: Real> {
    context: VisitContext<'a>,
    phi: Phi<'a, T>,
    /// Number of rows, n.
    pub n: usize,
    /// Number of features of a row, p.
    pub p: usize,
    /// Codes of the classes of the rows, n numbers; empty for numeric targets.
    pub codes: Vec<u32>,
    /// Numeric targets, n x t row-major, as in the table.
    pub y: Vec<f64>,
    /// Codes of the groups of the rows, n numbers; empty if not requested.
    pub groups: Vec<u32>,
    /// Folds of the rows, n numbers; empty if there is only one fold.
    pub folds: Vec<u16>,
    /// Weights of the rows.
    pub weights: RowWeights,
    /// Positions of the first row of every tile, then n.
    starts: Vec<usize>,
    /// Position of the first row of every nonempty segment, and the number that the segment has
    /// among all segments of the stored rows.
    segments: Vec<(usize, u64)>,
    range: Range<u64>,
    /// True if these are all rows of the run, false for selected rows.
    all_rows: bool,
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
    let map_bytes = size.map.footprint.bytes_for(pass_shape.tile) - size.map.footprint.fixed;
    let wide_bytes = 8 * WIDEN_ROWS * size.map.p;
    size.cursor.bytes_for(pass_shape.tile)
        + (pass_shape.prefetch + 2) * pass_shape.tile * row_bytes
        + pass_shape.tile * feature_bytes
        + map_bytes
        + wide_bytes
}

impl<'a, T: Real> StoredFeatures<'a, T> {
    /// Features without classes, targets, groups, folds and weights.
    fn without_targets(
        context: VisitContext<'a>,
        phi: Phi<'a, T>,
        (n, p): (usize, usize),
        range: Range<u64>,
        all_rows: bool,
    ) -> Self {
        let (codes, y, groups, folds, weights) = Default::default();
        let (starts, segments) = Default::default();
        Self { context, phi, n, p, codes, y, groups, folds, weights, starts, segments, range, all_rows }
    }

    /// Calls `visitor` with every tile of features, in row order.
    ///
    /// # Errors Errors of reading the rows, of the scratch folder and of `visitor`;
    /// [`kstore::Error::Interrupted`].
    pub fn visit(
        &self,
        observer: &dyn Observer,
        mut visitor: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        self.visit_unit(None, observer, &mut visitor)
    }

    /// Visits the segments of a work unit, or all segments for `None`. If the rows were selected by
    /// positions, all of them are visited. This function is not generic, so that it is compiled
    /// only once.
    fn visit_unit(
        &self,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        match &self.phi {
            Phi::Stored(stored) => self.visit_stored(stored, unit, observer, visitor),
            Phi::Copied(phi) => {
                let rows =
                    unit.map_or(0..self.n, |range| self.segment_start(range.start)..self.segment_start(range.end));
                self.visit_memory(rows, observer, visitor, |rows| Some(&phi[rows.start * self.p..rows.end * self.p]))
            }
            Phi::Positions(features, positions) => features.visit_selected_locally(positions, observer, visitor),
            Phi::Wide(features) => features.widen(unit, observer, visitor),
        }
    }

    /// Visits the features of the rows of the run. If this process lacks features that it should
    /// store, it first computes them.
    fn visit_stored(
        &self,
        stored: &FeatureStore<'_, T>,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        let unit = unit.map_or_else(|| stored.cut.segments(), Range::clone);
        stored.fill_missing(&unit, &self.context, observer)?;
        match stored.tier() {
            FeatureTier::Memory => {
                let rows = self.segment_start(unit.start)..self.segment_start(unit.end);
                self.visit_memory(rows, observer, visitor, |rows| self.in_memory(stored, rows))
            }
            FeatureTier::Scratch => stored
                .scratch_parts(&unit)
                .into_iter()
                .try_for_each(|(part, cache)| self.visit_rows(&*cache, None, &part, observer, visitor)),
            FeatureTier::Recomputed => self.visit_rows(stored.source, Some(stored.map), &unit, observer, visitor),
        }
    }

    /// Returns the features of some rows of one segment; `None` if this process does not have them
    /// in memory.
    fn in_memory<'s>(&self, stored: &'s FeatureStore<'_, T>, rows: Range<usize>) -> Option<&'s [T]> {
        let number = self.segment_of(rows.start);
        let first = self.segment_start(number);
        stored.segment_in_memory(number)?.get((rows.start - first) * self.p..(rows.end - first) * self.p)
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
        let (mut buffers, mut first) = (FeatureBuffers::default(), self.segment_start(unit.start));
        let pass = self.context.pass(observer);
        let tile = |block: &RowBlock<'_, T>| {
            let phi = match map {
                Some(map) => {
                    buffers.fill(map, block, self.workers());
                    &buffers.rows[..]
                }
                None => block.x,
            };
            visitor(&Tile { first, phi, p: self.p })?;
            first += block.len();
            Ok(())
        };
        pass.visit_lot(source, unit, tile).map(drop)
    }

    /// Visits the tiles of rows in memory; `features_of` returns their features.
    fn visit_memory<'s>(
        &self,
        rows: Range<usize>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
        features_of: impl Fn(Range<usize>) -> Option<&'s [T]>,
    ) -> Result<()> {
        for bounds in self.starts.windows(2).filter(|bounds| rows.contains(&bounds[0])) {
            if observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let (first, end) = (bounds[0], bounds[1]);
            let phi =
                features_of(first..end).ok_or(Error::Shape { what: "features", expected: end - first, got: 0 })?;
            visitor(&Tile { first, phi, p: self.p })?;
            observer.advance((end - first) as u64);
        }
        Ok(())
    }

    /// Returns the features of a row; `None` if this process does not have them in memory.
    pub fn row(&self, i: usize) -> Option<&[T]> {
        match &self.phi {
            Phi::Stored(stored) => self.in_memory(stored, i..i + 1),
            Phi::Copied(phi) => phi.get(i * self.p..(i + 1) * self.p),
            Phi::Positions(..) | Phi::Wide(_) => None,
        }
    }

    /// Returns the total weight of the rows outside a fold, or of all rows for `None`. If rows have
    /// no weights, each row counts 1.
    pub(crate) fn weight_outside(&self, left_out: Option<u16>) -> f64 {
        self.weights.total((0..self.n).filter(|i| left_out.is_none_or(|fold| self.folds[*i] != fold)))
    }

    /// Returns the mean weight of the rows outside a fold, or of all rows for `None`.
    pub(crate) fn mean_weight(&self, left_out: Option<u16>) -> f64 {
        let left_out_rows = self.folds.iter().filter(|fold| left_out == Some(**fold)).count();
        self.weight_outside(left_out) / (self.n - left_out_rows).max(1) as f64
    }

    /// The seed of random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.context.seed
    }

    /// The pool of threads.
    pub fn workers(&self) -> &'a Workers {
        self.context.resources.workers
    }
}

#[cfg(test)]
mod tests {
    use kstore::TableShape;
    use kstore::scratch::Cache;

    #[test]
    fn a_row_in_scratch_takes_what_the_choice_counts() {
        let shape = TableShape { stored_rows: 0, inputs: 10, targets: 0, has_weights: false };
        assert_eq!((Cache::<f32>::row_bytes(&shape), Cache::<f64>::row_bytes(&shape)), (10 * 4 + 16, 10 * 8 + 16));
    }
}
