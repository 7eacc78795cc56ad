//! The history of a search, and the decision whether its current part should end.

use super::Memory;
use super::chosen::{Moment, Part, SearchListener, SearchWork};
use crate::Result;
use std::time::{Duration, Instant};

/// The steps so far, with their times.
pub(super) struct Log<'a> {
    listener: &'a dyn SearchListener,
    started: Instant,
    pub(super) history: Vec<Moment>,
    most: Option<SearchWork>,
    work: [PartWork; Part::Fit as usize],
    /// Current part; never the final fit.
    pub(super) part: Part,
    /// Time of the last trial.
    pub(super) took: Duration,
}

/// The number of steps of a part, and the number of steps after which the part was late.
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

    /// Returns a function that decides whether the part should end after this many more steps.
    pub(super) fn enough(&mut self) -> impl Fn(usize) -> bool + use<'a> {
        let most = self.most.map(|most| match self.part {
            Part::Search => most.kernels,
            Part::Solvers => most.solvers,
            Part::Machines | Part::Fit => most.machines.unwrap_or(usize::MAX),
        });
        let (made, listener, part, took) = (self.at_hand().made, self.listener, self.part, self.took);
        move |more| most.map_or_else(|| listener.is_late(part, took), |most| made + more >= most)
    }

    /// Returns true if the part should end. The answer is stored in `memory`, so a resumed search
    /// takes the same path.
    pub(super) fn is_late(&mut self, memory: &mut Memory<'_>) -> Result<bool> {
        let enough = self.enough();
        let (late, work) = (memory.recall_or(|| Ok(enough(0)))?, self.at_hand());
        // steps after the part is late do not count
        work.late = work.late.or(late.then_some(work.made));
        Ok(work.late.is_some())
    }

    /// Returns true if the fit on all rows will be late after `next` more time; stored like
    /// [`Log::is_late`].
    pub(super) fn is_fit_late(&self, next: Duration, memory: &mut Memory<'_>) -> Result<bool> {
        memory.recall_or(|| Ok(self.listener.is_late(Part::Fit, next)))
    }

    pub(super) fn work(&self) -> SearchWork {
        let [kernels, solvers, machines] = self.work.map(|work| work.late.unwrap_or(work.made));
        SearchWork { kernels, solvers, machines: Some(machines).filter(|made| *made > 0) }
    }

    /// Runs a step of the search: one kernel, or several rounds of it.
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
