//! The output columns of predictions, computed from the scores of the rows.

use super::interval_rule::IntervalRule;
use super::{Extras, NOISE_VARIANCE, Predictor, Scores, standard_deviation};
use crate::{Classes, Link, Task};
use kstore::sink::{OutputColumn, OutputKind};
use kstore::{KeptValues, Label, Strings};
use std::ops::Range;

/// The decision rule between two classes. The threshold applies to the score, which is positive for
/// the second class, even if the positive class is the first class.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionRule {
    /// Code of the positive class.
    pub(super) positive_class: usize,
    /// Score above which a row belongs to the second class.
    pub(super) threshold: f64,
    /// Costs of a false alarm and of a missed positive row.
    pub(super) costs: Option<[f64; 2]>,
    /// Number of rows with the highest scores that an evaluation scores as a search for positives.
    pub(super) top: Option<u64>,
}

/// A group of output columns that are computed together.
#[derive(Clone, Debug)]
pub(super) enum ColumnGroup {
    /// Row number in the table, from 0.
    Row,
    Scores(Vec<String>),
    /// Cluster of a row: the index of its largest score.
    Cluster,
    Label(Classes),
    Probabilities(Classes, Link),
    /// Standard deviations of a new observation, then of the predicted mean: the column names, and
    /// the noise variance of each target.
    Deviations(Vec<String>, Vec<f64>),
    /// Prediction intervals or sets.
    Intervals(Vec<OutputColumn>, IntervalRule),
    /// Coordinates along this many components, in addition to the predictions.
    Components(usize),
    /// Squared distance from the mean: this threshold minus the score.
    Distance(f64),
    /// Squared distance of the row from the span of the components.
    Novelty,
    /// Norm of the row's residual outside the span of the features.
    Residual,
    /// Pre-images: one column per feature.
    Preimages(Vec<String>),
    /// Contributions of the columns to the prediction: the column names.
    Contributions(Vec<String>),
    /// Explanation of a row, as text of at most this many bytes.
    Explanation(usize),
}

impl ColumnGroup {
    /// Returns the names and types of the columns. Labels keep their type: integers, Booleans or
    /// text.
    pub(super) fn columns(&self) -> Vec<OutputColumn> {
        let f64_column = |name: &str| OutputColumn::new(name, OutputKind::F64);
        match self {
            Self::Scores(names) | Self::Deviations(names, _) | Self::Contributions(names) => {
                names.iter().map(|name| f64_column(name)).collect()
            }
            Self::Row => vec![OutputColumn::new("row", OutputKind::I64)],
            Self::Cluster => vec![OutputColumn::new("prediction", OutputKind::I64)],
            Self::Label(classes) => vec![OutputColumn::new("prediction", label_kind(classes.labels()))],
            Self::Probabilities(classes, _) => {
                classes.labels().iter().map(|label| f64_column(&format!("probability_{label}"))).collect()
            }
            Self::Intervals(columns, _) => columns.clone(),
            Self::Components(q) => (0..*q).map(|j| f64_column(&format!("component_{j}"))).collect(),
            Self::Distance(_) => vec![f64_column("squared_distance")],
            Self::Novelty => vec![f64_column("novelty")],
            Self::Explanation(_) => vec![OutputColumn::new("reasons", OutputKind::Text)],
            Self::Residual => vec![f64_column("residual")],
            Self::Preimages(names) => names.iter().map(|name| f64_column(&format!("preimage_{name}"))).collect(),
        }
    }

    pub(super) fn column_values(&self, scores: &Scores, rows: Range<usize>) -> Vec<KeptValues> {
        let t = scores.scores.len() / scores.row_numbers.len().max(1);
        let values = &scores.scores[rows.start * t..rows.end * t];
        let row_scores = || values.chunks_exact(t);
        match self {
            Self::Scores(names) => columns_of_rows(values, names.len()),
            Self::Row => vec![KeptValues::I64(scores.row_numbers[rows].iter().map(|row| *row as i64).collect())],
            Self::Cluster => vec![KeptValues::I64(row_scores().map(|row| argmax(row) as i64).collect())],
            Self::Label(classes) => {
                let labels = row_scores().map(|row| &classes.labels()[classes.decide(row.iter().copied())]);
                vec![label_values(label_kind(classes.labels()), labels)]
            }
            Self::Probabilities(classes, link) => probabilities(link, row_scores(), classes.labels().len()),
            Self::Deviations(_, noise_variances) => {
                let variances = &scores.quadratic[rows];
                let deviations = |noise_variance: f64, added_variance: f64| {
                    variances.iter().map(|v| standard_deviation(noise_variance, v + added_variance)).collect()
                };
                // the variance of a new observation includes the noise variance
                let added_variances = [NOISE_VARIANCE, 0.0].into_iter();
                added_variances
                    .flat_map(|added_variance| {
                        noise_variances.iter().map(move |noise| KeptValues::F64(deviations(*noise, added_variance)))
                    })
                    .collect()
            }
            Self::Intervals(columns, rule) => {
                let values = columns_of_rows(&rule.values(scores, rows), columns.len());
                values.into_iter().zip(columns).map(|(values, column)| boolean_if(column.kind, values)).collect()
            }
            Self::Components(q) => columns_of_rows(&scores.components[rows.start * q..rows.end * q], *q),
            // rounding can make the squared distance negative
            Self::Distance(threshold) => {
                vec![KeptValues::F64(values.iter().map(|score| (threshold - score).max(0.0)).collect())]
            }
            Self::Novelty => vec![KeptValues::F64(scores.quadratic[rows].to_vec())],
            Self::Contributions(names) => {
                let count = names.len();
                columns_of_rows(&scores.contributions[rows.start * count..rows.end * count], count)
            }
            Self::Explanation(_) => vec![KeptValues::Text(scores.explanations[rows].iter().collect())],
            Self::Residual => vec![KeptValues::F64(scores.residual[rows].to_vec())],
            Self::Preimages(names) => {
                let d = names.len();
                columns_of_rows(&scores.preimages[rows.start * d..rows.end * d], d)
            }
        }
    }

    pub(super) fn max_text_bytes(&self) -> usize {
        match self {
            Self::Label(classes) => classes.labels().iter().map(|label| label.to_string().len()).max().unwrap_or(0),
            Self::Explanation(max_bytes) => *max_bytes,
            _ => 0,
        }
    }
}

impl Predictor {
    pub(super) fn column_groups(&self, extras: Extras) -> Vec<ColumnGroup> {
        let (metadata, t) = (self.metadata(), self.output_count());
        let target_columns = |name: &str| match &metadata.targets[..] {
            [] | [_] => vec![name.to_string()],
            several => several.iter().map(|target| format!("{name}_{target}")).collect::<Vec<_>>(),
        };
        // several quantiles have their level in the name
        let prediction_columns = || match metadata.loss.as_ref().map_or(&[][..], |loss| loss.levels()) {
            [] | [_] => target_columns("prediction"),
            levels => {
                let of_target = |column: String| levels.iter().map(move |level| format!("{column}_{level}"));
                target_columns("prediction").into_iter().flat_map(of_target).collect()
            }
        };
        let numbered_columns = |name: &str| (0..t).map(|j| format!("{name}_{j}")).collect();
        let mut groups = match (metadata.task, self.decision_classes()) {
            (_, Some(classes)) => vec![ColumnGroup::Label(classes)],
            (Task::Components, None) if metadata.has_feature_outputs() => {
                vec![ColumnGroup::Scores(numbered_columns("phi"))]
            }
            (Task::Components, None) if metadata.second_view.is_some() => {
                let view_names = |name: &'static str| (0..t / 2).map(move |j| format!("{name}_{j}"));
                vec![ColumnGroup::Scores(view_names("component").chain(view_names("with_component")).collect())]
            }
            (Task::Components, None) => vec![ColumnGroup::Scores(numbered_columns("component"))],
            (Task::Clusters, None) => vec![ColumnGroup::Cluster],
            (Task::Novelty, None) => {
                let distance = self.quadratic().map(|_| ColumnGroup::Distance(self.intercept()[0]));
                std::iter::once(ColumnGroup::Scores(vec!["score".to_string()])).chain(distance).collect()
            }
            (Task::Ranking, None) => vec![ColumnGroup::Scores(vec!["score".to_string()])],
            (Task::Regression | Task::Classification, None) => vec![ColumnGroup::Scores(prediction_columns())],
        };
        groups
            .extend(self.classes().filter(|_| extras.scores).map(|classes| ColumnGroup::Scores(score_names(classes))));
        if let (Some(classes), Some(link)) = (self.classes(), metadata.link.as_ref().filter(|_| extras.probabilities)) {
            groups.push(ColumnGroup::Probabilities(classes.clone(), link.clone()));
        }
        if let Some(quadratic) = self.quadratic().filter(|_| extras.std) {
            let names = [target_columns("std"), target_columns("std_mean")].concat();
            groups.push(ColumnGroup::Deviations(names, quadratic.output_scales.clone()));
        }
        groups.extend(
            self.interval_rule()
                .filter(|_| extras.intervals)
                .map(|rule| ColumnGroup::Intervals(self.interval_columns(&target_columns), rule)),
        );
        groups.extend(extras.components.then(|| ColumnGroup::Components(self.component_count())));
        groups.extend(extras.novelty.then_some(ColumnGroup::Novelty));
        groups.extend(extras.residual.then_some(ColumnGroup::Residual));
        groups.extend(self.contribution_groups(extras, &prediction_columns()));
        groups.extend(extras.preimages.then(|| ColumnGroup::Preimages(metadata.features.clone())));
        groups
    }
}

impl Predictor {
    /// Returns the columns of prediction intervals, or of prediction sets for classes. If there are
    /// several levels, they are part of the names. `target_columns` adds the names of several
    /// targets.
    fn interval_columns(&self, target_columns: &dyn Fn(&str) -> Vec<String>) -> Vec<OutputColumn> {
        let levels = self.interval_levels();
        let at_level = |level: &f64| {
            let suffix = if levels.len() > 1 { format!("_{level}") } else { String::new() };
            match self.classes() {
                Some(classes) => {
                    let labels = classes.labels().iter();
                    labels.map(|label| OutputColumn::new(format!("in_set_{label}{suffix}"), OutputKind::Bool)).collect()
                }
                None => {
                    let ends = target_columns("lower").into_iter().zip(target_columns("upper"));
                    let columns = ends.flat_map(|(lower, upper)| [lower, upper]);
                    columns.map(|name| OutputColumn::new(format!("{name}{suffix}"), OutputKind::F64)).collect()
                }
            }
        };
        levels.iter().flat_map(|level| -> Vec<OutputColumn> { at_level(level) }).collect()
    }
}

/// Converts a column to Booleans if its kind is Boolean.
fn boolean_if(kind: OutputKind, values: KeptValues) -> KeptValues {
    match (kind, values) {
        (OutputKind::Bool, KeptValues::F64(values)) => {
            KeptValues::Bool(values.iter().map(|value| *value != 0.0).collect())
        }
        (_, values) => values,
    }
}

/// Returns the names of the class scores: one score for two classes, otherwise one per class, or
/// one per pair of classes.
fn score_names(classes: &Classes) -> Vec<String> {
    let (labels, k) = (classes.labels(), classes.labels().len());
    match (k, classes.is_one_vs_one()) {
        (2, _) => vec!["score".to_string()],
        (_, false) => labels.iter().map(|label| format!("score_{label}")).collect(),
        (_, true) => Classes::pairs(k).map(|(a, b)| format!("score_{}_{}", labels[a], labels[b])).collect(),
    }
}

fn columns_of_rows(values: &[f64], column_count: usize) -> Vec<KeptValues> {
    (0..column_count).map(|j| KeptValues::F64(values.iter().skip(j).step_by(column_count).copied().collect())).collect()
}

fn probabilities<'a>(link: &Link, rows: impl Iterator<Item = &'a [f64]>, k: usize) -> Vec<KeptValues> {
    let (mut columns, mut row_probabilities) = (vec![Vec::new(); k], Vec::new());
    for scores in rows {
        link.probabilities(scores, &mut row_probabilities);
        columns.iter_mut().zip(&row_probabilities).for_each(|(column, probability)| column.push(*probability));
    }
    columns.into_iter().map(KeptValues::F64).collect()
}

/// Returns the index of the largest score; the first, if several are equal.
fn argmax(scores: &[f64]) -> usize {
    (0..scores.len()).fold(0, |best, j| if scores[j] > scores[best] { j } else { best })
}

/// Returns the column type that stores all labels unchanged.
fn label_kind(labels: &[Label]) -> OutputKind {
    match labels {
        labels if labels.iter().all(|label| matches!(label, Label::Int(_))) => OutputKind::I64,
        labels if labels.iter().all(|label| matches!(label, Label::Bool(_))) => OutputKind::Bool,
        _ => OutputKind::Text,
    }
}

fn label_values<'a>(kind: OutputKind, labels: impl Iterator<Item = &'a Label>) -> KeptValues {
    match kind {
        OutputKind::I64 => {
            KeptValues::I64(labels.map(|l| if let Label::Int(value) = l { *value } else { 0 }).collect())
        }
        OutputKind::Bool => KeptValues::Bool(labels.map(|l| *l == Label::Bool(true)).collect()),
        _ => {
            let mut texts = Strings::default();
            labels.for_each(|label| texts.push(label.to_string().as_bytes()));
            KeptValues::Text(texts)
        }
    }
}
