//! A run: selects landmarks, builds the map, computes the features, and measures their costs and
//! errors at every rank.

use super::cost::{Cost, Meter, SelectionCostObserver, time_features};
use super::error_reductions::{MeasuredSums, MeasuringReduction, TestErrorReduction};
use super::method::{CurveRun, Method};
use super::run_plan::ridge_grid;
use super::setting::{Setting, SpectralSample, pass};
use super::{CurveCell, EXACT_ROWS, Estimate};
use crate::prepare::target_counts::check_plans;
use crate::request::{PassShape, Resources};
use crate::{Error, GramState, LinearHead, Result};
use kapprox::landmark::{LandmarkSet, Scheme, TableScan};
use kapprox::map::{DataIndependentMapArgs, LandmarkMapArgs, MapConstructor, MapRequest, MapShape};
use kapprox::quality::{Approximation, ApproximationErrors, ColumnReduction, Measure, NormPair, SpectralOptions};
use kapprox::{FeatureMap, MapSpec, NystromMap, Real};
use kfit::fit_with_dimension;
use kstore::pass::Observer;
use kstore::{Pass, RowSource};

/// Minimum number of features for which the measuring pass also times the computation of the
/// features. With fewer features, a separate pass for the time is cheap. In the measuring pass,
/// rows are decoded while other work runs, so the measured time excludes the decoding, which takes
/// far less time than the features.
const MIN_TIMED_FEATURES: usize = 512;

/// A map, and the cost of its features at each rank of the run.
struct TimedMap<T: Real> {
    map: Box<dyn FeatureMap<T>>,
    /// Cost at each rank. The last `full_rank_count` ranks use all features; for these ranks the
    /// cost of computing the features is added later.
    costs: Vec<Cost>,
    full_rank_count: usize,
    /// Number of kernel evaluations per row.
    landmark_count: usize,
}

/// The error of ridge regression on the test rows, and its effective dimension.
#[derive(Clone, Copy, Debug)]
struct TestError {
    mean: f64,
    effective_dimension: f64,
}

/// The settings of a run that are fixed before it starts.
struct RunSetting<'s, 'a, T: Real> {
    setting: &'s Setting<'a, T>,
    resources: Resources<'s>,
    run: &'s CurveRun,
    seed: u64,
    pass_shape: PassShape,
    observer: &'s dyn Observer,
}

impl<T: Real> Setting<'_, T> {
    /// Executes a run and returns its cells.
    ///
    /// # Errors
    /// Errors of the scheme, the map and the rows; [`kstore::Error::Interrupted`].
    pub fn run(&self, run: &CurveRun) -> Result<Vec<CurveCell>> {
        let largest_rank = run.ranks.last().copied().unwrap_or(1);
        let (pass_shape, plans) = self.plan(&run.method, largest_rank)?;
        let planned_bytes = check_plans(plans)?;
        let observer = self.resources.stage_observer.start_stage(&run.method.to_string(), None);
        let seed = self.options.seed.wrapping_add(run.repeat);
        let run_setting =
            RunSetting { setting: self, resources: self.row_resources, run, seed, pass_shape, observer: &*observer };
        let timed_map = match &run.method {
            Method::Scheme(scheme) => run_setting.build_nystrom(scheme)?,
            Method::Map(spec) => run_setting.build_map(spec, largest_rank)?,
        };
        run_setting.measure_cells(timed_map, planned_bytes)
    }
}

impl<T: Real> RunSetting<'_, '_, T> {
    fn pass<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        pass(self.pass_shape, &self.resources, observer)
    }

    fn scan<'o>(&'o self, observer: &'o dyn Observer) -> TableScan<'o, T> {
        TableScan { source: self.setting.source(), pass: self.pass(observer), row_count: self.setting.n }
    }

    fn cost_of_features(&self, map: &dyn FeatureMap<T>, landmark_count: usize) -> Result<Cost> {
        let cost = time_features(map, self.setting.source(), self.pass(self.observer), self.setting.selected.table())?;
        Ok(Cost { kernel_evaluations: self.setting.n * landmark_count as u64, ..cost })
    }

    fn map_shape(&self, spec: &MapSpec, rank: usize) -> Result<MapShape> {
        let (d, row_count) =
            (self.setting.source().shape().input_count, usize::try_from(self.setting.n).unwrap_or(usize::MAX));
        Ok(spec.shape(MapRequest { d, rank, candidate_count: row_count, element_bytes: size_of::<T>() })?)
    }

    /// Selects `count` landmarks. Returns them with the cost of the whole selection.
    fn select_landmarks(
        &self,
        scheme: &Scheme,
        count: usize,
        cost_observer: &SelectionCostObserver<'_>,
    ) -> Result<(LandmarkSet<T>, Cost)> {
        let rule = scheme.typed::<T>();
        let landmarks = rule.select(&self.scan(cost_observer), &self.setting.any_kernel, count, self.seed)?;
        if landmarks.is_empty() {
            let why = "the kernel is zero on every row; choose another kernel or scale the features".to_string();
            return Err(kapprox::Error::NoLandmarks { why }.into());
        }
        let total_cost = cost_observer.meter.cost(landmarks.passes, landmarks.evaluations);
        Ok((landmarks, total_cost))
    }

    /// Builds the Nyström map at the largest rank; its leading landmarks define the map at every
    /// other rank.
    fn build_nystrom(&self, scheme: &Scheme) -> Result<TimedMap<T>> {
        let (any_kernel, workers) = (&self.setting.any_kernel, self.setting.resources.workers);
        let table = self.setting.selected.table();
        let feature_count = self.map_shape(&MapSpec::default(), self.run.ranks.last().copied().unwrap_or(1))?.p;
        let milestones = SelectionCostObserver::new(self.observer, table);
        let (set, total_cost) = self.select_landmarks(scheme, feature_count, &milestones)?;
        let build_map_of = |set: LandmarkSet<T>| {
            let meter = Meter::start(table);
            let evaluations = (set.len() as u64).pow(2);
            let map = NystromMap::new(any_kernel, set, workers)?;
            Ok::<_, Error>((map, meter.cost(0, evaluations)))
        };
        let (map, build_cost) = build_map_of(set)?;
        let landmark_count = map.landmarks().len();
        let mut costs = Vec::new();
        for rank in &self.run.ranks {
            let selection_cost = milestones.cost_at(*rank, total_cost);
            costs.push(if *rank < landmark_count {
                let leading_indices: Vec<usize> = (0..*rank).collect();
                let (map, build_cost) = build_map_of(map.landmarks().subset(&leading_indices))?;
                selection_cost.plus(build_cost).plus(self.cost_of_features(&map, *rank)?)
            } else {
                selection_cost.plus(build_cost)
            });
        }
        let full_rank_count = self.run.ranks.iter().filter(|rank| **rank >= landmark_count).count();
        Ok(TimedMap { map: Box::new(map), costs, full_rank_count, landmark_count })
    }

    fn build_map(&self, spec: &MapSpec, rank: usize) -> Result<TimedMap<T>> {
        let Setting { options, any_kernel, resources, selected, .. } = self.setting;
        let (d, table, seed) = (self.setting.source().shape().input_count, selected.table(), self.seed);
        let MapShape { p: rank, landmark_count: requested_landmark_count, .. } = self.map_shape(spec, rank)?;
        match spec.constructor::<T>() {
            MapConstructor::ExactKernel => Err(Method::exact_kernel_error(&spec.to_string())),
            MapConstructor::DataIndependent(build) => {
                let meter = Meter::start(table);
                let map = build(&DataIndependentMapArgs { spec, kernel: self.setting.kernel(), d, rank, seed })?;
                let costs = vec![meter.cost(0, 0)];
                Ok(TimedMap { map, costs, full_rank_count: 1, landmark_count: 0 })
            }
            MapConstructor::FromLandmarks(build) => {
                let milestones = SelectionCostObserver::new(self.observer, table);
                let (set, selection_cost) = self.select_landmarks(
                    options.landmark_scheme,
                    requested_landmark_count.unwrap_or(rank),
                    &milestones,
                )?;
                let (landmark_count, meter) = (set.len(), Meter::start(table));
                let (scan, workers) = (self.scan(self.observer), resources.workers);
                let map = build(LandmarkMapArgs {
                    spec,
                    kernel: any_kernel,
                    landmarks: set,
                    rank,
                    keeps_order: true,
                    scan: &scan,
                    seed,
                    workers,
                })?;
                // every pass of the construction evaluates the kernel with all landmarks
                let evaluations =
                    landmark_count as u64 * (landmark_count as u64 + spec.build_passes() * self.setting.n);
                let costs = vec![selection_cost.plus(meter.cost(spec.build_passes(), evaluations))];
                Ok(TimedMap { map, costs, full_rank_count: 1, landmark_count })
            }
        }
    }

    fn measure_cells(&self, mut timed_map: TimedMap<T>, planned_bytes: usize) -> Result<Vec<CurveCell>> {
        let Setting { options, any_kernel, .. } = self.setting;
        let p = timed_map.map.dims().1;
        let mut feature_counts: Vec<usize> = self.run.ranks.iter().map(|rank| *rank.min(&p)).collect();
        feature_counts.dedup();
        let approximation = Approximation { scan: self.scan(self.observer), kernel: any_kernel, map: &*timed_map.map };
        // every cell uses the same columns, so that cells differ only by method
        let column_reduction =
            approximation.column_reduction(&feature_counts, self.setting.column_count(), options.seed)?;
        let (measured_sums, feature_cost) = self.measure(&timed_map, &column_reduction)?;
        timed_map
            .costs
            .iter_mut()
            .rev()
            .take(timed_map.full_rank_count)
            .for_each(|cost| *cost = cost.plus(feature_cost));
        let errors = column_reduction.errors(&measured_sums.column_sums);
        drop(column_reduction);
        let test_errors = self.test_errors(&*timed_map.map, &feature_counts, measured_sums.gram)?;
        let spectral = self.spectral_errors(&approximation, &errors, &feature_counts)?;
        let cell = |(rank, cost): (&usize, &Cost)| {
            let index = feature_counts.iter().position(|present_rank| present_rank == rank.min(&p)).unwrap_or(0);
            CurveCell {
                method: self.run.method.to_string(),
                rank: *rank,
                repeat: self.run.repeat,
                features: feature_counts[index],
                seconds: cost.seconds,
                kernel_evaluations: cost.kernel_evaluations,
                passes: cost.passes,
                bytes_read: cost.bytes_read,
                planned_bytes,
                trace_error: errors[index].trace_error,
                trace_rounding: errors[index].rounding_floor,
                frobenius: errors[index].relative_frobenius_error.into(),
                spectral: spectral[index].clone(),
                test_error: test_errors[index].map(|error| error.mean).filter(|mean| mean.is_finite()),
                effective_dimension: test_errors[index].map(|error| error.effective_dimension),
            }
        };
        Ok(self.run.ranks.iter().zip(&timed_map.costs).map(cell).collect())
    }

    /// Runs the measuring pass over the rows, and returns its sums and the cost of computing the
    /// features of every row.
    fn measure(&self, timed_map: &TimedMap<T>, columns: &ColumnReduction<'_, T>) -> Result<(MeasuredSums, Cost)> {
        let Setting { targets, test_rows: test, selected, .. } = self.setting;
        let (map, targets) = (&*timed_map.map, test.as_ref().map(|_| targets));
        let meter = Meter::start(selected.table());
        let reduction =
            MeasuringReduction { map, column_reduction: columns, targets, tile_rows: self.pass_shape.tile_rows };
        let (measured_sums, report) =
            self.pass(self.observer).resume("errors of a method", self.setting.source(), &reduction)?;
        if map.dims().1 < MIN_TIMED_FEATURES {
            return Ok((measured_sums, self.cost_of_features(map, timed_map.landmark_count)?));
        }
        let seconds = measured_sums.feature_seconds + report.decoder_wait.as_secs_f64();
        let feature_cost = Cost { seconds, ..meter.cost(1, self.setting.n * timed_map.landmark_count as u64) };
        Ok((measured_sums, feature_cost))
    }

    /// Returns the spectral errors at every rank: exact, or estimated on a sample and bounded on
    /// all rows; `None` if they are unknown.
    fn spectral_errors(
        &self,
        approximation: &Approximation<'_, T>,
        errors: &[ApproximationErrors],
        ranks: &[usize],
    ) -> Result<Vec<Option<Estimate>>> {
        let (seed, spectral_options) = (self.setting.options.seed, SpectralOptions::default());
        if self.setting.n <= EXACT_ROWS {
            let norms = approximation.spectral(errors, spectral_options, seed)?;
            return Ok(norms.iter().map(|norm| Some(norm.relative().into())).collect());
        }
        let Some(SpectralSample { kernel_norm, sample_rows }) = &self.setting.spectral_sample else {
            return Ok(vec![None; ranks.len()]);
        };
        let sample_pass = Pass { journal: None, ..self.pass(self.observer) };
        let sample_scan = TableScan { source: sample_rows, pass: sample_pass, row_count: sample_rows.len() as u64 };
        let sample_approximation = Approximation { scan: sample_scan, ..*approximation };
        let sample_errors = sample_approximation.errors(ranks, sample_rows.len(), seed)?;
        let norms = sample_approximation.spectral(&sample_errors, spectral_options, seed)?;
        let clipped_estimate = |(errors, sample_norm): (&ApproximationErrors, &NormPair)| {
            // the norm of K is already known, so its spectrum is not needed
            let bounds = errors.spectral_bounds(0.0).error.relative_to(*kernel_norm);
            // the bounds are certain, so an estimate outside the bounds is clipped
            let value = sample_norm.relative().value.min(bounds.high).max(bounds.low);
            Some(Estimate::from(Measure { value, ..bounds }))
        };
        Ok(errors.iter().zip(&norms).map(clipped_estimate).collect())
    }

    /// Fits ridge regression on the leading features, and returns its error on the test rows and
    /// its effective dimension, one for each rank. A rank has `None` if its system could not be
    /// solved, and all ranks have `None` without test rows.
    fn test_errors(
        &self,
        map: &dyn FeatureMap<T>,
        ranks: &[usize],
        gram: Option<GramState>,
    ) -> Result<Vec<Option<TestError>>> {
        let Setting { options, resources, targets, .. } = self.setting;
        let mut errors = vec![None; ranks.len()];
        let (Some(test), Some(gram)) = (&self.setting.test_rows, gram) else { return Ok(errors) };
        let ridge = ridge_grid(options, ranks.to_vec(), targets.centre());
        let (mut solved, mut heads) = (Vec::new(), Vec::<LinearHead>::new());
        for (rank_index, rank) in ranks.iter().enumerate() {
            match fit_with_dimension(&gram, *rank, options.lambda, &ridge, resources.workers) {
                Ok((fit, effective_dimension)) => {
                    solved.push((rank_index, effective_dimension));
                    heads.push(fit.head);
                }
                Err(error @ Error::Indefinite { .. }) => {
                    resources.stage_observer.warn(format!("{}: {error}; the cell has no test error", self.run.method));
                }
                Err(error) => return Err(error),
            }
        }
        drop(gram);
        let reduction = TestErrorReduction { map, heads: &heads, targets, tile_rows: self.pass_shape.tile_rows };
        let test: &dyn RowSource<T> = test;
        // test rows are rows of a table: their pass uses the journal even if the training rows are
        // a sample in memory
        let sums = pass(self.pass_shape, resources, self.observer).resume("errors on test rows", test, &reduction)?.0;
        for ((index, effective_dimension), mean) in solved.into_iter().zip(sums.means(targets).into_iter().flatten()) {
            errors[index] = Some(TestError { mean, effective_dimension });
        }
        Ok(errors)
    }
}
