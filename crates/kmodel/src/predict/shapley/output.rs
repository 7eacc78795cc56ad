//! Contributions as output columns and as text.

use super::{ShapleyExplainer, columns_of_features};
use crate::predict::decision::ColumnGroup;
use crate::predict::explanation::{round_to_digits, unscale};
use crate::predict::{AnyPreparedModel, Extras, Predictor};
use crate::{Error, Result, Task, model::match_precision, score::LossSums};
use kapprox::Real;
use kstore::Workers;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of the numbers in the text of a reason.
const REASON_TEXT_BYTES: usize = 60;

/// Background and orientation of the explained outputs.
#[derive(Clone, Copy)]
pub(in crate::predict) struct ExplanationTarget<'a> {
    /// Background rows in the units of the table; without them, the landmarks.
    pub(super) background: Option<&'a [f64]>,
    /// −1 if the positive class of two is the first one, whose score has the other sign; otherwise
    /// 1.
    pub(super) sign: f64,
}

impl Predictor {
    pub(in crate::predict) fn explanation_target(&self) -> ExplanationTarget<'_> {
        let has_two_classes = self.classes().is_some_and(|classes| classes.labels().len() == 2);
        let sign = if has_two_classes && self.rule.positive_class == 0 { -1.0 } else { 1.0 };
        ExplanationTarget { background: self.background.as_deref(), sign }
    }

    /// Returns the names of the columns that have contributions.
    #[doc(hidden)]
    pub fn explained_columns(&self) -> Vec<String> {
        self.columns_of_features().0
    }

    /// Returns the columns of the table, and the range of each column's features.
    pub(in crate::predict) fn columns_of_features(&self) -> (Vec<String>, Vec<Range<usize>>) {
        match_precision!(AnyPreparedModel: &self.model, prepared => columns_of_features(prepared))
    }

    /// Returns the index of the output that predicts the first target: of several quantiles, the
    /// level nearest to ½.
    pub(in crate::predict) fn first_target_output(&self) -> usize {
        let sums = self.metadata().loss.clone().map(|loss| LossSums::new(loss, self.output_count()));
        sums.and_then(|sums| sums.central_outputs().next()).unwrap_or(0)
    }

    /// Rejects extras that need contributions which the model does not have.
    pub(in crate::predict) fn check_reasons(&self, extras: Extras) -> Result<()> {
        if !extras.needs_explainer() {
            return Ok(());
        }
        let option = if extras.reasons > 0 { "reasons" } else { "contributions" };
        let metadata = self.metadata();
        if matches!(metadata.task, Task::Components | Task::Clusters) {
            let why = format!("the outputs of {} are not predictions; omit the option", metadata.solver);
            return Err(Error::option(option, "", why));
        }
        if metadata.one_vs_one {
            let why = "the classes have a score for each pair; fit without `multiclass` one-vs-one, or omit the option";
            return Err(Error::option(option, "", why));
        }
        if extras.reasons > 0 && self.classes().is_none() && self.output_count() > 1 {
            let why = "the model has several outputs; write `contributions`, or fit one target";
            return Err(Error::option(option, "", why));
        }
        Ok(())
    }

    /// Returns the output columns of contributions and of reasons. `prediction_columns` are the
    /// names of the predictions.
    pub(in crate::predict) fn contribution_groups(
        &self,
        extras: Extras,
        prediction_columns: &[String],
    ) -> Vec<ColumnGroup> {
        let mut groups = Vec::new();
        if !extras.needs_explainer() {
            return groups;
        }
        let columns = self.explained_columns();
        if extras.contributions {
            let outputs = match self.classes() {
                Some(_) => vec![String::new()],
                None => {
                    let suffixes = prediction_columns.iter().map(|name| name.replacen("prediction", "", 1));
                    suffixes.map(|suffix| suffix.replacen("score", "", 1)).collect()
                }
            };
            let of_column = |column: &String| -> Vec<String> {
                outputs.iter().map(|output| format!("contribution{output}_{column}")).collect()
            };
            let names = columns.iter().flat_map(of_column);
            let means = outputs.iter().map(|output| format!("background{output}"));
            groups.push(ColumnGroup::Contributions(names.chain(means).collect()));
        }
        if extras.reasons > 0 {
            groups.push(ColumnGroup::Explanation(max_text_bytes(&self.metadata().features, extras.reasons)));
        }
        groups
    }
}

fn max_text_bytes(features: &[String], reasons: usize) -> usize {
    let longest = features.iter().map(String::len).max().unwrap_or(0);
    reasons.min(features.len()) * (longest + REASON_TEXT_BYTES)
}

impl Predictor {
    /// Measures the time of the contributions to one prediction, of a row of the background, on one
    /// thread.
    ///
    /// # Errors
    /// A model or a background without contributions.
    #[doc(hidden)]
    pub fn explanation_time(&self) -> Result<Duration> {
        match_precision!(AnyPreparedModel: &self.model, prepared => ShapleyExplainer::new(prepared, self.explanation_target())?.time_of_row())
    }
}

impl<T: Real> ShapleyExplainer<'_, T> {
    fn time_of_row(&self) -> Result<Duration> {
        let (d, t) = (self.prepared.model.scaler.input_count(), self.prepared.model.dims().2);
        let mut values = vec![0.0; self.values_per_row()];
        let mut errors = vec![0.0; if self.is_exact() { 0 } else { values.len() }];
        let (x, scores) = (&self.background[..d], &self.background_scores[..t]);
        let started = Instant::now();
        self.explain(x, scores, &mut values, &mut errors, &Workers::sequential())?;
        Ok(started.elapsed())
    }

    /// Returns the number of explained outputs: one for classes, otherwise all outputs.
    fn explained_count(&self) -> usize {
        if self.prepared.classes.is_some() { 1 } else { self.prepared.model.dims().2 }
    }

    /// Returns the bytes of a segment per row.
    pub(in crate::predict) fn row_bytes(&self, extras: Extras) -> usize {
        let number_count = (self.columns.len() + 1) * self.explained_count();
        let text_bytes = max_text_bytes(&self.prepared.model.metadata.features, extras.reasons);
        size_of::<f64>() * number_count * usize::from(extras.contributions)
            + if extras.reasons > 0 { size_of::<String>() + text_bytes } else { 0 }
    }

    /// Returns the bytes of the buffers for a tile of rows on this many threads.
    pub(in crate::predict) fn tile_bytes(&self, tile_rows: usize, threads: usize) -> usize {
        2 * size_of::<f64>() * tile_rows * self.values_per_row() + threads * self.scratch_bytes()
    }

    /// Appends the contributions and the reasons of rows (scaled, row-major). `scores` are their
    /// predictions.
    pub(in crate::predict) fn append(
        &self,
        x: &[T],
        scores: &[f64],
        extras: Extras,
        contributions: &mut Vec<f64>,
        reasons: &mut Vec<String>,
        workers: &Workers,
    ) -> Result<()> {
        let (d, t, width) =
            (self.prepared.model.scaler.input_count(), self.prepared.model.dims().2, self.values_per_row());
        let row_count = x.len() / d.max(1);
        let mut values = vec![0.0; row_count * width];
        let mut errors = vec![0.0; if self.is_exact() { 0 } else { values.len() }];
        self.explain(x, scores, &mut values, &mut errors, workers)?;
        let means = self.background_means();
        for (row, score) in scores.chunks_exact(t.max(1)).enumerate() {
            let outputs = self.explained_outputs(score);
            let of_row = |values: &[f64], sign: f64| -> Vec<f64> {
                let columns = values[row * width..(row + 1) * width].chunks_exact(t);
                columns.flat_map(|values| &values[outputs.clone()]).map(|value| sign * value).collect()
            };
            let row_values = of_row(&values, self.sign);
            if extras.contributions {
                contributions.extend_from_slice(&row_values);
                contributions.extend(means[outputs.clone()].iter().map(|mean| self.sign * mean));
            }
            if extras.reasons > 0 {
                let row_errors = if errors.is_empty() { Vec::new() } else { of_row(&errors, 1.0) };
                reasons.push(self.reason_text(&x[row * d..][..d], &row_values, &row_errors, extras.reasons));
            }
        }
        Ok(())
    }

    /// Returns the outputs that are explained for a row with these scores: the largest of several
    /// classes, otherwise all outputs.
    fn explained_outputs(&self, score: &[f64]) -> Range<usize> {
        match &self.prepared.classes {
            Some(classes) if score.len() > 1 => {
                let class = classes.decide(score.iter().copied());
                class..class + 1
            }
            _ => 0..score.len(),
        }
    }

    /// Returns the columns with the largest contributions: `rooms=3 +41.2; city=Bonn -12`.
    fn reason_text(&self, x: &[T], values: &[f64], errors: &[f64], count: usize) -> String {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()).then(a.cmp(b)));
        let reason = |column: &usize| {
            let sign = if values[*column] < 0.0 { "" } else { "+" };
            let error = errors.get(*column).map_or(String::new(), |error| format!(" ± {}", round_to_digits(*error, 4)));
            format!("{} {sign}{}{error}", self.value_text(*column, x), round_to_digits(values[*column], 4))
        };
        order.iter().take(count).map(reason).collect::<Vec<_>>().join("; ")
    }

    /// Returns the name of a column and its value in a row: `rooms=3`, `city=Bonn`; the name alone
    /// if several features share the value, as for a date.
    fn value_text(&self, column: usize, x: &[T]) -> String {
        let (scaler, names) = (&self.prepared.model.scaler, &self.prepared.model.metadata.features);
        let features = self.features[column].clone();
        let value = |j: usize| unscale(scaler, j, x[j].to_f64(), T::EPSILON);
        // the feature of a category has its value in its name
        let is_category = |j: usize| names[j].contains('=');
        if let Some(category) = features.clone().find(|j| is_category(*j) && (value(*j) - 1.0).abs() < 1e-3) {
            return names[category].clone();
        }
        let mut numbers = features.filter(|j| !is_category(*j));
        match (numbers.next(), numbers.next()) {
            (Some(number), None) => format!("{}={}", self.columns[column], round_to_digits(value(number), 6)),
            _ => self.columns[column].clone(),
        }
    }
}
