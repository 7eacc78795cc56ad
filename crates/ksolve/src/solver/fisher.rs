//! Kernel Fisher discriminants, for two or more classes.
//!
//! With class means μ_k, shares π_k, the mean μ and the scatter within classes
//!
//! ```text
//! S_W = (1/n) Σ_i (φ_i − μ_{k(i)})(φ_i − μ_{k(i)})ᵀ,     S_B = Σ_k π_k (μ_k − μ)(μ_k − μ)ᵀ
//! ```
//!
//! the discriminants are the k − 1 directions v with S_B v = ρ (S_W + lambda I) v, scaled to vᵀ(S_W + lambda I)v = 1. A row
//! belongs to the class whose mean is nearest in these coordinates, less its prior:
//!
//! ```text
//! score_k(x) = φ(x)ᵀ W⁻¹μ_k − ½ μ_kᵀ W⁻¹ μ_k + ln π_k,     W = S_W + lambda I
//! ```
//!
//! because all k means lie in the span of the discriminants: the scores need no eigenvectors. Two classes have one score,
//! that of the second less that of the first. With `components` q the model keeps the first q discriminants too, and `predict` writes
//! the coordinates vᵀ(φ(x) − μ): with M̃ the columns √π_k (μ_k − μ) and M̃ᵀW⁻¹M̃ = UρUᵀ, v_j = W⁻¹M̃u_j/√ρ_j. lambda is in the units of the kernel, as everywhere: ‖w‖² costs lambda per row.
//!
//! *Passes*: one. *Flops*: the map and np² for the moments, p³/3 for the factor. *Bytes*: 3p² numbers in f64.
//!
//! References: Mika, Rätsch, Weston, Schölkopf, Müller, "Fisher discriminant analysis with kernels", NNSP 1999; Baudat,
//! Anouar, "Generalized discriminant analysis using a kernel approach", Neural Computation 12, 2000.

use super::kpca::sign;
use super::parameter::{COMPONENTS, LAMBDA, Parameter, TOLERANCE};
use super::{Features, Figure, Fitted, Penalty, Settings, Solver, SolverFamily};
use crate::train::plan::GRAM;
use crate::train::{Cut, Shape, TrainOptions};
use crate::{Error, FoldGram, Head, Result, Task};
use faer::prelude::*;
use faer::{Mat, Side};
use kapprox::Real;
use kapprox::decompose::symmetric_eigen;
use kstore::Plan;

/// The description of the solver `fisher`.
pub(super) const FAMILY: SolverFamily = SolverFamily {
    name: "fisher",
    about: "kernel Fisher discriminants: classes by the nearest class mean, along the directions that separate them best",
    task: Task::Classification,
    parameters: &[LAMBDA, Parameter { default: None, ..COMPONENTS }, TOLERANCE],
    make: |settings| Ok(Box::new(Fisher::new(settings))),
};

/// Discriminants whose ratio is below this many roundings of the largest have no direction: class means that lie in the span of others.
const NOISE: f64 = 1e3;

/// Kernel Fisher discriminant analysis.
#[derive(Clone, Copy, Debug)]
pub struct Fisher {
    /// The penalty lambda, which is added to the diagonal of the scatter within classes.
    pub penalty: Penalty,
    /// Number of discriminants that the model keeps; `None` for the scores of the classes alone.
    pub components: Option<usize>,
}

impl Fisher {
    fn new(settings: &Settings) -> Self {
        Self { penalty: settings.penalty(), components: settings.count(&COMPONENTS) }
    }
}

/// Sizes and feature means of the classes.
struct Means {
    /// Number of rows of each class.
    counts: Vec<f64>,
    /// The means μ_k of the classes, p x k.
    means: Mat<f64>,
}

impl Means {
    /// Computes sizes and means from the moments with ±1 codes: Σ over class k of φ is (b_k + s)/2.
    fn of(moments: &FoldGram, classes: usize) -> Result<Self> {
        let (p, n) = (moments.s.len(), moments.rows as f64);
        let columns = moments.sy.len();
        // two classes have one column, +1 for the second
        let of_class = |k: usize| if columns == 1 { (0, if k == 1 { 1.0 } else { -1.0 }) } else { (k, 1.0) };
        let count = |k: usize| {
            let (column, sign) = of_class(k);
            (n + sign * moments.sy[column]) / 2.0
        };
        let counts: Vec<f64> = (0..classes).map(count).collect();
        if let Some(empty) = counts.iter().position(|count| *count < 0.5) {
            return Err(Error::EmptyClass { class: empty });
        }
        let means = Mat::from_fn(p, classes, |i, k| {
            let (column, sign) = of_class(k);
            (moments.s[i] + sign * moments.b[column * p + i]) / (2.0 * counts[k])
        });
        Ok(Self { counts, means })
    }
}

impl<T: Real> Solver<T> for Fisher {
    fn only_pass(&self, _: &TrainOptions) -> Result<&'static str, &'static str> {
        Ok(GRAM)
    }

    fn plan(&self, plan: Plan, shape: &Shape, _: Cut) -> Plan {
        let p = shape.map.p;
        plan.term("scatter within classes and its factor", 3 * 8 * p * p, "lower `rank`")
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted<T>> {
        let classes = data.classes().map_or(0, |classes| classes.labels().len());
        if let Some(q) = self.components.filter(|q| *q >= classes) {
            let why = format!("{classes} classes have {} discriminants; ask for no more", classes.saturating_sub(1));
            return Err(Error::option(COMPONENTS.name, q, why));
        }
        let lambda = self.penalty.lambda(data.rows);
        let state = data.moments()?;
        let _stage = data.resources.stages.stage("discriminants", None);
        let moments = &state.gram.folds()[0];
        let (p, n) = (moments.s.len(), moments.rows as f64);
        let Means { counts, means } = Means::of(moments, classes)?;
        // S_W = (1/n) ΦᵀΦ − Σ π_k μ_k μ_kᵀ
        let mut within = super::kpca::covariance(moments, &vec![0.0; p]);
        for (k, count) in counts.iter().enumerate() {
            let share = count / n;
            for j in 0..p {
                for i in 0..p {
                    within[(i, j)] -= share * means[(i, k)] * means[(j, k)];
                }
            }
        }
        (0..p).for_each(|j| within[(j, j)] += lambda);
        let factor = within.llt(Side::Lower).map_err(|_| Error::Indefinite {
            rank: p,
            lambda,
            precision: state.gram.precision(),
        })?;
        let directions = factor.solve(&means);
        let offset = |k: usize| {
            let square: f64 = (0..p).map(|i| means[(i, k)] * directions[(i, k)]).sum();
            (counts[k] / n).ln() - 0.5 * square
        };
        let (weights, intercept) = match classes {
            2 => {
                let difference = Mat::from_fn(p, 1, |i, _| directions[(i, 1)] - directions[(i, 0)]);
                (difference, vec![offset(1) - offset(0)])
            }
            _ => (directions.clone(), (0..classes).map(offset).collect()),
        };
        let found = Discriminants::of(&counts, &means, &directions)?;
        let components = self.components.map(|q| found.coordinates(q, state.gram.epsilon(), &directions, moments));
        if let Some((head, asked)) = components.as_ref().zip(self.components)
            && head.intercept.len() < asked
        {
            let there = head.intercept.len();
            data.resources
                .stages
                .warn(format!("the class means span {there} directions, no more: {there} of {asked} components"));
        }
        let ratios = Figure { name: "discriminant ratio", values: found.ratios };
        let (certificate, lambda, figures) = (state.certificate, Some(lambda), vec![ratios]);
        Ok(Fitted { weights, intercept, components, certificate, lambda, figures, passes: 1, ..Fitted::default() })
    }
}

/// The k − 1 discriminants, from the k x k matrix M̃ᵀW⁻¹M̃ = √π_k √π_l (μ_k − μ)ᵀ W⁻¹ (μ_l − μ).
struct Discriminants {
    /// ρ, descending: the eigenvalues of W⁻¹S_B.
    ratios: Vec<f64>,
    /// v_j = Σ_k u_jk √ρ_j⁻¹ W⁻¹ M̃_k, as coefficients of the columns W⁻¹μ_k, k x (k − 1); 0 where ρ_j is.
    combinations: Mat<f64>,
}

impl Discriminants {
    /// The discriminants of classes of these sizes, with these means and W⁻¹ times them.
    fn of(counts: &[f64], means: &Mat<f64>, directions: &Mat<f64>) -> Result<Self> {
        let (n, classes) = (counts.iter().sum::<f64>(), counts.len());
        let inner = means.transpose() * directions;
        let share: Vec<f64> = counts.iter().map(|count| count / n).collect();
        // centring both sides by the mean of the class means, weighted
        let row = |k: usize| (0..classes).map(|l| share[l] * inner[(k, l)]).sum::<f64>();
        let rows: Vec<f64> = (0..classes).map(row).collect();
        let all: f64 = (0..classes).map(|k| share[k] * rows[k]).sum();
        let between = Mat::from_fn(classes, classes, |k, l| {
            (share[k] * share[l]).sqrt() * (inner[(k.max(l), k.min(l))] - rows[k] - rows[l] + all)
        });
        let (values, vectors) = symmetric_eigen(between.as_ref())?;
        let ratios: Vec<f64> = values.iter().rev().take(classes - 1).map(|value| value.max(0.0)).collect();
        let combinations = Mat::from_fn(classes, classes - 1, |k, j| {
            let u = |k: usize| vectors[(k, classes - 1 - j)] * share[k].sqrt();
            // M̃ᵀ takes the mean off: what all columns lose is spread by the shares
            let mean: f64 = (0..classes).map(u).sum();
            if ratios[j] > 0.0 { (u(k) - mean * share[k]) / ratios[j].sqrt() } else { 0.0 }
        });
        Ok(Self { ratios, combinations })
    }

    /// The first `q` coordinates vᵀ(φ − μ), fewer where fewer have a direction at the relative rounding `epsilon`.
    fn coordinates(&self, q: usize, epsilon: f64, directions: &Mat<f64>, moments: &FoldGram) -> Head {
        let floor = NOISE * epsilon * self.ratios.first().copied().unwrap_or(0.0);
        let q = self.ratios.iter().take(q).take_while(|ratio| **ratio > floor).count();
        let found = directions * self.combinations.subcols(0, q);
        let weights = Mat::from_fn(found.nrows(), q, |i, j| sign(found.as_ref(), j) * found[(i, j)]);
        let along = |j: usize| weights.col(j).iter().zip(&moments.s).map(|(w, s)| w * s).sum::<f64>();
        let intercept = (0..q).map(|j| -along(j) / moments.rows as f64).collect();
        Head { weights, intercept }
    }
}
