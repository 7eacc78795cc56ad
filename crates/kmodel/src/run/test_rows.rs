//! Chooses the test rows of a table: passes over the columns that the choice depends on, before any
//! row is learned.

use super::Run;
use crate::{Error, Result};
use kstore::Missing;
use kstore::display::format_count;
use kstore::key::Stream;
use kstore::{Fraction, OrderedValue, Part, TestRows, TestRule, TestSpec};
use kstore::{Label, Merge, ReadSettings, Reduction, RowBlock, SelectedTable, Selection, Statistics, Table, Workers};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Number of rows that determine the first value of the last rows. If there are more rows, a sample
/// of about this size determines it: the fraction of the test rows then has a standard deviation of
/// at most 0.2 %.
pub(super) const ORDER_SAMPLE_ROWS: u64 = 65_536;

/// Standard deviations of a uniform order statistic within which its key is searched. Outside, the
/// search is repeated in a window four times as wide.
const WINDOW_DEVIATIONS: f64 = 8.0;

/// The number of test rows, and of all rows with a target.
#[derive(Clone, Debug)]
pub struct TestSplit {
    /// The rule of the test rows.
    pub test_rows: Arc<TestRows>,
    /// Number of test rows.
    pub test_count: u64,
    /// Number of rows of both parts.
    pub row_count: u64,
}

impl Run<'_> {
    /// Chooses the test rows among the rows of a selection. Rows without a target are in neither
    /// part if the selection drops them.
    ///
    /// The choice is a function of the seed, of the stored row numbers, and of the values of one
    /// column. *Cost*: one or two passes over this column and the targets. *Bytes*: 8 bytes for
    /// about 6 √n of n rows, or the labels of the groups.
    ///
    /// # Errors
    /// [`Error::Option`] if one of the parts has no rows; errors of reading, such as a row without
    /// a group.
    #[doc(hidden)]
    pub fn choose_test_rows(
        &self,
        table: &Table,
        selection: &Selection,
        spec: &TestSpec,
        seed: u64,
    ) -> Result<TestSplit> {
        let class_column = selection.targets.first().filter(|_| selection.class_target);
        let counted = |group: Option<&String>, part: Option<Part>| {
            let keep = match spec {
                TestSpec::Last { column: Some(column), .. } => vec![column.clone()],
                _ => Vec::new(),
            };
            Selection {
                targets: selection.targets.clone(),
                class_target: selection.class_target,
                weight: selection.weight.clone(),
                group: group.cloned(),
                keep,
                rows: selection.rows.clone(),
                filter: selection.filter.clone(),
                // rows without a group are dropped, or are an error
                missing: if selection.missing == Missing::Drop { Missing::Drop } else { Missing::default() },
                missing_target: selection.missing_target,
                part,
                without_features: true,
                ..Selection::default()
            }
        };
        let group = match spec {
            TestSpec::Random { strata, .. } => strata.as_ref().or(class_column),
            TestSpec::Groups { column, .. } => Some(column),
            TestSpec::Last { .. } | TestSpec::Where(_) => None,
        };
        let rows = table.select(&counted(group, None))?;
        let statistics = self.count_rows(&rows)?;
        let row_count = statistics.rows;
        let reject = |why: String| Err(Error::option("test", spec, why));
        if row_count < 2 {
            return reject(format!("both parts need rows, and the selection has {row_count}; choose more rows"));
        }
        let strata = statistics.groups.sorted_counts();
        let mut known_count = None;
        let rule = match spec {
            TestSpec::Random { fraction, .. } => {
                let (thresholds, test_count) = self.random_thresholds(&rows, *fraction, seed, &strata, row_count)?;
                known_count = Some(test_count);
                match group {
                    None => TestRule::Keys { below: thresholds[0], column: None, strata: Vec::new() },
                    Some(column) => {
                        let labels = strata.iter().map(|(label, _)| label.clone());
                        let strata = labels.zip(thresholds).collect();
                        // a class that the fit has not seen cannot be a training row
                        TestRule::Keys { below: u64::MAX, column: Some(column.clone()), strata }
                    }
                }
            }
            TestSpec::Groups { fraction, column } => {
                if strata.len() < 2 {
                    let why =
                        format!("column {column} has {} value; name a column with two or more groups", strata.len());
                    return reject(why);
                }
                let stream = TestRows::stream(seed);
                let key_and_count = |(label, count): &(Label, u64)| (stream.word(label.digest()), *count);
                let mut groups: Vec<(u64, u64)> = strata.iter().map(key_and_count).collect();
                groups.sort_unstable();
                let test_groups = fraction.of(groups.len() as u64).clamp(1, groups.len() as u64 - 1) as usize;
                known_count = Some(groups[..test_groups].iter().map(|(_, count)| count).sum());
                TestRule::GroupKeys { below: groups[test_groups - 1].0.saturating_add(1), column: column.clone() }
            }
            TestSpec::Last { fraction, column } => {
                let Some(first) = self.first_of_last(&rows, *fraction, seed, row_count)? else {
                    let what = column.as_ref().map_or("the rows".to_string(), |column| format!("column {column}"));
                    return reject(format!("{what} cannot be divided: fewer than two distinct values; use 20%"));
                };
                match (column, first) {
                    (None, OrderedValue::Integer(row)) => TestRule::FromRow(u64::try_from(row).unwrap_or(u64::MAX)),
                    (None, _) => return reject("the rows cannot be ordered; use 20%".to_string()),
                    (Some(column), first) => TestRule::Where(table.condition_from(column, &first)?),
                }
            }
            TestSpec::Where(condition) => TestRule::Where(condition.clone()),
        };
        let test_rows = Arc::new(TestRows { spec: spec.clone(), seed, rule });
        let count_test_rows =
            || self.count_rows(&table.select(&counted(None, Some(Part::Test(Arc::clone(&test_rows)))))?);
        let test_count = match known_count {
            Some(count) => count,
            None => count_test_rows()?.rows,
        };
        let remedy = match spec {
            TestSpec::Where(_) => "change the condition",
            _ => "raise the percentage, or choose more rows",
        };
        match test_count {
            0 => reject(format!("none of the {} rows would be a test row; {remedy}", format_count(row_count))),
            _ if test_count >= row_count => {
                let remedy = if remedy.starts_with("raise") { "lower the percentage" } else { remedy };
                reject(format!(
                    "all {} rows would be test rows, and none is left to learn from; {remedy}",
                    format_count(row_count)
                ))
            }
            _ => Ok(TestSplit { test_rows, test_count, row_count }),
        }
    }

    fn count_rows(&self, rows: &SelectedTable) -> Result<Statistics> {
        let statistics = self.statistics_in("test rows", rows)?;
        statistics
            .check_label_counts(rows.class_column().unwrap_or_default(), rows.group_column().unwrap_or_default())?;
        Ok(statistics)
    }

    /// Returns, for each stratum, the threshold below which the keys of the test rows are: one more
    /// than the k-th smallest key of the stratum, so that it has exactly k test rows. Without
    /// strata, all rows are one stratum.
    fn random_thresholds(
        &self,
        rows: &SelectedTable,
        fraction: Fraction,
        seed: u64,
        strata: &[(Label, u64)],
        row_count: u64,
    ) -> Result<(Vec<u64>, u64)> {
        let stream = TestRows::stream(seed);
        let counts: Vec<u64> = match strata {
            [] => vec![row_count],
            _ => strata.iter().map(|(_, count)| *count).collect(),
        };
        // a stratum of one row is learned; without strata, both parts get a row
        let least = u64::from(strata.is_empty());
        let test_counts: Vec<u64> =
            counts.iter().map(|count| fraction.of(*count).clamp(least.min(count - 1), count - 1)).collect();
        let labels = (!strata.is_empty()).then(|| Arc::new(strata.iter().map(|(label, _)| label.clone()).collect()));
        let mut deviations = WINDOW_DEVIATIONS;
        loop {
            let windows = counts.iter().zip(&test_counts).map(|(n, k)| key_window(*k, *n, deviations)).collect();
            let reduction = KeyWindows { stream, windows };
            let range = rows.range();
            let state = if labels.is_none() && row_count == range.end - range.start {
                // every stored row is selected, so that no row must be read
                let mut state = reduction.init();
                range.for_each(|row| state.0[0].push(stream.word(row), &reduction.windows[0]));
                state
            } else {
                let settings = ReadSettings { group_labels: labels.clone(), ..ReadSettings::default() };
                let bytes = counts.iter().zip(&reduction.windows).map(|(n, window)| expected_bytes(*n, window)).sum();
                self.scan_rows("test rows", rows, bytes, &reduction, &|text_limit| {
                    rows.rows(ReadSettings { text_limit, ..settings.clone() })
                })?
            };
            let thresholds = state.0.into_iter().zip(&test_counts).map(|(keys, k)| keys.threshold(*k));
            if let Some(thresholds) = thresholds.collect::<Option<Vec<u64>>>() {
                return Ok((thresholds, test_counts.iter().sum()));
            }
            deviations *= 4.0;
        }
    }

    /// Returns the values of the kept column or, without one, the row numbers, of a random sample
    /// of this fraction of the rows, in the order of the table.
    pub(super) fn sampled_values(&self, rows: &SelectedTable, rate: f64, seed: u64) -> Result<Vec<OrderedValue>> {
        let below = if rate < 1.0 { (rate * 2f64.powi(64)) as u64 } else { u64::MAX };
        let sample = OrderSample { stream: Stream::new(seed, kstore::key::Purpose::TestRows, 1), below };
        let range = rows.range();
        let sampled_rows = (range.end - range.start).min(2 * ORDER_SAMPLE_ROWS) as usize;
        let bytes = sampled_rows * size_of::<OrderedValue>();
        let values = self.scan_rows("test rows", rows, bytes, &sample, &|text_limit| {
            rows.rows(ReadSettings { text_limit, ..ReadSettings::default() })
        })?;
        Ok(values.0)
    }

    /// Returns the smallest value of the last rows, for the order of the kept column or, without
    /// one, of the row numbers. `None` if all values are equal.
    fn first_of_last(
        &self,
        rows: &SelectedTable,
        fraction: Fraction,
        seed: u64,
        row_count: u64,
    ) -> Result<Option<OrderedValue>> {
        let rate = (ORDER_SAMPLE_ROWS as f64 / row_count as f64).min(1.0);
        let mut values = self.sampled_values(rows, rate, seed)?;
        values.sort_unstable();
        let n = values.len();
        if n < 2 || values[0] == values[n - 1] {
            return Ok(None);
        }
        let test_count = fraction.of(n as u64).clamp(1, n as u64 - 1) as usize;
        // rows with equal values are in one part: the division nearest to the requested fraction
        let value = &values[n - test_count];
        let candidates =
            [values.partition_point(|other| other < value), values.partition_point(|other| other <= value)];
        let distance = |first: &usize| (n - first).abs_diff(test_count);
        let first = candidates.into_iter().filter(|first| (1..n).contains(first)).min_by_key(distance);
        Ok(first.map(|first| values[first].clone()))
    }
}

/// Returns the range in which the k-th smallest of n uniform keys is expected.
fn key_window(k: u64, n: u64, deviations: f64) -> RangeInclusive<u64> {
    let (n, quantile) = (n.max(1) as f64, k as f64 / n.max(1) as f64);
    let margin = deviations * ((quantile * (1.0 - quantile) / n).sqrt() + 1.0 / n);
    // the conversion saturates
    let key = |quantile: f64| (quantile * 2f64.powi(64)) as u64;
    key(quantile - margin)..=key(quantile + margin)
}

fn expected_bytes(n: u64, window: &RangeInclusive<u64>) -> usize {
    let share = (window.end() - window.start()) as f64 / 2f64.powi(64);
    // a growing vector may have twice the capacity that it needs
    size_of::<WindowKeys>() + 16 * (n as f64 * share) as usize
}

/// The keys of the rows of a stratum that lie in its window, and the number of smaller keys.
#[derive(Clone, Debug, Default)]
struct WindowKeys {
    smaller_count: u64,
    keys: Vec<u64>,
}

impl WindowKeys {
    fn push(&mut self, key: u64, window: &RangeInclusive<u64>) {
        if key < *window.start() {
            self.smaller_count += 1;
        } else if key <= *window.end() {
            self.keys.push(key);
        }
    }

    /// Returns one more than the k-th smallest key; `None` if it is outside the window.
    fn threshold(mut self, k: u64) -> Option<u64> {
        if k == 0 {
            return Some(0);
        }
        let rank = k.checked_sub(self.smaller_count + 1)?;
        self.keys.sort_unstable();
        self.keys.get(usize::try_from(rank).ok()?).map(|key| key.saturating_add(1))
    }
}

struct KeyWindows {
    stream: Stream,
    windows: Vec<RangeInclusive<u64>>,
}

/// The keys of each stratum.
struct StratumKeys(Vec<WindowKeys>);

impl Merge for StratumKeys {
    fn merge(&mut self, later: &Self) {
        for (keys, later) in self.0.iter_mut().zip(&later.0) {
            keys.smaller_count += later.smaller_count;
            keys.keys.extend_from_slice(&later.keys);
        }
    }
}

impl Reduction<f64> for KeyWindows {
    type State = StratumKeys;
    type Scratch = ();
    type Error = kstore::Error;

    fn init(&self) -> StratumKeys {
        StratumKeys(vec![WindowKeys::default(); self.windows.len()])
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut StratumKeys, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        for (i, row) in block.row_numbers.iter().enumerate() {
            let stratum = block.groups.as_ref().map_or(0, |groups| groups.codes[i] as usize);
            // every label of the pass over the same rows is known
            if let (Some(keys), Some(window)) = (state.0.get_mut(stratum), self.windows.get(stratum)) {
                keys.push(self.stream.word(*row), window);
            }
        }
        Ok(())
    }
}

/// Collects the values of the rows whose keys are below a threshold.
struct OrderSample {
    stream: Stream,
    below: u64,
}

struct SampledValues(Vec<OrderedValue>);

impl Merge for SampledValues {
    fn merge(&mut self, later: &Self) {
        self.0.extend_from_slice(&later.0);
    }
}

impl Reduction<f64> for OrderSample {
    type State = SampledValues;
    type Scratch = ();
    type Error = kstore::Error;

    fn init(&self) -> SampledValues {
        SampledValues(Vec::new())
    }

    fn scratch(&self) {}

    fn step(
        &self,
        state: &mut SampledValues,
        (): &mut (),
        block: &RowBlock<'_, f64>,
        _: &Workers,
    ) -> kstore::Result<()> {
        for (i, row) in block.row_numbers.iter().enumerate().filter(|(_, row)| self.stream.word(**row) <= self.below) {
            state.0.extend(match block.kept_columns.first() {
                Some(column) => OrderedValue::of_row(column, i),
                None => Some(OrderedValue::Integer((*row).into())),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_the_kth_smallest_key() {
        let stream = TestRows::stream(3);
        for (n, k) in [(2u64, 1u64), (10, 3), (1000, 200), (5000, 4999), (5000, 0)] {
            for deviations in [WINDOW_DEVIATIONS, 0.0] {
                let window = key_window(k, n, deviations);
                let mut keys = WindowKeys::default();
                (0..n).for_each(|row| keys.push(stream.word(row), &window));
                if let Some(threshold) = keys.threshold(k) {
                    assert_eq!((0..n).filter(|row| stream.word(*row) < threshold).count() as u64, k, "{n} {k}");
                } else {
                    assert_eq!(deviations, 0.0, "{n} {k}: outside the window");
                }
            }
        }
    }
}
