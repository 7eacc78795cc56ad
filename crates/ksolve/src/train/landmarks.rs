//! From rows to the feature map: candidates, the kernel's length scale, landmarks, factor.

use super::options::{Resources, TrainOptions};
use super::plan::Cut;
use crate::{Error, Result, strips};
use kapprox::kernel::{Domain, Spec};
use kapprox::landmark::{self, Precision, Rows, Sample, uniform_sample};
use kapprox::{Nystrom, Real};
use kstore::key::{Purpose, Stream};
use kstore::pass::{Observer, Unobserved};
use kstore::{Fold, MemoryRows, Merge, Pass, RowBlock, RowSource, Workers};

/// Rows the median distance is taken over: half a million pairs, which places the median within 1 %.
const MEDIAN_ROWS: usize = 1000;

/// A map and what it took to find it.
#[derive(Debug)]
pub(super) struct Selection<T: Real> {
    pub(super) map: Nystrom<T>,
    pub(super) kernel: Spec,
    /// Rows that landmarks were chosen among.
    pub(super) candidates: u64,
    /// Passes over the table.
    pub(super) passes: u64,
}

/// Draws candidates, settles the kernel, chooses landmarks and factors them.
pub(super) fn select<T: Real + Precision>(
    source: &dyn RowSource<T>,
    n: u64,
    options: &TrainOptions,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<Selection<T>> {
    let scheme = landmark::by_name(&options.landmarks).ok_or_else(|| unknown_scheme(&options.landmarks))?;
    let range = source.range();
    let stored = Some(range.end - range.start);
    options.kernel.check_features(source.shape().features)?;
    let mut passes = check_values(source, n, options, cut, resources)?;
    // a sample of all rows when rows are few, of the candidates' size otherwise; the median needs one in any case
    let size = options.candidates.unwrap_or(MEDIAN_ROWS);
    let mut sample = Sample::default();
    if options.candidates.is_some() || options.kernel.needs_median() {
        let observer = resources.stages.stage("sampling candidates", stored);
        let data = Rows { source, pass: scan(cut, resources, &*observer), count: n };
        sample = uniform_sample(&data, size, Purpose::Candidates, options.seed)?;
        passes += 1;
    }
    let kernel = settle(&options.kernel, &sample, options.seed)?;
    let any = kernel.build()?;
    let chooser = T::landmarks(scheme);
    let observer = resources.stages.stage(&format!("landmarks ({})", scheme.name), None);
    let (set, candidates) = match options.candidates {
        Some(_) => {
            let candidates = in_row_order(sample)?;
            let count = candidates.len() as u64;
            let watch = Stop(&*observer);
            let mut memory = scan(cut, resources, &watch);
            // rows in memory cost nothing to read: all threads go into the products, as in the Gram pass
            memory.lanes = 1;
            // and to do again: they are the same rows in every run
            memory.journal = None;
            let data = Rows { source: &candidates, pass: memory, count };
            (chooser.select(&data, &any, options.rank, options.seed)?, count)
        }
        None => {
            let data = Rows { source, pass: scan(cut, resources, &*observer), count: n };
            let set = chooser.select(&data, &any, options.rank, options.seed)?;
            passes += set.passes;
            (set, n)
        }
    };
    if set.is_empty() {
        return Err(Error::from(kapprox::Error::NoLandmarks {
            why: format!("the kernel {kernel} is zero on every row; choose another kernel or scale the features"),
        }));
    }
    let map = resources.workers.install(|| Nystrom::new(&any, set, strips::par(resources.workers)))?;
    Ok(Selection { map, kernel, candidates, passes })
}

/// A pass with a small state.
fn scan<'a>(cut: Cut, resources: &'a Resources<'_>, observer: &'a dyn Observer) -> Pass<'a> {
    Pass {
        tile: cut.tile,
        segment: cut.segment,
        lanes: cut.scan_lanes,
        prefetch: cut.prefetch,
        workers: resources.workers,
        observer,
        journal: resources.journal,
    }
}

/// One pass for kernels that are not defined for every number, and how many passes it took.
///
/// # Errors
/// [`kapprox::Error::Domain`] for the first value outside.
fn check_values<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    options: &TrainOptions,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<u64> {
    if options.kernel.domain() == Domain::Any {
        return Ok(0);
    }
    let observer = resources.stages.stage("values the kernel is defined for", Some(n));
    scan(cut, resources, &*observer).fold(source, &Check(&options.kernel))?;
    Ok(1)
}

/// Refuses values outside the kernel's domain.
struct Check<'a>(&'a Spec);

/// The state of a fold that finds nothing or fails.
struct Checked;

impl Merge for Checked {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Real> Fold<T> for Check<'_> {
    type State = Checked;
    type Scratch = ();
    type Error = kapprox::Error;

    fn init(&self) -> Checked {
        Checked
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Checked, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> kapprox::Result<()> {
        let x = faer::MatRef::from_row_major_slice(block.x, block.len(), block.d);
        self.0.check_values(x, 0).map_err(|error| match error {
            kapprox::Error::Domain { kernel, domain, row, feature, value } => {
                kapprox::Error::Domain { kernel, domain, row: block.rows[row as usize], feature, value }
            }
            other => other,
        })
    }
}

/// Fills in the median distance of the first candidates in the order of their keys: a uniform sample.
fn settle<T: Real>(kernel: &Spec, sample: &Sample<T>, seed: u64) -> Result<Spec> {
    if !kernel.needs_median() {
        return Ok(kernel.clone());
    }
    let keys = Stream::new(seed, Purpose::Median, 0);
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by_key(|i| (keys.word(sample.rows[*i]), sample.rows[*i]));
    order.truncate(MEDIAN_ROWS);
    let d = sample.d;
    let wide: Vec<f64> =
        order.iter().flat_map(|i| &sample.x[i * d..(i + 1) * d]).map(|v| kstore::Real::to_f64(*v)).collect();
    Ok(kernel.resolve_median(faer::MatRef::from_row_major_slice(&wide, order.len(), d))?)
}

/// The sample as a table in the order of its rows, so that passes over it do not depend on how it was drawn.
fn in_row_order<T: Real>(sample: Sample<T>) -> Result<MemoryRows<T>> {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_unstable_by_key(|i| sample.rows[*i]);
    let d = sample.d;
    let x = order.iter().flat_map(|i| &sample.x[i * d..(i + 1) * d]).copied().collect();
    let rows = order.iter().map(|i| sample.rows[*i]).collect();
    Ok(MemoryRows::new(x, d)?.numbered(rows)?)
}

/// Lets a selection in memory be interrupted, and counts nothing: its rows were counted when they were sampled.
struct Stop<'a>(&'a dyn Observer);

impl Observer for Stop<'_> {
    fn advance(&self, rows: u64) {
        Unobserved.advance(rows);
    }
    fn stop(&self) -> bool {
        self.0.stop()
    }
}

fn unknown_scheme(name: &str) -> Error {
    let known: Vec<&str> = landmark::registry().iter().map(|scheme| scheme.name).collect();
    Error::option("--landmarks", format!("{name:?}"), format!("give one of {}", known.join(", ")))
}
