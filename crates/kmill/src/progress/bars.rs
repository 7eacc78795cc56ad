//! Bars on a terminal.

use super::MIN_PASS_FRACTION;
use super::overall::{CurrentPass, FitProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kreport::table::format_count;
use kstore::display;
use std::sync::Arc;
use std::time::Duration;

/// Time between two updates of a bar without row counts.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Returns a bar on stderr, or a spinner if the length is unknown.
pub(super) fn progress_bar(
    name: &str,
    length: Option<u64>,
    template: &str,
    fit: Option<Arc<FitProgress>>,
) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    // an invalid template would be a bug of this file; the default bar still works
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("fit", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let Some(fit) = &fit else { return };
        let rate = state.per_sec();
        let current_pass = state
            .len()
            .filter(|_| rate > 1e-6 && state.fraction() >= MIN_PASS_FRACTION as f32)
            .map(|rows| CurrentPass { time_left: state.eta(), time: Duration::from_secs_f64(rows as f64 / rate) });
        let _ = out.write_str(&fit.describe(current_pass));
    });
    // the rate as an integer: the default has four decimal digits
    bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // ignore an error: it means that the terminal is gone, and the bar with it
        let _ = write!(out, "{}/s", format_count(state.per_sec() as u64));
    }));
    bar.set_prefix(display::escape_line(name).into_owned());
    if length.is_none() {
        start_ticker(&bar);
    }
    bar
}

/// Updates the bar while it exists, on a thread. Unlike the ticker of the crate indicatif, it does
/// not panic if the system cannot start a thread; the bar is then updated only when rows are
/// counted.
pub(super) fn start_ticker(bar: &ProgressBar) {
    let bar = bar.downgrade();
    let _ = std::thread::Builder::new().spawn(move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            std::thread::sleep(TICK_INTERVAL);
        }
    });
}
