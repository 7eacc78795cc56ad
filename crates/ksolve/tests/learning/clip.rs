//! Rows outside the training range: clipped to its edge, with a warning.

use ksolve::job::{ElementType, Fit, Run};
use ksolve::job::{Scaling, StageObserver};
use ksolve::predict::Predictor;
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use kstore::pass::{NoObserver, Observer};
use kstore::{Selection, Table};
use std::sync::{Arc, Mutex};

/// Returns two features, the second with a long tail, and a target.
fn row(i: usize) -> [f64; 3] {
    let (a, b) = ((i * 37 % 101) as f64 / 50.0 - 1.0, ((i * 53 % 97) as f64 / 97.0).powi(4));
    [a, b, (3.0 * a).sin() + b]
}

fn table(rows: &[[f64; 3]]) -> Table {
    let column = |at: usize| -> ArrayRef { Arc::new(rows.iter().map(|row| row[at]).collect::<Float64Array>()) };
    let columns = [("a", column(0)), ("b", column(1)), ("y", column(2))];
    Table::from_batches(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap()
}

fn fitted(kernel: &str, clip: bool, precision: ElementType, scaling: Scaling) -> Predictor {
    let fit = Fit::solver("ridge").unwrap().rank(50).set("lambda", 1e-9).clip(clip);
    let fit = fit.kernel(kernel.parse().unwrap()).precision(precision).scaling(scaling);
    let selection = fit.complete_selection(Selection { targets: vec!["y".into()], ..Selection::default() }).unwrap();
    let rows: Vec<_> = (0..800).map(row).collect();
    Predictor::new(fit.run(&table(&rows).select(&selection).unwrap(), &Run::new()).unwrap().model).unwrap()
}

/// Records warnings.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Mutex<Vec<String>>);

impl StageObserver for Told {
    fn start_stage<'s>(&'s self, _: &str, _: Option<u64>) -> Box<dyn Observer + 's> {
        Box::new(NoObserver)
    }
    fn warn(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

/// Returns the predictions for `rows` and the warnings.
fn predicted(model: &Predictor, rows: &[[f64; 3]]) -> (Vec<f64>, String) {
    let (told, mut found) = (Told::default(), Vec::new());
    let selected = model.select(&table(rows), Selection::default()).unwrap();
    let keep = |scores: &ksolve::predict::Scores| {
        found.extend(&scores.scores);
        Ok(())
    };
    model.score_table(&selected, Default::default(), Vec::new(), &Run::new().observer(&told), keep).unwrap();
    let told = told.0.lock().unwrap().join("\n");
    (found, told)
}

#[test]
fn a_stray_row_is_predicted_as_the_nearest_that_was_seen() {
    let stray = [[0.3, 40.0, 0.0], [0.3, 1e300, 0.0], [-77.0, 0.2, 0.0], [0.3, 0.5, 0.0]];
    for precision in [ElementType::F32, ElementType::F64] {
        for scaling in [Scaling::Standard, Scaling::Asinh] {
            let [clips, not] = [true, false].map(|clip| fitted("gaussian(sigma=2)", clip, precision, scaling));
            // training rows: the same predictions, no warning
            let seen: Vec<_> = (0..800).map(row).collect();
            let (found, told) = predicted(&clips, &seen);
            assert_eq!((&found, told.as_str()), (&predicted(&not, &seen).0, ""), "{precision} {scaling}");
            let edge = (0..800).map(|i| row(i)[1]).fold(0.0, f64::max);
            let least = (0..800).map(|i| row(i)[0]).fold(0.0, f64::min);
            let (found, told) = predicted(&clips, &stray);
            let near = [[0.3, edge, 0.0], [0.3, edge, 0.0], [least, 0.2, 0.0], [0.3, 0.5, 0.0]];
            assert_eq!(found, predicted(&not, &near).0, "{precision} {scaling}");
            assert!(told.contains("3 of 4 rows have values outside the training range, 2 of them in b;"), "{told}");
            // a row slightly outside is clipped without a warning
            assert_eq!(predicted(&clips, &[[0.3, edge + 0.01, 0.0]]), (vec![found[0]], String::new()));
            // slices are clipped like tables
            let x: Vec<f64> = stray.iter().flat_map(|row| [row[0], row[1]]).collect();
            let mut out = vec![0.0; 4];
            clips.predict(&x, &mut out).unwrap();
            assert!(out.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-5), "{out:?} {found:?}");
            let again = Predictor::from_bytes(&clips.to_bytes().unwrap()).unwrap();
            assert_eq!(predicted(&again, &stray).0, found);
        }
    }
}

#[test]
fn kernels_that_go_on_outside_are_left_alone() {
    for kernel in ["linear()", "gaussian(sigma=2) + 0.1*linear()", "periodic(period=1) * gaussian(sigma=9)"] {
        let model = fitted(kernel, true, ElementType::F64, Scaling::Standard);
        assert!(model.metadata().ranges.is_empty(), "{kernel}");
    }
    assert_eq!(fitted("matern(nu=1.5, sigma=2)", true, ElementType::F64, Scaling::Standard).metadata().ranges.len(), 2);
}

#[test]
fn rows_that_make_most_of_the_error_are_named() {
    let model = fitted("gaussian(sigma=2)", true, ElementType::F64, Scaling::Standard);
    let told = |odd: &[usize]| {
        let rows = (0..500).map(|i| [row(i)[0], row(i)[1], row(i)[2] + if odd.contains(&i) { 9.0 } else { 0.01 }]);
        let told = Told::default();
        let selection = Selection { targets: vec!["y".into()], ..Selection::default() };
        let selected = model.select(&table(&rows.collect::<Vec<_>>()), selection).unwrap();
        model.evaluate(&selected, &Run::new().observer(&told)).unwrap();
        told.0.lock().unwrap().join("\n")
    };
    assert_eq!(told(&[]), "");
    let text = told(&[17, 303]);
    assert!(text.contains("3 of 500 rows cause 100 % of the squared error: rows ") && text.contains("303"), "{text}");
}
