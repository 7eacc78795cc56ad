use super::*;
use crate::likelihood::random_numbers;
use faer::{Side, prelude::Solve};

fn parts(text: &str, d: usize) -> Vec<Part> {
    let terms = Kernel::parse(text).unwrap().resolve_columns(&["x0", "x1", "x2", "x3"][..d]).unwrap().terms();
    terms
        .into_iter()
        .map(|kernel| Part { length_scales: kernel.column_lengths(d).unwrap_or_default(), kernel, inputs: 0..d })
        .collect()
}

fn data(n: usize, d: usize, t: usize) -> (Vec<f64>, Mat<f64>, Vec<f64>) {
    let mut draw = random_numbers(11);
    let x: Vec<f64> = (0..n * d).map(|_| 1.5 * draw()).collect();
    let y = Mat::from_fn(n, t, |i, j| (x[i * d + j] * x[i * d + d - 1]).sin() + 0.1 * draw());
    let weights = (0..n).map(|i| [0.5, 1.0, 2.0][i % 3]).collect();
    (x, y, weights)
}

/// Computes F by its formula from the kernel of the whole sum, with an LU decomposition.
fn reference_likelihood(x: MatRef<'_, f64>, y: &Mat<f64>, row_weights: &[f64], parts: &[Part], theta: &[f64]) -> f64 {
    let (n, mut rest, mut terms) = (x.nrows(), theta, Vec::new());
    let scales = &theta[theta.len() - 1 - parts.len()..];
    for (part, weight) in parts.iter().zip(scales) {
        let lengths: Vec<f64> = rest[..part.length_scales.len()].iter().map(|v| v.exp()).collect();
        rest = &rest[part.length_scales.len()..];
        terms.push((weight.exp(), part.with_length_scales(&lengths)));
    }
    let mut k = Mat::zeros(n, n);
    Kernel::weighted_sum(terms).build().unwrap().typed::<f64>().block(x, x, k.as_mut());
    (0..n).for_each(|i| k[(i, i)] += scales[parts.len()].exp() / row_weights.get(i).unwrap_or(&1.0));
    let log_det: f64 = {
        let llt = k.llt(Side::Lower).unwrap();
        (0..n).map(|i| 2.0 * llt.L()[(i, i)].ln()).sum()
    };
    let solved = k.full_piv_lu().solve(y);
    let fit: f64 = (0..y.ncols()).map(|t| (0..n).map(|i| y[(i, t)] * solved[(i, t)]).sum::<f64>()).sum();
    0.5 * (y.ncols() as f64 * (log_det + n as f64 * std::f64::consts::TAU.ln()) + fit)
}

const SUMS: [&str; 4] = [
    "matern(nu=1.5, sigma=1) + laplacian(sigma=[2, 0.5, 1, 3])",
    "gaussian(sigma=2) + exponential(sigma=1, on=[x2, x0]) + linear()",
    "rational_quadratic(alpha=0.75, sigma=[1, 2, 3, 4]) + cauchy(sigma=2)*gaussian(sigma=3) + 0.5",
    "laplacian(sigma=3)",
];

fn theta(parts: &[Part]) -> Vec<f64> {
    let lengths = parts.iter().flat_map(|part| &part.length_scales).enumerate();
    let lengths = lengths.map(|(i, (_, length))| length.ln() + 0.1 * (i % 3) as f64);
    lengths.chain((0..parts.len()).map(|p| -0.3 * p as f64)).chain([-1.5]).collect()
}

#[test]
fn the_likelihood_is_that_of_the_dense_formula() {
    for (text, (n, t)) in SUMS.iter().zip([(60, 1), (230, 2), (40, 3), (97, 1)]) {
        let ((x, y, row_weights), parts, workers) = (data(n, 4, t), parts(text, 4), Workers::new(2));
        let x = MatRef::from_row_major_slice(&x, n, 4);
        for weights in [&[][..], &row_weights] {
            let sample = Sample { x, y: y.as_ref(), weights, parts: &parts, workers: &workers };
            let theta = theta(&parts);
            let value = sample.likelihood(&theta, &mut vec![f64::NAN; theta.len()]).unwrap();
            let expected = reference_likelihood(x, &y, weights, &parts, &theta);
            assert!((value - expected).abs() < 1e-9 * expected.abs(), "{text}: {value} {expected}");
        }
    }
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for (text, (n, t)) in SUMS.iter().zip([(60, 1), (130, 2), (40, 3), (97, 1)]) {
        let ((x, y, weights), parts, workers) = (data(n, 4, t), parts(text, 4), Workers::new(2));
        let x = MatRef::from_row_major_slice(&x, n, 4);
        let sample = Sample { x, y: y.as_ref(), weights: &weights, parts: &parts, workers: &workers };
        let theta = theta(&parts);
        let mut gradient = vec![f64::NAN; theta.len()];
        sample.likelihood(&theta, &mut gradient).unwrap();
        let scale = gradient.iter().fold(1.0, |most: f64, g| most.max(g.abs()));
        for k in 0..theta.len() {
            let at = |shift: f64| {
                let mut theta = theta.clone();
                theta[k] += shift;
                reference_likelihood(x, &y, &weights, &parts, &theta)
            };
            // central differences of fourth order in the step h
            let h = 1e-3;
            let expected = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
            assert!((gradient[k] - expected).abs() < 1e-7 * scale, "{text} {k}: {} {expected}", gradient[k]);
        }
    }
}

/// The numbers are those of scikit-learn 1.9.1:
///
/// ```text
/// i, k = np.meshgrid(np.arange(40), np.arange(3), indexing="ij")
/// x = ((7*i + 3*k*i + 5*k) % 11)/4 - 1.25 + i/64
/// y = np.sin(x[:, 0]) + x[:, 1]*x[:, 2]; y -= y.mean()
/// kernel = (0.5*Matern([0.7, 1.5, 3.0], nu=1.5) + 0.8*RBF([1.2, 0.9, 2.0])
///           + 0.3*Matern([2.0, 1.0, 0.5], nu=0.5) + WhiteKernel(0.1))
/// fit = GaussianProcessRegressor(kernel, optimizer=None, alpha=0).fit(x, y)
/// fit.log_marginal_likelihood(fit.kernel_.theta, eval_gradient=True)
/// ```
#[test]
fn value_and_gradient_are_those_of_scikit_learn() {
    let value = |i: usize, k: usize| ((7 * i + 3 * k * i + 5 * k) % 11) as f64 / 4.0 - 1.25 + i as f64 / 64.0;
    let x: Vec<f64> = (0..40).flat_map(|i| (0..3).map(move |k| value(i, k))).collect();
    let y = Mat::from_fn(40, 1, |i, _| value(i, 0).sin() + value(i, 1) * value(i, 2));
    let (_, mean) = (0, y.col(0).iter().sum::<f64>() / 40.0);
    let y = Mat::from_fn(40, 1, |i, _| y[(i, 0)] - mean);
    let text = "matern(nu=1.5, sigma=[0.7, 1.5, 3]) + gaussian(sigma=[1.2, 0.9, 2]) + exponential(sigma=[2, 1, 0.5])";
    let (parts, workers) = (parts(text, 3), Workers::sequential());
    let x = MatRef::from_row_major_slice(&x, 40, 3);
    let sample = Sample { x, y: y.as_ref(), weights: &[], parts: &parts, workers: &workers };
    let lengths = parts.iter().flat_map(|part| &part.length_scales).map(|(_, length)| length.ln());
    let theta: Vec<f64> = lengths.chain([0.5f64, 0.8, 0.3, 0.1].map(f64::ln)).collect();
    let mut gradient = vec![0.0; theta.len()];
    let value = sample.likelihood(&theta, &mut gradient).unwrap();
    assert!((value - 30.10872373517666).abs() < 1e-9, "{value}");
    let lengths = [3.76195196, 0.93254967, 0.18881218, 1.78356117, 1.9427237, -0.48401824, 0.28973139, 0.52038566];
    let scales = [3.71819342, -3.02098356, -1.33075599, -5.83922827, -5.46372087];
    for (k, (got, expected)) in gradient.iter().zip(lengths.into_iter().chain(scales)).enumerate() {
        assert!((got + expected).abs() < 1e-7, "{k}: {got} {expected}");
    }
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let ((x, y, weights), parts) = (data(300, 4, 2), parts(SUMS[1], 4));
    let evaluate = |threads| {
        let workers = Workers::new(threads);
        let x = MatRef::from_row_major_slice(&x, 300, 4);
        let sample = Sample { x, y: y.as_ref(), weights: &weights, parts: &parts, workers: &workers };
        let theta = theta(&parts);
        let mut gradient = vec![0.0; theta.len()];
        let value = sample.likelihood(&theta, &mut gradient).unwrap();
        (value.to_bits(), gradient.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
    };
    assert_eq!(evaluate(1), evaluate(3));
}

#[test]
fn an_undefined_likelihood_is_infinite() {
    let ((x, y, _), parts, workers) = (data(30, 4, 1), parts(SUMS[0], 4), Workers::sequential());
    let x = MatRef::from_row_major_slice(&x, 30, 4);
    let sample = Sample { x, y: y.as_ref(), weights: &[], parts: &parts, workers: &workers };
    for (k, broken) in [(0, f64::INFINITY), (3, f64::NAN), (8, 800.0), (9, 800.0), (10, -800.0)] {
        let mut theta = theta(&parts);
        theta[k] = broken;
        let mut gradient = vec![f64::NAN; theta.len()];
        assert_eq!(sample.likelihood(&theta, &mut gradient).unwrap(), f64::INFINITY, "{k}");
        assert!(gradient.iter().all(|g| *g == 0.0));
    }
}
