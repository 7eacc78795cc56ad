//! Laws of kernels, over the registry and a few expressions, against formulas evaluated one pair at a time in `f64`.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use faer::{Mat, MatMut, MatRef, Side};
use kapprox::Error;
use kapprox::Real;
use kapprox::kernel::{AnyKernel, Domain, Kernel, Metric, Spec, Value, registry};
use std::sync::Arc;

type Oracle = fn(&[f64], &[f64]) -> f64;

fn l2(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| (x - z) * (x - z)).sum::<f64>().sqrt()
}

fn l1(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| (x - z).abs()).sum()
}

fn dot(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| x * z).sum()
}

/// Expressions with their formulas; every family of the registry must be among them.
fn cases() -> Vec<(&'static str, Oracle)> {
    vec![
        ("gaussian(sigma=1.5)", |x, z| (-l2(x, z).powi(2) / 4.5).exp()),
        ("gaussian(sigma=0.3)", |x, z| (-l2(x, z).powi(2) / 0.18).exp()),
        ("laplacian(sigma=4)", |x, z| (-l1(x, z) / 4.0).exp()),
        ("matern(nu=0.5, sigma=3)", |x, z| (-l2(x, z) / 3.0).exp()),
        ("matern(nu=1.5, sigma=2)", |x, z| {
            let a = 3f64.sqrt() * l2(x, z) / 2.0;
            (1.0 + a) * (-a).exp()
        }),
        ("matern(nu=2.5, sigma=2)", |x, z| {
            let b = 5f64.sqrt() * l2(x, z) / 2.0;
            (1.0 + b + b * b / 3.0) * (-b).exp()
        }),
        ("exponential(sigma=3)", |x, z| (-l2(x, z) / 3.0).exp()),
        ("cauchy(sigma=2)", |x, z| 1.0 / (1.0 + l2(x, z).powi(2) / 4.0)),
        ("polynomial(degree=3, gamma=0.5, c0=1)", |x, z| (0.5 * dot(x, z) + 1.0).powi(3)),
        ("polynomial(degree=2, gamma=0.1, c0=0)", |x, z| (0.1 * dot(x, z)).powi(2)),
        ("linear()", dot),
        ("rational_quadratic(alpha=0.75, sigma=2)", |x, z| (1.0 + l2(x, z).powi(2) / 6.0).powf(-0.75)),
        ("rational_quadratic(alpha=30, sigma=0.5)", |x, z| (1.0 + l2(x, z).powi(2) / 15.0).powf(-30.0)),
        ("periodic(period=0.75, sigma=1.5)", |x, z| {
            let sum: f64 = x.iter().zip(z).map(|(x, z)| (std::f64::consts::PI * (x - z) / 0.75).sin().powi(2)).sum();
            (-2.0 * sum / 2.25).exp()
        }),
        ("matern_product(nu=0.5, sigma=4)", |x, z| (-l1(x, z) / 4.0).exp()),
        ("matern_product(nu=1.5, sigma=4)", |x, z| {
            let of = |a: f64| (1.0 + a) * (-a).exp();
            x.iter().zip(z).map(|(x, z)| of(3f64.sqrt() * (x - z).abs() / 4.0)).product()
        }),
        ("matern_product(nu=2.5, sigma=4)", |x, z| {
            let of = |b: f64| (1.0 + b + b * b / 3.0) * (-b).exp();
            x.iter().zip(z).map(|(x, z)| of(5f64.sqrt() * (x - z).abs() / 4.0)).product()
        }),
        ("anova(sigma=0.5, degree=2)", |x, z| {
            x.iter().zip(z).map(|(x, z)| (-2.0 * (x - z) * (x - z)).exp()).sum::<f64>().powi(2)
        }),
        ("cosine()", |x, z| dot(x, z) / (dot(x, x) * dot(z, z)).sqrt()),
        ("sigmoid(gamma=0.5, c0=-0.25)", |x, z| (0.5 * dot(x, z) - 0.25).tanh()),
        ("chi_squared(sigma=2)", |x, z| {
            let of = |(x, z): (&f64, &f64)| if x + z > 0.0 { (x - z) * (x - z) / (x + z) } else { 0.0 };
            (-x.iter().zip(z).map(of).sum::<f64>() / 2.0).exp()
        }),
        ("additive_chi_squared()", |x, z| {
            x.iter().zip(z).map(|(x, z)| if x + z > 0.0 { 2.0 * x * z / (x + z) } else { 0.0 }).sum()
        }),
        ("intersection()", |x, z| x.iter().zip(z).map(|(x, z)| x.min(*z)).sum()),
        ("delta()", |x, z| f64::from(u8::from(x == z))),
        ("subset()", |x, z| dot(x, z).exp2()),
        ("jaccard()", |x, z| {
            let union = x.iter().zip(z).filter(|(x, z)| **x + **z > 0.0).count();
            if union > 0 { dot(x, z) / union as f64 } else { 1.0 }
        }),
        ("gaussian(sigma=3) + 0.5*linear()", |x, z| (-l2(x, z).powi(2) / 18.0).exp() + 0.5 * dot(x, z)),
        ("2*gaussian(sigma=3)*laplacian(sigma=9)", |x, z| {
            2.0 * (-l2(x, z).powi(2) / 18.0).exp() * (-l1(x, z) / 9.0).exp()
        }),
        ("exp(0.3*linear())", |x, z| (0.3 * dot(x, z)).exp()),
        ("power(linear() + 2*gaussian(sigma=3), degree=3)", |x, z| {
            (dot(x, z) + 2.0 * (-l2(x, z).powi(2) / 18.0).exp()).powi(3)
        }),
        ("normalised(polynomial(degree=2, gamma=0.5, c0=1))", |x, z| {
            let k = |x: &[f64], z: &[f64]| (0.5 * dot(x, z) + 1.0).powi(2);
            k(x, z) / (k(x, x) * k(z, z)).sqrt()
        }),
        ("mean(linear(), p=1)", |x, z| 2.0 * dot(x, z) / (dot(x, x) + dot(z, z))),
        ("mean(linear(), p=2.5)", |x, z| dot(x, z) / ((dot(x, x).powf(2.5) + dot(z, z).powf(2.5)) / 2.0).powf(0.4)),
        ("(linear() + laplacian(sigma=2))*matern(nu=0.5, sigma=5)", |x, z| {
            (dot(x, z) + (-l1(x, z) / 2.0).exp()) * (-l2(x, z) / 5.0).exp()
        }),
    ]
}

fn build(text: &str) -> Arc<dyn AnyKernel> {
    Spec::parse(text).unwrap().build().unwrap()
}

/// n x d numbers in [−1, 1) + offset, representable in `T`.
fn points<T: Real>(n: usize, d: usize, seed: u64, offset: f64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n * d).map(|_| T::from_f64(next() + offset)).collect()
}

/// `points` made into values that the kernel is defined for; about half of them 0 where that is an edge.
fn suited<T: Real>(text: &str, points: &[T]) -> Vec<T> {
    let family =
        registry().iter().filter(|family| text.contains(&format!("{}(", family.name))).max_by_key(|f| f.name.len());
    let value = |value: f64| match family.unwrap().domain {
        _ if text.contains("delta") => (1.2 * value).round(),
        Domain::Any => value,
        Domain::NotNegative if value.abs() > 2.0 => value.abs(),
        Domain::NotNegative => value.max(0.0),
        Domain::Binary => f64::from(u8::from(value > 0.0)),
    };
    points.iter().map(|point| T::from_f64(value(point.to_f64()))).collect()
}

fn view<T>(points: &[T], d: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(points, points.len() / d, d)
}

fn wide<T: Real>(points: &[T]) -> Vec<f64> {
    points.iter().map(|x| x.to_f64()).collect()
}

fn block<T: Real>(kernel: &Arc<dyn AnyKernel>, x: MatRef<'_, T>, z: MatRef<'_, T>) -> Mat<T> {
    let mut out = Mat::from_fn(x.nrows(), z.nrows(), |_, _| T::from_f64(f64::NAN));
    T::kernel(kernel.clone()).block(x, z, out.as_mut());
    out
}

/// The largest error of a block, relative to the size of what is summed in it.
fn largest_error<T: Real>(text: &str, oracle: Oracle, x: &[T], z: &[T], d: usize) -> f64 {
    let (x, z) = (suited(text, x), suited(text, z));
    let got = block(&build(text), view(&x, d), view(&z, d));
    let (x, z) = (wide(&x), wide(&z));
    let mut worst = 0.0f64;
    for (i, x) in x.chunks(d).enumerate() {
        for (j, z) in z.chunks(d).enumerate() {
            let absolute = |v: &[f64]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
            let want = oracle(x, z);
            // of a radial kernel and of a sigmoid: 1; of an inner product, the same with positive terms
            let floor = if text.contains("sigmoid") { 1.0 } else { 1e-3 };
            let scale = oracle(&absolute(x), &absolute(z)).abs().max(want.abs()).max(floor);
            let error = (got[(i, j)].to_f64() - want).abs() / scale;
            assert!(!error.is_nan(), "{text} d={d}: {} at ({i}, {j})", got[(i, j)]);
            worst = worst.max(error);
        }
    }
    worst
}

fn check_against_oracle<T: Real>(bound: f64) {
    for (text, oracle) in cases() {
        for d in [1, 2, 7, 16, 31, 90] {
            for (b, m) in [(1, 1), (1, 70), (33, 5), (257, 65), (256, 64), (31, 129), (300, 3)] {
                let error = largest_error(text, oracle, &points::<T>(b, d, 1, 0.0), &points::<T>(m, d, 2, 0.0), d);
                assert!(error <= bound, "{text} {} d={d} {b}x{m}: {error:e}", T::NAME);
            }
        }
    }
}

#[test]
fn blocks_equal_the_formula() {
    check_against_oracle::<f64>(4e-14);
    check_against_oracle::<f32>(2e-5);
}

#[test]
fn every_family_has_a_formula_here_and_a_right_example() {
    for family in registry() {
        let found = cases().iter().any(|(text, _)| text.starts_with(family.name));
        assert!(found, "write the formula of {} into cases()", family.name);
        let spec = Spec::parse(family.example).unwrap();
        assert_eq!(spec.to_string(), family.example);
        assert!(!spec.needs_median());
        assert_eq!(spec.positive_definite(), family.positive_definite);
        assert_eq!(Kernel::<f64>::positive_definite(&*spec.build().unwrap()), family.positive_definite);
        assert_eq!(Kernel::<f32>::spec(&*spec.build().unwrap()), family.example);
    }
}

#[test]
fn a_strip_of_a_taller_block_leaves_the_rest_alone() {
    let (b, m, d) = (37, 70, 9);
    let (x, z) = (points::<f32>(b, d, 1, 0.0), points::<f32>(m, d, 2, 0.0));
    for (text, _) in cases() {
        let (x, z) = (suited(text, &x), suited(text, &z));
        let mut tall = Mat::from_fn(100, m, |_, _| 7.0f32);
        f32::kernel(build(text)).block(view(&x, d), view(&z, d), tall.as_mut().subrows_mut(20, b));
        let alone = block(&build(text), view(&x, d), view(&z, d));
        for j in 0..m {
            for i in 0..100 {
                let want = if (20..20 + b).contains(&i) { alone[(i - 20, j)] } else { 7.0 };
                assert_eq!(tall[(i, j)], want, "{text} ({i}, {j})");
            }
        }
    }
}

#[test]
fn other_layouts_are_right_too() {
    let (b, m, d) = (37, 70, 9);
    let (x, z) = (points::<f64>(b, d, 1, 0.0), points::<f64>(m, d, 2, 0.0));
    for (text, _) in cases() {
        let (x, z) = (suited(text, &x), suited(text, &z));
        let (x_columns, z_columns) = (view(&x, d).to_owned(), view(&z, d).to_owned());
        let want = block(&build(text), view(&x, d), view(&z, d));
        let mut values = vec![0.0; b * m];
        let out = MatMut::from_row_major_slice_mut(&mut values, b, m);
        f64::kernel(build(text)).block(x_columns.as_ref(), z_columns.as_ref(), out);
        let got = MatRef::from_row_major_slice(&values, b, m);
        assert!((got - &want).norm_max() <= 1e-13 * want.norm_max().max(1.0), "{text}");
    }
}

#[test]
fn blocks_are_symmetric_and_diag_agrees() {
    for (text, _) in cases() {
        for d in [2, 7, 40] {
            let x = suited(text, &points::<f64>(150, d, 3, 0.0));
            let (kernel, x) = (build(text), view(&x, d));
            let k = block(&kernel, x, x);
            assert!((&k - k.transpose()).norm_max() <= 1e-13 * k.norm_max(), "{text}");
            let mut diag = vec![f64::NAN; 150];
            f64::kernel(kernel).diag(x, &mut diag);
            for (i, diag) in diag.iter().enumerate() {
                assert!((k[(i, i)] - diag).abs() <= 1e-13 * diag.abs(), "{text}: {} and {diag}", k[(i, i)]);
            }
        }
    }
}

#[test]
fn blocks_are_positive_semidefinite() {
    for (text, _) in cases().into_iter().filter(|(text, _)| Spec::parse(text).unwrap().positive_definite()) {
        for d in [1, 5, 20] {
            let x = suited(text, &points::<f64>(120, d, 4, 0.0));
            let k = block(&build(text), view(&x, d), view(&x, d));
            let trace: f64 = (0..120).map(|i| k[(i, i)]).sum();
            let smallest = k.self_adjoint_eigenvalues(Side::Lower).unwrap()[0];
            assert!(smallest >= -1e-10 * trace, "{text} d={d}: {smallest:e}");
        }
    }
}

#[test]
fn a_length_for_each_feature() {
    for d in [2, 7, 33] {
        let sigmas: Vec<f64> = (0..d).map(|k| 0.7 + 0.3 * k as f64).collect();
        let text = format!("gaussian(sigma={})", Value::Each(sigmas.clone()));
        let (x, z) = (points::<f32>(300, d, 1, 100.0), points::<f32>(70, d, 2, 100.0));
        let k = block(&build(&text), view(&x, d), view(&z, d));
        for (i, x) in wide(&x).chunks(d).enumerate() {
            for (j, z) in wide(&z).chunks(d).enumerate() {
                let sum: f64 = (0..d).map(|k| ((x[k] - z[k]) / sigmas[k]).powi(2)).sum();
                assert!((f64::from(k[(i, j)]) - (-sum / 2.0).exp()).abs() < 2e-5, "d={d} ({i}, {j})");
            }
        }
        let same = block(&build(&text), view(&x, d), view(&x, d));
        assert!((0..300).all(|i| same[(i, i)] == 1.0));
    }
}

#[test]
fn what_is_not_positive_definite_has_a_negative_eigenvalue_and_is_refused() {
    let x = points::<f64>(120, 5, 4, 0.0);
    for text in ["sigmoid(gamma=0.5, c0=-0.25)", "linear() + sigmoid()", "2*gaussian(sigma=1)*sigmoid()"] {
        let kernel = build(text);
        assert!(!Spec::parse(text).unwrap().positive_definite() && !Kernel::<f32>::positive_definite(&*kernel));
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
        let got = match Spec::parse(text).unwrap().check_values(x, 100) {
            Err(Error::Domain { row, feature, value, .. }) => Some((row - 100, feature, value)),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(got, wanted, "{text}");
    }
    let error = Spec::parse("jaccard()").unwrap().check_values(x, 100).unwrap_err().to_string();
    assert!(error.contains("0 or 1") && error.contains("row 101, feature 1 is 0.5"), "{error}");
}

/// Kernels of a distance, which are 1 where it vanishes.
fn of_a_distance() -> Vec<(&'static str, Oracle)> {
    let with_metric = |name: &str| registry().iter().any(|f| f.metric.is_some() && name.starts_with(f.name));
    let is_one = |name: &str| with_metric(name) && !name.contains(['+']);
    cases().into_iter().filter(|(text, _)| is_one(text)).collect()
}

fn check_coincident<T: Real>() {
    for (text, _) in of_a_distance() {
        assert!(text.len() > 8);
        for (d, offset) in [(1, 0.0), (3, 1e4), (7, 0.0), (31, 1e4), (90, -1e6)] {
            let x = suited(text, &points::<T>(130, d, 5, offset));
            let k = block(&build(text), view(&x, d), view(&x[..70 * d], d));
            for j in 0..70 {
                assert_eq!(k[(j, j)], T::ONE, "{text} {} d={d}", T::NAME);
            }
        }
    }
}

#[test]
fn coincident_points_give_exactly_one() {
    check_coincident::<f64>();
    check_coincident::<f32>();
}

#[test]
fn points_far_from_the_origin_lose_nothing_more() {
    for (text, oracle) in of_a_distance() {
        for d in [1, 3, 7, 31, 90] {
            for offset in [1e4, -1e6] {
                let (x, z) = (points::<f32>(100, d, 6, offset), points::<f32>(70, d, 7, offset));
                let error = largest_error(text, oracle, &x, &z, d);
                assert!(error < 2e-5, "{text} d={d} offset={offset}: {error:e}");
            }
        }
    }
}

/// Points that nearly coincide: exp(−r) is as sensitive as the distance itself.
#[test]
fn near_pairs_keep_their_distance() {
    let d = 40;
    for gap in [1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1] {
        let x = points::<f64>(70, d, 8, 0.0);
        let mut z = x.clone();
        z.iter_mut().step_by(d).for_each(|z| *z += gap);
        let k = block(&build("matern(nu=0.5, sigma=1)"), view(&x, d), view(&z, d));
        for (i, (x, z)) in x.chunks(d).zip(z.chunks(d)).enumerate() {
            let error = (k[(i, i)] - (-l2(x, z)).exp()).abs();
            assert!(error < 2e-13, "gap {gap}: {error:e}");
        }
    }
}

#[test]
fn a_block_of_parts_is_the_parts_of_the_block() {
    let (b, m, d) = (301, 203, 17);
    let (x, z) = (points::<f64>(b, d, 9, 0.0), points::<f64>(m, d, 10, 0.0));
    for (text, _) in cases() {
        let (x, z) = (suited(text, &x), suited(text, &z));
        let (x, z) = (view(&x, d), view(&z, d));
        let whole = block(&build(text), x, z);
        for (i, rows, j, columns) in [(0, 256, 0, 203), (256, 45, 0, 203), (10, 100, 64, 65), (300, 1, 202, 1)] {
            let part = block(&build(text), x.subrows(i, rows), z.subrows(j, columns));
            let error = (part.as_ref() - whole.submatrix(i, j, rows, columns)).norm_max();
            assert!(error <= 1e-13 * whole.norm_max(), "{text} from ({i}, {j}): {error:e}");
        }
    }
}

#[test]
fn any_strip_of_rows_has_the_same_bits_alone() {
    fn check<T: Real>() {
        let (b, m, d) = (401, 70, 17);
        // some rows of z are rows of x, others nearly: pairs that are computed twice
        let (x, mut z) = (points::<T>(b, d, 9, 0.0), points::<T>(m, d, 10, 0.0));
        z[..20 * d].copy_from_slice(&x[30 * d..50 * d]);
        z[..10 * d].iter_mut().for_each(|z| *z = T::from_f64(z.to_f64() * (1.0 + 1e-4)));
        for (text, _) in cases() {
            let (x, z) = (suited(text, &x), suited(text, &z));
            let whole = block(&build(text), view(&x, d), view(&z, d));
            for (i, rows) in [(0, 1), (7, 50), (29, 23), (100, 288), (287, 114), (400, 1)] {
                let part = block(&build(text), view(&x, d).subrows(i, rows), view(&z, d));
                assert!(part.as_ref() == whole.subrows(i, rows), "{text} {} rows from {i}", T::NAME);
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn finite_points_give_finite_values() {
    fn check<T: Real>() {
        let (big, small) = (T::LARGEST.to_f64(), T::SMALLEST.to_f64());
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
                    T::kernel(build(text)).diag(view(&x, d), &mut diag);
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

#[test]
fn empty_blocks() {
    for (text, _) in cases() {
        for (b, m, d) in [(0, 3, 2), (3, 0, 2), (0, 0, 9), (2, 3, 0)] {
            let (x, z) = (Mat::<f64>::zeros(b, d), Mat::<f64>::zeros(m, d));
            let k = block(&build(text), x.as_ref(), z.as_ref());
            assert!((0..b).all(|i| (0..m).all(|j| k[(i, j)].is_finite())), "{text} {b}x{m}x{d}");
        }
    }
}

#[test]
#[should_panic(expected = "x has 3 features, z has 2")]
fn shapes_must_agree() {
    let (x, z) = (points::<f64>(4, 3, 1, 0.0), points::<f64>(4, 2, 1, 0.0));
    block(&build("linear()"), view(&x, 3), view(&z, 2));
}

/// Values of scikit-learn, made by `scripts/golden.py kernels`.
#[test]
fn blocks_equal_scikit_learn() {
    #[derive(serde::Deserialize)]
    struct Golden {
        points: std::collections::HashMap<String, Points>,
        kernels: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Points {
        x: Vec<Vec<f64>>,
        z: Vec<Vec<f64>>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        spec: String,
        points: String,
        values: Vec<Vec<f64>>,
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/kernels.json");
    let golden: Golden = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // what neither library has
    let without = ["subset", "delta"];
    for family in registry().iter().filter(|family| !without.contains(&family.name)) {
        let found = golden.kernels.iter().any(|entry| entry.spec.starts_with(&format!("{}(", family.name)));
        assert!(found, "no golden value of {}", family.name);
    }
    for Entry { spec, points, values } in golden.kernels {
        let points = &golden.points[&points];
        let (x, z, d) = (points.x.concat(), points.z.concat(), points.x[0].len());
        let k = block(&build(&spec), view(&x, d), view(&z, d));
        for (i, row) in values.iter().enumerate() {
            for (j, &want) in row.iter().enumerate() {
                let error = (k[(i, j)] - want).abs() / want.abs().max(1e-3);
                assert!(error < 1e-12, "{spec} ({i}, {j}): {} and {want}", k[(i, j)]);
            }
        }
    }
}

#[test]
fn the_median_is_taken_in_the_kernels_own_metric() {
    let sample = MatRef::from_row_major_slice(&[0.0, 0.0, 3.0, 4.0], 2, 2);
    for family in registry() {
        let spec = Spec::parse(family.name).unwrap();
        let resolved = spec.resolve_median(sample).unwrap();
        assert_eq!(spec.needs_median(), family.metric.is_some());
        assert!(!resolved.needs_median());
        match family.metric {
            Some(Metric::L2) => assert!(resolved.to_string().contains("sigma=5"), "{resolved}"),
            Some(Metric::L1 | Metric::ChiSquared) => assert!(resolved.to_string().contains("sigma=7"), "{resolved}"),
            None => assert_eq!(resolved, spec),
        }
    }
}
