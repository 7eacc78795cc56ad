//! The Jaccard (Tanimoto) kernel on 0/1 features, |A∩B| / |A∪B| = x·z / (‖x‖² + ‖z‖² − x·z); 1 for
//! two empty sets.
//!
//! It is 1 minus SciPy's `jaccard` distance. It is positive definite (Gower, *A General Coefficient
//! of Similarity and Some of Its Properties*, Biometrics 27, 1971; Ralaivola, Swamidass, Saigo,
//! Baldi, *Graph Kernels for Chemical Informatics*, 2005), and its matrix of distinct sets is
//! strictly positive definite (Bouchard, Jousselme, Doré, *A Proof for the Positive Definiteness of
//! the Jaccard Index Matrix*, IJAR 54, 2013).

use super::cancelling::SplitDistance;
use super::distance_argument::Euclidean;
use super::family::{Domain, KernelFamily, KernelProperties};
use super::panel::{Epilogue, PointStats, PointStatsTable, ValueBlock};
use super::points::{Frame, squared_row_norms, sum_panels, sum_row};
use super::{KernelFunction, assert_shapes, few_rows, fixed_kernel::PreparedPoints, terms::Products};
use crate::Real;
use faer::{MatMut, MatRef};
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::Binary,
    // universal, because kernel matrices of distinct sets are not singular
    properties: KernelProperties::UNIVERSAL,
    ..KernelFamily::new("jaccard", "x.z / (x.x + z.z - x.z)", "jaccard()", |text, _| Arc::new(Jaccard { text }))
};

#[derive(Debug)]
struct Jaccard {
    text: String,
}

impl<T: Real> KernelFunction<T> for Jaccard {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        ValueBlock { frame: &Frame::identity(x.ncols()), x, z, out }.fill::<Products, _>(&JaccardEpilogue);
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        Some(few_rows::prepare_points::<T, Products, _>(Frame::identity(z.ncols()), JaccardEpilogue, z))
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(1.0);
    }
}

/// Computes |A∩B| / |A∪B| from |A∩B|, |A| and |B|.
struct JaccardEpilogue;

impl<T: Real> Epilogue<T> for JaccardEpilogue {
    const STATS_PER_POINT: usize = 1;

    fn panel_stats(&self, panels: &mut [T], height: usize, d: usize, stats: &mut PointStatsTable<T>) {
        sum_panels(panels, height, d, Euclidean::offset, 1.0, &mut stats.offsets);
    }

    fn point_stats(&self, x: &mut [T]) -> PointStats<T> {
        PointStats { offset: sum_row(x, Euclidean::offset, 1.0), size: T::ZERO }
    }

    fn row_stats(&self, rows: &[T], d: usize, stats: &mut PointStatsTable<T>) {
        squared_row_norms(rows, rows.len() / d, &mut stats.offsets);
    }

    #[inline(always)]
    fn values(&self, point: PointStats<T>, other_sizes: &[T], _: T, sums: &[T], values: &mut [T]) -> bool {
        for ((value, &intersection), &other_size) in values.iter_mut().zip(sums).zip(other_sizes) {
            let union = other_size + point.offset - intersection;
            // union is 0 only for two empty sets, because the sizes of sets are integers
            *value = if union > T::ZERO { (intersection / union).saturate() } else { T::ONE };
        }
        false
    }
}
