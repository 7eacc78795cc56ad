//! Functions of kernels that are kernels again: powers, exponentials, and normalisations by the
//! diagonal k(x, x).
//!
//! (Shawe-Taylor, Cristianini, *Kernel Methods for Pattern Analysis*, 2004, proposition 3.24 and
//! section 5.1.)

use super::fixed_kernel::{FixedKernel, MAX_FEW_ROWS, PreparedPoints};
use super::points::{fill_column, row_slice};
use super::{AnyKernel, KernelFunction, Spectrum, family::ParameterRange, gradient::WeightedPairs};
use crate::{Real, vectorised};
use faer::{Mat, MatMut, MatRef, prelude::*, unzip, zip};
use std::{fmt::Debug, sync::Arc};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KernelTransform {
    Exp,
    Power(u32),
    /// k(x, z) / √(k(x, x) k(z, z)).
    Normalised,
    /// k(x, z) / M_p(k(x, x), k(z, z)), where M_p(a, b) = ((a^p + b^p) / 2)^(1/p) is the power mean
    /// of order p > 0. This kernel is positive definite because (s + t)^(−1/p) is a positive
    /// definite kernel of positive numbers s and t.
    Mean(f64),
}

/// A parameter of a function of kernels: name, allowed numbers, default, reason for the range.
pub(super) type TransformParameter = (&'static str, ParameterRange, f64, &'static str);
const DEGREE: TransformParameter =
    ("degree", ParameterRange::Integer { min: 1, max: 31 }, 2.0, "only integer powers are positive definite");
pub(super) const ORDER: TransformParameter =
    ("p", ParameterRange::NonNegative, 1.0, "only these means keep a kernel positive definite");

/// A function of kernels: name, parameter, and the transform for a parameter value.
pub(super) type TransformEntry = (&'static str, Option<TransformParameter>, fn(f64) -> KernelTransform);
pub(super) const TRANSFORMS: [TransformEntry; 4] = [
    ("exp", None, |_| KernelTransform::Exp),
    ("power", Some(DEGREE), |degree| KernelTransform::Power(degree as u32)),
    ("normalised", None, |_| KernelTransform::Normalised),
    // order 0 is the geometric mean
    ("mean", Some(ORDER), |p| if p == 0.0 { KernelTransform::Normalised } else { KernelTransform::Mean(p) }),
];

/// Smallest positive order of a mean. With smaller orders, the powers a^p could hardly be
/// distinguished from 1 in f32.
pub(super) const MIN_ORDER: f64 = 0.01;

/// A function of k(x, z) and of one number per point.
pub(super) trait PairFunction: Debug + Copy + Send + Sync + 'static {
    /// Computes one number per point, for example 1/√k(x, x), and writes it to `numbers`. The
    /// numbers in `diagonal`, one per point, are scratch.
    fn prepare<T: Real>(
        self,
        _kernel: &dyn KernelFunction<T>,
        _points: MatRef<'_, T>,
        _diagonal: &mut [f64],
        _numbers: &mut [T],
    ) {
    }
    /// Returns the function of k(x, z), for points with the numbers `x` and `z`. Must be marked
    /// `#[inline(always)]`.
    fn value<T: Real>(self, k: T, x: T, z: T) -> T;
    /// Adds the gradient, see [`KernelFunction::gradient`], for a differentiable `kernel`.
    fn gradient<T: Real>(self, kernel: &dyn KernelFunction<T>, pairs: WeightedPairs<'_, T>, out: MatMut<'_, T>);
    /// Replaces each k(x, x) in `out` by the value of the function.
    fn diag<T: Real>(self, x: MatRef<'_, T>, out: &mut [f64]);
    /// Returns the spectrum of the function of k, where `spectrum` is the spectrum of k. Returns
    /// `None` if it is not known.
    fn spectrum(self, _spectrum: Spectrum) -> Option<Spectrum> {
        None
    }
}

fn compute_point_numbers<T: Real>(
    function: impl PairFunction,
    kernel: &dyn KernelFunction<T>,
    points: MatRef<'_, T>,
) -> Vec<T> {
    let mut numbers = vec![T::ZERO; points.nrows()];
    function.prepare(kernel, points, &mut vec![0.0; points.nrows()], &mut numbers);
    numbers
}

/// Returns the kernel that `function` derives from a kernel, written `text`; positive definite if
/// the kernel is.
pub(super) fn transformed_kernel(
    text: String,
    function: impl PairFunction,
    kernel: Arc<dyn AnyKernel>,
) -> Arc<dyn AnyKernel> {
    Arc::new(TransformedKernel { text, function, kernel })
}

#[derive(Debug)]
struct TransformedKernel<F> {
    text: String,
    function: F,
    kernel: Arc<dyn AnyKernel>,
}

impl<T: Real, F: PairFunction> KernelFunction<T> for TransformedKernel<F> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn is_positive_definite(&self) -> bool {
        self.kernel.typed::<T>().is_positive_definite()
    }

    fn spectrum(&self) -> Option<Spectrum> {
        self.function.spectrum(self.kernel.typed::<T>().spectrum()?)
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let (kernel, function) = (self.kernel.typed::<T>(), self.function);
        kernel.block(x, z, out.rb_mut());
        let (x, z) = (compute_point_numbers(function, &*kernel, x), compute_point_numbers(function, &*kernel, z));
        let mut row_buffer = Vec::new();
        for (column, &z) in out.col_iter_mut().zip(&z) {
            fill_column(column, &mut row_buffer, |column| {
                vectorised!({
                    for (value, &x) in column.iter_mut().zip(&x) {
                        *value = function.value(*value, x, z);
                    }
                });
            });
        }
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        let fixed_kernel = FixedKernel::new(self.kernel.typed::<T>(), z);
        let z = compute_point_numbers(self.function, fixed_kernel.kernel(), z);
        Some(Box::new(TransformedColumns { function: self.function, z_numbers: z, fixed_kernel }))
    }

    fn is_differentiable(&self) -> bool {
        self.kernel.typed::<T>().is_differentiable()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let (pairs, kernel) = (WeightedPairs::new(x, z, weights, &out), self.kernel.typed::<T>());
        if kernel.is_differentiable() {
            self.function.gradient(&*kernel, pairs, out);
        }
        kernel.is_differentiable()
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        self.kernel.typed::<T>().diag(x, out);
        self.function.diag(x, out);
    }
}

struct TransformedColumns<T: Real, F> {
    function: F,
    /// Number of each point, as [`PairFunction::prepare`] computes it.
    z_numbers: Vec<T>,
    fixed_kernel: FixedKernel<T>,
}

impl<T: Real, F: PairFunction> PreparedPoints<T> for TransformedColumns<T, F> {
    fn scratch_len(&self) -> usize {
        self.fixed_kernel.scratch_len()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * self.z_numbers.len() + self.fixed_kernel.bytes()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        self.fixed_kernel.compute_rows(x, z, out, scratch);
        let (mut diagonal, mut x_numbers, function) = ([0.0; MAX_FEW_ROWS], [T::ZERO; MAX_FEW_ROWS], self.function);
        function.prepare(self.fixed_kernel.kernel(), x, &mut diagonal[..x.nrows()], &mut x_numbers);
        for (values, x) in out.chunks_exact_mut(z.nrows().max(1)).zip(x_numbers) {
            vectorised!({
                for (value, &z) in values.iter_mut().zip(&self.z_numbers) {
                    *value = function.value(*value, x, z);
                }
            });
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ScaleFactor(pub(super) f64);

impl PairFunction for ScaleFactor {
    #[inline(always)]
    fn value<T: Real>(self, k: T, _: T, _: T) -> T {
        (k * T::from_f64(self.0).saturate()).saturate()
    }

    fn gradient<T: Real>(self, kernel: &dyn KernelFunction<T>, pairs: WeightedPairs<'_, T>, mut out: MatMut<'_, T>) {
        for (i, strip) in pairs.row_tiles() {
            let weights = zip!(strip.weights).map(|unzip!(weight)| self.value(*weight, T::ZERO, T::ZERO));
            kernel.gradient(strip.x, strip.z, weights.as_ref(), out.rb_mut().subrows_mut(i, strip.x.nrows()));
        }
    }

    fn diag<T: Real>(self, _: MatRef<'_, T>, out: &mut [f64]) {
        out.iter_mut().for_each(|k_xx| *k_xx = self.value(*k_xx, 0.0, 0.0));
    }

    fn spectrum(self, spectrum: Spectrum) -> Option<Spectrum> {
        Some(Spectrum { amplitude: self.0 * spectrum.amplitude, ..spectrum })
    }
}

impl PairFunction for KernelTransform {
    /// Computes 1/√k(x, x) or k(x, x)^p for normalisations, and 0 for exponentials and powers. If k
    /// is not positive definite, a negative k(x, x) counts as 0.
    fn prepare<T: Real>(
        self,
        kernel: &dyn KernelFunction<T>,
        points: MatRef<'_, T>,
        diagonal: &mut [f64],
        numbers: &mut [T],
    ) {
        let prepare = |k_xx: f64| match self {
            Self::Normalised if k_xx > 0.0 => k_xx.sqrt().recip(),
            Self::Mean(p) if k_xx > 0.0 => k_xx.powf(p),
            _ => 0.0,
        };
        if matches!(self, Self::Normalised | Self::Mean(_)) {
            kernel.diag(points, diagonal);
        }
        numbers.iter_mut().zip(diagonal).for_each(|(number, k_xx)| *number = T::from_f64(prepare(*k_xx)).saturate());
    }

    #[inline(always)]
    fn value<T: Real>(self, k: T, x: T, z: T) -> T {
        match self {
            Self::Exp => k.exponential(),
            Self::Power(degree) => k.power(degree),
            // two multiplications in this order, because x * z may overflow or underflow although
            // the result does not
            Self::Normalised => k * x * z,
            Self::Mean(p) => {
                let half = T::from_f64(0.5);
                let mean = (x * half + z * half).larger(T::MIN_POSITIVE).smaller(T::LARGEST);
                // mean^(−1/p) = exp(−(ln 2 / p) log₂ mean)
                let exponent = mean.log_base_2() * T::from_f64(-std::f64::consts::LN_2 / p);
                if k == T::ZERO { k } else { k * exponent.exponential() }
            }
        }
        .saturate()
    }

    /// Since k is symmetric, the gradient of k(x, x) is twice the gradient of k with respect to its
    /// first argument at (x, x). Each row therefore contributes the pair of x with itself.
    fn gradient<T: Real>(self, kernel: &dyn KernelFunction<T>, pairs: WeightedPairs<'_, T>, mut out: MatMut<'_, T>) {
        let (mut diagonal, mut x_numbers) = (vec![0.0; pairs.x.nrows()], vec![T::ZERO; pairs.x.nrows()]);
        self.prepare(kernel, pairs.x, &mut diagonal, &mut x_numbers);
        let z_numbers = compute_point_numbers(self, kernel, pairs.z);
        for (i, strip) in pairs.row_tiles() {
            let rows = strip.x.nrows();
            let mut diagonal_weights = vec![0.0; rows];
            for (j, pairs) in strip.column_tiles() {
                let (x_tile, z_tile) = (&x_numbers[i..i + rows], &z_numbers[j..j + pairs.z.nrows()]);
                let kernel_weights = self.kernel_weights(kernel, pairs, x_tile, z_tile, &mut diagonal_weights);
                kernel.gradient(pairs.x, pairs.z, kernel_weights.as_ref(), out.rb_mut().subrows_mut(i, rows));
            }
            let diagonal_terms = diagonal_weights.iter().zip(&diagonal[i..]).enumerate();
            for (r, (diagonal_weight, diagonal_value)) in diagonal_terms.filter(|(_, (_, k_xx))| **k_xx > 0.0) {
                let (x, weight) = (strip.x.subrows(r, 1), T::from_f64(-diagonal_weight / diagonal_value).saturate());
                kernel.gradient(x, x, Mat::full(1, 1, weight).as_ref(), out.rb_mut().subrows_mut(i + r, 1));
            }
        }
    }

    fn diag<T: Real>(self, _: MatRef<'_, T>, out: &mut [f64]) {
        for value in out {
            *value = match self {
                Self::Exp => value.exponential(),
                Self::Power(degree) => value.power(degree),
                // 0/0 is 0
                Self::Normalised | Self::Mean(_) => f64::from(u8::from(*value > 0.0)),
            }
            .saturate();
        }
    }
}

impl KernelTransform {
    /// Returns the derivative of [`value`](Self::value) with respect to k(x, z).
    #[inline(always)]
    fn derivative<T: Real>(self, k: T, x: T, z: T) -> T {
        match self {
            Self::Exp => k.exponential().saturate(),
            Self::Power(degree) => (T::from_f64(degree.into()) * k.power(degree - 1)).saturate(),
            Self::Normalised | Self::Mean(_) => self.value(T::ONE, x, z),
        }
    }

    /// Returns −d ln v / d ln √k(x, x), where v is the value for points with the prepared numbers
    /// `x` and `z`.
    #[inline(always)]
    fn diagonal_elasticity<T: Real>(self, x: T, z: T) -> f64 {
        match self {
            Self::Exp | Self::Power(_) => 0.0,
            Self::Normalised => 1.0,
            Self::Mean(_) if x > T::ZERO => x.to_f64() / 0.5f64.mul_add(x.to_f64(), 0.5 * z.to_f64()),
            Self::Mean(_) => 0.0,
        }
    }

    /// Let v be the value of the function for a pair, and w the weight of its gradient. Returns w
    /// ∂v/∂k(x, z), the weights of the gradients of k(x, z), for a tile of pairs. Adds w v times
    /// the [`diagonal_elasticity`](Self::diagonal_elasticity) to `diagonal_weights`; divided by
    /// −k(x, x), these sums are the weights of the gradients of k at (x, x).
    fn kernel_weights<T: Real>(
        self,
        kernel: &dyn KernelFunction<T>,
        pairs: WeightedPairs<'_, T>,
        x_numbers: &[T],
        z_numbers: &[T],
        diagonal_weights: &mut [f64],
    ) -> Mat<T> {
        let mut values = Mat::zeros(pairs.x.nrows(), pairs.z.nrows());
        kernel.block(pairs.x, pairs.z, values.as_mut());
        let mut row_buffer = Vec::new();
        for ((column, weights), &z) in values.col_iter_mut().zip(pairs.weights.col_iter()).zip(z_numbers) {
            let weights = row_slice(weights.as_mat().transpose(), 0, &mut row_buffer);
            let points = column.iter_mut().zip(weights).zip(x_numbers).zip(diagonal_weights.iter_mut());
            vectorised!({
                for (((k, &weight), &x), diagonal_weight) in points {
                    *diagonal_weight +=
                        (weight * self.value(*k, x, z)).saturate().to_f64() * self.diagonal_elasticity(x, z);
                    *k = (weight * self.derivative(*k, x, z)).saturate();
                }
            });
        }
        values
    }
}
