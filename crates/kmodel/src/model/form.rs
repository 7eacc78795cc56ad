//! The form of a model's functions: what is made of its basis before coefficients multiply it.
//!
//! Every head is linear. What differs is what it is linear in: the kernel functions (or features) b(x) themselves; those over a
//! degree, b(x)/b(x)·a; or functions of the nearest among the points, the nodes of a graph.

use crate::neighbours::NearNodes;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// What is made of the basis of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Form {
    /// Its functions as they are.
    #[default]
    Plain,
    /// Its functions over a degree, max(b(x)·a, floor).
    OverDegree {
        /// The coefficients a of the degree, m numbers.
        coefficients: Vec<f64>,
        /// The least degree, positive.
        floor: f64,
    },
    /// The weights that make x of the nearest of the points, one function for each.
    Weights {
        /// Number k of the nearest.
        neighbours: usize,
    },
    /// Squares of the lengths of shortest paths from landmarks to x, through the nearest of the points.
    Paths {
        /// Number k of the nearest.
        neighbours: usize,
        /// The lengths from each landmark to each point, m x N.
        lengths: Mat<f64>,
    },
}

impl Form {
    /// The functions of this form over a plain basis on points of d features (row-major).
    pub(super) fn functions<T: Real>(
        &self,
        plain: impl FnOnce() -> crate::Result<Box<dyn FeatureMap<T>>>,
        points: &[T],
        d: usize,
    ) -> crate::Result<Box<dyn FeatureMap<T>>> {
        Ok(match self {
            Self::Plain => plain()?,
            Self::OverDegree { coefficients, floor } => {
                Box::new(OverDegree { plain: plain()?, coefficients: coefficients.clone(), floor: *floor })
            }
            Self::Weights { neighbours } => Box::new(NearNodes::new(points, d, *neighbours, None)),
            Self::Paths { neighbours, lengths } => {
                Box::new(NearNodes::new(points, d, *neighbours, Some(lengths.clone())))
            }
        })
    }

    /// The number of nearest points that its functions are made of; `None` where they look at all points.
    pub fn neighbours(&self) -> Option<usize> {
        match self {
            Self::Weights { neighbours } | Self::Paths { neighbours, .. } => Some(*neighbours),
            Self::Plain | Self::OverDegree { .. } => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::OverDegree { coefficients, .. } => 8 * coefficients.len(),
            Self::Paths { lengths, .. } => 8 * lengths.nrows() * lengths.ncols(),
            Self::Plain | Self::Weights { .. } => 0,
        }
    }
}

/// The functions of another map over a degree that is linear in them.
#[derive(Debug)]
struct OverDegree<T: Real> {
    plain: Box<dyn FeatureMap<T>>,
    coefficients: Vec<f64>,
    floor: f64,
}

impl<T: Real> FeatureMap<T> for OverDegree<T> {
    fn dims(&self) -> (usize, usize) {
        self.plain.dims()
    }

    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, workers: &Workers) {
        self.plain.apply(x, out.rb_mut(), workers);
        let mut degrees = vec![0.0f64; out.nrows()];
        for (column, a) in out.rb().col_iter().zip(&self.coefficients) {
            degrees.iter_mut().zip(column.iter()).for_each(|(sum, v)| *sum += a * v.to_f64());
        }
        degrees.iter_mut().for_each(|degree| *degree = degree.max(self.floor));
        for column in out.col_iter_mut() {
            // what has overflowed stays so, and is found out
            let values = column.iter_mut().zip(&degrees).filter(|(v, _)| v.magnitude() < T::LARGEST);
            values.for_each(|(v, degree)| *v = T::from_f64(v.to_f64() / degree));
        }
    }

    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.plain.footprint();
        Footprint { fixed: fixed + 8 * self.coefficients.len(), per_row: per_row + 8 }
    }
}
