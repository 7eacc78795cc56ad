//! Warnings about fits that can be improved, each with a remedy.

use super::FitReport;
use crate::Cell;
use crate::solver::parameter::{C, GAP, LAMBDA};
use crate::solver::{self, AT_EACH};
use kstore::shown;

/// Explained fraction of the variance below which a model is hardly better than a constant.
const HARDLY: f64 = 0.05;

/// Relative change of the held-out error that justifies a larger grid.
const WORTH: f64 = 0.01;

/// Relative trace error above which the landmarks do not cover the rows.
const UNCOVERED: f64 = 0.5;

/// Relative trace error above which the exact kernel gives a different model.
const ANOTHER: f64 = 0.02;

/// Number of rows up to which the exact solver takes seconds to minutes.
const AFFORDABLE: u64 = 50_000;

/// Returns the warnings of a fit, one sentence each, with a remedy.
pub(super) fn verdict(report: &FitReport) -> Vec<String> {
    let edges = [edge_of_lambdas(report), edge_of_penalties(report), edge_of_ranks(report)];
    let found = [uncovered(report).or_else(|| affordable(report)), wide(report), hardly(report)];
    found.into_iter().chain(edges).flatten().collect()
}

fn chosen(report: &FitReport) -> Option<(&Cell, f64)> {
    let lambda = report.lambda?;
    let cell = report.surface.iter().find(|cell| cell.rank == report.rank && cell.lambda == lambda)?;
    Some((cell, cell.cv_mse?))
}

/// Warns if the landmarks do not cover the rows.
fn uncovered(report: &FitReport) -> Option<String> {
    let error = report.certificate.as_ref().map(|certificate| certificate.trace_error).filter(|e| *e > UNCOVERED)?;
    Some(format!(
        "the landmarks cover few rows: the relative trace error is {error:.2}; raise `rank`, or use a longer length scale"
    ))
}

/// Warns of an approximate SVM if the exact kernel is affordable.
fn affordable(report: &FitReport) -> Option<String> {
    let error = report.certificate.as_ref().map(|certificate| certificate.trace_error).filter(|e| *e > ANOTHER)?;
    // solvers that stop at a duality gap are SVMs and support the exact kernel
    let machine = solver::by_name(report.solver).is_some_and(|family| family.reads(&GAP));
    (machine && report.rows <= AFFORDABLE).then(|| {
        format!(
            "the SVM uses an approximate kernel with relative trace error {error:.2}; for {} rows `map` exact, which has no such error, \
             takes seconds to minutes",
            shown::count(report.rows)
        )
    })
}

/// Warns of more features than rows.
fn wide(report: &FitReport) -> Option<String> {
    let (rows, features) = (report.rows, report.features);
    (rows < features as u64).then(|| {
        format!("{rows} rows have {features} features; cross-validate with `folds` to see whether the rows suffice")
    })
}

/// Warns if the model explains little of the variance of held-out rows.
fn hardly(report: &FitReport) -> Option<String> {
    let (_, error) = chosen(report)?;
    let (train, r2) = report.train.as_ref().and_then(|train| Some((train.mse, train.r2?)))?;
    let variance = train / (1.0 - r2);
    let explained = 1.0 - error / variance;
    (explained < HARDLY).then(|| {
        let share = 100.0 * explained.max(0.0);
        format!(
            "the model explains {share:.1} % of the variance of held-out rows, hardly more than a constant; learn a `metric`, \
             or search for another kernel with tune"
        )
    })
}

/// Warns if the error still falls at the end of the lambda grid.
fn edge_of_lambdas(report: &FitReport) -> Option<String> {
    let (cell, _) = chosen(report)?;
    let mut row: Vec<&Cell> = report.surface.iter().filter(|other| other.rank == cell.rank).collect();
    row.sort_by(|a, b| a.lambda.total_cmp(&b.lambda));
    let at = row.iter().position(|other| other.lambda == cell.lambda)?;
    let tried: Vec<(f64, Option<f64>)> = row.iter().map(|cell| (cell.lambda, cell.cv_mse)).collect();
    edge("lambda", &tried, at, "the error")
}

/// Warns if the best value is the first or the last tried and the error still falls there.
fn edge(name: &str, tried: &[(f64, Option<f64>)], best: usize, what: &str) -> Option<String> {
    let (at, error) = tried[best];
    let (next, word, way, beyond) = match best {
        _ if tried.len() < 2 => return None,
        0 => (tried[1], "smallest", "down", at / 1e3),
        _ if best + 1 == tried.len() => (tried[best - 1], "largest", "up", at * 1e3),
        _ => return None,
    };
    (next.1? > (1.0 + WORTH) * error?).then(|| {
        let (at, beyond) = (brief(at), brief(beyond));
        format!(
            "{name} {at} is the {word} value tried, and {what} still falls there; extend the grid {way} to `{name}` {beyond}"
        )
    })
}

/// Formats a number with three digits, as a power of ten if that is shorter.
fn brief(value: f64) -> String {
    let value: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let (plain, power) = (shown::number(value), format!("{value:e}"));
    if power.len() < plain.len() { power } else { plain }
}

/// Warns if the held-out error still falls at the end of the grid of regularisation parameters, for
/// solvers without a surface.
fn edge_of_penalties(report: &FitReport) -> Option<String> {
    let place = report.figures.iter().position(|figure| figure.name.ends_with(AT_EACH))?;
    let (tried, errors) = (report.figures.get(place.checked_sub(1)?)?, &report.figures[place].values);
    // other lists may precede scores where larger is better, such as correlations
    if ![C.name, LAMBDA.name].contains(&tried.name) {
        return None;
    }
    let mut pairs: Vec<_> = tried.values.iter().copied().zip(errors.iter().copied().map(Some)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = Some(errors.iter().copied().fold(f64::INFINITY, f64::min));
    let at = if pairs.first()?.1 == best { 0 } else { pairs.iter().rposition(|pair| pair.1 == best)? };
    edge(tried.name, &pairs, at, "the held-out error")
}

/// Warns if the error still falls at the largest rank.
fn edge_of_ranks(report: &FitReport) -> Option<String> {
    let (cell, error) = chosen(report)?;
    let best = |rank: usize| {
        let row = report.surface.iter().filter(|other| other.rank == rank);
        row.filter_map(|other| other.cv_mse).min_by(f64::total_cmp)
    };
    let largest = report.surface.iter().map(|other| other.rank).max()?;
    let before = report.surface.iter().map(|other| other.rank).filter(|rank| *rank < largest).max()?;
    let fall = 1.0 - error / best(before)?;
    (cell.rank == largest && fall > WORTH && (largest as u64) < report.rows).then(|| {
        let percent = 100.0 * fall;
        format!("the error falls by {percent:.0} % from rank {before} to {largest}, the largest rank tried; give larger `ranks`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certificate;
    use crate::job::Train;
    use crate::solver::Figure;

    fn cell(rank: usize, lambda: f64, error: f64) -> Cell {
        Cell { rank, lambda, cv_mse: Some(error), gcv: None, cv_error: None, fold_mse: Vec::new() }
    }

    /// A fit at rank 20 and lambda 1e-3, in the middle of its surface, that explains 90 %.
    fn good() -> FitReport {
        let mut report = FitReport { rows: 1000, features: 5, rank: 20, lambda: Some(1e-3), ..FitReport::default() };
        let errors = [0.13, 0.101, 0.12, 0.12, 0.1, 0.11];
        let cells = [10, 20].into_iter().flat_map(|rank| [1e-4, 1e-3, 1e-2].map(|lambda| (rank, lambda)));
        report.surface = cells.zip(errors).map(|((rank, lambda), error)| cell(rank, lambda, error)).collect();
        report.train = Some(Train { mse: 0.05, rmse: 0.05f64.sqrt(), r2: Some(0.95), loo_mse: None });
        report.certificate = Some(Certificate { trace_error: 0.1, overshoot: 0.0, floor: 0.0 });
        report
    }

    #[test]
    fn each_fault_is_told_and_nothing_else() {
        assert_eq!(verdict(&good()), Vec::<String>::new());
        let told = |change: &dyn Fn(&mut FitReport), part: &str| {
            let mut report = good();
            change(&mut report);
            let found = verdict(&report);
            assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
        };
        told(&|r| r.rows = 3, "3 rows have 5 features");
        told(&|r| r.certificate.as_mut().unwrap().trace_error = 0.97, "0.97");
        told(&|r| r.solver = "svm", "for 1,000 rows `map` exact");
        told(
            &|r| r.surface.iter_mut().for_each(|cell| cell.cv_mse = cell.cv_mse.map(|e| 9.8 * e)),
            "2.0 % of the variance",
        );
        told(
            &|r| (r.lambda, r.surface[3].cv_mse, r.surface[0].cv_mse) = (Some(1e-4), Some(0.09), Some(0.0901)),
            "lambda 1e-4 is the smallest value tried, and the error still falls there; extend the grid down to `lambda` 1e-7",
        );
        told(&|r| r.surface[1].cv_mse = Some(0.119), "from rank 10 to 20");
        let compared = |errors: [f64; 3]| {
            let figure = |name, values: &[f64]| Figure { name, values: values.to_vec() };
            vec![figure("C", &[0.1, 1.0, 10.0]), figure("held-out mse at each", &errors)]
        };
        told(
            &|r| r.figures = compared([5.0, 4.0, 3.0]),
            "C 10 is the largest value tried, and the held-out error still falls there; extend the grid up to `C` 1e4",
        );
        told(&|r| r.figures = compared([3.0, 4.0, 5.0]), "C 0.1 is the smallest");
        let mut inside = good();
        inside.figures = compared([3.0, 2.0, 2.5]);
        assert_eq!(verdict(&inside), Vec::<String>::new());
    }
}
