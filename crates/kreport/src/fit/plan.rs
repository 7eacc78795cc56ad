//! The plan of a fit as text and JSON.

use crate::table::{Align, AlignedTable, MISSING_VALUE, format_count};
use ksolve::job::{Forecast, Stage};
use kstore::{budget::format_bytes, display::format_bytes_up};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::fmt;

/// The plan of a fit: the stages, each with its memory and its passes, and whether the fit stays
/// within the memory budget.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Forecast of the fit.
    pub forecast: Forecast,
    /// Whether the text lists every part of the memory of a stage, instead of the largest part.
    pub lists_all_parts: bool,
    /// Largest rank that fits the budget, if the planned rank does not and a smaller one does.
    pub fitting_rank: Option<usize>,
}

impl PlanReport {
    fn budget(&self) -> usize {
        self.forecast.stages.first().map_or(0, |stage| stage.plan.budget)
    }
}

impl Serialize for PlanReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (forecast, pass_shape) = (&self.forecast, self.forecast.pass_shape);
        let stage = |Stage { plan, passes }: &Stage| {
            let term = |term: &kstore::budget::MemoryTerm| json!({"name": term.name, "bytes": term.bytes});
            let terms: Vec<Value> = plan.terms.iter().map(term).collect();
            let optional_terms: Vec<Value> = plan.optional_terms.iter().map(term).collect();
            json!({
                "what": plan.stage, "bytes": plan.bytes(), "terms": terms,
                "optional_bytes": plan.optional_bytes(), "optional_terms": optional_terms,
                "passes": passes, "bytes_read": forecast.bytes_read(*passes),
            })
        };
        serializer.collect_map([
            ("planned_bytes", json!(forecast.peak_bytes())),
            ("memory_budget_bytes", json!(self.budget())),
            ("fits", json!(forecast.fits())),
            ("fitting_rank", json!(self.fitting_rank)),
            ("rows", json!(forecast.stored_rows)),
            ("tile", json!(pass_shape.tile_rows)),
            ("segment", json!(pass_shape.segment_rows)),
            ("lanes", json!({"scan": pass_shape.scan_lanes, "gram": pass_shape.gram_lanes})),
            ("threads", json!(forecast.threads)),
            ("passes", json!(forecast.passes())),
            ("passes_are_a_minimum", json!(forecast.rereads_table)),
            ("bytes_read", json!(forecast.bytes_read(forecast.passes()))),
            ("stages", forecast.stages.iter().map(stage).collect()),
        ])
    }
}

impl PlanReport {
    /// Returns a table of the stages with the largest part of the memory of each, or with all
    /// parts.
    fn stage_table(&self) -> AlignedTable {
        let forecast = &self.forecast;
        let headings = match self.lists_all_parts {
            true => ["stage", "contents", "memory", "passes", "reads"],
            false => ["stage", "largest part", "memory", "passes", "reads"],
        };
        let alignment = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        let mut table = AlignedTable::new(headings.iter().enumerate().map(|(i, head)| (*head, alignment(i))));
        let pass_cells = |passes: u64| match passes {
            0 => [MISSING_VALUE, MISSING_VALUE].map(String::from),
            _ => [
                format_count(passes),
                forecast.bytes_read(passes).map_or(String::new(), |read| format_bytes(read as usize)),
            ],
        };
        for Stage { plan, passes } in &forecast.stages {
            let mut terms: Vec<_> = plan.terms.iter().filter(|term| term.bytes > 0).collect();
            terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
            let contents = match (self.lists_all_parts, terms.first()) {
                (false, Some(largest)) => format!("{} {}", largest.name, format_bytes(largest.bytes)),
                _ => "total".to_string(),
            };
            let head = [plan.stage.clone(), contents, format_bytes(plan.bytes())];
            table.push_row(head.into_iter().chain(pass_cells(*passes)));
            for term in terms.into_iter().filter(|_| self.lists_all_parts) {
                table.push_row([String::new(), format!("  {}", term.name), format_bytes(term.bytes)]);
            }
        }
        let head = ["run".to_string(), "largest stage".to_string(), format_bytes(forecast.peak_bytes())];
        table.push_row(head.into_iter().chain(pass_cells(forecast.passes())));
        table
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (forecast, pass_shape) = (&self.forecast, self.forecast.pass_shape);
        writeln!(f, "plan for {} rows\n\n{}", format_count(forecast.stored_rows), self.stage_table())?;
        let lanes = |n: usize| if n == 1 { "1 lane".to_string() } else { format!("{n} lanes") };
        writeln!(
            f,
            "  tiles of {} rows, segments of {}; {} for scans, {} for products, {} threads",
            format_count(pass_shape.tile_rows as u64),
            format_count(pass_shape.segment_rows),
            lanes(pass_shape.scan_lanes),
            lanes(pass_shape.gram_lanes),
            forecast.threads
        )?;
        if forecast.rereads_table {
            f.write_str(
                "  the features of all rows fit neither --memory nor a --scratch folder: each iteration of the solver is one more pass over the \
                 table, which is not counted\n",
            )?;
        }
        let verdict = if forecast.fits() { "fits" } else { "does not fit" };
        writeln!(f, "  {} of {}: {verdict}", format_bytes(forecast.peak_bytes()), format_bytes(self.budget()))?;
        for Stage { plan, .. } in forecast.stages.iter().filter(|stage| stage.plan.optional_bytes() > 0) {
            let names: Vec<&str> = plan.optional_terms.iter().map(|term| &term.name[..]).collect();
            let (names, bytes) = (names.join(", "), format_bytes(plan.optional_bytes()));
            writeln!(f, "  {}: also {names}, as far as the budget allows: up to {bytes}", plan.stage)?;
        }
        if let Some(rank) = self.fitting_rank {
            writeln!(f, "  to fit: --rank {rank}, or --memory {}", format_bytes_up(forecast.peak_bytes()))?;
        }
        if !self.lists_all_parts {
            writeln!(f, "  -v lists all parts of the memory")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kfit::request::PassShape;
    use kstore::MemoryPlan;

    fn report(budget: usize) -> PlanReport {
        let plan = |what: &str| MemoryPlan::new(what, budget).term("the program itself", 32 << 20, "");
        let stages = vec![
            Stage { plan: plan("scaling statistics").term("tiles of rows", 1 << 20, ""), passes: 1 },
            Stage { plan: plan("Gram matrix").term("state", 100 << 20, ""), passes: 1 },
            Stage { plan: plan("solve"), passes: 0 },
        ];
        let pass_shape =
            PassShape { tile_rows: 2304, segment_rows: 73_728, scan_lanes: 2, gram_lanes: 1, prefetch_tiles: 2 };
        let row_bytes = Some((11 << 20) as f64 / 300_000.0 + 1e-9);
        let forecast =
            Forecast { stored_rows: 300_000, pass_shape, stages, threads: 2, row_bytes, rereads_table: false };
        PlanReport { forecast, lists_all_parts: true, fitting_rank: None }
    }

    #[test]
    fn the_table_of_a_plan() {
        let expected = "\
plan for 300,000 rows

  stage               contents               memory  passes     reads
  scaling statistics  total               33.0 MiB       1  11.0 MiB
                        the program itself  32.0 MiB
                        tiles of rows        1.0 MiB
  Gram matrix         total                132 MiB       1  11.0 MiB
                        state               100 MiB
                        the program itself  32.0 MiB
  solve               total               32.0 MiB       –         –
                        the program itself  32.0 MiB
  run                 largest stage         132 MiB       2  22.0 MiB

  tiles of 2,304 rows, segments of 73,728; 2 lanes for scans, 1 lane for products, 2 threads
  132 MiB of 512 MiB: fits
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = report(512 << 20).to_string();
        assert_eq!(squeeze(&text), squeeze(expected), "{text}");
        assert!(report(100 << 20).to_string().contains("132 MiB of 100 MiB: does not fit"));
        let short = PlanReport { lists_all_parts: false, fitting_rank: Some(700), ..report(100 << 20) }.to_string();
        assert!(squeeze(&short).contains(" Gram matrix state 100 MiB 132 MiB 1 11.0 MiB "), "{short}");
        assert!(short.contains("  to fit: --rank 700, or --memory 132MiB\n") && short.lines().count() < 13, "{short}");
        let mut with_cache = report(512 << 20);
        let stage = &mut with_cache.forecast.stages[1];
        stage.plan = stage.plan.clone().optional_term("further kernel values", 1 << 30);
        let line = "  Gram matrix: also further kernel values, as far as the budget allows: up to 380 MiB\n";
        assert!(with_cache.to_string().contains(line) && !text.contains("budget allows"), "{with_cache}");
        let stages = &serde_json::to_value(with_cache).unwrap()["stages"];
        assert_eq!((&stages[1]["optional_bytes"], &stages[0]["optional_bytes"]), (&(380 << 20).into(), &0.into()));
        assert_eq!(stages[1]["bytes"], 132 << 20);
        let json = serde_json::to_value(report(512 << 20)).unwrap();
        assert_eq!((&json["passes"], &json["fits"], &json["tile"]), (&2.into(), &true.into(), &2304.into()));
        assert_eq!(json["stages"][1]["terms"][1]["bytes"], 100 << 20);
    }
}
