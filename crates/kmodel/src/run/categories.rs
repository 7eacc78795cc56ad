//! The values of category and time columns, collected before the job that reads these columns.

use super::Run;
use super::StageObserver;
use crate::Result;
use crate::growth::{OutsideCounts, RangeReduction};
use kstore::budget::MemoryTerm;
use kstore::pass::lanes::{self, LaneMemory};
use kstore::search::Search;
use kstore::sparse::SparseShape;
use kstore::{
    Label, MemoryPlan, Merge, ReadSettings, Reduction, SelectedTable, Statistics, StatisticsReduction, TILE_TEXT_BYTES,
    TableRows, TextLimit, Workers,
};
use std::sync::Arc;

/// Number of copies of a tile's texts that exist at the same time: the tile, the rows to write,
/// these rows as Arrow arrays, and in the sink a page or batch and its encoded form.
#[doc(hidden)]
pub const TEXT_COPIES: usize = 6;

/// If the first inspection of the columns takes at most this many bytes, it needs no memory plan.
/// `plan` can then report the memory of a fit for any budget.
const UNPLANNED_INSPECTION_BYTES: usize = 16 << 20;

/// Remedy if the values do not fit in memory.
const MEMORY_REMEDY: &str = "set `categories` none, or exclude text columns";

/// Name of the passes that find the values of columns.
const CATEGORIES_STAGE: &str = "categories";

/// Name of the pass that compares rows with the ranges of a fit.
const RANGES_STAGE: &str = "ranges";

impl Run<'_> {
    /// Returns the selection with the values of its category and time columns, so that its rows can
    /// be read.
    ///
    /// A job calls this itself. A caller that needs the feature names earlier can call it first,
    /// and the job then skips it. Columns with too many values are dropped with a warning. *Cost*:
    /// one pass over these columns, no pass without such columns.
    ///
    /// # Errors
    /// A forbidden missing value, with its position; [`kstore::Error::TooManyValues`];
    /// errors of reading and of the memory plan.
    #[doc(hidden)]
    pub fn resolve_categories(&self, selected: &SelectedTable) -> Result<SelectedTable> {
        Ok(self.resolve_categories_together(&[selected])?.pop().unwrap_or_else(|| selected.clone()))
    }

    /// Finds the values of several tables with the same columns together, as
    /// [`Run::resolve_categories`] does for one table: a value in any of the tables becomes a
    /// feature.
    ///
    /// # Errors
    /// The errors of [`Run::resolve_categories`].
    #[doc(hidden)]
    pub fn resolve_categories_together(&self, tables: &[&SelectedTable]) -> Result<Vec<SelectedTable>> {
        let uninspected = tables.iter().find(|table| table.is_uninspected());
        uninspected
            .and_then(|table| table.table().note())
            .into_iter()
            .for_each(|note| self.stage_observer().warn(note));
        // only a single table is inspected: if several tables are compared, a numeric column stays
        // numeric in all of them
        let tables: Vec<SelectedTable> = match tables {
            [single_table] if single_table.is_uninspected() => {
                let bytes = single_table.inspection_bytes();
                if bytes > UNPLANNED_INSPECTION_BYTES {
                    let plan = MemoryPlan::for_process(
                        "the first look at the columns",
                        self.memory_budget(),
                        1,
                        single_table.table().metadata_bytes(),
                    );
                    plan.term("columns", bytes, "choose fewer columns with `features`").check()?;
                }
                let (inspected_table, note) = single_table.inspect_columns();
                note.into_iter().for_each(|note| self.stage_observer().warn(note.to_string()));
                vec![inspected_table]
            }
            several_tables => several_tables.iter().map(|table| (*table).clone()).collect(),
        };
        // first finds the values of category and time columns
        let resolved_tables = self.apply_search(tables, SelectedTable::column_search)?;
        let encoded_tables =
            resolved_tables.into_iter().map(|table| self.with_target_encoding(table)).collect::<Result<Vec<_>>>()?;
        // then finds the words of texts, and the weights of the entries of sparse rows
        let tables = self.apply_search(encoded_tables, SelectedTable::entry_search)?;
        // one table can have longer sparse rows, or more columns, than another
        let shapes = tables.iter().map(SelectedTable::sparse_shape).collect::<Option<Vec<_>>>().unwrap_or_default();
        match shapes.into_iter().reduce(SparseShape::union) {
            Some(shape) => {
                Ok(tables.iter().map(|table| table.with_sparse_capacity(shape)).collect::<kstore::Result<_>>()?)
            }
            None => Ok(tables),
        }
    }

    /// Searches all selections, combines the results, and applies the combined result to each
    /// selection. `search` returns the search of a selection, or `None` if there is nothing to
    /// search for; the selections are then unchanged.
    fn apply_search<S: Search>(
        &self,
        tables: Vec<SelectedTable>,
        search: fn(&SelectedTable) -> Option<S>,
    ) -> Result<Vec<SelectedTable>> {
        let Some(searches) = tables.iter().map(search).collect::<Option<Vec<S>>>() else { return Ok(tables) };
        let mut merged_state: Option<S::State> = None;
        for (search, table) in searches.iter().zip(&tables) {
            let state = self.run_search(search, table)?;
            match &mut merged_state {
                Some(earlier) => earlier.merge(&state),
                None => merged_state = Some(state),
            }
        }
        let Some(merged_state) = merged_state else { return Ok(tables) };
        let mut resolved = Vec::with_capacity(searches.len());
        for search in &searches {
            let (table, notes) = search.finish(&merged_state)?;
            if resolved.is_empty() {
                notes.iter().for_each(|note| self.stage_observer().warn(note.to_string()));
            }
            resolved.push(table);
        }
        Ok(resolved)
    }

    /// Runs a search over the rows of a table.
    ///
    /// # Errors
    /// The errors of [`Run::resolve_categories`].
    #[doc(hidden)]
    pub fn run_search<S: Search>(&self, search: &S, table: &SelectedTable) -> Result<S::State> {
        self.scan_rows(CATEGORIES_STAGE, table, search.state_bytes(), search, &|text_limit| search.rows(text_limit))
    }

    /// Returns the selection with the target encoding of its columns with many values.
    fn with_target_encoding(&self, selected: SelectedTable) -> Result<SelectedTable> {
        if selected.effect_columns().is_empty() {
            return Ok(selected);
        }
        let classes = selected.class_column().is_some().then(|| self.classes_by_frequency(&selected)).transpose()?;
        let Some(search) = selected.effect_search(classes.map(Arc::new)) else { return Ok(selected) };
        let (selected, notes) = search.finish(&self.run_search(&search, &selected)?)?;
        notes.iter().for_each(|note| self.stage_observer().warn(note.to_string()));
        Ok(selected)
    }

    /// Returns the classes of a selection, the most frequent first.
    fn classes_by_frequency(&self, selected: &SelectedTable) -> Result<Vec<Label>> {
        let Some(labels) = selected.labels_only() else { return Ok(Vec::new()) };
        let counts = self.statistics(&labels)?.classes;
        let mut classes: Vec<Label> = counts.sorted_counts().into_iter().map(|(label, _)| label).collect();
        classes.sort_by(|a, b| counts.weight(b).total_cmp(&counts.weight(a)));
        Ok(classes)
    }

    /// Returns the statistics of the rows of a table, in a separate pass.
    ///
    /// # Errors
    /// The rows cannot be read; the pass exceeds the memory budget.
    #[doc(hidden)]
    pub fn statistics(&self, table: &SelectedTable) -> Result<Statistics> {
        self.statistics_in(CATEGORIES_STAGE, table)
    }

    /// Returns the statistics of the rows of a table, and the numbers of values outside `ranges` in
    /// stored rows from `first_new_row` on, in a separate pass.
    ///
    /// # Errors
    /// The errors of [`Run::statistics`].
    #[doc(hidden)]
    pub fn statistics_beside_ranges(
        &self,
        table: &SelectedTable,
        ranges: &[[f64; 2]],
        first_new_row: u64,
    ) -> Result<(Statistics, OutsideCounts)> {
        let reduction = RangeReduction::new(table.shape(), ranges, first_new_row);
        self.scan_rows(RANGES_STAGE, table, reduction.state_bytes(), &reduction, &|text_limit| {
            table.rows(ReadSettings { text_limit, ..ReadSettings::default() })
        })
    }

    /// Returns the statistics of the rows of a table, in a pass that is reported as `stage`.
    pub(crate) fn statistics_in(&self, stage: &str, table: &SelectedTable) -> Result<Statistics> {
        let reduction = StatisticsReduction::new(table.shape());
        self.scan_rows(stage, table, reduction.state_bytes(), &reduction, &|text_limit| {
            table.rows(ReadSettings { text_limit, ..ReadSettings::default() })
        })
    }

    /// Runs `reduction` in a separate pass. `open_rows` opens the rows with a limit on the length
    /// of their texts.
    pub(crate) fn scan_rows<F: Reduction<f64, Error = kstore::Error>>(
        &self,
        stage: &str,
        table: &SelectedTable,
        state_bytes: usize,
        reduction: &F,
        open_rows: &dyn Fn(TextLimit) -> kstore::Result<TableRows<f64>>,
    ) -> Result<F::State>
    where
        F::State: Merge,
    {
        let source = open_rows(TextLimit::default())?;
        let shared_terms = vec![MemoryTerm::new("texts", TEXT_COPIES * TILE_TEXT_BYTES, MEMORY_REMEDY)];
        let lane_memory =
            LaneMemory { tile_rows: lanes::TILE_ROWS, name: "values of categories", bytes: state_bytes, shared_terms };
        let lane_plan = lanes::fitting_lanes(
            "the search for categories",
            &source,
            &lane_memory,
            self.memory_budget(),
            self.workers().threads(),
        )?;
        let source = open_rows(TextLimit::new(self.memory_budget(), lane_plan.spare_bytes, TEXT_COPIES))?;
        let (recorder, workers) = (self.stage_recorder(), Workers::sequential());
        let observer = recorder.start_stage(stage, table.row_count_if_known());
        Ok(lanes::default_pass(lane_plan.count, &workers, &*observer).reduce(&source, reduction)?.0)
    }
}
