//! Two-sample tests of single columns, and their correction for the number of columns.
//!
//! Every column is tested on the same random sample of at most [`MAX_ROWS`] rows of either table,
//! however many columns there are:
//!
//! - a numeric column by the statistic of Kolmogorov and Smirnov, the largest difference D of the
//!   two distribution functions. With n = mr/(m + r) for samples of m and r rows, the probability
//!   of √n D ≥ t is 2 Σ_{j ≥ 1} (−1)^{j−1} exp(−2j²t²) in the limit of many rows; equal values make
//!   the test conservative;
//! - a category by the chi-squared statistic of homogeneity of its levels, with one degree of
//!   freedom less than levels. Levels with fewer than [`MIN_EXPECTED`] expected rows in a sample
//!   are counted together. The distance of a category is the total variation, half the sum of the
//!   absolute differences of the fractions, which is comparable with D.
//!
//! The p-values are corrected by Holm's method: the probability that at least one column without a
//! difference has a corrected p-value below α is at most α.
//!
//! The reported means, fractions of levels and missing values are of all rows, from the moments of
//! the features.
//!
//! *Passes*: one over each table for each group of columns that fits in memory. *Bytes*: 32 for
//! each sampled value of a group.
//!
//! References: Smirnov, "Table for estimating the goodness of fit of empirical distributions", Ann.
//! Math. Statist. 19, 1948; Holm, "A simple sequentially rejective multiple test procedure", Scand.
//! J. Statist. 6, 1979.

use super::column_histogram::{Histogram, level_histogram, number_histogram};
use super::column_values::{ColumnRows, TableColumn, table_columns};
use super::null_distribution::{ChiSquaredSum, MIN_PROBABILITY};
use crate::Result;
use crate::prepare::stage_plans;
use crate::request::{PassShape, ProblemSize, Resources};
use crate::train::column_sample::MAX_ROWS;
use kapprox::landmark::{TableScan, uniform_sample};
use kstore::key::Purpose;
use kstore::statistics::ColumnMoments;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable, Statistics};

/// Maximum number of columns that are sampled in one pass.
const MAX_COLUMNS_PER_PASS: usize = 500;
/// Minimum expected number of rows of a level in a sample (Cochran, "The χ² test of goodness of
/// fit", Ann. Math. Statist. 23, 1952).
const MIN_EXPECTED: f64 = 5.0;
/// Number of columns with histograms.
const HISTOGRAM_COLUMNS: usize = 6;

/// The difference of a column between two samples.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ColumnDifference {
    /// Name of the column.
    pub column: String,
    /// Name of the test: `ks` or `chi2`.
    pub test: &'static str,
    /// Largest difference of the distribution functions, or the total variation of the levels.
    pub distance: f64,
    /// p-value of the column alone.
    pub p_value: f64,
    /// p-value corrected for the number of columns.
    pub corrected_p_value: f64,
    /// The level of a category whose fraction differs most; `None` for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Mean over all rows of each sample; the fraction of the level for a category.
    pub means: [f64; 2],
    /// Difference of the means, second minus first, in standard deviations within the samples;
    /// `None` for categories and constant columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Fractions of all rows of each sample that have no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<[f64; 2]>,
    /// Histogram of the column; only of the columns that differ most.
    #[serde(skip)]
    pub histogram: Option<Histogram>,
}

/// Tests of the columns of two samples.
#[derive(Debug, Default)]
pub(super) struct ColumnTests {
    /// Tests, the columns that differ most first.
    pub(super) columns: Vec<ColumnDifference>,
    /// Number of rows of each sample that were read for the tests.
    pub(super) rows: Vec<u64>,
    /// Number of passes over the rows.
    pub(super) passes: u64,
}

/// Plans the column tests. Returns the plan, and the number of columns that are sampled in one
/// pass.
pub(super) fn plan(
    table: &SelectedTable,
    size: &ProblemSize,
    pass_shape: PassShape,
    budget: usize,
) -> (MemoryPlan, usize) {
    let size = &ProblemSize { d: size.input_columns, ..size.clone() };
    let rows = MAX_ROWS.min(usize::try_from(size.n).unwrap_or(usize::MAX));
    let base = stage_plans::add_row_terms(
        stage_plans::base_plan("column tests", size, budget),
        size,
        PassShape { prefetch_tiles: 1, ..pass_shape },
        1,
        8,
    )
    // the rows before their columns are selected
    .term("tiles of features", pass_shape.tile_rows * (size.d + 2) * 8, "read fewer columns (`features`)")
    // copies of a column: in both samples, sorted, and pooled for a histogram
    .term("values of a column", 6 * rows * 8, "");
    // both samples; the one that is drawn exists three times: in the lane, merged and sorted
    let sample_bytes = |column_count: usize| 4 * rows * (column_count * 8 + 40);
    let column_count = if table.sparse_shape().is_some() { 0 } else { table_columns(table).len() };
    let free_bytes = budget.saturating_sub(base.bytes()).saturating_sub(sample_bytes(0));
    let fitting = (free_bytes / (4 * rows * 8).max(1)).clamp(1, MAX_COLUMNS_PER_PASS).min(column_count.max(1));
    let plan = base.term("rows for column tests", sample_bytes(fitting), "");
    (plan, fitting)
}

/// Tests every column of two samples, whose features have the given statistics, in groups of
/// columns. Returns no columns for sparse rows.
pub(super) fn column_tests(
    tables: [&SelectedTable; 2],
    statistics: [&Statistics; 2],
    columns_per_pass: usize,
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<ColumnTests> {
    if tables[0].sparse_shape().is_some() {
        return Ok(ColumnTests::default());
    }
    let draw = |side: usize, columns: &[TableColumn]| -> Result<Vec<f64>> {
        let source = ColumnRows::new(tables[side].rows::<f64>(ReadSettings::default())?, columns);
        let observer = resources.start_stage_over("column tests", source.range());
        let pass = PassShape { prefetch_tiles: 1, ..pass_shape }.pass(1, resources, &*observer);
        let scan = TableScan { source: &source, pass, row_count: statistics[side].rows };
        Ok(uniform_sample(&scan, MAX_ROWS, Purpose::Quality, seed)?.x)
    };
    let moments = statistics.map(|statistics| FeatureMoments { rows: statistics.rows, inputs: &statistics.inputs });
    let (columns, mut tests) = (table_columns(tables[0]), ColumnTests::default());
    for columns in columns.chunks(columns_per_pass) {
        let samples = [draw(0, columns)?, draw(1, columns)?];
        tests.rows = samples.iter().map(|x| (x.len() / columns.len()) as u64).collect();
        tests.passes += 1;
        add_tests(&mut tests.columns, columns, [&samples[0], &samples[1]], moments);
    }
    correct_p_values(&mut tests.columns);
    Ok(tests)
}

/// Moments of the features of a sample, over all of its rows.
#[derive(Clone, Copy)]
pub(super) struct FeatureMoments<'a> {
    pub(super) rows: u64,
    pub(super) inputs: &'a [ColumnMoments],
}

impl FeatureMoments<'_> {
    /// Returns the fraction of the rows that have a level, a feature of zeros and ones.
    fn fraction(&self, feature: usize) -> f64 {
        let moments = &self.inputs[feature];
        moments.mean * moments.count as f64 / self.rows.max(1) as f64
    }

    /// Returns the numbers of all rows of each level, and of the rows without a level.
    pub(super) fn level_counts(&self, levels: &[(usize, String)]) -> Vec<f64> {
        let rows = self.rows as f64;
        let mut counts: Vec<f64> = levels.iter().map(|(feature, _)| (self.fraction(*feature) * rows).round()).collect();
        counts.push((rows - counts.iter().sum::<f64>()).max(0.0));
        counts
    }
}

/// Tests a group of columns, and adds them to the tests in the order of their p-values. `samples`
/// are row-major, with a value of each column.
fn add_tests(
    tests: &mut Vec<ColumnDifference>,
    columns: &[TableColumn],
    samples: [&[f64]; 2],
    moments: [FeatureMoments<'_>; 2],
) {
    let values = |i: usize| samples.map(|x| x.iter().skip(i).step_by(columns.len()).copied().collect::<Vec<f64>>());
    let mut position_of_name = std::collections::HashMap::new();
    for (i, column) in columns.iter().enumerate() {
        let difference = match column {
            TableColumn::Number(name, j) => {
                test_numbers(name, values(i), moments.map(|moments| (&moments.inputs[*j], moments.rows)))
            }
            TableColumn::Category(name, levels) => test_levels(name, levels, values(i), moments),
        };
        if let Some(difference) = difference {
            position_of_name.insert((difference.column.clone(), difference.test), i);
            tests.push(difference);
        }
    }
    tests.sort_by(|a, b| a.p_value.total_cmp(&b.p_value).then(b.distance.total_cmp(&a.distance)));
    for (rank, difference) in tests.iter_mut().enumerate() {
        let position = position_of_name.get(&(difference.column.clone(), difference.test));
        match position.filter(|_| rank < HISTOGRAM_COLUMNS) {
            Some(i) => {
                difference.histogram = match &columns[*i] {
                    TableColumn::Number(..) => number_histogram(values(*i)),
                    TableColumn::Category(_, levels) => {
                        Some(level_histogram(levels, &level_counts(levels, &values(*i))))
                    }
                }
            }
            // a column of an earlier group keeps its histogram while it is among the first
            None if rank >= HISTOGRAM_COLUMNS => difference.histogram = None,
            None => {}
        }
    }
}

/// Corrects the p-values, which ascend, for their number.
pub(super) fn correct_p_values(tests: &mut [ColumnDifference]) {
    let corrected = holm(&tests.iter().map(|difference| difference.p_value).collect::<Vec<_>>());
    tests.iter_mut().zip(corrected).for_each(|(difference, corrected)| difference.corrected_p_value = corrected);
}

/// Returns ascending p-values, corrected for their number by Holm's method.
pub(super) fn holm(ascending: &[f64]) -> Vec<f64> {
    let mut largest = 0.0f64;
    let correct = |(rank, p_value): (usize, &f64)| {
        largest = largest.max(((ascending.len() - rank) as f64 * p_value).min(1.0));
        largest
    };
    ascending.iter().enumerate().map(correct).collect()
}

/// Tests a column of numbers; `None` if a sample has no values. `moments` are the moments of all
/// rows, and the numbers of all rows.
fn test_numbers(name: &str, samples: [Vec<f64>; 2], moments: [(&ColumnMoments, u64); 2]) -> Option<ColumnDifference> {
    let [mut first, mut second] = samples;
    [&mut first, &mut second].into_iter().for_each(|values| {
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
    });
    let sizes = [first.len() as u64, second.len() as u64];
    number_difference(name, sizes, kolmogorov_distance(&first, &second), moments)
}

/// Returns the difference of a column of numbers, whose distribution functions differ by `distance`
/// on samples of the given sizes; `None` if a sample has no values. `moments` are as in
/// [`test_numbers`].
pub(super) fn number_difference(
    name: &str,
    sizes: [u64; 2],
    distance: f64,
    moments: [(&ColumnMoments, u64); 2],
) -> Option<ColumnDifference> {
    if sizes.contains(&0) {
        return None;
    }
    let [m, r] = sizes.map(|size| size as f64);
    let p_value = kolmogorov_survival((m * r / (m + r)).sqrt() * distance).max(MIN_PROBABILITY);
    let [a, b] = moments.map(|(moments, _)| moments);
    let deviation = ((a.m2 + b.m2) / (a.count + b.count) as f64).sqrt();
    let has_spread = deviation > 0.0 && !(a.is_constant() && b.is_constant());
    let missing = moments.map(|(moments, rows)| 1.0 - moments.count as f64 / rows as f64);
    Some(ColumnDifference {
        column: name.to_string(),
        test: "ks",
        distance,
        p_value,
        corrected_p_value: p_value,
        level: None,
        means: [a.mean, b.mean],
        difference: has_spread.then(|| (b.mean - a.mean) / deviation),
        missing: (missing != [0.0, 0.0]).then_some(missing),
        histogram: None,
    })
}

/// Returns the largest difference of the distribution functions of two sorted samples.
fn kolmogorov_distance(first: &[f64], second: &[f64]) -> f64 {
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    while i < first.len() && j < second.len() {
        // both functions step at all rows of equal value
        let value = first[i].min(second[j]);
        i += first[i..].partition_point(|v| *v <= value);
        j += second[j..].partition_point(|v| *v <= value);
        largest = largest.max((i as f64 / first.len() as f64 - j as f64 / second.len() as f64).abs());
    }
    largest
}

/// Returns P(K ≥ t) of Kolmogorov's limit distribution.
fn kolmogorov_survival(t: f64) -> f64 {
    // below, the series converges slowly and the probability is 1 to 1e-13
    if t < 0.18 {
        return 1.0;
    }
    let term = |j: i32| f64::from(2 * (j % 2) - 1) * (-2.0 * f64::from(j * j) * t * t).exp();
    (2.0 * (1..=60).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Returns the numbers of rows of each level in both samples, and of the rows without a level.
fn level_counts(levels: &[(usize, String)], samples: &[Vec<f64>; 2]) -> [Vec<f64>; 2] {
    [0, 1].map(|side: usize| {
        let mut counts = vec![0.0; levels.len() + 1];
        samples[side].iter().for_each(|level| counts[*level as usize] += 1.0);
        counts
    })
}

/// Tests the levels of a category. The samples contain positions of levels. Returns `None` if fewer
/// than two levels can be compared.
fn test_levels(
    name: &str,
    levels: &[(usize, String)],
    samples: [Vec<f64>; 2],
    moments: [FeatureMoments<'_>; 2],
) -> Option<ColumnDifference> {
    level_difference(name, levels, level_counts(levels, &samples), moments)
}

/// Tests the levels of a category. `counts` are the numbers of rows of each level in both samples,
/// and of the rows without a level. Returns `None` if fewer than two levels can be compared.
pub(super) fn level_difference(
    name: &str,
    levels: &[(usize, String)],
    counts: [Vec<f64>; 2],
    moments: [FeatureMoments<'_>; 2],
) -> Option<ColumnDifference> {
    let totals = [0, 1].map(|side: usize| counts[side].iter().sum::<f64>());
    let all = totals[0] + totals[1];
    if totals[0] == 0.0 || totals[1] == 0.0 {
        return None;
    }
    let least_expected = |n: f64| n * totals[0].min(totals[1]) / all;
    let (mut cells, mut rare) = (Vec::new(), [0.0, 0.0]);
    for cell in counts[0].iter().zip(&counts[1]).map(|(a, b)| [*a, *b]) {
        match least_expected(cell[0] + cell[1]) >= MIN_EXPECTED {
            true => cells.push(cell),
            false => rare = [rare[0] + cell[0], rare[1] + cell[1]],
        }
    }
    if least_expected(rare[0] + rare[1]) >= MIN_EXPECTED {
        cells.push(rare);
    }
    if cells.len() < 2 {
        return None;
    }
    let compared = [0, 1].map(|side: usize| cells.iter().map(|cell| cell[side]).sum::<f64>());
    let statistic: f64 = cells
        .iter()
        .flat_map(|cell| {
            let fraction = (cell[0] + cell[1]) / (compared[0] + compared[1]);
            [0, 1].map(|side| (cell[side] - fraction * compared[side]).powi(2) / (fraction * compared[side]))
        })
        .sum();
    let degrees = (cells.len() - 1) as f64;
    let p_value = ChiSquaredSum::gamma(degrees, 2.0 * degrees).survival(statistic).unwrap_or(1.0);
    let shift = |i: usize| (counts[1][i] / totals[1] - counts[0][i] / totals[0]).abs();
    let distance = 0.5 * (0..counts[0].len()).map(shift).sum::<f64>();
    let largest = (0..levels.len()).reduce(|best, i| if shift(i) > shift(best) { i } else { best })?;
    Some(ColumnDifference {
        column: name.to_string(),
        test: "chi2",
        distance,
        p_value,
        corrected_p_value: p_value,
        level: Some(levels[largest].1.clone()),
        means: moments.map(|moments| moments.fraction(levels[largest].0)),
        difference: None,
        missing: None,
        histogram: None,
    })
}

#[cfg(test)]
mod tests;
