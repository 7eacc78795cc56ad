//! The most unusual rows of a table, the strangest first.

use super::carried::{self, Carried};
use super::decision::Part;
use super::writer::{Begun, Predicted, PredictionWriter};
use super::{Extras, Predictor, Scores};
use crate::job::Run;
use crate::{Error, Result, Task};
use kstore::budget::Term;
use kstore::{KeptColumn, Selected};
use std::collections::BinaryHeap;
use std::path::Path;

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

impl Predictor {
    /// Writes the `top` rows of the lowest scores to a file, the lowest first: the columns that `kept` selects, the number of the row
    /// in the table as `row`, and `score`. Fewer where the table has fewer.
    ///
    /// *Cost*: one pass, and the kept columns of those rows. *Bytes*: those of [`Predictor::scores`], and the rows that are written.
    ///
    /// # Errors
    /// A model of another task than novelty; the errors of [`Predictor::write`].
    pub fn write_top(
        &self,
        selected: &Selected,
        kept: Option<&Selected>,
        top: usize,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<Predicted> {
        if self.card().task != Task::Novelty {
            let why = "only models of oneclass and mean rank rows by how unusual they are; leave it out";
            return Err(Error::option("top", top, why));
        }
        let parts = std::iter::once(Part::Row).chain(self.parts(Extras::default())).collect();
        let number = top.min(selected.known_rows().map_or(usize::MAX, |rows| rows as usize));
        let row = 4 * size_of::<(u64, u64)>() + kept.map_or(0, Selected::kept_bytes_per_row);
        let held = |_: &PredictionWriter| {
            Term::new("the rows of the lowest scores", number.saturating_mul(row), "lower `top`")
        };
        let Begun { mut out, terms, texts } =
            self.begin((selected, kept), (parts, Extras::default()), path, run, held)?;
        let mut lowest = Smallest::new(top);
        self.scores(selected, Extras::default(), terms, run, |scores| {
            scores.scores.iter().zip(&scores.rows).for_each(|(score, row)| lowest.push((ordered(*score), *row)));
            Ok(())
        })?;
        let ranked = lowest.sorted();
        let mut rows: Vec<u64> = ranked.iter().map(|(_, row)| *row).collect();
        rows.sort_unstable();
        let source = kept.map(|kept| carried::source(kept, texts)).transpose()?;
        let carried = source.map_or(Ok(Vec::new()), |source| all(&mut Carried::new(&source)?, &rows))?;
        for ranked in ranked.chunks(carried::TILE) {
            let places: Vec<usize> = ranked.iter().map(|(_, row)| rows.partition_point(|other| other < row)).collect();
            let (scores, rows) = ranked.iter().map(|(score, row)| (score_of(*score), *row)).unzip();
            let scores = Scores { scores, rows, ..Scores::default() };
            out.put(&scores, 0..ranked.len(), &permuted(&carried, &places))?;
        }
        out.finish()?;
        Ok(Predicted { rows: ranked.len() as u64, unsettled: 0 })
    }
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
