//! Functions of kernels that are kernels again: powers, exponentials, and normalisations by the diagonal.
//!
//! (Shawe-Taylor, Cristianini, *Kernel Methods for Pattern Analysis*, 2004, propositions 3.24 and section 5.1.)

use super::points::fill_column;
use super::{AnyKernel, Kernel};
use crate::Real;
use crate::vectorised;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// What is done to k(x, z).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
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
    pub(super) function: Function,
    pub(super) kernel: Arc<dyn AnyKernel>,
}

impl Applied {
    /// What the function needs of k(x, x): 1/√k, k^p, or nothing. Negative ones, of a kernel that is not positive
    /// definite, count as 0.
    fn prepared<T: Real>(&self, points: MatRef<'_, T>) -> Vec<T> {
        let prepare = |own: f64| match self.function {
            Function::Normalised if own > 0.0 => own.sqrt().recip(),
            Function::Mean(p) if own > 0.0 => own.powf(p),
            _ => 0.0,
        };
        let mut own = vec![0.0; points.nrows()];
        if matches!(self.function, Function::Normalised | Function::Mean(_)) {
            T::kernel(self.kernel.clone()).diag(points, &mut own);
        }
        own.into_iter().map(|own| T::from_f64(prepare(own)).saturate()).collect()
    }

    /// Replaces the values of a column, of the rows whose diagonal was made into `x`, by the function's.
    #[inline(always)]
    fn column<T: Real>(&self, values: &mut [T], x: &[T], z: T) {
        let (half, small) = (T::from_f64(0.5), T::SMALLEST);
        for (value, &x) in values.iter_mut().zip(x) {
            let k = *value;
            *value = match self.function {
                Function::Exp => k.exponential(),
                Function::Power(degree) => k.power(degree),
                // one factor after the other: their product may overflow or vanish where the result does not
                Function::Normalised => k * x * z,
                Function::Mean(p) => {
                    let mean = (x * half + z * half).larger(small).smaller(T::LARGEST);
                    let exponent = mean.logarithm() * T::from_f64(-std::f64::consts::LN_2 / p);
                    if k == T::ZERO { k } else { k * exponent.exponential() }
                }
            }
            .saturate();
        }
    }
}

impl<T: Real> Kernel<T> for Applied {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn positive_definite(&self) -> bool {
        T::kernel(self.kernel.clone()).positive_definite()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        T::kernel(self.kernel.clone()).block(x, z, out.rb_mut());
        let (x, z) = (self.prepared(x), self.prepared(z));
        let mut spare = Vec::new();
        for (column, &z) in out.col_iter_mut().zip(&z) {
            fill_column(column, &mut spare, |column| {
                vectorised(
                    #[inline(always)]
                    || self.column(column, &x, z),
                );
            });
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        T::kernel(self.kernel.clone()).diag(x, out);
        for own in out {
            *own = match self.function {
                Function::Exp => own.exponential(),
                Function::Power(degree) => own.power(degree),
                // 0/0 is 0
                Function::Normalised | Function::Mean(_) => f64::from(u8::from(*own > 0.0)),
            }
            .saturate();
        }
    }
}
