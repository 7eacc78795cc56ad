//! What a run will cost, before it runs: memory by [`super::plan`], and passes, bytes read and time from a second of
//! calibration on the machine and the rows at hand.
//!
//! Per row and with m landmarks, a pass of products costs
//!
//! | part | flops | grows with |
//! |---|---|---|
//! | kernel block and its profile, certificate | 2md + O(m) | m |
//! | triangular solve | m² | m² |
//! | Gram matrix | m² | m² |
//!
//! and beside the rows there are m³ for the landmarks' factor, m³/3 and a product for every fold and lambda. Each part is
//! timed at no more than [`TIMED`] landmarks with the code that the run will use, and scaled up by its power.

use super::options::{Resources, Scaling, Task, TrainOptions};
use super::plan::Cut;
use crate::train::plan;
use crate::{CertificateState, FoldSpec, GramScratch, GramState, Result, RidgeOptions, ridge, strips};
use faer::{Mat, MatRef};
use kapprox::landmark::LandmarkSet;
use kapprox::map::nystrom::STRIP;
use kapprox::{FeatureMap, Nystrom, Real};
use kstore::pass::Observer;
use kstore::{Pass, Plan, Reading, RowBuf, RowSource, Scaler, Selected, Statistics, StatisticsFold};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Landmarks the products are timed with, at most: large enough that their rates are those of larger ones, small enough
/// for a second.
const TIMED: usize = 1000;

/// Time for each of the two ways of reading.
const READING: Duration = Duration::from_millis(150);

/// Places of the table that rows for the products are taken from, so that sorted tables do not mislead.
const PLACES: u64 = 8;

/// Passes over its rows that randomly pivoted Cholesky takes, and what they add up to in landmarks m and in m²: measured
/// 7 to 9 rounds with rejections on kin40k and beijing-pm25 at ranks 300 and 1,000.
const ROUNDS: (u64, f64, f64) = (8, 4.4, 3.2);

/// Flops per second and thread that any machine reaches, to tell a run of seconds from one of minutes without timing.
const MODEST: f64 = 20e9;

/// A stage of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is resident.
    pub plan: Plan,
    /// Passes over the table.
    pub passes: u64,
    /// Bytes read, where the rows were timed.
    pub bytes_read: Option<u64>,
    /// Time, where it was estimated.
    pub seconds: Option<f64>,
}

/// What a run will do.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Stored rows of the selection: an upper bound on the rows.
    pub rows: u64,
    /// Tiles, segments and lanes.
    pub cut: Cut,
    /// The stages, in their order.
    pub steps: Vec<Step>,
}

impl Forecast {
    /// Bytes of the stage that needs most.
    pub fn bytes(&self) -> usize {
        self.steps.iter().map(|step| step.plan.bytes()).max().unwrap_or(0)
    }

    /// True where every stage fits the budget.
    pub fn fits(&self) -> bool {
        self.steps.iter().all(|step| step.plan.bytes() <= step.plan.budget)
    }

    /// Passes over the table.
    pub fn passes(&self) -> u64 {
        self.steps.iter().map(|step| step.passes).sum()
    }

    /// Bytes read by all passes.
    pub fn bytes_read(&self) -> Option<u64> {
        self.steps.iter().map(|step| step.bytes_read).sum()
    }

    /// Seconds of all stages.
    pub fn seconds(&self) -> Option<f64> {
        self.steps.iter().map(|step| step.seconds).sum()
    }
}

/// The forecast of a run: its plan, and times where a calibration pays: `always`, or for runs of more than about
/// `worth`.
///
/// Reads some rows for the calibration, about a second's worth; writes nothing.
///
/// # Errors
/// Those of the first rows: missing files, bad values.
pub fn forecast<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    worth: Duration,
) -> Result<Forecast> {
    let (cut, plans) = plan::<T>(selected, options, resources)?;
    let range = selected.range();
    let rows = range.end - range.start;
    let run = Work::new(selected, options, rows);
    let threads = resources.workers.threads();
    let long = run.flops() / (MODEST * threads as f64) >= worth.as_secs_f64();
    let fits = plans.iter().all(|plan| plan.bytes() <= plan.budget);
    // what does not fit is not tried either
    let rates = if long && fits { Some(Rates::measure::<T>(selected, options, cut, resources)?) } else { None };
    let costs = run.stages(rates.as_ref(), cut, threads);
    let step = |(plan, (passes, seconds)): (Plan, (u64, Option<f64>))| {
        let bytes = |rates: &Rates| (passes as f64 * rows as f64 * rates.bytes) as u64;
        Step { plan, passes, bytes_read: rates.as_ref().map(bytes), seconds }
    };
    Ok(Forecast { rows, cut, steps: plans.into_iter().zip(costs).map(step).collect() })
}

/// Sizes that decide the cost of a run.
struct Work {
    rows: f64,
    d: usize,
    m: usize,
    /// Rows of the candidates in memory; `None` where every round is a pass.
    candidates: Option<f64>,
    /// True for a pass that draws a sample.
    samples: bool,
    /// Passes of the scheme, and their sum in landmarks and in their squares.
    rounds: (u64, f64, f64),
    /// Systems solved: one for every fold and lambda, and the last.
    systems: f64,
    /// Columns of scores of a further pass, 0 without.
    scored: f64,
}

impl Work {
    fn new(selected: &Selected, options: &TrainOptions, rows: u64) -> Self {
        let folds = match &options.folds {
            FoldSpec::None => 1,
            FoldSpec::Hash(k) | FoldSpec::Blocks(k) => *k,
            // the labels of a column are not known before the first pass
            FoldSpec::Column(_) => 5,
        };
        let crossed = folds > 1 && options.task == Task::Classification;
        Self {
            rows: rows as f64,
            d: selected.shape().features,
            m: options.rank.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1),
            candidates: options.candidates.map(|n| n.min(rows as usize) as f64),
            samples: options.candidates.is_some() || options.kernel.needs_median(),
            // schemes without a line of their own cost what the default costs
            rounds: if options.landmarks == "uniform" { (1, 0.0, 0.0) } else { ROUNDS },
            systems: if folds > 1 { (folds * options.lambdas.len()) as f64 } else { 0.0 } + 1.0,
            scored: if crossed { (options.ranks.len() * super::run::CLASSES_ASSUMED) as f64 } else { 0.0 },
        }
    }

    /// About how many flops, from the table above.
    fn flops(&self) -> f64 {
        let (m, chosen) = (self.m as f64, self.candidates.unwrap_or(self.rows));
        let (_, linear, square) = self.rounds;
        let per_row = |linear: f64, square: f64| 2.0 * linear * m * self.d as f64 + square * m * m;
        self.rows * per_row(1.0, 2.0) + chosen * per_row(linear, square) + self.systems * m.powi(3) / 3.0
    }

    /// Passes and seconds of the stages that [`plan`] lists: statistics, landmarks, factor, Gram matrix, solve.
    fn stages(&self, rates: Option<&Rates>, cut: Cut, threads: usize) -> [(u64, Option<f64>); 5] {
        let (rounds, linear, square) = self.rounds;
        let scoring = u64::from(self.scored > 0.0);
        let choosing = u64::from(self.samples) + if self.candidates.is_none() { rounds } else { 0 };
        let times = rates.map(|rates| {
            let scale = self.m as f64 / rates.m as f64;
            let (scan, products) = (self.rows * rates.scan, scale * rates.linear + scale * scale * rates.solve);
            let gram = scale * scale * rates.gram;
            // decoding runs beside the products: the slower of the two decides, and both share the threads
            let pass = |work: f64, lanes: usize| {
                let decode = self.rows * rates.decode;
                (decode / lanes as f64).max(decode / threads as f64 + self.rows * rates.selected * work)
            };
            let round =
                |share: f64| linear * scale * rates.linear * share + square * scale * scale * rates.solve * share;
            let choose = match self.candidates {
                Some(rows) => rows * round(1.0),
                None => rounds as f64 * pass(round(1.0 / rounds as f64), cut.scan_lanes),
            };
            let heads = self.scored * 4.0 * self.m as f64 / (rates.m * rates.m) as f64 * rates.gram;
            let score = if scoring == 0 { 0.0 } else { pass(products + heads, cut.gram_lanes) };
            let cubed = scale.powi(3);
            [
                scan,
                f64::from(u8::from(self.samples)) * scan + choose,
                cubed * rates.factor,
                pass(products + gram, cut.gram_lanes),
                self.systems * cubed * rates.system + score,
            ]
        });
        let passes = [1, choosing, 0, 1, scoring];
        std::array::from_fn(|i| (passes[i], times.map(|times| times[i])))
    }
}

/// Seconds of the parts of a run, on all threads unless said.
#[derive(Debug)]
struct Rates {
    /// Bytes read per stored row.
    bytes: f64,
    /// Selected rows among the stored.
    selected: f64,
    /// The statistics of a stored row.
    scan: f64,
    /// Decoding a stored row, by one cursor.
    decode: f64,
    /// Landmarks that the rest was timed with.
    m: usize,
    /// Kernel values and certificate of a row.
    linear: f64,
    /// Triangular solve of a row.
    solve: f64,
    /// Gram matrix of a row.
    gram: f64,
    /// Kernel matrix of the landmarks and its factor.
    factor: f64,
    /// One fold and lambda.
    system: f64,
}

impl Rates {
    fn measure<T: Real>(
        selected: &Selected,
        options: &TrainOptions,
        cut: Cut,
        resources: &Resources<'_>,
    ) -> Result<Self> {
        let _stage = resources.stages.stage("calibration", None);
        let selected = &selected.counting_apart();
        let (scan, bytes) = scan(selected, cut, resources)?;
        let sample = Sample::<T>::draw(selected, options, cut)?;
        let (decode, share) = sample.decode(selected)?;
        let products = Products::measure::<T>(&sample, options, resources)?;
        let Products { m, linear, solve, gram, factor, system } = products;
        Ok(Self { bytes, selected: share, scan, decode, m, linear, solve, gram, factor, system })
    }
}

/// Stops a pass when its time is over, and counts its rows.
struct Until {
    end: Instant,
    rows: AtomicU64,
}

impl Observer for Until {
    fn advance(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
    fn stop(&self) -> bool {
        Instant::now() >= self.end
    }
}

/// Seconds and bytes of a row in the statistics pass.
fn scan(selected: &Selected, cut: Cut, resources: &Resources<'_>) -> Result<(f64, f64)> {
    let source = selected.rows::<f64>(Reading::default())?;
    let started = Instant::now();
    let watch = Until { end: started + READING, rows: AtomicU64::new(0) };
    let (tile, segment, lanes, prefetch) = (cut.tile, cut.segment, cut.scan_lanes, cut.prefetch);
    let pass = Pass { tile, segment, lanes, prefetch, workers: resources.workers, observer: &watch, journal: None };
    match pass.fold(&source, &StatisticsFold::new(source.shape())) {
        Ok(_) | Err(kstore::Error::Interrupted) => {}
        Err(error) => return Err(error.into()),
    }
    let rows = (watch.rows.into_inner() as f64).max(1.0);
    Ok((started.elapsed().as_secs_f64() / rows, selected.table().bytes_read() as f64 / rows))
}

/// Rows from all over the table, scaled about as the run will scale them.
struct Sample<T> {
    reading: Reading,
    tile: usize,
    d: usize,
    x: Vec<T>,
}

impl<T: Real> Sample<T> {
    fn draw(selected: &Selected, options: &TrainOptions, cut: Cut) -> Result<Self> {
        let d = selected.shape().features;
        let source = selected.rows::<f64>(Reading::default())?;
        let range = selected.range();
        let (mut buf, mut wide) = (RowBuf::new(cut.tile / PLACES as usize), Vec::new());
        for place in 0..PLACES {
            let start = range.start + (range.end - range.start) * place / PLACES;
            if RowSource::<f64>::open(&source, start..range.end)?.next(&mut buf)? {
                wide.extend_from_slice(&buf.x);
            }
        }
        let statistics = statistics(&wide, d)?;
        let scaler = match options.scaling {
            Scaling::Standard => Scaler::standard(&statistics),
            Scaling::Minmax => Scaler::minmax(&statistics),
            Scaling::None => Scaler::identity(&statistics),
        };
        let scaled = |(i, v): (usize, &f64)| <T as kstore::Real>::from_f64(scaler.apply(i % d, *v));
        let x = wide.iter().enumerate().map(scaled).collect();
        Ok(Self { reading: Reading { scaler: Some(Arc::new(scaler)), ..Reading::default() }, tile: cut.tile, d, x })
    }

    fn rows(&self) -> usize {
        self.x.len() / self.d
    }

    /// Seconds that one cursor takes for a stored row, and the share of rows that are selected.
    fn decode(&self, selected: &Selected) -> Result<(f64, f64)> {
        let source = selected.rows::<T>(self.reading.clone())?;
        let range = selected.range();
        let mut cursor = source.open(range.clone())?;
        let (mut buf, mut rows, mut stored) = (RowBuf::new(self.tile), 0, 1);
        let started = Instant::now();
        while started.elapsed() < READING && cursor.next(&mut buf)? {
            rows += buf.rows.len();
            stored = buf.rows.last().map_or(stored, |last| last + 1 - range.start);
        }
        Ok((started.elapsed().as_secs_f64() / stored as f64, rows as f64 / stored as f64))
    }
}

fn statistics(x: &[f64], d: usize) -> Result<Statistics> {
    let source = kstore::MemoryRows::new(x.to_vec(), d)?;
    let workers = kstore::Workers::sequential();
    let pass = Pass::new(x.len() / d, x.len() as u64, &workers);
    Ok(pass.fold(&source, &StatisticsFold::new(RowSource::<f64>::shape(&source)))?.0)
}

/// Seconds of the products, per row where they are.
struct Products {
    m: usize,
    linear: f64,
    solve: f64,
    gram: f64,
    factor: f64,
    system: f64,
}

impl Products {
    fn measure<T: Real>(sample: &Sample<T>, options: &TrainOptions, resources: &Resources<'_>) -> Result<Self> {
        let (workers, d, b) = (resources.workers, sample.d, sample.rows());
        let x = MatRef::from_row_major_slice(&sample.x, b, d);
        let wide: Vec<f64> = sample.x.iter().map(|v| kstore::Real::to_f64(*v)).collect();
        let spec = options.kernel.resolve_median(MatRef::from_row_major_slice(&wide, b, d))?;
        let kernel = spec.build()?;
        let (factor, map) = timed(|| {
            let landmarks = spread(sample, options.rank.min(TIMED).min(b));
            workers.install(|| Nystrom::new(&kernel, landmarks, strips::par(workers)))
        });
        let map = map?;
        let p = map.rank();
        let mut phi = Mat::<T>::zeros(b, p);
        let apply = fastest(|| map.apply(x, phi.as_mut(), workers));
        // one thread, for the others wait at its side
        let strip = STRIP.min(b);
        let mut block = Mat::<T>::zeros(strip, p);
        let any = T::kernel(kernel);
        let (x_strip, z) = (x.subrows(0, strip), map.landmarks().as_mat());
        let values = fastest(|| any.block(x_strip, z, block.as_mut())) / strip as f64 / workers.threads() as f64;
        let (mut state, mut partial) = (CertificateState::new(p), Vec::new());
        let certificate = fastest(|| state.update(phi.as_ref(), &vec![1.0; b], &mut partial, workers)) / b as f64;
        let (mut gram, mut scratch) = (GramState::new(p, 1, 1), GramScratch::default());
        let y = Mat::<f64>::zeros(b, 1);
        let mut updated = Ok(());
        let update = fastest(|| updated = gram.update(0, phi.as_ref(), y.as_ref(), &mut scratch, workers));
        updated?;
        let ridge = RidgeOptions {
            ranks: vec![p],
            lambdas: vec![1e-6],
            intercept: options.intercept,
            target_centre: vec![0.0],
        };
        // a system that is not definite was tried all the same
        let system = fastest(|| drop(ridge::fit(&gram, p, 1e-6, &ridge, workers)));
        let (apply, gram) = (apply / b as f64, update / b as f64);
        Ok(Self { m: p, linear: values + certificate, solve: (apply - values).max(0.0), gram, factor, system })
    }
}

/// `m` rows of the sample, evenly.
fn spread<T: Real>(sample: &Sample<T>, m: usize) -> LandmarkSet<T> {
    let (d, b) = (sample.d, sample.rows());
    let rows: Vec<u64> = (0..m).map(|i| (i * b / m) as u64).collect();
    let points = rows.iter().flat_map(|row| &sample.x[*row as usize * d..][..d]).copied().collect();
    LandmarkSet { points, rows, d, passes: 0, evaluations: 0 }
}

/// Seconds of some work, and its result.
fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let started = Instant::now();
    let result = work();
    (started.elapsed().as_secs_f64(), result)
}

/// Seconds of the faster of two runs: the first meets cold caches and new pages.
fn fastest(mut work: impl FnMut()) -> f64 {
    timed(&mut work).0.min(timed(&mut work).0)
}
