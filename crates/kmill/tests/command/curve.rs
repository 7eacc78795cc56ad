//! `kmill curve` as its users see it: the same numbers in every output, stored cells, and refusals.

use super::run::{kmill, ok};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Writes 2,000 rows of friedman1 with a column `fold`; one fold of five is for testing.
fn table(at: &Path) {
    ok(at, "generate friedman1 --rows 2000 -o t.csv -q");
    let text = std::fs::read_to_string(at.join("t.csv")).unwrap();
    let mut lines = text.lines();
    let mut folded = format!("{},fold\n", lines.next().unwrap());
    for (i, line) in lines.enumerate() {
        folded.push_str(&format!("{line},{}\n", i % 5));
    }
    std::fs::write(at.join("t.csv"), folded).unwrap();
}

const LINE: &str = "curve t.csv --target y --kernel gaussian(sigma=3) --methods uniform,rpcholesky,fourier \
    --ranks 10,40 --repeats 3 --test-where fold==0 -q";

/// Reads the rows of a CSV file as maps from column name to value.
fn records(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

fn number(text: &str) -> Option<f64> {
    (!text.is_empty()).then(|| text.parse().unwrap())
}

/// Returns the numbers embedded in a page.
pub(crate) fn embedded(page: &str) -> Value {
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    serde_json::from_str(&page[start..start + page[start..].find("</script>").unwrap()]).unwrap()
}

fn median(rows: &[Value], method: &str, rank: u64, key: &str) -> Option<f64> {
    let of = |row: &&Value| row["method"] == method && row["rank"] == rank;
    let mut values: Vec<f64> = rows.iter().filter(of).filter_map(|row| row[key].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    (values.len() == 3).then(|| values[1])
}

#[test]
fn every_output_has_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    let report = ok(at, &format!("{LINE} --json -o c.html -o c.csv -o c.parquet -o c.json -o c.svg -o c.png"));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 18);
    let json: Value = serde_json::from_slice(&std::fs::read(at.join("c.json")).unwrap()).unwrap();
    assert_eq!(json, report);
    let page = std::fs::read_to_string(at.join("c.html")).unwrap();
    assert_eq!(embedded(&page), report);
    // the figure for print has every chart against rank, and every median
    let figure = std::fs::read_to_string(at.join("c.svg")).unwrap();
    for title in ["Relative trace error", "Relative Frobenius error", "Relative spectral error"] {
        assert!(figure.contains(&format!(">{title}</text>")), "{title}");
    }
    let marks = |text: &str, from: &str| text.split(from).skip(1).filter(|part| part.contains(": ")).count();
    let against_rank = page.split("<div class=\"charts at-").find(|part| part.starts_with("rank\"")).unwrap();
    assert_eq!(marks(&figure, " class=\"mark c"), marks(against_rank, " class=\"mark c"));
    assert!(std::fs::read(at.join("c.png")).unwrap().starts_with(b"\x89PNG"));
    ok(at, "convert c.parquet --missing keep -o p.csv -q");
    for file in ["c.csv", "p.csv"] {
        let records = records(&at.join(file));
        assert_eq!(records.len(), rows.len());
        for (record, row) in records.iter().zip(rows) {
            for (key, value) in row.as_object().unwrap() {
                let text = record.get(key).unwrap_or_else(|| panic!("{file} has no column {key}"));
                match value {
                    Value::String(value) => assert_eq!(text, value, "{file} {key}"),
                    value => assert_eq!(number(text), value.as_f64(), "{file} {key}"),
                }
            }
        }
    }
    // the charts contain the medians to the last digit, the terminal to the third
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(LINE.split_whitespace()).output().unwrap();
    let terminal = String::from_utf8(output.stdout).unwrap();
    for (metric, key) in [("trace", "trace_error"), ("frobenius", "frobenius_error"), ("test", "test_error")] {
        for method in ["uniform", "rpcholesky", "fourier"] {
            for rank in [10, 40] {
                let Some(median) = median(rows, method, rank, key) else {
                    assert!(metric == "trace" && method == "fourier");
                    continue;
                };
                let start = page.find(&format!("id=\"{metric}-rank\"")).unwrap();
                let chart = &page[start..start + page[start..].find("</svg>").unwrap()];
                let series = &chart[chart.find(&format!("data-name=\"{method}\"")).unwrap()..];
                assert!(series.contains(&format!("data-x=\"{:e}\" data-y=\"{median:e}\"", rank as f64)), "{series}");
                let shown = kreport::table::number(median, 4);
                assert!(terminal.contains(&format!("  {shown}")), "{metric} {method} {rank}: {shown} in {terminal}");
            }
        }
    }
    assert!(!at.join("c.html.cells.json").exists(), "a finished curve keeps its outputs only");
}

#[test]
fn the_test_error_is_that_of_fit_and_evaluate() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    let curve = ok(
        at,
        "curve t.csv --target y --test-where fold==0 --kernel gaussian(sigma=3) --methods rpcholesky,fourier \
        --ranks 60 --repeats 1 --seed 4 --lambda 1e-5 --precision f64 --json -q",
    );
    let maps = ["nystrom --candidates all", "fourier"];
    for (row, map) in curve["rows"].as_array().unwrap().iter().zip(maps) {
        let fit = ok(
            at,
            &format!(
                "fit ridge t.csv --target y --where fold!=0 --kernel gaussian(sigma=3) --map {map} --rank 60 \
            --seed 4 --lambda 1e-5 --precision f64 --no-clip -o m -q --json"
            ),
        );
        let figures = fit["figures"].as_array().unwrap();
        let of_fit = figures.iter().find(|figure| figure["name"] == "effective dimension").unwrap();
        let (found, expected) = (row["effective_dimension"].as_f64().unwrap(), of_fit["values"][0].as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < 1e-8 && expected > 10.0, "{map}: {found} {expected}");
        let score = ok(at, "evaluate m t.csv --where fold==0 --json -q");
        let (found, expected) = (row["test_error"].as_f64().unwrap(), score["mse"].as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < 1e-8, "{map}: {found} {expected}");
    }
    assert_eq!((&curve["tested"], &curve["approximated_rows"]), (&"mse".into(), &1600.into()));
    let features = curve["table"]["features"].as_array().unwrap();
    assert!(features.len() == 10 && features.iter().all(|f| f["name"] != "fold" && f["name"] != "y"), "{features:?}");
}

#[test]
fn classes_are_tested_by_the_share_of_wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 -o t.parquet -q");
    let line = "--target y --task classification --kernel gaussian(sigma=0.5) --lambda 1e-6 --seed 1 -q --json";
    let curve = ok(
        at,
        &format!(
            "curve t.parquet {line} --test-where x0>1 --where x0<=1 --features x0,x1 --methods uniform \
        --ranks 50 --repeats 1"
        ),
    );
    ok(
        at,
        &format!(
            "fit ridge t.parquet {line} --where x0<=1 --features x0,x1 --landmarks uniform --candidates all --rank 50 -o m \
        --no-clip"
        ),
    );
    let score = ok(at, "evaluate m t.parquet --where x0>1 --json -q");
    assert_eq!(curve["tested"], "error");
    let (found, expected) = (curve["rows"][0]["test_error"].as_f64().unwrap(), score["error"].as_f64().unwrap());
    // in f32 a row at the class boundary may fall on either side
    assert!((found - expected).abs() <= 2.0 / 1000.0, "{found} {expected}");
}

#[cfg(unix)]
#[test]
fn a_stopped_curve_keeps_its_cells_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 20000 -o t.parquet -q");
    let line =
        "curve t.parquet --target y --kernel gaussian(sigma=3) --methods uniform,rpcholesky --ranks 20,300 --repeats 6";
    let mut child = Command::new(env!("CARGO_BIN_EXE_kmill"))
        .current_dir(at)
        .args(format!("{line} -o c.html").split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (kept, begun) = (at.join("c.html.cells.json"), Instant::now());
    while !kept.exists() {
        assert!(begun.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none(), "no cells");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("error: stopped; the completed work is saved in c.html.cells.json; run the same command again"),
        "{text}"
    );
    assert!(text.contains("runs") && text.contains("left"), "progress and time left: {text}");
    assert!(!at.join("c.html").exists());
    let before: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    let before = before["cells"].as_array().unwrap().clone();
    assert!(!before.is_empty() && before.len() < 24, "{} cells", before.len());
    // other options and other data are refused, and the cells stay
    for (change, why) in [
        ("--seed 7", "--seed was 0, now it is 7"),
        ("--scale none", "--scale was standard, now it is none"),
        ("--features x0", "features was"),
    ] {
        let (code, _, text) = kmill(at, &format!("{line} -o c.html --resume {change}"));
        assert!(code == 1 && text.contains(why), "{change}: {text}");
    }
    let report = ok(at, &format!("{line} -o c.html --threads 1 --json -q"));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 24);
    for cell in &before {
        let same = |row: &&Value| ["method", "rank", "repeat"].iter().all(|key| row[key] == cell[key]);
        let row = rows.iter().find(same).unwrap();
        // cells are not measured again: even the time is the same
        assert_eq!((&row["seconds"], &row["trace_error"]), (&cell["seconds"], &cell["trace_error"]));
    }
    assert!(at.join("c.html").exists() && !kept.exists());
    // fewer repeats are a subset of the same cells
    let kept_cells = serde_json::to_string(&before).unwrap();
    assert!(kept_cells.contains("\"repeat\":0"), "repeats are measured in their order: {kept_cells}");
    // a file that kmill did not write is not touched
    std::fs::write(&kept, "years of work").unwrap();
    let (code, _, text) = kmill(at, &format!("{line} -o c.html"));
    assert!(code == 1 && text.contains("not a file of cells"), "{text}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "years of work");
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 500 -o t.parquet -q");
    for (line, code, why) in [
        ("curve t.parquet --methods unifrom", 2, "unknown landmark scheme or map; expected one of"),
        ("curve t.parquet --ranks 0", 2, "not a rank"),
        ("curve t.parquet --repeats 0", 2, "expected a whole number from 1 to 1000"),
        ("curve t.parquet --rangs 5", 2, "--ranks"),
        ("curve t.parquet --test-where y==0", 2, "--target"),
        ("curve t.parquet --target y --test-where x0>1 --lambda 1e-6,1e-3", 1, "choose one number"),
        ("curve t.parquet --lambda 1e-6", 2, "--test-where"),
        ("curve t.parquet --intercept none", 2, "--test-where"),
        ("curve t.parquet --landmarks uniform", 1, "omit it"),
        ("curve t.parquet -o a.gif", 1, "choose a name that ends with .html"),
        ("curve t.parquet -o no/a.html", 1, "create it first"),
        ("curve t.parquet -o a.csv -o a.csv", 1, "name it once"),
        ("curve t.parquet -o t.parquet", 1, "also an input"),
        ("curve t.parquet --resume", 1, "repeat the -o"),
        ("curve t.parquet --memory 1MiB", 1, "raise --memory"),
        ("curve t.parquet --methods fourier --kernel polynomial(degree=2)", 1, "polynomial"),
    ] {
        let (got, _, text) = kmill(at, line);
        assert!(got == code && text.contains(why), "{line}: {got} {text}");
        assert!(!text.contains("panicked"), "{line}: {text}");
    }
    // a rank above the number of rows is reduced
    let report = ok(
        at,
        "curve t.parquet --target y --kernel gaussian(sigma=1) --ranks 400,800 --repeats 1 --methods uniform --json -q",
    );
    let features: Vec<u64> =
        report["rows"].as_array().unwrap().iter().map(|row| row["features"].as_u64().unwrap()).collect();
    assert!(features[0] <= 400 && features[1] <= 500 && features[0] <= features[1], "{features:?}");
}

#[test]
fn a_line_that_lies_under_another_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 300 -o t.parquet -q");
    // the same eigenvectors, computed in two ways
    let methods = "uniform,eigen(oversampling=1),randomised(oversampling=1)";
    ok(
        at,
        &format!(
            "curve t.parquet --features x* --methods {methods} --ranks 5..20 --repeats 1 -o c.html -o c.svg -q --json"
        ),
    );
    for file in ["c.html", "c.svg"] {
        let text = std::fs::read_to_string(at.join(file)).unwrap();
        let hidden = "the line of eigen(oversampling=1) is hidden by the line of randomised(oversampling=1)<";
        assert!(text.contains(hidden), "{file}: {text}");
        assert!(!text.contains("the line of uniform is hidden"), "{file}");
    }
}
