//! Online learning: bit-identical for any number of threads, and no model from a stopped run.

use ksolve::job::StageObserver;
use ksolve::job::{Fit, Run};
use ksolve::predict::{OnlineUpdate, Predictor};
use kstore::pass::Observer;
use kstore::{CancelToken, Selection, Table};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Features of the model: wider than a strip of the Gram matrix, so that blocks are split.
const RANK: usize = 150;

fn table(rows: usize) -> Table {
    let x: Vec<f64> = (0..2 * rows).map(|i| (i as f64 * 0.7).sin()).collect();
    let y: Vec<f64> = x.chunks_exact(2).map(|x| (3.0 * x[0]).sin() + x[1]).collect();
    Table::from_rows(&x, 2, &y).unwrap()
}

fn learned(rows: usize, run: &Run<'_>) -> ksolve::Result<OnlineUpdate> {
    let fit =
        Fit::ridge().rank(RANK).set("lambda", 1e-6).set("std", true).kernel("gaussian(sigma=0.3)".parse().unwrap());
    let predictor = Predictor::new(fit.fit_table(&table(400), &["y"], &Run::new().threads(1)).unwrap().model).unwrap();
    let selected =
        predictor.select(&table(rows), Selection { targets: vec!["y".into()], ..Default::default() }).unwrap();
    predictor.learn(&selected, 1.0, run)
}

#[test]
fn rows_of_several_segments_give_the_same_bits_for_any_number_of_threads() {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        // an eighth of the memory holds the features of about 6,000 rows
        let of = |threads| learned(13_000, &Run::new().threads(threads).memory(64 << 20)).unwrap();
        [1, 2, 4].into_iter().for_each(|threads| done.send(of(threads)).unwrap());
    });
    let next = || wait.recv_timeout(Duration::from_secs(60)).expect("learning ends");
    let (one, two, four) = (next(), next(), next());
    assert_eq!(one.rows, 13_000);
    assert!(one == two && one == four);
}

/// Requests a stop after the pass over the rows, before the last block of rows is learned.
struct StopAtTheEnd(CancelToken);

impl Observer for StopAtTheEnd {
    fn advance(&self, _: u64) {}
}

impl Drop for StopAtTheEnd {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl StageObserver for StopAtTheEnd {
    fn start_stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(Self(self.0.clone()))
    }
    fn warn(&self, _: String) {}
}

#[test]
fn a_stop_before_the_last_block_leaves_no_model() {
    let token = CancelToken::new();
    let watch = StopAtTheEnd(token.clone());
    let stopped = learned(100, &Run::new().threads(2).observer(&watch).cancel_token(token)).unwrap_err();
    assert!(stopped.is_interrupted(), "{stopped}");
}
