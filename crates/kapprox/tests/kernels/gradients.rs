//! Gradients, compared with finite differences, and their invariants.

use crate::formulas::cases;
use crate::inputs::{block, build, points, suited, view, wide};
use crate::laws::{NESTED, build_on};
use faer::{Mat, MatMut, MatRef};
use kapprox::Real;
use kapprox::kernel::{AnyKernel, KernelFunction, registry};
use std::sync::Arc;

/// Families without a gradient: functions of categories and of sets.
const WITHOUT: [&str; 4] = ["delta", "subset", "jaccard", "ssim"];

/// Returns the kernel expressions that have a gradient.
fn differentiable() -> Vec<&'static str> {
    let known = cases().into_iter().map(|(text, _)| text);
    known.filter(|text| !WITHOUT.iter().any(|name| text.contains(name))).collect()
}

/// Rounds `points` so that every coordinate of `x` differs from every coordinate of `z` by at least
/// 1/16, exactly in f32: no pair is near a cusp, and x is in the interior of the domain.
fn apart<T: Real>(text: &str, x: &[T], z: &[T]) -> (Vec<T>, Vec<T>) {
    let positive = suited(text, &[T::from_f64(-0.5)])[0] >= T::ZERO;
    let half_way = |x: &T| {
        let x = ((8.0 * x.to_f64()).floor() + 0.5) / 8.0;
        T::from_f64(if positive { x.abs() } else { x })
    };
    let whole = |z: &T| T::from_f64((8.0 * z.to_f64()).round() / 8.0);
    (x.iter().map(half_way).collect(), suited(text, &z.iter().map(whole).collect::<Vec<_>>()))
}

/// Returns b x m weights between −1 and 1.
fn weights<T: Real>(b: usize, m: usize) -> Mat<T> {
    let values = points::<T>(b, m, 77, 0.0);
    Mat::from_fn(b, m, |i, j| values[i * m + j])
}

fn gradient<T: Real>(
    kernel: &Arc<dyn AnyKernel>,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    weights: MatRef<'_, T>,
) -> Mat<T> {
    let mut out = Mat::zeros(x.nrows(), x.ncols());
    assert!(kernel.typed::<T>().is_differentiable());
    assert!(kernel.typed::<T>().gradient(x, z, weights, out.as_mut()));
    out
}

/// Computes the gradients of the weighted sums of `k` by fourth-order finite differences.
fn differences(
    k: impl Fn(&[f64], &[f64]) -> f64,
    x: &[f64],
    z: &[f64],
    d: usize,
    weights: MatRef<'_, f64>,
) -> Mat<f64> {
    let sum = |i: usize, x: &[f64]| z.chunks(d).enumerate().map(|(j, z)| weights[(i, j)] * k(x, z)).sum::<f64>();
    Mat::from_fn(x.len() / d, d, |i, feature| {
        let at = |step: f64| {
            let mut x = x[i * d..(i + 1) * d].to_vec();
            x[feature] += step;
            sum(i, &x)
        };
        let step = 1e-3;
        (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step)
    })
}

#[test]
fn every_family_has_a_gradient_or_is_known_to_have_none() {
    let without =
        registry().into_iter().filter(|family| !KernelFunction::<f64>::is_differentiable(&*build(family.example)));
    let without: Vec<_> = without.map(|family| family.name).collect();
    assert_eq!(without, WITHOUT);
    for text in differentiable() {
        assert!(
            KernelFunction::<f32>::is_differentiable(&*build(text))
                && KernelFunction::<f64>::is_differentiable(&*build(text)),
            "{text}"
        );
    }
}

#[test]
fn without_a_gradient_nothing_is_added() {
    let compounds = [
        "linear() + delta()",
        "gaussian(sigma=1)*linear()*jaccard()",
        "0.5*subset()",
        "exp(linear() + jaccard())",
        "gaussian(sigma=1)*delta(on=x0)",
        "normalised(linear() + subset())",
    ];
    let (b, m, d) = (5, 7, 3);
    let (x, z) = (points::<f64>(b, d, 1, 0.0), points::<f64>(m, d, 2, 0.0));
    for text in compounds.into_iter().chain(["delta()", "jaccard()", "subset()"]) {
        let kernel = build_on(text, d).typed::<f64>();
        let mut out = Mat::full(b, d, 0.25);
        assert!(!kernel.is_differentiable(), "{text}");
        assert!(!kernel.gradient(view(&x, d), view(&z, d), weights(b, m).as_ref(), out.as_mut()), "{text}");
        assert!(out == Mat::full(b, d, 0.25), "{text}");
    }
}

#[test]
fn gradients_are_differences_of_the_formulas() {
    for (text, formula) in cases().into_iter().filter(|(text, _)| differentiable().contains(text)) {
        for (b, m, d) in [(9, 7, 1), (9, 7, 3), (6, 33, 5), (1, 1, 9), (3, 40, 17), (290, 261, 6)] {
            let (x, z) = apart(text, &points::<f64>(b, d, 1, 0.0), &points(m, d, 2, 0.0));
            let weights = weights(b, m);
            let got = gradient(&build(text), view(&x, d), view(&z, d), weights.as_ref());
            let want = differences(formula, &x, &z, d, weights.as_ref());
            for i in 0..b {
                let error = (got.row(i) - want.row(i)).norm_max() / want.row(i).norm_max().max(1e-5);
                assert!(error < 1e-6, "{text} {b}x{m}x{d}: row {i} errs by {error:e}");
            }
        }
    }
}

#[test]
fn gradients_of_expressions_are_differences_of_their_values() {
    let more = ["normalised(intersection(on=x0..x3) + gaussian(sigma=1))", "mean(polynomial(degree=2), p=0.5)"];
    let (b, m, d) = (5, 11, 17);
    for text in NESTED.into_iter().chain(more) {
        let kernel = build_on(text, d);
        let (x, z) = apart(text, &points::<f64>(b, d, 1, 0.0), &points(m, d, 2, 0.0));
        let value = |x: &[f64], z: &[f64]| block(&kernel, view(x, d), view(z, d))[(0, 0)];
        let got = gradient(&kernel, view(&x, d), view(&z, d), weights(b, m).as_ref());
        let want = differences(value, &x, &z, d, weights(b, m).as_ref());
        let error = (got - &want).norm_max() / want.norm_max();
        assert!(error < 1e-6, "{text}: {error:e}");
    }
}

#[test]
fn single_precision_gives_the_gradients_of_double() {
    let (b, m, d) = (20, 300, 9);
    for text in differentiable() {
        let (x, z) = apart(text, &points::<f32>(b, d, 1, 0.0), &points(m, d, 2, 0.0));
        let got = gradient(&build(text), view(&x, d), view(&z, d), weights(b, m).as_ref());
        let (x, z, weights) = (wide(&x), wide(&z), Mat::from_fn(b, m, |i, j| f64::from(weights::<f32>(b, m)[(i, j)])));
        let want = gradient(&build(text), view(&x, d), view(&z, d), weights.as_ref());
        let error = Mat::from_fn(b, d, |i, k| (f64::from(got[(i, k)]) - want[(i, k)]).abs()).norm_max();
        assert!(error <= 2e-5 * want.norm_max(), "{text}: {error:e} of {:e}", want.norm_max());
    }
}

#[test]
fn near_points_do_not_cancel() {
    let d = 9;
    for text in differentiable().into_iter().filter(|text| build(text).typed::<f64>().spectrum().is_some()) {
        let z = points::<f32>(40, d, 2, 5.0);
        let mut x = z[..d].to_vec();
        x.iter_mut().enumerate().for_each(|(k, x)| *x *= 1.0 + (k as f32 - 3.5) / 2048.0);
        let weights = |i: usize| f32::from(u8::from(i == 0));
        let got = gradient(&build(text), view(&x, d), view(&z, d), Mat::from_fn(1, 40, |_, j| weights(j)).as_ref());
        let weights = Mat::from_fn(1, 40, |_, j| f64::from(weights(j)));
        let want = gradient(&build(text), view(&wide(&x), d), view(&wide(&z), d), weights.as_ref());
        for k in 0..d {
            // the gradient of a constant is 0
            let size = if want[(0, k)] == 0.0 { 1.0 } else { want[(0, k)].abs() };
            let error = (f64::from(got[(0, k)]) - want[(0, k)]).abs() / size;
            // the periodic kernel maps points to a circle, and the images are rounded
            let bound = if text.contains("periodic") { 1e-2 } else { 2e-5 };
            assert!(error < bound, "{text}: {error:e}");
        }
    }
}

#[test]
fn coincident_points_add_nothing() {
    fn check<T: Real>() {
        for d in [1, 3, 9] {
            let x = points::<T>(1, d, 1, 0.0);
            let mut z = points::<T>(40, d, 2, 0.0);
            z[..d].copy_from_slice(&x);
            let one = Mat::from_fn(1, 40, |_, j| if j == 0 { T::ONE } else { T::ZERO });
            for text in differentiable().into_iter().filter(|text| build(text).typed::<T>().spectrum().is_some()) {
                let got = gradient(&build(text), view(&x, d), view(&z, d), one.as_ref());
                assert!(got.norm_max() == T::ZERO, "{text} {} d={d}: {got:?}", T::NAME);
            }
        }
    }
    check::<f64>();
    check::<f32>();
}

#[test]
fn any_strip_of_rows_has_the_same_bits_alone() {
    fn check<T: Real>(texts: impl Iterator<Item = &'static str>, d: usize) {
        let (b, m) = (301, 300);
        // some rows of z equal rows of x and others nearly do: such pairs are computed twice
        let (x, mut z) = (points::<T>(b, d, 9, 0.0), points::<T>(m, d, 10, 0.0));
        z[..20 * d].copy_from_slice(&x[30 * d..50 * d]);
        z[..10 * d].iter_mut().for_each(|z| *z = T::from_f64(z.to_f64() * (1.0 + 1e-4)));
        let weights = weights::<T>(b, m);
        for text in texts {
            let (kernel, x, z) = (build_on(text, d), suited(text, &x), suited(text, &z));
            let whole = gradient(&kernel, view(&x, d), view(&z, d), weights.as_ref());
            for (i, rows) in [(0, 1), (7, 50), (29, 23), (281, 20), (300, 1)] {
                let weights = weights.subrows(i, rows);
                let part = gradient(&kernel, view(&x, d).subrows(i, rows), view(&z, d), weights);
                assert!(part.as_ref() == whole.subrows(i, rows), "{text} {} {rows} rows from {i}", T::NAME);
            }
        }
    }
    for d in [3, 7] {
        check::<f32>(differentiable().into_iter(), d);
        check::<f64>(differentiable().into_iter(), d);
    }
    check::<f32>(NESTED.into_iter(), 17);
    check::<f64>(NESTED.into_iter(), 17);
}

#[test]
fn gradients_are_added_in_any_layout() {
    let (b, m, d) = (37, 70, 9);
    let (x, z) = (points::<f64>(b, d, 1, 0.0), points::<f64>(m, d, 2, 0.0));
    for text in differentiable() {
        let (x, z, weights) = (suited(text, &x), suited(text, &z), weights::<f64>(b, m));
        let want = gradient(&build(text), view(&x, d), view(&z, d), weights.as_ref());
        let (x, z) = (view(&x, d).to_owned(), view(&z, d).to_owned());
        let (by_rows, mut values) = (weights.transpose().to_owned(), vec![0.5; b * d]);
        let out = MatMut::from_row_major_slice_mut(&mut values, b, d);
        assert!(build(text).typed::<f64>().gradient(x.as_ref(), z.as_ref(), by_rows.transpose(), out));
        let got = MatRef::from_row_major_slice(&values, b, d) - Mat::full(b, d, 0.5);
        assert!((got - &want).norm_max() <= 1e-13 * want.norm_max().max(1.0), "{text}");
    }
}

#[test]
fn finite_points_and_weights_give_finite_gradients() {
    fn check<T: Real>() {
        let (big, small) = (T::LARGEST.to_f64(), T::MIN_POSITIVE.to_f64());
        let extremes = [0.0, 1.0, -1.0, big, -big, big.sqrt(), -big.sqrt(), small, -small, big / 2.0, 1e-3 * big];
        let odd = ["gaussian(sigma=1e-200)", "gaussian(sigma=1e200)", "matern(nu=2.5, sigma=1e-200)", "1e300*linear()"];
        let huge = ["polynomial(degree=31, gamma=1e300, c0=1e300)", "laplacian(sigma=1e-300)", "0*linear()"];
        for text in differentiable().into_iter().chain(odd).chain(huge) {
            for (d, origin) in [(1, 0), (3, 3), (9, 0)] {
                let n = 40;
                let pick = |i: usize| T::from_f64(extremes[(i * 7 + i / 11 * 3 + origin) % extremes.len()]);
                let x = suited(text, &(0..n * d).map(pick).collect::<Vec<_>>());
                let got = gradient(&build(text), view(&x, d), view(&x, d), weights(n, n).as_ref());
                let finite = (0..n).all(|i| (0..d).all(|k| got[(i, k)].magnitude() <= T::LARGEST));
                assert!(finite, "{text} {} d={d}: {got:?}", T::NAME);
            }
        }
    }
    check::<f64>();
    check::<f32>();
}

#[test]
fn points_too_far_for_a_difference_add_nothing() {
    let (x, z) = ([f64::MAX; 6], [-f64::MAX, 0.0, -f64::MAX, 1.0, 2.0, 0.0]);
    for text in ["gaussian(sigma=1)", "matern(nu=2.5, sigma=1)", "cauchy(sigma=1)", "laplacian(sigma=1)"] {
        let got = gradient(&build(text), view(&x, 6), view(&z, 6), weights(1, 1).as_ref());
        assert!(got == Mat::<f64>::zeros(1, 6), "{text}: {got:?}");
    }
}

#[test]
fn empty_gradients() {
    for text in differentiable() {
        for (b, m, d) in [(0, 3, 2), (3, 0, 2), (0, 0, 9), (2, 3, 0)] {
            let (x, z, weights) = (Mat::<f64>::zeros(b, d), Mat::<f64>::zeros(m, d), Mat::zeros(b, m));
            let got = gradient(&build(text), x.as_ref(), z.as_ref(), weights.as_ref());
            assert!(got == Mat::<f64>::zeros(b, d), "{text} {b}x{m}x{d}");
        }
    }
}

#[test]
#[should_panic(expected = "weights must have a row for each x")]
fn shapes_must_agree() {
    let (x, z) = (points::<f64>(4, 3, 1, 0.0), points::<f64>(5, 3, 1, 0.0));
    gradient(&build("linear()"), view(&x, 3), view(&z, 3), weights(5, 4).as_ref());
}
