//! Logistic regression and SVMs with all rows as landmarks, compared with scikit-learn, LIBSVM and
//! LIBLINEAR on the exact kernel (`scripts/golden.py solvers`).

use crate::solver_laws::{predicted, run, table};
use crate::solvers::{Golden, close, golden, numbers, rows};
use kapprox::Real;
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, solve, write};
use ksolve::job::ElementType;
use ksolve::job::Scaling;
use ksolve::train::TrainedModel;
use ksolve::{Classes, Intercept};
use kstore::Label;
use serde_json::Value;

/// All rows as landmarks, and the exact kernel: two ways to compute the same SVM.
const MAPS: [&str; 2] = ["nystrom", "exact"];

fn fit(golden: &Golden, (map, name): (&str, &str), x: &[Vec<f64>], y: &[f64], solver: &Options) -> TrainedModel<f64> {
    fit_in(golden, (map, name), x, y, solver)
}

/// Fits with one thread and with three threads, which must give the same bits.
fn fit_in<T: kapprox::Real>(
    golden: &Golden,
    (map, name): (&str, &str),
    x: &[Vec<f64>],
    y: &[f64],
    solver: &Options,
) -> TrainedModel<T> {
    let task = kfit::solver::by_name(name).unwrap().task;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let selected = select(&path, task);
    let map = map.parse().unwrap();
    let options = TrainOptions { rank: x.len(), map, ..exact(task, &golden.kernel, x.len()) };
    let trained = solve::<T>(&selected, &options, name, solver, 1);
    let again = solve::<T>(&selected, &options, name, solver, 3);
    assert!(
        trained.model.coefficients == again.model.coefficients && trained.model.intercept == again.model.intercept,
        "{name}: other bits"
    );
    trained
}

fn figure<'a, T: Real>(trained: &'a TrainedModel<T>, name: &str) -> &'a [f64] {
    &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Returns the golden rows with the given indices.
fn chosen(golden: &Golden, rows: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    rows.iter().map(|i| (golden.x[*i as usize].clone(), golden.y[*i as usize])).unzip()
}

#[test]
fn logistic_regression() {
    let golden = golden();
    for name in ["logistic", "logistic_two", "logistic_balanced", "logistic_two_balanced"] {
        let case = &golden.cases[name];
        let (x, y) = chosen(&golden, &numbers(&case["rows"]));
        let options = Options::new().set("lambda", number(&case["lambda"]));
        let options = if name.ends_with("balanced") { options.set("class_weight", "balanced") } else { options };
        let trained = fit(&golden, ("nystrom", "logistic"), &x, &y, &options);
        // only differences of the classes' intercepts are determined
        let reference = |values: &[f64], j: usize| if values.len() == 1 { values[0] } else { values[j] - values[0] };
        for (x, expected) in golden.new.iter().zip(rows(&case["scores"])) {
            let got = predict(&trained, &golden.kernel, x);
            assert_eq!(got.len(), expected.len());
            for j in 0..expected.len() {
                close(reference(&got, j), reference(&expected, j), 1e-5, name);
            }
        }
        let intercept = numbers(&case["intercept"]);
        (0..intercept.len())
            .for_each(|j| close(reference(&trained.model.intercept, j), reference(&intercept, j), 1e-5, "intercept"));
        let lambda = number(&case["lambda"]);
        let square = (figure(&trained, "objective")[0] - figure(&trained, "train log-loss")[0]) / lambda;
        close(square, number(&case["square"]), 1e-5, "squared norm of the coefficients");
    }
}

/// Returns the objective of problem `j` in LIBSVM's units, P = ½‖w‖² + C Σ loss.
fn libsvm<T: Real>(trained: &TrainedModel<T>, j: usize) -> f64 {
    figure(trained, "objective")[j] / (2.0 * trained.report.lambda.unwrap())
}

/// Checks the reported duality gap: the optimum found by the reference lies within it.
fn certified(trained: &TrainedModel<f64>, j: usize, objective: f64, expected: f64, what: &str) {
    let gap = figure(trained, "duality gap")[j];
    let above = (objective - expected) / objective.abs().max(expected.abs());
    assert!(gap <= 1e-6, "{what}: gap {gap}");
    // 1e-7 and 1e-6 allow for the error of the reference
    assert!(above <= gap + 1e-7 && above > -1e-6, "{what}: {objective} is {above:e} above {expected}, gap {gap:e}");
}

#[test]
fn support_vector_machines_of_libsvm() {
    let golden = golden();
    let test = rows(&golden.cases["test"]);
    for (map, name) in MAPS.into_iter().flat_map(|map| [(map, "svm_1"), (map, "svm_100")]) {
        let case = &golden.cases[name];
        let options = Options::new().set("C", number(&case["c"])).set("gap", 1e-7);
        let trained = fit(&golden, (map, "svm"), &golden.x, &golden.y, &options);
        for (j, expected) in numbers(&case["objectives"]).iter().enumerate() {
            certified(&trained, j, libsvm(&trained, j), *expected, name);
        }
        for (x, expected) in golden.new.iter().zip(rows(&case["scores"])) {
            let got = predict(&trained, &golden.kernel, x);
            got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 2e-3, name));
        }
        let classes = Classes::new((0..3).map(Label::Int).collect()).unwrap();
        let labels = numbers(&case["labels"]);
        let same = test
            .iter()
            .zip(&labels)
            .filter(|(x, label)| classes.decide(predict(&trained, &golden.kernel, x)) == **label as usize);
        let share = same.count() as f64 / labels.len() as f64;
        assert!(share >= 0.998, "{name}: {share} of the labels");
    }
}

#[test]
fn machines_with_a_penalised_constant_of_liblinear() {
    let golden = golden();
    let y: Vec<f64> = golden.y.iter().map(|label| if *label == 0.0 { 1.0 } else { 0.0 }).collect();
    let cases = [("penalised_hinge", false), ("penalised_squared_hinge", true)];
    for (map, (name, squared)) in MAPS.into_iter().flat_map(|map| cases.map(|case| (map, case))) {
        let case = &golden.cases[name];
        let loss = if squared { "squared-hinge" } else { "hinge" };
        let options = Options::new().set("C", number(&case["c"])).set("intercept", "penalised");
        let options = options.set("loss", loss).set("gap", 1e-8);
        let trained = fit(&golden, (map, "svm"), &golden.x, &y, &options);
        certified(&trained, 0, libsvm(&trained, 0), number(&case["objective"]), name);
        for (x, expected) in golden.new.iter().zip(numbers(&case["scores"])) {
            close(predict(&trained, &golden.kernel, x)[0], expected, 1e-3, name);
        }
    }
}

#[test]
fn support_vector_regression_of_libsvm() {
    let golden = golden();
    for (map, name) in MAPS.into_iter().flat_map(|map| [(map, "svr_1"), (map, "svr_10")]) {
        let case = &golden.cases[name];
        let options = Options::new().set("C", number(&case["c"])).set("gap", 1e-7);
        let trained = fit(&golden, (map, "svr"), &golden.x, &numbers(&case["y"]), &options);
        certified(&trained, 0, libsvm(&trained, 0), number(&case["objective"]), name);
        for (x, expected) in golden.new.iter().zip(numbers(&case["values"])) {
            close(predict(&trained, &golden.kernel, x)[0], expected, 2e-3, name);
        }
    }
}

/// An offset of the target changes the intercept only, not the objective or the duality gap.
#[test]
fn support_vector_regression_knows_no_offset() {
    fn check<T: kapprox::Real>(map: &str, gap: f64) {
        let golden = golden();
        let case = &golden.cases["svr_10"];
        let (y, optimum) = (numbers(&case["y"]), number(&case["objective"]));
        let options = Options::new().set("C", number(&case["c"])).set("gap", gap);
        for offset in [0.0, 1e5, -1e6, 1e8, 1e10] {
            let y: Vec<f64> = y.iter().map(|y| y + offset).collect();
            let trained = fit_in::<T>(&golden, (map, "svr"), &golden.x, &y, &options);
            let (objective, reported) = (libsvm(&trained, 0), figure(&trained, "duality gap")[0]);
            let above = (objective - optimum) / objective;
            let steps = figure(&trained, "steps")[0];
            eprintln!("{map} {} offset {offset:e}: {above:.1e} above, gap {reported:.1e}, {steps} steps", T::NAME);
            assert!(reported <= gap, "{offset:e}: gap {reported:e}");
            // targets near 1e10 are rounded to 2e-6, and kernel values in f32 to 1e-7
            let rounding = 1e-6 + offset.abs() * 1e-15 + if T::NAME == "f32" { 1e-4 } else { 0.0 };
            assert!(
                above <= reported + rounding && above >= -rounding,
                "{offset:e}: {above:e} above, gap {reported:e}"
            );
        }
    }
    for map in MAPS {
        check::<f64>(map, 1e-7);
        check::<f32>(map, 1e-3);
        check::<f32>(map, 1e-6);
    }
}

/// The reported objective equals its value from the coefficients and the kernel matrix in f64.
#[test]
fn objectives_are_those_of_the_model() {
    fn check<T: kapprox::Real>(map: &str, tolerance: f64) {
        let golden = golden();
        let two: Vec<f64> = golden.y.iter().map(|label| if *label == 0.0 { 1.0 } else { -1.0 }).collect();
        let values = numbers(&golden.cases["svr_10"]["y"]);
        let n = golden.x.len() as f64;
        let cases = [("svm", 1.0), ("svm", 1e4), ("svr", 1.0), ("svr", 1e4), ("logistic", 1.0), ("logistic", 1e4)];
        for (name, c) in cases.into_iter().filter(|(name, _)| map != "exact" || *name != "logistic") {
            let options = Options::new().set("C", c);
            let y = if name == "svr" { &values } else { &two };
            let trained = fit_in::<T>(&golden, (map, name), &golden.x, y, &options);
            let scores: Vec<f64> = golden.x.iter().map(|x| predict(&trained, &golden.kernel, x)[0]).collect();
            let loss = |(f, y): (&f64, &f64)| match name {
                "svm" => (1.0 - y * f).max(0.0),
                "svr" => ((y - f).abs() - 0.1).max(0.0),
                _ => (-y * f).exp().ln_1p(),
            };
            let rows = trained.model.basis.landmarks().unwrap().1.iter().enumerate();
            let square: f64 = rows
                .map(|(j, row)| {
                    trained.model.coefficients[(j, 0)] * (scores[*row as usize] - trained.model.intercept[0])
                })
                .sum();
            let expected = scores.iter().zip(y).map(loss).sum::<f64>() / n + trained.report.lambda.unwrap() * square;
            let reported = figure(&trained, "objective")[0];
            let off = (reported - expected).abs() / expected;
            eprintln!(
                "{map} {} {name} C {c}: reported {reported}, by the matrix {expected}, off by {off:.1e}",
                T::NAME
            );
            assert!(off <= tolerance, "{} {name} {c}: {reported} {expected}", T::NAME);
        }
    }
    for map in MAPS {
        check::<f64>(map, 1e-8);
        check::<f32>(map, 1e-4);
    }
}

#[test]
fn the_one_class_machine_of_libsvm() {
    let golden = golden();
    for (map, name) in MAPS.into_iter().flat_map(|map| [(map, "oneclass_0.1"), (map, "oneclass_0.5")]) {
        let case = &golden.cases[name];
        let nu = number(&case["nu"]);
        let options = Options::new().set("nu", nu).set("gap", 1e-7);
        let trained = fit(&golden, (map, "oneclass"), &golden.x, &golden.y, &options);
        certified(&trained, 0, figure(&trained, "objective")[0], number(&case["objective"]), name);
        let scale = golden.new.iter().map(|x| predict(&trained, &golden.kernel, x)[0].abs()).fold(0.0, f64::max);
        for (x, expected) in golden.new.iter().zip(numbers(&case["scores"])) {
            let got = predict(&trained, &golden.kernel, x)[0];
            assert!((got - expected).abs() < 1e-3 * scale, "{name}: {got} against {expected}");
        }
        // nu bounds the fraction of outliers from above, of support vectors from below
        let outside = golden.x.iter().filter(|x| predict(&trained, &golden.kernel, x)[0] < -1e-9).count() as f64;
        let n = golden.x.len() as f64;
        assert!(outside <= (nu + 0.01) * n, "{name}: {outside} outside");
        assert!(figure(&trained, "support vectors")[0] >= (nu - 1e-9) * n, "{name}");
    }
}

#[test]
fn the_gap_bounds_what_is_left_at_every_step() {
    let golden = golden();
    let y: Vec<f64> = golden.y.iter().map(|label| if *label == 0.0 { 1.0 } else { 0.0 }).collect();
    let intercepts = [Intercept::Free, Intercept::Penalised, Intercept::None];
    for (map, intercept) in MAPS.into_iter().flat_map(|map| intercepts.map(|intercept| (map, intercept))) {
        let options = Options::new().set("C", 10.0).set("intercept", intercept).set("gap", 1e-9);
        let best = libsvm(&fit(&golden, (map, "svm"), &golden.x, &y, &options), 0);
        for steps in [1, 2, 4, 8, 12, 16] {
            let trained = fit(&golden, (map, "svm"), &golden.x, &y, &options.clone().set("steps", steps));
            let (now, gap) = (libsvm(&trained, 0), figure(&trained, "duality gap")[0]);
            assert!(
                (now - best) / now <= gap + 1e-8,
                "{map}, {intercept} after {steps} steps: {now}, {best}, gap {gap}"
            );
        }
    }
}

#[test]
fn rows_sorted_by_class_take_no_more_steps() {
    let golden = golden();
    let mut order: Vec<usize> = (0..golden.x.len()).collect();
    order.sort_by(|a, b| golden.y[*a].total_cmp(&golden.y[*b]));
    let sorted: Vec<f64> = order.iter().map(|i| *i as f64).collect();
    let (x, y) = chosen(&golden, &sorted);
    let options = Options::new().set("C", 100.0).set("gap", 1e-5);
    let mixed = fit(&golden, ("nystrom", "svm"), &golden.x, &golden.y, &options);
    let sorted = fit(&golden, ("nystrom", "svm"), &x, &y, &options);
    assert_eq!(figure(&mixed, "steps"), figure(&sorted, "steps"));
    (0..3).for_each(|j| close(libsvm(&sorted, j), libsvm(&mixed, j), 2e-5, "objective of sorted rows"));
}

/// Rows that a polynomial separates, at the default lambda: C is hundreds of times the multipliers.
fn separated() -> (Vec<Vec<f64>>, Vec<f64>) {
    let x: Vec<Vec<f64>> = Lcg(11).normals(300, 3).iter().map(|x| x.to_vec()).collect();
    let y = x.iter().map(|x| f64::from(u8::from(x[0] * x[1] > 0.0))).collect();
    (x, y)
}

#[test]
fn machines_of_rows_that_can_be_separated_close_their_gap() {
    let (x, y) = separated();
    let figure = |fitted: &ksolve::job::Fitted, name: &str| {
        fitted.report.figures.iter().find(|figure| figure.name == name).unwrap().values[0]
    };
    let machine = |map: &str, precision| {
        let fit = ksolve::job::Fit::solver("svm").unwrap().precision(precision).map(map.parse().unwrap());
        let fit = if map == "exact" { fit } else { fit.rank(300) };
        run(&fit.kernel("polynomial(degree=3)".parse().unwrap()), &table(&x, &y), 2).unwrap()
    };
    let exact = figure(&machine("exact", ElementType::F64), "objective");
    for precision in [ElementType::F32, ElementType::F64] {
        let fitted = machine("nystrom", precision);
        let (gap, steps) = (figure(&fitted, "duality gap"), figure(&fitted, "steps"));
        eprintln!("{precision}: gap {gap:.1e} after {steps} steps");
        assert!(gap <= 1e-3 && steps < 200.0, "{precision}: {gap:e} after {steps} steps");
        close(figure(&fitted, "objective") / exact, 1.0, 3e-3, "objective");
    }
}

/// Dual coefficients for an indefinite kernel satisfy the optimality conditions, and the report
/// warns that the gap does not bound the distance from the optimum.
#[test]
fn a_sigmoid_kernel_is_taken_where_multipliers_have_bounds() {
    let (x, y) = separated();
    let (gamma, c0, c) = (0.4, -1.0, 2.0);
    let kernel = format!("sigmoid(gamma={gamma}, c0={c0})");
    let fit = |set: &[(&'static str, &str)]| {
        let fit = ksolve::job::Fit::solver("svm").unwrap().precision(ElementType::F64).scaling(Scaling::None);
        let fit = fit.map("exact".parse().unwrap()).kernel(kernel.parse().unwrap());
        set.iter().fold(fit, |fit, (name, value)| fit.set(name, *value))
    };
    let fitted = run(&fit(&[("C", "2"), ("gap", "1e-9")]), &table(&x, &y), 2).unwrap();
    let warned =
        |text: &String| text.contains("may have negative eigenvalues") && text.contains("not bound the distance");
    assert!(fitted.report.warnings.iter().any(warned), "{:?}", fitted.report.warnings);
    let ksolve::AnyModel::F64(model) = &fitted.model else { panic!() };
    let scores = predicted(&ksolve::predict::Predictor::from_bytes(&model.to_bytes().unwrap()).unwrap(), &x);
    let (points, _) = model.basis.landmarks().unwrap();
    let alpha = |j: usize| model.coefficients[(j, 0)];
    let place = |row: &Vec<f64>| points.chunks(3).position(|point| point == row);
    let betas: Vec<f64> = x.iter().map(|x| place(x).map_or(0.0, alpha)).collect();
    assert!(betas.iter().sum::<f64>().abs() < 1e-9 && betas.iter().any(|beta| *beta != 0.0));
    for ((x, beta), (score, y)) in x.iter().zip(&betas).zip(scores.iter().zip(&y)) {
        let dot = |z: &[f64]| x.iter().zip(z).map(|(x, z)| x * z).sum::<f64>();
        let values = points.chunks(3).enumerate().map(|(j, z)| alpha(j) * (gamma * dot(z) + c0).tanh());
        let value: f64 = values.sum();
        close(score[0], value + model.intercept[0], 1e-9, "score");
        let (sign, margin) = (2.0 * y - 1.0, (2.0 * y - 1.0) * score[0]);
        assert!((0.0..=c + 1e-12).contains(&(sign * beta)), "{beta}");
        let right = match sign * beta {
            0.0 => margin >= 1.0 - 1e-4,
            b if b >= c - 1e-12 => margin <= 1.0 + 1e-4,
            _ => (margin - 1.0).abs() <= 1e-4,
        };
        assert!(right, "multiplier {beta} at margin {margin}");
    }
    let refused = run(&fit(&[("loss", "squared-hinge")]), &table(&x, &y), 1).unwrap_err().to_string();
    assert!(refused.contains("squared-hinge") && refused.contains("not positive definite"), "{refused}");
}
