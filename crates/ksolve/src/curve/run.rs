//! One run: landmarks, map, features, what they cost, and their errors at every rank.

use super::cost::{Cost, Meter, Milestones, form};
use super::held_out::HeldOut;
use super::method::{Method, Run};
use super::setting::{Setting, check, pass};
use super::{Cell, EXACT_ROWS, Estimate};
use crate::train::plan::Cut;
use crate::{Error, Folds, Head, Result, RidgeFold, RidgeOptions, fit};
use kapprox::landmark::{LandmarkSet, Rows, Scheme};
use kapprox::map::registry::{Ask, Making, OnLandmarks, WithoutRows};
use kapprox::quality::{Approximation, Errors, GramSpectrum, Measure, SpectralOptions, SpectralSource};
use kapprox::{FeatureMap, MapSpec, Nystrom, Real};
use kstore::pass::Observer;
use kstore::{Pass, RowSource};

/// A map, and what it cost to have its features at each rank of the run.
struct Made<T: Real> {
    map: Box<dyn FeatureMap<T>>,
    costs: Vec<Cost>,
}

/// Everything of a run that is settled before it starts.
struct Task<'s, 'a, T: Real> {
    setting: &'s Setting<'a, T>,
    run: &'s Run,
    seed: u64,
    cut: Cut,
    observer: &'s dyn Observer,
}

pub(super) fn run<T: Real>(setting: &Setting<'_, T>, run: &Run) -> Result<Vec<Cell>> {
    let largest = run.ranks.last().copied().unwrap_or(1);
    let (cut, plans) = setting.plan(&run.method, largest)?;
    let planned = check(plans)?;
    let observer = setting.resources.stages.stage(&run.method.to_string(), None);
    let seed = setting.options.seed.wrapping_add(run.repeat);
    let task = Task { setting, run, seed, cut, observer: &*observer };
    let made = match &run.method {
        Method::Scheme(scheme) => task.on_landmarks_of(scheme)?,
        Method::Map(spec) => task.by_map(spec, largest)?,
    };
    task.cells(&made, planned)
}

impl<T: Real> Task<'_, '_, T> {
    fn pass<'o>(&'o self, observer: &'o dyn Observer) -> Pass<'o> {
        pass(self.cut, self.setting.resources, observer)
    }

    fn data<'o>(&'o self, observer: &'o dyn Observer) -> Rows<'o, T> {
        Rows { source: self.setting.source(), pass: self.pass(observer), count: self.setting.n }
    }

    /// The cost of the features of every row of a map with so many landmarks.
    fn features(&self, map: &dyn FeatureMap<T>, landmarks: usize) -> Result<Cost> {
        let cost = form(map, self.setting.source(), self.pass(self.observer), self.setting.selected.table())?;
        Ok(Cost { evaluations: self.setting.n * landmarks as u64, ..cost })
    }

    /// `count` landmarks, watched.
    fn choose(&self, scheme: &Scheme, count: usize, milestones: &Milestones<'_>) -> Result<(LandmarkSet<T>, Cost)> {
        let chooser = T::landmarks(scheme);
        let set = chooser.select(&self.data(milestones), &self.setting.any, count, self.seed)?;
        if set.is_empty() {
            let why = "the kernel is zero on every row; choose another kernel or scale the features".to_string();
            return Err(kapprox::Error::NoLandmarks { why }.into());
        }
        let whole = milestones.whole(set.passes, set.evaluations);
        Ok((set, whole))
    }

    /// The Nyström map at the largest rank; the leading landmarks make that of every other.
    fn on_landmarks_of(&self, scheme: &Scheme) -> Result<Made<T>> {
        let (any, workers) = (&self.setting.any, self.setting.resources.workers);
        let table = self.setting.selected.table();
        let largest = self.run.ranks.last().copied().unwrap_or(1);
        let milestones = Milestones::new(self.observer, table);
        let (set, whole) = self.choose(scheme, largest, &milestones)?;
        let make = |set: LandmarkSet<T>| {
            let meter = Meter::start(table);
            let squared = (set.len() as u64).pow(2);
            let map = workers.install(|| Nystrom::new(any, set, kapprox::map::par(workers)))?;
            Ok::<_, Error>((map, meter.cost(0, squared)))
        };
        let (map, made) = make(set)?;
        let mut costs = Vec::new();
        for rank in &self.run.ranks {
            let landmarks = map.landmarks();
            let chosen = milestones.at(*rank, whole);
            costs.push(if *rank < landmarks.len() {
                let leading: Vec<usize> = (0..*rank).collect();
                let (map, made) = make(landmarks.keep(&leading))?;
                chosen.and(made).and(self.features(&map, *rank)?)
            } else {
                chosen.and(made).and(self.features(&map, landmarks.len())?)
            });
        }
        Ok(Made { map: Box::new(map), costs })
    }

    /// Another map.
    fn by_map(&self, spec: &MapSpec, rank: usize) -> Result<Made<T>> {
        let Setting { options, any, resources, selected, .. } = self.setting;
        let (d, table, seed) = (self.setting.source().shape().features, selected.table(), self.seed);
        match spec.making::<T>() {
            Making::Exact => Err(Method::no_approximation(&spec.to_string())),
            Making::WithoutRows(make) => {
                let meter = Meter::start(table);
                let map = make(&WithoutRows { spec, kernel: self.setting.kernel(), d, rank, seed })?;
                let cost = meter.cost(0, 0).and(self.features(&*map, 0)?);
                Ok(Made { map, costs: vec![cost] })
            }
            Making::OnLandmarks(make) => {
                let ask = Ask { d, rank, element: size_of::<T>() };
                let count = spec.shape(ask).landmarks.unwrap_or(rank);
                let milestones = Milestones::new(self.observer, table);
                let (set, chosen) = self.choose(options.landmarks, count, &milestones)?;
                let (landmarks, meter) = (set.len() as u64, Meter::start(table));
                let (data, workers) = (self.data(self.observer), resources.workers);
                let map = make(OnLandmarks { spec, kernel: any, landmarks: set, rank, data: &data, seed, workers })?;
                // every pass of the making forms the kernel with all landmarks
                let evaluations = landmarks * landmarks + spec.passes() * self.setting.n * landmarks;
                let made = meter.cost(spec.passes(), evaluations);
                let cost = chosen.and(made).and(self.features(&*map, landmarks as usize)?);
                Ok(Made { map, costs: vec![cost] })
            }
        }
    }

    /// Errors at every rank, with their costs.
    fn cells(&self, made: &Made<T>, planned: usize) -> Result<Vec<Cell>> {
        let Setting { options, any, .. } = self.setting;
        let p = made.map.dims().1;
        let mut present: Vec<usize> = self.run.ranks.iter().map(|rank| *rank.min(&p)).collect();
        present.dedup();
        let approximation = Approximation { data: self.data(self.observer), kernel: any, map: &*made.map };
        // the same columns for every cell: differences are then those of the methods
        let errors = approximation.errors(&present, self.setting.columns(), options.seed)?;
        let spectral = self.spectral(&approximation, &errors, &present)?;
        let tested = self.test(&*made.map, &present)?;
        let cell = |(rank, cost): (&usize, &Cost)| {
            let at = present.iter().position(|there| there == rank.min(&p)).unwrap_or(0);
            Cell {
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

    /// The spectral errors at every rank: of all rows, or estimated on few and bounded on all.
    fn spectral(
        &self,
        approximation: &Approximation<'_, T>,
        errors: &[Errors],
        ranks: &[usize],
    ) -> Result<Vec<Option<Estimate>>> {
        let seed = self.setting.options.seed;
        let products = SpectralSource::Products(SpectralOptions::default());
        if self.setting.n <= EXACT_ROWS {
            let one = |errors: &Errors| Ok(Some(approximation.spectral(errors, products, seed)?.0.into()));
            return errors.iter().map(one).collect();
        }
        let Some((whole, few)) = &self.setting.beyond else { return Ok(vec![None; ranks.len()]) };
        let data = Rows { source: few, count: few.len() as u64, ..self.data(self.observer) };
        let among_few = Approximation { data, ..*approximation };
        let of_few = among_few.errors(ranks, few.len(), seed)?;
        let one = |(errors, of_few): (&Errors, &Errors)| {
            // the norm of K is known already: no spectrum is needed for it
            let none = GramSpectrum { values: Vec::new(), rows: errors.rows };
            let norm = approximation.spectral(errors, SpectralSource::Bounds(&none), seed)?.1;
            let bounds = norm.error.relative_to(*whole);
            let guess = among_few.spectral(of_few, products, seed)?.0.value;
            // what is outside of what is certain is not believed
            let value = guess.min(bounds.high).max(bounds.low);
            Ok(Some(Estimate::from(Measure { value, ..bounds })))
        };
        errors.iter().zip(&of_few).map(one).collect()
    }

    /// Ridge regression on the leading features, and its error on the test rows; one value for each rank.
    fn test(&self, map: &dyn FeatureMap<T>, ranks: &[usize]) -> Result<Vec<Option<f64>>> {
        let Setting { options, resources, targets, .. } = self.setting;
        let mut errors = vec![None; ranks.len()];
        let Some(test) = &self.setting.test else { return Ok(errors) };
        let folds = Folds::None;
        let fold = RidgeFold::new(map, &folds, targets).with_bin(self.cut.tile).without_certificate();
        let gram = self.pass(self.observer).fold(self.setting.source(), &fold)?.0.gram;
        let ridge = RidgeOptions {
            ranks: ranks.to_vec(),
            lambdas: vec![options.lambda],
            intercept: options.intercept,
            target_centre: targets.centre(),
        };
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
        let fold = HeldOut { map, heads: &heads, targets, tile: self.cut.tile };
        let test: &dyn RowSource<T> = test;
        let sums = self.pass(self.observer).fold(test, &fold)?.0;
        for (at, mean) in solved.into_iter().zip(sums.means(targets).into_iter().flatten()) {
            errors[at] = Some(mean).filter(|mean| mean.is_finite());
        }
        Ok(errors)
    }
}
