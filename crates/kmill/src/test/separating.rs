//! Columns that separate two samples completely, such as a copy of the column of `--by`.

use ksolve::statistic::ColumnDifference;
use kstore::SelectedTable;
use kstore::display::escape_line;

/// Minimum distance of the distribution functions, or of the levels, of a column that separates the
/// samples.
const MIN_DISTANCE: f64 = 0.99;
/// Maximum corrected p-value of such a column: of few rows, any column may separate the samples.
const MAX_P_VALUE: f64 = 0.01;

/// Returns a warning about the columns that separate the samples almost completely; `None` without
/// such columns. `requested` are the names and patterns of `--features`.
pub(super) fn warning(tests: &[ColumnDifference], sample: &SelectedTable, requested: &[String]) -> Option<String> {
    let is_separating =
        |test: &&ColumnDifference| test.distance >= MIN_DISTANCE && test.corrected_p_value <= MAX_P_VALUE;
    let mut columns: Vec<String> = Vec::new();
    for test in tests.iter().filter(is_separating) {
        let name = column_of(&test.column, sample);
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    if columns.is_empty() {
        return None;
    }
    let names = columns.iter().map(|name| escape_line(name).into_owned()).collect::<Vec<_>>();
    let (noun, verb) = if names.len() == 1 { ("column", "separates") } else { ("columns", "separate") };
    let requested = if requested.is_empty() { "*".to_string() } else { requested.join(",") };
    Some(format!(
        "{noun} {} {verb} the samples almost completely, which decides the effect and the p-values of mmd. If the samples were divided \
         by the same fact (a time, an identifier, a copy of the column of --by), test the other columns: --features '{requested},!{}'",
        names.join(", "),
        names.join(",!")
    ))
}

/// Returns the column from which a feature is computed.
fn column_of(feature: &str, sample: &SelectedTable) -> String {
    let has_feature = |column: &String| {
        sample.features_of(std::slice::from_ref(column)).is_ok_and(|features| features.iter().any(|f| f == feature))
    };
    sample.feature_columns().into_iter().find(has_feature).unwrap_or_else(|| feature.to_string())
}
