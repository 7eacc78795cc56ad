//! The values of category and time columns, collected before the job that reads them.

use super::Run;
use super::Stages;
use crate::Result;
use kstore::budget::Term;
use kstore::encoding::Search;
use kstore::pass::lanes::{self, Lane};
use kstore::{
    Fold, Label, Merge, Plan, Reading, Selected, Statistics, StatisticsFold, TILE_TEXT, TableRows, TextLimit, Workers,
};
use std::sync::Arc;

/// Number of copies of a tile's texts that exist at the same time: the tile, the rows to write,
/// these rows as Arrow arrays, and in the sink a page or batch and its encoded form.
#[doc(hidden)]
pub const COPIES: usize = 6;

/// Bytes up to which the first inspection of the columns needs no memory plan, so that `plan` can
/// report the memory of a fit for any budget.
const SMALL_LOOK: usize = 16 << 20;

/// Remedy if the values do not fit in memory.
const REMEDY: &str = "set `categories` none, or exclude text columns";

impl Run<'_> {
    /// Returns the selection with the values of its category and time columns, so that its rows can
    /// be read.
    ///
    /// A job calls this itself. A caller that needs the feature names earlier can call it first,
    /// and the job then skips it. Columns with too many values are dropped with a warning.
    /// *Cost*: one pass over these columns, no pass without such columns.
    ///
    /// # Errors
    /// A forbidden missing value, with its position; [`kstore::Error::TooManyValues`];
    /// errors of reading and of the memory plan.
    #[doc(hidden)]
    pub fn coded(&self, selected: &Selected) -> Result<Selected> {
        Ok(self.coded_together(&[selected])?.pop().unwrap_or_else(|| selected.clone()))
    }

    /// Finds the values of several tables with the same columns together, as [`Run::coded`] does
    /// for one table: a value in any of the tables becomes a feature.
    ///
    /// # Errors
    /// The errors of [`Run::coded`].
    #[doc(hidden)]
    pub fn coded_together(&self, tables: &[&Selected]) -> Result<Vec<Selected>> {
        let new = tables.iter().find(|table| table.is_new());
        new.and_then(|table| table.table().note()).into_iter().for_each(|note| self.stages().warn(note));
        // a comparison of several tables keeps numeric columns numeric in all of them
        let tables: Vec<Selected> = match tables {
            [one] if one.is_new() => {
                let bytes = one.look_bytes();
                if bytes > SMALL_LOOK {
                    let plan = Plan::process("the first look at the columns", self.bytes(), 1, one.table().held());
                    plan.term("decoder", bytes, "choose fewer columns with `features`").check()?;
                }
                let (looked, note) = one.looked();
                note.into_iter().for_each(|note| self.stages().warn(note.to_string()));
                vec![looked]
            }
            several => several.iter().map(|table| (*table).clone()).collect(),
        };
        // values of categories and times
        let valued = self.finished(tables, Selected::search)?;
        let learned = valued.into_iter().map(|table| self.learned(table)).collect::<Result<Vec<_>>>()?;
        // words of texts, and weights of entries of sparse rows
        self.finished(learned, Selected::entry_search)
    }

    /// Applies the combined result of a search in all selections to each of them, if there is
    /// anything to search for.
    fn finished<S: Search>(&self, tables: Vec<Selected>, search: fn(&Selected) -> Option<S>) -> Result<Vec<Selected>> {
        let Some(searches) = tables.iter().map(search).collect::<Option<Vec<S>>>() else { return Ok(tables) };
        let mut all: Option<S::State> = None;
        for (search, table) in searches.iter().zip(&tables) {
            let later = self.found(search, table)?;
            match &mut all {
                Some(all) => all.merge(&later),
                None => all = Some(later),
            }
        }
        let Some(all) = all else { return Ok(tables) };
        let mut selected = Vec::with_capacity(searches.len());
        for search in &searches {
            let (found, notes) = search.finish(&all)?;
            if selected.is_empty() {
                notes.iter().for_each(|note| self.stages().warn(note.to_string()));
            }
            selected.push(found);
        }
        Ok(selected)
    }

    /// Runs a search over the rows of a table.
    ///
    /// # Errors
    /// The errors of [`Run::coded`].
    #[doc(hidden)]
    pub fn found<S: Search>(&self, search: &S, table: &Selected) -> Result<S::State> {
        self.scanned(table, search.state_bytes(), search, &|texts| search.rows(texts))
    }

    /// Returns the selection with the target encoding of its columns with many values.
    fn learned(&self, selected: Selected) -> Result<Selected> {
        if selected.effect_columns().is_empty() {
            return Ok(selected);
        }
        let classes = selected.class_name().is_some().then(|| self.by_frequency(&selected)).transpose()?;
        let Some(search) = selected.effects(classes.map(Arc::new)) else { return Ok(selected) };
        let (selected, notes) = search.finish(&self.found(&search, &selected)?)?;
        notes.iter().for_each(|note| self.stages().warn(note.to_string()));
        Ok(selected)
    }

    /// Returns the classes of a selection, the most frequent first.
    fn by_frequency(&self, selected: &Selected) -> Result<Vec<Label>> {
        let Some(labels) = selected.labels() else { return Ok(Vec::new()) };
        let counts = self.statistics(&labels)?.classes;
        let mut classes: Vec<Label> = counts.sorted().into_iter().map(|(label, _)| label).collect();
        classes.sort_by(|a, b| counts.weight(b).total_cmp(&counts.weight(a)));
        Ok(classes)
    }

    /// Returns the statistics of the rows of a table, in a separate pass.
    #[doc(hidden)]
    pub fn statistics(&self, table: &Selected) -> Result<Statistics> {
        let fold = StatisticsFold::new(table.shape());
        self.scanned(table, fold.state_bytes(), &fold, &|texts| table.rows(Reading { texts, ..Reading::default() }))
    }

    /// Runs a fold over rows whose texts are limited, in a separate pass.
    fn scanned<F: Fold<f64, Error = kstore::Error>>(
        &self,
        table: &Selected,
        bytes: usize,
        fold: &F,
        rows: &dyn Fn(TextLimit) -> kstore::Result<TableRows<f64>>,
    ) -> Result<F::State>
    where
        F::State: Merge,
    {
        let source = rows(TextLimit::default())?;
        let shared = vec![Term::new("texts", COPIES * TILE_TEXT, REMEDY)];
        let lane = Lane { tile: lanes::TILE, name: "values of categories", bytes, shared };
        let lanes = lanes::lanes("the search for categories", &source, &lane, self.bytes(), self.workers().threads())?;
        let source = rows(TextLimit::new(self.bytes(), lanes.spare, COPIES))?;
        let (watch, workers) = (self.watched(), Workers::sequential());
        let stage = watch.stage("categories", table.known_rows());
        Ok(lanes::scan(lanes.count, &workers, &*stage).fold(&source, fold)?.0)
    }
}
