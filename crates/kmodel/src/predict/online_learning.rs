//! Online learning from the end of a fit: every row is predicted first and then learned.
//!
//! A model that stores the variance of its predictions contains the state of recursive least
//! squares. Let b(x) be the m basis functions and φ = bF the r features (F is m × r). In units of
//! the noise variance, the variance of a prediction is ‖φR + s‖² + c. Let B be the matrix R with
//! the row s below it. The matrix P of recursive least squares (see `recursive_least_squares`) is
//! BBᵀ, plus c in the last diagonal entry, which belongs to the intercept. The model stores the
//! coefficients FR and Fw on the basis; a QR factorisation of F recovers R and the weights w. The
//! new model has the basis of the old model.
//!
//! *Flops*: for every row, the features and 3r²; once, 2mr² for the QR factorisation. *Bytes*: as
//! [`Predictor::score_table`] for r outputs, plus about 40mr.

use super::{AnyPreparedModel, Extras, Predictor, prepared_model::PreparedModel};
use crate::growth::{Growth, ResidualSums, inverse_squared_norms, moved_ranges};
use crate::model::{Basis, FEATURES_SOLVER, Intercept, match_precision};
use crate::quadratic::Quadratic;
use crate::recursive_least_squares::{BLOCK_ROWS, RecursiveLeastSquares};
use crate::{AnyModel, Error, Model, ModelMetadata, Result, Task, linalg::strips::BufferPool, run::Run};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::{Real, decompose::orthonormal_basis};
use kstore::{Merge, SelectedTable, budget::MemoryTerm};

/// A model that has learned rows online, and the error of its predictions of these rows before
/// learning.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OnlineUpdate {
    /// The model.
    pub model: AnyModel,
    /// Number of learned rows.
    pub rows: u64,
    /// Mean squared error over the rows and targets, each row predicted before it was learned.
    pub running_mse: f64,
    /// The learned rows, compared with the rows of the fit. The metadata of the model have the same
    /// comparison for all rows learned since the fit.
    #[doc(hidden)]
    pub growth: Growth,
}

impl Predictor {
    /// Learns the rows of a table, in their order, by recursive least squares from the end of the
    /// fit.
    ///
    /// With every new row, the weights of past rows are multiplied by `forgetting`. If `forgetting`
    /// is 1, the model has the coefficients of ridge regression on the rows of the fit and of the
    /// table together, with regularisation term lambda·n‖w‖² for the n rows of the fit, and the
    /// basis and scaling of the fit.
    ///
    /// The certificate remains the certificate of the fit. The update also compares the new rows
    /// with the landmarks and the ranges of the fit (`OnlineUpdate::growth`).
    ///
    /// ```
    /// use ksolve::job::{Fit, Run};
    /// use ksolve::predict::Predictor;
    /// # let x: Vec<f64> = (0..300).map(|i| (f64::from(i) * 0.37).sin()).collect();
    /// # let y: Vec<f64> = x.iter().map(|x| 3.0 * x + 1.0).collect();
    /// let table = kstore::Table::from_rows(&x[..200], 1, &y[..200])?;
    /// let fit = Fit::ridge().rank(20).set("lambda", 1e-6).set("std", true);
    /// let predictor = Predictor::new(fit.fit_table(&table, &["y"], &Run::new())?.model)?;
    /// let more = kstore::Table::from_rows(&x[200..], 1, &y[200..])?;
    /// let selected = predictor
    ///     .select(&more, kstore::Selection { targets: vec!["y".into()], ..Default::default() })?;
    /// let learned = predictor.learn(&selected, 1.0, &Run::new())?;
    /// assert!(learned.rows == 100 && learned.running_mse < 1e-4, "{}", learned.running_mse);
    /// # Ok::<(), ksolve::Error>(())
    /// ```
    ///
    /// # Errors
    /// A model without variances (fit ridge or online with `std`); another number of targets; the
    /// errors of [`Predictor::score_table`].
    pub fn learn(&self, selected: &SelectedTable, forgetting: f64, run: &Run<'_>) -> Result<OnlineUpdate> {
        if !(forgetting > 0.0 && forgetting <= 1.0) {
            return Err(Error::option("forgetting", forgetting, "give a number above 0 and up to 1, such as 0.999"));
        }
        if !self.interval_levels().is_empty() {
            let why = "the functions of the folds, on which its prediction intervals depend, do not learn new rows; fit without `interval`";
            return Err(Error::option("model", "", why));
        }
        let target_names = selected.target_names();
        if target_names.len() != self.output_count() {
            let why = format!("the model has {} targets; name the same number", self.output_count());
            return Err(Error::option("target", target_names.join(","), why));
        }
        let (feature_model, mut recursion) = match &self.model {
            AnyPreparedModel::F32(prepared) => {
                prepared.start_recursion().map(|(model, recursion)| (AnyModel::F32(model), recursion))
            }
            AnyPreparedModel::F64(prepared) => {
                prepared.start_recursion().map(|(model, recursion)| (AnyModel::F64(model), recursion))
            }
        }?;
        let feature_predictor = Self::new(feature_model)?;
        let (r, t, panel_pool, workers) =
            (feature_predictor.output_count(), target_names.len(), BufferPool::default(), run.workers());
        let recursion_bytes = feature_predictor.plan_term(0).bytes
            + RecursiveLeastSquares::bytes(r, t, workers.threads())
            + 2 * Quadratic::expansion_bytes(r, r);
        let plan_terms = vec![
            self.plan_term(0),
            MemoryTerm::new("inverse of the moments", recursion_bytes, "fit a model of lower `rank`"),
        ];
        let mut squared_error_sum = 0.0;
        let overflow_error = || {
            let why = "the inverse of the moments of the features overflows f64; raise `forgetting`, or fit with a lower `rank`";
            Error::option("forgetting", forgetting, why)
        };
        let mut learn_block = |phi: &[f64], y: &[f64]| -> Result<()> {
            let squared_errors = recursion.learn(phi, y, forgetting, &panel_pool, workers);
            // if the run is cancelled, this block may be learned only in part
            workers.check()?;
            squared_error_sum += squared_errors.ok_or_else(overflow_error)?;
            Ok(())
        };
        // blocks are independent of segments: the size of a segment depends on the memory, and the
        // result must not
        let (mut phi, mut y) = (Vec::with_capacity(BLOCK_ROWS * r), Vec::with_capacity(BLOCK_ROWS * t));
        let mut residuals = self.landmark_residuals().map(|_| ResidualSums::default());
        let extras = Extras { squares: residuals.is_some(), ..Extras::default() };
        let rows = feature_predictor.score_in_one_lane(selected, extras, plan_terms, run, |segment| {
            if let Some(residuals) = &mut residuals {
                for (row, diag) in segment.scores.chunks_exact(r).zip(&segment.residual) {
                    residuals.add_row(*diag, diag - row.iter().map(|phi| phi * phi).sum::<f64>());
                }
            }
            for (row, targets) in segment.scores.chunks_exact(r).zip(segment.y.chunks_exact(t)) {
                phi.extend_from_slice(row);
                y.extend_from_slice(targets);
                if phi.len() == BLOCK_ROWS * r {
                    learn_block(&phi, &y)?;
                    phi.clear();
                    y.clear();
                }
            }
            Ok(())
        })?;
        if !phi.is_empty() {
            learn_block(&phi, &y)?;
        }
        let mut model = match_precision!(AnyPreparedModel to AnyModel: &self.model, prepared => prepared.finish_recursion(&recursion, rows).ok_or_else(overflow_error)?);
        let metadata = match_precision!(AnyModel: &mut model, model => &mut model.metadata);
        let unseen = selected.unseen_value_counts();
        let mut growth = Growth {
            rows,
            fit_rows: metadata.rows,
            fit_missed: self.fit_missed(residuals),
            residuals,
            unseen,
            ..Growth::default()
        };
        // an earlier update compared its rows with the same fit
        let earlier = metadata.growth.take().filter(|_| self.metadata().online_rows > 0);
        if !metadata.ranges.is_empty() {
            let named_ranges = metadata.features.iter().zip(&metadata.ranges);
            let fit_ranges: Vec<[f64; 2]> = named_ranges
                .map(|(name, range)| earlier.as_ref().map_or(*range, |earlier| earlier.fit_range(name, *range)))
                .collect();
            let (statistics, outside) = run.statistics_beside_ranges(selected, &fit_ranges, 0)?;
            let ranges = metadata.ranges.iter_mut().zip(&statistics.inputs);
            ranges.for_each(|([low, high], column)| (*low, *high) = (low.min(column.min), high.max(column.max)));
            growth.columns = fit_ranges.len();
            growth.ranges = moved_ranges(&metadata.features, &fit_ranges, &statistics.inputs, &outside);
        }
        metadata.growth = Some(match earlier {
            Some(mut all_growth) => {
                all_growth.merge(&growth);
                all_growth
            }
            None => growth.clone(),
        });
        Ok(OnlineUpdate { model, rows, running_mse: squared_error_sum / (rows * t as u64) as f64, growth })
    }

    /// Returns the sum of the leave-one-out residuals of the landmarks; `None` if the map is not a
    /// projection.
    fn landmark_residuals(&self) -> Option<f64> {
        let coefficients = self.quadratic()?.feature_coefficients.as_ref()?;
        self.metadata().certificate?;
        let has_landmarks = match_precision!(AnyPreparedModel: &self.model, prepared => matches!(prepared.model.basis, Basis::Landmarks { .. }));
        Some(if has_landmarks { inverse_squared_norms(coefficients.as_ref()) } else { 0.0 })
    }

    /// Returns the missed fraction of the rows of the fit, by leave-one-out for the landmarks.
    /// `new_residuals` are the residuals of new rows.
    fn fit_missed(&self, new_residuals: Option<ResidualSums>) -> Option<f64> {
        let (landmark_residuals, certificate) = (self.landmark_residuals()?, self.metadata().certificate?);
        let missed = certificate.trace_error.max(certificate.floor);
        // the allowance of a variance is the mean residual of the rows of the fit
        let mean_residual = self.quadratic()?.residual_allowance;
        let mean_diag = match certificate.trace_error > 0.0 && mean_residual > 0.0 {
            true => mean_residual / certificate.trace_error,
            false => new_residuals.map_or(0.0, |residuals| residuals.trace / residuals.rows.max(1) as f64),
        };
        let trace = mean_diag * self.metadata().rows as f64;
        Some(Growth::leave_one_out_fraction(missed, trace, landmark_residuals))
    }
}

impl<T: Real> PreparedModel<T> {
    /// Returns a model whose outputs are the features, and the recursion that continues the fit.
    fn start_recursion(&self) -> Result<(Model<T>, RecursiveLeastSquares)> {
        let Self { model, .. } = self;
        let Some(quadratic) = model.quadratic.as_ref().filter(|_| model.metadata.task == Task::Regression) else {
            let why = "the model does not store the variance that online learning starts from; fit ridge or online with `std`";
            return Err(Error::option("model", &model.metadata.solver, why));
        };
        let Quadratic { factor, shift, feature_coefficients, constant, output_scales, degrees_of_freedom, .. } =
            quadratic;
        let m = factor.nrows();
        let f = feature_coefficients.clone().unwrap_or_else(|| Mat::identity(m, m));
        // r features, t targets, and a root R with k columns
        let (r, t, k) = (f.ncols(), output_scales.len(), factor.ncols());
        let mut right_hand_sides =
            Mat::from_fn(m, t + k, |i, j| if j < t { model.coefficients[(i, j)] } else { factor[(i, j - t)] });
        if feature_coefficients.is_some() {
            // least squares by QR on this thread: faer's solver uses all threads of the machine,
            // and its result depends on their number
            let (q, _) = orthonormal_basis(f.clone());
            let (mut triangular_factor, mut projected_right_sides) = (Mat::zeros(r, r), Mat::zeros(r, t + k));
            matmul(triangular_factor.as_mut(), Accum::Replace, q.transpose(), f.as_ref(), 1.0, Par::Seq);
            matmul(
                projected_right_sides.as_mut(),
                Accum::Replace,
                q.transpose(),
                right_hand_sides.as_ref(),
                1.0,
                Par::Seq,
            );
            solve_upper_triangular_in_place(triangular_factor.as_ref(), projected_right_sides.as_mut(), Par::Seq);
            right_hand_sides = projected_right_sides;
        }
        let w = Mat::from_fn(r + 1, t, |i, j| if i < r { right_hand_sides[(i, j)] } else { model.intercept[j] });
        let roots = Mat::from_fn(r + 1, k + 1, |i, j| match (i < r, j < k) {
            (true, true) => right_hand_sides[(i, t + j)],
            (false, true) => shift[j],
            (true, false) => 0.0,
            (false, false) => constant.max(0.0).sqrt(),
        });
        let (has_free_intercept, has_no_intercept) =
            (model.metadata.intercept == Intercept::Free, model.metadata.intercept == Intercept::None);
        let initial_degrees_of_freedom =
            degrees_of_freedom.unwrap_or(model.metadata.rows as f64 - f64::from(u8::from(has_free_intercept)));
        let constant_feature = f64::from(u8::from(!has_no_intercept));
        let recursion = RecursiveLeastSquares::from_roots(
            w.as_ref(),
            constant_feature,
            roots.as_ref(),
            output_scales,
            initial_degrees_of_freedom.max(1.0),
        );
        // rows are learned unclipped; the ranges of the model are extended to them afterwards
        let ranges = Vec::new();
        let metadata = ModelMetadata {
            solver: FEATURES_SOLVER.to_string(),
            task: Task::Components,
            ranges,
            ..model.metadata.clone()
        };
        let intercept = vec![0.0; r];
        Ok((
            Model { metadata, coefficients: f, intercept, quadratic: None, components: None, ..model.clone() },
            recursion,
        ))
    }

    /// Returns the model after `rows` learned rows; `None` if P has no Cholesky factor in f64.
    fn finish_recursion(&self, recursion: &RecursiveLeastSquares, rows: u64) -> Option<Model<T>> {
        let (model, old_quadratic) = (&self.model, self.model.quadratic.as_ref()?);
        let variance = recursion.variance(old_quadratic.residual_factor, old_quadratic.residual_allowance)?;
        let (w, intercept) = recursion.weights_and_intercepts();
        let expand_to_basis = |features: MatRef<'_, f64>| {
            old_quadratic.feature_coefficients.as_ref().map_or(features.to_owned(), |f| f * features)
        };
        let quadratic = Quadratic {
            factor: expand_to_basis(variance.factor.as_ref()),
            feature_coefficients: old_quadratic.feature_coefficients.clone(),
            ..variance
        };
        let metadata = ModelMetadata { online_rows: model.metadata.online_rows + rows, ..model.metadata.clone() };
        Some(Model {
            metadata,
            coefficients: expand_to_basis(w.as_ref()),
            intercept,
            quadratic: Some(quadratic),
            ..model.clone()
        })
    }
}
