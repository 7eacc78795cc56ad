//! Sheets in three dimensions, with noise in all coordinates; the target is the place along the sheet.

use super::{Generator, Target};
use std::f64::consts::PI;

/// (t cos t, 21 v, t sin t) with t = 3π/2 (1 + 2u), u and v uniform in (0, 1); the target is t.
pub(super) static SWISSROLL: Generator = Generator::rule("swissroll", 3, Target::Number, |recipe, row, x| {
    let t = 1.5 * PI * (1.0 + 2.0 * recipe.uniform(0, row));
    recipe.near(&[t * t.cos(), 21.0 * recipe.uniform(1, row), t * t.sin()], row, x);
    t
})
.noise(0.0)
.about("a sheet rolled up in three dimensions, scikit-learn's Swiss roll; the target is the place along the roll");

/// (sin t, 2v, sign(t)(cos t − 1)) with t = 3π (u − ½), u and v uniform in (0, 1); the target is t.
pub(super) static SCURVE: Generator = Generator::rule("scurve", 3, Target::Number, |recipe, row, x| {
    let t = 3.0 * PI * (recipe.uniform(0, row) - 0.5);
    recipe.near(&[t.sin(), 2.0 * recipe.uniform(1, row), t.signum() * (t.cos() - 1.0)], row, x);
    t
})
.noise(0.0)
.about("a sheet bent to an S in three dimensions, scikit-learn's S curve; the target is the place along the S");

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_the_target_is_the_place_along_the_sheet() {
        let (x, t) = table(&SWISSROLL, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            assert!((x[0].hypot(x[2]) - t).abs() < 1e-12 && (1.5 * PI..4.5 * PI).contains(&t));
        }
        let (x, t) = table(&SCURVE, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            // the halves of the S are arcs of radius 1 about (0, ±1)
            assert!((x[0].hypot(x[2] + t.signum()) - 1.0).abs() < 1e-12 && (0.0..2.0).contains(&x[1]));
            assert!((x[0] - t.sin()).abs() < 1e-12 && t.abs() < 1.5 * PI);
        }
    }
}
