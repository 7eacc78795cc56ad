use super::*;
use crate::Error;

const LIMITS: LbfgsLimits = LbfgsLimits { max_steps: 500, max_change: 2.0, tolerance: 1e-15 };

/// Rosenbrock's function in n variables, with its minimum at (1, …, 1).
fn rosenbrock(x: &[f64], g: &mut [f64]) -> f64 {
    g.fill(0.0);
    let mut value = 0.0;
    for i in 0..x.len() - 1 {
        let (residual, offset) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
        value += 100.0 * residual * residual + offset * offset;
        g[i] += -400.0 * x[i] * residual - 2.0 * offset;
        g[i + 1] += 200.0 * residual;
    }
    value
}

#[test]
fn rosenbrock_converges_to_a_minimum() {
    for n in [2, 12] {
        let bounds = vec![(-10.0, 10.0); n];
        let start: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
        let mut call_count = 0;
        let minimum = minimise(&start, &bounds, LIMITS, &mut |x, g| {
            call_count += 1;
            Ok::<_, Error>(rosenbrock(x, g))
        });
        let minimum = minimum.unwrap();
        // in 12 variables there is a second minimum near (-1, 1, …, 1), with the value 3.99
        assert!(minimum.value < 1e-12 || (n > 2 && minimum.value < 4.0), "{n}: {minimum:?}");
        assert!(call_count < 200, "{n}: {call_count}");
    }
}

#[test]
fn variables_stop_at_their_bounds() {
    // the optimum (1, 1) is outside the box; on the edge x = 0.5 the best y is 0.25
    let minimum =
        minimise(&[-1.0, 2.0], &[(-2.0, 0.5), (-2.0, 2.0)], LIMITS, &mut |x, g| Ok::<_, Error>(rosenbrock(x, g)))
            .unwrap();
    assert!((minimum.x[0] - 0.5).abs() < 1e-9 && (minimum.x[1] - 0.25).abs() < 1e-6, "{minimum:?}");
}

#[test]
fn infinite_and_nan_trials_shorten_the_step() {
    for outside in [f64::INFINITY, f64::NAN] {
        // x − ln x on x > 0, `outside` elsewhere
        let minimum = minimise(&[0.01], &[(-1e3, 1e3)], LbfgsLimits { max_change: 50.0, ..LIMITS }, &mut |x, g| {
            g[0] = 1.0 - 1.0 / x[0];
            Ok::<_, Error>(if x[0] > 0.0 { x[0] - x[0].ln() } else { outside })
        });
        let minimum = minimum.unwrap();
        assert!((minimum.x[0] - 1.0).abs() < 1e-6, "{minimum:?}");
    }
}

#[test]
fn infinite_starts_and_errors_end_the_search() {
    let minimum = minimise(&[1.0], &[(0.0, 2.0)], LIMITS, &mut |_, _| Ok::<_, Error>(f64::NAN)).unwrap();
    assert_eq!((minimum.value, minimum.step_count), (f64::INFINITY, 0));
    let failed = minimise(&[1.0], &[(0.0, 2.0)], LIMITS, &mut |_, _| Err(Error::from(kstore::Error::Interrupted)));
    assert!(failed.is_err_and(|error| error.is_interrupted()));
}
