//! Second moments of features and targets, centred by given means.

use crate::{Error, FoldGram, Result};
use faer::{Mat, MatRef};
use std::borrow::Cow;

/// Centred moments: G = Σ φ̃φ̃ᵀ, B = Σ φ̃ỹᵀ, and Σ ỹ² of each target. The sums run over the rows;
/// φ̃ are the features φ of a row minus `mean`, and ỹ its targets y minus `target_mean`.
#[derive(Debug)]
pub(super) struct CentredMoments {
    pub(super) row_count: f64,
    /// G, p x p column-major, full.
    g: Vec<f64>,
    /// B, p x t.
    pub(super) b: Mat<f64>,
    pub(super) squared_target_sums: Vec<f64>,
    pub(super) feature_mean: Vec<f64>,
    pub(super) target_mean: Vec<f64>,
}

impl CentredMoments {
    /// Centres the moments of some rows by their own means.
    pub(super) fn from_moments(moments: Cow<'_, FoldGram>) -> Result<Self> {
        let rows = moments.row_count;
        if rows < 2 {
            return Err(Error::TooFewRowsFor { what: "each fold, like its complement,", needed: 2, rows });
        }
        let means_of = |sums: &[f64]| sums.iter().map(|s| s / rows as f64).collect::<Vec<f64>>();
        let (mean, target_mean) = (means_of(&moments.s), means_of(&moments.sy));
        Ok(Self::with_means(moments, mean, target_mean))
    }

    pub(super) fn with_means(moments: Cow<'_, FoldGram>, feature_mean: Vec<f64>, target_mean: Vec<f64>) -> Self {
        let FoldGram { row_count: rows, mut g, s, b, sy, yy, .. } = moments.into_owned();
        let (p, t, row_count) = (feature_mean.len(), target_mean.len(), rows as f64);
        // Σ φ̃_i φ̃_j = Σ φ_i φ_j + n m_i m_j − s_i m_j − m_i s_j, where s are the sums of the
        // features over the n rows, and m is `mean`. B and Σ ỹ² follow in the same way
        for j in 0..p {
            for i in j..p {
                g[j * p + i] +=
                    row_count * feature_mean[i] * feature_mean[j] - s[i] * feature_mean[j] - feature_mean[i] * s[j];
                g[i * p + j] = g[j * p + i];
            }
        }
        let b = Mat::from_fn(p, t, |i, j| {
            b[j * p + i] + row_count * feature_mean[i] * target_mean[j]
                - s[i] * target_mean[j]
                - feature_mean[i] * sy[j]
        });
        let squared_target_sum = |j: usize| yy[j] + target_mean[j] * (row_count * target_mean[j] - 2.0 * sy[j]);
        let squared_target_sums = (0..t).map(|j| squared_target_sum(j).max(0.0)).collect();
        Self { row_count, g, b, squared_target_sums, feature_mean, target_mean }
    }

    pub(super) fn g(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.g, self.feature_mean.len(), self.feature_mean.len())
    }
}
