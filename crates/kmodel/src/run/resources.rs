//! What a fit may use, and who watches it.

use super::{Forecast, PassShape};
use kstore::checkpoint::Journal;
use kstore::pass::Observer;
use kstore::scratch::Scratch;
use kstore::{Pass, Workers};
use std::ops::Range;

/// The resources that a training run may use. None of them changes a bit of the result.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Memory budget of the whole process, in bytes.
    pub memory: usize,
    /// The pool of threads.
    pub workers: &'a Workers,
    /// The observer of the stages.
    pub stages: &'a dyn Stages,
    /// The journal that saves the results of passes, with which a stopped run can go on; `None` for runs that begin
    /// anew.
    pub journal: Option<&'a Journal<'a>>,
    /// The scratch folder, where decoded and scaled rows are kept for the passes after the first; `None` to decode them
    /// in every pass.
    pub scratch: Option<&'a Scratch>,
}

impl std::fmt::Debug for Resources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = self.workers.threads();
        f.debug_struct("Resources").field("memory", &self.memory).field("threads", &threads).finish_non_exhaustive()
    }
}

impl<'a> Resources<'a> {
    /// Begins a stage over these stored rows.
    pub fn over(&self, name: &str, rows: Range<u64>) -> Box<dyn Observer + 'a> {
        self.stages.stage(name, Some(rows.end - rows.start))
    }
}

impl PassShape {
    /// A pass with this cut, in `lanes` lanes, with a journal where there is one.
    pub fn pass<'a>(self, lanes: usize, resources: &'a Resources<'a>, observer: &'a dyn Observer) -> Pass<'a> {
        let Self { tile, segment, prefetch, .. } = self;
        let Resources { workers, journal, .. } = *resources;
        Pass { tile, segment, lanes, prefetch, workers, observer, journal }
    }
}

/// An observer of the stages of a run, for progress, times and warnings.
pub trait Stages: Sync {
    /// Begins a stage over `rows` rows, or one that is no pass; it ends when the observer is dropped.
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a>;
    /// Begins a stage of so many steps that are no rows, such as machines.
    fn steps<'a>(&'a self, name: &str, steps: u64) -> Box<dyn Observer + 'a> {
        self.stage(name, Some(steps))
    }
    /// Takes a warning for the user; the run goes on.
    fn warn(&self, text: String);
    /// True where [`Stages::planned`] should be called.
    fn wants_plan(&self) -> bool {
        false
    }
    /// Takes the forecast of the run before it begins.
    fn planned(&self, _forecast: &Forecast) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Stages for Unwatched {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(kstore::pass::Unobserved)
    }
    fn warn(&self, _: String) {}
}
