//! Structural similarity of images, SSIM: the mean over windows w of l_w(x, z) · s_w(x, z), where l
//! compares the luminance and s the structure of the images x and z in the window.
//!
//! Let μ_x be the mean and σ_x² the variance of the pixels of image x in a window of n pixels, σ_xz
//! the covariance of the pixels of x and z, and `range` the range of the pixel values. Then
//!
//! l = (2 μ_x μ_z + c₁) / (μ_x² + μ_z² + c₁), s = (2 σ_xz + c₂) / (σ_x² + σ_z² + c₂),
//! c₁ = (0.01 range)², c₂ = (0.03 range)²
//!
//! (Wang, Bovik, Sheikh, Simoncelli, *Image Quality Assessment: From Error Visibility to Structural
//! Similarity*, IEEE TIP 13, 2004, equations 5 to 13, whose c₃ is c₂/2). Windows are squares,
//! `step` pixels apart, and all have the same weight. The last window of a line or a column ends at
//! the border of the image.
//!
//! The kernel is positive definite. Let b_x be the vector (μ_x, √(c₁/2)), and let a_x contain the
//! pixels minus μ_x, divided by √n, followed by √(c₂/2). Then l = ⟨b_x, b_z⟩ / ((‖b_x‖² +
//! ‖b_z‖²)/2), and s is the same expression of a_x and a_z. Both are kernels because 1/(p + q) is a
//! kernel on positive numbers p and q, and products and means of kernels are kernels. The code
//! computes l and s in this form, each as the cosine of the angle between its two vectors, say u
//! and v, times 2/(‖u‖/‖v‖ + ‖v‖/‖u‖). Nothing cancels, and nothing overflows.
//!
//! Costs about (2 n + 20) flops per window and pair of images. By default, images of 28 x 28 pixels
//! have 36 windows of n = 64 pixels.

use super::family::{Domain, KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::fixed_kernel::{FixedKernel, MAX_FEW_ROWS, PreparedPoints};
use super::panel::TILE_ROWS;
use super::points::{fill_column, index_chunks, row_slice};
use super::{AnyKernel, KernelFunction, assert_shapes, direct::inner_product_kernel, linear::Linear};
use crate::{Real, vectorised};
use faer::{Mat, MatMut, MatRef, prelude::*};
use std::{f64::consts::FRAC_1_SQRT_2, sync::Arc};

const SIDE_RANGE: ParameterRange = ParameterRange::Integer { min: 1, max: 1 << 15 };
const SIDE_REASON: &str = "it is a number of pixels";

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "width",
            0.0,
            ParameterRange::Integer { min: 0, max: 1 << 15 },
            "it is a number of pixels; 0 selects square images",
        ),
        NumericParameter::number("window", 8.0, SIDE_RANGE, SIDE_REASON),
        NumericParameter::number("step", 4.0, SIDE_RANGE, SIDE_REASON),
        NumericParameter::number(
            "range",
            255.0,
            ParameterRange::Positive,
            "it is the largest difference of two pixels",
        ),
    ],
    properties: KernelProperties::BOUNDED,
    domain: Domain::NonNegative,
    check_input_count: |values, features| match (values[0] as usize, features.isqrt()) {
        (0, side) if side * side != features => {
            Err("but this is not a square number; set width to the number of pixels per line".into())
        }
        (width, _) if width > 0 && features % width != 0 => {
            Err(format!("but this is not a multiple of the width {width}; set width to the number of pixels per line"))
        }
        _ => Ok(()),
    },
    ..KernelFamily::new(
        "ssim",
        "mean over windows of the structural similarity",
        "ssim(width=3, window=2, step=1, range=2)",
        |text, values| {
            let [width, window, step] = [0, 1, 2].map(|parameter| values[parameter] as usize);
            let inner_product = inner_product_kernel("linear()".into(), Linear);
            Arc::new(Ssim { text, width, window_side: window, step, range: values[3], inner_product })
        },
    )
};

#[derive(Debug)]
struct Ssim {
    text: String,
    /// Pixels per line; 0 for the smallest square that holds all pixels.
    width: usize,
    window_side: usize,
    step: usize,
    range: f64,
    inner_product: Arc<dyn AnyKernel>,
}

impl Ssim {
    /// Returns the windows of images with this many pixels. The last line may be short, and an
    /// image may be smaller than a window.
    fn windows(&self, features: usize) -> Vec<Window> {
        let square_side = features.isqrt() + usize::from(features.isqrt().pow(2) < features);
        let width = if self.width == 0 { square_side } else { self.width };
        let lines = features.div_ceil(width.max(1));
        let window_starts = |length: usize| {
            let last = length.saturating_sub(self.window_side);
            (0..last).step_by(self.step).chain([last])
        };
        let window_pixels = |line: usize, column: usize| -> Vec<usize> {
            let columns = column..width.min(column + self.window_side);
            let window_indices =
                (line..lines.min(line + self.window_side)).flat_map(|l| columns.clone().map(move |c| l * width + c));
            window_indices.filter(|&pixel| pixel < features).collect()
        };
        let window_corners =
            window_starts(lines).flat_map(|line| window_starts(width).map(move |column| (line, column)));
        let windows =
            window_corners.map(|(line, column)| window_pixels(line, column)).filter(|pixels| !pixels.is_empty());
        let windows: Vec<Vec<usize>> = windows.collect();
        let ([luminance_constant, contrast_constant], weight) =
            ([0.01, 0.03].map(|fraction| fraction * self.range * FRAC_1_SQRT_2), 1.0 / windows.len().max(1) as f64);
        windows.into_iter().map(|pixels| Window { pixels, luminance_constant, contrast_constant, weight }).collect()
    }
}

/// Number of columns of a block whose values for [`TILE_ROWS`] rows are computed at once, so that
/// these values stay in cache.
const SSIM_TILE_COLUMNS: usize = 96;

impl<T: Real> KernelFunction<T> for Ssim {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        let (kernel, windows) = (self.inner_product.typed::<T>(), self.windows(x.ncols()));
        let mut cosines = Mat::<T>::zeros(TILE_ROWS.min(x.nrows()), SSIM_TILE_COLUMNS.min(z.nrows()));
        let mut row_buffer = Vec::new();
        out.fill(T::ZERO);
        for window in &windows {
            let [x, z] = [x, z].map(|points| WindowVectors::new(points, window));
            for (j, columns) in index_chunks(z.len(), SSIM_TILE_COLUMNS) {
                for (i, rows) in index_chunks(x.len(), TILE_ROWS) {
                    let mut cosines = cosines.as_mut().submatrix_mut(0, 0, rows, columns);
                    kernel.block(x.contrasts(i, rows), z.contrasts(j, columns), cosines.rb_mut());
                    let mut sums = out.rb_mut().submatrix_mut(i, j, rows, columns);
                    for (k, cosines) in cosines.rb().col_iter().enumerate() {
                        fill_column(sums.rb_mut().col_mut(k), &mut row_buffer, |sums| {
                            let z_numbers = z.numbers.each_ref().map(|numbers| numbers[j + k]);
                            window.add_similarities(z_numbers, &x.numbers_from(i, rows), cosines.iter(), sums);
                        });
                    }
                }
            }
        }
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        let prepare_window = |window: Window| {
            let vectors = WindowVectors::new(z, &window);
            let fixed = FixedKernel::new(self.inner_product.typed::<T>(), vectors.contrasts(0, vectors.len()));
            (window, vectors, fixed)
        };
        Some(Box::new(SsimColumns(self.windows(z.ncols()).into_iter().map(prepare_window).collect())))
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(1.0);
    }
}

struct SsimColumns<T: Real>(Vec<(Window, WindowVectors<T>, FixedKernel<T>)>);

impl<T: Real> PreparedPoints<T> for SsimColumns<T> {
    fn scratch_len(&self) -> usize {
        let window_scratch = |(_, vectors, fixed): &(Window, WindowVectors<T>, FixedKernel<T>)| {
            MAX_FEW_ROWS * (vectors.width + vectors.len()) + fixed.scratch_len()
        };
        self.0.iter().map(window_scratch).max().unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        let window_bytes = |(window, vectors, fixed): &(Window, WindowVectors<T>, FixedKernel<T>)| {
            size_of::<T>() * (vectors.contrasts.len() + 6 * vectors.len())
                + size_of_val(&*window.pixels)
                + fixed.bytes()
        };
        self.0.iter().map(window_bytes).sum()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (b, m, mut row_buffer) = (x.nrows(), z.nrows(), Vec::new());
        out.fill(T::ZERO);
        for (window, vectors, fixed) in &self.0 {
            let (contrasts, scratch) = scratch.split_at_mut(b * vectors.width);
            let (cosines, scratch) = scratch.split_at_mut(b * m);
            let mut numbers = [[T::ZERO; 6]; MAX_FEW_ROWS];
            for (i, (numbers, contrasts)) in
                numbers.iter_mut().zip(contrasts.chunks_exact_mut(vectors.width)).enumerate()
            {
                *numbers = window.prepare_point(row_slice(x, i, &mut row_buffer), contrasts);
            }
            let contrasts = MatRef::from_row_major_slice(contrasts, b, vectors.width);
            fixed.compute_rows(contrasts, vectors.contrasts(0, m), cosines, scratch);
            for ((numbers, cosines), sums) in
                numbers.iter().zip(cosines.chunks_exact(m.max(1))).zip(out.chunks_exact_mut(m.max(1)))
            {
                window.add_similarities(*numbers, &vectors.numbers_from(0, m), cosines.iter(), sums);
            }
        }
    }
}

/// A window of the images, with the numbers that do not depend on the points.
struct Window {
    /// Pixels of the window, as feature indices.
    pixels: Vec<usize>,
    /// √(c₁/2), for the luminance.
    luminance_constant: f64,
    /// √(c₂/2), for the contrast.
    contrast_constant: f64,
    /// Weight of the window in the mean.
    weight: f64,
}

impl Window {
    /// Writes a/‖a‖ of a point, and returns b/‖b‖ (two numbers), ‖b‖, 1/‖b‖, ‖a‖ and 1/‖a‖, where a
    /// and b are the vectors a_x and b_x of the module header.
    fn prepare_point<T: Real>(&self, point: &[T], contrasts: &mut [T]) -> [T; 6] {
        let (pixel_weight, root_weight) = (1.0 / self.pixels.len() as f64, (1.0 / self.pixels.len() as f64).sqrt());
        let pixels = || self.pixels.iter().map(|&pixel| point[pixel].to_f64());
        let mean: f64 = pixels().map(|pixel| pixel * pixel_weight).sum();
        // scaling before subtracting prevents overflow
        let deviations =
            || pixels().map(|pixel| pixel * root_weight - mean * root_weight).chain([self.contrast_constant]);
        let (brightness, contrast) = (norm([mean, self.luminance_constant].into_iter()), norm(deviations()));
        contrasts.iter_mut().zip(deviations()).for_each(|(to, number)| *to = T::from_f64(number / contrast));
        let numbers = [
            mean / brightness,
            self.luminance_constant / brightness,
            brightness,
            1.0 / brightness,
            contrast,
            1.0 / contrast,
        ];
        numbers.map(|number| T::from_f64(number).saturate())
    }

    /// Adds to `sums` the window's weight times l · s for a point and each of the other points.
    /// `cosines` are the cosines between the vector a of the point and the vectors a of the others.
    /// With the vectors of the module header, l · s = cos(b_x, b_z) cos(a_x, a_z) · 4 /
    /// ((‖b_x‖/‖b_z‖ + ‖b_z‖/‖b_x‖) (‖a_x‖/‖a_z‖ + ‖a_z‖/‖a_x‖)).
    fn add_similarities<'a, T: Real>(
        &self,
        point: [T; 6],
        other_numbers: &[&[T]; 6],
        cosines: impl Iterator<Item = &'a T>,
        sums: &mut [T],
    ) {
        let min_denominator = T::from_f64(4.0);
        let numerator_scale = min_denominator * T::from_f64(self.weight);
        let [unit_mean, unit_constant, brightness, inverse_brightness, contrast, inverse_contrast] = point;
        vectorised!({
            let [unit_means, unit_constants, brightnesses, inverse_brightnesses, contrasts, inverse_contrasts] =
                *other_numbers;
            let others = unit_means
                .iter()
                .zip(unit_constants)
                .zip(brightnesses.iter().zip(inverse_brightnesses))
                .zip(contrasts.iter().zip(inverse_contrasts));
            for (
                (sum, &cosine),
                (
                    ((&other_unit_mean, &other_unit_constant), (&other_brightness, &other_inverse_brightness)),
                    (&other_contrast, &other_inverse_contrast),
                ),
            ) in sums.iter_mut().zip(cosines).zip(others)
            {
                let luminance_cosine = (unit_mean * other_unit_mean) + unit_constant * other_unit_constant;
                let denominator = (brightness * other_inverse_brightness + inverse_brightness * other_brightness)
                    * (contrast * other_inverse_contrast + inverse_contrast * other_contrast);
                // each of the two factors ‖u‖/‖v‖ + ‖v‖/‖u‖ is at least 2, unless the pixel range
                // exceeds the range of T
                *sum += numerator_scale * cosine * luminance_cosine / denominator.larger(min_denominator);
            }
        })
    }
}

/// The normalised vectors a of some points in one window, and the six numbers of each point.
struct WindowVectors<T> {
    /// Length of a vector a.
    width: usize,
    contrasts: Vec<T>,
    numbers: [Vec<T>; 6],
}

impl<T: Real> WindowVectors<T> {
    fn new(points: MatRef<'_, T>, window: &Window) -> Self {
        let (n, width, mut row_buffer) = (points.nrows(), window.pixels.len() + 1, Vec::new());
        let (mut contrasts, mut numbers) = (vec![T::ZERO; n * width], [const { Vec::new() }; 6]);
        for (i, contrasts) in contrasts.chunks_exact_mut(width).enumerate() {
            let point_numbers = window.prepare_point(row_slice(points, i, &mut row_buffer), contrasts);
            numbers.iter_mut().zip(point_numbers).for_each(|(numbers, number)| numbers.push(number));
        }
        Self { width, contrasts, numbers }
    }

    fn len(&self) -> usize {
        self.numbers[0].len()
    }

    fn contrasts(&self, first: usize, row_count: usize) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(
            &self.contrasts[first * self.width..(first + row_count) * self.width],
            row_count,
            self.width,
        )
    }

    fn numbers_from(&self, first: usize, row_count: usize) -> [&[T]; 6] {
        self.numbers.each_ref().map(|numbers| &numbers[first..first + row_count])
    }
}

/// Returns the norm of a vector, at least the smallest normal number; scaled, so that squares
/// neither overflow nor vanish.
fn norm(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = numbers.clone().fold(f64::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
    let sum: f64 = numbers.map(|number| (number / largest).powi(2)).sum();
    (largest * sum.sqrt()).clamp(f64::MIN_POSITIVE, f64::MAX)
}
