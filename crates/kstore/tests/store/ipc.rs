//! Arrow IPC files: all types, compressions and cuts, and damaged files.

use crate::lists::{fixed, list};
use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::buffer::OffsetBuffer;
use kstore::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float16Type, Float32Type, Int8Type, Int16Type, Int32Type, TimeUnit, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use kstore::arrow::ipc::CompressionType;
use kstore::arrow::ipc::writer::StreamWriter;
use kstore::encoding::TimeFeatures;
use kstore::source::ipc::IpcFile;
use kstore::{
    Error, Kind, Label, OutputColumn, OutputKind, OutputValues, ReadSettings, RowSource, Selection, Table, sink,
};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_into_batches_reads_as_parquet_does(
        cuts in prop::collection::vec(0u64..900, 0..5),
        start in 0u64..900,
        length in 1u64..400,
        tile in 1usize..200,
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
    ) {
        let folder = folder();
        let path = folder.path().join("a.arrow");
        let mut edges = cuts.clone();
        edges.extend([0, 900]);
        edges.sort_unstable();
        // equal cuts create empty batches
        let batches: Vec<_> = edges.windows(2).map(|edge| standard(edge[0]..edge[1])).collect();
        write_ipc(&path, &batches, compression);
        let parquet = usual_rows(&split(folder.path(), 900, &[], 1000));
        let rows = start..(start + length).min(900);
        let got = read(&usual_rows(&[path]), rows.clone(), tile).unwrap();
        prop_assert_eq!(got, read(&parquet, rows, tile).unwrap());
    }
}

/// Converts integers to a smaller type.
fn narrow_integers<I: ArrowPrimitiveType>(array: &Int64Array) -> ArrayRef
where
    I::Native: TryFrom<i64, Error: std::fmt::Debug>,
{
    Arc::new(array.unary::<_, I>(|value| I::Native::try_from(value).unwrap_or_default()))
}

/// Reinterprets integers as times.
fn convert_to(array: &dyn Array, time: DataType) -> ArrayRef {
    make_array(array.to_data().into_builder().data_type(time).build().unwrap())
}

/// Returns numbers of every type with a missing value in the middle, and their expected values.
fn every_type() -> Vec<(&'static str, ArrayRef, [f64; 3])> {
    let nan = f64::NAN;
    let whole = Int64Array::from(vec![Some(-3), None, Some(100)]);
    let count = Int64Array::from(vec![Some(3), None, Some(200)]);
    let float = Float64Array::from(vec![Some(0.5), None, Some(-2.0)]);
    let (signed, unsigned, real) = ([-3.0, nan, 100.0], [3.0, nan, 200.0], [0.5, nan, -2.0]);
    let unscaled = [Some(15), None, Some(-1)];
    let decimal = |digits, scale| {
        let values = Decimal128Array::from(vec![Some(15), None, Some(-1)]);
        Arc::new(values.with_precision_and_scale(digits, scale).unwrap()) as ArrayRef
    };
    let dictionary = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![Some(1), None, Some(0)]),
        Arc::new(Float32Array::from(vec![0.5, 2.5])),
    );
    vec![
        ("f16", Arc::new(float.unary::<_, Float16Type>(<Float16Type as ArrowPrimitiveType>::Native::from_f64)), real),
        ("f32", Arc::new(float.unary::<_, Float32Type>(|v| v as f32)), real),
        ("f64", Arc::new(float.clone()), real),
        ("i8", narrow_integers::<Int8Type>(&whole), signed),
        ("i16", narrow_integers::<Int16Type>(&whole), signed),
        ("i32", narrow_integers::<Int32Type>(&whole), signed),
        ("i64", Arc::new(whole.clone()) as ArrayRef, signed),
        ("u8", narrow_integers::<UInt8Type>(&count), unsigned),
        ("u16", narrow_integers::<UInt16Type>(&count), unsigned),
        ("u32", narrow_integers::<UInt32Type>(&count), unsigned),
        ("u64", narrow_integers::<UInt64Type>(&count), unsigned),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), [1.0, nan, 0.0]),
        ("d128", decimal(20, 1), [1.5, nan, -0.1]),
        (
            "d256",
            Arc::new(
                Decimal256Array::from(unscaled.map(|v| v.map(i256::from)).to_vec())
                    .with_precision_and_scale(40, 2)
                    .unwrap(),
            ),
            [0.15, nan, -0.01],
        ),
        (
            "d32",
            Arc::new(Decimal32Array::from(unscaled.to_vec()).with_precision_and_scale(9, 2).unwrap()),
            [0.15, nan, -0.01],
        ),
        (
            "d64",
            Arc::new(
                Decimal64Array::from(unscaled.map(|v| v.map(i64::from)).to_vec())
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
            [0.15, nan, -0.01],
        ),
        ("date32", convert_to(&narrow_integers::<Int32Type>(&whole), DataType::Date32), signed),
        ("date64", convert_to(&whole, DataType::Date64), signed),
        ("time", convert_to(&whole, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))), signed),
        ("clock", convert_to(&narrow_integers::<Int32Type>(&count), DataType::Time32(TimeUnit::Second)), unsigned),
        ("span", convert_to(&whole, DataType::Duration(TimeUnit::Nanosecond)), signed),
        ("dict", Arc::new(dictionary), [2.5, nan, 0.5]),
    ]
}

/// Reads the value of a column in a row; returns NaN if it is reported as missing.
fn cell(path: &Path, column: &str, row: u64) -> f64 {
    let selection = Selection { rows: Some(row..row + 1), times: TimeFeatures::None, ..only(&[column]) };
    match all(path, &selection) {
        Ok(whole) => whole.x[0],
        Err(Error::BadValue { value, row: at, .. }) if value == "missing" && at == row => f64::NAN,
        Err(error) => panic!("{column}: {error}"),
    }
}

#[test]
fn every_type_reads_back_from_ipc_and_parquet() {
    let folder = folder();
    let types = every_type();
    let columns: Vec<_> = types.iter().map(|(name, array, _)| (*name, Arc::clone(array))).collect();
    let table = batch(&columns);
    for (i, compression) in COMPRESSIONS.into_iter().enumerate() {
        write_ipc(&folder.path().join(format!("{i}.arrow")), std::slice::from_ref(&table), compression);
    }
    // Parquet has no durations
    let stored: Vec<_> = columns.iter().filter(|(name, _)| *name != "span").cloned().collect();
    write(&folder.path().join("3.parquet"), &batch(&stored), groups_of(10));
    for name in ["0.arrow", "1.arrow", "2.arrow", "3.parquet"] {
        let path = folder.path().join(name);
        for (column, _, expected) in types.iter().filter(|(column, ..)| name != "3.parquet" || *column != "span") {
            for (row, expected) in expected.iter().enumerate() {
                let got = cell(&path, column, row as u64);
                assert!(got == *expected || got.is_nan() && expected.is_nan(), "{name} {column} {row}: {got}");
            }
        }
    }
}

#[test]
fn times_that_are_not_wanted_as_such_are_numbers_where_they_are_named() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let time: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![5, 6]));
    let x: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    write_ipc(&path, &[batch(&[("time", time), ("x", Arc::clone(&x))])], None);
    let numbers = |selection| Selection { times: TimeFeatures::None, ..selection };
    assert_eq!(all(&path, &numbers(Selection::default())).unwrap().x, [1.0, 2.0]);
    assert_eq!(all(&path, &numbers(only(&["time", "x"]))).unwrap().x, [5.0, 1.0, 6.0, 2.0]);
    let other = folder.path().join("b.arrow");
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![5, 6]));
    write_ipc(&other, &[batch(&[("time", time), ("x", x)])], None);
    // with two units, the table uses the finer one
    assert_eq!(read_all(&[path, other], &numbers(only(&["time"]))).unwrap().x, [5.0, 6.0, 5000.0, 6000.0]);
}

#[test]
fn texts_of_every_layout_are_labels_from_any_row() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let cities: Vec<String> = (0..300)
        .map(|i| ["Ulm", "Bonn", "", "a city whose name is longer than a view holds"][i % 4].repeat(1 + i % 2))
        .collect();
    let plain = StringArray::from(cities.clone());
    let dictionary: DictionaryArray<UInt16Type> = cities.iter().map(|city| Some(city.as_str())).collect();
    // a sliced array has offsets that do not start at 0
    let padded = StringArray::from([vec!["before".to_string(); 7], cities.clone()].concat());
    let texts: [ArrayRef; 5] = [
        Arc::new(LargeStringArray::from(cities.clone())),
        Arc::new(StringViewArray::from(cities.iter().map(String::as_str).collect::<Vec<_>>())),
        Arc::new(dictionary),
        Arc::new(padded.slice(7, 300)),
        Arc::new(plain),
    ];
    for text in &texts {
        for compression in COMPRESSIONS {
            let x: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 300]));
            // a view column in front shifts the buffers of the later columns
            let front = Arc::clone(&texts[1]);
            let table = batch(&[("front", front), ("city", Arc::clone(text)), ("x", x)]);
            write_ipc(&path, &[table.slice(0, 120), table.slice(120, 180)], compression);
            assert_eq!(Table::open(&[&path]).unwrap().schema().columns[1].kind, Kind::Text);
            for rows in [0..300, 7..9, 119..121, 250..300] {
                let expected = cities[rows.start as usize..rows.end as usize].iter();
                let expected: Vec<_> = expected.map(|city| Label::Text(city.as_str().into())).collect();
                let selection =
                    Selection { targets: names(&["city"]), class_target: true, rows: Some(rows), ..only(&["x"]) };
                assert_eq!(all(&path, &selection).unwrap().classes, expected, "{}", text.data_type());
            }
        }
    }
}

#[test]
fn columns_of_other_types_do_not_shift_those_behind_them() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let x: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["a", "bb", "c"]));
    let others: Vec<(&str, ArrayRef)> = vec![
        ("binary", Arc::new(BinaryArray::from_vec(vec![b"a", b"bb", b""]))),
        (
            "views",
            Arc::new(BinaryViewArray::from_iter_values([&b"a view that is long enough to be stored apart"[..]; 3])),
        ),
        ("three", Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8; 3]; 3].iter()).unwrap())),
        ("texts", Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 1]), Arc::clone(&strings), None))),
        (
            "struct",
            Arc::new(StructArray::from(vec![
                (Arc::new(Field::new("a", DataType::Float32, true)), Arc::clone(&x)),
                (Arc::new(Field::new("b", DataType::Utf8, true)), strings),
            ])),
        ),
    ];
    let mut columns = others.clone();
    columns.insert(0, ("null", Arc::new(NullArray::new(3))));
    columns.push(("x", x));
    let table = batch(&columns);
    for compression in COMPRESSIONS {
        write_ipc(&path, std::slice::from_ref(&table), compression);
        assert_eq!(all(&path, &only(&["x"])).unwrap().x, [1.0, 2.0, 3.0]);
        for (name, _) in &others {
            assert!(matches!(all(&path, &only(&[name])), Err(Error::WrongType { .. })), "{name}");
        }
    }
}

#[test]
fn streams_and_old_feather_files_name_the_remedy() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let table = standard(0..10);
    let mut writer = StreamWriter::try_new(std::fs::File::create(&path).unwrap(), &table.schema()).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
    let error = Table::open(&[&path]).unwrap_err().to_string();
    assert!(error.contains("stream") && error.contains("new_file"), "{error}");
    std::fs::write(&path, b"FEA1 and so on, FEA1").unwrap();
    let error = Table::open(&[&path]).unwrap_err().to_string();
    assert!(error.contains("version=2"), "{error}");
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let mut columns: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(Float32Array::from(vec![0.5; 60])))];
    columns.push(("v", list(&[2; 60], false)));
    columns.push(("city", Arc::new(StringArray::from(vec!["Ulm"; 60]))));
    let dictionary: DictionaryArray<Int8Type> = ["u", "v", "w"].into_iter().cycle().take(60).collect();
    columns.push(("d", Arc::new(dictionary)));
    let table = batch(&columns);
    for compression in COMPRESSIONS {
        write_ipc(&path, &[table.slice(0, 25), table.slice(25, 35)], compression);
        let whole = std::fs::read(&path).unwrap();
        let selection = Selection {
            group: Some("d".to_string()),
            targets: names(&["city"]),
            class_target: true,
            ..Selection::default()
        };
        assert_eq!(all(&path, &selection).unwrap().rows.len(), 60);
        for cut in (0..whole.len()).step_by(31).chain([whole.len() - 1]) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = all(&path, &selection).unwrap_err();
            assert!(matches!(&error, Error::Malformed { format: "Arrow IPC", .. }), "{cut}: {error}");
        }
        for at in (8..whole.len()).step_by(13) {
            let mut damaged = whole.clone();
            damaged[at] ^= [0xff, 1, 0x80, 0x10][at % 4];
            std::fs::write(&path, &damaged).unwrap();
            // wrong values may be read, but a panic would fail this test, and an allocation as
            // large as a damaged length would end the process
            let _ = all(&path, &selection);
            let _ = Table::open(&[&path]).map(|table| {
                table
                    .select(&selection)
                    .and_then(|s| s.rows::<f32>(ReadSettings::default()))
                    .map(|r| RowSource::footprint(&r))
            });
        }
    }
}

#[test]
fn what_is_read_is_what_is_asked_for() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let n = 200_000;
    let column = || Arc::new(Float64Array::from_iter_values((0..n).map(f64::from))) as ArrayRef;
    write_ipc(&path, &[batch(&[("a", column()), ("b", column())])], None);
    let table = Table::open(&[&path]).unwrap();
    let rows = table.select(&only(&["b"])).unwrap().rows::<f32>(ReadSettings::default()).unwrap();
    // one batch of 3.2 MB is read in parts
    assert!(RowSource::footprint(&rows).fixed < 1 << 20, "{}", RowSource::footprint(&rows).fixed);
    read(&rows, 150_000..151_000, 100).unwrap();
    let few = RowSource::bytes_read(&rows);
    assert!((8_000..12_000).contains(&few), "{few} bytes for 1000 rows");
    assert_eq!(read(&rows, 150_000..150_001, 1).unwrap().x, [150_000.0]);
}

#[test]
fn a_mapped_column_is_used_in_place() {
    let folder = folder();
    let path = folder.path().join("a.arrow");
    let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let holed: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), None, None, None]));
    let table = batch(&[("x", x), ("v", fixed(4, 3)), ("holed", holed)]);
    write_ipc(&path, &[table.slice(0, 1), table.slice(1, 3)], None);
    let file = IpcFile::open(&path).unwrap();
    let map = file.map().unwrap();
    assert_eq!(file.batch_count(), 2);
    assert_eq!(map.column::<f64>(1, "x").unwrap(), [2.0, 3.0, 4.0]);
    let block = map.column::<f32>(1, "v").unwrap();
    assert_eq!(block, (3..12).map(|i| i as f32).collect::<Vec<_>>());
    assert!(map.mapped_file().bytes().as_ptr_range().contains(&block.as_ptr().cast()));
    assert!(matches!(map.column::<f32>(1, "x"), Err(Error::WrongType { .. })));
    assert!(matches!(map.column::<f32>(1, "w"), Err(Error::NoSuchColumn { .. })));
    assert!(map.column::<f64>(2, "x").unwrap_err().to_string().contains("2 batches"));
    assert!(map.column::<f32>(1, "holed").unwrap_err().to_string().contains("missing"));
    write_ipc(&path, &[table], Some(CompressionType::ZSTD));
    let error = IpcFile::open(&path).unwrap().map().unwrap().column::<f64>(0, "x").unwrap_err().to_string();
    assert!(error.contains("uncompressed"), "{error}");
}

#[test]
fn written_files_read_back_and_batches_are_bounded() {
    let folder = folder();
    let n = 100_000;
    for name in ["a.arrow", "b.ipc", "c.feather"] {
        let path = folder.path().join(name);
        let mut columns: Vec<_> = (0..30).map(|i| OutputColumn::new(format!("x{i}"), OutputKind::F64)).collect();
        columns.push(OutputColumn::new("t", OutputKind::Text));
        let mut out = sink::create(&path, &columns).unwrap();
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        for rows in [0..10, 10..99_999, 99_999..100_000] {
            let mut batch: Vec<_> = (0..30).map(|_| OutputValues::F64(&values[rows.clone()])).collect();
            let texts: kstore::Strings = rows.map(|i| ["Ulm", "Bonn"][i % 2]).collect();
            batch.push(OutputValues::Text(&texts));
            out.write(&batch).unwrap();
        }
        assert!(!path.exists());
        out.finish().unwrap();
        let selection = Selection { targets: names(&["t"]), class_target: true, ..only(&["x0", "x29"]) };
        let whole = all(&path, &selection).unwrap();
        assert_eq!(whole.x, values.iter().flat_map(|v| [*v, *v]).collect::<Vec<_>>());
        assert_eq!(whole.classes[99_999], Label::Text("Bonn".into()));
        // 25 MB in batches of at most 8 MiB
        assert!((3..=8).contains(&IpcFile::open(&path).unwrap().batch_count()));
        assert_eq!(IpcFile::open(&path).unwrap().map().unwrap().column::<f64>(0, "x3").unwrap()[17], 17.0);
    }
    let mut out = sink::create(&folder.path().join("d.arrow"), &[OutputColumn::new("a", OutputKind::F32)]).unwrap();
    out.write(&[OutputValues::F32(&vec![0.5; 100_000])]).unwrap();
    drop(out);
    assert!(!folder.path().join("d.arrow").exists() && std::fs::read_dir(folder.path()).unwrap().count() == 3);
}
