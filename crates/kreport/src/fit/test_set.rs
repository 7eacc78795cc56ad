//! The error of a fit on its test rows: rows of the same table that the fit did not read.

use super::surface::selected_cell;
use super::text::cv_error_deviation;
use crate::evaluate::{EvaluateReport, importance_table};
use crate::page::Section;
use crate::table::{format_count, number, percent};
use ksolve::job::{self, Run, StageObserver, TestSplit};
use ksolve::predict::{ChartData, Evaluation, Predictor};
use ksolve::{Result, Task};
use kstore::{Part, Selection, Table, TestRows, TestRule, TestSpec};
use std::fmt;
use std::sync::Arc;

/// Number of standard errors by which the test error must exceed the cross-validated error for a
/// warning.
const MIN_EXCESS: f64 = 3.0;

/// The test rows of a fit, chosen before anything is learned, and the selection of all its rows.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct TestPart {
    split: TestSplit,
    selection: Selection,
}

impl TestPart {
    /// Chooses test rows among the rows of the selection of a fit. The passes are in
    /// [`Run::choose_test_rows`].
    ///
    /// # Errors
    /// The errors of [`Run::choose_test_rows`].
    pub fn choose(table: &Table, selection: &Selection, spec: &TestSpec, seed: u64, run: &Run<'_>) -> Result<Self> {
        let split = run.choose_test_rows(table, selection, spec, seed)?;
        Ok(Self { split, selection: selection.clone() })
    }

    /// Returns a selection without the test rows.
    pub fn without_test_rows(&self, selection: Selection) -> Selection {
        Selection { part: Some(Part::Training(Arc::clone(&self.split.test_rows))), ..selection }
    }

    /// Scores a fitted model on the test rows, in one pass over them; the importance of the columns
    /// needs another pass. Warns if the test error is much larger than the cross-validated error of
    /// the fit.
    ///
    /// # Errors
    /// The errors of [`EvaluateReport::compute`].
    pub fn evaluate(
        &self,
        predictor: Predictor,
        fit: &job::FitReport,
        table: &Table,
        computes_effects: bool,
        run: &Run<'_>,
    ) -> Result<TestSetReport> {
        let TestSplit { test_rows, test_count, row_count } = &self.split;
        let predictor = predictor.with_capacity_for(table)?;
        let is_ranking = predictor.metadata().task == Task::Ranking;
        let selection = &self.selection;
        let test_selection = Selection {
            targets: selection.targets.clone(),
            weight: selection.weight.clone(),
            group: selection.group.clone().filter(|_| is_ranking),
            rows: selection.rows.clone(),
            filter: selection.filter.clone(),
            missing_target: selection.missing_target,
            part: Some(Part::Test(Arc::clone(test_rows))),
            ..Selection::default()
        };
        let selected = predictor.select(table, test_selection)?;
        let (scores, chart_data) = EvaluateReport::compute(&predictor, &selected, None, computes_effects, run)?;
        excess_warning(fit, &scores).into_iter().for_each(|text| run.stage_recorder().warn(text));
        Ok(TestSetReport {
            spec: test_rows.spec.clone(),
            description: describe_test_rows(test_rows),
            seed: test_rows.seed,
            rows: *test_count,
            training_rows: row_count - test_count,
            scores,
            chart_data,
        })
    }
}

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
    /// Scores of the model on the test rows.
    pub scores: EvaluateReport,
    /// Points of the charts of the page.
    #[serde(skip)]
    pub chart_data: ChartData,
}

/// Describes test rows: `20 % of each value of label, at random`.
fn describe_test_rows(test_rows: &TestRows) -> String {
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

/// Warns if the test error is more than [`MIN_EXCESS`] standard errors above the cross-validated
/// error: by the standard error of their difference, as of independent errors.
fn excess_warning(fit: &job::FitReport, scores: &EvaluateReport) -> Option<String> {
    let cell = selected_cell(fit)?;
    let (name, [cv, cv_deviation], [test, test_deviation]) = match scores {
        EvaluateReport::Target(Evaluation::Regression(scores)) => {
            let cv = cell.cv_mse?.sqrt();
            let test = [scores.scores.rmse?, scores.standard_errors.rmse?];
            ("rmse", [cv, cell.fold_standard_error()? / (2.0 * cv)], test)
        }
        EvaluateReport::Target(Evaluation::Classification(scores)) => {
            let cv = cell.cv_error?;
            let test = [scores.error?, scores.standard_errors.error?];
            ("error rate", [cv, cv_error_deviation(fit, cv, &cell.fold_error)?.0], test)
        }
        _ => return None,
    };
    let excess = (test - cv) / cv_deviation.hypot(test_deviation);
    (excess.is_finite() && excess > MIN_EXCESS).then(|| {
        format!(
            "the test {name} {} is {} standard errors above the cross-validated {name} {}: the test rows differ from the \
             training rows, and new rows of their kind have the test error; kmill test mmd compares the columns of both parts",
            number(test, 4),
            number(excess, 2),
            number(cv, 4)
        )
    })
}

/// Returns a sentence on the standard errors if they assume independent rows. `None` for random
/// test rows, for rankings, and for standard errors over clusters.
fn error_note(spec: &TestSpec, scores: &EvaluateReport) -> Option<&'static str> {
    let note = "± assumes independent rows: it is too small if rows of the same group or time are alike";
    let is_by_row = matches!(scores, EvaluateReport::Target(_)) && scores.error_clusters().is_none();
    (is_by_row && !matches!(spec, TestSpec::Random { .. })).then_some(note)
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
        let error_note = error_note(&self.spec, &self.scores).map_or(String::new(), |note| format!(" {note}."));
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
        self.scores.few_classes_table().map_or(Ok(()), |table| write!(f, "\n{table}"))?;
        self.scores.effects().map_or(Ok(()), |effects| write!(f, "\n{}", importance_table(effects)))?;
        error_note(&self.spec, &self.scores).map_or(Ok(()), |note| write!(f, "\n{note}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;
    use kmodel::score::RegressionMetrics;
    use ksolve::predict::{RegressionErrors, RegressionScores};

    #[test]
    fn a_test_error_far_above_the_cross_validated_error_is_a_warning() {
        let mut fit = report().fit;
        let (rank, lambda) = (fit.rank, fit.lambda);
        let is_chosen = |cell: &&mut ksolve::SurfaceCell| cell.rank == rank && Some(cell.lambda) == lambda;
        let cell = fit.surface.iter_mut().find(is_chosen).unwrap();
        // cross-validated rmse 2 ± 0.058
        (cell.cv_mse, cell.fold_mse) = (Some(4.0), vec![Some(3.6), Some(4.0), Some(4.4)]);
        let warning = |rmse: f64| {
            let mse = Some(rmse * rmse);
            let (rmse, mae, median_error, mape) = (Some(rmse), None, None, None);
            let scores = RegressionMetrics { mse, rmse, mae, median_error, mape, r2: None, relative_error: None };
            let standard_errors = RegressionErrors { rmse: Some(0.1), ..RegressionErrors::default() };
            let scores = RegressionScores {
                rows: 10.0,
                scores,
                standard_errors,
                error_clusters: None,
                by_target: Vec::new(),
                coverage: None,
                loss: None,
                intervals: Vec::new(),
                naive_forecast: None,
                effects: None,
            };
            excess_warning(&fit, &EvaluateReport::Target(Evaluation::Regression(scores)))
        };
        let text = warning(2.5).unwrap();
        assert!(text.contains("rmse 2.500 is 4.3 standard errors above the cross-validated rmse 2.000"), "{text}");
        assert_eq!((warning(2.3), warning(1.0)), (None, None));
    }
}
