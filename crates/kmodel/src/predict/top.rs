//! The most anomalous rows of a table, in descending order.

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

/// The `most` smallest values of a stream.
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

/// Returns an integer with the order of [`f64::total_cmp`]; `score_of` is the inverse.
fn ordered(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn score_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered })
}

/// Maximum number of rows with explanations.
const REASONED: usize = 1000;

/// Bytes of the numbers and fixed words in the text of a reason.
const WORDS: usize = 40;

/// An anomalous row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Strange {
    /// Row number in the table.
    pub row: u64,
    /// Score, lower for more anomalous rows; for components the squared distance from their span,
    /// larger for more anomalous rows.
    pub score: f64,
    /// Explanation, the strongest reason first; only for the first 1,000 rows.
    pub reasons: Vec<Reason>,
}

impl Predictor {
    /// Writes the `top` most anomalous rows to a file, the most anomalous first, and returns them;
    /// all rows if the table has fewer.
    ///
    /// The columns are those that `kept` selects, the row number in the table as `row`, `score` or
    /// `novelty`, and, in formats with text, `reasons`.
    ///
    /// *Cost*: one pass, the kept columns of the written rows, and their reasons ([`Reason`]).
    /// *Bytes*: as [`Predictor::scores`], and the rows to write.
    ///
    /// # Errors
    /// A model that does not score anomalies; the errors of [`Predictor::write`].
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
            let why = "only models of oneclass and mean, and of kpca with `novelty`, score anomalies; omit the option";
            return Err(Error::option("top", top, why));
        }
        if self.card().sparse().is_some() {
            return Err(Error::option("top", top, "anomalies in sparse rows are not explained; omit the option"));
        }
        let longest = self.card().features.iter().map(|name| name.len() + WORDS).max().unwrap_or(0);
        let reasons = ColumnGroup::Reasons(reasons::REASONS * longest);
        let text = sink::holds(path, &OutputColumn::new("reasons", OutputKind::Text)).unwrap_or(false);
        let own = if components { vec![ColumnGroup::Novelty] } else { self.parts(Extras::default()) };
        let parts = std::iter::once(ColumnGroup::Row).chain(own).chain(text.then_some(reasons)).collect();
        let extras = Extras { novelty: components, ..Extras::default() };
        let number = top.min(selected.known_rows().map_or(usize::MAX, |rows| rows as usize));
        let row = 5 * size_of::<(u64, u64)>() + kept.map_or(0, Selected::kept_bytes_per_row);
        // the reasons, as values and as text
        let row = row + reasons::REASONS * 2 * longest + 8 * self.features();
        let held =
            |_: &PredictionWriter| Term::new("rows with the lowest scores", number.saturating_mul(row), "lower `top`");
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

fn reasons_of<T: Real>(
    typed: &Typed<T>,
    selected: &Selected,
    rows: &[u64],
    workers: &Workers,
) -> Result<Vec<Vec<Reason>>> {
    let (search, d) = (reasons::ReasonSearch::new(typed)?, typed.model.scaler.features());
    // missing values are imputed in scaled units
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

/// Returns the kept columns of these rows; the row numbers must ascend.
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

/// Returns the columns with their rows in the order of `places`.
fn permuted(columns: &[KeptColumn], places: &[usize]) -> Vec<KeptColumn> {
    let moved = |from: &KeptColumn| {
        let mut to = KeptColumn::new(from.kind());
        places.iter().for_each(|place| to.append(from, *place..place + 1));
        to
    };
    columns.iter().map(moved).collect()
}
