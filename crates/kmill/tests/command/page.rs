//! Report pages in headless Chromium, where there is one: everything is there, and nothing complains.

use super::run::ok;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browser of this machine.
fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name))).find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: no Chromium on this machine");
    }
    found
}

/// What looks at the page in its frame.
const PROBE: &str = include_str!("probe.js");

/// What the probe sees at a width, and what the browser says on its console.
fn look(browser: &Path, folder: &Path, page: &str, width: u32, dark: bool) -> (serde_json::Value, String) {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    // the frame's document is an attribute: of the same origin, so that the probe may look inside
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
        command.arg("--force-dark-mode");
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
        assert_eq!((&seen["ran"], &seen["overflow"]), (&"ran".into(), &0.into()), "at {width}: {seen}");
        let series = |id: &str| seen["series"][id].as_u64();
        // two of the eight are no projections
        assert_eq!(
            [series("trace-rank"), series("frobenius-rank"), series("spectral-rank"), series("test-rank")],
            [Some(6), Some(8), Some(8), Some(8)],
            "at {width}: {seen}"
        );
        assert_eq!(seen["series"].as_object().unwrap().len(), 4, "the charts of the other tabs are not shown");
        assert!(seen["letters"].as_f64().unwrap() >= 9.0, "letters are readable at {width}: {seen}");
        let tip = seen["tip"].as_str().unwrap();
        assert!(tip.contains("rank 80") && tip.contains("rpcholesky") && tip.contains("kmeans"), "{tip}");
        assert_eq!((&seen["gone"], &seen["hidden"]), (&true.into(), &5.into()), "{seen}");
        assert_eq!(seen["seconds"].as_array().unwrap().len(), 4, "{seen}");
        assert!(seen["seconds"].to_string().contains("trace-seconds"), "{seen}");
    }
}
