//! A service: predicts one row at a time in microseconds, without allocating.
//!
//! `kmill demo --keep d`, then rows as CSV on stdin:
//! `cut … | cargo run --release -p ksolve --example service -- d/model.safetensors`

use ksolve::predict::Predictor;
use std::io::{BufRead, Write};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Predictor::load(Path::new(&std::env::args().nth(1).ok_or("give a model")?))?;
    let (mut scratch, mut out) = (model.scratch(), vec![0.0; model.output_count()]);
    let mut answers = std::io::stdout().lock();
    let mut row = Vec::with_capacity(model.feature_count());
    for line in std::io::stdin().lock().lines() {
        row.clear();
        for value in line?.split(',') {
            row.push(value.trim().parse::<f64>()?);
        }
        model.predict_with_scratch(&row, &mut out, &mut scratch)?;
        match model.label(&out) {
            Some(label) => writeln!(answers, "{label}")?,
            None => writeln!(answers, "{out:?}")?,
        }
    }
    Ok(())
}
