//! What a choice has done so far, and whether its part at hand is late.

use super::Memory;
use super::chosen::{Moment, Part, SearchListener, SearchWork};
use crate::Result;
use std::time::{Duration, Instant};

/// The steps so far, and when each ended.
pub(super) struct Log<'a> {
    listener: &'a dyn SearchListener,
    started: Instant,
    pub(super) history: Vec<Moment>,
    most: Option<SearchWork>,
    work: [PartWork; Part::Fit as usize],
    /// The part at hand, not the fit.
    pub(super) part: Part,
    /// The time of the last trial.
    pub(super) took: Duration,
}

/// The work of a part, and after how much of it it was late.
#[derive(Clone, Copy, Debug, Default)]
struct PartWork {
    made: usize,
    late: Option<usize>,
}

impl<'a> Log<'a> {
    pub(super) fn new(listener: &'a dyn SearchListener, most: Option<SearchWork>) -> Self {
        Self {
            listener,
            started: Instant::now(),
            history: Vec::new(),
            most,
            work: Default::default(),
            part: Part::Search,
            took: Duration::ZERO,
        }
    }

    fn at_hand(&mut self) -> &mut PartWork {
        &mut self.work[self.part as usize]
    }

    /// Tells whether so much more work is enough for the part.
    pub(super) fn enough(&mut self) -> impl Fn(usize) -> bool + use<'a> {
        let most = self.most.map(|most| match self.part {
            Part::Search => most.kernels,
            Part::Solvers => most.solvers,
            Part::Machines | Part::Fit => most.machines.unwrap_or(usize::MAX),
        });
        let (made, listener, part, took) = (self.at_hand().made, self.listener, self.part, self.took);
        move |more| most.map_or_else(|| listener.is_late(part, took), |most| made + more >= most)
    }

    /// True once the part is to end. The answer is recalled where `memory` has it: a choice that is resumed goes the way that it went.
    pub(super) fn is_late(&mut self, memory: &mut Memory<'_>) -> Result<bool> {
        let enough = self.enough();
        let (late, work) = (memory.recall_or(|| Ok(enough(0)))?, self.at_hand());
        // what is left of a part that is late counts for nothing
        work.late = work.late.or(late.then_some(work.made));
        Ok(work.late.is_some())
    }

    /// True where the fit of all rows will be late after so much more time; recalled as [`Log::is_late`] is.
    pub(super) fn is_fit_late(&self, next: Duration, memory: &mut Memory<'_>) -> Result<bool> {
        memory.recall_or(|| Ok(self.listener.is_late(Part::Fit, next)))
    }

    pub(super) fn work(&self) -> SearchWork {
        let [kernels, solvers, machines] = self.work.map(|work| work.late.unwrap_or(work.made));
        SearchWork { kernels, solvers, machines: Some(machines).filter(|made| *made > 0) }
    }

    /// A step of the search: kernel after kernel, and rounds of each.
    pub(super) fn learn(&mut self, what: String, run: impl FnOnce() -> Result<(usize, Option<f64>)>) -> Result<()> {
        let (made, _) = self.timed(what, run)?;
        self.at_hand().made += made;
        Ok(())
    }

    pub(super) fn trial<V>(&mut self, what: String, run: impl FnOnce() -> Result<V>) -> Result<V> {
        let (value, took) = self.timed(what, || Ok((run()?, None)))?;
        self.took = took;
        self.at_hand().made += 1;
        Ok(value)
    }

    fn timed<V>(&mut self, what: String, run: impl FnOnce() -> Result<(V, Option<f64>)>) -> Result<(V, Duration)> {
        self.listener.next(&what)?;
        let started = Instant::now();
        let (value, best) = run()?;
        let took = started.elapsed();
        self.listener.done(&what, took);
        let best = best.or_else(|| self.history.last().and_then(|last| last.best));
        self.history.push(Moment { seconds: self.started.elapsed().as_secs_f64(), what, best });
        Ok((value, took))
    }
}
