//! Leaves: a tree splits the rows into leaves, and in each leaf the exact kernel learns the
//! residuals of ridge regression on features.
//!
//! Functions of a map with few features are smooth. Functions of the exact kernel need not be, but
//! the order of their linear system is the number of rows. Therefore a tree splits the rows into
//! leaves of a few thousand rows each. Let f₀ be the ridge regression on features, and r_l = y − f₀
//! its residuals at the rows of leaf l. With the kernel matrix K_l of these rows, the dual
//! coefficients of the leaf are
//!
//! ```text
//! α_l = (K_l + μI)⁻¹ r_l
//! ```
//!
//! Every node of the tree splits its rows at the median of their leading kernel principal
//! component, so that the rows of a leaf are near each other in feature space. The 6 % of the rows
//! nearest to the median belong to both children, and the prediction changes continuously over
//! these rows: see [`Leaves`].
//!
//! The search for μ starts at lambda·n of the ridge regression. It multiplies or divides μ by √10
//! as long as the error on the validation rows of a few leaves falls. The validation rows are one
//! fold, and during the search the leaves and f₀ are fitted without this fold. The leaves are used
//! only if they reduce the validation error of f₀ by at least 2 %.
//!
//! **A kernel of its own.** The leaves may have another kernel, `local_kernel`. Its length scales,
//! one for each feature, maximise the marginal likelihood of the residuals of f₀ at ranges of rows
//! with short and long steps. They are short in the directions in which residuals of neighbouring
//! rows differ. The tree then splits the inputs of this kernel, the scaled rows before the metric,
//! divided by their length scales. If rows of later times are far from all rows in such a
//! direction, such as the time, the leaves add nothing to their prediction. Therefore a fifth of
//! the rows, at random, chooses μ, and the leaves are used only if the error on these rows falls
//! and the error on the held-out fold does not rise by more than 2 %. For contiguous folds, the
//! first error is that between the rows of the table, and the second is that on new times.
//!
//! After the fit, the residuals of the rows of leaf l are r_l − K_l α_l = μα_l. If a row belongs to
//! several leaves, the residual of the model is the mean of its residuals in these leaves, weighted
//! by the leaf weights.
//!
//! *Passes*: two. *Flops*: n m²/3 for n rows in leaves of m rows, and twice the flops of the map.
//! *Bytes*: 8m² and the rows.
//!
//! References: Tresp, "A Bayesian committee machine", Neural Computation 12, 2000; Snelson,
//! Ghahramani, "Local and global sparse Gaussian process approximations", AISTATS 2007; Beaglehole,
//! Holzmüller, Radhakrishnan, Belkin, "xRFM", arXiv 2508.10053, on trees of kernel models.

use super::leaf_kernel;
use super::tree::{self, Leaf, MAX_ROW_RATIO, Tree};
use crate::features::FitData;
use crate::linalg::cholesky::{self, TriangularSystem};
use crate::linalg::kernel_matrix::kernel_matrix;
use crate::model::Leaves;
use crate::request::{FitRequest, ProblemSize};
use crate::solver::normal_equations::{head_at, system::RidgeSystem};
use crate::solver::{NamedValues, check_stop, reject_if};
use crate::{Error, FoldSpec, GramState, LinearHead, Result, RidgeGrid};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kapprox::{Kernel, KernelFunction, Real};
use kmodel::likelihood;
use kstore::key::{Purpose, Stream};
use kstore::{MemoryPlan, Workers};
use std::{collections::BTreeMap, sync::Arc};

/// Number of leaves, spread evenly over the tree, whose validation rows choose μ. Chosen: more
/// leaves estimate the error better, but each costs a factorisation for every μ.
const TRIAL_LEAVES: usize = 3;
/// Number of leaves whose validation rows measure the errors at the chosen μ, if the leaves have
/// their own kernel.
const MEASURED_LEAVES: usize = 12;

/// Factor between candidates of μ: √10.
const MU_FACTOR: f64 = 3.162_277_660_168_379_5;
/// Maximum number of candidates of μ in one direction.
const MAX_MU_STEPS: usize = 8;

/// The leaves are discarded unless their validation error is below this multiple of the error of
/// the features alone.
const MAX_ERROR_RATIO: f64 = 0.98;

/// Leaves with a kernel of their own are discarded if the error on the held-out fold exceeds this
/// multiple of the error of the features alone.
const MAX_FOLD_ERROR_RATIO: f64 = 1.02;

/// Initial μ for a kernel of the leaves, whose values k(x, x) are 1.
const INITIAL_MU_OF_LEAF_KERNEL: f64 = 1e-2;

/// Requested fraction of the rows for validation. The fold with the nearest fraction is used.
const VALIDATION_FRACTION: f64 = 0.2;
/// If the leaves have their own kernel, folds whose fractions differ by less than this number count
/// as equal, and the last of them is used: new rows of a series follow the last rows.
const FRACTION_TOLERANCE: f64 = 0.02;

/// Rejects options that require a model on features alone. `unsupported_options` contains further
/// options of this kind, each with true if it is set.
pub(super) fn check(
    request: &FitRequest<'_>,
    leaf_kernel: Option<&Kernel>,
    unsupported_options: [(&'static str, bool); 4],
) -> Result<()> {
    if let Some(kernel) = leaf_kernel {
        let why = "its length scales are learned for the scaled features; leave `on` and `scale` out";
        reject_if(kernel.restricts_columns() || kernel.rescales_inputs(), "local_kernel", kernel, why)?;
        let why = "expected a kernel with a length scale, such as exponential()";
        let has_length_scale = |term: &Kernel| term.needs_median() || term.column_lengths(request.size.d).is_some();
        reject_if(!kernel.terms().iter().all(has_length_scale), "local_kernel", kernel, why)?;
    }
    let why = "the models in the leaves (`local`) do not support it; leave one of the two out";
    unsupported_options.into_iter().try_for_each(|(name, is_set)| reject_if(is_set, name, "", why))?;
    let why = "`map` exact uses the exact kernel for all rows already; leave one of the two out";
    reject_if(request.options.map.is_exact_kernel(), "local", "", why)?;
    let why = "validation rows decide whether `local` is used; leave one of the two out";
    reject_if(request.options.folds == FoldSpec::None, "folds", "none", why)?;
    request.reject_weights("`local`", "leave it out")
}

/// Adds the rows of the leaves, and the system of the largest leaf, to a plan.
pub(super) fn plan(plan: MemoryPlan, leaf_rows: usize, leaf_kernel: Option<&Kernel>, size: &ProblemSize) -> MemoryPlan {
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let order = MAX_ROW_RATIO * leaf_rows;
    let data_bytes = n.saturating_mul(2 * (size.d * size.element_bytes + 8 * (2 * size.t + 1)));
    let plan = plan.term("rows of the leaves", data_bytes.saturating_mul(2), "leave `local` out").term(
        "system of a leaf",
        8 * order * order + 8 * order * (size.d + 2 * size.t),
        "lower `local`",
    );
    let likelihood_bytes =
        |kernel: &Kernel| likelihood::bytes(leaf_kernel::MAX_ROWS.min(n), kernel, size.d, size.t, size.threads);
    let bytes = leaf_kernel.map_or(0, likelihood_bytes);
    plan.term_if(bytes > 0, "marginal likelihood", bytes, "leave `local_kernel` out")
}

/// The leaves, with entries for the report.
#[derive(Debug, Default)]
pub(super) struct LeafFit<T> {
    /// The leaves; `None` if their validation error is not below [`MAX_ERROR_RATIO`] of that of the
    /// features alone.
    pub(super) leaves: Option<Leaves<T>>,
    /// The learned kernel of the leaves; `None` for the kernel of the features.
    pub(super) leaf_kernel: Option<Kernel>,
    pub(super) figures: Vec<NamedValues>,
    /// Mean squared error of each target on the training rows, with the leaves; `None` if it is
    /// unknown, because some leaves were too large and dropped rows.
    pub(super) train_mse: Option<Vec<f64>>,
}

/// A fit of the features without one fold.
pub(super) struct ReducedFit {
    pub(super) held_out_fold: usize,
    pub(super) head: LinearHead,
}

/// Fits functions of the features to the rows outside one fold: the fold whose size is nearest to a
/// fifth of the rows. If `prefers_last` is true, it is the last of the folds of about this size.
pub(super) fn fit_without_fold(
    gram: &GramState,
    rank: usize,
    lambda: f64,
    grid: &RidgeGrid,
    prefers_last: bool,
    workers: &Workers,
) -> Result<ReducedFit> {
    let fraction_difference =
        |fold: usize| (gram.folds()[fold].row_count as f64 / gram.row_count() as f64 - VALIDATION_FRACTION).abs();
    let mut folds: Vec<usize> = (0..gram.folds().len()).collect();
    if prefers_last {
        folds.reverse();
    }
    let nearest = folds.iter().map(|fold| fraction_difference(*fold)).fold(f64::INFINITY, f64::min);
    let tolerance = if prefers_last { FRACTION_TOLERANCE } else { 0.0 };
    let is_near = |fold: &usize| fraction_difference(*fold) <= nearest + tolerance;
    let held_out_fold = folds.into_iter().find(is_near).unwrap_or_default();
    let mut system = RidgeSystem::new(gram.feature_count(), &grid.target_centre, grid.intercept);
    system.assemble(gram, Some(held_out_fold), workers)?;
    let solution = system.solve(lambda, &[rank], workers);
    if solution.solved_rank_count == 0 {
        return Err(Error::Indefinite { rank, lambda, precision: gram.precision() });
    }
    Ok(ReducedFit { held_out_fold, head: head_at(&solution, 0, rank, grid) })
}

/// Learns the residuals of `head`, the fit of the features, in leaves of about `leaf_rows` rows.
/// The error on the held-out fold of `reduced_fit` chooses μ, and decides whether the leaves are
/// used.
pub(super) fn fit<T: Real>(
    data: &FitData<'_, T>,
    leaf_rows: usize,
    leaf_kernel: Option<&Kernel>,
    head: &LinearHead,
    reduced_fit: &ReducedFit,
    lambda: f64,
) -> Result<LeafFit<T>> {
    let depth = (data.n as f64 / leaf_rows.max(1) as f64).log2().ceil().max(0.0) as u32;
    let leaf_count = 1usize << depth;
    let (leaf_kernel, tree) = match leaf_kernel {
        Some(kernel) => {
            let (kernel, tree) = leaf_kernel::learn(kernel, data, head, reduced_fit, leaf_count)?;
            (Some(kernel), tree)
        }
        None => (None, Tree::grow(tree::sample_features(data, head.weights.nrows(), leaf_count)?, &[], leaf_count)?),
    };
    let mut leaves = tree.assign_rows(data, head, reduced_fit, leaf_kernel.is_some(), leaf_rows)?;
    let kernel = leaf_kernel.as_ref().unwrap_or(data.kernel).build()?.typed::<f64>();
    let solver = LeafSolver { kernel, workers: data.resources.workers };
    let (initial_mu, held_out) = match leaf_kernel {
        Some(_) => (INITIAL_MU_OF_LEAF_KERNEL, HeldOut::RandomRows(random_rows(data))),
        None => (lambda * data.n as f64, HeldOut::Fold),
    };
    let (mu, [mut feature_error, mut leaf_error]) = solver.search_mu(&leaves, initial_mu, held_out, data)?;
    let mut figures = Vec::new();
    let mut fold_errors = [feature_error, leaf_error];
    if let HeldOut::RandomRows(_) = held_out {
        [feature_error, leaf_error] = solver.mean_errors(&evenly_spaced(&leaves, MEASURED_LEAVES), mu, held_out);
        figures.push(NamedValues::single("mse of the features, random rows", feature_error));
        figures.push(NamedValues::single("mse with leaves, random rows", leaf_error));
        fold_errors = solver.fold_errors(&leaves, mu);
    }
    figures.push(NamedValues::single("held-out mse of the features", fold_errors[0]));
    figures.push(NamedValues::single("held-out mse with leaves", fold_errors[1]));
    let rises_on_fold = leaf_kernel.is_some() && fold_errors[1] > MAX_FOLD_ERROR_RATIO * fold_errors[0];
    if leaf_error >= MAX_ERROR_RATIO * feature_error || rises_on_fold {
        let [without, with] = if rises_on_fold { fold_errors } else { [feature_error, leaf_error] };
        let warning = format!(
            "the models in the leaves are discarded: the error on validation rows is {with:.4e} with them, and {without:.4e} without"
        );
        data.resources.stage_observer.warn(warning);
        return Ok(LeafFit { figures, ..LeafFit::default() });
    }
    let stage = data.resources.stage_observer.start_steps("leaves", leaf_count as u64);
    let t = data.targets.count();
    let mut coefficients = Mat::zeros(leaves.iter().map(Leaf::len).sum(), t);
    let (mut first_row, mut residuals) =
        (0, TrainResiduals { squared_residuals: vec![0.0; t], total_weight: 0.0, shared_rows: BTreeMap::new() });
    for leaf in &leaves {
        let (x, leaf_residuals) = leaf.selected_rows(|_| true, &leaf.residuals);
        let alpha = solver.solve(&x, leaf_residuals, mu);
        let indefinite_error = || Error::Indefinite { rank: leaf.len(), lambda: mu / data.n as f64, precision: "f64" };
        let alpha = alpha.ok_or_else(indefinite_error)?;
        residuals.add(leaf, &alpha, mu);
        coefficients.as_mut().subrows_mut(first_row, leaf.len()).copy_from(alpha);
        first_row += leaf.len();
        stage.advance(1);
        check_stop(&*stage)?;
    }
    let row_counts: Vec<usize> = leaves.iter().map(Leaf::len).collect();
    figures.push(NamedValues::single("leaves", leaf_count as f64));
    figures.push(NamedValues::single("rows of the largest leaf", row_counts.iter().copied().max().unwrap_or(0) as f64));
    figures.push(NamedValues::single("lambda of the leaves", mu / data.n as f64));
    let points = leaves.iter_mut().flat_map(|leaf| std::mem::take(&mut leaf.x)).collect();
    let splits =
        tree.splits(if leaf_kernel.is_some() { data.scaled_source.shape().input_count } else { head.weights.nrows() });
    let leaves = Some(Leaves { splits, half_widths: tree.half_widths, row_counts, points, coefficients });
    Ok(LeafFit { leaves, leaf_kernel, figures, train_mse: residuals.mse(data.n as f64) })
}

/// The rows that compare fits of the leaves.
#[derive(Clone, Copy)]
enum HeldOut {
    /// The held-out fold, with the residuals of the features fitted without it.
    Fold,
    /// Random rows: a fifth of the rows, by the words of this stream. The features were fitted to
    /// all rows, because they have far fewer functions than there are rows.
    RandomRows(Stream),
}

impl HeldOut {
    fn contains<T>(self, leaf: &Leaf<T>, i: usize) -> bool {
        match self {
            Self::Fold => leaf.is_held_out[i],
            Self::RandomRows(stream) => is_validation_row(stream, leaf.row_numbers[i]),
        }
    }

    fn residuals<T>(self, leaf: &Leaf<T>) -> &[f64] {
        match self {
            Self::Fold => &leaf.reduced_residuals,
            Self::RandomRows(_) => &leaf.residuals,
        }
    }

    /// Returns the weighted sum of the squared residuals of a leaf's validation rows without the
    /// leaf, and the sum of their weights over the targets.
    fn squared_residuals<T: Real>(self, leaf: &Leaf<T>) -> (f64, f64) {
        let (t, residuals) = (leaf.t, self.residuals(leaf));
        let validation_rows = (0..leaf.len()).filter(|i| self.contains(leaf, *i));
        validation_rows.fold((0.0, 0.0), |(sum, weight), i| {
            let square: f64 = residuals[i * t..(i + 1) * t].iter().map(|residual| residual * residual).sum();
            (sum + leaf.weights[i] * square, weight + leaf.weights[i] * t as f64)
        })
    }
}

/// Returns the stream that draws the validation rows of leaves with their own kernel.
pub(super) fn random_rows<T: Real>(data: &FitData<'_, T>) -> Stream {
    Stream::new(data.options.seed, Purpose::PartitionTree, 1)
}

pub(super) fn is_validation_row(random_rows: Stream, row: u64) -> bool {
    random_rows.uniform(row) < VALIDATION_FRACTION
}

/// Returns at most `count` leaves, spread evenly over the tree.
fn evenly_spaced<T>(leaves: &[Leaf<T>], count: usize) -> Vec<&Leaf<T>> {
    let count = count.min(leaves.len());
    (0..count).map(|i| &leaves[(2 * i + 1) * leaves.len() / (2 * count)]).collect()
}

/// Returns the number of pairs of a row of the held-out fold and a row of another fold in a leaf.
fn pair_count<T: Real>(leaf: &Leaf<T>) -> usize {
    let held_out_count = leaf.is_held_out.iter().filter(|is_held_out| **is_held_out).count();
    held_out_count * (leaf.len() - held_out_count)
}

/// Squared residuals of the training rows, summed leaf by leaf.
struct TrainResiduals {
    /// Σ of squared residuals of each target, over the rows in a single leaf.
    squared_residuals: Vec<f64>,
    /// Sum of the leaf weights of the rows so far. The weights of a row sum to 1.
    total_weight: f64,
    /// For each row in several leaves, by stored row number: the sum so far of its weighted
    /// residuals.
    shared_rows: BTreeMap<u64, Vec<f64>>,
}

impl TrainResiduals {
    fn add<T: Real>(&mut self, leaf: &Leaf<T>, alpha: &Mat<f64>, mu: f64) {
        for (i, (row, weight)) in leaf.row_numbers.iter().zip(&leaf.weights).enumerate() {
            self.total_weight += weight;
            let residuals = (0..leaf.t).map(|j| weight * mu * alpha[(i, j)]);
            if *weight < 1.0 {
                let sums = self.shared_rows.entry(*row).or_insert_with(|| vec![0.0; leaf.t]);
                sums.iter_mut().zip(residuals).for_each(|(sum, residual)| *sum += residual);
            } else {
                self.squared_residuals
                    .iter_mut()
                    .zip(residuals)
                    .for_each(|(square, residual)| *square += residual * residual);
            }
        }
    }

    /// Returns the mean squared error of each target on n rows. Returns `None` if leaves dropped
    /// rows, so that the leaf weights do not sum to n.
    fn mse(self, n: f64) -> Option<Vec<f64>> {
        let mse_of_target = |(j, square): (usize, &f64)| {
            (square + self.shared_rows.values().map(|residuals| residuals[j] * residuals[j]).sum::<f64>()) / n
        };
        ((self.total_weight - n).abs() < 0.5)
            .then(|| self.squared_residuals.iter().enumerate().map(mse_of_target).collect())
    }
}

struct LeafSolver<'a> {
    kernel: Arc<dyn KernelFunction<f64>>,
    workers: &'a Workers,
}

impl LeafSolver<'_> {
    /// Computes the dual coefficients α = (K + μI)⁻¹ r from the rows x (d x m) of a leaf and their
    /// residuals r (m x t). Returns `None` if K + μI is not positive definite.
    fn solve(&self, x: &Mat<f64>, residuals: Mat<f64>, mu: f64) -> Option<Mat<f64>> {
        let mut k = kernel_matrix(&*self.kernel, x.transpose(), x.transpose(), self.workers);
        (0..k.nrows()).for_each(|i| k[(i, i)] += mu);
        if !cholesky::factor_parallel(k.as_mut(), self.workers) {
            return None;
        }
        let mut alpha = residuals;
        cholesky::solve_triangular(k.as_ref(), TriangularSystem::Factor, alpha.as_mut(), self.workers);
        cholesky::solve_triangular(k.as_ref(), TriangularSystem::Transpose, alpha.as_mut(), self.workers);
        Some(alpha)
    }

    /// Returns two weighted sums of squared residuals over a leaf's validation rows: for the
    /// features alone, and for the features plus the leaf, fitted to its training rows. Each row
    /// has its weight in the leaf, because a neighbouring leaf may have a larger weight in the
    /// prediction of the row.
    fn validation_errors<T: Real>(&self, leaf: &Leaf<T>, mu: f64, held_out: HeldOut) -> [f64; 2] {
        let is_validation = |i: usize| held_out.contains(leaf, i);
        let weights: Vec<f64> = (0..leaf.len()).filter(|i| is_validation(*i)).map(|i| leaf.weights[i]).collect();
        let weighted_squared_sum = |residuals: &Mat<f64>| {
            let rows = residuals.row_iter().zip(&weights);
            rows.map(|(row, weight)| weight * row.squared_norm_l2()).sum::<f64>()
        };
        let ((x, training_residuals), (z, residuals)) = (
            leaf.selected_rows(|i| !is_validation(i), held_out.residuals(leaf)),
            leaf.selected_rows(is_validation, held_out.residuals(leaf)),
        );
        if x.ncols() == 0 {
            return [weighted_squared_sum(&residuals); 2];
        }
        let Some(alpha) = self.solve(&x, training_residuals, mu) else { return [0.0, f64::INFINITY] };
        let mut leaf_residuals = residuals.clone();
        let k = kernel_matrix(&*self.kernel, z.transpose(), x.transpose(), self.workers);
        matmul(leaf_residuals.as_mut(), Accum::Add, k.as_ref(), alpha.as_ref(), -1.0, Par::Seq);
        [weighted_squared_sum(&residuals), weighted_squared_sum(&leaf_residuals)]
    }

    /// Returns the mean squared residuals of some leaves' validation rows, without and with the
    /// leaves.
    fn mean_errors<T: Real>(&self, leaves: &[&Leaf<T>], mu: f64, held_out: HeldOut) -> [f64; 2] {
        let total_weight: f64 = leaves.iter().map(|leaf| held_out.squared_residuals(leaf).1).sum();
        let errors = leaves.iter().map(|leaf| self.validation_errors(leaf, mu, held_out));
        let sums = errors.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
        sums.map(|sum| sum / total_weight.max(f64::MIN_POSITIVE))
    }

    /// Returns the mean squared residuals of the held-out fold, without and with the leaves.
    ///
    /// A tree that splits the times has few leaves with rows of this fold and of another one, and
    /// only these can change the prediction. The leaves with most pairs of such rows are measured,
    /// and their ratio of the errors stands for all leaves with rows of both kinds.
    fn fold_errors<T: Real>(&self, leaves: &[Leaf<T>], mu: f64) -> [f64; 2] {
        let (mut mixed, separate): (Vec<&Leaf<T>>, Vec<_>) = leaves.iter().partition(|leaf| pair_count(leaf) > 0);
        let sum_of = |leaves: &[&Leaf<T>]| {
            let sums = leaves.iter().map(|leaf| HeldOut::Fold.squared_residuals(leaf));
            sums.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d))
        };
        let ((mixed_sum, mixed_weight), (separate_sum, separate_weight)) = (sum_of(&mixed), sum_of(&separate));
        mixed.sort_by_key(|leaf| std::cmp::Reverse(pair_count(leaf)));
        mixed.truncate(MEASURED_LEAVES);
        let [without, with] = self.mean_errors(&mixed, mu, HeldOut::Fold);
        let ratio = if without > 0.0 { with / without } else { 1.0 };
        let total_weight = (mixed_weight + separate_weight).max(f64::MIN_POSITIVE);
        [mixed_sum + separate_sum, ratio * mixed_sum + separate_sum].map(|sum| sum / total_weight)
    }

    /// Searches for the best μ from `initial_mu`. Returns this μ, and the validation errors without
    /// and with the leaves.
    fn search_mu<T: Real>(
        &self,
        leaves: &[Leaf<T>],
        initial_mu: f64,
        held_out: HeldOut,
        data: &FitData<'_, T>,
    ) -> Result<(f64, [f64; 2])> {
        let trial_leaves = evenly_spaced(leaves, TRIAL_LEAVES);
        let stage = data.resources.stage_observer.start_steps("lambda of the leaves", MAX_MU_STEPS as u64);
        let errors_at = |mu: f64| {
            let errors = self.mean_errors(&trial_leaves, mu, held_out);
            stage.advance(1);
            check_stop(&*stage)?;
            Ok::<_, Error>(errors)
        };
        let (mut best_mu, mut best_errors) = (initial_mu, errors_at(initial_mu)?);
        for factor in [1.0 / MU_FACTOR, MU_FACTOR] {
            for step in 0..MAX_MU_STEPS {
                let mu = best_mu * factor;
                let errors = errors_at(mu)?;
                if errors[1] >= best_errors[1] {
                    // if a step in this direction was an improvement, do not try the other
                    // direction
                    if step > 0 {
                        return Ok((best_mu, best_errors));
                    }
                    break;
                }
                (best_mu, best_errors) = (mu, errors);
            }
        }
        Ok((best_mu, best_errors))
    }
}
