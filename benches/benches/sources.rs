//! The Gram pass of a ridge fit from every source, alternating with the same pass from memory.
//!
//! `cargo bench -p kmill-benches -- sources [ROWS RANK]`. From Parquet it should take at most 1.10
//! times as long as from memory, since decoding runs ahead of the products.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use kapprox::kernel::Kernel;
use kapprox::{LandmarkSet, NystromMap};
use kmodel::{Folds, MomentReduction, Targets};
use ksolve::FoldSpec;
use kstore::key::{Purpose, Stream};
use kstore::pass::NoObserver;
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{MemoryRows, Pass, ReadSettings, RowSource, Selection, Table, Workers};
use std::path::Path;
use std::time::Instant;

const FEATURES: usize = 32;
const BATCH: usize = 1 << 16;
const ROUNDS: usize = 3;

fn value(row: usize, column: usize) -> f32 {
    (Stream::new(0, Purpose::Data, column as u64).uniform(row as u64) * 3.4 - 1.7) as f32
}

fn write(path: &Path, rows: usize) {
    let name = |j| if j == FEATURES { "y".to_string() } else { format!("x{j}") };
    let columns: Vec<_> = (0..=FEATURES).map(|j| OutputColumn::new(name(j), OutputKind::F32)).collect();
    let mut out = sink::create(path, &columns).unwrap();
    for start in (0..rows).step_by(BATCH) {
        let end = (start + BATCH).min(rows);
        let values: Vec<Vec<f32>> = (0..=FEATURES).map(|j| (start..end).map(|row| value(row, j)).collect()).collect();
        out.write(&values.iter().map(|column| OutputValues::F32(column)).collect::<Vec<_>>()).unwrap();
    }
    out.finish().unwrap();
}

pub(crate) fn main(arguments: &[String]) {
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<usize>().ok());
    // a test runs on little data
    let (n, m) = if !kmill_benches::measuring() {
        (4_000, 20)
    } else {
        (numbers.next().unwrap_or(400_000), numbers.next().unwrap_or(1000))
    };
    let folder = tempfile::tempdir().unwrap();
    let kernel = Kernel::parse("gaussian(sigma=5)").unwrap().build().unwrap();
    let points: Vec<f32> = (0..m * FEATURES).map(|i| value(n + i / FEATURES, i % FEATURES)).collect();
    let landmarks =
        LandmarkSet { points, row_numbers: (0..m as u64).collect(), d: FEATURES, passes: 0, evaluations: 0 };
    let map = NystromMap::new(&kernel, landmarks, &Workers::sequential()).unwrap();
    let folds = Folds::new(&FoldSpec::None, 0, 0..n as u64, &[]).unwrap();
    let targets = Targets::Numeric { centre: vec![0.0] };
    let fold = MomentReduction::new(&map, &folds, &targets).with_bin_rows(2304);
    let workers = Workers::new(2);
    let seconds = |source: &dyn RowSource<f32>| {
        let pass = Pass {
            tile_rows: 2304,
            segment_rows: 32 * 2304,
            lane_count: 1,
            prefetch_tiles: 2,
            workers: &workers,
            observer: &NoObserver,
            journal: None,
        };
        let start = Instant::now();
        pass.reduce(source, &fold).unwrap();
        start.elapsed().as_secs_f64()
    };
    let x: Vec<f32> = (0..n * FEATURES).map(|i| value(i / FEATURES, i % FEATURES)).collect();
    let y = (0..n).map(|row| f64::from(value(row, FEATURES))).collect();
    let memory = MemoryRows::new(x, FEATURES).unwrap().with_targets(y, 1).unwrap();
    println!(
        "{n} rows x {FEATURES}, rank {m}, 2 threads: seconds of the Gram pass from memory, from the file, and their ratio"
    );
    for extension in ["parquet", "arrow", "csv"] {
        let path = folder.path().join("rows").with_extension(extension);
        write(&path, n);
        let table = Table::open(&[&path]).unwrap();
        let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
        let rows = table.select(&selection).unwrap().rows::<f32>(ReadSettings::default()).unwrap();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(seconds(&memory));
            times[1].push(seconds(&rows));
        }
        let [a, b] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!("{extension:<8} {a:8.3} {b:8.3} {:6.3}", b / a);
    }
}
