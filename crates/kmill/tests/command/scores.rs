//! `kmill predict --scores`: the decision values of classifiers.

use crate::features::csv;
use crate::people::text;
use crate::run::{kmill, ok};
use serde_json::Value;
use std::path::Path;

/// Returns the class for these scores: by the sign of one score, or the largest of several.
fn decided(scores: &[f64]) -> f64 {
    match scores {
        [score] => f64::from(*score > 0.0),
        _ => (0..scores.len()).fold(0, |best, j| if scores[j] > scores[best] { j } else { best }) as f64,
    }
}

#[test]
fn every_classifier_tells_the_scores_that_its_labels_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let names: [(&str, &[&str]); 2] =
        [("moons", &["prediction", "score"]), ("blobs", &["prediction", "score_0", "score_1", "score_2"])];
    for (generator, expected) in names {
        ok(at, &format!("generate {generator} --rows 600 -o t.csv -q"));
        let fits =
            ["fisher", "logistic", "svm --lambda 1e-4", "perceptron", "ridge --task classification --lambda 1e-6"];
        for fit in fits {
            let (solver, rest) = fit.split_once(' ').unwrap_or((fit, ""));
            ok(at, &format!("fit {solver} t.csv --target y --rank 40 {rest} -o m --json"));
            ok(at, "predict m t.csv --scores -o s.csv --json");
            let (names, rows) = csv(&at.join("s.csv"));
            assert_eq!(names, expected, "{fit}");
            assert!(rows.iter().all(|row| row[0] == decided(&row[1..])), "{generator} {fit}");
            assert!((0..expected.len()).all(|j| rows.iter().any(|row| row[j] != rows[0][j])), "{fit}: constant");
        }
    }
}

#[test]
fn scores_of_ridge_are_those_of_the_codes_and_pairs_vote() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 500 -o t.csv -q");
    let fit = "fit ridge t.csv --target y --rank 50 --lambda 1e-5 --precision f64";
    ok(at, &format!("{fit} --task classification -o c --json"));
    ok(at, &format!("{fit} -o r --json"));
    ok(at, "predict c t.csv --scores -o c.csv --json");
    ok(at, "predict r t.csv -o r.csv --json");
    let ((_, scores), (_, values)) = (csv(&at.join("c.csv")), csv(&at.join("r.csv")));
    for (score, value) in scores.iter().zip(&values) {
        // labels 0 and 1 as values, -1 and 1 as codes
        assert!((score[1] - (2.0 * value[0] - 1.0)).abs() < 1e-9, "{score:?} {value:?}");
    }
    let (code, _, stderr) = kmill(at, "predict r t.csv --scores -o refused.csv");
    assert!(code != 0 && stderr.contains("--scores") && stderr.contains("has no classes"), "{stderr}");

    ok(at, "generate blobs --rows 600 -o b.csv -q");
    ok(at, "fit svm b.csv --target y --multiclass one-vs-one --rank 40 --lambda 1e-4 -o p --json");
    ok(at, "predict p b.csv --scores -o p.csv --json");
    let (names, rows) = csv(&at.join("p.csv"));
    assert_eq!(names, ["prediction", "score_0_1", "score_0_2", "score_1_2"]);
    for row in rows {
        let mut won = [0; 3];
        for ((a, b), score) in [(0, 1), (0, 2), (1, 2)].into_iter().zip(&row[1..]) {
            won[if *score > 0.0 { b } else { a }] += 1;
        }
        assert_eq!(won[row[0] as usize], *won.iter().max().unwrap(), "{row:?}");
    }
}

#[test]
fn discriminant_coordinates_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 600 -o b.csv -q");
    ok(at, "fit fisher b.csv --target y --components 2 --rank 40 --lambda 1e-4 -o m --json");
    ok(at, "fit fisher b.csv --target y --rank 40 --lambda 1e-4 -o plain --json");
    ok(at, "predict m b.csv --components --scores --keep y -o c.csv --json");
    let (names, rows) = csv(&at.join("c.csv"));
    let expected =
        ["y", "prediction", "score_0", "score_1", "score_2", "component_0", "component_1"].map(ToString::to_string);
    assert_eq!(names, expected);
    // scores and labels equal a model without components
    ok(at, "predict plain b.csv --scores -o p.csv --json");
    let (_, plain) = csv(&at.join("p.csv"));
    assert!(rows.iter().zip(&plain).all(|(row, plain)| row[1..5] == plain[..]));
    // for classes of equal size the nearest class mean is the class; blobs are well separated
    let mean = |class: f64, j: usize| {
        let own: Vec<f64> = rows.iter().filter(|row| row[0] == class).map(|row| row[5 + j]).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    let means: Vec<[f64; 2]> = [0.0, 1.0, 2.0].iter().map(|class| [mean(*class, 0), mean(*class, 1)]).collect();
    let nearest = |row: &[f64]| {
        let distance = |k: &usize| (row[5] - means[*k][0]).powi(2) + (row[6] - means[*k][1]).powi(2);
        (0..3).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap() as f64
    };
    let same = rows.iter().filter(|row| nearest(row) == row[1]).count();
    assert!(same >= 590, "{same} of 600 rows");
    let report = ok(at, "inspect m --json");
    assert_eq!(report["components"], 2);
    assert!(ok(at, "inspect plain --json").get("components").is_none());
    let (code, _, stderr) = kmill(at, "predict plain b.csv --components -o refused.csv");
    assert!(code != 0 && stderr.contains("--components"), "{stderr}");
    let (code, _, stderr) = kmill(at, "fit fisher b.csv --target y --components 3 --rank 40 -o refused");
    assert!(code != 0 && stderr.contains("3 classes have 2 discriminants"), "{stderr}");
}

#[test]
fn a_sum_of_kernels_is_learned_from_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 1500 -o t.csv -q");
    let kernels = "--combine gaussian(sigma=1),gaussian(sigma=4),linear()";
    let fit = ok(at, &format!("fit ridge t.csv --target y --rank 100 --lambda 1e-5 {kernels} -o m --json"));
    let kernel = fit["kernel"].as_str().unwrap();
    assert!(kernel.contains('*') && kernel.contains("sigma=4"), "{kernel}");
    // the model equals a fit with the sum written as a kernel expression
    let same = kernel.replace(' ', "");
    ok(at, &format!("fit ridge t.csv --target y --rank 100 --lambda 1e-5 --kernel {same} -o s --json"));
    ok(at, "predict m t.csv -o m.csv");
    ok(at, "predict s t.csv -o s.csv");
    assert!(std::fs::read(at.join("m.csv")).unwrap() == std::fs::read(at.join("s.csv")).unwrap());
    let plan = ok(at, &format!("plan ridge t.csv --target y --rank 100 {kernels} --json"));
    let stages: Vec<&str> = plan["stages"].as_array().unwrap().iter().map(|s| s["what"].as_str().unwrap()).collect();
    assert!(plan["fits"] == true && stages.len() == 10, "{stages:?}");
    assert!(stages[..5].iter().all(|what| what.starts_with("combination: ")), "{stages:?}");
    // statistics, and the passes of maps and moments, for the weights and for the fit
    assert_eq!(plan["passes"], fit["passes"], "{plan}");
    let (code, _, stderr) = kmill(at, &format!("plan kpca t.csv {kernels}"));
    assert!(code != 0 && stderr.contains("--combine"), "{stderr}");
    let (code, _, stderr) = kmill(at, &format!("fit kpca t.csv {kernels} -o refused"));
    assert!(code != 0 && stderr.contains("--combine"), "{stderr}");
    let (code, _, _) = kmill(at, &format!("fit ridge t.csv --target y {kernels} --kernel linear() -o refused"));
    assert_eq!(code, 2);
}

#[test]
fn classes_have_their_scores_and_a_cost_has_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 900 -o t.csv -q");
    ok(at, "fit logistic t.csv --target y --rows ..600 --rank 20 --lambda 1e-1 -o m --json");
    ok(at, "predict m t.csv --probabilities --keep y -o p.csv --json");
    let (_, rows) = csv(&at.join("p.csv"));
    // y, prediction, probability of 0, probability of 1
    for (positive, class) in [("1", 1usize), ("0", 0)] {
        let report = ok(at, &format!("evaluate m t.csv --positive {positive} --cost 1:7 --json --report page.html"));
        let truth = |row: &Vec<f64>| row[0] == class as f64;
        let count = |of: &dyn Fn(&Vec<f64>) -> bool| rows.iter().filter(|row| of(row)).count() as f64;
        for own in 0..2 {
            let right = count(&|row| row[0] == own as f64 && row[1] == own as f64);
            let (named, all) = (count(&|row| row[1] == own as f64), count(&|row| row[0] == own as f64));
            let found = &report["by_class"][own];
            let (precision, recall) = (right / named, right / all);
            for (name, expected) in
                [("precision", precision), ("recall", recall), ("f1", 2.0 / (1.0 / precision + 1.0 / recall))]
            {
                assert!((found[name].as_f64().unwrap() - expected).abs() < 1e-12, "{name} {expected}: {found}");
            }
        }
        assert_eq!((&report["f1"], &report["positive"]), (&report["by_class"][class]["f1"], &(class as i64).into()));
        let paid = |threshold: f64| {
            let alarms = count(&|row| row[2 + class] > threshold && !truth(row));
            (alarms, count(&|row| row[2 + class] <= threshold && truth(row)))
        };
        let cost = |threshold: f64| (paid(threshold).0 + 7.0 * paid(threshold).1) / rows.len() as f64;
        let least = rows.iter().map(|row| cost(row[2 + class])).chain([cost(-1.0)]).fold(f64::INFINITY, f64::min);
        let (found, best) = (&report["cost"], report["cost"]["best"]["threshold"].as_f64().unwrap());
        assert!(
            (found["least"].as_f64().unwrap() - least).abs() < 1e-12 && (cost(best) - least).abs() < 1e-12,
            "{found}"
        );
        assert!((found["now"].as_f64().unwrap() - cost(0.5)).abs() < 1e-12 && cost(0.5) > least, "{found}");
        assert_eq!(found["best"]["false_alarms"].as_f64().unwrap(), paid(best).0);
        // evaluate and predict apply the threshold
        let with = format!("m t.csv --positive {positive} --threshold {best}");
        let decided = ok(at, &format!("evaluate {with} --json"));
        let confused = |a: usize, b: usize| decided["confusion"][a][b].as_f64().unwrap();
        assert_eq!((confused(1 - class, class), confused(class, 1 - class)), paid(best), "{decided}");
        ok(at, &format!("predict {with} -o d.csv --json"));
        let (_, labels) = csv(&at.join("d.csv"));
        let wrong = labels.iter().zip(&rows).filter(|(label, row)| label[0] != row[0]).count() as f64;
        assert_eq!(wrong, paid(best).0 + paid(best).1);
        let page = std::fs::read_to_string(at.join("page.html")).unwrap();
        assert!(page.contains("<th scope=\"row\">0.5000</th>") && page.contains("data-name=\"thresholds\""));
        assert!(page.contains("class=\"label\"") && page.contains(">0.500</text>"), "a labelled threshold");
        let areas = [&report["average_precision"], &report["auc"]].map(|area| area.as_f64().unwrap());
        let precision_at = |row: &&Vec<f64>| {
            let above = |other: &Vec<f64>| other[2 + class] >= row[2 + class];
            count(&|other| above(other) && truth(other)) / count(&above)
        };
        let own: Vec<f64> = rows.iter().filter(|row| truth(row)).map(|row| precision_at(&row)).collect();
        assert!((areas[0] - own.iter().sum::<f64>() / own.len() as f64).abs() < 1e-9 && areas[1] > 0.9, "{areas:?}");
    }
    for (option, told) in
        [("--positive 2", "the classes are 0 and 1"), ("--cost 1", "such as 1:20"), ("--cost 1:-2", "such as 1:20")]
    {
        let (code, _, stderr) = kmill(at, &format!("evaluate m t.csv {option}"));
        assert!(code != 0 && stderr.contains(told), "{option}: {stderr}");
    }
    // the regularisation parameter is chosen by cross-validation, whose error is reported
    let report = ok(at, "fit logistic t.csv --target y --rows ..600 --rank 50 -o c --json");
    let figure = |name: &str| report["figures"].as_array().map(|all| all.iter().find(|f| f["name"] == name).cloned());
    let at_each = figure("held-out log-loss at each").flatten().unwrap();
    let (losses, lambda) = (at_each["values"].as_array().unwrap(), report["lambda"].as_f64().unwrap());
    let least = (0..4).min_by(|a, b| losses[*a].as_f64().unwrap().total_cmp(&losses[*b].as_f64().unwrap())).unwrap();
    assert!((lambda / [1e-3, 1e-4, 1e-5, 1e-6][least] - 1.0).abs() < 1e-12, "{report}");
    let chosen_loss = &figure("cv log-loss").flatten().unwrap()["values"];
    assert_eq!(*chosen_loss, serde_json::json!([losses[least]]), "{report}");
    assert!(figure("cv error").flatten().unwrap()["values"][0].as_f64().unwrap() < 0.1, "{report}");
}

/// Returns the area under the ROC curve and the average precision of a score, by counts over rows.
fn areas(rows: &[(f64, bool)]) -> [f64; 2] {
    let count = |of: &dyn Fn(&(f64, bool)) -> bool| rows.iter().filter(|row| of(row)).count() as f64;
    let positives: Vec<f64> = rows.iter().filter(|row| row.1).map(|row| row.0).collect();
    let (p, n) = (positives.len() as f64, count(&|row| !row.1));
    let wins = |score: f64| count(&|row| !row.1 && row.0 < score) + 0.5 * count(&|row| !row.1 && row.0 == score);
    let precision = |score: f64| count(&|row| row.1 && row.0 >= score) / count(&|row| row.0 >= score);
    let mean = |of: &dyn Fn(f64) -> f64| positives.iter().map(|score| of(*score)).sum::<f64>() / p;
    [mean(&|score| wins(score) / n), mean(&precision)]
}

#[test]
fn each_of_several_classes_has_its_areas_against_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // so much noise that the classes overlap
    ok(at, "generate blobs --rows 700 --noise 6 -o t.csv -q");
    let fits = [
        ("logistic --lambda 1e-1", "--probabilities"),
        ("ridge --task classification --lambda 1e-1", "--scores"),
        ("svm --multiclass one-vs-one --lambda 1e-2", "--scores"),
    ];
    for (fit, columns) in fits {
        ok(at, &format!("fit {fit} t.csv --target y --rows ..300 --rank 10 -o m --json"));
        ok(at, &format!("predict m t.csv {columns} --keep y -o s.csv --json"));
        let (_, rows) = csv(&at.join("s.csv"));
        let class_scores = |row: &Vec<f64>| match columns == "--scores" && fit.contains("one-vs-one") {
            false => row[2..].to_vec(),
            true => {
                // pairs 0_1, 0_2, 1_2: positive for the second class
                let margins = [-row[2] - row[3], row[2] - row[4], row[3] + row[4]];
                let [first, second, third] = [row[2] > 0.0, row[3] > 0.0, row[4] > 0.0];
                let wins = [[!first, !second], [first, !third], [second, third]];
                let score = |k: usize| {
                    let wins = wins[k].iter().filter(|is_win| **is_win).count() as f64;
                    wins + margins[k] / (3.0 * (margins[k].abs() + 1.0))
                };
                (0..3).map(score).collect()
            }
        };
        let report = ok(at, "evaluate m t.csv --json --report page.html");
        let mut means = [0.0; 2];
        for class in 0..3 {
            let scored: Vec<(f64, bool)> =
                rows.iter().map(|row| (class_scores(row)[class], row[0] == class as f64)).collect();
            let expected = areas(&scored);
            for ((name, expected), mean) in ["auc", "average_precision"].into_iter().zip(expected).zip(&mut means) {
                let found = report["by_class"][class][name].as_f64().unwrap();
                assert!((found - expected).abs() < 1e-9 && found < 1.0, "{fit} {class} {name}: {found} {expected}");
                *mean += expected / 3.0;
            }
        }
        assert!((report["macro"]["auc"].as_f64().unwrap() - means[0]).abs() < 1e-9, "{fit}: {report}");
        assert!((report["macro"]["average_precision"].as_f64().unwrap() - means[1]).abs() < 1e-9, "{fit}");
        let page = std::fs::read_to_string(at.join("page.html")).unwrap();
        assert_eq!(page.matches("id=\"class-roc\"").count(), 1, "{fit}");
    }
}

/// Writes rows with integer weights times `unit`, and a table that repeats each row by its weight.
fn weighted(at: &Path, source: &str, unit: f64) {
    let (names, rows) = csv(&at.join(source));
    let head = names.join(",");
    let line = |row: &[f64]| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    let weight = |i: usize| (i * 7 + i / 3) % 4;
    let weighed = |(i, row): (usize, &Vec<f64>)| format!("{},{}\n", line(row), unit * weight(i) as f64);
    let all: String = rows.iter().enumerate().map(weighed).collect();
    let copies = |(i, row): (usize, &Vec<f64>)| format!("{}\n", line(row)).repeat(weight(i));
    let repeated: String = rows.iter().enumerate().map(copies).collect();
    std::fs::write(at.join("w.csv"), format!("{head},w\n{all}")).unwrap();
    std::fs::write(at.join("r.csv"), format!("{head}\n{repeated}")).unwrap();
}

fn assert_alike(found: &Value, expected: &Value, what: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            expected.iter().for_each(|(name, value)| assert_alike(&found[name], value, &format!("{what} {name}")));
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            found.iter().zip(expected).for_each(|(found, expected)| assert_alike(found, expected, what));
        }
        (Value::Number(found), Value::Number(expected)) if !expected.is_u64() => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{what}: {found} {expected}");
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

#[test]
fn a_row_of_weight_w_scores_as_w_rows_in_every_task() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (generate, fit, evaluate) in [
        ("friedman1 --rows 400", "ridge t.csv --target y --lambda 1e-3 --std", ""),
        ("friedman1 --rows 400", "ridge t.csv --target y,x0 --lambda 1e-3", ""),
        ("moons --rows 300", "logistic t.csv --target y", "--cost 1:5"),
        ("moons --rows 300", "svm t.csv --target y", "--positive 0"),
        ("blobs --rows 300", "svm t.csv --target y", ""),
        ("moons --rows 300", "oneclass t.csv --features x* --nu 0.2", "--target y"),
    ] {
        ok(at, &format!("generate {generate} --noise 0.4 -o t.csv -q"));
        weighted(at, "t.csv", 1.0);
        ok(at, &format!("fit {fit} --rank 30 -o m --json"));
        let found = ok(at, &format!("evaluate m w.csv --weights w {evaluate} --json"));
        assert_alike(&found, &ok(at, &format!("evaluate m r.csv {evaluate} --json")), fit);
        // in another unit the numbers of rows change, but no proportion
        weighted(at, "t.csv", 0.25);
        let (_, quarter, text) = kmill(at, &format!("evaluate m w.csv --weights w {evaluate} --json"));
        assert_eq!(quarter["rows"].as_f64().unwrap(), found["rows"].as_f64().unwrap() / 4.0, "{fit} {text}");
        let scores =
            ["mse", "median_error", "coverage", "accuracy", "auc", "log_loss", "matthews", "average_precision"];
        scores.into_iter().for_each(|name| assert_alike(&quarter[name], &found[name], name));
    }
    let (code, _, told) = kmill(at, "evaluate m w.csv --target y --weights x0");
    assert!(code == 1 && told.contains("weight"), "negative weights: {told}");
    ok(at, "generate friedman1 --rows 200 -o t.csv -q");
    weighted(at, "t.csv", 1.0);
    ok(at, "fit ranking t.csv --target y --rank 20 -o m --json");
    let (code, _, told) = kmill(at, "evaluate m w.csv --weights w");
    assert!(code == 1 && told.contains("--weights") && told.contains("pairs"), "{told}");
}

/// Every solver with a target reports the importance of the columns on its test rows, in text, JSON
/// and on pages, with the same bits for any threads and memory.
#[test]
fn every_solver_reports_the_importance_of_columns_on_test_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 500 -o c.parquet -q");
    ok(at, "generate friedman1 --rows 500 -o t.parquet -q");
    for (solver, table, score) in [
        ("logistic --lambda 1e-3", "c.parquet", "log-loss"),
        ("svm --C 1", "c.parquet", "error rate"),
        ("svr --C 1", "t.parquet", "rmse"),
        ("quantile --lambda 1e-3", "t.parquet", "pinball loss"),
        ("ridge --lambda 1e-3 --metric diagonal", "t.parquet", "rmse"),
    ] {
        let fit = format!("fit {solver} {table} --target y --rank 40 --test 40% -o m");
        let report = ok(at, &format!("{fit} --importance --json"));
        let importance = &report["test_set"]["scores"]["importance"];
        assert_eq!((&importance["score"], &importance["exchanges"]), (&score.into(), &3.into()), "{report}");
        assert_eq!(importance["rows"], report["test_set"]["rows"]);
        let columns = importance["columns"].as_array().unwrap();
        assert_eq!(columns.len() as u64, report["features"].as_u64().unwrap(), "{report}");
        let increase = |column: &Value| column["increase"].as_f64().unwrap();
        assert!(columns.windows(2).all(|pair| increase(&pair[0]) >= increase(&pair[1])));
        assert!(columns.iter().all(|column| column["standard_error"].as_f64().unwrap() >= 0.0));
        // slopes belong to a fit without test rows
        assert!(report["importance"].as_array().is_none_or(Vec::is_empty), "{report}");
        let again = ok(at, &format!("evaluate m {table} --test same --importance --threads 1 --memory 160MiB --json"));
        assert_eq!(&again["importance"], importance, "{solver}");
        assert!(ok(at, &format!("evaluate m {table} --test same --json")).get("importance").is_none());
    }
    let shown = text(at, "evaluate m t.parquet --importance");
    assert!(shown.contains("increase of rmse") && shown.contains("on 500 random rows; its increase if"), "{shown}");
    assert!(
        text(at, "fit ridge t.parquet --target y --rank 40 --test 40% --importance -o r").contains("± standard error")
    );
    let few = kmill(at, "evaluate m t.parquet --rows ..20 --importance --json");
    assert!(few.0 == 0 && few.2.contains("fewer than 30 rows") && few.1["rmse"].is_number(), "{few:?}");
    for (line, part) in [
        ("fit svm c.parquet --target y --importance -o no", "add --test 25%"),
        ("fit kpca c.parquet --features x* --importance -o no", "omit it"),
        ("plan svm c.parquet --target y --importance", "add --test 25%"),
    ] {
        let (code, _, text) = kmill(at, line);
        assert!(code == 1 && text.contains(part), "{line}: {text}");
    }
}
