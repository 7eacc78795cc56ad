//! The steps from rows to the feature map: candidates, the kernel's length scale, landmarks, map.

use crate::certificate::Residuals;
use crate::features::Quiet;
use crate::prepare::candidates;
use crate::request::{LandmarkSource, MEDIAN_ROWS, NO_EXACT, PassShape, Resources, TrainOptions, map_shape};
use crate::stacked::StackedMaps;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::kernel::{AnyKernel, Domain, Kernel};
use kapprox::landmark::{self, LandmarkSet, Landmarks, NO_ROW, RowSample, Scan, uniform_sample};
use kapprox::map::{Expansion, Making, MapShape, OnLandmarks, WithoutRows};
use kapprox::metric::MetricRows;
use kapprox::{FeatureMap, Real};
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use kstore::{Pass, Reading, RowBlock, RowBuf, RowSource, Selected};
use std::sync::Arc;

/// Landmarks are chosen until the candidates' trace error is this fraction of the tolerance: the
/// candidates are a sample, and the error on all rows may be slightly larger.
const AIM: f64 = 0.9;

#[derive(Debug)]
pub struct Mapped<T: Real> {
    pub map: Box<dyn FeatureMap<T>>,
    pub kernel: Kernel,
    /// The second view; its features follow those of the first in the map.
    pub with: Option<SecondView>,
    /// The landmarks, for a solver that combines their kernel sections itself; the map then has no
    /// features.
    pub set: Option<LandmarkSet<T>>,
    /// Number of landmarks and number of candidate rows; `None` for a map without landmarks.
    pub landmarks: Option<(usize, u64)>,
    pub passes: u64,
}

#[derive(Clone, Debug)]
pub struct SecondView {
    /// The kernel, with every parameter resolved to a number.
    pub kernel: Kernel,
    pub features: usize,
    /// Number of basis functions that its features combine.
    pub functions: usize,
}

struct Settled<T> {
    kernel: Kernel,
    sample: Option<RowSample<T>>,
    passes: u64,
}

/// Landmarks, the number of their candidate rows, and the passes over the table.
struct Chosen<T> {
    set: LandmarkSet<T>,
    among: u64,
    passes: u64,
}

/// Input of a feature map: n rows of a source, how they are read, the options, and the shape of the
/// passes.
#[derive(Debug)]
pub struct Mapping<'a, T: Real> {
    pub source: &'a dyn RowSource<T>,
    pub n: u64,
    pub reading: &'a Reading,
    pub options: &'a TrainOptions,
    pub cut: PassShape,
    pub resources: &'a Resources<'a>,
}

impl<T: Real> Mapping<'_, T> {
    /// Builds the map; for two views, the features of both are concatenated.
    pub fn map(&self) -> Result<Mapped<T>> {
        let first = self.view()?;
        let Some(kernel) = &self.options.with else { return Ok(first) };
        let own = TrainOptions { kernel: kernel.clone(), ..self.options.clone() };
        let Mapped { map, kernel, passes, .. } = Mapping { options: &own, ..*self }.view()?;
        let features = map.dims().1;
        let functions = match map.expand(Mat::zeros(features, 1).as_ref(), self.resources.workers) {
            Expansion::Landmarks { landmarks, .. } => landmarks.len(),
            Expansion::Features { .. } => features,
        };
        let with = Some(SecondView { kernel, features, functions });
        Ok(Mapped { map: Box::new(StackedMaps(vec![first.map, map])), with, passes: first.passes + passes, ..first })
    }

    /// Builds the map of one view: draws candidates, resolves the kernel, and chooses landmarks if
    /// the map needs them.
    fn view(&self) -> Result<Mapped<T>> {
        let Self { source, n, options, resources, .. } = *self;
        let (d, rank) = (source.shape().features, self.shape()?.p);
        let make = match options.map.making::<T>() {
            Making::OnLandmarks(make) => make,
            Making::WithoutRows(make) => {
                let Settled { kernel, passes, .. } = self.settle()?;
                let (spec, seed) = (&options.map, options.seed);
                let map = make(&WithoutRows { spec, kernel: &kernel, d, rank, seed })?;
                return Ok(Mapped { map, kernel, with: None, set: None, landmarks: None, passes });
            }
            Making::Exact => {
                return Err(Error::option("map", "exact", NO_EXACT));
            }
        };
        let (Chosen { set, among, mut passes }, kernel) = self.select()?;
        let (any, count) = (kernel.build()?, set.len());
        let observer = resources.over("factor of the landmarks", source.range());
        let data = Scan { source, pass: self.scan(&*observer), count: n };
        let (seed, workers) = (options.seed, resources.workers);
        let given = OnLandmarks { spec: &options.map, kernel: &any, landmarks: set, rank, data: &data, seed, workers };
        passes += options.map.passes();
        let mut map = make(given)?;
        drop(observer);
        passes += self.within_tolerance(&mut map)?;
        Ok(Mapped { map, kernel, with: None, set: None, landmarks: Some((count, among)), passes })
    }

    /// Truncates the map to the smallest rank within the tolerance, if one is set, in one pass over
    /// all rows; warns if no rank reaches it. Returns the number of passes.
    ///
    /// *Flops*: the map's. *Bytes*: a tile of features.
    fn within_tolerance(&self, map: &mut Box<dyn FeatureMap<T>>) -> Result<u64> {
        let Some(tolerance) = self.options.tolerance else { return Ok(0) };
        let name = "rank within the tolerance";
        let observer = self.resources.over(name, self.source.range());
        let fold = Residuals { map: &**map, tile: self.cut.tile };
        let (state, _) = self.cut.pass(1, self.resources, &*observer).resume(name, self.source, &fold)?;
        drop(observer);
        let there = map.dims().1;
        match state.rank_within(tolerance) {
            Some(rank) if rank < there => {
                map.truncate(rank);
            }
            Some(_) => {}
            None => {
                let error = state.certificate(there).trace_error;
                let remedy = match there < self.options.rank {
                    true => "raise `candidates`, or use `precision` f64",
                    false => "raise `rank`",
                };
                self.resources.stages.warn(format!(
                    "the tolerance was not reached: the relative trace error at rank {there} is {error:.3e}; {remedy}"
                ));
            }
        }
        Ok(1)
    }

    /// Draws candidates, resolves the kernel and chooses landmarks, without a map, for a solver
    /// that combines the landmarks' kernel sections itself.
    pub(crate) fn unmapped(&self) -> Result<Mapped<T>> {
        let (Chosen { set, among, passes }, kernel) = self.select()?;
        let (map, landmarks) = (Box::new(StackedMaps(Vec::new())), Some((set.len(), among)));
        Ok(Mapped { map, kernel, with: None, set: Some(set), landmarks, passes })
    }

    /// Resolves the kernel, without landmarks and map, for a solver that combines the kernel
    /// sections of all rows. One pass has loaded these rows; passes over memory are neither counted
    /// nor journaled.
    pub(crate) fn of_rows(&self) -> Result<Mapped<T>> {
        let resources = &Resources { journal: None, ..*self.resources };
        let (kernel, _) = Mapping { resources, ..*self }.kernel()?;
        Ok(Mapped { map: Box::new(StackedMaps(Vec::new())), kernel, with: None, set: None, landmarks: None, passes: 1 })
    }

    /// Resolves every parameter of the kernel to a number; also returns the number of passes.
    pub fn kernel(&self) -> Result<(Kernel, u64)> {
        let Settled { kernel, passes, .. } = self.settle()?;
        Ok((kernel, passes))
    }

    fn chooses(&self) -> bool {
        !self.options.map.is_without_rows() && matches!(self.options.landmarks, LandmarkSource::Scheme(_))
    }

    fn settle(&self) -> Result<Settled<T>> {
        self.options.kernel.check_features(self.source.shape().features)?;
        let (lanes, work) = (self.cut.scan_lanes, (self.cut, self.resources));
        let mut passes = check_values(self.source, &self.options.kernel, (self.n, lanes), work)?;
        // Candidates are a sample unless every row is one; the median distance always needs a
        // sample.
        let among = self.options.candidates.filter(|_| self.chooses());
        let mut sample = RowSample::default();
        if among.is_some() || self.options.kernel.needs_median() {
            let observer = self.resources.over("sampling candidates", self.source.range());
            let data = Scan { source: self.source, pass: self.scan(&*observer), count: self.n };
            let (size, seed) = (among.unwrap_or(MEDIAN_ROWS), self.options.seed);
            sample = uniform_sample(&data, size, Purpose::Candidates, seed)?;
            passes += 1;
        }
        let kernel = settle(&self.options.kernel, &sample, self.options.seed)?;
        Ok(Settled { kernel, sample: among.map(|_| sample), passes })
    }

    fn select(&self) -> Result<(Chosen<T>, Kernel)> {
        let Settled { kernel, sample, passes } = self.settle()?;
        let chosen = self.choose(&kernel.build()?, sample)?;
        if chosen.set.is_empty() {
            return Err(Error::from(kapprox::Error::NoLandmarks {
                why: format!("the kernel {kernel} is zero on every row; choose another kernel or scale the features"),
            }));
        }
        Ok((Chosen { passes: passes + chosen.passes, ..chosen }, kernel))
    }

    fn shape(&self) -> Result<MapShape> {
        map_shape::<T>(self.options, self.source.shape().features, self.n)
    }

    fn scan<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        self.cut.pass(self.cut.scan_lanes, self.resources, observer)
    }

    fn choose(&self, kernel: &Arc<dyn AnyKernel>, sample: Option<RowSample<T>>) -> Result<Chosen<T>> {
        let shape = self.shape()?;
        let wanted = shape.landmarks.unwrap_or(shape.p);
        match &self.options.landmarks {
            LandmarkSource::Scheme(name) => self.choose_by(name, kernel, sample, wanted),
            LandmarkSource::File(path) => {
                Err(Error::option("landmarks", path.display(), "its file is not open yet; Fit::opened opens it"))
            }
            LandmarkSource::Rows(table) => self.read(table, wanted),
        }
    }

    /// Chooses landmarks by a scheme, from the sample or by passes over the table.
    fn choose_by(
        &self,
        name: &str,
        kernel: &Arc<dyn AnyKernel>,
        sample: Option<RowSample<T>>,
        wanted: usize,
    ) -> Result<Chosen<T>> {
        let scheme = landmark::by_name(name).ok_or_else(|| unknown_scheme(name))?;
        let chooser = scheme.landmarks::<T>();
        let observer = self.resources.stages.stage(&format!("landmarks ({})", scheme.name), None);
        let Some(sample) = sample else {
            let data = Scan { source: self.source, pass: self.scan(&*observer), count: self.n };
            let set = self.select_by(chooser, &data, kernel, wanted)?;
            return Ok(Chosen { among: self.n, passes: set.passes, set });
        };
        let (mut candidates, mut passes) = (candidates::in_row_order(sample)?, 0);
        if scheme.needs_targets {
            candidates = candidates::with_targets(candidates, self.source, self.scan(&*observer))?;
            passes = 1;
        }
        let count = candidates.len() as u64;
        let watch = Quiet(&*observer);
        // Reading rows in memory costs nothing, so one lane suffices, with all threads inside the
        // products, as in the Gram pass. Not journaled: a resumed run draws the same rows.
        let pass = Pass { lanes: 1, journal: None, ..self.scan(&watch) };
        let data = Scan { source: &candidates, pass, count };
        let set = self.select_by(chooser, &data, kernel, wanted)?;
        Ok(Chosen { set, among: count, passes })
    }

    /// Chooses `landmark_count` landmarks among these rows, or fewer if they reach the tolerance.
    fn select_by(
        &self,
        chooser: &dyn Landmarks<T>,
        data: &Scan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        wanted: usize,
    ) -> Result<LandmarkSet<T>> {
        let seed = self.options.seed;
        Ok(match self.options.tolerance {
            Some(tolerance) => chooser.select_within(AIM * tolerance, data, kernel, wanted, seed)?,
            None => chooser.select(data, kernel, wanted, seed)?,
        })
    }

    /// Reads the first `landmark_count` rows of a table of landmarks, scaled like the training
    /// rows.
    fn read(&self, table: &Selected, wanted: usize) -> Result<Chosen<T>> {
        let source = table.rows::<T>(Reading { scaler: self.reading.scaler.clone(), ..Reading::default() })?;
        let source = MetricRows::new(source, self.options.metric.known().cloned());
        let observer = self.resources.over("landmarks (table)", source.range());
        let (d, mut buf, mut points) = (source.shape().features, RowBuf::new(self.cut.tile), Vec::new());
        let mut cursor = source.open(source.range())?;
        // the table may have more rows than wanted
        while points.len() < wanted * d && cursor.next(&mut buf)? {
            let more = buf.rows.len().min(wanted - points.len() / d);
            points.extend_from_slice(&buf.x[..more * d]);
            observer.advance(more as u64);
            if observer.stop() {
                return Err(kstore::Error::Interrupted.into());
            }
        }
        let count = points.len() / d;
        if count == 0 {
            let why = "the table of landmarks has no rows; name another table, or a scheme".to_string();
            return Err(kstore::Error::Empty { what: "`landmarks`".to_string(), why }.into());
        }
        self.options.kernel.check_values(MatRef::from_row_major_slice(&points, count, d), 0)?;
        let set = LandmarkSet { points, rows: vec![NO_ROW; count], d, passes: 1, evaluations: 0 };
        Ok(Chosen { set, among: count as u64, passes: 0 })
    }
}

/// Checks the values of n rows in one pass, for kernels with a restricted domain. Returns the
/// number of passes.
///
/// # Errors
/// [`kapprox::Error::Domain`] for the first value outside the domain.
pub fn check_values<T: Real>(
    source: &dyn RowSource<T>,
    kernel: &Kernel,
    (n, lanes): (u64, usize),
    (cut, resources): (PassShape, &Resources<'_>),
) -> Result<u64> {
    if kernel.domain() == Domain::Any {
        return Ok(0);
    }
    let observer = resources.stages.stage("check of the kernel's domain", Some(n));
    cut.pass(lanes, resources, &*observer).each(source, || (), |(), block, _| check(kernel, block))?;
    Ok(1)
}

fn check<T: Real>(kernel: &Kernel, block: &RowBlock<'_, T>) -> kapprox::Result<()> {
    let x = MatRef::from_row_major_slice(block.x, block.len(), block.d);
    kernel.check_values(x, 0).map_err(|error| match error {
        kapprox::Error::Domain { kernel, domain, row, feature, value } => {
            kapprox::Error::Domain { kernel, domain, row: block.rows[row as usize], feature, value }
        }
        other => other,
    })
}

/// Sets each `median` or `auto` length scale of the kernel to the median distance in a uniform
/// subsample.
pub fn settle<T: Real>(kernel: &Kernel, sample: &RowSample<T>, seed: u64) -> Result<Kernel> {
    Ok(settle_lengths(kernel, sample, seed, &[vec![1.0]])?.swap_remove(0))
}

/// Returns a kernel for each list of factors: each `median` or `auto` length scale is the median
/// distance in a uniform subsample, times its factor. A list has one factor for all length scales,
/// or one for each.
pub(crate) fn settle_lengths<T: Real>(
    kernel: &Kernel,
    sample: &RowSample<T>,
    seed: u64,
    factors: &[Vec<f64>],
) -> Result<Vec<Kernel>> {
    if !kernel.needs_median() {
        return Ok(vec![kernel.clone(); factors.len()]);
    }
    let keys = Stream::new(seed, Purpose::Median, 0);
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by_key(|i| (keys.word(sample.rows[*i]), sample.rows[*i]));
    order.truncate(MEDIAN_ROWS);
    let d = sample.d;
    let wide: Vec<f64> =
        order.iter().flat_map(|i| &sample.x[i * d..(i + 1) * d]).map(|v| kstore::Real::to_f64(*v)).collect();
    let weights: Vec<f64> = order.iter().filter_map(|i| sample.weights.get(*i)).copied().collect();
    Ok(kernel.resolve_lengths(MatRef::from_row_major_slice(&wide, order.len(), d), &weights, factors)?)
}

fn unknown_scheme(name: &str) -> Error {
    let known: Vec<&str> = landmark::registry().into_iter().map(|scheme| scheme.name).collect();
    Error::option("landmarks", format!("{name:?}"), format!("give one of {}", known.join(", ")))
}
