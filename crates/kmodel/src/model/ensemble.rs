//! The mean of several fits as one model.
//!
//! Let fit k of M have the basis functions b_k(x), the coefficients α_k and the intercepts c_k. The
//! mean of the predictions is
//!
//! ```text
//! f(x) = (1/M) Σ_k (b_k(x)·α_k + c_k) = [b_1(x) … b_M(x)]·[α_1; …; α_M]/M + (1/M) Σ_k c_k,
//! ```
//!
//! so the mean is one model, with the basis functions of all fits one after the other. *Bytes* and
//! *flops* of a prediction: the sum over the fits.

use super::{AnyModel, Basis, BasisTransform, EnsembleMember, Model, ModelMetadata};
use crate::{Certificate, Error, Result, Task};
use faer::Mat;
use kapprox::Real;

impl AnyModel {
    /// Returns the model whose prediction is the mean of the predictions of `models`. If a model
    /// predicts in f64, the mean does so, too.
    ///
    /// # Errors
    /// The errors of [`Model::mean_of`].
    #[doc(hidden)]
    pub fn mean_of(models: Vec<Self>) -> Result<Self> {
        let (mut single, mut double) = (Vec::new(), Vec::new());
        let predicts_in_f64 = models.iter().any(|model| matches!(model, Self::F64(_)));
        for model in models {
            match model {
                Self::F32(model) if predicts_in_f64 => double.push(model.into_f64()),
                Self::F32(model) => single.push(model),
                Self::F64(model) => double.push(model),
            }
        }
        if predicts_in_f64 { Model::mean_of(double).map(Self::F64) } else { Model::mean_of(single).map(Self::F32) }
    }
}

impl<T: Real> Model<T> {
    /// Returns the model whose prediction is the mean of the predictions of `models`. They must be
    /// regressions of the same table on landmarks, with the same scaling and metric.
    ///
    /// # Errors
    /// [`Error::Option`] if the models differ, or if a model is not a sum of kernel functions.
    #[doc(hidden)]
    pub fn mean_of(models: Vec<Self>) -> Result<Self> {
        let count = models.len();
        let reject = |why: &str| Error::option("members", count, why);
        let mut models = models.into_iter();
        let Some(mut mean) = models.next() else { return Err(reject("expected at least one fit")) };
        for model in models {
            if !mean.has_mean_with(&model) {
                return Err(reject("expected regressions on the same scaled features, without variances or leaves"));
            }
            let (
                Basis::Landmarks { points, row_numbers },
                Basis::Landmarks { points: more_points, row_numbers: more_rows },
            ) = (&mut mean.basis, model.basis)
            else {
                return Err(reject("expected fits on landmarks or with the exact kernel"));
            };
            points.extend(more_points);
            row_numbers.extend(more_rows);
            let (above, below) = (&mean.coefficients, &model.coefficients);
            let functions = below.nrows();
            mean.coefficients = Mat::from_fn(above.nrows() + functions, above.ncols(), |i, j| {
                if i < above.nrows() { above[(i, j)] } else { below[(i - above.nrows(), j)] }
            });
            mean.intercept.iter_mut().zip(&model.intercept).for_each(|(sum, c)| *sum += c);
            // a member with an unbounded kernel is not clipped, so the mean is not
            if model.metadata.ranges.is_empty() {
                mean.metadata.ranges.clear();
            }
            mean.metadata.certificate = larger_certificate(mean.metadata.certificate, model.metadata.certificate);
            mean.metadata.members.push(EnsembleMember { kernel: model.metadata.kernel, functions });
        }
        mean.coefficients *= faer::Scale(1.0 / count as f64);
        mean.intercept.iter_mut().for_each(|c| *c /= count as f64);
        Ok(mean)
    }

    /// Returns true if both models are sums of kernel functions on the same inputs, with the same
    /// outputs.
    fn has_mean_with(&self, other: &Self) -> bool {
        let is_plain = |model: &Self| {
            model.transform == BasisTransform::Identity
                && (model.quadratic.is_none() && model.components.is_none() && model.leaves.is_none())
                && model.metadata.task == Task::Regression
                && (model.metadata.loss.is_none() && model.metadata.second_view.is_none())
        };
        let inputs = |metadata: &ModelMetadata| (metadata.features.clone(), metadata.targets.clone());
        is_plain(self)
            && is_plain(other)
            && other.metadata.members.is_empty()
            && (&self.scaler, &self.metric) == (&other.scaler, &other.metric)
            && inputs(&self.metadata) == inputs(&other.metadata)
    }
}

/// Returns the certificate with the larger error; `None` if one of them is missing.
fn larger_certificate(a: Option<Certificate>, b: Option<Certificate>) -> Option<Certificate> {
    let (a, b) = (a?, b?);
    Some(if b.trace_error > a.trace_error { b } else { a })
}
