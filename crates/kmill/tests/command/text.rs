//! Text tables in and out, conversion between all formats, and pass-through columns.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn ran(folder: &Path, line: &str) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn ok(folder: &Path, line: &str) -> String {
    let (code, stdout, stderr) = ran(folder, line);
    assert_eq!(code, 0, "{line}: {stderr}");
    stdout
}

fn fails(folder: &Path, line: &str, part: &str) {
    let (code, _, stderr) = ran(folder, line);
    assert!(code == 1 && stderr.contains(part), "{line}: {code} {stderr}\nexpected: {part}");
}

fn types(folder: &Path, file: &str) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&ok(folder, &format!("inspect {file} --json"))).unwrap();
    let columns = report["columns"].as_array().unwrap().iter();
    columns.map(|column| format!("{} {}", column["name"].as_str().unwrap(), column["type"].as_str().unwrap())).collect()
}

const TABLE: &str = "\
id,city,x,flag,y
9007199254740993,\"Ulm, Donau\",0.1,true,1
-9223372036854775808,\"a \"\"b\"\"
c\",-1e300,false,2
9223372036854775807,Bonn,5e-324,true,3
";

#[test]
fn tables_go_through_every_format_with_names_keep_their_text_and_integers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("a.csv"), TABLE).unwrap();
    let kinds = ["id int64", "city text", "x float64", "flag bool", "y int64"];
    assert_eq!(types(at, "a.csv"), kinds);
    for line in [
        "convert a.csv -o b.parquet -q",
        "convert b.parquet -o c.tsv -q",
        "convert c.tsv -o d.csv --missing keep -q",
        "convert d.csv --target y -o e.csv -q",
    ] {
        ok(at, line);
    }
    assert_eq!(types(at, "b.parquet"), kinds);
    assert_eq!(types(at, "c.tsv"), kinds);
    assert_eq!(std::fs::read_to_string(at.join("e.csv")).unwrap(), TABLE);
    // .npy has one type: integers stay integers alone, and are refused together with fractions
    ok(at, "convert a.csv --features id -o id.npy -q");
    assert_eq!(types(at, "id.npy"), ["x0 int64"]);
    let (id, columns) =
        (std::fs::read(at.join("id.npy")).unwrap(), "row 0 (counted from 0), column \"id\" is 9007199254740993");
    assert_eq!(id[128..136], 9007199254740993i64.to_le_bytes());
    fails(at, "convert a.csv --drop city -o all.npy", columns);
    fails(at, "convert a.csv --features id --precision f32 -o all.npy", columns);
    fails(
        at,
        "convert a.csv --features x --precision f32 -o x.parquet",
        "column \"x\" is -1e300, too large for float32",
    );
    fails(at, "convert a.csv --features city -o city.npy", "exclude them with --drop city");
    ok(at, "convert a.csv --features x,flag --target y -o n.npy -q");
    fails(at, "convert a.csv -o n.npy", "-o n.npy: the output format does not support these columns: \"city\" (text)");
    ok(at, "convert a.csv --features c*,x,city --rows ..2 -o f.csv -q");
    assert_eq!(types(at, "f.csv"), ["city text", "x float64"]);
}

#[test]
fn svmlight_becomes_dense_and_missing_values_are_kept_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("a.svm"), "+1 1:0.5 3:2\n-1 2:1 # x\n").unwrap();
    ok(at, "convert a.svm --width 4 --target y -o a.csv -q");
    assert_eq!(
        std::fs::read_to_string(at.join("a.csv")).unwrap(),
        "x0,x1,x2,x3,y\n0.5,0.0,2.0,0.0,1.0\n0.0,1.0,0.0,0.0,-1.0\n"
    );
    ok(at, "convert a.svm --zero-based -o b.csv -q");
    assert!(std::fs::read_to_string(at.join("b.csv")).unwrap().starts_with("x0,x1,x2,x3,y\n0.0,0.5,"));
    std::fs::write(at.join("m.csv"), "a;b;t\n1;;x\n2;0,5;\n").unwrap();
    fails(at, "convert m.csv -o m.parquet --features a,b --where a>7", "no row satisfies");
    std::fs::write(at.join("m.csv"), "a;b;t\n1;;x\n;0.5;\n").unwrap();
    fails(
        at,
        "convert m.csv -o m.parquet --missing error",
        "m.csv: row 0 (counted from 0), line 2, column \"b\" is missing",
    );
    ok(at, "convert m.csv -o m.parquet -q");
    ok(at, "convert m.parquet -o n.csv --missing keep -q");
    assert_eq!(std::fs::read_to_string(at.join("n.csv")).unwrap(), "a,b,t\n1,,x\n,0.5,\n");
    ok(at, "convert m.csv --features t -o t.csv --missing drop -q");
    assert_eq!(std::fs::read_to_string(at.join("t.csv")).unwrap(), "t\nx\n\"\"\n");
    for (line, part) in [
        ("convert m.csv -o m.parquet --missing mean", "--missing keep"),
        ("fit ridge m.csv --target b -o model --missing keep", "only a conversion can leave values missing"),
    ] {
        let (code, _, stderr) = ran(at, line);
        assert!(code == 2 && stderr.contains(part), "{line}: {code} {stderr}");
    }
    std::fs::write(at.join("h.csv"), "1;2\n3;4\n").unwrap();
    ok(at, "convert h.csv --no-header --delimiter ; -o h.tsv -q");
    assert_eq!(std::fs::read_to_string(at.join("h.tsv")).unwrap(), "x0\tx1\n1\t2\n3\t4\n");
    let (code, _, stderr) = ran(at, "inspect h.csv --delimiter abc");
    assert!(code == 2 && stderr.contains("one ASCII character"), "{stderr}");
}

#[test]
fn predictions_carry_columns_along() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let row = |i: u32| {
        let id = if i.is_multiple_of(50) { String::new() } else { (i64::from(i) + (1 << 60)).to_string() };
        format!("{id},\"t,{i}\",{:?},{:?}\n", f64::from(i % 37) / 37.0, f64::from(i % 37) / 3.0)
    };
    let table: String = (0..3000).map(row).collect();
    std::fs::write(at.join("t.csv"), format!("id,time,x,y\n{table}")).unwrap();
    ok(at, "fit ridge t.csv --target y --features x --rank 20 --lambda 1e-6 -o model -q");
    ok(at, "predict model t.csv --keep id,time,x -o p.csv -q");
    ok(at, "predict model t.csv --keep id,time,x -o p.parquet -q");
    ok(at, "convert p.parquet -o q.csv --missing keep -q");
    assert_eq!(std::fs::read(at.join("p.csv")).unwrap(), std::fs::read(at.join("q.csv")).unwrap());
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3001, "id,time,x,prediction"));
    assert!(
        lines[1].starts_with(",\"t,0\",0.0,") && lines[2].starts_with("1152921504606846977,\"t,1\",0.02702"),
        "{}",
        lines[2]
    );
    ok(at, "predict model t.csv --keep time --where x>0.9 -o w.csv -q");
    let some = std::fs::read_to_string(at.join("w.csv")).unwrap();
    assert!(some.lines().nth(1).unwrap().starts_with("\"t,34\","), "{some}");
    ok(at, "predict model t.csv --keep x -o p.npy -q");
    for (line, part) in [
        ("predict model t.csv --keep time -o p2.npy", "column \"time\" of p2.npy holds text"),
        ("predict model t.csv --keep id -o p2.npy", "column \"id\" of p2.npy holds a missing value in row 0"),
        ("predict model t.csv --keep Id -o p2.csv", "did you mean \"id\"?"),
        ("predict model p.csv --keep prediction -o p2.csv", "a prediction column has this name"),
    ] {
        fails(at, line, part);
        assert!(!at.join("p2.npy").exists() && !at.join("p2.csv").exists());
    }
}

/// Writes a table with a column of every type that only some formats support.
fn every_type(path: &Path) {
    use kstore::arrow::array::*;
    use kstore::arrow::datatypes::{DataType, Field, Int32Type};
    let mut ragged = ListBuilder::new(Float64Builder::new());
    ragged.extend([Some(vec![Some(1.0)]), Some(vec![Some(1.0), Some(2.0)])]);
    let ends = Int32Array::from(vec![2]);
    let field = Arc::new(Field::new("a", DataType::Int64, true));
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new(Float64Array::from(vec![0.5, 1.5]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_782), None]))),
        ("ms", Arc::new(Date64Array::from(vec![1_709_164_800_000, 0]))),
        ("clock", Arc::new(Time32MillisecondArray::from(vec![86_399_999, 0]))),
        ("naive", Arc::new(TimestampNanosecondArray::from(vec![1, -1]))),
        ("zoned", Arc::new(TimestampMillisecondArray::from(vec![0, 1_500]).with_timezone("Europe/Berlin"))),
        ("lasted", Arc::new(DurationSecondArray::from(vec![90, -90]))),
        ("bytes", Arc::new(BinaryArray::from_opt_vec(vec![Some(&b"\xff\x00a"[..]), None]))),
        ("pair", Arc::new(StructArray::from(vec![(field, Arc::clone(&one))]))),
        ("ragged", Arc::new(ragged.finish())),
        ("nothing", Arc::new(NullArray::new(2))),
        ("runs", Arc::new(RunArray::<Int32Type>::try_new(&ends, &Int64Array::from(vec![7])).unwrap())),
    ];
    let table = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut writer =
        kstore::arrow::ipc::writer::FileWriter::try_new(std::fs::File::create(path).unwrap(), &table.schema()).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
}

#[test]
fn dates_times_and_bytes_keep_their_type_and_what_cannot_be_kept_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    every_type(&at.join("a.arrow"));
    let lost = "the output format does not support these columns: \"pair\" (records of 1 fields), \"runs\" (runs of int64); \
                exclude them with --drop pair,runs";
    fails(at, "convert a.arrow -o b.parquet --missing keep", lost);
    // a list column whose first row has one number is accepted until a row has another length
    let ragged = "a.arrow: row 1 (counted from 0), list column \"ragged\"";
    fails(at, "convert a.arrow -o b.parquet --missing keep --drop pair,nothing,runs", ragged);
    assert!(!at.join("b.parquet").exists());
    let kinds = [
        "x float64",
        "day date in days",
        "ms date in ms",
        "clock time of day in ms",
        "naive timestamp in ns",
        "zoned timestamp in ms, Europe/Berlin",
        "lasted duration in s",
        "bytes binary",
    ];
    let others = "--drop pair,nothing,r* --missing keep -q";
    ok(at, &format!("convert a.arrow -o b.parquet {others}"));
    ok(at, "convert b.parquet -o c.arrow --missing keep -q");
    ok(at, "convert c.arrow -o d.parquet --missing keep -q");
    for file in ["b.parquet", "c.arrow", "d.parquet"] {
        assert_eq!(types(at, file), kinds, "{file}");
    }
    fails(at, &format!("convert a.arrow -o b.csv {others}"), "\"bytes\" (binary); exclude them with --drop bytes");
    ok(at, "convert d.parquet -o e.csv --drop bytes --missing keep -q");
    let csv = "x,day,ms,clock,naive,zoned,lasted\n\
        0.5,2024-02-29,2024-02-29,23:59:59.999,1970-01-01T00:00:00.000000001,1970-01-01T00:00:00.000Z,PT90S\n\
        1.5,,1970-01-01,00:00:00.000,1969-12-31T23:59:59.999999999,1970-01-01T00:00:01.500Z,-PT90S\n";
    assert_eq!(std::fs::read_to_string(at.join("e.csv")).unwrap(), csv);
    fails(
        at,
        "convert d.parquet -o e.npy --missing keep",
        "exclude them with --drop day,ms,clock,naive,zoned,lasted,bytes",
    );
    ok(at, "convert d.parquet -o e.npy --drop bytes,lasted,naive,zoned,clock,day,ms -q");
    ok(at, "convert d.parquet -o f.npy --features ms,lasted -q");
    assert_eq!(types(at, "f.npy"), ["x0 int64", "x1 int64"]);
    fails(at, "convert d.parquet -o g.csv --drop byte", "did you mean \"bytes\"?");
    // bytes and times are passed through unchanged
    ok(at, "fit ridge d.parquet --target x --features lasted --rank 2 --lambda 1e-3 -o m -q");
    ok(at, "predict m d.parquet --keep zoned,bytes,day -o p.arrow -q");
    assert_eq!(types(at, "p.arrow")[..3], ["zoned timestamp in ms, Europe/Berlin", "bytes binary", "day date in days"]);
    fails(at, "predict m d.parquet --keep bytes -o p.csv", "column \"bytes\" of p.csv holds binary");
}

#[test]
fn the_index_of_a_pandas_table_is_told_and_left_out() {
    use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let column =
        |k: f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values((0..40).map(|i| (k * f64::from(i)).sin()))) };
    let columns = [("x", column(1.0)), ("y", column(2.0)), ("__index_level_0__", column(3.0))];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let pandas = std::collections::HashMap::from([(
        "pandas".to_string(),
        r#"{"index_columns": ["__index_level_0__"]}"#.to_string(),
    )]);
    let schema = Arc::new(table.schema().as_ref().clone().with_metadata(pandas));
    let table = table.with_schema(Arc::clone(&schema)).unwrap();
    let file = std::fs::File::create(at.join("a.arrow")).unwrap();
    let mut writer = kstore::arrow::ipc::writer::FileWriter::try_new(file, &schema).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
    let line = "fit ridge a.arrow --target y --rank 5 --lambda 1e-3 -o m";
    let (_, _, stderr) = ran(at, line);
    let note = "left out: y (target), __index_level_0__ (the index of a pandas table)";
    assert!(stderr.contains(note), "{stderr}");
    let features = |line: &str| serde_json::from_str::<serde_json::Value>(&ok(at, line)).unwrap()["features"].clone();
    assert_eq!(features(&format!("{line} --json -q")), 1);
    assert_eq!(features(&format!("{line} --features x,__index_level_0__ --json -q")), 2);
    assert_eq!(types(at, "a.arrow").len(), 3);
}

#[test]
fn bad_data_beside_features_that_are_read_in_place_is_told() {
    use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (bad, said) in [(None, "missing"), (Some(f64::NAN), "NaN"), (Some(f64::INFINITY), "infinite")] {
        let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..40).map(|i| f64::from(i).sin())));
        let w: ArrayRef = Arc::new((0..40).map(|i| if i == 7 { bad } else { Some(1.0) }).collect::<Float64Array>());
        let table =
            RecordBatch::try_from_iter_with_nullable([("x", x.clone(), true), ("y", x, true), ("w", w, true)]).unwrap();
        let file = std::fs::File::create(at.join("a.arrow")).unwrap();
        let mut writer = kstore::arrow::ipc::writer::FileWriter::try_new(file, &table.schema()).unwrap();
        writer.write(&table).unwrap();
        writer.finish().unwrap();
        for options in ["--weights w", "--folds column:w"] {
            let line = format!(
                "fit ridge a.arrow --target y --features x --scale none --precision f64 --rank 5 -o m {options}"
            );
            fails(at, &line, &format!("a.arrow: row 7 (counted from 0), column \"w\" is {said}"));
        }
    }
}

#[test]
fn codes_keep_their_zeros_and_a_model_of_parquet_knows_them_in_csv() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (codes, effects) = (["01067", "02110", "10115", "80331", "20095", "00501"], [5, -3, 1, 9, -7, 3]);
    let line =
        |i: usize| format!("{},{},{}\n", codes[i % 6], i * 37 % 101, effects[i % 6] * 100 + (i * 37 % 101) as i64);
    std::fs::write(at.join("zip.csv"), format!("zip,a,y\n{}", (0..120).map(line).collect::<String>())).unwrap();
    ok(at, "convert zip.csv -o zip.parquet -q");
    assert_eq!(types(at, "zip.parquet"), ["zip text", "a int64", "y int64"]);
    ok(at, "fit ridge zip.parquet --target y --rank 60 --lambda 1e-6 -o m.safetensors -q");
    let scores = |file: &str| {
        let (code, out, told) = ran(at, &format!("evaluate m.safetensors {file} --json"));
        assert!(code == 0 && !told.contains("did not occur in the fit"), "{told}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["mse"].as_f64().unwrap()
    };
    assert_eq!(scores("zip.csv").to_bits(), scores("zip.parquet").to_bits());
    ok(at, "predict m.safetensors zip.csv --keep zip -o out.csv -q");
    assert!(std::fs::read_to_string(at.join("out.csv")).unwrap().lines().nth(6).unwrap().starts_with("00501,"));
    // new rows without a leading zero in any code
    std::fs::write(at.join("new.csv"), "zip,a\n10115,5\n80331,6\n").unwrap();
    let (code, _, told) = ran(at, "predict m.safetensors new.csv -o new-out.csv");
    assert!(code == 0 && !told.contains("did not occur in the fit"), "{told}");
    ok(at, "fit ridge zip.csv --types zip=number --target y --rank 20 --lambda 1 -o n.safetensors -q");
    ok(at, "evaluate n.safetensors zip.csv -q");
    fails(at, "fit ridge zip.csv --types zap=text --target y -o n.safetensors -q", "zap");
    assert_eq!(ran(at, "fit ridge zip.csv --types zip=words --target y -o n.safetensors").0, 2);
}

#[test]
fn a_model_reads_new_text_as_that_of_its_fit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let table = |name: &str, written: &dyn Fn(u64) -> String| {
        let line = |i: u64| format!("{};{}\n", written(i), i % 50);
        std::fs::write(at.join(name), format!("x;y\n{}", (0..100).map(line).collect::<String>())).unwrap();
    };
    table("fit.csv", &|i| if i % 2 == 0 { format!("{}.234", 1 + i % 50) } else { format!("{},5", 1000 * (i % 50)) });
    table("whole.csv", &|i| format!("{}.234", 1 + i % 50));
    table("points.csv", &|i| format!("{}.5", 1000 * (i % 50)));
    ok(at, "fit ridge fit.csv --target y --rank 30 --lambda 1e-6 -o m.safetensors -q");
    let r2 = |line: &str| serde_json::from_str::<serde_json::Value>(&ok(at, line)).unwrap()["r2"].as_f64().unwrap();
    assert!(r2("evaluate m.safetensors whole.csv --json") > 0.9);
    fails(
        at,
        "evaluate m.safetensors points.csv",
        "column \"x\": expected a number with a decimal comma, found \"0.5\"",
    );
    assert!(r2("evaluate m.safetensors points.csv --decimal . --json") > 0.9);
    // shards are read alike, and give the same model
    ok(at, "prepare ridge fit.csv --target y --rank 30 --lambda 1e-6 -o job.bin -q");
    ok(at, "stats job.bin fit.csv -o one.bin -q");
    ok(at, "solve job.bin one.bin -o s.safetensors -q");
    assert!(std::fs::read(at.join("s.safetensors")).unwrap() == std::fs::read(at.join("m.safetensors")).unwrap());
}

#[test]
fn inspect_says_what_a_column_looks_like() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |i: u64| {
        format!("{i} {},{},{}\n", ["kg", "lb"][i as usize % 2], ["clerk", "?"][i as usize % 2], 1_610_582_400 + i)
    };
    std::fs::write(at.join("t.csv"), format!("p,job,t\n{}", (0..30).map(line).collect::<String>())).unwrap();
    let said = ok(at, "inspect t.csv");
    for part in [
        "column p is read as text but looks like numbers with a unit or another mark, such as \"0 kg\"",
        "column job has the value \"?\", which is a category; --missing-words ?",
        "column t looks like seconds since 1970; --types t=date",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(types(at, "t.csv --types t=date --missing-words ?")[2], "t timestamp in us");
}
