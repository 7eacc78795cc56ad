use super::*;
use crate::likelihood::random_numbers;
use crate::likelihood::sample::{MAX_ROWS, evenly_spaced_rows};
use kstore::pass::NoObserver;

fn draws(n: usize, d: usize, seed: u64) -> Mat<f64> {
    let mut draw = random_numbers(seed);
    // uniform with variance 1
    Mat::from_fn(n, d, |_, _| 3f64.sqrt() * draw())
}

fn learned(kernel: &str, x: &Mat<f64>, y: &Mat<f64>, threads: usize) -> Result<(Kernel, Option<LikelihoodReport>)> {
    learn(&Kernel::parse(kernel).unwrap(), x.as_ref(), y.as_ref(), &[], &NoObserver, &Workers::new(threads))
}

#[test]
fn each_part_finds_its_columns() {
    let x = draws(400, 4, 5);
    // a smooth function of column 0 and a step along column 2
    let y = Mat::from_fn(400, 1, |i, _| (1.5 * x[(i, 0)]).sin() + f64::from(u8::from(x[(i, 2)] > 0.3)));
    let (kernel, report) = learned("gaussian(sigma=2) + laplacian(sigma=4)", &x, &y, 2).unwrap();
    let lengths = |kernel: &Kernel| kernel.column_lengths(4).unwrap().into_iter().map(|(_, length)| length);
    let all: Vec<Vec<f64>> = kernel.terms().iter().map(|term| lengths(term).collect()).collect();
    let (smooth, rough) = (&all[0], &all[1]);
    assert!([1, 2, 3].into_iter().all(|k| smooth[k] > 5.0 * smooth[0]), "{kernel}");
    assert!([0, 1, 3].into_iter().all(|k| rough[k] > 5.0 * rough[2]), "{kernel}");
    let report = report.unwrap();
    assert!((report.rows, report.parameters) == (400, 11) && report.noise < 0.05, "{report:?}");
    let one = learned("gaussian(sigma=2)", &x, &y, 2).unwrap().1.unwrap();
    assert!(report.aic() < one.aic(), "{report} {one}");
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let x = draws(900, 3, 1);
    let y = Mat::from_fn(900, 2, |i, t| (x[(i, t)] * x[(i, 2)]).sin());
    let one = learned("gaussian(sigma=2) + exponential(sigma=2)", &x, &y, 1).unwrap();
    assert_eq!(one, learned("gaussian(sigma=2) + exponential(sigma=2)", &x, &y, 3).unwrap());
}

#[test]
fn the_sample_has_equal_steps_of_the_target() {
    let y = Mat::from_fn(10_000, 1, |i, _| ((i * 7919) % 10_000) as f64);
    let rows = evenly_spaced_rows(y.as_ref());
    let sorted = |rows: &[usize]| {
        let mut values: Vec<f64> = rows.iter().map(|row| y[(*row, 0)]).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!(rows.len(), MAX_ROWS);
    assert!(sorted(&rows).windows(2).all(|pair| (pair[1] - pair[0] - 10.0 / 1.5).abs() < 1.0));
    assert!(sorted(&rows[..500]).windows(2).all(|pair| (pair[1] - pair[0] - 20.0).abs() < 1.5));
}

#[test]
fn degenerate_samples_give_finite_length_scales() {
    let (x, chance) = (draws(60, 3, 2), draws(60, 1, 3));
    let y = Mat::from_fn(60, 1, |i, _| x[(i, 0)]);
    let text = "gaussian(sigma=2) + laplacian(sigma=2)";
    let constant = Mat::from_fn(60, 1, |_, _| 0.1);
    assert_eq!(learned(text, &x, &constant, 1).unwrap(), (Kernel::parse(text).unwrap(), None));
    let same = Mat::from_fn(60, 3, |_, k| x[(0, k)]);
    let doubled = Mat::from_fn(60, 3, |i, k| x[(i / 6, k)]);
    for x in [&same, &doubled, &x] {
        for y in [&y, &chance] {
            let (kernel, report) = learned(text, x, y, 1).unwrap();
            assert!(report.unwrap().log_likelihood.is_finite());
            kernel.build().unwrap();
        }
    }
    learned(text, &draws(2, 3, 1), &draws(2, 1, 2), 1).unwrap();
}

#[test]
fn kernels_without_length_scales_are_refused() {
    let (x, y) = (draws(20, 3, 1), draws(20, 1, 2));
    for text in ["linear() + 1", "gaussian(sigma=1)*laplacian(sigma=1)"] {
        let error = learned(text, &x, &y, 1).unwrap_err().to_string();
        assert!(error.contains("a kernel with a length scale"), "{error}");
    }
}

/// Computes the log-likelihood of a learned kernel densely, with the whole sum and its scaling.
fn dense_log_likelihood(kernel: &Kernel, report: &LikelihoodReport, x: &Mat<f64>, y: &Mat<f64>) -> f64 {
    let (n, mean) = (y.nrows(), y.col(0).iter().sum::<f64>() / y.nrows() as f64);
    let variance = y.col(0).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
    let y = Mat::from_fn(n, 1, |i, _| (y[(i, 0)] - mean) / variance.sqrt());
    let mut k = Mat::zeros(n, n);
    kernel.build().unwrap().typed::<f64>().block(x.as_ref(), x.as_ref(), k.as_mut());
    k *= faer::Scale(report.noise / report.regularisation);
    (0..n).for_each(|i| k[(i, i)] += report.noise);
    let eigen = k.self_adjoint_eigen(faer::Side::Lower).unwrap();
    let rotated = eigen.U().transpose() * &y;
    let terms = (0..n).map(|i| eigen.S()[i].ln() + rotated[(i, 0)].powi(2) / eigen.S()[i]);
    -0.5 * (terms.sum::<f64>() + n as f64 * std::f64::consts::TAU.ln())
}

#[test]
fn a_part_with_its_own_scaling_learns_the_lengths_of_the_scores() {
    let skewed = draws(200, 3, 5);
    let x = Mat::from_fn(200, 3, |i, k| (2.0 * skewed[(i, k)]).exp());
    let y = Mat::from_fn(200, 1, |i, _| skewed[(i, 0)] + f64::from(u8::from(skewed[(i, 2)] > 0.3)) + 0.1 * x[(i, 1)]);
    let text = "matern(nu=1.5, sigma=4) + laplacian(sigma=2, scale=quantile)";
    let kernel = Kernel::parse(text).unwrap().resolve_median(x.as_ref()).unwrap();
    let (kernel, report) = learned(&kernel.to_string(), &x, &y, 2).unwrap();
    let report = report.unwrap();
    assert_eq!((kernel.terms().len(), report.parameters), (2, 9));
    let expected = dense_log_likelihood(&kernel, &report, &x, &y);
    // the length scales and weights are rounded to four digits
    assert!((report.log_likelihood - expected).abs() < 0.05, "{} {expected}", report.log_likelihood);
    let plain = learned("matern(nu=1.5, sigma=4) + laplacian(sigma=4)", &x, &y, 2).unwrap().1.unwrap();
    assert!(report.aic() < plain.aic(), "{report} {plain}");
}

#[test]
fn a_learned_kernel_continues_where_it_ended() {
    let x = draws(300, 3, 5);
    let y = Mat::from_fn(300, 1, |i, _| (1.5 * x[(i, 0)]).sin() + f64::from(u8::from(x[(i, 2)] > 0.3)));
    let (kernel, first) = learned("gaussian(sigma=2) + laplacian(sigma=4)", &x, &y, 1).unwrap();
    assert!(kernel.has_length_lists());
    let (_, again) = learned(&kernel.to_string(), &x, &y, 1).unwrap();
    let (first, again) = (first.unwrap(), again.unwrap());
    assert!(again.log_likelihood > first.log_likelihood - 0.5, "{first} {again}");
}

#[test]
fn stages_use_more_and_more_rows() {
    let rows = |stages: Vec<Stage>| stages.into_iter().map(Stage::rows).collect::<Vec<_>>();
    let all = |n: usize| rows([Stage::first(n)].into_iter().chain(Stage::later(n)).collect());
    assert_eq!((all(1_500), all(900), all(749)), (vec![500, 1_000, 1_500], vec![300, 600, 900], vec![749]));
}

/// A part with long length scales has a weight of many variances of the targets; the other part
/// matters nevertheless.
#[test]
fn a_part_next_to_a_large_weight_stays() {
    let x = draws(300, 5, 7);
    let noise = draws(300, 1, 8);
    let y = Mat::from_fn(300, 1, |i, _| {
        let step = f64::from(u8::from(x[(i, 4)] > 0.3));
        x[(i, 0)] + 2.0 * x[(i, 1)] + x[(i, 2)] * x[(i, 3)] + 0.3 * step + 0.05 * noise[(i, 0)]
    });
    let (kernel, report) = learned("gaussian(sigma=2) + laplacian(sigma=4)", &x, &y, 2).unwrap();
    let report = report.unwrap();
    assert_eq!(kernel.terms().len(), 2, "{kernel} {report}");
    assert!(kernel.term_weights()[1] < 1e-3, "{kernel}");
    let expected = dense_log_likelihood(&kernel, &report, &x, &y);
    assert!((report.log_likelihood - expected).abs() < 0.5, "{} {expected}", report.log_likelihood);
}
