//! Training stopped again and again: for every pass, the bits of an uninterrupted run.
use kapprox::Kernel;
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kfit::solver::{Options, by_name};
use ksolve::FoldSpec;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver, StageObserver};
use ksolve::train::{TrainedModel, train};
use kstore::checkpoint::{Journal, Listener, Manifest, ResumeMode};
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use kstore::{OutputColumn, OutputKind, OutputValues, SelectedTable, Selection, Table, Workers};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Five segments of 16 tiles of 2,304 rows.
const ROWS: u64 = 160_000;

fn selected(folder: &Path, class_target: bool) -> SelectedTable {
    let path = folder.join("rows.parquet");
    let column = |j: u64| (0..ROWS).map(|row| Stream::new(3, Purpose::Data, j).uniform(row)).collect::<Vec<f64>>();
    let (a, b) = (column(0), column(1));
    let y: Vec<i64> = a.iter().zip(&b).map(|(a, b)| i64::from((5.0 * a).sin() > *b) + i64::from(*b > 0.8)).collect();
    let heads = [("a", OutputKind::F64), ("b", OutputKind::F64), ("y", OutputKind::I64)];
    let mut out = kstore::sink::create(&path, &heads.map(|(name, kind)| OutputColumn::new(name, kind))).unwrap();
    out.write(&[OutputValues::F64(&a), OutputValues::F64(&b), OutputValues::I64(&y)]).unwrap();
    out.finish().unwrap();
    let selection = Selection { targets: vec!["y".to_string()], class_target, ..Selection::default() };
    Table::open(&[path]).unwrap().select(&selection).unwrap()
}

fn options(task: Task, landmarks: &str) -> TrainOptions {
    TrainOptions {
        landmarks: LandmarkSource::Scheme(landmarks.to_string()),
        ranks: vec![6, 12],
        folds: FoldSpec::Random(3),
        seed: 5,
        ..TrainOptions::new(task, Kernel::parse("gaussian(sigma=median)").unwrap(), 12)
    }
}

fn ridge() -> Ridge {
    Ridge { lambdas: vec![1e-6, 1e-4], ..Ridge::default() }
}

/// Requests a stop after this many stop checks, one per tile.
struct Impatient {
    tiles: u64,
    asked: AtomicU64,
}

struct Watch<'a>(&'a Impatient);

impl StageObserver for Impatient {
    fn start_stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(Watch(self))
    }
    fn warn(&self, text: String) {
        // regression uses the class codes of the table as its target
        assert!(text.contains("is treated as numeric"), "{text}");
    }
}

impl Observer for Watch<'_> {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0.asked.fetch_add(1, Ordering::Relaxed) >= self.0.tiles
    }
}

/// Records the passes found in the checkpoint.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
    fn warn(&self, text: String) {
        // regression uses the class codes of the table as its target
        assert!(text.contains("is treated as numeric"), "{text}");
    }
}

/// Returns every number of the result.
fn bits<T: kapprox::Real>(trained: &TrainedModel<T>) -> Vec<u64> {
    let (points, rows) = trained.model.basis.landmarks().unwrap();
    let mut bits = rows.to_vec();
    bits.extend(points.iter().map(|v| kstore::Float::to_f64(*v).to_bits()));
    let (rows, columns) = (trained.model.coefficients.nrows(), trained.model.coefficients.ncols());
    bits.extend(
        (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|at| trained.model.coefficients[at].to_bits()),
    );
    bits.extend(trained.model.intercept.iter().map(|v| v.to_bits()));
    let cells = trained.report.surface.iter().flat_map(|cell| [cell.cv_mse, cell.cv_error]);
    bits.extend(cells.map(|v| v.map_or(0, f64::to_bits)));
    let certificate = trained.report.certificate.unwrap();
    bits.extend([certificate.trace_error, certificate.overshoot, certificate.floor].map(f64::to_bits));
    bits.extend([
        trained.report.rows,
        trained.report.passes,
        trained.report.rank as u64,
        trained.report.lambda.unwrap().to_bits(),
        trained.report.landmarks.as_ref().unwrap().candidates,
    ]);
    bits
}

fn run<T: kapprox::Real>(task: Task, landmarks: &str, passes: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let selected = selected(folder.path(), task == Task::Classification);
    let options = options(task, landmarks);
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let whole = train::<T>(&selected, &options, &ridge(), &resources).unwrap();
    let manifest = Manifest {
        version: String::new(),
        instruction_set: String::new(),
        options: Default::default(),
        files: selected.table().identities(),
    };
    let heard = Heard::default();
    for stops in 0u64.. {
        assert!(stops < 200, "no progress: {:?}", heard.0.lock().unwrap().last());
        let path = folder.path().join("checkpoint");
        let journal = Journal::open(
            path,
            &manifest,
            Duration::ZERO,
            if stops > 0 { ResumeMode::Required } else { ResumeMode::Never },
            &heard,
        )
        .unwrap();
        // a segment asks once per tile (16) and once more; each lane may be in the middle of one
        let threads = 1 + stops % 3;
        let stages = Impatient { tiles: 18 * threads, asked: AtomicU64::new(0) };
        let workers = Workers::new(threads as usize);
        let memory = [1 << 30, 256 << 20][stops as usize % 2];
        let resources =
            Resources { memory, workers: &workers, stage_observer: &stages, journal: Some(&journal), scratch: None };
        match train::<T>(&selected, &options, &ridge(), &resources) {
            Err(error) => assert!(error.to_string().contains("interrupted"), "{error}"),
            Ok(trained) => {
                assert_eq!(bits(&trained), bits(&whole));
                assert!(stops as usize >= passes.len(), "stopped {stops} times only");
                break;
            }
        }
    }
    let heard = heard.0.into_inner().unwrap();
    for (i, pass) in passes.iter().enumerate() {
        // the run that completes the last pass ends the fit, so no later run finds that pass whole
        let states = if i + 1 < passes.len() { &[", incomplete", ", complete"][..] } else { &[", incomplete"] };
        for state in states {
            let found = heard.iter().any(|text| text.starts_with(pass) && text.ends_with(state));
            assert!(found, "{pass} was never {state}: {heard:?}");
        }
    }
}

#[test]
fn a_classification_with_landmarks_among_all_rows() {
    let landmarks = ["scaling statistics", "uniform sample", "residuals of 0", "residuals of"];
    let passes = [&landmarks[..], &["Gram matrix", "held-out classes"]].concat();
    run::<f32>(Task::Classification, "rpcholesky", &passes);
}

#[test]
fn a_regression_in_f64() {
    run::<f64>(Task::Regression, "uniform", &["scaling statistics", "uniform sample", "Gram matrix"]);
}

/// Requests a stop after this many stop checks in the iterative stages.
struct Restless {
    looks: u64,
    asked: AtomicU64,
}

struct Look<'a>(Option<&'a Restless>);

impl StageObserver for Restless {
    fn start_stage<'a>(&'a self, name: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        let iterative = ["newton", "fits without a fold", "clusters", "sweep", "farthest row", "gradients"];
        let iterates = iterative.iter().any(|stage| name.starts_with(stage));
        Box::new(Look(iterates.then_some(self)))
    }
    fn warn(&self, text: String) {
        // regression uses the class codes of the table as its target
        assert!(text.contains("is treated as numeric"), "{text}");
    }
}

impl Observer for Look<'_> {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0.is_some_and(|restless| restless.asked.fetch_add(1, Ordering::Relaxed) >= restless.looks)
    }
}

/// Stops a solver that rereads features after `looks` checks (a pass has 70), at least `least`
/// times.
fn iterates(name: &str, solver: &Options, looks: u64, least: u64) {
    let family = by_name(name).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let selected = selected(folder.path(), family.task == Task::Classification);
    let folds = if solver.get("folds").is_none() { FoldSpec::None } else { FoldSpec::Random(2) };
    let options = TrainOptions { ranks: vec![12], folds, ..options(family.task, "uniform") };
    let options = TrainOptions { candidates: Some(1000), ..options };
    let solver = family.build_solver(&family.settings(solver).unwrap()).unwrap();
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let whole = train::<f64>(&selected, &options, &*solver, &resources).unwrap();
    let manifest = Manifest {
        version: String::new(),
        instruction_set: String::new(),
        options: Default::default(),
        files: selected.table().identities(),
    };
    let heard = Heard::default();
    for stops in 0u64.. {
        assert!(stops < 100, "{name}: no progress: {:?}", heard.0.lock().unwrap().last());
        let path = folder.path().join("checkpoint");
        let journal = Journal::open(
            path,
            &manifest,
            Duration::ZERO,
            if stops > 0 { ResumeMode::Required } else { ResumeMode::Never },
            &heard,
        )
        .unwrap();
        let stages = Restless { looks, asked: AtomicU64::new(0) };
        let workers = Workers::new(1 + stops as usize % 3);
        let resources = Resources {
            memory: 1 << 30,
            workers: &workers,
            stage_observer: &stages,
            journal: Some(&journal),
            scratch: None,
        };
        match train::<f64>(&selected, &options, &*solver, &resources) {
            Err(error) => assert!(error.to_string().contains("interrupted"), "{error}"),
            Ok(trained) => {
                assert!(stops >= least, "{name}: stopped {stops} times only");
                assert_eq!(trained.model.coefficients, whole.model.coefficients, "{name}");
                assert_eq!(
                    (trained.model.intercept, trained.report.passes),
                    (whole.model.intercept, whole.report.passes),
                    "{name}"
                );
                assert_eq!(trained.report.figures, whole.report.figures, "{name}");
                return;
            }
        }
    }
}

#[test]
fn machines_go_on_at_their_last_step() {
    let options = Options::new().set("C", 1.0).set("gap", 1e-7);
    iterates("svm", &options, 600, 2);
    iterates("svm", &options.clone().set("multiclass", "one-vs-one"), 1500, 2);
    iterates("svm", &options.clone().set("C", "0.01,1").set("folds", 2), 1500, 4);
    iterates("svm", &options.set("loss", "squared-hinge"), 600, 1);
}

#[test]
fn logistic_regression_clusters_components_sweeps_and_gradients_go_on_at_their_last_step() {
    iterates("logistic", &Options::new().set("lambda", 1e-6), 4000, 1);
    iterates("kmeans", &Options::new().set("clusters", 5), 250, 1);
    iterates("kpca-l1", &Options::new().set("components", 12), 250, 1);
    iterates("ranking", &Options::new().set("lambda", 1e-6), 4000, 1);
    iterates("perceptron", &Options::new().set("steps", 12), 250, 1);
    iterates("online", &Options::new().set("passes", 12), 250, 1);
    iterates("online", &Options::new().set("passes", 12).set("rule", "lms"), 250, 1);
    iterates("kdr", &Options::new().set("components", 2), 30, 1);
    iterates("spectral", &Options::new().set("clusters", 3), 250, 1);
}
