//! Intervals of the later steps of a forecast, against closed forms.

use super::run::{kmill, ok};
use std::fmt::Write;
use std::path::Path;

/// A standard normal number: SplitMix64, and the method of Box and Muller.
fn normal(counter: u64) -> f64 {
    let uniform = |counter: u64| {
        let mut z = counter.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    };
    (-2.0 * uniform(2 * counter).ln()).sqrt() * (std::f64::consts::TAU * uniform(2 * counter + 1)).cos()
}

/// Series of y_t = phi y_(t−1) + e_t.
struct Processes {
    phi: f64,
    count: usize,
    known: usize,
    steps: usize,
}

impl Processes {
    /// Returns the values of each series.
    fn values(&self) -> Vec<Vec<f64>> {
        let series = |s: usize| {
            let mut y = 0.0;
            let step = |t: usize| {
                y = self.phi * y + normal((s * 10_000 + t) as u64);
                y
            };
            (0..self.known + self.steps).map(step).collect()
        };
        (0..self.count).map(series).collect()
    }

    /// Writes the series, interleaved in time, with empty values after the known ones.
    fn write(&self, path: &Path) {
        let (values, mut text) = (self.values(), "day,series,y\n".to_string());
        for t in 0..self.known + self.steps {
            for (s, values) in values.iter().enumerate() {
                let y = if t < self.known { values[t].to_string() } else { String::new() };
                writeln!(text, "{t},s{s},{y}").unwrap();
            }
        }
        std::fs::write(path, text).unwrap();
    }
}

/// The forecast of each step: prediction, lower and upper end, by series.
fn forecast(folder: &Path, options: &str, known: usize) -> Vec<Vec<[f64; 3]>> {
    ok(folder, &format!("predict m t.csv --where day>={known} --keep day --interval {options} -o p.csv --json"));
    let text = std::fs::read_to_string(folder.join("p.csv")).unwrap();
    let mut steps: Vec<Vec<[f64; 3]>> = Vec::new();
    for line in text.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        steps.resize(steps.len().max(cells[0] as usize - known + 1), Vec::new());
        steps[cells[0] as usize - known].push([cells[1], cells[2], cells[3]]);
    }
    steps
}

fn mean_width(step: &[[f64; 3]]) -> f64 {
    step.iter().map(|[_, lower, upper]| upper - lower).sum::<f64>() / step.len() as f64
}

const FIT: &str = "fit ridge t.csv --target y --features !day,!series --kernel linear --by series --order day --missing drop \
    --interval 0.9 --folds 5 -o m --json";

/// The error of step h of an AR(1) process has the variance (1 − φ^(2h))/(1 − φ²).
#[test]
fn widths_of_an_autoregression_follow_the_closed_form() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let processes = Processes { phi: 0.8, count: 30, known: 150, steps: 9 };
    processes.write(&at.join("t.csv"));
    ok(at, &format!("{FIT} --lags y:1 --lambda 1e-6"));
    let steps = forecast(at, "", processes.known);
    // the fitted φ, from the predictions of the first series
    let [first, second, third] = [0, 1, 2].map(|h| steps[h][0][0]);
    let phi = (third - second) / (second - first);
    assert!((phi - 0.8).abs() < 0.05, "{phi}");
    let one_step = mean_width(&steps[0]);
    assert!((one_step / (2.0 * 1.645) - 1.0).abs() < 0.05, "{one_step}");
    for (h, step) in steps.iter().enumerate() {
        let expected = one_step * ((1.0 - phi.powi(2 * h as i32 + 2)) / (1.0 - phi * phi)).sqrt();
        let ratio = mean_width(step) / expected;
        assert!((ratio - 1.0).abs() < 0.03, "step {}: {ratio}", h + 1);
    }
    // the same bits, and other series do not matter
    let again = forecast(at, "--threads 1 --memory 64MiB", processes.known);
    assert_eq!(steps, again);
    Processes { count: 2, ..processes }.write(&at.join("t.csv"));
    ok(at, "convert t.csv -o t.parquet --json");
    std::fs::rename(at.join("t.parquet"), at.join("u.parquet")).unwrap();
    ok(at, "predict m u.parquet --where day>=150 --keep day --interval -o u.csv --json");
    let few = forecast(at, "", 150);
    assert_eq!(std::fs::read_to_string(at.join("u.csv")).unwrap(), std::fs::read_to_string(at.join("p.csv")).unwrap());
    let predictions = |steps: &[Vec<[f64; 3]>]| steps.iter().map(|step| step[0][0]).collect::<Vec<_>>();
    assert_eq!(predictions(&few), predictions(&steps));
}

/// The error of step h of a random walk has the variance h; the intervals cover the true values.
#[test]
fn intervals_of_a_random_walk_cover_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let walks = Processes { phi: 1.0, count: 80, known: 60, steps: 12 };
    walks.write(&at.join("t.csv"));
    // a large lambda makes the change a constant
    ok(at, &format!("{FIT} --lags y:1,2 --difference y:1 --lambda 1e3"));
    let (steps, truth) = (forecast(at, "", walks.known), walks.values());
    for (h, step) in steps.iter().enumerate() {
        let ratio = mean_width(step) / mean_width(&steps[0]) / ((h + 1) as f64).sqrt();
        assert!((ratio - 1.0).abs() < 0.03, "step {}: {ratio}", h + 1);
        let covers =
            |(values, [_, lower, upper]): &(&Vec<f64>, &[f64; 3])| (*lower..=*upper).contains(&values[walks.known + h]);
        let covered = truth.iter().zip(step).filter(covers).count() as f64 / truth.len() as f64;
        // three standard errors of 80 walks
        assert!((covered - 0.9).abs() < 0.1, "step {}: {covered}", h + 1);
    }
}

/// The first round has the intervals of one step; a rolling mean and a lag of the season widen the
/// later ones. A quantile other than the median keeps the intervals of one step, with a warning.
#[test]
fn known_past_values_have_the_interval_of_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let processes = Processes { phi: 0.9, count: 3, known: 120, steps: 12 };
    processes.write(&at.join("t.csv"));
    let note = |line: &str| {
        let (code, _, stderr) = kmill(at, line);
        assert_eq!(code, 0, "{stderr}");
        stderr
    };
    let predict = "predict m t.csv --where day>=120 --interval -o p.csv";
    ok(at, &format!("{FIT} --lags y:5 --lambda 1e-4"));
    assert!(note(predict).contains("the intervals after step 5 are quantiles of 1,000 sample paths"));
    let steps = forecast(at, "", 120);
    let widths: Vec<f64> = steps.iter().map(|step| mean_width(step)).collect();
    assert!(widths[..5].iter().all(|width| (width / widths[0] - 1.0).abs() < 0.05), "{widths:?}");
    assert!(widths[5..].iter().all(|width| *width > 1.05 * widths[0]), "{widths:?}");
    ok(at, &format!("{FIT} --lags y:1 --rolling y:4 --lambda 1e-4 --std --precision f64"));
    let widths: Vec<f64> = forecast(at, "", 120).iter().map(|step| mean_width(step)).collect();
    assert!(widths.windows(2).all(|pair| pair[1] > 0.97 * pair[0]) && widths[11] > 1.5 * widths[0], "{widths:?}");
    // the interval of step 1 is the interval of a forecast of one step
    let first = |steps: &[Vec<[f64; 3]>]| steps[0].clone();
    let all = first(&forecast(at, "", 120));
    assert!(!note("predict m t.csv --where day>=120 -o p.csv").contains("sample paths"), "no intervals requested");
    Processes { steps: 1, ..processes }.write(&at.join("t.csv"));
    assert!(!note(predict).contains("sample paths"), "all past values are known");
    assert_eq!(first(&forecast(at, "", 120)), all);
    Processes { steps: 3, ..processes }.write(&at.join("t.csv"));
    let quantile = "fit quantile t.csv --target y --features !day,!series --lags y:1 --by series --order day --missing drop \
        --rank 30 --lambda 1e-4 --folds 3 --interval 0.8 -o m --json";
    ok(at, &format!("{quantile} --quantiles 0.9"));
    assert!(note(predict).contains("warning: the intervals hold for one step, and are too narrow after step 1"));
    ok(at, &format!("{quantile} --quantiles 0.5"));
    assert!(note(predict).contains("after step 1 are quantiles of 1,000 sample paths"));
}
