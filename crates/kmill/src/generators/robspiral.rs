//! A logarithmic spiral whose points crowd at the centre, the outermost first.
//!
//! Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky", arXiv 2207.06503, section 2.

use super::{Generator, Recipe, Target, spaced};

/// t = s⁶ for s evenly spaced over [0, 2], largest first; points e^{0.2 t} (cos t, sin t); the target is t.
#[derive(Debug)]
pub(super) struct Robspiral;

impl Generator for Robspiral {
    fn name(&self) -> &'static str {
        "robspiral"
    }
    fn about(&self) -> &'static str {
        "a spiral e^(t/5) (cos t, sin t), t from 64 down to 0, most points near the centre; y is t"
    }
    fn features(&self) -> usize {
        2
    }
    fn target(&self) -> Target {
        Target::Number
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let t = spaced(row, recipe.rows, 2.0, 0.0).powi(6);
        let radius = (0.2 * t).exp();
        x[0] = radius * t.cos();
        x[1] = radius * t.sin();
        t
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn the_spiral_runs_from_64_to_0() {
        let (x, t) = table(&Robspiral, 5, None);
        // s = 2, 1.5, 1, 0.5, 0
        for (t, expected) in t.iter().zip([64.0, 11.390_625, 1.0, 0.015_625, 0.0]) {
            assert!((t - expected).abs() < 1e-12);
        }
        for (x, t) in x.chunks_exact(2).zip(&t) {
            let radius = (0.2 * t).exp();
            assert!((x[0].hypot(x[1]) / radius - 1.0).abs() < 1e-12);
            assert!((x[0] / radius - t.cos()).abs() < 1e-12 && (x[1] / radius - t.sin()).abs() < 1e-12);
        }
        assert_eq!(&x[8..], [1.0, 0.0]);
    }
}
