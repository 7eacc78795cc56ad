//! Names of rows in the description of clusters.

use super::run::{kmill, ok};
use serde_json::Value;

/// Writes two separate clusters of 60 rows with these further columns.
fn write_table(path: &std::path::Path, head: &str, cells: impl Fn(usize) -> String) {
    let row = |i: usize| {
        let (x, y) = (5.0 * (i % 2) as f64 + (i * 37 % 61) as f64 / 61.0, (i * 53 % 59) as f64 / 59.0);
        format!("{}{x},{y}\n", cells(i))
    };
    std::fs::write(path, format!("{head}x,y\n{}", (0..120).map(row).collect::<String>())).unwrap();
}

#[test]
fn typical_rows_have_names_if_a_column_identifies_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let fit = |options: &str| ok(at, &format!("fit kmeans t.csv --features x,y --clusters 2 {options} -o m --json"));
    let names = |report: &Value, cluster: usize| report["clusters"][cluster]["typical_names"].clone();
    let expected = |report: &Value, cluster: usize, name: &dyn Fn(u64) -> String| {
        let rows = report["clusters"][cluster]["typical_rows"].as_array().unwrap();
        Value::from(rows.iter().map(|row| name(row.as_u64().unwrap())).collect::<Vec<_>>())
    };
    // a text is preferred to an integer, and repeated texts name nothing
    write_table(&at.join("t.csv"), "town,id,person,", |i| {
        format!("t{},{},p{},", i % 7, 7000 + i * 7919 % 10_007, 500 - i)
    });
    let report = fit("");
    assert_eq!(report["row_name_column"], "person");
    for cluster in [0, 1] {
        assert_eq!(names(&report, cluster), expected(&report, cluster, &|row| format!("p{}", 500 - row)));
    }
    let (_, _, text) = kmill(at, "fit kmeans t.csv --features x,y --clusters 2 -o m");
    assert!(!text.contains("error:"), "{text}");
    // row numbers stay row numbers of the table
    let selected = fit("--rows 40..");
    assert_eq!(names(&selected, 0), expected(&selected, 0, &|row| format!("p{}", 500 - row)));
    assert!(selected["clusters"][0]["typical_rows"][0].as_u64().unwrap() >= 40);
    // names are not in the model
    assert!(ok(at, "inspect m --json").to_string().find("typical_names").is_none());
    write_table(&at.join("t.csv"), "town,id,", |i| format!("t{},{},", i % 7, 7000 + i * 7919 % 10_007));
    let report = fit("");
    assert_eq!(report["row_name_column"], "id");
    assert_eq!(names(&report, 1), expected(&report, 1, &|row| (7000 + row * 7919 % 10_007).to_string()));
    write_table(&at.join("t.csv"), "town,", |i| format!("t{},", i % 7));
    let report = fit("");
    assert_eq!((&report["row_name_column"], names(&report, 0)), (&Value::Null, Value::Null));
}
