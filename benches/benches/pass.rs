//! Passes over generated tables: column sums from Parquet and `.npy`, with one and two lanes.
//!
//! `cargo bench -p kmill-benches -- pass`; throughput is in rows.

#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros; a bench that cannot go on fails")]

use criterion::{BenchmarkId, Criterion, Throughput};
use kmill_benches::{ColumnSums, FEATURES};
use kstore::pass::NoObserver;
use kstore::{OutputColumn, OutputKind, OutputValues, Pass, ReadSettings, Scaler, Selection, Table, Workers, sink};
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 1 << 19;
const BATCH: usize = 1 << 14;

fn generate(path: &Path) {
    let columns: Vec<_> = (0..FEATURES).map(|i| OutputColumn::new(format!("x{i}"), OutputKind::F32)).collect();
    let mut out = sink::create(path, &columns).unwrap();
    for start in (0..ROWS).step_by(BATCH) {
        let columns = kmill_benches::columns(start..start + BATCH);
        out.write(&columns.iter().map(|column| OutputValues::F32(column)).collect::<Vec<_>>()).unwrap();
    }
    out.finish().unwrap();
}

pub(crate) fn passes(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let workers = Workers::sequential();
    let mut group = criterion.benchmark_group("pass");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    for format in ["parquet", "npy"] {
        let path = folder.path().join("rows").with_extension(format);
        generate(&path);
        let selected = Table::open(&[path]).unwrap().select(&Selection::default()).unwrap();
        let half = vec![0.5; FEATURES];
        let (centre, scale) = (half.clone(), half.clone());
        let scaler = Some(Arc::new(Scaler { centre, scale, mean: half, asinh: false, knots: Vec::new() }));
        let rows = selected.rows::<f32>(ReadSettings { scaler, ..ReadSettings::default() }).unwrap();
        for lanes in [1, 2] {
            let pass = Pass {
                tile_rows: 2048,
                segment_rows: 1 << 16,
                lane_count: lanes,
                prefetch_tiles: 2,
                workers: &workers,
                observer: &NoObserver,
                journal: None,
            };
            group.bench_function(BenchmarkId::new(format, lanes), |b| {
                b.iter(|| pass.reduce(&rows, &ColumnSums).unwrap())
            });
        }
    }
    group.finish();
}
