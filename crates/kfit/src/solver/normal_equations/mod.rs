//! The normal equations of ridge regression, from second moments of the features.
//!
//! A solution (w, c) minimises (1/n) Σ_i (y_i − c − wᵀφ_i)² + lambda‖w‖². Let Φ (n x p) be the
//! features, μ their mean, and ȳ the mean of the targets y.
//!
//! If the intercept c is free, w solves (ΦᵀΦ − nμμᵀ + lambda·n·I) w = Φᵀ(y − ȳ), and c = ȳ − μᵀw.
//! If the intercept is penalised, it is the coefficient of an additional constant feature 1 and
//! part of ‖w‖². Without an intercept c = 0. scikit-learn's `alpha` is lambda·n.
//!
//! Features are nested: the first r features are the map of rank r. Therefore one factorisation
//! serves all ranks (Golub and Van Loan, *Matrix Computations*, 4th ed., 4.2).

pub(crate) mod gcv;
mod surface;
pub mod system;

use crate::{Error, FoldGram, GramState, Intercept, LinearHead, Result, grids, linalg::strips::for_each_strip};
use faer::linalg::matmul::triangular::{self, BlockStructure::*};
use faer::{Accum, MatMut, MatRef, Par};
use kstore::Workers;
pub use surface::{FoldCoefficients, Surface};
use system::{RankSolutions, RidgeSystem};

/// Number of columns of coefficients that one thread multiplies by G at a time. faer would split
/// the sum of a single column by the number of threads. Our split is constant, and every part runs
/// on one thread, so results do not depend on the number of threads.
const PRODUCT_COLUMNS: usize = 8;

/// The grid of ranks and lambdas, and the treatment of intercept and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeGrid {
    /// Ranks of the surface, ascending.
    pub ranks: Vec<usize>,
    /// Lambdas of the surface, ascending.
    pub lambdas: Vec<f64>,
    /// Treatment of the intercept.
    pub intercept: Intercept,
    /// Constants that the caller subtracted from the targets before it summed the moments, t
    /// numbers. They make the sums of squares accurate, and change results only by rounding.
    pub target_centre: Vec<f64>,
}

impl RidgeGrid {
    /// Checks the grid against a state of p features and t targets.
    ///
    /// # Errors
    /// [`Error::Option`] for a lambda that is not positive, [`Error::InvalidRank`] for a rank of 0
    /// or above p, [`Error::Shape`] if the number of centres differs from t.
    pub(crate) fn check(&self, state: &GramState) -> Result<()> {
        let got = self.target_centre.len();
        if got != state.target_count() {
            return Err(Error::Shape { what: "centres of the targets", expected: state.target_count(), got });
        }
        let features = state.feature_count();
        match self.ranks.iter().find(|rank| !(1..=features).contains(*rank)) {
            Some(rank) => Err(Error::InvalidRank { rank: *rank, features }),
            None => self.lambdas.iter().try_for_each(|lambda| grids::require_lambda(*lambda).map(drop)),
        }
    }

    /// Returns the bytes that [`crate::Surface::compute`], [`crate::FoldCoefficients::compute`] and
    /// [`fit`] need in addition to the state: a few p x p matrices, and the coefficients of one
    /// lambda.
    pub fn solve_bytes(&self, p: usize) -> usize {
        RidgeSystem::bytes(p, self.target_centre.len(), self.ranks.len().max(1), self.intercept)
    }

    /// Returns the further bytes of [`fit_with_dimension`] on the given number of threads.
    #[doc(hidden)]
    pub fn dimension_bytes(&self, p: usize, threads: usize) -> usize {
        RidgeSystem::inverse_bytes(p + self.intercept.constant_feature_count(), threads)
    }
}

/// A ridge fit on all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeFit {
    /// The fitted functions.
    pub head: LinearHead,
    /// Training mean squared error of each target.
    pub train_mse: Vec<f64>,
    /// A lower bound on the condition number of the system, from the pivots of its factor.
    pub condition_bound: f64,
}

/// Fits the first r = `rank` features at `lambda` to the rows of all folds.
///
/// *Cost*: r³/3 flops, and one product of G with the coefficients for the training error. *Bytes*:
/// [`RidgeGrid::solve_bytes`].
///
/// # Errors
/// [`Error::Indefinite`] if rounding has made the system indefinite, and the errors of an invalid
/// grid.
pub fn fit(state: &GramState, rank: usize, lambda: f64, grid: &RidgeGrid, workers: &Workers) -> Result<RidgeFit> {
    Ok(fit_with_system(state, rank, lambda, grid, workers)?.0)
}

/// Fits as [`fit`] does, and returns the fit with its effective dimension tr G(G + lambda·n·I)⁻¹,
/// where G is the Gram matrix of the features, centred if the intercept is free.
///
/// *Cost*: another r³/3 flops. *Bytes*: also [`RidgeGrid::dimension_bytes`].
///
/// # Errors
/// The errors of [`fit`].
#[doc(hidden)]
pub fn fit_with_dimension(
    state: &GramState,
    rank: usize,
    lambda: f64,
    grid: &RidgeGrid,
    workers: &Workers,
) -> Result<(RidgeFit, f64)> {
    let (fit, system) = fit_with_system(state, rank, lambda, grid, workers)?;
    Ok((fit, system.effective_dimension(lambda, rank, workers)))
}

/// Fits as [`fit`] does, and returns the fit with the system and its factor.
pub(crate) fn fit_with_system(
    state: &GramState,
    rank: usize,
    lambda: f64,
    grid: &RidgeGrid,
    workers: &Workers,
) -> Result<(RidgeFit, RidgeSystem)> {
    let grid = RidgeGrid { ranks: vec![rank], lambdas: vec![lambda], ..grid.clone() };
    grid.check(state)?;
    let mut system = RidgeSystem::new(state.feature_count(), &grid.target_centre, grid.intercept);
    system.assemble(state, None, workers)?;
    let solution = system.solve(lambda, &grid.ranks, workers);
    // a cancelled factorisation looks like a failed factorisation
    workers.check()?;
    if solution.solved_rank_count == 0 {
        return Err(Error::Indefinite { rank, lambda, precision: state.precision() });
    }
    Ok((ridge_fit(state, rank, &solution, &grid, workers), system))
}

/// Returns the least-squares fit of minimum norm, which is the limit of ridge regression as lambda
/// tends to 0. Also returns the number of directions that the fit uses: the eigenvectors of the
/// moments whose eigenvalues exceed rounding errors.
pub(crate) fn min_norm_fit(
    state: &GramState,
    rank: usize,
    grid: &RidgeGrid,
    workers: &Workers,
) -> Result<(RidgeFit, usize)> {
    let grid = RidgeGrid { ranks: vec![rank], lambdas: Vec::new(), ..grid.clone() };
    grid.check(state)?;
    let mut system = RidgeSystem::new(state.feature_count(), &grid.target_centre, grid.intercept);
    system.assemble(state, None, workers)?;
    let (solution, numerical_rank) = system.min_norm(rank, state.epsilon())?;
    Ok((ridge_fit(state, rank, &solution, &grid, workers), numerical_rank))
}

fn ridge_fit(
    state: &GramState,
    rank: usize,
    solution: &RankSolutions,
    grid: &RidgeGrid,
    workers: &Workers,
) -> RidgeFit {
    let mut train_mse = vec![0.0; state.target_count()];
    for fold in state.folds() {
        let fold_errors = squared_errors(fold, solution, rank, state.epsilon(), workers);
        train_mse.iter_mut().zip(fold_errors).for_each(|(sum, part)| *sum += part / state.weight_sum());
    }
    RidgeFit { head: head_at(solution, 0, rank, grid), train_mse, condition_bound: solution.condition_bound }
}

pub(crate) fn head_at(solution: &RankSolutions, rank_index: usize, rank: usize, grid: &RidgeGrid) -> LinearHead {
    let t = grid.target_centre.len();
    LinearHead {
        weights: solution.weights.submatrix(0, rank_index * t, rank, t).to_owned(),
        intercept: (0..t).map(|j| solution.intercepts[rank_index * t + j] + grid.target_centre[j]).collect(),
    }
}

/// Computes Σ (y − wᵀφ − c)² over the n rows of a fold, for every column w of a solution whose
/// largest rank is r = `rank`. The moments of the fold are G = Σ φφᵀ, s = Σ φ, b = Σ yφ, sy = Σ y
/// and yy = Σ y²:
///
/// yy − 2wᵀb − 2c·sy + wᵀGw + 2c·wᵀs + n·c², with wᵀGw = 2wᵀ(strict lower triangle of G)w +
/// Σ_i w_i² G_ii.
///
/// *Cost*: one triangular product, r² flops per column.
pub(crate) fn squared_errors(
    fold: &FoldGram,
    solution: &RankSolutions,
    rank: usize,
    epsilon: f64,
    workers: &Workers,
) -> Vec<f64> {
    let (p, column_count) = (fold.s.len(), solution.weights.ncols());
    let g = MatRef::from_column_major_slice(&fold.g, p, p).submatrix(0, 0, rank, rank);
    let weights = solution.weights.subrows(0, rank);
    let mut lower_products = vec![0.0; rank * column_count];
    for_each_strip(workers, &mut lower_products, rank * PRODUCT_COLUMNS, |strip, out| {
        let strip_columns = out.len() / rank;
        let (out, w) = (
            MatMut::from_column_major_slice_mut(out, rank, strip_columns),
            weights.subcols(strip * PRODUCT_COLUMNS, strip_columns),
        );
        let (accum, structure) = (Accum::Replace, Rectangular);
        triangular::matmul(out, structure, accum, g, StrictTriangularLower, w, structure, 1.0, Par::Seq);
    });
    let t = fold.sy.len();
    let squared_error = |column: usize| {
        let j = column % t;
        let (c, n, b) = (solution.intercepts[column], fold.weight_sum, &fold.b[j * p..(j + 1) * p]);
        let (mut quadratic, mut diagonal, mut linear) = (0.0, 0.0, 0.0);
        for i in 0..rank {
            let w = weights[(i, column)];
            quadratic += 2.0 * w * lower_products[column * rank + i];
            diagonal += w * w * g[(i, i)];
            linear += w * (c * fold.s[i] - b[i]);
        }
        let error = fold.yy[j] + 2.0 * (linear - c * fold.sy[j]) + n * c * c + quadratic + diagonal;
        // The terms cancel: a sum of squares below its own rounding error has no meaning and may be
        // negative. Every entry G_ij has an independent error of about ε_T√(G_ii G_jj), where ε_T
        // is the epsilon of the feature type. So the sum has an error of about ε_T Σ w_i² G_ii. If
        // the sum is smaller than this error, the error replaces it. A replacement by 0 could make
        // a cell with huge coefficients look best.
        error.max(epsilon * diagonal + f64::EPSILON * fold.yy[j])
    };
    (0..column_count).map(squared_error).collect()
}
