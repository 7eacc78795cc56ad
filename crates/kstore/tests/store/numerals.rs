//! Integer columns with another meaning, in every format and cut: times of day and row counters.

use crate::categories::search_selected;
use crate::make::*;
use kstore::arrow::array::*;
use kstore::encoding::{ColumnEncoding, Cycle, Encoding, TimeEncoding, TimeFeatures, TimeForm};
use kstore::key::{Purpose, Stream};
use kstore::search::ColumnNote;
use kstore::{Missing, ReadSettings, SelectedTable, Selection, Table};
use std::f64::consts::TAU;
use std::path::Path;
use std::sync::Arc;

const ROWS: u64 = 500;

/// Values of a column by row.
type Column<'a> = &'a dyn Fn(u64) -> Option<i64>;

/// Returns times of day from 5:00 to 23:59; one of every 50 rows is missing.
fn time(i: u64) -> Option<i64> {
    let minute = 300 + Stream::new(7, Purpose::Data, 0).uniform_below(i, 1140) as i64;
    (i % 50 != 3).then_some(minute / 60 * 100 + minute % 60)
}

/// Writes columns `t`, with missing values, and `y`, as integers and floats in several formats.
fn tables(folder: &Path, t: Column<'_>) -> Vec<Table> {
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|i| (i * i % 7) as f64)));
    let whole: ArrayRef = Arc::new((0..ROWS).map(t).collect::<Int64Array>());
    let short: ArrayRef = Arc::new((0..ROWS).map(|i| t(i).map(|t| t as i32)).collect::<Int32Array>());
    let floats = (0..ROWS).map(|i| t(i).map_or(f64::NAN, |t| t as f64));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(floats));
    let rows = |t: &ArrayRef| batch(&[("t", Arc::clone(t)), ("y", Arc::clone(&y))]);
    write(&folder.join("whole.parquet"), &rows(&whole), groups_of(70));
    write(&folder.join("floats.parquet"), &rows(&floats), groups_of(70));
    write_ipc(&folder.join("short.arrow"), &[rows(&short)], None);
    for (name, end) in [("whole.csv", ""), ("floats.csv", ".0")] {
        let line = |i| format!("{},{}\n", t(i).map_or(String::new(), |t| format!("{t}{end}")), i * i % 7);
        std::fs::write(folder.join(name), format!("t,y\n{}", (0..ROWS).map(line).collect::<String>())).unwrap();
    }
    let files = ["whole.parquet", "floats.parquet", "short.arrow", "whole.csv", "floats.csv"];
    let files = files.map(|name| Table::open(&[folder.join(name)]).unwrap());
    files.into_iter().chain([Table::from_batches(vec![rows(&floats)]).unwrap()]).collect()
}

fn search_columns_of(
    table: &Table,
    selection: &Selection,
    segment_rows: u64,
    lane_count: usize,
) -> (SelectedTable, Vec<ColumnNote>) {
    search_selected(table.select(selection).unwrap().inspect_columns().0, segment_rows, lane_count).unwrap()
}

/// Returns the code of the column `t` if `y` is the only other column.
fn code(folder: &Path, t: Column<'_>, selection: &Selection) -> Option<ColumnEncoding> {
    let (selected, _) = search_columns_of(&tables(folder, t)[0], selection, 64, 2);
    let place = selected.feature_columns().iter().position(|name| name == "t")?;
    Some(selected.encoding().map_or(ColumnEncoding::Number, |encoding| encoding.columns()[place].encoding.clone()))
}

#[test]
fn hours_and_minutes_are_times_of_day_in_every_format_and_cut() {
    let folder = folder();
    let mut first: Option<(Encoding, Vec<u64>)> = None;
    for (at, table) in tables(folder.path(), &time).iter().enumerate() {
        for (missing, segment_rows, lane_count) in
            [(Missing::Indicator, 64, 3), (Missing::Indicator, 500, 1), (Missing::Mean, 7, 2)]
        {
            let (selected, notes) =
                search_columns_of(table, &Selection { missing, ..Selection::default() }, segment_rows, lane_count);
            assert!(
                matches!(&notes[..], [ColumnNote::NumericTimes { column, .. }] if column == "t"),
                "{at}: {notes:?}"
            );
            let encoding = selected.encoding().unwrap().clone();
            let expected = TimeEncoding { form: TimeForm::HourMinute, cycles: vec![Cycle::Hour] };
            assert_eq!(encoding.columns()[0].encoding, ColumnEncoding::Time(expected), "{at}");
            if missing == Missing::Mean {
                assert_eq!(encoding.feature_names(), ["t", "t.hour.sin", "t.hour.cos", "y"]);
                continue;
            }
            let x = crate::times::rows_of(&selected, ROWS, 9);
            let by_hand = (0..ROWS).flat_map(|i| {
                let own = time(i).map_or([7.0, 7.0, 7.0, 1.0], |t| {
                    let day = (t / 100 * 60 + t % 100) as f64 / 1440.0;
                    [day, (TAU * day).sin(), (TAU * day).cos(), 0.0]
                });
                own.into_iter().chain([(i * i % 7) as f64])
            });
            for (i, (found, expected)) in x.iter().zip(by_hand).enumerate() {
                assert!((found - expected).abs() < 1e-15, "{at}: value {i} is {found}, not {expected}");
            }
            let bits = x.iter().map(|value| value.to_bits()).collect();
            assert_eq!(
                *first.get_or_insert((encoding.clone(), bits)),
                (encoding, x.iter().map(|v| v.to_bits()).collect())
            );
        }
    }
}

#[test]
fn ordinary_whole_numbers_stay_what_they_are() {
    let folder = folder();
    let random = Stream::new(3, Purpose::Data, 1);
    let usual = Selection { missing: Missing::Mean, ..Selection::default() };
    let columns: [(&str, Column<'_>); 10] = [
        ("ages", &|i| Some(18 + random.uniform_below(i, 42) as i64)),
        ("years", &|i| Some(1900 + random.uniform_below(i, 60) as i64)),
        ("hundreds", &|i| Some(100 * random.uniform_below(i, 24) as i64)),
        ("halves of hundreds", &|i| Some(50 * random.uniform_below(i, 48) as i64)),
        ("tens", &|i| Some(10 * random.uniform_below(i, 240) as i64)),
        ("any", &|i| Some(random.uniform_below(i, 2400) as i64)),
        ("a time but once", &|i| if i == ROWS - 1 { Some(1275) } else { time(i) }),
        ("below zero", &|i| if i == 77 { Some(-15) } else { time(i) }),
        ("a dozen codes", &|i| Some(6 + random.uniform_below(i, 12) as i64).map(|h| 100 * h + 10 * (h % 6))),
        ("half hours", &|i| {
            Some(random.uniform_below(i, 24) as i64 * 100 + 30 * random.uniform_below(i + ROWS, 2) as i64)
        }),
    ];
    for (name, column) in columns {
        assert_eq!(code(folder.path(), column, &usual), Some(ColumnEncoding::Number), "{name}");
    }
    assert!(matches!(code(folder.path(), &time, &usual), Some(ColumnEncoding::Time(_))));
    let raw = Selection { times: TimeFeatures::None, ..usual.clone() };
    assert_eq!(code(folder.path(), &time, &raw), Some(ColumnEncoding::Number));
    let position = Selection { times: TimeFeatures::Position, ..usual };
    let Some(ColumnEncoding::Time(time)) = code(folder.path(), &time, &position) else { panic!("no time") };
    assert!(time.cycles.is_empty());
}

#[test]
fn a_column_that_counts_is_left_out_unless_it_is_named() {
    let folder = folder();
    let counts = |i: u64| Some(1000 + i as i64);
    for table in tables(folder.path(), &counts) {
        let (selected, notes) = search_columns_of(&table, &Selection::default(), 64, 2);
        assert_eq!(selected.feature_names(), ["y"]);
        assert!(
            matches!(&notes[..], [note @ ColumnNote::RowCounter { .. }] if note.to_string().contains("counts the rows"))
        );
        let features = names(&["t", "y"]);
        let (selected, notes) = search_columns_of(&table, &Selection { features, ..Selection::default() }, 64, 2);
        assert_eq!((selected.feature_names(), notes.len()), (names(&["t", "y"]), 0));
        // the column is kept if it is the only one
        let targets = names(&["y"]);
        let (selected, _) = search_columns_of(&table, &Selection { targets, ..Selection::default() }, 64, 2);
        assert_eq!(selected.feature_names(), ["t"]);
    }
    // two rows are swapped, far behind the rows used for detection
    let swapped = |i: u64| {
        Some(match i {
            490 => 491,
            491 => 490,
            i => i as i64,
        })
    };
    assert_eq!(code(folder.path(), &swapped, &Selection::default()), Some(ColumnEncoding::Number));
}

#[test]
fn a_new_value_that_is_no_time_of_day_is_told() {
    let folder = folder();
    let (known, _) = search_columns_of(
        &tables(folder.path(), &time)[0],
        &Selection { missing: Missing::Mean, ..Selection::default() },
        64,
        2,
    );
    let odd = |i: u64| if i == 20 { Some(1275) } else { time(i) };
    for table in tables(folder.path(), &odd) {
        let selected = table.select(&Selection { missing: Missing::Mean, ..known.same_features() }).unwrap();
        let error =
            read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..ROWS, 16).unwrap_err().to_string();
        assert!(error.contains("row 20") && error.contains("1275") && error.contains("517 for 5:17"), "{error}");
    }
}
