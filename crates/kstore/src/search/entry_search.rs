//! The pass that learns entries: the words of texts, the number of rows with each word, and the
//! largest values of columns.
//!
//! Words are counted in one pass, at most [`MAX_COUNTED_RUNS`] words at a time. If a row or a merge
//! of states exceeds this number, the rarest words are dropped until at most half of the words
//! remain. Rows and merges depend on row numbers only, and therefore the dropped words do too. Of
//! the words that remain, the words that occur in the most rows become features; ties are broken
//! alphabetically. (Counting with such drops: Manku, Motwani, "Approximate frequency counts over
//! data streams", VLDB 2002.)

use super::{ColumnNote, Search};
use crate::KeptValues;
use crate::encoding::entries::{EntryColumns, EntryRow};
use crate::encoding::grams::{MAX_COUNTED_RUNS, TextUnits};
use crate::encoding::{Code, CodedColumn, Encoding, Entries, Grams, Weighting};
use crate::missing::Missing;
use crate::rows::{RowBuf, RowSource};
use crate::select::{Coding, SelectedTable, Selection};
use crate::sparse::{SparseShape, entries};
use crate::table::Table;
use crate::{Error, Kind, Merge, ReadSettings, Reduction, Result, RowBlock, TableRows, TextLimit, Workers};
use std::collections::HashMap;

/// Bytes of a word in a table of counts, without the text of the word. The next constant is the
/// mean length of a word's text, in bytes, up to which the table is filled.
const WORD_BYTES: usize = 72;
const MEAN_WORD_TEXT_BYTES: usize = 32;

#[derive(Clone, Debug, Default)]
struct WordCounts {
    /// For each word, the number of rows that contain it, and the last of these rows.
    counts: HashMap<Box<str>, (u64, u64)>,
    /// If words are hashed, the number of rows and the last row for each hash bucket.
    buckets: Vec<(u64, u64)>,
    bytes: usize,
    longest: usize,
    dropped: bool,
}

impl WordCounts {
    fn new(grams: &Grams) -> Self {
        Self { buckets: vec![(0, 0); grams.buckets().unwrap_or(0)], ..Self::default() }
    }

    fn add_text(&mut self, grams: &Grams, (row, text): (u64, &str), pieces: &mut TextUnits) {
        let mut distinct = 0;
        // a bucket without rows has no last row, and must not match row 0
        let last_row = |(rows, last): &(u64, u64)| if *rows > 0 { *last } else { u64::MAX };
        grams.for_each_run(text, pieces, |word| match self.count_mut(grams, word) {
            Some(seen) if last_row(seen) == row => {}
            Some((rows, last)) => {
                (*rows, *last) = (*rows + 1, row);
                distinct += 1;
            }
            None => {
                self.bytes += word.len();
                self.counts.insert(word.into(), (1, row));
                distinct += 1;
            }
        });
        self.longest = self.longest.max(distinct);
        self.drop_rarest();
    }

    /// Returns the counts of a word or of its hash bucket: the number of rows, and the last row.
    /// Returns `None` if words are not hashed and the word is not counted yet.
    fn count_mut(&mut self, grams: &Grams, word: &str) -> Option<&mut (u64, u64)> {
        match grams.bucket(word) {
            Some(bucket) => self.buckets.get_mut(bucket as usize),
            None => self.counts.get_mut(word),
        }
    }

    /// While there are too many words, drops at least half of them, the rarest first.
    fn drop_rarest(&mut self) {
        while self.counts.len() > MAX_COUNTED_RUNS || self.bytes > MAX_COUNTED_RUNS * MEAN_WORD_TEXT_BYTES {
            self.dropped = true;
            let mut counts: Vec<u64> = self.counts.values().map(|(rows, _)| *rows).collect();
            let middle = counts.len() / 2;
            let below = *counts.select_nth_unstable(middle).1;
            self.counts.retain(|_, (rows, _)| *rows > below);
            self.bytes = self.counts.keys().map(|word| word.len()).sum();
        }
    }

    fn merge(&mut self, later: &Self) {
        for (word, (rows, last)) in &later.counts {
            match self.counts.get_mut(word) {
                Some(mine) => *mine = (mine.0 + rows, *last),
                None => {
                    self.bytes += word.len();
                    self.counts.insert(word.clone(), (*rows, *last));
                }
            }
        }
        for (mine, later) in self.buckets.iter_mut().zip(&later.buckets).filter(|(_, later)| later.0 > 0) {
            *mine = (mine.0 + later.0, later.1);
        }
        self.longest = self.longest.max(later.longest);
        self.dropped |= later.dropped;
        self.drop_rarest();
    }

    /// Returns the words that become features, in alphabetical order, each with its number of rows.
    fn most_frequent(&self, max_words: usize, min_rows: u64) -> Vec<(&str, u64)> {
        let all = self.counts.iter().map(|(word, (rows, _))| (&**word, *rows));
        let mut all: Vec<(&str, u64)> = all.filter(|(_, rows)| *rows >= min_rows).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(max_words);
        all.sort_unstable();
        all
    }
}

/// The state of an [`EntrySearch`]: counts of rows and largest values.
#[derive(Clone, Debug)]
pub struct EntryCounts {
    rows: u64,
    words: Vec<WordCounts>,
    /// Number of rows with a nonzero value, for each column of sparse rows.
    counts: Vec<u64>,
    /// Largest absolute value, for each column of sparse rows.
    largest: Vec<f64>,
}

impl Merge for EntryCounts {
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
    selected: SelectedTable,
    read_selection: SelectedTable,
    column_indices: Vec<usize>,
    entries: Vec<Entries>,
}

impl SelectedTable {
    /// Returns the search for the words and factors of the entries of this selection; `None` if
    /// there is nothing to learn.
    #[doc(hidden)]
    pub fn entry_search(&self) -> Option<EntrySearch> {
        let indexed_entries = |(index, column): (usize, &CodedColumn)| match &column.code {
            Code::Entries(entries) => Some((index, entries.clone())),
            _ => None,
        };
        let columns = self.encoding()?.columns();
        let (column_indices, entries): (Vec<usize>, Vec<Entries>) =
            columns.iter().enumerate().filter_map(indexed_entries).unzip();
        if entries.iter().all(Entries::is_learned) {
            return None;
        }
        let read_selection = match entries[0].text {
            Some(_) => {
                let texts = column_indices.iter().map(|index| self.features[*index]).collect();
                self.for_search(Vec::new(), texts, Missing::Error)
            }
            None => {
                let (name, code) = (self.column_name(0), Code::Sparse(entries[0].shape));
                let sparse = Encoding::new(vec![CodedColumn { name, code, missing: false }]);
                let coding = Coding::from_encoding(sparse, &self.table, &self.features);
                Self { coding, ..self.for_search(self.features.clone(), Vec::new(), Missing::Error) }
            }
        };
        Some(EntrySearch { selected: self.clone(), read_selection, column_indices, entries })
    }
}

impl EntrySearch {
    fn sparse_width(&self) -> usize {
        self.entries.iter().filter(|entries| entries.text.is_none()).map(|entries| entries.shape.width).sum()
    }
}

impl Search for EntrySearch {
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read_selection.rows::<f64>(ReadSettings { texts, ..ReadSettings::default() })
    }

    fn state_bytes(&self) -> usize {
        let counting_bytes = |grams: &Grams| {
            grams.buckets().map_or(MAX_COUNTED_RUNS * (WORD_BYTES + MEAN_WORD_TEXT_BYTES), |buckets| 16 * buckets)
        };
        self.entries.iter().filter_map(Entries::text).map(counting_bytes).sum::<usize>() + 8 * self.sparse_width()
    }

    fn finish(&self, state: &EntryCounts) -> Result<(SelectedTable, Vec<ColumnNote>)> {
        let (mut notes, mut left_out) = (Vec::new(), false);
        let mut columns = self.selected.encoding().map_or(Vec::new(), |encoding| encoding.columns().to_vec());
        for (search_index, (column_index, entries)) in self.column_indices.iter().zip(&self.entries).enumerate() {
            let (name, mut entries) = (self.selected.column_name(*column_index), entries.clone());
            let inverse = |count: u64| 1.0 + ((1.0 + state.rows as f64) / (1.0 + count as f64)).ln();
            let tf_idf = entries.weighing == Weighting::TfIdf;
            let text = state.words.get(search_index).zip(entries.text.as_ref());
            if let Some((words, buckets)) = text.and_then(|(words, grams)| Some((words, grams.buckets()?))) {
                let counts = words.buckets.iter().filter(|_| tf_idf).map(|(count, _)| inverse(*count));
                entries.factors = counts.collect();
                entries.shape = SparseShape { width: buckets, longest: words.longest };
            } else if let Some((words, grams)) = text {
                // in a dense row, a word that occurs in a single row says nothing about other rows
                let chosen = words.most_frequent(grams.features, if entries.is_dense() { 2 } else { 1 });
                if chosen.is_empty() {
                    let has = if entries.is_dense() { "no two texts share" } else { "no text has" };
                    let (what, why) = (
                        format!("column {name:?}"),
                        format!("{has} a feature of {grams}; choose others in `text`, or exclude the column"),
                    );
                    return Err(Error::Empty { what, why });
                }
                if words.dropped || chosen.len() < words.counts.len() {
                    let words = (!words.dropped).then_some(words.counts.len());
                    notes.push(ColumnNote::RareWords { column: name.clone(), kept: chosen.len(), words });
                    left_out = true;
                }
                entries.factors = chosen.iter().filter(|_| tf_idf).map(|(_, count)| inverse(*count)).collect();
                entries.words = chosen.into_iter().map(|(word, _)| word.to_string()).collect();
                entries.shape =
                    SparseShape { width: entries.words.len(), longest: words.longest.min(entries.words.len()) };
            } else if tf_idf {
                entries.factors = state.counts.iter().map(|count| inverse(*count)).collect();
                entries.unseen = inverse(0);
            } else {
                let factor = |largest: &f64| if *largest > 0.0 { largest.recip().min(f64::MAX) } else { 1.0 };
                entries.factors = state.largest.iter().map(factor).collect();
            }
            columns[*column_index].code = Code::Entries(entries);
        }
        let mut encoding = Encoding::new(columns);
        if left_out && encoding.sparse().is_some() {
            let room = self.selected.table.entry_shapes(&encoding)?;
            encoding = encoding.with_capacity_for(&room);
        }
        Ok((self.selected.with_encoding(self.selected.features.clone(), encoding)?, notes))
    }
}

impl Reduction<f64> for EntrySearch {
    type State = EntryCounts;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> EntryCounts {
        let weighed = |by: Weighting| if self.entries[0].weighing == by { self.sparse_width() } else { 0 };
        let words = self.entries.iter().filter_map(Entries::text).map(WordCounts::new).collect();
        let (counts, largest) = (vec![0; weighed(Weighting::TfIdf)], vec![0.0; weighed(Weighting::Maxabs)]);
        EntryCounts { rows: 0, words, counts, largest }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut EntryCounts, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        let mut pieces = TextUnits::default();
        state.rows += block.len() as u64;
        for (search_index, (words, column)) in state.words.iter_mut().zip(block.kept_columns).enumerate() {
            let Some(grams) = &self.entries[search_index].text else { continue };
            for (i, row) in block.rows.iter().enumerate() {
                match column.is_null(i) {
                    false => match column.values() {
                        KeptValues::Text(texts) => words.add_text(grams, (*row, texts.text(i)), &mut pieces),
                        values => {
                            let integer = values.integer(i);
                            integer
                                .into_iter()
                                .for_each(|integer| words.add_text(grams, (*row, &integer.to_string()), &mut pieces));
                        }
                    },
                    true if self.selected.missing == Missing::Indicator => {}
                    true => {
                        let remedy = "clean the data or choose `missing` indicator or `missing` drop";
                        return Err(self.selected.category_error(
                            self.column_indices[search_index],
                            *row,
                            "missing",
                            remedy,
                        ));
                    }
                }
            }
        }
        for row in block.x.chunks_exact(block.d.max(1)) {
            let (indices, values) = entries(row);
            for (index, value) in indices.iter().zip(values).filter(|(_, value)| **value != 0.0) {
                let index = *index as usize;
                state.counts.get_mut(index).into_iter().for_each(|count| *count += 1);
                state.largest.get_mut(index).into_iter().for_each(|largest| *largest = largest.max(value.abs()));
            }
        }
        Ok(())
    }
}

impl Table {
    /// Returns the shape of the entries that each column of an encoding has in this table. For each
    /// column that is counted from text, this reads its texts in the calling thread. If the table
    /// lacks a column, the column has the shape in the encoding.
    ///
    /// # Errors
    /// The errors of reading.
    #[doc(hidden)]
    pub fn entry_shapes(&self, encoding: &Encoding) -> Result<Vec<SparseShape>> {
        let mut shapes = Vec::new();
        let Some(columns) = EntryColumns::new(encoding.columns()) else { return Ok(shapes) };
        for (index, column) in encoding.columns().iter().enumerate() {
            let kind = self.schema().position(&column.name).map(|position| &self.schema().columns[position].kind);
            shapes.push(match (&column.code, kind) {
                (_, Some(Kind::Sparse(shape))) => *shape,
                (Code::Entries(entries), Some(Kind::Text)) if !entries.text().is_some_and(Grams::is_value) => {
                    let keep = vec![column.name.clone()];
                    let only =
                        Selection { keep, without_features: true, missing: Missing::Mean, ..Selection::default() };
                    let rows = self.select(&only)?.rows::<f64>(ReadSettings::default())?;
                    let (mut cursor, mut buf) = (rows.open(rows.range())?, RowBuf::new(1024));
                    let (mut longest, mut row) = (0, EntryRow::default());
                    while cursor.next(&mut buf)? {
                        let Some(KeptValues::Text(texts)) = buf.kept_columns.first().map(|kept| kept.values()) else {
                            break;
                        };
                        for i in 0..buf.rows.len() {
                            longest = columns.count_entries(index, texts.text(i), &mut row).max(longest);
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
