//! The three machines on rows in memory: classes, values, novelty.

use super::super::OneClass;
use super::super::classes::Svm;
use super::super::lagrangian::Terms;
use super::super::loss::{Loss, Row};
use super::super::svr::{Svr, moments};
use super::{Asked, Exact, Expansion, Machines, Paths};
use crate::solver::held_out::{self, Chosen, HeldOut};
use crate::solver::{Features, Fitted, Penalty};
use crate::{Classes, Error, Intercept, Link, Result, Targets, platt};
use kapprox::Real;

/// The terms of one machine: costs are those of its rows.
fn terms(loss: Loss, intercept: Intercept, total: f64, gap: f64) -> Terms {
    Terms { loss, intercept, total, cost: 1.0, gap, patience: usize::MAX }
}

/// Warns of machines that ran out of rounds.
fn warn_of_gap<T: Real>(sets: &[Paths], gap: f64, data: &Features<'_, T>, whose: &str) {
    let last = sets.iter().flatten().flatten().filter_map(|found| Some((*found.gaps.last()?, found.rounds)));
    let worst = last.fold((0.0, 0), |worst, one| if one.0 > worst.0 { one } else { worst });
    if worst.0 > gap {
        data.resources.stages.warn(format!(
            "the relative duality gap{whose} is {:.1e}, above the {gap:.1e} asked for, after {} rounds; raise `steps` or \
             `gap`, or lower the cost",
            worst.0, worst.1
        ));
    }
}

/// Whose gap it is, of machines for rows that are held out.
const HELD_OUT: &str = " of a machine that has not seen some rows";

impl<T: Real> Exact<'_, T> {
    /// The rows of a fold are scored by machines that have not seen them: `sets` makes the machines that are to be solved.
    fn held_out<'m>(
        &self,
        sets: &dyn Fn(Option<u16>) -> Vec<Machines<'m, T>>,
        asked: &dyn Fn(u64) -> Vec<Terms>,
        (t, steps): (usize, usize),
    ) -> Result<HeldOut<T>> {
        let data = self.data;
        let penalties = asked(1).len();
        let mut found = HeldOut::new(self.rows.len(), t, penalties);
        let folds = data.folds.count() as u16;
        let machines = t as u64 * u64::from(folds);
        let stage = data.resources.stages.stage("machines without a fold", Some(machines));
        for fold in 0..folds {
            let outside = self.folds.iter().filter(|of| **of != fold).count() as u64;
            let (sets, terms) = (sets(Some(fold)), asked(outside));
            let paths = self.solve(&sets, Asked { terms: &terms, steps, prove: false }, &*stage)?;
            warn_of_gap(&paths, terms[0].gap, data, HELD_OUT);
            for penalty in 0..penalties {
                let functions: Expansion = self.expansion(at_penalty(&sets, &paths, penalty));
                let scores = &mut found.scores[penalty];
                self.score(fold, &functions, |i, values| {
                    let to = &mut scores[i * t..(i + 1) * t];
                    to.iter_mut().zip(values).for_each(|(to, value)| *to = <T as kstore::Real>::from_f64(*value));
                });
            }
        }
        Ok(found)
    }
}

/// The machines of all sets at a penalty, in their order.
fn at_penalty<'f, T>(
    sets: &'f [Machines<'_, T>],
    paths: &'f [Paths],
    penalty: usize,
) -> impl Iterator<Item = (&'f [usize], &'f super::Found)> + Clone {
    let of = move |(set, path): (&'f Machines<'_, T>, &'f Paths)| {
        path.iter().map(move |penalties| (&set.at[..], &penalties[penalty]))
    };
    sets.iter().zip(paths).flat_map(of)
}

impl Svm {
    /// The fit with the kernel itself; `None` where the rows are features of a map.
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &Features<'_, T>) -> Result<Option<Fitted<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        let (Some(classes), Some(codes)) = (data.classes(), exact.rows.class_codes()) else {
            return Err(Error::TooFewClasses { classes: 0 });
        };
        if self.squared {
            // its multipliers have no bound, and along a negative eigenvalue the dual has no minimum
            kapprox::kernel::require_positive_definite(
                &*exact.wide,
                "a support vector machine with `loss` squared-hinge",
            )?;
        }
        let k = classes.labels().len();
        if let Some(i) = codes.iter().position(|code| *code as usize >= k) {
            return Err(Error::UnknownClass { row: exact.rows.row(i) });
        }
        let weights = self.class_weight.of(codes, classes)?;
        let machines = self.machines(k);
        let loss = if self.squared { Loss::SquaredHinge } else { Loss::Hinge };
        let terms = terms(loss, self.intercept, 0.0, self.gap);
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
            let costs: Vec<f64> = penalties.iter().map(|penalty| penalty.c(outside.len() as u64)).collect();
            let (machines, weights) = (&machines, &weights);
            let row = move |costs: &[f64], class: u32, at: usize, i: usize| Row {
                y: if codes[i] == class { 1.0 } else { -1.0 },
                c: costs[at] * weights[codes[i] as usize],
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
        let found = match data.folds.count() {
            1 => None,
            _ => {
                let terms = |_| vec![terms; self.penalties.len()];
                let t = (machines.len(), self.steps);
                Some(exact.held_out(&|held| sets(held, &self.penalties), &terms, t)?)
            }
        };
        let chosen = found.as_ref().map(|found| {
            let told = if self.pairs { classes.clone().in_pairs() } else { classes.clone() };
            held_out::choose(&self.penalties, data.rows, found.errors(wrong(&told, codes)), "held-out error at each")
        });
        let penalty = self.penalties[chosen.as_ref().map_or(0, |chosen| chosen.at)];
        let sets = sets(None, &[penalty]);
        let stage = data.resources.stages.stage("machines", Some(machines.len() as u64));
        let paths = exact.solve(&sets, Asked { terms: &[terms], steps: self.steps, prove: true }, &*stage)?;
        warn_of_gap(&paths, self.gap, data, "");
        let lambda = penalty.lambda(data.rows);
        let unit = vec![1.0; machines.len()];
        let mut fitted = exact.fitted(at_penalty(&sets, &paths, 0), (2.0 * lambda, Some(lambda)), &unit);
        fitted.pairs = self.pairs && k > 2;
        if let (Some(Chosen { at, figures }), Some(found)) = (chosen, found) {
            fitted.link = self.probabilities.then(|| link(&machines, &found.scores[at], codes));
            fitted.figures.extend(figures);
        }
        Ok(Some(fitted))
    }
}

/// 1 for a row whose scores are of another class than its own.
pub(in super::super) fn wrong<'c>(
    told: &'c Classes,
    codes: &'c [u32],
) -> impl FnMut(usize, &mut dyn Iterator<Item = f64>) -> f64 + 'c {
    move |i, scores| f64::from(u8::from(told.decide(scores) != codes[i] as usize))
}

/// The link to probabilities, from the scores of rows by machines that have not seen them.
pub(in super::super) fn link<T: Real>(machines: &[(u32, Option<u32>)], scores: &[T], codes: &[u32]) -> Link {
    let t = machines.len();
    let fits = machines.iter().enumerate().map(|(j, (class, _))| {
        let rows = scores.iter().skip(j).step_by(t).zip(codes);
        platt::fit(rows.map(|(score, code)| (score.to_f64(), code == class)))
    });
    let (a, b) = fits.unzip();
    Link::Platt { a, b }
}

impl Svr {
    /// The fit with the kernel itself; `None` where the rows are features of a map.
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &Features<'_, T>) -> Result<Option<Fitted<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        let (t, centre) = (data.targets.count(), data.targets.centre());
        let y = |i: usize, j: usize| exact.rows.y()[i * t + j] + centre[j];
        let terms = terms(Loss::Insensitive { epsilon: self.epsilon }, self.intercept, 0.0, self.gap);
        let free = self.intercept == Intercept::Free;
        let moments = |held: Option<u16>| -> Vec<(f64, f64)> {
            let rows = exact.outside(held);
            (0..t).map(|j| moments(rows.iter().map(|i| y(*i, j)))).collect()
        };
        let y = &y;
        let sets = |held: Option<u16>, penalties: &[Penalty]| -> Vec<Machines<'_, T>> {
            let (outside, moments) = (exact.outside(held), moments(held));
            let costs: Vec<f64> = penalties.iter().map(|penalty| penalty.c(outside.len() as u64)).collect();
            let shift = move |j: usize| if free { moments[j].0 } else { 0.0 };
            vec![Machines::new(outside, t, move |j, at, i| Row { y: y(i, j) - shift(j), c: costs[at] })]
        };
        let found = match data.folds.count() {
            1 => None,
            _ => {
                let terms = |_| vec![terms; self.penalties.len()];
                Some(exact.held_out(&|held| sets(held, &self.penalties), &terms, (t, self.steps))?)
            }
        };
        let chosen = found.map(|found| {
            let means: Vec<Vec<(f64, f64)>> = (0..data.folds.count() as u16).map(|fold| moments(Some(fold))).collect();
            let square = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
                let shift = |j: usize| if free { means[exact.folds[i] as usize][j].0 } else { 0.0 };
                let squares = scores.enumerate().map(|(j, score)| (score + shift(j) - y(i, j)).powi(2));
                squares.sum::<f64>() / t as f64
            };
            held_out::choose(&self.penalties, data.rows, found.errors(square), "held-out mse at each")
        });
        let penalty = self.penalties[chosen.as_ref().map_or(0, |chosen| chosen.at)];
        let sets = sets(None, &[penalty]);
        let stage = data.resources.stages.stage("machines", Some(t as u64));
        let paths = exact.solve(&sets, Asked { terms: &[terms], steps: self.steps, prove: true }, &*stage)?;
        warn_of_gap(&paths, self.gap, data, "");
        let (lambda, all) = (penalty.lambda(data.rows), moments(None));
        let deviations: Vec<f64> = all.iter().map(|(_, deviation)| *deviation).collect();
        let mut fitted = exact.fitted(at_penalty(&sets, &paths, 0), (2.0 * lambda, Some(lambda)), &deviations);
        if free {
            fitted.intercept.iter_mut().zip(&all).for_each(|(b, (mean, _))| *b += mean);
        }
        fitted.figures.extend(chosen.into_iter().flat_map(|chosen| chosen.figures));
        Ok(Some(fitted))
    }
}

impl OneClass {
    /// The fit with the kernel itself; `None` where the rows are features of a map.
    pub(in super::super) fn fit_exactly<T: Real>(&self, data: &Features<'_, T>) -> Result<Option<Fitted<T>>> {
        let Some(exact) = Exact::new(data)? else { return Ok(None) };
        debug_assert!(matches!(data.targets, Targets::Numeric { centre } if centre.is_empty()));
        let c = 1.0 / (self.nu * exact.rows.len() as f64);
        let terms = terms(Loss::OneSided, Intercept::Free, 1.0, self.gap);
        let sets = [Machines::new(exact.outside(None), 1, move |_, _, _| Row { y: 0.0, c })];
        let stage = data.resources.stages.stage("machines", Some(1));
        let paths = exact.solve(&sets, Asked { terms: &[terms], steps: self.steps, prove: true }, &*stage)?;
        warn_of_gap(&paths, self.gap, data, "");
        // scores are of the size of the kernel's diagonal
        let mut diagonal = vec![0.0; exact.rows.len()];
        exact.kernel.diag(exact.x(), &mut diagonal);
        let unit = diagonal.iter().map(|k| k.abs()).sum::<f64>() / diagonal.len().max(1) as f64;
        Ok(Some(exact.fitted(at_penalty(&sets, &paths, 0), (1.0, None), &[unit])))
    }
}
