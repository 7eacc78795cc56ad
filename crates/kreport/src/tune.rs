//! The report of a search: JSON, the rows of the table of kernels, and text.

use crate::fit::{FitReport, ResourceReport};
use crate::output::Column::{self, Integer, Number, Text};
use crate::page::{self, Page, Section};
use crate::table::{
    self, Align, AlignedTable, Grid, format_count, number, optional_number, percent, rounded_kernel, shortest_number,
};
use ksolve::job::{MetricSource, Scaling};
use ksolve::metric::RoundReport;
use ksolve::tune::{
    ContenderReport, HeldOutScore, HistoryEntry, Score, SearchWork, SelectionResult, ShiftScore, SolverMeasure,
    TuneCell,
};
use ksolve::{Task, job::MetricReport};
use std::{collections::HashSet, fmt};

/// A row of the table of the search: the scores of a kernel at one rank and lambda, on one sample.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TuneRow {
    /// Index of the comparison (rung of successive halving), from 0.
    pub rung: usize,
    /// Number of rows of the sample.
    pub rows: u64,
    /// Kernel, with numeric parameters.
    pub kernel: String,
    /// Metric: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Scaling of the features before the metric: standard, asinh.
    pub scale: String,
    /// Rank, regularisation parameter and scores.
    #[serde(flatten)]
    pub cell: TuneCell,
    /// True for the cell by which the kernel was compared.
    pub best: bool,
    /// True if the kernel continued or won.
    pub kept: bool,
}

/// Columns of the table, with the names and order of the JSON fields.
pub static COLUMNS: [(&str, Column<TuneRow>); 12] = [
    ("rung", Integer(|row| row.rung as u64)),
    ("rows", Integer(|row| row.rows)),
    ("kernel", Text(|row| Some(&row.kernel))),
    ("metric", Text(|row| Some(&row.metric))),
    ("scale", Text(|row| Some(&row.scale))),
    ("rank", Integer(|row| row.cell.rank as u64)),
    ("lambda", Number(|row| row.cell.lambda)),
    ("cv_mse", Number(|row| row.cell.cv_mse)),
    ("gcv", Number(|row| row.cell.gcv)),
    ("alignment", Number(|row| row.cell.alignment)),
    ("best", Integer(|row| row.best.into())),
    ("kept", Integer(|row| row.kept.into())),
];

/// The report of a search.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct TuneReport {
    /// Name of the solver. If the solver was `any`, name of the winning solver.
    pub solver: String,
    /// Score by which kernels are compared.
    pub score: Score,
    /// Winning kernel, with numeric parameters.
    pub kernel: String,
    /// Metric of the winner: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Scaling of the features before the metric: standard, asinh.
    pub scale: String,
    /// Rounds of metric learning of each kernel.
    #[serde(rename = "learned", skip_serializing_if = "Vec::is_empty")]
    pub learned_rounds: Vec<RoundReport>,
    /// Folds of the cross-validation.
    pub folds: String,
    /// Correlation of consecutive targets, if it caused contiguous folds to replace random folds;
    /// otherwise `None`.
    #[serde(rename = "alike", skip_serializing_if = "Option::is_none")]
    pub target_correlation: Option<f64>,
    /// Error of the winner on random rows; `None` if `target_correlation` is `None`.
    #[serde(rename = "at_random", skip_serializing_if = "Option::is_none")]
    pub random_fold_score: Option<HeldOutScore>,
    /// Errors of the winner on kinds of new rows that differ from the rows of the table.
    #[serde(rename = "elsewhere", skip_serializing_if = "Vec::is_empty")]
    pub shift_scores: Vec<ShiftScore>,
    /// Measure by which the winner is chosen.
    #[serde(rename = "select")]
    pub measure: SolverMeasure,
    /// Fraction of the rarer of two classes, if this fraction determined `measure`; otherwise
    /// `None`.
    #[serde(rename = "rarer", skip_serializing_if = "Option::is_none")]
    pub rarer_fraction: Option<f64>,
    /// Task, which determines the meaning of an error.
    #[serde(skip)]
    pub task: Task,
    /// All cells of all comparisons.
    pub rows: Vec<TuneRow>,
    /// Solvers and regularisation parameters (contenders) that were compared, with their errors on
    /// the folds. A single contender is not tried.
    pub contenders: Vec<ContenderReport>,
    /// Error of the winner on the test rows of the sample, after a fit on the other rows of the
    /// sample; `None` if there are fewer than three folds.
    pub test: Option<HeldOutScore>,
    /// Number of steps of the search and of trials of solvers.
    pub work: SearchWork,
    /// Options that select the same model on any machine if they replace `--time`; absent without
    /// `--time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// Steps of the search in order of time, each with the lowest error so far.
    pub history: Vec<HistoryEntry>,
    /// Fit on all rows; `None` if no model was requested.
    pub fit: Option<FitReport>,
    /// Passes of the search over the table; the fit counts its own.
    pub passes: u64,
    /// Resources used by the run, and its warnings.
    #[serde(flatten)]
    pub resources: ResourceReport,
    /// Planned memory of the search, in bytes.
    pub planned_bytes: usize,
}

impl TuneReport {
    /// Returns the report of a search whose table has these features; `resources` has the bytes
    /// read by the search and the fit.
    pub fn new(
        score: Score,
        selection_result: SelectionResult,
        fit: Option<FitReport>,
        resources: ResourceReport,
        features: Vec<String>,
    ) -> Self {
        let SelectionResult {
            search: search_result,
            fit: winner,
            metric,
            form,
            measure,
            rarer_fraction,
            contenders,
            test,
            random_fold_score,
            shift_scores,
            work,
            history,
            ..
        } = selection_result;
        let fit = fit.map(|mut fit| {
            // to the fit, the metric of the search is fixed: only the search knows its spread
            if let (Some(metric), Some(report), Some(spread)) = (&metric, &mut fit.fit.metric, &search_result.spread) {
                let (source, rounds) = (report.source.clone(), report.rounds.clone());
                let fractions = features.into_iter().zip(metric.importance()).collect();
                *report = MetricReport::new(source, metric.output_count(), fractions, spread, rounds);
            }
            fit
        });
        let mut rows = Vec::new();
        for (rung_index, rung) in search_result.rungs.iter().enumerate() {
            for entry in &rung.entries {
                rows.extend(entry.cells.iter().map(|cell| TuneRow {
                    rung: rung_index,
                    rows: rung.rows,
                    kernel: entry.kernel.clone(),
                    metric: entry.metric.clone(),
                    scale: entry.scale.clone(),
                    cell: *cell,
                    best: (Some(cell.rank), cell.lambda) == (entry.rank, entry.lambda),
                    kept: entry.kept,
                }));
            }
        }
        Self {
            solver: winner.family().name.to_string(),
            score,
            kernel: winner.requested_kernel().to_string(),
            metric: metric.map_or(MetricSource::None.to_string(), |_| form),
            scale: search_result.scaling.to_string(),
            learned_rounds: search_result.learned_rounds,
            folds: search_result.folds.to_string(),
            target_correlation: search_result.target_correlation,
            random_fold_score,
            shift_scores,
            measure,
            rarer_fraction,
            task: winner.task().unwrap_or_default(),
            rows,
            contenders,
            test: test.map(|test| test.score),
            work,
            repeat: None,
            history,
            passes: search_result.passes,
            resources,
            planned_bytes: search_result.planned_bytes,
            fit,
        }
    }

    /// Returns a grid of the score of every kernel on every sample, with the last score of the
    /// winner marked; `None` if no kernels were compared.
    fn score_grid(&self) -> Option<Grid> {
        let score = |row: &TuneRow| match self.score {
            Score::Cv => row.cell.cv_mse,
            Score::Gcv => row.cell.gcv,
            Score::Alignment => row.cell.alignment,
        };
        let name = |row: &TuneRow| candidate_name(&row.kernel, &row.metric, &row.scale);
        let rungs: Vec<&[TuneRow]> = self.rows.chunk_by(|a, b| a.rung == b.rung).collect();
        let first_row_count = rungs.first()?[0].rows;
        let mut seen = HashSet::new();
        let candidate_names: Vec<String> =
            self.rows.iter().map(name).filter(|name| seen.insert(name.clone())).collect();
        let best_score = |kernel: &str, rung: &[TuneRow]| {
            let best = rung.iter().find(|row| row.best && name(row) == kernel);
            optional_number(best.and_then(score))
        };
        let winner = self.rows.iter().rfind(|row| row.kept);
        let marked_cell =
            winner.and_then(|row| Some((candidate_names.iter().position(|other| *other == name(row))?, row.rung)));
        let row = |kernel: &String| (kernel.clone(), rungs.iter().map(|rung| best_score(kernel, rung)).collect());
        // the last comparison, of refined kernels, has no more rows than the first comparison
        let heading = |rung: &&[TuneRow]| match rung[0].rung > 0 && rung[0].rows <= first_row_count {
            true => format!("rank {}", format_count(rung[0].cell.rank as u64)),
            false => format_count(rung[0].rows),
        };
        Some(Grid {
            corner: "kernel \\ rows".to_string(),
            columns: rungs.iter().map(heading).collect(),
            rows: candidate_names.iter().map(row).collect(),
            marked_cell,
        })
    }

    /// Returns a table of the solvers that were tried, with their mean error and its standard
    /// deviation over folds; `None` if fewer than two were tried.
    fn leaderboard(&self) -> Option<AlignedTable> {
        let mut contenders: Vec<&ContenderReport> =
            self.contenders.iter().filter(|contender| contender.was_tried()).collect();
        if contenders.len() < 2 {
            return None;
        }
        let headings = [
            ("solver", Align::Left),
            ("kernel", Align::Left),
            (self.measure_name(), Align::Right),
            ("+-", Align::Right),
        ];
        let mut table = AlignedTable::new(headings.into_iter().chain([("folds", Align::Right), ("", Align::Left)]));
        let mean = |contender: &ContenderReport| contender.mean.unwrap_or(f64::INFINITY);
        contenders.sort_by(|a, b| b.errors.len().cmp(&a.errors.len()).then(mean(a).total_cmp(&mean(b))));
        for contender in contenders {
            let format_error = |error: Option<f64>| error.map_or(String::new(), |error| number(error, 3));
            let mark = if contender.chosen { "*" } else { contender.problem.as_deref().unwrap_or("") };
            let kernel = candidate_name(&contender.kernel, &contender.metric, &self.scale);
            let folds = contender.errors.len().to_string();
            table.push_row([
                contender.solver.clone(),
                kernel,
                format_error(contender.mean),
                format_error(contender.spread),
                folds,
                mark.to_string(),
            ]);
        }
        Some(table)
    }

    /// Returns the name of the measure by which solvers were compared.
    fn measure_name(&self) -> &'static str {
        match (self.measure, self.task) {
            (SolverMeasure::Error, Task::Regression) => "mse",
            (SolverMeasure::Error, Task::Ranking) => "wrong pairs",
            (SolverMeasure::Error, _) => "error rate",
            (SolverMeasure::Auc, _) => "1 - auc",
            (SolverMeasure::LogLoss, _) => "log-loss",
            (SolverMeasure::Brier, _) => "brier",
        }
    }

    /// Formats an error on test rows.
    fn format_errors(&self, score: &HeldOutScore) -> String {
        let mut texts = vec![match (self.task, score.r2) {
            (Task::Regression, Some(r2)) => format!("mse {}, r2 {r2:.4}", number(score.error, 4)),
            (Task::Regression, None) => format!("mse {}", number(score.error, 4)),
            (Task::Ranking, _) => {
                format!(
                    "{} of {} pairs in the wrong order",
                    percent(score.error),
                    format_count(score.pairs.unwrap_or(0))
                )
            }
            _ => format!("error rate {}", percent(score.error)),
        }];
        let measures =
            [("auc", score.auc), ("average precision", score.average_precision), ("log-loss", score.log_loss)];
        texts.extend(measures.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", number(value?, 4)))));
        texts.join(", ")
    }

    /// Formats the error on the test rows.
    fn format_test_error(&self) -> Option<String> {
        let score = self.test.as_ref()?;
        let (rows, training_rows) = (format_count(score.rows), format_count(score.training_rows));
        let rank = format_count(score.rank as u64);
        Some(format!(
            "{} ({rows} rows of the sample; learned from the other {training_rows}, at rank {rank}){}",
            self.format_errors(score),
            if self.shift_scores.is_empty() { "" } else { ", for new rows like those of the table" }
        ))
    }

    /// Describes the criteria (the folds, and the measure of the solvers), with reasons and
    /// alternatives.
    fn criteria(&self) -> Vec<(&'static str, String)> {
        let folds = match (self.target_correlation, self.folds.parse::<usize>()) {
            (Some(correlation), _) => format!(
                "{} (contiguous folds), because consecutive rows have similar targets (correlation {correlation:.2})",
                self.folds
            ),
            (None, Ok(folds)) => format!("{folds} random folds"),
            (None, Err(_)) => self.folds.clone(),
        };
        let mut facts = vec![("folds", folds)];
        facts.extend(self.random_fold_score.as_ref().map(|score| {
            let errors = self.format_errors(score);
            ("random folds", format!("{errors} for the chosen model; --folds 5 uses random folds for all choices"))
        }));
        facts.extend(self.rarer_fraction.map(|fraction| {
            let (measure, percentage) = (self.measure, percent(fraction));
            (
                "solvers",
                format!(
                    "compared by {measure}: never predicting the rarer class has an error rate of only {percentage}; --measure error compares error rates"
                ),
            )
        }));
        facts
    }

    /// Formats the errors on new rows of other kinds.
    fn other_row_errors(&self) -> impl Iterator<Item = String> {
        self.shift_scores.iter().map(|ShiftScore { rows, folds, score, .. }| {
            let folds_note = folds
                .as_ref()
                .map_or(String::new(), |folds| format!("; --folds {folds} selects the model for such rows"));
            format!("on {rows}: {}{folds_note}", self.format_errors(score))
        })
    }

    /// If the choice is not the row with the lowest error, explains why.
    fn reasons(&self) -> Vec<String> {
        let score = |row: &TuneRow| row.cell.cv_mse.filter(|_| row.best && self.score == Score::Cv);
        let winner = self.rows.iter().rfind(|row| row.kept);
        let winner_row =
            winner.and_then(|kept_row| self.rows.iter().rfind(|row| row.best && row.kept && row.rung == kept_row.rung));
        let is_lower =
            |row: &&TuneRow| score(row).zip(winner_row.and_then(score)).is_some_and(|(other, least)| other < least);
        // among the kernels of one scaling, the lowest error wins
        let better_row = self.rows.iter().find(|row| row.scale != self.scale && is_lower(row));
        let scaling_reason = better_row.map(|row| {
            format!("scaling {} is chosen only if its error is 5 % lower than that of {}", row.scale, self.scale)
        });
        let contender_reasons =
            self.contenders.iter().filter(|contender| contender.chosen).filter_map(|contender| contender.why.clone());
        scaling_reason.into_iter().chain(contender_reasons).collect()
    }

    /// Returns the title of the grid of kernels.
    fn grid_title(&self) -> String {
        let score_description = match self.score {
            Score::Cv if !self.learned_rounds.is_empty() => {
                return "lowest cross-validated mse of each kernel over its rounds".to_string();
            }
            Score::Cv => "lowest cross-validated mse",
            Score::Gcv => "lowest generalised cross-validation score",
            Score::Alignment => "largest centred alignment with the target",
        };
        format!("{score_description} of each kernel over ranks and lambdas, on growing samples")
    }

    /// Returns the report as an HTML page: the criteria, the kernels, the solvers, and the fit.
    pub fn page(&self) -> Page {
        let facts =
            self.criteria().into_iter().chain(self.format_test_error().map(|error| ("on held-out rows", error)));
        let facts = facts.chain(self.other_row_errors().map(|other| ("new rows", other)));
        let facts = facts.chain(self.reasons().into_iter().map(|why| ("why", why)));
        let mut sections = vec![Section::new("Choice", page::fact_list(facts))];
        let kernels_html = |grid: &Grid| page::grid_table(grid) + &page::note(&format!("The {}.", self.grid_title()));
        sections.extend(self.score_grid().map(|grid| Section::new("Kernels", kernels_html(&grid))));
        let note =
            || page::note(&format!("The {} of each solver on folds of the sample (* chosen).", self.measure_name()));
        sections.extend(
            self.leaderboard()
                .map(|table| Section::new("Solvers", page::html_table(&table.headings, &table.rows) + &note())),
        );
        let fit = self.fit.as_ref().map(FitReport::page).unwrap_or_default();
        sections.extend(fit.sections);
        Page {
            title: format!("{} chosen", self.solver),
            subtitle: fit.subtitle,
            style: fit.style,
            sections,
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }
}

/// Formats a candidate; the default scaling is omitted.
fn candidate_name(kernel: &str, metric: &str, scale: &str) -> String {
    let metric = if metric == MetricSource::None.to_string() { String::new() } else { format!(", {metric} metric") };
    let scale = if scale == Scaling::default().to_string() { String::new() } else { format!(", {scale}") };
    format!("{}{metric}{scale}", rounded_kernel(kernel))
}

impl fmt::Display for TuneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.score != Score::Alignment {
            writeln!(f, "{}", table::facts(self.criteria()))?;
        }
        if let Some(grid) = self.score_grid() {
            writeln!(f, "{} (* chosen)\n\n{grid}", self.grid_title())?;
        }
        if let Some(table) = self.leaderboard() {
            writeln!(f, "{} of each solver on folds of the sample (* chosen)\n\n{table}", self.measure_name())?;
        }
        self.reasons().iter().try_for_each(|why| writeln!(f, "* {why}\n"))?;
        if let Some(test_error) = self.format_test_error() {
            writeln!(f, "on held-out rows: {test_error}")?;
            self.other_row_errors().try_for_each(|other| writeln!(f, "{other}"))?;
            writeln!(f)?;
        }
        if let Some(repeat) = &self.repeat {
            writeln!(f, "the same model on any machine: {repeat} instead of --time\n")?;
        }
        if let Some(fit) = &self.fit {
            return write!(f, "{fit}");
        }
        let best_cell = self.rows.iter().rfind(|row| row.best && row.kept).map(|row| row.cell);
        let rank = best_cell.map(|best| ("rank", format_count(best.rank as u64)));
        let lambda = best_cell.and_then(|best| best.lambda).map(|lambda| ("lambda", shortest_number(lambda)));
        let [time, _, memory] = self.resources.facts(None, None);
        let facts = std::iter::once(("kernel", self.kernel.clone())).chain(rank).chain(lambda).chain([time, memory]);
        write!(f, "{}", table::facts(facts))
    }
}
