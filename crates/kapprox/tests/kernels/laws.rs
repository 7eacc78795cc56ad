//! Properties that every kernel has.

use crate::formulas::cases;
use crate::inputs::{block, build, points, suited, view};
use faer::{Mat, MatMut, MatRef, Side};
use kapprox::kernel::{AnyKernel, Distance, Domain, Kernel, KernelFunction, registry};
use kapprox::landmark::LandmarkSet;
use kapprox::map::KernelSections;
use kapprox::{FeatureMap, Real};
use std::sync::Arc;

#[test]
fn a_strip_of_a_taller_block_leaves_the_rest_alone() {
    let (b, m, d) = (37, 70, 9);
    let (x, z) = (points::<f32>(b, d, 1, 0.0), points::<f32>(m, d, 2, 0.0));
    for (text, _) in cases() {
        let (x, z) = (suited(text, &x), suited(text, &z));
        let mut tall = Mat::from_fn(100, m, |_, _| 7.0f32);
        build(text).typed::<f32>().block(view(&x, d), view(&z, d), tall.as_mut().subrows_mut(20, b));
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
        build(text).typed::<f64>().block(x_columns.as_ref(), z_columns.as_ref(), out);
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
            kernel.typed::<f64>().diag(x, &mut diag);
            for (i, diag) in diag.iter().enumerate() {
                assert!((k[(i, i)] - diag).abs() <= 1e-13 * diag.abs(), "{text}: {} and {diag}", k[(i, i)]);
            }
        }
    }
}

#[test]
fn blocks_are_positive_semidefinite() {
    for (text, _) in cases().into_iter().filter(|(text, _)| Kernel::parse(text).unwrap().is_positive_definite()) {
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
        // some rows of z equal rows of x and others nearly do: such pairs are computed twice
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

/// Kernels restricted to some columns, and expressions of several parts.
pub(crate) const NESTED: [&str; 6] = [
    "gaussian(sigma=2, on=x0..x3)",
    "linear(on=[x1, x5]) + laplacian(sigma=3)*matern(nu=1.5, sigma=2, on=x2..x9)",
    "normalised(polynomial(degree=2, c0=1, gamma=0.5) + 0.5*linear())",
    "exp(0.1*linear()) + power(gaussian(sigma=1) + linear(), degree=2)",
    "0.3*gaussian(sigma=1)*(cauchy(sigma=2) + periodic(period=3, sigma=1.5))",
    "mean(exp(cosine(on=x0..x8)), p=2)",
];

/// Builds the kernel of an expression for points with `d` features x0, x1, …
pub(crate) fn build_on(text: &str, d: usize) -> Arc<dyn AnyKernel> {
    let names: Vec<String> = (0..d).map(|i| format!("x{i}")).collect();
    Kernel::parse(text).unwrap().resolve_columns(&names).unwrap().build().unwrap()
}

/// A kernel that implements only `spec`, `block` and `diag`.
#[derive(Debug)]
struct Plain(Arc<dyn AnyKernel>);

impl<T: Real> KernelFunction<T> for Plain {
    fn spec(&self) -> String {
        "plain()".to_string()
    }
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        self.0.typed::<T>().block(x, z, out);
    }
    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        self.0.typed::<T>().diag(x, out);
    }
}

/// Compares single rows and small sets of rows of x with the whole block, at fixed points z.
/// `scale` moves the values to the limits of their range.
fn few_rows_are_those_of_the_block<T: Real>(kernel: &Arc<dyn AnyKernel>, text: &str, d: usize, scale: f64) {
    let (b, m) = (29, 203);
    let mut z = points::<T>(m, d, 10, 0.0);
    let mut x = points::<T>(b, d, 9, 0.0);
    // some rows of z equal rows of x and others nearly do: such pairs are computed twice
    z[..20 * d].copy_from_slice(&x[..20 * d]);
    z[..10 * d].iter_mut().for_each(|z| *z = T::from_f64(z.to_f64() * (1.0 + 1e-4)));
    x.iter_mut().chain(&mut z).for_each(|value| *value = T::from_f64(value.to_f64() * scale));
    let (x, z) = (suited(text, &x), suited(text, &z));
    let whole = block(kernel, view(&x, d), view(&z, d));
    let rows = vec![0; m];
    let landmarks = LandmarkSet { points: z, row_numbers: rows, d, passes: 0, evaluations: 0 };
    let columns = KernelSections::new(kernel, landmarks);
    let few = FeatureMap::<T>::landmark_sections(&columns).unwrap();
    let mut scratch = vec![T::from_f64(f64::NAN); few.scratch_len()];
    for (first, count) in [(0, 1), (28, 1), (3, 2), (5, 7), (19, 8), (0, 0)] {
        let mut out = vec![T::from_f64(f64::NAN); count * m];
        few.fill(view(&x, d).subrows(first, count), &mut out, &mut scratch);
        let got = MatRef::from_row_major_slice(&out, count, m);
        let want = whole.subrows(first, count);
        let bits = |i: usize, j: usize| got[(i, j)].to_f64().to_bits() == want[(i, j)].to_f64().to_bits();
        let same = (0..count).all(|i| (0..m).all(|j| bits(i, j)));
        assert!(same, "{text} {} d={d} scale {scale:e}: {count} rows from {first}", T::NAME);
    }
}

#[test]
fn a_few_rows_have_the_bits_of_a_block() {
    fn check<T: Real>(largest: f64) {
        for d in [1, 3, 4, 5, 17] {
            for (text, _) in cases() {
                few_rows_are_those_of_the_block::<T>(&build(text), text, d, 1.0);
            }
        }
        for (text, _) in cases() {
            // values whose sums overflow, and values whose sums vanish
            for scale in [largest, largest.sqrt(), largest.sqrt().recip()] {
                few_rows_are_those_of_the_block::<T>(&build(text), text, 9, scale);
            }
        }
        for text in NESTED {
            few_rows_are_those_of_the_block::<T>(&build_on(text, 17), text, 17, 1.0);
        }
        let plain: Arc<dyn AnyKernel> = Arc::new(Plain(build("gaussian(sigma=2)")));
        few_rows_are_those_of_the_block::<T>(&plain, "gaussian(sigma=2)", 17, 1.0);
    }
    check::<f32>(f32::MAX.into());
    check::<f64>(f64::MAX);
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

#[test]
fn the_median_is_taken_in_the_kernels_own_metric() {
    let sample = MatRef::from_row_major_slice(&[0.0, 0.0, 3.0, 4.0], 2, 2);
    for family in registry() {
        let spec = Kernel::parse(family.name).unwrap();
        let resolved = spec.resolve_median(sample).unwrap();
        assert_eq!(spec.needs_median(), family.distance.is_some());
        assert!(!resolved.needs_median());
        match family.distance {
            Some(Distance::L2) => assert!(resolved.to_string().contains("sigma=5"), "{resolved}"),
            Some(Distance::L1 | Distance::ChiSquared) => {
                assert!(resolved.to_string().contains("sigma=7"), "{resolved}")
            }
            None => assert_eq!(resolved, spec),
        }
    }
}

/// Checks the metadata in the registry on a few points and the origin.
#[test]
fn facts_hold_on_points() {
    let d = 3;
    for family in registry() {
        let (name, facts, kernel) = (family.name, family.properties, build(family.example));
        // the rows are distinct sets
        let sets: Vec<f64> = (0..8).flat_map(|i| [i & 1, i >> 1 & 1, i >> 2].map(f64::from)).collect();
        let away = points::<f64>(11, d, 4, 0.0).into_iter();
        let away: Vec<f64> = away.map(|v| if family.domain == Domain::Any { v } else { v.abs() }).collect();
        let spread = [vec![0.0; d], away].concat();
        let x = if family.domain == Domain::Binary { sets } else { spread };
        let moved = |by: &dyn Fn(f64) -> f64| x.iter().map(|v| by(*v)).collect::<Vec<f64>>();
        let k = block(&kernel, view(&x, d), view(&x, d));
        if facts.bounded && family.domain != Domain::Binary {
            let far = moved(&|v| 1e6 * v);
            let far = block(&kernel, view(&far, d), view(&far, d));
            assert!(far.norm_max() <= 2.0 * k.norm_max(), "{name} is not bounded");
        }
        if facts.translation_invariant {
            let away = moved(&|v| v + 2.0);
            let same = block(&kernel, view(&away, d), view(&away, d)) - &k;
            assert!(same.norm_max() <= 1e-12 * k.norm_max(), "{name} is no function of x - z");
        }
        if facts.universal {
            let least = kapprox::decompose::symmetric_eigenvalues(k.as_ref()).unwrap()[0];
            assert!(least > 1e-9, "{name} is singular on points that differ: {least:e}");
        }
        // sums of functions with a jump cannot approximate a continuous function
        if facts.universal && facts.scope.is_empty() && family.domain != Domain::Binary {
            let near = moved(&|v| v + 1e-9);
            let jump = block(&kernel, view(&x, d), view(&near, d)) - &k;
            assert!(jump.norm_max() <= 1e-3, "{name} has a jump");
        }
        assert!(facts.scope.is_empty() || facts.characteristic, "{name}");
    }
}
