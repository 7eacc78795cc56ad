//! The progress of a whole fit: its passes over the rows, and the remaining time.

use kreport::table::format_duration;
use ksolve::job::Forecast;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Parts of a pass that are counted.
const PASS_UNITS: u64 = 1 << 24;

/// Minimum fraction of a pass that this process must have read before it estimates times.
const MIN_PASS_FRACTION: f64 = 0.05;

/// The passes of a fit that were planned, and those that are done.
#[derive(Debug)]
pub(super) struct FitProgress {
    passes: u64,
    /// Units of the passes so far, and those of an earlier process, which took no time in this one.
    done_units: AtomicU64,
    restored_units: AtomicU64,
    started: Instant,
}

impl FitProgress {
    /// Returns the progress at the beginning of a fit; `None` if the number of passes is unknown.
    pub(super) fn new(forecast: &Forecast) -> Option<Self> {
        let passes = forecast.passes();
        (passes > 1 && !forecast.rereads_table).then(|| Self::with_passes(passes))
    }

    fn with_passes(passes: u64) -> Self {
        let [done_units, restored_units] = [0; 2].map(AtomicU64::new);
        Self { passes, done_units, restored_units, started: Instant::now() }
    }

    /// Counts rows of a pass over `expected` rows.
    pub(super) fn advance(&self, rows: u64, expected: u64, is_restored: bool) {
        let units = (u128::from(rows) * u128::from(PASS_UNITS) / u128::from(expected.max(1))) as u64;
        self.done_units.fetch_add(units, Ordering::Relaxed);
        if is_restored {
            self.restored_units.fetch_add(units, Ordering::Relaxed);
        }
    }

    /// Returns the number of the current pass and, once it can be estimated, the remaining time of
    /// all passes: `pass 2 of 5, about 40 s left in all`. Empty if there are more passes than
    /// planned.
    pub(super) fn describe(&self) -> String {
        self.describe_after(self.started.elapsed())
    }

    fn describe_after(&self, elapsed: Duration) -> String {
        let passes = |units: &AtomicU64| units.load(Ordering::Relaxed) as f64 / PASS_UNITS as f64;
        let (done, restored) = (passes(&self.done_units), passes(&self.restored_units));
        let (total, read) = (self.passes as f64, done - restored);
        if done > total {
            return String::new();
        }
        // sums of rounded units end slightly below a whole pass
        let current = ((done + 1e-3) as u64 + 1).min(self.passes);
        let time_left = if read < MIN_PASS_FRACTION {
            String::new()
        } else {
            let left = elapsed.mul_f64((total - done) / read);
            format!(", about {} left in all", format_duration(left))
        };
        format!("pass {current} of {}{time_left}", self.passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_passes_are_done_but_took_no_time() {
        let progress = FitProgress::with_passes(4);
        assert_eq!(progress.describe_after(Duration::from_secs(1)), "pass 1 of 4");
        progress.advance(1000, 1000, true);
        progress.advance(500, 1000, true);
        assert_eq!(progress.describe_after(Duration::ZERO), "pass 2 of 4", "nothing was read yet");
        progress.advance(500, 1000, false);
        // half a pass took 10 s, and two passes are left
        assert_eq!(progress.describe_after(Duration::from_secs(10)), "pass 3 of 4, about 40 s left in all");
        (0..2000).for_each(|_| progress.advance(1, 1000, false));
        assert!(progress.describe_after(Duration::from_secs(50)).starts_with("pass 4 of 4"));
        progress.advance(1000, 1000, false);
        assert_eq!(progress.describe_after(Duration::from_secs(60)), "", "more passes than planned");
    }
}
