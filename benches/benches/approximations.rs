//! Errors, seconds, passes and kernel evaluations of every landmark scheme and every map at several
//! ranks.
//!
//! `cargo bench -p kmill-benches -- approximations DATA SIGMA [RANKS] [METHODS]`, with DATA
//! `smile`, `robspiral` or a table of `KMILL_DATA`, RANKS such as `50,200,1000`, METHODS such as
//! `greedy,fourier`. Rows are standardised, in f64, and landmarks are chosen among all of them. The
//! seconds include the choice of landmarks and the construction of the map; a scheme with nested
//! landmarks runs once, at the largest rank, and all its ranks show the seconds of that run. The
//! trace error is exact; the Frobenius error is estimated from 300 sampled columns. Without
//! arguments, a small table runs as a test.

use kapprox::kernel::{AnyKernel, Kernel};
use kapprox::landmark::{self, TableScan};
use kapprox::map::{DataIndependentMapArgs, LandmarkMapArgs, MapConstructor};
use kapprox::quality::Approximation;
use kapprox::{FeatureMap, MapSpec, NystromMap};
use kmill_tests::points::{Lcg, flat, real, robspiral, smile};
use kstore::{MemoryRows, Pass, Workers};
use std::sync::Arc;
use std::time::Instant;

/// Number of sampled columns of the Frobenius error.
const COLUMNS: usize = 300;

struct Case<'a> {
    data: TableScan<'a, f64>,
    spec: Kernel,
    kernel: Arc<dyn AnyKernel>,
    ranks: Vec<usize>,
}

impl Case<'_> {
    /// Prints one line per rank of the map.
    fn line(&self, method: &str, ranks: &[usize], map: &dyn FeatureMap<f64>, cost: (f64, u64, u64)) {
        let p = map.dims().1;
        let mut ranks: Vec<usize> = ranks.iter().map(|rank| *rank.min(&p)).collect();
        ranks.dedup();
        let approximation = Approximation { scan: self.data, kernel: &self.kernel, map };
        let (seconds, passes, evaluations) = cost;
        for errors in approximation.errors(&ranks, COLUMNS, 1).expect("errors") {
            let trace = errors.trace_error.map_or("–".to_string(), |trace| format!("{trace:.3e}"));
            let (rank, frobenius) = (errors.rank, errors.relative_frobenius_error.value);
            assert!(frobenius.is_finite() && errors.trace_error.is_none_or(f64::is_finite), "{method}");
            println!("{method:18} {rank:5} {trace:>10} {frobenius:10.3e} {seconds:8.2} {passes:6} {evaluations:13}");
        }
    }

    /// Measures a landmark scheme with the Nyström map.
    fn scheme(&self, name: &str) {
        let facts = landmark::by_name(name).expect("a scheme");
        if facts.needs_targets {
            return;
        }
        let scheme = facts.typed::<f64>();
        let last = self.ranks.len() - 1;
        let runs: Vec<&[usize]> = if facts.is_nested { vec![&self.ranks[..]] } else { self.ranks.chunks(1).collect() };
        for ranks in runs {
            let largest = ranks.last().copied().unwrap_or(self.ranks[last]);
            let start = Instant::now();
            let set = scheme.select(&self.data, &self.kernel, largest, 0).expect("landmarks");
            let (passes, evaluations) = (set.passes, set.evaluations);
            let map = NystromMap::new(&self.kernel, set, &Workers::new(2)).expect("a map");
            self.line(name, ranks, &map, (start.elapsed().as_secs_f64(), passes, evaluations));
        }
    }

    /// Measures a map, on landmarks by randomly pivoted Cholesky if it needs landmarks.
    fn map(&self, text: &str) {
        let spec: MapSpec = text.parse().expect("a map");
        let d = self.data.source.shape().input_count;
        let workers = self.data.pass.workers;
        for rank in self.ranks.chunks(1) {
            let start = Instant::now();
            let (map, passes, evaluations) = match spec.constructor::<f64>() {
                // an exact kernel has no approximation error
                MapConstructor::ExactKernel => return,
                MapConstructor::DataIndependent(make) => {
                    let made =
                        make(&DataIndependentMapArgs { spec: &spec, kernel: &self.spec, d, rank: rank[0], seed: 0 });
                    // the map does not support this kernel
                    let Ok(map) = made else { return };
                    (map, 0, 0)
                }
                MapConstructor::FromLandmarks(make) => {
                    let ask = kapprox::map::MapRequest {
                        d,
                        rank: rank[0],
                        candidate_count: self.data.row_count as usize,
                        element_bytes: 8,
                    };
                    let count = spec.shape(ask).expect("a map").landmark_count.unwrap_or(rank[0]);
                    let scheme = landmark::by_name("rpcholesky").expect("a scheme").typed::<f64>();
                    let set = scheme.select(&self.data, &self.kernel, count, 0).expect("landmarks");
                    let (passes, evaluations) = (set.passes + spec.build_passes(), set.evaluations);
                    let (kernel, data, seed, rank) = (&self.kernel, &self.data, 0, rank[0]);
                    let given = LandmarkMapArgs {
                        spec: &spec,
                        kernel,
                        landmarks: set,
                        rank,
                        keeps_order: true,
                        scan: data,
                        seed,
                        workers,
                    };
                    (make(given).expect("a map"), passes, evaluations)
                }
            };
            let whole = [map.dims().1];
            self.line(text, &whole, &*map, (start.elapsed().as_secs_f64(), passes, evaluations));
        }
    }
}

fn table(name: &str, rows: &[Vec<f64>], kernel: &str, ranks: &[usize], wanted: &[String]) {
    let (n, d) = (rows.len(), rows[0].len());
    let source = MemoryRows::new(flat(rows), d).expect("rows");
    let workers = Workers::new(2);
    let data = TableScan { source: &source, pass: Pass::new(2304, 1 << 20, &workers), row_count: n as u64 };
    let spec = Kernel::parse(kernel).expect("a kernel");
    let built = spec.build().expect("a kernel");
    let ranks = ranks.iter().copied().filter(|rank| *rank <= n).collect();
    let case = Case { data, spec, kernel: built, ranks };
    println!("\n{name}, {n} x {d}, {kernel}\n");
    println!(
        "{:18} {:>5} {:>10} {:>10} {:>8} {:>6} {:>13}",
        "", "rank", "trace", "Frobenius", "seconds", "passes", "evaluations"
    );
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for scheme in landmark::registry().into_iter().filter(|scheme| is_wanted(scheme.name)) {
        case.scheme(scheme.name);
    }
    for family in
        kapprox::map::registry().into_iter().filter(|family| family.name != "nystrom" && is_wanted(family.name))
    {
        case.map(family.name);
    }
}

pub(crate) fn main(arguments: &[String]) {
    let list = |i: usize| arguments.get(i).map_or(Vec::new(), |text| text.split(',').map(str::to_string).collect());
    let Some(name) = arguments.first() else {
        table("smile", &smile(400, &mut Lcg(1)), "gaussian(sigma=2)", &[10, 20], &[]);
        table("smile", &smile(400, &mut Lcg(1)), "polynomial(degree=2)", &[10], &["sketch".to_string()]);
        return;
    };
    let rows = match name.as_str() {
        "smile" => Some(smile(10_000, &mut Lcg(1))),
        "robspiral" => Some(robspiral(10_000)),
        other => real(other, arguments.get(4).and_then(|n| n.parse().ok()).unwrap_or(u64::MAX)),
    };
    let Some(rows) = rows else { return };
    let sigma = arguments.get(1).map_or("1", String::as_str);
    let ranks: Vec<usize> = list(2).iter().filter_map(|rank| rank.parse().ok()).collect();
    let ranks = if ranks.is_empty() { vec![50, 100, 200, 500, 1000] } else { ranks };
    table(name, &rows, &format!("gaussian(sigma={sigma})"), &ranks, &list(3));
}
