//! Geometry in the feature space of a kernel: centring, distances, variance and alignment, computed
//! from kernel values alone.
//!
//! All functions work on small dense matrices in `f64`: the kernel matrix K of n points (n x n,
//! symmetric), or the kernel values of b points with these n points (b x n). With H = I − 11ᵀ/n,
//! HKH is the kernel matrix of the centred points: from each point, the mean of the points in
//! feature space is subtracted. (Shawe-Taylor, Cristianini, *Kernel Methods for Pattern Analysis*,
//! 2004, chapter 5; Schölkopf, Smola, Müller, *Nonlinear Component Analysis as a Kernel Eigenvalue
//! Problem*, 1998, appendix A.)
//!
//! ```
//! use faer::mat;
//! use kapprox::kernel::feature_space::{Centre, alignment, ideal_kernel, variance};
//!
//! // the linear kernel of the points 0, 1 and 5
//! let k = mat![[0.0, 0.0, 0.0], [0.0, 1.0, 5.0], [0.0, 5.0, 25.0]];
//! assert!((variance(k.as_ref()) - 14.0 / 3.0).abs() < 1e-12);
//! let mut centred = k.clone();
//! Centre::new(k.as_ref()).apply(centred.as_mut());
//! assert!((centred[(2, 2)] - 9.0).abs() < 1e-12); // (5 − 2)²
//! let target = ideal_kernel(&[1, 1, 2]);
//! // ⟨K, L⟩ = 26 = ‖K‖, and ‖L‖ = √5
//! assert!((alignment(k.as_ref(), target.as_ref()) - 1.0 / 5f64.sqrt()).abs() < 1e-12);
//! ```

use faer::{Mat, MatMut, MatRef, prelude::*};

/// The mean of n points in feature space. [`Self::apply`] subtracts the mean from both arguments of
/// a kernel value.
#[derive(Debug, Clone, PartialEq)]
pub struct Centre {
    /// Mean of each column of K.
    column_means: Vec<f64>,
    /// Mean of all entries of K.
    grand_mean: f64,
}

impl Centre {
    /// Returns the centre of the points with the kernel matrix K (n x n). Costs n² additions.
    ///
    /// # Panics
    /// If K is not square or is empty.
    pub fn new(k: MatRef<'_, f64>) -> Self {
        assert!(k.nrows() == k.ncols() && k.nrows() > 0, "K must be square and not empty");
        let n = k.nrows() as f64;
        let column_means: Vec<f64> = k.col_iter().map(|column| column.iter().sum::<f64>() / n).collect();
        let grand_mean = column_means.iter().sum::<f64>() / n;
        Self { column_means, grand_mean }
    }

    /// Centres, in place, the kernel values `k` (b x n) of b points with the n points: k(x, z_j)
    /// becomes ⟨φ(x) − mean, φ(z_j) − mean⟩ = k(x, z_j) − mean_i k(x, z_i) − mean_i k(z_i, z_j) +
    /// mean K. If `k` is K itself, the result is HKH.
    ///
    /// # Panics
    /// If `k` does not have n columns.
    pub fn apply(&self, k: MatMut<'_, f64>) {
        assert_eq!(k.ncols(), self.column_means.len(), "k must have a column for each point of the mean");
        for row in k.row_iter_mut() {
            let shift = row.rb().iter().sum::<f64>() / self.column_means.len() as f64 - self.grand_mean;
            for (value, column_mean) in row.iter_mut().zip(&self.column_means) {
                *value -= shift + column_mean;
            }
        }
    }

    /// Returns ‖φ(x) − mean‖² of any b points x, where the mean is over the n points. The
    /// distances are computed from `diagonal`, the values k(x, x), and from `k`, the kernel values
    /// of the b points with the n points (b x n, not centred). They are never negative.
    ///
    /// # Panics
    /// If the shapes disagree.
    pub fn squared_distances(&self, diagonal: &[f64], k: MatRef<'_, f64>) -> Vec<f64> {
        assert_eq!((diagonal.len(), self.column_means.len()), (k.nrows(), k.ncols()), "k must be b x n");
        let row_mean = |i: usize| k.row(i).iter().sum::<f64>() / self.column_means.len() as f64;
        diagonal.iter().enumerate().map(|(i, k_xx)| (k_xx - 2.0 * row_mean(i) + self.grand_mean).max(0.0)).collect()
    }
}

/// Returns ‖φ(x_i) − φ(z_j)‖² = k(x_i, x_i) + k(z_j, z_j) − 2 k(x_i, z_j); negative results of
/// rounding become 0.
///
/// # Panics
/// If the lengths of the diagonals `x` and `z` are not the numbers of rows and columns of `k`.
pub fn squared_distances(k: MatRef<'_, f64>, x_diag: &[f64], z_diag: &[f64]) -> Mat<f64> {
    assert_eq!((x_diag.len(), z_diag.len()), (k.nrows(), k.ncols()), "x must match the rows of k, z its columns");
    Mat::from_fn(x_diag.len(), z_diag.len(), |i, j| (x_diag[i] + z_diag[j] - 2.0 * k[(i, j)]).max(0.0))
}

/// Returns the coordinates of b points along the unit vector w / ‖w‖ in feature space, where w = Σ
/// α_j φ(z_j) and z_j are n points. The coordinates are `k` α / √(αᵀKα), where `k` (b x n) holds
/// the kernel values of the b points with the n points and `k_zz` = K. If w is 0, all coordinates
/// are 0.
///
/// # Panics
/// If the shapes disagree.
pub fn coordinates_along(k: MatRef<'_, f64>, k_zz: MatRef<'_, f64>, alpha: &[f64]) -> Vec<f64> {
    assert_eq!(
        (k.ncols(), k_zz.nrows(), k_zz.ncols()),
        (alpha.len(), alpha.len(), alpha.len()),
        "k must be b x n, k_zz n x n"
    );
    let weighted_sum = |row: faer::RowRef<'_, f64>| row.iter().zip(alpha).map(|(k, alpha)| k * alpha).sum::<f64>();
    let squared_norm: f64 = k_zz.row_iter().zip(alpha).map(|(row, alpha)| weighted_sum(row) * alpha).sum();
    let scale = if squared_norm > 0.0 { squared_norm.sqrt().recip() } else { 0.0 };
    k.row_iter().map(|row| weighted_sum(row) * scale).collect()
}

/// Returns the mean squared distance of the points from their mean: tr K / n minus the mean of all
/// entries of K.
///
/// # Panics
/// If K is not square or is empty.
pub fn variance(k: MatRef<'_, f64>) -> f64 {
    let centre = Centre::new(k);
    ((0..k.nrows()).map(|i| k[(i, i)]).sum::<f64>() / k.nrows() as f64 - centre.grand_mean).max(0.0)
}

/// Returns ⟨K, L⟩ / (‖K‖ ‖L‖), with the Frobenius inner product and norm. It is between −1 and 1,
/// and 0 if K or L is 0. (Cristianini, Shawe-Taylor, Elisseeff, Kandola, *On Kernel-Target
/// Alignment*, NIPS 2001.)
///
/// # Panics
/// If the shapes disagree.
pub fn alignment(k: MatRef<'_, f64>, l: MatRef<'_, f64>) -> f64 {
    assert_eq!(k.shape(), l.shape(), "k and l must have the same shape");
    let inner_products =
        k.col_iter().zip(l.col_iter()).map(|(k, l)| k.iter().zip(l.iter()).map(|(k, l)| k * l).sum::<f64>());
    let (inner_product, norms) = (inner_products.sum::<f64>(), (k.norm_l2(), l.norm_l2()));
    if norms.0 > 0.0 && norms.1 > 0.0 { (inner_product / norms.0 / norms.1).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Returns the [`alignment`] of HKH and HLH. Unlike the alignment of K and L, it does not change if
/// a constant is added to the kernel. (Cortes, Mohri, Rostamizadeh, *Algorithms for Learning
/// Kernels Based on Centered Alignment*, JMLR 13, 2012.)
///
/// # Panics
/// If the matrices are not square, have different sizes or are empty.
pub fn centred_alignment(k: MatRef<'_, f64>, l: MatRef<'_, f64>) -> f64 {
    let centred = |k: MatRef<'_, f64>| {
        let mut copy = k.to_owned();
        Centre::new(k).apply(copy.as_mut());
        copy
    };
    alignment(centred(k).as_ref(), centred(l).as_ref())
}

/// Returns the ideal kernel of classes: 1 if two points have the same class, else 0. (Kwok, Tsang,
/// *Learning with Idealized Kernels*, ICML 2003.)
pub fn ideal_kernel<C: PartialEq>(classes: &[C]) -> Mat<f64> {
    let same_class = |i: usize, j: usize| f64::from(u8::from(classes[i] == classes[j]));
    Mat::from_fn(classes.len(), classes.len(), same_class)
}

/// Returns −½ HDH. If points with the squared distances D (n x n) exist, it is the kernel matrix of
/// the centred points. It is positive semi-definite if and only if such points exist. (Schoenberg
/// 1935; classical scaling, Torgerson 1952.)
///
/// # Panics
/// If D is not square or is empty.
pub fn centred_kernel_from_squared_distances(d: MatRef<'_, f64>) -> Mat<f64> {
    let mut k = d.to_owned();
    Centre::new(d).apply(k.as_mut());
    k * faer::Scale(-0.5)
}
