//! Reference values of scikit-learn and SciPy.

use crate::inputs::{block, build, view};
use kapprox::kernel::registry;

/// The reference values are made by `scripts/golden.py kernels`.
#[test]
fn blocks_equal_scikit_learn() {
    #[derive(serde::Deserialize)]
    struct Golden {
        points: std::collections::HashMap<String, Points>,
        kernels: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Points {
        x: Vec<Vec<f64>>,
        z: Vec<Vec<f64>>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        spec: String,
        points: String,
        values: Vec<Vec<f64>>,
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/kernels.json");
    let golden: Golden = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // kernels in neither library; of skewed chi-squared scikit-learn has only random features
    let without = ["constant", "subset", "delta", "skewed_chi_squared", "distance"];
    for family in registry().into_iter().filter(|family| !without.contains(&family.name)) {
        let found = golden.kernels.iter().any(|entry| entry.spec.starts_with(&format!("{}(", family.name)));
        assert!(found, "no golden value of {}", family.name);
    }
    for Entry { spec, points, values } in golden.kernels {
        let points = &golden.points[&points];
        let (x, z, d) = (points.x.concat(), points.z.concat(), points.x[0].len());
        let k = block(&build(&spec), view(&x, d), view(&z, d));
        for (i, row) in values.iter().enumerate() {
            for (j, &want) in row.iter().enumerate() {
                let error = (k[(i, j)] - want).abs() / want.abs().max(1e-3);
                assert!(error < 1e-12, "{spec} ({i}, {j}): {} and {want}", k[(i, j)]);
            }
        }
    }
}
