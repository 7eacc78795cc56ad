//! Centred kernel-target alignment, computed from second moments. It measures, without a fit, how
//! well a kernel suits a target.
//!
//! ```text
//! ⟨HKH, HLH⟩ / (‖HKH‖ ‖HLH‖) = ‖Φ̃ᵀỸ‖² / (‖Φ̃ᵀΦ̃‖ ‖ỸᵀỸ‖)
//! K = ΦΦᵀ,   L = YYᵀ,   all norms Frobenius
//! ```
//!
//! Φ (n × p) are the features and Y (n × t) the targets of n rows, H = I − 11ᵀ/n subtracts the
//! mean, and Φ̃ = HΦ and Ỹ = HY are the centred features and targets. All products except ỸᵀỸ for
//! several targets are among the moments of ridge regression ([`GramState`]).
//!
//! For classes, the ideal kernel L is 1 if two rows have the same class, else 0. The ±1 codes of
//! the classes give the same centred kernel up to a factor, and ‖ỸᵀỸ‖ follows from the class sizes.
//! If the map is nested, one state gives the alignment at every rank. *Flops*: p² + pt.
//!
//! References: Cristianini, Shawe-Taylor, Elisseeff, Kandola, "On kernel-target alignment", NIPS
//! 2001; Cortes, Mohri, Rostamizadeh, "Algorithms for learning kernels based on centered
//! alignment", JMLR 13, 2012. For dense matrices:
//! [`kapprox::kernel::feature_space::centred_alignment`].

use crate::{Error, FoldGram, GramState, Result};

/// Computes for each rank r the centred alignment of the first r features with the target, over the
/// rows of all folds. The alignment is between 0 and 1. It is `None` if the features or the target
/// are constant.
///
/// `has_class_codes` is true if several targets are the ±1 codes of classes.
///
/// # Errors
/// [`Error::Option`] for several numeric targets, whose ỸᵀỸ is not among the moments.
/// [`Error::InvalidRank`] for a rank above the number of features.
pub fn centred_alignments(gram: &GramState, ranks: &[usize], has_class_codes: bool) -> Result<Vec<Option<f64>>> {
    let (p, t) = (gram.feature_count(), gram.target_count());
    if t == 0 || (t > 1 && !has_class_codes) {
        let remedy = "alignment needs one numeric target, or classes; use `score` cv";
        return Err(Error::option("score", format!("alignment with {t} targets"), remedy));
    }
    if let Some(rank) = ranks.iter().find(|rank| **rank > p) {
        return Err(Error::InvalidRank { rank: *rank, features: p });
    }
    let max_rank = ranks.iter().copied().max().unwrap_or(0);
    let moments = CentredProducts::new(gram, max_rank);
    let target_norm = ideal_kernel_norm(&moments);
    // squares[i] is what row i and column i of Φ̃ᵀΦ̃ add to ‖Φ̃ᵀΦ̃‖², so the sum of the first r is
    // its value at rank r. In the same way, inner[i] is a term of ‖Φ̃ᵀỸ‖²
    let norm_terms: Vec<f64> = (0..max_rank)
        .map(|i| {
            2.0 * (0..i).map(|j| moments.feature_product(i, j).powi(2)).sum::<f64>()
                + moments.feature_product(i, i).powi(2)
        })
        .collect();
    let product_terms: Vec<f64> =
        (0..max_rank).map(|i| (0..t).map(|j| moments.target_product(i, j).powi(2)).sum()).collect();
    let alignment_at = |rank: &usize| {
        let (inner, norm) =
            (product_terms[..*rank].iter().sum::<f64>(), norm_terms[..*rank].iter().sum::<f64>().sqrt() * target_norm);
        (norm > 0.0).then(|| (inner / norm).clamp(0.0, 1.0))
    };
    Ok(ranks.iter().map(alignment_at).collect())
}

/// Computes ‖ỸᵀỸ‖. For one target it is the centred sum of squares. For the ±1 codes of classes c
/// with n_c rows, it is 4‖M‖, where M_cd = δ_cd n_c − n_c n_d / n.
fn ideal_kernel_norm(moments: &CentredProducts<'_>) -> f64 {
    let (n, yy) = (moments.n, moments.sum_over_folds(|fold| fold.yy[0]));
    if let [sum] = moments.sy[..] {
        // a difference below ε n Σ y² may be only rounding
        let square = yy - sum * sum / n;
        return if square > f64::EPSILON * n * yy { square } else { 0.0 };
    }
    let class_sizes: Vec<f64> = moments.sy.iter().map(|sum| 0.5 * (n + sum)).collect();
    let entry = |c: usize, d: usize| (if c == d { class_sizes[c] } else { 0.0 }) - class_sizes[c] * class_sizes[d] / n;
    let squares: f64 = (0..class_sizes.len())
        .flat_map(|c| (0..class_sizes.len()).map(move |d| (c, d)))
        .map(|(c, d)| entry(c, d).powi(2))
        .sum();
    4.0 * squares.sqrt()
}

/// Centred products of the leading features and of the targets, summed over the folds in order.
#[derive(Debug)]
pub struct CentredProducts<'a> {
    folds: &'a [FoldGram],
    p: usize,
    pub n: f64,
    s: Vec<f64>,
    pub sy: Vec<f64>,
}

impl<'a> CentredProducts<'a> {
    /// Returns the centred products of the first `feature_count` features, and of the targets.
    pub fn new(gram: &'a GramState, feature_count: usize) -> Self {
        let moments =
            Self { folds: gram.folds(), p: gram.feature_count(), n: gram.row_count() as f64, s: vec![], sy: vec![] };
        let s = (0..feature_count).map(|i| moments.sum_over_folds(|fold| fold.s[i])).collect();
        let sy = (0..gram.target_count()).map(|j| moments.sum_over_folds(|fold| fold.sy[j])).collect();
        Self { s, sy, ..moments }
    }

    /// Returns the sum of `statistic` over the folds, in their order.
    pub fn sum_over_folds(&self, statistic: impl Fn(&FoldGram) -> f64) -> f64 {
        self.folds.iter().map(statistic).sum()
    }

    /// Returns entry (i, j) of Φ̃ᵀΦ̃, for i ≥ j.
    pub fn feature_product(&self, i: usize, j: usize) -> f64 {
        self.sum_over_folds(|fold| fold.g[j * self.p + i]) - self.s[i] * self.s[j] / self.n
    }

    /// Returns entry (i, c) of Φ̃ᵀỸ.
    pub fn target_product(&self, i: usize, c: usize) -> f64 {
        self.sum_over_folds(|fold| fold.b[c * self.p + i]) - self.s[i] * self.sy[c] / self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classes, GramScratch};
    use faer::{Mat, MatRef};
    use kapprox::kernel::feature_space::{centred_alignment, ideal_kernel};
    use kstore::{Label, Workers};

    fn features(n: usize, p: usize) -> Mat<f64> {
        Mat::from_fn(n, p, |i, j| ((i * 7 + j * 3) as f64 * 0.61).sin() + 0.3 * j as f64)
    }

    fn state(phi: MatRef<'_, f64>, y: MatRef<'_, f64>) -> GramState {
        let mut state = GramState::new(phi.ncols(), y.ncols(), 2);
        let (workers, mut scratch) = (Workers::sequential(), GramScratch::default());
        let half = phi.nrows() / 2;
        for (fold, rows) in [(0, 0..half), (1, half..phi.nrows())] {
            let (phi, y) = (phi.subrows(rows.start, rows.len()), y.subrows(rows.start, rows.len()));
            state.update(fold, phi, y, &mut scratch, &workers).unwrap();
        }
        state
    }

    #[test]
    fn moments_agree_with_dense_matrices() {
        let (n, p) = (40, 6);
        let phi = features(n, p);
        let y = Mat::from_fn(n, 1, |i, _| (i as f64 * 0.9).cos() + 2.0);
        let labels: Vec<usize> = (0..n).map(|i| (i * i) % 3).collect();
        let classes = Classes::new((0..3).map(Label::Int).collect()).unwrap();
        let codes = Mat::from_fn(n, 3, |i, j| classes.target_value(labels[i] as u32, j).unwrap());
        let numeric = centred_alignments(&state(phi.as_ref(), y.as_ref()), &[2, 6], false).unwrap();
        let coded = centred_alignments(&state(phi.as_ref(), codes.as_ref()), &[2, 6], true).unwrap();
        for (index, rank) in [2, 6].into_iter().enumerate() {
            let leading = phi.subcols(0, rank);
            let k = leading * leading.transpose();
            let l = &y * y.transpose();
            let expected = centred_alignment(k.as_ref(), l.as_ref());
            assert!((numeric[index].unwrap() - expected).abs() < 1e-12, "{rank}: {numeric:?} {expected}");
            let expected = centred_alignment(k.as_ref(), ideal_kernel(&labels).as_ref());
            assert!((coded[index].unwrap() - expected).abs() < 1e-12, "{rank}: {coded:?} {expected}");
        }
    }

    #[test]
    fn constant_targets_have_no_alignment() {
        let phi = features(20, 3);
        let constant = Mat::from_fn(20, 1, |_, _| 4.2);
        assert_eq!(centred_alignments(&state(phi.as_ref(), constant.as_ref()), &[3], false).unwrap(), [None]);
        let several = Mat::from_fn(20, 2, |i, j| (i + j) as f64);
        assert!(centred_alignments(&state(phi.as_ref(), several.as_ref()), &[3], false).is_err());
    }
}
