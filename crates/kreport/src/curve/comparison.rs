//! Medians over repeats; the comparison of methods at the same rank, the same number of kernel
//! evaluations, or the same time; and the text of a curve for the terminal.

use super::CurveReport;
use crate::table::{
    Grid, MISSING_VALUE, facts, format_count, format_seconds, number, rounded_kernel, short_lambda, shortest_number,
};
use ksolve::curve::{CurveCell, SPECTRAL_ROWS, TestErrorKind};
use std::fmt;

/// The error of an approximation, by which methods are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorMeasure {
    Trace,
    Frobenius,
    Spectral,
    Test,
}

impl ErrorMeasure {
    pub(super) const ALL: [Self; 4] = [Self::Trace, Self::Frobenius, Self::Spectral, Self::Test];

    fn value_in(self, cell: &CurveCell) -> Option<f64> {
        match self {
            Self::Trace => cell.trace_error,
            Self::Frobenius => Some(cell.frobenius.value),
            Self::Spectral => cell.spectral.as_ref().map(|spectral| spectral.value),
            Self::Test => cell.test_error,
        }
    }

    pub(super) fn minimum_errors(self, report: &CurveReport) -> Option<&[f64]> {
        let errors = report.minimum_errors.as_ref()?;
        match self {
            Self::Trace => Some(&errors.trace),
            Self::Frobenius => Some(&errors.frobenius),
            Self::Spectral => Some(&errors.spectral),
            Self::Test => None,
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Frobenius => "frobenius",
            Self::Spectral => "spectral",
            Self::Test => "test",
        }
    }

    pub(super) fn title(self, report: &CurveReport) -> &'static str {
        match self {
            Self::Trace => "Relative trace error",
            Self::Frobenius => "Relative Frobenius error",
            Self::Spectral => "Relative spectral error",
            Self::Test if report.tested == Some(TestErrorKind::Error) => "Test error rate",
            Self::Test => "Test mean squared error",
        }
    }

    /// Describes in a few words how the error was measured: exactly, as an estimate, or by which
    /// ridge regression.
    pub(super) fn evidence(self, report: &CurveReport) -> String {
        let uses_all_rows = report.approximated_rows as usize <= report.frobenius_columns;
        match self {
            Self::Trace => "exact, all rows; projections only".to_string(),
            Self::Frobenius if uses_all_rows => "exact, all pairs of rows".to_string(),
            Self::Frobenius => format!("estimated from {} columns of all rows", report.frobenius_columns),
            Self::Spectral if uses_all_rows => "block Krylov iterations on all rows".to_string(),
            Self::Spectral => {
                format!("estimated on {} rows, with bounds for all rows", format_count(SPECTRAL_ROWS as u64))
            }
            Self::Test => format!("ridge regression, lambda {}", shortest_number(report.lambda)),
        }
    }
}

/// The costs at which methods are compared: rank, kernel evaluations or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostMeasure {
    Rank,
    Evaluations,
    Seconds,
}

impl CostMeasure {
    pub(super) const ALL: [Self; 3] = [Self::Rank, Self::Evaluations, Self::Seconds];

    fn value_in(self, cell: &CurveCell) -> f64 {
        match self {
            Self::Rank => cell.rank as f64,
            Self::Evaluations => cell.kernel_evaluations as f64,
            Self::Seconds => cell.seconds,
        }
    }

    /// Returns the label on axes. Its last word is part of the identifiers of charts.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Evaluations => "kernel evaluations",
            Self::Seconds => "seconds",
        }
    }

    pub(super) fn key(self) -> &'static str {
        self.label().rsplit(' ').next().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quartiles {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

/// Returns the median and quartiles of some values, interpolated linearly (Hyndman and Fan's type
/// 7); `None` without values.
fn quartiles(mut values: Vec<f64>) -> Option<Quartiles> {
    values.sort_by(f64::total_cmp);
    let last_index = values.len().checked_sub(1)?;
    let quantile = |level: f64| {
        let position = level * last_index as f64;
        let (below, fraction) = (position.floor() as usize, position.fract());
        let (low, high) = (values[below], values[(below + 1).min(last_index)]);
        // equal neighbours give exactly their value
        if low == high { low } else { low + fraction * (high - low) }
    };
    Some(Quartiles { low: quantile(0.25), median: quantile(0.5), high: quantile(0.75) })
}

/// The error of a method at a rank, summarised over the repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CurvePoint {
    pub(super) rank: usize,
    pub(super) cost: f64,
    pub(super) error: Quartiles,
}

/// Returns numbers of the form 1, 2 or 5 times a power of ten, from the first number that is at
/// least `low` to the first number that is at least `high`. Drops some of the numbers if there are
/// more than [`MAX_BUDGETS`], but never the last.
fn round_budgets_between(low: f64, high: f64) -> Vec<f64> {
    let (first_exponent, last_exponent) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decimal_number = |mantissa: i32, exponent: i32| format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN);
    let candidates: Vec<f64> =
        (first_exponent..=last_exponent).flat_map(|e| [1, 2, 5].map(|m| decimal_number(m, e))).collect();
    let end = candidates.iter().position(|v| *v >= high).unwrap_or(candidates.len() - 1);
    let start = candidates.iter().position(|v| *v >= low).unwrap_or(0).min(end);
    let stride = (end - start + 1).div_ceil(MAX_BUDGETS);
    let mut budgets: Vec<f64> = (start..=end).rev().step_by(stride).map(|i| candidates[i]).collect();
    budgets.reverse();
    budgets
}

/// Maximum number of budgets in a comparison, chosen to keep its table narrow.
const MAX_BUDGETS: usize = 7;

impl CurveReport {
    /// Returns the methods that ran once because they are deterministic; empty if there are no
    /// repeats.
    pub(super) fn deterministic_methods(&self) -> Vec<&str> {
        let is_repeated = |method: &&str| self.rows.iter().any(|cell| cell.method == **method && cell.repeat > 0);
        let methods = self.methods.iter().map(String::as_str);
        if self.repeats > 1 { methods.filter(|method| !is_repeated(method)).collect() } else { Vec::new() }
    }

    /// Returns the points of a method by ascending rank; omits ranks that have no error.
    pub(super) fn points(&self, method: &str, measure: ErrorMeasure, cost_measure: CostMeasure) -> Vec<CurvePoint> {
        let curve_point = |rank: &usize| {
            let cells = || self.rows.iter().filter(|row| row.method == method && row.rank == *rank);
            let error = quartiles(cells().filter_map(|row| measure.value_in(row)).collect())?;
            let cost = quartiles(cells().map(|row| cost_measure.value_in(row)).collect())?.median;
            Some(CurvePoint { rank: *rank, cost, error })
        };
        self.ranks.iter().filter_map(curve_point).collect()
    }

    /// Returns a grid with one row per method; omits methods that have no value. `row` returns the
    /// cells of a method.
    fn method_grid(&self, cost_name: &str, columns: Vec<String>, row: impl Fn(&str) -> Vec<Option<String>>) -> Grid {
        let rows = self.methods.iter().map(|method| (method, row(method)));
        let rows = rows.filter(|(_, cells)| cells.iter().any(Option::is_some)).map(|(method, cells)| {
            (method.clone(), cells.into_iter().map(|cell| cell.unwrap_or_else(|| MISSING_VALUE.to_string())).collect())
        });
        Grid { corner: format!("method \\ {cost_name}"), columns, rows: rows.collect(), marked_cell: None }
    }

    /// Returns a grid of a quantity per method and rank; `None` if no method has it. `value`
    /// returns the quantity at a point as text, or `None` if the point does not have it.
    fn grid_by_rank(
        &self,
        measure: ErrorMeasure,
        cost: CostMeasure,
        value: impl Fn(&CurvePoint) -> Option<String>,
    ) -> Option<Grid> {
        let ranks = self.ranks.iter().map(ToString::to_string).collect();
        let grid = self.method_grid("rank", ranks, |method| {
            let points = self.points(method, measure, cost);
            self.ranks.iter().map(|rank| points.iter().find(|point| point.rank == *rank).and_then(&value)).collect()
        });
        (!grid.rows.is_empty()).then_some(grid)
    }

    /// Returns a grid of the median errors. If the minimum errors are known, its last row, `floor`,
    /// is the smallest error that a matrix of the rank can have. Returns `None` if no method has
    /// this error.
    pub(super) fn error_grid(&self, measure: ErrorMeasure) -> Option<Grid> {
        let mut grid = self.grid_by_rank(measure, CostMeasure::Rank, |point| Some(number(point.error.median, 4)))?;
        if let Some(minimum_errors) = measure.minimum_errors(self) {
            grid.rows.push(("floor".to_string(), minimum_errors.iter().map(|error| number(*error, 4)).collect()));
        }
        Some(grid)
    }

    fn cost_grid(&self, cost: CostMeasure) -> Option<Grid> {
        let format_cost = |cost: CostMeasure, value: f64| {
            if cost == CostMeasure::Seconds { format_seconds(value) } else { format!("{value:.2e}") }
        };
        // every cell has a Frobenius error
        self.grid_by_rank(ErrorMeasure::Frobenius, cost, |point| {
            (point.cost > 0.0).then(|| format_cost(cost, point.cost))
        })
    }

    /// For several budgets, returns the lowest median error of each method among the ranks whose
    /// median cost is within the budget. `None` if no method has a cost of this kind; for example,
    /// random features need no kernel evaluations.
    pub(super) fn budget_grid(&self, measure: ErrorMeasure, cost: CostMeasure) -> Option<Grid> {
        let curves: Vec<_> = self.methods.iter().map(|method| self.points(method, measure, cost)).collect();
        let costs = || curves.iter().flatten().map(|point| point.cost).filter(|cost| *cost > 0.0);
        let (low, high) = (costs().fold(f64::INFINITY, f64::min), costs().fold(0.0, f64::max));
        let budgets = if low > high { return None } else { round_budgets_between(low, high) };
        let format_budget = |budget: &f64| {
            if cost == CostMeasure::Seconds { format_seconds(*budget) } else { shortest_number(*budget) }
        };
        Some(self.method_grid(cost.label(), budgets.iter().map(format_budget).collect(), |method| {
            let points = self.points(method, measure, cost);
            let best = |budget: &f64| {
                let affordable = points.iter().filter(|point| point.cost <= *budget && point.cost > 0.0);
                affordable.map(|point| point.error.median).min_by(f64::total_cmp).map(|error| number(error, 4))
            };
            budgets.iter().map(best).collect()
        }))
    }

    /// Returns the error by which methods are compared: the test error if available, otherwise the
    /// Frobenius error.
    pub(super) fn comparison_measure(&self) -> ErrorMeasure {
        if self.rows.iter().any(|row| row.test_error.is_some()) { ErrorMeasure::Test } else { ErrorMeasure::Frobenius }
    }

    /// Describes the rows whose spectrum gives the minimum errors, the smallest errors that an
    /// approximation of a given rank can have; `None` if the minimum errors are unknown.
    pub(super) fn describe_spectrum_rows(&self) -> Option<String> {
        let rows = self.minimum_errors.as_ref()?.rows as u64;
        Some(match rows == self.approximated_rows {
            true => "all rows".to_string(),
            false => format!("a sample of {} rows; too low at ranks near this number", format_count(rows)),
        })
    }

    /// Describes the effective dimension of the cell with the lowest test error; `None` without
    /// test rows.
    fn describe_effective_dimension(&self) -> Option<String> {
        let tested = self.rows.iter().filter(|row| row.test_error.is_some());
        let best =
            tested.min_by(|a, b| a.test_error.partial_cmp(&b.test_error).unwrap_or(std::cmp::Ordering::Equal))?;
        let (dimension, lambda) = (number(best.effective_dimension?, 4), short_lambda(self.lambda));
        let rank = format_count(best.rank as u64);
        Some(format!("{dimension} at lambda {lambda}, of the lowest test error ({} at rank {rank})", best.method))
    }

    pub(super) fn planned_bytes(&self) -> usize {
        self.rows.iter().map(|row| row.planned_bytes).max().unwrap_or(0)
    }
}

impl fmt::Display for CurveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, features) = (format_count(self.approximated_rows), format_count(self.table.feature_count as u64));
        let total_rows = match self.approximated_rows == self.table.selected_rows {
            true => String::new(),
            false => format!(" of {}", format_count(self.table.selected_rows)),
        };
        let run_once_note = match &self.deterministic_methods()[..] {
            [] => String::new(),
            methods => format!("; {} once, without random choices", methods.join(", ")),
        };
        let repeats = match self.repeats {
            1 => "1 repeat".to_string(),
            repeats => format!("medians of {repeats} repeats{run_once_note}"),
        };
        let cells = format!("{} ({repeats})", format_count(self.rows.len() as u64));
        writeln!(f, "error against rank on {rows} rows{total_rows}, {features} features\n")?;
        write!(f, "{}", facts([("kernel", rounded_kernel(&self.kernel)), ("cells", cells)]))?;
        let measure = self.comparison_measure();
        let error_grids = ErrorMeasure::ALL
            .map(|measure| (format!("{} ({})", measure.title(self), measure.evidence(self)), self.error_grid(measure)));
        let cost_grids = [
            ("Time to compute the features of every row", CostMeasure::Seconds),
            ("Kernel evaluations to compute the features of every row", CostMeasure::Evaluations),
        ];
        let cost_grids = cost_grids.map(|(title, cost)| (title.to_string(), self.cost_grid(cost)));
        let budget_grids = [CostMeasure::Seconds, CostMeasure::Evaluations].map(|cost| {
            let title = format!("{} at equal {}: the best rank within each budget", measure.title(self), cost.label());
            (title, self.budget_grid(measure, cost))
        });
        for (title, grid) in error_grids.into_iter().chain(cost_grids).chain(budget_grids) {
            grid.map_or(Ok(()), |grid| write!(f, "\n{title}\n\n{grid}"))?;
        }
        let floor_fact = self
            .describe_spectrum_rows()
            .map(|rows| ("floor", format!("no matrix of this rank has a smaller error; from the spectrum of {rows}")));
        let resources = self.resources.facts(None, Some(self.planned_bytes()));
        let dimension_fact = self.describe_effective_dimension().map(|text| ("effective dimension", text));
        writeln!(f, "\n{}", facts(floor_fact.into_iter().chain(dimension_fact).chain(resources)))?;
        if self.tested.is_some() { writeln!(f, "{}", self.lambda_convention) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_textbook() {
        let s = quartiles(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.low, s.median, s.high), (1.75, 2.5, 3.25));
        assert_eq!(quartiles(vec![7.0]).unwrap(), Quartiles { low: 7.0, median: 7.0, high: 7.0 });
        assert_eq!(quartiles(Vec::new()), None);
    }

    #[test]
    fn budgets_are_round_and_cover_the_costs() {
        assert_eq!(round_budgets_between(0.03, 4.0), [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]);
        assert_eq!(round_budgets_between(3.0, 3.0), [5.0]);
        let many = round_budgets_between(1e3, 1e9);
        assert!(many.len() <= MAX_BUDGETS && many.last() == Some(&1e9), "{many:?}");
    }

    #[test]
    fn a_method_reaches_what_its_best_rank_within_the_budget_does() {
        let report = report();
        let seconds = report.budget_grid(ErrorMeasure::Trace, CostMeasure::Seconds).unwrap();
        let row = |name: &str, cells: [&str; 4]| (name.to_string(), cells.map(str::to_string).to_vec());
        // uniform takes 0.1 s and 0.4 s, rpcholesky 0.2 s and 0.8 s; fourier has no trace error
        assert_eq!(seconds.columns, ["100 ms", "200 ms", "500 ms", "1.0 s"]);
        let (uniform, rpcholesky) =
            (["0.5000", "0.5000", "0.2500", "0.2500"], [MISSING_VALUE, "0.4000", "0.4000", "0.1000"]);
        assert_eq!(seconds.rows, [row("uniform", uniform), row("rpcholesky", rpcholesky)]);
        // random features need no kernel evaluations
        let evaluations = report.budget_grid(ErrorMeasure::Frobenius, CostMeasure::Evaluations).unwrap();
        assert!(evaluations.rows.iter().all(|(method, _)| method != "fourier"), "{evaluations}");
    }

    #[test]
    fn the_terminal_shows_errors_costs_and_methods_at_equal_cost() {
        let text = report().to_string();
        let expected = "\
error against rank on 900 rows, 1 features

  kernel  gaussian(sigma=1)
  cells   6 (1 repeat)

Relative trace error (exact, all rows; projections only)

  method \\ rank      50      100
        uniform  0.5000   0.2500
     rpcholesky  0.4000   0.1000
          floor  0.3000  0.05000

Relative Frobenius error (exact, all pairs of rows)

  method \\ rank      50      100
        uniform  0.3000   0.2000
     rpcholesky  0.2000  0.05000
        fourier  0.6000   0.4000
          floor  0.1000  0.01000
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("method \\ seconds  100 ms  200 ms  500 ms    1.0 s"), "{text}");
        assert!(text.contains("rpcholesky       –  0.2000  0.2000  0.05000"), "{text}");
        assert!(!text.contains("lambda is per row"), "nothing was learned");
    }
}
