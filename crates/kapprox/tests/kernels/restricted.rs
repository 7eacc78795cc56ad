//! Kernels restricted to some columns.

use crate::formulas::{cases, l2};
use crate::inputs::{block, points, suited, view};
use faer::{MatRef, Side};
use kapprox::Error;
use kapprox::Real;
use kapprox::kernel::{AnyKernel, Kernel, KernelFunction, registry};
use std::sync::Arc;

/// Returns the names x0, x1, …, except for four that need quotes or brackets.
fn names(d: usize) -> Vec<String> {
    let odd = [(4, "a city"), (5, "emb[0]"), (6, "emb[1]"), (7, "p.q")];
    let name = |i: usize| odd.iter().find(|(place, _)| *place == i).map(|(_, name)| name.to_string());
    (0..d).map(|i| name(i).unwrap_or_else(|| format!("x{i}"))).collect()
}

/// Builds the kernel for points with `d` features.
fn build(text: &str, d: usize) -> Arc<dyn AnyKernel> {
    Kernel::parse(text).unwrap().resolve_columns(&names(d)).unwrap().build().unwrap()
}

/// Extracts some columns of n x d numbers.
fn gather<T: Real>(points: &[T], d: usize, columns: &[usize]) -> Vec<T> {
    points.chunks(d).flat_map(|row| columns.iter().map(|k| row[*k])).collect()
}

#[test]
fn a_restricted_kernel_is_the_kernel_of_the_columns() {
    fn check<T: Real>() {
        let (b, m, d, columns) = (301, 70, 17, [9, 2, 3, 4, 12, 13]);
        for (text, _) in cases() {
            let (x, z) = (suited(text, &points::<T>(b, d, 1, 0.0)), suited(text, &points::<T>(m, d, 2, 0.0)));
            let spec = Kernel::parse(text).unwrap();
            let restricted = spec.clone().on(r#"[x9, x2.."a city", "x1[23]"]"#).unwrap();
            assert_eq!(restricted.is_positive_definite(), spec.is_positive_definite());
            let (spec, restricted) = (spec.build().unwrap(), build(&restricted.to_string(), d));
            let (few_x, few_z) = (gather(&x, d, &columns), gather(&z, d, &columns));
            let want = block(&spec, view(&few_x, 6), view(&few_z, 6));
            assert!(block(&restricted, view(&x, d), view(&z, d)) == want, "{text} {}", T::NAME);
            let (mut got, mut want) = (vec![0.0; b], vec![0.0; b]);
            restricted.typed::<T>().diag(view(&x, d), &mut got);
            spec.typed::<T>().diag(view(&few_x, 6), &mut want);
            assert_eq!(got, want, "{text}");
            // a subset of the rows, in another layout
            let part = view(&x, d).subrows(100, 150).to_owned();
            assert!(
                block(&restricted, part.as_ref(), view(&z, d))
                    == block(&restricted, view(&x, d), view(&z, d)).subrows(100, 150)
            );
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn kernels_of_different_columns_combine() {
    let (d, n) = (9, 130);
    let mut x = points::<f64>(n, d, 3, 0.0);
    // the city takes one of three values
    x.iter_mut().skip(4).step_by(d).for_each(|city| *city = (1.4 * *city).round());
    let text = r#"gaussian(sigma=1, on=x0..x2)*delta(on="a city") + 0.5*linear(on=[x8, emb])"#;
    let kernel = build(text, d);
    assert_eq!(KernelFunction::<f64>::spec(&*kernel), text);
    let k = block(&kernel, view(&x, d), view(&x, d));
    for (i, a) in x.chunks(d).enumerate() {
        for (j, z) in x.chunks(d).enumerate() {
            let same = f64::from(u8::from(a[4] == z[4]));
            let linear = a[8] * z[8] + a[5] * z[5] + a[6] * z[6];
            let want = (-l2(&a[..3], &z[..3]).powi(2) / 2.0).exp() * same + 0.5 * linear;
            assert!((k[(i, j)] - want).abs() < 1e-14, "({i}, {j}): {} and {want}", k[(i, j)]);
        }
    }
    let trace: f64 = (0..n).map(|i| k[(i, i)]).sum();
    assert!(k.self_adjoint_eigenvalues(Side::Lower).unwrap()[0] >= -1e-10 * trace);
}

#[test]
fn the_median_is_that_of_the_columns() {
    // distances within the three columns: 3, 0 and 4
    let pair = MatRef::from_row_major_slice(&[0.0, 5.0, 0.0, 3.0, 5.0, 4.0], 2, 3);
    for (text, want) in [
        ("gaussian + gaussian(on=x0)", "gaussian(sigma=5) + gaussian(sigma=3, on=x0)"),
        ("laplacian(on=x0..x2)*gaussian(on=x2)", "laplacian(sigma=7, on=x0..x2)*gaussian(sigma=4, on=x2)"),
        // the points are equal in x1, so the length scale is 1
        ("gaussian(on=x1)", "gaussian(sigma=1, on=x1)"),
    ] {
        let spec = Kernel::parse(text).unwrap();
        assert!(spec.needs_columns() && spec.needs_median());
        let resolved = spec.resolve_columns(&names(3)).unwrap().resolve_median(pair).unwrap();
        assert_eq!(resolved.to_string(), want);
        // the printed kernel parses and resolves to the same kernel
        assert_eq!(Kernel::parse(want).unwrap().resolve_columns(&names(3)).unwrap(), resolved);
        assert!(resolved.build().is_ok());
    }
}

#[test]
fn lists_and_domains_are_those_of_the_columns() {
    let resolved = |text: &str| Kernel::parse(text).unwrap().resolve_columns(&names(4)).unwrap();
    assert!(resolved("gaussian(sigma=[1, 2], on=x1..x2)").check_input_count(4).is_ok());
    let error = resolved("gaussian(sigma=[1, 2], on=x1..x3)").check_input_count(4).unwrap_err();
    assert!(matches!(error, Error::InputCount { kernel: "gaussian", feature_count: 3, .. }), "{error}");
    assert!(error.to_string().contains("list has 2 numbers"), "{error}");
    // length scales follow the order in which the columns are written
    let points = [0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 5.0, 0.0];
    let x = MatRef::from_row_major_slice(&points, 2, 4);
    let k = block(&resolved("gaussian(sigma=[10, 2], on=[x2, x1])").build().unwrap(), x, x);
    assert!((k[(0, 1)] - (-(0.25f64 + 2.25) / 2.0).exp()).abs() < 1e-15);

    assert!(resolved("jaccard(on=[x0, x3])*gaussian(sigma=1)").check_values(x, 0).is_ok());
    let error = resolved("jaccard(on=[x0, x2])").check_values(x, 7).unwrap_err();
    assert!(matches!(error, Error::Domain { row: 8, feature_index: 2, value: 5.0, .. }), "{error}");
}

#[test]
fn columns_that_are_not_there_are_refused_by_name() {
    let features = names(12);
    let error = |columns: &str| {
        let spec = Kernel::parse("linear()*gaussian(sigma=1)").unwrap().on(columns).unwrap();
        spec.resolve_columns(&features).unwrap_err()
    };
    for (columns, name) in [("x12", "x12"), ("y*", "y*"), ("[x1, acity]", "acity"), ("x0..x99", "x99"), (r#""[""#, "[")]
    {
        let error = error(columns);
        assert!(matches!(&error, Error::NoSuchFeature { kernel: "linear", name: n, .. } if n == name), "{error}");
    }
    assert!(error("acity").to_string().ends_with(r#"but the data has no such input column; did you mean "a city"?"#));
    assert!(error("zzz*").to_string().contains("it has x0, x1, x2, x3, a city"));
    assert!(matches!(error("x9..x2"), Error::ReversedRange { .. }));
}

#[test]
fn columns_must_be_found_first() {
    let spec = Kernel::parse("linear() + gaussian(sigma=median, on=x0)").unwrap();
    let sample = faer::Mat::zeros(3, 2);
    let results = [
        spec.build().map(|_| ()),
        spec.check_input_count(2),
        spec.check_values(sample.as_ref(), 0),
        spec.resolve_median(sample.as_ref()).map(|_| ()),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Kernel { position: 34, message, .. } if message.contains("resolve_columns")),
            "{error}"
        );
    }
}

#[test]
#[should_panic(expected = "among other features")]
fn rows_of_other_features_are_a_bug() {
    let x = points::<f64>(4, 5, 1, 0.0);
    block(&build("linear(on=x0)", 4), view(&x, 5), view(&x, 5));
}

/// Random features of a restricted kernel depend on its columns only and average to the kernel.
#[test]
fn the_spectrum_is_that_of_the_columns() {
    for family in registry() {
        let whole = KernelFunction::<f64>::spectrum(&*Kernel::parse(family.example).unwrap().build().unwrap());
        let part = KernelFunction::<f64>::spectrum(&*build(
            &Kernel::parse(family.example).unwrap().on("[x3, x1]").unwrap().to_string(),
            4,
        ));
        assert_eq!(whole.is_some(), part.is_some(), "{}", family.name);
        if let (Some(whole), Some(part)) = (whole, part) {
            let length = whole.length_scales[0];
            assert_eq!(part.length_scales, [f64::INFINITY, length, f64::INFINITY, length]);
            assert_eq!(part.amplitude, whole.amplitude);
        }
    }
    let whole = Kernel::parse("gaussian(sigma=[3, 4])").unwrap().build().unwrap();
    let [first, second] = KernelFunction::<f64>::spectrum(&*whole).unwrap().length_scales[..] else {
        panic!("two lengths")
    };
    let kernel = build("2*gaussian(sigma=[3, 4], on=[x3, x1])", 4);
    let spectrum = KernelFunction::<f64>::spectrum(&*kernel).unwrap();
    assert_eq!((spectrum.length_scales, spectrum.amplitude), (vec![f64::INFINITY, second, f64::INFINITY, first], 2.0));
}
