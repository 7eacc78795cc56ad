//! Support vector classification: one-vs-rest or one-vs-one, with the regularisation parameter
//! chosen by cross-validation, and probabilities.
//!
//! In a one-vs-rest SVM the held-out rows have cost 0, so that all SVMs share the passes over the
//! features. A one-vs-one SVM has its own copy of the rows of its two classes
//! ([`StoredFeatures::only`]). Along a path of regularisation parameters each fit starts from the
//! multipliers of the stronger parameter, which are feasible within its wider bounds. SVMs fitted
//! without a fold score its rows; the parameter with the fewest errors is chosen, on ties the
//! strongest, and refitted on all rows. The scores also calibrate the probabilities ([Platt
//! scaling](kmodel::platt)).
//!
//! *Cost*: one fit for every fold and parameter (less with warm starts), and one more. *Bytes*: in
//! addition to a fit, the scores of all rows for every parameter.

use super::group::{Watch, begin, solve_group};
use super::lagrangian::{Problem, Rows};
use super::loss::{Loss, Row};
use super::sample::{self, Sample};
use super::space::Space;
use super::{Best, HELD_OUT, LOSS, PAIRS, Solutions, Terms, fitted, group_size, plan, solve_all, stages, warn_of_gap};
use crate::features::{self, FitData, StoredFeatures, Wanted};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::held_out::{self, Compared, Function, HeldOutScores};
use crate::solver::parameter::{FOLDS, GAP, PROBABILITIES, STEPS};
use crate::solver::{ClassWeight, Found, Penalty, Settings, Solver, SolverFacts, refuse};
use crate::{Classes, Error, FoldSpec, Intercept, Link, Result, platt, row_weights::RowWeights};
use kapprox::Real;
use kstore::Plan;

#[derive(Clone, Debug)]
pub(super) struct Svm {
    pub(super) penalties: Vec<Penalty>,
    /// True for one-vs-one, false for one-vs-rest.
    pairs: bool,
    /// True if validation rows calibrate probabilities.
    probabilities: bool,
    pub(super) intercept: Intercept,
    pub(super) class_weight: ClassWeight,
    /// True for the squared hinge loss, false for the hinge loss.
    pub(super) squared: bool,
    pub(super) gap: f64,
    pub(super) steps: usize,
}

/// Returns the rows of the SVM of a class: y = 1 for its class, −1 for all others, and cost 0 in
/// the held-out fold. `costs` are indexed by class.
fn machine<'k, T: Real>(
    kept: &'k StoredFeatures<'_, T>,
    held: Option<u16>,
    class: u32,
    costs: &'k [f64],
) -> impl Rows + use<'k, T> {
    let (codes, folds, weights) = (&kept.codes[..], &kept.folds[..], &kept.weights);
    move |i| {
        let code = codes[i];
        let held = held.is_some_and(|fold| folds[i] == fold);
        let c = if held { 0.0 } else { costs[code as usize] * weights.of(i) };
        Row { y: if code == class { 1.0 } else { -1.0 }, c }
    }
}

impl Svm {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let machine = Self {
            penalties: settings.penalties(),
            pairs: settings.flag(&PAIRS),
            probabilities: settings.flag(&PROBABILITIES),
            intercept: settings.intercept(),
            class_weight: settings.class_weight(),
            squared: settings.word(&LOSS) == Some("squared-hinge"),
            gap: settings.required(&GAP, Settings::number),
            steps: settings.required(&STEPS, Settings::count),
        };
        let why = "one-vs-one classifiers have no probabilities; omit one of the two options";
        refuse(machine.pairs && machine.probabilities, PROBABILITIES.name, "with `pairs`", why)?;
        let why = "validation rows choose the regularisation parameter and calibrate probabilities; set `folds`, or \
            give one parameter and no `probabilities`";
        let compares = machine.penalties.len() > 1 || machine.probabilities;
        refuse(compares && settings.folds(&FOLDS) == Some(FoldSpec::None), FOLDS.name, "none", why)?;
        Ok(machine)
    }

    pub(super) fn terms(&self, cost: f64) -> Terms {
        let loss = if self.squared { Loss::SquaredHinge } else { Loss::Hinge };
        Terms { cost, ..Terms::new(loss, self.intercept, self.gap) }
    }

    /// Returns for each score its class, and the opposing class; `None` for one-vs-rest.
    pub(super) fn machines(&self, k: usize) -> Vec<(u32, Option<u32>)> {
        match k {
            0..=2 => vec![(1, None)],
            _ if self.pairs => Classes::pairs(k).map(|(a, b)| (b as u32, Some(a as u32))).collect(),
            _ => (0..k as u32).map(|class| (class, None)).collect(),
        }
    }

    /// Returns the number of SVMs that are solved together: one-vs-rest SVMs share their rows, a
    /// one-vs-one SVM has its own.
    fn together(&self, n: usize, p: usize, machines: usize) -> usize {
        if self.pairs { 1 } else { group_size(n, p, machines) }
    }

    /// Solves some SVMs without a fold's rows, at every regularisation parameter; also returns the
    /// number of passes. `sample` is a sample of the same rows.
    #[expect(clippy::too_many_arguments, reason = "the problem and its buffers")]
    fn along_path<'k, T: Real>(
        &self,
        kept: &StoredFeatures<'k, T>,
        sample: &mut Option<Sample<'k, T>>,
        data: &FitData<'_, T>,
        machines: &[u32],
        fold: u16,
        costs: &[(f64, Vec<f64>)],
        space: &mut Space<T>,
        watch: Watch<'_>,
    ) -> Result<(Vec<Vec<Best>>, u64)> {
        let rows = |at: usize| machines.iter().map(move |class| machine(kept, Some(fold), *class, &costs[at].1));
        let terms = self.terms(costs[0].0);
        // solves the sample before the problems of all rows are allocated, so that their equations
        // never coexist
        let starts = Sample::starts(sample, kept, &rows(0).collect::<Vec<_>>(), terms, space, watch)?;
        let mut passes = sample::passes(kept.n, kept.p);
        let mut problems: Vec<_> = rows(0).map(|rows| Problem::new(rows, terms, kept.n, space)).collect();
        begin(kept, &mut problems, &starts, watch.observer)?;
        let mut found = Vec::new();
        for (at, (cost, _)) in costs.iter().enumerate() {
            let terms = self.terms(*cost);
            if at > 0 {
                problems.iter_mut().zip(rows(at)).for_each(|(problem, rows)| problem.again(rows, terms));
            }
            passes += solve_group(kept, &mut problems, self.steps, space, watch)?.passes;
            let best: Vec<Best> = problems.iter().map(|problem| problem.best.clone()).collect();
            warn_of_gap(&best, self.steps, terms, data, HELD_OUT);
            found.push(best);
        }
        problems.into_iter().for_each(|problem| drop(problem.end(space)));
        Ok((found, passes))
    }

    /// Solves every fold's SVMs at every regularisation parameter, and scores the rows of the fold
    /// with them.
    fn held_out<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        classes: &Classes,
        weights: &[f64],
    ) -> Result<HeldOutScores<T>> {
        let machines = self.machines(classes.labels().len());
        let t = machines.len();
        let mut found = HeldOutScores::new(kept.n, t, self.penalties.len());
        let (stage, mut space) = (data.resources.stages.stage("held-out rows", None), Space::new(kept.p));
        let watch = Watch { observer: &*stage, journal: data.resources.journal };
        let together = self.together(kept.n, kept.p, t);
        // one sample for all folds and SVMs that share the rows
        let mut sample = None;
        found.passes += if self.pairs && t > 1 { 0 } else { sample::passes(kept.n, kept.p) };
        for fold in 0..data.folds.count() as u16 {
            let (weight, mean) = (kept.weight_outside(Some(fold)), kept.mean_weight(Some(fold)));
            let penalties = self.penalties.iter().map(|penalty| penalty.c(weight));
            let costs = penalties.map(|c| (c * mean, weights.iter().map(|w| c * w).collect()));
            let costs: Vec<(f64, Vec<f64>)> = costs.collect();
            for (first, some) in (0..t).step_by(together).zip(machines.chunks(together)) {
                let own = match some {
                    [(class, Some(other))] => Some(kept.only(|code| code == *class || code == *other, &*stage)?),
                    _ => None,
                };
                let of: Vec<u32> = some.iter().map(|(class, _)| *class).collect();
                let (path, passes) = match &own {
                    Some(own) => {
                        found.passes += sample::passes(own.n, own.p);
                        self.along_path(own, &mut None, data, &of, fold, &costs, &mut space, watch)?
                    }
                    None => self.along_path(kept, &mut sample, data, &of, fold, &costs, &mut space, watch)?,
                };
                found.passes += passes;
                for (penalty, best) in path.iter().enumerate() {
                    let functions: Vec<Function<'_>> = best.iter().map(|best| (&best.w[..], best.b)).collect();
                    found.score(kept, penalty, first, &functions, fold, &*stage)?;
                }
            }
        }
        Ok(found)
    }

    pub(super) fn compare<T: Real>(
        &self,
        data: &FitData<'_, T>,
        classes: &Classes,
        (codes, weights): (&[u32], &RowWeights),
        found: impl FnOnce() -> Result<HeldOutScores<T>>,
    ) -> Result<Compared<T>> {
        let told = if self.pairs { classes.clone().in_pairs() } else { classes.clone() };
        let wrong = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
            f64::from(u8::from(told.decide(scores) != codes[i] as usize))
        };
        held_out::compare(&self.penalties, data, weights, "held-out error at each", found, wrong)
    }

    /// Adds the comparison of regularisation parameters and the probabilities to a solution.
    pub(super) fn told<T: Real>(
        &self,
        mut fitted: Found<T>,
        compared: Compared<T>,
        (codes, weights): (&[u32], &RowWeights),
        (classes, data): (&Classes, &FitData<'_, T>),
    ) -> Found<T> {
        let k = classes.labels().len();
        fitted.pairs = self.pairs && k > 2;
        fitted.passes += compared.passes;
        if self.probabilities && !compared.scores.is_empty() {
            let (machines, stages) = (self.machines(k), data.resources.stages);
            let (a, b) = link(&machines, &compared.scores, codes, weights);
            for (_, (class, _)) in a.iter().zip(&machines).filter(|(a, _)| **a == 0.0) {
                let class = &classes.labels()[*class as usize];
                stages.warn(format!(
                    "held-out scores do not separate class {class} from the others: its probability is the same for \
                     every row"
                ));
            }
            fitted.link = Some(Link::Platt { a, b });
        }
        fitted.figures.extend(compared.figures);
        fitted
    }

    fn final_fit<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        c: f64,
        costs: &[f64],
        k: usize,
    ) -> Result<Solutions> {
        let terms = self.terms(c * kept.mean_weight(None));
        let stage = data.resources.stages.stage("newton", None);
        let watch = Watch { observer: &*stage, journal: data.resources.journal };
        let (mut space, mut solved) = (Space::new(kept.p), Solutions::default());
        let machines = self.machines(k);
        let against_rest = machines.iter().filter(|(_, other)| other.is_none());
        let rows: Vec<_> = against_rest.map(|(class, _)| machine(kept, None, *class, costs)).collect();
        if !rows.is_empty() {
            solved.add(solve_all(kept, terms, self.steps, rows, &mut space, watch)?);
        }
        for (class, other) in machines.iter().filter_map(|(class, other)| Some((*class, (*other)?))) {
            let own = kept.only(|code| code == class || code == other, &*stage)?;
            let rows = vec![machine(&own, None, class, costs)];
            solved.add(solve_all(&own, terms, self.steps, rows, &mut space, watch)?);
        }
        warn_of_gap(&solved.best, solved.steps, terms, data, "");
        Ok(solved)
    }
}

impl<T: Real> Solver<T> for Svm {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, holds_out: true, weights: true, exact: true, ..SolverFacts::default() }
    }

    fn has_probabilities(&self) -> bool {
        self.probabilities
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        let problems = self.machines(if shape.t == 1 { 2 } else { shape.t }).len();
        let (targets, together) = if self.pairs { (20, 1) } else { (6, problems) };
        let tile = features::class_rows_bytes(shape.map.p, shape.element);
        let plan = self::plan(plan, shape, cut, targets, together);
        let plan = plan.term_if(self.pairs, "tile of a one-vs-one SVM", tile, "lower `rank`");
        held_out::plan(plan, shape, problems, self.penalties.len())
    }

    fn stages(&self, view: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let problems = self.machines(if work.shape.t == 1 { 2 } else { work.shape.t }).len();
        let at_once = if self.pairs { work.shape.threads } else { 1 };
        Ok(stages::<T>(self, view, work, (problems, at_once, self.penalties.len())))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        if let Some(fitted) = self.fit_exactly(data)? {
            return Ok(fitted);
        }
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let Some(classes) = data.classes() else { return Err(Error::TooFewClasses { classes: 0 }) };
        let k = classes.labels().len();
        let weights = self.class_weight.of(&kept.codes, &kept.weights, classes)?;
        let found = || self.held_out(&kept, data, classes, &weights);
        let compared = self.compare(data, classes, (&kept.codes, &kept.weights), found)?;
        let n = kept.weight_outside(None);
        let (lambda, c) = (compared.penalty.lambda(n), compared.penalty.c(n));
        let costs: Vec<f64> = weights.iter().map(|weight| c * weight).collect();
        let solved = self.final_fit(&kept, data, c, &costs, k)?;
        let fitted = fitted(solved, 2.0 * lambda, Some(lambda), gathered.certificate);
        Ok(self.told(fitted, compared, (&kept.codes, &kept.weights), (classes, data)))
    }
}

/// Fits the numbers a and b that map the scores of every SVM to probabilities, to held-out scores.
fn link<T: Real>(
    machines: &[(u32, Option<u32>)],
    scores: &[T],
    codes: &[u32],
    weights: &RowWeights,
) -> (Vec<f64>, Vec<f64>) {
    let t = machines.len();
    let fits = machines.iter().enumerate().map(|(j, (class, _))| {
        let rows = scores.iter().skip(j).step_by(t).zip(codes).enumerate();
        platt::fit(rows.map(|(i, (score, code))| (score.to_f64(), code == class, weights.of(i))))
    });
    fits.unzip()
}
