//! Models of earlier builds: `tests/golden/models` has a file for each solver, map and kind of
//! column. Every later build loads them and gives the predictions of the build that wrote them.
//!
//! A build that cannot read a file never rewrites it: a new format adds a new file. To add a model,
//! add a line to [`MODELS`] and run this test with `KMILL_RECORD=1`, which writes missing models.

use crate::run::{kmill, ok};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const RIDGE: &str = "ridge a.csv --target y --features x* --rank 6 --lambda 1e-4 --precision f64";
const CLASSES: &str = "a.csv --target c --features x* --rank 6 --precision f64";
const ALONE: &str = "a.csv --features x* --rank 6 --precision f64";

/// Model name (a solver's, `map …`, or a kind of rows), arguments of `kmill fit`, more arguments.
const MODELS: &[(&str, &str, &str)] = &[
    ("ridge", RIDGE, ""),
    ("ridge f32", "ridge a.csv --target y --features x* --rank 6 --lambda 1e-4", ""),
    ("ridge std", RIDGE, "--std"),
    ("ridge two targets", "ridge a.csv --target y,x3 --features x0,x1,x2 --rank 6 --lambda 1e-4 --precision f64", ""),
    ("ridge metric", RIDGE, "--metric learn"),
    ("ridge exact", "ridge a.csv --target y --features x* --map exact --lambda 1e-4 --precision f64", ""),
    ("ridge scale quantile", RIDGE, "--scale quantile"),
    ("map eigen", RIDGE, "--map eigen"),
    ("map randomised", RIDGE, "--map randomised"),
    ("map double", RIDGE, "--map double(ratio=2)"),
    ("map truncated", RIDGE, "--map truncated"),
    ("map ensemble", RIDGE, "--map ensemble(parts=2)"),
    ("map fourier", RIDGE, "--map fourier"),
    ("map orthogonal", RIDGE, "--map orthogonal"),
    ("map structured", RIDGE, "--map structured"),
    ("map quasi", RIDGE, "--map quasi"),
    ("map sketch", RIDGE, "--map sketch --kernel polynomial(degree=2,gamma=0.5,c0=1)"),
    ("map additive", RIDGE, "--map additive --kernel additive_chi_squared() --scale minmax"),
    ("kernel of columns", RIDGE, "--kernel laplacian(sigma=2,on=x0)*matern(nu=1.5,sigma=2,on=!x0)+linear()"),
    (
        "categories",
        "ridge a.csv --target y --rank 12 --lambda 1e-4 --precision f64 --features *,!c,!comment --missing indicator",
        "",
    ),
    (
        "hashed words",
        "ridge a.csv --target y --rank 6 --lambda 1e-3 --precision f64 --features comment --text comment:word(1,2,hash=16)",
        "",
    ),
    (
        "words beside numbers",
        "ridge a.csv --target y --rank 12 --lambda 1e-4 --precision f64 --features x0,comment --text comment",
        "",
    ),
    (
        "words",
        "svm a.csv --target c --features comment --text comment --kernel linear --map exact --C 1 --precision f64",
        "",
    ),
    ("sparse", "svm a.svm --target y --sparse --kernel gaussian(sigma=2) --rank 8 --C 1 --precision f64", ""),
    ("kpca", "kpca", "--components 2"),
    ("kpca-l1", "kpca-l1", "--components 2"),
    ("fisher", "fisher", ""),
    ("logistic", "logistic", "--lambda 1e-4"),
    ("glm", "glm a.csv --target y --features x* --rank 6 --lambda 1e-3 --precision f64 --family gamma --where y>0", ""),
    (
        "intervals",
        "ridge a.csv --target y --features x* --rank 6 --lambda 1e-3 --precision f64 --interval 0.5,0.8 --std",
        "",
    ),
    ("svm", "svm", "--C 1 --probabilities --folds 3"),
    ("svm pairs", "svm", "--C 1 --multiclass one-vs-one"),
    ("svr", "svr a.csv --target y --features x* --rank 6 --C 1 --precision f64", ""),
    ("quantile", "quantile a.csv --target y --features x* --rank 6 --lambda 1e-3 --precision f64", ""),
    (
        "quantile several",
        "quantile a.csv --target y --features x* --rank 6 --lambda 1e-3 --precision f64 --quantiles 0.2,0.5,0.8",
        "",
    ),
    ("oneclass", "oneclass", "--nu 0.2"),
    ("mean", "mean", ""),
    ("kmeans", "kmeans", "--clusters 3"),
    ("spectral", "spectral", "--clusters 3"),
    ("laplacian", "laplacian", "--components 2"),
    ("mds", "mds", "--components 2"),
    ("isomap", "isomap", "--components 2"),
    ("lle", "lle", "--components 2"),
    ("mvu", "mvu", "--components 2 --neighbours 5"),
    ("perceptron", "perceptron", ""),
    ("online", "online a.csv --target y --features x* --rank 6 --precision f64", ""),
    ("ranking", "ranking a.csv --target y --features x* --group c --lambda 1e-3 --rank 6 --precision f64", ""),
    ("pls", "pls a.csv --target y --features x* --rank 6 --components 3 --precision f64", ""),
    ("spca", "spca a.csv --target y --features x* --rank 6 --components 2 --precision f64", ""),
    ("kdr", "kdr a.csv --target y --features x* --rank 6 --components 2 --precision f64", ""),
    ("cca", "cca a.csv --features x0,x1 --with x2,x3 --rank 6 --components 2 --precision f64", ""),
    ("covariance", "covariance a.csv --features x0,x1 --with x2,x3 --rank 6 --components 2 --precision f64", ""),
    ("features", "features", ""),
];

/// Returns the command line that fits a model.
fn line((_, base, more): &(&str, &str, &str)) -> String {
    let classes = ["fisher", "logistic", "svm", "perceptron"].contains(base);
    match (base.contains(' '), classes) {
        (true, _) => format!("fit {base} {more}"),
        (false, true) => format!("fit {base} {CLASSES} {more}"),
        (false, false) => format!("fit {base} {ALONE} {more}"),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models")
}

/// Writes `a.csv`, 80 training rows, `b.csv`, 12 other rows, and similar sparse rows.
fn tables(at: &Path) {
    let mut state = 2026u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for (name, rows) in [("a", 80), ("b", 12)] {
        let mut csv = "x0,x1,x2,x3,city,day,comment,y,c\n".to_string();
        let mut svm = String::new();
        for row in 0..rows {
            let x: Vec<f64> = (0..4).map(|_| next(1000) as f64 / 250.0 - 2.0).collect();
            let y = x[0].sin() + 0.5 * x[1] * x[2] + 0.1 * x[3];
            let class = ["low", "middle", "high"][usize::from(y > -0.5) + usize::from(y > 0.5)];
            let city = ["Ulm", "Bonn", "Kiel", ""][next(4) as usize];
            let word = |i: u64| ["bright", "old", "quiet", "near", "park"][(i + u64::from(y > 0.0)) as usize % 5];
            let comment = format!("{} {}", word(next(3)), word(next(3)));
            let (month, day) = (1 + row % 12, 1 + next(28));
            let numbers: Vec<String> = x.iter().map(ToString::to_string).collect();
            writeln!(csv, "{},{city},2025-{month:02}-{day:02},{comment},{y},{class}", numbers.join(",")).unwrap();
            let places: Vec<String> = (0..6).map(|i| format!("{}:{}", 1 + 4 * i + next(4), 1 + next(3))).collect();
            writeln!(svm, "{} {}", 1 + row % 2, places.join(" ")).unwrap();
        }
        std::fs::write(at.join(format!("{name}.csv")), csv).unwrap();
        std::fs::write(at.join(format!("{name}.svm")), svm).unwrap();
    }
}

fn file(name: &str) -> String {
    format!("{}.safetensors", name.replace(' ', "-"))
}

/// Returns the cells of a model's predictions.
fn predicted(at: &Path, model: &Path, name: &str) -> Vec<Vec<String>> {
    let data = if name == "sparse" { "b.svm --width 24" } else { "b.csv" };
    ok(at, &format!("predict {} {data} -o p.csv -q", model.display()));
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
}

#[test]
fn models_of_earlier_builds_predict_what_they_did() {
    let (work, kept) = (tempfile::tempdir().unwrap(), folder());
    let at = work.path();
    tables(at);
    let path = kept.join("predictions.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_string());
    let mut golden: BTreeMap<String, Vec<Vec<String>>> = serde_json::from_str(&text).unwrap();
    if std::env::var_os("KMILL_RECORD").is_some() {
        std::fs::create_dir_all(&kept).unwrap();
        for model in MODELS.iter().filter(|(name, ..)| !golden.contains_key(*name)) {
            ok(at, &format!("{} -o m.safetensors -q", line(model)));
            std::fs::copy(at.join("m.safetensors"), kept.join(file(model.0))).unwrap();
        }
    }
    for (name, ..) in MODELS {
        let found = predicted(at, &kept.join(file(name)), name);
        if std::env::var_os("KMILL_RECORD").is_some() && !golden.contains_key(*name) {
            golden.insert((*name).to_string(), found);
            continue;
        }
        let expected = golden.get(*name).unwrap_or_else(|| panic!("{name}: run once with KMILL_RECORD=1"));
        assert_eq!((found.len(), &found[0]), (expected.len(), &expected[0]), "{name}");
        let number = |cell: &String| cell.parse::<f64>();
        let numbers = expected[1..].iter().flatten().filter_map(|cell| number(cell).ok());
        let largest = numbers.fold(0.0f64, |most, value| most.max(value.abs()));
        // instruction sets round differently
        let close = if name.contains("f32") { 1e-5 } else { 1e-11 };
        for (found, expected) in found[1..].iter().flatten().zip(expected[1..].iter().flatten()) {
            match (number(found), number(expected)) {
                (Ok(found), Ok(expected)) => {
                    assert!((found - expected).abs() <= close * largest, "{name}: {found} for {expected}");
                }
                _ => assert_eq!(found, expected, "{name}"),
            }
        }
    }
    if std::env::var_os("KMILL_RECORD").is_some() {
        std::fs::write(path, serde_json::to_string(&golden).unwrap()).unwrap();
    }
}

#[test]
fn every_solver_and_map_has_a_golden_model() {
    let has = |wanted: &str| MODELS.iter().any(|(name, ..)| *name == wanted);
    for family in kfit::solver::registry() {
        assert!(has(family.name), "solver {} has no golden model", family.name);
    }
    for family in kapprox::map::registry() {
        let (map, plain) = (format!("map {}", family.name), ["nystrom", "exact"].contains(&family.name));
        assert!(plain || has(&map), "{map} has no golden model");
    }
}

#[test]
fn models_of_a_newer_format_are_refused_with_a_sentence() {
    let work = tempfile::tempdir().unwrap();
    let at = work.path();
    tables(at);
    let bytes = std::fs::read(folder().join(file("ridge"))).unwrap();
    let text = br#"\"format_version\":"#;
    let place = bytes.windows(text.len()).position(|window| window == text).unwrap() + text.len();
    let mut newer = bytes.clone();
    // replaces one digit by another, so that all offsets stay valid
    assert!(newer[place].is_ascii_digit() && !newer[place + 1].is_ascii_digit());
    newer[place] = b'9';
    std::fs::write(at.join("newer.safetensors"), newer).unwrap();
    let (code, _, stderr) = kmill(at, "predict newer.safetensors b.csv -o p.csv -q");
    assert!(code == 1 && stderr.contains("newer") && !stderr.contains("panicked"), "{stderr}");
}
