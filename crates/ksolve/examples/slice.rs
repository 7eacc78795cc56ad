//! Kernel ridge regression on slices: train, save, load, predict.
//!
//! `cargo run --release -p ksolve --example slice`

use ksolve::{Kernel, Predictor, Ridge};

fn main() -> ksolve::Result<()> {
    let x: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0).collect(); // one column
    let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    let path = std::env::temp_dir().join("slice.safetensors");

    let model = Ridge::new().kernel(Kernel::gaussian(0.5)).rank(100).fit(&x, &y)?;
    println!("{}", model.report());
    model.save(&path)?;

    // A loaded model predicts slices too
    let loaded = Predictor::load(&path)?;
    let mut out = [0.0; 3];
    loaded.predict(&[1.0, 2.0, 3.0], &mut out)?;
    println!("sin 1, 2, 3 = {out:.3?}");
    assert_eq!(model.predict(&[1.0, 2.0, 3.0])?, out);
    assert!(out.iter().zip([0.841, 0.909, 0.141]).all(|(found, truth)| (found - truth).abs() < 1e-3));
    Ok(())
}
