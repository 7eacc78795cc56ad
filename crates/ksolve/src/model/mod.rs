//! A trained model: functions, coefficients and everything that defines the result, in one safetensors file.
//!
//! f(x) = b(x)·α + c, with b(x) the values of the model's [`Basis`] at x, in its [`Form`], α (m x t) their coefficients and c the intercepts. Of
//! models of novelty that have a [`quadratic`](crate::quadratic) function, f is that less the function.
//! Maps in the span of landmarks are stored as kernel functions of those: predicting then needs no factor. See [`file`]
//! for the format.

mod basis;
mod card;
mod components;
pub mod file;
mod form;
mod load;
mod predict;

pub use basis::Basis;
pub use card::{Card, SecondView};
pub use form::Form;
pub use predict::PredictScratch;

use crate::quadratic::{self, Quadratic};
use crate::strips::{Pool, row_strips};
use crate::{Error, Head, Result, Task, dots};
use faer::{Mat, MatMut, MatRef};
use kapprox::metric::Metric;
use kapprox::{FeatureMap, Kernel, Real};
use kstore::{Scaler, Workers};
use std::path::Path;
use std::sync::Arc;

/// Rows predicted at once by one thread: a kernel block of 256 x 4,000 in f32 is 4 MB.
const STRIP: usize = quadratic::STRIP;

/// Basis functions whose values are widened to f64 at once: 256 x 128 in f64 is 256 KiB, within L2.
const PANEL: usize = 128;

/// A model in the precision of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Model<T> {
    /// The card of the model: its options, names and classes.
    pub card: Card,
    /// The functions that the coefficients multiply.
    pub basis: Basis<T>,
    /// What is made of them before the coefficients multiply it.
    pub form: Form,
    /// The coefficients α, m x t.
    pub coefficients: Mat<f64>,
    /// The intercepts c, t numbers.
    pub intercept: Vec<f64>,
    /// Subtracted from each feature before anything else, d.
    pub centre: Vec<f64>,
    /// Each feature is divided by this after centring, d.
    pub scale: Vec<f64>,
    /// The training means, in the units of the file: the values that stand for missing ones where `missing` is mean, d numbers.
    pub mean: Vec<f64>,
    /// The metric between scaling and the basis; `None` where the basis sees the scaled features.
    pub metric: Option<Arc<Metric>>,
    /// Variances of the predictions, or distances from the components, where the fit was asked for them.
    pub quadratic: Option<Quadratic>,
    /// Coordinates beside the predictions, where the fit was asked for them: coefficients m x q of the functions, and q constants.
    pub components: Option<Head>,
}

/// A model of either precision, as a file gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyModel {
    /// A model whose rows are in f32.
    F32(Model<f32>),
    /// A model whose rows are in f64.
    F64(Model<f64>),
}

impl AnyModel {
    /// Writes the model, whole or not at all; see [`Model::save`].
    ///
    /// # Errors
    /// The errors of [`Model::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        match self {
            Self::F32(model) => model.save(path),
            Self::F64(model) => model.save(path),
        }
    }

    /// The card of the model: its options, names and classes.
    pub fn card(&self) -> &Card {
        match self {
            Self::F32(model) => &model.card,
            Self::F64(model) => &model.card,
        }
    }
}

impl<T: Real> Model<T> {
    /// Number of basis functions m, of features that they see, behind the metric where there is one, and of outputs t.
    pub fn dims(&self) -> (usize, usize, usize) {
        let d = self.metric.as_ref().map_or(self.centre.len(), |metric| metric.outputs());
        (self.coefficients.nrows(), d, self.intercept.len())
    }

    /// The scaling of the features.
    pub fn scaler(&self) -> Scaler {
        let (centre, scale, mean) = (self.centre.clone(), self.scale.clone(), self.mean.clone());
        Scaler { centre, scale, mean, asinh: self.card.asinh }
    }

    /// Converts the model to one that predicts in f64: for landmarks so close to each other that the coefficients,
    /// large and of both signs, would amplify the rounding of kernel values in f32 ([`kapprox::Nystrom::needs_wide`]).
    #[must_use]
    pub fn widen(self) -> Model<f64> {
        Model {
            card: Card { precision: "f64".to_string(), ..self.card },
            basis: self.basis.widen(),
            form: self.form,
            coefficients: self.coefficients,
            intercept: self.intercept,
            centre: self.centre,
            scale: self.scale,
            mean: self.mean,
            metric: self.metric,
            quadratic: self.quadratic,
            components: self.components,
        }
    }

    /// True for a fit in f32 that predicts in f64: rows are rounded to f32 first, as those of the fit were, so that categories
    /// that were equal to a landmark's are so again.
    pub fn is_narrow(&self) -> bool {
        let single = <f32 as kstore::Real>::NAME;
        self.card.precision != single && self.card.options["precision"] == single
    }

    /// Bytes the model holds.
    pub fn bytes(&self) -> usize {
        let (m, d, t) = self.dims();
        let quadratic = self.quadratic.as_ref().map_or(0, Quadratic::held);
        let metric = self.metric.as_ref().map_or(0, |metric| 8 * metric.numbers().len());
        let components = 8 * self.component_count() * (m + 1);
        // a basis of nodes may have more points than functions
        let points = self.basis.landmarks().map_or(m, |(_, rows)| rows.len());
        let numbers = points + m * t + t + 3 * self.centre.len();
        let codes = self.card.encoding.as_ref().map_or(0, |encoding| encoding.bytes());
        codes + size_of::<T>() * points * d + 8 * numbers + metric + quadratic + components + self.form.bytes()
    }

    /// Bytes of scratch that [`Model::predict`] takes on so many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let (m, _, t) = self.dims();
        let t = t.max(self.component_count());
        let quadratic = self.quadratic.as_ref().map_or(0, |quadratic| quadratic.scratch_bytes(threads));
        STRIP * (size_of::<T>() * m + 8 * PANEL + 8 * t) * threads.max(1) + quadratic
    }

    /// `out` (b x t) = f(x) for the rows of `x` (b x d row-major, scaled and behind the metric); `basis` is that of [`Model::functions`].
    ///
    /// The basis is computed in `T`; its product with α is accumulated in f64, because dual coefficients are
    /// large and cancel. A few rows go as in [`predict_with`](Self::predict_with). Strips of 256 rows go to the workers, so bits do not depend on their number; given a row's
    /// basis values, its prediction does not depend on its neighbours either. *Cost*: the basis, and 2·m·t flops a row.
    ///
    /// # Errors
    /// [`Error::Shape`] where `x` or `out` do not fit the model; a kernel that this version does not know.
    pub fn predict(
        &self,
        basis: &dyn FeatureMap<T>,
        x: MatRef<'_, T>,
        out: MatMut<'_, f64>,
        workers: &Workers,
    ) -> Result<()> {
        self.check_shapes(basis, x, &out)?;
        if let Some(kernel_rows) = basis.kernel_rows()
            && x.nrows() <= predict::MOST
            && self.distance().is_none()
        {
            self.predict_few(kernel_rows, x, out, &mut PredictScratch::new(basis));
            return Ok(());
        }
        let distance = self.distance().map(|quadratic| self.kernel().map(|kernel| (quadratic, kernel))).transpose()?;
        let strips = row_strips(out, STRIP);
        self.each_strip(basis, x, strips, workers, |k, x, mut out, buffers| {
            let rows = out.nrows();
            combine(&self.coefficients, &self.intercept, k, &mut buffers.wide, &mut buffers.scores);
            if let Some((quadratic, kernel)) = &distance {
                let (squares, mut values) = (self.squares(k, x, &**kernel), vec![0.0; rows]);
                quadratic.values(k, &squares, &mut buffers.quadratic, &mut values);
                buffers.scores.iter_mut().zip(values).for_each(|(score, value)| *score -= value);
            }
            let overflows = k.col_iter().any(|column| predict::overflowed(column.iter().copied()));
            for r in 0..rows {
                let none = overflows && predict::overflowed(k.row(r).iter().copied());
                for j in 0..out.ncols() {
                    out[(r, j)] = if none { f64::INFINITY } else { buffers.scores[j * rows + r] };
                }
            }
        });
        Ok(())
    }

    /// The quadratic function that is a part of the scores.
    pub(crate) fn distance(&self) -> Option<&Quadratic> {
        self.quadratic.as_ref().filter(|_| self.card.task == Task::Novelty)
    }

    /// Refuses rows, predictions and a basis that do not fit the model.
    fn check_shapes(&self, basis: &dyn FeatureMap<T>, x: MatRef<'_, T>, out: &MatMut<'_, f64>) -> Result<()> {
        let (m, d, t) = self.dims();
        let shapes = [
            ("columns of the rows to predict", d, x.ncols()),
            ("functions of the basis", m, basis.dims().1),
            ("rows of the predictions", x.nrows(), out.nrows()),
            ("columns of the predictions", t, out.ncols()),
        ];
        match shapes.into_iter().find(|(_, expected, got)| expected != got) {
            Some((what, expected, got)) => Err(Error::Shape { what, expected, got }),
            None => Ok(()),
        }
    }

    /// `out[i]` = the model's [`quadratic`] function at x_i: for ridge regression the variance of f(x_i) over σ², the variance of
    /// the noise, so that a new observation has the variance σ²(1 + out); for components the squared distance from their span.
    /// `kernel` is that of [`Model::kernel`]. *Cost*: the basis, and 4m² flops a row for m landmarks.
    ///
    /// # Errors
    /// [`Error::NoQuadratic`] where the model has none; [`Error::Shape`].
    pub fn predict_quadratic(
        &self,
        basis: &dyn FeatureMap<T>,
        kernel: &dyn Kernel<T>,
        x: MatRef<'_, T>,
        out: &mut [f64],
        workers: &Workers,
    ) -> Result<()> {
        let Some(quadratic) = &self.quadratic else { return Err(Error::NoQuadratic) };
        let (_, d, _) = self.dims();
        for (what, expected, got) in [
            ("columns of the rows to predict", d, x.ncols()),
            ("values of the quadratic function", x.nrows(), out.len()),
        ] {
            if expected != got {
                return Err(Error::Shape { what, expected, got });
            }
        }
        let strips = out.chunks_mut(STRIP).enumerate().map(|(i, out)| (i * STRIP, out)).collect();
        self.each_strip(basis, x, strips, workers, |k, x, out: &mut [f64], buffers| {
            quadratic.values(k, &self.squares(k, x, kernel), &mut buffers.quadratic, out);
        });
        Ok(())
    }

    /// k(x, x) for each of some rows, or ‖φ‖² from their basis values `k` where the basis is the features.
    fn squares(&self, k: MatRef<'_, T>, x: MatRef<'_, T>, kernel: &dyn Kernel<T>) -> Vec<f64> {
        let mut squares = vec![0.0; x.nrows()];
        match self.basis {
            Basis::Landmarks { .. } => kernel.diag(x, &mut squares),
            Basis::Features { .. } => k.col_iter().for_each(|column| {
                squares.iter_mut().zip(column.iter()).for_each(|(square, v)| *square += v.to_f64() * v.to_f64());
            }),
        }
        squares
    }

    /// Computes the basis at strips of rows, and calls `work` with each strip, its rows and its part of the output.
    fn each_strip<O: Send>(
        &self,
        basis: &dyn FeatureMap<T>,
        x: MatRef<'_, T>,
        strips: Vec<(usize, O)>,
        workers: &Workers,
        work: impl Fn(MatRef<'_, T>, MatRef<'_, T>, O, &mut Buffers<T>) + Sync + Send,
    ) {
        let (m, buffers) = (basis.dims().1, Pool::default());
        workers.each(strips, |(first, out)| {
            let x = x.subrows(first, STRIP.min(x.nrows() - first));
            buffers.with(Buffers::default, |buffers: &mut Buffers<T>| {
                let mut block = std::mem::take(&mut buffers.basis);
                block.resize(STRIP * m, T::default());
                let values = MatMut::from_column_major_slice_mut(&mut block[..x.nrows() * m], x.nrows(), m);
                basis.apply(x, values, &Workers::sequential());
                let k = MatRef::from_column_major_slice(&block[..x.nrows() * m], x.nrows(), m);
                work(k, x, out, buffers);
                buffers.basis = block;
            });
        });
    }
}

/// `scores` (b x t column-major) = k·α + c for basis values `k` (b x m), function after function.
///
/// The loop runs along rows, so every row is summed in the order of the functions whatever its neighbours; a
/// matrix product picks its kernel, and with it the order, by the number of rows.
fn combine<T: Real>(
    coefficients: &Mat<f64>,
    intercept: &[f64],
    k: MatRef<'_, T>,
    wide: &mut Vec<f64>,
    scores: &mut Vec<f64>,
) {
    let (rows, m) = (k.nrows(), k.ncols());
    scores.clear();
    intercept.iter().for_each(|c| scores.extend(std::iter::repeat_n(*c, rows)));
    wide.resize(STRIP * PANEL, 0.0);
    for first in (0..m).step_by(PANEL) {
        let width = PANEL.min(m - first);
        dots::widen(k.subcols(first, width), &mut wide[..rows * width]);
        for (j, scores) in scores.chunks_exact_mut(rows).enumerate() {
            add_products(scores, &wide[..rows * width], &coefficients.col_as_slice(j)[first..first + width]);
        }
    }
}

/// `scores` += `panel`·`alpha` for a column-major panel, column after column.
fn add_products(scores: &mut [f64], panel: &[f64], alpha: &[f64]) {
    kapprox::vectorised!({
        for (column, alpha) in panel.chunks_exact(scores.len()).zip(alpha) {
            scores.iter_mut().zip(column).for_each(|(score, k)| *score += k * alpha);
        }
    });
}

/// Scratch of one thread.
#[derive(Debug)]
struct Buffers<T> {
    basis: Vec<T>,
    wide: Vec<f64>,
    scores: Vec<f64>,
    quadratic: quadratic::Scratch,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self { basis: Vec::new(), wide: Vec::new(), scores: Vec::new(), quadratic: Default::default() }
    }
}
