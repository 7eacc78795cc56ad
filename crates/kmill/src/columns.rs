//! Reports on the columns of a table: which columns are features, which columns are left out and
//! why, and which columns are probably features by mistake.

use crate::progress::Progress;
use kreport::fit::Verbosity;
use kreport::inspect::{Identifier, IdentifierProbe};
use kreport::table::{Align, AlignedTable, format_count, join_with_commas};
use kstore::encoding::{Categories, ColumnEncoding, TimeFeatures};
use kstore::{Missing, ReadSettings, RowBuf, RowSource, SelectedTable, Selection, schema::Kind};
use std::collections::HashSet;

/// Number of rows that are checked for row numbers and IDs. A column of measurements very likely
/// repeats a value in this many rows.
const CHECKED_ROWS: usize = 10_000;

/// Maximum number of columns that are checked.
const MAX_CHECKED_COLUMNS: usize = 64;

/// Maximum number of names that a list shows before "…".
const MAX_LISTED_NAMES: usize = 6;

/// Prints which of the requested columns are features and which are not: in one line, or as a table
/// in verbose mode. Warns of features that look like row numbers or IDs.
pub(crate) fn report_columns(
    selection: &Selection,
    requested: &SelectedTable,
    selected: &SelectedTable,
    progress: &Progress,
) {
    let features = selected.feature_columns();
    let excluded = excluded_columns(selection, requested, selected, &features);
    let feature_labels = describe_features(selected, &features);
    if progress.verbosity() == Verbosity::Verbose {
        column_table(&feature_labels, &excluded).to_string().lines().for_each(|line| progress.detail(line));
    } else if progress.verbosity() != Verbosity::Quiet {
        let feature_count = selected.sparse_shape().map_or(selected.shape().input_count, |shape| shape.column_count);
        progress.note(&summary_line(&feature_labels, feature_count, &excluded));
    }
    for (name, identifier) in identifiers(selection, selected, &features) {
        let advice = "if it does not help to predict the target, exclude it with";
        progress.warn(format!("column {name} {identifier}; {advice} --features '*,!{name}'"));
    }
}

/// Returns the names of the feature columns. The name of a non-numeric column is followed by its
/// encoding: `city (12 values)`.
fn describe_features(selected: &SelectedTable, features: &[String]) -> Vec<String> {
    let Some(encoding) = selected.encoding() else { return features.to_vec() };
    let labels = encoding.columns().iter().map(|column| match (&column.encoding, column.has_indicator) {
        (ColumnEncoding::Number, false) => column.name.clone(),
        _ => format!("{} ({column})", column.name),
    });
    labels.collect()
}

/// Returns the columns that are not features, each with the reason.
fn excluded_columns(
    selection: &Selection,
    requested: &SelectedTable,
    selected: &SelectedTable,
    features: &[String],
) -> Vec<(String, &'static str)> {
    let requested_names = requested.feature_columns();
    let schema = selected.table().schema();
    let feature_names: HashSet<&str> = features.iter().map(String::as_str).collect();
    let targets = selected.target_names();
    let is_role = |role: &Option<String>, name: &str| role.as_deref() == Some(name);
    let blank_columns = selected.blank_columns();
    let condition = selection.filter.as_ref().map(|condition| condition.column.clone());
    let why = |index: usize, name: &str| match &schema.columns[index].kind {
        _ if targets.iter().any(|target| target == name) || selected.class_column() == Some(name) => "target",
        _ if is_role(&selection.weight, name) => "row weights",
        _ if is_role(&selection.group, name) => "folds or groups",
        _ if is_role(&condition, name) => "row condition",
        _ if blank_columns.iter().any(|blank| blank == name) => "no value in any row",
        _ if schema.row_id_columns.contains(&index) => "the index of a pandas table",
        _ if schema.label_column == Some(index) => "the label of the rows",
        _ if name == kstore::source::QUERY_COLUMN && selection.features.is_empty() => {
            "query groups; --features includes it"
        }
        Kind::Text
            if requested_names.iter().any(|requested_name| requested_name == name)
                && selection.categories != Categories::None =>
        {
            match selection.times {
                TimeFeatures::None => "text of dates (--times none), or with too many values",
                _ => "text with too many values",
            }
        }
        Kind::Int { .. } | Kind::Float { .. }
            if requested_names.iter().any(|requested_name| requested_name == name) =>
        {
            "row counter"
        }
        Kind::Text if selection.features.is_empty() => "text; --categories all includes it",
        Kind::Time(_) if selection.times == TimeFeatures::None => "time; --times cyclic includes it",
        Kind::Binary => "binary",
        Kind::Other(_) => "unsupported type",
        _ => "excluded by --features",
    };
    let columns = schema.columns.iter().enumerate().filter(|(_, column)| !feature_names.contains(column.name.as_str()));
    columns.map(|(index, column)| (column.name.clone(), why(index, &column.name))).collect()
}

/// Formats the columns in a line:
/// `features: x0 … x16 (17); left out: fold (folds or groups), y (target)`.
fn summary_line(features: &[String], feature_count: usize, excluded: &[(String, &'static str)]) -> String {
    let mut seen = HashSet::new();
    let group_by_reason = |why: &&'static str| {
        let names: Vec<&String> = excluded.iter().filter(|(_, other)| other == why).map(|(name, _)| name).collect();
        format!("{} ({why})", format_names(&names))
    };
    let excluded_text =
        join_with_commas(excluded.iter().map(|(_, why)| why).filter(|why| seen.insert(**why)).map(group_by_reason));
    let excluded_text = if excluded_text.is_empty() { excluded_text } else { format!("; left out: {excluded_text}") };
    let names: Vec<&String> = features.iter().collect();
    format!("features: {} ({}){excluded_text}", format_names(&names), format_count(feature_count as u64))
}

/// Formats names separated by commas. Writes consecutively numbered names as `x0 … x16`, and cuts a
/// long list after the first names.
fn format_names(names: &[&String]) -> String {
    let runs = names.chunk_by(|a, b| is_next_name(a, b)).flat_map(|run| match run {
        [first, .., last] if run.len() > 2 => vec![format!("{first} … {last}")],
        short_run => short_run.iter().map(ToString::to_string).collect(),
    });
    let runs: Vec<String> = runs.collect();
    let ellipsis = if runs.len() > MAX_LISTED_NAMES { ", …" } else { "" };
    format!("{}{ellipsis}", runs[..runs.len().min(MAX_LISTED_NAMES)].join(", "))
}

/// Returns true if two names are numbered consecutively, such as `x9` and `x10`.
pub(crate) fn is_next_name(name: &str, next: &str) -> bool {
    let split = |name: &str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        name[stem.len()..].parse::<u64>().ok().map(|number| (stem.to_string(), number))
    };
    match (split(name), split(next)) {
        (Some((a, i)), Some((b, j))) => a == b && i + 1 == j,
        _ => false,
    }
}

fn column_table(features: &[String], excluded: &[(String, &'static str)]) -> AlignedTable {
    let mut table = AlignedTable::new([("column", Align::Left), ("is", Align::Left)]);
    let names: Vec<&String> = features.iter().collect();
    for run in names.chunk_by(|a, b| is_next_name(a, b)) {
        table.push_row([format_names(run), "feature".to_string()]);
    }
    excluded.iter().for_each(|(name, why)| table.push_row([name.as_str(), why]));
    table
}

/// Returns the features that were not requested by name and look like row numbers or IDs.
fn identifiers(selection: &Selection, selected: &SelectedTable, features: &[String]) -> Vec<(String, Identifier)> {
    let schema = selected.table().schema();
    let index_by_name = schema.index_by_name();
    let is_integer = |name: &String| {
        index_by_name.get(name.as_str()).is_some_and(|index| matches!(schema.columns[*index].kind, Kind::Int { .. }))
    };
    let names: Vec<String> = features
        .iter()
        .filter(|name| is_integer(name) && !selection.features.contains(name))
        .take(MAX_CHECKED_COLUMNS)
        .cloned()
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    // ignore errors here: the fit will report them
    let probes = probe_columns(selected, &names).unwrap_or_default();
    let with_identifier = |(name, probe): (String, IdentifierProbe)| Some((name.clone(), probe.identifier(&name)?));
    names.into_iter().zip(probes).filter_map(with_identifier).collect()
}

fn probe_columns(selected: &SelectedTable, names: &[String]) -> kstore::Result<Vec<IdentifierProbe>> {
    let range = selected.range();
    let row_range = range.start..range.end.min(range.start + CHECKED_ROWS as u64);
    let selection =
        Selection { features: names.to_vec(), rows: Some(row_range), missing: Missing::Mean, ..Selection::default() };
    // do not count the bytes read here as bytes read by the fit
    let source = selected.table().select(&selection)?.with_new_byte_counter().rows::<f64>(ReadSettings::default())?;
    let (mut cursor, mut buffer) = (source.open(source.range())?, RowBuf::new(1024));
    let mut probes = vec![IdentifierProbe::new(false, CHECKED_ROWS); names.len()];
    while cursor.next(&mut buffer)? {
        for (row_number, row) in buffer.row_numbers.iter().zip(buffer.x.chunks_exact(names.len())) {
            probes.iter_mut().zip(row).for_each(|(probe, value)| probe.add(*row_number, *value));
        }
        if probes.iter().all(|probe| !probe.can_identify()) {
            break;
        }
    }
    Ok(probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_line_has_the_features_and_what_was_left_out() {
        let others = [("city", "text"), ("note", "text"), ("y", "target")].map(|(name, why)| (name.to_string(), why));
        let text = summary_line(&names(&["x0", "x1", "x2", "x3", "fold"]), 5, &others);
        assert_eq!(text, "features: x0 … x3, fold (5); left out: city, note (text), y (target)");
        let many: Vec<String> = (0..40).map(|i| format!("c{}", 2 * i)).collect();
        assert_eq!(summary_line(&many, 40, &[]), "features: c0, c2, c4, c6, c8, c10, … (40)");
    }
}
