//! The bars of stages.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kstore::shown;
use std::time::Duration;

/// The bar of a pass over rows.
pub(super) fn pass_bar(name: &str, rows: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr());
    bar.set_style(style("{prefix:<24} {bar:20} {human_pos:>11}/{human_len} rows  {per_sec}  {eta} left  {msg}"));
    bar.set_prefix(shown::line(name).into_owned());
    bar
}

/// A sign of life where nobody knows how long it takes.
pub(super) fn spinner(name: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{prefix:<24} {spinner} {elapsed}  {msg}"));
    bar.set_prefix(shown::line(name).into_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// The style of a bar. A template that indicatif refuses would be a bug of this file; the plain bar still works.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
