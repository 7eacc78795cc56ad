//! Dates and times as features: a position, and the phase in the day, the week and the year.
//!
//! The position is the number of days since 1970-01-01 or, for times without a date, the fraction
//! of the day that has passed. A cycle is a pair of features: the sine and cosine of 2π times the
//! fraction of the period that has passed. In these features, 23:59 is near 0:00. A cycle is used
//! if the values of the fit span at least one period, and do not all have the same phase.
//!
//! A column holds times if the file stores times. A text column holds times if every value can be
//! read as a time in the same form ([`TimeForm`]). A file format with a time type and one without
//! it therefore give bit-identical features.

use super::expand::is_missing;
use crate::dates::{self, Instant, TimeForm};
use crate::view::ColumnView;
use crate::{Error, Result, missing, schema::Kind};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Features of a column of dates or times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum TimeFeatures {
    /// No features: the column is omitted. If a column is named whose file stores times as numbers,
    /// its feature is the stored number. A column of text is a category only if it is named as one.
    None,
    /// The position only.
    Position,
    /// The position, and the cycles that the rows of the fit cover.
    #[default]
    Cyclic,
}

impl TimeFeatures {
    /// All values, in the order of messages.
    #[doc(hidden)]
    pub const ALL: [Self; 3] = [Self::None, Self::Position, Self::Cyclic];

    /// Returns the name: `none`, `position` or `cyclic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Position => "position",
            Self::Cyclic => "cyclic",
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl TryFrom<String> for TimeFeatures {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        let expected = || format!("choose {}", Self::ALL.map(Self::name).join(", "));
        let times = Self::ALL.into_iter().find(|times| times.name() == name);
        times.ok_or_else(|| Error::Syntax { what: "`times`", text: name, expected: expected() })
    }
}

/// A period with which times repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cycle {
    /// The time of day.
    Hour,
    /// The day of the week, with the time of day.
    Weekday,
    /// The day of the year, with the time of day.
    Yearday,
}

/// Minimum difference between the largest and the smallest phase of a column's values, as a
/// fraction of the period. Dates that lie on the same day of every year do not get a yearly cycle.
const MIN_SPREAD: f64 = 0.01;

/// Minimum difference between the largest and the smallest of times without a date, as a fraction
/// of the day, for a daily cycle. In the cycle the end of the day is next to its beginning.
pub(crate) const MIN_DAY_SPREAD: f64 = 0.5;

impl Cycle {
    const ALL: [Self; 3] = [Self::Hour, Self::Weekday, Self::Yearday];

    fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Weekday => "weekday",
            Self::Yearday => "yearday",
        }
    }

    fn period_days(self) -> f64 {
        match self {
            Self::Hour => 1.0,
            Self::Weekday => 7.0,
            Self::Yearday => 365.0,
        }
    }

    fn phase(self, instant: Instant) -> f64 {
        match self {
            Self::Hour => instant.day_fraction(),
            // 1970-01-01 was a Thursday, and weeks begin on Mondays
            Self::Weekday => ((instant.day + 3).rem_euclid(7) as f64 + instant.day_fraction()) / 7.0,
            Self::Yearday => dates::year_fraction(instant),
        }
    }
}

/// How a column of dates or times becomes features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeEncoding {
    /// Form of the values; the default form if the file stores them as times.
    #[serde(default, skip_serializing_if = "is_default_form")]
    pub form: TimeForm,
    /// Cycles of the column.
    pub cycles: Vec<Cycle>,
}

fn is_default_form(form: &TimeForm) -> bool {
    *form == TimeForm::default()
}

impl TimeEncoding {
    pub(crate) fn feature_count(&self) -> usize {
        1 + 2 * self.cycles.len()
    }

    /// Returns the names of the features: `date`, `date.hour.sin`, `date.hour.cos`.
    pub(crate) fn feature_names<'a>(&'a self, column: &'a str) -> impl Iterator<Item = String> + 'a {
        let name_pair = move |cycle: &Cycle| ["sin", "cos"].map(|part| format!("{column}.{}.{part}", cycle.name()));
        std::iter::once(column.to_string()).chain(self.cycles.iter().flat_map(name_pair))
    }

    pub(crate) fn feature_values(&self, instant: Instant) -> impl Iterator<Item = f64> {
        let sin_cos = move |cycle: &Cycle| <[f64; 2]>::from((TAU * cycle.phase(instant)).sin_cos());
        std::iter::once(instant.days()).chain(self.cycles.iter().flat_map(sin_cos))
    }
}

impl std::fmt::Display for TimeEncoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cycles = self.cycles.iter().map(|cycle| cycle.name());
        f.write_str(&["time"].into_iter().chain(cycles).collect::<Vec<_>>().join(", "))
    }
}

/// Reads the values of a column of dates or times as instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeReader {
    form: TimeForm,
    /// Number of units per day, for a number that counts units of time; 0 for text and for numbers
    /// that encode times or dates in their digits.
    units_per_day: i64,
}

impl TimeReader {
    /// Returns the reader of a column of this kind; `None` if the kind cannot hold times in this
    /// form.
    pub(crate) fn new(form: TimeForm, kind: &Kind) -> Option<Self> {
        match (kind, form) {
            (_, TimeForm::HourMinute) => kind.is_numeric().then_some(Self { form, units_per_day: 0 }),
            (Kind::Time(time_type), _) => Some(Self { form, units_per_day: dates::units_per_day(time_type) }),
            // another file may store the same dates as text
            (Kind::Text, TimeForm::YearMonthDay) => Some(Self { form: TimeForm::YearFirst, units_per_day: 0 }),
            (Kind::Int { .. } | Kind::Float { .. }, TimeForm::YearMonthDay) => Some(Self { form, units_per_day: 0 }),
            // a column of floats has only missing values in this file; if it has a number, reading
            // the number is an error
            (Kind::Text | Kind::Float { .. }, _) => Some(Self { form, units_per_day: 0 }),
            _ => None,
        }
    }

    pub(crate) fn is_missing(view: &ColumnView<'_>, row: usize) -> bool {
        view.text(row).is_some_and(missing::is_missing_word) || is_missing(view, row)
    }

    pub(crate) fn remedy(&self) -> &'static str {
        match self.form {
            TimeForm::HourMinute => {
                "write it as hours x 100 + minutes like the other values, such as 517 for 5:17; or choose `times` none"
            }
            _ => "write it like the other values, such as 2024-01-31 or 2024-01-31T12:30; or choose `times` none",
        }
    }

    /// Returns the instant in a row, or `None` if the row has no value. If the value is not a time
    /// in the form of the column, the error is the text of the value.
    pub(crate) fn read_instant(&self, view: &ColumnView<'_>, row: usize) -> Result<Option<Instant>, String> {
        if Self::is_missing(view, row) {
            return Ok(None);
        }
        if self.units_per_day == 0 && view.bytes(row).is_none() {
            let value = view.number(row);
            return dates::decode_number(value, self.form).map(Some).ok_or_else(|| value.to_string());
        }
        match (view.text(row), view.integer(row).map(i64::try_from)) {
            (Some(text), _) => match dates::parse_instant(text, self.form) {
                Some(instant) => Ok(Some(instant)),
                None => Err(format!("{:?}", crate::display::truncate(text))),
            },
            (None, Some(Ok(stored))) if self.units_per_day > 0 => {
                Ok(Some(Instant::from_stored(stored, self.units_per_day)))
            }
            _ => Err("not a time".to_string()),
        }
    }
}

/// The range of the values of a column that may hold times. There is one range for each form in
/// which all values can be read.
#[derive(Clone, Debug)]
pub(crate) struct TimeSpans {
    spans: [Option<TimeSpan>; TimeForm::TEXT_AND_STORED.len()],
    pub(crate) missing_word_count: u64,
}

/// The range of the times of a column, in days, and the ranges of their phases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSpan {
    min_days: f64,
    max_days: f64,
    /// Minimum and maximum phase of the values, for each cycle.
    phase_ranges: [[f64; 2]; 3],
}

impl TimeSpan {
    pub(crate) const EMPTY: Self = Self {
        min_days: f64::INFINITY,
        max_days: f64::NEG_INFINITY,
        phase_ranges: [[f64::INFINITY, f64::NEG_INFINITY]; 3],
    };

    pub(crate) fn add(&mut self, instant: Instant) {
        let phases = Cycle::ALL.map(|cycle| [cycle.phase(instant); 2]);
        self.merge(&Self { min_days: instant.days(), max_days: instant.days(), phase_ranges: phases });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        (self.min_days, self.max_days) = (self.min_days.min(other.min_days), self.max_days.max(other.max_days));
        for (range, other) in self.phase_ranges.iter_mut().zip(other.phase_ranges) {
            *range = [range[0].min(other[0]), range[1].max(other[1])];
        }
    }

    /// Returns the cycles with at least one period covered by the times, with different phases.
    pub(crate) fn covered_cycles(&self, form: TimeForm) -> Vec<Cycle> {
        let spread = |index: usize| self.phase_ranges[index][1] - self.phase_ranges[index][0];
        let is_covered = |(index, cycle): &(usize, Cycle)| match form {
            // a duration has no phase in the day; for hours and minutes written as an integer,
            // `integer_forms` decides
            TimeForm::Duration | TimeForm::HourMinute => false,
            TimeForm::TimeOfDay => *cycle == Cycle::Hour && spread(*index) >= MIN_DAY_SPREAD,
            _ => self.max_days - self.min_days >= cycle.period_days() && spread(*index) >= MIN_SPREAD,
        };
        Cycle::ALL.into_iter().enumerate().filter(is_covered).map(|(_, cycle)| cycle).collect()
    }
}

impl Default for TimeSpans {
    fn default() -> Self {
        Self { spans: [Some(TimeSpan::EMPTY); TimeForm::TEXT_AND_STORED.len()], missing_word_count: 0 }
    }
}

impl TimeSpans {
    /// Adds a text. Returns immediately if the texts so far have no common form.
    pub(crate) fn add_text(&mut self, text: &str) {
        if self.spans.iter().all(Option::is_none) {
            return;
        }
        if missing::is_missing_word(text) {
            self.missing_word_count += 1;
            return;
        }
        for (span, form) in self.spans.iter_mut().zip(TimeForm::TEXT_AND_STORED) {
            *span = span.and_then(|mut span| {
                span.add(dates::parse_instant(text, form)?);
                Some(span)
            });
        }
    }

    pub(crate) fn add_stored(&mut self, value: i64, units_per_day: i64, stored_form: TimeForm) {
        for (span, form) in self.spans.iter_mut().zip(TimeForm::TEXT_AND_STORED) {
            *span = span.filter(|_| form == stored_form);
            span.iter_mut().for_each(|span| span.add(Instant::from_stored(value, units_per_day)));
        }
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        self.missing_word_count += later.missing_word_count;
        for (span, later) in self.spans.iter_mut().zip(&later.spans) {
            *span = span.zip(*later).map(|(mut span, later)| {
                span.merge(&later);
                span
            });
        }
    }

    fn matching_forms(&self) -> impl Iterator<Item = (TimeForm, &TimeSpan)> {
        let spans = TimeForm::TEXT_AND_STORED.into_iter().zip(&self.spans);
        spans.filter_map(|(form, span)| {
            span.as_ref().filter(|span| span.min_days <= span.max_days).map(|span| (form, span))
        })
    }

    /// Returns the encoding of the column; `None` if it holds no times.
    pub(crate) fn encoding(&self, cyclic: bool) -> Option<TimeEncoding> {
        let (form, span) = self.matching_forms().next()?;
        Some(TimeEncoding { form, cycles: if cyclic { span.covered_cycles(form) } else { Vec::new() } })
    }

    pub(crate) fn is_ambiguous(&self) -> bool {
        self.matching_forms().count() > 1
    }

    /// Returns the earliest and the latest time in ISO 8601; `None` if the column holds no times.
    pub(crate) fn range(&self) -> Option<(String, String)> {
        let (form, span) = self.matching_forms().next()?;
        let format_days = |days: f64| dates::format_instant(Instant::from_days(days), form);
        Some((format_days(span.min_days), format_days(span.max_days)))
    }
}
