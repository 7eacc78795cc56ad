//! The SVM solvers with the exact kernel: classification, regressions and anomaly detection.

use super::super::classification::Svm;
use super::super::lagrangian::ProblemOptions;
use super::super::loss::{Loss, TargetAndCost};
use super::super::regression::Regression;
use super::super::target_scale::mean_and_deviation;
use super::super::{FITTED_WITHOUT_FOLD, one_class::OneClass};
use super::{ExactSvmProblem, Paths, SolveOptions, SvmExpansion, SvmSet};
use crate::features::FitData;
use crate::solver::cross_validation::{self, HeldOutScores};
use crate::solver::{Regularisation, Solution};
use crate::{Error, Intercept, Result, Targets};
use kapprox::Real;

/// Warns if the largest final gap of the SVMs exceeds `gap`. `which_svms` completes the message.
fn warn_of_gap<T: Real>(sets: &[Paths], gap: f64, data: &FitData<'_, T>, which_svms: &str) {
    let last_gaps =
        sets.iter().flatten().flatten().filter_map(|solved| Some((*solved.gaps.last()?, solved.round_count)));
    let worst = last_gaps.fold((0.0, 0), |worst, candidate| if candidate.0 > worst.0 { candidate } else { worst });
    if worst.0 > gap {
        data.resources.stage_observer.warn(format!(
            "the relative duality gap{which_svms} is {:.1e} after {} rounds, above the requested {gap:.1e}; raise `steps` \
             or `gap`, or lower the cost",
            worst.0, worst.1
        ));
    }
}

impl<T: Real> ExactSvmProblem<'_, T> {
    /// Scores the rows of every fold by SVMs fitted without them. `sets(Some(fold))` must return
    /// the SVMs on the rows outside a fold. `t` is the number of SVMs per fold.
    fn held_out_scores<'m>(
        &self,
        sets: &dyn Fn(Option<u16>) -> Vec<SvmSet<'m, T>>,
        problem_options: &[ProblemOptions],
        (t, max_sweeps): (usize, usize),
    ) -> Result<HeldOutScores<T>> {
        let data = self.data;
        let mut held_out_scores = HeldOutScores::new(self.rows.len(), t, problem_options.len());
        let folds = data.folds.count() as u16;
        let svm_count = t as u64 * u64::from(folds);
        let stage = data.resources.stage_observer.start_steps("SVMs without a fold", svm_count);
        for fold in 0..folds {
            let sets = sets(Some(fold));
            let paths =
                self.solve(&sets, SolveOptions { problem_options, max_sweeps, verifies_gap: false }, &*stage)?;
            warn_of_gap(&paths, problem_options[0].gap_tolerance, data, FITTED_WITHOUT_FOLD);
            for penalty in 0..problem_options.len() {
                let functions: SvmExpansion<T> = self.expansion(at_penalty(&sets, &paths, penalty));
                let scores = &mut held_out_scores.scores[penalty];
                self.score_fold(fold, &functions, |i, values| {
                    let row_scores = &mut scores[i * t..(i + 1) * t];
                    row_scores.iter_mut().zip(values).for_each(|(to, value)| *to = T::from_f64(*value));
                });
            }
        }
        Ok(held_out_scores)
    }

    /// Solves the SVMs on all rows. `lambdas` are as for [`super::solution_of`], and `deviations`
    /// are the standard deviations of the targets.
    fn final_fit(
        &self,
        sets: &[SvmSet<'_, T>],
        problem_options: ProblemOptions,
        max_sweeps: usize,
        lambdas: &[f64],
        deviations: &[f64],
    ) -> Result<Solution<T>> {
        let stage = self.data.resources.stage_observer.start_steps("SVMs", deviations.len() as u64);
        let paths = self.solve(
            sets,
            SolveOptions { problem_options: &[problem_options], max_sweeps, verifies_gap: true },
            &*stage,
        )?;
        warn_of_gap(&paths, problem_options.gap_tolerance, self.data, "");
        Ok(self.solution(at_penalty(sets, &paths, 0), lambdas, deviations))
    }
}

/// Returns the row indices and the solution of every SVM at one regularisation parameter, in the
/// order of the sets.
fn at_penalty<'f, T>(
    sets: &'f [SvmSet<'_, T>],
    paths: &'f [Paths],
    penalty: usize,
) -> impl Iterator<Item = (&'f [usize], &'f super::SolvedSvm)> + Clone {
    let solved_at = move |(set, path): (&'f SvmSet<'_, T>, &'f Paths)| {
        path.iter().map(move |penalties| (&set.positions[..], &penalties[penalty]))
    };
    sets.iter().zip(paths).flat_map(solved_at)
}

impl Svm {
    /// Fits with the exact kernel. Returns `None` if `data` has features of a map instead of rows.
    pub(in super::super) fn fit_exact_kernel<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Solution<T>>> {
        let Some(problem) = ExactSvmProblem::new(data)? else { return Ok(None) };
        let (Some(classes), Some(codes)) = (data.classes(), problem.rows.class_codes()) else {
            return Err(Error::TooFewClasses { classes: 0 });
        };
        if self.uses_squared_hinge {
            // the multipliers of this loss are unbounded, so a kernel matrix with a negative
            // eigenvalue may leave the dual without a minimum
            kapprox::kernel::require_positive_definite(
                &*problem.f64_kernel,
                "a support vector machine with `loss` squared-hinge",
            )?;
        }
        let k = classes.labels().len();
        if let Some(i) = codes.iter().position(|code| *code as usize >= k) {
            return Err(Error::UnknownClass { row: problem.rows.row_number(i) });
        }
        let weights = self.class_weight.weights_by_code(codes, &problem.weights, classes)?;
        let classifiers = self.classifiers(k);
        let problem_options = self.problem_options(1.0);
        let one_vs_one = classifiers.iter().any(|(_, other)| other.is_some());
        let positions_by_class = |held_out_fold: Option<u16>| {
            let mut positions = vec![Vec::new(); k];
            problem.positions_outside(held_out_fold).into_iter().for_each(|i| positions[codes[i] as usize].push(i));
            positions
        };
        let all_positions = positions_by_class(None);
        let class_matrices =
            if one_vs_one { problem.class_matrices(&all_positions, self.intercept) } else { Vec::new() };
        let svm_sets = |held_fold: Option<u16>, penalties: &[Regularisation]| -> Vec<SvmSet<'_, T>> {
            let training_positions = problem.positions_outside(held_fold);
            let weight = problem.weights.weight_sum(training_positions.iter().copied());
            let costs: Vec<f64> = penalties.iter().map(|penalty| penalty.c(weight)).collect();
            let (classifiers, weights, row_weights) = (&classifiers, &weights, &problem.weights);
            let row = move |costs: &[f64], class: u32, penalty: usize, i: usize| TargetAndCost {
                y: if codes[i] == class { 1.0 } else { -1.0 },
                c: costs[penalty] * weights[codes[i] as usize] * row_weights.get(i),
            };
            if !one_vs_one {
                let svm_count = classifiers.len();
                return vec![SvmSet::new(training_positions, svm_count, move |svm, penalty, i| {
                    row(&costs, classifiers[svm].0, penalty, i)
                })];
            }
            let positions_by_class = positions_by_class(held_fold);
            let pair_set = |(class, other): &(u32, Option<u32>)| {
                let (class, other) = (*class, other.unwrap_or_default() as usize);
                let (low, high) = (&positions_by_class[other], &positions_by_class[class as usize]);
                let costs = costs.clone();
                let class_matrix = |class: usize| class_matrices[class].as_deref().filter(|_| held_fold.is_none());
                SvmSet {
                    positions: [&low[..], &high[..]].concat(),
                    part_sizes: vec![low.len(), high.len()],
                    part_matrices: vec![class_matrix(other), class_matrix(class as usize)],
                    svm_count: 1,
                    losses: Vec::new(),
                    row_fn: Box::new(move |_, penalty, i| row(&costs, class, penalty, i)),
                }
            };
            classifiers.iter().map(pair_set).collect()
        };
        let path_problem_options = vec![problem_options; self.penalties.len()];
        let held_out_scores = || {
            problem.held_out_scores(
                &|held_fold| svm_sets(held_fold, &self.penalties),
                &path_problem_options,
                (classifiers.len(), self.max_steps),
            )
        };
        let selection =
            self.select_penalty(data, classes, (codes, &problem.weights, &problem.folds), held_out_scores)?;
        let unit_deviations = vec![1.0; classifiers.len()];
        let lambda = selection.penalties[0].lambda(problem.weights.weight_sum(0..codes.len()));
        let solution = problem.final_fit(
            &svm_sets(None, &selection.penalties),
            problem_options,
            self.max_steps,
            &[lambda],
            &unit_deviations,
        )?;
        Ok(Some(self.add_selection(solution, selection, (codes, &problem.weights), (classes, data))))
    }
}

impl Regression {
    /// Fits with the exact kernel; `None` if the data has features of a map instead of rows.
    pub(in super::super) fn fit_exact_kernel<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Solution<T>>> {
        let Some(problem) = ExactSvmProblem::new(data)? else { return Ok(None) };
        let (t, target_centre) = (data.targets.count(), data.targets.centre());
        let target_value = |i: usize, j: usize| problem.rows.y()[i * t + j] + target_centre[j];
        let (row_weights, y) = (&problem.weights, &target_value);
        let values_without = |held_out_fold: Option<u16>, j: usize| {
            let training_positions = problem.positions_outside(held_out_fold);
            training_positions.into_iter().map(move |i| (y(i, j), row_weights.get(i)))
        };
        let moments_without = |held_out_fold: Option<u16>| -> Vec<(f64, f64)> {
            (0..t).map(|j| mean_and_deviation(values_without(held_out_fold, j))).collect()
        };
        let losses = self.losses(t, |j| values_without(None, j));
        let (functions, level_count) = (&losses.functions[..], losses.level_count());
        let problem_options = self.problem_options(functions[0].loss);
        let centre_of = |k: usize, moments: &[(f64, f64)]| self.target_centre(moments[functions[k].target]);
        let centre_of = &centre_of;
        // in the final fit, `penalties` are the parameters of the levels
        let svm_sets = |held_fold: Option<u16>, penalties: &[Regularisation]| -> Vec<SvmSet<'_, T>> {
            let (training_positions, target_moments) =
                (problem.positions_outside(held_fold), moments_without(held_fold));
            let weight = problem.weights.weight_sum(training_positions.iter().copied());
            let (costs, weights): (Vec<f64>, _) = (penalties.iter().map(|p| p.c(weight)).collect(), &problem.weights);
            let row_fn = move |k: usize, penalty: usize, i: usize| TargetAndCost {
                y: y(i, functions[k].target) - centre_of(k, &target_moments),
                c: costs[if held_fold.is_some() { penalty } else { k % level_count }]
                    * functions[k].cost_factor
                    * weights.get(i),
            };
            let losses = functions.iter().map(|function| function.loss).collect();
            vec![SvmSet::new(training_positions, functions.len(), row_fn).with_losses(losses)]
        };
        let fold_moments: Vec<Vec<(f64, f64)>> =
            (0..data.folds.count() as u16).map(|fold| moments_without(Some(fold))).collect();
        let mut row_targets = vec![0.0; t];
        let error = |level: usize, i: usize, scores: &mut dyn Iterator<Item = f64>| {
            row_targets.iter_mut().enumerate().for_each(|(j, target)| *target = y(i, j));
            let moments = &fold_moments[problem.folds[i] as usize];
            let scores = scores.enumerate().map(|(k, score)| score + centre_of(k, moments));
            losses.held_out_error(level, scores, &row_targets)
        };
        let path_problem_options = vec![problem_options; self.penalties.len()];
        let held_out_scores = || {
            problem.held_out_scores(
                &|held_fold| svm_sets(held_fold, &self.penalties),
                &path_problem_options,
                (functions.len(), self.max_steps),
            )
        };
        let selection = cross_validation::cross_validate(
            &self.penalties,
            data,
            &problem.weights,
            (level_count, losses.error_names()),
            held_out_scores,
            error,
        )?;
        let (weight, final_moments) = (problem.weights.weight_sum(0..problem.rows.len()), moments_without(None));
        let lambdas: Vec<f64> = selection.penalties.iter().map(|penalty| penalty.lambda(weight)).collect();
        let deviations: Vec<f64> = functions.iter().map(|function| final_moments[function.target].1).collect();
        let mut solution = problem.final_fit(
            &svm_sets(None, &selection.penalties),
            problem_options,
            self.max_steps,
            &lambdas,
            &deviations,
        )?;
        solution.intercept.iter_mut().enumerate().for_each(|(k, b)| *b += centre_of(k, &final_moments));
        solution.figures.extend(selection.figures);
        Ok(Some(losses.add_to(solution)))
    }
}

impl OneClass {
    pub(in super::super) fn fit_exact_kernel<T: Real>(&self, data: &FitData<'_, T>) -> Result<Option<Solution<T>>> {
        let Some(problem) = ExactSvmProblem::new(data)? else { return Ok(None) };
        debug_assert!(matches!(data.targets, Targets::Numeric { centre } if centre.is_empty()));
        let weights = &problem.weights;
        let c = 1.0 / (self.nu * weights.weight_sum(0..problem.rows.len()));
        let problem_options = ProblemOptions {
            multiplier_sum: 1.0,
            ..ProblemOptions::new(Loss::OneSided, Intercept::Free, self.gap_tolerance)
        };
        let svm_sets = [SvmSet::new(problem.positions_outside(None), 1, move |_, _, i| TargetAndCost {
            y: 0.0,
            c: c * weights.get(i),
        })];
        // scores have the size of the kernel's diagonal
        let mut diagonal = vec![0.0; problem.rows.len()];
        problem.kernel.diag(problem.x(), &mut diagonal);
        let mean_diagonal = diagonal.iter().map(|k| k.abs()).sum::<f64>() / diagonal.len().max(1) as f64;
        problem.final_fit(&svm_sets, problem_options, self.max_steps, &[], &[mean_diagonal]).map(Some)
    }
}
