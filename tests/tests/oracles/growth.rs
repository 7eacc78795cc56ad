//! New rows of a growing fit, against dense solves with the landmarks alone.

use crate::solver_laws::table;
use crate::solvers::close;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use kmodel::model::Basis;
use ksolve::AnyModel;
use ksolve::growth::{Growth, Verdict};
use ksolve::job::{ElementType, Fit, Run, Scaling};
use ksolve::predict::{OnlineUpdate, Predictor};
use kstore::Selection;

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "gaussian(sigma=0.7)";

fn rows(n: usize, shift: f64, random: &mut Lcg) -> (Rows, Vec<f64>) {
    let x: Rows = (0..n).map(|_| vec![shift + random.normal(), random.normal()]).collect();
    let y = x.iter().map(|x| x[0].sin() + x[1] + 0.1 * random.normal()).collect();
    (x, y)
}

/// Learns rows; returns the update, and the predictor of its model.
fn learn(predictor: &Predictor, (x, y): &(Rows, Vec<f64>)) -> (OnlineUpdate, Predictor) {
    let selection = Selection { targets: vec!["y".into()], ..Selection::default() };
    let selected = predictor.select(&table(x, y), selection).unwrap();
    let update = predictor.learn(&selected, 1.0, &Run::new().threads(1)).unwrap();
    let next = Predictor::new(update.model.clone()).unwrap();
    (update, next)
}

/// Computes k(x, x) minus the squared norm of the projection on `landmarks`, with k(x, x) = 1.
fn residual(x: &[f64], landmarks: &[Vec<f64>]) -> f64 {
    let k = kernels::kernel(KERNEL);
    let values: Vec<f64> = landmarks.iter().map(|z| k(x, z)).collect();
    let coefficients = solve(&kernel_matrix(landmarks, &*k), &values);
    1.0 - values.iter().zip(&coefficients).map(|(a, b)| a * b).sum::<f64>()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

fn outside(x: &Rows, fit: &Rows, column: usize) -> [u64; 2] {
    let values = || fit.iter().map(|row| row[column]);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let count = |is: &dyn Fn(f64) -> bool| x.iter().filter(|row| is(row[column])).count() as u64;
    [count(&|v| v < low), count(&|v| v > high)]
}

#[test]
fn updates_compare_their_rows_with_the_rows_of_the_fit() {
    let mut random = Lcg(7);
    let (fit_rows, same, shifted) =
        (rows(300, 0.0, &mut random), rows(400, 0.0, &mut random), rows(400, 2.5, &mut random));
    let fit = Fit::ridge().scaling(Scaling::None).precision(ElementType::F64).kernel(KERNEL.parse().unwrap());
    let fit = fit.rank(40).set("lambda", 1e-3).set("std", true).clip(true);
    let fitted = fit.fit_table(&table(&fit_rows.0, &fit_rows.1), &["y"], &Run::new().threads(1)).unwrap();
    let AnyModel::F64(model) = &fitted.model else { panic!("f64") };
    let Basis::Landmarks { points, .. } = &model.basis else { panic!("landmarks") };
    let landmarks: Rows = points.chunks(2).map(<[f64]>::to_vec).collect();
    // a landmark is left by the other landmarks
    let left_out = |i: usize| {
        let others: Rows = [&landmarks[..i], &landmarks[i + 1..]].concat();
        residual(&landmarks[i], &others)
    };
    let of_fit = fit_rows.0.iter().map(|x| residual(x, &landmarks)).sum::<f64>();
    let expected_fit = (of_fit + (0..landmarks.len()).map(left_out).sum::<f64>()) / 300.0;
    let predictor = Predictor::new(fitted.model.clone()).unwrap();
    let check = |growth: &Growth, x: &Rows| {
        let (mean, deviation) = mean_and_deviation(&x.iter().map(|x| residual(x, &landmarks)).collect::<Vec<_>>());
        let report = growth.report("fit anew");
        let missed = report.missed.unwrap();
        close(missed.new_rows, mean, 1e-7, "missed by the landmarks");
        close(missed.fit_rows.unwrap(), expected_fit, 1e-6, "missed of the fit");
        let n = x.len() as f64;
        close(missed.standard_error.unwrap(), deviation * (1.0 / n + 1.0 / 300.0).sqrt(), 1e-7, "standard error");
        for column in 0..2 {
            let range = report.ranges.iter().find(|range| range.range.column == format!("x{column}"));
            let counts = range.map_or([0; 2], |range| [range.range.below, range.range.above]);
            assert_eq!(counts, outside(x, &fit_rows.0, column), "column {column}");
        }
        report
    };
    let (update, after_same) = learn(&predictor, &same);
    let report = check(&update.growth, &same.0);
    assert_eq!(report.verdict, Verdict::Fits, "{report:?}");
    assert!(report.ranges.iter().all(|range| !range.moved), "{report:?}");
    // the model has the comparison of all learned rows with the ranges of the fit
    let (update, after_shifted) = learn(&after_same, &shifted);
    let report = check(&update.growth, &shifted.0);
    assert_eq!(report.verdict, Verdict::Outgrown, "{report:?}");
    assert!(report.ranges[0].range.column == "x0" && report.ranges[0].moved, "{report:?}");
    check(after_shifted.metadata().growth.as_ref().unwrap(), &[same.0, shifted.0.clone()].concat());
    let (update, _) = learn(&after_shifted, &shifted);
    check(&update.growth, &shifted.0);
}
