//! Sparse rows from file to model and back: the same results as for dense rows, under any budget.

use crate::run::{kmill, ok};
use std::fmt::Write;
use std::path::Path;

pub(crate) const ROWS: usize = 400;
pub(crate) const WIDTH: u64 = 60;

/// Returns rows with a few of 60 words; the first 20 indicate class 1, the last 20 class 3.
pub(crate) fn text(rows: usize, seed: u64, longest: u64) -> String {
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for row in 0..rows {
        let class = next(3);
        let count = if row == 7 { longest } else { 1 + next(6) };
        let mut words: Vec<u64> =
            (0..count).map(|_| if next(4) > 0 { 20 * class + next(20) } else { next(WIDTH) }).collect();
        words.sort_unstable();
        words.dedup();
        write!(text, "{}", class + 1).unwrap();
        words.iter().for_each(|word| write!(text, " {}:{}", word + 1, 0.25 * (1 + next(8)) as f64).unwrap());
        text.push('\n');
    }
    text
}

pub(crate) fn tables(at: &Path) {
    std::fs::write(at.join("a.svm"), text(ROWS, 1, 12)).unwrap();
    // one row is longer than any training row
    std::fs::write(at.join("b.svm"), text(150, 2, 40)).unwrap();
}

/// Returns the predictions of a model for `b.svm`.
fn predictions(at: &Path, model: &str, more: &str) -> Vec<f64> {
    ok(at, &format!("predict {model} b.svm --width {WIDTH} -o p.csv -q {more}"));
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    text.lines()
        .skip(1)
        .flat_map(|line| line.split(',').map(|value| value.parse().unwrap()).collect::<Vec<f64>>())
        .collect()
}

#[test]
fn sparse_and_dense_rows_give_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    for fit in [
        "ridge --kernel gaussian(sigma=2) --rank 50 --lambda 1e-6",
        "ridge --kernel gaussian(sigma=median) --rank 60 --lambda 1e-4 --landmarks uniform",
        "ridge --kernel gaussian(sigma=2) --rank 30 --lambda 1e-4 --landmarks leverage",
        "ridge --kernel gaussian(sigma=2) --rank 30 --lambda 1e-4 --landmarks greedy",
        "ridge --kernel gaussian(sigma=2) --rank 30 --lambda 1e-4 --landmarks bless",
        "ridge --kernel gaussian(sigma=2) --rank 30 --lambda 1e-4 --landmarks farahat",
        "ridge --kernel matern(nu=1.5,sigma=3)+0.5*linear() --rank 80 --lambda 1e-5",
        "ridge --kernel polynomial(degree=2,gamma=1/d,c0=1) --map exact --lambda 1e-3",
        "ridge --kernel laplacian(sigma=8) --rank 50 --lambda 1e-5",
        "ridge --kernel chi_squared(sigma=8) --rank 50 --lambda 1e-5",
        "ridge --kernel intersection() --rank 50 --lambda 1e-4",
        "ridge --kernel normalised(exp(linear())) --rank 40 --lambda 1e-4",
        "ridge --kernel gaussian(sigma=2) --map fourier --rank 60 --lambda 1e-4",
        "ridge --kernel polynomial(degree=2,gamma=1/d,c0=1) --map sketch --rank 64 --lambda 1e-4",
        "logistic --kernel laplacian(sigma=8)+gaussian(sigma=2) --map fourier --rank 40 --lambda 1e-4 --scores",
        "svm --kernel gaussian(sigma=2) --rank 50 --C 10 --scores",
        "svm --kernel cosine() --map exact --C 10 --scores",
        "logistic --kernel cosine() --rank 40 --lambda 1e-4 --scores",
        "kpca --kernel gaussian(sigma=2) --rank 50 --components 3 --features x*",
        "oneclass --kernel gaussian(sigma=2) --rank 50 --nu 0.1 --features x*",
    ] {
        let (fit, scores) = fit.split_once(" --scores").map_or((fit, ""), |(fit, _)| (fit, "--scores"));
        let target = if fit.contains("--features") { "" } else { "--target y" };
        let base = format!("fit {fit} a.svm {target} --width {WIDTH} --scale none --no-clip --precision f64 -q");
        ok(at, &format!("{base} -o dense.safetensors"));
        ok(at, &format!("{base} --sparse -o sparse.safetensors"));
        let (dense, sparse) =
            (predictions(at, "dense.safetensors", scores), predictions(at, "sparse.safetensors", scores));
        let largest = dense.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let furthest = dense.iter().zip(&sparse).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(dense.len() == sparse.len() && largest > 0.0);
        // pairs are optimised to a duality gap of 1e-3, along paths that rounding separates
        let close = if fit.starts_with("svm") && fit.contains("exact") { 1e-2 } else { 1e-12 };
        assert!(furthest <= close * largest, "{fit}: {furthest:e} of {largest}");
    }
}

#[test]
fn bits_do_not_depend_on_the_budget_and_landmarks_stay_sparse_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let fit = "fit svm a.svm --target y --sparse --kernel gaussian(sigma=2) --rank 60 --C 10 -q";
    ok(at, &format!("{fit} -o a.safetensors --memory 64MiB --threads 1"));
    ok(at, &format!("{fit} -o b.safetensors --memory 2GiB --threads 3"));
    let bytes = std::fs::read(at.join("a.safetensors")).unwrap();
    assert_eq!(bytes, std::fs::read(at.join("b.safetensors")).unwrap());
    let header =
        String::from_utf8_lossy(&bytes[8..8 + usize::from(bytes[0]) + 256 * usize::from(bytes[1])]).into_owned();
    for tensor in ["landmarks.indptr", "landmarks.indices", "landmarks.values"] {
        assert!(header.contains(&format!("\"{tensor}\"")), "{header}");
    }
    assert!(!header.contains("\"landmarks\":{"), "{header}");
    let scores = ok(at, "evaluate a.safetensors b.svm --json");
    assert!(scores["error"].as_f64().unwrap() < 0.25, "{scores}");
    // two files are one table, with room for the longer rows
    ok(at, "fit svm a.svm b.svm --target y --sparse --kernel gaussian(sigma=2) --rank 60 --C 10 -q -o c.safetensors");
    let report = ok(at, "fit ridge a.svm --target y --sparse --rank 20 --lambda 1e-3 -o d.safetensors --json");
    assert_eq!((report["features"].as_u64(), report["rows"].as_u64()), (Some(WIDTH), Some(ROWS as u64)));
    ok(at, "plan ridge a.svm --target y --sparse --rank 20 --json");
}

#[test]
fn more_columns_than_dense_rows_may_have_stay_sparse_of_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    // a constant column changes no distance
    let wide: String = text(ROWS, 1, 12).lines().map(|line| format!("{line} 900000:1\n")).collect();
    std::fs::write(at.join("wide.svm"), wide).unwrap();
    let [narrow, wide] = ["a.svm --sparse", "wide.svm"].map(|data| {
        let fit = "--kernel gaussian(sigma=2) --rank 50 --lambda 1e-6 --memory 64MiB --precision f64 -o m.safetensors";
        ok(at, &format!("fit ridge {data} --target y {fit} -q"));
        ok(at, &format!("evaluate m.safetensors {data} --json"))["mse"].as_f64().unwrap()
    });
    assert!(narrow > 0.0 && (narrow - wide).abs() <= 1e-12 * narrow, "{narrow} {wide}");
}

#[test]
fn thin_rows_stay_sparse_of_themselves_where_the_fit_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let thin = |rows, seed, longest| text(rows, seed, longest).lines().map(|line| format!("{line} 2000:1\n")).collect();
    let (a, b): (String, String) = (thin(ROWS, 1, 12), thin(100, 2, 12));
    std::fs::write(at.join("thin.svm"), &a).unwrap();
    std::fs::write(at.join("two.svm"), &b).unwrap();
    let fit = |data: &str, options: &str, name: &str| {
        ok(at, &format!("fit ridge {data} --target y --rank 30 --lambda 1e-4 -q -o {name}.safetensors {options}"));
        std::fs::read(at.join(format!("{name}.safetensors"))).unwrap()
    };
    assert_eq!(fit("thin.svm", "", "own"), fit("thin.svm", "--sparse", "asked"));
    // rows of 60 columns are dense, and so are all rows for options that need columns or fill zeros
    let model = |name: &str| std::fs::read(at.join(format!("{name}.safetensors"))).unwrap();
    let sparse = |name: &str| String::from_utf8_lossy(&model(name)).contains("landmarks.indptr");
    for (data, options, stays) in [
        ("thin.svm", "", true),
        ("thin.svm two.svm", "", true),
        ("thin.svm --width 2100", "--scale none", true),
        ("a.svm", "", false),
        ("a.svm", "--scale tf-idf", true),
        ("thin.svm", "--scale standard", false),
        ("thin.svm", "--missing mean", false),
        ("thin.svm", "--landmarks kmeans", false),
        ("thin.svm", "--kernel distance()", false),
        ("thin.svm", "--lags y:1 --missing drop", false),
    ] {
        fit(data, options, "model");
        assert_eq!(sparse("model"), stays, "{data} {options}");
    }
    ok(at, "evaluate own.safetensors two.svm --json");
    // a file with a longer row next to a thin one
    let long = (1..=300).fold("1".to_string(), |line, place| format!("{line} {place}:1"));
    std::fs::write(at.join("wide.svm"), format!("{b}{long} 2000:1\n")).unwrap();
    assert_eq!(fit("thin.svm wide.svm", "", "both"), fit("thin.svm wide.svm", "--sparse", "asked"));
}

#[test]
fn shards_of_sparse_rows_make_the_model_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let ridge = "ridge a.svm --target y --sparse --kernel gaussian(sigma=2) --rank 40";
    ok(at, &format!("fit {ridge} -q -o whole.safetensors"));
    ok(at, &format!("prepare {ridge} -q -o job"));
    for part in 1..=3 {
        ok(at, &format!("stats job a.svm --part {part}/3 -q -o part{part}"));
    }
    ok(at, "merge part2 part1 part3 -q -o all");
    ok(at, "solve job all -q -o merged.safetensors");
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert_eq!(read("whole.safetensors"), read("merged.safetensors"));
}

#[test]
fn what_needs_the_columns_of_rows_refuses_sparse_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    for (options, part) in [
        ("--kernel distance()", "distance() does not support sparse rows; use one of"),
        ("--map orthogonal", "--map orthogonal"),
        ("--map structured", "it does not support sparse rows; use nystrom, fourier, or exact"),
        ("--landmarks kmeans", "use rpcholesky"),
        ("--metric learn", "sparse rows do not support it; use linear"),
        ("--metric b.svm", "--metric b.svm: sparse rows do not support it; use linear"),
        ("--importance", "--importance: it computes with columns, and the rows are sparse"),
        ("--local 50", "--local: it computes with columns, and the rows are sparse"),
        ("--scale minmax", "would fill the zeros of sparse rows"),
        ("--scale standard", "would fill the zeros of sparse rows"),
        ("--scale asinh", "would fill the zeros of sparse rows"),
    ] {
        let line = format!("fit ridge a.svm --target y --sparse --rank 20 --lambda 1e-3 -o m.safetensors -q {options}");
        let (code, _, stderr) = kmill(at, &line);
        assert!(code == 1 && stderr.contains(part), "{line}: {code} {stderr}");
    }
    for line in [
        "fit isomap a.svm --features x --sparse -o m.safetensors",
        "fit cca a.svm --features x --with y --sparse -o m.safetensors",
        "fit covariance a.svm --features x --with y --sparse -o m.safetensors",
        "tune ridge a.svm --target y --sparse --metric learn --time 5s",
        "curve a.svm --target y --sparse --ranks 10 --methods kmeans -o c.csv",
        "fit ridge a.svm --sparse --target y --landmarks b.svm -o m.safetensors",
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code > 0 && !stderr.contains("panicked"), "{line}: {code} {stderr}");
    }
    std::fs::write(at.join("nan.svm"), "1 1:1 2:nan\n".repeat(3)).unwrap();
    ok(at, "fit ridge a.svm --sparse --target y --rank 20 -o ridge.safetensors -q");
    for (line, part) in [
        ("fit lle a.svm --features x --sparse -o m.safetensors", "read an svmlight file without --sparse"),
        ("plot ridge.safetensors b.svm -o p.svg", "the model has sparse rows"),
        ("fit ridge nan.svm --sparse --target y -o m.safetensors", "--missing drop, the only choice for sparse rows"),
        // before the weights of the entries are learned, which needs a pass
        (
            "fit ridge nan.svm --sparse --target y --scale tf-idf --metric learn -o m.safetensors",
            "use linear, which learns a factor",
        ),
        // before the lags are computed, which would find that y does not increase
        ("fit ridge a.svm --sparse --target y --lags y:1 --order y -o m.safetensors", "combined with past values"),
        ("tune any a.svm --sparse --target y --rolling y:3 --order y -o m.safetensors", "combined with past values"),
        (
            "curve a.svm --sparse --methods eigen --landmarks kmeans --ranks 10 -o c.csv",
            "--landmarks kmeans: its points",
        ),
        ("test mmd a.svm b.svm --sparse --landmarks kmeans", "--landmarks kmeans: its points are not sparse rows"),
        ("test mmd a.svm b.svm --sparse --map orthogonal", "--map orthogonal: it does not support sparse rows"),
        ("test hsic a.svm --with y --sparse --landmarks kmeans", "--landmarks kmeans: its points"),
        ("test hsic a.svm --with y --sparse --map fourier", "need a map on landmarks; choose nystrom"),
        ("test hsic a.svm --with y --sparse --map additive", "need a map on landmarks; choose nystrom"),
        ("test hsic a.svm --with y --sparse --scale standard", "would fill the zeros of sparse rows"),
        ("test hsic a.svm --with y --sparse --kernel distance()", "distance() does not support sparse rows"),
        ("test hsic a.svm --with topic --sparse", "\"topic\""),
        ("test hsic nan.svm --with y --sparse", "--missing drop, the only choice for sparse rows"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code == 1 && stderr.contains(part), "{line}: {code} {stderr}");
    }
    // `features` saves the same map as `fit features`
    ok(at, "features a.svm --sparse --rank 10 --model map.safetensors -o f.npy -q");
    ok(at, "fit features a.svm --sparse --rank 10 -o own.safetensors -q");
    assert!(std::fs::read(at.join("map.safetensors")).unwrap() == std::fs::read(at.join("own.safetensors")).unwrap());
    ok(at, "fit oneclass a.svm --features x --sparse --kernel gaussian(sigma=2) --rank 30 -o one.safetensors -q");
    let (code, _, stderr) = kmill(at, "predict one.safetensors b.svm --top 5 -o top.csv");
    assert!(code == 1 && stderr.contains("anomalies in sparse rows are not explained"), "{stderr}");
}

#[test]
fn a_search_on_sparse_rows_has_the_errors_of_a_search_on_dense_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let search = "tune logistic a.svm --target y --scale none --precision f64 --metric none \
        --kernels gaussian(),laplacian() --factors 0.5,1,2 --rank 40 -o s.json -q --json";
    let (dense, sparse) = (ok(at, search), ok(at, &format!("{search} --sparse")));
    let errors = |report: &serde_json::Value| -> Vec<(String, f64)> {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().filter_map(|row| Some((row["kernel"].to_string(), row["cv_mse"].as_f64()?))).collect()
    };
    let (dense_errors, sparse_errors) = (errors(&dense), errors(&sparse));
    assert!(dense_errors.len() >= 9 && dense_errors.len() == sparse_errors.len(), "{dense}");
    for ((kernel, one), (_, other)) in dense_errors.iter().zip(&sparse_errors) {
        assert!((one - other).abs() <= 1e-9 * one, "{kernel}: {one} and {other}");
    }
    // by default, rows with few nonzeros stay sparse, in the search and in the model
    std::fs::write(at.join("thin.svm"), text(ROWS, 1, 12).replace('\n', " 2000:1\n")).unwrap();
    let (code, _, notes) = kmill(at, "tune any thin.svm --target y --time 0.001s -o thin.safetensors");
    assert_eq!(code, 0, "{notes}");
    assert!(notes.contains("the rows are sparse, so no metric is learned"), "{notes}");
    assert!(notes.contains("the search ended early: not every kernel was tried"), "{notes}");
    let model = std::fs::read(at.join("thin.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&model).contains("landmarks.indptr"));
    ok(at, "evaluate thin.safetensors thin.svm -q");
}

#[test]
fn curves_tests_herding_and_updates_on_sparse_rows_are_the_same_as_on_dense_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let close = |dense: &serde_json::Value, sparse: &serde_json::Value, what: &str| {
        let (dense, sparse) = (dense.as_f64().unwrap(), sparse.as_f64().unwrap());
        assert!(dense.abs() > 0.0 && (dense - sparse).abs() <= 1e-9 * dense.abs(), "{what}: {dense} and {sparse}");
    };
    let options = format!("--width {WIDTH} --scale none --kernel gaussian(sigma=2) --precision f64 --json -q");
    let curve = format!(
        "curve a.svm --target y --where y!=3 --test-where y==3 --methods uniform,rpcholesky,fourier --ranks 20,40 --repeats 1 {options}"
    );
    let (dense, sparse) = (ok(at, &format!("{curve} -o d.csv")), ok(at, &format!("{curve} --sparse -o s.csv")));
    let (dense, sparse) = (dense["rows"].as_array().unwrap(), sparse["rows"].as_array().unwrap());
    assert!(dense.len() == 6 && sparse.len() == 6);
    for (dense, sparse) in dense.iter().zip(sparse) {
        close(&dense["frobenius_error"], &sparse["frobenius_error"], "frobenius");
        close(&dense["test_error"], &sparse["test_error"], "test error");
    }
    // the longest row of b.svm is longer than all rows of a.svm
    let test = format!("test mmd a.svm b.svm --rank 40 --permutations 50 {options}");
    let (dense, sparse) = (ok(at, &test), ok(at, &format!("{test} --sparse")));
    close(&dense["biased"], &sparse["biased"], "mmd");
    assert_eq!(dense["p_values"]["permutation"], sparse["p_values"]["permutation"]);
    let herd = format!("herd a.svm --features x* --count 5 --rank 40 {options}");
    let (dense, sparse) = (ok(at, &format!("{herd} -o d.npy")), ok(at, &format!("{herd} --sparse -o s.parquet")));
    assert!(dense["rows"].as_array().is_some_and(|rows| rows.len() == 5) && dense["rows"] == sparse["rows"]);
    // the rows are written as they are stored, also if the scaling weights their entries
    let weighted = "herd s.parquet --features x --count 5 --rank 5 --scale tf-idf -o w.parquet --json -q";
    let order = ok(at, weighted)["rows"].as_array().unwrap().clone();
    let lines = |name: &str| -> Vec<String> {
        ok(at, &format!("convert {name}.parquet --drop row -o {name}.svm -q"));
        std::fs::read_to_string(at.join(format!("{name}.svm"))).unwrap().lines().map(str::to_string).collect()
    };
    let (stored, written) = (lines("s"), lines("w"));
    let expected = order.iter().map(|row| stored[usize::try_from(row.as_u64().unwrap()).unwrap()].clone());
    assert_eq!(written, expected.collect::<Vec<_>>());
    let update = |name: &str, sparse: &str| {
        let fit = format!("fit ridge a.svm --target y --rank 40 --lambda 1e-3 --std -o {name}.safetensors {options}");
        ok(at, &format!("{fit} {sparse}"));
        ok(at, &format!("update {name}.safetensors b.svm -o {name}2.safetensors --json -q"))
    };
    close(&update("d", "")["running_mse"], &update("s", "--sparse")["running_mse"], "update");
    let (code, _, stderr) = kmill(at, &format!("{test} --sparse").replace("none", "standard"));
    assert!(code == 1 && stderr.contains("would fill the zeros of sparse rows"), "{stderr}");
}

#[test]
fn independence_of_sparse_rows_and_columns_is_the_same_as_for_dense_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let convert = "convert a.svm --width 60 --lags y:1 --rows 1.. -q";
    ok(at, &format!("{convert} -o dense.parquet"));
    ok(at, &format!("{convert} --sparse -o sparse.parquet"));
    let options = "--rank 30 --precision f64 --json -q";
    for (test, figures) in [
        ("--with y --features x* --scale none", "biased unbiased alignment"),
        ("--with y --features x* --scale none --categories y --kernel laplacian(sigma=8)", "biased alignment"),
        ("--with y --features x* --scale none --kernel chi_squared(sigma=8) --with-kernel linear()", "biased"),
        ("--with y --features x* --scale none --kernel polynomial(degree=2,gamma=1/d,c0=1)", "biased unbiased"),
        ("--with x* --features y,y_lag1 --scale none --kernel gaussian(sigma=2)", "biased unbiased alignment"),
        ("--with y --features x* --given y_lag1 --scale none", "biased correlation"),
        ("--with y --features y_lag1 --given x* --given-rank 40 --scale none", "biased correlation"),
    ] {
        let [dense, sparse] =
            ["dense", "sparse"].map(|name| ok(at, &format!("test hsic {name}.parquet {test} {options}")));
        for figure in figures.split(' ') {
            let [one, other] = [&dense, &sparse].map(|report| report[figure].as_f64().unwrap());
            assert!(one.abs() > 1e-9 && (one - other).abs() <= 1e-8 * one.abs(), "{test}: {figure} {one} {other}");
        }
        for name in ["permutation", "spectrum", "gamma"] {
            let [one, other] = [&dense, &sparse].map(|report| report["p_values"][name].as_f64());
            assert!(one == other || (one.unwrap() - other.unwrap()).abs() <= 1e-8, "{test}: {name} {one:?} {other:?}");
        }
        assert_eq!(sparse["sparse_columns"], 60, "{sparse}");
        let kernels = sparse["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|kernel| kernel.as_str().unwrap().contains("on=x")), "{sparse}");
    }
    // the words depend on the class, and the class before does not depend on the words
    let p_value = |report: &serde_json::Value| report["p_values"]["permutation"].as_f64().unwrap();
    let hsic = "test hsic sparse.parquet --features x --kernel linear() --rank 40 --json -q";
    let dependent = ok(at, &format!("{hsic} --with y --scale tf-idf --threads 1 --memory 64MiB"));
    assert!(p_value(&dependent) < 0.002, "{dependent}");
    assert_eq!(dependent["columns"], serde_json::json!([["x"], ["y"]]));
    assert!(p_value(&ok(at, &format!("{hsic} --with y_lag1 --scale tf-idf"))) > 0.02);
    let again = ok(at, &format!("{hsic} --with y --scale tf-idf --threads 3"));
    assert_eq!((&again["biased"], &again["p_values"]), (&dependent["biased"], &dependent["p_values"]));
    ok(at, "test hsic sparse.parquet --with y --features x --rank 10 --permutations 9 --report p.html --json -q");
    let page = std::fs::read_to_string(at.join("p.html")).unwrap();
    assert!(page.contains("399 rows, 60 and 1 columns"), "{page}");
    // wide rows stay sparse, unless the test needs their columns
    std::fs::write(at.join("thin.svm"), text_of_width_2000()).unwrap();
    let thin = |test: &str| ok(at, &format!("test hsic thin.svm {test} --rank 20 --permutations 9 --json -q"));
    assert_eq!(thin("--with y")["sparse_columns"], 2000);
    for test in ["--with y --features x3,x4", "--with y --map fourier", "--with y --scale standard --rows ..50"] {
        assert!(thin(test)["sparse_columns"].is_null(), "{test}");
    }
}

fn text_of_width_2000() -> String {
    text(ROWS, 1, 12).replace('\n', " 2000:1\n")
}

/// Decision values of scikit-learn 1.9.1, `SVC(C=0.5, gamma=0.1, tol=1e-12)`, on rows of ones.
#[test]
fn exact_decision_values_are_those_of_libsvm() {
    const GOLDEN: [f64; 8] = [
        -0.377066029775,
        -0.39884455352,
        -1.000000020167,
        -0.802096886476,
        -0.999999977492,
        -0.999999996263,
        -0.84603368879,
        -1.064433706818,
    ];
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |i: u64| {
        let places: std::collections::BTreeSet<u64> = (0..5).map(|k| (7 * i + 3 * k * k + i * k) % 30).collect();
        let entries: String = places.iter().map(|place| format!(" {}:1", place + 1)).collect();
        format!("{}{entries}\n", if (i * i + i / 3) % 7 < 3 { 1 } else { -1 })
    };
    std::fs::write(at.join("a.svm"), (0..60).map(line).collect::<String>()).unwrap();
    let fit = "--kernel gaussian(gamma=0.1) --map exact --C 0.5 --gap 1e-12 --precision f64";
    ok(at, &format!("fit svm a.svm --target y --sparse {fit} -o m.safetensors -q"));
    ok(at, "predict m.safetensors a.svm --scores -o p.csv -q");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let scores = text.lines().skip(1).step_by(8).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap());
    scores.zip(GOLDEN).for_each(|(score, golden)| assert!((score - golden).abs() < 1e-6, "{score} {golden}"));
}

/// Stored zeros change no prediction: a column absent from the fit has the weight of a zero column.
#[test]
fn a_stored_zero_changes_no_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = |last: &str| -> String {
        let entry = |i: usize| format!("{}:1 {}:1 {}:1", 1 + i % 7, 8 + i * 5 % 6, 14 + i * 3 % 7);
        (0..300).map(|i| format!("{} {}{}\n", i % 5, entry(i), if i == 0 { last } else { "" })).collect()
    };
    std::fs::write(at.join("a.svm"), rows("")).unwrap();
    std::fs::write(at.join("b.svm"), rows(" 30:0")).unwrap();
    std::fs::write(at.join("new.svm"), "0 3:1 9:1\n0 3:1 9:1 25:1\n0 3:1 9:1 60:2\n").unwrap();
    for scale in ["tf-idf", "maxabs", "unit", "none"] {
        let predicted = ["a", "b"].map(|name| {
            let fit = "--sparse --target y --kernel linear --map exact --lambda 1e-3 --precision f64";
            ok(at, &format!("fit ridge {name}.svm {fit} --scale {scale} -q -o {name}.safetensors"));
            ok(at, &format!("predict {name}.safetensors new.svm -q -o {name}.csv"));
            let text = std::fs::read_to_string(at.join(format!("{name}.csv"))).unwrap();
            text.lines().skip(1).map(|line| line.parse().unwrap()).collect::<Vec<f64>>()
        });
        for (a, b) in predicted[0].iter().zip(&predicted[1]) {
            assert!((a - b).abs() < 1e-9, "{scale}: {predicted:?}");
        }
    }
}

/// Factors of hash buckets are not in the model's header, which is read at once and is limited.
#[test]
fn the_header_of_a_model_of_hashed_words_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = ["good", "bad", "room", "view", "sea", "loud", "cheap", "near"];
    let row = |i: usize| format!("{} {} w{i},{}\n", words[i % 8], words[i * 3 % 7], i % 7);
    std::fs::write(at.join("t.csv"), "comment,y\n".to_string() + &(0..200).map(row).collect::<String>()).unwrap();
    let fit = "--target y --features comment --text comment:word(1,1,hash=200000) --kernel linear --map exact";
    ok(at, &format!("fit ridge t.csv {fit} --lambda 1e-3 -q -o m"));
    let bytes = std::fs::read(at.join("m")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(header < 20_000, "{header}");
    ok(at, "predict m t.csv -q -o p.csv");
    let scores = ok(at, "evaluate m t.csv --json");
    assert!(scores["r2"].as_f64().unwrap() > 0.5, "{scores}");
}
