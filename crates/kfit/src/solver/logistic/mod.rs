//! Logistic regression, binary and multinomial, and regression of numbers with a logarithmic link
//! (`glm.rs`).
//!
//! ```text
//! minimise over W, c   F = (1/n) Σ_i a_i ℓ(Wᵀφ_i + c; y_i) + lambda ‖W‖²
//! ```
//!
//! ℓ is the negative logarithm of the softmax probability of the true class, with one column of W
//! (p x k) for each class. Two classes have one column, and the logistic function replaces the
//! softmax. a_i is the weight of the row (1 if rows have no weights) times the weight of the row's
//! class. n is the sum of the row weights. The intercept c is free, penalised or absent. C of
//! scikit-learn is 1/(2n lambda).
//!
//! The method is Newton's, with conjugate gradients (`../newton`). Every step solves H d = −∇F
//! with products of the Hessian H and a p x k matrix. It never forms a matrix of order pk. A
//! product takes one pass over the features. Far from the solution all classes share the
//! preconditioner γ ΦᵀΦ/n + 2 lambda I, where γ is the mean of q(1 − q) over the class
//! probabilities q. Near the solution, each class has its own preconditioner
//! (`../hessian_blocks.rs`) if there are enough rows, or if a step took many iterations. Then a few
//! iterations are enough, whatever the condition number of the kernel.
//!
//! If there are enough rows, the steps start from the solution on a sample (`sample.rs`), and ΦᵀΦ
//! is the sum over the sample. Otherwise the pass that stores the features also sums ΦᵀΦ.
//!
//! *Cost*: the map, np² for ΦᵀΦ without a sample, 4kp³ for the preconditioners of the classes, and
//! 4npk flops per pass. *Bytes*: the features, a sample, n·k probabilities, kp² numbers in f64.
//!
//! References: Lin, Weng, Keerthi, "Trust region Newton method for large-scale logistic
//! regression", JMLR 9, 2008; Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for
//! ill-conditioned generalized self-concordant losses", NeurIPS 2019; Nocedal, Wright, *Numerical
//! Optimization* (2006), algorithm 7.1.

mod glm;
mod loss;
mod response;
mod sample;

pub(super) use glm::GLM;

use super::parameter::{
    C_GRID, CLASS_WEIGHT, DEFAULT_LAMBDA_GRID, FOLDS, INTERCEPT, INTERVAL, STEPS, Settings, TOLERANCE, WEIGHTS,
};
use super::{
    NamedValues, Regularisation, Solution, Solver, SolverFamily, SolverProperties, cross_validation, hessian_blocks,
    newton::{self, Start, Target},
};
use crate::features::{self, FitData, GatherOptions, StoredFeatures};
use crate::prepare::stage_plans::REMEDY_LOWER_RANK;
use crate::request::{PassShape, ProblemSize};
use crate::{Error, GramState, Intercept, Result, Task};
use kapprox::Real;
use kstore::MemoryPlan;
use kstore::checkpoint::Steps;
use loss::{Loss, Rows};
use response::Response;
use sample::FeatureSample;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "logistic",
    "logistic regression: probabilities of two or more classes",
    Task::Classification,
    &[DEFAULT_LAMBDA_GRID, C_GRID, FOLDS, INTERCEPT, CLASS_WEIGHT, STEPS, TOLERANCE, INTERVAL, WEIGHTS],
    |settings| {
        Ok(Box::new(Logistic {
            penalties: settings.regularisation_grid()?,
            intercept: settings.intercept(),
            response: Response::Classes(settings.class_weight()),
            max_steps: settings.required(&STEPS, Settings::count),
            stores_fold_functions: settings.levels(&INTERVAL).is_some(),
        }))
    },
);

/// Number of classes from which the fits without a fold take minutes.
const MANY_CLASSES: usize = 20;

/// Warns if cross-validation makes many fits because of the number of classes.
fn warn_of_many_classes<T: Real>(data: &FitData<'_, T>, penalties: &[Regularisation], class_count: usize) {
    let (fold_count, lambda_count) = (data.folds.count(), penalties.len());
    if class_count > MANY_CLASSES && lambda_count > 1 {
        data.resources.stage_observer.warn(format!(
            "cross-validation fits {class_count} classes for {lambda_count} regularisation parameters without each of \
             {fold_count} folds; a single one, such as `lambda` 1e-5, needs no cross-validation and is several times faster"
        ));
    }
}

#[derive(Clone, Debug)]
struct Logistic {
    /// The regularisation parameters, as lambda or C, strongest first. If there are several,
    /// validation rows choose one.
    penalties: Vec<Regularisation>,
    intercept: Intercept,
    response: Response,
    /// Maximum number of Newton steps at the requested lambda.
    max_steps: usize,
    /// True to store the functions of the folds, for prediction sets.
    stores_fold_functions: bool,
}

impl<T: Real> Solver<T> for Logistic {
    fn properties(&self) -> SolverProperties {
        let has_log_link = matches!(self.response, Response::Numbers { .. });
        SolverProperties {
            stores_features: true,
            uses_validation_rows: true,
            accepts_row_weights: true,
            scores_own_loss: has_log_link,
            has_log_link,
            ..SolverProperties::default()
        }
    }

    fn has_probabilities(&self) -> bool {
        matches!(self.response, Response::Classes(_))
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let plan = cross_validation::plan(plan, size, size.t, self.penalties.len());
        let plan = match self.stores_fold_functions {
            true => cross_validation::plan_functions(plan, size, size.t, self.penalties.len()),
            false => plan,
        };
        let (n, p, k) = (usize::try_from(size.n).unwrap_or(usize::MAX), size.map.p, size.t);
        plan.term(
            "classes and probabilities of all rows",
            n.saturating_mul(5 + size.element_bytes * k) + features::row_values_bytes(n, 6),
            "",
        )
        .term("features of a sample", sample::bytes(n, p, k, size.element_bytes), REMEDY_LOWER_RANK)
        .term(
            "Gram matrix and the preconditioner's factor",
            GramState::bytes(p, 0, 1)
                + (8 * (p + 1) * (p + 1)).max((features::STATES_PER_REDUCTION - 1) * GramState::bytes(p, 0, 1)),
            REMEDY_LOWER_RANK,
        )
        .term(
            "Hessians of the classes",
            hessian_blocks::bytes_if_affordable(n, p, if k == 2 { 1 } else { k }, size.element_bytes).unwrap_or(0),
            REMEDY_LOWER_RANK,
        )
        .term("scores of a tile", 3 * pass_shape.tile_rows * k * size_of::<f64>(), "")
        .term(
            "coefficients and directions",
            (9 + features::STATES_PER_REDUCTION) * 8 * (p + 1) * k,
            REMEDY_LOWER_RANK,
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let sample_rows = sample::sample_row_count(data.n as usize, data.map.dims().1);
        let (mut features, gathered) = StoredFeatures::gather(
            data,
            GatherOptions { needs_moments: sample_rows == 0, ..GatherOptions::default() },
        )?;
        let targets = self.response.resolve(&mut features, data, self.intercept)?;
        let (features, score_count) = (features, targets.score_count());
        let sample = match sample_rows {
            0 => None,
            _ => {
                let stage = data.resources.stage_observer.start_stage("sample", None);
                Some(FeatureSample::draw(&features, sample_rows, &*stage)?)
            }
        };
        let moments_of_all = gathered.moments.as_ref().map(|state| &state.folds()[0]);
        let no_moments = || Error::Shape { what: "moments", expected: 1, got: 0 };
        let moments = sample.as_ref().map(|sample| &sample.moments).or(moments_of_all).ok_or_else(no_moments)?;
        let rows = Rows { loss: targets.row_loss(&features), row_weights: &features.weights, held_out_fold: None };
        let (mut f, mut derivatives) = (vec![0.0; score_count], vec![0.0; score_count]);
        let row_loss = |_: usize, i: usize, scores: &mut dyn Iterator<Item = f64>| {
            f.iter_mut().zip(scores).for_each(|(f, score)| *f = score);
            targets.loss_unit() * rows.loss.link(i, &mut f, &mut derivatives)
        };
        let held_out_scores = || {
            warn_of_many_classes(data, &self.penalties, score_count);
            let progress = cross_validation::HeldOutFits::start(data, &self.penalties, score_count);
            let loss_without_fold = |fold| {
                let rows = Rows { held_out_fold: Some((&features.row_folds, fold)), ..rows };
                let loss = Loss::new(&features, rows, score_count, self.intercept, &progress);
                let n = loss.total_weight;
                Ok((loss, n))
            };
            cross_validation::scores_by_newton(
                &features,
                data,
                &self.penalties,
                self.max_steps,
                score_count,
                moments,
                &progress,
                self.stores_fold_functions,
                loss_without_fold,
            )
        };
        let selection = cross_validation::cross_validate(
            &self.penalties,
            data,
            &features.weights,
            (1, targets.error_names()),
            held_out_scores,
            row_loss,
        )?;
        let lambda = selection.penalties[0].lambda(features.weight_outside(None));
        let stage = data.resources.stage_observer.start_stage("newton", None);
        let (mut start, mut moments_of_sample) = (None, None);
        if let Some(sample) = sample {
            if !Steps::has_saved_state(data.resources.journal, newton::JOURNAL_NAME) {
                let target = (lambda, self.max_steps);
                start = Some(sample.solve(&targets, self.intercept, target, &*stage)?);
            }
            // the features of the sample are freed
            moments_of_sample = Some(sample.moments);
        }
        let start = start.as_ref().map_or(Start::Zero, |w| Start::Near(w));
        let moments = moments_of_sample.as_ref().or(moments_of_all).ok_or_else(no_moments)?;
        let target = Target::new::<T>(lambda, self.max_steps);
        let (loss, f64_features) =
            (Loss::new(&features, rows, score_count, self.intercept, &*stage), features.as_f64());
        let f64_loss = || Loss::new(&f64_features, rows, score_count, self.intercept, &*stage).without_probabilities();
        let (mut solution, _, loss) = newton::fit(targets.method_name(), data, loss, f64_loss, moments, target, start)?;
        solution.figures.insert(0, NamedValues::single(targets.train_loss_name(), targets.loss_unit() * loss));
        if let Some(class_labels) = data.classes().filter(|_| !selection.scores.is_empty()) {
            let is_misclassified = |i: usize| {
                let scores = &selection.scores[i * score_count..][..score_count];
                class_labels.decide(scores.iter().map(|f| f.to_f64())) != features.class_codes[i] as usize
            };
            let rates = cross_validation::error_rates(&features.row_folds, &features.weights, is_misclassified);
            solution.figures.extend(rates);
        }
        solution.figures.extend(selection.figures);
        solution.passes += selection.passes + u64::from(sample_rows > 0);
        solution.fold_functions = selection.fold_functions;
        Ok(Solution { certificate: gathered.certificate, ..targets.add_to(solution) })
    }
}
