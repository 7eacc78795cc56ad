//! Text tables in and out, conversion between all formats, and columns carried along.

use std::path::Path;
use std::process::Command;

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
    // .npy has one type: whole numbers stay whole alone, and are refused beside fractions
    ok(at, "convert a.csv --features id -o id.npy -q");
    assert_eq!(types(at, "id.npy"), ["x0 int64"]);
    let (id, columns) =
        (std::fs::read(at.join("id.npy")).unwrap(), "row 0 (counted from 0), column \"id\" is 9007199254740993");
    assert_eq!(id[128..136], 9007199254740993i64.to_le_bytes());
    fails(at, "convert a.csv -o all.npy", columns);
    fails(at, "convert a.csv --features id --precision f32 -o all.npy", columns);
    fails(
        at,
        "convert a.csv --features x --precision f32 -o x.parquet",
        "column \"x\" is -1e300, too large for float32",
    );
    fails(at, "convert a.csv --features city -o city.npy", "holds text");
    let (_, _, stderr) = ran(at, "convert a.csv --features x,flag --target y -o n.npy");
    assert!(!stderr.contains("left out"), "{stderr}");
    let (code, _, stderr) = ran(at, "convert a.csv --rows 2.. --where flag==true -o n.npy");
    assert!(code == 1 && stderr.contains("text is left out, which .npy cannot hold: city"), "{stderr}");
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
    fails(at, "convert m.csv -o m.parquet --features a,b --where a>7", "no row fulfils");
    std::fs::write(at.join("m.csv"), "a;b;t\n1;;x\n;0.5;\n").unwrap();
    fails(at, "convert m.csv -o m.parquet", "m.csv: row 0 (counted from 0), line 2, column \"b\" is missing");
    ok(at, "convert m.csv -o m.parquet --missing keep -q");
    ok(at, "convert m.parquet -o n.csv --missing keep -q");
    assert_eq!(std::fs::read_to_string(at.join("n.csv")).unwrap(), "a,b,t\n1,,x\n,0.5,\n");
    ok(at, "convert m.csv --features t -o t.csv --missing drop -q");
    assert_eq!(std::fs::read_to_string(at.join("t.csv")).unwrap(), "t\nx\n\"\"\n");
    fails(at, "convert m.csv -o m.parquet --missing mean", "--missing keep");
    fails(at, "fit ridge m.csv --target b -o model --missing keep", "only a conversion can leave values missing");
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
        ("predict model p.csv --keep prediction -o p2.csv", "the predictions are called so"),
    ] {
        fails(at, line, part);
        assert!(!at.join("p2.npy").exists() && !at.join("p2.csv").exists());
    }
}
