//! Structural similarity of pictures, SSIM: the mean over windows w of l_w(x, z) · s_w(x, z).
//!
//! With the mean μ and the variance σ² of a window's pixels, and their covariance σ_xz between two pictures,
//!
//! l = (2 μ_x μ_z + c₁) / (μ_x² + μ_z² + c₁), s = (2 σ_xz + c₂) / (σ_x² + σ_z² + c₂), c₁ = (0.01 range)², c₂ = (0.03 range)²
//!
//! (Wang, Bovik, Sheikh, Simoncelli, *Image Quality Assessment: From Error Visibility to Structural Similarity*, IEEE TIP 13,
//! 2004, equations 5 to 13, whose c₃ is c₂/2). Windows are squares of equal weight, `step` pixels apart, and the last of a line or of a
//! column ends at the border.
//!
//! Positive definite: with c/2 added to the products, both factors are ⟨a, b⟩ over the mean of ‖a‖² and ‖b‖², which is a kernel as
//! 1/(s + t) is one of positive numbers; products and means of kernels are kernels. In this form they are computed, too: ρ, the cosine
//! between a and b, times 2/(‖a‖/‖b‖ + ‖b‖/‖a‖). Nothing cancels, and nothing overflows.
//!
//! Costs about (2 window² + 20) flops for each window of each pair: 36 windows of 64 pixels on pictures of 28 x 28.

use super::family::{Domain, Facts, KernelFamily, KernelParameter, Range};
use super::{AnyKernel, Kernel, check_shapes, direct::product, linear::Linear, points::fill_column};
use crate::{Real, vectorised};
use faer::{Mat, MatMut, MatRef, prelude::*};
use std::{f64::consts::FRAC_1_SQRT_2, sync::Arc};

const SIDE: Range = Range::Whole { from: 1, to: 1 << 15 };
const WHY: &str = "pixels are counted";

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        KernelParameter::number(
            "width",
            0.0,
            Range::Whole { from: 0, to: 1 << 15 },
            "pixels are counted; 0 is a square",
        ),
        KernelParameter::number("window", 8.0, SIDE, WHY),
        KernelParameter::number("step", 4.0, SIDE, WHY),
        KernelParameter::number("range", 255.0, Range::Positive, "it is the largest difference of two pixels"),
    ],
    facts: Facts::BOUNDED,
    domain: Domain::NotNegative,
    fits: |values, features| match (values[0] as usize, features.isqrt()) {
        (0, side) if side * side != features => Err("which are no square; give width, the pixels of a line".into()),
        (width, _) if width > 0 && features % width != 0 => {
            Err(format!("which are no whole number of lines of {width} pixels; give the width of the pictures"))
        }
        _ => Ok(()),
    },
    ..KernelFamily::new(
        "ssim",
        "mean over windows of the structural similarity",
        "ssim(width=3, window=2, step=1, range=2)",
        |text, values| {
            let [width, window, step] = [0, 1, 2].map(|parameter| values[parameter] as usize);
            let covariance = product("linear()".into(), Linear);
            Arc::new(Ssim { text, width, window, step, range: values[3], covariance })
        },
    )
};

#[derive(Debug)]
struct Ssim {
    text: String,
    /// Pixels of a line; 0 for the least square that holds all.
    width: usize,
    window: usize,
    step: usize,
    range: f64,
    covariance: Arc<dyn AnyKernel>,
}

impl Ssim {
    /// The pixels of each window, as places of features. The last line may be short, and a picture smaller than a window.
    fn windows(&self, features: usize) -> Vec<Vec<usize>> {
        let square = features.isqrt() + usize::from(features.isqrt().pow(2) < features);
        let width = if self.width == 0 { square } else { self.width };
        let lines = features.div_ceil(width.max(1));
        let corners = |length: usize| {
            let last = length.saturating_sub(self.window);
            (0..last).step_by(self.step).chain([last])
        };
        let pixels = |line: usize, column: usize| -> Vec<usize> {
            let columns = column..width.min(column + self.window);
            let all = (line..lines.min(line + self.window)).flat_map(|l| columns.clone().map(move |c| l * width + c));
            all.filter(|&pixel| pixel < features).collect()
        };
        let corners = corners(lines).flat_map(|line| corners(width).map(move |column| (line, column)));
        corners.map(|(line, column)| pixels(line, column)).filter(|pixels| !pixels.is_empty()).collect()
    }
}

/// Points of a block that are compared at once, so that their values stay in cache.
const ROWS: usize = 288;
const COLUMNS: usize = 96;

impl<T: Real> Kernel<T> for Ssim {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let (kernel, windows) = (self.covariance.typed::<T>(), self.windows(x.ncols()));
        let share = 1.0 / windows.len().max(1) as f64;
        let mut products = Mat::<T>::zeros(ROWS.min(x.nrows()), COLUMNS.min(z.nrows()));
        let mut spare = Vec::new();
        out.fill(T::ZERO);
        for window in &windows {
            let [x, z] = [x, z].map(|points| Seen::new(points, window, self.range));
            for j in (0..z.len()).step_by(COLUMNS) {
                let columns = COLUMNS.min(z.len() - j);
                for i in (0..x.len()).step_by(ROWS) {
                    let rows = ROWS.min(x.len() - i);
                    let mut products = products.as_mut().submatrix_mut(0, 0, rows, columns);
                    kernel.block(x.contrasts(i, rows), z.contrasts(j, columns), products.rb_mut());
                    let sums = out.rb_mut().submatrix_mut(i, j, rows, columns);
                    add((&x, &z), (i, j), products.rb(), T::from_f64(share), (sums, &mut spare));
                }
            }
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(1.0);
    }
}

/// Adds `share` of the similarity in a window, of the points from `at` on, whose contrasts have the cosines `cosines`.
fn add<T: Real>(
    (x, z): (&Seen<T>, &Seen<T>),
    at: (usize, usize),
    cosines: MatRef<'_, T>,
    share: T,
    (mut sums, spare): (MatMut<'_, T>, &mut Vec<T>),
) {
    let (rows, least) = (at.0..at.0 + cosines.nrows(), T::from_f64(4.0));
    let four = least * share;
    let [light, dark, brightness, dim, contrast, even] = x.numbers.each_ref().map(|numbers| &numbers[rows.clone()]);
    for (j, cosines) in cosines.col_iter().enumerate() {
        let [z_light, z_dark, z_brightness, z_dim, z_contrast, z_even] =
            z.numbers.each_ref().map(|numbers| numbers[at.1 + j]);
        fill_column(sums.rb_mut().col_mut(j), spare, |sums| {
            vectorised!({
                let own = light.iter().zip(dark).zip(brightness.iter().zip(dim)).zip(contrast.iter().zip(even));
                for ((sum, &cosine), (((&light, &dark), (&brightness, &dim)), (&contrast, &even))) in
                    sums.iter_mut().zip(cosines.iter()).zip(own)
                {
                    let luminance = light.mul_plus(z_light, dark * z_dark);
                    let unlike =
                        brightness.mul_plus(z_dim, dim * z_brightness) * contrast.mul_plus(z_even, even * z_contrast);
                    // each factor is 2 at least; of a range that T cannot hold there is nothing left
                    *sum += four * cosine * luminance / unlike.larger(least);
                }
            })
        });
    }
}

/// What points have in a window.
struct Seen<T> {
    /// Pixels, and one more for c₂.
    width: usize,
    /// For each point a, the pixels without their mean, over √n, and √(c₂/2), as a vector of length 1.
    contrasts: Vec<T>,
    /// For each point b, the mean and √(c₁/2), as a vector of length 1: its two numbers, ‖b‖ and 1/‖b‖; ‖a‖ and 1/‖a‖.
    numbers: [Vec<T>; 6],
}

impl<T: Real> Seen<T> {
    fn new(points: MatRef<'_, T>, window: &[usize], range: f64) -> Self {
        let (n, width, share) = (points.nrows(), window.len() + 1, 1.0 / window.len() as f64);
        let mut contrasts = Vec::with_capacity(n * width);
        let mut numbers = [const { Vec::new() }; 6];
        // √(c₁/2) and √(c₂/2)
        let [dark, even] = [0.01, 0.03].map(|part| part * range * FRAC_1_SQRT_2);
        let mut pixels = vec![0.0; window.len()];
        for i in 0..n {
            pixels.iter_mut().zip(window).for_each(|(pixel, &place)| *pixel = points[(i, place)].to_f64());
            let mean: f64 = pixels.iter().map(|pixel| pixel * share).sum();
            // shares first: they do not overflow
            pixels.iter_mut().for_each(|pixel| *pixel = *pixel * share.sqrt() - mean * share.sqrt());
            let (brightness, contrast) = (norm(&[mean], dark), norm(&pixels, even));
            contrasts.extend(pixels.iter().chain([&even]).map(|number| T::from_f64(number / contrast)));
            let own = [mean / brightness, dark / brightness, brightness, 1.0 / brightness, contrast, 1.0 / contrast];
            numbers.iter_mut().zip(own).for_each(|(numbers, own)| numbers.push(T::from_f64(own).saturate()));
        }
        Self { width, contrasts, numbers }
    }

    fn len(&self) -> usize {
        self.numbers[0].len()
    }

    fn contrasts(&self, first: usize, rows: usize) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.contrasts[first * self.width..(first + rows) * self.width], rows, self.width)
    }
}

/// The length of `numbers` and one more, which is positive: scaled, so that squares neither overflow nor vanish.
fn norm(numbers: &[f64], one: f64) -> f64 {
    let largest = numbers.iter().fold(one, |largest, number| largest.max(number.abs()));
    let sum: f64 = numbers.iter().chain([&one]).map(|number| (number / largest).powi(2)).sum();
    (largest * sum.sqrt()).min(f64::MAX)
}
