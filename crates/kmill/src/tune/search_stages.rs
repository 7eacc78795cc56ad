//! The terminal display of `kmill tune`.

use crate::args::RunSettings;
use crate::interrupt;
use crate::pipeline::FirstStages;
use crate::progress::RunCounter;
use ksolve::job::StageObserver;
use ksolve::tune::{SearchListener, SearchPart, TimeBudget};
use kstore::pass::Observer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shows the stages of the preparation. As soon as the first steps of the search begin, shows the
/// steps instead, without their stages and warnings.
pub(super) struct SearchStages<'a> {
    run: &'a RunSettings,
    time_budget: &'a TimeBudget,
    first_stages: FirstStages<'a>,
    run_counter: Mutex<Option<RunCounter<'a>>>,
}

impl<'a> SearchStages<'a> {
    pub(super) fn new(run: &'a RunSettings, time_budget: &'a TimeBudget) -> Self {
        let first_stages = FirstStages::new(&run.progress);
        Self { run, time_budget, first_stages, run_counter: Mutex::new(None) }
    }

    fn lock_run_counter(&self) -> MutexGuard<'_, Option<RunCounter<'a>>> {
        self.run_counter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StageObserver for SearchStages<'_> {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        self.first_stages.start_stage(name, rows)
    }
    fn warn(&self, text: String) {
        if !self.first_stages.have_ended() {
            self.first_stages.warn(text);
        }
    }
}

impl SearchListener for SearchStages<'_> {
    fn begin(&self, part: SearchPart, steps: u64) {
        self.first_stages.end();
        let name = if part == SearchPart::ExactFits { "exact fits".to_string() } else { part.to_string() };
        *self.lock_run_counter() =
            Some(self.run.progress.begin_runs(&name, steps, 0).ending_within(self.time_budget.remaining()));
    }
    fn begin_step(&self, what: &str) -> ksolve::Result<()> {
        if interrupt::is_requested() {
            return Err(kstore::Error::Interrupted.into());
        }
        self.lock_run_counter().iter().for_each(|counter| counter.begin(what));
        Ok(())
    }
    fn end_step(&self, what: &str, took: Duration) {
        self.lock_run_counter().iter().for_each(|counter| counter.end(what, took));
    }
    fn end(&self) {
        self.lock_run_counter().take().into_iter().for_each(RunCounter::finish);
    }
    fn is_late(&self, part: SearchPart, next: Duration) -> bool {
        self.time_budget.is_exceeded(part, next)
    }
    fn warn(&self, text: &str) {
        StageObserver::warn(&self.run.progress, text.to_string());
    }
}
