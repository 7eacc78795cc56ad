//! Generators with class targets: clusters of points in the plane, with noise in both coordinates.

use super::{Generator, Target};
use std::f64::consts::PI;

/// Class 0: (cos t, sin t); class 1: (1 − cos t, ½ − sin t); t uniform in (0, π).
pub(super) static MOONS: Generator = Generator::undescribed("moons", 2, Target::Class, |spec, row, x| {
    let is_lower = spec.uniform(0, row) < 0.5;
    let t = PI * spec.uniform(1, row);
    let point = if is_lower { [1.0 - t.cos(), 0.5 - t.sin()] } else { [t.cos(), t.sin()] };
    spec.add_noise(&point, row, x);
    f64::from(u8::from(is_lower))
})
.noise(0.1)
.about("two classes: interleaved half circles of radius 1, with noise");

/// Number of clusters of `blobs`.
const BLOB_COUNT: u64 = 3;

/// Index of the first random draw for the centres, far above the draw indices of the rows.
const FIRST_CENTRE_DRAW: u64 = 1 << 40;

/// Three classes with centres uniform in (−10, 10)^d, and points normal around them with standard
/// deviation `noise`.
pub(super) static BLOBS: Generator = Generator::undescribed("blobs", 2, Target::Class, |spec, row, x| {
    let class = ((spec.uniform(0, row) * BLOB_COUNT as f64) as u64).min(BLOB_COUNT - 1);
    for (axis, x) in (0..).zip(x) {
        let centre = 20.0 * spec.uniform(FIRST_CENTRE_DRAW + axis, class) - 10.0;
        *x = centre + spec.noise * spec.normal(axis, row);
    }
    class as f64
})
.with_min_features(1)
.noise(1.0)
.about("three classes: Gaussian clusters with centres uniform in (-10, 10)^d");

/// Points (t, t² + class) with t uniform in (-2, 2). The classes are not linearly separable, but a
/// quadratic function separates them.
pub(super) static PARABOLAS: Generator = Generator::undescribed("parabolas", 2, Target::Class, |spec, row, x| {
    let upper = f64::from(u8::from(spec.uniform(0, row) < 0.5));
    let t = 4.0 * spec.uniform(1, row) - 2.0;
    spec.add_noise(&[t, t * t + upper], row, x);
    upper
})
.noise(0.05)
.about("two classes: the parabolas x1 = x0^2 and x1 = x0^2 + 1 for x0 in (-2, 2), with noise");

/// Class 0: (cos t, sin t); class 1: half of this; t uniform in (0, 2π).
pub(super) static CIRCLE: Generator = Generator::undescribed("circle", 2, Target::Class, |spec, row, x| {
    let is_inner = spec.uniform(0, row) < 0.5;
    let (t, radius) = (2.0 * PI * spec.uniform(1, row), if is_inner { 0.5 } else { 1.0 });
    spec.add_noise(&[radius * t.cos(), radius * t.sin()], row, x);
    f64::from(u8::from(is_inner))
})
.noise(0.05)
.about("two classes: a circle of radius 1/2 inside one of radius 1, with noise");

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_points_lie_where_their_class_is() {
        let away = |generator: &Generator, away: fn(&[f64], f64) -> f64| {
            let (x, y) = table(generator, 1000, Some(0.0));
            assert!(x.chunks_exact(2).zip(&y).all(|(x, class)| away(x, *class).abs() < 1e-12), "{}", generator.name);
            let ones = y.iter().sum::<f64>();
            assert!((420.0..580.0).contains(&ones), "{}: {ones} of 1000 in class 1", generator.name);
            x
        };
        let moons = away(&MOONS, |x, class| (x[0] - class).hypot(x[1] - 0.5 * class) - 1.0);
        assert!(moons.chunks_exact(2).all(|x| (-0.5..=1.0).contains(&x[1])), "halves of circles");
        away(&CIRCLE, |x, class| x[0].hypot(x[1]) - 1.0 / (1.0 + class));
        let parabolas = away(&PARABOLAS, |x, class| x[1] - x[0] * x[0] - class);
        assert!(parabolas.chunks_exact(2).all(|x| x[0].abs() < 2.0));
    }

    #[test]
    fn without_noise_there_are_three_blobs() {
        let (x, y) = table(&BLOBS, 300, Some(0.0));
        for class in 0..BLOB_COUNT {
            let rows: Vec<&[f64]> =
                x.chunks_exact(2).zip(&y).filter(|(_, y)| **y == class as f64).map(|(x, _)| x).collect();
            assert!(rows.len() > 60 && rows.iter().all(|x| *x == rows[0] && x.iter().all(|v| v.abs() < 10.0)));
        }
    }
}
