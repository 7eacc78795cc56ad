//! The text of a curve for the terminal, with medians over the repeats.

use super::report::CurveReport;
use super::summary::{Cost, Metric, points, within};
use crate::table::{Grid, Table, count, duration, exact, number};
use kstore::budget::bytes;
use std::fmt;
use std::time::Duration;

const NONE: &str = "–";

impl CurveReport {
    /// A grid of one value for every method and rank; methods without any value are left out.
    fn grid(&self, value: &dyn Fn(&str, usize) -> Option<String>, floor: Option<&[f64]>) -> Option<Grid> {
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for method in &self.methods {
            let cells: Vec<Option<String>> = self.ranks.iter().map(|rank| value(method, *rank)).collect();
            if cells.iter().any(Option::is_some) {
                let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| NONE.to_string())).collect();
                rows.push((method.clone(), cells));
            }
        }
        if rows.is_empty() {
            return None;
        }
        if let Some(floor) = floor {
            rows.push(("floor".to_string(), floor.iter().map(|floor| number(*floor, 3)).collect()));
        }
        let columns = self.ranks.iter().map(ToString::to_string).collect();
        Some(Grid { corner: "method \\ rank".to_string(), columns, rows, marked: None })
    }

    pub(super) fn errors(&self, metric: Metric) -> Option<Grid> {
        let floor = self.floor.as_ref().and_then(|floor| match metric {
            Metric::Trace => Some(&floor.trace[..]),
            Metric::Frobenius => Some(&floor.frobenius[..]),
            Metric::Spectral => Some(&floor.spectral[..]),
            Metric::Test => None,
        });
        let median = |method: &str, rank: usize| {
            let points = points(self, method, metric, Cost::Rank);
            points.iter().find(|point| point.rank == rank).map(|point| number(point.error.median, 3))
        };
        self.grid(&median, floor)
    }

    fn costs(&self, cost: Cost) -> Option<Grid> {
        let median = |method: &str, rank: usize| {
            // every row has a Frobenius error
            let points = points(self, method, Metric::Frobenius, cost);
            let found = points.iter().find(|point| point.rank == rank && point.cost > 0.0)?.cost;
            Some(if cost == Cost::Seconds { seconds(found) } else { format!("{found:.2e}") })
        };
        self.grid(&median, None)
    }

    /// The least error of each method within budgets.
    pub(super) fn within(&self, metric: Metric, cost: Cost) -> Option<Grid> {
        let within = within(self, metric, cost)?;
        let shown = |budget: &f64| match cost {
            Cost::Seconds => seconds(*budget),
            _ => exact(*budget),
        };
        let cell = |reached: &Option<(f64, usize)>| reached.map_or(NONE.to_string(), |(error, _)| number(error, 3));
        let rows = self.methods.iter().zip(&within.reached).filter(|(_, reached)| reached.iter().any(Option::is_some));
        Some(Grid {
            corner: format!("method \\ {}", cost.label()),
            columns: within.budgets.iter().map(shown).collect(),
            rows: rows.map(|(method, reached)| (method.clone(), reached.iter().map(cell).collect())).collect(),
            marked: None,
        })
    }

    /// The kind of error that methods are compared by: the test error where there is one, else an error of the matrix.
    pub(super) fn compared(&self) -> Metric {
        if self.rows.iter().any(|row| row.test_error.is_some()) { Metric::Test } else { Metric::Frobenius }
    }
}

pub(super) fn seconds(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds.max(0.0)))
}

impl fmt::Display for CurveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, features) = (count(self.approximated_rows), count(self.table.features.len() as u64));
        let of = match self.approximated_rows == self.table.selected_rows {
            true => String::new(),
            false => format!(" of {}", count(self.table.selected_rows)),
        };
        writeln!(f, "error against rank on {rows} rows{of}, {features} features\n")?;
        let mut facts = Table::facts();
        facts.fact("kernel", self.kernel.as_str());
        let once = match &self.run_once()[..] {
            [] => String::new(),
            methods => format!("; {} once, without chance in it", methods.join(", ")),
        };
        let repeats = match self.repeats {
            1 => "1 repeat".to_string(),
            repeats => format!("medians of {repeats} repeats{once}"),
        };
        facts.fact("cells", format!("{} ({repeats})", count(self.rows.len() as u64)));
        write!(f, "{facts}")?;
        for metric in Metric::ALL {
            if let Some(grid) = self.errors(metric) {
                write!(f, "\n{} ({})\n\n{grid}", metric.title(self), metric.evidence(self))?;
            }
        }
        for (cost, title) in [
            (Cost::Seconds, "Time to have the features of every row"),
            (Cost::Evaluations, "Kernel evaluations of the same"),
        ] {
            if let Some(grid) = self.costs(cost) {
                write!(f, "\n{title}\n\n{grid}")?;
            }
        }
        let compared = self.compared();
        for cost in [Cost::Seconds, Cost::Evaluations] {
            if let Some(grid) = self.within(compared, cost) {
                write!(f, "\n{} at equal {}: the best rank within\n\n{grid}", compared.title(self), cost.label())?;
            }
        }
        let mut facts = Table::facts();
        if let Some(floor) = &self.floor {
            let sample = match floor.rows as u64 == self.approximated_rows {
                true => "all rows".to_string(),
                false => format!("a sample of {} rows; too low at ranks near this number", count(floor.rows as u64)),
            };
            facts.fact("floor", format!("no matrix of this rank has a smaller error; from the spectrum of {sample}"));
        }
        let total = self.seconds.iter().map(|(_, seconds)| seconds).sum();
        facts.fact("time", seconds(total));
        facts.fact("read", bytes(usize::try_from(self.bytes_read).unwrap_or(usize::MAX)));
        let peak = self.peak_rss_bytes.map_or("unknown".to_string(), bytes);
        let planned = self.rows.iter().map(|row| row.planned_bytes).max().unwrap_or(0);
        facts.fact(
            "memory",
            format!("peak {peak}, planned {}, budget {}", bytes(planned), bytes(self.memory_budget_bytes)),
        );
        writeln!(f, "\n{facts}")?;
        if self.tested.is_some() { writeln!(f, "{}", self.lambda_convention) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;

    #[test]
    fn the_terminal_shows_errors_costs_and_methods_at_equal_cost() {
        let text = report().to_string();
        let expected = "\
error against rank on 900 rows, 1 features

  kernel  gaussian(sigma=1)
  cells   6 (1 repeat)

Relative trace error (exact, all rows; projections only)

  method \\ rank     50     100
        uniform  0.500   0.250
     rpcholesky  0.400   0.100
          floor  0.300  0.0500

Relative Frobenius error (exact, all pairs of rows)

  method \\ rank     50     100
        uniform  0.300   0.200
     rpcholesky  0.200  0.0500
        fourier  0.600   0.400
          floor  0.100  0.0100
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("method \\ seconds  100 ms  200 ms  500 ms   1.0 s"), "{text}");
        assert!(text.contains("rpcholesky       –   0.200   0.200  0.0500"), "{text}");
        assert!(!text.contains("lambda is per row"), "nothing was learned");
    }
}
