//! Random Fourier features: a shift-invariant kernel as an average of plane waves.
//!
//! ```text
//! k(x − z) = k(0) E cos ω·(x − z) ≈ phi(x)·phi(z)
//! phi(x) = √(k(0)/q) (cos ω_j·x, sin ω_j·x)_{j = 1..q}
//! ```
//!
//! The q frequencies ω_j are drawn from the distribution of ω, and there are p = 2q features. The
//! map does not depend on the rows, and needs no landmarks and no triangular solve. The error
//! decreases as 1/√q for every spectrum of K; if the spectrum decays fast, landmarks have smaller
//! errors. Since ‖phi(x)‖² = k(0) for every x, the trace error, which measures projections, has no
//! meaning for this map; see [`crate::quality`] for other errors.
//!
//! Each frequency has a sine and a cosine. This has a smaller error than cosines with random phases
//! (Sutherland, Schneider, "On the error of random Fourier features", UAI 2015). Columns 2j and
//! 2j + 1 belong to frequency j.
//!
//! Reference: Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.

mod frequencies;
mod hadamard;
mod halton;
mod quantile;

pub use frequencies::Sampling;

use super::family::{DataIndependentMapArgs, MapConstructorPair, MapFamily, MapRequest, MapResult, MapShape};
use super::{FeatureMap, MapSpec, contiguous, contiguous_mut, nystrom::strips};
use crate::kernel::{ExplicitForm, FrequencyDistribution, Spectrum, row, skewed_chi_squared::logarithm};
use crate::{Error, Real, Result, real::cosine_sine, vectorised};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul, prelude::*};
use hadamard::{MAX_DENSE_FEATURES, StructuredRotation};
use kpass::{Footprint, Workers, sparse::entries};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns the family of maps with this sampling of frequencies.
pub(crate) fn family(sampling: Sampling) -> &'static MapFamily {
    match sampling {
        Sampling::Plain => &FOURIER,
        Sampling::Orthogonal => &ORTHOGONAL,
        Sampling::Structured => &STRUCTURED,
        Sampling::Quasi => &QUASI,
    }
}

pub(super) const FOURIER: MapFamily = MapFamily {
    name: "fourier",
    about: "random Fourier features of a shift-invariant kernel",
    parameters: &[],
    nested: false,
    supports_sparse: true,
    passes: 0,
    shape,
    constructor: MapConstructorPair::data_independent(
        |inputs| build_fourier(inputs, Sampling::Plain),
        |inputs| build_fourier(inputs, Sampling::Plain),
    ),
};

pub(super) const ORTHOGONAL: MapFamily = MapFamily {
    name: "orthogonal",
    about: "random Fourier features with orthogonal frequencies",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |inputs| build_fourier(inputs, Sampling::Orthogonal),
        |inputs| build_fourier(inputs, Sampling::Orthogonal),
    ),
    ..FOURIER
};

pub(super) const STRUCTURED: MapFamily = MapFamily {
    name: "structured",
    about: "orthogonal frequencies by Hadamard transforms: log d instead of d operations each",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |inputs| build_fourier(inputs, Sampling::Structured),
        |inputs| build_fourier(inputs, Sampling::Structured),
    ),
    ..FOURIER
};

pub(super) const QUASI: MapFamily = MapFamily {
    name: "quasi",
    about: "Fourier features at the points of a randomised Halton sequence",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |inputs| build_fourier(inputs, Sampling::Quasi),
        |inputs| build_fourier(inputs, Sampling::Quasi),
    ),
    ..FOURIER
};

fn shape(_: &MapSpec, request: MapRequest) -> MapShape {
    let count = (request.rank / 2).max(1);
    let footprint =
        Footprint { fixed: count * request.d * request.element_bytes, per_row: count * request.element_bytes };
    // the frequencies are drawn in f64
    let build_bytes = count * request.d * size_of::<f64>();
    MapShape { p: 2 * count, landmarks: None, footprint, build_bytes }
}

pub(super) fn build_fourier<T: Real>(inputs: &DataIndependentMapArgs<'_>, sampling: Sampling) -> MapResult<T> {
    if let Some((ExplicitForm::Skewed, skew)) = inputs.kernel.explicit() {
        let spectrum = Spectrum::new(FrequencyDistribution::product(hyperbolic_secant_quantile), 1.0);
        let map = FourierMap::<T>::new(&spectrum, inputs.d, inputs.rank, sampling, inputs.seed)?;
        return Ok(Box::new(FourierMap { skew: skew.first().copied(), ..map }));
    }
    let spectrum =
        inputs.kernel.on_dense()?.build()?.typed::<T>().spectrum().ok_or_else(|| Error::NoRandomFeatures {
            why: format!("{} is not a shift-invariant kernel with a known spectrum", inputs.kernel),
            remedy: "use `map` nystrom, or a kernel such as gaussian, laplacian or matern",
        })?;
    Ok(match inputs.kernel.sparse_columns() {
        Some(width) => Box::new(FourierMap::<T>::on_sparse(&spectrum, (width, inputs.d), inputs.rank, inputs.seed)?),
        None => Box::new(FourierMap::<T>::new(&spectrum, inputs.d, inputs.rank, sampling, inputs.seed)?),
    })
}

/// Returns the quantile function of the density 1/cosh πω at u. This is the density of the
/// frequencies of the skewed chi-squared kernel, which is shift-invariant in ln(x + skew) (Li,
/// Ionescu, Sminchisescu, "Random Fourier approximations for skewed multiplicative histogram
/// kernels", DAGM 2010).
fn hyperbolic_secant_quantile(u: f64) -> f64 {
    use std::f64::consts::{FRAC_PI_2, PI};
    (FRAC_PI_2 * u).tan().ln() / PI
}

/// Random Fourier features of a kernel.
///
/// With q frequencies and d inputs, it stores q·d numbers, and mapping n rows costs 2nqd flops and
/// nq pairs of sine and cosine. Structured frequencies of more than 16 inputs take 4q numbers and
/// 6nq log₂ d flops. Sparse rows cost 2q flops per entry.
#[derive(Debug)]
pub struct FourierMap<T> {
    d: usize,
    /// Number of frequencies, q.
    count: usize,
    /// Factor of every sine and cosine, √(k(0)/q).
    amplitude: T,
    frequencies: Frequencies<T>,
    /// Skew of the kernel, if the features are functions of ln(x + skew).
    skew: Option<f64>,
}

#[derive(Debug)]
enum Frequencies<T> {
    /// Frequencies, q x d, row-major, in turns.
    Dense(Vec<T>),
    /// Frequencies for sparse rows, q numbers per column, in turns.
    Sparse(Vec<T>),
    Structured(StructuredRotation<T>),
}

impl<T: Real> FourierMap<T> {
    /// Returns a map to `p` features, from p/2 frequencies, for rows of `d` inputs.
    ///
    /// # Errors
    /// [`Error::NoRandomFeatures`] if the sampling does not support the distribution of the
    /// frequencies.
    pub fn new(spectrum: &Spectrum, d: usize, p: usize, sampling: Sampling, seed: u64) -> Result<Self> {
        let count = (p / 2).max(1);
        let number = T::from_f64;
        let frequencies = match (&spectrum.distribution, sampling) {
            (FrequencyDistribution::Radial(mixture), Sampling::Structured) if d > MAX_DENSE_FEATURES => {
                let scale: Vec<f64> = (0..d).map(|c| 1.0 / (std::f64::consts::TAU * spectrum.length(c))).collect();
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                Frequencies::Structured(StructuredRotation::new(count, &scale, &**mixture, &mut rng))
            }
            _ => {
                let omega = frequencies::draw_frequencies(spectrum, d, count, sampling, seed)?;
                Frequencies::Dense(omega.into_iter().map(number).collect())
            }
        };
        let amplitude = number((spectrum.amplitude / count as f64).max(0.0).sqrt());
        Ok(Self { d, count, amplitude, frequencies, skew: None })
    }

    /// Returns the map for sparse rows, with the frequencies that [`FourierMap::new`] draws
    /// independently.
    ///
    /// `columns` is the number of columns, `d` the number of values of a row in a block.
    ///
    /// # Errors
    /// [`Error::NoRandomFeatures`] if frequencies of the distribution cannot be drawn for sparse
    /// rows.
    pub fn on_sparse(spectrum: &Spectrum, (columns, d): (usize, usize), p: usize, seed: u64) -> Result<Self> {
        let plain = Self::new(spectrum, columns, p, Sampling::Plain, seed)?;
        let Frequencies::Dense(by_frequency) = &plain.frequencies else { return Ok(plain) };
        let by_column = (0..columns).flat_map(|c| by_frequency[c..].iter().step_by(columns).copied()).collect();
        Ok(Self { d, frequencies: Frequencies::Sparse(by_column), ..plain })
    }

    /// Computes the features of a strip; `out` is b x 2q.
    fn apply_strip(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let mut turns = faer::Mat::<T>::zeros(x.nrows(), self.count);
        match &self.frequencies {
            Frequencies::Dense(omega) => {
                let omega = MatRef::from_row_major_slice(omega, self.count, self.d);
                matmul(turns.as_mut(), Accum::Replace, x, omega.transpose(), T::ONE, Par::Seq);
            }
            Frequencies::Sparse(omega) => self.sparse_turns(omega, x, turns.as_mut()),
            Frequencies::Structured(structured) => structured.apply(x, turns.as_mut()),
        }
        for j in 0..self.count {
            let (left, right) = out.rb_mut().split_at_col_mut(2 * j + 1);
            let turns = contiguous(turns.as_ref().col(j));
            let (cosine, sine) = (left.col_mut(2 * j), right.col_mut(0));
            cosines_and_sines(turns, contiguous_mut(cosine), contiguous_mut(sine), self.amplitude);
        }
    }

    /// Computes the angles of sparse rows, summed over their entries in column order.
    fn sparse_turns(&self, omega: &[T], x: MatRef<'_, T>, mut turns: MatMut<'_, T>) {
        let (mut sums, mut spare) = (vec![T::ZERO; self.count], Vec::new());
        for i in 0..x.nrows() {
            let (indices, values) = entries(row(x, i, &mut spare));
            sums.fill(T::ZERO);
            vectorised!({
                for (index, value) in indices.iter().zip(values) {
                    let column = index.to_f64() as usize * self.count;
                    let omega = &omega[column..column + self.count];
                    sums.iter_mut().zip(omega).for_each(|(sum, omega)| *sum = value.mul_plus(*omega, *sum));
                }
            });
            sums.iter().enumerate().for_each(|(j, sum)| turns[(i, j)] = *sum);
        }
    }
}

/// Computes `amplitude` times the cosine and the sine of angles, which are in turns.
fn cosines_and_sines<T: Real>(turns: &[T], cosine: &mut [T], sine: &mut [T], amplitude: T) {
    vectorised!({
        for ((turns, cosine), sine) in turns.iter().zip(cosine).zip(sine) {
            let (c, s) = cosine_sine(*turns);
            (*cosine, *sine) = (amplitude * c, amplitude * s);
        }
    });
}

impl<T: Real> FeatureMap<T> for FourierMap<T> {
    fn dims(&self) -> (usize, usize) {
        (self.d, 2 * self.count)
    }

    fn sparse_columns(&self) -> Option<usize> {
        let Frequencies::Sparse(omega) = &self.frequencies else { return None };
        Some(omega.len() / self.count)
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let Some(skew) = self.skew else {
            return workers.for_each(strips(x, out), |(x, out)| self.apply_strip(x, out));
        };
        let log = |value: &T| T::from_f64(logarithm(value.to_f64(), skew));
        let logs: Vec<T> = x.row_iter().flat_map(|row| row.iter().map(log)).collect();
        let logs = MatRef::from_row_major_slice(&logs, x.nrows(), self.d);
        workers.for_each(strips(logs, out), |(logs, out)| self.apply_strip(logs, out));
    }

    fn footprint(&self) -> Footprint {
        let fixed = match &self.frequencies {
            Frequencies::Dense(omega) | Frequencies::Sparse(omega) => omega.len() * size_of::<T>(),
            Frequencies::Structured(structured) => structured.bytes(),
        };
        let logs = if self.skew.is_some() { self.d } else { 0 };
        Footprint { fixed, per_row: (self.count + logs) * size_of::<T>() }
    }
}
