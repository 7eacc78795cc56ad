//! A run: selects landmarks, builds the map, computes the features, and measures their costs and
//! errors at every rank.

use super::cost::{Cost, Meter, Milestones, time_features};
use super::error_reductions::{MeasuredSums, MeasuringReduction, TestErrorReduction};
use super::method::{CurveRun, Method};
use super::run_plan::ridge;
use super::setting::{Setting, pass};
use super::{CurveCell, EXACT_ROWS, Estimate};
use crate::prepare::target_counts::check_plans;
use crate::request::{PassShape, Resources};
use crate::{Error, GramState, LinearHead, Result, fit};
use kapprox::landmark::{LandmarkSet, Scheme, TableScan};
use kapprox::map::{DataIndependentMapArgs, LandmarkMapArgs, MapConstructor, MapRequest, MapShape};
use kapprox::quality::{Approximation, ColumnReduction, Errors, Measure, NormPair, SpectralOptions};
use kapprox::{FeatureMap, MapSpec, NystromMap, Real};
use kstore::pass::Observer;
use kstore::{Pass, RowSource};

/// From this number of features on, the measuring pass also times the computation of the features.
/// With fewer features, a separate pass for the time is cheap. In the measuring pass, rows are
/// decoded while other work runs, so the measured time excludes the decoding, which takes far less
/// time than the features.
const MIN_TIMED_FEATURES: usize = 512;

/// A map, and the cost of its features at each rank of the run.
struct TimedMap<T: Real> {
    map: Box<dyn FeatureMap<T>>,
    /// Cost at each rank. The last `full_ranks` ranks use all features; for these ranks the cost of
    /// computing the features is added later.
    costs: Vec<Cost>,
    full_ranks: usize,
    /// Number of kernel evaluations per row.
    landmarks: usize,
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
        let largest = run.ranks.last().copied().unwrap_or(1);
        let (pass_shape, plans) = self.plan(&run.method, largest)?;
        let planned = check_plans(plans)?;
        let observer = self.resources.stage_observer.stage(&run.method.to_string(), None);
        let seed = self.options.seed.wrapping_add(run.repeat);
        let run_setting =
            RunSetting { setting: self, resources: self.row_resources, run, seed, pass_shape, observer: &*observer };
        let timed_map = match &run.method {
            Method::Scheme(scheme) => run_setting.build_nystrom(scheme)?,
            Method::Map(spec) => run_setting.build_map(spec, largest)?,
        };
        run_setting.cells(timed_map, planned)
    }
}

impl<T: Real> RunSetting<'_, '_, T> {
    fn pass<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        pass(self.pass_shape, &self.resources, observer)
    }

    fn data<'o>(&'o self, observer: &'o dyn Observer) -> TableScan<'o, T> {
        TableScan { source: self.setting.source(), pass: self.pass(observer), count: self.setting.n }
    }

    fn cost_of_features(&self, map: &dyn FeatureMap<T>, landmarks: usize) -> Result<Cost> {
        let cost = time_features(map, self.setting.source(), self.pass(self.observer), self.setting.selected.table())?;
        Ok(Cost { evaluations: self.setting.n * landmarks as u64, ..cost })
    }

    fn map_shape(&self, spec: &MapSpec, rank: usize) -> Result<MapShape> {
        let (d, rows) = (self.setting.source().shape().inputs, usize::try_from(self.setting.n).unwrap_or(usize::MAX));
        Ok(spec.shape(MapRequest { d, rank, rows, element_bytes: size_of::<T>() })?)
    }

    fn choose(&self, scheme: &Scheme, count: usize, milestones: &Milestones<'_>) -> Result<(LandmarkSet<T>, Cost)> {
        let rule = scheme.typed::<T>();
        let set = rule.select(&self.data(milestones), &self.setting.any_kernel, count, self.seed)?;
        if set.is_empty() {
            let why = "the kernel is zero on every row; choose another kernel or scale the features".to_string();
            return Err(kapprox::Error::NoLandmarks { why }.into());
        }
        let total = milestones.meter.cost(set.passes, set.evaluations);
        Ok((set, total))
    }

    /// Builds the Nyström map at the largest rank; its leading landmarks define the map at every
    /// other rank.
    fn build_nystrom(&self, scheme: &Scheme) -> Result<TimedMap<T>> {
        let (any_kernel, workers) = (&self.setting.any_kernel, self.setting.resources.workers);
        let table = self.setting.selected.table();
        let largest = self.map_shape(&MapSpec::default(), self.run.ranks.last().copied().unwrap_or(1))?.p;
        let milestones = Milestones::new(self.observer, table);
        let (set, total) = self.choose(scheme, largest, &milestones)?;
        let make = |set: LandmarkSet<T>| {
            let meter = Meter::start(table);
            let squared = (set.len() as u64).pow(2);
            let map = NystromMap::new(any_kernel, set, workers)?;
            Ok::<_, Error>((map, meter.cost(0, squared)))
        };
        let (map, build_cost) = make(set)?;
        let count = map.landmarks().len();
        let mut costs = Vec::new();
        for rank in &self.run.ranks {
            let chosen = milestones.cost_at(*rank, total);
            costs.push(if *rank < count {
                let leading: Vec<usize> = (0..*rank).collect();
                let (map, build_cost) = make(map.landmarks().subset(&leading))?;
                chosen.plus(build_cost).plus(self.cost_of_features(&map, *rank)?)
            } else {
                chosen.plus(build_cost)
            });
        }
        let all = self.run.ranks.iter().filter(|rank| **rank >= count).count();
        Ok(TimedMap { map: Box::new(map), costs, full_ranks: all, landmarks: count })
    }

    fn build_map(&self, spec: &MapSpec, rank: usize) -> Result<TimedMap<T>> {
        let Setting { options, any_kernel: any, resources, selected, .. } = self.setting;
        let (d, table, seed) = (self.setting.source().shape().inputs, selected.table(), self.seed);
        let MapShape { p: rank, landmarks, .. } = self.map_shape(spec, rank)?;
        match spec.constructor::<T>() {
            MapConstructor::Exact => Err(Method::exact_kernel_error(&spec.to_string())),
            MapConstructor::DataIndependent(make) => {
                let meter = Meter::start(table);
                let map = make(&DataIndependentMapArgs { spec, kernel: self.setting.kernel(), d, rank, seed })?;
                let costs = vec![meter.cost(0, 0)];
                Ok(TimedMap { map, costs, full_ranks: 1, landmarks: 0 })
            }
            MapConstructor::OnLandmarks(make) => {
                let milestones = Milestones::new(self.observer, table);
                let (set, chosen) = self.choose(options.landmarks, landmarks.unwrap_or(rank), &milestones)?;
                let (count, meter) = (set.len(), Meter::start(table));
                let (data, workers) = (self.data(self.observer), resources.workers);
                let map =
                    make(LandmarkMapArgs { spec, kernel: any, landmarks: set, rank, data: &data, seed, workers })?;
                // every pass of the construction evaluates the kernel with all landmarks
                let evaluations = count as u64 * (count as u64 + spec.passes() * self.setting.n);
                let costs = vec![chosen.plus(meter.cost(spec.passes(), evaluations))];
                Ok(TimedMap { map, costs, full_ranks: 1, landmarks: count })
            }
        }
    }

    fn cells(&self, mut timed_map: TimedMap<T>, planned: usize) -> Result<Vec<CurveCell>> {
        let Setting { options, any_kernel: any, .. } = self.setting;
        let p = timed_map.map.dims().1;
        let mut present: Vec<usize> = self.run.ranks.iter().map(|rank| *rank.min(&p)).collect();
        present.dedup();
        let approximation = Approximation { data: self.data(self.observer), kernel: any, map: &*timed_map.map };
        // the same columns for every cell, so that cells differ only by method
        let fold = approximation.column_reduction(&present, self.setting.columns(), options.seed)?;
        let (measured, feature_cost) = self.measure(&timed_map, &fold)?;
        timed_map.costs.iter_mut().rev().take(timed_map.full_ranks).for_each(|cost| *cost = cost.plus(feature_cost));
        let errors = fold.errors(&measured.columns);
        drop(fold);
        let test_errors = self.test_errors(&*timed_map.map, &present, measured.gram)?;
        let spectral = self.spectral(&approximation, &errors, &present)?;
        let cell = |(rank, cost): (&usize, &Cost)| {
            let index = present.iter().position(|present_rank| present_rank == rank.min(&p)).unwrap_or(0);
            CurveCell {
                method: self.run.method.to_string(),
                rank: *rank,
                repeat: self.run.repeat,
                features: present[index],
                seconds: cost.seconds,
                kernel_evaluations: cost.evaluations,
                passes: cost.passes,
                bytes_read: cost.bytes,
                planned_bytes: planned,
                trace_error: errors[index].trace,
                trace_rounding: errors[index].floor,
                frobenius: errors[index].frobenius.into(),
                spectral: spectral[index].clone(),
                test_error: test_errors[index],
            }
        };
        Ok(self.run.ranks.iter().zip(&timed_map.costs).map(cell).collect())
    }

    /// Runs the pass over the features of every row, and returns its result and the cost of these
    /// features.
    fn measure(&self, timed_map: &TimedMap<T>, columns: &ColumnReduction<'_, T>) -> Result<(MeasuredSums, Cost)> {
        let Setting { targets, test, selected, .. } = self.setting;
        let (map, targets) = (&*timed_map.map, test.as_ref().map(|_| targets));
        let meter = Meter::start(selected.table());
        let fold = MeasuringReduction { map, columns, targets, tile: self.pass_shape.tile };
        let (measured, report) = self.pass(self.observer).resume("errors of a method", self.setting.source(), &fold)?;
        if map.dims().1 < MIN_TIMED_FEATURES {
            return Ok((measured, self.cost_of_features(map, timed_map.landmarks)?));
        }
        let seconds = measured.feature_seconds + report.decoder_wait.as_secs_f64();
        let feature_cost = Cost { seconds, ..meter.cost(1, self.setting.n * timed_map.landmarks as u64) };
        Ok((measured, feature_cost))
    }

    /// Returns the spectral errors at every rank: exact, or estimated on a sample and bounded on
    /// all rows.
    fn spectral(
        &self,
        approximation: &Approximation<'_, T>,
        errors: &[Errors],
        ranks: &[usize],
    ) -> Result<Vec<Option<Estimate>>> {
        let (seed, products) = (self.setting.options.seed, SpectralOptions::default());
        if self.setting.n <= EXACT_ROWS {
            let norms = approximation.spectral(errors, products, seed)?;
            return Ok(norms.iter().map(|norm| Some(norm.relative().into())).collect());
        }
        let Some((kernel_norm, sample)) = &self.setting.spectral_sample else { return Ok(vec![None; ranks.len()]) };
        let sample_pass = Pass { journal: None, ..self.pass(self.observer) };
        let data = TableScan { source: sample, pass: sample_pass, count: sample.len() as u64 };
        let on_sample = Approximation { data, ..*approximation };
        let sample_errors = on_sample.errors(ranks, sample.len(), seed)?;
        let norms = on_sample.spectral(&sample_errors, products, seed)?;
        let one = |(errors, sample_norm): (&Errors, &NormPair)| {
            // the norm of K is already known, so its spectrum is not needed
            let bounds = errors.spectral_bounds(0.0).error.relative_to(*kernel_norm);
            // the bounds are certain, so an estimate outside the bounds is clipped
            let value = sample_norm.relative().value.min(bounds.high).max(bounds.low);
            Some(Estimate::from(Measure { value, ..bounds }))
        };
        Ok(errors.iter().zip(&norms).map(one).collect())
    }

    /// Fits ridge regression on the leading features, and returns its error on the test rows, one
    /// value per rank.
    fn test_errors(
        &self,
        map: &dyn FeatureMap<T>,
        ranks: &[usize],
        gram: Option<GramState>,
    ) -> Result<Vec<Option<f64>>> {
        let Setting { options, resources, targets, .. } = self.setting;
        let mut errors = vec![None; ranks.len()];
        let (Some(test), Some(gram)) = (&self.setting.test, gram) else { return Ok(errors) };
        let ridge = ridge(options, ranks.to_vec(), targets.centre());
        let (mut solved, mut heads) = (Vec::new(), Vec::<LinearHead>::new());
        for (index, rank) in ranks.iter().enumerate() {
            match fit(&gram, *rank, options.lambda, &ridge, resources.workers) {
                Ok(fit) => {
                    solved.push(index);
                    heads.push(fit.head);
                }
                Err(error @ Error::Indefinite { .. }) => {
                    resources.stage_observer.warn(format!("{}: {error}; the cell has no test error", self.run.method));
                }
                Err(error) => return Err(error),
            }
        }
        drop(gram);
        let fold = TestErrorReduction { map, heads: &heads, targets, tile: self.pass_shape.tile };
        let test: &dyn RowSource<T> = test;
        // test rows are rows of a table: their pass uses the journal even if the training rows are
        // a sample in memory
        let sums = pass(self.pass_shape, resources, self.observer).resume("errors on test rows", test, &fold)?.0;
        for (index, mean) in solved.into_iter().zip(sums.means(targets).into_iter().flatten()) {
            errors[index] = Some(mean).filter(|mean| mean.is_finite());
        }
        Ok(errors)
    }
}
