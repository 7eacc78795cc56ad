//! Sweeps, for solvers that learn row by row. A sweep is a pass that visits the rows in order and
//! updates the state after each row.

use crate::Result;
use crate::features::{FitData, StoredFeatures, Tile};
use kapprox::{Real, vectorised};
use kstore::checkpoint::{Persist, Steps};

/// The state after some sweeps over the rows, and the loss of each sweep.
#[derive(Clone)]
pub(super) struct SweepState<S> {
    pub(super) state: S,
    pub(super) losses: Vec<f64>,
}

kstore::persist!(where [S: Persist] SweepState<S> { part "state": state, read "losses": losses });

/// Learns in sweeps over all rows, in order, as long as `should_continue` returns true for the
/// losses of the past sweeps.
///
/// `learn` must update the state with the rows of a tile, and return their loss. A resumed run
/// continues after the last complete sweep.
pub(super) fn run_sweeps<T: Real, S: Persist + Clone + Send>(
    features: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    initial_state: impl Fn() -> S,
    should_continue: impl Fn(&[f64]) -> bool,
    learn: impl Fn(&mut S, &Tile<'_, T>) -> Result<f64> + Sync,
) -> Result<SweepState<S>> {
    let initial = || SweepState { state: initial_state(), losses: Vec::new() };
    let (mut steps, mut sweep_state) = Steps::begin(data.resources.journal, "sweeps", initial);
    while should_continue(&sweep_state.losses) {
        let stage = data.resources.stage_observer.start_stage("sweep", Some(data.n));
        let (mut next_state, mut loss) = (sweep_state.clone(), 0.0);
        let result = features.visit(&*stage, |tile: &Tile<'_, T>| {
            loss += learn(&mut next_state.state, tile)?;
            Ok(())
        });
        if let Err(error) = result {
            steps.save_before_stop(&sweep_state);
            return Err(error);
        }
        next_state.losses.push(loss);
        sweep_state = next_state;
        steps.record_step(&sweep_state);
    }
    Ok(sweep_state)
}

/// Computes wᵀφ + c. `w` contains the weights, followed by the intercept c. The sum is split into
/// eight interleaved sums, which are vectorised.
pub(super) fn score<T: Real>(w: &[f64], phi: &[T]) -> f64 {
    let (w, c) = w.split_at(phi.len());
    let mut sums = [0.0; 8];
    vectorised!({
        for (w, phi) in w.chunks(8).zip(phi.chunks(8)) {
            for ((sum, w), v) in sums.iter_mut().zip(w).zip(phi) {
                *sum += w * kstore::Float::to_f64(*v);
            }
        }
    });
    sums.iter().sum::<f64>() + c[0]
}
