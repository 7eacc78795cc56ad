//! Round clusters around random centres.

use super::{Generator, Recipe, Target};

/// Three classes with centres uniform in (−10, 10)^d, and points normal around them with standard deviation `noise`.
#[derive(Debug)]
pub(super) struct Blobs;

/// Number of clusters.
const CENTRES: u64 = 3;

/// Number of the first random draw for the centres, far above those of the rows.
const CENTRE: u64 = 1 << 40;

impl Generator for Blobs {
    fn name(&self) -> &'static str {
        "blobs"
    }
    fn about(&self) -> &'static str {
        "three classes: normal clusters around centres uniform in (-10, 10)^d"
    }
    fn features(&self) -> usize {
        2
    }
    fn fewest_features(&self) -> Option<usize> {
        Some(1)
    }
    fn noise(&self) -> Option<f64> {
        Some(1.0)
    }
    fn target(&self) -> Target {
        Target::Class
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let class = ((recipe.uniform(0, row) * CENTRES as f64) as u64).min(CENTRES - 1);
        for (axis, x) in (0..).zip(x) {
            let centre = 20.0 * recipe.uniform(CENTRE + axis, class) - 10.0;
            *x = centre + recipe.noise * recipe.normal(axis, row);
        }
        class as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_there_are_three_points() {
        let (x, y) = table(&Blobs, 300, Some(0.0));
        for class in 0..CENTRES {
            let rows: Vec<&[f64]> =
                x.chunks_exact(2).zip(&y).filter(|(_, y)| **y == class as f64).map(|(x, _)| x).collect();
            assert!(rows.len() > 60 && rows.iter().all(|x| *x == rows[0] && x.iter().all(|v| v.abs() < 10.0)));
        }
    }
}
