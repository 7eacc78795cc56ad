//! Random numbers that are functions of the row number, not of the order of the draws.
//!
//! The key of a row is a pure function of (seed, purpose, round, stored row number). Every visit of
//! the row, in any order, in any chunk, on any thread, draws the same number. Samples, folds and
//! landmark proposals therefore do not depend on how the table was read.
//!
//! The generator is counter-based: each 64-bit word goes through the finaliser of SplitMix64
//! (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), which is a
//! bijection with full avalanche. Two chained applications keep the stream and the row counter
//! apart.

/// The purpose of a stream of keys. Streams with different purposes are independent for the same
/// seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// Uniform sample of candidate rows for landmark selection.
    Candidates,
    /// Uniform landmarks.
    Landmarks,
    /// Proposals of randomly pivoted Cholesky; the round is the proposal round.
    Proposals,
    /// Choices that are made one after the other within a round (acceptance, redraws).
    Acceptance,
    /// Assignment of rows to folds.
    Folds,
    /// Sample of rows for the median heuristic.
    Median,
    /// Generated data.
    Data,
    /// Frequencies, hashes and signs of random features.
    Frequencies,
    /// Sample of rows on which the errors of an approximation are measured, independent of the
    /// landmarks.
    Quality,
    /// Sample of rows and seeds of a clustering.
    Clusters,
    /// Positions and signs of rows in the sketch of a preconditioner.
    Sketch,
    /// Random labels of rows under a null hypothesis; the round is the permutation.
    Permutations,
    /// Sample of rows whose gradients are averaged, if the gradients of all rows would cost more
    /// than the fit.
    Gradients,
    /// Small perturbations of points at which a search stalls; the round is the number of the
    /// search.
    Perturbations,
    /// Folds of the rows for out-of-fold target encoding.
    TargetEncoding,
    /// Sample of rows from which a partition tree is grown.
    PartitionTree,
    /// Choice of the rows, or groups of rows, on which a model is tested.
    TestRows,
    /// Sample of rows that the contributions to a prediction are relative to.
    Background,
    /// Residuals of the sample paths of a forecast; the round is the pair of paths.
    ForecastPaths,
}

/// A stream of row keys: `Stream::new(seed, purpose, round)`.
///
/// ```
/// use kpass::key::{Purpose, Stream};
/// let folds = Stream::new(0, Purpose::Folds, 0);
/// assert_eq!(folds.word(17), folds.word(17));
/// assert!((0.0..1.0).contains(&folds.uniform(17)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stream(u64);

/// 2^64 divided by the golden ratio: the Weyl increment of SplitMix64.
const WEYL: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64: a permutation of 64-bit words in which every bit of the result
/// depends on all bits of `z`.
#[inline(always)]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Stream {
    /// Returns the stream of one seed, purpose and round.
    pub fn new(seed: u64, purpose: Purpose, round: u64) -> Self {
        let a = mix(seed.wrapping_add(WEYL));
        let b = mix(a ^ (purpose as u64 + 1).wrapping_mul(WEYL));
        Self(mix(b ^ round.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03)))
    }

    /// Returns 64 uniform bits for a counter, such as a row number.
    #[inline(always)]
    pub fn word(&self, counter: u64) -> u64 {
        mix(self.0 ^ mix(counter.wrapping_add(1).wrapping_mul(WEYL)))
    }

    /// Returns a uniform number in the open interval (0, 1): never 0, so that its logarithm is
    /// finite.
    #[inline(always)]
    pub fn uniform(&self, counter: u64) -> f64 {
        ((self.word(counter) >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }

    /// Returns a uniform integer below `bound` (bias below 2^-32 for bounds below 2^32).
    #[inline(always)]
    pub fn uniform_below(&self, counter: u64, bound: u64) -> u64 {
        ((u128::from(self.word(counter)) * u128::from(bound)) >> 64) as u64
    }
}
