//! Two-sample tests of single columns, and their correction for the number of columns.
//!
//! Every column is tested on a random sample of the rows of either table:
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
//! *Passes*: one over each table. *Bytes*: 24 for each sampled value.
//!
//! References: Smirnov, "Table for estimating the goodness of fit of empirical distributions", Ann.
//! Math. Statist. 19, 1948; Holm, "A simple sequentially rejective multiple test procedure", Scand.
//! J. Statist. 6, 1979.

use super::column_histogram::{Histogram, level_histogram, number_histogram};
use super::null_distribution::{ChiSquaredSum, MIN_PROBABILITY};
use crate::Result;
use crate::prepare::stage_plans;
use crate::request::{PassShape, ProblemSize, Resources};
use kapprox::landmark::{RowSample, TableScan, uniform_sample};
use kstore::key::Purpose;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable};

/// Maximum number of rows of a sample: differences of 0.02 between distribution functions are
/// significant at 5 %.
const MAX_ROWS: usize = 10_000;
/// Maximum number of values of a sample.
const MAX_VALUES: usize = 1_000_000;
/// Minimum number of rows of a sample if there are many columns.
const MIN_ROWS: usize = 200;
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
    /// Mean of each sample; the fraction of the level for a category.
    pub means: [f64; 2],
    /// Difference of the means, second minus first, in standard deviations within the samples;
    /// `None` for categories and constant columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Fractions of the rows of each sample that have no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<[f64; 2]>,
    /// Histogram of the column; only of the columns that differ most.
    #[serde(skip)]
    pub histogram: Option<Histogram>,
}

/// Returns the number of sampled rows of `d` columns.
fn sample_rows(d: usize) -> usize {
    MAX_ROWS.min(MAX_VALUES / d.max(1)).max(MIN_ROWS)
}

/// Plans the column tests.
pub(super) fn plan(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let size = &ProblemSize { d: size.input_columns, ..size.clone() };
    let rows = sample_rows(size.d).min(usize::try_from(size.n).unwrap_or(usize::MAX));
    // both samples; the one that is drawn exists three times: in the lane, merged and sorted
    stage_plans::add_row_terms(
        stage_plans::base_plan("column tests", size, budget),
        size,
        PassShape { prefetch_tiles: 1, ..pass_shape },
        1,
        8,
    )
    .term("rows for column tests", 4 * rows * (size.d * 8 + 40), "read fewer columns (`features`)")
}

/// Tests every column of two samples. The columns that differ most come first. Returns no columns
/// for sparse rows.
pub(super) fn column_tests(
    [first, second]: [&SelectedTable; 2],
    row_counts: &[u64],
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Vec<ColumnDifference>> {
    if first.sparse_shape().is_some() {
        return Ok(Vec::new());
    }
    let draw = |table: &SelectedTable, row_count: u64| -> Result<RowSample<f64>> {
        let source = table.rows::<f64>(ReadSettings::default())?;
        let observer = resources.start_stage_over("column tests", source.range());
        let pass = PassShape { prefetch_tiles: 1, ..pass_shape }.pass(1, resources, &*observer);
        let scan = TableScan { source: &source, pass, row_count };
        Ok(uniform_sample(&scan, sample_rows(source.shape().input_count), Purpose::Quality, seed)?)
    };
    let samples = [draw(first, row_counts[0])?, draw(second, row_counts[1])?];
    Ok(test_columns(&table_columns(first), [&samples[0].x, &samples[1].x]))
}

/// A column of the table, as features.
enum TableColumn {
    /// A number: its name and the position of the feature.
    Number(String, usize),
    /// A category or an indicator of missing values: its name, and the positions of its features
    /// with their names.
    Category(String, Vec<(usize, String)>),
}

fn table_columns(selected: &SelectedTable) -> Vec<TableColumn> {
    let names = selected.feature_names();
    let Some(encoding) = selected.encoding() else {
        return names.into_iter().enumerate().map(|(j, name)| TableColumn::Number(name, j)).collect();
    };
    let (is_binary, mut columns, mut next) = (encoding.binary_mask(), Vec::new(), 0);
    for column in encoding.columns() {
        let features = next..next + column.feature_count();
        next = features.end;
        let (levels, numbers): (Vec<usize>, Vec<usize>) = features.partition(|j| is_binary[*j]);
        columns.extend(numbers.into_iter().map(|j| TableColumn::Number(names[j].clone(), j)));
        if !levels.is_empty() {
            let levels = levels.into_iter().map(|j| (j, names[j].clone())).collect();
            columns.push(TableColumn::Category(column.name.clone(), levels));
        }
    }
    columns
}

fn test_columns(columns: &[TableColumn], samples: [&[f64]; 2]) -> Vec<ColumnDifference> {
    let width = columns.iter().map(|column| match column {
        TableColumn::Number(_, j) => j + 1,
        TableColumn::Category(_, levels) => levels.iter().map(|(j, _)| j + 1).max().unwrap_or(0),
    });
    let d = width.max().unwrap_or(1);
    let values = |j: usize| samples.map(|x| x.iter().skip(j).step_by(d).copied().collect::<Vec<f64>>());
    let mut tested: Vec<(usize, ColumnDifference)> = columns
        .iter()
        .enumerate()
        .filter_map(|(i, column)| {
            let difference = match column {
                TableColumn::Number(name, j) => test_numbers(name, values(*j)),
                TableColumn::Category(name, levels) => test_levels(name, levels, samples, d),
            };
            Some((i, difference?))
        })
        .collect();
    tested.sort_by(|(_, a), (_, b)| a.p_value.total_cmp(&b.p_value).then(b.distance.total_cmp(&a.distance)));
    let corrected = holm(&tested.iter().map(|(_, difference)| difference.p_value).collect::<Vec<_>>());
    tested.iter_mut().zip(corrected).for_each(|((_, difference), corrected)| difference.corrected_p_value = corrected);
    for (i, difference) in tested.iter_mut().take(HISTOGRAM_COLUMNS) {
        difference.histogram = match &columns[*i] {
            TableColumn::Number(_, j) => number_histogram(values(*j)),
            TableColumn::Category(_, levels) => Some(level_histogram(levels, &level_counts(levels, samples, d))),
        };
    }
    tested.into_iter().map(|(_, difference)| difference).collect()
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

/// Tests a column of numbers; `None` if a sample has no values.
fn test_numbers(name: &str, samples: [Vec<f64>; 2]) -> Option<ColumnDifference> {
    let row_counts = [samples[0].len(), samples[1].len()];
    let [mut first, mut second] = samples;
    [&mut first, &mut second].into_iter().for_each(|values| {
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
    });
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (m, r) = (first.len() as f64, second.len() as f64);
    let distance = kolmogorov_distance(&first, &second);
    let p_value = kolmogorov_survival((m * r / (m + r)).sqrt() * distance).max(MIN_PROBABILITY);
    let means = [&first, &second].map(|values| values.iter().sum::<f64>() / values.len() as f64);
    let squares = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let deviation = ((squares(&first, means[0]) + squares(&second, means[1])) / (m + r)).sqrt();
    let missing = [1.0 - m / row_counts[0] as f64, 1.0 - r / row_counts[1] as f64];
    Some(ColumnDifference {
        column: name.to_string(),
        test: "ks",
        distance,
        p_value,
        corrected_p_value: p_value,
        level: None,
        means,
        difference: (deviation > 0.0).then(|| (means[1] - means[0]) / deviation),
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
fn level_counts(levels: &[(usize, String)], samples: [&[f64]; 2], d: usize) -> [Vec<f64>; 2] {
    samples.map(|x| {
        let mut counts = vec![0.0; levels.len() + 1];
        for row in x.chunks_exact(d) {
            let level = levels.iter().position(|(j, _)| row[*j] > 0.5).unwrap_or(levels.len());
            counts[level] += 1.0;
        }
        counts
    })
}

/// Tests the levels of a category; `None` if fewer than two levels can be compared.
fn test_levels(name: &str, levels: &[(usize, String)], samples: [&[f64]; 2], d: usize) -> Option<ColumnDifference> {
    let counts = level_counts(levels, samples, d);
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
        means: [0, 1].map(|side: usize| counts[side][largest] / totals[side]),
        difference: None,
        missing: None,
        histogram: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(i: usize, factor: f64) -> f64 {
        (i as f64 * factor).sin()
    }

    #[test]
    fn p_values_equal_those_of_scipy() {
        // import numpy as np, scipy.stats as s, scipy.special as p; i = np.arange(200)
        // a = np.sin(1.3 * i[:120]); b = np.sin(.7 * i[:200]) + .3; k = s.ks_2samp(a, b)
        // k.statistic, p.kolmogorov(np.sqrt(120 * 200 / 320) * k.statistic)
        // c = s.chi2_contingency([[50, 40, 30], [60, 90, 50]]); c.statistic, c.pvalue
        let first: Vec<f64> = (0..120).map(|i| wave(i, 1.3)).collect();
        let second: Vec<f64> = (0..200).map(|i| wave(i, 0.7) + 0.3).collect();
        let found = test_numbers("x", [first, second]).unwrap();
        assert!(
            (found.distance - 0.28).abs() < 1e-12 && (found.p_value / 1.5621649467125444e-05 - 1.0).abs() < 1e-9,
            "{found:?}"
        );
        let levels: Vec<(usize, String)> = (0..2).map(|j| (j, format!("c={j}"))).collect();
        let rows = |counts: [usize; 3]| -> Vec<f64> {
            [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]].iter().zip(counts).flat_map(|(row, n)| row.repeat(n)).collect()
        };
        let found = test_levels("c", &levels, [&rows([50, 40, 30]), &rows([60, 90, 50])], 2).unwrap();
        assert!((found.p_value / 0.06448912066556958 - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.level.as_deref(), Some("c=0"));
    }

    #[test]
    fn holm_orders_and_bounds_the_p_values() {
        // p.adjust(c(.01, .04, .03, .005), "holm") of R is .03, .06, .06, .02
        let corrected = holm(&[0.005, 0.01, 0.03, 0.04]);
        assert!(corrected.iter().zip([0.02, 0.03, 0.06, 0.06]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-15));
        let columns: Vec<TableColumn> = (0..3).map(|j| TableColumn::Number(format!("x{j}"), j)).collect();
        let sample = |shift: f64| -> Vec<f64> {
            (0..300).flat_map(|i| [wave(i, 1.1) + shift, wave(i, 1.7), wave(i, 2.3) + shift / 4.0]).collect()
        };
        let found = test_columns(&columns, [&sample(0.0), &sample(0.8)]);
        let names: Vec<&str> = found.iter().map(|column| &*column.column).collect();
        assert_eq!(names, ["x0", "x2", "x1"]);
        let expected = [3.0 * found[0].p_value, 2.0 * found[1].p_value, 1.0];
        for (column, expected) in found.iter().zip(expected) {
            assert!((column.corrected_p_value - expected.min(1.0)).abs() < 1e-15, "{column:?}");
        }
        let histogram = found[0].histogram.as_ref().unwrap();
        assert!(histogram.fractions.iter().all(|side| (0.97..=1.0 + 1e-12).contains(&side.iter().sum::<f64>())));
    }

    #[test]
    fn equal_and_empty_columns_do_not_differ() {
        let constant = test_numbers("c", [vec![2.0; 50], vec![2.0; 70]]).unwrap();
        assert_eq!((constant.distance, constant.p_value, constant.difference), (0.0, 1.0, None));
        assert!(test_numbers("m", [vec![f64::NAN; 50], vec![1.0; 70]]).is_none());
        let gaps = test_numbers("g", [vec![1.0, f64::NAN], vec![1.0, 2.0]]).unwrap();
        assert_eq!(gaps.missing, Some([0.5, 0.0]));
        assert!(test_levels("c", &[(0, "c=a".to_string())], [&[1.0; 40], &[1.0; 40]], 1).is_none());
    }
}
