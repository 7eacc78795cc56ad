//! Kernel mean embedding: how near a row is to all rows of the fit on average, and a score for novelty.
//!
//! With μ = (1/n) Σ φ_i the mean of the features, the score
//!
//! ```text
//! f(x) = μᵀφ(x) − c = (1/n) Σ k(x, x_i) − c
//! ```
//!
//! is a density estimate up to a factor (Parzen's, for kernels that are densities), and c the value below which the
//! share nu of the rows of the fit lies: the score is negative for rows unlike them. With `variance`, |μ|² and c, which
//! are reported, the squared distance to the mean is k(x, x) + |μ|² − 2(f(x) + c); where k(x, x) is the same for all
//! rows it has the opposite order of the score. The one-class support vector machine at nu = 1 has the same function.
//!
//! *Passes*: one for the features, two over the kept features. *Flops*: the map and 4np. *Bytes*: the features, 8n.
//!
//! Reference: Smola, Gretton, Song, Schölkopf, "A Hilbert space embedding for distributions", ALT 2007.

use super::parameter::NU;
use super::{Family, Features, Figure, Fitted, Kept, Make, Settings, Solver};
use crate::train::{Cut, Shape};
use crate::{Result, Task};
use faer::Mat;
use kapprox::Real;
use kstore::Plan;

/// `mean`.
pub(super) const FAMILY: Family = Family {
    name: "mean",
    about: "kernel mean embedding: nearness to all rows, negative for the farthest",
    task: Task::Novelty,
    parameters: &[NU],
    make: Some(Make(
        |settings| Ok(Box::new(MeanEmbedding::new(settings))),
        |settings| Ok(Box::new(MeanEmbedding::new(settings))),
    )),
};

/// The mean of the features.
#[derive(Clone, Copy, Debug)]
pub struct MeanEmbedding {
    /// Share of the rows whose score is negative.
    pub nu: f64,
}

impl MeanEmbedding {
    fn new(settings: &Settings) -> Self {
        Self { nu: settings.number(&NU).unwrap_or_default() }
    }
}

impl<T: Real> Solver<T> for MeanEmbedding {
    fn keeps(&self) -> bool {
        true
    }

    fn plan(&self, plan: Plan, shape: &Shape, _: Cut) -> Plan {
        let n = usize::try_from(shape.n).unwrap_or(usize::MAX);
        plan.term("scores of the rows", n.saturating_mul(8), "learn from fewer rows (--rows)").term(
            "mean of the features",
            16 * shape.map.p,
            "lower --rank",
        )
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted> {
        let (kept, gathered) = Kept::gather(data, false)?;
        let (n, rows) = (kept.n as f64, Some(kept.n as u64));
        let (mut mean, mut squares) = (vec![0.0; kept.p], 0.0);
        let observer = data.resources.stages.stage("mean", rows);
        kept.visit(&*observer, |tile| {
            tile.add_transposed(&vec![T::ONE; tile.rows()], &mut mean, kept.workers());
            squares += tile.phi.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>();
            Ok(())
        })?;
        drop(observer);
        mean.iter_mut().for_each(|sum| *sum /= n);
        let mut scores = Vec::with_capacity(kept.n);
        let observer = data.resources.stages.stage("scores", rows);
        kept.visit(&*observer, |tile| {
            let score = |i: usize| tile.row(i).iter().zip(&mean).map(|(v, mean)| v.to_f64() * mean).sum::<f64>();
            scores.extend((0..tile.rows()).map(score));
            Ok(())
        })?;
        let below = ((self.nu * n) as usize).min(kept.n - 1);
        let threshold = *scores.select_nth_unstable_by(below, f64::total_cmp).1;
        let norm: f64 = mean.iter().map(|v| v * v).sum();
        let figures = vec![
            Figure { name: "squared norm of the mean", values: vec![norm] },
            Figure { name: "variance", values: vec![(squares / n - norm).max(0.0)] },
            Figure { name: "threshold", values: vec![threshold] },
        ];
        let weights = Mat::from_fn(kept.p, 1, |i, _| mean[i]);
        let passes = if data.keep == super::Place::Recomputed { 3 } else { 1 };
        let certificate = gathered.certificate;
        Ok(Fitted { weights, intercept: vec![-threshold], certificate, figures, passes, ..Fitted::default() })
    }
}
