//! The transformation of the basis functions of a model before their product with the coefficients.
//!
//! Every model is linear in one of four kinds of functions: the kernel functions (or features)
//! b(x), the normalised functions b(x)/(b(x)·a) with a stored vector a, functions of the nodes of a
//! neighbour graph that are nearest to x, or the columns of a matrix of distances or kernel values.

use super::matrix_columns::{MatrixColumns, MatrixKind};
use crate::neighbours::NeighbourFunctions;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// The transformation of the basis of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum BasisTransform {
    /// The basis functions unchanged.
    #[default]
    Identity,
    /// The basis functions divided by the degree max(b(x)·a, floor).
    DivideByDegree {
        /// Coefficients a of the degree, length m.
        coefficients: Vec<f64>,
        /// Minimum degree, positive.
        floor: f64,
    },
    /// Weights that reconstruct x from its nearest points. There is one function per point; it is 0
    /// unless the point is among the nearest.
    ReconstructionWeights {
        /// Number k of nearest points.
        neighbours: usize,
    },
    /// Squared lengths of the shortest paths from the landmarks to x, through the points nearest to
    /// x. There is one function per landmark.
    ShortestPaths {
        /// Number k of nearest points.
        neighbours: usize,
        /// Lengths of the shortest paths from the m landmarks to the N points, m x N.
        path_lengths: Mat<f64>,
    },
    /// The kernel values, or squared distances, that a row of a matrix contains. There is one
    /// function per column, and the basis has no points.
    MatrixColumns(MatrixKind),
}

impl BasisTransform {
    /// Returns the transformed functions. `basis` must return the untransformed functions; `points`
    /// are the points of the basis, row-major, with d features each.
    pub(super) fn functions<T: Real>(
        &self,
        basis: impl FnOnce() -> crate::Result<Box<dyn FeatureMap<T>>>,
        points: &[T],
        d: usize,
    ) -> crate::Result<Box<dyn FeatureMap<T>>> {
        Ok(match self {
            Self::Identity => basis()?,
            Self::DivideByDegree { coefficients, floor } => {
                Box::new(DegreeNormalised { basis: basis()?, coefficients: coefficients.clone(), floor: *floor })
            }
            Self::ReconstructionWeights { neighbours } => {
                Box::new(NeighbourFunctions::new(points, d, *neighbours, None))
            }
            Self::ShortestPaths { neighbours, path_lengths: lengths } => {
                Box::new(NeighbourFunctions::new(points, d, *neighbours, Some(lengths.clone())))
            }
            Self::MatrixColumns(kind) => Box::new(MatrixColumns { kind: *kind, column_count: d }),
        })
    }

    /// Returns the number of nearest points that the functions use; `None` if they use all points.
    pub fn neighbour_count(&self) -> Option<usize> {
        match self {
            Self::ReconstructionWeights { neighbours } | Self::ShortestPaths { neighbours, .. } => Some(*neighbours),
            Self::Identity | Self::DivideByDegree { .. } | Self::MatrixColumns(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::DivideByDegree { coefficients, .. } => 8 * coefficients.len(),
            Self::ShortestPaths { path_lengths: lengths, .. } => 8 * lengths.nrows() * lengths.ncols(),
            Self::Identity | Self::ReconstructionWeights { .. } | Self::MatrixColumns(_) => 0,
        }
    }
}

/// The functions of another map, divided by a degree that is a linear function of these functions.
#[derive(Debug)]
struct DegreeNormalised<T: Real> {
    basis: Box<dyn FeatureMap<T>>,
    coefficients: Vec<f64>,
    floor: f64,
}

impl<T: Real> FeatureMap<T> for DegreeNormalised<T> {
    fn dims(&self) -> (usize, usize) {
        self.basis.dims()
    }

    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, workers: &Workers) {
        self.basis.apply(x, out.rb_mut(), workers);
        let mut degrees = vec![0.0f64; out.nrows()];
        for (column, a) in out.rb().col_iter().zip(&self.coefficients) {
            degrees.iter_mut().zip(column.iter()).for_each(|(sum, v)| *sum += a * v.to_f64());
        }
        degrees.iter_mut().for_each(|degree| *degree = degree.max(self.floor));
        for column in out.col_iter_mut() {
            // leave values that have overflowed unchanged, so that the caller detects them
            let values = column.iter_mut().zip(&degrees).filter(|(v, _)| v.magnitude() < T::LARGEST);
            values.for_each(|(v, degree)| *v = T::from_f64(v.to_f64() / degree));
        }
    }

    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.basis.footprint();
        Footprint { fixed: fixed + 8 * self.coefficients.len(), per_row: per_row + 8 }
    }
}
