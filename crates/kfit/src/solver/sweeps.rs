//! Sweeps over the rows in order, for solvers that learn row by row.

use crate::Result;
use crate::features::{FitData, StoredFeatures, Tile};
use kapprox::{Real, vectorised};
use kstore::checkpoint::{Persist, Steps};

/// The state after some sweeps over the rows, and the loss of each sweep.
#[derive(Clone)]
pub(super) struct Swept<S> {
    pub(super) state: S,
    pub(super) losses: Vec<f64>,
}

kstore::persist!(where [S: Persist] Swept<S> { part "state": state, read "losses": losses });

/// Learns in sweeps over all rows, in order, while a function of the losses so far returns true.
///
/// `learn` updates the state with a tile and returns the loss of the tile. A resumed run continues
/// after its last complete sweep.
pub(super) fn sweep<T: Real, S: Persist + Clone + Send>(
    kept: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    fresh: impl Fn() -> S,
    goes_on: impl Fn(&[f64]) -> bool,
    learn: impl Fn(&mut S, &Tile<'_, T>) -> Result<f64> + Sync,
) -> Result<Swept<S>> {
    let fresh = || Swept { state: fresh(), losses: Vec::new() };
    let (mut steps, mut swept) = Steps::begin(data.resources.journal, "sweeps", fresh);
    while goes_on(&swept.losses) {
        let stage = data.resources.stages.stage("sweep", Some(data.rows));
        let (mut next, mut loss) = (swept.clone(), 0.0);
        let visited = kept.visit(&*stage, |tile: &Tile<'_, T>| {
            loss += learn(&mut next.state, tile)?;
            Ok(())
        });
        if let Err(error) = visited {
            steps.keep(&swept);
            return Err(error);
        }
        next.losses.push(loss);
        swept = next;
        steps.after(&swept);
    }
    Ok(swept)
}

/// Computes wᵀφ + c, in eight interleaved sums.
pub(super) fn score<T: Real>(w: &[f64], phi: &[T]) -> f64 {
    let (w, c) = w.split_at(phi.len());
    let mut sums = [0.0; 8];
    vectorised!({
        for (w, phi) in w.chunks(8).zip(phi.chunks(8)) {
            for ((sum, w), v) in sums.iter_mut().zip(w).zip(phi) {
                *sum += w * kstore::Real::to_f64(*v);
            }
        }
    });
    sums.iter().sum::<f64>() + c[0]
}
