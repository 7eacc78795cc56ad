//! The most unusual rows of a table, the strangest first.

use super::carried::{self, Carried};
use super::reasons::{self, Reason};
use super::writer::{Begun, PredictionWriter};
use super::{Extras, Inner, Predictor, Scores, decision::ColumnGroup, typed::Typed};
use crate::{Error, Result, Task, linalg::strips::lock, model::either, run::Run};
use kapprox::Real;
use kstore::sink::{self, OutputColumn, OutputKind};
use kstore::{KeptColumn, Reading, Selected, Workers, budget::Term};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::BinaryHeap, path::Path};

/// The smallest of the values that go by, so many at most.
#[derive(Debug)]
pub(super) struct Smallest<V> {
    most: usize,
    kept: BinaryHeap<V>,
}

impl<V: Ord> Smallest<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new() }
    }

    pub(super) fn push(&mut self, value: V) {
        if self.kept.len() < self.most {
            self.kept.push(value);
        } else if let Some(mut largest) = self.kept.peek_mut().filter(|largest| value < **largest) {
            *largest = value;
        }
    }

    pub(super) fn sorted(self) -> Vec<V> {
        self.kept.into_sorted_vec()
    }
}

/// A number whose order is that of [`f64::total_cmp`]; below, the way back.
fn ordered(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn score_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered })
}

/// Most rows whose reasons are looked for: whoever writes more does not read them.
const REASONED: usize = 1000;

/// Bytes of a number, and of the words around it, in a reason.
const WORDS: usize = 40;

/// A strange row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Strange {
    /// The number of the row in the table.
    pub row: u64,
    /// Its score, the lower the stranger; of components the squared distance from their span, the larger the stranger.
    pub score: f64,
    /// What makes it strange, the strongest first; of the first thousand rows.
    pub reasons: Vec<Reason>,
}

impl Predictor {
    /// Writes the `top` strangest rows to a file, the strangest first: the columns that `kept` selects, the number of the row in the table as
    /// `row`, `score` or `novelty`, and, in formats that hold text, `reasons`. Returns them. Fewer where the table has fewer.
    ///
    /// *Cost*: one pass, the kept columns of those rows, and their reasons ([`Reason`]). *Bytes*: those of [`Predictor::scores`], and the rows
    /// that are written.
    ///
    /// # Errors
    /// A model that tells strange rows from others in no way; the errors of [`Predictor::write`].
    pub fn write_top(
        &self,
        selected: &Selected,
        kept: Option<&Selected>,
        top: usize,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<Vec<Strange>> {
        let components = self.card().task == Task::Components && self.quadratic().is_some();
        if self.card().task != Task::Novelty && !components {
            let why = "only models of oneclass and mean, and of kpca with `novelty`, rank rows by how unusual they are; leave it out";
            return Err(Error::option("top", top, why));
        }
        if self.card().sparse().is_some() {
            return Err(Error::option("top", top, "sparse rows have no columns to be strange; leave it out"));
        }
        let longest = self.card().features.iter().map(|name| name.len() + WORDS).max().unwrap_or(0);
        let reasons = ColumnGroup::Reasons(reasons::REASONS * longest);
        let text = sink::holds(path, &OutputColumn::new("reasons", OutputKind::Text)).unwrap_or(false);
        let own = if components { vec![ColumnGroup::Novelty] } else { self.parts(Extras::default()) };
        let parts = std::iter::once(ColumnGroup::Row).chain(own).chain(text.then_some(reasons)).collect();
        let extras = Extras { novelty: components, ..Extras::default() };
        let number = top.min(selected.known_rows().map_or(usize::MAX, |rows| rows as usize));
        let row = 5 * size_of::<(u64, u64)>() + kept.map_or(0, Selected::kept_bytes_per_row);
        // the reasons, as they are found and in words
        let row = row + reasons::REASONS * 2 * longest + 8 * self.features();
        let held = |_: &PredictionWriter| {
            Term::new("the rows of the lowest scores", number.saturating_mul(row), "lower `top`")
        };
        let Begun { mut out, terms, texts } = self.begin((selected, kept), (parts, extras), path, run, held)?;
        let (mut lowest, sign) = (Smallest::new(top), if components { -1.0 } else { 1.0 });
        self.scores(selected, extras, terms, run, |scores| {
            let each = if components { &scores.quadratic } else { &scores.scores };
            each.iter().zip(&scores.rows).for_each(|(score, row)| lowest.push((ordered(sign * score), *row)));
            Ok(())
        })?;
        let ranked = lowest.sorted();
        let mut rows: Vec<u64> = ranked.iter().map(|(_, row)| *row).collect();
        rows.sort_unstable();
        let source = kept.map(|kept| carried::source(kept, texts)).transpose()?;
        let carried = source.map_or(Ok(Vec::new()), |source| all(&mut Carried::new(&source)?, &rows))?;
        let first: Vec<u64> = ranked.iter().take(REASONED).map(|(_, row)| *row).collect();
        let mut reasons = either!(Inner: &self.0, typed => reasons_of(typed, selected, &first, run.workers()))?;
        reasons.resize(ranked.len(), Vec::new());
        let strange = ranked.iter().zip(reasons);
        let strange =
            strange.map(|((score, row), reasons)| Strange { row: *row, score: sign * score_of(*score), reasons });
        let strange: Vec<Strange> = strange.collect();
        for some in strange.chunks(carried::TILE) {
            let places: Vec<usize> = some.iter().map(|row| rows.partition_point(|other| *other < row.row)).collect();
            let (values, rows): (Vec<f64>, _) = some.iter().map(|row| (row.score, row.row)).unzip();
            let reasons = some.iter().map(|row| reasons::told(&row.reasons)).collect();
            let scores = match components {
                true => Scores { quadratic: values, rows, reasons, ..Scores::default() },
                false => Scores { scores: values, rows, reasons, ..Scores::default() },
            };
            out.put(&scores, 0..some.len(), &permuted(&carried, &places))?;
        }
        out.finish()?;
        Ok(strange)
    }
}

/// The reasons of rows of a table, row by row.
fn reasons_of<T: Real>(
    typed: &Typed<T>,
    selected: &Selected,
    rows: &[u64],
    workers: &Workers,
) -> Result<Vec<Vec<Reason>>> {
    let (search, d) = (reasons::ReasonSearch::new(typed)?, typed.model.scaler.features());
    // missing values are filled in units of the scaled rows
    let scaler = Some(Arc::new(typed.model.scaler.clone()));
    let gathered = selected.rows::<f64>(Reading { scaler, ..Reading::default() })?.gather(rows)?;
    let found: Mutex<Result<Vec<Vec<Reason>>>> = Mutex::new(Ok(vec![Vec::new(); rows.len()]));
    workers.each(gathered.x().chunks_exact(d.max(1)).enumerate().collect(), |(i, x)| {
        let scaler = &typed.model.scaler;
        let x: Vec<f64> = x.iter().enumerate().map(|(j, v)| reasons::inverted(scaler, j, *v, f64::EPSILON)).collect();
        let reasons = search.of(&x);
        let mut found = lock(&found);
        match (&mut *found, reasons) {
            (Ok(all), Ok(reasons)) => all[i] = reasons,
            (Ok(_), Err(error)) => *found = Err(error),
            (Err(_), _) => {}
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The kept columns of all of these rows, which ascend.
fn all(carried: &mut Carried<'_>, rows: &[u64]) -> Result<Vec<KeptColumn>> {
    let (mut columns, mut done) = (Vec::<KeptColumn>::new(), 0);
    while done < rows.len() {
        let (found, kept) = carried.next(&rows[done..])?;
        if columns.is_empty() {
            columns = kept.iter().map(|column| KeptColumn::new(column.kind())).collect();
        }
        columns.iter_mut().zip(kept).for_each(|(to, from)| to.append(from, 0..found));
        done += found;
    }
    Ok(columns)
}

/// The columns with the rows at these places, one after the other.
fn permuted(columns: &[KeptColumn], places: &[usize]) -> Vec<KeptColumn> {
    let moved = |from: &KeptColumn| {
        let mut to = KeptColumn::new(from.kind());
        places.iter().for_each(|place| to.append(from, *place..place + 1));
        to
    };
    columns.iter().map(moved).collect()
}
