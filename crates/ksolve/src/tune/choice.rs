//! The whole choice: kernels and metrics, the scaling, then solvers with their penalties, then the test of the winner.

use super::contest::{ANY, Contest, contenders, has_probabilities};
use super::{Apart, ContenderReport, Memory, Score, Search, Select, TuneOptions, Tuned};
use super::{log::Log, pace::is_told_by_half, refine::WORTH, trial::Trials};
use crate::job::{Fit, Run};
use crate::request::{Resources, Scaling, TrainOptions};
use crate::{Error, Result};
use kapprox::Real;
use kapprox::metric::Metric;
use kstore::Selected;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A part of a choice. Its name is what the progress shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Kernels are compared.
    Search,
    /// Solvers are tried.
    Solvers,
    /// Machines on the kernel itself are tried.
    Machines,
    /// The fit of all rows, which follows.
    Fit,
}

crate::error::enum_of_words!(Part, "part", "search" => Search, "solvers" => Solvers, "machines" => Machines, "fit" => Fit);

/// A moment of the choice: what was done, and the least held-out error of a kernel so far.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Moment {
    /// Seconds since the start.
    pub seconds: f64,
    /// What was done: the kernel, or the solver that was tried.
    pub what: String,
    /// Least score of a kernel so far; `None` before the first.
    pub best: Option<f64>,
}

/// The work of the parts of a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SearchWork {
    /// Rounds that learned metrics, and kernels that were measured.
    pub kernels: usize,
    /// Trials of solvers.
    pub solvers: usize,
    /// Trials of machines on the kernel itself; `None` where there were none, or for as many as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<usize>,
}

impl std::fmt::Display for SearchWork {
    /// Writes the steps as they are typed: `4,12`, or `4,12,9` with machines.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.kernels, self.solvers)?;
        self.machines.map_or(Ok(()), |machines| write!(f, ",{machines}"))
    }
}

impl std::str::FromStr for SearchWork {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let counts: std::result::Result<Vec<usize>, _> = text.split(',').map(|count| count.trim().parse()).collect();
        match counts.as_deref() {
            Ok(&[kernels, solvers]) => Ok(Self { kernels, solvers, machines: None }),
            Ok(&[kernels, solvers, machines]) => Ok(Self { kernels, solvers, machines: Some(machines) }),
            _ => {
                Err("expected steps of the search and trials of solvers, such as 4,12, and of machines, such as 4,12,9"
                    .to_string())
            }
        }
    }
}

/// Hears of the steps of a choice, and may end it early or stop it.
pub trait SearchListener: Sync {
    /// Steps of a part begin; so many are likely.
    fn begin(&self, _part: Part, _steps: u64) {}
    /// The step that is done next.
    fn next(&self, _what: &str) -> Result<()> {
        Ok(())
    }
    /// A step has ended.
    fn done(&self, _what: &str, _took: Duration) {}
    /// The steps of the part have ended.
    fn end(&self) {}
    /// True once this part of the choice is to end with the best so far, as what comes next takes so long; asked after every round of a
    /// metric, kernel and trial, and for [`Part::Fit`] by machines. Whoever answers by the clock gives up the same bits on every machine;
    /// [`Chosen::work`] in [`Choice::work`] gives them again.
    fn is_late(&self, _part: Part, _next: Duration) -> bool {
        false
    }
    /// Takes a warning for the user.
    fn warn(&self, _text: &str) {}
}

/// Hears nothing.
impl SearchListener for () {}

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
}

impl std::fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choice").field("solver", &self.solver).field("options", &self.options).finish_non_exhaustive()
    }
}

/// The winner, fitted to the rows that choices saw, on those that none saw.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its error.
    pub apart: Apart,
    /// The seconds of the fit.
    pub seconds: f64,
    /// The seconds that it takes at half the rank; `None` for ridge regression, and where the listener has time for any fit.
    pub at_half: Option<f64>,
    /// The number of penalties that it compared, of ridge regression.
    pub lambdas: usize,
}

/// What was chosen.
#[derive(Debug)]
pub struct Chosen {
    /// The comparison of the kernels.
    pub tuned: Tuned,
    /// The fit for the whole table.
    pub fit: Fit,
    /// The rank of the trials.
    pub rank: usize,
    /// The metric of the fit; `None` where it has none.
    pub metric: Option<Arc<Metric>>,
    /// The form of that metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// What solvers and penalties were compared by.
    pub select: Select,
    /// The share of the rarer of two classes, where it is so small that this was chosen for it.
    pub rarer: Option<f64>,
    /// The solvers and penalties that were tried; one alone was not tried.
    pub contenders: Vec<ContenderReport>,
    /// The test of the winner; `None` where no rows were kept apart.
    pub test: Option<Test>,
    /// Where blocks took the place of random folds: the error of the winner, fitted anew, on rows at random.
    pub at_random: Option<Apart>,
    /// The steps that were made: in [`Choice::work`] they give this choice again.
    pub work: SearchWork,
    /// What was done when.
    pub history: Vec<Moment>,
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
            work: log.work(),
            history: Vec::new(),
            tuned,
        };
        if self.options.score == Score::Alignment {
            return Ok(Chosen { history: log.history, ..chosen });
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
        winner = exact.map_or(winner.clone(), |exact| exact.instead_of(&winner, &mut contenders));
        let work = log.work();
        let mut test = None;
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
                    self.listener.warn(&format!(
                        "on rows that it has not seen, the metric has error {chose:.4e}, and the best kernel without one {other:.4e}: the metric was left out"
                    ));
                    winner = plain.instead_of(&winner, &mut contenders);
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
        memory.keep();
        let tested = test.as_ref().and_then(|(apart, _)| apart.lambda);
        let winner = winner.for_rows(trials.seen() as u64, tuned.rows, tested);
        let (metric, form, fit) = (winner.metric().cloned(), winner.report.metric, winner.fit);
        let (at_half, lambdas) = (at_half.map(|(_, seconds)| seconds), self.options.lambdas.len());
        let test = test.map(|(apart, seconds)| Test { apart, seconds, at_half, lambdas });
        Ok(Chosen { fit, metric, form, contenders, test, at_random, work, history: log.history, ..chosen })
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
        self.listener.begin(Part::Search, search.runs() as u64);
        let scaling = options.training.scaling;
        while let Some((kernel, rows)) = search.upcoming() {
            let what = match scaling == self.options.training.scaling {
                true => format!("{kernel} on {rows} rows"),
                false => format!("{kernel} on {rows} rows, scale {scaling}"),
            };
            let enough = log.enough();
            log.learn(what, || search.step(memory, &enough).map(|made| (made, search.least())))?;
            if log.is_late(memory)? && search.hurry() {
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
