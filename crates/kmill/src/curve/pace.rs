//! An estimate of the time that the rest of a curve will take.

use ksolve::curve::CurveRun;
use std::collections::HashMap;
use std::time::Duration;

/// Measured times of runs, and those that are left.
///
/// A run takes as long as the last one of its method and ranks; of a kind that was not run yet, as long per unit of work
/// as all runs so far.
#[derive(Debug)]
pub(super) struct Pace {
    left: Vec<(String, f64)>,
    seconds: HashMap<String, f64>,
    spent: f64,
    done: f64,
}

/// Cost of a pass that does not depend on the rank, in units of a rank's square: reading, and the fixed parts of the
/// measures.
const FIXED: f64 = 200.0 * 200.0;

/// The work of a run in units of n r²: features are formed once for every rank, and about six times more for choosing
/// and measuring at the largest.
fn work(run: &CurveRun) -> f64 {
    let squares = |rank: &usize| (*rank as f64).powi(2) + FIXED;
    run.ranks.iter().map(squares).sum::<f64>() + 6.0 * run.ranks.last().map_or(0.0, squares)
}

fn kind(run: &CurveRun) -> String {
    format!("{} {:?}", run.method, run.ranks)
}

impl Pace {
    pub(super) fn new<'a>(runs: impl Iterator<Item = &'a CurveRun>) -> Self {
        let left = runs.map(|run| (kind(run), work(run))).collect();
        Self { left, seconds: HashMap::new(), spent: 0.0, done: 0.0 }
    }

    /// Notes that the next run has ended, and the time it took.
    pub(super) fn took(&mut self, run: &CurveRun, time: Duration) {
        let (kind, work, seconds) = (kind(run), work(run), time.as_secs_f64());
        if let Some(at) = self.left.iter().position(|(left, _)| *left == kind) {
            self.left.remove(at);
        }
        self.seconds.insert(kind, seconds);
        self.spent += seconds;
        self.done += work;
    }

    /// Estimated time for the runs that are left; `None` before the first run has ended.
    pub(super) fn left(&self) -> Option<Duration> {
        if self.done <= 0.0 {
            return None;
        }
        let rate = self.spent / self.done;
        let of = |(kind, work): &(String, f64)| self.seconds.get(kind).copied().unwrap_or(rate * work);
        Duration::try_from_secs_f64(self.left.iter().map(of).sum()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_same_kind_count_as_they_were() {
        let run = |method: &str, ranks: &[usize]| CurveRun {
            method: method.parse().unwrap(),
            repeat: 0,
            ranks: ranks.to_vec(),
        };
        let (a, b) = (run("uniform", &[100, 1000]), run("kmeans", &[1000]));
        let mut pace = Pace::new([&a, &b, &a, &b].into_iter());
        assert_eq!(pace.left(), None);
        pace.took(&a, Duration::from_secs(8));
        let guessed = pace.left().unwrap().as_secs_f64();
        assert!(guessed > 8.0 + 10.0 && guessed < 8.0 + 16.0, "{guessed}");
        pace.took(&b, Duration::from_secs(3));
        assert_eq!(pace.left().unwrap(), Duration::from_secs(11));
        pace.took(&a, Duration::from_secs(9));
        pace.took(&b, Duration::from_secs(3));
        assert_eq!(pace.left().unwrap(), Duration::ZERO);
    }
}
