//! Standard errors of scores over rows: the standard deviation that a score would have over tables
//! of as many independent rows.

/// Sums for the mean of one number per row, and for its standard error. A row of weight w counts as
/// w rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowMean {
    weight: f64,
    sum: f64,
    squared_sum: f64,
}

impl RowMean {
    pub(crate) fn push(&mut self, value: f64, weight: f64) {
        self.weight += weight;
        self.sum += weight * value;
        self.squared_sum += weight * value * value;
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// Returns the standard error of the mean, s/√n. `None` unless there is more than one row.
    pub(crate) fn standard_error(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.weight > 1.0)?;
        let scatter = self.squared_sum - mean * mean * self.weight;
        finite_root(scatter / (self.weight - 1.0) / self.weight)
    }
}

/// Returns the root of a square; a square that rounding made negative counts as 0.
fn finite_root(square: f64) -> Option<f64> {
    Some(square.max(0.0).sqrt()).filter(|error| error.is_finite())
}

/// Returns the standard error of √v, given the standard error of v (delta method). `None` for
/// v = 0.
pub(crate) fn of_root(value: f64, standard_error: f64) -> Option<f64> {
    Some(standard_error / (2.0 * value.sqrt())).filter(|error| error.is_finite())
}

/// Sums for the standard error of r2 = 1 − Σe²/Σ(y − ȳ)².
///
/// By the delta method, the error of r2 is the mean over rows of (ρ d² − e²)/V, where d = y − ȳ,
/// V is the mean of d², and ρ = 1 − r2. The sums of powers of y − m move with the running mean m,
/// so that a target far from zero does not cancel.
#[derive(Clone, Debug, Default)]
pub(crate) struct R2Moments {
    mean: f64,
    /// Σw(y − m)^k for k = 0, …, 4.
    powers: [f64; 5],
    /// Σwe²(y − m)^k for k = 0, 1, 2.
    error_powers: [f64; 3],
    /// Σwe⁴.
    fourth_errors: f64,
}

impl R2Moments {
    pub(crate) fn push(&mut self, error: f64, truth: f64, weight: f64) {
        let shift = weight * (truth - self.mean) / (self.powers[0] + weight);
        self.mean += shift;
        let [p0, p1, p2, p3, p4] = self.powers;
        let [s, s2] = [shift, shift * shift];
        self.powers = [
            p0,
            p1 - s * p0,
            p2 - 2.0 * s * p1 + s2 * p0,
            p3 - 3.0 * s * p2 + 3.0 * s2 * p1 - s2 * s * p0,
            p4 - 4.0 * s * p3 + 6.0 * s2 * p2 - 4.0 * s2 * s * p1 + s2 * s2 * p0,
        ];
        let [e0, e1, e2] = self.error_powers;
        self.error_powers = [e0, e1 - s * e0, e2 - 2.0 * s * e1 + s2 * e0];
        let (d, squared_error) = (truth - self.mean, error * error);
        let mut power = weight;
        for (k, sum) in self.powers.iter_mut().enumerate() {
            *sum += power;
            if let Some(sum) = self.error_powers.get_mut(k) {
                *sum += squared_error * power;
            }
            power *= d;
        }
        self.fourth_errors += weight * squared_error * squared_error;
    }

    /// Returns the standard error of `r2`; `variance` is V.
    pub(crate) fn standard_error(&self, r2: f64, variance: f64) -> Option<f64> {
        let ratio = 1.0 - r2;
        let scatter = ratio * ratio * self.powers[4] - 2.0 * ratio * self.error_powers[2] + self.fourth_errors;
        let weight = self.powers[0];
        let root = finite_root(scatter / (weight - 1.0) / weight).filter(|_| weight > 1.0)?;
        Some(root / variance).filter(|error| error.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_error_of_a_mean() {
        let mut mean = RowMean::default();
        [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (6.0, 1.0)]
            .into_iter()
            .for_each(|(value, weight)| mean.push(value, weight));
        // s² = (4 + 1 + 0 + 0 + 9)/4
        let expected = (14.0f64 / 4.0 / 5.0).sqrt();
        assert!((mean.standard_error().unwrap() - expected).abs() < 1e-14);
        let mut one = RowMean::default();
        one.push(1.0, 1.0);
        assert_eq!((one.mean(), one.standard_error(), RowMean::default().mean()), (Some(1.0), None, None));
    }

    #[test]
    fn the_standard_error_of_r2_is_that_of_its_rows() {
        // by the formula, over all rows at once, far from zero
        let rows: Vec<(f64, f64, f64)> = (0..300)
            .map(|i| {
                let i = f64::from(i);
                ((0.3 * i).sin() + 0.1 * (i * 1.7).cos(), 1e5 + (0.3 * i).sin() * 3.0 + i.sqrt(), 1.0 + (i % 3.0))
            })
            .collect();
        let mut moments = R2Moments::default();
        rows.iter().for_each(|(error, truth, weight)| moments.push(*error, *truth, *weight));
        let weight: f64 = rows.iter().map(|row| row.2).sum();
        let mean = rows.iter().map(|(_, y, w)| w * y).sum::<f64>() / weight;
        let variance = rows.iter().map(|(_, y, w)| w * (y - mean).powi(2)).sum::<f64>() / weight;
        let ratio = rows.iter().map(|(e, _, w)| w * e * e).sum::<f64>() / weight / variance;
        let square = |(e, y, w): &(f64, f64, f64)| w * (ratio * (y - mean).powi(2) - e * e).powi(2);
        let expected = (rows.iter().map(square).sum::<f64>() / (weight - 1.0) / weight).sqrt() / variance;
        let got = moments.standard_error(1.0 - ratio, variance).unwrap();
        assert!((got / expected - 1.0).abs() < 1e-8, "{got} {expected}");
    }
}
