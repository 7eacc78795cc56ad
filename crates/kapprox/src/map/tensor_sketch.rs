//! TensorSketch: random features of polynomial kernels.
//!
//! (γ x·z + c₀)^q is the inner product of the q-fold tensor powers of x̃ and z̃, where x̃ = (√γ x,
//! √c₀). A count sketch of length p of a tensor power is the circular convolution of q count
//! sketches of x̃, and Fourier transforms turn the convolution into a product. The sketch takes q p
//! log p operations, whereas the tensor power has (d + 1)^q numbers. The inner product of two
//! sketches is an unbiased estimate of the kernel. The map is not a projection, so it has no
//! certificate.
//!
//! Reference: Pham, Pagh, "Fast and scalable polynomial kernels via explicit feature maps", KDD
//! 2013.

use super::FeatureMap;
use super::family::{DataIndependentMapArgs, MapConstructorPair, MapFamily, MapResult, MapShape};
use super::nystrom::{STRIP_ROWS, strips};
use crate::kernel::{ExplicitForm, row_slice};
use crate::{Error, Real};
use faer::{MatMut, MatRef};
use kpass::key::{Purpose, Stream};
use kpass::{Footprint, Workers, sparse::entries};
use rustfft::{Fft, FftPlanner, num_complex::Complex};
use std::{fmt, sync::Arc};

pub(super) const FAMILY: MapFamily = MapFamily {
    name: "sketch",
    summary: "TensorSketch: random features of a polynomial kernel",
    parameters: &[],
    is_nested: false,
    supports_sparse: true,
    build_passes: 0,
    shape: |_, request| {
        // buckets and signs for three factors, the number for a cubic kernel; a higher degree needs
        // more memory
        let fixed = 3 * (request.d + 1) * size_of::<(usize, f64)>() + fft_plan_bytes(request.rank);
        MapShape {
            p: request.rank,
            landmark_count: None,
            footprint: Footprint { fixed, per_row: buffer_bytes_per_row(request.rank) },
            build_bytes: 0,
        }
    },
    constructor: MapConstructorPair::data_independent(build, build),
};

/// Returns the bytes of the tables of both transforms of length p; the factor 4 covers prime
/// lengths.
fn fft_plan_bytes(p: usize) -> usize {
    2 * 4 * p * size_of::<Complex<f64>>()
}

/// Returns the bytes of a strip's buffers per row: two of length p and the scratch of the
/// transform.
fn buffer_bytes_per_row(p: usize) -> usize {
    ((2 + 4) * p * size_of::<Complex<f64>>()).div_ceil(STRIP_ROWS)
}

pub(super) fn build<T: Real>(args: &DataIndependentMapArgs<'_>) -> MapResult<T> {
    let explicit_form = args.kernel.to_dense().ok().and_then(|kernel| kernel.explicit_form());
    let Some((ExplicitForm::Polynomial, [degree, gamma, c0])) =
        explicit_form.as_ref().map(|(form, values)| (*form, &values[..]))
    else {
        return Err(Error::NoRandomFeatures {
            why: format!("{} is not a polynomial kernel", args.kernel),
            remedy: "use `kernel` 'polynomial(degree=2)', or another `map`",
        });
    };
    let sparse_columns = args.kernel.sparse_columns();
    let columns = sparse_columns.unwrap_or(args.d);
    let sketch = TensorSketch::new(*gamma, *c0, *degree as u32, columns, args.rank, args.seed);
    Ok(Box::new(TensorSketch { d: args.d, sparse_columns, ..sketch }))
}

/// Random features of (γ x·z + c₀)^q, where q is the degree.
///
/// Stores 2q(d + 1) numbers. A row of d inputs costs q(d + p log p) flops, in f64, for p features.
/// For a sparse row, d is the number of its entries.
#[derive(Clone)]
pub struct TensorSketch {
    d: usize,
    /// Number of columns, if rows are sparse.
    sparse_columns: Option<usize>,
    p: usize,
    /// √γ.
    sqrt_gamma: f64,
    /// √c₀.
    sqrt_c0: f64,
    /// Bucket and sign for each factor and each entry of x̃.
    hashes: Vec<Vec<(usize, f64)>>,
    forward_transform: Arc<dyn Fft<f64>>,
    inverse_transform: Arc<dyn Fft<f64>>,
}

impl fmt::Debug for TensorSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorSketch").field("d", &self.d).field("p", &self.p).finish_non_exhaustive()
    }
}

impl TensorSketch {
    /// Returns a map to `p` features for rows of `columns` values. γ and c₀ must not be negative,
    /// and the degree must be at least 1.
    pub fn new(gamma: f64, c0: f64, degree: u32, columns: usize, p: usize, seed: u64) -> Self {
        let hash_factor = |factor: u32| {
            let stream = Stream::new(seed, Purpose::Frequencies, u64::from(factor));
            let bucket_and_sign = |c: u64| {
                (
                    stream.uniform_below(2 * c, p as u64) as usize,
                    if stream.uniform_below(2 * c + 1, 2) == 0 { 1.0 } else { -1.0 },
                )
            };
            (0..=columns as u64).map(bucket_and_sign).collect()
        };
        let mut planner = FftPlanner::new();
        Self {
            d: columns,
            sparse_columns: None,
            p,
            sqrt_gamma: gamma.max(0.0).sqrt(),
            sqrt_c0: c0.max(0.0).sqrt(),
            hashes: (0..degree.max(1)).map(hash_factor).collect(),
            forward_transform: planner.plan_fft_forward(p),
            inverse_transform: planner.plan_fft_inverse(p),
        }
    }

    /// Computes the sketch of one row in `product`. `x` yields the column and the value of each
    /// entry of the row. `spectrum` and `product` have length p.
    fn sketch_row<T: Real>(
        &self,
        x: impl Iterator<Item = (usize, T)> + Clone,
        spectrum: &mut [Complex<f64>],
        product: &mut [Complex<f64>],
        scratch: &mut [Complex<f64>],
    ) {
        product.fill(Complex::new(1.0, 0.0));
        for hashes in &self.hashes {
            spectrum.fill(Complex::default());
            let values = x.clone().map(|(c, value)| (c, self.sqrt_gamma * value.to_f64()));
            for (c, value) in values.chain([(hashes.len() - 1, self.sqrt_c0)]) {
                let (bucket, sign) = hashes[c];
                spectrum[bucket].re += sign * value;
            }
            self.forward_transform.process_with_scratch(spectrum, scratch);
            product.iter_mut().zip(&*spectrum).for_each(|(product, value)| *product *= value);
        }
        self.inverse_transform.process_with_scratch(product, scratch);
    }
}

impl<T: Real> FeatureMap<T> for TensorSketch {
    fn dims(&self) -> (usize, usize) {
        (self.d, self.p)
    }

    fn sparse_column_count(&self) -> Option<usize> {
        self.sparse_columns
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let scratch_len =
            self.forward_transform.get_inplace_scratch_len().max(self.inverse_transform.get_inplace_scratch_len());
        // the transforms are not normalised: a transform followed by its inverse multiplies by p
        let scale = 1.0 / self.p as f64;
        workers.for_each(strips(x, out), |(x, mut out)| {
            let (zero, mut row_buffer) = (Complex::<f64>::default(), Vec::new());
            let (mut spectrum, mut product, mut scratch) =
                (vec![zero; self.p], vec![zero; self.p], vec![zero; scratch_len]);
            for i in 0..x.nrows() {
                let point = row_slice(x, i, &mut row_buffer);
                if self.sparse_columns.is_some() {
                    let (indices, values) = entries(point);
                    let indices = indices.iter().map(|index| index.to_f64() as usize);
                    self.sketch_row(indices.zip(values.iter().copied()), &mut spectrum, &mut product, &mut scratch);
                } else {
                    self.sketch_row(point.iter().copied().enumerate(), &mut spectrum, &mut product, &mut scratch);
                }
                for (j, value) in product.iter().enumerate() {
                    out[(i, j)] = T::from_f64(value.re * scale);
                }
            }
        });
    }

    fn footprint(&self) -> Footprint {
        let hash_bytes: usize = self.hashes.iter().map(|hashes| size_of_val(&**hashes)).sum();
        Footprint { fixed: hash_bytes + fft_plan_bytes(self.p), per_row: buffer_bytes_per_row(self.p) }
    }
}
