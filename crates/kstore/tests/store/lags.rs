//! Lags and rolling means, compared with dense loops over each series, as `groupby(...).shift(k)`
//! and `groupby(...).shift(1).rolling(w).mean()` of pandas compute them.

use crate::make::*;
use kstore::arrow::array::{ArrayRef, Float64Array, Int32Array, StringArray};
use kstore::key::{Purpose, Stream};
use kstore::{FutureRows, LagPass, Lags, MemoryPlan, Pass, RowsBack, Table, TextLimit};
use std::sync::Arc;

const ROWS: usize = 3000;

/// Row `i`: a series, a time, a count that is missing in some rows, and a price.
fn rows() -> Vec<(&'static str, i32, Option<f64>, f64)> {
    let random = Stream::new(5, Purpose::Data, 0);
    let row = |i: usize| {
        let u = |k: u64| random.uniform(3 * i as u64 + k);
        let series = ["Bonn", "Kiel", "Ulm"][(3.0 * u(0)) as usize];
        (series, i as i32 / 3, (u(1) < 0.9).then_some(10.0 * u(1)), u(2) - 0.5)
    };
    (0..ROWS).map(row).collect()
}

fn table_of(rows: &[(&'static str, i32, Option<f64>, f64)]) -> kstore::arrow::array::RecordBatch {
    batch(&[
        ("station", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0))) as ArrayRef),
        ("hour", Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("count", Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.2)))),
        ("price", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.3)))),
    ])
}

fn rows_back(texts: &[&str]) -> Vec<RowsBack> {
    texts.iter().map(|text| RowsBack::parse(text).unwrap()).collect()
}

fn lags(lags: &[&str], rolling: &[&str], order: Option<&str>) -> Lags {
    let (lags, rolling, order) = (rows_back(lags), rows_back(rolling), order.map(str::to_string));
    Lags { lags, rolling, by: names(&["station"]), order, difference: None }
}

fn compute(
    table: &Table,
    lags: &Lags,
    targets: &[&str],
    tile: usize,
    budget: usize,
) -> kstore::Result<(Table, FutureRows)> {
    let mut lag_pass = LagPass::new(table, lags, &names(targets))?;
    let source = lag_pass.rows(TextLimit::default())?;
    let plan = MemoryPlan::new("the lags", budget);
    Pass::new(tile, 1 << 16, sequential()).visit(&source, |block| lag_pass.push(block, &plan))?;
    Ok(lag_pass.finish(&plan))
}

/// Reads columns of a table; NaN for a missing value.
fn read_columns(table: &Table, columns: &[&str]) -> Vec<f64> {
    let selection = kstore::Selection { missing: kstore::Missing::Keep, ..only(columns) };
    let rows = table.select(&selection).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
    read(&rows, 0..u64::MAX, 100).unwrap().x
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| if value.is_nan() { 0 } else { value.to_bits() }).collect()
}

/// With a difference, the past values of the target are relative to its value some rows earlier,
/// and the target is the change since this value.
#[test]
fn past_values_of_a_difference_are_relative_to_an_earlier_row() {
    let table = Table::from_batches(vec![table_of(&rows())]).unwrap();
    let plain = lags(&["count:1,2,7", "price:1"], &["count:3"], None);
    let difference = Lags { difference: Some(RowsBack::parse("count:2").unwrap()), ..plain.clone() };
    let names = difference.feature_names();
    let relative = ["count_lag1_minus_lag2", "count_lag7_minus_lag2", "price_lag1", "count_mean3_minus_lag2"];
    assert_eq!(names, relative);
    let (plain, _) = compute(&table, &plain, &[], 64, usize::MAX).unwrap();
    let two = Lags { difference: Some(RowsBack::parse("count:1,2").unwrap()), ..difference.clone() };
    assert!(compute(&table, &two, &[], 64, usize::MAX).unwrap_err().to_string().contains("`difference`"));
    let (table, _) = compute(&table, &difference, &[], 64, usize::MAX).unwrap();
    let expected = read_columns(&plain, &["count_lag1", "count_lag7", "price_lag1", "count_mean3", "count_lag2"]);
    let counts = read_columns(&plain, &["count"]);
    for (row, (got, past)) in read_columns(&table, &relative).chunks_exact(4).zip(expected.chunks_exact(5)).enumerate()
    {
        let relative = [past[0] - past[4], past[1] - past[4], past[2], past[3] - past[4]];
        assert_eq!(bits(got), bits(&relative), "row {row}");
    }
    // the level is not a feature
    assert!(table.select(&only(&["count_lag2"])).is_err() && table.select(&only(&["count"])).is_err());
    let selection = kstore::Selection {
        targets: vec!["count".to_string()],
        missing_target: Some(kstore::MissingTarget::Drop),
        ..only(&["price"])
    };
    let selected = table.select(&selection).unwrap();
    assert_eq!(selected.target_names(), ["count"]);
    let rows = selected.rows::<f64>(kstore::ReadSettings::default()).unwrap();
    let changes = counts.iter().zip(expected.chunks_exact(5)).map(|(count, past)| count - past[4]);
    let changes: Vec<f64> = changes.filter(|change| change.is_finite()).collect();
    assert_eq!(bits(&read(&rows, 0..u64::MAX, 100).unwrap().y), bits(&changes));
}

const COLUMNS: [&str; 5] = ["count_lag1", "count_lag7", "price_lag2", "count_mean3", "price_mean5"];

/// The values of [`COLUMNS`], from a list of the earlier rows of the series of each row.
fn dense_values(rows: &[(&'static str, i32, Option<f64>, f64)]) -> Vec<f64> {
    let mut values = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let past: Vec<usize> = (0..i).filter(|j| rows[*j].0 == row.0).collect();
        let count = |back: usize| past.len().checked_sub(back).and_then(|j| rows[past[j]].2).unwrap_or(f64::NAN);
        let price = |back: usize| past.len().checked_sub(back).map_or(f64::NAN, |j| rows[past[j]].3);
        let mean =
            |value: &dyn Fn(usize) -> f64, window: usize| (1..=window).rev().map(value).sum::<f64>() / window as f64;
        values.extend([count(1), count(7), price(2), mean(&count, 3), mean(&price, 5)]);
    }
    values
}

#[test]
fn past_values_are_those_of_dense_loops_in_every_format() {
    let (folder, rows) = (folder(), rows());
    let path = |name: &str| folder.path().join(name);
    let whole = table_of(&rows);
    write(&path("one.parquet"), &whole, groups_of(700));
    // two files: a series continues in the second file
    write(&path("a.parquet"), &whole.slice(0, 1111), groups_of(300));
    write(&path("b.parquet"), &whole.slice(1111, ROWS - 1111), groups_of(300));
    write_ipc(&path("one.arrow"), &[whole.slice(0, 50), whole.slice(50, ROWS - 50)], None);
    let text = |row: &(&str, i32, Option<f64>, f64)| {
        let count = row.2.map_or(String::new(), |count| count.to_string());
        format!("{},{},{count},{}\n", row.0, row.1, row.3)
    };
    let lines: String = rows.iter().map(text).collect();
    std::fs::write(path("one.csv"), format!("station,hour,count,price\n{lines}")).unwrap();
    let lags = lags(&["count:1,7", "price:2"], &["count:3", "price:5"], None);
    let expected = bits(&dense_values(&rows));
    let tables: [Vec<std::path::PathBuf>; 4] = [
        vec![path("one.parquet")],
        vec![path("a.parquet"), path("b.parquet")],
        vec![path("one.arrow")],
        vec![path("one.csv")],
    ];
    for (paths, tile) in tables.iter().zip([1024, 7, 333, 1]) {
        let table = Table::open(paths).unwrap();
        let (table, future_rows) = compute(&table, &lags, &[], tile, usize::MAX).unwrap();
        assert_eq!(bits(&read_columns(&table, &COLUMNS)), expected, "{paths:?}");
        assert_eq!((future_rows.row_count(), table.lags()), (0, Some(&lags)));
    }
    let (table, _) = compute(&Table::from_batches(vec![whole]).unwrap(), &lags, &[], 100, usize::MAX).unwrap();
    assert_eq!(bits(&read_columns(&table, &COLUMNS)), expected);
    // a segment in the middle, and rows by their number
    let rows = table.select(&only(&["price_lag2"])).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
    assert_eq!(
        bits(&read(&rows, 1500..1510, 4).unwrap().x),
        (1500..1510).map(|i| expected[5 * i + 2]).collect::<Vec<_>>()
    );
    assert_eq!(bits(rows.gather(&[2000, 77]).unwrap().x()), [expected[5 * 2000 + 2], expected[5 * 77 + 2]]);
}

#[test]
fn a_history_that_begins_later_gives_the_same_past_values() {
    let rows = rows();
    let lags = lags(&["count:1,7", "price:2"], &["count:3", "price:5"], Some("hour"));
    let first = rows.len() - 200;
    let expected = bits(&dense_values(&rows));
    let batch = table_of(&distinct_times(&rows)[first - 100..]);
    let (table, _) = compute(&Table::from_batches(vec![batch]).unwrap(), &lags, &[], 64, usize::MAX).unwrap();
    assert_eq!(bits(&read_columns(&table, &COLUMNS)[5 * 100..]), expected[5 * first..]);
}

/// Returns the rows with increasing times.
fn distinct_times(rows: &[(&'static str, i32, Option<f64>, f64)]) -> Vec<(&'static str, i32, Option<f64>, f64)> {
    rows.iter().enumerate().map(|(i, row)| (row.0, i as i32, row.2, row.3)).collect()
}

#[test]
fn rows_out_of_order_and_without_a_series_are_errors_with_their_row() {
    let refusal = |rows: &[(&'static str, i32, Option<f64>, f64)], lags: &Lags| {
        let table = Table::from_batches(vec![table_of(rows)]).unwrap();
        compute(&table, lags, &[], 2, usize::MAX).unwrap_err().to_string()
    };
    let by_hour = lags(&["count:1"], &[], Some("hour"));
    let rows = |hours: [i32; 4]| {
        let series = ["Bonn", "Ulm", "Bonn", "Ulm"];
        series.into_iter().zip(hours).map(|(series, hour)| (series, hour, Some(1.0), 0.0)).collect::<Vec<_>>()
    };
    let earlier = refusal(&rows([5, 5, 6, 4]), &by_hour);
    assert!(
        earlier.contains("row 3") && earlier.contains("\"hour\"") && earlier.contains("sort the table"),
        "{earlier}"
    );
    // two rows of one time are two series, or a time that is too coarse
    let equal = refusal(&rows([5, 5, 6, 6]), &Lags { by: Vec::new(), ..by_hour.clone() });
    assert!(equal.contains("row 1") && equal.contains("`by`"), "{equal}");
    let table = Table::from_batches(vec![table_of(&rows([5, 5, 6, 6]))]).unwrap();
    assert!(compute(&table, &by_hour, &[], 2, usize::MAX).is_ok());
    let nameless = refusal(&[("Bonn", 1, None, 0.0), ("", 2, None, 0.0)], &by_hour);
    assert!(nameless.contains("row 1") && nameless.contains("\"station\""), "{nameless}");
    for (lags, expected) in [
        (lags(&["station:1"], &[], None), "must be numbers"),
        (lags(&["nothing:1"], &[], None), "nothing"),
        (lags(&["count:1", "count:1"], &[], None), "count_lag1"),
        (lags(&[], &[], Some("hour")), "count:1,24"),
        (Lags { by: names(&["nowhere"]), ..by_hour.clone() }, "nowhere"),
    ] {
        let refused = refusal(&rows([1, 1, 2, 2]), &lags);
        assert!(refused.contains(expected), "{refused}");
    }
    for text in ["count", ":1", "count:", "count:0", "count:-1", "count:1,1", "count:100001", "count:1.5"] {
        assert!(RowsBack::parse(text).is_err(), "{text}");
    }
    assert_eq!(RowsBack::parse("a:b:1, 24").unwrap().to_string(), "a:b:1,24");
}

#[test]
fn dates_of_text_order_rows_in_time() {
    let table = |dates: [&str; 3]| {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
        let days: ArrayRef = Arc::new(StringArray::from(dates.to_vec()));
        Table::from_batches(vec![batch(&[("day", days), ("y", values)])]).unwrap()
    };
    let lags = Lags { lags: rows_back(&["y:1"]), order: Some("day".to_string()), ..Lags::default() };
    let compute = |dates| compute(&table(dates), &lags, &[], 10, usize::MAX);
    let (sorted, _) = compute(["2024-01-31", "2024-01-31T12:00:00", "2024-02-01"]).unwrap();
    assert_eq!(bits(&read_columns(&sorted, &["y_lag1"])), bits(&[f64::NAN, 1.0, 2.0]));
    let unsorted = compute(["2024-01-31", "2024-02-02", "2024-02-01"]).unwrap_err().to_string();
    assert!(unsorted.contains("row 2"), "{unsorted}");
    let other = compute(["31.01.2024", "01.02.2024", "02.02.2024"]).unwrap_err().to_string();
    assert!(other.contains("2024-01-31") && other.contains("`types`"), "{other}");
}

#[test]
fn the_values_of_all_series_are_planned() {
    let table = Table::from_batches(vec![table_of(&rows())]).unwrap();
    let lags = lags(&["count:1000"], &[], None);
    // three series of 1,000 values
    let refused = compute(&table, &lags, &[], 100, 20_000).unwrap_err().to_string();
    assert!(refused.contains("past values of 3 series") && refused.contains("`lags`"), "{refused}");
    let (table, _) = compute(&table, &lags, &[], 100, 26_000).unwrap();
    let bytes = table.lag_plan().unwrap().bytes();
    assert!((24_000..26_000).contains(&bytes), "{bytes}");
}

/// A model of the past values: any function that depends on each of them.
fn model(x: &[f64]) -> f64 {
    x.iter().enumerate().map(|(j, value)| value / (j + 2) as f64).sum::<f64>() + 1.0
}

#[test]
fn a_forecast_uses_its_predictions_as_past_values() {
    for (lag_texts, rolling, columns, rounds) in [
        (
            vec!["count:1,7", "price:2"],
            vec!["count:3"],
            vec!["count_lag1", "count_lag7", "price_lag2", "count_mean3"],
            40,
        ),
        (vec!["count:3,7", "price:2"], vec![], vec!["count_lag3", "count_lag7", "price_lag2"], 14),
    ] {
        let mut rows = rows()[..400].to_vec();
        // the last rows have no count; a missing count before them is a gap of the past
        let last: Vec<usize> = ["Bonn", "Kiel", "Ulm"]
            .iter()
            .zip([40, 11, 0])
            .flat_map(|(name, count)| {
                let of_series: Vec<usize> = (0..400).filter(|i| rows[*i].0 == *name).collect();
                of_series[of_series.len() - count - 1..].to_vec()
            })
            .collect();
        for (position, i) in last.iter().enumerate() {
            rows[*i].2 = [0, 41, 53].contains(&position).then_some(4.0);
        }
        let table = Table::from_batches(vec![table_of(&rows)]).unwrap();
        let lags = lags(&lag_texts, &rolling, None);
        let (table, mut future_rows) = compute(&table, &lags, &["count"], 13, usize::MAX).unwrap();
        assert_eq!((future_rows.row_count(), future_rows.step_count()), (51, 40));
        let source = table.select(&kstore::Selection { missing: kstore::Missing::Keep, ..only(&columns) }).unwrap();
        let before = future_rows.clone();
        let (source, mut round) = (source.rows::<f64>(kstore::ReadSettings::default()).unwrap(), 0);
        loop {
            let numbers = future_rows.next_round().unwrap();
            if numbers.is_empty() {
                break;
            }
            let x = source.gather(&numbers).unwrap();
            let predictions: Vec<f64> = x.x().chunks(columns.len()).map(model).collect();
            future_rows.push(&numbers, &predictions, 1);
            round += 1;
        }
        assert_eq!(round, rounds);
        // a path whose values are the predictions has the past values of the forecast
        for (series, numbers) in before.rows_by_series().enumerate() {
            let mut paths = before.paths(series, 2);
            let x = source.gather(numbers).unwrap();
            for x in x.x().chunks(columns.len()) {
                let counts = columns.iter().zip(x).filter(|(name, _)| name.starts_with("count"));
                let counts: Vec<f64> = counts.map(|(_, value)| *value).collect();
                assert_eq!(bits(&paths.past_values(1).collect::<Vec<_>>()), bits(&counts));
                paths.push(0, &[-100.0], |_, _| {});
                paths
                    .push(1, &[model(x)], |target, value| assert_eq!((target, bits(&[value])), (0, bits(&[model(x)]))));
            }
        }
        // row by row: the count of a future row is its prediction
        let mut filled = rows.clone();
        let mut expected = Vec::new();
        for i in 0..filled.len() {
            let past: Vec<usize> = (0..i).filter(|j| filled[*j].0 == filled[i].0).collect();
            let count = |back: usize| past.len().checked_sub(back).and_then(|j| filled[past[j]].2).unwrap_or(f64::NAN);
            let price = |back: usize| past.len().checked_sub(back).map_or(f64::NAN, |j| filled[past[j]].3);
            let x: Vec<f64> = columns
                .iter()
                .map(|column| match *column {
                    "price_lag2" => price(2),
                    "count_mean3" => (1..=3).rev().map(count).sum::<f64>() / 3.0,
                    lag => count(lag["count_lag".len()..].parse().unwrap()),
                })
                .collect();
            if last.contains(&i) && filled[i].2.is_none() {
                filled[i].2 = Some(model(&x));
            }
            expected.extend(x);
        }
        assert_eq!(bits(&read_columns(&table, &columns)), bits(&expected));
    }
}
