//! The whole choice: kernels and metrics, the scaling, then solvers with their penalties, then the test of the winner.

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

/// What is chosen, from which rows, and among what.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// A solver's name, or [`super::ANY`].
    pub solver: &'a str,
    /// The fit that is completed.
    pub base: &'a Fit,
    /// The kernels, and how they are compared.
    pub options: &'a TuneOptions,
    /// Scalings that are tried with the best kernel after that of the options.
    pub scalings: &'a [Scaling],
    /// The table.
    pub selected: &'a Selected,
    /// Most steps of each part, in the place of what the listener wants: work that does not depend on the machine.
    pub work: Option<SearchWork>,
    /// True where the fit may take the kernel itself in the place of a map: where that fits the memory, and the listener says that there is
    /// time. A base fit whose map is exact takes it in any case.
    pub exact: bool,
    /// The resources. Its observer sees the stages of every step; a checkpoint is not read.
    pub run: &'a Run<'a>,
    /// Hears of the steps.
    pub listener: &'a dyn SearchListener,
    /// Returns the fit that is written, which may have other ranks than the trials. It is asked once, when all is chosen.
    pub written: &'a dyn Fn(&Chosen) -> Result<Fit>,
}

impl std::fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choice").field("solver", &self.solver).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Choice<'_> {
    /// Makes the choice. What `memory` recalls is not computed again.
    ///
    /// # Errors
    /// The errors of [`Search::open`], [`Search::step`], those of the fits, and those of the listener.
    pub fn make<T: Real>(&self, memory: &mut Memory<'_>) -> Result<Chosen> {
        let mut log = Log::new(self.listener, self.work);
        if let Some(by) = self.options.select.filter(|by| by.needs_probabilities() && self.solver != ANY)
            && !has_probabilities(self.base)?
        {
            let why = format!("the scores of {} are no probabilities; give auc or error, or tune {ANY}", self.solver);
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
                    .warn("the search was cut short: not every solver was tried on every fold; give more `time`, or more `work`");
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
                let what = format!("rows kept apart, metric {}", one.report.metric);
                log.trial(what, || timed(memory, || trials.test_halves(&one.fit, self.run)))
            });
            // lazily: a test that fails ends the search before the next one is remembered in its place
            let with = two.next().transpose()?.flatten();
            let without = two.next().transpose()?.flatten();
            drop(two);
            if let (Some(((chose, seen), seconds)), Some(((other, unseen), others))) = (with, without) {
                // half of the rows kept apart are few: what folds found better stays unless these clearly say otherwise
                let measure = |apart: &Apart| apart.measure(by).unwrap_or(f64::INFINITY);
                let (chose, other) = (measure(&chose), measure(&other));
                let drops = other < WORTH * chose;
                if drops {
                    let why = format!(
                        "on rows that it has not seen, the metric has error {chose:.4e}, and the best kernel without one {other:.4e}"
                    );
                    self.listener.warn(&format!("{why}: the metric was left out"));
                    winner = plain.instead_of(&winner, &mut contenders, Some(why));
                }
                test = Some(if drops { (unseen, others) } else { (seen, seconds) });
            }
        } else {
            let what = "rows kept apart".to_string();
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
                let (seed, what) = (self.options.training.seed, "rows at random".to_string());
                log.trial(what, || memory.recall_or(|| trials.test_at_random(&winner.fit, seed, self.run)))?
            }
            None => None,
        };
        let elsewhere = match &test {
            Some((apart, _)) if unlike => {
                let (seed, what) = (self.options.training.seed, "new rows of other kinds".to_string());
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
        // a model of lower rank than the trials has a larger error; one of higher rank mostly a smaller one, and takes too long to try
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

    /// What solvers are compared by, and the share of the rarer class where that decides it: whoever never names a class of 3 % of the rows is
    /// wrong for 3 % of them, so wrong rows tell nothing there.
    fn select<T: Real>(&self, tuned: &Tuned, trials: &Trials<T>) -> (Select, Option<f64>) {
        if let Some(by) = self.options.select {
            return (by, None);
        }
        let share = if tuned.classes == 2 { trials.rarer() } else { 1.0 };
        match share < RARE && share * trials.seen() as f64 >= FEWEST_RARE {
            // its solvers have probabilities; one that was named may have none
            true => (if self.solver == ANY { Select::LogLoss } else { Select::Auc }, Some(share)),
            false => (Select::Error, None),
        }
    }

    /// The best kernel with its metric at the scaling of the options, or at another one if the held-out error is less there. A scaling that
    /// is not linear is no metric, so it is the one thing about the features that rounds cannot learn.
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

    /// Learns the metrics of the best kernels anew at a higher rank, as long as there is time.
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
                self.listener.warn(
                    "the search was cut short: not every kernel was tried; give more `time`, or name fewer `kernels`",
                );
            }
        }
        self.listener.end();
        Ok(search)
    }
}

/// What `test` finds, if anything, and its seconds, unless `memory` recalls both.
fn timed<V: serde::Serialize + serde::de::DeserializeOwned>(
    memory: &mut Memory<'_>,
    test: impl FnOnce() -> Result<Option<V>>,
) -> Result<Option<(V, f64)>> {
    memory.recall_or(|| {
        let started = Instant::now();
        Ok(test()?.map(|found| (found, started.elapsed().as_secs_f64())))
    })
}

/// Share of the rows below which a class is rare, and the fewest of its rows that anything is told by.
const RARE: f64 = 0.1;
const FEWEST_RARE: f64 = 30.0;
