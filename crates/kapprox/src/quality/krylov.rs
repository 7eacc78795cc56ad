//! Bounds on ‖A‖₂, the largest absolute eigenvalue of a symmetric matrix A (n x n). Only products
//! of A with vectors are computed.
//!
//! Let V be a random matrix with b columns. After q steps, the columns of Q are an orthonormal
//! basis of the block Krylov space span(V, AV, …, A^(q−1)V); each step makes one product of A with
//! b vectors. Let W = AQ, H = QᵀW and R = W − QH. Three bounds of ‖A‖₂ follow:
//!
//! * **from below**, with certainty: the largest singular value of W, which is the maximum of ‖Av‖
//!   over the unit vectors v in the space;
//! * **from above**, with certainty: in an orthonormal basis that starts with Q, A is the block
//!   matrix [H R'ᵀ; R' C], where R' has the norms of R. ‖A‖₂ is at most the norm of the 2 x 2
//!   matrix of the norms of these blocks. ‖C‖₂ is bounded by ‖C‖₂² ≤ ‖C‖_F² = ‖A‖_F² − ‖H‖_F² −
//!   2‖R‖_F² and, if A has no negative eigenvalue, by ‖C‖₂ ≤ tr C = tr A − tr H;
//! * **from above**, except with probability δ: if A has no negative eigenvalue, the Lanczos method
//!   with a random start finds a value of at least (1 − ε)‖A‖₂ after q products, except with
//!   probability 1.648 √n exp(−√ε (2q − 1)). The b columns of V are independent starts, and the
//!   bound fails only if all of them fail. ε is chosen such that this has probability δ. If A is
//!   indefinite, the same argument applies to A², because the space contains the Krylov space of A²
//!   with half as many steps.
//!
//! References: Kuczyński, Woźniakowski, "Estimating the largest eigenvalue by the power and Lanczos
//! algorithms with a random start", SIAM J. Matrix Anal. Appl. 13, 1992, theorem 4.2; Musco, Musco,
//! "Randomized block Krylov methods for stronger and faster approximate singular value
//! decomposition", NIPS 2015.

use crate::Result;
use crate::decompose::{orthonormal_basis, product, symmetric_eigenvalues};
use faer::{Mat, MatRef, concat};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Number of columns of V, b. A block of the kernel matrix K is computed once for all b products.
pub(super) const KRYLOV_BLOCK_COLUMNS: usize = 8;

/// Relative rounding error of sums of n² squares: a few thousand machine epsilons.
const ROUNDING: f64 = 1e-12;

#[derive(Clone, Copy, Debug)]
pub(super) struct PriorBounds {
    /// ‖A‖_F, or an upper bound.
    pub(super) frobenius_norm: f64,
    /// tr A, or an upper bound, for A without negative eigenvalues.
    pub(super) trace: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) low: f64,
    /// Upper bound that holds with certainty.
    pub(super) high: f64,
    /// Upper bound that holds except with the requested probability.
    pub(super) probable_high: f64,
}

/// A Krylov space that grows by one block per step.
#[derive(Debug)]
pub(super) struct Krylov {
    /// Q, n x bq.
    basis: Mat<f64>,
    /// W = AQ.
    images: Mat<f64>,
    next_block: Mat<f64>,
    /// QᵀW.
    rayleigh_quotient: Mat<f64>,
    /// WᵀW.
    image_gram: Mat<f64>,
    steps: u32,
}

impl Krylov {
    /// Returns a space with a random start in n dimensions.
    pub(super) fn new(n: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let start_block = Mat::from_fn(n, KRYLOV_BLOCK_COLUMNS.min(n), |_, _| StandardNormal.sample(&mut rng));
        let (no_columns, empty) = (|| Mat::zeros(n, 0), || Mat::zeros(0, 0));
        Self {
            basis: no_columns(),
            images: no_columns(),
            next_block: orthonormal_basis(start_block).0,
            rayleigh_quotient: empty(),
            image_gram: empty(),
            steps: 0,
        }
    }

    /// Returns the vectors with which A is to be multiplied next, as columns. If the space is
    /// complete, there are no columns.
    pub(super) fn next_block(&self) -> MatRef<'_, f64> {
        self.next_block.as_ref()
    }

    /// Adds `images`, the product of A with [`Krylov::next_block`], to the space, and returns the
    /// bounds. Costs 14nb²q + 8(bq)³/3 flops.
    pub(super) fn add_block(
        &mut self,
        images: MatRef<'_, f64>,
        prior: PriorBounds,
        failure_probability: f64,
    ) -> Result<Bounds> {
        let n = self.basis.nrows();
        let lower_block = product(self.next_block.transpose(), self.images.as_ref());
        self.basis = concat![[self.basis, self.next_block]];
        self.images = concat![[self.images, images]];
        self.steps += 1;
        let (q, w) = (self.basis.as_ref(), self.images.as_ref());
        self.rayleigh_quotient =
            concat![[concat![[self.rayleigh_quotient], [lower_block]], product(q.transpose(), images)]];
        let new_image_gram = product(w.transpose(), images);
        let upper_block = new_image_gram.subrows(0, self.image_gram.nrows()).transpose();
        self.image_gram = concat![[concat![[self.image_gram], [upper_block]], new_image_gram]];
        let mut remainder = images.to_owned();
        // two subtractions are enough: the first leaves only rounding errors in the space
        for _ in 0..2 {
            remainder -= product(q, product(q.transpose(), remainder.as_ref()).as_ref());
        }
        let bounds = self.bounds(remainder.as_ref(), prior, failure_probability)?;
        let next_columns = KRYLOV_BLOCK_COLUMNS.min(n - q.ncols());
        self.next_block = Mat::zeros(n, 0);
        if next_columns > 0 {
            // if the remainder is zero, the QR decomposition returns arbitrary directions; a second
            // subtraction and decomposition make them orthogonal to the space
            let new_directions = orthonormal_basis(remainder.subcols(0, next_columns).to_owned()).0;
            let new_directions = &new_directions - product(q, product(q.transpose(), new_directions.as_ref()).as_ref());
            self.next_block = orthonormal_basis(new_directions).0;
        }
        Ok(bounds)
    }

    fn bounds(&self, remainder: MatRef<'_, f64>, prior: PriorBounds, failure_probability: f64) -> Result<Bounds> {
        let (n, rayleigh_quotient) = (self.basis.nrows(), &self.rayleigh_quotient);
        let image_norm =
            symmetric_eigenvalues(self.image_gram.as_ref())?.last().map_or(0.0, |value| value.max(0.0).sqrt());
        let symmetric_part = Mat::from_fn(rayleigh_quotient.nrows(), rayleigh_quotient.ncols(), |i, j| {
            (rayleigh_quotient[(i, j)] + rayleigh_quotient[(j, i)]) / 2.0
        });
        let eigenvalues = symmetric_eigenvalues(symmetric_part.as_ref())?;
        let head_norm = eigenvalues.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let (squared_sum, trace) =
            (eigenvalues.iter().map(|value| value * value).sum::<f64>(), eigenvalues.iter().sum::<f64>());
        let squared_frobenius = prior.frobenius_norm * prior.frobenius_norm;
        let tail_norm = (squared_frobenius * (1.0 + ROUNDING) - squared_sum - 2.0 * remainder.squared_norm_l2())
            .max(squared_frobenius * ROUNDING)
            .sqrt();
        let tail_norm = prior.trace.map_or(tail_norm, |prior_trace| tail_norm.min((prior_trace - trace).max(0.0)));
        let tail_norm = if self.basis.ncols() == n { 0.0 } else { tail_norm };
        let remainder_norm = remainder.norm_l2();
        // with h = ‖H‖₂, c ≥ ‖C‖₂ and ρ = ‖R‖_F: ‖A‖₂ ≤ (h + c + √((h − c)² + 4ρ²)) / 2
        let high =
            (head_norm + tail_norm + ((head_norm - tail_norm).powi(2) + 4.0 * remainder_norm * remainder_norm).sqrt())
                / 2.0;
        let high = high.min(prior.frobenius_norm).min(prior.trace.unwrap_or(f64::INFINITY)).max(image_norm);
        Ok(Bounds {
            low: image_norm,
            high,
            probable_high: high.min(image_norm * self.upper_factor(prior.trace.is_some(), failure_probability)),
        })
    }

    /// Returns the factor by which the lower bound must be multiplied to be an upper bound, except
    /// with probability `failure_probability`.
    fn upper_factor(&self, is_definite: bool, failure_probability: f64) -> f64 {
        // number of powers of A, or of A², in the space
        let powers = if is_definite { self.steps } else { self.steps.div_ceil(2) };
        let n = self.basis.nrows() as f64;
        // √ε solves (1.648 √n exp(−√ε (2q − 1)))^b = δ
        let sqrt_epsilon = ((1.648 * n.sqrt()).ln() - failure_probability.ln() / KRYLOV_BLOCK_COLUMNS as f64)
            / (2.0 * f64::from(powers) - 1.0);
        let one_minus_epsilon = 1.0 - sqrt_epsilon * sqrt_epsilon;
        match (one_minus_epsilon > 0.0, is_definite) {
            (false, _) => f64::INFINITY,
            (true, true) => one_minus_epsilon.recip(),
            // the bound is for ‖A‖₂²
            (true, false) => one_minus_epsilon.sqrt().recip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bounds after each step for a diagonal matrix.
    fn bounds_of_diagonal(values: &[f64], is_definite: bool, steps: usize, seed: u64) -> Vec<Bounds> {
        let prior = PriorBounds {
            frobenius_norm: values.iter().map(|v| v * v).sum::<f64>().sqrt(),
            trace: is_definite.then(|| values.iter().sum()),
        };
        let mut space = Krylov::new(values.len(), seed);
        let mut bounds = Vec::new();
        while bounds.len() < steps && space.next_block().ncols() > 0 {
            let images =
                Mat::from_fn(values.len(), space.next_block().ncols(), |i, j| values[i] * space.next_block()[(i, j)]);
            bounds.push(space.add_block(images.as_ref(), prior, 1e-6).unwrap());
        }
        bounds
    }

    #[test]
    fn bounds_hold_at_every_step_and_close() {
        let decaying: Vec<f64> = (0..400).map(|i| 3.0 / (1.0 + f64::from(i)).powi(2)).collect();
        let flat: Vec<f64> = (0..400).map(|i| 1.0 + 1e-3 * f64::from(i)).collect();
        let signed: Vec<f64> = (0..400).map(|i| if i == 7 { -5.0 } else { (f64::from(i) * 0.7).sin() }).collect();
        let largest_magnitude = |v: &[f64]| v.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        for (values, is_definite) in [(&decaying, true), (&decaying, false), (&flat, true), (&signed, false)] {
            for seed in 0..5 {
                let (norm, bounds) = (largest_magnitude(values), bounds_of_diagonal(values, is_definite, 12, seed));
                let slack = 1.0 + 1e-10;
                assert!(bounds.iter().all(|b| b.low <= norm * slack && norm <= b.high * slack), "{bounds:?}");
                assert!(bounds.iter().all(|b| norm <= b.probable_high * slack), "{bounds:?}");
                assert!(bounds.windows(2).all(|b| b[1].low >= b[0].low * (1.0 - 1e-12)));
                assert!((bounds[11].low / norm - 1.0).abs() < 2e-3, "{:?} {norm}", bounds[11]);
            }
        }
        // if the spectrum decays, the certain bounds are close; if it is flat, the probable bounds
        // are
        let decaying_bounds = bounds_of_diagonal(&decaying, true, 12, 0)[11];
        assert!(decaying_bounds.high / decaying_bounds.low < 1.0 + 1e-6, "{decaying_bounds:?}");
        let flat = bounds_of_diagonal(&flat, true, 16, 0)[15];
        assert!(flat.high / flat.low > 2.0 && flat.probable_high / flat.low < 1.05, "{flat:?}");
    }

    #[test]
    fn a_complete_space_gives_the_norm() {
        for n in [1, 3, 8, 9, 20] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i) - 3.5).collect();
            let norm = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
            let bounds = bounds_of_diagonal(&values, false, 50, 1);
            assert_eq!(bounds.len(), (n as usize).div_ceil(KRYLOV_BLOCK_COLUMNS));
            let last_bounds = bounds.last().unwrap();
            assert!(
                (last_bounds.low / norm - 1.0).abs() < 1e-12 && (last_bounds.high / norm - 1.0).abs() < 1e-6,
                "{n}: {last_bounds:?}"
            );
        }
        // if a product adds no new direction, the space grows by directions of rounding errors,
        // which must still be orthogonal to the space
        for values in [vec![2.0; 60], [vec![5.0; 3], vec![0.0; 57]].concat(), [vec![5.0; 3], vec![-1.0; 57]].concat()] {
            let bounds = bounds_of_diagonal(&values, false, 7, 1);
            assert!(bounds.iter().all(|b| b.low <= values[0] * (1.0 + 1e-12)), "{values:?}: {bounds:?}");
        }
        let zero = bounds_of_diagonal(&[0.0; 30], true, 3, 0);
        assert!(zero.iter().all(|b| b.low == 0.0 && b.high == 0.0), "{zero:?}");
    }
}
