//! A square matrix of distances or kernel values, read from a table and checked.

use super::MatrixKind;
use crate::request::StageObserver;
use crate::{Error, Result};
use kstore::{RowBuf, RowSource, SelectedTable, TableRows};

/// A symmetric matrix of kernel values or distances.
pub(super) struct SquareMatrix {
    pub(super) kind: MatrixKind,
    /// Number of rows, n.
    pub(super) order: usize,
    /// Entries, n x n row-major. The diagonal of distances is exactly 0.
    entries: Vec<f64>,
}

impl SquareMatrix {
    /// Returns the entry in row i and column j as it was read.
    pub(super) fn entry(&self, i: usize, j: usize) -> f64 {
        self.entries[i * self.order + j]
    }

    /// Returns the kernel value or squared distance of row i and column j.
    pub(super) fn value(&self, i: usize, j: usize) -> f64 {
        let entry = self.entry(i, j);
        if self.kind == MatrixKind::Distances { entry * entry } else { entry }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.entries.iter().all(|entry| *entry == 0.0)
    }
}

/// Reads the matrix, row-major, and checks that it is square, complete and symmetric, and that
/// distances are at least 0. Errors name `option`, the option with the columns of the matrix.
pub(super) fn read_matrix(
    source: &TableRows<f64>,
    selected: &SelectedTable,
    kind: MatrixKind,
    option: &'static str,
    stage_observer: &dyn StageObserver,
) -> Result<SquareMatrix> {
    let n = selected.shape().input_count;
    let mut values = Vec::with_capacity(n * n);
    let observer = stage_observer.start_stage("the matrix", selected.row_count_if_known());
    let (mut cursor, mut tile) = (source.open(source.range())?, RowBuf::new(READ_TILE_ROWS));
    while values.len() <= n * n && cursor.next(&mut tile)? {
        values.extend_from_slice(&tile.x);
        observer.advance(tile.row_numbers.len() as u64);
        if observer.should_stop() {
            return Err(kstore::Error::Interrupted.into());
        }
    }
    if values.len() != n * n {
        let row_count_text =
            if values.len() > n * n { format!("more than {n}") } else { (values.len() / n.max(1)).to_string() };
        let remedy = match option {
            "landmarks" => {
                "pass a row of distances for each column, in the order of the columns; `features` selects the columns"
            }
            _ => "select its columns, in the order of the rows; for distances to a few objects only, use `landmarks`",
        };
        let why = format!("the matrix has {n} columns and {row_count_text} rows, but must be square; {remedy}");
        return Err(Error::option(option, format!("{n} columns"), why));
    }
    let matrix = SquareMatrix { kind, order: n, entries: values };
    check_entries(&matrix, &selected.feature_names()).map_err(|(column, why)| Error::option(option, column, why))?;
    Ok(with_zero_diagonal(matrix))
}

/// Returns the name of a column with an invalid entry, and what is wrong.
fn check_entries(matrix: &SquareMatrix, names: &[String]) -> Result<(), (String, String)> {
    let &SquareMatrix { kind, order: n, ref entries } = matrix;
    let max_abs_entry = entries.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let is_distance = kind != MatrixKind::Kernel;
    let is_invalid = |value: &f64| !value.is_finite() || is_distance && *value < -SYMMETRY_TOLERANCE * max_abs_entry;
    if let Some(index) = entries.iter().position(is_invalid) {
        let (i, j, value) = (index / n, index % n, entries[index]);
        let why = match value.is_finite() {
            true => format!(
                "row {i} has {value} for object {j}, but distances are at least 0; correct it, or use `of` kernel if the numbers are kernel values"
            ),
            false => format!(
                "row {i} has no value for object {j}, and a mean cannot replace it; complete the matrix, or leave the object out"
            ),
        };
        return Err((names[j].clone(), why));
    }
    let largest_value = if kind == MatrixKind::Distances { max_abs_entry * max_abs_entry } else { max_abs_entry };
    if !(largest_value * n as f64).is_finite() {
        let why = format!("the largest number, {max_abs_entry:e}, is too large; divide all numbers by a constant");
        return Err((names[0].clone(), why));
    }
    let is_asymmetric = |(i, j): &(usize, usize)| {
        (matrix.entry(*i, *j) - matrix.entry(*j, *i)).abs() > SYMMETRY_TOLERANCE * max_abs_entry
    };
    if let Some((i, j)) = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).find(is_asymmetric) {
        let (entry_ij, entry_ji) = (matrix.entry(i, j), matrix.entry(j, i));
        let why = format!(
            "row {i} has {entry_ij} for object {j}, but row {j} has {entry_ji} for object {i}; expected a symmetric matrix, with rows in the order of the columns: for distances that depend on the direction, use the mean of both"
        );
        return Err((names[j].clone(), why));
    }
    let is_apart_from_itself =
        |i: &usize| is_distance && matrix.entry(*i, *i).abs() > SYMMETRY_TOLERANCE * max_abs_entry;
    if let Some(i) = (0..n).find(is_apart_from_itself) {
        let why = format!(
            "row {i} has {} for object {i}, but the distance of an object from itself is 0; put the rows in the order of the columns, or use `of` kernel if the numbers are kernel values",
            matrix.entry(i, i)
        );
        return Err((names[i].clone(), why));
    }
    Ok(())
}

/// Sets the distance of each object from itself to exactly 0, and negative rounding errors to 0.
fn with_zero_diagonal(mut matrix: SquareMatrix) -> SquareMatrix {
    if matrix.kind != MatrixKind::Kernel {
        matrix.entries.iter_mut().for_each(|entry| *entry = entry.max(0.0));
        matrix.entries.iter_mut().step_by(matrix.order + 1).for_each(|entry| *entry = 0.0);
    }
    matrix
}

/// Number of rows that are read at once.
pub(super) const READ_TILE_ROWS: usize = 256;

/// Largest accepted difference of the entries (i, j) and (j, i), relative to the largest entry. It
/// allows for the rounding of numbers that were written in f32.
const SYMMETRY_TOLERANCE: f64 = 1e-6;
