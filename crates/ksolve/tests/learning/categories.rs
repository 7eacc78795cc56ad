//! Categorical columns, compared with hand-made one-hot tables and the definition of the kernel.

use ksolve::job::Scaling;
use ksolve::job::{ElementType, Fit, Run};
use ksolve::predict::Extras;
use ksolve::predict::Predictor;
use ksolve::{AnyModel, Error};
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use kstore::{Missing, Selection, Table};
use std::sync::Arc;

const CITIES: [&str; 4] = ["Bonn", "Kiel", "Trier", "Ulm"];

/// Returns city, number and target of row `i`.
fn row(i: usize) -> (usize, f64, f64) {
    let (city, x) = (i * 7 % 11 % 4, (i * 37 % 101) as f64 / 50.0 - 1.0);
    (city, x, (city as f64 - 1.0) * (3.0 * x).sin() + city as f64)
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Table {
    Table::from_batches(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap()
}

fn numbers(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn text(n: usize) -> Table {
    let cities: StringArray = (0..n).map(|i| Some(CITIES[row(i).0])).collect();
    let (x, y) = (numbers((0..n).map(|i| row(i).1)), numbers((0..n).map(|i| row(i).2)));
    table(vec![("city", Arc::new(cities)), ("x", x), ("y", y)])
}

/// Builds the same rows with one 0/1 column per city.
fn one_hot(n: usize) -> Table {
    let flag = |city: usize| numbers((0..n).map(move |i| f64::from(u8::from(row(i).0 == city))));
    let names: Vec<String> = CITIES.iter().map(|city| format!("city={city}")).collect();
    let mut columns: Vec<(&str, ArrayRef)> =
        names.iter().enumerate().map(|(i, name)| (name.as_str(), flag(i))).collect();
    columns.extend([("x", numbers((0..n).map(|i| row(i).1))), ("y", numbers((0..n).map(|i| row(i).2)))]);
    table(columns)
}

/// Returns the bytes of a model file after its header.
fn arrays(model: &AnyModel) -> Vec<u8> {
    let bytes = Predictor::new(model.clone()).unwrap().to_bytes().unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].to_vec()
}

#[test]
fn a_model_of_text_has_the_bits_of_one_of_columns_of_0_and_1() {
    let n = 500;
    for (solver, target) in [("ridge", Some("y")), ("svr", Some("y")), ("kpca", None)] {
        for precision in [ElementType::F32, ElementType::F64] {
            // 0/1 flags are unchanged by both scalings
            for scaling in [Scaling::None, Scaling::Minmax] {
                let fit = Fit::solver(solver).unwrap().rank(40).precision(precision).scaling(scaling);
                let fit = if target.is_some() { fit.set("lambda", 1e-5) } else { fit };
                let fitted = |table: &Table, threads: usize| {
                    let targets: Vec<&str> = target.into_iter().collect();
                    let selection = Selection {
                        targets: targets.iter().map(ToString::to_string).collect(),
                        ..Selection::default()
                    };
                    let selection = match target {
                        Some(_) => fit.complete_selection(selection).unwrap(),
                        None => Selection { features: ["!y".to_string()].into(), ..selection },
                    };
                    fit.run(&table.select(&selection).unwrap(), &Run::new().threads(threads)).unwrap().model
                };
                let (found, by_hand) = (fitted(&text(n), 1), fitted(&one_hot(n), 1));
                assert_eq!(found.metadata().features, by_hand.metadata().features);
                assert!(found.metadata().encoding.is_some() && by_hand.metadata().encoding.is_none());
                assert!(arrays(&found) == arrays(&by_hand), "{solver} {precision} {scaling}");
                assert!(arrays(&found) == arrays(&fitted(&text(n), 3)), "{solver} {precision} {scaling}");
            }
        }
    }
}

#[test]
fn scaling_leaves_flags_alone() {
    for scaling in [Scaling::Standard, Scaling::Asinh] {
        let fit = Fit::ridge().rank(30).set("lambda", 1e-5).precision(ElementType::F64).scaling(scaling);
        let fitted = fit.fit_table(&text(300), &["y"], &Run::new()).unwrap();
        let AnyModel::F64(model) = &fitted.model else { panic!() };
        let scaler = &model.scaler;
        for flag in 0..4 {
            assert_eq!(scaler.apply(flag, 0.0), 0.0);
            assert!((scaler.apply(flag, 1.0) - 1.0).abs() < 1e-15, "{scaling}");
        }
        assert_ne!((scaler.centre[4], scaler.scale[4]), (0.0, 1.0));
    }
}

/// Solves a x = b by Gaussian elimination with partial pivoting.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| a[*i][k].abs().total_cmp(&a[*j][k].abs())).unwrap();
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in k + 1..n {
            let (above, below) = a.split_at_mut(i);
            let factor = below[0][k] / above[k][k];
            below[0].iter_mut().zip(&above[k]).skip(k).for_each(|(value, pivot)| *value -= factor * pivot);
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        b[k] = (b[k] - (k + 1..n).map(|j| a[k][j] * b[j]).sum::<f64>()) / a[k][k];
    }
    b
}

/// k(i, j) = exp(-(x_i - x_j)² / 2) if the cities are equal, else 0; no scaling, no intercept.
#[test]
fn a_kernel_of_equal_categories_is_that_of_the_definition() {
    let (n, lambda) = (90, 1e-3);
    let kernel = |i: usize, j: usize| {
        let ((a, x, _), (b, z, _)) = (row(i), row(j));
        if a == b { (-(x - z).powi(2) / 2.0).exp() } else { 0.0 }
    };
    let matrix = (0..n).map(|i| (0..n).map(|j| kernel(i, j) + if i == j { n as f64 * lambda } else { 0.0 }).collect());
    let alpha = solve(matrix.collect(), (0..n).map(|i| row(i).2).collect());
    for text_of_kernel in ["gaussian(sigma=1, on=!city) * delta(on=city)", "gaussian(sigma=1, on=x) * delta(on=[city])"]
    {
        let fit = Fit::ridge().kernel(text_of_kernel.parse().unwrap()).map("exact".parse().unwrap());
        let fit = fit.scaling(Scaling::None).precision(ElementType::F64).set("lambda", lambda).set("intercept", "none");
        let fitted = fit.fit_table(&text(n), &["y"], &Run::new()).unwrap();
        let predictor = Predictor::new(fitted.model).unwrap();
        let selected = predictor.select(&text(n + 40), Selection::default()).unwrap();
        let mut found = Vec::new();
        let keep = |part: &ksolve::predict::Scores| {
            found.extend_from_slice(&part.scores);
            Ok(())
        };
        predictor.score_table(&selected, Extras::default(), Vec::new(), &Run::new(), keep).unwrap();
        assert_eq!(found.len(), n + 40);
        for (i, found) in found.iter().enumerate() {
            let expected: f64 = (0..n).map(|j| alpha[j] * kernel(i, j)).sum();
            assert!((found - expected).abs() < 1e-9, "{i}: {found} {expected}");
        }
    }
}

#[test]
fn a_saved_model_knows_its_values_and_how_missing_ones_are_treated() {
    let n = 300;
    let cities: StringArray = (0..n).map(|i| (i % 29 != 3).then_some(CITIES[row(i).0])).collect();
    let (x, y) = (numbers((0..n).map(|i| row(i).1)), numbers((0..n).map(|i| row(i).2)));
    let train = table(vec![("city", Arc::new(cities)), ("x", x), ("y", y)]);
    let fit = Fit::ridge().rank(40).set("lambda", 1e-5).precision(ElementType::F64);
    let select = |missing| {
        let selection = Selection { targets: vec!["y".to_string()], missing, ..Selection::default() };
        train.select(&fit.complete_selection(selection).unwrap()).unwrap()
    };
    let refused = fit.run(&select(Missing::Error), &Run::new()).unwrap_err().to_string();
    assert!(refused.contains("row 3") && refused.contains("\"city\" is missing"), "{refused}");
    let model = fit.run(&select(Missing::Indicator), &Run::new()).unwrap().model;
    assert_eq!(model.metadata().features[4..], ["city=(missing)", "x"]);
    assert_eq!(model.metadata().missing(), Missing::Indicator);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model.save(&path).unwrap();
    let loaded = Predictor::load(&path).unwrap();
    assert_eq!(loaded.metadata(), model.metadata());
    let cities: StringArray = [Some("Oslo"), None, Some("Ulm")].into_iter().collect();
    let new = table(vec![("x", numbers([0.5, 0.5, 0.5].into_iter())), ("city", Arc::new(cities))]);
    let scores = |selection: Selection| {
        let (mut scores, selected) = (Vec::new(), loaded.select(&new, selection).unwrap());
        let keep = |part: &ksolve::predict::Scores| {
            scores.extend_from_slice(&part.scores);
            Ok(())
        };
        loaded
            .score_table(&selected, Extras::default(), Vec::new(), &Run::new(), keep)
            .map(|_| (scores, selected.unseen_value_counts()))
    };
    let (found, unseen) = scores(Selection::default()).unwrap();
    assert_eq!(unseen, [("city".to_string(), 1)]);
    // features of the three rows, one-hot coded by hand
    let mut by_hand = [0.0; 3];
    let x = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0, 0.0, 0.5]];
    loaded.predict(&x.concat(), &mut by_hand).unwrap();
    assert_eq!(found, by_hand);
    assert!(found[0] != found[1] && found[1] != found[2]);
    // the explicit setting overrides the stored one
    assert_eq!(scores(Selection { missing: Missing::Drop, ..Selection::default() }).unwrap().0, [found[0], found[2]]);
    // a file whose feature names contradict its columns
    let AnyModel::F64(mut odd) = model else { panic!() };
    odd.metadata.features.swap(0, 1);
    odd.save(&path).unwrap();
    assert!(matches!(Predictor::load(&path), Err(Error::Damaged { .. })));
}
