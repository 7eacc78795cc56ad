//! Kernel Fisher discriminants, for two or more classes.
//!
//! Let φ_i be the features of row i, k(i) its class, and n the number of rows. Each of the K
//! classes has n_k rows, the proportion π_k = n_k/n and the mean μ_k of its features; μ is the mean
//! of all rows. The within-class scatter S_W and the between-class scatter S_B are
//!
//! ```text
//! S_W = (1/n) Σ_i (φ_i − μ_{k(i)})(φ_i − μ_{k(i)})ᵀ,     S_B = Σ_k π_k (μ_k − μ)(μ_k − μ)ᵀ
//! ```
//!
//! The discriminants are the K − 1 directions v with S_B v = ρ (S_W + lambda I) v, scaled such that
//! vᵀ(S_W + lambda I)v = 1. The solver assigns a row to the class with the largest score. In the
//! discriminant coordinates, this is the class with the nearest mean, up to the logarithms of the
//! priors π_k:
//!
//! ```text
//! score_k(x) = φ(x)ᵀ W⁻¹μ_k − ½ μ_kᵀ W⁻¹ μ_k + ln π_k,     W = S_W + lambda I
//! ```
//!
//! The K − 1 discriminants span all vectors W⁻¹(μ_k − μ), so the scores need no eigenvectors. Two
//! classes have one score: the score of the second class minus the score of the first. With
//! `components` q the model also contains the first q discriminants, and `predict` writes the
//! coordinates vᵀ(φ(x) − μ). Let M̃ be the matrix with the columns √π_k (μ_k − μ), and let
//! M̃ᵀW⁻¹M̃ = U diag(ρ) Uᵀ. Then v_j = W⁻¹M̃u_j/√ρ_j. As in other solvers, lambda is a penalty per
//! row: the penalty term is lambda ‖w‖².
//!
//! In this pooled S_W, a class of 900 rows has more influence than a class of 60 rows. With
//! `within` equal, every class has the same influence:
//!
//! ```text
//! S_W = (1/K) Σ_k C_k,     C_k = (1/n_k) Σ_{i in class k} (φ_i − μ_k)(φ_i − μ_k)ᵀ
//! ```
//!
//! If there are two classes and lambda is 0, v is then the direction with the largest (vᵀ(μ_2 −
//! μ_1))² / (σ_1² + σ_2²), where σ_k² is the variance of class k along v. The priors and S_B still
//! use the proportions. The pass then stores the moments of each class separately.
//!
//! If several lambdas are given, the cross-validated error rate chooses among them. For each fold,
//! the moments of the other folds give the discriminants, and a second pass over the rows counts
//! the misclassified rows of the fold.
//!
//! *Passes*: one; two with folds. *Flops*: the flops of the map, np² for the moments, and p³/3 to
//! factor W for each fold and lambda, where p is the number of features. *Bytes*: 4p² numbers in
//! f64, and p² for each fold. If `within` is equal, p² for each class of each fold.
//!
//! References: Mika, Rätsch, Weston, Schölkopf, Müller, "Fisher discriminant analysis with
//! kernels", NNSP 1999; Baudat, Anouar, "Generalized discriminant analysis using a kernel
//! approach", Neural Computation 12, 2000.

use super::cross_validation::{self, ErrorNames};
use super::cv_error::CvErrorReduction;
use super::normal_equations::FoldCoefficients;
use super::parameter::{COMPONENTS, FOLDS, LAMBDA_GRID, Parameter, ParameterKind, TOLERANCE};
use super::{NamedValues, Regularisation, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FitData, GRAM_PASS};
use crate::gram::covariance;
use crate::linalg::eigen::sign_of_largest;
use crate::request::{FitRequest, PassShape, ProblemSize, TrainOptions};
use crate::{Error, FeatureReduction, FoldGram, FoldSpec, GramState, LinearHead, Result, Task};
use faer::{Mat, Side, prelude::*};
use kapprox::{Real, decompose::symmetric_eigen};
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "fisher",
    "kernel Fisher discriminants: the directions that best separate the classes; classification by \
        the nearest class mean, with the class frequencies as priors",
    Task::Classification,
    &[LAMBDA_GRID, FOLDS, Parameter { default: None, ..COMPONENTS }, WITHIN, TOLERANCE],
    |settings| {
        Ok(Box::new(Fisher {
            penalties: settings.regularisation_grid()?,
            component_count: settings.count(&COMPONENTS),
            has_equal_class_weights: settings.word(&WITHIN) == Some("equal"),
        }))
    },
);

/// Weighting of the within-class scatter: by rows or by classes.
const WITHIN: Parameter = Parameter {
    name: "within",
    kind: ParameterKind::Choice(&["pooled", "equal"]),
    default: None,
    help: "Within-class scatter: pooled over all rows, or equal, the mean of the class \
        covariances, in which every class has the same weight [default: pooled]",
};

/// The model contains no discriminant whose ratio ρ is below this multiple of ε times the largest
/// ratio. A ratio below it means that the class means are linearly dependent.
const RATIO_TOLERANCE: f64 = 1e3;

#[derive(Clone, Debug)]
struct Fisher {
    /// The values of lambda, the largest first. The solver adds lambda to the diagonal of the
    /// within-class scatter. If there are several values, cross-validation chooses one.
    penalties: Vec<Regularisation>,
    /// Number of discriminants in the model; `None` for the class scores only.
    component_count: Option<usize>,
    /// True if the within-class scatter weights classes equally, false if it weights rows equally.
    has_equal_class_weights: bool,
}

impl Fisher {
    /// Computes the scatter of the rows outside `held_out_fold`, or of all rows if it is `None`.
    fn scatter(&self, gram: &GramState, held_out_fold: Option<usize>, class_count: usize) -> Result<Scatter> {
        match self.has_equal_class_weights {
            true => Scatter::of_equal_classes(gram.folds(), held_out_fold, class_count),
            false => Scatter::pooled(&gram.training_moments(held_out_fold), class_count),
        }
    }

    /// Returns the regularisation parameter with the fewest misclassified held-out rows. Returns
    /// `None` without folds. Makes one pass.
    fn select_lambda<T: Real>(
        &self,
        data: &FitData<'_, T>,
        gram: &GramState,
        class_count: usize,
    ) -> Result<Option<(usize, [NamedValues; 3])>> {
        let (p, folds) = (gram.feature_count(), data.folds.count());
        if folds < 2 {
            return Ok(None);
        }
        let lambdas: Vec<f64> = self.penalties.iter().map(|penalty| penalty.lambda(gram.row_count() as f64)).collect();
        let stage = data.resources.stage_observer.start_stage("discriminants of the folds", None);
        let mut heads = vec![vec![None; lambdas.len()]; folds];
        let fold_moments =
            |fold: usize| gram.folds().chunks(gram.folds().len() / folds).nth(fold).into_iter().flatten();
        for (fold, heads) in
            heads.iter_mut().enumerate().filter(|(fold, _)| fold_moments(*fold).any(|part| part.row_count > 0))
        {
            let scatter = self.scatter(gram, Some(fold), class_count)?;
            for (head, lambda) in heads.iter_mut().zip(&lambdas) {
                data.resources.workers.check()?;
                *head = scatter.solve_class_means(*lambda).map(|directions| scatter.linear_head(&directions));
            }
        }
        drop(stage);
        let cells = lambdas.iter().map(|lambda| (p, *lambda)).collect();
        let coefficients = FoldCoefficients { cells, heads };
        let reduction =
            FeatureReduction::with_bin_reduction(data.map, data.folds, data.targets, CvErrorReduction(&coefficients))
                .with_bin_rows(data.pass_shape.tile_rows);
        let cv_error_state = data.reduce("held-out classes", &reduction)?;
        let error_rates = (0..lambdas.len())
            .map(|cell| CvErrorReduction(&coefficients).error_rate(&cv_error_state, cell).unwrap_or(f64::NAN))
            .collect();
        Ok(Some(cross_validation::select_penalty(
            &self.penalties,
            gram.row_count() as f64,
            error_rates,
            ErrorNames::ERROR_RATE,
        )))
    }
}

/// Sizes and feature means of the classes, and the within-class scatter.
struct Scatter {
    class_sizes: Vec<f64>,
    /// Means μ_k of the classes, p x k.
    means: Mat<f64>,
    /// Within-class scatter S_W, p x p.
    within: Mat<f64>,
}

impl Scatter {
    /// Computes class sizes, class means and the pooled scatter from the moments, whose targets are
    /// ±1 codes of the classes. If s is the sum of φ over all rows and b_k its sum with the codes
    /// of class k, the sum over the rows of class k is (b_k + s)/2.
    fn pooled(moments: &FoldGram, class_count: usize) -> Result<Self> {
        let (p, n) = (moments.s.len(), moments.row_count as f64);
        let columns = moments.sy.len();
        // two classes have one column of codes, +1 for the second class
        let column_and_sign = |k: usize| if columns == 1 { (0, if k == 1 { 1.0 } else { -1.0 }) } else { (k, 1.0) };
        let count = |k: usize| {
            let (column, sign) = column_and_sign(k);
            (n + sign * moments.sy[column]) / 2.0
        };
        let counts = nonempty_class_counts(class_count, count)?;
        let means = Mat::from_fn(p, class_count, |i, k| {
            let (column, sign) = column_and_sign(k);
            (moments.s[i] + sign * moments.b[column * p + i]) / (2.0 * counts[k])
        });
        // S_W = (1/n) ΦᵀΦ − Σ π_k μ_k μ_kᵀ
        let mut within = covariance(moments, &vec![0.0; p]);
        for (k, count) in counts.iter().enumerate() {
            let proportion = count / n;
            for j in 0..p {
                for i in 0..p {
                    within[(i, j)] -= proportion * means[(i, k)] * means[(j, k)];
                }
            }
        }
        Ok(Self { class_sizes: counts, means, within })
    }

    /// Computes the class sizes, the class means and the mean of the class covariances from the
    /// moments of each class in each fold. Leaves out the fold `held_out_fold`.
    fn of_equal_classes(class_moments: &[FoldGram], held_out_fold: Option<usize>, class_count: usize) -> Result<Self> {
        let training_folds =
            || class_moments.chunks(class_count).enumerate().filter(|(fold, _)| Some(*fold) != held_out_fold);
        let sum =
            |k: usize, term: &dyn Fn(&FoldGram) -> f64| training_folds().map(|(_, parts)| term(&parts[k])).sum::<f64>();
        let counts = nonempty_class_counts(class_count, |k| sum(k, &|part| part.row_count as f64))?;
        let p = class_moments[0].s.len();
        let means = Mat::from_fn(p, class_count, |i, k| sum(k, &|part| part.s[i]) / counts[k]);
        let within = Mat::from_fn(p, p, |i, j| {
            // the moments have only the lower triangle, column-major
            let index = i.min(j) * p + i.max(j);
            let covariance = |k: usize| sum(k, &|part| part.g[index]) / counts[k] - means[(i, k)] * means[(j, k)];
            (0..class_count).map(covariance).sum::<f64>() / class_count as f64
        });
        Ok(Self { class_sizes: counts, means, within })
    }

    /// Computes W⁻¹μ_k of every class, p x k. Returns `None` if W = S_W + lambda I is not positive
    /// definite to working precision.
    fn solve_class_means(&self, lambda: f64) -> Option<Mat<f64>> {
        let mut penalised = self.within.clone();
        (0..penalised.nrows()).for_each(|j| penalised[(j, j)] += lambda);
        Some(penalised.llt(Side::Lower).ok()?.solve(&self.means))
    }

    fn linear_head(&self, solved_means: &Mat<f64>) -> LinearHead {
        let (p, class_count, row_count) =
            (self.means.nrows(), self.class_sizes.len(), self.class_sizes.iter().sum::<f64>());
        let offset = |k: usize| {
            let quadratic_form: f64 = (0..p).map(|i| self.means[(i, k)] * solved_means[(i, k)]).sum();
            (self.class_sizes[k] / row_count).ln() - 0.5 * quadratic_form
        };
        match class_count {
            2 => {
                let weights = Mat::from_fn(p, 1, |i, _| solved_means[(i, 1)] - solved_means[(i, 0)]);
                LinearHead { weights, intercept: vec![offset(1) - offset(0)] }
            }
            _ => LinearHead { weights: solved_means.clone(), intercept: (0..class_count).map(offset).collect() },
        }
    }
}

/// Returns the sizes `count(k)` of the classes k, or [`Error::EmptyClass`] if a class has no rows.
fn nonempty_class_counts(class_count: usize, count: impl Fn(usize) -> f64) -> Result<Vec<f64>> {
    let counts: Vec<f64> = (0..class_count).map(count).collect();
    match counts.iter().position(|count| *count < 0.5) {
        Some(class) => Err(Error::EmptyClass { class }),
        None => Ok(counts),
    }
}

impl<T: Real> Solver<T> for Fisher {
    fn properties(&self) -> SolverProperties {
        SolverProperties { uses_validation_rows: true, ..SolverProperties::default() }
    }

    fn moment_classes(&self, t: usize) -> usize {
        if self.has_equal_class_weights { t.max(2) } else { 1 }
    }

    fn single_pass_name(&self, options: &TrainOptions) -> Result<&'static str, &'static str> {
        match options.folds {
            FoldSpec::None => Ok(GRAM_PASS),
            _ => Err("cross-validation needs a second pass; give one `lambda` and no `folds`"),
        }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (p, k) = (size.map.p, size.t.max(2));
        let head_bytes = size.fold_count.saturating_mul(self.penalties.len() * 8 * (p + 1) * k);
        plan.term("scatter within classes and its factor", 4 * 8 * p * p, "lower `rank`").term_if(
            size.fold_count > 1,
            "functions of the folds",
            head_bytes,
            "compare fewer values of `lambda`",
        )
    }

    fn further_passes(&self, request: &FitRequest<'_>) -> [u64; 2] {
        [0, u64::from(request.size.fold_count > 1)]
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let class_count = data.classes().map_or(0, |classes| classes.labels().len());
        if let Some(q) = self.component_count.filter(|q| *q >= class_count) {
            let why = format!(
                "{class_count} classes have {} discriminants; lower `components`",
                class_count.saturating_sub(1)
            );
            return Err(Error::option(COMPONENTS.name, q, why));
        }
        let state = data.moments_by_class(if self.has_equal_class_weights { class_count } else { 1 })?;
        let selection = self.select_lambda(data, &state.gram, class_count)?;
        let lambda =
            self.penalties[selection.as_ref().map_or(0, |(index, _)| *index)].lambda(state.gram.row_count() as f64);
        let _stage = data.resources.stage_observer.start_stage("discriminants", None);
        let moments = &*state.gram.training_moments(None);
        let scatter = self.scatter(&state.gram, None, class_count)?;
        let (p, precision) = (moments.s.len(), state.gram.precision());
        let solved_means = scatter.solve_class_means(lambda).ok_or(Error::Indefinite { rank: p, lambda, precision })?;
        let LinearHead { weights, intercept } = scatter.linear_head(&solved_means);
        let Scatter { class_sizes: counts, means, .. } = &scatter;
        let discriminants = Discriminants::new(counts, means, &solved_means)?;
        let components =
            self.component_count.map(|q| discriminants.coordinates(q, state.gram.epsilon(), &solved_means, moments));
        if let Some((head, requested_count)) = components.as_ref().zip(self.component_count)
            && head.intercept.len() < requested_count
        {
            let available_count = head.intercept.len();
            data.resources.stage_observer.warn(format!(
                "components reduced from {requested_count} to {available_count}: the class means span no further directions"
            ));
        }
        let (certificate, lambda, passes) = (state.certificate, Some(lambda), 1 + u64::from(selection.is_some()));
        let mut figures = vec![NamedValues { name: "discriminant ratio", values: discriminants.ratios }];
        figures.extend(selection.into_iter().flat_map(|(_, figures)| figures));
        Ok(Solution { weights, intercept, components, certificate, lambda, figures, passes, ..Solution::default() })
    }
}

/// The K − 1 discriminants, from the K x K matrix M̃ᵀW⁻¹M̃ = √π_k √π_l (μ_k − μ)ᵀ W⁻¹ (μ_l − μ).
struct Discriminants {
    /// ρ, descending: the eigenvalues of W⁻¹S_B.
    ratios: Vec<f64>,
    /// Column j expresses v_j = W⁻¹M̃u_j/√ρ_j as a combination of the vectors W⁻¹μ_k, K x (K − 1).
    /// The column is 0 if ρ_j = 0.
    combinations: Mat<f64>,
}

impl Discriminants {
    /// Computes the discriminants from class sizes, class means and W⁻¹ times the means.
    fn new(counts: &[f64], means: &Mat<f64>, solved_means: &Mat<f64>) -> Result<Self> {
        let (row_count, class_count) = (counts.iter().sum::<f64>(), counts.len());
        let inner_products = means.transpose() * solved_means;
        let proportions: Vec<f64> = counts.iter().map(|count| count / row_count).collect();
        // both sides are centred by the weighted mean of the class means
        let row_mean = |k: usize| (0..class_count).map(|l| proportions[l] * inner_products[(k, l)]).sum::<f64>();
        let row_means: Vec<f64> = (0..class_count).map(row_mean).collect();
        let grand_mean: f64 = (0..class_count).map(|k| proportions[k] * row_means[k]).sum();
        let between = Mat::from_fn(class_count, class_count, |k, l| {
            (proportions[k] * proportions[l]).sqrt()
                * (inner_products[(k.max(l), k.min(l))] - row_means[k] - row_means[l] + grand_mean)
        });
        let (values, vectors) = symmetric_eigen(between.as_ref())?;
        let ratios: Vec<f64> = values.iter().rev().take(class_count - 1).map(|value| value.max(0.0)).collect();
        let combinations = Mat::from_fn(class_count, class_count - 1, |k, j| {
            let u = |k: usize| vectors[(k, class_count - 1 - j)] * proportions[k].sqrt();
            // the columns of M̃ are centred by μ = Σ_k π_k μ_k
            let mean: f64 = (0..class_count).map(u).sum();
            if ratios[j] > 0.0 { (u(k) - mean * proportions[k]) / ratios[j].sqrt() } else { 0.0 }
        });
        Ok(Self { ratios, combinations })
    }

    /// Returns the first `q` coordinates vᵀ(φ − μ). If `epsilon` is the relative error of the
    /// moments, omits every coordinate whose ratio ρ is below rounding error (see
    /// [`RATIO_TOLERANCE`]).
    fn coordinates(&self, q: usize, epsilon: f64, solved_means: &Mat<f64>, moments: &FoldGram) -> LinearHead {
        let min_ratio = RATIO_TOLERANCE * epsilon * self.ratios.first().copied().unwrap_or(0.0);
        let q = self.ratios.iter().take(q).take_while(|ratio| **ratio > min_ratio).count();
        let vectors = solved_means * self.combinations.subcols(0, q);
        let weights = Mat::from_fn(vectors.nrows(), q, |i, j| sign_of_largest(vectors.as_ref(), j) * vectors[(i, j)]);
        let score_sum = |j: usize| weights.col(j).iter().zip(&moments.s).map(|(w, s)| w * s).sum::<f64>();
        let intercept = (0..q).map(|j| -score_sum(j) / moments.row_count as f64).collect();
        LinearHead { weights, intercept }
    }
}
