//! Metrics: a given metric acts by its definition, a learned one finds the relevant directions.

use kapprox::Kernel;
use kapprox::metric::Metric;
use ksolve::AnyModel;
use ksolve::job::Scaling;
use ksolve::job::{ElementType, Fit, Run};
use ksolve::job::{MetricForm, MetricSource, ProvidedMetric};
use ksolve::predict::Predictor;
use kstore::Table;
use kstore::key::{Purpose, Stream};
use std::sync::Arc;

const D: usize = 6;

/// Features that are multiples of 1/64, exact in f32.
fn rows(n: usize) -> Vec<f64> {
    let feature = |i: usize| Stream::new(9, Purpose::Data, (i % D) as u64).uniform((i / D) as u64);
    (0..n * D).map(|i| ((feature(i) * 256.0).round() - 128.0) / 64.0).collect()
}

/// A function of one direction in the plane of the first two features.
fn target(x: &[f64]) -> Vec<f64> {
    x.chunks(D).map(|x| (2.0 * (x[0] + 2.0 * x[1])).sin()).collect()
}

fn given(metric: Metric) -> MetricSource {
    MetricSource::Provided(ProvidedMetric { metric: Arc::new(metric), scaler: None })
}

#[test]
fn a_diagonal_metric_is_features_multiplied_beforehand() {
    let x = rows(700);
    let y = target(&x);
    let factors = [0.7, 1.3, 0.0, 2.0, 0.1, 1.0];
    let multiplied: Vec<f64> = x.iter().enumerate().map(|(i, x)| x * factors[i % D]).collect();
    let fit = |precision| Fit::ridge().rank(50).scaling(Scaling::None).precision(precision);
    for precision in [ElementType::F32, ElementType::F64] {
        let metric = given(Metric::diagonal(factors.to_vec()).unwrap());
        let table = Table::from_rows(&x, D, &y).unwrap();
        let one = fit(precision).metric(metric).fit_table(&table, &["y"], &Run::new()).unwrap();
        let table = Table::from_rows(&multiplied, D, &y).unwrap();
        let two = fit(precision).fit_table(&table, &["y"], &Run::new()).unwrap();
        assert_eq!(one.report.kernel, two.report.kernel);
        let (one, two) = (Predictor::new(one.model).unwrap(), Predictor::new(two.model).unwrap());
        let (mut a, mut b) = (vec![0.0; 700], vec![0.0; 700]);
        one.predict(&x, &mut a).unwrap();
        two.predict(&multiplied, &mut b).unwrap();
        assert_eq!(a, b, "{precision}");
    }
}

#[test]
fn a_matrix_is_kept_in_the_model_and_used_for_every_row() {
    let x = rows(600);
    let (y, folder) = (target(&x), tempfile::tempdir().unwrap());
    let table = Table::from_rows(&x, D, &y).unwrap();
    let numbers = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, -1.0, 0.0, 0.25];
    for name in ["ridge", "svr", "kpca", "oneclass", "mean"] {
        let metric = given(Metric::matrix(&numbers, 2).unwrap());
        let targets: &[&str] = if ["ridge", "svr"].contains(&name) { &["y"] } else { &[] };
        // without a target, the column y would be a feature
        let table = if targets.is_empty() { Table::from_rows(&x, D, &[]).unwrap() } else { table.clone() };
        let fitted =
            Fit::solver(name).unwrap().rank(40).metric(metric).fit_table(&table, targets, &Run::new()).unwrap();
        let report = fitted.report.metric.clone().unwrap();
        assert_eq!((report.features, report.importance.len(), report.source.as_str()), (2, D, "given"));
        let path = folder.path().join(format!("{name}.safetensors"));
        fitted.save(&path).unwrap();
        let (landmarks, m, kept) = match AnyModel::load(&path).unwrap() {
            AnyModel::F32(model) => (model.basis.landmarks().unwrap().0.len(), model.dims().0, model.metric),
            AnyModel::F64(model) => (model.basis.landmarks().unwrap().0.len(), model.dims().0, model.metric),
        };
        assert_eq!((landmarks, kept.unwrap().to_row_major()), (2 * m, numbers.to_vec()));
        let (one, two) = (Predictor::new(fitted.model).unwrap(), Predictor::load(&path).unwrap());
        let t = one.output_count();
        let (mut batch, mut scratch) = (vec![0.0; 600 * t], two.scratch());
        one.predict(&x, &mut batch).unwrap();
        for i in (0..600).step_by(37) {
            let mut out = vec![0.0; t];
            two.predict_with_scratch(&x[i * D..(i + 1) * D], &mut out, &mut scratch).unwrap();
            assert_eq!(out, batch[i * t..(i + 1) * t], "{name}, row {i}");
        }
        let mut scores = Vec::new();
        let selected = two.select(&table, kstore::Selection::default()).unwrap();
        let deliver = |part: &ksolve::predict::Scores| {
            scores.extend_from_slice(&part.scores);
            Ok(())
        };
        two.score_table(&selected, Default::default(), Vec::new(), &Run::new(), deliver).unwrap();
        assert_eq!(scores, batch, "{name}: from a table");
    }
}

#[test]
fn a_learned_metric_finds_the_features_that_matter() {
    let x = rows(2000);
    let (y, test) = (target(&x), rows(3000).split_off(2000 * D));
    let truth = target(&test);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let error = |metric: MetricSource| {
        let fitted = Fit::ridge().rank(150).metric(metric).fit_table(&table, &["y"], &Run::new()).unwrap();
        let (report, mut out) = (fitted.report.clone(), vec![0.0; 1000]);
        Predictor::new(fitted.model).unwrap().predict(&test, &mut out).unwrap();
        (out.iter().zip(&truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 1000.0, report.metric)
    };
    let (plain, none) = error(MetricSource::None);
    assert!(none.is_none());
    for form in [MetricForm::DiagonalOrFull, MetricForm::Full, MetricForm::LowRank(2)] {
        let (learned, report) = error(MetricSource::Learned(form));
        assert!(learned < 0.1 * plain, "{form}: {learned} of {plain}");
        let report = report.unwrap();
        let leading: Vec<&str> = report.importance[..2].iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(leading, ["x1", "x0"], "{form}: {:?}", report.importance);
        assert!(report.rounds.len() > 3 && report.rounds.iter().all(|round| round.cv_mse.is_finite()));
    }
    let (diagonal, _) = error(MetricSource::Learned(MetricForm::Diagonal));
    assert!(diagonal < 0.5 * plain, "{diagonal} of {plain}");
}

#[test]
fn a_metric_of_a_model_means_the_same_on_rows_of_another_scale() {
    let x = rows(2000);
    let y = target(&x);
    let run = Run::new();
    let learned = Fit::ridge()
        .rank(100)
        .metric(MetricSource::Learned(MetricForm::Full))
        .fit_table(&Table::from_rows(&x, D, &y).unwrap(), &["y"], &run)
        .unwrap();
    // scaling divisors of the second half differ
    let (x, y) = (&x[1000 * D..], &y[1000..]);
    let table = Table::from_rows(x, D, y).unwrap();
    let names: Vec<String> = (0..D).map(|j| format!("x{j}")).collect();
    let again = Fit::ridge()
        .rank(100)
        .metric(MetricSource::from_model(&learned.model, &names).unwrap())
        .fit_table(&table, &["y"], &run)
        .unwrap();
    let of = |model: &AnyModel| match model {
        AnyModel::F32(model) => (model.metric.clone().unwrap(), model.scaler.scale.clone()),
        AnyModel::F64(model) => (model.metric.clone().unwrap(), model.scaler.scale.clone()),
    };
    let ((before, one), (after, two)) = (of(&learned.model), of(&again.model));
    assert_ne!(one, two);
    let units = |metric: &Metric, scale: &[f64]| {
        metric.to_row_major().iter().enumerate().map(|(i, a)| a / scale[i % D]).collect::<Vec<_>>()
    };
    // asinh scaling changes the features nonlinearly, so the metric does not apply
    let names = MetricSource::from_model(&learned.model, &names).unwrap();
    let bent = Fit::ridge().rank(100).scaling(Scaling::Asinh).metric(names).fit_table(&table, &["y"], &run);
    assert!(bent.unwrap_err().to_string().contains("without asinh"));
    let pairs = units(&before, &one).into_iter().zip(units(&after, &two));
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-12 * a.abs()));
}

#[test]
fn bits_do_not_depend_on_threads_or_memory() {
    let x = rows(2500);
    let y = target(&x);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let bytes = |run: Run<'_>| {
        let fit = Fit::ridge().rank(60).metric(MetricSource::Learned(MetricForm::DiagonalOrFull));
        Predictor::new(fit.fit_table(&table, &["y"], &run).unwrap().model).unwrap().to_bytes().unwrap()
    };
    let one = bytes(Run::new().threads(1).memory(4 << 30));
    assert!(one == bytes(Run::new().threads(2).memory(512 << 20)));
    assert!(one == bytes(Run::new().threads(8).memory(1 << 30)));
}

#[test]
fn where_no_metric_helps_the_report_says_so() {
    let x = rows(400);
    let table = Table::from_rows(&x, D, &vec![3.0; 400]).unwrap();
    let fit = Fit::ridge().rank(20).metric(MetricSource::Learned(MetricForm::Full));
    let report = fit.fit_table(&table, &["y"], &Run::new()).unwrap().report;
    assert!(report.metric.is_none());
    assert!(
        report.warnings.iter().any(|text| text.contains("no metric had a smaller held-out error")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn what_cannot_be_learned_is_refused_in_a_sentence() {
    let x = rows(300);
    let y = target(&x);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let refused = |fit: Fit, targets: &[&str]| fit.fit_table(&table, targets, &Run::new()).unwrap_err().to_string();
    let learn = MetricSource::Learned(MetricForm::DiagonalOrFull);
    let text = refused(Fit::solver("kpca").unwrap().metric(learn.clone()), &[]);
    assert!(text.contains("learned from a target"), "{text}");
    let on = Kernel::parse("gaussian(sigma=1, on=x0..x2)").unwrap();
    let text = refused(Fit::ridge().kernel(on).metric(MetricSource::Learned(MetricForm::Full)), &["y"]);
    assert!(text.contains("use diagonal"), "{text}");
    let text = refused(Fit::ridge().metric(given(Metric::diagonal(vec![1.0; 4]).unwrap())), &["y"]);
    assert!(text.contains("4 features") && text.contains("the rows have 6"), "{text}");
    let text = refused(Fit::ridge().kernel(Kernel::parse("delta()").unwrap()).metric(learn), &["y"]);
    assert!(text.contains("no gradient"), "{text}");
    let plain = Fit::ridge().rank(20).fit_table(&table, &["y"], &Run::new()).unwrap();
    let text = MetricSource::from_model(&plain.model, &[]).unwrap_err().to_string();
    assert!(text.contains("has no metric"), "{text}");
}

/// A smooth function of two features, and a step along the fourth.
fn smooth_and_step(x: &[f64]) -> Vec<f64> {
    let step = |x: &[f64]| f64::from(u8::from(x[3] > 0.5));
    x.chunks(D).map(|x| (1.5 * x[0]).sin() + 0.5 * x[1] + 2.0 * step(x)).collect()
}

#[test]
fn likelihood_gives_each_part_of_a_sum_its_length_scales() {
    let x = rows(900);
    let y = smooth_and_step(&x);
    let (train, test) = ((&x[..600 * D], &y[..600]), (&x[600 * D..], &y[600..]));
    let table = Table::from_rows(train.0, D, train.1).unwrap();
    let fit = |kernel: &str| {
        let fit = Fit::ridge().map("exact".parse().unwrap()).kernel(kernel.parse().unwrap());
        fit.precision(ElementType::F64).metric(MetricSource::Learned(MetricForm::Likelihood))
    };
    let error = |kernel: &str| {
        let fitted = fit(kernel).fit_table(&table, &["y"], &Run::new()).unwrap();
        let (report, bytes) = (fitted.report, Predictor::new(fitted.model).unwrap().to_bytes().unwrap());
        // the model file holds the kernel
        let model = Predictor::from_bytes(&bytes).unwrap();
        let mut out = vec![0.0; 300];
        model.predict(test.0, &mut out).unwrap();
        (out.iter().zip(test.1).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 300.0, report)
    };
    let ((both, report), (smooth, _)) = (error("matern(nu=1.5) + laplacian()"), error("gaussian()"));
    assert!(both < 0.7 * smooth, "{both} {smooth}");
    let likelihood = report.likelihood.unwrap();
    assert_eq!((likelihood.rows, likelihood.parameters), (600, 2 * D + 3));
    assert_eq!(report.lambda, Some(likelihood.regularisation / 600.0));
    assert!(report.metric.is_none() && report.kernel.contains("sigma=["), "{}", report.kernel);
    let bytes = |run: Run<'_>| {
        let fitted = fit("exponential() + linear()").fit_table(&table, &["y"], &run).unwrap();
        Predictor::new(fitted.model).unwrap().to_bytes().unwrap()
    };
    assert!(bytes(Run::new().threads(1).memory(1 << 30)) == bytes(Run::new().threads(3).memory(256 << 20)));
}

#[test]
fn landmarks_and_classes_use_the_kernel_of_the_likelihood() {
    let x = rows(700);
    let y = smooth_and_step(&x);
    let learn = || MetricSource::Learned(MetricForm::Likelihood);
    let kernel = Kernel::parse("gaussian() + laplacian()").unwrap();
    let table = Table::from_rows(&x, D, &y).unwrap();
    let fitted =
        Fit::ridge().rank(150).kernel(kernel.clone()).metric(learn()).fit_table(&table, &["y"], &Run::new()).unwrap();
    assert!(fitted.report.likelihood.is_some() && fitted.report.kernel.contains("sigma=["));
    let classes: Vec<f64> = y.iter().map(|y| f64::from(u8::from(*y > 0.5))).collect();
    let table = Table::from_rows(&x, D, &classes).unwrap();
    let fit = Fit::ridge().set("task", "classification").rank(100).kernel(kernel).metric(learn());
    assert!(fit.fit_table(&table, &["y"], &Run::new()).unwrap().report.likelihood.is_some());
}

#[test]
fn what_the_likelihood_cannot_learn_is_refused() {
    let x = rows(200);
    let table = Table::from_rows(&x, D, &target(&x)).unwrap();
    let fit = |kernel: &str| {
        let fit = Fit::ridge().map("exact".parse().unwrap()).kernel(kernel.parse().unwrap());
        fit.metric(MetricSource::Learned(MetricForm::Likelihood))
    };
    let refused = |fit: Fit| fit.fit_table(&table, &["y"], &Run::new()).unwrap_err().to_string();
    assert!(refused(fit("linear() + 1")).contains("a kernel with a length scale"));
    assert!(refused(fit("gaussian()").set("lambda", "1e-3,1e-5")).contains("none to take the noise of the likelihood"));
    assert!(refused(Fit::ridge().map("exact".parse().unwrap())).contains("or `metric` likelihood"));
    let constant = Table::from_rows(&x, D, &[3.0; 200]).unwrap();
    let error = fit("gaussian()").fit_table(&constant, &["y"], &Run::new()).err().map(|error| error.to_string());
    assert_eq!(error, None);
}
