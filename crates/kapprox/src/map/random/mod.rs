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
//! Each frequency has a sine and a cosine. A sine and a cosine per frequency have a smaller error
//! than a cosine with a random phase (Sutherland, Schneider, "On the error of random Fourier
//! features", UAI 2015). Columns 2j − 2 and 2j − 1, counted from 0, belong to frequency j = 1..q.
//!
//! Reference: Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.

mod frequencies;
mod hadamard;
mod halton;
mod quantile;

pub use frequencies::Sampling;

use super::family::{DataIndependentMapArgs, MapConstructorPair, MapFamily, MapRequest, MapResult, MapShape};
use super::{FeatureMap, MapSpec, column_slice, column_slice_mut, nystrom::strips};
use crate::kernel::{ExplicitForm, FrequencyDistribution, Spectrum, row_slice, skewed_chi_squared::logarithm};
use crate::{Error, Real, Result, real::cosine_sine_of_turns, vectorised};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul, prelude::*};
use hadamard::{MAX_DENSE_INPUTS, StructuredRotation};
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
    summary: "random Fourier features of a shift-invariant kernel",
    parameters: &[],
    is_nested: false,
    supports_sparse: true,
    build_passes: 0,
    shape: fourier_shape,
    constructor: MapConstructorPair::data_independent(
        |args| build_fourier(args, Sampling::Plain),
        |args| build_fourier(args, Sampling::Plain),
    ),
};

pub(super) const ORTHOGONAL: MapFamily = MapFamily {
    name: "orthogonal",
    summary: "random Fourier features with orthogonal frequencies",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |args| build_fourier(args, Sampling::Orthogonal),
        |args| build_fourier(args, Sampling::Orthogonal),
    ),
    ..FOURIER
};

pub(super) const STRUCTURED: MapFamily = MapFamily {
    name: "structured",
    summary: "orthogonal frequencies by Hadamard transforms: log d instead of d operations each",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |args| build_fourier(args, Sampling::Structured),
        |args| build_fourier(args, Sampling::Structured),
    ),
    ..FOURIER
};

pub(super) const QUASI: MapFamily = MapFamily {
    name: "quasi",
    summary: "Fourier features at the points of a randomised Halton sequence",
    supports_sparse: false,
    constructor: MapConstructorPair::data_independent(
        |args| build_fourier(args, Sampling::Quasi),
        |args| build_fourier(args, Sampling::Quasi),
    ),
    ..FOURIER
};

fn fourier_shape(_: &MapSpec, request: MapRequest) -> MapShape {
    let frequency_count = (request.rank / 2).max(1);
    let footprint = Footprint {
        fixed: frequency_count * request.d * request.element_bytes,
        per_row: frequency_count * request.element_bytes,
    };
    // the frequencies are drawn in f64
    let build_bytes = frequency_count * request.d * size_of::<f64>();
    MapShape { p: 2 * frequency_count, landmark_count: None, footprint, build_bytes }
}

pub(super) fn build_fourier<T: Real>(args: &DataIndependentMapArgs<'_>, sampling: Sampling) -> MapResult<T> {
    if let Some((ExplicitForm::Skewed, skew)) = args.kernel.explicit_form() {
        let spectrum = Spectrum::new(FrequencyDistribution::product(hyperbolic_secant_quantile), 1.0);
        let map = FourierMap::<T>::new(&spectrum, args.d, args.rank, sampling, args.seed)?;
        return Ok(Box::new(FourierMap { skew: skew.first().copied(), ..map }));
    }
    let spectrum = args.kernel.to_dense()?.build()?.typed::<T>().spectrum().ok_or_else(|| Error::NoRandomFeatures {
        why: format!("{} is not a shift-invariant kernel with a known spectrum", args.kernel),
        remedy: "use `map` nystrom, or a kernel such as gaussian, laplacian or matern",
    })?;
    Ok(match args.kernel.sparse_columns() {
        Some(column_count) => {
            Box::new(FourierMap::<T>::for_sparse_rows(&spectrum, column_count, args.d, args.rank, args.seed)?)
        }
        None => Box::new(FourierMap::<T>::new(&spectrum, args.d, args.rank, sampling, args.seed)?),
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
/// nq pairs of sine and cosine. Structured frequencies store 4q + d numbers and cost 3nq log₂ d
/// flops if d > 16 (here d is rounded up to a power of two, and q to a multiple of it); for d ≤ 16
/// they are identical to orthogonal frequencies. Sparse rows cost 2q flops per entry.
#[derive(Debug)]
pub struct FourierMap<T> {
    d: usize,
    /// Number of frequencies, q.
    frequency_count: usize,
    /// Factor of every sine and cosine, √(k(0)/q).
    amplitude: T,
    frequencies: Frequencies<T>,
    /// Skew of the kernel, if the features are functions of ln(x + skew).
    skew: Option<f64>,
}

#[derive(Debug)]
enum Frequencies<T> {
    /// Frequencies, q × d, row-major, in turns: an angle of one turn is 2π radians.
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
        let frequency_count = (p / 2).max(1);
        let from_f64 = T::from_f64;
        let frequencies = match (&spectrum.distribution, sampling) {
            (FrequencyDistribution::Radial(draw_scale), Sampling::Structured) if d > MAX_DENSE_INPUTS => {
                let input_scales: Vec<f64> =
                    (0..d).map(|c| 1.0 / (std::f64::consts::TAU * spectrum.length_scale(c))).collect();
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                Frequencies::Structured(StructuredRotation::new(
                    frequency_count,
                    &input_scales,
                    &**draw_scale,
                    &mut rng,
                ))
            }
            _ => {
                let omega = frequencies::draw_frequencies(spectrum, d, frequency_count, sampling, seed)?;
                Frequencies::Dense(omega.into_iter().map(from_f64).collect())
            }
        };
        let amplitude = from_f64((spectrum.amplitude / frequency_count as f64).max(0.0).sqrt());
        Ok(Self { d, frequency_count, amplitude, frequencies, skew: None })
    }

    /// Returns the map for sparse rows, with the same frequencies as [`FourierMap::new`] with
    /// [`Sampling::Plain`].
    ///
    /// `column_count` is the number of columns of the table; `block_width` is the width of an
    /// encoded sparse row in a block (index and value of each entry).
    ///
    /// # Errors
    /// [`Error::NoRandomFeatures`] if frequencies of the distribution cannot be drawn for sparse
    /// rows.
    pub fn for_sparse_rows(
        spectrum: &Spectrum,
        column_count: usize,
        block_width: usize,
        p: usize,
        seed: u64,
    ) -> Result<Self> {
        let dense_map = Self::new(spectrum, column_count, p, Sampling::Plain, seed)?;
        let Frequencies::Dense(by_frequency) = &dense_map.frequencies else { return Ok(dense_map) };
        let by_column =
            (0..column_count).flat_map(|c| by_frequency[c..].iter().step_by(column_count).copied()).collect();
        Ok(Self { d: block_width, frequencies: Frequencies::Sparse(by_column), ..dense_map })
    }

    /// Computes the features of a strip; `out` is b x 2q.
    fn apply_strip(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let mut angles_in_turns = faer::Mat::<T>::zeros(x.nrows(), self.frequency_count);
        match &self.frequencies {
            Frequencies::Dense(omega) => {
                let omega = MatRef::from_row_major_slice(omega, self.frequency_count, self.d);
                matmul(angles_in_turns.as_mut(), Accum::Replace, x, omega.transpose(), T::ONE, Par::Seq);
            }
            Frequencies::Sparse(omega) => self.compute_sparse_turns(omega, x, angles_in_turns.as_mut()),
            Frequencies::Structured(structured) => structured.apply(x, angles_in_turns.as_mut()),
        }
        for j in 0..self.frequency_count {
            let (left, right) = out.rb_mut().split_at_col_mut(2 * j + 1);
            let turns = column_slice(angles_in_turns.as_ref().col(j));
            let (cosine, sine) = (left.col_mut(2 * j), right.col_mut(0));
            write_cosines_and_sines(turns, column_slice_mut(cosine), column_slice_mut(sine), self.amplitude);
        }
    }

    /// Computes the angles of sparse rows, summed over their entries in column order.
    fn compute_sparse_turns(&self, omega: &[T], x: MatRef<'_, T>, mut turns: MatMut<'_, T>) {
        let (mut row_turns, mut row_buffer) = (vec![T::ZERO; self.frequency_count], Vec::new());
        for i in 0..x.nrows() {
            let (indices, values) = entries(row_slice(x, i, &mut row_buffer));
            row_turns.fill(T::ZERO);
            vectorised!({
                for (index, value) in indices.iter().zip(values) {
                    let column_start = index.to_f64() as usize * self.frequency_count;
                    let omega = &omega[column_start..column_start + self.frequency_count];
                    row_turns.iter_mut().zip(omega).for_each(|(sum, omega)| *sum = value.mul_plus(*omega, *sum));
                }
            });
            row_turns.iter().enumerate().for_each(|(j, sum)| turns[(i, j)] = *sum);
        }
    }
}

/// Computes `amplitude` times the cosine and the sine of angles, which are in turns.
fn write_cosines_and_sines<T: Real>(angles_in_turns: &[T], cosine: &mut [T], sine: &mut [T], amplitude: T) {
    vectorised!({
        for ((turns, cosine), sine) in angles_in_turns.iter().zip(cosine).zip(sine) {
            let (c, s) = cosine_sine_of_turns(*turns);
            (*cosine, *sine) = (amplitude * c, amplitude * s);
        }
    });
}

impl<T: Real> FeatureMap<T> for FourierMap<T> {
    fn dims(&self) -> (usize, usize) {
        (self.d, 2 * self.frequency_count)
    }

    fn sparse_column_count(&self) -> Option<usize> {
        let Frequencies::Sparse(omega) = &self.frequencies else { return None };
        Some(omega.len() / self.frequency_count)
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
        let logs_per_row = if self.skew.is_some() { self.d } else { 0 };
        Footprint { fixed, per_row: (self.frequency_count + logs_per_row) * size_of::<T>() }
    }
}
