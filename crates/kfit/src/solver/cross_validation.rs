//! Cross-validation of regularisation parameters, for solvers that store the features.
//!
//! For every fold and regularisation parameter the solver learns from the rows outside the fold,
//! and the fitted functions score the rows of the fold. So every row has out-of-fold scores for
//! each parameter: scores by functions that were fitted without the row. The solver chooses the
//! parameter whose out-of-fold scores have the smallest error. If several parameters have the same
//! error, it chooses the strongest regularisation. Quantiles of several levels have a parameter for
//! each level. The refit learns from all rows with the chosen parameters.
//!
//! *Cost*: one fit for every fold and parameter, and the refit. *Bytes*: the scores of all rows for
//! every parameter.

use super::newton::{Objective, Optimum, Start, Target, minimise};
use super::parameter::INTERVAL;
use super::{FoldFunctions, NamedValues, Regularisation, reject_if};
use crate::features::{self, FitData, RowValues, StoredFeatures};
use crate::{FoldGram, LinearHead, Result, request::FitRequest, request::ProblemSize, row_weights::RowWeights};
use faer::Mat;
use kapprox::Real;
use kstore::{MemoryPlan, pass::Observer};

/// Suffix of the name of a report entry that holds one cross-validated error per regularisation
/// parameter.
pub const EACH_PENALTY_SUFFIX: &str = "at each";

/// Name of the cross-validated error rate at the chosen regularisation parameter.
pub const CV_ERROR: &str = "cv error";

/// Name of the figure with the error rate of each fold at the chosen regularisation parameter.
pub const CV_ERROR_OF_FOLDS: &str = "cv error of each fold";

/// Name of the figure with the chosen lambda of each level, if there are several levels.
pub const LAMBDA_OF_EACH_LEVEL: &str = "lambda of each level";

/// A linear function of the features: its weights, p numbers, and its intercept.
pub(super) type LinearFunction<'a> = (&'a [f64], f64);

/// The progress of the fits without a fold: a step for each function that was fitted and scored.
/// Passes over the rows do not advance it, because their number depends on the convergence.
pub(super) struct HeldOutFits<'a>(Box<dyn Observer + 'a>);

impl<'a> HeldOutFits<'a> {
    /// Begins the stage of `function_count` functions for each fold and regularisation parameter.
    pub(super) fn start<T: Real>(
        data: &'a FitData<'_, T>,
        penalties: &[Regularisation],
        function_count: usize,
    ) -> Self {
        let steps = (data.folds.count() * penalties.len() * function_count) as u64;
        let name = stage_name(data.folds.count(), penalties, function_count);
        Self(data.resources.stage_observer.start_steps(&name, steps))
    }
}

/// Returns the name of the stage, with the numbers whose product is the number of fits.
fn stage_name(fold_count: usize, penalties: &[Regularisation], function_count: usize) -> String {
    let penalty = if matches!(penalties.first(), Some(Regularisation::Lambda(_))) { "lambdas" } else { "values of C" };
    let factors = [(fold_count, "folds"), (penalties.len(), penalty), (function_count, "functions")];
    let factors = factors.into_iter().filter(|(count, _)| *count > 1);
    let factors: Vec<String> = factors.map(|(count, of)| format!("{count} {of}")).collect();
    format!("fits without a fold ({})", factors.join(" x "))
}

impl Observer for HeldOutFits<'_> {
    fn advance(&self, _rows: u64) {}
    fn should_stop(&self) -> bool {
        self.0.should_stop()
    }
}

/// Out-of-fold scores: the scores of each row by functions that were fitted without its fold.
pub(super) struct HeldOutScores<T> {
    /// Number of scores per row.
    t: usize,
    /// Scores at every regularisation parameter, n x t row-major.
    pub(super) scores: Vec<Vec<T>>,
    /// The functions of each fold at every regularisation parameter, if they are stored.
    fold_functions: Option<Vec<FoldFunctions>>,
    pub(super) passes: u64,
}

/// The chosen regularisation parameters, and the out-of-fold scores on which the choice is based.
pub(super) struct SelectedPenalty<T> {
    /// The parameter of each level.
    pub(super) penalties: Vec<Regularisation>,
    /// Out-of-fold scores of all rows at the parameter of the first level; empty without folds.
    pub(super) scores: Vec<T>,
    /// The functions of each fold at the chosen parameters, if they are stored.
    pub(super) fold_functions: Option<FoldFunctions>,
    pub(super) figures: Vec<NamedValues>,
    pub(super) passes: u64,
}

impl FoldFunctions {
    /// Joins the functions of all levels. `at_penalty` are all functions at every regularisation
    /// parameter, and `penalty_indices` the parameter of each level. Function k has the level k mod
    /// the number of levels.
    fn at_penalties(at_penalty: Vec<Self>, penalty_indices: &[usize]) -> Self {
        let mut joined = at_penalty[penalty_indices[0]].clone();
        for (fold, LinearHead { weights, intercept }) in joined.heads.iter_mut().enumerate() {
            for (k, penalty_index) in (0..intercept.len()).zip(penalty_indices.iter().cycle()) {
                let head = &at_penalty[*penalty_index].heads[fold];
                weights.col_mut(k).copy_from(head.weights.col(k));
                intercept[k] = head.intercept[k];
            }
        }
        joined
    }

    /// Adds functions of p features that were fitted without a fold.
    fn push(&mut self, fold: usize, p: usize, functions: &[LinearFunction<'_>]) {
        let new_columns = Mat::from_fn(p, functions.len(), |i, j| functions[j].0[i]);
        let new_intercepts = functions.iter().map(|(_, intercept)| *intercept);
        match self.heads.last_mut().filter(|_| self.folds.last() == Some(&fold)) {
            Some(LinearHead { weights, intercept }) => {
                let first_new = weights.ncols();
                weights.resize_with(p, first_new + functions.len(), |i, j| new_columns[(i, j - first_new)]);
                intercept.extend(new_intercepts);
            }
            None => {
                self.folds.push(fold);
                self.heads.push(LinearHead { weights: new_columns, intercept: new_intercepts.collect() });
            }
        }
    }
}

/// Rejects prediction intervals of the exact kernel, whose functions are not functions of features.
pub(super) fn reject_exact_intervals(stores_functions: bool, request: &FitRequest<'_>) -> Result<()> {
    let why = "the exact kernel computes no features, on which prediction intervals depend; leave `map` out";
    reject_if(stores_functions && request.options.map.is_exact_kernel(), INTERVAL.name, "with `map` exact", why)
}

/// Adds the memory for the functions of the folds, which prediction intervals need, to a plan: t
/// functions for each fold and regularisation parameter.
pub(super) fn plan_functions(plan: MemoryPlan, size: &ProblemSize, t: usize, penalty_count: usize) -> MemoryPlan {
    plan.term(
        "prediction intervals",
        FoldFunctions::bytes(size, t, penalty_count),
        "use fewer folds, or a lower `rank`",
    )
}

/// Adds the memory for the out-of-fold scores to a plan: t scores per row and regularisation
/// parameter. Adds nothing without folds.
pub(super) fn plan(plan: MemoryPlan, size: &ProblemSize, t: usize, penalty_count: usize) -> MemoryPlan {
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let score_bytes = n.saturating_mul(t * penalty_count).saturating_mul(size.element_bytes);
    let bytes = score_bytes.saturating_add(features::row_values_bytes(n.saturating_mul(t), size.element_bytes));
    plan.term_if(size.fold_count > 1, "scores of the validation rows", bytes, "compare fewer regularisation parameters")
}

impl<T: Real> HeldOutScores<T> {
    pub(super) fn new(n: usize, t: usize, penalty_count: usize) -> Self {
        Self { t, scores: vec![vec![T::ZERO; n * t]; penalty_count], fold_functions: None, passes: 0 }
    }

    /// Stores the functions of the folds if `stores` is true: for prediction intervals.
    pub(super) fn storing_functions(self, stores: bool) -> Self {
        Self { fold_functions: stores.then(|| vec![FoldFunctions::default(); self.scores.len()]), ..self }
    }

    /// Computes the scores of the rows of `fold` at the regularisation parameter with the index
    /// `penalty_index`, and writes them to the columns from `first_column` on. Makes one pass.
    pub(super) fn score_fold(
        &mut self,
        features: &StoredFeatures<'_, T>,
        penalty_index: usize,
        first_column: usize,
        functions: &[LinearFunction<'_>],
        fold: u16,
        progress: &HeldOutFits<'_>,
    ) -> Result<()> {
        let (function_count, t) = (functions.len(), self.t);
        let weight = |i: usize| T::from_f64(functions[i % function_count].0[i / function_count]);
        let weights: Vec<T> = (0..features.p * function_count).map(weight).collect();
        let mut out = Vec::new();
        let RowValues(scores) =
            features.reduce("held-out rows", progress, &RowValues::<T>::default, |fold_scores, tile| {
                out.resize(tile.row_count() * function_count, T::ZERO);
                tile.multiply(&weights, &mut out, features.workers());
                let tile_scores = out.chunks_exact(function_count).enumerate();
                let fold_rows = tile_scores.filter(|(i, _)| features.row_folds[tile.first_row + i] == fold);
                fold_rows.for_each(|(_, values)| fold_scores.0.extend_from_slice(values));
                Ok(())
            })?;
        let fold_rows = (0..features.n).filter(|row| features.row_folds[*row] == fold);
        for (row, values) in fold_rows.zip(scores.chunks_exact(function_count)) {
            let row_scores = &mut self.scores[penalty_index][row * t + first_column..][..function_count];
            for ((score, value), (_, intercept)) in row_scores.iter_mut().zip(values).zip(functions) {
                *score = T::from_f64(value.to_f64() + intercept);
            }
        }
        if let Some(fold_functions) = &mut self.fold_functions {
            fold_functions[penalty_index].push(usize::from(fold), features.p, functions);
        }
        self.passes += 1;
        progress.0.advance(function_count as u64);
        Ok(())
    }

    /// For every regularisation parameter, returns the weighted mean of `error` over all rows.
    /// `error(i, scores)` returns the error of the scores of row i.
    fn mean_errors(
        &self,
        weights: &RowWeights,
        mut error: impl FnMut(usize, &mut dyn Iterator<Item = f64>) -> f64,
    ) -> Vec<f64> {
        let mean = |scores: &Vec<T>| {
            let row_scores = scores.chunks_exact(self.t).enumerate();
            let weighted_error =
                |(i, row): (usize, &[T])| weights.get(i) * error(i, &mut row.iter().map(|value| value.to_f64()));
            let sum: f64 = row_scores.map(weighted_error).sum();
            sum / weights.weight_sum(0..scores.len() / self.t).max(f64::MIN_POSITIVE)
        };
        self.scores.iter().map(mean).collect()
    }
}

/// Returns the report entries of an error rate on held-out rows: the weighted mean of
/// `is_misclassified(i)` over all rows, and over the rows of each fold; NaN for a fold without
/// rows.
pub(super) fn error_rates(
    row_folds: &[u16],
    weights: &RowWeights,
    is_misclassified: impl Fn(usize) -> bool,
) -> [NamedValues; 2] {
    let fold_count = row_folds.iter().max().map_or(0, |fold| usize::from(*fold) + 1);
    let mut sums = vec![[0.0; 2]; fold_count];
    for (i, fold) in row_folds.iter().enumerate() {
        let [errors, rows] = &mut sums[usize::from(*fold)];
        *rows += weights.get(i);
        *errors += if is_misclassified(i) { weights.get(i) } else { 0.0 };
    }
    let rate = |[errors, rows]: [f64; 2]| if rows > 0.0 { errors / rows } else { f64::NAN };
    let total = sums.iter().fold([0.0; 2], |total, sum| [total[0] + sum[0], total[1] + sum[1]]);
    let of_folds = sums.iter().map(|sum| rate(*sum)).collect();
    [NamedValues::single(CV_ERROR, rate(total)), NamedValues { name: CV_ERROR_OF_FOLDS, values: of_folds }]
}

/// Names of the report entries of a held-out error.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorNames {
    /// Name of the error at the chosen regularisation parameter, like `cv error` of ridge
    /// regression.
    pub(super) chosen: &'static str,
    /// Name of the list of the errors at all parameters, which ends with [`EACH_PENALTY_SUFFIX`].
    pub(super) at_each: &'static str,
}

impl ErrorNames {
    pub(super) const ERROR_RATE: Self = Self { chosen: CV_ERROR, at_each: "held-out error at each" };
}

/// For every fold and regularisation parameter, learns k functions from the rows outside the fold
/// and scores the rows of the fold. `penalties` starts with the strongest parameter. The fit at
/// each further parameter starts from the solution for the parameter before it. `moments` are the
/// second moments of the features of all rows, for the preconditioner. For a fold,
/// `loss_without_fold` returns the loss of the rows outside the fold, and the weight of these rows.
/// Stores the functions of the folds if `stores_functions` is true.
pub(super) fn scores_by_newton<T: Real, L: Objective<T>>(
    features: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    penalties: &[Regularisation],
    max_steps: usize,
    k: usize,
    moments: &FoldGram,
    progress: &HeldOutFits<'_>,
    stores_functions: bool,
    loss_without_fold: impl Fn(u16) -> Result<(L, f64)>,
) -> Result<HeldOutScores<T>> {
    let p = features.p;
    let mut held_out_scores = HeldOutScores::new(features.n, k, penalties.len()).storing_functions(stores_functions);
    for fold in 0..data.folds.count() as u16 {
        let ((mut loss, training_weight), mut previous) = (loss_without_fold(fold)?, None);
        for (penalty_index, penalty) in penalties.iter().enumerate() {
            let (lambda, journal) = (penalty.lambda(training_weight), data.resources.journal);
            let start = previous.as_ref().map_or(Start::Zero, Start::Path);
            let optimum = minimise(&mut loss, moments, Target::new::<T>(lambda, max_steps), journal, start)?;
            let Optimum { w, .. } = previous.insert(optimum);
            held_out_scores.passes += *loss.passes_mut();
            let columns: Vec<Vec<f64>> = (0..k).map(|j| (0..p).map(|i| w[i * k + j]).collect()).collect();
            let functions: Vec<LinearFunction<'_>> = (0..k).map(|j| (&columns[j][..], w[p * k + j])).collect();
            held_out_scores.score_fold(features, penalty_index, 0, &functions, fold, progress)?;
        }
    }
    Ok(held_out_scores)
}

/// Returns for each level the regularisation parameter whose out-of-fold scores have the smallest
/// error. Without folds, returns the first parameter and does not call `compute_scores`.
/// `error(level, i, scores)` returns the error of the scores of row i. The reported errors are
/// ordered by level, and within a level by parameter.
pub(super) fn cross_validate<T: Real>(
    penalties: &[Regularisation],
    data: &FitData<'_, T>,
    weights: &RowWeights,
    (level_count, error_names): (usize, ErrorNames),
    compute_scores: impl FnOnce() -> Result<HeldOutScores<T>>,
    mut error: impl FnMut(usize, usize, &mut dyn Iterator<Item = f64>) -> f64,
) -> Result<SelectedPenalty<T>> {
    if data.folds.count() == 1 {
        return Ok(SelectedPenalty {
            penalties: vec![penalties[0]; level_count],
            scores: Vec::new(),
            fold_functions: None,
            figures: Vec::new(),
            passes: 0,
        });
    }
    let (mut held_out_scores, total_weight) = (compute_scores()?, weights.weight_sum(0..data.n as usize));
    let (mut penalty_indices, mut figures) = (Vec::new(), Vec::<NamedValues>::new());
    for level in 0..level_count {
        let errors = held_out_scores.mean_errors(weights, |i, scores| error(level, i, scores));
        let (penalty_index, level_figures) = select_penalty(penalties, total_weight, errors, error_names);
        penalty_indices.push(penalty_index);
        match &mut figures[..] {
            [chosen, _, at_each] => {
                let [level_chosen, _, level_at_each] = level_figures;
                chosen.values.extend(level_chosen.values);
                at_each.values.extend(level_at_each.values);
            }
            _ => figures = level_figures.into(),
        }
    }
    let penalties: Vec<Regularisation> = penalty_indices.iter().map(|index| penalties[*index]).collect();
    if level_count > 1 {
        let values = penalties.iter().map(|penalty| penalty.lambda(total_weight)).collect();
        figures.push(NamedValues { name: LAMBDA_OF_EACH_LEVEL, values });
    }
    let at_penalties = |functions| FoldFunctions::at_penalties(functions, &penalty_indices);
    let fold_functions = held_out_scores.fold_functions.map(at_penalties);
    let scores = held_out_scores.scores.swap_remove(penalty_indices[0]);
    Ok(SelectedPenalty { penalties, scores, fold_functions, figures, passes: held_out_scores.passes })
}

/// Returns the index of the regularisation parameter with the smallest error, and three report
/// entries: this error, the parameters, and their errors. If several parameters have the smallest
/// error, the first of them wins: it is the strongest. NaN is worse than any number.
pub(super) fn select_penalty(
    penalties: &[Regularisation],
    total_weight: f64,
    errors: Vec<f64>,
    error_names: ErrorNames,
) -> (usize, [NamedValues; 3]) {
    let error = |index: usize| if errors[index].is_nan() { f64::INFINITY } else { errors[index] };
    let best_index = (0..errors.len()).fold(0, |best, i| if error(i) < error(best) { i } else { best });
    let (name, values) = match penalties.first() {
        Some(Regularisation::Lambda(_)) => {
            ("lambda", penalties.iter().map(|penalty| penalty.lambda(total_weight)).collect())
        }
        _ => ("C", penalties.iter().map(|penalty| penalty.c(total_weight)).collect()),
    };
    let chosen = NamedValues::single(error_names.chosen, errors[best_index]);
    (best_index, [chosen, NamedValues { name, values }, NamedValues { name: error_names.at_each, values: errors }])
}
