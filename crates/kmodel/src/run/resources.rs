//! The resources of a fit, and the observer of its stages.

use super::{Forecast, PassShape};
use kstore::checkpoint::Journal;
use kstore::pass::Observer;
use kstore::scratch::ScratchFolder;
use kstore::{Pass, Workers};
use std::ops::Range;

/// The resources that a training run may use. The result is bit-identical for all of them.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Memory budget of the whole process, in bytes.
    pub memory: usize,
    /// Thread pool.
    pub workers: &'a Workers,
    /// Observer of the stages.
    pub stage_observer: &'a dyn StageObserver,
    /// Journal that saves the results of passes, from which a stopped run can resume; `None` for
    /// runs without a checkpoint.
    pub journal: Option<&'a Journal<'a>>,
    /// Scratch folder for decoded and scaled rows, used by all passes after the first; `None` to
    /// decode the rows in every pass.
    pub scratch: Option<&'a ScratchFolder>,
}

impl std::fmt::Debug for Resources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = self.workers.threads();
        f.debug_struct("Resources").field("memory", &self.memory).field("threads", &threads).finish_non_exhaustive()
    }
}

impl<'a> Resources<'a> {
    /// Starts a stage over these stored rows.
    pub fn start_stage_over(&self, name: &str, rows: Range<u64>) -> Box<dyn Observer + 'a> {
        self.stage_observer.start_stage(name, Some(rows.end - rows.start))
    }
}

impl PassShape {
    /// Returns a pass of this shape in `lane_count` lanes, with the journal of `resources`, if any.
    pub fn pass<'a>(self, lane_count: usize, resources: &'a Resources<'a>, observer: &'a dyn Observer) -> Pass<'a> {
        let Self { tile_rows, segment_rows, prefetch_tiles, .. } = self;
        let Resources { workers, journal, .. } = *resources;
        Pass { tile_rows, segment_rows, lane_count, prefetch_tiles, workers, observer, journal }
    }
}

/// An observer of the stages of a run, for progress, times and warnings.
pub trait StageObserver: Sync {
    /// Starts a stage that is a pass over `rows` rows. `None` means that their number is unknown,
    /// or that the stage is not a pass. The stage ends when the returned observer is dropped.
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a>;
    /// Starts a stage that counts steps instead of rows, such as the SVMs to train.
    fn start_steps<'a>(&'a self, name: &str, steps: u64) -> Box<dyn Observer + 'a> {
        self.start_stage(name, Some(steps))
    }
    /// Receives a warning for the user; the run continues.
    fn warn(&self, text: String);
    /// Returns true if [`StageObserver::report_forecast`] should be called.
    fn wants_forecast(&self) -> bool {
        false
    }
    /// Receives the forecast of the run before it starts.
    fn report_forecast(&self, _forecast: &Forecast) {}
    /// Returns true if [`StageObserver::report_landmark_residuals`] should be called.
    #[doc(hidden)]
    fn wants_landmark_residuals(&self) -> bool {
        false
    }
    /// Receives the sum of the leave-one-out residuals of the landmarks
    /// ([`landmark_residual_sum`](crate::growth::landmark_residual_sum)).
    #[doc(hidden)]
    fn report_landmark_residuals(&self, _sum: f64) {}
}

/// An observer that does nothing.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct NoStageObserver;

impl StageObserver for NoStageObserver {
    fn start_stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(kstore::pass::NoObserver)
    }
    fn warn(&self, _: String) {}
}
