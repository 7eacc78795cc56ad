//! The sizes of a fit, and how its passes are cut into tiles and segments.
//!
//! Tiles and segments are functions of the sizes and define the order of every sum. Lanes and prefetch come from the budget and define
//! nothing.

use super::{LandmarkSource, MetricSource, TrainOptions};
use crate::Result;
use kapprox::map::MapRequest;
use kapprox::map::nystrom::STRIP;
use kapprox::{Real, landmark::ChoiceSize};
use kstore::{Footprint, Reading, RowBuf, RowSource, Selected};

/// Number of rows the median distance is taken over: half a million pairs, which give the median within 1 %.
pub const MEDIAN_ROWS: usize = 1000;

/// Rows that medians of features are taken of: the median of so many lies within 1.5 % of the rows of the true one, mostly.
pub const MEDIANS: usize = 2000;

/// Rows of a tile: enough that adding its Gram matrix (24 bytes of traffic per entry) costs little beside computing it
/// (2 x 2,304 flops per entry); eight strips.
const TILE: usize = 8 * STRIP;

/// Bytes a tile's rows and features may take before the tile is made shorter.
const TILE_BYTES: usize = 128 << 20;

/// The sizes that decide how a training run is cut and what it holds.
#[derive(Clone, Debug)]
pub struct ProblemSize {
    /// Number of rows, or an upper bound.
    pub n: u64,
    /// Number of features of a row in the table.
    pub columns: usize,
    /// Number of features that the kernel sees: those of a row, behind the metric where there is one.
    pub d: usize,
    /// Number of targets of the regression.
    pub t: usize,
    /// True for rows with weights.
    pub weighted: bool,
    /// Number of columns that the second moments of the features are taken with: the targets, or features of them.
    pub moment_columns: usize,
    /// The sizes of the feature map.
    pub map: kapprox::map::MapShape,
    /// Number of landmarks, where the solver has more nodes than landmarks; else that of the map.
    pub landmarks: usize,
    /// Number of folds.
    pub folds: usize,
    /// Number of classes whose second moments are kept apart; 1 where those of all rows are summed.
    pub classes: usize,
    /// Ranks that are compared.
    pub ranks: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Number of rows that landmarks are chosen among; `None` for all, by passes.
    pub candidates: Option<usize>,
    /// Bytes that the landmark scheme holds beside these rows.
    pub scheme: usize,
    /// Number of rows that the scaling takes medians of.
    pub medians: usize,
    /// Bytes that an open cursor holds.
    pub cursor: Footprint,
    /// Bytes that the open files hold beside the cursors.
    pub held: usize,
    /// Number of threads.
    pub threads: usize,
    /// True where a pass keeps the features for many more, instead of summing their second moments.
    pub keeps: bool,
}

/// Number of rows of a tile, for rows of d features mapped to p.
pub fn tile_rows(d: usize, p: usize, element: usize) -> usize {
    let fit = TILE_BYTES / ((d + p).max(1) * element);
    (fit / STRIP * STRIP).clamp(STRIP, TILE)
}

impl ProblemSize {
    #[doc(hidden)]
    pub fn of_selected<T: Real>(
        selected: &Selected,
        options: &TrainOptions,
        threads: usize,
        t: usize,
        folds: usize,
    ) -> Result<Self> {
        let source = selected.rows::<T>(Reading::default())?;
        Self::of(&source, options, threads, t, folds)
    }

    /// The sizes of a fit of the rows of `source` with `t` targets and so many folds.
    pub fn of<T: Real>(
        source: &dyn RowSource<T>,
        options: &TrainOptions,
        threads: usize,
        t: usize,
        folds: usize,
    ) -> Result<Self> {
        let range = source.range();
        let (n, columns) = (range.end - range.start, source.shape().features);
        let d = options.metric.outputs(columns);
        let rows = options.candidates.map_or(n, |candidates| n.min(candidates as u64));
        let mut map = map_shape::<T>(options, d, n)?;
        let scheme = match (options.landmarks.scheme(), map.landmarks) {
            (Some(scheme), Some(m)) => {
                // with the candidates, apart, about their means, and what is left of them
                let targets = if scheme.needs_targets { 4 * 8 * (t + 1) } else { 0 };
                let targets = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(targets);
                (scheme.bytes)(ChoiceSize { element: size_of::<T>(), n: rows, d, m }).saturating_add(targets)
            }
            _ => 0,
        };
        if options.with.is_some() {
            // the maps of two views at once
            (map.p, map.making) = (2 * map.p, map.footprint.fixed + map.making);
            map.footprint = map.footprint + map.footprint;
        }
        let (mut cursor, mut held) = (source.footprint(), source.held());
        let mut candidates = options.candidates;
        if options.metric != MetricSource::None {
            // rows before the metric
            cursor.per_row += RowBuf::<T>::bytes_per_row(&source.shape());
        }
        if let LandmarkSource::Rows(table) = &options.landmarks {
            let landmarks = table.rows::<T>(Reading::default())?;
            let Footprint { fixed, per_row } = RowSource::<T>::footprint(&landmarks);
            cursor = Footprint { fixed: cursor.fixed.max(fixed), per_row: cursor.per_row.max(per_row) };
            held += RowSource::<T>::held(&landmarks);
            candidates = None;
        }
        Ok(Self {
            n,
            columns,
            d,
            t,
            weighted: source.shape().weighted,
            moment_columns: t,
            map,
            landmarks: options.landmark_count().min(map.p),
            folds,
            classes: 1,
            ranks: options.ranks.len().max(1),
            element: size_of::<T>(),
            candidates,
            scheme,
            medians: if options.scaling.takes_medians() { MEDIANS } else { 0 },
            cursor,
            held,
            threads,
            keeps: false,
        })
    }
}

/// The shape of the map that is asked for, on `n` rows with `d` features: it has no more landmarks than there are rows.
/// Plans take n from the stored rows, runs from those that are left.
pub fn map_shape<T: Real>(options: &TrainOptions, d: usize, n: u64) -> Result<kapprox::map::MapShape> {
    let rows = match &options.landmarks {
        LandmarkSource::Rows(table) => table.range().end - table.range().start,
        _ => options.candidates.map_or(n, |candidates| n.min(candidates as u64)),
    };
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let d = options.kernel.sparse().filter(|_| options.map.is_without_rows()).unwrap_or(d);
    Ok(options.map.shape(MapRequest { d, rank: options.rank, rows, element: size_of::<T>() })?)
}
