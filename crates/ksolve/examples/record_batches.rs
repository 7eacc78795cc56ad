//! Arrow record batches as they come from another library: text is a label, nothing is copied.
//!
//! `cargo run --release -p ksolve --example record_batches`

use ksolve::job::{Fit, Run};
use ksolve::predict::Predictor;
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
    let table = Table::from_batches(vec![batch(0)?, batch(500)?])?;
    let fitted = Fit::solver("logistic")?.rank(50).on(&table, &["ring"], &Run::new())?;
    let model = Predictor::new(fitted.model)?;
    let mut scores = vec![0.0; model.outputs()];
    for point in [[0.9, 0.1], [0.0, -2.1]] {
        model.predict(&point, &mut scores)?;
        println!("{point:?} is {:?}", model.label(&scores).map(ToString::to_string));
    }
    Ok(())
}
