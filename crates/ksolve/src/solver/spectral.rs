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
//! *Passes*: two, and those of [`lloyd`](super::lloyd) in k dimensions. *Flops*: the map and 2np², 9p³ for the eigenvectors.
//! *Bytes*: about 6p² numbers in f64.
//!
//! References: Ng, Jordan, Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001; Fowlkes, Belongie, Chung,
//! Malik, "Spectral grouping using the Nyström method", IEEE TPAMI 26, 2004.

use super::lloyd::{self, Space};
use super::{Family, FeatureFold, Features, Figure, Filled, Fitted, Make, Solver, SolverOptions, Take};
use crate::train::{Cut, Shape};
use crate::{Error, GramScratch, GramState, Result, Task};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::Real;
use kapprox::decompose::symmetric_eigen;
use kstore::checkpoint::{Arrays, Persist, Stored};
use kstore::{Merge, Plan, Workers};

/// `spectral`.
pub(super) const FAMILY: Family = Family {
    name: "spectral",
    about: "spectral clustering: groups of rows that the kernel connects",
    task: Task::Clusters,
    options: &["clusters", "starts"],
    make: Make(|options| Box::new(Spectral::new(options)), |options| Box::new(Spectral::new(options))),
};

/// Degrees below this share of the mean are those of rows that the landmarks do not see: rounding, of either sign.
const FLOOR: f64 = 1e-6;

/// Spectral clustering.
#[derive(Clone, Copy, Debug)]
pub struct Spectral {
    /// k.
    pub clusters: usize,
    /// Starts on the sample.
    pub starts: usize,
}

impl Spectral {
    fn new(options: &SolverOptions) -> Self {
        Self { clusters: options.clusters, starts: options.starts }
    }
}

impl<T: Real> Solver<T> for Spectral {
    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan {
        let p = shape.map.p;
        let plan = plan
            .term("normalised moments and their eigenvectors", 5 * 8 * p * p, "lower --rank")
            .term("rows over their degrees", cut.gram_lanes * cut.tile * p * shape.element, "lower --rank")
            .term("panels", cut.gram_lanes * GramScratch::<T>::bytes(p, 0, cut.tile, shape.threads), "lower --rank");
        lloyd::plan(plan, shape, cut, self.clusters, self.clusters)
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted> {
        let moments = data.moments()?;
        let sums = moments.gram.folds()[0].s.clone();
        let normalised = normalised(data, &sums)?;
        if normalised.lifted > 0 {
            data.resources.stages.warn(format!(
                "{} rows are connected to nothing the landmarks see, and count as connected to 1e-6 of the mean; raise \
                 --rank or sigma",
                normalised.lifted
            ));
        }
        let (projection, eigenvalues) = {
            let _stage = data.resources.stages.stage("eigenvectors", None);
            embedding(&normalised.gram, self.clusters)?
        };
        let space = Space { projection: Some(projection.as_ref()), sphere: true };
        let found = lloyd::cluster(data, space, self.clusters, self.starts)?;
        let mut weights = Mat::zeros(sums.len(), self.clusters);
        matmul(weights.as_mut(), Accum::Replace, projection.as_ref(), found.centroids.as_ref(), 1.0, Par::Seq);
        let figures = vec![
            Figure { name: "eigenvalue", values: eigenvalues },
            Figure { name: "mean squared distance", values: vec![found.squares / data.rows.max(1) as f64] },
            Figure { name: "rows", values: found.sizes.iter().map(|size| *size as f64).collect() },
        ];
        let intercept = vec![0.0; self.clusters];
        Ok(Fitted {
            weights,
            intercept,
            certificate: moments.certificate,
            lambda: None,
            figures,
            passes: 2 + found.passes,
            ..Fitted::default()
        })
    }
}

/// U S^(-½) of the k leading eigenvalues, p x k, and those and the next: a wide gap after the k-th says that k is right.
fn embedding(gram: &GramState, k: usize) -> Result<(Mat<f64>, Vec<f64>)> {
    let p = gram.features();
    let g = MatRef::from_column_major_slice(&gram.folds()[0].g, p, p);
    // only the lower triangle means anything
    let full = Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))]);
    let (values, vectors) = symmetric_eigen(full.as_ref())?;
    let floor = gram.epsilon() * values[p - 1].max(0.0);
    let kept: Vec<usize> = (0..p).rev().take(k).take_while(|j| values[*j] > floor).collect();
    if kept.is_empty() {
        return Err(Error::NoVariance);
    }
    let projection = Mat::from_fn(p, kept.len(), |i, q| vectors[(i, kept[q])] / values[kept[q]].sqrt());
    Ok((projection, (0..p).rev().take(k + 1).map(|j| values[j]).collect()))
}

/// Σ φφᵀ/d, and how many rows had a degree below the floor.
#[derive(Clone, Debug, PartialEq)]
struct Normalised {
    gram: GramState,
    lifted: u64,
}

impl Merge for Normalised {
    fn merge(&mut self, later: &Self) {
        self.gram.merge(&later.gram);
        self.lifted += later.lifted;
    }
}

impl Persist for Normalised {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        self.gram.save(out);
        out.one("lifted", self.lifted);
    }

    fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> {
        self.gram.load(from)?;
        self.lifted = from.one("lifted")?;
        Ok(())
    }
}

fn normalised<T: Real>(data: &Features<'_, T>, sums: &[f64]) -> Result<Normalised> {
    let mean = sums.iter().map(|s| s * s).sum::<f64>() / data.rows.max(1) as f64;
    if mean <= 0.0 || !mean.is_finite() {
        return Err(Error::NoVariance);
    }
    let folds = data.whole()?;
    let degrees = Degrees { sums, floor: FLOOR * mean, targets: data.targets.count() };
    data.fold("normalised moments", &FeatureFold::new(data.map, &folds, data.targets, data.cut.tile, degrees))
}

/// The pass that divides rows by the root of their degree.
struct Degrees<'a> {
    /// Σ φ.
    sums: &'a [f64],
    floor: f64,
    targets: usize,
}

impl<T: Real> Take<T> for Degrees<'_> {
    type State = Normalised;
    type Scratch = (Mat<T>, GramScratch<T>);

    fn init(&self) -> Normalised {
        Normalised { gram: GramState::new(self.sums.len(), self.targets, 1), lifted: 0 }
    }

    fn scratch(&self) -> Self::Scratch {
        (Mat::new(), GramScratch::default())
    }

    fn take(
        &self,
        state: &mut Normalised,
        (scaled, gram): &mut Self::Scratch,
        fold: usize,
        filled: &Filled<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (b, p) = filled.phi.shape();
        if scaled.nrows() < b {
            *scaled = Mat::zeros(b, p);
        }
        let mut degrees = vec![0.0; b];
        for (column, sum) in filled.phi.col_iter().zip(self.sums) {
            degrees.iter_mut().zip(column.iter()).for_each(|(d, v)| *d += sum * kstore::Real::to_f64(*v));
        }
        state.lifted += degrees.iter().filter(|degree| **degree < self.floor).count() as u64;
        let roots: Vec<f64> = degrees.iter().map(|degree| degree.max(self.floor).sqrt()).collect();
        let mut scaled = scaled.as_mut().subrows_mut(0, b);
        for (j, column) in filled.phi.col_iter().enumerate() {
            for ((to, v), root) in scaled.as_mut().col_mut(j).iter_mut().zip(column.iter()).zip(&roots) {
                *to = <T as kstore::Real>::from_f64(kstore::Real::to_f64(*v) / root);
            }
        }
        state.gram.update(fold, scaled.as_ref(), filled.y, gram, workers)
    }
}
