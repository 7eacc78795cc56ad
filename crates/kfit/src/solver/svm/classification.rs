//! Support vector classification, one-vs-rest or one-vs-one: cross-validation of the regularisation
//! parameter, the fit, and the calibration of probabilities.
//!
//! If a fold is held out, its rows have cost 0 in the one-vs-rest SVMs. So these SVMs all have the
//! same rows, and share the passes over the features. A one-vs-one SVM has its own copy of the rows
//! of its two classes ([`StoredFeatures::select_classes`]). The SVMs are fitted along a path of
//! regularisation parameters, strongest first. Each fit starts from the dual multipliers of the
//! previous parameter. They are feasible, because weaker regularisation has wider bounds.
//!
//! The SVMs fitted without a fold give the out-of-fold scores of the rows of the fold. The
//! parameter with the fewest out-of-fold errors wins; among equals, the strongest. The SVMs are
//! then refitted to all rows with this parameter. The out-of-fold scores also calibrate the
//! probabilities ([Platt scaling](kmodel::platt)).
//!
//! *Cost*: one fit for every fold and parameter (cheaper because of the warm starts), and the
//! refit. *Bytes*: the bytes of a fit, and the scores of all rows for every parameter.

use super::lagrangian::RowFn;
use super::loss::{Loss, TargetAndCost};
use super::problem_group::SolveContext;
use super::radius_margin::{self, BoundedSvm};
use super::sample::{self, FeatureSample};
use super::workspace::Workspace;
use super::{
    CertifiedPoint, LOSS, MULTICLASS, ONE_VS_ONE, ProblemOptions, SolvedProblems, group_size, plan, solution_of,
    solve_all, solve_path, stages, warn_of_gap,
};
use crate::features::{self, FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::cross_validation::{self, ErrorNames, HeldOutFits, HeldOutScores, LinearFunction, SelectedPenalty};
use crate::solver::parameter::{FOLDS, GAP, INTERVAL, PROBABILITIES, STEPS};
use crate::solver::{
    ClassWeight, NamedValues, Regularisation, Settings, Solution, Solver, SolverProperties, reject_if,
};
use crate::{Classes, Error, FoldSpec, Intercept, Link, Result, platt, row_weights::RowWeights};
use kapprox::Real;
use kstore::MemoryPlan;

#[derive(Clone, Debug)]
pub(super) struct Svm {
    pub(super) penalties: Vec<Regularisation>,
    /// True for one-vs-one SVMs, false for one-vs-rest SVMs.
    is_one_vs_one: bool,
    /// True if out-of-fold scores calibrate probabilities.
    calibrates_probabilities: bool,
    pub(super) intercept: Intercept,
    pub(super) class_weight: ClassWeight,
    /// True for the squared hinge loss, false for the hinge loss.
    pub(super) uses_squared_hinge: bool,
    pub(super) gap_tolerance: f64,
    pub(super) max_steps: usize,
    /// True to store the functions of the folds, for prediction sets.
    stores_fold_functions: bool,
}

/// Returns the function from a row's index to its target y and cost c in the SVM of a class: y = 1
/// for rows of the class and y = −1 for all other rows; c = 0 for rows of the held-out fold.
/// `costs` are indexed by class.
fn class_rows<'k, T: Real>(
    features: &'k StoredFeatures<'_, T>,
    held_out_fold: Option<u16>,
    class: u32,
    costs: &'k [f64],
) -> impl RowFn + use<'k, T> {
    let (codes, folds, weights) = (&features.class_codes[..], &features.row_folds[..], &features.weights);
    move |i| {
        let code = codes[i];
        let is_held_out = held_out_fold.is_some_and(|fold| folds[i] == fold);
        let c = if is_held_out { 0.0 } else { costs[code as usize] * weights.get(i) };
        TargetAndCost { y: if code == class { 1.0 } else { -1.0 }, c }
    }
}

impl Svm {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let svm = Self {
            penalties: settings.regularisations(),
            is_one_vs_one: settings.word(&MULTICLASS) == Some(ONE_VS_ONE),
            calibrates_probabilities: settings.flag(&PROBABILITIES),
            intercept: settings.intercept(),
            class_weight: settings.class_weight(),
            uses_squared_hinge: settings.word(&LOSS) == Some("squared-hinge"),
            gap_tolerance: settings.required(&GAP, Settings::number),
            max_steps: settings.required(&STEPS, Settings::count),
            stores_fold_functions: settings.levels(&INTERVAL).is_some(),
        };
        let why = "prediction sets need probabilities; add `probabilities`";
        reject_if(svm.stores_fold_functions && !svm.calibrates_probabilities, INTERVAL.name, "", why)?;
        let why = "one-vs-one classifiers have no probabilities; omit one of the two options";
        reject_if(
            svm.is_one_vs_one && svm.calibrates_probabilities,
            PROBABILITIES.name,
            "with `multiclass` one-vs-one",
            why,
        )?;
        let why = "validation rows choose the regularisation parameter and calibrate probabilities; set `folds`, or \
            give one parameter and no `probabilities`";
        let needs_validation = svm.penalties.len() > 1 || svm.calibrates_probabilities;
        reject_if(needs_validation && settings.folds(&FOLDS) == Some(FoldSpec::None), FOLDS.name, "none", why)?;
        Ok(svm)
    }

    pub(super) fn problem_options(&self, cost: f64) -> ProblemOptions {
        let loss = if self.uses_squared_hinge { Loss::SquaredHinge } else { Loss::Hinge };
        ProblemOptions { typical_cost: cost, ..ProblemOptions::new(loss, self.intercept, self.gap_tolerance) }
    }

    /// Returns the class of each score for k classes and, for one-vs-one, the opposing class,
    /// otherwise `None`. Two classes have one score, that of class 1.
    pub(super) fn classifiers(&self, k: usize) -> Vec<(u32, Option<u32>)> {
        match k {
            0..=2 => vec![(1, None)],
            _ if self.is_one_vs_one => Classes::pairs(k).map(|(a, b)| (b as u32, Some(a as u32))).collect(),
            _ => (0..k as u32).map(|class| (class, None)).collect(),
        }
    }

    /// Returns the number of SVMs that are solved together. One-vs-rest SVMs share their rows. A
    /// one-vs-one SVM has its own rows and is solved alone.
    fn svms_per_group(&self, n: usize, p: usize, svm_count: usize) -> usize {
        if self.is_one_vs_one { 1 } else { group_size(n, p, svm_count) }
    }

    /// Solves the SVMs of `svm_classes` on the rows outside `fold`, at every regularisation
    /// parameter. `costs` has an entry for each parameter: the mean cost of a row, and the cost of
    /// each class. `sample` is a sample of the same rows, or `None` before it is drawn. Returns the
    /// solutions for each parameter, and the number of passes.
    fn solve_path<'k, T: Real>(
        &self,
        features: &StoredFeatures<'k, T>,
        sample: &mut Option<FeatureSample<'k, T>>,
        data: &FitData<'_, T>,
        svm_classes: &[u32],
        fold: u16,
        costs: &[(f64, Vec<f64>)],
        workspace: &mut Workspace<T>,
        context: SolveContext<'_>,
    ) -> Result<(Vec<Vec<CertifiedPoint>>, u64)> {
        let problems_at = |penalty_index: usize| {
            let (cost, costs_by_class) = &costs[penalty_index];
            let rows_of = |class: &u32| class_rows(features, Some(fold), *class, costs_by_class);
            svm_classes.iter().map(|class| (rows_of(class), self.problem_options(*cost))).collect()
        };
        solve_path(features, sample, data, costs.len(), problems_at, self.max_steps, workspace, context)
    }

    /// For every fold, solves the SVMs without it at every regularisation parameter, and scores its
    /// rows.
    fn held_out_scores<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        classes: &Classes,
        weights: &[f64],
    ) -> Result<HeldOutScores<T>> {
        let classifiers = self.classifiers(classes.labels().len());
        let t = classifiers.len();
        let mut scores =
            HeldOutScores::new(features.n, t, self.penalties.len()).storing_functions(self.stores_fold_functions);
        let (progress, mut workspace) = (HeldOutFits::start(data, &self.penalties, t), Workspace::new(features.p));
        let context = SolveContext { observer: &progress, journal: data.resources.journal };
        let svms_per_group = self.svms_per_group(features.n, features.p, t);
        // one sample serves all folds, and all SVMs that have the same rows
        let mut sample = None;
        scores.passes += if self.is_one_vs_one && t > 1 { 0 } else { sample::passes(features.n, features.p) };
        for fold in 0..data.folds.count() as u16 {
            let (total_weight, mean_weight) = (features.weight_outside(Some(fold)), features.mean_weight(Some(fold)));
            let c_values = self.penalties.iter().map(|penalty| penalty.c(total_weight));
            let costs = c_values.map(|c| (c * mean_weight, weights.iter().map(|w| c * w).collect()));
            let costs: Vec<(f64, Vec<f64>)> = costs.collect();
            for (first_column, group) in (0..t).step_by(svms_per_group).zip(classifiers.chunks(svms_per_group)) {
                let pair_features = match group {
                    [(class, Some(other))] => {
                        Some(features.select_classes(|code| code == *class || code == *other, &progress)?)
                    }
                    _ => None,
                };
                let group_classes: Vec<u32> = group.iter().map(|(class, _)| *class).collect();
                let (path, passes) = match &pair_features {
                    Some(pair_features) => {
                        scores.passes += sample::passes(pair_features.n, pair_features.p);
                        self.solve_path(
                            pair_features,
                            &mut None,
                            data,
                            &group_classes,
                            fold,
                            &costs,
                            &mut workspace,
                            context,
                        )?
                    }
                    None => self.solve_path(
                        features,
                        &mut sample,
                        data,
                        &group_classes,
                        fold,
                        &costs,
                        &mut workspace,
                        context,
                    )?,
                };
                scores.passes += passes;
                for (penalty_index, best_points) in path.iter().enumerate() {
                    let functions: Vec<LinearFunction<'_>> =
                        best_points.iter().map(|best| (&best.w[..], best.b)).collect();
                    scores.score_fold(features, penalty_index, first_column, &functions, fold, &progress)?;
                }
            }
        }
        Ok(scores)
    }

    /// Chooses the regularisation parameter with the lowest cross-validated error rate.
    pub(super) fn select_penalty<T: Real>(
        &self,
        data: &FitData<'_, T>,
        classes: &Classes,
        (codes, weights, row_folds): (&[u32], &RowWeights, &[u16]),
        held_out_scores: impl FnOnce() -> Result<HeldOutScores<T>>,
    ) -> Result<SelectedPenalty<T>> {
        let decider = if self.is_one_vs_one { classes.clone().one_vs_one() } else { classes.clone() };
        let error = |_: usize, i: usize, scores: &mut dyn Iterator<Item = f64>| {
            f64::from(u8::from(decider.decide(scores) != codes[i] as usize))
        };
        let mut selection = cross_validation::cross_validate(
            &self.penalties,
            data,
            weights,
            (1, ErrorNames::ERROR_RATE),
            held_out_scores,
            error,
        )?;
        if !selection.scores.is_empty() {
            let t = selection.scores.len() / codes.len().max(1);
            let is_misclassified = |i: usize| {
                let scores = selection.scores[i * t..][..t].iter().map(|score| score.to_f64());
                decider.decide(scores) != codes[i] as usize
            };
            let [_, of_folds] = cross_validation::error_rates(row_folds, weights, is_misclassified);
            selection.figures.push(of_folds);
        }
        Ok(selection)
    }

    /// Adds the figures of the cross-validation and, if requested, the calibration to a solution.
    pub(super) fn add_selection<T: Real>(
        &self,
        mut solution: Solution<T>,
        selection: SelectedPenalty<T>,
        (codes, weights): (&[u32], &RowWeights),
        (classes, data): (&Classes, &FitData<'_, T>),
    ) -> Solution<T> {
        let k = classes.labels().len();
        solution.is_one_vs_one = self.is_one_vs_one && k > 2;
        solution.passes += selection.passes;
        solution.fold_functions = selection.fold_functions;
        if self.calibrates_probabilities && !selection.scores.is_empty() {
            let (classifiers, stage_observer) = (self.classifiers(k), data.resources.stage_observer);
            let (a, b) = calibrate(&classifiers, &selection.scores, codes, weights);
            for (_, (class, _)) in a.iter().zip(&classifiers).filter(|(a, _)| **a == 0.0) {
                let class = &classes.labels()[*class as usize];
                stage_observer.warn(format!(
                    "held-out scores do not separate class {class} from the others: its probability is the same for \
                     every row"
                ));
            }
            solution.link = Some(Link::Platt { a, b });
        }
        solution.figures.extend(selection.figures);
        solution
    }

    fn final_fit<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        c: f64,
        costs: &[f64],
        k: usize,
    ) -> Result<SolvedProblems> {
        let problem_options = self.problem_options(c * features.mean_weight(None));
        let stage = data.resources.stage_observer.start_stage("newton", None);
        let context = SolveContext { observer: &*stage, journal: data.resources.journal };
        let (mut workspace, mut solved_problems) = (Workspace::new(features.p), SolvedProblems::default());
        let classifiers = self.classifiers(k);
        let one_vs_rest = classifiers.iter().filter(|(_, other)| other.is_none());
        let problems: Vec<_> =
            one_vs_rest.map(|(class, _)| (class_rows(features, None, *class, costs), problem_options)).collect();
        if !problems.is_empty() {
            solved_problems.append(solve_all(features, self.max_steps, problems, &mut workspace, context)?);
        }
        for (class, other) in classifiers.iter().filter_map(|(class, other)| Some((*class, (*other)?))) {
            let pair_features = features.select_classes(|code| code == class || code == other, &*stage)?;
            let problems = vec![(class_rows(&pair_features, None, class, costs), problem_options)];
            solved_problems.append(solve_all(&pair_features, self.max_steps, problems, &mut workspace, context)?);
        }
        let step_count = solved_problems.step_count;
        warn_of_gap(&solved_problems.best_points, step_count, problem_options.gap_tolerance, data, "");
        Ok(solved_problems)
    }
}

impl Svm {
    /// Returns the margins of the SVMs, the radius of the rows, and the bounds of the leave-one-out
    /// errors.
    fn radius_and_margins<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        solved_problems: &SolvedProblems,
        costs: &[f64],
        k: usize,
    ) -> Result<Vec<NamedValues>> {
        let radius = radius_margin::enclosing_radius(features, self.intercept, data.resources.stage_observer)?;
        let (mut row_counts, mut min_costs) = (vec![0; costs.len()], vec![f64::INFINITY; costs.len()]);
        for (i, code) in features.class_codes.iter().enumerate() {
            let (class, cost) = (*code as usize, costs[*code as usize] * features.weights.get(i));
            // a row without a cost is not a row of the fit
            if cost > 0.0 {
                row_counts[class] += 1;
                min_costs[class] = min_costs[class].min(cost);
            }
        }
        let classifiers = self.classifiers(k);
        let svms = solved_problems.best_points.iter().zip(&classifiers).map(|(solution, (class, other))| {
            let is_row_of_svm =
                |code: usize| other.is_none_or(|other| code == other as usize || code == *class as usize);
            let codes = || (0..costs.len()).filter(|code| is_row_of_svm(*code));
            BoundedSvm {
                solution,
                row_count: codes().map(|code| row_counts[code]).sum(),
                min_cost: codes().map(|code| min_costs[code]).fold(f64::INFINITY, f64::min),
            }
        });
        Ok(radius_margin::figures(&svms.collect::<Vec<_>>(), radius, self.intercept, self.uses_squared_hinge))
    }
}

impl<T: Real> Solver<T> for Svm {
    fn properties(&self) -> SolverProperties {
        SolverProperties {
            stores_features: true,
            uses_validation_rows: true,
            accepts_row_weights: true,
            supports_exact_kernel: true,
            ..SolverProperties::default()
        }
    }

    fn has_probabilities(&self) -> bool {
        self.calibrates_probabilities
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        cross_validation::reject_exact_intervals(self.stores_fold_functions, request)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let problem_count = self.classifiers(if size.t == 1 { 2 } else { size.t }).len();
        let (target_bytes, concurrent_problem_count) = if self.is_one_vs_one { (20, 1) } else { (6, problem_count) };
        let tile_bytes = features::selection_bytes(size.map.p, size.element_bytes);
        let plan = self::plan(plan, size, pass_shape, target_bytes, concurrent_problem_count);
        let plan = plan.term_if(self.is_one_vs_one, "tile of a one-vs-one SVM", tile_bytes, "lower `rank`");
        let plan = cross_validation::plan(plan, size, problem_count, self.penalties.len());
        match self.stores_fold_functions {
            true => cross_validation::plan_functions(plan, size, problem_count, self.penalties.len()),
            false => plan,
        }
    }

    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let problem_count = self.classifiers(if request.size.t == 1 { 2 } else { request.size.t }).len();
        let concurrent_problem_count = if self.is_one_vs_one { request.size.threads } else { 1 };
        Ok(stages::<T>(self, access, request, (problem_count, concurrent_problem_count, self.penalties.len())))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        if let Some(solution) = self.fit_exact_kernel(data)? {
            return Ok(solution);
        }
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let Some(classes) = data.classes() else { return Err(Error::TooFewClasses { classes: 0 }) };
        let k = classes.labels().len();
        let weights = self.class_weight.weights_by_code(&features.class_codes, &features.weights, classes)?;
        let held_out_scores = || self.held_out_scores(&features, data, classes, &weights);
        let selection = self.select_penalty(
            data,
            classes,
            (&features.class_codes, &features.weights, &features.row_folds),
            held_out_scores,
        )?;
        let n = features.weight_outside(None);
        let (lambda, c) = (selection.penalties[0].lambda(n), selection.penalties[0].c(n));
        let costs: Vec<f64> = weights.iter().map(|weight| c * weight).collect();
        let solved_problems = self.final_fit(&features, data, c, &costs, k)?;
        let bounds = self.radius_and_margins(&features, data, &solved_problems, &costs, k)?;
        let mut solution = solution_of(solved_problems, &[lambda], gathered.certificate);
        solution.figures.extend(bounds);
        solution.passes += radius_margin::PASSES;
        Ok(self.add_selection(solution, selection, (&features.class_codes, &features.weights), (classes, data)))
    }
}

/// For every SVM, fits the numbers a and b of [Platt scaling](kmodel::platt) to its out-of-fold
/// scores.
fn calibrate<T: Real>(
    classifiers: &[(u32, Option<u32>)],
    scores: &[T],
    codes: &[u32],
    weights: &RowWeights,
) -> (Vec<f64>, Vec<f64>) {
    let t = classifiers.len();
    let calibrations = classifiers.iter().enumerate().map(|(j, (class, _))| {
        let svm_scores = scores.iter().skip(j).step_by(t).zip(codes).enumerate();
        platt::fit(svm_scores.map(|(i, (score, code))| (score.to_f64(), code == class, weights.get(i))))
    });
    calibrations.unzip()
}
