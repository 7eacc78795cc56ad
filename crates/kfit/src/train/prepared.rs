//! The preparation common to all solvers: statistics, scaled rows, targets, and the feature map.

use crate::features::{FeatureTier, FitData, Points};
use crate::metric::{self, Learned, LengthReport, MetricRequest};
use crate::prepare::landmarks::{Mapped, Mapping};
use crate::prepare::survey::{Survey, survey, warn_of_classes};
use crate::prepare::whole;
use crate::request::{LandmarkSource, PassShape, ProblemSize, Resources, RowAccess, TrainOptions};
use crate::{Classes, Folds, Result, Targets, Task, solver::SolverFacts};
use kapprox::Real;
use kapprox::metric::MetricRows;
use kstore::pass::lanes::{self, Lane};
use kstore::scratch::Cache;
use kstore::statistics::{GROUP_LIMIT, LABEL_BYTES, LABEL_LIMIT, LabelCounts, Statistics};
use kstore::{MemoryRows, Pass, Plan, Reading, RowSource, Selected, StatisticsFold, TableRows};

#[doc(hidden)]
#[derive(Debug)]
pub struct Prepared<T: Real> {
    pub survey: Survey,
    pub folds: Folds,
    pub targets: Targets,
    pub mapped: Mapped<T>,
    pub cut: PassShape,
    /// Planned bytes of memory, of the largest stage.
    pub planned_bytes: usize,
    /// Options, with the metric resolved.
    pub options: TrainOptions,
    pub learned: Option<Learned>,
    pub length: Option<LengthReport>,
    rows: MetricRows<TableRows<T>>,
    cache: Option<Cache<T>>,
    /// All rows, for a solver that combines their kernel sections.
    memory: Option<MemoryRows<T>>,
}

impl<T: Real> Prepared<T> {
    /// The scaled rows, from scratch if they are cached there.
    pub fn source(&self) -> &dyn RowSource<T> {
        match (&self.memory, &self.cache) {
            (Some(memory), _) => memory,
            (None, Some(cache)) => cache,
            (None, None) => &self.rows,
        }
    }

    pub(crate) fn points<'p>(&'p self, shape: &'p ProblemSize) -> Points<'p, T> {
        match (&self.mapped.set, &self.memory) {
            (Some(set), _) => Points::Landmarks(set, shape),
            (None, Some(rows)) => Points::Rows(rows, shape, self.survey.reading()),
            (None, None) => Points::Map,
        }
    }

    /// Returns the solver's input; `tier` is the storage of the features, and `plan` the solver's
    /// memory plan.
    pub fn features<'p>(
        &'p self,
        keep: FeatureTier,
        plan: &Plan,
        points: Points<'p, T>,
        resources: &'p Resources<'p>,
    ) -> FitData<'p, T> {
        FitData {
            source: self.source(),
            kernel: &self.mapped.kernel,
            map: &*self.mapped.map,
            second: self.mapped.with.as_ref().map_or(0, |with| with.features),
            targets: &self.targets,
            rows: self.survey.rows(),
            weight_unit: self.survey.weight_unit(),
            cut: self.cut,
            options: &self.options,
            resources,
            keep,
            spare: plan.budget.saturating_sub(plan.bytes()),
            folds: &self.folds,
            points,
        }
    }

    /// Holds out only rows that were not used to learn the metric, if the solver supports it; else
    /// warns that held-out errors are too small.
    pub(crate) fn hold_out(&mut self, facts: SolverFacts, resources: &Resources<'_>) {
        let learned = self.learned.as_ref().filter(|learned| learned.metric.is_some() && self.folds.count() > 1);
        match learned.map(|learned| &learned.judged) {
            Some(Some(judged)) if facts.forward => self.folds = self.folds.only(judged.fold),
            Some(_) => resources.stages.warn(
                "the metric was learned from the rows of all folds: cross-validation errors are smaller than errors on new rows"
                    .to_string(),
            ),
            None => {}
        }
    }

    #[doc(hidden)]
    pub fn passes(&self) -> u64 {
        1 + self.learned.as_ref().map_or(0, |learned| learned.passes)
            + u64::from(self.length.is_some())
            + u64::from(self.cache.is_some())
            + self.mapped.passes
    }
}

/// Number of rows of a tile of labels, which are narrow; a segment has 16 tiles, as in passes over
/// whole rows.
const LABELS: usize = lanes::SEGMENT as usize / 16;

/// Returns the numbers of targets and of folds. First counts classes and fold labels, in a pass
/// over these columns only.
///
/// Also counts labels of rows that are later dropped because an input is missing; the survey counts
/// the remaining rows and rejects too few labels.
pub fn known(selected: &Selected, options: &TrainOptions, resources: &Resources<'_>) -> Result<(usize, usize)> {
    let found = selected.labels().map(|labels| count(&labels, resources)).transpose()?.unwrap_or_default();
    let labels = |counts: &LabelCounts| counts.sorted().into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    let t = match options.task {
        Task::Classification => Classes::new(labels(&found.classes)).map_or(1, |classes| classes.targets()),
        _ => selected.target_names().len(),
    };
    let folds = Folds::new(&options.folds, options.seed, selected.range(), &labels(&found.groups));
    Ok((t, folds.map_or(1, |folds| folds.count())))
}

/// Counts labels whatever the budget, with at least one lane, so that a rejected plan can report
/// the required memory.
pub fn count(labels: &Selected, resources: &Resources<'_>) -> Result<Statistics> {
    let (source, workers) = (labels.rows::<f64>(Reading::default())?, resources.workers);
    let most = LABEL_LIMIT + labels.group_name().map_or(0, |_| GROUP_LIMIT);
    let lane = Lane { tile: LABELS, name: "labels", bytes: most * LABEL_BYTES, shared: Vec::new() };
    let lanes = lanes::lanes("the count of labels", &source, &lane, resources.memory, workers.threads());
    let observer = resources.over("labels", labels.range());
    let pass = lanes::scan(lanes.map_or(1, |lanes| lanes.count), workers, &*observer);
    let pass = Pass { tile: LABELS, journal: resources.journal, ..pass };
    let found = pass.resume("labels", &source, &StatisticsFold::new(source.shape()))?.0;
    found.check(labels.class_name().unwrap_or_default(), labels.group_name().unwrap_or_default())?;
    Ok(found)
}

/// Rejects a plan that exceeds the budget; returns the bytes of its largest stage.
pub fn check(mut plans: Vec<Plan>) -> Result<usize> {
    // the largest stage first, because its terms show what to lower
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.bytes()));
    let largest = plans.first().map_or(0, Plan::bytes);
    plans.into_iter().try_for_each(|plan| plan.check().map(drop))?;
    Ok(largest)
}

/// Computes statistics, scaling, landmarks and map in passes of this shape, after checking the
/// plans.
pub fn prepare<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    view: RowAccess,
    resources: &Resources<'_>,
    (cut, plans): (PassShape, Vec<Plan>),
) -> Result<Prepared<T>> {
    let planned_bytes = check(plans)?;
    let survey = survey(selected, options, cut, resources)?;
    warn_of_classes(selected, &survey.statistics, options.task, resources.stages);
    let folds = Folds::new(&options.folds, options.seed, selected.range(), &survey.groups)?;
    let targets = survey.targets_of_regression();
    let (n, reading) = (survey.rows(), survey.reading());
    let table: TableRows<T> = selected.rows(reading.clone())?;
    let request =
        MetricRequest { source: &table, survey: &survey, targets: &targets, options, resources, enough: &|_| false };
    let (options, learned) = metric::settle(&request)?;
    let rows = MetricRows::new(table, options.metric.known().cloned());
    let cache = if view == RowAccess::Rows { None } else { cached_rows(&rows, cut, resources)? };
    let read: &dyn RowSource<T> = cache.as_ref().map_or(&rows, |cache| cache);
    let (options, length) = metric::settle_length(read, &survey, &targets, &options, cut, resources)?;
    let options = &options;
    let load = || whole::load(&rows, (&targets, survey.weight_unit()), n, cut, resources);
    let memory = (view == RowAccess::Rows).then(load).transpose()?;
    let source = memory.as_ref().map_or(read, |memory| memory);
    let mapping = Mapping { source, n, reading: &reading, options, cut, resources };
    let mapped = match view {
        RowAccess::Rows => mapping.of_rows()?,
        RowAccess::Landmarks => mapping.unmapped()?,
        RowAccess::Features => mapping.map()?,
    };
    warn_of_rank(&mapped, &survey, options, resources);
    let options = options.clone();
    Ok(Prepared { survey, folds, targets, mapped, cut, planned_bytes, options, learned, length, rows, cache, memory })
}

/// Warns if the landmarks span fewer features than requested.
fn warn_of_rank<T: Real>(mapped: &Mapped<T>, survey: &Survey, options: &TrainOptions, resources: &Resources<'_>) {
    let Some((landmarks, candidates)) = mapped.landmarks else { return };
    let features = match &mapped.with {
        Some(with) => with.features.min(mapped.map.dims().1 - with.features),
        None => mapped.map.dims().1,
    };
    let (asked, got) = (options.rank, if mapped.set.is_some() { landmarks } else { features });
    if got == asked || options.tolerance.is_some() {
        return;
    }
    let why = if (asked as u64) > survey.rows() && got as u64 == survey.rows() {
        format!("there are only {} rows", survey.rows())
    } else if (asked as u64) > candidates && got as u64 == candidates {
        let what = if matches!(options.landmarks, LandmarkSource::Rows(_)) { "landmarks" } else { "candidates" };
        format!("there are only {candidates} {what}")
    } else {
        match T::NAME {
            "f32" => {
                "more landmarks are linearly dependent in f32; `precision` f64 allows more, and may lower the error"
                    .to_string()
            }
            _ => format!("{got} landmarks suffice; more would add only rounding errors"),
        }
    };
    resources.stages.warn(format!("rank reduced from {asked} to {got}: {why}"));
}

/// Writes the decoded and scaled rows to the scratch folder; returns `None` without one.
///
/// One pass with one lane keeps the order of the rows. Folds over the cache and over the source are
/// bit-identical. Not journaled: a resumed run writes the cache again.
///
/// # Errors
/// Errors of the source; [`kstore::Error::OverScratch`] and [`kstore::Error::ScratchFull`] if the
/// rows do not fit.
fn cached_rows<T: Real>(
    source: &dyn RowSource<T>,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<Option<Cache<T>>> {
    let Some(scratch) = resources.scratch else { return Ok(None) };
    let observer = resources.over("rows to scratch", source.range());
    let mut writer = scratch.cache::<T>(source.shape(), source.range())?;
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.visit(source, |block| writer.push(block))?;
    Ok(Some(writer.finish()?))
}
