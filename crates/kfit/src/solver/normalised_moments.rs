//! Second moments Σ_i φ_iφ_iᵀ / d_i of the features φ_i of the rows, where d_i is the degree of row
//! i. These moments give the eigenvectors of the normalised kernel matrix.
//!
//! Let K ≈ ΦΦᵀ be the kernel matrix, d_i = Σ_j k(x_i, x_j) = φ_iᵀ Σ_j φ_j the degrees, and D their
//! diagonal matrix. The leading eigenvectors of D^(-½)KD^(-½) are the columns of D^(-½)ΦU S^(-½),
//! where Σ_i φ_iφ_iᵀ / d_i = U S Uᵀ (p x p).

use crate::features::{FitData, StoredFeatures, Sums};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, GramScratch, GramState, Result, linalg::strips::for_each_strip};
use faer::{Mat, MatRef};
use kapprox::{Real, decompose::symmetric_eigen};
use kstore::{MemoryPlan, Workers};

/// Minimum degree, as a fraction of the mean degree. A row with a smaller degree is far from every
/// landmark, and its degree is a rounding error of either sign.
const MIN_RELATIVE_DEGREE: f64 = 1e-6;

/// Second moments of the features, divided by the degrees.
pub(super) struct NormalisedMoments {
    /// Σ φφᵀ/d.
    gram: GramState,
    /// Σ φ. Its inner product with the features of a row is the degree of the row.
    pub(super) feature_sums: Vec<f64>,
    /// Minimum degree, which replaces smaller degrees.
    pub(super) min_degree: f64,
}

pub(super) fn plan<T: Real>(plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
    let p = size.map.p;
    plan.term("normalised moments and their eigenvectors", 8 * 8 * p * p, "lower `rank`")
        .term("rows over their degrees", pass_shape.tile_rows * p * size.element_bytes, "lower `rank`")
        .term("panels", GramScratch::<T>::bytes(p, 0, pass_shape.tile_rows, size.threads), "lower `rank`")
}

impl NormalisedMoments {
    /// Computes the moments, and warns if rows have a degree below the minimum. Makes two passes
    /// over the features.
    pub(super) fn compute<T: Real>(data: &FitData<'_, T>, features: &StoredFeatures<'_, T>) -> Result<Self> {
        let (p, workers, stage_observer) = (features.p, features.workers(), data.resources.stage_observer);
        let sums = features.sum_features("sum of features")?;
        let mean_degree = sums.iter().map(|s| s * s).sum::<f64>() / features.n.max(1) as f64;
        if mean_degree <= 0.0 || !mean_degree.is_finite() {
            return Err(Error::NoVariance);
        }
        let (min_degree, narrow_sums) =
            (MIN_RELATIVE_DEGREE * mean_degree, sums.iter().map(|s| T::from_f64(*s)).collect::<Vec<T>>());
        let (mut scratch, mut scaled_phi) = (GramScratch::default(), Vec::new());
        let stage = stage_observer.start_stage("normalised moments", Some(data.n));
        let init = || (GramState::new(p, 0, 1), Sums::new(1));
        let (gram, raised_count) =
            features.reduce("normalised moments", &*stage, &init, |(gram, raised_count), tile| {
                let b = tile.row_count();
                let mut degrees = vec![T::ZERO; b];
                tile.multiply(&narrow_sums, &mut degrees, workers);
                raised_count.0[0] += degrees.iter().filter(|degree| degree.to_f64() < min_degree).count() as f64;
                let row_factors: Vec<T> =
                    degrees.iter().map(|d| T::from_f64(d.to_f64().max(min_degree).sqrt().recip())).collect();
                scaled_phi.resize(b * p, T::ZERO);
                // the tile's features, column-major, each row divided by the square root of its
                // degree
                for_each_strip(workers, &mut scaled_phi, b, |j, column| {
                    let rows = tile.phi.chunks_exact(p).zip(&row_factors);
                    column.iter_mut().zip(rows).for_each(|(to, (row, factor))| *to = row[j] * *factor);
                });
                let scaled_matrix = MatRef::from_column_major_slice(&scaled_phi, b, p);
                gram.update(0, scaled_matrix, MatRef::from_column_major_slice(&[], b, 0), &mut scratch, workers)
            })?;
        drop(stage);
        let raised_count = raised_count.0[0];
        if raised_count > 0.0 {
            stage_observer.warn(format!(
                "{raised_count} rows have no landmark nearby; their degrees are set to {MIN_RELATIVE_DEGREE:e} of the mean degree; raise \
                 `rank` or sigma"
            ));
        }
        Ok(Self { gram, feature_sums: sums, min_degree })
    }

    /// Returns two results. First, the map U S^(-½) of the k leading eigenvalues, p x k: φᵀU
    /// S^(-½), divided by √d, is the embedding of a row. It has fewer than k columns if the k-th
    /// eigenvalue is only rounding. Second, the `reported_count` leading eigenvalues. If they have
    /// a wide gap after the k-th, k is a good number of clusters.
    pub(super) fn embedding(&self, k: usize, reported_count: usize, workers: &Workers) -> Result<(Mat<f64>, Vec<f64>)> {
        let p = self.gram.feature_count();
        let g = MatRef::from_column_major_slice(&self.gram.folds()[0].g, p, p);
        // only the lower triangle is valid
        let symmetric = Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))]);
        let (values, vectors) = workers.run_detached(move || symmetric_eigen(symmetric.as_ref()))??;
        let min_eigenvalue = self.gram.epsilon() * values[p - 1].max(0.0);
        let leading_indices: Vec<usize> = (0..p).rev().take(k).take_while(|j| values[*j] > min_eigenvalue).collect();
        if leading_indices.is_empty() {
            return Err(Error::NoVariance);
        }
        let projection = Mat::from_fn(p, leading_indices.len(), |i, q| {
            vectors[(i, leading_indices[q])] / values[leading_indices[q]].sqrt()
        });
        Ok((projection, (0..p).rev().take(reported_count).map(|j| values[j]).collect()))
    }
}
