//! Inputs that kernels reject, and where kernels saturate.

use crate::formulas::cases;
use crate::inputs::{block, build, points, view};
use faer::{MatRef, Side};
use kapprox::kernel::{Kernel, KernelFunction};
use kapprox::{Error, Real};

#[test]
fn what_is_not_positive_definite_has_a_negative_eigenvalue_and_is_refused() {
    let x = points::<f64>(120, 5, 4, 0.0);
    for text in ["sigmoid(gamma=0.5, c0=-0.25)", "linear() + sigmoid()", "2*gaussian(sigma=1)*sigmoid()"] {
        let kernel = build(text);
        assert!(
            !Kernel::parse(text).unwrap().is_positive_definite()
                && !KernelFunction::<f32>::is_positive_definite(&*kernel)
        );
        let what = "a test";
        let error = kapprox::kernel::require_positive_definite::<f64>(&*kernel, what).unwrap_err();
        assert!(matches!(error, Error::NotPositiveDefinite { .. }) && error.to_string().contains(what), "{error}");
    }
    let k = block(&build("sigmoid(gamma=0.5, c0=-0.25)"), view(&x, 5), view(&x, 5));
    assert!(k.self_adjoint_eigenvalues(Side::Lower).unwrap()[0] < -1.0);
}

#[test]
fn values_outside_the_domain_are_refused_by_name() {
    let points = [0.0, 1.0, 1.0, 0.5, 1.0, -2.0];
    let x = MatRef::from_row_major_slice(&points, 3, 2);
    for (text, wanted) in [
        ("gaussian(sigma=1)", None),
        ("chi_squared()", Some((2, 1, -2.0))),
        ("additive_chi_squared()", Some((2, 1, -2.0))),
        ("intersection()", Some((2, 1, -2.0))),
        ("jaccard()", Some((1, 1, 0.5))),
        ("linear() + 2*subset()*gaussian(sigma=1)", Some((1, 1, 0.5))),
    ] {
        let got = match Kernel::parse(text).unwrap().check_values(x, 100) {
            Err(Error::Domain { row, feature_index: feature, value, .. }) => Some((row - 100, feature, value)),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(got, wanted, "{text}");
    }
    let error = Kernel::parse("jaccard()").unwrap().check_values(x, 100).unwrap_err().to_string();
    assert!(error.contains("0 or 1") && error.contains("row 101, input 1 is 0.5"), "{error}");
}

#[test]
fn finite_points_give_finite_values() {
    fn check<T: Real>() {
        let (big, small) = (T::LARGEST.to_f64(), T::MIN_POSITIVE.to_f64());
        let extremes = [0.0, 1.0, -1.0, big, -big, big.sqrt(), -big.sqrt(), small, -small, big / 2.0, 1e-3 * big];
        let combined = ["linear() + polynomial(degree=2)", "polynomial(degree=31)*linear()*gaussian(sigma=1)"];
        let odd = ["gaussian(sigma=1e-200)", "gaussian(sigma=1e200)", "matern(nu=2.5, sigma=1e-200)", "1e300*linear()"];
        let huge = ["polynomial(degree=31, gamma=1e300, c0=1e300)", "laplacian(sigma=1e-300)", "0*linear()"];
        let texts = cases().into_iter().map(|(text, _)| text).chain(combined).chain(odd).chain(huge);
        for text in texts {
            for d in [1, 3, 9] {
                for origin in [0, 3] {
                    let n = 40;
                    let pick = |i: usize| T::from_f64(extremes[(i * 7 + i / 11 * 3 + origin) % extremes.len()]);
                    let x: Vec<T> = (0..n * d).map(pick).collect();
                    let k = block(&build(text), view(&x, d), view(&x, d));
                    let mut diag = vec![0.0; n];
                    build(text).typed::<T>().diag(view(&x, d), &mut diag);
                    for i in 0..n {
                        assert!(diag[i].is_finite(), "{text} {} d={d}: diag {}", T::NAME, diag[i]);
                        for j in 0..n {
                            assert!(k[(i, j)].to_f64().is_finite(), "{text} {} d={d}: {}", T::NAME, k[(i, j)]);
                        }
                    }
                }
            }
        }
    }
    check::<f64>();
    check::<f32>();
}

#[test]
fn overflowing_products_saturate_with_the_right_sign() {
    let x = [1e30f32, 1e30, -1e30, -1e30, 1e30, -1e30];
    let k = block(&build("linear()"), view(&x, 2), view(&x, 2));
    assert_eq!([k[(0, 0)], k[(0, 1)], k[(0, 2)], k[(2, 2)]], [f32::MAX, -f32::MAX, 0.0, f32::MAX]);
    let k = block(&build("gaussian(sigma=1)"), view(&x, 2), view(&x, 2));
    assert_eq!([k[(0, 0)], k[(0, 1)], k[(1, 2)]], [1.0, 0.0, 0.0]);
}
