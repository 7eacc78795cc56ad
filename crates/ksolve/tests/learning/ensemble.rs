//! The mean of several fits as one model.

use kapprox::Kernel;
use kfit::request::{MetricForm, MetricSource};
use ksolve::job::{ElementType, Fit, Run};
use ksolve::predict::Predictor;
use kstore::Table;

const D: usize = 3;

fn rows(count: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let x: Vec<f64> = (0..count * D).map(|_| 2.0 * draw() - 1.0).collect();
    let y = x.chunks(D).map(|x| (3.0 * x[0]).sin() + f64::from(u8::from(x[1] > 0.2)) + 0.1 * draw()).collect();
    (x, y)
}

fn kernel(text: &str) -> Kernel {
    text.parse().unwrap()
}

fn exact(first: &str, further: &[&str]) -> Fit {
    let members = further.iter().map(|text| kernel(text)).collect();
    Fit::ridge().map("exact".parse().unwrap()).kernel(kernel(first)).with_members(members)
}

fn predictions(fit: &Fit, run: &Run<'_>, new: &[f64]) -> (Vec<f64>, Predictor) {
    let (x, y) = rows(200, 1);
    let fitted = fit.fit_table(&Table::from_rows(&x, D, &y).unwrap(), &["y"], run).unwrap();
    let predictor = Predictor::new(fitted.model).unwrap();
    let mut out = vec![0.0; new.len() / D];
    predictor.predict(new, &mut out).unwrap();
    (out, predictor)
}

#[test]
fn the_prediction_is_the_mean_of_the_members() {
    let kernels =
        ["matern(nu=1.5, sigma=2) + laplacian(sigma=3)", "laplacian(sigma=2, scale=quantile)", "gaussian(sigma=1)"];
    let new = rows(80, 7).0;
    for precision in [ElementType::F64, ElementType::F32] {
        let with = |fit: Fit| fit.set("lambda", "1e-3").precision(precision);
        let (mean, model) = predictions(&with(exact(kernels[0], &kernels[1..])), &Run::new(), &new);
        let singles: Vec<Vec<f64>> =
            kernels.iter().map(|text| predictions(&with(exact(text, &[])), &Run::new(), &new).0).collect();
        for (i, mean) in mean.iter().enumerate() {
            let expected = singles.iter().map(|single| single[i]).sum::<f64>() / 3.0;
            assert!((mean - expected).abs() < 1e-5, "{mean} {expected}");
        }
        // the report's score on the training rows is computed from the predictions of the mean
        let fitted = with(exact(kernels[0], &kernels[1..]));
        let (x, y) = rows(200, 1);
        let fitted = fitted.fit_table(&Table::from_rows(&x, D, &y).unwrap(), &["y"], &Run::new()).unwrap();
        let (train, mut out) = (fitted.report.train.unwrap(), vec![0.0; 200]);
        model.predict(&x, &mut out).unwrap();
        let mse = out.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 200.0;
        assert!((train.mse / mse - 1.0).abs() < 1e-3, "{} {mse}", train.mse);
        // one row alone
        let mut out = [0.0];
        model.predict(&new[..D], &mut out).unwrap();
        assert_eq!(out[0], mean[0]);
        let bytes = model.to_bytes().unwrap();
        let again = Predictor::from_bytes(&bytes).unwrap();
        let mut out = vec![0.0; 80];
        again.predict(&new, &mut out).unwrap();
        assert_eq!(out, mean);
        assert_eq!(again.metadata(), model.metadata());
        // older versions of kmill must not read only the first member
        assert!(String::from_utf8_lossy(&bytes[..4_000_usize.min(bytes.len())]).contains("members"));
        assert!(String::from_utf8_lossy(&bytes).contains("\\\"format_version\\\":2"));
        let single = predictions(&with(exact(kernels[2], &[])), &Run::new(), &new).1.to_bytes().unwrap();
        assert!(String::from_utf8_lossy(&single).contains("\\\"format_version\\\":1"));
    }
}

#[test]
fn each_member_learns_its_own_kernel() {
    let new = rows(300, 9);
    let learn = |fit: Fit| fit.metric(MetricSource::Learned(MetricForm::Likelihood)).precision(ElementType::F64);
    let kernels = ["matern(nu=1.5) + laplacian()", "laplacian() + laplacian(scale=quantile)"];
    let fit = learn(exact(kernels[0], &kernels[1..]));
    let (mean, model) = predictions(&fit, &Run::new().threads(1).memory(1 << 30), &new.0);
    let metadata = model.metadata();
    assert!(metadata.kernel.contains("sigma=[") && metadata.members[0].kernel.contains("scale=["), "{metadata:?}");
    assert_eq!(metadata.members[0].functions, 200);
    let singles: Vec<Vec<f64>> =
        kernels.iter().map(|text| predictions(&learn(exact(text, &[])), &Run::new(), &new.0).0).collect();
    let error = |out: &[f64]| out.iter().zip(&new.1).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 300.0;
    for (i, mean) in mean.iter().enumerate() {
        assert!((mean - 0.5 * (singles[0][i] + singles[1][i])).abs() < 1e-9);
    }
    assert!(error(&mean) < singles.iter().map(|single| error(single)).fold(0.0, f64::max));
    // the same bits for other threads and memory
    let other = predictions(&fit, &Run::new().threads(3).memory(300 << 20), &new.0).1;
    assert!(model.to_bytes().unwrap() == other.to_bytes().unwrap());
}

#[test]
fn a_mean_needs_the_exact_kernel_and_has_a_plan() {
    let (x, y) = rows(100, 1);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let on_map = Fit::ridge().rank(20).with_members(vec![kernel("laplacian(sigma=2)")]);
    let error = on_map.fit_table(&table, &["y"], &Run::new()).unwrap_err().to_string();
    assert!(error.contains("set `map` exact"), "{error}");
    let fit = exact("gaussian(sigma=1)", &["laplacian(sigma=2)", "exponential(sigma=2)"]).set("lambda", "1e-3");
    let json = serde_json::to_string(&fit).unwrap();
    let again: Fit = serde_json::from_str(&json).unwrap();
    assert_eq!(again.member_kernels(), fit.member_kernels());
    assert!(!serde_json::to_string(&exact("gaussian(sigma=1)", &[])).unwrap().contains("members"));
    let selection = kstore::Selection { targets: vec!["y".to_string()], ..kstore::Selection::default() };
    let selected = table.select(&fit.complete_selection(selection).unwrap()).unwrap();
    let plan = |fit: &Fit| fit.plan(&selected, &Run::new()).unwrap();
    let (mean, single) = (plan(&fit), plan(&exact("gaussian(sigma=1)", &[]).set("lambda", "1e-3")));
    assert_eq!(mean.stages.len(), 3 * single.stages.len());
    assert!(mean.peak_bytes() > single.peak_bytes());
}

#[test]
fn a_mean_is_exported_with_the_scaling_of_each_part() {
    let (x, y) = rows(100, 1);
    let table = Table::from_rows(&x, D, &y).unwrap();
    for further in ["laplacian(sigma=2)", "laplacian(sigma=2, scale=quantile)"] {
        let fit = exact("gaussian(sigma=1)", &[further]).set("lambda", "1e-3");
        let model = fit.fit_table(&table, &["y"], &Run::new()).unwrap().model;
        assert!(model.to_onnx().unwrap().len() > 2 * 8 * 100 * D, "{further}");
    }
}

#[test]
fn a_mean_with_an_unbounded_member_is_not_clipped() {
    let (x, y) = rows(100, 1);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let ranges = |further: &str| {
        let fit = exact("gaussian(sigma=1)", &[further]).set("lambda", "1e-3").clip(true);
        fit.fit_table(&table, &["y"], &Run::new()).unwrap().model.metadata().ranges.len()
    };
    assert_eq!((ranges("laplacian(sigma=2)"), ranges("linear() + gaussian(sigma=2)")), (D, 0));
}
