//! Computes or bounds the spectral norms of E = K − ΦΦᵀ and of K.

use super::krylov::{Bounds, Krylov, PriorBounds};
use super::{Approximation, EXACT_ROWS, Errors, Evidence, Measure, MeasuredRows, NormPair, PANEL_COLUMNS};
use crate::kernel::{KernelFunction, pieces};
use crate::{Real, Result, decompose::product, map::nystrom::strips};
use faer::{Accum, Mat, MatMut, MatRef, Par, concat, linalg::matmul::matmul};
use kpass::Workers;

/// Limits of the iteration.
#[derive(Clone, Copy, Debug)]
pub struct SpectralOptions {
    /// Width of the interval at which the iteration ends, relative to its lower end.
    pub tolerance: f64,
    /// Maximum number of products with K.
    pub steps: usize,
    /// Probability that the interval does not hold.
    pub failure: f64,
}

impl Default for SpectralOptions {
    /// The default tolerance is 5 %, which takes about 16 products at 10,000 rows. The value of the
    /// measure is much more accurate than the width of its interval.
    fn default() -> Self {
        Self { tolerance: 0.05, steps: 24, failure: 1e-6 }
    }
}

impl Errors {
    /// Returns bounds of ‖E‖₂ and ‖K‖₂ for any number of rows, without another pass. `largest` must
    /// be the largest eigenvalue of ΦᵀΦ, or 0 if this eigenvalue is not known. If it is 0, only the
    /// bounds of ‖E‖₂ hold.
    ///
    /// With the residuals r_i = E_ii and the measured columns E e_j, max(max_i |r_i|, max_j ‖E
    /// e_j‖) ≤ ‖E‖₂ ≤ ‖E‖_F, and for projections ‖E‖₂ ≤ tr E. ‖K‖₂ differs from the largest
    /// eigenvalue of ΦᵀΦ by at most ‖E‖₂. For projections, ‖K‖₂ is at least this eigenvalue.
    #[doc(hidden)]
    pub fn spectral_bounds(&self, largest: f64) -> NormPair {
        let (frobenius, trace) = (self.frobenius_norm, self.trace_bound());
        let low = self.largest_column.max(self.largest_residual);
        let is_probable = frobenius.error.high < trace.unwrap_or(f64::INFINITY);
        let evidence = |measure: Measure| match frobenius.error.evidence {
            Evidence::Confidence(level) if is_probable => Measure { evidence: Evidence::Confidence(level), ..measure },
            _ => measure,
        };
        let error = evidence(Measure::bounds(low, frobenius.error.high.min(trace.unwrap_or(f64::INFINITY))));
        let lower = if trace.is_some() { largest } else { largest - error.high };
        let kernel_norm = Measure::bounds(lower.max(0.0), (largest + error.high).min(self.trace_of_kernel));
        NormPair { error, kernel: evidence(kernel_norm) }
    }

    /// Returns the largest value that tr E can have, including rounding; `None` if the map is not a
    /// projection, because tr E then does not bound the norms of E.
    pub(super) fn trace_bound(&self) -> Option<f64> {
        self.trace.map(|trace| (trace + self.floor) * self.trace_of_kernel)
    }
}

impl<T: Real> Approximation<'_, T> {
    /// Computes ‖E‖₂ and ‖K‖₂ at the ranks of `errors`, which must be errors of this approximation.
    ///
    /// One pass reads the rows into memory, n(d + 2p) numbers. Block Krylov iterations follow (the
    /// header of `quality/krylov.rs` explains them). Each iteration costs n² kernel evaluations,
    /// which are used for all ranks, and 2n²(d + 16) flops. The iterations store 16 n·`steps`
    /// numbers for each rank and for K. The value of each measure is its lower bound. The interval
    /// holds except with probability `failure`.
    ///
    /// # Errors
    /// The errors of the source; [`crate::Error::TooManyRows`] for more than [`EXACT_ROWS`] rows.
    pub fn spectral(&self, errors: &[Errors], options: SpectralOptions, seed: u64) -> Result<Vec<NormPair>> {
        let Some(first) = errors.first() else { return Ok(Vec::new()) };
        if first.rows > EXACT_ROWS as u64 {
            return Err(crate::Error::TooManyRows {
                what: "the spectral error",
                rows: first.rows,
                most: EXACT_ROWS as u64,
            });
        }
        let measured = self.measure_rows(EXACT_ROWS, seed)?;
        let n = measured.phi.nrows();
        let kernel = self.kernel.typed::<f64>();
        let definite = kernel.positive_definite();
        let new_search = |rank, frobenius, trace| NormSearch {
            space: Krylov::new(n, seed),
            prior: PriorBounds { frobenius, trace },
            rank,
            bounds: None,
        };
        let of_error =
            |errors: &Errors| new_search(Some(errors.rank), errors.frobenius_norm.error.high, errors.trace_bound());
        let mut searches: Vec<NormSearch> = errors.iter().map(of_error).collect();
        searches.push(new_search(None, first.frobenius_norm.kernel.high, definite.then_some(first.trace_of_kernel)));
        for _ in 0..options.steps {
            let mut active: Vec<&mut NormSearch> =
                searches.iter_mut().filter(|search| search.needs_step(options)).collect();
            if active.is_empty() {
                break;
            }
            add_kernel_products(&mut active, &measured, &*kernel, self.data.pass.workers, options.failure)?;
        }
        let kernel_norm = searches.pop().map_or(Measure::exact(0.0), |search| search.measure(options));
        Ok(searches.iter().map(|search| NormPair { error: search.measure(options), kernel: kernel_norm }).collect())
    }
}

/// The search for the norm of K, or of K − ΦΦᵀ with the leading features Φ.
struct NormSearch {
    space: Krylov,
    prior: PriorBounds,
    rank: Option<usize>,
    bounds: Option<Bounds>,
}

impl NormSearch {
    fn needs_step(&self, options: SpectralOptions) -> bool {
        let has_wide_bounds = self.bounds.is_none_or(|bounds| bounds.likely > bounds.low * (1.0 + options.tolerance));
        has_wide_bounds && self.space.next().ncols() > 0
    }

    /// Adds the product of K with the next columns.
    fn add_images(&mut self, mut images: MatMut<'_, f64>, measured: &MeasuredRows, failure: f64) -> Result<()> {
        if let Some(rank) = self.rank {
            let phi = measured.phi.as_ref().subcols(0, rank);
            let inner = product(phi.transpose(), self.space.next());
            matmul(images.as_mut(), Accum::Add, phi, inner.as_ref(), -1.0, Par::Seq);
        }
        self.bounds = Some(self.space.extend(images.as_ref(), self.prior, failure)?);
        Ok(())
    }

    fn measure(&self, options: SpectralOptions) -> Measure {
        let Some(Bounds { low, high, likely }) = self.bounds else { return Measure::exact(0.0) };
        match likely < high {
            true => Measure { value: low, low, high: likely, evidence: Evidence::Confidence(1.0 - options.failure) },
            false => Measure::bounds(low, high),
        }
    }
}

/// Makes one product with K for all searches, so that the entries of K are computed only once.
fn add_kernel_products(
    searches: &mut [&mut NormSearch],
    measured: &MeasuredRows,
    kernel: &dyn KernelFunction<f64>,
    workers: &Workers,
    failure: f64,
) -> Result<()> {
    let n = measured.phi.nrows();
    let widths: Vec<usize> = searches.iter().map(|search| search.space.next().ncols()).collect();
    let mut v = Mat::zeros(n, 0);
    for search in searches.iter() {
        v = concat![[v, search.space.next()]];
    }
    let mut images = kernel_times(kernel, measured.points(), v.as_ref(), workers);
    let (mut parts, mut rest) = (Vec::with_capacity(searches.len()), images.as_mut());
    for (search, width) in searches.iter_mut().zip(widths) {
        let (columns, remaining) = rest.split_at_col_mut(width);
        rest = remaining;
        parts.push((search, columns));
    }
    workers.try_for_each(parts, |(search, images)| search.add_images(images, measured, failure))
}

/// Computes K V, one strip of rows by one panel of columns at a time.
fn kernel_times(
    kernel: &dyn KernelFunction<f64>,
    x: MatRef<'_, f64>,
    v: MatRef<'_, f64>,
    workers: &Workers,
) -> Mat<f64> {
    let n = x.nrows();
    let mut out = Mat::zeros(n, v.ncols());
    workers.for_each(strips(x, out.as_mut()), |(strip, mut out)| {
        let mut k = Mat::zeros(strip.nrows(), PANEL_COLUMNS.min(n));
        for (first, width) in pieces(n, PANEL_COLUMNS) {
            let mut k = k.as_mut().subcols_mut(0, width);
            kernel.block(strip, x.subrows(first, width), k.as_mut());
            matmul(out.as_mut(), Accum::Add, k.as_ref(), v.subrows(first, width), 1.0, Par::Seq);
        }
    });
    out
}
