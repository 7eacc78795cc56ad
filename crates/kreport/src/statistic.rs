//! The report of a hypothesis test: as text, JSON and a page with the columns that differ most.

mod columns;

use crate::fit::{ResourceReport, Verbosity, describe_certificate};
use crate::page::{self, Axis, Chart, DataPoint, Page, Scale, Section, Series};
use crate::table::{Align, AlignedTable, facts, format_count, number, percent, rounded_kernel};
use ksolve::Certificate;
use ksolve::statistic::{ConditionalFigures, GroupDifference, PValues, TestOutcome};
use kstore::display;
use std::{fmt, path::PathBuf};

/// The smallest p-value that is shown: the resolution of the limit distributions.
const MIN_P_VALUE: f64 = 1e-12;

/// The report of a test.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TestReport {
    /// Name of the statistic.
    pub statistic: &'static str,
    /// Names of the columns of each kernel.
    pub columns: Vec<Vec<String>>,
    /// Number of columns of the table, if one of them, such as a category, has several features.
    #[serde(skip)]
    pub table_columns: Option<usize>,
    /// Certificate of the training rows of a model, with which the certificate of the new rows is
    /// compared; `None` without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit_certificate: Option<Certificate>,
    /// Number of columns of sparse rows, which have no names; `None` for dense rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_columns: Option<usize>,
    /// The set of columns that is a column of sparse rows, as an index of `columns`.
    #[serde(skip)]
    pub sparse_set: Option<usize>,
    /// The statistic, its p-values, and the tests of single columns.
    #[serde(flatten)]
    pub outcome: TestOutcome,
    /// Number of random permutations.
    pub permutations: u64,
    /// The feature map, as an expression.
    pub map: String,
    /// Number of rows with a missing value, which the test skipped; `None` if it is unknown or if
    /// missing values are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Groups of the new rows, compared with the training rows of a model; empty for other tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupDifference>,
    /// Output file of the witness function of each row.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "lossy_path")]
    pub output: Option<PathBuf>,
    /// Names of the samples, in the order of their numbers of rows: the condition and its opposite,
    /// or the tables; of one table, its name.
    #[serde(rename = "samples", skip_serializing_if = "is_one_sample")]
    pub sample_names: Vec<String>,
    /// Resources used by the run, and its warnings.
    #[serde(flatten)]
    pub resources: ResourceReport,
    /// Type of rows and features: `f32` or `f64`.
    pub precision: &'static str,
    /// Verbosity of the text.
    #[serde(skip)]
    pub verbosity: Verbosity,
}

fn lossy_path<S: serde::Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().map_or(String::new(), |path| path.to_string_lossy().into_owned()))
}

fn is_one_sample(names: &[String]) -> bool {
    names.len() < 2
}

/// Limits of negligible, small and medium differences in standard deviations (Cohen, "Statistical
/// power analysis for the behavioral sciences", 1988), and the areas Φ(difference/√2) under the ROC
/// curves of two normal distributions.
const EFFECT_LIMITS: [(f64, f64, &str); 3] =
    [(0.2, 0.556, "negligible"), (0.5, 0.638, "small"), (0.8, 0.714, "medium")];

fn effect_word_of_difference(difference: f64) -> &'static str {
    EFFECT_LIMITS.iter().find(|(limit, ..)| difference < *limit).map_or("large", |(.., word)| word)
}

/// Describes the size of a difference by the area under a ROC curve.
///
/// Reference: Ruscio, "A probability-based measure of effect size", Psychological Methods 13, 2008.
fn effect_word(auc: f64) -> &'static str {
    let auc = auc.max(1.0 - auc);
    EFFECT_LIMITS.iter().find(|(_, limit, _)| auc < *limit).map_or("large", |(.., word)| word)
}

/// Limits of negligible, small and medium correlations (Cohen, "Statistical power analysis for the
/// behavioral sciences", 1988).
const CORRELATION_LIMITS: [(f64, &str); 3] = [(0.1, "negligible"), (0.3, "small"), (0.5, "medium")];

fn effect_word_of_correlation(correlation: f64) -> &'static str {
    CORRELATION_LIMITS.iter().find(|(limit, _)| correlation < *limit).map_or("large", |(_, word)| word)
}

fn format_p_value(value: f64) -> String {
    if value <= MIN_P_VALUE { "below 1e-12".to_string() } else { number(value, 3) }
}

impl TestReport {
    /// Returns the facts: kernels, features, statistic and p-values.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let TestOutcome { statistic: test_statistic, kernels, ranks, .. } = &self.outcome;
        let mut lines = self.sample_facts();
        let alone = test_statistic.kernel_p_values.iter();
        let alone = alone.map(|value| format!(", p-value {} alone", format_p_value(*value)));
        let kernel_facts = kernels.iter().zip(alone.chain(std::iter::repeat(String::new())));
        lines.extend(kernel_facts.map(|(kernel, alone)| ("kernel", rounded_kernel(kernel) + &alone)));
        let ranks: Vec<String> = ranks.iter().map(|rank| format_count(*rank as u64)).collect();
        lines.push(match ranks.is_empty() {
            true => ("features", "none: exact kernel".to_string()),
            false => {
                ("features", format!("{} ({})", ranks.join(if ranks.len() > 2 { ", " } else { " and " }), self.map))
            }
        });
        let certificate = test_statistic.certificate.filter(|_| !ranks.is_empty());
        lines.extend(certificate.map(|certificate| ("certificate", self.describe_certificates(&certificate))));
        lines.extend(
            self.dropped
                .filter(|dropped| *dropped > 0)
                .map(|dropped| ("skipped", format!("{} rows, which have a missing value", format_count(dropped)))),
        );
        lines.extend(test_statistic.conditional.iter().flat_map(|figures| self.regression_facts(figures)));
        let [biased, unbiased] = [test_statistic.biased, test_statistic.unbiased].map(|value| number(value, 4));
        lines.push((self.statistic, format!("{biased} biased, {unbiased} unbiased")));
        lines.extend(test_statistic.alignment.map(|alignment| ("alignment", number(alignment, 4))));
        lines.extend(test_statistic.auc.map(|auc| {
            let word = effect_word(auc);
            ("effect", format!("{word}: auc {auc:.3} of the witness function, on rows it was not learned from"))
        }));
        lines.extend(test_statistic.witness_difference.map(|difference| {
            let word = effect_word_of_difference(difference);
            (
                "effect",
                format!("{word}: the means of the witness function differ by {difference:.2} standard deviations"),
            )
        }));
        lines.extend(test_statistic.conditional.as_ref().and_then(|figures| figures.correlation).map(|correlation| {
            let word = effect_word_of_correlation(correlation);
            let of = "of functions of the residuals, on rows they were not learned from";
            ("effect", format!("{word}: correlation {correlation:.3} {of}"))
        }));
        let PValues { permutation, spectrum, gamma } = test_statistic.p_values;
        let correction = match test_statistic.kernel_p_values.len() {
            0 => String::new(),
            count => format!(", corrected for {count} kernels"),
        };
        let p_values = [
            (permutation, format!("by {} permutations{correction}", format_count(self.permutations))),
            (spectrum, "by the limit distribution (spectrum)".to_string()),
            (gamma, "by the gamma distribution of the same mean and variance".to_string()),
        ];
        let mut title = "p-value";
        for (value, method) in p_values.into_iter().filter_map(|(value, method)| Some((value?, method))) {
            lines.push((title, format!("{} {method}", format_p_value(value))));
            title = "";
        }
        lines.extend(self.output.iter().map(|path| ("witness", display::escape_path(path).to_string())));
        lines
    }

    /// Describes the certificate of the tested rows and, with a model, of its training rows.
    fn describe_certificates(&self, certificate: &Certificate) -> String {
        match &self.fit_certificate {
            Some(fit) => {
                let [new, old] = [certificate, fit].map(|certificate| number(certificate.trace_error, 3));
                format!("relative trace error {new} on the new rows, {old} on the training rows")
            }
            None => describe_certificate(certificate),
        }
    }

    /// Returns the names of two samples, with their numbers of rows.
    fn sample_facts(&self) -> Vec<(&'static str, String)> {
        if is_one_sample(&self.sample_names) {
            return Vec::new();
        }
        let fact = |((title, name), rows): ((&'static str, &String), &u64)| {
            (title, format!("{} ({} rows)", display::escape_line(name), format_count(*rows)))
        };
        ["first", "second"].into_iter().zip(&self.sample_names).zip(&self.outcome.rows).map(fact).collect()
    }

    /// Returns the number of rows on which the columns were tested, as the end of a sentence.
    fn tested_rows(&self) -> String {
        let tested: Vec<String> = self.outcome.column_test_rows.iter().map(|rows| format_count(*rows)).collect();
        let tested = tested.join(" and ");
        match self.outcome.column_test_rows == self.outcome.rows {
            _ if tested.is_empty() => String::new(),
            true => format!("tested on all {tested} rows"),
            false => format!("tested on {tested} random rows; means of all rows"),
        }
    }

    /// Returns the facts of the regressions on the columns of `--given`.
    fn regression_facts(&self, figures: &ConditionalFigures) -> Vec<(&'static str, String)> {
        let ConditionalFigures { explained, lambdas, degrees_of_freedom, components, .. } = figures;
        let fact = |of: &str, i: usize| {
            let [explained, lambda] = [percent(explained[i]), number(lambdas[i], 2)];
            format!(
                "{explained} of the features of {of} ({:.0} degrees of freedom, lambda {lambda})",
                degrees_of_freedom[i]
            )
        };
        vec![
            ("explained", fact("the first and the given columns", 0)),
            ("", fact("the second columns", 1)),
            ("residuals", format!("{} and {} principal components", components[0], components[1])),
        ]
    }

    fn subtitle(&self) -> String {
        let rows: Vec<String> = self.outcome.rows.iter().map(|rows| format_count(*rows)).collect();
        let sparse_columns = |set: usize| self.sparse_columns.filter(|_| self.sparse_set == Some(set));
        let sets = self.columns.iter().enumerate();
        let columns: Vec<String> =
            sets.map(|(set, names)| format_count(sparse_columns(set).unwrap_or(names.len()) as u64)).collect();
        match &columns[..] {
            [first, second, given] => format!("{} rows, {first} and {second} columns given {given}", rows[0]),
            _ => {
                let columns = match self.table_columns {
                    Some(count) => {
                        format!("{} columns ({} features)", format_count(count as u64), columns.join(" and "))
                    }
                    None => format!("{} columns", columns.join(" and ")),
                };
                format!("{} rows, {columns}", rows.join(" and "))
            }
        }
    }

    /// Returns the report as an HTML page, as written by `--report`.
    pub fn page(&self) -> Page {
        let TestOutcome { column_tests, passes, planned_bytes, .. } = &self.outcome;
        let mut sections = vec![Section::new("Result", page::fact_list(self.facts()))];
        if !column_tests.is_empty() {
            sections.push(columns::section(column_tests, &self.tested_rows(), &self.sample_names));
        }
        if !self.groups.is_empty() {
            let note = "Each group is compared with the training rows. Holm's method corrects the p-values for the number of groups. The \
                witness function is positive for rows that are more typical of the training rows, negative for rows that are more typical of \
                the new rows.";
            let rows: Vec<Vec<String>> = self.groups.iter().map(|group| group_cells(group).to_vec()).collect();
            let charts: Vec<Chart> = group_charts(&self.groups).collect();
            let table = page::html_table(&GROUP_HEADINGS, &rows);
            sections.push(Section::new("Groups", page::charts(&charts) + &table + &page::note(note)));
        }
        let mut run_facts = vec![("precision", self.precision.to_string())];
        run_facts.extend(self.resources.facts(Some(*passes), Some(*planned_bytes)));
        sections.push(page::run_section(true, run_facts, &self.resources.seconds));
        Page {
            title: format!("{} test", self.statistic),
            subtitle: self.subtitle(),
            warnings: self.resources.warnings.clone(),
            sections,
            data: serde_json::to_value(self).unwrap_or_default(),
            ..Page::default()
        }
    }
}

/// Headings of the table of groups.
const GROUP_HEADINGS: [&str; 6] = ["group", "rows", "mmd", "p-value", "corrected", "witness"];

/// Number of groups that are shown as text.
const SHOWN_GROUPS: usize = 12;

fn group_cells(group: &GroupDifference) -> [String; 6] {
    let [p_value, corrected] =
        [group.p_value, group.corrected_p_value].map(|value| value.map_or(String::new(), format_p_value));
    let [biased, witness] = [group.biased, group.witness].map(|value| number(value, 4));
    [group.group.clone(), format_count(group.rows), biased, p_value, corrected, witness]
}

/// Returns charts of the statistic and of the witness function in the order of the groups.
fn group_charts(groups: &[GroupDifference]) -> impl Iterator<Item = Chart> {
    let chart = |id: &str, title: &str, value: fn(&GroupDifference) -> f64| {
        let x = Axis::of_names("group", &groups.iter().map(|group| group.group.clone()).collect::<Vec<_>>());
        let y = Axis::new(title, Scale::Linear, groups.iter().map(value).chain([0.0]))?;
        let marks = groups.iter().enumerate();
        let marks = marks.map(|(i, group)| DataPoint::new((i as f64, value(group)), group.group.clone())).collect();
        let series = vec![Series { name: title.to_string(), marks, ..Series::default() }];
        Some(Chart { series, ..Chart::new(id, title, x, y) })
    };
    let mmd = chart("groups", "mmd from the training rows", |group| group.biased);
    let witness = chart("witness", "mean of the witness function", |group| group.witness);
    mmd.into_iter().chain(witness)
}

/// Returns the groups as a text; of many groups, the groups with the smallest p-values.
fn describe_groups(groups: &[GroupDifference]) -> String {
    let mut shown: Vec<&GroupDifference> = groups.iter().collect();
    let title = match groups.len() > SHOWN_GROUPS {
        true => format!("groups that differ most, of {}", format_count(groups.len() as u64)),
        false => "groups".to_string(),
    };
    if groups.len() > SHOWN_GROUPS {
        let p_value = |group: &GroupDifference| group.p_value.unwrap_or(1.0);
        shown.sort_by(|a, b| p_value(a).total_cmp(&p_value(b)).then(b.biased.total_cmp(&a.biased)));
        shown.truncate(SHOWN_GROUPS);
    }
    let alignment = |i: usize| if i == 0 { Align::Left } else { Align::Right };
    let mut table = AlignedTable::new(GROUP_HEADINGS.iter().enumerate().map(|(i, name)| (*name, alignment(i))));
    shown.into_iter().for_each(|group| table.push_row(group_cells(group)));
    format!("{title}\n{table}")
}

impl fmt::Display for TestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}\n", self.statistic, self.subtitle())?;
        writeln!(f, "{}", facts(self.facts()))?;
        if !self.outcome.column_tests.is_empty() {
            let shows_all = self.verbosity == Verbosity::Verbose;
            writeln!(f, "{}", columns::describe(&self.outcome.column_tests, &self.tested_rows(), shows_all))?;
        }
        if !self.groups.is_empty() {
            writeln!(f, "{}", describe_groups(&self.groups))?;
        }
        write!(f, "{}", facts(self.resources.facts(Some(self.outcome.passes), None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_have_the_limits_of_normal_distributions() {
        // scipy.stats.norm.cdf(np.array([.2, .5, .8]) / np.sqrt(2)) is .556, .638, .714
        let words = [0.5, 0.56, 0.65, 0.72, 0.2].map(effect_word);
        assert_eq!(words, ["negligible", "small", "medium", "large", "large"]);
        assert_eq!([0.1, 0.3, 0.6, 2.0].map(effect_word_of_difference), ["negligible", "small", "medium", "large"]);
    }
}
