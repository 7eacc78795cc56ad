//! Maximum mean discrepancy between the mean embedding that a model stores and new rows.
//!
//! A model of `mean` stores the mean μ of the features of its n training rows, as a function of the
//! landmarks. The features of m new rows have the mean ν and the covariance C. If the new rows come
//! from the distribution of the training rows,
//!
//! ```text
//! |μ − ν|² / (1/n + 1/m)   tends in distribution to   Σ λ_l z_l²
//! ```
//!
//! where λ_l are the eigenvalues of the covariance, which C estimates, and the z_l are independent
//! standard normal variables. The training rows are not needed. The same holds for every group of
//! the new rows, with its number of rows instead of m.
//!
//! The witness function (μ − ν)ᵀφ(x) − (|μ|² − |ν|²)/2 is positive for rows that are more typical
//! of the training rows, and negative for rows that are more typical of the new rows.
//!
//! A column is tested like a column of two tables. Numbers are compared by their distribution
//! functions, and the model stores quantiles of them. Categories are compared by the frequencies
//! of their levels.
//!
//! *Passes*: one for the statistics of the columns, one for a sample of the rows, one for the
//! features, one over the stored features for the groups. *Flops* for m rows and p features: the
//! map, mp² for the covariance, 9p³ for the spectrum. *Bytes*: 5p² numbers, and p for each group.
//!
//! Reference: Gretton, Fukumizu, Harchaoui, Sriperumbudur, "A fast, consistent kernel two-sample
//! test", NIPS 2009.

use super::column_tests::{ColumnDifference, holm};
use super::column_values::{TableColumn, table_columns};
use super::null_distribution::ChiSquaredSum;
use super::row_groups::RowGroups;
use super::stored_columns::stored_column_tests;
use super::{PValues, TestOutcome, TestStatistic, require_rows};
use crate::features::{self, FeatureTier, FitData, GatherOptions, SectionPoints, StoredFeatures};
use crate::gram::{GramScratch, GramState, covariance};
use crate::model::Basis;
use crate::prepare::{stage_plans, target_counts::check_plans};
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::train::column_sample;
use crate::{AnyModel, Error, Folds, Model, Result, Targets, Task};
use faer::{Mat, MatRef};
use kapprox::decompose::symmetric_eigenvalues;
use kapprox::landmark::{LandmarkSet, TableScan};
use kapprox::map::{LandmarkMapArgs, MapConstructor};
use kapprox::metric::MetricRows;
use kapprox::{FeatureMap, Kernel, MapSpec};
use kstore::{
    Label, LabelCodes, MemoryPlan, ReadSettings, RowSource, SelectedTable, Statistics, StatisticsReduction, TableRows,
};
use std::sync::Arc;

/// The comparison of new rows with the training rows of a model.
#[derive(Clone, Debug)]
pub struct ModelComparison {
    /// The statistic, its p-values, and the columns that differ most.
    pub outcome: TestOutcome,
    /// The groups of the new rows, in the order of their labels; empty without a group column.
    pub groups: Vec<GroupDifference>,
    /// The witness function, as a model whose score is its value.
    pub witness: AnyModel,
}

/// The difference of a group of new rows from the training rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GroupDifference {
    /// Label of the group.
    pub group: String,
    /// Number of rows.
    pub rows: u64,
    /// Squared distance of the mean of the group from the mean of the training rows.
    pub biased: f64,
    /// p-value by the limit distribution; `None` for constant features.
    pub p_value: Option<f64>,
    /// p-value corrected for the number of groups.
    pub corrected_p_value: Option<f64>,
    /// Mean of the witness function.
    pub witness: f64,
}

/// Rejects models that store no mean embedding on landmarks.
fn check_model(model: &Model<f64>) -> Result<()> {
    let metadata = &model.metadata;
    let reject = |why: &str| Err(Error::option("solver", &metadata.solver, why));
    if metadata.solver != "mean" {
        return reject("only models of fit mean store the mean of their training rows; fit mean on the old rows");
    }
    if metadata.sparse_shape().is_some() || model.basis.landmarks().is_none() || metadata.online_rows > 0 {
        return reject("the test needs dense rows and a map on landmarks, such as nystrom");
    }
    Ok(())
}

/// Compares the rows of a table with the training rows of a model of `mean`. `selected` has the
/// columns of the model, and possibly a group column.
///
/// # Errors
/// A model without a mean embedding; [`kstore::Error::OverBudget`] before the first pass if the
/// plan exceeds the memory; errors of reading the rows.
pub fn compare_with_model(
    model: AnyModel,
    selected: &SelectedTable,
    resources: &Resources<'_>,
) -> Result<ModelComparison> {
    let model = match model {
        AnyModel::F32(model) => model.into_f64(),
        AnyModel::F64(model) => model,
    };
    check_model(&model)?;
    let metadata = &model.metadata;
    let kernel = Kernel::parse(&metadata.kernel)?.resolve_for_rows(&metadata.features, None)?;
    let m = model.dims().0;
    let options = TrainOptions { candidates: Some(m), ..TrainOptions::new(Task::Components, kernel.clone(), m) };
    let unscaled = selected.rows::<f64>(ReadSettings::default())?;
    let size = ProblemSize {
        stores_features: true,
        ..ProblemSize::from_source(&scaled_rows(&model, selected, None)?, &options, resources.workers.threads(), 0, 1)?
    };
    let choose_tier = |pass_shape: PassShape| plan_features(&model, &size, pass_shape, resources);
    let (pass_shape, plans) =
        stage_plans::select_pass_shape(&size, &|pass_shape| choose_tier(pass_shape).1, resources.memory);
    let has_numbers = table_columns(selected).iter().any(|column| matches!(column, TableColumn::Number(..)));
    let tests_columns = !has_numbers || !metadata.distributions.is_empty();
    let sample_plan = tests_columns.then(|| column_sample::plan(&size, pass_shape, resources.memory));
    let planned_bytes = check_plans(plans.into_iter().chain(sample_plan).collect())?;
    let observer = resources.start_stage_over("statistics", unscaled.range());
    let pass = pass_shape.pass(pass_shape.scan_lanes, resources, &*observer);
    let statistics = pass.reduce(&unscaled, &StatisticsReduction::new(RowSource::shape(&unscaled)))?.0;
    drop(observer);
    require_rows("mmd of the new rows", 2, statistics.rows)?;
    statistics.check_label_counts("", selected.group_column().unwrap_or_default())?;
    let (column_tests, column_test_rows) = match tests_columns {
        true => test_columns(&model, selected, &statistics, pass_shape, resources)?,
        false => {
            let text = "the model does not store the distributions of its columns, because an earlier version wrote it or \
                it has more than 10,000 numeric columns; single columns are not tested: fit it again on the old rows";
            resources.stage_observer.warn(text.to_string());
            Default::default()
        }
    };
    let label_counts = statistics.groups.sorted_counts();
    let labels: Vec<Label> = label_counts.iter().map(|(label, _)| label.clone()).collect();
    let row_groups = RowGroups::new(selected, &label_counts)?;
    let source = scaled_rows(&model, selected, (!labels.is_empty()).then(|| Arc::new(labels)))?;
    let observer = resources.stage_observer.start_stage("map of the model", None);
    let map = landmark_map(&model, &kernel, &source, statistics.rows, pass_shape, resources)?;
    drop(observer);
    let (tier, _) = choose_tier(pass_shape);
    tier.warning(&size).into_iter().for_each(|text| resources.stage_observer.warn(text));
    let data = FitData {
        source: &source,
        scaled_source: &source,
        kernel: &kernel,
        map: &*map,
        second_feature_count: 0,
        targets: &Targets::Numeric { centre: Vec::new() },
        n: statistics.rows,
        weight_unit: 1.0,
        pass_shape,
        options: &options,
        resources,
        tier,
        spare_bytes: 0,
        folds: &Folds::None,
        points: SectionPoints::NoPoints,
    };
    let gather =
        GatherOptions { needs_moments: true, needs_groups: !label_counts.is_empty(), ..GatherOptions::default() };
    let (features, gathered) = StoredFeatures::gather(&data, gather)?;
    let moments = gathered.moments.as_ref().ok_or(Error::NoVariance)?;
    let comparison = MeanComparison::new(&model, &*map, &moments.folds()[0], statistics.rows, resources)?;
    let groups = comparison.groups(&data, &features, &row_groups)?;
    drop(features);
    let statistic = comparison.statistic(statistics.rows as f64);
    let passes = 2 + u64::from(tests_columns) + u64::from(tier == FeatureTier::Recomputed && !groups.is_empty());
    let witness = comparison.witness_model(&model, &*map, resources);
    Ok(ModelComparison {
        outcome: TestOutcome {
            statistic: TestStatistic {
                certificate: gathered.certificate.map(|state| state.checked_certificate(map.dims().1)).transpose()?,
                ..statistic
            },
            rows: vec![metadata.rows, statistics.rows],
            column_tests,
            column_test_rows,
            kernels: vec![kernel.to_string()],
            ranks: vec![map.dims().1],
            passes,
            planned_bytes,
        },
        groups,
        witness: AnyModel::F64(witness),
    })
}

/// Tests the columns of the new rows, and returns the numbers of tested rows of both sides.
fn test_columns(
    model: &Model<f64>,
    selected: &SelectedTable,
    statistics: &Statistics,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(Vec<ColumnDifference>, Vec<u64>)> {
    let metadata = &model.metadata;
    let sample = column_sample::draw(selected, statistics.rows, metadata.seed, pass_shape, resources)?;
    let tests = stored_column_tests(metadata, &model.scaler.mean, selected, statistics, &sample);
    let old_sample = column_sample::sample_rows(metadata.features.len()) as u64;
    Ok((tests, vec![old_sample.min(metadata.rows), sample.len() as u64]))
}

fn scaled_rows(
    model: &Model<f64>,
    selected: &SelectedTable,
    group_labels: Option<Arc<Vec<Label>>>,
) -> Result<MetricRows<TableRows<f64>>> {
    let scaler = Some(Arc::new(model.scaler.clone()));
    let rows = selected.rows::<f64>(ReadSettings { scaler, group_labels, ..ReadSettings::default() })?;
    Ok(MetricRows::new(rows, model.metric.clone()))
}

fn plan_features(
    model: &Model<f64>,
    size: &ProblemSize,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, MemoryPlan) {
    let p = size.map.p;
    let moment_bytes = features::STATES_PER_REDUCTION * GramState::bytes(p, 0, 1)
        + GramScratch::<f64>::bytes(p, 0, pass_shape.tile_rows, size.threads);
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let plan = stage_plans::plan_feature_pass("mmd", size, pass_shape, resources.memory)
        .term("model", 2 * model.bytes(), "fit a model of lower `rank`")
        .term("second moments", moment_bytes, "fit a model of lower `rank`")
        .term("covariance and its eigenvalues", 4 * 8 * p * p, "fit a model of lower `rank`")
        .term("groups of the rows", n.saturating_mul(12), "test fewer rows (`rows`)");
    FeatureTier::select(plan, size, resources)
}

/// Builds the feature map on the landmarks of the model.
fn landmark_map(
    model: &Model<f64>,
    kernel: &Kernel,
    source: &dyn RowSource<f64>,
    row_count: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Box<dyn FeatureMap<f64>>> {
    let (spec, (m, d, _)) = (MapSpec::default(), model.dims());
    let (Some((points, row_numbers)), MapConstructor::FromLandmarks(build_map)) =
        (model.basis.landmarks(), spec.constructor::<f64>())
    else {
        return Err(Error::NoVariance);
    };
    let landmarks =
        LandmarkSet { points: points.to_vec(), row_numbers: row_numbers.to_vec(), d, passes: 0, evaluations: 0 };
    let observer = kstore::pass::NoObserver;
    let scan = TableScan { source, pass: pass_shape.pass(pass_shape.scan_lanes, resources, &observer), row_count };
    Ok(build_map(LandmarkMapArgs {
        spec: &spec,
        kernel: &kernel.build()?,
        landmarks,
        rank: m,
        keeps_order: false,
        scan: &scan,
        seed: model.metadata.seed,
        workers: resources.workers,
    })?)
}

/// The means of the training rows and of the new rows in feature space, and the distribution of the
/// distance of two means.
struct MeanComparison {
    /// Mean of the training rows, p numbers.
    old_mean: Vec<f64>,
    /// Number of training rows.
    old_rows: f64,
    /// Mean of the new rows, p numbers.
    new_mean: Vec<f64>,
    /// Eigenvalues of the covariance of the new rows.
    eigenvalues: Vec<f64>,
    /// Variance of the witness function over the new rows.
    witness_variance: f64,
}

impl MeanComparison {
    fn new(
        model: &Model<f64>,
        map: &dyn FeatureMap<f64>,
        moments: &crate::gram::FoldGram,
        row_count: u64,
        resources: &Resources<'_>,
    ) -> Result<Self> {
        let ((points, _), (inputs, p)) = (model.basis.landmarks().ok_or(Error::NoVariance)?, map.dims());
        let m = model.coefficients.nrows();
        let mut phi = Mat::<f64>::zeros(m, p);
        map.apply(MatRef::from_row_major_slice(points, m, inputs), phi.as_mut(), resources.workers);
        // the model stores the coefficients of 2μ
        let old_mean: Vec<f64> =
            (0..p).map(|j| (0..m).map(|i| phi[(i, j)] * model.coefficients[(i, 0)] / 2.0).sum()).collect();
        let n = row_count as f64;
        let new_mean: Vec<f64> = moments.s.iter().map(|s| s / n).collect();
        let covariance = covariance(moments, &new_mean);
        let witness: Vec<f64> = old_mean.iter().zip(&new_mean).map(|(old, new)| old - new).collect();
        let witness_variance = (0..p)
            .map(|i| {
                let off_diagonal: f64 = (0..i).map(|j| covariance[(i, j)] * witness[j]).sum();
                witness[i] * (covariance[(i, i)] * witness[i] + 2.0 * off_diagonal)
            })
            .sum();
        let eigenvalues = symmetric_eigenvalues(covariance.as_ref())?;
        let eigenvalues = eigenvalues.iter().map(|value| value * n / (n - 1.0)).collect();
        Ok(Self { old_mean, old_rows: model.metadata.rows as f64, new_mean, eigenvalues, witness_variance })
    }

    /// Returns the squared distance of a mean from the mean of the training rows.
    fn squared_distance(&self, mean: &[f64]) -> f64 {
        self.old_mean.iter().zip(mean).map(|(old, new)| (old - new).powi(2)).sum()
    }

    /// Returns the p-value of a squared distance of the mean of `row_count` rows.
    fn spectrum_p_value(&self, squared_distance: f64, row_count: f64) -> Option<f64> {
        let scale = 1.0 / self.old_rows + 1.0 / row_count;
        ChiSquaredSum::from_weights(self.eigenvalues.iter().copied()).survival(squared_distance / scale)
    }

    fn statistic(&self, row_count: f64) -> TestStatistic {
        let biased = self.squared_distance(&self.new_mean);
        let scale = 1.0 / self.old_rows + 1.0 / row_count;
        let (trace, squares) =
            self.eigenvalues.iter().fold((0.0, 0.0), |(trace, squares), v| (trace + v, squares + v * v));
        let gamma = ChiSquaredSum::gamma(trace, 2.0 * squares).survival(biased / scale);
        let p_values = PValues { permutation: None, spectrum: self.spectrum_p_value(biased, row_count), gamma };
        let unbiased = biased - scale * trace;
        // the means differ by |μ − ν|², without its bias
        let deviation = self.witness_variance.max(0.0).sqrt();
        let witness_difference = (deviation > 0.0).then(|| unbiased.max(0.0) / deviation);
        TestStatistic { biased, unbiased, witness_difference, p_values, ..TestStatistic::default() }
    }

    /// Returns the weights of the witness function, and its intercept.
    fn witness(&self) -> (Vec<f64>, f64) {
        let weights: Vec<f64> = self.old_mean.iter().zip(&self.new_mean).map(|(old, new)| old - new).collect();
        let squared_norm = |mean: &[f64]| mean.iter().map(|v| v * v).sum::<f64>();
        (weights, -(squared_norm(&self.old_mean) - squared_norm(&self.new_mean)) / 2.0)
    }

    /// Returns the witness function as a model.
    fn witness_model(&self, model: &Model<f64>, map: &dyn FeatureMap<f64>, resources: &Resources<'_>) -> Model<f64> {
        let (weights, intercept) = self.witness();
        let weights = Mat::from_fn(weights.len(), 1, |i, _| weights[i]);
        let (basis, coefficients) = Basis::from_expansion(map.expand(weights.as_ref(), resources.workers), map);
        Model { basis, coefficients, intercept: vec![intercept], quadratic: None, ..model.clone() }
    }

    /// Compares every group of the new rows, in one pass over the features.
    fn groups(
        &self,
        data: &FitData<'_, f64>,
        features: &StoredFeatures<'_, f64>,
        RowGroups { group_of_label, groups: group_counts }: &RowGroups,
    ) -> Result<Vec<GroupDifference>> {
        if group_counts.is_empty() {
            return Ok(Vec::new());
        }
        let (p, observer) =
            (features.p, data.resources.stage_observer.start_stage("means of the groups", Some(data.n)));
        let mut sums = vec![0.0; p * group_counts.len()];
        features.visit(&*observer, |tile| {
            for i in 0..tile.row_count() {
                let label = features.group_codes[tile.first_row + i];
                if label != LabelCodes::UNKNOWN {
                    let group = group_of_label[label as usize];
                    sums[group * p..(group + 1) * p].iter_mut().zip(tile.row(i)).for_each(|(sum, v)| *sum += v);
                }
            }
            Ok(())
        })?;
        let (weights, intercept) = self.witness();
        let group_difference = |((name, rows), sums): (&(String, u64), &[f64])| {
            let mean: Vec<f64> = sums.iter().map(|sum| sum / *rows as f64).collect();
            let biased = self.squared_distance(&mean);
            GroupDifference {
                group: name.clone(),
                rows: *rows,
                biased,
                p_value: self.spectrum_p_value(biased, *rows as f64),
                corrected_p_value: None,
                witness: intercept + mean.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>(),
            }
        };
        let mut groups: Vec<GroupDifference> =
            group_counts.iter().zip(sums.chunks_exact(p)).map(group_difference).collect();
        let mut order: Vec<usize> = (0..groups.len()).filter(|i| groups[*i].p_value.is_some()).collect();
        let p_value = |i: &usize| groups[*i].p_value.unwrap_or(1.0);
        order.sort_by(|a, b| p_value(a).total_cmp(&p_value(b)));
        let corrected = holm(&order.iter().map(p_value).collect::<Vec<_>>());
        order.into_iter().zip(corrected).for_each(|(i, corrected)| groups[i].corrected_p_value = Some(corrected));
        Ok(groups)
    }
}
