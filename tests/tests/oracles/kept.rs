//! Features stored in memory, in scratch, or recomputed: the same bits for any budget and threads.

use kfit::request::{Resources, TrainOptions};
use kfit::solver::{AnySolver, Options, by_name};
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, select, write};
use ksolve::Task;
use ksolve::job::StageObserver;
use ksolve::train::{TrainedModel, forecast, train};
use kstore::pass::{NoObserver, Observer};
use kstore::scratch::ScratchFolder;
use kstore::{SelectedTable, Workers};
use std::sync::Mutex;

/// Records the names of the stages and the warnings.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl StageObserver for Heard {
    fn start_stage<'a>(&'a self, name: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        self.0.lock().unwrap().push(name.to_string());
        Box::new(NoObserver)
    }
    fn warn(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

/// Builds a solver by name; `svm pairs` is the one-vs-one SVM.
fn solver(name: &str) -> Box<dyn AnySolver> {
    let (name, pairs) = name.split_once(' ').map_or((name, false), |(name, _)| (name, true));
    let family = by_name(name).unwrap();
    let reads = |parameter: &str| family.parameters.iter().any(|known| known.name == parameter);
    let given = [
        ("lambda", "1e-4"),
        ("nu", "0.2"),
        ("clusters", "8"),
        ("starts", "2"),
        ("components", "3"),
        ("multiclass", "one-vs-one"),
    ];
    let given = given.into_iter().filter(|(name, _)| reads(name) && (pairs || *name != "multiclass"));
    let options = given.fold(Options::new(), |options, (name, value)| options.set(name, value));
    family.build_solver(&family.settings(&options).unwrap()).unwrap()
}

/// Returns the smallest budget, in steps of 1 MiB, that holds all but the features of all rows.
fn tight<T: kapprox::Real>(selected: &SelectedTable, options: &TrainOptions, name: &str, threads: usize) -> usize {
    let (workers, heard) = (Workers::new(threads), Heard::default());
    let solver = solver(name);
    let fits = |memory: &usize| {
        let resources =
            Resources { memory: *memory, workers: &workers, stage_observer: &heard, journal: None, scratch: None };
        forecast(selected, options, T::pick(&*solver), &resources).unwrap().fits()
    };
    (16..1024).map(|mebibytes| mebibytes << 20).find(fits).unwrap()
}

fn fit<T: kapprox::Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    name: &str,
    (memory, threads, scratch): (usize, usize, Option<&ScratchFolder>),
) -> (TrainedModel<T>, Vec<String>) {
    let (workers, heard) = (Workers::new(threads), Heard::default());
    let resources = Resources { memory, workers: &workers, stage_observer: &heard, journal: None, scratch };
    let trained = train(selected, options, T::pick(&*solver(name)), &resources).unwrap();
    (trained, heard.0.into_inner().unwrap())
}

fn everywhere<T: kapprox::Real>(name: &str) {
    let mut random = Lcg(7);
    let x = random.normals(16_000, 3);
    let y: Vec<f64> = x.iter().map(|x| ((x[0] * x[1] > 0.2) as u8 + (x[2] > 0.5) as u8).into()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &x, &y);
    let task = by_name(name.split(' ').next().unwrap()).unwrap().task;
    let selected = select(&path, task);
    let options = TrainOptions { rank: 100, ranks: vec![100], ..exact(Task::Regression, "gaussian(sigma=1)", 3000) };
    let options = TrainOptions { task, ..options };
    let scratch = ScratchFolder::open(folder.path(), 1 << 30).unwrap();
    let (memory, heard) = fit::<T>(&selected, &options, name, (1 << 32, 2, None));
    assert!(heard.iter().any(|stage| stage == "features to memory"), "{heard:?}");
    for (threads, scratch, stage) in [(1, None, "features"), (3, Some(&scratch), "features to scratch")] {
        let least = tight::<T>(&selected, &options, name, threads);
        let (other, heard) = fit::<T>(&selected, &options, name, (least, threads, scratch));
        assert!(heard.iter().any(|name| name == stage), "{stage}: {heard:?}");
        let warned = heard.iter().any(|text| text.contains("recomputed in every pass"));
        assert_eq!(warned, scratch.is_none(), "{heard:?}");
        let same =
            memory.model.coefficients == other.model.coefficients && memory.model.intercept == other.model.intercept;
        assert!(
            same && memory.report.figures == other.report.figures,
            "{name}, {stage}, {threads} threads: other bits"
        );
        assert_eq!(memory.report.certificate, other.report.certificate);
    }
}

#[test]
fn logistic_regression_has_the_same_bits_wherever_its_features_are() {
    everywhere::<f32>("logistic");
}

#[test]
fn support_vector_machines_have_the_same_bits_wherever_their_features_are() {
    everywhere::<f32>("svm");
    everywhere::<f32>("svm pairs");
    everywhere::<f64>("svr");
    everywhere::<f32>("oneclass");
}

#[test]
fn clusterings_and_l1_components_have_the_same_bits_wherever_their_features_are() {
    everywhere::<f32>("kmeans");
    everywhere::<f64>("spectral");
    everywhere::<f32>("kpca-l1");
}
