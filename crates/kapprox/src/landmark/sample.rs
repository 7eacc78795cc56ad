//! Collects the rows with the best keys of a pass: this is sampling without replacement, uniform or
//! weighted, in one pass.
//!
//! Let the key of a row be `ln(u)/w`, where w is its weight and the numbers u are independent and
//! uniform in (0, 1). Then the rows with the largest keys, in descending order of the keys, are
//! successive draws without replacement with probabilities proportional to w (Efraimidis, Spirakis,
//! "Weighted random sampling with a reservoir", Information Processing Letters 97, 2006).

use super::{LandmarkSet, TableScan};
use crate::{Error, Real, Result};
use faer::MatRef;
use kpass::checkpoint::{Arrays, Persist, StoredArrays};
use kpass::key::{Purpose, Stream};
use kpass::{Merge, Reduction, RowBlock, Workers};

/// Rows drawn by a pass, in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowSample<T> {
    /// Row numbers.
    pub row_numbers: Vec<u64>,
    /// Inputs of the rows, row-major.
    pub x: Vec<T>,
    /// Number of inputs of a row.
    pub d: usize,
    /// Weights of the rows; empty if the rows are not weighted.
    pub weights: Vec<f64>,
}

impl<T: Real> RowSample<T> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.row_numbers.len()
    }
    /// Returns whether the sample is empty.
    pub fn is_empty(&self) -> bool {
        self.row_numbers.is_empty()
    }
    /// Returns the points, row-major.
    pub fn as_mat(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.x, self.len(), self.d)
    }
}

impl<T> From<RowSample<T>> for LandmarkSet<T> {
    fn from(RowSample { row_numbers, x: points, d, .. }: RowSample<T>) -> Self {
        Self { points, row_numbers, d, passes: 0, evaluations: 0 }
    }
}

/// Keeps the `capacity` rows with the largest keys; stores at most twice as many.
#[derive(Clone, Debug)]
pub(crate) struct BestRows<T> {
    capacity: usize,
    d: usize,
    entries: Vec<KeyedRow>,
    x: Vec<T>,
    /// Smallest key that can still be among the best.
    threshold: f64,
}

/// One row of [`BestRows`]; `slot` is the position of its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedRow {
    pub(crate) key: f64,
    pub(crate) row_number: u64,
    pub(crate) weight: f64,
    slot: usize,
}

impl<T: Real> BestRows<T> {
    pub(crate) fn new(capacity: usize, d: usize) -> Self {
        Self { capacity, d, entries: Vec::new(), x: Vec::new(), threshold: f64::NEG_INFINITY }
    }

    pub(crate) fn push(&mut self, key: f64, row: u64, weight: f64, x: &[T]) {
        if key < self.threshold || self.capacity == 0 {
            return;
        }
        self.entries.push(KeyedRow { key, row_number: row, weight, slot: self.entries.len() });
        self.x.extend_from_slice(x);
        if self.entries.len() >= self.capacity.saturating_mul(2) {
            self.compact();
        }
    }

    /// Drops all rows except the best `capacity` rows. If keys are equal, the earlier row is kept,
    /// so the result does not depend on the order in which rows arrive.
    fn compact(&mut self) {
        if self.entries.len() <= self.capacity {
            return;
        }
        self.entries.select_nth_unstable_by(self.capacity - 1, compare_keys);
        self.entries.truncate(self.capacity);
        self.threshold = self.entries[self.capacity - 1].key;
        self.entries.sort_unstable_by_key(|entry| entry.slot);
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            self.x.copy_within(entry.slot * self.d..(entry.slot + 1) * self.d, slot * self.d);
            entry.slot = slot;
        }
        self.x.truncate(self.capacity.saturating_mul(self.d));
    }

    pub(crate) fn inputs(&self, entry: &KeyedRow) -> &[T] {
        &self.x[entry.slot * self.d..(entry.slot + 1) * self.d]
    }

    pub(crate) fn sample(&self, entries: &[KeyedRow]) -> RowSample<T> {
        let x = entries.iter().flat_map(|entry| self.inputs(entry)).copied().collect();
        RowSample {
            row_numbers: entries.iter().map(|entry| entry.row_number).collect(),
            x,
            d: self.d,
            weights: Vec::new(),
        }
    }

    pub(crate) fn sorted_entries(&mut self) -> Vec<KeyedRow> {
        self.compact();
        let mut entries = self.entries.clone();
        entries.sort_unstable_by(compare_keys);
        entries
    }
}

impl<T: Real> Merge for BestRows<T> {
    fn merge(&mut self, later: &Self) {
        for entry in &later.entries {
            self.push(entry.key, entry.row_number, entry.weight, later.inputs(entry));
        }
    }
}

impl<T: Real> Persist for BestRows<T> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        // entries are in the order of their slots, so the slots need no saving
        debug_assert!(self.entries.iter().enumerate().all(|(i, entry)| entry.slot == i));
        out.put_owned("keys", self.entries.iter().map(|entry| entry.key).collect());
        out.put_owned("rows", self.entries.iter().map(|entry| entry.row_number).collect());
        out.put_owned("weights", self.entries.iter().map(|entry| entry.weight).collect());
        out.put_number("threshold", self.threshold);
        out.put("x", &self.x);
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kpass::Result<()> {
        let keys: Vec<f64> = from.read("keys")?;
        let (mut row_numbers, mut weights) = (vec![0; keys.len()], vec![0.0; keys.len()]);
        from.fill("rows", &mut row_numbers)?;
        from.fill("weights", &mut weights)?;
        let saved_entries = keys.into_iter().zip(row_numbers).zip(weights).enumerate();
        self.entries =
            saved_entries.map(|(slot, ((key, row), weight))| KeyedRow { key, row_number: row, weight, slot }).collect();
        self.threshold = from.read_number("threshold")?;
        self.x.resize(self.entries.len() * self.d, T::default());
        from.fill("x", &mut self.x)
    }
}

/// Orders by larger key, then by earlier row.
fn compare_keys(a: &KeyedRow, b: &KeyedRow) -> std::cmp::Ordering {
    b.key.total_cmp(&a.key).then(a.row_number.cmp(&b.row_number))
}

/// A reduction that draws a uniform sample. It considers only the rows whose random number exceeds
/// a threshold.
struct UniformReduction {
    stream: Stream,
    capacity: usize,
    d: usize,
    threshold: f64,
}

impl<T: Real> Reduction<T> for UniformReduction {
    type State = BestRows<T>;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Self::State {
        BestRows::new(self.capacity, self.d)
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Self::State, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        for (i, (row, x)) in block.row_numbers.iter().zip(block.x.chunks_exact(self.d)).enumerate() {
            let u = self.stream.uniform(*row);
            if u > self.threshold {
                state.push(u, *row, block.weight(i).unwrap_or(1.0), x);
            }
        }
        Ok(())
    }
}

/// Draws `sample_size` of the selected rows uniformly without replacement, best key first; draws
/// all rows if there are fewer.
///
/// Makes one pass. To save memory, a row competes only if its key exceeds a threshold; on average
/// `sample_size + 10·sqrt(sample_size)` rows compete. If fewer than `sample_size` rows compete
/// (probability below 1e-20), a second pass without a threshold follows.
///
/// # Errors
/// The rows cannot be read; the observer stops the pass.
pub fn uniform_sample<T: Real>(
    scan: &TableScan<'_, T>,
    sample_size: usize,
    purpose: Purpose,
    seed: u64,
) -> Result<RowSample<T>> {
    let d = scan.source.shape().input_count;
    let expected_rows = sample_size as f64 + 10.0 * (sample_size as f64).sqrt();
    let threshold =
        if expected_rows < scan.row_count as f64 { 1.0 - expected_rows / scan.row_count as f64 } else { 0.0 };
    let stream = Stream::new(seed, purpose, 0);
    let mut reduction = UniformReduction { stream, capacity: sample_size, d, threshold };
    let (mut best_rows, report) = scan.pass.resume("uniform sample", scan.source, &reduction)?;
    let mut entries = best_rows.sorted_entries();
    if entries.len() < sample_size && (entries.len() as u64) < report.rows && threshold > 0.0 {
        reduction.threshold = 0.0;
        best_rows = scan.pass.resume("uniform sample of all rows", scan.source, &reduction)?.0;
        entries = best_rows.sorted_entries();
    }
    let weights = entries.iter().filter(|_| scan.source.shape().has_weights).map(|entry| entry.weight).collect();
    Ok(RowSample { weights, ..best_rows.sample(&entries) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_rows_do_not_depend_on_the_order_of_arrival() {
        let stream = Stream::new(7, Purpose::Median, 0);
        let fill = |order: &mut dyn Iterator<Item = u64>| {
            let mut best = BestRows::<f32>::new(10, 2);
            for row in order {
                best.push(stream.uniform(row), row, 1.0, &[row as f32, -(row as f32)]);
            }
            let entries = best.sorted_entries();
            entries.iter().map(|e| (e.row_number, best.inputs(e).to_vec())).collect::<Vec<_>>()
        };
        let forward = fill(&mut (0..500));
        let backward = fill(&mut (0..500).rev());
        assert_eq!(forward, backward);
        assert_eq!(forward.len(), 10);
        assert!(forward.iter().all(|(row, x)| x[0] == *row as f32 && x[1] == -(*row as f32)));
        let mut keys: Vec<(f64, u64)> = (0..500).map(|row| (stream.uniform(row), row)).collect();
        keys.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(forward.iter().map(|f| f.0).collect::<Vec<_>>(), keys[..10].iter().map(|k| k.1).collect::<Vec<_>>());
    }
}
