//! The maximum mean discrepancy of several kernels and length scales, so that none must be chosen.
//!
//! A test with one kernel finds differences of about its length scale, and the median distance
//! misses finer differences. Here each kernel is compared with the same B random labellings of the
//! rows. For labelling j (0 is the observed labelling) and kernel l with the statistic s_lj,
//!
//! ```text
//! p_lj = #{j' : s_lj' ≥ s_lj}/(B + 1)     the p-value of labelling j with kernel l alone
//! t_j  = min_l p_lj
//! p    = #{j : t_j ≤ t_0}/(B + 1)         the p-value of the test
//! ```
//!
//! Under the null hypothesis all B + 1 labellings are exchangeable, and so are the t_j. The level
//! is therefore exact for any number of rows, however dependent the kernels are. The test rejects
//! if and only if a kernel exceeds its own quantile at a level that is corrected for the number of
//! kernels. It is the aggregated test of Schrab et al. with equal weights, where the same
//! permutations estimate the quantiles and the correction.
//!
//! The kernels have the length scales of [`LENGTH_FACTORS`] times the median distance. The features
//! of all maps are concatenated, so that the rows are read as often as with one kernel, except for
//! one sample of candidates per map. *Flops and bytes*: as [`mmd`] with the features of all maps,
//! without second moments.
//!
//! References: Schrab, Kim, Albert, Laurent, Guedj, Gretton, "MMD aggregated two-sample test", JMLR
//! 24, 2023; Westfall, Young, *Resampling-Based Multiple Testing*, 1993.

use super::random_labels::smallest_p_value;
use super::table_test::TestMaps;
use super::{PValues, TestStatistic, mmd};
use crate::features::FitData;
use crate::prepare::map_builder::{BuiltMap, MapBuilder};
use crate::request::{ProblemSize, TrainOptions};
use crate::stacked_maps::StackedMaps;
use crate::{Error, Result};
use kapprox::{Kernel, Real};
use kstore::MemoryPlan;

/// Length scales of each kernel, in multiples of the resolved length scale.
const LENGTH_FACTORS: [f64; 5] = [0.125, 0.25, 0.5, 1.0, 2.0];

/// Returns the number of maps of some kernels.
fn map_count(kernels: &[Kernel]) -> usize {
    kernels.len() * LENGTH_FACTORS.len()
}

/// Returns the size of the problem with the features of all maps, which are in memory at the same
/// time. `size` is the size of the problem with one map.
pub(super) fn with_all_maps(size: ProblemSize, kernels: &[Kernel]) -> ProblemSize {
    let mut map = size.map;
    for _ in 1..map_count(kernels) {
        map.p += size.map.p;
        map.build_bytes = map.build_bytes.max(map.footprint.fixed + size.map.build_bytes);
        map.footprint = map.footprint + size.map.footprint;
    }
    ProblemSize { map, ..size }
}

pub(super) fn plan(plan: MemoryPlan, kernels: &[Kernel], permutation_count: usize) -> MemoryPlan {
    let labelling_bytes = (3 * map_count(kernels) + 1) * size_of::<f64>();
    plan.term(
        "statistics of all kernels",
        permutation_count.saturating_add(1).saturating_mul(labelling_bytes),
        "lower `permutations`",
    )
}

/// Checks the options of an aggregated test.
pub(super) fn check(options: &TrainOptions, permutation_count: usize) -> Result<()> {
    if options.map.is_exact_kernel() {
        return Err(Error::option("map", "exact", "an aggregated test needs a feature map; leave it out"));
    }
    match permutation_count {
        0 => Err(Error::option("permutations", 0, "an aggregated test has no limit distribution; leave it out")),
        _ => Ok(()),
    }
}

/// Builds a map for each kernel and length scale.
pub(super) fn build_maps<T: Real>(kernels: &[Kernel], builder: &MapBuilder<'_, T>) -> Result<TestMaps<T>> {
    let with_kernel = |kernel: Kernel| TrainOptions { kernel, ..builder.options.clone() };
    let (mut maps, mut built_kernels, mut ranks, mut all_passes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for kernel in kernels {
        let options = with_kernel(kernel.clone());
        let (resolved_kernel, passes) = MapBuilder { options: &options, ..*builder }.resolve_kernel()?;
        all_passes += passes;
        for factor in LENGTH_FACTORS {
            let options = with_kernel(resolved_kernel.with_scaled_lengths(factor)?);
            let BuiltMap { map, kernel, passes, .. } = MapBuilder { options: &options, ..*builder }.build()?;
            ranks.push(map.dims().1);
            maps.push(map);
            built_kernels.push(kernel);
            all_passes += passes;
        }
    }
    Ok(TestMaps { map: Box::new(StackedMaps(maps)), kernels: built_kernels, ranks, passes: all_passes })
}

/// Measures the statistic of features that consist of the features of each map. The biased and the
/// unbiased statistic and the area under the ROC curve are for the sum of the kernels.
pub(super) fn measure<T: Real>(
    data: &FitData<'_, T>,
    first_row_count: usize,
    permutation_count: usize,
    ranks: &[usize],
) -> Result<TestStatistic> {
    let sums = mmd::sample_sums(data, first_row_count, permutation_count, false)?;
    let mut first_feature = 0;
    let statistics_of = |rank: &usize| {
        let features = first_feature..first_feature + rank;
        first_feature = features.end;
        (0..=permutation_count).map(|labelling| sums.squared_distance(&features, labelling)).collect::<Vec<f64>>()
    };
    let statistics: Vec<Vec<f64>> = ranks.iter().map(statistics_of).collect();
    let (p_value, kernel_p_values) = smallest_p_value(&statistics);
    let (biased, unbiased) = sums.statistic(0);
    let p_values = PValues { permutation: Some(p_value), ..PValues::default() };
    Ok(TestStatistic { biased, unbiased, auc: sums.auc, p_values, kernel_p_values, ..TestStatistic::default() })
}
