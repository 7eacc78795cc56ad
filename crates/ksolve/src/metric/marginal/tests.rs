use super::*;
use faer::{Side, prelude::Solve};
use kapprox::Real;

/// The kernel exp(−‖x − z‖² / 2σ²) or (1 + x·z)², computed by loops.
#[derive(Debug)]
pub(in crate::metric) enum TestKernel {
    Gauss(f64),
    Square,
}

impl TestKernel {
    /// Returns k(x, z), and the number c with ∇ₓk = c·(z − x) for `Gauss` and ∇ₓk = c·z for
    /// `Square`.
    fn pair<T: Real>(&self, x: &[T], z: &[T]) -> (f64, f64) {
        let pairs = x.iter().zip(z).map(|(x, z)| (x.to_f64(), z.to_f64()));
        match self {
            Self::Gauss(sigma) => {
                let value = (-0.5 * pairs.map(|(x, z)| (x - z) * (x - z)).sum::<f64>() / (sigma * sigma)).exp();
                (value, value / (sigma * sigma))
            }
            Self::Square => {
                let base = 1.0 + pairs.map(|(x, z)| x * z).sum::<f64>();
                (base * base, 2.0 * base)
            }
        }
    }
}

fn rows<'a, T: Real>(x: MatRef<'a, T>) -> Vec<&'a [T]> {
    (0..x.nrows()).map(|i| x.row(i).try_as_row_major().unwrap().as_slice()).collect()
}

impl<T: Real> KernelFunction<T> for TestKernel {
    fn spec(&self) -> String {
        "plain()".to_string()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        for (i, x) in rows(x).into_iter().enumerate() {
            for (j, z) in rows(z).into_iter().enumerate() {
                out[(i, j)] = T::from_f64(self.pair(x, z).0);
            }
        }
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        let z = rows(z);
        for (i, x) in rows(x).into_iter().enumerate() {
            let mut sum = vec![0.0; x.len()];
            for (j, z) in z.iter().enumerate() {
                let weight = weights[(i, j)].to_f64() * self.pair(x, z).1;
                let quadratic = if matches!(self, Self::Gauss(_)) { 1.0 } else { 0.0 };
                sum.iter_mut()
                    .zip(x.iter().zip(*z))
                    .for_each(|(g, (x, z))| *g += weight * (z.to_f64() - quadratic * x.to_f64()));
            }
            for (k, g) in sum.into_iter().enumerate() {
                out[(i, k)] = T::from_f64(out[(i, k)].to_f64() + g);
            }
        }
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        rows(x).into_iter().zip(out).for_each(|(x, out)| *out = self.pair(x, x).0);
    }
}

/// Pseudorandom numbers in (−1, 1).
pub(in crate::metric) fn random_numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

fn data(n: usize, d: usize, t: usize) -> (Mat<f64>, Mat<f64>) {
    let mut draw = random_numbers(7);
    let x = Mat::from_fn(n, d, |_, _| 2.0 * draw());
    let mut y = Mat::from_fn(n, t, |i, j| (x[(i, j % d)] * x[(i, (j + 1) % d)]).sin() + 0.1 * draw());
    for j in 0..t {
        let mean = y.col(j).iter().sum::<f64>() / n as f64;
        y.col_mut(j).iter_mut().for_each(|v| *v -= mean);
    }
    (x, y)
}

/// Computes the function F of the parent module by its formula, with explicit matrices and no
/// jitter.
fn reference_likelihood(x: &Mat<f64>, y: &Mat<f64>, m: usize, kernel: &TestKernel, theta: &[f64]) -> f64 {
    let (n, d) = (x.nrows(), x.ncols());
    let z: Vec<Vec<f64>> = (0..n).map(|i| (0..d).map(|k| x[(i, k)] * theta[k].exp()).collect()).collect();
    let (amplitude, noise) = (theta[d].exp(), theta[d + 1].exp());
    let k = Mat::from_fn(n, n, |i, j| amplitude * kernel.pair(&z[i], &z[j]).0);
    let mut q = k.clone();
    if m < n {
        let landmark_matrix = k.submatrix(0, 0, m, m).to_owned();
        q = k.subcols(0, m) * landmark_matrix.full_piv_lu().solve(k.subrows(0, m));
    }
    let trace: f64 = (0..n).map(|i| k[(i, i)] - q[(i, i)]).sum();
    (0..n).for_each(|i| q[(i, i)] += noise);
    let llt = q.llt(Side::Lower).unwrap();
    let log_det: f64 = (0..n).map(|i| 2.0 * llt.L()[(i, i)].ln()).sum();
    let solved = q.full_piv_lu().solve(y);
    let fit: f64 = (0..y.ncols()).map(|t| (0..n).map(|i| y[(i, t)] * solved[(i, t)]).sum::<f64>()).sum();
    let volume = log_det + n as f64 * std::f64::consts::TAU.ln() + trace / noise;
    0.5 * (y.ncols() as f64 * volume + fit)
}

fn sample_likelihood(
    x: &Mat<f64>,
    y: &Mat<f64>,
    m: usize,
    kernel: &TestKernel,
    theta: &[f64],
    threads: usize,
) -> (f64, Vec<f64>) {
    let workers = Workers::new(threads);
    let sample = Sample { x: x.as_ref(), y: y.as_ref(), landmark_count: m, kernel, workers: &workers };
    let mut gradient = vec![f64::NAN; theta.len()];
    let value = sample.negative_log_likelihood_bound(theta, &mut gradient).unwrap();
    (value, gradient)
}

fn theta(d: usize) -> Vec<f64> {
    let mut theta: Vec<f64> = (0..d).map(|k| 0.4 - 0.25 * k as f64).collect();
    theta.extend([0.3, -1.5]);
    theta
}

#[test]
fn all_rows_as_landmarks_give_the_dense_gaussian_process() {
    for (kernel, n, d) in [(TestKernel::Gauss(1.0), 90, 4), (TestKernel::Square, 10, 5)] {
        for t in [1, 3] {
            let (x, y) = data(n, d, t);
            let (value, _) = sample_likelihood(&x, &y, n, &kernel, &theta(d), 1);
            let expected = reference_likelihood(&x, &y, n, &kernel, &theta(d));
            assert!((value - expected).abs() < 1e-8 * expected.abs(), "{kernel:?} {t}: {value} {expected}");
        }
    }
}

#[test]
fn fewer_landmarks_give_the_formula_with_explicit_matrices() {
    for (kernel, m) in [(TestKernel::Gauss(1.0), 20), (TestKernel::Square, 12)] {
        let (x, y) = data(120, 4, 2);
        let (value, _) = sample_likelihood(&x, &y, m, &kernel, &theta(4), 1);
        let expected = reference_likelihood(&x, &y, m, &kernel, &theta(4));
        assert!((value - expected).abs() < 1e-7 * expected.abs(), "{kernel:?}: {value} {expected}");
    }
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for (kernel, n, m, t) in [
        (TestKernel::Gauss(1.0), 60, 60, 1),
        (TestKernel::Gauss(1.0), 350, 40, 2),
        (TestKernel::Square, 70, 12, 1),
        (TestKernel::Square, 12, 12, 2),
    ] {
        let (x, y) = data(n, 4, t);
        let theta = theta(4);
        let (_, gradient) = sample_likelihood(&x, &y, m, &kernel, &theta, 1);
        let scale = gradient.iter().fold(1.0, |most: f64, g| most.max(g.abs()));
        for k in 0..theta.len() {
            let at = |shift: f64| {
                let mut theta = theta.clone();
                theta[k] += shift;
                sample_likelihood(&x, &y, m, &kernel, &theta, 1).0
            };
            // central differences of fourth order in the step h
            let h = 1e-3;
            let expected = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
            assert!((gradient[k] - expected).abs() < 1e-6 * scale, "{kernel:?} {m} {k}: {} {expected}", gradient[k]);
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let (x, y) = data(700, 5, 2);
    let (value, gradient) = sample_likelihood(&x, &y, 290, &TestKernel::Gauss(1.5), &theta(5), 1);
    let (again, slopes) = sample_likelihood(&x, &y, 290, &TestKernel::Gauss(1.5), &theta(5), 3);
    assert_eq!(value.to_bits(), again.to_bits());
    assert!(gradient.iter().zip(&slopes).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn an_undefined_likelihood_is_infinite() {
    let (x, y) = data(30, 3, 1);
    for broken in [f64::INFINITY, f64::NAN, 1e200] {
        let mut theta = theta(3);
        theta[0] = broken;
        let (value, gradient) = sample_likelihood(&x, &y, 10, &TestKernel::Square, &theta, 1);
        assert_eq!(value, f64::INFINITY);
        assert!(gradient.iter().all(|g| g.is_finite()));
    }
}
