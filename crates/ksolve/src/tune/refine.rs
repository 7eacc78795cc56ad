//! The last steps of a search: the metrics of its best kernels are refined, and it tells of another one.

use super::{Entry, Memory, Rung, Search};
use crate::Result;
use crate::request::MetricSource;
use kapprox::{Real, kernel::Spec};

/// Kernels whose metrics are refined: the best two, as the order of kernels is not that of their refined metrics.
pub(super) const KERNELS: usize = 2;

impl<T: Real> Search<'_, T> {
    /// The kernel whose metric is refined next; `None` at the end.
    pub(crate) fn upcoming_refinement(&self) -> Option<&Spec> {
        self.unrefined.last().map(|candidate| &self.candidates[*candidate].kernel)
    }

    /// Refines the metric of the next of the best kernels, unless `memory` recalls it, and returns the number of rounds. Of those that were
    /// refined the best wins.
    ///
    /// # Errors
    /// Errors of the map; [`kstore::Error::Interrupted`].
    pub(crate) fn refine(&mut self, memory: &mut Memory<'_>, enough: &dyn Fn(usize) -> bool) -> Result<usize> {
        let (MetricSource::Learned(form), Some(at)) = (&self.options.training.metric, self.unrefined.pop()) else {
            return Ok(0);
        };
        let known = &self.candidates[at];
        let (kernel, form) = (self.options.kernels[at].clone(), known.form.parse().unwrap_or(*form));
        let learned = memory.recall_or(|| self.learn(kernel, (form, Some(known)), enough))?;
        self.learned.extend(learned.rounds.iter().cloned());
        let entry = Entry::refined(&learned, self.options.training.scaling);
        let rows = learned.rounds.first().map_or(0, |round| round.rows);
        let rounds = learned.rounds.len();
        self.candidates[at] = learned;
        if self.done.len() == self.sizes.len() {
            self.done.push(Rung { rows, entries: Vec::new() });
        }
        let entries = &mut self.done[self.sizes.len()].entries;
        if entries.iter().all(|other| entry.score < other.score) {
            self.alive = vec![at];
            entries.iter_mut().for_each(|other| other.kept = false);
        }
        entries.push(Entry { kept: self.alive == [at], ..entry });
        Ok(rounds)
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
