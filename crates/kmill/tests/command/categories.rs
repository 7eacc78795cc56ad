//! Tables with text and missing values, from fit to predict, and every verb on them.

use super::run::{kmill, ok};
use std::path::Path;

/// Writes a table with an ID, a city, a comment unique to each row, a shop, a boolean, two numbers,
/// a target and a class. If `odd`, some rows have missing values or new cities.
fn write(path: &Path, rows: u64, odd: bool) {
    let row = |i: u64| {
        let (city, shop) = (i * 7 % 11 % 4, i * 13 % 31 % 9);
        let (a, b) = ((i * 37 % 101) as f64 / 101.0, (i * 53 % 97) as f64 / 97.0);
        let y = city as f64 + (6.0 * a).sin() * (shop % 3) as f64 + b;
        let name = match ["Bonn", "Köln", "Paris, FR", "Ulm"][city as usize] {
            _ if odd && i % 17 == 3 => "",
            _ if odd && i % 50 == 4 => "Oslo",
            name => name,
        };
        let a = if odd && i % 19 == 5 { String::new() } else { a.to_string() };
        let class = if city == 0 { "near" } else { "far" };
        format!("{},\"{name}\",note {i} of {y:.3},s{shop},{},{a},{b},{y},{class}\n", 1000 + 7 * i, b > 0.5)
    };
    let rows: String = (0..rows).map(row).collect();
    std::fs::write(path, format!("id,city,comment,shop,open,a,b,y,class\n{rows}")).unwrap();
}

fn tables() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.csv"), 1500, false);
    write(&folder.path().join("odd.csv"), 1500, true);
    folder
}

/// All columns except the ID and the class.
const FEATURES: &str = "--features *,!id,!class";

#[test]
fn two_commands_predict_a_csv_with_an_id_text_and_missing_values() {
    let folder = tables();
    let path = folder.path();
    write(&path.join("new.csv"), 200, true);
    let line = format!("fit ridge odd.csv --target y {FEATURES} --missing indicator --rank 80 -o m.safetensors --json");
    let (code, fit, told) = kmill(path, &line);
    assert_eq!(code, 0, "{told}");
    assert_eq!(
        fit["columns"],
        serde_json::json!([["city", "5 values and missing"], ["shop", "9 values"], ["a", "number and missing"]])
    );
    assert!(told.contains("column comment is left out: it has more than 1,000 values"), "{told}");
    assert!(told.contains("--hash 256") && told.contains("--text comment"), "{told}");
    assert!(fit["train"]["r2"].as_f64().unwrap() > 0.8, "{fit}");
    let (code, _, told) = kmill(path, "predict m.safetensors new.csv --keep id -o out.csv --json");
    assert_eq!(code, 0, "{told}");
    let out = std::fs::read_to_string(path.join("out.csv")).unwrap();
    assert_eq!(out.lines().count(), 201);
    // an unseen city is reported in one line
    std::fs::write(path.join("one.csv"), "id,city,shop,open,a,b\n1,Rome,s1,true,,0.5\n2,Ulm,s1,true,0.2,0.5\n")
        .unwrap();
    let (code, _, told) = kmill(path, "predict m.safetensors one.csv -o one-out.csv");
    assert!(
        code == 0 && told.contains("column city: 1 of 2 rows have a value that did not occur in the fit"),
        "{told}"
    );
    // several columns are one line
    std::fs::write(path.join("two.csv"), "id,city,shop,open,a,b\n1,Rome,s99,true,,0.5\n2,Ulm,s98,true,0.2,0.5\n")
        .unwrap();
    let (code, _, told) = kmill(path, "predict m.safetensors two.csv -o two-out.csv");
    let named = "2 columns have values that did not occur in the fit (of 2 rows: 2 in shop, 1 in city);";
    assert!(code == 0 && told.contains(named) && told.matches("did not occur").count() == 1, "{told}");
    // an option overrides the model
    let (code, _, told) = kmill(path, "predict m.safetensors one.csv -o one-out.csv --missing error");
    assert!(code == 1 && told.contains("row 0") && told.contains("column \"a\" is missing"), "{told}");
    // without `--missing`, the error of a fit names the option
    let (code, _, told) = kmill(path, &format!("fit ridge odd.csv --target y {FEATURES} -o n.safetensors"));
    assert!(code == 1 && told.contains("line ") && told.contains("--missing indicator"), "{told}");
}

#[test]
fn the_same_rows_give_the_same_model_in_every_format_and_way() {
    let folder = tables();
    let path = folder.path();
    let fit = |data: &str, more: &str, model: &str| {
        let line =
            format!("fit ridge {data} --target y {FEATURES},!comment --rank 60 --lambda 1e-6 -o {model} --json {more}");
        ok(path, &line);
        std::fs::read(path.join(model)).unwrap()
    };
    let model = fit("t.csv", "--threads 1", "a.safetensors");
    for (data, more) in [("t.parquet", ""), ("t.arrow", "--threads 3"), ("t.csv", "--threads 3 --memory 128MiB")] {
        if data != "t.csv" {
            ok(path, &format!("convert t.csv -o {data} --json"));
        }
        assert!(fit(data, more, "b.safetensors") == model, "{data} {more}");
    }
    // in shards
    ok(path, &format!("prepare ridge t.csv --target y {FEATURES},!comment --rank 60 --lambda 1e-6 -o job --json"));
    ok(path, "stats job t.csv -o part --json");
    ok(path, "merge part -o whole --json");
    ok(path, "solve job whole -o c.safetensors --json");
    assert!(std::fs::read(path.join("c.safetensors")).unwrap() == model);
}

#[test]
fn every_verb_takes_categories() {
    let folder = tables();
    let path = folder.path();
    let learn = "--rank 40 --json";
    let without = format!("{FEATURES},!comment");
    ok(path, &format!("plan ridge t.csv --target y {without} {learn}"));
    let fit =
        ok(path, &format!("fit ridge t.csv --target y {without} {learn} --lambda 1e-6 --importance -o m.safetensors"));
    assert!(fit["importance"].as_array().unwrap().iter().any(|pair| pair[0] == "city=Köln"), "{fit}");
    let report = ok(path, "evaluate m.safetensors t.csv --json");
    assert_eq!(report["rows"], 1500);
    let report = ok(path, "inspect m.safetensors --json");
    assert_eq!(report["encoding"][0]["code"]["values"], serde_json::json!(["Bonn", "Köln", "Paris, FR", "Ulm"]));
    let report = ok(path, "inspect t.csv --json");
    assert_eq!(
        (&report["columns"][1]["values"], &report["columns"][2]["values"]),
        (&"4".into(), &"more than 1,000".into())
    );
    ok(path, &format!("features t.csv {without},!y --rank 20 -o phi.csv --model map.safetensors --json"));
    ok(path, "predict map.safetensors t.csv -o phi2.csv --json");
    let read = |name: &str| std::fs::read(path.join(name)).unwrap();
    assert!(read("phi.csv") == read("phi2.csv"));
    let curve = "--methods uniform,rpcholesky --ranks 10,20";
    ok(path, &format!("curve t.csv {curve} {without},!y -o c.csv --json"));
    ok(path, &format!("curve t.csv {curve} {without} --target y --test-where b>0.8 -o d.csv --json"));
    ok(path, &format!("herd t.csv --count 5 --rank 20 {without} -o herd.csv --json"));
    ok(path, "test hsic t.csv --features a --with city --permutations 20 --rank 20 --json");
    // a category of either sample is a feature of both
    ok(path, "test mmd t.csv odd.csv --features city,shop --missing indicator --permutations 20 --rank 20 --json");
    ok(path, "test mmd t.csv --by open==true --features city,a --permutations 20 --rank 20 --json");
    ok(
        path,
        &format!(
            "tune ridge t.csv --target y {without} --sample 500 --rank 40 --kernels gaussian() -o tuned.safetensors --json"
        ),
    );
    let svm = ok(
        path,
        &format!(
            "fit svm t.csv --target class {FEATURES},!comment,!city,!y --categories shop,open {learn} -o s.safetensors"
        ),
    );
    assert_eq!(svm["columns"], serde_json::json!([["shop", "9 values"], ["open", "2 values"]]));
    ok(path, &format!("fit cca t.csv {without} --with city,shop {learn} -o cca.safetensors"));
    ok(path, "plot m.safetensors t.csv --x a --y b -o p.svg --json");
    let (code, _, told) = kmill(path, "plot m.safetensors t.csv --x a --y city=Ulm -o p.svg");
    assert!(code == 1 && told.contains("choose a numeric column"), "{told}");
    // landmarks from a table have the category codes of the rows
    write(&path.join("few.csv"), 30, false);
    ok(
        path,
        &format!("fit ridge t.csv --target y {without} --landmarks few.csv --lambda 1e-6 -o l.safetensors --json"),
    );
}

#[test]
fn kernels_look_at_categories_by_the_name_of_their_column() {
    let folder = tables();
    let path = folder.path();
    let fit = |kernel: &str| {
        let line = format!(
            "fit ridge t.csv --target y --features city,shop,a,b --rank 200 --lambda 1e-7 --json -o m.safetensors --kernel {kernel}"
        );
        ok(path, &line);
        ok(path, "evaluate m.safetensors t.csv --json")["mse"].as_f64().unwrap()
    };
    // a function of the numbers per shop plus a constant per city, like the target
    let sum = fit("gaussian(sigma=1,on=[a,b])*delta(on=shop)+delta(on=city)");
    assert_eq!(sum, fit("gaussian(sigma=1,on=[!city,!shop])*delta(on=shop)+delta(on=city)"));
    assert!(sum < 1e-2, "{sum}");
    let (code, _, told) =
        kmill(path, "fit ridge t.csv --target y --features a,b --lambda 1e-6 -o n.safetensors --kernel delta(on=city)");
    assert!(
        code == 1 && told.contains("column city is text and not a feature") && told.contains("--categories"),
        "{told}"
    );
}

#[test]
fn text_of_many_values_is_hashed_where_that_is_asked_for() {
    let folder = tables();
    let path = folder.path();
    let fit = ok(
        path,
        &format!(
            "fit ridge t.csv --target y {FEATURES} --hash 32 --kernel gaussian(sigma=median) --rank 40 --lambda 1e-4 --json -o m.safetensors"
        ),
    );
    assert_eq!(fit["columns"][1], serde_json::json!(["comment", "32 buckets"]));
    assert_eq!(fit["features"], 4 + 32 + 9 + 3);
    let report = ok(path, "evaluate m.safetensors t.csv --json");
    let (mse, train) = (report["mse"].as_f64().unwrap(), fit["train"]["mse"].as_f64().unwrap());
    assert!((mse - train).abs() < 1e-6 * train, "{mse} {train}");
    let (code, _, told) = kmill(path, "fit ridge t.csv --target y --features comment,a -o n.safetensors");
    assert!(
        code == 1
            && told.contains("column \"comment\" has more than 1,000 distinct values")
            && told.contains("--hash to 256"),
        "{told}"
    );
}
