//! Randomly pivoted Cholesky by blocks with rejection has the pivot law of one-at-a-time sampling.

use kapprox::landmark::{LandmarkRule, RpCholesky, TableScan};
use kapprox::matrix::{self, FnEntries};
use kmill_tests::dense::kernel_matrix;
use kmill_tests::fit::kernel;
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use kmill_tests::source::Points;
use kstore::{Pass, Workers};

const POLYNOMIAL: &str = "polynomial(gamma=1, c0=1, degree=3)";
const GAUSSIAN: &str = "gaussian(sigma=1)";

/// Thirty points; the polynomial kernel's diagonal spreads over more than two decades.
fn unequal() -> Vec<Vec<f64>> {
    let mut rows = Lcg(11).normals(30, 2);
    for (i, row) in rows.iter_mut().enumerate() {
        let scale = 10f64.powf(i as f64 / 29.0 * 0.4) * 0.7;
        row.iter_mut().for_each(|v| *v *= scale);
    }
    rows
}

/// Adds `pivot` to the chosen pivots and updates the residual of every row.
fn eliminate(k: &[Vec<f64>], chosen: &mut Vec<Vec<f64>>, residual: &mut [f64], pivot: usize) {
    let root = residual[pivot].sqrt();
    let earlier = |j: usize| chosen.iter().map(|c| c[pivot] * c[j]).sum::<f64>();
    let column: Vec<f64> = (0..k.len()).map(|j| (k[j][pivot] - earlier(j)) / root).collect();
    residual.iter_mut().zip(&column).for_each(|(r, c)| *r = (*r - c * c).max(0.0));
    residual[pivot] = 0.0;
    chosen.push(column);
}

/// Computes the probabilities of pivot number `at` by enumerating all earlier pivots.
fn plain_law(k: &[Vec<f64>], at: usize) -> Vec<f64> {
    fn walk(k: &[Vec<f64>], chosen: &mut Vec<Vec<f64>>, residual: &[f64], weight: f64, left: usize, out: &mut [f64]) {
        let total: f64 = residual.iter().sum();
        for (i, r) in residual.iter().enumerate() {
            let p = weight * r / total;
            if left == 0 {
                out[i] += p;
            } else if p >= 1e-9 {
                let mut next = residual.to_vec();
                eliminate(k, chosen, &mut next, i);
                walk(k, chosen, &next, p, left - 1, out);
                chosen.pop();
            }
        }
    }
    let diagonal: Vec<f64> = (0..k.len()).map(|i| k[i][i]).collect();
    let mut out = vec![0.0; k.len()];
    walk(k, &mut Vec::new(), &diagonal, 1.0, at, &mut out);
    out
}

/// How a simulated block is proposed.
#[derive(Clone, Copy)]
enum Proposals {
    /// With replacement: correct.
    Independent,
    /// Without replacement: wrong.
    Distinct,
}

/// Simulates the first `m` pivots of the block algorithm, dense, with another random generator.
fn simulate(k: &[Vec<f64>], m: usize, block: usize, proposals: Proposals, random: &mut Lcg) -> Vec<u64> {
    let mut residual: Vec<f64> = (0..k.len()).map(|i| k[i][i]).collect();
    let (mut chosen, mut pivots) = (Vec::new(), Vec::new());
    while pivots.len() < m {
        let start = residual.clone();
        let mut weights = start.clone();
        for _ in 0..block {
            let total: f64 = weights.iter().sum();
            if total <= 0.0 || pivots.len() == m {
                break;
            }
            let mut left = random.uniform() * total;
            let pick = weights.iter().position(|w| {
                left -= w;
                left < 0.0
            });
            let pick = pick.unwrap_or_else(|| weights.iter().rposition(|w| *w > 0.0).unwrap());
            if let Proposals::Distinct = proposals {
                weights[pick] = 0.0;
            }
            if random.uniform() * start[pick] < residual[pick] {
                eliminate(k, &mut chosen, &mut residual, pick);
                pivots.push(pick as u64);
            }
        }
    }
    pivots
}

/// Counts how often each row is the pivot at each position.
fn counts(n: usize, runs: &[Vec<u64>]) -> Vec<Vec<f64>> {
    let mut counts = vec![vec![0.0; n]; runs[0].len()];
    for run in runs {
        run.iter().zip(&mut counts).for_each(|(row, counts)| counts[*row as usize] += 1.0);
    }
    counts
}

/// Returns the library's pivots, streamed in tiles and segments, without the cost of threads.
fn library(rows: &[Vec<f64>], spec: &str, m: usize, seeds: u64) -> Vec<Vec<u64>> {
    let (points, any, workers) = (Points::<f64>::new(rows), kernel(spec), Workers::sequential());
    let pass = Pass { prefetch_tiles: 0, ..Pass::new(7, 11, &workers) };
    let data = TableScan { source: &points, pass, row_count: rows.len() as u64 };
    (0..seeds).map(|seed| RpCholesky.select(&data, &any, m, seed).unwrap().row_numbers).collect()
}

/// Returns the library's pivots of the matrix itself.
fn of_matrix(k: &[Vec<f64>], m: usize, seeds: u64) -> Vec<Vec<u64>> {
    let entries = FnEntries { n: k.len() as u64, entry: |i: u64, j: u64| k[i as usize][j as usize] };
    let pivots = |seed| matrix::rpcholesky(&entries, m, 0.0, seed, &Workers::sequential()).unwrap().pivots;
    (0..seeds).map(pivots).collect()
}

fn simulations(k: &[Vec<f64>], m: usize, block: usize, proposals: Proposals, seeds: u64) -> Vec<Vec<u64>> {
    (0..seeds).map(|seed| simulate(k, m, block, proposals, &mut Lcg(seed * 7919 + 3))).collect()
}

/// Returns chi-squared over its quantile at p = 1e-4 (Wilson, Hilferty 1931): below 1 it passes.
fn share_of_quantile(statistic: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    statistic / (freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3))
}

/// Compares counts with probabilities; cells with an expected count below five are pooled.
fn against(counts: &[f64], law: &[f64]) -> f64 {
    let runs: f64 = counts.iter().sum();
    let (mut statistic, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
    let mut add = |count: f64, expected: f64| {
        statistic += (count - expected) * (count - expected) / expected;
        cells += 1.0;
    };
    for (count, p) in counts.iter().zip(law) {
        match p * runs < 5.0 {
            true => rest = (rest.0 + count, rest.1 + p * runs),
            false => add(*count, p * runs),
        }
    }
    if rest.1 >= 5.0 {
        add(rest.0, rest.1);
    }
    share_of_quantile(statistic, cells - 1.0)
}

/// Compares two tables of counts of equally many runs; cells with fewer than ten are pooled.
fn alike(a: &[f64], b: &[f64]) -> f64 {
    let (mut statistic, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
    let mut add = |a: f64, b: f64| {
        statistic += (a - b) * (a - b) / (a + b);
        cells += 1.0;
    };
    for (a, b) in a.iter().zip(b) {
        match a + b < 10.0 {
            true => rest = (rest.0 + a, rest.1 + b),
            false => add(*a, *b),
        }
    }
    if rest.0 + rest.1 >= 10.0 {
        add(rest.0, rest.1);
    }
    share_of_quantile(statistic, cells - 1.0)
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

#[test]
fn the_first_pivots_have_the_law_of_the_plain_algorithm() {
    let rows = unequal();
    for spec in [POLYNOMIAL, GAUSSIAN] {
        let k = kernel_matrix(&rows, &*kernels::kernel(spec));
        for (name, runs) in [("rows", library(&rows, spec, 3, 10_000)), ("matrix", of_matrix(&k, 3, 10_000))] {
            let found = counts(30, &runs);
            for (at, counts) in found.iter().enumerate() {
                let share = against(counts, &plain_law(&k, at));
                eprintln!("{spec}, {name}, pivot {at}: {share:.2} of the quantile");
                assert!(share < 1.0, "{spec}, {name}, pivot {at}: {share}");
            }
        }
    }
}

#[test]
fn every_later_pivot_is_as_frequent_as_in_the_plain_form() {
    let rows = unequal();
    // the cubic polynomials of two variables span ten dimensions
    for (spec, m) in [(POLYNOMIAL, 9), (GAUSSIAN, 12)] {
        let k = kernel_matrix(&rows, &*kernels::kernel(spec));
        let plain = counts(30, &simulations(&k, m, 1, Proposals::Independent, 2_000));
        for runs in [library(&rows, spec, m, 2_000), of_matrix(&k, m, 2_000)] {
            let fast = counts(30, &runs);
            let shares: Vec<f64> = fast.iter().zip(&plain).map(|(a, b)| alike(a, b)).collect();
            eprintln!("{spec}: {shares:.2?} of the quantile");
            assert!(largest(shares.iter().copied()) < 1.0, "{spec}: {shares:?}");
        }
    }
}

/// The two tests above detect proposals without replacement, an easy mistake.
#[test]
fn distinct_proposals_are_noticed() {
    let rows = unequal();
    let k = kernel_matrix(&rows, &*kernels::kernel(POLYNOMIAL));
    let third = |proposals| against(&counts(30, &simulations(&k, 3, 40, proposals, 10_000))[2], &plain_law(&k, 2));
    let (right, wrong) = (third(Proposals::Independent), third(Proposals::Distinct));
    eprintln!("third pivot: independent {right:.2}, distinct {wrong:.2} of the quantile");
    assert!(right < 1.0 && wrong > 1.5, "{right} {wrong}");
    let plain = counts(30, &simulations(&k, 9, 1, Proposals::Independent, 2_000));
    let later = |proposals| {
        let found = counts(30, &simulations(&k, 9, 40, proposals, 2_000));
        largest(found.iter().zip(&plain).map(|(a, b)| alike(a, b)))
    };
    let (right, wrong) = (later(Proposals::Independent), later(Proposals::Distinct));
    eprintln!("later pivots: independent {right:.2}, distinct {wrong:.2} of the quantile");
    assert!(right < 1.0 && wrong > 1.5, "{right} {wrong}");
}
