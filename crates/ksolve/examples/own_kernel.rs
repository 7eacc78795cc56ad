//! A custom kernel and landmark scheme, registered by name: they fit, save, load and predict.

use kapprox::kernel::{self, KernelFamily, pointwise};
use kapprox::landmark::{self, LandmarkRule, LandmarkSet, RpCholesky, Scheme, TableScan, Uniform};
use kapprox::{AnyKernel, Real, Result};
use ksolve::job::LandmarkSource;
use ksolve::job::{Fit, Run};
use ksolve::predict::Predictor;
use std::sync::Arc;

/// Kernel of the time of day, period 24 h: 1 at a difference of whole days, 0 at half a day.
static DAILY: KernelFamily = KernelFamily::new("daily", "(1 + cos(2 pi (x-z)/24))/2", "daily()", |text, _| {
    pointwise(text, |x, z| ((x[0] - z[0]) * std::f64::consts::TAU / 24.0).cos() / 2.0 + 0.5)
});

/// Scheme that selects half of the landmarks by residual and half uniformly at random.
#[derive(Debug)]
struct Half;
static HALF: Scheme = Scheme::new("half", "half by residual, half by chance", &Half);

impl<T: Real> LandmarkRule<T> for Half {
    fn select(&self, rows: &TableScan<'_, T>, k: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>> {
        Ok(RpCholesky.select(rows, k, m / 2, seed)?.concat(Uniform.select(rows, k, m - m / 2, seed)?))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    kernel::register(&DAILY)?;
    landmark::register(&HALF)?;
    let hours: Vec<f64> = (0..3000).map(f64::from).collect();
    let night: Vec<f64> = hours.iter().map(|hour| f64::from(u8::from(hour % 24.0 < 6.0))).collect();
    let fit = Fit::ridge().scaling("none".parse()?).kernel("power(daily(), degree=9)".parse()?).rank(40);
    let fit = fit.landmarks(LandmarkSource::Scheme("half".into()));
    let fitted = fit.fit_table(&kstore::Table::from_rows(&hours, 1, &night)?, &["y"], &Run::new())?;
    let model = Predictor::from_bytes(&Predictor::new(fitted.model)?.to_bytes()?)?;
    let mut out = [0.0; 2];
    model.predict(&[3003.0, 3012.0], &mut out)?;
    println!("at 3 in the morning {:.2}, at noon {:.2}", out[0], out[1]);
    Ok(())
}
