//! Mean of every column of a table of any size, in the memory of a few tiles.
//!
//! `cargo run --release -p kstore --example column_mean -- rows.parquet`

use kstore::{Pass, ReadSettings, RowSource, Selection, StatisticsReduction, Table, Workers, budget};

fn main() -> kstore::Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let table = Table::open(&paths)?; // files, folders or patterns of any format
    let rows = table.select(&Selection::default())?.rows::<f64>(ReadSettings::default())?;
    let workers = Workers::sequential();
    let pass = Pass { lane_count: 2, ..Pass::new(4096, 65_536, &workers) };
    let (statistics, report) = pass.reduce(&rows, &StatisticsReduction::new(rows.shape()))?;
    for (name, column) in rows.selected().feature_names().iter().zip(&statistics.inputs) {
        println!("{name:<12} {:.6}", column.mean);
    }
    let peak = budget::peak_rss().map_or("unknown".to_string(), budget::format_bytes);
    println!("{} rows, peak memory {peak}", report.rows);
    Ok(())
}
