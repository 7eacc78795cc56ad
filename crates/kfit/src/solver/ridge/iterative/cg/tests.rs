use super::*;
use kstore::pass::NoObserver;

/// A dense matrix with its diagonal as the preconditioner.
struct DenseSystem {
    matrix: Mat<f64>,
    /// Number of columns that were multiplied by the matrix.
    product_count: usize,
}

impl PositiveDefinite for DenseSystem {
    fn apply(&mut self, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) -> Result<()> {
        out.copy_from(&self.matrix * v);
        self.product_count += v.ncols();
        Ok(())
    }
    fn precondition(&mut self, r: MatRef<'_, f64>, mut z: MatMut<'_, f64>) -> Result<()> {
        z.copy_from(Mat::from_fn(r.nrows(), r.ncols(), |i, j| r[(i, j)] / self.matrix[(i, i)]));
        Ok(())
    }
}

fn stopping_rule(tolerance: f64) -> StoppingRule<'static> {
    StoppingRule { tolerance, observer: &NoObserver, journal: None }
}

fn dense_system(n: usize) -> DenseSystem {
    let b = Mat::<f64>::from_fn(n, n, |i, j| ((i * 13 + j * 29) as f64).sin());
    let mut a = b.transpose() * &b;
    (0..n).for_each(|i| a[(i, i)] += 1.0 + i as f64);
    DenseSystem { matrix: a, product_count: 0 }
}

#[test]
fn residuals_belong_to_the_solution_and_converged_columns_leave() {
    let mut system = dense_system(60);
    // the second right side is A e_7, the third is 0
    let b = Mat::from_fn(60, 3, |i, j| [(i as f64).cos(), system.matrix[(i, 7)], 0.0][j]);
    for norm in [Norm::Euclidean, Norm::Preconditioned] {
        system.product_count = 0;
        let solution = solve(&mut system, b.as_ref(), norm, stopping_rule(1e-10)).unwrap();
        assert!(solution.has_converged && solution.iterations[2] == 0 && solution.x.col(2).norm_max() == 0.0);
        let r = &b - &system.matrix * &solution.x;
        for j in 0..2 {
            assert!(solution.residuals[j] <= 1e-10);
            assert!(r.col(j).norm_l2() <= 1e-8 * b.col(j).norm_l2());
            if norm == Norm::Euclidean {
                let true_residual = r.col(j).norm_l2() / b.col(j).norm_l2();
                assert!(
                    (true_residual - solution.residuals[j]).abs() < 1e-13,
                    "{true_residual} {}",
                    solution.residuals[j]
                );
            }
        }
        let max_iterations = solution.iterations.iter().max().unwrap();
        // one product for each column and iteration, and the true residuals
        assert!(
            system.product_count
                <= solution.iterations.iter().sum::<usize>() + 2 * (max_iterations / TRUE_RESIDUAL_INTERVAL + 2),
            "{}",
            system.product_count
        );
    }
}

#[test]
fn a_residual_below_rounding_is_not_reported_as_converged() {
    let mut system = dense_system(40);
    let b = Mat::from_fn(40, 1, |i, _| (i as f64).sin());
    let solution = solve(&mut system, b.as_ref(), Norm::Euclidean, stopping_rule(1e-30)).unwrap();
    assert!(
        !solution.has_converged && solution.residuals[0] < 1e-12 && solution.iterations[0] < MAX_ITERATIONS,
        "{solution:?}"
    );
}

struct InexactSystem {
    exact: DenseSystem,
    max_error: f64,
}

impl PositiveDefinite for InexactSystem {
    fn apply(&mut self, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) -> Result<()> {
        let n = v.nrows();
        let error = Mat::from_fn(n, n, |i, j| self.max_error * ((i.min(j) * 7 + i.max(j) * 3) as f64).cos());
        out.copy_from((&self.exact.matrix + &error) * v);
        Ok(())
    }
    fn apply_in_f64(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()> {
        self.exact.apply(v, out)
    }
    fn precondition(&mut self, r: MatRef<'_, f64>, z: MatMut<'_, f64>) -> Result<()> {
        self.exact.precondition(r, z)
    }
}

#[test]
fn inexact_products_still_converge() {
    let b = Mat::from_fn(60, 2, |i, j| (i as f64 + 0.3 * j as f64).cos());
    let mut system = InexactSystem { exact: dense_system(60), max_error: 1e-4 };
    let solution = solve(&mut system, b.as_ref(), Norm::Euclidean, stopping_rule(1e-9)).unwrap();
    let r = &b - &system.exact.matrix * &solution.x;
    let true_residual = r.col(0).norm_l2() / b.col(0).norm_l2();
    assert!(solution.has_converged && true_residual <= 1e-9, "{true_residual:e} {:?}", solution.residuals);
}

#[test]
fn the_best_iterate_replaces_a_divergent_one() {
    let b = Mat::from_fn(60, 1, |i, _| (i as f64).cos());
    // errors far above the least eigenvalue: the applied matrix is not positive definite
    let mut system = InexactSystem { exact: dense_system(60), max_error: 50.0 };
    let solution = solve(&mut system, b.as_ref(), Norm::Euclidean, stopping_rule(1e-9)).unwrap();
    let r = &b - &system.exact.matrix * &solution.x;
    let true_residual = r.col(0).norm_l2() / b.col(0).norm_l2();
    assert!(
        !solution.has_converged && true_residual <= 1.0 && (true_residual - solution.max_residual()).abs() < 1e-12,
        "{true_residual} {solution:?}"
    );
    assert!(solution.max_residual() > 0.1, "{solution:?}");
    let message = solution.check("raise `lambda`").unwrap_err().to_string();
    assert!(
        message.contains("conjugate gradient did not converge") && message.ends_with("raise `lambda`"),
        "{message}"
    );
}

/// Stops after the given number of checks.
struct StopsAfter(std::sync::atomic::AtomicU64);

impl Observer for StopsAfter {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0
    }
}

/// A listener that fails the test on a warning.
struct NoWarnings;

impl kstore::checkpoint::Listener for NoWarnings {
    fn note(&self, _: String) {}
    fn warn(&self, text: String) {
        panic!("{text}");
    }
}

#[test]
fn a_run_with_many_stops_is_bit_identical_to_one_without() {
    let b = Mat::from_fn(60, 3, |i, j| [(i as f64).cos(), (i as f64 * 0.1).sin(), 0.0][j]);
    let uninterrupted = solve(&mut dense_system(60), b.as_ref(), Norm::Euclidean, stopping_rule(1e-10)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manifest = kstore::checkpoint::Manifest {
        version: String::new(),
        instruction_set: String::new(),
        options: Default::default(),
        files: Vec::new(),
    };
    let (mut product_count, mut stop_count) = (0, 0);
    let solution = loop {
        let path = folder.path().join("checkpoint");
        let journal = Journal::open(
            path,
            &manifest,
            std::time::Duration::ZERO,
            if stop_count > 0 {
                kstore::checkpoint::ResumeMode::Required
            } else {
                kstore::checkpoint::ResumeMode::Never
            },
            &NoWarnings,
        )
        .unwrap();
        let observer = StopsAfter(7.into());
        let mut system = dense_system(60);
        let stopping_rule = StoppingRule { observer: &observer, journal: Some(&journal), ..stopping_rule(1e-10) };
        let solution = solve(&mut system, b.as_ref(), Norm::Euclidean, stopping_rule);
        product_count += system.product_count;
        match solution {
            Ok(solution) => break solution,
            Err(error) => assert!(error.to_string().contains("interrupted"), "{error}"),
        }
        stop_count += 1;
        assert!(stop_count < 100, "no progress");
    };
    assert!(stop_count >= 3 && solution.x == uninterrupted.x, "{stop_count} stops");
    assert_eq!((solution.iterations, solution.residuals), (uninterrupted.iterations, uninterrupted.residuals));
    // nothing is computed twice
    let mut system = dense_system(60);
    solve(&mut system, b.as_ref(), Norm::Euclidean, stopping_rule(1e-10)).unwrap();
    assert_eq!(product_count, system.product_count);
}
