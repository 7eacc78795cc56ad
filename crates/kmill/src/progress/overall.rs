//! The progress of a whole fit: its passes over the rows, and the remaining time.

use kreport::table::format_duration;
use ksolve::job::Forecast;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The planned passes of a fit, and the passes that are done.
#[derive(Debug)]
pub(super) struct FitProgress {
    passes: u64,
    /// Number of rows that a pass announces: an upper bound.
    stored_rows: u64,
    done: Mutex<DonePasses>,
}

#[derive(Debug, Default)]
struct DonePasses {
    /// Number of passes that have ended, in this process or in an earlier one.
    count: u64,
    /// Number of rows of a whole pass; 0 before the first one. Conditions, test rows and missing
    /// values leave stored rows out.
    rows: u64,
    /// Number of passes that this process has read, and the seconds that they took. Rows of a
    /// checkpoint took no time.
    read: f64,
    seconds: f64,
}

/// The current pass, as far as its speed is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentPass {
    /// Remaining time of the pass, and time of a whole pass at the same speed.
    pub(super) time_left: Duration,
    pub(super) time: Duration,
}

impl FitProgress {
    /// Returns the progress at the beginning of a fit; `None` if the number of passes is unknown.
    pub(super) fn new(forecast: &Forecast) -> Option<Self> {
        let passes = forecast.passes();
        let stored_rows = forecast.stored_rows;
        (passes > 1 && !forecast.rereads_table).then(|| Self { passes, stored_rows, done: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, DonePasses> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a stage that announces this number of rows is a pass over the table. Stages
    /// that do not know their number of rows announce none.
    pub(super) fn is_pass(&self, announced: Option<u64>) -> bool {
        announced.is_none_or(|rows| rows == self.stored_rows)
    }

    /// Returns the number of rows of a pass that announces `announced` rows.
    pub(super) fn rows_of_pass(&self, announced: u64) -> u64 {
        match self.lock().rows {
            0 => announced,
            rows => rows.min(announced),
        }
    }

    /// Counts a pass over `rows` rows that has ended. This process read `read` of them; the
    /// checkpoint of an earlier process had the others.
    pub(super) fn end_pass(&self, rows: u64, read: u64, took: Duration) {
        let mut done = self.lock();
        done.count += 1;
        done.rows = done.rows.max(rows);
        done.read += read as f64 / rows.max(1) as f64;
        done.seconds += took.as_secs_f64();
    }

    /// Returns the number of the current pass and, once it can be estimated, the remaining time of
    /// all passes: `pass 2 of 5, about 40 s left in all`. Later passes are assumed to take the mean
    /// time of the passes so far. Empty if there are more passes than planned.
    pub(super) fn describe(&self, current_pass: Option<CurrentPass>) -> String {
        let done = self.lock();
        let number = done.count + 1;
        if number > self.passes {
            return String::new();
        }
        let time_left = |CurrentPass { time_left, time }: CurrentPass| {
            let mean = (done.seconds + time.as_secs_f64()) / (done.read + 1.0);
            let left = time_left.as_secs_f64() + mean * (self.passes - number) as f64;
            format!(", about {} left in all", format_duration(Duration::from_secs_f64(left)))
        };
        format!("pass {number} of {}{}", self.passes, current_pass.map_or(String::new(), time_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_passes_are_done_but_took_no_time() {
        let progress = FitProgress { passes: 4, stored_rows: 1000, done: Mutex::default() };
        let [second, current] = [Duration::from_secs(1), Duration::from_secs(30)];
        assert_eq!(progress.describe(None), "pass 1 of 4");
        assert!(progress.is_pass(None) && progress.is_pass(Some(1000)) && !progress.is_pass(Some(50)));
        assert_eq!(progress.rows_of_pass(1000), 1000);
        progress.end_pass(800, 0, Duration::ZERO);
        assert_eq!(progress.rows_of_pass(1000), 800, "a condition leaves rows out");
        assert_eq!(progress.describe(None), "pass 2 of 4", "a pass of the checkpoint");
        // 10 s of this pass, and two further passes of 30 s; restored rows say nothing of speed
        let text = progress.describe(Some(CurrentPass { time_left: 10 * second, time: current }));
        assert_eq!(text, "pass 2 of 4, about 70 s left in all");
        progress.end_pass(800, 400, 15 * second);
        // the later pass takes the mean time: (15 + 30) s for 1.5 passes
        let text = progress.describe(Some(CurrentPass { time_left: 20 * second, time: current }));
        assert_eq!(text, "pass 3 of 4, about 50 s left in all");
        progress.end_pass(800, 800, current);
        progress.end_pass(800, 800, current);
        assert_eq!(progress.describe(None), "", "more passes than planned");
    }
}
