//! Names of rows: the values of a column that identifies them, instead of their numbers.

use crate::inspect::{Identifier, IdentifierProbe};
use ksolve::job::FitReport;
use kstore::schema::Kind;
use kstore::{Digest, KeptColumn, KeptValues, ReadSettings, Result, RowBuf, RowSource, SelectedTable, Selection};
use std::collections::BTreeMap;

/// Number of leading rows that decide whether a column identifies the rows.
const CHECKED_ROWS: u64 = 10_000;

/// Maximum number of columns that are checked.
const MAX_CHECKED_COLUMNS: usize = 32;

/// Number of rows that are read at once.
const TILE_ROWS: usize = 1024;

/// Adds the names of the typical rows to the clusters of a fit, if the table has a column that
/// identifies its rows: texts or integers that nearly all differ, and that are not features. Texts
/// are preferred to integers, and integers to row counters.
///
/// The names are in the report and not in the model, because they may be names of persons. *Cost*:
/// the first 10,000 rows, and the typical rows.
///
/// # Errors
/// Errors of reading.
pub fn name_typical_rows(report: &mut FitReport, selected: &SelectedTable) -> Result<()> {
    let mut row_numbers: Vec<u64> = report.clusters.iter().flat_map(|cluster| &cluster.typical_rows).copied().collect();
    row_numbers.sort_unstable();
    row_numbers.dedup();
    if row_numbers.is_empty() {
        return Ok(());
    }
    let Some(column) = identifying_column(selected)? else { return Ok(()) };
    let names = values_of_rows(selected, &column, &row_numbers)?;
    for cluster in &mut report.clusters {
        let names_of_cluster = cluster.typical_rows.iter().map(|row| names.get(row).cloned().unwrap_or_default());
        cluster.typical_names = names_of_cluster.collect();
    }
    report.row_name_column = Some(column);
    Ok(())
}

/// Returns the column whose values identify the rows; `None` if there is none.
fn identifying_column(selected: &SelectedTable) -> Result<Option<String>> {
    let (table, features) = (selected.table(), selected.feature_columns());
    let is_candidate = |name: &String, kind: &Kind| {
        matches!(kind, Kind::Text | Kind::Int { .. })
            && !features.contains(name)
            && selected.group_column() != Some(name)
    };
    let columns = table.schema().columns.iter().filter(|column| is_candidate(&column.name, &column.kind));
    let columns: Vec<(String, bool)> =
        columns.take(MAX_CHECKED_COLUMNS).map(|column| (column.name.clone(), column.kind == Kind::Text)).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let rows = selected.range().start..selected.range().end.min(selected.range().start + CHECKED_ROWS);
    let row_count = (rows.end - rows.start) as usize;
    let mut probes: Vec<IdentifierProbe> =
        columns.iter().map(|(_, is_text)| IdentifierProbe::new(*is_text, row_count)).collect();
    let keep = columns.iter().map(|(name, _)| name.clone()).collect();
    read_columns(selected, keep, &[rows], |row, kept_columns, i| {
        for (probe, column) in probes.iter_mut().zip(kept_columns).filter(|(_, column)| !column.is_null(i)) {
            let value = match column.values() {
                // 52 bits of the digest are an exact number
                KeptValues::Text(texts) => (Digest::u64_of(texts.text(i).as_bytes()) >> 12) as f64,
                values => values.number(i).unwrap_or(f64::NAN),
            };
            probe.add(row, value);
        }
    })?;
    let identifiers = probes.iter().zip(&columns).filter_map(|(probe, (name, is_text))| {
        let order = match probe.identifier(name)? {
            Identifier::Folds => return None,
            Identifier::Key(_) if *is_text => 0,
            Identifier::Key(_) => 1,
            Identifier::RowCounter => 2,
        };
        Some((order, name))
    });
    Ok(identifiers.min_by_key(|(order, _)| *order).map(|(_, name)| name.clone()))
}

/// Returns the values of a column in some rows, as texts. The row numbers ascend.
fn values_of_rows(selected: &SelectedTable, column: &str, row_numbers: &[u64]) -> Result<BTreeMap<u64, String>> {
    let ranges: Vec<_> = row_numbers.iter().map(|row| *row..row + 1).collect();
    let mut names = BTreeMap::new();
    read_columns(selected, vec![column.to_string()], &ranges, |row, kept_columns, i| {
        let column = kept_columns.first().filter(|column| !column.is_null(i));
        let name = column.and_then(|column| match column.values() {
            KeptValues::Text(texts) => Some(texts.text(i).to_string()),
            values => values.integer(i).map(|integer| integer.to_string()),
        });
        names.insert(row, name.unwrap_or_default());
    })?;
    Ok(names)
}

/// Calls `visit` with the number of each row in the ranges, the kept columns of its tile, and its
/// position in the tile.
fn read_columns(
    selected: &SelectedTable,
    keep: Vec<String>,
    ranges: &[std::ops::Range<u64>],
    mut visit: impl FnMut(u64, &[KeptColumn], usize),
) -> Result<()> {
    let kept = selected.table().select(&Selection { keep, without_features: true, ..Selection::default() })?;
    let source = kept.rows::<f64>(ReadSettings::default())?;
    let mut buf = RowBuf::new(TILE_ROWS);
    for range in ranges {
        let mut cursor = source.open(range.clone())?;
        while cursor.next(&mut buf)? {
            for (i, row) in buf.row_numbers.iter().enumerate().filter(|(_, row)| range.contains(*row)) {
                visit(*row, &buf.kept_columns, i);
            }
        }
    }
    Ok(())
}
