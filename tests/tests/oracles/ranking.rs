//! Ranking compared with a dense Newton method over all pairs, from kernel values alone.

use crate::solvers::close;
use kmill_tests::dense::solve;
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use ksolve::job::{Candidates, ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::predict::Predictor;
use kstore::{Selection, Table};

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "gaussian(sigma=1.5)";

/// Returns rows of two features and a group, and their grades.
fn rows(n: usize, groups: usize) -> (Rows, Vec<f64>) {
    let mut random = Lcg(5);
    let x = random.normals(n, 2);
    let of = |x: &Vec<f64>, random: &mut Lcg| (1.5 * x[0].sin() + x[0] * x[1] + 0.3 * random.normal()).round();
    let grades = x.iter().map(|x| of(x, &mut random)).collect();
    let x = x.into_iter().enumerate().map(|(i, x)| [x, vec![((7 * i) % groups) as f64]].concat()).collect();
    (x, grades)
}

fn fit(n: usize, loss: &str, lambda: f64, precision: ElementType) -> Fit {
    let fit = Fit::solver("ranking").unwrap().scaling(Scaling::None).precision(precision).rank(n);
    let fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string())).candidates(Candidates::Rows(n as u64));
    fit.kernel(KERNEL.parse().unwrap()).set("lambda", lambda).set("loss", loss)
}

fn run(fit: &Fit, x: &Rows, y: &[f64], threads: usize) -> ksolve::Result<Fitted> {
    let table = Table::from_rows(&x.concat(), x[0].len(), y)?;
    let features = vec!["x0".to_string(), "x1".to_string()];
    let selection =
        fit.complete_selection(Selection { features, targets: vec!["y".to_string()], ..Selection::default() })?;
    fit.run(&table.select(&selection)?, &Run::new().memory(1 << 30).threads(threads))
}

fn predicted(fitted: Fitted, x: &Rows) -> Vec<f64> {
    let predictor = Predictor::new(fitted.model).unwrap();
    let mut out = vec![0.0; x.len()];
    predictor.predict(&x.iter().flat_map(|x| x[..2].to_vec()).collect::<Vec<_>>(), &mut out).unwrap();
    out
}

fn figure(fitted: &Fitted, name: &str) -> f64 {
    fitted.report.figures.iter().find(|figure| figure.name == name).unwrap().values[0]
}

/// Returns the loss of a pair with score difference z, its derivative and its second derivative.
fn pair(loss: &str, z: f64) -> (f64, f64, f64) {
    if loss == "logistic" {
        let p = 1.0 / (1.0 + z.exp());
        return ((1.0 + (-z).exp()).ln(), -p, p * (1.0 - p));
    }
    let short = (1.0 - z).max(0.0);
    (short * short, -2.0 * short, if short > 0.0 { 2.0 } else { 0.0 })
}

/// Minimises (1/P) Σ ℓ(f_i − f_j) + lambda αᵀKα with f = Kα over P pairs; returns the dual
/// coefficients α, the minimum, and P. With a row √(curvature/P) (e_i − e_j) of R for every pair,
/// and r = RᵀRf minus the derivatives by f, Newton's method solves (RᵀRK + 2 lambda I) α = r, by
/// (RKRᵀ + 2 lambda I) q = RKr and α = (r − Rᵀq)/(2 lambda).
fn dense(x: &Rows, y: &[f64], group: &dyn Fn(usize) -> f64, loss: &str, lambda: f64) -> (Vec<f64>, f64, usize) {
    let (n, k) = (x.len(), kernels::kernel(KERNEL));
    let gram: Rows = x.iter().map(|a| x.iter().map(|b| k(&a[..2], &b[..2])).collect()).collect();
    let pairs: Vec<(usize, usize)> = (0..n)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .filter(|(i, j)| group(*i) == group(*j) && y[*i] > y[*j])
        .collect();
    let total = pairs.len() as f64;
    let (mut alpha, mut objective) = (vec![0.0; n], f64::INFINITY);
    for _ in 0..100 {
        let f: Vec<f64> = gram.iter().map(|row| row.iter().zip(&alpha).map(|(k, a)| k * a).sum()).collect();
        let (mut right, mut roots, mut sum) = (vec![0.0; n], Vec::new(), 0.0);
        for (i, j) in &pairs {
            let (value, slope, curvature) = pair(loss, f[*i] - f[*j]);
            sum += value;
            let step = curvature * (f[*i] - f[*j]) - slope;
            right[*i] += step / total;
            right[*j] -= step / total;
            if curvature > 0.0 {
                roots.push((*i, *j, (curvature / total).sqrt()));
            }
        }
        let norm: f64 = alpha.iter().zip(&f).map(|(a, f)| a * f).sum();
        let before = objective;
        objective = sum / total + lambda * norm;
        if (before - objective).abs() < 1e-15 * objective {
            break;
        }
        let apart = |(i, j, root): &(usize, usize, f64), v: &dyn Fn(usize) -> f64| root * (v(*i) - v(*j));
        let system: Rows = (0..roots.len())
            .map(|a| {
                let row = |b: &(usize, usize, f64)| apart(&roots[a], &|i| apart(b, &|j| gram[i][j]));
                let shifted = |(b, root)| row(root) + if a == b { 2.0 * lambda } else { 0.0 };
                roots.iter().enumerate().map(shifted).collect()
            })
            .collect();
        let smooth: Vec<f64> = gram.iter().map(|row| row.iter().zip(&right).map(|(k, r)| k * r).sum()).collect();
        let q = solve(&system, &roots.iter().map(|root| apart(root, &|i| smooth[i])).collect::<Vec<_>>());
        alpha = right;
        for ((i, j, root), q) in roots.iter().zip(q) {
            alpha[*i] -= root * q;
            alpha[*j] += root * q;
        }
        alpha.iter_mut().for_each(|a| *a /= 2.0 * lambda);
    }
    (alpha, objective, pairs.len())
}

#[test]
fn a_ranking_is_the_minimum_over_all_pairs() {
    let (x, y) = rows(44, 4);
    let k = kernels::kernel(KERNEL);
    for loss in ["squared-hinge", "logistic"] {
        for grouped in [true, false] {
            let lambda = 1e-3;
            let fit = fit(44, loss, lambda, ElementType::F64);
            let fit = if grouped { fit.set("group", "x2") } else { fit };
            let group = |i: usize| if grouped { x[i][2] } else { 0.0 };
            let (alpha, objective, pairs) = dense(&x, &y, &group, loss, lambda);
            let fitted = run(&fit, &x, &y, 2).unwrap();
            let what = format!("{loss}, groups {grouped}");
            assert_eq!(figure(&fitted, "pairs"), pairs as f64, "{what}");
            close(figure(&fitted, "objective"), objective, 1e-9, &what);
            let scores = predicted(fitted, &x);
            for (got, row) in scores.iter().zip(&x) {
                let expected: f64 = x.iter().zip(&alpha).map(|(z, a)| a * k(&row[..2], &z[..2])).sum();
                close(*got, expected, 1e-6, &what);
            }
        }
    }
}

/// 3,000 rows in 200 groups are several tiles and more than one work unit.
#[test]
fn groups_keep_to_themselves_and_threads_change_nothing() {
    let (x, y) = rows(3000, 200);
    let fit = fit(60, "squared-hinge", 1e-4, ElementType::F32).set("group", "x2");
    let scores = |y: &[f64], threads| predicted(run(&fit, &x, y, threads).unwrap(), &x);
    let expected = scores(&y, 1);
    assert_eq!(scores(&y, 3), expected, "threads");
    // only the order of the grades within a group counts
    let moved: Vec<f64> = y.iter().zip(&x).map(|(y, x)| (y + 100.0 * x[2]).powi(3)).collect();
    assert_eq!(scores(&moved, 2), expected, "grades of another scale in every group");
    let wide = self::fit(60, "squared-hinge", 1e-4, ElementType::F64).set("group", "x2");
    let wide = predicted(run(&wide, &x, &y, 2).unwrap(), &x);
    let largest = wide.iter().fold(0.0f64, |most, score| most.max(score.abs()));
    wide.iter().zip(&expected).for_each(|(a, b)| assert!((a - b).abs() < 2e-3 * largest, "{a} {b}"));
}

#[test]
fn a_penalty_is_chosen_by_groups_held_out() {
    let (x, y) = rows(1200, 60);
    let fit = fit(60, "squared-hinge", 1e-4, ElementType::F64).set("group", "x2").set("lambda", "1e-6,1e-3,10");
    let fitted = run(&fit, &x, &y, 2).unwrap();
    let errors = fitted.report.figures.iter().find(|figure| figure.name.starts_with("held-out")).unwrap();
    assert_eq!(errors.values.len(), 3);
    let best = errors.values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(errors.values[0] > 1.5 * best && best < 0.2, "{errors:?}");
    assert!(fitted.report.lambda.unwrap() < 0.1);
    let told = |fit: Fit| run(&fit, &x, &y, 1).unwrap_err().to_string();
    assert!(told(fit.clone().set("folds", "blocks:4")).contains("held out together"));
    assert!(told(fit.clone().set("folds", 61)).contains("60 values"));
    assert!(
        run(&fit.set("lambda", 1e-3), &x, &vec![1.0; 1200], 1)
            .unwrap_err()
            .to_string()
            .contains("no pair can be ranked")
    );
}
