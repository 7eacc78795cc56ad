//! Quantile, expectile and Huber regression compared with a linear programme, with a dual problem
//! solved one multiplier at a time, and with iteratively reweighted least squares.

use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels;
use kmill_tests::table::{self, exact, predict, select, write};
use ksolve::job::{ElementType, Fit, Run};
use ksolve::predict::{Evaluation, Predictor};
use ksolve::train::TrainedModel;
use ksolve::{AnyModel, FoldSpec, Task};
use kstore::{Selection, Table};

const KERNEL: &str = "gaussian(sigma=1.2)";

/// All rows as landmarks, and the exact kernel: two ways to compute the same functions.
const MAPS: [&str; 2] = ["nystrom", "exact"];

const N: usize = 60;

/// Rows with noise whose spread depends on the first input.
fn problem() -> (Vec<Vec<f64>>, Vec<f64>) {
    let row = |i: usize| {
        let i = i as f64;
        vec![(0.7 * i).sin(), (1.3 * i).cos() + 0.01 * i]
    };
    let x: Vec<Vec<f64>> = (0..N).map(row).collect();
    let noise = |i: usize, x: &[f64]| (17.0 * i as f64).sin() * (1.0 + x[0] * x[0]);
    let y = x.iter().enumerate().map(|(i, x)| 1.0 + 2.0 * x[0] - x[1] + noise(i, x)).collect();
    (x, y)
}

fn fit_in<T: kapprox::Real>(
    map: &str,
    kernel: &str,
    (x, y): (&[Vec<f64>], &[f64]),
    folds: FoldSpec,
    options: &Options,
    threads: usize,
) -> TrainedModel<T> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let train = TrainOptions { folds, map: map.parse().unwrap(), ..exact(Task::Regression, kernel, x.len()) };
    table::solve::<T>(&select(&path, Task::Regression), &train, "quantile", options, threads)
}

fn fit(map: &str, kernel: &str, options: &Options) -> TrainedModel<f64> {
    let (x, y) = problem();
    let options = options.clone().set("gap", 1e-11).set("steps", 5000);
    fit_in::<f64>(map, kernel, (&x, &y), FoldSpec::None, &options, 2)
}

fn figure<'a, T: kapprox::Real>(trained: &'a TrainedModel<T>, name: &str) -> &'a [f64] {
    &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

/// Without regularisation, quantile regression with a linear kernel is a linear programme. At a
/// small lambda the solution is the same vertex.
///
/// Golden values by scipy 1.17, with x and y of `problem` and A = [1, x]:
/// `linprog(c=[0]*6 + [tau]*n + [1-tau]*n, A_eq=[A, -A, I, -I], b_eq=y, bounds=(0, None))`.
#[test]
fn linear_quantiles_are_those_of_the_linear_programme() {
    let golden = [
        (0.1, [-0.4095818115103321, 1.947913941488459, -1.211482152223186], 0.16587766337179818),
        (0.5, [0.9535792217383305, 2.4808513162113943, -0.9830956188732701], 0.4586613713616459),
        (0.9, [2.447920278038343, 1.8766772401794138, -0.7530943761047062], 0.16919049555348414),
    ];
    let (x, y) = problem();
    for map in MAPS {
        let options = Options::new().set("quantiles", "0.9,0.1,0.5").set("lambda", "1e-5");
        let trained = fit(map, "linear()", &options);
        let gaps = figure(&trained, "duality gap");
        assert!(gaps.iter().all(|gap| *gap <= 1e-9), "{map}: {gaps:?}");
        for (k, (tau, weights, loss)) in golden.into_iter().enumerate() {
            let outputs: Vec<f64> = x.iter().map(|x| predict(&trained, "linear()", x)[k]).collect();
            for (x, output) in x.iter().zip(&outputs) {
                let expected = weights[0] + weights[1] * x[0] + weights[2] * x[1];
                assert!((output - expected).abs() < 1e-5, "{map}, {tau}: {output} {expected}");
            }
            let errors = y.iter().zip(outputs).map(|(y, f)| y - f);
            let mean = errors.map(|e| e * if e < 0.0 { tau - 1.0 } else { tau }).sum::<f64>() / N as f64;
            assert!((mean - loss).abs() < 1e-6, "{map}, {tau}: {mean} {loss}");
        }
    }
}

/// The dual of quantile regression without an intercept, max yᵀβ − ½βᵀKβ with (τ − 1)c ≤ β ≤ τc,
/// solved by exact steps along one multiplier at a time. c = s/(2nλ), where s is the standard
/// deviation of the target.
#[test]
fn quantiles_are_those_of_the_dual_by_coordinates() {
    let (x, y) = problem();
    let k = kernels::kernel(KERNEL);
    let matrix = kernel_matrix(&x, &*k);
    let mean = y.iter().sum::<f64>() / N as f64;
    let deviation = (y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / N as f64).sqrt();
    for (lambda, levels) in [(1e-2, [0.25, 0.9]), (1e-4, [0.1, 0.5])] {
        let expected = levels.map(|tau| {
            let c = deviation / (2.0 * N as f64 * lambda);
            let mut beta = vec![0.0; N];
            for _ in 0..200_000 {
                let mut change = 0.0f64;
                for i in 0..N {
                    let f: f64 = matrix[i].iter().zip(&beta).map(|(k, beta)| k * beta).sum();
                    let next = (beta[i] + (y[i] - f) / matrix[i][i]).clamp((tau - 1.0) * c, tau * c);
                    change = change.max((next - beta[i]).abs());
                    beta[i] = next;
                }
                if change < 1e-12 * c {
                    break;
                }
            }
            beta
        });
        for map in MAPS {
            let levels = format!("{},{}", levels[0], levels[1]);
            let options = Options::new().set("quantiles", levels).set("lambda", lambda).set("intercept", "none");
            let trained = fit(map, KERNEL, &options);
            for at in &x {
                let got = predict(&trained, KERNEL, at);
                for (j, beta) in expected.iter().enumerate() {
                    let value: f64 = x.iter().zip(beta).map(|(x, beta)| beta * k(at, x)).sum();
                    assert!((got[j] - value).abs() < 2e-4, "{map}, lambda {lambda}, output {j}: {} {value}", got[j]);
                }
            }
        }
    }
}

/// Returns α and b of the minimum of (1/n) Σ v_i (y_i − f_i)² + lambda αᵀKα, f = Kα + b, where the
/// weights v depend on the errors: least squares with the weights of the errors before, until the
/// errors are stationary.
fn reweighted(lambda: f64, weight: impl Fn(f64) -> f64) -> Vec<f64> {
    let (x, y) = problem();
    let k = kernel_matrix(&x, &*kernels::kernel(KERNEL));
    let mut f = vec![y.iter().sum::<f64>() / N as f64; N];
    for _ in 0..3000 {
        let v: Vec<f64> = y.iter().zip(&f).map(|(y, f)| weight(y - f)).collect();
        // (K + λ n diag(1/v)) α + b = y, and Σα = 0
        let mut a = k.clone();
        (0..N).for_each(|i| a[i][i] += lambda * N as f64 / v[i]);
        let (of_y, of_one) = (solve(&a, &y), solve(&a, &[1.0; N]));
        let b = of_y.iter().sum::<f64>() / of_one.iter().sum::<f64>();
        let alpha: Vec<f64> = of_y.iter().zip(of_one).map(|(y, one)| y - b * one).collect();
        let value = |i: usize| k[i].iter().zip(&alpha).map(|(k, alpha)| k * alpha).sum::<f64>() + b;
        let next: Vec<f64> = (0..N).map(value).collect();
        let change = f.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        f = next;
        if change < 1e-12 {
            break;
        }
    }
    f
}

#[test]
fn expectiles_are_asymmetric_least_squares() {
    let (x, _) = problem();
    let options = Options::new().set("loss", "expectile").set("quantiles", "0.1,0.5,0.95").set("lambda", "1e-3");
    let trained = fit("nystrom", KERNEL, &options);
    assert!(figure(&trained, "duality gap").iter().all(|gap| *gap <= 1e-9));
    for (j, tau) in [0.1, 0.5, 0.95].into_iter().enumerate() {
        let expected = reweighted(1e-3, |error| if error < 0.0 { 1.0 - tau } else { tau });
        for (x, expected) in x.iter().zip(expected) {
            let got = predict(&trained, KERNEL, x)[j];
            assert!((got - expected).abs() < 1e-5, "{tau}: {got} {expected}");
        }
    }
}

/// Huber's loss is a squared error with the weight min(1, delta/|error|)/2.
#[test]
fn robust_means_are_reweighted_least_squares() {
    let (x, _) = problem();
    for delta in [0.2, 1.5] {
        let options = Options::new().set("loss", "huber").set("delta", delta).set("lambda", "1e-3");
        let trained = fit("nystrom", KERNEL, &options);
        let expected = reweighted(1e-3, |error| 0.5 * (delta / error.abs()).min(1.0));
        for (x, expected) in x.iter().zip(expected) {
            let got = predict(&trained, KERNEL, x)[0];
            assert!((got - expected).abs() < 1e-5, "{delta}: {got} {expected}");
        }
    }
}

/// The errors of an outlier are beyond delta, so its size does not matter to a robust mean: its
/// gradient is delta, and the median absolute deviation, which sets delta, is the same.
#[test]
fn outliers_do_not_dominate_the_huber_loss() {
    let (x, mut y) = problem();
    let at = |y: &[f64], options: &Options| {
        let trained = fit_in::<f64>("nystrom", KERNEL, (&x, y), FoldSpec::None, options, 2);
        x.iter().map(|x| predict(&trained, KERNEL, x)[0]).collect::<Vec<f64>>()
    };
    let huber = Options::new().set("loss", "huber").set("lambda", "1e-1").set("gap", "1e-14");
    let mean = Options::new().set("loss", "expectile").set("lambda", "1e-1");
    y[7] += 1e2;
    let before = [at(&y, &huber), at(&y, &mean)];
    y[7] += 1e4;
    let after = [at(&y, &huber), at(&y, &mean)];
    let moved = |k: usize| before[k].iter().zip(&after[k]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(moved(0) < 1e-6 && moved(1) > 1e2, "{} {}", moved(0), moved(1));
}

/// The loss that chooses the lambda of a level equals the loss of fits without the rows of each
/// fold; the chosen lambdas give the functions of fits of one level with this lambda alone, also
/// the functions of the folds; and the bits do not depend on the threads.
#[test]
fn lambda_of_each_level_is_chosen_by_the_held_out_loss() {
    let (x, y) = problem();
    // every level of the quantiles has its minimum at another of these lambdas
    let path = ["1e-2", "3e-3", "1e-3"];
    let levels = ["0.05", "0.5", "0.9"];
    let pinball = Options::new().set("quantiles", levels.join(","));
    let cases = [
        (pinball.clone(), "held-out pinball loss at each"),
        (pinball.set("loss", "expectile"), "held-out expectile loss at each"),
        (Options::new().set("loss", "huber").set("delta", 0.5), "held-out huber loss at each"),
    ];
    let exact_too = |(map, (_, name)): &(&str, (Options, &str))| *map != "exact" || name.contains("pinball");
    let cases = MAPS.into_iter().flat_map(|map| cases.clone().map(|case| (map, case))).filter(exact_too);
    let mut has_different_lambdas = false;
    for (map, (base, name)) in cases {
        let base = base.set("gap", 1e-10).set("steps", 5000);
        let with_interval = |options: Options| if map == "exact" { options } else { options.set("interval", 0.9) };
        let solver = with_interval(base.clone().set("lambda", path.join(",")));
        let by = |x: &[Vec<f64>], y: &[f64], folds, solver: &Options, threads| {
            fit_in::<f64>(map, KERNEL, (x, y), folds, solver, threads)
        };
        let trained = by(&x, &y, FoldSpec::Blocks(3), &solver, 2);
        let again = by(&x, &y, FoldSpec::Blocks(3), &solver, 1);
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.report.figures == again.report.figures
        );
        // strongest first, level by level
        let errors = figure(&trained, name);
        let level_count = errors.len() / path.len();
        for (penalty, lambda) in path.iter().enumerate() {
            let mut sums = vec![0.0; level_count];
            for fold in 0..3 {
                let held = |i: &usize| i / 20 == fold;
                let (inside, inside_y): (Vec<_>, Vec<_>) =
                    (0..N).filter(|i| !held(i)).map(|i| (x[i].clone(), y[i])).unzip();
                // the pinball loss is multiplied by the deviation of all rows
                let factor = if name.contains("pinball") { deviation(&inside_y) / deviation(&y) } else { 1.0 };
                let lambda = lambda.parse::<f64>().unwrap() * factor;
                let part = by(&inside, &inside_y, FoldSpec::None, &base.clone().set("lambda", lambda), 2);
                let loss = part.model.metadata.loss.clone().unwrap();
                for i in (0..N).filter(held) {
                    let outputs = predict(&part, KERNEL, &x[i]);
                    sums.iter_mut().zip(outputs).enumerate().for_each(|(k, (sum, f))| *sum += loss.value(k, y[i], f));
                }
            }
            for (level, sum) in sums.into_iter().enumerate() {
                let (error, expected) = (errors[level * path.len() + penalty], sum / N as f64);
                assert!((error / expected - 1.0).abs() < 1e-4, "{map}, {name}, {lambda}: {error} {expected}");
            }
        }
        let lambdas = trained.report.lambdas();
        has_different_lambdas |= lambdas.len() > 1;
        for (level, errors) in errors.chunks(path.len()).enumerate() {
            let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
            let chosen = path[errors.iter().position(|error| *error == best).unwrap()];
            let lambda = lambdas[level % lambdas.len()];
            assert!((lambda / chosen.parse::<f64>().unwrap() - 1.0).abs() < 1e-12, "{map}, {name}: {lambda} {chosen}");
            let alone = with_interval(base.clone().set("lambda", chosen));
            let alone = if level_count > 1 { alone.set("quantiles", levels[level]) } else { alone };
            let folds = if map == "exact" { FoldSpec::None } else { FoldSpec::Blocks(3) };
            let alone = by(&x, &y, folds, &alone, 2);
            for at in &x {
                let (of_all, of_one) = (predict(&trained, KERNEL, at)[level], predict(&alone, KERNEL, at)[0]);
                assert!((of_all - of_one).abs() < 1e-4, "{map}, {name}, level {level}: {of_all} {of_one}");
            }
            let functions = trained.model.components.iter().zip(&alone.model.components);
            for (of_all, of_one) in functions {
                for fold in 0..3 {
                    let (of_all, of_one) = (of_all.weights.col(level_count * fold + level), of_one.weights.col(fold));
                    let distance = (of_all - of_one).norm_l2() / of_one.norm_l2();
                    assert!(distance < 1e-3, "{map}, {name}, level {level}, without fold {fold}: {distance}");
                }
            }
        }
    }
    assert!(has_different_lambdas, "every case has a common lambda");
}

fn deviation(y: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    (y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / y.len() as f64).sqrt()
}

/// Quantiles that cross are sorted, alike for a row, for a slice and for a table; the file stores
/// the loss; and the scores are the means of the loss over the rows.
#[test]
fn predicted_quantiles_do_not_cross() {
    let (x, y) = problem();
    let table = Table::from_rows(&x.concat(), 2, &y).unwrap();
    let levels = [0.4, 0.45, 0.5, 0.55, 0.6];
    for precision in [ElementType::F32, ElementType::F64] {
        let fit = Fit::solver("quantile").unwrap().kernel("gaussian(sigma=0.1)".parse().unwrap()).rank(40);
        let fit = fit.precision(precision).set("quantiles", "0.4,0.45,0.5,0.55,0.6").set("lambda", "1e-6");
        let fit = fit.set("folds", "none");
        let fitted = fit.fit_table(&table, &["y"], &Run::new()).unwrap();
        let unsorted = match &fitted.model {
            AnyModel::F32(model) => model.metadata.clone(),
            AnyModel::F64(model) => model.metadata.clone(),
        };
        assert_eq!(unsorted.loss.as_ref().unwrap().levels(), levels);
        let bytes = Predictor::new(fitted.model).unwrap().to_bytes().unwrap();
        let predictor = Predictor::from_bytes(&bytes).unwrap();
        assert_eq!(predictor.metadata(), &unsorted);
        let new: Vec<f64> = (0..400).map(|i| (f64::from(i) * 0.37).sin()).collect();
        let mut out = vec![0.0; 5 * 200];
        predictor.predict(&new, &mut out).unwrap();
        assert!(out.chunks(5).all(|row| row.is_sorted()) && out.chunks(5).any(|row| row[0] < row[4]));
        let (mut one, mut scratch) = (vec![0.0; 5], predictor.scratch());
        for (x, expected) in new.chunks(2).zip(out.chunks(5)) {
            predictor.predict_with_scratch(x, &mut one, &mut scratch).unwrap();
            assert_eq!(one, expected);
        }
        let rows = Table::from_rows(&new, 2, &vec![0.0; 200]).unwrap();
        let selected = predictor.select(&rows, Selection::default()).unwrap();
        let mut of_table = Vec::new();
        let visit = |scores: &ksolve::predict::Scores| {
            of_table.extend_from_slice(&scores.scores);
            Ok(())
        };
        predictor.score_table(&selected, Default::default(), Vec::new(), &Run::new(), visit).unwrap();
        assert!(of_table == out, "the table has other quantiles");
        let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
        let selected = predictor.select(&table, selection).unwrap();
        let (Evaluation::Regression(scores), _) = predictor.evaluate(&selected, &Run::new()).unwrap() else {
            panic!("a regression")
        };
        let (loss, mut sums, mut out) = (scores.loss.unwrap(), [0.0; 5], vec![0.0; 5 * N]);
        predictor.predict(&x.concat(), &mut out).unwrap();
        for (row, y) in out.chunks(5).zip(&y) {
            for ((sum, f), tau) in sums.iter_mut().zip(row).zip(levels) {
                *sum += (y - f) * if y < f { tau - 1.0 } else { tau } / N as f64;
            }
        }
        for (output, expected) in loss.outputs.iter().zip(sums) {
            assert!((output.mean / expected - 1.0).abs() < 1e-10, "{output:?} {expected}");
        }
        assert!((loss.mean - sums.iter().sum::<f64>() / 5.0).abs() < 1e-12);
        let mae = out.chunks(5).zip(&y).map(|(row, y)| (y - row[2]).abs()).sum::<f64>() / N as f64;
        assert!((scores.scores.mae.unwrap() / mae - 1.0).abs() < 1e-10);
    }
}

/// The unit of the target does not matter: targets in thousandths have predictions in thousandths.
#[test]
fn the_unit_of_the_target_does_not_matter() {
    let (x, y) = problem();
    let small: Vec<f64> = y.iter().map(|y| 1e-3 * y).collect();
    for loss in ["pinball", "expectile", "huber"] {
        let solver = Options::new().set("loss", loss).set("lambda", "1e-3").set("gap", 1e-10).set("steps", 2000);
        let at = |y: &[f64]| {
            let trained = fit_in::<f64>("nystrom", KERNEL, (&x, y), FoldSpec::None, &solver, 1);
            x.iter().map(|x| predict(&trained, KERNEL, x)[0]).collect::<Vec<f64>>()
        };
        for (large, small) in at(&y).into_iter().zip(at(&small)) {
            assert!((large - 1e3 * small).abs() < 1e-4, "{loss}: {large} {small}");
        }
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let family = kfit::solver::by_name("quantile").unwrap();
    let error = |options: &Options| {
        let built = family.settings(options).and_then(|settings| family.build_solver(&settings).map(|_| ()));
        built.unwrap_err().to_string()
    };
    assert!(error(&Options::new().set("loss", "huber").set("quantiles", "0.5")).contains("has no levels"));
    assert!(error(&Options::new().set("delta", 2)).contains("choose `loss` huber"));
    for levels in ["0", "0.5,1", "0.5,0.5", "a", "0.1,,0.9", "-0.1"] {
        assert!(error(&Options::new().set("quantiles", levels)).contains("between 0 and 1"), "{levels}");
    }
    let huber = Options::new().set("loss", "huber");
    let (x, y) = problem();
    let table = Table::from_rows(&x.concat(), 2, &y).unwrap();
    let exact_fit = Fit::solver("quantile").unwrap().map("exact".parse().unwrap()).set("loss", "huber");
    let refused = exact_fit.fit_table(&table, &["y"], &Run::new()).unwrap_err().to_string();
    assert!(refused.contains("only `loss` pinball is supported"), "{refused}");
    assert!(error(&huber.set("lambda", "1e-3,1e-2").set("folds", "none")).contains("held out"));
}
