//! The terminal display of `kmill tune`.

use crate::args::Run;
use crate::interrupt;
use crate::pipeline::FirstStages;
use crate::progress::Work;
use ksolve::job::Stages;
use ksolve::tune::{Pace, Part, SearchListener};
use kstore::pass::Observer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shows the stages until the first steps begin; afterwards shows the steps, without their stages
/// and warnings.
pub(super) struct SearchStages<'a> {
    run: &'a Run,
    pace: &'a Pace,
    first: FirstStages<'a>,
    work: Mutex<Option<Work<'a>>>,
}

impl<'a> SearchStages<'a> {
    pub(super) fn new(run: &'a Run, pace: &'a Pace) -> Self {
        let first = FirstStages::new(&run.progress);
        Self { run, pace, first, work: Mutex::new(None) }
    }

    fn work(&self) -> MutexGuard<'_, Option<Work<'a>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stages for SearchStages<'_> {
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        self.first.stage(name, rows)
    }
    fn warn(&self, text: String) {
        if !self.first.are_over() {
            self.first.warn(text);
        }
    }
}

impl SearchListener for SearchStages<'_> {
    fn begin(&self, part: Part, steps: u64) {
        self.first.end();
        *self.work() = Some(self.run.progress.work(&part.to_string(), steps, 0));
    }
    fn next(&self, what: &str) -> ksolve::Result<()> {
        if interrupt::requested() {
            return Err(kstore::Error::Interrupted.into());
        }
        self.work().iter().for_each(|work| work.begin(what));
        Ok(())
    }
    fn done(&self, what: &str, took: Duration) {
        self.work().iter().for_each(|work| work.end(what, took));
    }
    fn end(&self) {
        self.work().take().into_iter().for_each(Work::finish);
    }
    fn is_late(&self, part: Part, next: Duration) -> bool {
        self.pace.is_over(part, next)
    }
    fn warn(&self, text: &str) {
        Stages::warn(&self.run.progress, text.to_string());
    }
}
