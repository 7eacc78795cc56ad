//! Predictions of a model: for rows in memory, for the rows of a table, to a file, and compared
//! with true values.
//!
//! | rows | call |
//! | --- | --- |
//! | one, without allocation | [`Predictor::predict_with_scratch`] |
//! | one, with named columns | [`Predictor::predict_record`] |
//! | a slice | [`Predictor::predict`] |
//! | a table of any size | [`Predictor::score_table`], segment by segment |
//! | a table, to a file | [`Predictor::write`] |
//! | a table with true values | [`Predictor::evaluate`] |
//! | a table with grades, in groups | [`Predictor::evaluate_ranking`] |
//! | a table with true values, to learn online | [`Predictor::learn`] |

mod anomalous_rows;
mod column_effects;
mod decision;
mod error_clusters;
mod evaluate;
mod explanation;
mod extras;
mod forecast;
mod forecast_paths;
mod interval_rule;
mod kept_columns;
mod naive_forecast;
mod online_learning;
mod prepared_model;
mod record;
mod shapley;
mod table_scorer;
mod writer;

pub use crate::score::{
    CalibrationBin, ClassScores, ClassificationScores, CostScores, RankingScores, RegressionScores, TargetScores,
    ThresholdScores,
};
#[doc(hidden)]
pub use crate::score::{
    ClassificationErrors, ClusterReport, ColumnEffect, ColumnEffects, DecileScores, DependencePoint, IntervalScores,
    LossScores, MacroMeans, NaiveForecast, OneVsRestScores, OutputLoss, PredictionIntervalScores, PredictionSetScores,
    PredictionSpread, RegressionErrors, TopScores,
};
pub use anomalous_rows::AnomalousRow;
#[doc(hidden)]
pub use column_effects::MAX_DEPENDENCE_ROWS;
pub use evaluate::{ChartData, Evaluation, NoveltyScores};
pub use explanation::FeatureContribution;
pub use extras::Extras;
#[doc(hidden)]
pub use forecast::{ForecastSummary, LaterIntervals};
#[doc(hidden)]
pub use interval_rule::TrainingFolds;
pub use online_learning::OnlineUpdate;
pub use record::FieldValue;
pub use table_scorer::Scores;
pub use writer::PredictionSummary;

use crate::{
    AnyModel, Classes, Error, ModelMetadata, Quadratic, Result, Task, model::match_precision, score::orient_score,
};
use crate::{model::MetricReport, run::Run};
use decision::DecisionRule;
use forecast_paths::ForecastIntervals;
use kstore::{Encoding, Label, MemoryPlan, Missing, SelectedTable, Selection, Table, TextOptions, budget::MemoryTerm};
use prepared_model::{PreparedModel, RowBuffers};
use std::{path::Path, sync::Arc};
use table_scorer::TableScorer;

/// A model that predicts, in either precision; clones share the model, and threads can use it
/// concurrently.
///
/// Rows are unscaled, with the values of the table in the order of [`ModelMetadata::features`]. A
/// model with category columns predicts a table ([`Table::from_batches`], or files), or slices of
/// its encoded features: 1 for the category of the row, 0 for all other categories. The prediction
/// of a row is bit-identical alone, in a batch, and in a table that the command predicts.
///
/// ```
/// use ksolve::job::{Fit, Run};
/// use ksolve::predict::Predictor;
/// # let x: Vec<f64> = (0..200).map(|i| f64::from(i) / 20.0).collect();
/// # let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
/// let table = kstore::Table::from_rows(&x, 1, &y)?;
/// let fitted = Fit::ridge().rank(50).fit_table(&table, &["y"], &Run::new())?;
/// let predictor = Predictor::new(fitted.model)?;
/// let mut out = [0.0];
/// predictor.predict(&[1.5], &mut out)?;
/// assert!((out[0] - 1.5f64.sin()).abs() < 0.01);
/// # Ok::<(), ksolve::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor {
    model: AnyPreparedModel,
    rule: DecisionRule,
    /// Rows in the units of the table that contributions are relative to, row-major; without them,
    /// the landmarks.
    background: Option<Arc<[f64]>>,
    /// Intervals of the later steps of a forecast, by row of its table.
    forecast_intervals: Option<Arc<ForecastIntervals>>,
}

#[derive(Clone, Debug)]
enum AnyPreparedModel {
    F32(Arc<PreparedModel<f32>>),
    F64(Arc<PreparedModel<f64>>),
}

/// Name of the quantity in the [`Error::Shape`] of a scratch of the other precision.
const ELEMENT_BYTES: &str = "bytes of an element of the scratch";

/// Buffers for [`Predictor::predict_with_scratch`], reused for many rows.
#[derive(Clone, Debug)]
pub struct RowScratch(AnyRowScratch);

#[derive(Clone, Debug)]
enum AnyRowScratch {
    F32(RowBuffers<f32>),
    F64(RowBuffers<f64>),
}

impl Predictor {
    /// Makes a predictor from a model.
    ///
    /// # Errors
    /// An unknown kernel or map.
    pub fn new(model: AnyModel) -> Result<Self> {
        let prepared_model =
            match_precision!(AnyModel to AnyPreparedModel: model, model => Arc::new(PreparedModel::new(model)?));
        Ok(Self {
            model: prepared_model,
            rule: DecisionRule { positive_class: 1, threshold: 0.0, costs: None, top: None },
            background: None,
            forecast_intervals: None,
        })
    }

    /// Sets the positive class of a two-class model to this label; the default is the second class.
    /// Call it before [`Predictor::with_threshold`].
    ///
    /// # Errors
    /// A label that is not a class of the model; a model that does not have two classes.
    pub fn with_positive_class(self, label: &str) -> Result<Self> {
        let classes = self.require_two_classes("positive", label)?;
        let labels: Vec<String> = classes.labels().iter().map(ToString::to_string).collect();
        match labels.iter().position(|class_label| class_label == label) {
            Some(positive) => Ok(Self { rule: DecisionRule { positive_class: positive, ..self.rule }, ..self }),
            None => Err(Error::option("positive", label, format!("the classes are {}", labels.join(" and ")))),
        }
    }

    /// Returns the positive class of a two-class model; `None` for other models.
    #[doc(hidden)]
    pub fn positive_label(&self) -> Option<&Label> {
        let classes = self.classes().filter(|classes| classes.labels().len() == 2)?;
        classes.labels().get(self.rule.positive_class)
    }

    /// Sets the decision threshold. A row is positive if the probability of the positive class is
    /// above `threshold`. In a model without probabilities, the score takes the place of the
    /// probability.
    ///
    /// # Errors
    /// A model that does not have two classes; a probability that is not between 0 and 1.
    pub fn with_threshold(self, threshold: f64) -> Result<Self> {
        self.require_two_classes("threshold", threshold)?;
        match self.score_at(threshold) {
            Some(score) => Ok(Self { rule: DecisionRule { threshold: score, ..self.rule }, ..self }),
            None => {
                let why = "give a number; for a model with probabilities, a number between 0 and 1";
                Err(Error::option("threshold", threshold, why))
            }
        }
    }

    /// Makes [`Predictor::evaluate`] search for the threshold with the least cost. `costs` are the
    /// costs of a false alarm and of a missed positive row.
    ///
    /// # Errors
    /// A model that does not have two classes; costs that are negative or not finite.
    pub fn with_costs(self, costs: [f64; 2]) -> Result<Self> {
        let costs_text = format!("{}:{}", costs[0], costs[1]);
        self.require_two_classes("cost", &costs_text)?;
        match costs.iter().all(|cost| cost.is_finite() && *cost >= 0.0) {
            true => Ok(Self { rule: DecisionRule { costs: Some(costs), ..self.rule }, ..self }),
            false => Err(Error::option("cost", costs_text, "expected finite costs of 0 or more")),
        }
    }

    /// Makes [`Predictor::evaluate`] score the `top` rows with the highest scores of the positive
    /// class: their precision, recall and lift.
    ///
    /// # Errors
    /// A model that does not have two classes.
    #[doc(hidden)]
    pub fn with_top(self, top: u64) -> Result<Self> {
        self.require_two_classes("top", top)?;
        Ok(Self { rule: DecisionRule { top: Some(top), ..self.rule }, ..self })
    }

    fn require_two_classes(&self, option: &'static str, value: impl std::fmt::Display) -> Result<&Classes> {
        let why = "it applies to models of two classes only; omit it";
        let classes = self.classes().filter(|classes| classes.labels().len() == 2);
        classes.ok_or_else(|| Error::option(option, value, why))
    }

    /// Returns the threshold on the score of the second class at which the positive class has this
    /// probability or score; `None` if `threshold` is not a probability, or not finite.
    fn score_at(&self, threshold: f64) -> Option<f64> {
        let second_is_positive = self.rule.positive_class == 1;
        let score = match &self.metadata().link {
            Some(link) => link.score_at(if second_is_positive { threshold } else { 1.0 - threshold })?,
            None => Some(orient_score(threshold, self.rule.positive_class)).filter(|score| score.is_finite())?,
        };
        // a score equal to the threshold is not positive, even if the positive class is the first
        // class
        Some(if second_is_positive { score } else { score.next_down() })
    }

    /// Returns the classes with their decision threshold; `None` for a model without classes.
    #[doc(hidden)]
    pub fn decision_classes(&self) -> Option<Classes> {
        self.classes().map(|classes| classes.clone().with_threshold(self.rule.threshold))
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`] and [`Predictor::new`].
    pub fn load(path: &Path) -> Result<Self> {
        Self::new(AnyModel::load(path)?)
    }

    /// Loads a model. Rejects a file that alone exceeds both the memory budget and the memory of
    /// the process without a model. A smaller model is planned together with its table, so that an
    /// error message names a budget that suffices for both.
    ///
    /// # Errors
    /// The errors of [`Predictor::load`], and of the memory plan.
    #[doc(hidden)]
    pub fn load_within_budget(path: &Path, run: &Run<'_>) -> Result<Self> {
        let file_bytes = std::fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
        let process_plan = MemoryPlan::for_process("the model", run.memory_budget(), run.workers().threads(), 0);
        if file_bytes > run.memory_budget().max(process_plan.bytes()) {
            process_plan.term("its file", file_bytes, "fit a model of lower `rank`").check()?;
        }
        Self::load(path)
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::from_bytes`] and [`Predictor::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::new(AnyModel::from_bytes(bytes)?)
    }

    /// Returns the bytes of the model's file.
    ///
    /// # Errors
    /// The errors of [`crate::Model::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.to_bytes())
    }

    /// Writes the model to a file atomically.
    ///
    /// # Errors
    /// The errors of [`crate::Model::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.save(path))
    }

    /// Returns the metadata of the model: options, names and classes.
    pub fn metadata(&self) -> &ModelMetadata {
        match_precision!(AnyPreparedModel: &self.model, prepared => &prepared.model.metadata)
    }

    /// Returns the options for text files with rows of the model: numbers, dates and missing values
    /// are read as in the fit, and columns have the types of the model.
    #[doc(hidden)]
    pub fn text_options(&self, options: TextOptions) -> TextOptions {
        let metadata = self.metadata();
        let options = if metadata.sparse_shape().is_some() { options.sparse() } else { options };
        options.with_reading(metadata.text_reading.clone().with_encoding(metadata.encoding.as_deref()))
    }

    /// Returns the metric, a linear map of the inputs before the kernel, with the importance of
    /// each feature; `None` if the model has no metric.
    pub fn metric(&self) -> Option<MetricReport> {
        let metric = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.metric.as_ref())?;
        let metadata = self.metadata();
        // without the option `metric`, the metric consists of directions that the solver learned
        let source = metadata.options["metric"].as_str().unwrap_or(&metadata.solver).to_string();
        let importances = metadata.features.iter().cloned().zip(metric.importance()).collect();
        Some(MetricReport::new(source, metric.output_count(), importances, &[], Vec::new()))
    }

    /// For a graph model, returns the number of nodes and the number of nearest nodes per row; for
    /// other models, returns `None`.
    #[doc(hidden)]
    pub fn graph_size(&self) -> Option<(usize, usize)> {
        match_precision!(AnyPreparedModel: &self.model, prepared => Some((prepared.model.basis.landmarks()?.1.len(), prepared.model.transform.neighbour_count()?)))
    }

    /// For a model with leaves, each with an exact-kernel model of its rows, returns the number of
    /// leaves and the number of rows of all leaves; for other models, returns `None`.
    #[doc(hidden)]
    pub fn leaf_counts(&self) -> Option<(usize, usize)> {
        let row_counts = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.leaves.as_ref().map(|leaves| &leaves.row_counts))?;
        Some((row_counts.len(), row_counts.iter().sum()))
    }

    /// Returns the number of features d of a row.
    pub fn feature_count(&self) -> usize {
        self.metadata().features.len()
    }

    /// Returns the number of outputs t of a row: targets, scores of classes or pairs, components,
    /// clusters.
    pub fn output_count(&self) -> usize {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.dims().2)
    }

    /// Returns the number of components in addition to predictions, for [`Extras::components`]; 0
    /// for most models.
    pub fn component_count(&self) -> usize {
        // the functions of the folds are not components
        if self.interval_levels().is_empty() { self.function_count() } else { 0 }
    }

    /// Returns the number of functions of the model in addition to its predictions.
    fn function_count(&self) -> usize {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.component_count())
    }

    /// Allocates buffers for [`Predictor::predict_with_scratch`].
    pub fn scratch(&self) -> RowScratch {
        RowScratch(match_precision!(AnyPreparedModel to AnyRowScratch: &self.model, prepared => prepared.scratch()))
    }

    /// Writes the scores of the rows of `x` (n x d, row-major) to `out` (n x t, row-major).
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of other lengths; [`Error::NotFiniteRow`] for a value or a
    /// prediction that is not finite; a model of changes, whose rows lack the value that changes.
    pub fn predict<V: kstore::Float>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        self.check_predicts_values()?;
        self.predict_changes(x, out)
    }

    /// Rejects a model of changes.
    fn check_predicts_values(&self) -> Result<()> {
        let base = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.base_column.as_ref());
        let why = "the model predicts changes, and a row of features lacks the earlier value; predict a table with the earlier rows";
        base.map_or(Ok(()), |base| Err(Error::option("difference", base, why)))
    }

    /// Writes scores as [`Predictor::predict`] does; for a model of changes, the changes.
    fn predict_changes<V: kstore::Float>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.predict(x, out))
    }

    /// Writes the scores of one row `x` (length d) to `out` (length t). Does not allocate if the
    /// model has landmarks and no leaves: 3 to 5 µs at 1,000 landmarks of 10 features.
    ///
    /// # Errors
    /// The errors of [`Predictor::predict`], and [`Error::Shape`] for the scratch of another
    /// predictor.
    pub fn predict_with_scratch<V: kstore::Float>(
        &self,
        x: &[V],
        out: &mut [f64],
        scratch: &mut RowScratch,
    ) -> Result<()> {
        self.check_predicts_values()?;
        match (&self.model, &mut scratch.0) {
            (AnyPreparedModel::F32(prepared), AnyRowScratch::F32(scratch)) => prepared.predict_row(x, out, scratch),
            (AnyPreparedModel::F64(prepared), AnyRowScratch::F64(scratch)) => prepared.predict_row(x, out, scratch),
            (AnyPreparedModel::F32(_), AnyRowScratch::F64(_)) => {
                Err(Error::Shape { what: ELEMENT_BYTES, expected: 4, got: 8 })
            }
            (AnyPreparedModel::F64(_), AnyRowScratch::F32(_)) => {
                Err(Error::Shape { what: ELEMENT_BYTES, expected: 8, got: 4 })
            }
        }
    }

    /// Returns the predicted label of a row with these scores; `None` for models without classes.
    pub fn label(&self, scores: &[f64]) -> Option<&Label> {
        let code = self.decision_classes()?.decide(scores.iter().copied());
        self.classes()?.labels().get(code)
    }

    /// Writes the class probabilities of a row with these scores to `out`, in the order of
    /// [`ModelMetadata::classes`]. Leaves `out` empty for models without probabilities.
    pub fn probabilities(&self, scores: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if let Some(link) = &self.metadata().link {
            link.probabilities(scores, out);
        }
    }
}

/// Variance of a new observation in addition to the variance of the mean, in units of the noise
/// variance.
const NOISE_VARIANCE: f64 = 1.0;

fn standard_deviation(noise_variance: f64, variance_units: f64) -> f64 {
    (noise_variance * variance_units).sqrt()
}

impl Predictor {
    /// Selects the rows of a table for the model: the columns of the fit by name, and the further
    /// columns of `selection`.
    ///
    /// Category columns have the categories of the fit. Missing values are treated as in the fit,
    /// unless `selection` specifies another treatment.
    ///
    /// # Errors
    /// Missing columns.
    pub fn select(&self, table: &Table, selection: Selection) -> Result<SelectedTable> {
        let class_target = !self.metadata().classes.is_empty() && !selection.targets.is_empty();
        let numeric_encoding = || Arc::new(Encoding::numeric(&self.metadata().features));
        let encoding = Some(self.metadata().encoding.clone().unwrap_or_else(numeric_encoding));
        let missing = if selection.missing == Missing::Fitted { self.metadata().missing() } else { selection.missing };
        Ok(table.select(&Selection { encoding, missing, class_target, ..selection })?)
    }

    /// Returns the term of a memory plan for the loaded model, plus `extra_bytes` bytes.
    #[doc(hidden)]
    pub fn plan_term(&self, extra_bytes: usize) -> MemoryTerm {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.plan_term(extra_bytes))
    }

    /// Returns the bytes that [`Predictor::predict`] needs in addition to its slices.
    #[doc(hidden)]
    pub fn scratch_bytes(&self) -> usize {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.scratch_bytes())
    }

    /// Returns the mean of each feature over the training rows, in the units of the table.
    #[doc(hidden)]
    pub fn means(&self) -> &[f64] {
        match_precision!(AnyPreparedModel: &self.model, prepared => &prepared.model.scaler.mean)
    }

    /// Returns the classes of the model; `None` for a model without classes.
    pub fn classes(&self) -> Option<&Classes> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.classes.as_ref())
    }

    /// Scores the selected rows, hands the segments to `visitor` in row order, and returns the
    /// number of rows. `other_terms` are the plan terms of the memory that the caller uses during
    /// the pass.
    ///
    /// *Cost*: one pass, with one prediction per row. *Bytes*: the model, and a segment of scores
    /// per lane (worker thread).
    ///
    /// # Errors
    /// A plan that exceeds the memory; bad rows with their position; a prediction that is not
    /// finite; errors of `visitor`.
    pub fn score_table(
        &self,
        selected: &SelectedTable,
        extras: Extras,
        other_terms: Vec<MemoryTerm>,
        run: &Run<'_>,
        visitor: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        self.check_extras(extras)?;
        let other_terms = [other_terms, self.forecast_terms()].concat();
        let lane_count = run.workers().threads();
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.score_table(selected, extras, self.explanation_target(), lane_count, other_terms, run, visitor))
    }

    /// Runs [`Predictor::score_table`] in one lane, for a `visitor` that uses all threads for each
    /// segment.
    fn score_in_one_lane(
        &self,
        selected: &SelectedTable,
        extras: Extras,
        other_terms: Vec<MemoryTerm>,
        run: &Run<'_>,
        visitor: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.score_table(selected, extras, self.explanation_target(), 1, other_terms, run, visitor))
    }

    /// Returns the standard deviations of new observations at the rows of `scores`, one per target,
    /// row-major: the deviation of the mean and the noise combined. Empty unless [`Extras::std`] is
    /// set.
    pub fn standard_deviations(&self, scores: &Scores) -> Vec<f64> {
        let noise_variances =
            self.quadratic().filter(|_| self.metadata().task == Task::Regression).map_or(&[][..], |q| &q.output_scales);
        scores
            .quadratic
            .iter()
            .flat_map(|v| noise_variances.iter().map(move |noise| standard_deviation(*noise, v + NOISE_VARIANCE)))
            .collect()
    }

    /// Returns whether the model orders rows by how unusual they are: a novelty detector, or kernel
    /// PCA that was fitted with `novelty`.
    #[doc(hidden)]
    pub fn scores_anomalies(&self) -> bool {
        self.metadata().task == Task::Novelty || self.has_reconstruction_errors()
    }

    fn has_reconstruction_errors(&self) -> bool {
        self.metadata().task == Task::Components && self.quadratic().is_some()
    }

    fn quadratic(&self) -> Option<&Quadratic> {
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.model.quadratic.as_ref())
    }

    fn intercept(&self) -> &[f64] {
        match_precision!(AnyPreparedModel: &self.model, prepared => &prepared.model.intercept)
    }

    /// Returns the bytes of the memory budget that a scoring pass over the rows and `other_terms`
    /// leave free.
    fn spare_bytes(
        &self,
        selected: &SelectedTable,
        extras: Extras,
        other_terms: &[MemoryTerm],
        run: &Run<'_>,
    ) -> Result<usize> {
        let (memory, threads) = (run.memory_budget(), run.workers().threads());
        let other_terms = &[other_terms, &self.forecast_terms()].concat()[..];
        let lane_plan = match_precision!(AnyPreparedModel: &self.model, prepared => TableScorer::new(prepared, selected, extras, self.explanation_target())?.plan_lanes(memory, threads, other_terms));
        Ok(lane_plan?.0.spare_bytes)
    }
}
