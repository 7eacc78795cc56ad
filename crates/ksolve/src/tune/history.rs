//! The history of a search, and the decision whether the current part of the search should end.

use super::SearchJournal;
use super::selection_result::{HistoryEntry, SearchListener, SearchPart, SearchWork};
use crate::Result;
use std::time::{Duration, Instant};

/// The steps so far, with their times.
pub(super) struct SearchLog<'a> {
    listener: &'a dyn SearchListener,
    started: Instant,
    pub(super) history: Vec<HistoryEntry>,
    max_work: Option<SearchWork>,
    work: [PartWork; SearchPart::Fit as usize],
    /// Current part; never the final fit.
    pub(super) part: SearchPart,
    /// Time of the last trial.
    pub(super) last_duration: Duration,
}

/// The number of steps of a part, and the number of steps after which the part exceeded its time.
#[derive(Clone, Copy, Debug, Default)]
struct PartWork {
    made: usize,
    late_after: Option<usize>,
}

impl<'a> SearchLog<'a> {
    pub(super) fn new(listener: &'a dyn SearchListener, max_work: Option<SearchWork>) -> Self {
        Self {
            listener,
            started: Instant::now(),
            history: Vec::new(),
            max_work,
            work: Default::default(),
            part: SearchPart::Search,
            last_duration: Duration::ZERO,
        }
    }

    fn current_work(&mut self) -> &mut PartWork {
        &mut self.work[self.part as usize]
    }

    /// Returns a function that decides whether the part should end after this many more steps.
    pub(super) fn stop_condition(&mut self) -> impl Fn(usize) -> bool + use<'a> {
        let most = self.max_work.map(|most| match self.part {
            SearchPart::Search => most.kernels,
            SearchPart::Solvers => most.solvers,
            SearchPart::ExactFits | SearchPart::Fit => most.machines.unwrap_or(usize::MAX),
        });
        let (made, listener, part, took) = (self.current_work().made, self.listener, self.part, self.last_duration);
        move |more| most.map_or_else(|| listener.is_late(part, took), |most| made + more >= most)
    }

    /// Returns true if the part should end. The answer is stored in `journal`, so a resumed search
    /// takes the same path.
    pub(super) fn is_late(&mut self, journal: &mut SearchJournal<'_>) -> Result<bool> {
        let enough = self.stop_condition();
        let (late, work) = (journal.get_or_compute(|| Ok(enough(0)))?, self.current_work());
        // steps after the part is late do not count
        work.late_after = work.late_after.or(late.then_some(work.made));
        Ok(work.late_after.is_some())
    }

    /// Returns true if the fit on all rows will be late after a further time `next`. The answer is
    /// stored in `journal`, as in [`SearchLog::is_late`].
    pub(super) fn is_fit_late(&self, next: Duration, journal: &mut SearchJournal<'_>) -> Result<bool> {
        journal.get_or_compute(|| Ok(self.listener.is_late(SearchPart::Fit, next)))
    }

    pub(super) fn work(&self) -> SearchWork {
        let [kernels, solvers, machines] = self.work.map(|work| work.late_after.unwrap_or(work.made));
        SearchWork { kernels, solvers, machines: Some(machines).filter(|made| *made > 0) }
    }

    /// Runs a step of the search: one kernel, or several rounds of it.
    pub(super) fn learn(&mut self, what: String, run: impl FnOnce() -> Result<(usize, Option<f64>)>) -> Result<()> {
        let (made, _) = self.timed(what, run)?;
        self.current_work().made += made;
        Ok(())
    }

    pub(super) fn run_trial<V>(&mut self, what: String, run: impl FnOnce() -> Result<V>) -> Result<V> {
        let (value, took) = self.timed(what, || Ok((run()?, None)))?;
        self.last_duration = took;
        self.current_work().made += 1;
        Ok(value)
    }

    fn timed<V>(&mut self, what: String, run: impl FnOnce() -> Result<(V, Option<f64>)>) -> Result<(V, Duration)> {
        self.listener.next(&what)?;
        let started = Instant::now();
        let (value, best) = run()?;
        let took = started.elapsed();
        self.listener.done(&what, took);
        let best = best.or_else(|| self.history.last().and_then(|last| last.best));
        self.history.push(HistoryEntry { seconds: self.started.elapsed().as_secs_f64(), what, best });
        Ok((value, took))
    }
}
