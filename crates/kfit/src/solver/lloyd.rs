//! K-means of points that are linear in the features: Lloyd's iterations, one pass each.
//!
//! Minimises Σ_i w_i min_j ‖e_i − c_j‖² over k centroids, where w_i is 1 or the weight of the row,
//! and e_i is φ_i or Aᵀφ_i, divided by its norm if points lie on the sphere. An iteration assigns
//! every point to its nearest centroid and moves every centroid to the mean of its points, so the
//! sum never increases. The features are [stored](crate::features::StoredFeatures) between
//! iterations. Initial centroids come from a sample of max(2,000, 100 k) rows: several k-means++
//! starts, each iterated on the sample until nothing changes; the best one continues on all rows. A
//! centroid without points moves to a point that is far from every centroid.
//!
//! *Passes*: one for the sample and one for each iteration. *Flops*: the map and 2kq a row.
//! *Bytes*: kq numbers in f64 for each state and each strip of a tile, and the sample.
//!
//! References: Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 28, 1982;
//! Arthur, Vassilvitskii, "k-means++", SODA 2007. On the sphere: Dhillon, Modha, "Concept
//! decompositions", Machine Learning 42, 2001.

use super::parameter::{CLUSTERS, STARTS, Settings};
use crate::features::{self, FitData, StoredFeatures, Tile};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, linalg::strips::Pool};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::{Real, landmark::ClusterSums};
use kstore::key::{Purpose, Stream};
use kstore::{Merge, Plan, Workers, checkpoint::Steps};

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusteringOptions {
    pub(super) clusters: usize,
    pub(super) starts: usize,
}

impl ClusteringOptions {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let missing = || Error::missing(CLUSTERS.name, settings.solver, "the number of clusters, such as 8");
        let clusters = settings.count(&CLUSTERS).ok_or_else(missing)?;
        Ok(Self { clusters, starts: settings.required(&STARTS, Settings::count) })
    }
}

/// Points that one thread assigns at once.
const STRIP: usize = 288;
/// Number of sampled rows for each cluster; below, the minimum in total.
const SAMPLE: usize = 100;
const FEWEST: usize = 2000;
/// Candidates for centroids without points. If more centroids lose all points at once, the others
/// wait for the next iteration.
const FAR: usize = 16;
/// Maximum number of iterations on the sample; below, over all rows.
const ITERATIONS: usize = 300;
const PASSES: u64 = 100;
/// Iterations over all rows end if one reduces the sum of squares by less than this fraction.
const GAIN: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Space<'a> {
    /// A, p x q; `None` for the features.
    pub(super) projection: Option<MatRef<'a, f64>>,
    /// True if points and centroids are normalised.
    pub(super) sphere: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// Centroids c_j as columns, q x k, the heaviest cluster first.
    pub(super) centroids: Mat<f64>,
    /// Weight of the rows of each cluster; their number without weights.
    pub(super) sizes: Vec<f64>,
    /// Sum of squared distances Σ w min ‖e − c‖².
    pub(super) squares: f64,
    pub(super) passes: u64,
}

/// Adds the memory for clustering p features, projected to q, into k clusters to the plan.
pub(super) fn plan(plan: Plan, shape: &ProblemSize, cut: PassShape, q: usize, k: usize) -> Plan {
    let copies = features::STATES + cut.tile.div_ceil(STRIP);
    // the number of clusters is checked once the number of rows is known
    let rows = usize::try_from(shape.n).unwrap_or(usize::MAX);
    let (q, k, sample) = (q.min(rows), k.min(rows), rows_of_sample(k).min(rows));
    plan.term("sums of clusters", copies * 8 * (k + FAR) * q, "lower `clusters`")
        .term("sample of points", sample * (8 * q + shape.element * shape.map.p), "lower `rank`")
        .term("points of a strip", shape.threads * STRIP * 8 * (q + shape.map.p + k), "lower `rank`")
}

fn rows_of_sample(k: usize) -> usize {
    SAMPLE.saturating_mul(k).max(FEWEST)
}

impl Space<'_> {
    fn dims(&self, p: usize) -> usize {
        self.projection.map_or(p, |a| a.ncols())
    }

    /// Computes the points of some rows of p features, b x q row-major.
    fn points<T: Real>(&self, phi: &[T], p: usize, wide: &mut Vec<f64>, points: &mut Vec<f64>) {
        let (b, q) = (phi.len() / p, self.dims(p));
        let numbers = phi.iter().map(|v| kstore::Real::to_f64(*v));
        points.clear();
        match self.projection {
            None => points.extend(numbers),
            Some(a) => {
                wide.clear();
                wide.extend(numbers);
                points.resize(b * q, 0.0);
                let wide = MatRef::from_row_major_slice(&wide[..], b, p);
                matmul(MatMut::from_row_major_slice_mut(points, b, q), Accum::Replace, wide, a, 1.0, Par::Seq);
            }
        }
        if self.sphere {
            points.chunks_exact_mut(q).for_each(unit);
        }
    }

    /// Computes the centroid of a cluster from the sum of its points: their mean, normalised on the
    /// sphere.
    fn centre(&self, sum: &[f64], size: f64) -> Vec<f64> {
        let mut centroid: Vec<f64> = sum.iter().map(|v| v / size).collect();
        if self.sphere {
            unit(&mut centroid);
        }
        centroid
    }
}

/// Divides a vector by its norm; a zero vector stays unchanged.
fn unit(v: &mut [f64]) {
    let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    if length > 0.0 {
        v.iter_mut().for_each(|v| *v /= length);
    }
}

/// One iteration: assigns every point to its nearest centroid.
struct Assign<'a> {
    space: Space<'a>,
    /// Centroids, k x q, row-major.
    centroids: &'a [f64],
    /// ‖c_j‖²/2: the nearest centroid has the largest e·c_j − ‖c_j‖²/2.
    halves: Vec<f64>,
    q: usize,
}

impl<'a> Assign<'a> {
    fn new(space: Space<'a>, centroids: &'a [f64], q: usize) -> Self {
        let halves = centroids.chunks_exact(q).map(|c| c.iter().map(|v| v * v).sum::<f64>() / 2.0).collect();
        Self { space, centroids, halves, q }
    }

    /// Assigns some points, b x q row-major, and returns the sums of their clusters.
    fn strip(&self, points: &[f64], weight: impl Fn(usize) -> f64) -> ClusterSums {
        let (k, q) = (self.halves.len(), self.q);
        let b = points.len() / q;
        let mut products = Mat::<f64>::zeros(b, k);
        let (e, c) = (MatRef::from_row_major_slice(points, b, q), MatRef::from_row_major_slice(self.centroids, k, q));
        matmul(products.as_mut(), Accum::Replace, e, c.transpose(), 1.0, Par::Seq);
        let mut groups = ClusterSums::new(k, q, FAR);
        for (i, point) in points.chunks_exact(q).enumerate() {
            let score = |j: usize| products[(i, j)] - self.halves[j];
            let nearest = (1..k).fold(0, |best, j| if score(j) > score(best) { j } else { best });
            let square = point.iter().map(|v| v * v).sum::<f64>();
            let distance = (square - 2.0 * score(nearest)).max(0.0);
            groups.add(nearest, weight(i), distance, point);
        }
        groups
    }

    fn next(&self, groups: &ClusterSums) -> Vec<f64> {
        groups.next(self.centroids, |sum, size| self.space.centre(sum, size))
    }
}

type Buffers = Pool<(Vec<f64>, Vec<f64>)>;

impl Assign<'_> {
    /// Adds the rows of a tile to the sums of their clusters.
    fn tile<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        tile: &Tile<'_, T>,
        groups: &mut ClusterSums,
        buffers: &Buffers,
    ) {
        let strips = tile.phi.chunks(STRIP * kept.p).enumerate();
        add_each(strips, groups, kept.workers(), |(strip, phi)| {
            buffers.with(Default::default, |(wide, points)| {
                self.space.points(phi, kept.p, wide, points);
                self.strip(points, |i| kept.weights.of(tile.first + strip * STRIP + i))
            })
        });
    }
}

/// Computes the cluster sums of each part in parallel, and adds them in the order of the parts.
fn add_each<P: Send>(
    parts: impl Iterator<Item = P>,
    groups: &mut ClusterSums,
    workers: &Workers,
    of: impl Fn(&P) -> ClusterSums + Sync + Send,
) {
    let mut parts: Vec<(P, Option<ClusterSums>)> = parts.map(|part| (part, None)).collect();
    workers.each(parts.iter_mut().collect(), |(part, sums)| *sums = Some(of(part)));
    parts.iter().filter_map(|(_, sums)| sums.as_ref()).for_each(|sums| groups.merge(sums));
}

/// Clusters the rows.
///
/// # Errors
/// [`Error::Clusters`] for fewer distinct points than clusters; errors of reading the rows.
pub(super) fn cluster<T: Real>(
    data: &FitData<'_, T>,
    kept: &StoredFeatures<'_, T>,
    space: Space<'_>,
    ClusteringOptions { clusters: k, starts }: ClusteringOptions,
) -> Result<Clusters> {
    let (q, buffers) = (space.dims(kept.p), Buffers::default());
    let mut lloyd = Lloyd { centroids: vec![0.0; k * q], before: f64::INFINITY };
    let mut steps = Steps::resume(data.resources.journal, "clusters", &mut lloyd)?;
    if steps.done() == 0 {
        lloyd.centroids = best_start(space, &sample(data, kept, space, k)?, q, (k, starts), data)?;
    }
    loop {
        let assign = Assign::new(space, &lloyd.centroids, q);
        let stage = data.resources.stages.stage("clusters", Some(data.rows));
        let folded = kept.fold("clusters", &*stage, &|| ClusterSums::new(k, q, FAR), |groups, tile| {
            assign.tile(kept, tile, groups, &buffers);
            Ok(())
        });
        let groups = match folded {
            Ok(groups) => groups,
            Err(error) => {
                steps.keep(&lloyd);
                return Err(error);
            }
        };
        let iteration = steps.done() + 1;
        let settled = groups.squares >= lloyd.before * (1.0 - GAIN);
        if settled || iteration == PASSES {
            if !settled {
                data.resources.stages.warn(format!("the clusters have not converged after {PASSES} passes"));
            }
            return Ok(ordered(&lloyd.centroids, &groups, q, iteration + 1));
        }
        lloyd = Lloyd { centroids: assign.next(&groups), before: groups.squares };
        steps.after(&lloyd);
    }
}

struct Lloyd {
    centroids: Vec<f64>,
    /// Sum of squared distances before the iteration.
    before: f64,
}

kstore::persist!(Lloyd { fill "centroids": centroids, one "before": before });

/// Sorts the clusters by size, the largest first; of equal ones the nearer to the mean of all rows
/// first, so that the order of the rows does not matter.
fn ordered(centroids: &[f64], groups: &ClusterSums, q: usize, passes: u64) -> Clusters {
    let of = |j: usize| &centroids[j * q..][..q];
    let mut mean = vec![0.0; q];
    for (j, size) in groups.sizes.iter().enumerate() {
        mean.iter_mut().zip(of(j)).for_each(|(sum, v)| *sum += size * v);
    }
    let near: Vec<f64> = (0..groups.sizes.len()).map(|j| of(j).iter().zip(&mean).map(|(c, m)| c * m).sum()).collect();
    let mut order = Vec::from_iter(0..near.len());
    order.sort_by(|a, b| groups.sizes[*b].total_cmp(&groups.sizes[*a]).then(near[*b].total_cmp(&near[*a])));
    Clusters {
        centroids: Mat::from_fn(q, order.len(), |i, j| centroids[order[j] * q + i]),
        sizes: order.iter().map(|j| groups.sizes[*j]).collect(),
        squares: groups.squares,
        passes,
    }
}

/// Draws the points of a uniform sample of the rows, row-major, with their weights, in row order.
///
/// Selection sampling: row i of n is selected with probability (rows still to draw)/(n − i), which
/// makes all subsets of this size equally likely (Knuth, *The Art of Computer Programming* 2,
/// 3.4.2, algorithm S).
fn sample<T: Real>(
    data: &FitData<'_, T>,
    kept: &StoredFeatures<'_, T>,
    space: Space<'_>,
    k: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let stage = data.resources.stages.stage("sample for clusters", Some(data.rows));
    let (coins, mut wanted) = (Stream::new(data.options.seed, Purpose::Clusters, 0), rows_of_sample(k).min(kept.n));
    let mut at = Vec::with_capacity(wanted);
    for position in 0..kept.n {
        if coins.uniform(position as u64) * ((kept.n - position) as f64) < wanted as f64 {
            at.push(position);
            wanted -= 1;
        }
    }
    let mut phi: Vec<T> = Vec::with_capacity(at.len() * kept.p);
    kept.pick(&at, &*stage, |tile| {
        phi.extend_from_slice(tile.phi);
        Ok(())
    })?;
    let mut points = Vec::new();
    space.points(&phi, kept.p, &mut Vec::new(), &mut points);
    Ok((points, at.into_iter().map(|i| kept.weights.of(i)).collect()))
}

fn best_start<T: Real>(
    space: Space<'_>,
    (sample, weights): &(Vec<f64>, Vec<f64>),
    q: usize,
    (k, starts): (usize, usize),
    data: &FitData<'_, T>,
) -> Result<Vec<f64>> {
    let stage = data.resources.stages.steps("starts", starts as u64);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in 0..starts.max(1) {
        let coins = Stream::new(data.options.seed, Purpose::Clusters, 1 + start as u64);
        let mut centroids = seeds(sample, weights, k, &coins);
        if centroids.len() < k * q {
            return Err(Error::Clusters { asked: k, distinct: centroids.len() / q });
        }
        let mut before = f64::INFINITY;
        for _ in 0..ITERATIONS {
            let assign = Assign::new(space, &centroids, q);
            let strips = sample.chunks(STRIP * q).zip(weights.chunks(STRIP));
            let mut groups = ClusterSums::new(k, q, FAR);
            add_each(strips, &mut groups, data.resources.workers, |(strip, weights)| {
                assign.strip(strip, |i| weights[i])
            });
            if groups.squares >= before {
                break;
            }
            before = groups.squares;
            centroids = assign.next(&groups);
        }
        if best.as_ref().is_none_or(|(squares, _)| before < *squares) {
            best = Some((before, centroids));
        }
        stage.advance(1);
    }
    Ok(best.map(|(_, centroids)| centroids).unwrap_or_default())
}

/// Greedy k-means++: for each seed draws 2 + ln k points with probability proportional to weight
/// times squared distance from the earlier seeds, and takes the one that reduces the sum most.
/// Returns fewer seeds if there are fewer distinct points.
fn seeds(points: &[f64], weights: &[f64], k: usize, coins: &Stream) -> Vec<f64> {
    let n = weights.len();
    let q = points.len() / n.max(1);
    let point = |i: usize| &points[i * q..][..q];
    let trials = 2 + (k as f64).ln() as usize;
    // before the first seed all points are equally far
    let mut distances = vec![f64::INFINITY; n];
    let mut seeds: Vec<f64> = Vec::with_capacity(k * q);
    for draw in 0..k.min(n) {
        let mass = |(distance, weight): (&f64, &f64)| weight * if draw == 0 { 1.0 } else { *distance };
        let total: f64 = distances.iter().zip(weights).map(mass).sum();
        let mut best: Option<(f64, usize, Vec<f64>)> = None;
        for trial in 0..trials {
            let mut left = coins.uniform((draw * trials + trial) as u64) * total;
            let pick = distances.iter().zip(weights).position(|point| {
                left -= mass(point);
                left < 0.0
            });
            // rounding may leave a remainder: take the last point with a positive distance
            let Some(pick) = pick.or_else(|| (0..n).rev().find(|i| distances[*i] > 0.0 && weights[*i] > 0.0)) else {
                break;
            };
            if distances[pick] <= 0.0 {
                break;
            }
            let away = |i: usize| point(i).iter().zip(point(pick)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            let after: Vec<f64> = distances.iter().enumerate().map(|(i, distance)| distance.min(away(i))).collect();
            let sum = after.iter().zip(weights).map(|(distance, weight)| weight * distance).sum::<f64>();
            if best.as_ref().is_none_or(|(least, ..)| sum < *least) {
                best = Some((sum, pick, after));
            }
        }
        let Some((_, pick, after)) = best else { break };
        seeds.extend_from_slice(point(pick));
        distances = after;
    }
    seeds
}
