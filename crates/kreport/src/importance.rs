//! Importance of columns, as shown to users.

use crate::table::{Align, Table, count, joined, number, percent};
use kfit::metric::Judgement;
use ksolve::job::MetricReport;
use std::collections::{HashMap, HashSet};

/// Number of columns shown in a table, and in a line.
const MOST_IMPORTANT: usize = 12;
const IN_A_LINE: usize = 5;

/// Length of the bar of a column that has all of the importance, in characters.
const BAR: f64 = 40.0;

/// Describes a metric: its source, the number of its outputs, and its errors.
pub fn described(metric: &MetricReport) -> String {
    let best = |form: &str| metric.rounds.iter().filter(|r| r.form == form).map(|r| r.cv_mse).reduce(f64::min);
    let mut seen = HashSet::new();
    let forms = metric.rounds.iter().map(|round| round.form.as_str()).filter(|form| seen.insert(*form));
    let tried = joined(forms.filter_map(|form| Some(format!("{form} {}", number(best(form)?, 4)))));
    let source = match (&metric.source[..], metric.spread.is_empty()) {
        ("given", false) => "learned by the search",
        ("given", true) => "learned before the fit",
        (other, _) => other,
    };
    let features = format!("{source}, {} features", count(metric.features as u64));
    if let Some(Judgement { rows, with, without, .. }) = &metric.judged {
        let (rows, with, without) = (count(*rows), number(*with, 4), number(*without, 4));
        return format!("{features} (mse {with} on {rows} validation rows, {without} without a metric)");
    }
    // the metric of every round was learned from the rows of all folds
    if tried.is_empty() { features } else { format!("{features} (mse of the rounds: {tried})") }
}

/// A column: its name, its fraction of the importance, and the text that shows it.
pub type Counted = (String, f64, String);

/// Returns the column that a feature is derived from, such as `city` for `city=Bonn` or `date` for
/// `date.hour.sin`: the longest matching name in `coded`, or the feature itself if none matches.
fn column_of<'f>(feature: &'f str, coded: &[&'f str]) -> &'f str {
    let made = |name: &str| feature.strip_prefix(name).is_some_and(|rest| rest.starts_with(['=', '.']));
    coded.iter().copied().filter(|name| made(name)).max_by_key(|name| name.len()).unwrap_or(feature)
}

/// Sums the fractions of the features of each column, largest first. A sum has no known spread.
fn by_column<'f>(
    features: impl Iterator<Item = (&'f str, f64, Option<f64>)>,
    coded: &[&'f str],
) -> Vec<(&'f str, f64, Option<f64>)> {
    let mut columns: HashMap<&str, (f64, Option<f64>)> = HashMap::new();
    for (feature, share, spread) in features {
        let held = columns.entry(column_of(feature, coded));
        held.and_modify(|column| *column = (column.0 + share, None)).or_insert((share, spread));
    }
    let mut columns: Vec<_> = columns.into_iter().map(|(name, (share, spread))| (name, share, spread)).collect();
    columns.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    columns
}

/// Returns the fractions of the columns in the metric, largest first; `coded` are the columns with
/// several features.
pub fn importance(metric: &MetricReport, coded: &[&str]) -> Vec<Counted> {
    let counted = |(name, share, spread): (&str, f64, Option<f64>)| {
        let spread = spread.map_or(String::new(), |spread| format!(" +- {:.1}", 100.0 * spread));
        (name.to_string(), share, format!("{}{spread}", percent(share)))
    };
    by_column(metric.shares(), coded).into_iter().map(counted).collect()
}

/// Returns the slope along each column, largest first, with its fraction of the sum of squares.
pub fn slopes(features: &[(String, f64)], coded: &[&str]) -> Vec<Counted> {
    let squares = features.iter().map(|(name, slope)| (&name[..], slope * slope, None));
    let total = squares.clone().map(|(_, square, _)| square).sum::<f64>().max(f64::MIN_POSITIVE);
    let counted = |(name, square, _): (&str, f64, _)| (name.to_string(), square / total, number(square.sqrt(), 4));
    by_column(squares, coded).into_iter().map(counted).collect()
}

/// Returns a table of importances, each with a bar.
pub fn bars(title: &str, columns: &[Counted]) -> Table {
    let mut table = Table::new([("column", Align::Left), (title, Align::Right), ("", Align::Left)]);
    for (name, share, shown) in columns.iter().take(MOST_IMPORTANT) {
        table.row([name.clone(), shown.clone(), "#".repeat((share * BAR).round() as usize)]);
    }
    table
}

/// Lists the most important columns, in one line.
pub fn most_important(columns: &[Counted]) -> String {
    joined(columns.iter().take(IN_A_LINE).map(|(name, share, _)| format!("{name} {}", percent(*share))))
}
