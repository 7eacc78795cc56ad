//! Blocks, compared with the formulas in both precisions, for points anywhere.

use crate::formulas::{Oracle, cases, l2};
use crate::inputs::{block, build, points, suited, view, wide};
use kapprox::Real;
use kapprox::kernel::{Kernel, KernelFunction, Value, registry};

/// Returns the largest error of a block, relative to the size of the summed terms.
fn largest_error<T: Real>(text: &str, oracle: Oracle, x: &[T], z: &[T], d: usize) -> f64 {
    let (x, z) = (suited(text, x), suited(text, z));
    let got = block(&build(text), view(&x, d), view(&z, d));
    let (x, z) = (wide(&x), wide(&z));
    let mut worst = 0.0f64;
    for (i, x) in x.chunks(d).enumerate() {
        for (j, z) in z.chunks(d).enumerate() {
            let absolute = |v: &[f64]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
            let want = oracle(x, z);
            // scale: at least 1 for sigmoid and SSIM; for inner products the sum of absolute terms
            let floor = match text {
                text if text.contains("sigmoid") || text.contains("ssim") => 1.0,
                // the distance kernel is a difference of norms, which may cancel
                text if text.contains("distance") => {
                    [x, z].map(|v| v.iter().map(|v| v * v).sum::<f64>().sqrt()).iter().sum()
                }
                _ => 1e-3,
            };
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
        let spec = Kernel::parse(family.example).unwrap();
        assert_eq!(spec.to_string(), family.example);
        assert!(!spec.needs_median());
        assert_eq!(spec.is_positive_definite(), family.is_positive_definite);
        assert_eq!(KernelFunction::<f64>::is_positive_definite(&*spec.build().unwrap()), family.is_positive_definite);
        assert_eq!(KernelFunction::<f32>::spec(&*spec.build().unwrap()), family.example);
    }
}

#[test]
fn a_length_for_each_feature() {
    for d in [2, 7, 33] {
        let sigmas: Vec<f64> = (0..d).map(|k| 0.7 + 0.3 * k as f64).collect();
        let text = format!("gaussian(sigma={})", Value::List(sigmas.clone()));
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
fn length_scales_of_every_family_are_divisors_of_the_features() {
    let families =
        ["gaussian(", "exponential(", "matern(nu=0.5, ", "matern(nu=1.5, ", "matern(nu=2.5, ", "laplacian(", "cauchy("];
    for family in families.into_iter().chain(["rational_quadratic(alpha=0.75, "]) {
        for d in [3, 9] {
            let sigmas: Vec<f64> = (0..d).map(|k| 1.5 + 0.5 * k as f64).collect();
            let divided = |x: &[f64]| x.iter().enumerate().map(|(i, v)| v / sigmas[i % d]).collect::<Vec<_>>();
            let (x, z) = (points::<f64>(40, d, 1, 0.0), points::<f64>(30, d, 2, 0.0));
            let text = format!("{family}sigma={})", Value::List(sigmas.clone()));
            let k = block(&build(&text), view(&x, d), view(&z, d));
            let expected = block(&build(&format!("{family}sigma=1)")), view(&divided(&x), d), view(&divided(&z), d));
            assert!((&k - &expected).norm_max() < 1e-13, "{text}");
        }
    }
}

/// Returns the kernels that are functions of a distance and equal 1 at distance 0.
fn of_a_distance() -> Vec<(&'static str, Oracle)> {
    let with_metric = |name: &str| registry().into_iter().any(|f| f.distance.is_some() && name.starts_with(f.name));
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

/// For points that nearly coincide, exp(−r) is as sensitive as the distance r itself.
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
