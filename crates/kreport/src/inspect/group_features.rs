//! Features that may name groups of rows, although the test rows are not whole groups.

use super::findings::{Finding, Topic, identifier};
use super::row_order::row_order;
use super::sample::{ColumnSample, TableSample, draw_sample};
use crate::machine::quote_for_shell;
use ksolve::job::{Run, StageObserver};
use kstore::{SelectedTable, Selection, TestSpec};

/// The sample of rows takes at most the memory budget divided by this number.
const MAX_SAMPLE_FRACTION: usize = 8;

/// Warns once if the test rows of a fit are random or the last rows, and a feature looks like the
/// number or the name of groups of consecutive rows, such as persons. The error on such test rows
/// says little about new groups, and the values of the feature mean nothing there.
///
/// Does not warn of features that are named in the selection, or if the selection has a column of
/// groups. *Cost*: reads up to 20,000 rows, in blocks.
pub fn warn_of_group_features(selection: &Selection, selected: &SelectedTable, run: &Run<'_>) {
    let Some(spec) = selection.part.as_ref().map(|part| &part.test_rows().spec) else { return };
    let features = selected.feature_columns();
    let has_named_groups =
        selected.group_column().is_some_and(|group| !features.iter().any(|feature| feature == group));
    if !matches!(spec, TestSpec::Random { .. } | TestSpec::Last { .. })
        || has_named_groups
        || selection.lags.is_some()
        || selected.sparse_shape().is_some()
    {
        return;
    }
    // ignore errors here: the fit will report them
    let sample = draw_sample(selected.table(), run.memory_budget() / MAX_SAMPLE_FRACTION).unwrap_or_default();
    let is_unnamed_feature = |name: &str| {
        features.iter().any(|feature| feature == name) && !selection.features.iter().any(|named| named == name)
    };
    if let Some(warning) = warning(spec, &sample, &is_unnamed_feature) {
        run.stage_recorder().warn(warning);
    }
}

/// Returns the warning of the feature with the most groups; `None` if there is none.
fn warning(spec: &TestSpec, sample: &TableSample, is_feature: &dyn Fn(&str) -> bool) -> Option<String> {
    let is_candidate = |column: &&ColumnSample| identifier(column, sample).is_none();
    let columns: Vec<&ColumnSample> = sample.columns.iter().filter(is_candidate).collect();
    let is_group_feature =
        |finding: &Finding| finding.topic == Topic::Groups && finding.columns.iter().any(|name| is_feature(name));
    let finding = row_order(&columns, None, sample).into_iter().find(is_group_feature)?;
    let name = finding.columns.first()?;
    let test = |fraction: &kstore::Fraction| quote_for_shell(&format!("groups:{fraction}:{name}"));
    let advice = match spec {
        TestSpec::Random { strata: Some(column), .. } | TestSpec::Last { column: Some(column), .. }
            if column == name =>
        {
            return None;
        }
        TestSpec::Random { fraction, .. } => format!(
            "it may name groups of rows, and random test rows come from the groups of the training rows; if new rows come from new \
             groups, use `test` {}, which also excludes the column from the features",
            test(fraction)
        ),
        TestSpec::Last { fraction, .. } => format!(
            "it may name groups of rows, and it is a feature; if new rows come from new groups, exclude it with `features` {}, or use \
             `test` {}",
            quote_for_shell(&format!("*,!{name}")),
            test(fraction)
        ),
        TestSpec::Groups { .. } | TestSpec::Where(_) => return None,
    };
    Some(format!("column {}: {advice}", finding.finding))
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{column, noise, sample};
    use super::*;

    #[test]
    fn a_feature_of_groups_is_named_with_its_option() {
        let rows = sample([
            column("b", |i| noise(3 * i)),
            column("subject", |i| (i / 20 * 7 % 20) as f64),
            column("fold", |i| (i / 80) as f64),
        ]);
        let warning_of = |spec: &str, features: &[&str]| {
            warning(&TestSpec::parse(spec).unwrap(), &rows, &|name| features.contains(&name))
        };
        let all = ["b", "subject", "fold"];
        let random = warning_of("25%", &all).unwrap();
        let beginning = "column subject: 95.24 % of neighbouring rows share one of 20 values: it may";
        assert!(random.starts_with(beginning), "{random}");
        assert!(random.contains("use `test` groups:25%:subject,"), "{random}");
        let last = warning_of("last:15%:b", &all).unwrap();
        assert!(last.ends_with("with `features` '*,!subject', or use `test` groups:15%:subject"), "{last}");
        for (spec, features) in [
            ("25%", &all[..1]),
            ("25%:subject", &all[..]),
            ("last:20%:subject", &all[..]),
            ("groups:20%:b", &all[..]),
            ("where b > 0", &all[..]),
        ] {
            assert_eq!(warning_of(spec, features), None, "{spec}");
        }
    }
}
