//! Dates and times: instants, their text form (ISO 8601), and the forms in which text can be read
//! as a date or time.

use crate::arrow::datatypes::{DataType, TimeUnit};
use crate::schema::Kind;
use chrono::{Datelike, NaiveDate, Weekday};
use serde::{Deserialize, Serialize};

const DAY_SECONDS: i64 = 86_400;

const DAY_NANOS: i64 = DAY_SECONDS * 1_000_000_000;

/// The form of the dates and times of a column: the order of their parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeForm {
    /// `2024-01-31`, `2024/1/31`, `2024-01`, `20240131`, `2024-Jan-31`, `2024-W05-3`, optionally
    /// followed by `T12:30` or ` 12:30:59.5+02:00`; also every date or timestamp that a file stores
    /// as such.
    #[default]
    YearFirst,
    /// `1/31/2024`, `01-31-24`, `January 31, 2024`.
    MonthFirst,
    /// `31.1.2024`, `31/01/24`, `31-Jan-24`.
    DayFirst,
    /// `12:30`, `12:30:59`: a time of day without a date.
    #[serde(rename = "of_day")]
    TimeOfDay,
    /// Durations that a file stores as such. Text is never read as a duration.
    #[serde(rename = "elapsed")]
    Duration,
    /// `517` for 5:17: a time of day as an integer, hours x 100 + minutes. Text is never read in
    /// this form.
    HourMinute,
    /// `20240131`: a date as an integer, year x 10,000 + month x 100 + day. Text is never read in
    /// this form.
    YearMonthDay,
}

impl TimeForm {
    /// The forms that are detected in text or known from a stored type. The forms of integers,
    /// `HourMinute` and `YearMonthDay`, are not among them. If a column fits several forms, the
    /// first of them is used.
    pub(crate) const TEXT_AND_STORED: [Self; 5] =
        [Self::YearFirst, Self::MonthFirst, Self::DayFirst, Self::TimeOfDay, Self::Duration];
}

/// An instant: days since 1970-01-01, and nanoseconds since the beginning of that day. If the time
/// zone is known, the instant is in UTC. A time of day has day 0. A duration has its whole days,
/// rounded down, and the remaining nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) day: i64,
    pub(crate) nanos: i64,
}

impl Instant {
    /// Converts a count of units since 1970-01-01; a day has `per_day` units.
    pub(crate) fn from_stored(value: i64, per_day: i64) -> Self {
        Self { day: value.div_euclid(per_day), nanos: value.rem_euclid(per_day) * (DAY_NANOS / per_day) }
    }

    /// Converts to a number of units (a day has `per_day` units); the inverse of
    /// [`Self::from_stored`]. If the units are too coarse for the instant, the second number is the
    /// remaining fraction of a unit.
    pub(crate) fn to_units(self, per_day: i64) -> (i128, f64) {
        let unit_nanos = DAY_NANOS / per_day;
        let units = i128::from(self.day) * i128::from(per_day) + i128::from(self.nanos / unit_nanos);
        (units, (self.nanos % unit_nanos) as f64 / unit_nanos as f64)
    }

    /// Returns the fraction of the day that has passed. The fraction is the quotient of two
    /// integers, and therefore does not depend on the unit of the file.
    pub(crate) fn day_fraction(self) -> f64 {
        self.nanos as f64 / DAY_NANOS as f64
    }

    pub(crate) fn days(self) -> f64 {
        self.day as f64 + self.day_fraction()
    }

    /// Returns the instant at the given number of days since 1970-01-01, rounded to seconds.
    pub(crate) fn from_days(days: f64) -> Self {
        let day = days.floor();
        Self {
            day: day as i64,
            nanos: (((days - day) * DAY_SECONDS as f64).round() as i64 * 1_000_000_000).min(DAY_NANOS - 1),
        }
    }
}

/// Decodes an integer that is a date from 1900 to 2099 (year x 10,000 + month x 100 + day) or a
/// time of day from 0 to 2400 (hours x 100 + minutes). Returns `None` for any other number.
pub(crate) fn decode_number(value: f64, form: TimeForm) -> Option<Instant> {
    if form == TimeForm::YearMonthDay {
        let date_number =
            (value.fract() == 0.0 && (19_000_000.0..21_000_000.0).contains(&value)).then_some(value as i64)?;
        return Some(Instant {
            day: epoch_day(date_number / 10_000, date_number / 100 % 100, date_number % 100)?,
            nanos: 0,
        });
    }
    let is_valid =
        form == TimeForm::HourMinute && value.fract() == 0.0 && (0.0..=2400.0).contains(&value) && value % 100.0 < 60.0;
    let minutes = (value as i64 / 100) * 60 + value as i64 % 100;
    is_valid.then(|| Instant::from_stored(minutes, DAY_SECONDS / 60))
}

pub(crate) fn units_per_day(time_type: &DataType) -> i64 {
    match time_type {
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            DAY_SECONDS * units_per_second(*unit)
        }
        DataType::Date64 => 1000 * DAY_SECONDS,
        _ => 1,
    }
}

/// Returns the form of a stored type: a date, a time of day, or a duration.
pub(crate) fn stored_form(time_type: &DataType) -> TimeForm {
    match time_type {
        DataType::Time32(_) | DataType::Time64(_) => TimeForm::TimeOfDay,
        DataType::Duration(_) => TimeForm::Duration,
        _ => TimeForm::YearFirst,
    }
}

/// Formats an instant in ISO 8601. The result is a date, with a time of day unless it is midnight;
/// or a time of day alone; or a duration.
pub(crate) fn format_instant(instant: Instant, form: TimeForm) -> String {
    let time_of_day = || format_time_of_day(instant.nanos / 1_000_000_000, TimeUnit::Second);
    match form {
        TimeForm::TimeOfDay | TimeForm::HourMinute => time_of_day(),
        TimeForm::Duration => format_stored(
            instant.day * DAY_SECONDS + instant.nanos / 1_000_000_000,
            &DataType::Duration(TimeUnit::Second),
        ),
        _ if instant.nanos == 0 => format_date(instant.day),
        _ => format!("{}T{}", format_date(instant.day), time_of_day()),
    }
}

/// Reads a date or time in the given form; `None` for any other text. A time with a time zone is
/// converted to UTC.
pub(crate) fn parse_instant(text: &str, form: TimeForm) -> Option<Instant> {
    let text = text.trim_ascii();
    if form == TimeForm::TimeOfDay {
        let (nanos, utc_offset) = parse_time_of_day(text)?;
        return utc_offset.is_none().then_some(Instant { day: 0, nanos });
    }
    let text_after_weekday =
        parse_name(text, WEEKDAYS).map(|(_, rest)| rest).filter(|rest| rest.starts_with([',', ' ']));
    let text = text_after_weekday.map_or(text, |rest| rest.trim_start_matches([',', ' ']));
    let (day, rest) = parse_date(text, form)?;
    if rest.is_empty() {
        return Some(Instant { day, nanos: 0 });
    }
    let (nanos, utc_offset) = parse_time_of_day(rest.strip_prefix(['T', 't', ' '])?.trim_ascii_start())?;
    let nanos = nanos - utc_offset.unwrap_or(0) * 60_000_000_000;
    Some(Instant { day: day + nanos.div_euclid(DAY_NANOS), nanos: nanos.rem_euclid(DAY_NANOS) })
}

/// Returns the microseconds since 1970 of a date or time in the given form. Also reads an integer
/// that counts seconds, milliseconds, microseconds or nanoseconds since 1970: for times from 1973
/// to 2286, the number of digits identifies the unit.
pub(crate) fn parse_timestamp(text: &str, form: TimeForm) -> Option<i64> {
    let integer = text.parse::<i64>().ok().filter(|_| !text.starts_with('+'));
    match (integer, text.trim_start_matches('-').len()) {
        (Some(seconds), 9 | 10) => seconds.checked_mul(1_000_000),
        (Some(millis), 12 | 13) => millis.checked_mul(1_000),
        (Some(micros), 15 | 16) => Some(micros),
        (Some(nanos), 18 | 19) => Some(nanos.div_euclid(1_000)),
        _ => i64::try_from(parse_instant(text, form)?.to_units(DAY_SECONDS * 1_000_000).0).ok(),
    }
}

pub(crate) fn timestamp_kind() -> Kind {
    Kind::Time(DataType::Timestamp(TimeUnit::Microsecond, None))
}

const MONTHS: &str = "january february march april may june july august september october november december";

const WEEKDAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";

/// Reads a name at the beginning of a text, or at least its first three letters. `names` is a list
/// of names with spaces between them. Returns the index of the name in the list, and the rest of
/// the text.
fn parse_name<'a>(text: &'a str, names: &str) -> Option<(usize, &'a str)> {
    let (name, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_alphabetic).count());
    let is_start = |candidate: &&str| candidate.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    Some((names.split(' ').position(|candidate| name.len() >= 3 && is_start(&candidate))?, rest))
}

/// Reads a date with the name of its month, such as `14 Jan 2021`, `14-Jan-21`, `January 14, 2021`
/// or `2021-Jan-14`; returns the day and the rest of the text.
fn parse_named_month(text: &str, form: TimeForm) -> Option<(i64, &str)> {
    fn skip_separators(rest: &str) -> Option<&str> {
        let next = rest.trim_start_matches([' ', '-', '/', '.', ',']);
        (next.len() < rest.len()).then_some(next)
    }
    let parse_month = |text| parse_name(text, MONTHS).map(|(index, rest)| (index as i64 + 1, rest));
    match form {
        TimeForm::DayFirst => {
            let (day, _, rest) = parse_digits(text)?;
            let (month, rest) = parse_month(skip_separators(rest)?)?;
            let (year, length, rest) = parse_digits(skip_separators(rest)?)?;
            Some((epoch_day(full_year(year, length)?, month, day)?, rest))
        }
        TimeForm::MonthFirst => {
            let (month, rest) = parse_month(text)?;
            let (day_or_year, length, rest) = parse_digits(skip_separators(rest)?)?;
            // a number of four digits is not a day but a year, as in `January 2021`, which means
            // the first day of the month
            if length == 4 {
                return Some((epoch_day(day_or_year, month, 1)?, rest));
            }
            let (year, length, rest) = parse_digits(skip_separators(rest)?)?;
            Some((epoch_day(full_year(year, length)?, month, day_or_year)?, rest))
        }
        TimeForm::YearFirst => {
            let (year, length, rest) = parse_digits(text)?;
            let (month, rest) = parse_month(skip_separators(rest)?)?;
            let (day, _, rest) = parse_digits(skip_separators(rest)?)?;
            Some((epoch_day(year, month, day)?, rest)).filter(|_| length == 4)
        }
        TimeForm::TimeOfDay | TimeForm::Duration | TimeForm::HourMinute | TimeForm::YearMonthDay => None,
    }
}

/// Returns the year for four or two digits. Two digits below 69 stand for 2000 to 2068, other two
/// digits for 1969 to 1999, as in POSIX.
fn full_year(year: i64, digit_count: usize) -> Option<i64> {
    match digit_count {
        4 => Some(year),
        2 => Some(year + if year < 69 { 2000 } else { 1900 }),
        _ => None,
    }
}

/// Reads a date without separators, `20210114`, or a week, `2021-W02` or `2021-W02-4`. The caller
/// has read the first number, `year`: the year, or a whole date if it has eight digits. `rest` is
/// the text after this number. Returns the day and the rest of the text.
fn parse_compact(first_number: i64, digit_count: usize, rest: &str) -> Option<(i64, &str)> {
    if digit_count == 8 {
        let (year, month, day) = (first_number / 10_000, first_number / 100 % 100, first_number % 100);
        return Some((epoch_day(year, month, day)?, rest)).filter(|_| (1800..2200).contains(&year));
    }
    let (week, _, rest) =
        parse_digits(rest.strip_prefix('-').unwrap_or(rest).strip_prefix('W')?).filter(|parsed| parsed.1 == 2)?;
    let day =
        rest.strip_prefix('-').and_then(parse_digits).filter(|(day, length, _)| (1..=7).contains(day) && *length == 1);
    let (day, rest) = day.map_or((1, rest), |(day, _, rest)| (day, rest));
    let weekday = Weekday::try_from(u8::try_from(day - 1).ok()?).ok()?;
    let date = NaiveDate::from_isoywd_opt(i32::try_from(first_number).ok()?, u32::try_from(week).ok()?, weekday)?;
    (digit_count == 4).then_some((date.to_epoch_days().into(), rest))
}

/// Reads the integer at the beginning of a text; returns the integer, the number of its digits, and
/// the rest of the text.
fn parse_digits(text: &str) -> Option<(i64, usize, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    (1..=9).contains(&length).then_some(())?;
    Some((number.parse().ok()?, length, rest))
}

/// Reads the date at the beginning of a text; returns the day and the rest of the text.
fn parse_date(text: &str, form: TimeForm) -> Option<(i64, &str)> {
    if let Some(date) = parse_named_month(text, form) {
        return Some(date);
    }
    // a, b and c are the three numbers of the date, in the order of the text
    let (a, a_digits, rest) = parse_digits(text)?;
    if form == TimeForm::YearFirst
        && let Some(date) = parse_compact(a, a_digits, rest)
    {
        return Some(date);
    }
    let separator = rest.chars().next().filter(|mark| matches!(mark, '-' | '/' | '.'))?;
    let (b, b_digits, rest) = parse_digits(&rest[1..])?;
    if form == TimeForm::YearFirst && separator == '-' && (a_digits, b_digits) == (4, 2) && rest.is_empty() {
        return Some((epoch_day(a, b, 1)?, rest));
    }
    let (c, c_digits, rest) = parse_digits(rest.strip_prefix(separator)?)?;
    let ((year, year_digits), month, (day, day_digits)) = match form {
        TimeForm::DayFirst => ((c, c_digits), b, (a, a_digits)),
        TimeForm::MonthFirst if separator != '.' => ((c, c_digits), a, (b, b_digits)),
        TimeForm::YearFirst => ((a, a_digits), b, (c, c_digits)),
        TimeForm::MonthFirst
        | TimeForm::TimeOfDay
        | TimeForm::Duration
        | TimeForm::HourMinute
        | TimeForm::YearMonthDay => {
            return None;
        }
    };
    // a year of two digits needs two digits in month and day too, so that versions such as 1.10.24
    // are not dates
    let allows_short_year = form != TimeForm::YearFirst && (a_digits, b_digits) == (2, 2);
    let year = full_year(year, year_digits).filter(|_| year_digits == 4 || allows_short_year)?;
    (day_digits <= 2 && b_digits <= 2).then_some(())?;
    Some((epoch_day(year, month, day)?, rest))
}

/// Returns the nanoseconds since midnight and, if the text has a time zone, the UTC offset in
/// minutes.
fn parse_time_of_day(text: &str) -> Option<(i64, Option<i64>)> {
    let two_digits = |(number, length, rest)| (length == 2).then_some((number, rest));
    let (mut hour, length, rest) = parse_digits(text)?;
    let (minute, mut rest) = two_digits(parse_digits(rest.strip_prefix(':')?)?)?;
    let (mut second, mut nanos) = (0, 0);
    if let Some(after_colon) = rest.strip_prefix(':') {
        (second, rest) = two_digits(parse_digits(after_colon)?)?;
        if let Some(fraction_text) = rest.strip_prefix(['.', ',']) {
            let length = fraction_text.bytes().take_while(u8::is_ascii_digit).count();
            nanos = format!("{:0<9.9}", &fraction_text[..length]).parse().ok().filter(|_| length > 0)?;
            rest = &fraction_text[length..];
        }
    }
    let half_day_suffix = rest.trim_ascii_start();
    for (name, added_hours) in [("AM", 0), ("PM", 12)] {
        if let Some((_, end)) =
            half_day_suffix.split_at_checked(2).filter(|(start, _)| start.eq_ignore_ascii_case(name))
        {
            (1..=12).contains(&hour).then_some(())?;
            (hour, rest) = (hour % 12 + added_hours, end);
        }
    }
    let is_end_of_day = hour == 24 && minute == 0 && second == 0 && nanos == 0;
    // a leap second counts as the next second
    (length <= 2 && (hour < 24 || is_end_of_day) && minute < 60 && second <= 60).then_some(())?;
    Some((((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos, parse_utc_offset(rest.trim_ascii())?))
}

/// Returns the UTC offset in minutes of `Z`, `UTC`, `+02`, `+0200` or `+02:00`. Returns
/// `Some(None)` for an empty text, and `None` for any other text.
fn parse_utc_offset(text: &str) -> Option<Option<i64>> {
    match text {
        "" => return Some(None),
        "Z" | "z" | "UTC" | "GMT" => return Some(Some(0)),
        _ => {}
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = match parse_digits(text.strip_prefix(['+', '-'])?)? {
        (hours, 2, "") => (hours, 0),
        (hours_minutes, 4, "") => (hours_minutes / 100, hours_minutes % 100),
        (hours, 2, rest) => match parse_digits(rest.strip_prefix(':')?)? {
            (minutes, 2, "") => (hours, minutes),
            _ => return None,
        },
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(Some(sign * (60 * hours + minutes)))
}

/// Returns the days since 1970-01-01 of a date in the proleptic Gregorian calendar; `None` for a
/// date that does not exist.
fn epoch_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let [month, day] = [month, day].map(|part| u32::try_from(part).ok());
    Some(NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month?, day?)?.to_epoch_days().into())
}

pub(crate) fn year_fraction(instant: Instant) -> f64 {
    let date = civil_date(instant.day).1;
    (f64::from(date.ordinal0()) + instant.day_fraction()) / if date.leap_year() { 366.0 } else { 365.0 }
}

/// Formats a date or time that is stored as the integer `value`. An instant with a time zone is
/// written in UTC, as stored; an instant without a time zone has no suffix.
pub(crate) fn format_stored(value: i64, time_type: &DataType) -> String {
    match time_type {
        DataType::Date32 => format_date(value),
        DataType::Date64 => format_date(value.div_euclid(1000 * DAY_SECONDS)),
        DataType::Time32(unit) | DataType::Time64(unit) => format_time_of_day(value, *unit),
        DataType::Timestamp(unit, zone) => {
            let day_units = DAY_SECONDS * units_per_second(*unit);
            let utc_suffix = if zone.is_some() { "Z" } else { "" };
            format!(
                "{}T{}{utc_suffix}",
                format_date(value.div_euclid(day_units)),
                format_time_of_day(value.rem_euclid(day_units), *unit)
            )
        }
        DataType::Duration(unit) => {
            let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
            let per_second = units_per_second(*unit).unsigned_abs();
            format!("{sign}PT{}{}S", value / per_second, format_fraction(value % per_second, *unit))
        }
        _ => value.to_string(),
    }
}

fn units_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn format_time_of_day(value: i64, unit: TimeUnit) -> String {
    let (seconds, fraction) = (value.div_euclid(units_per_second(unit)), value.rem_euclid(units_per_second(unit)));
    let (hours, minutes) = (seconds.div_euclid(3600), seconds.div_euclid(60).rem_euclid(60));
    format!("{hours:02}:{minutes:02}:{:02}{}", seconds.rem_euclid(60), format_fraction(fraction.unsigned_abs(), unit))
}

/// Formats the digits after the decimal point, whose number depends on the unit.
fn format_fraction(fraction: u64, unit: TimeUnit) -> String {
    match units_per_second(unit).ilog10() as usize {
        0 => String::new(),
        digits => format!(".{fraction:0digits$}"),
    }
}

/// Formats the date `days` after 1970-01-01 in ISO 8601.
fn format_date(days: i64) -> String {
    let (year, date) = civil_date(days);
    match year {
        0..=9999 => format!("{year:04}-{}", date.format("%m-%d")),
        // ISO 8601 requires a sign for these years
        _ => format!("{year:+05}-{}", date.format("%m-%d")),
    }
}

/// Returns the year of the date `days` after 1970-01-01, and that date moved by a multiple of 400
/// years into the years 1970 to 2369: month, day and leap year are the same, but the year of the
/// second value is not the year. The calendar repeats every 400 years, and chrono's calendar ends
/// after some 262,000 years.
fn civil_date(days: i64) -> (i128, NaiveDate) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let date = NaiveDate::from_epoch_days(days.rem_euclid(DAYS_IN_400_YEARS) as i32).unwrap_or_default();
    (i128::from(date.year()) + 400 * i128::from(days.div_euclid(DAYS_IN_400_YEARS)), date)
}
