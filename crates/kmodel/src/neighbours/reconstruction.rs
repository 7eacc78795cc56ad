//! Weights that reconstruct a point from its neighbours.
//!
//! For a point x with k neighbours z_j, the weights w, whose sum is 1, minimise ‖x − Σ_j w_j
//! z_j‖² + r‖w‖² with r = 1e-3 tr C and C_ij = (z_i − x)ᵀ(z_j − x). At the minimum, all entries of
//! (C + rI)w are equal, so w is the solution of (C + rI)w = 1, divided by its sum. If there are
//! more neighbours than features, C is singular; the regularisation term r‖w‖² makes the solution
//! unique.
//!
//! For new rows ([`Reconstruction::for_rows`]), the regularisation term is r Σ_j s_j w_j² with a
//! factor s_j ≤ 1 for each neighbour. If a neighbour is much nearer than the others, its factor is
//! proportional to its squared distance, otherwise 1. So a row equal to a node is reconstructed
//! from this node alone. With uniform factors the row would be a mixture of its neighbours, and its
//! image would be up to a tenth of the width of the embedding away from the node. Nodes themselves
//! are reconstructed with uniform factors; otherwise two equal nodes would be reconstructed only
//! from each other.
//!
//! Reference: Roweis, Saul, "Nonlinear dimensionality reduction by locally linear embedding",
//! Science 290, 2000; scikit-learn uses the same regularisation.

use super::{Neighbour, Nodes};

/// Regularisation parameter r as a fraction of tr C.
const RIDGE_FRACTION: f64 = 1e-3;

/// A neighbour counts as much nearer than the others if its squared distance to the point is below
/// this fraction of the mean squared distance of the k neighbours.
const NEAR_FRACTION: f64 = 1e-6;

/// Minimum factor s_j of a neighbour. It is not 0, so that several neighbours equal to the point
/// share the weight equally.
const MIN_RIDGE_FACTOR: f64 = 1e-9;

/// Buffers for the weights of one point at a time.
#[derive(Debug, Default)]
pub struct Reconstruction {
    /// Differences z_j − x, k x d.
    differences: Vec<f64>,
    /// C / tr C plus the diagonal of the regularisation term, then its Cholesky factor, k x k
    /// row-major, lower triangle.
    gram: Vec<f64>,
    /// [`NEAR_FRACTION`], or 0 for uniform factors.
    near_fraction: f64,
}

impl Reconstruction {
    /// Returns buffers for new rows. The default is for the nodes themselves: with uniform factors.
    pub fn for_rows() -> Self {
        Self { near_fraction: NEAR_FRACTION, ..Self::default() }
    }

    /// Computes the weights with which the `neighbours` reconstruct x. Takes k²d + k³/3 flops.
    pub fn compute_weights(&mut self, nodes: &Nodes, x: &[f64], neighbours: &[Neighbour], weights: &mut Vec<f64>) {
        let (k, d) = (neighbours.len(), x.len());
        self.differences.clear();
        for Neighbour { node, .. } in neighbours {
            self.differences.extend(x.iter().enumerate().map(|(c, x)| nodes.value(*node, c) - x));
        }
        let differences = &self.differences;
        let dot = |i: usize, j: usize| (0..d).map(|c| differences[i * d + c] * differences[j * d + c]).sum::<f64>();
        let trace: f64 = (0..k).map(|i| dot(i, i)).sum();
        // if all neighbours equal the point, an infinite scale makes C / tr C zero, and their
        // weights equal
        let scale = if trace >= f64::MIN_POSITIVE { trace } else { f64::INFINITY };
        self.gram.clear();
        self.gram.resize(k * k, 0.0);
        for i in 0..k {
            for j in 0..=i {
                self.gram[i * k + j] = dot(i, j) / scale;
            }
            // s_i = C_ii / (near_fraction · tr C/k), clamped below
            let ridge_factor = self.gram[i * k + i] * k as f64 / self.near_fraction;
            let ridge_factor = if trace >= f64::MIN_POSITIVE && self.near_fraction > 0.0 {
                ridge_factor.clamp(MIN_RIDGE_FACTOR, 1.0)
            } else {
                1.0
            };
            self.gram[i * k + i] += RIDGE_FRACTION * ridge_factor;
        }
        weights.clear();
        weights.resize(k, 1.0);
        cholesky_factor(&mut self.gram, k);
        cholesky_solve(&self.gram, k, weights);
        // the sum is positive: 1ᵀA⁻¹1 ≥ k/‖A‖ for the matrix A that was factored, with ‖A‖ ≤ 1 +
        // RIDGE_FRACTION
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
    }
}

/// Computes in place the Cholesky factor of a positive definite matrix whose trace is about 1 and
/// whose eigenvalues are at least [`RIDGE_FRACTION`]·[`MIN_RIDGE_FACTOR`].
fn cholesky_factor(a: &mut [f64], k: usize) {
    for i in 0..k {
        for j in 0..=i {
            let rest = a[i * k + j] - (0..j).map(|l| a[i * k + l] * a[j * k + l]).sum::<f64>();
            // rounding changes a pivot by far less than the regularisation, so the lower bound only
            // prevents a failure
            a[i * k + j] =
                if i == j { rest.max(RIDGE_FRACTION * MIN_RIDGE_FACTOR / 2.0).sqrt() } else { rest / a[j * k + j] };
        }
    }
}

fn cholesky_solve(l: &[f64], k: usize, b: &mut [f64]) {
    for i in 0..k {
        b[i] = (b[i] - (0..i).map(|j| l[i * k + j] * b[j]).sum::<f64>()) / l[i * k + i];
    }
    for i in (0..k).rev() {
        b[i] = (b[i] - (i + 1..k).map(|j| l[j * k + i] * b[j]).sum::<f64>()) / l[i * k + i];
    }
}
