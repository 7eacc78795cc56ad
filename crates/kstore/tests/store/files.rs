//! Types, encodings, damaged files, and the files that form a table.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::datatypes::{DataType, Field, Int32Type};
use kstore::{Error, Kind, Label, ReadSettings, RowSource, Selection, Table};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn features(path: &Path) -> Vec<f64> {
    read_all(&[path.to_path_buf()], &Selection::default()).unwrap().x
}

#[test]
fn every_numeric_type_reads_back() {
    let folder = folder();
    let path = folder.path().join("types.parquet");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("f32", Arc::new(Float32Array::from(vec![0.1, -2.0]))),
        ("f64", Arc::new(Float64Array::from(vec![0.1, -1e300]))),
        ("i8", Arc::new(Int8Array::from(vec![-128, 127]))),
        ("i16", Arc::new(Int16Array::from(vec![-32768, 32767]))),
        ("i32", Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX]))),
        ("i64", Arc::new(Int64Array::from(vec![-(1 << 53), 1 << 53]))),
        ("u8", Arc::new(UInt8Array::from(vec![0, 255]))),
        ("u16", Arc::new(UInt16Array::from(vec![0, 65535]))),
        ("u32", Arc::new(UInt32Array::from(vec![0, u32::MAX]))),
        ("u64", Arc::new(UInt64Array::from(vec![0, 1 << 63]))),
        ("bool", Arc::new(BooleanArray::from(vec![true, false]))),
    ];
    write(&path, &batch(&columns), WriterProperties::default());
    let first = [f64::from(0.1f32), 0.1, -128.0, -32768.0, -2147483648.0, -9007199254740992.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let last = [
        -2.0,
        -1e300,
        127.0,
        32767.0,
        2147483647.0,
        9007199254740992.0,
        255.0,
        65535.0,
        4294967295.0,
        2f64.powi(63),
        0.0,
    ];
    assert_eq!(features(&path), [first, last].concat());
}

#[test]
fn every_encoding_and_compression_reads_back() {
    let folder = folder();
    let values: Vec<f32> = (0..1000).map(|i| (i % 37) as f32 * 0.5).collect();
    let table = batch(&[("x", Arc::new(Float32Array::from(values.clone())))]);
    let expected: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    let plain = || WriterProperties::builder().set_dictionary_enabled(false).set_max_row_group_row_count(Some(300));
    let variants = [
        WriterProperties::builder().set_dictionary_enabled(true).build(),
        plain().build(),
        plain().set_encoding(Encoding::BYTE_STREAM_SPLIT).build(),
        plain().set_writer_version(WriterVersion::PARQUET_2_0).build(),
        plain().set_compression(Compression::SNAPPY).build(),
        plain().set_compression(Compression::LZ4_RAW).build(),
        plain().set_compression(Compression::GZIP(Default::default())).build(),
        plain().set_compression(Compression::ZSTD(ZstdLevel::default())).build(),
    ];
    for (i, properties) in variants.into_iter().enumerate() {
        let path = folder.path().join(format!("{i}.parquet"));
        write(&path, &table, properties);
        assert_eq!(features(&path), expected, "variant {i}");
    }
}

#[test]
fn dictionaries_and_all_texts_are_labels() {
    let folder = folder();
    let cities = ["Ulm", "Bonn", "Ulm", "Kiel"];
    let dictionary: DictionaryArray<Int32Type> = cities.into_iter().collect();
    let x = || ("x", Arc::new(Float32Array::from(vec![1.0; 4])) as ArrayRef);
    let texts: [ArrayRef; 4] = [
        Arc::new(StringArray::from(cities.to_vec())),
        Arc::new(LargeStringArray::from(cities.to_vec())),
        Arc::new(StringViewArray::from(cities.to_vec())),
        Arc::new(dictionary),
    ];
    let path = folder.path().join("text.parquet");
    for text in texts {
        write(&path, &batch(&[x(), ("city", text)]), WriterProperties::default());
        assert_eq!(Table::open(&[&path]).unwrap().schema().columns[1].kind, Kind::Text);
        let selection = Selection { targets: names(&["city"]), class_target: true, ..Selection::default() };
        let whole = read_all(std::slice::from_ref(&path), &selection).unwrap();
        let expected: Vec<_> = cities.iter().map(|city| Label::Text((*city).into())).collect();
        assert_eq!(whole.classes, expected);
    }
}

#[test]
fn columns_of_other_types_are_left_out_and_named() {
    let folder = folder();
    let path = folder.path().join("pair.parquet");
    let item: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"c"]));
    let pair = StructArray::from(vec![(Arc::new(Field::new("item", DataType::Binary, false)), item)]);
    let x: ArrayRef = Arc::new(Float32Array::from(vec![4.0, 5.0, 6.0]));
    let y: ArrayRef = Arc::new(Float32Array::from(vec![7.0, 8.0, 9.0]));
    write(&path, &batch(&[("x", x), ("pair", Arc::new(pair)), ("y", y)]), WriterProperties::default());
    assert_eq!(features(&path), [4.0, 7.0, 5.0, 8.0, 6.0, 9.0]);
    let selection = Selection { features: names(&["pair"]), ..Selection::default() };
    let error = read_all(&[path], &selection).unwrap_err();
    assert!(matches!(&error, Error::WrongType { column, .. } if column == "pair"), "{error}");
}

pub(crate) fn npy(path: &Path, descr: &str, shape: &str, data: &[u8]) {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(text.len() as u16).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.write_all(data).unwrap();
}

#[test]
fn every_npy_type_reads_back() {
    let folder = folder();
    let path = folder.path().join("a.npy");
    macro_rules! check {
        ($type:ty, $descr:literal, $($value:expr),*) => {
            let values: Vec<$type> = vec![$($value),*];
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            npy(&path, $descr, &format!("({}, 2)", values.len() / 2), &bytes);
            assert_eq!(features(&path), values.iter().map(|v| *v as f64).collect::<Vec<_>>(), $descr);
            npy(&path, $descr, &format!("({},)", values.len()), &bytes);
            assert_eq!(features(&path), values.iter().map(|v| *v as f64).collect::<Vec<_>>(), $descr);
        };
    }
    check!(f32, "<f4", 0.1, -2.5, 3.0, f32::MAX);
    check!(f64, "<f8", 0.1, -2.5, 3.0, f64::MAX);
    check!(i8, "|i1", -128, 127);
    check!(i16, "<i2", -32768, 32767);
    check!(i32, "<i4", i32::MIN, i32::MAX);
    check!(i64, "<i8", -(1 << 53), 1 << 53);
    check!(u8, "|u1", 0, 255);
    check!(u16, "<u2", 0, 65535);
    check!(u32, "<u4", 0, u32::MAX);
    check!(u64, "<u8", 0, 1 << 63);
    npy(&path, "|b1", "(2, 1)", &[1, 0]);
    assert_eq!(features(&path), [1.0, 0.0]);
}

#[test]
fn npy_columns_can_be_chosen_and_joined_with_a_target() {
    let folder = folder();
    let (x, y) = (folder.path().join("x.npy"), folder.path().join("y.npy"));
    let n = 100_000u32;
    let values: Vec<f32> = (0..3 * n).map(|i| i as f32).collect();
    npy(&x, "<f4", &format!("({n}, 3)"), &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    npy(&y, "<i8", &format!("({n},)"), &(0..i64::from(n)).flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let table = Table::open(&[&x]).unwrap().with_target_file(&y).unwrap();
    let selection = Selection { features: names(&["x2", "x0"]), targets: names(&["y"]), ..Selection::default() };
    let rows = table.select(&selection).unwrap().rows::<f32>(ReadSettings::default()).unwrap();
    let whole = read(&rows, 40_000..90_001, 999).unwrap();
    assert_eq!(whole.y, (40_000..90_001).map(f64::from).collect::<Vec<_>>());
    assert_eq!(whole.x[..4], [120_002.0, 120_000.0, 120_005.0, 120_003.0]);
    assert_eq!(whole.rows, (40_000..90_001).collect::<Vec<u64>>());
    npy(&y, "<i8", "(1,)", &[0; 8]);
    let error = Table::open(&[&x]).unwrap().with_target_file(&y).unwrap_err();
    assert!(matches!(error, Error::RowCount { first_rows: 100_000, second_rows: 1, .. }), "{error}");
}

#[test]
fn a_truncated_npy_says_how_much_is_there() {
    let folder = folder();
    let path = folder.path().join("a.npy");
    npy(&path, "<f4", "(10, 2)", &[0; 79]);
    let error = Table::open(&[&path]).unwrap_err().to_string();
    let found = std::fs::metadata(&path).unwrap().len();
    assert!(error.contains(&format!("needs {} bytes, the file has {found}", found + 1)), "{error}");
}

#[test]
fn damaged_parquet_is_an_error_wherever_it_is_cut() {
    let folder = folder();
    let [path] = &split(folder.path(), 500, &[], 200)[..] else { panic!() };
    let whole = std::fs::read(path).unwrap();
    for cut in [0, 3, 4, 11, 12, 100, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        std::fs::write(path, &whole[..cut]).unwrap();
        let error = Table::open(&[path]).unwrap_err();
        assert!(matches!(&error, Error::Malformed { format: "Parquet", .. }), "{cut}: {error}");
    }
    std::fs::write(path, "a,b\n1,2\n").unwrap();
    assert!(Table::open(&[path]).unwrap_err().to_string().contains("cannot be read as Parquet"));
}

#[test]
fn flipped_bytes_never_panic() {
    let folder = folder();
    let [path] = &split(folder.path(), 300, &[], 120)[..] else { panic!() };
    let whole = std::fs::read(path).unwrap();
    for at in (4..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= [0xff, 1, 0x80][at % 3];
        std::fs::write(path, &damaged).unwrap();
        // wrong values may be read, but a panic would fail this test
        let _ = read_all(std::slice::from_ref(path), &usual());
    }
}

#[test]
fn folders_files_and_patterns_are_one_sorted_table() {
    let folder = folder();
    let paths = split(folder.path(), 100, &[30, 60], 50);
    std::fs::write(folder.path().join("_SUCCESS"), "").unwrap();
    let whole = read_all(&paths, &usual()).unwrap();
    let pattern = folder.path().join("part-*.parquet");
    let reversed: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    for given in [vec![folder.path().to_path_buf()], vec![pattern.clone()], reversed, vec![pattern, paths[1].clone()]] {
        assert_eq!(read_all(&given, &usual()).unwrap(), whole, "{given:?}");
    }
    let table = Table::open(&paths).unwrap();
    assert_eq!((table.stored_rows(), table.files().len(), table.format()), (100, 3, "Parquet"));
    assert_eq!(table.locate(35), Some((paths[1].as_path(), 5)));
}

#[test]
fn missing_files_and_empty_folders_are_told() {
    let folder = folder();
    let error = Table::open(&[folder.path()]).unwrap_err().to_string();
    assert!(error.contains("holds no .parquet"), "{error}");
    split(folder.path(), 10, &[], 10);
    let error = Table::open(&[folder.path().join("part-00.parquet")]).unwrap_err();
    assert!(matches!(&error, Error::NotFound { hint, .. } if hint.contains("part-000.parquet")), "{error}");
    let error = Table::open(&[folder.path().join("no/a.parquet")]).unwrap_err().to_string();
    assert!(error.contains("there is no folder"), "{error}");
    let error = Table::open(&[folder.path().join("*.npy")]).unwrap_err().to_string();
    assert!(error.contains("matches no file"), "{error}");
    std::fs::write(folder.path().join("a.txt"), "hello").unwrap();
    let error = Table::open(&[folder.path().join("a.txt")]).unwrap_err();
    assert!(matches!(error, Error::UnknownFormat { .. }), "{error}");
}

#[test]
fn a_table_without_rows_is_told() {
    let folder = folder();
    let paths = split(folder.path(), 0, &[], 10);
    let table = Table::open(&paths).unwrap();
    assert_eq!(table.stored_rows(), 0);
    let error = table.select(&usual()).unwrap_err();
    assert!(matches!(&error, Error::Empty { why, .. } if why.starts_with("it has no rows")), "{error}");
}

#[test]
fn only_what_is_needed_is_read() {
    let folder = folder();
    let paths = split(folder.path(), 20_000, &[], 1000);
    let table = Table::open(&paths).unwrap();
    let one = Selection { features: names(&["a"]), ..Selection::default() };
    let rows = table.select(&one).unwrap().rows::<f32>(ReadSettings::default()).unwrap();
    read(&rows, 5000..6000, 100).unwrap();
    let few = RowSource::bytes_read(&rows);
    read(&rows, 0..20_000, 100).unwrap();
    let all = RowSource::bytes_read(&rows) - few;
    assert!(few > 0 && few * 15 < all, "a twentieth of the rows took {few} of {all} bytes");
    assert!(all * 2 < table.file_bytes(), "one column took {all} of {} bytes", table.file_bytes());
}

#[test]
fn a_decoder_is_planned_by_its_pages_and_not_by_its_row_group() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..200_000).map(f64::from)));
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let properties = properties.set_max_row_group_row_count(Some(1 << 20)).set_data_page_size_limit(1 << 14);
    write(&path, &batch(&[("x", x)]), properties.build());
    let rows = Table::open(&[&path]).unwrap().select(&Selection::default()).unwrap();
    let fixed = RowSource::<f64>::footprint(&rows.rows::<f64>(ReadSettings::default()).unwrap()).fixed;
    // two pages of 16 KiB and two batches of 4096 values, instead of two chunks of 1.6 MB
    assert!((32 << 10..300 << 10).contains(&fixed), "{fixed}");
}
