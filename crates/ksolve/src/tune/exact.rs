//! The kernel itself in the place of a map: its kernel, length and penalty are found by machines of a few thousand rows.
//!
//! A map of few features wants a long length, as short ones need many landmarks; the kernel itself is best at a short one, and where the
//! target has steps at a rougher kernel. So these are chosen anew, behind the metric that was found: first every kernel, then the length of
//! the best one, then its penalty, each as long as the held-out error falls. The length stays for more rows, and so does lambda·n, which
//! stands for the noise of a target.
//!
//! *Cost*: about ten machines of [`ROWS`] rows, and of small tables as many for every fold.

use super::choice::{Choice, FIT, TRIALS};
use super::contest::{Contender, ContenderReport, shown};
use super::{Memory, Select, Tuned, log::Log, trial::Trials};
use crate::job::Fit;
use crate::metric::behind;
use crate::prepare::landmarks::settle;
use crate::request::MetricSource;
use crate::solver::parameter;
use crate::{Error, Result};
use kapprox::{Real, kernel::Spec, map::MapSpec};
use std::time::Duration;

/// Most rows that a machine of the comparison learns from, and rows of all folds together where the table has fewer.
const ROWS: usize = 5_000;

/// The penalties that every kernel is tried with, short lengths want the first and long ones the second; and the least.
const LAMBDAS: [f64; 2] = [1e-5, 1e-7];
const LEAST: f64 = 1e-9;

/// Share of the error below which a smaller penalty is worth its iterations.
const WORTH: f64 = 0.995;

/// Most steps of the length in one direction.
const STEPS: usize = 3;

/// Time of a machine of many rows, by iteration, as a share of what the squares of rows let expect from one of [`ROWS`], by a factor: .58 for
/// 41,157 rows x 9 on two cores.
const ITERATED: f64 = 0.6;

/// A machine that was tried.
#[derive(Clone, Debug)]
struct Tried {
    kernel: Spec,
    metric: MetricSource,
    form: String,
    lambda: Option<f64>,
    error: f64,
}

/// The walk from machine to machine.
struct Walk<'w, 'l, 'm, 'j, T> {
    choice: &'w Choice<'w>,
    trials: &'w Trials<T>,
    by: Select,
    folds: Vec<usize>,
    fit: Fit,
    name: String,
    log: &'w mut Log<'l>,
    memory: &'m mut Memory<'j>,
    best: Option<Tried>,
    problem: Option<String>,
    made: usize,
}

impl Choice<'_> {
    /// The best machine on the kernel itself of the winner's solver; `None` where the fit takes a map: where a penalty was given, the solver
    /// has no such machine, or memory or time do not allow it.
    ///
    /// # Errors
    /// Those of the listener; where the exact map was asked for, why no machine could be fitted.
    pub(super) fn exact<T: Real>(
        &self,
        (winner, tuned): (&Contender, &Tuned),
        (trials, by): (&Trials<T>, Select),
        log: &mut Log<'_>,
        memory: &mut Memory<'_>,
    ) -> Result<Option<Contender>> {
        let asked = self.base.map_spec().is_exact();
        let given = [parameter::LAMBDA.name, parameter::C.name].iter().any(|name| self.base.gives(name));
        let fit = winner.fit.clone().on_kernel()?;
        let lambdas = if given { vec![None] } else { LAMBDAS.map(Some).to_vec() };
        if !asked && !(self.exact && !given && !log.is_late() && self.allows(&fit)) {
            return Ok(None);
        }
        let folds: Vec<usize> = trials.folds().take((ROWS / trials.seen().max(1)).max(1)).collect();
        let name = format!("{} on the kernel itself", fit.family().name);
        let learned = folds.first().map_or(0, |fold| trials.learned(*fold, ROWS).len()).max(1);
        let seen = trials.seen() as u64;
        let times = |rows: u64| (rows as f64 / learned as f64).powi(2);
        let pairs = ITERATED * (times(tuned.rows) + times(seen)) / folds.len().max(1) as f64;
        let (choice, best, problem, made) = (self, None, None, 0);
        let mut walk = Walk { choice, trials, by, folds, fit, name, log, memory, best, problem, made };
        self.listener.begin(TRIALS, (lambdas.len() * (self.options.kernels.len() + 1) + 2 * STEPS) as u64);
        // a machine of n rows reads n² kernel values in every iteration
        let ends =
            |took: Duration, more: usize| asked || !self.listener.is_late(FIT, took.mul_f64(pairs + more as f64));
        let found = walk.walk((winner, tuned), &lambdas, &ends)?;
        self.listener.end();
        let Walk { fit, name, best, problem, log, .. } = walk;
        if !(found && ends(log.took, 0)) {
            return Ok(None);
        }
        let Some(best) = best.filter(|best| best.error.is_finite()) else {
            let why = problem.unwrap_or("no machine could be fitted".to_string());
            return if asked { Err(Error::option("map", "exact", why)) } else { Ok(None) };
        };
        let report = ContenderReport {
            solver: best.lambda.map_or(name.clone(), |lambda| format!("{name}, lambda {}", shown(lambda))),
            kernel: best.kernel.to_string(),
            metric: best.form,
            errors: vec![best.error],
            mean: Some(best.error),
            ..ContenderReport::default()
        };
        let fit = fit.kernel(best.kernel).metric(best.metric);
        let tried = Contender { fit, lambda: best.lambda, report };
        Ok(Some(Contender {
            fit: tried.for_rows(learned as u64, seen),
            lambda: tried.scaled(learned as u64, seen),
            ..tried
        }))
    }

    /// True where no other map was asked for, the whole table has a machine, and the memory holds it.
    fn allows(&self, fit: &Fit) -> bool {
        let plan = || fit.clone().set(parameter::LAMBDA.name, LAMBDAS[0]).plan(self.selected, self.run);
        *self.base.map_spec() == MapSpec::default() && plan().is_ok_and(|forecast| forecast.fits())
    }
}

impl<T: Real> Walk<'_, '_, '_, '_, T> {
    /// Walks to the best machine; false where the first one tells that the fit will not end in time.
    fn walk(
        &mut self,
        (winner, tuned): (&Contender, &Tuned),
        lambdas: &[Option<f64>],
        ends: &dyn Fn(Duration, usize) -> bool,
    ) -> Result<bool> {
        for (kernel, metric, form) in self.kernels(winner, tuned)? {
            for lambda in lambdas {
                let (kernel, metric, form) = (kernel.clone(), metric.clone(), form.clone());
                self.take(Tried { kernel, metric, form, lambda: *lambda, error: f64::INFINITY }, 1.0)?;
                if self.made == 1 && !ends(self.log.took, lambdas.len() * self.choice.options.kernels.len() + STEPS) {
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
            // where half the length is better, twice the length is not
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

    /// The kernels to begin with: the winner, the others behind its metric, and the best one without a metric.
    fn kernels(&self, winner: &Contender, tuned: &Tuned) -> Result<Vec<(Spec, MetricSource, String)>> {
        let (metric, form) = (winner.fit.metric_source().clone(), winner.report.metric.clone());
        let seen = self.trials.sample();
        let seen = metric.known().map_or(seen.clone(), |metric| behind(&seen, metric));
        let mut found = vec![(winner.fit.kernel_spec().clone(), metric.clone(), form.clone())];
        for kernel in self.choice.options.kernels.iter().filter(|kernel| **kernel != tuned.named) {
            found.push((settle(kernel, &seen, self.choice.options.training.seed)?, metric.clone(), form.clone()));
        }
        if let Some(plain) = winner.without_metric(tuned)? {
            found.push((plain.fit.kernel_spec().clone(), MetricSource::None, plain.report.metric));
        }
        Ok(found)
    }

    /// Tries a machine, unless the part is late; returns whether its error is below so much of the best one, in whose place it comes then.
    fn take(&mut self, machine: Tried, worth: f64) -> Result<bool> {
        if self.made > 0 && self.log.is_late() {
            return Ok(false);
        }
        let fit = self.fit.clone().kernel(machine.kernel.clone()).metric(machine.metric.clone());
        let fit = machine.lambda.iter().fold(fit, |fit, lambda| fit.set(parameter::LAMBDA.name, lambda));
        let Self { choice, trials, by, folds, memory, .. } = self;
        let errors = || folds.iter().map(|fold| trials.trial(&fit, *fold, *by, ROWS, choice.run)).sum::<Result<f64>>();
        let lambda = machine.lambda.map_or(String::new(), |lambda| format!(", lambda {}", shown(lambda)));
        let what = format!("{}, {}{lambda}", self.name, machine.kernel);
        let (error, problem) = self.log.trial(what, || {
            memory.recall_or(|| match errors() {
                Ok(sum) => Ok((Some(sum / folds.len().max(1) as f64), None)),
                Err(error) if error.is_interrupted() => Err(error),
                Err(error) => Ok((None, Some(error.to_string()))),
            })
        })?;
        self.problem = problem.or(self.problem.take());
        self.made += 1;
        let error = error.unwrap_or(f64::INFINITY);
        let falls = self.best.as_ref().is_none_or(|best| error < worth * best.error);
        if falls {
            self.best = Some(Tried { error, ..machine });
        }
        Ok(falls)
    }
}
