//! Error measures of an approximation compared with dense matrices.

use faer::{Mat, MatRef};
use kapprox::landmark::{RpCholesky, Uniform};
use kapprox::map::random::Sampling;
use kapprox::quality::{
    Approximation, ApproximationErrors, CONFIDENCE, EXACT_ROWS, Evidence, Measure, SpectralOptions, sample_spectrum,
};
use kapprox::{FeatureMap, FourierMap, NystromMap, Real};
use kmill_tests::dense::{eigenvalues, frobenius, kernel_matrix, residual_matrix};
use kmill_tests::fit::{WHOLE, kernel, rows_of, select};
use kmill_tests::kernels;
use kmill_tests::points::{Lcg, smile};
use kmill_tests::source::Points;
use kstore::Workers;

const SPEC: &str = "gaussian(sigma=1.2)";

fn clusters(n: usize, d: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut random = Lcg(seed);
    let centres = random.normals(5, d);
    (0..n).map(|i| centres[i % 5].iter().map(|c| c + 0.5 * random.normal()).collect()).collect()
}

/// Computes K − ΦΦᵀ for the leading features, entry by entry.
fn left<T: Real>(map: &dyn FeatureMap<T>, points: &Points<T>, k: &[Vec<f64>], rank: usize) -> Vec<Vec<f64>> {
    let n = points.len();
    let mut phi = Mat::<T>::zeros(n, map.dims().1);
    map.apply(MatRef::from_row_major_slice(&points.x, n, points.d), phi.as_mut(), &Workers::sequential());
    let phi = |i: usize, c: usize| kstore::Float::to_f64(phi[(i, c)]);
    let product = |i: usize, j: usize| (0..rank).map(|c| phi(i, c) * phi(j, c)).sum::<f64>();
    (0..n).map(|i| (0..n).map(|j| k[i][j] - product(i, j)).collect()).collect()
}

fn close(found: f64, expected: f64, by: f64) -> bool {
    (found - expected).abs() <= by * expected.abs()
}

fn holds(measure: Measure, number: f64) -> bool {
    measure.low <= number && number <= measure.high
}

fn norm(values: &[f64]) -> f64 {
    values.iter().fold(0.0f64, |most, value| most.max(value.abs()))
}

#[test]
fn exact_measures_are_those_of_the_dense_matrix() {
    let rows = clusters(180, 4, 1);
    let points = Points::<f64>::new(&rows);
    let (any, k) = (kernel(SPEC), kernel_matrix(&rows, &*kernels::kernel(SPEC)));
    let set = select(&points, &RpCholesky, SPEC, 40, 1, WHOLE);
    let chosen: Vec<usize> = set.row_numbers.iter().map(|row| *row as usize).collect();
    let nystrom = NystromMap::new(&any, set, &Workers::sequential()).unwrap();
    let spectrum = any.typed::<f64>().spectrum().unwrap();
    let fourier = FourierMap::<f64>::new(&spectrum, 4, 40, Sampling::Plain, 3).unwrap();
    let whole = norm(&eigenvalues(k.clone()));
    let workers = Workers::new(2);
    let maps: [(&dyn FeatureMap<f64>, &[usize]); 2] = [(&nystrom, &[1, 13, 40]), (&fourier, &[40])];
    for (map, ranks) in maps {
        let approximation = Approximation { scan: rows_of(&points, &workers), kernel: &any, map };
        let projection = map.dims().1 == 40 && ranks.len() == 3;
        let all = approximation.errors(ranks, EXACT_ROWS, 0).unwrap();
        for (errors, rank) in all.iter().zip(ranks) {
            let e = left(map, &points, &k, *rank);
            if projection {
                let schur = residual_matrix(k.clone(), &chosen[..*rank], 0.0);
                assert!((frobenius(&schur) - frobenius(&e)).abs() < 1e-10, "the map is the projection");
            }
            assert_eq!((errors.rank, errors.row_count, errors.column_count), (*rank, 180, 180));
            assert_eq!(errors.relative_frobenius_error.evidence, Evidence::Exact);
            assert!(close(errors.relative_frobenius_error.value, frobenius(&e) / frobenius(&k), 1e-9), "{errors:?}");
            assert!(close(errors.frobenius_norm.error.value, frobenius(&e), 1e-9), "{errors:?}");
            let trace = (0..180).map(|i| e[i][i]).sum::<f64>() / 180.0;
            assert!(errors.trace_error.is_none_or(|found| close(found, trace, 1e-9)), "{errors:?} {trace}");
            assert_eq!(errors.trace_error.is_some(), projection);
            let column = e.iter().map(|c| frobenius(std::slice::from_ref(c))).fold(0.0, f64::max);
            assert!(close(errors.largest_column_norm, column, 1e-9), "{errors:?} {column}");
            let options = SpectralOptions { tolerance: 1e-3, ..SpectralOptions::default() };
            let norms = approximation.spectral(std::slice::from_ref(errors), options, 5).unwrap()[0];
            let exact = norm(&eigenvalues(e));
            eprintln!("rank {rank}: ‖E‖ {exact:.6e}, {:?}; ‖K‖ {whole:.6e}, {:?}", norms.error, norms.kernel);
            assert!(close(norms.error.value, exact, 1e-5) && close(norms.kernel.value, whole, 1e-5));
            for (measure, exact) in [(norms.error, exact), (norms.kernel, whole), (norms.relative(), exact / whole)] {
                assert!(
                    measure.low <= exact * (1.0 + 1e-9) && exact <= measure.high * (1.0 + 1e-9),
                    "{measure:?} {exact}"
                );
                assert!(measure.high < measure.low * 1.06, "{measure:?}");
            }
        }
        // all ranks together give the same as each alone, up to the order of a product's sums
        let options = SpectralOptions::default();
        let together = approximation.spectral(&all, options, 5).unwrap();
        assert_eq!(together.len(), ranks.len());
        for (errors, found) in all.iter().zip(&together) {
            let alone = approximation.spectral(std::slice::from_ref(errors), options, 5).unwrap()[0].relative();
            let found = found.relative();
            assert!(
                close(found.value, alone.value, 1e-9) && close(found.high, alone.high, 1e-9),
                "{found:?} {alone:?}"
            );
            assert_eq!(found.evidence, alone.evidence);
        }
    }
}

/// The estimate of ‖E‖²_F is unbiased, and the intervals have their nominal coverage.
#[test]
fn sampled_columns_give_unbiased_norms_and_fair_intervals() {
    let rows = clusters(400, 3, 2);
    let points = Points::<f64>::new(&rows);
    let (any, k) = (kernel(SPEC), kernel_matrix(&rows, &*kernels::kernel(SPEC)));
    let map = NystromMap::new(&any, select(&points, &Uniform, SPEC, 12, 1, WHOLE), &Workers::sequential()).unwrap();
    let e = left(&map, &points, &k, 12);
    let (error, relative) = (frobenius(&e), frobenius(&e) / frobenius(&k));
    let workers = Workers::new(2);
    let approximation = Approximation { scan: rows_of(&points, &workers), kernel: &any, map: &map };
    let seeds = 600;
    let found: Vec<ApproximationErrors> =
        (0..seeds).map(|seed| approximation.errors(&[12], 60, seed).unwrap().remove(0)).collect();
    let squares: Vec<f64> = found.iter().map(|f| f.frobenius_norm.error.value.powi(2)).collect();
    let mean = squares.iter().sum::<f64>() / seeds as f64;
    let deviation = (squares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64).sqrt();
    let standard = (mean - error * error) / (deviation / (seeds as f64).sqrt());
    assert!(standard.abs() < 4.0, "off by {standard} standard errors");
    for (name, hits) in [
        ("absolute", found.iter().filter(|f| holds(f.frobenius_norm.error, error)).count()),
        ("relative", found.iter().filter(|f| holds(f.relative_frobenius_error, relative)).count()),
    ] {
        let share = hits as f64 / seeds as f64;
        eprintln!("{name}: {share:.3} of the intervals hold; bias {standard:.2} standard errors");
        // ± four standard errors of 600 trials; a normal interval from 60 columns undercovers
        assert!((CONFIDENCE - 0.05..CONFIDENCE + 0.036).contains(&share), "{name}: {share}");
    }
    assert!(
        found
            .iter()
            .all(|f| f.relative_frobenius_error.evidence == Evidence::Confidence(CONFIDENCE) && f.column_count == 60)
    );
    // the reported standard errors match the spread of the estimates
    let measures: [fn(&ApproximationErrors) -> Measure; 2] =
        [|f| f.frobenius_norm.error, |f| f.relative_frobenius_error];
    for measure in measures {
        let mean = found.iter().map(|f| measure(f).value).sum::<f64>() / seeds as f64;
        let variance = found.iter().map(|f| (measure(f).value - mean).powi(2)).sum::<f64>() / seeds as f64;
        let said = found.iter().map(|f| (measure(f).high - measure(f).low) / 3.92).sum::<f64>() / seeds as f64;
        eprintln!("standard error {:.4e}, said to be {said:.4e}", variance.sqrt());
        assert!((said / variance.sqrt() - 1.0).abs() < 0.12, "{said} {}", variance.sqrt());
    }
}

/// Without a product with K the norms are bounded from both sides, for every map and precision.
#[test]
fn bounds_hold_for_every_map_and_both_precisions() {
    fn check<T: Real>(rows: &[Vec<f64>], spec: &str) {
        let points = Points::<T>::new(rows);
        let any = kernel(spec);
        // the rows rounded to T
        let held: Vec<Vec<f64>> =
            points.x.chunks(points.d).map(|row| row.iter().map(|v| kstore::Float::to_f64(*v)).collect()).collect();
        let k = kernel_matrix(&held, &*kernels::kernel(spec));
        let values = eigenvalues(k.clone());
        let map =
            NystromMap::new(&any, select(&points, &RpCholesky, spec, 30, 1, WHOLE), &Workers::sequential()).unwrap();
        let spectrum = any.typed::<T>().spectrum().unwrap();
        let fourier = FourierMap::<T>::new(&spectrum, points.d, 60, Sampling::Orthogonal, 3).unwrap();
        let workers = Workers::new(2);
        for map in [&map as &dyn FeatureMap<T>, &fourier] {
            let p = map.dims().1;
            let e = left(map, &points, &k, p);
            let approximation = Approximation { scan: rows_of(&points, &workers), kernel: &any, map };
            let errors = approximation.errors(&[p], 80, 4).unwrap().remove(0);
            let norms = errors.spectral_bounds(approximation.largest_eigenvalue().unwrap());
            let exact = norm(&eigenvalues(e));
            eprintln!("{spec} {}: {exact:.4e} in {:?}, {:.4e} in {:?}", T::NAME, norms.error, values[0], norms.kernel);
            let slack = 1e-6 * values[0];
            for (measure, exact) in [(norms.error, exact), (norms.kernel, values[0])] {
                assert!(measure.low <= exact + slack && exact <= measure.high + slack, "{measure:?} {exact}");
            }
        }
    }
    for spec in ["gaussian(sigma=2)", "matern(nu=1.5, sigma=4)"] {
        check::<f64>(&clusters(150, 3, 3), spec);
        check::<f32>(&clusters(150, 3, 3), spec);
    }
}

#[test]
fn no_approximation_is_better_than_the_floor() {
    let rows = smile(260, &mut Lcg(4));
    let points = Points::<f64>::new(&rows);
    let spec = "gaussian(sigma=2)";
    let (any, k) = (kernel(spec), kernel_matrix(&rows, &*kernels::kernel(spec)));
    let values = eigenvalues(k);
    let workers = Workers::new(2);
    let data = rows_of(&points, &workers);
    let spectrum = sample_spectrum(&data, &any, 1_000, 0).unwrap();
    assert!(spectrum.is_exact() && spectrum.eigenvalues.len() == 260);
    for rank in [0, 1, 10, 30, 259, 260, 400] {
        let tail = &values[rank.min(260)..];
        let (sum, squares) = (values.iter().sum::<f64>(), values.iter().map(|v| v * v).sum::<f64>());
        let trace = tail.iter().sum::<f64>() / sum;
        let square = (tail.iter().map(|v| v * v).sum::<f64>() / squares).sqrt();
        let top = tail.first().copied().unwrap_or(0.0) / values[0];
        for (found, expected) in [
            (spectrum.trace_floor(rank), trace),
            (spectrum.frobenius_floor(rank), square),
            (spectrum.spectral_floor(rank), top),
        ] {
            assert!((found - expected).abs() < 1e-13 + 1e-9 * expected, "rank {rank}: {found} {expected}");
        }
    }
    let map = NystromMap::new(&any, select(&points, &RpCholesky, spec, 60, 1, WHOLE), &Workers::sequential()).unwrap();
    let ranks = [5, 10, 20, 40, map.rank()];
    let approximation = Approximation { scan: data, kernel: &any, map: &map };
    for errors in approximation.errors(&ranks, EXACT_ROWS, 0).unwrap() {
        let (trace, floor) = (errors.trace_error.unwrap(), spectrum.trace_floor(errors.rank));
        assert!(
            trace >= floor && errors.relative_frobenius_error.value >= spectrum.frobenius_floor(errors.rank),
            "{errors:?}"
        );
        assert!(trace < 40.0 * floor, "rank {}: {trace} against {floor}", errors.rank);
    }
    // a spectrum from a sample reports that it is not exact, and is close
    let sample = sample_spectrum(&data, &any, 130, 0).unwrap();
    assert!(!sample.is_exact() && sample.eigenvalues.len() == 130);
    assert!((sample.trace_floor(10) / spectrum.trace_floor(10) - 1.0).abs() < 0.3);
    assert!(sample_spectrum(&data, &kernel("sigmoid()"), 50, 0).is_err());
}

/// Threads do not change a bit, tiles only the order of sums; duplicates and zeros are allowed.
#[test]
fn measures_do_not_depend_on_threads_and_survive_odd_tables() {
    let rows = clusters(700, 3, 5);
    let points = Points::<f32>::new(&rows);
    let any = kernel(SPEC);
    let map = NystromMap::new(&any, select(&points, &RpCholesky, SPEC, 25, 1, WHOLE), &Workers::sequential()).unwrap();
    let run = |threads: usize, tile: usize, segment: u64| {
        let workers = Workers::new(threads);
        let mut data = rows_of(&points, &workers);
        (data.pass.tile_rows, data.pass.segment_rows) = (tile, segment);
        let approximation = Approximation { scan: data, kernel: &any, map: &map };
        let errors = approximation.errors(&[5, 25], 300, 2).unwrap();
        let whole = approximation.errors(&[25], 700, 2).unwrap().remove(0);
        let spectral = approximation.spectral(&[whole], SpectralOptions::default(), 1).unwrap()[0].relative();
        (errors[0].relative_frobenius_error.value, errors[1].relative_frobenius_error.value, spectral.value)
    };
    let one = run(1, 128, 256);
    assert_eq!(one, run(2, 128, 256));
    assert_eq!(one, run(3, 128, 256));
    let other = run(2, 333, 700);
    assert!(
        close(one.0, other.0, 1e-6) && close(one.1, other.1, 1e-6) && close(one.2, other.2, 1e-6),
        "{one:?} {other:?}"
    );

    let same = Points::<f64>::new(&vec![vec![1.0, 2.0]; 40]);
    let workers = Workers::sequential();
    let set = select(&same, &RpCholesky, SPEC, 10, 0, WHOLE);
    let map = NystromMap::new(&any, set, &Workers::sequential()).unwrap();
    let approximation = Approximation { scan: rows_of(&same, &workers), kernel: &any, map: &map };
    let errors = approximation.errors(&[1], 100, 0).unwrap().remove(0);
    let relative =
        approximation.spectral(std::slice::from_ref(&errors), SpectralOptions::default(), 0).unwrap()[0].relative();
    assert!(errors.relative_frobenius_error.value < 1e-15 && relative.value < 1e-14, "{errors:?} {relative:?}");
}

#[test]
fn spectral_products_of_many_rows_are_refused() {
    let rows: Vec<Vec<f64>> = (0..=EXACT_ROWS).map(|i| vec![(i as f64).sin()]).collect();
    let points = Points::<f64>::new(&rows);
    let any = kernel(SPEC);
    let map = NystromMap::new(&any, select(&points, &Uniform, SPEC, 3, 1, WHOLE), &Workers::sequential()).unwrap();
    let workers = Workers::new(2);
    let approximation = Approximation { scan: rows_of(&points, &workers), kernel: &any, map: &map };
    let errors = approximation.errors(&[3], 10, 0).unwrap().remove(0);
    let refused = approximation.spectral(&[errors], SpectralOptions::default(), 0);
    assert!(refused.unwrap_err().to_string().contains("at most 10000 rows"));
}
