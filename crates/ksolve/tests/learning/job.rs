//! The public API as a caller uses it: rows from any source, one call, a model that predicts.

use ksolve::job::{CancelToken, ElementType, Fit, Fitted, Run};
use ksolve::predict::Predictor;
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{Label, Selection, Table};

const D: usize = 3;

fn rows(n: usize) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..n * D).map(|i| ((i * 37 % 101) as f64 - 50.0) / 25.0 + (i % 7) as f64).collect();
    let y = x.chunks(D).map(|x| (x[0] * x[1]).sin() + x[2]).collect();
    (x, y)
}

fn fit(table: &Table, fit: Fit) -> Fitted {
    fit.rank(60).set("lambda", 1e-6).fit_table(table, &["y"], &Run::new().threads(2)).unwrap()
}

/// The same numbers from slices and from a file give the same model bytes.
#[test]
fn the_same_rows_from_anywhere_give_the_same_model() {
    let (x, y) = rows(900);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let names = (0..D).map(|j| format!("x{j}")).chain(["y".to_string()]);
    let columns: Vec<OutputColumn> = names.map(|name| OutputColumn::new(name, OutputKind::F64)).collect();
    let mut values: Vec<Vec<f64>> = (0..D).map(|j| x.iter().skip(j).step_by(D).copied().collect()).collect();
    values.push(y.clone());
    let mut out = sink::create(&path, &columns).unwrap();
    out.write(&values.iter().map(|column| OutputValues::F64(column)).collect::<Vec<_>>()).unwrap();
    out.finish().unwrap();
    let file = Table::open(&[&path]).unwrap();
    let slices = Table::from_rows(&x, D, &y).unwrap();
    for precision in [ElementType::F32, ElementType::F64] {
        let bytes = |table: &Table| {
            let fitted = fit(table, Fit::ridge().precision(precision));
            Predictor::new(fitted.model).unwrap().to_bytes().unwrap()
        };
        assert!(bytes(&file) == bytes(&slices), "{precision}");
        // a caller's thread pool does not change the bits
        let pool = kstore::rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let run = Run::new().pool(std::sync::Arc::new(pool));
        let fitted =
            Fit::ridge().precision(precision).rank(60).set("lambda", 1e-6).fit_table(&slices, &["y"], &run).unwrap();
        assert!(bytes(&file) == Predictor::new(fitted.model).unwrap().to_bytes().unwrap(), "{precision}");
    }
}

#[test]
fn a_fit_written_as_json_is_read_as_the_same_fit() {
    use kapprox::metric::Metric;
    use ksolve::job::{LandmarkSource, MetricForm, MetricSource};
    let of = |metric: kapprox::Result<Metric>| MetricSource::from_metric(std::sync::Arc::new(metric.unwrap()));
    for metric in [
        MetricSource::None,
        MetricSource::Learned(MetricForm::LowRank(2)),
        MetricSource::File("m.safetensors".into()),
        of(Metric::diagonal(vec![0.5, 2.0])),
        of(Metric::matrix(&[1.0, 0.1, 0.0, 3.0, 1e-300, 7.0], 3)),
    ] {
        let fit = Fit::ridge().metric(metric.clone()).rank(30).seed(4);
        let text = serde_json::to_string(&fit).unwrap();
        let again: Fit = serde_json::from_str(&text).unwrap();
        assert_eq!(*again.metric_source(), metric, "{text}");
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
    // a value that JSON cannot express is an error
    let table = Table::from_rows(&[0.0, 1.0, 2.0, 3.0], 2, &[]).unwrap();
    let rows = LandmarkSource::Rows(Box::new(table.select(&kstore::Selection::default()).unwrap()));
    let why = serde_json::to_string(&Fit::ridge().landmarks(rows)).unwrap_err().to_string();
    assert!(why.contains("name the file of their table"), "{why}");
}

#[test]
fn the_scratch_of_another_precision_is_refused_with_both_sizes() {
    let (x, y) = rows(300);
    let table = Table::from_rows(&x, D, &y).unwrap();
    // an f32 fit stores large coefficients in f64; this rough kernel has small ones
    let kernel = kapprox::Kernel::parse("laplacian(sigma=1)").unwrap();
    let of = |precision| {
        let fit = Fit::ridge().kernel(kernel.clone()).rank(20).set("lambda", 0.1).precision(precision);
        Predictor::new(fit.fit_table(&table, &["y"], &Run::new()).unwrap().model).unwrap()
    };
    let (narrow, wide) = (of(ElementType::F32), of(ElementType::F64));
    for (model, other, expected, got) in [(&narrow, &wide, 4, 8), (&wide, &narrow, 8, 4)] {
        let refused = model.predict_with_scratch(&x[..D], &mut [0.0], &mut other.scratch()).unwrap_err();
        let is_told = matches!(refused, ksolve::Error::Shape { expected: e, got: g, .. } if (e, g) == (expected, got));
        assert!(is_told, "{refused}");
    }
}

#[test]
fn a_model_predicts_alike_from_memory_file_and_bytes_alone_and_in_a_batch() {
    let (x, y) = rows(700);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, precision) in [("ridge", ElementType::F32), ("ridge", ElementType::F64), ("svr", ElementType::F32)] {
        // at the median length scale, the exact kernel itself has an error of 0.375
        let kernel = kapprox::Kernel::parse("gaussian(sigma=0.5)").unwrap();
        let fitted = fit(&table, Fit::solver(name).unwrap().kernel(kernel).precision(precision));
        let path = folder.path().join("m.safetensors");
        fitted.save(&path).unwrap();
        let one = Predictor::new(fitted.model).unwrap();
        let two = Predictor::load(&path).unwrap();
        let three = Predictor::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(one.to_bytes().unwrap(), std::fs::read(&path).unwrap());
        let mut batch = vec![0.0; 700];
        one.predict(&x, &mut batch).unwrap();
        let mut scratch = two.scratch();
        for (i, expected) in batch.iter().enumerate() {
            let mut out = [0.0];
            two.predict_with_scratch(&x[i * D..(i + 1) * D], &mut out, &mut scratch).unwrap();
            assert_eq!(out[0], *expected, "{name} {precision}, row {i}");
            three.predict(&x[i * D..(i + 1) * D], &mut out).unwrap();
            assert_eq!(out[0], *expected, "{name} {precision}, row {i}");
        }
        let mean = batch.iter().zip(&y).map(|(p, y)| (p - y).powi(2)).sum::<f64>() / 700.0;
        assert!(mean < 0.3, "{name}: {mean}");
    }
}

#[test]
fn wrong_rows_are_named() {
    let (x, y) = rows(200);
    let fitted = fit(&Table::from_rows(&x, D, &y).unwrap(), Fit::ridge());
    let predictor = Predictor::new(fitted.model).unwrap();
    let refused = |x: &[f64], out: &mut [f64]| predictor.predict(x, out).unwrap_err().to_string();
    assert!(refused(&[1.0, f64::NAN, 2.0], &mut [0.0]).contains("row 0 (counted from 0): x1 is NaN"));
    assert!(refused(&[1.0, 2.0], &mut [0.0]).contains("whole rows"));
    assert!(refused(&[1.0, 2.0, 3.0], &mut [0.0; 2]).contains("predictions"));
    assert!(Table::from_rows(&x[1..], D, &y).unwrap_err().to_string().contains("not a multiple of"));
    assert!(Predictor::from_bytes(b"no model").is_err());
}

#[test]
fn classes_have_labels_and_probabilities() {
    let (x, _) = rows(600);
    let y: Vec<f64> = x.chunks(D).map(|x| f64::from(u8::from(x[0] > 1.0)) + f64::from(u8::from(x[1] > 3.0))).collect();
    let table = Table::from_rows(&x, D, &y).unwrap();
    let fit = Fit::solver("logistic").unwrap().rank(30).set("lambda", 1e-4);
    let predictor = Predictor::new(fit.fit_table(&table, &["y"], &Run::new()).unwrap().model).unwrap();
    let mut scores = vec![0.0; predictor.output_count()];
    let (mut right, mut probabilities) = (0, Vec::new());
    for (x, y) in x.chunks(D).zip(&y) {
        predictor.predict(x, &mut scores).unwrap();
        right += usize::from(predictor.label(&scores) == Some(&Label::Int(*y as i64)));
        predictor.probabilities(&scores, &mut probabilities);
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
    assert!(right > 560, "{right} of 600");
    let selection = fit.complete_selection(Selection { targets: vec!["y".into()], ..Selection::default() }).unwrap();
    assert!(selection.class_target);
}

#[test]
fn a_run_stops_when_it_is_asked_to() {
    let (x, y) = rows(5000);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    let error = Fit::ridge().rank(300).fit_table(&table, &["y"], &Run::new().cancel_token(cancel)).unwrap_err();
    assert!(error.is_interrupted(), "{error}");
}

#[test]
fn a_parameter_of_another_solver_is_refused_by_name() {
    let (x, y) = rows(100);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let refused = Fit::ridge().set("epsilon", 0.1).fit_table(&table, &["y"], &Run::new()).unwrap_err().to_string();
    assert!(refused.starts_with("`epsilon`") && refused.contains("ridge does not read it"), "{refused}");
    assert!(Fit::solver("rigde").unwrap_err().to_string().contains("ridge, kpca"));
    let refused = Fit::ridge().fit_table(&table, &[], &Run::new()).unwrap_err().to_string();
    assert!(refused.contains("learns from a target"), "{refused}");
}

/// phi(x)·phi(x') equals k(x, x') if every row is a landmark.
#[test]
fn features_of_a_map_give_the_kernel_back() {
    let (x, y) = rows(80);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let selected = table.select(&Selection { features: vec!["x*".to_string()], ..Selection::default() }).unwrap();
    let kernel = kapprox::Kernel::parse("gaussian(sigma=0.7)").unwrap();
    let fit = Fit::solver("features").unwrap().kernel(kernel).rank(80).precision(ElementType::F64);
    let fit = fit.scaling(ksolve::job::Scaling::None);
    let fitted = fit.run(&selected, &Run::new().threads(2)).unwrap();
    assert!(fitted.report.certificate.unwrap().trace_error < 1e-10);
    let map = Predictor::new(fitted.model).unwrap();
    let p = map.output_count();
    let mut phi = vec![0.0; 80 * p];
    map.predict(&x, &mut phi).unwrap();
    for (i, a) in x.chunks(D).enumerate() {
        for (j, b) in x.chunks(D).enumerate() {
            let squared: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
            let product: f64 = phi[i * p..][..p].iter().zip(&phi[j * p..][..p]).map(|(a, b)| a * b).sum();
            assert!((product - (-squared / (2.0 * 0.49)).exp()).abs() < 1e-8, "{i} {j}: {product}");
        }
    }
}

/// Predicting, writing and evaluating a table gives the bits of the same rows in memory.
#[test]
fn tables_are_predicted_written_and_evaluated_by_the_library() {
    let (x, y) = rows(3000);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let predictor = Predictor::new(fit(&table, Fit::ridge()).model).unwrap();
    let mut expected = vec![0.0; 3000];
    predictor.predict(&x, &mut expected).unwrap();
    let targets = vec!["y".to_string()];
    let selected = predictor.select(&table, Selection { targets, ..Selection::default() }).unwrap();
    let (run, mut found) = (Run::new().threads(2), Vec::new());
    let rows = predictor.score_table(&selected, Default::default(), Vec::new(), &run, |scores| {
        found.extend_from_slice(&scores.scores);
        Ok(())
    });
    assert_eq!((rows.unwrap(), &found), (3000, &expected));
    let (evaluation, details) = predictor.evaluate(&selected, &run).unwrap();
    let ksolve::predict::Evaluation::Regression(scores) = evaluation else { panic!("a regression") };
    let mse = y.iter().zip(&expected).map(|(y, f)| (y - f).powi(2)).sum::<f64>() / 3000.0;
    assert!((scores.scores.mse.unwrap() / mse - 1.0).abs() < 1e-12 && details.points.len() == 2000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("predictions.parquet");
    let written = predictor.write(&selected, Some(&selected), Default::default(), &path, &run).unwrap();
    assert_eq!((written.rows, written.unconverged), (3000, 0));
    assert_eq!(Table::open(&[&path]).unwrap().stored_rows(), 3000);
    let refused = predictor.score_table(
        &selected,
        ksolve::predict::Extras { std: true, ..Default::default() },
        Vec::new(),
        &run,
        |_| Ok(()),
    );
    assert!(refused.unwrap_err().to_string().contains("ridge with `std`"));
}

/// Requests a stop in the named stage and records the names of all stages.
struct StopIn {
    name: String,
    seen: std::sync::Mutex<Vec<String>>,
}

struct Asked(bool);

impl kstore::pass::Observer for Asked {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0
    }
}

impl ksolve::job::StageObserver for StopIn {
    fn start_stage<'a>(&'a self, name: &str, _: Option<u64>) -> Box<dyn kstore::pass::Observer + 'a> {
        self.seen.lock().unwrap().push(name.to_string());
        Box::new(Asked(name == self.name))
    }
    fn warn(&self, _: String) {}
}

/// Every stage that is a pass, an iteration or a sequence of linear systems obeys a stop request.
#[test]
fn a_stop_is_heard_in_every_long_stage() {
    let (x, y) = rows(600);
    let table = Table::from_rows(&x, D, &y).unwrap();
    let fits = [
        Fit::ridge().set("lambda", "1e-6,1e-4").rank(40),
        Fit::ridge().set("lambda", 1e-6).set("method", "pcg").rank(40),
        Fit::solver("svr").unwrap().rank(40),
    ];
    // a single factorisation or decomposition cannot be stopped
    let short = ["solve", "factor of the landmarks"];
    for fit in fits {
        let run = |name: &str| {
            let watch = StopIn { name: name.to_string(), seen: Default::default() };
            let found = fit.fit_table(&table, &["y"], &Run::new().threads(1).observer(&watch));
            (found, watch.seen.into_inner().unwrap())
        };
        let (whole, stages) = run("");
        whole.unwrap();
        for stage in stages.iter().filter(|stage| !short.contains(&stage.as_str())) {
            let stopped = run(stage).0.map(|_| ()).unwrap_err();
            assert!(stopped.is_interrupted(), "{stage}: {stopped}");
        }
    }
}

/// A sine whose features have a median distance far above its length scale.
fn wave() -> Table {
    let x: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0).collect();
    let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    Table::from_rows(&x, 1, &y).unwrap()
}

fn sines(fitted: Fitted) -> f64 {
    let mut out = [0.0; 3];
    Predictor::new(fitted.model).unwrap().predict(&[1.0, 2.0, 3.0], &mut out).unwrap();
    out.iter().zip([1.0f64, 2.0, 3.0]).map(|(found, x)| (found - x.sin()).abs()).fold(0.0, f64::max)
}

#[test]
fn the_length_is_found_from_the_target_and_said() {
    let (table, run) = (wave(), Run::new().threads(2));
    let on = |kernel: &str, run: &Run<'_>| {
        Fit::ridge().kernel(kernel.parse().unwrap()).rank(100).fit_table(&table, &["y"], run).unwrap()
    };
    let found = on("gaussian()", &run);
    let length = found.report.length_scale.clone().unwrap();
    assert!(length.multiple <= 0.5 && (900..1100).contains(&length.rows), "{length:?}");
    let text = found.report.to_string();
    assert!(text.contains(&format!("({length})")) && text.contains("by gcv on"), "{text}");
    // neither threads nor memory change a bit
    let bytes = |fitted: &Fitted| Predictor::new(fitted.model.clone()).unwrap().to_bytes().unwrap();
    assert!(bytes(&found) == bytes(&on("gaussian(sigma=auto)", &Run::new().threads(1).memory(100 << 20))));
    assert!(sines(found) < 5e-4);
    let median = on("gaussian(sigma=median)", &run);
    assert!(median.report.length_scale.is_none());
    // the report of a library fit contains its warnings
    let text = median.report.to_string();
    assert!(text.contains("\nwarning: rank reduced from 100"), "{text}");
    assert!(sines(median) > 0.05);
}

/// Few rows, a constant target or an explicit length scale are not errors.
#[test]
fn a_length_that_cannot_be_found_is_the_median() {
    let x = [0.0, 1.0, 3.0];
    let found = Fit::ridge().set("lambda", 1e-3).fit_table(
        &Table::from_rows(&x, 1, &[1.0, 0.0, 1.0]).unwrap(),
        &["y"],
        &Run::new(),
    );
    assert!(found.unwrap().report.length_scale.is_some());
    let x: Vec<f64> = (0..300).map(f64::from).collect();
    let table = Table::from_rows(&x, 1, &vec![7.0; 300]).unwrap();
    let length =
        Fit::ridge().set("lambda", 1e-3).fit_table(&table, &["y"], &Run::new()).unwrap().report.length_scale.unwrap();
    assert_eq!(length.multiple, 1.0);
    let given = Fit::ridge().kernel("gaussian(sigma=2)".parse().unwrap()).set("lambda", 1e-3);
    assert!(given.fit_table(&table, &["y"], &Run::new()).unwrap().report.length_scale.is_none());
}

/// The score of a length scale is the GCV of ridge regression with it on as many uniform landmarks,
/// for values and class codes; the smallest wins.
#[test]
fn a_length_is_scored_by_the_gcv_of_a_fit_with_it() {
    let (x, y) = rows(900);
    for classes in [false, true] {
        let y: Vec<f64> = if classes { y.iter().map(|y| f64::from(*y > 0.0)).collect() } else { y.clone() };
        let table = Table::from_rows(&x, D, &y).unwrap();
        let task = if classes { "classification" } else { "regression" };
        let fit = |kernel: String, lambdas: &str| {
            let landmarks = "uniform".parse().unwrap();
            let fit = Fit::ridge().kernel(kernel.parse().unwrap()).landmarks(landmarks).rank(200).set("task", task);
            fit.precision(ElementType::F64)
                .set("lambda", lambdas)
                .fit_table(&table, &["y"], &Run::new())
                .unwrap()
                .report
        };
        let report = fit("gaussian()".to_string(), "1e-6");
        let sigma = report.kernel.trim_start_matches("gaussian(sigma=").trim_end_matches(')').to_string();
        let found = report.length_scale.unwrap();
        let median = sigma.parse::<f64>().unwrap() / found.multiple;
        for (multiple, score) in &found.scores {
            let kernel = format!("gaussian(sigma={})", multiple * median);
            let cells = fit(kernel, "1e-9,1e-8,1e-7,1e-6,1e-5,1e-4,1e-3").surface;
            let least = cells.iter().filter_map(|cell| cell.gcv).min_by(f64::total_cmp).unwrap();
            assert!((score.unwrap() / least - 1.0).abs() < 1e-6, "{task}, {multiple}: {score:?}, {least}");
        }
        let least = found.scores.iter().min_by(|a, b| a.1.unwrap().total_cmp(&b.1.unwrap())).unwrap();
        assert_eq!(least.0, found.multiple);
    }
}
