//! The error of a fit on its test rows: rows of the same table that the fit did not read.

use crate::evaluate::EvaluateReport;
use crate::page::Section;
use crate::table::{format_count, percent};
use ksolve::predict::ChartData;
use kstore::{TestRows, TestRule, TestSpec};
use std::fmt;

/// The test rows of a fit, and the scores of its model on them.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TestSetReport {
    /// Description of the test rows, as the user wrote it.
    pub spec: TestSpec,
    /// What the description selects.
    #[serde(rename = "selects")]
    pub description: String,
    /// Seed of the random choices.
    pub seed: u64,
    /// Number of test rows.
    pub rows: u64,
    /// Number of all other rows, among which the fit learned.
    pub training_rows: u64,
    /// Scores of the model on the test rows, with standard errors that assume independent rows.
    pub scores: EvaluateReport,
    /// Points of the charts of the page.
    #[serde(skip)]
    pub chart_data: ChartData,
}

/// Describes test rows: `20 % of each value of label, at random`.
pub fn describe_test_rows(test_rows: &TestRows) -> String {
    let percentage = |text: String| text.replace('%', " %");
    match (&test_rows.spec, &test_rows.rule) {
        (TestSpec::Random { fraction, .. }, TestRule::Keys { column: Some(column), .. }) => {
            format!("{} of each value of {column}, at random", percentage(fraction.to_string()))
        }
        (TestSpec::Random { fraction, .. }, _) => {
            format!("{} of the rows, at random", percentage(fraction.to_string()))
        }
        (TestSpec::Last { fraction, .. }, TestRule::Where(condition)) => {
            format!("the last {} in the order of {}: {condition}", percentage(fraction.to_string()), condition.column)
        }
        (TestSpec::Last { fraction, .. }, _) => {
            format!("the last {} of the rows, in the order of the table", percentage(fraction.to_string()))
        }
        (TestSpec::Groups { fraction, column }, _) => {
            format!("{} of the values of {column}, each with all its rows, at random", percentage(fraction.to_string()))
        }
        (TestSpec::Where(condition), _) => condition.to_string(),
    }
}

/// Returns a sentence on the standard errors, which assume independent rows. `None` for random test
/// rows.
fn error_note(spec: &TestSpec) -> Option<&'static str> {
    let note = "± assumes independent rows: it is too small if rows of the same group or time are alike";
    (!matches!(spec, TestSpec::Random { .. })).then_some(note)
}

impl TestSetReport {
    /// Returns the heading: how many rows are test rows, and how they were chosen.
    fn heading(&self) -> String {
        let (rows, all_rows) = (format_count(self.rows), self.rows + self.training_rows);
        // only the number of random rows is exactly the requested one
        let fraction = match &self.spec {
            TestSpec::Random { .. } => String::new(),
            _ => format!("{}; ", percent(self.rows as f64 / all_rows.max(1) as f64)),
        };
        format!("test rows: {rows} of {} ({fraction}{})", format_count(all_rows), self.description)
    }

    /// Returns the sections of a page.
    pub(super) fn sections(&self) -> Vec<Section> {
        let error_note = error_note(&self.spec).map_or(String::new(), |note| format!(" {note}."));
        let note = format!("{}; the fit did not read them.{error_note}", self.heading());
        let mut sections = self.scores.sections(&self.chart_data);
        for (i, section) in sections.iter_mut().enumerate() {
            if i == 0 {
                section.body += &crate::page::note(&note);
            }
            section.title = format!("Test rows: {}", section.title.to_lowercase());
        }
        sections
    }
}

impl fmt::Display for TestSetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = kstore::display::escape_line(&self.heading()).to_string();
        write!(f, "{heading}; the fit did not read them\n{}", crate::table::facts(self.scores.facts()))?;
        error_note(&self.spec).map_or(Ok(()), |note| write!(f, "\n{note}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_errors_of_groups_and_last_rows_have_a_note() {
        let has_note = |spec: &str| error_note(&TestSpec::parse(spec).unwrap()).is_some();
        assert!(has_note("groups:20%:subject") && has_note("last:15%") && has_note("where fold == 9"));
        assert!(!has_note("20%") && !has_note("20%:label"));
    }
}
