//! Parquet files that claim more than they contain, and dates that a narrower type would wrap.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::datatypes::Field;
use kstore::{Error, Selection, Table};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DoubleType, Int96, Int96Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

/// Encodes a number as in Thrift's compact protocol.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Finds a number in the page header at `from`: 0 type, 1 unpacked size, 2 stored size, 3 number of
/// values. Returns its position and value.
fn number(file: &[u8], offset: usize, index: usize) -> (usize, u64) {
    let mut at = offset;
    for place in 0..=index {
        // the header of a nested struct precedes the number of values
        at += if place == 3 { 2 } else { 1 };
        let length = 1 + file[at..].iter().position(|byte| byte & 0x80 == 0).unwrap();
        if place == index {
            let value = file[at..at + length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
            return (at, value / 2);
        }
        at += length;
    }
    unreachable!()
}

/// Replaces a number in the first page header with one of the same encoded length.
fn lie(path: &Path, index: usize, is_expected: impl Fn(u64) -> bool, value: u64) {
    let mut file = std::fs::read(path).unwrap();
    let (at, found) = number(&file, 4, index);
    assert!(is_expected(found), "{found}");
    let bytes = varint(2 * value);
    assert_eq!(bytes.len(), varint(2 * found).len());
    file[at..at + bytes.len()].copy_from_slice(&bytes);
    std::fs::write(path, file).unwrap();
}

fn error(path: &Path) -> String {
    let error = all(path, &Selection { missing: kstore::Missing::Mean, ..Selection::default() }).unwrap_err();
    assert!(matches!(&error, Error::Malformed { .. }), "{error}");
    error.to_string()
}

#[test]
fn numbers_of_page_headers_are_bounded_before_the_decoder_allocates() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let whole: ArrayRef = Arc::new(Int64Array::from_iter_values((0..20_000).chain(0..20_000)));
    let properties = WriterProperties::builder().set_data_page_size_limit(8 << 20).build();
    write(&path, &batch(&[("x", whole)]), properties);
    assert_eq!(all(&path, &Selection::default()).unwrap().x[39_999], 19_999.0);
    lie(&path, 3, |values| values == 20_000, 1_000_000);
    assert!(error(&path).contains("a dictionary claims 1000000 values and has at most 20000"), "{}", error(&path));
    let wide: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|i| i << 30)));
    for codec in [Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        let properties = WriterProperties::builder().set_compression(codec).set_dictionary_enabled(false);
        let properties = properties.set_data_page_row_count_limit(1 << 20).set_data_page_size_limit(8 << 20);
        write(&path, &batch(&[("x", Arc::clone(&wide))]), properties.build());
        lie(&path, 1, |size| size > 1_600_000, 130_000_000);
        assert!(error(&path).contains("a page claims 130000000 bytes"), "{}", error(&path));
    }
}

fn write_texts(path: &Path, texts: StringArray, encoding: Encoding, version: WriterVersion) {
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
    write(path, &batch(&[("x", Arc::new(texts))]), properties.set_writer_version(version).build());
}

/// Formats a text as a CSV line; an empty text must be quoted.
fn csv_line(text: &str) -> String {
    if text.is_empty() { "\"\"\n".to_string() } else { format!("{text}\n") }
}

/// Writes delta-encoded texts. `lengths` may be a block and the count of lengths that it claims.
fn delta(path: &Path, encoding: Encoding, lengths: &[u8], version: WriterVersion) {
    write_texts(path, StringArray::from(vec![Some("Bonn"), Some("Bonn am Rhein"), None]), encoding, version);
    let mut file = std::fs::read(path).unwrap();
    // header of packed lengths: blocks of 128 numbers in 4 parts, 2 numbers in total
    let header = [0x80, 0x01, 0x04, 0x02];
    let places: Vec<usize> = (0..file.len()).filter(|at| file[*at..].starts_with(&header)).collect();
    if let [place, count] = lengths {
        file[places[usize::from(*place)] + 3] = *count;
    }
    std::fs::write(path, file).unwrap();
}

#[test]
fn counts_within_pages_of_texts_are_bounded_by_their_values() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let keep = Selection { keep: names(&["x"]), without_features: true, ..Selection::default() };
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        // prefix encoding packs the lengths of prefixes and of suffixes, one after the other
        for (encoding, packed) in [(Encoding::DELTA_LENGTH_BYTE_ARRAY, 1), (Encoding::DELTA_BYTE_ARRAY, 2)] {
            delta(&path, encoding, &[], version);
            let table = Table::open(&[&path]).unwrap();
            assert_eq!(crate::united::csv_of(&table, "").unwrap(), "x\nBonn\nBonn am Rhein\n\"\"\n");
            // several blocks of lengths, and no lengths
            let many: Vec<Option<String>> = (0..2000).map(|i| (i % 7 > 0).then(|| "a".repeat(i % 300))).collect();
            for texts in [many, vec![None; 300]] {
                let rows = texts.iter().map(|text| text.as_deref().map_or("\"\"\n".to_string(), csv_line));
                let expected = format!("x\n{}", rows.collect::<String>());
                write_texts(&path, StringArray::from(texts.clone()), encoding, version);
                assert_eq!(crate::united::csv_of(&Table::open(&[&path]).unwrap(), "").unwrap(), expected);
            }
            for place in 0..packed {
                delta(&path, encoding, &[place, 0x7f], version);
                let error = all(&path, &keep).unwrap_err();
                assert!(matches!(&error, Error::Malformed { .. }), "{error}");
                assert!(error.to_string().contains("do not match its values"), "{error}");
            }
        }
    }
}

#[test]
fn int96_keeps_dates_that_nanoseconds_do_not_reach() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let schema = Arc::new(parse_message_type("message m { required int96 when; required double y; }").unwrap());
    let mut writer = SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, Arc::default()).unwrap();
    // days since 1970-01-01 by Python's datetime; INT96 counts Julian days: that date is 2,440,588
    let days: [(i64, u64); 4] = [(18_787, 10_957), (2_932_896, 7200), (-719_162, 0), (18_262, 0)];
    let int96 = |(day, second): &(i64, u64)| {
        let (nanos, mut value) = (second * 1_000_000_000, Int96::new());
        value.set_data(nanos as u32, (nanos >> 32) as u32, (day + 2_440_588) as u32);
        value
    };
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&days.iter().map(int96).collect::<Vec<_>>(), None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[1.0, 2.0, 3.0, 4.0], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let table = Table::open(&[&path]).unwrap();
    let csv = crate::united::csv_of(&table, "").unwrap();
    let dates = ["2021-06-09T03:02:37", "9999-12-31T02:00:00", "0001-01-01T00:00:00", "2020-01-01T00:00:00"];
    let rows: String = dates.iter().zip(1..).map(|(date, y)| format!("{date}.000000,{y}.0\n")).collect();
    assert_eq!(csv, format!("when,y\n{rows}"));
    let late = crate::united::csv_of(&table, "when > 2022-01-01").unwrap();
    assert_eq!(late, "when,y\n9999-12-31T02:00:00.000000,2.0\n");
}

#[test]
fn columns_that_are_nested_too_deeply_are_refused_before_the_decoder_follows_them() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    for (levels, error) in
        [(20, None), (48, None), (49, Some("51 levels deep, and at most 50")), (400, Some("402 levels"))]
    {
        let mut deep: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        for _ in 0..levels {
            let field = Arc::new(Field::new("a", deep.data_type().clone(), false));
            deep = Arc::new(StructArray::from(vec![(field, deep)]));
        }
        // writing 400 levels needs more stack than this thread has
        let x: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
        let table = batch(&[("x", x), ("deep", deep)]);
        let written = path.clone();
        let writer = std::thread::Builder::new().stack_size(256 << 20);
        let written = writer.spawn(move || write(&written, &table, WriterProperties::default())).unwrap().join();
        written.unwrap();
        match (Table::open(&[&path]), error) {
            (Ok(table), None) => assert!(table.schema().columns[1].kind.to_string().contains("records")),
            (Err(found), Some(error)) => assert!(found.to_string().contains(error), "{found}"),
            (found, _) => panic!("{levels}: {found:?}"),
        }
    }
}
