//! The three SVM solvers on rows in memory: classification, regression and novelty detection.

use super::super::classes::Svm;
use super::super::lagrangian::Terms;
use super::super::loss::{Loss, Row};
use super::super::svr::{HELD_OUT_MSE, Svr, moments};
use super::super::{HELD_OUT, one_class::OneClass};
use super::{Exact, Expansion, Machines, Paths, SolveOptions};
use crate::features::FitData;
use crate::solver::held_out::{self, HeldOutScores};
use crate::solver::{Found, Penalty};
use crate::{Error, Intercept, Result, Targets};
use kapprox::Real;

fn warn_of_gap<T: Real>(sets: &[Paths], gap: f64, data: &FitData<'_, T>, whose: &str) {
    let last = sets.iter().flatten().flatten().filter_map(|found| Some((*found.gaps.last()?, found.rounds)));
    let worst = last.fold((0.0, 0), |worst, one| if one.0 > worst.0 { one } else { worst });
    if worst.0 > gap {
        data.resources.stages.warn(format!(
            "the relative duality gap{whose} is {:.1e} after {} rounds, above the requested {gap:.1e}; raise `steps` \
             or `gap`, or lower the cost",
            worst.0, worst.1
        ));
    }
}

impl<T: Real> Exact<'_, T> {
    /// Scores the rows of every fold by SVMs fitted without them; `sets` returns the SVMs to solve.
    fn held_out<'m>(
        &self,
        sets: &dyn Fn(Option<u16>) -> Vec<Machines<'m, T>>,
        terms: &[Terms],
        (t, steps): (usize, usize),
    ) -> Result<HeldOutScores<T>> {
        let data = self.data;
        let mut found = HeldOutScores::new(self.rows.len(), t, terms.len());
        let folds = data.folds.count() as u16;
        let machines = t as u64 * u64::from(folds);
        let stage = data.resources.stages.steps("SVMs without a fold", machines);
        for fold in 0..folds {
            let sets = sets(Some(fold));
            let paths = self.solve(&sets, SolveOptions { terms, steps, prove: false }, &*stage)?;
            warn_of_gap(&paths, terms[0].gap, data, HELD_OUT);
            for penalty in 0..terms.len() {
                let functions: Expansion<T> = self.expansion(at_penalty(&sets, &paths, penalty));
                let scores = &mut found.scores[penalty];
                self.score(fold, &functions, |i, values| {
                    let to = &mut scores[i * t..(i + 1) * t];
                    to.iter_mut().zip(values).for_each(|(to, value)| *to = T::from_f64(*value));
                });
            }
        }
        Ok(found)
    }

    /// Solves the SVMs on all rows at one regularisation parameter, with their report. `deviations`
    /// are the standard deviations of the targets.
    fn final_fit(
        &self,
        sets: &[Machines<'_, T>],
        terms: Terms,
        steps: usize,
        lambda: Option<f64>,
        deviations: &[f64],
    ) -> Result<Found<T>> {
        let stage = self.data.resources.stages.steps("SVMs", deviations.len() as u64);
        let paths = self.solve(sets, SolveOptions { terms: &[terms], steps, prove: true }, &*stage)?;
        warn_of_gap(&paths, terms.gap, self.data, "");
        // reports mean loss plus lambda ‖w‖², or the one-class objective unchanged
        let unit = lambda.map_or(1.0, |lambda| 2.0 * lambda);
        Ok(self.fitted(at_penalty(sets, &paths, 0), (unit, lambda), deviations))
    }
}

/// Returns the SVMs of all sets at one regularisation parameter, in order.
fn at_penalty<'f, T>(
    sets: &'f [Machines<'_, T>],
    paths: &'f [Paths],
    penalty: usize,
) -> impl Iterator<Item = (&'f [usize], &'f super::SolvedMachine)> + Clone {
    let of = move |(set, path): (&'f Machines<'_, T>, &'f Paths)| {
        path.iter().map(move |penalties| (&set.at[..], &penalties[penalty]))
    };
    sets.iter().zip(paths).flat_map(of)
}

impl Svm {
    /// Fits with the exact kernel; `None` if the data has features of a map instead of rows.
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Found<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        let (Some(classes), Some(codes)) = (data.classes(), exact.rows.class_codes()) else {
            return Err(Error::TooFewClasses { classes: 0 });
        };
        if self.squared {
            // its multipliers are unbounded, and along a negative eigenvalue the dual has no
            // minimum
            kapprox::kernel::require_positive_definite(
                &*exact.wide,
                "a support vector machine with `loss` squared-hinge",
            )?;
        }
        let k = classes.labels().len();
        if let Some(i) = codes.iter().position(|code| *code as usize >= k) {
            return Err(Error::UnknownClass { row: exact.rows.row(i) });
        }
        let weights = self.class_weight.of(codes, &exact.weights, classes)?;
        let machines = self.machines(k);
        let terms = self.terms(1.0);
        let pairs = machines.iter().any(|(_, other)| other.is_some());
        let of_class = |held: Option<u16>| {
            let mut at = vec![Vec::new(); k];
            exact.outside(held).into_iter().for_each(|i| at[codes[i] as usize].push(i));
            at
        };
        let all = of_class(None);
        let within = if pairs { exact.within(&all, self.intercept) } else { Vec::new() };
        let sets = |held: Option<u16>, penalties: &[Penalty]| -> Vec<Machines<'_, T>> {
            let outside = exact.outside(held);
            let weight = exact.weights.total(outside.iter().copied());
            let costs: Vec<f64> = penalties.iter().map(|penalty| penalty.c(weight)).collect();
            let (machines, weights, of_rows) = (&machines, &weights, &exact.weights);
            let row = move |costs: &[f64], class: u32, at: usize, i: usize| Row {
                y: if codes[i] == class { 1.0 } else { -1.0 },
                c: costs[at] * weights[codes[i] as usize] * of_rows.of(i),
            };
            if !pairs {
                let count = machines.len();
                return vec![Machines::new(outside, count, move |machine, at, i| {
                    row(&costs, machines[machine].0, at, i)
                })];
            }
            let of_class = of_class(held);
            let pair = |(class, other): &(u32, Option<u32>)| {
                let (class, other) = (*class, other.unwrap_or_default() as usize);
                let (low, high) = (&of_class[other], &of_class[class as usize]);
                let costs = costs.clone();
                let known = |class: usize| within[class].as_deref().filter(|_| held.is_none());
                Machines {
                    at: [&low[..], &high[..]].concat(),
                    parts: vec![low.len(), high.len()],
                    known: vec![known(other), known(class as usize)],
                    count: 1,
                    row: Box::new(move |_, at, i| row(&costs, class, at, i)),
                }
            };
            machines.iter().map(pair).collect()
        };
        let asked = vec![terms; self.penalties.len()];
        let found = || exact.held_out(&|held| sets(held, &self.penalties), &asked, (machines.len(), self.steps));
        let compared = self.compare(data, classes, (codes, &exact.weights), found)?;
        let unit = vec![1.0; machines.len()];
        let lambda = Some(compared.penalty.lambda(exact.weights.total(0..codes.len())));
        let fitted = exact.final_fit(&sets(None, &[compared.penalty]), terms, self.steps, lambda, &unit)?;
        Ok(Some(self.told(fitted, compared, (codes, &exact.weights), (classes, data))))
    }
}

impl Svr {
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Found<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        let (t, centre) = (data.targets.count(), data.targets.centre());
        let y = |i: usize, j: usize| exact.rows.y()[i * t + j] + centre[j];
        let terms = self.terms();
        let free = self.intercept == Intercept::Free;
        let moments = |held: Option<u16>| -> Vec<(f64, f64)> {
            let rows = exact.outside(held);
            (0..t).map(|j| moments(rows.iter().map(|i| (y(*i, j), exact.weights.of(*i))))).collect()
        };
        let y = &y;
        let sets = |held: Option<u16>, penalties: &[Penalty]| -> Vec<Machines<'_, T>> {
            let (outside, moments) = (exact.outside(held), moments(held));
            let weight = exact.weights.total(outside.iter().copied());
            let (costs, weights): (Vec<f64>, _) = (penalties.iter().map(|p| p.c(weight)).collect(), &exact.weights);
            let shift = move |j: usize| if free { moments[j].0 } else { 0.0 };
            vec![Machines::new(outside, t, move |j, at, i| Row { y: y(i, j) - shift(j), c: costs[at] * weights.of(i) })]
        };
        let means: Vec<Vec<(f64, f64)>> = (0..data.folds.count() as u16).map(|fold| moments(Some(fold))).collect();
        let square = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
            let shift = |j: usize| if free { means[exact.folds[i] as usize][j].0 } else { 0.0 };
            let squares = scores.enumerate().map(|(j, score)| (score + shift(j) - y(i, j)).powi(2));
            squares.sum::<f64>() / t as f64
        };
        let asked = vec![terms; self.penalties.len()];
        let found = || exact.held_out(&|held| sets(held, &self.penalties), &asked, (t, self.steps));
        let compared = held_out::compare(&self.penalties, data, &exact.weights, HELD_OUT_MSE, found, square)?;
        let (lambda, all) = (Some(compared.penalty.lambda(exact.weights.total(0..exact.rows.len()))), moments(None));
        let deviations: Vec<f64> = all.iter().map(|(_, deviation)| *deviation).collect();
        let mut fitted = exact.final_fit(&sets(None, &[compared.penalty]), terms, self.steps, lambda, &deviations)?;
        if free {
            fitted.intercept.iter_mut().zip(&all).for_each(|(b, (mean, _))| *b += mean);
        }
        fitted.figures.extend(compared.figures);
        Ok(Some(fitted))
    }
}

impl OneClass {
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Found<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        debug_assert!(matches!(data.targets, Targets::Numeric { centre } if centre.is_empty()));
        let weights = &exact.weights;
        let c = 1.0 / (self.nu * weights.total(0..exact.rows.len()));
        let terms = Terms { total: 1.0, ..Terms::new(Loss::OneSided, Intercept::Free, self.gap) };
        let sets = [Machines::new(exact.outside(None), 1, move |_, _, i| Row { y: 0.0, c: c * weights.of(i) })];
        // scores have the size of the kernel's diagonal
        let mut diagonal = vec![0.0; exact.rows.len()];
        exact.kernel.diag(exact.x(), &mut diagonal);
        let unit = diagonal.iter().map(|k| k.abs()).sum::<f64>() / diagonal.len().max(1) as f64;
        exact.final_fit(&sets, terms, self.steps, None, &[unit]).map(Some)
    }
}
