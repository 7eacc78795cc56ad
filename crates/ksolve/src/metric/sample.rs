//! The sample of rows that the rounds see, in memory.

use crate::Result;
use crate::train::plan::Cut;
use crate::train::{Resources, candidates};
use kapprox::Real;
use kapprox::landmark::{RowSample, Scan, uniform_sample};
use kstore::key::Purpose;
use kstore::{MemoryRows, RowSource};

/// Most rows of the sample.
const ROWS: usize = 20_000;

/// Most numbers of the sample: with more than 200 features it has fewer rows.
const NUMBERS: usize = 4_000_000;

/// Number of rows of the sample of n rows with d features.
pub(super) fn rows(n: u64, d: usize) -> usize {
    let most = ROWS.min(NUMBERS / d.max(1)).max(1);
    usize::try_from(n).unwrap_or(usize::MAX).min(most)
}

/// Bytes that the sample takes while it is drawn, with t targets.
pub(super) fn bytes(rows: usize, d: usize, t: usize, element: usize) -> usize {
    rows.saturating_mul(3 * (d * element + 40) + 16 * (t + 1))
}

/// Draws the sample: the rows in their order, with their targets, and the best keys first. Two passes.
pub(super) fn draw<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    seed: u64,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<(MemoryRows<T>, RowSample<T>)> {
    let range = source.range();
    let observer = resources.stages.stage("sampling rows for the metric", Some(range.end - range.start));
    let data = Scan { source, pass: cut.pass(cut.scan_lanes, resources, &*observer), count: n };
    let sample = uniform_sample(&data, rows(n, source.shape().features), Purpose::Candidates, seed)?;
    let rows = candidates::in_row_order(sample.clone())?;
    Ok((candidates::with_targets(rows, source, data.pass)?, sample))
}
