//! The distance kernel, (‖x‖ + ‖z‖ − ‖x − z‖) / 2, whose distance in feature space is a distance of the points: ‖k(x, ·) − k(z, ·)‖² = ‖x − z‖.
//!
//! Positive definite because ‖x − z‖ is of negative type, and characteristic for laws with a mean: the squared maximum mean discrepancy by it
//! is half the energy distance, 2 E‖X − Z‖ − E‖X − X'‖ − E‖Z − Z'‖, and in one dimension twice it is the square of
//! `scipy.stats.energy_distance`. It has no length scale. Values of points far from the origin cancel.
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("distance()").is_ok());
//! ```
//!
//! References: Székely, Rizzo, "Testing for equal distributions in high dimension", InterStat 5, 2004; Sejdinovic, Sriperumbudur, Gretton,
//! Fukumizu, "Equivalence of distance-based and RKHS-based statistics in hypothesis testing", Annals of Statistics 41, 2013.

use super::family::{Facts, KernelFamily};
use super::fixed::{Fixed, KernelColumns};
use super::points::{Lengths, fill_column, row};
use super::radial::{AtZero, l2};
use super::{AnyKernel, Kernel, Profile};
use crate::{Real, vectorised};
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// The family of kernels `distance()`.
pub(super) const FAMILY: KernelFamily = KernelFamily {
    facts: Facts { characteristic: true, ..Facts::NONE },
    ..KernelFamily::new("distance", "(|x| + |z| - |x-z|) / 2", "distance()", |text, _| {
        let between = l2("distance()".to_string(), Lengths::Same(1.0), AtZero::Cusp, Between);
        Arc::new(Distance { text, between })
    })
};

/// −‖x − z‖ / 2.
#[derive(Debug)]
struct Between;

impl Profile for Between {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let half = T::from_f64(-0.5);
        #[inline(always)]
        move |squared: T| half * squared.larger(T::ZERO).root()
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let quarter = T::from_f64(-0.25);
        Some(
            #[inline(always)]
            move |squared: T| if squared > T::ZERO { quarter / squared.root() } else { T::ZERO },
        )
    }
}

#[derive(Debug)]
struct Distance {
    text: String,
    /// −‖x − z‖ / 2, which is no kernel.
    between: Arc<dyn AnyKernel>,
}

/// Points with their norms, for a few rows at a time.
#[derive(Debug)]
struct DistanceColumns<T: Real> {
    fixed: Fixed<T>,
    /// ‖z‖ / 2.
    halves: Vec<T>,
}

impl<T: Real> KernelColumns<T> for DistanceColumns<T> {
    fn scratch(&self) -> usize {
        self.fixed.scratch()
    }

    fn bytes(&self) -> usize {
        self.fixed.bytes() + size_of::<T>() * self.halves.len()
    }

    fn rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        self.fixed.rows(x, z, out, scratch);
        let mut spare = Vec::new();
        for (i, out) in out.chunks_exact_mut(self.halves.len().max(1)).enumerate() {
            let half = half(x, i, &mut spare);
            for (value, &z) in out.iter_mut().zip(&self.halves) {
                *value = ((half + z).saturate() + *value).saturate();
            }
        }
    }
}

/// ‖x‖ / 2 of a point.
fn half<T: Real>(points: MatRef<'_, T>, i: usize, spare: &mut Vec<T>) -> T {
    let squares: f64 = row(points, i, spare).iter().map(|value| value.to_f64() * value.to_f64()).sum();
    T::from_f64(0.5 * squares.min(f64::MAX).sqrt()).saturate()
}

/// ‖x‖ / 2 of each of the points.
fn halves<T: Real>(points: MatRef<'_, T>) -> Vec<T> {
    let mut spare = Vec::new();
    (0..points.nrows()).map(|i| half(points, i, &mut spare)).collect()
}

impl<T: Real> Kernel<T> for Distance {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        self.between.typed::<T>().block(x, z, out.rb_mut());
        let (x, z, mut spare) = (halves(x), halves(z), Vec::new());
        for (column, &z) in out.col_iter_mut().zip(&z) {
            fill_column(column, &mut spare, |column| {
                vectorised(
                    #[inline(always)]
                    || {
                        for (value, &x) in column.iter_mut().zip(&x) {
                            *value = ((x + z).saturate() + *value).saturate();
                        }
                    },
                );
            });
        }
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let fixed = Fixed::new(self.between.typed::<T>(), z);
        Some(Box::new(DistanceColumns { fixed, halves: halves(z) }))
    }

    fn differentiable(&self) -> bool {
        true
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        self.between.typed::<T>().gradient(x, z, weights, out.rb_mut());
        let (norms, mut spare) = (halves(x), Vec::new());
        for (i, &half) in norms.iter().enumerate().filter(|(_, half)| **half > T::ZERO) {
            let sum: f64 = weights.row(i).iter().map(|weight| weight.to_f64()).sum();
            let share = 0.25 * sum / half.to_f64();
            for (out, &x) in out.rb_mut().row_mut(i).iter_mut().zip(row(x, i, &mut spare)) {
                *out = (*out + T::from_f64(share * x.to_f64()).saturate()).saturate();
            }
        }
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let mut spare = Vec::new();
        for (i, out) in out.iter_mut().enumerate() {
            let squares: f64 = row(x, i, &mut spare).iter().map(|value| value.to_f64() * value.to_f64()).sum();
            *out = squares.min(f64::MAX).sqrt();
        }
    }
}
