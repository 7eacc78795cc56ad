//! Root mean square slopes of functions of the features along each column, over all rows in one
//! pass.
//!
//! For f(x) = wᵀφ(x) with t columns of w, M = (1/n) Σ_i J_i J_iᵀ with J_i = ∂f(x_i)/∂x, d x t.
//! √M_jj is the root mean square slope along the scaled column j, in units of f. It measures the
//! importance of the column.
//!
//! *Passes*: one. *Flops*: 5nmdt. *Bytes*: about d² numbers for each lane.

use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::outer_products::{OuterProducts, Products};
use crate::solver::refuse;
use crate::{Error, Result, features::FitData, prepare::plan};
use faer::MatRef;
use kapprox::{KernelFunction, Real, map::Expansion};
use kstore::Plan;
use std::sync::Arc;

pub(super) fn check(work: &FitRequest<'_>) -> Result<()> {
    refuse(work.options.map.is_without_rows(), "map", &work.options.map, WHY)
}

const WHY: &str = "gradients need kernel functions of landmarks; use a map with landmarks, such as nystrom";

pub(super) fn plan(plan: Plan, shape: &ProblemSize, cut: PassShape, t: usize) -> Plan {
    let (m, d) = (shape.map.landmarks.unwrap_or(shape.map.p), shape.d);
    plan::rows(plan, shape, cut, cut.gram_lanes, shape.element)
        .term("kernel functions of the landmarks", 2 * 8 * m * (d + t), "lower `rank`")
        .term(
            "gradients",
            cut.gram_lanes * OuterProducts::scratch_bytes(m, d, shape.threads),
            "read fewer columns (`features`)",
        )
        .term("products of gradients", (5 + cut.gram_lanes) * Products::bytes(d), "read fewer columns (`features`)")
}

/// Returns the kernel of the features, or an error if it has no gradients.
pub(crate) fn kernel<T: Real>(data: &FitData<'_, T>) -> Result<Arc<dyn KernelFunction<f64>>> {
    let kernel = data.kernel.build()?.typed::<f64>();
    let why = "its gradient is not implemented; use a kernel with a gradient, such as gaussian()";
    refuse(!kernel.differentiable(), "kernel", data.kernel, why)?;
    Ok(kernel)
}

/// Computes Σ_i J_i J_iᵀ for the functions wᵀφ with weights p x t, and the number of rows in the
/// sum.
pub(super) fn products<T: Real>(
    data: &FitData<'_, T>,
    kernel: Arc<dyn KernelFunction<f64>>,
    weights: MatRef<'_, f64>,
) -> Result<Products> {
    let Expansion::Landmarks { landmarks, coefficients, .. } = data.map.expand(weights, data.resources.workers) else {
        return Err(Error::option("map", &data.options.map, WHY));
    };
    let wide: Vec<f64> = landmarks.points.iter().map(|value| value.to_f64()).collect();
    data.fold("gradients", &OuterProducts::new(kernel, &wide, coefficients.as_ref()))
}

pub(super) fn slopes(products: &Products) -> Vec<f64> {
    let weight = products.weight.max(f64::MIN_POSITIVE);
    (0..products.sums().nrows()).map(|j| (products.sums()[(j, j)] / weight).max(0.0).sqrt()).collect()
}
