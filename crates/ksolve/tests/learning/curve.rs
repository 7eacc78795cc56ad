//! Which passes of a learning curve are shared with other processes.

use kapprox::{Kernel, landmark};
use kfit::request::Resources;
use ksolve::Intercept;
use ksolve::Task;
use ksolve::curve::{CurveCell, CurveOptions, Setting};
use ksolve::job::{NoStageObserver, Scaling};
use kstore::checkpoint::{Cut, Journal, Persist};
use kstore::pass::{Engine, Node, NodeOutcome, Observer, PassKey, ReductionMode};
use kstore::{Error, Selection, Table, Workers};
use std::sync::Mutex;

/// Single-process engine that records the names of the passes.
#[derive(Default)]
struct Names(Mutex<Vec<String>>);

impl Names {
    fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|there| *there == name).count()
    }
}

impl Engine for Names {
    fn begin_pass(&self, name: &str, cut: Cut) -> kstore::Result<(PassKey, ReductionMode)> {
        let mut names = self.0.lock().unwrap();
        names.push(name.to_string());
        Ok((PassKey { number: names.len() as u64, name: name.to_string(), cut }, ReductionMode::Whole))
    }
    fn claim_lot(&self, _: &PassKey, _: &dyn Observer) -> kstore::Result<Option<std::ops::Range<u64>>> {
        Ok(None)
    }
    fn store_node(&self, _: &PassKey, _: &Node, _: Option<&dyn Persist>) -> kstore::Result<()> {
        Err(Error::WorkerPanicked)
    }
    fn wait_for_node(&self, _: &PassKey, _: u64, _: &mut dyn Persist, _: &dyn Observer) -> kstore::Result<NodeOutcome> {
        Err(Error::WorkerPanicked)
    }
}

/// Computes the cells of a curve on 500 rows with 100 test rows.
fn cells(sample: Option<usize>, journal: Option<&Journal<'_>>) -> Vec<CurveCell> {
    let x: Vec<f64> = (0..1500).map(|i| (1.3 * i as f64).sin()).collect();
    let y: Vec<f64> = x.chunks(3).map(|x| x[0] + x[1] * x[2]).collect();
    let table = Table::from_rows(&x, 3, &y).unwrap();
    let select = |rows| {
        let targets = vec!["y".to_string()];
        table.select(&Selection { targets, rows: Some(rows), ..Selection::default() }).unwrap()
    };
    let options = CurveOptions {
        methods: ["uniform", "truncated", "fourier"].map(|name| name.parse().unwrap()).to_vec(),
        ranks: vec![5, 20],
        repeats: 1,
        landmark_scheme: landmark::by_name("uniform").unwrap(),
        sample_rows: sample,
        scaling: Scaling::Standard,
        kernel: Kernel::parse("gaussian(sigma=1.5)").unwrap(),
        task: Task::Regression,
        lambda: 1e-4,
        intercept: Intercept::Free,
        seed: 1,
    };
    let workers = Workers::new(2);
    let resources =
        Resources { memory: 1 << 30, workers: &workers, stage_observer: &NoStageObserver, journal, scratch: None };
    let (train, test) = (select(0..400), select(400..500));
    let setting = Setting::<f64>::open(&train, Some(&test), &options, &resources).unwrap();
    let mut cells: Vec<CurveCell> = options.runs().iter().flat_map(|run| setting.run(run).unwrap()).collect();
    cells.iter_mut().for_each(|cell| cell.seconds = 0.0);
    cells
}

#[test]
fn passes_over_the_table_are_shared_and_those_over_a_sample_are_not() {
    let (errors, tests, features) = ("errors of a method", "errors on test rows", "inner products of features");
    for (sample, shared) in [(None, true), (Some(200), false)] {
        let names = Names::default();
        let journal = Journal::with_engine(&names);
        assert_eq!(cells(sample, Some(&journal)), cells(sample, None), "{sample:?}");
        // uniform evaluates both ranks in one run; of the other maps, only truncated reads the rows
        let (runs, maps) = if shared { (5, 2) } else { (0, 0) };
        let counts =
            [names.count("scaling statistics"), names.count(errors), names.count(features), names.count(tests)];
        assert_eq!(counts, [1, runs, maps, 5], "{:?}", names.0.lock().unwrap());
    }
}
