//! What each feature counts, for people.

use crate::table::{Align, Table, count, number, percent};
use ksolve::job::MetricReport;

/// Features whose importance is shown in a table, and in a line.
const MOST_IMPORTANT: usize = 12;
const IN_A_LINE: usize = 4;

/// Length of the bar of a feature that counts for everything.
const BAR: f64 = 40.0;

/// The metric in a sentence.
pub(crate) fn described(metric: &MetricReport) -> String {
    let best = |form: &str| metric.rounds.iter().filter(|r| r.form == form).map(|r| r.cv_mse).reduce(f64::min);
    let forms: Vec<&str> = metric.rounds.iter().map(|round| round.form.as_str()).collect();
    let mut names: Vec<&str> = Vec::new();
    forms.into_iter().for_each(|form| {
        if !names.contains(&form) {
            names.push(form)
        }
    });
    let tried: Vec<String> =
        names.iter().filter_map(|form| Some(format!("{form} {}", number(best(form)?, 4)))).collect();
    let features = format!("{}, {} features", metric.source, count(metric.features as u64));
    if tried.is_empty() { features } else { format!("{features} (held-out mse: {})", tried.join(", ")) }
}

/// The features that count most, each with its share of 1 and what is said of it, with bars.
fn bars<'n>(title: &str, features: impl Iterator<Item = (&'n str, f64, String)>) -> Table {
    let mut table = Table::new([("feature", Align::Left), (title, Align::Right), ("", Align::Left)]);
    for (name, share, shown) in features.take(MOST_IMPORTANT) {
        table.row([name.to_string(), shown, "#".repeat((share * BAR).round() as usize)]);
    }
    table
}

/// The features that count most in the metric.
pub(crate) fn importance(metric: &MetricReport) -> Table {
    bars("importance", metric.shares().map(|(name, share, spread)| (name, share, counted(share, spread))))
}

/// The features with the largest slopes: shares of the sum of the squares.
pub(crate) fn slopes(features: &[(String, f64)]) -> Table {
    let total = features.iter().map(|(_, slope)| slope * slope).sum::<f64>().max(f64::MIN_POSITIVE);
    bars("slope", features.iter().map(|(name, slope)| (&name[..], slope * slope / total, number(*slope, 4))))
}

/// What a feature counts: its share, and how far that differs from fold to fold.
pub(crate) fn counted(share: f64, spread: Option<f64>) -> String {
    spread.map_or(percent(share), |spread| format!("{} +- {:.1}", percent(share), 100.0 * spread))
}

/// The features that count most in the metric, in a line.
pub(crate) fn most_important(metric: &MetricReport) -> String {
    let share = |(name, share): &(String, f64)| format!("{name} {}", percent(*share));
    metric.importance.iter().take(IN_A_LINE).map(share).collect::<Vec<_>>().join(", ")
}
