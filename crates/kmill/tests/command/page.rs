//! Report pages in headless Chromium, if installed: they are complete, and the console is empty.

use super::run::ok;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the browser of this machine.
fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name))).find(|p| p.is_file());
    if found.is_none() {
        crate::run::skip("no Chromium on this machine");
    }
    found
}

/// Script that inspects the page in its frame.
const PROBE: &str = include_str!("probe.js");

/// Returns the findings of the probe at a width, and the console output of the browser.
fn look(browser: &Path, folder: &Path, page: &str, width: u32, dark: bool) -> (serde_json::Value, String) {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    // the frame's document is an attribute, of the same origin, so that the probe may read it
    let outer = format!(
        "<!doctype html><meta charset=\"utf-8\"><link rel=\"icon\" href=\"data:,\"><pre></pre>\
         <iframe width=\"{width}\" height=\"900\" style=\"border:0\" data-page=\"{quoted}\"></iframe><script>{PROBE}</script>"
    );
    let path = folder.join(format!("outer-{width}.html"));
    std::fs::write(&path, outer).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--enable-logging=stderr"]);
    command
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command.arg(format!("file://{}", path.display())).output().unwrap();
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    let start = dom.find("<pre>").unwrap_or_else(|| panic!("{dom}{log}")) + 5;
    let text = dom[start..start + dom[start..].find("</pre>").unwrap()]
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    let seen = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?} {log}"));
    let console = log.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (seen, console)
}

#[test]
fn the_page_of_a_curve_shows_every_series_at_every_width() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 1500 -o t.parquet -q");
    ok(
        at,
        "curve t.parquet --target y --test-where x9>0.8 --kernel gaussian(sigma=3) --repeats 3 --ranks 10..80 -q --json \
        --features x* --methods uniform,kmeans,greedy,rpcholesky,leverage,fourier,orthogonal,eigen -o c.html",
    );
    let page = std::fs::read_to_string(at.join("c.html")).unwrap();
    for (width, dark) in [(1280, false), (390, false), (390, true)] {
        let (seen, console) = look(&browser, at, &page, width, dark);
        assert_eq!(console, "", "at {width}");
        assert_eq!(seen["ran"], "ran", "at {width}: {seen}");
        // a scroll bar takes some of the width
        assert!(seen["overflow"].as_i64().unwrap() <= 0, "nothing sticks out at {width}: {seen}");
        let series = |id: &str| seen["series"][id].as_u64();
        // two of the eight are not projections
        assert_eq!(
            [series("trace-rank"), series("frobenius-rank"), series("spectral-rank"), series("test-rank")],
            [Some(6), Some(8), Some(8), Some(8)],
            "at {width}: {seen}"
        );
        assert_eq!(seen["series"].as_object().unwrap().len(), 4, "the charts of the other tabs are not shown");
        assert!(seen["letters"].as_f64().unwrap() >= 9.0, "letters are readable at {width}: {seen}");
        assert_eq!(seen["dark"], if dark { "rgb(21, 24, 28)" } else { "rgb(255, 255, 255)" }, "{seen}");
        let tip = seen["tip"].as_str().unwrap();
        assert!(tip.contains("rank 80") && tip.contains("rpcholesky") && tip.contains("kmeans"), "{tip}");
        assert_eq!(seen["inside"], true, "the box under the pointer at {width}: {seen}");
        assert_eq!((&seen["gone"], &seen["hidden"]), (&true.into(), &5.into()), "{seen}");
        assert_eq!(seen["seconds"].as_array().unwrap().len(), 4, "{seen}");
        assert!(seen["seconds"].to_string().contains("trace-seconds"), "{seen}");
        // the first method is switched off and absent from the saved chart
        let svg = &seen["saved"]["trace-rank.svg"];
        assert_eq!((&svg["broken"], &svg["series"]), (&false.into(), &5.into()), "{seen}");
        let words = svg["words"].as_str().unwrap();
        let there = ["Relative trace error", "exact, all rows", "rpcholesky", "kmeans"];
        assert!(there.iter().all(|word| words.contains(word)) && !words.contains("uniform"), "{words}");
        let png = &seen["saved"]["trace-rank.png"];
        assert_eq!(png["kind"], "data:image/png;base64,", "{seen}");
        assert!(png["length"].as_u64().unwrap() > 20_000, "{seen}");
    }
}

#[test]
fn the_pages_of_fits_and_evaluations_show_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    ok(at, "generate moons --rows 3000 -o c.parquet -q");
    ok(at, "fit ridge t.parquet --target y --ranks 20..80 --lambda 1e-6,1e-4 -o r --report fit.html -q --json");
    ok(at, "fit ridge c.parquet --target y --task classification --rank 60 -o k --report classes.html -q --json");
    let scores = ok(at, "evaluate r t.parquet --report numbers.html -q --json");
    ok(at, "fit ridge t.parquet --target y --rank 40 --lambda 1e-4 --importance --test 20% -o i --report test.html -q");
    ok(at, "inspect t.parquet --target y --report table.html -q --json");
    ok(at, "evaluate k c.parquet --report labels.html -q --json");
    let page = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    assert_eq!(super::curve::embedded(&page("numbers.html")), scores, "the page holds the scores");
    let has = |name: &str, parts: &[&str]| {
        let html = page(name);
        parts.iter().for_each(|part| assert!(html.contains(part), "{name}: no {part}"));
    };
    has("numbers.html", &["Importance of columns", "id=\"effect-5\"", "class=\"band c0\""]);
    // one list: the test rows measure the importance, so the slopes of the fit are left out
    assert!(!page("test.html").contains("<h2>Importance</h2>"));
    has("test.html", &["Test rows: importance of columns", "Test rows: residuals", "Test rows: partial dependence"]);
    has("table.html", &["<h2>What stands out</h2>", "id=\"column-10\"", "<th scope=\"row\">x9</th>"]);
    has("labels.html", &["id=\"roc\"", "id=\"precision\"", "id=\"gains\"", "id=\"lift\"", "model, area "]);
    let (code, _, text) = super::run::kmill(at, "inspect r --report model.html");
    assert!(code == 1 && text.contains("a model has no page of its own"), "{text}");
    let (code, _, text) = super::run::kmill(at, "inspect t.parquet --report page.pdf");
    assert!(code == 1 && text.contains(".html"), "{text}");
    for wrong in ["--report a.pdf", "--report no/a.html"] {
        let (code, _, text) = super::run::kmill(at, &format!("evaluate r t.parquet {wrong}"));
        assert!(code == 1 && (text.contains(".html") || text.contains("no folder")), "{wrong}: {text}");
    }
    let Some(browser) = chromium() else { return };
    for (name, charts, clouds, heat, sheets) in [
        (
            "fit.html",
            &["certificate"][..],
            0,
            6 + 3 * 5,
            &[("surface", "lambda"), ("fold-by-fold", "80"), ("stages-of-the-run", "%")][..],
        ),
        ("classes.html", &[][..], 0, 13 + 5, &[("surface", "lambda")][..]),
        ("numbers.html", &["truth", "residuals", "histogram"][..], 2, 0, &[][..]),
        ("labels.html", &["roc", "gains"][..], 0, 4, &[("confusion-matrix", "predicted")][..]),
        ("table.html", &["column-0"][..], 0, 0, &[][..]),
    ] {
        for width in [1280, 390] {
            let (seen, console) = look(&browser, at, &page(name), width, false);
            assert_eq!((console.as_str(), &seen["ran"]), ("", &"ran".into()), "{name}: {seen}");
            assert!(seen["overflow"].as_i64().unwrap() <= 0, "{name} at {width}: {seen}");
            assert!(charts.iter().all(|id| seen["series"].get(id).is_some()), "{name}: {seen}");
            if clouds > 0 {
                let said = seen["point"].as_str().unwrap();
                assert!(said.contains("predicted") && said.contains("actual"), "{name}: {seen}");
            }
            assert_eq!((&seen["clouds"], &seen["heat"]), (&clouds.into(), &heat.into()), "{name}: {seen}");
            let saved = seen["saved"].as_object().unwrap();
            // the first chart, and every heat map and bar
            assert_eq!(saved.len() as u64, seen["asked"].as_u64().unwrap(), "{name}: {seen}");
            assert!(saved.values().all(|file| file["broken"] != true), "{name}: {seen}");
            for (sheet, word) in sheets {
                let words = saved[&format!("{sheet}.svg")]["words"].as_str().unwrap();
                assert!(words.contains(word), "{name}: {words}");
                assert!(saved[&format!("{sheet}.png")]["length"].as_u64().unwrap() > 2_000, "{name}: {seen}");
            }
        }
    }
}

#[test]
fn pictures_of_two_eight_and_nineteen_classes_can_be_read_on_every_screen() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for classes in [2, 8, 19] {
        let row = |i: usize| {
            let (k, (u, v)) = (i % classes, ((i * 37 % 100) as f64 / 50.0, (i * 53 % 97) as f64 / 48.0));
            format!("{},{},kind {k}\n", (k % 5 * 3) as f64 + u, (k / 5 * 3) as f64 + v)
        };
        std::fs::write(at.join("t.csv"), format!("a,b,kind\n{}", (0..1900).map(row).collect::<String>())).unwrap();
        ok(
            at,
            "fit ridge t.csv --target kind --task classification --kernel gaussian(sigma=0.4) --rank 150 --lambda 1e-6 -o m -q --json",
        );
        ok(at, "plot m t.csv -o p.html -q --json");
        let page = std::fs::read_to_string(at.join("p.html")).unwrap();
        for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
            let (seen, console) = look(&browser, at, &page, width, dark);
            assert_eq!((console.as_str(), &seen["ran"]), ("", &"ran".into()), "{classes} at {width}: {seen}");
            assert!(seen["overflow"].as_i64().unwrap() <= 0, "{classes} at {width}: {seen}");
            assert!(seen["letters"].as_f64().unwrap() >= 9.0, "{classes} at {width}: {seen}");
            let words = seen["saved"]["picture.svg"]["words"].as_str().unwrap();
            let all = (0..classes).all(|k| words.split('|').any(|word| word == format!("kind {k}")));
            assert!(all && words.contains("kind over b against a"), "{words}");
        }
    }
}

#[test]
fn a_page_has_the_calibration_and_the_histogram() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 --noise 0.4 -o c.parquet -q");
    ok(at, "fit logistic c.parquet --target y --rank 60 --lambda 1e-5 -o k -q --json");
    ok(at, "evaluate k c.parquet --report labels.html -q --json");
    ok(at, "predict k c.parquet --probabilities --keep y -o p.csv -q --json");
    let page = std::fs::read_to_string(at.join("labels.html")).unwrap();
    let chart = |page: &str, id: &str| {
        let start = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no chart {id}"));
        page[start..start + page[start..].find("</svg>").unwrap()].to_string()
    };
    let calibration = chart(&page, "calibration");
    let values = |name: &str| -> Vec<f64> {
        let mark = format!(" data-{name}=\"");
        calibration.split(&mark).skip(1).map(|part| part.split('"').next().unwrap().parse().unwrap()).collect()
    };
    // by definition, from the written probabilities in ascending order, in bins of the shown sizes
    let row = |line: &str| -> (f64, f64) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        (cells[3], cells[0])
    };
    let mut rows: Vec<(f64, f64)> =
        std::fs::read_to_string(at.join("p.csv")).unwrap().lines().skip(1).map(row).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sizes: Vec<usize> = calibration
        .split(" rows\"")
        .filter_map(|part| part.rsplit(", ").next()?.replace(',', "").parse().ok())
        .collect();
    assert!(sizes.len() == 10 && sizes.iter().sum::<usize>() == 3000, "{sizes:?} {calibration}");
    assert!(sizes.iter().all(|size| (270..330).contains(size)), "bins of about equal counts: {sizes:?}");
    let points: Vec<(f64, f64)> = values("x").into_iter().zip(values("y")).collect();
    let intervals = values("low").into_iter().zip(values("high"));
    let mut first = 0;
    for ((size, found), (low, high)) in sizes.iter().zip(&points).zip(intervals) {
        let bin = &rows[first..first + size];
        let mean = |value: fn(&(f64, f64)) -> f64| bin.iter().map(value).sum::<f64>() / *size as f64;
        let expected = (mean(|row| row.0), mean(|row| row.1));
        assert!((found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9, "{found:?} {expected:?}");
        // Wilson's interval has the ends p at which |observed − p| is 1.96 standard errors
        for end in [low, high].into_iter().filter(|end| *end > 1e-12) {
            let standard_error = (end * (1.0 - end) / *size as f64).sqrt();
            assert!(((found.1 - end).abs() - 1.959_964 * standard_error).abs() < 1e-9, "{found:?} {low} {high}");
        }
        first += size;
    }
    assert!(page.contains("Brier score 0.") && calibration.contains("predicted probability of 1"), "{calibration}");
    // every row is in one bar
    ok(at, "generate friedman1 --rows 1500 -o t.parquet -q");
    ok(at, "fit ridge t.parquet --target y --rank 40 --lambda 1e-6 -o r -q --json");
    ok(at, "evaluate r t.parquet --report numbers.html -q --json");
    let histogram = chart(&std::fs::read_to_string(at.join("numbers.html")).unwrap(), "histogram");
    let rows: Vec<f64> = histogram
        .split("<title>")
        .skip(1)
        .map(|part| {
            part.split("</title>").next().unwrap().rsplit(": ").next().unwrap().replace(',', "").parse().unwrap()
        })
        .collect();
    assert_eq!((rows.len(), rows.iter().sum::<f64>()), (38, 1500.0), "{rows:?}");
}
