//! Dates and times as ISO 8601 writes them.

use crate::arrow::datatypes::{DataType, TimeUnit};

const DAY: i64 = 86_400;

/// The text of a date or time that is stored as the whole number `value`. An instant with a time zone is written in
/// UTC, as it is stored; one without has no mark.
pub(super) fn text(value: i64, time: &DataType) -> String {
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
    match unit {
        TimeUnit::Second => String::new(),
        TimeUnit::Millisecond => format!(".{rest:03}"),
        TimeUnit::Microsecond => format!(".{rest:06}"),
        TimeUnit::Nanosecond => format!(".{rest:09}"),
    }
}

/// The date so many days after 1970-01-01, in the Gregorian calendar of all times (Richards, "Explanatory supplement to
/// the astronomical almanac", 3rd edition, section 15.11; here by eras of 400 years that begin in March).
fn date(days: i64) -> String {
    let days = i128::from(days) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i128::from(month <= 2);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        // ISO 8601 wants a sign there
        _ => format!("{year:+05}-{month:02}-{day:02}"),
    }
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
}
