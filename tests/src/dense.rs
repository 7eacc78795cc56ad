//! Textbook linear algebra on matrices stored as vectors of rows.

/// Greedy pivoted Cholesky factor of a symmetric positive semi-definite matrix.
#[derive(Debug)]
pub struct Cholesky {
    /// Columns of the factor: `columns[c][i]` is row i of column c.
    pub columns: Vec<Vec<f64>>,
    /// Pivot row of each column.
    pub pivots: Vec<usize>,
}

/// Computes a pivoted Cholesky factor down to residuals of `tolerance` times the largest diagonal.
pub fn pivoted_cholesky(n: usize, entry: impl Fn(usize, usize) -> f64, tolerance: f64) -> Cholesky {
    let mut residual: Vec<f64> = (0..n).map(|i| entry(i, i)).collect();
    let largest = residual.iter().copied().fold(0.0, f64::max);
    let mut found = Cholesky { columns: Vec::new(), pivots: Vec::new() };
    while found.pivots.len() < n {
        let (pivot, value) = residual.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("n > 0");
        if value <= tolerance * largest {
            break;
        }
        let column: Vec<f64> = (0..n)
            .map(|i| (entry(i, pivot) - found.columns.iter().map(|c| c[i] * c[pivot]).sum::<f64>()) / value.sqrt())
            .collect();
        for (r, c) in residual.iter_mut().zip(&column) {
            *r -= c * c;
        }
        residual[pivot] = 0.0;
        found.columns.push(column);
        found.pivots.push(pivot);
    }
    found
}

/// Computes (tr K − tr K̂)/tr K of the projection on the landmarks, by pivoted Cholesky.
pub fn trace_error(
    rows: &[Vec<f64>],
    landmarks: &[Vec<f64>],
    k: &dyn Fn(&[f64], &[f64]) -> f64,
    tolerance: f64,
) -> f64 {
    // normalised kernel sections span the same space and make the tolerance relative to each
    let norm: Vec<f64> = landmarks.iter().map(|z| k(z, z).sqrt()).collect();
    let entry = |i: usize, j: usize| k(&landmarks[i], &landmarks[j]) / (norm[i] * norm[j]);
    let l = pivoted_cholesky(landmarks.len(), entry, tolerance);
    let (mut left, mut trace) = (0.0, 0.0);
    for x in rows {
        let mut phi: Vec<f64> = Vec::new();
        let mut residual = k(x, x);
        trace += residual;
        for (c, &pivot) in l.pivots.iter().enumerate() {
            let earlier: f64 = (0..c).map(|e| phi[e] * l.columns[e][pivot]).sum();
            let value = (k(x, &landmarks[pivot]) / norm[pivot] - earlier) / l.columns[c][pivot];
            residual -= value * value;
            phi.push(value);
        }
        left += residual.max(0.0);
    }
    left / trace
}

/// Computes √(Σ_j k_jj (K_SS⁻¹)_jj): how much the landmarks amplify errors of kernel values.
pub fn amplification(landmarks: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64, tolerance: f64) -> f64 {
    let norm: Vec<f64> = landmarks.iter().map(|z| k(z, z).sqrt()).collect();
    let entry = |i: usize, j: usize| k(&landmarks[i], &landmarks[j]) / (norm[i] * norm[j]);
    let l = pivoted_cholesky(landmarks.len(), entry, tolerance);
    let r = l.pivots.len();
    let mut sum = 0.0;
    for j in 0..r {
        // column j of the inverse of L
        let mut column = vec![0.0; r];
        for i in j..r {
            let earlier: f64 = (j..i).map(|c| l.columns[c][l.pivots[i]] * column[c]).sum();
            column[i] = (f64::from(i == j) - earlier) / l.columns[i][l.pivots[i]];
        }
        sum += column.iter().map(|v| v * v).sum::<f64>();
    }
    sum.sqrt()
}

/// Solves A x = b for a symmetric positive definite A by unpivoted Cholesky.
///
/// # Panics
/// If A is not positive definite.
pub fn solve(a: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let s: f64 = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            if i == j {
                assert!(s > 0.0, "pivot {i} is {s}");
                l[i][i] = s.sqrt();
            } else {
                l[i][j] = s / l[j][j];
            }
        }
    }
    let mut x = b.to_vec();
    for i in 0..n {
        x[i] = (x[i] - (0..i).map(|k| l[i][k] * x[k]).sum::<f64>()) / l[i][i];
    }
    for i in (0..n).rev() {
        x[i] = (x[i] - (i + 1..n).map(|k| l[k][i] * x[k]).sum::<f64>()) / l[i][i];
    }
    x
}

/// Computes the matrix of all k(x_i, x_j).
pub fn kernel_matrix(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64) -> Vec<Vec<f64>> {
    rows.iter().map(|x| rows.iter().map(|z| k(x, z)).collect()).collect()
}

/// Computes the residual of a kernel matrix by one Schur complement per given row.
pub fn residual_matrix(mut e: Vec<Vec<f64>>, landmarks: &[usize], tolerance: f64) -> Vec<Vec<f64>> {
    let scale = (0..e.len()).map(|i| e[i][i]).fold(0.0, f64::max);
    for p in landmarks {
        let (column, pivot) = (e[*p].clone(), e[*p][*p]);
        if pivot > tolerance * scale {
            for (row, factor) in e.iter_mut().zip(&column) {
                row.iter_mut().zip(&column).for_each(|(value, c)| *value -= factor * c / pivot);
            }
        }
    }
    e
}

/// Computes the Frobenius norm √Σ a_ij².
pub fn frobenius(a: &[Vec<f64>]) -> f64 {
    a.iter().flatten().map(|v| v * v).sum::<f64>().sqrt()
}

/// Computes the eigenvalues of a symmetric matrix, in descending order, by Jacobi rotations.
pub fn eigenvalues(mut a: Vec<Vec<f64>>) -> Vec<f64> {
    let n = a.len();
    let whole = frobenius(&a);
    let off =
        |a: &[Vec<f64>]| (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j].powi(2)).sum::<f64>();
    while off(&a).sqrt() > 1e-15 * whole {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for row in a.iter_mut() {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                let (head, tail) = a.split_at_mut(q);
                for (x, y) in head[p].iter_mut().zip(&mut tail[0]) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}
