//! Functions of a row of a matrix of distances or kernel values: one function for each column.

use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// The meaning of the matrix entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixKind {
    /// Kernel values.
    Kernel,
    /// Distances.
    #[default]
    Distances,
    /// Squared distances.
    SquaredDistances,
}

crate::enum_of_words!(MatrixKind, "of", "kernel" => Kernel, "distances" => Distances, "squared-distances" => SquaredDistances);

impl MatrixKind {
    /// Kinds by the number that a model file stores.
    pub(super) const BY_NUMBER: [Self; 3] = [Self::Kernel, Self::Distances, Self::SquaredDistances];

    /// Returns the kernel value or squared distance of a matrix entry; `None` if the entry is not a
    /// distance.
    #[doc(hidden)]
    #[inline(always)]
    pub fn value<T: Real>(self, entry: T) -> Option<T> {
        let value = match self {
            Self::Distances => entry * entry,
            Self::Kernel | Self::SquaredDistances => entry,
        };
        (self == Self::Kernel || entry >= T::ZERO).then_some(value)
    }
}

/// The kernel values, or squared distances, of a row of a matrix with d columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixColumns {
    pub(super) kind: MatrixKind,
    pub(super) column_count: usize,
}

impl<T: Real> FeatureMap<T> for MatrixColumns {
    fn dims(&self) -> (usize, usize) {
        (self.column_count, self.column_count)
    }

    /// Computes the functions of the rows. An entry that is not a distance becomes the largest
    /// number, which the caller treats as an overflow.
    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, _: &Workers) {
        for (values, entries) in out.col_iter_mut().zip(x.col_iter()) {
            for (value, entry) in values.iter_mut().zip(entries.iter()) {
                *value = self.kind.value(*entry).unwrap_or(T::LARGEST);
            }
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
