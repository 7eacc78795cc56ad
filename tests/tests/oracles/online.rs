//! Online regression compared with dense recursions in kernel values, and with ridge regression.

use crate::solver_laws::{bytes, run, table};
use crate::solvers::{close, golden};
use kmill_tests::dense::solve;
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use ksolve::AnyModel;
use ksolve::job::{Candidates, ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::predict::{Extras, OnlineUpdate, Predictor, Scores};
use kstore::{SelectedTable, Selection, Table};
use std::ops::Range;

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "gaussian(sigma=1.5)";
const LAMBDA: f64 = 1e-3;

fn plain(solver: &str, rank: usize) -> Fit {
    let fit = Fit::solver(solver).unwrap().scaling(Scaling::None).precision(ElementType::F64).rank(rank);
    fit.kernel(KERNEL.parse().unwrap()).set("lambda", LAMBDA)
}

fn fit(solver: &str, n: usize, rank: usize) -> Fit {
    let fit = plain(solver, rank).landmarks(LandmarkSource::Scheme("uniform".to_string()));
    fit.candidates(Candidates::Rows(n as u64))
}

fn rows(n: usize) -> (Rows, Vec<f64>) {
    let mut random = Lcg(11);
    let x = random.normals(n, 2);
    let y = x.iter().map(|x| 5.0 + 2.0 * x[0].sin() + x[0] * x[1] + 0.1 * random.normal()).collect();
    (x, y)
}

fn predicted(fitted: Fitted, x: &Rows) -> Vec<f64> {
    let predictor = Predictor::new(fitted.model).unwrap();
    let mut out = vec![0.0; x.len() * predictor.output_count()];
    predictor.predict(&x.concat(), &mut out).unwrap();
    out
}

fn running(fitted: &Fitted) -> Vec<f64> {
    fitted.report.figures.iter().find(|figure| figure.name == "running mse of each pass").unwrap().values.clone()
}

/// Runs dense least mean squares: dual coefficients, intercept, and running MSE of each pass.
fn dual_lms(x: &Rows, y: &[f64], rate: f64, lambda: f64, one: f64, passes: usize) -> (Vec<f64>, f64, Vec<f64>) {
    let k = kernels::kernel(KERNEL);
    let (mut alpha, mut c, mut errors) = (vec![0.0; x.len()], 0.0, Vec::new());
    for _ in 0..passes {
        let mut sum = 0.0;
        for i in 0..x.len() {
            let error = y[i] - x.iter().zip(&alpha).map(|(z, a)| a * k(&x[i], z)).sum::<f64>() - c;
            let step = rate / (k(&x[i], &x[i]) + one + lambda);
            alpha.iter_mut().for_each(|a| *a *= 1.0 - step * lambda);
            alpha[i] += step * error;
            c += step * error * one;
            sum += error * error;
        }
        errors.push(sum / x.len() as f64);
    }
    (alpha, c, errors)
}

/// Predicts `new` by the minimiser of
/// Σ_j f^(i−1−j) (y_j − w·φ_j − c)² + f^i (total ‖w‖² + 1e-9 c²) over the first i rows, from dense
/// kernel systems; c = 0 if `one` is 0.
fn weighted_ridge(x: &Rows, y: &[f64], i: usize, f: f64, (total, one): (f64, f64), new: &[f64]) -> f64 {
    if i == 0 {
        return 0.0;
    }
    let k = kernels::kernel(KERNEL);
    let entry = |a: usize, b: usize| k(&x[a], &x[b]) + if a == b { total * f.powi(a as i32 + 1) } else { 0.0 };
    let system: Rows = (0..i).map(|a| (0..i).map(|b| entry(a, b)).collect()).collect();
    let (of_y, of_one) = (solve(&system, &y[..i]), solve(&system, &vec![1.0; i]));
    let c = one * of_y.iter().sum::<f64>() / (of_one.iter().sum::<f64>() + 1e-9 / total);
    let alpha = of_y.iter().zip(&of_one).map(|(a, b)| a - c * b);
    alpha.zip(x).map(|(a, z)| a * k(new, z)).sum::<f64>() + c
}

#[test]
fn least_mean_squares_is_its_dense_recursion() {
    let (golden, (x, y)) = (golden(), rows(80));
    let new: Rows = golden.new.iter().map(|x| x[..2].to_vec()).collect();
    for (rate, lambda, intercept, passes) in [(0.5, 1e-3, "free", 1), (1.0, 0.3, "none", 3), (0.1, 1e-6, "free", 4)] {
        let fit = fit("online", x.len(), x.len()).set("rule", "lms").set("rate", rate).set("lambda", lambda);
        let fit = fit.set("intercept", intercept).set("passes", passes);
        let fitted = run(&fit, &table(&x, &y), 2).unwrap();
        let (alpha, c, errors) = dual_lms(&x, &y, rate, lambda, f64::from(intercept == "free"), passes);
        let found = running(&fitted);
        assert_eq!(found.len(), passes);
        found.iter().zip(&errors).for_each(|(found, expected)| close(*found, *expected, 1e-8, "running mse"));
        let k = kernels::kernel(KERNEL);
        for (got, new) in predicted(fitted, &new).iter().zip(&new) {
            let expected = x.iter().zip(&alpha).map(|(z, a)| a * k(new, z)).sum::<f64>() + c;
            close(*got, expected, 1e-7, "prediction");
        }
    }
}

#[test]
fn recursive_least_squares_is_ridge_regression_on_the_rows_so_far() {
    let (golden, (x, y)) = (golden(), rows(150));
    let new: Rows = golden.new.iter().map(|x| x[..2].to_vec()).collect();
    let n = x.len();
    for (forgetting, intercept) in [(1.0, "none"), (1.0, "free"), (0.97, "none"), (0.98, "free")] {
        let fit = fit("online", n, n).set("forgetting", forgetting).set("intercept", intercept);
        let fitted = run(&fit, &table(&x, &y), 2).unwrap();
        let penalty = (n as f64 * LAMBDA, f64::from(intercept == "free"));
        let errors: Vec<f64> = (0..n).map(|i| y[i] - weighted_ridge(&x, &y, i, forgetting, penalty, &x[i])).collect();
        let expected = errors.iter().map(|error| error * error).sum::<f64>() / n as f64;
        close(running(&fitted)[0], expected, 1e-6, &format!("running mse, {forgetting}, {intercept}"));
        for (got, new) in predicted(fitted, &new).iter().zip(&new) {
            close(
                *got,
                weighted_ridge(&x, &y, n, forgetting, penalty, new),
                1e-6,
                &format!("{forgetting}, {intercept}"),
            );
        }
    }
}

#[test]
fn one_pass_ends_at_ridge_regression_and_two_at_that_of_the_table_twice() {
    let (x, y) = rows(400);
    for (intercept, lambda) in [("none", 1e-4), ("free", 1e-4), ("free", 1e-6)] {
        let ours = fit("online", 400, 40).set("intercept", intercept).set("lambda", lambda);
        let ridge = fit("ridge", 400, 40).set("intercept", intercept).set("lambda", lambda).set("folds", "none");
        let expected = predicted(run(&ridge, &table(&x, &y), 1).unwrap(), &x);
        let once = run(&ours, &table(&x, &y), 1).unwrap();
        assert_eq!(once.report.lambda, Some(lambda));
        let got = predicted(once, &x);
        got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 1e-6, intercept));
        // twice the rows correspond to half the lambda per row
        let half = ridge.set("lambda", lambda / 2.0);
        let expected = predicted(run(&half, &table(&x, &y), 1).unwrap(), &x);
        let got = predicted(run(&ours.set("passes", 2), &table(&x, &y), 1).unwrap(), &x);
        got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 1e-6, "two passes"));
    }
}

/// 3,000 rows are several tiles, read by several threads; they are learned in table order.
#[test]
fn the_order_of_the_rows_decides_and_threads_do_not() {
    let (x, y) = rows(3000);
    let reversed = |values: &[f64]| values.iter().rev().copied().collect::<Vec<f64>>();
    let backwards: Rows = x.iter().rev().cloned().collect();
    for rule in ["rls", "lms"] {
        let fit = fit("online", 3000, 30).set("rule", rule);
        let of = |threads: usize, fit: &Fit| run(fit, &table(&x, &y), threads).unwrap();
        let one = of(1, &fit);
        for threads in [2, 3] {
            let other = of(threads, &fit);
            assert_eq!(one.report.figures, other.report.figures, "{rule}");
            assert!(bytes(&one.model) == bytes(&other.model), "{rule} on {threads} threads");
        }
        let backwards = run(&fit, &table(&backwards, &reversed(&y)), 2).unwrap();
        assert!(running(&one) != running(&backwards), "{rule}");
        // features in f32 differ by rounding only
        let narrow = predicted(of(2, &fit.clone().precision(ElementType::F32)), &x);
        let wide = predicted(one, &x);
        narrow.iter().zip(&wide).for_each(|(narrow, wide)| close(*narrow, *wide, 1e-3, rule));
    }
}

/// With forgetting, the model follows a target that changes halfway.
#[test]
fn what_forgets_follows_a_target_that_changes() {
    let (x, mut y) = rows(2000);
    y.iter_mut().skip(1000).for_each(|y| *y = -*y);
    let late = |fit: Fit| {
        let got = predicted(run(&fit, &table(&x, &y), 1).unwrap(), &x);
        (1500..2000).map(|i| (got[i] - y[i]).powi(2)).sum::<f64>() / 500.0
    };
    let fit = fit("online", 2000, 25);
    let all = late(fit.clone());
    assert!(late(fit.clone().set("forgetting", 0.99)) < 0.1 * all, "{all}");
    assert!(late(fit.set("rule", "lms")) < 0.5 * all, "{all}");
}

#[test]
fn several_targets_are_learned_as_each_alone() {
    let (x, y) = rows(500);
    let other: Vec<f64> = x.iter().map(|x| x[0] * x[0] - x[1]).collect();
    // the second target is the column x2
    let wide: Rows = x.iter().zip(&other).map(|(x, other)| vec![x[0], x[1], *other]).collect();
    for rule in ["rls", "lms"] {
        let fit = fit("online", 500, 30).set("rule", rule);
        let both = fit.on(&table(&wide, &y), &["y", "x2"], &Run::new().memory(1 << 30)).unwrap();
        let error = running(&both)[0];
        let both = predicted(both, &x);
        let alone = [&y, &other].map(|y| run(&fit, &table(&x, y), 1).unwrap());
        close(error, (running(&alone[0])[0] + running(&alone[1])[0]) / 2.0, 1e-9, rule);
        for (j, alone) in alone.into_iter().enumerate() {
            let alone = predicted(alone, &x);
            both.chunks(2).zip(&alone).for_each(|(both, alone)| close(both[j], *alone, 1e-9, rule));
        }
    }
}

/// Continues learning with the rows of `table`, starting from a fitted model.
fn learned(model: &AnyModel, table: &Table, forgetting: f64, threads: usize) -> OnlineUpdate {
    let predictor = Predictor::new(model.clone()).unwrap();
    let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
    let selected = predictor.select(table, selection).unwrap();
    predictor.learn(&selected, forgetting, &Run::new().memory(1 << 30).threads(threads)).unwrap()
}

fn part(x: &Rows, y: &[f64], rows: Range<usize>) -> Table {
    table(&x[rows.clone()].to_vec(), &y[rows])
}

fn unlabelled(x: &Rows) -> SelectedTable {
    let selection = Selection { features: vec!["x*".to_string()], ..Selection::default() };
    table(x, &vec![0.0; x.len()]).select(&selection).unwrap()
}

/// A fit with the first 30 rows as landmarks.
fn on_landmarks(solver: &str, x: &Rows) -> Fit {
    let landmarks = LandmarkSource::Rows(Box::new(unlabelled(&x[..30].to_vec())));
    plain(solver, 30).landmarks(landmarks)
}

fn predictions(model: &AnyModel, selected: &SelectedTable) -> (Vec<f64>, Vec<f64>) {
    let predictor = Predictor::new(model.clone()).unwrap();
    let (mut scores, mut deviations) = (Vec::new(), Vec::new());
    let extras = Extras { std: true, ..Extras::default() };
    let deliver = |part: &Scores| {
        scores.extend_from_slice(&part.scores);
        deviations.extend(predictor.standard_deviations(part));
        Ok(())
    };
    predictor.score_table(selected, extras, Vec::new(), &Run::new().memory(1 << 30), deliver).unwrap();
    (scores, deviations)
}

/// Ridge regression on some rows, updated row by row with the others, gives the predictions and
/// standard deviations of ridge regression on all rows with the same landmarks.
#[test]
fn a_fit_that_goes_on_ends_at_the_fit_of_all_rows() {
    let (x, y) = rows(900);
    let (first, all) = (400, 900);
    let selected = unlabelled(&x);
    for (solver, intercept) in
        [("ridge", "free"), ("ridge", "none"), ("ridge", "penalised"), ("online", "free"), ("online", "none")]
    {
        let of = |solver: &str, n: usize| {
            let fit = on_landmarks(solver, &x);
            let fit = if solver == "ridge" { fit.set("folds", "none") } else { fit };
            // keeps the total lambda n of the first rows
            let lambda = LAMBDA * first as f64 / n as f64;
            run(&fit.set("intercept", intercept).set("std", true).set("lambda", lambda), &part(&x, &y, 0..n), 2)
                .unwrap()
        };
        let began = of(solver, first);
        let went_on = learned(&began.model, &part(&x, &y, first..all), 1.0, 2);
        assert_eq!(
            (went_on.rows, went_on.model.metadata().rows, went_on.model.metadata().online_rows),
            (500, 400, 500)
        );
        let whole = of("ridge", all);
        let ((got, spread), (expected, of_all)) =
            (predictions(&went_on.model, &selected), predictions(&whole.model, &selected));
        let what = format!("{solver}, {intercept}");
        got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 1e-6, &what));
        // the mean residual of the landmarks still comes from the first rows
        spread.iter().zip(&of_all).for_each(|(got, expected)| close(*got, *expected, 0.05, &what));
        // the running error is a stream's: two parts give the same as one
        let middle = learned(&began.model, &part(&x, &y, first..650), 1.0, 1);
        let rest = learned(&middle.model, &part(&x, &y, 650..all), 1.0, 3);
        close((middle.running_mse + rest.running_mse) / 2.0, went_on.running_mse, 1e-7, &what);
        let (parts, _) = predictions(&rest.model, &selected);
        parts.iter().zip(&got).for_each(|(parts, got)| close(*parts, *got, 1e-7, &what));
        // bit-identical for any number of threads
        let alone = learned(&began.model, &part(&x, &y, first..all), 1.0, 1);
        assert!(bytes(&alone.model) == bytes(&went_on.model), "{what}");
    }
}

/// Rows outside the training ranges are learned, and later predicted, unclipped.
#[test]
fn a_fit_that_goes_on_learns_rows_beyond_its_ranges() {
    let x: Rows = (0..400).map(|i| vec![f64::from(i) / 200.0]).collect();
    let y: Vec<f64> = x.iter().map(|x| (6.0 * x[0]).sin()).collect();
    let kernel = "gaussian(sigma=1)".parse().unwrap();
    let fit = plain("ridge", 60).set("lambda", 1e-6).kernel(kernel).set("std", true).clip(true);
    let first = run(&fit, &part(&x, &y, 0..200), 1).unwrap();
    let more = learned(&first.model, &part(&x, &y, 200..400), 1.0, 1);
    assert_eq!(more.model.metadata().ranges, [[0.0, 1.995]]);
    let predictor = Predictor::new(more.model).unwrap();
    let mut out = vec![0.0; 400];
    predictor.predict(&x.concat(), &mut out).unwrap();
    let error = out.iter().zip(&y).map(|(got, y)| (got - y).powi(2)).sum::<f64>() / 400.0;
    // NumPy, with the same ridge regression on the same kernel sections: 0.0162; clipped rows: 0.5
    assert!((error - 0.0162).abs() < 1e-3, "{error}");
}

/// With forgetting, an update equals weighted ridge regression and follows a changing target.
#[test]
fn a_fit_that_goes_on_may_forget() {
    let (x, mut y) = rows(1200);
    y.iter_mut().skip(600).for_each(|y| *y = -*y);
    let began = run(&fit("online", 600, 25).set("std", true), &part(&x, &y, 0..600), 1).unwrap();
    let late = |forgetting: f64| {
        let model = learned(&began.model, &part(&x, &y, 600..1200), forgetting, 1).model;
        let got = predictions(&model, &unlabelled(&x)).0;
        (900..1200).map(|i| (got[i] - y[i]).powi(2)).sum::<f64>() / 300.0
    };
    assert!(late(0.99) < 0.05 * late(1.0), "{} {}", late(0.99), late(1.0));
    // forgetting in two parts equals forgetting in one run
    let of = |n: usize| {
        let fit = on_landmarks("online", &x).set("std", true).set("forgetting", 0.99);
        run(&fit.set("lambda", LAMBDA * 600.0 / n as f64), &part(&x, &y, 0..n), 1).unwrap()
    };
    let selected = unlabelled(&x);
    let parts = predictions(&learned(&of(600).model, &part(&x, &y, 600..1200), 0.99, 1).model, &selected);
    let whole = predictions(&of(1200).model, &selected);
    parts.0.iter().zip(&whole.0).for_each(|(parts, whole)| close(*parts, *whole, 1e-6, "prediction"));
    // the mean residual of the landmarks still comes from the first 600 rows
    parts.1.iter().zip(&whole.1).for_each(|(parts, whole)| close(*parts, *whole, 0.01, "deviation"));
}

#[test]
fn a_model_without_variances_cannot_go_on() {
    let (x, y) = rows(60);
    let plain = run(&fit("ridge", 60, 20).set("folds", "none"), &table(&x, &y), 1).unwrap();
    let predictor = Predictor::new(plain.model).unwrap();
    let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
    let selected = predictor.select(&table(&x, &y), selection).unwrap();
    let said = |forgetting: f64| predictor.learn(&selected, forgetting, &Run::new()).unwrap_err().to_string();
    assert!(said(1.0).contains("fit ridge or online with `std`"), "{}", said(1.0));
    assert!(said(0.0).contains("`forgetting` 0"), "{}", said(0.0));
    let lms =
        run(&fit("online", 60, 20).set("rule", "lms").set("std", true), &table(&x, &y), 1).unwrap_err().to_string();
    assert!(lms.contains("only `rule` rls computes"), "{lms}");
}

#[test]
fn what_it_cannot_do_is_refused_in_a_sentence() {
    let (x, y) = rows(60);
    let said = |fit: Fit| run(&fit, &table(&x, &y), 1).unwrap_err().to_string();
    let fit = || fit("online", 60, 60);
    let text = said(fit().set("rate", 0.5));
    assert!(text.contains("`rate` 0.5: only `rule` lms reads it"), "{text}");
    let text = said(fit().set("rule", "lms").set("forgetting", 0.9));
    assert!(text.contains("`forgetting` 0.9: only `rule` rls reads it"), "{text}");
    let text = said(fit().set("lambda", 1e-300));
    assert!(text.starts_with("`lambda` 1e-300") && text.contains("raise it, or lower `rank`"), "{text}");
    let text = said(fit().set("forgetting", 1e-6));
    assert!(text.starts_with("`forgetting` 0.000001") && text.contains("raise `lambda`"), "{text}");
    for (name, value) in [("rate", "1.5"), ("forgetting", "0"), ("passes", "0"), ("folds", "5"), ("rule", "sgd")] {
        let text = said(fit().set(name, value));
        assert!(text.contains(&format!("`{name}`")) && text.len() > 30, "{text}");
    }
}
