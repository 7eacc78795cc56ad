//! The basis functions of a model, which its coefficients multiply.

use super::{BasisFunctions, Model, ModelMetadata};
use crate::{Error, Result, stacked_maps::StackedMaps};
use faer::{Mat, MatRef};
use kapprox::map::{DataIndependentMapArgs, Expansion, KernelSections, MapConstructor, MapSpec};
use kapprox::{AnyKernel, FeatureMap, KernelFunction, Real, landmark::LandmarkSet};
use kstore::Workers;
use std::sync::Arc;

/// The basis functions of a model, which its coefficients multiply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Basis<T> {
    /// Kernel functions k(x, z_j) of landmarks.
    Landmarks {
        /// Landmarks, m x d row-major, scaled like the rows.
        points: Vec<T>,
        /// Stored row number of each landmark, or [`kapprox::landmark::NO_ROW`] if it is not a row.
        row_numbers: Vec<u64>,
    },
    /// Features of a data-independent map. The file stores the options and the seed, from which the
    /// map is rebuilt.
    Features {
        /// Features of the map at one point, length m. They reveal whether a rebuilt map differs,
        /// because another version draws different random numbers.
        probe: Vec<f64>,
    },
}

/// Maximum accepted difference between stored and recomputed features at the probe, relative to the
/// largest feature. It is not 0, because rounding differs between instruction sets.
const PROBE_TOLERANCE: f64 = 1e-4;

impl<T: Real> Basis<T> {
    /// Returns the basis of an expansion, and its coefficients. `map` is the map of the expansion.
    pub fn from_expansion(expansion: Expansion<T>, map: &dyn FeatureMap<T>) -> (Self, Mat<f64>) {
        match expansion {
            Expansion::Landmarks {
                landmarks: LandmarkSet { points, row_numbers: rows, .. },
                dual_coefficients,
                ..
            } => (Self::Landmarks { points, row_numbers: rows }, dual_coefficients),
            Expansion::Features { weights } => (Self::Features { probe: probe_features(map) }, weights),
        }
    }

    /// Returns the landmarks, row-major, and their row numbers. Returns `None` for a basis of
    /// features.
    pub fn landmarks(&self) -> Option<(&[T], &[u64])> {
        match self {
            Self::Landmarks { points, row_numbers: rows } => Some((points, rows)),
            Self::Features { .. } => None,
        }
    }

    pub(super) fn into_f64(self) -> Basis<f64> {
        match self {
            Self::Landmarks { points, row_numbers: rows } => {
                Basis::Landmarks { points: points.into_iter().map(kstore::Float::to_f64).collect(), row_numbers: rows }
            }
            Self::Features { probe } => Basis::Features { probe },
        }
    }
}

/// Returns the features at a fixed point of d numbers between 0.25 and 1.25, which all kernels
/// except set kernels accept. For sparse rows the point has entries in up to eight columns.
fn probe_features<T: Real>(map: &dyn FeatureMap<T>) -> Vec<f64> {
    let (d, p) = map.dims();
    let value = |c: usize| 0.25 + (c * 3 % 8) as f64 / 8.0;
    let point: Vec<f64> = match map.sparse_column_count() {
        Some(column_count) => {
            let entry_count = column_count.min(8);
            (0..entry_count)
                .map(|c| (c * column_count / entry_count) as f64)
                .chain((0..entry_count).map(value))
                .collect()
        }
        None => (0..d).map(value).collect(),
    };
    let x: Vec<T> = point.into_iter().map(T::from_f64).collect();
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
        Ok(self.metadata.parse_kernel(&self.metadata.kernel)?.build()?)
    }

    /// Returns the basis functions, transformed by the model's [`super::BasisTransform`], as a map
    /// from rows to their values.
    ///
    /// # Errors
    /// An unknown kernel or map, and random features that differ in this version.
    #[doc(hidden)]
    pub fn functions(&self) -> Result<BasisFunctions<T>> {
        let points = self.basis.landmarks().map_or(&[][..], |(points, _)| points);
        self.with_leaves(self.transform.functions(|| self.untransformed_functions(), points, self.dims().1)?)
    }

    fn untransformed_functions(&self) -> Result<Box<dyn FeatureMap<T>>> {
        let ModelMetadata { map, rank, seed, .. } = &self.metadata;
        let d = self.dims().1;
        let stored_probe = match &self.basis {
            Basis::Landmarks { points, row_numbers: rows } => {
                let mut first_function = 0;
                let sections = self.metadata.kernels_of_functions(rows.len()).into_iter().map(|(kernel, count)| {
                    let range = first_function..first_function + count;
                    first_function = range.end;
                    let points = points[range.start * d..range.end * d].to_vec();
                    let landmarks =
                        LandmarkSet { points, row_numbers: rows[range].to_vec(), d, passes: 0, evaluations: 0 };
                    let kernel = self.metadata.parse_kernel(kernel)?.build()?;
                    Ok(Box::new(KernelSections::new(&kernel, landmarks)) as Box<dyn FeatureMap<T>>)
                });
                let mut sections: Vec<Box<dyn FeatureMap<T>>> = sections.collect::<Result<_>>()?;
                return Ok(match sections.pop() {
                    Some(only) if sections.is_empty() => only,
                    last => {
                        sections.extend(last);
                        Box::new(StackedMaps(sections))
                    }
                });
            }
            Basis::Features { probe } => probe,
        };
        let spec: MapSpec = map.parse()?;
        let MapConstructor::DataIndependent(build) = spec.constructor::<T>() else {
            return Err(Error::MapNotRebuilt { map: map.clone(), why: "it needs landmarks and the model has none" });
        };
        let kernel = self.metadata.parse_kernel(&self.metadata.kernel)?;
        let rebuilt_map = build(&DataIndependentMapArgs { spec: &spec, kernel: &kernel, d, rank: *rank, seed: *seed })?;
        let max_magnitude = stored_probe.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
        let new_probe = probe_features(&*rebuilt_map);
        let is_same = new_probe.len() == stored_probe.len()
            && new_probe.iter().zip(stored_probe).all(|(a, b)| (a - b).abs() <= PROBE_TOLERANCE * max_magnitude);
        if !is_same {
            return Err(Error::MapNotRebuilt {
                map: map.clone(),
                why: "this version of kmill draws different random numbers",
            });
        }
        Ok(rebuilt_map)
    }
}

/// Maximum accepted rounding error of a prediction from kernel values in `T`, relative to the scale
/// of the target: see [`needs_f64_for`].
const MAX_ROUNDING_ERROR: f64 = 1e-3;

/// Returns true if the functions Σ_i a_ij k(z_i, x) need kernel values in f64, where a_ij are the
/// entries of `a` (m x t).
///
/// Kernel values in `T` have independent rounding errors of ε/2 relative to the diagonal. These
/// errors are too large if the error of the sum exceeds 1e-3 of `target_scales[j]` for a target j.
/// The scale is either the root mean squared error of the fit (whose mean squared error then
/// changes by at most a millionth) or the standard deviation of the target. For kernel values up to
/// 1, the error of the sum is about ε/2·‖a‖. For a kernel of another scale, the coefficients scale
/// inversely, so the bound also holds.
#[doc(hidden)]
pub fn needs_f64_for<T: Real>(a: MatRef<'_, f64>, target_scales: &[f64]) -> bool {
    let rounding_error = |j: usize| T::EPSILON / 2.0 * a.col(j).norm_l2();
    size_of::<T>() < size_of::<f64>()
        && target_scales.iter().enumerate().any(|(j, scale)| rounding_error(j) > MAX_ROUNDING_ERROR * scale)
}
