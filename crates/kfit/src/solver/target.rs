//! Target features, for solvers with a kernel on the target: a Nyström map whose landmarks are a
//! sample of the targets.

use super::parameter::{COMPONENTS, Parameter, ParameterKind};
use crate::features::{FitData, Values};
use crate::prepare::adding::Adding;
use crate::{Error, FoldGram, Result, Task, request::ProblemSize, solver::refuse};
use faer::{MatMut, MatRef};
use kapprox::kernel::{Kernel, KernelFunction};
use kapprox::landmark::{LandmarkSet, NO_ROW};
use kapprox::matrix::{self, Entries};
use kapprox::{NystromMap, Real};
use kstore::key::{Purpose, Stream};
use kstore::{Plan, RowBlock, Workers};
use std::{ops::Range, sync::Arc};

pub(super) const TARGET_KERNEL: Parameter = Parameter {
    name: "target_kernel",
    kind: ParameterKind::Kernel,
    default: None,
    about: "Kernel on the target, such as gaussian() for dependence of any kind [default: \
        linear() for regression (kdr: gaussian()), delta() for classification]",
};

pub(super) const MOST: usize = 200;

/// Approximate size of the uniform sample of targets.
pub(super) const SAMPLE: usize = 2000;

/// A target that varies by less than this many roundings is constant.
const NOISE: f64 = 64.0;

/// Residual of the trace, as a fraction, below which no more target features are added.
const ENOUGH: f64 = 1e-13;

/// Returns the kernel on the targets if it needs a map; `None` if the targets or their codes are
/// its features.
pub(super) fn needed(kernel: Option<&Kernel>, task: Task) -> Option<&Kernel> {
    let plain = if task == Task::Classification { "delta" } else { "linear" };
    kernel.filter(|kernel| kernel.name() != Some(plain))
}

pub(crate) fn passes(kernel: Option<&Kernel>, task: Task) -> u64 {
    u64::from(needed(kernel, task).is_some())
}

pub(super) fn check(kernel: Option<&Kernel>, task: Task) -> Result<()> {
    let Some(kernel) = needed(kernel, task) else { return Ok(()) };
    let why = "labels are equal or not, so classification uses delta(); leave it out, or use a numeric target (`task` regression)";
    refuse(task == Task::Classification, TARGET_KERNEL.name, kernel, why)?;
    let why = "expected a positive definite kernel that reads all targets";
    refuse(kernel.looks_at_columns() || !kernel.positive_definite(), TARGET_KERNEL.name, kernel, why)
}

/// Rejects targets whose values, or whose features, vary by no more than rounding.
pub(super) fn require_varying(moments: &FoldGram, components: usize) -> Result<()> {
    let (n, total) = (moments.rows as f64, moments.yy.iter().sum::<f64>());
    let squares: f64 = moments.yy.iter().zip(&moments.sy).map(|(yy, sy)| yy - sy * sy / n).sum();
    let varies = squares > NOISE * f64::EPSILON * total;
    let why = "the target does not vary, so no direction can predict it; check the target";
    refuse(!varies, COMPONENTS.name, components, why)
}

/// Returns the number of moment columns for t targets: the maximum number of target features, or t
/// if the targets need no map.
pub(super) fn columns(kernel: Option<&Kernel>, task: Task, t: usize) -> usize {
    needed(kernel, task).map_or(t, |_| MOST)
}

/// Adds the memory of the target features to a plan: the sample and its factor.
pub(super) fn plan(plan: Plan, shape: &ProblemSize) -> Plan {
    let (made, sample) = (shape.moment_columns != shape.t, 8 * SAMPLE * (4 * shape.t + 2 + MOST));
    plan.term_if(made, "sample of the target", sample, "leave `target_kernel` out")
}

/// Builds the map of a kernel on the centred targets from a sample of them: one pass over the rows.
pub(super) fn features<T: Real>(kernel: &Kernel, data: &FitData<'_, T>) -> Result<NystromMap<f64>> {
    let (t, keys) = (data.targets.count(), Stream::new(data.options.seed, Purpose::Median, 1));
    let share = (SAMPLE as f64 / data.rows.max(1) as f64).min(1.0);
    let sampled = Adding::new(|Values(sample): &mut Values<f64>, block: &RowBlock<'_, T>| {
        let mut kept = (0..block.len()).filter(|i| keys.uniform(block.rows[*i]) < share);
        kept.try_for_each(|i| data.targets.push(block, i, sample))
    });
    let Values(sample) = data.fold("sample of the target", &sampled)?;
    let n = sample.len() / t.max(1);
    if n < 2 {
        return Err(Error::TooFewFor { what: "features of the target", needed: 2, rows: n as u64 });
    }
    let points = MatRef::from_row_major_slice(&sample, n, t);
    let spec = kernel.resolve_median(points)?;
    spec.check_features(t)?;
    let kernel = spec.build()?;
    let entries = OfPoints { kernel: kernel.typed::<f64>(), points };
    let found = matrix::greedy(&entries, MOST.min(n), ENOUGH, data.resources.workers)?;
    let chosen = found.pivots;
    let landmarks = LandmarkSet {
        points: chosen.iter().flat_map(|i| &sample[*i as usize * t..][..t]).copied().collect(),
        rows: vec![NO_ROW; chosen.len()],
        d: t,
        passes: 1,
        evaluations: found.evaluations,
    };
    Ok(NystromMap::new(&kernel, landmarks, &Workers::sequential())?)
}

/// The kernel matrix of points, n x t row-major, evaluated on demand.
struct OfPoints<'a> {
    kernel: Arc<dyn KernelFunction<f64>>,
    points: MatRef<'a, f64>,
}

impl Entries for OfPoints<'_> {
    fn size(&self) -> u64 {
        self.points.nrows() as u64
    }
    fn diagonal(&self, out: &mut [f64]) -> kapprox::Result<()> {
        self.kernel.diag(self.points, out);
        Ok(())
    }
    fn block(&self, rows: Range<u64>, columns: &[u64], out: MatMut<'_, f64>) -> kapprox::Result<()> {
        let t = self.points.ncols();
        let chosen: Vec<f64> = columns.iter().flat_map(|j| self.points.row(*j as usize).iter().copied()).collect();
        let rows = self.points.subrows(rows.start as usize, (rows.end - rows.start) as usize);
        self.kernel.block(rows, MatRef::from_row_major_slice(&chosen, columns.len(), t), out);
        Ok(())
    }
}
