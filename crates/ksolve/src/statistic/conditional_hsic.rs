//! Conditional independence: do two sets of columns A and B depend on each other, given the columns
//! C?
//!
//! Let phi (p features), psi (q features) and chi (r features) be the centred features of A, B and
//! C in a row. The residuals of phi and psi are their parts that ridge regression on chi does not
//! predict; a and b are their leading principal components, d for each set:
//!
//! ```text
//! a = Uᵀ(phi − W_Aᵀ chi),   W_A = (C_χχ + λ_A I)⁻¹ C_χφ,   U the leading eigenvectors of the
//!                                                           covariance of the residuals
//! biased    ‖(1/n) Σ a bᵀ‖²_F = |mean of the products a ⊗ b|²
//! unbiased  (n² biased − Σ|a|²|b|²)/(n(n − 1))
//! ```
//!
//! If A and B are independent given C and the regressions find the conditional means, the products
//! a ⊗ b are independent vectors of mean zero. By the central limit theorem, n times the biased
//! statistic tends in distribution to Σ λ_l z_l², where λ_l are the d² eigenvalues of the
//! covariance of the products and the z_l are independent standard normal variables. This holds
//! even if the conditional variances of a and b depend on C.
//!
//! The errors of the two regressions enter the mean of the products as their product. The test
//! keeps its level if this product is o(1/√n), so each regression may be as slow as n^(−1/4) (Shah,
//! Peters). The bias of the regressions must be smaller than the bias that is best for prediction.
//! Therefore λ is a tenth of the minimiser of generalised cross-validation.
//!
//! The residuals of n rows vary in fewer than n directions, so that the covariance of the products
//! underestimates the variance of their mean. The statistic is multiplied by the ratio of the two
//! ([`GivenSpectrum::variance_ratio`]) before it is compared with the limit distribution.
//!
//! Permutations of the rows would destroy the dependence of A and B on C, so no p-value uses them.
//!
//! `correlation` is an effect size. One random half of the rows determines the functions uᵀa and
//! vᵀb with the largest covariance, the other half their correlation; the result is the mean over
//! both halves.
//!
//! *Passes*: one over the rows for the features and their second moments, one over the stored or
//! recomputed features for the products. *Flops*: the maps, n(p + q + r)² for the moments,
//! 4n(p + q + r)d for the components, nd⁴ for the products, 9r³ and 4d⁶/3 for the spectra. *Bytes*:
//! the features if they fit, 13(p + q + r)² and 4d⁴ numbers.
//!
//! References: Zhang, Peters, Janzing, Schölkopf, "Kernel-based conditional independence test and
//! application in causal discovery", UAI 2011; Strobl, Zhang, Visweswaran, "Approximate
//! kernel-based conditional independence tests for fast non-parametric causal discovery", Journal
//! of Causal Inference 7, 2019; Shah, Peters, "The hardness of conditional independence testing and
//! the generalised covariance measure", Annals of Statistics 48, 2020.

use super::null_distribution::ChiSquaredSum;
use super::residual_components::{GivenSpectrum, ResidualComponents};
use super::{ConditionalFigures, PValues, TestStatistic, require_rows};
use crate::features::{FitData, GatherOptions, STATES_PER_REDUCTION, StoredFeatures, Tile};
use crate::gram::{GramScratch, GramState, covariance};
use crate::linalg::strips::for_each_strip;
use crate::request::{ProblemSize, TrainOptions};
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::decompose::{symmetric_eigenvalues, thin_svd};
use kapprox::{Kernel, Real};
use kstore::key::{Purpose, Stream};
use kstore::{MemoryPlan, Workers};

/// Name of the statistic that can condition on columns.
pub(super) const STATISTIC: &str = super::hsic::FAMILY.name;

/// Default number of principal components of the residuals of each set. The kernels' spectra fall
/// so fast that further components change neither level nor power by much; with more components,
/// the products outnumber the rows of small tables.
#[doc(hidden)]
pub const DEFAULT_COMPONENTS: usize = 10;

/// Returns the default number of features of C for a table with this many stored rows: a tenth of
/// the rows, between 300 and 2,000.
///
/// The error of the regressions that the statistic detects falls with 1/√n, but the error of too
/// few features does not. For squares of a sum of three columns plus noise, 300 features of 10,000
/// rows gave a correlation of 0.18 of independent columns, and 1,000 features one of 0.02.
#[doc(hidden)]
pub fn default_given_rank(row_count: u64) -> usize {
    usize::try_from(row_count / 10).unwrap_or(usize::MAX).clamp(300, 2000)
}

/// The columns C on which a test conditions, and the regressions on their features.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Conditioning {
    /// Kernel on the columns C.
    pub kernel: Kernel,
    /// Number of features of C.
    pub rank: usize,
    /// Ridge penalty on the covariance of the features of C; `None` for generalised
    /// cross-validation.
    pub lambda: Option<f64>,
    /// Maximum number of principal components of the residuals of each set.
    pub components: usize,
}

impl Conditioning {
    /// Returns the options of the map of C, with all other options of the test.
    pub(super) fn train_options(&self, options: &TrainOptions) -> TrainOptions {
        TrainOptions { kernel: self.kernel.clone(), second_kernel: None, rank: self.rank, ..options.clone() }
    }
}

/// Returns the size of the problem with the features of C in addition. All maps are in memory at
/// the same time.
pub(super) fn with_given_map(size: ProblemSize, given: &ProblemSize) -> ProblemSize {
    let mut map = size.map;
    map.p += given.map.p;
    map.build_bytes = map.build_bytes.max(map.footprint.fixed + given.map.build_bytes);
    map.footprint = map.footprint + given.map.footprint;
    map.landmark_count = map.landmark_count.max(given.map.landmark_count);
    ProblemSize {
        map,
        landmark_count: size.landmark_count.max(given.landmark_count),
        scheme_bytes: size.scheme_bytes.max(given.scheme_bytes),
        ..size
    }
}

/// Number of rows whose products are computed at once. Chosen: 2,048 rows of 100 products take
/// 800 KB in f32.
const PRODUCT_ROWS: usize = 2048;

/// Fraction of the variance that the residuals must keep for a reliable test. With less, errors of
/// the regression are as large as the residuals.
const MIN_RESIDUAL_FRACTION: f64 = 1e-3;

pub(super) fn plan<T: Real>(plan: MemoryPlan, size: &ProblemSize, conditioning: &Conditioning) -> MemoryPlan {
    let (p, components) = (size.map.p, conditioning.components.min(size.map.p));
    let product_count = components.saturating_mul(components);
    let row_bytes = (2 * components + product_count).saturating_mul(size.element_bytes) + 8;
    let products = STATES_PER_REDUCTION
        .saturating_mul(8)
        .saturating_mul(product_count.saturating_mul(product_count))
        .saturating_add(GramScratch::<T>::bytes(product_count, 1, PRODUCT_ROWS, size.threads));
    plan.term("covariances and regressions", 5 * 8 * p * p, "lower `given_rank`, or `rank`")
        .term("components of a tile", PRODUCT_ROWS.saturating_mul(row_bytes), "lower `components`")
        .term("second moments of the products", products, "lower `components`")
}

/// Measures the statistic of features that consist of p features of A, q features of B, and the
/// features of C.
pub(super) fn measure<T: Real>(
    data: &FitData<'_, T>,
    [p, q]: [usize; 2],
    conditioning: &Conditioning,
) -> Result<TestStatistic> {
    require_rows("hsic with `given`", 10, data.n)?;
    let (stored_features, gathered) =
        StoredFeatures::gather(data, GatherOptions { needs_moments: true, ..GatherOptions::default() })?;
    let n = stored_features.n as f64;
    let moments = gathered.moments.as_ref().ok_or(Error::NoVariance)?;
    let moment_sums = &moments.folds()[0];
    let mean: Vec<f64> = moment_sums.s.iter().map(|s| s / n).collect();
    let joint = covariance(moment_sums, &mean);
    let r = stored_features.p - p - q;
    let given = GivenSpectrum::new(joint.submatrix(p + q, p + q, r, r), moments.epsilon())?;
    let residuals_of = |option: &'static str, first: usize, count: usize| {
        let own_covariance = joint.submatrix(first, first, count, count);
        let cross_covariance = joint.submatrix(p + q, first, r, count);
        let residuals = given.residuals(option, own_covariance, cross_covariance, n, conditioning)?;
        let unexplained = 1.0 - residuals.explained;
        if unexplained < MIN_RESIDUAL_FRACTION {
            data.resources.stage_observer.warn(format!(
                "the columns of `given` explain all but {unexplained:.1e} of the variance of the columns of `{option}`: \
                 the residuals may be errors of the regression, and small p-values are then unreliable"
            ));
        }
        Ok::<_, Error>(residuals)
    };
    let sets = [residuals_of("features", 0, p)?, residuals_of("with", p, q)?];
    let state = product_moments(data, &stored_features, &sets, &component_weights(&sets, &mean, [p, q, r]))?;
    drop(stored_features);
    let variance_ratio = given.variance_ratio(n, sets.each_ref().map(|set| set.lambda));
    statistic(&state, &sets, variance_ratio)
}

/// The components of a row as a function of its features: weights (all features x all components,
/// row-major) and offsets, which are the components of the mean.
struct ComponentWeights<T> {
    weights: Vec<T>,
    offsets: Vec<f64>,
}

fn component_weights<T: Real>(
    [first, second]: &[ResidualComponents; 2],
    mean: &[f64],
    [p, q, r]: [usize; 3],
) -> ComponentWeights<T> {
    let (first_count, count) = (first.count(), first.count() + second.count());
    let weight = |feature: usize, component: usize| -> f64 {
        let (set, start, size, component) = match component < first_count {
            true => (first, 0, p, component),
            false => (second, p, q, component - first_count),
        };
        match feature {
            feature if (start..start + size).contains(&feature) => set.own_weights[(feature - start, component)],
            feature if feature >= p + q => -set.given_weights[(feature - p - q, component)],
            _ => 0.0,
        }
    };
    let feature_count = p + q + r;
    let offsets =
        (0..count).map(|component| (0..feature_count).map(|i| weight(i, component) * mean[i]).sum()).collect();
    let weights = (0..feature_count * count).map(|index| T::from_f64(weight(index / count, index % count))).collect();
    ComponentWeights { weights, offsets }
}

/// Sums the products a ⊗ b and their second moments, in one pass over the features. The target of
/// the sums is 1 for the rows of a random half, and 0 for other rows.
fn product_moments<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
    [first, second]: &[ResidualComponents; 2],
    weights: &ComponentWeights<T>,
) -> Result<GramState> {
    let (counts, workers) = ([first.count(), second.count()], stored_features.workers());
    let product_count = counts[0] * counts[1];
    let halves = Stream::new(data.options.seed, Purpose::Folds, 0);
    let mut state = GramState::new(product_count, 1, 1);
    let mut scratch = GramScratch::default();
    let (mut components, mut products): (Vec<T>, Vec<T>) = Default::default();
    let observer =
        data.resources.stage_observer.start_stage("products of the residuals", Some(stored_features.n as u64));
    stored_features.visit(&*observer, |tile| {
        components.resize(tile.row_count() * weights.offsets.len(), T::ZERO);
        tile_components(tile, weights, &mut components, workers);
        for (chunk, rows) in components.chunks(PRODUCT_ROWS * weights.offsets.len()).enumerate() {
            let row_count = rows.len() / weights.offsets.len();
            products.resize(row_count * product_count, T::ZERO);
            multiply_components(rows, counts, &mut products, workers);
            let first_row = tile.first_row + chunk * PRODUCT_ROWS;
            let half = |row: usize| halves.uniform_below(row as u64, 2) as f64;
            let labels: Vec<f64> = (first_row..first_row + row_count).map(half).collect();
            let products = MatRef::from_column_major_slice(&products, row_count, product_count);
            let labels = MatRef::from_column_major_slice(&labels, row_count, 1);
            state.update(0, products, labels, &mut scratch, workers)?;
        }
        Ok(())
    })?;
    Ok(state)
}

/// Computes the components of the rows of a tile, row-major.
fn tile_components<T: Real>(
    tile: &Tile<'_, T>,
    ComponentWeights { weights, offsets }: &ComponentWeights<T>,
    components: &mut [T],
    workers: &Workers,
) {
    tile.multiply(weights, components, workers);
    for row in components.chunks_exact_mut(offsets.len()) {
        row.iter_mut().zip(offsets).for_each(|(value, offset)| *value = T::from_f64(value.to_f64() - offset));
    }
}

/// Computes the products of the components of both sets in every row: `products` is column-major,
/// with the column i·d_B + j for the product of components i and j.
fn multiply_components<T: Real>(
    components: &[T],
    [first_count, second_count]: [usize; 2],
    products: &mut [T],
    workers: &Workers,
) {
    let count = first_count + second_count;
    let row_count = components.len() / count;
    for_each_strip(workers, products, row_count * second_count, |i, columns| {
        for (j, column) in columns.chunks_exact_mut(row_count).enumerate() {
            for (product, row) in column.iter_mut().zip(components.chunks_exact(count)) {
                *product = row[i] * row[first_count + j];
            }
        }
    });
}

/// Computes the statistic, its p-values and its effect size from the moments of the products.
fn statistic(state: &GramState, sets: &[ResidualComponents; 2], variance_ratio: f64) -> Result<TestStatistic> {
    let sums = &state.folds()[0];
    let (n, product_count) = (sums.row_count as f64, sums.s.len());
    let mean: Vec<f64> = sums.s.iter().map(|sum| sum / n).collect();
    let biased: f64 = mean.iter().map(|mean| mean * mean).sum();
    let squares: f64 = (0..product_count).map(|i| sums.g[i * product_count + i]).sum();
    let product_covariance = covariance(sums, &mean);
    let null_mean: f64 = (0..product_count).map(|i| product_covariance[(i, i)]).sum();
    let null_variance = 2.0 * product_covariance.squared_norm_l2();
    let eigenvalues = symmetric_eigenvalues(product_covariance.as_ref())?;
    let scaled_statistic = variance_ratio * n * biased;
    let p_values = PValues {
        permutation: None,
        spectrum: ChiSquaredSum::from_weights(eigenvalues).survival(scaled_statistic),
        gamma: ChiSquaredSum::gamma(null_mean, null_variance).survival(scaled_statistic),
    };
    let variance_norm = |set: &ResidualComponents| set.variances.iter().map(|v| v * v).sum::<f64>().sqrt();
    let norm_product = variance_norm(&sets[0]) * variance_norm(&sets[1]);
    let conditional = ConditionalFigures {
        correlation: held_out_correlation(&sums.s, &sums.b, [n - sums.sy[0], sums.sy[0]], sets)?,
        explained: sets.each_ref().map(|set| set.explained),
        lambdas: sets.each_ref().map(|set| set.lambda),
        degrees_of_freedom: sets.each_ref().map(|set| set.degrees_of_freedom),
        components: sets.each_ref().map(ResidualComponents::count),
    };
    Ok(TestStatistic {
        biased,
        unbiased: (n * n * biased - squares) / (n * (n - 1.0)),
        alignment: (norm_product > 0.0).then(|| (biased / norm_product).clamp(0.0, 1.0)),
        p_values,
        conditional: Some(conditional),
        ..TestStatistic::default()
    })
}

/// Returns the correlation of uᵀa and vᵀb on one half of the rows, where u and v have the largest
/// covariance on the other half; the mean over both halves. `sums` are the sums of the products
/// over all rows, `half_sums` over the rows of the second half.
fn held_out_correlation(
    sums: &[f64],
    half_sums: &[f64],
    row_counts: [f64; 2],
    sets: &[ResidualComponents; 2],
) -> Result<Option<f64>> {
    if row_counts.contains(&0.0) {
        return Ok(None);
    }
    let [first_count, second_count] = sets.each_ref().map(ResidualComponents::count);
    let mean_products = |half: usize| {
        Mat::from_fn(first_count, second_count, |i, j| {
            let index = i * second_count + j;
            let sum = if half == 0 { sums[index] - half_sums[index] } else { half_sums[index] };
            sum / row_counts[half]
        })
    };
    let covariances = [mean_products(0), mean_products(1)];
    let mut correlation = 0.0;
    for (learned, measured) in [(0, 1), (1, 0)] {
        let (u, _, v) = thin_svd(covariances[learned].as_ref())?;
        let (u, v) = (u.col(0), v.col(0));
        let variance = |direction: faer::ColRef<'_, f64>, variances: &[f64]| -> f64 {
            direction.iter().zip(variances).map(|(weight, variance)| weight * weight * variance).sum()
        };
        let scale = (variance(u, &sets[0].variances) * variance(v, &sets[1].variances)).sqrt();
        let image = &covariances[measured] * v;
        let held_out: f64 = u.iter().zip(image.iter()).map(|(u, image)| u * image).sum();
        if scale > 0.0 {
            correlation += 0.5 * held_out / scale;
        }
    }
    Ok(Some(correlation.clamp(-1.0, 1.0)))
}
