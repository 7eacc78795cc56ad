//! The search of `kmill tune`: kernels and metrics, then solvers with their penalties, then the test of the winner.

use super::pace::Pace;
use crate::args::TuneArgs;
use crate::args::run::Run;
use crate::curve::Silent;
use crate::progress::Work;
use crate::{Result, interrupt, pipeline};
use kapprox::metric::Metric;
use ksolve::job::{self, Fit};
use ksolve::train::{Resources, Stages};
use ksolve::tune::{Apart, ContenderReport, Contest, Memory, Score, Search, Trials, TuneOptions, Tuned, contenders};
use kstore::pass::Observer;
use kstore::{Selected, Workers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A moment of the search: what was done, and the least held-out error of a kernel so far.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Moment {
    /// Seconds since the start.
    pub seconds: f64,
    /// What was done: the kernel, or the solver that was tried.
    pub what: String,
    /// Least score of a kernel so far; `None` before the first.
    pub best: Option<f64>,
}

/// What a search found.
pub(super) struct Found {
    pub(super) tuned: Tuned,
    /// The fit for the whole table.
    pub(super) fit: Fit,
    /// The rank of the trials.
    pub(super) rank: usize,
    pub(super) metric: Option<Arc<Metric>>,
    /// The form of that metric.
    pub(super) form: String,
    pub(super) contenders: Vec<ContenderReport>,
    /// The error on rows that no choice saw, and the seconds of that fit.
    pub(super) test: Option<(Apart, f64)>,
    pub(super) history: Vec<Moment>,
}

/// Shows the stages until the first run begins; after that the runs are shown, and their stages and warnings are not.
struct Runs<'a> {
    run: &'a Run,
    began: AtomicBool,
}

impl Stages for Runs<'_> {
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        if self.began.load(Ordering::Relaxed) { Box::new(Silent) } else { self.run.progress.watch(name, rows) }
    }
    fn warn(&self, text: String) {
        if !self.began.load(Ordering::Relaxed) {
            Stages::warn(&self.run.progress, text);
        }
    }
}

/// Runs the search.
pub(super) fn found<T: kapprox::Real>(
    args: &TuneArgs,
    base: &Fit,
    options: &TuneOptions,
    selected: &Selected,
    run: &Run,
    pace: &Pace,
    memory: &mut Memory<'_>,
) -> Result<Found> {
    let (runs, workers) = (Runs { run, began: AtomicBool::new(false) }, Workers::new(run.threads));
    let resources = Resources { stages: &runs, ..run.resources(&workers, None) };
    let mut search = Search::<T>::open(selected, options, &resources)?;
    runs.began.store(true, Ordering::Relaxed);
    let mut history = Vec::new();
    let work = run.progress.work("search", search.runs() as u64);
    while let Some(what) = search.upcoming().map(|(kernel, rows)| format!("{kernel} on {rows} rows")) {
        step(&work, &what, || Ok(search.step(memory)?))?;
        history.push(Moment { seconds: pace.seconds(), what, best: search.least() });
        if pace.is_late() && search.hurry() {
            run.progress.warn(
                "half of the time is over: not every kernel was tried; give more --time, or name fewer --kernels",
            );
        }
    }
    work.finish();
    let (tuned, trials) = search.finish();
    if options.score == Score::Alignment {
        let fit = base.clone().kernel(tuned.kernel.clone());
        let (metric, form) = (tuned.metric.clone(), tuned.form.clone());
        return Ok(Found {
            tuned,
            fit,
            rank: options.training.rank,
            metric,
            form,
            contenders: Vec::new(),
            test: None,
            history,
        });
    }
    let job = pipeline::job(run).memory(run.memory.saturating_sub(trials.bytes())).watch(&runs);
    let mut contest = Contest::new(&trials, contenders(&args.solver, base, &tuned)?, options.training.rank);
    let work = run.progress.work("solvers", contest.trials() as u64);
    while let Some(what) = contest.upcoming().map(|contender| contender.report.solver.clone()) {
        step(&work, &what, || Ok(contest.step(&job, memory)?))?;
        history.push(Moment { seconds: pace.seconds(), what, best: history.last().and_then(|last| last.best) });
        if pace.is_late() && contest.hurry() {
            run.progress.warn("half of the time is over: not every solver was tried on every fold; give more --time");
        }
    }
    work.finish();
    let (winner, reports) = contest.finish();
    let test = tested(&trials, &winner.fit, &job, run, memory)?;
    memory.keep();
    let rows = selected.known_rows().unwrap_or(trials.seen() as u64);
    let fit = winner.for_rows(trials.seen() as u64, rows);
    let (metric, form) = (winner.metric().cloned(), winner.report.metric);
    Ok(Found { tuned, fit, rank: options.training.rank, metric, form, contenders: reports, test, history })
}

fn step(work: &Work<'_>, what: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    interrupt::check()?;
    work.begin(what, None);
    let started = Instant::now();
    run()?;
    work.end(what, started.elapsed(), None);
    Ok(())
}

/// The error of the winner on the rows that were kept apart, and the seconds that its fit took.
fn tested<T: kapprox::Real>(
    trials: &Trials<T>,
    fit: &Fit,
    job: &job::Run<'_>,
    run: &Run,
    memory: &mut Memory<'_>,
) -> Result<Option<(Apart, f64)>> {
    let _stage = run.progress.watch("rows kept apart", None);
    let timed = memory.recall_or(|| {
        let started = Instant::now();
        let apart = trials.test(fit, job)?;
        Ok(apart.map(|apart| (apart, started.elapsed().as_secs_f64())))
    })?;
    Ok(timed)
}
