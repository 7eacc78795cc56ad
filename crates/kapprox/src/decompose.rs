//! Dense decompositions that are bitwise independent of the number of threads.
//!
//! On several threads, faer's eigenvalue and QR decompositions add one partial sum per thread, so
//! their rounding depends on the number of threads. Here they run on the calling thread only.

use crate::{Error, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::householder;
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, diag::Diag};

/// Computes the eigenvalues, ascending, and orthonormal eigenvectors of a symmetric matrix.
///
/// Reads the lower triangle. Costs 9m³ flops.
///
/// # Errors
/// [`Error::NotFinite`] if the iteration does not converge, which finite matrices do not cause.
pub fn symmetric_eigen(matrix: MatRef<'_, f64>) -> Result<(Vec<f64>, Mat<f64>)> {
    let mut vectors = Mat::zeros(matrix.nrows(), matrix.nrows());
    Ok((decompose_symmetric(matrix, Some(vectors.as_mut()))?, vectors))
}

/// Computes the eigenvalues of a symmetric matrix, ascending, without eigenvectors. Costs
/// 4m³/3 flops.
///
/// # Errors
/// The errors of [`symmetric_eigen`].
pub fn symmetric_eigenvalues(matrix: MatRef<'_, f64>) -> Result<Vec<f64>> {
    decompose_symmetric(matrix, None)
}

fn decompose_symmetric(matrix: MatRef<'_, f64>, vectors: Option<MatMut<'_, f64>>) -> Result<Vec<f64>> {
    let (m, compute_vectors) =
        (matrix.nrows(), if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No });
    let mut eigenvalues = Diag::<f64>::zeros(m);
    let mut workspace =
        MemBuffer::new(self_adjoint_evd_scratch::<f64>(m, compute_vectors, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut workspace);
    self_adjoint_evd(matrix, eigenvalues.as_mut(), vectors, Par::Seq, stack, Default::default())
        .map_err(|_| convergence_error())?;
    Ok(eigenvalues.column_vector().iter().copied().collect())
}

fn convergence_error() -> Error {
    Error::NotFinite {
        what: "the spectrum of a kernel matrix".to_string(),
        remedy: "scale the features or choose another kernel".to_string(),
    }
}

/// Computes the thin singular value decomposition A = U diag(s) Vᵀ and returns U, s (descending)
/// and V.
///
/// U and V have min(m, n) columns. Costs about 20m³ flops for a square matrix.
///
/// # Errors
/// The errors of [`symmetric_eigen`].
pub fn thin_svd(a: MatRef<'_, f64>) -> Result<(Mat<f64>, Vec<f64>, Mat<f64>)> {
    let (m, n) = a.shape();
    let (compute_vectors, min_dim) = (ComputeSvdVectors::Thin, m.min(n));
    let (mut u, mut v, mut singular_values) =
        (Mat::zeros(m, min_dim), Mat::zeros(n, min_dim), Diag::<f64>::zeros(min_dim));
    let mut workspace =
        MemBuffer::new(svd_scratch::<f64>(m, n, compute_vectors, compute_vectors, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut workspace);
    svd(a, singular_values.as_mut(), Some(u.as_mut()), Some(v.as_mut()), Par::Seq, stack, Default::default())
        .map_err(|_| convergence_error())?;
    Ok((u, singular_values.column_vector().iter().copied().collect(), v))
}

/// Returns Q of the QR decomposition A = Q R, an orthonormal basis of the columns of A, and the
/// signs of the diagonal of R. A must not have more columns than rows.
pub fn orthonormal_basis(mut a: Mat<f64>) -> (Mat<f64>, Vec<f64>) {
    let (m, n) = a.shape();
    let block_size = recommended_block_size::<f64>(m, n);
    let mut householder_coefficients = Mat::zeros(block_size, m.min(n));
    let mut qr_workspace = MemBuffer::new(qr_in_place_scratch::<f64>(m, n, block_size, Par::Seq, Default::default()));
    qr_in_place(
        a.as_mut(),
        householder_coefficients.as_mut(),
        Par::Seq,
        MemStack::new(&mut qr_workspace),
        Default::default(),
    );
    let mut q = Mat::identity(m, m.min(n));
    let apply_scratch =
        householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<f64>(m, block_size, m.min(n));
    let mut apply_workspace = MemBuffer::new(apply_scratch);
    householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
        a.as_ref(),
        householder_coefficients.as_ref(),
        Conj::No,
        q.as_mut(),
        Par::Seq,
        MemStack::new(&mut apply_workspace),
    );
    let signs = (0..m.min(n)).map(|j| if a[(j, j)] < 0.0 { -1.0 } else { 1.0 }).collect();
    (q, signs)
}

/// Returns the sign, +1 or −1, that makes the entry of largest magnitude of a column positive.
#[doc(hidden)]
pub fn sign_of_largest(vectors: MatRef<'_, f64>, column: usize) -> f64 {
    let largest = vectors.col(column).iter().fold(0.0f64, |best, v| if v.abs() > best.abs() { *v } else { best });
    if largest < 0.0 { -1.0 } else { 1.0 }
}

/// Returns the product A B.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompositions_reconstruct() {
        for m in [1, 5, 40, 130] {
            let wave = |i: usize, j: usize| ((i * 31 + j * 17) as f64).sin() + ((j * 31 + i * 17) as f64).sin();
            // without the added diagonal, the matrix of waves has rank four
            let a = Mat::from_fn(m, m, |i, j| wave(i, j) + if i == j { 3.0 + i as f64 } else { 0.0 });
            let (values, v) = symmetric_eigen(a.as_ref()).unwrap();
            let scaled = Mat::from_fn(m, m, |i, j| v[(i, j)] * values[j]);
            assert!((product(scaled.as_ref(), v.transpose()) - &a).norm_max() < 1e-12 * (m * m) as f64);
            let without_vectors = symmetric_eigenvalues(a.as_ref()).unwrap();
            assert!(values.iter().zip(&without_vectors).all(|(a, b)| (a - b).abs() < 1e-12 * (m * m) as f64));
            let thin = a.subcols(0, m.div_ceil(2)).to_owned();
            let (q, signs) = orthonormal_basis(thin.clone());
            let r = product(q.transpose(), thin.as_ref());
            assert!((product(q.as_ref(), r.as_ref()) - &thin).norm_max() < 1e-12 * m as f64);
            assert!((0..signs.len()).all(|j| r[(j, j)] * signs[j] >= 0.0));
        }
    }
}
