//! The test of conditional independence: compared with dense matrices, under the null hypothesis,
//! with power, and bit-identical in every way.

use crate::solvers::close;
use crate::statistics::{Machine, USUAL, normals, on, options, selected, table};
use faer::{Mat, Side, linalg::solvers::Solve};
use kapprox::Kernel;
use kfit::request::{Resources, TrainOptions};
use ksolve::job::NoStageObserver;
use ksolve::statistic::{ConditionalFigures, Conditioning, TestInput, TestOutcome, by_name, measure};
use kstore::{SelectedTable, Workers};

/// Rows of three columns a, b, c in one table.
fn kernel_on(text: &str, columns: &str, rows: &SelectedTable) -> Kernel {
    Kernel::parse(text).unwrap().on(columns).unwrap().resolve_columns(&rows.feature_names()).unwrap()
}

fn figures(outcome: &TestOutcome) -> &ConditionalFigures {
    outcome.statistic.conditional.as_ref().unwrap()
}

/// The dense n x n matrices of the test at one penalty: H K H, and the residuals' R H K H R.
struct Dense {
    /// Centred kernel matrix of C.
    given: Mat<f64>,
}

impl Dense {
    /// I − S = λ (H K_C H/n + λ I)⁻¹.
    fn annihilator(&self, lambda: f64) -> Mat<f64> {
        let n = self.given.nrows();
        let system = Mat::from_fn(n, n, |i, j| self.given[(i, j)] / n as f64 + if i == j { lambda } else { 0.0 });
        let identity = Mat::from_fn(n, n, |i, j| if i == j { lambda } else { 0.0 });
        system.llt(Side::Lower).unwrap().solve(identity)
    }

    fn residual(&self, own: &Mat<f64>, lambda: f64) -> Mat<f64> {
        let annihilator = self.annihilator(lambda);
        &annihilator * own * &annihilator
    }

    /// The generalised cross-validation error.
    fn error(&self, own: &Mat<f64>, lambda: f64) -> f64 {
        let n = own.nrows() as f64;
        let freedom = n - trace(&self.annihilator(lambda)) + 1.0;
        trace(&self.residual(own, lambda)) / n / (1.0 - freedom / n).powi(2)
    }
}

fn trace(a: &Mat<f64>) -> f64 {
    (0..a.nrows()).map(|i| a[(i, i)]).sum()
}

fn centred(a: &Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let row_mean = |i: usize| (0..n).map(|j| a[(i, j)]).sum::<f64>() / n as f64;
    let means: Vec<f64> = (0..n).map(row_mean).collect();
    let mean = means.iter().sum::<f64>() / n as f64;
    Mat::from_fn(n, n, |i, j| a[(i, j)] - means[i] - means[j] + mean)
}

fn kernel_matrix(points: &[Vec<f64>], spec: &str, columns: &[usize]) -> Mat<f64> {
    let k = kmill_tests::kernels::kernel(spec);
    let part = |i: usize| columns.iter().map(|j| points[i][*j]).collect::<Vec<f64>>();
    Mat::from_fn(points.len(), points.len(), |i, j| k(&part(i), &part(j)))
}

/// Imhof's integral for P(Σ λ z² > x), by the trapezoidal rule.
fn imhof(weights: &[f64], x: f64) -> f64 {
    let scale = 1.0 / weights.iter().fold(0.0f64, |max, w| max.max(*w));
    let integrand = |u: f64| {
        let angle: f64 = weights.iter().map(|w| (w * scale * u).atan()).sum::<f64>() / 2.0 - x * scale * u / 2.0;
        let modulus: f64 = weights.iter().map(|w| (1.0 + (w * scale * u).powi(2)).ln() / 4.0).sum();
        angle.sin() / u * (-modulus).exp()
    };
    let step = 2e-3;
    0.5 + (0..400_000).map(|k| integrand((f64::from(k) + 0.5) * step)).sum::<f64>() * step / std::f64::consts::PI
}

#[test]
fn the_conditional_statistic_is_that_of_the_dense_matrices() {
    let n = 26;
    let noise = normals(31, 3 * n);
    let points: Vec<Vec<f64>> = noise
        .chunks(3)
        .map(|row| vec![row[0] + 0.8 * row[1], row[0].sin() + 0.7 * row[2] + 0.3 * row[1], row[0]])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let rows = selected(&table(folder.path(), &points), "x*", 0..n as u64);
    let (spec, given_spec) = ("gaussian(sigma=0.9)", "matern(nu=1.5, sigma=1.3)");
    let own_a = kernel_on(spec, "x0", &rows) * kernel_on(spec, "x2", &rows);
    let own_b = kernel_on(spec, "x1", &rows);
    let mut conditioning =
        Conditioning { kernel: kernel_on(given_spec, "x2", &rows), rank: n, lambda: Some(0.01), components: n };
    let options = options(&own_a, &own_b, n, 0);
    let run =
        |conditioning: &Conditioning| on::<f64>(USUAL, "hsic", TestInput::Conditional(&rows, conditioning), &options);
    let found = run(&conditioning);
    let dense = Dense { given: centred(&kernel_matrix(&points, given_spec, &[2])) };
    let product = kernel_matrix(&points, spec, &[0, 2]);
    let (a, b) = (centred(&product), centred(&kernel_matrix(&points, spec, &[1])));
    let (residual_a, residual_b) = (dense.residual(&a, 0.01), dense.residual(&b, 0.01));
    let nf = n as f64;
    // the kernel of the products a ⊗ b is the elementwise product
    let products = Mat::from_fn(n, n, |i, j| residual_a[(i, j)] * residual_b[(i, j)]);
    let sum: f64 = (0..n).map(|i| (0..n).map(|j| products[(i, j)]).sum::<f64>()).sum();
    let statistic = &found.statistic;
    close(statistic.biased, sum / (nf * nf), 1e-8, "biased");
    close(statistic.unbiased, (sum - trace(&products)) / (nf * (nf - 1.0)), 1e-8, "unbiased");
    let norm = |residual: &Mat<f64>| residual.squared_norm_l2().sqrt();
    close(statistic.alignment.unwrap(), sum / norm(&residual_a) / norm(&residual_b), 1e-8, "alignment");
    for (got, (own, residual)) in figures(&found).explained.iter().zip([(&a, &residual_a), (&b, &residual_b)]) {
        close(*got, 1.0 - trace(residual) / trace(own), 1e-8, "explained");
    }
    // the variance of a sum of products of residuals, and its estimate from independent rows
    let annihilator = dense.annihilator(0.01);
    let square = centred(&(&annihilator * &annihilator));
    let ratio = trace(&square).powi(2) / (nf * square.squared_norm_l2());
    assert!((0.1..0.9).contains(&ratio), "{ratio}");
    let covariance = centred(&products);
    let weights: Vec<f64> = kapprox::decompose::symmetric_eigenvalues(covariance.as_ref())
        .unwrap()
        .into_iter()
        .map(|value| value / nf)
        .filter(|weight| *weight > 1e-14)
        .collect();
    let scaled = ratio * sum / nf;
    close(statistic.p_values.spectrum.unwrap(), imhof(&weights, scaled), 1e-5, "spectrum");
    let (mean, variance) = (weights.iter().sum::<f64>(), 2.0 * weights.iter().map(|w| w * w).sum::<f64>());
    let gamma = statistic.p_values.gamma.unwrap();
    assert!((gamma - statistic.p_values.spectrum.unwrap()).abs() < 0.05, "{gamma} of {mean} and {variance}");
    assert_eq!(statistic.p_values.permutation, None);
    let freedom = nf - trace(&annihilator) + 1.0;
    figures(&found).degrees_of_freedom.iter().for_each(|got| close(*got, freedom, 1e-8, "degrees of freedom"));
    // generalised cross-validation: ten times the penalty is better than the neighbours in the grid
    conditioning.lambda = None;
    let chosen = run(&conditioning);
    for (lambda, own) in figures(&chosen).lambdas.iter().zip([&a, &b]) {
        let [below, best, above] = [-0.25, 0.0, 0.25].map(|step| dense.error(own, 10.0 * lambda * 10f64.powf(step)));
        assert!(best <= below && best <= above, "{lambda}: {below} {best} {above}");
    }
    // two components: the leading part of the residuals
    conditioning = Conditioning { components: 2, lambda: Some(0.01), ..conditioning };
    let few = run(&conditioning);
    let leading = |residual: &Mat<f64>| {
        let (values, vectors) = kapprox::decompose::symmetric_eigen(residual.as_ref()).unwrap();
        Mat::from_fn(n, n, |i, j| (n - 2..n).map(|k| values[k] * vectors[(i, k)] * vectors[(j, k)]).sum())
    };
    let (a, b): (Mat<f64>, Mat<f64>) = (leading(&residual_a), leading(&residual_b));
    let sum: f64 = (0..n).map(|i| (0..n).map(|j| a[(i, j)] * b[(i, j)]).sum::<f64>()).sum();
    close(few.statistic.biased, sum / (nf * nf), 1e-7, "two components");
    assert_eq!(figures(&few).components, [2, 2]);
}

/// Returns the p-values of tests of x0 and x1 given x2 on disjoint parts of a table of `point`, a
/// function of four independent normal numbers.
fn p_values(trials: u64, n: u64, point: impl Fn(&[f64]) -> Vec<f64>) -> Vec<TestOutcome> {
    let folder = tempfile::tempdir().unwrap();
    let noise = normals(41, 4 * (n * trials) as usize);
    let points: Vec<Vec<f64>> = noise.chunks(4).map(point).collect();
    let path = table(folder.path(), &points);
    (0..trials)
        .map(|trial| {
            let rows = selected(&path, "x*", n * trial..n * (trial + 1));
            let of = |columns: &str| kernel_on("gaussian(sigma=median)", columns, &rows);
            let conditioning = Conditioning {
                kernel: kernel_on("matern(nu=1.5, sigma=median)", "x2", &rows),
                rank: 60,
                lambda: None,
                components: 10,
            };
            let options = options(&(of("x0") * of("x2")), &of("x1"), 60, 0);
            let options = (TrainOptions { seed: trial, ..options.0 }, 0);
            on::<f64>(USUAL, "hsic", TestInput::Conditional(&rows, &conditioning), &options)
        })
        .collect()
}

fn rejection_rate(outcomes: &[TestOutcome]) -> f64 {
    let rejected = outcomes.iter().filter(|outcome| outcome.statistic.p_values.spectrum.unwrap() <= 0.05);
    rejected.count() as f64 / outcomes.len() as f64
}

#[test]
fn columns_with_a_common_cause_are_independent_given_the_cause() {
    // the squares of x0 and x1 depend on x2, and their noise has a scale that depends on x2
    let outcomes = p_values(400, 200, |z| {
        let scale = 0.4 + 0.3 * z[2].abs();
        vec![z[2] + scale * z[0], (1.5 * z[2]).tanh() + scale * z[1], z[2]]
    });
    let rate = rejection_rate(&outcomes);
    // three standard deviations of a binomial fraction
    assert!((rate - 0.05).abs() <= 3.0 * (0.05f64 * 0.95 / 400.0).sqrt(), "{rate}");
    let correlations = outcomes.iter().map(|outcome| figures(outcome).correlation.unwrap());
    let mean = correlations.sum::<f64>() / 400.0;
    assert!(mean.abs() < 0.03, "{mean}");
    // without the condition, they are dependent
    let explained = figures(&outcomes[0]).explained;
    assert!(explained[1] > 0.3, "{explained:?}");
}

#[test]
fn dependence_given_the_cause_is_found() {
    // a second common cause z[3], and a sign that x2 flips: given x2 the columns are dependent, but
    // without x2 they are not
    let common = p_values(40, 200, |z| vec![z[2] + 0.6 * z[0] + 0.6 * z[3], z[2] + 0.6 * z[1] + 0.6 * z[3], z[2]]);
    let flipped = p_values(40, 200, |z| vec![z[0], z[2].signum() * z[0] + 0.5 * z[1], z[2]]);
    let (common_rate, flipped_rate) = (rejection_rate(&common), rejection_rate(&flipped));
    assert!(common_rate > 0.9 && flipped_rate > 0.9, "{common_rate} {flipped_rate}");
    let correlation = figures(&common[0]).correlation.unwrap();
    assert!((0.2..0.7).contains(&correlation), "{correlation}");
}

#[test]
fn conditional_tests_have_the_same_bits_wherever_features_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = normals(5, 3 * 20_000);
    let path = table(folder.path(), &numbers.chunks(3).map(<[f64]>::to_vec).collect::<Vec<_>>());
    let rows = selected(&path, "x*", 0..20_000);
    let of = |columns: &str| kernel_on("gaussian(sigma=median)", columns, &rows);
    let conditioning = Conditioning { kernel: of("x2"), rank: 50, lambda: None, components: 8 };
    let mut options = options(&(of("x0") * of("x2")), &of("x1"), 50, 0);
    options.0.candidates = Some(1000);
    let input = TestInput::Conditional(&rows, &conditioning);
    let usual = on::<f32>(USUAL, "hsic", input, &options);
    let three = on::<f32>(Machine { threads: 3, ..USUAL }, "hsic", input, &options);
    let small = Machine { memory: 52 << 20, ..USUAL };
    let recomputed = on::<f32>(small, "hsic", input, &options);
    let scratch = on::<f32>(Machine { scratch: Some(folder.path()), ..small }, "hsic", input, &options);
    assert_eq!((usual.passes + 1, usual.passes), (recomputed.passes, scratch.passes));
    for other in [&three, &recomputed, &scratch] {
        assert_eq!((&usual.statistic, &usual.kernels), (&other.statistic, &other.kernels));
    }
    let double = on::<f64>(USUAL, "hsic", input, &options).statistic;
    close(usual.statistic.biased, double.biased, 1e-3, "f32");
}

#[test]
fn conditions_without_an_answer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let points: Vec<Vec<f64>> = normals(6, 60).chunks(1).map(|z| vec![z[0], z[0], 1.0, (7.0 * z[0]).sin()]).collect();
    let path = table(folder.path(), &points);
    let workers = Workers::sequential();
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let refused = |[a, b, c]: [&str; 3], count: u64, name: &str, message: &str| {
        let rows = selected(&path, "x*", 0..count);
        let of = |columns: &str| kernel_on("gaussian(sigma=1)", columns, &rows);
        let conditioning = Conditioning { kernel: of(c), rank: 30, lambda: None, components: 10 };
        let options = options(&of(a), &of(b), 30, 0);
        let input = TestInput::Conditional(&rows, &conditioning);
        let error = measure::<f64>(by_name(name).unwrap(), input, &options.0, 0, &resources).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    refused(["x0", "x3", "x1"], 60, "hsic", "`features`: its columns are functions of the columns of `given`");
    refused(["x3", "x2", "x0"], 60, "hsic", "`with`: the columns are constant in feature space");
    refused(["x3", "x0", "x2"], 60, "hsic", "`given`: the columns are constant in feature space");
    refused(["x3", "x0", "x1"], 9, "hsic", "at least 10 rows");
    refused(["x3", "x0", "x1"], 60, "mmd", "only hsic tests conditional independence");
}
