//! Two-sample and dependence statistics: compared with loops over pairs of rows
//! (`scripts/golden.py statistics`), under the null hypothesis, and bit-identical in every way.

use crate::solvers::{close, rows};
use kapprox::Kernel;
use kfit::features::{FeatureTier, FitData, SectionPoints};
use kfit::request::{PassShape, Resources, TrainOptions};
use kmill_tests::table::write;
use kmodel::Targets;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver, Scaling};
use ksolve::statistic::{TestInput, TestOutcome, TestStatistic, by_name, herd, measure};
use kstore::scratch::ScratchFolder;
use kstore::{SelectedTable, Selection, Table, Workers};
use serde_json::Value;
use std::path::Path;

fn golden(section: &str) -> (String, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/statistics.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    (json["kernel"].as_str().unwrap().to_string(), json[section].clone())
}

pub(crate) fn options(kernel: &Kernel, other: &Kernel, rank: usize, permutations: usize) -> (TrainOptions, usize) {
    let options = TrainOptions {
        scaling: Scaling::None,
        second_kernel: Some(other.clone()),
        landmarks: LandmarkSource::Scheme("uniform".to_string()),
        candidates: Some(50_000),
        ..TrainOptions::new(Task::Components, kernel.clone(), rank)
    };
    (options, permutations)
}

/// Resources of a run.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) threads: usize,
    pub(crate) memory: usize,
    pub(crate) scratch: Option<&'a Path>,
}

pub(crate) const USUAL: Machine<'_> = Machine { threads: 1, memory: 1 << 30, scratch: None };

pub(crate) fn on<T: kapprox::Real>(
    machine: Machine<'_>,
    name: &str,
    rows: TestInput<'_>,
    options: &(TrainOptions, usize),
) -> TestOutcome {
    let workers = Workers::new(machine.threads);
    let scratch = machine.scratch.map(|folder| ScratchFolder::open(folder, 1 << 30).unwrap());
    let (memory, scratch) = (machine.memory, scratch.as_ref());
    let resources = Resources { memory, workers: &workers, stage_observer: &NoStageObserver, journal: None, scratch };
    measure::<T>(by_name(name).unwrap(), rows, &options.0, options.1, &resources).unwrap()
}

pub(crate) fn selected(path: &Path, features: &str, rows: std::ops::Range<u64>) -> SelectedTable {
    let table = Table::open(&[path]).unwrap();
    let features = features.split(',').map(str::to_string).collect();
    table.select(&Selection { features, rows: Some(rows), ..Selection::default() }).unwrap()
}

fn both(points: &[Vec<f64>], more: &[Vec<f64>]) -> Vec<Vec<f64>> {
    points.iter().chain(more).cloned().collect()
}

/// Writes a table of the points; y is 0.
pub(crate) fn table(folder: &Path, points: &[Vec<f64>]) -> std::path::PathBuf {
    let path = folder.join("points.parquet");
    write(&path, points, &vec![0.0; points.len()]);
    path
}

fn agrees(measured: &TestStatistic, case: &Value, tolerance: f64) {
    for (name, got) in [("biased", measured.biased), ("unbiased", measured.unbiased)] {
        let expected = case[name].as_f64().unwrap();
        assert!((got - expected).abs() < tolerance, "{name}: {got} against {expected}");
    }
}

#[test]
fn mean_discrepancy_is_that_of_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, case) = golden("mmd");
    let (a, b) = (rows(&case["a"]), rows(&case["b"]));
    let path = table(folder.path(), &both(&a, &b));
    let (m, n) = (a.len() as u64, (a.len() + b.len()) as u64);
    let (first, second) = (selected(&path, "x*", 0..m), selected(&path, "x*", m..n));
    let compared = TestInput::Samples(&first, &second);
    let kernel: Kernel = kernel.parse().unwrap();
    let all = options(&kernel, &kernel, n as usize, 99);
    let by_features = on::<f64>(USUAL, "mmd", compared, &all).statistic;
    agrees(&by_features, &case, 1e-10);
    close(by_features.p_values.spectrum.unwrap(), case["spectrum"].as_f64().unwrap(), 1e-8, "spectrum");
    close(by_features.p_values.gamma.unwrap(), case["gamma"].as_f64().unwrap(), 1e-8, "gamma");
    let exact = (TrainOptions { map: "exact".parse().unwrap(), ..all.0.clone() }, all.1);
    let by_kernel = on::<f64>(USUAL, "mmd", compared, &exact);
    agrees(&by_kernel.statistic, &case, 1e-12);
    assert!(by_kernel.ranks.is_empty() && by_kernel.statistic.p_values.spectrum.is_none());
    // the same random labels, by features and by kernel values
    for (features, kernel) in by_features.permuted.iter().zip(&by_kernel.statistic.permuted) {
        assert!((features - kernel).abs() < 1e-10, "{features} {kernel}");
    }
    assert_eq!(by_features.p_values.permutation, by_kernel.statistic.p_values.permutation);
    // f32 agrees up to the rounding of means
    let single = on::<f32>(USUAL, "mmd", compared, &all).statistic;
    agrees(&single, &case, 1e-6);
    let exact = on::<f32>(USUAL, "mmd", compared, &exact).statistic;
    agrees(&exact, &case, 1e-6);
    // the mean over all labels is the trace of the covariance; here over a thousand labels
    let many = on::<f64>(USUAL, "mmd", compared, &(all.0, 1000)).statistic;
    let mean = many.permuted.iter().sum::<f64>() / 1000.0;
    let k = kmill_tests::kernels::kernel(&kernel.to_string());
    let points = both(&a, &b);
    let total: f64 = points.iter().flat_map(|x| points.iter().map(|z| k(x, z)).collect::<Vec<_>>()).sum();
    let (m, n) = (m as f64, n as f64);
    let trace = (n - total / n) / (n - 1.0) * n / (m * (n - m));
    assert!((mean / trace - 1.0).abs() < 0.05, "{mean} {trace}");
}

#[test]
fn discrepancy_by_distances_is_half_the_energy_distance() {
    // in one dimension ∫ (F − G)² of the empirical distributions; scipy: √2 times the root
    let (first, second) = (normals(3, 70), normals(4, 90).iter().map(|v| 0.7 * v + 0.5).collect::<Vec<_>>());
    let mut sorted: Vec<f64> = first.iter().chain(&second).copied().collect();
    sorted.sort_by(f64::total_cmp);
    let below = |sample: &[f64], at: f64| sample.iter().filter(|v| **v <= at).count() as f64 / sample.len() as f64;
    let gaps = sorted.windows(2).map(|w| (w[1] - w[0]) * (below(&first, w[0]) - below(&second, w[0])).powi(2));
    let expected: f64 = gaps.sum();
    let folder = tempfile::tempdir().unwrap();
    let points: Vec<Vec<f64>> = first.iter().chain(&second).map(|v| vec![*v]).collect();
    let path = table(folder.path(), &points);
    let (a, b) = (selected(&path, "x0", 0..70), selected(&path, "x0", 70..160));
    let kernel: Kernel = "distance()".parse().unwrap();
    let all = options(&kernel, &kernel, 160, 0);
    let exact = (TrainOptions { map: "exact".parse().unwrap(), ..all.0.clone() }, all.1);
    for options in [all, exact] {
        let got = on::<f64>(USUAL, "mmd", TestInput::Samples(&a, &b), &options).statistic.biased;
        assert!((got / expected - 1.0).abs() < 1e-8, "{got} against {expected}");
    }
}

#[test]
fn the_independence_criterion_is_that_of_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, case) = golden("hsic");
    let (x, y) = (rows(&case["x"]), rows(&case["y"]));
    let points: Vec<Vec<f64>> = x.iter().zip(&y).map(|(x, y)| [&x[..], &y[..]].concat()).collect();
    let path = table(folder.path(), &points);
    let selected = selected(&path, "x*", 0..points.len() as u64);
    let of = |columns: &str| {
        let spec: Kernel = kernel.parse().unwrap();
        spec.on(columns).unwrap().resolve_columns(&selected.feature_names()).unwrap()
    };
    let all = options(&of("x0..x1"), &of("x2"), points.len(), 499);
    let found = on::<f64>(USUAL, "hsic", TestInput::Columns(&selected), &all).statistic;
    agrees(&found, &case, 1e-10);
    close(found.alignment.unwrap(), case["alignment"].as_f64().unwrap(), 1e-9, "alignment");
    close(found.p_values.spectrum.unwrap(), case["spectrum"].as_f64().unwrap(), 1e-8, "spectrum");
    close(found.p_values.gamma.unwrap(), case["gamma"].as_f64().unwrap(), 1e-8, "gamma");
    let single = on::<f32>(USUAL, "hsic", TestInput::Columns(&selected), &all).statistic;
    agrees(&single, &case, 1e-6);
    // mean over all permutations: tr(HKH) tr(HLH) / (n² (n − 1))
    let k = kmill_tests::kernels::kernel(&kernel);
    let n = points.len() as f64;
    let trace = |points: &[Vec<f64>]| {
        let total: f64 = points.iter().map(|x| points.iter().map(|z| k(x, z)).sum::<f64>()).sum();
        n - total / n
    };
    let expected = trace(&x) * trace(&y) / (n * n * (n - 1.0));
    let mean = found.permuted.iter().sum::<f64>() / found.permuted.len() as f64;
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} {expected}");
    // every p-value detects the dependence
    let p = found.p_values;
    assert!([p.permutation, p.spectrum, p.gamma].iter().all(|p| p.unwrap() < 0.02), "{p:?}");
}

/// Returns counter-based normal numbers.
pub(crate) fn normals(seed: u64, count: usize) -> Vec<f64> {
    let stream = kstore::key::Stream::new(seed, kstore::key::Purpose::Data, 0);
    let pair = |i: u64| {
        let radius = (-2.0 * stream.uniform(2 * i).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * stream.uniform(2 * i + 1)).cos()
    };
    (0..count as u64).map(pair).collect()
}

#[test]
fn the_same_bits_wherever_features_are_kept_and_however_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = normals(5, 3 * 30_000);
    let path = table(folder.path(), &numbers.chunks(3).map(<[f64]>::to_vec).collect::<Vec<_>>());
    let (first, second) = (selected(&path, "x*", 0..11_000), selected(&path, "x*", 11_000..30_000));
    let kernel: Kernel = "gaussian(sigma=median)".parse().unwrap();
    let mut options = options(&kernel, &kernel, 150, 20);
    options.0.candidates = Some(1000);
    let samples = TestInput::Samples(&first, &second);
    let usual = on::<f32>(USUAL, "mmd", samples, &options);
    let three = on::<f32>(Machine { threads: 3, ..USUAL }, "mmd", samples, &options);
    let small = Machine { memory: 56 << 20, ..USUAL };
    let recomputed = on::<f32>(small, "mmd", samples, &options);
    let scratch = on::<f32>(Machine { scratch: Some(folder.path()), ..small }, "mmd", samples, &options);
    assert_eq!((usual.passes + 2, usual.passes), (recomputed.passes, scratch.passes));
    for other in [&three, &recomputed, &scratch] {
        assert_eq!((&usual.statistic, &usual.kernels), (&other.statistic, &other.kernels));
        assert_eq!((&usual.column_tests, 3), (&other.column_tests, other.column_tests.len()));
    }
    let all = selected(&path, "x*", 0..30_000);
    let of = |columns: &str| kernel.clone().on(columns).unwrap().resolve_columns(&all.feature_names()).unwrap();
    let options = (TrainOptions { kernel: of("x0"), second_kernel: Some(of("x1..x2")), rank: 40, ..options.0 }, 5);
    let usual = on::<f32>(USUAL, "hsic", TestInput::Columns(&all), &options);
    let three = on::<f32>(Machine { threads: 3, ..USUAL }, "hsic", TestInput::Columns(&all), &options);
    let mut three = three;
    three.planned_bytes = usual.planned_bytes;
    assert_eq!(usual, three);
    assert_eq!(usual.statistic.permuted.len(), 5);
}

#[test]
fn samples_without_a_value_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = table(folder.path(), &normals(1, 20).chunks(1).map(<[f64]>::to_vec).collect::<Vec<_>>());
    let kernel: Kernel = "gaussian(sigma=1)".parse().unwrap();
    let options = options(&kernel, &kernel, 5, 10);
    let workers = Workers::sequential();
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let mmd = by_name("mmd").unwrap();
    for (m, n) in [(1, 20), (19, 20)] {
        let (first, second) = (selected(&path, "x*", 0..m), selected(&path, "x*", m..n));
        for map in ["nystrom", "exact"] {
            let options = TrainOptions { map: map.parse().unwrap(), ..options.0.clone() };
            let error = measure::<f64>(mmd, TestInput::Samples(&first, &second), &options, 10, &resources).unwrap_err();
            assert!(error.to_string().contains("at least 2 rows, and 1 is left"), "{error}");
        }
    }
    let few = selected(&path, "x*", 0..3);
    let error =
        measure::<f64>(by_name("hsic").unwrap(), TestInput::Columns(&few), &options.0, 10, &resources).unwrap_err();
    assert!(error.to_string().contains("at least 4 rows"), "{error}");
    let tight = Resources { memory: 33 << 20, ..resources };
    let (first, second) = (selected(&path, "x*", 0..9), selected(&path, "x*", 9..20));
    let error = measure::<f64>(mmd, TestInput::Samples(&first, &second), &options.0, 1_000_000, &tight).unwrap_err();
    assert!(error.to_string().contains("lower `permutations`"), "{error}");
}

/// Returns the fractions of p-values up to 5 %: by permutations, spectrum, gamma distribution.
fn rejections(trials: u64, measure: impl Fn(u64) -> TestStatistic) -> [f64; 3] {
    let mut rejected = [0.0; 3];
    for trial in 0..trials {
        let p = measure(trial).p_values;
        for (count, p) in rejected.iter_mut().zip([p.permutation, p.spectrum, p.gamma]) {
            *count += f64::from(u8::from(p.unwrap() <= 0.05));
        }
    }
    rejected.map(|count| count / trials as f64)
}

/// Returns the rejection rates of mmd with n rows per sample and a shifted second sample, and of
/// hsic with 2n rows whose second column contains `share` times the square of the first.
fn power(trials: u64, n: u64, shift: f64, share: f64) -> ([f64; 3], [f64; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let count = (2 * n * trials) as usize;
    let noise = normals(11, 2 * count);
    let points: Vec<Vec<f64>> = noise
        .chunks(2)
        .enumerate()
        .map(|(i, row)| {
            let moved = if (i as u64 / n) % 2 == 1 { shift } else { 0.0 };
            vec![row[0] + moved, row[1] + share * (row[0] * row[0] - 1.0), row[1]]
        })
        .collect();
    let path = table(folder.path(), &points);
    let kernel: Kernel = "gaussian(sigma=median)".parse().unwrap();
    let mmd = rejections(trials, |trial| {
        let from = 2 * n * trial;
        let (first, second) =
            (selected(&path, "x0,x2", from..from + n), selected(&path, "x0,x2", from + n..from + 2 * n));
        let options = (TrainOptions { seed: trial, ..options(&kernel, &kernel, 30, 99).0 }, 99);
        on::<f64>(USUAL, "mmd", TestInput::Samples(&first, &second), &options).statistic
    });
    let hsic = rejections(trials, |trial| {
        let all = selected(&path, "x0,x1", 2 * n * trial..2 * n * (trial + 1));
        let of = |column: &str| kernel.clone().on(column).unwrap().resolve_columns(&all.feature_names()).unwrap();
        let options = (TrainOptions { seed: trial, ..options(&of("x0"), &of("x1"), 20, 99).0 }, 99);
        on::<f64>(USUAL, "hsic", TestInput::Columns(&all), &options).statistic
    });
    (mmd, hsic)
}

#[test]
fn a_twentieth_of_all_tests_rejects_what_is_true() {
    let (mmd, hsic) = power(1000, 40, 0.0, 0.0);
    for rate in mmd.into_iter().chain(hsic) {
        assert!((rate - 0.05).abs() <= 0.015, "mmd {mmd:?}, hsic {hsic:?}");
    }
}

#[test]
fn power_grows_with_the_rows() {
    let rates: Vec<_> = [20, 60, 180].map(|n| power(60, n, 0.4, 0.3)).to_vec();
    for i in 0..3 {
        let (mmd, hsic): (Vec<f64>, Vec<f64>) = rates.iter().map(|(mmd, hsic)| (mmd[i], hsic[i])).unzip();
        assert!(mmd.windows(2).all(|w| w[0] < w[1]) && mmd[2] > 0.8, "{mmd:?}");
        assert!(hsic.windows(2).all(|w| w[0] < w[1]) && hsic[2] > 0.8, "{hsic:?}");
    }
}

/// Kernels of an aggregated test.
fn aggregated() -> [Kernel; 2] {
    ["gaussian(sigma=median)", "laplacian(sigma=median)"].map(|kernel| kernel.parse().unwrap())
}

#[test]
fn the_aggregated_test_is_that_of_its_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let (_, case) = golden("mmd");
    let (a, b) = (rows(&case["a"]), rows(&case["b"]));
    let path = table(folder.path(), &both(&a, &b));
    let (m, n) = (a.len() as u64, (a.len() + b.len()) as u64);
    let (first, second) = (selected(&path, "x*", 0..m), selected(&path, "x*", m..n));
    let kernels = aggregated();
    let together = on::<f64>(
        USUAL,
        "mmd",
        TestInput::Aggregated(&first, &second, &kernels),
        &options(&kernels[0], &kernels[0], 20, 99),
    );
    assert_eq!((together.kernels.len(), together.ranks.len()), (10, 10));
    // each kernel has a pass for its landmarks
    assert!(together.passes >= 12, "{}", together.passes);
    // each kernel alone, with the same random labels
    let alone: Vec<TestStatistic> = together
        .kernels
        .iter()
        .map(|kernel| {
            let kernel: Kernel = kernel.parse().unwrap();
            on::<f64>(USUAL, "mmd", TestInput::Samples(&first, &second), &options(&kernel, &kernel, 20, 99)).statistic
        })
        .collect();
    let alone_p: Vec<f64> = alone.iter().map(|statistic| statistic.p_values.permutation.unwrap()).collect();
    assert_eq!(together.statistic.kernel_p_values, alone_p);
    close(together.statistic.biased, alone.iter().map(|statistic| statistic.biased).sum(), 1e-12, "sum of the kernels");
    let values: Vec<Vec<f64>> = alone
        .iter()
        .map(|statistic| std::iter::once(statistic.biased).chain(statistic.permuted.iter().copied()).collect())
        .collect();
    let rank = |values: &[f64], j: usize| values.iter().filter(|value| **value >= values[j] * (1.0 - 1e-9)).count();
    let smallest = |j: usize| values.iter().map(|values| rank(values, j)).min().unwrap();
    let at_most = (0..100).filter(|j| smallest(*j) <= smallest(0)).count();
    assert_eq!(together.statistic.p_values.permutation, Some(at_most as f64 / 100.0));
    let many_threads = Machine { threads: 3, ..USUAL };
    let again = on::<f64>(
        many_threads,
        "mmd",
        TestInput::Aggregated(&first, &second, &kernels),
        &options(&kernels[0], &kernels[0], 20, 99),
    );
    assert_eq!(again.statistic, together.statistic);
}

/// Returns the p-values of tests with the median distance alone, and with aggregated kernels.
/// `value(noise, is_second)` is a value of a sample.
fn aggregated_p_values(trials: u64, n: u64, value: impl Fn(f64, bool) -> f64) -> (Vec<f64>, Vec<f64>) {
    let folder = tempfile::tempdir().unwrap();
    let mut random = kmill_tests::points::Lcg(5);
    let points: Vec<Vec<f64>> = (0..2 * n * trials).map(|i| vec![value(random.uniform(), (i / n) % 2 == 1)]).collect();
    let path = table(folder.path(), &points);
    let kernels = aggregated();
    (0..trials)
        .map(|trial| {
            let from = 2 * n * trial;
            let (first, second) =
                (selected(&path, "x*", from..from + n), selected(&path, "x*", from + n..from + 2 * n));
            let options = (TrainOptions { seed: trial, ..options(&kernels[0], &kernels[0], 20, 99).0 }, 99);
            let p = |input: TestInput<'_>| on::<f64>(USUAL, "mmd", input, &options).statistic.p_values.permutation;
            let [median, aggregated] =
                [TestInput::Samples(&first, &second), TestInput::Aggregated(&first, &second, &kernels)].map(p);
            (median.unwrap(), aggregated.unwrap())
        })
        .unzip()
}

#[test]
fn the_aggregated_test_has_its_level_and_finds_fine_differences() {
    let rate = |p: &[f64], level: f64| p.iter().filter(|p| **p <= level).count() as f64 / p.len() as f64;
    let (_, null) = aggregated_p_values(400, 20, |noise, _| noise);
    for (level, tolerance) in [(0.05, 0.035), (0.25, 0.07), (0.5, 0.08)] {
        let got = rate(&null, level);
        // ties of the smallest p-values can only lower the rate
        assert!(got <= level + tolerance && got >= level - tolerance - 0.02, "{got} at level {level}");
    }
    // the second sample lies in the middle of each fifth of the interval
    let comb = |noise: f64, is_second: bool| match is_second {
        true => (5.0 * noise).floor() / 5.0 + 0.05 + noise % 0.2 / 2.0,
        false => noise,
    };
    let (median, fine) = aggregated_p_values(40, 100, comb);
    let (shifted_median, shifted) =
        aggregated_p_values(40, 100, |noise, is_second| noise + if is_second { 0.13 } else { 0.0 });
    let rates = [median, fine, shifted_median, shifted].map(|p| rate(&p, 0.05));
    eprintln!("null {:.3}, median and aggregated on fine differences and a shift {rates:.3?}", rate(&null, 0.05));
    assert!(rates[0] < 0.3 && rates[1] > 0.7, "{rates:?}");
    assert!(rates[2] > 0.4 && rates[3] > rates[2] - 0.2, "{rates:?}");
}

#[test]
#[ignore = "a table for the reader: some minutes"]
fn table_of_levels_and_powers() {
    println!("rows of a sample | mmd: permutations, spectrum, gamma | hsic (twice the rows): the same");
    for (shift, share) in [(0.0, 0.0), (0.4, 0.3)] {
        for n in [20, 40, 80, 160] {
            let (mmd, hsic) = power(1000, n, shift, share);
            println!("shift {shift} share {share} | {n:4} | {mmd:.3?} | {hsic:.3?}");
        }
    }
}

/// Herds on dense kernel values: maximises the mean kernel with all rows minus that with the picks.
fn herded(k: &dyn Fn(&[f64], &[f64]) -> f64, points: &[Vec<f64>], count: usize) -> (Vec<usize>, Vec<f64>) {
    let n = points.len() as f64;
    let mean: Vec<f64> = points.iter().map(|x| points.iter().map(|z| k(x, z)).sum::<f64>() / n).collect();
    let total = mean.iter().sum::<f64>() / n;
    let (mut picks, mut distances) = (Vec::<usize>::new(), Vec::new());
    for t in 1..=count {
        let score = |i: usize| t as f64 * mean[i] - picks.iter().map(|s| k(&points[i], &points[*s])).sum::<f64>();
        let free = (0..points.len()).filter(|i| !picks.contains(i));
        picks.push(free.max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap());
        let own: f64 = picks.iter().map(|a| picks.iter().map(|b| k(&points[*a], &points[*b])).sum::<f64>()).sum();
        let cross: f64 = picks.iter().map(|a| mean[*a]).sum();
        let t = t as f64;
        distances.push(total - 2.0 * cross / t + own / (t * t));
    }
    (picks, distances)
}

#[test]
fn herding_picks_the_rows_of_the_dense_kernel() {
    let numbers = normals(21, 2 * 120);
    let rows: Vec<Vec<f64>> = numbers.chunks(2).map(<[f64]>::to_vec).collect();
    let points = kmill_tests::source::Points::<f64>::new(&rows);
    let spec = "gaussian(sigma=1)";
    let all = kmill_tests::fit::select(&points, &kapprox::landmark::Uniform, spec, 120, 0, kmill_tests::fit::WHOLE);
    let map = kapprox::NystromMap::new(&kmill_tests::fit::kernel(spec), all, &Workers::sequential()).unwrap();
    let picks = |threads: usize, keep: FeatureTier| {
        let workers = Workers::new(threads);
        let resources = Resources {
            memory: 1 << 30,
            workers: &workers,
            stage_observer: &NoStageObserver,
            journal: None,
            scratch: None,
        };
        let kernel = Kernel::parse(spec).unwrap();
        let features = FitData {
            source: &points,
            scaled_source: &points,
            kernel: &kernel,
            map: &map,
            second_feature_count: 0,
            targets: &Targets::Numeric { centre: Vec::new() },
            n: 120,
            weight_unit: 1.0,
            pass_shape: PassShape { tile_rows: 32, segment_rows: 64, scan_lanes: 1, gram_lanes: 1, prefetch_tiles: 1 },
            options: &TrainOptions::new(Task::Components, spec.parse().unwrap(), 120),
            resources: &resources,
            tier: keep,
            spare_bytes: 0,
            folds: &kmodel::Folds::None,
            points: SectionPoints::NoPoints,
        };
        herd(&features, 30).unwrap()
    };
    let found = picks(1, FeatureTier::Memory);
    let (expected, distances) = herded(&kmill_tests::kernels::kernel(spec), &rows, 30);
    assert_eq!(found.positions, expected);
    for (found, expected) in found.squared_distances.iter().zip(&distances) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert_eq!(found, picks(3, FeatureTier::Recomputed));
    // a random sample of thirty rows has squared distance tr C/30 on average
    assert!(found.squared_distances[29] < 0.002, "{:?}", found.squared_distances);
}
