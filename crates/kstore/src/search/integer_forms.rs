//! Integer columns whose values are not quantities: dates written as 20240131, times of day written
//! as hours x 100 + minutes, and row counters.
//!
//! A column holds times of day if every value lies in 0 … 2400 and the last two digits of every
//! value are below 60. To exclude chance, the column must also have at least 40 different values,
//! at least 6 different hours, and minutes in each of the ranges 0 to 9, 10 to 19, …, 50 to 59. The
//! last two digits of a random number are below 60 with probability 0.6, so all 40 values satisfy
//! this condition by chance in one of 10⁹ columns. Because of the last condition, round numbers
//! such as multiples of 50 are not times of day.

use super::ColumnNote;
use crate::dates::{self, TimeForm};
use crate::encoding::time::{MIN_DAY_SPREAD, TimeSpan};
use crate::encoding::{Cycle, TimeEncoding, TimeFeatures};
use crate::select::{EncodingRequest, EncodingState, INSPECTED_TILE_ROWS, Role, SelectedTable};
use crate::{ReadSettings, Result, RowBuf, RowSource, missing::Missing, schema::Kind};
use std::{collections::HashSet, ops::Range, sync::Arc};

/// Minimum number of different times of day.
const MIN_TIMES: usize = 40;

/// Minimum number of different hours in all rows.
const MIN_HOURS: usize = 6;

/// Minimum number of different hours in the few rows that are inspected first.
const MIN_INSPECTED_HOURS: usize = 3;

/// Minimum number of values of a row counter.
const MIN_COUNTER_ROWS: u64 = 50;

/// Minimum number of values of a column of dates.
const MIN_DATES: u64 = 5;

/// Number of rows that are inspected for such columns.
const INSPECTED_ROWS: u64 = 1024;

/// Number of places in the table from which the inspected rows are read. There are several places,
/// because tables are often sorted.
const INSPECTED_PLACES: u64 = 4;

/// Number of words of a bit set of the numbers 0 to 2400.
const BIT_SET_WORDS: usize = 2400 / 64 + 1;

/// The forms that all values of a column have so far: times of day, dates, or a row counter.
#[derive(Clone, Debug)]
pub(super) struct IntegerForms {
    /// Bit set of the times of day that occur; `None` if any value is not a time of day.
    time_bits: Option<Box<[u64; BIT_SET_WORDS]>>,
    /// Range of the dates; `None` if any value is not a date.
    date_span: Option<TimeSpan>,
    /// Minimum and maximum of the value minus its row number.
    offset_range: [f64; 2],
    value_count: u64,
}

impl Default for IntegerForms {
    fn default() -> Self {
        let (times, dates) = (Some(Box::new([0; BIT_SET_WORDS])), Some(TimeSpan::EMPTY));
        Self { time_bits: times, date_span: dates, offset_range: [f64::INFINITY, f64::NEG_INFINITY], value_count: 0 }
    }
}

impl IntegerForms {
    pub(super) const BYTES: usize = BIT_SET_WORDS * 8;

    pub(super) fn add(&mut self, value: f64, row: u64) {
        let offset = value - row as f64;
        (self.offset_range, self.value_count) =
            ([self.offset_range[0].min(offset), self.offset_range[1].max(offset)], self.value_count + 1);
        self.date_span = self.date_span.take().and_then(|mut span| {
            span.add(dates::decode_number(value, TimeForm::YearMonthDay)?);
            Some(span)
        });
        match self.time_bits.as_mut().filter(|_| dates::decode_number(value, TimeForm::HourMinute).is_some()) {
            Some(times) => times[value as usize / 64] |= 1 << (value as usize % 64),
            None => self.time_bits = None,
        }
    }

    pub(super) fn merge(&mut self, later: &Self) {
        self.offset_range =
            [self.offset_range[0].min(later.offset_range[0]), self.offset_range[1].max(later.offset_range[1])];
        self.value_count += later.value_count;
        self.date_span = self.date_span.take().zip(later.date_span).map(|(mut span, later)| {
            span.merge(&later);
            span
        });
        self.time_bits = self.time_bits.take().zip(later.time_bits.as_ref()).map(|(mut times, later)| {
            times.iter_mut().zip(&**later).for_each(|(word, later)| *word |= later);
            times
        });
    }

    /// Returns the different times of day, in order; empty if any value is not a time of day.
    fn distinct_times(&self) -> Vec<usize> {
        let occurs =
            |value: &usize| self.time_bits.as_ref().is_some_and(|times| times[value / 64] >> (value % 64) & 1 == 1);
        (0..=2400).filter(occurs).collect()
    }

    /// Returns whether the values so far may be something other than numbers.
    pub(super) fn is_suspect(&self) -> bool {
        self.is_row_counter()
            || self.holds_dates()
            || count_distinct(self.distinct_times().iter().map(|time| time / 100)) >= MIN_INSPECTED_HOURS
    }

    /// Returns whether the values are consecutive numbers, which count the rows from any first
    /// value.
    pub(super) fn is_row_counter(&self) -> bool {
        self.value_count >= MIN_COUNTER_ROWS && self.offset_range[0] == self.offset_range[1]
    }

    /// Returns whether every value is a date. Of random numbers with eight digits, one in a
    /// thousand is a date.
    fn holds_dates(&self) -> bool {
        self.value_count >= MIN_DATES && self.date_span.is_some()
    }

    /// Returns the encoding of a column of times of day or dates; `None` if the values are neither,
    /// or if they may look like times of day by chance.
    pub(super) fn encoding(&self, cyclic: bool) -> Option<TimeEncoding> {
        let form = TimeForm::YearMonthDay;
        if let Some(span) = self.date_span.as_ref().filter(|_| self.holds_dates()) {
            return Some(TimeEncoding { form, cycles: if cyclic { span.covered_cycles(form) } else { Vec::new() } });
        }
        let times = self.distinct_times();
        let hour_count = count_distinct(times.iter().map(|time| time / 100));
        let minute_tens_count = count_distinct(times.iter().map(|time| time % 100 / 10));
        let may_be_chance = times.len() < MIN_TIMES || hour_count < MIN_HOURS || minute_tens_count < 6;
        let days_of =
            |time: Option<&usize>| dates::decode_number(*time? as f64, TimeForm::HourMinute).map(dates::Instant::days);
        let spread = days_of(times.last())? - days_of(times.first())?;
        let cycles = if cyclic && spread >= MIN_DAY_SPREAD { vec![Cycle::Hour] } else { Vec::new() };
        (!may_be_chance).then_some(TimeEncoding { form: TimeForm::HourMinute, cycles })
    }
}

impl SelectedTable {
    /// Returns the selection without the columns that have no value, and a note about these
    /// columns. If a few rows suggest that a numeric column holds dates, times of day or a row
    /// counter, the column is marked, and a search must inspect its values. The columns of an array
    /// have no names, and are left unchanged.
    #[must_use]
    #[doc(hidden)]
    pub fn inspect_columns(&self) -> (Self, Option<ColumnNote>) {
        if !self.table.parts().iter().all(|part| part.file.has_column_names()) {
            return (self.clone(), None);
        }
        let (selected, note) = self.without_blank_columns();
        (selected.mark_suspects(), note)
    }

    /// Returns the bytes of memory for the inspection of the largest group of columns.
    #[doc(hidden)]
    pub fn inspection_bytes(&self) -> usize {
        let groups = self.table.column_groups(&self.features);
        groups.into_iter().map(|group| self.table.inspection_bytes(group)).max().unwrap_or(0)
    }

    fn mark_suspects(&self) -> Self {
        let (EncodingState::Numeric(Some(request)) | EncodingState::Pending(request)) = &self.encoding_state else {
            return self.clone();
        };
        let is_number = |index: &usize| {
            let kind = &self.table.schema().columns[self.features[*index]].kind;
            request.roles[*index] == Role::Number && matches!(kind, Kind::Int { .. } | Kind::Float { .. })
        };
        let indices: Vec<usize> = (0..self.features.len()).filter(is_number).collect();
        if indices.is_empty() {
            return self.clone();
        }
        // an error of this inspection is ignored: the next pass reports it
        let columns: Vec<usize> = indices.iter().map(|index| self.features[*index]).collect();
        let groups = self.table.column_groups(&columns).into_iter().map(|group| self.inspect_rows(group));
        let integer_forms = groups.collect::<Result<Vec<_>>>().unwrap_or_default().concat();
        let is_only_feature = self.features.len() == 1;
        let is_suspect = |index: usize, forms: &IntegerForms| match forms.is_row_counter() {
            true => !is_only_feature && !request.is_named[index],
            false => request.times != TimeFeatures::None && forms.is_suspect(),
        };
        let mut roles = request.roles.clone();
        let suspects = indices.iter().zip(&integer_forms).filter(|(index, forms)| is_suspect(**index, forms));
        suspects.for_each(|(index, _)| roles[*index] = Role::Suspect);
        if roles == request.roles {
            return if matches!(self.encoding_state, EncodingState::Numeric(_)) {
                self.without_encoding()
            } else {
                self.clone()
            };
        }
        Self {
            encoding_state: EncodingState::Pending(Arc::new(EncodingRequest { roles, ..(**request).clone() })),
            ..self.clone()
        }
    }

    /// Inspects numeric columns in a few rows of the table.
    fn inspect_rows(&self, columns: &[usize]) -> Result<Vec<IntegerForms>> {
        let features_only = Self { weight: None, ..self.features_only() };
        let sample = Self { features: columns.to_vec(), filter: None, missing: Missing::Mean, ..features_only };
        let source = sample.with_new_byte_counter().rows::<f64>(ReadSettings::default())?;
        let (Range { start, end }, mut buffer) = (source.range(), RowBuf::new(INSPECTED_TILE_ROWS));
        let place_count = INSPECTED_PLACES.min(end - start);
        let mut integer_forms = vec![IntegerForms::default(); columns.len()];
        for place in 0..place_count {
            let [first, last] = [place, place + 1].map(|part| start + (end - start) * part / place_count);
            let mut cursor = source.open(first..last.min(first + INSPECTED_ROWS / INSPECTED_PLACES))?;
            while cursor.next(&mut buffer)? {
                for (row, values) in buffer.row_numbers.iter().zip(buffer.x.chunks_exact(columns.len())) {
                    let values = integer_forms.iter_mut().zip(values).filter(|(_, value)| value.is_finite());
                    values.for_each(|(forms, value)| forms.add(*value, *row));
                }
            }
        }
        Ok(integer_forms)
    }
}

fn count_distinct(values: impl Iterator<Item = usize>) -> usize {
    values.collect::<HashSet<_>>().len()
}
