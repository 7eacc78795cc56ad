//! Default folds of a fit whose test rows are later rows or whole groups.

use super::{Fit, Run};
use crate::Result;
use crate::solver::parameter::{FOLDS, GROUP};
use kstore::{Selection, Table};

impl Fit {
    /// Returns the fit with folds that hold out rows like the test rows of a selection, or like the
    /// rows that are predicted from past values, and the selection with the column of these folds.
    /// Returns both unchanged if folds or a group column are set, or if random folds hold out such
    /// rows. A search always compares on folds (`is_search`); a fit may have nothing to compare.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`] and of [`Run::folds_like_test_rows`].
    #[doc(hidden)]
    pub fn with_default_folds(
        self,
        table: &Table,
        selection: Selection,
        is_search: bool,
        run: &Run<'_>,
    ) -> Result<(Self, Selection)> {
        let settings = self.settings()?;
        let is_open = !self.has_option(FOLDS.name) && settings.column(&GROUP).is_none();
        let reads_folds = is_search && self.solver_family.reads(&FOLDS) || self.uses_default_folds()?;
        let folds = if is_open && reads_folds { run.folds_like_test_rows(table, &selection)? } else { None };
        Ok(match folds {
            Some(folds) => {
                let group = folds.column().map(str::to_string);
                (self.set(FOLDS.name, folds), Selection { group, ..selection })
            }
            None => (self, selection),
        })
    }
}
