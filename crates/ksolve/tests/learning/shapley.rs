//! Contributions of columns to predictions, compared with their definition as a sum over subsets.

use ksolve::job::{ElementType, Fit, Run, StageObserver};
use ksolve::predict::{Evaluation, Extras, Predictor};
use kstore::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use kstore::pass::Observer;
use kstore::{Selection, Table};
use std::ops::Range;
use std::sync::{Arc, Mutex};

const CITIES: [&str; 3] = ["Bonn", "Kiel", "Ulm"];

/// Number k of the pseudo-random sequence of row i, uniform on [−1, 1].
fn uniform(i: usize, k: usize) -> f64 {
    2.0 * kstore::key::Stream::new(7, kstore::key::Purpose::Data, k as u64).uniform(i as u64) - 1.0
}

/// Columns x0, city, x1, x2 with the target y.
fn table(n: usize) -> Table {
    let numbers = |k: usize| -> ArrayRef { Arc::new((0..n).map(|i| uniform(i, k)).collect::<Float64Array>()) };
    let city = |i: usize| (uniform(i, 9).abs() * 2.999) as usize;
    let cities: ArrayRef = Arc::new((0..n).map(|i| Some(CITIES[city(i)])).collect::<StringArray>());
    let target = |i: usize| {
        let x = [uniform(i, 0), uniform(i, 1), uniform(i, 2)];
        (2.0 * x[0]).sin() * x[1] + city(i) as f64 * x[2] + x[1] * x[1]
    };
    let y: ArrayRef = Arc::new((0..n).map(target).collect::<Float64Array>());
    let columns = vec![("x0", numbers(0)), ("city", cities), ("x1", numbers(1)), ("x2", numbers(2)), ("y", y)];
    Table::from_batches(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap()
}

const FEATURES: [Range<usize>; 4] = [0..1, 1..4, 4..5, 5..6];

fn fit(kernel: &str) -> Predictor {
    let fit = Fit::ridge().kernel(kernel.parse().unwrap()).rank(60).set("lambda", 1e-4).precision(ElementType::F64);
    Predictor::new(fit.fit_table(&table(300), &["y"], &Run::new()).unwrap().model).unwrap()
}

/// Returns the encoded features of a row of [`table`].
fn features(i: usize) -> Vec<f64> {
    let city = (uniform(i, 9).abs() * 2.999) as usize;
    let one_hot = (0..3).map(|c| f64::from(u8::from(c == city)));
    [vec![uniform(i, 0)], one_hot.collect(), vec![uniform(i, 1), uniform(i, 2)]].concat()
}

/// Returns the contributions by their definition: a sum over the subsets of the columns.
fn contributions_by_subsets(predictor: &Predictor, x: &[f64], background: &[Vec<f64>]) -> Vec<f64> {
    let column_count = FEATURES.len();
    let value = |subset: usize| {
        let predict = |row: &Vec<f64>| {
            let mut row = row.clone();
            let in_subset = |(column, _): &(usize, &Range<usize>)| subset >> column & 1 == 1;
            for (_, features) in FEATURES.iter().enumerate().filter(in_subset) {
                row[features.clone()].copy_from_slice(&x[features.clone()]);
            }
            let mut out = [0.0];
            predictor.predict(&row, &mut out).unwrap();
            out[0]
        };
        background.iter().map(predict).sum::<f64>() / background.len() as f64
    };
    let factorial = |n: usize| (1..=n).product::<usize>() as f64;
    let contribution = |column: usize| {
        let without = (0..1usize << column_count).filter(|subset| subset >> column & 1 == 0);
        let terms = without.map(|subset| {
            let size = subset.count_ones() as usize;
            let weight = factorial(size) * factorial(column_count - size - 1) / factorial(column_count);
            weight * (value(subset | 1 << column) - value(subset))
        });
        terms.sum()
    };
    (0..column_count).map(contribution).collect()
}

/// Returns the contributions and the mean of the background for the rows of a table, 5 per row, and
/// the predictions.
fn contributions(predictor: &Predictor, table: &Table, run: &Run<'_>) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut predictions) = (Vec::new(), Vec::new());
    let selected = predictor.select(table, Selection::default()).unwrap();
    let extras = Extras { contributions: true, ..Extras::default() };
    let keep = |scores: &ksolve::predict::Scores| {
        values.extend_from_slice(&scores.contributions);
        predictions.extend_from_slice(&scores.scores);
        Ok(())
    };
    predictor.score_table(&selected, extras, Vec::new(), run, keep).unwrap();
    (values, predictions)
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn contributions_are_the_sum_over_subsets() {
    let background: Vec<Vec<f64>> = (200..207).map(features).collect();
    for kernel in [
        "gaussian(sigma=1.5)",
        "laplacian(sigma=[1, 2, 2, 2, 3, 4])",
        "gaussian(sigma=2, on=[x0, x1])*delta(on=city) + 0.5*laplacian(sigma=3) + linear()",
        "laplacian(sigma=2, scale=quantile) + gaussian(sigma=1)",
    ] {
        let predictor = fit(kernel).with_background(&background.concat()).unwrap();
        let (values, predictions) = contributions(&predictor, &table(20), &Run::new());
        for i in [0, 7, 19] {
            let row = &values[i * 5..(i + 1) * 5];
            let expected = contributions_by_subsets(&predictor, &features(i), &background);
            assert!(largest_difference(&row[..4], &expected) < 1e-9, "{kernel}: {row:?} {expected:?}");
            assert!((row.iter().sum::<f64>() - predictions[i]).abs() < 1e-9, "{kernel}: row {i}");
        }
    }
}

#[test]
fn contributions_to_other_kernels_are_close_and_sum_to_the_prediction() {
    let background: Vec<Vec<f64>> = (200..264).map(features).collect();
    let predictor = fit("matern(nu=1.5, sigma=2)").with_background(&background.concat()).unwrap();
    let (values, predictions) = contributions(&predictor, &table(20), &Run::new());
    for i in [0, 7, 19] {
        let row = &values[i * 5..(i + 1) * 5];
        let expected = contributions_by_subsets(&predictor, &features(i), &background);
        // the standard error of a mean over 64 pairs of orders is about .01 here
        assert!(largest_difference(&row[..4], &expected) < 0.05, "{row:?} {expected:?}");
        assert!((row.iter().sum::<f64>() - predictions[i]).abs() < 1e-9);
    }
}

#[test]
fn the_bits_of_contributions_depend_on_no_threads_and_no_other_rows() {
    for kernel in ["gaussian(sigma=1.5)", "matern(nu=1.5, sigma=2)"] {
        let predictor = fit(kernel);
        let (all, _) = contributions(&predictor, &table(30), &Run::new().threads(3));
        let (few, _) = contributions(&predictor, &table(3), &Run::new().threads(1));
        assert_eq!(all[..15], few[..], "{kernel}");
    }
}

/// Records the number of rows of each step of the progress.
#[derive(Default)]
struct Steps(Mutex<Vec<u64>>);

impl Observer for &Steps {
    fn advance(&self, rows: u64) {
        self.0.lock().unwrap().push(rows);
    }
}

impl StageObserver for Steps {
    fn start_stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(self)
    }
    fn warn(&self, _: String) {}
}

#[test]
fn progress_counts_few_explained_rows_at_a_time() {
    let (predictor, table, steps) = (fit("gaussian(sigma=1.5)"), table(60), Steps::default());
    let (_, predictions) = contributions(&predictor, &table, &Run::new().threads(2).observer(&steps));
    let steps = steps.0.into_inner().unwrap();
    assert_eq!((steps.iter().sum::<u64>(), steps.iter().max()), (60, Some(&16)), "{steps:?}");
    // the tiles of a run without contributions are larger, and their predictions have the same bits
    let (selected, mut plain) = (predictor.select(&table, Selection::default()).unwrap(), Vec::new());
    let keep = |scores: &ksolve::predict::Scores| {
        plain.extend_from_slice(&scores.scores);
        Ok(())
    };
    predictor.score_table(&selected, Extras::default(), Vec::new(), &Run::new(), keep).unwrap();
    assert_eq!(plain, predictions);
}

#[test]
fn reasons_name_the_columns_with_the_largest_contributions() {
    let (predictor, folder) = (fit("gaussian(sigma=1.5)"), tempfile::tempdir().unwrap());
    let table = table(5);
    let selected = predictor.select(&table, Selection::default()).unwrap();
    let (extras, path) = (Extras { reasons: 2, ..Extras::default() }, folder.path().join("out.csv"));
    predictor.write(&selected, None, extras, &path, &Run::new()).unwrap();
    let (values, _) = contributions(&predictor, &table, &Run::new());
    let text = std::fs::read_to_string(&path).unwrap();
    let names = ["x0=", "city=", "x1=", "x2="];
    for (i, line) in text.lines().skip(1).enumerate() {
        let row = &values[i * 5..i * 5 + 4];
        let largest = (0..4).max_by(|a, b| row[*a].abs().total_cmp(&row[*b].abs())).unwrap();
        let reasons = line.split_once(',').unwrap().1.trim_matches('"');
        assert!(reasons.starts_with(names[largest]) && reasons.matches("; ").count() == 1, "{line}: {row:?}");
    }
}

#[test]
fn partial_dependence_shows_every_class() {
    let n = 180;
    let label = |i: usize| ["a", "b", "c"][usize::from(uniform(i, 0) > -0.3) + usize::from(uniform(i, 1) > 0.4)];
    let numbers = |k: usize| -> ArrayRef { Arc::new((0..n).map(|i| uniform(i, k)).collect::<Float64Array>()) };
    let labels: ArrayRef = Arc::new((0..n).map(|i| Some(label(i))).collect::<StringArray>());
    let columns = vec![("x0", numbers(0)), ("x1", numbers(1)), ("label", labels)];
    let table = Table::from_batches(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
    let fit = Fit::solver("logistic").unwrap().kernel("gaussian(sigma=1)".parse().unwrap()).rank(40);
    let fit = fit.set("lambda", 1e-3).precision(ElementType::F64);
    let predictor = Predictor::new(fit.fit_table(&table, &["label"], &Run::new()).unwrap().model).unwrap();
    let selection = Selection { targets: vec!["label".to_string()], class_target: true, ..Selection::default() };
    let selected = predictor.select(&table, selection).unwrap();
    let effects = predictor.column_effects(&selected, &Run::new()).unwrap().unwrap();
    let classes: Vec<String> = effects.classes.iter().map(ToString::to_string).collect();
    assert_eq!(classes, ["a", "b", "c"]);
    for column in &effects.columns {
        for point in &column.dependence {
            let mut means = [0.0; 3];
            for i in 0..n {
                let x = [uniform(i, 0), uniform(i, 1)];
                let x = if column.column == "x0" { [point.value, x[1]] } else { [x[0], point.value] };
                let mut scores = [0.0; 3];
                predictor.predict(&x, &mut scores).unwrap();
                let odds = scores.map(f64::exp);
                let sum: f64 = odds.iter().sum();
                means.iter_mut().zip(odds).for_each(|(mean, odds)| *mean += odds / sum / n as f64);
            }
            assert_eq!(point.predictions.len(), 3);
            for (got, expected) in point.predictions.iter().zip(means) {
                assert!((got.mean - expected).abs() < 1e-9, "{column:?} {expected}");
                assert!(got.deciles.0 <= got.deciles.1);
            }
        }
    }
}

/// Returns the targets of the first `n` rows of [`table`].
fn targets(n: usize) -> Vec<f64> {
    let city = |i: usize| (uniform(i, 9).abs() * 2.999) as usize;
    (0..n)
        .map(|i| {
            let x = [uniform(i, 0), uniform(i, 1), uniform(i, 2)];
            (2.0 * x[0]).sin() * x[1] + city(i) as f64 * x[2] + x[1] * x[1]
        })
        .collect()
}

#[test]
fn partial_dependence_is_the_mean_of_predictions_with_one_value() {
    let (predictor, n) = (fit("gaussian(sigma=1.5)"), 180);
    let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
    let selected = predictor.select(&table(n), selection).unwrap();
    let effects = predictor.column_effects(&selected, &Run::new()).unwrap().unwrap();
    assert_eq!((effects.rows, effects.loss_name, effects.columns.len()), (n, "rmse", 4));
    let predict = |x: &[f64]| {
        let mut out = [0.0];
        predictor.predict(x, &mut out).unwrap();
        out[0]
    };
    let squared_error = |x: &[f64], y: f64| (predict(x) - y).powi(2);
    let targets = targets(n);
    let mse = (0..n).map(|i| squared_error(&features(i), targets[i])).sum::<f64>() / n as f64;
    assert!((effects.loss - mse.sqrt()).abs() < 1e-9, "{} {mse}", effects.loss);
    for (range, name) in FEATURES.iter().zip(["x0", "city", "x1", "x2"]) {
        let column = effects.columns.iter().find(|column| column.column == name).unwrap();
        // all rows with the column of all rows: the expected loss under random exchanges
        let exchanged = |i: usize, j: usize| {
            let mut x = features(i);
            x[range.clone()].copy_from_slice(&features(j)[range.clone()]);
            squared_error(&x, targets[i])
        };
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let expected = (pairs.map(|(i, j)| exchanged(i, j)).sum::<f64>() / (n * (n - 1)) as f64).sqrt() - mse.sqrt();
        let error = (column.increase - expected).abs();
        assert!(error < 4.0 * column.standard_error, "{name}: {column:?}, expected {expected}");
        for point in &column.dependence {
            let value = match name {
                "city" => {
                    CITIES.iter().map(|city| f64::from(u8::from(Some(*city) == point.level.as_deref()))).collect()
                }
                _ => vec![point.value],
            };
            let mut curve: Vec<f64> = (0..n)
                .map(|i| {
                    let mut x = features(i);
                    x[range.clone()].copy_from_slice(&value);
                    predict(&x)
                })
                .collect();
            let mean = curve.iter().sum::<f64>() / n as f64;
            assert!((point.predictions[0].mean - mean).abs() < 1e-9, "{name}: {point:?}, expected {mean}");
            curve.sort_by(f64::total_cmp);
            let below = curve.iter().filter(|value| **value < point.predictions[0].deciles.0 - 1e-9).count();
            let above = curve.iter().filter(|value| **value > point.predictions[0].deciles.1 + 1e-9).count();
            assert!((16..=18).contains(&below) && (16..=18).contains(&above), "{name}: {below} {above}");
        }
        assert_eq!(column.dependence.len(), if name == "city" { 3 } else { 20 }, "{name}");
    }
    let order: Vec<f64> = effects.columns.iter().map(|column| column.increase).collect();
    assert!(order.windows(2).all(|pair| pair[0] >= pair[1]), "{order:?}");
    // fewer rows say too little
    let few =
        predictor.select(&table(20), Selection { targets: vec!["y".to_string()], ..Selection::default() }).unwrap();
    assert!(predictor.column_effects(&few, &Run::new()).unwrap().is_none());
}

/// The importance of every solver is the expected increase of its own loss, and the loss on all
/// rows is the score of the evaluation.
#[test]
fn importance_is_the_increase_of_the_loss_of_the_solver() {
    let n = 150;
    let x = |i: usize| [uniform(i, 0), uniform(i, 1)];
    let number = |i: usize| (2.0 * x(i)[0]).sin() + 0.3 * uniform(i, 5);
    let count = |i: usize| (1.5 * (x(i)[0] + 1.0) + uniform(i, 5) + 1.0).floor();
    let label = |i: usize| f64::from(u8::from(x(i)[0] + 0.4 * uniform(i, 5) > 0.0));
    type Loss = fn(f64, f64) -> f64;
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a dyn Fn(usize) -> f64, Loss, &'a str);
    let pinball: Loss = |score, y| if y >= score { 0.8 * (y - score) } else { 0.2 * (score - y) };
    let deviance: Loss = |mean, y| 2.0 * (if y > 0.0 { y * (y / mean).ln() } else { 0.0 } - y + mean);
    let log_loss: Loss = |score, y| (1.0 + (if y == 1.0 { -score } else { score }).exp()).ln();
    let wrong: Loss = |score, y| f64::from(u8::from((score > 0.0) != (y == 1.0)));
    let square: Loss = |score, y| (score - y).powi(2);
    let cases: [Case<'_>; 5] = [
        ("quantile", &[("lambda", "1e-3"), ("quantiles", "0.8")], &number, pinball, "pinball loss"),
        ("glm", &[("lambda", "1e-3")], &count, deviance, "poisson deviance"),
        ("logistic", &[("lambda", "1e-3")], &label, log_loss, "log-loss"),
        ("svm", &[("C", "1")], &label, wrong, "error rate"),
        ("svr", &[("C", "1")], &number, square, "rmse"),
    ];
    for (solver, options, target, loss, name) in cases {
        let columns: [ArrayRef; 3] = [
            Arc::new((0..n).map(|i| x(i)[0]).collect::<Float64Array>()),
            Arc::new((0..n).map(|i| x(i)[1]).collect::<Float64Array>()),
            match solver {
                "logistic" | "svm" => Arc::new((0..n).map(|i| target(i) as i64).collect::<Int64Array>()),
                _ => Arc::new((0..n).map(target).collect::<Float64Array>()),
            },
        ];
        let table = RecordBatch::try_from_iter(["x0", "x1", "y"].into_iter().zip(columns)).unwrap();
        let table = Table::from_batches(vec![table]).unwrap();
        let fit = Fit::solver(solver).unwrap().kernel("gaussian(sigma=1)".parse().unwrap()).rank(40);
        let fit = options.iter().fold(fit, |fit, (name, value)| fit.set(name, value)).precision(ElementType::F64);
        let predictor = Predictor::new(fit.fit_table(&table, &["y"], &Run::new()).unwrap().model).unwrap();
        let class_target = !predictor.metadata().classes.is_empty();
        let selection = Selection { targets: vec!["y".to_string()], class_target, ..Selection::default() };
        let selected = predictor.select(&table, selection).unwrap();
        let effects = predictor.column_effects(&selected, &Run::new()).unwrap().unwrap();
        assert_eq!((effects.loss_name, effects.rows, effects.columns.len()), (name, n, 2));
        let row_loss = |row: [f64; 2], i: usize| {
            let mut out = [0.0];
            predictor.predict(&row, &mut out).unwrap();
            loss(out[0], target(i))
        };
        let root = |mean: f64| if name == "rmse" { mean.sqrt() } else { mean };
        let plain = (0..n).map(|i| row_loss(x(i), i)).sum::<f64>() / n as f64;
        assert!((effects.loss - root(plain)).abs() < 1e-9, "{solver}: {} {}", effects.loss, root(plain));
        let scores = match predictor.evaluate(&selected, &Run::new()).unwrap().0 {
            Evaluation::Regression(scores) => scores.loss.map_or(scores.scores.rmse, |loss| Some(loss.mean)),
            Evaluation::Classification(scores) => scores.log_loss.or(scores.error),
        };
        assert!((effects.loss - scores.unwrap()).abs() < 1e-9, "{solver}: {effects:?}");
        for column in &effects.columns {
            let j = usize::from(column.column == "x1");
            let exchanged = |i: usize, other: usize| {
                let mut row = x(i);
                row[j] = x(other)[j];
                row_loss(row, i)
            };
            let pairs = (0..n).flat_map(|i| (0..n).map(move |other| (i, other))).filter(|(i, other)| i != other);
            let expected = pairs.map(|(i, other)| exchanged(i, other)).sum::<f64>() / (n * (n - 1)) as f64;
            let (expected, standard_error) = (root(expected) - root(plain), column.standard_error);
            let error = (column.increase - expected).abs();
            assert!(error < 4.0 * standard_error + 1e-9, "{solver}: {column:?}, expected {expected}");
        }
        assert_eq!(effects.columns[0].column, "x0", "{solver}: {effects:?}");
        assert!(effects.columns[0].increase > 5.0 * effects.columns[0].standard_error, "{solver}: {effects:?}");
    }
}
