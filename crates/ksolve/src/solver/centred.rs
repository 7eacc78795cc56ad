//! Second moments of features and targets about given means, of the rows of some folds.

use crate::{Error, FoldGram, Result};
use faer::Mat;

/// Centred moments: G = Σ φ̃φ̃ᵀ, B = Σ φ̃ỹᵀ, and Σ ỹ² of each target.
#[derive(Debug)]
pub(super) struct Centred {
    pub(super) rows: f64,
    /// G, p x p, full.
    pub(super) g: Mat<f64>,
    /// B, p x t.
    pub(super) b: Mat<f64>,
    pub(super) squares: Vec<f64>,
    pub(super) mean: Vec<f64>,
    pub(super) target_mean: Vec<f64>,
}

impl Centred {
    /// The moments of the rows of some folds about their own means.
    pub(super) fn of<'a>(folds: impl Iterator<Item = &'a FoldGram> + Clone) -> Result<Self> {
        let rows: u64 = folds.clone().map(|fold| fold.rows).sum();
        if rows < 2 {
            return Err(Error::TooFewFor { what: "the moments of a fold and of the rows outside", needed: 2, rows });
        }
        let n = rows as f64;
        let mean = sum(folds.clone().map(|fold| &fold.s[..])).into_iter().map(|s| s / n).collect::<Vec<_>>();
        let target_mean = sum(folds.clone().map(|fold| &fold.sy[..])).into_iter().map(|s| s / n).collect::<Vec<_>>();
        Ok(Self::about(folds, &mean, &target_mean))
    }

    /// The moments of the rows of some folds about other means.
    pub(super) fn about<'a>(
        folds: impl Iterator<Item = &'a FoldGram> + Clone,
        mean: &[f64],
        target_mean: &[f64],
    ) -> Self {
        let (p, t) = (mean.len(), target_mean.len());
        let rows = folds.clone().map(|fold| fold.rows).sum::<u64>() as f64;
        let (s, sy) = (sum(folds.clone().map(|fold| &fold.s[..])), sum(folds.clone().map(|fold| &fold.sy[..])));
        let (b, yy) = (sum(folds.clone().map(|fold| &fold.b[..])), sum(folds.clone().map(|fold| &fold.yy[..])));
        let mut g = Mat::zeros(p, p);
        for fold in folds {
            for j in 0..p {
                for i in j..p {
                    g[(i, j)] += fold.g[j * p + i];
                }
            }
        }
        for j in 0..p {
            for i in j..p {
                g[(i, j)] += rows * mean[i] * mean[j] - s[i] * mean[j] - mean[i] * s[j];
                g[(j, i)] = g[(i, j)];
            }
        }
        let b = Mat::from_fn(p, t, |i, j| {
            b[j * p + i] + rows * mean[i] * target_mean[j] - s[i] * target_mean[j] - mean[i] * sy[j]
        });
        let square = |j: usize| yy[j] + target_mean[j] * (rows * target_mean[j] - 2.0 * sy[j]);
        let squares = (0..t).map(|j| square(j).max(0.0)).collect();
        Self { rows, g, b, squares, mean: mean.to_vec(), target_mean: target_mean.to_vec() }
    }
}

fn sum<'a>(lists: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    let mut total: Vec<f64> = Vec::new();
    for list in lists {
        match total.is_empty() {
            true => total.extend_from_slice(list),
            false => total.iter_mut().zip(list).for_each(|(sum, value)| *sum += value),
        }
    }
    total
}
