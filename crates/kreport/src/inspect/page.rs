//! The page of a table: what stands out, the columns, patterns of missing values, and a histogram
//! of each column.

use super::findings::{ALL_EXCLUSIONS, Finding, MAX_CLASSES};
use super::sample::{ColumnSample, TableSample};
use crate::drawing::escape_html;
use crate::page::{self, Axis, Chart, Page, Scale, Section};
use crate::table::{format_count, percent};
use std::collections::HashMap;

/// Maximum number of columns with a histogram.
const MAX_HISTOGRAMS: usize = 60;
/// Maximum number of bins of numbers, and of levels of a category.
const MAX_BINS: usize = 30;
const MAX_LEVELS: usize = 12;
/// Maximum number of patterns of missing values, and of columns that a pattern names.
const MAX_PATTERNS: usize = 12;
const MAX_PATTERN_NAMES: usize = 8;
/// Fractions of the values below the first bin and above the last one, which include them.
const TAIL: f64 = 0.005;

/// The contents of the page of a table.
#[derive(Debug)]
pub struct TablePage<'a> {
    /// Names of the files, in one line.
    pub files: String,
    /// Format, rows, columns and bytes, as names and texts.
    pub facts: Vec<(&'static str, String)>,
    /// Headings and rows of the table of columns.
    pub columns: (Vec<&'static str>, Vec<Vec<String>>),
    /// What stands out.
    pub findings: &'a [Finding],
    /// Sample of the rows.
    pub sample: &'a TableSample,
    /// Column to be predicted, if known.
    pub target: Option<&'a str>,
    /// Warnings of the run.
    pub warnings: Vec<String>,
    /// All numbers of the page.
    pub data: serde_json::Value,
}

impl TablePage<'_> {
    /// Returns the page.
    pub fn page(&self) -> Page {
        let mut sections = vec![Section::new("Format", page::fact_list(self.facts.clone())), self.findings_section()];
        let target = self.target.and_then(|name| self.sample.columns.iter().find(|column| column.name == name));
        sections.extend(target.and_then(classes_section));
        sections.push(Section::new("Columns", page::html_table(&self.columns.0, &self.columns.1)));
        sections.extend(missing_section(self.sample));
        sections.extend(self.histogram_section());
        sections.push(page::run_section(true, Vec::new(), &[]));
        Page {
            title: "Table".to_string(),
            subtitle: self.files.clone(),
            warnings: self.warnings.clone(),
            sections,
            data: self.data.clone(),
            ..Page::default()
        }
    }

    /// Returns what stands out, each with the option that deals with it.
    fn findings_section(&self) -> Section {
        let (sampled, rows) = (self.sample.row_numbers.len() as u64, self.sample.stored_rows);
        let note = page::note(&match self.sample.is_complete() {
            true => format!("From all {} rows.", format_count(rows)),
            false => {
                format!(
                    "Seen in {} of {} rows, in blocks spread over the table.",
                    format_count(sampled),
                    format_count(rows)
                )
            }
        });
        if self.findings.is_empty() {
            return Section::new("What stands out", "<p>Nothing.</p>".to_string() + &note);
        }
        let row = |finding: &Finding| {
            let option = match &finding.options[..] {
                "" => String::new(),
                options => format!("<code>{}</code>", escape_html(options)),
            };
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td class=\"text\">{option}</td></tr>\n",
                finding.topic.label(),
                escape_html(&finding.finding)
            )
        };
        let combined = Finding::combined_exclusions(self.findings).map(|option| {
            let option = escape_html(&option);
            let cells = format!("<td></td><td class=\"text\"><code>{option}</code></td>");
            format!("<tr><th scope=\"row\">{ALL_EXCLUSIONS}</th>{cells}</tr>\n")
        });
        let rows: String = self.findings.iter().map(row).chain(combined).collect();
        let headings = "<th>finding</th><th class=\"text\">columns</th><th class=\"text\">option of a fit</th>";
        Section::new("What stands out", page::table_of_cells(headings, &rows) + &note)
    }

    fn histogram_section(&self) -> Option<Section> {
        let columns = &self.sample.columns;
        let charts: Vec<Chart> =
            columns.iter().take(MAX_HISTOGRAMS).enumerate().filter_map(|(i, column)| histogram(i, column)).collect();
        let omitted_note = match columns.len().saturating_sub(MAX_HISTOGRAMS) {
            0 => String::new(),
            count => page::note(&format!("and {} more columns", format_count(count as u64))),
        };
        let section = Section::new("Histograms", page::charts(&charts) + &omitted_note).with_class("columns");
        (!charts.is_empty()).then_some(section)
    }
}

/// Returns the fractions of the classes of a target; `None` for a target of numbers.
fn classes_section(target: &ColumnSample) -> Option<Section> {
    let row_count = target.present().count();
    let mut counts: Vec<(f64, usize)> =
        target.counts().into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect();
    if !target.is_discrete || counts.len() < 2 || counts.len() > MAX_CLASSES.min(row_count / 2) {
        return None;
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    let row = |(value, count): &(f64, usize)| {
        let fraction = *count as f64 / row_count as f64;
        (target.show(*value), fraction, format!("{} ({})", percent(fraction), format_count(*count as u64)))
    };
    let fractions: Vec<(String, f64, String)> = counts.iter().map(row).collect();
    Some(Section::new(format!("Classes of {}", target.name), page::bar_table(["class", "rows"], &fractions)))
}

/// Returns the columns that are missing together, by number of rows; `None` if no value is missing.
fn missing_section(sample: &TableSample) -> Option<Section> {
    let row_count = sample.row_numbers.len();
    let missing: Vec<&ColumnSample> =
        sample.columns.iter().filter(|column| column.values.iter().any(|value| value.is_nan())).collect();
    if missing.is_empty() {
        return None;
    }
    let mut patterns: HashMap<Vec<usize>, usize> = HashMap::new();
    for row in 0..row_count {
        let pattern = (0..missing.len()).filter(|column| missing[*column].values[row].is_nan()).collect();
        *patterns.entry(pattern).or_insert(0) += 1;
    }
    let mut patterns: Vec<(Vec<usize>, usize)> = patterns.into_iter().collect();
    patterns.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let row = |(pattern, count): &(Vec<usize>, usize)| {
        let names: Vec<&str> = pattern.iter().take(MAX_PATTERN_NAMES).map(|column| &*missing[*column].name).collect();
        let ellipsis = if pattern.len() > MAX_PATTERN_NAMES { ", …" } else { "" };
        let text = if pattern.is_empty() { "nothing".to_string() } else { format!("{}{ellipsis}", names.join(", ")) };
        let fraction = *count as f64 / row_count.max(1) as f64;
        (text, fraction, format!("{} ({})", percent(fraction), format_count(*count as u64)))
    };
    let rows: Vec<(String, f64, String)> = patterns.iter().take(MAX_PATTERNS).map(row).collect();
    let omitted_note = match patterns.len().saturating_sub(MAX_PATTERNS) {
        0 => String::new(),
        count => page::note(&format!("and {} rarer patterns", format_count(count as u64))),
    };
    let fractions = missing.iter().map(|column| {
        let fraction = column.values.iter().filter(|value| value.is_nan()).count() as f64 / row_count.max(1) as f64;
        (column.name.clone(), fraction, percent(fraction))
    });
    let fractions: Vec<(String, f64, String)> = fractions.collect();
    let body = page::side_by_side(
        &page::bar_table(["column", "missing"], &fractions),
        &(page::bar_table(["missing together", "rows"], &rows) + &omitted_note),
    );
    Some(Section::new("Missing values", body))
}

/// Returns the histogram of a column: of the values of a number, or of the most frequent levels of
/// a text or of a few integers. `None` without values, and for texts that rarely repeat.
fn histogram(index: usize, column: &ColumnSample) -> Option<Chart> {
    let missing = column.values.iter().filter(|value| value.is_nan()).count();
    let missing_note = match missing {
        0 => String::new(),
        missing => format!("{} missing", percent(missing as f64 / column.values.len() as f64)),
    };
    let distinct = column.distinct_count();
    if column.is_text() && 2 * distinct > column.present().count() && distinct > MAX_LEVELS {
        return None;
    }
    let (x, bars, bin_note) = if column.is_text() || column.is_discrete && distinct <= MAX_LEVELS {
        level_bars(column, distinct)
    } else {
        number_bars(column)?
    };
    let max_height = bars.iter().map(|bar| bar.2).fold(1.0, f64::max);
    let y = Axis::with_range("rows", (0.0, 1.04 * max_height));
    let notes: Vec<String> = [missing_note, bin_note].into_iter().filter(|note| !note.is_empty()).collect();
    let subtitle = notes.join("; ");
    (distinct > 0).then(|| Chart { bars, subtitle, ..Chart::new(format!("column-{index}"), column.name.clone(), x, y) })
}

/// Start, end and height of a bar.
type Bar = (f64, f64, f64);

fn level_bars(column: &ColumnSample, distinct: usize) -> (Axis, Vec<Bar>, String) {
    let mut counts: Vec<(f64, usize)> =
        column.counts().into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    let note = match distinct.saturating_sub(MAX_LEVELS) {
        0 => String::new(),
        count => format!("and {} rarer values", format_count(count as u64)),
    };
    counts.truncate(MAX_LEVELS);
    if !column.is_text() {
        counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let names: Vec<String> = counts.iter().map(|(value, _)| column.show(*value)).collect();
    let bar = |(i, (_, count)): (usize, &(f64, usize))| (i as f64 - 0.4, i as f64 + 0.4, *count as f64);
    (Axis::of_names("", &names), counts.iter().enumerate().map(bar).collect(), note)
}

fn number_bars(column: &ColumnSample) -> Option<(Axis, Vec<Bar>, String)> {
    let mut sorted: Vec<f64> = column.present().collect();
    sorted.sort_by(f64::total_cmp);
    let quantile = |fraction: f64| sorted.get((fraction * (sorted.len() as f64 - 1.0)).round() as usize).copied();
    let (low, high) = (quantile(TAIL)?, quantile(1.0 - TAIL)?);
    // a column that is nearly constant has no width between its quantiles
    let (low, high) = if high > low { (low, high) } else { (*sorted.first()?, *sorted.last()?) };
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
    let bin_count = ((sorted.len() as f64).sqrt() as usize).clamp(5, MAX_BINS);
    // the bins of integers begin and end between two integers
    let (low, bin_width) = match column.is_discrete {
        true => (low - 0.5, ((high - low + 1.0) / bin_count as f64).ceil()),
        false => (low, (high - low) / bin_count as f64),
    };
    let bin_count = if column.is_discrete { ((high + 0.5 - low) / bin_width).ceil() as usize } else { bin_count };
    let mut counts = vec![0u64; bin_count];
    for value in &sorted {
        counts[(((value - low) / bin_width).max(0.0) as usize).min(bin_count - 1)] += 1;
    }
    let bar = |(i, count): (usize, &u64)| (low + i as f64 * bin_width, low + (i + 1) as f64 * bin_width, *count as f64);
    let bars: Vec<Bar> = counts.iter().enumerate().map(bar).collect();
    let has_tails = sorted.first().is_some_and(|first| *first < low) || sorted.last().is_some_and(|last| *last > high);
    let note = if has_tails { "the outer bars include all values beyond" } else { "" };
    let x = Axis::new("", Scale::Linear, [low, low + bin_count as f64 * bin_width])?;
    Some((x, bars, note.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, values: Vec<f64>) -> ColumnSample {
        let is_discrete = values.iter().all(|value| value.is_nan() || value.fract() == 0.0);
        ColumnSample { name: name.to_string(), values, is_discrete, ..ColumnSample::default() }
    }

    #[test]
    fn bars_count_every_value() {
        let total = |column: &ColumnSample| {
            let chart = histogram(0, column).unwrap();
            (chart.bars.len(), chart.bars.iter().map(|bar| bar.2).sum::<f64>())
        };
        let squares = column("a", (0..1000).map(|i| f64::from(i).powi(2) + 0.5).collect());
        assert_eq!(total(&squares), (30, 1000.0));
        let integers = column("b", (0..1000).map(|i| f64::from(i % 77)).collect());
        let chart = histogram(0, &integers).unwrap();
        assert_eq!((total(&integers).1, chart.bars[0].0), (1000.0, -0.5));
        let mut classes = column("c", vec![1.0, 1.0, 0.0, f64::NAN]);
        assert_eq!(total(&classes), (2, 3.0));
        classes.texts = vec!["no".to_string(), "yes".to_string()];
        let chart = histogram(0, &classes).unwrap();
        assert_eq!((chart.x.name_of(0.0), &chart.subtitle[..]), (Some("yes"), "25.0 % missing"));
        assert_eq!(total(&column("constant", vec![3.25; 60])), (7, 60.0));
        let long_tail = column("tail", (0..1000).map(|i| if i == 7 { 1e9 } else { f64::from(i % 50) / 7.0 }).collect());
        assert!(histogram(0, &long_tail).unwrap().subtitle.contains("outer bars"));
        assert!(histogram(0, &column("empty", vec![f64::NAN; 3])).is_none());
    }

    #[test]
    fn the_page_has_findings_patterns_and_histograms() {
        let gaps = |step: usize| (0..90).map(move |i| if i % step == 0 { f64::NAN } else { i as f64 / 7.0 }).collect();
        let columns = vec![column("<a>", gaps(3)), column("b", gaps(3)), column("c", gaps(9))];
        let sample = TableSample { columns, row_numbers: (0..90).collect(), stored_rows: 90 };
        let findings = super::super::findings(&sample, None);
        let table = TablePage {
            files: "t.csv".to_string(),
            facts: vec![("rows", "90".to_string())],
            columns: (vec!["column", "type"], vec![vec!["<a>".to_string(), "float64".to_string()]]),
            findings: &findings,
            sample: &sample,
            target: None,
            warnings: vec!["odd".to_string()],
            data: serde_json::Value::Null,
        };
        let html = table.page().to_string();
        assert!(html.contains("<code>--missing indicator</code>") && !html.contains("<a>"), "{html}");
        assert!(html.contains("&lt;a&gt;, b</th><td>22.2 % (20)</td>"), "two columns are missing together: {html}");
        assert!(html.contains("&lt;a&gt;, b, c</th><td>11.1 % (10)</td>") && html.contains("<li>odd</li>"), "{html}");
        assert_eq!(html.matches("<figure class=\"chart\">").count(), 3);
    }
}
