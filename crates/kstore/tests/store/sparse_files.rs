//! Sparse rows of every format: the same entries, and rejected files.

use crate::make::*;
use kstore::arrow::array::{ArrayRef, Float64Builder, Int64Builder, ListBuilder, MapBuilder, StructBuilder};
use kstore::arrow::datatypes::{DataType, Field};
use kstore::sparse::{SparseShape, entries};
use kstore::{KeptValues, Missing, OutputValues, ReadSettings, RowBuf, RowSource, Selection, Table, TextOptions, sink};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Entries of a row. An index, a value or the whole row may be missing.
type Row = Option<Vec<(Option<i64>, Option<f64>)>>;

fn row(entries: &[(i64, f64)]) -> Row {
    Some(entries.iter().map(|(index, value)| (Some(*index), Some(*value))).collect())
}

fn lists(rows: &[Row]) -> ArrayRef {
    let fields = vec![Field::new("index", DataType::Int64, true), Field::new("value", DataType::Float64, true)];
    let mut list = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    for row in rows {
        for (index, value) in row.iter().flatten() {
            let entry = list.values();
            entry.field_builder::<Int64Builder>(0).unwrap().append_option(*index);
            entry.field_builder::<Float64Builder>(1).unwrap().append_option(*value);
            entry.append(true);
        }
        list.append(row.is_some());
    }
    Arc::new(list.finish())
}

/// Returns the rows as maps, or `None` if a row has a missing index, which maps do not support.
fn maps(rows: &[Row]) -> Option<ArrayRef> {
    let mut map = MapBuilder::new(None, Int64Builder::new(), Float64Builder::new());
    for row in rows {
        for (index, value) in row.iter().flatten() {
            map.keys().append_value((*index)?);
            map.values().append_option(*value);
        }
        map.append(row.is_some()).unwrap();
    }
    Some(Arc::new(map.finish()))
}

fn array(descr: &str, length: usize, bytes: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({length},), }}\n");
    let head = [&b"\x93NUMPY\x01\x00"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    head.into_iter().chain(bytes).collect()
}

/// Returns the members of a matrix in SciPy's format.
fn members(rows: &[Row], width: i64) -> Vec<(&'static str, Vec<u8>)> {
    let all: Vec<(i64, f64)> =
        rows.iter().flatten().flatten().map(|(index, value)| (index.unwrap(), value.unwrap())).collect();
    let mut indptr = vec![0i32];
    rows.iter().for_each(|row| indptr.push(indptr[indptr.len() - 1] + row.as_ref().unwrap().len() as i32));
    let format = b"\x93NUMPY\x01\x00\x38\x00{'descr': '|S3', 'fortran_order': False, 'shape': (), }\ncsr".to_vec();
    vec![
        ("indices", array("<i4", all.len(), all.iter().flat_map(|(index, _)| (*index as i32).to_le_bytes()))),
        ("indptr", array("<i4", indptr.len(), indptr.iter().flat_map(|start| start.to_le_bytes()))),
        ("format", format),
        ("shape", array("<i8", 2, [rows.len() as i64, width].iter().flat_map(|size| size.to_le_bytes()))),
        ("data", array("<f8", all.len(), all.iter().flat_map(|(_, value)| value.to_le_bytes()))),
    ]
}

fn archive(path: &Path, members: &[(&str, Vec<u8>)], method: CompressionMethod) {
    let mut zip = ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in members {
        zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

const METHODS: [CompressionMethod; 2] = [CompressionMethod::Stored, CompressionMethod::Deflated];

/// Returns the bytes of a small uncompressed matrix.
pub(crate) fn npz_bytes(folder: &Path) -> Vec<u8> {
    let path = folder.join("seed.npz");
    archive(&path, &members(&[row(&[(0, 1.0), (4, 2.0)]), row(&[]), row(&[(1, 3.0)])], 5), METHODS[0]);
    std::fs::read(path).unwrap()
}

/// Writes the rows in every format that can store them.
fn files(folder: &Path, rows: &[Row], width: i64) -> Vec<PathBuf> {
    let path = |name: &str| folder.join(name);
    let mut files = vec![path("list.parquet"), path("list.arrow"), path("list.feather")];
    let list = batch(&[("x", lists(rows))]);
    write(&files[0], &list, groups_of(3));
    write_ipc(&files[1], &[list.slice(0, 2), list.slice(2, rows.len() - 2)], None);
    write_ipc(&files[2], &[list], COMPRESSIONS[1]);
    if let Some(maps) = maps(rows) {
        let map = batch(&[("x", maps)]);
        files.extend([path("map.parquet"), path("map.arrow")]);
        write(&path("map.parquet"), &map, groups_of(3));
        write_ipc(&path("map.arrow"), &[map], None);
    }
    if rows.iter().all(|row| row.as_ref().is_some_and(|row| row.iter().all(|(i, v)| i.is_some() && v.is_some()))) {
        for (name, method) in ["stored.npz", "deflated.npz"].into_iter().zip(METHODS) {
            archive(&path(name), &members(rows, width), method);
            files.push(path(name));
        }
    }
    files
}

fn selection() -> Selection {
    Selection { features: names(&["x"]), sparse: true, ..Selection::default() }
}

/// Reads the entries of the rows of a file from `start` on.
fn read_from(path: &Path, start: u64, selection: &Selection) -> kstore::Result<Vec<Vec<(f64, f64)>>> {
    let table = Table::open_with(&[path], &TextOptions::default().sparse())?;
    let rows = table.select(selection)?.rows::<f64>(ReadSettings::default())?;
    let (mut buf, mut cursor, mut found) = (RowBuf::new(2), rows.open(start..u64::MAX)?, Vec::new());
    while cursor.next(&mut buf)? {
        for row in buf.x.chunks(buf.x.len() / buf.row_numbers.len()) {
            let (places, values) = entries(row);
            found.push(places.iter().copied().zip(values.iter().copied()).collect());
        }
    }
    Ok(found)
}

#[test]
fn sparse_rows_in_memory_keep_their_shape() {
    let shape = SparseShape { column_count: 9, max_row_entries: 3 };
    // the layout of blocks: column indices, padded with -1, then values, padded with 0
    let x = [0.0f32, 4.0, -1.0, 1.5, -2.0, 0.0, 7.0, -1.0, -1.0, 3.0, 0.0, 0.0];
    let table = Table::from_sparse_rows(&x, shape, &[1.0, 2.0]).unwrap();
    assert_eq!(table.stored_rows(), 2);
    let selection =
        Selection { features: vec!["x".into()], targets: vec!["y".into()], sparse: true, ..Selection::default() };
    let selected = table.select(&selection).unwrap();
    assert_eq!(selected.sparse_shape(), Some(shape));
    let rows = selected.rows::<f32>(ReadSettings::default()).unwrap();
    let (mut cursor, mut tile) = (rows.open(0..2).unwrap(), RowBuf::new(2));
    assert!(cursor.next(&mut tile).unwrap());
    let block = tile.block(&rows.shape());
    assert_eq!((block.x, block.y), (&x[..], &[1.0, 2.0][..]));
    let wrong = Table::from_sparse_rows(&x[..7], shape, &[1.0]).unwrap_err().to_string();
    assert!(wrong.contains("7 values are not a multiple of 6"), "{wrong}");
    let wrong = Table::from_sparse_rows(&x, shape, &[1.0; 3]).unwrap_err().to_string();
    assert!(wrong.contains("3 targets for 2 rows"), "{wrong}");
}

#[test]
fn entries_are_the_same_in_every_format() {
    let folder = folder();
    let wanted =
        [vec![(0, 1.5), (4, 2.0)], vec![], vec![(2, -1e-300)], vec![(1, 0.1), (3, 1.0), (6, 7.0)], vec![], vec![]];
    let rows: Vec<Row> = wanted.iter().map(|entries| row(entries)).collect();
    let wanted = wanted.map(|row| row.into_iter().map(|(index, value)| (index as f64, value)).collect::<Vec<_>>());
    for path in files(folder.path(), &rows, 7) {
        for start in 0..6 {
            assert_eq!(read_from(&path, start, &selection()).unwrap(), wanted[start as usize..], "{}", path.display());
        }
        let table = Table::open(&[&path]).unwrap();
        let shape = table.select(&selection()).unwrap().sparse_shape().unwrap();
        assert_eq!((shape.column_count, shape.max_row_entries), (7, 3), "{}", path.display());
        assert!(table.bytes_read() > 0, "{}: what opening scans is counted", path.display());
    }
}

#[test]
fn odd_rows_are_read_in_order_or_refused_with_their_number() {
    let folder = folder();
    let with = |odd: Row| vec![row(&[(0, 1.0)]), row(&[]), row(&[(3, 1.0)]), odd];
    for (odd, arrow, npz) in [
        (row(&[(4, 1.0), (1, 2.0)]), None, Some("index 1 after 4 (indices must increase strictly)")),
        (row(&[(1, 1.0), (1, 2.0)]), Some("index 1 after 1"), Some("index 1 after 1")),
        (row(&[(-1, 1.0)]), Some("a row with index -1 (expected 0 to 3)"), Some("index -1 (expected 0 to 4)")),
        (row(&[(2, f64::NAN)]), Some("is NaN"), Some("is NaN")),
        (row(&[(2, f64::INFINITY)]), Some("is infinite"), Some("is infinite")),
        (row(&[(2, 0.0)]), None, None),
        (None, Some("is missing"), None),
        (Some(vec![(Some(1), None)]), Some("is NaN"), None),
        (Some(vec![(None, Some(1.0))]), Some("a row with a missing index"), None),
    ] {
        let mut expected = vec![vec![(0.0, 1.0)], vec![], vec![(3.0, 1.0)]];
        expected.push(if odd == row(&[(2, 0.0)]) { vec![] } else { vec![(1.0, 2.0), (4.0, 1.0)] });
        for path in files(folder.path(), &with(odd.clone()), 5) {
            let part = if path.extension().is_some_and(|extension| extension == "npz") { npz } else { arrow };
            match (read_from(&path, 0, &selection()), part) {
                (Ok(found), None) => assert_eq!(found, expected, "{}", path.display()),
                (Err(error), Some(part)) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(part) && text.contains("row 3 (counted from 0)"),
                        "{}: {text}",
                        path.display()
                    );
                }
                (other, part) => panic!("{}: {other:?} {part:?}", path.display()),
            }
        }
        std::fs::read_dir(folder.path()).unwrap().for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    }
    let dropped = Selection { missing: Missing::Drop, ..selection() };
    for path in files(folder.path(), &with(row(&[(2, f64::NAN)])), 5) {
        assert_eq!(read_from(&path, 0, &dropped).unwrap().len(), 3, "{}", path.display());
    }
}

#[test]
fn metadata_tell_the_shape_and_are_not_trusted() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let list = batch(&[("x", lists(&[row(&[(0, 1.0), (4, 1.0)]), row(&[])]))]);
    let told = |text: &str| {
        let pair = KeyValue::new("kmill.sparse".to_string(), text.to_string());
        write(&path, &list, WriterProperties::builder().set_key_value_metadata(Some(vec![pair])).build());
        read_from(&path, 0, &selection()).map_err(|error| error.to_string())
    };
    assert_eq!(told(r#"{"x":{"width":9,"longest":2}}"#).unwrap().len(), 2);
    assert_eq!(Table::open(&[&path]).unwrap().bytes_read(), 0);
    assert!(told(r#"{"x":{"width":4,"longest":2}}"#).unwrap_err().contains("index 4 (expected 0 to 3)"));
    assert!(told(r#"{"x":{"width":9,"longest":1}}"#).unwrap_err().contains("a row of 2 entries"));
    // inconsistent metadata are ignored, and the file is scanned
    for text in ["", "[]", r#"{"x":{"width":4,"longest":5}}"#, r#"{"x":{"width":99999999999,"longest":1}}"#] {
        assert_eq!(told(text).unwrap().len(), 2, "{text}");
    }
}

#[test]
fn what_is_written_has_the_same_entries() {
    let folder = folder();
    let from = folder.path().join("from.svm");
    std::fs::write(&from, "1 1:0.5 3:2\n-1\n2.5 2:0 7:1e-3\n").unwrap();
    let read = |path: &Path| {
        let table = Table::open_with(&[path], &TextOptions::default().sparse()).unwrap();
        let keep = Selection { keep: names(&["x", "y"]), without_features: true, ..Selection::default() };
        let selected = table.select(&keep).unwrap();
        let mut buf = RowBuf::new(10);
        let rows = selected.rows::<f64>(ReadSettings::default()).unwrap();
        assert!(rows.open(0..3).unwrap().next(&mut buf).unwrap());
        (selected.kept_columns(), buf.kept_columns)
    };
    let (columns, kept) = read(&from);
    assert!(matches!(kept[0].values(), KeptValues::Sparse(rows) if rows.len() == 3 && rows.rows().values.len() == 4));
    for name in ["to.svm", "to.parquet", "to.arrow"] {
        let path = folder.path().join(name);
        let mut out = sink::create(&path, &columns).unwrap();
        for rows in [0..1, 1..3] {
            let mut part: Vec<_> = columns.iter().map(|column| kstore::KeptColumn::new(column.kind)).collect();
            part.iter_mut().zip(&kept).for_each(|(part, all)| part.append(all, rows.clone()));
            out.write(&part.iter().map(OutputValues::Kept).collect::<Vec<_>>()).unwrap();
        }
        out.finish().unwrap();
        assert_eq!(read(&path).1, kept, "{name}");
        // the written metadata make a scan of the file unnecessary
        assert!(name == "to.svm" || Table::open(&[&path]).unwrap().bytes_read() == 0, "{name}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("to.svm")).unwrap(), "1 1:0.5 3:2\n-1\n2.5 2:0 7:0.001\n");
    for name in ["to.csv", "to.npy"] {
        assert!(sink::create(&folder.path().join(name), &columns).err().unwrap().to_string().contains("sparse rows"));
    }
}

/// Returns the error message of a modified archive.
fn refused(folder: &Path, change: impl Fn(&mut Vec<(&'static str, Vec<u8>)>)) -> String {
    let mut members = members(&[row(&[(0, 1.0), (4, 2.0)]), row(&[]), row(&[(1, 3.0)])], 5);
    change(&mut members);
    let path = folder.join("wrong.npz");
    archive(&path, &members, CompressionMethod::Deflated);
    read_from(&path, 0, &selection()).unwrap_err().to_string()
}

#[test]
fn npz_of_another_kind_is_refused_with_what_to_do() {
    let folder = folder();
    let set = |name: &'static str, bytes: Vec<u8>| {
        refused(folder.path(), |members| members.iter_mut().filter(|m| m.0 == name).for_each(|m| m.1 = bytes.clone()))
    };
    let mut csc = members(&[row(&[])], 1).swap_remove(2).1;
    csc.truncate(csc.len() - 3);
    csc.extend(b"csc");
    let text = set("format", csc);
    assert!(text.contains("\"csc\" format") && text.contains("X.tocsr()"), "{text}");
    let i4 = |numbers: &[i32]| array("<i4", numbers.len(), numbers.iter().flat_map(|n| n.to_le_bytes()));
    for (text, part) in [
        (set("indptr", i4(&[0, 2, 1, 3])), "ascending positions up to 3"),
        (set("indptr", i4(&[0, 2, 2, 4])), "ascending positions up to 3"),
        (set("indptr", i4(&[-1, 2, 2, 3])), "ascending positions up to 3"),
        (set("indptr", i4(&[0, 2, 3])), "array \"indptr\": it has 3 numbers instead of 4"),
        (set("indices", i4(&[0, 4])), "array \"indices\": it has 2 numbers instead of 3"),
        (set("indices", i4(&[0, 5, 1])), "row 0 (counted from 0), column \"x\" is a row with index 5"),
        (set("shape", array("<i8", 2, [9; 16])), "columns are supported"),
        (set("shape", i4(&[3])), "not a pair of integers"),
        (set("data", array("<c8", 3, [0; 24])), "array \"data\": values of type \"<c8\""),
        (set("data", array("<f8", 300, [0; 24])), "does not fit into"),
        (refused(folder.path(), |members| members.retain(|(name, _)| *name != "format")), "it is not a sparse matrix"),
        (refused(folder.path(), |members| members.retain(|(name, _)| *name != "data")), "it has no array \"data\""),
    ] {
        assert!(text.contains(part) && text.contains("wrong.npz"), "{part}: {text}");
    }
}

#[test]
fn npz_brings_a_target_of_its_own() {
    let folder = folder();
    let path = folder.path().join("a.npz");
    let mut members = members(&[row(&[(0, 1.0)]), row(&[]), row(&[(1, 3.0)])], 2);
    members.push(("y", array("<i8", 3, [5i64, -1, 7].iter().flat_map(|label| label.to_le_bytes()))));
    archive(&path, &members, CompressionMethod::Deflated);
    let whole = read_all(&[path], &Selection { targets: names(&["y"]), ..selection() }).unwrap();
    assert_eq!(whole.y, [5.0, -1.0, 7.0]);
}

#[test]
fn a_damaged_archive_is_an_error_and_no_panic() {
    let folder = folder();
    let path = folder.path().join("a.npz");
    let members = members(&[row(&[(0, 1.0), (4, 2.0)]), row(&[]), row(&[(1, 3.0)])], 5);
    for method in METHODS {
        archive(&path, &members, method);
        let whole = std::fs::read(&path).unwrap();
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert!(read_from(&path, 0, &selection()).is_err(), "{end} of {} bytes, {method}", whole.len());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x81;
            std::fs::write(&path, &damaged).unwrap();
            if let Err(error) = read_from(&path, 0, &selection()) {
                assert!(error.to_string().len() < 2000, "{error}");
            }
        }
    }
}

/// A label that is not the target is a feature only if its exact name is selected, also in `.npz`.
#[test]
fn a_label_is_a_feature_only_by_its_own_name() {
    let folder = folder();
    let (npz, svm) = (folder.path().join("t.npz"), folder.path().join("t.svm"));
    let label = array("<f8", 2, [1.0f64, -1.0].iter().flat_map(|y| y.to_le_bytes()));
    let members = members(&[row(&[(0, 1.0), (2, 2.0)]), row(&[(1, 3.0)])], 3);
    archive(&npz, &[members, vec![("y", label)]].concat(), METHODS[0]);
    std::fs::write(&svm, "1 1:1 3:2\n-1 2:3\n").unwrap();
    for (path, features) in [(svm, vec!["x0", "x1", "x2"]), (npz, vec!["x"])] {
        let table = Table::open(&[path]).unwrap();
        assert!(table.schema().columns.iter().any(|column| column.name == "y"));
        let columns = |patterns: &[&str]| {
            let selection = Selection { features: names(patterns), sparse: true, ..Selection::default() };
            table.select(&selection).map(|selected| selected.feature_columns())
        };
        assert_eq!(columns(&[]).unwrap(), features);
        assert_eq!(columns(&["*"]).unwrap(), features);
        assert_eq!(columns(&["?*"]).unwrap(), features);
        assert_eq!(columns(&["y"]).unwrap(), ["y"]);
    }
}
