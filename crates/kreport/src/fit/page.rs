//! The report of a fit as an HTML page: the surface, the certificate, the scaling and the times.

use super::{FitReport, TestSetReport};
use crate::clusters;
use crate::evaluate;
use crate::importance;
use crate::page::{self, Axis, Chart, DataPoint, MAX_FEATURES, Page, Scale, Section, Series};
use crate::table::{format_count, join_with_commas, number, optional_number, rounded_kernel};
use ksolve::job::MetricReport;
use ksolve::metric::RoundReport;

impl FitReport {
    /// Returns the report as an HTML page, as written by `--report`.
    pub fn page(&self) -> Page {
        let fit = &self.fit;
        let mut result_facts = self.result_facts();
        let is_shown = |(name, _): &(&str, String)| *name != importance::METRIC_WEIGHTS || self.shows_weights();
        result_facts.extend(self.method_facts().into_iter().filter(is_shown));
        result_facts.extend(self.model.iter().map(|model| ("model", model.to_string())));
        let convention = fit.lambdas().first().map_or(String::new(), |_| page::note(fit.lambda_convention));
        let mut sections = vec![Section::new("Result", page::fact_list(result_facts) + &convention)];
        let mut test_sections = self.test_set.iter().flat_map(TestSetReport::sections);
        sections.extend(test_sections.next());
        sections.extend(self.surface_html().map(|surface| Section::new("Surface", surface)));
        sections.extend(self.certificate_chart().map(|chart| Section::new("Certificate", page::charts([&chart]))));
        sections.extend(fit.metric.as_ref().map(|metric| Section::new("Metric", self.metric_html(metric))));
        sections.extend(self.slope_section().filter(|_| !self.has_measured_importance()));
        sections.extend(clusters::sections(fit.cluster_counts.as_ref(), &fit.clusters, fit.row_name_column.as_deref()));
        sections.push(Section::new("Data", self.data_html()));
        sections.extend(test_sections);
        sections.push(self.run_section());
        let (rows, features, targets) =
            (format_count(fit.rows), format_count(fit.features as u64), self.target_suffix());
        Page {
            title: format!("{} fit", fit.solver),
            subtitle: format!("{rows} rows, {features} features{targets}, {}", rounded_kernel(&fit.kernel)),
            warnings: self.resources.warnings.clone(),
            style: self.test_set.as_ref().map_or(String::new(), |_| evaluate::CURVE_STYLE.to_string()),
            sections,
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }

    fn surface_html(&self) -> Option<String> {
        let heat = page::heat_map("Surface", &self.surface_grid()?, Scale::Log, &self.surface_scores());
        let (score, folds) = (if self.is_chosen_by_error() { "error" } else { "mse" }, &self.fit.folds);
        let note = format!("Cross-validated {score}, folds {folds}; fainter is better; the chosen cell is outlined.");
        let fold_html = self.folds_grid().map_or(String::new(), |(grid, scores)| {
            let heat = page::heat_map("Fold by fold", &grid, Scale::Log, &scores);
            let note = "Mean squared error on the rows of each fold, at the best lambda of each rank; the worst fold of the \
                chosen cell is outlined.";
            format!("<h3>Fold by fold</h3>\n{heat}{}", page::note(note))
        });
        Some(format!("{heat}{}{fold_html}", page::note(&note)))
    }

    /// Returns a chart of the relative trace error at every rank of the surface; `None` if fewer
    /// than two ranks have a certificate.
    fn certificate_chart(&self) -> Option<Chart> {
        if self.fit.certificates.len() < 2 {
            return None;
        }
        let points = || self.fit.certificates.iter().map(|(rank, error)| (*rank as f64, *error));
        let ranks: Vec<f64> = points().map(|(rank, _)| rank).collect();
        let x = Axis::new("rank", Scale::Log, ranks.iter().copied())?.with_ticks(&ranks);
        let y = Axis::new("relative trace error", Scale::Log, points().map(|(_, error)| error))?;
        let marks = points().map(|(rank, error)| DataPoint::new((rank, error), format!("rank {rank}"))).collect();
        let series = vec![Series { name: self.fit.map.clone(), marks, ..Series::default() }];
        let subtitle = "exact, all rows".to_string();
        Some(Chart { series, subtitle, ..Chart::new("certificate", "Relative trace error", x, y) })
    }

    /// Returns true if the page shows the increase of the error if a column is exchanged between
    /// rows. It is then the only list of importance: slopes and weights answer other questions.
    pub(super) fn has_measured_importance(&self) -> bool {
        self.test_set.as_ref().is_some_and(|test_set| test_set.scores.effects().is_some())
    }

    /// Returns true if the page shows the weights of the columns in the metric, because nothing
    /// better was measured.
    fn shows_weights(&self) -> bool {
        !self.has_measured_importance() && self.fit.importance.is_empty()
    }

    fn metric_html(&self, metric: &MetricReport) -> String {
        let row = |round: &RoundReport| {
            let [mse, r2] = [Some(round.cv_mse), round.cv_r2].map(optional_number);
            vec![round.form.clone(), rounded_kernel(&round.kernel), format_count(round.rows), mse, r2]
        };
        let rounds: Vec<Vec<String>> = metric.rounds.iter().map(row).collect();
        let headings = ["metric", "kernel", "rows", "mse of the round", "r2 of the round"];
        let rounds = (!rounds.is_empty()).then(|| page::html_table(&headings, &rounds));
        let mut columns = importance::importance(metric, &self.coded_columns());
        columns.truncate(MAX_FEATURES);
        let meaning = "The weight of a column in the metric says how fast the kernel changes along the column, not how much the \
            error depends on it";
        if !self.shows_weights() {
            let note = format!("{}. {meaning}; the JSON has the weights.", importance::describe_metric(metric));
            return rounds.unwrap_or_default() + &page::note(&note);
        }
        let weights = page::bar_table(["column", "weight in the metric"], &columns);
        let tables = rounds.map_or(weights.clone(), |rounds| page::side_by_side(&weights, &rounds));
        tables + &page::note(&format!("{meaning}."))
    }

    /// Returns a section with the slope along each column; `None` unless `--importance` requested
    /// the slopes.
    fn slope_section(&self) -> Option<Section> {
        let mut columns = importance::slopes(&self.fit.importance, &self.coded_columns());
        columns.truncate(MAX_FEATURES);
        let note = page::note(
            "The slope is the root mean square over the training rows of the derivative of the prediction along the scaled \
            column: the change of the prediction per standard deviation of the column. Bars show fractions of the sum of \
            squared slopes.",
        );
        let table = || page::bar_table(["column", "slope"], &columns);
        (!columns.is_empty()).then(|| Section::new("Importance", table() + &note))
    }

    fn data_html(&self) -> String {
        let fit = &self.fit;
        let mut facts = vec![("rows", format_count(fit.rows)), ("features", format_count(fit.features as u64))];
        facts.extend((!fit.target_names.is_empty()).then(|| ("target", fit.target_names.join(", "))));
        facts.extend(fit.classes.as_ref().map(|classes| ("classes", join_with_commas(classes))));
        let row = |(name, centre, scale): &(String, f64, f64)| [name.clone(), number(*centre, 4), number(*scale, 4)];
        let head = ["feature", "centre (subtracted)", "scale (divided by)"];
        page::data_html(facts, "scaling of the features", head, fit.scaling.iter().map(row))
    }

    fn run_section(&self) -> Section {
        let mut facts = vec![
            ("precision", format!("{}, {}", self.fit.precision, self.fit.instruction_set)),
            ("threads", self.threads.to_string()),
        ];
        facts.extend(self.resources.facts(Some(self.fit.passes), Some(self.fit.planned_bytes)));
        // a fit without a model file was not run by the command, so no command line is shown
        page::run_section(self.model.is_some(), facts, &self.resources.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;

    #[test]
    fn the_page_of_a_fit_has_its_surface_and_its_scaling() {
        let mut report = report();
        report.fit.certificates = vec![(250, 0.05), (1000, 0.012_34)];
        report.fit.scaling = vec![("<x0>".to_string(), 1.5, 2.0)];
        let html = report.page().to_string();
        assert!(html.contains("id=\"certificate\"") && html.contains("&lt;x0&gt;") && html.contains("0.2800"));
        assert_eq!(html.matches("class=\"heat\"").count(), 6, "every cell of the surface");
        assert_eq!(html.matches(" data-chosen").count(), 1, "the cell of the model");
        assert!(!html.contains("Fold by fold"), "there are none");
        report.fit.surface.iter_mut().for_each(|cell| cell.fold_mse = vec![Some(0.1), Some(0.4)]);
        let html = report.page().to_string();
        assert_eq!(html.matches("class=\"heat\"").count(), 6 + 2 * 2, "two folds at either rank");
    }
}
