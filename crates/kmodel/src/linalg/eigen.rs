//! Leading eigenvectors of a symmetric matrix.

use super::strips::row_strips;
use crate::Result;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
pub use kapprox::decompose::sign_of_largest;
use kapprox::decompose::{orthonormal_basis, symmetric_eigen};
use kstore::Workers;
use kstore::key::{Purpose, Stream};

/// Number of columns of a block in addition to the requested eigenvectors. With them, the rate of
/// convergence is set by the ratio of the first eigenvalue outside the block to the last requested
/// one. Chosen: more columns converge faster, but each step costs more.
const EXTRA_COLUMNS: usize = 8;

/// Minimum number of blocks that must fit into the Krylov space. If fewer fit, the dense
/// decomposition is about as fast.
const MIN_BLOCKS: usize = 12;

/// The dimension of the Krylov space is at most the order of the matrix divided by this.
const SPACE_DIVISOR: usize = 4;

/// Maximum relative residual ‖Av − λv‖/λ₁ of an accepted eigenvector v with eigenvalue λ, where λ₁
/// is the largest eigenvalue. It is about the rounding error of a dense decomposition.
const TOLERANCE: f64 = 1e-14;

/// Number of rows of a product that one thread computes at a time.
const STRIP_ROWS: usize = 256;

/// Returns the `count` largest eigenvalues, descending, and orthonormal eigenvectors (p x `count`)
/// of a positive semi-definite matrix A (p x p, both triangles).
///
/// If few eigenvectors of a large matrix are requested, a block Krylov iteration computes them. Its
/// space span(V, AV, A²V, …), with a random block V, grows until every requested eigenpair has a
/// residual of at most 1e-14 λ₁. A block has more columns than requested eigenvectors, so that no
/// eigenvector of a multiple eigenvalue is missed. Otherwise, or if the space becomes too large,
/// the decomposition is dense. The result does not depend on the number of threads. *Cost*: 2p²
/// flops for each column of the space, or 9p³. *Bytes*: 4p² for the space, or 16p².
///
/// Reference: Saad, *Numerical Methods for Large Eigenvalue Problems*, 2011, section 6.4.
///
/// # Errors
/// [`kapprox::Error::NotFinite`] if the dense iteration does not converge;
/// [`kstore::Error::Interrupted`].
pub fn leading_eigen(matrix: Mat<f64>, count: usize, workers: &Workers) -> Result<(Vec<f64>, Mat<f64>)> {
    let (p, block_columns) = (matrix.nrows(), count + EXTRA_COLUMNS);
    if MIN_BLOCKS * block_columns <= p / SPACE_DIVISOR
        && let Some(leading) = leading_by_krylov(matrix.as_ref(), count, block_columns, workers)?
    {
        return Ok(leading);
    }
    let (mut values, vectors) = workers.run_detached(move || symmetric_eigen(matrix.as_ref()))??;
    let count = count.min(p);
    values.reverse();
    values.truncate(count);
    Ok((values, vectors.as_ref().subcols(p - count, count).reverse_cols().to_owned()))
}

/// Returns the leading eigenpairs, or `None` if the space becomes too large.
fn leading_by_krylov(
    matrix: MatRef<'_, f64>,
    count: usize,
    block_columns: usize,
    workers: &Workers,
) -> Result<Option<(Vec<f64>, Mat<f64>)>> {
    let p = matrix.nrows();
    let max_block_count = p / SPACE_DIVISOR / block_columns;
    let stream = Stream::new(0, Purpose::Sketch, 0);
    let start = Mat::from_fn(p, block_columns, |i, j| stream.uniform((i * block_columns + j) as u64) - 0.5);
    let mut next_block = orthonormal_basis(start).0;
    // an orthonormal basis of the space, its product with A, and basisᵀ A basis
    let (mut basis, mut images) =
        (Mat::<f64>::zeros(p, max_block_count * block_columns), Mat::<f64>::zeros(p, max_block_count * block_columns));
    let mut projected_matrix = Mat::<f64>::zeros(max_block_count * block_columns, max_block_count * block_columns);
    for step in 0..max_block_count {
        workers.check()?;
        let (first_column, space_dimension) = (step * block_columns, (step + 1) * block_columns);
        basis.as_mut().subcols_mut(first_column, block_columns).copy_from(&next_block);
        multiply(matrix, next_block.as_ref(), images.as_mut().subcols_mut(first_column, block_columns), workers);
        let (basis, images) = (basis.as_ref().subcols(0, space_dimension), images.as_ref().subcols(0, space_dimension));
        let new_images = images.subcols(first_column, block_columns);
        let mut products = Mat::zeros(space_dimension, block_columns);
        multiply(basis.transpose(), new_images, products.as_mut(), workers);
        projected_matrix.as_mut().submatrix_mut(0, first_column, space_dimension, block_columns).copy_from(&products);
        projected_matrix
            .as_mut()
            .submatrix_mut(first_column, 0, block_columns, space_dimension)
            .copy_from(products.transpose());
        if step % 2 == 1
            && let Some(leading) = ritz_pairs(
                basis,
                images,
                projected_matrix.as_ref().submatrix(0, 0, space_dimension, space_dimension),
                count,
            )?
        {
            return Ok(Some(leading));
        }
        // project twice, because one projection leaves rounding errors of the size of the image
        next_block = new_images.to_owned();
        for _ in 0..2 {
            project_out(basis, &mut next_block, workers);
            next_block = orthonormal_basis(next_block).0;
        }
    }
    Ok(None)
}

/// Returns the `count` leading eigenpairs of A restricted to the space (Ritz pairs), or `None` if a
/// residual is above [`TOLERANCE`].
fn ritz_pairs(
    basis: MatRef<'_, f64>,
    images: MatRef<'_, f64>,
    inner: MatRef<'_, f64>,
    count: usize,
) -> Result<Option<(Vec<f64>, Mat<f64>)>> {
    let (values, coordinates) = symmetric_eigen(inner)?;
    let size = values.len();
    let values: Vec<f64> = values.into_iter().rev().take(count).collect();
    let coordinates = coordinates.as_ref().subcols(size - count, count).reverse_cols();
    let (mut vectors, mut residuals) = (Mat::zeros(basis.nrows(), count), Mat::zeros(basis.nrows(), count));
    matmul(vectors.as_mut(), Accum::Replace, basis, coordinates, 1.0, Par::Seq);
    matmul(residuals.as_mut(), Accum::Replace, images, coordinates, 1.0, Par::Seq);
    let is_small = |j: usize| {
        let difference = residuals.col(j) - vectors.col(j) * faer::Scale(values[j]);
        difference.norm_l2() <= TOLERANCE * values[0]
    };
    Ok((0..count).all(is_small).then_some((values, vectors)))
}

/// Subtracts from each column of `columns` its projection onto the orthonormal `basis`.
fn project_out(basis: MatRef<'_, f64>, columns: &mut Mat<f64>, workers: &Workers) {
    let mut products = Mat::zeros(basis.ncols(), columns.ncols());
    multiply(basis.transpose(), columns.as_ref(), products.as_mut(), workers);
    let mut projection = Mat::zeros(columns.nrows(), columns.ncols());
    multiply(basis, products.as_ref(), projection.as_mut(), workers);
    *columns -= projection;
}

/// Computes `out` = A B. Each task computes a strip of rows, so the result does not depend on the
/// number of threads.
fn multiply(a: MatRef<'_, f64>, b: MatRef<'_, f64>, out: MatMut<'_, f64>, workers: &Workers) {
    let strips = row_strips(out, STRIP_ROWS);
    workers.for_each(strips, |(first, out)| {
        let a = a.subrows(first, out.nrows());
        matmul(out, Accum::Replace, a, b, 1.0, Par::Seq);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns V diag(values) Vᵀ for an orthonormal V.
    fn with_spectrum(values: &[f64]) -> Mat<f64> {
        let p = values.len();
        let keys = Stream::new(1, Purpose::Data, 0);
        let v = orthonormal_basis(Mat::from_fn(p, p, |i, j| keys.uniform((i * p + j) as u64) - 0.5)).0;
        let scaled = Mat::from_fn(p, p, |i, j| v[(i, j)] * values[j]);
        let product = &scaled * v.transpose();
        Mat::from_fn(p, p, |i, j| 0.5 * (product[(i, j)] + product[(j, i)]))
    }

    #[test]
    fn leading_pairs_are_eigenpairs_on_any_number_of_threads() {
        let geometric: Vec<f64> = (0..600).map(|j| 0.8f64.powi(j)).collect();
        let multiple: Vec<f64> = (0..600).map(|j| if j < 5 { 2.0 } else { 1.0 / f64::from(j) }).collect();
        let of_rank_two: Vec<f64> = (0..600).map(|j| if j < 2 { 3.0 } else { 0.0 }).collect();
        // without a gap, the decomposition is dense
        let flat = vec![1.0; 600];
        for spectrum in [geometric, multiple, of_rank_two, flat] {
            let a = with_spectrum(&spectrum);
            let (values, vectors) = leading_eigen(a.clone(), 4, &Workers::sequential()).unwrap();
            for j in 0..4 {
                assert!((values[j] - spectrum[j]).abs() < 1e-12, "{values:?}");
                let residual = &a * vectors.col(j) - vectors.col(j) * faer::Scale(values[j]);
                assert!(residual.norm_l2() < 1e-12, "{j}: {}", residual.norm_l2());
            }
            assert!((vectors.transpose() * &vectors - Mat::<f64>::identity(4, 4)).norm_max() < 1e-12);
            assert_eq!(leading_eigen(a, 4, &Workers::new(3)).unwrap(), (values, vectors));
        }
    }

    #[test]
    fn small_matrices_are_decomposed_densely() {
        let (values, vectors) = leading_eigen(with_spectrum(&[3.0, 2.0, 1.0]), 5, &Workers::sequential()).unwrap();
        assert_eq!((values.len(), vectors.shape()), (3, (3, 3)));
        assert!(values.iter().zip([3.0, 2.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-14));
    }
}
