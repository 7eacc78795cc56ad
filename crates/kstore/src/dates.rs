//! Dates and times: instants, how they are written (ISO 8601), and how they are read from text.

use crate::arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

const DAY: i64 = 86_400;

const DAY_NANOS: i64 = DAY * 1_000_000_000;

/// How the dates and times of a column of text are written: the order of their parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeForm {
    /// `2024-01-31`, `2024/1/31`, `2024-01`, with or without `T12:30` or ` 12:30:59.5+02:00` behind; all that files store as dates or
    /// timestamps.
    #[default]
    YearFirst,
    /// `1/31/2024`, `01-31-24`.
    MonthFirst,
    /// `31.1.2024`, `31/01/24`.
    DayFirst,
    /// `12:30`, `12:30:59`: a time of day without a date.
    OfDay,
    /// How long something took: durations that a file stores as such. No text is read as one.
    Elapsed,
    /// `517` for 5:17: a time of day as a whole number, hours x 100 + minutes. No text is read as one.
    HourMinute,
}

impl TimeForm {
    /// Those of text and of stored times, the first of several that a column may have in front.
    pub(crate) const ALL: [Self; 5] = [Self::YearFirst, Self::MonthFirst, Self::DayFirst, Self::OfDay, Self::Elapsed];
}

/// A moment: a day since 1970-01-01, and nanoseconds since it began. In UTC, where its time zone is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) day: i64,
    pub(crate) nanos: i64,
}

impl Instant {
    /// The moment so many units after 1970-01-01, of which a day has `per_day`.
    pub(crate) fn stored(value: i64, per_day: i64) -> Self {
        Self { day: value.div_euclid(per_day), nanos: value.rem_euclid(per_day) * (DAY_NANOS / per_day) }
    }

    /// The moment as a number of such units: the inverse of [`Self::stored`], with a fraction where the units are too coarse.
    pub(crate) fn units(self, per_day: i64) -> (i128, f64) {
        let unit = DAY_NANOS / per_day;
        let whole = i128::from(self.day) * i128::from(per_day) + i128::from(self.nanos / unit);
        (whole, (self.nanos % unit) as f64 / unit as f64)
    }

    /// The part of its day that has passed. The quotient of two whole numbers, so that the unit of a file does not show.
    pub(crate) fn part(self) -> f64 {
        self.nanos as f64 / DAY_NANOS as f64
    }

    /// Days since 1970-01-01.
    pub(crate) fn days(self) -> f64 {
        self.day as f64 + self.part()
    }

    /// The moment nearest to so many days since 1970-01-01.
    pub(crate) fn near(days: f64) -> Self {
        let day = days.floor();
        Self { day: day as i64, nanos: (((days - day) * DAY as f64).round() as i64 * 1_000_000_000).min(DAY_NANOS - 1) }
    }
}

/// The time of day that a number stands for as hours x 100 + minutes, from 0 to 2400; `None` for any other number.
pub(crate) fn of_number(value: f64) -> Option<Instant> {
    let fine = value.fract() == 0.0 && (0.0..=2400.0).contains(&value) && value % 100.0 < 60.0;
    let minutes = (value as i64 / 100) * 60 + value as i64 % 100;
    fine.then(|| Instant::stored(minutes, DAY / 60))
}

/// Units of a stored date, time or duration in a day.
pub(crate) fn per_day(time: &DataType) -> i64 {
    match time {
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            DAY * per_second(*unit)
        }
        DataType::Date64 => 1000 * DAY,
        _ => 1,
    }
}

/// The form that stands for a stored type: with a date, a time of day, or a duration.
pub(crate) fn form(time: &DataType) -> TimeForm {
    match time {
        DataType::Time32(_) | DataType::Time64(_) => TimeForm::OfDay,
        DataType::Duration(_) => TimeForm::Elapsed,
        _ => TimeForm::YearFirst,
    }
}

/// The moment as ISO 8601 writes it: a date, with the time of day where it is not midnight; a time of day; or a duration.
pub(crate) fn shown(instant: Instant, form: TimeForm) -> String {
    let clock = || clock(instant.nanos / 1_000_000_000, TimeUnit::Second);
    match form {
        TimeForm::OfDay | TimeForm::HourMinute => clock(),
        TimeForm::Elapsed => {
            text(instant.day * DAY + instant.nanos / 1_000_000_000, &DataType::Duration(TimeUnit::Second))
        }
        _ if instant.nanos == 0 => date(instant.day),
        _ => format!("{}T{}", date(instant.day), clock()),
    }
}

/// Reads a date or time that is written in a form; `None` for another text. What has a time zone is taken to UTC.
pub(crate) fn read(text: &str, form: TimeForm) -> Option<Instant> {
    let text = text.trim_ascii();
    if form == TimeForm::OfDay {
        let (nanos, zone) = read_clock(text)?;
        return zone.is_none().then_some(Instant { day: 0, nanos });
    }
    let (day, rest) = read_date(text, form)?;
    if rest.is_empty() {
        return Some(Instant { day, nanos: 0 });
    }
    let (nanos, zone) = read_clock(rest.strip_prefix(['T', 't', ' '])?.trim_ascii_start())?;
    let nanos = nanos - zone.unwrap_or(0) * 60_000_000_000;
    Some(Instant { day: day + nanos.div_euclid(DAY_NANOS), nanos: nanos.rem_euclid(DAY_NANOS) })
}

/// The whole number at the beginning of a text, the number of its digits, and what comes behind them.
fn digits(text: &str) -> Option<(i64, usize, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    (1..=9).contains(&length).then_some(())?;
    Some((number.parse().ok()?, length, rest))
}

/// The day of a date at the beginning of a text, and what comes behind it.
fn read_date(text: &str, form: TimeForm) -> Option<(i64, &str)> {
    let (a, a_digits, rest) = digits(text)?;
    let mark = rest.chars().next().filter(|mark| matches!(mark, '-' | '/' | '.'))?;
    let (b, b_digits, rest) = digits(&rest[1..])?;
    if form == TimeForm::YearFirst && mark == '-' && (a_digits, b_digits) == (4, 2) && rest.is_empty() {
        return Some((day_of(a, b, 1)?, rest));
    }
    let (c, c_digits, rest) = digits(rest.strip_prefix(mark)?)?;
    let ((year, year_digits), month, (day, day_digits)) = match form {
        TimeForm::DayFirst => ((c, c_digits), b, (a, a_digits)),
        TimeForm::MonthFirst if mark != '.' => ((c, c_digits), a, (b, b_digits)),
        TimeForm::YearFirst => ((a, a_digits), b, (c, c_digits)),
        TimeForm::MonthFirst | TimeForm::OfDay | TimeForm::Elapsed | TimeForm::HourMinute => return None,
    };
    let year = match year_digits {
        4 => year,
        // the century as POSIX has it; with two digits everywhere, so that versions such as 1.10.2 are no dates
        2 if form != TimeForm::YearFirst && (a_digits, b_digits) == (2, 2) => {
            year + if year < 69 { 2000 } else { 1900 }
        }
        _ => return None,
    };
    (day_digits <= 2 && b_digits <= 2).then_some(())?;
    Some((day_of(year, month, day)?, rest))
}

/// Nanoseconds since midnight, and minutes before UTC where there is a time zone.
fn read_clock(text: &str) -> Option<(i64, Option<i64>)> {
    let two = |(number, length, rest)| (length == 2).then_some((number, rest));
    let (mut hour, length, rest) = digits(text)?;
    let (minute, mut rest) = two(digits(rest.strip_prefix(':')?)?)?;
    let (mut second, mut nanos) = (0, 0);
    if let Some(more) = rest.strip_prefix(':') {
        (second, rest) = two(digits(more)?)?;
        if let Some(more) = rest.strip_prefix(['.', ',']) {
            let length = more.bytes().take_while(u8::is_ascii_digit).count();
            nanos = format!("{:0<9.9}", &more[..length]).parse().ok().filter(|_| length > 0)?;
            rest = &more[length..];
        }
    }
    let half = rest.trim_ascii_start();
    for (name, more) in [("AM", 0), ("PM", 12)] {
        if let Some((_, end)) = half.split_at_checked(2).filter(|(start, _)| start.eq_ignore_ascii_case(name)) {
            (1..=12).contains(&hour).then_some(())?;
            (hour, rest) = (hour % 12 + more, end);
        }
    }
    let midnight = hour == 24 && minute == 0 && second == 0 && nanos == 0;
    // a leap second counts as the next one
    (length <= 2 && (hour < 24 || midnight) && minute < 60 && second <= 60).then_some(())?;
    Some((((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos, read_zone(rest.trim_ascii())?))
}

/// Minutes before UTC: `Z`, `UTC`, `+02`, `+0200` or `+02:00`; `Some(None)` where nothing is said.
fn read_zone(text: &str) -> Option<Option<i64>> {
    match text {
        "" => return Some(None),
        "Z" | "z" | "UTC" | "GMT" => return Some(Some(0)),
        _ => {}
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = match digits(text.strip_prefix(['+', '-'])?)? {
        (hours, 2, "") => (hours, 0),
        (both, 4, "") => (both / 100, both % 100),
        (hours, 2, rest) => match digits(rest.strip_prefix(':')?)? {
            (minutes, 2, "") => (hours, minutes),
            _ => return None,
        },
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(Some(sign * (60 * hours + minutes)))
}

/// The day since 1970-01-01 of a date in the Gregorian calendar of all times, counted as in [`civil`]; `None` for one that there is not.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let known = (1..=12).contains(&month) && (1..=31).contains(&day);
    known.then_some(())?;
    let from_march = year - i64::from(month <= 2);
    let (era, of_era) = (from_march.div_euclid(400), from_march.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + 365 * of_era + of_era / 4 - of_era / 100 + of_year - 719_468;
    // the 31st of April is the first of May
    (civil(days) == (i128::from(year), i128::from(month), i128::from(day))).then_some(days)
}

pub(crate) fn part_of_year(instant: Instant) -> f64 {
    let year = i64::try_from(civil(instant.day).0).unwrap_or(0);
    let (Some(first), Some(next)) = (day_of(year, 1, 1), day_of(year + 1, 1, 1)) else { return 0.0 };
    ((instant.day - first) as f64 + instant.part()) / (next - first) as f64
}

/// The text of a date or time that is stored as the whole number `value`. An instant with a time zone is written in
/// UTC, as it is stored; one without has no mark.
pub(crate) fn text(value: i64, time: &DataType) -> String {
    match time {
        DataType::Date32 => date(value),
        DataType::Date64 => date(value.div_euclid(1000 * DAY)),
        DataType::Time32(unit) | DataType::Time64(unit) => clock(value, *unit),
        DataType::Timestamp(unit, zone) => {
            let day = DAY * per_second(*unit);
            let mark = if zone.is_some() { "Z" } else { "" };
            format!("{}T{}{mark}", date(value.div_euclid(day)), clock(value.rem_euclid(day), *unit))
        }
        DataType::Duration(unit) => {
            let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
            let per_second = per_second(*unit).unsigned_abs();
            format!("{sign}PT{}{}S", value / per_second, fraction(value % per_second, *unit))
        }
        _ => value.to_string(),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn clock(value: i64, unit: TimeUnit) -> String {
    let (seconds, rest) = (value.div_euclid(per_second(unit)), value.rem_euclid(per_second(unit)));
    let (hours, minutes) = (seconds.div_euclid(3600), seconds.div_euclid(60).rem_euclid(60));
    format!("{hours:02}:{minutes:02}:{:02}{}", seconds.rem_euclid(60), fraction(rest.unsigned_abs(), unit))
}

/// The digits behind the point, as many as the unit has.
fn fraction(rest: u64, unit: TimeUnit) -> String {
    match per_second(unit).ilog10() as usize {
        0 => String::new(),
        digits => format!(".{rest:0digits$}"),
    }
}

/// The date so many days after 1970-01-01, as ISO 8601 writes it.
fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        // ISO 8601 wants a sign there
        _ => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

/// Year, month and day so many days after 1970-01-01, in the Gregorian calendar of all times (Richards, "Explanatory supplement to
/// the astronomical almanac", 3rd edition, section 15.11; here by eras of 400 years that begin in March).
fn civil(days: i64) -> (i128, i128, i128) {
    let days = i128::from(days) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_read_as_iso_8601() {
        let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        for (value, time, expected) in [
            (0, DataType::Date32, "1970-01-01"),
            (-1, DataType::Date32, "1969-12-31"),
            (19_782, DataType::Date32, "2024-02-29"),
            (-719_468, DataType::Date32, "0000-03-01"),
            (2_932_897, DataType::Date32, "+10000-01-01"),
            (1_709_164_800_000, DataType::Date64, "2024-02-29"),
            (86_399_999, DataType::Time32(TimeUnit::Millisecond), "23:59:59.999"),
            (1_709_210_096, stamp(TimeUnit::Second, None), "2024-02-29T12:34:56"),
            (-1, stamp(TimeUnit::Nanosecond, Some("Europe/Berlin")), "1969-12-31T23:59:59.999999999Z"),
            (1_500_001, stamp(TimeUnit::Microsecond, None), "1970-01-01T00:00:01.500001"),
            (-1_500, DataType::Duration(TimeUnit::Millisecond), "-PT1.500S"),
        ] {
            assert_eq!(text(value, &time), expected, "{time}");
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(!text(extreme, &stamp(TimeUnit::Second, None)).is_empty());
            assert!(!text(extreme, &DataType::Date32).is_empty());
        }
    }

    #[test]
    fn dates_are_read_as_they_were_written() {
        let stamp = |unit| DataType::Timestamp(unit, Some("UTC".into()));
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            for value in [0, -1, 1, 1_709_210_096, -2_208_988_800, 4_102_444_799] {
                let value = value * per_second(unit) + i64::from(unit != TimeUnit::Second);
                let found = read(&text(value, &stamp(unit)), TimeForm::YearFirst).unwrap();
                assert_eq!(found.units(DAY * per_second(unit)), (value.into(), 0.0), "{value} {unit:?}");
                assert_eq!(found, Instant::stored(value, DAY * per_second(unit)));
            }
        }
        (-800_000..800_000).step_by(7).for_each(|day| {
            if let Some(found) = read(&date(day), TimeForm::YearFirst) {
                assert_eq!((found.day, found.nanos), (day, 0));
            }
        });
        let noon = Instant { day: 19_782, nanos: DAY_NANOS / 2 };
        for (text, form) in [
            ("2024-02-29T12:00", TimeForm::YearFirst),
            ("2024/2/29 12:00:00,000", TimeForm::YearFirst),
            ("2024-02-29T14:00:00.0+02:00", TimeForm::YearFirst),
            ("2024-02-28 23:00:00 -1300", TimeForm::YearFirst),
            (" 29.02.2024 12:00 ", TimeForm::DayFirst),
            ("29/02/24 12:00:00 PM", TimeForm::DayFirst),
            ("2/29/2024 12:00pm", TimeForm::MonthFirst),
        ] {
            assert_eq!(read(text, form), Some(noon), "{text}");
            assert_eq!(TimeForm::ALL.iter().filter(|form| read(text, **form).is_some()).count(), 1, "{text}");
        }
        assert_eq!(read("2013-05", TimeForm::YearFirst), read("2013-05-01", TimeForm::YearFirst));
        assert_eq!(read("8:30", TimeForm::OfDay).unwrap().nanos, 510 * 60_000_000_000);
        for other in [
            "",
            "12",
            "2024-02-30",
            "2023-02-29",
            "2024-13-01",
            "1.10.2",
            "10.4.12",
            "127.0.0.1",
            "2024-02-29x",
            "2024-02-29 25:00",
            "ä1-02-2024",
            "12:60",
            "1/2",
            "2024-01-01T10:00+1",
        ] {
            assert!(TimeForm::ALL.iter().all(|form| read(other, *form).is_none()), "{other}");
        }
        assert_eq!(part_of_year(Instant { day: 0, nanos: 0 }), 0.0);
        assert_eq!(part_of_year(Instant { day: 364, nanos: DAY_NANOS / 2 }), 364.5 / 365.0);
        assert_eq!(shown(Instant::near(noon.days()), TimeForm::YearFirst), "2024-02-29T12:00:00");
    }
}
