//! The execution of a statistic on tables: scaling, maps and the memory plan.

use super::column_tests::{self, ColumnTests};
use super::conditional_hsic::{self, Conditioning};
use super::{SampleKind, StatisticFamily, TestOutcome, aggregated_mmd, exact_mmd};
use crate::features::{self, FeatureTier, FitData, SectionPoints};
use crate::gram::{GramScratch, GramState};
use crate::prepare::map_builder::{BuiltMap, MapBuilder};
use crate::prepare::stage_plans;
use crate::prepare::survey::{self, Survey};
use crate::prepare::target_counts::check_plans;
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::stacked_maps::StackedMaps;
use crate::{Error, Folds, Result, Targets, Task};
use kapprox::{FeatureMap, Kernel, Real};
use kstore::source::ChainedRows;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable, Statistics, StatisticsReduction, TableRows};

/// The rows of a test.
#[derive(Clone, Copy, Debug)]
pub enum TestInput<'a> {
    /// Two samples of the same columns.
    Samples(&'a SelectedTable, &'a SelectedTable),
    /// Two samples of the same columns, compared with several kernels, each with several length
    /// scales. Their p-values are aggregated. The kernel of the options is not used.
    #[doc(hidden)]
    Aggregated(&'a SelectedTable, &'a SelectedTable, &'a [Kernel]),
    /// One sample with the columns of both kernels; each kernel uses some of the columns.
    Columns(&'a SelectedTable),
    /// One sample with the columns of three kernels: the test is whether the first two sets of
    /// columns are independent, given the third.
    #[doc(hidden)]
    Conditional(&'a SelectedTable, &'a Conditioning),
}

impl<'a> TestInput<'a> {
    fn tables(self) -> Vec<&'a SelectedTable> {
        match self {
            Self::Samples(first, second) | Self::Aggregated(first, second, _) => vec![first, second],
            Self::Columns(rows) | Self::Conditional(rows, _) => vec![rows],
        }
    }

    /// Returns the kernels of an aggregated test; `None` for other tests.
    fn aggregated_kernels(self) -> Option<&'a [Kernel]> {
        if let Self::Aggregated(_, _, kernels) = self { Some(kernels) } else { None }
    }

    fn conditioning(self) -> Option<&'a Conditioning> {
        if let Self::Conditional(_, conditioning) = self { Some(conditioning) } else { None }
    }
}

/// Returns the default options of a statistic with a kernel: standard scaling, 300 landmarks by
/// randomly pivoted Cholesky among 50,000 rows, seed 0.
pub fn default_options(kernel: Kernel) -> TrainOptions {
    TrainOptions { candidates: Some(50_000), ..TrainOptions::new(Task::Components, kernel, 300) }
}

/// Measures a statistic and its p-values with the given number of permutations. Two samples use the
/// same kernel. For two sets of columns, the second set uses the kernel of the second view; if no
/// such kernel is given, both sets use the first kernel. A test of conditional independence has no
/// permutations.
///
/// *Passes*: one for the statistics of the columns; one for the candidates of each map that selects
/// landmarks among some of the rows; the passes of the statistic.
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the memory. An invalid
/// row (the error names its position); [`Error::TooFewRowsFor`] for samples that are too small;
/// errors of the maps.
pub fn measure<T: Real>(
    family: &StatisticFamily,
    input: TestInput<'_>,
    options: &TrainOptions,
    permutation_count: usize,
    resources: &Resources<'_>,
) -> Result<TestOutcome> {
    let tables = input.tables();
    let (conditioning, aggregated_kernels) = (input.conditioning(), input.aggregated_kernels());
    check_samples(family, input, options)?;
    aggregated_kernels.map_or(Ok(()), |_| aggregated_mmd::check(options, permutation_count))?;
    let second_kernel = options.second_kernel.as_ref().unwrap_or(&options.kernel);
    let second_kernel = (family.sample_kind == SampleKind::Columns).then(|| second_kernel.clone());
    let train_options = TrainOptions { second_kernel, ..options.clone() };
    let unscaled = open_rows::<T>(&tables, &ReadSettings::default())?;
    let source = chain_rows(&unscaled)?;
    for kernel in aggregated_kernels.unwrap_or(std::slice::from_ref(&options.kernel)) {
        kernel.check_input_count(source.shape().input_count)?;
    }
    let given_options =
        conditioning.map(|conditioning| conditioning.train_options(options)).unwrap_or_else(|| options.clone());
    let size_of =
        |options: &TrainOptions| ProblemSize::from_source(&source, options, resources.workers.threads(), 0, 1);
    let size = ProblemSize { stores_features: true, ..size_of(&train_options)? };
    let size = match (conditioning, aggregated_kernels) {
        (Some(_), _) => conditional_hsic::with_given_map(size, &size_of(&given_options)?),
        (None, Some(kernels)) => aggregated_mmd::with_all_maps(size, kernels),
        (None, None) => size,
    };
    let plan_stage = |pass_shape: PassShape| match options.map.is_exact_kernel() {
        true => exact_mmd::plan(&size, resources.memory, permutation_count),
        false => plan_features::<T>(family, input, &size, permutation_count, pass_shape, resources).1,
    };
    let (pass_shape, plans) = stage_plans::select_pass_shape(&size, &plan_stage, resources.memory);
    // without a map, only the rows are stored
    let mut plans = if options.map.is_exact_kernel() {
        vec![stage_plans::plan_scan(&size, pass_shape, resources.memory), plan_stage(pass_shape)]
    } else {
        plans
    };
    let mut columns_per_pass = 1;
    if family.sample_kind == SampleKind::Samples {
        let (plan, columns) = column_tests::plan(tables[0], &size, pass_shape, resources.memory);
        plans.push(plan);
        columns_per_pass = columns;
    }
    let planned_bytes = check_plans(plans)?;
    let (survey, statistics) = survey(&tables, &train_options, pass_shape, resources)?;
    let row_counts: Vec<u64> = statistics.iter().map(|statistics| statistics.rows).collect();
    let column_tests = match (&tables[..], &statistics[..]) {
        ([first, second], [first_statistics, second_statistics]) => column_tests::column_tests(
            [first, second],
            [first_statistics, second_statistics],
            columns_per_pass,
            options.seed,
            pass_shape,
            resources,
        )?,
        _ => ColumnTests::default(),
    };
    drop(statistics);
    let ColumnTests { columns: column_tests, rows: column_test_rows, passes: column_passes } = column_tests;
    let scaled = open_rows::<T>(&tables, &survey.read_settings())?;
    let (source, row_count, read_settings) = (&chain_rows(&scaled)?, survey.row_count(), survey.read_settings());
    let builder = MapBuilder {
        source,
        n: row_count,
        read_settings: &read_settings,
        options: &train_options,
        pass_shape,
        resources,
    };
    if options.map.is_exact_kernel() {
        let (kernel, passes) = builder.resolve_kernel()?;
        let statistic = exact_mmd::measure(
            &kernel,
            source,
            row_count,
            row_counts[0],
            pass_shape,
            train_options.seed,
            permutation_count,
            resources,
        )?;
        let kernels = vec![kernel.to_string()];
        return Ok(TestOutcome {
            statistic,
            rows: row_counts,
            column_tests,
            column_test_rows,
            kernels,
            ranks: Vec::new(),
            passes: 2 + column_passes + passes,
            planned_bytes,
        });
    }
    let (tier, _) = plan_features::<T>(family, input, &size, permutation_count, pass_shape, resources);
    tier.warning(&size).into_iter().for_each(|text| resources.stage_observer.warn(text));
    let mut maps = match aggregated_kernels {
        Some(kernels) => aggregated_mmd::build_maps(kernels, &builder)?,
        None => builder.build()?.into(),
    };
    // recomputed features are read for the permutations, and for the auc of two samples
    let recomputed_passes = if tier == FeatureTier::Recomputed { tables.len() as u64 } else { 0 };
    let second_feature_count = match family.sample_kind {
        SampleKind::Samples => 0,
        SampleKind::Columns => maps.ranks[1],
    };
    if conditioning.is_some() {
        let given = MapBuilder { options: &given_options, ..builder }.build()?;
        maps.kernels.push(given.kernel);
        maps.ranks.push(given.map.dims().1);
        maps.passes += given.passes;
        maps.map = Box::new(StackedMaps(vec![maps.map, given.map]));
    }
    let TestMaps { map, kernels, ranks, passes } = maps;
    let passes = 2 + column_passes + passes + recomputed_passes;
    let split_point = match family.sample_kind {
        SampleKind::Samples => usize::try_from(row_counts[0]).unwrap_or(usize::MAX),
        SampleKind::Columns => ranks[0],
    };
    let fit_data = FitData {
        source,
        scaled_source: source,
        kernel: &kernels[0],
        map: &*map,
        second_feature_count,
        targets: &Targets::Numeric { centre: Vec::new() },
        n: row_count,
        weight_unit: 1.0,
        pass_shape,
        options: &train_options,
        resources,
        tier,
        spare_bytes: 0,
        folds: &Folds::None,
        points: SectionPoints::NoPoints,
    };
    let statistic = match (conditioning, aggregated_kernels) {
        (Some(conditioning), _) => conditional_hsic::measure(&fit_data, [ranks[0], ranks[1]], conditioning)?,
        (None, Some(_)) => aggregated_mmd::measure(&fit_data, split_point, permutation_count, &ranks)?,
        (None, None) => T::pick(family.measure)(&fit_data, split_point, permutation_count)?,
    };
    Ok(TestOutcome {
        statistic,
        rows: row_counts,
        column_tests,
        column_test_rows,
        kernels: kernels.iter().map(ToString::to_string).collect(),
        ranks,
        passes,
        planned_bytes,
    })
}

/// The maps of a test, whose features are concatenated.
pub(super) struct TestMaps<T: Real> {
    pub(super) map: Box<dyn FeatureMap<T>>,
    /// Kernel of each map.
    pub(super) kernels: Vec<Kernel>,
    /// Number of features of each map.
    pub(super) ranks: Vec<usize>,
    pub(super) passes: u64,
}

/// Returns the map of one view, or the maps of two views.
impl<T: Real> From<BuiltMap<T>> for TestMaps<T> {
    fn from(BuiltMap { map, kernel, second_view, passes, .. }: BuiltMap<T>) -> Self {
        let first_rank = map.dims().1 - second_view.as_ref().map_or(0, |view| view.feature_count);
        let (kernels, ranks) = std::iter::once((kernel, first_rank))
            .chain(second_view.map(|view| (view.kernel, view.feature_count)))
            .unzip();
        Self { map, kernels, ranks, passes }
    }
}

fn check_samples(family: &StatisticFamily, input: TestInput<'_>, options: &TrainOptions) -> Result<()> {
    let table_count = input.tables().len();
    if input.conditioning().is_some() && family.name != conditional_hsic::STATISTIC {
        return Err(Error::option("given", "", "only hsic tests conditional independence; leave it out"));
    }
    let (needed_count, compared) = match family.sample_kind {
        SampleKind::Samples => (2, "two tables"),
        SampleKind::Columns => (1, "two sets of columns of one table"),
    };
    if table_count != needed_count {
        return Err(Error::option(
            "rows",
            format!("{table_count} tables"),
            format!("{} compares {compared}", family.name),
        ));
    }
    if options.map.is_exact_kernel() && family.sample_kind == SampleKind::Columns {
        let why = format!(
            "{} needs a feature map; leave it out (at a `rank` equal to the number of rows the map is exact)",
            family.name
        );
        return Err(Error::option("map", "exact", why));
    }
    Ok(())
}

/// Returns the tier that stores the features, and the memory plan of the statistic's stage.
fn plan_features<T: Real>(
    family: &StatisticFamily,
    input: TestInput<'_>,
    size: &ProblemSize,
    permutation_count: usize,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, MemoryPlan) {
    let p = size.map.p;
    let moment_bytes = features::STATES_PER_REDUCTION * GramState::bytes(p, 0, 1)
        + GramScratch::<T>::bytes(p, 0, pass_shape.tile_rows, size.threads);
    let plan = stage_plans::plan_feature_pass(family.name, size, pass_shape, resources.memory).term(
        "second moments",
        moment_bytes,
        "lower `rank`",
    );
    if let Some(conditioning) = input.conditioning() {
        return FeatureTier::select(conditional_hsic::plan::<T>(plan, size, conditioning), size, resources);
    }
    let plan = (family.plan)(plan, size, pass_shape, permutation_count);
    let plan = match input.aggregated_kernels() {
        Some(kernels) => aggregated_mmd::plan(plan, kernels, permutation_count),
        None => plan,
    };
    if family.stores_features && permutation_count > 0 {
        let row_count = usize::try_from(size.n).unwrap_or(usize::MAX);
        let feature_bytes = row_count.saturating_mul(p).saturating_mul(size.element_bytes);
        return (
            FeatureTier::Memory,
            plan.term("features of all rows", feature_bytes, "lower `rank`, or set `permutations` 0"),
        );
    }
    FeatureTier::select(plan, size, resources)
}

fn open_rows<T: Real>(tables: &[&SelectedTable], read_settings: &ReadSettings) -> Result<Vec<TableRows<T>>> {
    tables.iter().map(|table| Ok(table.rows::<T>(read_settings.clone())?)).collect()
}

fn chain_rows<T: Real>(rows: &[TableRows<T>]) -> Result<ChainedRows<'_, T>> {
    Ok(ChainedRows::new(rows.iter().map(|rows| rows as &dyn RowSource<T>).collect())?)
}

/// Computes the scaling of the features and the statistics of every table, in one pass over each.
fn survey(
    tables: &[&SelectedTable],
    train_options: &TrainOptions,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(Survey, Vec<Statistics>)> {
    let (mut total, mut by_table): (Option<Statistics>, Vec<Statistics>) = (None, Vec::new());
    for table in tables {
        let source = table.rows::<f64>(ReadSettings::default())?;
        let observer = resources.start_stage_over("scaling statistics", source.range());
        let reduction = StatisticsReduction::new(RowSource::shape(&source));
        let statistics = pass_shape.pass(pass_shape.scan_lanes, resources, &*observer).reduce(&source, &reduction)?.0;
        match &mut total {
            Some(total) => kstore::Merge::merge(total, &statistics),
            None => total = Some(statistics.clone()),
        }
        by_table.push(statistics);
    }
    let total = total.unwrap_or_default();
    let draw_median_rows = |row_count: u64| {
        survey::draw_median_rows(
            &chain_rows(&open_rows(tables, &ReadSettings::default())?)?,
            row_count,
            train_options,
            pass_shape,
            resources,
        )
    };
    Ok((
        survey::survey_of_statistics(total, tables[0], train_options, resources.stage_observer, &draw_median_rows)?,
        by_table,
    ))
}
