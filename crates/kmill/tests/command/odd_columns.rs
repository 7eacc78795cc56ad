//! A realistic table: row IDs, times of day as numbers, many users, decimal commas, and outliers.

use super::run::{kmill, ok};
use std::path::Path;

/// Returns row `i`: row ID, time of day, one of 1,500 users, a number and a target.
fn row(i: u64) -> (u64, u64, u64, f64, f64) {
    let mixed = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let (minute, user, x) = (mixed % 1440, mixed / 1440 % 1500, (i * 37 % 101) as f64 / 50.0 - 1.0);
    let of_user = (user * 7919 % 1009) as f64 / 504.5 - 1.0;
    let day = std::f64::consts::TAU * minute as f64 / 1440.0;
    (500 + i, minute / 60 * 100 + minute % 60, user, x, of_user + day.sin() + 0.5 * (3.0 * x).cos())
}

fn write(path: &Path, rows: std::ops::Range<u64>, semicolons: bool) {
    let line = |i| {
        let (id, time, user, x, y) = row(i);
        let line = format!("{id};{time};u{user};{x};{y}\n");
        if semicolons { line.replace('.', ",") } else { line.replace(';', ",") }
    };
    let head = "id;time;user;x;y\n";
    let head = if semicolons { head.to_string() } else { head.replace(';', ",") };
    std::fs::write(path, head + &rows.map(line).collect::<String>()).unwrap();
}

#[test]
fn every_format_gives_the_same_model_and_says_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("t.csv"), 0..6000, false);
    write(&path.join("commas.csv"), 0..6000, true);
    ok(path, "convert t.csv -o t.parquet");
    let mut models = Vec::new();
    for name in ["t.csv", "t.parquet", "commas.csv"] {
        let line = format!("fit ridge {name} --target y --rank 200 --lambda 1e-6 -o m.safetensors --json");
        let (code, fit, told) = kmill(path, &line);
        assert_eq!(code, 0, "{told}");
        assert_eq!(fit["columns"][0], serde_json::json!(["time", "time, hour"]), "{name}");
        assert_eq!(fit["columns"][1], serde_json::json!(["user", "target encoding of 1,500 values"]), "{name}");
        assert!(told.contains("column time is read as a time of day, like 517 for 5:17; --times none"), "{told}");
        assert!(told.contains("column id is left out: it counts the rows; name it in --features"), "{told}");
        assert_eq!(told.contains("column x are read with decimal commas"), name == "commas.csv", "{told}");
        assert!(fit["train"]["r2"].as_f64().unwrap() > 0.8, "{fit}");
        models.push(std::fs::read(path.join("m.safetensors")).unwrap());
    }
    assert!(models[0] == models[1]);
    // a model of decimal commas stores this, and is otherwise the same
    let parts = |model: &[u8]| {
        let (start, rest) = model.split_at(8);
        let (header, tensors) = rest.split_at(u64::from_le_bytes(start.try_into().unwrap()) as usize);
        let header: serde_json::Value = serde_json::from_slice(header).unwrap();
        let mut card: serde_json::Value =
            serde_json::from_str(header["__metadata__"]["kmill"].as_str().unwrap()).unwrap();
        let reading = card.as_object_mut().unwrap().remove("reading");
        (card, tensors.to_vec(), reading)
    };
    let [points, commas] = [0, 2].map(|at| parts(&models[at]));
    assert!((&points.0, &points.1) == (&commas.0, &commas.1));
    assert!(points.2.is_none() && commas.2.unwrap()["types"]["x"]["number"]["marks"] == "comma");
    write(&path.join("new.csv"), 6000..8000, true);
    let (code, scores, told) = kmill(path, "evaluate m.safetensors new.csv --json");
    assert!(code == 0 && scores["r2"].as_f64().unwrap() > 0.75, "{told} {scores}");
    // a target with decimal commas is not a class
    let plain = std::fs::read_to_string(path.join("commas.csv")).unwrap();
    let quoted = plain.replace(';', "\",\"").replace('\n', "\"\n\"");
    std::fs::write(path.join("quoted.csv"), format!("\"{}", quoted.trim_end_matches('"'))).unwrap();
    let (code, _, told) = kmill(path, "fit ridge quoted.csv --target y -o q.safetensors");
    assert!(code == 1 && told.contains("--decimal ,") && !told.contains("classification"), "{told}");
    ok(path, "fit ridge quoted.csv --decimal , --target y --rank 200 --lambda 1e-6 -o q.safetensors");
    assert!(parts(&std::fs::read(path.join("q.safetensors")).unwrap()).1 == points.1);
}

#[test]
fn a_stray_value_is_told_and_taken_to_the_edge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("t.csv"), 0..2000, false);
    ok(path, "fit ridge t.csv --target y --features time,x --rank 60 --lambda 1e-4 -o m.safetensors");
    ok(path, "fit ridge t.csv --target y --features time,x --rank 60 --lambda 1e-4 --no-clip -o raw.safetensors");
    std::fs::write(path.join("new.csv"), "time,x\n517,40\n517,1\n1200,0.5\n").unwrap();
    let predicted = |model: &str| {
        let (code, _, told) = kmill(path, &format!("predict {model} new.csv -o out.csv"));
        assert_eq!(code, 0, "{told}");
        let text = std::fs::read_to_string(path.join("out.csv")).unwrap();
        (text.lines().skip(1).map(|line| line.parse::<f64>().unwrap()).collect::<Vec<_>>(), told)
    };
    let ((clipped, told), (raw, silent)) = (predicted("m.safetensors"), predicted("raw.safetensors"));
    assert_eq!(clipped[0], clipped[1]);
    assert!(
        told.contains("1 of 3 rows have values outside the training range, 1 of them in x;")
            && told.contains("--no-clip"),
        "{told}"
    );
    assert!(raw[0] != raw[1] && raw[1..] == clipped[1..] && !silent.contains("outside"), "{silent}");
}
