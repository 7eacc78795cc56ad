//! Spectral clustering: groups of rows that the kernel connects, whatever their shape.
//!
//! With degrees d_i = Σ_j k(x_i, x_j) the rows are embedded by the k leading eigenvectors of D^(-½)KD^(-½), each row is
//! divided by its length, and the directions are clustered. With K ≈ ΦΦᵀ those eigenvectors are D^(-½)ΦU S^(-½), where
//!
//! ```text
//! Σ_i φ_iφ_iᵀ / d_i = U S Uᵀ  (p x p),     d_i = φ_iᵀ Σ_j φ_j
//! ```
//!
//! so nothing of size n is held. The length takes every positive factor of a row out, its degree too: the direction of a new
//! row is that of (U S^(-½))ᵀφ(x), its group the centroid c_j of length 1 with the largest score c_jᵀ(U S^(-½))ᵀφ(x),
//! linear in the features again. (Ng, Jordan and Weiss cluster the directions by ordinary k-means; here centroids are
//! directions too.)
//!
//! *Passes*: one that [keeps](crate::features::StoredFeatures) the features, two over those, and those of [`lloyd`] in k dimensions.
//! *Flops*: the map and np², 9p³ for the eigenvectors. *Bytes*: about 6p² numbers in f64.
//!
//! References: Ng, Jordan, Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001; Fowlkes, Belongie, Chung,
//! Malik, "Spectral grouping using the Nyström method", IEEE TPAMI 26, 2004.

use super::lloyd::{self, ClusteringOptions, Space};
use super::parameter::{CLUSTERS, STARTS, TOLERANCE};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily, mean::sum};
use crate::features::{FitData, StoredFeatures, Sums, Wanted};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, GramScratch, GramState, Result, Task, linalg::strips::for_each_strip};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::{Real, decompose::symmetric_eigen};
use kstore::{Plan, Workers};

pub(super) const FAMILY: SolverFamily = SolverFamily {
    name: "spectral",
    about: "spectral clustering: groups of rows that the kernel connects",
    task: Task::Clusters,
    parameters: &[CLUSTERS, STARTS, TOLERANCE],
    make: |settings| Ok(Box::new(Spectral(ClusteringOptions::new(settings)?))),
};

/// Least degree, as a share of the mean. Rows below it are near no landmark: their degrees are rounding, of either
/// sign.
const FLOOR: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
struct Spectral(ClusteringOptions);

impl<T: Real> Solver<T> for Spectral {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        let plan = self::plan::<T>(plan, shape, cut);
        lloyd::plan(plan, shape, cut, self.0.clusters, self.0.clusters)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let Normalised { gram, .. } = normalised(data, &kept)?;
        let (projection, eigenvalues) = {
            let _stage = data.resources.stages.stage("eigenvectors", None);
            embedding(&gram, self.0.clusters, self.0.clusters + 1, data.resources.workers)?
        };
        let space = Space { projection: Some(projection.as_ref()), sphere: true };
        let found = lloyd::cluster(data, &kept, space, self.0)?;
        let mut weights = Mat::zeros(kept.p, self.0.clusters);
        matmul(weights.as_mut(), Accum::Replace, projection.as_ref(), found.centroids.as_ref(), 1.0, Par::Seq);
        let figures = vec![
            Figure { name: "eigenvalue", values: eigenvalues },
            Figure::of("mean squared distance", found.squares / kept.weight_outside(None)),
            Figure { name: "rows of each group", values: found.sizes },
        ];
        let intercept = vec![0.0; self.0.clusters];
        Ok(Found {
            weights,
            intercept,
            certificate: gathered.certificate,
            figures,
            passes: 3 + found.passes,
            ..Found::default()
        })
    }
}

/// The embedding U S^(-½) for the k leading eigenvalues, p x k, and the leading `told` eigenvalues: a wide gap after the
/// k-th says that k is right.
pub(super) fn embedding(gram: &GramState, k: usize, told: usize, workers: &Workers) -> Result<(Mat<f64>, Vec<f64>)> {
    let p = gram.features();
    let g = MatRef::from_column_major_slice(&gram.folds()[0].g, p, p);
    // only the lower triangle means anything
    let full = Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))]);
    let (values, vectors) = workers.apart(move || symmetric_eigen(full.as_ref()))??;
    let floor = gram.epsilon() * values[p - 1].max(0.0);
    let kept: Vec<usize> = (0..p).rev().take(k).take_while(|j| values[*j] > floor).collect();
    if kept.is_empty() {
        return Err(Error::NoVariance);
    }
    let projection = Mat::from_fn(p, kept.len(), |i, q| vectors[(i, kept[q])] / values[kept[q]].sqrt());
    Ok((projection, (0..p).rev().take(told).map(|j| values[j]).collect()))
}

pub(super) struct Normalised {
    /// Σ φφᵀ/d.
    pub(super) gram: GramState,
    /// Σ φ, whose products with features are the degrees.
    pub(super) sums: Vec<f64>,
    /// The least degree that counts as such.
    pub(super) floor: f64,
}

pub(super) fn plan<T: Real>(plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
    let p = shape.map.p;
    plan.term("normalised moments and their eigenvectors", 8 * 8 * p * p, "lower `rank`")
        .term("rows over their degrees", cut.tile * p * shape.element, "lower `rank`")
        .term("panels", GramScratch::<T>::bytes(p, 0, cut.tile, shape.threads), "lower `rank`")
}

/// Computes the moments, and warns of rows with a degree below the floor: two passes over the features.
pub(super) fn normalised<T: Real>(data: &FitData<'_, T>, kept: &StoredFeatures<'_, T>) -> Result<Normalised> {
    let (p, workers, stages) = (kept.p, kept.workers(), data.resources.stages);
    let sums = sum("sum of features", kept, data)?;
    let mean = sums.iter().map(|s| s * s).sum::<f64>() / kept.n.max(1) as f64;
    if mean <= 0.0 || !mean.is_finite() {
        return Err(Error::NoVariance);
    }
    let (floor, narrow) = (FLOOR * mean, sums.iter().map(|s| T::from_f64(*s)).collect::<Vec<T>>());
    let (mut scratch, mut scaled) = (GramScratch::default(), Vec::new());
    let stage = stages.stage("normalised moments", Some(data.rows));
    let init = || (GramState::new(p, 0, 1), Sums::new(1));
    let (gram, lifted) = kept.fold("normalised moments", &*stage, &init, |(gram, lifted), tile| {
        let b = tile.rows();
        let mut degrees = vec![T::ZERO; b];
        tile.times(&narrow, &mut degrees, workers);
        lifted.0[0] += degrees.iter().filter(|degree| degree.to_f64() < floor).count() as f64;
        let factors: Vec<T> = degrees.iter().map(|d| T::from_f64(d.to_f64().max(floor).sqrt().recip())).collect();
        scaled.resize(b * p, T::ZERO);
        // features as columns, each row over the root of its degree
        for_each_strip(workers, &mut scaled, b, |j, column| {
            let rows = tile.phi.chunks_exact(p).zip(&factors);
            column.iter_mut().zip(rows).for_each(|(to, (row, factor))| *to = row[j] * *factor);
        });
        let scaled = MatRef::from_column_major_slice(&scaled, b, p);
        gram.update(0, scaled, MatRef::from_column_major_slice(&[], b, 0), &mut scratch, workers)
    })?;
    drop(stage);
    let lifted = lifted.0[0];
    if lifted > 0.0 {
        stages.warn(format!(
            "{lifted} rows are connected to nothing the landmarks see, and count as connected to {FLOOR:e} of the mean; \
             raise `rank` or sigma"
        ));
    }
    Ok(Normalised { gram, sums, floor })
}
