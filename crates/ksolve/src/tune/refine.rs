//! The last steps of a search: its best kernels are refined, and it tells of another search.
//!
//! Kernels compete with metrics and lengths for fits of `metric::RANK` landmarks. A higher rank asks for shorter lengths, and a better fit
//! has better gradients. So the metrics of the best [`KERNELS`] are learned anew by fits of a higher rank, and the length of the better one
//! is found for a still higher one.

use super::{Entry, Memory, Rung, Search};
use crate::Result;
use crate::request::MetricSource;
use kapprox::{Real, kernel::Spec};

/// Kernels whose metrics are learned anew: more than one, as others may win at a higher rank.
const KERNELS: usize = 2;

/// A step that refines.
#[derive(Clone, Copy)]
struct Step {
    candidate: usize,
    rank: usize,
    /// True where the metric is learned anew, and not the length alone.
    anew: bool,
}

impl<T: Real> Search<'_, T> {
    fn step_of_refinement(&self) -> Option<Step> {
        let (rank, longer) = self.refined.split_first()?;
        let best = &self.order[..self.order.len().min(KERNELS)];
        Some(match best.get(self.steps_refined) {
            Some(candidate) => Step { candidate: *candidate, rank: *rank, anew: true },
            None => Step { candidate: self.alive[0], rank: *longer.get(self.steps_refined - best.len())?, anew: false },
        })
    }

    /// Number of steps that refine.
    pub(crate) fn refinements(&self) -> usize {
        self.refined.split_first().map_or(0, |(_, longer)| self.order.len().min(KERNELS) + longer.len())
    }

    /// The kernel that is refined next, and the rank; `None` at the end.
    pub(crate) fn upcoming_refinement(&self) -> Option<(&Spec, usize)> {
        self.step_of_refinement().map(|step| (&self.candidates[step.candidate].kernel, step.rank))
    }

    /// Refines the next of the best kernels until so many rounds are `enough`, unless `memory` recalls the result; returns the number of rounds.
    /// Of those that were refined the best wins.
    ///
    /// # Errors
    /// Errors of the map; [`kstore::Error::Interrupted`].
    pub(crate) fn refine(&mut self, memory: &mut Memory<'_>, enough: &dyn Fn(usize) -> bool) -> Result<usize> {
        let (MetricSource::Learned(form), Some(step)) = (&self.options.training.metric, self.step_of_refinement()) else {
            return Ok(0);
        };
        let Step { candidate, rank, anew } = step;
        let known = &self.candidates[candidate];
        let (kernel, form) = (self.options.kernels[candidate].clone(), known.form.parse().unwrap_or(*form));
        let known = (!anew).then_some(known);
        let learned = memory.recall_or(|| self.learn(kernel, (form, rank, known), enough))?;
        let rounds = learned.rounds.len();
        self.learned.extend(learned.rounds.iter().cloned());
        let entry = Entry::refined(&learned, self.options.training.scaling);
        if anew && self.steps_refined > 0 {
            self.compete(candidate, entry);
        } else {
            self.alive = vec![candidate];
            self.done.push(Rung { rows: learned.rounds[0].rows, entries: vec![Entry { kept: true, ..entry }] });
        }
        self.candidates[candidate] = learned;
        self.steps_refined += 1;
        Ok(rounds)
    }

    /// Compares a candidate to those that were refined at the same rank.
    fn compete(&mut self, candidate: usize, entry: Entry) {
        let Some(rung) = self.done.last_mut() else { return };
        let wins = rung.entries.iter().all(|other| entry.score < other.score);
        if wins {
            self.alive = vec![candidate];
            rung.entries.iter_mut().for_each(|other| other.kept = false);
        }
        rung.entries.push(Entry { kept: wins, ..entry });
    }

    /// The entry of the best kernel.
    pub(super) fn winner(&self) -> Option<&Entry> {
        self.done.last().and_then(|rung| rung.entries.iter().find(|entry| entry.kept))
    }

    /// Takes what another search did into the report of this one.
    pub(super) fn tell(&mut self, other: Self) {
        let told = other.done.into_iter().flat_map(|rung| rung.entries);
        if let Some(rung) = self.done.last_mut() {
            rung.entries.extend(told.map(|entry| Entry { kept: false, ..entry }));
        }
        self.passes += other.passes;
        self.planned_bytes = self.planned_bytes.max(other.planned_bytes);
    }
}
