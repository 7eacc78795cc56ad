//! The first pass: scaling of the inputs, class labels, and checks of the rows.

use crate::request::{PassShape, Resources, SCALING_MEDIAN_ROWS, Scaling, StageObserver, TrainOptions};
use crate::task::Task;
use crate::{Classes, Error, Result, Targets};
use kapprox::landmark::{RowSample, TableScan, uniform_sample};
use kstore::key::Purpose;
use kstore::statistics::ColumnMoments;
use kstore::{
    Label, Missing, ReadSettings, RowSource, Scaler, SelectedTable, Statistics, StatisticsReduction, display,
};
use std::sync::Arc;

/// Name of the pass that computes the statistics of the columns.
pub const STATISTICS_PASS: &str = "scaling statistics";

#[derive(Debug)]
pub struct Survey {
    pub statistics: Statistics,
    pub scaler: Arc<Scaler>,
    pub classes: Option<Classes>,
    pub group_labels: Vec<Label>,
    /// Divisor of the row weights; `None` if rows have no weights.
    weight_unit: Option<f64>,
}

/// Largest total weight for which the sum of integer weights is exact in f64: 2⁵³.
const MAX_EXACT_COUNT: f64 = 9_007_199_254_740_992.0;

/// Returns the divisor of the row weights: 1 if all weights are integers (frequency weights),
/// otherwise their mean (analytic weights), so that the result does not depend on the unit of the
/// weights.
fn weight_divisor(statistics: &Statistics, total_weight: f64) -> f64 {
    let are_frequencies = statistics.fractional_weight_count == 0 && total_weight <= MAX_EXACT_COUNT;
    if are_frequencies { 1.0 } else { total_weight / statistics.rows.max(1) as f64 }
}

impl Survey {
    /// Returns the number of rows.
    pub fn row_count(&self) -> u64 {
        self.statistics.rows
    }

    /// Returns the number of regression targets: numeric targets, or codes of the classes.
    pub(crate) fn target_count(&self) -> usize {
        self.classes.as_ref().map_or(self.numeric_targets().len(), Classes::target_count)
    }

    /// Returns the variance of a regression target, averaged over the targets.
    pub fn target_variance(&self) -> f64 {
        let variances: Vec<f64> = match &self.classes {
            None => self.numeric_targets().iter().map(|target| target.deviation().powi(2)).collect(),
            Some(classes) => {
                let counts = &self.statistics.classes;
                let total_weight: f64 = classes.labels().iter().map(|label| counts.weight(label)).sum();
                let fractions =
                    classes.labels().iter().map(|label| counts.weight(label) / total_weight.max(f64::MIN_POSITIVE));
                // the variance of a class code, which is +1 or -1
                fractions.map(|fraction| 4.0 * fraction * (1.0 - fraction)).take(self.target_count()).collect()
            }
        };
        variances.iter().sum::<f64>() / variances.len().max(1) as f64
    }

    /// Returns the sum of the row weights, or `None` if rows have no weights.
    pub fn total_weight(&self) -> Option<f64> {
        total_weight_of(&self.statistics)
    }

    fn numeric_targets(&self) -> &[kstore::statistics::ColumnMoments] {
        &self.statistics.targets
    }

    /// Returns the regression targets: the codes of the classes, or the numeric targets minus their
    /// means. Subtracting the mean keeps sums of squares accurate.
    pub fn regression_targets(&self) -> Targets {
        match &self.classes {
            Some(classes) => Targets::Classes(classes.clone()),
            None => Targets::Numeric { centre: self.numeric_targets().iter().map(|target| target.mean).collect() },
        }
    }

    /// Returns how later passes read rows: scaled, and with class codes.
    pub fn read_settings(&self) -> ReadSettings {
        ReadSettings {
            scaler: Some(self.scaler.clone()),
            class_labels: self.classes.as_ref().map(|classes| Arc::new(classes.labels().to_vec())),
            group_labels: (!self.group_labels.is_empty()).then(|| Arc::new(self.group_labels.clone())),
            // a divisor of 1 changes nothing and is omitted
            weight_unit: self.weight_unit.filter(|unit| *unit != 1.0),
            ..ReadSettings::default()
        }
    }

    /// Returns (s(μ + σ) − s(μ − σ)) / 2 for input j, where s is the scaling, μ the mean and σ the
    /// standard deviation of the input. For standard scaling it is 1.
    pub fn half_spread(&self, j: usize) -> f64 {
        let Some(feature) = self.statistics.inputs.get(j) else { return 1.0 };
        let scale = |value: f64| self.scaler.apply(j, value);
        (scale(feature.mean + feature.deviation()) - scale(feature.mean - feature.deviation())) / 2.0
    }

    /// Returns the divisor of the row weights, or 1 if rows have no weights.
    pub fn weight_unit(&self) -> f64 {
        self.weight_unit.unwrap_or(1.0)
    }
}

/// Returns the sum of the row weights, or `None` if rows have no weights.
pub fn total_weight_of(statistics: &Statistics) -> Option<f64> {
    statistics.weights.first().map(|weights| weights.weight_sum)
}

/// Surveys the selected rows in one pass. If the scaling needs medians, a second pass draws a
/// sample of the rows. Warns if rows without a target are left out.
///
/// # Errors
/// The rows cannot be read; the errors of [`survey_of_statistics`].
pub fn survey(
    selected: &SelectedTable,
    options: &TrainOptions,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Survey> {
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let observer = resources.start_stage_over(STATISTICS_PASS, source.range());
    let pass = pass_shape.pass(pass_shape.scan_lanes, resources, &*observer);
    let statistics = pass.resume(STATISTICS_PASS, &source, &StatisticsReduction::new(source.shape()))?.0;
    drop(observer);
    if source.rows_without_target() > 0 {
        // in a shared run, each process counts its own rows only
        let is_shared = resources.journal.is_some_and(|journal| journal.is_shared());
        let count = if is_shared {
            String::new()
        } else {
            format!(": {}", display::format_count(source.rows_without_target()))
        };
        resources
            .stage_observer
            .warn(format!("rows without a target are left out{count} (`missing_target` error stops)"));
    }
    let draw_sample = |n: u64| draw_median_rows(&source, n, options, pass_shape, resources);
    survey_of_statistics(statistics, selected, options, resources.stage_observer, &draw_sample)
}

/// Draws the sample of rows for medians, in one pass.
///
/// # Errors
/// The rows cannot be read; the observer stops the pass.
pub fn draw_median_rows(
    source: &dyn RowSource<f64>,
    n: u64,
    options: &TrainOptions,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<RowSample<f64>> {
    let observer = resources.start_stage_over("medians", source.range());
    let scan = TableScan { source, pass: pass_shape.pass(pass_shape.scan_lanes, resources, &*observer), row_count: n };
    Ok(uniform_sample(&scan, SCALING_MEDIAN_ROWS, Purpose::Median, options.seed)?)
}

/// Returns the scaler. If the scaling needs medians, calls `draw_sample` to draw a sample of the
/// rows.
pub(crate) fn build_scaler(
    scaling: Scaling,
    statistics: &Statistics,
    draw_sample: impl FnOnce() -> Result<RowSample<f64>>,
) -> Result<Scaler> {
    let from_sample = |build: fn(&Statistics, &[f64], &[f64]) -> Scaler| {
        draw_sample().map(|sample| build(statistics, &sample.x, &sample.weights))
    };
    Ok(match scaling {
        Scaling::Standard => Scaler::standard(statistics),
        Scaling::Minmax => Scaler::minmax(statistics),
        Scaling::Robust => from_sample(Scaler::robust)?,
        Scaling::Asinh => from_sample(Scaler::asinh)?,
        Scaling::Quantile => from_sample(Scaler::quantile)?,
        Scaling::None => Scaler::identity(statistics),
        Scaling::Maxabs | Scaling::Unit | Scaling::TfIdf => return Err(scaling.sparse_only_error()),
    })
}

/// Builds the survey from the statistics of the rows of `selected`. If the scaling needs medians,
/// calls `draw_sample` with the number of rows, which returns a sample of the rows.
///
/// # Errors
/// There are fewer than two rows; the weights, columns, classes or scaling cannot be used; the
/// errors of `draw_sample`.
pub fn survey_of_statistics(
    mut statistics: Statistics,
    selected: &SelectedTable,
    options: &TrainOptions,
    stage_observer: &dyn StageObserver,
    draw_sample: &dyn Fn(u64) -> Result<RowSample<f64>>,
) -> Result<Survey> {
    selected.mark_integers(&mut statistics);
    check_rows(selected, &statistics, options, stage_observer)?;
    // sparse rows are already scaled when they are read
    let scaling = if selected.sparse_shape().is_some() { Scaling::None } else { options.scaling };
    let mut scaler = build_scaler(scaling, &statistics, || draw_sample(statistics.rows))?;
    selected.exempt_unscaled_features(&mut scaler);
    let scaler = Arc::new(scaler);
    let labels = |counts: Vec<(Label, u64)>| counts.into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    let classes = match options.task {
        Task::Classification => Some(Classes::new(labels(statistics.classes.sorted_counts()))?),
        _ => None,
    };
    let groups = labels(statistics.groups.sorted_counts());
    let weight_unit = total_weight_of(&statistics).map(|weight| weight_divisor(&statistics, weight));
    Ok(Survey { statistics, scaler, classes, group_labels: groups, weight_unit })
}

/// Maximum number of distinct integers that are likely to be class labels.
pub const MAX_CLASS_INTEGERS: usize = 20;

/// Returns the first target if its values may be classes: if it is an integer column with a small
/// range.
fn class_like_target(statistics: &Statistics) -> Option<&ColumnMoments> {
    let is_class_like = |target: &&ColumnMoments| {
        target.is_integer && (1.0..MAX_CLASS_INTEGERS as f64).contains(&(target.max - target.min))
    };
    statistics.targets.first().filter(is_class_like)
}

/// Warns of a numeric target whose values may be classes.
pub fn warn_of_classes(
    selected: &SelectedTable,
    statistics: &Statistics,
    task: Task,
    stage_observer: &dyn StageObserver,
) {
    if let (Some(name), Some(target), Task::Regression) =
        (&selected.target_names().first(), class_like_target(statistics), task)
    {
        stage_observer.warn(format!(
            "target {name} has integer values from {} to {} but is treated as numeric (regression); for classes, use \
             `task` classification (ridge), logistic or svm",
            target.min, target.max
        ));
    }
}

/// Rejects rows without usable weights or targets, and warns of constant inputs and targets.
fn check_rows(
    selected: &SelectedTable,
    statistics: &Statistics,
    options: &TrainOptions,
    stage_observer: &dyn StageObserver,
) -> Result<()> {
    statistics
        .check_label_counts(selected.class_column().unwrap_or_default(), selected.group_column().unwrap_or_default())?;
    match statistics.weights.first() {
        // rows of weight 0 are not read
        Some(_) if statistics.rows == 0 => return Err(Error::ZeroWeights),
        Some(weights) if weights.max <= 0.0 => return Err(Error::NegativeWeights { least: weights.min }),
        _ => {}
    }
    match statistics.rows {
        0 => {
            let blank_columns =
                if selected.missing() == Missing::Drop { selected.find_blank_columns()? } else { Vec::new() };
            let why = match blank_columns.first() {
                Some(column) => format!("no row is left: column {column:?} has no values in these rows; leave it out"),
                None => "no row is left to learn from; check `rows`, `where` and `missing`".to_string(),
            };
            return Err(kstore::Error::Empty { what: "the selection".to_string(), why }.into());
        }
        1 => return Err(Error::TooFewRows { rows: 1 }),
        _ => {}
    }
    let columns = selected.feature_names().into_iter().chain(selected.target_names());
    let moments = statistics.inputs.iter().chain(&statistics.targets);
    if let Some((column, column_moments)) =
        columns.zip(moments).find(|(_, m)| !m.deviation().is_finite() || !m.mean.is_finite())
    {
        return Err(Error::ColumnTooLarge { column, largest: column_moments.min.abs().max(column_moments.max.abs()) });
    }
    let is_constant = |moments: &kstore::statistics::ColumnMoments| moments.is_constant();
    // empty columns are normal in sparse rows
    let sparse_features = selected.sparse_features().map_or(0..0, |(features, _)| features);
    let features = selected.feature_names().into_iter().zip(&statistics.inputs).enumerate();
    let constant_features = features.filter(|(i, (_, f))| is_constant(f) && !sparse_features.contains(i));
    let constant_names: Vec<String> = constant_features.map(|(_, (name, _))| name).collect();
    let join_names =
        |names: &[String]| names[..names.len().min(8)].join(", ") + if names.len() > 8 { ", …" } else { "" };
    match &constant_names[..] {
        [] => {}
        [one] => stage_observer.warn(format!("feature {one} is constant over the training rows and has no effect")),
        _ => stage_observer.warn(format!(
            "{} features are constant and have no effect: {}",
            constant_names.len(),
            join_names(&constant_names)
        )),
    }
    let single_row_classes: Vec<String> = statistics
        .classes
        .sorted_counts()
        .into_iter()
        .filter(|(_, n)| *n == 1)
        .map(|(label, _)| label.to_string())
        .collect();
    if options.task == Task::Classification && !single_row_classes.is_empty() {
        let what = if single_row_classes.len() == 1 { "class has" } else { "classes have" };
        stage_observer.warn(format!(
            "{} {what} one row only: {}; one row does not show how a class varies: add rows of these classes, or exclude them with `where`",
            single_row_classes.len(),
            join_names(&single_row_classes)
        ));
    }
    let class_counts = statistics.classes.sorted_counts();
    let integer_count = class_counts.iter().filter(|(label, _)| matches!(label, Label::Int(_))).count();
    if options.task == Task::Classification && integer_count > MAX_CLASS_INTEGERS {
        stage_observer.warn(format!(
            "the target has {integer_count} distinct integer values, and each becomes a class; if the target is numeric, use a regression \
             (ridge, svr)"
        ));
    }
    if options.task == Task::Regression {
        for (name, _) in selected.target_names().iter().zip(&statistics.targets).filter(|(_, t)| is_constant(t)) {
            stage_observer
                .warn(format!("target {name} is constant over the training rows and has no variance to explain"));
        }
    }
    Ok(())
}
