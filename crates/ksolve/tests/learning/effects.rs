//! Out-of-fold target encoding, compared with sums over the other folds' rows, in every format.

use ksolve::job::{Fit, Fitted, Run};
use ksolve::predict::{Evaluation, Predictor};
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use kstore::encoding::ColumnEncoding;
use kstore::key::{Purpose, Stream};
use kstore::{ReadSettings, RowBuf, RowSource, SelectedTable, Selection, Table};
use std::path::Path;
use std::sync::Arc;

const ROWS: u64 = 6000;

const USERS: u64 = 1500;

/// Returns user, number, class and target of row `i`. With `noise`, the user has no effect.
fn row(i: u64, noise: bool) -> (u64, f64, &'static str, f64) {
    let random = Stream::new(5, Purpose::Data, 0);
    let user = random.uniform_below(7 * i, USERS);
    let of_user = if noise { 0.0 } else { 2.0 * Stream::new(6, Purpose::Data, 0).uniform(user) - 1.0 };
    let (x, e) = (2.0 * random.uniform(7 * i + 1) - 1.0, random.uniform(7 * i + 2) - 0.5);
    let y = of_user + 0.5 * (3.0 * x).sin() + 0.5 * e;
    (user, x, if y > 0.5 { "high" } else { "low" }, y)
}

/// Tables of the given rows: one batch, two batches, and CSV.
fn tables(folder: &Path, rows: std::ops::Range<u64>, noise: bool) -> Vec<Table> {
    let all = || rows.clone().map(|i| row(i, noise));
    let users: ArrayRef = Arc::new(all().map(|row| Some(format!("u{}", row.0))).collect::<StringArray>());
    let classes: ArrayRef = Arc::new(all().map(|row| Some(row.2)).collect::<StringArray>());
    let numbers =
        |of: fn((u64, f64, &str, f64)) -> f64| -> ArrayRef { Arc::new(all().map(of).collect::<Float64Array>()) };
    let columns = [("user", users), ("x", numbers(|row| row.1)), ("class", classes), ("y", numbers(|row| row.3))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let lines: String = all().map(|(user, x, class, y)| format!("u{user},{x:?},{class},{y:?}\n")).collect();
    let csv = folder.join(format!("{}{noise}.csv", rows.start));
    std::fs::write(&csv, format!("user,x,class,y\n{lines}")).unwrap();
    let half = batch.num_rows() / 3;
    let cut = vec![batch.slice(0, half), batch.slice(half, batch.num_rows() - half)];
    vec![Table::from_batches(vec![batch]).unwrap(), Table::from_batches(cut).unwrap(), Table::open(&[csv]).unwrap()]
}

fn fit(solver: &str, target: &str) -> (Fit, Selection) {
    let fit = Fit::solver(solver).unwrap().rank(60);
    let other = if target == "y" { "!class" } else { "!y" };
    let selection =
        Selection { targets: vec![target.to_string()], features: vec![other.to_string()], ..Selection::default() };
    let selection = fit.complete_selection(selection).unwrap();
    (fit, selection)
}

fn fitted(table: &Table, (solver, target): (&str, &str), run: &Run<'_>) -> (Fitted, SelectedTable) {
    let (fit, selection) = fit(solver, target);
    let selected = run.resolve_categories(&table.select(&selection).unwrap()).unwrap();
    (fit.run(&selected, run).unwrap(), selected)
}

/// Returns the values of one feature in all rows.
fn feature(selected: &SelectedTable, name: &str) -> Vec<f64> {
    let at = selected.feature_names().iter().position(|feature| feature == name).unwrap();
    let source = selected.rows::<f64>(ReadSettings::default()).unwrap();
    let (mut cursor, mut buffer, mut out) = (source.open(source.range()).unwrap(), RowBuf::new(97), Vec::new());
    let d = RowSource::<f64>::shape(&source).input_count;
    while cursor.next(&mut buffer).unwrap() {
        out.extend(buffer.x.chunks_exact(d).map(|row| row[at]));
    }
    out
}

#[test]
fn effects_are_those_of_the_other_folds() {
    let folder = tempfile::tempdir().unwrap();
    for (solver, target) in [("ridge", "y"), ("logistic", "class")] {
        let of = |i: u64| {
            let (user, _, class, y) = row(i, false);
            // for classes, the target is the indicator of the rarer class
            (user, if target == "y" { y } else { f64::from(u8::from(class == "high")) })
        };
        let fold = |i: u64| Stream::new(0, Purpose::TargetEncoding, 0).uniform_below(i, 5);
        let n = ROWS as f64;
        let mean = (0..ROWS).map(|i| of(i).1).sum::<f64>() / n;
        let variance = (0..ROWS).map(|i| (of(i).1 - mean).powi(2)).sum::<f64>() / n;
        let own = |user: u64| (0..ROWS).filter(move |i| of(*i).0 == user);
        // one-way analysis of variance from deviations
        let (mut between, mut within, mut groups, mut sizes) = (0.0, 0.0, 0.0, 0.0);
        for user in 0..USERS {
            let size = own(user).count() as f64;
            if size == 0.0 {
                continue;
            }
            let level = own(user).map(|i| of(i).1).sum::<f64>() / size;
            (between, groups) = (between + size * (level - mean).powi(2), groups + 1.0);
            within += own(user).map(|i| (of(i).1 - level).powi(2)).sum::<f64>();
            sizes += size * size;
        }
        let (between, within) = (between / (groups - 1.0), within / (n - groups));
        let prior = within * ((n - sizes / n) / (groups - 1.0)) / (between - within);
        let (_, selected) = fitted(&tables(folder.path(), 0..ROWS, false)[0], (solver, target), &Run::new());
        let found = feature(&selected, "user.effect");
        for i in (0..ROWS).step_by(101) {
            let others = (0..ROWS).filter(|j| fold(*j) != fold(i));
            let (sum, count) = others.clone().fold((0.0, 0.0), |(sum, count), j| (sum + of(j).1, count + 1.0));
            let mean = sum / count;
            let (sum, count) = others
                .filter(|j| of(*j).0 == of(i).0)
                .fold((0.0, 0.0), |(sum, count), j| (sum + of(j).1 - mean, count + 1.0));
            let expected = sum / (count + prior) / variance.sqrt();
            assert!((found[i as usize] - expected).abs() < 1e-9, "{target} {i}: {} for {expected}", found[i as usize]);
        }
    }
}

#[test]
fn the_model_is_the_same_in_every_format_and_on_any_threads() {
    let folder = tempfile::tempdir().unwrap();
    for job in [("ridge", "y"), ("logistic", "class")] {
        let mut first = None;
        for table in tables(folder.path(), 0..ROWS, false) {
            for run in [Run::new().threads(1), Run::new().threads(3), Run::new().threads(2).memory(96 << 20)] {
                let model = fitted(&table, job, &run).0.model;
                let bytes = Predictor::new(model).unwrap().to_bytes().unwrap();
                assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{job:?}");
            }
        }
    }
}

#[test]
fn users_help_and_noise_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let r2 = |noise: bool, features: &[&str]| {
        let (fit, selection) = fit("ridge", "y");
        let features = features.iter().map(ToString::to_string).collect();
        let table = &tables(folder.path(), 0..ROWS, noise)[0];
        let told = crate::clip::Told::default();
        let selected = table.select(&Selection { features, ..selection }).unwrap();
        let model = Predictor::new(fit.run(&selected, &Run::new().observer(&told)).unwrap().model).unwrap();
        let warnings = told.0.lock().unwrap().clone();
        let new = &tables(folder.path(), ROWS..ROWS + 3000, noise)[0];
        let targets = vec!["y".to_string()];
        let selected = model.select(new, Selection { targets, ..Selection::default() }).unwrap();
        let Evaluation::Regression(scores) = model.evaluate(&selected, &Run::new()).unwrap().0 else { panic!() };
        (scores.scores.r2.unwrap(), model.to_bytes().unwrap(), warnings)
    };
    let ((with, model, _), (without, ..)) = (r2(false, &["!class"]), r2(false, &["x"]));
    assert!(with > without + 0.3, "{with} with the user, {without} without");
    let loaded = Predictor::from_bytes(&model).unwrap();
    let column = &loaded.metadata().encoding.as_ref().unwrap().columns()[0];
    assert!(
        matches!(column.encoding, ColumnEncoding::Effects(_)) && column.to_string().contains("target encoding of 1,4"),
        "{column}"
    );
    let ((with, _, warnings), (without, ..)) = (r2(true, &["!class"]), r2(true, &["x"]));
    assert_eq!(with, without, "a column of noise has no say");
    assert!(
        warnings.iter().any(|warning| warning.contains("do not predict the target better than chance")),
        "{warnings:?}"
    );
}

/// Large target values make the means of users differ by chance; the other folds' error shows it.
#[test]
fn outliers_of_the_target_are_no_effect() {
    let passed = |seed: u64| {
        let random = Stream::new(seed, Purpose::Data, 0);
        let normal = |i: u64| {
            (-2.0 * random.uniform(3 * i).max(1e-12).ln()).sqrt()
                * (std::f64::consts::TAU * random.uniform(3 * i + 1)).cos()
        };
        let users = (0..ROWS).map(|i| Some(format!("u{}", random.uniform_below(3 * i + 2, USERS))));
        let users: ArrayRef = Arc::new(users.collect::<StringArray>());
        let numbers = |of: &dyn Fn(u64) -> f64| -> ArrayRef { Arc::new((0..ROWS).map(of).collect::<Float64Array>()) };
        let (x, y) = (numbers(&|i| (i as f64).sin()), numbers(&|i| (2.5 * normal(i)).exp()));
        let batch = RecordBatch::try_from_iter([("user", users), ("x", x), ("y", y)]).unwrap();
        let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
        let table = Table::from_batches(vec![batch]).unwrap();
        let selected = Run::new().resolve_categories(&table.select(&selection).unwrap()).unwrap();
        selected.feature_names().iter().any(|name| name.starts_with("user.effect"))
    };
    assert!((0..20).filter(|seed| passed(*seed)).count() <= 1);
}

#[test]
fn shards_refuse_effects_and_solvers_without_a_target_leave_them_out() {
    let folder = tempfile::tempdir().unwrap();
    let table = &tables(folder.path(), 0..ROWS, false)[0];
    let (fit, selection) = fit("ridge", "y");
    let fit = fit.set("lambda", 1e-3);
    let job = folder.path().join("job");
    let error =
        ksolve::shards::PreparedJob::prepare(&fit, table, &selection, &Run::new(), &job).unwrap_err().to_string();
    assert!(error.contains("column user") && error.contains("`hash`"), "{error}");
    let all = table.select(&Selection::default()).unwrap();
    let names = Run::new().resolve_categories(&all).unwrap().feature_names();
    assert_eq!(names, ["x", "class=high", "class=low", "y"]);
}

/// An integer weight counts a row that many times: the effects equal the ones of the repeated rows,
/// as the shrinkage towards 0 depends on the number of rows.
#[test]
fn whole_weights_count_the_rows_of_an_effect() {
    let weight = |i: u64| (i * 5 + i / 7) % 4;
    let table = |rows: Vec<u64>| {
        let users: ArrayRef =
            Arc::new(rows.iter().map(|i| Some(format!("u{}", row(*i, false).0))).collect::<StringArray>());
        let numbers =
            |of: &dyn Fn(u64) -> f64| -> ArrayRef { Arc::new(rows.iter().map(|i| of(*i)).collect::<Float64Array>()) };
        let (y, w) = (numbers(&|i| row(i, false).3), numbers(&|i| weight(i) as f64));
        Table::from_batches(vec![RecordBatch::try_from_iter([("user", users), ("y", y), ("w", w)]).unwrap()]).unwrap()
    };
    let repeated = (0..ROWS).flat_map(|i| (0..weight(i)).map(move |_| i)).collect();
    let effects = |table: &Table, fit: Fit| {
        let features = vec!["user".to_string()];
        let selection = Selection { targets: vec!["y".to_string()], features, ..Selection::default() };
        let selected =
            Run::new().resolve_categories(&table.select(&fit.complete_selection(selection).unwrap()).unwrap()).unwrap();
        let ColumnEncoding::Effects(effects) = &selected.encoding().unwrap().columns()[0].encoding else {
            panic!("no effects")
        };
        let effects = serde_json::to_value(effects).unwrap()["effects"].clone();
        effects.as_array().unwrap().iter().map(|effect| effect.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let weighted = effects(&table((0..ROWS).collect()), Fit::ridge().set("weights", "w"));
    let repeated = effects(&table(repeated), Fit::ridge());
    assert_eq!(weighted.len(), repeated.len());
    let off = |(a, b): (&f64, &f64)| (a - b).abs();
    assert!(weighted.iter().zip(&repeated).map(off).fold(0.0, f64::max) < 1e-9);
}
