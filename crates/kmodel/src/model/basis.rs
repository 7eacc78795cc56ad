//! The basis functions of a model, which its coefficients multiply.

use super::{Card, Functions, Model};
use crate::{Error, Result, stacked::StackedMaps};
use faer::{Mat, MatRef};
use kapprox::map::{Expansion, KernelFunctions, Making, MapSpec, WithoutRows};
use kapprox::{AnyKernel, FeatureMap, Kernel, KernelFunction, Real, landmark::LandmarkSet};
use kstore::Workers;
use std::{ops::Range, sync::Arc};

/// The basis functions of a model, which its coefficients multiply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Basis<T> {
    /// Kernel functions k(x, z_j) of landmarks.
    Landmarks {
        /// Landmarks, m x d row-major, scaled like the rows.
        points: Vec<T>,
        /// Stored row number of each landmark; [`kapprox::landmark::NO_ROW`] for points that are
        /// not rows.
        rows: Vec<u64>,
    },
    /// Features of a data-independent map. The file stores its options and seed, and the map is
    /// rebuilt.
    Features {
        /// Features of the map at one point, length m; other values after a load mean that this
        /// version draws different random numbers.
        probe: Vec<f64>,
    },
}

/// Largest difference of the features at the probe between instruction sets, relative to the
/// largest feature.
const SAME: f64 = 1e-4;

impl<T: Real> Basis<T> {
    /// Returns the basis of an expansion, and its coefficients; `map` is the map of the expansion.
    pub fn of(expansion: Expansion<T>, map: &dyn FeatureMap<T>) -> (Self, Mat<f64>) {
        match expansion {
            Expansion::Landmarks { landmarks: LandmarkSet { points, rows, .. }, coefficients, .. } => {
                (Self::Landmarks { points, rows }, coefficients)
            }
            Expansion::Features { coefficients } => (Self::Features { probe: probe(map) }, coefficients),
        }
    }

    /// Returns landmarks, row-major, and their row numbers; `None` for a basis of features.
    pub fn landmarks(&self) -> Option<(&[T], &[u64])> {
        match self {
            Self::Landmarks { points, rows } => Some((points, rows)),
            Self::Features { .. } => None,
        }
    }

    pub(super) fn widen(self) -> Basis<f64> {
        match self {
            Self::Landmarks { points, rows } => {
                Basis::Landmarks { points: points.into_iter().map(kstore::Real::to_f64).collect(), rows }
            }
            Self::Features { probe } => Basis::Features { probe },
        }
    }
}

/// Returns the features at a fixed point of d numbers between 0.25 and 1.25, which all kernels
/// except set kernels accept. For sparse rows the point has entries in up to eight columns.
fn probe<T: Real>(map: &dyn FeatureMap<T>) -> Vec<f64> {
    let (d, p) = map.dims();
    let value = |c: usize| 0.25 + (c * 3 % 8) as f64 / 8.0;
    let numbers: Vec<f64> = match map.sparse() {
        Some(width) => {
            let entries = width.min(8);
            (0..entries).map(|c| (c * width / entries) as f64).chain((0..entries).map(value)).collect()
        }
        None => (0..d).map(value).collect(),
    };
    let x: Vec<T> = numbers.into_iter().map(T::from_f64).collect();
    let mut phi = Mat::<T>::zeros(1, p);
    map.apply(MatRef::from_row_major_slice(&x, 1, x.len()), phi.as_mut(), &Workers::sequential());
    (0..p).map(|j| phi[(0, j)].to_f64()).collect()
}

impl<T: Real> Model<T> {
    /// Returns the kernel of the model, for rows of type `T`.
    ///
    /// # Errors
    /// An unknown kernel.
    #[doc(hidden)]
    pub fn kernel(&self) -> Result<Arc<dyn KernelFunction<T>>> {
        Ok(self.any_kernel()?.typed())
    }

    pub(crate) fn any_kernel(&self) -> Result<Arc<dyn AnyKernel>> {
        Ok(self.card.on_rows(&self.card.kernel)?.build()?)
    }

    /// Returns the basis functions, in the model's form, as a map from rows to their values.
    ///
    /// # Errors
    /// An unknown kernel or map, and random features that differ in this version.
    #[doc(hidden)]
    pub fn functions(&self) -> Result<Functions<T>> {
        let points = self.basis.landmarks().map_or(&[][..], |(points, _)| points);
        self.with_leaves(self.form.functions(|| self.plain_functions(), points, self.dims().1)?)
    }

    fn plain_functions(&self) -> Result<Box<dyn FeatureMap<T>>> {
        let Card { kernel, with, map, rank, seed, .. } = &self.card;
        let kernel = self.card.on_rows(kernel)?;
        let d = self.dims().1;
        let probed = match &self.basis {
            Basis::Landmarks { points, rows } => {
                let functions = |kernel: &Kernel, some: Range<usize>| -> Result<Box<dyn FeatureMap<T>>> {
                    let (points, rows) = (points[some.start * d..some.end * d].to_vec(), rows[some].to_vec());
                    let landmarks = LandmarkSet { points, rows, d, passes: 0, evaluations: 0 };
                    Ok(Box::new(KernelFunctions::new(&kernel.build()?, landmarks)))
                };
                let Some(with) = with else { return functions(&kernel, 0..rows.len()) };
                let first = rows.len().saturating_sub(with.functions);
                let second = functions(&self.card.on_rows(&with.kernel)?, first..rows.len())?;
                return Ok(Box::new(StackedMaps(vec![functions(&kernel, 0..first)?, second])));
            }
            Basis::Features { probe } => probe,
        };
        let spec: MapSpec = map.parse()?;
        let Making::WithoutRows(make) = spec.making::<T>() else {
            return Err(Error::Features { map: map.clone(), why: "it needs landmarks and the model has none" });
        };
        let made = make(&WithoutRows { spec: &spec, kernel: &kernel, d, rank: *rank, seed: *seed })?;
        let largest = probed.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
        let now = probe(&*made);
        let same = now.len() == probed.len() && now.iter().zip(probed).all(|(a, b)| (a - b).abs() <= SAME * largest);
        if !same {
            return Err(Error::Features {
                map: map.clone(),
                why: "this version of kmill draws different random numbers",
            });
        }
        Ok(made)
    }
}

/// Largest rounding error of a prediction in `T`, relative to `sizes`: see [`needs_wide_for`].
const ROUNDING: f64 = 1e-3;

/// Returns true if Σ_i a_i k(z_i, x) needs kernel values in f64.
///
/// Kernel values in `T` have independent rounding errors of ε/2 relative to the diagonal. They are
/// too large if their sum exceeds 1e-3 of `sizes[j]` for a target j. The size is the root mean
/// squared error of a fit, whose error then changes by at most a millionth, or the standard
/// deviation of the target. The bound is ε/2·‖a‖ for kernel values up to 1; for a kernel of another
/// scale, the coefficients scale inversely.
#[doc(hidden)]
pub fn needs_wide_for<T: Real>(a: MatRef<'_, f64>, sizes: &[f64]) -> bool {
    let rounding = |j: usize| T::EPSILON / 2.0 * a.col(j).norm_l2();
    size_of::<T>() < size_of::<f64>() && sizes.iter().enumerate().any(|(j, size)| rounding(j) > ROUNDING * size)
}
