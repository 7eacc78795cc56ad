//! Selection of kernel, length scale and regularisation parameter for the exact kernel, by fits on
//! a few thousand rows.
//!
//! A map with few features needs a large length scale, because small ones need many landmarks. The
//! exact kernel is best at a small length scale and, if the target has steps, with a rougher
//! kernel. Therefore these are chosen again, with the learned metric: first the kernel, then the
//! length scale of the best kernel, then its regularisation parameter, each while the held-out
//! error falls. For more rows, the length scale stays the same, and so does lambda·n, the noise
//! variance of the target.
//!
//! *Cost*: about ten exact fits on [`ROWS`] rows; for small tables this many per fold.

use super::choice::Choice;
use super::chosen::Part;
use super::contest::{Contender, ContenderReport, RANK, titled};
use super::{Memory, Select, Tuned, log::Log, trial::Trials};
use crate::job::{Fit, Run};
use crate::metric::behind;
use crate::prepare::landmarks::settle;
use crate::request::MetricSource;
use crate::solver::{parameter, svm};
use crate::{Error, Result};
use kapprox::{Real, kernel::Kernel, map::MapSpec};
use kstore::Selected;

/// Maximum number of training rows of a trial; in smaller tables, of all folds together.
const ROWS: usize = 5_000;

/// Regularisation parameters that every kernel is tried with: 1e-3, for noisy targets, only if the
/// trials have fewer than [`ROWS`] rows; then one for small and one for large length scales.
/// [`LEAST`] is the smallest one that is tried.
const LAMBDAS: [f64; 3] = [1e-3, 1e-5, 1e-7];
const LEAST: f64 = 1e-9;

/// A smaller regularisation parameter must reduce the error below this fraction to be worth its
/// iterations.
const WORTH: f64 = 0.995;

/// Maximum number of steps of the length scale in one direction.
const STEPS: usize = 3;

/// Exponent of the number of rows in the time of an exact fit. In ridge regression, 36,000 rows x 8
/// took 32 times as long as 5,000 rows, 41,157 x 9 from 39 to 75 times, and 57,248 x 27 137 times.
/// A one-vs-one classifier sees few of the rows: 60,000 x 784 with ten classes took 27 times as
/// long as 5,000 rows.
const GROWTH: f64 = 1.9;
const GROWTH_OF_PAIRS: f64 = 1.5;

#[derive(Clone, Debug)]
struct Tried {
    kernel: Kernel,
    metric: MetricSource,
    form: String,
    lambda: Option<f64>,
    error: f64,
}

/// A coordinate search over exact fits.
struct Walk<'w, 'l, 'm, 'j, T> {
    choice: &'w Choice<'w>,
    trials: &'w Trials<T>,
    by: Select,
    folds: Vec<usize>,
    /// Name of the solver, and its fit without kernel, metric and regularisation parameter.
    name: String,
    fit: Fit,
    /// Time of the final fit and its test, in units of one trial; `None` if the exact map was
    /// requested, so that any time is allowed.
    whole: Option<f64>,
    log: &'w mut Log<'l>,
    memory: &'m mut Memory<'j>,
    best: Option<Tried>,
    problem: Option<String>,
}

impl Choice<'_> {
    /// Returns the best exact solver: the exact solver of the winner or, if it has none, of the
    /// best contender that has one. Returns `None` if the fit should use a map: lambda is set, no
    /// contender has an exact solver, memory or time do not suffice, the rows are too few to
    /// compare error rates, or the winner is better on the same number of rows.
    ///
    /// # Errors
    /// Errors of the listener; if the exact map was requested, the reason why no exact fit
    /// succeeded.
    pub(super) fn exact<T: Real>(
        &self,
        (winner, tried, tuned): (&Contender, &[Contender], &Tuned),
        (trials, by): (&Trials<T>, Select),
        log: &mut Log<'_>,
        memory: &mut Memory<'_>,
    ) -> Result<Option<(Contender, Option<String>)>> {
        let asked = self.base.map_spec().is_exact();
        if !asked && (!self.exact || self.base.gives_penalty() || *self.base.map_spec() != MapSpec::default()) {
            return Ok(None);
        }
        log.part = Part::Machines;
        if !asked && log.is_late(memory)? {
            return Ok(None);
        }
        let Some((name, fit, fits)) = machine(tried, !self.base.gives_penalty(), self.selected, self.run)? else {
            let why = "none of the tried solvers supports the exact kernel; leave `map` out";
            return if asked { Err(Error::option("map", "exact", why)) } else { Ok(None) };
        };
        let few = tuned.classes > 0 && trials.seen() < ROWS;
        if !asked && (!fits || few) {
            return Ok(None);
        }
        let folds: Vec<usize> = trials.folds().take((ROWS / trials.seen().max(1)).max(1)).collect();
        let learned = folds.first().map_or(0, |fold| trials.learned(*fold, ROWS).len()).max(1);
        let lambdas = match self.base.gives_penalty() {
            true => vec![None],
            false => LAMBDAS.into_iter().skip(usize::from(learned == ROWS)).map(Some).collect(),
        };
        let seen = trials.seen() as u64;
        let growth = if fit.gives(svm::PAIRS.name) { GROWTH_OF_PAIRS } else { GROWTH };
        let times = |rows: u64| (rows as f64 / learned as f64).powf(growth);
        // the final fit, and the test before it
        let whole = (times(tuned.rows) + times(seen)) / folds.len().max(1) as f64;
        let (choice, best, problem) = (self, None, None);
        let whole = (!asked).then_some(whole);
        let mut walk = Walk { choice, trials, by, folds, name, fit, whole, log, memory, best, problem };
        let steps = lambdas.len() * (self.options.kernels.len() + 1) + 2 * STEPS;
        self.listener.begin(Part::Machines, steps as u64);
        let found = walk.walk((winner, tuned), &lambdas)?;
        self.listener.end();
        if !(found && walk.ends(0)?) {
            return Ok(None);
        }
        let rival = if asked { None } else { walk.rival(winner)? };
        if !asked && walk.best.as_ref().is_none_or(|best| rival.is_some_and(|rival| best.error >= rival)) {
            return Ok(None);
        }
        let Walk { name, fit, best, problem, .. } = walk;
        let Some(best) = best.filter(|best| best.error.is_finite()) else {
            let why = problem.unwrap_or("no exact fit succeeded".to_string());
            return if asked { Err(Error::option("map", "exact", why)) } else { Ok(None) };
        };
        let report = ContenderReport::new(titled(&name, best.lambda), &best.kernel, &best.form);
        let report = ContenderReport { errors: vec![best.error], mean: Some(best.error), ..report };
        let fit = fit.kernel(best.kernel).metric(best.metric);
        let fit = Contender { name, fit, lambda: best.lambda, report };
        let why =
            rival.map(|rival| format!("{} has error {rival:.4e} on the same number of rows", winner.report.solver));
        Ok(Some((fit.for_rows(learned as u64, seen, None), why)))
    }
}

/// Returns the exact solver of the winner or, if it has none, of the best contender that has one;
/// with its name and whether it fits the memory. If `free`, its regularisation parameter is still
/// to be chosen.
fn machine(tried: &[Contender], free: bool, selected: &Selected, run: &Run<'_>) -> Result<Option<(String, Fit, bool)>> {
    let mut order: Vec<&Contender> = tried.iter().collect();
    let mean = |contender: &Contender| contender.report.mean.unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| b.report.chosen.cmp(&a.report.chosen).then(mean(a).total_cmp(&mean(b))));
    for Contender { name, fit, .. } in order {
        let fit = fit.clone().on_kernel()?;
        let whole = if free { fit.clone().set(parameter::LAMBDA.name, LAMBDAS[1]) } else { fit.clone() };
        if let Ok(plan) = whole.plan(selected, run) {
            return Ok(Some((format!("{name} on the exact kernel"), fit, plan.fits())));
        }
    }
    Ok(None)
}

impl<T: Real> Walk<'_, '_, '_, '_, T> {
    /// Searches for the best exact solver; false if the first trial predicts that the final fit
    /// exceeds the time.
    fn walk(&mut self, (winner, tuned): (&Contender, &Tuned), lambdas: &[Option<f64>]) -> Result<bool> {
        let kernels = self.kernels(winner, tuned)?;
        let more = lambdas.len() * kernels.len() + STEPS;
        for machine in kernels {
            for lambda in lambdas {
                let first = self.best.is_none();
                self.take(Tried { lambda: *lambda, ..machine.clone() }, 1.0)?;
                if first && !self.ends(more)? {
                    return Ok(false);
                }
            }
        }
        for factor in [0.5, 2.0] {
            let mut steps = 0;
            while let Some(best) = self.best.clone().filter(|_| steps < STEPS) {
                steps += 1;
                if !self.take(Tried { kernel: best.kernel.stretched(factor)?, ..best }, 1.0)? {
                    break;
                }
            }
            // if half the length scale is better, twice the length scale is not
            if steps > 1 {
                break;
            }
        }
        for (factor, worth) in [(0.1, WORTH), (10.0, 1.0)] {
            let mut fell = true;
            while let Some((best, lambda)) =
                self.best.clone().filter(|_| fell).and_then(|b| Some((b.clone(), b.lambda?)))
            {
                let lambda = lambda * factor;
                fell = (LEAST..1.0).contains(&lambda) && self.take(Tried { lambda: Some(lambda), ..best }, worth)?;
            }
        }
        Ok(true)
    }

    /// Returns true if the final fit is likely to end in time after `more` trials.
    fn ends(&mut self, more: usize) -> Result<bool> {
        let Some(whole) = self.whole else { return Ok(true) };
        Ok(!self.log.is_fit_late(self.log.took.mul_f64(whole + more as f64), self.memory)?)
    }

    /// Returns the error of the winner on the same number of rows; `None` if the fit fails.
    fn rival(&mut self, winner: &Contender) -> Result<Option<f64>> {
        self.error(&winner.fit.clone().at_rank(RANK), winner.report.solver.clone())
    }

    /// Returns the initial kernels: the winner, the others with its metric, and the best kernel
    /// without a metric.
    fn kernels(&self, winner: &Contender, tuned: &Tuned) -> Result<Vec<Tried>> {
        let machine = |kernel: Kernel, of: &Contender| {
            let (metric, form) = (of.fit.metric_source().clone(), of.report.metric.clone());
            Tried { kernel, metric, form, lambda: None, error: f64::INFINITY }
        };
        let mut seen = self.trials.sample();
        if let Some(metric) = winner.metric() {
            seen = behind(&seen, metric);
        }
        let mut found = vec![machine(winner.fit.kernel_spec().clone(), winner)];
        for kernel in self.choice.options.kernels.iter().filter(|kernel| **kernel != tuned.named) {
            found.push(machine(settle(kernel, &seen, self.choice.options.training.seed)?, winner));
        }
        if let Some(plain) = winner.without_metric(tuned)? {
            found.push(machine(plain.fit.kernel_spec().clone(), &plain));
        }
        Ok(found)
    }

    /// Tries an exact fit unless the part is late. It becomes the best if its error is below
    /// `worth` times the best error; returns whether it did.
    fn take(&mut self, machine: Tried, worth: f64) -> Result<bool> {
        if self.best.is_some() && self.log.is_late(self.memory)? {
            return Ok(false);
        }
        let fit = self.fit.clone().kernel(machine.kernel.clone()).metric(machine.metric.clone());
        let fit = machine.lambda.iter().fold(fit, |fit, lambda| fit.set(parameter::LAMBDA.name, lambda));
        let what = titled(&format!("{}, {}", self.name, machine.kernel), machine.lambda);
        let error = self.error(&fit, what)?.unwrap_or(f64::INFINITY);
        let falls = self.best.as_ref().is_none_or(|best| error < worth * best.error);
        if falls {
            self.best = Some(Tried { error, ..machine });
        }
        Ok(falls)
    }

    /// Returns the mean error of a fit over the folds; `None` if the fit fails.
    fn error(&mut self, fit: &Fit, what: String) -> Result<Option<f64>> {
        let Self { choice, trials, by, folds, memory, .. } = self;
        let errors = || folds.iter().map(|fold| trials.trial(fit, *fold, *by, ROWS, choice.run)).sum::<Result<f64>>();
        let (error, problem) = self.log.trial(what, || {
            memory.recall_or(|| match errors() {
                Ok(sum) => Ok((Some(sum / folds.len().max(1) as f64), None)),
                Err(error) if error.is_interrupted() => Err(error),
                Err(error) => Ok((None, Some(error.to_string()))),
            })
        })?;
        self.problem = problem.or(self.problem.take());
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::{Selection, Table};

    #[test]
    fn where_the_winner_has_no_machine_the_best_solver_with_one_has() {
        let contender = |name: &str, mean: f64, chosen: bool| {
            let fit = Fit::solver(name).unwrap().kernel(Kernel::parse("gaussian(sigma=1)").unwrap());
            let fit = if name == "ridge" { fit.set("task", "classification") } else { fit };
            let report = ContenderReport { mean: Some(mean), chosen, ..ContenderReport::default() };
            Contender { name: name.to_string(), fit, lambda: None, report }
        };
        let x: Vec<f64> = (0..200).map(f64::from).collect();
        let y: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        let selection = Selection { targets: vec!["y".to_string()], class_target: true, ..Selection::default() };
        let selected = Table::from_rows(&x, 1, &y).unwrap().select(&selection).unwrap();
        let first = |tried: &[Contender]| machine(tried, true, &selected, &Run::new()).unwrap().map(|found| found.0);
        let of =
            |svm: f64| [contender("logistic", 0.1, true), contender("svm", svm, false), contender("ridge", 0.2, false)];
        assert_eq!(first(&of(0.15)).as_deref(), Some("svm on the exact kernel"));
        assert_eq!(first(&of(0.25)).as_deref(), Some("ridge on the exact kernel"));
        // the winner comes first, even if its mean is higher
        let won = [contender("svm", 0.3, true), contender("ridge", 0.2, false)];
        assert_eq!(first(&won).as_deref(), Some("svm on the exact kernel"));
        assert_eq!(first(&of(0.15)[..1]), None);
    }
}
