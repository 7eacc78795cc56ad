//! Typed estimators on every kind of rows and targets, compared with `Fit`s of the same parameters.

use faer::Mat;
use kapprox::{IncompleteCholesky, Nystrom, RandomFourier};
use ksolve::job::{ElementType, Fit, Run};
use ksolve::predict::Predictor;
use ksolve::tune::SearchWork;
use ksolve::{Error, Fisher, Kernel, KernelKMeans, KernelPca, Logistic, OneClassSvm, Ridge, Svm, Svr, Tune};
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use kstore::{Label, Table};
use std::sync::Arc;

fn rows(n: usize) -> Vec<[f64; 2]> {
    (0..n).map(|i| [0.37, 0.61].map(|step| (step * i as f64).sin())).collect()
}

fn numbers(x: &[[f64; 2]]) -> Vec<f64> {
    x.iter().map(|x| (2.0 * x[0]).sin() + x[1] * x[1]).collect()
}

/// Labels three regions of the plane.
fn words(x: &[[f64; 2]]) -> Vec<&'static str> {
    x.iter()
        .map(|x| {
            if x[0] + x[1] > 0.5 {
                "far"
            } else if x[0] > x[1] {
                "right"
            } else {
                "left"
            }
        })
        .collect()
}

fn batch(x: &[[f64; 2]], labels: &[&str]) -> RecordBatch {
    let column = |j: usize| -> ArrayRef { Arc::new(Float64Array::from_iter_values(x.iter().map(|x| x[j]))) };
    let labels: ArrayRef = Arc::new(StringArray::from_iter_values(labels));
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers(x)));
    RecordBatch::try_from_iter([("a", column(0)), ("b", column(1)), ("y", y), ("label", labels)]).unwrap()
}

#[test]
fn the_programs_of_the_guide_run() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (x, x2) = (rows(600), rows(40));
    let (y, labels) = (numbers(&x), words(&x));
    let model = Ridge::new().kernel(Kernel::gaussian(0.5)).rank(200).fit(&x, &y)?;
    let worst = model.predict(&x2)?.iter().zip(numbers(&x2)).map(|(f, y)| (f - y).abs()).fold(0.0, f64::max);
    assert!(worst < 0.01, "{worst}");
    let told = Svm::new().c(10.0).kernel(Kernel::laplacian(1.0)).rank(200).fit(&x, &labels)?.predict(&x2)?;
    assert!(told.iter().zip(words(&x2)).filter(|(found, label)| found == label).count() >= 38);
    let z = KernelPca::new(3).rank(100).fit(&x)?.transform(&x2)?;
    assert_eq!((z.nrows(), z.ncols()), (40, 3));
    let phi = Nystrom::new(Kernel::gaussian(1.5), 50).landmarks("rpcholesky").fit(&x)?.transform(&x2)?;
    assert_eq!((phi.nrows(), phi.ncols()), (40, 50));
    let phi = RandomFourier::new(Kernel::gaussian(1.5), 1000).seed(7).fit(&x)?.transform(&x2)?;
    assert_eq!((phi.nrows(), phi.ncols()), (40, 1000));
    let k = |i: usize, j: usize| (-(i as f64 - j as f64).powi(2) / 800.0).exp();
    let factor = IncompleteCholesky::new(200).tolerance(1e-3).run(1000, k)?;
    assert!(factor.trace_error <= 1e-3 && factor.pivots.len() < 200);
    let table = Table::from_batches(vec![batch(&x, &labels)])?;
    let best = Tune::any().work("3,3".parse::<SearchWork>()?).rank(60).fit(&table, "y")?;
    best.save(&folder.path().join("best.safetensors"))?;
    let big = Ridge::new().rank(300).memory(512 << 20).fit(&table, "y")?;
    big.save(folder.path().join("big.safetensors"))?;
    assert_eq!(
        Predictor::load(&folder.path().join("big.safetensors"))?.metadata().features,
        ["a", "b", "label=far", "label=left", "label=right"]
    );
    Ok(())
}

#[test]
fn an_estimator_is_a_fit() {
    let x = rows(300);
    let (y, flat) = (numbers(&x), x.concat());
    let table = Table::from_rows(&flat, 2, &y).unwrap();
    let fit =
        Fit::ridge().kernel(Kernel::gaussian(0.7)).rank(60).seed(5).set("lambda", 1e-4).precision(ElementType::F64);
    let expected = Predictor::new(fit.fit_table(&table, &["y"], &Run::new()).unwrap().model).unwrap();
    let mut out = vec![0.0; 300];
    expected.predict(&flat, &mut out).unwrap();
    let ridge = Ridge::new().kernel(Kernel::gaussian(0.7)).rank(60).seed(5).lambda(1e-4).precision(ElementType::F64);
    let model = ridge.clone().threads(2).fit(&x, &y).unwrap();
    assert_eq!(model.predict(&x).unwrap(), out);
    assert_eq!(ridge.into_fit().settings().unwrap(), fit.settings().unwrap());

    // every in-memory layout of rows, and f32 values that are exact in f64
    let matrix = Mat::from_fn(300, 2, |i, j| x[i][j]);
    let lists: Vec<Vec<f64>> = x.iter().map(|x| x.to_vec()).collect();
    assert_eq!(model.predict(&matrix).unwrap(), out);
    assert_eq!(model.predict(&matrix.as_ref()).unwrap(), out);
    assert_eq!(model.predict(&lists).unwrap(), out);
    assert_eq!(model.predict(&[[0.5f32, 0.25]]).unwrap(), model.predict(&[[0.5f64, 0.25]]).unwrap());

    // several targets, in memory and by column name
    let both = Mat::from_fn(300, 2, |i, j| y[i] * (j as f64 + 1.0));
    let several = Ridge::new().rank(60).lambda(1e-4).fit(&x, &both).unwrap().predict(&x).unwrap();
    assert_eq!((several.nrows(), several.ncols()), (300, 2));
    let pairs: Vec<f64> = y.iter().flat_map(|y| [*y, 2.0 * y]).collect();
    let table = Table::from_rows(&flat, 2, &pairs).unwrap();
    let named = Ridge::new().rank(60).lambda(1e-4).fit(&table, &["y0", "y1"]).unwrap().predict(&table).unwrap();
    assert_eq!(named, several);
}

#[test]
fn labels_come_back_as_they_were_given() {
    let x = rows(400);
    let labels = words(&x);
    let right = |found: usize| assert!(found > 380, "{found}");
    let svm = Svm::new().c(10.0).kernel(Kernel::gaussian(1.0)).rank(80);
    let by_word = svm.fit(&x, &labels).unwrap();
    let told: Vec<String> = by_word.predict(&x).unwrap();
    right(told.iter().zip(&labels).filter(|(found, label)| found == label).count());
    let owned: Vec<String> = labels.iter().map(ToString::to_string).collect();
    assert_eq!(svm.fit(&x, &owned).unwrap().predict(&x).unwrap(), told);
    let codes: Vec<i64> = labels.iter().map(|label| label.len() as i64 * 10).collect();
    let by_code = svm.fit(&x, &codes).unwrap().predict(&x).unwrap();
    right(by_code.iter().zip(&codes).filter(|(found, code)| found == code).count());
    let small: Vec<u8> = labels.iter().map(|label| label.len() as u8).collect();
    let by_byte: Vec<u8> = svm.fit(&x, &small).unwrap().predict(&x).unwrap();
    assert!(by_byte.iter().zip(&by_code).all(|(byte, code)| i64::from(*byte) * 10 == *code));
    let truths: Vec<bool> = labels.iter().map(|label| *label == "far").collect();
    let by_truth: Vec<bool> = Logistic::new().rank(80).fit(&x, &truths).unwrap().predict(&x).unwrap();
    right(by_truth.iter().zip(&truths).filter(|(found, truth)| found == truth).count());

    // labels read from a table column have type `Label`
    let rows = batch(&x, &labels);
    let rows = rows.project(&[0, 1, 3]).unwrap();
    let model = svm.fit(&rows, "label").unwrap();
    let found: Vec<Label> = model.predict(&rows).unwrap();
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), told);
    assert_eq!(model.decision_function(&rows).unwrap(), by_word.decision_function(&x).unwrap());
    assert_eq!(model.classes().iter().map(ToString::to_string).collect::<Vec<_>>(), ["far", "left", "right"]);
}

#[test]
fn probabilities_belong_to_the_classes_and_need_a_link() {
    let x = rows(300);
    let model = Logistic::new().rank(60).lambda(1e-4).fit(&x, &words(&x)).unwrap();
    let (told, chances) = (model.predict(&x).unwrap(), model.predict_proba(&x).unwrap());
    assert_eq!(chances.ncols(), 3);
    for i in 0..300 {
        let row: Vec<f64> = (0..3).map(|j| chances[(i, j)]).collect();
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let best = (0..3).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
        assert_eq!(model.classes()[best].to_string(), told[i]);
    }
    let without = Svm::new().c(1.0).rank(60).fit(&x, &words(&x)).unwrap().predict_proba(&x).unwrap_err();
    assert!(without.to_string().contains("not probabilities"), "{without}");
}

#[test]
fn the_other_estimators_do_what_their_names_say() {
    let x = rows(400);
    let outliers = OneClassSvm::new().nu(0.1).kernel(Kernel::gaussian(1.0)).rank(80).fit(&x).unwrap();
    let inside = outliers.predict(&x).unwrap().iter().filter(|outlier| !**outlier).count();
    assert!((350..=370).contains(&inside), "{inside}");
    assert_eq!(outliers.predict(&[[9.0, -9.0], [0.1, 0.1]]).unwrap(), [true, false]);
    assert!(outliers.decision_function(&[[9.0, -9.0]]).unwrap()[0] < 0.0);

    let halves: Vec<[f64; 2]> =
        x.iter().enumerate().map(|(i, x)| [x[0] / 5.0 + (i % 2) as f64 * 3.0, x[1] / 5.0]).collect();
    let clusters =
        KernelKMeans::new(2).kernel(Kernel::gaussian(1.0)).rank(50).fit(&halves).unwrap().predict(&halves).unwrap();
    assert!((2..400).all(|i| clusters[i] == clusters[i - 2]) && clusters[0] != clusters[1]);

    let fisher = Fisher::new().rank(80).fit(&x, &words(&x)).unwrap().predict(&x).unwrap();
    assert!(fisher.iter().zip(words(&x)).filter(|(found, label)| found == label).count() > 360);
    let svr = Svr::new().c(100.0).epsilon(0.01).rank(80).fit(&x, &numbers(&x)).unwrap().predict(&x).unwrap();
    assert!(svr.iter().zip(numbers(&x)).all(|(found, y)| (found - y).abs() < 0.1));
}

#[test]
fn rows_and_targets_that_do_not_fit_are_rejected() {
    let x = rows(50);
    let fewer = Ridge::new().fit(&x, &[1.0, 2.0]).unwrap_err();
    assert!(matches!(fewer, Error::Shape { expected: 50, got: 2, .. }), "{fewer}");
    let model = Ridge::new().rank(20).fit(&x, &numbers(&x)).unwrap();
    let column = model.predict(&[[1.0], [2.0]]).unwrap_err().to_string();
    assert!(column.contains("x1"), "{column}");
    let scheme = Ridge::new().landmarks("rpcholeski").fit(&x, &numbers(&x)).unwrap_err().to_string();
    assert!(scheme.contains("rpcholesky"), "{scheme}");
    let kernel = Ridge::new().kernel(Kernel::gaussian(-1.0)).fit(&x, &numbers(&x)).unwrap_err().to_string();
    assert!(kernel.contains("sigma must be > 0, got -1"), "{kernel}");
    let task = Ridge::new().set("task", "classification").fit(&x, &numbers(&x)).unwrap_err().to_string();
    assert!(task.contains("this estimator predicts numbers"), "{task}");
    let ragged = KernelPca::new(2).fit(&vec![vec![1.0, 2.0], vec![3.0]]).unwrap_err().to_string();
    assert_eq!(ragged, "columns of a row: expected 2, got 1");
    let one = Svm::new().fit(&x, &vec![true; 50]).unwrap_err().to_string();
    assert!(one.contains("class"), "{one}");
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_ndarray_are_rows() {
    let x = rows(100);
    let array = ndarray::Array2::from_shape_fn((100, 2), |(i, j)| x[i][j]);
    let model = Ridge::new().rank(20).lambda(1e-4).fit(&array, &numbers(&x)).unwrap();
    assert_eq!(model.predict(&array.view()).unwrap(), model.predict(&x).unwrap());
}
