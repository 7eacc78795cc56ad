//! The complete search: kernels and metrics, the scaling, solvers with their regularisation
//! parameters, then the test of the winner.

use super::contest::{ANY, Contest, contenders, has_probabilities};
use super::{Apart, Chosen, ContenderReport, Memory, Part, Score, Search, SearchListener, SearchWork, Select};
use super::{Test, TuneOptions, Tuned};
use super::{log::Log, pace::is_told_by_half, refine::WORTH, trial::Trials};
use crate::job::{Fit, Run};
use crate::request::{Resources, Scaling, TrainOptions};
use crate::{Error, Result};
use kapprox::Real;
use kstore::Selected;
use std::time::{Duration, Instant};

/// A model selection: the base fit, the candidates, the rows and the resources.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// Name of a solver, or [`super::ANY`].
    pub solver: &'a str,
    /// Fit that the search completes.
    pub base: &'a Fit,
    /// Kernels, and the options of their comparison.
    pub options: &'a TuneOptions,
    /// Scalings that are tried with the best kernel, after the scaling of the options.
    pub scalings: &'a [Scaling],
    /// Rows and columns of the table.
    pub selected: &'a Selected,
    /// Maximum number of steps of each part, which replaces the listener's time limit; the result
    /// is then independent of the machine.
    pub work: Option<SearchWork>,
    /// True if the fit may use the exact kernel instead of a feature map, provided that memory and,
    /// according to the listener, time suffice. A base fit with an exact map always uses the exact
    /// kernel.
    pub exact: bool,
    /// Resources. The observer receives the stages of every step. Checkpoints are not read.
    pub run: &'a Run<'a>,
    /// Listener that receives the steps.
    pub listener: &'a dyn SearchListener,
    /// Function that returns the final fit, which may have other ranks than the trials; called
    /// once, at the end of the search.
    pub written: &'a dyn Fn(&Chosen) -> Result<Fit>,
}

impl std::fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choice").field("solver", &self.solver).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Choice<'_> {
    /// Runs the search. Results that are in `memory` are not computed again.
    ///
    /// # Errors
    /// The errors of [`Search::open`], of [`Search::step`], of the fits, and of the listener.
    pub fn make<T: Real>(&self, memory: &mut Memory<'_>) -> Result<Chosen> {
        let mut log = Log::new(self.listener, self.work);
        if let Some(by) = self.options.select.filter(|by| by.needs_probabilities() && self.solver != ANY)
            && !has_probabilities(self.base)?
        {
            let why = format!("the scores of {} are not probabilities; use auc or error, or tune {ANY}", self.solver);
            return Err(Error::option("measure", by, why));
        }
        let (tuned, trials) = self.scaled::<T>(&mut log, memory)?;
        let (by, rarer) = self.select(&tuned, &trials);
        let (base, rank) = (&self.base.clone().scaling(tuned.scaling).on_map(), self.options.training.rank);
        let chosen = Chosen {
            fit: base.clone().kernel(tuned.kernel.clone()),
            rank,
            metric: tuned.metric.clone(),
            form: tuned.form.clone(),
            select: by,
            rarer,
            contenders: Vec::new(),
            test: None,
            at_random: None,
            elsewhere: Vec::new(),
            work: log.work(),
            history: Vec::new(),
            tuned,
        };
        if self.options.score == Score::Alignment {
            let chosen = Chosen { history: log.history, ..chosen };
            return Ok(Chosen { fit: (self.written)(&chosen)?, ..chosen });
        }
        let tuned = &chosen.tuned;
        let mut contest = Contest::new(&trials, by, contenders(self.solver, base, tuned, by)?, rank);
        log.part = Part::Solvers;
        self.listener.begin(Part::Solvers, contest.trials() as u64);
        while let Some(what) = contest.upcoming().map(|contender| contender.report.solver.clone()) {
            log.trial(what, || contest.step(self.run, memory))?;
            if log.is_late(memory)? && contest.hurry() {
                self.listener
                    .warn("the search ended early: not every solver was tried on every fold; raise `time` or `work`");
            }
        }
        self.listener.end();
        let (mut winner, tried) = contest.finish();
        let exact = self.exact::<T>((&winner, &tried, tuned), (&trials, by), &mut log, memory)?;
        let mut contenders: Vec<ContenderReport> = tried.into_iter().map(|contender| contender.report).collect();
        let plain = if exact.is_some() { None } else { winner.without_metric(tuned)? };
        winner = exact.map_or(winner.clone(), |(exact, why)| exact.instead_of(&winner, &mut contenders, why));
        let work = log.work();
        let mut test = None;
        let unlike = self.options.blocks && !self.options.whole_groups;
        let steps = [plain.is_some(), tuned.alike.is_some(), unlike].map(u64::from);
        self.listener.begin(Part::Solvers, 1 + steps.iter().sum::<u64>());
        if let Some(plain) = plain {
            let mut two = [&winner, &plain].into_iter().map(|one| {
                let what = format!("test rows, metric {}", one.report.metric);
                log.trial(what, || timed(memory, || trials.test_halves(&one.fit, self.run)))
            });
            // lazily: an error in the first test ends the search before `memory` stores the second
            // result in its position
            let with = two.next().transpose()?.flatten();
            let without = two.next().transpose()?.flatten();
            drop(two);
            if let (Some(((chose, seen), seconds)), Some(((other, unseen), others))) = (with, without) {
                // half of the test rows is a small sample: the cross-validated winner stays
                // unless the difference is clear
                let measure = |apart: &Apart| apart.measure(by).unwrap_or(f64::INFINITY);
                let (chose, other) = (measure(&chose), measure(&other));
                let drops = other < WORTH * chose;
                if drops {
                    let why = format!(
                        "on test rows, the error is {chose:.4e} with the metric and {other:.4e} with the best kernel without a metric"
                    );
                    self.listener.warn(&format!("{why}: the metric is discarded"));
                    winner = plain.instead_of(&winner, &mut contenders, Some(why));
                }
                test = Some(if drops { (unseen, others) } else { (seen, seconds) });
            }
        } else {
            let what = "test rows".to_string();
            test = log.trial(what, || timed(memory, || trials.test(&winner.fit, self.run)))?;
        }
        let hurried = test.is_some() && is_told_by_half(&winner.fit) && log.is_fit_late(Duration::MAX, memory)?;
        let at_half = match hurried {
            true => {
                let half = winner.fit.clone().at_rank(rank / 2);
                log.trial(format!("rank {}", rank / 2), || timed(memory, || trials.test(&half, self.run)))?
            }
            false => None,
        };
        let at_random = match tuned.alike {
            Some(_) => {
                let (seed, what) = (self.options.training.seed, "random rows".to_string());
                log.trial(what, || memory.recall_or(|| trials.test_at_random(&winner.fit, seed, self.run)))?
            }
            None => None,
        };
        let elsewhere = match &test {
            Some((apart, _)) if unlike => {
                let (seed, what) = (self.options.training.seed, "rows that differ from the table".to_string());
                let kinds = || trials.elsewhere(&winner.fit, self.selected, seed, self.run);
                let found = log.trial(what, || memory.recall_or(kinds))?;
                found.iter().filter_map(|kind| kind.warning(apart.error)).for_each(|text| self.listener.warn(&text));
                found
            }
            _ => Vec::new(),
        };
        self.listener.end();
        memory.keep();
        let tested = test.as_ref().and_then(|(apart, _)| apart.lambda);
        let tried = winner.fit.clone();
        let winner = winner.for_rows(trials.seen() as u64, tuned.rows, tested);
        let (metric, form, fit) = (winner.metric().cloned(), winner.report.metric, winner.fit);
        let (at_half, lambdas) = (at_half.map(|(_, seconds)| seconds), self.options.lambdas.len());
        let test = test.map(|(apart, seconds)| Test { apart, seconds, at_half, lambdas });
        let history = std::mem::take(&mut log.history);
        let mut chosen = Chosen { fit, metric, form, contenders, test, at_random, elsewhere, work, history, ..chosen };
        chosen.fit = (self.written)(&chosen)?;
        // a lower rank than in the trials has a larger error, so the test is repeated; a higher
        // rank mostly has a smaller error, and testing it takes too long
        let lower = memory.recall_or(|| {
            match chosen.fit.training(self.selected)?.rank < tried.training(self.selected)?.rank {
                true => trials.test(&tried.with_ranks_of(&chosen.fit), self.run),
                false => Ok(None),
            }
        })?;
        if let (Some(test), Some(lower)) = (&mut chosen.test, lower) {
            test.apart = lower;
        }
        Ok(chosen)
    }

    /// Returns the measure that compares solvers, and the fraction of the rarer class if that
    /// determines it. A model that never predicts a class of 3 % of the rows has an error rate of 3
    /// %, so the error rate is uninformative for rare classes.
    fn select<T: Real>(&self, tuned: &Tuned, trials: &Trials<T>) -> (Select, Option<f64>) {
        if let Some(by) = self.options.select {
            return (by, None);
        }
        let share = if tuned.classes == 2 { trials.rarer() } else { 1.0 };
        match share < RARE && share * trials.seen() as f64 >= FEWEST_RARE {
            // all solvers tried by `ANY` have probabilities; a named solver may have none
            true => (if self.solver == ANY { Select::LogLoss } else { Select::Auc }, Some(share)),
            false => (Select::Error, None),
        }
    }

    /// Returns the search at the scaling of the options, or at another scaling if this reduces the
    /// held-out error below the fraction [`WORTH`]. A nonlinear scaling is not a metric, so rounds
    /// of metric learning cannot find it.
    fn scaled<T: Real>(&self, log: &mut Log<'_>, memory: &mut Memory<'_>) -> Result<(Tuned, Trials<T>)> {
        let resources = self.run.resources();
        let mut best = self.search::<T>(self.options, &resources, log, memory)?;
        let others = self.scalings.iter().map(|scaling| {
            let training = TrainOptions { scaling: *scaling, ..self.options.training.clone() };
            TuneOptions { training, kernels: vec![best.named()], ..self.options.clone() }
        });
        let others: Vec<TuneOptions> = others.collect();
        for options in &others {
            if log.is_late(memory)? {
                break;
            }
            let other = self.search::<T>(options, &resources, log, memory)?;
            best = best.or(other);
        }
        self.refined(&mut best, log, memory)?;
        Ok(best.finish_with_rows())
    }

    /// Learns the metrics of the best kernels again at a higher rank, while time remains.
    fn refined<T: Real>(&self, search: &mut Search<'_, T>, log: &mut Log<'_>, memory: &mut Memory<'_>) -> Result<()> {
        if search.refinements() == 0 || log.is_late(memory)? {
            return Ok(());
        }
        self.listener.begin(Part::Search, search.refinements() as u64);
        while let Some((kernel, rank)) = search.upcoming_refinement() {
            if log.is_late(memory)? {
                break;
            }
            let (what, enough) = (format!("{kernel} at rank {rank}"), log.enough());
            log.learn(what, || search.refine(memory, &enough).map(|made| (made, search.least())))?;
        }
        self.listener.end();
        Ok(())
    }

    fn search<'s, T: Real>(
        &self,
        options: &'s TuneOptions,
        resources: &'s Resources<'s>,
        log: &mut Log<'_>,
        memory: &mut Memory<'_>,
    ) -> Result<Search<'s, T>> {
        let mut search = Search::<T>::open(self.selected, options, resources)?;
        search.look_at_target(self.selected, self.base.task()?)?;
        self.listener.begin(Part::Search, search.runs() as u64);
        let scaling = options.training.scaling;
        while let Some((kernel, rows)) = search.upcoming() {
            let what = match scaling == self.options.training.scaling {
                true => format!("{kernel} on {rows} rows"),
                false => format!("{kernel} on {rows} rows, scale {scaling}"),
            };
            let enough = log.enough();
            log.learn(what, || search.step(memory, &enough).map(|made| (made, search.least())))?;
            if log.is_late(memory)? && search.hurry()? {
                self.listener
                    .warn("the search ended early: not every kernel was tried; raise `time`, or name fewer `kernels`");
            }
        }
        self.listener.end();
        Ok(search)
    }
}

/// Returns the result of `test` and its time in seconds, or both from `memory`.
fn timed<V: serde::Serialize + serde::de::DeserializeOwned>(
    memory: &mut Memory<'_>,
    test: impl FnOnce() -> Result<Option<V>>,
) -> Result<Option<(V, f64)>> {
    memory.recall_or(|| {
        let started = Instant::now();
        Ok(test()?.map(|found| (found, started.elapsed().as_secs_f64())))
    })
}

/// Fraction of the rows below which a class is rare, and the minimum number of its rows for which
/// [`Choice::select`] replaces the error rate.
const RARE: f64 = 0.1;
const FEWEST_RARE: f64 = 30.0;
