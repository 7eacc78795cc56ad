//! Every landmark scheme compared with slow oracles and the properties its paper proves.

use kapprox::landmark::{
    Bless, Farahat, Greedy, KMeans, LandmarkRule, Leverage, NO_ROW, Predictive, Uniform, registry,
};
use kmill_tests::dense::trace_error;
use kmill_tests::fit::{WHOLE, certify, select};
use kmill_tests::kernels::kernel;
use kmill_tests::points::{Lcg, robspiral, smile};
use kmill_tests::source::Points;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn error(points: &Points<f64>, scheme: &dyn LandmarkRule<f64>, spec: &str, m: usize, seed: u64) -> f64 {
    certify(points, select(points, scheme, spec, m, seed, WHOLE), spec).0.trace_error
}

/// Returns the pivots of complete pivoting; ties go to the earlier row.
fn greedy_pivots(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64, m: usize) -> Vec<u64> {
    let n = rows.len();
    let mut residual: Vec<f64> = rows.iter().map(|x| k(x, x)).collect();
    let (mut columns, mut pivots) = (Vec::<Vec<f64>>::new(), Vec::new());
    for _ in 0..m {
        let p = (0..n).fold(0, |best, i| if residual[i] > residual[best] { i } else { best });
        let earlier = |i: usize| columns.iter().map(|c| c[i] * c[p]).sum::<f64>();
        let column: Vec<f64> = (0..n).map(|i| (k(&rows[i], &rows[p]) - earlier(i)) / residual[p].sqrt()).collect();
        residual.iter_mut().zip(&column).for_each(|(r, c)| *r -= c * c);
        residual[p] = 0.0;
        columns.push(column);
        pivots.push(p as u64);
    }
    pivots
}

#[test]
fn greedy_takes_the_pivots_of_complete_pivoting() {
    let mut random = Lcg(5);
    let rows = random.normals(700, 3);
    for spec in ["gaussian(sigma=1.5)", "polynomial(gamma=1, c0=1, degree=3)", "laplacian(sigma=2)"] {
        let expected = greedy_pivots(&rows, &kernel(spec), 18);
        let found = select(&Points::<f64>::new(&rows), &Greedy::default(), spec, 18, 0, (100, 300, 2));
        assert_eq!(found.row_numbers, expected, "{spec}");
    }
}

#[test]
fn greedy_stops_at_its_tolerance() {
    let points = Points::<f64>::new(&smile(1_000, &mut Lcg(1)));
    let spec = "gaussian(sigma=2)";
    let set = select(&points, &Greedy { tolerance: 1e-3 }, spec, 500, 0, WHOLE);
    let (certificate, rank) = certify(&points, set.clone(), spec);
    assert!(rank < 200 && certificate.trace_error <= 1e-3, "{rank} {certificate:?}");
    let shorter: Vec<usize> = (0..rank / 2).collect();
    assert!(certify(&points, set.subset(&shorter), spec).0.trace_error > 1e-3);
}

/// Selects by the exact criterion, all dense; returns the pivots and ‖K − K̂‖_F / ‖K‖_F.
fn farahat_pivots(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64, m: usize) -> (Vec<usize>, f64) {
    let n = rows.len();
    let mut e: Vec<Vec<f64>> = rows.iter().map(|x| rows.iter().map(|z| k(x, z)).collect()).collect();
    let norm = |e: &[Vec<f64>]| e.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
    let whole = norm(&e);
    let mut pivots = Vec::new();
    for _ in 0..m {
        let score = |i: usize| if e[i][i] > 1e-12 { e[i].iter().map(|v| v * v).sum::<f64>() / e[i][i] } else { 0.0 };
        let p = (0..n).fold(0, |best, i| if score(i) > score(best) { i } else { best });
        let (column, root) = (e[p].clone(), e[p][p].sqrt());
        for i in 0..n {
            for j in 0..n {
                e[i][j] -= column[i] * column[j] / (root * root);
            }
        }
        pivots.push(p);
    }
    (pivots, norm(&e) / whole)
}

fn frobenius(rows: &[Vec<f64>], landmarks: &[u64], k: &dyn Fn(&[f64], &[f64]) -> f64) -> f64 {
    let n = rows.len();
    let mut e: Vec<Vec<f64>> = rows.iter().map(|x| rows.iter().map(|z| k(x, z)).collect()).collect();
    let norm = |e: &[Vec<f64>]| e.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
    let whole = norm(&e);
    for p in landmarks {
        let (column, pivot) = (e[*p as usize].clone(), e[*p as usize][*p as usize]);
        if pivot > 1e-12 {
            for i in 0..n {
                for j in 0..n {
                    e[i][j] -= column[i] * column[j] / pivot;
                }
            }
        }
    }
    norm(&e) / whole
}

#[test]
fn farahat_comes_near_the_selection_by_the_exact_criterion() {
    // clusters of very unequal size, where outliers mislead pivoting by the diagonal
    let mut random = Lcg(8);
    let mut rows = random.normals(300, 4);
    for (i, row) in rows.iter_mut().enumerate() {
        row.iter_mut().for_each(|v| *v = *v * 0.4 + if i % 10 == 0 { 6.0 * (i / 10) as f64 } else { (i % 3) as f64 });
    }
    let spec = "gaussian(sigma=1.5)";
    let k = kernel(spec);
    let points = Points::<f64>::new(&rows);
    let (_, exact) = farahat_pivots(&rows, &k, 20);
    let ours: Vec<f64> = (0..5)
        .map(|seed| frobenius(&rows, &select(&points, &Farahat, spec, 20, seed, (64, 128, 2)).row_numbers, &k))
        .collect();
    let greedy = frobenius(&rows, &select(&points, &Greedy::default(), spec, 20, 0, WHOLE).row_numbers, &k);
    eprintln!("exact {exact:.4}, sketched {ours:?}, greedy {greedy:.4}");
    assert!(median(ours.clone()) < 1.15 * exact, "{ours:?} against {exact}");
    assert!(ours.iter().all(|error| *error < greedy), "{ours:?} against greedy's {greedy}");
}

#[test]
fn kmeans_finds_clusters_and_their_means() {
    let mut random = Lcg(2);
    let mut rows = random.normals(600, 3);
    let centres = [[0.0, 0.0, 100.0], [50.0, 0.0, 100.0], [0.0, 70.0, 100.0], [90.0, 90.0, 100.0]];
    for (i, row) in rows.iter_mut().enumerate() {
        let centre = centres[if i < 300 { 0 } else { 1 + i % 3 }];
        row.iter_mut().zip(centre).for_each(|(v, c)| *v += c);
    }
    let points = Points::<f32>::new(&rows);
    let set = select(&points, &KMeans, "gaussian(sigma=1)", 4, 3, (97, 200, 2));
    assert_eq!((set.len(), set.row_numbers.iter().all(|row| *row == NO_ROW)), (4, true));
    for (cluster, centre) in centres.iter().enumerate() {
        let members: Vec<&Vec<f64>> = rows
            .iter()
            .enumerate()
            .filter(|(i, _)| (if *i < 300 { 0 } else { 1 + i % 3 }) == cluster)
            .map(|(_, r)| r)
            .collect();
        let mean: Vec<f64> = (0..3).map(|c| members.iter().map(|r| r[c]).sum::<f64>() / members.len() as f64).collect();
        let near = (0..4).any(|j| (0..3).all(|c| (f64::from(set.points[j * 3 + c]) - mean[c]).abs() < 1e-4));
        assert!(near, "no centroid at {centre:?}");
    }
    // the largest cluster comes first
    assert!(f64::from(set.points[0]).abs() < 1.0 && f64::from(set.points[1]).abs() < 1.0);
}

#[test]
fn kmeans_never_gives_more_centroids_than_distinct_rows() {
    let rows: Vec<Vec<f64>> = (0..60).map(|i| vec![f64::from(i % 3), 1.0]).collect();
    let set = select(&Points::<f64>::new(&rows), &KMeans, "gaussian(sigma=1)", 10, 0, WHOLE);
    let mut points: Vec<f64> = set.points.chunks(2).map(|p| p[0]).collect();
    points.sort_by(f64::total_cmp);
    assert_eq!(points, [0.0, 1.0, 2.0]);
}

/// Weighted schemes find small distant clusters, which uniform sampling misses.
#[test]
fn informed_schemes_beat_uniform_on_unequal_clusters() {
    let mut random = Lcg(3);
    let mut rows = random.normals(3_000, 2);
    for (i, row) in rows.iter_mut().enumerate() {
        // one row in 75 belongs to one of ten clusters of four
        let far = i % 75 == 0;
        let centre = if far { 20.0 * (1 + i / 75 % 10) as f64 } else { 0.0 };
        row.iter_mut().for_each(|v| *v = *v * 0.1 + centre);
    }
    let points = Points::<f64>::new(&rows);
    let spec = "gaussian(sigma=1)";
    let at =
        |scheme: &dyn LandmarkRule<f64>| median((0..9).map(|seed| error(&points, scheme, spec, 60, seed)).collect());
    let uniform = at(&Uniform);
    let schemes: [(&str, &dyn LandmarkRule<f64>); 4] =
        [("leverage", &Leverage), ("bless", &Bless), ("greedy", &Greedy { tolerance: 0.0 }), ("farahat", &Farahat)];
    for (name, scheme) in schemes {
        let error = at(scheme);
        eprintln!("{name} {error:.3e}, uniform {uniform:.3e}");
        assert!(error < uniform / 20.0, "{name}: {error:e} against {uniform:e}");
    }
}

#[test]
fn predictive_landmarks_explain_the_targets_sooner() {
    // the targets vary in a corner that contributes little to the kernel matrix
    let mut random = Lcg(4);
    let rows = random.normals(400, 2);
    let y: Vec<f64> = rows.iter().map(|x| (5.0 * x[0]).sin() * (-((x[1] - 1.5).powi(2) * 6.0)).exp()).collect();
    let spec = "gaussian(sigma=0.3)";
    let flat = rows.iter().flatten().copied().collect::<Vec<f64>>();
    let source = kstore::MemoryRows::new(flat, 2).unwrap().with_targets(y.clone(), 1).unwrap();
    let explained = |weight: f64| {
        let workers = kstore::Workers::new(2);
        let observer = &kstore::pass::NoObserver;
        let pass = kstore::Pass {
            tile_rows: 64,
            segment_rows: 128,
            lane_count: 2,
            prefetch_tiles: 1,
            workers: &workers,
            observer,
            journal: None,
        };
        let data = kapprox::landmark::TableScan { source: &source, pass, row_count: 400 };
        let set = Predictive { target_weight: weight }.select(&data, &kmill_tests::fit::kernel(spec), 40, 0).unwrap();
        assert_eq!(set.len(), 40);
        share_explained(&rows, &y, &set.row_numbers, &kernel(spec))
    };
    let exact = share_explained(&rows, &y, &predictive_pivots(&rows, &y, &kernel(spec), 40, 0.9), &kernel(spec));
    let (blind, aware) = (explained(0.0), explained(0.9));
    eprintln!("explained without targets {blind:.3}, with {aware:.3}, by the exact criterion {exact:.3}");
    assert!(aware > blind + 0.1 && aware > 0.9 * exact, "{aware} against {blind} and {exact}");
}

/// If the look-ahead covers every row, gains and selection are exact, within and across blocks.
#[test]
fn predictive_landmarks_are_those_of_the_exact_criterion_where_the_look_ahead_is_complete() {
    let mut random = Lcg(14);
    let rows = random.normals(48, 2);
    // a large mean, since gains are computed from centred targets
    let y: Vec<f64> = rows.iter().map(|x| 20.0 + (2.0 * x[0]).sin() + x[1] * x[1] + 0.2 * random.normal()).collect();
    let source = kstore::MemoryRows::new(rows.iter().flatten().copied().collect::<Vec<f64>>(), 2).unwrap();
    let source = source.with_targets(y.clone(), 1).unwrap();
    let workers = kstore::Workers::new(2);
    let data =
        kapprox::landmark::TableScan { source: &source, pass: kstore::Pass::new(16, 32, &workers), row_count: 48 };
    let spec = "laplacian(sigma=1)";
    for weight in [0.0, 0.5, 1.0] {
        let set = Predictive { target_weight: weight }.select(&data, &kmill_tests::fit::kernel(spec), 36, 0).unwrap();
        assert_eq!(set.row_numbers, predictive_pivots(&rows, &y, &kernel(spec), 36, weight), "weight {weight}");
    }
}

/// Selects greedily by the exact gains, with every column of E formed.
fn predictive_pivots(
    rows: &[Vec<f64>],
    y: &[f64],
    k: &dyn Fn(&[f64], &[f64]) -> f64,
    m: usize,
    weight: f64,
) -> Vec<u64> {
    let n = rows.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut e: Vec<Vec<f64>> = rows.iter().map(|x| rows.iter().map(|z| k(x, z)).collect()).collect();
    let trace: f64 = (0..n).map(|i| e[i][i]).sum();
    let mean = y.iter().sum::<f64>() / n as f64;
    let mut left: Vec<f64> = y.iter().map(|v| v - mean).collect();
    let norm = dot(&left, &left);
    let (mut basis, mut pivots) = (Vec::<Vec<f64>>::new(), Vec::new());
    for _ in 0..m {
        let new = |i: usize| {
            let mut q = e[i].clone();
            basis.iter().for_each(|b| {
                let part = dot(b, &q);
                q.iter_mut().zip(b).for_each(|(q, b)| *q -= part * b);
            });
            q
        };
        let gain = |i: usize| {
            let (q, whole) = (new(i), dot(&e[i], &e[i]));
            let length = dot(&q, &q);
            let targets = if length > 1e-10 * whole { dot(&q, &left).powi(2) / length } else { 0.0 };
            (1.0 - weight) * whole / e[i][i] / trace + weight * targets / norm
        };
        let open = (0..n).filter(|i| e[*i][*i] > 1e-10);
        let p = open.max_by(|a, b| gain(*a).total_cmp(&gain(*b))).unwrap();
        let mut q = new(p);
        let length = dot(&q, &q).sqrt();
        q.iter_mut().for_each(|v| *v /= length);
        let part = dot(&q, &left);
        left.iter_mut().zip(&q).for_each(|(l, q)| *l -= part * q);
        basis.push(q);
        let (column, pivot) = (e[p].clone(), e[p][p]);
        for (i, row) in e.iter_mut().enumerate() {
            row.iter_mut().zip(&column).for_each(|(v, c)| *v -= column[i] * c / pivot);
        }
        pivots.push(p as u64);
    }
    pivots
}

/// Computes ‖P y‖²/‖y‖², y centred, P on the columns of K at the landmarks, by Gram–Schmidt.
fn share_explained(rows: &[Vec<f64>], y: &[f64], landmarks: &[u64], k: &dyn Fn(&[f64], &[f64]) -> f64) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let y: Vec<f64> = y.iter().map(|v| v - mean).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for p in landmarks {
        let mut q: Vec<f64> = rows.iter().map(|x| k(x, &rows[*p as usize])).collect();
        for _ in 0..3 {
            for b in &basis {
                let part = dot(b, &q);
                q.iter_mut().zip(b).for_each(|(q, b)| *q -= part * b);
            }
        }
        let length = dot(&q, &q).sqrt();
        if length > 1e-9 {
            q.iter_mut().for_each(|v| *v /= length);
            basis.push(q);
        }
    }
    basis.iter().map(|b| dot(b, &y).powi(2)).sum::<f64>() / dot(&y, &y)
}

/// Laws of the registry: the same landmarks for any partition of the rows, at most the requested
/// number, existing rows, no failure on duplicates, constants and few rows.
#[test]
fn every_scheme_obeys_the_laws() {
    let spiral = Points::<f32>::new(&robspiral(1_200)).with_sums();
    let mut few = Lcg(3).normals(8, 2);
    for i in 0..92 {
        few.push(few[i % 8].clone());
    }
    let few = Points::<f32>::new(&few).with_sums();
    // the targets are constant too
    let same = Points::<f32>::new(&vec![vec![1.0, 2.0]; 40]).with_sums();
    for scheme in registry() {
        let object = scheme.typed::<f32>();
        let run = |points: &Points<f32>, m, seed, cut| select(points, object, "gaussian(sigma=400)", m, seed, cut);
        let one = run(&spiral, 30, 1, (2048, 1 << 16, 1));
        assert!((20..=30).contains(&one.len()), "{}: {} landmarks", scheme.name, one.len());
        assert!(one.row_numbers.iter().all(|row| *row < 1_200 || *row == NO_ROW), "{}", scheme.name);
        for cut in [(300, 600, 2), (64, 128, 3)] {
            assert_eq!(one.row_numbers, run(&spiral, 30, 1, cut).row_numbers, "{}: {cut:?}", scheme.name);
        }
        // another seed selects other landmarks if the scheme is seeded
        let (points, other) = (&one.points, run(&spiral, 30, 2, WHOLE).points);
        assert_eq!(*points != other, scheme.depends_on_seed, "{}", scheme.name);
        let error = certify(&few, select(&few, object, "gaussian(sigma=1)", 50, 0, WHOLE), "gaussian(sigma=1)");
        assert!(error.1 <= 8 && error.0.trace_error < 1e-5, "{}: {error:?}", scheme.name);
        assert_eq!(certify(&same, run(&same, 10, 0, WHOLE), "gaussian(sigma=400)").1, 1, "{}", scheme.name);
    }
}

#[test]
fn the_certificate_of_greedy_landmarks_is_that_of_the_dense_matrix() {
    let rows = smile(500, &mut Lcg(9));
    let points = Points::<f64>::new(&rows);
    let spec = "gaussian(sigma=2)";
    let set = select(&points, &Greedy::default(), spec, 25, 0, WHOLE);
    let landmarks: Vec<Vec<f64>> = set.row_numbers.iter().map(|row| rows[*row as usize].clone()).collect();
    let expected = trace_error(&rows, &landmarks, &kernel(spec), 1e-14);
    let found = certify(&points, set, spec).0.trace_error;
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
}
