//! The rank for a given tolerance is minimal for every solver: one feature fewer is not enough.

use crate::solvers::golden;
use kfit::request::TrainOptions;
use kfit::solver::{Options, registry};
use kmill_tests::table::{exact, select, solve, write};
use kmill_tests::{dense, kernels};
use ksolve::Task;
use ksolve::job::LandmarkSource;

const KERNEL: &str = "gaussian(sigma=2)";

#[test]
fn the_smallest_rank_within_the_tolerance_by_every_solver() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &golden.x, &golden.y);
    let k = kernels::kernel(KERNEL);
    let n = golden.x.len();
    for family in registry() {
        let reads = |name: &str| family.parameters.iter().any(|parameter| parameter.name == name);
        // these solvers compute no features of all rows, hence no error on all rows
        if ["mds", "isomap", "lle", "mvu"].contains(&family.name) {
            continue;
        }
        assert!(reads("tolerance"), "{} does not read a tolerance", family.name);
        // two views need a partition of the columns and have a tolerance each
        if reads("with") {
            continue;
        }
        for (scheme, tolerance) in [("rpcholesky", 0.05), ("greedy", 0.2), ("uniform", 0.1)] {
            let given = Options::new();
            let given = if reads("clusters") { given.set("clusters", 2) } else { given };
            let given = if family.name == "ridge" { given.set("lambda", 1e-4) } else { given };
            let options = TrainOptions {
                tolerance: Some(tolerance),
                landmarks: LandmarkSource::Scheme(scheme.to_string()),
                ..exact(family.task, KERNEL, n)
            };
            let trained = solve::<f64>(&select(&path, family.task), &options, family.name, &given, 2);
            // directions of the columns are not functions of the landmarks
            if let Some(certificate) =
                trained.report.certificate.filter(|_| trained.model.metadata.kernel == "linear()")
            {
                assert!(certificate.trace_error <= tolerance && trained.report.rank < n, "{}", family.name);
                continue;
            }
            let points = trained.model.basis.landmarks().unwrap().0;
            let landmarks: Vec<Vec<f64>> = points.chunks(golden.x[0].len()).map(<[f64]>::to_vec).collect();
            assert!(
                landmarks.len() == trained.report.rank && trained.report.rank < n,
                "{} {}",
                family.name,
                trained.report.rank
            );
            let error = |r: usize| dense::trace_error(&golden.x, &landmarks[..r], &*k, 1e-14);
            let (enough, fewer) = (error(trained.report.rank), error(trained.report.rank - 1));
            assert!(enough <= tolerance && fewer > tolerance, "{} {scheme}: {enough}, {fewer}", family.name);
            let certificate = trained.report.certificate.unwrap().trace_error;
            assert!((certificate - enough).abs() < 1e-9, "{} {scheme}: {certificate} against {enough}", family.name);
        }
    }
}

#[test]
fn maps_of_directions_are_cut_too_and_growth_ends_early() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &golden.x, &golden.y);
    let n = golden.x.len();
    for map in ["eigen(oversampling=1)", "truncated(oversampling=1)"] {
        let options =
            TrainOptions { tolerance: Some(0.05), map: map.parse().unwrap(), ..exact(Task::Components, KERNEL, n) };
        let given = Options::new().set("components", 3);
        let trained = solve::<f64>(&select(&path, Task::Components), &options, "kpca", &given, 2);
        let certificate = trained.report.certificate.unwrap().trace_error;
        // eigenvectors of the matrix of all rows: the error is the sum of omitted eigenvalues
        let k = kernels::kernel(KERNEL);
        let values = dense::eigenvalues(dense::kernel_matrix(&golden.x, &*k));
        let total: f64 = values.iter().sum();
        let left = |r: usize| values[r..].iter().sum::<f64>() / total;
        assert!(
            left(trained.report.rank) <= 0.05 && left(trained.report.rank - 1) > 0.05,
            "{map}: rank {}",
            trained.report.rank
        );
        assert!((certificate - left(trained.report.rank)).abs() < 1e-9, "{map}: {certificate}");
    }
    // the selection ends long before the largest rank
    let options = TrainOptions {
        tolerance: Some(0.2),
        landmarks: LandmarkSource::Scheme("greedy".to_string()),
        ..exact(Task::Components, KERNEL, n)
    };
    let trained = solve::<f64>(&select(&path, Task::Components), &options, "kpca", &Options::new(), 1);
    let count = trained.report.landmarks.unwrap().count;
    assert!(count >= trained.report.rank && count < n / 2, "{count} landmarks for rank {}", trained.report.rank);
}
