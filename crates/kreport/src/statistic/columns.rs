//! The columns of two samples: tested alone, the columns that differ most first.

use super::format_p_value;
use crate::page::{self, Axis, Chart, DataPoint, Scale, Section, Series};
use crate::table::{Align, AlignedTable, format_count, number, percent};
use ksolve::statistic::{ColumnDifference, Histogram};

/// Number of columns that are shown as text.
const SHOWN_COLUMNS: usize = 8;

/// Corrected p-value up to which a column is reported as different.
const MAX_P_VALUE: f64 = 0.05;

/// Numbers of digits of a mean.
const MEAN_DIGITS: std::ops::Range<usize> = 4..11;

/// Maximum rounding error of the difference of two means, as a fraction of the difference.
const MAX_ROUNDING: f64 = 0.25;

/// Smallest difference of two means, in standard deviations, that their digits must show: the
/// smallest that is not shown as 0.00.
const MIN_SHOWN_DIFFERENCE: f64 = 0.005;

/// Returns the section of a page: histograms of the columns that differ most, and all tests.
pub(super) fn section(column_tests: &[ColumnDifference], tested_rows: &str, sample_names: &[String]) -> Section {
    let charts: Vec<Chart> = column_tests
        .iter()
        .enumerate()
        .filter_map(|(i, column)| {
            histogram_chart(&format!("column-{i}"), column, column.histogram.as_ref()?, sample_names)
        })
        .collect();
    let rows: Vec<Vec<String>> = column_tests.iter().map(|column| column_cells(column).to_vec()).collect();
    let histogram_note = if charts.is_empty() {
        ""
    } else {
        " Histograms are of the tested rows, without the outer 0.5 % of the values."
    };
    let note = format!(
        "Each column is tested alone: numbers by the test of Kolmogorov and Smirnov, categories by a chi-squared test \
        ({tested_rows}). The distance is the largest difference of the distribution functions, or the total variation of \
        the levels. Holm's method corrects the p-values for the number of columns.{histogram_note}"
    );
    let table = page::html_table(&COLUMN_HEADINGS, &rows);
    Section::new("Columns", page::charts(&charts) + &table + &page::note(&note))
}

/// Headings of the table of columns.
const COLUMN_HEADINGS: [&str; 7] = ["column", "p-value", "corrected", "distance", "first", "second", "difference"];

/// Returns the cells of a column.
fn column_cells(column: &ColumnDifference) -> [String; 7] {
    let name = column.level.as_ref().map_or(&column.column, |level| level);
    let [first, second] = match column.level {
        Some(_) => column.means.map(percent),
        None => format_means(column.means, column.difference),
    };
    let difference = column.difference.map_or(String::new(), |difference| format!("{difference:+.2} sd"));
    let [p_value, corrected] = [column.p_value, column.corrected_p_value].map(format_p_value);
    [name.clone(), p_value, corrected, format!("{:.3}", column.distance), first, second, difference]
}

/// Formats two means with four digits, or with as many as show their difference, if the difference
/// is not negligible.
fn format_means(means: [f64; 2], difference: Option<f64>) -> [String; 2] {
    let shown = |digits: usize| means.map(|mean| number(mean, digits));
    let is_seen = |digits: &usize| {
        let [first, second] = shown(*digits).map(|text| text.parse::<f64>().unwrap_or(f64::NAN));
        let true_difference = means[1] - means[0];
        (second - first - true_difference).abs() <= MAX_ROUNDING * true_difference.abs()
    };
    let needed = if difference.is_some_and(|difference| difference.abs() >= MIN_SHOWN_DIFFERENCE) {
        MEAN_DIGITS.clone().find(is_seen).unwrap_or(MEAN_DIGITS.end - 1)
    } else {
        MEAN_DIGITS.start
    };
    shown(needed)
}

/// Returns a chart of the histogram of a column in both samples.
fn histogram_chart(
    id: &str,
    column: &ColumnDifference,
    histogram: &Histogram,
    sample_names: &[String],
) -> Option<Chart> {
    let bins = histogram.fractions[0].len();
    let centre = |i: usize| match histogram.edges[..] {
        [] => i as f64,
        _ => (histogram.edges[i] + histogram.edges[i + 1]) / 2.0,
    };
    // the title of the chart names the column
    let prefix = format!("{}=", column.column);
    let levels: Vec<String> =
        histogram.levels.iter().map(|level| level.strip_prefix(&prefix).unwrap_or(level).to_string()).collect();
    let bin_name = |i: usize| match histogram.edges[..] {
        [] => levels[i].clone(),
        _ => format!("{} to {}", number(histogram.edges[i], 4), number(histogram.edges[i + 1], 4)),
    };
    let x = match histogram.edges[..] {
        [] => Axis::of_names("level, the most frequent first", &levels),
        _ => Axis::new(&column.column, Scale::Linear, (0..bins).map(centre))?,
    };
    let all_fractions = histogram.fractions.iter().flatten().copied();
    let y = Axis::new("fraction of the rows", Scale::Linear, all_fractions.chain([0.0]))?;
    let series = histogram.fractions.iter().enumerate().map(|(side, fractions)| {
        let marks = fractions.iter().enumerate();
        let marks = marks.map(|(i, fraction)| DataPoint::new((centre(i), *fraction), bin_name(i)));
        let name = sample_names.get(side).cloned().unwrap_or_else(|| format!("sample {}", side + 1));
        Series { name, palette_index: side, marks: marks.collect(), ..Series::default() }
    });
    Some(Chart { series: series.collect(), has_legend: true, ..Chart::new(id, column.column.clone(), x, y) })
}

/// Returns the columns that differ most, or all columns, as a text.
pub(super) fn describe(column_tests: &[ColumnDifference], tested_rows: &str, shows_all: bool) -> String {
    let different = column_tests.iter().filter(|column| column.corrected_p_value <= MAX_P_VALUE).count();
    let alignment = |i: usize| if i == 0 { Align::Left } else { Align::Right };
    let mut table = AlignedTable::new(COLUMN_HEADINGS.iter().enumerate().map(|(i, name)| (*name, alignment(i))));
    let shown = if shows_all { column_tests.len() } else { SHOWN_COLUMNS };
    column_tests.iter().take(shown).for_each(|column| table.push_row(column_cells(column)));
    let count = format_count(column_tests.len() as u64);
    let tested = if tested_rows.is_empty() { String::new() } else { format!("{tested_rows}\n") };
    let title =
        format!("columns that differ most ({different} of {count} with a corrected p-value up to {MAX_P_VALUE})");
    let omitted = match column_tests.len().saturating_sub(shown) {
        0 => String::new(),
        omitted => match different.saturating_sub(shown) {
            0 => format!("  {omitted} more columns: -v shows them\n"),
            different => format!("  {omitted} more columns, {different} of them with such a p-value: -v shows them\n"),
        },
    };
    format!("{title}\n{tested}{table}{omitted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, p_value: f64, level: Option<&str>, histogram: Option<Histogram>) -> ColumnDifference {
        ColumnDifference {
            column: name.to_string(),
            test: "ks",
            distance: 0.25,
            p_value,
            corrected_p_value: 2.0 * p_value,
            level: level.map(String::from),
            means: [0.5, 0.75],
            difference: level.is_none().then_some(0.8),
            missing: None,
            histogram,
        }
    }

    #[test]
    fn means_have_the_digits_that_show_their_difference() {
        let shown = |first: f64, second: f64, difference: f64| format_means([first, second], Some(difference));
        assert_eq!(shown(2016.6, 2017.3, 3.4), ["2016.6", "2017.3"]);
        assert_eq!(shown(2016.96, 2017.04, 0.5), ["2016.96", "2017.04"]);
        assert_eq!(shown(99.96, 100.04, 0.5), ["99.960", "100.04"]);
        assert_eq!(shown(89.349, 84.161, -0.2), ["89.35", "84.16"]);
        // a difference of chance, and none
        assert_eq!(shown(2017.01, 2017.02, 0.001), ["2017", "2017"]);
        assert_eq!(format_means([2.0, 2.0], None), ["2.000", "2.000"]);
        assert_eq!(shown(1.0, 1.0 + 1e-12, 3.0), ["1.000000000", "1.000000000"]);
    }

    #[test]
    fn columns_are_a_table_and_charts() {
        let columns = [column("x<0>", 1e-20, None, None), column("kind", 0.3, Some("kind=a"), None)];
        let text = describe(&columns, "tested on all 5 and 7 rows", false);
        assert!(
            text.contains("(1 of 2 with")
                && text.contains("up to 0.05)\ntested on all 5 and 7 rows\n")
                && text.contains("below 1e-12")
                && text.contains("+0.80 sd"),
            "{text}"
        );
        assert!(text.contains("kind=a") && text.contains("75.0 %") && !text.contains("-v shows"), "{text}");
        let many: Vec<ColumnDifference> =
            (0..11).map(|i| column(&format!("c{i}"), if i < 10 { 1e-9 } else { 0.3 }, None, None)).collect();
        let (some, all) = (describe(&many, "", false), describe(&many, "", true));
        assert!(some.ends_with("  3 more columns, 2 of them with such a p-value: -v shows them\n"), "{some}");
        assert!(!some.contains("c8") && all.contains("c10") && !all.contains("-v shows"), "{all}");
        let fractions = [vec![0.5, 0.5], vec![0.1, 0.9]];
        for (edges, levels) in [(vec![0.0, 1.0, 2.0], vec![]), (vec![], vec!["a".to_string(), "b".to_string()])] {
            let histogram = Histogram { edges, levels, fractions: fractions.clone() };
            let chart = histogram_chart("c", &columns[0], &histogram, &["old".to_string(), "new".to_string()]).unwrap();
            assert_eq!((chart.series.len(), &*chart.series[1].name, chart.series[0].marks.len()), (2, "new", 2));
        }
    }
}
