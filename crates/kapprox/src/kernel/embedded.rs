//! Kernels of points that are transformed first, row by row.

use super::fixed_kernel::{FixedKernel, MAX_FEW_ROWS, PreparedPoints};
use super::{AnyKernel, KernelFunction, Spectrum, assert_shapes, gradient::WeightedPairs, index_chunks, row_slice};
use crate::Real;
use faer::{MatMut, MatRef, prelude::*};
use std::{fmt::Debug, sync::Arc};

/// Number of rows of x that are transformed at once, chosen: four tiles of the panels.
const IMAGE_TILE_ROWS: usize = 1152;

pub(crate) trait Embedding: Debug + Send + Sync + 'static {
    /// Returns the number of features of the image of a point with d features.
    fn image_len(&self, d: usize) -> usize {
        d
    }
    /// Writes the image of `x`. If `x` is finite, the image must be finite; each number is rounded
    /// once.
    fn apply<T: Real>(&self, x: &[T], image: &mut [T]);
    /// Writes the gradient with respect to the point `x` of a function of its image. This is the
    /// transposed Jacobian of the embedding at `x`, times `image_gradient`, the gradient of the
    /// function with respect to the image; `image` is the image of `x`.
    fn pull_back<T: Real>(&self, x: &[T], image: &[T], image_gradient: &[T], gradient: &mut [T]);
    /// Returns the kernel between the images of sparse points, written `text`. `kernel` is the same
    /// kernel between the sparse points themselves. Returns `None` if no formula is known.
    fn sparse_image_kernel(&self, _text: String, _kernel: Arc<dyn AnyKernel>) -> Option<Arc<dyn AnyKernel>> {
        None
    }
    /// Returns the spectrum of the embedded kernel k(e(x), e(z)), where e is this embedding and
    /// `spectrum` is the spectrum of k. Returns `None` if the spectrum is not known.
    fn spectrum(&self, _spectrum: Option<Spectrum>) -> Option<Spectrum> {
        None
    }
}

/// The kernel k(e(x), e(z)) of the images of points under the embedding e.
#[derive(Debug)]
struct EmbeddedKernel<E> {
    text: String,
    embedding: Arc<E>,
    kernel: Arc<dyn AnyKernel>,
}

/// Returns the kernel `kernel` between the images of points, written `text`.
pub(crate) fn embedded_kernel<E: Embedding>(
    text: String,
    embedding: E,
    kernel: Arc<dyn AnyKernel>,
) -> Arc<dyn AnyKernel> {
    Arc::new(EmbeddedKernel { text, embedding: Arc::new(embedding), kernel })
}

impl<E: Embedding> EmbeddedKernel<E> {
    fn compute_images<T: Real>(&self, points: MatRef<'_, T>) -> Vec<T> {
        let p = self.embedding.image_len(points.ncols());
        let mut images = vec![T::ZERO; points.nrows() * p];
        write_images(&*self.embedding, points, p, &mut images);
        images
    }
}

/// Writes the images of points, p features each, row-major.
fn write_images<T: Real, E: Embedding>(embedding: &E, points: MatRef<'_, T>, p: usize, images: &mut [T]) {
    let mut row_buffer = Vec::new();
    for (i, image) in images.chunks_exact_mut(p.max(1)).enumerate() {
        embedding.apply(row_slice(points, i, &mut row_buffer), image);
    }
}

impl<T: Real, E: Embedding> KernelFunction<T> for EmbeddedKernel<E> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn is_positive_definite(&self) -> bool {
        self.kernel.typed::<T>().is_positive_definite()
    }

    fn spectrum(&self) -> Option<Spectrum> {
        self.embedding.spectrum(self.kernel.typed::<T>().spectrum())
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        let (kernel, p) = (self.kernel.typed::<T>(), self.embedding.image_len(x.ncols()));
        let z_images = self.compute_images(z);
        for (i, rows) in index_chunks(x.nrows(), IMAGE_TILE_ROWS) {
            let images = self.compute_images(x.subrows(i, rows));
            kernel.block(
                MatRef::from_row_major_slice(&images, rows, p),
                MatRef::from_row_major_slice(&z_images, z.nrows(), p),
                out.rb_mut().subrows_mut(i, rows),
            );
        }
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        let (p, images) = (self.embedding.image_len(z.ncols()), self.compute_images(z));
        let fixed_kernel =
            FixedKernel::new(self.kernel.typed::<T>(), MatRef::from_row_major_slice(&images, z.nrows(), p));
        Some(Box::new(EmbeddedColumns { embedding: self.embedding.clone(), images, p, fixed_kernel }))
    }

    fn sparse_kernel(self: Arc<Self>) -> Option<Arc<dyn AnyKernel>> {
        self.embedding.sparse_image_kernel(self.text.clone(), self.kernel.typed::<T>().sparse_kernel()?)
    }

    fn is_differentiable(&self) -> bool {
        self.kernel.typed::<T>().is_differentiable()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        let pairs = WeightedPairs::new(x, z, weights, &out);
        let (kernel, p) = (self.kernel.typed::<T>(), self.embedding.image_len(x.ncols()));
        if !kernel.is_differentiable() {
            return false;
        }
        let (z_images, mut gradient, mut row_buffer) = (self.compute_images(z), vec![T::ZERO; x.ncols()], Vec::new());
        let z_images = MatRef::from_row_major_slice(&z_images, z.nrows(), p);
        for (i, strip) in pairs.row_tiles() {
            let (rows, images) = (strip.x.nrows(), self.compute_images(strip.x));
            let mut image_gradients = vec![T::ZERO; images.len()];
            let gradient_block = MatMut::from_row_major_slice_mut(&mut image_gradients, rows, p);
            kernel.gradient(MatRef::from_row_major_slice(&images, rows, p), z_images, strip.weights, gradient_block);
            for r in 0..rows {
                let image_range = r * p..(r + 1) * p;
                let point = row_slice(strip.x, r, &mut row_buffer);
                self.embedding.pull_back(
                    point,
                    &images[image_range.clone()],
                    &image_gradients[image_range],
                    &mut gradient,
                );
                for (out, &derivative) in out.rb_mut().row_mut(i + r).iter_mut().zip(&gradient) {
                    *out = (*out + derivative.saturate()).saturate();
                }
            }
        }
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        let p = self.embedding.image_len(x.ncols());
        let images = self.compute_images(x);
        self.kernel.typed::<T>().diag(MatRef::from_row_major_slice(&images, x.nrows(), p), out);
    }
}

struct EmbeddedColumns<T: Real, E> {
    embedding: Arc<E>,
    images: Vec<T>,
    /// Number of features of an image.
    p: usize,
    fixed_kernel: FixedKernel<T>,
}

impl<T: Real, E: Embedding> PreparedPoints<T> for EmbeddedColumns<T, E> {
    fn scratch_len(&self) -> usize {
        MAX_FEW_ROWS * self.p + self.fixed_kernel.scratch_len()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * self.images.len() + self.fixed_kernel.bytes()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (images, scratch) = scratch.split_at_mut(x.nrows() * self.p);
        write_images(&*self.embedding, x, self.p, images);
        let z = MatRef::from_row_major_slice(&self.images, z.nrows(), self.p);
        self.fixed_kernel.compute_rows(MatRef::from_row_major_slice(images, x.nrows(), self.p), z, out, scratch);
    }
}
