//! Importance of columns, as shown to users.

use crate::table::{Align, AlignedTable, format_count, join_with_commas, number, percent};
use kfit::solver::by_name;
use ksolve::job::MetricReport;
use ksolve::metric::MetricTestErrors;
use std::collections::{HashMap, HashSet};

/// Number of columns shown in a table, and in a line.
const SHOWN_IN_TABLE: usize = 12;
const SHOWN_IN_LINE: usize = 5;

/// Returns the heading of a table of the columns of a metric. If a metric scales the input of a
/// kernel, its weights do not measure importance. If a solver learned its directions, they are
/// slopes of the prediction.
pub fn weight_heading(metric: &MetricReport) -> &'static str {
    if is_of_solver(metric) { "importance" } else { "metric weight (not importance)" }
}

fn is_of_solver(metric: &MetricReport) -> bool {
    by_name(&metric.source).is_some()
}

/// Length of the bar of a column that has all of the importance, in characters.
const BAR_LENGTH: f64 = 40.0;

/// Describes a metric: source, number of outputs, and errors.
pub fn describe_metric(metric: &MetricReport) -> String {
    let lowest_mse = |form: &str| metric.rounds.iter().filter(|r| r.form == form).map(|r| r.cv_mse).reduce(f64::min);
    let mut seen = HashSet::new();
    let forms = metric.rounds.iter().map(|round| round.form.as_str()).filter(|form| seen.insert(*form));
    let mse_by_form =
        join_with_commas(forms.filter_map(|form| Some(format!("{form} {}", number(lowest_mse(form)?, 4)))));
    let source = match (&metric.source[..], metric.spread.is_empty()) {
        ("given", false) => "learned by the search",
        ("given", true) => "learned before the fit",
        (other, _) => other,
    };
    let features = format!("{source}, {} features", format_count(metric.features as u64));
    if let Some(MetricTestErrors { rows, error_with_metric, error_without_metric, .. }) = &metric.test_errors {
        let (rows, metric_error, plain_error) =
            (format_count(*rows), number(*error_with_metric, 4), number(*error_without_metric, 4));
        return format!("{features} (mse {metric_error} on {rows} validation rows, {plain_error} without a metric)");
    }
    // the metric of every round was learned from the rows of all folds
    if mse_by_form.is_empty() { features } else { format!("{features} (mse of the rounds: {mse_by_form})") }
}

/// A column: name, fraction of the importance, and the text that shows the importance.
pub type ColumnImportance = (String, f64, String);

/// Returns the column that a feature is derived from, such as `city` for `city=Bonn` or `date` for
/// `date.hour.sin`: the longest matching name in `coded_columns`, or the feature itself if none
/// matches.
fn column_of<'f>(feature: &'f str, coded_columns: &[&'f str]) -> &'f str {
    let is_source = |name: &str| feature.strip_prefix(name).is_some_and(|rest| rest.starts_with(['=', '.']));
    coded_columns.iter().copied().filter(|name| is_source(name)).max_by_key(|name| name.len()).unwrap_or(feature)
}

/// Sums, for each column, the fractions of its features, and returns the sums in descending order.
/// Each item has a name, a fraction, and the standard deviation of the fraction over the folds,
/// which is unknown for a sum of several fractions.
fn by_column<'f>(
    features: impl Iterator<Item = (&'f str, f64, Option<f64>)>,
    coded_columns: &[&'f str],
) -> Vec<(&'f str, f64, Option<f64>)> {
    let mut columns: HashMap<&str, (f64, Option<f64>)> = HashMap::new();
    for (feature, fraction, spread) in features {
        let entry = columns.entry(column_of(feature, coded_columns));
        entry.and_modify(|column| *column = (column.0 + fraction, None)).or_insert((fraction, spread));
    }
    let mut columns: Vec<_> = columns.into_iter().map(|(name, (fraction, spread))| (name, fraction, spread)).collect();
    columns.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    columns
}

/// Returns the fractions of the columns in the metric, largest first; `coded_columns` have
/// several features.
pub fn importance(metric: &MetricReport, coded_columns: &[&str]) -> Vec<ColumnImportance> {
    let column_importance = |(name, fraction, spread): (&str, f64, Option<f64>)| {
        let spread = spread.map_or(String::new(), |spread| format!(" +- {:.1}", 100.0 * spread));
        (name.to_string(), fraction, format!("{}{spread}", percent(fraction)))
    };
    by_column(metric.importances(), coded_columns).into_iter().map(column_importance).collect()
}

/// Returns the slope along each column, largest first, with its fraction of the sum of squares.
pub fn slopes(features: &[(String, f64)], coded_columns: &[&str]) -> Vec<ColumnImportance> {
    let squared_slopes = features.iter().map(|(name, slope)| (&name[..], slope * slope, None));
    let square_sum = squared_slopes.clone().map(|(_, square, _)| square).sum::<f64>().max(f64::MIN_POSITIVE);
    let column_importance =
        |(name, square, _): (&str, f64, _)| (name.to_string(), square / square_sum, number(square.sqrt(), 4));
    by_column(squared_slopes, coded_columns).into_iter().map(column_importance).collect()
}

/// Returns a table of importances, each with a bar.
pub fn bars(title: &str, columns: &[ColumnImportance]) -> AlignedTable {
    let mut table = AlignedTable::new([("column", Align::Left), (title, Align::Right), ("", Align::Left)]);
    for (name, fraction, text) in columns.iter().take(SHOWN_IN_TABLE) {
        table.push_row([name.clone(), text.clone(), "#".repeat((fraction * BAR_LENGTH).round() as usize)]);
    }
    table
}

/// Lists the columns with the largest weights in a metric, in one line, as a fact. Unless
/// `has_importance` is true, names the options for the importance.
pub(crate) fn weights_fact(
    metric: &MetricReport,
    coded_columns: &[&str],
    has_importance: bool,
) -> (&'static str, String) {
    let columns = importance(metric, coded_columns);
    let shown = columns.iter().take(SHOWN_IN_LINE).map(|(name, fraction, _)| format!("{name} {}", percent(*fraction)));
    let line = join_with_commas(shown);
    match is_of_solver(metric) {
        true => ("importance", line),
        false if has_importance => (METRIC_WEIGHTS, format!("{line} (how fast the kernel changes)")),
        false => (
            METRIC_WEIGHTS,
            format!("{line} (how fast the kernel changes; for importance, add --test 25% --importance)"),
        ),
    }
}

/// Name of the fact that lists the weights of the columns in a metric.
pub(crate) const METRIC_WEIGHTS: &str = "metric weights";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_metric_are_no_importance() {
        let metric = |source: &str| {
            let fractions =
                vec![("date.hour.sin".to_string(), 0.25), ("a".to_string(), 0.5), ("date".to_string(), 0.25)];
            MetricReport::new(source.to_string(), 3, fractions, &[], Vec::new())
        };
        let (name, line) = weights_fact(&metric("given"), &["date"], false);
        assert!(name == "metric weights" && line.starts_with("a 50.0 %, date 50.0 % (how fast"), "{name} {line}");
        assert!(weight_heading(&metric("given")).contains("not importance"));
        // the slopes of a regression
        let (_, measured) = weights_fact(&metric("given"), &["date"], true);
        assert!(measured.ends_with("(how fast the kernel changes)"), "{measured}");
        assert_eq!(weights_fact(&metric("kdr"), &["date"], false), ("importance", "a 50.0 %, date 50.0 %".to_string()));
        assert_eq!(weight_heading(&metric("kdr")), "importance");
    }
}
