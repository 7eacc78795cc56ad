//! Randomised Halton points, which are evenly spread in the unit cube; each single point is
//! uniformly distributed.
//!
//! Coordinate c of point i is the radical inverse of i in base p_c, the c-th prime: the digits of i
//! in this base are mirrored at the radix point. The digits are randomly permuted, with a separate
//! permutation for each place. Every point is uniformly distributed in the cube, so averages of a
//! function over the points are unbiased. The points keep apart, so averages of smooth functions
//! have smaller errors than averages over independent points.
//!
//! Reference: Owen, "A randomized Halton algorithm in R", arXiv 1706.02808, 2017.

use kpass::key::{Purpose, Stream};

#[derive(Debug)]
pub(super) struct Halton {
    primes: Vec<u64>,
    seed: u64,
}

impl Halton {
    pub(super) fn new(dimensions: usize, seed: u64) -> Self {
        let mut primes: Vec<u64> = Vec::with_capacity(dimensions);
        let mut candidate = 2;
        while primes.len() < dimensions {
            if primes.iter().take_while(|p| *p * *p <= candidate).all(|p| candidate % p != 0) {
                primes.push(candidate);
            }
            candidate += 1;
        }
        Self { primes, seed }
    }

    /// Returns coordinate `c` of points `0..count`, strictly between 0 and 1.
    pub(super) fn coordinate(&self, c: usize, count: usize) -> Vec<f64> {
        let base = self.primes[c];
        let mut values = vec![0.0; count];
        let mut digit_weight = 1.0 / base as f64;
        // add digits until they no longer change an f64
        for digit_index in 0.. {
            if digit_weight < f64::EPSILON / 4.0 {
                break;
            }
            let permutation = self.permutation(c, digit_index, base);
            let divisor = base.saturating_pow(digit_index);
            for (i, value) in values.iter_mut().enumerate() {
                let digit = (i as u64 / divisor) % base;
                *value += digit_weight * permutation[digit as usize] as f64;
            }
            digit_weight /= base as f64;
        }
        values.into_iter().map(|value| value.clamp(f64::EPSILON / 4.0, 1.0 - f64::EPSILON / 2.0)).collect()
    }

    /// Returns a random permutation of the digits for one place of one coordinate (Fisher, Yates).
    fn permutation(&self, c: usize, digit_index: u32, base: u64) -> Vec<u64> {
        let stream = Stream::new(self.seed, Purpose::Frequencies, (c as u64) << 8 | u64::from(digit_index));
        let mut digits: Vec<u64> = (0..base).collect();
        for i in (1..base).rev() {
            digits.swap(i as usize, stream.uniform_below(i, i + 1) as usize);
        }
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_spread_evenly_and_fairly() {
        let halton = Halton::new(5, 3);
        assert_eq!(halton.primes, [2, 3, 5, 7, 11]);
        for (c, base) in [(0, 2usize), (1, 3), (4, 11)] {
            // the first b^k points put one point into each of b^k intervals
            let count = base.pow(if base == 2 { 6 } else { 2 });
            let mut seen = vec![0; count];
            halton.coordinate(c, count).iter().for_each(|u| seen[(u * count as f64) as usize] += 1);
            assert!(seen.iter().all(|times| *times == 1), "base {base}: {seen:?}");
        }
        // over the seeds, the first point is uniformly distributed: its mean is 1/2 within 5
        // standard errors
        let mean = (0..4000).map(|seed| Halton::new(1, seed).coordinate(0, 1)[0]).sum::<f64>() / 4000.0;
        assert!((mean - 0.5).abs() < 5.0 / (12.0f64 * 4000.0).sqrt(), "{mean}");
    }
}
