//! Kernel ridge regression on slices: train, save, load, predict.
//!
//! `cargo run --release -p ksolve --example slice`

use ksolve::job::{Fit, Run};
use ksolve::predict::Predictor;
use kstore::Table;

fn main() -> ksolve::Result<()> {
    let x: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0).collect();
    let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    let path = std::env::temp_dir().join("slice.safetensors");

    let fitted = Fit::ridge().rank(100).on(&Table::from_rows(&x, 1, &y)?, &["y"], &Run::new())?;
    println!("{}", fitted.report);
    fitted.save(&path)?;

    let model = Predictor::load(&path)?;
    let mut out = [0.0; 3];
    model.predict(&[1.0, 2.0, 3.0], &mut out)?;
    println!("sin 1, 2, 3 = {out:.3?}");
    assert!(out.iter().zip([0.841, 0.909, 0.141]).all(|(found, truth)| (found - truth).abs() < 1e-3));
    Ok(())
}
