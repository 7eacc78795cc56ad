//! The new rows of shards, compared with the prepared rows: see [`kmodel::growth`].

use super::extent::StatisticsMetadata;
use crate::Result;
use crate::request::{Forecast, StageObserver};
use kmodel::growth::{Growth, ResidualSums};
use kstore::Merge;
use kstore::checkpoint::StateFile;
use kstore::pass::Observer;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// Largest number of columns with moved ranges that the statistics of a shard store: the columns
/// with most rows outside. It bounds the metadata of many merged shards.
pub(super) const MAX_MOVED_COLUMNS: usize = 256;

/// The prepared rows and the new rows of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShardGrowth {
    /// Stored rows of the shard.
    pub(super) rows: Range<u64>,
    /// Residuals of the prepared rows of the shard; `None` if the map is not a projection.
    pub(super) fit_residuals: Option<ResidualSums>,
    pub(super) new_rows: Growth,
}

impl ShardGrowth {
    /// Keeps the columns with most rows outside their ranges.
    pub(super) fn limit_columns(&mut self) {
        let ranges = &mut self.new_rows.ranges;
        if ranges.len() > MAX_MOVED_COLUMNS {
            ranges.sort_by_key(|range| std::cmp::Reverse(range.below + range.above));
            ranges.truncate(MAX_MOVED_COLUMNS);
        }
    }
}

/// Sums of residuals of some stored rows.
pub(super) type RowResiduals = (Range<u64>, ResidualSums);

/// Divides residuals at the first new row `boundary`. Returns the sums of the rows before and after
/// it, without rows on both sides.
pub(super) fn split_residuals(residuals: &[RowResiduals], boundary: u64) -> [Option<ResidualSums>; 2] {
    let total = |is_part: &dyn Fn(&Range<u64>) -> bool| {
        let sums = residuals.iter().filter(|(rows, _)| is_part(rows)).map(|(_, sums)| *sums);
        sums.reduce(|mut total, sums| {
            total.merge(&sums);
            total
        })
    };
    [total(&|rows| rows.end <= boundary), total(&|rows| rows.start >= boundary)]
}

/// Returns the new rows of `statistics`, compared with the prepared rows. The residuals of the
/// prepared rows come from `statistics` and from the earlier statistics, if any. Returns `None` if
/// `statistics` has no new rows.
///
/// # Errors
/// A file that is not a file of statistics.
pub fn growth(statistics: &Path, earlier: Option<&Path>) -> Result<Option<Growth>> {
    let metadata = StatisticsMetadata::from_file(&StateFile::open(statistics)?)?;
    let earlier = earlier.map(|path| StatisticsMetadata::from_file(&StateFile::open(path)?)).transpose()?;
    let earlier_shards = earlier.map_or(Vec::new(), |earlier| earlier.growth);
    Ok(metadata.total_growth(&earlier_shards))
}

impl StatisticsMetadata {
    /// Returns the new rows of all shards; `earlier` are shards whose prepared rows also count.
    pub(super) fn total_growth(&self, earlier: &[ShardGrowth]) -> Option<Growth> {
        let mut shards: Vec<&ShardGrowth> = self.growth.iter().collect();
        shards.sort_by_key(|shard| shard.rows.start);
        let mut total = Growth::default();
        shards.iter().for_each(|shard| total.merge(&shard.new_rows));
        let mut fit_shards: Vec<&ShardGrowth> = shards.into_iter().chain(earlier).collect();
        fit_shards.sort_by_key(|shard| shard.rows.start);
        // a row of both files counts once
        fit_shards.dedup_by(|later, shard| later.rows == shard.rows);
        let mut fit_residuals = ResidualSums::default();
        fit_shards.iter().filter_map(|shard| shard.fit_residuals.as_ref()).for_each(|sums| fit_residuals.merge(sums));
        if let Some(landmark_residuals) = self.landmark_residuals.filter(|_| fit_residuals.rows > 0) {
            // a part of the prepared rows stands for all of them
            let trace = fit_residuals.trace * total.fit_rows as f64 / fit_residuals.rows as f64;
            let missed = fit_residuals.missed_fraction();
            total.fit_missed = Some(Growth::leave_one_out_fraction(missed, trace, landmark_residuals));
        }
        (total.rows > 0).then_some(total)
    }
}

/// An observer that also receives the residuals of the landmarks.
pub(super) struct LandmarkObserver<'a> {
    stage_observer: &'a dyn StageObserver,
    residuals: OnceLock<f64>,
}

impl<'a> LandmarkObserver<'a> {
    pub(super) fn new(stage_observer: &'a dyn StageObserver) -> Self {
        Self { stage_observer, residuals: OnceLock::new() }
    }

    /// Returns the sum of the leave-one-out residuals of the landmarks; `None` for a map that is
    /// not a projection.
    pub(super) fn landmark_residuals(&self) -> Option<f64> {
        self.residuals.get().copied()
    }
}

impl StageObserver for LandmarkObserver<'_> {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        self.stage_observer.start_stage(name, rows)
    }
    fn start_steps<'a>(&'a self, name: &str, steps: u64) -> Box<dyn Observer + 'a> {
        self.stage_observer.start_steps(name, steps)
    }
    fn warn(&self, text: String) {
        self.stage_observer.warn(text);
    }
    fn wants_forecast(&self) -> bool {
        self.stage_observer.wants_forecast()
    }
    fn report_forecast(&self, forecast: &Forecast) {
        self.stage_observer.report_forecast(forecast);
    }
    fn wants_landmark_residuals(&self) -> bool {
        true
    }
    fn report_landmark_residuals(&self, sum: f64) {
        // a fit reports them once
        let _ = self.residuals.set(sum);
    }
}
