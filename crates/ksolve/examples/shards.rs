//! Kernel ridge regression on shards: each shard is reduced to statistics where it is stored, and
//! the merged statistics give the model of all rows.
//!
//! `cargo run --release -p ksolve --example shards`

use ksolve::job::{Fit, Run};
use ksolve::shards::{PreparedJob, merge};
use kstore::{Selection, Table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x: Vec<f64> = (0..100_000).map(|i| f64::from(i % 2000) / 100.0).collect();
    let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    let table = |from: usize, to: usize| Table::from_rows(&x[from..to], 1, &y[from..to]);
    let (folder, run) = (tempfile::tempdir()?, Run::new());
    let path = |name: &str| folder.path().join(name);

    let fit = Fit::ridge().rank(50);
    let selection = fit.complete_selection(Selection { targets: vec!["y".into()], ..Selection::default() })?;
    let job = PreparedJob::prepare(&fit, &table(0, x.len())?, &selection, &run, &path("job"))?;

    // on one machine, and on another
    let cut = 12_345;
    let (first, rest) = (table(0, cut)?, table(cut, x.len())?);
    let (cut, all) = (cut as u64, job.stored_rows());
    job.statistics(&first.part_of(all, 0)?, 0..cut, &run, &path("first"))?;
    job.statistics(&rest.part_of(all, cut)?, cut..all, &run, &path("rest"))?;

    merge(&[path("rest"), path("first")], &[], &path("all"))?;
    job.solve(&path("all"), &run)?.save(&path("model"))?;
    fit.fit_table(&table(0, x.len())?, &["y"], &run)?.save(&path("whole"))?;
    assert!(std::fs::read(path("model"))? == std::fs::read(path("whole"))?);
    Ok(())
}
