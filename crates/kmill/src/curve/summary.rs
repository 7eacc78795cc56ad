//! Medians over repeats, and methods at equal rank, equal evaluations and equal time.

use super::report::CurveReport;
use super::test_name;
use ksolve::curve::CurveCell;

/// The kinds of error that methods are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Trace,
    Frobenius,
    Spectral,
    Test,
}

impl Metric {
    pub(super) const ALL: [Self; 4] = [Self::Trace, Self::Frobenius, Self::Spectral, Self::Test];

    pub(super) fn of(self, cell: &CurveCell) -> Option<f64> {
        match self {
            Self::Trace => cell.trace_error,
            Self::Frobenius => Some(cell.frobenius.value),
            Self::Spectral => cell.spectral.as_ref().map(|spectral| spectral.value),
            Self::Test => cell.test_error,
        }
    }

    /// The short name for identifiers on the page.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Frobenius => "frobenius",
            Self::Spectral => "spectral",
            Self::Test => "test",
        }
    }

    /// The name for headings.
    pub(super) fn title(self, report: &CurveReport) -> String {
        match self {
            Self::Trace => "Relative trace error".to_string(),
            Self::Frobenius => "Relative Frobenius error".to_string(),
            Self::Spectral => "Relative spectral error".to_string(),
            Self::Test => {
                let name = report.tested.map_or("test error", test_name);
                let mut letters = name.chars();
                letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
            }
        }
    }

    /// A few words on how the error was measured: on all rows, or estimated.
    pub(super) fn evidence(self, report: &CurveReport) -> String {
        let all = report.approximated_rows as usize <= report.frobenius_columns;
        match self {
            Self::Trace => "exact, all rows; projections only".to_string(),
            Self::Frobenius if all => "exact, all pairs of rows".to_string(),
            Self::Frobenius => format!("estimated from {} columns of all rows", report.frobenius_columns),
            Self::Spectral if all => "block Krylov iterations on all rows".to_string(),
            Self::Spectral => {
                let rows = crate::table::count(ksolve::curve::SPECTRAL_ROWS as u64);
                format!("estimated on {rows} rows, within bounds of all")
            }
            Self::Test => format!("ridge regression, lambda {}", crate::table::exact(report.lambda)),
        }
    }
}

/// The costs that methods are compared at: rank, kernel evaluations or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    Rank,
    Evaluations,
    Seconds,
}

impl Cost {
    pub(super) const ALL: [Self; 3] = [Self::Rank, Self::Evaluations, Self::Seconds];

    pub(super) fn of(self, cell: &CurveCell) -> f64 {
        match self {
            Self::Rank => cell.rank as f64,
            Self::Evaluations => cell.kernel_evaluations as f64,
            Self::Seconds => cell.seconds,
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Evaluations => "evaluations",
            Self::Seconds => "seconds",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Evaluations => "kernel evaluations",
            Self::Seconds => "seconds",
        }
    }
}

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

/// The median and quartiles of some numbers, interpolated between neighbours (Hyndman and Fan's type 7); `None` without
/// numbers.
pub(super) fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        let above = (below + 1).min(last);
        // equal neighbours give their value to the last bit
        if values[below] == values[above] {
            values[below]
        } else {
            values[below] + part * (values[above] - values[below])
        }
    };
    Some(Spread { low: at(0.25), median: at(0.5), high: at(0.75) })
}

impl CurveReport {
    /// The names of methods that make no random choice and were run once, where the others were repeated.
    pub(super) fn run_once(&self) -> Vec<&str> {
        let repeated = |method: &&str| self.rows.iter().any(|cell| cell.method == **method && cell.repeat > 0);
        let methods = self.methods.iter().map(String::as_str);
        if self.repeats > 1 { methods.filter(|method| !repeated(method)).collect() } else { Vec::new() }
    }
}

/// The error of a method at a rank, summarised over the repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) rank: usize,
    /// Median cost.
    pub(super) cost: f64,
    pub(super) error: Spread,
}

/// The points of a method, by ascending rank; ranks without an error are left out.
pub(super) fn points(report: &CurveReport, method: &str, metric: Metric, cost: Cost) -> Vec<Point> {
    let at = |rank: &usize| {
        let rows = || report.rows.iter().filter(|row| row.method == method && row.rank == *rank);
        let error = spread(rows().filter_map(|row| metric.of(row)).collect())?;
        let cost = spread(rows().map(|row| cost.of(row)).collect())?.median;
        Some(Point { rank: *rank, cost, error })
    };
    report.ranks.iter().filter_map(at).collect()
}

/// The least error of each method within budgets: for each budget the least median error among the ranks whose median
/// cost is within it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Within {
    pub(super) budgets: Vec<f64>,
    /// For each method, in order, the error and the rank at each budget.
    pub(super) reached: Vec<Vec<Option<(f64, usize)>>>,
}

/// Most budgets that are shown.
const BUDGETS: usize = 7;

/// Compares the methods at equal cost; `None` where no method has that cost, as random features need no kernel
/// evaluations.
pub(super) fn within(report: &CurveReport, metric: Metric, cost: Cost) -> Option<Within> {
    let curves: Vec<Vec<Point>> = report.methods.iter().map(|method| points(report, method, metric, cost)).collect();
    let costs = || curves.iter().flatten().map(|point| point.cost).filter(|cost| *cost > 0.0);
    let (low, high) = (costs().fold(f64::INFINITY, f64::min), costs().fold(0.0, f64::max));
    if low > high {
        return None;
    }
    let budgets = round_numbers(low, high);
    let best = |curve: &Vec<Point>, budget: f64| {
        let there = curve.iter().filter(|point| point.cost <= budget && point.cost > 0.0);
        there.map(|point| (point.error.median, point.rank)).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let reached = curves.iter().map(|curve| budgets.iter().map(|budget| best(curve, *budget)).collect()).collect();
    Some(Within { budgets, reached })
}

/// 1, 2 and 5 times powers of ten from the first that is not below `low` to the first that is not below `high`, thinned to
/// [`BUDGETS`], the last kept.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let number = |mantissa: i32, exponent: i32| format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN);
    let all: Vec<f64> = (first..=last).flat_map(|e| [1, 2, 5].map(|m| number(m, e))).collect();
    let end = all.iter().position(|v| *v >= high).unwrap_or(all.len() - 1);
    let start = all.iter().position(|v| *v >= low).unwrap_or(0).min(end);
    let every = (end - start + 1).div_ceil(BUDGETS);
    let mut chosen: Vec<f64> = (start..=end).rev().step_by(every).map(|i| all[i]).collect();
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_textbook() {
        let s = spread(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.low, s.median, s.high), (1.75, 2.5, 3.25));
        assert_eq!(spread(vec![7.0]).unwrap(), Spread { low: 7.0, median: 7.0, high: 7.0 });
        assert_eq!(spread(Vec::new()), None);
    }

    #[test]
    fn budgets_are_round_and_cover_the_costs() {
        assert_eq!(round_numbers(0.03, 4.0), [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]);
        assert_eq!(round_numbers(3.0, 3.0), [5.0]);
        let many = round_numbers(1e3, 1e9);
        assert!(many.len() <= BUDGETS && many.last() == Some(&1e9), "{many:?}");
    }

    #[test]
    fn a_method_reaches_what_its_best_rank_within_the_budget_does() {
        let report = report();
        let seconds = within(&report, Metric::Trace, Cost::Seconds).unwrap();
        // uniform: 0.1 s and 0.4 s; rpcholesky: 0.2 s and 0.8 s; fourier has no trace error
        assert_eq!(seconds.budgets, [0.1, 0.2, 0.5, 1.0]);
        assert_eq!(seconds.reached[0], [Some((0.5, 50)), Some((0.5, 50)), Some((0.25, 100)), Some((0.25, 100))]);
        assert_eq!(seconds.reached[1], [None, Some((0.4, 50)), Some((0.4, 50)), Some((0.1, 100))]);
        assert_eq!(seconds.reached[2], [None; 4]);
        // random features evaluate no kernel
        let evaluations = within(&report, Metric::Frobenius, Cost::Evaluations).unwrap();
        assert!(evaluations.reached[2].iter().all(Option::is_none));
    }
}
