use super::super::super::loss::Loss;
use super::super::kernel_cache::fill_matrix;
use super::*;

/// Losses of classification, each with the sum of the multipliers.
const CLASSIFICATION: [(Loss, f64); 2] = [(Loss::Hinge, 0.0), (Loss::SquaredHinge, 0.0)];
/// Losses of regression and of one class.
const OTHERS: [(Loss, f64); 2] = [(Loss::Insensitive { epsilon: 0.1 }, 0.0), (Loss::OneSided, 1.0)];

/// Returns n, the points and the targets of two overlapping classes, with more rows than a working
/// set.
fn overlapping_classes() -> (usize, Vec<f64>, Vec<f64>) {
    let n = WORKING_SET + 500;
    let noise = |i: usize| ((i * 7919 % 1013) as f64 / 1013.0 - 0.5) * 4.0;
    let sign = |i: usize| if i.is_multiple_of(3) { 1.0 } else { -1.0 };
    let x = (0..n).flat_map(|i| [sign(i) + noise(i), noise(i * 31 + 7)]).collect();
    (n, x, (0..n).map(sign).collect())
}

#[test]
fn working_sets_of_classifiers_reach_the_objective_of_the_whole_matrix() {
    check_working_sets(CLASSIFICATION);
}

#[test]
fn working_sets_of_regressions_reach_the_objective_of_the_whole_matrix() {
    check_working_sets(OTHERS);
}

/// Solves an SVM twice, with working sets and with its whole matrix. Both objectives must agree up
/// to the gap.
fn check_working_sets(losses: [(Loss, f64); 2]) {
    let kernel = kapprox::Kernel::parse("gaussian(sigma=0.7)").unwrap().build().unwrap().typed::<f64>();
    let (n, x, y) = overlapping_classes();
    let x = MatRef::from_row_major_slice(&x, n, 2);
    for ((loss, multiplier_sum), intercept) in
        losses.into_iter().flat_map(|loss| [Intercept::Free, Intercept::Penalised, Intercept::None].map(|i| (loss, i)))
    {
        if multiplier_sum > 0.0 && intercept != Intercept::Free {
            continue;
        }
        let c = if multiplier_sum > 0.0 { 10.0 / n as f64 } else { 3.0 };
        let rows: Vec<TargetAndCost> = y.iter().map(|y| TargetAndCost { y: *y, c }).collect();
        let problem_options = ProblemOptions {
            loss,
            intercept,
            multiplier_sum,
            typical_cost: 1.0,
            gap_tolerance: 1e-6,
            max_idle_steps: usize::MAX,
        };
        let shift = if intercept == Intercept::Penalised { 1.0 } else { 0.0 };
        let points = KernelPoints { kernel: &*kernel, x, shift };
        let solve = |mut stored_kernel: StoredKernel<'_, f64>, workers: &Workers| {
            let mut dual = Dual::new(rows.clone(), problem_options);
            dual.initialise(points, workers, &|| false);
            dual.solve(&mut stored_kernel, Some(points), 10_000, workers, &|| false)
        };
        let mut k = Vec::new();
        fill_matrix(points, &[n], &[], &mut k, &Workers::sequential());
        let whole_matrix = solve(StoredKernel::Matrix(k), &Workers::sequential());
        let small_cache = solve(StoredKernel::Cache(RowCache::new(points, 0)), &Workers::sequential());
        let large_cache = solve(StoredKernel::Cache(RowCache::new(points, n)), &Workers::new(3));
        assert!(
            small_cache.beta == large_cache.beta && small_cache.b == large_cache.b,
            "{loss:?} {intercept}: other bits"
        );
        for solved in [&whole_matrix, &small_cache] {
            assert!(solved.primal - solved.dual <= 1e-6 * solved.primal.abs().max(solved.dual.abs()), "{loss:?}");
            assert!(solved.beta.iter().zip(&rows).all(|(beta, row)| loss.conjugate(*beta, *row).is_finite()));
            if intercept == Intercept::Free {
                let sum: f64 = solved.beta.iter().sum();
                assert!((sum - multiplier_sum).abs() < 1e-9 * c * n as f64, "{loss:?} {intercept}: {sum}");
            }
        }
        let difference = (whole_matrix.primal - small_cache.primal).abs() / whole_matrix.primal.abs();
        assert!(difference <= 2e-6, "{loss:?} {intercept}: {} {}", whole_matrix.primal, small_cache.primal);
        assert!(small_cache.round_count > 1 && whole_matrix.primal.abs() > 0.0);
    }
}

#[test]
fn golden_sections_find_the_minimum() {
    for expected in [-3.0, 0.25, 1e-9, 7.0] {
        let minimiser = golden_section(-3.0, 7.0, &|b| (b - expected).abs() + 0.5 * (b - expected).max(0.0));
        assert!((minimiser - expected).abs() < 1e-7, "{expected}: {minimiser}");
    }
}
