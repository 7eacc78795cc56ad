//! Predictive variances compared with a dense Gaussian process of the same form.

use faer::{Mat, MatRef};
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::points::{Lcg, flat};
use kmill_tests::{kernels, table};
use kmodel::Quadratic;
use ksolve::Intercept;
use ksolve::Task;
use ksolve::job::NoStageObserver;
use ksolve::train::{TrainedModel, train};
use kstore::Workers;

const N: usize = 90;
const LAMBDA: f64 = 1e-3;

fn problem() -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(21);
    let rows = random.normals(N, 2);
    let y = rows.iter().map(|x| 3.0 + (1.5 * x[0]).sin() + x[1] + 0.3 * random.normal()).collect();
    (rows, y)
}

fn fit(rows: &[Vec<f64>], y: &[f64], spec: &str, map: &str, rank: usize, intercept: Intercept) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    table::write(&path, rows, y);
    let options =
        TrainOptions { map: map.parse().unwrap(), rank, ranks: vec![rank], ..table::exact(Task::Regression, spec, N) };
    let ridge = Ridge { lambdas: vec![LAMBDA], intercept, stores_variance: true, ..Ridge::default() };
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    train::<f64>(&table::select(&path, Task::Regression), &options, &ridge, &resources).unwrap()
}

/// Prior covariance q(x, x') of the features, and the residual variance k(x, x) − q(x, x).
struct Prior<'p> {
    q: &'p dyn Fn(&[f64], &[f64]) -> f64,
    rest: &'p dyn Fn(&[f64]) -> f64,
}

/// Computes the function's variance over s², and s² by restricted maximum likelihood, densely.
fn dense(prior: &Prior<'_>, rows: &[Vec<f64>], y: &[f64], intercept: Intercept, at: &[f64]) -> (f64, f64) {
    let mu = LAMBDA * N as f64;
    let one = if intercept == Intercept::Penalised { 1.0 } else { 0.0 };
    let q = |x: &[f64], z: &[f64]| (prior.q)(x, z) + one;
    let mut m = kernel_matrix(rows, &q);
    (0..N).for_each(|i| m[i][i] += mu);
    let (ones, cross): (Vec<f64>, Vec<f64>) = (vec![1.0; N], rows.iter().map(|x| q(x, at)).collect());
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (by_cross, by_ones, by_y) = (solve(&m, &cross), solve(&m, &ones), solve(&m, y));
    let mut variance = q(at, at) - dot(&cross, &by_cross) + (prior.rest)(at);
    let (mut signal, mut freedom) = (dot(y, &by_y), N as f64);
    if intercept == Intercept::Free {
        variance += (1.0 - dot(&ones, &by_cross)).powi(2) / dot(&ones, &by_ones);
        signal -= dot(&ones, &by_y).powi(2) / dot(&ones, &by_ones);
        freedom -= 1.0;
    }
    (variance, signal / freedom)
}

fn agrees(
    trained: &TrainedModel<f64>,
    map: &str,
    prior: &Prior<'_>,
    rows: &[Vec<f64>],
    y: &[f64],
    intercept: Intercept,
) {
    let model = table::model(trained);
    let Quadratic { output_scales: noise, .. } = trained.model.quadratic.as_ref().unwrap();
    // near the rows, between them, and far away
    let at: Vec<Vec<f64>> = rows[..5].iter().cloned().chain(Lcg(22).normals(20, 2)).chain([vec![9.0, -7.0]]).collect();
    let (functions, kernel) = (model.functions().unwrap(), model.kernel().unwrap());
    let mut found = vec![0.0; at.len()];
    let x = flat(&at);
    let x = MatRef::from_row_major_slice(&x, at.len(), 2);
    model.predict_quadratic(&functions, &*kernel, x, &mut found, &Workers::new(2)).unwrap();
    for (found, at) in found.iter().zip(&at) {
        let (variance, signal) = dense(prior, rows, y, intercept, at);
        let expected = signal * LAMBDA * N as f64;
        assert!((noise[0] / expected - 1.0).abs() < 1e-8, "{map}, {intercept}: {noise:?} {expected}");
        let (found, expected) = (found * noise[0], variance * signal);
        assert!((found / expected - 1.0).abs() < 1e-6, "{map}, {intercept} at {at:?}: {found} {expected}");
    }
}

const INTERCEPTS: [Intercept; 3] = [Intercept::Free, Intercept::Penalised, Intercept::None];

#[test]
fn with_every_row_a_landmark_they_are_those_of_the_exact_process() {
    let (rows, y) = problem();
    for spec in ["matern(nu=1.5, sigma=2)", "exponential(sigma=1.5)"] {
        let k = kernels::kernel(spec);
        for intercept in INTERCEPTS {
            let trained = fit(&rows, &y, spec, "nystrom", N, intercept);
            assert_eq!(trained.report.rank, N);
            let prior = Prior { q: &*k, rest: &|_| 0.0 };
            agrees(&trained, "nystrom", &prior, &rows, &y, intercept);
        }
    }
}

#[test]
fn with_few_landmarks_they_are_the_subset_of_regressors_and_what_it_leaves_out() {
    let (rows, y) = problem();
    let spec = "gaussian(sigma=1)";
    let k = kernels::kernel(spec);
    for intercept in INTERCEPTS {
        let trained = fit(&rows, &y, spec, "nystrom", 20, intercept);
        let landmarks: Vec<Vec<f64>> =
            trained.model.basis.landmarks().unwrap().0.chunks(2).map(<[f64]>::to_vec).collect();
        assert_eq!(landmarks.len(), 20);
        let among = kernel_matrix(&landmarks, &*k);
        let column = |x: &[f64]| landmarks.iter().map(|z| k(x, z)).collect::<Vec<f64>>();
        let q = |x: &[f64], z: &[f64]| column(x).iter().zip(solve(&among, &column(z))).map(|(a, b)| a * b).sum::<f64>();
        // the mean residual of the training rows is a part of the noise
        let rest = |x: &[f64]| k(x, x) - q(x, x);
        let (typical, mu) = (rows.iter().map(|x| rest(x)).sum::<f64>() / N as f64, LAMBDA * N as f64);
        let prior = Prior { q: &q, rest: &|x| (rest(x) - typical).max(0.0) * mu / (mu + typical) };
        agrees(&trained, "nystrom", &prior, &rows, &y, intercept);
    }
}

/// Random features define their own prior, without a residual.
#[test]
fn random_features_have_the_variances_of_their_own_kernel() {
    let (rows, y) = problem();
    for intercept in INTERCEPTS {
        let trained = fit(&rows, &y, "gaussian(sigma=1)", "fourier", 40, intercept);
        assert!(trained.model.quadratic.as_ref().unwrap().feature_coefficients.is_none());
        let functions = table::model(&trained).functions().unwrap();
        let phi = |x: &[f64]| {
            let mut out = Mat::<f64>::zeros(1, 40);
            functions.apply(MatRef::from_row_major_slice(x, 1, 2), out.as_mut(), &Workers::sequential());
            out
        };
        let q = |x: &[f64], z: &[f64]| (&phi(x) * phi(z).transpose())[(0, 0)];
        agrees(&trained, "fourier", &Prior { q: &q, rest: &|_| 0.0 }, &rows, &y, intercept);
    }
}

/// Far from the landmarks the features vanish, and only the variance of the prior remains.
#[test]
fn far_from_the_rows_the_variance_is_that_of_the_prior() {
    let (rows, y) = problem();
    let trained = fit(&rows, &y, "gaussian(sigma=1)", "nystrom", 20, Intercept::None);
    let (model, left) = (table::model(&trained), trained.report.certificate.unwrap().trace_error);
    let (functions, kernel) = (model.functions().unwrap(), model.kernel().unwrap());
    let mut out = [0.0];
    let far = Mat::from_fn(1, 2, |_, _| 100.0);
    model.predict_quadratic(&functions, &*kernel, far.as_ref(), &mut out, &Workers::sequential()).unwrap();
    // minus the mean residual of the training rows
    let expected = (1.0 - left) / (LAMBDA * N as f64 + left);
    assert!((out[0] / expected - 1.0).abs() < 1e-9, "{out:?} {expected}");
}
