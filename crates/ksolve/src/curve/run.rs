//! One run: landmarks, map, features, their costs, and their errors at every rank.

use super::cost::{Cost, Meter, Milestones, form};
use super::measuring::{MeasuredSums, Measuring, TestErrors};
use super::method::{CurveRun, Method};
use super::plan::ridge;
use super::setting::{Setting, pass};
use super::{CurveCell, EXACT_ROWS, Estimate};
use crate::request::{PassShape, Resources};
use crate::train::prepared::check;
use crate::{Error, GramState, Head, Result, fit};
use kapprox::landmark::{LandmarkSet, Scan, Scheme};
use kapprox::map::{Making, MapRequest, MapShape, OnLandmarks, WithoutRows};
use kapprox::quality::{Approximation, ColumnFold, Errors, Measure, Norm, SpectralOptions};
use kapprox::{FeatureMap, MapSpec, NystromMap, Real};
use kstore::pass::Observer;
use kstore::{Pass, RowSource};

/// Minimum number of features for which the measuring pass also times their computation, without
/// its other work. Decoding that overlaps with the other work is not counted, and takes far less
/// time. With fewer features, a separate pass is cheap.
const TIMED_WITHIN: usize = 512;

/// A map, and the cost of its features at each rank of the run.
struct Made<T: Real> {
    map: Box<dyn FeatureMap<T>>,
    /// Cost at each rank. For the last `whole` ranks, which use all features, the cost of computing
    /// the features is added later.
    costs: Vec<Cost>,
    whole: usize,
    /// Number of kernel evaluations per row.
    landmarks: usize,
}

/// The settings of a run that are fixed before it starts.
struct RunSetting<'s, 'a, T: Real> {
    setting: &'s Setting<'a, T>,
    resources: Resources<'s>,
    run: &'s CurveRun,
    seed: u64,
    cut: PassShape,
    observer: &'s dyn Observer,
}

impl<T: Real> Setting<'_, T> {
    /// Executes a run and returns its cells.
    ///
    /// # Errors
    /// Errors of the scheme, the map and the rows; [`kstore::Error::Interrupted`].
    pub fn run(&self, run: &CurveRun) -> Result<Vec<CurveCell>> {
        let largest = run.ranks.last().copied().unwrap_or(1);
        let (cut, plans) = self.plan(&run.method, largest)?;
        let planned = check(plans)?;
        let observer = self.resources.stages.stage(&run.method.to_string(), None);
        let seed = self.options.seed.wrapping_add(run.repeat);
        let run_setting = RunSetting { setting: self, resources: self.own, run, seed, cut, observer: &*observer };
        let made = match &run.method {
            Method::Scheme(scheme) => run_setting.on_landmarks_of(scheme)?,
            Method::Map(spec) => run_setting.by_map(spec, largest)?,
        };
        run_setting.cells(made, planned)
    }
}

impl<T: Real> RunSetting<'_, '_, T> {
    fn pass<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        pass(self.cut, &self.resources, observer)
    }

    fn data<'o>(&'o self, observer: &'o dyn Observer) -> Scan<'o, T> {
        Scan { source: self.setting.source(), pass: self.pass(observer), count: self.setting.n }
    }

    fn cost_of_features(&self, map: &dyn FeatureMap<T>, landmarks: usize) -> Result<Cost> {
        let cost = form(map, self.setting.source(), self.pass(self.observer), self.setting.selected.table())?;
        Ok(Cost { evaluations: self.setting.n * landmarks as u64, ..cost })
    }

    fn shape(&self, spec: &MapSpec, rank: usize) -> Result<MapShape> {
        let (d, rows) = (self.setting.source().shape().features, usize::try_from(self.setting.n).unwrap_or(usize::MAX));
        Ok(spec.shape(MapRequest { d, rank, rows, element: size_of::<T>() })?)
    }

    fn choose(&self, scheme: &Scheme, count: usize, milestones: &Milestones<'_>) -> Result<(LandmarkSet<T>, Cost)> {
        let chooser = scheme.landmarks::<T>();
        let set = chooser.select(&self.data(milestones), &self.setting.any, count, self.seed)?;
        if set.is_empty() {
            let why = "the kernel is zero on every row; choose another kernel or scale the features".to_string();
            return Err(kapprox::Error::NoLandmarks { why }.into());
        }
        let whole = milestones.meter.cost(set.passes, set.evaluations);
        Ok((set, whole))
    }

    /// Builds the Nyström map at the largest rank; its leading landmarks define the map at every
    /// other rank.
    fn on_landmarks_of(&self, scheme: &Scheme) -> Result<Made<T>> {
        let (any, workers) = (&self.setting.any, self.setting.resources.workers);
        let table = self.setting.selected.table();
        let largest = self.shape(&MapSpec::default(), self.run.ranks.last().copied().unwrap_or(1))?.p;
        let milestones = Milestones::new(self.observer, table);
        let (set, whole) = self.choose(scheme, largest, &milestones)?;
        let make = |set: LandmarkSet<T>| {
            let meter = Meter::start(table);
            let squared = (set.len() as u64).pow(2);
            let map = NystromMap::new(any, set, workers)?;
            Ok::<_, Error>((map, meter.cost(0, squared)))
        };
        let (map, made) = make(set)?;
        let count = map.landmarks().len();
        let mut costs = Vec::new();
        for rank in &self.run.ranks {
            let chosen = milestones.at(*rank, whole);
            costs.push(if *rank < count {
                let leading: Vec<usize> = (0..*rank).collect();
                let (map, made) = make(map.landmarks().keep(&leading))?;
                chosen.and(made).and(self.cost_of_features(&map, *rank)?)
            } else {
                chosen.and(made)
            });
        }
        let all = self.run.ranks.iter().filter(|rank| **rank >= count).count();
        Ok(Made { map: Box::new(map), costs, whole: all, landmarks: count })
    }

    fn by_map(&self, spec: &MapSpec, rank: usize) -> Result<Made<T>> {
        let Setting { options, any, resources, selected, .. } = self.setting;
        let (d, table, seed) = (self.setting.source().shape().features, selected.table(), self.seed);
        let MapShape { p: rank, landmarks, .. } = self.shape(spec, rank)?;
        match spec.making::<T>() {
            Making::Exact => Err(Method::no_approximation(&spec.to_string())),
            Making::WithoutRows(make) => {
                let meter = Meter::start(table);
                let map = make(&WithoutRows { spec, kernel: self.setting.kernel(), d, rank, seed })?;
                let costs = vec![meter.cost(0, 0)];
                Ok(Made { map, costs, whole: 1, landmarks: 0 })
            }
            Making::OnLandmarks(make) => {
                let milestones = Milestones::new(self.observer, table);
                let (set, chosen) = self.choose(options.landmarks, landmarks.unwrap_or(rank), &milestones)?;
                let (count, meter) = (set.len(), Meter::start(table));
                let (data, workers) = (self.data(self.observer), resources.workers);
                let map = make(OnLandmarks { spec, kernel: any, landmarks: set, rank, data: &data, seed, workers })?;
                // every pass of the construction evaluates the kernel with all landmarks
                let evaluations = count as u64 * (count as u64 + spec.passes() * self.setting.n);
                let costs = vec![chosen.and(meter.cost(spec.passes(), evaluations))];
                Ok(Made { map, costs, whole: 1, landmarks: count })
            }
        }
    }

    fn cells(&self, mut made: Made<T>, planned: usize) -> Result<Vec<CurveCell>> {
        let Setting { options, any, .. } = self.setting;
        let p = made.map.dims().1;
        let mut present: Vec<usize> = self.run.ranks.iter().map(|rank| *rank.min(&p)).collect();
        present.dedup();
        let approximation = Approximation { data: self.data(self.observer), kernel: any, map: &*made.map };
        // the same columns for every cell, so that cells differ only by method
        let fold = approximation.column_fold(&present, self.setting.columns(), options.seed)?;
        let (measured, forming) = self.measure(&made, &fold)?;
        made.costs.iter_mut().rev().take(made.whole).for_each(|cost| *cost = cost.and(forming));
        let errors = fold.errors(&measured.columns);
        drop(fold);
        let tested = self.test(&*made.map, &present, measured.gram)?;
        let spectral = self.spectral(&approximation, &errors, &present)?;
        let cell = |(rank, cost): (&usize, &Cost)| {
            let at = present.iter().position(|there| there == rank.min(&p)).unwrap_or(0);
            CurveCell {
                method: self.run.method.to_string(),
                rank: *rank,
                repeat: self.run.repeat,
                features: present[at],
                seconds: cost.seconds,
                kernel_evaluations: cost.evaluations,
                passes: cost.passes,
                bytes_read: cost.bytes,
                planned_bytes: planned,
                trace_error: errors[at].trace,
                trace_rounding: errors[at].floor,
                frobenius: errors[at].frobenius.into(),
                spectral: spectral[at].clone(),
                test_error: tested[at],
            }
        };
        Ok(self.run.ranks.iter().zip(&made.costs).map(cell).collect())
    }

    /// Runs the pass over the features of every row, and returns its result and the cost of these
    /// features.
    fn measure(&self, made: &Made<T>, columns: &ColumnFold<'_, T>) -> Result<(MeasuredSums, Cost)> {
        let Setting { targets, test, selected, .. } = self.setting;
        let (map, targets) = (&*made.map, test.as_ref().map(|_| targets));
        let meter = Meter::start(selected.table());
        let fold = Measuring { map, columns, targets, tile: self.cut.tile };
        let (measured, report) = self.pass(self.observer).resume("errors of a method", self.setting.source(), &fold)?;
        if map.dims().1 < TIMED_WITHIN {
            return Ok((measured, self.cost_of_features(map, made.landmarks)?));
        }
        let seconds = measured.forming + report.starved.as_secs_f64();
        let forming = Cost { seconds, ..meter.cost(1, self.setting.n * made.landmarks as u64) };
        Ok((measured, forming))
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
            let found = approximation.spectral(errors, products, seed)?;
            return Ok(found.iter().map(|norm| Some(norm.relative().into())).collect());
        }
        let Some((whole, few)) = &self.setting.beyond else { return Ok(vec![None; ranks.len()]) };
        let alone = Pass { journal: None, ..self.pass(self.observer) };
        let data = Scan { source: few, pass: alone, count: few.len() as u64 };
        let among_few = Approximation { data, ..*approximation };
        let of_few = among_few.errors(ranks, few.len(), seed)?;
        let guesses = among_few.spectral(&of_few, products, seed)?;
        let one = |(errors, guess): (&Errors, &Norm)| {
            // the norm of K is already known, so its spectrum is not needed
            let bounds = errors.spectral_bounds(0.0).error.relative_to(*whole);
            // the bounds are certain, so an estimate outside of them is clipped
            let value = guess.relative().value.min(bounds.high).max(bounds.low);
            Some(Estimate::from(Measure { value, ..bounds }))
        };
        Ok(errors.iter().zip(&guesses).map(one).collect())
    }

    /// Fits ridge regression on the leading features, and returns its error on the test rows, one
    /// value per rank.
    fn test(&self, map: &dyn FeatureMap<T>, ranks: &[usize], gram: Option<GramState>) -> Result<Vec<Option<f64>>> {
        let Setting { options, resources, targets, .. } = self.setting;
        let mut errors = vec![None; ranks.len()];
        let (Some(test), Some(gram)) = (&self.setting.test, gram) else { return Ok(errors) };
        let ridge = ridge(options, ranks.to_vec(), targets.centre());
        let (mut solved, mut heads) = (Vec::new(), Vec::<Head>::new());
        for (at, rank) in ranks.iter().enumerate() {
            match fit(&gram, *rank, options.lambda, &ridge, resources.workers) {
                Ok(fit) => {
                    solved.push(at);
                    heads.push(fit.head);
                }
                Err(error @ Error::Indefinite { .. }) => {
                    resources.stages.warn(format!("{}: {error}; the cell has no test error", self.run.method));
                }
                Err(error) => return Err(error),
            }
        }
        drop(gram);
        let fold = TestErrors { map, heads: &heads, targets, tile: self.cut.tile };
        let test: &dyn RowSource<T> = test;
        // test rows are rows of a table: their pass uses the journal even if the training rows are
        // a sample in memory
        let sums = pass(self.cut, resources, self.observer).resume("errors on test rows", test, &fold)?.0;
        for (at, mean) in solved.into_iter().zip(sums.means(targets).into_iter().flatten()) {
            errors[at] = Some(mean).filter(|mean| mean.is_finite());
        }
        Ok(errors)
    }
}
