//! Kernels, maps and factors built by a caller.

use faer::{Mat, MatRef};
use kapprox::kernel::Value;
use kapprox::landmark::{self, TableScan};
use kapprox::map::random::Sampling;
use kapprox::{Error, FeatureMap, IncompleteCholesky, Kernel, Nystrom, NystromMap, Points, RandomFourier};
use kpass::{MemoryRows, Pass, Workers};

fn points(n: usize) -> Vec<[f64; 3]> {
    (0..n).map(|i| [0.37, 0.61, 0.83].map(|step| (step * i as f64).sin())).collect()
}

#[test]
fn a_kernel_that_is_built_is_the_kernel_of_its_expression() {
    let pairs = [
        (Kernel::gaussian(2.0), "gaussian(sigma=2)"),
        (Kernel::gaussian([1.0, 2.5]), "gaussian(sigma=[1, 2.5])"),
        (Kernel::gaussian(Value::Median), "gaussian(sigma=median)"),
        (Kernel::laplacian(0.1), "laplacian(sigma=0.1)"),
        (Kernel::cauchy(3.0), "cauchy(sigma=3)"),
        (Kernel::matern(2.5, 1.0), "matern(nu=2.5, sigma=1)"),
        (Kernel::exponential(Value::Auto), "exponential(sigma=auto)"),
        (Kernel::rational_quadratic(0.75, 2.0), "rational_quadratic(alpha=0.75, sigma=2)"),
        (Kernel::polynomial(3, 0.5, 1.0), "polynomial(degree=3, gamma=0.5, c0=1)"),
        (Kernel::periodic(3.0, 1.5), "periodic(period=3, sigma=1.5)"),
        (Kernel::sigmoid(0.5, -0.25), "sigmoid(gamma=0.5, c0=-0.25)"),
        (
            Kernel::linear() + Kernel::constant(2.0) * Kernel::gaussian(1.0),
            "linear() + constant(value=2)*gaussian(sigma=1)",
        ),
    ];
    for (built, text) in pairs {
        assert_eq!(built, Kernel::parse(text).unwrap(), "{text}");
    }
}

#[test]
fn a_kernel_with_an_invalid_number_is_rejected_when_it_is_used() {
    let wrong = [
        (Kernel::gaussian(0.0), "sigma must be > 0, got 0"),
        (Kernel::gaussian([1.0, -1.0, 2.0]), "must be > 0, got -1"),
        (Kernel::gaussian(f64::NAN), "sigma"),
        (Kernel::matern(2.0, 1.0), "nu must be one of"),
        (Kernel::laplacian([1.0, -2.0, 1.0]), "must be > 0, got -2"),
        (Kernel::linear() + Kernel::polynomial(0, 1.0, 1.0), "degree must be a whole number"),
    ];
    for (kernel, told) in wrong {
        let error = Nystrom::new(kernel, 5).fit(&points(20)).unwrap_err();
        assert!(matches!(error, Error::Kernel { .. }) && error.to_string().contains(told), "{error}");
    }
}

#[test]
fn points_of_every_layout_have_the_same_numbers() {
    let rows = points(7);
    let flat: Vec<f64> = rows.iter().flatten().copied().collect();
    let expected = (flat.clone(), 3);
    let lists: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
    let matrix = Mat::from_fn(7, 3, |i, j| rows[i][j]);
    assert_eq!(rows.row_major().unwrap(), expected);
    assert_eq!(lists.row_major().unwrap(), expected);
    assert_eq!(matrix.row_major().unwrap(), expected);
    assert_eq!(MatRef::from_row_major_slice(&flat, 7, 3).row_major().unwrap(), expected);
    assert_eq!([1.0f32, 2.0].row_major().unwrap(), (vec![1.0, 2.0], 1));
    let ragged = vec![vec![1.0, 2.0], vec![3.0]].row_major().unwrap_err();
    assert_eq!(ragged.to_string(), "columns of a row: expected 2, got 1");
    assert!(matches!(Vec::<f64>::new().row_major(), Err(Error::Shape { expected: 1, got: 0, .. })));
}

#[test]
fn nystrom_is_the_map_on_landmarks_of_the_scheme() {
    let x = points(300);
    let kernel = Kernel::gaussian(1.5);
    let built = Nystrom::new(kernel.clone(), 40).landmarks("rpcholesky").seed(3).fit(&x).unwrap();
    let rows = MemoryRows::new(x.row_major().unwrap().0, 3).unwrap();
    let workers = Workers::sequential();
    let scan = TableScan { source: &rows, pass: Pass::new(1024, 65_536, &workers), row_count: 300 };
    let any = kernel.build().unwrap();
    let chosen = landmark::by_name("rpcholesky").unwrap().typed::<f64>().select(&scan, &any, 40, 3).unwrap();
    let map = NystromMap::<f64>::new(&any, chosen, &workers).unwrap();
    let flat = x.row_major().unwrap().0;
    let mut expected = Mat::zeros(300, map.rank());
    map.apply(MatRef::from_row_major_slice(&flat, 300, 3), expected.as_mut(), &workers);
    assert_eq!(built.transform(&x).unwrap(), expected);
    let error = built.trace_error(&x).unwrap().unwrap();
    let left = |i: usize| 1.0 - (0..expected.ncols()).map(|j| expected[(i, j)].powi(2)).sum::<f64>();
    let oracle = (0..300).map(|i| left(i).max(0.0)).sum::<f64>() / 300.0;
    assert!((error - oracle).abs() <= 1e-15 && error > 0.0, "{error} {oracle}");
}

#[test]
fn points_that_a_map_cannot_take_are_rejected() {
    let x = points(50);
    let map = Nystrom::new(Kernel::gaussian(Value::Median), 10).fit(&x).unwrap();
    assert!(!map.kernel().needs_median());
    let other = map.transform(&[[1.0, 2.0]]).unwrap_err().to_string();
    assert_eq!(other, "columns of the points: expected 3, got 2");
    let nan = map.transform(&[[1.0, f64::NAN, 2.0]]).unwrap_err().to_string();
    assert!(nan.starts_with("the value of row 0, column 1 (counted from 0) is not finite"), "{nan}");
    let scheme = Nystrom::new(Kernel::linear(), 3).landmarks("rpcholeski").fit(&x).unwrap_err().to_string();
    assert!(scheme.contains("rpcholeski") && scheme.contains("rpcholesky"), "{scheme}");
    let targets = landmark::registry().into_iter().find(|scheme| scheme.needs_targets).unwrap().name;
    assert!(matches!(Nystrom::new(Kernel::linear(), 3).landmarks(targets).fit(&x), Err(Error::NoTargets { .. })));
    assert!(matches!(
        RandomFourier::new(Kernel::polynomial(2, 1.0, 1.0), 10).fit(&x),
        Err(Error::NoRandomFeatures { .. })
    ));
}

#[test]
fn a_trace_that_overflows_is_an_error() {
    let map = Nystrom::new(Kernel::polynomial(9, 1.0, 1.0), 3).fit(&points(20)).unwrap();
    let far = map.trace_error(&[[1e30; 3], [1e31; 3]]).unwrap_err();
    assert!(matches!(far, Error::NotFinite { .. }), "{far}");
}

#[test]
fn random_features_approximate_the_kernel() {
    let x = points(30);
    for sampling in [Sampling::Plain, Sampling::Orthogonal, Sampling::Structured, Sampling::Quasi] {
        let map = RandomFourier::new(Kernel::gaussian(1.0), 8000).sampling(sampling).seed(5).fit(&x).unwrap();
        assert!(map.trace_error(&x).unwrap().is_none());
        let phi = map.transform(&x).unwrap();
        let k = &phi * phi.transpose();
        for (i, j) in [(0, 1), (3, 17), (29, 4)] {
            let squared: f64 = (0..3).map(|c| (x[i][c] - x[j][c]).powi(2)).sum();
            assert!((k[(i, j)] - (-squared / 2.0).exp()).abs() < 0.06, "{sampling:?} {i} {j}");
        }
    }
}

#[test]
fn a_factor_ends_at_its_tolerance() {
    let entry = |i: usize, j: usize| (i.min(j) + 1) as f64;
    for greedy in [false, true] {
        let factor = IncompleteCholesky::new(100).tolerance(1e-2).greedy(greedy).run(400, entry).unwrap();
        assert!(factor.trace_error <= 1e-2 && factor.pivots.len() < 100);
        let left: f64 = (0..400).map(|i| entry(i, i) - factor.factor.row(i).squared_norm_l2()).sum();
        assert!((left / (400.0 * 401.0 / 2.0) - factor.trace_error).abs() < 1e-12);
    }
}
