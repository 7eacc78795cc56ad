//! The report of a search as a page.

use super::TuneReport;
use crate::fit::FitReport;
use crate::page::{self, Axis, Chart, DataPoint, Page, Scale, Section, Series};
use crate::table::{Grid, format_count, format_seconds};
use ksolve::tune::Score;

impl TuneReport {
    /// Returns the report as an HTML page: the criteria, the kernels, the solvers, and the fit.
    pub fn page(&self) -> Page {
        let facts =
            self.criteria().into_iter().chain(self.format_test_error().map(|error| ("on held-out rows", error)));
        let facts = facts.chain(self.format_outer_error().map(|error| ("over outer folds", error)));
        let facts = facts.chain(self.format_default().map(|line| ("gain", line)));
        let facts = facts.chain(self.other_row_errors().map(|other| ("new rows", other)));
        let facts = facts.chain(self.reasons().into_iter().map(|why| ("why", why)));
        let mut sections = vec![Section::new("Choice", page::fact_list(facts))];
        let kernels_html = |grid: &Grid| page::grid_table(grid) + &page::note(&format!("The {}.", self.grid_title()));
        sections.extend(self.score_grid().map(|grid| Section::new("Kernels", kernels_html(&grid))));
        let note = || page::note(&format!("The {}.", self.leaderboard_title()));
        sections.extend(
            self.leaderboard()
                .map(|table| Section::new("Solvers", page::html_table(&table.headings, &table.rows) + &note())),
        );
        sections.extend(self.history_chart().map(|chart| Section::new("History", page::charts([&chart]))));
        let fit = self.fit.as_ref().map(FitReport::page).unwrap_or_default();
        sections.extend(fit.sections);
        if self.fit.is_none() {
            let facts = self.resources.facts(Some(self.passes), Some(self.planned_bytes)).to_vec();
            sections.push(page::run_section(true, facts, &self.resources.seconds));
        }
        Page {
            title: format!("{} chosen", self.solver),
            subtitle: fit.subtitle,
            warnings: self.resources.warnings.clone(),
            style: fit.style,
            sections,
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }

    /// Returns the best score of a kernel so far after every step of the search; `None` for fewer
    /// than two steps with a score.
    fn history_chart(&self) -> Option<Chart> {
        let score = match self.score {
            Score::Cv => "lowest cross-validated mse so far",
            Score::Gcv => "lowest gcv so far",
            Score::Alignment => "largest alignment so far",
        };
        let scored: Vec<_> = self.history.iter().filter_map(|entry| Some((entry, entry.best?))).collect();
        let x =
            Axis::new("seconds since the start of the search", Scale::Linear, scored.iter().map(|(e, _)| e.seconds))?;
        let y = Axis::new(score, Scale::Linear, scored.iter().map(|(_, best)| *best))?;
        let mark = |(entry, best): &(&ksolve::tune::HistoryEntry, f64)| {
            let note = format!("{} after {}", entry.step, format_seconds(entry.seconds));
            DataPoint::new((entry.seconds, *best), note)
        };
        let series = Series { name: score.to_string(), marks: scored.iter().map(mark).collect(), ..Series::default() };
        let subtitle = format!("a mark for each of {} steps", format_count(scored.len() as u64));
        let chart = Chart { series: vec![series], subtitle, ..Chart::new("history", "History of the search", x, y) };
        (scored.len() > 1).then_some(chart)
    }
}
