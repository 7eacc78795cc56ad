//! The cells of a curve compared with dense matrices of 2,000 rows.

use faer::{Mat, MatRef};
use kapprox::landmark;
use kapprox::map::{DataIndependentMapArgs, MapConstructor};
use kapprox::quality::{Approximation, SpectralOptions};
use kapprox::{FeatureMap, Kernel, MapSpec, NystromMap};
use kfit::request::Resources;
use kmill_tests::dense::{frobenius, kernel_matrix, residual_matrix};
use kmill_tests::fit::{WHOLE, kernel, rows_of, select};
use kmill_tests::points::Lcg;
use kmill_tests::source::Points;
use kmill_tests::{kernels, table};
use ksolve::Intercept;
use ksolve::Task;
use ksolve::curve::{CurveCell, CurveOptions, EXACT_ROWS, Setting};
use ksolve::job::{NoStageObserver, Scaling};
use kstore::Workers;

const N: usize = 2_000;
const D: usize = 3;
const SPEC: &str = "gaussian(sigma=1.5)";
const RANKS: [usize; 2] = [8, 30];

fn clusters(n: usize) -> Vec<Vec<f64>> {
    let mut random = Lcg(11);
    let centres = random.normals(6, D);
    (0..n).map(|i| centres[i % 6].iter().map(|c| 1.5 * c + 0.6 * random.normal()).collect()).collect()
}

fn options(methods: &str, repeats: u64, scaling: Scaling) -> CurveOptions {
    CurveOptions {
        methods: methods.split(',').map(|name| name.parse().unwrap()).collect(),
        ranks: RANKS.to_vec(),
        repeats,
        landmark_scheme: landmark::by_name("rpcholesky").unwrap(),
        sample_rows: None,
        scaling,
        kernel: Kernel::parse(SPEC).unwrap(),
        task: Task::Regression,
        lambda: 1e-6,
        intercept: Intercept::Free,
        seed: 5,
    }
}

fn cells(
    rows: &[Vec<f64>],
    options: &CurveOptions,
    threads: usize,
) -> (Vec<CurveCell>, Option<ksolve::curve::MinimumErrors>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    table::write(&path, rows, &vec![0.0; rows.len()]);
    let selected = table::select(&path, Task::Components);
    let workers = Workers::new(threads);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let setting = Setting::<f64>::open(&selected, None, options, &resources).unwrap();
    (options.runs().iter().flat_map(|run| setting.run(run).unwrap()).collect(), setting.minimum_errors())
}

/// Estimates the largest absolute eigenvalue by 200 steps of the power method: a tight lower bound.
fn spectral(matrix: &[Vec<f64>]) -> f64 {
    let mut v: Vec<f64> = (0..matrix.len()).map(|i| (1.7 * i as f64).sin() + 0.1).collect();
    let mut norm = 0.0;
    for _ in 0..200 {
        let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        v.iter_mut().for_each(|v| *v /= length);
        v = matrix.iter().map(|row| row.iter().zip(&v).map(|(a, v)| a * v).sum()).collect();
        norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    }
    norm
}

fn close(found: f64, expected: f64, by: f64) -> bool {
    (found - expected).abs() <= by * expected.abs()
}

/// Compares the errors of a cell with the dense E and K.
fn check(cell: &CurveCell, e: &[Vec<f64>], k: &[Vec<f64>], whole: f64, projection: bool) {
    let trace = (0..N).map(|i| e[i][i]).sum::<f64>() / (0..N).map(|i| k[i][i]).sum::<f64>();
    assert_eq!(cell.trace_error.is_some(), projection, "{cell:?}");
    assert!(cell.trace_error.is_none_or(|found| close(found, trace, 1e-9)), "{cell:?} {trace}");
    assert!(close(cell.frobenius.value, frobenius(e) / frobenius(k), 1e-9), "{cell:?}");
    assert_eq!(cell.frobenius.evidence, "exact");
    let (norm, found) = (spectral(e) / whole, cell.spectral.clone().unwrap());
    eprintln!("{} {}: {norm:.6e} {found:?}", cell.method, cell.rank);
    // the iteration ends when its interval is 5 % wide
    assert!(close(found.value, norm, 0.05), "{cell:?} {norm}");
    assert!(found.low <= norm * (1.0 + 1e-3) && norm <= found.high.unwrap() * (1.0 + 1e-9), "{cell:?} {norm}");
}

#[test]
fn errors_are_those_of_the_dense_matrix() {
    let rows = clusters(N);
    let points = Points::<f64>::new(&rows);
    let k = kernel_matrix(&rows, &*kernels::kernel(SPEC));
    let whole = spectral(&k);
    let (found, floor) = cells(&rows, &options("uniform,rpcholesky,greedy,fourier", 1, Scaling::None), 2);
    assert_eq!(found.len(), 8);
    for cell in found.iter().filter(|cell| cell.method != "fourier") {
        let scheme = landmark::by_name(&cell.method).unwrap().typed::<f64>();
        let set = select(&points, scheme, SPEC, RANKS[1], 5, WHOLE);
        let chosen: Vec<usize> = set.row_numbers.iter().take(cell.rank).map(|row| *row as usize).collect();
        check(cell, &residual_matrix(k.clone(), &chosen, 0.0), &k, whole, true);
        // the features of every row, the factor, and at most the evaluations of the whole selection
        let least = (N * cell.rank + cell.rank * cell.rank) as u64;
        let most = least + set.evaluations;
        assert!((least..=most).contains(&cell.kernel_evaluations), "{cell:?} {least} {most}");
        assert!(cell.passes >= 2 && cell.passes <= set.passes + 1 && cell.bytes_read > 0 && cell.seconds > 0.0);
    }
    let spec: MapSpec = "fourier".parse().unwrap();
    let MapConstructor::DataIndependent(make) = spec.constructor::<f64>() else {
        panic!("random features look at no rows")
    };
    let kernel = Kernel::parse(SPEC).unwrap();
    for cell in found.iter().filter(|cell| cell.method == "fourier") {
        let map =
            make(&DataIndependentMapArgs { spec: &spec, kernel: &kernel, d: D, rank: cell.rank, seed: 5 }).unwrap();
        check(cell, &left(&*map, &points, &k), &k, whole, false);
        assert_eq!((cell.kernel_evaluations, cell.passes), (0, 1));
    }
    // if the floor is computed on all rows, it is a lower bound of every error
    let floor = floor.unwrap();
    for cell in &found {
        let at = floor.ranks.iter().position(|rank| *rank == cell.rank).unwrap();
        if floor.rows == N {
            assert!(cell.trace_error.is_none_or(|error| error >= floor.trace[at]), "{cell:?} {floor:?}");
            assert!(cell.frobenius.value >= floor.frobenius[at], "{cell:?} {floor:?}");
        }
    }
}

/// Beyond `EXACT_ROWS` rows, the spectral error is estimated on a few rows and bounded on all.
#[test]
fn estimates_and_bounds_beyond_the_exact_rows() {
    let rows = clusters(EXACT_ROWS as usize + 1_000);
    let points = Points::<f64>::new(&rows);
    let (found, _) = cells(&rows, &options("uniform", 1, Scaling::None), 2);
    let any = kernel(SPEC);
    let scheme = landmark::by_name("uniform").unwrap().typed::<f64>();
    let map = NystromMap::new(&any, select(&points, scheme, SPEC, RANKS[1], 5, WHOLE), &Workers::sequential()).unwrap();
    let workers = Workers::new(2);
    let approximation = Approximation { scan: rows_of(&points, &workers), kernel: &any, map: &map };
    let exact = approximation.errors(&RANKS, rows.len(), 0).unwrap();
    for (cell, exact) in found.iter().zip(&exact) {
        let norm = approximation.spectral(std::slice::from_ref(exact), SpectralOptions::default(), 0).unwrap();
        let norm = norm[0].relative();
        let (spectral, frobenius) = (cell.spectral.clone().unwrap(), &cell.frobenius);
        eprintln!("rank {}: {norm:?}, {spectral:?}; {:?}, {frobenius:?}", cell.rank, exact.relative_frobenius_error);
        assert!(
            close(cell.trace_error.unwrap(), exact.trace_error.unwrap(), 1e-9),
            "the trace error is exact on any table"
        );
        assert!(spectral.low <= norm.high && norm.low <= spectral.high.unwrap(), "{spectral:?} {norm:?}");
        assert!(close(spectral.value, norm.value, 0.3), "{spectral:?} {norm:?}");
        assert!([spectral.evidence, frobenius.evidence.clone()].iter().all(|text| text.ends_with("confidence")));
        assert!(
            close(frobenius.value, exact.relative_frobenius_error.value, 0.1),
            "{frobenius:?} {:?}",
            exact.relative_frobenius_error
        );
    }
}

/// Computes K − ΦΦᵀ, entry by entry.
fn left(map: &dyn FeatureMap<f64>, points: &Points<f64>, k: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let p = map.dims().1;
    let mut phi = Mat::<f64>::zeros(N, p);
    map.apply(MatRef::from_row_major_slice(&points.x, N, D), phi.as_mut(), &Workers::sequential());
    let row = |i: usize| (0..p).map(|j| phi[(i, j)]).collect::<Vec<f64>>();
    let phi: Vec<Vec<f64>> = (0..N).map(row).collect();
    let product = |i: usize, j: usize| phi[i].iter().zip(&phi[j]).map(|(a, b)| a * b).sum::<f64>();
    (0..N).map(|i| (0..N).map(|j| k[i][j] - product(i, j)).collect()).collect()
}

/// Only the time depends on the number of threads; a sample of all rows gives the same results.
#[test]
fn threads_change_the_time_only() {
    let rows: Vec<Vec<f64>> = clusters(700);
    let run = |threads: usize, sample: Option<usize>| {
        let options = CurveOptions {
            sample_rows: sample,
            ..options("kmeans,leverage,rpcholesky,orthogonal", 2, Scaling::Standard)
        };
        let mut cells = cells(&rows, &options, threads).0;
        cells.iter_mut().for_each(|cell| (cell.seconds, cell.planned_bytes) = (0.0, 0));
        cells
    };
    let one = run(1, None);
    assert_eq!(one.len(), 16);
    assert_eq!(one, run(3, None));
    assert_eq!(one, run(2, Some(700)), "a sample of all rows is the table");
    // a sample of fewer rows has another matrix and is read from memory
    let part = run(2, Some(400));
    assert!(part.iter().all(|cell| cell.bytes_read == 0 && cell.passes > 0), "{part:?}");
    assert!(one.iter().zip(&part).all(|(all, part)| all.frobenius.value != part.frobenius.value));
    // another seed selects other landmarks
    let other = |repeat: u64| one.iter().filter(move |cell| cell.repeat == repeat);
    assert!(other(0).zip(other(1)).all(|(a, b)| a.rank == b.rank && a.frobenius.value != b.frobenius.value));
}
