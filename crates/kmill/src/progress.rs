//! The progress of a run on stderr (bars on a terminal, otherwise a line from time to time), its
//! times and its warnings.

mod bars;
mod overall;
mod run_counter;

pub(crate) use run_counter::RunCounter;

use crate::{error::with_option_names, interrupt, terminal};
use bars::{progress_bar, start_ticker};
use indicatif::{ProgressBar, ProgressDrawTarget};
use kreport::fit::{PlanReport, Verbosity};
use kreport::table::{format_count, format_duration, number};
use ksolve::job::{Forecast, StageObserver};
use kstore::{checkpoint::Listener, pass::Observer};
use overall::{CurrentPass, FitProgress};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two plain lines of one stage: short enough to show activity in a log, long
/// enough to keep the log readable.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Minimum fraction of a pass that a process must have read before it estimates the remaining time.
const MIN_PASS_FRACTION: f64 = 0.02;

/// Converts --quiet and --verbose, which are mutually exclusive.
pub(crate) fn verbosity(quiet: bool, verbose: bool) -> Verbosity {
    match (quiet, verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    }
}

/// The stages of a run: shows and times them, and collects the warnings.
#[derive(Debug)]
pub(crate) struct Progress {
    verbosity: Verbosity,
    /// True to show bars, because stderr is a terminal.
    shows_bars: bool,
    stage_seconds: Mutex<Vec<(String, f64)>>,
    warnings: Mutex<Vec<String>>,
    /// Progress of the whole fit; `None` outside of a fit.
    fit: Mutex<Option<Arc<FitProgress>>>,
}

impl Progress {
    pub(crate) fn new(verbosity: Verbosity) -> Self {
        let shows_bars = verbosity != Verbosity::Quiet && std::io::stderr().is_terminal();
        Self {
            verbosity,
            shows_bars,
            stage_seconds: Mutex::default(),
            warnings: Mutex::default(),
            fit: Mutex::default(),
        }
    }

    /// Begins a stage that processes `rows` rows, or `None` if it is not a pass over rows, such as
    /// a factorisation.
    ///
    /// The times of stages with the same name, such as the rounds of a landmark scheme, are added.
    pub(crate) fn stage(&self, name: impl Into<String>, rows: Option<u64>) -> Stage<'_> {
        self.begin_stage(name.into(), rows, ROWS_UNIT, false)
    }

    fn begin_stage(&self, name: String, expected: Option<u64>, unit: &'static str, ends_on_drop: bool) -> Stage<'_> {
        let fit = self.fit.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fit = fit.filter(|fit| unit == ROWS_UNIT && fit.is_pass(expected));
        let expected = match (&fit, expected) {
            (Some(fit), Some(announced)) => Some(fit.rows_of_pass(announced)),
            _ => expected,
        };
        let bar = self.shows_bars.then(|| match expected {
            Some(_) if unit == ROWS_UNIT => progress_bar(
                &name,
                expected,
                "{prefix:<24} {bar:20} {human_pos:>11}/{human_len} rows  {rate}  {eta} left  {fit}",
                fit.clone(),
            ),
            Some(_) => {
                progress_bar(&name, expected, "{prefix:<24} {bar:20} {human_pos:>11}/{human_len}  {eta} left", None)
            }
            None => progress_bar(&name, None, "{prefix:<24} {spinner} {elapsed}", None),
        });
        if !self.shows_bars {
            self.detail(&match expected {
                Some(expected) => format!("{name}: {}{unit}", format_count(expected)),
                None => format!("{name} …"),
            });
        }
        let [rows, restored, last_line_millis] = [0; 3].map(AtomicU64::new);
        Stage {
            progress: self,
            name,
            unit,
            bar,
            started: Instant::now(),
            rows,
            restored_rows: restored,
            last_line_millis,
            expected,
            fit,
            ends_on_drop,
        }
    }

    /// Begins work that consists of `runs` longer runs, of which `completed` were completed by an
    /// earlier process.
    pub(crate) fn begin_runs(&self, name: &str, runs: u64, completed: u64) -> RunCounter<'_> {
        let bar = progress_bar(name, Some(runs), "{prefix} {bar:24} {pos}/{len} runs  {eta} left  {msg}", None);
        bar.set_position(completed);
        bar.reset_eta();
        match self.shows_bars {
            true => start_ticker(&bar),
            // a hidden bar still counts and estimates the remaining time
            false => bar.set_draw_target(ProgressDrawTarget::hidden()),
        }
        RunCounter { progress: self, name: name.to_string(), bar, started: Instant::now(), deadline: None }
    }

    /// Prints `warning: text` to stderr and stores it for the report.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        // a search and the following fit may issue the same warning
        if warnings.contains(&text) {
            return;
        }
        if self.verbosity != Verbosity::Quiet {
            terminal::print_line(&format!("warning: {text}"));
        }
        warnings.push(text);
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Writes a line to stderr, only in verbose mode.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbosity == Verbosity::Verbose {
            terminal::print_line(text);
        }
    }

    /// Writes a line to stderr, except in quiet mode.
    pub(crate) fn note(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            terminal::print_line(text);
        }
    }

    /// Returns the name and the total seconds of the finished stages, in order of first appearance.
    pub(crate) fn seconds(&self) -> Vec<(String, f64)> {
        self.stage_seconds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, name: &str, elapsed: Duration) {
        let mut seconds = self.stage_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        match seconds.iter_mut().find(|(recorded, _)| recorded == name) {
            Some((_, sum)) => *sum += elapsed.as_secs_f64(),
            None => seconds.push((name.to_string(), elapsed.as_secs_f64())),
        }
    }
}

/// The stages of the libraries end when their observers are dropped, because the libraries do not
/// end them explicitly.
impl StageObserver for Progress {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(self.begin_stage(name.to_string(), rows, ROWS_UNIT, true))
    }
    fn start_steps<'a>(&'a self, name: &str, steps: u64) -> Box<dyn Observer + 'a> {
        Box::new(self.begin_stage(name.to_string(), Some(steps), "", true))
    }
    fn warn(&self, text: String) {
        Self::warn(self, with_option_names(&text));
    }
    fn wants_forecast(&self) -> bool {
        self.verbosity != Verbosity::Quiet
    }
    fn report_forecast(&self, forecast: &Forecast) {
        *self.fit.lock().unwrap_or_else(PoisonError::into_inner) = FitProgress::new(forecast).map(Arc::new);
        if self.verbosity != Verbosity::Verbose {
            return;
        }
        PlanReport { forecast: forecast.clone(), lists_all_parts: true, fitting_rank: None }
            .to_string()
            .lines()
            .for_each(|line| self.detail(line));
    }
}

impl Listener for Progress {
    fn note(&self, text: String) {
        Self::note(self, &format!("note: {}", with_option_names(&text)));
    }
    fn warn(&self, text: String) {
        Self::warn(self, with_option_names(&text));
    }
}

/// One stage of a run, which is the observer of its passes. If an error drops it before
/// [`Stage::finish`], it disappears from the display without a line.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    progress: &'a Progress,
    name: String,
    /// Unit of the counts: [`ROWS_UNIT`], or empty if the name states what is counted.
    unit: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    rows: AtomicU64,
    /// Number of rows that were processed before the run was resumed. They took no time in this
    /// run.
    restored_rows: AtomicU64,
    /// Time of the last plain line, in milliseconds after the start.
    last_line_millis: AtomicU64,
    expected: Option<u64>,
    /// Progress of the fit, if this stage may be one of its passes over the table.
    fit: Option<Arc<FitProgress>>,
    /// True if the stage ends when it is dropped.
    ends_on_drop: bool,
}

impl Stage<'_> {
    /// Ends the stage: records its time for the report, and prints a line.
    pub(crate) fn finish(mut self) {
        self.ends_on_drop = false;
        self.end();
    }

    fn end(&self) {
        let elapsed = self.started.elapsed();
        self.progress.record(&self.name, elapsed);
        self.end_pass(elapsed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let rows = self.rows.load(Ordering::Relaxed);
        self.progress.detail(&match (self.progress.shows_bars, rows) {
            (true, 0) => format!("{:<24} {:>17} {:>9}", self.name, "", format_duration(elapsed)),
            (true, _) => {
                format!("{:<24} {:>12}{:<5} {:>9}", self.name, format_count(rows), self.unit, format_duration(elapsed))
            }
            (_, 0) => format!("{}: done in {}", self.name, format_duration(elapsed)),
            (_, _) => format!("{}: {}{} in {}", self.name, format_count(rows), self.unit, format_duration(elapsed)),
        });
    }

    /// Counts the stage as a pass of the fit, unless it processed no rows.
    fn end_pass(&self, elapsed: Duration) {
        let [rows, restored] = [&self.rows, &self.restored_rows].map(|count| count.load(Ordering::Relaxed));
        if let Some(fit) = self.fit.as_ref().filter(|_| rows > 0) {
            fit.end_pass(rows, rows - restored.min(rows), elapsed);
        }
    }

    /// Returns the remaining time of the pass at the speed so far; `None` at its beginning.
    fn current_pass(&self, rows: u64) -> Option<CurrentPass> {
        let (expected, read) = (self.expected?, rows - self.restored_rows.load(Ordering::Relaxed).min(rows));
        let is_speed_known = read as f64 >= MIN_PASS_FRACTION * expected as f64 && read > 0;
        let time = self.started.elapsed().div_f64(read.max(1) as f64);
        let of_rows = |rows: u64| time.mul_f64(rows as f64);
        is_speed_known
            .then(|| CurrentPass { time_left: of_rows(expected.saturating_sub(rows)), time: of_rows(expected) })
    }

    /// Prints a line during a long stage, unless the last line is recent.
    fn print_progress(&self, rows: u64) {
        let elapsed = self.started.elapsed();
        let previous = self.last_line_millis.load(Ordering::Relaxed);
        let now = elapsed.as_millis() as u64;
        let is_due = now >= previous + LINE_INTERVAL.as_millis() as u64
            && self.last_line_millis.compare_exchange(previous, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due {
            let restored = self.restored_rows.load(Ordering::Relaxed);
            let line = plain_line(&self.name, rows, self.unit, restored, self.expected, elapsed);
            let fit =
                self.fit.as_ref().map(|fit| fit.describe(self.current_pass(rows))).filter(|text| !text.is_empty());
            terminal::print_line(&format!("{line}{}", fit.map_or(String::new(), |text| format!("; {text}"))));
        }
    }
}

impl Observer for Stage<'_> {
    fn advance(&self, rows: u64) {
        let total = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        match &self.bar {
            Some(bar) => bar.inc(rows),
            None if self.progress.verbosity == Verbosity::Quiet => {}
            None => self.print_progress(total),
        }
    }

    fn report_restored(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.restored_rows.fetch_add(rows, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(rows);
            bar.tick();
            // compute the rate from the following rows only
            bar.reset_eta();
        }
    }

    fn should_stop(&self) -> bool {
        interrupt::is_requested()
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if self.ends_on_drop && !interrupt::is_requested() {
            self.end();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Unit of most stages, appended to a number.
const ROWS_UNIT: &str = " rows";

/// Formats the line of a running stage: `gram: 120,000 of 284,217 rows (42 %), 31,000 rows/s, 5.3 s
/// left`. If the stage does not count rows, the line has no rate. The rate excludes the `restored`
/// rows.
fn plain_line(name: &str, done: u64, unit: &str, restored: u64, expected: Option<u64>, elapsed: Duration) -> String {
    let rate = done.saturating_sub(restored) as f64 / elapsed.as_secs_f64();
    let rate_text = if unit == ROWS_UNIT { format!(", {}{unit}/s", rate_number(rate)) } else { String::new() };
    match expected.filter(|expected| *expected >= done && rate > 0.0) {
        Some(expected) => format!(
            "{name}: {} of {}{unit} ({:.0} %){rate_text}, {} left",
            format_count(done),
            format_count(expected),
            100.0 * done as f64 / expected as f64,
            format_duration(Duration::from_secs_f64((expected - done) as f64 / rate)),
        ),
        None => format!("{name}: {}{unit}{rate_text}", format_count(done)),
    }
}

/// Formats the rows per second; a rate below 10 has two digits, because slow stages exist.
fn rate_number(rate: f64) -> String {
    if rate < 10.0 { number(rate, 2) } else { format_count(rate as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_one_name_add_up_in_order() {
        let progress = Progress::new(Verbosity::Quiet);
        for name in ["scale", "landmarks", "landmarks", "gram"] {
            let stage = progress.stage(name, Some(10));
            stage.advance(10);
            stage.finish();
        }
        drop(progress.stage("failed", None));
        progress.warn("rank reduced");
        let names: Vec<String> = progress.seconds().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["scale", "landmarks", "gram"]);
        assert_eq!(progress.warnings(), ["rank reduced"]);
    }

    #[test]
    fn a_plain_line_has_share_rate_and_time_left() {
        let line = plain_line("gram", 120_000, ROWS_UNIT, 0, Some(300_000), Duration::from_secs(4));
        assert_eq!(line, "gram: 120,000 of 300,000 rows (40 %), 30,000 rows/s, 6.0 s left");
        // a resumed run: 80,000 rows belong to an earlier run
        let line = plain_line("gram", 120_000, ROWS_UNIT, 80_000, Some(300_000), Duration::from_secs(4));
        assert_eq!(line, "gram: 120,000 of 300,000 rows (40 %), 10,000 rows/s, 18 s left");
        let line = plain_line("gram", 120_000, ROWS_UNIT, 0, None, Duration::from_secs(4));
        assert_eq!(line, "gram: 120,000 rows, 30,000 rows/s");
        let line = plain_line("predict and explain", 16, ROWS_UNIT, 0, Some(60), Duration::from_secs(25));
        assert_eq!(line, "predict and explain: 16 of 60 rows (27 %), 0.64 rows/s, 69 s left");
        let line = plain_line("machines", 2, "", 0, Some(45), Duration::from_secs(4));
        assert_eq!(line, "machines: 2 of 45 (4 %), 86 s left");
    }
}
