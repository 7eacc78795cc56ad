//! The pass that sums the outer products of gradients.

use crate::linalg::strips::{BufferPool, par};
use crate::{Error, Result};
use faer::linalg::matmul::triangular::{self, BlockStructure::*};
use faer::{Accum, MatMut, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::key::{Purpose, Stream};
use kstore::{Reduction, RowBlock, Workers};
use std::sync::Arc;

/// Number of rows whose gradients are in memory at once, chosen.
const CHUNK_ROWS: usize = 2048;

/// Number of rows that a thread processes at once.
const GRADIENT_STRIP_ROWS: usize = 128;

/// The pass that computes Σ_i w_i Σ_c ∇f_c(x_i) ∇f_c(x_i)ᵀ in f64. Here w_i is the weight of row i,
/// and f_c(x) = Σ_j α_jc k(x, z_j) for c = 1, …, t are functions of m landmarks z_j with r columns.
///
/// *Cost per row and function*: the gradients of m kernel functions, 4mr flops, and r²/2 for the
/// outer product.
#[derive(Debug)]
pub struct OuterProductReduction<'a> {
    kernel: Arc<dyn KernelFunction<f64>>,
    /// z, m x r row-major.
    landmarks: &'a [f64],
    /// α, m x t.
    coefficients: MatRef<'a, f64>,
    r: usize,
    /// Fraction of the rows that the pass uses. A random key of each row selects them.
    row_fraction: f64,
    stream: Stream,
}

/// A row has rt gradient values if t functions depend on r columns, for example 1,000 for 20
/// classes and 50 columns. If a row has more gradient values than this constant, the pass uses a
/// smaller fraction of the rows, so that its cost stays bounded. Averages over thousands of rows
/// differ little from averages over all rows.
const MAX_GRADIENT_VALUES: usize = 1000;

/// Minimum number of rows that the pass uses for one function, chosen. A smaller table provides
/// fewer rows. For t functions the number is divided by √t only: every row provides t gradients,
/// but these are correlated.
const MIN_SAMPLED_ROWS: f64 = 2000.0;
/// Maximum number of rows that the pass uses. With 5,000 rows the importances of the columns have a
/// relative error of about 1 %.
const MAX_SAMPLED_ROWS: f64 = 5000.0;

/// Weighted sum of the outer products of gradients, and the sum of the weights of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct OuterProductSums {
    /// The matrix, r x r column-major.
    sums: Vec<f64>,
    pub total_weight: f64,
}

kstore::summed!(OuterProductSums { one "weight": total_weight, fill "sums": sums });

impl OuterProductSums {
    /// Returns the sum of the outer products, r x r.
    pub fn sums(&self) -> MatRef<'_, f64> {
        let r = self.sums.len().isqrt();
        MatRef::from_column_major_slice(&self.sums, r, r)
    }

    /// Returns the bytes of the sums, for r columns.
    pub fn bytes(r: usize) -> usize {
        8 * r * r
    }
}

impl<'a> OuterProductReduction<'a> {
    /// Returns a pass over all rows, for functions with the coefficients `coefficients` (m x t) of
    /// the kernel functions of `landmarks` (m x r, row-major).
    pub fn new(kernel: Arc<dyn KernelFunction<f64>>, landmarks: &'a [f64], coefficients: MatRef<'a, f64>) -> Self {
        let r = landmarks.len() / coefficients.nrows().max(1);
        Self { kernel, landmarks, coefficients, r, row_fraction: 1.0, stream: Stream::new(0, Purpose::Gradients, 0) }
    }

    /// Restricts the pass to a random sample of the `n` rows. The sample is large enough for an
    /// accurate average, and so small that the pass costs no more than the fit.
    pub fn with_row_sample(self, n: u64, seed: u64) -> Self {
        let t = self.coefficients.ncols().max(1);
        let fraction_of = |rows: f64| rows / n.max(1) as f64;
        let min_fraction = fraction_of(MIN_SAMPLED_ROWS / (t as f64).sqrt());
        let fraction = (MAX_GRADIENT_VALUES as f64 / (self.r.max(1) * t) as f64)
            .min(fraction_of(MAX_SAMPLED_ROWS))
            .max(min_fraction)
            .min(1.0);
        Self { row_fraction: fraction, stream: Stream::new(seed, Purpose::Gradients, 0), ..self }
    }

    /// Copies the inputs and the weights of the selected rows among [`CHUNK_ROWS`] rows of a block
    /// from `first_row` on.
    fn copy_selected<T: Real>(
        &self,
        block: &RowBlock<'_, T>,
        first_row: usize,
        x: &mut Vec<f64>,
        weights: &mut Vec<f64>,
    ) {
        let rows = first_row..block.row_numbers.len().min(first_row + CHUNK_ROWS);
        x.clear();
        weights.clear();
        for i in
            rows.filter(|i| self.row_fraction >= 1.0 || self.stream.uniform(block.row_numbers[*i]) < self.row_fraction)
        {
            x.extend(block.x[i * self.r..(i + 1) * self.r].iter().map(|value| value.to_f64()));
            weights.push(block.weight(i).unwrap_or(1.0));
        }
    }

    /// Returns the bytes of a lane's buffers, for m landmarks and r columns on this many threads.
    pub fn scratch_bytes(m: usize, r: usize, threads: usize) -> usize {
        8 * (2 * CHUNK_ROWS * r + threads.max(1) * GRADIENT_STRIP_ROWS * 3 * m)
    }

    /// Writes the gradients of function `c` at the rows of `x` (b x r) to `out` (b x r), both
    /// row-major.
    fn gradients(
        &self,
        x: &[f64],
        c: usize,
        out: &mut [f64],
        coefficient_buffers: &BufferPool<Vec<f64>>,
        workers: &Workers,
    ) {
        let (r, m) = (self.r, self.coefficients.nrows());
        let z = MatRef::from_row_major_slice(self.landmarks, m, r);
        let strips = out.chunks_mut(GRADIENT_STRIP_ROWS * r).zip(x.chunks(GRADIENT_STRIP_ROWS * r)).collect();
        workers.for_each(strips, |(out, x): (&mut [f64], &[f64])| {
            let strip_rows = out.len() / r;
            out.fill(0.0);
            coefficient_buffers.with_buffer(Vec::new, |weights| {
                weights.clear();
                for alpha in self.coefficients.col(c).iter() {
                    weights.extend(std::iter::repeat_n(*alpha, strip_rows));
                }
                let weights = MatRef::from_column_major_slice(weights, strip_rows, m);
                let x = MatRef::from_row_major_slice(x, strip_rows, r);
                self.kernel.gradient(x, z, weights, MatMut::from_row_major_slice_mut(out, strip_rows, r));
            });
        });
    }
}

#[derive(Debug, Default)]
pub struct GradientScratch {
    x: Vec<f64>,
    row_weights: Vec<f64>,
    gradients: Vec<f64>,
    /// For each thread, the coefficients of one function, repeated for every row of a strip.
    coefficient_buffers: BufferPool<Vec<f64>>,
}

impl<T: Real> Reduction<T> for OuterProductReduction<'_> {
    type State = OuterProductSums;
    type Scratch = GradientScratch;
    type Error = Error;

    fn init(&self) -> OuterProductSums {
        OuterProductSums { sums: vec![0.0; self.r * self.r], total_weight: 0.0 }
    }

    fn scratch(&self) -> GradientScratch {
        GradientScratch::default()
    }

    fn step(
        &self,
        state: &mut OuterProductSums,
        scratch: &mut GradientScratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (r, GradientScratch { x, row_weights, gradients, coefficient_buffers: weights }) = (self.r, scratch);
        for first_row in (0..block.row_numbers.len()).step_by(CHUNK_ROWS) {
            self.copy_selected(block, first_row, x, row_weights);
            if x.is_empty() {
                continue;
            }
            gradients.resize(x.len(), 0.0);
            for c in 0..self.coefficients.ncols() {
                self.gradients(x, c, gradients, weights, workers);
                if block.weights.is_some() {
                    for (weight, gradient) in row_weights.iter().zip(gradients.chunks_exact_mut(r)) {
                        let root = weight.sqrt();
                        gradient.iter_mut().for_each(|value| *value *= root);
                    }
                }
                let g = MatRef::from_row_major_slice(gradients, row_weights.len(), r);
                let sums = MatMut::from_column_major_slice_mut(&mut state.sums, r, r);
                let (transposed, accum, structure, par) = (g.transpose(), Accum::Add, Rectangular, par(workers));
                workers.install(|| {
                    triangular::matmul(sums, TriangularLower, accum, transposed, structure, g, structure, 1.0, par)
                });
            }
            state.total_weight += row_weights.iter().sum::<f64>();
        }
        for j in 0..r {
            for i in j + 1..r {
                state.sums[i * r + j] = state.sums[j * r + i];
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use kapprox::Kernel;
    use kstore::{MemoryRows, Pass};

    /// Numbers between −1 and 1.
    fn numbers(count: usize, round: u64) -> Vec<f64> {
        let stream = Stream::new(4, Purpose::Data, round);
        (0..count as u64).map(|i| 2.0 * stream.uniform(i) - 1.0).collect()
    }

    #[test]
    fn sums_follow_the_formula() {
        let (n, m, d, t, sigma) = (5000, 7, 4, 2, 1.3);
        let (x, z, alpha) = (numbers(n * d, 0), numbers(m * d, 1), numbers(m * t, 2));
        let weights: Vec<f64> = numbers(n, 3).into_iter().map(|w| w + 1.0).collect();
        let mut expected = Mat::<f64>::zeros(d, d);
        for (x, w) in x.chunks(d).zip(&weights) {
            for c in 0..t {
                let mut gradient = vec![0.0; d];
                for (j, z) in z.chunks(d).enumerate() {
                    let squared: f64 = x.iter().zip(z).map(|(x, z)| (x - z).powi(2)).sum();
                    let k = (-squared / (2.0 * sigma * sigma)).exp();
                    for (g, (x, z)) in gradient.iter_mut().zip(x.iter().zip(z)) {
                        *g -= alpha[c * m + j] * k * (x - z) / (sigma * sigma);
                    }
                }
                expected += Mat::from_fn(d, d, |a, b| w * gradient[a] * gradient[b]);
            }
        }
        let kernel = Kernel::parse("gaussian(sigma=1.3)").unwrap().build().unwrap().typed::<f64>();
        let reduction = OuterProductReduction::new(kernel, &z, MatRef::from_column_major_slice(&alpha, m, t));
        let rows = MemoryRows::new(x, d).unwrap().with_weights(Some(weights.clone())).unwrap();
        let sums = |threads, segment| {
            let workers = Workers::new(threads);
            Pass::new(900, segment, &workers).reduce(&rows, &reduction).unwrap().0
        };
        let products = sums(1, 100_000);
        assert!((products.sums() - &expected).norm_max() < 1e-10 * expected.norm_max());
        assert!((products.total_weight - weights.iter().sum::<f64>()).abs() < 1e-9);
        assert_eq!(products, sums(3, 100_000));
        assert!((sums(2, 1800).sums() - &expected).norm_max() < 1e-10 * expected.norm_max());
    }

    #[test]
    fn sampled_rows_have_the_average_of_all_rows() {
        let (n, m, d, t) = (12_000, 5, 60, 40);
        let (x, z, alpha) = (numbers(n * d, 0), numbers(m * d, 1), numbers(m * t, 2));
        let kernel = Kernel::parse("gaussian(sigma=6)").unwrap().build().unwrap().typed::<f64>();
        let rows = MemoryRows::new(x, d).unwrap();
        let mean = |is_sampled: bool, threads: usize| {
            let workers = Workers::new(threads);
            let reduction =
                OuterProductReduction::new(kernel.clone(), &z, MatRef::from_column_major_slice(&alpha, m, t));
            let reduction = if is_sampled { reduction.with_row_sample(n as u64, 3) } else { reduction };
            let products = Pass::new(900, 4000, &workers).reduce(&rows, &reduction).unwrap().0;
            (products.sums() * faer::Scale(1.0 / products.total_weight), products.total_weight)
        };
        let ((mean_of_all, total_weight), (mean_of_sample, sample_weight)) = (mean(false, 2), mean(true, 2));
        assert_eq!(mean(true, 1), mean(true, 3));
        // the fraction 1,000/2,400 of the rows
        assert!(
            total_weight == n as f64 && (sample_weight / total_weight - 1000.0 / 2400.0).abs() < 0.02,
            "{sample_weight}"
        );
        // the standard error of an average over 5,000 rows is the standard deviation divided by 70
        assert!((&mean_of_sample - &mean_of_all).norm_max() < 0.05 * mean_of_all.norm_max());
    }
}
