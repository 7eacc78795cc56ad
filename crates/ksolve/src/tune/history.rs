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
    /// Predicted time after the search. If it is set, the current part may take the whole remaining
    /// time, instead of its fraction of the time.
    pub(super) later_time: Option<Duration>,
    /// Number of fits in the mean of fits, if the time did not suffice for the requested number.
    pub(super) member_count: Option<usize>,
}

/// The number of steps of a part, and the number of steps after which the part exceeded its time.
#[derive(Clone, Copy, Debug, Default)]
struct PartWork {
    step_count: usize,
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
            later_time: None,
            member_count: None,
        }
    }

    fn current_work(&mut self) -> &mut PartWork {
        &mut self.work[self.part as usize]
    }

    /// Returns a function that is called with a number of further steps, and returns true if the
    /// current part should end after them.
    pub(super) fn stop_condition(&mut self) -> impl Fn(usize) -> bool + use<'a> {
        let max_steps = self.max_work.map(|max_work| match self.part {
            SearchPart::Search => max_work.kernels,
            SearchPart::Solvers => max_work.solvers,
            SearchPart::ExactFits | SearchPart::Fit => max_work.exact_fits.unwrap_or(usize::MAX),
        });
        let (step_count, listener) = (self.current_work().step_count, self.listener);
        let (part, duration) = match self.later_time {
            Some(later) => (SearchPart::Fit, self.last_duration.saturating_add(later)),
            None => (self.part, self.last_duration),
        };
        move |added_steps| {
            max_steps
                .map_or_else(|| listener.is_late(part, duration), |max_steps| step_count + added_steps >= max_steps)
        }
    }

    /// Returns true if the part should end. The answer is stored in `journal`, so a resumed search
    /// takes the same path.
    pub(super) fn is_late(&mut self, journal: &mut SearchJournal<'_>) -> Result<bool> {
        let should_stop = self.stop_condition();
        let (is_late, work) = (journal.get_or_compute(|| Ok(should_stop(0)))?, self.current_work());
        // steps that are made after the part is late are not counted
        work.late_after = work.late_after.or(is_late.then_some(work.step_count));
        Ok(work.late_after.is_some())
    }

    /// Returns true if the fit on all rows will be late after a further time `duration`. The answer
    /// is stored in `journal`, as in [`SearchLog::is_late`].
    pub(super) fn is_fit_late(&self, duration: Duration, journal: &mut SearchJournal<'_>) -> Result<bool> {
        journal.get_or_compute(|| Ok(self.listener.is_late(SearchPart::Fit, duration)))
    }

    /// Returns the time since the start of the search.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Ends the current part: its later steps are not counted, as after [`SearchLog::is_late`].
    pub(super) fn mark_late(&mut self) {
        let work = self.current_work();
        work.late_after = work.late_after.or(Some(work.step_count));
    }

    /// Counts steps that were reserved and not needed, so that a search with the counted work makes
    /// the same decisions.
    pub(super) fn count_steps(&mut self, count: usize) {
        self.current_work().step_count += count;
    }

    /// Returns the number of steps of the current part that the work budget leaves; `None` without
    /// a work budget.
    pub(super) fn remaining_steps(&mut self) -> Option<usize> {
        let max_steps = self.max_work?.exact_fits.filter(|_| self.part == SearchPart::ExactFits)?;
        Some(max_steps.saturating_sub(self.current_work().step_count))
    }

    pub(super) fn work(&self) -> SearchWork {
        let [kernels, solvers, exact_fits] = self.work.map(|work| work.late_after.unwrap_or(work.step_count));
        SearchWork { kernels, solvers, exact_fits: Some(exact_fits).filter(|count| *count > 0) }
    }

    /// Runs `run`: measures one kernel, or learns its metric in several rounds. `run` returns the
    /// number of steps, and the best score so far.
    pub(super) fn run_step(&mut self, step: String, run: impl FnOnce() -> Result<(usize, Option<f64>)>) -> Result<()> {
        let (step_count, _) = self.run_timed(step, run)?;
        self.current_work().step_count += step_count;
        Ok(())
    }

    /// Runs a trial, which counts as one step, and records its time in `last_duration`.
    pub(super) fn run_trial<V>(&mut self, step: String, run: impl FnOnce() -> Result<V>) -> Result<V> {
        let (value, duration) = self.run_timed(step, || Ok((run()?, None)))?;
        self.last_duration = duration;
        self.current_work().step_count += 1;
        Ok(value)
    }

    fn run_timed<V>(&mut self, step: String, run: impl FnOnce() -> Result<(V, Option<f64>)>) -> Result<(V, Duration)> {
        self.listener.begin_step(&step)?;
        let started = Instant::now();
        let (value, best) = run()?;
        let duration = started.elapsed();
        self.listener.end_step(&step, duration);
        let best = best.or_else(|| self.history.last().and_then(|last| last.best));
        self.history.push(HistoryEntry { seconds: self.started.elapsed().as_secs_f64(), step, best });
        Ok((value, duration))
    }
}
