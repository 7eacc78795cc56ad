//! Point sets of the literature, and small random ones.

use std::f64::consts::TAU;

/// A small linear congruential generator (Knuth's MMIX constants): independent of the generator under test.
#[derive(Clone, Debug)]
pub struct Lcg(pub u64);

impl Lcg {
    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (TAU * self.uniform()).cos()
    }
    /// n points of d standard normal numbers.
    pub fn normals(&mut self, n: usize, d: usize) -> Vec<Vec<f64>> {
        (0..n).map(|_| (0..d).map(|_| self.normal()).collect()).collect()
    }
}

fn evenly(from: f64, to: f64, n: usize) -> impl Iterator<Item = f64> {
    (0..n).map(move |i| from + (to - from) * i as f64 / (n as f64 - 1.0).max(1.0))
}

/// The smile of Chen, Epperly, Tropp, Webber 2022: two eyes, a mouth, a face.
pub fn smile(n: usize, random: &mut Lcg) -> Vec<Vec<f64>> {
    let eye = (n as f64).sqrt().ceil() as usize;
    let mouth = n.div_ceil(10);
    let mut points = Vec::with_capacity(n);
    for centre in [-4.0, 4.0] {
        for _ in 0..eye {
            let (r, a) = (random.uniform().sqrt(), TAU * random.uniform());
            points.push(vec![centre + r * a.cos(), 4.0 + r * a.sin()]);
        }
    }
    points.extend(evenly(-5.0, 5.0, mouth).map(|x| vec![x, x * x / 16.0 - 5.0]));
    let face = n - points.len();
    points.extend(evenly(0.0, TAU, face).map(|a| vec![10.0 * a.cos(), 10.0 * a.sin()]));
    points
}

/// The outlier-ridden spiral of the same paper.
pub fn robspiral(n: usize) -> Vec<Vec<f64>> {
    evenly(2.0, 0.0, n)
        .map(|s| {
            let t = s.powi(6);
            let r = (0.2 * t).exp();
            vec![r * t.cos(), r * t.sin()]
        })
        .collect()
}

/// Rows as one row-major vector.
pub fn flat(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter().flatten().copied().collect()
}
