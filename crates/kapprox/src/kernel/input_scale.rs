//! Kernels of rescaled inputs: `laplacian(sigma=2, scale=quantile)`.
//!
//! The kernel of a term may see the quantile scores of its inputs instead of the inputs themselves,
//! so the terms of one sum may use different scalings. The quantiles are computed from a sample of
//! the rows, together with the length scales. They then stand in the expression as
//! `scale=[q_1, q_2, …]`, with [`KNOTS_PER_INPUT`] ascending numbers for each input of the kernel.
//! A model file stores the expression, so it contains the transform.
//!
//! A kernel of transformed points is positive definite if the kernel itself is.

use super::embedded::Embedding;
use super::family::Value;
use super::node::{BaseKernel, Node};
use super::{Kernel, embedded::embedded_kernel};
use crate::{AnyKernel, Real};
use faer::{Mat, MatRef};
use kpass::quantiles::{self, KNOTS_PER_INPUT};
use std::{fmt, sync::Arc};

/// The transform of the inputs of a kernel before the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum InputScale {
    /// Quantile scores, whose knots are not computed yet.
    Quantile,
    /// Quantile scores with these knots, [`KNOTS_PER_INPUT`] for each input.
    Knots(Arc<[f64]>),
}

impl InputScale {
    /// Checks the knots of an expression. The error is a sentence about the numbers.
    pub(super) fn from_knots(knots: Vec<f64>) -> Result<Self, String> {
        if knots.is_empty() || !knots.len().is_multiple_of(KNOTS_PER_INPUT) {
            let count = knots.len();
            return Err(format!("scale has {count} numbers; expected quantile, or {KNOTS_PER_INPUT} for each input"));
        }
        match knots.chunks(KNOTS_PER_INPUT).all(<[f64]>::is_sorted) {
            true => Ok(Self::Knots(knots.into())),
            false => Err("the quantiles of each input must be in ascending order".to_string()),
        }
    }

    /// Computes the knots of every column of a sample. Each knot has the digits of an f32, which
    /// keeps the expression short.
    fn of_sample(sample: MatRef<'_, f64>, weights: &[f64]) -> Self {
        let shorten = |knot: f64| (knot as f32).to_string().parse().unwrap_or(knot);
        let columns = sample.col_iter().flat_map(|column| quantiles::knots_of(column.iter().copied(), weights));
        Self::Knots(columns.map(shorten).collect())
    }
}

impl fmt::Display for InputScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile => f.write_str("quantile"),
            Self::Knots(knots) => Value::List(knots.to_vec()).fmt(f),
        }
    }
}

/// The quantile scores of the inputs of a point.
#[derive(Debug)]
struct QuantileScores(Arc<[f64]>);

impl Embedding for QuantileScores {
    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        for ((image, x), knots) in image.iter_mut().zip(x).zip(self.0.chunks_exact(KNOTS_PER_INPUT)) {
            *image = T::from_f64(quantiles::apply(knots, x.to_f64()));
        }
    }

    fn pull_back<T: Real>(&self, x: &[T], _: &[T], image_gradient: &[T], gradient: &mut [T]) {
        let inputs = x.iter().zip(image_gradient).zip(self.0.chunks_exact(KNOTS_PER_INPUT));
        for (gradient, ((x, derivative), knots)) in gradient.iter_mut().zip(inputs) {
            *gradient = T::from_f64(quantiles::slope(knots, x.to_f64()) * derivative.to_f64()).saturate();
        }
    }
}

impl BaseKernel {
    /// Returns `kernel`, which is this kernel without its scale and its columns, on rescaled
    /// inputs.
    pub(super) fn with_scaled_inputs(&self, text: String, kernel: Arc<dyn AnyKernel>) -> Arc<dyn AnyKernel> {
        match &self.scale {
            Some(InputScale::Knots(knots)) => embedded_kernel(text, QuantileScores(knots.clone()), kernel),
            // without knots, `Kernel::build` rejects the expression
            Some(InputScale::Quantile) | None => kernel,
        }
    }

    /// Returns the kernel with the knots of its scale computed from the rows of `sample`, which
    /// has the columns of the kernel.
    pub(super) fn resolve_scale(&self, sample: MatRef<'_, f64>, weights: &[f64]) -> Self {
        let scale = match &self.scale {
            Some(InputScale::Quantile) => Some(InputScale::of_sample(sample, weights)),
            resolved => resolved.clone(),
        };
        Self { scale, ..self.clone() }
    }

    /// Returns the inputs that the kernel sees, for rows with the columns of the kernel; `None` if
    /// they are not rescaled.
    pub(super) fn scaled_inputs(&self, columns: MatRef<'_, f64>) -> Option<Mat<f64>> {
        let Some(InputScale::Knots(knots)) = &self.scale else { return None };
        let score = |i, k| quantiles::apply(&knots[k * KNOTS_PER_INPUT..][..KNOTS_PER_INPUT], columns[(i, k)]);
        Some(Mat::from_fn(columns.nrows(), columns.ncols(), score))
    }

    /// Returns the columns of `rows` that the kernel uses.
    pub(super) fn select_columns(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let columns = self.column_indices().map_or_else(|| (0..rows.ncols()).collect(), |c| c.iter().collect());
        let columns: Vec<usize> = columns;
        Mat::from_fn(rows.nrows(), columns.len(), |i, k| rows[(i, columns[k])])
    }
}

impl Kernel {
    /// Returns whether a kernel of the expression rescales its inputs.
    #[doc(hidden)]
    pub fn rescales_inputs(&self) -> bool {
        self.0.base_kernels().into_iter().any(|base_kernel| base_kernel.scale.is_some())
    }

    /// If the expression is a single kernel that rescales its inputs, returns the same kernel of
    /// the rescaled inputs, and these inputs for the rows of `x`, one column for each input.
    #[doc(hidden)]
    pub fn on_scaled_inputs(&self, x: MatRef<'_, f64>) -> Option<(Self, Mat<f64>)> {
        let Node::Base(base_kernel) = &self.0 else { return None };
        let inputs = base_kernel.scaled_inputs(base_kernel.select_columns(x).as_ref())?;
        let unscaled = BaseKernel { scale: None, columns: None, ..base_kernel.clone() };
        Some((Self(Node::Base(unscaled)), inputs))
    }
}
