//! Distributions of numeric columns, as stored by a model for comparisons with new rows.
//!
//! For a sample of the training rows, the model stores quantiles q_k and the numbers of sampled
//! values below and up to q_k. So the distribution function F of the sample is known at every
//! quantile and just below it, also if values repeat. The largest difference from another
//! distribution function G at these points is a lower bound of the distance of Kolmogorov and
//! Smirnov, sup |F − G|, and falls short of it by less than 1/64. It equals this distance if the
//! sample has at most [`MAX_QUANTILES`] distinct values.

use serde::{Deserialize, Serialize};

/// Maximum number of quantiles of a column. Chosen: about 2 kB of the model file for each column.
const MAX_QUANTILES: usize = 65;

/// The distribution of a numeric column over the training rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnDistribution {
    /// Name of the column.
    pub column: String,
    /// Number of training rows with a value.
    pub count: u64,
    /// Mean over all training rows.
    pub mean: f64,
    /// Standard deviation over all training rows.
    pub deviation: f64,
    /// Number of sampled values.
    pub sampled: u64,
    /// Distinct quantiles of the sampled values, ascending; the first and the last are the extremes
    /// of the sample.
    pub quantiles: Vec<f64>,
    /// Numbers of sampled values below each quantile, and up to it.
    pub counts: Vec<[u64; 2]>,
}

impl ColumnDistribution {
    /// Sets the quantiles of sampled values, in any order; NaN is skipped.
    pub fn set_sample(&mut self, mut values: Vec<f64>) {
        values.retain(|value| !value.is_nan());
        values.sort_unstable_by(f64::total_cmp);
        let mut distinct = values.clone();
        distinct.dedup();
        self.quantiles = match distinct.len() {
            0..=MAX_QUANTILES => distinct,
            _ => {
                let at = |k: usize| values[k * (values.len() - 1) / (MAX_QUANTILES - 1)];
                let mut quantiles: Vec<f64> = (0..MAX_QUANTILES).map(at).collect();
                quantiles.dedup();
                quantiles
            }
        };
        self.counts = self.quantiles.iter().map(|quantile| counts_at(&values, *quantile)).collect();
        self.sampled = values.len() as u64;
    }

    /// Returns the largest difference from the distribution function of ascending values, at the
    /// quantiles and just below them. Returns 0 if one side has no values.
    pub fn distance(&self, ascending: &[f64]) -> f64 {
        if self.sampled == 0 || ascending.is_empty() {
            return 0.0;
        }
        let difference = |(quantile, counts): (&f64, &[u64; 2])| {
            let others = counts_at(ascending, *quantile);
            let fraction = |side: usize| counts[side] as f64 / self.sampled as f64;
            let other_fraction = |side: usize| others[side] as f64 / ascending.len() as f64;
            (0..2).map(|side| (fraction(side) - other_fraction(side)).abs()).fold(0.0, f64::max)
        };
        self.quantiles.iter().zip(&self.counts).map(difference).fold(0.0, f64::max)
    }
}

/// Returns the numbers of ascending values below a number, and up to it.
fn counts_at(ascending: &[f64], number: f64) -> [u64; 2] {
    let below = ascending.partition_point(|value| *value < number);
    [below as u64, ascending.partition_point(|value| *value <= number) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sup |F − G| by its definition.
    fn distance(a: &[f64], b: &[f64]) -> f64 {
        let below = |x: &[f64], t: f64| x.iter().filter(|v| **v <= t).count() as f64 / x.len() as f64;
        a.iter().chain(b).map(|t| (below(a, *t) - below(b, *t)).abs()).fold(0.0, f64::max)
    }

    fn stored(values: &[f64]) -> ColumnDistribution {
        let mut column = ColumnDistribution::default();
        column.set_sample(values.to_vec());
        column
    }

    #[test]
    fn the_distance_of_a_stored_distribution_bounds_that_of_its_sample() {
        let wave = |n: usize, factor: f64, scale: f64| -> Vec<f64> {
            let mut values: Vec<f64> = (0..n).map(|i| (i as f64 * factor).sin() * scale).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let rounded = |values: &[f64]| values.iter().map(|v| (v * 4.0).round()).collect::<Vec<f64>>();
        let (old, wide) = (wave(1500, 1.3, 1.0), wave(700, 0.7, 3.0));
        for new in [&wide, &wave(400, 0.7, 1.0), &wave(50, 2.1, 0.01), &vec![7.0; 9], &vec![-7.0; 9]] {
            let (exact, found) = (distance(&old, new), stored(&old).distance(new));
            assert!(found <= exact + 1e-12 && exact - found < 1.0 / 64.0, "{exact} {found}");
            // few distinct values are stored completely
            let (old, new) = (rounded(&old), rounded(new));
            let (exact, found) = (distance(&old, &new), stored(&old).distance(&new));
            assert!((found - exact).abs() < 1e-12, "{exact} {found}");
        }
        let column = stored(&[f64::NAN, 2.0, 1.0, 2.0]);
        assert_eq!((column.sampled, column.quantiles, column.counts), (3, vec![1.0, 2.0], vec![[0, 1], [1, 3]]));
        assert_eq!((stored(&[]).distance(&[1.0]), stored(&old).distance(&[])), (0.0, 0.0));
    }
}
