//! Candidate rows for landmark selection, in memory.

use crate::{Result, prepare::reduction_fn::ReductionFn};
use kapprox::Real;
use kapprox::landmark::RowSample;
use kstore::{Label, LabelCodes, MemoryRows, Merge, Pass, RowBlock, RowSource, TableShape};
use std::{ops::Range, sync::Arc};

/// Returns the sample as a table in row order, so that passes over it do not depend on the order of
/// the draw.
///
/// # Errors
/// The sample has no columns.
pub fn sort_by_row_number<T: Real>(sample: RowSample<T>) -> Result<MemoryRows<T>> {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_unstable_by_key(|i| sample.row_numbers[*i]);
    let d = sample.d;
    let x = order.iter().flat_map(|i| &sample.x[i * d..(i + 1) * d]).copied().collect();
    let row_numbers = order.iter().map(|i| sample.row_numbers[*i]).collect();
    Ok(MemoryRows::new(x, d)?.with_row_numbers(row_numbers)?)
}

/// Adds targets, weights, classes and groups to the candidates, in one pass over the table.
///
/// # Errors
/// The rows cannot be read; a candidate is not a row of the table.
pub fn with_targets<T: Real>(
    candidates: MemoryRows<T>,
    source: &dyn RowSource<T>,
    pass: Pass<'_>,
) -> Result<MemoryRows<T>> {
    let row_numbers: Vec<u64> = (0..candidates.len()).map(|position| candidates.row_number(position)).collect();
    let reduction = ReductionFn::new(|columns: &mut TargetColumns, block: &RowBlock<'_, T>| {
        for i in (0..block.len()).filter(|i| row_numbers.binary_search(&block.row_numbers[*i]).is_ok()) {
            columns.y.extend_from_slice(&block.y[i * block.t..(i + 1) * block.t]);
            columns.weights.extend(block.weight(i));
            columns.codes.add(block, i..i + 1);
        }
        Ok(())
    });
    // not journaled: the result is in memory only, and a resumed run repeats the pass
    let columns = Pass { journal: None, ..pass }.reduce(source, &reduction)?.0;
    let TableShape { target_count: targets, has_weights, .. } = source.shape();
    let weights = has_weights.then_some(columns.weights);
    columns.codes.attach_to(candidates.with_targets(columns.y, targets)?.with_weights(weights)?)
}

#[derive(Default)]
struct TargetColumns {
    y: Vec<f64>,
    weights: Vec<f64>,
    codes: LabelCodeColumns,
}

/// Codes of the labels of some rows. Without rows, or if the table has no such column, there are no
/// labels.
#[derive(Default)]
struct CodeColumn {
    codes: Vec<u32>,
    labels: Option<Arc<Vec<Label>>>,
}

impl CodeColumn {
    fn add(&mut self, label_codes: Option<LabelCodes<'_>>, row_range: Range<usize>) {
        let Some(LabelCodes { codes, labels }) = label_codes else { return };
        self.codes.extend_from_slice(&codes[row_range]);
        self.labels.get_or_insert_with(|| Arc::new(labels.to_vec()));
    }

    fn append(&mut self, later: &Self) {
        self.codes.extend_from_slice(&later.codes);
        self.labels = self.labels.take().or_else(|| later.labels.clone());
    }
}

/// Codes of the classes and of the groups.
#[derive(Default)]
pub(crate) struct LabelCodeColumns {
    classes: CodeColumn,
    groups: CodeColumn,
}

impl LabelCodeColumns {
    pub(crate) fn add<T>(&mut self, block: &RowBlock<'_, T>, row_range: Range<usize>) {
        self.classes.add(block.classes, row_range.clone());
        self.groups.add(block.groups, row_range);
    }

    pub(crate) fn attach_to<T: Real>(self, mut rows: MemoryRows<T>) -> Result<MemoryRows<T>> {
        if let CodeColumn { codes, labels: Some(labels) } = self.classes {
            rows = rows.with_classes(codes, labels)?;
        }
        if let CodeColumn { codes, labels: Some(labels) } = self.groups {
            rows = rows.with_groups(codes, labels)?;
        }
        Ok(rows)
    }
}

impl Merge for TargetColumns {
    fn merge(&mut self, later: &Self) {
        self.y.extend_from_slice(&later.y);
        self.weights.extend_from_slice(&later.weights);
        self.codes.classes.append(&later.codes.classes);
        self.codes.groups.append(&later.codes.groups);
    }
}
