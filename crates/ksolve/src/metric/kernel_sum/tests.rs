use super::super::marginal::tests::random_numbers;
use super::*;
use kstore::pass::NoObserver;

fn draws(n: usize, d: usize, seed: u64) -> Mat<f64> {
    let mut draw = random_numbers(seed);
    // uniform with variance 1
    Mat::from_fn(n, d, |_, _| 3f64.sqrt() * draw())
}

fn learned(kernel: &str, x: &Mat<f64>, y: &Mat<f64>, threads: usize) -> Result<(Kernel, Option<LikelihoodReport>)> {
    learn(&Kernel::parse(kernel).unwrap(), x.as_ref(), y.as_ref(), &[], &NoObserver, &Workers::new(threads))
}

#[test]
fn each_part_finds_its_columns() {
    let x = draws(400, 4, 5);
    // a smooth function of column 0 and a step along column 2
    let y = Mat::from_fn(400, 1, |i, _| (1.5 * x[(i, 0)]).sin() + f64::from(u8::from(x[(i, 2)] > 0.3)));
    let (kernel, report) = learned("gaussian(sigma=2) + laplacian(sigma=4)", &x, &y, 2).unwrap();
    let lengths = |kernel: &Kernel| kernel.column_lengths(4).unwrap().into_iter().map(|(_, length)| length);
    let all: Vec<Vec<f64>> = kernel.terms().iter().map(|term| lengths(term).collect()).collect();
    let (smooth, rough) = (&all[0], &all[1]);
    assert!([1, 2, 3].into_iter().all(|k| smooth[k] > 5.0 * smooth[0]), "{kernel}");
    assert!([0, 1, 3].into_iter().all(|k| rough[k] > 5.0 * rough[2]), "{kernel}");
    let report = report.unwrap();
    assert!((report.rows, report.parameters) == (400, 11) && report.noise < 0.05, "{report:?}");
    let one = learned("gaussian(sigma=2)", &x, &y, 2).unwrap().1.unwrap();
    assert!(report.aic() < one.aic(), "{report} {one}");
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let x = draws(900, 3, 1);
    let y = Mat::from_fn(900, 2, |i, t| (x[(i, t)] * x[(i, 2)]).sin());
    let one = learned("gaussian(sigma=2) + exponential(sigma=2)", &x, &y, 1).unwrap();
    assert_eq!(one, learned("gaussian(sigma=2) + exponential(sigma=2)", &x, &y, 3).unwrap());
}

#[test]
fn the_sample_has_equal_steps_of_the_target() {
    let y = Mat::from_fn(10_000, 1, |i, _| ((i * 7919) % 10_000) as f64);
    let rows = evenly_spaced_rows(y.as_ref());
    let sorted = |rows: &[usize]| {
        let mut values: Vec<f64> = rows.iter().map(|row| y[(*row, 0)]).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!(rows.len(), MAX_ROWS);
    assert!(sorted(&rows).windows(2).all(|pair| (pair[1] - pair[0] - 10.0 / 1.5).abs() < 1.0));
    assert!(sorted(&rows[..500]).windows(2).all(|pair| (pair[1] - pair[0] - 20.0).abs() < 1.5));
}

#[test]
fn degenerate_samples_give_finite_length_scales() {
    let (x, chance) = (draws(60, 3, 2), draws(60, 1, 3));
    let y = Mat::from_fn(60, 1, |i, _| x[(i, 0)]);
    let text = "gaussian(sigma=2) + laplacian(sigma=2)";
    let constant = Mat::from_fn(60, 1, |_, _| 0.1);
    assert_eq!(learned(text, &x, &constant, 1).unwrap(), (Kernel::parse(text).unwrap(), None));
    let same = Mat::from_fn(60, 3, |_, k| x[(0, k)]);
    let doubled = Mat::from_fn(60, 3, |i, k| x[(i / 6, k)]);
    for x in [&same, &doubled, &x] {
        for y in [&y, &chance] {
            let (kernel, report) = learned(text, x, y, 1).unwrap();
            assert!(report.unwrap().log_likelihood.is_finite());
            kernel.build().unwrap();
        }
    }
    learned(text, &draws(2, 3, 1), &draws(2, 1, 2), 1).unwrap();
}

#[test]
fn kernels_without_length_scales_are_refused() {
    let (x, y) = (draws(20, 3, 1), draws(20, 1, 2));
    for text in ["linear() + 1", "gaussian(sigma=1)*laplacian(sigma=1)"] {
        let error = learned(text, &x, &y, 1).unwrap_err().to_string();
        assert!(error.contains("a kernel with a length scale"), "{error}");
    }
}
