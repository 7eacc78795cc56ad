//! What ridge regression on features leaves, learned on the kernel itself in the leaves of a tree of the rows.
//!
//! A map of few features is smooth; the kernel itself is not, but its system has the order of the rows. A tree cuts the rows into leaves of some
//! thousand each, and in leaf l what the features leave, r = y − f₀, is learned by the kernel:
//!
//! ```text
//! α_l = (K_l + μI)⁻¹ r_l
//! ```
//!
//! Every node halves its rows at the median of their leading kernel principal component, so that rows of a leaf are near each other in the sense of
//! the kernel. Those near the median, a share of [`BAND`], belong to both children, and the prediction changes from one to the other
//! over them: see [`Leaves`].
//!
//! μ is lambda·n of the features to begin with, then less or more by factors of √10 as long as the error falls on a fifth of the rows of a
//! few leaves that is held out. Where no μ is better there than f₀ alone, nothing is added.
//!
//! *Passes*: two. *Flops*: n m²/3 for leaves of m rows, and the map twice. *Bytes*: 8m² and the rows.
//!
//! References: Tresp, "A Bayesian committee machine", Neural Computation 12, 2000; Snelson, Ghahramani, "Local and global sparse Gaussian process
//! approximations", AISTATS 2007; Beaglehole, Holzmüller, Radhakrishnan, Belkin, "xRFM", arXiv 2508.10053, of trees of kernel machines.

use crate::cholesky::{self, Side};
use crate::features::FitData;
use crate::model::Leaves;
use crate::request::{FitRequest, ProblemSize};
use crate::solver::Figure;
use crate::strips::row_strips;
use crate::{Error, Head, Result, Targets};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::{Kernel, Real};
use kstore::key::{Purpose, Stream};
use kstore::{Pass, Plan, RowBlock, Workers};
use std::sync::Arc;

/// Share of the rows of a node that both children have.
const BAND: f64 = 0.06;

/// Rows that the tree is made from, and at least so many for each leaf; features that it looks at.
const SAMPLE: usize = 20_000;
const SAMPLE_OF_LEAF: usize = 100;
const LEADING: usize = 256;

/// Steps of the power iteration.
const STEPS: usize = 40;

/// Leaves whose held-out rows choose μ; every so many-th row is held out.
const TRIALS: usize = 3;
const HELD_OUT: usize = 5;

/// Factor between penalties, and most steps in one direction.
const FACTOR: f64 = 3.162_277_660_168_379_5;
const WALK: usize = 8;

/// Share of the error of the features below which the leaves are worth their bytes.
const WORTH: f64 = 0.98;

/// Rows of a kernel matrix that a thread computes at once.
const ROWS: usize = 256;

/// Refuses what goes with features alone.
pub(super) fn check(work: &FitRequest<'_>, others: [(&'static str, bool); 3]) -> Result<()> {
    let why = "the machines in the leaves have none; leave one of the two out";
    if let Some((name, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err(Error::option(name, "", why));
    }
    if work.options.map.is_exact() {
        return Err(Error::option(
            "local",
            "",
            "the map exact learns on the kernel itself already; leave one of the two out",
        ));
    }
    if work.options.kernel.sparse().is_some() {
        return Err(Error::option("local", "", "leaves hold rows of numbers, and these are sparse; leave it out"));
    }
    work.refuse_weights("`local`", "leave it out")
}

/// Adds the rows of the leaves, and the system of the largest.
pub(super) fn plan(plan: Plan, rows: usize, shape: &ProblemSize) -> Plan {
    let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
    let order = 2 * rows;
    let all = n.saturating_mul(2 * (shape.d * shape.element + 8 * shape.t));
    plan.term("rows of the leaves", all.saturating_mul(2), "leave `local` out").term(
        "system of a leaf",
        8 * order * order + 8 * order * (shape.d + 2 * shape.t),
        "lower `local`",
    )
}

/// The leaves of about so many rows, and what was found; `None` where they are no better.
pub(super) fn fit<T: Real>(
    data: &FitData<'_, T>,
    rows: usize,
    head: &Head,
    lambda: f64,
) -> Result<(Option<Leaves<T>>, Vec<Figure>)> {
    let depth = (data.rows as f64 / rows.max(1) as f64).log2().ceil().max(0.0) as u32;
    let count = 1usize << depth;
    let tree = Tree::grow(data, head, count)?;
    let mut leaves = tree.sow(data, head)?;
    let kernel = data.kernel.build()?.typed::<f64>();
    let solver = Solver { kernel, workers: data.resources.workers };
    let (mu, [without, with]) = solver.walk(&leaves, lambda * data.rows as f64, data)?;
    let error = |name, value| Figure { name, values: vec![value] };
    let mut figures = vec![error("held-out mse of the features", without), error("held-out mse with leaves", with)];
    if with >= WORTH * without {
        let text = format!(
            "machines in leaves are left out: on rows held out the error is {with:.4e} with them, and {without:.4e} without"
        );
        data.resources.stages.warn(text);
        return Ok((None, figures));
    }
    let stage = data.resources.stages.steps("leaves", count as u64);
    let t = data.targets.count();
    let mut coefficients = Mat::zeros(leaves.iter().map(Leaf::len).sum(), t);
    let mut first = 0;
    for leaf in &leaves {
        let found = solver.solve(leaf, |_| true, mu);
        let indefinite = || Error::Indefinite { rank: leaf.len(), lambda: mu / data.rows as f64, precision: "f64" };
        coefficients.as_mut().subrows_mut(first, leaf.len()).copy_from(found.ok_or_else(indefinite)?);
        first += leaf.len();
        stage.advance(1);
        if stage.stop() {
            return Err(kstore::Error::Interrupted.into());
        }
    }
    let counts: Vec<usize> = leaves.iter().map(Leaf::len).collect();
    figures.push(error("leaves", count as f64));
    figures.push(error("rows of the largest leaf", counts.iter().copied().max().unwrap_or(0) as f64));
    figures.push(error("lambda of the leaves", mu / data.rows as f64));
    let points = leaves.iter_mut().flat_map(|leaf| std::mem::take(&mut leaf.x)).collect();
    let splits = tree.splits(head.weights.nrows());
    Ok((Some(Leaves { splits, widths: tree.widths, counts, points, coefficients }), figures))
}

/// A visit of all rows in their order, with their features.
fn visit<T: Real>(
    data: &FitData<'_, T>,
    name: &str,
    mut take: impl FnMut(&RowBlock<'_, T>, MatRef<'_, T>) -> Result<()> + Send,
) -> Result<()> {
    let range = data.source.range();
    let observer = data.resources.stages.stage(name, Some(range.end - range.start));
    let pass = Pass { journal: None, ..data.cut.pass(1, data.resources, &*observer) };
    let p = data.map.dims().1;
    let mut phi = Vec::new();
    pass.visit(data.source, |block: &RowBlock<'_, T>| {
        let b = block.len();
        phi.resize(b * p, T::default());
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        data.map.apply(x, MatMut::from_column_major_slice_mut(&mut phi, b, p), data.resources.workers);
        take(block, MatRef::from_column_major_slice(&phi, b, p))
    })?;
    Ok(())
}

/// A complete binary tree on the leading features.
struct Tree {
    /// Directions of the nodes, one after the other, and their constants.
    directions: Vec<Vec<f64>>,
    constants: Vec<f64>,
    widths: Vec<f64>,
}

impl Tree {
    /// Grows the tree from a sample of the rows.
    fn grow<T: Real>(data: &FitData<'_, T>, head: &Head, leaves: usize) -> Result<Self> {
        let q = LEADING.min(head.weights.nrows());
        let mut tree = Self { directions: Vec::new(), constants: Vec::new(), widths: Vec::new() };
        if leaves == 1 {
            return Ok(tree);
        }
        let wanted = SAMPLE.max(SAMPLE_OF_LEAF * leaves) as f64;
        let stream = Stream::new(data.options.seed, Purpose::Leaves, 0);
        let mut sample: Vec<Vec<f64>> = Vec::new();
        visit(data, "tree of the leaves", |block, phi| {
            let taken =
                block.rows.iter().enumerate().filter(|(_, row)| stream.uniform(**row) * data.rows as f64 <= wanted);
            sample.extend(taken.map(|(i, _)| (0..q).map(|j| phi[(i, j)].to_f64()).collect::<Vec<f64>>()));
            Ok(())
        })?;
        let mut parts: Vec<Vec<usize>> = vec![(0..sample.len()).collect()];
        while tree.directions.len() < leaves - 1 {
            // the nodes of a level, from the first to the last
            let mut next = Vec::with_capacity(2 * parts.len());
            for part in parts {
                let (direction, mut scores) = component(&sample, &part, q);
                scores.sort_by(|a, b| a.1.total_cmp(&b.1));
                let (threshold, width) = cut(&scores);
                tree.directions.push(direction);
                tree.constants.push(-threshold);
                tree.widths.push(width);
                let middle = scores.len() / 2;
                next.push(scores[..middle].iter().map(|(i, _)| *i).collect());
                next.push(scores[middle..].iter().map(|(i, _)| *i).collect());
            }
            parts = next;
        }
        Ok(tree)
    }

    /// The functions of the nodes on all r features.
    fn splits(&self, r: usize) -> Head {
        let weights = Mat::from_fn(r, self.directions.len(), |i, j| self.directions[j].get(i).copied().unwrap_or(0.0));
        Head { weights, intercept: self.constants.clone() }
    }

    /// The rows of every leaf, with what the features leave of their targets.
    fn sow<T: Real>(&self, data: &FitData<'_, T>, head: &Head) -> Result<Vec<Leaf<T>>> {
        let (t, r, nodes) = (data.targets.count(), head.weights.nrows(), self.widths.len());
        let mut leaves: Vec<Leaf<T>> =
            (0..=nodes).map(|_| Leaf { x: Vec::new(), left: Vec::new(), shares: Vec::new(), t }).collect();
        visit(data, "rows of the leaves", |block, phi| {
            let b = block.len();
            let of = |i: usize, j: usize| phi[(i, j)].to_f64();
            let mut left = vec![0.0; t];
            let wide = Mat::from_fn(b, r, of);
            let mut fitted = Mat::zeros(b, t);
            matmul(fitted.as_mut(), Accum::Replace, wide.as_ref(), head.weights.as_ref(), 1.0, Par::Seq);
            for i in 0..b {
                let values: Vec<f64> = (0..nodes)
                    .map(|j| {
                        self.constants[j]
                            + self.directions[j].iter().enumerate().map(|(c, a)| a * wide[(i, c)]).sum::<f64>()
                    })
                    .collect();
                for (j, left) in left.iter_mut().enumerate() {
                    let y = match data.targets {
                        Targets::Numeric { .. } => Some(block.y[i * block.t + j]),
                        Targets::Classes(classes) => {
                            block.classes.as_ref().and_then(|coded| classes.code(coded.codes[i], j))
                        }
                    };
                    // a row of no class is refused by the pass before
                    *left = y.map_or(0.0, |y| y - fitted[(i, j)] - head.intercept[j]);
                }
                Leaves::<T>::shares(&self.widths, &values, |leaf, share| {
                    leaves[leaf].x.extend_from_slice(&block.x[i * block.d..(i + 1) * block.d]);
                    leaves[leaf].left.extend_from_slice(&left);
                    leaves[leaf].shares.push(share);
                });
            }
            Ok(())
        })?;
        Ok(leaves)
    }
}

/// The leading principal component of some rows of the sample, and their coordinates along it.
fn component(sample: &[Vec<f64>], part: &[usize], q: usize) -> (Vec<f64>, Vec<(usize, f64)>) {
    let n = part.len().max(1) as f64;
    let mut mean = vec![0.0; q];
    part.iter().for_each(|i| mean.iter_mut().zip(&sample[*i]).for_each(|(mean, v)| *mean += v / n));
    let along = |i: usize, direction: &[f64]| {
        sample[i].iter().zip(&mean).zip(direction).map(|((v, mean), a)| (v - mean) * a).sum::<f64>()
    };
    let length = |direction: &[f64]| direction.iter().map(|a| a * a).sum::<f64>().sqrt();
    // from the row that lies furthest from the mean
    let centred = |i: usize| sample[i].iter().zip(&mean).map(|(v, mean)| v - mean).collect::<Vec<f64>>();
    let furthest = part.iter().copied().max_by(|a, b| length(&centred(*a)).total_cmp(&length(&centred(*b))));
    let mut direction = furthest.map_or(vec![0.0; q], centred);
    for _ in 0..STEPS {
        let size = length(&direction);
        if size <= f64::MIN_POSITIVE {
            break;
        }
        direction.iter_mut().for_each(|a| *a /= size);
        let mut next = vec![0.0; q];
        for i in part {
            let score = along(*i, &direction);
            next.iter_mut().zip(&sample[*i]).zip(&mean).for_each(|((next, v), mean)| *next += score * (v - mean));
        }
        direction = next;
    }
    let size = length(&direction).max(f64::MIN_POSITIVE);
    direction.iter_mut().for_each(|a| *a /= size);
    let scores = part.iter().map(|i| (*i, sample[*i].iter().zip(&direction).map(|(v, a)| v * a).sum())).collect();
    (direction, scores)
}

/// The median of ascending scores, and half the width of the band about it.
fn cut(scores: &[(usize, f64)]) -> (f64, f64) {
    let at = |share: f64| {
        let place = (share * scores.len() as f64) as usize;
        scores.get(place.min(scores.len().saturating_sub(1))).map_or(0.0, |(_, score)| *score)
    };
    (at(0.5), 0.5 * (at(0.5 + 0.5 * BAND) - at(0.5 - 0.5 * BAND)).max(0.0))
}

/// The rows of a leaf.
struct Leaf<T> {
    /// As the kernel sees them, d each.
    x: Vec<T>,
    /// What the features leave of the targets, t each.
    left: Vec<f64>,
    /// Their shares in the leaf.
    shares: Vec<f64>,
    t: usize,
}

impl<T: Real> Leaf<T> {
    fn len(&self) -> usize {
        self.shares.len()
    }

    fn rows(&self, take: impl Fn(usize) -> bool) -> (Mat<f64>, Mat<f64>) {
        let (d, places) = (self.x.len() / self.len().max(1), (0..self.len()).filter(|i| take(*i)).collect::<Vec<_>>());
        let x = Mat::from_fn(d, places.len(), |j, i| self.x[places[i] * d + j].to_f64());
        let left = Mat::from_fn(places.len(), self.t, |i, j| self.left[places[i] * self.t + j]);
        (x, left)
    }
}

struct Solver<'a> {
    kernel: Arc<dyn Kernel<f64>>,
    workers: &'a Workers,
}

impl Solver<'_> {
    /// Kernel values of the rows of x and z, whose points are columns.
    fn block(&self, x: MatRef<'_, f64>, z: MatRef<'_, f64>) -> Mat<f64> {
        let mut k = Mat::zeros(x.ncols(), z.ncols());
        self.workers.each(row_strips(k.as_mut(), ROWS), |(first, out)| {
            self.kernel.block(x.subcols(first, out.nrows()).transpose(), z.transpose(), out);
        });
        k
    }

    /// α of some rows of a leaf; `None` where the matrix has no factor.
    fn solve<T: Real>(&self, leaf: &Leaf<T>, take: impl Fn(usize) -> bool, mu: f64) -> Option<Mat<f64>> {
        let (x, mut alpha) = leaf.rows(take);
        let mut k = self.block(x.as_ref(), x.as_ref());
        (0..k.nrows()).for_each(|i| k[(i, i)] += mu);
        if !cholesky::factor_by_all(k.as_mut(), self.workers) {
            return None;
        }
        cholesky::solve(k.as_ref(), Side::Factor, alpha.as_mut(), self.workers);
        cholesky::solve(k.as_ref(), Side::Transpose, alpha.as_mut(), self.workers);
        Some(alpha)
    }

    /// The sums of the squares of what features leave of held-out rows of a leaf, and of what the machine of the others leaves of that.
    fn held_out<T: Real>(&self, leaf: &Leaf<T>, mu: f64) -> [f64; 2] {
        let apart = |i: usize| i % HELD_OUT == 0;
        let Some(alpha) = self.solve(leaf, |i| !apart(i), mu) else { return [0.0, f64::INFINITY] };
        let ((x, _), (z, left)) = (leaf.rows(|i| !apart(i)), leaf.rows(apart));
        let mut after = left.clone();
        matmul(after.as_mut(), Accum::Add, self.block(z.as_ref(), x.as_ref()).as_ref(), alpha.as_ref(), -1.0, Par::Seq);
        [left.squared_norm_l2(), after.squared_norm_l2()]
    }

    /// The best μ from `start` on, and the mean held-out errors without and with the leaves.
    fn walk<T: Real>(&self, leaves: &[Leaf<T>], start: f64, data: &FitData<'_, T>) -> Result<(f64, [f64; 2])> {
        let tried: Vec<&Leaf<T>> =
            (0..TRIALS.min(leaves.len())).map(|i| &leaves[i * leaves.len() / TRIALS.min(leaves.len())]).collect();
        let held: usize = tried.iter().map(|leaf| leaf.len().div_ceil(HELD_OUT) * leaf.t).sum();
        let stage = data.resources.stages.steps("penalty of the leaves", WALK as u64);
        let tries = |mu: f64| {
            let sums = tried.iter().map(|leaf| self.held_out(leaf, mu)).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
            stage.advance(1);
            if stage.stop() {
                Err(Error::from(kstore::Error::Interrupted))
            } else {
                Ok(sums.map(|sum| sum / held.max(1) as f64))
            }
        };
        let mut best = (start, tries(start)?);
        for factor in [1.0 / FACTOR, FACTOR] {
            for step in 0..WALK {
                let mu = best.0 * factor;
                let errors = tries(mu)?;
                if errors[1] >= best.1[1] {
                    // one direction is enough where it helped
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
