//! A trained model: basis functions, coefficients and everything else that defines its predictions.
//! It is stored in one safetensors file.
//!
//! A model computes f(x) = b(x)·α + c, where b(x) (length m) are the values of the model's
//! [`Basis`] at x after its [`BasisTransform`], α (m x t) the coefficients, and c (length t) the
//! intercepts. If a novelty model has a [`quadratic`] function g, its score is f(x) − g(x). For a
//! map on landmarks, the basis is the kernel functions of the landmarks, not the features: the
//! factor that turns the one into the other is already multiplied into α. The module `file`
//! documents the file format.

mod basis;
mod basis_transform;
mod clipped_basis;
mod cluster_profile;
mod column_distribution;
mod ensemble;
mod file;
mod leaves;
mod load;
mod matrix_columns;
mod metadata;
mod metric_report;
mod outputs;
mod predict;

pub use basis::Basis;
pub use basis::needs_f64_for;
pub use basis_transform::BasisTransform;
pub(crate) use clipped_basis::{clip_rows, round_to_f32};
pub use cluster_profile::{ClusterProfile, DistinctiveColumn};
#[doc(hidden)]
pub use column_distribution::ColumnDistribution;
pub use leaves::{BasisFunctions, Leaves};
pub use load::MAX_HEADER_BYTES;
pub use matrix_columns::MatrixKind;
pub(crate) use metadata::is_zero;
pub use metadata::{EnsembleMember, FEATURES_SOLVER, Intercept, LinearHead, ModelMetadata, SecondView};
pub use metric_report::{MetricReport, MetricTestErrors, RoundReport};
pub(crate) use outputs::Outputs;
pub use predict::PredictScratch;

use crate::intervals::Intervals;
use crate::linalg::strips::{BufferPool, row_strips};
use crate::quadratic::{self, Quadratic};
use crate::{Error, Result, Task};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use kapprox::metric::Metric;
use kapprox::{KernelFunction, Real};
use kstore::sparse::{SparseShape, widen_rows};
use kstore::{Encoding, Scaler, Workers};
use outputs::{StripBuffers, empty_matrix, linear_scores};
use std::path::Path;
use std::sync::Arc;

/// Number of rows that one thread predicts at a time. With 4,000 landmarks, their kernel values
/// take 4 MB in f32.
const STRIP_ROWS: usize = quadratic::STRIP_ROWS;

/// Number of basis functions whose values are converted to f64 at a time. 256 rows of 128 values
/// take 256 KiB, which fits in the L2 cache.
const PANEL_FUNCTIONS: usize = 128;

/// A model in the precision of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Model<T> {
    /// Metadata: options, names and classes.
    pub metadata: ModelMetadata,
    /// Basis functions.
    #[doc(hidden)]
    pub basis: Basis<T>,
    /// Transformation of the basis functions before their product with the coefficients.
    #[doc(hidden)]
    pub transform: BasisTransform,
    /// Coefficients α, m x t.
    pub coefficients: Mat<f64>,
    /// Intercepts c, length t.
    pub intercept: Vec<f64>,
    /// Scaling of the d features of a row, which is applied first.
    pub scaler: Scaler,
    /// Metric that is applied after the scaling; `None` if the scaled features are the inputs of
    /// the basis.
    #[doc(hidden)]
    pub metric: Option<Arc<Metric>>,
    /// Predictive variances, or distances from the components, if the fit requested them.
    #[doc(hidden)]
    pub quadratic: Option<Quadratic>,
    /// Components in addition to predictions, if the fit requested them: m x q weights of the basis
    /// functions, and q intercepts. With `intervals`, the functions that were fitted without each
    /// fold, by fold.
    #[doc(hidden)]
    pub components: Option<LinearHead>,
    /// Local models with the exact kernel in the leaves of a tree, whose scores are added; `None`
    /// for most models.
    #[doc(hidden)]
    pub leaves: Option<Leaves<T>>,
    /// Scores of held-out rows for prediction intervals, if the fit requested them.
    #[doc(hidden)]
    pub intervals: Option<Arc<Intervals>>,
}

/// A model in f32 or f64, as read from a file.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyModel {
    /// A model whose rows are in f32.
    F32(Model<f32>),
    /// A model whose rows are in f64.
    F64(Model<f64>),
}

/// `either!(Enum: value, name => expression)` matches `value` on `Enum::F32` and `Enum::F64`, and
/// evaluates the same expression in both arms, with the content as `name`. With `Enum to Other`,
/// wraps the result in the variant of `Other` with the same precision.
#[doc(hidden)]
#[macro_export]
macro_rules! match_precision {
    ($kind:ident to $to:ident: $of:expr, $typed:ident => $value:expr) => {
        match $of {
            $kind::F32($typed) => $to::F32($value),
            $kind::F64($typed) => $to::F64($value),
        }
    };
    ($kind:ident: $of:expr, $typed:ident => $value:expr) => {
        match $of {
            $kind::F32($typed) => $value,
            $kind::F64($typed) => $value,
        }
    };
}

#[doc(hidden)]
pub use crate::match_precision;

impl AnyModel {
    /// Writes the model atomically; see [`Model::save`].
    ///
    /// # Errors
    /// The errors of [`Model::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        match_precision!(Self: self, model => model.save(path))
    }

    /// Returns the metadata of the model: options, names and classes.
    pub fn metadata(&self) -> &ModelMetadata {
        match_precision!(Self: self, model => &model.metadata)
    }
}

impl<T: Real> Model<T> {
    /// Returns the number m of basis functions, the number of their input features (after the
    /// metric, if any), and the number t of outputs.
    #[doc(hidden)]
    pub fn dims(&self) -> (usize, usize, usize) {
        let d = self.metric.as_ref().map_or(self.scaler.input_count(), |metric| metric.output_count());
        (self.coefficients.nrows(), d, self.intercept.len())
    }

    /// Returns the length of the rows of a prediction. The basis applies the metric and clips the
    /// rows, if the leaves have their own kernel, and else the caller.
    pub(crate) fn row_length(&self) -> usize {
        if self.metadata.leaf_kernel.is_some() { self.scaler.input_count() } else { self.dims().1 }
    }

    /// Returns the scaled training range of each feature, rounded as in the fit, if rows are
    /// clipped.
    pub(crate) fn scaled_ranges(&self) -> Option<Vec<[T; 2]>> {
        let round_value = |value| if self.rounds_to_f32() { round_to_f32(value) } else { value };
        let scaled_range =
            |(j, range): (usize, &[f64; 2])| range.map(|value| T::from_f64(round_value(self.scaler.apply(j, value))));
        let ranges = &self.metadata.ranges;
        (!ranges.is_empty()).then(|| ranges.iter().enumerate().map(scaled_range).collect())
    }

    /// Converts the model to a model that predicts in f64. A fit in f32 needs this if landmarks are
    /// very close to each other: the coefficients are then large and of both signs, and would
    /// amplify the rounding of kernel values in f32 ([`kapprox::NystromMap::needs_f64`]).
    #[must_use]
    #[doc(hidden)]
    pub fn into_f64(self) -> Model<f64> {
        Model {
            metadata: ModelMetadata { precision: "f64".to_string(), ..self.metadata },
            basis: self.basis.into_f64(),
            transform: self.transform,
            coefficients: self.coefficients,
            intercept: self.intercept,
            scaler: self.scaler,
            metric: self.metric,
            quadratic: self.quadratic,
            components: self.components,
            leaves: self.leaves.map(Leaves::into_f64),
            intervals: self.intervals,
        }
    }

    /// Widens the landmarks and the scaler, so that the model accepts sparse rows with these shapes
    /// (one shape for each column). A model of dense rows is returned unchanged.
    #[must_use]
    pub(crate) fn with_sparse_shapes(mut self, shapes: &[SparseShape]) -> Self {
        let Some((encoding, shape)) = self.metadata.encoding.as_ref().zip(self.metadata.sparse_shape()) else {
            return self;
        };
        let encoding = Encoding::clone(encoding).with_capacity_for(shapes);
        let values_per_row = encoding.feature_count();
        if let Basis::Landmarks { points, .. } = &mut self.basis {
            *points = widen_rows(points, shape.values_per_row(), values_per_row);
        }
        self.scaler.centre.resize(values_per_row, 0.0);
        self.scaler.scale.resize(values_per_row, 1.0);
        self.scaler.mean.resize(values_per_row, 0.0);
        self.metadata.features = encoding.feature_names();
        self.metadata.encoding = Some(Arc::new(encoding));
        self
    }

    /// Returns true if the fit was in f32 but predictions are in f64. Rows must then first be
    /// rounded to f32, as in the fit: otherwise a training row that is a landmark would differ from
    /// the stored, rounded landmark.
    pub(crate) fn rounds_to_f32(&self) -> bool {
        let f32_name = <f32 as kstore::Float>::NAME;
        self.metadata.precision != f32_name && self.metadata.options["precision"] == f32_name
    }

    /// Returns the bytes of the model in memory.
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let (m, d, t) = self.dims();
        let quadratic_bytes = self.quadratic.as_ref().map_or(0, Quadratic::bytes_in_memory);
        let metric_bytes = self.metric.as_ref().map_or(0, |metric| 8 * metric.to_row_major().len());
        let component_bytes = 8 * self.component_count() * (m + 1);
        // a basis of graph nodes may have more points than functions
        let point_count = self.basis.landmarks().map_or(m, |(_, rows)| rows.len());
        let f64_count = point_count + m * t + t + 3 * self.scaler.input_count();
        let encoding_bytes = self.metadata.encoding.as_ref().map_or(0, |encoding| encoding.bytes());
        let leaf_bytes = self.leaves.as_ref().map_or(0, Leaves::bytes);
        encoding_bytes
            + size_of::<T>() * point_count * d
            + 8 * f64_count
            + metric_bytes
            + quadratic_bytes
            + component_bytes
            + leaf_bytes
            + self.intervals.as_ref().map_or(0, |intervals| intervals.bytes())
            + self.transform.bytes()
    }

    /// Returns the bytes of the buffers that [`Model::predict`] needs on `threads` threads.
    #[doc(hidden)]
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let (m, _, t) = self.dims();
        let t = t.max(self.component_count());
        let quadratic_bytes = self.quadratic.as_ref().map_or(0, |quadratic| quadratic.scratch_bytes(threads));
        let max_leaf_rows = self.leaves.iter().flat_map(|leaves| leaves.row_counts.iter().copied()).max().unwrap_or(0);
        STRIP_ROWS * (size_of::<T>() * m.max(max_leaf_rows) + 8 * PANEL_FUNCTIONS + 8 * t) * threads.max(1)
            + quadratic_bytes
    }

    /// Computes `out` (b x t) = f(x) for the rows of `x` (b x d row-major, after scaling and
    /// metric). `functions` must be the result of [`Model::functions`].
    ///
    /// The basis is computed in `T`. Its product with α is accumulated in f64, because dual
    /// coefficients are large and cancel. Up to 32 rows are predicted as by
    /// [`predict_with_scratch`](Self::predict_with_scratch); otherwise, strips of 256 rows are
    /// distributed over the workers. The prediction of a row depends only on its basis values, not
    /// on other rows or on the number of threads. *Cost*: the basis, and 2·m·t flops per row.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` or `out` do not fit the model; an unknown kernel.
    #[doc(hidden)]
    pub fn predict(
        &self,
        functions: &BasisFunctions<T>,
        x: MatRef<'_, T>,
        out: MatMut<'_, f64>,
        workers: &Workers,
    ) -> Result<()> {
        self.check_shapes(functions, x, &out)?;
        if let Some(sections) = functions.landmark_sections()
            && x.nrows() <= predict::MAX_GROUPED_ROWS
            && self.quadratic_in_scores().is_none()
            && self.leaves.is_none()
        {
            self.predict_few(sections, x, out, &mut PredictScratch::new(functions));
            return Ok(());
        }
        let kernel = self.quadratic_in_scores().map(|_| self.kernel()).transpose()?;
        self.predict_outputs(functions, kernel.as_deref(), x, Outputs::from_scores(out), workers);
        Ok(())
    }

    /// Computes all requested outputs from one evaluation of the basis. `kernel` is the result of
    /// [`Model::kernel`]; it is required if the quadratic function is needed. *Cost* of components:
    /// 2·m·q flops per row.
    pub(crate) fn predict_outputs(
        &self,
        functions: &BasisFunctions<T>,
        kernel: Option<&dyn KernelFunction<T>>,
        x: MatRef<'_, T>,
        Outputs { mut scores, components, quadratic }: Outputs<'_>,
        workers: &Workers,
    ) {
        let leaves = self.leaves.as_ref().filter(|_| scores.ncols() > 0 && self.metadata.leaf_kernel.is_none());
        let node_count = leaves.map_or(0, |leaves| leaves.half_widths.len());
        let mut node_values = vec![0.0; x.nrows() * node_count];
        let node_matrix = MatMut::from_row_major_slice_mut(&mut node_values, x.nrows(), node_count);
        let outputs = Outputs { scores: scores.rb_mut(), components, quadratic };
        self.predict_strips(functions, kernel, x, outputs, node_matrix, workers);
        if scores.ncols() > 0 {
            self.add_leaves(functions, x, &node_values, scores.rb_mut(), workers);
            self.finish_scores(scores);
        }
    }

    /// Computes the outputs as [`predict_outputs`](Self::predict_outputs) does, but without the
    /// leaves. Instead writes the values of the tree's node functions to `node_values`.
    fn predict_strips(
        &self,
        functions: &BasisFunctions<T>,
        kernel: Option<&dyn KernelFunction<T>>,
        x: MatRef<'_, T>,
        outputs: Outputs<'_>,
        node_values: MatMut<'_, f64>,
        workers: &Workers,
    ) {
        let score_quadratic = self.quadratic_in_scores().filter(|_| outputs.scores.ncols() > 0);
        let quadratic = if outputs.quadratic.ncols() > 0 { self.quadratic.as_ref() } else { score_quadratic };
        let (m, pool) = (functions.dims().1, BufferPool::default());
        let strips = outputs.strips().into_iter().zip(row_strips(node_values, STRIP_ROWS)).collect();
        workers.for_each(
            strips,
            |((first_row, mut out), (_, mut node_values)): ((usize, Outputs<'_>), (usize, MatMut<'_, f64>))| {
                let x = x.subrows(first_row, out.scores.nrows());
                let row_count = x.nrows();
                pool.with_buffer(
                    StripBuffers::default,
                    |StripBuffers { basis_values: basis_buffer, panel_f64: block_f64, sums, scratch }: &mut StripBuffers<
                        T,
                    >| {
                        basis_buffer.resize(STRIP_ROWS * m, T::default());
                        let block = &mut basis_buffer[..row_count * m];
                        let basis_values = MatMut::from_column_major_slice_mut(block, row_count, m);
                        functions.apply(x, basis_values, &Workers::sequential());
                        let basis_values = MatRef::from_column_major_slice(block, row_count, m);
                        let mut quadratic_values = vec![0.0; row_count];
                        if let Some((quadratic, kernel)) = quadratic.zip(kernel) {
                            quadratic.evaluate(basis_values, &self.squared_norms(basis_values, x, kernel), scratch, &mut quadratic_values);
                        }
                        if out.quadratic.ncols() > 0 {
                            out.quadratic
                                .rb_mut()
                                .col_mut(0)
                                .iter_mut()
                                .zip(&quadratic_values)
                                .for_each(|(out, value)| *out = *value);
                        }
                        let splits = self.leaves.as_ref().map(|leaves| &leaves.splits);
                        let heads =
                            [(self.components.as_ref(), out.components.rb_mut()), (splits, node_values.rb_mut())];
                        for (head, mut out) in heads.into_iter().filter(|(_, out)| out.ncols() > 0) {
                            let Some(LinearHead { weights, intercept }) = head else { continue };
                            linear_scores(weights, intercept, basis_values, block_f64, sums);
                            out.copy_from(MatRef::from_column_major_slice(sums, row_count, intercept.len()));
                        }
                        if out.scores.ncols() > 0 {
                            linear_scores(&self.coefficients, &self.intercept, basis_values, block_f64, sums);
                            if score_quadratic.is_some() {
                                sums.iter_mut().zip(quadratic_values).for_each(|(score, value)| *score -= value);
                            }
                            out.scores.copy_from(MatRef::from_column_major_slice(
                                sums,
                                row_count,
                                self.intercept.len(),
                            ));
                            // the kernels clip values that overflow, so a score from such values
                            // would be finite but meaningless
                            let strip_overflows =
                                basis_values.col_iter().any(|column| predict::has_overflow(column.iter().copied()));
                            let row_overflows =
                                |r: &usize| strip_overflows && predict::has_overflow(basis_values.row(*r).iter().copied());
                            (0..row_count)
                                .filter(row_overflows)
                                .for_each(|r| out.scores.rb_mut().row_mut(r).fill(f64::INFINITY));
                        }
                    },
                );
            },
        );
    }

    /// Returns the quadratic function if the scores contain it, as the scores of a novelty model
    /// do. Otherwise returns `None`.
    pub(crate) fn quadratic_in_scores(&self) -> Option<&Quadratic> {
        self.quadratic.as_ref().filter(|_| self.metadata.task == Task::Novelty)
    }

    fn check_shapes(&self, functions: &BasisFunctions<T>, x: MatRef<'_, T>, out: &MatMut<'_, f64>) -> Result<()> {
        let (m, d, t) = self.dims();
        Error::check_dimension("columns of the rows to predict", d, x.ncols())?;
        Error::check_dimension("functions of the basis", m, functions.dims().1)?;
        Error::check_dimension("rows of the predictions", x.nrows(), out.nrows())?;
        Error::check_dimension("columns of the predictions", t, out.ncols())
    }

    /// Computes the [`quadratic`] function at every row x_i of `x`, as `out[i]`.
    ///
    /// For ridge regression it is the variance of f(x_i) divided by the noise variance σ², so a new
    /// observation has the variance σ²(1 + `out[i]`). For components it is the squared distance
    /// from their span. `kernel` is the result of [`Model::kernel`].
    /// *Cost*: the basis, and 4m² flops per row for m landmarks.
    ///
    /// # Errors
    /// [`Error::NoQuadratic`] if the model has no such function; [`Error::Shape`].
    #[doc(hidden)]
    pub fn predict_quadratic(
        &self,
        functions: &BasisFunctions<T>,
        kernel: &dyn KernelFunction<T>,
        x: MatRef<'_, T>,
        out: &mut [f64],
        workers: &Workers,
    ) -> Result<()> {
        if self.quadratic.is_none() {
            return Err(Error::NoQuadratic);
        }
        let row_count = out.len();
        Error::check_dimension("columns of the rows to predict", self.dims().1, x.ncols())?;
        Error::check_dimension("values of the quadratic function", x.nrows(), row_count)?;
        let quadratic = MatMut::from_row_major_slice_mut(out, row_count, 1);
        let outputs = Outputs { scores: empty_matrix(row_count), components: empty_matrix(row_count), quadratic };
        self.predict_outputs(functions, Some(kernel), x, outputs, workers);
        Ok(())
    }

    /// Returns the number q of components in addition to the predictions; 0 if there are none.
    pub(crate) fn component_count(&self) -> usize {
        self.components.as_ref().map_or(0, |head| head.intercept.len())
    }

    /// Returns k(x, x) of each row. If the basis consists of features φ, returns ‖φ‖² instead,
    /// computed from the basis values `k`.
    fn squared_norms(&self, k: MatRef<'_, T>, x: MatRef<'_, T>, kernel: &dyn KernelFunction<T>) -> Vec<f64> {
        let mut squares = vec![0.0; x.nrows()];
        match self.basis {
            Basis::Landmarks { .. } => kernel.diag(x, &mut squares),
            Basis::Features { .. } => k.col_iter().for_each(|column| {
                squares.iter_mut().zip(column.iter()).for_each(|(square, v)| *square += v.to_f64() * v.to_f64());
            }),
        }
        squares
    }
}
