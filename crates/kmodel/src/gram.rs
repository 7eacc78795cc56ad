//! The Gram state: the second moments of features φ and targets y, which are all that ridge
//! regression needs to know about the rows.

use crate::linalg::dot_products::{copy_as_f64, dot_products};
use crate::linalg::strips::{BufferPool, for_each_strip, row_strips};
use crate::{Error, Result, folds::FoldRule};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kapprox::Real;
use kapprox::gram::{self, GramBuffers};
use kstore::checkpoint::{Arrays, Persist, StoredArrays};
use kstore::{Merge, Workers};
use std::borrow::Cow;

/// Number of columns of phi that are converted to f64 at a time for the product phiᵀy. 2,048 rows
/// of 32 columns take 512 KiB in f64, half of an L2 cache.
const MOMENT_PANEL_COLUMNS: usize = 32;

/// Second moments of the rows of one cross-validation fold. The moments of several folds are the
/// sums of their moments.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldGram {
    /// Number of rows n.
    pub row_count: u64,
    /// Sum of the row weights (n if all are 1). The sums below are weighted.
    pub weight_sum: f64,
    /// Gram matrix G = Σ φφᵀ, p x p column-major; only the lower triangle is used.
    pub g: Vec<f64>,
    /// Sum of the features s = Σ φ, length p.
    pub s: Vec<f64>,
    /// Products with the targets b = Σ φ yᵀ, p x t column-major.
    pub b: Vec<f64>,
    /// Sums Σ y of the targets, length t.
    pub sy: Vec<f64>,
    /// Sums Σ y² of the squared targets, length t.
    pub yy: Vec<f64>,
}

/// Returns the covariance matrix C = G/n − μμᵀ, with both triangles. Reads only the lower triangle
/// of the moments.
pub fn covariance(moments: &FoldGram, mean: &[f64]) -> Mat<f64> {
    let (p, n) = (mean.len(), moments.weight_sum.max(f64::MIN_POSITIVE));
    let g = MatRef::from_column_major_slice(&moments.g, p, p);
    Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))] / n - mean[i] * mean[j])
}

impl FoldGram {
    /// Returns zero moments for p features and t targets.
    pub fn new(p: usize, t: usize) -> Self {
        // `resize` writes the zeros immediately. With `vec![0.0; …]`, a page is often read before
        // it is written, which causes two page faults instead of one
        let mut g = Vec::with_capacity(p * p);
        g.resize(p * p, 0.0);
        Self {
            row_count: 0,
            weight_sum: 0.0,
            g,
            s: vec![0.0; p],
            b: vec![0.0; p * t],
            sy: vec![0.0; t],
            yy: vec![0.0; t],
        }
    }

    fn add(&mut self, other: &Self) {
        let p = self.s.len();
        self.row_count += other.row_count;
        self.weight_sum += other.weight_sum;
        for column in 0..p {
            let lower_range = column * p + column..(column + 1) * p;
            add_into(&mut self.g[lower_range.clone()], &other.g[lower_range]);
        }
        add_into(&mut self.s, &other.s);
        add_into(&mut self.b, &other.b);
        add_into(&mut self.sy, &other.sy);
        add_into(&mut self.yy, &other.yy);
    }
}

/// The moments G_g = Σ φφᵀ (p × p), s_g = Σ φ, b_g = Σ φyᵀ (p × t), Σ y and Σ y² of every fold g,
/// summed over the rows of the fold, with features φ and targets y.
///
/// Moments of two sets of rows can be added. They are enough for ridge regression at every rank,
/// for every lambda and every held-out fold.
///
/// Products within a block of rows are computed in the type of the features, sums over blocks in
/// f64. With f32 features the error of G_ij is therefore about ε₃₂·√(G_ii G_jj) for any number of
/// rows.
///
/// *Cost of an update with b rows*: b·p² flops for G (half of the full product), 2·b·p·(t + 1) for
/// b and s.
/// *Bytes*: [`GramState::bytes`], mostly 8·p² per fold.
#[derive(Clone, Debug, PartialEq)]
pub struct GramState {
    p: usize,
    t: usize,
    folds: Vec<FoldGram>,
    fold_rule: FoldRule,
    precision: &'static str,
    epsilon: f64,
}

/// Buffers of [`GramState::update`], reused across calls.
#[derive(Debug, Default)]
pub struct GramScratch<T> {
    panels: BufferPool<GramBuffers<T>>,
    panels_f64: BufferPool<Vec<f64>>,
    weights_and_targets: Vec<f64>,
    products: Vec<f64>,
}

impl<T: Real> GramScratch<T> {
    /// Returns the bytes of the buffers for p features, t targets, blocks of b rows and `threads`
    /// threads.
    pub fn bytes(p: usize, t: usize, b: usize, threads: usize) -> usize {
        let threads = threads.max(1);
        GramBuffers::<T>::bytes(p) * threads + 8 * (b * MOMENT_PANEL_COLUMNS * threads + (b + p) * (t + 1))
    }
}

impl GramState {
    /// Returns the state before any row, for p features, t targets and `fold_count` folds, at least
    /// 1.
    pub fn new(p: usize, t: usize, fold_count: usize) -> Self {
        let folds = (0..fold_count.max(1)).map(|_| FoldGram::new(p, t)).collect();
        Self { p, t, folds, fold_rule: FoldRule::default(), precision: "f64", epsilon: f64::EPSILON }
    }

    pub(crate) fn with_fold_rule(self, fold_rule: FoldRule) -> Self {
        Self { fold_rule, ..self }
    }

    /// Returns the rule that decides which folds are held out.
    pub fn fold_rule(&self) -> FoldRule {
        self.fold_rule
    }

    /// Returns the bytes of a state for p features, t targets and `fold_count` folds.
    pub fn bytes(p: usize, t: usize, fold_count: usize) -> usize {
        fold_count.max(1).saturating_mul(8 * (p * p + p * (t + 1) + 2 * t))
    }

    /// Returns the number of features p.
    pub fn feature_count(&self) -> usize {
        self.p
    }

    /// Returns the number of targets t.
    pub fn target_count(&self) -> usize {
        self.t
    }

    /// Returns the moments of each fold.
    pub fn folds(&self) -> &[FoldGram] {
        &self.folds
    }

    /// Returns the sum of the moments of the training folds while the fold `held_out` is held out.
    /// If `held_out` is `None`, returns the sum over all folds of the final fit. A sum of several
    /// folds allocates 8p² bytes.
    pub fn training_moments(&self, held_out: Option<usize>) -> Cow<'_, FoldGram> {
        if let ([single_fold], None) = (&self.folds[..], held_out) {
            return Cow::Borrowed(single_fold);
        }
        let mut sum = FoldGram::new(self.p, self.t);
        let training_folds =
            self.folds.iter().enumerate().filter(|(fold, _)| self.fold_rule.is_training(held_out, *fold));
        training_folds.for_each(|(_, fold)| sum.add(fold));
        Cow::Owned(sum)
    }

    /// Returns the number of rows in all folds.
    pub fn row_count(&self) -> u64 {
        self.folds.iter().map(|fold| fold.row_count).sum()
    }

    /// Returns the sum of the weights of all rows.
    pub fn weight_sum(&self) -> f64 {
        self.folds.iter().map(|fold| fold.weight_sum).sum()
    }

    /// Returns the type of the features, `"f32"` or `"f64"`.
    pub fn precision(&self) -> &'static str {
        self.precision
    }

    /// Returns ε of the type of the features: the error of G_ij is about ε√(G_ii G_jj).
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Adds b rows of a fold: `phi` is b x p with contiguous columns, `y` b x t.
    ///
    /// Each strip of rows of G is computed by one thread, so the result does not depend on the
    /// number of threads.
    ///
    /// # Errors
    /// [`Error::Shape`] if `phi`, `y`, the fold and the state do not fit together.
    pub fn update<T: Real>(
        &mut self,
        fold: usize,
        phi: MatRef<'_, T>,
        y: MatRef<'_, f64>,
        scratch: &mut GramScratch<T>,
        workers: &Workers,
    ) -> Result<()> {
        self.update_weighted(fold, phi, y, None, scratch, workers)
    }

    /// Adds b rows of a fold whose `phi` and `y` are already multiplied by `sqrt_weights`, the
    /// square roots of the row weights. Returns the same errors as [`GramState::update`].
    pub(crate) fn update_weighted<T: Real>(
        &mut self,
        fold: usize,
        phi: MatRef<'_, T>,
        y: MatRef<'_, f64>,
        sqrt_weights: Option<&[f64]>,
        scratch: &mut GramScratch<T>,
        workers: &Workers,
    ) -> Result<()> {
        let (p, t, fold_count) = (self.p, self.t, self.folds.len());
        Error::check_dimension("columns of phi", p, phi.ncols())?;
        Error::check_dimension("columns of y", t, y.ncols())?;
        Error::check_dimension("rows of y", phi.nrows(), y.nrows())?;
        let fold_gram =
            self.folds.get_mut(fold).ok_or(Error::Shape { what: "fold", expected: fold_count, got: fold })?;
        if T::EPSILON > self.epsilon {
            (self.precision, self.epsilon) = (T::NAME, T::EPSILON);
        }
        if phi.nrows() == 0 {
            return Ok(());
        }
        fold_gram.row_count += phi.nrows() as u64;
        fold_gram.weight_sum +=
            sqrt_weights.map_or(phi.nrows() as f64, |sqrt_weights| sqrt_weights.iter().map(|root| root * root).sum());
        add_gram(&mut fold_gram.g, phi, &scratch.panels, workers);
        add_moments(fold_gram, phi, y, sqrt_weights, scratch, workers);
        Ok(())
    }
}

impl Merge for GramState {
    fn merge(&mut self, later: &Self) {
        debug_assert_eq!((self.p, self.t, self.folds.len()), (later.p, later.t, later.folds.len()));
        if later.epsilon > self.epsilon {
            (self.precision, self.epsilon) = (later.precision, later.epsilon);
        }
        for (fold, later_fold) in self.folds.iter_mut().zip(&later.folds).filter(|(_, theirs)| theirs.row_count > 0) {
            fold.add(later_fold);
        }
    }
}

kstore::persist!(FoldGram {
    one "rows": row_count,
    one "weight": weight_sum,
    fill "g": g,
    fill "s": s,
    fill "b": b,
    fill "sy": sy,
    fill "yy": yy,
});

impl Persist for GramState {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_number("epsilon", self.epsilon);
        for (i, fold) in self.folds.iter().enumerate() {
            out.put_part(&i.to_string(), |out| fold.save(out));
        }
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        self.epsilon = from.read_number("epsilon")?;
        self.precision = if self.epsilon > f64::EPSILON { "f32" } else { "f64" };
        for (i, fold) in self.folds.iter_mut().enumerate() {
            from.read_part(&i.to_string(), |from| fold.load(from))?;
        }
        Ok(())
    }
}

fn add_into(sums: &mut [f64], terms: &[f64]) {
    sums.iter_mut().zip(terms).for_each(|(to, from)| *to += from);
}

/// Adds phiᵀ·phi to the lower triangle of `g`, one strip of rows per task.
pub fn add_gram<T: Real>(g: &mut [f64], phi: MatRef<'_, T>, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
    let p = phi.ncols();
    let mut strips = row_strips(MatMut::from_column_major_slice_mut(g, p, p), gram::strip_height(p));
    // start with the strips that have the longest rows, so that the threads finish at about the
    // same time
    strips.reverse();
    workers.for_each(strips, |(first_row, g)| {
        // a cancelled pass discards the result, so the strip can be skipped
        if !workers.is_cancelled() {
            panels.with_buffer(GramBuffers::default, |panels| gram::add_rows(phi, first_row, g, panels));
        }
    });
}

/// Adds Σφ, Σφyᵀ, Σy and Σy² in f64: `[s b] += phiᵀ·[1 y]`, a few columns of phi at a time.
fn add_moments<T: Real>(
    fold_gram: &mut FoldGram,
    phi: MatRef<'_, T>,
    y: MatRef<'_, f64>,
    sqrt_weights: Option<&[f64]>,
    scratch: &mut GramScratch<T>,
    workers: &Workers,
) {
    let (b, p, t) = (phi.nrows(), phi.ncols(), y.ncols());
    scratch.weights_and_targets.clear();
    match sqrt_weights {
        Some(sqrt_weights) => scratch.weights_and_targets.extend(sqrt_weights),
        None => scratch.weights_and_targets.resize(b, 1.0),
    }
    for j in 0..t {
        let column = || y.col(j).iter().copied();
        scratch.weights_and_targets.extend(column());
        fold_gram.sy[j] += match sqrt_weights {
            Some(sqrt_weights) => column().zip(sqrt_weights).map(|(y, root)| y * root).sum::<f64>(),
            None => column().sum::<f64>(),
        };
        fold_gram.yy[j] += column().map(|y| y * y).sum::<f64>();
    }
    let right = MatRef::from_column_major_slice(&scratch.weights_and_targets, b, t + 1);
    let panel_len = MOMENT_PANEL_COLUMNS * (t + 1);
    scratch.products.resize(p * (t + 1), 0.0);
    let widened_pool = &scratch.panels_f64;
    for_each_strip(workers, &mut scratch.products, panel_len, |panel, out| {
        let panel_columns = out.len() / (t + 1);
        if t < MIN_TARGETS_TO_WIDEN {
            return dot_products(phi.subcols(panel * MOMENT_PANEL_COLUMNS, panel_columns), right, out);
        }
        widened_pool.with_buffer(Vec::new, |panel_f64| {
            panel_f64.resize(panel_f64.len().max(b * panel_columns), 0.0);
            copy_as_f64(phi.subcols(panel * MOMENT_PANEL_COLUMNS, panel_columns), &mut panel_f64[..b * panel_columns]);
            let left = MatRef::from_column_major_slice(&panel_f64[..b * panel_columns], b, panel_columns);
            let out = MatMut::from_column_major_slice_mut(out, panel_columns, t + 1);
            matmul(out, Accum::Replace, left.transpose(), right, 1.0, Par::Seq);
        });
    });
    for (panel, products) in scratch.products.chunks(panel_len).enumerate() {
        let (first_column, panel_columns) = (panel * MOMENT_PANEL_COLUMNS, products.len() / (t + 1));
        let (s, target_products) = products.split_at(panel_columns);
        add_into(&mut fold_gram.s[first_column..first_column + panel_columns], s);
        for (j, column) in target_products.chunks_exact(panel_columns).enumerate() {
            add_into(&mut fold_gram.b[j * p + first_column..j * p + first_column + panel_columns], column);
        }
    }
}

/// Minimum number of targets for which the product phiᵀy converts phi to f64 first. With fewer
/// targets, it reads phi directly. With one target, the conversion and the product took a tenth of
/// the time of a fit; the direct product takes a fiftieth.
const MIN_TARGETS_TO_WIDEN: usize = 4;
