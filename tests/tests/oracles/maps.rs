//! Feature maps compared with the kernels they approximate.

use faer::{Mat, MatRef};
use kapprox::kernel::Spectrum;
use kapprox::kernel::registry;
use kapprox::landmark::{Greedy, LandmarkSet, RpCholesky, Uniform};
use kapprox::map::additive::Homogeneous;
use kapprox::map::random::Sampling;
use kapprox::map::{Additive, DataIndependentMapArgs, Ensemble, MapConstructor, MapSpec, Projected, TensorSketch};
use kapprox::{FeatureMap, FourierMap, Kernel, NystromMap};
use kmill_tests::fit::{WHOLE, kernel, rows_of, select};
use kmill_tests::points::{Lcg, smile};
use kmill_tests::source::Points;
use kstore::Workers;

/// Computes phi of all points, n x p.
fn features(map: &dyn FeatureMap<f64>, points: &Points<f64>) -> Mat<f64> {
    let n = points.len();
    let mut phi = Mat::zeros(n, map.dims().1);
    map.apply(MatRef::from_row_major_slice(&points.x, n, points.d), phi.as_mut(), &Workers::new(2));
    phi
}

fn approximation(map: &dyn FeatureMap<f64>, points: &Points<f64>) -> Mat<f64> {
    let phi = features(map, points);
    &phi * phi.transpose()
}

fn exact(points: &Points<f64>, k: impl Fn(&[f64], &[f64]) -> f64) -> Mat<f64> {
    let row = |i: usize| &points.x[i * points.d..(i + 1) * points.d];
    Mat::from_fn(points.len(), points.len(), |i, j| k(row(i), row(j)))
}

fn squared(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum()
}

fn gaussian(x: &[f64], z: &[f64]) -> f64 {
    (-squared(x, z) / (2.0 * 1.7f64.powi(2))).exp()
}

fn spectrum(spec: &str) -> Spectrum {
    kernel(spec).typed::<f64>().spectrum().expect("a shift-invariant kernel")
}

/// Returns every registered kernel with a spectrum, and Matérn kernels of other smoothness.
fn shift_invariant() -> Vec<String> {
    let of_order = ["matern(nu=0.5, sigma=2)", "matern(nu=1.5, sigma=2)", "matern(nu=2.5, sigma=2)"];
    let examples = registry().into_iter().map(|family| family.example).chain(of_order);
    let specs: Vec<String> =
        examples.filter(|spec| kernel(spec).typed::<f64>().spectrum().is_some()).map(str::to_string).collect();
    for name in ["gaussian", "laplacian", "exponential", "matern", "cauchy", "rational_quadratic"] {
        assert!(specs.iter().any(|spec| spec.starts_with(name)), "{name} is shift-invariant: {specs:?}");
    }
    specs
}

/// Returns the sampling schemes of frequencies that the kernel supports.
fn samplings(spec: &str, d: usize) -> Vec<Sampling> {
    let all = [Sampling::Plain, Sampling::Orthogonal, Sampling::Structured, Sampling::Quasi];
    let found: Vec<Sampling> =
        all.into_iter().filter(|way| FourierMap::<f64>::new(&spectrum(spec), d, 2, *way, 0).is_ok()).collect();
    assert!(found.contains(&Sampling::Plain), "{spec}");
    found
}

type Random = Box<dyn Fn(u64, usize) -> Box<dyn FeatureMap<f64>>>;

fn fourier(spectrum: Spectrum, d: usize, sampling: Sampling) -> Random {
    Box::new(move |seed, p| Box::new(FourierMap::<f64>::new(&spectrum, d, p, sampling, seed).unwrap()))
}

/// Checks that the mean of K̂_ij over seeds is within four standard errors of K_ij for all pairs.
fn check_unbiased(name: &str, map: &Random, points: &Points<f64>, k: impl Fn(&[f64], &[f64]) -> f64, p: usize) {
    let (n, seeds) = (points.len(), 400);
    let k = exact(points, k);
    let estimates: Vec<Mat<f64>> = (0..seeds).map(|seed| approximation(&*map(seed, p), points)).collect();
    let mut worst = 0.0f64;
    for i in 0..n {
        for j in 0..i {
            let mean = estimates.iter().map(|e| e[(i, j)]).sum::<f64>() / seeds as f64;
            let variance = estimates.iter().map(|e| (e[(i, j)] - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64;
            worst = worst.max((mean - k[(i, j)]).abs() / (variance / seeds as f64).sqrt().max(1e-12));
        }
    }
    eprintln!("{name}: largest deviation {worst:.2} standard errors");
    assert!(worst < 4.0, "{name}: {worst}");
}

#[test]
fn random_features_are_unbiased() {
    let d = 5;
    let points = Points::<f64>::new(&Lcg(1).normals(12, d));
    // signed transforms rotate rows of more than 16 features
    let wide = Points::<f64>::new(
        &Lcg(9).normals(12, 24).iter().map(|x| x.iter().map(|v| v * 0.5).collect()).collect::<Vec<_>>(),
    );
    // frequencies of a product add; each frequency of a sum comes from one of its kernels
    let laplacian = |x: &[f64], z: &[f64]| (-x.iter().zip(z).map(|(x, z)| (x - z).abs()).sum::<f64>() / 3.0).exp();
    let sum = fourier(spectrum("gaussian(sigma=1.7) + 0.5*laplacian(sigma=3) + 0.25"), d, Sampling::Plain);
    check_unbiased("sum", &sum, &points, |x, z| gaussian(x, z) + 0.5 * laplacian(x, z) + 0.25, 64);
    let product = fourier(spectrum("2*gaussian(sigma=1.7) * laplacian(sigma=3)"), d, Sampling::Plain);
    check_unbiased("product", &product, &points, |x, z| 2.0 * gaussian(x, z) * laplacian(x, z), 64);
    let refused =
        FourierMap::<f64>::new(&spectrum("gaussian(sigma=1) + laplacian(sigma=2)"), d, 2, Sampling::Orthogonal, 0);
    assert!(refused.unwrap_err().to_string().contains("one by one"));
    let structured = fourier(spectrum("gaussian(sigma=1.7)"), 24, Sampling::Structured);
    check_unbiased("gaussian Structured", &structured, &wide, gaussian, 64);
    for spec in shift_invariant() {
        let k = kmill_tests::kernels::kernel(&spec);
        // With 40 features, the largest of its 66 deviations is 4.01 standard errors by chance;
        // with 400 features, a bias would give 12.
        let p = if spec.starts_with("periodic") { 400 } else { 40 };
        for sampling in samplings(&spec, d) {
            check_unbiased(&format!("{spec} {sampling:?}"), &fourier(spectrum(&spec), d, sampling), &points, &k, p);
        }
    }
    // a kernel on some columns: the frequencies of the other columns are 0
    let restricted =
        Kernel::parse("gaussian(sigma=1.7, on=[e, b])").unwrap().resolve_columns(&["a", "b", "c", "d", "e"]);
    let restricted = restricted.unwrap().build().unwrap().typed::<f64>().spectrum().unwrap();
    for sampling in [Sampling::Plain, Sampling::Orthogonal] {
        let map = fourier(restricted.clone(), d, sampling);
        let k = |x: &[f64], z: &[f64]| gaussian(&[x[4], x[1]], &[z[4], z[1]]);
        check_unbiased(&format!("restricted {sampling:?}"), &map, &points, k, 40);
    }
    let lengths = "2.5*gaussian(sigma=[1, 2, 3, 4, 5])";
    let scaled = |x: &[f64], z: &[f64]| {
        let sum: f64 = x.iter().zip(z).enumerate().map(|(c, (a, b))| ((a - b) / (c as f64 + 1.0)).powi(2)).sum();
        2.5 * (-sum / 2.0).exp()
    };
    check_unbiased(lengths, &fourier(spectrum(lengths), d, Sampling::Plain), &points, scaled, 40);
    let sketch: Random = Box::new(move |seed, p| Box::new(TensorSketch::new(0.5, 1.0, 3, d, p, seed)));
    let cubic = |x: &[f64], z: &[f64]| (0.5 * x.iter().zip(z).map(|(a, b)| a * b).sum::<f64>() + 1.0).powi(3);
    check_unbiased("tensor sketch", &sketch, &points, cubic, 64);
    let mut histograms = Lcg(2).normals(12, d);
    histograms.iter_mut().flatten().for_each(|v| *v = v.abs());
    let kernel = Kernel::parse("skewed_chi_squared(skew=0.3)").unwrap();
    let skewed: Random = Box::new(move |seed, p| {
        let spec: MapSpec = "fourier".parse().unwrap();
        let MapConstructor::DataIndependent(make) = spec.constructor::<f64>() else { panic!() };
        make(&DataIndependentMapArgs { spec: &spec, kernel: &kernel, d, rank: p, seed }).unwrap()
    });
    let skewed_chi2 = |x: &[f64], z: &[f64]| {
        x.iter().zip(z).map(|(a, b)| 2.0 * ((a + 0.3) * (b + 0.3)).sqrt() / (a + b + 0.6)).product::<f64>()
    };
    check_unbiased("skewed chi-squared", &skewed, &Points::new(&histograms), skewed_chi2, 40);
}

/// With few features there are few rotations by signs and transforms. Structured frequencies must
/// still be unbiased and as good as plain ones. Distant points test higher moments.
#[test]
fn structured_features_converge_for_few_features() {
    for d in (1..=10).chain([16, 17, 20]) {
        let scale = 2.4 / (d as f64).sqrt();
        let rows: Vec<Vec<f64>> =
            Lcg(d as u64).normals(12, d).iter().map(|row| row.iter().map(|v| v * scale).collect()).collect();
        let points = Points::<f64>::new(&rows);
        let k = exact(&points, gaussian);
        let spectrum = spectrum("gaussian(sigma=1.7)");
        let [plain, structured] = [Sampling::Plain, Sampling::Structured].map(|way| fourier(spectrum.clone(), d, way));
        let errors: Vec<(f64, f64)> =
            [32, 512, 8192].map(|p| (rms(&plain, &points, &k, p, 20), rms(&structured, &points, &k, p, 20))).into();
        assert!(errors.iter().all(|(plain, structured)| *structured < 1.5 * plain), "{d} features: {errors:?}");
        check_unbiased(&format!("structured, {d} features"), &structured, &points, gaussian, 64);
    }
}

/// Computes the root mean squared error of the entries over seeds.
fn rms(map: &Random, points: &Points<f64>, k: &Mat<f64>, p: usize, seeds: u64) -> f64 {
    let n = points.len();
    let sum: f64 = (0..seeds).map(|seed| (approximation(&*map(seed, p), points) - k).squared_norm_l2()).sum();
    (sum / (seeds as f64 * (n * n) as f64)).sqrt()
}

/// Tabulates errors against the number of features; `--nocapture` prints the table.
#[test]
fn errors_fall_with_the_root_of_the_number_and_rotations_lower_them() {
    let d = 16;
    let points = Points::<f64>::new(
        &Lcg(3).normals(40, d).iter().map(|r| r.iter().map(|v| v * 0.4).collect()).collect::<Vec<_>>(),
    );
    let sizes = [32, 128, 512, 2048];
    // a constant kernel has no error
    let specs = shift_invariant().into_iter().filter(|spec| !spec.starts_with("constant"));
    for spec in specs.chain(["gaussian(sigma=1.7)".to_string()]) {
        let k = exact(&points, kmill_tests::kernels::kernel(&spec));
        let errors = |sampling| {
            let map = fourier(spectrum(&spec), d, sampling);
            sizes.iter().map(|p| rms(&map, &points, &k, *p, 60)).collect::<Vec<f64>>()
        };
        let plain = errors(Sampling::Plain);
        for sampling in samplings(&spec, d) {
            let errors = errors(sampling);
            // from 32 to 2,048 features, a factor of 64
            let slope = (errors[3] / errors[0]).ln() / 64f64.ln();
            let list = errors.iter().map(|e| format!("{e:.2e}")).collect::<Vec<_>>().join("  ");
            let ratios: Vec<f64> = errors.iter().zip(&plain).map(|(error, plain)| error / plain).collect();
            // for heavy tails most error comes from the radii, which all schemes sample alike
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / 4.0).exp();
            eprintln!("{spec:40} {:10} {list}  slope {slope:.3}, of plain {mean:.2}", format!("{sampling:?}"));
            match sampling {
                // each step has four times the features and half the error, within the noise
                Sampling::Plain => assert!((slope + 0.5).abs() < 0.03, "{spec}: {errors:?}"),
                Sampling::Orthogonal | Sampling::Structured => assert!(mean < 1.0, "{spec}, {sampling:?}: {ratios:?}"),
                Sampling::Quasi => assert!(errors[3] < plain[3], "{spec}: {errors:?} {plain:?}"),
            }
            if spec.starts_with("gaussian(sigma=1.7") && sampling != Sampling::Quasi && sampling != Sampling::Plain {
                assert!(ratios.iter().all(|ratio| *ratio < 0.8), "{sampling:?}: {ratios:?}");
            }
        }
    }
}

#[test]
fn additive_features_come_near_their_kernels() {
    let mut histograms = Lcg(5).normals(30, 6);
    histograms.iter_mut().flatten().for_each(|v| *v = v.abs() + 0.05);
    let points = Points::<f64>::new(&histograms);
    let chi2 = |x: &[f64], z: &[f64]| x.iter().zip(z).map(|(a, b)| 2.0 * a * b / (a + b)).sum::<f64>();
    let intersection = |x: &[f64], z: &[f64]| x.iter().zip(z).map(|(a, b)| a.min(*b)).sum::<f64>();
    let error = |kernel, steps, interval, k: &dyn Fn(&[f64], &[f64]) -> f64| {
        let k = exact(&points, k);
        (approximation(&Additive::new(kernel, 6, steps, interval), &points) - &k).norm_l2() / k.norm_l2()
    };
    let coarse = error(Homogeneous::ChiSquared, 1, 0.8, &chi2);
    let fine = error(Homogeneous::ChiSquared, 3, 0.4, &chi2);
    assert!(coarse < 0.1 && fine < 0.02 && fine < coarse / 3.0);
    // missing beyond the last frequency: 1 − (2/π) atan 2λ of the intersection kernel's density
    let mut before = f64::INFINITY;
    for (steps, interval) in [(3, 0.4), (20, 0.1), (200, 0.05)] {
        let error = error(Homogeneous::Intersection, steps, interval, &intersection);
        let beyond = 1.0 - (2.0 * steps as f64 * interval).atan() * 2.0 / std::f64::consts::PI;
        eprintln!("chi-squared {coarse:.4} {fine:.4}, intersection {steps} steps {error:.4}, beyond {beyond:.4}");
        assert!(error < beyond && error < before, "{error} {beyond} {before}");
        before = error;
    }
}

/// Landmark maps never exceed the kernel: K − K̂ is positive semi-definite up to rounding.
#[test]
fn landmark_maps_stay_below_the_kernel_and_order_as_they_should() {
    let points = Points::<f64>::new(&smile(300, &mut Lcg(2)));
    let spec = "gaussian(sigma=2)";
    let any = kernel(spec);
    let k = exact(&points, kmill_tests::kernels::kernel(spec));
    let set = select(&points, &RpCholesky, spec, 40, 1, WHOLE);
    let workers = Workers::new(2);
    let nystrom = NystromMap::new(&any, set.clone(), &Workers::sequential()).unwrap();
    let r = 20;
    let data = rows_of(&points, &workers);
    let quarter = |q: usize| {
        NystromMap::new(&any, set.subset(&(q * 10..(q + 1) * 10).collect::<Vec<_>>()), &Workers::sequential()).unwrap()
    };
    let maps: Vec<(&str, Box<dyn FeatureMap<f64>>)> = vec![
        ("eigen", Box::new(Projected::eigen(&any, set.clone(), r).unwrap())),
        ("randomised", Box::new(Projected::randomised(&any, set.clone(), r, 3, &workers).unwrap())),
        ("double", Box::new(Projected::double(&any, set.clone(), r, 2).unwrap())),
        ("truncated", Box::new(Projected::truncated(&nystrom, &any, r, &data).unwrap())),
        ("ensemble", Box::new(Ensemble::new((0..4).map(quarter).collect()).unwrap())),
        ("nystrom", Box::new(nystrom)),
    ];
    let mut errors = std::collections::HashMap::new();
    for (name, map) in &maps {
        let left = &k - approximation(&**map, &points);
        let smallest = left.self_adjoint_eigenvalues(faer::Side::Lower).unwrap()[0];
        let error: f64 = (0..300).map(|i| left[(i, i)]).sum::<f64>() / 300.0;
        eprintln!("{name}: rank {}, trace error {error:.3e}, smallest eigenvalue {smallest:.1e}", map.dims().1);
        assert!(smallest > -1e-8, "{name}: {smallest}");
        errors.insert(*name, error);
    }
    // of all maps of r directions in this span, the truncation over all rows is the best
    for name in ["eigen", "randomised", "double"] {
        assert!(errors["truncated"] <= errors[name] + 1e-12, "{name}: {errors:?}");
    }
    assert!((errors["randomised"] / errors["eigen"] - 1.0).abs() < 0.05, "{errors:?}");
    assert!(errors["nystrom"] < errors["truncated"] && errors["nystrom"] < errors["ensemble"], "{errors:?}");
}

/// A slow spectrum needs the power steps: without them the error is several per cent too large.
#[test]
fn randomised_eigenvectors_are_nearly_the_best_of_a_slow_spectrum() {
    let points = Points::<f64>::new(&Lcg(12).normals(300, 6));
    let (spec, workers) = ("laplacian(sigma=6)", Workers::new(2));
    let set = select(&points, &Uniform, spec, 200, 1, WHOLE);
    let k = exact(&points, kmill_tests::kernels::kernel(spec));
    let error = |map: &Projected<f64>| (&k - approximation(map, &points)).norm_l2();
    let best = error(&Projected::eigen(&kernel(spec), set.clone(), 20).unwrap());
    for seed in 0..3 {
        let found = error(&Projected::randomised(&kernel(spec), set.clone(), 20, seed, &workers).unwrap()) / best;
        eprintln!("randomised: {found:.4} of the error of eigenvectors");
        assert!(found < 1.01, "{found}");
    }
}

/// By definition, the kernel of an ensemble is the mean of its parts' kernels.
#[test]
fn an_ensemble_is_the_mean_of_its_parts() {
    let points = Points::<f64>::new(&Lcg(10).normals(90, 3));
    let spec = "gaussian(sigma=1.5)";
    let set = select(&points, &Uniform, spec, 30, 1, WHOLE);
    let part = |from: usize| {
        let own = set.subset(&(from..from + 10).collect::<Vec<_>>());
        NystromMap::new(&kernel(spec), own, &Workers::sequential()).unwrap()
    };
    let parts = || [0, 10, 20].map(part);
    let mean = parts().iter().fold(Mat::<f64>::zeros(90, 90), |sum, part| sum + approximation(part, &points)) / 3.0;
    let ensemble = approximation(&Ensemble::new(parts().into()).unwrap(), &points);
    assert!((ensemble - mean).norm_max() < 1e-13);
}

#[test]
fn the_truncation_is_the_best_of_its_rank() {
    // eigenvalues of the approximation, from the features' inner products
    let points = Points::<f64>::new(&Lcg(4).normals(200, 3));
    let spec = "laplacian(sigma=3)";
    let any = kernel(spec);
    let map = NystromMap::new(&any, select(&points, &Uniform, spec, 30, 0, WHOLE), &Workers::sequential()).unwrap();
    let whole = approximation(&map, &points);
    let values = whole.self_adjoint_eigenvalues(faer::Side::Lower).unwrap();
    let best: f64 = values.iter().rev().take(10).sum();
    let truncated = Projected::truncated(&map, &any, 10, &rows_of(&points, &Workers::new(2))).unwrap();
    let kept = features(&truncated, &points).squared_norm_l2();
    assert!((kept / best - 1.0).abs() < 1e-9, "{kept} {best}");
}

/// With all rows as landmarks, the maps reproduce K.
#[test]
fn the_exact_map_reproduces_the_kernel_matrix() {
    let rows = Lcg(6).normals(150, 4);
    let points = Points::<f64>::new(&rows);
    for spec in ["gaussian(sigma=1.5)", "laplacian(sigma=2)", "matern(nu=1.5, sigma=2)"] {
        let any = kernel(spec);
        let k = exact(&points, kmill_tests::kernels::kernel(spec));
        let all =
            LandmarkSet { points: points.x.clone(), row_numbers: (0..150).collect(), d: 4, passes: 0, evaluations: 0 };
        let cholesky = NystromMap::new(&any, all.clone(), &Workers::sequential()).unwrap();
        assert!((approximation(&cholesky, &points) - &k).norm_max() < 1e-10, "{spec}");
        let eigen = Projected::eigen(&any, all, 150).unwrap();
        let y = features(&eigen, &points);
        let error = (&y * y.transpose() - &k).norm_max();
        assert!(error < 1e-10, "{spec}: {error:e}");
        // the coordinates are principal: orthogonal columns with squared norm λ
        let inner = y.transpose() * &y;
        for (j, value) in eigen.eigenvalues().iter().enumerate() {
            assert!((inner[(j, j)] / value - 1.0).abs() < 1e-6, "{spec}: direction {j}");
        }
    }
}

#[test]
fn maps_do_not_depend_on_threads_and_agree_in_single_precision() {
    let rows = Lcg(7).normals(700, 6);
    let (wide, narrow) = (Points::<f64>::new(&rows), Points::<f32>::new(&rows));
    let radial = spectrum("gaussian(sigma=1.7)");
    for sampling in [Sampling::Plain, Sampling::Structured] {
        let map = FourierMap::<f32>::new(&radial, 6, 64, sampling, 1).unwrap();
        let apply = |threads: usize| {
            let mut phi = Mat::<f32>::zeros(700, 64);
            map.apply(MatRef::from_row_major_slice(&narrow.x, 700, 6), phi.as_mut(), &Workers::new(threads));
            phi
        };
        let one = apply(1);
        assert!(one == apply(2) && one == apply(3));
        let exact = features(&FourierMap::<f64>::new(&radial, 6, 64, sampling, 1).unwrap(), &wide);
        let worst = (0..64)
            .flat_map(|j| (0..700).map(move |i| (i, j)))
            .fold(0.0f64, |worst, (i, j)| worst.max((f64::from(one[(i, j)]) - exact[(i, j)]).abs()));
        assert!(worst < 2e-6, "{sampling:?}: {worst}");
    }
    let set = select(&wide, &Greedy::default(), "gaussian(sigma=2)", 30, 0, WHOLE);
    let map = Projected::eigen(&kernel("gaussian(sigma=2)"), set, 20).unwrap();
    let apply = |threads: usize| {
        let mut phi = Mat::<f64>::zeros(700, 20);
        map.apply(MatRef::from_row_major_slice(&wide.x, 700, 6), phi.as_mut(), &Workers::new(threads));
        phi
    };
    assert!(apply(1) == apply(3));
}
