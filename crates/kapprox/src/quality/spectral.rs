//! Computes or bounds the spectral norms of E = K − ΦΦᵀ and of K.

use super::krylov::{Bounds, Krylov, PriorBounds};
use super::{
    Approximation, ApproximationErrors, EXACT_ROWS, Evidence, MEASURED_PANEL_COLUMNS, Measure, MeasuredRows, NormPair,
};
use crate::kernel::{KernelFunction, index_chunks};
use crate::{Real, Result, decompose::product, map::nystrom::strips};
use faer::{Accum, Mat, MatMut, MatRef, Par, concat, linalg::matmul::matmul};
use kpass::Workers;

/// Limits of the iteration.
#[derive(Clone, Copy, Debug)]
pub struct SpectralOptions {
    /// Width of the interval at which the iteration ends, relative to its lower end.
    pub tolerance: f64,
    /// Maximum number of products with K.
    pub max_steps: usize,
    /// Probability that the interval does not hold.
    pub failure_probability: f64,
}

impl Default for SpectralOptions {
    /// The default tolerance is 5 %, which takes about 16 products at 10,000 rows. The value of the
    /// measure is much more accurate than the width of its interval.
    fn default() -> Self {
        Self { tolerance: 0.05, max_steps: 24, failure_probability: 1e-6 }
    }
}

impl ApproximationErrors {
    /// Returns bounds of ‖E‖₂ and ‖K‖₂ for any number of rows, without another pass.
    /// `largest_eigenvalue` must be the largest eigenvalue of ΦᵀΦ, or 0 if this eigenvalue is not
    /// known. If it is 0, only the bounds of ‖E‖₂ hold.
    ///
    /// With the residuals r_i = E_ii and the measured columns E e_j, max(max_i |r_i|, max_j ‖E
    /// e_j‖) ≤ ‖E‖₂ ≤ ‖E‖_F, and for projections ‖E‖₂ ≤ tr E. ‖K‖₂ differs from the largest
    /// eigenvalue of ΦᵀΦ by at most ‖E‖₂. For projections, ‖K‖₂ is at least this eigenvalue.
    #[doc(hidden)]
    pub fn spectral_bounds(&self, largest_eigenvalue: f64) -> NormPair {
        let (frobenius, trace) = (self.frobenius_norm, self.trace_bound());
        let low = self.largest_column_norm.max(self.largest_residual);
        let is_probable = frobenius.error.high < trace.unwrap_or(f64::INFINITY);
        let with_evidence = |measure: Measure| match frobenius.error.evidence {
            Evidence::Confidence(level) if is_probable => Measure { evidence: Evidence::Confidence(level), ..measure },
            _ => measure,
        };
        let error = with_evidence(Measure::bounds(low, frobenius.error.high.min(trace.unwrap_or(f64::INFINITY))));
        let lower_bound = if trace.is_some() { largest_eigenvalue } else { largest_eigenvalue - error.high };
        let kernel_norm =
            Measure::bounds(lower_bound.max(0.0), (largest_eigenvalue + error.high).min(self.kernel_trace));
        NormPair { error, kernel: with_evidence(kernel_norm) }
    }

    /// Returns the largest value that tr E can have, including rounding. Returns `None` if the map
    /// is not a projection, because tr E then does not bound the norms of E.
    pub(super) fn trace_bound(&self) -> Option<f64> {
        self.trace_error.map(|trace_error| (trace_error + self.rounding_floor) * self.kernel_trace)
    }
}

impl<T: Real> Approximation<'_, T> {
    /// Computes ‖E‖₂ and ‖K‖₂ at the ranks of `errors`, which must be errors of this approximation.
    ///
    /// One pass reads the rows into memory, n(d + 2p) numbers. Block Krylov iterations follow (the
    /// header of `quality/krylov.rs` explains them). Each iteration costs n² kernel evaluations,
    /// which are used for all ranks, and 2n²(d + 16) flops. The iterations store 16 n·`max_steps`
    /// numbers for each rank and for K. The value of each measure is its lower bound. The interval
    /// holds except with probability `failure_probability`.
    ///
    /// # Errors
    /// The errors of the source; [`crate::Error::TooManyRows`] for more than [`EXACT_ROWS`] rows.
    pub fn spectral(
        &self,
        errors: &[ApproximationErrors],
        options: SpectralOptions,
        seed: u64,
    ) -> Result<Vec<NormPair>> {
        let Some(first_errors) = errors.first() else { return Ok(Vec::new()) };
        if first_errors.row_count > EXACT_ROWS as u64 {
            return Err(crate::Error::TooManyRows {
                what: "the spectral error",
                row_count: first_errors.row_count,
                max_count: EXACT_ROWS as u64,
            });
        }
        let measured_rows = self.draw_measured_rows(EXACT_ROWS, seed)?;
        let n = measured_rows.phi.nrows();
        let kernel = self.kernel.typed::<f64>();
        let is_definite = kernel.is_positive_definite();
        let new_search = |rank, frobenius, trace| NormSearch {
            space: Krylov::new(n, seed),
            prior: PriorBounds { frobenius_norm: frobenius, trace },
            rank,
            bounds: None,
        };
        let error_search = |errors: &ApproximationErrors| {
            new_search(Some(errors.rank), errors.frobenius_norm.error.high, errors.trace_bound())
        };
        let mut searches: Vec<NormSearch> = errors.iter().map(error_search).collect();
        searches.push(new_search(
            None,
            first_errors.frobenius_norm.kernel.high,
            is_definite.then_some(first_errors.kernel_trace),
        ));
        for _ in 0..options.max_steps {
            let mut active_searches: Vec<&mut NormSearch> =
                searches.iter_mut().filter(|search| search.needs_step(options)).collect();
            if active_searches.is_empty() {
                break;
            }
            add_kernel_products(
                &mut active_searches,
                &measured_rows,
                &*kernel,
                self.scan.pass.workers,
                options.failure_probability,
            )?;
        }
        let kernel_norm = searches.pop().map_or(Measure::exact(0.0), |search| search.measure(options));
        Ok(searches.iter().map(|search| NormPair { error: search.measure(options), kernel: kernel_norm }).collect())
    }
}

/// The search for the norm of K, or of K − ΦΦᵀ with the leading features Φ.
struct NormSearch {
    space: Krylov,
    prior: PriorBounds,
    /// Number of features in Φ; `None` for K alone.
    rank: Option<usize>,
    bounds: Option<Bounds>,
}

impl NormSearch {
    fn needs_step(&self, options: SpectralOptions) -> bool {
        let has_wide_bounds =
            self.bounds.is_none_or(|bounds| bounds.probable_high > bounds.low * (1.0 + options.tolerance));
        has_wide_bounds && self.space.next_block().ncols() > 0
    }

    /// Adds `images`, the product of K with the next block of vectors. If the search is for K −
    /// ΦΦᵀ, first subtracts the product of ΦΦᵀ with this block.
    fn add_images(
        &mut self,
        mut images: MatMut<'_, f64>,
        measured_rows: &MeasuredRows,
        failure_probability: f64,
    ) -> Result<()> {
        if let Some(rank) = self.rank {
            let phi = measured_rows.phi.as_ref().subcols(0, rank);
            let phi_products = product(phi.transpose(), self.space.next_block());
            matmul(images.as_mut(), Accum::Add, phi, phi_products.as_ref(), -1.0, Par::Seq);
        }
        self.bounds = Some(self.space.add_block(images.as_ref(), self.prior, failure_probability)?);
        Ok(())
    }

    fn measure(&self, options: SpectralOptions) -> Measure {
        let Some(Bounds { low, high, probable_high }) = self.bounds else { return Measure::exact(0.0) };
        match probable_high < high {
            true => Measure {
                value: low,
                low,
                high: probable_high,
                evidence: Evidence::Confidence(1.0 - options.failure_probability),
            },
            false => Measure::bounds(low, high),
        }
    }
}

/// Makes one product with K for all searches, so that the entries of K are computed only once.
fn add_kernel_products(
    searches: &mut [&mut NormSearch],
    measured_rows: &MeasuredRows,
    kernel: &dyn KernelFunction<f64>,
    workers: &Workers,
    failure_probability: f64,
) -> Result<()> {
    let n = measured_rows.phi.nrows();
    let column_counts: Vec<usize> = searches.iter().map(|search| search.space.next_block().ncols()).collect();
    let mut v = Mat::zeros(n, 0);
    for search in searches.iter() {
        v = concat![[v, search.space.next_block()]];
    }
    let mut images = multiply_kernel(kernel, measured_rows.points(), v.as_ref(), workers);
    let (mut search_images, mut remaining_images) = (Vec::with_capacity(searches.len()), images.as_mut());
    for (search, column_count) in searches.iter_mut().zip(column_counts) {
        let (columns, remaining) = remaining_images.split_at_col_mut(column_count);
        remaining_images = remaining;
        search_images.push((search, columns));
    }
    workers
        .try_for_each(search_images, |(search, images)| search.add_images(images, measured_rows, failure_probability))
}

/// Computes K V, one strip of rows by one panel of columns at a time.
fn multiply_kernel(
    kernel: &dyn KernelFunction<f64>,
    x: MatRef<'_, f64>,
    v: MatRef<'_, f64>,
    workers: &Workers,
) -> Mat<f64> {
    let n = x.nrows();
    let mut out = Mat::zeros(n, v.ncols());
    workers.for_each(strips(x, out.as_mut()), |(strip, mut out)| {
        let mut k = Mat::zeros(strip.nrows(), MEASURED_PANEL_COLUMNS.min(n));
        for (first_column, column_count) in index_chunks(n, MEASURED_PANEL_COLUMNS) {
            let mut k = k.as_mut().subcols_mut(0, column_count);
            kernel.block(strip, x.subrows(first_column, column_count), k.as_mut());
            matmul(out.as_mut(), Accum::Add, k.as_ref(), v.subrows(first_column, column_count), 1.0, Par::Seq);
        }
    });
    out
}
