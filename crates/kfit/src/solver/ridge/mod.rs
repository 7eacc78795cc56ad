//! Ridge regression: squared loss, for regression or one-vs-rest classification.
//!
//! Minimises (1/n) Σ_i (y_i − c − wᵀφ(x_i))² + lambda‖w‖², in one of three ways:
//!
//! | method | what the method computes from the rows | passes after those for statistics and
//! landmarks | |---|---|---| | `direct` | features | one | | `pcg` | kernel values with landmarks |
//! one, and one per iteration if they are not stored | | exact kernel (`map` exact) | kernel values
//! with all rows, which stay in memory | none: the rows are loaded once |
//!
//! The pass of `direct` computes the Gram matrix of every fold. The Gram matrices are enough for
//! the surface (the error of every rank, lambda and fold). The same pass computes the certificate
//! (the relative trace error of the map) of every rank. Cross-validated error rates, leave-one-out
//! errors and importances each need one more pass.

mod direct;
mod exact;
mod family;
mod iterative;
mod leaf_kernel;
mod leaves;
mod linear;
mod loo;
mod pcg;
mod tree;
mod variance;

use super::{Settings, Solution, Solver, SolverProperties, gradients, parameter::INTERVAL, parameter::STD, reject_if};
use crate::features::{FitData, GRAM_PASS, SectionPoints};
use crate::prepare::stage_plans;
use crate::request::{
    self, FitRequest, MetricForm, MetricSource, PassShape, ProblemSize, RowAccess, Stage, TrainOptions,
};
use crate::{Error, FoldSpec, Intercept, Result, Task};
use family::{CRITERION, IMPORTANCE, LOO, METHOD, PRECONDITIONER};
pub use family::{FAMILY, LEAF_KERNEL, LEAF_ROWS, RESIDUAL};
pub use iterative::sketch::Preconditioner;
use kapprox::{Kernel, MapSpec, Real};
use kstore::MemoryPlan;

/// Criterion that chooses a cell (a rank and a lambda) of the surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// Smallest cross-validated squared error.
    #[default]
    Mse,
    /// Smallest cross-validated error rate. One more pass computes the rates of all cells.
    Error,
}

kmodel::enum_of_words!(Criterion, "select", "mse" => Mse, "error" => Error);

/// How the system of ridge regression is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RidgeMethod {
    /// Solves directly if the plan fits the memory budget and, for the exact kernel, there are at
    /// most [`MAX_DIRECT_ROWS`] rows; otherwise by conjugate gradient. The choice depends on the
    /// budget: if results must be bitwise reproducible under any budget, select one of the other
    /// methods.
    #[default]
    Auto,
    /// By a Cholesky factor.
    Direct,
    /// By preconditioned conjugate gradient, which does not form the matrix.
    Pcg,
}

kmodel::enum_of_words!(RidgeMethod, "method", "auto" => Auto, "direct" => Direct, "pcg" => Pcg);

/// Maximum number of rows for which `auto` factors the exact kernel matrix. The factorisation of
/// 10,000 rows takes 400 MB, and 10 s on two cores. For this number of rows, conjugate gradient
/// takes about as long.
pub const MAX_DIRECT_ROWS: usize = 10_000;

/// Ridge regression.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    /// Regularisation parameters lambda of the surface, ascending.
    pub lambdas: Vec<f64>,
    /// Treatment of the intercept.
    pub intercept: Intercept,
    /// Criterion by which the cell (rank and lambda) is chosen.
    pub criterion: Criterion,
    /// Direct or iterative solution.
    pub method: RidgeMethod,
    /// Preconditioner of the iteration on landmarks; `None` for the default.
    pub preconditioner: Option<Preconditioner>,
    /// Relative residual at which conjugate gradient ends; `None` for the default of
    /// [`Ridge::residual_tolerance`].
    pub residual: Option<f64>,
    /// True to compute leave-one-out errors at the chosen rank and lambda: one more pass.
    pub computes_loo: bool,
    /// True to store predictive variances in the model: 16 m² bytes for m landmarks.
    pub stores_variance: bool,
    /// True to store the functions of the folds at the chosen rank and lambda, for prediction
    /// intervals.
    pub stores_fold_functions: bool,
    /// True to compute the importance of each input, the root mean square slope of the functions
    /// along it: one more pass.
    pub computes_importance: bool,
    /// Approximate maximum number of rows per leaf, if the exact kernel learns the residuals of the
    /// features in the leaves of a tree; `None` for features alone.
    pub max_leaf_rows: Option<usize>,
    /// Kernel of the leaves, whose length scales are learned; `None` for the kernel of the fit.
    pub leaf_kernel: Option<Kernel>,
}

impl Default for Ridge {
    /// Returns lambda 1e-6, and the defaults of the command line for all other fields.
    fn default() -> Self {
        Self {
            lambdas: vec![1e-6],
            intercept: Intercept::default(),
            criterion: Criterion::default(),
            method: RidgeMethod::default(),
            preconditioner: None,
            residual: None,
            computes_loo: false,
            stores_variance: false,
            stores_fold_functions: false,
            computes_importance: false,
            max_leaf_rows: None,
            leaf_kernel: None,
        }
    }
}

impl Ridge {
    /// Builds the solver from its settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            lambdas: settings.regularisations().into_iter().rev().map(|penalty| penalty.lambda(1.0)).collect(),
            intercept: settings.intercept(),
            criterion: settings.enum_value(&CRITERION),
            method: settings.enum_value(&METHOD),
            preconditioner: settings.word(&PRECONDITIONER).map(|_| settings.enum_value(&PRECONDITIONER)),
            residual: settings.number(&RESIDUAL),
            computes_loo: settings.flag(&LOO),
            stores_variance: settings.flag(&STD),
            stores_fold_functions: settings.levels(&INTERVAL).is_some(),
            computes_importance: settings.flag(&IMPORTANCE),
            max_leaf_rows: settings.count(&LEAF_ROWS),
            leaf_kernel: settings.kernel(&LEAF_KERNEL),
        }
    }

    /// Returns true for the solution of smallest norm, which `lambda` 0 selects.
    pub(crate) fn is_min_norm(&self) -> bool {
        self.lambdas == [0.0]
    }

    /// Returns the relative residual at which conjugate gradient ends, by default 1e-6 in f32 and
    /// 1e-9 in f64. It bounds the relative error of the fitted values. With kernel values in f32, a
    /// residual below 1e-6 is impossible.
    pub fn residual_tolerance<T: Real>(&self) -> f64 {
        self.residual.unwrap_or(if size_of::<T>() == size_of::<f32>() { 1e-6 } else { 1e-9 })
    }

    /// Returns the lambda, for methods that solve a single system.
    fn single_lambda<T: Real>(&self) -> Result<f64> {
        self.lambdas.first().copied().ok_or(Error::NoCell { precision: T::NAME })
    }

    /// Rejects parameters that have no effect with this task and map.
    fn reject_unused_parameters(&self, options: &TrainOptions) -> Result<()> {
        let why = "an error rate needs classes; use `task` classification, or leave it out";
        reject_if(
            self.criterion == Criterion::Error && options.task == Task::Regression,
            CRITERION.name,
            "error",
            why,
        )?;
        let why =
            "the preconditioner of the exact kernel is always made from the landmarks of `landmarks`; leave it out";
        reject_if(options.map.is_exact_kernel() && self.preconditioner.is_some(), PRECONDITIONER.name, "", why)
    }

    /// Rejects options that need a direct solution on features: grids, folds, a tolerance,
    /// variances, importances and leaves. Methods that solve a single system call this function.
    fn reject_grid_options(&self, request: &FitRequest<'_>) -> Result<()> {
        let options = &request.options;
        let what = if options.map.is_exact_kernel() { "the exact kernel" } else { "`method` pcg" };
        let (is_pcg, lambda_count, rank_count) =
            (self.method == RidgeMethod::Pcg, self.lambdas.len(), options.ranks.len());
        let why = format!("{what} computes no features, which variances need; use landmarks and `method` direct");
        reject_if(self.stores_variance, "std", "", why)?;
        let why = format!(
            "{what} does not cross-validate, on which prediction intervals depend; use landmarks and `method` direct"
        );
        reject_if(self.stores_fold_functions, INTERVAL.name, "", why)?;
        let why = format!("{what} does not compute it; use landmarks and `method` direct");
        reject_if(self.computes_importance, IMPORTANCE.name, "", why)?;
        let why = "it needs the features of a direct solution; use `method` direct";
        reject_if(self.max_leaf_rows.is_some() && is_pcg, LEAF_ROWS.name, "with `method` pcg", why)?;
        let why = "it needs the Cholesky factor; use `method` direct";
        reject_if(self.computes_loo && is_pcg, "loo", "with `method` pcg", why)?;
        let why = format!("{what} has no trace error to bound; leave it out");
        reject_if(options.tolerance.is_some(), "tolerance", "a tolerance", why)?;
        let why = format!("{what} solves for one lambda; give one, such as `lambda` 1e-6, or `metric` likelihood");
        let learns_noise =
            options.map.is_exact_kernel() && options.metric == MetricSource::Learned(MetricForm::Likelihood);
        reject_if(lambda_count != 1 && !learns_noise, "lambda", format!("{lambda_count} values"), why)?;
        let why = format!("{what} solves for one rank; give one `rank`");
        reject_if(rank_count != 1, "ranks", format!("{rank_count} ranks"), why)?;
        let why = format!("{what} does not cross-validate; leave `folds` out");
        reject_if(options.folds != FoldSpec::None, "folds", &options.folds, why)?;
        let why = "it solves for coefficients of kernel functions of landmarks and uses no map; leave `map` out, or use `method` direct";
        let has_map = !options.map.is_exact_kernel() && options.map != MapSpec::default();
        reject_if(has_map, "method", format!("pcg with `map` {}", options.map), why)
    }

    /// Chooses between the direct method, on features, and conjugate gradient, on landmarks. `auto`
    /// selects conjugate gradient if there is a single system (one rank, one lambda, no folds), its
    /// direct solution does not fit the memory budget, and conjugate gradient does.
    fn select_access<T: Real>(&self, request: &FitRequest<'_>) -> Result<RowAccess> {
        let fits_budget = |access| Ok::<_, Error>(request::all_fit(&Solver::<T>::stages(self, access, request)?.1));
        let uses_pcg = match self.method {
            RidgeMethod::Pcg => true,
            RidgeMethod::Direct => false,
            RidgeMethod::Auto
                if request.size.has_weights
                    || self.computes_loo
                    || self.computes_importance
                    || self.max_leaf_rows.is_some()
                    || self.reject_grid_options(request).is_err() =>
            {
                false
            }
            RidgeMethod::Auto => !fits_budget(RowAccess::Features)? && fits_budget(RowAccess::Landmarks)?,
        };
        Ok(if uses_pcg { RowAccess::Landmarks } else { RowAccess::Features })
    }
}

impl<T: Real> Solver<T> for Ridge {
    fn properties(&self) -> SolverProperties {
        let needs_factor = self.method == RidgeMethod::Direct || self.method == RidgeMethod::Auto && self.computes_loo;
        let why = "`map` exact uses landmarks only with `method` pcg, for its preconditioner; leave it out";
        SolverProperties {
            uses_validation_rows: true,
            supports_forward_folds: true,
            accepts_row_weights: true,
            uses_preconditioner: true,
            landmarks_unused_why: needs_factor.then_some(why),
            // validation rows decide whether the leaves help
            always_needs_validation_rows: self.max_leaf_rows.is_some(),
            dense_only_parameter: (self.max_leaf_rows.is_some().then_some(LEAF_ROWS.name))
                .or(self.computes_importance.then_some(IMPORTANCE.name)),
            ..SolverProperties::default()
        }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        let options = &request.options;
        self.reject_unused_parameters(options)?;
        let why = "the variance of a score is not an uncertainty of the class; leave it out, or use `task` regression";
        reject_if(self.stores_variance && options.task != Task::Regression, "std", options.task, why)?;
        let why = "prediction sets of classes need probabilities; fit logistic, or svm with `probabilities`";
        reject_if(self.stores_fold_functions && options.task != Task::Regression, INTERVAL.name, options.task, why)?;
        if self.computes_importance {
            gradients::check(request)?;
            let why = "it measures slopes of a fit without a metric; with `test` 25% it measures the importance of the columns on the \
                       test rows, for every fit";
            reject_if(options.metric != MetricSource::None, IMPORTANCE.name, "", why)?;
        }
        if self.max_leaf_rows.is_some() {
            leaves::check(
                request,
                self.leaf_kernel.as_ref(),
                [
                    ("std", self.stores_variance),
                    ("loo", self.computes_loo),
                    (INTERVAL.name, self.stores_fold_functions),
                    (IMPORTANCE.name, self.computes_importance),
                ],
            )?;
        }
        let why = "it is the kernel of the leaves; set `local`, such as 6000";
        reject_if(self.leaf_kernel.is_some() && self.max_leaf_rows.is_none(), LEAF_KERNEL.name, "", why)?;
        if self.is_min_norm() {
            let has_folds_or_ranks = options.folds != FoldSpec::None || options.ranks.len() > 1;
            let unsupported = [
                ("std", self.stores_variance),
                ("loo", self.computes_loo),
                (INTERVAL.name, self.stores_fold_functions),
                (IMPORTANCE.name, self.computes_importance),
                (LEAF_ROWS.name, self.max_leaf_rows.is_some()),
                ("folds", has_folds_or_ranks),
                ("map", options.map.is_exact_kernel()),
                ("method", self.method == RidgeMethod::Pcg),
            ];
            let why = "`lambda` 0 selects the solution of smallest norm on the features, which does not support it; leave it out, or set a `lambda` above 0";
            unsupported.into_iter().try_for_each(|(name, is_set)| reject_if(is_set, name, "", why))?;
        }
        if options.map.is_exact_kernel() || self.method == RidgeMethod::Pcg {
            self.reject_grid_options(request)?;
            let (what, remedy) = match options.map.is_exact_kernel() {
                true => ("`map` exact", "use landmarks"),
                false => ("`method` pcg", "use `method` direct"),
            };
            request.reject_weights(what, remedy)?;
        }
        if options.map.is_exact_kernel() { exact::check_landmark_scheme(request) } else { direct::check(request) }
    }

    fn access(&self, request: &FitRequest<'_>) -> Result<RowAccess> {
        // planning calls this function without `check`, and must reject the same options
        self.reject_unused_parameters(&request.options)?;
        if request.options.map.is_exact_kernel() { Ok(RowAccess::Rows) } else { self.select_access::<T>(request) }
    }

    fn single_pass_name(&self, options: &TrainOptions) -> Result<&'static str, &'static str> {
        if options.map.is_exact_kernel() || self.method == RidgeMethod::Pcg {
            return Err(
                "conjugate gradient and the exact kernel read the rows more than once; use landmarks and `method` direct",
            );
        }
        if self.max_leaf_rows.is_some() {
            return Err("`local` reads the rows again after the system is solved; leave it out");
        }
        if self.computes_loo {
            return Err("`loo` needs another pass after the system is solved; leave it out");
        }
        if self.stores_fold_functions {
            return Err("`interval` needs another pass after the system is solved; leave it out");
        }
        if self.computes_importance {
            return Err("`importance` needs another pass after the system is solved; leave it out");
        }
        if options.task == Task::Classification && options.folds != FoldSpec::None {
            return Err("the held-out error rate needs another pass; give one `lambda`, one `rank` and no `folds`");
        }
        Ok(GRAM_PASS)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        direct::plan(self, plan, size, pass_shape)
    }

    fn further_passes(&self, request: &FitRequest<'_>) -> [u64; 2] {
        let scores_held_out_rows = request.size.fold_count > 1 && request.options.task == Task::Classification;
        let further_passes =
            [self.computes_loo, self.computes_importance, scores_held_out_rows, self.stores_fold_functions];
        [0, further_passes.into_iter().map(u64::from).sum()]
    }

    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        Ok(match access {
            RowAccess::Features => stage_plans::feature_stages(
                request,
                &|plan, pass_shape| direct::plan(self, plan, &request.size, pass_shape),
                Solver::<T>::further_passes(self, request),
            ),
            RowAccess::Landmarks => pcg::stages::<T>(self, request),
            RowAccess::Rows => exact::stages::<T>(self, request),
        })
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        match &data.points {
            SectionPoints::NoPoints => direct::fit(self, data),
            SectionPoints::Landmarks(landmarks, size) => pcg::fit(self, data, landmarks, size),
            SectionPoints::Rows(rows, size, read_settings) => exact::fit(self, data, rows, size, read_settings),
        }
    }
}
