//! Target features, for solvers with a kernel on the target: a Nyström map whose landmarks are
//! selected from a sample of the targets.

use super::parameter::{COMPONENTS, Parameter, ParameterKind};
use crate::features::{FitData, RowValues};
use crate::prepare::reduction_fn::ReductionFn;
use crate::{Error, FoldGram, Result, Task, request::ProblemSize, solver::reject_if};
use faer::{MatMut, MatRef};
use kapprox::kernel::{Kernel, KernelFunction};
use kapprox::landmark::{LandmarkSet, NO_ROW};
use kapprox::matrix::{self, PsdMatrix};
use kapprox::{NystromMap, Real};
use kstore::key::{Purpose, Stream};
use kstore::{MemoryPlan, RowBlock, Workers};
use std::{ops::Range, sync::Arc};

pub(super) const TARGET_KERNEL: Parameter = Parameter {
    name: "target_kernel",
    kind: ParameterKind::Kernel,
    default: None,
    help: "Kernel on the target, such as gaussian() for dependence of any kind [default: \
        linear() for regression (kdr: gaussian()), delta() for classification]",
};

/// Maximum number of target features.
pub(super) const MAX_FEATURES: usize = 200;

/// Approximate size of the uniform sample of targets.
pub(super) const SAMPLE_SIZE: usize = 2000;

/// The target counts as constant if Σ (y − ȳ)² is at most this multiple of ε times Σ y².
const MIN_VARIATION_EPSILONS: f64 = 64.0;

/// Target features are added until the residual trace of the sample's kernel matrix is below this
/// fraction of its trace.
const TRACE_TOLERANCE: f64 = 1e-13;

/// Returns the kernel on the targets if it needs a feature map. Returns `None` for `linear()`,
/// whose features are the targets themselves, and for `delta()` on classes, whose features are the
/// ±1 codes.
pub(super) fn mapped_kernel(kernel: Option<&Kernel>, task: Task) -> Option<&Kernel> {
    let kernel_without_map = if task == Task::Classification { "delta" } else { "linear" };
    kernel.filter(|kernel| kernel.name() != Some(kernel_without_map))
}

pub(crate) fn sample_passes(kernel: Option<&Kernel>, task: Task) -> u64 {
    u64::from(mapped_kernel(kernel, task).is_some())
}

pub(super) fn check(kernel: Option<&Kernel>, task: Task) -> Result<()> {
    let Some(kernel) = mapped_kernel(kernel, task) else { return Ok(()) };
    let why = "labels are equal or not, so classification uses delta(); leave it out, or use a numeric target (`task` regression)";
    reject_if(task == Task::Classification, TARGET_KERNEL.name, kernel, why)?;
    let why = "expected a positive definite kernel that reads all targets";
    reject_if(kernel.restricts_columns() || !kernel.is_positive_definite(), TARGET_KERNEL.name, kernel, why)
}

/// Rejects targets (or target features) that vary by no more than rounding.
pub(super) fn reject_constant_targets(moments: &FoldGram, components: usize) -> Result<()> {
    let (n, uncentred_squares) = (moments.row_count as f64, moments.yy.iter().sum::<f64>());
    let centred_squares: f64 = moments.yy.iter().zip(&moments.sy).map(|(yy, sy)| yy - sy * sy / n).sum();
    let has_variation = centred_squares > MIN_VARIATION_EPSILONS * f64::EPSILON * uncentred_squares;
    let why = "the target does not vary, so no direction can predict it; check the target";
    reject_if(!has_variation, COMPONENTS.name, components, why)
}

/// Returns the number of moment columns for t targets: the maximum number of target features, or t
/// if the kernel on the targets needs no map.
pub(super) fn moment_columns(kernel: Option<&Kernel>, task: Task, t: usize) -> usize {
    mapped_kernel(kernel, task).map_or(t, |_| MAX_FEATURES)
}

/// Adds the memory of the target features to a plan: the sample and its factor.
pub(super) fn plan(plan: MemoryPlan, size: &ProblemSize) -> MemoryPlan {
    let (is_mapped, sample_bytes) = (size.moment_columns != size.t, 8 * SAMPLE_SIZE * (4 * size.t + 2 + MAX_FEATURES));
    plan.term_if(is_mapped, "sample of the target", sample_bytes, "leave `target_kernel` out")
}

/// Builds the map of a kernel on the targets (as stored, with their centre subtracted) from a
/// sample of them: one pass over the rows.
pub(super) fn fit_map<T: Real>(kernel: &Kernel, data: &FitData<'_, T>) -> Result<NystromMap<f64>> {
    let (t, stream) = (data.targets.count(), Stream::new(data.options.seed, Purpose::Median, 1));
    let fraction = (SAMPLE_SIZE as f64 / data.n.max(1) as f64).min(1.0);
    let sample_reduction = ReductionFn::new(|RowValues(sample): &mut RowValues<f64>, block: &RowBlock<'_, T>| {
        let mut selected_rows = (0..block.len()).filter(|i| stream.uniform(block.row_numbers[*i]) < fraction);
        selected_rows.try_for_each(|i| data.targets.append_to(block, i, sample))
    });
    let RowValues(sample) = data.reduce("sample of the target", &sample_reduction)?;
    let n = sample.len() / t.max(1);
    if n < 2 {
        return Err(Error::TooFewRowsFor { what: "features of the target", needed: 2, rows: n as u64 });
    }
    let points = MatRef::from_row_major_slice(&sample, n, t);
    let resolved_kernel = kernel.resolve_median(points)?;
    resolved_kernel.check_input_count(t)?;
    let kernel = resolved_kernel.build()?;
    let kernel_matrix = PointKernelMatrix { kernel: kernel.typed::<f64>(), points };
    let cholesky = matrix::greedy(&kernel_matrix, MAX_FEATURES.min(n), TRACE_TOLERANCE, data.resources.workers)?;
    let pivots = cholesky.pivots;
    let landmarks = LandmarkSet {
        points: pivots.iter().flat_map(|i| &sample[*i as usize * t..][..t]).copied().collect(),
        row_numbers: vec![NO_ROW; pivots.len()],
        d: t,
        passes: 1,
        evaluations: cholesky.evaluations,
    };
    Ok(NystromMap::new(&kernel, landmarks, &Workers::sequential())?)
}

/// The n x n kernel matrix of `points` (n x t, row-major), evaluated on demand.
struct PointKernelMatrix<'a> {
    kernel: Arc<dyn KernelFunction<f64>>,
    points: MatRef<'a, f64>,
}

impl PsdMatrix for PointKernelMatrix<'_> {
    fn order(&self) -> u64 {
        self.points.nrows() as u64
    }
    fn diagonal(&self, out: &mut [f64]) -> kapprox::Result<()> {
        self.kernel.diag(self.points, out);
        Ok(())
    }
    fn block(&self, rows: Range<u64>, columns: &[u64], out: MatMut<'_, f64>) -> kapprox::Result<()> {
        let t = self.points.ncols();
        let column_points: Vec<f64> =
            columns.iter().flat_map(|j| self.points.row(*j as usize).iter().copied()).collect();
        let rows = self.points.subrows(rows.start as usize, (rows.end - rows.start) as usize);
        self.kernel.block(rows, MatRef::from_row_major_slice(&column_points, columns.len(), t), out);
        Ok(())
    }
}
