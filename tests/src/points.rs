//! Point sets from the literature, and small random point sets.

use std::f64::consts::TAU;
use std::io::Write;

/// Linear congruential generator (Knuth's MMIX constants), independent of the library's generator.
#[derive(Clone, Debug)]
pub struct Lcg(pub u64);

impl Lcg {
    /// Returns a uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Returns a standard normal number (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (TAU * self.uniform()).cos()
    }
    /// Returns n points of d standard normal numbers.
    pub fn normals(&mut self, n: usize, d: usize) -> Vec<Vec<f64>> {
        (0..n).map(|_| (0..d).map(|_| self.normal()).collect()).collect()
    }
}

fn evenly(from: f64, to: f64, n: usize) -> impl Iterator<Item = f64> {
    (0..n).map(move |i| from + (to - from) * i as f64 / (n as f64 - 1.0).max(1.0))
}

/// Returns the smile of Chen, Epperly, Tropp, Webber 2022: two eyes, a mouth, a face.
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

/// Returns the outlier-ridden spiral of the same paper.
pub fn robspiral(n: usize) -> Vec<Vec<f64>> {
    evenly(2.0, 0.0, n)
        .map(|s| {
            let t = s.powi(6);
            let r = (0.2 * t).exp();
            vec![r * t.cos(), r * t.sin()]
        })
        .collect()
}

/// Returns the rows as one row-major vector.
pub fn flat(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter().flatten().copied().collect()
}

/// Returns up to `n` rows of a real data set, standardised; reports a missing file as `None`.
///
/// # Panics
/// If the file exists and cannot be read.
pub fn real(name: &str, n: u64) -> Option<Vec<Vec<f64>>> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("KMILL_DATA").map_or(beside, std::path::PathBuf::from);
    let path = folder.join(format!("{name}.parquet"));
    if !path.is_file() {
        skip(&format!("no {name}.parquet (set KMILL_DATA to its folder)"));
        return None;
    }
    let table = kstore::Table::open(&[path]).expect("a table");
    let n = n.min(table.stored_rows());
    let selection = kstore::Selection {
        features: vec!["x*".to_string()],
        targets: vec!["y".to_string()],
        rows: Some(0..n),
        ..Default::default()
    };
    let source = table.select(&selection).and_then(|s| s.rows::<f64>(Default::default())).expect("rows");
    let d = kstore::RowSource::<f64>::shape(&source).input_count;
    let mut buf = kstore::RowBuf::new(n as usize);
    let mut cursor = kstore::RowSource::<f64>::open(&source, 0..n).expect("a cursor");
    cursor.next(&mut buf).expect("rows");
    let mut rows: Vec<Vec<f64>> = buf.x.chunks(d).map(<[f64]>::to_vec).collect();
    for j in 0..d {
        let mean = rows.iter().map(|r| r[j]).sum::<f64>() / n as f64;
        let deviation = (rows.iter().map(|r| (r[j] - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        rows.iter_mut().for_each(|r| r[j] = if deviation > 0.0 { (r[j] - mean) / deviation } else { 0.0 });
    }
    Some(rows)
}

/// Reports that the test ends early, bypassing the runner's capture; `scripts/test` counts these.
pub fn skip(why: &str) {
    let current = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", current.name().unwrap_or("a test"));
}
