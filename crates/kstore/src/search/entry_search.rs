//! The pass that learns entries: the words of texts, the number of rows with each word, and the
//! largest values of columns.
//!
//! Words are counted in one pass, at most [`MAX_COUNTED_NGRAMS`] words at a time. If a row or a
//! merge of states exceeds this number, the rarest words are dropped until at most half of the
//! words remain. Rows and merges depend on row numbers only, and therefore the dropped words do
//! too. Of the words that remain, the words that occur in the most rows become features; ties are
//! broken alphabetically. (Counting with such drops: Manku, Motwani, "Approximate frequency counts
//! over data streams", VLDB 2002.)

use super::{ColumnNote, Search};
use crate::KeptValues;
use crate::encoding::entries::{EntryColumns, EntryRowBuffer};
use crate::encoding::grams::{MAX_COUNTED_NGRAMS, TextUnits};
use crate::encoding::{ColumnEncoding, EncodedColumn, Encoding, Entries, NGrams, Weighting};
use crate::missing::Missing;
use crate::rows::{RowBuf, RowSource};
use crate::select::{EncodingState, SelectedTable, Selection};
use crate::sparse::{SparseShape, entries};
use crate::table::Table;
use crate::{Error, Kind, Merge, ReadSettings, Reduction, Result, RowBlock, TableRows, TextLimit, Workers};
use std::collections::HashMap;

/// Bytes of a word in a table of counts, without the text of the word. The next constant is the
/// mean length of a word's text, in bytes, up to which the table is filled.
const WORD_BYTES: usize = 72;
const MEAN_WORD_TEXT_BYTES: usize = 32;

/// The number of rows that contain a word, and the last of these rows.
#[derive(Clone, Copy, Debug, Default)]
struct RowCount {
    row_count: u64,
    last_row: u64,
}

/// For each word of a text column, the number of rows that contain it.
#[derive(Clone, Debug, Default)]
struct WordCounts {
    counts_by_word: HashMap<Box<str>, RowCount>,
    /// Counts of each hash bucket, if words are hashed.
    buckets: Vec<RowCount>,
    text_bytes: usize,
    /// Largest number of distinct words in a row.
    max_row_words: usize,
    has_dropped_words: bool,
}

impl RowCount {
    fn add(&mut self, later: Self) {
        *self = Self { row_count: self.row_count + later.row_count, last_row: later.last_row };
    }
}

impl WordCounts {
    fn new(grams: &NGrams) -> Self {
        Self { buckets: vec![RowCount::default(); grams.bucket_count().unwrap_or(0)], ..Self::default() }
    }

    fn add_text(&mut self, grams: &NGrams, row: u64, text: &str, text_units: &mut TextUnits) {
        let mut distinct_count = 0;
        // a bucket without rows has no last row, and must not match row 0
        let last_row = |count: &RowCount| if count.row_count > 0 { count.last_row } else { u64::MAX };
        grams.for_each_ngram(text, text_units, |word| match self.count_mut(grams, word) {
            Some(count) if last_row(count) == row => {}
            Some(count) => {
                *count = RowCount { row_count: count.row_count + 1, last_row: row };
                distinct_count += 1;
            }
            None => {
                self.text_bytes += word.len();
                self.counts_by_word.insert(word.into(), RowCount { row_count: 1, last_row: row });
                distinct_count += 1;
            }
        });
        self.max_row_words = self.max_row_words.max(distinct_count);
        self.drop_rarest();
    }

    /// Returns the counts of a word or of its hash bucket: the number of rows, and the last row.
    /// Returns `None` if words are not hashed and the word is not counted yet.
    fn count_mut(&mut self, grams: &NGrams, word: &str) -> Option<&mut RowCount> {
        match grams.bucket_of(word) {
            Some(bucket) => self.buckets.get_mut(bucket as usize),
            None => self.counts_by_word.get_mut(word),
        }
    }

    /// While there are too many words, drops at least half of them, the rarest first.
    fn drop_rarest(&mut self) {
        while self.counts_by_word.len() > MAX_COUNTED_NGRAMS
            || self.text_bytes > MAX_COUNTED_NGRAMS * MEAN_WORD_TEXT_BYTES
        {
            self.has_dropped_words = true;
            let mut counts: Vec<u64> = self.counts_by_word.values().map(|count| count.row_count).collect();
            let middle = counts.len() / 2;
            let median_count = *counts.select_nth_unstable(middle).1;
            self.counts_by_word.retain(|_, count| count.row_count > median_count);
            self.text_bytes = self.counts_by_word.keys().map(|word| word.len()).sum();
        }
    }

    fn merge(&mut self, later: &Self) {
        for (word, later) in &later.counts_by_word {
            match self.counts_by_word.get_mut(word) {
                Some(count) => count.add(*later),
                None => {
                    self.text_bytes += word.len();
                    self.counts_by_word.insert(word.clone(), *later);
                }
            }
        }
        for (bucket, later) in self.buckets.iter_mut().zip(&later.buckets).filter(|(_, later)| later.row_count > 0) {
            bucket.add(*later);
        }
        self.max_row_words = self.max_row_words.max(later.max_row_words);
        self.has_dropped_words |= later.has_dropped_words;
        self.drop_rarest();
    }

    /// Returns the words that become features, in alphabetical order, each with its number of rows.
    fn most_frequent(&self, max_words: usize, min_rows: u64) -> Vec<(&str, u64)> {
        let words = self.counts_by_word.iter().map(|(word, count)| (&**word, count.row_count));
        let mut words: Vec<(&str, u64)> = words.filter(|(_, rows)| *rows >= min_rows).collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        words.truncate(max_words);
        words.sort_unstable();
        words
    }
}

/// The state of an [`EntrySearch`]: counts of rows and largest values.
#[derive(Clone, Debug)]
pub struct EntryCounts {
    row_count: u64,
    word_counts: Vec<WordCounts>,
    /// Number of rows with a nonzero value, for each column of sparse rows.
    document_frequencies: Vec<u64>,
    /// Largest absolute value, for each column of sparse rows.
    max_abs: Vec<f64>,
}

impl Merge for EntryCounts {
    fn merge(&mut self, later: &Self) {
        self.row_count += later.row_count;
        self.word_counts.iter_mut().zip(&later.word_counts).for_each(|(words, later)| words.merge(later));
        self.document_frequencies
            .iter_mut()
            .zip(&later.document_frequencies)
            .for_each(|(count, later)| *count += later);
        self.max_abs.iter_mut().zip(&later.max_abs).for_each(|(largest, later)| *largest = largest.max(*later));
    }
}

/// The reduction that learns entries, in a pass over [`Search::rows`].
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
        let indexed_entries = |(index, column): (usize, &EncodedColumn)| match &column.encoding {
            ColumnEncoding::Entries(entries) => Some((index, entries.clone())),
            _ => None,
        };
        let columns = self.encoding()?.columns();
        let (column_indices, entries): (Vec<usize>, Vec<Entries>) =
            columns.iter().enumerate().filter_map(indexed_entries).unzip();
        if entries.iter().all(Entries::is_learned) {
            return None;
        }
        let read_selection = match entries[0].grams {
            Some(_) => {
                let texts = column_indices.iter().map(|index| self.features[*index]).collect();
                self.for_search(Vec::new(), texts, Missing::Error)
            }
            None => {
                let (name, encoding) = (self.column_name(0), ColumnEncoding::Sparse(entries[0].shape));
                let sparse = Encoding::new(vec![EncodedColumn { name, encoding, has_indicator: false }]);
                let encoding_state = EncodingState::from_encoding(sparse, &self.table, &self.features);
                Self { encoding_state, ..self.for_search(self.features.clone(), Vec::new(), Missing::Error) }
            }
        };
        Some(EntrySearch { selected: self.clone(), read_selection, column_indices, entries })
    }
}

impl EntrySearch {
    fn sparse_width(&self) -> usize {
        self.entries.iter().filter(|entries| entries.grams.is_none()).map(|entries| entries.shape.column_count).sum()
    }
}

impl Search for EntrySearch {
    fn rows(&self, text_limit: TextLimit) -> Result<TableRows<f64>> {
        self.read_selection.rows::<f64>(ReadSettings { text_limit, ..ReadSettings::default() })
    }

    fn state_bytes(&self) -> usize {
        let counting_bytes = |grams: &NGrams| {
            grams
                .bucket_count()
                .map_or(MAX_COUNTED_NGRAMS * (WORD_BYTES + MEAN_WORD_TEXT_BYTES), |buckets| 16 * buckets)
        };
        self.entries.iter().filter_map(Entries::grams).map(counting_bytes).sum::<usize>() + 8 * self.sparse_width()
    }

    fn finish(&self, state: &EntryCounts) -> Result<(SelectedTable, Vec<ColumnNote>)> {
        let (mut notes, mut has_omitted_words) = (Vec::new(), false);
        let mut columns = self.selected.encoding().map_or(Vec::new(), |encoding| encoding.columns().to_vec());
        for (search_index, (column_index, entries)) in self.column_indices.iter().zip(&self.entries).enumerate() {
            let (name, mut entries) = (self.selected.column_name(*column_index), entries.clone());
            let idf = |count: u64| 1.0 + ((1.0 + state.row_count as f64) / (1.0 + count as f64)).ln();
            let is_tf_idf = entries.weighting == Weighting::TfIdf;
            let text = state.word_counts.get(search_index).zip(entries.grams.as_ref());
            if let Some((words, buckets)) = text.and_then(|(words, grams)| Some((words, grams.bucket_count()?))) {
                let idf_factors = words.buckets.iter().filter(|_| is_tf_idf).map(|count| idf(count.row_count));
                entries.factors = idf_factors.collect();
                entries.shape = SparseShape { column_count: buckets, max_row_entries: words.max_row_words };
            } else if let Some((words, grams)) = text {
                // in a dense row, a word that occurs in a single row says nothing about other rows
                let selected_words = words.most_frequent(grams.max_features, if entries.is_dense() { 2 } else { 1 });
                if selected_words.is_empty() {
                    let has = if entries.is_dense() { "no two texts share" } else { "no text has" };
                    let (what, why) = (
                        format!("column {name:?}"),
                        format!("{has} a feature of {grams}; choose others in `text`, or exclude the column"),
                    );
                    return Err(Error::Empty { what, why });
                }
                if words.has_dropped_words || selected_words.len() < words.counts_by_word.len() {
                    let word_count = (!words.has_dropped_words).then_some(words.counts_by_word.len());
                    notes.push(ColumnNote::RareWords {
                        column: name.clone(),
                        kept_count: selected_words.len(),
                        word_count,
                    });
                    has_omitted_words = true;
                }
                entries.factors = selected_words.iter().filter(|_| is_tf_idf).map(|(_, count)| idf(*count)).collect();
                entries.words = selected_words.into_iter().map(|(word, _)| word.to_string()).collect();
                entries.shape = SparseShape {
                    column_count: entries.words.len(),
                    max_row_entries: words.max_row_words.min(entries.words.len()),
                };
            } else if is_tf_idf {
                entries.factors = state.document_frequencies.iter().map(|count| idf(*count)).collect();
                entries.unseen_factor = idf(0);
            } else {
                let factor = |largest: &f64| if *largest > 0.0 { largest.recip().min(f64::MAX) } else { 1.0 };
                entries.factors = state.max_abs.iter().map(factor).collect();
            }
            columns[*column_index].encoding = ColumnEncoding::Entries(entries);
        }
        let mut encoding = Encoding::new(columns);
        if has_omitted_words && encoding.sparse_shape().is_some() {
            let shapes = self.selected.table.entry_shapes(&encoding)?;
            encoding = encoding.with_capacity_for(&shapes);
        }
        Ok((self.selected.with_encoding(self.selected.features.clone(), encoding)?, notes))
    }
}

impl Reduction<f64> for EntrySearch {
    type State = EntryCounts;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> EntryCounts {
        let width_if =
            |weighting: Weighting| if self.entries[0].weighting == weighting { self.sparse_width() } else { 0 };
        let word_counts = self.entries.iter().filter_map(Entries::grams).map(WordCounts::new).collect();
        let (document_frequencies, max_abs) =
            (vec![0; width_if(Weighting::TfIdf)], vec![0.0; width_if(Weighting::Maxabs)]);
        EntryCounts { row_count: 0, word_counts, document_frequencies, max_abs }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut EntryCounts, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        let mut text_units = TextUnits::default();
        state.row_count += block.len() as u64;
        for (search_index, (words, column)) in state.word_counts.iter_mut().zip(block.kept_columns).enumerate() {
            let Some(grams) = &self.entries[search_index].grams else { continue };
            for (i, row) in block.row_numbers.iter().enumerate() {
                match column.is_null(i) {
                    false => match column.values() {
                        KeptValues::Text(texts) => words.add_text(grams, *row, texts.text(i), &mut text_units),
                        values => {
                            let integer = values.integer(i);
                            integer
                                .into_iter()
                                .for_each(|integer| words.add_text(grams, *row, &integer.to_string(), &mut text_units));
                        }
                    },
                    true if self.selected.missing == Missing::Indicator => {}
                    true => {
                        let remedy = "clean the data or choose `missing` indicator or `missing` drop";
                        return Err(self.selected.bad_category_error(
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
                state.document_frequencies.get_mut(index).into_iter().for_each(|count| *count += 1);
                state.max_abs.get_mut(index).into_iter().for_each(|largest| *largest = largest.max(value.abs()));
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
            shapes.push(match (&column.encoding, kind) {
                (_, Some(Kind::Sparse(shape))) => *shape,
                (ColumnEncoding::Entries(entries), Some(Kind::Text))
                    if !entries.grams().is_some_and(NGrams::is_value) =>
                {
                    let keep = vec![column.name.clone()];
                    let text_selection =
                        Selection { keep, without_features: true, missing: Missing::Mean, ..Selection::default() };
                    let rows = self.select(&text_selection)?.rows::<f64>(ReadSettings::default())?;
                    let (mut cursor, mut buf) = (rows.open(rows.range())?, RowBuf::new(1024));
                    let (mut max_row_entries, mut row_buffer) = (0, EntryRowBuffer::default());
                    while cursor.next(&mut buf)? {
                        let Some(KeptValues::Text(texts)) = buf.kept_columns.first().map(|kept| kept.values()) else {
                            break;
                        };
                        for i in 0..buf.row_numbers.len() {
                            max_row_entries =
                                columns.count_entries(index, texts.text(i), &mut row_buffer).max(max_row_entries);
                        }
                    }
                    SparseShape { max_row_entries, ..entries.shape }
                }
                (ColumnEncoding::Sparse(shape), _) => *shape,
                (ColumnEncoding::Entries(entries), _) => entries.shape,
                _ => SparseShape::default(),
            });
        }
        Ok(shapes)
    }
}
