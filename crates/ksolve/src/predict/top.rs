//! The most unusual rows of a table, the strangest first.

use super::carried::{self, Carried};
use super::decision::Part;
use super::writer::{Predicted, PredictionWriter, held};
use super::{Extras, Predictor, Scores};
use crate::job::Run;
use crate::{Error, Result, Task};
use kstore::budget::Term;
use kstore::sink::Output;
use kstore::{KeptColumn, KeptValues, Selected, TextLimit};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::Path;

/// A row with its score; ordered by the score, and rows with one score by their number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scored {
    score: f64,
    row: u64,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.row.cmp(&other.row))
    }
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
        let columns = kept.map_or(Vec::new(), Selected::kept_columns);
        let parts = std::iter::once(Part::Row).chain(self.parts(Extras::default())).collect();
        let mut out = PredictionWriter::create(path, &columns, parts)?;
        let mut terms = held(&out, kept)?;
        let number = top.min(selected.known_rows().map_or(usize::MAX, |rows| rows as usize));
        let bytes = number.saturating_mul(4 * size_of::<Scored>() + kept.map_or(0, Selected::kept_bytes_per_row));
        terms.push(Term::new("the rows of the lowest scores", bytes, "lower `top`"));
        let texts =
            TextLimit::new(run.bytes(), self.spare(selected, Extras::default(), terms.clone(), run)?, carried::COPIES);
        let mut lowest = BinaryHeap::<Scored>::new();
        self.scores(selected, Extras::default(), terms, run, |scores| {
            for (score, row) in scores.scores.iter().zip(&scores.rows) {
                let scored = Scored { score: *score, row: *row };
                if lowest.len() < top {
                    lowest.push(scored);
                } else if let Some(mut last) = lowest.peek_mut().filter(|last| scored < **last) {
                    *last = scored;
                }
            }
            Ok(())
        })?;
        let ranked = lowest.into_sorted_vec();
        let mut in_order: Vec<usize> = (0..ranked.len()).collect();
        in_order.sort_by_key(|i| ranked[*i].row);
        let source = kept.map(|kept| carried::source(kept, texts)).transpose()?;
        let carried = source.map_or(Ok(Vec::new()), |source| {
            let rows: Vec<u64> = in_order.iter().map(|i| ranked[*i].row).collect();
            all(&mut Carried::new(&source)?, &rows)
        })?;
        // the place of each ranked row among the carried ones
        let mut places = vec![0; ranked.len()];
        in_order.iter().enumerate().for_each(|(place, i)| places[*i] = place);
        for (ranked, places) in ranked.chunks(carried::TILE).zip(places.chunks(carried::TILE)) {
            let scores = ranked.iter().map(|scored| scored.score).collect();
            let rows = ranked.iter().map(|scored| scored.row).collect();
            out.put(&Scores { scores, rows, ..Scores::default() }, &permuted(&carried, places))?;
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

impl PredictionWriter {
    /// Appends rows with their predictions beside columns that are there already.
    fn put(&mut self, scores: &Scores, kept: &[KeptColumn]) -> Result<()> {
        let rows = 0..scores.rows.len();
        let predictions: Vec<KeptValues> =
            self.parts.iter().flat_map(|part| part.values(scores, rows.clone())).collect();
        let kept = kept.iter().map(Output::Kept);
        let batch: Vec<Output<'_>> = kept.chain(predictions.iter().map(KeptValues::as_output)).collect();
        Ok(self.sink.write(&batch)?)
    }
}
