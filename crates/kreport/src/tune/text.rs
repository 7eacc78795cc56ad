//! The report of a search as text and as a page.

use super::{TuneReport, TuneRow};
use crate::evaluate::{percent_with_error, with_error};
use crate::table::{
    self, Align, AlignedTable, Grid, MAX_CELL_WIDTH, format_count, number, optional_number, percent, rounded_kernel,
    shorten_middle, shortest_number,
};
use ksolve::Task;
use ksolve::job::{MetricSource, Scaling};
use ksolve::tune::{ContenderReport, HeldOutScore, Score, ShiftScore, SolverMeasure};
use std::{collections::HashSet, fmt};

impl TuneReport {
    /// Returns a grid of the score of every kernel on every sample, with the last score of the
    /// winner marked; `None` if no kernels were compared.
    pub(super) fn score_grid(&self) -> Option<Grid> {
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
        let shown = |kernel: &String| shorten_middle(kernel.clone(), MAX_CELL_WIDTH);
        let row = |kernel: &String| (shown(kernel), rungs.iter().map(|rung| best_score(kernel, rung)).collect());
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
    /// error over folds; `None` if fewer than two were tried.
    pub(super) fn leaderboard(&self) -> Option<AlignedTable> {
        let mut contenders: Vec<&ContenderReport> =
            self.contenders.iter().filter(|contender| contender.was_tried()).collect();
        if contenders.len() < 2 {
            return None;
        }
        let headings = [
            ("solver", Align::Left),
            ("kernel", Align::Left),
            (self.measure_name(), Align::Right),
            ("±", Align::Right),
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
                shorten_middle(kernel, MAX_CELL_WIDTH),
                format_error(contender.mean),
                format_error(contender.spread.map(|spread| spread / (contender.errors.len() as f64).sqrt())),
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
            (SolverMeasure::Loss, _) => "loss",
            (SolverMeasure::Auc, _) => "1 - auc",
            (SolverMeasure::LogLoss, _) => "log-loss",
            (SolverMeasure::Brier, _) => "brier",
        }
    }

    /// Formats an error on test rows.
    fn format_errors(&self, score: &HeldOutScore) -> String {
        let mut parts = vec![match self.task {
            Task::Regression => {
                let mae = score.mae.map(|[mae, error]| format!(", mae {}", with_error(number(mae, 4), Some(error))));
                let r2 = score.r2.map(|r2| format!(", r2 {r2:.4}"));
                let loss = score.loss.map(|loss| format!("loss {}, ", number(loss, 4)));
                let (loss, mae, r2) = (loss.unwrap_or_default(), mae.unwrap_or_default(), r2.unwrap_or_default());
                format!("{loss}{}{mae}{r2}", format_rmse(score))
            }
            Task::Ranking => {
                format!(
                    "{} of {} pairs in the wrong order",
                    percent(score.error),
                    format_count(score.pairs.unwrap_or(0))
                )
            }
            _ => format_error_rate(score),
        }];
        let measures =
            [("auc", score.auc), ("average precision", score.average_precision), ("log-loss", score.log_loss)];
        parts.extend(measures.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", number(value?, 4)))));
        parts.join(", ")
    }

    /// Compares the default fit with the chosen fit, by the measure of the solvers.
    pub(super) fn format_default(&self) -> Option<String> {
        let (default, chosen) = (self.default_score.as_ref()?, self.test.as_ref()?);
        let format = |score: &HeldOutScore| match (self.task, self.measure) {
            (Task::Regression, SolverMeasure::Loss) => score.loss.map(|loss| format!("loss {}", number(loss, 4))),
            (Task::Regression, _) => Some(format_rmse(score)),
            (Task::Ranking, _) => Some(format!("{} wrong pairs", percent(score.error))),
            (_, SolverMeasure::Error | SolverMeasure::Loss) => Some(format_error_rate(score)),
            (_, SolverMeasure::Auc) => score.auc.map(|auc| format!("auc {}", number(auc, 4))),
            (_, SolverMeasure::LogLoss) => score.log_loss.map(|loss| format!("log-loss {}", number(loss, 4))),
            (_, SolverMeasure::Brier) => score.brier.map(|brier| format!("brier {}", number(brier, 4))),
        };
        // a default fit without probabilities has no log-loss
        let error_rates = || (format_error_rate(default), format_error_rate(chosen));
        let (default_text, chosen_text) = format(default).zip(format(chosen)).unwrap_or_else(error_rates);
        // on the same rows, so the standard error of the difference is at most about this large
        let standard_error = default.standard_error.zip(chosen.standard_error).map(|(a, b)| a.max(b));
        let is_small = self.measure == SolverMeasure::Error
            && standard_error.is_some_and(|error| (default.error - chosen.error).abs() <= error);
        let note = if is_small { "; the difference is within the standard error" } else { "" };
        Some(format!("default fit {default_text}, chosen {chosen_text}{note}"))
    }

    /// Returns the meaning of the star in a table; `reason` is the criterion of the table.
    fn star(&self, reason: &'static str) -> &'static str {
        if self.reasons().is_empty() { reason } else { "* chosen; the reason follows" }
    }

    /// Formats the error on the test rows.
    pub(super) fn format_test_error(&self) -> Option<String> {
        let score = self.test.as_ref()?;
        let (rows, training_rows) = (format_count(score.rows), format_count(score.training_rows));
        let rank = format_count(score.rank as u64);
        Some(format!(
            "{} ({rows} rows of the sample; learned from the other {training_rows}, at rank {rank}){}",
            self.format_errors(score),
            if self.shift_scores.is_empty() { "" } else { ", for new rows like those of the table" }
        ))
    }

    /// Formats the error over outer folds.
    pub(super) fn format_outer_error(&self) -> Option<String> {
        let score = self.outer_score.as_ref()?;
        let (rows, folds) = (format_count(score.rows), score.outer_folds.unwrap_or(1));
        Some(format!(
            "{} ({rows} rows in {folds} folds; the search was repeated without each fold)",
            self.format_errors(score)
        ))
    }

    /// Describes the criteria (the folds, and the measure of the solvers), with reasons and
    /// alternatives.
    pub(super) fn criteria(&self) -> Vec<(&'static str, String)> {
        let folds = match (&self.reason_for_folds, self.target_correlation, self.folds.parse::<usize>()) {
            (Some(reason), ..) => format!("{}, because {reason}", self.folds),
            (None, Some(correlation), _) => format!(
                "{} (contiguous folds), because consecutive rows have similar targets (correlation {correlation:.2})",
                self.folds
            ),
            (None, None, Ok(folds)) => format!("{folds} random folds"),
            (None, None, Err(_)) => self.folds.clone(),
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
    pub(super) fn other_row_errors(&self) -> impl Iterator<Item = String> {
        self.shift_scores.iter().map(|ShiftScore { rows, folds, score, .. }| {
            let folds_note = folds
                .as_ref()
                .map_or(String::new(), |folds| format!("; --folds {folds} selects the model for such rows"));
            format!("on {rows}: {}{folds_note}", self.format_errors(score))
        })
    }

    /// If the choice is not the row with the lowest error, explains why.
    pub(super) fn reasons(&self) -> Vec<String> {
        let score = |row: &TuneRow| row.cell.cv_mse.filter(|_| row.best && self.score == Score::Cv);
        let winner = self.rows.iter().rfind(|row| row.kept);
        let winner_row =
            winner.and_then(|kept_row| self.rows.iter().rfind(|row| row.best && row.kept && row.rung == kept_row.rung));
        let is_lower =
            |row: &&TuneRow| score(row).zip(winner_row.and_then(score)).is_some_and(|(other, least)| other < least);
        // among the kernels of one scaling, the lowest error wins
        let better_row = self.rows.iter().find(|row| row.scale != self.scale && is_lower(row));
        let scaling_reason = better_row.map(|row| match self.has_optimistic_metrics {
            true => "scalings are compared by kernels without a metric: on so few rows, the errors of metrics are \
                     too small"
                .to_string(),
            false => {
                format!("scaling {} is chosen only if its error is 5 % lower than that of {}", row.scale, self.scale)
            }
        });
        let contender_reasons =
            self.contenders.iter().filter(|contender| contender.chosen).filter_map(|contender| contender.why.clone());
        scaling_reason.into_iter().chain(contender_reasons).collect()
    }

    /// Returns the title of the table of solvers.
    pub(super) fn leaderboard_title(&self) -> String {
        let star = self.star("* chosen: the lowest mean of those on all folds");
        format!("{} of each solver on folds of the sample, ± standard error over folds ({star})", self.measure_name())
    }

    /// Returns the title of the grid of kernels.
    pub(super) fn grid_title(&self) -> String {
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
}

/// Formats the root of a mean squared error, with its standard error.
fn format_rmse(score: &HeldOutScore) -> String {
    let rmse = score.error.sqrt();
    let standard_error = score.standard_error.map(|error| error / (2.0 * rmse)).filter(|error| error.is_finite());
    format!("rmse {}", with_error(number(rmse, 4), standard_error))
}

fn format_error_rate(score: &HeldOutScore) -> String {
    format!("error rate {}", percent_with_error(Some(score.error), score.standard_error))
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
            let star = self.star("* chosen: the best in the last comparison");
            writeln!(f, "{} ({star})\n\n{grid}", self.grid_title())?;
        }
        if let Some(table) = self.leaderboard() {
            writeln!(f, "{}\n\n{table}", self.leaderboard_title())?;
        }
        self.reasons().iter().try_for_each(|why| writeln!(f, "* {why}\n"))?;
        if let Some(test_error) = self.format_test_error() {
            writeln!(f, "on held-out rows: {test_error}")?;
            self.format_outer_error().iter().try_for_each(|error| writeln!(f, "over outer folds: {error}"))?;
            self.format_default().iter().try_for_each(|line| writeln!(f, "{line}"))?;
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
