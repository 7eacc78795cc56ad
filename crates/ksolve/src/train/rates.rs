//! The speed of this machine on the rows and the kernel at hand, from a second of calibration.

use super::options::{Resources, TrainOptions};
use super::plan::Cut;
use super::survey;
use crate::solver::ridge::iterative::rows::KernelRows;
use crate::{CertificateState, GramScratch, GramState, Intercept, Result, RidgeOptions};
use faer::{Mat, MatRef};
use kapprox::landmark::LandmarkSet;
use kapprox::map::nystrom::STRIP;
use kapprox::{FeatureMap, Nystrom, Real};
use kstore::pass::Observer;
use kstore::{Pass, Reading, RowBuf, RowSource, Selected, Statistics, StatisticsFold};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most landmarks that products are timed with: enough that their speed is that of larger products, few enough to take
/// a second.
const TIMED: usize = 1000;

/// Time for each of the two ways of reading.
const READING: Duration = Duration::from_millis(150);

/// Places of the table that rows for the products are taken from, so that sorted tables do not mislead.
const PLACES: u64 = 8;

/// Measured seconds of the parts of a run, on all threads where nothing else is said.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Bytes read per stored row.
    pub(crate) bytes: f64,
    /// Selected rows among the stored.
    pub(crate) selected: f64,
    /// The statistics of a stored row.
    pub(crate) scan: f64,
    /// Decoding a stored row, by one cursor.
    pub(crate) decode: f64,
    /// Landmarks that the rest was timed with.
    pub(crate) m: usize,
    /// Kernel values and certificate of a row.
    pub(crate) linear: f64,
    /// Triangular solve of a row.
    pub(crate) solve: f64,
    /// Gram matrix of a row.
    pub(crate) gram: f64,
    /// Kernel matrix of the landmarks and its factor.
    pub(crate) factor: f64,
    /// One fold and lambda.
    pub(crate) system: f64,
    /// A row of kernel values, times a vector and its own transpose.
    pub(crate) sweep: f64,
}

impl Rates {
    /// Times everything; `None` where the places that are looked at hold fewer than two selected rows.
    ///
    /// # Errors
    /// Errors of reading the rows, and of a kernel that they do not suit.
    pub(crate) fn measure<T: Real>(
        selected: &Selected,
        options: &TrainOptions,
        cut: Cut,
        resources: &Resources<'_>,
    ) -> Result<Option<Self>> {
        let _stage = resources.stages.stage("calibration", None);
        let selected = &selected.counting_apart();
        let (scan, bytes) = scan(selected, cut, resources)?;
        let sample = Sample::<T>::draw(selected, options, cut)?;
        if sample.rows() < 2 {
            return Ok(None);
        }
        let (decode, share) = sample.decode(selected)?;
        let products = Products::measure::<T>(&sample, options, resources)?;
        let Products { m, linear, solve, gram, factor, system, sweep } = products;
        // from selected to stored rows
        let (bytes, scan) = (bytes * share, scan * share);
        Ok(Some(Self { bytes, selected: share, scan, decode, m, linear, solve, gram, factor, system, sweep }))
    }
}

/// An observer that stops a pass when its time is over, and counts its rows.
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

/// Seconds and bytes of a selected row in the statistics pass.
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

/// A sample of rows from all over the table, scaled about as the run will scale them.
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
            // a rare condition is not searched for through the whole table
            let end = range.end.min(start + cut.segment);
            if RowSource::<f64>::open(&source, start..end)?.next(&mut buf)? {
                wide.extend_from_slice(&buf.x);
            }
        }
        let statistics = statistics(&wide, d)?;
        let mut scaler = survey::scaler(options.scaling, &statistics, || Ok(wide.clone()))?;
        selected.keep_flags(&mut scaler);
        // a missing value that the mean will stand for
        let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
        let scaled = |(i, v): (usize, &f64)| <T as kstore::Real>::from_f64(finite(scaler.apply(i % d, *v)));
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
    let pass = Pass::new((x.len() / d).max(1), x.len() as u64, &workers);
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
    sweep: f64,
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
            Nystrom::new(&kernel, landmarks, workers)
        });
        let map = map?;
        let p = map.rank();
        let mut phi = Mat::<T>::zeros(b, p);
        let apply = fastest(|| map.apply(x, phi.as_mut(), workers));
        // one thread, for the others wait at its side
        let strip = STRIP.min(b);
        let mut block = Mat::<T>::zeros(strip, p);
        let any = kernel.typed::<T>();
        let (x_strip, z) = (x.subrows(0, strip), map.landmarks().as_mat());
        let values = fastest(|| any.block(x_strip, z, block.as_mut())) / strip as f64 / workers.threads() as f64;
        let (mut state, mut partial) = (CertificateState::new(p), Vec::new());
        let certificate = fastest(|| state.update(phi.as_ref(), &vec![1.0; b], &mut partial, workers)) / b as f64;
        let (mut gram, mut scratch) = (GramState::new(p, 1, 1), GramScratch::default());
        let y = Mat::<f64>::zeros(b, 1);
        let mut updated = Ok(());
        let update = fastest(|| updated = gram.update(0, phi.as_ref(), y.as_ref(), &mut scratch, workers));
        updated?;
        let ridge =
            RidgeOptions { ranks: vec![p], lambdas: vec![1e-6], intercept: Intercept::Free, target_centre: vec![0.0] };
        // a system that is not definite was tried all the same
        let system = fastest(|| drop(crate::fit(&gram, p, 1e-6, &ridge, workers)));
        let (k, v) = (vec![T::ZERO; b * p], Mat::<f64>::zeros(p, 1));
        let (mut s, mut out) = (vec![0.0; b], Mat::<f64>::zeros(p, 1));
        let rows = KernelRows { k: &k, m: p };
        let sweep =
            fastest(|| rows.add_transposed(Some((v.as_ref(), &[0.0])), &mut s, out.as_mut(), workers)) / b as f64;
        let (apply, gram) = (apply / b as f64, update / b as f64);
        let (linear, solve) = (values + certificate, (apply - values).max(0.0));
        Ok(Self { m: p, linear, solve, gram, factor, system, sweep })
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
