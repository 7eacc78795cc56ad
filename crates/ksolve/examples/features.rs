//! Features for another learner: fits a feature map, saves it, and computes phi of new rows.
//!
//! `cargo run --release -p ksolve --example features`

use ksolve::job::{Fit, Run};
use ksolve::predict::Predictor;
use kstore::Table;

fn main() -> ksolve::Result<()> {
    let (n, d) = (5000, 4);
    let x: Vec<f32> = (0..n * d).map(|i| ((i * 7919 % 1000) as f32 / 500.0) - 1.0).collect();
    let table = Table::from_rows(&x, d, &vec![0.0; n])?;
    let without_target = kstore::Selection { features: vec!["x*".to_string()], ..Default::default() };
    let fitted = Fit::solver("features")?.rank(200).run(&table.select(&without_target)?, &Run::new())?;
    println!("{} features, {:?}", fitted.report.rank, fitted.report.certificate);

    let map = Predictor::new(fitted.model)?;
    let mut phi = vec![0.0; 10 * map.output_count()];
    map.predict(&x[..10 * d], &mut phi)?;
    println!("phi of the first row begins with {:?}", &phi[..3]);
    Ok(())
}
