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
use crate::encoding::{Code, CodedColumn, Effects, Encoding, TimeFeatures};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::select::{EncodingRequest, Role, SelectedTable};
use crate::statistics::MAX_CLASS_LABELS;
use crate::{
    Error, KeptColumn, Label, Merge, ReadSettings, Reduction, Result, RowBlock, TableRows, TextLimit, Workers, display,
};
use std::sync::Arc;

/// Minimum number of distinct texts of a column that is checked for mostly numbers among some
/// words.
const MIN_CHECKED_TEXTS: usize = 20;

const SET_ENTRY_BYTES: usize = 64;

/// A fold that learns how columns become features, in a pass over the rows that [`Search::rows`]
/// returns.
pub trait Search: Reduction<f64, State: Merge, Error = Error> {
    /// Returns the rows of the pass. `texts` limits the texts of a row.
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
    limit: usize,
    /// Number of rows read.
    pub rows: u64,
    column_values: Vec<ColumnValues>,
    /// Number of missing values for each numeric column.
    missing_counts: Vec<u64>,
}

impl ColumnSearchState {
    /// Returns what the search found in each column, in the order of [`ColumnSearch::columns`].
    pub fn columns(&self) -> Vec<ColumnSummary> {
        let summary = |values: &ColumnValues| {
            let (times, words) = (values.times.range(), values.times.missing_words);
            let missing = values.missing_count + if times.is_some() { words } else { 0 };
            let resemblance = values.resemblance().filter(|_| times.is_none());
            ColumnSummary {
                distinct_values: values.distinct(self.limit, self.rows),
                missing_count: missing,
                time_range: times,
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
        self.rows += later.rows;
        let limit = self.limit;
        self.column_values.iter_mut().zip(&later.column_values).for_each(|(values, later)| values.merge(later, limit));
        self.missing_counts.iter_mut().zip(&later.missing_counts).for_each(|(count, later)| *count += later);
    }
}

/// The fold that finds the values of the category and time columns of a selection, in a pass over
/// [`ColumnSearch::rows`].
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
    limit: usize,
}

#[derive(Clone, Debug)]
struct SearchedColumn {
    index: usize,
    role: Role,
    /// For a file that stores times as numbers: the units per day, and the form of the numbers.
    stored_form: Option<(i64, TimeForm)>,
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
        let drops = self.missing == Missing::Drop;
        // a row that is dropped for a missing number must not count in the values of other columns
        let features = if drops || self.missing == Missing::Indicator { number_indices } else { Vec::new() };
        let number_columns = if drops { Vec::new() } else { features.clone() };
        let keep = searched_indices.iter().map(|i| self.features[*i]).collect();
        let read_selection =
            self.for_search(features.into_iter().map(|i| self.features[i]).collect(), keep, Missing::Mean);
        let searched_columns = searched_indices.into_iter().map(|index| {
            let stored_form = match &self.table.schema().columns[self.features[index]].kind {
                Kind::Time(time) => Some((dates::units_per_day(time), dates::stored_form(time))),
                _ => None,
            };
            SearchedColumn { index, role: request.roles[index], stored_form }
        });
        Some(ColumnSearch {
            selected: self.clone(),
            read_selection,
            searched_columns: searched_columns.collect(),
            number_columns,
            limit: request.max_categories,
        })
    }
}

impl ColumnSearch {
    /// Returns the names of the columns whose values are searched.
    pub fn columns(&self) -> Vec<String> {
        self.searched_columns.iter().map(|column| self.selected.column_name(column.index)).collect()
    }
}

impl Search for ColumnSearch {
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read_selection.rows::<f64>(ReadSettings { text_limit: texts, ..ReadSettings::default() })
    }

    fn state_bytes(&self) -> usize {
        let categories = self.searched_columns.iter().filter(|column| column.role.has_values()).count();
        let times = self.searched_columns.len() * (size_of::<ColumnValues>() + IntegerForms::BYTES);
        let values = self.limit * (MAX_MEAN_TEXT_BYTES + SET_ENTRY_BYTES) + SmallestDigests::BYTES;
        categories * values + 8 * self.selected.features.len() + times
    }

    fn finish(&self, state: &ColumnSearchState) -> Result<(SelectedTable, Vec<ColumnNote>)> {
        let (mut columns, mut table_columns, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let Some(request) = self.selected.pending_request() else { return Ok((self.selected.clone(), notes)) };
        for index in 0..self.selected.features.len() {
            let entries =
                request.counted_texts.iter().find(|(counted, _)| *counted == index).map(|(_, entries)| entries.clone());
            let column = match self.searched_columns.iter().position(|column| column.index == index) {
                None => {
                    let code = entries.map_or(Code::Number, Code::Entries);
                    let number_index = self.number_columns.iter().position(|at| *at == index);
                    let missing = number_index.is_some_and(|at| state.missing_counts[at] > 0);
                    Some(CodedColumn { name: self.selected.column_name(index), code, missing })
                }
                Some(search_index) => self.code_column(
                    request,
                    search_index,
                    (&state.column_values[search_index], state.rows),
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
    fn code_column(
        &self,
        request: &EncodingRequest,
        search_index: usize,
        (values, rows): (&ColumnValues, u64),
        notes: &mut Vec<ColumnNote>,
    ) -> Result<Option<CodedColumn>> {
        let SearchedColumn { index, role, .. } = self.searched_columns[search_index];
        let name = self.selected.column_name(index);
        let kind = &self.selected.table.schema().columns[self.selected.features[index]].kind;
        if role == Role::Suspect {
            return Ok(self.resolve_suspect(request, index, values, notes));
        }
        if let Some(code) = values.times.code(request.times == TimeFeatures::Cyclic).filter(|_| role.has_times()) {
            if values.times.is_ambiguous() {
                notes.push(ColumnNote::AmbiguousDates { column: name.clone() });
            }
            let missing =
                self.selected.missing == Missing::Indicator && values.missing_count + values.times.missing_words > 0;
            return Ok(Some(CodedColumn { name, code: Code::Time(code), missing }));
        }
        if let Some(row) = values.first_missing_row {
            return Err(self.missing_error(search_index, row));
        }
        if !role.has_values() {
            let column = self.selected.features[index];
            return match *kind == Kind::Text && request.is_named[index] {
                true => Err(self
                    .selected
                    .table
                    .wrong_type_error(column, "its values are not times; name it in `categories`")),
                false => Ok(None),
            };
        }
        if request.has_default_categories() {
            self.reject_mostly_numeric(index, values)?;
            notes.extend(
                values.resemblance().map(|resemblance| ColumnNote::Resembles { column: name.clone(), resemblance }),
            );
        }
        let is_identifier = values.is_identifier(rows);
        let has_too_many =
            values.has_too_many_values || is_identifier && request.has_default_categories() && !request.is_named[index];
        let has_effects = request.has_default_categories()
            && !is_identifier
            && !values.has_long_texts(rows)
            && self.selected.has_target();
        let code = match (has_too_many, request.hash_buckets) {
            (false, _) => Code::Values(values.sorted_values()),
            (true, Some(buckets)) => Code::Buckets(buckets),
            (true, None) if has_effects => Code::Effects(Effects::default()),
            (true, None) if request.is_named[index] => {
                return Err(Error::TooManyValues { column: name, limit: self.limit });
            }
            (true, None) => {
                notes.push(ColumnNote::TooManyValues { column: name, values: values.distinct(self.limit, rows) });
                return Ok(None);
            }
        };
        let is_informative = code.features() > 0 || values.missing_count > 0 || values.has_too_many_values;
        Ok(is_informative.then_some(CodedColumn { name, code, missing: values.missing_count > 0 }))
    }

    /// Resolves a numeric column that may instead hold dates, times of day or a row counter.
    fn resolve_suspect(
        &self,
        request: &EncodingRequest,
        index: usize,
        values: &ColumnValues,
        notes: &mut Vec<ColumnNote>,
    ) -> Option<CodedColumn> {
        let column = self.selected.column_name(index);
        if values.integer_forms.is_row_counter() && !request.is_named[index] {
            notes.push(ColumnNote::RowCounter { column });
            return None;
        }
        let time = values
            .integer_forms
            .code(request.times == TimeFeatures::Cyclic)
            .filter(|_| request.times != TimeFeatures::None);
        notes.extend(time.as_ref().map(|time| ColumnNote::NumericTimes { column: column.clone(), form: time.form }));
        let missing = self.selected.missing == Missing::Indicator && values.missing_count > 0;
        Some(CodedColumn { name: column, code: time.map_or(Code::Number, Code::Time), missing })
    }

    /// Rejects a text column that is mostly numbers: a column of measurements that also contains
    /// some word is not meant as categories.
    fn reject_mostly_numeric(&self, index: usize, values: &ColumnValues) -> Result<()> {
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
        let (all, numbers) = (display::format_count(text_count as u64), display::format_count(number_count as u64));
        let word = display::truncate(word);
        let expected = format!(
            "{numbers} of its {all} values are numbers, and {word:?} is not; correct it, or name the column in `categories`"
        );
        Err(self.selected.table.wrong_type_error(self.selected.features[index], &expected))
    }

    #[cold]
    fn missing_error(&self, column: usize, row: u64) -> Error {
        let remedy = match self.selected.missing {
            Missing::Mean => "only numbers have a mean: choose `missing` indicator or `missing` drop",
            _ => "clean the data or choose `missing` indicator or `missing` drop",
        };
        self.selected.bad_category_error(self.searched_columns[column].index, row, "missing", remedy)
    }
}

impl Reduction<f64> for ColumnSearch {
    type State = ColumnSearchState;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> ColumnSearchState {
        let column_values = vec![ColumnValues::default(); self.searched_columns.len()];
        ColumnSearchState {
            limit: self.limit.min(MAX_CLASS_LABELS),
            rows: 0,
            column_values: column_values,
            missing_counts: vec![0; self.number_columns.len()],
        }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut ColumnSearchState, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        state.rows += block.len() as u64;
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
            Missing::Mean if self.searched_columns[search_index].role.has_times() => {
                values.first_missing_row = Some(values.first_missing_row.map_or(row, |first| first.min(row)));
            }
            _ => return Err(self.missing_error(search_index, row)),
        }
        Ok(())
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
        let SearchedColumn { index, role, stored_form: stored } = self.searched_columns[search_index];
        match (values, stored.filter(|_| role.has_times())) {
            (KeptValues::Text(texts), _) => {
                if role.has_times() {
                    column_values.times.add_text(texts.text(i));
                }
                if role.has_values() {
                    column_values.add_text(texts.text(i), self.limit);
                }
            }
            (values, _) if role == Role::Suspect => {
                column_values.integer_forms.add(values.number(i).unwrap_or(f64::NAN), row);
            }
            (KeptValues::I64(values), Some((per_day, form))) => {
                column_values.times.add_stored(values[i], per_day, form)
            }
            (values, _) => {
                let value = label_at(values, i).ok_or_else(|| {
                    let remedy =
                        "a category must be an integer, a boolean or text; remove the column from `categories`";
                    self.selected.bad_category_error(index, row, "not an integer of 64 bits", remedy)
                })?;
                column_values.insert_value(value, self.limit);
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
