//! A sample of the rows, and the distributions of the numeric columns that a model stores.
//!
//! *Passes*: one. *Bytes*: a sample of rows in each lane; the sample has at most 10,000 rows and
//! about a million numbers, whatever the budget, so that the model does not depend on it.

use crate::Result;
use crate::model::ColumnDistribution;
use crate::prepare::stage_plans;
use crate::request::{PassShape, ProblemSize, Resources};
use kapprox::landmark::{RowSample, TableScan, uniform_sample};
use kstore::key::Purpose;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable, Statistics};

/// Maximum number of rows of a sample: differences of 0.02 between distribution functions are
/// significant at 5 %.
pub(crate) const MAX_ROWS: usize = 10_000;
/// Number of values of a sample beyond which it has fewer rows, but not fewer than [`MIN_ROWS`].
const MAX_VALUES: usize = 1 << 20;
const MIN_ROWS: usize = 200;
/// Maximum number of numeric columns: more would make the header of the model file too large.
const MAX_COLUMNS: usize = 10_000;
/// Maximum number of lanes, each with its own sample.
const MAX_LANES: usize = 4;

const STAGE: &str = "column distributions";

/// Returns the maximum number of rows of a sample of rows with this many features.
pub(crate) fn sample_rows(columns: usize) -> usize {
    (MAX_VALUES / columns.max(1)).clamp(MIN_ROWS, MAX_ROWS)
}

/// Plans the pass that draws a sample of rows in f64.
pub(crate) fn plan(size: &ProblemSize, pass_shape: PassShape, budget: usize) -> MemoryPlan {
    let size = &ProblemSize { d: size.input_columns, ..size.clone() };
    let lanes = pass_shape.scan_lanes.min(MAX_LANES);
    let rows = sample_rows(size.d).min(usize::try_from(size.n).unwrap_or(usize::MAX));
    stage_plans::add_row_terms(stage_plans::base_plan(STAGE, size, budget), size, pass_shape, lanes, 8)
        // of every lane, merged, and sorted, with 40 bytes per row for its key, weight, slot and
        // row numbers
        .term("sample of the rows", (lanes + 2) * rows * (size.d * 8 + 40), "read fewer columns (`features`)")
        .term("values of a column", 3 * rows * 8, "")
}

/// Draws a sample of the rows, in the units of the table.
pub(crate) fn draw(
    selected: &SelectedTable,
    row_count: u64,
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<RowSample<f64>> {
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let observer = resources.start_stage_over(STAGE, source.range());
    let pass = pass_shape.pass(pass_shape.scan_lanes.min(MAX_LANES), resources, &*observer);
    let scan = TableScan { source: &source, pass, row_count };
    Ok(uniform_sample(&scan, sample_rows(RowSource::<f64>::shape(&source).input_count), Purpose::Quality, seed)?)
}

/// Returns the features that are numeric columns; none for sparse rows, and if there are more than
/// [`MAX_COLUMNS`].
pub(super) fn described_features(selected: &SelectedTable) -> Vec<usize> {
    if selected.sparse_shape().is_some() {
        return Vec::new();
    }
    let is_binary = selected.encoding().map_or(Vec::new(), |encoding| encoding.binary_mask());
    let feature_count = selected.shape().input_count;
    let numeric: Vec<usize> = (0..feature_count).filter(|j| is_binary.get(*j) != Some(&true)).collect();
    if numeric.len() > MAX_COLUMNS { Vec::new() } else { numeric }
}

/// Returns the distributions of the [`described_features`], in one pass over the rows.
pub(super) fn column_distributions(
    selected: &SelectedTable,
    statistics: &Statistics,
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Vec<ColumnDistribution>> {
    let (names, numeric) = (selected.feature_names(), described_features(selected));
    if numeric.is_empty() {
        return Ok(Vec::new());
    }
    let sample = draw(selected, statistics.rows, seed, pass_shape, resources)?;
    let distribution = |j: usize| {
        let (moments, column) = (&statistics.inputs[j], names[j].clone());
        let mut distribution = ColumnDistribution {
            column,
            count: moments.count,
            mean: moments.mean,
            deviation: if moments.is_constant() { 0.0 } else { moments.deviation() },
            ..ColumnDistribution::default()
        };
        distribution.set_sample(column_values(&sample, j));
        distribution
    };
    Ok(numeric.into_iter().map(distribution).collect())
}

/// Returns the values of a column of a sample.
pub(crate) fn column_values(sample: &RowSample<f64>, j: usize) -> Vec<f64> {
    sample.x.iter().skip(j).step_by(sample.d.max(1)).copied().collect()
}
