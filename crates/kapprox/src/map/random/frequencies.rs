//! Draws frequencies of random Fourier features from the spectrum of a kernel.

use super::{halton::Halton, quantile};
use crate::kernel::{FrequencyDistribution, Spectrum};
use crate::{Error, Result, decompose::orthonormal_basis};
use faer::Mat;
use rand::{Rng, RngExt, SeedableRng, distr::Open01};
use rand_chacha::ChaCha8Rng;
use rand_distr::{ChiSquared, Distribution, StandardNormal};

/// How frequencies are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Independently.
    Plain,
    /// In blocks of d orthogonal frequencies, whose lengths are distributed like the lengths of
    /// independent frequencies. Requires a radial distribution.
    ///
    /// Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal random features", NIPS 2016.
    Orthogonal,
    /// Like [`Sampling::Orthogonal`], but the rotation is a product of three Hadamard transforms
    /// and three random sign matrices. For q frequencies and d inputs, a row costs 3q log₂ d
    /// instead of 2qd operations, and the map stores 4q + d numbers instead of q d. Requires a
    /// radial distribution. For at most 16 inputs it is identical to [`Sampling::Orthogonal`],
    /// which then costs no more, while random signs would give too few rotations.
    Structured,
    /// From a randomised Halton sequence, whose points are more evenly spread than independent
    /// points.
    ///
    /// Avron, Sindhwani, Yang, Mahoney, "Quasi-Monte Carlo feature maps for shift-invariant
    /// kernels", JMLR 17, 2016.
    Quasi,
}

/// Draws `count` frequencies, as a `count` x d row-major matrix. They are in turns (radians divided
/// by 2π) per unit of each input.
pub(super) fn draw_frequencies(
    spectrum: &Spectrum,
    d: usize,
    count: usize,
    sampling: Sampling,
    seed: u64,
) -> Result<Vec<f64>> {
    let unsupported_error = |why: &str, remedy| Err(Error::NoRandomFeatures { why: why.to_string(), remedy });
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut omega = match (&spectrum.distribution, sampling) {
        (FrequencyDistribution::Radial(draw_scale), Sampling::Plain) => {
            let gaussian: Vec<f64> = (0..count * d).map(|_| StandardNormal.sample(&mut rng)).collect();
            scale_rows(gaussian, d, |_| draw_scale(&mut rng))
        }
        (FrequencyDistribution::Radial(draw_scale), Sampling::Quasi) => {
            let points = halton_points(d, count, seed, quantile::normal_quantile);
            scale_rows(points, d, |_| draw_scale(&mut rng))
        }
        (FrequencyDistribution::Radial(draw_scale), Sampling::Orthogonal | Sampling::Structured) => {
            let directions = orthogonal_vectors(d, count, &mut rng);
            scale_rows(directions, d, |_| draw_norm(d, &mut rng) * draw_scale(&mut rng))
        }
        (FrequencyDistribution::Product { sampler: draw, .. }, Sampling::Plain) => {
            (0..count * d).map(|_| draw(&mut rng)).collect()
        }
        (FrequencyDistribution::Product { quantile: Some(quantile), .. }, Sampling::Quasi) => {
            halton_points(d, count, seed, *quantile)
        }
        (FrequencyDistribution::Product { quantile: None, .. }, Sampling::Quasi) => {
            return unsupported_error("the quantiles of its frequencies are not known", "use plain random features");
        }
        (FrequencyDistribution::Sum(_) | FrequencyDistribution::Convolution(_), Sampling::Plain) => {
            let mut omega = vec![0.0; count * d];
            omega.chunks_exact_mut(d).for_each(|row| add_frequency(spectrum, &mut rng, row));
            return Ok(omega);
        }
        (FrequencyDistribution::Sum(_) | FrequencyDistribution::Convolution(_), _) => {
            let why = "the frequencies of sums and products of kernels are drawn one by one";
            return unsupported_error(why, "use plain random features, `map` fourier");
        }
        (FrequencyDistribution::Product { .. }, Sampling::Orthogonal | Sampling::Structured) => {
            let why = "its frequencies have independent coordinates and cannot be rotated";
            return unsupported_error(why, "use plain or quasi random features, or a kernel of the Euclidean distance");
        }
    };
    for row in omega.chunks_exact_mut(d) {
        for (c, value) in row.iter_mut().enumerate() {
            *value /= std::f64::consts::TAU * spectrum.length_scale(c);
        }
    }
    Ok(omega)
}

/// Adds a random frequency, in turns, to `omega`.
fn add_frequency(spectrum: &Spectrum, rng: &mut dyn Rng, omega: &mut [f64]) {
    let radians_per_turn = |c: usize| std::f64::consts::TAU * spectrum.length_scale(c);
    match &spectrum.distribution {
        FrequencyDistribution::Radial(draw_scale) => {
            let scale = draw_scale(rng);
            for (c, value) in omega.iter_mut().enumerate() {
                let normal: f64 = StandardNormal.sample(rng);
                *value += scale * normal / radians_per_turn(c);
            }
        }
        FrequencyDistribution::Product { sampler: draw, .. } => {
            omega.iter_mut().enumerate().for_each(|(c, value)| *value += draw(rng) / radians_per_turn(c))
        }
        FrequencyDistribution::Sum(spectra) => {
            let mut remaining_amplitude = spectrum.amplitude * rng.sample::<f64, _>(Open01);
            let drawn_spectrum = spectra.iter().find(|part| {
                remaining_amplitude -= part.amplitude;
                remaining_amplitude < 0.0
            });
            // if rounding leaves a remainder after the last part, no part was chosen: take the last
            // part
            drawn_spectrum.or(spectra.last()).into_iter().for_each(|part| add_frequency(part, rng, omega));
        }
        FrequencyDistribution::Convolution(spectra) => spectra.iter().for_each(|part| add_frequency(part, rng, omega)),
    }
}

/// Multiplies row j, of d numbers, by `draw_factor(j)`.
fn scale_rows(mut rows: Vec<f64>, d: usize, mut draw_factor: impl FnMut(usize) -> f64) -> Vec<f64> {
    for (j, row) in rows.chunks_exact_mut(d).enumerate() {
        let factor = draw_factor(j);
        row.iter_mut().for_each(|value| *value *= factor);
    }
    rows
}

/// Draws the length of a standard normal vector in d dimensions.
pub(super) fn draw_norm(d: usize, rng: &mut dyn Rng) -> f64 {
    ChiSquared::new(d as f64).map_or(0.0, |chi| chi.sample(rng)).sqrt()
}

/// Returns `count` Halton points, `count` x d, with `quantile` applied to every coordinate.
fn halton_points(d: usize, count: usize, seed: u64, quantile: impl Fn(f64) -> f64) -> Vec<f64> {
    let halton = Halton::new(d, seed);
    let mut points = vec![0.0; count * d];
    for c in 0..d {
        for (i, u) in halton.coordinate(c, count).into_iter().enumerate() {
            points[i * d + c] = quantile(u);
        }
    }
    points
}

/// Returns unit vectors in blocks of d. Each block is a uniformly distributed orthonormal basis: Q
/// of the QR decomposition of a Gaussian matrix, with signs such that the diagonal of R is
/// positive.
fn orthogonal_vectors(d: usize, count: usize, rng: &mut dyn Rng) -> Vec<f64> {
    let mut vectors = Vec::with_capacity(count.div_ceil(d) * d * d);
    while vectors.len() < count * d {
        let gaussian: Mat<f64> = Mat::from_fn(d, d, |_, _| StandardNormal.sample(rng));
        let (q, signs) = orthonormal_basis(gaussian);
        for (j, sign) in signs.iter().enumerate() {
            vectors.extend(q.col(j).iter().map(|value| sign * value));
        }
    }
    vectors.truncate(count * d);
    vectors
}
