//! The progress of work that consists of several runs.

use super::Progress;
use indicatif::ProgressBar;
use kreport::table::{format_duration, rounded_kernel};
use kstore::display;
use std::time::{Duration, Instant};

/// Work that consists of several runs. Shows the number of completed runs and the estimated
/// remaining time.
#[derive(Debug)]
pub(crate) struct RunCounter<'a> {
    pub(super) progress: &'a Progress,
    pub(super) name: String,
    pub(super) bar: ProgressBar,
    pub(super) started: Instant,
}

impl RunCounter<'_> {
    pub(crate) fn begin(&self, what: &str) {
        self.bar.set_message(display::escape_line(what).into_owned());
    }

    /// Shows that the run `what` has ended, its time, and the remaining time at the average rate.
    pub(crate) fn end(&self, what: &str, elapsed: Duration) {
        self.bar.inc(1);
        if !self.progress.shows_bars {
            let (name, done, runs) = (&self.name, self.bar.position(), self.bar.length().unwrap_or_default());
            let time_left =
                if done < runs { format!(", {} left", format_duration(self.bar.eta())) } else { String::new() };
            let (what, took) = (rounded_kernel(what), format_duration(elapsed));
            self.progress.note(&format!("{name}: {done} of {runs} runs{time_left} ({what}: {took})"));
        }
    }

    /// Ends the work and records its time for the report.
    pub(crate) fn finish(self) {
        let (elapsed, runs) = (self.started.elapsed(), self.bar.length().unwrap_or_default());
        self.progress.record(&self.name, elapsed);
        self.bar.finish_and_clear();
        self.progress.note(&format!("{}: {runs} runs in {}", self.name, format_duration(elapsed)));
    }
}

impl Drop for RunCounter<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
