//! Rows of blocks hold the scaled values of the columns, for any number, type and position of rows.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::statistics::ColumnMoments;
use kstore::{Condition, Float, Missing, ReadSettings, Scaler, Selection, Statistics, Table, TableShape};
use std::sync::Arc;

const ROWS: usize = 700;

fn value(i: usize) -> f64 {
    f64::from((i as f32 * 0.37).sin() * 10.0)
}

/// Returns the stored value of row `row` in column `c`.
fn stored_value(row: usize, c: usize) -> f64 {
    match c % 6 {
        4 => value(row + c) / 3.0,
        5 => (row * 7) as f64 - 900.0,
        _ => value(row + c),
    }
}

fn column(c: usize) -> ArrayRef {
    let values = (0..ROWS).map(|row| stored_value(row, c));
    match c % 6 {
        4 => Arc::new(Float64Array::from_iter_values(values)),
        5 => Arc::new(Int16Array::from_iter_values(values.map(|value| value as i16))),
        _ => Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32))),
    }
}

fn check<T: Float>(scaled: bool) {
    for d in 1..=13 {
        let names: Vec<String> = (0..d).map(|c| format!("x{c}")).collect();
        let mut columns: Vec<(&str, ArrayRef)> =
            names.iter().enumerate().map(|(c, name)| (name.as_str(), column(c))).collect();
        columns.push(("odd", Arc::new(Int8Array::from_iter_values((0..ROWS).map(|row| (row % 2) as i8)))));
        let table = Table::from_batches(vec![batch(&columns)]).unwrap();
        let centre: Vec<f64> = (0..d).map(|c| c as f64 / 7.0).collect();
        let scale: Vec<f64> = (0..d).map(|c| (c + 3) as f64).collect();
        let scaler = Scaler { centre, scale, mean: vec![f64::NAN; d], ..Scaler::default() };
        let by_hand = |row: usize, c: usize| match scaled {
            true => T::from_f64((stored_value(row, c) - scaler.centre[c]) * (1.0 / scaler.scale[c])),
            false => T::from_f64(stored_value(row, c)),
        };
        for (filter, step) in [("", 1), ("odd == 1", 2)] {
            let filter = (step > 1).then(|| Condition::parse(filter).unwrap());
            let selected = table.select(&Selection { features: names.clone(), filter, ..Selection::default() });
            let reading = ReadSettings { scaler: scaled.then(|| Arc::new(scaler.clone())), ..ReadSettings::default() };
            let rows = selected.unwrap().rows::<T>(reading).unwrap();
            for count in [1, 2, 3, 4, 5, 7, 8, 63, 127, 128] {
                let some: Vec<usize> = (11..ROWS).step_by(step).take(count).collect();
                let found = read::<T>(&rows, 11..11 + (count * step) as u64, 128).unwrap();
                let expected = some.iter().flat_map(|row| (0..d).map(|c| by_hand(*row, c).to_f64()));
                assert_eq!(found.x, expected.collect::<Vec<_>>(), "{count} x {d}");
            }
        }
    }
}

#[test]
fn rows_hold_what_columns_held_whatever_their_number() {
    for scaled in [false, true] {
        check::<f32>(scaled);
        check::<f64>(scaled);
    }
}

#[test]
fn a_value_that_is_not_finite_is_seen_wherever_it_stands() {
    let odd = |value: Option<f32>, at: usize, column: usize| {
        let of = |c| (0..128).map(move |row| if (row, c) == (at, column) { value } else { Some(f32::MAX) });
        let columns = ["a", "b", "c", "d", "e", "f"].into_iter().enumerate();
        let columns = columns.map(|(c, name)| (name, Arc::new(Float32Array::from_iter(of(c))) as ArrayRef));
        let table = Table::from_batches(vec![batch(&columns.collect::<Vec<_>>())]).unwrap();
        let selection = Selection { missing: Missing::Error, ..Selection::default() };
        read::<f32>(&table.select(&selection).unwrap().rows::<f32>(ReadSettings::default()).unwrap(), 0..128, 128)
    };
    for (at, column) in [(0, 0), (3, 1), (127, 3), (50, 5)] {
        for value in [Some(f32::NAN), Some(-f32::NAN), Some(f32::INFINITY), Some(f32::NEG_INFINITY), None] {
            let error = odd(value, at, column).unwrap_err();
            assert!(matches!(&error, kstore::Error::BadValue { row, .. } if *row == at as u64), "{error}");
        }
        for value in [0.0, -0.0, f32::MIN, f32::MIN_POSITIVE, 1e-45, 1.0] {
            assert!(odd(Some(value), at, column).is_ok(), "{value} in {at}, {column}");
        }
    }
}

#[test]
fn finite_is_what_the_standard_library_says() {
    for value in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 5e-324, -0.0, 0.0, 1.0] {
        assert_eq!(f64::all_finite(&[1.0, value, -1.0]), value.is_finite(), "{value}");
        assert_eq!(f32::all_finite(&[1.0, value as f32, -1.0]), (value as f32).is_finite(), "{value}");
    }
    assert!(f32::all_finite(&[]) && f64::all_finite(&[]));
}

#[test]
fn scores_by_rank_ascend_with_values_and_come_back() {
    let mut values: Vec<f64> = (0..500).map(|i| (f64::from(i * 37 % 500) / 60.0).exp()).collect();
    // a third of the values are equal
    values.extend([2.0; 250]);
    let shape = TableShape { stored_rows: 750, input_count: 1, target_count: 0, has_weights: false };
    let mut statistics = Statistics::new(&shape);
    statistics.inputs[0] =
        ColumnMoments { count: 750, weight_sum: 750.0, mean: 0.0, m2: 750.0, min: -1.0, max: 1.0, is_integer: false };
    let scaler = Scaler::quantile(&statistics, &values, &[]);
    let mut last = f64::NEG_INFINITY;
    for i in -200..8000 {
        let value = f64::from(i) / 2.0;
        let score = scaler.apply(0, value);
        let back = scaler.invert(0, score);
        assert!(score > last && (back - value).abs() < 1e-9 * value.abs().max(1.0), "{value}: {score}");
        last = score;
    }
    // the repeated value gets the mean score of its ranks, 42 to 292 of 750, without a jump next to
    // it; scores are quantiles of Tukey's lambda distribution with variance 1
    let knots = Scaler::knot_count(1);
    let score = |rank: usize| {
        let p = ((rank * knots / 750) as f64 + 0.5) / knots as f64;
        (p.powf(0.3) - (1.0 - p).powf(0.3)) / (0.3 * 1.169974165433836)
    };
    let two = scaler.apply(0, 2.0);
    assert!((two - (score(42) + score(292)) / 2.0).abs() < 0.1, "{two}");
    assert!((scaler.apply(0, 2.0 + 1e-9) - two).abs() < 1e-6);
    assert!(scaler.apply(0, f64::NAN).is_nan());
    let mut same = scaler.clone();
    same.set_identity(0);
    for value in [0.0, 1.0, -1.0, 0.37] {
        assert!((same.apply(0, value) - value).abs() < 1e-15, "{value}");
    }
    // the mean of scores that are symmetric about 0 is 0
    let equal = Scaler { knots: vec![3.0; knots], ..scaler };
    assert!(equal.apply(0, 3.0).abs() < 1e-15);
}
