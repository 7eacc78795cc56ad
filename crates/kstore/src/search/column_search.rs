//! The pass that finds the values of category columns, the ranges of time columns, and the columns
//! that have missing values.
//!
//! The state has a set of values for each category column. Merging two states takes the unions of
//! their sets, and the values are sorted at the end, so that the result does not depend on how the
//! rows were split. If a set of a segment, or a union of such sets, has more values than the
//! column's limit, the column's set is dropped. Every order of merging exceeds the limit for the
//! same columns.

use super::column_values::{ColumnValues, MAX_MEAN_TEXT_BYTES, Resemblance, SmallestDigests};
use super::integer_forms::IntegerForms;
use super::{ColumnNote, DistinctCount};
use crate::KeptValues;
use crate::dates::{self, TimeForm};
use crate::encoding::{ColumnEncoding, Effects, EncodedColumn, Encoding, TimeFeatures};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::select::{EncodingRequest, Role, SelectedTable};
use crate::statistics::MAX_CLASS_LABELS;
use crate::{
    Error, KeptColumn, Label, Merge, ReadSettings, Reduction, Result, RowBlock, TableRows, TextLimit, Workers, display,
};
use std::sync::Arc;

/// Minimum number of distinct texts of a column that is rejected because most of its texts are
/// numbers. Chosen: of fewer texts, the fraction of numbers says little.
const MIN_CHECKED_TEXTS: usize = 20;

/// Bytes of an entry of a set of values, without the bytes of a text.
const SET_ENTRY_BYTES: usize = 64;

/// A reduction that learns how columns become features, in a pass over the rows that
/// [`Search::rows`] returns.
pub trait Search: Reduction<f64, State: Merge, Error = Error> {
    /// Returns the rows of the pass. `text_limit` limits the texts of a row.
    ///
    /// # Errors
    /// The errors of opening the table.
    fn rows(&self, text_limit: TextLimit) -> Result<TableRows<f64>>;
    /// Returns the maximum bytes of a state.
    fn state_bytes(&self) -> usize;
    /// Returns the selection with the found values, and notes on columns.
    ///
    /// # Errors
    /// [`Error::TooManyValues`] for a column that was selected by name and has too many values;
    /// [`Error::Empty`] if no feature remains, or if a text column has no words. If words were
    /// omitted, the texts are read again, with the errors of reading.
    fn finish(&self, state: &Self::State) -> Result<(SelectedTable, Vec<ColumnNote>)>;
}

/// The state of a [`ColumnSearch`]: what it has found about the columns of a selection.
#[derive(Clone, Debug)]
pub struct ColumnSearchState {
    max_values: usize,
    /// Number of rows read.
    pub row_count: u64,
    column_values: Vec<ColumnValues>,
    /// Number of missing values for each numeric column.
    missing_counts: Vec<u64>,
}

impl ColumnSearchState {
    /// Returns what the search found in each column, in the order of [`ColumnSearch::columns`].
    pub fn columns(&self) -> Vec<ColumnSummary> {
        let summary = |values: &ColumnValues| {
            let (time_range, missing_word_count) = (values.times.range(), values.times.missing_word_count);
            let missing_count = values.missing_count + if time_range.is_some() { missing_word_count } else { 0 };
            let resemblance = values.resemblance().filter(|_| time_range.is_none());
            ColumnSummary {
                distinct_values: values.distinct_count(self.max_values, self.row_count),
                missing_count,
                time_range,
                resemblance,
            }
        };
        self.column_values.iter().map(summary).collect()
    }
}

/// Numbers that summarise the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSummary {
    /// Number of distinct values, as categories.
    pub distinct_values: DistinctCount,
    /// Number of missing values.
    pub missing_count: u64,
    /// Earliest and latest time in ISO 8601, if the column holds times.
    pub time_range: Option<(String, String)>,
    /// What the texts resemble, if they do not look like categories.
    pub resemblance: Option<Resemblance>,
}

impl Merge for ColumnSearchState {
    fn merge(&mut self, later: &Self) {
        self.row_count += later.row_count;
        let max_values = self.max_values;
        self.column_values
            .iter_mut()
            .zip(&later.column_values)
            .for_each(|(values, later)| values.merge(later, max_values));
        self.missing_counts.iter_mut().zip(&later.missing_counts).for_each(|(count, later)| *count += later);
    }
}

/// The reduction that finds the values of the category and time columns of a selection, in a pass
/// over [`ColumnSearch::rows`].
///
/// *Cost*: one pass over these columns. If rows with missing values are dropped, or missing numbers
/// become indicator features, the pass also reads the numeric columns. *Bytes*:
/// [`ColumnSearch::state_bytes`] for a state.
#[derive(Clone, Debug)]
pub struct ColumnSearch {
    selected: SelectedTable,
    /// The selection that this pass reads, in which the category columns are kept columns.
    read_selection: SelectedTable,
    searched_columns: Vec<SearchedColumn>,
    number_columns: Vec<usize>,
    max_values: usize,
}

/// A column whose values the search finds.
#[derive(Clone, Debug)]
struct SearchedColumn {
    feature_index: usize,
    role: Role,
    /// How the file stores the times of the column, if it stores them as numbers.
    stored_times: Option<StoredTimes>,
}

/// How a file stores times as numbers.
#[derive(Clone, Copy, Debug)]
struct StoredTimes {
    units_per_day: i64,
    form: TimeForm,
}

impl SelectedTable {
    /// Returns the search for the values of the category columns of this selection. Returns `None`
    /// if its rows can already be read.
    #[doc(hidden)]
    pub fn column_search(&self) -> Option<ColumnSearch> {
        let request = self.pending_request()?;
        let features_with = |has_role: fn(Role) -> bool| {
            (0..self.features.len()).filter(move |i| has_role(request.roles[*i])).collect()
        };
        let searched_indices: Vec<usize> = features_with(|role| !matches!(role, Role::Number | Role::CountedText));
        let number_indices: Vec<usize> = features_with(|role| role == Role::Number);
        let drops_incomplete = self.missing == Missing::Drop;
        // a row that is dropped for a missing number must not count in the values of other columns
        let features = if drops_incomplete || self.missing == Missing::Indicator { number_indices } else { Vec::new() };
        let number_columns = if drops_incomplete { Vec::new() } else { features.clone() };
        let keep = searched_indices.iter().map(|i| self.features[*i]).collect();
        let read_selection =
            self.for_search(features.into_iter().map(|i| self.features[i]).collect(), keep, Missing::Mean);
        let searched_columns = searched_indices.into_iter().map(|index| {
            let stored_times = match &self.table.schema().columns[self.features[index]].kind {
                Kind::Time(time) => {
                    Some(StoredTimes { units_per_day: dates::units_per_day(time), form: dates::stored_form(time) })
                }
                _ => None,
            };
            SearchedColumn { feature_index: index, role: request.roles[index], stored_times }
        });
        Some(ColumnSearch {
            selected: self.clone(),
            read_selection,
            searched_columns: searched_columns.collect(),
            number_columns,
            max_values: request.max_categories,
        })
    }
}

impl ColumnSearch {
    /// Returns the names of the columns whose values are searched.
    pub fn columns(&self) -> Vec<String> {
        self.searched_columns.iter().map(|column| self.selected.column_name(column.feature_index)).collect()
    }
}

impl Search for ColumnSearch {
    fn rows(&self, text_limit: TextLimit) -> Result<TableRows<f64>> {
        self.read_selection.rows::<f64>(ReadSettings { text_limit, ..ReadSettings::default() })
    }

    fn state_bytes(&self) -> usize {
        let category_column_count = self.searched_columns.iter().filter(|column| column.role.has_values()).count();
        let time_bytes = self.searched_columns.len() * (size_of::<ColumnValues>() + IntegerForms::BYTES);
        let value_bytes = self.max_values * (MAX_MEAN_TEXT_BYTES + SET_ENTRY_BYTES) + SmallestDigests::BYTES;
        category_column_count * value_bytes + 8 * self.selected.features.len() + time_bytes
    }

    fn finish(&self, state: &ColumnSearchState) -> Result<(SelectedTable, Vec<ColumnNote>)> {
        let (mut columns, mut table_columns, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let Some(request) = self.selected.pending_request() else { return Ok((self.selected.clone(), notes)) };
        for index in 0..self.selected.features.len() {
            let entries =
                request.counted_texts.iter().find(|(counted, _)| *counted == index).map(|(_, entries)| entries.clone());
            let column = match self.searched_columns.iter().position(|column| column.feature_index == index) {
                None => {
                    let encoding = entries.map_or(ColumnEncoding::Number, ColumnEncoding::Entries);
                    let number_index = self.number_columns.iter().position(|index_of_number| *index_of_number == index);
                    let has_indicator = number_index.is_some_and(|number_index| state.missing_counts[number_index] > 0);
                    Some(EncodedColumn { name: self.selected.column_name(index), encoding, has_indicator })
                }
                Some(search_index) => self.encode_column(
                    request,
                    search_index,
                    &state.column_values[search_index],
                    state.row_count,
                    &mut notes,
                )?,
            };
            if let Some(column) = column {
                columns.push(column);
                table_columns.push(self.selected.features[index]);
            }
        }
        if columns.is_empty() {
            let note_texts: Vec<String> = notes.iter().map(|note| format!("; {note}")).collect();
            return Err(self
                .selected
                .table
                .empty_error(format!("no column remains as a feature{}", note_texts.concat())));
        }
        Ok((self.selected.with_encoding(table_columns, Encoding::new(columns))?, notes))
    }
}

impl ColumnSearch {
    /// Returns a searched column with its encoding, or `None` if the column is omitted. Adds notes
    /// that say why.
    fn encode_column(
        &self,
        request: &EncodingRequest,
        search_index: usize,
        values: &ColumnValues,
        row_count: u64,
        notes: &mut Vec<ColumnNote>,
    ) -> Result<Option<EncodedColumn>> {
        let SearchedColumn { feature_index, role, .. } = self.searched_columns[search_index];
        let name = self.selected.column_name(feature_index);
        let kind = &self.selected.table.schema().columns[self.selected.features[feature_index]].kind;
        if role == Role::Suspect {
            return Ok(self.resolve_suspect(request, feature_index, values, notes));
        }
        if let Some(encoding) =
            values.times.encoding(request.times == TimeFeatures::Cyclic).filter(|_| role.has_times())
        {
            if request.times == TimeFeatures::None {
                notes.push(ColumnNote::UnusedTimes { column: name });
                return Ok(None);
            }
            if values.times.is_ambiguous() {
                notes.push(ColumnNote::AmbiguousDates { column: name.clone() });
            }
            let has_indicator = self.selected.missing == Missing::Indicator
                && values.missing_count + values.times.missing_word_count > 0;
            return Ok(Some(EncodedColumn { name, encoding: ColumnEncoding::Time(encoding), has_indicator }));
        }
        if let Some(row) = values.first_missing_row {
            return Err(self.missing_error(search_index, row));
        }
        if !role.has_values() {
            let column = self.selected.features[feature_index];
            return match *kind == Kind::Text && request.is_named[feature_index] {
                true => Err(self
                    .selected
                    .table
                    .wrong_type_error(column, "its values are not times; name it in `categories`")),
                false => Ok(None),
            };
        }
        if request.has_default_categories() {
            self.reject_mostly_numeric(feature_index, values)?;
            let is_file = !self.selected.table.is_in_memory();
            let resembles = |resemblance| ColumnNote::Resembles { column: name.clone(), resemblance, is_file };
            notes.extend(values.resemblance().map(resembles));
        }
        let is_identifier = values.is_identifier(row_count);
        let has_too_many = values.has_too_many_values
            || is_identifier && request.has_default_categories() && !request.is_named[feature_index];
        let has_effects = request.has_default_categories()
            && !is_identifier
            && !values.has_long_texts(row_count)
            && self.selected.has_target();
        let encoding = match (has_too_many, request.hash_buckets) {
            (false, _) => ColumnEncoding::Values(values.sorted_values()),
            (true, Some(buckets)) => ColumnEncoding::Buckets(buckets),
            (true, None) if has_effects => ColumnEncoding::Effects(Effects::default()),
            (true, None) if request.is_named[feature_index] => {
                return Err(Error::TooManyValues { column: name, limit: self.max_values });
            }
            (true, None) => {
                notes.push(ColumnNote::TooManyValues {
                    column: name,
                    values: values.distinct_count(self.max_values, row_count),
                });
                return Ok(None);
            }
        };
        let is_informative = encoding.feature_count() > 0 || values.missing_count > 0 || values.has_too_many_values;
        Ok(is_informative.then_some(EncodedColumn { name, encoding, has_indicator: values.missing_count > 0 }))
    }

    /// Resolves a numeric column that may instead hold dates, times of day or a row counter.
    fn resolve_suspect(
        &self,
        request: &EncodingRequest,
        feature_index: usize,
        values: &ColumnValues,
        notes: &mut Vec<ColumnNote>,
    ) -> Option<EncodedColumn> {
        let column = self.selected.column_name(feature_index);
        if values.integer_forms.is_row_counter() && !request.is_named[feature_index] {
            notes.push(ColumnNote::RowCounter { column });
            return None;
        }
        let time = values
            .integer_forms
            .encoding(request.times == TimeFeatures::Cyclic)
            .filter(|_| request.times != TimeFeatures::None);
        notes.extend(time.as_ref().map(|time| ColumnNote::NumericTimes { column: column.clone(), form: time.form }));
        let has_indicator = self.selected.missing == Missing::Indicator && values.missing_count > 0;
        Some(EncodedColumn {
            name: column,
            encoding: time.map_or(ColumnEncoding::Number, ColumnEncoding::Time),
            has_indicator,
        })
    }

    /// Rejects a text column that is mostly numbers: a column of measurements that also contains
    /// some word is not meant as categories.
    fn reject_mostly_numeric(&self, feature_index: usize, values: &ColumnValues) -> Result<()> {
        let not_numbers: Vec<&Arc<str>> =
            values.texts.iter().filter(|text| text.trim().parse::<f64>().is_err()).collect();
        let (text_count, number_count) = (values.texts.len(), values.texts.len() - not_numbers.len());
        let Some(word) = not_numbers
            .into_iter()
            .min()
            .filter(|_| text_count >= MIN_CHECKED_TEXTS && 10 * number_count > 9 * text_count)
        else {
            return Ok(());
        };
        let (text_total, numbers) =
            (display::format_count(text_count as u64), display::format_count(number_count as u64));
        let word = display::truncate(word);
        let expected = format!(
            "{numbers} of its {text_total} values are numbers, and {word:?} is not; correct it, or name the column in `categories`"
        );
        Err(self.selected.table.wrong_type_error(self.selected.features[feature_index], &expected))
    }

    #[cold]
    fn missing_error(&self, column: usize, row: u64) -> Error {
        let remedy = match self.selected.missing {
            Missing::Mean => "only numbers have a mean: choose `missing` indicator or `missing` drop",
            _ => "clean the data or choose `missing` indicator or `missing` drop",
        };
        self.selected.bad_category_error(self.searched_columns[column].feature_index, row, "missing", remedy)
    }
}

impl Reduction<f64> for ColumnSearch {
    type State = ColumnSearchState;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> ColumnSearchState {
        let column_values = vec![ColumnValues::default(); self.searched_columns.len()];
        ColumnSearchState {
            max_values: self.max_values.min(MAX_CLASS_LABELS),
            row_count: 0,
            column_values,
            missing_counts: vec![0; self.number_columns.len()],
        }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut ColumnSearchState, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        state.row_count += block.len() as u64;
        if !self.number_columns.is_empty() {
            for row in block.x.chunks_exact(block.d) {
                let counts = state.missing_counts.iter_mut().zip(row);
                counts.filter(|(_, value)| !value.is_finite()).for_each(|(count, _)| *count += 1);
            }
        }
        for (search_index, (values, column)) in state.column_values.iter_mut().zip(block.kept_columns).enumerate() {
            for (i, row) in block.row_numbers.iter().enumerate() {
                match column.is_null(i) || is_nan(column, i) {
                    true => self.count_missing(search_index, *row, values)?,
                    false => self.add_value(search_index, *row, column.values(), i, values)?,
                }
            }
        }
        Ok(())
    }
}

impl ColumnSearch {
    /// Counts a missing value, or returns an error. For a column that may hold times, the error is
    /// only returned later, after the column turned out to hold no times.
    fn count_missing(&self, search_index: usize, row: u64, values: &mut ColumnValues) -> Result<()> {
        match self.selected.missing {
            _ if self.searched_columns[search_index].role == Role::Suspect => values.missing_count += 1,
            Missing::Indicator => values.missing_count += 1,
            // an omitted column of times may have missing values
            Missing::Error if !self.may_omit_times(search_index) => return Err(self.missing_error(search_index, row)),
            Missing::Mean | Missing::Error if self.searched_columns[search_index].role.has_times() => {
                values.first_missing_row = Some(values.first_missing_row.map_or(row, |first| first.min(row)));
            }
            _ => return Err(self.missing_error(search_index, row)),
        }
        Ok(())
    }

    fn may_omit_times(&self, search_index: usize) -> bool {
        let without_times = self.selected.pending_request().is_some_and(|request| request.times == TimeFeatures::None);
        without_times && self.searched_columns[search_index].role.has_times()
    }

    /// Adds value `i` of a column in a stored row.
    fn add_value(
        &self,
        search_index: usize,
        row: u64,
        values: &KeptValues,
        i: usize,
        column_values: &mut ColumnValues,
    ) -> Result<()> {
        let SearchedColumn { feature_index, role, stored_times } = self.searched_columns[search_index];
        match (values, stored_times.filter(|_| role.has_times())) {
            (KeptValues::Text(texts), _) => {
                if role.has_times() {
                    column_values.times.add_text(texts.text(i));
                }
                if role.has_values() {
                    column_values.add_text(texts.text(i), self.max_values);
                }
            }
            (values, _) if role == Role::Suspect => {
                column_values.integer_forms.add(values.number(i).unwrap_or(f64::NAN), row);
            }
            (KeptValues::I64(values), Some(StoredTimes { units_per_day, form })) => {
                column_values.times.add_stored(values[i], units_per_day, form)
            }
            (values, _) => {
                let value = label_at(values, i).ok_or_else(|| {
                    let remedy =
                        "a category must be an integer, a boolean or text; remove the column from `categories`";
                    self.selected.bad_category_error(feature_index, row, "not an integer of 64 bits", remedy)
                })?;
                column_values.insert_value(value, self.max_values);
            }
        }
        Ok(())
    }
}

fn is_nan(column: &KeptColumn, row: usize) -> bool {
    column.values().number(row).is_some_and(f64::is_nan)
}

/// Returns the value of a row as a label; `None` for a fraction and for a byte string.
fn label_at(values: &KeptValues, row: usize) -> Option<Label> {
    match values {
        KeptValues::I64(values) => Some(Label::Int(values[row])),
        KeptValues::U64(values) => i64::try_from(values[row]).ok().map(Label::Int),
        KeptValues::Bool(values) => Some(Label::Bool(values[row])),
        other => crate::labels::exact_integer(other.number(row)?).map(Label::Int),
    }
}
