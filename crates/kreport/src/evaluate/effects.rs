//! Importance and partial dependence of the columns.

use crate::page::{self, Axis, Chart, DataPoint, MAX_FEATURES, Section, Series, extent};
use crate::table::{Align, AlignedTable, format_count, number};
use ksolve::predict::{ColumnEffect, ColumnEffects, DependencePoint, MAX_DEPENDENCE_ROWS, PredictionSpread};
use kstore::Label;
use std::fmt;

/// Maximum number of columns in the text.
const MAX_TEXT_COLUMNS: usize = 12;

/// Length of the bar of the most important column, in characters.
const BAR_LENGTH: f64 = 24.0;

/// The importance of the columns as text: a table, and the meaning of its numbers.
pub(crate) struct ImportanceTable<'a>(&'a ColumnEffects);

/// Returns the importance of the columns as text.
pub(crate) fn importance_table(effects: &ColumnEffects) -> ImportanceTable<'_> {
    ImportanceTable(effects)
}

/// Returns an increase with its standard error: `0.200 ± 0.010`.
fn increase_text(effect: &ColumnEffect) -> String {
    format!("{} ± {}", number(effect.increase, 3), number(effect.standard_error, 2))
}

impl fmt::Display for ImportanceTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColumnEffects { rows, exchanges, loss_name, loss, columns, .. } = self.0;
        let increase = format!("increase of {loss_name}");
        let mut table = AlignedTable::new([("column", Align::Left), (&*increase, Align::Right), ("", Align::Left)]);
        let largest = columns.first().map_or(0.0, |column| column.increase).max(f64::MIN_POSITIVE);
        for column in columns.iter().take(MAX_TEXT_COLUMNS) {
            let bar = (column.increase.max(0.0) / largest * BAR_LENGTH).round() as usize;
            table.push_row([column.column.clone(), increase_text(column), "#".repeat(bar)]);
        }
        writeln!(f, "{table}")?;
        let further = match columns.len().saturating_sub(MAX_TEXT_COLUMNS) {
            0 => String::new(),
            count => format!("; the JSON has {} further columns", format_count(count as u64)),
        };
        writeln!(
            f,
            "{loss_name} {} on {} random rows; its increase if the values of a column are exchanged between rows, {exchanges} times, \
             ± standard error over rows{further}",
            number(*loss, 4),
            format_count(*rows as u64)
        )
    }
}

/// Returns the sections of the effects of columns.
pub(super) fn sections(effects: &ColumnEffects) -> Vec<Section> {
    let rows = format_count(effects.rows as u64);
    let mut importance: Vec<(String, f64, String)> =
        effects.columns.iter().map(|effect| (effect.column.clone(), effect.increase, increase_text(effect))).collect();
    importance.truncate(MAX_FEATURES);
    let loss = effects.loss_name;
    let note = page::note(&format!(
        "Increase of the {loss} ({} on these rows) if the values of the column are exchanged between rows, ± standard error over \
         {rows} random rows. Columns that say the same share their importance.",
        number(effects.loss, 4)
    ));
    let table = page::bar_table(["column", &format!("increase of {loss}")], &importance);
    let mut sections = vec![Section::new("Importance of columns", table + &note)];
    let shown = effects.columns.iter().enumerate().filter(|(_, column)| !column.dependence.is_empty());
    let measure = if effects.loss_name == "log-loss" { "probability" } else { "score" };
    let quantity = match &effects.classes[..] {
        [] => "predicted".to_string(),
        [class] => format!("{measure} of {class}"),
        _ => format!("{measure} of the class"),
    };
    // all charts have one vertical axis, so that flat effects look flat
    let has_bands = effects.classes.len() < 2;
    let heights_of = |PredictionSpread { mean, deciles }: &PredictionSpread| match has_bands {
        true => vec![deciles.0, deciles.1, *mean],
        false => vec![*mean],
    };
    let all_points = effects.columns.iter().flat_map(|column| &column.dependence);
    let heights: Vec<f64> = all_points.flat_map(|point| &point.predictions).flat_map(heights_of).collect();
    let heights = extent(heights.iter().copied());
    let charts: Vec<Chart> =
        shown.filter_map(|(i, column)| dependence_chart(i, column, &quantity, &effects.classes, heights)).collect();
    if !charts.is_empty() {
        let dependence_rows = format_count(effects.rows.min(MAX_DEPENDENCE_ROWS) as u64);
        let lines = match has_bands {
            true => {
                format!(
                    "Line: mean prediction of {dependence_rows} random rows if the column has this value in all of them. Band: from the \
                     lower to the upper decile of the rows; a band that is not parallel to the line means that the effect depends on \
                     other columns."
                )
            }
            false => format!(
                "Lines: mean {measure} of each class, over {dependence_rows} random rows, if the column has this value in all of them, \
                 for the {} most frequent classes.",
                effects.classes.len()
            ),
        };
        let note = page::note(&format!(
            "{lines} Numbers are shown between their 2 % and 98 % quantiles; the levels of a category change together."
        ));
        sections.push(Section::new("Partial dependence", page::charts(&charts) + &note));
    }
    sections
}

/// Returns the chart of a column, with a line for each class. Several lines have no bands, which
/// would hide each other.
fn dependence_chart(
    index: usize,
    effect: &ColumnEffect,
    quantity: &str,
    classes: &[Label],
    heights: (f64, f64),
) -> Option<Chart> {
    let levels: Vec<String> = effect.dependence.iter().filter_map(|point| point.level.clone()).collect();
    // scaling and its inverse round: 1 becomes 0.9999999999999998, a long label
    let rounded = |value: f64| format!("{value:.11e}").parse().unwrap_or(value);
    let values: Vec<f64> = effect.dependence.iter().map(|point| rounded(point.value)).collect();
    let x = match &levels[..] {
        // a column of a few values, such as 0 and 1, has ticks at these values
        [] => Axis::new(&effect.column, page::Scale::Linear, values.iter().copied())?.with_ticks(&values),
        names => Axis::of_names(&effect.column, names),
    };
    let y = Axis::new(quantity, page::Scale::Linear, [heights.0, heights.1])?;
    let has_bands = classes.len() < 2;
    let mark = |point: &DependencePoint, k: usize| {
        let PredictionSpread { mean, deciles } = *point.predictions.get(k)?;
        let value = point.level.clone().unwrap_or_else(|| number(point.value, 4));
        let mark = DataPoint::new((point.value, mean), format!("{} {value}", effect.column));
        Some(if has_bands { DataPoint { band: deciles, ..mark } } else { mark })
    };
    let series = |k: usize| Series {
        name: if has_bands { "mean, deciles".to_string() } else { classes[k].to_string() },
        palette_index: k,
        marks: effect.dependence.iter().filter_map(|point| mark(point, k)).collect(),
        // levels have no order, so that a line between them would mean nothing
        spread: if levels.is_empty() { page::Spread::Band } else { page::Spread::ErrorBars },
    };
    Some(Chart {
        series: (0..classes.len().max(1)).map(series).collect(),
        has_legend: !has_bands,
        ..Chart::new(format!("effect-{index}"), effect.column.clone(), x, y)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_bars_and_the_first_ones_charts() {
        let point = |value: f64, level: Option<&str>| DependencePoint {
            value,
            level: level.map(String::from),
            predictions: vec![PredictionSpread { mean: 0.5, deciles: (0.25, 0.75) }; 3],
        };
        let column = |name: &str, increase: f64, dependence: Vec<DependencePoint>| ColumnEffect {
            column: name.to_string(),
            increase,
            standard_error: 0.01,
            dependence,
        };
        let effects = ColumnEffects {
            rows: 150,
            exchanges: 3,
            loss_name: "log-loss",
            loss: 0.3,
            classes: vec![Label::Text("yes".into())],
            columns: vec![
                column("<age>", 0.2, vec![point(0.999_999_999_999_999_8, None), point(2.0, None)]),
                column("city", 0.1, vec![point(0.0, Some("Bonn")), point(1.0, Some("Ulm"))]),
                column("noise", -0.001, Vec::new()),
            ],
        };
        let sections = sections(&effects);
        let [importance, dependence] = &sections[..] else { panic!() };
        assert!(importance.body.contains("&lt;age&gt;</th><td>0.200 ± 0.010</td>"), "{}", importance.body);
        assert!(importance.body.contains("width=\"0.0\""), "a negative importance has no bar");
        let body = &dependence.body;
        assert_eq!((body.matches("class=\"band c0\"").count(), body.matches("class=\"error c0\"").count()), (1, 1));
        assert!(body.contains(">1</text>") && !body.contains("0.9999999999999998</text>"), "{body}");
        assert!(body.contains(">Ulm</text>") && body.contains(">probability of yes</text>"), "{body}");
        assert!(body.contains("mean prediction of 150 random rows if the column"), "{body}");
        let classes = ["a", "b", "<c>"].map(|class| Label::Text(class.into())).to_vec();
        let several = ColumnEffects { rows: 367, classes, ..effects };
        let body = &super::sections(&several)[1].body;
        assert_eq!((body.matches("class=\"series s").count(), body.matches("class=\"band").count()), (6, 0), "{body}");
        // fewer rows than the importance has
        assert!(body.contains("over 200 random rows, if the column"), "{body}");
        assert!(
            body.contains("data-name=\"&lt;c&gt;\"") && body.contains(">probability of the class</text>"),
            "{body}"
        );
    }
}
