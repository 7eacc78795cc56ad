//! The resources of a job: memory, threads, scratch folder, checkpoint and observer.

mod categories;
mod checkpoint;
mod default_folds;
mod forecast;
mod lags;
mod resources;
mod test_rows;

pub use categories::TEXT_COPIES;
pub use checkpoint::Checkpoint;
#[doc(hidden)]
pub use default_folds::RowShift;
pub use forecast::{Forecast, PassShape, Stage, all_fit, memory_plans};
pub use resources::{NoStageObserver, Resources, StageObserver};
#[doc(hidden)]
pub use test_rows::TestSplit;

use crate::linalg::strips::lock;
use kstore::pass::{Engine, Observer};
use kstore::scratch::ScratchFolder;
use kstore::{CancelToken, Workers, budget, rayon};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// The resources that a job may use. The result is bit-identical for all of them.
///
/// ```
/// use ksolve::job::{CancelToken, Run};
/// let cancel = CancelToken::new();
/// let run = Run::new().memory(512 << 20).threads(2).cancel_token(cancel.clone());
/// ```
#[derive(Clone)]
pub struct Run<'a> {
    memory: usize,
    threads: usize,
    /// Workers, started at first use.
    workers: OnceLock<Workers>,
    stage_observer: &'a dyn StageObserver,
    cancel_token: CancelToken,
    #[doc(hidden)]
    pub scratch: Option<&'a ScratchFolder>,
    #[doc(hidden)]
    pub checkpoint: Option<Checkpoint<'a>>,
    #[doc(hidden)]
    pub engine: Option<&'a dyn Engine>,
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("memory", &self.memory).field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Run<'a> {
    /// Returns the default resources: half of the memory (of the control group, if it limits the
    /// memory, otherwise of the machine), all cores, no scratch folder and no observer.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            memory: budget::default_memory(),
            threads: cores,
            workers: OnceLock::new(),
            stage_observer: &NoStageObserver,
            cancel_token: CancelToken::new(),
            scratch: None,
            checkpoint: None,
            engine: None,
        }
    }

    /// Sets the memory budget of the whole process, in bytes.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Sets the number of threads; the job creates its own pool.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, workers: OnceLock::new(), ..self }
    }

    /// Sets the thread pool, such as the pool of the calling program.
    #[must_use]
    pub fn pool(self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.with_workers(Workers::from_pool(pool))
    }

    /// Sets the worker threads, such as those of an earlier run.
    #[doc(hidden)]
    #[must_use]
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { workers: OnceLock::from(workers.with_cancel_token(self.cancel_token.clone())), ..self }
    }

    /// Sets the observer of stages, rows and warnings.
    #[must_use]
    pub fn observer(self, stage_observer: &'a dyn StageObserver) -> Self {
        Self { stage_observer, ..self }
    }

    /// Sets the token that can stop the run within a tile of rows, a block of a matrix or a step of
    /// an iteration. The error then satisfies [`crate::Error::is_interrupted`].
    #[must_use]
    pub fn cancel_token(self, cancel: CancelToken) -> Self {
        let workers = self.workers.into_inner().map(|workers| workers.with_cancel_token(cancel.clone()));
        Self { workers: workers.map_or_else(OnceLock::new, OnceLock::from), cancel_token: cancel, ..self }
    }

    /// Sets the folder for decoded rows, features and kernel values that do not fit in memory.
    #[must_use]
    pub fn scratch(self, scratch: &'a ScratchFolder) -> Self {
        Self { scratch: Some(scratch), ..self }
    }

    /// Sets the checkpoint, from which a stopped run can resume.
    #[must_use]
    pub fn checkpoint(self, checkpoint: Checkpoint<'a>) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Sets the engine that shares passes over rows with other processes; it excludes a checkpoint.
    #[must_use]
    pub fn engine(self, engine: &'a dyn Engine) -> Self {
        Self { engine: Some(engine), ..self }
    }

    /// Returns the memory budget of the process in bytes.
    #[doc(hidden)]
    pub fn memory_budget(&self) -> usize {
        self.memory
    }

    /// Returns the thread pool; the first call starts it.
    #[doc(hidden)]
    pub fn workers(&self) -> &Workers {
        self.workers.get_or_init(|| Workers::new(self.threads).with_cancel_token(self.cancel_token.clone()))
    }

    /// Returns the observer of the stages.
    #[doc(hidden)]
    pub fn stage_observer(&self) -> &dyn StageObserver {
        self.stage_observer
    }

    /// Returns the resources without a journal, for work other than a fit, such as an error curve.
    /// The cancel token also stops this work.
    #[doc(hidden)]
    pub fn resources(&self) -> Resources<'_> {
        Resources {
            memory: self.memory,
            workers: self.workers(),
            stage_observer: self.stage_observer,
            journal: None,
            scratch: self.scratch,
        }
    }

    /// Returns an observer that times the stages, stores the warnings, and stops if the run is
    /// cancelled.
    #[doc(hidden)]
    pub fn stage_recorder(&self) -> StageRecorder<'_> {
        StageRecorder {
            stage_observer: self.stage_observer,
            cancel_token: &self.cancel_token,
            seconds: Mutex::default(),
            warnings: Mutex::default(),
        }
    }
}

/// Times the stages and stores the warnings of a run, and forwards them to its observer.
#[doc(hidden)]
pub struct StageRecorder<'a> {
    stage_observer: &'a dyn StageObserver,
    cancel_token: &'a CancelToken,
    seconds: Mutex<Vec<(String, f64)>>,
    warnings: Mutex<Vec<String>>,
}

impl std::fmt::Debug for StageRecorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageRecorder")
            .field("seconds", &self.seconds)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl StageRecorder<'_> {
    /// Returns the seconds of each stage, in the order of completion; stages with the same name are
    /// summed.
    pub fn seconds(&self) -> Vec<(String, f64)> {
        lock(&self.seconds).clone()
    }

    fn timed_stage<'s>(&'s self, name: &str, observer: Box<dyn Observer + 's>) -> Box<dyn Observer + 's> {
        Box::new(TimedStage { recorder: self, observer, name: name.to_string(), start: Instant::now() })
    }

    /// Returns the warnings, in the order in which they were given.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }
}

impl StageObserver for StageRecorder<'_> {
    fn start_stage<'s>(&'s self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 's> {
        self.timed_stage(name, self.stage_observer.start_stage(name, rows))
    }

    fn start_steps<'s>(&'s self, name: &str, steps: u64) -> Box<dyn Observer + 's> {
        self.timed_stage(name, self.stage_observer.start_steps(name, steps))
    }

    fn wants_forecast(&self) -> bool {
        self.stage_observer.wants_forecast()
    }

    fn report_forecast(&self, forecast: &Forecast) {
        self.stage_observer.report_forecast(forecast);
    }

    fn wants_landmark_residuals(&self) -> bool {
        self.stage_observer.wants_landmark_residuals()
    }

    fn report_landmark_residuals(&self, sum: f64) {
        self.stage_observer.report_landmark_residuals(sum);
    }

    fn warn(&self, text: String) {
        lock(&self.warnings).push(text.clone());
        self.stage_observer.warn(text);
    }
}

struct TimedStage<'a> {
    recorder: &'a StageRecorder<'a>,
    observer: Box<dyn Observer + 'a>,
    name: String,
    start: Instant,
}

impl Observer for TimedStage<'_> {
    fn advance(&self, rows: u64) {
        self.observer.advance(rows);
    }

    fn report_restored(&self, rows: u64) {
        self.observer.report_restored(rows);
    }

    fn report_selection(&self, count: usize, passes: u64, evaluations: u64) {
        self.observer.report_selection(count, passes, evaluations);
    }

    fn should_stop(&self) -> bool {
        self.recorder.cancel_token.is_cancelled() || self.observer.should_stop()
    }
}

impl Drop for TimedStage<'_> {
    fn drop(&mut self) {
        let elapsed = self.start.elapsed().as_secs_f64();
        let mut seconds = lock(&self.recorder.seconds);
        match seconds.iter_mut().find(|(name, _)| *name == self.name) {
            Some((_, sum)) => *sum += elapsed,
            None => seconds.push((std::mem::take(&mut self.name), elapsed)),
        }
    }
}
