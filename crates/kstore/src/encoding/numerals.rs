//! Integer columns that are something else: dates written as 20240131, times of day written as
//! hours x 100 + minutes, and row counters.
//!
//! A column holds times of day if every value lies in 0 … 2400 and its last two digits are below
//! 60, and if chance is excluded: at least 40 different values, at least 6 different hours, and
//! minutes in every ten from 0 to 59. The last two digits of a random number are below 60 with
//! probability 0.6, so that 40 such values occur by chance once in 10⁹ columns; round numbers, such
//! as multiples of 50, lack the minutes.

use super::coding::{Asked, Coding};
use super::time::{Cycle, MOST_OF_A_DAY, Span};
use super::{ColumnNote, Role, TimeCode, Times};
use crate::dates::{self, TimeForm};
use crate::{Reading, Result, RowBuf, RowSource, missing::Missing, schema::Kind, select::Selected};
use std::{collections::HashSet, ops::Range, sync::Arc};

const TIMES: usize = 40;

/// Minimum number of different hours, in all rows and in the rows of the first inspection.
const HOURS: (usize, usize) = (6, 3);

const FEWEST_COUNTED: u64 = 50;

const FEWEST_DATES: u64 = 5;

/// Number of rows that are inspected for such columns, and the number of positions they are read
/// from: tables are often sorted.
const LOOKED_AT: (u64, u64) = (1024, 4);

const WORDS: usize = 2400 / 64 + 1;

#[derive(Clone, Debug)]
pub(super) struct Numerals {
    /// Bit set of the times of day that occur; `None` if any value is not a time of day.
    times: Option<Box<[u64; WORDS]>>,
    /// Range of the dates; `None` if any value is not a date.
    dates: Option<Span>,
    /// Minimum and maximum of the value minus its row number.
    ahead: [f64; 2],
    values: u64,
}

impl Default for Numerals {
    fn default() -> Self {
        let (times, dates) = (Some(Box::new([0; WORDS])), Some(Span::EMPTY));
        Self { times, dates, ahead: [f64::INFINITY, f64::NEG_INFINITY], values: 0 }
    }
}

impl Numerals {
    pub(super) const BYTES: usize = WORDS * 8;

    pub(super) fn see(&mut self, value: f64, row: u64) {
        let ahead = value - row as f64;
        (self.ahead, self.values) = ([self.ahead[0].min(ahead), self.ahead[1].max(ahead)], self.values + 1);
        self.dates = self.dates.take().and_then(|mut span| {
            span.see(dates::of_number(value, TimeForm::YearMonthDay)?);
            Some(span)
        });
        match self.times.as_mut().filter(|_| dates::of_number(value, TimeForm::HourMinute).is_some()) {
            Some(times) => times[value as usize / 64] |= 1 << (value as usize % 64),
            None => self.times = None,
        }
    }

    pub(super) fn merge(&mut self, later: &Self) {
        self.ahead = [self.ahead[0].min(later.ahead[0]), self.ahead[1].max(later.ahead[1])];
        self.values += later.values;
        self.dates = self.dates.take().zip(later.dates).map(|(mut span, later)| {
            span.merge(&later);
            span
        });
        self.times = self.times.take().zip(later.times.as_ref()).map(|(mut times, later)| {
            times.iter_mut().zip(&**later).for_each(|(word, later)| *word |= later);
            times
        });
    }

    /// Returns the different times of day, in order; empty if any value is not a time of day.
    fn times(&self) -> Vec<usize> {
        let occurs =
            |value: &usize| self.times.as_ref().is_some_and(|times| times[value / 64] >> (value % 64) & 1 == 1);
        (0..=2400).filter(occurs).collect()
    }

    /// Returns whether the values so far may be something other than numbers.
    pub(super) fn is_odd(&self) -> bool {
        self.counts() || self.has_dates() || different(self.times().iter().map(|time| time / 100)) >= HOURS.1
    }

    /// Returns whether the values count the rows consecutively, from any first value.
    pub(super) fn counts(&self) -> bool {
        self.values >= FEWEST_COUNTED && self.ahead[0] == self.ahead[1]
    }

    /// Returns whether every value is a date. One in a thousand numbers of eight digits is a date.
    fn has_dates(&self) -> bool {
        self.values >= FEWEST_DATES && self.dates.is_some()
    }

    /// Returns the code of times of day or dates; `None` if the values are neither, or only by
    /// chance.
    pub(super) fn code(&self, cyclic: bool) -> Option<TimeCode> {
        let form = TimeForm::YearMonthDay;
        if let Some(span) = self.dates.as_ref().filter(|_| self.has_dates()) {
            return Some(TimeCode { form, cycles: if cyclic { span.cycles(form) } else { Vec::new() } });
        }
        let times = self.times();
        let hours = different(times.iter().map(|time| time / 100));
        let tens = different(times.iter().map(|time| time % 100 / 10));
        let chance = times.len() < TIMES || hours < HOURS.0 || tens < 6;
        let part =
            |time: Option<&usize>| dates::of_number(*time? as f64, TimeForm::HourMinute).map(dates::Instant::days);
        let spread = part(times.last())? - part(times.first())?;
        let cycles = if cyclic && spread >= MOST_OF_A_DAY { vec![Cycle::Hour] } else { Vec::new() };
        (!chance).then_some(TimeCode { form: TimeForm::HourMinute, cycles })
    }
}

impl Selected {
    /// Returns the selection without columns that have no value, and a note about them. If a few
    /// rows suggest that numeric columns are something else, a search must still inspect their
    /// values. Columns of an array, which have no names, are left unchanged.
    #[must_use]
    #[doc(hidden)]
    pub fn looked(&self) -> (Self, Option<ColumnNote>) {
        if !self.table.parts().iter().all(|part| part.file.is_named()) {
            return (self.clone(), None);
        }
        let (selected, note) = self.without_blank();
        (selected.numerals(), note)
    }

    /// Returns the bytes of memory for the inspection of columns: the decoder of the columns in the
    /// largest file.
    #[doc(hidden)]
    pub fn look_bytes(&self) -> usize {
        self.table.parts().iter().map(|part| part.file.footprint(&self.features)).max().unwrap_or(0)
    }

    fn numerals(&self) -> Self {
        let (Coding::Plain(Some(asked)) | Coding::Asked(asked)) = &self.coding else { return self.clone() };
        let numeric = |place: &usize| {
            let kind = &self.table.schema().columns[self.features[*place]].kind;
            asked.roles[*place] == Role::Number && matches!(kind, Kind::Int { .. } | Kind::Float { .. })
        };
        let places: Vec<usize> = (0..self.features.len()).filter(numeric).collect();
        if places.is_empty() {
            return self.clone();
        }
        // an error of this inspection is ignored: the next pass reports it
        let looks = self.some_rows(&places).unwrap_or_default();
        let alone = self.features.len() == 1;
        let odd = |place: usize, look: &Numerals| match look.counts() {
            true => !alone && !asked.named[place],
            false => asked.times != Times::None && look.is_odd(),
        };
        let mut roles = asked.roles.clone();
        let found = places.iter().zip(&looks).filter(|(place, look)| odd(**place, look));
        found.for_each(|(place, _)| roles[*place] = Role::Odd);
        if roles == asked.roles {
            return if matches!(self.coding, Coding::Plain(_)) { self.plain() } else { self.clone() };
        }
        Self { coding: Coding::Asked(Arc::new(Asked { roles, ..(**asked).clone() })), ..self.clone() }
    }

    /// Inspects the numeric columns `places` in a few rows of the table.
    fn some_rows(&self, places: &[usize]) -> Result<Vec<Numerals>> {
        let features = places.iter().map(|place| self.features[*place]).collect();
        let alone = Self { weight: None, ..self.alone() };
        let read = Self { features, filter: None, missing: Missing::Mean, ..alone };
        let source = read.counting_apart().rows::<f64>(Reading::default())?;
        let (Range { start, end }, (most, parts), mut buffer) = (source.range(), LOOKED_AT, RowBuf::new(256));
        let mut looks = vec![Numerals::default(); places.len()];
        for part in 0..parts.min(end - start) {
            let [first, last] = [part, part + 1].map(|part| start + (end - start) * part / parts.min(end - start));
            let mut cursor = source.open(first..last.min(first + most / parts))?;
            while cursor.next(&mut buffer)? {
                for (row, values) in buffer.rows.iter().zip(buffer.x.chunks_exact(places.len())) {
                    let values = looks.iter_mut().zip(values).filter(|(_, value)| value.is_finite());
                    values.for_each(|(look, value)| look.see(*value, *row));
                }
            }
        }
        Ok(looks)
    }
}

fn different(values: impl Iterator<Item = usize>) -> usize {
    values.collect::<HashSet<_>>().len()
}
