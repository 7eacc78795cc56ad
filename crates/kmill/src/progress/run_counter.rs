//! The progress of work that consists of several runs.

use super::Progress;
use indicatif::{ProgressBar, ProgressState};
use kreport::table::{format_duration, rounded_kernel};
use kstore::display;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Work that consists of several runs. Shows the number of completed runs and the estimated
/// remaining time.
#[derive(Debug)]
pub(crate) struct RunCounter<'a> {
    pub(super) progress: &'a Progress,
    pub(super) name: String,
    pub(super) bar: ProgressBar,
    pub(super) started: Instant,
    /// Latest end of the work, if its time is limited.
    pub(super) deadline: Option<Instant>,
}

impl RunCounter<'_> {
    /// Limits the displayed time to `remaining`: runs that would exceed it are not begun.
    pub(crate) fn ending_within(mut self, remaining: Option<Duration>) -> Self {
        let Some(deadline) = remaining.map(|remaining| Instant::now() + remaining) else { return self };
        self.bar.set_style(self.bar.style().with_key("eta", move |state: &ProgressState, out: &mut dyn Write| {
            // ignore an error: it means that the terminal is gone, and the bar with it
            let _ = out.write_str(&format_duration(limited(state.eta(), Some(deadline))));
        }));
        self.deadline = Some(deadline);
        self
    }

    pub(crate) fn begin(&self, what: &str) {
        self.bar.set_message(display::escape_line(what).into_owned());
    }

    /// Shows that the run `what` has ended, its time, and the remaining time at the average rate.
    pub(crate) fn end(&self, what: &str, elapsed: Duration) {
        self.bar.inc(1);
        if !self.progress.shows_bars {
            let (name, done, runs) = (&self.name, self.bar.position(), self.bar.length().unwrap_or_default());
            let time_left = limited(self.bar.eta(), self.deadline);
            let time_left = match (done < runs, time_left.is_zero() && self.deadline.is_some()) {
                (false, _) => String::new(),
                (true, true) => ", the time is over".to_string(),
                (true, false) => format!(", {} left", format_duration(time_left)),
            };
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

/// Returns the estimated time left, at most the time until the deadline.
fn limited(estimate: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(estimate, |deadline| estimate.min(deadline.saturating_duration_since(Instant::now())))
}

impl Drop for RunCounter<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
