//! A solution with its certificate, and the buffers that problems share.

use super::newton_equations::NewtonEquations;
use crate::linalg::strips::BufferPool;
use kapprox::gram::GramBuffers;

#[derive(Clone, Debug)]
pub(super) struct CertifiedPoint {
    pub(super) w: Vec<f64>,
    pub(super) b: f64,
    /// Smallest primal objective so far; ∞ before the first.
    pub(super) primal: f64,
    /// Largest dual objective so far; −∞ before the first.
    pub(super) dual: f64,
    /// Number of support vectors: rows with β⁺ ≠ 0 at the last step.
    pub(super) support_vectors: usize,
}

impl CertifiedPoint {
    pub(super) fn without_certificate(&self) -> Self {
        Self { primal: f64::INFINITY, dual: f64::NEG_INFINITY, ..self.clone() }
    }

    /// Returns the relative duality gap (P − D)/max(|P|, |D|). It bounds how far P is above the
    /// optimum.
    pub(super) fn gap(&self) -> f64 {
        let is_certified = self.primal.is_finite() && self.dual.is_finite();
        if is_certified { relative_gap(self.primal, self.dual) } else { f64::INFINITY }
    }
}

pub(super) fn relative_gap(primal: f64, dual: f64) -> f64 {
    ((primal - dual) / primal.abs().max(dual.abs()).max(f64::MIN_POSITIVE)).max(0.0)
}

pub(super) struct Workspace<T> {
    pub(super) p: usize,
    pub(super) panels: BufferPool<GramBuffers<T>>,
    /// Buffers of row numbers, one for each thread.
    pub(super) row_buffers: BufferPool<Vec<u32>>,
    /// Unused equations, which later problems reuse. The operating system would have to clear the
    /// pages of new memory.
    pub(super) spare_equations: Vec<NewtonEquations<T>>,
}

impl<T> Workspace<T> {
    pub(super) fn new(p: usize) -> Self {
        Self { p, panels: BufferPool::default(), row_buffers: BufferPool::default(), spare_equations: Vec::new() }
    }

    /// Moves the row buffers to a workspace of another element type, and frees the other buffers.
    pub(super) fn move_row_buffers_to<U>(&mut self) -> Workspace<U> {
        (self.spare_equations, self.panels) = (Vec::new(), BufferPool::default());
        Workspace {
            p: self.p,
            panels: BufferPool::default(),
            row_buffers: std::mem::take(&mut self.row_buffers),
            spare_equations: Vec::new(),
        }
    }
}
