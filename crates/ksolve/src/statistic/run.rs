//! The execution of a statistic on tables: scaling, maps and the memory plan.

use super::{Compares, Outcome, StatisticFamily, exact};
use crate::features::{self, FeatureTier, FitData, Points};
use crate::gram::{GramScratch, GramState};
use crate::prepare::landmarks::{Mapped, Mapping};
use crate::prepare::plan;
use crate::prepare::survey::{self, Survey};
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::train::prepared::check;
use crate::{Error, Folds, Result, Targets, Task};
use kapprox::{Kernel, Real};
use kstore::source::Chained;
use kstore::{Plan, Reading, RowSource, Selected, Statistics, StatisticsFold, TableRows};

/// The rows of a test.
#[derive(Clone, Copy, Debug)]
pub enum Compared<'a> {
    /// Two samples of the same columns.
    Samples(&'a Selected, &'a Selected),
    /// One sample with the columns of both kernels, each of which uses some of them.
    Columns(&'a Selected),
}

impl<'a> Compared<'a> {
    fn tables(self) -> Vec<&'a Selected> {
        match self {
            Self::Samples(first, second) => vec![first, second],
            Self::Columns(rows) => vec![rows],
        }
    }
}

/// Returns the default options of a statistic with a kernel: standard scaling, 300 landmarks by
/// randomly pivoted Cholesky among 50,000 rows, seed 0.
pub fn options(kernel: Kernel) -> TrainOptions {
    TrainOptions { candidates: Some(50_000), ..TrainOptions::new(Task::Components, kernel, 300) }
}

/// Measures a statistic and its p-values with the given number of permutations. The second columns
/// use the kernel of the second view, if given, otherwise the first kernel; two samples use one
/// kernel.
///
/// *Passes*: statistics; candidates, for each map that selects landmarks among some of the rows;
/// the passes of the statistic.
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the memory; invalid
/// rows, with their position; [`Error::TooFewFor`] for samples that are too small; errors of the
/// maps.
pub fn measure<T: Real>(
    family: &StatisticFamily,
    rows: Compared<'_>,
    options: &TrainOptions,
    permutations: usize,
    resources: &Resources<'_>,
) -> Result<Outcome> {
    let tables = rows.tables();
    check_samples(family, tables.len(), options)?;
    let with = options.with.as_ref().unwrap_or(&options.kernel);
    let with = (family.compares == Compares::Columns).then(|| with.clone());
    let training = TrainOptions { with, ..options.clone() };
    let unscaled = open::<T>(&tables, &Reading::default())?;
    let source = chain(&unscaled)?;
    options.kernel.check_features(source.shape().features)?;
    let shape = ProblemSize { keeps: true, ..ProblemSize::of(&source, &training, resources.workers.threads(), 0, 1)? };
    let stage = |cut: PassShape| match options.map.is_exact() {
        true => exact::plan(&shape, resources.memory, permutations),
        false => last::<T>(family, &shape, permutations, cut, resources).1,
    };
    let (cut, plans) = plan::cut(&shape, &stage, resources.memory);
    // without a map, only the rows are stored
    let plans =
        if options.map.is_exact() { vec![plan::scan(&shape, cut, resources.memory), stage(cut)] } else { plans };
    let planned_bytes = check(plans)?;
    let (survey, sizes) = survey(&tables, &training, cut, resources)?;
    let scaled = open::<T>(&tables, &survey.reading())?;
    let (source, rows, reading) = (&chain(&scaled)?, survey.rows(), survey.reading());
    let mapping = Mapping { source, n: rows, reading: &reading, options: &training, cut, resources };
    if options.map.is_exact() {
        let (kernel, passes) = mapping.kernel()?;
        let measured = exact::measure(&kernel, source, rows, sizes[0], cut, (training.seed, permutations), resources)?;
        let kernels = vec![kernel.to_string()];
        return Ok(Outcome { measured, rows: sizes, kernels, ranks: Vec::new(), passes: 2 + passes, planned_bytes });
    }
    let (keep, _) = last::<T>(family, &shape, permutations, cut, resources);
    keep.warning(&shape).into_iter().for_each(|text| resources.stages.warn(text));
    let Mapped { map, kernel, with, passes, .. } = mapping.map()?;
    let passes = 2 + passes + u64::from(keep == FeatureTier::Recomputed);
    let second = with.as_ref().map_or(0, |with| with.features);
    let (kernels, ranks): (Vec<String>, Vec<usize>) = std::iter::once((kernel.to_string(), map.dims().1 - second))
        .chain(with.map(|with| (with.kernel.to_string(), with.features)))
        .unzip();
    let division = match family.compares {
        Compares::Samples => usize::try_from(sizes[0]).unwrap_or(usize::MAX),
        Compares::Columns => ranks[0],
    };
    let features = FitData {
        source,
        kernel: &kernel,
        map: &*map,
        second,
        targets: &Targets::Numeric { centre: Vec::new() },
        rows,
        weight_unit: 1.0,
        cut,
        options: &training,
        resources,
        keep,
        spare: 0,
        folds: &Folds::None,
        points: Points::Map,
    };
    let measured = T::pick(family.measure)(&features, division, permutations)?;
    Ok(Outcome { measured, rows: sizes, kernels, ranks, passes, planned_bytes })
}

fn check_samples(family: &StatisticFamily, tables: usize, options: &TrainOptions) -> Result<()> {
    let (needed, two) = match family.compares {
        Compares::Samples => (2, "two tables"),
        Compares::Columns => (1, "two sets of columns of one table"),
    };
    if tables != needed {
        return Err(Error::option("rows", format!("{tables} tables"), format!("{} compares {two}", family.name)));
    }
    if options.map.is_exact() && family.compares == Compares::Columns {
        let remedy = format!(
            "{} needs a feature map; leave it out (at a `rank` equal to the number of rows the map is exact)",
            family.name
        );
        return Err(Error::option("map", "exact", remedy));
    }
    Ok(())
}

/// Returns the tier that stores the features, and the memory plan of the statistic's stage.
fn last<T: Real>(
    family: &StatisticFamily,
    shape: &ProblemSize,
    permutations: usize,
    cut: PassShape,
    resources: &Resources<'_>,
) -> (FeatureTier, Plan) {
    let p = shape.map.p;
    let moments = features::STATES * GramState::bytes(p, 0, 1) + GramScratch::<T>::bytes(p, 0, cut.tile, shape.threads);
    let plan =
        plan::pass_features(family.name, shape, cut, resources.memory).term("second moments", moments, "lower `rank`");
    let plan = (family.plan)(plan, shape, cut, permutations);
    if family.keeps && permutations > 0 {
        let rows = usize::try_from(shape.n).unwrap_or(usize::MAX);
        let bytes = rows.saturating_mul(p).saturating_mul(shape.element);
        return (
            FeatureTier::Memory,
            plan.term("features of all rows", bytes, "lower `rank`, or set `permutations` 0"),
        );
    }
    FeatureTier::choose(plan, shape, resources)
}

fn open<T: Real>(tables: &[&Selected], reading: &Reading) -> Result<Vec<TableRows<T>>> {
    tables.iter().map(|table| Ok(table.rows::<T>(reading.clone())?)).collect()
}

fn chain<T: Real>(rows: &[TableRows<T>]) -> Result<Chained<'_, T>> {
    Ok(Chained::new(rows.iter().map(|rows| rows as &dyn RowSource<T>).collect())?)
}

/// Computes the scaling of the features and the number of rows of every table, in one pass over
/// each.
fn survey(
    tables: &[&Selected],
    training: &TrainOptions,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<(Survey, Vec<u64>)> {
    let (mut total, mut sizes): (Option<Statistics>, Vec<u64>) = (None, Vec::new());
    for table in tables {
        let source = table.rows::<f64>(Reading::default())?;
        let observer = resources.over("scaling statistics", source.range());
        let fold = StatisticsFold::new(RowSource::shape(&source));
        let statistics = cut.pass(cut.scan_lanes, resources, &*observer).fold(&source, &fold)?.0;
        sizes.push(statistics.rows);
        match &mut total {
            Some(total) => kstore::Merge::merge(total, &statistics),
            None => total = Some(statistics),
        }
    }
    let total = total.unwrap_or_default();
    let draw = |rows: u64| survey::drawn(&chain(&open(tables, &Reading::default())?)?, rows, training, cut, resources);
    Ok((survey::of(total, tables[0], training, resources.stages, &draw)?, sizes))
}
