//! The report of a fit as text, and the facts that it shares with the page.

use super::FitReport;
use crate::clusters::{describe_clusters, describe_counts};
use crate::evaluate::percent_with_error;
use crate::fit::Verbosity;
use crate::growth::growth_lines;
use crate::importance::{bars, describe_metric, importance, slopes, weight_heading, weights_fact};
use crate::table::{
    AlignedTable, Grid, MAX_LISTED, facts, format_count, format_list, format_seconds, number, optional_number, percent,
    rounded_kernel, short_lambda,
};
use kfit::solver::parameter::{C, LAMBDA_GRID, NODES, Regularisation};
use kfit::solver::{
    CV_ERROR, CV_ERROR_OF_FOLDS, EACH_PENALTY_SUFFIX, EFFECTIVE_DIMENSION, LAMBDA_OF_EACH_LEVEL, by_name,
};
use kfit::standard_error_over_folds;
use ksolve::{Certificate, SurfaceCell, job};
use kstore::{budget::format_bytes, display};
use std::fmt;

/// Number of rows that are shown above and below the chosen row, if the surface has more than
/// [`MAX_WHOLE_SURFACE`] rows.
const ROWS_AROUND_CHOSEN: usize = 1;
const MAX_WHOLE_SURFACE: usize = 4;

/// Returns the rows of a surface around the marked row, and a note that all other rows are omitted.
fn rows_around_best(mut grid: Grid) -> (Grid, String) {
    let row_count = grid.rows.len();
    let Some((row, column)) = grid.marked_cell.filter(|_| row_count > MAX_WHOLE_SURFACE) else {
        return (grid, String::new());
    };
    let first_row = row.saturating_sub(ROWS_AROUND_CHOSEN).min(row_count.saturating_sub(2 * ROWS_AROUND_CHOSEN + 1));
    grid.rows = grid.rows.into_iter().skip(first_row).take(2 * ROWS_AROUND_CHOSEN + 1).collect();
    grid.marked_cell = Some((row - first_row, column));
    (grid, format!("; -v shows all {row_count} rows"))
}

/// Description of the distances between rows.
pub const DISTANCE_DESCRIPTION: &str = "Euclidean, of the scaled features";

/// Describes a neighbour graph by its number of neighbours.
pub fn describe_neighbours(neighbours: usize) -> String {
    format!("each connected to its {} nearest neighbours", format_count(neighbours as u64))
}

/// Describes a certificate.
pub fn describe_certificate(certificate: &Certificate) -> String {
    let Certificate { trace_error, floor, .. } = certificate;
    match trace_error <= floor {
        true => "exact to rounding, on all rows".to_string(),
        false => format!("relative trace error {} on all rows", number(*trace_error, 3)),
    }
}

/// Formats the first values of a list like the chosen lambda.
fn format_lambdas(lambdas: &[f64]) -> String {
    let ellipsis = if lambdas.len() > MAX_LISTED { ", …" } else { "" };
    let shown: Vec<String> = lambdas.iter().take(MAX_LISTED).map(|lambda| short_lambda(*lambda)).collect();
    format!("{}{ellipsis}", shown.join(", "))
}

/// Returns the standard error of a cross-validated error rate, and what it is over. The rows of
/// random folds are independent. Rows of other folds, such as groups or blocks, may be alike, so
/// their standard error is over the folds.
pub(super) fn cv_error_deviation(
    fit: &job::FitReport,
    error: f64,
    fold_errors: &[Option<f64>],
) -> Option<(f64, String)> {
    if fit.folds.parse::<usize>().is_ok() {
        return Some(((error * (1.0 - error) / fit.rows.max(1) as f64).sqrt(), "over rows".to_string()));
    }
    let deviation = standard_error_over_folds(fold_errors)?;
    Some((deviation, format!("over {} folds", fold_errors.iter().flatten().filter(|error| error.is_finite()).count())))
}

/// Formats a cross-validated error rate, with its standard error if it is known.
fn describe_cv_error(fit: &job::FitReport, error: f64, fold_errors: &[Option<f64>]) -> String {
    match cv_error_deviation(fit, error, fold_errors) {
        Some((deviation, over)) => format!("{} {over}", percent_with_error(Some(error), Some(deviation))),
        None => percent(error),
    }
}

/// Returns a note if lambda is the default of a solver that can choose lambda by validation rows,
/// but did not; otherwise nothing.
fn default_lambda_note(fit: &job::FitReport, lambda: f64) -> &'static str {
    let is_compared = !fit.surface.is_empty() || fit.figures.iter().any(|f| f.name.ends_with(EACH_PENALTY_SUFFIX));
    let parameters = by_name(fit.solver).into_iter().flat_map(|family| family.parameters);
    let is_default = parameters
        .filter(|parameter| parameter.name == LAMBDA_GRID.name && parameter.kind == LAMBDA_GRID.kind)
        .any(|parameter| parameter.default.and_then(|text| text.parse().ok()) == Some(lambda));
    match is_default && !is_compared {
        true => " (the default; --lambda 1e-6..1e-2 lets validation rows choose)",
        false => "",
    }
}

/// Formats the root of the cross-validated squared error, with its standard error over folds.
fn rmse_with_error(mse: f64, cell: &SurfaceCell) -> String {
    let rmse = number(mse.sqrt(), 4);
    match cell.fold_standard_error().map(|error| error / (2.0 * mse.sqrt())).filter(|error| error.is_finite()) {
        Some(error) => {
            let folds = cell.fold_mse.iter().flatten().count();
            format!("{rmse} ± {} over {folds} folds (mse {})", number(error, 2), number(mse, 4))
        }
        None => format!("{rmse} (mse {})", number(mse, 4)),
    }
}

impl FitReport {
    /// Returns the targets after a comma; empty if there are none.
    pub(super) fn target_suffix(&self) -> String {
        match &self.fit.target_names[..] {
            [] => String::new(),
            names => format!(", target {}", display::escape_line(&names.join(", "))),
        }
    }

    /// Returns the columns that may have several features.
    pub(super) fn coded_columns(&self) -> Vec<&str> {
        self.fit.columns.iter().map(|(name, _)| &name[..]).collect()
    }

    fn effective_dimension(&self) -> Option<String> {
        let figure = self.fit.figures.iter().find(|figure| figure.name == EFFECTIVE_DIMENSION)?;
        figure.values.first().map(|dimension| number(*dimension, 4))
    }

    fn node_count(&self) -> Option<u64> {
        let figure = self.fit.figures.iter().find(|figure| figure.name == NODES.name)?;
        figure.values.first().map(|nodes| *nodes as u64)
    }

    /// Describes the method, and the quality of the approximation.
    pub(super) fn method_facts(&self) -> Vec<(&'static str, String)> {
        let (fit, is_verbose) = (&self.fit, self.verbosity == Verbosity::Verbose);
        let kernel = |kernel: &String| if is_verbose { kernel.clone() } else { rounded_kernel(kernel) };
        let mut facts = vec![match fit.neighbours {
            Some(_) => ("distances", DISTANCE_DESCRIPTION.to_string()),
            None => ("kernel", kernel(&fit.kernel)),
        }];
        facts.extend(fit.length_scale.iter().map(|length| ("length scale", length.to_string())));
        facts.extend(fit.likelihood.iter().map(|likelihood| ("likelihood", likelihood.to_string())));
        facts.extend(fit.second_view_kernel.iter().map(|second_kernel| ("with kernel", kernel(second_kernel))));
        facts.extend(fit.members.iter().map(|member| ("mean with", kernel(member))));
        facts.extend(fit.metric.iter().map(|metric| ("metric", describe_metric(metric))));
        let weights_fact = |metric| weights_fact(metric, &self.coded_columns(), self.has_measured_importance());
        facts.extend(fit.metric.iter().filter(|_| !is_verbose).map(weights_fact));
        facts.extend(fit.landmarks.iter().map(|landmarks| {
            let by = format!("by {} among {} rows", landmarks.scheme, format_count(landmarks.candidates));
            match (fit.neighbours, self.node_count()) {
                (Some(k), Some(nodes)) => {
                    ("nodes", format!("{} {by}, {}", format_count(nodes), describe_neighbours(k)))
                }
                _ => ("landmarks", format!("{} {by}", format_count(landmarks.count as u64))),
            }
        }));
        facts.extend(fit.method.iter().map(|method| ("method", method.why.clone())));
        facts.extend(fit.certificate.iter().map(|certificate| ("certificate", describe_certificate(certificate))));
        facts
    }

    /// Describes the chosen parameters and their errors.
    pub(super) fn result_facts(&self) -> Vec<(&'static str, String)> {
        let fit = &self.fit;
        let reason = |reason: &String| ("folds", format!("{}, because {reason}", fit.folds));
        let mut facts: Vec<_> = fit.reason_for_folds.iter().map(reason).collect();
        facts.extend(fit.neighbours.is_none().then(|| ("rank", format_count(fit.rank as u64))));
        facts.extend(match fit.lambdas() {
            [] => None,
            [lambda] => Some(("lambda", short_lambda(*lambda) + default_lambda_note(fit, *lambda))),
            lambdas => Some((LAMBDA_OF_EACH_LEVEL, format_lambdas(lambdas))),
        });
        let c_lambda = fit.lambda.filter(|_| by_name(fit.solver).is_some_and(|family| family.reads(&C)));
        facts.extend(
            c_lambda.map(|lambda| {
                ("C", number(Regularisation::Lambda(lambda).c(fit.weight.unwrap_or(fit.rows as f64)), 4))
            }),
        );
        if let Some(cell) = self.selected_cell() {
            let [cv_note, gcv_note] = match fit.metric.as_ref().map(|metric| metric.test_errors.is_some()) {
                Some(true) => [" (rows not used to learn the metric)", " (rows used to learn the metric)"],
                Some(false) => [" (rows that may have been used to learn the metric)"; 2],
                None => ["", ""],
            };
            facts.extend(
                cell.cv_error
                    .map(|error| (CV_ERROR, format!("{}{cv_note}", describe_cv_error(fit, error, &cell.fold_error)))),
            );
            facts.extend(cell.cv_mse.map(|mse| match fit.classes {
                // codes of classes have no unit
                Some(_) => ("cv mse", format!("{}{cv_note}", number(mse, 4))),
                None => ("cv rmse", format!("{}{cv_note}", rmse_with_error(mse, cell))),
            }));
            let dimension = self.effective_dimension().map(|dimension| format!(", effective dimension {dimension}"));
            let dimension = dimension.unwrap_or_default();
            facts.extend(cell.gcv.map(|gcv| ("gcv", format!("{}{gcv_note}{dimension}", number(gcv, 4)))));
        }
        if let Some(train) = &fit.train {
            facts.push(("train mse", format!("{} (r2 {})", number(train.mse, 4), optional_number(train.r2))));
            facts.extend(train.loo_mse.map(|mse| ("loo mse", number(mse, 4))));
        }
        let has_gcv = self.selected_cell().is_some_and(|cell| cell.gcv.is_some());
        let is_shown = |name: &str| match name {
            EFFECTIVE_DIMENSION => has_gcv,
            name => [NODES.name, LAMBDA_OF_EACH_LEVEL].contains(&name),
        };
        let level_count =
            fit.figures.iter().find(|figure| figure.name == LAMBDA_OF_EACH_LEVEL).map_or(1, |f| f.values.len());
        let fold_errors = fit.figures.iter().find(|figure| figure.name == CV_ERROR_OF_FOLDS);
        let fold_errors = fold_errors.into_iter().flat_map(|figure| figure.values.iter().copied().map(Some));
        let fold_errors: Vec<Option<f64>> = fold_errors.collect();
        let figures = fit.figures.iter().filter(|figure| !is_shown(figure.name));
        facts.extend(figures.filter_map(|figure| match (figure.name, figure.values.len()) {
            // the chosen value is listed already
            ("lambda" | "C", 0 | 1) => None,
            ("lambda", _) => Some(("lambdas compared", format_lambdas(&figure.values))),
            ("C", _) => Some(("values of C compared", format_list(&figure.values))),
            (CV_ERROR, 1) => Some((CV_ERROR, describe_cv_error(fit, figure.values[0], &fold_errors))),
            (CV_ERROR_OF_FOLDS, _) => None,
            // the only value is the error of the chosen parameter, which has a line of its own
            (name, count) if name.ends_with(EACH_PENALTY_SUFFIX) && count == level_count => None,
            (name, count) if name.ends_with(EACH_PENALTY_SUFFIX) => {
                // the errors of the first level, then of the second
                let levels = figure.values.chunks(count.div_ceil(level_count).max(1)).map(format_list);
                Some((name, levels.collect::<Vec<_>>().join("; ")))
            }
            (name, _) => Some((name, format_list(&figure.values))),
        }));
        facts
    }

    /// Returns a table of time, passes and memory, stage by stage.
    fn cost_table(&self) -> AlignedTable {
        let [time, read, memory] = self.resources.facts(Some(self.fit.passes), None);
        let stage = |(name, seconds): &(String, f64)| (format!("  {name}"), format_seconds(*seconds));
        let stages: Vec<(String, String)> = self.resources.seconds.iter().map(stage).collect();
        let stages = stages.iter().map(|(name, took)| (name.as_str(), took.clone()));
        facts(std::iter::once(time).chain(stages).chain([read, memory]))
    }

    fn total_cost(&self) -> String {
        let peak = self
            .resources
            .peak_rss_bytes
            .map_or(String::new(), |peak| format!(" and at most {} of memory", format_bytes(peak)));
        format!("{}{peak}", format_seconds(self.resources.total_seconds()))
    }
}

impl fmt::Display for FitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fit, is_verbose) = (&self.fit, self.verbosity == Verbosity::Verbose);
        let (rows, features, targets) =
            (format_count(fit.rows), format_count(fit.features as u64), self.target_suffix());
        let classes = fit.classes.as_ref().map_or(String::new(), |classes| format!(" ({} classes)", classes.len()));
        writeln!(f, "{} on {rows} rows, {features} features{targets}{classes}\n", fit.solver)?;
        write!(f, "{}", facts(self.method_facts()))?;
        if let Some(grid) = self.surface_grid() {
            let score = if self.is_chosen_by_error() { "error" } else { "mse" };
            let (grid, omitted_note) = if is_verbose { (grid, String::new()) } else { rows_around_best(grid) };
            write!(f, "\ncross-validated {score}, folds {} (* chosen{omitted_note})\n{grid}", fit.folds)?;
        }
        writeln!(f, "\n{}", facts(self.result_facts()))?;
        if let Some(growth) = &self.growth {
            writeln!(f, "{} rows added after the landmarks were chosen:", format_count(growth.rows))?;
            writeln!(f, "{}", facts(growth_lines(growth)))?;
        }
        if let Some(metric) = fit.metric.as_ref().filter(|_| is_verbose) {
            writeln!(f, "{}", bars(weight_heading(metric), &importance(metric, &self.coded_columns())))?;
        }
        fit.cluster_counts.iter().try_for_each(|counts| writeln!(f, "{}", describe_counts(counts)))?;
        if !fit.clusters.is_empty() {
            writeln!(f, "{}", describe_clusters(&fit.clusters, fit.row_name_column.as_deref()))?;
        }
        if !fit.importance.is_empty() {
            writeln!(f, "{}", bars("slope", &slopes(&fit.importance, &self.coded_columns())))?;
        }
        if is_verbose {
            writeln!(f, "{}\n{}", self.cost_table(), fit.lambda_convention)?;
        }
        // otherwise they were already printed to stderr
        for warning in self.resources.warnings.iter().filter(|_| self.verbosity == Verbosity::Quiet) {
            writeln!(f, "warning: {}", display::escape_line(warning))?;
        }
        self.model.iter().try_for_each(|model| writeln!(f, "model: {model}, in {}", self.total_cost()))?;
        self.test_set.iter().try_for_each(|test_set| write!(f, "\n{test_set}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn the_table_of_a_fit() {
        let expected = "\
ridge on 284,217 rows, 29 features, target y

  kernel       gaussian(sigma=5)
  landmarks    1,000 by rpcholesky among 50,000 rows
  certificate  relative trace error 0.0123 on all rows

cross-validated mse, folds 5 (* chosen)
  lambda \\ rank     250     1000
           1e-8  0.3000   0.2000
        3.16e-8  0.2900   0.1900
           1e-7  0.2800   0.1800*

  rank       1,000
  lambda     1e-7
  cv rmse    0.4243 (mse 0.1800)
  gcv        0.2500
  train mse  0.1700 (r2 0.8300)

model: m.safetensors (120 KiB), in 4.5 s and at most 400 MiB of memory
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn all_is_said_where_it_is_wanted_and_warnings_where_stderr_is_silent() {
        let full = FitReport { verbosity: Verbosity::Verbose, ..report() }.to_string();
        for part in
            ["\n    gram   4.0 s\n", "17.0 MiB in 4 passes", "budget 512 MiB", "scikit-learn's alpha = lambda n"]
        {
            assert!(full.contains(part), "{part}: {full}");
        }
        assert!(!full.contains("warning"), "{full}");
        let quiet = FitReport { verbosity: Verbosity::Quiet, ..report() }.to_string();
        assert!(quiet.contains("warning: feature x3 is constant\n"), "{quiet}");
    }

    #[test]
    fn each_level_has_its_lambda_and_its_errors() {
        let mut report = report();
        let figure = |name, values: &[f64]| kfit::solver::NamedValues { name, values: values.to_vec() };
        report.fit.surface.clear();
        report.fit.figures = vec![
            figure("lambda", &[1e-3, 1e-4]),
            figure("held-out pinball loss at each", &[0.3, 0.25, 0.125, 0.15]),
            figure("lambda of each level", &[1e-4, 1e-3]),
        ];
        report.fit.lambda = None;
        let text = report.to_string();
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed.contains("lambda of each level 1e-4, 1e-3 train mse"), "{text}");
        assert!(squeezed.contains("at each 0.3000, 0.2500; 0.1250, 0.1500 model"), "{text}");
        assert!(report.fit.to_string().contains(", lambda 0.0001/0.001, train"), "{}", report.fit);
        report.fit.figures =
            vec![figure("cv error", &[0.1875]), figure("lambda", &[1e-3]), figure("held-out error at each", &[0.1875])];
        let text = report.to_string();
        assert!(text.contains("cv error   18.8 % ± ") && text.contains(" % over rows\n"), "{text}");
        assert!(!text.contains("at each"), "{text}");
        // the rows of a group are alike: sd(.1, .2, .3) / sqrt(3)
        report.fit.folds = "groups:3:shop".to_string();
        report.fit.figures.push(figure("cv error of each fold", &[0.1, 0.2, 0.3]));
        let text = report.to_string();
        assert!(text.contains("cv error   18.8 % ± 5.8 % over 3 folds\n") && !text.contains("of each fold"), "{text}");
        report.fit.figures.pop();
        assert!(report.to_string().contains("cv error   18.8 %\n"), "no folds, no standard error");
        report.fit.surface.clear();
        for (solver, lambda, has_note) in [("svm", 1e-6, true), ("svm", 1e-5, false), ("logistic", 1e-6, false)] {
            (report.fit.solver, report.fit.lambda) = (solver, Some(lambda));
            report.fit.figures.clear();
            let text = report.to_string();
            assert_eq!(text.contains("(the default; --lambda 1e-6..1e-2"), has_note, "{solver} {lambda}: {text}");
            report.fit.figures = vec![figure("held-out error at each", &[0.1, 0.2])];
            assert!(!report.to_string().contains("(the default;"), "validation rows chose lambda");
        }
        report.fit.lambda = Some(1e-4);
        assert!(!report.to_string().contains("lambda of each level"), "one lambda for all levels");
    }

    #[test]
    fn a_report_has_twenty_lines_at_most() {
        let mut report = report();
        let rank = |lambda: i32| ksolve::SurfaceCell { lambda: 10f64.powi(lambda), ..report.fit.surface[0].clone() };
        report.fit.surface = (-9..4).map(rank).collect();
        (report.fit.rank, report.fit.lambda) = (250, Some(1e-9));
        report.fit.kernel = "gaussian(sigma=5.80593116055527)".to_string();
        let text = report.to_string();
        assert!(text.lines().count() <= 20, "{text}");
        assert!(text.contains("gaussian(sigma=5.806)") && text.contains("-v shows all 13 rows"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("0.3000")).collect();
        assert_eq!(
            lines,
            [
                "           1e-9  0.3000*",
                "           1e-8  0.3000",
                "           1e-7  0.3000",
                "  cv rmse    0.5477 (mse 0.3000)"
            ]
        );
        let verbose_text = FitReport { verbosity: Verbosity::Verbose, ..report }.to_string();
        assert!(
            verbose_text.contains("5.80593116055527") && verbose_text.matches("0.3000").count() == 14,
            "{verbose_text}"
        );
    }
}
