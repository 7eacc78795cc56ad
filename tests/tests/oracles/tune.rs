//! Successive halving finds a kernel as good as an exhaustive search on all rows, bit-identically.

use faer::Mat;
use kapprox::Kernel;
use kapprox::kernel::feature_space::{centred_alignment, ideal_kernel};
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kmill_tests::table::{exact, select, write};
use kmodel::grids;
use ksolve::Task;
use ksolve::job::NoStageObserver;
use ksolve::train::train;
use ksolve::tune::{KernelSearch, KernelSearchResult, Score, SearchJournal, TuneOptions};
use ksolve::{FoldSpec, Intercept};
use kstore::key::{Purpose, Stream};
use kstore::{SelectedTable, Workers};

/// Rows and target of a table.
struct Points {
    x: Vec<Vec<f64>>,
    y: Vec<f64>,
}

/// Writes 2,000 noisy rows of two features; the target has a sine of period `wave` in the first.
fn waves(folder: &std::path::Path, wave: f64, classes: bool) -> (SelectedTable, Points) {
    let stream = Stream::new(3, Purpose::Data, 0);
    let x: Vec<Vec<f64>> = (0..2000).map(|i| (0..2).map(|j| 4.0 * stream.uniform(3 * i + j) - 2.0).collect()).collect();
    let noise = |i: usize| 0.4 * (stream.uniform(3 * i as u64 + 2) - 0.5);
    let value = |(i, x): (usize, &Vec<f64>)| (x[0] * std::f64::consts::TAU / wave).sin() + 0.3 * x[1] + noise(i);
    let y: Vec<f64> = x.iter().enumerate().map(value).map(|y| if classes { y.round() } else { y }).collect();
    let path = folder.join("waves.parquet");
    write(&path, &x, &y);
    let selected = select(&path, if classes { Task::Classification } else { Task::Regression });
    (selected, Points { x, y })
}

fn options(task: Task, score: Score) -> TuneOptions {
    let train_options = TrainOptions {
        rank: 150,
        ranks: vec![75, 150],
        candidates: Some(2000),
        folds: if score == Score::Gcv { FoldSpec::None } else { FoldSpec::Random(4) },
        ..exact(task, "linear()", 60)
    };
    let kernels = vec!["gaussian(sigma=median)".parse().unwrap(), "linear()".parse().unwrap()];
    TuneOptions {
        train_options,
        may_use_blocks: false,
        samples_whole_groups: false,
        lambdas: grids::parse_regularisation("lambda", "1e-7..1e-3").unwrap(),
        intercept: Intercept::Free,
        kernels,
        rough_kernels: Vec::new(),
        kernel_sums: Vec::new(),
        member_count: 1,
        factors: grids::parse_factors("0.0625..4").unwrap(),
        score,
        measure: None,
        test_fold: None,
        max_sample_rows: 1600,
    }
}

fn tuned(selected: &SelectedTable, options: &TuneOptions, threads: usize) -> KernelSearchResult {
    let workers = Workers::new(threads);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let mut search = KernelSearch::<f64>::open(selected, options, &resources).unwrap();
    let runs = search.step_count();
    let (mut steps, mut memory) = (0, SearchJournal::open(None).unwrap());
    while search.upcoming().is_some() {
        search.step(&mut memory, &|_| false).unwrap();
        steps += 1;
    }
    assert_eq!(steps, runs);
    search.finish()
}

/// Returns the quantity that a score estimates, smaller is better: the cross-validated error at the
/// best cell on all rows, or minus the alignment of the dense kernel matrix of half of the rows.
fn badness(selected: &SelectedTable, options: &TuneOptions, kernel: &Kernel, points: &Points) -> f64 {
    if options.score == Score::Alignment {
        return -dense_alignment(kernel, points, options.train_options.task == Task::Classification);
    }
    let workers = Workers::sequential();
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let folds = FoldSpec::Random(4);
    let train_options = TrainOptions { kernel: kernel.clone(), folds, ..options.train_options.clone() };
    let ridge = Ridge { lambdas: options.lambdas.clone(), ..Ridge::default() };
    let trained = train::<f64>(selected, &train_options, &ridge, &resources).unwrap();
    trained.report.surface.iter().filter_map(|cell| cell.cv_mse).min_by(f64::total_cmp).unwrap()
}

fn dense_alignment(kernel: &Kernel, points: &Points, classes: bool) -> f64 {
    let k = kmill_tests::kernels::kernel(&kernel.to_string());
    let n = points.x.len() / 2;
    let (x, y) = (&points.x[..n], &points.y[..n]);
    let gram = Mat::from_fn(n, n, |i, j| k(&x[i], &x[j]));
    let target = if classes { ideal_kernel(y) } else { Mat::from_fn(n, n, |i, j| y[i] * y[j]) };
    centred_alignment(gram.as_ref(), target.as_ref())
}

#[test]
fn the_kernel_that_is_found_is_as_good_as_the_best_of_all() {
    let folder = tempfile::tempdir().unwrap();
    for (wave, task) in [(0.8, Task::Regression), (6.0, Task::Regression), (4.0, Task::Classification)] {
        let (selected, points) = waves(folder.path(), wave, task == Task::Classification);
        for score in [Score::Cv, Score::Gcv, Score::Alignment] {
            let options = options(task, score);
            let found = tuned(&selected, &options, 1);
            let threaded = tuned(&selected, &options, 3);
            assert!((&found.kernel, &found.rungs) == (&threaded.kernel, &threaded.rungs), "threads change the search");
            // eight kernels, then four, two, one
            assert_eq!(found.rungs.iter().map(|rung| rung.entries.len()).collect::<Vec<_>>(), [8, 4, 2]);
            let last = found.rungs[2].rows;
            assert_eq!([0, 1, 2].map(|at| found.rungs[at].rows), [500.max(last / 4), last / 2, last]);
            // comparing errors holds out one fold of four
            assert!(if score == Score::Cv { (1100..1300).contains(&last) } else { last == 1600 }, "{last} rows");
            let kept = |at: usize| found.rungs[at].entries.iter().filter(|entry| entry.kept).count();
            assert_eq!([0, 1, 2].map(kept), [4, 2, 1]);
            let tried = found.rungs[0].entries.iter().map(|entry| entry.kernel.parse().unwrap());
            let every: Vec<f64> = tried.map(|kernel| badness(&selected, &options, &kernel, &points)).collect();
            let best = every.iter().copied().fold(f64::INFINITY, f64::min);
            let got = badness(&selected, &options, &found.kernel, &points);
            let slack = 0.05 * best.abs();
            assert!(got <= best + slack, "{score} at wave {wave}: {} has {got}, best {best}: {every:?}", found.kernel);
        }
    }
}

#[test]
fn one_kernel_needs_no_search() {
    let folder = tempfile::tempdir().unwrap();
    let (selected, _) = waves(folder.path(), 1.0, false);
    let options = TuneOptions { factors: vec![1.0], ..options(Task::Regression, Score::Cv) };
    let options = TuneOptions { kernels: options.kernels[..1].to_vec(), ..options };
    let found = tuned(&selected, &options, 1);
    assert!(found.rungs.is_empty() && found.kernel.to_string().starts_with("gaussian(sigma=2."), "{}", found.kernel);
}
