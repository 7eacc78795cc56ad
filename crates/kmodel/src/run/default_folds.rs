//! Chooses folds whose validation rows differ from the training rows as the test rows do.

use super::Run;
use super::test_rows::ORDER_SAMPLE_ROWS;
use crate::Result;
use crate::folds::FoldSpec;
use kstore::{Lags, Part, Selection, Table, TestSpec};

/// Default number of folds.
const FOLD_COUNT: usize = 5;

/// How the rows that a model will predict differ from the rows that it learns.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowShift<'a> {
    /// The test rows are later rows, in the order of a column or of the table.
    LaterRows(Option<&'a str>),
    /// The test rows are whole groups, the values of a column.
    NewGroups(&'a str),
    /// Features are past values, so that the next rows are predicted.
    PastValues(Option<&'a str>),
}

impl<'a> RowShift<'a> {
    /// Returns the difference that the test rows and the lags of a selection imply; `None` for
    /// random test rows and for a condition.
    pub fn of(selection: &'a Selection) -> Option<Self> {
        match selection.part.as_ref().map(|part: &Part| &part.test_rows().spec) {
            Some(TestSpec::Last { column, .. }) => Some(Self::LaterRows(column.as_deref())),
            Some(TestSpec::Groups { column, .. }) => Some(Self::NewGroups(column)),
            _ => selection.lags.as_ref().map(|lags: &Lags| Self::PastValues(lags.order.as_deref())),
        }
    }

    /// Returns folds that hold out such rows.
    ///
    /// Later rows get contiguous folds and not forward folds. The first forward folds learn from
    /// few rows, so that their mean error exceeds the error on the test rows by more than the error
    /// of contiguous folds falls below it, and they choose too strong a regularisation
    /// (`docs/tuning.md` has the measurement). All solvers support contiguous folds.
    pub fn folds(self, count: usize) -> FoldSpec {
        match self {
            Self::NewGroups(column) => FoldSpec::Groups(count, column.to_string()),
            Self::LaterRows(Some(column)) | Self::PastValues(Some(column)) => {
                FoldSpec::ColumnBlocks(count, column.to_string())
            }
            Self::LaterRows(None) | Self::PastValues(None) => FoldSpec::Blocks(count),
        }
    }

    /// Returns true if such folds hold out rows of this kind.
    pub fn is_matched_by(self, folds: &FoldSpec) -> bool {
        match self {
            Self::NewGroups(column) => {
                matches!(folds, FoldSpec::Groups(_, name) | FoldSpec::Column(name) if name == column)
            }
            _ => matches!(folds, FoldSpec::Blocks(_) | FoldSpec::ColumnBlocks(..) | FoldSpec::Forward { .. }),
        }
    }
}

impl std::fmt::Display for RowShift<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LaterRows(_) => "the test rows are later rows",
            Self::NewGroups(_) => "the test rows are whole groups",
            Self::PastValues(_) => "features are past values",
        })
    }
}

impl Run<'_> {
    /// Returns folds that hold out rows like the test rows of a selection: whole groups of the same
    /// column, or contiguous blocks in the same order. Returns `None` if random folds hold out such
    /// rows, or if the column cannot define folds.
    ///
    /// *Cost*: one pass over the column. *Bytes*: the labels of the column.
    ///
    /// # Errors
    /// An interruption; the fit reports other errors of reading.
    #[doc(hidden)]
    pub fn folds_like_test_rows(&self, table: &Table, selection: &Selection) -> Result<Option<FoldSpec>> {
        let Some(shift) = RowShift::of(selection) else { return Ok(None) };
        let Some(column) = shift.folds(FOLD_COUNT).column().map(str::to_string) else {
            return Ok(Some(shift.folds(FOLD_COUNT)));
        };
        let selected_columns = |group: Option<String>, keep: Vec<String>| Selection {
            targets: selection.targets.clone(),
            class_target: selection.class_target,
            group,
            keep,
            rows: selection.rows.clone(),
            filter: selection.filter.clone(),
            missing: selection.missing,
            missing_target: selection.missing_target,
            part: selection.part.clone(),
            without_features: true,
            ..Selection::default()
        };
        if let Some(label_count) =
            unless_interrupted(self.label_count(table, &selected_columns(Some(column.clone()), Vec::new())))?
        {
            return Ok((label_count > 1).then(|| shift.folds(FOLD_COUNT.min(label_count))));
        }
        // too many values, or fractions: blocks of rows are in the same order if the table is
        let is_in_order = match shift {
            RowShift::NewGroups(_) => false,
            _ => unless_interrupted(self.is_in_order(table, &selected_columns(None, vec![column])))?.unwrap_or(false),
        };
        Ok(is_in_order.then_some(FoldSpec::Blocks(FOLD_COUNT)))
    }

    fn label_count(&self, table: &Table, selection: &Selection) -> Result<usize> {
        let rows = table.select(selection)?;
        let statistics = self.statistics_in("folds", &rows)?;
        statistics
            .check_label_counts(rows.class_column().unwrap_or_default(), rows.group_column().unwrap_or_default())?;
        Ok(statistics.groups.sorted_counts().len())
    }

    /// Returns true if the values of the kept column do not fall from row to row of a sample.
    fn is_in_order(&self, table: &Table, selection: &Selection) -> Result<bool> {
        let rows = table.select(selection)?;
        let row_count = rows.range().end - rows.range().start;
        let values = self.sampled_values(&rows, (ORDER_SAMPLE_ROWS as f64 / row_count.max(1) as f64).min(1.0), 0)?;
        Ok(values.is_sorted())
    }
}

/// Returns the value, or `None` for any error except an interruption.
fn unless_interrupted<V>(result: Result<V>) -> Result<Option<V>> {
    match result {
        Err(error) if error.is_interrupted() => Err(error),
        result => Ok(result.ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::{TestRows, TestRule};
    use std::sync::Arc;

    fn selection(spec: &str, lags: Option<Lags>) -> Selection {
        let rule = TestRule::Where(kstore::Condition::parse("day >= 3").unwrap());
        let test_rows = TestRows { spec: TestSpec::parse(spec).unwrap(), seed: 0, rule };
        Selection { part: Some(Part::Training(Arc::new(test_rows))), lags, ..Selection::default() }
    }

    #[test]
    fn folds_hold_out_rows_like_the_test_rows() {
        let lags = || Some(Lags { order: Some("hour".to_string()), ..Lags::default() });
        for (spec, lags, folds) in [
            ("20%", None, None),
            ("where day >= 3", None, None),
            ("last:20%:day", lags(), Some("blocks:5:day")),
            ("last:20%", None, Some("blocks:5")),
            ("groups:20%:subject", lags(), Some("groups:5:subject")),
            ("20%", lags(), Some("blocks:5:hour")),
            ("20%", Some(Lags::default()), Some("blocks:5")),
        ] {
            let selection = selection(spec, lags);
            let shift = RowShift::of(&selection);
            assert_eq!(shift.map(|shift| shift.folds(5).to_string()).as_deref(), folds, "{spec}");
            assert!(shift.is_none_or(|shift| shift.is_matched_by(&shift.folds(5))), "{spec}");
            assert!(shift.is_none_or(|shift| !shift.is_matched_by(&FoldSpec::DEFAULT)), "{spec}");
        }
        let selection = selection("groups:20%:subject", None);
        let is_matched =
            |folds: &str| RowShift::of(&selection).unwrap().is_matched_by(&FoldSpec::parse(folds).unwrap());
        assert!(is_matched("column:subject") && !is_matched("groups:5:day") && !is_matched("blocks:5"));
    }
}
