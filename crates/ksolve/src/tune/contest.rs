//! Solvers, each with a penalty, compared by whole fits on the rows of a search.
//!
//! Every contender is fitted on all folds but one and scored on that one; the better ones, at least [`STAY`], on a second fold; and
//! so on up to [`FOLDS`] folds. The least mean error over the folds wins. Contenders for classes are compared as [`Select`] says,
//! not by the squared error that a kernel was chosen by; so the best kernel without a metric competes again, and first: it is nearly the
//! default fit.
//!
//! *Cost*: the contenders of the first fold once, half of them again; each a fit at rank [`RANK`] on the rows of the sample.

use super::{Kernel, Select, Tuned, memory::Memory, trial::Trials};
use crate::job::{Fit, Run};
use crate::solver::{Solver, parameter, svm};
use crate::{Error, Result, folds::FoldSpec, lists::half_decade, request::MetricSource};
use kapprox::{Real, metric::Metric};
use std::{ops::RangeInclusive, sync::Arc};

/// The name that stands for every solver of the target's task.
pub const ANY: &str = "any";

/// Largest rank of a trial: penalties and solvers are told apart by it, and it is quick.
pub(super) const RANK: usize = 500;

const FOLDS: usize = 3;

const STAY: usize = 3;

/// Trials that are made however late it is: of the first solver without the metric, and with it.
const FEWEST: usize = 2;

/// Penalties that are compared for solvers with a single one, the default first.
const LAMBDAS: [f64; 4] = [1e-6, 1e-5, 1e-7, 1e-4];

/// Penalties of a fit below and above the likely ones, two per decade.
const BELOW: i64 = 2;
const ABOVE: i64 = 1;

/// The least penalty that is compared, in halves of a decade: 1e-9.
const LEAST: i64 = -18;

/// A penalty with which f32 mostly has a factor, in halves of a decade: 1e-6.
const SOUND: i64 = -12;

/// Numbers of classes for which a machine for every pair of classes is tried.
const PAIRED: RangeInclusive<usize> = 3..=10;

/// A fit that takes part in a contest.
#[derive(Clone)]
pub(super) struct Contender {
    /// The solver, without its penalty: `svm, pairs`.
    pub(super) name: String,
    /// At the ranks that were asked for.
    pub(super) fit: Fit,
    /// The penalty that competes, of a solver with a single one.
    pub(super) lambda: Option<f64>,
    pub(super) report: ContenderReport,
}

/// What is told of a contender.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ContenderReport {
    /// The solver with the parameters that were tried: `svm, lambda 1e-5`.
    pub solver: String,
    /// The kernel, every parameter a number.
    pub kernel: String,
    /// The metric before it: none, given, full, diagonal, low-rank(5).
    pub metric: String,
    /// Its errors on the folds: what was compared, the less the better.
    pub errors: Vec<f64>,
    /// Their mean; `None` where a fit failed.
    pub mean: Option<f64>,
    /// Their standard deviation over folds; `None` for a single fold.
    pub spread: Option<f64>,
    /// Why it could not be fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True for the winner.
    pub chosen: bool,
    /// Why it won, if its mean is not the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Contender {
    pub(super) fn metric(&self) -> Option<&Arc<Metric>> {
        self.fit.metric.known()
    }

    /// The contender for `to` rows where trials had `from`. The penalty of features falls with the root of the number of rows, the rate that is best
    /// for a function of the kernel's space (Caponnetto, De Vito, "Optimal rates for the regularized least-squares algorithm", 2007). On the kernel
    /// itself lambda·n stays, the variance of the noise in the words of Gaussian processes.
    ///
    /// A contender that compares penalties of its own compares those around the one that it `tested` best, not all, as each is a factor of every fold.
    pub(super) fn for_rows(self, from: u64, to: u64, tested: Option<f64>) -> Self {
        let share = (from.max(1) as f64 / to.max(1) as f64).min(1.0);
        let factor = if self.fit.map_spec().is_exact() { share } else { share.sqrt() };
        let lambda = self.lambda.map(|lambda| lambda * factor);
        let own = tested.filter(|_| !self.fit.gives_penalty()).map(|tested| around(tested, share));
        let penalties = lambda.map(shown).or(own);
        let fit = penalties.into_iter().fold(self.fit, |fit, lambda| fit.set(parameter::LAMBDA.name, lambda));
        Self { fit, lambda, ..self }
    }

    /// The same solver at the same penalty with the best kernel that has no metric; `None` where none was learned.
    pub(super) fn without_metric(&self, tuned: &Tuned) -> Result<Option<Self>> {
        let behind = self.fit.metric.known().is_some();
        let Some(kernel) = tuned.best_without_metric().filter(|_| behind) else { return Ok(None) };
        let kernel = Kernel::parse(kernel)?;
        let report = ContenderReport::new(self.report.solver.clone(), &kernel, "none");
        let fit = self.fit.clone().kernel(kernel).metric(MetricSource::None);
        Ok(Some(Self { name: self.name.clone(), fit, lambda: self.lambda, report }))
    }

    /// Wins in the place of another; the reports say so, and `why`.
    pub(super) fn instead_of(mut self, other: &Self, reports: &mut Vec<ContenderReport>, why: Option<String>) -> Self {
        for report in reports.iter_mut().filter(|report| **report == other.report) {
            (report.chosen, report.why) = (false, None);
        }
        (self.report.chosen, self.report.why) = (true, why.clone());
        let same = |report: &&mut ContenderReport| {
            (&report.solver, &report.kernel, &report.metric)
                == (&self.report.solver, &self.report.kernel, &self.report.metric)
        };
        match reports.iter_mut().find(same) {
            Some(report) => {
                (report.chosen, report.why) = (true, why);
                self.report = report.clone();
            }
            None => reports.push(self.report.clone()),
        }
        self
    }
}

impl ContenderReport {
    pub(super) fn new(solver: String, kernel: &Kernel, metric: &str) -> Self {
        Self { solver, kernel: kernel.to_string(), metric: metric.to_string(), ..Self::default() }
    }

    /// False where the search ended before.
    pub fn was_tried(&self) -> bool {
        !self.errors.is_empty() || self.problem.is_some()
    }

    fn add(&mut self, error: f64) {
        self.errors.push(error);
        let n = self.errors.len() as f64;
        let mean = self.errors.iter().sum::<f64>() / n;
        let squares: f64 = self.errors.iter().map(|error| (error - mean).powi(2)).sum();
        self.mean = Some(mean);
        self.spread = (self.errors.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
    }
}

/// A contest that goes on trial by trial.
pub(super) struct Contest<'a, T> {
    trials: &'a Trials<T>,
    by: Select,
    contenders: Vec<Contender>,
    largest: usize,
    folds: Vec<usize>,
    round: usize,
    alive: Vec<usize>,
    /// Number of those that were tried on the fold at hand.
    tried: usize,
}

impl<'a, T: Real> Contest<'a, T> {
    /// A contest between these fits, tried at `rank` at most; one alone wins without a trial.
    pub(super) fn new(trials: &'a Trials<T>, by: Select, contenders: Vec<Contender>, rank: usize) -> Self {
        let folds = if contenders.len() > 1 { trials.folds().take(FOLDS).collect() } else { Vec::new() };
        let alive = (0..contenders.len()).collect();
        Self { trials, by, contenders, largest: rank.min(RANK), folds, round: 0, alive, tried: 0 }
    }

    /// Most trials that are still to come.
    pub(super) fn trials(&self) -> usize {
        let rounds = std::iter::successors(Some(self.alive.len()), |alive| Some(stay(*alive)));
        rounds.take(self.folds.len() - self.round).sum::<usize>() - self.tried
    }

    /// The contender that is tried next; `None` at the end.
    pub(super) fn upcoming(&self) -> Option<&Contender> {
        (self.round < self.folds.len()).then(|| &self.contenders[self.alive[self.tried]])
    }

    /// Tries the next contender, unless `memory` recalls its error. A fit that fails puts its contender last.
    pub(super) fn step(&mut self, run: &Run<'_>, memory: &mut Memory<'_>) -> Result<()> {
        let Some(fold) = self.folds.get(self.round) else { return Ok(()) };
        let contender = &mut self.contenders[self.alive[self.tried]];
        let fit = contender.fit.clone().at_rank(self.largest);
        let tried = memory.recall_or(|| match self.trials.trial(&fit, *fold, self.by, usize::MAX, run) {
            Ok(error) => Ok((Some(error), None)),
            Err(error) if error.is_interrupted() || matches!(error, Error::Store(kstore::Error::OverBudget { .. })) => {
                Err(error)
            }
            Err(error) => Ok((None, Some(error.to_string()))),
        })?;
        match tried {
            (Some(error), _) => contender.report.add(error),
            (None, problem) => (contender.report.mean, contender.report.problem) = (None, problem),
        }
        self.tried += 1;
        if self.tried == self.alive.len() {
            (self.tried, self.round) = (0, self.round + 1);
            self.rank();
            self.alive.truncate(stay(self.alive.len()));
        }
        Ok(())
    }

    /// Ends the contest with the trials that were made, [`FEWEST`] at least; returns whether any were left.
    pub(super) fn hurry(&mut self) -> bool {
        let left = self.round < self.folds.len() && (self.round > 0 || self.tried >= FEWEST);
        if left && self.round == 0 {
            self.alive.truncate(self.tried);
        }
        if left {
            self.rank();
            (self.tried, self.round) = (0, self.folds.len());
        }
        left
    }

    /// Sorts those that are left by their mean errors on the folds that all of them were tried on; of equal ones the one that was named first. Who has
    /// none comes last.
    fn rank(&mut self) {
        let reports: Vec<&ContenderReport> = self.alive.iter().map(|one| &self.contenders[*one].report).collect();
        let mut ranked: Vec<(f64, usize)> = means(&reports).into_iter().zip(self.alive.iter().copied()).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.alive = ranked.into_iter().map(|(_, one)| one).collect();
    }

    /// Ends the contest and returns the winner, and all that took part.
    pub(super) fn finish(mut self) -> (Contender, Vec<Contender>) {
        let mean = |contender: &Contender| contender.report.mean.unwrap_or(f64::INFINITY);
        let least = self.contenders.iter().map(mean).fold(f64::INFINITY, f64::min);
        let winner = &mut self.contenders[self.alive[0]];
        winner.report.chosen = true;
        winner.report.why = (mean(winner) > least).then(|| {
            "the means are of different numbers of folds; this one is the least on those that two share".into()
        });
        (winner.clone(), self.contenders)
    }
}

/// The mean errors on the folds that all were tried on; infinite for a fit that failed.
fn means(reports: &[&ContenderReport]) -> Vec<f64> {
    let whole = reports.iter().filter(|report| report.mean.is_some());
    let shared = whole.map(|report| report.errors.len()).min().unwrap_or(0);
    let mean = |report: &&ContenderReport| match report.mean {
        Some(_) => report.errors[..shared].iter().sum::<f64>() / shared.max(1) as f64,
        None => f64::INFINITY,
    };
    reports.iter().map(mean).collect()
}

fn stay(alive: usize) -> usize {
    alive.div_ceil(2).max(STAY).min(alive)
}

/// The fits that compete after a search: `solver`, or for [`ANY`] every solver of the task, at several penalties unless one was
/// given, behind the metric that was found and, for [`ANY`], without one.
pub(super) fn contenders(solver: &str, base: &Fit, tuned: &Tuned, by: Select) -> Result<Vec<Contender>> {
    let best = (tuned.kernel.clone(), tuned.source(), tuned.form.as_str());
    let plain = tuned.best_without_metric().filter(|_| tuned.metric.is_some() && solver == ANY).map(Kernel::parse);
    let plain = plain.transpose()?.map(|kernel| (kernel, MetricSource::None, "none"));
    let (behind, mut found): (Vec<_>, Vec<Contender>) = (plain.into_iter().chain([best]).collect(), Vec::new());
    for (fit, lambda, name) in fits(solver, base, tuned, by)? {
        // side by side, so that a search which is cut short has tried both
        for (kernel, metric, form) in &behind {
            let report = ContenderReport::new(titled(&name, lambda), kernel, form);
            let fit = fit.clone().kernel(kernel.clone()).metric(metric.clone());
            found.push(Contender { name: name.clone(), fit, lambda, report });
        }
    }
    Ok(found)
}

/// The solvers, each with the penalty that it competes with and a name; every solver at its first penalty, then at its second, and so on.
fn fits(solver: &str, base: &Fit, tuned: &Tuned, by: Select) -> Result<Vec<(Fit, Option<f64>, String)>> {
    let names = match (solver, tuned.classes) {
        (ANY, 0) => vec!["ridge"],
        (ANY, _) if by.needs_probabilities() => vec!["logistic", "svm"],
        (ANY, _) => vec!["logistic", "ridge", "svm"],
        (name, _) => vec![name],
    };
    let mut of_solvers = Vec::new();
    for name in names {
        let fit = if base.family().name == name { base.clone() } else { base.for_solver(name)? };
        // the search has chosen the penalty of a surface
        let has_surface = fit.family().reads(&parameter::RANKS);
        let fit = if has_surface && tuned.folds != FoldSpec::None {
            fit.set(parameter::FOLDS.name, &tuned.folds)
        } else {
            fit
        };
        let free = fit.family().reads(&parameter::LAMBDA) && !fit.gives_penalty();
        let lambdas: &[f64] = if free && !has_surface { &LAMBDAS } else { &[] };
        let learns = solver == ANY && by.needs_probabilities() && fit.family().reads(&parameter::PROBABILITIES);
        let fit = if learns { fit.set(parameter::PROBABILITIES.name, true) } else { fit };
        // pairs of classes have no probabilities
        let paired = solver == ANY && !learns && fit.family().reads(&svm::PAIRS) && PAIRED.contains(&tuned.classes);
        for pairs in [false, true].into_iter().filter(|pairs| paired || !pairs) {
            let mut found = Vec::new();
            let fit = if pairs { fit.clone().set(svm::PAIRS.name, true) } else { fit.clone() };
            let told = if pairs { format!("{name}, pairs") } else { name.to_string() };
            let at = |lambda: &f64| (fit.clone().set(parameter::LAMBDA.name, lambda), Some(*lambda), told.clone());
            found.extend(lambdas.iter().map(at));
            found.extend(lambdas.is_empty().then(|| (fit.clone(), None, told.clone())));
            of_solvers.push(found);
        }
    }
    let most = of_solvers.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..most).flat_map(|i| of_solvers.iter().filter_map(move |found| found.get(i).cloned())).collect())
}

/// True where the solver gives probabilities as it stands.
pub(super) fn has_probabilities(fit: &Fit) -> Result<bool> {
    Ok(Solver::<f64>::has_probabilities(&*fit.family().solver(fit.settings()?)?))
}

/// A solver with the penalty that competes: `svm, lambda 1e-5`.
pub(super) fn titled(name: &str, lambda: Option<f64>) -> String {
    lambda.map_or(name.to_string(), |lambda| format!("{name}, lambda {}", shown(lambda)))
}

/// The penalties, two per decade, that are likely on all rows where `lambda` was best on a share of them: lambda falls with the root of the rows or
/// as lambda·n stays, and the higher rank of a fit wants less rather than more.
fn around(lambda: f64, share: f64) -> String {
    let nearest = |lambda: f64| (2.0 * lambda.max(f64::MIN_POSITIVE).log10()).round() as i64;
    // f32 has no factor with smaller ones, and often none with the least
    let least = (nearest(lambda * share) - BELOW).max(LEAST);
    let most = (nearest(lambda * share.sqrt()) + ABOVE).max(SOUND);
    format!("{}..{}", shown(half_decade(least)), shown(half_decade(most)))
}

/// A penalty as it would be typed: `1e-5`.
fn shown(lambda: f64) -> String {
    format!("{lambda:e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::ridge::Ridge;

    #[test]
    fn errors_are_compared_on_the_folds_that_all_were_tried_on() {
        let tried = |errors: &[f64]| {
            let mut report = ContenderReport::default();
            errors.iter().for_each(|error| report.add(*error));
            report
        };
        // the second fold is the harder one, and the last contender was not tried there
        let reports = [tried(&[0.2, 0.6]), tried(&[0.3, 0.5]), tried(&[0.25]), ContenderReport::default()];
        assert_eq!(means(&reports.each_ref()), [0.2, 0.3, 0.25, f64::INFINITY]);
        assert_eq!(means(&[&reports[0], &reports[1]]), [0.4, 0.4]);
    }

    #[test]
    fn a_penalty_falls_with_the_root_of_the_rows() {
        let fit = Fit::solver("svm").unwrap();
        let of = |fit: Fit, lambda| Contender { name: String::new(), fit, lambda, report: ContenderReport::default() };
        let penalty = |to: u64| of(fit.clone(), Some(1e-4)).for_rows(100, to, None).fit.settings().unwrap().penalty();
        assert_eq!(penalty(10_000), crate::solver::Penalty::Lambda(1e-5));
        // and does not rise for fewer
        assert_eq!(penalty(25), crate::solver::Penalty::Lambda(1e-4));
        // on the kernel itself with the rows
        let exact = of(fit.clone().on_kernel().unwrap(), Some(1e-4)).for_rows(100, 200, None);
        assert_eq!(exact.lambda, Some(5e-5));
        assert_eq!(exact.fit.settings().unwrap().penalty(), crate::solver::Penalty::Lambda(5e-5));
        // one that compares penalties has those between both rules, one decade less and half a decade more
        let ridge = of(Fit::solver("ridge").unwrap(), None).for_rows(100, 10_000, Some(1e-4));
        let lambdas = Ridge::new(ridge.fit.settings().unwrap()).lambdas;
        assert_eq!((lambdas.len(), lambdas[0], lambdas[5]), (6, 1e-7, 3.1622776601683795e-5));
        let given = of(fit.clone().set("C", 3), None);
        assert_eq!(given.for_rows(100, 10_000, None).fit.settings().unwrap().penalty(), crate::solver::Penalty::C(3.0));
    }
}
