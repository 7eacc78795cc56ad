//! Root mean square slopes of functions of the features along each column, over all rows in one
//! pass.
//!
//! Let f(x) = Wᵀφ(x) be t functions with weights W (p x t), and J_i = ∂f(x_i)/∂x (d x t) their
//! gradients at row i. The pass computes M = (1/n) Σ_i J_i J_iᵀ. √M_jj is the root mean square
//! slope along the scaled column j, in units of f. It measures the importance of the column.
//!
//! *Passes*: one. *Flops*: 5nmdt for m landmarks. *Bytes*: about d² numbers for each lane (parallel
//! worker of a pass).

use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::gradient_products::{OuterProductReduction, OuterProductSums};
use crate::solver::reject_if;
use crate::{Error, Result, features::FitData, prepare::stage_plans};
use faer::MatRef;
use kapprox::{KernelFunction, Real, map::Expansion};
use kstore::MemoryPlan;
use std::sync::Arc;

pub(super) fn check(request: &FitRequest<'_>) -> Result<()> {
    reject_if(request.options.map.is_data_independent(), "map", &request.options.map, NEEDS_LANDMARKS)
}

const NEEDS_LANDMARKS: &str = "gradients need kernel functions of landmarks; use a map with landmarks, such as nystrom";

pub(super) fn plan(plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape, t: usize) -> MemoryPlan {
    let (m, d) = (size.map.landmark_count.unwrap_or(size.map.p), size.d);
    stage_plans::add_row_terms(plan, size, pass_shape, pass_shape.gram_lanes, size.element_bytes)
        .term("kernel functions of the landmarks", 2 * 8 * m * (d + t), "lower `rank`")
        .term(
            "gradients",
            pass_shape.gram_lanes * OuterProductReduction::scratch_bytes(m, d, size.threads),
            "read fewer columns (`features`)",
        )
        .term(
            "products of gradients",
            (5 + pass_shape.gram_lanes) * OuterProductSums::bytes(d),
            "read fewer columns (`features`)",
        )
}

/// Returns the kernel of the features, or an error if it has no gradients.
pub(crate) fn differentiable_kernel<T: Real>(data: &FitData<'_, T>) -> Result<Arc<dyn KernelFunction<f64>>> {
    let kernel = data.kernel.build()?.typed::<f64>();
    let why = "its gradient is not implemented; use a kernel with a gradient, such as gaussian()";
    reject_if(!kernel.is_differentiable(), "kernel", data.kernel, why)?;
    Ok(kernel)
}

/// Computes Σ_i J_i J_iᵀ for the functions Wᵀφ with the weights W (p x t), and the total weight of
/// the rows in the sum.
pub(super) fn outer_products<T: Real>(
    data: &FitData<'_, T>,
    kernel: Arc<dyn KernelFunction<f64>>,
    weights: MatRef<'_, f64>,
) -> Result<OuterProductSums> {
    let Expansion::Landmarks { landmarks, dual_coefficients: coefficients, .. } =
        data.map.expand(weights, data.resources.workers)
    else {
        return Err(Error::option("map", &data.options.map, NEEDS_LANDMARKS));
    };
    let points: Vec<f64> = landmarks.points.iter().map(|value| value.to_f64()).collect();
    data.reduce("gradients", &OuterProductReduction::new(kernel, &points, coefficients.as_ref()))
}

pub(super) fn rms_slopes(products: &OuterProductSums) -> Vec<f64> {
    let weight = products.total_weight.max(f64::MIN_POSITIVE);
    (0..products.sums().nrows()).map(|j| (products.sums()[(j, j)] / weight).max(0.0).sqrt()).collect()
}
