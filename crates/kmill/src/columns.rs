//! Reports on the columns of a table: which are features, which are left out and why, and which are
//! probably features by mistake.

use crate::progress::Progress;
use kreport::fit::Verbosity;
use kreport::table::{Align, Table as Listing, count, joined};
use kstore::encoding::{Categories, Code, Times};
use kstore::{Missing, Reading, RowBuf, RowSource, Selected, Selection, schema::Kind};
use std::collections::HashSet;

/// Number of rows that are checked for row numbers and IDs: enough that measurements repeat.
const LOOKED_AT: usize = 10_000;

/// Minimum number of values from which a column is judged to hold row numbers or IDs.
const FEWEST: usize = 50;

/// Maximum number of columns that are checked.
const MOST: usize = 64;

/// Number of columns that a list shows before "…".
const NAMED: usize = 6;

/// Common names of columns that hold fold or split numbers.
const PARTS: [&str; 6] = ["fold", "folds", "split", "partition", "cv", "cv_fold"];

/// Prints in one line, or as a table in verbose mode, which of the requested columns are features
/// and which are not. Warns of features that look like row numbers or IDs.
pub(crate) fn tell(selection: &Selection, (asked, selected): (&Selected, &Selected), progress: &Progress) {
    let features = selected.feature_columns();
    let others = left_out(selection, (asked, selected), &features);
    let told = told(selected, &features);
    if progress.verbosity() == Verbosity::Verbose {
        table(&told, &others).to_string().lines().for_each(|line| progress.detail(line));
    } else if progress.verbosity() != Verbosity::Quiet {
        let count_of = selected.sparse().map_or(selected.shape().features, |shape| shape.width);
        progress.note(&sentence(&told, count_of, &others));
    }
    for (name, why) in suspects(selection, selected, &features) {
        let rest = "if it does not help to predict the target, exclude it with";
        progress.warn(format!("column {name} {why}; {rest} --features '*,!{name}'"));
    }
}

/// Returns the columns of the features; a column that is not a plain number is followed by its
/// encoding: `city (12 values)`.
fn told(selected: &Selected, features: &[String]) -> Vec<String> {
    let Some(encoding) = selected.encoding() else { return features.to_vec() };
    let told = encoding.columns().iter().map(|column| match (&column.code, column.missing) {
        (Code::Number, false) => column.name.clone(),
        _ => format!("{} ({column})", column.name),
    });
    told.collect()
}

/// Returns the columns that are not features, with the reason.
fn left_out(
    selection: &Selection,
    (asked, selected): (&Selected, &Selected),
    features: &[String],
) -> Vec<(String, &'static str)> {
    let asked = asked.feature_columns();
    let schema = selected.table().schema();
    let taken: HashSet<&str> = features.iter().map(String::as_str).collect();
    let targets = selected.target_names();
    let named = |role: &Option<String>, name: &str| role.as_deref() == Some(name);
    let blank = selected.blank_columns();
    let condition = selection.filter.as_ref().map(|condition| condition.column.clone());
    let why = |at: usize, name: &str| match &schema.columns[at].kind {
        _ if targets.iter().any(|target| target == name) || selected.class_name() == Some(name) => "target",
        _ if named(&selection.weight, name) => "row weights",
        _ if named(&selection.group, name) => "folds or groups",
        _ if named(&condition, name) => "row condition",
        _ if blank.iter().any(|blank| blank == name) => "no value in any row",
        _ if schema.row_labels.contains(&at) => "the index of a pandas table",
        _ if schema.label == Some(at) => "the label of the rows",
        _ if name == kstore::source::QUERY && selection.features.is_empty() => "query groups; --features includes it",
        Kind::Text if asked.iter().any(|asked| asked == name) && selection.categories != Categories::None => {
            "text with too many values"
        }
        Kind::Int { .. } | Kind::Float { .. } if asked.iter().any(|asked| asked == name) => "row counter",
        Kind::Text if selection.features.is_empty() => "text; --categories all includes it",
        Kind::Time(_) if selection.times == Times::None => "time; --times cyclic includes it",
        Kind::Binary => "binary",
        Kind::Other(_) => "unsupported type",
        _ => "excluded by --features",
    };
    let columns = schema.columns.iter().enumerate().filter(|(_, column)| !taken.contains(column.name.as_str()));
    columns.map(|(at, column)| (column.name.clone(), why(at, &column.name))).collect()
}

/// Formats the columns in a line:
/// `features: x0 … x16 (17); left out: fold (folds or groups), y (target)`.
fn sentence(features: &[String], count_of: usize, others: &[(String, &'static str)]) -> String {
    let mut seen = HashSet::new();
    let because = |why: &&'static str| {
        let names: Vec<&String> = others.iter().filter(|(_, other)| other == why).map(|(name, _)| name).collect();
        format!("{} ({why})", listed(&names))
    };
    let out = joined(others.iter().map(|(_, why)| why).filter(|why| seen.insert(**why)).map(because));
    let out = if out.is_empty() { out } else { format!("; left out: {out}") };
    let names: Vec<&String> = features.iter().collect();
    format!("features: {} ({}){out}", listed(&names), count(count_of as u64))
}

/// Formats names separated by commas: consecutive ones as `x0 … x16`, and only the first of many.
fn listed(names: &[&String]) -> String {
    let runs = names.chunk_by(|a, b| follows(a, b)).flat_map(|run| match run {
        [first, .., last] if run.len() > 2 => vec![format!("{first} … {last}")],
        few => few.iter().map(ToString::to_string).collect(),
    });
    let runs: Vec<String> = runs.collect();
    let more = if runs.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", runs[..runs.len().min(NAMED)].join(", "))
}

/// Returns true if two names are numbered consecutively, such as `x9` and `x10`.
pub(crate) fn follows(name: &str, next: &str) -> bool {
    let split = |name: &str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        name[stem.len()..].parse::<u64>().ok().map(|number| (stem.to_string(), number))
    };
    match (split(name), split(next)) {
        (Some((a, i)), Some((b, j))) => a == b && i + 1 == j,
        _ => false,
    }
}

fn table(features: &[String], others: &[(String, &'static str)]) -> Listing {
    let mut table = Listing::new([("column", Align::Left), ("is", Align::Left)]);
    let names: Vec<&String> = features.iter().collect();
    for run in names.chunk_by(|a, b| follows(a, b)) {
        table.row([listed(run), "feature".to_string()]);
    }
    others.iter().for_each(|(name, why)| table.row([name.as_str(), why]));
    table
}

/// Returns features that were not requested by name and look like row numbers or IDs, each with the
/// reason.
fn suspects(selection: &Selection, selected: &Selected, features: &[String]) -> Vec<(String, String)> {
    let schema = selected.table().schema();
    let places = schema.places();
    let whole = |name: &String| {
        places.get(name.as_str()).is_some_and(|at| matches!(schema.columns[*at].kind, Kind::Int { .. }))
    };
    let names: Vec<String> =
        features.iter().filter(|name| whole(name) && !selection.features.contains(name)).take(MOST).cloned().collect();
    if names.is_empty() {
        return Vec::new();
    }
    // errors are ignored here: the fit will report them
    let looks = looks(selected, &names).unwrap_or_default();
    let odd = |(name, look): (String, Look)| look.odd(&name).map(|odd| (name, odd));
    names.into_iter().zip(looks).filter_map(odd).collect()
}

#[derive(Clone, Debug, Default)]
struct Look {
    /// Distinct values so far, until the first duplicate.
    different: HashSet<u64>,
    repeats: bool,
    /// True as long as every value is the previous one plus 1.
    counts: bool,
    last: Option<f64>,
    values: usize,
}

impl Look {
    fn see(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.counts = self.last.is_none_or(|last| self.counts && value == last + 1.0);
        self.last = Some(value);
        self.values += 1;
        if !self.repeats && !self.different.insert(value.to_bits()) {
            (self.repeats, self.different) = (true, HashSet::new());
        }
    }

    fn odd(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        if PARTS.contains(&name.as_str()) {
            return Some("looks like fold numbers".to_string());
        }
        if self.values < FEWEST || self.repeats {
            return None;
        }
        let values = count(self.values as u64);
        Some(match self.counts {
            true => "looks like a row counter".to_string(),
            false => format!("looks like an identifier: its first {values} values are all different"),
        })
    }
}

fn looks(selected: &Selected, names: &[String]) -> kstore::Result<Vec<Look>> {
    let range = selected.range();
    let rows = range.start..range.end.min(range.start + LOOKED_AT as u64);
    let selection =
        Selection { features: names.to_vec(), rows: Some(rows), missing: Missing::Mean, ..Selection::default() };
    // rows read here do not count as part of the fit
    let source = selected.table().select(&selection)?.counting_apart().rows::<f64>(Reading::default())?;
    let (mut cursor, mut buffer) = (source.open(source.range())?, RowBuf::new(1024));
    let mut looks = vec![Look::default(); names.len()];
    while cursor.next(&mut buffer)? {
        for row in buffer.x.chunks_exact(names.len()) {
            looks.iter_mut().zip(row).for_each(|(look, value)| look.see(*value));
        }
        if looks.iter().all(|look| look.repeats) {
            break;
        }
    }
    Ok(looks)
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
        let text = sentence(&names(&["x0", "x1", "x2", "x3", "fold"]), 5, &others);
        assert_eq!(text, "features: x0 … x3, fold (5); left out: city, note (text), y (target)");
        let many: Vec<String> = (0..40).map(|i| format!("c{}", 2 * i)).collect();
        assert_eq!(sentence(&many, 40, &[]), "features: c0, c2, c4, c6, c8, c10, … (40)");
    }

    #[test]
    fn numbers_and_names_of_rows_are_odd_and_measurements_are_not() {
        let look = |values: &dyn Fn(u64) -> f64| {
            let mut look = Look::default();
            (0..1000).for_each(|i| look.see(values(i)));
            look
        };
        assert_eq!(look(&|i| i as f64 + 7.0).odd("a").unwrap(), "looks like a row counter");
        let identifier = look(&|i| (i * 7919 % 100_003) as f64).odd("a").unwrap();
        assert!(identifier.contains("first 1,000 values are all different"), "{identifier}");
        assert_eq!(look(&|i| (i % 999) as f64).odd("a"), None);
        assert_eq!(look(&|i| (i % 10) as f64).odd("fold").unwrap(), "looks like fold numbers");
        assert_eq!(look(&|_| f64::NAN).odd("a"), None);
    }
}
