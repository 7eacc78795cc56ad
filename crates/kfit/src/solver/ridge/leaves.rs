//! Residuals of ridge regression on features, learned by the exact kernel in the leaves of a tree
//! of the rows.
//!
//! A map of few features is smooth; the exact kernel is not, but its system has the order of the
//! rows. A tree splits the rows into leaves of some thousand rows each. In leaf l the kernel learns
//! the residuals of the features, r = y − f₀:
//!
//! ```text
//! α_l = (K_l + μI)⁻¹ r_l
//! ```
//!
//! Every node splits its rows at the median of their leading kernel principal component, so that
//! the rows of a leaf are near each other in the kernel's metric. The 6 % of the rows nearest to
//! the median belong to both children, and the prediction changes continuously over them: see
//! [`Leaves`].
//!
//! The search for μ starts at lambda·n of the features, and multiplies or divides by √10 while the
//! error on the validation rows of a few leaves falls. The validation rows are one fold; during the
//! search the leaves and f₀ are fitted without it. If no μ reduces the error of f₀ alone by 2 %, no
//! leaves are added.
//!
//! The training residual of a row is r − K_l α_l = μα_l in each leaf, averaged with the row's leaf
//! weights.
//!
//! *Passes*: two. *Flops*: n m²/3 for leaves of m rows, and the map twice. *Bytes*: 8m² and the
//! rows.
//!
//! References: Tresp, "A Bayesian committee machine", Neural Computation 12, 2000; Snelson,
//! Ghahramani, "Local and global sparse Gaussian process approximations", AISTATS 2007; Beaglehole,
//! Holzmüller, Radhakrishnan, Belkin, "xRFM", arXiv 2508.10053, on trees of kernel machines.

use super::tree::{LARGEST, Leaf, Tree};
use crate::features::FitData;
use crate::linalg::cholesky::{self, Side};
use crate::linalg::kernel_matrix::kernel_matrix;
use crate::model::Leaves;
use crate::request::{FitRequest, ProblemSize};
use crate::solver::normal_equations::{head, system::System};
use crate::solver::{Figure, heed, refuse};
use crate::{Error, FoldSpec, GramState, Head, Result, RidgeOptions};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kapprox::{KernelFunction, Real};
use kstore::{Plan, Workers};
use std::{collections::BTreeMap, sync::Arc};

/// Number of leaves, spread evenly over the tree, whose validation rows choose μ.
const TRIALS: usize = 3;

/// Factor between candidates of μ, and maximum number of steps in one direction.
const FACTOR: f64 = 3.162_277_660_168_379_5;
const WALK: usize = 8;

/// Validation error, relative to the features alone, below which the leaves justify their memory.
const WORTH: f64 = 0.98;

/// Fraction of the rows for validation; the fold whose size is nearest to it is used.
const HELD_OUT: f64 = 0.2;

/// Rejects options that require a model on features alone.
pub(super) fn check(work: &FitRequest<'_>, others: [(&'static str, bool); 3]) -> Result<()> {
    let why = "the models in the leaves (`local`) do not support it; leave one of the two out";
    others.into_iter().try_for_each(|(name, given)| refuse(given, name, "", why))?;
    let why = "`map` exact uses the exact kernel for all rows already; leave one of the two out";
    refuse(work.options.map.is_exact(), "local", "", why)?;
    let why = "leaves store dense rows, and the rows of this table are sparse; leave it out";
    refuse(work.options.kernel.sparse().is_some(), "local", "", why)?;
    let why = "validation rows decide whether `local` is used; leave one of the two out";
    refuse(work.options.folds == FoldSpec::None, "folds", "none", why)?;
    work.refuse_weights("`local`", "leave it out")
}

/// Adds the rows of the leaves, and the system of the largest leaf, to a plan.
pub(super) fn plan(plan: Plan, rows: usize, shape: &ProblemSize) -> Plan {
    let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
    let order = LARGEST * rows;
    let all = n.saturating_mul(2 * (shape.d * shape.element + 8 * (2 * shape.t + 1)));
    plan.term("rows of the leaves", all.saturating_mul(2), "leave `local` out").term(
        "system of a leaf",
        8 * order * order + 8 * order * (shape.d + 2 * shape.t),
        "lower `local`",
    )
}

/// The leaves, with figures for the report.
#[derive(Debug, Default)]
pub(super) struct Local<T> {
    /// `None` if the leaves do not improve on the features alone.
    pub(super) leaves: Option<Leaves<T>>,
    pub(super) figures: Vec<Figure>,
    /// Training mean squared error of each target, with the leaves; `None` if the leaves dropped
    /// rows.
    pub(super) train_mse: Option<Vec<f64>>,
}

/// Returns the fold whose size is nearest to a fifth of the rows, and the functions of the features
/// fitted without it.
pub(super) fn without_fold(
    gram: &GramState,
    (rank, lambda): (usize, f64),
    options: &RidgeOptions,
    workers: &Workers,
) -> Result<(usize, Head)> {
    let off = |fold: usize| (gram.folds()[fold].rows as f64 / gram.rows() as f64 - HELD_OUT).abs();
    let held = (0..gram.folds().len()).min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or_default();
    let mut system = System::new(gram.features(), &options.target_centre, options.intercept);
    system.assemble(gram, Some(held), workers)?;
    let solution = system.solve(lambda, &[rank], workers);
    if solution.solved == 0 {
        return Err(Error::Indefinite { rank, lambda, precision: gram.precision() });
    }
    Ok((held, head(&solution, 0, rank, options)))
}

/// Learns the residuals of the functions `head` of the features in leaves of about this many rows.
/// The error on a held-out fold, with functions fitted without it, decides whether the leaves are
/// used.
pub(super) fn fit<T: Real>(
    data: &FitData<'_, T>,
    rows: usize,
    (head, unseen): (&Head, (usize, Head)),
    lambda: f64,
) -> Result<Local<T>> {
    let depth = (data.rows as f64 / rows.max(1) as f64).log2().ceil().max(0.0) as u32;
    let count = 1usize << depth;
    let tree = Tree::grow(data, head, count)?;
    let mut leaves = tree.sow(data, head, unseen, rows)?;
    let kernel = data.kernel.build()?.typed::<f64>();
    let solver = Solver { kernel, workers: data.resources.workers };
    let (mu, [without, with]) = solver.walk(&leaves, lambda * data.rows as f64, data)?;
    let mut figures =
        vec![Figure::of("held-out mse of the features", without), Figure::of("held-out mse with leaves", with)];
    if with >= WORTH * without {
        let text = format!(
            "the models in the leaves are discarded: the error on validation rows is {with:.4e} with them, and {without:.4e} without"
        );
        data.resources.stages.warn(text);
        return Ok(Local { figures, leaves: None, train_mse: None });
    }
    let stage = data.resources.stages.steps("leaves", count as u64);
    let t = data.targets.count();
    let mut coefficients = Mat::zeros(leaves.iter().map(Leaf::len).sum(), t);
    let (mut first, mut left) = (0, Left { squares: vec![0.0; t], shares: 0.0, rows: BTreeMap::new() });
    for leaf in &leaves {
        let found = solver.solve(leaf.rows(|_| true, &leaf.left), mu);
        let indefinite = || Error::Indefinite { rank: leaf.len(), lambda: mu / data.rows as f64, precision: "f64" };
        let found = found.ok_or_else(indefinite)?;
        left.add(leaf, &found, mu);
        coefficients.as_mut().subrows_mut(first, leaf.len()).copy_from(found);
        first += leaf.len();
        stage.advance(1);
        heed(&*stage)?;
    }
    let counts: Vec<usize> = leaves.iter().map(Leaf::len).collect();
    figures.push(Figure::of("leaves", count as f64));
    figures.push(Figure::of("rows of the largest leaf", counts.iter().copied().max().unwrap_or(0) as f64));
    figures.push(Figure::of("lambda of the leaves", mu / data.rows as f64));
    let points = leaves.iter_mut().flat_map(|leaf| std::mem::take(&mut leaf.x)).collect();
    let splits = tree.splits(head.weights.nrows());
    let leaves = Some(Leaves { splits, widths: tree.widths, counts, points, coefficients });
    Ok(Local { leaves, figures, train_mse: left.mse(data.rows as f64) })
}

/// Residuals of the training rows.
struct Left {
    squares: Vec<f64>,
    /// Sum of the leaf weights of the rows so far: 1 for each row.
    shares: f64,
    /// Residuals of rows in several leaves, by stored row number.
    rows: BTreeMap<u64, Vec<f64>>,
}

impl Left {
    fn add<T: Real>(&mut self, leaf: &Leaf<T>, alpha: &Mat<f64>, mu: f64) {
        for (i, (row, share)) in leaf.rows.iter().zip(&leaf.shares).enumerate() {
            self.shares += share;
            let own = (0..leaf.t).map(|j| share * mu * alpha[(i, j)]);
            if *share < 1.0 {
                let sums = self.rows.entry(*row).or_insert_with(|| vec![0.0; leaf.t]);
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            } else {
                self.squares.iter_mut().zip(own).for_each(|(square, own)| *square += own * own);
            }
        }
    }

    /// Returns the mean squared error of each target on n rows; `None` if leaves dropped rows.
    fn mse(self, n: f64) -> Option<Vec<f64>> {
        let of =
            |(j, square): (usize, &f64)| (square + self.rows.values().map(|left| left[j] * left[j]).sum::<f64>()) / n;
        ((self.shares - n).abs() < 0.5).then(|| self.squares.iter().enumerate().map(of).collect())
    }
}

struct Solver<'a> {
    kernel: Arc<dyn KernelFunction<f64>>,
    workers: &'a Workers,
}

impl Solver<'_> {
    /// Computes α from rows x of a leaf and their residuals; `None` if the matrix is not positive
    /// definite.
    fn solve(&self, (x, mut alpha): (Mat<f64>, Mat<f64>), mu: f64) -> Option<Mat<f64>> {
        let mut k = kernel_matrix(&*self.kernel, x.transpose(), x.transpose(), self.workers);
        (0..k.nrows()).for_each(|i| k[(i, i)] += mu);
        if !cholesky::factor_by_all(k.as_mut(), self.workers) {
            return None;
        }
        cholesky::solve(k.as_ref(), Side::Factor, alpha.as_mut(), self.workers);
        cholesky::solve(k.as_ref(), Side::Transpose, alpha.as_mut(), self.workers);
        Some(alpha)
    }

    /// Returns the weighted sums of squared residuals of a leaf's validation rows: of the features
    /// alone, and with the leaf fitted to the other rows. A row counts by its weight in the leaf,
    /// because most of its prediction may come from a neighbouring leaf.
    fn held_out<T: Real>(&self, leaf: &Leaf<T>, mu: f64) -> [f64; 2] {
        let apart = |i: usize| leaf.held[i];
        let shares: Vec<f64> = (0..leaf.len()).filter(|i| apart(*i)).map(|i| leaf.shares[i]).collect();
        let sum = |left: &Mat<f64>| {
            let rows = left.row_iter().zip(&shares);
            rows.map(|(row, share)| share * row.squared_norm_l2()).sum::<f64>()
        };
        let ((x, learned), (z, left)) = (leaf.rows(|i| !apart(i), &leaf.unseen), leaf.rows(apart, &leaf.unseen));
        if x.ncols() == 0 {
            return [sum(&left); 2];
        }
        let Some(alpha) = self.solve((x.clone(), learned), mu) else { return [0.0, f64::INFINITY] };
        let mut after = left.clone();
        let k = kernel_matrix(&*self.kernel, z.transpose(), x.transpose(), self.workers);
        matmul(after.as_mut(), Accum::Add, k.as_ref(), alpha.as_ref(), -1.0, Par::Seq);
        [sum(&left), sum(&after)]
    }

    /// Returns the best μ of the search from `start`, and the validation errors without and with
    /// the leaves.
    fn walk<T: Real>(&self, leaves: &[Leaf<T>], start: f64, data: &FitData<'_, T>) -> Result<(f64, [f64; 2])> {
        let count = TRIALS.min(leaves.len());
        let tried: Vec<&Leaf<T>> = (0..count).map(|i| &leaves[(2 * i + 1) * leaves.len() / (2 * count)]).collect();
        let apart = |leaf: &&Leaf<T>| {
            (0..leaf.len()).filter(|i| leaf.held[*i]).map(|i| leaf.shares[i]).sum::<f64>() * leaf.t as f64
        };
        let held: f64 = tried.iter().map(apart).sum();
        let stage = data.resources.stages.steps("lambda of the leaves", WALK as u64);
        let tries = |mu: f64| {
            let sums = tried.iter().map(|leaf| self.held_out(leaf, mu)).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
            stage.advance(1);
            heed(&*stage)?;
            Ok::<_, Error>(sums.map(|sum| sum / held.max(f64::MIN_POSITIVE)))
        };
        let mut best = (start, tries(start)?);
        for factor in [1.0 / FACTOR, FACTOR] {
            for step in 0..WALK {
                let mu = best.0 * factor;
                let errors = tries(mu)?;
                if errors[1] >= best.1[1] {
                    // after an improvement in this direction the other one is not tried
                    if step > 0 {
                        return Ok(best);
                    }
                    break;
                }
                best = (mu, errors);
            }
        }
        Ok(best)
    }
}
