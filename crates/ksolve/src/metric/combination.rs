//! A weighted sum of kernels, learned from a target by centred alignment.
//!
//! Let kernel k have the n x n matrix K_k and the features Φ_k (n x p_k, K_k ≈ Φ_kΦ_kᵀ), let y hold
//! the targets of the n rows, and let H = I − 11ᵀ/n be the centring matrix. With the centred
//! features Φ̃_k = HΦ_k and the centred targets ỹ = Hy, the weights μ_k of the kernels solve
//!
//! ```text
//! min_{μ ≥ 0} μᵀMμ − 2μᵀa
//! M_kl = ⟨HK_kH, HK_lH⟩ = ‖Φ̃_kᵀΦ̃_l‖²_F,     a_k = ⟨HK_kH, yyᵀ⟩ = ‖Φ̃_kᵀỹ‖²
//! ```
//!
//! This solution maximises the alignment of Σ μ_k K_k with the target. Afterwards the weights are
//! divided by their sum. The learned sum is an ordinary kernel expression: the sum of the kernels
//! with the weights μ_k, where Σ μ_k = 1. The number of kernels is small, so every support (set of
//! positive weights) is tried: the minimum is the best of the solutions without a negative weight.
//! For several targets or for classes, a_k is the sum over the targets or over the ±1 codes of the
//! classes.
//!
//! *Passes*: one for the statistics, the passes of each kernel's map, and one for the moments.
//! *Flops*: the flops of the maps, and n(Σ p_k)² for the moments. *Bytes*: about 8(Σ p_k)².
//!
//! Reference: Cortes, Mohri, Rostamizadeh, "Algorithms for learning kernels based on centered
//! alignment", JMLR 13, 2012.

use crate::alignment::CentredProducts;
use crate::combination_report::Combination;
use crate::prepare::map_builder::MapBuilder;
use crate::prepare::stage_plans;
use crate::prepare::survey::survey;
use crate::prepare::target_counts::{check_plans, count_targets_and_folds};
use crate::request::{MetricSource, PassShape, ProblemSize, Resources, Stage, TrainOptions};
use crate::{Error, FoldSpec, Folds, GramState, MomentReduction, Result, stacked_maps::StackedMaps};
use faer::{Mat, Side, prelude::*};
use kapprox::{Kernel, Real};
use kstore::SelectedTable;
use std::ops::Range;

/// Maximum number of kernels. It is small, because every subset of the kernels is tried.
const MAX_KERNELS: usize = 10;

/// Maximum rank of each kernel's map in a combination. A low rank suffices, because the leading
/// directions of the features contain most of the alignment.
const MAX_COMBINED_RANK: usize = 300;

/// Learns the weights of a sum of kernels on the selected rows; ignores the kernel of the options.
///
/// # Errors
/// Fewer than two kernels or more than ten; a plan that exceeds the budget; kernels that are all
/// unrelated to the target.
pub fn combine<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    kernels: &[Kernel],
    resources: &Resources<'_>,
) -> Result<Combination> {
    check_options(options, kernels)?;
    // not journaled: a resumed run learns the weights again, because that is fast compared with the
    // fit
    let resources = &Resources { journal: None, ..*resources };
    let (t, _) = count_targets_and_folds(selected, options, resources)?;
    let (pass_shape, plans) =
        plan_stages::<T>(selected, &options_for(options, &kernels[0]), kernels.len(), t, resources)?;
    check_plans(plans)?;
    let survey = survey(selected, options, pass_shape, resources)?;
    let (source, targets) = (selected.rows::<T>(survey.read_settings())?, survey.regression_targets());
    let (mut maps, mut resolved_kernels, mut feature_ends, mut passes) = (Vec::new(), Vec::new(), Vec::new(), 2);
    for kernel in kernels {
        let (n, read_settings, options) = (survey.row_count(), &survey.read_settings(), &options_for(options, kernel));
        let built_map = MapBuilder { source: &source, n, read_settings, options, pass_shape, resources }.build()?;
        passes += built_map.passes;
        resolved_kernels.push(built_map.kernel);
        feature_ends.push(feature_ends.last().unwrap_or(&0) + built_map.map.dims().1);
        maps.push(built_map.map);
    }
    let stacked_maps = StackedMaps(maps);
    let folds = Folds::new(&FoldSpec::None, options.seed, selected.range(), &[])?;
    let reduction =
        MomentReduction::new(&stacked_maps, &folds, &targets).with_bin_rows(pass_shape.tile_rows).without_certificate();
    let name = "kernels and the target";
    let observer = resources.stage_observer.start_stage(name, Some(survey.row_count()));
    let state = pass_shape.pass(pass_shape.gram_lanes, resources, &*observer).reduce(&source, &reduction)?.0;
    drop(observer);
    combination_of_moments(&state.gram, &feature_ends, resolved_kernels, passes)
}

/// Returns the stages of learning a combination, for the plan that also contains the fit. If there
/// are labels, this function reads them.
pub(crate) fn forecast<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    kernels: &[Kernel],
    resources: &Resources<'_>,
) -> Result<Vec<Stage>> {
    check_options(options, kernels)?;
    let kernel_options: Vec<TrainOptions> = kernels.iter().map(|kernel| options_for(options, kernel)).collect();
    let (t, _) = count_targets_and_folds(selected, &kernel_options[0], resources)?;
    let plans = plan_stages::<T>(selected, &kernel_options[0], kernels.len(), t, resources)?.1;
    // passes of the stages: statistics, landmarks, maps, joint moments, weights
    let mut passes = [1, 0, 0, 1, 0];
    for options in &kernel_options {
        let [selection_passes, build_passes] = options.map_passes();
        // an `auto` length scale is the median distance here; if landmark selection draws no
        // sample, the median needs a sample of its own
        passes[1] += selection_passes + u64::from(options.searches_length_scale() && options.candidates.is_none());
        passes[2] += build_passes;
    }
    let stage = |(plan, passes): (kstore::MemoryPlan, u64)| {
        let plan = kstore::MemoryPlan { stage: format!("combination: {}", plan.stage), ..plan };
        Stage { plan, passes }
    };
    Ok(plans.into_iter().zip(passes).map(stage).collect())
}

fn options_for(options: &TrainOptions, kernel: &Kernel) -> TrainOptions {
    let (kernel, rank) = (kernel.clone(), options.rank.min(MAX_COMBINED_RANK));
    TrainOptions { kernel, rank, ranks: vec![rank], tolerance: None, folds: FoldSpec::None, ..options.clone() }
}

fn check_options(options: &TrainOptions, kernels: &[Kernel]) -> Result<()> {
    let reject = |why: String| Err(Error::option("combine", format!("{} kernels", kernels.len()), why));
    if !options.task.has_target() {
        return reject("weights are learned from a target, and this solver has none; give one `kernel`".to_string());
    }
    if options.metric != MetricSource::None {
        return reject("a metric is learned for one kernel only; leave out `combine` or `metric`".to_string());
    }
    if options.map.is_exact_kernel() {
        return reject("they are compared by the features of a map; use a map such as nystrom".to_string());
    }
    match kernels.len() {
        0 | 1 => reject("expected at least two kernels, separated by commas".to_string()),
        n if n > MAX_KERNELS => {
            reject(format!("expected at most {MAX_KERNELS} kernels: every subset of them is tried"))
        }
        _ => Ok(()),
    }
}

/// Returns the pass shape and the plans of the stages. The moments are planned for the features of
/// all maps together.
fn plan_stages<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    kernel_count: usize,
    t: usize,
    resources: &Resources<'_>,
) -> Result<(PassShape, Vec<kstore::MemoryPlan>)> {
    let mut size = ProblemSize::from_selected::<T>(selected, options, resources.workers.threads(), t, 1)?;
    let map = &mut size.map;
    map.p *= kernel_count;
    map.build_bytes += (kernel_count - 1) * map.footprint.fixed;
    map.footprint = (1..kernel_count).fold(map.footprint, |sum, _| sum + map.footprint);
    let plan_solver = |pass_shape| stage_plans::plan_solve(&size, pass_shape, resources.memory);
    Ok(stage_plans::select_pass_shape(&size, &plan_solver, resources.memory))
}

/// Computes the weights from the joint moments of all features. Kernel k has the features from
/// `feature_ends[k − 1]` (0 for the first kernel) to `feature_ends[k]`.
fn combination_of_moments(
    gram: &GramState,
    feature_ends: &[usize],
    kernels: Vec<Kernel>,
    passes: u64,
) -> Result<Combination> {
    let (moments, kernel_count) = (CentredProducts::new(gram, gram.feature_count()), feature_ends.len());
    let features_of = |k: usize| -> Range<usize> { (if k == 0 { 0 } else { feature_ends[k - 1] })..feature_ends[k] };
    let inner_products = Mat::from_fn(kernel_count, kernel_count, |k, l| {
        let (k, l) = (k.max(l), k.min(l));
        features_of(l)
            .map(|j| features_of(k).map(|i| moments.feature_product(i.max(j), i.min(j)).powi(2)).sum::<f64>())
            .sum::<f64>()
    });
    let target_product = |k: usize| -> f64 {
        (0..gram.target_count())
            .map(|c| features_of(k).map(|i| moments.target_product(i, c).powi(2)).sum::<f64>())
            .sum()
    };
    let target_products: Vec<f64> = (0..kernel_count).map(target_product).collect();
    let squared_deviations =
        moments.sy.iter().enumerate().map(|(c, sy)| moments.sum_over_folds(|fold| fold.yy[c]) - sy * sy / moments.n);
    let target_norm: f64 = squared_deviations.map(|square| square.max(0.0)).sum();
    // the alignment of K with the target is ⟨HKH, yyᵀ⟩/(‖HKH‖_F ‖ỹ‖²)
    let alignment_of = |inner_product: f64, squared_norm: f64| {
        if squared_norm > 0.0 && target_norm > 0.0 { inner_product / (squared_norm.sqrt() * target_norm) } else { 0.0 }
    };
    let weights = nonnegative_minimum(&inner_products, &target_products);
    let weight_sum: f64 = weights.iter().sum();
    if weight_sum.is_nan() || weight_sum <= 0.0 {
        let why = "none of them is correlated with the target; check the target and the kernels";
        return Err(Error::option("combine", format!("{kernel_count} kernels"), why));
    }
    let weights: Vec<f64> = weights.iter().map(|weight| weight / weight_sum).collect();
    let used_kernels = weights.iter().zip(&kernels).filter(|(weight, _)| **weight > 0.0);
    let expression =
        used_kernels.map(|(weight, kernel)| format!("{weight:e}*({kernel})")).collect::<Vec<_>>().join(" + ");
    let squared_norm = (0..kernel_count)
        .map(|k| (0..kernel_count).map(|l| weights[k] * weights[l] * inner_products[(k, l)]).sum::<f64>())
        .sum();
    let weighted_product = weights.iter().zip(&target_products).map(|(weight, a)| weight * a).sum();
    Ok(Combination {
        kernels: kernels.iter().map(ToString::to_string).collect(),
        alignments: (0..kernel_count).map(|k| alignment_of(target_products[k], inner_products[(k, k)])).collect(),
        alignment: alignment_of(weighted_product, squared_norm),
        weights,
        passes,
        kernel: Kernel::parse(&expression)?,
    })
}

/// Returns the μ ≥ 0 that minimises μᵀMμ − 2μᵀa: solves the problem on every support (set of
/// positive weights), and returns the best solution without a negative weight. If every solution
/// has a negative weight, returns zeros.
fn nonnegative_minimum(m: &Mat<f64>, a: &[f64]) -> Vec<f64> {
    let (count, mut best, mut best_objective) = (a.len(), vec![0.0; a.len()], 0.0);
    // M is scaled to a diagonal of 1, because the magnitudes of the kernels may differ
    let scale: Vec<f64> = (0..count).map(|k| m[(k, k)].max(0.0).sqrt()).collect();
    for subset in 1u32..1 << count {
        let support: Vec<usize> = (0..count).filter(|k| subset >> k & 1 == 1 && scale[*k] > 0.0).collect();
        if support.len() != subset.count_ones() as usize {
            continue;
        }
        let submatrix = Mat::from_fn(support.len(), support.len(), |i, j| {
            m[(support[i], support[j])] / scale[support[i]] / scale[support[j]]
        });
        // the kernels of this support are linearly dependent: a smaller support gives the same sum
        let Ok(factor) = submatrix.llt(Side::Lower) else { continue };
        let rhs = Mat::from_fn(support.len(), 1, |i, _| a[support[i]] / scale[support[i]]);
        let solution = factor.solve(&rhs);
        // −objective is the minimum of μᵀMμ − 2μᵀa on this support
        let objective: f64 = (0..support.len()).map(|i| solution[(i, 0)] * rhs[(i, 0)]).sum();
        let is_nonnegative = (0..support.len()).all(|i| solution[(i, 0)].is_finite() && solution[(i, 0)] >= 0.0);
        if is_nonnegative && objective > best_objective {
            best_objective = objective;
            best.fill(0.0);
            support.iter().enumerate().for_each(|(i, k)| best[*k] = solution[(i, 0)] / scale[*k]);
        }
    }
    best
}
