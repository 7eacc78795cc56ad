//! The steps from rows to the feature map: drawing candidates, resolving the kernel's length scale,
//! choosing landmarks, and building the map.

use crate::certificate::CertificateReduction;
use crate::features::StopOnlyObserver;
use crate::prepare::candidates;
use crate::request::{EXACT_UNSUPPORTED, LandmarkSource, MEDIAN_ROWS, PassShape, Resources, TrainOptions, map_shape};
use crate::stacked_maps::StackedMaps;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::kernel::{AnyKernel, Domain, Kernel};
use kapprox::landmark::{self, LandmarkRule, LandmarkSet, NO_ROW, RowSample, TableScan, uniform_sample};
use kapprox::map::{DataIndependentMapArgs, Expansion, LandmarkMapArgs, MapConstructor, MapShape};
use kapprox::metric::MetricRows;
use kapprox::{FeatureMap, Real};
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use kstore::{Pass, ReadSettings, RowBlock, RowBuf, RowSource, SelectedTable};
use std::sync::Arc;

/// With a tolerance, landmarks are added until the trace error on the candidates is at most this
/// fraction of the tolerance. The margin is needed because the candidates are a sample, and the
/// error on all rows may be slightly larger.
const TOLERANCE_FRACTION: f64 = 0.9;

#[derive(Debug)]
pub struct BuiltMap<T: Real> {
    pub map: Box<dyn FeatureMap<T>>,
    pub kernel: Kernel,
    /// The second view (the second column set of `cca` and `covariance`), if there is one. Its
    /// features are the last features of `map`.
    pub second_view: Option<BuiltSecondView>,
    /// The landmarks, if the solver combines their kernel sections itself. In this case the map has
    /// no features.
    pub landmark_set: Option<LandmarkSet<T>>,
    /// `None` for a map without landmarks.
    pub landmark_counts: Option<LandmarkCounts>,
    pub passes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct LandmarkCounts {
    pub landmark_count: usize,
    /// Number of rows among which the landmarks are chosen.
    pub candidate_count: u64,
}

#[derive(Clone, Debug)]
pub struct BuiltSecondView {
    /// The kernel, with every parameter resolved to a number.
    pub kernel: Kernel,
    pub feature_count: usize,
    /// Number of basis functions that the features of the second view combine.
    pub basis_function_count: usize,
}

struct ResolvedKernel<T> {
    kernel: Kernel,
    candidates: Option<RowSample<T>>,
    passes: u64,
}

/// The chosen landmarks, the number of rows among which they were chosen, and the number of passes
/// over the table.
struct SelectedLandmarks<T> {
    landmark_set: LandmarkSet<T>,
    candidate_count: u64,
    passes: u64,
}

/// Builds feature maps from n rows of a source.
#[derive(Debug)]
pub struct MapBuilder<'a, T: Real> {
    pub source: &'a dyn RowSource<T>,
    pub n: u64,
    pub read_settings: &'a ReadSettings,
    pub options: &'a TrainOptions,
    pub pass_shape: PassShape,
    pub resources: &'a Resources<'a>,
}

impl<T: Real> MapBuilder<'_, T> {
    /// Builds the map; for two views, the features of both are concatenated.
    ///
    /// # Errors
    /// The rows cannot be read; the errors of the kernel, of landmark selection and of the map;
    /// [`Error::Option`] for the exact kernel, which has no map.
    pub fn build(&self) -> Result<BuiltMap<T>> {
        let first_view = self.build_view()?;
        let Some(kernel) = &self.options.second_kernel else { return Ok(first_view) };
        let second_options = TrainOptions { kernel: kernel.clone(), ..self.options.clone() };
        let BuiltMap { map, kernel, passes, .. } = MapBuilder { options: &second_options, ..*self }.build_view()?;
        let feature_count = map.dims().1;
        let basis_function_count = match map.expand(Mat::zeros(feature_count, 1).as_ref(), self.resources.workers) {
            Expansion::Landmarks { landmarks, .. } => landmarks.len(),
            Expansion::Features { .. } => feature_count,
        };
        let second_view = Some(BuiltSecondView { kernel, feature_count, basis_function_count });
        Ok(BuiltMap {
            map: Box::new(StackedMaps(vec![first_view.map, map])),
            second_view,
            passes: first_view.passes + passes,
            ..first_view
        })
    }

    /// Builds the map of one view: draws candidates, resolves the kernel, and chooses landmarks if
    /// the map needs them.
    fn build_view(&self) -> Result<BuiltMap<T>> {
        let Self { source, n, options, resources, .. } = *self;
        let (d, rank) = (source.shape().input_count, self.requested_map_shape()?.p);
        let build_map = match options.map.constructor::<T>() {
            MapConstructor::FromLandmarks(constructor) => constructor,
            MapConstructor::DataIndependent(build_independent_map) => {
                let ResolvedKernel { kernel, passes, .. } = self.resolve_with_sample()?;
                let (spec, seed) = (&options.map, options.seed);
                let map = build_independent_map(&DataIndependentMapArgs { spec, kernel: &kernel, d, rank, seed })?;
                return Ok(BuiltMap {
                    map,
                    kernel,
                    second_view: None,
                    landmark_set: None,
                    landmark_counts: None,
                    passes,
                });
            }
            MapConstructor::ExactKernel => {
                return Err(Error::option("map", "exact", EXACT_UNSUPPORTED));
            }
        };
        let (SelectedLandmarks { landmark_set, candidate_count, mut passes }, kernel) = self.select_landmarks()?;
        let (built_kernel, landmark_count) = (kernel.build()?, landmark_set.len());
        let observer = resources.start_stage_over("factor of the landmarks", source.range());
        let scan = TableScan { source, pass: self.scan_pass(&*observer), row_count: n };
        let (seed, workers) = (options.seed, resources.workers);
        let map_args = LandmarkMapArgs {
            spec: &options.map,
            kernel: &built_kernel,
            landmarks: landmark_set,
            rank,
            keeps_order: options.ranks.len() > 1 || options.tolerance.is_some(),
            scan: &scan,
            seed,
            workers,
        };
        passes += options.map.build_passes();
        let mut map = build_map(map_args)?;
        drop(observer);
        passes += self.truncate_to_tolerance(&mut map)?;
        Ok(BuiltMap {
            map,
            kernel,
            second_view: None,
            landmark_set: None,
            landmark_counts: Some(LandmarkCounts { landmark_count, candidate_count }),
            passes,
        })
    }

    /// If a tolerance is set, truncates the map to the smallest rank whose trace error is within
    /// the tolerance, in one pass over all rows. If no rank reaches the tolerance, warns. Returns
    /// the number of passes.
    ///
    /// *Flops*: the flops of the map. *Bytes*: a tile of features.
    fn truncate_to_tolerance(&self, map: &mut Box<dyn FeatureMap<T>>) -> Result<u64> {
        let Some(tolerance) = self.options.tolerance else { return Ok(0) };
        let name = "rank within the tolerance";
        let observer = self.resources.start_stage_over(name, self.source.range());
        let reduction = CertificateReduction { map: &**map, tile_rows: self.pass_shape.tile_rows };
        let (state, _) = self.pass_shape.pass(1, self.resources, &*observer).resume(name, self.source, &reduction)?;
        drop(observer);
        let full_rank = map.dims().1;
        match state.rank_within(tolerance) {
            Some(rank) if rank < full_rank => {
                map.truncate(rank);
            }
            Some(_) => {}
            None => {
                let error = state.certificate(full_rank).trace_error;
                let remedy = match full_rank < self.options.rank {
                    true => "raise `candidates`, or use `precision` f64",
                    false => "raise `rank`",
                };
                self.resources.stage_observer.warn(format!(
                    "the tolerance was not reached: the relative trace error at rank {full_rank} is {error:.3e}; {remedy}"
                ));
            }
        }
        Ok(1)
    }

    /// Draws candidates, resolves the kernel and chooses landmarks, but builds no map. This
    /// function is for a solver that combines the landmarks' kernel sections itself.
    ///
    /// # Errors
    /// The rows cannot be read; the errors of the kernel and of landmark selection.
    pub fn landmarks_only(&self) -> Result<BuiltMap<T>> {
        let (SelectedLandmarks { landmark_set, candidate_count, passes }, kernel) = self.select_landmarks()?;
        let landmark_counts = Some(LandmarkCounts { landmark_count: landmark_set.len(), candidate_count });
        let map = Box::new(StackedMaps(Vec::new()));
        Ok(BuiltMap { map, kernel, second_view: None, landmark_set: Some(landmark_set), landmark_counts, passes })
    }

    /// Resolves the kernel, but chooses no landmarks and builds no map. This function is for a
    /// solver that combines the kernel sections of all rows. All rows are already in memory, so
    /// passes over them are not journaled, and only the pass that read them is counted.
    ///
    /// # Errors
    /// The errors of [`MapBuilder::resolve_kernel`].
    pub fn kernel_only(&self) -> Result<BuiltMap<T>> {
        let resources = &Resources { journal: None, ..*self.resources };
        let (kernel, _) = MapBuilder { resources, ..*self }.resolve_kernel()?;
        Ok(BuiltMap {
            map: Box::new(StackedMaps(Vec::new())),
            kernel,
            second_view: None,
            landmark_set: None,
            landmark_counts: None,
            passes: 1,
        })
    }

    /// Resolves every parameter of the kernel to a number; also returns the number of passes.
    ///
    /// # Errors
    /// The rows cannot be read; the errors of [`check_domain`] and of [`resolve_length_scale`]; the
    /// kernel does not fit the number of inputs.
    pub fn resolve_kernel(&self) -> Result<(Kernel, u64)> {
        let ResolvedKernel { kernel, passes, .. } = self.resolve_with_sample()?;
        Ok((kernel, passes))
    }

    fn selects_landmarks(&self) -> bool {
        !self.options.map.is_data_independent() && matches!(self.options.landmarks, LandmarkSource::Scheme(_))
    }

    fn resolve_with_sample(&self) -> Result<ResolvedKernel<T>> {
        self.options.kernel.check_input_count(self.source.shape().input_count)?;
        let (lanes, kernel) = (self.pass_shape.scan_lanes, &self.options.kernel);
        let mut passes = check_domain(self.source, kernel, self.n, lanes, self.pass_shape, self.resources)?;
        // `None` if all rows are candidates, or if no landmarks are chosen; the median distance
        // needs a sample even then
        let candidate_count = self.options.candidates.filter(|_| self.selects_landmarks());
        let mut sample = RowSample::default();
        if candidate_count.is_some() || self.options.kernel.needs_median() {
            let observer = self.resources.start_stage_over("sampling candidates", self.source.range());
            let scan = TableScan { source: self.source, pass: self.scan_pass(&*observer), row_count: self.n };
            let (sample_rows, seed) = (candidate_count.unwrap_or(MEDIAN_ROWS), self.options.seed);
            sample = uniform_sample(&scan, sample_rows, Purpose::Candidates, seed)?;
            passes += 1;
        }
        let kernel = resolve_length_scale(&self.options.kernel, &sample, self.options.seed)?;
        Ok(ResolvedKernel { kernel, candidates: candidate_count.map(|_| sample), passes })
    }

    fn select_landmarks(&self) -> Result<(SelectedLandmarks<T>, Kernel)> {
        let ResolvedKernel { kernel, candidates: sample, passes } = self.resolve_with_sample()?;
        let selected = self.select_by_landmark_source(&kernel.build()?, sample)?;
        if selected.landmark_set.is_empty() {
            return Err(Error::from(kapprox::Error::NoLandmarks {
                why: format!("the kernel {kernel} is zero on every row; choose another kernel or scale the features"),
            }));
        }
        Ok((SelectedLandmarks { passes: passes + selected.passes, ..selected }, kernel))
    }

    fn requested_map_shape(&self) -> Result<MapShape> {
        map_shape::<T>(self.options, self.source.shape().input_count, self.n)
    }

    fn scan_pass<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        self.pass_shape.pass(self.pass_shape.scan_lanes, self.resources, observer)
    }

    fn select_by_landmark_source(
        &self,
        kernel: &Arc<dyn AnyKernel>,
        candidates: Option<RowSample<T>>,
    ) -> Result<SelectedLandmarks<T>> {
        let shape = self.requested_map_shape()?;
        let landmark_count = shape.landmark_count.unwrap_or(shape.p);
        match &self.options.landmarks {
            LandmarkSource::Scheme(name) => self.select_by_scheme(name, kernel, candidates, landmark_count),
            LandmarkSource::File(path) => {
                Err(Error::option("landmarks", path.display(), "its file is not open yet; Fit::opened opens it"))
            }
            LandmarkSource::Rows(table) => self.read_landmarks(table, landmark_count),
        }
    }

    /// Chooses landmarks by a scheme, from the sample or by passes over the table.
    fn select_by_scheme(
        &self,
        name: &str,
        kernel: &Arc<dyn AnyKernel>,
        candidates: Option<RowSample<T>>,
        landmark_count: usize,
    ) -> Result<SelectedLandmarks<T>> {
        let scheme = landmark::by_name(name).ok_or_else(|| unknown_scheme_error(name))?;
        let rule = scheme.typed::<T>();
        let observer = self.resources.stage_observer.start_stage(&format!("landmarks ({})", scheme.name), None);
        let Some(sample) = candidates else {
            let scan = TableScan { source: self.source, pass: self.scan_pass(&*observer), row_count: self.n };
            let landmark_set = self.run_scheme(rule, &scan, kernel, landmark_count)?;
            return Ok(SelectedLandmarks { candidate_count: self.n, passes: landmark_set.passes, landmark_set });
        };
        let (mut candidates, mut passes) = (candidates::sort_by_row_number(sample)?, 0);
        if scheme.needs_targets {
            candidates = candidates::with_targets(candidates, self.source, self.scan_pass(&*observer))?;
            passes = 1;
        }
        let candidate_count = candidates.len() as u64;
        let stop_only = StopOnlyObserver(&*observer);
        // Reading rows in memory costs almost nothing. One lane therefore suffices, and all threads
        // work inside the products, as in the Gram pass. The pass is not journaled, because a
        // resumed run draws the same rows.
        let pass = Pass { lane_count: 1, journal: None, ..self.scan_pass(&stop_only) };
        let scan = TableScan { source: &candidates, pass, row_count: candidate_count };
        let landmark_set = self.run_scheme(rule, &scan, kernel, landmark_count)?;
        Ok(SelectedLandmarks { landmark_set, candidate_count, passes })
    }

    /// Chooses `landmark_count` landmarks among these rows. If fewer landmarks reach the tolerance,
    /// the choice ends there.
    fn run_scheme(
        &self,
        rule: &dyn LandmarkRule<T>,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        landmark_count: usize,
    ) -> Result<LandmarkSet<T>> {
        let seed = self.options.seed;
        Ok(match self.options.tolerance {
            Some(tolerance) => {
                rule.select_within(TOLERANCE_FRACTION * tolerance, scan, kernel, landmark_count, seed)?
            }
            None => rule.select(scan, kernel, landmark_count, seed)?,
        })
    }

    /// Reads the first `landmark_count` rows of a table of landmarks, scaled like the training
    /// rows.
    fn read_landmarks(&self, table: &SelectedTable, landmark_count: usize) -> Result<SelectedLandmarks<T>> {
        let source =
            table.rows::<T>(ReadSettings { scaler: self.read_settings.scaler.clone(), ..ReadSettings::default() })?;
        let source = MetricRows::new(source, self.options.metric.provided().cloned());
        let observer = self.resources.start_stage_over("landmarks (table)", source.range());
        let (d, mut buf, mut points) = (source.shape().input_count, RowBuf::new(self.pass_shape.tile_rows), Vec::new());
        let mut cursor = source.open(source.range())?;
        // the table may have more rows than `landmark_count`
        while points.len() < landmark_count * d && cursor.next(&mut buf)? {
            let row_count = buf.row_numbers.len().min(landmark_count - points.len() / d);
            points.extend_from_slice(&buf.x[..row_count * d]);
            observer.advance(row_count as u64);
            if observer.should_stop() {
                return Err(kstore::Error::Interrupted.into());
            }
        }
        let point_count = points.len() / d;
        if point_count == 0 {
            let why = "the table of landmarks has no rows; name another table, or a scheme".to_string();
            return Err(kstore::Error::Empty { what: "`landmarks`".to_string(), why }.into());
        }
        self.options.kernel.check_values(MatRef::from_row_major_slice(&points, point_count, d), 0)?;
        let row_numbers = vec![NO_ROW; point_count];
        let landmark_set = LandmarkSet { points, row_numbers, d, passes: 1, evaluations: 0 };
        Ok(SelectedLandmarks { landmark_set, candidate_count: point_count as u64, passes: 0 })
    }
}

/// Checks in one pass that the values of n rows are in the domain of the kernel, if its domain is
/// restricted. Returns the number of passes.
///
/// # Errors
/// [`kapprox::Error::Domain`] for the first value outside the domain.
pub fn check_domain<T: Real>(
    source: &dyn RowSource<T>,
    kernel: &Kernel,
    n: u64,
    lane_count: usize,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<u64> {
    if kernel.domain() == Domain::Any {
        return Ok(0);
    }
    let observer = resources.stage_observer.start_stage("check of the kernel's domain", Some(n));
    pass_shape.pass(lane_count, resources, &*observer).for_each_tile(
        source,
        || (),
        |(), block, _| check_block_domain(kernel, block),
    )?;
    Ok(1)
}

fn check_block_domain<T: Real>(kernel: &Kernel, block: &RowBlock<'_, T>) -> kapprox::Result<()> {
    let x = MatRef::from_row_major_slice(block.x, block.len(), block.d);
    kernel.check_values(x, 0).map_err(|error| match error {
        kapprox::Error::Domain { kernel, domain, row, feature_index: feature, value } => kapprox::Error::Domain {
            kernel,
            domain,
            row: block.row_numbers[row as usize],
            feature_index: feature,
            value,
        },
        other => other,
    })
}

/// Replaces each `median` or `auto` length scale of the kernel by the median distance in a uniform
/// subsample of `sample`.
///
/// # Errors
/// The errors of [`Kernel::resolve_length_scales`].
pub fn resolve_length_scale<T: Real>(kernel: &Kernel, sample: &RowSample<T>, seed: u64) -> Result<Kernel> {
    Ok(resolve_length_scales(kernel, sample, seed, &[vec![1.0]])?.swap_remove(0))
}

/// Returns one kernel for each list of factors. In it, each length scale `median` is replaced by
/// the median distance in a uniform subsample of `sample`, and each `auto` by this distance times a
/// factor. A list has a common factor for all `auto`, or one factor for each of them.
///
/// # Errors
/// The errors of [`Kernel::resolve_length_scales`].
pub fn resolve_length_scales<T: Real>(
    kernel: &Kernel,
    sample: &RowSample<T>,
    seed: u64,
    factors: &[Vec<f64>],
) -> Result<Vec<Kernel>> {
    if !kernel.needs_median() {
        return Ok(vec![kernel.clone(); factors.len()]);
    }
    let stream = Stream::new(seed, Purpose::Median, 0);
    let mut subsample: Vec<usize> = (0..sample.len()).collect();
    subsample.sort_by_key(|i| (stream.word(sample.row_numbers[*i]), sample.row_numbers[*i]));
    subsample.truncate(MEDIAN_ROWS);
    let d = sample.d;
    let points: Vec<f64> =
        subsample.iter().flat_map(|i| &sample.x[i * d..(i + 1) * d]).map(|v| kstore::Float::to_f64(*v)).collect();
    let weights: Vec<f64> = subsample.iter().filter_map(|i| sample.weights.get(*i)).copied().collect();
    Ok(kernel.resolve_length_scales(MatRef::from_row_major_slice(&points, subsample.len(), d), &weights, factors)?)
}

fn unknown_scheme_error(name: &str) -> Error {
    let names: Vec<&str> = landmark::registry().into_iter().map(|scheme| scheme.name).collect();
    Error::option("landmarks", format!("{name:?}"), format!("give one of {}", names.join(", ")))
}
