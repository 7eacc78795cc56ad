//! Warnings about fits that can be improved, each with a remedy.

use super::FitReport;
use crate::SurfaceCell;
use crate::folds::FoldSpec;
use crate::solver::parameter::{C, GAP, LAMBDA};
use crate::solver::{self, EACH_PENALTY_SUFFIX};
use kmodel::run::RowShift;
use kstore::{Selection, display};

/// Explained fraction of the variance below which a model is hardly better than a constant.
const MIN_USEFUL_EXPLAINED: f64 = 0.05;

/// Minimum relative change of the held-out error at the end of a grid for which a larger grid is
/// suggested.
const MIN_ERROR_CHANGE: f64 = 0.01;

/// Relative trace error of the map above which the landmarks do not cover the rows.
const MAX_TRACE_ERROR: f64 = 0.5;

/// Relative trace error of the map above which a fit with the exact kernel would give a different
/// model.
const EXACT_TRACE_ERROR: f64 = 0.02;

/// Number of rows up to which the exact solver takes seconds to minutes.
const MAX_EXACT_ROWS: u64 = 50_000;

/// Smallest lambda whose thousandth part is above the rounding errors of f32 for most kernels.
const MIN_F32_LAMBDA: f64 = 1e-6;

/// Returns the warnings of a fit, one sentence each, with a remedy.
pub(super) fn improvement_warnings(report: &FitReport) -> Vec<String> {
    let edge_warnings = [lambda_edge_warning(report), parameter_edge_warning(report), rank_edge_warning(report)];
    let warnings = [
        coverage_warning(report).or_else(|| exact_kernel_warning(report)),
        few_rows_warning(report),
        explained_warning(report),
    ];
    warnings.into_iter().chain(edge_warnings).flatten().collect()
}

/// Returns the reason for the folds of a fit if they hold out rows like the test rows, or like the
/// rows that are predicted from past values.
pub(super) fn reason_for_folds(report: &FitReport, selection: &Selection) -> Option<String> {
    let folds = FoldSpec::parse(&report.folds).ok()?;
    RowShift::of(selection).filter(|shift| shift.is_matched_by(&folds)).map(|shift| shift.to_string())
}

/// Warns of random folds if the test rows are later rows or whole groups, or if features are past
/// values: the choices then minimise an error that is smaller than the error on such rows.
pub(super) fn random_folds_warning(
    report: &FitReport,
    selection: &Selection,
    has_requested_folds: bool,
) -> Option<String> {
    let Ok(FoldSpec::Random(count)) = FoldSpec::parse(&report.folds) else { return None };
    let shift = RowShift::of(selection)?;
    let folds = shift.folds(count);
    let remedy = match (folds.column().filter(|_| !has_requested_folds), shift) {
        (None, _) => format!("use `folds` {folds}"),
        (Some(column), RowShift::NewGroups(_)) => {
            format!("column {column} has a single value in the training rows; lower the fraction of the test rows")
        }
        (Some(column), _) => format!(
            "column {column} has fractions or too many values to divide; sort the table by it, and use `folds` blocks:{count}"
        ),
    };
    Some(format!(
        "the folds are random, but {shift}: the held-out error is too small, and choices that minimise it may be wrong; {remedy}"
    ))
}

fn selected_cell(report: &FitReport) -> Option<(&SurfaceCell, f64)> {
    let lambda = report.lambda?;
    let cell = report.surface.iter().find(|cell| cell.rank == report.rank && cell.lambda == lambda)?;
    Some((cell, cell.cv_mse?))
}

/// Warns if the landmarks do not cover the rows, that is, if the trace error is large.
fn coverage_warning(report: &FitReport) -> Option<String> {
    let error =
        report.certificate.as_ref().map(|certificate| certificate.trace_error).filter(|e| *e > MAX_TRACE_ERROR)?;
    Some(format!(
        "the landmarks cover few rows: the relative trace error is {error:.2}; raise `rank`, or use a longer length scale"
    ))
}

/// Warns that a fit that stops at a duality gap uses an approximate kernel although the exact
/// kernel is affordable.
fn exact_kernel_warning(report: &FitReport) -> Option<String> {
    let error =
        report.certificate.as_ref().map(|certificate| certificate.trace_error).filter(|e| *e > EXACT_TRACE_ERROR)?;
    // solvers that stop at a duality gap support the exact kernel
    let has_gap = solver::by_name(report.solver).is_some_and(|family| family.reads(&GAP));
    (has_gap && report.rows <= MAX_EXACT_ROWS).then(|| {
        format!(
            "the fit uses an approximate kernel with relative trace error {error:.2}; for {} rows `map` exact, which has no such error, \
             takes seconds to minutes",
            display::format_count(report.rows)
        )
    })
}

/// Warns of more features than rows.
fn few_rows_warning(report: &FitReport) -> Option<String> {
    let (rows, features) = (report.rows, report.features);
    (rows < features as u64).then(|| {
        format!("{rows} rows have {features} features; cross-validate with `folds` to see whether the rows suffice")
    })
}

/// Warns if the model explains little of the variance of held-out rows.
fn explained_warning(report: &FitReport) -> Option<String> {
    let (_, error) = selected_cell(report)?;
    let (train_mse, r2) = report.train.as_ref().and_then(|train| Some((train.mse, train.r2?)))?;
    let variance = train_mse / (1.0 - r2);
    let explained = 1.0 - error / variance;
    (explained < MIN_USEFUL_EXPLAINED).then(|| {
        let percentage = 100.0 * explained.max(0.0);
        format!(
            "the model explains {percentage:.1} % of the variance of held-out rows, hardly more than a constant; learn a `metric`, \
             or search for another kernel with tune"
        )
    })
}

/// Warns if the held-out error still falls at the end of the grid of lambdas.
fn lambda_edge_warning(report: &FitReport) -> Option<String> {
    let (cell, _) = selected_cell(report)?;
    let mut rank_cells: Vec<&SurfaceCell> = report.surface.iter().filter(|other| other.rank == cell.rank).collect();
    rank_cells.sort_by(|a, b| a.lambda.total_cmp(&b.lambda));
    let best_index = rank_cells.iter().position(|other| other.lambda == cell.lambda)?;
    let grid: Vec<(f64, Option<f64>)> = rank_cells.iter().map(|cell| (cell.lambda, cell.cv_mse)).collect();
    let warning = grid_edge_warning("lambda", &grid, best_index, "the error")?;
    let needs_f64 = best_index == 0 && report.precision == "f32" && cell.lambda < MIN_F32_LAMBDA;
    Some(if needs_f64 { format!("{warning}, with `precision` f64") } else { warning })
}

/// Warns if the best value of a grid is its first or its last, and the error still falls there.
fn grid_edge_warning(name: &str, grid: &[(f64, Option<f64>)], best_index: usize, error_name: &str) -> Option<String> {
    let (best_value, error) = grid[best_index];
    let (neighbour, extreme_name, direction) = match best_index {
        _ if grid.len() < 2 => return None,
        0 => (grid[1], "smallest", "down"),
        _ if best_index + 1 == grid.len() => (grid[best_index - 1], "largest", "up"),
        _ => return None,
    };
    // two more steps of the grid; a neighbour of 0 has no ratio
    let extended_value = best_value * (best_value / neighbour.0).powi(2).clamp(1e-3, 1e3);
    (neighbour.1? > (1.0 + MIN_ERROR_CHANGE) * error?).then(|| {
        let (best_text, extended_text) = (short_number(best_value), short_number(extended_value));
        format!(
            "{name} {best_text} is the {extreme_name} value tried, and {error_name} still falls there; extend the grid {direction} to `{name}` {extended_text}"
        )
    })
}

/// Formats a number with three digits, as a power of ten if that is shorter.
fn short_number(value: f64) -> String {
    let value: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let (plain, exponential) = (display::format_number(value), format!("{value:e}"));
    if exponential.len() < plain.len() { exponential } else { plain }
}

/// Warns if the held-out error still falls at the end of the grid of regularisation parameters.
/// This function is for solvers that report no cross-validation surface.
fn parameter_edge_warning(report: &FitReport) -> Option<String> {
    let index = report.figures.iter().position(|figure| figure.name.ends_with(EACH_PENALTY_SUFFIX))?;
    let (grid, errors) = (report.figures.get(index.checked_sub(1)?)?, &report.figures[index].values);
    // other lists may precede scores where larger is better, such as correlations
    if ![C.name, LAMBDA.name].contains(&grid.name) {
        return None;
    }
    // one list of errors for each level of quantiles
    errors.chunks(grid.values.len().max(1)).find_map(|errors| {
        let mut grid_points: Vec<_> = grid.values.iter().copied().zip(errors.iter().copied().map(Some)).collect();
        grid_points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let smallest_error = Some(errors.iter().copied().fold(f64::INFINITY, f64::min));
        let best_index = if grid_points.first()?.1 == smallest_error {
            0
        } else {
            grid_points.iter().rposition(|pair| pair.1 == smallest_error)?
        };
        grid_edge_warning(grid.name, &grid_points, best_index, "the held-out error")
    })
}

/// Warns if the held-out error still falls at the largest rank.
fn rank_edge_warning(report: &FitReport) -> Option<String> {
    let (cell, error) = selected_cell(report)?;
    let best_error = |rank: usize| {
        let rank_cells = report.surface.iter().filter(|other| other.rank == rank);
        rank_cells.filter_map(|other| other.cv_mse).min_by(f64::total_cmp)
    };
    let largest_rank = report.surface.iter().map(|other| other.rank).max()?;
    let previous_rank = report.surface.iter().map(|other| other.rank).filter(|rank| *rank < largest_rank).max()?;
    let relative_decrease = 1.0 - error / best_error(previous_rank)?;
    (cell.rank == largest_rank && relative_decrease > MIN_ERROR_CHANGE && (largest_rank as u64) < report.rows).then(|| {
        let percent = 100.0 * relative_decrease;
        format!("the error falls by {percent:.0} % from rank {previous_rank} to {largest_rank}, the largest rank tried; give larger `ranks`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certificate;
    use crate::job::TrainScores;
    use crate::solver::NamedValues;

    fn cell(rank: usize, lambda: f64, error: f64) -> SurfaceCell {
        SurfaceCell {
            rank,
            lambda,
            cv_mse: Some(error),
            gcv: None,
            cv_error: None,
            fold_mse: Vec::new(),
            fold_error: Vec::new(),
        }
    }

    /// A fit at rank 20 and lambda 1e-3, in the middle of its surface, that explains 90 %.
    fn good() -> FitReport {
        let mut report = FitReport { rows: 1000, features: 5, rank: 20, lambda: Some(1e-3), ..FitReport::default() };
        let errors = [0.13, 0.101, 0.12, 0.12, 0.1, 0.11];
        let cells = [10, 20].into_iter().flat_map(|rank| [1e-4, 1e-3, 1e-2].map(|lambda| (rank, lambda)));
        report.surface = cells.zip(errors).map(|((rank, lambda), error)| cell(rank, lambda, error)).collect();
        report.train = Some(TrainScores { mse: 0.05, rmse: 0.05f64.sqrt(), r2: Some(0.95), loo_mse: None });
        report.certificate = Some(Certificate { trace_error: 0.1, overshoot: 0.0, floor: 0.0 });
        report
    }

    #[test]
    fn folds_unlike_the_test_rows_are_reported() {
        let selection = |spec: &str, lags: Option<kstore::Lags>| {
            let rule = kstore::TestRule::Where(kstore::Condition::parse("day >= 3").unwrap());
            let test_rows = kstore::TestRows { spec: kstore::TestSpec::parse(spec).unwrap(), seed: 0, rule };
            let part = Some(kstore::Part::Training(std::sync::Arc::new(test_rows)));
            Selection { part, lags, ..Selection::default() }
        };
        let report = |folds: &str| FitReport { folds: folds.to_string(), ..good() };
        let lags = || Some(kstore::Lags { order: Some("hour".to_string()), ..kstore::Lags::default() });
        for (spec, lags, advice) in [
            ("last:20%:day", None, "`folds` blocks:4:day"),
            ("last:20%", None, "`folds` blocks:4"),
            ("groups:20%:subject", None, "`folds` groups:4:subject"),
            ("20%", lags(), "`folds` blocks:4:hour"),
        ] {
            let selection = selection(spec, lags);
            let text = random_folds_warning(&report("4"), &selection, true).unwrap();
            assert!(text.ends_with(advice), "{spec}: {text}");
            assert_eq!(reason_for_folds(&report("4"), &selection), None, "{spec}");
            let folds = advice.strip_prefix("`folds` ").unwrap();
            assert_eq!(random_folds_warning(&report(folds), &selection, true), None, "{spec}");
            let reason = reason_for_folds(&report(folds), &selection).unwrap();
            assert!(text.contains(&reason), "{reason}: {text}");
        }
        assert_eq!(random_folds_warning(&report("5"), &selection("20%", None), true), None);
        assert_eq!(random_folds_warning(&report("none"), &selection("last:20%", None), true), None);
        let text = random_folds_warning(&report("5"), &selection("last:20%:day", None), false).unwrap();
        assert!(text.ends_with("sort the table by it, and use `folds` blocks:5"), "{text}");
        assert_eq!(reason_for_folds(&report("blocks:5"), &selection("20%", None)), None);
    }

    #[test]
    fn each_fault_has_one_warning() {
        assert_eq!(improvement_warnings(&good()), Vec::<String>::new());
        let assert_warning = |change: &dyn Fn(&mut FitReport), part: &str| {
            let mut report = good();
            change(&mut report);
            let warnings = improvement_warnings(&report);
            assert!(warnings.len() == 1 && warnings[0].contains(part), "{part}: {warnings:?}");
        };
        assert_warning(&|r| r.rows = 3, "3 rows have 5 features");
        assert_warning(&|r| r.certificate.as_mut().unwrap().trace_error = 0.97, "0.97");
        assert_warning(&|r| r.solver = "svm", "for 1,000 rows `map` exact");
        assert_warning(
            &|r| r.surface.iter_mut().for_each(|cell| cell.cv_mse = cell.cv_mse.map(|e| 9.8 * e)),
            "2.0 % of the variance",
        );
        assert_warning(
            &|r| (r.lambda, r.surface[3].cv_mse, r.surface[0].cv_mse) = (Some(1e-4), Some(0.09), Some(0.0901)),
            "lambda 1e-4 is the smallest value tried, and the error still falls there; extend the grid down to `lambda` 1e-6",
        );
        assert_warning(
            &|r| {
                r.precision = "f32";
                r.surface.iter_mut().for_each(|cell| cell.lambda *= 1e-4);
                (r.lambda, r.surface[3].cv_mse, r.surface[0].cv_mse) = (Some(1e-8), Some(0.09), Some(0.0901));
            },
            "down to `lambda` 1e-10, with `precision` f64",
        );
        assert_warning(&|r| r.surface[1].cv_mse = Some(0.119), "from rank 10 to 20");
        let compared = |errors: [f64; 3]| {
            let figure = |name, values: &[f64]| NamedValues { name, values: values.to_vec() };
            vec![figure("C", &[0.1, 1.0, 10.0]), figure("held-out mse at each", &errors)]
        };
        assert_warning(
            &|r| r.figures = compared([5.0, 4.0, 3.0]),
            "C 10 is the largest value tried, and the held-out error still falls there; extend the grid up to `C` 1e3",
        );
        assert_warning(&|r| r.figures = compared([3.0, 4.0, 5.0]), "C 0.1 is the smallest");
        let mut inside = good();
        inside.figures = compared([3.0, 2.0, 2.5]);
        assert_eq!(improvement_warnings(&inside), Vec::<String>::new());
        // a second level, whose error falls at the end
        inside.figures[1].values.extend([3.0, 2.0, 1.0]);
        let warnings = improvement_warnings(&inside);
        assert!(warnings.len() == 1 && warnings[0].contains("C 10 is the largest"), "{warnings:?}");
    }
}
