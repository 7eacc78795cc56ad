//! Functions of kernels that are kernels again: powers, exponentials, and normalisations by the diagonal.
//!
//! (Shawe-Taylor, Cristianini, *Kernel Methods for Pattern Analysis*, 2004, propositions 3.24 and section 5.1.)

use super::fixed::{FEW, Fixed, KernelColumns};
use super::gradient::Weighted;
use super::points::{fill_column, row};
use super::{AnyKernel, Kernel};
use crate::Real;
use crate::vectorised;
use faer::prelude::*;
use faer::{Mat, MatMut, MatRef};
use std::sync::Arc;

/// A function that is applied to k(x, z).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KernelFunction {
    /// exp(k).
    Exp,
    /// k to a whole power.
    Power(u32),
    /// k(x, z) / √(k(x, x) k(z, z)).
    Normalised,
    /// k(x, z) / M_p(k(x, x), k(z, z)) with the mean M_p(a, b) = ((a^p + b^p) / 2)^(1/p), p > 0: positive definite as
    /// (s + t)^(−1/p) is on positive numbers.
    Mean(f64),
}

/// A function of a kernel.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) text: String,
    pub(super) function: KernelFunction,
    pub(super) kernel: Arc<dyn AnyKernel>,
}

impl KernelFunction {
    /// Computes the numbers that the function needs from the k(x, x) in `own`: 1/√k, k^p, or nothing. Negative ones, of
    /// a kernel that is not positive definite, count as 0.
    fn prepare<T: Real>(self, kernel: &dyn Kernel<T>, points: MatRef<'_, T>, own: &mut [f64], prepared: &mut [T]) {
        let prepare = |own: f64| match self {
            Self::Normalised if own > 0.0 => own.sqrt().recip(),
            Self::Mean(p) if own > 0.0 => own.powf(p),
            _ => 0.0,
        };
        if matches!(self, Self::Normalised | Self::Mean(_)) {
            kernel.diag(points, own);
        }
        prepared.iter_mut().zip(own).for_each(|(to, own)| *to = T::from_f64(prepare(*own)).saturate());
    }

    /// The numbers that [`prepare`](Self::prepare) computes, for many points.
    fn prepared<T: Real>(self, kernel: &dyn Kernel<T>, points: MatRef<'_, T>) -> Vec<T> {
        let mut prepared = vec![T::ZERO; points.nrows()];
        self.prepare(kernel, points, &mut vec![0.0; points.nrows()], &mut prepared);
        prepared
    }

    /// The function of k(x, z), for points whose prepared numbers are `x` and `z`.
    #[inline(always)]
    fn value<T: Real>(self, k: T, x: T, z: T) -> T {
        match self {
            Self::Exp => k.exponential(),
            Self::Power(degree) => k.power(degree),
            // one factor after the other: their product may overflow or vanish where the result does not
            Self::Normalised => k * x * z,
            Self::Mean(p) => {
                let half = T::from_f64(0.5);
                let mean = (x * half + z * half).larger(T::SMALLEST).smaller(T::LARGEST);
                let exponent = mean.logarithm() * T::from_f64(-std::f64::consts::LN_2 / p);
                if k == T::ZERO { k } else { k * exponent.exponential() }
            }
        }
        .saturate()
    }
}

impl KernelFunction {
    /// The derivative by k(x, z) of what [`value`](Self::value) gives.
    #[inline(always)]
    fn derivative<T: Real>(self, k: T, x: T, z: T) -> T {
        match self {
            Self::Exp => k.exponential().saturate(),
            Self::Power(degree) => (T::from_f64(degree.into()) * k.power(degree - 1)).saturate(),
            Self::Normalised | Self::Mean(_) => self.value(T::ONE, x, z),
        }
    }

    /// −d ln value / d ln √k(x, x), for points whose prepared numbers are `x` and `z`.
    #[inline(always)]
    fn own_share<T: Real>(self, x: T, z: T) -> f64 {
        match self {
            Self::Exp | Self::Power(_) => 0.0,
            Self::Normalised => 1.0,
            Self::Mean(_) if x > T::ZERO => x.to_f64() / 0.5f64.mul_add(x.to_f64(), 0.5 * z.to_f64()),
            Self::Mean(_) => 0.0,
        }
    }

    /// The weights of the gradients of k(x, z) for a tile of pairs, from those of the function of it. Adds to `own_weights`
    /// what is to be divided by −k(x, x): the weights of the gradients of k at (x, x).
    fn inner_weights<T: Real>(
        self,
        kernel: &dyn Kernel<T>,
        pairs: Weighted<'_, T>,
        (x_prepared, z_prepared): (&[T], &[T]),
        own_weights: &mut [f64],
    ) -> Mat<T> {
        let mut values = Mat::zeros(pairs.x.nrows(), pairs.z.nrows());
        kernel.block(pairs.x, pairs.z, values.as_mut());
        let mut spare = Vec::new();
        for ((column, weights), &z) in values.col_iter_mut().zip(pairs.weights.col_iter()).zip(z_prepared) {
            let weights = row(weights.as_mat().transpose(), 0, &mut spare);
            let points = column.iter_mut().zip(weights).zip(x_prepared).zip(own_weights.iter_mut());
            vectorised(
                #[inline(always)]
                || {
                    for (((k, &weight), &x), own_weight) in points {
                        *own_weight += (weight * self.value(*k, x, z)).saturate().to_f64() * self.own_share(x, z);
                        *k = (weight * self.derivative(*k, x, z)).saturate();
                    }
                },
            );
        }
        values
    }
}

impl<T: Real> Kernel<T> for Applied {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn positive_definite(&self) -> bool {
        self.kernel.typed::<T>().positive_definite()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let (kernel, function) = (self.kernel.typed::<T>(), self.function);
        kernel.block(x, z, out.rb_mut());
        let (x, z) = (function.prepared(&*kernel, x), function.prepared(&*kernel, z));
        let mut spare = Vec::new();
        for (column, &z) in out.col_iter_mut().zip(&z) {
            fill_column(column, &mut spare, |column| {
                vectorised(
                    #[inline(always)]
                    || {
                        for (value, &x) in column.iter_mut().zip(&x) {
                            *value = function.value(*value, x, z);
                        }
                    },
                );
            });
        }
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let fixed = Fixed::new(self.kernel.typed::<T>(), z);
        let z = self.function.prepared(fixed.kernel(), z);
        Some(Box::new(AppliedColumns { function: self.function, z, fixed }))
    }

    fn differentiable(&self) -> bool {
        self.kernel.typed::<T>().differentiable()
    }

    /// The gradient of k(x, x) is twice that by the first argument, k being symmetric: another pair for each row.
    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let (kernel, function) = (self.kernel.typed::<T>(), self.function);
        if !kernel.differentiable() {
            return false;
        }
        let (mut own, mut x_prepared) = (vec![0.0; x.nrows()], vec![T::ZERO; x.nrows()]);
        function.prepare(&*kernel, x, &mut own, &mut x_prepared);
        let z_prepared = function.prepared(&*kernel, z);
        for (i, strip) in pairs.row_tiles() {
            let rows = strip.x.nrows();
            let mut own_weights = vec![0.0; rows];
            for (j, pairs) in strip.column_tiles() {
                let prepared = (&x_prepared[i..i + rows], &z_prepared[j..j + pairs.z.nrows()]);
                let inner = function.inner_weights(&*kernel, pairs, prepared, &mut own_weights);
                kernel.gradient(pairs.x, pairs.z, inner.as_ref(), out.rb_mut().subrows_mut(i, rows));
            }
            for (r, (own_weight, own)) in
                own_weights.iter().zip(&own[i..]).enumerate().filter(|(_, (_, own))| **own > 0.0)
            {
                let (x, weight) = (strip.x.subrows(r, 1), T::from_f64(-own_weight / own).saturate());
                kernel.gradient(x, x, Mat::full(1, 1, weight).as_ref(), out.rb_mut().subrows_mut(i + r, 1));
            }
        }
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        self.kernel.typed::<T>().diag(x, out);
        for own in out {
            *own = match self.function {
                KernelFunction::Exp => own.exponential(),
                KernelFunction::Power(degree) => own.power(degree),
                // 0/0 is 0
                KernelFunction::Normalised | KernelFunction::Mean(_) => f64::from(u8::from(*own > 0.0)),
            }
            .saturate();
        }
    }
}

/// Fixed points for a function of a kernel.
#[derive(Debug)]
struct AppliedColumns<T: Real> {
    function: KernelFunction,
    /// For each point, the number prepared from its k(z, z).
    z: Vec<T>,
    fixed: Fixed<T>,
}

impl<T: Real> KernelColumns<T> for AppliedColumns<T> {
    fn scratch(&self) -> usize {
        self.fixed.scratch()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * self.z.len() + self.fixed.bytes()
    }

    fn rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        self.fixed.rows(x, z, out, scratch);
        let (mut own, mut prepared, function) = ([0.0; FEW], [T::ZERO; FEW], self.function);
        function.prepare(self.fixed.kernel(), x, &mut own[..x.nrows()], &mut prepared);
        for (values, x) in out.chunks_exact_mut(z.nrows().max(1)).zip(prepared) {
            vectorised(
                #[inline(always)]
                || {
                    for (value, &z) in values.iter_mut().zip(&self.z) {
                        *value = function.value(*value, x, z);
                    }
                },
            );
        }
    }
}
