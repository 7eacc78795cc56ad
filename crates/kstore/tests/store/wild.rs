//! Files as they occur in practice: read with the right values, or rejected with a remedy.

use crate::make::*;
use crate::ways_in::gzip;
use kstore::{KeptValues, ReadSettings, RowBuf, RowSource, Selection, Table, TextOptions};
use std::path::Path;

const CSV: &str = "a,b,city,y\n1,0.5,Ulm,2\n2,1.5,Bonn,4\n3,2.5,Ulm,6\n4,3.5,Köln,8\n";
const JSON: [&str; 4] = [
    r#"{"a": 1, "b": 0.5, "city": "Ulm", "y": 2}"#,
    r#"{"a": 2, "b": 1.5, "city": "Bonn", "y": 4}"#,
    r#"{"a": 3, "b": 2.5, "city": "Ulm", "y": 6}"#,
    r#"{"a": 4, "b": 3.5, "city": "Köln", "y": 8}"#,
];

/// Reads the columns a, b and y, row by row, and the values of the text column.
fn values(path: &Path, options: &TextOptions, text: &str) -> kstore::Result<(Vec<f64>, Vec<String>)> {
    let selection = Selection { keep: names(&[text]), ..only(&["a", "b", "y"]) };
    let rows = Table::open_with(&[path], options)?.select(&selection)?.rows::<f64>(ReadSettings::default())?;
    let (mut cursor, mut buf, mut x, mut texts) = (rows.open(rows.range())?, RowBuf::new(100), Vec::new(), Vec::new());
    while cursor.next(&mut buf)? {
        x.extend_from_slice(&buf.x);
        let KeptValues::Text(found) = buf.kept_columns[0].values() else { panic!("{text} holds no text") };
        texts.extend((0..buf.row_numbers.len()).map(|row| found.text(row).to_string()));
    }
    Ok((x, texts))
}

fn to_latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn to_utf16(text: &str, mark: bool) -> Vec<u8> {
    mark.then_some(0xfeff).into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn files_in_the_wild_are_read_or_refused_with_a_remedy() {
    let (folder, usual) = (folder(), TextOptions::default());
    let (comment, preamble) = (format!("# of May\n# by me\n{CSV}"), format!("Sales\nof May; all\n\n{CSV}"));
    let lines = JSON.join("\n");
    let array = format!("[{}]\n", JSON.join(", "));
    let read: Vec<(&str, Vec<u8>, TextOptions)> = vec![
        ("bom.csv", format!("\u{feff}{CSV}").into(), usual.clone()),
        ("comment.csv", comment.clone().into(), usual.clone().skip_lines(2)),
        ("preamble.csv", preamble.clone().into(), usual.clone().skip_lines(3)),
        ("preamble2.csv", preamble.replace(',', ";").into(), usual.clone().skip_lines(2)),
        ("quotes.tsv", CSV.replace(',', "\t").into(), usual.clone().without_quotes()),
        ("c.csv.gz", gzip(CSV), usual.clone()),
        ("c.gz", gzip(CSV), usual.clone()),
        ("packed.csv", gzip(CSV), usual.clone()),
        ("c.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap(), usual.clone()),
        ("lines.json", lines.clone().into(), usual.clone()),
        ("bom.jsonl", format!("\u{feff}{lines}").into(), usual.clone()),
    ];
    let cities: Vec<String> = ["Ulm", "Bonn", "Ulm", "Köln"].map(String::from).into();
    for (name, bytes, options) in read {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (x, texts) = values(&path, &options, "city").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(x, [1.0, 0.5, 2.0, 2.0, 1.5, 4.0, 3.0, 2.5, 6.0, 4.0, 3.5, 8.0], "{name}");
        assert_eq!(texts, cities, "{name}");
    }
    let stream = b"\xff\xff\xff\xff\x10\0\0\0\x0c\0\0\0";
    let refused: Vec<(&str, Vec<u8>, &str)> = vec![
        ("comment.csv", comment.into(), "grep -v"),
        ("preamble.csv", preamble.clone().into(), "`skip_lines`"),
        ("preamble2.csv", preamble.replace(',', ";").into(), "`skip_lines`"),
        ("short.csv", CSV.replace(",Köln,8", "").into(), "`pad_rows`"),
        ("long.csv", CSV.replace(",8", ",8,9").into(), "`delimiter`"),
        (
            "twice.csv",
            CSV.lines().map(|line| format!("{line},{}\n", &line[..1])).collect::<String>().into(),
            "`skip_lines` 1",
        ),
        (
            "torn.csv",
            CSV.replace("Ulm,2", "\"Ulm,2").replace("Ulm,6", "x\"Ulm,6").replace("Köln", "\"Kö,ln\"").into(),
            "`no_quotes`",
        ),
        ("utf16.csv", to_utf16(CSV, true), "iconv -f UTF-16 "),
        ("plain16.csv", to_utf16(CSV, false), "iconv -f UTF-16LE"),
        ("utf16.jsonl", to_utf16(&lines, true), "iconv -f UTF-16 "),
        ("utf16.svm", to_utf16("1 1:2\n", true), "iconv -f UTF-16 "),
        ("latin.csv", to_latin1(CSV), "iconv -f CP1252 "),
        ("names.csv", to_latin1(&CSV.replace("city", "Städte")), "iconv -f CP1252 "),
        ("latin.jsonl", to_latin1(&lines), "iconv -f CP1252 "),
        ("c.csv.bz2", b"BZh91AY&SY\0".into(), "bzip2 -dc"),
        ("c.csv.xz", b"\xfd7zXZ\0\0\x04".into(), "xz -dc"),
        ("wrong.csv", b"\xfd7zXZ\0\0\x04".into(), "xz -dc"),
        ("c.csv.lz4", b"\x04\x22\x4d\x18".into(), "lz4 -dc"),
        ("c.csv.br", b"\x0b\x02\x80".into(), "brotli -dc"),
        ("c.zip", b"PK\x03\x04\x14\0".into(), "unzip -p"),
        ("c.xlsx", b"PK\x03\x04\x14\0".into(), ".csv"),
        ("c.h5", b"\x89HDF\r\n\x1a\n".into(), ".parquet"),
        ("plain.csv.gz", CSV.into(), "remove .gz"),
        ("parquet.csv", b"PAR1\x15\x04\x15\0".into(), ".parquet"),
        ("object.json", format!("{{\n\"rows\": {array}}}").into(), "jq -c"),
        ("array.json", array.clone().into(), "jq -c '.[]'"),
        ("array.jsonl", array.into(), "jq -c '.[]'"),
        ("s.arrow", stream.into(), "pyarrow.ipc.new_file"),
        ("s.arrows", stream.into(), "pyarrow.ipc.new_file"),
        ("dense.npz", write_dense(folder.path()), "numpy.save"),
        ("big.npy", b"\x93NUMPY\x01\0\x37\0{'descr': '>f8', 'fortran_order': False, 'shape': (1,)}".into(), "astype"),
        ("rows.txt", CSV.into(), "standard input"),
    ];
    for (name, bytes, remedy) in refused {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = values(&path, &usual, "city").map(|_| panic!("{name} is read")).unwrap_err().to_string();
        assert!(error.contains(remedy), "{name}: {error}");
    }
}

fn write_dense(folder: &Path) -> Vec<u8> {
    let path = folder.join("x.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    zip.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn rows_with_fewer_fields_end_with_missing_values() {
    let folder = folder();
    let path = folder.path().join("short.csv");
    std::fs::write(&path, "a,b,y,city\n1,2,3,Ulm\n4\n7,8,9\n").unwrap();
    let table = Table::open_with(&[&path], &TextOptions::default().pad_rows()).unwrap();
    let selection = Selection { keep: names(&["city"]), missing: kstore::Missing::Mean, ..only(&["a", "b", "y"]) };
    let rows = table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
    let mut buf = RowBuf::new(9);
    assert!(rows.open(0..3).unwrap().next(&mut buf).unwrap());
    assert!(
        buf.x[4].is_nan() && buf.x[5].is_nan() && buf.x[..4] == [1.0, 2.0, 3.0, 4.0] && buf.x[6..] == [7.0, 8.0, 9.0]
    );
    assert_eq!(buf.kept_columns[0].validity(), Some(&[true, false, false][..]));
}

/// Titles with quotation marks, as on Wikipedia. DuckDB 1.5 detects no quotes and reads 70 rows.
#[test]
fn a_quotation_mark_that_is_a_letter_swallows_no_line() {
    let folder = folder();
    let titles = ["plain", "\"Heroes\"", "\"", "x", "y", "\"Weird_Al\"_song", "z"];
    let line = |i: usize, title: &str| format!("{i}\t0.5\t{title}\t{}\n", i % 7);
    let file = |name: &str, titles: &[&str]| {
        let rows: String = (0..70).map(|i| line(i, titles[i % titles.len()])).collect();
        let path = folder.path().join(name);
        std::fs::write(&path, format!("a\tb\ttitle\ty\n{rows}")).unwrap();
        path
    };
    // in marks.tsv pairs of marks enclose several lines; in odd.tsv the last mark is never closed
    for (name, titles) in [
        ("pages.tsv", &titles[..]),
        ("marks.tsv", &["\"", "x", "y"]),
        ("odd.tsv", &["\"", "x"]),
        ("pages.csv", &titles[..]),
    ] {
        let path = file(name, titles);
        let table = Table::open(&[&path]).unwrap();
        assert!(table.note().is_some_and(|note| note.contains("quotation marks")), "{name}");
        let (x, texts) = values(&path, &TextOptions::default(), "title").unwrap();
        assert_eq!(texts, (0..70).map(|i| titles[i % titles.len()].to_string()).collect::<Vec<_>>(), "{name}");
        assert_eq!(x.len(), 3 * 70);
    }
    // quoted fields with line ends remain fields
    let tabs = "a,b,t,y\n1,2,\"x\n\tz\n\ty\",3\n1,2,\"x\n\tz\n\ty\",3\n";
    std::fs::write(folder.path().join("tabs.csv"), tabs).unwrap();
    assert_eq!(values(&folder.path().join("tabs.csv"), &TextOptions::default(), "t").unwrap().1, ["x\n\tz\n\ty"; 2]);
    for (name, text) in [("q.csv", "a,b,t,y\n1,2,\"x\ny\",3\n"), ("q.tsv", "a\tb\tt\ty\n1\t2\t\"x\ny\"\t3\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(values(&path, &TextOptions::default(), "t").unwrap().1, ["x\ny"], "{name}");
        assert_eq!(Table::open(&[&path]).unwrap().note(), None);
    }
}

/// Integers beyond int64 keep their digits: 64-bit hashes are common as IDs.
#[test]
fn columns_of_json_are_left_out_or_keep_their_digits() {
    let folder = folder();
    let path = folder.path().join("nest.jsonl");
    let line =
        |i: u64| format!("{{\"a\": {i}, \"id\": {}, \"b\": {{\"c\": [{i}]}}, \"y\": 1}}\n", (1 << 63) + 1025 + i);
    std::fs::write(&path, (0..20).map(line).collect::<String>() + "{\"b\": 3, \"a\": -1, \"y\": 2}\n").unwrap();
    let table = Table::open(&[&path]).unwrap();
    let kinds: Vec<String> = table.schema().columns.iter().map(|column| column.kind.to_string()).collect();
    assert_eq!(kinds, ["int64", "uint64", "lists or objects", "int64"]);
    let selection = Selection { keep: names(&["id"]), ..only(&["a"]) };
    let rows = table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
    let mut buf = RowBuf::new(20);
    assert!(rows.open(0..20).unwrap().next(&mut buf).unwrap());
    assert_eq!(*buf.kept_columns[0].values(), KeptValues::U64((0..20).map(|i| (1 << 63) + 1025 + i).collect()));
    let error = table.select(&Selection { targets: names(&["b"]), ..only(&["a"]) }).unwrap_err().to_string();
    assert!(error.contains("lists or objects"), "{error}");
    let all = table.select(&Selection::default()).unwrap();
    assert_eq!(all.feature_names(), ["a", "id", "y"]);
}

#[test]
fn folders_of_a_lakehouse_are_refused() {
    let folder = folder();
    let write = |path: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "a,y\n1,2\n").unwrap();
    };
    let told = |named: &str| Table::open(&[folder.path().join(named)]).map(|table| table.stored_rows());
    for (root, log, command) in [
        ("delta", "_delta_log/00000000000000000000.json", "delta_scan('"),
        ("hudi", ".hoodie/hoodie.properties", "format('hudi')"),
        ("iceberg", "metadata/00000-aa.metadata.json", "iceberg_scan('"),
    ] {
        for file in [log, "one.csv", "year=2026/old.csv", "data/year=2026/new.csv"] {
            write(&format!("{root}/{file}"));
        }
        for named in ["", "year=2026", "*.csv", "*/*.csv", "**/*.csv", "data", "data/year=2026/*.csv"] {
            let error = told(&format!("{root}/{named}")).unwrap_err().to_string();
            assert!(error.contains(command) && error.contains("stale"), "{root}/{named}: {error}");
        }
        // a file that is named explicitly is read
        assert_eq!(told(&format!("{root}/year=2026/old.csv")).unwrap(), 1);
    }
    // a folder that is merely named `metadata` does not make a lakehouse
    write("plain/metadata/rows.json");
    write("plain/one.csv");
    assert_eq!(told("plain").unwrap(), 1);
}

#[test]
fn hidden_files_are_no_part_of_a_table() {
    let folder = folder();
    for name in ["one.csv", "_two.csv", ".three.csv", "_log/four.csv", "_x=1/five.csv", "x=1/six.csv"] {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), "a,x\n1,2\n").unwrap();
    }
    let rows = |named: &str| Table::open(&[folder.path().join(named)]).map(|table| table.stored_rows());
    for (named, expected) in [("", 2), ("*.csv", 1), ("**/*.csv", 2), ("_*.csv", 1), ("_two.csv", 1), ("_log/*.csv", 1)]
    {
        assert_eq!(rows(named).unwrap(), expected, "{named:?}");
    }
    std::fs::remove_file(folder.path().join("one.csv")).unwrap();
    let error = rows("*.csv").unwrap_err().to_string();
    assert!(error.contains("begin with _ or ."), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_the_kernel_makes_up_are_refused_before_they_are_opened() {
    let folder = folder();
    for file in ["/proc/kmsg", "/proc/kcore", "/proc/self/maps"] {
        let link = folder.path().join("rows.csv");
        std::os::unix::fs::symlink(file, &link).unwrap();
        for named in [Path::new(file), &link] {
            let error = Table::open(&[named]).unwrap_err();
            let there = Path::new(file).exists();
            assert!(matches!(error, kstore::Error::NotAFile { .. }) || !there, "{}: {error}", named.display());
        }
        std::fs::remove_file(&link).unwrap();
    }
}
