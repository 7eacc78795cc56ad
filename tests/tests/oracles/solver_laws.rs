//! Laws of every registered solver: the same bits on 1 and 3 threads, a file that loads and
//! predicts alike, equal coordinates in f32 and f64, and one-sentence errors.

use crate::solvers::golden;
use kfit::solver::{SolverFamily, registry};
use ksolve::job::{Candidates, ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::predict::Predictor;
use ksolve::{AnyModel, Task};
use kstore::{SelectedTable, Selection, Table};

type Rows = Vec<Vec<f64>>;

fn reads(family: &SolverFamily, name: &str) -> bool {
    family.parameters.iter().any(|parameter| parameter.name == name)
}

/// A fit with the required parameters, and every one of n rows a landmark of the Gaussian kernel.
pub(crate) fn fit(family: &SolverFamily, n: usize, precision: ElementType) -> Fit {
    let fit = Fit::solver(family.name).unwrap().scaling(Scaling::None).precision(precision);
    let fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string())).candidates(Candidates::Rows(n as u64));
    let fit = match reads(family, "nodes") {
        true => fit.rank(n.min(60)).set("nodes", n),
        false => fit.rank(n).kernel("gaussian(sigma=2)".parse().unwrap()),
    };
    let needed = [("clusters", "3"), ("with", "x1"), ("lambda", "1e-3"), ("folds", "none")];
    needed.iter().filter(|(name, _)| reads(family, name)).fold(fit, |fit, (name, value)| fit.set(name, value))
}

pub(crate) fn table(x: &Rows, y: &[f64]) -> Table {
    Table::from_rows(&x.concat(), x[0].len(), y).unwrap()
}

fn select(fit: &Fit, table: &Table) -> ksolve::Result<SelectedTable> {
    let targets = if fit.family().task.has_target() { vec!["y".to_string()] } else { Vec::new() };
    let selection = Selection { features: vec!["x*".to_string()], targets, ..Selection::default() };
    Ok(table.select(&fit.complete_selection(selection)?)?)
}

pub(crate) fn run(fit: &Fit, table: &Table, threads: usize) -> ksolve::Result<Fitted> {
    fit.run(&select(fit, table)?, &Run::new().memory(1 << 30).threads(threads))
}

pub(crate) fn bytes(model: &AnyModel) -> Vec<u8> {
    match model {
        AnyModel::F32(model) => model.to_bytes().unwrap(),
        AnyModel::F64(model) => model.to_bytes().unwrap(),
    }
}

pub(crate) fn predicted(predictor: &Predictor, x: &Rows) -> Rows {
    let t = predictor.output_count();
    let mut out = vec![0.0; x.len() * t];
    predictor.predict(&x.concat(), &mut out).unwrap();
    out.chunks(t).map(<[f64]>::to_vec).collect()
}

#[test]
fn every_solver_is_saved_read_and_predicts_with_the_same_bits_on_any_threads() {
    let golden = golden();
    let table = table(&golden.x, &golden.y);
    let mut seen = Vec::new();
    for family in registry() {
        for precision in [ElementType::F32, ElementType::F64] {
            let what = format!("{} in {precision}", family.name);
            let fit = fit(family, golden.x.len(), precision);
            let fitted = run(&fit, &table, 1).unwrap_or_else(|error| panic!("{what}: {error}"));
            let again = run(&fit, &table, 3).unwrap();
            let file = bytes(&fitted.model);
            assert!(file == bytes(&again.model), "{what}: other bits on three threads");
            let (own, read) = (Predictor::new(fitted.model).unwrap(), Predictor::from_bytes(&file).unwrap());
            assert!(read.to_bytes().unwrap() == file, "{what}: the file has another model");
            assert_eq!(read.metadata().solver, family.name);
            let (expected, got) = (predicted(&own, &golden.new), predicted(&read, &golden.new));
            assert!(expected == got, "{what}: the file predicts otherwise");
            assert!(expected.iter().flatten().all(|v| v.is_finite()) && read.output_count() > 0, "{what}");
            let varies = (0..own.output_count()).any(|j| expected.iter().any(|row| row[j] != expected[0][j]));
            assert!(varies, "{what}: the same for every row");
        }
        seen.push(family.name);
    }
    for name in ["pls", "spca", "kdr", "cca", "covariance", "laplacian", "mds", "isomap", "lle", "mvu", "features"] {
        assert!(seen.contains(&name), "{name} is not walked");
    }
}

/// Coordinates of new rows agree in f32 and f64 along components of distinct eigenvalues.
#[test]
fn coordinates_in_f32_are_those_in_f64() {
    let golden = golden();
    let sheet = crate::embeddings::sheet();
    let near = (crate::solvers::rows(&sheet["x"]), crate::solvers::rows(&sheet["new"]));
    for family in registry() {
        let named = reads(family, "components");
        if !named {
            continue;
        }
        let graph = reads(family, "nodes");
        let (x, new) = if graph { near.clone() } else { (golden.x.clone(), golden.new.clone()) };
        let y: Vec<f64> = match family.task {
            Task::Classification => golden.y.clone(),
            _ => x.iter().map(|x| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1]).collect(),
        };
        let table = table(&x, &y);
        let coordinates = |precision: ElementType| {
            let fit = fit(family, x.len(), precision).set("components", 2);
            let fit = if family.name == "spca" { fit.set("target_kernel", "gaussian(sigma=1)") } else { fit };
            let predictor = Predictor::new(run(&fit, &table, 2).unwrap().model).unwrap();
            if predictor.component_count() == 0 {
                return predicted(&predictor, &new);
            }
            // components reported with the predictions
            let rows = table_of(&new);
            let selected = predictor.select(&rows, Selection::default()).unwrap();
            let extras = ksolve::predict::Extras { components: true, ..Default::default() };
            let mut found = Vec::new();
            let read = predictor.score_table(&selected, extras, Vec::new(), &Run::new(), |scores| {
                found.extend_from_slice(&scores.components);
                Ok(())
            });
            assert_eq!(read.unwrap(), new.len() as u64);
            found.chunks(predictor.component_count()).map(<[f64]>::to_vec).collect()
        };
        let (narrow, wide) = (coordinates(ElementType::F32), coordinates(ElementType::F64));
        assert_eq!(narrow[0].len(), wide[0].len(), "{}", family.name);
        crate::embeddings::same_up_to_signs(&narrow, &wide, 1e-4, family.name);
    }
}

fn table_of(x: &Rows) -> Table {
    table(x, &vec![0.0; x.len()])
}

/// Every solver rejects rows it cannot learn from, in one line that says what to do, or fits.
#[test]
fn bad_rows_are_refused_in_a_sentence() {
    let golden = golden();
    let n = 40;
    let (x, y) = (golden.x[..n].to_vec(), golden.y[..n].to_vec());
    for family in registry() {
        let one = run(&fit(family, n, ElementType::F64), &table(&x[..1].to_vec(), &y[..1]), 1).unwrap_err();
        assert!(one.to_string().contains("at least 2 rows"), "{}: {one}", family.name);
        let same = vec![x[0].clone(); n];
        let outcome = run(&fit(family, n, ElementType::F64), &table(&same, &y), 1);
        if let Err(error) = &outcome {
            sentence(family, &error.to_string());
        }
        // identical rows have no components
        let directions = reads(family, "components") && family.name != "fisher";
        assert!(!directions || outcome.is_err(), "{} found components of one point", family.name);
        if reads(family, "components") {
            let few = fit(family, 4, ElementType::F64).set("components", 9);
            let few = if reads(family, "neighbours") { few.set("neighbours", 2) } else { few };
            match run(&few, &table(&x[..4].to_vec(), &[0.0, 1.0, 2.0, 1.0]), 1) {
                Err(error) => sentence(family, &error.to_string()),
                Ok(fitted) => {
                    let said =
                        fitted.report.warnings.iter().any(|text| text.starts_with("components reduced from 9 to"));
                    assert!(said, "{}: {:?}", family.name, fitted.report.warnings);
                }
            }
        }
        let wrong = fit(family, n, ElementType::F64).set("no_such_thing", 1);
        assert!(
            run(&wrong, &table(&x, &y), 1).unwrap_err().to_string().contains("does not read it"),
            "{}",
            family.name
        );
    }
}

/// Checks that an error is one line with what is wrong and what to do.
fn sentence(family: &SolverFamily, text: &str) {
    assert!(!text.contains('\n') && text.len() > 30 && text.contains([';', ':']), "{}: {text}", family.name);
}

#[test]
fn classes_of_one_row_are_named() {
    let golden = golden();
    let x = golden.x[..40].to_vec();
    let y: Vec<f64> = (0..40).map(|i| if i == 7 { 5.0 } else { f64::from(i % 2) }).collect();
    for family in registry() {
        let task = reads(family, "task");
        if family.task != Task::Classification && !task {
            continue;
        }
        let fit = fit(family, 40, ElementType::F64);
        let fit = if task { fit.set("task", "classification") } else { fit };
        let fitted = run(&fit, &table(&x, &y), 1).unwrap();
        let said = fitted.report.warnings.iter().find(|text| text.contains("1 class has one row only: 5"));
        assert!(
            said.is_some_and(|text| text.contains("exclude them")),
            "{}: {:?}",
            family.name,
            fitted.report.warnings
        );
    }
}

/// A plan counts the passes of the fit, including second views and a solver's own passes.
#[test]
fn plans_count_the_passes_of_the_fit() {
    let golden = golden();
    let table = table(&golden.x, &golden.y);
    let n = golden.x.len();
    for family in registry() {
        // only the fit knows whether stored features replace passes
        let keeps = [
            "svm",
            "svr",
            "quantile",
            "oneclass",
            "logistic",
            "glm",
            "mean",
            "kmeans",
            "spectral",
            "kpca-l1",
            "perceptron",
            "online",
            "ranking",
            "laplacian",
        ];
        if keeps.contains(&family.name) {
            continue;
        }
        let fit = fit(family, n, ElementType::F64);
        let fit = if family.name == "spca" { fit.set("target_kernel", "gaussian(sigma=1)") } else { fit };
        let fit = match family.name {
            "ridge" => fit.set("importance", true).set("folds", 3).set("interval", 0.5),
            _ => fit,
        };
        let (selected, bound) = (select(&fit, &table).unwrap(), Run::new().memory(1 << 30));
        let (plan, fitted) = (fit.plan(&selected, &bound).unwrap(), fit.run(&selected, &bound).unwrap());
        assert_eq!(plan.passes(), fitted.report.passes, "{}", family.name);
    }
}

/// Importance is the root mean square slope of the predictions, per standard deviation.
#[test]
fn importance_is_the_slope_of_the_predictions() {
    let golden = golden();
    let y: Vec<f64> = golden.x.iter().map(|x| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1]).collect();
    let family = kfit::solver::by_name("ridge").unwrap();
    let fit = fit(family, golden.x.len(), ElementType::F64).set("importance", true);
    let fitted = run(&fit, &table(&golden.x, &y), 2).unwrap();
    let importance = fitted.report.importance.clone();
    assert!(importance.windows(2).all(|pair| pair[0].1 >= pair[1].1) && importance.len() == golden.x[0].len());
    let predictor = Predictor::new(fitted.model).unwrap();
    let at = |x: &Vec<f64>, j: usize, step: f64| {
        let mut x = x.clone();
        x[j] += step;
        predicted(&predictor, &vec![x])[0][0]
    };
    for (name, slope) in &importance {
        let j: usize = name[1..].parse().unwrap();
        let h = 1e-4;
        let square = |x: &Vec<f64>| ((at(x, j, h) - at(x, j, -h)) / (2.0 * h)).powi(2);
        let mean = |of: &dyn Fn(&Vec<f64>) -> f64| golden.x.iter().map(of).sum::<f64>() / golden.x.len() as f64;
        let centre = mean(&|x| x[j]);
        let expected = (mean(&square) * mean(&|x| (x[j] - centre).powi(2))).sqrt();
        assert!((slope / expected - 1.0).abs() < 1e-6, "{name}: {slope} against {expected}");
    }
    let refused = |fit: Fit| run(&fit, &table(&golden.x, &y), 1).unwrap_err().to_string();
    assert!(refused(fit.clone().set("method", "pcg")).contains("`method` direct"));
    assert!(refused(fit.clone().map("fourier".parse().unwrap())).contains("nystrom"));
    assert!(refused(fit.kernel("delta()".parse().unwrap())).contains("gradient"));
}

/// With `nu` 1 every row is a support vector at its bound, and the intercept is an end point of a
/// flat interval: the largest score is 0.
#[test]
fn novelty_of_all_rows_ranks_them_on_features_as_on_the_kernel() {
    let x: Rows = (0..80).map(|i| vec![(f64::from(i) * 0.7).sin() * 2.0, (f64::from(i) * 0.31).cos()]).collect();
    let family = registry().into_iter().find(|family| family.name == "oneclass").unwrap();
    let scores = |map: &str| {
        let fit = match map {
            "exact" => Fit::solver(family.name).unwrap().scaling(Scaling::None).precision(ElementType::F64),
            _ => fit(family, 80, ElementType::F64),
        };
        let fit = fit.kernel("gaussian(sigma=2)".parse().unwrap()).map(map.parse().unwrap());
        let fit = fit.set("nu", 1).set("gap", "1e-10");
        predicted(&Predictor::new(run(&fit, &table(&x, &[0.0; 80]), 1).unwrap().model).unwrap(), &x).concat()
    };
    let (features, kernel) = (scores("nystrom"), scores("exact"));
    let largest = features.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(largest.abs() < 1e-6, "{largest:e}");
    for (a, b) in features.iter().zip(&kernel) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

/// The importance of a feature is a slope per standard deviation, whatever the scaling.
#[test]
fn importance_does_not_depend_on_the_scaling() {
    let wave = |i: u32, f: f64| (f64::from(i) * f).sin();
    let x: Rows = (0..300).map(|i| vec![wave(i, 0.7), 1000.0 * wave(i, 0.31), 0.01 * wave(i, 1.3)]).collect();
    let y: Vec<f64> = x.iter().map(|x| x[0] + 0.0005 * x[1] + 25.0 * x[2]).collect();
    let deviation = 0.5f64.sqrt();
    for scaling in [Scaling::Standard, Scaling::Minmax, Scaling::Robust, Scaling::None] {
        let fit = Fit::ridge().scaling(scaling).precision(ElementType::F64).rank(3).set("lambda", 1e-12);
        let fit = fit.kernel("linear".parse().unwrap()).set("importance", true);
        let report = run(&fit, &table(&x, &y), 1).unwrap().report;
        for (name, expected) in [("x0", 1.0), ("x1", 0.5), ("x2", 0.25)] {
            let found = report.importance.iter().find(|(feature, _)| feature == name).unwrap().1;
            assert!((found / (expected * deviation) - 1.0).abs() < 0.02, "{scaling}: {name} {found}");
        }
        let order: Vec<&str> = report.importance.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order, ["x0", "x1", "x2"], "{scaling}");
    }
}
