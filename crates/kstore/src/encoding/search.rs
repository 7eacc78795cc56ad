//! The pass that finds the values of category columns, the ranges of time columns, and which
//! columns have missing values.
//!
//! The state has a set of values for each category column: merging takes the union, and the values
//! are sorted at the end, so that the result does not depend on how the rows were split. If a
//! column has more values than its limit, its set is dropped, in a segment or in a union of
//! segments; every order of merging exceeds the limit.

use super::found::{Found, LeastDigests, Looks, TEXT_PER_VALUE};
use super::numerals::Numerals;
use super::{Code, CodedColumn, Distinct, Effects, Encoding, Role, Times, coding::Asked, note::ColumnNote};
use crate::KeptValues;
use crate::dates::{self, TimeForm};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::select::Selected;
use crate::statistics::LABEL_LIMIT;
use crate::{Error, Fold, KeptColumn, Label, Merge, Reading, Result, RowBlock, TableRows, TextLimit, Workers, shown};
use std::sync::Arc;

/// Minimum number of values of a column that may be numbers with a word among them.
const FEWEST_NUMBERS: usize = 20;

const IN_SET: usize = 64;

/// A fold that learns how columns become features, in a pass over [`Search::rows`].
pub trait Search: Fold<f64, State: Merge, Error = Error> {
    /// Returns the rows of the pass. `texts` limits the texts of a row.
    ///
    /// # Errors
    /// The errors of opening the table.
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>>;
    /// Returns the maximum bytes of a state.
    fn state_bytes(&self) -> usize;
    /// Returns the selection with the found values, and notes on columns.
    ///
    /// # Errors
    /// [`Error::TooManyValues`] for a named column with too many values; [`Error::Empty`] if no
    /// feature remains, or a text column has no words; the errors of rereading the texts if words
    /// were omitted.
    fn finish(&self, found: &Self::State) -> Result<(Selected, Vec<ColumnNote>)>;
}

/// The state of a [`ColumnSearch`]: what it has found about the columns of a selection.
#[derive(Clone, Debug)]
pub struct FoundColumns {
    limit: usize,
    /// Number of rows read.
    pub rows: u64,
    searched: Vec<Found>,
    /// Number of missing values for each numeric column.
    numbers: Vec<u64>,
}

impl FoundColumns {
    /// Returns what was found about each column, in the order of [`ColumnSearch::columns`].
    pub fn columns(&self) -> Vec<FoundColumn> {
        let of = |found: &Found| {
            let (times, words) = (found.times.range(), found.times.words);
            let missing = found.missing + if times.is_some() { words } else { 0 };
            let looks = found.looks().filter(|_| times.is_none());
            FoundColumn { values: found.distinct(self.limit, self.rows), missing, times, looks }
        };
        self.searched.iter().map(of).collect()
    }
}

/// The values of a column, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundColumn {
    /// Number of distinct values, as categories.
    pub values: Distinct,
    /// Number of missing values.
    pub missing: u64,
    /// Earliest and latest time in ISO 8601, if the column holds times.
    pub times: Option<(String, String)>,
    /// What its texts look like other than categories.
    pub looks: Option<Looks>,
}

impl Merge for FoundColumns {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        let limit = self.limit;
        self.searched.iter_mut().zip(&later.searched).for_each(|(found, later)| found.merge(later, limit));
        self.numbers.iter_mut().zip(&later.numbers).for_each(|(count, later)| *count += later);
    }
}

/// The fold that finds the values of the category and time columns of a selection, in a pass over
/// [`ColumnSearch::rows`].
///
/// *Cost*: one pass over these columns only, or also over the numeric columns if rows with missing
/// values are dropped or missing numbers become indicator features. *Bytes*:
/// [`ColumnSearch::state_bytes`] for a state.
#[derive(Clone, Debug)]
pub struct ColumnSearch {
    selected: Selected,
    /// The rows of this pass: categories are kept columns.
    read: Selected,
    searched: Vec<Searched>,
    numbers: Vec<usize>,
    limit: usize,
}

#[derive(Clone, Debug)]
struct Searched {
    place: usize,
    role: Role,
    /// Units per day and form of the stored numbers if the file stores times.
    stored: Option<(i64, TimeForm)>,
}

impl Selected {
    /// Returns the search for the values of its category columns; `None` if its rows can already be
    /// read.
    #[doc(hidden)]
    pub fn search(&self) -> Option<ColumnSearch> {
        let asked = self.asked()?;
        let of = |such: fn(Role) -> bool| (0..self.features.len()).filter(move |i| such(asked.roles[*i])).collect();
        let searched: Vec<usize> = of(|role| !matches!(role, Role::Number | Role::Counted));
        let numbers: Vec<usize> = of(|role| role == Role::Number);
        let drops = self.missing == Missing::Drop;
        // rows that are dropped for a missing number do not count in the values of other columns
        let features = if drops || self.missing == Missing::Indicator { numbers } else { Vec::new() };
        let numbers = if drops { Vec::new() } else { features.clone() };
        let keep = searched.iter().map(|i| self.features[*i]).collect();
        let read = self.searched(features.into_iter().map(|i| self.features[i]).collect(), keep, Missing::Mean);
        let searched = searched.into_iter().map(|place| {
            let stored = match &self.table.schema().columns[self.features[place]].kind {
                Kind::Time(time) => Some((dates::per_day(time), dates::form(time))),
                _ => None,
            };
            Searched { place, role: asked.roles[place], stored }
        });
        Some(ColumnSearch { selected: self.clone(), read, searched: searched.collect(), numbers, limit: asked.limit })
    }
}

impl ColumnSearch {
    /// Returns the names of the columns whose values are searched.
    pub fn columns(&self) -> Vec<String> {
        self.searched.iter().map(|column| self.selected.column_name(column.place)).collect()
    }
}

impl Search for ColumnSearch {
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read.rows::<f64>(Reading { texts, ..Reading::default() })
    }

    fn state_bytes(&self) -> usize {
        let categories = self.searched.iter().filter(|column| column.role.has_values()).count();
        let times = self.searched.len() * (size_of::<Found>() + Numerals::BYTES);
        let values = self.limit * (TEXT_PER_VALUE + IN_SET) + LeastDigests::BYTES;
        categories * values + 8 * self.selected.features.len() + times
    }

    fn finish(&self, found: &FoundColumns) -> Result<(Selected, Vec<ColumnNote>)> {
        let (mut columns, mut places, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let Some(asked) = self.selected.asked() else { return Ok((self.selected.clone(), notes)) };
        for place in 0..self.selected.features.len() {
            let entries = asked.counted.iter().find(|(at, _)| *at == place).map(|(_, entries)| entries.clone());
            let column = match self.searched.iter().position(|column| column.place == place) {
                None => {
                    let code = entries.map_or(Code::Number, Code::Entries);
                    let at = self.numbers.iter().position(|at| *at == place);
                    let missing = at.is_some_and(|at| found.numbers[at] > 0);
                    Some(CodedColumn { name: self.selected.column_name(place), code, missing })
                }
                Some(at) => self.coded(asked, at, (&found.searched[at], found.rows), &mut notes)?,
            };
            if let Some(column) = column {
                columns.push(column);
                places.push(self.selected.features[place]);
            }
        }
        if columns.is_empty() {
            let told: Vec<String> = notes.iter().map(|note| format!("; {note}")).collect();
            return Err(self.selected.table.empty(format!("no column remains as a feature{}", told.concat())));
        }
        Ok((self.selected.encoded(places, Encoding::new(columns))?, notes))
    }
}

impl ColumnSearch {
    fn coded(
        &self,
        asked: &Asked,
        at: usize,
        (values, rows): (&Found, u64),
        notes: &mut Vec<ColumnNote>,
    ) -> Result<Option<CodedColumn>> {
        let Searched { place, role, .. } = self.searched[at];
        let name = self.selected.column_name(place);
        let kind = &self.selected.table.schema().columns[self.selected.features[place]].kind;
        if role == Role::Odd {
            return Ok(self.odd(asked, place, values, notes));
        }
        if let Some(code) = values.times.code(asked.times == Times::Cyclic).filter(|_| role.has_times()) {
            if values.times.is_ambiguous() {
                notes.push(ColumnNote::DaysOrMonths { column: name.clone() });
            }
            let missing = self.selected.missing == Missing::Indicator && values.missing + values.times.words > 0;
            return Ok(Some(CodedColumn { name, code: Code::Time(code), missing }));
        }
        if let Some(row) = values.missing_at {
            return Err(self.missing(at, row));
        }
        if !role.has_values() {
            let column = self.selected.features[place];
            return match *kind == Kind::Text && asked.named[place] {
                true => {
                    Err(self.selected.table.wrong_type(column, "its values are not times; name it in `categories`"))
                }
                false => Ok(None),
            };
        }
        if asked.is_usual() {
            self.refuse_odd_numbers(place, values)?;
            notes.extend(values.looks().map(|looks| ColumnNote::Looks { column: name.clone(), looks }));
        }
        let alone = values.is_identifier(rows);
        let beyond = values.more || alone && asked.is_usual() && !asked.named[place];
        let has_effects = asked.is_usual() && !alone && !values.is_long(rows) && self.selected.has_target();
        let code = match (beyond, asked.hash) {
            (false, _) => Code::Values(values.sorted()),
            (true, Some(buckets)) => Code::Buckets(buckets),
            (true, None) if has_effects => Code::Effects(Effects::default()),
            (true, None) if asked.named[place] => {
                return Err(Error::TooManyValues { column: name, limit: self.limit });
            }
            (true, None) => {
                notes.push(ColumnNote::LeftOut { column: name, values: values.distinct(self.limit, rows) });
                return Ok(None);
            }
        };
        let some = code.features() > 0 || values.missing > 0 || values.more;
        Ok(some.then_some(CodedColumn { name, code, missing: values.missing > 0 }))
    }

    /// Resolves a numeric column that looked like something else.
    fn odd(&self, asked: &Asked, place: usize, found: &Found, notes: &mut Vec<ColumnNote>) -> Option<CodedColumn> {
        let column = self.selected.column_name(place);
        if found.numerals.counts() && !asked.named[place] {
            notes.push(ColumnNote::CountsRows { column });
            return None;
        }
        let time = found.numerals.code(asked.times == Times::Cyclic).filter(|_| asked.times != Times::None);
        notes.extend(time.as_ref().map(|time| ColumnNote::OfNumbers { column: column.clone(), form: time.form }));
        let missing = self.selected.missing == Missing::Indicator && found.missing > 0;
        Some(CodedColumn { name: column, code: time.map_or(Code::Number, Code::Time), missing })
    }

    /// Rejects text that is mostly numbers: a column of measurements with a word among them is not
    /// meant as categories.
    fn refuse_odd_numbers(&self, place: usize, found: &Found) -> Result<()> {
        let odd: Vec<&Arc<str>> = found.texts.iter().filter(|text| text.trim().parse::<f64>().is_err()).collect();
        let (all, numbers) = (found.texts.len(), found.texts.len() - odd.len());
        let Some(word) = odd.into_iter().min().filter(|_| all >= FEWEST_NUMBERS && 10 * numbers > 9 * all) else {
            return Ok(());
        };
        let (all, numbers) = (shown::count(all as u64), shown::count(numbers as u64));
        let word = shown::short(word);
        let expected = format!(
            "{numbers} of its {all} values are numbers, and {word:?} is not; correct it, or name the column in `categories`"
        );
        Err(self.selected.table.wrong_type(self.selected.features[place], &expected))
    }

    #[cold]
    fn missing(&self, column: usize, row: u64) -> Error {
        let remedy = match self.selected.missing {
            Missing::Mean => "only numbers have a mean: choose `missing` indicator or `missing` drop",
            _ => "clean the data or choose `missing` indicator or `missing` drop",
        };
        self.selected.bad_category(self.searched[column].place, row, "missing", remedy)
    }
}

impl Fold<f64> for ColumnSearch {
    type State = FoundColumns;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> FoundColumns {
        let searched = vec![Found::default(); self.searched.len()];
        FoundColumns { limit: self.limit.min(LABEL_LIMIT), rows: 0, searched, numbers: vec![0; self.numbers.len()] }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut FoundColumns, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        state.rows += block.len() as u64;
        if !self.numbers.is_empty() {
            for row in block.x.chunks_exact(block.d) {
                let counts = state.numbers.iter_mut().zip(row);
                counts.filter(|(_, value)| !value.is_finite()).for_each(|(count, _)| *count += 1);
            }
        }
        for (at, (found, column)) in state.searched.iter_mut().zip(block.kept).enumerate() {
            for (i, row) in block.rows.iter().enumerate() {
                match column.is_null(i) || is_nan(column, i) {
                    true => self.without_value(at, *row, found)?,
                    false => self.see(at, *row, column.values(), i, found)?,
                }
            }
        }
        Ok(())
    }
}

impl ColumnSearch {
    /// Counts a missing value, or returns an error. In a column that may hold times, the error is
    /// returned later, if the column turns out to hold no times.
    fn without_value(&self, at: usize, row: u64, found: &mut Found) -> Result<()> {
        match self.selected.missing {
            _ if self.searched[at].role == Role::Odd => found.missing += 1,
            Missing::Indicator => found.missing += 1,
            Missing::Mean if self.searched[at].role.has_times() => {
                found.missing_at = Some(found.missing_at.map_or(row, |first| first.min(row)));
            }
            _ => return Err(self.missing(at, row)),
        }
        Ok(())
    }

    /// Adds value `i` of a column in a stored row.
    fn see(&self, at: usize, row: u64, values: &KeptValues, i: usize, found: &mut Found) -> Result<()> {
        let Searched { place, role, stored } = self.searched[at];
        match (values, stored.filter(|_| role.has_times())) {
            (KeptValues::Text(texts), _) => {
                if role.has_times() {
                    found.times.text(texts.text(i));
                }
                if role.has_values() {
                    found.text(texts.text(i), self.limit);
                }
            }
            (values, _) if role == Role::Odd => {
                found.numerals.see(values.number(i).unwrap_or(f64::NAN), row);
            }
            (KeptValues::I64(values), Some((per_day, form))) => found.times.stored(values[i], per_day, form),
            (values, _) => {
                let value = label(values, i).ok_or_else(|| {
                    let remedy =
                        "a category must be an integer, a boolean or text; remove the column from `categories`";
                    self.selected.bad_category(place, row, "not an integer of 64 bits", remedy)
                })?;
                found.value(value, self.limit);
            }
        }
        Ok(())
    }
}

fn is_nan(column: &KeptColumn, row: usize) -> bool {
    column.values().number(row).is_some_and(f64::is_nan)
}

/// Returns the value of a row as a label; `None` for a fraction and for bytes.
fn label(values: &KeptValues, row: usize) -> Option<Label> {
    match values {
        KeptValues::I64(values) => Some(Label::Int(values[row])),
        KeptValues::U64(values) => i64::try_from(values[row]).ok().map(Label::Int),
        KeptValues::Bool(values) => Some(Label::Bool(values[row])),
        other => crate::labels::whole_number(other.number(row)?).map(Label::Int),
    }
}
