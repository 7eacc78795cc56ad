//! Nyström maps that project onto a subspace of the landmarks' span: `phi(x) = Wᵀ k_S(x)`, where
//! k_S(x) are the kernel values of x with the m landmarks S, and W is m x r.
//!
//! Each column q of an m x r matrix Q defines a function Σ_i q_i k(z_i, ·), where z_i are the
//! landmarks. Projecting onto the span of these r functions gives
//!
//! ```text
//! phi(x) = C⁻ᵀ Qᵀ k_S(x)   with   Qᵀ K_SS Q = Cᵀ C,   so W = Q C⁻¹
//! ```
//!
//! K̂ ≼ K holds for every Q, so the certificate holds. The variants in the literature differ only
//! in Q.
//!
//! | constructor | Q | source |
//! |---|---|---|
//! | [`Projected::eigen`] | the leading eigenvectors of K_SS | Williams, Seeger 2000; Kwak 2013 |
//! | [`Projected::randomised`] | the same, randomised: m²r instead of m³ | Li, Kwok, Lu 2010 |
//! | [`Projected::double`] | the same, from part of the landmarks | Lim, Kim, Park, Jung 2015 |
//! | [`Projected::truncated`] | leading directions of all rows | Pourkamali-Anaraki, Becker 2018 |

use super::family::{LandmarkMapArgs, MapConstructorPair, MapFamily, MapRequest, MapResult, MapShape};
use super::feature_gram::GramReduction;
use super::independent::{kernel_matrix, to_f64_vec};
use super::nystrom::{Arithmetic, NystromMap, compute_in_f64, strips, sums_allow_precision, with_matrix};
use super::{Expansion, FeatureMap, MapSpec, par};
use crate::decompose::{orthonormal_basis, product, symmetric_eigen};
use crate::kernel::{AnyKernel, KernelFunction, NumericParameter, ParameterRange};
use crate::landmark_set::{LandmarkSet, TableScan};
use crate::{Error, Real, Result};
use faer::linalg::matmul::matmul;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kpass::{BufferPool, Footprint, Workers};
use std::sync::Arc;

/// Smallest eigenvalue of a direction that is kept, as a fraction of the largest eigenvalue.
/// Directions with smaller eigenvalues are noise and are dropped.
///
/// The error of an eigenvalue of an m x m matrix K in f64 is about m ε‖K‖, where ε is the machine
/// epsilon. The fraction 1,000 ε is enough for a few hundred landmarks. It drops only directions
/// whose eigenvalues are about 1e-13 of the largest eigenvalue.
const MIN_EIGENVALUE_RATIO: f64 = 1e3 * f64::EPSILON;

const OVERSAMPLING: NumericParameter = NumericParameter::number(
    "oversampling",
    2.0,
    ParameterRange::Integer { min: 1, max: 100 },
    "it is the number of landmarks for each feature",
);

pub(super) const EIGEN: MapFamily = MapFamily {
    name: "eigen",
    summary: "projection onto the leading eigenvectors of the landmarks' kernel matrix",
    parameters: &[OVERSAMPLING],
    is_nested: true,
    supports_sparse: true,
    build_passes: 0,
    shape,
    constructor: MapConstructorPair::from_landmarks(eigen_map, eigen_map),
};

pub(super) const RANDOMISED: MapFamily = MapFamily {
    name: "randomised",
    summary: "the same eigenvectors, from a randomised decomposition",
    constructor: MapConstructorPair::from_landmarks(randomised_map, randomised_map),
    ..EIGEN
};

pub(super) const DOUBLE: MapFamily = MapFamily {
    name: "double",
    summary: "eigenvectors approximated from a subset of the landmarks",
    parameters: &[
        OVERSAMPLING,
        NumericParameter::number(
            "ratio",
            2.0,
            ParameterRange::Integer { min: 1, max: 100 },
            "one in this many landmarks enters the decomposition",
        ),
    ],
    constructor: MapConstructorPair::from_landmarks(double_map, double_map),
    ..EIGEN
};

pub(super) const TRUNCATED: MapFamily = MapFamily {
    name: "truncated",
    summary: "the leading principal directions of the features of all rows; one more pass",
    build_passes: 1,
    constructor: MapConstructorPair::from_landmarks(truncated_map, truncated_map),
    ..EIGEN
};

fn shape(spec: &MapSpec, request: MapRequest) -> MapShape {
    let m = (request.rank * spec.value("oversampling") as usize).min(request.candidate_count);
    let (landmark_bytes, weight_count) = (m * request.d * (request.element_bytes + size_of::<f64>()), m * request.rank);
    let fixed = landmark_bytes + weight_count * (request.element_bytes + size_of::<f64>());
    // the kernel matrix, its decomposition and their workspace
    let build_bytes = m * (48 * m + request.d * (2 * request.element_bytes + 8));
    MapShape {
        p: request.rank,
        landmark_count: Some(m),
        footprint: Footprint { fixed, per_row: m * request.element_bytes },
        build_bytes,
    }
}

pub(super) fn eigen_map<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    Ok(Box::new(Projected::eigen(args.kernel, args.landmarks, args.rank)?))
}

pub(super) fn randomised_map<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    let LandmarkMapArgs { kernel, landmarks, rank, seed, workers, .. } = args;
    Ok(Box::new(Projected::randomised(kernel, landmarks, rank, seed, workers)?))
}

pub(super) fn double_map<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    let ratio = args.spec.value("ratio") as usize;
    Ok(Box::new(Projected::double(args.kernel, args.landmarks, args.rank, ratio)?))
}

pub(super) fn truncated_map<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    let LandmarkMapArgs { kernel, landmarks, rank, workers, .. } = args;
    let nystrom = NystromMap::new(kernel, landmarks, workers)?;
    Ok(Box::new(Projected::truncated(&nystrom, kernel, rank, args.scan)?))
}

/// A Nyström map in the coordinates of r directions in the span of m landmarks.
///
/// Stores m(d + r) numbers, and W in f64 in addition. Mapping n rows costs 2nmd + 2nmr flops. The
/// map is nested in the directions, not in the landmarks: its leading features are the features of
/// the map with fewer directions. If directions of small eigenvalues amplify the rounding of `T`
/// too much, kernel blocks and their product with W are computed in f64, as in [`NystromMap`].
#[derive(Debug)]
pub struct Projected<T: Real> {
    kernel: Arc<dyn AnyKernel>,
    landmarks: LandmarkSet<T>,
    /// W in f64, m x r.
    weights: Mat<f64>,
    /// Arithmetic of the features, with W rounded to `T`.
    arithmetic: Arithmetic<T, Mat<T>, ()>,
    /// Eigenvalues of K_SS for the directions, if the directions are eigenvectors.
    eigenvalues: Vec<f64>,
}

impl<T: Real> Projected<T> {
    /// Returns the map with weights W. The weights must satisfy K̂ ≼ K, and `eigenvalues` must be
    /// the squares of the features, summed over some rows.
    fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, weights: Mat<f64>, eigenvalues: Vec<f64>) -> Self {
        let amplifications = amplification(&*kernel.typed::<f64>(), &landmarks, weights.as_ref());
        let is_native = size_of::<T>() == size_of::<f64>() || sums_allow_precision::<T>(&eigenvalues, &amplifications);
        let narrow_weights = || Mat::from_fn(weights.nrows(), weights.ncols(), |i, j| T::from_f64(weights[(i, j)]));
        let arithmetic = match is_native {
            true => Arithmetic::new_native(kernel, &landmarks, narrow_weights()),
            false => Arithmetic::new_f64(kernel, &landmarks, ()),
        };
        Self { kernel: kernel.clone(), landmarks, weights, arithmetic, eigenvalues }
    }

    /// Projects onto the `r` leading eigenvectors of K_SS = U Λ Uᵀ: the features are `y = Λ^(−1/2)
    /// Uᵀ k_S(x)`, with the leading columns of U and their eigenvalues Λ. This is the nonlinear
    /// projection trick.
    ///
    /// If some of the eigenvalues are noise, the map has fewer than `r` directions. The sign of
    /// each eigenvector is chosen so that its entry of largest magnitude is positive.
    ///
    /// If all rows are landmarks and r = m, the features of the rows are the columns of Λ^(1/2)Uᵀ,
    /// which are exact coordinates of the rows in feature space. The distance of a new row x from
    /// their span is √(k(x,x) − yᵀy) (Kwak, "Nonlinear projection trick in kernel methods", IEEE
    /// TNNLS 24, 2013). Costs 9m³ flops.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] if the kernel is zero at every landmark, [`Error::NotFinite`] if a
    /// kernel value is not finite.
    pub fn eigen(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, r: usize) -> Result<Self> {
        let k_mm = kernel_matrix(kernel, &landmarks)?;
        let (eigenvalues, vectors) = leading_eigenpairs(k_mm.as_ref(), r)?;
        let weights = Mat::from_fn(vectors.nrows(), eigenvalues.len(), |i, j| vectors[(i, j)] / eigenvalues[j].sqrt());
        Ok(Self::new(kernel, landmarks, weights, eigenvalues))
    }

    /// Computes the same features as [`Projected::eigen`], but from a randomised decomposition of
    /// K_SS. Its steps are a Gaussian sketch with r + 10 columns, two power iterations, and the
    /// eigenvectors of K_SS projected onto the sketched space. Costs 6m²r flops.
    ///
    /// Reference: Li, Kwok, Lu, "Making large-scale Nyström approximation possible", ICML 2010;
    /// Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 53, 2011.
    ///
    /// # Errors
    /// The errors of [`Projected::eigen`].
    pub fn randomised(
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        r: usize,
        seed: u64,
        workers: &Workers,
    ) -> Result<Self> {
        use rand::SeedableRng;
        use rand_distr::{Distribution, StandardNormal};
        let k_mm = kernel_matrix(kernel, &landmarks)?;
        let m = k_mm.nrows();
        let sketch_columns = (r + 10).min(m);
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut basis = Mat::from_fn(m, sketch_columns, |_, _| StandardNormal.sample(&mut rng));
        for _ in 0..3 {
            let mut images = Mat::zeros(m, sketch_columns);
            workers.install(|| {
                matmul(images.as_mut(), Accum::Replace, k_mm.as_ref(), basis.as_ref(), 1.0, par(workers));
            });
            basis = orthonormal_basis(images).0;
        }
        Self::project_onto(kernel, landmarks, k_mm.as_ref(), basis, r)
    }

    /// Approximates the eigenvectors of K_SS by Nyström's formula, from the kernel matrix of every
    /// `ratio`-th landmark. This is the double Nyström method.
    ///
    /// Costs m²s + s³ flops for s = m/`ratio` landmarks, instead of m³.
    ///
    /// Reference: Lim, Kim, Park, Jung, "Double Nyström method", ICML 2015.
    ///
    /// # Errors
    /// The errors of [`Projected::eigen`].
    pub fn double(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, r: usize, ratio: usize) -> Result<Self> {
        let k_mm = kernel_matrix(kernel, &landmarks)?;
        let inner_landmarks: Vec<usize> = (0..landmarks.len()).step_by(ratio.max(1)).collect();
        let s = inner_landmarks.len();
        let k_ss = Mat::from_fn(s, s, |i, j| k_mm[(inner_landmarks[i], inner_landmarks[j])]);
        let (eigenvalues, vectors) = leading_eigenpairs(k_ss.as_ref(), r)?;
        // U ≈ K_ms U_s Λ_s⁻¹, where K_ss = U_s Λ_s U_sᵀ; the projection then orthogonalises these
        // columns
        let scaled_vectors = Mat::from_fn(s, eigenvalues.len(), |i, j| vectors[(i, j)] / eigenvalues[j]);
        let k_ms = Mat::from_fn(k_mm.nrows(), s, |i, j| k_mm[(i, inner_landmarks[j])]);
        Self::project_onto(kernel, landmarks, k_mm.as_ref(), product(k_ms.as_ref(), scaled_vectors.as_ref()), r)
    }

    /// Returns the best rank-`r` approximation of the matrix K̂ of `map`. It is computed from the
    /// leading eigenvectors of ΦᵀΦ, where Φ contains the features of all rows.
    ///
    /// Truncating K_SS instead of K̂ would consider only the landmarks. Makes one pass, costs nm² +
    /// 9m³ flops, and stores m² numbers.
    ///
    /// Reference: Pourkamali-Anaraki, Becker, "Randomized clustered Nyström for large-scale kernel
    /// machines", AAAI 2018.
    ///
    /// # Errors
    /// Errors of the source and of the decomposition.
    pub fn truncated(
        map: &NystromMap<T>,
        kernel: &Arc<dyn AnyKernel>,
        r: usize,
        scan: &TableScan<'_, T>,
    ) -> Result<Self> {
        let reduction = GramReduction { map, tile_rows: scan.pass.tile_rows };
        let gram = scan.pass.resume("inner products of features", scan.source, &reduction)?.0.0;
        let (eigenvalues, directions) = leading_eigenpairs(gram.as_ref(), r)?;
        // the features of `map` are L⁻¹ k_S; in the directions V they are Vᵀ L⁻¹ k_S, so W = L⁻ᵀ V
        let weights = map.dual_coefficients(directions.as_ref());
        let projected = Self::new(kernel, map.landmarks().clone(), weights, eigenvalues);
        Ok(Self { eigenvalues: Vec::new(), ..projected })
    }

    /// Projects onto the functions that the columns of Q define (m x any number). The features are
    /// the coordinates along the `r` leading eigenvectors of K_SS in the span of Q.
    fn project_onto(
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        k_mm: MatRef<'_, f64>,
        q: Mat<f64>,
        r: usize,
    ) -> Result<Self> {
        // Q is first orthonormalised, so that QᵀKQ has the scale of K
        let q = orthonormal_basis(q).0;
        let projected_kernel = product(q.transpose(), product(k_mm, q.as_ref()).as_ref());
        let (eigenvalues, vectors) = leading_eigenpairs(projected_kernel.as_ref(), r)?;
        let scaled_vectors =
            Mat::from_fn(vectors.nrows(), eigenvalues.len(), |i, j| vectors[(i, j)] / eigenvalues[j].sqrt());
        Ok(Self::new(kernel, landmarks, product(q.as_ref(), scaled_vectors.as_ref()), eigenvalues))
    }

    /// Returns W, m x r, with phi(x) = Wᵀ k_S(x).
    pub fn weights(&self) -> MatRef<'_, f64> {
        self.weights.as_ref()
    }

    /// Returns the landmarks.
    pub fn landmarks(&self) -> &LandmarkSet<T> {
        &self.landmarks
    }

    /// Returns the eigenvalues λ of K_SS for the directions, descending; the slice is empty for
    /// [`Projected::truncated`].
    ///
    /// λ_j / m estimates the j-th eigenvalue of the integral operator of the kernel. √(m/λ_j)
    /// phi_j(x) estimates the value at x of the j-th eigenfunction, whose mean square over the
    /// landmarks is 1 (Williams, Seeger 2000; Bengio et al., "Out-of-sample extensions", NIPS
    /// 2003).
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }
}

/// Returns the factor by which each feature amplifies rounding; see [`super::factor`]. For feature
/// j it is 3 Σ_i k_ii W_ij², because kernel values, W and the sums are each rounded.
fn amplification<T: Real>(
    kernel: &dyn KernelFunction<f64>,
    landmarks: &LandmarkSet<T>,
    weights: MatRef<'_, f64>,
) -> Vec<f64> {
    let (points, mut diagonal) = (to_f64_vec(&landmarks.points), vec![0.0; landmarks.len()]);
    kernel.diag(MatRef::from_row_major_slice(&points, landmarks.len(), landmarks.d), &mut diagonal);
    let amplification =
        |column: faer::ColRef<'_, f64>| column.iter().zip(&diagonal).map(|(w, k_ii)| 3.0 * k_ii * w * w).sum();
    weights.col_iter().map(amplification).collect()
}

/// Returns the `r` leading eigenpairs above [`MIN_EIGENVALUE_RATIO`], descending. The entry of
/// largest magnitude of each vector is positive.
fn leading_eigenpairs(matrix: MatRef<'_, f64>, r: usize) -> Result<(Vec<f64>, Mat<f64>)> {
    let (eigenvalues, vectors) = symmetric_eigen(matrix)?;
    let m = eigenvalues.len();
    let floor = MIN_EIGENVALUE_RATIO * eigenvalues[m - 1].max(0.0);
    let leading: Vec<usize> = (0..m).rev().take_while(|j| eigenvalues[*j] > floor).take(r).collect();
    if leading.is_empty() {
        return Err(Error::NoLandmarks {
            why: "the kernel is zero at every landmark; choose another kernel".to_string(),
        });
    }
    let sign = |j: usize| {
        let largest =
            vectors.col(j).iter().fold(0.0f64, |largest, v| if v.abs() > largest.abs() { *v } else { largest });
        if largest < 0.0 { -1.0 } else { 1.0 }
    };
    let signs: Vec<f64> = leading.iter().map(|j| sign(*j)).collect();
    let vectors = Mat::from_fn(m, leading.len(), |i, j| signs[j] * vectors[(i, leading[j])]);
    Ok((leading.iter().map(|j| eigenvalues[*j]).collect(), vectors))
}

impl<T: Real> FeatureMap<T> for Projected<T> {
    fn dims(&self) -> (usize, usize) {
        (self.landmarks.d, self.weights.ncols())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let (z, m, native_pool, f64_pool) =
            (self.landmarks.as_mat(), self.landmarks.len(), BufferPool::default(), BufferPool::default());
        workers.for_each(strips(x, out), |(x, out)| match &self.arithmetic {
            Arithmetic::Native(native_weights, kernel) => with_matrix(&native_pool, (x.nrows(), m), |mut k| {
                kernel.fill_block(x, z, k.rb_mut());
                matmul(out, Accum::Replace, k.rb(), native_weights.as_ref(), T::ONE, Par::Seq);
            }),
            Arithmetic::F64(z, (), kernel) => compute_in_f64(x, out, &f64_pool, |x, phi| {
                with_matrix(&f64_pool, (x.nrows(), m), |mut k| {
                    kernel.fill_block(x, MatRef::from_row_major_slice(z, m, x.ncols()), k.rb_mut());
                    matmul(phi, Accum::Replace, k.rb(), self.weights.as_ref(), 1.0, Par::Seq);
                });
            }),
        });
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.kernel.typed::<T>().diag(x, out);
        Some(())
    }

    fn expand(&self, weights: MatRef<'_, f64>, _: &Workers) -> Expansion<T> {
        let dual_coefficients = product(self.weights.subcols(0, weights.nrows()), weights);
        Expansion::Landmarks {
            landmarks: self.landmarks.clone(),
            dual_coefficients,
            needs_f64: self.arithmetic.is_in_f64(),
        }
    }

    fn raise_precision(&mut self) -> bool {
        let is_narrow = self.arithmetic.is_narrow();
        if is_narrow {
            self.arithmetic = Arithmetic::new_f64(&self.kernel, &self.landmarks, ());
        }
        is_narrow
    }

    fn truncate(&mut self, r: usize) -> bool {
        let r = r.min(self.weights.ncols());
        self.weights = self.weights.subcols(0, r).to_owned();
        self.eigenvalues.truncate(r);
        if let Arithmetic::Native(native_weights, _) = &mut self.arithmetic {
            *native_weights = native_weights.subcols(0, r).to_owned();
        }
        true
    }

    fn footprint(&self) -> Footprint {
        let (m, r) = self.weights.shape();
        let fixed = match self.arithmetic {
            Arithmetic::Native(..) => (m * self.landmarks.d + m * r) * size_of::<T>(),
            Arithmetic::F64(..) => m * self.landmarks.d * (size_of::<T>() + size_of::<f64>()),
        };
        Footprint {
            fixed: fixed + m * r * size_of::<f64>() + self.arithmetic.prepared_bytes(),
            per_row: m * size_of::<T>(),
        }
    }
}
