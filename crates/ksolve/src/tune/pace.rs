//! The time that a choice and the fit after it may take, and the ranks of a fit that is likely to end in it.

use super::choice::{Chosen, Part};
use crate::job::{Fit, Run};
use crate::{Result, solver::ridge};
use kstore::Selected;
use std::time::{Duration, Instant};

const RANKS: [usize; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Time of the systems of a lambda at rank r, in units of r³, where a row of products takes r²: those of five folds and of all rows.
const SYSTEMS: f64 = 3.5;

/// Share of the time left that the fit may be likely to take: all of it, as a fit of rank 4,000 takes half of what one of rank 1,000 lets expect.
const FILLED: f64 = 1.0;

/// Share of the time by which the search among kernels ends, that by which the trials of solvers do, and that by which those of machines do.
const SEARCHED: f64 = 0.4;
const TRIED: f64 = 0.6;
const COMPARED: f64 = 0.7;

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

    /// True where the share of the time will be over after `next` that belongs to this part of a choice with those before it: the rest belongs
    /// to what follows.
    pub fn is_over(&self, part: Part, next: Duration) -> bool {
        let share = match part {
            Part::Search => SEARCHED,
            Part::Solvers => TRIED,
            Part::Machines => COMPARED,
            Part::Fit => FILLED,
        };
        self.time.is_some_and(|time| self.started.elapsed() + next > time.mul_f64(share))
    }

    /// The largest rank at which `fit` is likely to end in time and fits the memory, with all smaller ones; the least where no fit was
    /// tested, which tells the time; `None` without a time, and on the kernel itself.
    /// Which that is depends on the machine; the ranks give the same bits on any.
    ///
    /// # Errors
    /// The errors of [`Fit::plan`].
    pub fn ranks(&self, fit: &Fit, found: &Chosen, selected: &Selected, run: &Run<'_>) -> Result<Option<Vec<usize>>> {
        let Some(time) = self.time.filter(|_| !fit.map_spec().is_exact()) else { return Ok(None) };
        let left = FILLED * time.saturating_sub(self.started.elapsed()).as_secs_f64();
        let rows = found.tuned.rows;
        let mut ranks: Vec<usize> = Vec::new();
        for rank in RANKS.into_iter().filter(|rank| *rank as u64 <= rows.max(RANKS[0] as u64)) {
            ranks.push(rank);
            let forecast = at_ranks(fit.clone(), &ranks).plan(selected, run)?;
            let late = likely(fit, found, rank)?.is_none_or(|seconds| seconds > left);
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

/// Seconds of a fit of the whole table, from those of the fit that was tested.
fn likely(fit: &Fit, found: &Chosen, rank: usize) -> Result<Option<f64>> {
    let Some((apart, seconds)) = &found.test else { return Ok(None) };
    let lambdas =
        if fit.family().name == ridge::FAMILY.name { ridge::Ridge::new(fit.settings()?).lambdas.len() } else { 0 };
    let effort = |rank: usize, rows: u64| (rank as f64).powi(2) * (rows as f64 + SYSTEMS * (lambdas * rank) as f64);
    Ok(Some(seconds * effort(rank, found.tuned.rows) / effort(found.rank, apart.learned_from.max(1))))
}
