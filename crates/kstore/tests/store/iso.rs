//! Dates and times in ISO 8601 and in common notations.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::datatypes::{DataType, TimeUnit};
use kstore::{ColumnType, Missing, ReadSettings, Selection, Table, TextOptions, encoding::TimeFeatures};
use std::path::Path;

/// Writes a stored number of a time type to CSV and returns the text.
fn text(value: i64, time: &DataType) -> String {
    let data = match time {
        DataType::Date32 | DataType::Time32(_) => Int32Array::from(vec![value as i32]).to_data(),
        _ => Int64Array::from(vec![value]).to_data(),
    };
    let array = make_array(data.into_builder().data_type(time.clone()).build().unwrap());
    let table = Table::from_batches(vec![batch(&[("t", array)])]).unwrap();
    crate::united::csv_of(&table, "").unwrap().lines().nth(1).unwrap().to_string()
}

/// Reads a text as a date; returns microseconds since 1970.
fn read_date(folder: &Path, text: &str) -> kstore::Result<f64> {
    let path = folder.join("t.csv");
    std::fs::write(&path, format!("t|y\n{text}|1\n")).unwrap();
    let types = [("t".to_string(), "date".parse::<ColumnType>().unwrap())];
    let table = Table::open_with(&[path], &TextOptions::default().types(types.into()))?;
    let selection = Selection { missing: Missing::Mean, times: TimeFeatures::None, ..only(&["t"]) };
    Ok(read::<f64>(&table.select(&selection)?.rows::<f64>(ReadSettings::default())?, 0..1, 1)?.x[0])
}

#[test]
fn dates_and_times_read_as_iso_8601() {
    let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    for (value, time, expected) in [
        (0, DataType::Date32, "1970-01-01"),
        (-1, DataType::Date32, "1969-12-31"),
        (19_782, DataType::Date32, "2024-02-29"),
        (-719_468, DataType::Date32, "0000-03-01"),
        (-719_529, DataType::Date32, "-0001-12-31"),
        (2_932_897, DataType::Date32, "+10000-01-01"),
        (i32::MAX.into(), DataType::Date32, "+5881580-07-11"),
        (1_709_164_800_000, DataType::Date64, "2024-02-29"),
        (86_399_999, DataType::Time32(TimeUnit::Millisecond), "23:59:59.999"),
        (1_709_210_096, stamp(TimeUnit::Second, None), "2024-02-29T12:34:56"),
        (-1, stamp(TimeUnit::Nanosecond, Some("Europe/Berlin")), "1969-12-31T23:59:59.999999999Z"),
        (1_500_001, stamp(TimeUnit::Microsecond, None), "1970-01-01T00:00:01.500001"),
        (-1_500, DataType::Duration(TimeUnit::Millisecond), "-PT1.500S"),
        (i64::MAX, stamp(TimeUnit::Second, None), "+292277026596-12-04T15:30:07"),
        (i64::MIN, stamp(TimeUnit::Second, None), "-292277022657-01-27T08:29:52"),
    ] {
        assert_eq!(text(value, &time), expected, "{time}");
    }
}

#[test]
fn dates_are_read_as_they_are_written() {
    let folder = folder();
    for seconds in [0, -1, 1, 1_709_210_096, -2_208_988_800, 4_102_444_799] {
        let micros = seconds * 1_000_000 + 1;
        let written = text(micros, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        assert_eq!(read_date(folder.path(), &written).unwrap(), micros as f64, "{written}");
    }
    for day in (-719_000..800_000).step_by(7919) {
        let written = text(day, &DataType::Date32);
        assert_eq!(read_date(folder.path(), &written).unwrap(), day as f64 * 86_400e6, "{written}");
    }
    for noon in [
        "2024-02-29T12:00",
        "2024/2/29 12:00:00,000",
        "2024-02-29T14:00:00.0+02:00",
        "2024-02-28 23:00:00 -1300",
        " 29.02.2024 12:00 ",
        "29/02/24 12:00:00 PM",
        "2/29/2024 12:00pm",
        "29 Feb 2024 12:00",
        "Thu, 29 Feb 2024 12:00:00 GMT",
        "29-FEB-24 12:00",
        "February 29, 2024 12:00",
        "2024-Feb-29 12:00",
        "20240229T12:00",
        "2024-W09-4 12:00",
    ] {
        assert_eq!(read_date(folder.path(), noon).unwrap(), 19_782.5 * 86_400e6, "{noon}");
    }
    assert_eq!(read_date(folder.path(), "2013-05").unwrap(), read_date(folder.path(), "2013-05-01").unwrap());
    assert_eq!(read_date(folder.path(), "1 Sept 2013").unwrap(), read_date(folder.path(), "2013-09-01").unwrap());
    for other in [
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
        "20240230",
        "12345678",
        "2021-W53-1",
        "29 Fe 2024",
        "29 Febr 24x",
        "Mon",
    ] {
        let error = read_date(folder.path(), other).unwrap_err().to_string();
        assert!(error.contains("expected a date or time"), "{other}: {error}");
    }
}
