//! Tables in which most rows are similar, so that a uniform sample misses the few rows that differ.
//!
//! Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky", arXiv
//! 2207.06503, section 2.

use super::{Generator, TableSpec, Target, evenly_spaced};
use std::f64::consts::TAU;

/// A face. Its rows are in the order left eye, right eye, mouth, outline; the target numbers these
/// parts from 0 to 3.
///
/// Each eye has ⌈√n⌉ points, uniform in the unit disc centred at (±4, 4). The mouth has ⌈n/10⌉
/// points (x, x²/16 − 5) with x evenly spaced over [−5, 5]. The remaining points lie on the circle
/// of radius 10, at evenly spaced angles over [0, 2π].
pub(super) static SMILE: Generator = Generator {
    // with 7 rows, two eyes of 3 points and a mouth of 1 point
    min_rows: 7,
    ..Generator::undescribed("smile", 2, Target::Class, smile).about(
        "a face in the plane: two dense eyes, a mouth, and an outline with most of the \
            points; y is the index of the part",
    )
};

/// Returns the number of points of one eye and of the mouth, for n points in total.
fn eye_and_mouth_rows(n: u64) -> (u64, u64) {
    let root = n.isqrt();
    (root + u64::from(root * root < n), n.div_ceil(10))
}

fn smile(spec: &TableSpec, row: u64, x: &mut [f64]) -> f64 {
    let (eye_rows, mouth_rows) = eye_and_mouth_rows(spec.rows);
    let (point, part) = if row < 2 * eye_rows {
        let is_left = row < eye_rows;
        // the square root makes the density uniform over the disc
        let (radius, angle) = (spec.uniform(0, row).sqrt(), TAU * spec.uniform(1, row));
        let centre = if is_left { -4.0 } else { 4.0 };
        ([centre + radius * angle.cos(), 4.0 + radius * angle.sin()], if is_left { 0.0 } else { 1.0 })
    } else if row < 2 * eye_rows + mouth_rows {
        let mouth_x = evenly_spaced(row - 2 * eye_rows, mouth_rows, -5.0, 5.0);
        ([mouth_x, mouth_x * mouth_x / 16.0 - 5.0], 2.0)
    } else {
        let angle = evenly_spaced(row - 2 * eye_rows - mouth_rows, spec.rows - 2 * eye_rows - mouth_rows, 0.0, TAU);
        ([10.0 * angle.cos(), 10.0 * angle.sin()], 3.0)
    };
    x.copy_from_slice(&point);
    part
}

/// A spiral: the points e^{0.2 t} (cos t, sin t) with t = s⁶, where s is evenly spaced over [0, 2]
/// and the largest s is first. The target is t.
pub(super) static ROBSPIRAL: Generator = Generator::undescribed("robspiral", 2, Target::Number, |spec, row, x| {
    let t = evenly_spaced(row, spec.rows, 2.0, 0.0).powi(6);
    let radius = (0.2 * t).exp();
    x[0] = radius * t.cos();
    x[1] = radius * t.sin();
    t
})
.about(
    "a spiral e^(t/5) (cos t, sin t), t from 64 down to 0, with most points near the centre; y \
    is t",
);

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn the_parts_of_the_face_have_their_sizes() {
        for (rows, sizes) in [(10_000, [100, 100, 1000, 8800]), (101, [11, 11, 11, 68]), (7, [3, 3, 1, 0])] {
            let (_, y) = table(&SMILE, rows, None);
            let counted = [0.0, 1.0, 2.0, 3.0].map(|part| y.iter().filter(|y| **y == part).count());
            assert_eq!(counted, sizes);
            assert!(y.is_sorted());
        }
        assert!((7..5000).all(|n| 2 * eye_and_mouth_rows(n).0 + eye_and_mouth_rows(n).1 <= n));
    }

    #[test]
    fn the_parts_of_the_face_lie_where_they_belong() {
        let (x, y) = table(&SMILE, 10_000, None);
        for (x, part) in x.chunks_exact(2).zip(&y) {
            match part {
                0.0 => assert!((x[0] + 4.0).hypot(x[1] - 4.0) <= 1.0),
                1.0 => assert!((x[0] - 4.0).hypot(x[1] - 4.0) <= 1.0),
                2.0 => assert!(x[0].abs() <= 5.0 && (x[1] - (x[0] * x[0] / 16.0 - 5.0)).abs() < 1e-12),
                _ => assert!((x[0].hypot(x[1]) - 10.0).abs() < 1e-12),
            }
        }
        let point = |row: usize| (x[2 * row], x[2 * row + 1]);
        assert_eq!(
            [point(200), point(1199), point(1200)],
            [(-5.0, 25.0 / 16.0 - 5.0), (5.0, 25.0 / 16.0 - 5.0), (10.0, 0.0)]
        );
        // the last angle is 2π, the same point as the first
        assert!((point(9999).0 - 10.0).abs() < 1e-12 && point(9999).1.abs() < 1e-12);
    }

    #[test]
    fn eyes_are_filled_evenly() {
        let (x, y) = table(&SMILE, 1_000_000, None);
        let eye = x.chunks_exact(2).zip(&y).filter(|(_, part)| **part == 0.0);
        let inner = eye.filter(|(x, _)| (x[0] + 4.0).hypot(x[1] - 4.0) < 0.5).count();
        // a quarter of the area: 250 of 1000, standard deviation 13.7
        assert!((182..318).contains(&inner), "{inner}");
    }

    #[test]
    fn the_spiral_runs_from_64_to_0() {
        let (x, t) = table(&ROBSPIRAL, 5, None);
        // s = 2, 1.5, 1, 0.5, 0
        for ((x, t), expected) in x.chunks_exact(2).zip(&t).zip([64.0, 11.390_625, 1.0, 0.015_625, 0.0]) {
            let radius = (0.2 * t).exp();
            assert!((t - expected).abs() < 1e-12 && (x[0].hypot(x[1]) / radius - 1.0).abs() < 1e-12);
            assert!((x[0] / radius - t.cos()).abs() < 1e-12 && (x[1] / radius - t.sin()).abs() < 1e-12);
        }
        assert_eq!(&x[8..], [1.0, 0.0]);
    }
}
