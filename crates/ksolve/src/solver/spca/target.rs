//! Features of the targets: the Nyström map of a kernel on some of them.

use crate::solver::Features;
use crate::{Error, Result, Targets};
use faer::{Mat, MatRef};
use kapprox::kernel::{Kernel, Spec};
use kapprox::landmark::{LandmarkSet, NO_ROW};
use kapprox::matrix::{self, Function};
use kapprox::{FeatureMap, Nystrom, Real};
use kstore::checkpoint::{Arrays, Persist, Stored};
use kstore::key::{Purpose, Stream};
use kstore::{Fold, Merge, RowBlock, Workers};

/// Most features of the targets.
pub(super) const MOST: usize = 200;

/// About so many targets of a uniform sample are looked at.
pub(super) const SAMPLE: usize = 2000;

/// Share of the trace at which more features of the targets change nothing.
const ENOUGH: f64 = 1e-13;

/// The map from targets to features.
pub(super) struct TargetFeatures {
    /// The map, on the targets less their centres.
    pub(super) map: Nystrom<f64>,
    /// Number of features.
    pub(super) count: usize,
}

/// Makes the map of `kernel` on a sample of the targets, in one pass over the rows.
pub(super) fn features<T: Real>(kernel: &Spec, data: &Features<'_, T>) -> Result<TargetFeatures> {
    let (t, keys) = (data.targets.count(), Stream::new(data.options.seed, Purpose::Median, 1));
    let share = (SAMPLE as f64 / data.rows.max(1) as f64).min(1.0);
    let sample = data.fold("sample of the target", &SampledTargets { targets: data.targets, keys, share })?.0;
    let n = sample.len() / t.max(1);
    if n < 2 {
        return Err(Error::TooFewFor { what: "features of the target", needed: 2, rows: n as u64 });
    }
    let points = MatRef::from_row_major_slice(&sample, n, t);
    let spec = kernel.resolve_median(points)?;
    spec.check_features(t)?;
    let kernel = spec.build()?;
    let mut values = Mat::<f64>::zeros(n, n);
    Kernel::<f64>::block(&*kernel, points, points, values.as_mut());
    let entries = Function { n: n as u64, entry: |i: u64, j: u64| values[(i as usize, j as usize)] };
    let chosen = matrix::greedy(&entries, MOST.min(n), ENOUGH, data.resources.workers)?.pivots;
    let landmarks = LandmarkSet {
        points: chosen.iter().flat_map(|i| &sample[*i as usize * t..][..t]).copied().collect(),
        rows: vec![NO_ROW; chosen.len()],
        d: t,
        passes: 1,
        evaluations: (n * n) as u64,
    };
    let map = Nystrom::new(&kernel, landmarks, faer::Par::Seq)?;
    let count = map.dims().1;
    Ok(TargetFeatures { map, count })
}

/// The fold that keeps the targets of some of the rows.
struct SampledTargets<'a> {
    targets: &'a Targets,
    keys: Stream,
    /// Each row is kept with this probability.
    share: f64,
}

/// Targets, row-major.
#[derive(Default)]
struct Values(Vec<f64>);

impl Merge for Values {
    fn merge(&mut self, later: &Self) {
        self.0.extend_from_slice(&later.0);
    }
}

impl Persist for Values {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("values", &self.0);
    }
    fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> {
        self.0 = from.read("values")?;
        Ok(())
    }
}

impl<T: Real> Fold<T> for SampledTargets<'_> {
    type State = Values;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Values {
        Values::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Values, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        for i in (0..block.len()).filter(|i| self.keys.uniform(block.rows[*i]) < self.share) {
            for j in 0..self.targets.count() {
                state.0.push(self.targets.value(block, i, j)?);
            }
        }
        Ok(())
    }
}
