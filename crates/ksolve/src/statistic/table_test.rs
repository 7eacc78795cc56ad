//! The execution of a statistic on tables: scaling, maps and the memory plan.

use super::{SampleKind, StatisticFamily, TestOutcome, exact_mmd};
use crate::features::{self, FeatureTier, FitData, SectionPoints};
use crate::gram::{GramScratch, GramState};
use crate::prepare::map_builder::{BuiltMap, MapBuilder};
use crate::prepare::stage_plans;
use crate::prepare::survey::{self, Survey};
use crate::prepare::target_counts::check_plans;
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::{Error, Folds, Result, Targets, Task};
use kapprox::{Kernel, Real};
use kstore::source::ChainedRows;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable, Statistics, StatisticsReduction, TableRows};

/// The rows of a test.
#[derive(Clone, Copy, Debug)]
pub enum TestInput<'a> {
    /// Two samples of the same columns.
    Samples(&'a SelectedTable, &'a SelectedTable),
    /// One sample with the columns of both kernels; each kernel uses some of the columns.
    Columns(&'a SelectedTable),
}

impl<'a> TestInput<'a> {
    fn tables(self) -> Vec<&'a SelectedTable> {
        match self {
            Self::Samples(first, second) => vec![first, second],
            Self::Columns(rows) => vec![rows],
        }
    }
}

/// Returns the default options of a statistic with a kernel: standard scaling, 300 landmarks by
/// randomly pivoted Cholesky among 50,000 rows, seed 0.
pub fn default_options(kernel: Kernel) -> TrainOptions {
    TrainOptions { candidates: Some(50_000), ..TrainOptions::new(Task::Components, kernel, 300) }
}

/// Measures a statistic and its p-values with the given number of permutations. Two samples use the
/// same kernel. For two sets of columns, the second set uses the kernel of the second view; if no
/// such kernel is given, both sets use the first kernel.
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
    permutations: usize,
    resources: &Resources<'_>,
) -> Result<TestOutcome> {
    let tables = input.tables();
    check_samples(family, tables.len(), options)?;
    let second_kernel = options.second_kernel.as_ref().unwrap_or(&options.kernel);
    let second_kernel = (family.compares == SampleKind::Columns).then(|| second_kernel.clone());
    let training = TrainOptions { second_kernel, ..options.clone() };
    let unscaled = open::<T>(&tables, &ReadSettings::default())?;
    let source = chain(&unscaled)?;
    options.kernel.check_input_count(source.shape().inputs)?;
    let size = ProblemSize {
        stores_features: true,
        ..ProblemSize::from_source(&source, &training, resources.workers.threads(), 0, 1)?
    };
    let stage = |pass_shape: PassShape| match options.map.is_exact() {
        true => exact_mmd::plan(&size, resources.memory, permutations),
        false => plan_features::<T>(family, &size, permutations, pass_shape, resources).1,
    };
    let (pass_shape, plans) = stage_plans::choose_pass_shape(&size, &stage, resources.memory);
    // without a map, only the rows are stored
    let plans = if options.map.is_exact() {
        vec![stage_plans::plan_scan(&size, pass_shape, resources.memory), stage(pass_shape)]
    } else {
        plans
    };
    let planned_bytes = check_plans(plans)?;
    let (survey, sizes) = survey(&tables, &training, pass_shape, resources)?;
    let scaled = open::<T>(&tables, &survey.reading())?;
    let (source, rows, reading) = (&chain(&scaled)?, survey.rows(), survey.reading());
    let mapping = MapBuilder { source, n: rows, reading: &reading, options: &training, pass_shape, resources };
    if options.map.is_exact() {
        let (kernel, passes) = mapping.resolve_kernel()?;
        let measured =
            exact_mmd::measure(&kernel, source, rows, sizes[0], pass_shape, (training.seed, permutations), resources)?;
        let kernels = vec![kernel.to_string()];
        return Ok(TestOutcome {
            statistic: measured,
            rows: sizes,
            kernels,
            ranks: Vec::new(),
            passes: 2 + passes,
            planned_bytes,
        });
    }
    let (tier, _) = plan_features::<T>(family, &size, permutations, pass_shape, resources);
    tier.warning(&size).into_iter().for_each(|text| resources.stage_observer.warn(text));
    let BuiltMap { map, kernel, second_view, passes, .. } = mapping.build()?;
    let passes = 2 + passes + u64::from(tier == FeatureTier::Recomputed);
    let second = second_view.as_ref().map_or(0, |view| view.features);
    let (kernels, ranks): (Vec<String>, Vec<usize>) = std::iter::once((kernel.to_string(), map.dims().1 - second))
        .chain(second_view.map(|view| (view.kernel.to_string(), view.features)))
        .unzip();
    let division = match family.compares {
        SampleKind::Samples => usize::try_from(sizes[0]).unwrap_or(usize::MAX),
        SampleKind::Columns => ranks[0],
    };
    let features = FitData {
        source,
        kernel: &kernel,
        map: &*map,
        second_features: second,
        targets: &Targets::Numeric { centre: Vec::new() },
        rows,
        weight_unit: 1.0,
        pass_shape,
        options: &training,
        resources,
        tier,
        spare_bytes: 0,
        folds: &Folds::None,
        points: SectionPoints::Map,
    };
    let measured = T::pick(family.measure)(&features, division, permutations)?;
    Ok(TestOutcome { statistic: measured, rows: sizes, kernels, ranks, passes, planned_bytes })
}

fn check_samples(family: &StatisticFamily, tables: usize, options: &TrainOptions) -> Result<()> {
    let (needed, two) = match family.compares {
        SampleKind::Samples => (2, "two tables"),
        SampleKind::Columns => (1, "two sets of columns of one table"),
    };
    if tables != needed {
        return Err(Error::option("rows", format!("{tables} tables"), format!("{} compares {two}", family.name)));
    }
    if options.map.is_exact() && family.compares == SampleKind::Columns {
        let remedy = format!(
            "{} needs a feature map; leave it out (at a `rank` equal to the number of rows the map is exact)",
            family.name
        );
        return Err(Error::option("map", "exact", remedy));
    }
    Ok(())
}

/// Returns the tier that stores the features, and the memory plan of the statistic's stage.
fn plan_features<T: Real>(
    family: &StatisticFamily,
    size: &ProblemSize,
    permutations: usize,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, MemoryPlan) {
    let p = size.map.p;
    let moments = features::STATES_PER_FOLD * GramState::bytes(p, 0, 1)
        + GramScratch::<T>::bytes(p, 0, pass_shape.tile, size.threads);
    let plan = stage_plans::plan_feature_pass(family.name, size, pass_shape, resources.memory).term(
        "second moments",
        moments,
        "lower `rank`",
    );
    let plan = (family.plan)(plan, size, pass_shape, permutations);
    if family.stores_features && permutations > 0 {
        let rows = usize::try_from(size.n).unwrap_or(usize::MAX);
        let bytes = rows.saturating_mul(p).saturating_mul(size.element_bytes);
        return (
            FeatureTier::Memory,
            plan.term("features of all rows", bytes, "lower `rank`, or set `permutations` 0"),
        );
    }
    FeatureTier::choose(plan, size, resources)
}

fn open<T: Real>(tables: &[&SelectedTable], reading: &ReadSettings) -> Result<Vec<TableRows<T>>> {
    tables.iter().map(|table| Ok(table.rows::<T>(reading.clone())?)).collect()
}

fn chain<T: Real>(rows: &[TableRows<T>]) -> Result<ChainedRows<'_, T>> {
    Ok(ChainedRows::new(rows.iter().map(|rows| rows as &dyn RowSource<T>).collect())?)
}

/// Computes the scaling of the features and the number of rows of every table, in one pass over
/// each.
fn survey(
    tables: &[&SelectedTable],
    training: &TrainOptions,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(Survey, Vec<u64>)> {
    let (mut total, mut sizes): (Option<Statistics>, Vec<u64>) = (None, Vec::new());
    for table in tables {
        let source = table.rows::<f64>(ReadSettings::default())?;
        let observer = resources.stage_over("scaling statistics", source.range());
        let fold = StatisticsReduction::new(RowSource::shape(&source));
        let statistics = pass_shape.pass(pass_shape.scan_lanes, resources, &*observer).reduce(&source, &fold)?.0;
        sizes.push(statistics.rows);
        match &mut total {
            Some(total) => kstore::Merge::merge(total, &statistics),
            None => total = Some(statistics),
        }
    }
    let total = total.unwrap_or_default();
    let draw = |rows: u64| {
        survey::draw_median_rows(
            &chain(&open(tables, &ReadSettings::default())?)?,
            rows,
            training,
            pass_shape,
            resources,
        )
    };
    Ok((survey::survey_of_statistics(total, tables[0], training, resources.stage_observer, &draw)?, sizes))
}
