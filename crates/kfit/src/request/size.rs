//! The sizes of a fit, and the tiles and segments of its passes.
//!
//! A tile is a block of consecutive rows, and a segment is a fixed number of tiles. Both are
//! functions of the sizes, and define the order of every sum. Lanes (parallel workers) and prefetch
//! depend on the memory budget, and do not change results.

use super::{LandmarkSource, MetricSource, TrainOptions};
use crate::Result;
use kapprox::map::MapRequest;
use kapprox::map::nystrom::STRIP_ROWS;
use kapprox::{Real, landmark::SelectionSize};
use kstore::{Footprint, ReadSettings, RowBuf, RowSource, SelectedTable};

/// Sample size for the median distance. The half a million pairs of these rows determine the median
/// within 1 %.
pub const MEDIAN_ROWS: usize = 1000;

/// Sample size for the medians of the scaling. The sample median of a column usually lies between
/// its quantiles 48.5 % and 51.5 %.
pub(crate) const SCALING_MEDIAN_ROWS: usize = 2000;

/// Maximum number of rows of a tile: eight strips. With this many rows, adding a tile's Gram matrix
/// (24 bytes of memory traffic per entry) costs little compared with computing it (2 x 2,304 flops
/// per entry).
const MAX_TILE_ROWS: usize = 8 * STRIP_ROWS;

/// Maximum bytes of a tile's rows and features. A tile that would exceed them gets fewer rows.
const MAX_TILE_BYTES: usize = 128 << 20;

/// The sizes that determine passes and memory of a training run.
#[derive(Clone, Debug)]
pub struct ProblemSize {
    /// Number of rows, or an upper bound.
    pub n: u64,
    /// Number of input columns in the table.
    pub input_columns: usize,
    /// Number of columns that the kernel sees: the outputs of the metric if a metric is used, else
    /// the inputs.
    pub d: usize,
    /// Number of regression targets.
    pub t: usize,
    /// True if rows have weights.
    pub has_weights: bool,
    /// Number of columns in the cross moments with the features: targets or target features.
    pub moment_columns: usize,
    /// Sizes of the feature map.
    pub map: kapprox::map::MapShape,
    /// Number of landmarks. For a solver on a neighbour graph, it is smaller than the number of
    /// nodes; for any other solver, it is the number of landmarks of the map.
    pub landmark_count: usize,
    /// Number of folds.
    pub fold_count: usize,
    /// Number of classes with separate second moments; 1 for moments of all rows.
    pub moment_class_count: usize,
    /// Number of ranks that are compared.
    pub rank_count: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Number of candidate rows in memory; `None` if all rows are candidates, which passes then
    /// read.
    pub candidate_count: Option<usize>,
    /// Bytes that the landmark scheme needs in addition to the candidates.
    pub scheme_bytes: usize,
    /// Number of sampled rows for the medians of the scaling.
    pub median_row_count: usize,
    /// Bytes of an open cursor.
    pub cursor_footprint: Footprint,
    /// Bytes of the open files in addition to the cursors.
    pub open_file_bytes: usize,
    /// Number of threads.
    pub threads: usize,
    /// True if a pass stores the features for later passes instead of summing their second moments.
    pub stores_features: bool,
}

/// Returns the number of rows of a tile, for rows of d columns that are mapped to p features.
pub fn tile_rows(d: usize, p: usize, element_bytes: usize) -> usize {
    let max_rows = MAX_TILE_BYTES / ((d + p).max(1) * element_bytes);
    (max_rows / STRIP_ROWS * STRIP_ROWS).clamp(STRIP_ROWS, MAX_TILE_ROWS)
}

impl ProblemSize {
    /// Returns the sizes of a fit to the selected rows, as [`ProblemSize::from_source`].
    ///
    /// # Errors
    /// The rows cannot be opened; the errors of [`ProblemSize::from_source`].
    #[doc(hidden)]
    pub fn from_selected<T: Real>(
        selected: &SelectedTable,
        options: &TrainOptions,
        threads: usize,
        t: usize,
        fold_count: usize,
    ) -> Result<Self> {
        let source = selected.rows::<T>(ReadSettings::default())?;
        Self::from_source(&source, options, threads, t, fold_count)
    }

    /// Returns the sizes of a fit to the rows of `source`, with `t` targets and the given number of
    /// folds.
    ///
    /// # Errors
    /// The errors of [`map_shape`]; landmarks from a file cannot be opened.
    pub fn from_source<T: Real>(
        source: &dyn RowSource<T>,
        options: &TrainOptions,
        threads: usize,
        t: usize,
        fold_count: usize,
    ) -> Result<Self> {
        let range = source.range();
        let (n, input_columns) = (range.end - range.start, source.shape().input_count);
        let d = options.metric.output_count(input_columns);
        let candidate_row_count = options.candidates.map_or(n, |candidates| n.min(candidates as u64));
        let mut map = map_shape::<T>(options, d, n)?;
        let scheme_bytes = match (options.landmarks.scheme(), map.landmark_count) {
            (Some(scheme), Some(m)) => {
                // four copies of the targets: with the candidates, as a separate vector, centred,
                // and as residuals
                let target_row_bytes = if scheme.needs_targets { 4 * 8 * (t + 1) } else { 0 };
                let target_bytes =
                    usize::try_from(candidate_row_count).unwrap_or(usize::MAX).saturating_mul(target_row_bytes);
                (scheme.extra_bytes)(SelectionSize { element_bytes: size_of::<T>(), n: candidate_row_count, d, m })
                    .saturating_add(target_bytes)
            }
            _ => 0,
        };
        if options.second_kernel.is_some() {
            // both maps are in memory at the same time
            (map.p, map.build_bytes) = (2 * map.p, map.footprint.fixed + map.build_bytes);
            map.footprint = map.footprint + map.footprint;
        }
        let (mut cursor, mut open_file_bytes) = (source.footprint(), source.metadata_bytes());
        let mut candidate_count = options.candidates;
        if options.metric != MetricSource::None {
            // the rows before the metric need a second buffer
            cursor.per_row += RowBuf::<T>::bytes_per_row(&source.shape());
        }
        if let LandmarkSource::Rows(table) = &options.landmarks {
            let landmark_rows = table.rows::<T>(ReadSettings::default())?;
            let Footprint { fixed, per_row } = RowSource::<T>::footprint(&landmark_rows);
            cursor = Footprint { fixed: cursor.fixed.max(fixed), per_row: cursor.per_row.max(per_row) };
            open_file_bytes += RowSource::<T>::metadata_bytes(&landmark_rows);
            candidate_count = None;
        }
        Ok(Self {
            n,
            input_columns,
            d,
            t,
            has_weights: source.shape().has_weights,
            moment_columns: t,
            map,
            landmark_count: options.landmark_count().min(map.p),
            fold_count,
            moment_class_count: 1,
            rank_count: options.ranks.len().max(1),
            element_bytes: size_of::<T>(),
            candidate_count,
            scheme_bytes,
            median_row_count: if options.scaling.needs_medians() { SCALING_MEDIAN_ROWS } else { 0 },
            cursor_footprint: cursor,
            open_file_bytes,
            threads,
            stores_features: false,
        })
    }
}

/// Returns the shape of the requested map for `n` rows of `d` columns, with at most `n` landmarks.
/// A plan passes the number of stored rows; a run passes the number of rows that remain after
/// filtering.
///
/// # Errors
/// The map does not support the options.
pub fn map_shape<T: Real>(options: &TrainOptions, d: usize, n: u64) -> Result<kapprox::map::MapShape> {
    let candidate_count = match &options.landmarks {
        LandmarkSource::Rows(table) => table.range().end - table.range().start,
        _ => options.candidates.map_or(n, |candidates| n.min(candidates as u64)),
    };
    let candidate_count = usize::try_from(candidate_count).unwrap_or(usize::MAX);
    let d = options.kernel.sparse_columns().filter(|_| options.map.is_data_independent()).unwrap_or(d);
    Ok(options.map.shape(MapRequest { d, rank: options.rank, candidate_count, element_bytes: size_of::<T>() })?)
}
