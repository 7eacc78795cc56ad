//! Support vector classification: one machine against the rest or one for every pair, the penalty chosen by rows held out, and
//! probabilities.
//!
//! A machine sees the rows of others with cost 0: held-out folds, and for a pair of classes all rows of the rest. So all machines share
//! the passes over the features. Along a path of penalties each begins at the multipliers of the stronger one before, which
//! its wider bounds allow. Held-out rows are scored by the machines that have not seen them; the penalty with the
//! fewest errors is taken, of equal ones the strongest, and learned anew on all rows. Their scores also give the probabilities
//! ([Platt scaling](crate::platt)).
//!
//! *Cost*: that of one fit for every fold and penalty (less for the warm starts), and of one more. *Bytes*: beside those of a fit the
//! scores of all rows for every penalty.

use super::lagrangian::{self, Problem, Rows};
use super::loss::{Loss, Row};
use super::sample::Sample;
use super::{Best, Terms, fitted, group, plan, solve, warn_of_gap};
use crate::solver::kept::Kept;
use crate::solver::logistic::class_weights;
use crate::solver::{Features, Figure, Fitted, Penalty, Solver, SolverOptions};
use crate::train::{Cut, Shape};
use crate::{Classes, Intercept, Link, Result, platt};
use kapprox::Real;
use kstore::Plan;

/// Support vector classification.
#[derive(Clone, Debug)]
pub struct Svm {
    /// lambda, or C.
    pub penalty: Penalty,
    /// Penalties to choose among, strongest first; empty for `penalty` alone.
    pub path: Vec<Penalty>,
    /// A machine for every pair of classes, not one for each against the rest.
    pub pairs: bool,
    /// Probabilities are learned from rows held out.
    pub probabilities: bool,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// Rows weigh by the inverse of the size of their class.
    pub balanced: bool,
    /// Squared hinge instead of hinge.
    pub squared: bool,
    /// Relative duality gap at which a problem is solved.
    pub gap: f64,
    /// Most steps.
    pub steps: usize,
}

/// The rows as one machine sees them: y = 1 for its class, −1 for another or all others.
#[derive(Clone, Copy)]
struct Machine<'a> {
    codes: &'a [u32],
    /// Folds of the rows, and the one that is held out.
    held: Option<(&'a [u16], u16)>,
    class: u32,
    /// The only other class that is there.
    against: Option<u32>,
    /// Of each class.
    costs: &'a [f64],
}

impl Rows for Machine<'_> {
    #[inline(always)]
    fn row(&self, i: usize) -> Row {
        let code = self.codes[i];
        let held = self.held.is_some_and(|(folds, fold)| folds[i] == fold);
        let absent = code != self.class && self.against.is_some_and(|other| code != other);
        let c = if held || absent { 0.0 } else { self.costs[code as usize] };
        Row { y: if code == self.class { 1.0 } else { -1.0 }, c }
    }
}

/// What rows held out tell.
struct HeldOut<T> {
    /// Share of them in the wrong class, by penalty.
    errors: Vec<f64>,
    /// Position of the penalty that is taken.
    chosen: usize,
    /// Scores at every penalty, n x t row-major.
    scores: Vec<Vec<T>>,
    passes: u64,
}

impl Svm {
    pub(super) fn new(options: &SolverOptions) -> Self {
        let SolverOptions { penalty, pairs, probabilities, intercept, balanced, squared, gap, steps, .. } = *options;
        let path = options.path.clone();
        Self { penalty, path, pairs, probabilities, intercept, balanced, squared, gap, steps }
    }

    fn penalties(&self) -> Vec<Penalty> {
        if self.path.is_empty() { vec![self.penalty] } else { self.path.clone() }
    }

    fn terms(&self, cost: f64) -> Terms {
        let loss = if self.squared { Loss::SquaredHinge } else { Loss::Hinge };
        Terms { loss, intercept: self.intercept, total: 0.0, cost, gap: self.gap }
    }

    /// The class and what it is against, score by score.
    fn machines(&self, k: usize) -> Vec<(u32, Option<u32>)> {
        match k {
            0..=2 => vec![(1, None)],
            _ if self.pairs => Classes::pairs(k).map(|(a, b)| (b as u32, Some(a as u32))).collect(),
            _ => (0..k as u32).map(|class| (class, None)).collect(),
        }
    }

    /// Every fold's machines along the path, and the scores that they give the fold.
    fn held_out<T: Real>(
        &self,
        kept: &Kept<'_, T>,
        data: &Features<'_, T>,
        classes: &Classes,
        weights: &[f64],
    ) -> Result<HeldOut<T>> {
        let k = classes.labels().len();
        let penalties: Vec<f64> = self.penalties().iter().map(|penalty| penalty.c(data.rows)).collect();
        let costs: Vec<Vec<f64>> =
            penalties.iter().map(|c| weights.iter().map(|weight| c * weight).collect()).collect();
        let machines = self.machines(k);
        let t = machines.len();
        let together = group(kept.n, kept.p, size_of::<T>(), t);
        let mut found = HeldOut {
            errors: Vec::new(),
            chosen: 0,
            scores: vec![vec![T::ZERO; kept.n * t]; penalties.len()],
            passes: 0,
        };
        let stage = data.resources.stages.stage("held-out rows", None);
        let sample = Sample::draw(kept, &*stage)?;
        found.passes += u64::from(sample.is_some());
        for fold in 0..data.folds.count() as u16 {
            let machine = |(class, against): (u32, Option<u32>), costs| Machine {
                codes: &kept.codes,
                held: Some((&kept.folds, fold)),
                class,
                against,
                costs,
            };
            for (first, some) in (0..t).step_by(together).zip(machines.chunks(together)) {
                let terms = self.terms(penalties[0]);
                let rows: Vec<Machine<'_>> = some.iter().map(|which| machine(*which, &costs[0][..])).collect();
                // before the problems of all rows: their equations are not there at the same time
                let starts = match &sample {
                    Some(sample) => sample.solve(&rows, terms, &*stage)?,
                    None => Vec::new(),
                };
                let problems = rows.iter().map(|rows| Problem::new(*rows, terms, kept.n, kept.p));
                let mut problems: Vec<Problem<T, Machine<'_>>> = problems.collect();
                if !starts.is_empty() {
                    lagrangian::begin(kept, &mut problems, &starts, &*stage)?;
                    found.passes += 1;
                }
                for (at, (cost, costs)) in penalties.iter().zip(&costs).enumerate() {
                    let terms = self.terms(*cost);
                    if at > 0 {
                        let rows = some.iter().map(|which| machine(*which, &costs[..]));
                        problems.iter_mut().zip(rows).for_each(|(problem, rows)| problem.again(rows, terms));
                    }
                    found.passes += lagrangian::solve_group(kept, &mut problems, self.steps, &*stage)?.passes;
                    let best: Vec<&Best> = problems.iter().map(|problem| &problem.best).collect();
                    let place = Place { first, t, fold };
                    found.passes += score(kept, &best, place, &mut found.scores[at], &*stage)?;
                    warn_of_gap(best, self.steps, terms, data);
                }
            }
        }
        let classes = if self.pairs { classes.clone().in_pairs() } else { classes.clone() };
        for scores in &found.scores {
            let rows = scores.chunks_exact(t).zip(&kept.codes);
            let wrong = rows.filter(|(row, code)| classes.decide(row.iter().map(|v| v.to_f64())) != **code as usize);
            found.errors.push(wrong.count() as f64 / kept.n.max(1) as f64);
        }
        let errors = &found.errors;
        found.chosen = (0..errors.len()).fold(0, |best, at| if errors[at] < errors[best] { at } else { best });
        Ok(found)
    }

    /// Probabilities from the scores of rows by machines that have not seen them.
    fn link<T: Real>(&self, kept: &Kept<'_, T>, scores: &[T], k: usize) -> Link {
        let machines = self.machines(k);
        let t = machines.len();
        let fits = machines.iter().enumerate().map(|(j, (class, _))| {
            let rows = scores.iter().skip(j).step_by(t).zip(&kept.codes);
            platt::fit(rows.map(|(score, code)| (score.to_f64(), code == class)))
        });
        let (a, b) = fits.unzip();
        Link::Platt { a, b }
    }
}

/// Where scores go: from output `first` of t, for the rows of a fold.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    t: usize,
    fold: u16,
}

/// One pass: the scores of a fold's rows.
fn score<T: Real>(
    kept: &Kept<'_, T>,
    best: &[&Best],
    Place { first, t, fold }: Place,
    scores: &mut [T],
    observer: &dyn kstore::pass::Observer,
) -> Result<u64> {
    let count = best.len();
    let weights: Vec<T> =
        (0..kept.p * count).map(|i| <T as kstore::Real>::from_f64(best[i % count].w[i / count])).collect();
    let mut out = Vec::new();
    kept.visit(observer, |tile| {
        out.resize(tile.rows() * count, T::ZERO);
        tile.times(&weights, &mut out, kept.workers());
        for (i, values) in out.chunks_exact(count).enumerate() {
            let row = tile.first + i;
            if kept.folds[row] == fold {
                let to = &mut scores[row * t + first..][..count];
                for ((to, value), best) in to.iter_mut().zip(values).zip(best) {
                    *to = <T as kstore::Real>::from_f64(value.to_f64() + best.b);
                }
            }
        }
        Ok(())
    })?;
    Ok(1)
}

impl<T: Real> Solver<T> for Svm {
    fn keeps(&self) -> bool {
        true
    }

    fn holds_out(&self) -> bool {
        true
    }

    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan {
        let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
        let problems = self.machines(if shape.t == 1 { 2 } else { shape.t }).len();
        let plan = self::plan(plan, shape, cut, 6, problems);
        match shape.folds > 1 {
            true => {
                let scores = n.saturating_mul(problems * self.penalties().len()).saturating_mul(shape.element);
                plan.term("scores of rows held out", scores, "compare fewer penalties")
            }
            false => plan,
        }
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted> {
        let (kept, gathered) = Kept::gather(data, false)?;
        let Some(classes) = data.classes() else { return Err(crate::Error::TooFewClasses { classes: 0 }) };
        let k = classes.labels().len();
        let weights = class_weights(&kept.codes, k, self.balanced)?;
        let held_out = match data.folds.count() {
            1 => None,
            _ => Some(self.held_out(&kept, data, classes, &weights)?),
        };
        let penalty = self.penalties()[held_out.as_ref().map_or(0, |held_out| held_out.chosen)];
        let (lambda, c) = (penalty.lambda(data.rows), penalty.c(data.rows));
        let costs: Vec<f64> = weights.iter().map(|weight| c * weight).collect();
        let machine = |(class, against)| Machine { codes: &kept.codes, held: None, class, against, costs: &costs };
        let rows = self.machines(k).into_iter().map(machine).collect();
        let solved = solve(&kept, data, self.terms(c), self.steps, rows)?;
        let mut fitted = fitted(solved, 2.0 * lambda, Some(lambda), gathered.certificate);
        fitted.pairs = self.pairs && k > 2;
        if let Some(held_out) = held_out {
            fitted.passes += held_out.passes;
            fitted.link = self.probabilities.then(|| self.link(&kept, &held_out.scores[held_out.chosen], k));
            let penalties = self.penalties().iter().map(|penalty| penalty.c(data.rows)).collect();
            fitted.figures.push(Figure { name: "C", values: penalties });
            fitted.figures.push(Figure { name: "held-out error at each C", values: held_out.errors });
        }
        Ok(fitted)
    }
}
