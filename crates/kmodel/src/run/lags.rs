//! Computes the lags of a table, before a job reads its rows.

use super::Run;
use super::StageObserver;
use super::categories::TEXT_COPIES;
use crate::Result;
use kstore::budget::MemoryTerm;
use kstore::pass::lanes::{self, LaneMemory, TILE_ROWS};
use kstore::{FutureRows, LagPass, Lags, MemoryPlan, Selection, TILE_TEXT_BYTES, Table, TextLimit, Workers};

const REMEDY: &str = "name fewer `lags`";

impl Run<'_> {
    /// Returns the table with the columns of `lags`, unless it has them already.
    ///
    /// *Cost*: one pass over the columns that the lags depend on. *Bytes*: for each series, as many
    /// values of each column as its largest lag; on disk, 8 bytes for each new value.
    ///
    /// # Errors
    /// The errors of [`LagPass::new`] and [`LagPass::push`]; errors of reading.
    #[doc(hidden)]
    pub fn with_lags(&self, table: Table, lags: Option<&Lags>) -> Result<Table> {
        match lags.filter(|lags| table.lags() != Some(lags)) {
            Some(lags) => Ok(self.compute_lags(&table, lags, &[])?.0),
            None => Ok(table),
        }
    }

    /// Returns the table with the lags of a selection, as [`Run::with_lags`] does.
    ///
    /// # Errors
    /// Before the pass, if sparse rows are features next to the lags; the errors of
    /// [`Run::with_lags`].
    #[doc(hidden)]
    pub fn with_lags_of(&self, table: Table, selection: &Selection) -> Result<Table> {
        table.check_lagged_features(selection)?;
        self.with_lags(table, selection.lags.as_ref())
    }

    /// Returns the table with the columns of `lags`, and the rows of a forecast of `targets`.
    pub(crate) fn compute_lags(&self, table: &Table, lags: &Lags, targets: &[String]) -> Result<(Table, FutureRows)> {
        let mut lag_pass = LagPass::new(table, lags, targets)?;
        let lane_memory = LaneMemory {
            tile_rows: TILE_ROWS,
            name: "new columns of a tile",
            bytes: lag_pass.block_bytes(TILE_ROWS),
            shared_terms: vec![MemoryTerm::new("texts", TEXT_COPIES * TILE_TEXT_BYTES, REMEDY)],
        };
        let budget = self.memory_budget();
        let source = lag_pass.rows(TextLimit::default())?;
        let spare_bytes =
            lanes::fitting_lanes("the computation of lags", &source, &lane_memory, budget, 1)?.spare_bytes;
        // the texts of a row do not use the memory of the series
        let source = lag_pass.rows(TextLimit::new(budget, 0, TEXT_COPIES))?;
        let plan = MemoryPlan::new("the computation of lags", budget).term(
            "the reading of rows",
            budget - spare_bytes,
            REMEDY,
        );
        let (recorder, workers) = (self.stage_recorder(), Workers::sequential());
        let observer = recorder.start_stage("lags", Some(table.stored_rows()));
        lanes::default_pass(1, &workers, &*observer).visit(&source, |block| lag_pass.push(block, &plan))?;
        Ok(lag_pass.finish(&plan))
    }
}
