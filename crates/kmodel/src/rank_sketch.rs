//! Rows sorted by a number, in bounded memory.
//!
//! Rows are stored one by one up to a limit. Beyond it, neighbouring rows are merged into groups. A
//! group has the largest number of its rows, so that the sum of the weights at or below a number is
//! never too large: conformal quantiles computed from it are never too small. The weight of a group
//! is at most a fraction of the weight above it, so that high quantiles stay accurate.

/// Number of stored rows at which rows are merged.
const MAX_ROWS: usize = 1 << 15;

/// A merged group has at most this fraction of the weight above it. The ranks of the rows of a
/// group are then wrong by 0.1 % of their distance from the top.
const GROUP_FRACTION: f64 = 1.0 / 1024.0;

/// A row, or a group of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RankedRow {
    /// The number by which rows are sorted; of a group, the largest.
    pub(crate) key: f64,
    pub(crate) weight: f64,
    /// Two further numbers per row, weighted; of a group, their sums.
    pub(crate) sums: [f64; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RankSketch {
    rows: Vec<RankedRow>,
}

impl RankSketch {
    /// Returns the bytes for this many rows: a growing vector with its copy.
    pub(crate) fn bytes(rows: usize) -> usize {
        3 * size_of::<RankedRow>() * rows.min(MAX_ROWS)
    }

    pub(crate) fn push(&mut self, row: RankedRow) {
        if row.weight > 0.0 {
            // −0 and 0 are equal
            self.rows.push(RankedRow { key: row.key + 0.0, ..row });
        }
        if self.rows.len() >= MAX_ROWS {
            self.rows = merged(&mut self.rows, GROUP_FRACTION);
        }
    }

    /// Returns the rows in ascending order, merged into groups of at most `group_fraction` of the
    /// weight above them.
    pub(crate) fn into_ascending(mut self, group_fraction: f64) -> Vec<RankedRow> {
        let mut rows = merged(&mut self.rows, group_fraction);
        rows.reverse();
        rows
    }
}

/// Sorts the rows in descending order, and merges rows with equal keys, and neighbours into groups
/// of at most `group_fraction` of the weight above them.
fn merged(rows: &mut [RankedRow], group_fraction: f64) -> Vec<RankedRow> {
    rows.sort_by(|a, b| b.key.total_cmp(&a.key));
    let (mut weight_above, mut groups) = (0.0, Vec::<RankedRow>::new());
    for row in rows {
        match groups.last_mut() {
            Some(group) if group.key == row.key || group.weight + row.weight <= group_fraction * weight_above => {
                group.weight += row.weight;
                group.sums.iter_mut().zip(row.sums).for_each(|(sum, value)| *sum += value);
            }
            last => {
                weight_above += last.map_or(0.0, |group| group.weight);
                groups.push(*row);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(n: u64) -> RankSketch {
        let mut sketch = RankSketch::default();
        // 7,919 is prime, so that every key below n occurs once, in no order
        (0..n).for_each(|i| {
            let key = (i * 7919 % n) as f64;
            sketch.push(RankedRow { key, weight: 1.0, sums: [key, 1.0] });
        });
        sketch
    }

    #[test]
    fn few_rows_are_sorted_exactly() {
        let rows = sketch_of(1000).into_ascending(0.0);
        assert!(rows.iter().enumerate().all(|(i, row)| row.key == i as f64 && row.weight == 1.0));
        let mut ties = RankSketch::default();
        [0.0, -0.0, 1.0].into_iter().for_each(|key| ties.push(RankedRow { key, weight: 2.0, sums: [1.0, 0.0] }));
        let rows = ties.into_ascending(0.0);
        assert_eq!(
            rows.iter().map(|row| (row.key, row.weight, row.sums[0])).collect::<Vec<_>>(),
            [(0.0, 4.0, 2.0), (1.0, 2.0, 1.0)]
        );
    }

    #[test]
    fn ranks_of_many_rows_are_never_too_large_and_close_at_the_top() {
        let n = 1_000_000;
        let sketch = sketch_of(n);
        assert!(sketch.rows.len() < MAX_ROWS);
        let rows = sketch.into_ascending(1.0 / 128.0);
        assert!(rows.len() < 3000, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.weight).sum::<f64>(), n as f64);
        let sum = rows.iter().map(|row| row.sums[0]).sum::<f64>();
        assert_eq!(sum, (n * (n - 1) / 2) as f64);
        let mut below = 0.0;
        for row in &rows {
            below += row.weight;
            // the exact number of rows up to this key
            let (exact, above) = (row.key + 1.0, n as f64 - below);
            assert!(below <= exact, "{row:?} {below}");
            assert!(exact - below <= 0.05 * above + 1.0, "{row:?} {below}");
        }
    }
}
