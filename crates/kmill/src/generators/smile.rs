//! A face: two dense eyes, a mouth and a thin outline. Uniform sampling sees only the outline.
//!
//! Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky", arXiv 2207.06503, section 2.

use super::{Generator, Recipe, Target, spaced};
use std::f64::consts::TAU;

/// Rows in order: left eye, right eye, mouth, outline; the target numbers the parts 0 to 3.
///
/// Each eye has ⌈√n⌉ points, uniform in the unit disc centred at (±4, 4); the mouth ⌈n/10⌉ points, x evenly spaced
/// over [−5, 5], y = x²/16 − 5; the remaining points lie at evenly spaced angles over [0, 2π] on the circle of
/// radius 10.
#[derive(Debug)]
pub(super) struct Smile;

/// The numbers of points of one eye and of the mouth, of n in all.
fn parts(n: u64) -> (u64, u64) {
    let root = n.isqrt();
    (root + u64::from(root * root < n), n.div_ceil(10))
}

impl Generator for Smile {
    fn name(&self) -> &'static str {
        "smile"
    }
    fn about(&self) -> &'static str {
        "a face in the plane: two dense eyes, a mouth, and an outline of most points; y numbers the parts"
    }
    fn features(&self) -> usize {
        2
    }
    fn fewest_rows(&self) -> u64 {
        7 // two eyes of 3 points and a mouth of 1
    }
    fn target(&self) -> Target {
        Target::Class
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let (eye, mouth) = parts(recipe.rows);
        let (point, part) = if row < 2 * eye {
            let left = row < eye;
            // the square root makes the density uniform over the disc
            let (radius, angle) = (recipe.uniform(0, row).sqrt(), TAU * recipe.uniform(1, row));
            let centre = if left { -4.0 } else { 4.0 };
            ([centre + radius * angle.cos(), 4.0 + radius * angle.sin()], if left { 0.0 } else { 1.0 })
        } else if row < 2 * eye + mouth {
            let across = spaced(row - 2 * eye, mouth, -5.0, 5.0);
            ([across, across * across / 16.0 - 5.0], 2.0)
        } else {
            let angle = spaced(row - 2 * eye - mouth, recipe.rows - 2 * eye - mouth, 0.0, TAU);
            ([10.0 * angle.cos(), 10.0 * angle.sin()], 3.0)
        };
        x.copy_from_slice(&point);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn parts_have_their_sizes() {
        for (rows, sizes) in [(10_000, [100, 100, 1000, 8800]), (101, [11, 11, 11, 68]), (7, [3, 3, 1, 0])] {
            let (_, y) = table(&Smile, rows, None);
            let counted = [0.0, 1.0, 2.0, 3.0].map(|part| y.iter().filter(|y| **y == part).count());
            assert_eq!(counted, sizes);
            assert!(y.is_sorted());
        }
        assert!((7..5000).all(|n| 2 * parts(n).0 + parts(n).1 <= n));
    }

    #[test]
    fn parts_lie_where_they_belong() {
        let (x, y) = table(&Smile, 10_000, None);
        for (x, part) in x.chunks_exact(2).zip(&y) {
            match part {
                0.0 => assert!((x[0] + 4.0).hypot(x[1] - 4.0) <= 1.0),
                1.0 => assert!((x[0] - 4.0).hypot(x[1] - 4.0) <= 1.0),
                2.0 => assert!(x[0].abs() <= 5.0 && (x[1] - (x[0] * x[0] / 16.0 - 5.0)).abs() < 1e-12),
                _ => assert!((x[0].hypot(x[1]) - 10.0).abs() < 1e-12),
            }
        }
        let at = |row: usize| (x[2 * row], x[2 * row + 1]);
        assert_eq!(at(200), (-5.0, 25.0 / 16.0 - 5.0));
        assert_eq!(at(1199), (5.0, 25.0 / 16.0 - 5.0));
        assert_eq!(at(1200), (10.0, 0.0));
        // the last angle is 2π again
        assert!((at(9999).0 - 10.0).abs() < 1e-12 && at(9999).1.abs() < 1e-12);
    }

    #[test]
    fn eyes_are_filled_evenly() {
        let (x, y) = table(&Smile, 1_000_000, None);
        let eye = x.chunks_exact(2).zip(&y).filter(|(_, part)| **part == 0.0);
        let inner = eye.filter(|(x, _)| (x[0] + 4.0).hypot(x[1] - 4.0) < 0.5).count();
        // a quarter of the area: 250 of 1000, standard deviation 13.7
        assert!((182..318).contains(&inner), "{inner}");
    }
}
