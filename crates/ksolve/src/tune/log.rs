//! What a choice has done so far, and whether its part at hand is late.

use super::choice::{MACHINES, Moment, SEARCH, SearchListener, SearchWork, TRIALS};
use crate::Result;
use std::time::{Duration, Instant};

/// The steps so far, and when each ended.
pub(super) struct Log<'a> {
    listener: &'a dyn SearchListener,
    started: Instant,
    pub(super) history: Vec<Moment>,
    most: Option<SearchWork>,
    kernels: Part,
    solvers: Part,
    machines: Part,
    /// The part at hand: [`SEARCH`], [`TRIALS`] or [`MACHINES`].
    pub(super) part: &'static str,
    /// The time of the last trial.
    pub(super) took: Duration,
}

/// The work of a part, and after how much of it it was late.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
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
            kernels: Part::default(),
            solvers: Part::default(),
            machines: Part::default(),
            part: SEARCH,
            took: Duration::ZERO,
        }
    }

    fn part(&mut self) -> &mut Part {
        match self.part {
            MACHINES => &mut self.machines,
            TRIALS => &mut self.solvers,
            _ => &mut self.kernels,
        }
    }

    /// Tells whether so much more work is enough for the part.
    pub(super) fn enough(&mut self) -> impl Fn(usize) -> bool + use<'a> {
        let most = self.most.map(|most| match self.part {
            MACHINES => most.machines.unwrap_or(usize::MAX),
            TRIALS => most.solvers,
            _ => most.kernels,
        });
        let (made, listener, part, took) = (self.part().made, self.listener, self.part, self.took);
        move |more| most.map_or_else(|| listener.is_late(part, took), |most| made + more >= most)
    }

    pub(super) fn is_late(&mut self) -> bool {
        let (late, part) = (self.enough()(0), self.part());
        // what is left of a part that is late counts for nothing
        part.late = part.late.or(late.then_some(part.made));
        part.late.is_some()
    }

    pub(super) fn work(&self) -> SearchWork {
        let steps = |part: Part| part.late.unwrap_or(part.made);
        let machines = Some(steps(self.machines)).filter(|made| *made > 0);
        SearchWork { kernels: steps(self.kernels), solvers: steps(self.solvers), machines }
    }

    /// A step of the search: kernel after kernel, and rounds of each.
    pub(super) fn learn(&mut self, what: String, run: impl FnOnce() -> Result<(usize, Option<f64>)>) -> Result<()> {
        let (made, _) = self.timed(what, run)?;
        self.kernels.made += made;
        Ok(())
    }

    pub(super) fn trial<V>(&mut self, what: String, run: impl FnOnce() -> Result<V>) -> Result<V> {
        let (value, took) = self.timed(what, || Ok((run()?, None)))?;
        self.took = took;
        self.part().made += 1;
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
