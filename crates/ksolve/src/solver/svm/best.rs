//! The best point of a problem, and its certificate.

/// The best point so far and its certificate.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) w: Vec<f64>,
    pub(super) b: f64,
    /// The smallest primal value P.
    pub(super) primal: f64,
    /// The largest dual value D.
    pub(super) dual: f64,
    /// Number of support vectors: rows with β⁺ ≠ 0 at the last step.
    pub(super) support: usize,
}

impl Best {
    /// The point without its certificate.
    pub(super) fn uncertified(&self) -> Self {
        Self { primal: f64::INFINITY, dual: f64::NEG_INFINITY, ..self.clone() }
    }

    /// The relative duality gap (P − D)/max(|P|, |D|), which bounds how far P is above the optimum.
    pub(super) fn gap(&self) -> f64 {
        let scale = self.primal.abs().max(self.dual.abs()).max(f64::MIN_POSITIVE);
        let known = self.primal.is_finite() && self.dual.is_finite();
        if known { ((self.primal - self.dual) / scale).max(0.0) } else { f64::INFINITY }
    }
}
