//! Kernels with a scaling of their own.

use crate::inputs::{block, points, view};
use faer::{Mat, MatRef};
use kapprox::kernel::Kernel;

const KNOTS: usize = 65;

/// Returns the quantile score of `value` by the definition of the transform: linear between the
/// quantiles of the column, where equal quantiles have the mean of their scores.
fn score(column: &[f64], value: f64) -> f64 {
    let mut sorted = column.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut quantiles: Vec<(f64, Vec<f64>)> = Vec::new();
    for k in 0..KNOTS {
        let p = (k as f64 + 0.5) / KNOTS as f64;
        let z = (p.powf(0.3) - (1.0 - p).powf(0.3)) / (0.3 * 1.169974165433836);
        // an expression holds the shortest decimal number of the f32
        let quantile: f64 = (sorted[(p * sorted.len() as f64) as usize] as f32).to_string().parse().unwrap();
        match quantiles.last_mut() {
            Some((last, scores)) if *last == quantile => scores.push(z),
            _ => quantiles.push((quantile, vec![z])),
        }
    }
    let mean = |scores: &Vec<f64>| scores.iter().sum::<f64>() / scores.len() as f64;
    let knots: Vec<(f64, f64)> = quantiles.iter().map(|(quantile, scores)| (*quantile, mean(scores))).collect();
    let (first, last) = (knots[0], knots[knots.len() - 1]);
    if value <= first.0 {
        return first.1 + (value - first.0).asinh();
    }
    match knots.windows(2).find(|pair| value <= pair[1].0) {
        Some(pair) => pair[0].1 + (pair[1].1 - pair[0].1) * (value - pair[0].0) / (pair[1].0 - pair[0].0),
        None => last.1 + (value - last.0).asinh(),
    }
}

/// Returns the scores of n x d points among the columns of a sample.
fn scores(sample: &[f64], x: &[f64], d: usize) -> Vec<f64> {
    let columns: Vec<Vec<f64>> = (0..d).map(|k| sample.chunks(d).map(|row| row[k]).collect()).collect();
    x.iter().enumerate().map(|(i, value)| score(&columns[i % d], *value)).collect()
}

fn resolve(text: &str, sample: MatRef<'_, f64>, names: &[&str]) -> Kernel {
    Kernel::parse(text).unwrap().resolve_columns(names).unwrap().resolve_median(sample).unwrap()
}

#[test]
fn a_quantile_kernel_is_the_kernel_of_the_scores() {
    let (n, d, names) = (301, 3, ["x0", "x1", "x2"]);
    let (sample, x) = (points::<f64>(n, d, 1, 0.0), points::<f64>(120, d, 2, 0.0));
    let x: Vec<f64> = x.iter().map(|v| 1.5 * v).collect();
    let images = scores(&sample, &x, d);
    for (text, plain) in [
        ("laplacian(sigma=2, scale=quantile)", "laplacian(sigma=2)"),
        ("matern(nu=1.5, sigma=[1, 2, 3], scale=quantile)", "matern(nu=1.5, sigma=[1, 2, 3])"),
    ] {
        let kernel = resolve(text, view(&sample, d), &names);
        assert!(kernel.rescales_inputs() && !kernel.needs_median());
        assert_eq!(Kernel::parse(&kernel.to_string()).unwrap(), kernel);
        let (got, expected) = (kernel.build().unwrap(), Kernel::parse(plain).unwrap().build().unwrap());
        let got: Mat<f64> = block(&got, view(&x, d), view(&sample, d));
        let expected: Mat<f64> = block(&expected, view(&images, d), view(&scores(&sample, &sample, d), d));
        assert!((got - expected).norm_max() < 1e-12, "{text}");
    }
    // `median` is the median distance of the scores, not of the inputs
    let kernel = resolve("laplacian(sigma=median, scale=quantile)", view(&sample, d), &names);
    let plain = resolve("laplacian(sigma=median)", view(&scores(&sample, &sample, d), d), &names);
    let length = |kernel: &Kernel| kernel.column_lengths(d).unwrap()[0].1;
    assert!((length(&kernel) / length(&plain) - 1.0).abs() < 1e-9);
}

#[test]
fn columns_are_selected_before_they_are_scaled() {
    let (d, names) = (3, ["x0", "x1", "x2"]);
    let sample = points::<f64>(200, d, 1, 0.0);
    let kernel = resolve("laplacian(sigma=2, scale=quantile, on=[x2, x0])", view(&sample, d), &names);
    let columns: Vec<f64> = sample.chunks(d).flat_map(|row| [row[2], row[0]]).collect();
    let images = scores(&columns, &columns, 2);
    let got: Mat<f64> = block(&kernel.build().unwrap(), view(&sample, d), view(&sample, d));
    let plain = Kernel::parse("laplacian(sigma=2)").unwrap().build().unwrap();
    let expected: Mat<f64> = block(&plain, view(&images, 2), view(&images, 2));
    assert!((got - expected).norm_max() < 1e-12);
    let (inner, inputs) = kernel.on_scaled_inputs(view(&sample, d)).unwrap();
    assert_eq!(inner.to_string(), "laplacian(sigma=2)");
    assert!((inputs - view(&images, 2)).norm_max() < 1e-12);
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    let d = 2;
    let (sample, z) = (points::<f64>(100, d, 1, 0.0), points::<f64>(20, d, 5, 0.0));
    let kernel = resolve("gaussian(sigma=1.5, scale=quantile)", view(&sample, d), &["x0", "x1"]);
    let kernel = kernel.build().unwrap().typed::<f64>();
    let weights = Mat::full(1, 20, 1.0);
    // far outside, between two quantiles, and a negative value
    for x in [[9.0, 0.0123], [0.2, -0.31], [-7.5, 0.4]] {
        let mut gradient = Mat::zeros(1, d);
        assert!(kernel.gradient(view(&x, d), view(&z, d), weights.as_ref(), gradient.as_mut()));
        for k in 0..d {
            let sum_at = |shift: f64| {
                let (mut x, mut values) = (x, Mat::zeros(1, 20));
                x[k] += shift;
                kernel.block(view(&x, d), view(&z, d), values.as_mut());
                (0..20).map(|j| values[(0, j)]).sum::<f64>()
            };
            let h = 1e-6;
            let expected = (sum_at(h) - sum_at(-h)) / (2.0 * h);
            assert!((gradient[(0, k)] - expected).abs() < 1e-6, "{x:?} {k}: {} {expected}", gradient[(0, k)]);
        }
    }
}

#[test]
fn constant_columns_and_ties_are_finite() {
    let sample: Vec<f64> = (0..60).flat_map(|i| [5.0, f64::from(i % 3)]).collect();
    let kernel = resolve("laplacian(sigma=1, scale=quantile)", view(&sample, 2), &["x0", "x1"]).build().unwrap();
    let x = [5.0, 0.0, -3.0, 0.5, 1e300, 2.0, 5.0, 7.0];
    let values: Mat<f64> = block(&kernel, view(&x, 2), view(&sample, 2));
    assert!(values.is_all_finite());
    assert!((values[(0, 0)] - 1.0).abs() < 1e-12);
}

#[test]
fn a_kernel_without_quantiles_is_not_built() {
    let kernel = Kernel::parse("laplacian(sigma=1, scale=quantile)").unwrap();
    assert!(kernel.needs_median());
    let error = kernel.build().unwrap_err().to_string();
    assert!(error.contains("quantile has no value"), "{error}");
    let knots: Vec<String> = (0..KNOTS).map(|k| k.to_string()).collect();
    let kernel = Kernel::parse(&format!("laplacian(sigma=1, scale=[{}])", knots.join(", "))).unwrap();
    assert!(kernel.check_input_count(1).is_ok());
    let error = kernel.check_input_count(2).unwrap_err().to_string();
    assert!(error.contains("the quantiles of 1"), "{error}");
}
