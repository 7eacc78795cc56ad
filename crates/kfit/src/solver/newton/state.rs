//! The state of the iteration, and its checkpoint.

use faer::Mat;
use kstore::checkpoint::{Arrays, Persist, StoredArrays};

#[derive(Default)]
pub(super) struct NewtonState {
    pub(super) w: Vec<f64>,
    pub(super) initial_gradient_norm: f64,
    pub(super) current_lambda: f64,
    /// Number of steps at the requested lambda.
    pub(super) final_steps: usize,
    pub(super) passes: u64,
    /// Number of iterations of the last step.
    pub(super) iteration_count: usize,
    /// The point where the blocks of the Hessian were computed, and the number of the step; empty
    /// if the preconditioner does not consist of blocks.
    pub(super) blocks_point: Vec<f64>,
    pub(super) blocks_step: usize,
    /// Factors of the preconditioner, which a resumed run computes again; not saved.
    pub(super) factors: Vec<Mat<f64>>,
}

impl NewtonState {
    /// Restores what the preconditioner depends on, so that a resumed run repeats the step.
    pub(super) fn undo_step(&mut self, step: usize, iteration_count: usize) {
        self.iteration_count = iteration_count;
        if self.blocks_step == step {
            self.blocks_point.clear();
        }
    }
}

impl Persist for NewtonState {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("w", &self.w);
        out.put_owned("scalars", vec![self.initial_gradient_norm, self.current_lambda]);
        out.put_owned("counts", vec![self.final_steps as u64, self.passes]);
        out.put("blocks point", &self.blocks_point);
        out.put_owned("blocks counts", vec![self.blocks_step as u64, self.iteration_count as u64]);
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        from.fill("w", &mut self.w)?;
        let (mut scalars, mut counts) = ([0.0; 2], [0u64; 2]);
        from.fill("scalars", &mut scalars)?;
        from.fill("counts", &mut counts)?;
        [self.initial_gradient_norm, self.current_lambda] = scalars;
        (self.final_steps, self.passes) = (counts[0] as usize, counts[1]);
        self.blocks_point = from.read("blocks point")?;
        let mut blocks_counts = [0u64; 2];
        from.fill("blocks counts", &mut blocks_counts)?;
        (self.blocks_step, self.iteration_count) = (blocks_counts[0] as usize, blocks_counts[1] as usize);
        Ok(())
    }
}
