//! The pass that learns entries: the words of texts, the number of rows with each word, and the
//! largest values of columns.
//!
//! Words are counted in one pass, at most [`MAX_COUNTED_RUNS`] at a time. If there are more, the
//! rarest words are dropped until at most half remain, after a row or a merge of states. Rows and
//! merges depend on row numbers only, and so do the dropped words. Of the remaining words, the ones
//! in the most rows become features; ties are broken alphabetically. (Counting with such drops:
//! Manku, Motwani, "Approximate frequency counts over data streams", VLDB 2002.)

use super::entries::{Entries, EntryColumns, EntryRow, Weighing};
use super::grams::{COUNTED, Grams, Pieces};
use super::{Code, CodedColumn, Coding, ColumnNote, Encoding, Search};
use crate::KeptValues;
use crate::missing::Missing;
use crate::rows::{RowBuf, RowSource};
use crate::select::{Selected, Selection};
use crate::sparse::{SparseShape, entries};
use crate::table::Table;
use crate::{Error, Fold, Kind, Merge, Reading, Result, RowBlock, TableRows, TextLimit, Workers};
use std::collections::HashMap;

/// Bytes of a word in a table of counts, without its text; and average bytes of the texts that the
/// table allows.
const IN_TABLE: usize = 72;
const TEXT: usize = 32;

#[derive(Clone, Debug, Default)]
struct Words {
    /// Number of rows with each word, and the last of these rows.
    rows: HashMap<Box<str>, (u64, u64)>,
    /// The same for each hash bucket, if words are hashed.
    places: Vec<(u64, u64)>,
    bytes: usize,
    longest: usize,
    dropped: bool,
}

impl Words {
    fn new(grams: &Grams) -> Self {
        Self { places: vec![(0, 0); grams.places().unwrap_or(0)], ..Self::default() }
    }

    fn see(&mut self, grams: &Grams, (row, text): (u64, &str), pieces: &mut Pieces) {
        let mut different = 0;
        // a bucket without rows must not match any row
        let at = |(rows, last): &(u64, u64)| if *rows > 0 { *last } else { u64::MAX };
        grams.each(text, pieces, |word| match self.found(grams, word) {
            Some(seen) if at(seen) == row => {}
            Some((rows, last)) => {
                (*rows, *last) = (*rows + 1, row);
                different += 1;
            }
            None => {
                self.bytes += word.len();
                self.rows.insert(word.into(), (1, row));
                different += 1;
            }
        });
        self.longest = self.longest.max(different);
        self.settle();
    }

    /// Returns the rows of a word, if it was seen or is hashed.
    fn found(&mut self, grams: &Grams, word: &str) -> Option<&mut (u64, u64)> {
        match grams.place(word) {
            Some(place) => self.places.get_mut(place as usize),
            None => self.rows.get_mut(word),
        }
    }

    /// Drops the rarest words, at least half of all, while there are too many.
    fn settle(&mut self) {
        while self.rows.len() > COUNTED || self.bytes > COUNTED * TEXT {
            self.dropped = true;
            let mut counts: Vec<u64> = self.rows.values().map(|(rows, _)| *rows).collect();
            let middle = counts.len() / 2;
            let below = *counts.select_nth_unstable(middle).1;
            self.rows.retain(|_, (rows, _)| *rows > below);
            self.bytes = self.rows.keys().map(|word| word.len()).sum();
        }
    }

    fn merge(&mut self, later: &Self) {
        for (word, (rows, last)) in &later.rows {
            match self.rows.get_mut(word) {
                Some(mine) => *mine = (mine.0 + rows, *last),
                None => {
                    self.bytes += word.len();
                    self.rows.insert(word.clone(), (*rows, *last));
                }
            }
        }
        for (mine, later) in self.places.iter_mut().zip(&later.places).filter(|(_, later)| later.0 > 0) {
            *mine = (mine.0 + later.0, later.1);
        }
        self.longest = self.longest.max(later.longest);
        self.dropped |= later.dropped;
        self.settle();
    }

    /// Returns the words that become features, in alphabetical order, each with its number of rows.
    fn chosen(&self, most: usize, fewest_rows: u64) -> Vec<(&str, u64)> {
        let all = self.rows.iter().map(|(word, (rows, _))| (&**word, *rows));
        let mut all: Vec<(&str, u64)> = all.filter(|(_, rows)| *rows >= fewest_rows).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(most);
        all.sort_unstable();
        all
    }
}

/// The state of an [`EntrySearch`]: counts of rows and largest values.
#[derive(Clone, Debug)]
pub struct FoundEntries {
    rows: u64,
    words: Vec<Words>,
    /// Number of rows with a nonzero value, for each column of sparse rows.
    counts: Vec<u64>,
    /// Largest absolute value, for each column of sparse rows.
    largest: Vec<f64>,
}

impl Merge for FoundEntries {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.words.iter_mut().zip(&later.words).for_each(|(words, later)| words.merge(later));
        self.counts.iter_mut().zip(&later.counts).for_each(|(count, later)| *count += later);
        self.largest.iter_mut().zip(&later.largest).for_each(|(largest, later)| *largest = largest.max(*later));
    }
}

/// The fold that learns entries, in a pass over [`Search::rows`].
#[derive(Clone, Debug)]
pub struct EntrySearch {
    selected: Selected,
    read: Selected,
    places: Vec<usize>,
    entries: Vec<Entries>,
}

impl Selected {
    /// Returns the search for the words and factors of its entries; `None` if there is nothing to
    /// learn.
    #[doc(hidden)]
    pub fn entry_search(&self) -> Option<EntrySearch> {
        let of = |(place, column): (usize, &CodedColumn)| match &column.code {
            Code::Entries(entries) => Some((place, entries.clone())),
            _ => None,
        };
        let columns = self.encoding()?.columns();
        let (places, entries): (Vec<usize>, Vec<Entries>) = columns.iter().enumerate().filter_map(of).unzip();
        if entries.iter().all(Entries::is_learned) {
            return None;
        }
        let read = match entries[0].text {
            Some(_) => {
                let texts = places.iter().map(|place| self.features[*place]).collect();
                self.searched(Vec::new(), texts, Missing::Error)
            }
            None => {
                let (name, code) = (self.column_name(0), Code::Sparse(entries[0].shape));
                let sparse = Encoding::new(vec![CodedColumn { name, code, missing: false }]);
                let coding = Coding::known(sparse, &self.table, &self.features);
                Self { coding, ..self.searched(self.features.clone(), Vec::new(), Missing::Error) }
            }
        };
        Some(EntrySearch { selected: self.clone(), read, places, entries })
    }
}

impl EntrySearch {
    fn width(&self) -> usize {
        self.entries.iter().filter(|entries| entries.text.is_none()).map(|entries| entries.shape.width).sum()
    }
}

impl Search for EntrySearch {
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read.rows::<f64>(Reading { texts, ..Reading::default() })
    }

    fn state_bytes(&self) -> usize {
        let of = |grams: &Grams| grams.places().map_or(COUNTED * (IN_TABLE + TEXT), |places| 16 * places);
        self.entries.iter().filter_map(Entries::text).map(of).sum::<usize>() + 8 * self.width()
    }

    fn finish(&self, found: &FoundEntries) -> Result<(Selected, Vec<ColumnNote>)> {
        let (mut notes, mut left_out) = (Vec::new(), false);
        let mut columns = self.selected.encoding().map_or(Vec::new(), |encoding| encoding.columns().to_vec());
        for (at, (place, entries)) in self.places.iter().zip(&self.entries).enumerate() {
            let (name, mut entries) = (self.selected.column_name(*place), entries.clone());
            let inverse = |count: u64| 1.0 + ((1.0 + found.rows as f64) / (1.0 + count as f64)).ln();
            let tf_idf = entries.weighing == Weighing::TfIdf;
            let text = found.words.get(at).zip(entries.text.as_ref());
            if let Some((words, places)) = text.and_then(|(words, grams)| Some((words, grams.places()?))) {
                let counts = words.places.iter().filter(|_| tf_idf).map(|(count, _)| inverse(*count));
                entries.factors = counts.collect();
                entries.shape = SparseShape { width: places, longest: words.longest };
            } else if let Some((words, grams)) = text {
                // in a dense row, a word that occurs in one row only says nothing about other rows
                let chosen = words.chosen(grams.features, if entries.is_dense() { 2 } else { 1 });
                if chosen.is_empty() {
                    let has = if entries.is_dense() { "no two texts share" } else { "no text has" };
                    let (what, why) = (
                        format!("column {name:?}"),
                        format!("{has} a feature of {grams}; choose others in `text`, or exclude the column"),
                    );
                    return Err(Error::Empty { what, why });
                }
                if words.dropped || chosen.len() < words.rows.len() {
                    let words = (!words.dropped).then_some(words.rows.len());
                    notes.push(ColumnNote::RareWords { column: name.clone(), kept: chosen.len(), words });
                    left_out = true;
                }
                entries.factors = chosen.iter().filter(|_| tf_idf).map(|(_, count)| inverse(*count)).collect();
                entries.words = chosen.into_iter().map(|(word, _)| word.to_string()).collect();
                entries.shape =
                    SparseShape { width: entries.words.len(), longest: words.longest.min(entries.words.len()) };
            } else if tf_idf {
                entries.factors = found.counts.iter().map(|count| inverse(*count)).collect();
                entries.unseen = inverse(0);
            } else {
                let factor = |largest: &f64| if *largest > 0.0 { largest.recip().min(f64::MAX) } else { 1.0 };
                entries.factors = found.largest.iter().map(factor).collect();
            }
            columns[*place].code = Code::Entries(entries);
        }
        let mut encoding = Encoding::new(columns);
        if left_out && encoding.sparse().is_some() {
            let room = self.selected.table.rooms(&encoding)?;
            encoding = encoding.with_rooms(&room);
        }
        Ok((self.selected.encoded(self.selected.features.clone(), encoding)?, notes))
    }
}

impl Fold<f64> for EntrySearch {
    type State = FoundEntries;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> FoundEntries {
        let weighed = |by: Weighing| if self.entries[0].weighing == by { self.width() } else { 0 };
        let words = self.entries.iter().filter_map(Entries::text).map(Words::new).collect();
        let (counts, largest) = (vec![0; weighed(Weighing::TfIdf)], vec![0.0; weighed(Weighing::Maxabs)]);
        FoundEntries { rows: 0, words, counts, largest }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut FoundEntries, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        let mut pieces = Pieces::default();
        state.rows += block.len() as u64;
        for (place, (words, column)) in state.words.iter_mut().zip(block.kept).enumerate() {
            let Some(grams) = &self.entries[place].text else { continue };
            for (i, row) in block.rows.iter().enumerate() {
                match column.is_null(i) {
                    false => match column.values() {
                        KeptValues::Text(texts) => words.see(grams, (*row, texts.text(i)), &mut pieces),
                        values => {
                            let whole = values.integer(i);
                            whole
                                .into_iter()
                                .for_each(|whole| words.see(grams, (*row, &whole.to_string()), &mut pieces));
                        }
                    },
                    true if self.selected.missing == Missing::Indicator => {}
                    true => {
                        let remedy = "clean the data or choose `missing` indicator or `missing` drop";
                        return Err(self.selected.bad_category(self.places[place], *row, "missing", remedy));
                    }
                }
            }
        }
        for row in block.x.chunks_exact(block.d.max(1)) {
            let (places, values) = entries(row);
            for (place, value) in places.iter().zip(values).filter(|(_, value)| **value != 0.0) {
                let place = *place as usize;
                state.counts.get_mut(place).into_iter().for_each(|count| *count += 1);
                state.largest.get_mut(place).into_iter().for_each(|largest| *largest = largest.max(value.abs()));
            }
        }
        Ok(())
    }
}

impl Table {
    /// Returns the shapes of the entries that the columns of an encoding have in this table. Reads
    /// the texts of each column that is counted from text, in the calling thread. A column that the
    /// table lacks has the shape of the encoding.
    ///
    /// # Errors
    /// The errors of reading.
    #[doc(hidden)]
    pub fn rooms(&self, encoding: &Encoding) -> Result<Vec<SparseShape>> {
        let mut shapes = Vec::new();
        let Some(columns) = EntryColumns::new(encoding.columns()) else { return Ok(shapes) };
        for (at, column) in encoding.columns().iter().enumerate() {
            let kind = self.schema().position(&column.name).map(|place| &self.schema().columns[place].kind);
            shapes.push(match (&column.code, kind) {
                (_, Some(Kind::Sparse(shape))) => *shape,
                (Code::Entries(entries), Some(Kind::Text)) if !entries.text().is_some_and(Grams::is_value) => {
                    let keep = vec![column.name.clone()];
                    let only =
                        Selection { keep, without_features: true, missing: Missing::Mean, ..Selection::default() };
                    let rows = self.select(&only)?.rows::<f64>(Reading::default())?;
                    let (mut cursor, mut buf) = (rows.open(rows.range())?, RowBuf::new(1024));
                    let (mut longest, mut row) = (0, EntryRow::default());
                    while cursor.next(&mut buf)? {
                        let Some(KeptValues::Text(texts)) = buf.kept.first().map(|kept| kept.values()) else { break };
                        for i in 0..buf.rows.len() {
                            longest = columns.count(at, texts.text(i), &mut row).max(longest);
                        }
                    }
                    SparseShape { longest, ..entries.shape }
                }
                (Code::Sparse(shape), _) => *shape,
                (Code::Entries(entries), _) => entries.shape,
                _ => SparseShape::default(),
            });
        }
        Ok(shapes)
    }
}
