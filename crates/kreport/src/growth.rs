//! New rows of a growing fit, compared with the rows of the fit.

use crate::table::{format_count, join_with_commas, number, percent};
use ksolve::growth::{GrowthReport, MissedTrace, RangeReport};

/// Largest number of columns that the text lists.
const MAX_LISTED_COLUMNS: usize = 5;

/// Returns the comparison as names and texts; the sentence comes last.
pub fn growth_lines(report: &GrowthReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::from_iter(report.missed.map(|missed| ("missed trace", describe_missed(&missed))));
    let (moved, by_chance): (Vec<&RangeReport>, Vec<&RangeReport>) =
        report.ranges.iter().partition(|range| range.moved);
    let listed = moved.iter().take(MAX_LISTED_COLUMNS).map(|range| ("range moved", describe_range(range)));
    lines.extend(listed);
    let unlisted = moved.len().saturating_sub(MAX_LISTED_COLUMNS);
    lines.extend((unlisted > 0).then(|| ("", format!("and of {unlisted} more columns, see --json"))));
    lines.extend((!by_chance.is_empty()).then(|| {
        let names = by_chance.iter().take(MAX_LISTED_COLUMNS).map(|range| range.range.column.clone());
        let ellipsis = if by_chance.len() > MAX_LISTED_COLUMNS { ", …" } else { "" };
        let rows = format_count(by_chance.iter().map(|range| range.rows).max().unwrap_or(0));
        (
            "outside ranges",
            format!("at most {rows} rows of {}{ellipsis}: not more than by chance", join_with_commas(names)),
        )
    }));
    lines.extend(report.unseen.iter().map(|column| {
        let rows = format_count(column.rows);
        ("unseen values", format!("{}: {rows} rows ({})", column.column, percent(column.fraction)))
    }));
    lines.push(("new rows", report.sentence.clone()));
    lines
}

fn describe_missed(missed: &MissedTrace) -> String {
    let error = missed.standard_error.map_or(String::new(), |error| format!(" ± {}", percent(error)));
    let fit = missed
        .fit_rows
        .map_or(String::new(), |fit| format!(", {} of the rows of the fit (leave-one-out)", percent(fit)));
    format!("{}{error} of the new rows{fit}", percent(missed.new_rows))
}

fn describe_range(report: &RangeReport) -> String {
    let ends = |range: [f64; 2]| format!("{} to {}", number(range[0], 4), number(range[1], 4));
    let range = &report.range;
    format!(
        "{}: {} rows ({}) outside {}, now {}",
        range.column,
        format_count(report.rows),
        percent(report.fraction),
        ends(range.fit_range),
        ends(range.range)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::growth::Growth;

    #[test]
    fn lines_show_moved_ranges_and_the_sentence_last() {
        let json = r#"{"rows": 1000, "fit_rows": 5000, "columns": 2, "ranges": [
            {"column": "x", "fit": [0, 1], "range": [-1, 3.5], "below": 100, "above": 200},
            {"column": "z", "fit": [0, 1], "range": [0, 1.5], "below": 0, "above": 1}]}"#;
        let growth: Growth = serde_json::from_str(json).unwrap();
        let lines = growth_lines(&growth.report("fit anew"));
        assert_eq!(
            lines[0],
            ("range moved", "x: 300 rows (30.0 %) outside 0 to 1.000, now -1.000 to 3.500".to_string())
        );
        assert_eq!(lines[1], ("outside ranges", "at most 1 rows of z: not more than by chance".to_string()));
        assert_eq!(lines[2].0, "new rows");
    }
}
