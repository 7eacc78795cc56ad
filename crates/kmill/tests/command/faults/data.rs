//! Invalid files, columns and values.

use super::make::*;

#[test]
fn files_that_are_no_tables() {
    let folder = folder();
    let at = folder.path();
    let whole = std::fs::read(at.join("t.parquet")).unwrap();
    std::fs::write(at.join("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(at.join("tiny.parquet"), &whole[..3]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 8..whole.len() / 2].fill(0xff);
    std::fs::write(at.join("damaged.parquet"), damaged).unwrap();
    std::fs::write(at.join("words.parquet"), "x,y\n1,2\n".repeat(100)).unwrap();
    std::fs::create_dir(at.join("nothing")).unwrap();
    std::fs::create_dir(at.join("mixed")).unwrap();
    std::fs::copy(at.join("t.parquet"), at.join("mixed/a.parquet")).unwrap();
    std::fs::copy(at.join("narrow.parquet"), at.join("mixed/b.parquet")).unwrap();
    std::fs::write(at.join("mixed/notes.txt"), "hello").unwrap();
    std::fs::write(at.join("order.awk"), "{}").unwrap();
    for (data, part) in [
        ("ordre.parquet", "no such file: ordre.parquet; did you mean order.parquet?"),
        ("nowhere/t.parquet", "there is no folder nowhere"),
        ("no*.parquet", "the pattern matches no file"),
        ("cut.parquet", "cut.parquet cannot be read as Parquet: it is truncated"),
        ("tiny.parquet", "tiny.parquet cannot be read as Parquet"),
        ("damaged.parquet", "damaged.parquet"),
        ("words.parquet", "it is not a Parquet file"),
        ("empty.parquet", "it has no rows"),
        ("nothing", "the folder holds no"),
        ("mixed", "is missing; clean the data"),
        ("twice.parquet", "called \"a\""),
        ("/dev/null", "is not a regular file"),
    ] {
        fails(at, &fit(data, ""), 1, part);
    }
}

#[test]
fn npy_files_that_are_no_tables() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run(at, "convert t.parquet --target y -o t.npy -q").code, 0);
    assert_eq!(run(at, "convert t.parquet --rows ..9 --features y -o short.npy -q").code, 0);
    let whole = std::fs::read(at.join("t.npy")).unwrap();
    let header = |change: &dyn Fn(String) -> String| {
        let text = change(String::from_utf8(whole[10..128].to_vec()).unwrap());
        [&whole[..10], &text.as_bytes()[..118], &whole[128..]].concat()
    };
    std::fs::write(at.join("cut.npy"), &whole[..1000]).unwrap();
    std::fs::write(at.join("tiny.npy"), &whole[..20]).unwrap();
    std::fs::write(at.join("words.npy"), "hello".repeat(99)).unwrap();
    std::fs::write(at.join("complex.npy"), header(&|text| text.replace("<f8", "<c8"))).unwrap();
    std::fs::write(at.join("big.npy"), header(&|text| text.replace("<f8", ">f8"))).unwrap();
    let mut long = whole[..8].to_vec();
    long[6] = 2;
    long.extend(u32::MAX.to_le_bytes());
    std::fs::write(at.join("header.npy"), long).unwrap();
    for (data, part) in [
        ("cut.npy", "needs 4928 bytes, the file has 1000"),
        ("tiny.npy", "it ends inside its header"),
        ("words.npy", "it does not start with"),
        ("complex.npy", "values of type \"<c8\" are not supported"),
        ("big.npy", "big-endian"),
        ("header.npy", "its header claims"),
    ] {
        fails(at, &fit(data, "--target t.y.npy"), 1, part);
    }
    fails(at, &fit("t.npy", "--target short.npy"), 1, "short.npy has 9 rows, t.npy has 300");
    fails(at, &fit("t.npy", "--target t.npy"), 1, "a target file has one column");
    fails(at, &fit("t.npy", "--target no.npy"), 1, "no such file: no.npy");
    fails(at, &fit("t.npy", ""), 1, "has no column \"y\"");
}

#[test]
fn columns_and_values_that_cannot_be() {
    let folder = folder();
    let at = folder.path();
    for (data, options, part) in [
        ("t.parquet", "--target Y", "did you mean \"y\"?"),
        ("t.parquet", "--features x0,x2", "has no column \"x2\"; did you mean"),
        ("t.parquet", "--features q*", "has no column \"q*\""),
        ("t.parquet", "--features y", "it is the target"),
        ("t.parquet", "--target y,y", "y is named twice"),
        ("ü.parquet", "--target целъ", "did you mean \"цель\"?"),
        ("labels.parquet", "--features x0,text --categories none", "column \"text\" of labels.parquet holds text"),
        ("labels.parquet", "--target text", "for labels choose --task classification"),
        ("labels.parquet", "--target bool,one --task classification", "one column of labels"),
        ("labels.parquet", "--target one --task classification", "the target has 1 class;"),
        ("labels.parquet", "--target y --task classification", "for a numeric target choose --task regression"),
        ("labels.parquet", "--folds column:nix", "has no column \"nix\""),
        ("labels.parquet", "--folds column:one", "the column has 1 value"),
        ("labels.parquet", "--where nix==1", "has no column \"nix\""),
        ("labels.parquet", "--where fold==many", "compare it with a number"),
        ("labels.parquet", "--where fold>7", "no row is left"),
        ("labels.parquet", "--rows 1000..", "--rows 1000.. selects none of its 300 rows"),
        (
            "nan.parquet",
            "",
            "nan.parquet: row 17 (counted from 0), column \"x1\" is NaN; clean the data or choose --missing indicator, --missing mean or",
        ),
        ("infinite.parquet", "", "infinite.parquet: row 17 (counted from 0), column \"x1\" is infinite"),
        (
            "y_nan.parquet",
            "--missing-target error",
            "row 5 (counted from 0), column \"y\" is NaN; clean the data or choose --missing-target drop",
        ),
        ("y_nan.parquet", "--missing drop --missing-target error", "row 5 (counted from 0), column \"y\" is NaN"),
        ("one.parquet", "", "ridge needs at least 2 rows, and 1 is left"),
        ("t.parquet", "--rows 299..", "ridge needs at least 2 rows, and 1 is left"),
        ("huge.parquet", "", "column \"x0\" has values up to"),
        ("large.parquet", "--scale none --kernel linear()", "is not finite; scale the features"),
        ("large.parquet", "--scale none --kernel polynomial(degree=3)", "is not finite"),
        ("zero.parquet", "--kernel linear()", "is zero on every row"),
    ] {
        fails(at, &fit(data, options), 1, part);
    }
    fails(at, "convert nan.parquet -o a.npy --missing mean", 2, "a conversion does not compute means");
    fails(at, "convert labels.parquet --target text -o a.npy", 1, "exclude them with --drop text");
    fails(at, "convert empty.parquet -o a.npy", 1, "it has no rows");
}

/// A fit drops rows without a target, also from the values of its categories.
#[test]
fn rows_without_a_target_are_left_out_with_a_line() {
    let folder = folder();
    let at = folder.path();
    let mut text = "x,c,known,y,label\n".to_string();
    for (i, (x, y)) in noise(0).iter().zip(noise(1)).enumerate() {
        match i % 10 == 3 {
            true => text += &format!("{x},only here,0,,\n"),
            false => text += &format!("{x},{},1,{y},{}\n", ["u", "v"][i % 2], ["no", "yes"][i % 3 / 2]),
        }
    }
    std::fs::write(at.join("d.csv"), text).unwrap();
    for target in ["y", "label --task classification"] {
        let line = format!("fit ridge d.csv --features x,c --target {target} --rank 20 --lambda 1e-6 -o");
        let said = warns(at, &format!("{line} dropped")).0;
        assert!(said.contains("rows without a target are left out: 30 (--missing-target error stops)"), "{said}");
        assert!(!warns(at, &format!("{line} fulfilled --where known==1")).0.contains("without a target"));
        let predictions = |name: &str| {
            assert_eq!(run(at, &format!("predict {name} d.csv -q -o p.csv")).code, 0);
            std::fs::read(at.join("p.csv")).unwrap()
        };
        assert!(predictions("dropped") == predictions("fulfilled"), "{target}");
        let (said, scores) = warns(at, "evaluate dropped d.csv");
        assert!(said.contains("30 rows without a target are skipped") && scores["rows"] == 270, "{said}");
        fails(at, "evaluate dropped d.csv --missing-target error", 1, "choose --missing-target drop");
    }
}

/// Every solver refuses a single row and names itself in the message.
#[test]
fn a_single_row_names_the_solver() {
    let folder = folder();
    let at = folder.path();
    for solver in ["ridge", "kpca", "kmeans", "mean", "oneclass", "svr", "svm", "logistic"] {
        let target = match solver {
            "kmeans" => "--clusters 2",
            "kpca" | "mean" | "oneclass" => "",
            "svm" | "logistic" => "--target bool",
            _ => "--target y",
        };
        let line = format!("fit {solver} labels.parquet --features x* {target} --rows 299.. -o refused");
        fails(at, &line, 1, &format!("{solver} needs at least 2 rows"));
    }
}

/// Far rows overflow an unbounded kernel: no output of the model contains an infinite number.
#[test]
fn numbers_that_overflow_are_refused_by_row() {
    let folder = folder();
    let at = folder.path();
    let rows = |scale: f64| {
        (0..60).fold("x0,y\n".to_string(), |text, i| {
            let far = if i == 41 { scale } else { 1.0 };
            format!("{text}{},{}\n", far * f64::from(i % 10) / 10.0, i % 2)
        })
    };
    std::fs::write(at.join("near.csv"), rows(1.0)).unwrap();
    std::fs::write(at.join("far.csv"), rows(1e6)).unwrap();
    let part = "row 41 (counted from 0) of far.csv: the prediction is";
    for (solver, target) in [
        ("ridge", "--target y"),
        ("ridge", "--target y --task classification"),
        ("svr", "--target y"),
        ("svm", "--target y"),
        ("logistic", "--target y"),
        ("fisher", "--target y"),
        ("perceptron", "--target y"),
        ("online", "--target y"),
        ("ranking", "--target y"),
        ("kpca", ""),
        ("kpca-l1", ""),
        ("kmeans", "--clusters 2"),
        ("oneclass", ""),
        ("mean", ""),
    ] {
        let options = "--kernel exp(linear()) --features x0 --scale none --rank 20 --precision f64 -o m -q";
        assert_eq!(run(at, &format!("fit {solver} near.csv {target} {options}")).code, 0, "{solver}");
        fails(at, "predict m far.csv -o refused.csv", 1, part);
        fails(at, "predict m far.csv -o refused.csv --threads 1", 1, part);
        if target.starts_with("--target") {
            fails(at, "evaluate m far.csv", 1, part);
        }
    }
    // the kernel value of the far row is the largest number, and its coefficient may be small
    std::fs::write(at.join("far.csv"), rows(1e4)).unwrap();
    for kernel in ["exp(polynomial(degree=2))", "exp(linear())"] {
        let options = format!("--kernel {kernel} --features x0 --scale none --rank 10 --lambda 1e-3 -o m -q");
        assert_eq!(run(at, &format!("fit ridge near.csv --target y {options}")).code, 0, "{kernel}");
        fails(at, "predict m far.csv -o refused.csv", 1, part);
    }
    let options = "--kernel linear() --features x0 --scale none --precision f64 --lambda 1e-9 -o m -q";
    assert_eq!(run(at, &format!("fit ridge near.csv --target y {options}")).code, 0);
    std::fs::write(at.join("far.csv"), rows(1e200)).unwrap();
    fails(at, "evaluate m far.csv", 1, "the rmse of 60 rows is inf");
}

/// Integers have no rounding error: fifty distinct values near 2^53 are a feature, not a constant.
#[test]
fn large_integers_are_no_constants() {
    let folder = folder();
    let at = folder.path();
    for (name, base) in [("below", (1i64 << 53) - 60), ("astride", (1i64 << 53) - 25), ("negative", -(1i64 << 53))] {
        let rows = (0..400).fold("id,y\n".to_string(), |text, i| {
            let step = i * 7 % 51;
            format!("{text}{},{}\n", base + step, (step as f64 / 8.0).sin())
        });
        std::fs::write(at.join("t.csv"), rows).unwrap();
        assert_eq!(run(at, "convert t.csv -o t.parquet -q").code, 0);
        for (data, scale) in [("t.csv", "standard"), ("t.parquet", "standard"), ("t.parquet", "minmax")] {
            let fitted = run(at, &format!("fit ridge {data} --target y --scale {scale} --lambda 1e-6 -o m --json"));
            assert!(fitted.code == 0 && !fitted.stderr.contains("constant"), "{name} {data}: {}", fitted.stderr);
            let report: serde_json::Value = serde_json::from_str(&fitted.stdout).unwrap();
            assert!(report["train"]["r2"].as_f64().unwrap() > 0.95, "{name} {data} {scale}: {report}");
        }
    }
    let constant = (0..50).fold("id,y\n".to_string(), |text, i| format!("{text}9007199254740993,{i}\n"));
    std::fs::write(at.join("t.csv"), constant).unwrap();
    let fitted = run(at, "fit ridge t.csv --target y --kernel gaussian(sigma=1) -o m --json");
    assert!(fitted.stderr.contains("feature id is constant"), "{}", fitted.stderr);
}

/// Negative weights and weights that are all 0 have different messages.
#[test]
fn weights_without_a_positive_one_say_why() {
    let folder = folder();
    let at = folder.path();
    for (weight, part) in [("-2", "the smallest is -2; expected 0 or more"), ("0", "sum to 0")] {
        let rows = (0..30).fold("x0,y,w\n".to_string(), |text, i| format!("{text}{},{},{weight}\n", i % 7, i % 3));
        std::fs::write(at.join("w.csv"), rows).unwrap();
        fails(at, "fit ridge w.csv --target y --features x0 --weights w -o refused", 1, part);
    }
}
