//! Dates and times as features, in every format and notation, compared with a day-by-day calendar.

use crate::categories::search_columns;
use crate::make::*;
use kstore::arrow::array::*;
use kstore::encoding::{ColumnEncoding, Cycle, TimeEncoding, TimeFeatures, TimeForm};
use kstore::search::ColumnNote;
use kstore::{Categories, Condition, Missing, ReadSettings, Scaler, SelectedTable, Selection, Table};
use proptest::prelude::*;
use std::f64::consts::TAU;
use std::path::Path;
use std::sync::Arc;

const DAY: i64 = 86_400;

/// Returns year, month and day of the given number of days after 1970-01-01, by counting.
fn calendar(days: i64) -> (i64, i64, i64) {
    let leap = |year: i64| year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let (mut year, mut left) = (1970, days);
    while left < 0 {
        year -= 1;
        left += 365 + i64::from(leap(year));
    }
    while left >= 365 + i64::from(leap(year)) {
        left -= 365 + i64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (year, month as i64 + 1, left + 1)
}

/// Computes the features of a time in milliseconds since 1970 from the definition.
fn expected_features(ms: i64, cycles: &[Cycle]) -> Vec<f64> {
    let (day, of_day) = (ms.div_euclid(1000 * DAY), ms.rem_euclid(1000 * DAY));
    let part = of_day as f64 / (1000 * DAY) as f64;
    let year = calendar(day).0;
    let first = (0..366)
        .find(|back| calendar(day - back).0 < year || calendar(day - back).1 == 1 && calendar(day - back).2 == 1);
    let length = (360..370).find(|on| calendar(day - first.unwrap() + on).0 > year).unwrap();
    let phase = |cycle: &Cycle| match cycle {
        Cycle::Hour => part,
        Cycle::Weekday => ((day + 3).rem_euclid(7) as f64 + part) / 7.0,
        Cycle::Yearday => (first.unwrap() as f64 + part) / length as f64,
    };
    let pairs = cycles.iter().flat_map(|cycle| [(TAU * phase(cycle)).sin(), (TAU * phase(cycle)).cos()]);
    [day as f64 + part].into_iter().chain(pairs).collect()
}

fn iso(ms: i64, gap: &str, zone: &str) -> String {
    let (year, month, day) = calendar(ms.div_euclid(1000 * DAY));
    let of_day = ms.rem_euclid(1000 * DAY);
    let (s, ms) = (of_day / 1000, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}{gap}{:02}:{:02}:{:02}.{ms:03}{zone}", s / 3600, s / 60 % 60, s % 60)
}

/// Writes the times in every format and type that can store them.
fn tables(folder: &Path, moments: &[Option<i64>]) -> Vec<(&'static str, Table)> {
    let path = |name: &str| folder.join(name);
    let n = moments.len();
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..n).map(|i| i as f64)));
    let scaled = |by: i64| moments.iter().map(move |ms| ms.map(|ms| ms * by));
    let arrays: [(&str, ArrayRef); 4] = [
        ("ms.parquet", Arc::new(TimestampMillisecondArray::from_iter(scaled(1)))),
        ("us.parquet", Arc::new(TimestampMicrosecondArray::from_iter(scaled(1000)).with_timezone("UTC"))),
        ("ns.arrow", Arc::new(TimestampNanosecondArray::from_iter(scaled(1_000_000)))),
        ("text.parquet", Arc::new(moments.iter().map(|ms| ms.map(|ms| iso(ms, "T", "Z"))).collect::<StringArray>())),
    ];
    for (name, array) in arrays {
        let rows = batch(&[("date", array), ("x", Arc::clone(&x))]);
        match name.ends_with("arrow") {
            true => write_ipc(&path(name), &[rows], None),
            false => write(&path(name), &rows, groups_of(7)),
        }
    }
    let written = |line: &dyn Fn(usize, i64) -> String, missing: &str| -> String {
        moments
            .iter()
            .enumerate()
            .map(|(i, ms)| ms.map_or(missing.replace('#', &i.to_string()), |ms| line(i, ms)))
            .collect()
    };
    let csv = written(&|i, ms| format!("{},{i}\n", iso(ms, " ", "")), ",#\n");
    std::fs::write(path("a.csv"), format!("date,x\n{csv}")).unwrap();
    let east = written(&|i, ms| format!("{},{i}\n", iso(ms + 7_200_000, "T", "+02:00")), "NA,#\n");
    std::fs::write(path("b.csv"), format!("date,x\n{east}")).unwrap();
    let json = written(
        &|i, ms| format!("{{\"date\": \"{}\", \"x\": {i}.0}}\n", iso(ms, "T", "")),
        "{\"date\": null, \"x\": #.0}\n",
    );
    std::fs::write(path("a.jsonl"), json).unwrap();
    let files = ["ms.parquet", "us.parquet", "ns.arrow", "text.parquet", "a.csv", "b.csv", "a.jsonl"];
    files.map(|name| (name, Table::open(&[path(name)]).unwrap())).to_vec()
}

/// Reads the rows of a coded selection; a missing number becomes 7.
pub(crate) fn rows_of(selected: &SelectedTable, rows: u64, tile: usize) -> Vec<f64> {
    let d = selected.shape().input_count;
    let scaler = Scaler { centre: vec![0.0; d], scale: vec![1.0; d], mean: vec![7.0; d], ..Scaler::default() };
    let reading = ReadSettings { scaler: Some(Arc::new(scaler)), ..ReadSettings::default() };
    read::<f64>(&selected.rows::<f64>(reading).unwrap(), 0..rows, tile).unwrap().x
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Features equal the definition for every format, type, notation and cut of the rows.
    #[test]
    fn features_of_times_are_those_of_the_calendar(
        moments in prop::collection::vec(prop::option::weighted(0.9, -4_000_000_000_000i64..4_000_000_000_000), 3..40),
        segment in 1u64..40, lanes in 1usize..4, tile in 1usize..30,
    ) {
        prop_assume!(moments.iter().flatten().count() > 1);
        let folder = folder();
        let mut expected = None;
        for (name, table) in tables(folder.path(), &moments) {
            let wanted = Selection { features: names(&["date"]), missing: Missing::Indicator, ..Selection::default() };
            let (selected, notes) = search_columns(&table, &wanted, segment, lanes).unwrap();
            prop_assert!(notes.is_empty());
            let encoding = selected.encoding().unwrap().clone();
            let ColumnEncoding::Time(code) = &encoding.columns()[0].encoding else { panic!("{name}: {encoding:?}") };
            let x = rows_of(&selected, moments.len() as u64, tile);
            let hole = moments.contains(&None);
            let by_hand: Vec<f64> = moments.iter().flat_map(|ms| {
                let own = ms.map_or(vec![7.0; encoding.feature_count() - usize::from(hole)], |ms| expected_features(ms, &code.cycles));
                own.into_iter().chain(hole.then_some(f64::from(u8::from(ms.is_none()))))
            }).collect();
            prop_assert_eq!(&x, &by_hand, "{}", name);
            // every format drops the same number of rows
            let some = search_columns(&table, &Selection { missing: Missing::Drop, ..wanted.clone() }, segment, lanes).unwrap().0;
            let left = rows_of(&some, moments.len() as u64, tile).len() / some.shape().input_count;
            prop_assert_eq!(left, moments.iter().flatten().count(), "{}", name);
            let first = expected.get_or_insert_with(|| encoding.clone());
            prop_assert_eq!(&encoding, first, "{}", name);
        }
    }
}

fn csv(folder: &Path, values: &[&str]) -> Table {
    let path = folder.join(format!("{}.csv", values.concat().replace(['/', ' '], "_")));
    let rows: String = values.iter().enumerate().map(|(i, value)| format!("{value},{i}\n")).collect();
    std::fs::write(&path, format!("date,x\n{rows}")).unwrap();
    Table::open(&[path]).unwrap()
}

#[test]
fn the_form_of_a_column_is_that_of_all_its_values() {
    let folder = folder();
    let found = |values: &[&str], selection: &Selection| {
        let (selected, notes) = search_columns(&csv(folder.path(), values), selection, 2, 2).unwrap();
        let column = selected.encoding().map(|encoding| encoding.columns()[0].encoding.clone());
        (column, notes)
    };
    let usual = Selection::default();
    let form = |values: &[&str]| match found(values, &usual) {
        (Some(ColumnEncoding::Time(TimeEncoding { form, .. })), notes) => Some((form, notes.len())),
        _ => None,
    };
    assert_eq!(form(&["2024-01-31", "2024-02-01T10:00"]), Some((TimeForm::YearFirst, 0)));
    assert_eq!(form(&["31/01/2024", "01/02/2024"]), Some((TimeForm::DayFirst, 0)));
    assert_eq!(form(&["1/31/2024", "1/2/2024"]), Some((TimeForm::MonthFirst, 0)));
    assert_eq!(form(&["1.2.2024", "31.12.1999"]), Some((TimeForm::DayFirst, 0)));
    assert_eq!(form(&["12:30", "8:00:01.5"]), Some((TimeForm::TimeOfDay, 0)));
    assert_eq!(form(&["1/2/2024", "3/4/2024"]), Some((TimeForm::MonthFirst, 1)), "said to be ambiguous");
    for other in [["2024-01-31", "soon"], ["31/01/2024", "01/31/2024"], ["12:30", "2024-01-31"]] {
        assert_eq!(form(&other), None, "{other:?}");
    }
    // an explicit option overrides the detected form
    let named = Selection { categories: Categories::Named(names(&["date"])), ..Selection::default() };
    let days = ["2024-01-31", "2024-02-01"];
    let without_times = Selection { times: TimeFeatures::None, ..Selection::default() };
    for selection in [named.clone(), Selection { times: TimeFeatures::None, ..named }] {
        assert!(matches!(found(&days, &selection).0, Some(ColumnEncoding::Values(values)) if values.len() == 2));
    }
    let (encoding, notes) = found(&days, &without_times);
    assert_eq!(encoding, None, "{notes:?}");
    assert_eq!(notes, [ColumnNote::UnusedTimes { column: "date".to_string() }]);
    assert!(matches!(found(&["soon", "later"], &without_times).0, Some(ColumnEncoding::Values(_))));
    let position = Selection { times: TimeFeatures::Position, ..Selection::default() };
    let many = ["2024-01-31", "2025-06-01T12:00", "2026-07-05"];
    let cycles = |selection: &Selection| match found(&many, selection).0 {
        Some(ColumnEncoding::Time(code)) => code.cycles,
        other => panic!("{other:?}"),
    };
    assert_eq!((cycles(&usual), cycles(&position)), (vec![Cycle::Hour, Cycle::Weekday, Cycle::Yearday], Vec::new()));
    let (_, notes) = found(&["1/2/2024", "3/4/2024"], &usual);
    assert!(
        matches!(&notes[..], [note @ ColumnNote::AmbiguousDates { .. }] if note.to_string().contains("month, day, year"))
    );
}

#[test]
fn cycles_are_those_that_the_values_go_through() {
    let folder = folder();
    let cycles = |array: ArrayRef| {
        let path = folder.path().join("c.parquet");
        let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..array.len()).map(|i| i as f64)));
        write(&path, &batch(&[("date", array), ("x", x)]), groups_of(100));
        let selected = search_columns(&Table::open(&[path]).unwrap(), &Selection::default(), 7, 2).unwrap().0;
        let names = selected.feature_names();
        names[1..names.len() - 1]
            .iter()
            .step_by(2)
            .map(|name| name.replace("date.", "").replace(".sin", ""))
            .collect::<Vec<_>>()
    };
    let seconds = |n: i64, step: i64| -> ArrayRef {
        Arc::new(TimestampSecondArray::from_iter_values((0..n).map(|i| 1_700_000_000 + i * step)))
    };
    let days =
        |n: i32, step: i32| -> ArrayRef { Arc::new(Date32Array::from_iter_values((0..n).map(|i| 19_000 + i * step))) };
    assert_eq!(cycles(seconds(20, 60)), Vec::<String>::new());
    assert_eq!(cycles(seconds(30, 3600)), ["hour"]);
    assert_eq!(cycles(seconds(200, 3600)), ["hour", "weekday"]);
    assert_eq!(cycles(days(300, 1)), ["weekday"], "all at midnight");
    assert_eq!(cycles(days(100, 7)), ["yearday"], "all on one weekday");
    assert_eq!(cycles(days(400, 1)), ["weekday", "yearday"]);
    assert_eq!(cycles(Arc::new(Time32SecondArray::from_iter_values((0..24).map(|h| h * 3600)))), ["hour"]);
    assert_eq!(cycles(Arc::new(Time32SecondArray::from_iter_values((8..11).map(|h| h * 3600)))), Vec::<String>::new());
    assert_eq!(
        cycles(Arc::new(DurationSecondArray::from_iter_values((0..24).map(|h| h * 7200)))),
        Vec::<String>::new()
    );
}

#[test]
fn a_text_that_is_no_time_is_told_and_conditions_know_dates() {
    let folder = folder();
    let known =
        search_columns(&csv(folder.path(), &["2024-01-31", "2024-02-05"]), &Selection::default(), 9, 1).unwrap().0;
    let again = known.same_features();
    let told = |values: &[&str], missing| {
        let selected = csv(folder.path(), values).select(&Selection { missing, ..again.clone() }).unwrap();
        read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..9, 4).unwrap_err().to_string()
    };
    for missing in [Missing::Error, Missing::Drop, Missing::Mean] {
        let error = told(&["2024-01-31", "31.12.2024"], missing);
        assert!(
            error.contains("row 1") && error.contains("\"31.12.2024\"") && error.contains("such as 2024-01-31"),
            "{error}"
        );
    }
    let error = told(&["2024-01-31", ""], Missing::Error);
    assert!(error.contains("row 1") && error.contains("missing"), "{error}");
    let numbers = batch(&[
        ("date", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("x", Arc::new(Float64Array::from(vec![1.0, 2.0]))),
    ]);
    let error = Table::from_batches(vec![numbers]).unwrap().select(&again).unwrap_err().to_string();
    assert!(error.contains("a date or time"), "{error}");
    let path = folder.path().join("w.parquet");
    let time: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-1, 0, 1, 86_400_000]));
    write(
        &path,
        &batch(&[("date", time), ("x", Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0, 3.0])))]),
        groups_of(2),
    );
    let table = Table::open(&[path]).unwrap();
    let took: ArrayRef = Arc::new(DurationSecondArray::from(vec![60, 3600]));
    let lasting = Table::from_batches(vec![batch(&[("took", took)])]).unwrap();
    let filter = |text| {
        let filter = Some(Condition::parse(text).unwrap());
        Selection { features: names(&["took"]), filter, ..Selection::default() }
    };
    let error = lasting.select(&filter("took > 2024-01-31")).unwrap_err().to_string();
    assert!(error.contains("2024-01-31") && !error.contains("write it like"), "a date is no duration: {error}");
    assert!(lasting.select(&filter("took > 60")).is_ok());
    for (condition, expected) in [
        ("date >= 1970-01-01", &[1.0, 2.0, 3.0][..]),
        ("date < 1970-01-01T00:00:00.0005", &[0.0, 1.0]),
        ("date == 1970-01-02", &[3.0]),
        ("date > 0", &[2.0, 3.0]),
    ] {
        let filter = Some(Condition::parse(condition).unwrap());
        let selected = table.select(&Selection { features: names(&["x"]), filter, ..Selection::default() }).unwrap();
        assert_eq!(
            read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..4, 4).unwrap().x,
            expected,
            "{condition}"
        );
    }
    let wrong = Condition::parse("date > soon").unwrap();
    let error = table.select(&Selection { filter: Some(wrong), ..Selection::default() }).unwrap_err().to_string();
    assert!(error.contains("2024-01-31"), "{error}");
}
