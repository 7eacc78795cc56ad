//! The preparation common to all solvers: statistics, scaled rows, targets, and the feature map.

use crate::features::{FeatureTier, FitData, SectionPoints};
use crate::metric::linear::{self, LinearMetric, LinearRequest};
use crate::metric::{self, LearnedMetric, LengthScaleReport, MetricRequest};
use crate::prepare::exact_rows;
use crate::prepare::map_builder::{BuiltMap, LandmarkCounts, MapBuilder};
use crate::prepare::survey::{Survey, survey, warn_of_classes};
use crate::prepare::target_counts::check_plans;
use crate::request::{LandmarkSource, MetricSource, PassShape, ProblemSize, Resources, RowAccess, TrainOptions};
use crate::{Folds, Result, Targets, solver::SolverProperties};
use kapprox::Real;
use kapprox::metric::MetricRows;
use kstore::scratch::Cache;
use kstore::{MemoryPlan, MemoryRows, Pass, RowSource, SelectedTable, TableRows};

#[doc(hidden)]
#[derive(Debug)]
pub(crate) struct PreparedFit<T: Real> {
    /// The selected rows, with the factors of a linear metric.
    pub selected: SelectedTable,
    pub survey: Survey,
    pub folds: Folds,
    pub targets: Targets,
    pub built_map: BuiltMap<T>,
    pub pass_shape: PassShape,
    /// Planned memory of the largest stage, in bytes.
    pub planned_bytes: usize,
    /// Options, with the metric resolved.
    pub options: TrainOptions,
    /// The warning that the map has fewer features than requested.
    pub rank_warning: Option<String>,
    pub learned_metric: Option<LearnedMetric>,
    pub linear_metric: Option<LinearMetric>,
    pub length_scale_report: Option<LengthScaleReport>,
    metric_rows: MetricRows<TableRows<T>>,
    cache: Option<Cache<T>>,
    /// All rows in memory, if the solver's model is a sum of kernel sections k(x_i, ·) of all rows.
    memory_rows: Option<MemoryRows<T>>,
}

impl<T: Real> PreparedFit<T> {
    /// Returns the scaled rows: from memory or the scratch folder if they are stored there,
    /// otherwise from the table.
    pub(crate) fn source(&self) -> &dyn RowSource<T> {
        match (&self.memory_rows, &self.cache) {
            (Some(memory), _) => memory,
            (None, Some(cache)) => cache,
            (None, None) => &self.metric_rows,
        }
    }

    pub(crate) fn points<'p>(&'p self, size: &'p ProblemSize) -> SectionPoints<'p, T> {
        match (&self.built_map.landmark_set, &self.memory_rows) {
            (Some(landmark_set), _) => SectionPoints::Landmarks(landmark_set, size),
            (None, Some(rows)) => SectionPoints::Rows(rows, size, self.survey.read_settings()),
            (None, None) => SectionPoints::NoPoints,
        }
    }

    /// Returns the solver's input. `tier` is the place where the features are stored, and `plan` is
    /// the solver's memory plan.
    pub(crate) fn features<'p>(
        &'p self,
        tier: FeatureTier,
        plan: &MemoryPlan,
        points: SectionPoints<'p, T>,
        resources: &'p Resources<'p>,
    ) -> FitData<'p, T> {
        FitData {
            source: self.source(),
            scaled_source: if self.options.metric.provided().is_some() {
                self.metric_rows.source()
            } else {
                self.source()
            },
            kernel: &self.built_map.kernel,
            map: &*self.built_map.map,
            second_feature_count: self.built_map.second_view.as_ref().map_or(0, |view| view.feature_count),
            targets: &self.targets,
            n: self.survey.row_count(),
            weight_unit: self.survey.weight_unit(),
            pass_shape: self.pass_shape,
            options: &self.options,
            resources,
            tier,
            spare_bytes: plan.budget.saturating_sub(plan.bytes()),
            folds: &self.folds,
            points,
        }
    }

    /// If a metric was learned, errors on the rows from which it was learned are too small.
    /// Restricts the held-out rows to the fold that was not used to learn the metric. If there is
    /// no such fold, or the solver does not support it, warns instead.
    pub(crate) fn hold_out_unseen(&mut self, properties: SolverProperties, resources: &Resources<'_>) {
        let learned = self.learned_metric.as_ref().filter(|learned| learned.metric.is_some());
        let unseen_fold = learned.map(|learned| learned.test_errors.as_ref().map(|errors| errors.fold));
        let unseen_fold = unseen_fold.or(self.linear_metric.as_ref().map(|linear| linear.test_fold));
        match unseen_fold.filter(|_| self.folds.count() > 1) {
            Some(Some(fold)) if properties.supports_forward_folds => self.folds = self.folds.holding_out(fold),
            Some(_) => resources.stage_observer.warn(
                "the metric was learned from the rows of all folds: cross-validation errors are smaller than errors on new rows"
                    .to_string(),
            ),
            None => {}
        }
    }

    #[doc(hidden)]
    pub(crate) fn passes(&self) -> u64 {
        1 + self.learned_metric.as_ref().map_or(0, |learned| learned.passes)
            + self.linear_metric.as_ref().map_or(0, |linear| linear.passes)
            + u64::from(self.length_scale_report.is_some())
            + u64::from(self.cache.is_some())
            + self.built_map.passes
    }
}

/// Checks the plans, then computes the statistics, the scaling, the landmarks and the map in passes
/// of shape `pass_shape`.
pub(crate) fn prepare<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    access: RowAccess,
    resources: &Resources<'_>,
    pass_shape: PassShape,
    plans: Vec<MemoryPlan>,
    properties: SolverProperties,
) -> Result<PreparedFit<T>> {
    let planned_bytes = check_plans(plans)?;
    let survey = survey(selected, options, pass_shape, resources)?;
    warn_of_classes(selected, &survey.statistics, options.task, resources.stage_observer);
    let folds = Folds::new(&options.folds, options.seed, selected.range(), &survey.group_labels)?;
    let targets = survey.regression_targets();
    let (n, read_settings) = (survey.row_count(), survey.read_settings());
    let mut table: TableRows<T> = selected.rows(read_settings.clone())?;
    let (mut selected, mut linear_metric) = (selected.clone(), None);
    let (options, learned_metric) = if let Some(column_count) = linear::linear_columns(&selected, options) {
        let linear = linear::learn_factors(&LinearRequest {
            source: &table,
            column_count,
            survey: &survey,
            targets: &targets,
            folds: &folds,
            holds_out_fold: properties.supports_forward_folds,
            pass_shape,
            resources,
        })?;
        selected = selected.with_entry_factors(&linear.factors, linear.unseen_factor)?;
        table = selected.rows(read_settings.clone())?;
        linear_metric = Some(linear);
        (TrainOptions { metric: MetricSource::None, ..options.clone() }, None)
    } else {
        let (source, survey, targets) = (&table, &survey, &targets);
        metric::resolve_metric(&MetricRequest { source, survey, targets, options, resources, is_enough: &|_| false })?
    };
    let metric_rows = MetricRows::new(table, options.metric.provided().cloned());
    let cache = if access == RowAccess::Rows { None } else { write_cache(&metric_rows, pass_shape, resources)? };
    let scaled_rows: &dyn RowSource<T> = cache.as_ref().map_or(&metric_rows, |cache| cache);
    let (options, length_scale_report) =
        metric::resolve_length_scale(scaled_rows, &survey, &targets, &options, pass_shape, resources)?;
    let options = &options;
    let load_rows = || exact_rows::load_rows(&metric_rows, &targets, survey.weight_unit(), n, pass_shape, resources);
    let memory_rows = (access == RowAccess::Rows).then(load_rows).transpose()?;
    let source = memory_rows.as_ref().map_or(scaled_rows, |memory| memory);
    let builder = MapBuilder { source, n, read_settings: &read_settings, options, pass_shape, resources };
    let built_map = match access {
        RowAccess::Rows => builder.kernel_only()?,
        RowAccess::Landmarks => builder.landmarks_only()?,
        RowAccess::Features => builder.build()?,
    };
    let rank_warning = describe_reduced_rank(&built_map, &survey, options);
    let options = options.clone();
    Ok(PreparedFit {
        selected,
        survey,
        folds,
        targets,
        built_map,
        pass_shape,
        planned_bytes,
        options,
        rank_warning,
        learned_metric,
        linear_metric,
        length_scale_report,
        metric_rows,
        cache,
        memory_rows,
    })
}

/// Describes why there are fewer features than requested, such as linearly dependent landmarks;
/// `None` if there are as many as requested.
fn describe_reduced_rank<T: Real>(built_map: &BuiltMap<T>, survey: &Survey, options: &TrainOptions) -> Option<String> {
    let LandmarkCounts { landmark_count, candidate_count } = built_map.landmark_counts?;
    let feature_count = match &built_map.second_view {
        Some(second_view) => second_view.feature_count.min(built_map.map.dims().1 - second_view.feature_count),
        None => built_map.map.dims().1,
    };
    let (requested, actual) =
        (options.rank, if built_map.landmark_set.is_some() { landmark_count } else { feature_count });
    if actual == requested || options.tolerance.is_some() {
        return None;
    }
    let why = if (requested as u64) > survey.row_count() && actual as u64 == survey.row_count() {
        format!("there are only {} rows", survey.row_count())
    } else if (requested as u64) > candidate_count && actual as u64 == candidate_count {
        let what = if matches!(options.landmarks, LandmarkSource::Rows(_)) { "landmarks" } else { "candidates" };
        format!("there are only {candidate_count} {what}")
    } else {
        match T::NAME {
            "f32" => {
                "more landmarks are linearly dependent in f32; `precision` f64 allows more, and may lower the error"
                    .to_string()
            }
            _ => format!("{actual} landmarks suffice; more would add only rounding errors"),
        }
    };
    Some(format!("rank reduced from {requested} to {actual}: {why}"))
}

/// Writes the decoded and scaled rows to the scratch folder; returns `None` without a scratch
/// folder.
///
/// One pass with one lane keeps the order of the rows. A reduction over the cache and the same
/// reduction over the source are bit-identical. The pass is not journaled, because a resumed run
/// writes the cache again.
///
/// # Errors
/// Errors of the source; [`kstore::Error::OverScratch`] and [`kstore::Error::ScratchFull`] if the
/// rows do not fit.
fn write_cache<T: Real>(
    source: &dyn RowSource<T>,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Option<Cache<T>>> {
    let Some(scratch) = resources.scratch else { return Ok(None) };
    let observer = resources.start_stage_over("rows to scratch", source.range());
    let mut writer = scratch.create_cache::<T>(source.shape(), source.range())?;
    let pass = Pass { journal: None, ..pass_shape.pass(1, resources, &*observer) };
    pass.visit(source, |block| writer.push(block))?;
    Ok(Some(writer.finish()?))
}
