//! Arrow record batches from another library: text labels, no copy.
//!
//! `cargo run --release -p ksolve --example record_batches`

use ksolve::Logistic;
use kstore::Table;
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let angle = |i: usize| i as f64 * 0.37;
    let batch = |from: usize| -> Result<RecordBatch, kstore::arrow::error::ArrowError> {
        let radius = |i: usize| if i.is_multiple_of(2) { 1.0 } else { 2.0 };
        let x = Float64Array::from_iter_values((from..from + 500).map(|i| radius(i) * angle(i).cos()));
        let y = Float64Array::from_iter_values((from..from + 500).map(|i| radius(i) * angle(i).sin()));
        let ring =
            StringArray::from_iter_values((from..from + 500).map(|i| if i % 2 == 0 { "inner" } else { "outer" }));
        RecordBatch::try_from_iter([("x", Arc::new(x) as ArrayRef), ("y", Arc::new(y)), ("ring", Arc::new(ring))])
    };
    let model = Logistic::new().rank(50).fit(&Table::from_batches(vec![batch(0)?, batch(500)?])?, "ring")?;
    let rows = batch(1000)?;
    let (labels, chances) = (model.predict(&rows)?, model.predict_proba(&rows)?);
    for i in 0..4 {
        println!("row {i} is {} with probability {:.2}", labels[i], chances[(i, 0)].max(chances[(i, 1)]));
    }
    let truth = |i: usize| if i.is_multiple_of(2) { "inner" } else { "outer" };
    assert!((0..500).all(|i| labels[i].to_string() == truth(i)));
    Ok(())
}
