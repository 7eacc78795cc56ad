//! The cost of computing the features of every row: seconds, kernel evaluations, passes and bytes.

use crate::{Result, linalg::strips::lock};
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Pass, RowSource, Table, pass::Observer};
use std::sync::Mutex;
use std::time::Instant;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) seconds: f64,
    pub(super) kernel_evaluations: u64,
    pub(super) passes: u64,
    pub(super) bytes_read: u64,
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            kernel_evaluations: self.kernel_evaluations + other.kernel_evaluations,
            passes: self.passes + other.passes,
            bytes_read: self.bytes_read + other.bytes_read,
        }
    }
}

pub(super) struct Meter<'a> {
    start: Instant,
    table: &'a Table,
    initial_bytes_read: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn start(table: &'a Table) -> Self {
        Self { start: Instant::now(), table, initial_bytes_read: table.bytes_read() }
    }

    pub(super) fn cost(&self, passes: u64, evaluations: u64) -> Cost {
        let bytes = self.table.bytes_read().saturating_sub(self.initial_bytes_read);
        Cost { seconds: self.start.elapsed().as_secs_f64(), kernel_evaluations: evaluations, passes, bytes_read: bytes }
    }
}

/// An observer of landmark selection that records the cost at every number of landmarks.
pub(super) struct SelectionCostObserver<'a> {
    observer: &'a dyn Observer,
    pub(super) meter: Meter<'a>,
    costs_by_count: Mutex<Vec<(usize, Cost)>>,
}

impl<'a> SelectionCostObserver<'a> {
    pub(super) fn new(observer: &'a dyn Observer, table: &'a Table) -> Self {
        Self { observer, meter: Meter::start(table), costs_by_count: Mutex::default() }
    }

    /// Returns the cost at the time when `count` landmarks were first selected. If the scheme did
    /// not report its progress, returns `total_cost`.
    pub(super) fn cost_at(&self, count: usize, total_cost: Cost) -> Cost {
        let costs = lock(&self.costs_by_count);
        costs.iter().find(|(landmarks, _)| *landmarks >= count).map_or(total_cost, |(_, cost)| *cost)
    }
}

impl Observer for SelectionCostObserver<'_> {
    fn advance(&self, rows: u64) {
        self.observer.advance(rows);
    }
    fn report_restored(&self, rows: u64) {
        self.observer.report_restored(rows);
    }
    fn should_stop(&self) -> bool {
        self.observer.should_stop()
    }
    fn report_selection(&self, count: usize, passes: u64, evaluations: u64) {
        let cost = self.meter.cost(passes, evaluations);
        lock(&self.costs_by_count).push((count, cost));
    }
}

/// Computes the features of every row in one pass and discards them, to measure the cost.
pub(super) fn time_features<T: Real>(
    map: &dyn FeatureMap<T>,
    source: &dyn RowSource<T>,
    pass: Pass<'_>,
    table: &Table,
) -> Result<Cost> {
    let meter = Meter::start(table);
    let new_features = || Mat::zeros(pass.tile_rows, map.dims().1);
    pass.for_each_tile(source, new_features, |phi: &mut Mat<T>, block, workers| {
        let x = MatRef::from_row_major_slice(block.x, block.len(), block.d);
        map.apply(x, phi.as_mut().subrows_mut(0, block.len()), workers);
        Ok::<(), kstore::Error>(())
    })?;
    Ok(meter.cost(1, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::pass::NoObserver;

    #[test]
    fn a_rank_costs_what_the_run_had_cost_when_it_was_first_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let table = Table::open(&[&path]).unwrap();
        let milestones = SelectionCostObserver::new(&NoObserver, &table);
        for (count, passes, evaluations) in [(4, 1, 100), (9, 2, 220), (10, 3, 300)] {
            milestones.report_selection(count, passes, evaluations);
        }
        let total = milestones.meter.cost(4, 400);
        let counts_at =
            |count| (milestones.cost_at(count, total).passes, milestones.cost_at(count, total).kernel_evaluations);
        assert_eq!([1, 4, 5, 9, 10].map(counts_at), [(1, 100), (1, 100), (2, 220), (2, 220), (3, 300)]);
        // beyond the reported progress, the cost of the whole selection applies
        assert_eq!(counts_at(11), (4, 400));
        assert!(milestones.cost_at(1, total).seconds <= milestones.cost_at(10, total).seconds);
    }
}
