//! Columns of number lists, which become one column per position if all lists have the same length.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::buffer::{NullBuffer, OffsetBuffer};
use kstore::arrow::datatypes::{DataType, Field, Float32Type};
use kstore::{Error, Selection, Table};
use std::sync::Arc;

pub(crate) fn list(lengths: &[usize], large: bool) -> ArrayRef {
    let total: usize = lengths.iter().sum();
    let values: ArrayRef = Arc::new(Float32Array::from_iter_values((0..total).map(|i| i as f32)));
    let field = Arc::new(Field::new("item", DataType::Float32, true));
    match large {
        true => Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths.to_vec()), values, None)),
        false => Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths.to_vec()), values, None)),
    }
}

pub(crate) fn fixed(rows: usize, width: i32) -> ArrayRef {
    let values: ArrayRef = Arc::new(Float32Array::from_iter_values((0..rows as i32 * width).map(|i| i as f32)));
    Arc::new(FixedSizeListArray::new(Arc::new(Field::new("item", DataType::Float32, true)), width, values, None))
}

#[test]
fn lists_of_one_length_are_blocks_of_columns() {
    let folder = folder();
    for (i, list) in [list(&[3; 200], false), list(&[3; 200], true), fixed(200, 3)].into_iter().enumerate() {
        let y: ArrayRef = Arc::new(Float64Array::from_iter_values((0..200).map(f64::from)));
        let table = batch(&[("y", y), ("v", list)]);
        let mut paths = vec![folder.path().join(format!("{i}.parquet"))];
        write(&paths[0], &table, groups_of(70));
        for (k, compression) in COMPRESSIONS.into_iter().enumerate() {
            paths.push(folder.path().join(format!("{i}{k}.arrow")));
            write_ipc(paths.last().unwrap(), &[table.slice(0, 90), table.slice(90, 110)], compression);
        }
        for path in paths {
            let schema = Table::open(&[&path]).unwrap().schema().clone();
            let found: Vec<_> = schema.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(found, ["y", "v[0]", "v[1]", "v[2]"]);
            let rows = Selection { rows: Some(85..100), targets: names(&["y"]), ..only(&["v"]) };
            let whole = all(&path, &rows).unwrap();
            assert_eq!(whole.x, (255..300).map(f64::from).collect::<Vec<_>>(), "{}", path.display());
            assert_eq!(whole.y, (85..100).map(f64::from).collect::<Vec<_>>());
            assert_eq!(all(&path, &only(&["v[2]", "y"])).unwrap().x[..4], [2.0, 0.0, 5.0, 1.0]);
            assert_eq!(all(&path, &only(&["v*"])).unwrap().x[..4], [0.0, 1.0, 2.0, 3.0]);
        }
    }
}

#[test]
fn rows_longer_than_a_chunk_are_all_read() {
    let (folder, width) = (folder(), 1 << 16);
    let table = batch(&[("v", fixed(11, width)), ("y", Arc::new(Float64Array::from(vec![1.0; 11])))]);
    let (parquet, ipc) = (folder.path().join("a.parquet"), folder.path().join("a.arrow"));
    write(&parquet, &table, groups_of(7));
    write_ipc(&ipc, &[table.slice(0, 9), table.slice(9, 2)], None);
    for path in [parquet, ipc] {
        let last = ["v[65535]", "y"];
        for selection in [only(&["v*"]), only(&last), Selection { targets: names(&["y"]), ..only(&["v*"]) }] {
            assert_eq!(all(&path, &selection).unwrap().rows, (0..11).collect::<Vec<u64>>(), "{}", path.display());
        }
        assert_eq!(all(&path, &only(&last)).unwrap().x[20..], [(11.0 * 65_536.0) - 1.0, 1.0]);
    }
}

#[test]
fn a_list_of_another_length_is_named() {
    let folder = folder();
    let mut lengths = vec![3; 100];
    lengths[77] = 4;
    for list in [list(&lengths, false), list(&lengths, true)] {
        let table = batch(&[("v", list)]);
        let (parquet, ipc) = (folder.path().join("a.parquet"), folder.path().join("a.arrow"));
        write(&parquet, &table, groups_of(30));
        write_ipc(&ipc, &[table.slice(0, 40), table.slice(40, 60)], None);
        for path in [parquet, ipc] {
            let error = all(&path, &Selection::default()).unwrap_err();
            let Error::ListLength { row: 77, column, expected: 3, got: 4, .. } = &error else { panic!("{error}") };
            assert_eq!(column, "v");
            let text = error.to_string();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(name) && text.contains("row 77"), "{text}");
            // the rows before it are readable
            let before = Selection { rows: Some(0..77), ..Selection::default() };
            assert_eq!(all(&path, &before).unwrap().rows.len(), 77);
        }
    }
}

#[test]
fn a_missing_number_in_a_list_is_a_missing_value() {
    let folder = folder();
    let rows: Vec<_> = (0..50).map(|i| Some(vec![Some(i as f32), (i != 33).then_some(0.5)])).collect();
    let table = batch(&[("v", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2)))]);
    let (parquet, ipc) = (folder.path().join("a.parquet"), folder.path().join("a.arrow"));
    write(&parquet, &table, groups_of(20));
    write_ipc(&ipc, &[table.slice(0, 20), table.slice(20, 30)], None);
    for path in [parquet, ipc] {
        let error = all(&path, &Selection::default()).unwrap_err();
        let named =
            matches!(&error, Error::BadValue { row: 33, column, value, .. } if column == "v[1]" && value == "missing");
        assert!(named, "{error}");
        let drop = Selection { missing: kstore::Missing::Drop, ..Selection::default() };
        let kept = all(&path, &drop).unwrap();
        assert_eq!((kept.rows.len(), kept.rows[32], kept.rows[33]), (49, 32, 34));
    }
}

#[test]
fn a_missing_list_is_a_missing_value_in_each_of_its_columns() {
    let folder = folder();
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let valid: NullBuffer = (0..100).map(|row| !matches!(row, 30 | 77 | 78 | 99)).collect();
    let values: ArrayRef = Arc::new(Float32Array::from_iter((0..300).map(|i| (i != 151).then_some(i as f32))));
    let fixed = FixedSizeListArray::new(Arc::clone(&item), 3, Arc::clone(&values), Some(valid.clone()));
    let lengths = OffsetBuffer::from_lengths(valid.iter().map(|there| if there { 3 } else { 0 }));
    let there: UInt32Array = (0..300).filter(|i| valid.is_valid(*i as usize / 3)).collect();
    let packed = kstore::arrow::compute::take(&values, &there, None).unwrap();
    let ragged = ListArray::new(Arc::clone(&item), lengths, packed, Some(valid.clone()));
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..100).map(f64::from)));
    for (k, list) in [Arc::new(fixed) as ArrayRef, Arc::new(ragged)].into_iter().enumerate() {
        let table = batch(&[("v", list), ("x", Arc::clone(&x))]);
        let mut paths = vec![folder.path().join(format!("{k}.parquet"))];
        write(&paths[0], &table, groups_of(30));
        for (i, compression) in COMPRESSIONS.into_iter().enumerate() {
            paths.push(folder.path().join(format!("{k}{i}.arrow")));
            write_ipc(&paths[i + 1], &[table.slice(0, 40), table.slice(40, 60)], compression);
        }
        for path in paths {
            // the error does not occur if the column is not selected
            assert_eq!(all(&path, &only(&["x"])).unwrap().x.len(), 100);
            let error = all(&path, &only(&["v"])).unwrap_err();
            let named = matches!(&error, Error::BadValue { row: 30, column, value, .. } if column == "v[0]" && value == "missing");
            assert!(named, "{}: {error}", path.display());
            let dropped = all(&path, &Selection { missing: kstore::Missing::Drop, ..only(&["v", "x"]) }).unwrap();
            let rows: Vec<u64> = (0..100).filter(|row| valid.is_valid(*row as usize) && *row != 50).collect();
            assert_eq!(dropped.rows, rows, "{}", path.display());
            for (x, row) in dropped.x.chunks(4).zip(rows) {
                let row = row as f64;
                assert_eq!(x, [3.0 * row, 3.0 * row + 1.0, 3.0 * row + 2.0, row]);
            }
        }
    }
}

#[test]
fn numbers_of_two_lists_beside_each_other_are_not_mixed_up() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let negative: ArrayRef = Arc::new(Float32Array::from_iter_values((0..100).map(|i| -(i as f32))));
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let other: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, negative, None));
    let seven: ArrayRef = Arc::new(Float32Array::from(vec![7.0; 50]));
    write_ipc(&path, &[batch(&[("v", fixed(50, 2)), ("w", other), ("a", seven)])], None);
    for (names, row) in
        [(["v[0]", "w[1]"], [20.0, -21.0]), (["a", "w[1]"], [7.0, -21.0]), (["w[0]", "v[1]"], [-20.0, 21.0])]
    {
        assert_eq!(all(&path, &only(&names)).unwrap().x[20..22], row, "{names:?}");
    }
}
