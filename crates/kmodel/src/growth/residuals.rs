//! Residuals of rows: the part of the kernel outside the span of the landmarks.

use faer::Mat;
use kapprox::map::Expansion;
use kapprox::{FeatureMap, Real};
use kstore::checkpoint::{Arrays, Persist, StoredArrays};
use kstore::{Merge, Workers};
use serde::{Deserialize, Serialize};

/// Number of columns of the inverse factor of the landmarks' kernel matrix that
/// [`landmark_residual_sum`] computes at once.
const IDENTITY_STRIP_COLUMNS: usize = 64;

/// Sums over rows of k(x, x) and of the residual r = k(x, x) − ‖φ(x)‖², both times the weight of
/// the row, and of their products. They determine the missed fraction of the trace and its standard
/// error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct ResidualSums {
    /// Number of rows.
    pub rows: u64,
    /// Σ k(x, x).
    pub trace: f64,
    /// Σ r.
    pub residual: f64,
    /// Σ k(x, x)².
    trace_squares: f64,
    /// Σ k(x, x) r.
    products: f64,
    /// Σ r².
    residual_squares: f64,
}

impl ResidualSums {
    /// Number of sums in [`Self::to_sums`].
    pub(crate) const SUM_COUNT: usize = 5;

    /// Returns the sums of rows with these values of k(x, x) and these residuals, both times the
    /// weights. `diag` may have further numbers at its end.
    pub(crate) fn of_rows(diag: &[f64], residuals: &[f64]) -> Self {
        let mut sums = Self::default();
        diag.iter().zip(residuals).for_each(|(diag, residual)| sums.add_row(*diag, *residual));
        sums
    }

    /// Adds a row.
    pub fn add_row(&mut self, diag: f64, residual: f64) {
        self.rows += 1;
        self.add_sums(&[diag, residual, diag * diag, diag * residual, residual * residual]);
    }

    /// Returns the sums among the arrays of a state that contains a
    /// [`CertificateState`](crate::CertificateState); `None` for other states.
    pub fn of_state(state: &dyn Persist) -> Option<Self> {
        let mut arrays = Arrays::default();
        state.save(&mut arrays);
        let mut found = Self { rows: *arrays.find("residuals.rows")?.first()?, ..Self::default() };
        found.add_sums(&arrays.find::<f64>("residuals.sums")?);
        Some(found)
    }

    pub(crate) fn to_sums(self) -> [f64; Self::SUM_COUNT] {
        [self.trace, self.residual, self.trace_squares, self.products, self.residual_squares]
    }

    pub(crate) fn add_sums(&mut self, sums: &[f64]) {
        let own_sums = [
            &mut self.trace,
            &mut self.residual,
            &mut self.trace_squares,
            &mut self.products,
            &mut self.residual_squares,
        ];
        own_sums.into_iter().zip(sums).for_each(|(own, sum)| *own += sum);
    }

    /// Returns the missed fraction of the trace, Σ r / Σ k(x, x); 0 without rows.
    pub fn missed_fraction(&self) -> f64 {
        if self.trace > 0.0 { self.residual / self.trace } else { 0.0 }
    }

    /// Returns the standard deviation d of a row, so that the missed fraction of n independent rows
    /// has the standard error d/√n: the linearised deviation of a ratio of means. It is infinite
    /// for fewer than two rows.
    pub fn row_deviation(&self) -> f64 {
        if self.rows < 2 || self.trace <= 0.0 {
            return f64::INFINITY;
        }
        let (n, fraction) = (self.rows as f64, self.missed_fraction());
        let squares = self.residual_squares - 2.0 * fraction * self.products + fraction * fraction * self.trace_squares;
        (squares.max(0.0) / (n - 1.0)).sqrt() / (self.trace / n)
    }

    /// Returns the sums rounded to six significant digits. The order in which rows were summed has
    /// no effect on the rounded sums.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let mut rounded = Self { rows: self.rows, ..Self::default() };
        rounded.add_sums(&self.to_sums().map(self::rounded));
        rounded
    }
}

/// Returns a number rounded to six significant digits.
pub(super) fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

impl Merge for ResidualSums {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.add_sums(&later.to_sums());
    }
}

impl Persist for ResidualSums {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_number("rows", self.rows);
        out.put_owned("sums", self.to_sums().to_vec());
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        let mut sums = [0.0; Self::SUM_COUNT];
        *self = Self { rows: from.read_number("rows")?, ..Self::default() };
        from.fill("sums", &mut sums)?;
        self.add_sums(&sums);
        Ok(())
    }
}

/// Returns the sum over the landmarks of the residual that each landmark would have if it was
/// not a landmark: Σ_i 1/(K⁻¹)_ii, where K is the kernel matrix of the landmarks. Returns `None` if
/// the map is not a projection.
///
/// *Flops*: about m³ for m landmarks. *Bytes*: [`landmark_residual_bytes`].
#[doc(hidden)]
pub fn landmark_residual_sum<T: Real>(map: &dyn FeatureMap<T>, workers: &Workers) -> Option<f64> {
    if !map.is_projection() {
        return None;
    }
    // K⁻¹ = FFᵀ for the coefficients F of the features on the kernel functions of the landmarks
    let (mut squared_norms, p) = (Vec::<f64>::new(), map.dims().1);
    for first in (0..p).step_by(IDENTITY_STRIP_COLUMNS) {
        let columns = IDENTITY_STRIP_COLUMNS.min(p - first);
        let identity = Mat::from_fn(p, columns, |i, j| f64::from(u8::from(i == first + j)));
        let Expansion::Landmarks { dual_coefficients, .. } = map.expand(identity.as_ref(), workers) else {
            return None;
        };
        squared_norms.resize(dual_coefficients.nrows(), 0.0);
        for column in dual_coefficients.col_iter() {
            squared_norms.iter_mut().zip(column.iter()).for_each(|(sum, value)| *sum += value * value);
        }
    }
    Some(inverse_sum(&squared_norms))
}

/// Returns the bytes of [`landmark_residual_sum`] for m landmarks.
#[doc(hidden)]
pub fn landmark_residual_bytes(m: usize) -> usize {
    8 * m * (2 * IDENTITY_STRIP_COLUMNS + 1)
}

/// Returns Σ_i 1/‖F_i‖² for the rows F_i of `coefficients`. Skips rows of zeros, which belong to
/// landmarks that the features do not use.
pub(crate) fn inverse_squared_norms(coefficients: faer::MatRef<'_, f64>) -> f64 {
    let squared_norms: Vec<f64> = coefficients.row_iter().map(|row| row.squared_norm_l2()).collect();
    inverse_sum(&squared_norms)
}

fn inverse_sum(squared_norms: &[f64]) -> f64 {
    squared_norms.iter().filter(|norm| **norm > 0.0).map(|norm| 1.0 / norm).sum()
}
