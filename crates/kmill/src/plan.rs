//! `kmill plan`: what a fit would need, without running it; `kmill fit` says the same before it starts.

use crate::args::PlanArgs;
use crate::fit::FitOptions;
use crate::table::{Align, Table, count, duration};
use crate::{Result, output, pipeline};
use ksolve::train::{Forecast, Step};
use kstore::budget::bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use std::time::Duration;

/// The plan of a fit, and whether it fits the memory budget.
#[derive(Clone, Debug)]
pub(crate) struct PlanReport {
    pub(crate) forecast: Forecast,
    pub(crate) budget: usize,
    pub(crate) threads: usize,
}

/// Runs `kmill plan`: adds up the memory of a fit and estimates its time. A plan over the budget is an answer here.
pub(crate) fn main(args: &PlanArgs) -> Result<()> {
    let run = args.run.resolve();
    let options = FitOptions::new(&args.job)?.combining(args.combine.as_ref());
    output::report(&pipeline::plan(&options, &run, &args.scratch)?, run.json)
}

impl PlanReport {
    pub(crate) fn new(forecast: Forecast) -> Self {
        let budget = forecast.steps.first().map_or(0, |step| step.plan.budget);
        Self { budget, threads: forecast.threads, forecast }
    }
}

impl Serialize for PlanReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stage = |step: &Step| {
            let term = |term: &kstore::budget::Term| serde_json::json!({"name": term.name, "bytes": term.bytes});
            let terms: Vec<serde_json::Value> = step.plan.terms.iter().map(term).collect();
            serde_json::json!({
                "what": step.plan.what, "bytes": step.plan.bytes(), "terms": terms,
                "passes": step.passes, "bytes_read": step.bytes_read, "seconds": step.seconds,
            })
        };
        let (forecast, cut) = (&self.forecast, self.forecast.cut);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("planned_bytes", &forecast.bytes())?;
        map.serialize_entry("memory_budget_bytes", &self.budget)?;
        map.serialize_entry("fits", &forecast.fits())?;
        map.serialize_entry("rows", &forecast.rows)?;
        map.serialize_entry("tile", &cut.tile)?;
        map.serialize_entry("segment", &cut.segment)?;
        map.serialize_entry("lanes", &serde_json::json!({"scan": cut.scan_lanes, "gram": cut.gram_lanes}))?;
        map.serialize_entry("threads", &self.threads)?;
        map.serialize_entry("passes", &forecast.passes())?;
        map.serialize_entry("bytes_read", &forecast.bytes_read())?;
        map.serialize_entry("seconds", &forecast.seconds())?;
        let other = forecast
            .other
            .as_ref()
            .map(|other| serde_json::json!({ "method": other.method, "seconds": other.seconds }));
        map.serialize_entry("other_method", &other)?;
        map.serialize_entry("stages", &forecast.steps.iter().map(stage).collect::<Vec<_>>())?;
        map.end()
    }
}

/// The text of a time in seconds, rounded to two digits as people say it.
fn about(seconds: f64) -> String {
    if seconds < 1e-3 {
        return "–".to_string();
    }
    let digits = 10f64.powi(seconds.log10().floor() as i32 - 1);
    // whole minutes and hours say it better than two digits of a second
    let unit = if seconds < 120.0 {
        digits
    } else if seconds < 7200.0 {
        60.0
    } else {
        600.0
    };
    duration(Duration::from_secs_f64((seconds / unit).round() * unit))
}

fn size(bytes_read: u64) -> String {
    if bytes_read == 0 { "–".to_string() } else { bytes(usize::try_from(bytes_read).unwrap_or(usize::MAX)) }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forecast = &self.forecast;
        let heads = ["stage", "holds", "memory", "passes", "reads", "takes"];
        let align = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        let mut table = Table::new(heads.iter().enumerate().map(|(i, head)| (*head, align(i))));
        let sums = |passes: u64, read: Option<u64>, seconds: Option<f64>| {
            let passes = if passes == 0 { "–".to_string() } else { count(passes) };
            [passes, read.map_or(String::new(), size), seconds.map_or(String::new(), about)]
        };
        for Step { plan, passes, bytes_read, seconds } in &forecast.steps {
            let head = [plan.what.clone(), "in all".to_string(), bytes(plan.bytes())];
            table.row(head.into_iter().chain(sums(*passes, *bytes_read, *seconds)));
            let mut terms: Vec<_> = plan.terms.iter().filter(|term| term.bytes > 0).collect();
            terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
            for term in terms {
                table.row([String::new(), format!("  {}", term.name), bytes(term.bytes)]);
            }
        }
        let head = ["the run".to_string(), "the largest of these".to_string(), bytes(forecast.bytes())];
        table.row(head.into_iter().chain(sums(forecast.passes(), forecast.bytes_read(), forecast.seconds())));
        writeln!(f, "plan for {} rows\n\n{table}", count(forecast.rows))?;
        let cut = forecast.cut;
        let lanes = |n: usize| if n == 1 { "1 lane".to_string() } else { format!("{n} lanes") };
        writeln!(
            f,
            "  tiles of {} rows, segments of {}; {} for scans, {} for products, {} threads",
            count(cut.tile as u64),
            count(cut.segment),
            lanes(cut.scan_lanes),
            lanes(cut.gram_lanes),
            self.threads
        )?;
        let verdict = if forecast.fits() { "fits" } else { "does not fit" };
        let time = forecast.seconds().map_or(String::new(), |seconds| format!("; about {}", about(seconds)));
        writeln!(f, "  {} of {}: {verdict}{time}", bytes(forecast.bytes()), bytes(self.budget))?;
        match &forecast.other {
            Some(other) if other.method == "pcg" => writeln!(
                f,
                "  --method pcg would take about {}, and give neither a certificate nor a surface",
                about(other.seconds)
            ),
            Some(other) => writeln!(f, "  --method {} would take about {}", other.method, about(other.seconds)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::train::Cut;
    use kstore::Plan;

    fn report(budget: usize) -> PlanReport {
        let plan = |what: &str| Plan::new(what, budget).term("the program itself", 32 << 20, "");
        let steps = vec![
            Step {
                plan: plan("scaling statistics").term("tiles of rows", 1 << 20, ""),
                passes: 1,
                bytes_read: Some(11 << 20),
                seconds: Some(0.061),
            },
            Step {
                plan: plan("Gram matrix").term("state", 100 << 20, ""),
                passes: 1,
                bytes_read: Some(11 << 20),
                seconds: Some(38.4),
            },
            Step { plan: plan("solve"), passes: 0, bytes_read: Some(0), seconds: Some(1.23) },
        ];
        let cut = Cut { tile: 2304, segment: 73_728, scan_lanes: 2, gram_lanes: 1, prefetch: 2 };
        PlanReport { forecast: Forecast { rows: 300_000, cut, steps, threads: 2, other: None }, budget, threads: 2 }
    }

    #[test]
    fn the_table_of_a_plan() {
        let expected = "\
plan for 300,000 rows

  stage               holds                  memory  passes     reads   takes
  scaling statistics  in all               33.0 MiB       1  11.0 MiB   61 ms
                        the program itself  32.0 MiB
                        tiles of rows        1.0 MiB
  Gram matrix         in all                132 MiB       1  11.0 MiB    38 s
                        state               100 MiB
                        the program itself  32.0 MiB
  solve               in all               32.0 MiB       –         –   1.2 s
                        the program itself  32.0 MiB
  the run             the largest of these  132 MiB       2  22.0 MiB    40 s

  tiles of 2,304 rows, segments of 73,728; 2 lanes for scans, 1 lane for products, 2 threads
  132 MiB of 512 MiB: fits; about 40 s
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = report(512 << 20).to_string();
        assert_eq!(squeeze(&text), squeeze(expected), "{text}");
        assert!(report(100 << 20).to_string().contains("132 MiB of 100 MiB: does not fit"));
        let json = serde_json::to_value(report(512 << 20)).unwrap();
        assert_eq!((&json["passes"], &json["fits"], &json["tile"]), (&2.into(), &true.into(), &2304.into()));
        assert_eq!(json["stages"][1]["terms"][1]["bytes"], 100 << 20);
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let texts = [0.0, 0.0123, 0.996, 4.26, 39.6, 100.4, 153.0, 4000.0, 86_000.0].map(about);
        assert_eq!(
            texts,
            ["–", "12 ms", "1.0 s", "4.3 s", "40 s", "100 s", "3 min 00 s", "67 min 00 s", "23 h 50 min"]
        );
    }
}
