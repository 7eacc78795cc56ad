//! A feature map that transforms points in memory.

use super::Points;
use crate::kernel::row_slice;
use crate::{AnyKernel, Error, FeatureMap, Kernel, Result};
use faer::{Mat, MatRef};
use kpass::{MemoryRows, Workers};
use std::sync::Arc;

/// Points whose values are finite and in the domain of the kernel.
pub(super) struct CheckedPoints {
    pub(super) values: Vec<f64>,
    pub(super) d: usize,
}

impl CheckedPoints {
    pub(super) fn new<P: Points + ?Sized>(x: &P, kernel: &Kernel) -> Result<Self> {
        let (values, d) = x.row_major()?;
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let what = format!("the value of row {}, column {} (counted from 0)", index / d, index % d);
            return Err(Error::NotFinite { what, remedy: "remove the row, or fill in the value".into() });
        }
        kernel.check_input_count(d)?;
        let points = Self { values, d };
        kernel.check_values(points.matrix(), 0)?;
        Ok(points)
    }

    pub(super) fn matrix(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.values, self.values.len() / self.d, self.d)
    }

    pub(super) fn into_rows(self) -> Result<MemoryRows<f64>> {
        Ok(MemoryRows::new(self.values, self.d)?)
    }
}

/// A feature map that [`Nystrom::fit`](super::Nystrom::fit) or
/// [`RandomFourier::fit`](super::RandomFourier::fit) returned.
#[derive(Debug)]
pub struct FittedMap {
    pub(super) kernel: Kernel,
    pub(super) kernel_function: Arc<dyn AnyKernel>,
    pub(super) map: Box<dyn FeatureMap<f64>>,
    pub(super) workers: Workers,
}

impl FittedMap {
    /// Returns the features of the points: n x p, with φ(x)·φ(z) ≈ k(x, z).
    ///
    /// # Errors
    /// [`Error::Shape`] if the points do not have as many columns as the points of the fit;
    /// [`Error::NotFinite`] or [`Error::Domain`] if a value is not finite or is outside the domain
    /// of the kernel.
    pub fn transform<P: Points + ?Sized>(&self, x: &P) -> Result<Mat<f64>> {
        Ok(self.compute_features(&self.check_points(x)?))
    }

    /// Returns the relative trace error, Σ (k(x, x) − ‖φ(x)‖²) / Σ k(x, x), where both sums run
    /// over the points.
    ///
    /// Returns `None` for a random map. Such a map is not a projection onto the span of landmarks:
    /// its Σ ‖φ(x)‖² equals Σ k(x, x), however large the error of φ(x)·φ(z) is.
    ///
    /// # Errors
    /// The errors of [`FittedMap::transform`].
    pub fn trace_error<P: Points + ?Sized>(&self, x: &P) -> Result<Option<f64>> {
        if !self.map.is_projection() {
            return Ok(None);
        }
        let x = self.check_points(x)?;
        let features = self.compute_features(&x);
        let mut diagonal = vec![0.0; features.nrows()];
        self.kernel_function.typed::<f64>().diag(x.matrix(), &mut diagonal);
        let mut row_buffer = Vec::new();
        let residual_sum: f64 = (0..features.nrows())
            .map(|i| {
                let squared_norm: f64 = row_slice(features.as_ref(), i, &mut row_buffer).iter().map(|v| v * v).sum();
                (diagonal[i] - squared_norm).max(0.0)
            })
            .sum();
        let trace: f64 = diagonal.iter().sum();
        if !trace.is_finite() || !residual_sum.is_finite() {
            let remedy = "scale the columns, or choose a kernel that is bounded".into();
            return Err(Error::NotFinite { what: "the trace of the kernel on the points".into(), remedy });
        }
        Ok(Some(if trace > 0.0 { residual_sum / trace } else { 0.0 }))
    }

    /// Returns the kernel, with all parameters resolved to numbers.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the feature map, for streaming blocks of rows through it.
    pub fn map(&self) -> &dyn FeatureMap<f64> {
        &*self.map
    }

    fn check_points<P: Points + ?Sized>(&self, x: &P) -> Result<CheckedPoints> {
        let (x, d) = (CheckedPoints::new(x, &self.kernel)?, self.map.dims().0);
        match x.d == d {
            true => Ok(x),
            false => Err(Error::Shape { what: "columns of the points", expected: d, got: x.d }),
        }
    }

    fn compute_features(&self, x: &CheckedPoints) -> Mat<f64> {
        let mut features = Mat::zeros(x.matrix().nrows(), self.map.dims().1);
        self.map.apply(x.matrix(), features.as_mut(), &self.workers);
        features
    }
}
