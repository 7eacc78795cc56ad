use super::super::marginal::tests::{TestKernel, random_numbers};
use super::*;
use faer::Mat;
use kstore::pass::NoObserver;
use std::sync::atomic::{AtomicUsize, Ordering};

const QUICK_STAGES: [SampleStage; 2] = [
    SampleStage { row_count: 60, landmark_count: 30, max_steps: 15 },
    SampleStage { row_count: 120, landmark_count: 40, max_steps: 10 },
];

fn gauss(sigma: f64) -> Arc<dyn AnyKernel> {
    Arc::new(TestKernel::Gauss(sigma))
}

fn draws(n: usize, d: usize, seed: u64) -> Mat<f64> {
    let mut draw = random_numbers(seed);
    // uniform with variance 1
    Mat::from_fn(n, d, |_, _| 3f64.sqrt() * draw())
}

fn learn_quickly(x: &Mat<f64>, y: &Mat<f64>, kernel: &Arc<dyn AnyKernel>, threads: usize) -> Result<Vec<f64>> {
    learn_factors(x.as_ref(), y.as_ref(), kernel, (&QUICK_STAGES, &NoObserver), &Workers::new(threads))
}

fn are_positive_and_finite(factors: &[f64]) -> bool {
    factors.iter().all(|a| a.is_finite() && *a > 0.0)
}

#[test]
fn the_four_features_that_matter_of_thirty_two_are_found() {
    let x = draws(1500, 32, 5);
    let mut draw = random_numbers(6);
    let y = Mat::from_fn(1500, 1, |i, _| {
        let x = |k: usize| x[(i, k)];
        x(3) * x(11) + (2.0 * x(20)).cos() + (1.5 * x(29)).cos() + 0.05 * 3f64.sqrt() * draw()
    });
    let kernel = kapprox::kernel::Kernel::parse("gaussian(sigma=8)").unwrap().build().unwrap();
    let found =
        learn_factors(x.as_ref(), y.as_ref(), &kernel, (&DEFAULT_STAGES, &NoObserver), &Workers::new(2)).unwrap();
    let mut order: Vec<usize> = (0..32).collect();
    order.sort_by(|i, j| found[*j].total_cmp(&found[*i]));
    let mut first = order[..4].to_vec();
    first.sort_unstable();
    assert_eq!(first, [3, 11, 20, 29]);
    assert!(found[order[4]] < 0.2 * found[order[3]], "{found:?}");
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let x = draws(120, 5, 1);
    let y = Mat::from_fn(120, 2, |i, t| (x[(i, t)] * x[(i, 2)]).sin());
    let (one, three) = (learn_quickly(&x, &y, &gauss(2.0), 1).unwrap(), learn_quickly(&x, &y, &gauss(2.0), 3).unwrap());
    assert!(one.iter().any(|factor| *factor != 1.0) && are_positive_and_finite(&one));
    assert_eq!(one, three);
}

#[test]
fn the_unit_of_the_targets_changes_no_factor() {
    let x = draws(120, 3, 1);
    let y = Mat::from_fn(120, 1, |i, _| (x[(i, 0)] * x[(i, 2)]).sin());
    let far = Mat::from_fn(120, 1, |i, _| 1024.0 * y[(i, 0)]);
    assert_eq!(learn_quickly(&x, &y, &gauss(2.0), 1).unwrap(), learn_quickly(&x, &far, &gauss(2.0), 1).unwrap());
}

#[test]
fn degenerate_samples_give_finite_factors() {
    let x = draws(120, 4, 2);
    let y = Mat::from_fn(120, 1, |i, _| x[(i, 0)].cos() + x[(i, 1)]);
    let constant = Mat::from_fn(120, 2, |_, _| 0.1);
    assert_eq!(learn_quickly(&x, &constant, &gauss(2.0), 1).unwrap(), [1.0; 4]);

    let doubled = Mat::from_fn(120, 4, |i, k| x[(i / 6, k)]);
    let same = Mat::from_fn(120, 4, |_, k| x[(0, k)]);
    let missing = Mat::from_fn(120, 4, |i, k| if k == 2 { 0.0 } else { x[(i, k)] });
    let empty = Mat::zeros(120, 4);
    let mut draw = random_numbers(3);
    let chance = Mat::from_fn(120, 1, |_, _| draw());
    for kernel in [gauss(2.0), Arc::new(TestKernel::Square) as Arc<dyn AnyKernel>] {
        for (name, x) in [("doubled", &doubled), ("same", &same), ("missing", &missing), ("empty", &empty), ("x", &x)] {
            for (what, y) in [("y", &y), ("chance", &chance)] {
                let found = learn_quickly(x, y, &kernel, 1).unwrap();
                assert!(are_positive_and_finite(&found), "{name} {what}: {found:?}");
                if name == "missing" {
                    assert!((found[2].ln()).abs() < 3.0, "{found:?}");
                }
            }
        }
    }
    let two = learn_quickly(&draws(2, 3, 1), &draws(2, 1, 2), &gauss(1.0), 1).unwrap();
    assert!(are_positive_and_finite(&two), "{two:?}");
}

#[test]
fn wrong_samples_are_refused() {
    let x = draws(20, 3, 1);
    assert!(matches!(learn_quickly(&x, &draws(19, 1, 1), &gauss(1.0), 1), Err(Error::Shape { .. })));
    assert!(matches!(learn_quickly(&x, &Mat::zeros(20, 0), &gauss(1.0), 1), Err(Error::Shape { .. })));
    assert!(matches!(
        learn_quickly(&draws(1, 3, 1), &draws(1, 1, 1), &gauss(1.0), 1),
        Err(Error::TooFewRows { rows: 1 })
    ));
    let nan = Mat::from_fn(20, 1, |i, _| if i == 4 { f64::NAN } else { i as f64 });
    assert!(matches!(learn_quickly(&x, &nan, &gauss(1.0), 1), Err(Error::NotFinite { .. })));
}

/// Stops at the fourth query.
struct StopAtFourth(AtomicUsize);

impl Observer for StopAtFourth {
    fn advance(&self, _rows: u64) {}
    fn should_stop(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= 3
    }
}

#[test]
fn the_stop_signal_ends_the_search() {
    let x = draws(120, 3, 1);
    let observer = StopAtFourth(AtomicUsize::new(0));
    let stopped =
        learn_factors(x.as_ref(), x.subcols(0, 1), &gauss(1.0), (&QUICK_STAGES, &observer), &Workers::sequential());
    assert!(stopped.is_err_and(|error| error.is_interrupted()));
    assert_eq!(observer.0.into_inner(), 4);
}
