//! The time that a choice and the fit after it may take, and the ranks of a fit that is likely to end in it.

use super::Chosen;
use crate::Result;
use crate::job::{Fit, Run};
use crate::solver::ridge;
use kstore::Selected;
use std::time::{Duration, Instant};

const RANKS: [usize; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Power of the rank by which the time of a fit is taken to grow: that of products of features. Features alone grow with the rank, and
/// such a fit ends sooner.
const GROWTH: f64 = 2.0;

/// Share of the time by which the search among kernels ends, and that by which the trials of solvers do.
const SEARCHED: f64 = 0.3;
const TRIED: f64 = 0.5;

/// The clock of a choice.
#[derive(Debug)]
pub struct Pace {
    started: Instant,
    time: Option<Duration>,
}

impl Pace {
    /// Starts the clock; `None` is as long as it takes.
    pub fn new(time: Option<Duration>) -> Self {
        Self { started: Instant::now(), time }
    }

    /// True once the share of the time is over that belongs to the search among kernels, or with `trials` to that and the trials of
    /// solvers: the rest belongs to what follows.
    pub fn is_over(&self, trials: bool) -> bool {
        let share = if trials { TRIED } else { SEARCHED };
        self.time.is_some_and(|time| self.started.elapsed() > time.mul_f64(share))
    }

    /// The largest rank at which `fit` is likely to end in time and fits the memory, with all smaller ones; the least where no fit was
    /// tested, which tells the time; `None` without a time.
    /// Which that is depends on the machine; the ranks give the same bits on any.
    ///
    /// # Errors
    /// The errors of [`Fit::plan`].
    pub fn ranks(&self, fit: &Fit, found: &Chosen, selected: &Selected, run: &Run<'_>) -> Result<Option<Vec<usize>>> {
        let Some(time) = self.time else { return Ok(None) };
        let left = time.saturating_sub(self.started.elapsed()).as_secs_f64();
        let rows = usize::try_from(selected.known_rows().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let mut ranks: Vec<usize> = Vec::new();
        for rank in RANKS.into_iter().filter(|rank| *rank <= rows.max(RANKS[0])) {
            ranks.push(rank);
            let forecast = at_ranks(fit.clone(), &ranks).plan(selected, run)?;
            let late = likely(found, rank, rows as f64).is_none_or(|seconds| seconds > left);
            if ranks.len() > 1 && (late || !forecast.fits()) {
                ranks.pop();
                break;
            }
        }
        Ok(Some(ranks))
    }
}

/// The fit at the last of these ranks, with the others in its surface where the solver has one.
#[must_use]
pub fn at_ranks(fit: Fit, ranks: &[usize]) -> Fit {
    if fit.family().reads(&ridge::RANKS) {
        return fit.set("ranks", listed(ranks));
    }
    ranks.last().into_iter().fold(fit, |fit, rank| fit.rank(*rank))
}

/// Ranks as they are typed: `500,1000`.
pub fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Seconds of a fit, from those of the fit that was tested.
fn likely(found: &Chosen, rank: usize, rows: f64) -> Option<f64> {
    let (apart, seconds) = found.test.as_ref()?;
    let by_rank = (rank as f64 / found.rank as f64).powf(GROWTH);
    Some(seconds * rows / apart.learned_from.max(1) as f64 * by_rank)
}
