//! The state of every estimator: a fit and its resources.

use super::inputs::{Inputs, Rows};
use super::predictions::Predictions;
use super::trained::{ResourceLimits, Trained};
use crate::job::Fit;
use crate::{Error, Result, Task};
use kstore::encoding::TimeFeatures;
use kstore::{Categories, Selection, Table};

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) fit: Fit,
    pub(super) resources: ResourceLimits,
}

/// Selects all columns. Columns in memory are numeric, even if their values look like dates or
/// codes.
fn full_selection(is_in_memory: bool, targets: Vec<String>) -> Selection {
    match is_in_memory {
        true => Selection { targets, categories: Categories::None, times: TimeFeatures::None, ..Selection::default() },
        false => Selection { targets, ..Selection::default() },
    }
}

impl Setup {
    pub(super) fn new(fit: Fit) -> Self {
        Self { fit, resources: ResourceLimits::default() }
    }

    pub(super) fn map_fit(self, change: impl FnOnce(Fit) -> Fit) -> Self {
        Self { fit: change(self.fit), ..self }
    }

    /// Fits rows with a target. `attach` makes the table of the rows with the target, and returns
    /// the table and the names of its target columns.
    pub(super) fn fit<X: Inputs + ?Sized, P: Predictions>(
        &self,
        x: &X,
        attach: impl FnOnce(Rows) -> Result<(Table, Vec<String>)>,
    ) -> Result<Trained<P>> {
        let rows = x.rows()?;
        let is_in_memory = rows.count().is_some();
        let (table, targets) = attach(rows)?;
        let selected = table.select(&self.fit.complete_selection(full_selection(is_in_memory, targets))?)?;
        let fitted = self.fit.run(&selected, &self.resources.build_run())?;
        Trained::new(fitted, self.resources)
    }

    /// Fits rows with numeric targets; `attach` is the function of [`Self::fit`].
    ///
    /// # Errors
    /// A fit whose `task` is not regression: its scores are not predictions of the target.
    pub(super) fn fit_numbers<X: Inputs + ?Sized, P: Predictions>(
        &self,
        x: &X,
        attach: impl FnOnce(Rows) -> Result<(Table, Vec<String>)>,
    ) -> Result<Trained<P>> {
        match self.fit.task()? {
            Task::Regression => self.fit(x, attach),
            task => {
                let why = "this estimator predicts numbers; for labels use Fit, or a classifier such as Svm";
                Err(Error::option("task", task, why))
            }
        }
    }

    /// Fits rows without a target.
    pub(super) fn fit_rows<X: Inputs + ?Sized, P: Predictions>(&self, x: &X) -> Result<Trained<P>> {
        self.fit(x, |rows| Ok((rows.table(Vec::new())?, Vec::new())))
    }
}
